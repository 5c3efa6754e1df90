"""The study of label-free metrics: on published statistics, on rows of a user's own, and with nothing measured."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from analysis.label_free_vs_probe.agreement import predictions, setting_correlations
from analysis.label_free_vs_probe.populations import build_measured_populations
from tests.result_rows import user_of
from tests.shipped import QUICK, shipped_findings, study_module, with_few_draws
from tests.studies.parts import find
from tests.studies.test_label_free_populations import POCKET, errors, metric
from zoo.analysis.table import study_table
from zoo.errors import QueryError
from zoo.evaluation.drawing import use_style
from zoo.studies.findings import Claim, Findings

NAME = "label_free_vs_probe"
claims = study_module(NAME)
figures = study_module(NAME, "tables")

study = partial(find, with_few_draws(NAME, **QUICK))
GOOD, RANDOM = "lidar", "rankme"


def claim(findings: Findings, *words: str) -> Claim:
    (found,) = [one for one in findings.claims if all(word in one.claim for word in words)]
    return found


@pytest.fixture(scope="module")
def published() -> Findings:
    return shipped_findings(NAME)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """LiDAR orders pocket encoders as their accuracies on planted data do, RankMe nearly the other way round."""
    folder = tmp_path_factory.mktemp("home")
    rows = []
    for place, encoder in enumerate(POCKET):
        plain = {"encoder": encoder, "dataset": "planted", "n_train": "", "ci_low": "", "ci_high": "", "source": "me"}
        error = {
            "metric": "linear_probe_error",
            "split": "train -> val",
            "value": str(20 + 2 * place),
            "n_train": "100",
        }
        views = {"metric": GOOD, "split": "train pretraining-augmented", "unit": "dimensions", "value": str(99 - place)}
        plain_rank = {"metric": RANDOM, "split": "train", "unit": "dimensions", "value": str(10 + (place + 3) % 15)}
        rows += [plain | error, *(plain | {"protocol": "zoo-label-free-1"} | one for one in (views, plain_rank))]
    with pytest.MonkeyPatch.context() as patch:
        user_of(folder, patch)(*rows)
    return folder


@pytest.fixture(scope="module")
def mine(home: Path) -> Findings:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ZOO_HOME", str(home))
        return study(study_table(with_mine=True))


def test_a_printed_number_is_compatible_if_our_interval_holds_it(published: Findings) -> None:
    for statistic, printed in (("Pearson", 0.42), ("Kendall", 0.26)):
        (ours,) = [
            one
            for one in published.estimates
            if (one.term, one.outcome) == ("alignment", "full-shot")
            and one.method.startswith(f"{statistic}, published encoders,")
        ]
        assert ours.ci_low is not None and ours.ci_high is not None
        found = claim(published, f"{statistic} of alignment with accuracy")
        assert (found.verdict == "compatible") == (ours.ci_low <= printed <= ours.ci_high)
        assert found.verdict != "agrees"  # neither comes out at the printed precision


def test_a_metric_that_orders_as_accuracy_does_is_found_ahead(mine: Findings) -> None:
    part = {rows.part: rows.used for rows in mine.rows}
    assert part["encoders measured on planted"] == len(POCKET)
    values = {
        one.term: one.value
        for one in mine.estimates
        if one.method.startswith("Kendall, encoders measured on pl") and one.outcome == "full-shot"
    }
    assert values[GOOD] == pytest.approx(1.0) and values[RANDOM] < 0.5
    regrets = [
        one
        for one in mine.estimates
        if (one.term, one.outcome) == (GOOD, "regret") and "measured on planted" in one.method
    ]
    assert regrets and all(one.value == 0.0 for one in regrets)


def test_a_planted_lead_is_a_claim_that_agrees_and_its_reverse_is_not_held_against_the_paper() -> None:
    shuffled = [POCKET[(7 * place) % len(POCKET)] for place in range(len(POCKET))]
    views = {"split": "train pretraining-augmented"}
    (population,) = build_measured_populations(
        [*errors(POCKET), *metric(POCKET, GOOD, **views), *metric(shuffled, RANDOM)]
    ).populations
    held = claims.Held(predictions=predictions(population, n_resamples=200))
    ahead, behind = claims.orders_better(held, GOOD, RANDOM), claims.orders_better(held, RANDOM, GOOD)
    assert ahead.holds and not behind.holds and not behind.contradicted
    assert behind.reason == "it is the other way round on these encoders, which are not the paper's"
    best = claims.orders_best(held, GOOD)
    assert best.holds and "ahead of RankMe, the nearest of 1" in best.ours


def test_a_grid_of_settings_is_a_claim_and_a_figure() -> None:
    (population,) = build_measured_populations([*errors(POCKET[:9]), *metric(POCKET[:9])]).populations
    good, poor = population.oracle, population.oracle.sample(frac=1, random_state=1).set_axis(population.oracle.index)
    estimates = setting_correlations({(4, 1): good, (4, 9): poor, (9, 1): good}, population.oracle, population="p")
    assert claims.fewer_neighbours_are_better(claims.Held(predictions="", grid=estimates)).holds
    with pytest.raises(QueryError, match="several numbers of neighbours"):
        claims.fewer_neighbours_are_better(claims.Held(predictions=""))
    with use_style():
        figure = figures.grid_figure("p", estimates)
        drawing = figure.draw()
    assert figure.name == "grid_p" and "on p" in figure.title  # a title of its own, by which the page tells two apart
    assert len(drawing.axes[0].texts) == 3
