"""Correlations of metrics with accuracy and what choosing by a metric costs: closed forms, scipy, planted answers."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import kendalltau, pearsonr, spearmanr

from analysis.label_free_vs_probe import agreement as correlating
from analysis.label_free_vs_probe.agreement import (
    ACCURACY,
    ANY,
    CHANCE,
    GAIN,
    ORACLE,
    OVERALL,
    REGRET,
    WITHIN,
    predictions,
    selections,
)
from analysis.label_free_vs_probe.populations import (
    MetricPopulation,
    build_population,
    find_hyperparameter_groups,
)
from tests.each import for_each
from zoo.analysis.correlations import RESAMPLED, Resampling, draw_counts
from zoo.analysis.label_free import get_direction
from zoo.analysis.table import build_table

FEW = Resampling(n_resamples=200)
THEIRS = {"Pearson": pearsonr, "Spearman": spearmanr, "Kendall": kendalltau}


def column(values: object, name: str = "metric") -> pd.Series:
    numbers = np.asarray(values, dtype=float)
    return pd.Series(numbers, index=[f"enc{place:03d}" for place in range(len(numbers))], name=name)


def pair(n: int = 30, *, noise: float = 1.0, seed: int = 0) -> tuple[pd.Series, pd.Series]:
    """A metric with ties that goes with an accuracy."""
    rng = np.random.default_rng(seed)
    accuracy = rng.normal(70, 5, n)
    return column(np.round((accuracy + noise * 5 * rng.normal(size=n)) / 3) * 3), column(accuracy, "full-shot")


def planted(n_objectives: int = 6, n_each: int = 5, *, seed: int = 0) -> MetricPopulation:
    """``rankme`` orders the encoders of an objective exactly, and objectives the wrong way round."""
    rng = np.random.default_rng(seed)
    facts, values, accuracies = {}, {}, {}
    for objective in range(n_objectives):
        for epochs in range(n_each):
            encoder = f"o{objective}_e{epochs}"
            accuracies[encoder] = 50 + 5 * objective + epochs + rng.uniform(0, 0.5)
            facts[encoder] = {"objective": f"objective {objective}", "ssl_mode": "siamese", "epochs": 100.0 * 2**epochs}
            values[encoder] = {
                "rankme": 1000 - 100 * objective + 10 * epochs,
                "uniformity": rng.normal(),
                "alpha_req": 1 + 0.1 * epochs,
                "neural_collapse": rng.normal(),
            }
    frame = pd.DataFrame.from_dict(values, orient="index")
    return build_population("planted", "nowhere", frame, pd.DataFrame({"full-shot": accuracies}), build_table(facts))


@for_each(RESAMPLED)
def test_a_statistic_of_counts_is_that_of_scipy_on_the_drawn_rows(statistic: str) -> None:
    x, y = pair(20)
    counts = draw_counts(20, 25, 3)
    ours = RESAMPLED[statistic](x.to_numpy(), y.to_numpy(), counts)
    for count, value in zip(counts, ours, strict=True):
        drawn = np.repeat(np.arange(20), count.astype(int))
        assert value == pytest.approx(THEIRS[statistic](x.iloc[drawn], y.iloc[drawn])[0], abs=1e-12)


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e12])
@pytest.mark.parametrize("statistic", RESAMPLED)
def test_correlations_with_the_oracle_are_those_of_scipy_at_any_scale(statistic: str, scale: float) -> None:
    x, y = pair()
    found = correlating.oracle_correlations(pd.DataFrame({"m": x * scale}), y, population="some", resampling=FEW)
    (one,) = [estimate for estimate in found if estimate.method.startswith(statistic)]
    value, p = THEIRS[statistic](x, y)
    assert (one.value, one.p) == (pytest.approx(value), pytest.approx(p))
    assert one.ci_low is not None and one.ci_high is not None and one.ci_low < value < one.ci_high
    assert (one.term, one.outcome, one.n) == ("m", "full-shot", 30)


def test_drawing_objectives_gives_a_wider_interval_than_drawing_encoders_that_are_alike() -> None:
    x, y = pair(10, noise=2.0)
    copies = pd.DataFrame({"x": np.repeat(x.to_numpy(), 6), "y": np.repeat(y.to_numpy(), 6)})
    copies.index = [f"enc{place:03d}" for place in range(60)]
    groups = pd.Series([f"objective {place // 6}" for place in range(60)], index=copies.index)
    widths = []
    for clusters in (None, groups):
        *_, tau = correlating.oracle_correlations(
            copies[["x"]], copies["y"], population="some", resampling=Resampling(clusters=clusters, n_resamples=400)
        )
        assert tau.ci_low is not None and tau.ci_high is not None
        widths.append(tau.ci_high - tau.ci_low)
        assert ("10 clusters" in tau.method) == (clusters is not None)
    assert widths[1] > 1.5 * widths[0]


def test_the_joint_rank_is_that_of_the_geometric_mean_of_ranks() -> None:
    x, y = pair(25)
    first = column(y + np.random.default_rng(5).normal(0, 3, 25), "first")
    both, alone, added = correlating.joint_correlations(pd.DataFrame({"m": x}), first, y, population="some")
    product = np.sqrt((-x).rank() * (-first).rank())
    assert both.value == pytest.approx(kendalltau(-product, y).statistic)
    assert alone.value == pytest.approx(kendalltau(first, y).statistic)
    assert (both.term, alone.term, added.term) == ("m with first", "first", "m with first - first")
    assert added.value == pytest.approx((both.value or 0) - (alone.value or 0))


def test_metrics_are_turned_so_that_more_is_better() -> None:
    population = planted()
    predictors = population.predictors
    assert (predictors["rankme"] == population.values["rankme"]).all()
    assert (predictors["uniformity"] == -population.values["uniformity"]).all()
    assert predictors["alpha_req"].max() == 0.0
    assert get_direction("neural_collapse") == "none" and "neural_collapse" not in population.choosers


def test_a_pick_its_regret_and_its_gain_are_exact() -> None:
    accuracy = column([60, 70, 80, 50, 90, 40], "full-shot")
    groups = pd.Series(["a", "a", "a", "b", "b", "c"], index=accuracy.index)
    metrics = pd.DataFrame({"m": column([1, 3, 2, 5, 4, 9]), "tie": column([1, 1, 1, 7, 7, 9])})
    one, tied = selections(metrics, accuracy, groups, population="some", of="epochs")
    assert [(pick.chosen, pick.accuracy, pick.best) for pick in one.picks] == [
        (("enc001",), 70.0, "enc002"),
        (("enc003",), 50.0, "enc004"),
    ]
    assert one.n_singles == 1
    expected = {ACCURACY: 60.0, ORACLE: 85.0, CHANCE: 70.0, REGRET: 25.0, GAIN: -10 / 15}
    assert {name: one.estimate(name).value for name in expected} == pytest.approx(expected)
    assert one.estimate(REGRET).ci_low is None and "2 groups" in one.estimate(REGRET).note
    assert (tied.n_ties, tied.estimate(GAIN).value) == (2, pytest.approx(0.0))


def test_a_population_answers_by_choice_within_objectives_and_overall() -> None:
    population = planted()
    assert set(find_hyperparameter_groups(population, ["epochs", "objective", "batch_size"])) == {"epochs", "objective"}
    found = predictions(population, n_resamples=100)
    assert set(found.selected) == {"epochs", "objective", ANY, WITHIN, OVERALL}
    by_epochs, overall = found.selection("rankme", "epochs"), found.selection("rankme", OVERALL)
    assert by_epochs is not None and overall is not None
    assert len(by_epochs.picks) == 6 and by_epochs.estimate(REGRET).value == pytest.approx(0.0)
    assert (overall.estimate(REGRET).value or 0) > 15  # the wrong objective
    assert all(one.metric != "neural_collapse" for kind in found.selected.values() for one in kind)
    ahead = found.difference("rankme", "uniformity")
    behind = found.difference("uniformity", "rankme")
    assert ahead is not None and behind is not None
    assert (ahead.value, ahead.ci_low) == (-(behind.value or 0), -(behind.ci_high or 0))
    assert found.correlation("rankme", "Kendall", "nothing") is None
    assert all(one.p_adjusted is not None for one in found.correlations)
