"""Which choices predict risks: directions, printed percentages and the whole study, on planted populations."""

from __future__ import annotations

import tomllib
from typing import Any

import numpy as np
import pandas as pd

from tests.each import for_each
from tests.shipped import LIGHT, study_module
from zoo.analysis.importance import (
    Importance,
    estimate_level_effect,
    explained_variance,
    number_effect,
    tree_importance,
)
from zoo.analysis.table import StudyTable, build_table
from zoo.studies.running import StudyOptions
from zoo.studies.trees import (
    TreeChoice,
    Trees,
    build_tuned_files,
    claim_of_way,
    find_effect_direction,
    fit_trees,
    get_tree_settings,
    tune_trees,
)

of_variance = study_module("which_choices_predict_risk")

DIMENSIONS = TreeChoice(words="more dimensions", feature="z_dim")
VIT = TreeChoice(words="a ViT", feature="family", levels=("vit",))
EPOCHS = TreeChoice(words="more epochs", feature="epochs")


def planted(n: int = 90) -> StudyTable:
    """More dimensions lower usability and raise probe generalization, which ViTs lower; epochs change nothing."""
    noise = np.random.default_rng(0)
    rows: dict[str, dict[str, Any]] = {}
    for number in range(n):
        dims, vit, epochs = 2.0 ** noise.integers(8, 13), bool(noise.integers(2)), 200.0 * noise.integers(1, 5)
        rows[f"e{number}"] = {
            "usability": 30 - 2 * np.log2(dims) + 0.1 * noise.normal(),
            "probe_gen": 2 * np.log2(dims) - 6 * vit + 0.1 * noise.normal(),
            "z_dim": dims,
            "epochs": epochs,
            "family": "vit" if vit else "resnet",
            "patch_size": 16.0 if vit else 7.0,
        }
    return build_table(rows)


TABLE = planted()
ASKED = ("usability", "probe_gen", "enc_gen")  # nobody has the last
TREES = fit_trees(TABLE, ASKED, StudyOptions(n_workers=1), parameters=dict.fromkeys(ASKED, LIGHT), n_subsamples=2)


def made_up(shap: list[float], values: list[Any], feature: str = "z_dim") -> Importance:
    encoders = [f"e{number}" for number in range(len(shap))]
    return Importance(
        outcome="usability",
        features="few",
        shap=pd.DataFrame({feature: shap}, index=encoders),
        base=10.0,
        values=pd.DataFrame({feature: values}, index=encoders),
        n=len(shap),
        mean_absolute=pd.Series(dtype=float),
        estimates=(),
    )


def test_the_effect_of_a_level_is_a_difference_of_mean_shap_values() -> None:
    found = estimate_level_effect(
        made_up([1.0, 3.0, -2.0, 0.0], ["vit", "vit", "resnet", np.nan], "family"), "family", ["vit"]
    )
    assert found.value == 2.0 - -1.0
    assert (found.n, found.unit, found.term) == (4, "percentage points", "family = vit")


def test_the_effect_of_a_number_is_of_its_larger_half() -> None:
    found = number_effect(made_up([5.0, 4.0, 1.0, 0.0, 9.0], [384.0, 384.0, 2048.0, 8192.0, np.nan]), "z_dim")
    assert found.value == 0.5 - 4.5 and found.n == 4 and found.term == "z_dim >= 2048"
    assert "rank correlation of SHAP values and numbers -0.9" in found.note


@for_each(
    [
        (DIMENSIONS, "usability", "lowers"),
        (DIMENSIONS, "probe_gen", "raises"),
        (VIT, "probe_gen", "lowers"),
        (VIT, "usability", "little"),
        (EPOCHS, "usability", "little"),
    ],
    arguments=3,
)
def test_planted_directions_are_found_and_steady(choice: TreeChoice, outcome: str, way: str) -> None:
    found = find_effect_direction(choice, outcome, TREES)
    assert found.found == way and found.again == 2
    assert way == "little" or found.same == 2
    assert claim_of_way(choice, outcome, way, TREES, source="Table 3").verdict == "agrees"
    other = "raises" if way == "lowers" else "lowers"
    wrong = claim_of_way(choice, outcome, other, TREES, source="Table 3")
    assert wrong.verdict != "agrees" and wrong.reason
    assert way == "little" or wrong.verdict == "not reproducible"


def test_a_direction_that_depends_on_the_encoders_does_not_agree() -> None:
    lower, higher = (made_up([value, 0.0], [1.0, 2.0]) for value in (5.0, -5.0))
    for n_lower, verdict in ((3, "agrees"), (2, "corrected")):
        again = [lower] * n_lower + [higher] * (4 - n_lower)
        trees = Trees({"usability": lower}, {}, {"usability": again})
        claim = claim_of_way(DIMENSIONS, "usability", "lowers", trees, source="Table 3")
        assert claim.verdict == verdict and f"same sign in {n_lower} of 4 refits" in claim.ours


def test_a_printed_percentage_within_the_chance_of_folds_is_compatible_and_agrees_if_it_comes_out() -> None:
    found = explained_variance(TABLE, "usability", parameters=LIGHT, n_folds=5, n_repeats=1, n_workers=1)
    low, high = of_variance.chance_of_folds(found)
    assert low < found.by_fold < high <= 100
    explained = of_variance.Explained({("few", "usability"): found}, {})
    near, inside, far = f"{found.by_fold:.2f}", f"{(low + found.by_fold) / 2:.2f}", f"{low - 1:.2f}"
    assert of_variance.claim_of_number(explained, "few", "usability", near, words="after").verdict == "agrees"
    assert of_variance.claim_of_number(explained, "few", "usability", inside, words="after").verdict == "compatible"
    assert of_variance.claim_of_number(explained, "few", "usability", far, words="after").verdict == "not reproducible"
    assert (
        of_variance.claim_of_number(of_variance.Explained({}, {}), "few", "usability", near, words="after").ours
        == "not available"
    )


def test_searched_settings_are_used_when_asked_for() -> None:
    part = build_table({encoder: dict(TABLE.frame.loc[encoder].dropna()) for encoder in TABLE.frame.index[:20]})
    options = StudyOptions(tune=True, n_trials=1, n_workers=1)
    tuned = tune_trees(part, ("usability", "enc_gen"), options)
    settings = get_tree_settings(tuned)
    assert set(settings) == {"usability"} and settings["usability"]["rounds"] in (300, 1000, 2000)
    assert tune_trees(part, ("usability",), StudyOptions()) == {} == build_tuned_files(part, {})
    (text,) = build_tuned_files(part, tuned, {}).values()
    kept = tomllib.loads(text)
    assert kept["few"]["usability"]["parameters"] == settings["usability"]
    assert kept["few"]["usability"]["n_trials"] == 1 and kept["how"]["table"] == "20 published rows"
    found: Trees = fit_trees(part, ("usability",), options, parameters=settings)
    same = tree_importance(part, "usability", parameters=settings["usability"])
    pd.testing.assert_frame_equal(found.of("usability").shap, same.shap)
