"""Counts as people write them on a command line."""

from __future__ import annotations

import re

import click

_SIZES = {"": 1, "k": 1_000, "m": 1_000_000, "g": 1_000_000_000, "b": 1_000_000_000}
_COUNT = re.compile(r"(\d[\d_,]*(?:\.\d+)?(?:e\+?\d{1,2})?) ?([kmgb]?)", re.IGNORECASE)


def as_count(ctx: click.Context, parameter: click.Parameter, value: str | None) -> int | None:
    """Callback of an option that takes a whole number above 0: ``20000``, ``20_000``, ``20k``, ``1.5M``, ``1e8``.

    Raises
    ------
    click.BadParameter
        If the text is anything else.
    """
    if value is None:
        return None
    match = _COUNT.fullmatch(value.strip())
    if match:
        number = float(match[1].replace("_", "").replace(",", "")) * _SIZES[match[2].lower()]
        if number >= 1 and number == round(number):
            return round(number)
    expected = "a whole number above 0 such as 20000, 20k, 100M or 1e8"
    raise click.BadParameter(f"got {value!r}, expected {expected}.", ctx, parameter)
