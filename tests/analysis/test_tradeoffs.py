"""Rank correlations, what choosing the best does to them, and Pareto fronts."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import kendalltau

from zoo.analysis.correlations import (
    beyond_selection,
    correlation_change,
    drawn_counts,
    kendall,
    pareto_front,
    rank_correlations,
)
from zoo.analysis.table import StudyTable, table_of
from zoo.errors import QueryError, UnknownName


def population(n: int = 60, *, tie: float = 0.5, seed: int = 0) -> StudyTable:
    """Usability and probe generalization that have nothing to do with each other, and errors that follow one each."""
    rng = np.random.default_rng(seed)
    usability, probe = rng.normal(10, 3, n), rng.normal(20, 3, n)
    return table_of(
        {
            f"enc{i:03d}": {
                "usability": round(usability[i] / tie) * tie,
                "probe_gen": probe[i],
                "enc_gen": 3.0,
                "train_test": usability[i] + probe[i] + 3,
                "train-nperclass-3_test": 40 + 2 * probe[i],
                "year": 2020 + i % 2,
                "objective": f"obj{i % 7}",
            }
            for i in range(n)
        }
    )


def test_tau_and_its_p_value_are_those_of_scipy() -> None:
    table = population()
    found = rank_correlations(table, [("usability", "train_test"), ("probe_gen", "train-nperclass-3_test")], family="f")
    expected = kendalltau(table.frame["usability"], table.frame["train_test"])
    assert (found[0].value, found[0].p) == (pytest.approx(expected.statistic), pytest.approx(expected.pvalue))
    assert (found[0].term, found[0].outcome, found[0].n) == ("usability", "train_test", 60)
    assert found[1].value == pytest.approx(1.0)


def test_resampled_taus_are_those_of_scipy_on_the_drawn_rows() -> None:
    rows = population(20, tie=2.0).frame  # with ties
    counts = drawn_counts(20, 25, 3)
    ours = kendall(rows["usability"].to_numpy(), rows["train_test"].to_numpy(), counts)
    for count, tau in zip(counts, ours, strict=True):
        drawn = rows.iloc[np.repeat(np.arange(20), count.astype(int))]
        assert tau == pytest.approx(kendalltau(drawn["usability"], drawn["train_test"]).statistic)


def test_the_interval_holds_tau_and_excludes_zero_only_for_what_goes_together() -> None:
    pairs = [("usability", "train_test"), ("usability", "train-nperclass-3_test")]
    with_error, with_few = rank_correlations(population(), pairs, family="f")
    assert with_error.ci_low is not None and with_error.value is not None and with_error.ci_high is not None
    assert 0 < with_error.ci_low < with_error.value < with_error.ci_high < 1
    assert with_few.ci_low is not None and with_few.ci_high is not None and with_few.ci_low < 0 < with_few.ci_high


def test_drawing_objectives_widens_the_interval_of_alike_encoders() -> None:
    base = population(12).frame[["usability", "probe_gen"]]
    table = table_of(
        {
            f"{name}-{copy}": {"objective": name, **row}
            for name, row in base.to_dict("index").items()
            for copy in range(5)
        }
    )
    one, whole = (
        rank_correlations(table, [("usability", "probe_gen")], family="f", drawn=drawn)[0]
        for drawn in (None, "objective")
    )
    assert one.value == whole.value
    assert one.p is not None and whole.p is None  # the usual p-value takes encoders as independent
    assert whole.ci_high - whole.ci_low > 1.5 * (one.ci_high - one.ci_low)  # type: ignore[operator]


def test_a_change_of_tau_is_over_the_same_encoders() -> None:
    table = population()
    table.frame.loc["enc000", "train-nperclass-3_test"] = float("nan")
    first, second = ("probe_gen", "train-nperclass-3_test"), ("probe_gen", "train_test")
    change = correlation_change(table, first, second)
    rows = table.frame.dropna(subset=["train-nperclass-3_test"])
    expected = 1.0 - kendalltau(rows["probe_gen"], rows["train_test"]).statistic
    assert (change.value, change.n, change.p) == (pytest.approx(expected), 59, None)
    assert change.ci_low is not None and change.ci_low > 0
    same = correlation_change(table, second, second)
    assert (same.value, same.ci_low, same.ci_high) == (0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (("usability", "enc_gen"), "^enc_gen is the same for all 60 encoders"),
        (("usability", "approx"), "^0 of the 60 encoders have usability and approx, expected at least 5"),
    ],
)
def test_what_cannot_be_ranked_is_refused_in_one_sentence(columns: tuple[str, str], message: str) -> None:
    with pytest.raises(QueryError, match=message):
        rank_correlations(population(), [columns], family="f")
    with pytest.raises(UnknownName):
        rank_correlations(population(), [("usabilty", "train_test")], family="f")


def test_choosing_by_the_sum_makes_unrelated_risks_trade_off_and_nothing_is_left_beyond_it() -> None:
    found = {one.term: one for one in beyond_selection(population(200), "usability", "probe_gen", fraction=0.2)}
    assert found["all groups"].value is not None and found["all groups"].value < -0.2
    assert found["by selection alone"].value is not None and found["by selection alone"].value < -0.2
    beyond = found["beyond selection"]
    assert beyond.p is not None and beyond.p > 0.05
    assert beyond.ci_low is not None and beyond.ci_high is not None and beyond.ci_low < 0 < beyond.ci_high
    assert (found["2020"].n, found["2021"].n, beyond.n) == (20, 20, 40)


def test_a_real_tradeoff_is_found_beyond_selection() -> None:
    rng = np.random.default_rng(1)
    usability = rng.uniform(0, 10, 100)
    probe = 20 - usability + rng.normal(0, 0.5, 100)
    table = table_of(
        {
            f"e{i:03d}": {
                "usability": usability[i],
                "probe_gen": probe[i],
                "year": 2020,
                "train_test": usability[i] + probe[i],
            }
            for i in range(100)
        }
    )
    for fraction in (0.2, 1.0):
        *_, beyond = beyond_selection(table, "usability", "probe_gen", fraction=fraction)
        assert beyond.value is not None and beyond.value < 0 and beyond.p is not None and beyond.p < 0.05


def test_without_choosing_shuffled_risks_are_unrelated() -> None:
    found = {one.term: one for one in beyond_selection(population(100), "usability", "probe_gen", fraction=1.0)}
    assert found["by selection alone"].value == pytest.approx(0.0, abs=0.02)


def test_too_few_or_equal_risks_cannot_trade_off() -> None:
    with pytest.raises(QueryError, match=r"^4 of the 4 encoders have usability and probe_gen, expected at least 5"):
        beyond_selection(population(4), "usability", "probe_gen")
    with pytest.raises(QueryError, match=r"^enc_gen is the same for all 60 encoders"):
        beyond_selection(population(), "usability", "enc_gen")


def test_the_pareto_front_keeps_whom_nobody_beats() -> None:
    points = {"a": (1, 5), "b": (2, 3), "c": (3, 3), "d": (4, 1), "e": (4, 1), "f": (5, 5), "g": (2, None)}
    frame = table_of({name: {"usability": x, "probe_gen": y} for name, (x, y) in points.items()}).frame
    assert list(pareto_front(frame, "usability", "probe_gen").index) == ["a", "b", "d", "e"]
