"""``zoo features``: features of labelled images, in this process or on many workers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from ..cards.catalogue import catalogue
from .default_command import CommandWithVerbs, Verb
from .engine_options import (
    Engine,
    command_again,
    engine_of,
    engine_options,
    failure_sentence,
    recorded_run,
    report_notes,
    setting_of,
)
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

if TYPE_CHECKING:
    from ..datasets import ImageData
    from ..features.running import RunReport
    from ..features.store import Index

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
    from ..evaluation.evaluating import PARTS

    ids = list(dict.fromkeys(catalogue().id_of(name) for name in names))
    engine = engine_of(options)
    data = opened(images, options)
    wanted = PARTS if parts == "both" else (parts,)
    done = _by_run if len(ids) > 1 or engine.is_used or engine.stored != "float32" else _by_this_process
    found, report = done(ids, data, wanted, engine, images, options)
    copies, groups = copies_between(data), groups_between(data)
    of_images = {
        "images": images_document(data),
        "copies": copies_document(copies),
        "groups": groups_document(groups),
    }
    documents = [
        {"encoder": name, "dataset": data.name, "features": [_record(*one) for one in found if one[0] == name]}
        | of_images
        for name in ids
    ]
    run = None if report is None else {**report.as_dict(), "place": str(engine.where), "engine": engine.shown}
    if as_json:
        document = documents[0] if len(ids) == 1 else {"encoders": documents}
        print_json(document if run is None else document | {"run": run})
    else:
        _print(found, alone=len(ids) == 1)
        notes = notes_on([data.train if part == "train" else data.val for part in wanted]) + copies_notes(copies)
        notes += groups_notes(groups, has_intervals=False) + _skipped(found, alone=len(ids) == 1)
        print_notes(notes + ([] if report is None else report_notes(report, engine)))
    if report is not None and report.failures:
        raise click.ClickException(failure_sentence(report, len(ids), engine))


Found: TypeAlias = tuple[str, str, str, "Index | None"]
"""Encoder, part, where its features are, and their index; None if they are not complete."""


def _by_this_process(
    ids: list[str], data: ImageData, parts: tuple[str, ...], engine: Engine, images: str, options: dict[str, Any]
) -> tuple[list[Found], None]:
    """Features of one encoder, as the library's function computes them."""
    from ..evaluation.evaluating import featurise_data
    from ..features.store import read_index
    from ..progress import Bar
    from ..storage import place_at

    assert engine.folder is not None
    found = featurise_data(
        ids[0],
        data,
        root=engine.folder,
        how=featurising(options),
        parts=parts,
        progress=lambda part: Bar("images"),
    )
    folders = {part: str(features.folder) for part, features in found.items()}
    return [(ids[0], part, folder, read_index(place_at(folder))) for part, folder in folders.items()], None


def _by_run(
    ids: list[str], data: ImageData, parts: tuple[str, ...], engine: Engine, images: str, options: dict[str, Any]
) -> tuple[list[Found], RunReport]:
    """Features of several encoders, or by an engine: item by item, with a record."""
    from ..features.running import asked_for, place_of, run_features
    from ..features.store import read_index
    from ..progress import Bar

    setting, resources = setting_of(images, data, options, engine), engine.resources(options["device"])
    asked = asked_for(setting, ids, data, parts, resources=resources, command=command_again(images))
    with recorded_run(engine, asked, options["device"]) as (workers, journal):
        report = run_features(setting, ids, data, parts, workers, journal, Bar("images"), resources=resources)
    found: list[Found] = []
    for name in ids:
        for part in parts:
            place = place_of(setting, name, data.train if part == "train" else data.val)
            index = read_index(place) if (name, part) in report.complete else None
            found.append((name, part, place.shown, index))
    return found, report


def _record(name: str, part: str, where: str, index: Index | None) -> dict[str, Any]:
    """Features as JSON."""
    return {
        "part": part,
        "folder": where,
        "n_images": None if index is None else _n_rows(index),
        "dim": None if index is None else index.dim,
        "skipped": [] if index is None else [skipped.image for skipped in index.skipped],
    }


def _n_rows(index: Index) -> int:
    return sum(shard.n_rows for shard in index.shards)


def _print(found: Sequence[Found], *, alone: bool) -> None:
    rows = []
    for name, part, where, index in found:
        counts = ["not complete", ""] if index is None else [f"{_n_rows(index):,}", f"{index.dim:,}"]
        rows.append([*([] if alone else [name]), part, *counts, where])
    headers = [*([] if alone else ["encoder"]), "part", "images", "dimensions", "folder"]
    print_table(headers, rows, right=[len(headers) - 3, len(headers) - 2])


def _skipped(found: Sequence[Found], *, alone: bool) -> list[str]:
    """A note on images that could not be read: the same ones for all encoders."""
    images = [f"{part}: {one.image}" for _, part, _, index in found if index is not None for one in index.skipped]
    return skipped_notes(list(dict.fromkeys(images)), n_named=10)
