"""What the verbs that measure share: options of images, features and probes, and rows added to the user's results."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..analysis.label_budget import MOST_LABELS
from ..cards.catalogue import load_catalogue
from ..datasets.sources import (
    FOLDER_OPTIONS,
    KINDS,
    MASK_COLUMNS,
    TABLE_OPTIONS,
    find_image_files,
    format_sources_help,
    has_columns,
    is_image_file,
    is_image_folder,
    is_table,
    read_data_options,
)
from ..errors import QueryError, ResultsError, ZooError, format_count, format_list
from ..files import describe_irregular_file
from ..results.values import IMAGENET
from .options import GroupedOption, get_given_options, make_seed_option, reject_unused_options, select_options
from .options import add_options as add_options
from .output import TOLD, log_progress

if TYPE_CHECKING:
    from ..datasets import DenseData, ImageData, ImageSet
    from ..datasets.images import CopyCounts, SharedGroups
    from ..evaluation.evaluating import Request
    from ..features.work_items import FeaturisingOptions


_data_option = partial(click.option, cls=GroupedOption, group="How the images are understood; see also 'zoo data'")
_probe_option = partial(click.option, cls=GroupedOption, group="Probes")
_feature_option = partial(click.option, cls=GroupedOption, group="Computing features")

PROTOCOL_OPTION = click.option(
    "--protocol",
    type=click.Choice(["zoo-logistic-3", "zoo-logistic-2"]),
    default="zoo-logistic-3",
    show_default=True,
    help="Of the tuned probes; zoo-logistic-2 takes unscaled features.",
)


SETTING_OPTIONS = (
    click.option(
        "--settings",
        metavar="LIST",
        help="Label settings by comma: full, K-shot, P%.  [default: full,30-shot,1%,5-shot,3-shot as far as "
        "there are images]",
    ),
    click.option("--knn/--no-knn", "neighbours", default=True, show_default=True, help="Also nearest neighbours."),
)
PROBE_OPTIONS = (
    click.option(
        "--seeds",
        "n_seeds",
        type=click.IntRange(1, 1000),
        default=5,
        show_default=True,
        help="Draws of few-shot labels.",
    ),
    make_seed_option("The first of them."),
    click.option(
        "--probe",
        type=click.Choice(["auto", "logistic", "streamed", "attentive"]),
        default="auto",
        show_default=True,
        help="logistic: converged, in memory; streamed: 30 tuned trainings, for features larger than memory; "
        "attentive: of patches, with what pooling hides (--set quick=true for less time).",
    ),
    click.option(
        "--protocol",
        type=click.Choice(["zoo-logistic-3", "zoo-logistic-2", "zoo-streamed-2"]),
        help="Of the linear probe, in place of --probe; zoo-logistic-2 takes unscaled features.  [default: "
        "zoo-logistic-3 where they fit in memory]",
    ),
    _probe_option(
        "--set",
        "changed",
        metavar="NAME=VALUE",
        multiple=True,
        help="A setting of the linear probe, as select=log_loss or stop=scikit-learn; the protocol is then "
        "named for it. Repeatable.",
    ),
)
PART_OPTIONS = (
    _probe_option(
        "--subsets",
        "n_subsets",
        type=click.IntRange(1, 1000),
        default=3,
        show_default=True,
        help="Draws of the held-out subset of the decomposition.",
    ),
    _probe_option(
        "--order",
        type=click.Choice(["standard", "alternative"]),
        default="standard",
        show_default=True,
        help="Of the decomposition: Eq. 1, or Eq. 5.",
    ),
    _probe_option(
        "--refit",
        "n_refits",
        metavar="N",
        type=click.IntRange(5, 10_000),
        help="Train all probes of the decomposition again on N resamples of the images, for intervals that include the "
        "choice of training images; 20 take 20 times as long.",
    ),
)
PART_NAMES = ("n_subsets", "order", "n_refits")
DEVICE_OPTION = click.option("--device", metavar="DEVICE", help="Where to compute.  [default: a GPU if there is one]")


def add_recording_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds ``--source`` and ``--record``."""
    options = (
        click.option("--source", default="own", show_default=True, help="Who measured, as the results say it."),
        click.option("--record/--no-record", default=True, show_default=True, help="Add the numbers to your results."),
    )
    return add_options(command, options)


def reject_unused_source(*, record: bool) -> None:
    """Refuses ``--source`` where nothing is recorded."""
    if not record:
        reject_unused_options(("source",), "with --no-record nothing is recorded")


