"""The scaling law of the components: planted laws are found again, and the published rows give the known numbers."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from tests.each import for_each
from tests.law_population import population
from tests.shipped import shipped_table
from zoo.analysis.columns import Estimate
from zoo.analysis.scaling_law import (
    compute_residuals,
    fit_scaling_law,
    law_rows,
    predict,
    predict_law_errors,
    predict_leaving_encoder_out,
)
from zoo.analysis.table import build_table
from zoo.errors import QueryError

PUBLISHED = shipped_table()
ROWS = law_rows(PUBLISHED)
THIRTY, FIVE = "train-nperclass-30_test", "train-nperclass-5_test"


def planted(n_encoders: int = 60, **settings: float) -> pd.DataFrame:
    return law_rows(build_table(population(n_encoders, **settings)))  # type: ignore[arg-type]


def around(estimate: Estimate) -> tuple[float, float]:
    assert estimate.ci_low is not None and estimate.ci_high is not None
    return estimate.ci_low, estimate.ci_high


@for_each([(0.15, 0.5), (0.05, 1.2), (0.3, 0.0)], arguments=2)
def test_a_planted_law_without_noise_is_found_exactly(alpha: float, w: float) -> None:
    law = fit_scaling_law(planted(alpha=alpha, w=w), n_resamples=0)
    assert law.alpha.value == pytest.approx(alpha, abs=1e-5)
    assert law.W.value == pytest.approx(w, abs=1e-4)
    assert law.r2.value == pytest.approx(1)
    assert (law.n_rows, law.n_encoders) == (300, 60)


def test_intervals_hold_a_planted_law_about_as_often_as_they_say() -> None:
    laws = [fit_scaling_law(planted(40, noise=2.0, seed=seed), n_resamples=80, seed=seed) for seed in range(20)]
    within = [around(law.alpha)[0] <= 0.15 <= around(law.alpha)[1] for law in laws]
    within_w = [around(law.W)[0] <= 0.5 <= around(law.W)[1] for law in laws]
    assert 16 <= sum(within) <= 20 and 16 <= sum(within_w) <= 20  # 95 % of 20 are 19


def test_the_published_rows_give_the_known_law() -> None:
    # expected ranges: re-computation of Dubois et al. 2023, Appendix F.4, which prints alpha .15, W .51, R2 .94
    law = fit_scaling_law(ROWS, n_resamples=300)
    assert (law.n_rows, law.n_encoders) == (729, 146)
    assert law.alpha.value is not None and 0.1445 <= law.alpha.value <= 0.1458
    assert law.W.value is not None and 0.505 <= law.W.value <= 0.520
    assert law.r2.value is not None and 0.946 <= law.r2.value <= 0.948
    assert around(law.alpha) == pytest.approx((0.141, 0.150), abs=0.0015)
    assert around(law.W) == pytest.approx((0.36, 0.69), abs=0.04)


def elsewhere(alpha: float, w: float, n_measured: float) -> pd.DataFrame:
    """Errors of another data set, whose components were measured with so many labels."""
    rows = planted(20).assign(n=lambda frame: frame["n"] / 20)
    return rows.assign(error=predict_law_errors(rows, alpha=alpha, w=w, n_measured=n_measured))


@for_each([50_000, 61_558.0])
def test_a_law_of_other_images_is_found_with_the_labels_of_their_components(n_measured: float) -> None:
    rows = elsewhere(0.25, 0.3, n_measured)
    law = fit_scaling_law(rows, n_resamples=10, n_measured=n_measured)
    assert (law.alpha.value, law.W.value) == (pytest.approx(0.25, abs=1e-5), pytest.approx(0.3, abs=1e-4))
    assert law.n_measured == n_measured
    cells = {"n": n_measured, "T": 12.0, "probe_gen": 3.0, "enc_gen": 1.0}
    assert float(predict(law, cells)) == pytest.approx(16.0)  # the sum of the components
    assert float(predict(law, cells | {"n": n_measured / 16})) == pytest.approx(1 + 0.7 * 12 + (0.3 * 12 + 3) * 2)
    assert law.draws == pytest.approx(np.tile([0.25, 0.3], (10, 1)), abs=1e-3)
    assert compute_residuals(law, rows)["rmse"].max() < 1e-3
    assert predict_leaving_encoder_out(rows, n_measured=n_measured) == pytest.approx(rows["error"].to_numpy(), abs=1e-3)
    assert fit_scaling_law(rows, n_resamples=0).alpha.value != pytest.approx(0.25, abs=1e-2)  # with those of ImageNet


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (planted(4), "Got 4 encoders"),
        (planted(6).query("n == 3000"), "Got errors with 3,000 labels only"),
        (planted(6).assign(T=0.0), "Got an error of 0 on the training images"),
    ],
    ids=["too few encoders", "one setting", "nothing for W"],
)
def test_what_cannot_be_fitted_is_refused_in_a_sentence(rows: pd.DataFrame, words: str) -> None:
    with pytest.raises(QueryError, match=f"^{words}.*expected.*[.]$"):
        fit_scaling_law(rows)
