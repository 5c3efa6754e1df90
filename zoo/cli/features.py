"""``zoo features`` and ``zoo features export``: features of labelled images, computed once, and as Parquet."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from ..cards.catalogue import catalogue
from . import CommandWithVerbs, Verb
from .engine_options import Engine, command_again, engine_of, engine_options, recorded_run, report_notes, setting_of
from .measure_options import IMAGES_HELP, about_images, featurising, image_options, opened, skipped_notes
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

VERBS = {"export": Verb("features", "Write features as Parquet, for others.")}


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

    The features of an encoder are written shard by shard; the same command goes on where it stopped, and does nothing
    if all is there. `zoo probe` and `zoo decompose` take the folders.
    """
    from ..evaluation.evaluating import PARTS

    ids = list(dict.fromkeys(catalogue().id_of(name) for name in names))
    engine = engine_of(options)
    data = opened(images, options, takes_numbers=True)
    wanted = PARTS if parts == "both" else (parts,)
    done = _by_run if len(ids) > 1 or engine.is_used or engine.stored != "float32" else _by_this_process
    found, report = done(ids, data, wanted, engine, images, options)
    of_images, notes = about_images(data, has_intervals=False)
    is_alone = len(ids) == 1
    if as_json:
        documents = []
        for name in ids:
            records = [
                {
                    "part": part,
                    "folder": where,
                    "n_images": None if index is None else _n_rows(index),
                    "dim": None if index is None else index.dim,
                    "skipped": [] if index is None else [skipped.image for skipped in index.skipped],
                }
                for encoder, part, where, index in found
                if encoder == name
            ]
            documents.append({"encoder": name, "dataset": data.name, "features": records} | of_images)
        document = documents[0] if is_alone else {"encoders": documents}
        if report is not None:
            document["run"] = {**report.as_dict(), "place": str(engine.where), "engine": engine.shown}
        print_json(document)
    else:
        rows = []
        for name, part, where, index in found:
            counts = ["not complete", ""] if index is None else [f"{_n_rows(index):,}", f"{index.dim:,}"]
            rows.append([*[name] * (not is_alone), part, *counts, where])
        headers = [*["encoder"] * (not is_alone), "part", "images", "dimensions", "folder"]
        print_table(headers, rows, right=[len(headers) - 3, len(headers) - 2])
        skipped = [f"{part}: {one.image}" for _, part, _, index in found if index is not None for one in index.skipped]
        of_run = [] if report is None else report_notes(report, engine)
        print_notes([*of_run, *skipped_notes(list(dict.fromkeys(skipped)), n_named=10), *notes])
    if report is not None and report.failures:
        first = report.failures[0]
        raise click.ClickException(
            f"{len(report.failed)} of {len(ids)} encoders could not be finished; the first, {first.encoder!r} "
            f"({first.part}): {first.sentence.rstrip('.')}. See them all with: zoo runs why {engine.where} {report.run}"
        )


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
    how = featurising(options)
    found = featurise_data(ids[0], data, root=engine.folder, how=how, parts=parts, progress=lambda part: Bar("images"))
    folders = {part: str(features.folder) for part, features in found.items()}
    return [(ids[0], part, folder, read_index(place_at(folder))) for part, folder in folders.items()], None


def _by_run(
    ids: list[str], data: ImageData, parts: tuple[str, ...], engine: Engine, images: str, options: dict[str, Any]
) -> tuple[list[Found], RunReport]:
    """Features of several encoders, or by an engine: item by item, with a record."""
    from ..features.items import place_of
    from ..features.running import asked_for, run_features
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


def _n_rows(index: Index) -> int:
    return sum(shard.n_rows for shard in index.shards)


_EXPORT_EXAMPLES = """\b
Examples:
  zoo features export features/dino_vitS16/features/birds-train-* --parquet birds.parquet
  zoo features export features/dino_vitS16/features/* --parquet birds
"""


@click.command("export", epilog=_EXPORT_EXAMPLES)
@click.argument("places", metavar="FOLDER...", nargs=-1, required=True)
@click.option(
    "--parquet",
    "out",
    metavar="OUT",
    required=True,
    type=click.Path(path_type=Path),
    help="The file, if it ends with .parquet, for one FOLDER; else a folder that gets a file for each.",
)
@json_option
def features_export_command(places: tuple[str, ...], out: Path, as_json: bool) -> None:
    """Write features as Parquet, for others.

    FOLDER has complete features, as 'zoo features' prints it, and may be an address. Each becomes one file with the
    columns features, label and image; its origin is in the metadata, under the key zoo. An existing file is replaced.
    """
    from ..features.exporting import export_parquet
    from ..progress import Bar

    done = export_parquet(places, out, progress=Bar("images"))
    if as_json:
        files = [
            {"features": one.where, "file": str(one.path), "n_images": one.n_rows, "dim": one.dim}
            | {"row_groups": one.n_groups, "bytes": one.size_bytes}
            for one in done
        ]
        print_json({"files": files})
        return
    rows = [[str(one.path), f"{one.n_rows:,}", f"{one.dim:,}", f"{one.size_bytes / 1e6:,.1f}"] for one in done]
    print_table(["file", "images", "dimensions", "MB"], rows, right=[1, 2, 3])
    print_notes(["read one with: pandas.read_parquet, datasets.load_dataset('parquet', data_files=...), or pyarrow"])
