"""The study of the number of labels: its claims, tables and figures, on the published and on other tables."""

from __future__ import annotations

import sys

import pytest

from tests.law_population import population
from tests.shipped import QUICK, shipped_findings, study_module, with_few_draws
from zoo.analysis.scaling_law import explained
from zoo.analysis.standard_laws import fit_standard_law, predict_standard
from zoo.analysis.table import StudyTable, study_table, table_of
from zoo.errors import QueryError
from zoo.evaluation.drawing import style
from zoo.studies.findings import Claim, Findings, Table, agrees_with
from zoo.studies.running import StudyOptions

figures = study_module("how_risk_scales_with_labels", "figures")


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


def table(findings: Findings, words: str) -> Table:
    (found,) = [one for one in findings.tables if one.title.endswith(words)]
    return found


@pytest.mark.parametrize(
    ("words", "paper", "verdict"),
    [
        ("alpha of the", "0.15", "agrees"),
        ("W of the", "0.51", "agrees"),
        ("R2 of the scaling law", "0.94", "corrected"),
        ("The law fits all 169", "R2 0.94", "agrees"),
        ("Parameters of Std", "5", "agrees"),
        ("Parameters of e = family", "11", "agrees"),
        ("Parameters of e = architecture", "41", "corrected"),
        ("Parameters of e = objective", "86", "agrees"),
        ("Eq. 25 on held-out encoders of 2022", "0.91", "corrected"),
        ("Eq. 25 on held-out contrastive", "0.96", "agrees"),
        ("Eq. 25 on held-out ViTs", "0.84", "corrected"),
        ("e = family on held-out encoders of 2022", "0.65", "not reproducible"),
        ("e = architecture on held-out encoders of 2022", "0.66", "not reproducible"),
        ("significantly better than standard", "significantly better", "agrees"),
    ],
)
def test_printed_numbers_are_judged(findings: Findings, words: str, paper: str, verdict: str) -> None:
    found = claim(findings, words)
    assert (found.paper, found.verdict) == (paper, verdict)
    assert found.reason or verdict == "agrees"


def test_the_printed_law_and_its_row_of_table_9_come_out_without_openclip(findings: Findings) -> None:
    older = table(findings, "Table 9 without OpenCLIP")
    law, counts = {row[0]: row for row in older.rows}["Eq. 25"], {row[0]: row[1:3] for row in older.rows}
    assert all(agrees_with(printed, float(ours)) for ours, printed in zip(law[3::2], law[4::2], strict=True))
    assert [*law[4::2]] == ["0.94", "0.91", "0.96", "0.84"]
    assert all(ours == printed for ours, printed in counts.values())
    (r2,) = [one for one in findings.estimates if one.term == "R2, without OpenCLIP"]
    assert (r2.n, r2.value) == (695, pytest.approx(0.944, abs=5e-4))
    assert "695 rows of 139 encoders give 0.944" in claim(findings, "R2 of the scaling law").reason
    (rows,) = [one for one in findings.rows if one.part == "Eq. 25 and Table 9, without OpenCLIP"]
    assert (rows.used, rows.left_out) == (139, {"OpenCLIP": 7})


def test_a_law_that_was_printed_before_encoders_were_added_is_corrected_and_another_is_not() -> None:
    alpha, added = population(40, alpha=0.15, w=0.5, noise=0.3), population(40, alpha=0.30, w=0.5, noise=0.3, seed=1)
    later = {f"openclip_{name}": cells for name, cells in added.items()}
    found = {one.claim: one for one in run(table_of(alpha | later)).claims}
    assert found["alpha of the scaling law"].verdict == "corrected"
    assert "before OpenCLIP was added" in found["alpha of the scaling law"].reason
    others = {f"other_{name}": cells for name, cells in added.items()}
    unexplained = {one.claim: one for one in run(table_of(alpha | others)).claims}["alpha of the scaling law"]
    assert unexplained.verdict in ("compatible", "not reproducible")  # the same rows, and nobody added later


def test_the_row_of_the_standard_law_is_of_errors_that_fall_with_dimensions(findings: Findings) -> None:
    rows = STUDY.comparable_rows(STUDY.law_rows(study_table()))
    held = (rows["ssl_mode"] == "contrastive").to_numpy(bool)
    fitted = fit_standard_law(rows[~held])
    assert fitted.size >= 0
    expected = explained(rows[held]["error"], predict_standard(fitted, rows[held]))
    assert claim(findings, "R2 of Std on held-out contrastive").value == pytest.approx(expected)
    assert any("With a K of either sign Std has R2" in note for note in findings.notes)


@pytest.mark.parametrize("words", ["Std on held-out contrastive", "e = family on held-out contrastive"])
def test_a_cell_that_only_lies_in_the_interval_is_compatible(findings: Findings, words: str) -> None:
    found = claim(findings, f"R2 of {words}")
    assert found.verdict == "compatible" and "without the 7 encoders of OpenCLIP" in found.reason


def test_rows_are_accounted_for(findings: Findings) -> None:
    used = {rows.part: (rows.used, sum(rows.left_out.values())) for rows in findings.rows}
    assert used["Eq. 25 and Table 9"] == (146, 23)
    assert used["Eq. 25, pairs of encoder and setting"] == (729, 23 * 5 + 1)  # 169 encoders, 5 settings
    assert used["Eq. 25 of every encoder"] == (843, 2)
    assert used["Table 9"] == (729, 23 * 5 + 1)


def test_examples_go_from_the_best_to_the_worst_fitted_encoder() -> None:
    rows = STUDY.law_rows(table_of(population(30, noise=2.0)))
    labels = list(figures.examples(STUDY.fit_scaling_law(rows, n_resamples=0), rows).values())
    misses = [float(label.split(": ")[1].split(",")[0]) for label in labels]
    assert misses == sorted(misses) and "best fitted" in labels[0] and "worst fitted" in labels[-1]


def test_parts_that_a_table_does_not_have_are_said_to_be_missing() -> None:
    cells = {encoder: {**row, "family": "resnet", "year": 2020} for encoder, row in population(20, noise=1.0).items()}
    found = run(table_of(cells))
    assert claim(found, "Eq. 25 on held-out ViTs").ours == "not available"
    assert "leave nothing to fit, or nothing to predict" in claim(found, "Std on held-out encoders of 2022").reason
    assert float(claim(found, "alpha of the").ours.split()[0]) == pytest.approx(0.15, abs=0.01)
    with style():
        assert all(figure.draw().axes for figure in found.figures)


@pytest.mark.parametrize("z_dim", [0.0, -5.0])
def test_an_encoder_without_dimensions_is_refused_in_a_sentence(z_dim: float) -> None:
    cells = population(20, noise=1.0)
    with pytest.raises(QueryError, match=r"^Got z_dim (0|-5) of 'mine', expected a positive number .*leave it out[.]$"):
        run(table_of(cells | {"mine": {**cells["encoder0"], "z_dim": z_dim}}))


def test_too_few_encoders_are_refused_in_a_sentence() -> None:
    with pytest.raises(QueryError, match=r"Got 3 encoders .* expected at least 5"):
        run(table_of(population(3)))