def build_request(options: dict[str, Any], *, decompose: bool, supervised: Any = None) -> Request:
    """The request to evaluate, from the options."""
    from ..evaluation.evaluating import Request
    from ..evaluation.measuring import label_setting

    given = options.get("settings")
    names = None if given is None else tuple(label_setting(name).name for name in given.split(","))
    return Request(
        settings=names,
        n_seeds=options["n_seeds"],
        n_subsets=options.get("n_subsets", 3),
        seed=options["seed"],
        probe=options["probe"],
        protocol=options.get("protocol"),
        changed=parse_settings(options["changed"]),
        neighbours=options.get("neighbours", False),
        decompose=decompose,
        order=options.get("order", "standard"),
        n_refits=options.get("n_refits") or 0,
        supervised=supervised,
        device=options.get("device"),
    )


def parse_settings(given: Sequence[str], *, form: str = "NAME=VALUE") -> dict[str, Any]:
    """Settings from NAME=VALUE; values are read as JSON if they are JSON, else as text."""
    found: dict[str, Any] = {}
    for text in given:
        name, sign, value = text.partition("=")
        if not sign or not name or name in found:
            raise QueryError(f"Got --set {text!r}, expected {form}, each name once.")
        try:
            found[name] = json.loads(value)
        except ValueError:
            found[name] = value
    return found


IMAGES_HELP = f"\b\nIMAGES is one of\n{format_sources_help(KINDS)}"


def parse_scale(ctx: click.Context, parameter: click.Parameter, text: str | None) -> tuple[float, float] | None:
    """Two numbers from LOW,HIGH."""
    if text is None:
        return None
    try:
        low, high = map(float, text.split(","))
    except ValueError:
        low, high = math.nan, math.nan
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise QueryError(f"Got --scale {text!r}, expected LOW,HIGH, two numbers with the smaller one first, as 0,4095.")
    return low, high


def parse_background(ctx: click.Context, parameter: click.Parameter, text: str) -> str:
    """A colour, or drop."""
    from ..datasets.rgb import check_background

    return check_background(text)


def parse_columns(text: str | None) -> tuple[str, ...]:
    """Names of columns from a list by comma."""
    if text is None:
        return ()
    names = tuple(name.strip() for name in text.split(","))
    if len(names) < 2 or not all(names) or len(set(names)) < len(names):
        raise QueryError(f"Got --label-columns {text!r}, expected two columns or more by comma, each once.")
    return names


