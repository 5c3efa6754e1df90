"""Checks of features for metrics: where all rows are equal, whether rounding or a collapse made them so."""

from __future__ import annotations

import numpy as np
import pytest

from zoo.errors import DataError
from zoo.evaluation.label_free import compute


@pytest.mark.parametrize("metric", ["rankme", "alpha_req", "uniformity", "cluster_learnability"])
def test_numbers_that_half_precision_has_rounded_to_one_are_no_collapse(metric: str) -> None:
    spread = np.random.default_rng(0).normal(size=(40, 8))
    with pytest.raises(DataError, match=r"float16, which holds these numbers, has steps of 8 at 1e\+04"):
        compute(metric, z=(1e4 + spread).astype(np.float16))
    assert compute(metric, z=(1e4 + spread).astype(np.float32)).value > -1e4
    with pytest.raises(DataError, match="not defined: the representation has collapsed"):
        compute(metric, z=np.full((40, 8), 0.7, np.float32))
