"""Counts as people write them on a command line."""

from __future__ import annotations

import re
from decimal import Decimal

import click

_LARGEST = 10**12
_LONGEST = 28  # characters; Decimal is exact that far
_EXPONENTS = {"": 0, "k": 3, "m": 6, "g": 9, "b": 9}
_COUNT = re.compile(
    r"((?:\d+|\d{1,3}(?:,\d{3})+|\d{1,3}(?:_\d{3})+)(?:\.\d+)?(?:e\+?\d{1,2})?) ?([kmgb]?)", re.IGNORECASE | re.ASCII
)


def as_count(ctx: click.Context, parameter: click.Parameter, value: str | None) -> int | None:
    """Callback of an option that takes a whole number above 0: ``20000``, ``20,000``, ``20k``, ``4.1M``, ``1e8``.

    Commas and underscores stand between thousands only.

    Raises
    ------
    click.BadParameter
        If the text is anything else.
    """
    if value is None:
        return None
    text = value.strip()
    match = _COUNT.fullmatch(text) if len(text) <= _LONGEST else None
    if match:
        number = Decimal(match[1].replace("_", "").replace(",", "")).scaleb(_EXPONENTS[match[2].lower()])
        if 1 <= number <= _LARGEST and number == int(number):
            return int(number)
    got = repr(value) if len(value) <= _LONGEST else f"{value[:_LONGEST]!r}... ({len(value):,} characters)"
    expected = "a whole number above 0 and at most 1e12, such as 20000, 20,000, 20k, 100M or 1e8"
    raise click.BadParameter(f"got {got}, expected {expected}.", ctx, parameter)
