"""``compare.html``: up to six encoders side by side, only what differs.

Which ones is in the address (``compare.html#e=ID,ID``). Every line is made here, with its texts, for all encoders; the
page holds six of them, so that there is something to read without JavaScript, and ``scripts/compare.js`` shows
others from the same lines. Bars and curves are drawn here too: the script moves what the page has.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from ..cards.costs import format_gflops
from ..cards.gated_access import describe_access
from ..cards.licences import describe_commercial_use, describe_licence
from ..cards.schema import COLUMNS, Missing, format_fact
from ..results.evidence import get_origin_title, list_datasets
from ..results.facts import (
    FACTS,
    REPORTED,
    Fact,
    Subject,
    format_points,
    format_short_number,
    mark_protocols,
    mark_reported,
)
from ..results.reported_values import PROTOCOLS
from ..results.values import AUTHORS, IMAGENET, SETTINGS, SeedMean, split_generation
from ..results.vocabulary import METRICS
from ..results.wording import describe_basis, format_column_label
from .contents import Contents, SiteEntry, remove_private
from .dataset_pages import format_reported_numbers, group_by_protocol
from .drawing import MARKS, Scale, build_element, draw_grid, draw_swatch
from .encoder_figures import LEFT, RIGHT, Colour, ErrorPart, draw_bar
from .expected import SiteError, compute_site_errors
from .rendering import File, SiteRenderer, get_encoder_page

if TYPE_CHECKING:
    from markupsafe import Markup

PAGE = "compare.html"
MOST = 6
"""Encoders that are compared at most."""

ASSUMED, WRONG = " (assumed)", " !"  # behind a number that is assumed, and one that an erratum says to leave out
NOT_COMPARED = (
    "encoder", "month", "year", "commercial_use", "availability", "gate", "reported", "approx_is_assumed", "is_wrong",
)  # fmt: skip
"""Columns of listings that another line says, in words or as marks of its numbers."""

_LOW = "lowest"


SECTIONS = {
    "errors": (
        "Error of a linear probe on ImageNet-1K",
        "percent, lower is better; ^ by another protocol, with which no other compares",
    ),
    "components": (
        "Components of the error with all labels",
        f"percentage points, signed, lower is better; bars from {LEFT:g} to {RIGHT:g}",
    ),
    "elsewhere": (
        "Measured in addition to the study",
        "by the protocol and on the data set named; with 95 % intervals, or the range over seeds, and tied where they "
        "overlap",
    ),
    "reported": (
        f"{AUTHORS.capitalize()} or others",
        "accuracies in percent, higher is better; * reported, under other protocols, *! and doubtful. "
        "Recipes differ, so that no best one is marked",
    ),
    "network": ("Network, features and cost", ""),
    "method": ("Method", ""),
    "training": ("Images and training", ""),
    "licence": ("Licence and access", ""),
    "origin": ("Where it comes from", ""),
    "others": (
        "Measured by others",
        "by protocols of their own; main metric in percent, higher is better; *! doubtful. Shown where two or more of "
        "these encoders have a number",
    ),
}
"""Lines that belong together: title and note."""
_OF_PARTS = {  # section of zoo.cards.schema.COLUMNS -> section here
    "ssl": "method",
    "model": "network",
    "representation": "network",
    "optimization": "training",
    "data": "training",
    "metrics": "reported",
    "meta": "origin",
    "compute": "training",
}
_MOVED = {  # facts that stand elsewhere than their neighbours
    **dict.fromkeys(("pred_dim", "projection_hid_width", "projection_hid_depth", "projection1_arch"), "method"),
    **dict.fromkeys(("projection2_arch", "projection_same", "projection_nparameters"), "method"),
    **dict.fromkeys(("img_size", "n_registers", "native_px", "size_step_px", "size_bytes", "gflops"), "network"),
    **dict.fromkeys(("license", "licence_code", "licence_timm", "authors_access"), "licence"),
    **dict.fromkeys(("domain", "magnification", "image_sets", "n_images", "n_samples_seen"), "training"),
}
_BARS: dict[str, Colour] = {
    SETTINGS[0].column: "sum",
    "approx": "approximation",
    "usability": "usability",
    "approx_plus_usability": "together",
    "probe_gen": "probe",
    "enc_gen": "encoder",
}
_CHEAPER = ("n_parameters", "gflops", "size_bytes")  # facts of which less is better, all else being equal
_COUNTED = ("n_parameters", "projection_nparameters", "size_bytes", "n_images", "n_samples_seen")  # with M and G


@dataclass(frozen=True, slots=True)
class Cell:
    """What a line says of one encoder."""

    text: str
    value: float | None = None  # of a line with a direction or bars
    is_missing: bool = False
    contends: bool = True  # for the best: neither assumed nor wrong
    reach: tuple[float, float] | None = None  # ends of its interval


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the comparison, of all encoders."""

    name: str  # in CSV files
    label: str
    meaning: str
    unit: str
    section: str  # a key of SECTIONS
    best: str  # "lowest", or "" where neither direction is better
    colour: Colour | None  # of bars
    cells: tuple[Cell, ...]

    @property
    def is_measured(self) -> bool:
        """True for measurements, which are shown where there are any; others where they differ."""
        return self.section in ("errors", "components", "elsewhere") and bool(self.best)

    @property
    def is_shared(self) -> bool:
        """True for numbers of others, which are shown where two encoders have them."""
        return self.section == "others"


