"""The study of average effects: its verdicts, what it says of generative objectives, and tables that lack a part."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.shipped import shipped_findings, shipped_table, study_module
from zoo.analysis.linear import global_linear_effect
from zoo.analysis.table import StudyTable
from zoo.evaluation.drawing import use_style
from zoo.studies.findings import Claim, Findings
from zoo.studies.running import StudyOptions, list_studies, load_study

tables = study_module("what_choices_change_on_average", "tables")

figures = study_module("what_choices_change_on_average", "tables")

pytestmark = pytest.mark.filterwarnings("error")
STUDY = list_studies()["what_choices_change_on_average"]


def found(*, corrected: bool = False) -> Findings:
    return shipped_findings("what_choices_change_on_average", corrected=corrected)


def of(table: StudyTable) -> Findings:
    return load_study(STUDY)(table, StudyOptions())


def claim(words: str, findings: Findings | None = None) -> Claim:
    (one,) = [one for one in (findings or found()).claims if words in one.claim]
    return one


def draw(findings: Findings) -> dict[str, Any]:
    with use_style():
        drawings = {figure.name: figure.draw() for figure in findings.figures}
        for drawing in drawings.values():
            drawing.canvas.draw()
    return drawings


def test_a_doubling_is_the_logarithm_of_2_times_a_unit_of_the_logarithm() -> None:
    estimate = global_linear_effect(shipped_table(), "z_dim", "usability").estimate("log(z_dim)")
    doubled = figures.per_doubling(estimate)
    assert estimate.value is not None and estimate.ci_high_robust is not None
    assert doubled.value == pytest.approx(estimate.value * np.log(2))
    assert doubled.ci_high_robust == pytest.approx(estimate.ci_high_robust * np.log(2))
    assert (doubled.p, doubled.unit) == (estimate.p, "percentage points per doubling of z_dim")
    level = estimate.described(term="family[vit]")
    assert figures.per_doubling(level) == level
