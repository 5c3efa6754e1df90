"""The first page: the best encoder for its size, a plot of error against size, the table of all, data for scripts."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from ..cards.catalogue import load_catalogue
from ..cards.representations import get_base_id
from ..cards.schema import EncoderCard, Missing, format_fact
from ..results.evidence import find_dataset_id, find_origin, list_datasets
from ..results.facts import DOUBTFUL, FACTS, REPORTED, format_points, format_short_number, mark_reported
from ..results.reported_values import PROTOCOLS
from ..results.values import IMAGENET, SETTINGS
from ..studies.running import list_studies
from .contents import Contents, SiteEntry
from .drawing import (
    FILLS,
    LIVE,
    Axis,
    PlotPoint,
    Scale,
    build_element,
    draw_scatter,
    draw_swatch,
    find_pareto_front,
    spread_points,
)
from .expected import FILL_OF, SiteError, compute_site_errors, count_kinds
from .rendering import File, SiteRenderer, get_dataset_page, get_encoder_page, get_study_page

if TYPE_CHECKING:
    from markupsafe import Markup

LABELS = {
    "100%": "all labels", "30-shot": "30 labels per class", "1%": "1 % of the labels", "5-shot": "5 labels per class",
    "3-shot": "3 labels per class",
}  # fmt: skip
_COMMERCIAL = {
    "yes": "any use", "no": "not commercial", "conditions": "under conditions", "unknown": "unknown",
}  # fmt: skip
Offered: TypeAlias = dict[str, list[tuple[str, str, int]]]  # by kind: value, words and number of encoders
NAMES = {IMAGENET: "ImageNet-1K"}
ELSEWHERE = "on "  # begins a score that is an error on another data set
_EXPECTED = "expected"
_FLATTERED = "that were trained with ImageNet's labels and not measured by the study"
_GRID = (5.0, 10.0, 20.0, 50.0)  # percent

Cell: TypeAlias = tuple[str, bool]  # a text of the table, and whether it says why there is no value

COLUMNS = (
    ("encoder", "Encoder"), ("training", "Training"), ("network", "Network"), ("parameters", "Parameters"),
    ("dim", "Dimension"), ("error", "Error,\N{NO-BREAK SPACE}%"), ("interval", "90\N{NO-BREAK SPACE}% interval"),
    ("basis", "Rests on"), ("reported", "Reported"), ("licence", "Licence"), ("access", "Weights"),
    ("released", "Released"),
)  # fmt: skip
"""Name in the address, and heading."""


KINDS = {"self": "self-supervised", "text": "with text", "labels": "supervised or distilled", "none": "untrained"}
"""What a network learnt from, a colour and a shape each: its name in data and addresses, and words."""
_LEADING = {
    "self": "Self-supervised encoders", "text": "Encoders trained with text",
    "labels": "Supervised and distilled encoders",
}  # fmt: skip
_OF_LABELS = ("supervised", "weakly_supervised", "distillation")
_MIXED = {"tinyclip": "text", "mae_wsp": "labels"}  # objectives whose mode does not say it
SIZES = (10e6, 30e6, 100e6, 400e6, math.inf)
"""Parameters up to which a best encoder is named."""
SINCE = ("2023", "2024", "2025")
LISTED = 25  # encoders of the table before all are asked for
FARTHEST = 60.0
"""Percent; of a higher expected error is nothing drawn: one that is of little use to anybody would halve the plot."""


def build_files(contents: Contents, renderer: SiteRenderer) -> Iterator[File]:
    """The page, and with it the assets that it names."""
    dataset, known = compute_site_errors(contents)
    entries = sort_entries(contents, known)
    scores = _scores(entries, dataset, known)
    marks = list_drawn_points(entries, known, dataset)
    answer = _answer(entries, known) if scores[_EXPECTED] else []
    best = find_pareto_front(marks, lower=True)
    yield renderer.page(
        "index.html.jinja",
        "index.html",
        title=contents.title,
        kind="index",
        later=renderer.data("encoders.js", "ENCODERS", build_encoder_data(entries, dataset, known)),
        names=renderer.data("names.js", "NAMES", build_search_data(contents, entries)),
        plot=_plot(marks, scores, dataset),
        answer=answer,
        ruler=draw_whisker(),
        headline=_headline(best if answer else [], len({one.group for one in marks if not one.is_beside}))
        or f"{NAMES.get(dataset, dataset)}: measured error with all labels",
        undrawn=_undrawn(entries, known, marks),
        farthest=FARTHEST if len(marks) < sum(one.is_drawn for one in known.values()) else "",
        front=[(one.id, one.href, format_short_number(one.x), format_points(one.y)) for one in best],
        kinds=KINDS,
        fills=[*FILLS.values()],
        columns=COLUMNS,
        dataset=NAMES.get(dataset, dataset),
        rows=[(entry, get_encoder_page(entry), _cells(entry, known.get(entry.id))) for entry in entries[:LISTED]],
        n_encoders=len(entries),
        counts=count_kinds(known),
        scores=scores,
        choices=_choices(entries),
        has_mine=any(entry.is_mine for entry in entries),
        doubtful=DOUBTFUL,
        reported=REPORTED,
    )


def classify_network(card: EncoderCard) -> str:
    """What a network learnt from, one of :data:`KINDS`: texts along with its images, labels or another network,
    neither.

    It is the card's kind of objective, whatever networks made the targets of a self-supervised one.
    """
    objective = card.objective
    has_captions = objective.name == "aim" and objective.version == 2  # AIMv2 continues images and their texts
    if card.is_untrained:
        return "none"
    if objective.name in _MIXED:
        return _MIXED[objective.name]
    return "text" if card.saw_texts or has_captions else "labels" if objective.mode in _OF_LABELS else "self"


def _answer(entries: Sequence[SiteEntry], known: Mapping[str, SiteError]) -> list[dict[str, Any]]:
    """Rows: the best of the ranked encoders up to every size, but for sizes that no more of them have."""
    ranked = [(known[entry.id], entry) for entry in entries if entry.id in known and known[entry.id].is_ranked]
    rows: list[dict[str, Any]] = []
    n_before = 0
    for size in SIZES:
        fitting = [one for one in ranked if one[1].card.architecture.n_parameters <= size]  # by rising error
        if len(fitting) > n_before:
            best, entry = fitting[0]
            kind, use = classify_network(entry.card), entry.card.commercial_use
            rows.append({
                "most": size,
                "up_to": "any size" if math.isinf(size) else format_short_number(size),
                "id": entry.id,
                "href": get_encoder_page(entry),
                "size": format_short_number(entry.card.architecture.n_parameters),
                "error": format_points(best.error),
                "interval": format_interval_ends(best.low, best.high),
                "drawing": draw_whisker(best),
                "mark": draw_swatch([*KINDS].index(kind) + 1),
                "kind": KINDS[kind],
                "use": "unknown" if isinstance(use, Missing) else _COMMERCIAL[use],
                "released": format_fact(entry.card.released),
                "n_in_reach": sum((one.low or 0.0) <= best.error for one, _ in fitting[1:]),
            })  # fmt: skip
        n_before = len(fitting)
    return rows


def draw_whisker(one: SiteError | None = None) -> Markup:
    """An error with its interval on a logarithmic scale from 5 to 60 %, or the scale itself."""
    across = Scale(5.0, 60.0, 6.0, 154.0, "log")
    if one is None:
        drawn = [build_element("text", {"x": across(at), "y": 14, "text-anchor": "middle"}, f"{at:g}") for at in _GRID]
    else:
        low, at, high = (across(min(max(end or 0.0, 5.0), 60.0)) for end in (one.low, one.error, one.high))
        drawn = [build_element("path", {"class": "grid", "d": f"M{across(value):.1f},0V20"}) for value in _GRID]
        drawn.append(build_element("path", {"class": "interval", "d": f"M{low:.1f},10H{high:.1f}"}))
        drawn.append(build_element("circle", {"class": FILL_OF[one.basis], "cx": at, "cy": 10, "r": 4}))
    return build_element("svg", {"class": "whisker", "viewBox": "0 0 160 20", "aria-hidden": "true"}, *drawn)


def _headline(best: Sequence[PlotPoint], kinds: int) -> str:
    """What the plot says in a sentence: from which size on the front has encoders of one kind alone, where that is most
    of it and there are several kinds, and how far the lowest expected error falls."""
    if not best:
        return ""
    first = next(n for n in range(len(best)) if len({one.group for one in best[n:]}) == 1)
    is_led = kinds > 1 and len(best) - first > max(len(best) / 2, 1)
    start, end = best[first if is_led else 0], best[-1]
    low, high = (f"{one.y:.2g}\N{NO-BREAK SPACE}%" for one in (end, start))
    small, large = format_millions(start.x), format_millions(end.x)
    if start is end:
        return f"The lowest expected error is {low}, with {large} parameters"
    if not is_led:
        return f"The lowest expected error falls from {high} at {small} parameters to {low} at {large}"
    where, at = (f"from {small} parameters on", "there") if first else ("at every size", f"at {small} parameters")
    leading = _LEADING[[*KINDS][end.group - 1]]
    return f"{leading} lead {where}: the lowest expected error falls from {high} {at} to {low} at {large}"


def format_millions(count: float) -> str:
    """A number of parameters in two digits.

    >>> format_millions(6_042_240), format_millions(2_723_017_728), format_millions(415_006_704)
    ('6\xa0million', '2.7\xa0billion', '420\xa0million')
    """
    size, word = (1e9, "billion") if count >= 0.995e9 else (1e6, "million")
    return f"{float(f'{count / size:.2g}'):g}\N{NO-BREAK SPACE}{word}"


def _undrawn(entries: Sequence[SiteEntry], known: Mapping[str, SiteError], marks: Sequence[PlotPoint]) -> str:
    """How many of all encoders the plot leaves out and why, as a sentence; "" if it has all."""
    drawn = {one.id for one in marks}
    why: Counter[str] = Counter()
    for entry in entries:
        if entry.id not in drawn:
            one = known.get(entry.id)
            if one is None:
                why["of which no error is known"] += 1
            elif not one.is_drawn:
                is_flattered = one.note == "saw its labels"
                why[_FLATTERED if is_flattered else f"left out of the ranking ({one.note})"] += 1
            else:
                why["untrained" if entry.card.is_untrained else f"with an expected error above {FARTHEST:g} %"] += 1
    parts = [f"{n:,} {words}" for words, n in why.most_common()]
    return f"Not drawn: {', '.join(parts)}." if parts else ""


def format_words(name: str) -> str:
    """A value of a card as words: ``language_supervised`` without the line."""
    return name.replace("_", " ")


def _plot(marks: Sequence[PlotPoint], scores: Offered, dataset: str) -> object:
    """What the page shows before anybody chooses: expected error, or that measured on the data set, against size."""
    if not marks:
        return ""
    is_expected = bool(scores[_EXPECTED])
    words = f"{NAMES.get(dataset, dataset)}: {'expected' if is_expected else 'measured'} error with all labels"
    return draw_scatter(
        marks,
        Axis("parameters", "log", "count"),
        Axis("expected error, all labels, %" if is_expected else "error, %", "log", "percent", "low"),
        title=f"{words} against the number of parameters",
        description="The table below has the same numbers.",
        groups=[*KINDS.values()],
        front=is_expected,
        by_fill=is_expected,
        frame=LIVE,
    )


def list_drawn_points(
    entries: Sequence[SiteEntry], known: Mapping[str, SiteError], dataset: str = ""
) -> list[PlotPoint]:
    """Error against parameters of those that may be drawn; on ImageNet-1K without far ones, if there are others."""
    every = [(entry, one) for entry in entries if (one := known.get(entry.id)) and one.is_drawn]
    near = [(entry, one) for entry, one in every if not (entry.card.is_untrained or one.error > FARTHEST)]
    return spread_points(
        [
            PlotPoint(
                id=entry.id,
                href=get_encoder_page(entry),
                x=float(entry.card.architecture.n_parameters),
                y=one.error,
                group=[*KINDS].index(classify_network(entry.card)) + 1,
                fill=FILL_OF[one.basis],
                is_beside=not one.is_ranked,
            )
            for entry, one in ((near if dataset == IMAGENET else []) or every)
        ]
    )


def _scores(entries: list[SiteEntry], dataset: str, known: Mapping[str, SiteError]) -> Offered:
    """What the plot can show: expected, or measured on the main data set and, with all labels, on others; reported."""
    measured = []
    for one in SETTINGS:
        n = sum(entry.error(one.name, dataset) is not None for entry in entries)
        measured += [(one.name, f"error with {LABELS[one.name]}", n)] * bool(n)
    others = Counter(other for entry in entries for other in entry.elsewhere if entry.error("100%", other) is not None)
    measured += [
        (f"{ELSEWHERE}{other}", f"error on {other}, all labels", n) for other, n in others.items() if other != dataset
    ]
    counts = Counter(name for entry in entries for name in entry.subject.reported)
    reported = [(one.short, f"reported accuracy, {one.short}", counts[one.name]) for one in PROTOCOLS.values()]
    n_expected = sum(one.is_drawn for one in known.values()) if dataset == IMAGENET else 0
    expected = [(_EXPECTED, "expected error, all labels", n_expected)] * bool(n_expected)
    return {_EXPECTED: expected, "measured": measured, "reported": [one for one in reported if one[2]]}


def _choices(entries: list[SiteEntry]) -> Offered:
    """What the filters offer, the most frequent first."""
    found = {"kind": Counter(classify_network(entry.card) for entry in entries)}
    columns = {"mode": "ssl_mode", "family": "family", "commercial": "commercial_use", "access": "availability"}
    for name, column in columns.items():
        values = [FACTS[column].of(entry.subject) for entry in entries]
        found[name] = Counter(str(value) for value in values if not isinstance(value, Missing))
    words = {
        "kind": KINDS,
        "commercial": {
            "yes": "commercial use allowed", "no": "commercial use not allowed", "conditions": "under conditions",
            "unknown": "not known",
        },
    }  # fmt: skip
    released = [str(entry.card.released) for entry in entries if not isinstance(entry.card.released, Missing)]
    return {
        name: [(value, words.get(name, {}).get(value, format_words(value)), n) for value, n in counts.most_common()]
        for name, counts in found.items()
    } | {"since": [(year, f"since {year}", sum(one >= year for one in released)) for year in SINCE]}


def _cells(entry: SiteEntry, known: SiteError | None) -> list[Cell]:
    """The row of an encoder behind its name, as COLUMNS."""

    def of_fact(value: object) -> Cell:
        return format_fact(value), isinstance(value, Missing)

    card, objective = entry.card, entry.card.objective
    method = [format_words(one) for one in (objective.name, objective.mode) if not isinstance(one, Missing)]
    licence, use = of_fact(card.licence.weights), card.commercial_use
    if not licence[1] and not isinstance(use, Missing):  # without what says that it is none of SPDX's
        licence = f"{licence[0].replace('LicenseRef-', '')}: {_COMMERCIAL[use]}", False
    error = [("not expected", True), ("none", True), ("nothing known", True)]
    if known is not None:
        interval = ("none", True) if known.low is None else (format_interval_ends(known.low, known.high), False)
        error = [
            (format_points(known.error), False),
            interval,
            (", ".join(filter(None, (known.basis, known.note))), False),
        ]
    return [
        (", ".join(method), False) if method else of_fact(objective.mode),
        (card.architecture.exact, False),
        (format_short_number(card.architecture.n_parameters), False),
        (str(card.representation.dim), False),
        *error,
        of_fact(FACTS["reported"].of(entry.subject)),
        licence,
        of_fact(card.weights.availability),
        of_fact(card.released),
    ]


def format_interval_ends(low: float | None, high: float | None) -> str:
    """Both ends in percent.

    >>> format_interval_ends(21.34, 24.1)
    '21.3-24.1'
    """
    return f"{format_points(low or 0.0)}-{format_points(high or 0.0)}"


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
    "id", "file", "kind", "expected", "low", "high", "basis", "ranked", "drawn", "note", *_OF_CARD,
    *(setting.name for setting in SETTINGS), *COMPONENTS, "approximation_assumed", "reported", "mine", "wrong",
    "elsewhere", "missing",
)  # fmt: skip
"""What is known of an encoder, in order.

