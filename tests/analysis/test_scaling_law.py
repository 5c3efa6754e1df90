"""The scaling law of the components: planted laws are found again, and the published rows give the known numbers."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from tests.law_population import population
from tests.shipped import shipped_table
from zoo.analysis.columns import Estimate
from zoo.analysis.scaling_law import (
    N_DECOMPOSITION,
    as_printed,
    explained,
    fit_scaling_law,
    full_shot_only,
    law_errors,
    law_rows,
    leave_encoder_out,
    predict,
    residuals,
)
from zoo.analysis.table import StudyTable, table_of
from zoo.errors import QueryError

PUBLISHED = shipped_table()
ROWS = law_rows(PUBLISHED)
EVERY = law_rows(PUBLISHED, complete_only=False)
THIRTY, FIVE = "train-nperclass-30_test", "train-nperclass-5_test"


def planted(n_encoders: int = 60, **settings: float) -> pd.DataFrame:
    return law_rows(table_of(population(n_encoders, **settings)))  # type: ignore[arg-type]


def around(estimate: Estimate) -> tuple[float, float]:
    assert estimate.ci_low is not None and estimate.ci_high is not None
    return estimate.ci_low, estimate.ci_high


@pytest.mark.parametrize(("alpha", "w"), [(0.15, 0.5), (0.05, 1.2), (0.3, 0.0)])
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


def test_noise_shared_by_the_rows_of_an_encoder_widens_the_intervals() -> None:
    rows = planted(40, noise=0.5)
    few_shot = rows["n"] < 1_000_000
    offsets = dict(zip(rows["encoder"].unique(), np.random.default_rng(1).normal(0, 5, 40), strict=True))
    shared = rows.assign(error=rows["error"] + few_shot * rows["encoder"].map(offsets))
    narrow, wide = (around(fit_scaling_law(some, n_resamples=100).alpha) for some in (rows, shared))
    assert wide[1] - wide[0] > 3 * (narrow[1] - narrow[0])


def test_the_published_rows_give_the_known_law() -> None:
    # expected ranges: re-computation of Dubois et al. 2023, Appendix F.4, which prints alpha .15, W .51, R2 .94
    law = fit_scaling_law(ROWS, n_resamples=300)
    assert (law.n_rows, law.n_encoders) == (729, 146)
    assert law.alpha.value is not None and 0.1445 <= law.alpha.value <= 0.1458
    assert law.W.value is not None and 0.505 <= law.W.value <= 0.520
    assert law.r2.value is not None and 0.946 <= law.r2.value <= 0.948
    assert around(law.alpha) == pytest.approx((0.141, 0.150), abs=0.0015)
    assert around(law.W) == pytest.approx((0.36, 0.69), abs=0.04)


@pytest.mark.parametrize("rows", [ROWS, EVERY], ids=["729", "843"])
def test_no_other_alpha_and_w_fit_better(rows: pd.DataFrame) -> None:
    law = fit_scaling_law(rows, n_resamples=0)
    grid = [(alpha, w) for alpha in np.linspace(0, 0.5, 51) for w in (*np.linspace(0, 2, 41), 10, 100)]
    best = max(explained(rows["error"], law_errors(rows, alpha=alpha, w=w)) for alpha, w in grid)
    assert law.r2.value is not None and best <= law.r2.value


def test_a_copied_column_of_thirty_shot_errors_spoils_the_fit() -> None:
    # the paper's Table 7 prints its 5-shot column a second time as 30-shot; from there R2 .878 and W .63 come
    frame = PUBLISHED.frame.assign(**{THIRTY: PUBLISHED.frame[FIVE].where(PUBLISHED.frame[THIRTY].notna())})
    copied = StudyTable(frame, PUBLISHED.why_missing, False, (), {})
    law, right = (fit_scaling_law(law_rows(table), n_resamples=0) for table in (copied, PUBLISHED))
    assert law.r2.value == pytest.approx(0.878, abs=0.001)
    assert law.W.value == pytest.approx(0.63, abs=0.01)
    assert right.r2.value is not None and right.r2.value > 0.946


def test_rows_hold_each_measured_setting_of_each_encoder_once() -> None:
    assert not ROWS.duplicated(["encoder", "n"]).any()
    assert ROWS["n"].value_counts().to_dict() == {1_281_167: 146, 12_811: 146, 5_000: 146, 3_000: 146, 30_000: 145}
    signed = PUBLISHED.frame.loc[ROWS["encoder"], "approx_plus_usability"].to_numpy()
    assert (ROWS["T"].to_numpy() == signed).all()


def test_an_encoder_that_lacks_settings_or_parts_gives_the_rows_it_can() -> None:
    rows = population(12)
    rows["encoder0"] = {**rows["encoder0"], THIRTY: None, FIVE: None}
    rows["encoder1"] = {**rows["encoder1"], "approx": None, "usability": None, "year": None}
    table = table_of(rows)
    assert len(law_rows(table)) == 12 * 5 - 2 - 5
    assert len(law_rows(table, complete_only=False)) == 12 * 5 - 2
    assert fit_scaling_law(law_rows(table, complete_only=False), n_resamples=10).W.value == pytest.approx(0.5, abs=1e-3)


def test_predictions_add_up_the_components_and_stay_between_0_and_100_percent() -> None:
    law = fit_scaling_law(planted(), n_resamples=0)
    cells = {"n": np.array([1_231_167, 3]), "T": 30.0, "probe_gen": 20.0, "enc_gen": 5.0}
    assert predict(law, cells) == pytest.approx([55, 100])
    assert law_errors({**cells, "enc_gen": -100.0}, alpha=0.1, w=0.5).min() == 0


def elsewhere(alpha: float, w: float, n_measured: float) -> pd.DataFrame:
    """Errors of another data set, whose components were measured with so many labels."""
    rows = planted(20).assign(n=lambda frame: frame["n"] / 20)
    return rows.assign(error=law_errors(rows, alpha=alpha, w=w, n_measured=n_measured))


@pytest.mark.parametrize("n_measured", [50_000, 61_558.0])
def test_a_law_of_other_images_is_found_with_the_labels_of_their_components(n_measured: float) -> None:
    rows = elsewhere(0.25, 0.3, n_measured)
    law = fit_scaling_law(rows, n_resamples=10, n_measured=n_measured)
    assert (law.alpha.value, law.W.value) == (pytest.approx(0.25, abs=1e-5), pytest.approx(0.3, abs=1e-4))
    assert law.n_measured == n_measured
    cells = {"n": n_measured, "T": 12.0, "probe_gen": 3.0, "enc_gen": 1.0}
    assert float(predict(law, cells)) == pytest.approx(16.0)  # the sum of the components
    assert float(predict(law, cells | {"n": n_measured / 16})) == pytest.approx(1 + 0.7 * 12 + (0.3 * 12 + 3) * 2)
    assert law.draws == pytest.approx(np.tile([0.25, 0.3], (10, 1)), abs=1e-3)
    assert residuals(law, rows)["rmse"].max() < 1e-3
    assert leave_encoder_out(rows, n_measured=n_measured) == pytest.approx(rows["error"].to_numpy(), abs=1e-3)
    assert fit_scaling_law(rows, n_resamples=0).alpha.value != pytest.approx(0.25, abs=1e-2)  # with those of ImageNet


def test_the_law_of_imagenet_does_not_depend_on_naming_its_labels() -> None:
    named, by_default = (
        fit_scaling_law(ROWS, n_resamples=5, **options) for options in ({"n_measured": N_DECOMPOSITION}, {})
    )
    assert (named.alpha, named.W, named.r2) == (by_default.alpha, by_default.W, by_default.r2)
    assert (named.draws == by_default.draws).all()
    assert (predict(named, ROWS) == law_errors(ROWS, alpha=named.alpha.value or 0, w=named.W.value or 0)).all()


def test_few_shot_misses_of_one_family_show_in_its_residuals() -> None:
    rows = planted()
    missed = rows.assign(error=rows["error"] + 3.0 * ((rows["family"] == "vit") & (rows["n"] == 3_000)))
    law = fit_scaling_law(rows, n_resamples=0)
    found = residuals(law, missed).set_index(["n", "family"])
    assert found.loc[(3_000, "vit"), "bias"] == pytest.approx(3, abs=1e-3)
    assert found.loc[(3_000, "all"), "bias"] == pytest.approx(1.5, abs=1e-3)
    assert found.loc[(3_000, "all"), "rmse"] == pytest.approx(3 * 0.5**0.5, abs=1e-3)
    assert found["rmse"].drop([(3_000, "vit"), (3_000, "all")]).max() < 1e-3
    assert found.loc[(3_000, "all"), "n_encoders"] == 60


def test_an_encoder_left_out_does_not_help_to_predict_itself() -> None:
    rows = planted(10)
    strange = rows.assign(error=rows["error"].where(rows["encoder"] != "encoder0", 50.0))
    predicted = leave_encoder_out(strange)
    own = (rows["encoder"] == "encoder0").to_numpy()
    assert predicted[own] == pytest.approx(law_errors(rows[own], alpha=0.15, w=0.5), abs=1e-3)
    assert np.abs(predicted - rows["error"])[~own].max() > 0.1


def test_held_out_encoders_are_predicted_nearly_as_well_as_fitted_ones() -> None:
    assert explained(ROWS["error"], leave_encoder_out(ROWS)) == pytest.approx(0.945, abs=0.001)  # fitted: .947


def test_the_printed_equation_and_the_full_shot_error_alone_are_other_laws() -> None:
    # W times usability alone gives .54, and the printed .51 comes from W times approximation plus usability
    assert fit_scaling_law(as_printed(ROWS), n_resamples=0).W.value == pytest.approx(0.537, abs=0.001)
    alone = fit_scaling_law(full_shot_only(ROWS), n_resamples=0).r2.value
    assert alone == pytest.approx(0.937, abs=0.001)


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
