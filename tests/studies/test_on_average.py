"""The study of average effects: its verdicts, what it says of generative objectives, and tables that lack a part."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from statsmodels.stats.multitest import multipletests

from tests.shipped import shipped_findings, shipped_table, study_module
from zoo.analysis.columns import TREE_OUTCOMES
from zoo.analysis.linear import global_linear_effect
from zoo.analysis.table import StudyTable, table_of
from zoo.evaluation.drawing import style
from zoo.studies.findings import Claim, Findings
from zoo.studies.running import StudyOptions, load_study, studies

tables = study_module("what_choices_change_on_average", "tables")

figures = study_module("what_choices_change_on_average", "figures")

pytestmark = pytest.mark.filterwarnings("error")
STUDY = studies()["what_choices_change_on_average"]
GENERATIVE = "ssl_mode[generative]"


def found(*, corrected: bool = False) -> Findings:
    return shipped_findings("what_choices_change_on_average", corrected=corrected)


def of(table: StudyTable) -> Findings:
    return load_study(STUDY)(table, StudyOptions())


def claim(words: str, findings: Findings | None = None) -> Claim:
    (one,) = [one for one in (findings or found()).claims if words in one.claim]
    return one


def draw(findings: Findings) -> dict[str, Any]:
    with style():
        drawings = {figure.name: figure.draw() for figure in findings.figures}
        for drawing in drawings.values():
            drawing.canvas.draw()
    return drawings


@pytest.mark.parametrize(
    ("words", "verdict", "ours"),
    [  # printed numbers: Dubois et al. 2023, Sections 5.3.1 to 5.3.4 and Appendix D
        ("ViTs, not ResNets, on probe generalization", "agrees", "9.3e-08"),
        ("log parameters on approximation", "agrees", "4.0e-17"),
        ("log parameters on usability", "corrected", "0.306"),
        ("log dimensions on usability", "not reproducible", "6.7e-04"),
        ("log dimensions on probe generalization", "not reproducible", "1.4e-09"),
        ("log effective dimensionality on usability", "agrees", "6.3e-08"),
        ("log augmentations on usability: coefficient", "agrees", "-5.28"),
        ("an MLP projector, not none, on usability: coefficient", "agrees", "-8.62"),
        ("an MLP projector, not none, on usability: standard error", "agrees", "2.63"),
        ("log projector parameters on usability: coefficient", "corrected", "-0.071"),
        ("log projector parameters on usability: standard error", "corrected", "0.309"),
        ("log projector parameters on usability: p-value", "corrected", "0.818"),
        ("a linear projector, not none, on effective dimensionality", "agrees", "3.5e-09"),
        ("transformation-predicting objectives on usability", "agrees", "0.0130"),
        ("Generative objectives are less usable", "corrected", "not identified"),
        (
            "A linear projector improves effective dimensionality",
            "corrected",
            "-1077 [-1409, -745] dimensions linear against identity, p 3.5e-09",
        ),
        ("ViTs do not worsen usability", "agrees", "+2.8 [-2.5, +8.1] vit against resnet, p 0.3"),
        (
            "Clustering objectives significantly improve usability",
            "not reproducible",
            "-2.13 [-4.66, +0.41] clustering against other, p 0.099",
        ),
    ],
)
def test_verdicts_on_the_published_rows(words: str, verdict: str, ours: str) -> None:
    one = claim(words)
    assert one.verdict == verdict
    assert one.ours == ours or float(one.ours) == pytest.approx(float(ours), rel=1e-9)
    assert one.reason or verdict == "agrees"


def test_the_printed_size_of_projectors_is_that_of_the_parameters_beyond_the_first_layer() -> None:
    (hidden,) = [
        one
        for one in found().estimates
        if one.term == "log(projection_nparameters_hidden)" and one.outcome == "usability"
    ]
    assert hidden.value == pytest.approx(-0.679, abs=1e-3) and hidden.p == pytest.approx(0.0187, abs=1e-4)
    reason = claim("log projector parameters on usability: coefficient").reason
    assert "-0.679 +- 0.28 with p 0.019, of 106 encoders" in reason and "with p 0.82, of 133 encoders" in reason
    (rows,) = [one for one in found().rows if one.part == "projection_nparameters on usability"]
    assert rows.used == 133 and rows.left_out["projection_nparameters is 0"] == 4


def test_generative_objectives_have_no_number_in_any_estimate_but_the_artefacts() -> None:
    honest = [one for one in found().estimates if one.term == GENERATIVE]
    assert [one.outcome for one in honest] == list(TREE_OUTCOMES)
    assert all(one.value is None and one.p is None and one.p_adjusted is None and one.note for one in honest)
    artefacts = [one for one in found().estimates if one.term.startswith(f"pseudo-inverse of {GENERATIVE}, ")]
    assert len({one.term for one in artefacts}) == len(artefacts) == 5
    for one in artefacts:  # what is not identified has no interval and no p-value
        assert (one.p, one.ci_low, one.ci_high, one.p_adjusted) == (None, None, None, None)
        assert one.method == "pseudo-inverse" and "artefact" in one.note
    assert artefacts[0].note.endswith("a pseudo-inverse prints p 0.00018")


def test_estimates_of_one_family_have_its_false_discovery_rates() -> None:
    family = [one for one in found().estimates if one.family]
    assert {one.family for one in family} == {"main choices and risks of the global linear analysis"}
    rates = multipletests([one.p for one in family], method="fdr_bh")[1]
    assert [one.p_adjusted for one in family] == pytest.approx(list(rates))
    assert {(one.term, one.outcome) for one in family} == {
        (term, outcome) for term in figures.CHOICES for outcome in TREE_OUTCOMES if term != GENERATIVE
    }


def test_a_doubling_is_the_logarithm_of_2_times_a_unit_of_the_logarithm() -> None:
    estimate = global_linear_effect(shipped_table(), "z_dim", "usability").estimate("log(z_dim)")
    doubled = figures.per_doubling(estimate)
    assert estimate.value is not None and estimate.ci_high_robust is not None
    assert doubled.value == pytest.approx(estimate.value * np.log(2))
    assert doubled.ci_high_robust == pytest.approx(estimate.ci_high_robust * np.log(2))
    assert (doubled.p, doubled.unit) == (estimate.p, "percentage points per doubling of z_dim")
    level = estimate.described(term="family[vit]")
    assert figures.per_doubling(level) == level


def test_an_effective_dimensionality_without_a_logarithm_is_in_no_figure() -> None:
    cells = {f"e{place}": {"usability": 9.0, "ssl_mode": "siamese", "train_rank": 2.0**place} for place in range(5, 9)}
    strange = {f"of rank {rank}": {**cells["e5"], "train_rank": rank} for rank in (0.0, -1.0)}
    findings = of(table_of(cells | strange))
    (axes,) = draw(findings)["effective_dimensionality"].axes
    assert sum(len(points.get_offsets()) for points in axes.collections) == 4


def test_a_table_that_lacks_almost_everything_answers_that_nothing_is_available() -> None:
    poor = table_of({f"e{place}": {"usability": float(place), "ssl_mode": "siamese"} for place in range(5)})
    findings = of(poor)
    assert {one.ours for one in findings.claims} == {"not available"}
    assert {one.verdict for one in findings.claims} == {"not reproducible"}
    assert all(one.reason for one in findings.claims)
    assert not findings.estimates
    assert sum(note.startswith("No effect of z_dim on approx, usability") for note in findings.notes) == 1
    assert list(draw(findings)) == ["effects_on_components"]