def list_lines(entries: Sequence[SiteEntry], expected: Mapping[str, SiteError] | None = None) -> list[Line]:
    """Every line, by section; the first has the errors that people choose by, measured or expected, by id."""
    marks = mark_protocols(entry.subject.measured for entry in entries)
    found = [] if expected is None else [_of_expected(entries, expected)]
    found += [_of_fact(fact, entries, marks) for fact in FACTS.values() if fact.name not in NOT_COMPARED]
    found += [*_of_words(entries), *_elsewhere(entries), *_others(entries)]
    places = list(SECTIONS)
    return sorted(found, key=lambda line: places.index(line.section))


def _of_expected(entries: Sequence[SiteEntry], expected: Mapping[str, SiteError]) -> Line:
    cells = []
    for entry in entries:
        one = expected.get(entry.id)
        if one is None:
            cells.append(Cell("not expected", is_missing=True))
            continue
        ends, reach = "", None
        if one.low is not None and one.high is not None:
            ends = f" ({format_points(one.low)} to {format_points(one.high)})"
            reach = (round(one.low, 4), round(one.high, 4))
        text = f"{format_points(one.error)}{ends}, {', '.join(filter(None, (describe_basis(one.basis), one.note)))}"
        cells.append(Cell(text, round(one.error, 4), contends=not one.note, reach=reach))
    meaning = "with all labels, 90 % interval, and what it rests on: what rankings use"
    return Line("expected", "measured or expected", meaning, "", "errors", _LOW, None, tuple(cells))


def _of_fact(fact: Fact, entries: Sequence[SiteEntry], marks: Mapping[str, str]) -> Line:
    section = _section(fact)
    best = _LOW if fact.is_risk or fact.name in _CHEAPER else ""
    colour = _BARS.get(fact.name)
    told = partial(_risk_cell, marks=marks) if fact.is_risk else _fact_cell
    cells = tuple(told(fact, entry.subject) for entry in entries)
    unit = "" if section in ("errors", "components", "reported") else fact.unit
    meaning = "" if section == "errors" else fact.meaning  # which heading and label say
    return Line(
        fact.name, format_column_label(fact).removeprefix("reported: "), meaning, unit, section, best, colour, cells
    )


def _section(fact: Fact) -> str:
    if fact.is_risk:
        return "errors" if fact.unit == "percent" else "components"
    if fact.is_reported:
        return "reported"
    of_parts = {column.name: _OF_PARTS[column.section] for column in COLUMNS}
    return _MOVED.get(fact.name) or of_parts.get(fact.name, "origin")


def _fact_cell(fact: Fact, subject: Subject) -> Cell:
    value = remove_private(fact, subject)
    if isinstance(value, Missing):
        return Cell(value.value, is_missing=True)
    if fact.is_reported and not isinstance(value, str):
        one = next(one for name, one in subject.reported.items() if PROTOCOLS[name].column == fact.name)
        return Cell(one.printed + mark_reported(one))
    if isinstance(value, bool | str | tuple | list):
        return Cell(format_fact(value))
    if _section(fact) == "reported":
        return Cell(f"{value}{REPORTED}")
    if fact.name in _COUNTED:
        return Cell(format_short_number(value), float(value))
    if fact.name == "gflops":
        return Cell(format_gflops(value), float(value))
    return Cell(f"{value:g}" if isinstance(value, float) else format_fact(value), float(value))


