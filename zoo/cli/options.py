"""Options that several verbs share, how many of them help shows, and the values that a shell completes."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import click
from click.core import ParameterSource

from ..errors import QueryError, ZooError

ARGUMENTS = "zoo.arguments"
"""Name of the arguments of the running verb, as they were given, among what the context of click carries along."""

Option = Callable[[Callable[..., Any]], Callable[..., Any]]


def add_options(command: Callable[..., Any], options: Sequence[Option]) -> Callable[..., Any]:
    """The command with all of these options, in their order."""
    for option in reversed(options):
        command = option(command)
    return command


def select_options(options: Sequence[Option], names: Collection[str]) -> tuple[Option, ...]:
    """Those that declare one of these parameters."""

    def name_of(option: Option) -> str:
        return str(option(lambda: None).__click_params__[0].name)  # type: ignore[attr-defined]

    return tuple(one for one in options if name_of(one) in names)


_RANGE = re.compile(r"(-?[0-9]+)(?:\.\.(-?[0-9]+))?")


def parse_number_ranges(ctx: click.Context, parameter: click.Parameter, text: str | None) -> tuple[int, ...] | None:
    """Whole numbers by comma, and ranges of them as 3..7."""
    if text is None:
        return None
    found: list[int] = []
    for part in text.split(","):
        match = _RANGE.fullmatch(part.strip())
        ends = [int(end) for end in match.groups() if end is not None] if match else []
        if not ends or ends[0] > ends[-1] or ends[-1] - ends[0] > 1000:
            raise QueryError(
                f"Got {parameter.opts[-1]} {text!r}, expected whole numbers by comma, and ranges as 3..7 with the "
                "lower end first."
            )
        found += range(ends[0], ends[-1] + 1)
    return tuple(dict.fromkeys(found))


# --- help ------------------------------------------------------------------------------------------------------------

MOST_SHOWN = 30
"""Options that ``--help`` of a verb shows, ``--help`` itself among them."""
_SHOWS_ALL = "zoo.help_all"


class GroupedOption(click.Option):
    """An option under a heading of ``--help-all``; one that is not common is left out of a long ``--help``."""

    def __init__(self, *declarations: Any, group: str, is_common: bool = False, **attributes: Any) -> None:
        super().__init__(*declarations, **attributes)
        self.group = group
        self.is_common = is_common


def _print_all_help(ctx: click.Context, parameter: click.Parameter, is_asked: bool) -> None:
    if is_asked and not ctx.resilient_parsing:
        ctx.meta[_SHOWS_ALL] = True
        click.echo(ctx.get_help())
        ctx.exit()


class FoldedCommand(click.Command):
    """A command with ``--help-all`` if it has too many options for ``--help``; ``--data FILE`` is its last argument."""

    def __init__(self, name: str | None, **attributes: Any) -> None:
        super().__init__(name, **attributes)
        self.is_folded = sum(isinstance(one, click.Option) for one in self.params) >= MOST_SHOWN
        if self.is_folded:
            text = "Show all options, by what they are for, and exit."
            declared: dict[str, Any] = {
                "is_flag": True,
                "is_eager": True,
                "expose_value": False,
                "callback": _print_all_help,
            }
            self.params.append(click.Option(["--help-all"], help=text, **declared))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        given, *_ = self.make_parser(ctx).parse_args(list(args))
        return super().parse_args(ctx, [*args, given["data"]] if isinstance(given.get("data"), str) else args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {"Options": []}
        shows_all = ctx.meta.get(_SHOWS_ALL, False)
        for one in self.get_params(ctx):
            record = one.get_help_record(ctx) if isinstance(one, click.Option) else None
            if record is None:
                continue
            if not (self.is_folded and isinstance(one, GroupedOption)):
                sections["Options"].append(record)
            elif shows_all:
                sections.setdefault(one.group, []).append(record)
            elif one.is_common:
                sections["Options"].append(record)
        for heading, records in sections.items():
            with formatter.section(heading):
                formatter.write_dl(records)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_epilog(ctx, formatter)
        if self.is_folded and not ctx.meta.get(_SHOWS_ALL):
            n = sum(isinstance(one, GroupedOption) and not one.is_common for one in self.params)
            formatter.write_paragraph()
            formatter.write_text(f"{n} more options: {ctx.command_path} --help-all")


# --- options that were given -----------------------------------------------------------------------------------------


def get_given_options() -> dict[str, str]:
    """Options on the command line of the running verb, as they are written, by name."""
    context = click.get_current_context()
    found = {}
    for one in context.command.params:
        name = str(one.name)
        if isinstance(one, click.Option) and context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            value = context.params.get(name)
            if isinstance(value, tuple | list):  # several options or words, or one that was taken apart
                parts = (f"{part:g}" if isinstance(part, float) else str(part) for part in value)
                value = (" " if one.multiple or one.nargs != 1 else ",").join(parts)
            flag = one.secondary_opts[-1] if one.secondary_opts and value is False else one.opts[-1]
            found[name] = flag if one.is_flag or value is None else f"{flag} {value}"
    return found


def reject_unused_options(names: Iterable[str], because: str, *, remedy: str = "") -> None:
    """Refuses options that were given and have no effect: ``because`` completes the sentence."""
    given = get_given_options()
    idle = [given[name] for name in names if name in given]
    if idle:
        has, it = ("has", "it") if len(idle) == 1 else ("have", "them")
        raise QueryError(f"{' and '.join(idle)} {has} no effect: {because}; leave {it} out{remedy}.")


# --- completion by a shell -------------------------------------------------------------------------------------------

Completion = Callable[[click.Context, click.Parameter, str], list[str]]
Names = Callable[[], Iterable[str]]


def _completing(names: Names, *, by_comma: bool = False, further: Names = tuple) -> Completion:
    """Completes a name, or the one behind the last comma; nothing if cards or results cannot be read.

    ``further`` names are offered where no other begins so.
    """

    def complete(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",") if by_comma else ("", "", incomplete)
        try:
            found = _beginning(last, names()) or _beginning(last, further())
            return [before + comma + name for name in found if name not in before.split(",")]
        except ZooError:
            return []

    return complete


def _beginning(incomplete: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if name.casefold().startswith(incomplete.casefold())]


def complete_encoder_names(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Completes ids of encoders, and as the first word the verbs below this one."""
    from ..cards.catalogue import load_catalogue

    below = () if ctx.params.get(str(parameter.name)) else getattr(ctx.command, "verbs", ())
    verbs = _beginning(incomplete, below)
    try:
        cards = load_catalogue()
        return verbs + (_beginning(incomplete, cards) or _beginning(incomplete, cards.with_unlisted))
    except ZooError:
        return verbs


