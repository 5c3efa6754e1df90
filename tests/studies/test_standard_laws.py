"""Standard scaling laws: planted ones are found again, their best fit is really found, and Table 9 comes out."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from analysis.how_risk_scales_with_labels.held_out import (
    COMPONENT_LAW,
    Score,
    compare_laws,
    draw_held_out_rows,
    select_comparable_rows,
)
from analysis.how_risk_scales_with_labels.standard_laws import STANDARD_LAWS, fit_standard_law, predict_standard
from tests.each import for_each
from tests.law_population import population
from tests.shipped import shipped_table
from zoo.analysis.scaling_law import law_rows
from zoo.analysis.table import build_table

ROWS = select_comparable_rows(law_rows(shipped_table()))
BARS = {"iid": 0.94, "2022": 0.915, "contrastive": 0.96, "ViT": 0.84}  # of Eq. 25; printed .94, .91, .96, .84


@pytest.fixture(scope="module")
def scores() -> dict[tuple[str, str], Score]:
    found = compare_laws(ROWS, n_repeats=2, n_resamples=200)
    return {(score.law, score.split): score for score in found}


def planted(law: str | None = None, *, size: float = 6.0, noise: float = 0.0) -> pd.DataFrame:
    """Rows whose errors are ``I + C / n^a + K / p^b`` with I, C and a of each group of ``law``."""
    rows = select_comparable_rows(law_rows(build_table(population(36))))
    group = pd.factorize(rows[law])[0] if law else np.zeros(len(rows), int)
    n, p = rows["n"] / 3000, rows["z_dim"] / 384
    errors = 10 + 2 * group + (30 + group) * n ** -(0.2 + 0.02 * group) + size * p**-0.8
    return rows.assign(error=errors + np.random.default_rng(0).normal(0, noise, len(rows)))


@pytest.mark.parametrize("by", [None, "family", "objective"])
@pytest.mark.parametrize("size", [6.0, -6.0])
def test_a_planted_law_is_found_with_all_its_groups(by: str | None, size: float) -> None:
    rows = planted(by, size=size)
    law = fit_standard_law(rows, by=by, falls_with_size=size > 0)
    assert np.sqrt(law.loss / len(rows)) < 0.01  # percentage points
    first = rows["encoder"] == "encoder0"
    assert predict_standard(law, rows[first]) == pytest.approx(rows["error"][first], abs=0.05)
    if by is None:
        assert (law.exponent[0], law.size, law.size_exponent) == pytest.approx((0.2, size, 0.8), abs=0.02)


def test_iid_holds_out_three_of_five_settings_of_each_encoder_and_never_all() -> None:
    masks = draw_held_out_rows(ROWS, n_repeats=3, seed=1)["iid"]
    by_encoder = pd.DataFrame(masks.T).groupby(ROWS["encoder"].to_numpy()).sum()
    assert set(by_encoder.to_numpy().ravel()) == {2, 3}  # one encoder has four settings
    assert (masks[0] != masks[1]).any()
    single = ROWS.drop_duplicates("encoder")
    assert not draw_held_out_rows(single, n_repeats=1)["iid"].any()


def test_the_other_splits_hold_out_whole_encoders() -> None:
    masks = draw_held_out_rows(ROWS, n_repeats=1)
    for split, count in (("2022", 204), ("contrastive", 284), ("ViT", 219)):
        assert masks[split].sum() == count
        assert not set(ROWS["encoder"][masks[split][0]]) & set(ROWS["encoder"][~masks[split][0]])


@for_each(BARS)
def test_eq_25_reaches_table_9_and_is_ahead_wherever_a_standard_law_can_predict(
    split: str, scores: dict[tuple[str, str], Score]
) -> None:
    ours = scores[COMPONENT_LAW, split].r2.value
    assert ours is not None and ours >= BARS[split]
    for law in STANDARD_LAWS:
        other = scores[law, split]
        if law == "e = encoder" and split == "iid":  # it has seen other settings of the very encoder
            assert other.r2.value is not None and other.r2.value > ours
        elif other.r2.value is not None:
            assert other.lead.ci_low is not None and other.lead.ci_low > 0
            assert other.lead.value == pytest.approx(ours - other.r2.value)


def test_a_fit_that_ends_on_a_limit_says_so() -> None:
    free = fit_standard_law(planted())
    assert free.at_limits == ()
    steep = planted(size=0.0)
    steep = steep.assign(error=steep["error"] + 20 * (steep["z_dim"] / 384) ** -6.0)
    assert fit_standard_law(steep).at_limits == ("b = 3",)
    flat = planted("encoder", size=0.0).assign(z_dim=768.0)
    assert fit_standard_law(flat, by="encoder").at_limits == ()  # without K there is no b
