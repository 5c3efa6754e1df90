"""The study of full-shot and few-shot: Tables 2 and 4, risks of the best, rank correlations and tradeoffs."""

from __future__ import annotations

import numpy as np

from tests.each import for_each
from tests.shipped import shipped_table, study_module
from zoo.analysis.columns import Estimate
from zoo.analysis.table import StudyTable, table_of
from zoo.evaluation.drawing import style
from zoo.studies.findings import Claim, Findings
from zoo.studies.running import StudyOptions, load_study, study_named

statements = study_module("full_shot_or_few_shot")

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


@for_each(
    [(-0.5, 0.01, "agrees"), (-0.5, 0.6, "corrected"), (0.0, 0.6, "not reproducible"), (0.0, 0.01, "not reproducible")],
    arguments=3,
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


def test_encoders_that_lack_most_columns_answer_what_they_can_and_say_why_not_the_rest() -> None:
    found = run(small(5), StudyOptions())
    gone = [claim for claim in found.claims if claim.ours == "not available"]
    assert len(gone) == 32
    assert all(claim.verdict == "not reproducible" and claim.reason.count(". ") == 0 for claim in gone)
    assert found.tables[3].rows[0][0] == "e0"  # nobody beats it in both settings
    with style():
        for figure in found.figures:
            figure.draw()
