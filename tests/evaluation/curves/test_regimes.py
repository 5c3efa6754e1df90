"""Regimes are read from text, and found where scratch leaves the blind guess and where it nears maximal supervision."""

from __future__ import annotations

import itertools
import math

import pytest

from zoo.errors import DataError, QueryError
from zoo.evaluation.curves.calibration import NEAR_BLIND, NEAR_MAXIMAL
from zoo.evaluation.curves.regimes import (
    Ends,
    ends,
    ladder,
    parse_regimes,
    resolved_regimes,
    spread,
)


def searched(rungs: tuple[int, ...], curve: dict[int, float]) -> tuple[Ends, int]:
    """The search on a known curve, and how many rungs it tried."""
    tried: dict[int, float] = {}
    while (found := ends(rungs, tried)).untried:
        assert not set(found.untried) & tried.keys()
        tried |= {n: curve[n] for n in found.untried}
    return found, len(tried)


def sigmoid(middle: float, width: float, rungs: tuple[int, ...]) -> dict[int, float]:
    """Calibrated risks that fall from 1 to 0."""
    return {n: 1 / (1 + math.exp((math.log(n) - math.log(middle)) / width)) for n in rungs}


def test_regimes_are_read_from_text() -> None:
    assert parse_regimes("50,200, 1k ,2.5K,1m,all") == (50, 200, 1000, 2500, 1_000_000, "all")


@pytest.mark.parametrize("text", ["", "50,,100", "many", "1.2", "-5", "0", "1e3", "5 0", "50;100"])
def test_text_that_is_no_regime_is_refused_and_shown_how_to_write_one(text: str) -> None:
    with pytest.raises(QueryError, match=r"such as 50,200,1k,all"):
        parse_regimes(text)


def test_a_regime_that_comes_twice_is_refused_in_whatever_spelling() -> None:
    for text, n_all in (("1k,1000", None), ("all,all", None), ("all,1346", 1346)):
        with pytest.raises(QueryError, match="asked for twice"):
            parse_regimes(text, n_all)
    with pytest.raises(QueryError, match="No regime"):
        resolved_regimes((), 10)


def test_a_regime_larger_than_the_data_is_refused() -> None:
    with pytest.raises(QueryError, match="has 1,346 training images"):
        parse_regimes("50,2k", 1346)


def test_regimes_ascend_whatever_their_order() -> None:
    assert resolved_regimes(("all", 200, 50), 300) == (50, 200, 300)


def test_the_ladder_has_round_steps_and_both_ends() -> None:
    assert ladder(3, 60) == (3, 5, 10, 20, 50, 60)
    assert ladder(20, 20) == (20,)
    assert ladder(20, 50) == (20, 50)
    with pytest.raises(DataError, match="add images"):
        ladder(11, 10)


def test_the_search_finds_the_ends_that_trying_everything_would_find() -> None:
    rungs = ladder(11, 1_000_000)
    for middle in (30, 200, 5_000, 90_000):
        for width in (0.2, 0.7, 1.0):
            curve = sigmoid(middle, width, rungs)
            found, n_tried = searched(rungs, curve)
            assert found.low == max((n for n in rungs if curve[n] >= NEAR_BLIND), default=11)
            assert found.high == min((n for n in rungs if curve[n] <= NEAR_MAXIMAL), default=rungs[-1])
            assert n_tried <= 2 + 2 * math.ceil(math.log2(len(rungs)))


def test_where_scratch_learns_at_once_the_search_starts_at_the_least_and_says_so() -> None:
    rungs = ladder(11, 2_000)
    found, _ = searched(rungs, sigmoid(15, 1.0, rungs))
    assert found.low == 11 and len(found.notes) == 1 and "already at 11 images" in found.notes[0]


def test_where_scratch_never_learns_all_the_data_is_the_range_and_it_says_so() -> None:
    rungs = ladder(11, 2_000)
    found, _ = searched(rungs, dict.fromkeys(rungs, 0.97))
    assert (found.low, found.high) == (11, 2_000)
    assert len(found.notes) == 1 and "not near maximal supervision even at 2,000 images" in found.notes[0]


def test_a_range_that_is_covered_needs_no_note() -> None:
    rungs = ladder(11, 100_000)
    assert searched(rungs, sigmoid(1_000, 0.5, rungs))[0].notes == ()


def test_a_search_among_noise_ends_with_ends_in_order() -> None:
    rungs = ladder(5, 50_000)
    for shift in range(40):
        curve = {n: ((7919 * (i + 1) * (shift + 3)) % 131) / 100 - 0.1 for i, n in enumerate(rungs)}
        found, n_tried = searched(rungs, curve)
        assert found.low < found.high and n_tried <= len(rungs)


def test_one_rung_is_no_search() -> None:
    assert ends((7,), {7: 0.5}).untried == () and ends((7,), {}).untried == (7,)


def test_a_proposal_covers_the_range_evenly() -> None:
    rungs, risks = (10, 30, 100, 300, 1_000, 3_000, 10_000), (1, 0.99, 0.93, 0.7, 0.4, 0.2, 0.03)
    found = ends(rungs, dict(zip(rungs, risks, strict=True)))
    proposed = spread(found.low, found.high, count=5)
    assert proposed[0] == 100 and proposed[-1] == 10_000 and len(proposed) == 5
    steps = [math.log(right / left) for left, right in itertools.pairwise(proposed)]
    assert max(steps) / min(steps) < 2.5  # of steps of 2, 2.5 and 5
    assert set(proposed) <= set(ladder(10, 10_000))  # where scratch was tried already


@pytest.mark.parametrize("count", [2, 3, 5, 8, 12])
def test_as_many_regimes_are_proposed_as_were_asked_for_each_once(count: int) -> None:
    for low, high in ((10, 100), (11, 1346), (3, 90_000)):
        found = spread(low, high, count=count)
        assert len(found) == count and found[0] == low and found[-1] == high and list(found) == sorted(set(found))


def test_of_few_numbers_there_are_few_regimes() -> None:
    assert spread(3, 5, count=5) == (3, 4, 5) and spread(7, 7, count=5) == (7,)
