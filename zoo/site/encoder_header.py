"""What the page of an encoder opens with: its error in large type, where it stands among all others, how to load it.

The others are a picture that pages share, behind the mark of their encoder: the points of the first page, or all on the
pages of those that err more. Places across are in percent of the width and those up in pixels, so that letters and
marks keep their size.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from ..cards.gated_access import GATED
from ..cards.schema import EncoderCard, Missing, describe_card_licence, format_fact, format_load_line
from ..choosing.expectations import Basis
from ..results.facts import format_points, format_short_number
from ..results.values import IMAGENET, PROJECT
from ..results.wording import describe_basis
from .contents import Contents, SiteEntry
from .drawing import PlotPoint, Scale, build_element, choose_log_ticks, do_boxes_overlap, find_pareto_front, format_tick
from .encoder_facts import Code
from .expected import FILL_OF, compute_site_errors
from .first_page import FARTHEST, NAMES, list_drawn_points
from .rendering import SiteRenderer

if TYPE_CHECKING:
    from markupsafe import Markup

HEIGHT = 400
"""Of the figure, in pixels."""
_TOP, _BOTTOM = 34.0, 44.0  # its margins, for texts
_WIDTH = 760.0  # pixels for which names find their places
_LETTER = 7.2  # pixels of one, on average
_SHORT = 22  # letters of a name that has room on a phone
_FEWEST = 3  # encoders of a figure
_N_PARTS = 6  # paths of the points, so that those of like errors are told apart where they overlap
_MORE: dict[Basis, str] = {
    "the study": " of Dubois et al. (2023) with a linear probe",
    "another protocol": " than most, whose errors differ by points",
    "other numbers": ": no linear probe is known",
    "similar encoders": ": of this one no number is known",
}
_NOTES = {
    "saw its labels": "It was trained with ImageNet's labels, which flatter the number.",
    "weights of another network": "The published weights are of another network.",
}  # fmt: skip
_ACCESS = {"open": "weights open", "gone": "weights gone", "unfit": "published file unfit"}


class Picture(NamedTuple):
    """The encoders behind the mark of one."""

    path: str  # of the file
    n: int  # encoders in it
    across: Scale  # percent of the width
    up: Scale  # pixels


@dataclass(frozen=True, slots=True, kw_only=True)
class HeaderAnswer:
    """The error of an encoder in words, and a figure where there are enough others."""

    kind: str  # "Expected error on ImageNet-1K, all labels"
    error: str  # percent
    rests_on: str
    interval: str = ""  # none of a plain measurement
    interval_note: str = ""  # that the study published none
    figure: Markup | str = ""
    caption: str = ""  # ends before the names of some that err less
    better: Sequence[tuple[PlotPoint, str]] = ()  # with error and size


class Standings:
    """Where the encoders of a site stand, and the pictures that their pages share."""

    def __init__(self, contents: Contents, renderer: SiteRenderer) -> None:
        self._entries, self._renderer = [*contents.entries.values()], renderer
        self._dataset, self._known = compute_site_errors(contents)
        self._farthest = FARTHEST if self._dataset == IMAGENET else math.inf
        self._every = list_drawn_points(self._entries, self._known)

    def of(self, entry: SiteEntry) -> HeaderAnswer | None:
        """What is known of the error of an encoder; None if nothing is."""
        one = self._known.get(entry.id)
        if one is None and (found := find_error_elsewhere(entry)):
            kind, why = (
                f"Error on {found[0]}, all labels",
                f"{PROJECT.capitalize()}. On ImageNet-1K none is known or expected.",
            )
            return HeaderAnswer(kind=kind, error=f"{format_points(found[1])} %", rests_on=why)
        if one is None:
            return None
        own = PlotPoint(id=entry.id, href="", x=float(entry.card.architecture.n_parameters), y=one.error)
        others = [other for other in self._every if other.x <= own.x and other.id != own.id and not other.is_beside]
        less = [other for other in others if other.y < own.y]
        best = find_pareto_front(less, lower=True)
        better = [*dict.fromkeys([*best[:1], *best[len(best) // 2 :][:1], *best[-1:]])]
        note, domain = _NOTES.get(one.note, ""), entry.card.pretraining.domain
        if self._dataset == IMAGENET and not isinstance(domain, Missing) and domain != "natural":
            note = f"It was trained on images of another kind: {domain}."
        is_measured = FILL_OF[one.basis] == "full"
        answer = HeaderAnswer(
            kind=f"{'Error' if is_measured else 'Expected error'} on {NAMES.get(self._dataset, self._dataset)}, "
            "all labels",
            error=f"{format_points(one.error)} %",
            interval="" if one.low is None else f"{format_points(one.low)} to {format_points(one.high or 0.0)} %",
            interval_note=is_measured * ", estimated: none was published",
            rests_on=f"{describe_basis(one.basis).capitalize()}{_MORE.get(one.basis, '')}. {note}".strip(),
        )
        if len(self._known) < _FEWEST:
            return answer
        picture = self.near if one.error <= self._farthest else self.all
        label = f"{own.id}: {answer.error} error{answer.interval and f', 90 % interval {answer.interval}'}"
        label += f", with {format_short_number(own.x)} parameters, among {picture.n:,} encoders."
        own = replace(own, low=one.low, high=one.high)
        return replace(
            answer,
            figure=_figure(own, better, picture, label, is_measured=is_measured),
            caption=f"Grey: {picture.n:,} encoders; dashed: the best for their size. {_rank(len(others), len(less))}",
            better=[(other, f"{format_points(other.y)} %, {format_short_number(other.x)}") for other in better],
        )

    @cached_property
    def near(self) -> Picture:
        """What the first page draws."""
        drawn = list_drawn_points(self._entries, self._known, self._dataset)
        return self._picture("standings.svg", drawn, max([self._farthest, *(one.y for one in drawn)]))

    @cached_property
    def all(self) -> Picture:
        """Every encoder with an error that may be drawn."""
        return self._picture("standings-all.svg", self._every, math.inf)

    def _picture(self, name: str, drawn: Sequence[PlotPoint], most: float) -> Picture:
        sizes = [float(one.card.architecture.n_parameters) for one in self._entries if one.id in self._known]
        errors = [max(one.error, 0.1) for one in self._known.values() if one.error <= most]
        across = Scale(min(sizes) / 1.9, max(sizes) * 1.25, 0.0, 100.0, "log")
        up = Scale(min(errors) / 1.15, max(errors) * 1.05, HEIGHT - _BOTTOM, _TOP, "log")
        by_error = sorted(drawn, key=lambda one: (one.y, one.id))
        places = [(round(10 * across(one.at or one.x), 1), round(up(max(one.y, up.low)), 1)) for one in by_error]
        text = self._renderer.environment.get_template("standings.svg.jinja").render(
            height=HEIGHT,
            floor=HEIGHT - _BOTTOM,
            errors=[(round(up(tick)), f"{tick:g} %") for tick in choose_log_ticks(up.low, up.high, 8)],
            sizes=[
                (round(across(tick), 2), format_tick(tick))
                for tick in choose_log_ticks(across.low * 1.8, across.high / 1.2)
            ],
            parts=[places[n::_N_PARTS] for n in range(_N_PARTS)],
            front=[(round(10 * across(one.x), 1), round(up(one.y), 1)) for one in find_pareto_front(drawn, lower=True)],
        )
        return Picture(self._renderer.asset(name, text.strip().encode()), len(drawn), across, up)


def _figure(own: PlotPoint, better: Sequence[PlotPoint], picture: Picture, label: str, *, is_measured: bool) -> Markup:
    """The picture, and before it the mark of an encoder with its interval, and those of some that err less."""
    across, up = picture.across, picture.up
    places = {one.id: (round(across(one.x), 1), round(up(max(one.y, up.low)))) for one in (own, *better)}
    texts = _texts(places)

    def mark(one: PlotPoint, radius: int) -> list[Markup]:
        x, y = f"{places[one.id][0]}%", places[one.id][1]
        circle = {"class": None if is_measured or one is not own else "hollow", "cx": x, "cy": y, "r": radius}
        text = texts.get(one.id)
        return [
            build_element("circle", circle),
            *([build_element("text", {"x": x, "y": y, **text}, one.id)] if text else []),
        ]

    behind = build_element("image", {"href": f"../{picture.path}", "width": "100%", "height": HEIGHT})
    parts = [behind, *mark(own, 7)]
    if own.low is not None and own.high is not None:
        y1, y2 = (round(up(min(max(end, up.low), up.high))) for end in (own.low, own.high))
        x = f"{places[own.id][0]}%"
        parts.insert(1, build_element("line", {"x1": x, "x2": x, "y1": y1, "y2": y2}))
    drawn = build_element("g", {"role": "img", "aria-label": label}, *parts)
    links = [build_element("a", {"href": one.href.rpartition("/")[2], "tabindex": -1}, *mark(one, 5)) for one in better]
    return build_element(
        "svg", {"class": "standing", "height": HEIGHT}, drawn, build_element("g", {"aria-hidden": "true"}, *links)
    )


def _rank(n: int, n_less: int) -> str:
    """How many of the encoders of at most its size have a lower error; ends before the names of some."""
    if n < 2:
        return n * f"The only other ranked one of at most its size errs {'less:' if n_less else 'more.'}"
    count = "none" if not n_less else "all" if n_less == n else f"{n_less:,}"
    err = f"err{'s' * (n_less < 2)} less{', such as' if n_less else '.'}"
    return f"Of {n:,} ranked ones of at most its size, {count} {err}"


def find_error_elsewhere(entry: SiteEntry) -> tuple[str, float] | None:
    """The first data set but ImageNet-1K on which all labels were used, and the error there in percent."""
    found = ((dataset, entry.error("100%", dataset)) for dataset in entry.elsewhere)
    return next(((dataset, error) for dataset, error in found if error is not None), None)


def _texts(places: Mapping[str, tuple[float, float]]) -> dict[str, dict[str, object]]:
    """Attributes of the names that hide no mark and no other name; that of the encoder itself, the first, always."""
    at = {name: (x / 100 * _WIDTH, y) for name, (x, y) in places.items()}
    taken = [(x - 8, y - 8, x + 8, y + 8) for x, y in at.values()]
    found: dict[str, dict[str, object]] = {}
    for name, (x, y) in at.items():
        width = _LETTER * len(name)
        sides = [(12, 5, "start", x + 12), (-12, 5, "end", x - 12 - width)][:: 1 if x <= _WIDTH / 2 else -1]
        sides += [(0, down, "middle", x - width / 2) for down in (24, -14)]
        boxes = [(start, y + down - 12, start + width, y + down + 4) for _, down, _, start in sides]
        free = [
            place
            for place, box in enumerate(boxes)
            if box[0] >= 0
            and box[2] <= _WIDTH
            and box[3] < HEIGHT - _BOTTOM
            and not any(do_boxes_overlap(box, one) for one in taken)
        ]
        if free or not found:
            place = free[0] if free else 0
            taken.append(boxes[place])
            dx, dy, anchor, _ = sides[place]
            has_room = not found and len(name) <= _SHORT and dx
            found[name] = {
                "dx": dx or None,
                "dy": dy,
                "text-anchor": None if anchor == "start" else anchor,
                "class": None if has_room else "wide",
            }
    return found


def describe_terms(card: EncoderCard) -> tuple[str, bool]:
    """Licence and access in a few words, and whether a download alone does not do."""
    if card.is_untrained:
        return "Random weights, by a seed.", False
    availability = card.weights.availability
    access = _ACCESS.get(str(availability), f"weights {format_fact(availability)}")
    words = describe_card_licence(card).replace("LicenseRef-", "")
    return f"Licence: {words}; {access}.", availability in {*GATED, "gone", "unfit"}


def load_lines(card: EncoderCard) -> list[Code]:
    """The lines that load an encoder."""
    line = format_load_line(card)
    hub = line.replace("zoo.load(", 'torch.hub.load(".", ')[:-1] + ', source="local")'
    return [Code("Load it in Python", line), Code("or with torch.hub, in a clone", hub)]
