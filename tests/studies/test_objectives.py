"""Which objectives are usable: the study on a planted population, and its figures."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.each import for_each
from tests.shipped import study_module
from zoo.analysis.table import StudyTable, build_table
from zoo.studies.findings import Findings
from zoo.studies.running import StudyOptions, list_studies, load_study

claims = study_module("which_objectives_are_usable")
figures = study_module("which_objectives_are_usable")

OBJECTIVES = {  # type -> planted mean of usability, objectives, year
    "clustering": (4.0, ("dino", "swav"), 2021), "contrastive": (7.0, ("clip", "simclr", "moco"), 2020),
    "hierarchical": (7.0, ("mugs",), 2021), "siamese": (7.0, ("byol",), 2020),
    "generative": (15.0, ("mae",), 2021), "transform": (35.0, ("jigsaw",), 2016),
}  # fmt: skip


def planted(*, generative_spread: float = 0.0, clip: float = 0.0, seed: int = 0) -> StudyTable:
    """24 encoders of each type; generative ones have no projector, and vary as said; clip is better by so much."""
    noise = np.random.default_rng(seed)
    rows: dict[str, dict[str, Any]] = {}
    for mode, (mean, objectives, year) in OBJECTIVES.items():
        for number in range(24 if mode != "generative" else 8):
            objective = objectives[number % len(objectives)]
            usability = mean + noise.normal() - clip * (objective == "clip")
            usability += generative_spread * (-1) ** number * (mode == "generative")
            rows[f"{mode}{number}"] = {
                "usability": usability,
                "train_test": 20 + usability,
                "ssl_mode": mode,
                "objective": objective,
                "year": year + number % 3,
                "family": "vit" if number % 2 else "resnet",
                "patch_size": 16.0 if number % 2 else 7.0,
                "n_parameters": 2.0 ** (20 + number % 4),
                "z_dim": 2.0 ** (9 + number % 5),
                "epochs": 100.0 * (1 + number % 7),
                "nviews": 2.0 + number % 3,
                **({} if mode == "generative" else {"projection1_arch": "mlp", "projection2_arch": "mlp"}),
            }
    return build_table(rows)


def found(table: StudyTable) -> Findings:
    return load_study(list_studies()["which_objectives_are_usable"])(table, StudyOptions(n_workers=1))


def verdicts(findings: Findings) -> dict[str, str]:
    return {claim.claim: claim.verdict for claim in findings.claims}


@pytest.fixture(scope="module")
def steady() -> Findings:
    return found(planted(clip=4.0))


def test_a_planted_order_of_types_agrees(steady: Findings) -> None:
    said = verdicts(steady)
    assert said["Generative and transformation-predicting objectives have the highest mean usability error"] == "agrees"
    assert said["Clustering objectives have a slight edge in mean usability"] == "agrees"
    for mode in ("Generative", "Transform"):
        assert said[f"{mode} objectives are less usable than those of each other type"] == "agrees"
    assert said["By SHAP, the usability error is higher with a transform objective"] == "agrees"
    assert said["By SHAP, clip is particularly good for the usability error"] == "agrees"


@for_each(
    [
        ({"sela": 1.8}, "one encoder, of sela"),
        ({"odc": 1.3, "sela": 1.8}, "one encoder each, of sela and odc"),
        ({"sela": 1.8, "dino": 1.2}, ""),  # dino has many encoders
    ],
    arguments=2,
)
def test_a_correction_that_single_encoders_make_names_them(alone: dict[str, float], rests_on: str) -> None:
    objectives = ["dino"] * 8 + ["swav"] * 8 + ["sela", "odc"]
    sizes = {"dino": 0.4, "swav": -0.3, "sela": 0.1, "odc": 0.1, **alone}
    frame = pd.DataFrame({"objective": objectives, "ssl_mode": "clustering"})
    shap = pd.DataFrame({"objective": [sizes[name] for name in objectives]})
    importance = SimpleNamespace(values=frame, shap=shap, outcome="train_test", features="few")
    (claim,) = claims.of_clustering.judged(SimpleNamespace(of=lambda outcome: importance))
    assert claim.rests_on == rests_on
    assert claim.verdict == ("not reproducible" if "dino" in alone else "corrected")