def _risk_cell(fact: Fact, subject: Subject, *, marks: Mapping[str, str]) -> Cell:
    """With what an erratum says to leave out, or is by another protocol: marked, it takes no part in what is best."""
    seen = Subject(subject.id, subject.cards, subject.measured, subject.measured, subject.reported)
    value = fact.of(seen)
    if isinstance(value, Missing):
        return Cell("not measured", is_missing=True)
    assumed = fact.name == "approx" and seen.approximation_is_assumed
    by = marks[seen.protocol(fact)]
    text = format_points(value) + by + ASSUMED * assumed + WRONG * subject.is_wrong
    return Cell(text, float(value), contends=not (assumed or subject.is_wrong or by))


def _of_words(entries: Sequence[SiteEntry]) -> Iterator[Line]:
    """Lines that are no column of listings."""
    told: list[tuple[str, str, str, str, Callable[[SiteEntry], str | Missing]]] = [
        (
            "licence_words", "licence", "in plain words", "what that licence means; no legal advice: read its text",
            lambda entry: _said(entry.card.licence.weights, describe_licence),
        ),
        (
            "commercial_words", "licence", "commercial use",
            "whether the licence of the weights allows it: yes, no, under conditions, unknown",
            lambda entry: _said(entry.card.commercial_use, describe_commercial_use),
        ),
        (
            "access_words", "licence", "who is given the weights", "and where to ask",
            lambda entry: describe_access(entry.card),
        ),
        (
            "result_errata", "errors", "known faults",
            f"what is wrong or doubtful about these numbers; those to leave out have a{WRONG}", _result_errata,
        ),
    ]  # fmt: skip
    for name, section, label, meaning, text in told:
        words = [text(entry) for entry in entries]
        cells = tuple(Cell(one.value, is_missing=True) if isinstance(one, Missing) else Cell(one) for one in words)
        yield Line(name, label, meaning, "", section, "", None, cells)


def _said(value: Any, words: Callable[[Any], str]) -> str | Missing:
    return value if isinstance(value, Missing) else words(value)


def _result_errata(entry: SiteEntry) -> str:
    known = entry.summary.errata if entry.summary is not None else ()
    return " ".join(f"{one.kind}: {one.reason}" for one in known) or "none"


_PROBE_METRICS = {
    "linear_probe_error": "error",
    "knn_error": "k-NN error",
    "approximation": "approximation",
    "usability": "usability",
    "approximation_plus_usability": "approximation + usability",
    "probe_generalization": "probe generalization",
    "encoder_generalization": "encoder generalization",
}
_BY_LABELS = re.compile(r"train (?:-> val|(\S+(?:-shot|%)) -> val)")  # splits: all labels, a class, or a share


def _elsewhere(entries: Sequence[SiteEntry]) -> Iterator[Line]:
    """Errors of probes and their components that are not of the published study, a line a quantity."""
    found: dict[tuple[str, ...], dict[str, SeedMean]] = {}
    for entry in entries:
        for mean in entry.means:
            if mean.metric in _PROBE_METRICS and "(" not in mean.protocol and _BY_LABELS.fullmatch(mean.split):
                quantity = (mean.dataset, mean.metric, mean.split, mean.protocol, mean.source)
                found.setdefault(quantity, {})[entry.id] = mean
    metrics = list(_PROBE_METRICS)

    def order(key: tuple[str, ...]) -> tuple[Any, ...]:
        dataset, metric, split, protocol, source = key
        most = max(mean.n_train or 0 for mean in found[key].values())
        return dataset != IMAGENET, dataset, metrics.index(metric), protocol, source, -most, split

    def is_superseded(key: tuple[str, ...]) -> bool:
        """Whether all encoders of an older generation of a protocol are in the line of a newer one, too."""
        stem, number = split_generation(key[3])
        same = [other for other in found if (*other[:3], other[4]) == (*key[:3], key[4])]
        of = {other: split_generation(other[3]) for other in same}
        newer = [other for other in same if of[other][0] == stem and of[other][1] > number]
        return any(found[key].keys() <= found[other].keys() for other in newer)

    for key in sorted((key for key in found if not is_superseded(key)), key=order):
        dataset, metric, split, protocol, source = key
        setting = (match := _BY_LABELS.fullmatch(split)) and match[1]
        label = f"{dataset}: {_PROBE_METRICS[metric]}" + (f", {setting}" if setting else "")
        meaning = f"{METRICS[metric].meaning}; {protocol}, {source}"
        cells = tuple(_mean_cell(entry, found[key].get(entry.id)) for entry in entries)
        yield Line("/".join(key), label, meaning, METRICS[metric].unit, "elsewhere", _LOW, None, cells)


