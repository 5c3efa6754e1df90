"""The study of single choices: its claims, tables and figures, on the published and on other tables."""

from __future__ import annotations

import pytest

from tests.shipped import shipped_findings, shipped_table, study_module
from zoo.analysis.table import table_of
from zoo.evaluation.drawing import style
from zoo.studies.findings import Claim, Findings
from zoo.studies.running import StudyOptions

tables = study_module("what_one_choice_changes", "tables")

figures = study_module("what_one_choice_changes", "figures")

PUBLISHED = shipped_table()
STUDY = study_module("what_one_choice_changes")


@pytest.fixture(scope="module")
def findings() -> Findings:
    return shipped_findings("what_one_choice_changes")


def claim(findings: Findings, *words: str) -> Claim:
    (found,) = [one for one in findings.claims if all(word in f"{one.claim}." for word in words)]
    return found


@pytest.mark.parametrize(
    ("words", "paper"),
    [
        (("dimensions on usability", ": coefficient"), "-3.9"),
        (("dimensions on probe", ": p-value."), "2e-9"),
        (("MLP", "on usability", ": p-value"), "9e-12"),
        (("MLP", "on probe generalization", ": p-value"), "5e-3"),
    ],
)
def test_what_repeated_rows_make_is_corrected_and_explained(
    findings: Findings, words: tuple[str, ...], paper: str
) -> None:
    found = claim(findings, *words)
    assert (found.paper, found.verdict) == (paper, "corrected")
    assert "times, once for each column that varies" in found.reason


def test_printed_numbers_of_epochs_agree_but_for_the_misprint_and_a_last_place(findings: Findings) -> None:
    verdicts = {one.claim: one.verdict for one in findings.claims if "log epochs" in one.claim}
    wrong = {"Effect of log epochs on usability: p-value", "Effect of log epochs on probe generalization: coefficient"}
    assert {name for name, verdict in verdicts.items() if verdict != "agrees"} == wrong
    misprint = claim(findings, "epochs on usability", ": p-value")
    assert misprint.verdict == "corrected"
    assert misprint.value == pytest.approx(2e-2, abs=5e-3)
    assert misprint.reason.startswith("a misprint of 2e-2")
    truncated = claim(findings, "epochs on probe", ": coefficient")
    assert truncated.verdict == "corrected" and truncated.reason.startswith("cut off, not rounded: ")


def test_dimensions_and_probe_generalization_are_of_the_encoders_that_the_printed_number_is_of(
    findings: Findings,
) -> None:
    found = claim(findings, "dimensions on probe", ": coefficient")
    assert (found.paper, found.verdict, found.ours) == ("3.8", "agrees", "3.75")
    assert (
        "all 51 encoders with this risk give 3.10 (p 7.4e-07)"
        in claim(findings, "dimensions on probe", ": p-value.").reason
    )
    both = {
        one.n: one
        for one in findings.estimates
        if (one.term, one.outcome) == ("log(z_dim)", "probe_gen") and "repeated" not in one.method
    }
    assert both[51].value == pytest.approx(3.097, abs=1e-3) and both[51].method == "controlled"
    assert both[25].value == pytest.approx(3.754, abs=1e-3) and both[25].method.endswith("with every component")


def test_the_bound_of_the_main_text_is_contradicted_by_the_printed_p_values(findings: Findings) -> None:
    for outcome in ("usability", "probe generalization"):
        found = claim(findings, f"dimensions on {outcome}", "main text")
        assert (found.paper, found.verdict) == ("<1e-9", "corrected")
        assert "the appendix prints" in found.reason


def test_what_the_figures_show_holds(findings: Findings) -> None:
    assert claim(findings, "More dimensions of one ViT").ours == "in 7 of 7 networks"
    assert claim(findings, "ImageNet-22k worsens encoder generalization").ours.startswith("in 2 of 2 pairs; 3.53")
    assert claim(findings, "MLP projector improves usability").ours.startswith("lower in 5 of 5 pairs")
    statements = [one for one in findings.claims if not one.claim.startswith("Effect of")]
    assert len(statements) == 10
    assert {one.verdict for one in statements} == {"agrees"}


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
    table = table_of({name: {**same, "epochs": value} for name, value in epochs.items()})
    found = STUDY.study(table, StudyOptions())
    assert "has no logarithm" in claim(found, "epochs on usability", ": coefficient").reason
    assert list(figures.members_of(table, "epochs", ["usability"]).frame.index) == ["a", "b", "c"]
    with style():
        assert all(figure.draw().axes for figure in found.figures)


OTHER_TABLES = {
    "two encoders": lambda: PUBLISHED.only(["mae_vitB16", "mae_vitL16"], because="a small table"),
    "sparse": lambda: table_of({"mine": {"train_test": 30.0}, "also_mine": {"usability": -0.5, "epochs": 100.0}}),
}


@pytest.mark.parametrize("kind", OTHER_TABLES)
def test_other_tables_are_answered_or_said_not_to_answer(kind: str) -> None:
    found = STUDY.study(OTHER_TABLES[kind](), StudyOptions())
    assert len(found.claims) == 24
    for one in found.claims:
        assert one.reason or one.verdict == "agrees"
        assert one.verdict != "agrees" or one.ours != "not available"
    with style():
        assert all(figure.draw().axes for figure in found.figures)
