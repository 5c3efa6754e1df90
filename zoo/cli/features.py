"""``zoo features`` and ``zoo features export``: features of images, computed once, and as files for others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from ..cards.answers import make_table
from ..cards.catalogue import load_catalogue
from . import CommandWithVerbs, Verb
from .engine_options import (
    EngineOptions,
    add_engine_options,
    build_engine,
    build_setting,
    list_report_notes,
    open_recorded_run,
    rebuild_command,
)
from .measure_options import (
    IMAGES_HELP,
    SPLIT_OPTIONS,
    add_image_options,
    build_featurising,
    describe_images,
    list_skipped_notes,
    open_any_labelled,
    require_images_exist,
    split_words,
)
from .options import (
    GroupedOption,
    add_options,
    complete_encoder_names,
    get_given_options,
    parse_number_ranges,
    reject_unused_options,
)
from .output import add_json_option, print_json, print_notes, print_table

if TYPE_CHECKING:
    from ..datasets import ImageData
    from ..features.exporting import ExportResult
    from ..features.maps import MapGrid
    from ..features.running import RunReport
    from ..features.store import FeatureIndex, Features

_EXAMPLES = """\b
Examples:
  zoo features dino_vitS16 ./photos --npy photos.npy           # any images, with classes or without
  zoo features dino_vitS16 one.jpg two.jpg --parquet both.parquet
  zoo features dino_vitS16@cls+avg /data/imagenet --dataset imagenet-1k --to features --workers 8
  zoo features dino_vitS16 ./birds --maps --layers 9,11 --px 448 --components 64 --store float16
  zoo features dino_vitS16 mae_vitB16 ./birds --to s3://bucket/features --on local:4
  zoo features dino_vitS16 mae_vitB16 ./birds --to /shared/features --part 7/64