LABEL_KIND = _data_option(
    "--target",
    "label_kind",
    type=click.Choice(["class", "number"]),
    help="What the labels of a CSV file are; numbers get a regression probe.  [default: numbers where many different "
    "ones measure something]",
)
DATA_OPTIONS = (
    _data_option(
        "--dataset", is_common=True, metavar="NAME", help="Name of the data set in the results, if not its own."
    ),
    _data_option(
        "--data",
        is_common=True,
        metavar="FILE.toml",
        expose_value=False,
        type=click.Path(dir_okay=False, exists=True),
        help="In place of the images: a file that names them and these options, as 'zoo data --write' writes it; "
        "options that are given too come first.",
    ),
    _data_option(
        "--val-share",
        type=click.FloatRange(0, 1, min_open=True, max_open=True),
        help="Share of the images to test on, where the source does not say.  [default: 0.2]",
    ),
    _data_option("--split-seed", type=click.IntRange(0, 2**31 - 1), default=0, help="Of that split.  [default: 0]"),
    _data_option(
        "--image-column",
        metavar="COLUMN",
        help="Of a Hugging Face data set, parquet or CSV file; of tar files the ending of images.  [default: path, "
        "file, image or filename]",
    ),
    _data_option(
        "--image-folder",
        metavar="FOLDER",
        help="What the paths of a CSV file are below.  [default: its own folder, or those in it that hold the images]",
    ),
    _data_option(
        "--label-column",
        is_common=True,
        metavar="COLUMN",
        help="Of a Hugging Face data set, parquet or CSV file; of tar files an entry of their .json.  [default: label, "
        "class or target]",
    ),
    _data_option(
        "--label-columns",
        metavar="LIST",
        callback=lambda ctx, parameter, text: parse_columns(text),
        help="Columns of 0 and 1 of a CSV file, by comma: an image may have several of these labels.",
    ),
    _data_option(
        "--multi-label",
        is_flag=True,
        help="Images of a CSV file may have several labels, with | ; commas or blanks between them, or in all columns "
        "of 0 and 1.",
    ),
    _data_option(
        "--uncertain",
        type=click.Choice(["positive", "negative"]),
        help="What -1 is in columns of 0 and 1, where blank is 0.  [default: refused]",
    ),
    LABEL_KIND,
    _data_option(
        "--ignore-label",
        "ignore_labels",
        multiple=True,
        metavar="LABEL",
        help="Leave images of a CSV file out that have this label, such as -1 or unknown. Repeatable.",
    ),
    _data_option(
        "--keep-na", is_flag=True, help="Labels that may stand for none are classes: NA, None, null, ?, unknown, ..."
    ),
    _data_option(
        "--split-column",
        metavar="COLUMN",
        help="Column of a CSV file with train, val or test, or of 0 and 1 and called such as is_test.  [default: "
        "split, or the one that names parts in every row]",
    ),
    _data_option(
        "--group",
        is_common=True,
        metavar="COLUMN",
        help="Column of a CSV file, such as the patient: images with the same value are all in training or all in "
        "test, and intervals are over them.",
    ),
    _data_option(
        "--class-folder",
        metavar="first|last|N",
        help="Which folder in the path of an image names its class.  [default: first, where no other may be meant]",
    ),
    _data_option(
        "--test-folder",
        metavar="FOLDER",
        help="One of the folders of folds or domains in a folder: tested on, all others are trained on.",
    ),
    _data_option(
        "--fold-labels",
        is_flag=True,
        help="Labels that differ only in case, Unicode form or how a number is written are one class.",
    ),
    _data_option(
        "--scale",
        metavar="LOW,HIGH",
        callback=parse_scale,
        help="Values that are black and white, of images with more than 8 bits per channel.  [default: 0,65535 "
        "of 16-bit integers, 0,1 of floating point, the window of DICOM]",
    ),
    _data_option(
        "--background",
        metavar="COLOUR|drop",
        default="white",
        show_default=True,
        callback=parse_background,
        help="Colour that transparent parts of images are shown over; drop shows the colours that are stored in them.",
    ),
    _data_option(
        "--max-pixels",
        type=click.IntRange(1),
        metavar="N",
        help="Read images of up to so many pixels.  [default: 178956970, the limit of Pillow]",
    ),
)

_OF_MAPS = {"dataset", "data", "val_share", "split_seed", "scale", "background", "max_pixels", *MASK_COLUMNS}
MAP_DATA_OPTIONS = select_options(DATA_OPTIONS, _OF_MAPS)
"""Options of images that have maps or masks in place of labels."""

PAGE_OPTIONS = (
    click.option(
        "--page",
        metavar="FILE.html",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Also a single-file page with plots or mistakes, and the images that show them.",
    ),
    click.option("--no-images", "hides_images", is_flag=True, help="With --page, names of images instead of them."),
)


EXPORT_OPTION = click.option(
    "--export",
    "exports",
    type=click.Choice(["torch", "onnx"]),
    multiple=True,
    help="With --save, also write encoder and probe as one network. Repeatable.",
)


def require_page_at(page: Path | None) -> None:
    """Refuses a page that cannot be written, and options of a page without one, before any work."""
    from ..looking.pages import require_page

    if page is None:
        reject_unused_options(("hides_images",), "no page is written", remedy=", or add --page FILE.html")
    else:
        require_page(page)


BACKEND_OPTION = _feature_option(
    "--backend",
    type=click.Choice(["auto", "torch", "openvino"]),
    default="auto",
    show_default=True,
    help="What runs the forward pass; auto: OpenVINO (extra fast) where features are equal and it pays.",
)

RUN_OPTIONS = (
    _feature_option(
        "--batch-size", type=click.IntRange(1), default=64, show_default=True, help="Images a forward pass."
    ),
    click.option("--workers", "n_workers", type=click.IntRange(0, 1024), default=0, help="Processes that decode."),
    DEVICE_OPTION,
)

_OPTIONS = (
    *DATA_OPTIONS,
    *RUN_OPTIONS,
    _feature_option(
        "--precision",
        type=click.Choice(["float32", "bfloat16", "float16"]),
        default="float32",
        show_default=True,
        help="Of the encoder's forward pass.",
    ),
    BACKEND_OPTION,
    _feature_option("--compile", "compiled", is_flag=True, help="Let torch compile the encoder: pays for many images."),
    _feature_option(
        "--skip-corrupt/--no-skip-corrupt",
        default=None,
        help="Go on without images that cannot be read, and name them.  [default: with --on and --part]",
    ),
)

