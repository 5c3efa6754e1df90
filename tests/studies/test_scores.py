"""The study of transferability scores: what it finds in planted ones, and what it shipped with."""

from __future__ import annotations

import gzip
from typing import Any

import numpy as np
import pytest

from tests.shipped import shipped_findings, shipped_table, study_module, with_few_draws
from tests.studies.parts import claim, one
from zoo.cards.catalogue import load_catalogue
from zoo.errors import ContentError
from zoo.studies.findings import Findings
from zoo.studies.running import StudyOptions

STUDY = "do_transferability_scores_predict"
N_ENCODERS, N_DRAWS = 12, 8
QUALITIES = {  # spread of a score around the truth, in points of error; None: it is the width of the encoder
    "folds": 6.0,
    "folds_loss": 6.0,
    "ridge": 9.0,
    "ridge_squares": 6.0,
    "neighbours": 8.0,
    "logme": 0.1,
    "logme_published": None,
    "h_score": 8.0,
    "gbc": 40.0,
    "nleep": 5.0,
    "transrate": 500.0,
    "rankme": 500.0,
    "width": None,
}
SECONDS = {"folds": 0.1, "ridge": 0.02, "ridge_squares": 0.02, "nleep": 0.3}  # others 0.01


def planted(**changes: float | None) -> Any:
    """Measurements of encoders whose true errors are 2 points apart, whatever the labels."""
    module = study_module(STUDY, "measured")
    rng = np.random.default_rng(0)
    width = rng.permutation(np.arange(N_ENCODERS) // 2).astype(float)
    cells, seconds = {}, {}
    for data in ("one", "two"):
        for labels in (5, 20):
            errors = 10 + 2.0 * np.arange(N_ENCODERS) + rng.normal(0, 0.1, size=(N_DRAWS, N_ENCODERS))
            scores = {
                name: np.tile(width, (N_DRAWS, 1)) if spread is None else -errors + rng.normal(0, spread, errors.shape)
                for name, spread in (QUALITIES | changes).items()
            }
            cells[data, labels] = module.Cell(data=data, labels=labels, errors=errors, scores=scores)
            for name in ("truth", "spectrum", *scores):
                seconds[data, labels, name] = np.full(N_ENCODERS, SECONDS.get(name, 0.01))
    return module.Measurements(
        encoders=tuple(f"pocket_{number}" for number in range(N_ENCODERS)),
        n_draws=N_DRAWS,
        cells=cells,
        seconds=seconds,
        seconds_an_image=dict.fromkeys(("one", "two"), np.full(N_ENCODERS, 0.001)),
        n_classes={"one": 10, "two": 10},
        provenance={"images": {name: {"train": 100, "test": 100} for name in ("one", "two")}},
    )


def found_in(measured: Any) -> Findings:
    findings = with_few_draws(STUDY, N_RESAMPLES=200, measurements=lambda: measured)(shipped_table(), StudyOptions())
    assert isinstance(findings, Findings)
    return findings


@pytest.fixture(scope="module")
def findings() -> Findings:
    return found_in(planted())


def test_a_score_that_is_the_truth_orders_all_and_regrets_nothing(findings: Findings) -> None:
    of = "all data sets, 5 labels per class, to predict the same labels"
    tau, regret = one(findings, "LogME, exact", f"order, {of}"), one(findings, "LogME, exact", f"regret, {of}")
    assert tau.value == pytest.approx(1, abs=0.02)
    assert regret.value == pytest.approx(0, abs=0.05)
    assert claim(findings, "with a high LogME").verdict == "agrees"


def test_one_score_that_is_planted_to_beat_the_probe_does(findings: Findings) -> None:
    for words in ("chooses better than a probe", "orders encoders better than a probe"):
        found = claim(findings, words)
        assert found.verdict == "agrees"
        assert "the best is LogME, exact" in found.ours
    assert "of 5 scores" in claim(findings, "chooses better than a probe").ours  # NLEEP takes longer than the probe


def test_no_score_beats_a_probe_that_is_better_than_all_of_them() -> None:
    worse = found_in(planted(ridge_squares=0.1, logme=30.0, nleep=30.0, h_score=30.0, gbc=30.0, transrate=30.0))
    for words in ("chooses better than a probe", "orders encoders better than a probe"):
        assert claim(worse, words).verdict == "corrected"


def test_the_shipped_measurements_are_of_all_encoders_that_load_here() -> None:
    measured = study_module(STUDY, "measured").measurements()
    here = {
        card.id
        for card in load_catalogue().values()
        if card.family == "pocket" or str(card.weights.url).startswith("package:")
    }
    assert set(measured.encoders) == here
    assert measured.n_draws >= 20 and len(measured.labels) >= 3 and len(measured.data) == 3
    for cell in measured.cells.values():
        assert all(np.isfinite(one).all() for one in (cell.errors, *cell.scores.values()))
        assert ((cell.errors >= 0) & (cell.errors <= 100)).all()
    assert set(measured.scores) == set(study_module(STUDY, "measured").SCORES)
    assert shipped_findings(STUDY).rows


def test_a_file_with_a_missing_row_is_refused(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    module = study_module(STUDY, "measured")
    text = gzip.decompress((module.HERE / "scores.csv.gz").read_bytes())
    for name in ("provenance.toml", "seconds.csv"):
        (tmp_path / name).write_bytes((module.HERE / name).read_bytes())
    (tmp_path / "scores.csv.gz").write_bytes(gzip.compress(b"\n".join(text.splitlines()[:-1])))
    monkeypatch.setattr(module, "HERE", tmp_path)
    with pytest.raises(ContentError, match="no row of some draw"):
        module.measurements.__wrapped__()
