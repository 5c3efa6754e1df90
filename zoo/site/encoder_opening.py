"""What the page of an encoder opens with: its error in large type, where it stands among all others, how to load it.

All others are drawn once, as a picture of the site that every page shows behind the mark of its encoder. Both have
their places across in percent of the width and those up in pixels, so that letters and marks keep their size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from ..cards.gates import GATED
from ..cards.licences import commercial_words
from ..cards.schema import EncoderCard, Missing, fact_text
from ..choosing.expectations import Basis
from ..results.facts import points, short_number
from ..results.values import IMAGENET
from .contents import Contents, Entry
from .drawing import Scale, log_ticks, plain
from .encoder_facts import Code, load_option
from .expected import FILL_OF, standings
from .rendering import Renderer

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
Place: TypeAlias = tuple[float, float, str]  # parameters, error and name of an encoder
_ACCESS = {"open": "weights open", "gone": "weights gone", "unfit": "published file unfit"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """An encoder of the figure, and where its name stands beside it."""

    page: str
    name: str
    error: str  # percent
    size: str  # parameters
    x: float  # percent of the width
    y: int  # pixels from above
    text: dict[str, object] | None  # attributes of the name; None where it has no room


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The error of an encoder in words."""

    kind: str  # "Expected error on ImageNet-1K, all labels"
    error: str  # percent
    rests_on: str
    interval: str = ""  # none of a plain measurement
    is_measured: bool = True
    marks: Sequence[Mark] = ()  # of the figure: its own, and some that err less; none where there are too few others
    ends: tuple[int, int] | None = None  # of its interval there
    n: str = ""  # encoders in the figure
    rank: str = ""  # among those of at most its size


class Standings:
    """Where the encoders of a site stand, and the picture of all that their pages share."""

    def __init__(self, contents: Contents, renderer: Renderer) -> None:
        self._entries, self._renderer = contents.entries, renderer
        self._dataset, self._known = standings(contents)
        self._ranked: list[Place] = sorted(
            (self._size(name), one.error, name) for name, one in self._known.items() if one.is_ranked
        )
        self._front: list[Place] = []
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
        known = one.low is not None and one.high is not None
        shown = [(size, one.error, entry.id), *chosen] if len(self._known) >= _FEWEST else []
        return Answer(
            kind=f"{'Measured' if is_measured else 'Expected'} error on {on}, all labels",
            error=f"{points(one.error)} %",
            interval=f"{points(one.low or 0.0)} to {points(one.high or 0.0)} %" if known else "",
            rests_on=f"{_RESTS_ON[one.basis]} {note}".strip(),
            is_measured=is_measured,
            marks=self._marks(shown),
            ends=(round(self._y(one.low or 0.0)), round(self._y(one.high or 0.0))) if known and shown else None,
            n=f"{sum(one.is_drawn for one in self._known.values()):,}",
            rank=_rank(len(others), len(less)),
        )

    def _marks(self, shown: Sequence[Place]) -> list[Mark]:
        places = {name: (self._scales[0](n), self._y(error)) for n, error, name in shown}
        texts = _names(places)
        return [
            Mark(
                page=f"{self._entries[name].file}.html",
                name=name,
                error=f"{points(error)} %",
                size=short_number(n),
                x=round(places[name][0], 1),
                y=round(places[name][1]),
                text=texts.get(name),
            )
            for n, error, name in shown
        ]

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
    def picture(self) -> str:
        """Path of the picture of all encoders, with axes and the front."""
        across, up = self._scales
        text = self._renderer.environment.get_template("standings.svg.jinja").render(
            height=HEIGHT,
            floor=HEIGHT - _BOTTOM,
            errors=[(round(up(tick)), f"{tick:g} %") for tick in log_ticks(up.low, up.high, 8)],
            sizes=[(round(across(tick), 2), plain(tick)) for tick in log_ticks(across.low * 1.8, across.high / 1.2)],
            all=[
                (round(10 * across(self._size(name))), round(self._y(one.error)))
                for name, one in self._known.items()
                if one.is_drawn
            ],
            front=[(round(10 * across(n), 1), round(self._y(error), 1)) for n, error, _ in self._front],
        )
        return self._renderer.asset("standings.svg", text.strip().encode())

    def _y(self, error: float) -> float:
        up = self._scales[1]
        return up(min(max(error, up.low), up.high))


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


def _names(places: dict[str, tuple[float, float]]) -> dict[str, dict[str, object]]:
    """The names that hide no mark and no other name; that of the encoder itself, the first, always."""
    taken = [(x / 100 * _WIDTH - 8, x / 100 * _WIDTH + 8, y - 8, y + 8) for x, y in places.values()]  # ends, top, foot
    found: dict[str, dict[str, object]] = {}
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
        found[name] = {
            "dx": dx or None,
            "dy": dy,
            "text-anchor": None if anchor == "start" else anchor,
            "class": None if has_room else "wide",
        }
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
