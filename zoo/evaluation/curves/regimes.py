"""Which sizes of training data a learning curve is measured at: read from text, or found by trying the scratch control.

A curve says most between the low-data regime, where a network trained from scratch is no better than a blind guess, and
the high-data regime, where it is as good as maximal supervision. The search tries scratch with one seed on rungs of a
ladder, from both ends and then halving what lies between, and the regimes are spread evenly over the logarithm of n.

References
----------
"Measuring the Effectiveness of Self-Supervised Learning using Calibrated Learning Curves" 2022, Section 3.3 (the choice
of transfer data regimes).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...errors import DataError, QueryError
from ...optional import requires_extra
from .nested import Regime, checked_regime

with requires_extra("evaluate", needed_for="A learning curve"):
    import numpy as np

NEAR_BLIND, NEAR_MAXIMAL = 0.9, 0.1
"""Calibrated risks of scratch from which on a regime is one of little, and of much data."""

_NUMBER = re.compile(r"(\d+(?:\.\d+)?)([km]?)", re.ASCII | re.IGNORECASE)
_TIMES = {"": 1, "k": 1_000, "m": 1_000_000}
_STEPS = ((1.0, 2.0, 5.0), (1.0, 1.5, 2.0, 3.0, 5.0, 7.0), tuple(1.0 + 0.1 * i for i in range(90)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """Where the regimes begin and end, as far as it is known.

    Attributes
    ----------
    low, high : int
        Images.
    untried : tuple of int
        Rungs to try next; empty when the ends are found.
    notes : tuple of str
        What the range does not reach.
    """

    low: int
    high: int
    untried: tuple[int, ...]
    notes: tuple[str, ...] = ()


def parse_regimes(text: str, n_all: int | None = None) -> tuple[Regime, ...]:
    """Regimes from text.

    Parameters
    ----------
    text : str
        Numbers of images, with k or m for thousands and millions, or "all"; commas between them.
    n_all : int, optional
        Number of training images, which none may pass.

    Raises
    ------
    QueryError
        If one cannot be read, passes the number of images, or comes twice.

    >>> parse_regimes("50, 200, 1k, all")
    (50, 200, 1000, 'all')
    """
    found = tuple(_parsed(part.strip()) for part in text.split(","))
    resolved_regimes(found, math.inf if n_all is None else n_all)
    return found


def resolved_regimes(regimes: Sequence[Regime], n_all: float, *, name: str = "the data") -> tuple[int, ...]:
    """Numbers of images, ascending.

    Raises
    ------
    QueryError
        If there is none, one is no number of images, passes them, or comes twice.

    >>> resolved_regimes(("all", 50), 200)
    (50, 200)
    """
    if not regimes:
        raise QueryError("No regime was asked for; name some numbers of images, such as 50,200,1k,all.")
    numbers = [n_all if n == "all" else checked_regime(n, n_all, name=name) for n in regimes]
    for n in numbers:
        if numbers.count(n) > 1:
            same = "all images" if n == math.inf else f"{n:,} images"
            raise QueryError(f"The regime of {same} was asked for twice; name each once.")
    return tuple(sorted(numbers))  # type: ignore[arg-type]  # infinite only where nobody looks at it


def ladder(n_least: int, n_all: int, *, fineness: int = 0) -> tuple[int, ...]:
    """Numbers of images from the least possible to all, in steps of 1, 2, 5, 10 or finer ones, and both ends.

    >>> ladder(11, 1346)
    (11, 20, 50, 100, 200, 500, 1000, 1346)
    """
    if n_least > n_all:
        raise DataError(f"Regimes start at {n_least:,} images, but there are {n_all:,}; add images.")
    powers = range(len(str(n_all)))
    between = {round(step * 10**power) for power in powers for step in _STEPS[fineness]}
    return tuple(sorted({n_least, n_all} | {n for n in between if n_least < n < n_all}))


def ends(rungs: Sequence[int], calibrated: Mapping[int, float]) -> Ends:
    """Where the range from near blind to near maximal begins and ends, and which rungs of the ladder to try next.

    Parameters
    ----------
    rungs : sequence of int
        The ladder, ascending.
    calibrated : mapping from a rung to float
        Calibrated risk of scratch on those that were tried.
    """
    last = len(rungs) - 1
    tried = {number: calibrated[n] for number, n in enumerate(rungs) if n in calibrated}
    missing = tuple(rungs[number] for number in sorted({0, last}) if number not in tried)
    if missing:
        return Ends(low=rungs[0], high=rungs[-1], untried=missing)
    learnt = min((number for number, risk in tried.items() if risk < NEAR_BLIND), default=0)  # the first that is
    low = max((number for number in tried if number < learnt), default=0)
    high = min((number for number, risk in tried.items() if number > low and risk <= NEAR_MAXIMAL), default=last)
    short = max((number for number in tried if number < high), default=0)  # the last that is not near maximal yet
    halves = set()
    if low < learnt:
        halves.add((low + learnt) // 2)
    if tried[high] <= NEAR_MAXIMAL:
        halves.add((short + high) // 2)
    untried = tuple(rungs[number] for number in sorted(halves) if number not in tried)
    return Ends(low=rungs[low], high=rungs[high], untried=untried, notes=_notes(rungs, tried, low, high))


def propose_regimes(n: Sequence[int], calibrated_scratch: Sequence[float], *, count: int = 5) -> tuple[int, ...]:
    """Regimes from where scratch is near the blind guess to where it is near maximal supervision.

    Parameters
    ----------
    n : sequence of int, shape (k,)
        Numbers of images at which scratch was measured, in any order.
    calibrated_scratch : sequence of float, shape (k,)
        Its calibrated risk there: 1 is the blind guess, 0 maximal supervision.
    count : int
        Regimes to propose.

    Returns
    -------
    tuple of int
        Ascending. From the largest n at which scratch is still near the blind guess (or the smallest, if it never is)
        to the smallest at which it is near maximal supervision (or the largest), evenly over log n, by round numbers;
        fewer than ``count`` if there are not so many numbers between.

    Raises
    ------
    QueryError
        If fewer than two regimes are asked for.
    DataError
        If there are not two different n, or a risk is not finite.

    References
    ----------
    Section 3.3.

    >>> propose_regimes([10, 100, 1_000, 10_000], [1.0, 0.95, 0.4, 0.05])
    (100, 500, 1000, 2000, 10000)
    """
    if isinstance(count, bool) or count < 2:
        raise QueryError(f"{count!r} regimes were to be proposed; expected at least two, for a curve.")
    risks = np.asarray(calibrated_scratch, float)
    if len(set(n)) < 2 or len(set(n)) != len(n) or risks.shape != (len(n),) or not np.isfinite(risks).all():
        raise DataError(
            f"Regimes were to be proposed from n = {list(n)} with calibrated risks {risks.tolist()}; expected at least "
            "two different n, and a finite risk at each."
        )
    rungs = sorted(n)
    found = ends(rungs, {int(one): float(risk) for one, risk in zip(n, risks, strict=True)})
    return spread(found.low, found.high, count=count)


def spread(low: int, high: int, *, count: int) -> tuple[int, ...]:
    """Round numbers from ``low`` to ``high``, both among them, as evenly over their logarithm as there are.

    >>> spread(11, 1346, count=5), spread(3, 5, count=5)
    ((11, 50, 100, 500, 1346), (3, 4, 5))
    """
    if high - low < count:
        return tuple(range(low, high + 1))
    ladders = (ladder(low, high, fineness=fineness) for fineness in range(len(_STEPS)))
    known = next((rungs for rungs in ladders if len(rungs) >= count), tuple(range(low, high + 1)))
    wanted = np.linspace(math.log(low), math.log(high), count)
    chosen: list[int] = []
    for number, place in enumerate(wanted):
        first = known.index(chosen[-1]) + 1 if chosen else 0
        free = known[first : len(known) - (count - 1 - number)]  # so that enough are left for those to come
        chosen.append(min(free, key=lambda n: (abs(math.log(n) - place), n)))
    return tuple(chosen)


def _parsed(part: str) -> Regime:
    if part.lower() == "all":
        return "all"
    found = _NUMBER.fullmatch(part)
    number = float(found[1]) * _TIMES[found[2].lower()] if found else 0.0
    if number < 1 or not number.is_integer():
        raise QueryError(
            f"The regime {part!r} is no number of images; expected whole numbers from 1, with k or m for thousands and "
            "millions, or all, with commas between them, such as 50,200,1k,all."
        )
    return int(number)


def _notes(rungs: Sequence[int], tried: Mapping[int, float], low: int, high: int) -> tuple[str, ...]:
    found = []
    if tried[low] < NEAR_BLIND:
        found.append(
            f"Scratch is far from the blind guess already at {rungs[low]:,} images, the least that were tried "
            f"(calibrated risk {tried[low]:.2f}): the regimes do not cover the range up to {NEAR_BLIND}."
        )
    if tried[high] > NEAR_MAXIMAL:
        found.append(
            f"Scratch is not near maximal supervision even at {rungs[high]:,} images, the most that were tried "
            f"(calibrated risk {tried[high]:.2f}): the regimes do not cover the range down to {NEAR_MAXIMAL}."
        )
    return tuple(found)