IMAGE_OPTIONS = (
    *("dataset", "val_share", "split_seed", "image_column", "label_column", "fold_labels"),
    *(*TABLE_OPTIONS, *FOLDER_OPTIONS),
)

SHOWN_OPTIONS = ("scale", "background", "max_pixels")

SPLIT_OPTIONS, COLUMN_OPTIONS = ("val_share", "split_seed"), ("image_column", "label_column")

FEATURE_OPTIONS = ("batch_size", "n_workers", "device", "precision", "skip_corrupt", "backend")


def add_image_options(command: Callable[..., Any], *, without: Sequence[Any] = ()) -> Callable[..., Any]:
    """Adds all options of images and features, but those that a verb has no use for."""
    return add_options(command, [one for one in _OPTIONS if one not in without])


def select_source_options(options: dict[str, Any]) -> dict[str, Any]:
    """The options of a source of images, by their names in Python."""
    names = {"dataset": "name", "split_seed": "seed"}  # others are the same
    return {names.get(name, name): options[name] for name in (*IMAGE_OPTIONS, *SHOWN_OPTIONS) if name in options}


def reject_unused_columns(images: str) -> None:
    """Refuses options of columns where the source of images has none."""
    file, (images, kept) = images, read_data_options(images)
    for option, name, usual in (("split_seed", "seed", 0), ("background", "background", "white")):
        given = get_given_options().get(option)  # what opens the images cannot tell it from one that was not given
        if given and kept.get(name, usual) != usual and click.get_current_context().params[option] == usual:
            raise QueryError(f"Got {given}, but {file!r} has {name} = {kept[name]!r}; take that line out of the file.")
    if not os.path.isdir(images):
        reject_unused_options(FOLDER_OPTIONS, f"{images!r} is no folder")
    if not {*COLUMN_OPTIONS, *TABLE_OPTIONS} & get_given_options().keys() or is_table(images):
        return
    if not has_columns(images):
        reject_unused_options(COLUMN_OPTIONS, f"{images!r} is no CSV file, shards or arrays, and has no columns")
    reject_unused_options(TABLE_OPTIONS, f"{images!r} is no CSV file")


def require_images_exist(ctx: click.Context, parameter: click.Parameter, value: Any) -> Any:
    """Callback of images: what is not there is refused at once, before PyTorch is imported."""
    from ..datasets.sources import require_present

    for text in [value] if isinstance(value, str) else value:
        require_present(text, may_be_name=parameter.nargs == -1)
    return value


def open_labelled_images(
    images: str, options: dict[str, Any], *, tells: bool = True, takes_numbers: bool = False
) -> ImageData:
    """Opens the image set that the arguments name; options that would do nothing to it are refused.

    Labels that are numbers are refused unless the verb takes them.
    """
    from ..datasets import open_images

    reject_unused_columns(images)
    log_progress(f"looking at {images}")
    data = open_images(images, **select_source_options(options))
    reject_unused_scale(data)
    if not data.is_split_here:
        reject_unused_options(SPLIT_OPTIONS, f"{images!r} says itself which images are to be tested on")
    if data.train.target and not takes_numbers:
        raise QueryError(
            f"The labels of {data.name!r} are numbers ({data.train.target!r}), and zoo "
            f"{click.get_current_context().info_name} works with classes; name another column"
            f"{', or take its numbers for classes with --target class' * ('label_kind' in options)}."
        )
    if tells:
        log_image_sources([data.train, data.val])
    return data


MASK_OPTIONS = (*MASK_COLUMNS, "ignore_labels")


def open_masks(images: str, options: Mapping[str, Any], *, task: str = "segmentation") -> DenseData:
    """Opens images with masks, or maps of depth; options that would do nothing to them are refused."""
    from ..datasets import open_dense

    names = {"dataset": "name", "split_seed": "seed"}
    given = ("dataset", "val_share", "split_seed", *SHOWN_OPTIONS)
    if task != "segmentation":
        reject_unused_options(MASK_OPTIONS, f"maps of {task} lie in folders")
    log_progress(f"looking at {images}")
    asked = {names.get(one, one): options[one] for one in (*given, *(MASK_OPTIONS if task == "segmentation" else ()))}
    data = open_dense(images, task=task, **asked)
    if not data.is_split_here:
        reject_unused_options(SPLIT_OPTIONS, f"{images!r} says itself which images are to be tested on")
    log_image_sources([data.train.images, data.val.images])
    return data


