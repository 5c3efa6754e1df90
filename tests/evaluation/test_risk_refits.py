"""Intervals of the decomposition with probes that are trained again, and probes that disagree."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cli_runner import document, run
from tests.each import for_each
from tests.planted_features import GridProbe, features, gaussian_pair
from zoo.errors import QueryError
from zoo.evaluation.bootstrap import build_outcome_table, compute_disagreement_p
from zoo.evaluation.measuring import ProbeCache
from zoo.evaluation.risk import LEVEL, RiskReport, decompose
from zoo.features import Features

PARTS = ("approximation_plus_usability", "probe_generalization", "encoder_generalization", "full_shot_error")


class Least(GridProbe):
    """Least squares on one-hot labels: quick, and of XOR no better determined than any linear probe."""

    def fit(self, x: Any, y: Any, *, x_val: Any = None, y_val: Any = None) -> Least:
        self.report_ = {}
        return self.refit(x, y)

    def refit(self, x: Any, y: Any) -> Least:
        wide = np.column_stack([np.asarray(x, float), np.ones(len(y))])
        self.weights = np.linalg.lstsq(wide, np.eye(int(y.max()) + 1)[np.asarray(y)], rcond=None)[0]
        return self

    def predict(self, x: Any) -> Any:
        return (np.column_stack([np.asarray(x, float), np.ones(len(x))]) @ self.weights).argmax(axis=1)


def xor_pair(seed: int, *, n_train: int = 160, n_test: int = 50) -> tuple[Features, Features]:
    """Two classes, each around two opposite corners of a square."""
    random = np.random.default_rng([7, seed])
    corners = np.array([[1, 1], [-1, -1], [1, -1], [-1, 1]], float)
    made = []
    for split, n in (("train", n_train), ("val", n_test)):
        corner = random.integers(4, size=n)
        x = corners[corner] + 0.4 * random.normal(size=(n, 2))
        made.append(features(x, corner // 2, split=split, images_hash=f"{split} {seed}"))
    return made[0], made[1]


def covered(reports: list[RiskReport], truth: dict[str, float], *, refitted: bool) -> dict[str, float]:
    found = {}
    for part in PARTS:
        intervals = [(report.refit if refitted else report).intervals[part] for report in reports]  # type: ignore[union-attr]
        found[part] = float(np.mean([one.ci_low <= truth[part] <= one.ci_high for one in intervals]))  # type: ignore[operator]
    return found


def test_where_probes_are_unstable_refits_hold_the_truth_and_the_probes_alone_do_not() -> None:
    fast: Any = {"probe": Least, "n_bootstrap": 100, "n_subsets": 2}
    reports = [decompose(*xor_pair(seed), n_refits=8, **fast) for seed in range(30)]
    others = [decompose(*xor_pair(seed), **fast) for seed in range(1000, 1100)]
    truth = {part: float(np.mean([report.intervals[part].value for report in others])) for part in PARTS}
    given, again = (covered(reports, truth, refitted=refitted) for refitted in (False, True))
    assert given["approximation_plus_usability"] < 0.75, given
    assert min(again.values()) > 0.8, again  # of 95 %, 24 of 30 or fewer come by chance once in 300 times


def test_refits_are_no_wider_for_two_subsets_that_tell_little_of_how_probes_differ() -> None:
    fast: Any = {"probe": Least, "n_bootstrap": 100, "n_subsets": 2}
    reports = [decompose(*xor_pair(seed), n_refits=8, **fast) for seed in range(20)]
    others = [decompose(*xor_pair(seed), **fast) for seed in range(1000, 1100)]
    for part in ("probe_generalization", "encoder_generalization"):
        intervals = [report.refit.intervals[part] for report in reports]  # type: ignore[union-attr]
        width = np.mean([one.ci_high - one.ci_low for one in intervals])  # type: ignore[operator]
        spread = np.std([report.intervals[part].value for report in others])
        assert width < 1.7 * 3.92 * spread, part  # Student's t of 8 is 1.2 times the normal; it was more than twice


def test_an_interval_with_refits_is_around_the_measured_value_and_of_one_probe_never_the_narrower() -> None:
    report = decompose(*gaussian_pair(), probe=Least, supervised=2.0, n_refits=6)
    assert report.refit is not None and report.refit.n == 6
    for part in PARTS:
        one, wide = report.intervals[part], report.refit.intervals[part]
        assert wide.value == one.value and wide.ci_low < one.value < wide.ci_high  # type: ignore[operator]
        if part in ("approximation_plus_usability", "full_shot_error"):
            assert wide.ci_low <= one.ci_low and one.ci_high <= wide.ci_high  # type: ignore[operator]
        assert len(report.refit.replicates[part]) == 6
    assert report.refit.intervals["approximation"].ci_low is None  # it was recorded, without an interval
    total = sum(report.refit.replicates[part] for part in PARTS[:3])
    assert np.allclose(total, report.refit.replicates["full_shot_error"])
    plain = decompose(*gaussian_pair(), probe=Least, supervised=2.0)
    assert plain.intervals == report.intervals and plain.refit is None


def test_a_twin_and_the_alternative_order_are_refitted_too() -> None:
    train, test = gaussian_pair()
    twin = features(np.asarray(train.x) + 1, train.y, encoder="twin", weights_hash="v")
    report = decompose(train, test, probe=Least, supervised=twin, order="alternative", n_refits=5)
    assert report.refit is not None and report.refit.replicates["approximation"].std() > 0
    assert report.refit.intervals["usability"].value == report.intervals["usability"].value


def test_no_image_of_a_resample_is_on_both_sides_of_what_is_held_out() -> None:
    seen: list[tuple[set[float], set[float]]] = []

    class Watched(Least):
        def fit(self, x: Any, y: Any, *, x_val: Any = None, y_val: Any = None) -> Watched:
            seen.append((set(np.asarray(x)[:, 0].tolist()), set(np.asarray(x_val)[:, 0].tolist())))
            super().fit(x, y)
            return self

    train, test = gaussian_pair(n_train=120, n_test=32)
    decompose(train, test, probe=Watched, n_subsets=2, n_refits=5)
    of_refits = [one for one in seen[4:] if one[0] != one[1]]  # R_AF is trained and tuned on the same images
    assert len(of_refits) == 15
    assert all(not chosen & tuning for chosen, tuning in of_refits)
    assert all(len(chosen | tuning) < 90 for chosen, tuning in of_refits)  # 63 % of 120, and none of them twice


def test_refits_that_were_stopped_go_on_where_they_were(tmp_path: Path) -> None:
    pair, n_made = gaussian_pair(), 0

    class Dying(Least):
        def __init__(self) -> None:
            nonlocal n_made
            n_made += 1
            if n_made == 12:
                raise KeyboardInterrupt
            super().__init__()

    with pytest.raises(KeyboardInterrupt):
        decompose(*pair, probe=Dying, n_refits=5, cache=ProbeCache(tmp_path, protocol="least-1"))
    kept = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert len(kept) == 11
    told: list[str] = []
    resumed = decompose(
        *pair, probe=Least, n_refits=5, cache=ProbeCache(tmp_path, protocol="least-1"), progress=told.append
    )
    assert {path: path.stat().st_mtime_ns for path in kept} == kept and "refit 5 of 5: R_AS" in told
    whole = decompose(*pair, probe=Least, n_refits=5)
    assert resumed.refit is not None and whole.refit is not None
    assert resumed.refit.intervals == whole.refit.intervals


@for_each([1, 4, -1])
def test_too_few_refits_are_refused(n: int) -> None:
    with pytest.raises(QueryError, match=f"Asked for {n} refits; expected at least 5"):
        decompose(*gaussian_pair(), probe=Least, n_refits=n)


def test_stable_probes_are_said_to_disagree_as_rarely_as_is_stated() -> None:
    random, n_repeats, said = np.random.default_rng(3), 2000, 0
    for _ in range(n_repeats):
        wrong = random.random(600) < 0.2  # which images are hard does not depend on the probe
        evaluated = []
        for _ in range(3):
            subset = random.choice(600, 150, replace=False)
            own = np.where(random.random(150) < 0.5, wrong[subset], random.random(150) < 0.2)
            evaluated.append((np.sort(subset), ~own))
        said += compute_disagreement_p(build_outcome_table(600, evaluated)) < LEVEL
    assert 0.003 * n_repeats <= said <= 0.02 * n_repeats, said


def test_the_command_shows_both_intervals_and_keeps_the_rows_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZOO_HOME", str(tmp_path / "home"))
    images = "shapes:classes=3,train=60,val=18,size_px=16"
    quick = ("--decompose", "--subsets", "2", "--set", "Cs=3")
    arguments = ("pocket_simclr_rn_shapes", images, "--settings", "full", "--no-knn", *quick)
    (plain,) = document("evaluate", *arguments)["evaluations"]
    text = run("evaluate", *arguments).output
    assert "given these probes" in text and "--refit" in text and plain["decomposition"]["refit"] is None
    (again,) = document("evaluate", *arguments, "--refit", "5")["evaluations"]
    assert (again["recorded"]["new"], again["recorded"]["known"]) == (0, plain["recorded"]["new"])
    assert again["decomposition"]["parts"] == plain["decomposition"]["parts"]
    refit = again["decomposition"]["refit"]
    assert refit["n"] == 5 and refit["full_shot_error"]["value"] == plain["decomposition"]["full_shot_error"]["value"]
    assert "with refits" in run("evaluate", *arguments, "--refit", "5").output
    folders = {one["part"]: one["folder"] for one in document("features", *arguments[:2])["features"]}
    alone = document("decompose", folders["train"], folders["val"], *quick[1:], "--refit", "5")
    assert alone["refit"] == refit
