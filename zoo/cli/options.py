"""Options that several verbs share, the values that a shell completes, and refusals of options without effect."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

import click
from click.core import ParameterSource

from ..errors import QueryError
from .default_command import CommandWithVerbs

ARGUMENTS = "zoo.arguments"
"""Name of the arguments of the running verb, as they were given, among what the context of click carries along."""


def given_options() -> dict[str, str]:
    """Options on the command line of the running verb, as they are written, by name."""
    context = click.get_current_context()
    options = [one for one in context.command.params if isinstance(one, click.Option) and one.name is not None]
    return {
        str(one.name): one.opts[-1] if one.is_flag else f"{one.opts[-1]} {_written(context.params[str(one.name)])}"
        for one in options
        if context.get_parameter_source(str(one.name)) is ParameterSource.COMMANDLINE
    }


def refuse_idle(names: Iterable[str], because: str, *, remedy: str = "") -> None:
    """Refuses options that were given and have no effect: ``because`` completes the sentence, ``remedy`` adds a way
    out.
    """
    given = given_options()
    idle = [given[name] for name in names if name in given]
    if idle:
        has, it = ("has", "it") if len(idle) == 1 else ("have", "them")
        raise QueryError(f"{' and '.join(idle)} {has} no effect, for {because}; leave {it} out{remedy}.")


def _written(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, tuple | list) else str(value)


def exclude_wrong_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds ``--exclude-wrong``."""
    text = "Without the measurements that an erratum says to leave out."
    return click.option("--exclude-wrong", is_flag=True, help=text)(command)


def family_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds ``--family``, which also asks for encoders of experiments."""
    return click.option(
        "--family",
        "families",
        multiple=True,
        metavar="NAME",
        shell_complete=family_names,
        help="Only encoders of this family, such as 'dino'; those of an experiment, such as 'randomised', too.",
    )(command)


def dataset_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds ``--dataset``, the data set of errors and components."""
    return click.option(
        "--dataset",
        metavar="NAME",
        shell_complete=dataset_names,
        help="Errors and components on this data set instead of ImageNet-1K.",
    )(command)


