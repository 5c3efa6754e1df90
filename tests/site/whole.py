"""Everything that the zoo knows, gathered once a process for the tests of pages of all encoders."""

from __future__ import annotations

from functools import cache

from zoo.site.contents import Contents, gather


@cache
def contents() -> Contents:
    """The contents of a site of all shipped encoders."""
    return gather()