def _mean_cell(entry: SiteEntry, mean: SeedMean | None) -> Cell:
    if mean is None:
        return Cell("not measured", is_missing=True)
    reach = None if mean.low is None or mean.high is None else (mean.low, mean.high)
    interval = "" if reach is None else f" ({format_points(reach[0])} to {format_points(reach[1])})"
    return Cell(format_points(mean.value) + interval + ", yours" * (mean in entry.own_means), mean.value, reach=reach)


def _others(entries: Sequence[SiteEntry]) -> Iterator[Line]:
    """What others measured: a line per data set, protocol and origin."""
    missing = Cell("not measured", is_missing=True)
    found: dict[tuple[str, str, str], dict[int, Cell]] = {}
    for place, entry in enumerate(entries):
        for (protocol, origin), numbers in group_by_protocol(entry.reported).items():
            for dataset in dict.fromkeys(one.dataset for one in numbers):
                text = format_reported_numbers([one for one in numbers if one.dataset == dataset])
                found.setdefault((dataset, protocol, origin), {})[place] = Cell(text)
    order = list(list_datasets())
    for key in sorted(found, key=lambda key: (order.index(key[0]) if key[0] in order else len(order), key)):
        dataset, protocol, origin = key
        title = list_datasets()[dataset].title if dataset in order else f"mean of {dataset}"
        cells = tuple(found[key].get(place, missing) for place in range(len(entries)))
        label = f"{title}: {PROTOCOLS[protocol].short} ({get_origin_title(origin)})"
        yield Line("/".join(key), label, "", "", "others", "", None, cells)


# --- what of a line is shown for some encoders; the script has the same rules ---


def is_shown(line: Line, chosen: Sequence[Cell]) -> bool:
    """True if a line says something of these encoders: measurements where there are any, facts where they differ."""
    if line.is_measured:
        return any(not cell.is_missing for cell in chosen)
    if line.is_shared:
        return sum(not cell.is_missing for cell in chosen) > 1
    return len({cell.text for cell in chosen}) > 1 and any(not cell.is_missing for cell in chosen)


def mark_lowest(line: Line, chosen: Sequence[Cell]) -> list[str]:
    """The mark of each cell: "lowest", with ties, or "".

    Cells tie that show the same number, or whose interval overlaps that of the best one. No cell is marked if all tie.
    """
    known = [cell for cell in chosen if line.best and cell.value is not None and cell.contends]
    if not known:
        return [""] * len(chosen)
    best = min(known, key=lambda cell: cell.value or 0.0)
    first = [cell for cell in known if cell.text == best.text or _overlap(cell.reach, best.reach)]
    if len(first) == len(known):
        return [""] * len(chosen)
    mark = line.best + (", tied" if len(first) > 1 else "")
    return [mark if cell in first else "" for cell in chosen]


def _overlap(one: tuple[float, float] | None, other: tuple[float, float] | None) -> bool:
    return one is not None and other is not None and one[0] <= other[1] and other[0] <= one[1]


def compute_line_differences(line: Line, chosen: Sequence[Cell]) -> list[str]:
    """Each measured number minus the first encoder's, "" where one of them is missing, assumed or wrong.

    >>> cells = [Cell("24.6", 24.56), Cell("34.0", 33.96), Cell("not measured", is_missing=True)]
    >>> compute_line_differences(Line("a", "a", "", "", "errors", "lowest", None, ()), cells)
    ['', '+9.4', '']
    """
    first = chosen[0]
    if not line.is_measured or first.value is None or not first.contends:
        return [""] * len(chosen)
    found = [""]
    for cell in chosen[1:]:
        text = "" if cell.value is None or not cell.contends else format_points(cell.value - first.value)
        found.append(text if not text or text.startswith(("-", "0.0")) else f"+{text}")
    return found


