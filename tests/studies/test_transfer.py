"""The study of ImageNet's order: planted orders, losses, advantages and subsets come out, and doubtful rows do not."""

from __future__ import annotations

from functools import cache
from itertools import combinations
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.reported_rows import ROW
from tests.shipped import study_module, with_few_draws
from zoo.analysis.table import build_table
from zoo.results.reported import reported_numbers
from zoo.results.reported_values import ReportedNumber
from zoo.studies.findings import Findings
from zoo.studies.running import StudyOptions

STUDY = "does_imagenets_order_transfer"
FEW = {"protocol": "reported-few-shot", "setting": "mteb-image-classification"}
ZERO = {"protocol": "reported-zero-shot", "setting": "datacomp-38"}


@cache
def ids() -> list[str]:
    """Encoders with cards, four self-supervised and the others language-supervised."""
    return sorted({one.encoder for one in reported_numbers() if one.setting == FEW["setting"] and not one.doubt})


@pytest.fixture(scope="module")
def study() -> ModuleType:
    return study_module(STUDY, "numbers")


def accuracies(**of: Any) -> pd.DataFrame:
    return pd.DataFrame(of).rename(columns=lambda name: name.replace("_", "-"))


def planted(study: ModuleType, few: pd.DataFrame, **facts: Any) -> Any:
    """Numbers of encoders of one size and family, the same zero-shot."""
    known = {"parameters": 90e6, "commercial": True, "language": True, "family": "one", **facts}
    frame = pd.DataFrame({name: pd.Series(value, index=few.index) for name, value in known.items()}, index=few.index)
    frame["data"] = [("WebLI",)] * len(few)
    return study.Numbers(few=few, zero=few, facts=frame, left_out={})


def number(encoder: str, dataset: str, value: float, **changes: str) -> ReportedNumber:
    fields = {**ROW, "standing": "third party", **changes, "encoder": encoder, "dataset": dataset}
    return ReportedNumber(printed=f"{value:.2f}", **{**fields, "value": round(value, 2)})  # type: ignore[arg-type]


def numbers(wrong: float | None = None) -> list[ReportedNumber]:
    """ImageNet's order on CIFAR-10, its reverse on MNIST, none on DTD; the last encoder ``wrong``, with a doubt."""
    rng, found = np.random.default_rng(0), []
    for place, encoder in enumerate(ids()):
        value = 40.0 + 2 * place
        of = {"imagenet-1k": value, "cifar-10": value / 2 + 40, "mnist": 99 - value, "dtd": 40 + 30 * rng.random()}
        for dataset, one in of.items():
            doubt = {} if wrong is None or encoder != ids()[-1] else {"doubt": "Diverged."}
            found.append(number(encoder, dataset, wrong if doubt and wrong is not None else one, **FEW, **doubt))
            found.append(number(encoder, dataset, 0.9 * one, **ZERO))
    return found


def found_in(some: list[ReportedNumber]) -> Findings:
    function = with_few_draws(STUDY, N_RESAMPLES=40, reported_numbers=lambda: list(some), MOST_SETS=2)
    findings = function(build_table({"planted": {"train_test": 20.0}}), StudyOptions())
    assert isinstance(findings, Findings)
    return findings


def test_planted_orders_come_out() -> None:
    findings = found_in(numbers())
    taus = {one.term: one for one in findings.estimates if one.outcome == "order, no limit"}
    assert (taus["CIFAR-10"].value, taus["MNIST"].value) == pytest.approx((1, -1))
    none = taus["Describable Textures"]
    assert none.ci_low is not None and none.ci_high is not None and none.ci_low < 0 < none.ci_high
    verdicts = {one.claim.partition(",")[0]: one.verdict for one in findings.claims}
    assert verdicts["Encoders have the order on other data sets that they have on ImageNet-1K"] == "corrected"
    assert verdicts["Zero-shot accuracies order encoders as few-shot ones do"] == "agrees"


def test_a_number_with_a_doubt_changes_nothing() -> None:
    one, other = found_in(numbers(wrong=0.1)), found_in(numbers(wrong=99.9))
    assert one.estimates == other.estimates
    assert one.rows[0].used == len(ids()) - 1 and one.rows[0].left_out == {"their numbers are doubtful": 1}


def test_what_a_pick_loses_is_counted_by_hand(study: ModuleType) -> None:
    few = accuracies(
        imagenet_1k=[70.0, 60, 50, 40, 30, 20, 10],
        cifar_10=[80.0, 90, 70, 60, 50, 40, 30],
        mnist=[50.0, 51, 52, 53, 54, 60, 75],
    )
    few.index = [f"encoder_{place}" for place in range(7)]
    sizes = [90e6, 90e6, 90e6, 90e6, 90e6, 99e6, 300e6]
    every = study.losses(planted(study, few, parameters=sizes), seed=0)
    lost = {(one.rule, one.limit): one for one in every}
    best, five = lost[study.BEST, "no limit"], lost[study.FIRST_FIVE, "no limit"]
    assert (best.mean.value, best.worst.value, best.worst_set) == (17.5, 25.0, "MNIST")
    assert (five.mean.value, five.worst.value) == (10.5, 21.0)
    assert lost[study.LARGEST, "up to 100 M"].picked == "encoder_5"
    assert lost[study.BEST, "up to 100 M"].mean.value == 10.0
    random = np.mean([few.max() - few.iloc[list(some)].max() for some in combinations(range(7), 5)], axis=0)[1:]
    assert lost[study.RANDOM_FIVE, "no limit"].mean.value == pytest.approx(random.mean())
    assert lost[study.RANDOM, "no limit"].mean.value == pytest.approx((few.max() - few.mean())[1:].mean())
    assert five.gain.value == pytest.approx(random.mean() - 10.5)


def test_a_planted_advantage_at_like_size_comes_out(study: ModuleType) -> None:
    sizes, language = [90e6] * 6 + [900e6] * 2, [False] * 2 + [True] * 6
    odds = np.array([1.0, 1, 0, 0, 0, 0, 5, 5])  # of the last two none is of like size
    few = accuracies(**dict.fromkeys(("imagenet_1k", "mnist", "eurosat"), 100 / (1 + np.exp(-odds))))
    found = study.difference_of(planted(study, few, parameters=sizes, language=language), seed=0)
    assert len(found.points) == 2
    for one in (*found.by_set.values(), *found.by_group.values()):
        assert (one.value, one.ci_low, one.ci_high) == pytest.approx((1, 1, 1))


def test_chosen_data_sets_are_judged_by_a_family_that_had_no_part(study: ModuleType) -> None:
    """EuroSAT alone tells the second family apart, and the other data sets the first."""
    rng = np.random.default_rng(0)
    skill = rng.normal(size=20)
    second = np.arange(20) >= 10
    odds = {
        "imagenet_1k": np.where(second, rng.normal(size=20), skill),
        "stanford_cars": np.where(second, 0.01 * rng.normal(size=20), 3 * skill),
        "eurosat": np.where(second, 10 * skill, 0.01 * rng.normal(size=20)),
    }
    few = accuracies(**{name: 100 / (1 + np.exp(-values / 4)) for name, values in odds.items()})
    found = study.subsets(planted(study, few, family=np.where(second, "second", "first")), seed=0)
    chosen, family_out = found["chosen"][0].value, found["a family left out"][0].value
    assert chosen > family_out + 0.1
    assert len(found["chosen"]) == 2
