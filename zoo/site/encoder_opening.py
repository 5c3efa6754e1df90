"""What the page of an encoder opens with: its error in large type, where it stands among all others, how to load it.

All others are drawn once, as a picture of the site that every page shows behind the mark of its encoder. Both have
their places across in percent of the width and those up in pixels, so that letters and marks keep their size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from ..cards.gates import GATED
from ..cards.licences import commercial_words
from ..cards.schema import EncoderCard, Missing, fact_text
from ..choosing.expectations import Basis
from ..results.facts import points, short_number
from ..results.values import IMAGENET
from .contents import Contents, Entry
from .drawing import Scale, element, log_ticks, plain
from .encoder_facts import Code, load_option
from .expected import FILL_OF, Standing, standings
from .rendering import Renderer

if TYPE_CHECKING:
    from markupsafe import Markup

HEIGHT = 400
"""Of the figure, in pixels."""
_TOP, _BOTTOM = 34.0, 44.0  # its margins, for texts
_WIDTH = 760.0  # pixels for which names find their places
_LETTER = 7.2  # pixels of one, on average
_SHORT = 22  # letters of a name that has room on a phone
_FEWEST = 3  # encoders of a figure
_RESTS_ON: dict[Basis, str] = {
    "these images": "Measured with a linear probe.",
    "measured here": "Measured with a linear probe.",
    "measured by others": "Expected from what others measured.",
    "reported": "Expected from an accuracy that was reported of it.",
    "kin": "Expected from encoders like it; of this one no number is known.",
}
_NOTES = {
    "saw its labels": "It was trained with ImageNet's labels, which flatter the number.",
    "weights of another network": "The published weights are of another network.",
}  # fmt: skip
_ACCESS = {"open": "weights open", "gone": "weights gone", "unfit": "published file unfit"}
_SVG = "http://www.w3.org/2000/svg"
_STYLE = """
:root { color-scheme: light dark; }
text { font: 13px system-ui, sans-serif; fill: #57606a; paint-order: stroke; stroke: #fff; stroke-width: 3px; }
path, line { fill: none; vector-effect: non-scaling-stroke; }
line { stroke: #d0d7de; } .axis { stroke: #57606a; } .name { font-weight: 600; }
.all { stroke: #57606a; stroke-width: 6; stroke-linecap: round; opacity: .22; }
.front { stroke: #1b1f24; stroke-width: 1.4; stroke-dasharray: 5 3; }
@media (prefers-color-scheme: dark) {
text { fill: #a3adb8; stroke: #14171b; } line { stroke: #3a424c; } .axis { stroke: #a3adb8; }
.all { stroke: #a3adb8; opacity: .26; } .front { stroke: #e6e9ed; }
}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The error of an encoder in words."""

    kind: str  # "Expected error on ImageNet-1K, all labels"
    error: str  # percent
    rests_on: str
    interval: str = ""  # none of a plain measurement
    figure: Markup | None = None  # None where there are too few others
    n: str = ""  # encoders in it
    rank: str = ""  # among those of at most its size
    better: Sequence[tuple[str, str, str]] = ()  # some of those that err less: page, id and numbers


class Standings:
    """Where the encoders of a site stand, and the picture of all that their pages share."""

    def __init__(self, contents: Contents, renderer: Renderer) -> None:
        self._entries, self._renderer = contents.entries, renderer
        self._dataset, self._known = standings(contents)
        self._ranked = sorted((self._size(name), one.error, name) for name, one in self._known.items() if one.is_ranked)
        self._front: list[tuple[float, float, str]] = []
        for ranked in self._ranked:
            if not self._front or ranked[1] < self._front[-1][1]:
                self._front.append(ranked)

    def of(self, entry: Entry) -> Answer | None:
        """What is known of the error of an encoder; None if nothing is."""
        one = self._known.get(entry.id)
        if one is None and (found := measured_elsewhere(entry)):
            kind, why = f"Measured error on {found[0]}, all labels", "On ImageNet-1K none is known or expected."
            return Answer(kind=kind, error=f"{points(found[1])} %", rests_on=why)
        if one is None:
            return None
        on = "ImageNet-1K" if self._dataset == IMAGENET else self._dataset
        is_measured = FILL_OF[one.basis] == "full"
        size = self._size(entry.id)
        others = [other for other in self._ranked if other[0] <= size and other[2] != entry.id]
        less = [other for other in others if other[1] < one.error]
        best = [other for other in self._front if other in less]
        chosen = list(dict.fromkeys([*best[:1], *best[len(best) // 2 :][:1], *best[-1:]]))
        note, domain = _NOTES.get(one.note, ""), entry.card.pretraining.domain
        if self._dataset == IMAGENET and not isinstance(domain, Missing) and domain != "natural":
            note = f"It was trained on images of another kind: {domain}."
        return Answer(
            kind=f"{'Measured' if is_measured else 'Expected'} error on {on}, all labels",
            error=f"{points(one.error)} %",
            interval="" if one.low is None or one.high is None else f"{points(one.low)} to {points(one.high)} %",
            rests_on=f"{_RESTS_ON[one.basis]} {note}".strip(),
            n=f"{sum(one.is_drawn for one in self._known.values()):,}",
            figure=self._figure(entry, one, chosen) if len(self._known) >= _FEWEST else None,
            rank=_rank(len(others), len(less)),
            better=[
                (f"{self._entries[name].file}.html", name, f"{points(error)} %, {short_number(n)}")
                for n, error, name in chosen
            ],
        )

    def _size(self, name: str) -> float:
        return float(self._entries[name].card.architecture.n_parameters)

    @cached_property
    def _scales(self) -> tuple[Scale, Scale]:
        """Across in percent of the width, and up in pixels."""
        sizes = [self._size(name) for name in self._known]
        errors = [max(one.error, 0.1) for one in self._known.values()]
        across = Scale(min(sizes) / 1.9, max(sizes) * 1.25, 0.0, 100.0, "log")
        return across, Scale(min(errors) / 1.15, max(errors) * 1.05, HEIGHT - _BOTTOM, _TOP, "log")

    @cached_property
    def _all(self) -> str:
        """Path of the picture of all encoders, with axes and the front."""
        across, up = self._scales
        floor = HEIGHT - _BOTTOM
        drawn = []
        for tick in log_ticks(up.low, up.high, 8):
            y = up(tick)
            drawn.append(element("line", {"x2": "100%", "y1": y, "y2": y}))
        places = [
            f"M{10 * across(self._size(name)):.0f} {self._y(one.error):.0f}h0"
            for name, one in self._known.items()
            if one.is_drawn
        ]
        steps = "".join(f"H{10 * across(n):.1f}V{self._y(error):.1f}" for n, error, _ in self._front)
        front = f"M{steps.replace('V', ' ', 1)[1:]}H1000" if steps else ""
        paths = [element("path", {"class": "all", "d": "".join(places)})]
        paths += [element("path", {"class": "front", "d": front})] * bool(front)
        stretched = {"width": "100%", "height": HEIGHT, "viewBox": f"0 0 1000 {HEIGHT}", "preserveAspectRatio": "none"}
        drawn += [
            element("svg", stretched, *paths),
            element("line", {"class": "axis", "x2": "100%", "y1": floor, "y2": floor}),
            *(
                element("text", {"x": f"{across(tick):.2f}%", "y": floor + 18, "text-anchor": "middle"}, plain(tick))
                for tick in log_ticks(across.low * 1.8, across.high / 1.2)
            ),
            *(element("text", {"x": 2, "y": up(t) - 4}, f"{t:g} %") for t in log_ticks(up.low, up.high, 8)),
            element("text", {"class": "name", "x": 2, "y": 13}, "error, lower is better"),
            element("text", {"class": "name", "x": "100%", "y": HEIGHT - 6, "text-anchor": "end"}, "parameters"),
        ]
        root = {"xmlns": _SVG, "width": "100%", "height": HEIGHT}
        picture = element("svg", root, element("style", {}, _STYLE), *drawn)
        return self._renderer.asset("standings.svg", str(picture).encode())

    def _y(self, error: float) -> float:
        up = self._scales[1]
        return up(min(max(error, up.low), up.high))

    def _figure(self, entry: Entry, one: Standing, better: Sequence[tuple[float, float, str]]) -> Markup:
        """The picture of all, and over it the encoder with its interval and some better ones, which are links."""
        across = self._scales[0]
        places = {entry.id: (across(self._size(entry.id)), self._y(one.error))}
        places |= {name: (across(n), self._y(error)) for n, error, name in better}
        texts = _names(places)
        told = f"{entry.id}: {points(one.error)} % error"
        drawn = [element("image", {"href": f"../{self._all}", "width": "100%", "height": HEIGHT})]
        x, y = places[entry.id]
        at = f"{x:.1f}%"
        if one.low is not None and one.high is not None:
            told += f", 90 % interval {points(one.low)} to {points(one.high)} %"
            drawn.append(
                element("line", {"x1": at, "x2": at, "y1": round(self._y(one.low)), "y2": round(self._y(one.high))})
            )
        told += f", with {short_number(self._size(entry.id))} parameters, among {len(self._known) - 1} other encoders"
        hollow = None if FILL_OF[one.basis] == "full" else "hollow"
        drawn.append(element("circle", {"class": hollow, "cx": at, "cy": round(y), "r": 7}))
        drawn.append(texts.pop(entry.id))
        links = []
        for _, _, name in better:
            x, y = places[name]
            mark = element("circle", {"cx": f"{x:.1f}%", "cy": round(y), "r": 5})
            about = {"href": f"{self._entries[name].file}.html", "tabindex": -1}
            links.append(element("a", about, mark, texts.get(name, "")))
        group = element("g", {"role": "img", "aria-label": f"{told}."}, *drawn)
        # the same links follow as text, where keys and screen readers find them
        beside = [element("g", {"aria-hidden": "true"}, *links)] if links else []
        return element("svg", {"class": "standing", "height": HEIGHT}, group, *beside)


def _rank(n: int, n_less: int) -> str:
    """How many of the encoders of at most its size have a lower error; ends before the names of some."""
    if not n:
        return ""
    if n == 1:
        return f"The only other ranked one of at most its size errs {'less:' if n_less else 'more.'}"
    count = "none" if not n_less else "all" if n_less == n else f"{n_less:,}"
    err = f"err{'s' * (n_less < 2)} less{', such as' if n_less else '.'}"
    return f"Of {n:,} ranked ones of at most its size, {count} {err}"


def measured_elsewhere(entry: Entry) -> tuple[str, float] | None:
    """The first data set but ImageNet-1K on which all labels were used, and the error there in percent."""
    for dataset in entry.elsewhere:
        if (error := entry.error("100%", dataset)) is not None:
            return dataset, error
    return None


def _names(places: dict[str, tuple[float, float]]) -> dict[str, Markup]:
    """The names that hide no mark and no other name; that of the encoder itself, the first, always."""
    taken = [(x / 100 * _WIDTH - 8, x / 100 * _WIDTH + 8, y - 8, y + 8) for x, y in places.values()]  # ends, top, foot
    found: dict[str, Markup] = {}
    for name, (x, y) in places.items():
        at, width = x / 100 * _WIDTH, _LETTER * len(name)
        sides = [(12, 5, "start", at + 12), (-12, 5, "end", at - 12 - width)][:: 1 if x <= 50 else -1]
        sides += [(0, down, "middle", at - width / 2) for down in (24, -14)]
        boxes = [(start, start + width, y + down - 12, y + down + 4) for _, down, _, start in sides]
        free = [place for place, box in enumerate(boxes) if _is_free(box, taken)]
        if not free and found:
            continue
        place = free[0] if free else 0
        taken.append(boxes[place])
        dx, dy, anchor, _ = sides[place]
        has_room = not found and len(name) <= _SHORT and dx
        where = {"x": f"{x:.1f}%", "y": round(y), "dx": dx or None, "dy": dy}
        where |= {"text-anchor": None if anchor == "start" else anchor, "class": None if has_room else "wide"}
        found[name] = element("text", where, name)
    return found


def _is_free(box: tuple[float, float, float, float], taken: Sequence[tuple[float, float, float, float]]) -> bool:
    start, end, top, foot = box
    is_inside = start >= 0 and end <= _WIDTH and foot < HEIGHT - _BOTTOM
    return is_inside and all(end < one[0] or one[1] < start or foot < one[2] or one[3] < top for one in taken)


def terms(card: EncoderCard) -> tuple[str, bool]:
    """Licence and access in a few words, and whether a download alone does not do."""
    licence, use, availability = card.licence.weights, card.commercial_use, card.weights.availability
    if card.is_untrained:
        return "Random weights, by a seed.", False
    words = f"Licence: {fact_text(licence).replace('LicenseRef-', '')}"
    words += "" if isinstance(use, Missing) else f"; commercial use: {commercial_words(use)}"
    access = _ACCESS.get(str(availability), f"weights {fact_text(availability)}")
    is_restricted = availability in {*GATED, "gone", "unfit"}
    return f"{words}; {access}.", is_restricted


def load_lines(card: EncoderCard) -> list[Code]:
    """The lines that load an encoder."""
    option = load_option(card)
    hub = f'encoder, preprocess = torch.hub.load(".", "{card.id}", source="local"{option})'
    return [
        Code("Load it in Python", f'encoder, preprocess = zoo.load("{card.id}"{option})'),
        Code("or with torch.hub, in a clone", hub),
    ]