# --- the figure ---

_WIDTH, _HEIGHT, _TOP, _FLOOR, _SIDE = 860.0, 380.0, 48.0, 322.0, 52.0
_END = 630.0  # of the lines, behind which their names stand
_APART = 17.0  # names, at least


class _Frame:
    """Where errors and labels are in the figure, for all encoders."""

    def __init__(self, entries: Sequence[SiteEntry]) -> None:
        errors = [error for entry in entries if entry.right is not None for error in entry.right.errors.values()]
        labels = [setting.n_labels for setting in SETTINGS]
        low, high = (max(min(errors), 0.1), max(errors)) if errors else (1.0, 100.0)
        self.across = Scale(min(labels) / 1.3, max(labels) * 1.1, _SIDE, _END, "log")
        self.up = Scale(low / 1.1, high * 1.05, _FLOOR, _TOP, "log")  # on which one that errs much takes little room

    def places(self, entry: SiteEntry) -> list[str]:
        """The points of an encoder's errors, in the order of labels; those to leave out are not drawn."""
        if entry.right is None:
            return []
        known = [(one.n_labels, entry.right.errors[one.name]) for one in SETTINGS if one.name in entry.right.errors]
        return [f"{self.across(n):.1f},{self.up(error):.1f}" for n, error in sorted(known)]


def _spread_names(heights: Sequence[float | None]) -> list[float | None]:
    """Where names stand that are to be at these heights, so that none lies over another; from the top down.

    >>> _spread_names([100.0, None, 95.0, 90.0])
    [124.0, None, 107.0, 90.0]
    """
    found, last = [*heights], -math.inf
    for height, place in sorted((one, place) for place, one in enumerate(heights) if one is not None):
        found[place] = last = max(height, last + _APART)
    return found


def _curves(frame: _Frame, chosen: Sequence[SiteEntry]) -> Markup:
    """Errors against labels of the chosen encoders; the script gives the six curves other points."""
    drawn = draw_grid(frame.across, frame.up, 4)
    middle = (_SIDE + _END) / 2
    drawn.append(
        build_element("text", {"x": middle, "y": _HEIGHT - 10, "text-anchor": "middle"}, "labels of ImageNet-1K")
    )
    drawn.append(build_element("text", {"x": 4, "y": 28}, "error in percent, lower is better"))
    points = [frame.places(one) for one in chosen]
    heights = _spread_names([float(one[-1].partition(",")[2]) if one else None for one in points])
    for place in range(MOST):
        found = points[place] if place < len(chosen) else []
        mark = MARKS[place]
        line = build_element("path", {"class": f"line s{place + 1}", "d": "M" + "L".join(found) if found else None})
        dots = build_element("path", {"class": f"f{place + 1}", "d": "".join(f"M{at}{mark}" for at in found) or None})
        height = heights[place] if found else None
        at = {} if height is None else {"x": _END + 6, "y": height + 4}
        name = build_element("text", at, "" if height is None else chosen[place].id)
        drawn.append(build_element("g", {"class": "curve", "data-mark": mark}, line, dots, name))
    attributes: dict[str, object] = {"viewBox": f"0 0 {_WIDTH:g} {_HEIGHT:g}", "role": "img"}
    return build_element("svg", {**attributes, "aria-labelledby": "curves-caption"}, *drawn)


# --- the page ---


def pick_first_encoders(contents: Contents) -> tuple[list[SiteEntry], str]:
    """The encoders that the page shows before anybody has chosen, and how they were chosen."""
    best: dict[str, tuple[float, SiteEntry]] = {}
    for entry in contents.entries.values():
        errors, mode = {} if entry.right is None else entry.right.errors, entry.card.objective.mode
        if len(errors) == len(SETTINGS) and not isinstance(mode, Missing):
            best[mode] = min(best.get(mode, (math.inf, entry)), (errors[SETTINGS[0].name], entry), key=itemgetter(0))
    if len(best) >= 2:
        ordered = [entry for _, entry in sorted(best.values(), key=itemgetter(0))][:MOST]
        kinds = f"of each of {len(ordered)} kinds of training" + ", those that do best," * (len(best) > len(ordered))
        return ordered, f"{kinds} the encoder with the smallest error with all labels of ImageNet-1K"
    chosen = list(contents.entries.values())[:MOST]
    return chosen, f"the first {len(chosen)} of the site"


