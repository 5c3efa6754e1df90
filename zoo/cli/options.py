"""Options that several verbs share, and the values that a shell completes."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from ..datasets.opening import KINDS, help_on
from ..errors import QueryError

if TYPE_CHECKING:
    from ..datasets import ImageData
    from ..evaluation.evaluating import Featurising, Request


def given_options() -> dict[str, str]:
    """The options that stand on the command line of the verb that is running, by name, as they are written."""
    context = click.get_current_context()
    options = [one for one in context.command.params if isinstance(one, click.Option) and one.name is not None]
    return {
        str(one.name): one.opts[-1] if one.is_flag else f"{one.opts[-1]} {_written(context.params[str(one.name)])}"
        for one in options
        if context.get_parameter_source(str(one.name)) is ParameterSource.COMMANDLINE
    }


def refuse_idle(names: Iterable[str], because: str, *, remedy: str = "") -> None:
    """Refuses options that were given and would do nothing.

    Parameters
    ----------
    names : iterable of str
        Of the options, as they are passed on.
    because : str
        Why they would do nothing.
    remedy : str
        What else may be done than leaving them out.

    Raises
    ------
    QueryError
        If one of them was given.
    """
    given = given_options()
    idle = [given[name] for name in names if name in given]
    if idle:
        has, it = ("has", "it") if len(idle) == 1 else ("have", "them")
        raise QueryError(f"{' and '.join(idle)} {has} no effect, for {because}; leave {it} out{remedy}.")


def _written(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def exclude_wrong_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """The option ``--exclude-wrong``, passed on as ``exclude_wrong``."""
    text = "Without the measurements that an erratum says to leave out."
    return click.option("--exclude-wrong", is_flag=True, help=text)(command)


def dataset_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """The option ``--dataset``: of which data set errors and components are."""
    return click.option(
        "--dataset",
        metavar="NAME",
        shell_complete=dataset_names,
        help="Errors and components on this data set instead of ImageNet-1K.",
    )(command)


def encoder_names(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Ids that a shell may complete; none if the cards cannot be read."""
    from ..cards.catalogue import catalogue
    from ..errors import ZooError

    try:
        return _beginning(incomplete, catalogue())
    except ZooError:
        return []