``file`` is the stem of its page where that is not its id.
``kind`` is what it learnt from, of :data:`KINDS`. ``expected`` is the error of
:func:`~zoo.site.expected.compute_site_errors`, with its interval from ``low`` to ``high`` and the ``basis`` that it
rests on; ``ranked`` encoders may be on the front. Facts of the card and errors in percent are null where they have no
value; errors and components also where an erratum excludes them. ``reported`` has by the short name of a protocol the
accuracy as it is printed, with ``*`` behind it, or ``*!`` if it is doubtful. ``elsewhere`` has by data set the error
with all its labels. Measured errors and components are those on the main data set. ``mine`` is true of a card of the
user's, ``wrong`` where an erratum excludes measurements. ``missing`` has by column of the table why a cell is without a
value.
"""


def build_encoder_data(entries: Sequence[SiteEntry], dataset: str, known: Mapping[str, SiteError]) -> dict[str, Any]:
    """By field the values of all encoders, in their order."""
    rows = [_data_row(entry, dataset, known.get(entry.id)) for entry in entries]
    return {name: [row[place] for row in rows] for place, name in enumerate(FIELDS)}


def build_search_data(contents: Contents, entries: Sequence[SiteEntry]) -> dict[str, Any]:
    """What the search field finds: what each encoder answers to, in their order; pages of data sets and studies."""
    known = load_catalogue().with_unlisted.column("names")
    measured = {find_dataset_id(one.dataset) for entry in entries for one in entry.reported if find_origin(one)}
    return {
        "encoders": [str(known[get_base_id(entry.id)]) for entry in entries],
        "datasets": [[one.title, get_dataset_page(name)] for name, one in list_datasets().items() if name in measured],
        "studies": [[one.question, get_study_page(name)] for name, one in list_studies().items()]
        if contents.with_studies
        else [],
    }


def sort_entries(contents: Contents, known: Mapping[str, SiteError]) -> list[SiteEntry]:
    """By rising error; behind them those that cannot be ranked, such as those that ImageNet's labels flatter, by
    theirs, and those without any, newest first; of one month by name."""

    def key(entry: SiteEntry) -> tuple[int, float, str]:
        one = known.get(entry.id)
        if one is not None:
            return int(not one.is_drawn), one.error, entry.id.casefold()
        released = entry.card.released
        return 2, 0.0 if isinstance(released, Missing) else -int(released.replace("-", "")), entry.id.casefold()

    return sorted(contents.entries.values(), key=key)


def _data_row(entry: SiteEntry, dataset: str, known: SiteError | None) -> list[Any]:
    subject, found = entry.subject, entry.risks_on(dataset)
    parts = None if found is None else found.decomposition
    components = [None if parts is None else _plain(getattr(parts, name)) for name in COMPONENTS]
    of_error: list[Any] = [None, None, None, None, False, False, ""]
    if known is not None:
        ends = [None if end is None else round(end, 4) for end in (known.low, known.high)]
        mean = known.error if known.low is None or FILL_OF[known.basis] == "full" else round(known.error, 4)
        of_error = [mean, *ends, known.basis, known.is_ranked, known.is_drawn, known.note]
    return [
        entry.id,
        None if entry.file == entry.id else entry.file,
        classify_network(entry.card),
        *of_error,
        *(_plain(FACTS[column].of(subject)) for column in _OF_CARD.values()),
        *(entry.error(setting.name, dataset) for setting in SETTINGS),
        *(None if value is None else round(value, 4) for value in components),  # more digits than any figure shows
        parts is not None and parts.approximation_assumed,
        {PROTOCOLS[name].short: f"{one.printed}{mark_reported(one)}" for name, one in subject.reported.items()},
        entry.is_mine,
        subject.is_wrong,
        {name: error for name in entry.elsewhere if (error := entry.error("100%", name)) is not None},
        {
            name: text
            for (name, _), (text, is_missing) in zip(COLUMNS[1:], _cells(entry, known), strict=True)
            if is_missing and name not in ("error", "interval", "basis")
        },
    ]


def _plain(value: Any) -> Any:
    return None if isinstance(value, Missing) else value