def reject_unused_scale(data: ImageData) -> None:
    """Refuses ``--scale`` for images that it does nothing to."""
    if not any(one.values for part in (data.train, data.val) for one in part.reading.stored.values()):
        reject_unused_options(("scale",), f"no image of {data.name!r} has values of more than 8 bits")


def split_words(words: Sequence[str]) -> tuple[tuple[str, ...], list[str]]:
    """Names of encoders, and what names images behind them: the last word, and before it files that are there."""
    first = next(
        (at for at, word in enumerate(words) if at and os.path.exists(word) and word not in load_catalogue()), -1
    )
    return tuple(words[:first]), list(words[first:])


def open_any_labelled(images: Sequence[str], options: dict[str, Any], *, is_new: bool) -> ImageData:
    """Opens images with or without labels, as :func:`open_labelled_images`."""
    from ..datasets.sources import open_any_images

    if len(images) == 1 and not is_image_file(images[0]):
        reject_unused_columns(images[0])
    else:
        reject_unused_options((*COLUMN_OPTIONS, *TABLE_OPTIONS, *FOLDER_OPTIONS), "files have no columns")
    log_progress(f"looking at {format_list(images, 3)}")
    data = open_any_images(images, is_new=is_new, **select_source_options(options))
    reject_unused_scale(data)
    if data.is_whole:
        reject_unused_options(("parts", *SPLIT_OPTIONS), "images without labels are not split")
    elif not data.is_split_here:
        reject_unused_options(SPLIT_OPTIONS, f"{images[0]!r} says itself which images are to be tested on")
    log_image_sources([data.train, data.val])
    return data


SIDES = {"train": ("train",), "val": ("val",), "both": ("train", "val")}  # parts by what --split says


def open_unlabelled_files(
    arguments: Sequence[str], options: dict[str, Any], *, refuses: bool = True
) -> tuple[ImageSet, list[str]] | None:
    """Images of files and of folders, at any depth, without labels, and their paths; None of another image set."""
    from ..datasets.folders import make_unlabelled_images

    first = arguments[0]
    if len(arguments) == 1 and not (is_image_folder(first) or is_image_file(first) or describe_irregular_file(first)):
        return None
    root, names, left_out = find_image_files(arguments)
    paths = [os.path.join(root, name) for name in names]
    idle = ("part", *SPLIT_OPTIONS, *COLUMN_OPTIONS, *TABLE_OPTIONS, *FOLDER_OPTIONS)
    reject_unused_options(idle if refuses else (), "files and folders have neither parts nor columns")
    shown = {name: options[name] for name in SHOWN_OPTIONS}
    called = Path(arguments[0]).resolve().name or "images"
    images = make_unlabelled_images(paths, names=names, name=called, **shown)
    return replace(images, reading=replace(images.reading, left_out=left_out)), paths


def log_image_sources(image_sets: Sequence[ImageSet]) -> None:
    """Says on stderr, before anything takes long, how the source of the images was read."""
    lines = describe_sources(image_sets)
    click.get_current_context().meta[TOLD] = lines
    for line in lines:
        click.echo(line, err=True)


def describe_sources(image_sets: Sequence[ImageSet]) -> list[str]:
    """How the source of the images of its parts was read: what their folder was taken for, and notes."""
    train, test = image_sets[0], image_sets[-1]
    is_split = train.fingerprint != test.fingerprint
    n = (
        f"{len(train):,} training and {format_count(len(test), 'test image')}"
        if is_split
        else format_count(len(train), "image")
    )
    known = f"{n} of {len(train.classes):,} {'numbers' if train.target else 'classes'}"
    lines = [f"Images: {train.reading.layout}: {known}"] * bool(train.reading.layout)
    return lines + [f"Note: {note}" for note in dict.fromkeys((*train.reading.notes, *test.reading.notes))]


def refuse_other_images(data: ImageData, *, with_probes: bool = False) -> None:
    """Refuses other images than those recorded under this name, before anything is computed."""
    from ..results.recording import require_same_images

    if with_probes and data.name == IMAGENET and len(data.train) != MOST_LABELS:
        raise ResultsError(
            f"These are {len(data.train):,} training images of {len(data.train.classes):,} classes, and {IMAGENET} is "
            f"the name of ImageNet-1K's {MOST_LABELS:,} of 1,000, which studies compare encoders on; give them another "
            "name by --dataset."
        )
    try:
        require_same_images(data.name, {"images": {"train": data.train.fingerprint, "val": data.val.fingerprint}})
    except ResultsError as error:
        if any(side.reading.as_dict()["transparent"] for side in (data.train, data.val)):
            hint = "--background drop measures images with transparent parts as versions without this option did"
            raise ResultsError(f"{str(error).removesuffix('.')}; {hint}.") from error
        raise


