"""The first page: a plot of score against size, the table of all encoders, and their data for scripts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

from ..cards.schema import Missing, fact_text
from ..results.facts import DOUBTFUL, FACTS, REPORTED, points, reported_mark, short_number
from ..results.reported_values import PROTOCOLS
from ..results.values import IMAGENET, SETTINGS, Summary
from .contents import Contents, Entry
from .drawing import Axis, Point, scatter
from .rendering import File, Renderer, encoder_page

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


Cell: TypeAlias = tuple[str, bool]  # a text of the table, and whether it says why there is no value

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
        scripts=(renderer.data("encoders.js", "ENCODERS", encoder_data(contents)),),
        datatables=renderer.datatables,
        plot=_plot(entries, groups, scores, dataset),
        groups=[*groups, OTHER],
        columns=COLUMNS,
        dataset=NAMES.get(dataset, dataset),
        rows=[(entry, encoder_page(entry), _cells(entry, dataset)) for entry in entries],
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


def _cells(entry: Entry, dataset: str) -> list[Cell]:
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
        _error(entry, "100%", dataset),
        _error(entry, "1%", dataset),
        _of_fact(FACTS["reported"].of(entry.subject)),
        licence,
        _of_fact(card.weights.availability),
        _of_fact(card.released),
    ]


def _of_fact(value: object) -> Cell:
    return fact_text(value), isinstance(value, Missing)


def _error(entry: Entry, setting: str, dataset: str) -> Cell:
    error = error_of(entry, setting, dataset)
    if error is not None:
        return points(error), False
    was_measured = dataset == IMAGENET and entry.summary is not None and setting in entry.summary.errors
    return ("excluded as wrong" if was_measured else "not measured"), True


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
    "id", "file", *_OF_CARD, *(setting.name for setting in SETTINGS), *COMPONENTS, "approximation_assumed", "reported",
    "mine", "wrong", "elsewhere",
)  # fmt: skip
"""What a row has, in order.

Facts of the card and errors in percent are null where they have no value; errors and components also where an erratum
excludes them. ``reported`` has by the short name of a protocol the accuracy as it is printed, with ``*`` behind it, or
``*!`` if it is doubtful. ``elsewhere`` has by data set the error with all its labels. Errors and components are
those on :func:`main_dataset`. ``mine`` is true of a card of the user's, ``wrong`` where an erratum excludes
measurements.
"""


def encoder_data(contents: Contents) -> dict[str, Any]:
    """Names of the fields and a row an encoder."""
    main = main_dataset(contents)
    return {"fields": list(FIELDS), "rows": [_data_row(entry, main) for entry in in_order(contents)]}


def in_order(contents: Contents) -> list[Entry]:
    """First what was measured with all labels, the lowest error first; then what somebody reported an accuracy on
    ImageNet-1K of, the newest first; then all others, the newest first; of one month by name."""
    dataset = main_dataset(contents)

    def key(entry: Entry) -> tuple[float, int, str]:
        error = error_of(entry, "100%", dataset)
        if error is not None:
            return error, 0, entry.id.casefold()
        released = entry.card.released
        month = 0 if isinstance(released, Missing) else int(released.replace("-", ""))
        return (1000.0 if entry.subject.reported else 2000.0), -month, entry.id.casefold()

    return sorted(contents.entries.values(), key=key)


def main_dataset(contents: Contents) -> str:
    """The data set whose errors the first page lists: ImageNet-1K, or without any there the most frequent one."""
    entries = contents.entries.values()
    counts = Counter(dataset for entry in entries for dataset in entry.elsewhere)
    if not counts or any(entry.right is not None for entry in entries):
        return IMAGENET
    return max(counts, key=lambda dataset: counts[dataset])


def risks_on(entry: Entry, dataset: str) -> Summary | None:
    """Its risks on a data set, without what an erratum excludes."""
    return entry.right if dataset == IMAGENET else entry.elsewhere.get(dataset)


def error_of(entry: Entry, setting: str, dataset: str = IMAGENET) -> float | None:
    """Its error in percent in one of the five settings, unless it is unmeasured or excluded."""
    found = risks_on(entry, dataset)
    return None if found is None else found.errors.get(setting)


def _data_row(entry: Entry, dataset: str) -> list[Any]:
    subject, found = entry.subject, risks_on(entry, dataset)
    parts = None if found is None else found.decomposition
    components = [None if parts is None else _plain(getattr(parts, name)) for name in COMPONENTS]
    elsewhere = {name: error for name in entry.elsewhere if (error := error_of(entry, "100%", name)) is not None}
    reported = {PROTOCOLS[name].short: f"{one.printed}{reported_mark(one)}" for name, one in subject.reported.items()}
    return [
        entry.id,
        entry.file,
        *(_plain(FACTS[column].of(subject)) for column in _OF_CARD.values()),
        *(error_of(entry, setting.name, dataset) for setting in SETTINGS),
        *(None if value is None else round(value, 4) for value in components),  # more digits than any figure shows
        parts is not None and parts.approximation_assumed,
        reported,
        entry.is_mine,
        subject.is_wrong,
        elsewhere,
    ]


def _plain(value: Any) -> Any:
    return None if isinstance(value, Missing) else value
