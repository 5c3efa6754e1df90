"""``zoo predict``: classes and probabilities of images, by a probe that ``zoo evaluate --save`` has kept."""

from __future__ import annotations

import csv
import io
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..cards.answers import make_table
from ..errors import DataError, QueryError, StoreError, UnknownName, format_count
from ..files import escape_csv_cell, replace_file
from .evaluation_output import print_classification, print_regression, print_tagging
from .measure_options import (
    BACKEND_OPTION,
    DATA_OPTIONS,
    PAGE_OPTIONS,
    RUN_OPTIONS,
    SIDES,
    SPLIT_OPTIONS,
    list_skipped_notes,
    log_image_sources,
    open_labelled_images,
    open_unlabelled_files,
    reject_unused_columns,
    reject_unused_scale,
    require_images_exist,
    require_page_at,
    select_source_options,
)
from .options import FoldedCommand, add_options, get_given_options, reject_unused_options
from .output import add_json_option, log_progress, print_json, print_notes, print_table

if TYPE_CHECKING:
    from ..datasets import ImageData, ImageSet
    from ..evaluation.classification import ClassificationMetrics, TaggingMetrics
    from ..evaluation.regression import RegressionMetrics
    from ..evaluation.saved_probes import Predictions, SavedProbe

_MOST_COUNTED = 20  # classes in the table of how many images are predicted as each
_EXAMPLES = """\b
Examples:
  zoo evaluate dino_vitS16 ./birds --save birds-probe
  zoo predict birds-probe ./new-photos --out predictions.csv
  zoo predict birds-probe one.jpg another.jpg
  zoo predict birds-probe ./birds/val --out val.csv            # folders named as classes: metrics too
  zoo predict leaves-probe ./new-photos --out masks            # of zoo segment --save: a mask per image
"""
_IMAGES_HELP = """\b
IMAGES are image files; folders, of which all images at any depth are taken; or one image set of the zoo (digits,
FILE.csv, FILE.npz, torchvision:..., huggingface:...; 'zoo evaluate --help' lists them all).
"""