"""

_HOW = {"parquet": "As Parquet, a row per image", "npy": "As NumPy's array, with names and origin in OUT.json"}
_OUT_OPTIONS = [
    click.option(
        f"--{kind}",
        metavar="OUT",
        type=click.Path(path_type=Path),
        help=f"{how}: the file, if it ends with .{kind}, for one encoder; else a folder that gets a file for each.",
    )
    for kind, how in _HOW.items()
]

_map_option = partial(click.option, cls=GroupedOption, group="Maps", is_common=True)
_MAP_OPTIONS = [
    _map_option("--maps", "is_map", is_flag=True, help="Features of every patch in place of one vector per image."),
    _map_option(
        "--layers",
        metavar="N,...",
        callback=parse_number_ranges,
        help="Blocks of the maps, from 0 or, as -1, from the end; one pass for all.  [default: what is pooled]",
    ),
    _map_option("--px", type=click.IntRange(1), help="Side of the images of maps.  [default: the card's]"),
    _map_option(
        "--components",
        "n_components",
        metavar="K",
        type=click.IntRange(1),
        help="Maps on K principal components of the training patches; the share of their variance is said.",
    ),
    _map_option("--class-token", is_flag=True, help="Maps with the class token, before the patches."),
]
_OF_MAPS = ("layers", "px", "n_components", "class_token")
_NOT_OF_MAPS = ("on", "part", "parquet", "npy", "backend")

VERBS = {"export": Verb("features", "Write features as Parquet or NumPy's arrays, for others.")}


@click.command("features", cls=CommandWithVerbs, verbs=VERBS, epilog=f"{IMAGES_HELP}\n\n{_EXAMPLES}")
@click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=complete_encoder_names)
@click.argument("images", metavar="IMAGES...", callback=require_images_exist)
@add_image_options
@click.option(
    "--split",
    "parts",
    type=click.Choice(["train", "val", "both"]),
    default="both",
    show_default=True,
    help="Which images.",
)
@add_engine_options
@(lambda command: add_options(command, _OUT_OPTIONS))
@(lambda command: add_options(command, _MAP_OPTIONS))
@add_json_option
def features_command(names: tuple[str, ...], images: str, parts: str, as_json: bool, **options: Any) -> None:
    """Compute features of images, once.

    IMAGES are image files; folders, of which all images at any depth are taken where they show no classes; or one image
    set, with labels or without. The features of an encoder are written shard by shard; the same command goes on where
    it stopped, and does nothing if all is there. `zoo probe` and `zoo decompose` take the folders. --parquet and --npy
    also write them for others, with the names of the images: of a set without parts in its order, and not split. With
    --maps they are those of every patch, which this process computes for one layer or several.
    """
    from ..evaluation.evaluating import PARTS

    names, given = split_words((*names, images))
    ids = list(dict.fromkeys(load_catalogue().id_of(name) for name in names))
    is_map, of_maps = options.pop("is_map"), {name: options.pop(name) for name in _OF_MAPS}
    if not is_map:
        reject_unused_options(_OF_MAPS, "features are of whole images", remedy=", or add --maps")
    else:
        because = "maps are computed by this process with PyTorch, and stored as features"
        reject_unused_options(_NOT_OF_MAPS, because)
    outs = {kind: out for kind in ("parquet", "npy") if (out := options.pop(kind)) is not None}
    for kind, out in outs.items():
        from ..features.exporting import require_target

        require_target(out, kind, n_encoders=len(ids))
    is_asked, engine = options["skip_corrupt"] is not None, build_engine(options)
    data = open_any_labelled(
        given, options, is_new=bool(outs) and not {"parts", *SPLIT_OPTIONS} & get_given_options().keys()
    )
    options["skip_corrupt"] |= not (is_asked or data.train.classes)
    wanted = ("all",) if data.is_whole else PARTS if parts == "both" else (parts,)
    if is_map:
        _show_maps(ids, data, wanted, engine, options, of_maps, as_json=as_json)
        return
    done = _by_run if len(ids) > 1 or engine.is_used or engine.stored != "float32" else _by_this_process
    found, report = done(ids, data, wanted, engine, given, options)
    is_complete = all(index is not None for *_, index in found)
    exported = _exported(outs, [where for _, _, where, _ in found]) if outs and is_complete else []
    of_images, notes = describe_images(data, has_intervals=False)
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
        document |= _files_document(exported) if outs else {}
        if report is not None:
            document["run"] = {**report.as_dict(), "place": str(engine.where), "engine": engine.shown}
        print_json(document)
    else:
        rows = []
        for name, part, where, index in found:
            counts = ["not complete", ""] if index is None else [f"{_n_rows(index):,}", f"{index.dim:,}"]
            rows.append([*[name] * (not is_alone), part, *counts, where])
        headers = [*["encoder"] * (not is_alone), "part", "images", "dimensions", "folder"]
        print_table(make_table(headers, rows, numbers=[len(headers) - 3, len(headers) - 2]))
        of = {part: "" if data.is_whole else f"{part}: " for part in wanted}
        skipped = [f"{of[part]}{one.image}" for _, part, _, index in found if index for one in index.skipped]
        of_run = [] if report is None else list_report_notes(report, engine)
        waiting = ["no file was written, for not all features are complete"] * bool(outs and not exported)
        print_notes([*of_run, *waiting, *list_skipped_notes(list(dict.fromkeys(skipped)), n_named=10), *notes])
        if exported:
            _print_files(exported)
    if report is not None and report.failures:
        first = report.failures[0]
        raise click.ClickException(
            f"{len(report.failed)} of {len(ids)} encoders could not be finished; the first, {first.encoder!r} "
            f"({first.part}): {first.sentence.rstrip('.')}. See them all with: zoo runs why {engine.where} {report.run}"
        )


def _show_maps(
    ids: list[str],
    data: ImageData,
    parts: tuple[str, ...],
    engine: EngineOptions,
    options: dict[str, Any],
    of_maps: dict[str, Any],
    *,
    as_json: bool,
) -> None:
    """Computes maps of encoders, one after the other, and says where they are and how they are read."""
    from ..features.maps import featurise_maps, parse_map_grid
    from ..progress import ProgressBar

    how = build_featurising(options)
    asked = of_maps | {"layers": of_maps["layers"] or (None,)}
    found: list[tuple[str, str, Features, MapGrid, int]] = []
    for name in ids:
        maps = featurise_maps(
            name,
            data,
            root=engine.where,
            how=how,
            stored=engine.stored,
            parts=parts,
            progress=lambda part: ProgressBar("images"),
            **asked,
        )
        for representation, of_parts in maps.items():
            grid = parse_map_grid(representation)
            found += [(name, part, one, grid, _count_bytes(one)) for part, one in of_parts.items()]
    of_images, notes = describe_images(data, has_intervals=False)
    if as_json:
        records = [
            {
                "encoder": name,
                "part": part,
                "folder": one.where,
                "n_images": len(one),
                "map": one.origin.representation,
                **asdict(grid),
                "n_places": grid.n_places,
                "stored": engine.stored,
                "bytes": n_bytes,
                "skipped": [skipped.image for skipped in one.skipped],
            }
            for name, part, one, grid, n_bytes in found
        ]
        print_json({"dataset": data.name, "maps": records} | of_images)
        return
    rows = [
        [*[name] * (len(ids) > 1), part, f"{len(one):,}", one.origin.representation, f"{n_bytes / 1e6:,.1f}", one.where]
        for name, part, one, grid, n_bytes in found
    ]
    headers = [*["encoder"] * (len(ids) > 1), "part", "images", "map", "MB", "folder"]
    print_table(make_table(headers, rows, numbers=[len(headers) - 4, len(headers) - 2]))
    skipped = list(dict.fromkeys(one.image for _, _, features, _, _ in found for one in features.skipped))
    reading = (
        "read them with zoo.features.load_features(FOLDER): x has a row per image, and "
        "zoo.features.iterate_maps(features) gives them by image, place and channel"
    )
    print_notes([reading, *list_skipped_notes(skipped, n_named=10), *notes])


def _count_bytes(features: Features) -> int:
    """What complete features take where they are."""
    from ..features.store import read_index
    from ..storage import resolve_place

    index = read_index(resolve_place(features.where))
    return 0 if index is None else sum(shard.size_bytes for shard in index.shards)


Found: TypeAlias = tuple[str, str, str, "FeatureIndex | None"]
"""Encoder, part, where its features are, and their index; None if they are not complete."""


def _by_this_process(
    ids: list[str],
    data: ImageData,
    parts: tuple[str, ...],
    engine: EngineOptions,
    images: list[str],
    options: dict[str, Any],
) -> tuple[list[Found], None]:
    """Features of one encoder, as the library's function computes them."""
    from ..evaluation.evaluating import featurise_data
    from ..features.store import read_index
    from ..progress import ProgressBar
    from ..storage import resolve_place

    assert engine.folder is not None
    how = build_featurising(options)
    found = featurise_data(
        ids[0], data, root=engine.folder, how=how, parts=parts, progress=lambda part: ProgressBar("images")
    )
    folders = {part: str(features.folder) for part, features in found.items()}
    return [(ids[0], part, folder, read_index(resolve_place(folder))) for part, folder in folders.items()], None


