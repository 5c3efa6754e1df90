"""The first page: a plot of expected error against size, the table of all encoders, and their data for scripts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from ..cards.schema import Missing, fact_text
from ..results.facts import DOUBTFUL, FACTS, REPORTED, points, reported_mark, short_number
from ..results.reported_values import PROTOCOLS
from ..results.values import IMAGENET, SETTINGS
from .contents import OTHER, Contents, Entry, coloured_modes
from .drawing import FILLS, Axis, Point, front_of, scatter
from .expected import FILL_OF, Standing, standings
from .rendering import File, Renderer, encoder_page

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
_EXPECTED = "expected"


Cell: TypeAlias = tuple[str, bool]  # a text of the table, and whether it says why there is no value

COLUMNS = (
    ("encoder", "Encoder"), ("training", "Training"), ("network", "Network"), ("parameters", "Parameters"),
    ("dim", "Dimension"), ("error", "Error,\N{NO-BREAK SPACE}%"), ("interval", "90\N{NO-BREAK SPACE}% interval"),
    ("basis", "Rests on"), ("reported", "Reported"), ("licence", "Licence"), ("access", "Weights"),
    ("released", "Released"),
)  # fmt: skip
"""Name in the address, and heading."""


def files(contents: Contents, renderer: Renderer) -> Iterator[File]:
    """The page, and with it the assets that it names."""
    dataset, known = standings(contents)
    entries = in_order(contents, known)
    groups = coloured_modes(contents)
    scores = _scores(entries, dataset, known)
    yield renderer.page(
        "index.html.jinja",
        "index.html",
        title=contents.title,
        kind="index",
        scripts=(renderer.data("encoders.js", "ENCODERS", encoder_data(entries, dataset, known)),),
        datatables=renderer.datatables,
        plot=_plot(entries, groups, scores, dataset, known),
        front=[
            (one.id, one.href, short_number(one.x), points(one.y))
            for one in front_of(_marks(entries, groups, known), lower=True)
        ],
        groups=[*groups, OTHER],
        fills=[*FILLS.values()],
        columns=COLUMNS,
        dataset=NAMES.get(dataset, dataset),
        rows=[(entry, encoder_page(entry), _cells(entry, known.get(entry.id))) for entry in entries],
        n_encoders=len(entries),
        n_measured=sum(FILL_OF[one.basis] == "full" for one in known.values()),
        n_known=len(known),
        n_by_others=sum(FILL_OF[one.basis] == "half" for one in known.values()),
        scores=scores,
        choices=_choices(entries),
        has_mine=any(entry.is_mine for entry in entries),
        doubtful=DOUBTFUL,
        reported=REPORTED,
    )


def in_words(name: str) -> str:
    """A value of a card as words: ``language_supervised`` without the line."""
    return name.replace("_", " ")


def _plot(
    entries: Sequence[Entry], groups: list[str], scores: Offered, dataset: str, known: Mapping[str, Standing]
) -> object:
    """What the page shows before anybody chooses: expected error, or that measured on the data set, against size."""
    if not known:
        return ""
    is_expected = bool(scores[_EXPECTED])
    words = f"{NAMES.get(dataset, dataset)}: {'expected' if is_expected else 'measured'} error with all labels"
    return scatter(
        _marks(entries, groups, known),
        Axis("parameters", "log", "count"),
        Axis("expected error, %" if is_expected else "error, %", "log", "percent", "low"),
        title=f"{words} against the number of parameters",
        description="The table below has the same numbers.",
        groups=[in_words(one) for one in [*groups, OTHER]],
        front=is_expected,
        by_fill=is_expected,
    )


def _marks(entries: Sequence[Entry], groups: list[str], known: Mapping[str, Standing]) -> list[Point]:
    """Error against parameters of those that are drawn."""
    return [
        Point(
            id=entry.id,
            href=encoder_page(entry),
            x=float(entry.card.architecture.n_parameters),
            y=one.error,
            group=groups.index(entry.mode) + 1 if entry.mode in groups else len(groups) + 1,
            fill=FILL_OF[one.basis],
            is_beside=not one.is_ranked,
        )
        for entry in entries
        if (one := known.get(entry.id)) and one.is_drawn
    ]


def _scores(entries: list[Entry], dataset: str, known: Mapping[str, Standing]) -> Offered:
    """What the plot can show: expected, or measured on the main data set and, with all labels, on others; reported."""
    measured = [
        (
            setting.name,
            f"error with {LABELS[setting.name]}",
            sum(entry.error(setting.name, dataset) is not None for entry in entries),
        )
        for setting in SETTINGS
    ]
    others = Counter(other for entry in entries for other in entry.elsewhere if entry.error("100%", other) is not None)
    measured += [
        (f"{ELSEWHERE}{other}", f"error on {other}, all labels", n) for other, n in others.items() if other != dataset
    ]
    counts = Counter(name for entry in entries for name in entry.subject.reported)
    reported = [
        (one.short, f"reported accuracy, {one.short}", counts[one.name])
        for one in PROTOCOLS.values()
        if counts[one.name]
    ]
    n_expected = sum(one.is_drawn for one in known.values()) if dataset == IMAGENET else 0
    expected = [(_EXPECTED, "expected error, all labels", n_expected)] * bool(n_expected)
    return {_EXPECTED: expected, "measured": [one for one in measured if one[2]], "reported": reported}


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


def _cells(entry: Entry, known: Standing | None) -> list[Cell]:
    """The row of an encoder behind its name, as COLUMNS."""
    card, objective = entry.card, entry.card.objective
    method = [in_words(one) for one in (objective.name, objective.mode) if not isinstance(one, Missing)]
    licence, use = _of_fact(card.licence.weights), card.commercial_use
    if not licence[1] and not isinstance(use, Missing):  # without what says that it is none of SPDX's
        licence = f"{licence[0].replace('LicenseRef-', '')}: {_COMMERCIAL[use]}", False
    return [
        (", ".join(method), False) if method else _of_fact(objective.mode),
        (card.architecture.exact, False),
        (short_number(card.architecture.n_parameters), False),
        (str(card.representation.dim), False),
        *_error_cells(known),
        _of_fact(FACTS["reported"].of(entry.subject)),
        licence,
        _of_fact(card.weights.availability),
        _of_fact(card.released),
    ]


def _of_fact(value: object) -> Cell:
    return fact_text(value), isinstance(value, Missing)


def _error_cells(known: Standing | None) -> list[Cell]:
    """Error, interval and what it rests on."""
    if known is None:
        return [("not expected", True), ("none", True), ("nothing known", True)]
    interval = ("none", True) if known.low is None else (interval_text(known.low, known.high or 0.0), False)
    return [(points(known.error), False), interval, (", ".join(filter(None, (known.basis, known.note))), False)]


def interval_text(low: float, high: float) -> str:
    """Both ends in percent.

    >>> interval_text(21.34, 24.1)
    '21.3-24.1'
    """
    return f"{points(low)}-{points(high)}"


# --- the encoders as data for scripts ---

_OF_CARD = {  # field -> column of zoo.results.facts
    "mode": "ssl_mode",
    "method": "objective",
    "card_family": "card_family",
    "network": "architecture_exact",
    "family": "family",
    "n_parameters": "n_parameters",
    "dim": "z_dim",
    "gflops": "gflops",
    "px": "img_size",
    "released": "released",
    "licence": "license",
    "commercial": "commercial_use",
    "access": "availability",
    "domain": "domain",
    "image_sets": "image_sets",
}
COMPONENTS = (
    "approximation", "usability", "approximation_plus_usability", "probe_generalization", "encoder_generalization",
)  # fmt: skip
FIELDS = (
    "id", "file", "expected", "low", "high", "basis", "ranked", "drawn", "note", *_OF_CARD,
    *(setting.name for setting in SETTINGS), *COMPONENTS, "approximation_assumed", "reported", "mine", "wrong",
    "elsewhere",
)  # fmt: skip
"""What a row has, in order.