def _columns() -> Iterable[str]:
    from ..results.facts import list_column_kinds

    return list_column_kinds()


def _others() -> Iterable[str]:
    from ..results.facts import list_others_columns

    return list_others_columns()


def _datasets_of_others() -> Iterable[str]:
    from ..results.evidence import list_datasets

    return list_datasets()


def _families() -> Iterable[str]:
    from ..cards.catalogue import load_catalogue

    return dict.fromkeys(load_catalogue().with_unlisted.column("family").values())


def _datasets() -> Iterable[str]:
    from ..results.derived import seed_means

    return dict.fromkeys(["imagenet-1k", *(mean.dataset for mean in seed_means())])


def _metrics(kind: str) -> Iterable[str]:
    from ..results import vocabulary

    return vocabulary.METRICS if kind == "measured" else ["all", *vocabulary.FEATURE_METRICS]


def _studies() -> Iterable[str]:
    from ..files import list_shipped_studies

    return ["all", *list_shipped_studies()]


def _licences() -> Iterable[str]:
    from ..cards.catalogue import load_catalogue
    from ..cards.licences import LICENCE_WORDS
    from ..cards.schema import Missing

    found = set(load_catalogue().column("licence.weights").values())
    return [*LICENCE_WORDS, *sorted(licence for licence in found if not isinstance(licence, Missing))]


def _devices() -> Iterable[str]:
    from ..cards.throughput import list_devices

    return ["cuda", "cpu", *(device.name.replace(" ", "-") for device in list_devices())]  # shells end words at spaces


metric_names = _completing(lambda: _metrics("of features"), by_comma=True)
measured_metrics = _completing(lambda: _metrics("measured"), by_comma=True)
dataset_names = _completing(_datasets)
study_names = _completing(_studies)
all_dataset_names = _completing(lambda: dict.fromkeys([*_datasets(), *_datasets_of_others()]))
column_name = _completing(_columns, further=_others)
column_names = _completing(_columns, by_comma=True, further=_others)
licences = _completing(_licences, by_comma=True)
device_names = _completing(_devices)


# --- options ---------------------------------------------------------------------------------------------------------

