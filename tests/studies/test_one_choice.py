"""The study of single choices: its claims, tables and figures, on the published and on other tables."""

from __future__ import annotations

import pytest

from tests.shipped import shipped_findings, study_module
from zoo.analysis.table import build_table
from zoo.evaluation.drawing import use_style
from zoo.studies.findings import Claim, Findings
from zoo.studies.running import StudyOptions

tables = study_module("what_one_choice_changes", "tables")

figures = study_module("what_one_choice_changes", "tables")

STUDY = study_module("what_one_choice_changes")


@pytest.fixture(scope="module")
def findings() -> Findings:
    return shipped_findings("what_one_choice_changes")


def claim(findings: Findings, *words: str) -> Claim:
    (found,) = [one for one in findings.claims if all(word in f"{one.claim}." for word in words)]
    return found


def test_one_family_of_tests_holds_every_choice_and_risk(findings: Findings) -> None:
    tested = [one for one in findings.estimates if one.p_adjusted is not None]
    assert {one.family for one in tested} == {STUDY.FAMILY}
    assert {one.term for one in tested} >= {"log(z_dim)", "log(epochs)", "log(nviews)", "projection2_arch[mlp]"}
    assert all(one.p is not None and one.p_adjusted is not None and one.p <= one.p_adjusted for one in tested)
    robust = {(one.term, one.outcome): one.p_robust for one in tested}
    assert robust["log(z_dim)", "usability"] == pytest.approx(0.0156, abs=1e-4)  # HC3 of statsmodels, called directly
    assert robust["projection2_arch[mlp]", "usability"] is None  # one encoder alone has no projector
    repeated = [one for one in findings.estimates if "repeated" in one.method]
    assert repeated and all(one.p_adjusted is None for one in repeated)


def test_a_choice_without_a_logarithm_is_in_no_figure_of_it() -> None:
    same = {"objective": "simclr", "architecture": "resnet50", "usability": 3.0, "probe_gen": 9.0}
    epochs = {"a": 100.0, "b": 200.0, "c": 400.0, "none": 0.0, "strange": -5.0}
    table = build_table({name: {**same, "epochs": value} for name, value in epochs.items()})
    found = STUDY.study(table, StudyOptions())
    assert "no logarithm" in claim(found, "epochs on usability", ": coefficient").reason
    assert list(figures.members_of(table, "epochs", ["usability"]).frame.index) == ["a", "b", "c"]
    with use_style():
        assert all(figure.draw().axes for figure in found.figures)
