"""The script that asks methods for known effects: what it writes is what the study reads, and is not computed twice."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from analysis.which_methods_find_the_effects.known_effects import CONTROLLED, LINEAR, METHODS, TREES
from scripts import simulate_methods
from scripts.simulate_methods import SCENARIOS, STUDY, part, write
from tests.shipped import study_module


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict]]:
    """Two draws of one outcome where choices were drawn at random."""
    scratch = tmp_path_factory.mktemp("scratch")
    return scratch, [part(SCENARIOS[0], "probe_gen", 2, scratch, STUDY)]


def test_every_method_answers_where_it_can(results: tuple[Path, list[dict]]) -> None:
    _, (found,) = results
    methods = {row["method"] for row in found["fared"]}
    assert methods == {*METHODS, f"{LINEAR}, and {TREES}"} - {CONTROLLED}  # no pairs where choices are independent
    assert {row["n_draws"] for row in found["fared"]} == {2}
    assert {row["outcome"] for row in found["fared"]} == {"probe_gen"}
    assert found["residual_sd"] > 0


def test_what_is_finished_is_read_again(results: tuple[Path, list[dict]], monkeypatch: pytest.MonkeyPatch) -> None:
    scratch, (found,) = results
    monkeypatch.setattr(simulate_methods, "tree_answers", None)  # would be called to compute it anew
    again = part(SCENARIOS[0], "probe_gen", 2, scratch, STUDY)
    assert again == json.loads(json.dumps(found))
    with pytest.raises(TypeError):
        part(SCENARIOS[0], "probe_gen", 3, scratch, STUDY)  # other draws are other numbers


def test_what_is_written_is_read_by_the_study(results: tuple[Path, list[dict]], tmp_path: Path) -> None:
    confounded = json.loads(json.dumps(results[1][0]))
    for row in (*confounded["fared"], *confounded["together"]):
        row["scenario"] = "confounded"
    write(tmp_path, 2, [*results[1], confounded])
    found = study_module("which_methods_find_the_effects", "recorded").recorded(tmp_path)
    assert found.n_draws == 2
    assert len(found.fared) == 2 * len(results[1][0]["fared"])
    assert found.provenance["residual_sd"]["probe_gen"] == pytest.approx(results[1][0]["residual_sd"], rel=1e-3)
    assert set(found.inflation["encoders"]) == {"randomised", "published"}