def iterate_shown_sections(
    made: Sequence[Line], entries: Sequence[SiteEntry], chosen: Sequence[SiteEntry]
) -> Iterator[Mapping[str, Any]]:
    """What the table of the page says of the chosen encoders, by section."""
    places = [entries.index(entry) for entry in chosen]
    for key, section in SECTIONS.items():
        rows = []
        for line in made:
            cells = [line.cells[place] for place in places]
            if line.section != key or not is_shown(line, cells):
                continue
            marks, less = mark_lowest(line, cells), compute_line_differences(line, cells)
            colour = line.colour
            bars = [
                draw_bar(ErrorPart(colour, one.value)) if colour and one.value is not None else None for one in cells
            ]
            rows.append({"line": line, "cells": list(zip(cells, marks, less, bars, strict=True))})
        if rows:
            yield {"section": section, "rows": rows}


def build_script_data(
    made: Sequence[Line], entries: Sequence[SiteEntry], frame: _Frame, chosen: Sequence[SiteEntry]
) -> dict[str, Any]:
    """Everything for the script: lines as columns, whose texts are listed once."""
    shared: list[Any] = []
    for line in made:
        known: dict[Cell, int] = {}
        at = [known.setdefault(cell, len(known)) for cell in line.cells]
        cells = list(known)
        shared.append(
            [
                line.label, line.meaning, line.unit, list(SECTIONS).index(line.section), line.best,
                line.colour, 2 if line.is_shared else int(line.is_measured), [cell.text for cell in cells],
                [cell.value for cell in cells] if line.best else 0,
                [place for place, cell in enumerate(cells) if cell.is_missing],
                [place for place, cell in enumerate(cells) if not cell.contends],
                [cell.reach for cell in cells] if any(cell.reach for cell in cells) else 0,
                _runs(at),
            ]
        )  # fmt: skip
    curves = {str(number): found for number, entry in enumerate(entries) if (found := frame.places(entry))}
    return {
        "id": [entry.id for entry in entries],
        "file": {str(n): entry.file for n, entry in enumerate(entries) if entry.file != entry.id},
        "mine": [n for n, entry in enumerate(entries) if entry.is_mine],
        "own": [entries.index(entry) for entry in chosen],
        "sections": list(SECTIONS.values()),
        "lines": shared,
        "curves": curves,
        "scale": [LEFT, RIGHT],
    }


def _runs(values: Sequence[int]) -> list[int]:
    """Values with how often each is repeated: [value, n, value, n ...].

    >>> _runs([0, 0, 0, 1, 2, 2])
    [0, 3, 1, 1, 2, 2]
    """
    found: list[int] = []
    for value in values:
        if found and found[-2] == value:
            found[-1] += 1
        else:
            found += [value, 1]
    return found


def build_files(contents: Contents, renderer: SiteRenderer) -> Iterator[File]:
    """The page, and its data as a script."""
    entries = list(contents.entries.values())
    dataset, expected = compute_site_errors(contents)
    made, frame = list_lines(entries, expected if dataset == IMAGENET else None), _Frame(entries)
    chosen, how = pick_first_encoders(contents)
    data = renderer.data("facts.js", "FACTS", build_script_data(made, entries, frame, chosen))
    templates = [
        (f"{colour}{'-cut' * (value > 0)}", draw_bar(ErrorPart(colour, value)))
        for colour in dict.fromkeys(_BARS.values())
        for value in (0.0, RIGHT + 1)
    ]
    yield renderer.page(
        "compare.html.jinja",
        PAGE,
        title="Compare",
        kind="compare",
        later=data,
        chosen=[
            (entry, get_encoder_page(entry), draw_swatch(place), bool(frame.places(entry)))
            for place, entry in enumerate(chosen, start=1)
        ],
        how=how,
        most=MOST,
        n_encoders=len(entries),
        sections=list(iterate_shown_sections(made, entries, chosen)),
        curves=_curves(frame, chosen),
        is_drawn=any(map(frame.places, chosen)),
        templates=templates,
        swatches=[draw_swatch(place) for place in range(1, MOST + 1)],
    )
