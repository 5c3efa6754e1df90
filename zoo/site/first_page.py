"""The first page: what the zoo is, a plot of score against size, and the table of all encoders."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ..cards.schema import Missing, fact_text
from ..results.facts import DOUBTFUL, FACTS, REPORTED, points, short_number
from ..results.reported_values import PROTOCOLS
from ..results.values import IMAGENET, SETTINGS
from .assets import datatables
from .contents import Contents, Entry
from .encoder_data import encoder_data_script, error_of, in_order, main_dataset, risks_on
from .rendering import File, Renderer, encoder_page
from .scatter import Axis, Point, scatter

N_GROUPS = 8  # colours and shapes that a plot has
OTHER = "other"
LABELS = {
    "100%": "all labels", "30-shot": "30 labels a class", "1%": "1 % of the labels", "5-shot": "5 labels a class",
    "3-shot": "3 labels a class",
}  # fmt: skip
_COMMERCIAL = {
    "yes": "any use", "no": "not commercial", "conditions": "under conditions", "unknown": "unknown",
}  # fmt: skip
Offered: TypeAlias = dict[str, list[tuple[str, str, int]]]  # by kind: value, words and number of encoders
NAMES = {IMAGENET: "ImageNet-1K"}
ELSEWHERE = "on "  # begins a score that is an error on another data set
_EXCLUDED = "excluded as wrong"
_UNMEASURED = "not measured"


@dataclass(frozen=True, slots=True)
class Cell:
    """A text of the table; soft if it says why there is no value."""

    text: str
    is_missing: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """One encoder of the table."""

    id: str
    href: str
    is_mine: bool
    cells: tuple[Cell, ...]  # behind its name, as COLUMNS


COLUMNS = (
    ("encoder", "Encoder"), ("training", "Training"), ("network", "Network"), ("parameters", "Parameters"),
    ("dim", "Dimension"), ("error", "Error, all labels"), ("error1", "Error, 1\N{NO-BREAK SPACE}% labels"),
    ("reported", "Reported"), ("licence", "Licence"), ("access", "Weights"), ("released", "Released"),
)  # fmt: skip
"""Name in the address, and heading."""


def files(contents: Contents, renderer: Renderer) -> Iterator[File]:
    """The page, and with it the assets that it names."""
    entries = in_order(contents)
    dataset = main_dataset(contents)
    groups = _groups(entries, dataset)
    scores = _scores(entries, dataset)
    yield renderer.page(
        "index.html.jinja",
        "index.html",
        title=contents.title,
        kind="index",
        scripts=(encoder_data_script(contents, renderer),),
        datatables=datatables(renderer),
        plot=_plot(entries, groups, scores, dataset),
        groups=[*groups, OTHER],
        columns=COLUMNS,
        dataset=NAMES.get(dataset, dataset),
        rows=[_row(entry, dataset) for entry in entries],
        n_encoders=len(entries),
        n_measured=sum(
            any(error_of(entry, setting.name, dataset) is not None for setting in SETTINGS) for entry in entries
        ),
        scores=scores,
        choices=_choices(entries),
        has_mine=any(entry.is_mine for entry in entries),
        has_wrong=any(entry.subject.is_wrong for entry in entries),
        doubtful=DOUBTFUL,
        reported=REPORTED,
    )


def in_words(name: str) -> str:
    """A value of a card as words: ``language_supervised`` without the line."""
    return name.replace("_", " ")


def _groups(entries: Sequence[Entry], dataset: str) -> list[str]:
    """Training modes with a colour of their own, by their share of what is measured and of what is reported."""
    measured = Counter(_mode(entry) for entry in entries if risks_on(entry, dataset) is not None)
    reported = Counter(_mode(entry) for entry in entries if entry.subject.reported)
    shares = {
        mode: measured[mode] / max(measured.total(), 1) + reported[mode] / max(reported.total(), 1)
        for mode in {*measured, *reported} - {OTHER}
    }
    ranked = sorted(shares, key=lambda mode: (-shares[mode], mode))
    return ranked[: N_GROUPS - 1]


def _mode(entry: Entry) -> str:
    mode = entry.card.objective.mode
    return OTHER if isinstance(mode, Missing) else mode


def _plot(entries: Iterable[Entry], groups: list[str], scores: Offered, dataset: str) -> object:
    """What the page shows before anybody chooses: the first measured score, or the first reported one, against size."""
    if not any(scores.values()):
        return ""
    name, words, _ = (scores["measured"] or scores["reported"])[0]
    if scores["measured"]:
        if name.startswith(ELSEWHERE):
            name, dataset = "100%", name.removeprefix(ELSEWHERE)
        values = [(entry, error_of(entry, name, dataset)) for entry in entries]
        axis, title = Axis(f"{words}, %", "log", "percent", "low"), f"{NAMES.get(dataset, dataset)}: {words}, measured,"
    else:
        [protocol] = (one.name for one in PROTOCOLS.values() if one.short == name)
        preferred = [(entry, entry.subject.reported.get(protocol)) for entry in entries]
        values = [(entry, None if one is None else one.value) for entry, one in preferred]
        axis = Axis(f"{words}, %", "linear", "percent", "high")
        title = f"ImageNet-1K: {words},"
    shown = [
        Point(
            id=entry.id,
            label=entry.id,
            href=encoder_page(entry),
            x=float(entry.card.architecture.n_parameters),
            y=value,
            group=groups.index(_mode(entry)) + 1 if _mode(entry) in groups else len(groups) + 1,
            hollow=entry.is_mine,
        )
        for entry, value in values
        if value is not None
    ]
    return scatter(
        shown,
        Axis("parameters", "log", "count"),
        axis,
        title=f"{title} against the number of parameters",
        description="The table below has the same numbers.",
        groups=[in_words(one) for one in [*groups, OTHER]],
    )


def _scores(entries: list[Entry], dataset: str) -> Offered:
    """What the plot can show: measured on the main data set and, with all labels, on others; and reported, apart."""
    measured = [
        (
            setting.name,
            f"error with {LABELS[setting.name]}",
            sum(error_of(entry, setting.name, dataset) is not None for entry in entries),
        )
        for setting in SETTINGS
    ]
    others = Counter(
        other for entry in entries for other in entry.elsewhere if error_of(entry, "100%", other) is not None
    )
    measured += [
        (f"{ELSEWHERE}{other}", f"error on {other}, all labels", n) for other, n in others.items() if other != dataset
    ]
    counts = Counter(name for entry in entries for name in entry.subject.reported)
    reported = [
        (one.short, f"reported accuracy, {one.short}", counts[one.name])
        for one in PROTOCOLS.values()
        if counts[one.name]
    ]
    return {"measured": [one for one in measured if one[2]], "reported": reported}


def _choices(entries: list[Entry]) -> Offered:
    """What the filters offer, the most frequent first."""
    found: dict[str, Counter[str]] = {name: Counter() for name in ("mode", "family", "commercial", "access")}
    columns = {"mode": "ssl_mode", "family": "family", "commercial": "commercial_use", "access": "availability"}
    for name, column in columns.items():
        values = [FACTS[column].of(entry.subject) for entry in entries]
        found[name].update(str(value) for value in values if not isinstance(value, Missing))
    words = {"commercial": {"yes": "allowed", "no": "not allowed"}}
    return {
        name: [(value, words.get(name, {}).get(value, in_words(value)), n) for value, n in counts.most_common()]
        for name, counts in found.items()
    }


def _row(entry: Entry, dataset: str) -> Row:
    card = entry.card
    cells = (
        _training(entry),
        Cell(card.architecture.exact),
        Cell(short_number(card.architecture.n_parameters)),
        Cell(str(card.representation.dim)),
        _error(entry, "100%", dataset),
        _error(entry, "1%", dataset),
        _of_fact(FACTS["reported"].of(entry.subject)),
        _licence(entry),
        _of_fact(card.weights.availability),
        _of_fact(card.released),
    )
    return Row(entry.id, encoder_page(entry), entry.is_mine, cells)


def _of_fact(value: object) -> Cell:
    return Cell(fact_text(value), isinstance(value, Missing))


def _training(entry: Entry) -> Cell:
    """Mode, and the method that it is an instance of."""
    objective = entry.card.objective
    told = [in_words(str(one)) for one in (objective.name, objective.mode) if not isinstance(one, Missing)]
    return Cell(", ".join(told)) if told else _of_fact(objective.mode)


def _error(entry: Entry, setting: str, dataset: str) -> Cell:
    error = error_of(entry, setting, dataset)
    if error is not None:
        return Cell(points(error))
    was_measured = dataset == IMAGENET and entry.summary is not None and setting in entry.summary.errors
    return Cell(_EXCLUDED if was_measured else _UNMEASURED, is_missing=True)


def _licence(entry: Entry) -> Cell:
    """The id without what says that it is none of SPDX's, and what it means for commercial use."""
    licence, use = entry.card.licence.weights, entry.card.commercial_use
    if isinstance(licence, Missing) or isinstance(use, Missing):
        return _of_fact(licence)
    return Cell(f"{licence.replace('LicenseRef-', '')}: {_COMMERCIAL[use]}")
