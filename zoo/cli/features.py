"""``zoo features``: features of labelled images, in this process or on many workers."""

from __future__ import annotations

from typing import Any

import click

from ..cards.catalogue import catalogue
from .default_command import CommandWithVerbs, Verb
from .engine_options import engine_of, engine_options
from .measure_options import (
    IMAGES_HELP,
    copies_between,
    copies_document,
    copies_notes,
    featurising,
    groups_between,
    groups_document,
    groups_notes,
    image_options,
    images_document,
    opened,
    skipped_notes,
)
from .options import encoder_names
from .output import json_option, print_json, print_notes, print_table

_EXAMPLES = """\b
Examples:
  zoo features pocket_simclr_rn_shapes shapes
  zoo features dino_vitS16@cls+avg /data/imagenet --dataset imagenet-1k --to features --workers 8
  zoo features dino_vitS16 mae_vitB16 ./birds --to s3://bucket/features --on local:4
  zoo features dino_vitS16 mae_vitB16 ./birds --to /shared/features --part 7/64
"""

VERBS = {"export": Verb("features_export", "Write features as Parquet, for others.")}


@click.command("features", cls=CommandWithVerbs, verbs=VERBS, epilog=f"{IMAGES_HELP}\n\n{_EXAMPLES}")
@click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=encoder_names)
@click.argument("images", metavar="IMAGES")
@image_options
@click.option(
    "--split",
    "parts",
    type=click.Choice(["train", "val", "both"]),
    default="both",
    show_default=True,
    help="Which images.",
)
@engine_options
@json_option
def features_command(names: tuple[str, ...], images: str, parts: str, as_json: bool, **options: Any) -> None:
    """Compute features of labelled images, once.

    The features of an encoder are written shard by shard; the same command goes on where it was if it was stopped, and
    does nothing if all is there. `zoo probe` and `zoo decompose` take the folders.
    """
    from ..datasets.imagefiles import notes_on
    from ..evaluation.evaluating import PARTS, featurise_data
    from ..progress import Bar

    ids = list(dict.fromkeys(catalogue().id_of(name) for name in names))
    engine = engine_of(options)
    data = opened(images, options)
    wanted = PARTS if parts == "both" else (parts,)
    assert engine.folder is not None
    found = featurise_data(
        ids[0],
        data,
        root=engine.folder,
        how=featurising(options),
        parts=wanted,
        progress=lambda part: Bar("images"),
    )
    records = [
        {
            "part": part,
            "folder": str(features.folder),
            "n_images": len(features.y),
            "dim": features.dim,
            "skipped": [skipped.image for skipped in features.skipped],
        }
        for part, features in found.items()
    ]
    copies, groups = copies_between(data), groups_between(data)
    if as_json:
        print_json(
            {
                "encoder": found[wanted[0]].origin.encoder,
                "dataset": data.name,
                "features": records,
                "images": images_document(data),
                "copies": copies_document(copies),
                "groups": groups_document(groups),
            }
        )
        return
    rows = [[part, f"{len(one.y):,}", f"{one.dim:,}", str(one.folder)] for part, one in found.items()]
    print_table(["part", "images", "dimensions", "folder"], rows, right=[1, 2])
    notes = notes_on([data.train if part == "train" else data.val for part in wanted]) + copies_notes(copies)
    notes += groups_notes(groups, has_intervals=False)
    skipped = [f"{part}: {one.image}" for part, features in found.items() for one in features.skipped]
    print_notes(notes + skipped_notes(skipped, n_named=10))