def metric_names(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Names of label-free metrics behind the last comma, and ``all``."""
    from ..results.vocabulary import LABEL_FREE_METRICS

    before, comma, last = incomplete.rpartition(",")
    return [before + comma + name for name in _beginning(last, ["all", *LABEL_FREE_METRICS])]


def dataset_names(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Data sets with measurements; none if the results cannot be read."""
    from ..errors import ZooError
    from ..results.derived import seed_means

    try:
        return _beginning(incomplete, dict.fromkeys(["imagenet-1k", *(mean.dataset for mean in seed_means())]))
    except ZooError:
        return []


def measured_metrics(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Names of whatever results files may hold, behind the last comma."""
    from ..results.vocabulary import METRICS

    before, comma, last = incomplete.rpartition(",")
    return [before + comma + name for name in _beginning(last, METRICS)]


def study_names(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Names of the shipped studies, and ``all``; none if the folder cannot be read."""
    from ..errors import ZooError
    from ..files import shipped_studies

    try:
        return _beginning(incomplete, ["all", *shipped_studies()])
    except ZooError:
        return []


def column_name(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Names of columns, in either spelling."""
    from .facts import kinds

    return _beginning(incomplete, kinds())


def column_names(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Names of columns behind the last comma; those before it stay as they are."""
    before, comma, last = incomplete.rpartition(",")
    given = before.split(",")
    return [before + comma + name for name in column_name(ctx, parameter, last) if name not in given]


def licences(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """What ``--licence`` takes; no licence by name if the cards cannot be read."""
    from ..cards.catalogue import catalogue
    from ..cards.schema import Missing
    from ..errors import ZooError

    try:
        found = {card.licence.weights for card in catalogue().values()}
    except ZooError:
        found = set()
    known = sorted(licence for licence in found if not isinstance(licence, Missing))
    return _beginning(incomplete, ["any", "permissive", *known])


def _beginning(incomplete: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if name.casefold().startswith(incomplete.casefold())]


_KINDS = ("auto", "logistic", "streamed")
_SETTINGS = (
    click.option("--settings", metavar="LIST",
                 help="Label settings by comma: full, K-shot, P%.  [default: full,30-shot,1%,5-shot,3-shot as far as "
                      "there are images]"),
    click.option("--knn/--no-knn", "neighbours", default=True, show_default=True, help="Also nearest neighbours."),
)  # fmt: skip
_PROBES = (
    click.option("--seeds", "n_seeds", type=click.IntRange(1, 1000), default=5, show_default=True,
                 help="Draws of few-shot labels."),
    click.option("--seed", type=click.IntRange(0, 2**31 - 1), default=0, show_default=True, help="The first of them."),
    click.option("--probe", type=click.Choice(_KINDS), default="auto", show_default=True,
                 help="logistic: converged, in memory; streamed: 30 tuned trainings, for features larger than memory."),
    click.option("--set", "changed", metavar="NAME=VALUE", multiple=True,
                 help="A setting of the linear probe, as select=log_loss or stop=scikit-learn; the protocol is then "
                      "named for it. Repeatable."),
)  # fmt: skip
_PARTS = (
    click.option("--subsets", "n_subsets", type=click.IntRange(1, 1000), default=3, show_default=True,
                 help="Draws of the held-out subset of the decomposition."),
    click.option("--order", type=click.Choice(["standard", "alternative"]), default="standard", show_default=True,
                 help="Of the decomposition: Eq. 1, or Eq. 5."),
    click.option("--refit", "n_refits", metavar="N", type=click.IntRange(5, 10_000),
                 help="Train all probes of the decomposition again on N resamples of the images, for intervals that "
                      "hold what other training images would do to them; 20 take 20 times as long."),
)  # fmt: skip
PART_NAMES = ("n_subsets", "order", "n_refits")


def setting_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Which label settings, passed on by name."""
    return _with(command, _SETTINGS)


def probe_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """How probes are trained, passed on by name."""
    return _with(command, _PROBES)


def part_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """How the full-shot error is decomposed, passed on by name."""
    return _with(command, _PARTS)


def refuse_idle_probes(options: dict[str, Any]) -> None:
    """Refuses options of probes that do nothing beside the others.

    Raises
    ------
    QueryError
        Names them.
    """
    if options.get("order") == "alternative":
        refuse_idle(("n_subsets",), "the alternative decomposition holds out no subset")
    if "settings" not in options:
        refuse_idle(("n_seeds",), "a decomposition has all labels, which are there once; see --subsets")
    elif options["settings"] is not None and all(_is_full(name) for name in options["settings"].split(",")):
        refuse_idle(("n_seeds",), "all labels are there once, and no setting with fewer is asked for")


def refuse_idle_source(*, record: bool) -> None:
    """Refuses to be told who measured what is not recorded.

    Raises
    ------
    QueryError
    """
    if not record:
        refuse_idle(("source",), "with --no-record nothing is recorded")


def _is_full(name: str) -> bool:
    from ..evaluation.measuring import label_setting

    return label_setting(name).is_full


def _with(command: Callable[..., Any], options: Sequence[Callable[..., Any]]) -> Callable[..., Any]:
    for option in reversed(options):
        command = option(command)
    return command


def request_of(options: dict[str, Any], *, decompose: bool, supervised: Any = None) -> Request:
    """What is to be measured.

    Raises
    ------
    QueryError
        If a label setting makes no sense.
    """
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
        changed=settings_of(options["changed"]),
        neighbours=options.get("neighbours", False),
        decompose=decompose,
        order=options.get("order", "standard"),
        n_refits=options.get("n_refits") or 0,
        supervised=supervised,
        device=options.get("device"),
    )


def settings_of(given: Sequence[str], *, form: str = "NAME=VALUE") -> dict[str, Any]:
    """Settings from NAME=VALUE. Values are read as JSON has them where they are JSON, else as text."""
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


def say(text: str) -> None:
    """A line on a terminal about what is being done; nothing in a pipe."""
    if sys.stderr.isatty():
        click.echo(click.style(text, dim=True), err=True)


IMAGES_HELP = f"\b\nIMAGES is one of\n{help_on(KINDS)}"


def scale_of(ctx: click.Context, parameter: click.Parameter, text: str | None) -> tuple[float, float] | None:
    """Two numbers from LOW,HIGH.

    Raises
    ------
    QueryError
        If it is something else.
    """
    if text is None:
        return None
    try:
        low, high = map(float, text.split(","))
    except ValueError:
        low, high = math.nan, math.nan
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise QueryError(f"Got --scale {text!r}, expected LOW,HIGH, two numbers with the smaller one first, as 0,4095.")
    return low, high


DATA_OPTIONS = (
    click.option("--dataset", metavar="NAME", help="Name of the data set in the results, if not its own."),
    click.option("--val-share", type=click.FloatRange(0, 1, min_open=True, max_open=True),
                 help="Share of the images to test on, where the source does not say.  [default: 0.2]"),
    click.option("--split-seed", type=click.IntRange(0, 2**31 - 1), default=0, help="Of that split.  [default: 0]"),
    click.option("--image-column", help="Of a Hugging Face data set that has several."),
    click.option("--label-column", help="Of a Hugging Face data set that has several."),
    click.option("--scale", metavar="LOW,HIGH", callback=scale_of,
                 help="Values that are black and white, of images with more than 8 bits a channel.  [default: 0,65535 "
                      "of 16-bit integers, 0,1 of floating point, the window of DICOM]"),
)  # fmt: skip
_OPTIONS = (
    *DATA_OPTIONS,
    click.option("--batch-size", type=click.IntRange(1), default=64, show_default=True, help="Images a forward pass."),
    click.option("--workers", "n_workers", type=click.IntRange(0, 1024), default=0, help="Processes that decode."),
    click.option("--device", metavar="DEVICE", help="Where to compute.  [default: a GPU if there is one]"),
    click.option("--precision", type=click.Choice(["float32", "bfloat16", "float16"]), default="float32",
                 show_default=True, help="Of the encoder's forward pass."),
    click.option("--skip-corrupt", is_flag=True, help="Go on without images that cannot be read, and name them."),
)  # fmt: skip
IMAGE_OPTIONS = ("dataset", "val_share", "split_seed", "image_column", "label_column")
SPLIT_OPTIONS, COLUMN_OPTIONS = ("val_share", "split_seed"), ("image_column", "label_column")
FEATURE_OPTIONS = ("batch_size", "n_workers", "device", "precision", "skip_corrupt")


def image_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """All options of images and features, passed on by their names."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def opened(images: str, options: dict[str, Any]) -> ImageData:
    """The image set that the arguments name.

    Raises
    ------
    UnknownName, QueryError, DataError, MissingExtra
        As :func:`zoo.datasets.open_images`; and if an option would do nothing to this set.
    """
    from ..datasets import open_images

    if not images.startswith("huggingface:"):
        refuse_idle(COLUMN_OPTIONS, f"{images!r} is no Hugging Face data set, and has no columns")
    say(f"looking at {images}")
    data = open_images(
        images,
        name=options["dataset"],
        val_share=options["val_share"],
        seed=options["split_seed"],
        image_column=options["image_column"],
        label_column=options["label_column"],
        scale=options["scale"],
    )
    if not data.is_split_here:
        refuse_idle(SPLIT_OPTIONS, f"{images!r} says itself which images are to be tested on")
    return data


def refuse_other_images(data: ImageData) -> None:
    """Refuses images that are others than those recorded under their name, before anything is computed.

    Raises
    ------
    ResultsError
    """
    from ..results.recording import require_same_images

    require_same_images(data.name, {"images": {"train": data.train.fingerprint, "val": data.val.fingerprint}})


def images_document(data: ImageData) -> dict[str, Any]:
    """How the images of both parts are read, as JSON has it."""
    return {"train": data.train.reading.as_dict(), "val": data.val.reading.as_dict()}


def featurising(options: dict[str, Any]) -> Featurising:
    """How features are to be computed."""
    from ..evaluation.evaluating import Featurising

    return Featurising(**{name: options[name] for name in FEATURE_OPTIONS})


_LARGEST = 10**12
_LONGEST = 28  # characters; Decimal is exact that far
_EXPONENTS = {"": 0, "k": 3, "m": 6, "g": 9, "b": 9}
_COUNT = re.compile(
    r"((?:\d+|\d{1,3}(?:,\d{3})+|\d{1,3}(?:_\d{3})+)(?:\.\d+)?(?:e\+?\d{1,2})?) ?([kmgb]?)", re.IGNORECASE | re.ASCII
)


def as_count(ctx: click.Context, parameter: click.Parameter, value: str | None) -> int | None:
    """Callback of an option that takes a whole number above 0: ``20000``, ``20,000``, ``20k``, ``4.1M``, ``1e8``.

    Commas and underscores stand between thousands only.

    Raises
    ------
    click.BadParameter
        If the text is anything else.
    """
    if value is None:
        return None
    text = value.strip()
    match = _COUNT.fullmatch(text) if len(text) <= _LONGEST else None
    if match:
        number = Decimal(match[1].replace("_", "").replace(",", "")).scaleb(_EXPONENTS[match[2].lower()])
        if 1 <= number <= _LARGEST and number == int(number):
            return int(number)
    got = repr(value) if len(value) <= _LONGEST else f"{value[:_LONGEST]!r}... ({len(value):,} characters)"
    expected = "a whole number above 0 and at most 1e12, such as 20000, 20,000, 20k, 100M or 1e8"
    raise click.BadParameter(f"got {got}, expected {expected}.", ctx, parameter)
