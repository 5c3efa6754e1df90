"""The study of the number of labels: its claims, tables and figures, on the published and on other tables."""

from __future__ import annotations

import sys

import pytest

from tests.each import for_each
from tests.law_population import population
from tests.shipped import QUICK, shipped_findings, study_module, with_few_draws
from zoo.analysis.table import StudyTable, build_table
from zoo.errors import QueryError
from zoo.evaluation.drawing import use_style
from zoo.studies.findings import Claim, Findings, FindingsTable
from zoo.studies.running import StudyOptions

figures = study_module("how_risk_scales_with_labels")


STUDY = sys.modules[with_few_draws("how_risk_scales_with_labels", **QUICK).__module__]


def run(table: StudyTable) -> Findings:
    found = STUDY.study(table, StudyOptions())
    assert isinstance(found, Findings)
    return found


@pytest.fixture(scope="module")
def findings() -> Findings:
    return shipped_findings("how_risk_scales_with_labels")


def claim(findings: Findings, *words: str) -> Claim:
    (found,) = [one for one in findings.claims if all(word in one.claim for word in words)]
    return found


def table(findings: Findings, words: str) -> FindingsTable:
    (found,) = [one for one in findings.tables if one.title.endswith(words)]
    return found


def test_a_law_that_was_printed_before_encoders_were_added_is_corrected_and_another_is_not() -> None:
    alpha, added = population(40, alpha=0.15, w=0.5, noise=0.3), population(40, alpha=0.30, w=0.5, noise=0.3, seed=1)
    later = {f"openclip_{name}": cells for name, cells in added.items()}
    found = {one.claim: one for one in run(build_table(alpha | later)).claims}
    assert found["alpha of the scaling law"].verdict == "corrected"
    assert "before OpenCLIP was added" in found["alpha of the scaling law"].reason
    others = {f"other_{name}": cells for name, cells in added.items()}
    unexplained = {one.claim: one for one in run(build_table(alpha | others)).claims}["alpha of the scaling law"]
    assert unexplained.verdict in ("compatible", "not reproducible")  # the same rows, and nobody added later


def test_parts_that_a_table_does_not_have_are_said_to_be_missing() -> None:
    cells = {encoder: {**row, "family": "resnet", "year": 2020} for encoder, row in population(20, noise=1.0).items()}
    found = run(build_table(cells))
    assert claim(found, "Eq. 25 on held-out ViTs").ours == "not available"
    assert "leave nothing to fit, or nothing to predict" in claim(found, "Std on held-out encoders of 2022").reason
    assert float(claim(found, "alpha of the").ours.split()[0]) == pytest.approx(0.15, abs=0.01)
    with use_style():
        assert all(figure.draw().axes for figure in found.figures)


@for_each([0.0, -5.0])
def test_an_encoder_without_dimensions_is_refused_in_a_sentence(z_dim: float) -> None:
    cells = population(20, noise=1.0)
    with pytest.raises(QueryError, match=r"^Got z_dim (0|-5) of 'mine', expected a positive number .*leave it out[.]$"):
        run(build_table(cells | {"mine": {**cells["encoder0"], "z_dim": z_dim}}))