def describe_images(data: ImageData | DenseData, *, has_intervals: bool) -> tuple[dict[str, Any], list[str]]:
    """How images are read, and copies and groups among them: as JSON (images, copies, groups) and as notes."""
    from ..datasets import ImageData, MapSet
    from ..datasets.images import count_copies, count_shared_groups
    from ..datasets.notes import describe_decoding

    train, val = (one.images if isinstance(one, MapSet) else one for one in (data.train, data.val))
    is_whole = isinstance(data, ImageData) and data.is_whole
    sets = {"all": train} if is_whole else {"train": train, "val": val}
    copies, groups = None, None
    if not is_whole:
        copies = count_copies(train.contents, train.labels, val.contents, val.labels)
        groups = count_shared_groups(train.groups, val.groups)
    on_images = describe_decoding(sets.values())
    document = {
        "images": {part: images.reading.as_dict() for part, images in sets.items()} | {"notes": on_images},
        "copies": build_counts_document(copies),
        "groups": build_counts_document(groups),
    }
    return document, [*list_copies_notes(copies), *list_groups_notes(groups, has_intervals=has_intervals), *on_images]


def build_featurising(options: dict[str, Any]) -> FeaturisingOptions:
    """How features are computed, from the options."""
    from ..features.computing import COMPILED
    from ..features.work_items import FeaturisingOptions

    given = {name: options[name] for name in FEATURE_OPTIONS if name in options}
    if options["compiled"]:
        given["precision"] += COMPILED
    return FeaturisingOptions(**{**given, "skip_corrupt": bool(given["skip_corrupt"])})


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingResult:
    """Result of adding numbers to the user's results."""

    document: dict[str, Any] | None  # for JSON; None if nothing was recorded
    problem: str  # why not, or what is recorded otherwise; "" if all is well
    notes: tuple[str, ...]


def record_measured_rows(make_rows: Callable[[], Mapping[Any, Mapping[str, Any]]]) -> RecordingResult:
    """Adds rows to the user's results; a failure becomes a sentence, because the numbers must still be printed."""
    from ..results.recording import record

    try:
        found = record(make_rows(), differing="tell")
    except ZooError as error:
        return RecordingResult(document=None, problem=f"The numbers were not added to your results: {error}", notes=())
    notes, problem = [], ""
    if found.paths:
        known = f", {found.n_known} were there" if found.n_known else ""
        notes.append(f"{format_count(found.n_new, 'row')} added to {', '.join(map(str, found.paths))}{known}")
    if n := len(found.differences):
        notes += map(str, found.differences)
        problem = (
            f"{n} of {n + found.n_new + found.n_known} numbers were not added to your results, where others are "
            "recorded in their place; give these another --source, or use --no-record."
        )
    document = {
        "files": [str(path) for path in found.paths],
        "new": found.n_new,
        "known": found.n_known,
        "differing": [asdict(one) for one in found.differences],
    }
    return RecordingResult(document=document, problem=problem, notes=tuple(notes))


def list_copies_notes(copies: CopyCounts | None) -> list[str]:
    """Sentences on images that are copies of others."""
    return [] if copies is None else copies.notes()


def build_counts_document(counts: CopyCounts | SharedGroups | None) -> dict[str, Any] | None:
    """Counts of copies or of groups as JSON."""
    return None if counts is None else counts.as_dict()


def list_groups_notes(groups: SharedGroups | None, *, has_intervals: bool) -> list[str]:
    """Sentences on groups of images."""
    if groups is None:
        return []
    intervals = f"intervals are over the {format_count(groups.n_test, 'group')} of test images, not over images"
    return [intervals] * has_intervals + groups.notes()


def list_skipped_notes(images: Sequence[str], *, n_named: int = 5) -> list[str]:
    """A note on images that could not be read, with the names of the first."""
    read = format_count(len(images), "image could not be read and was", "images could not be read and were")
    return [f"{read} left out: {', '.join(images[:n_named])}"] if images else []


def parse_number(text: str | None) -> float | None:
    """The number that an argument is; None if it is a name, or absent."""
    try:
        return None if text is None else float(text)
    except ValueError:
        return None
