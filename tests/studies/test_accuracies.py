"""The study of published accuracies: every number of Appendix F.1 and Table 8, and tables that lack them."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from tests.shipped import shipped_findings
from tests.studies.parts import claim, find
from zoo.analysis.table import build_table
from zoo.evaluation.drawing import use_style
from zoo.studies.findings import Findings
from zoo.studies.running import find_study, load_study

study = partial(find, load_study(find_study("do_accuracies_agree")))
WRONG = "deepcluster_rn50_bs512_ep200_mmselfsup"


@pytest.fixture(scope="module")
def published() -> Findings:
    return shipped_findings("do_accuracies_agree")


@pytest.fixture(scope="module")
def corrected() -> Findings:
    return shipped_findings("do_accuracies_agree", corrected=True)


def test_errata_take_a_row_and_an_accuracy_that_belongs_to_another_file(corrected: Findings) -> None:
    assert corrected.rows[0].used == 113
    assert claim(corrected, f"accuracy of {WRONG}").ours == "not available"
    nocolor = claim(corrected, "accuracy of byol_rn50_augNocolor")
    assert nocolor.value == pytest.approx(-0.072, abs=1e-3)  # 63.4 instead of the copied 59.4
    assert "63.4" in nocolor.reason
    assert not any("although an erratum" in note for note in corrected.notes)


def test_a_planted_offset_is_the_mean_and_its_sign_is_published_minus_measured() -> None:
    rng = np.random.default_rng(0)
    errors = 30 + rng.standard_normal(40)
    rows = {
        f"planted_{number}": {"train_test": error, "top1acc_in1k_official": 100 - error + 2 + rng.normal(0, 0.3)}
        for number, error in enumerate(errors)
    }
    found = study(build_table(rows))
    mean = next(one for one in found.estimates if one.method == "paired t-test")
    assert mean.ci_low is not None and mean.ci_high is not None and mean.ci_low < 2 < mean.ci_high
    assert claim(found, "Mean of published minus measured accuracy, full-shot").verdict == "not reproducible"
    assert claim(found, "Mean of published minus measured accuracy, 5-shot").ours == "not available"
    assert claim(found, "The difference is not significant, 5-shot").verdict == "not reproducible"
    with use_style():
        assert found.figures[0].draw().axes
