"""One test of many things alike, such as all cards: what is wrong with any of them is listed."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import pytest

T = TypeVar("T")


def for_each(
    values: Iterable[T], *, name: Callable[[T], str] = str, arguments: int = 1
) -> Callable[[Callable[..., None]], Any]:
    """Makes one test of a check of one thing, its first argument; the others are fixtures, shared by all things.

    Parameters
    ----------
    values : iterable
        Gone through once, when the test runs.
    name : callable, optional
        What a thing is called where something is wrong with it.
    arguments : int, optional
        How many of the first arguments a thing gives; if more than one, it is a tuple of so many.
    """

    def decorated(check: Callable[..., None]) -> Any:
        signature = inspect.signature(check)
        fixtures = list(signature.parameters.values())[arguments:]

        def test(**given: Any) -> None:
            wrong, n_checked = [], 0
            for value in values:
                n_checked += 1
                try:
                    check(*(value if arguments > 1 else (value,)), **given)  # type: ignore[misc]
                except (Exception, pytest.fail.Exception) as error:
                    wrong.append(f"{name(value)}: {type(error).__name__}: {error}")
            assert n_checked, "there was nothing to check"
            assert not wrong, f"{len(wrong)} of {n_checked}:\n" + "\n".join(wrong)

        test.__signature__ = signature.replace(parameters=fixtures)  # type: ignore[attr-defined]
        for attribute in ("__name__", "__qualname__", "__module__", "__doc__"):
            setattr(test, attribute, getattr(check, attribute))
        return test

    return decorated
