"""``zoo features``: the features of an image set, once, in a folder that later steps read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from .image_options import IMAGES_HELP, featurising, image_options, images_document, opened
from .measured import copies_notes
from .options import encoder_names
from .output import json_option, print_json, print_notes, print_table

_EPILOG = """\b
Examples:
  zoo features pocket_simclr_rn_shapes shapes
  zoo features dino_vitS16@cls+avg /data/imagenet --dataset imagenet-1k --out features --workers 8
"""


@click.command("features", epilog=f"{IMAGES_HELP}\n\n{_EPILOG}")
@click.argument("name", metavar="NAME", shell_complete=encoder_names)
@click.argument("images", metavar="IMAGES")
@image_options
@click.option(
    "--part",
    "parts",
    type=click.Choice(["train", "val", "both"]),
    default="both",
    show_default=True,
    help="Which images.",
)
@click.option(
    "--out",
    "root",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where the folders of features go.  [default: in the cache]",
)
@json_option
def command(
    name: str, images: str, parts: str, root: Path | None, as_json: bool, **options: Any
) -> None:  # fmt: skip
    """Compute features of labelled images, once.

    The features of an encoder are written shard by shard; the same command goes on where it was if it was stopped, and
    does nothing if all is there. `zoo probe` and `zoo decompose` take the folders.
    """
    from ..datasets.contents import copies_of
    from ..datasets.imagefiles import notes_on
    from ..evaluation.featurising import PARTS, evaluations_folder, featurise_data
    from ..features import Bar

    data = opened(images, options)
    wanted = PARTS if parts == "both" else (parts,)
    found = featurise_data(
        name, data, root=root or evaluations_folder(), how=featurising(options), parts=wanted,
        progress=lambda part: Bar(),
    )  # fmt: skip
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
    copies = copies_of(data.train.contents, data.train.labels, data.val.contents, data.val.labels)
    if as_json:
        print_json(
            {
                "encoder": found[wanted[0]].origin.encoder,
                "dataset": data.name,
                "features": records,
                "images": images_document(data),
                "copies": None if copies is None else copies.as_dict(),
            }
        )
        return
    rows = [[part, f"{len(one.y):,}", f"{one.dim:,}", str(one.folder)] for part, one in found.items()]
    print_table(["part", "images", "dimensions", "folder"], rows, right=[1, 2])
    left_out = [f"{part}: {skipped.image}" for part, features in found.items() for skipped in features.skipped]
    notes = notes_on([data.train if part == "train" else data.val for part in wanted]) + copies_notes(copies)
    if left_out:
        notes.append(f"{len(left_out):,} images could not be read and were left out: {', '.join(left_out[:10])}")
    print_notes(notes)
