"""The study of full-shot and few-shot: Tables 2 and 4, risks of the best, rank correlations and tradeoffs."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest

from tests.shipped import shipped_findings, shipped_table, study_module
from zoo.analysis.columns import Estimate
from zoo.analysis.table import StudyTable, table_of
from zoo.errors import QueryError
from zoo.evaluation.drawing import style
from zoo.studies.findings import Claim, Findings
from zoo.studies.running import StudyOptions, load_study, study_named

winners = study_module("full_shot_or_few_shot", "winners")

in_print = study_module("full_shot_or_few_shot", "tables")
statements = study_module("full_shot_or_few_shot", "claims")

PUBLISHED = shipped_table()
NO_ESTIMATES = {
    name: []
    for name in (
        "best 20 %",
        "ranks",
        "pairs, all",
        "pairs, all, by objective",
        "pairs, best",
        "all of a year",
        "chosen 20 %",
        "chosen 10 %",
        "probe_gen ranks few-shot more than full-shot",
        "usability ranks full-shot more than few-shot",
    )
}
run = load_study(study_named("full_shot_or_few_shot"))


def claims(found: list[Claim] | Findings) -> dict[str, Claim]:
    return {claim.claim: claim for claim in (found.claims if isinstance(found, Findings) else found)}


def claims_on(table: StudyTable) -> list[Claim]:
    """All claims; those that need estimates are not available."""
    found: list[Claim] = statements.claims_of(statements.Found(table, table.frame.iloc[:0], NO_ESTIMATES))
    return found


@pytest.fixture(scope="module")
def published() -> Findings:
    return shipped_findings("full_shot_or_few_shot")


# ids and accuracies in full-shot, 1 % and 3-shot: Table 2 of Dubois et al. 2023, read from the page
@pytest.mark.parametrize(
    ("position", "encoder", "printed"),
    [
        (0, "mocov3_rn50_ep1000", "73.7 55.5 40.4"),
        (1, "dino_rn50", "74.2 52.9 35.9"),
        (2, "swav_rn50w4", "76.2 56.2 36.9"),
        (3, "vicregl_convnextb_alpha09", "74.8 64.3 56.3"),
        (4, "mugs_vits16_ep800_extractS", "77.3 62.9 49.6"),
        (5, "msn_vits16_ep800", "76.1 67.5 60.4"),
        (6, "msn_vitb4_ep300", "80.1 75.1 69.3"),
        (7, "mugs_vitl16_ep250", "80.9 74.0 68.5"),
        (8, "msn_vitl7_ep200", "79.9 74.9 69.8"),
        (9, "clip_vitL14_px336", "85.0 75.2 62.9"),
        (10, "openclip_vitH14", "84.4 75.8 63.7"),
        (11, "msn_vitl7_ep200", "79.9 74.9 69.8"),
    ],
)
def test_table_2_is_found_at_one_decimal(position: int, encoder: str, printed: str) -> None:
    row, claim = in_print.WINNERS[position], claims_on(PUBLISHED)[position]
    assert " ".join(row.accuracies) == printed
    assert claim.verdict == "agrees"
    assert claim.ours.startswith(f"{encoder}, {row.million_parameters}M")
    assert " ".join(f"{accuracy:.1f}" for accuracy in in_print.accuracies_of(PUBLISHED, encoder)) == printed


# Table 4 of Dubois et al. 2023, read from the page
@pytest.mark.parametrize(
    ("position", "printed"),
    [
        (0, "1536 77.3 62.9 49.6"),
        (1, "384 77.0 66.6 57.9"),
        (2, "1280 84.4 75.8 63.7"),
        (3, "1024 84.3 76.5 65.5"),
    ],
)
def test_table_4_is_found_at_one_decimal(position: int, printed: str) -> None:
    row, claim = in_print.FEATURES[position], claims_on(PUBLISHED)[len(in_print.WINNERS) + 1 + position]
    assert f"{row.dimensions} {' '.join(row.accuracies)}" == printed
    assert (claim.verdict, row.ours) == ("agrees", position % 2 == 1)
    shown = " ".join(f"{accuracy:.1f}" for accuracy in in_print.accuracies_of(PUBLISHED, row.encoder))
    assert f"{PUBLISHED.frame['z_dim'][row.encoder]:g} {shown}" == printed


def test_the_claims_come_out_as_they_should(published: Findings) -> None:
    assert [(claim.claim, claim.verdict) for claim in published.claims if claim.verdict != "agrees"] == [
        ("Probe generalization ranks encoders more alike in 3-shot than in full-shot", "not reproducible"),
        ("At every point in time, the best 20 % form a usability/probe generalization tradeoff", "corrected"),
        ("All ImageNet-1K encoders together show no tradeoff", "not reproducible"),
        ("The best 10 % since 2019 show the usability/probe generalization tradeoff", "corrected"),
        (
            "The best 10 % since 2019 show a glimpse of an approximation/probe generalization tradeoff",
            "not reproducible",
        ),
    ]
    assert len(published.claims) == len(claims(published)) == 32


def test_correlations_are_those_of_the_published_rows(published: Findings) -> None:
    # scipy.stats.kendalltau on the published results file
    found = {(one.term, one.outcome): one for one in published.estimates if one.family == "components with errors"}
    assert found["probe_gen", "train-nperclass-3_test"].value == pytest.approx(0.4838, abs=5e-4)
    assert found["usability", "train_test"].value == pytest.approx(0.4365, abs=5e-4)
    assert len(found) == 20
    assert (found["usability", "train_test"].n, found["probe_gen", "train_test"].n) == (146, 169)


def printed_alike(values: Iterable[float | None]) -> tuple[str, ...]:
    return tuple(f"{value:.1f}" for value in values)


@pytest.mark.parametrize(
    ("together", "p", "verdict"),
    [(-0.5, 0.01, "agrees"), (-0.5, 0.6, "corrected"), (0.0, 0.6, "not reproducible"), (0.0, 0.01, "not reproducible")],
)
def test_figures_6_and_31b_are_judged_by_one_rule(together: float, p: float, verdict: str) -> None:
    def tau(term: str, value: float, **more: float) -> Estimate:
        return Estimate(term=term, value=value, n=9, unit="tau", outcome="usability, probe_gen", **more)  # type: ignore

    both = [
        tau("2021", -0.9),
        tau("2022", 0.3),
        tau("all groups", together),
        tau("by selection alone", -0.3, ci_low=-0.6, ci_high=0.1),
        tau("beyond selection", together + 0.3 if p > 0.05 else -0.2, p=p),
    ]
    found = statements.Found(
        PUBLISHED, PUBLISHED.frame.iloc[:0], NO_ESTIMATES | dict.fromkeys(("chosen 20 %", "chosen 10 %"), both)
    )
    judged = statements.of_tradeoffs.judged(found)
    assert [one.verdict for one in judged if "usability/probe" in one.claim] == [verdict] * 2


def test_a_weak_correlation_that_hangs_on_whole_objectives_settles_nothing(published: Findings) -> None:
    drawn = [
        one
        for one in published.estimates
        if one.method.endswith("bootstrap over objectives") and (one.term, one.outcome) == ("usability", "probe_gen")
    ]
    assert drawn and all((one.ci_low or 0.0) < 0 < (one.ci_high or 0.0) for one in drawn)
    assert claims(published)["All ImageNet-1K encoders together show no tradeoff"].verdict == "not reproducible"


@pytest.mark.parametrize("corrected", [False, True])
def test_used_and_left_out_are_all_encoders_of_the_table(corrected: bool) -> None:
    table = shipped_table(corrected=corrected)
    found = shipped_findings("full_shot_or_few_shot", corrected=corrected)
    assert {rows.used + sum(rows.left_out.values()) for rows in found.rows} == {len(table)}


def test_a_better_encoder_takes_the_place_of_a_printed_one() -> None:
    table = PUBLISHED.only(PUBLISHED.frame.index.drop("dino_rn50"), because="test")
    claim = claims(claims_on(table))["Table 2, RN50, ImageNet-1K: best at full-shot"]
    assert claim.verdict == "not reproducible"
    assert claim.ours.startswith("dc2_rn50_ep800_2x224_6x96")
    assert claim.reason == "another encoder of the table is better in this category"


def small(n: int = 3) -> StudyTable:
    rng = np.random.default_rng(0)
    return table_of(
        {
            f"e{i}": {
                "train_test": 30.0 + i,
                "train-nperclass-3_test": 60.0 + i,
                "usability": float(rng.uniform(1, 9)),
                "probe_gen": 15.0,
                "year": 2022,
                "family": "vit",
                "pretraining_data": "ImageNet-1K",
            }
            for i in range(n)
        }
    )


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_a_handful_of_encoders_is_refused_in_one_sentence(n: int) -> None:
    for table in (small(n), PUBLISHED.only(PUBLISHED.frame.index[:n], because="test")):
        with pytest.raises(QueryError, match=rf"^The table has {n} encoders?, expected at least 5 to compare"):
            run(table, StudyOptions())


def test_encoders_that_lack_most_columns_answer_what_they_can_and_say_why_not_the_rest() -> None:
    found = run(small(5), StudyOptions())
    gone = [claim for claim in found.claims if claim.ours == "not available"]
    assert len(gone) == 32
    assert all(claim.verdict == "not reproducible" and claim.reason.count(". ") == 0 for claim in gone)
    assert found.tables[3].rows[0][0] == "e0"  # nobody beats it in both settings
    with style():
        for figure in found.figures:
            figure.draw()