@click.command("predict", cls=FoldedCommand, epilog=f"{_IMAGES_HELP}\n\n{_EXAMPLES}")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.argument("images", metavar="IMAGES...", nargs=-1, required=True, callback=require_images_exist)
@click.option(
    "--out",
    metavar="FILE.csv|DIR",
    type=click.Path(path_type=Path),
    help="Where path, predicted class and the probability of each class go; of numbers path and prediction; the folder "
    "of masks.  [default: a short table is printed]",
)
@click.option(
    "--split",
    "part",
    type=click.Choice(list(SIDES)),
    default="val",
    show_default=True,
    help="Of an image set of the zoo; of a new one without parts, all images unless this is given.",
)
@(
    lambda command: add_options(command, [*PAGE_OPTIONS, *DATA_OPTIONS[1:], *RUN_OPTIONS, BACKEND_OPTION])
)  # without --dataset
@click.option("--skip-corrupt", is_flag=True, help="Go on without images that cannot be read, and name them.")
@add_json_option
def predict_command(
    folder: Path,
    images: tuple[str, ...],
    out: Path | None,
    part: str,
    page: Path | None,
    hides_images: bool,
    skip_corrupt: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Classify images by a saved probe, or predict their numbers.

    DIR is what `zoo evaluate --save` wrote. If the images have labels, by the folders that they lie in or in their
    image set, the metrics of the predictions are printed too. --page shows mistakes, the least sure images and the most
    sure ones of each class. A probe of `zoo segment --save` predicts masks, which go into the folder --out at the size
    of each image: PNG with a palette, whose indices are the classes; of depth NPY.
    """
    from ..datasets.notes import describe_decoding
    from ..evaluation.saved_probes import load_probe
    from ..progress import ProgressBar

    require_page_at(page)
    probe = load_probe(folder)
    if probe.kind in ("masks", "depth"):
        reject_unused_options(("page", "hides_images", "backend"), f"the probe predicts {probe.kind}")
        _predict_maps(folder, probe, images, options, out, part=part, skips=skip_corrupt, as_json=as_json)
        return
    if out is not None and out.is_dir():
        raise QueryError(f"Got --out {out}, a folder; expected a file, as predictions.csv.")
    is_number = probe.kind == "numbers"
    if is_number:
        reject_unused_options(("page",), "a probe of numbers confuses no classes, which a page shows")
    if "background" not in get_given_options():
        options["background"] = probe.background
    how = {name: options.pop(name) for name in ("batch_size", "n_workers", "device", "backend")}
    asked = _open_inputs(images, probe, options, part=part)
    parts: list[Predictions] = []
    log_progress(f"{format_count(len(asked.images), 'image')} through {probe.encoder}")
    with _written(out, probe) as rows:

        def keep(found: Predictions) -> None:
            parts.append(found)
            if rows is not None:
                for name, predicted, shares in _each([found]):
                    cells = [f"{share:.6g}" for share in shares]
                    rows.writerow([escape_csv_cell(name), *([] if is_number else [escape_csv_cell(predicted)]), *cells])

        probe.predict_images(asked.images, progress=ProgressBar("images"), keep=keep, skip_corrupt=skip_corrupt, **how)
    skipped = [one.image for found in parts for one in found.skipped]
    counts = Counter(predicted for found in parts for predicted in found.predicted)
    metrics = _metrics(probe, asked, parts)
    if page is not None:
        _write_page(page, probe, asked, parts, counts, None if hides_images else asked.images)
    if as_json:
        document = {
            "probe": str(folder),
            "encoder": probe.encoder,
            "kind": probe.kind,
            "n_images": sum(counts.values()),
            "predicted": None if is_number else dict(counts.most_common()),
            "skipped": skipped,
            "out": None if out is None else str(out),
            "page": None if page is None else str(page),
            "metrics": None if metrics is None else metrics.as_dict(),
            "trained_on_these": asked.is_trained_on,
            "split_otherwise": asked.is_split_otherwise,
            "note": asked.why or None,
            "images": {side.split: side.reading.as_dict() for side in asked.sides},
        }
        if out is None:
            document["predictions"] = [
                {"path": name}
                | (
                    {"prediction": shares[0]}
                    if is_number
                    else {"predicted": predicted, "probabilities": dict(zip(probe.classes, shares, strict=True))}
                )
                for name, predicted, shares in _each(parts)
            ]
        print_json(document)
        return
    if is_number:
        if out is None:
            print_table(
                make_table(["path", probe.classes[0]], [[name, text] for name, text, _ in _each(parts)], numbers=[1])
            )
        written = f"{sum(counts.values()):,} numbers{'' if out is None else f' written to {out}'}"
    elif out is None:
        table = [[name, predicted or "(none)", f"{100 * max(shares):.1f}"] for name, predicted, shares in _each(parts)]
        print_table(make_table(["path", "predicted", "percent"], table, numbers=[2]))
        written = "percent: the largest probability; --out FILE.csv has all of them"
    else:
        most = counts.most_common(_MOST_COUNTED)
        print_table(
            make_table(["predicted", "images"], [[name or "(none)", f"{count:,}"] for name, count in most], numbers=[1])
        )
        written = f"{sum(counts.values()):,} predictions written to {out}"
    if metrics is not None:
        kinds: dict[str, Any] = {"tags": print_tagging, "numbers": print_regression}
        kinds.get(probe.kind, print_classification)(metrics, "These predictions")
    print_notes([*_warnings(asked), written, *list_skipped_notes(skipped, n_named=10), *describe_decoding(asked.sides)])


def _predict_maps(
    folder: Path,
    probe: SavedProbe,
    images: Sequence[str],
    options: dict[str, Any],
    out: Path | None,
    *,
    part: str,
    skips: bool,
    as_json: bool,
) -> None:
    """Masks or depth of images: files in a folder, and what they hold as a table or JSON."""
    import numpy as np

    from ..evaluation.segmentation_runs import predict_maps
    from ..features.work_items import FeaturisingOptions
    from ..progress import ProgressBar

    if out is not None and out.exists() and not out.is_dir():
        raise QueryError(f"Got --out {out}, a file; expected a folder for {probe.kind}.")
    if "background" not in get_given_options():
        options["background"] = probe.background
    how = {name: options.pop(name) for name in ("batch_size", "n_workers", "device")}
    options.pop("backend")
    asked = _open_inputs(images, probe, options, part=part)
    targets = _name_masks(asked.images.names, ".png" if probe.kind == "masks" else ".npy")
    records, pixels = list[dict[str, Any]](), np.zeros(len(probe.classes), np.int64)
    log_progress(f"{format_count(len(asked.images), 'image')} through {probe.encoder}")
    chosen = FeaturisingOptions(skip_corrupt=skips, **how)
    for name, predicted in predict_maps(probe, asked.images, how=chosen, progress=lambda _: ProgressBar("images")):
        of_image = {"path": name, "height": predicted.shape[0], "width": predicted.shape[1]}
        if probe.kind == "masks":
            counts = np.bincount(predicted.reshape(-1), minlength=len(pixels))
            pixels += counts
            there = np.flatnonzero(counts).tolist()
            of_image["percent"] = {probe.classes[c]: 100 * float(counts[c] / predicted.size) for c in there}
        else:
            of_image |= {"least": float(predicted.min()), "most": float(predicted.max())}
        if out is not None:
            of_image["written"] = str(_write_map(out / targets[name], predicted, probe.kind))
        records.append(of_image)
    if as_json:
        document = {"probe": str(folder), "encoder": probe.encoder, "kind": probe.kind, "classes": list(probe.classes)}
        where = {"out": None if out is None else str(out), "n_images": len(records)}
        print_json(document | where | {"predictions": records})
        return
    _print_maps(probe, records, pixels)
    notes = _warnings(asked)
    if n := len(asked.images) - len(records):
        notes.append(f"{format_count(n, 'image')} could not be read and left out")
    written = f"{format_count(len(records), 'file')} written to {out}" if out else f"--out DIR keeps the {probe.kind}"
    print_notes([written, *notes])


def _name_masks(names: Sequence[str], ending: str) -> dict[str, str]:
    """A path below the folder of masks for each image: with another ending, or a further one where two would be one."""
    plain = {name: "/".join(one for one in name.split("/") if one not in ("", ".", "..")) for name in names}
    stems = Counter(os.path.splitext(path)[0] for path in plain.values())
    return {
        name: (path if stems[os.path.splitext(path)[0]] > 1 else os.path.splitext(path)[0]) + ending
        for name, path in plain.items()
    }


def _write_map(path: Path, predicted: Any, kind: str) -> Path:
    import numpy as np

    from ..looking.masks_page import make_mask_image

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replace_file(path) as file:
            np.save(file, predicted) if kind == "depth" else make_mask_image(predicted).save(file, "PNG")
    except OSError as error:
        raise StoreError(
            f"The prediction cannot be written to {path} ({error.strerror or error}); make room or name another folder."
        ) from error
    return path


def _print_maps(probe: SavedProbe, records: Sequence[dict[str, Any]], pixels: Any) -> None:
    """Which classes the masks hold; of depth the ends of each image."""
    if probe.kind == "depth":
        rows = [[one["path"], f"{one['least']:.3g}", f"{one['most']:.3g}"] for one in records]
        print_table(make_table(["path", "least", "most"], rows[:_MOST_COUNTED], numbers=[1, 2]))
        return
    n_with = Counter(name for one in records for name in one["percent"])
    order = sorted(range(len(pixels)), key=lambda c: -pixels[c])[:_MOST_COUNTED]
    rows = [
        [probe.classes[c], f"{100 * pixels[c] / max(pixels.sum(), 1):.1f}", f"{n_with[probe.classes[c]]:,}"]
        for c in order
        if pixels[c]
    ]
    print_table(make_table(["class", "pixels %", "images"], rows, numbers=[1, 2]))


def _write_page(
    page: Path,
    probe: SavedProbe,
    asked: _PredictionInput,
    parts: Sequence[Predictions],
    counts: Counter[str],
    shown: ImageSet | None,
) -> None:
    from ..looking import mistakes_page
    from ..looking.pages import write_page

    names, p, y = _known(probe, asked, parts)
    many = [[name or "(none)", f"{count:,}"] for name, count in counts.most_common(_MOST_COUNTED)]
    answer = "No image is readable."
    if names:
        answer = f"{format_count(len(names), 'image')}, {many[0][1]} of them predicted as {many[0][0]}."
    if names and y is not None and probe.kind == "classes":
        n_wrong = int((p.argmax(axis=1) != y).sum())
        answer = f"{n_wrong:,} of {len(names):,} images are predicted wrongly: {100 * n_wrong / len(names):.1f} %."
    text = mistakes_page.render_mistakes_page(
        f"Predictions of {probe.encoder} on {asked.images.name}",
        [answer],
        mistakes_page.build_prediction_sections(
            names, probe.classes, p, y, is_tags=probe.kind == "tags", images=None if shown is None else {"val": shown}
        ),
        tables=[make_table(["predicted", "images"], many, numbers=[1], title="Images by predicted class")],
        notes=_warnings(asked),
        facts=f"Probe trained on {probe.about.get('dataset', 'other images')}.",
    )
    write_page(text, page)


def _each(parts: Iterable[Predictions]) -> Iterator[tuple[str, str, list[float]]]:
    """Name, predicted class and probabilities of each image."""
    for part in parts:
        yield from zip(part.names, part.predicted, part.probabilities.tolist(), strict=True)


def _warnings(asked: _PredictionInput) -> list[str]:
    notes = [asked.why] * bool(asked.why)
    if asked.is_trained_on:
        notes.append("the probe was trained on these images: metrics on them are optimistic")
    if asked.is_split_otherwise:
        notes.append(
            "these images are split otherwise than when the probe was trained, which may have seen some of them: "
            "give the options used then (--group, --val-share, --split-seed)"
        )
    return notes


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _PredictionInput:
    """The images to classify, and their labels where they are known."""

    images: ImageSet
    sides: Sequence[ImageSet]  # the parts of a set that they are
    labels: dict[str, str] | None  # class, or tags, by name of the image
    groups: dict[str, int] | None  # by name of the image
    why: str  # how labels are known, or why not; may be empty
    is_trained_on: bool = False
    is_split_otherwise: bool = False  # the images of the training, in other parts


def _open_inputs(
    arguments: Sequence[str], probe: SavedProbe, options: dict[str, Any], *, part: str
) -> _PredictionInput:
    from ..datasets.sources import open_any_images

    scale = probe.scale if options["scale"] is None else options["scale"]
    found = open_unlabelled_files(arguments, options | {"scale": scale})
    if found is None:
        return _of_zoo(arguments[0], probe, options, part=part)
    images, paths = found
    labels = {
        name: os.path.basename(os.path.dirname(os.path.abspath(path)))
        for name, path in zip(images.names, paths, strict=True)
    }
    if options["fold_labels"]:
        labels = dict(zip(labels, _as_known(labels.values(), probe.classes), strict=True))
    if probe.kind == "classes" and set(labels.values()) <= set(probe.classes):
        why, seen = "labels are the names of the images' folders", False
        if len(images) >= probe.about.get("n_train", 0):  # or not all that it was trained on are there
            data = open_any_images(arguments, **select_source_options({"dataset": None, **options, "scale": scale}))
            whole = [part.fingerprint for part in (data.train, data.all) if part is not None]
            seen = probe.about.get("images_hash", {}).get("train") in whole
        return _PredictionInput(images=images, sides=[images], labels=labels, groups=None, why=why, is_trained_on=seen)
    return _PredictionInput(images=images, sides=[images], labels=None, groups=None, why="")


def _of_zoo(text: str, probe: SavedProbe, options: dict[str, Any], *, part: str) -> _PredictionInput:
    """Images of an image set of the zoo: their part to test on, or all of a set without parts that are new."""
    from ..datasets.folders import join_parts
    from ..datasets.sources import is_table

    asked = {"dataset": None, **options}
    if probe.kind == "tags" and is_table(text) and not asked["label_columns"]:
        asked["multi_label"] = True
    if is_table(text) and asked["label_kind"] is None:
        asked["label_kind"] = "number" if probe.kind == "numbers" else "class"
    hashes = probe.about.get("images_hash", {})

    try:
        sides, data, why = _sides(text, asked, part, known=set(hashes.values()))
        has_values = any(one.values for side in sides for one in side.reading.stored.values())
        if asked["scale"] is None and probe.scale is not None and has_values:
            asked |= {"scale": probe.scale}
            sides, data, why = _sides(text, asked, part, known=set(hashes.values()))
    except UnknownName as error:
        raise QueryError(
            f"There is no file, folder or image set {text!r}; expected image files and folders, or one image set of "
            "the zoo ('zoo evaluate --help' lists them)."
        ) from error
    images = join_parts(sides)
    known = sides[0].classes if not asked["fold_labels"] else _as_known(sides[0].classes, probe.classes)
    is_labelled = (
        bool(known)
        and bool(sides[0].tags) == (probe.kind == "tags")
        and (set(probe.classes) <= set(sides[0].tags) if sides[0].tags else set(known) <= set(probe.classes))
    )
    if probe.kind == "numbers":
        is_labelled = sides[0].target == probe.classes[0]
    if not is_labelled:
        what = probe.kind
        if not known:
            why = next((note for note in sides[0].reading.notes if note.startswith("without labels")), "")
        else:
            why += "; " * bool(why) + f"no metrics, for the labels of {images.name} are no {what} of the probe"
        return _PredictionInput(images=images, sides=sides, labels=None, groups=None, why=why)
    labels = dict(zip(images.names, (known[int(one)] for one in images.labels), strict=True))
    groups = None if images.groups is None else dict(zip(images.names, images.groups.tolist(), strict=True))
    return _PredictionInput(
        images=images,
        sides=sides,
        labels=labels,
        groups=groups,
        why=why,
        is_trained_on=any(side.fingerprint == hashes.get("train") for side in sides),
        is_split_otherwise=images.name == probe.about.get("dataset")
        and not {data.train.fingerprint, data.val.fingerprint} & set(hashes.values()),
    )


def _sides(text: str, asked: dict[str, Any], part: str, *, known: set[str]) -> tuple[list[ImageSet], ImageData, str]:
    """The images that are meant, the set that they are of, and a note on which they are."""
    from ..datasets.sources import open_any_images, open_images

    if {"part", *SPLIT_OPTIONS} & get_given_options().keys():
        data = open_labelled_images(text, asked, takes_numbers=True)
        return [getattr(data, one) for one in SIDES[part]], data, ""
    reject_unused_columns(text)
    data = open_any_images(text, is_new=True, **select_source_options(asked))
    reject_unused_scale(data)
    if data.is_whole and data.train.classes:
        with suppress(DataError):  # what cannot be split was not trained on
            split = open_images(text, **select_source_options(asked))
            data = split if known & {split.train.fingerprint, split.val.fingerprint} else data
    log_image_sources([data.train, data.val])
    if data.is_whole:
        return [data.train], data, ""
    sides = [getattr(data, one) for one in SIDES[part]]
    return sides, data, f"these are the images of {text} to test on; --split both takes all"


def _as_known(labels: Iterable[str], classes: Sequence[str]) -> tuple[str, ...]:
    """Labels as the classes of the probe spell them."""
    from ..datasets.labels import normalise_label

    spelled = {normalise_label(name): name for name in classes}
    return tuple(spelled.get(normalise_label(label), label) if label not in classes else label for label in labels)


@contextmanager
def _written(out: Path | None, probe: SavedProbe) -> Iterator[Any]:
    """A writer of rows to a file that appears whole or not at all; None without a file."""
    if out is None:
        yield None
        return
    try:
        with replace_file(out) as file:
            text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
            rows = csv.writer(text)
            names = ["predicted", *(f"p_{name}" for name in probe.classes)]
            rows.writerow(["path", *(["prediction"] if probe.kind == "numbers" else names)])
            yield rows
            text.detach()
    except OSError as error:
        raise StoreError(
            f"The predictions cannot be written to {out} ({error.strerror or error}); make room or name another file."
        ) from error


def _known(probe: SavedProbe, asked: _PredictionInput, parts: Sequence[Predictions]) -> tuple[list[str], Any, Any]:
    """Names of the images that could be read, their probabilities, and their labels (n,) or tags, or None."""
    import numpy as np

    names = [name for part in parts for name in part.names]
    p = np.concatenate([np.empty((0, len(probe.classes))), *(part.probabilities for part in parts)])
    if asked.labels is None:
        return names, p, None
    labels = [asked.labels[name] for name in names]
    if probe.kind == "numbers":
        return names, p, np.array(labels, np.float64)
    if probe.kind == "tags":
        return names, p, np.array([[tag in label.split("|") for tag in probe.classes] for label in labels])
    place = {name: number for number, name in enumerate(probe.classes)}
    return names, p, np.array([place[label] for label in labels], dtype=np.int64)


def _metrics(
    probe: SavedProbe, asked: _PredictionInput, parts: Sequence[Predictions]
) -> ClassificationMetrics | TaggingMetrics | RegressionMetrics | None:
    """Of the predictions; None where labels are not known, or no image could be read."""
    from ..evaluation.classification import classification_metrics, tag_metrics
    from ..evaluation.regression import compute_number_metrics

    names, p, y = _known(probe, asked, parts)
    if y is None or not names:
        return None
    groups = None if asked.groups is None else [asked.groups[name] for name in names]
    how: Any = {"groups": groups, "seed": int(probe.about.get("seed", 0))}  # as when the probe was measured
    if probe.kind == "numbers":
        return compute_number_metrics(y, p[:, 0], **how) if len(set(y.tolist())) > 1 else None
    if probe.kind == "tags":
        return tag_metrics(y, p, tags=probe.classes, **how)
    return classification_metrics(y, p, classes=probe.classes, **how)