exclude_wrong_option = click.option(
    "--exclude-wrong", is_flag=True, help="Without the measurements that an erratum says to leave out."
)
family_option = click.option(
    "--family",
    "families",
    multiple=True,
    metavar="NAME",
    shell_complete=_completing(_families),
    help="Only encoders of this family, such as 'dino'; also those of an experiment, such as 'randomised'.",
)
dataset_option = click.option(
    "--dataset",
    metavar="NAME",
    shell_complete=dataset_names,
    help="Errors and components on this data set instead of ImageNet-1K.",
)
where_option = click.option(
    "--where", "condition", metavar="EXPR", help="Only encoders for which this is true; see zoo list."
)
dry_run_option = click.option("--dry-run", is_flag=True, help="Only say what would be done.")
yes_option = click.option("--yes", is_flag=True, help="Do not ask.")
only_limit_option = click.option("--limit", type=click.IntRange(min=1), metavar="N", help="At most this many encoders.")


def make_seed_option(text: str) -> Option:
    """``--seed``, with what is drawn."""
    return click.option("--seed", type=click.IntRange(0, 2**31 - 1), default=0, show_default=True, help=text)


# --- values ----------------------------------------------------------------------------------------------------------

_LONGEST = 28  # characters of a number; Decimal is exact that far
_EXPONENTS = {"": 0, "k": 3, "m": 6, "g": 9, "b": 9}
_COUNT = re.compile(
    r"((?:\d+|\d{1,3}(?:,\d{3})+|\d{1,3}(?:_\d{3})+)(?:\.\d+)?(?:e\+?\d{1,2})?) ?([kmgb]?)", re.IGNORECASE | re.ASCII
)
_MEMORY = re.compile(r"(\d+(?:\.\d+)?) ?([kmgt]?)(i?)b?", re.IGNORECASE | re.ASCII)
_DURATION = re.compile(r"(?:(\d+(?:\.\d+)?) ?h)? ?(?:(\d+(?:\.\d+)?) ?m(?:in)?)? ?(?:(\d+(?:\.\d+)?) ?s)?", re.ASCII)


def parse_count(ctx: click.Context, parameter: click.Parameter, value: str | None) -> int | None:
    """Callback of a whole number above 0: ``20000``, ``20,000``, ``20k``, ``4.1M``, ``1e8``.

    Commas and underscores stand between thousands only.
    """
    if value is None:
        return None
    match = _matched(_COUNT, value)
    if match:
        from decimal import Decimal  # which few command lines need

        number = Decimal(match[1].replace("_", "").replace(",", "")).scaleb(_EXPONENTS[match[2].lower()])
        if 1 <= number <= 10**12 and number == int(number):
            return int(number)
    raise _unreadable(value, "a whole number above 0 and at most 1e12, such as 20000, 20,000, 20k, 100M or 1e8")


def parse_memory(ctx: click.Context, parameter: click.Parameter, value: str | None) -> int | None:
    """Callback of bytes above 0: ``8GB``, ``512 MB``, ``7.5G``, ``8GiB``; GB counts by 1,000, GiB by 1,024."""
    if value is None:
        return None
    match = _matched(_MEMORY, value)
    if match:
        n_bytes = int(float(match[1]) * (1024 if match[3] else 1000) ** " kmgt".index(match[2].lower() or " "))
        if 1 <= n_bytes <= 10**15:
            return n_bytes
    raise _unreadable(value, "memory such as 8GB, 512MB or 8GiB")


def parse_duration(ctx: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    """Callback of a time in seconds above 0: ``30m``, ``2h``, ``90s``, ``1h30m``; None of ``none``."""
    if value is None or value.strip().casefold() == "none":
        return None
    match = _matched(_DURATION, value.casefold())
    if match:
        hours, minutes, seconds = (float(part or 0) for part in match.groups())
        total = 3600 * hours + 60 * minutes + seconds
        if 0 < total <= 366 * 86_400:
            return total
    raise _unreadable(value, "a time with its unit, such as 30m, 2h, 90s or 1h30m, or none")


def _matched(pattern: re.Pattern[str], value: str) -> re.Match[str] | None:
    return pattern.fullmatch(value.strip()) if 0 < len(value.strip()) <= _LONGEST else None


def _unreadable(value: str, expected: str) -> click.BadParameter:
    return click.BadParameter(f"got {value[:_LONGEST]!r}, expected {expected}.")
