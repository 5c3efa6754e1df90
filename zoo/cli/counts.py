"""Counts as people write them on a command line."""

from __future__ import annotations

import re

import click

_SIZES = {"": 1, "k": 1_000, "m": 1_000_000, "g": 1_000_000_000, "b": 1_000_000_000}
_COUNT = re.compile(r"(\d[\d_,]*(?:\.\d+)?(?:e\+?\d{1,2})?) ?([kmgb]?)", re.IGNORECASE)


class _Count(click.ParamType[int]):
    """A whole number above 0: ``20000``, ``20_000``, ``20k``, ``1.5M``, ``1e8``."""

    name = "count"

    def convert(self, value: str | int, param: click.Parameter | None, ctx: click.Context | None) -> int:
        match = _COUNT.fullmatch(str(value).strip())
        if match:
            number = float(match[1].replace("_", "").replace(",", "")) * _SIZES[match[2].lower()]
            if number >= 1 and number == int(number):
                return int(number)
        self.fail(f"Got {value!r}, expected a whole number above 0 such as 20000, 20k, 100M or 1e8.", param, ctx)


COUNT = _Count()
