"""``zoo evaluate --probe attentive``: rows, what pooling hides, and options that it has no use for."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli_runner import document, run
from tests.each import for_each

ENCODER = "pocket_mae_vit_digits"
QUICK = ("--probe", "attentive", "--settings", "full", "--set", "quick=true", "--set", "epochs=2")


def test_evaluate_says_what_pooling_hides(tmp_path: Path) -> None:
    asked = ("evaluate", ENCODER, "digits", *QUICK, "--to", tmp_path)
    (found,) = document(*asked)["evaluations"]
    (hidden,) = found["pooling"]
    assert found["protocol"] == "zoo-attentive-2 (epochs=2, quick=true)"
    assert hidden["gain"]["value"] == pytest.approx(hidden["value"] - found["errors"][0]["value"])
    assert hidden["gain"]["ci_low"] <= hidden["gain"]["value"] <= hidden["gain"]["ci_high"]
    told = run(*asked, "--page", tmp_path / "page.html")
    assert "what pooling hides, full: accuracy of the attentive probe minus" in told.output.replace("\n", " ")
    page = (tmp_path / "page.html").read_text()
    assert "What pooling hides, full" in page and "Attentive probe zoo-attentive-2" in page


def test_of_several_numbers_of_labels_a_table_says_what_pooling_hides(tmp_path: Path) -> None:
    asked = ("evaluate", ENCODER, "digits", *QUICK, "--settings", "3-shot,full", "--seeds", "1", "--no-record")
    told = run(*asked, "--page", tmp_path / "page.html")
    for text in (told.stdout, (tmp_path / "page.html").read_text()):
        assert "What pooling hides: points by which a linear probe of averaged patches errs more" in text
    assert told.output.count("accuracy of the attentive probe minus") == 1


@for_each(
    [
        (("--probe", "attentive", "--no-knn"), "attentive probes are of maps"),
        (("--probe", "attentive", "--store", "float16"), "have no maps"),
        (("--class-token",), "no probe is of maps"),
        (("--probe", "attentive", "--set", "folds=5"), "Probes that are attentive have no setting 'folds'"),
    ],
    arguments=2,
)
def test_options_without_a_use_for_maps_are_refused(options: tuple[str, ...], said: str) -> None:
    assert said in " ".join(run("evaluate", ENCODER, "digits", *options, code=2).output.split())
