"""SVG elements, scales and ticks; colours and sizes of text are classes of the style sheet."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ..optional import requires_extra
from ..results.facts import short_number

if TYPE_CHECKING:
    from markupsafe import Markup


def element(name: str, attributes: Mapping[str, object] | None = None, *children: Markup | str) -> Markup:
    """An element; attributes and texts are escaped, attributes that are None are left out, and floats are rounded.

    >>> str(element("text", {"x": 1.23456, "class": None}, "a < b"))
    '<text x="1.23">a &lt; b</text>'
    """
    with requires_extra("site", needed_for="A figure"):
        from markupsafe import Markup, escape

    given = {key: value for key, value in (attributes or {}).items() if value is not None}
    opening = "".join(f' {key}="{escape(_text(value))}"' for key, value in given.items())
    inside = "".join(map(escape, children))
    return Markup(f"<{name}{opening}>{inside}</{name}>" if children else f"<{name}{opening}/>")


def _text(value: object) -> str:
    return f"{round(value, 2):g}" if isinstance(value, float) else str(value)


@dataclass(frozen=True, slots=True)
class Scale:
    """From values to places in an SVG."""

    low: float  # values at both ends
    high: float
    start: float  # places of those
    end: float
    kind: Literal["linear", "log"] = "linear"

    def __call__(self, value: float) -> float:
        """The place of a value."""
        low, high, at = (
            map(math.log, (self.low, self.high, value)) if self.kind == "log" else (self.low, self.high, value)
        )
        return self.start + (at - low) / (high - low) * (self.end - self.start)

    def ticks(self, most: int = 6) -> list[float]:
        """Round values within the scale, at most ``most``."""
        return log_ticks(self.low, self.high, most) if self.kind == "log" else linear_ticks(self.low, self.high, most)


def linear_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten.

    >>> linear_ticks(18.0, 61.0), linear_ticks(-1.2, 3.1, 5)
    ([20.0, 30.0, 40.0, 50.0, 60.0], [-1.0, 0.0, 1.0, 2.0, 3.0])
    """
    power = 10.0 ** (math.floor(math.log10(high - low)) - 2)
    for step in (factor * power * 10**more for more in range(4) for factor in (1, 2, 5)):
        first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
        if last - first < most:
            return [round(place * step, 12) + 0.0 for place in range(first, last + 1)]
    raise AssertionError("a step of ten times the extent leaves at most two ticks")


def log_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Powers of ten, with 1.5, 2, 3, 5 and 7 times them, or 2 and 5, or 3 times them, where there is room.

    >>> log_ticks(5e6, 1e9), log_ticks(1000, 1_281_167)
    ([10000000.0, 30000000.0, 100000000.0, 300000000.0, 1000000000.0], [1000.0, 10000.0, 100000.0, 1000000.0])
    """
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for factors in ((1, 1.5, 2, 3, 5, 7), (1, 2, 5), (1, 3), (1,)):
        found = [factor * 10.0**power for power in powers for factor in factors]
        found = [value for value in found if low * (1 - 1e-9) <= value <= high * (1 + 1e-9)]
        if len(found) <= most:
            return found
    step = math.ceil(len(found) / most)
    return found[::step]


def plain(value: float) -> str:
    """A tick as text.

    >>> plain(20.0), plain(0.5), plain(30_000_000)
    ('20', '0.5', '30M')
    """
    return short_number(value) if abs(value) >= 10_000 else f"{value:g}"


def extent(values: Iterable[float], share: float = 0.04) -> tuple[float, float]:
    """Smallest and largest value, with a margin of that share on both sides.

    >>> extent([10.0, 20.0], 0.1)
    (9.0, 21.0)
    """
    known = list(values)
    low, high = min(known), max(known)
    reach = (high - low) * share or abs(high) * share or 1.0
    return low - reach, high + reach
