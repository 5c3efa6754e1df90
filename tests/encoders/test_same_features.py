"""Features of encoders of timm are timm's own, at the size of the weights and at 224; many more are in tests/stress."""

from __future__ import annotations

import pytest

from tests.each import for_each
from tests.stress.same_features import WITHIN, deviations

SMALL = ("eupe_vitT16", "tinyclip_vitXS16_yfcc15m", "eva02_vitT14_mim_in22k", "fcmae_convnextv2A", "mae_hieraT")


@pytest.mark.filterwarnings("ignore::zoo.errors.NameNote")
@for_each(SMALL)
def test_features_are_those_of_timms_own_forward(name: str) -> None:
    compared = list(deviations(name))
    assert 224 in [px for _, px, _ in compared]
    assert all(deviation <= WITHIN for _, _, deviation in compared), compared