``expected`` is the error of :func:`~zoo.site.expected.standings`, with its interval from ``low`` to ``high`` and the
``basis`` that it rests on; ``ranked`` encoders may be on the front. Facts of the card and errors in percent are null
where they have no value; errors and components also where an erratum excludes them. ``reported`` has by the short name
of a protocol the accuracy as it is printed, with ``*`` behind it, or ``*!`` if it is doubtful. ``elsewhere`` has by
data set the error with all its labels. Measured errors and components are those on the main data set. ``mine`` is true
of a card of the user's, ``wrong`` where an erratum excludes measurements.
"""


def encoder_data(entries: Sequence[Entry], dataset: str, known: Mapping[str, Standing]) -> dict[str, Any]:
    """Names of the fields and a row an encoder."""
    return {"fields": list(FIELDS), "rows": [_data_row(entry, dataset, known.get(entry.id)) for entry in entries]}


def in_order(contents: Contents, known: Mapping[str, Standing]) -> list[Entry]:
    """By rising error; behind them those that cannot be ranked, such as those that ImageNet's labels flatter, by
    theirs, and those without any, newest first; of one month by name."""

    def key(entry: Entry) -> tuple[int, float, str]:
        one = known.get(entry.id)
        if one is not None:
            return int(not one.is_drawn), one.error, entry.id.casefold()
        released = entry.card.released
        return 2, 0.0 if isinstance(released, Missing) else -int(released.replace("-", "")), entry.id.casefold()

    return sorted(contents.entries.values(), key=key)


def _data_row(entry: Entry, dataset: str, known: Standing | None) -> list[Any]:
    subject, found = entry.subject, entry.risks_on(dataset)
    parts = None if found is None else found.decomposition
    components = [None if parts is None else _plain(getattr(parts, name)) for name in COMPONENTS]
    elsewhere = {name: error for name in entry.elsewhere if (error := entry.error("100%", name)) is not None}
    reported = {PROTOCOLS[name].short: f"{one.printed}{reported_mark(one)}" for name, one in subject.reported.items()}
    return [
        entry.id,
        entry.file,
        *_known_data(known),
        *(_plain(FACTS[column].of(subject)) for column in _OF_CARD.values()),
        *(entry.error(setting.name, dataset) for setting in SETTINGS),
        *(None if value is None else round(value, 4) for value in components),  # more digits than any figure shows
        parts is not None and parts.approximation_assumed,
        reported,
        entry.is_mine,
        subject.is_wrong,
        elsewhere,
    ]


def _known_data(known: Standing | None) -> list[Any]:
    if known is None:
        return [None, None, None, None, False, False, ""]
    ends = [None if end is None else round(end, 2) for end in (known.low, known.high)]
    error = known.error if known.low is None or FILL_OF[known.basis] == "full" else round(known.error, 3)
    return [error, *ends, known.basis, known.is_ranked, known.is_drawn, known.note]


def _plain(value: Any) -> Any:
    return None if isinstance(value, Missing) else value
