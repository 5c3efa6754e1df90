"""The study of reported numbers: what it finds in planted ones, and that too few say nothing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from tests.reported_rows import ROW
from tests.shipped import with_few_draws
from tests.studies.parts import claim, one
from zoo.analysis.table import StudyTable, build_table
from zoo.cards.catalogue import load_catalogue
from zoo.results.reported_values import ReportedNumber
from zoo.studies.findings import Findings
from zoo.studies.running import StudyOptions

STUDY = "do_reported_numbers_agree"
WRONG = "deepcluster_rn50_bs512_ep200_mmselfsup"  # measured on other weights, says an erratum
IDS = [
    encoder
    for encoder, card in load_catalogue().items()
    if card.objective.mode not in ("supervised", "initialized") and encoder != WRONG
]
RNG = np.random.default_rng(0)
MEASURED = dict(zip(IDS[:60], 40 + 45 * RNG.random(60), strict=True))
OBJECTIVES = ("simclr", "moco", "byol", "dino", "swav", "vicreg")


def number(encoder: str, value: float, **changes: str) -> ReportedNumber:
    fields = {**ROW, "standing": "authors", **changes, "encoder": encoder}
    return ReportedNumber(printed=f"{value:.2f}", **{**fields, "value": round(value, 2)})  # type: ignore[arg-type]


def population(n: int = 60) -> StudyTable:
    rows = {
        encoder: {"train_test": 100 - value, "objective": OBJECTIVES[place % 6], "ssl_mode": "contrastive"}
        for place, (encoder, value) in enumerate(MEASURED.items())
        if place < n
    }
    return build_table(rows)


def found_in(table: StudyTable, numbers: Sequence[ReportedNumber]) -> Findings:
    findings = with_few_draws(STUDY, N_RESAMPLES=200, reported_numbers=lambda: list(numbers), summaries=lambda **_: {})(
        table, StudyOptions()
    )
    assert isinstance(findings, Findings)
    return findings


@pytest.fixture(scope="module")
def planted() -> Findings:
    """Linear numbers 2 points above, sd 0.3; k-NN in the same order; fine-tuned in none; a third party 0.05 off."""
    rng = np.random.default_rng(1)
    numbers = []
    for place, (encoder, value) in enumerate(MEASURED.items()):
        source = f"somebody/list{place % 5}"
        linear = value + 2 + rng.normal(0, 0.3)
        numbers.append(number(encoder, linear, source=source))
        numbers.append(number(encoder, 0.5 * linear, source=source, protocol="reported-knn"))
        numbers.append(number(encoder, 80 + 5 * rng.random(), source=source, protocol="reported-finetune"))
        numbers.append(number(encoder, 60.0, source=source, protocol="reported-own-head"))
        numbers.append(
            number(encoder, 60.05, source="other/list", protocol="reported-own-head", standing="third party")
        )
    return found_in(population(), numbers)


def test_planted_bias_and_spread_come_out(planted: Findings) -> None:
    mean, spread = (one(planted, "linear", f"first minus second, {words}") for words in ("mean", "standard deviation"))
    assert mean.n == 60 and mean.ci_low is not None and mean.ci_high is not None
    assert mean.ci_low < 2 < mean.ci_high and mean.ci_high - mean.ci_low < 0.4
    assert spread.value == pytest.approx(0.3, abs=0.08)
    assert claim(planted, "is what the published probe finds").verdict == "corrected"
    assert mean.method == "bootstrap over 6 objectives"


def test_order_is_told_by_protocols_that_share_it_only(planted: Findings) -> None:
    assert claim(planted, "k-NN accuracies rank").verdict == "agrees"
    tau = one(planted, "linear and k-NN", "Kendall's tau")
    assert tau.value == pytest.approx(1, abs=0.01)
    unrelated = one(planted, "linear and fine-tuned", "Kendall's tau")
    assert unrelated.ci_low is not None and unrelated.ci_high is not None and unrelated.ci_low < 0 < unrelated.ci_high
    assert claim(planted, "largely uncorrelated").verdict == "agrees"


def test_doubtful_numbers_and_excluded_measurements_make_no_pair() -> None:
    table = build_table(
        {
            encoder: {"train_test": 100 - value, "objective": OBJECTIVES[place % 6], "ssl_mode": "clustering"}
            for place, (encoder, value) in enumerate({**MEASURED, WRONG: 60.0}.items())
        }
    )
    numbers = [number(encoder, value + 2) for encoder, value in MEASURED.items()]
    doubtful = number(IDS[0], 99.0, doubt="A copy.")
    findings = found_in(table, [*numbers[1:], doubtful, number(WRONG, 10.0)])
    assert one(findings, "linear", "first minus second, mean").n == 59