def encoder_names(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Completes ids of encoders, of which there are none if the cards cannot be read, or first a verb of the verb."""
    from ..cards.catalogue import catalogue
    from ..errors import ZooError

    below = ctx.command.verbs if isinstance(ctx.command, CommandWithVerbs) else ()
    verbs = [] if ctx.params.get(str(parameter.name)) else _beginning(incomplete, below)
    try:
        cards = catalogue()
        return verbs + (_beginning(incomplete, cards) or _beginning(incomplete, cards.with_unlisted))
    except ZooError:
        return verbs


def family_names(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Completes names of families; none if the cards cannot be read."""
    from ..cards.catalogue import catalogue
    from ..errors import ZooError

    try:
        cards = catalogue()
        return _beginning(incomplete, dict.fromkeys([*cards.column("family").values(), *cards.experiments]))
    except ZooError:
        return []


def metric_names(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Completes names of metrics of features behind the last comma, and ``all``."""
    from ..results.vocabulary import FEATURE_METRICS

    before, comma, last = incomplete.rpartition(",")
    return [before + comma + name for name in _beginning(last, ["all", *FEATURE_METRICS])]


def dataset_names(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Completes data sets with measurements; none if the results cannot be read."""
    from ..errors import ZooError
    from ..results.derived import seed_means

    try:
        return _beginning(incomplete, dict.fromkeys(["imagenet-1k", *(mean.dataset for mean in seed_means())]))
    except ZooError:
        return []


def measured_metrics(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Completes metrics of results, behind the last comma."""
    from ..results.vocabulary import METRICS

    before, comma, last = incomplete.rpartition(",")
    return [before + comma + name for name in _beginning(last, METRICS)]


def study_names(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Completes names of the shipped studies, and ``all``; none if the folder cannot be read."""
    from ..errors import ZooError
    from ..files import shipped_studies

    try:
        return _beginning(incomplete, ["all", *shipped_studies()])
    except ZooError:
        return []


def column_name(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Completes names of columns, in either spelling."""
    from ..results.facts import kinds

    return _beginning(incomplete, kinds())


def column_names(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Completes names of columns behind the last comma, without those before it."""
    before, comma, last = incomplete.rpartition(",")
    given = before.split(",")
    return [before + comma + name for name in column_name(ctx, parameter, last) if name not in given]


def licences(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Completes ``--licence`` behind the last comma; no licence by name if the cards cannot be read."""
    from ..cards.catalogue import catalogue
    from ..cards.licences import LICENCE_WORDS
    from ..cards.schema import Missing
    from ..errors import ZooError

    try:
        found = set(catalogue().column("licence.weights").values())
    except ZooError:
        found = set()
    known = sorted(licence for licence in found if not isinstance(licence, Missing))
    before, comma, last = incomplete.rpartition(",")
    return [before + comma + name for name in _beginning(last, [*LICENCE_WORDS, *known])]


def _beginning(incomplete: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if name.casefold().startswith(incomplete.casefold())]


_LARGEST_COUNT = 10**12
_LONGEST_COUNT = 28  # characters; Decimal is exact that far
_EXPONENTS = {"": 0, "k": 3, "m": 6, "g": 9, "b": 9}
_COUNT = re.compile(
    r"((?:\d+|\d{1,3}(?:,\d{3})+|\d{1,3}(?:_\d{3})+)(?:\.\d+)?(?:e\+?\d{1,2})?) ?([kmgb]?)", re.IGNORECASE | re.ASCII
)


def as_count(ctx: click.Context, parameter: click.Parameter, value: str | None) -> int | None:
    """Callback of a whole number above 0: ``20000``, ``20,000``, ``20k``, ``4.1M``, ``1e8``.

    Commas and underscores stand between thousands only.
    """
    if value is None:
        return None
    text = value.strip()
    match = _COUNT.fullmatch(text) if len(text) <= _LONGEST_COUNT else None
    if match:
        from decimal import Decimal  # which few command lines need

        number = Decimal(match[1].replace("_", "").replace(",", "")).scaleb(_EXPONENTS[match[2].lower()])
        if 1 <= number <= _LARGEST_COUNT and number == int(number):
            return int(number)
    got = repr(value) if len(value) <= _LONGEST_COUNT else f"{value[:_LONGEST_COUNT]!r}... ({len(value):,} characters)"
    expected = "a whole number above 0 and at most 1e12, such as 20000, 20,000, 20k, 100M or 1e8"
    raise click.BadParameter(f"got {got}, expected {expected}.", ctx, parameter)


_MEMORY = re.compile(r"(\d+(?:\.\d+)?) ?([kmgt]?)(i?)b?", re.IGNORECASE | re.ASCII)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


def as_memory(ctx: click.Context, parameter: click.Parameter, value: str | None) -> int | None:
    """Callback of bytes above 0: ``8GB``, ``512 MB``, ``7.5G``, ``8GiB``; GB counts by 1,000, GiB by 1,024."""
    if value is None:
        return None
    text = value.strip()
    match = _MEMORY.fullmatch(text) if len(text) <= _LONGEST_COUNT else None
    if match:
        n_bytes = int(float(match[1]) * (1024 if match[3] else 1000) ** _POWERS[match[2].lower()])
        if 1 <= n_bytes <= 10**15:
            return n_bytes
    raise click.BadParameter(
        f"got {value[:_LONGEST_COUNT]!r}, expected memory such as 8GB, 512MB or 8GiB.", ctx, parameter
    )


_DURATION = re.compile(r"(?:(\d+(?:\.\d+)?) ?h)? ?(?:(\d+(?:\.\d+)?) ?m(?:in)?)? ?(?:(\d+(?:\.\d+)?) ?s)?", re.ASCII)
_LONGEST_DURATION_S = 366 * 86_400


def as_duration(ctx: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    """Callback of a time in seconds above 0: ``30m``, ``2h``, ``90s``, ``1h30m``; None of ``none``."""
    if value is None:
        return None
    text = value.strip().casefold()
    if text == "none":
        return None
    match = _DURATION.fullmatch(text) if 0 < len(text) <= _LONGEST_COUNT else None
    if match:
        hours, minutes, seconds = (float(part or 0) for part in match.groups())
        total = 3600 * hours + 60 * minutes + seconds
        if 0 < total <= _LONGEST_DURATION_S:
            return total
    hint = "; say which unit" if text.replace(".", "", 1).isdigit() else ""
    raise click.BadParameter(
        f"got {value[:_LONGEST_COUNT]!r}, expected a time such as 30m, 2h, 90s or 1h30m, or none{hint}.", ctx, parameter
    )