def _by_run(
    ids: list[str],
    data: ImageData,
    parts: tuple[str, ...],
    engine: EngineOptions,
    images: list[str],
    options: dict[str, Any],
) -> tuple[list[Found], RunReport]:
    """Features of several encoders, or by an engine: item by item, with a record."""
    from ..features.running import build_run_spec, run_features
    from ..features.store import read_index
    from ..features.work_items import locate_features
    from ..progress import ProgressBar

    setting, resources = build_setting(images, data, options, engine), engine.resources(options["device"])
    asked = build_run_spec(setting, ids, data, parts, resources=resources, command=rebuild_command(*images))
    with open_recorded_run(engine, asked, options["device"]) as (workers, journal):
        report = run_features(setting, ids, data, parts, workers, journal, ProgressBar("images"), resources=resources)
    found: list[Found] = []
    for name in ids:
        for part in parts:
            place = locate_features(setting, name, getattr(data, part))
            index = read_index(place) if (name, part) in report.complete else None
            found.append((name, part, place.shown, index))
    return found, report


def _n_rows(index: FeatureIndex) -> int:
    return sum(shard.n_rows for shard in index.shards)


_EXPORT_EXAMPLES = """\b
Examples:
  zoo features export features/dino_vitS16/features/birds-train-* --parquet birds.parquet
  zoo features export features/dino_vitS16/features/* --parquet birds
"""


@click.command("export", epilog=_EXPORT_EXAMPLES)
@click.argument("places", metavar="FOLDER...", nargs=-1, required=True)
@(lambda command: add_options(command, _OUT_OPTIONS))
@add_json_option
def features_export_command(places: tuple[str, ...], parquet: Path | None, npy: Path | None, as_json: bool) -> None:
    """Write features as Parquet, or as NumPy's arrays with JSON, for others.

    FOLDER has complete features, as 'zoo features' prints it, and may be an address. Each becomes one file, the parts
    of a data set may become one together, with features, label and image; its origin is in the metadata, under the key
    zoo. An existing file of features is replaced.
    """
    outs = {kind: out for kind, out in (("parquet", parquet), ("npy", npy)) if out is not None}
    if not outs:
        raise click.UsageError("Missing option '--parquet' or '--npy'.")
    exported = _exported(outs, places)
    if as_json:
        print_json(_files_document(exported))
    else:
        _print_files(exported)


def _exported(outs: Mapping[str, Path], places: Sequence[str]) -> list[ExportResult]:
    from ..features.exporting import export_features
    from ..progress import ProgressBar

    return [
        one for kind, out in outs.items() for one in export_features(places, out, kind, progress=ProgressBar("images"))
    ]


def _files_document(exported: Sequence[ExportResult]) -> dict[str, Any]:
    sizes = [{"n_images": one.n_rows, "dim": one.dim, "row_groups": one.n_groups} for one in exported]
    files = [{"features": one.where, "file": str(one.path), "bytes": one.size_bytes} for one in exported]
    return {"files": [file | size for file, size in zip(files, sizes, strict=True)]}


def _print_files(exported: Sequence[ExportResult]) -> None:
    rows = [[str(one.path), f"{one.n_rows:,}", f"{one.dim:,}", f"{one.size_bytes / 1e6:,.1f}"] for one in exported]
    print_table(make_table(["file", "images", "dimensions", "MB"], rows, numbers=[1, 2, 3]))
    how = {".parquet": "pandas.read_parquet", ".npy": "numpy.load, and the names of OUT.npy.json with json.load"}
    print_notes(f"read {kind} with {how[kind]}" for kind in dict.fromkeys(one.path.suffix for one in exported))
