"""Groups and copies among rows: neither votes for itself nor is held out alone, and intervals are over groups."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.planted_features import GridProbe, features, gaussian_pair, planted_groups
from zoo.evaluation.measuring import label_setting, measure_seeds
from zoo.evaluation.neighbours import NeighbourProbe
from zoo.evaluation.risk import decompose
from zoo.evaluation.streamed_training import keep_groups_together


def test_votes_without_the_own_group_are_those_of_all_other_rows() -> None:
    train = planted_groups(2, n=80)
    groups = train.groups
    assert groups is not None
    found = NeighbourProbe(k=(1, 5)).fit(train.x, train.y, groups=groups).report_["errors_percent"]
    for k in (1, 5):
        wrong = 0
        for row in range(len(train)):
            others = groups != groups[row]
            vote = NeighbourProbe(k=k).fit(np.asarray(train.x)[others], train.y[others])
            wrong += int(vote.predict(np.asarray(train.x)[row : row + 1])[0] != train.y[row])
        assert found[str(k)] == pytest.approx(100 * wrong / len(train))


def test_errors_of_probes_have_intervals_over_groups() -> None:
    train, test = planted_groups(0), planted_groups(1, n=80, part="val")
    full = label_setting("full")
    grouped = measure_seeds(train, test, full, probe=GridProbe, n_seeds=1).error
    alone = measure_seeds(replace(train, groups=None), replace(test, groups=None), full, probe=GridProbe, n_seeds=1)
    widths = [float(one.ci_high or 0) - float(one.ci_low or 0) for one in (grouped, alone.error)]
    assert widths[0] > 1.3 * widths[1] > 0


class NearestCopy(GridProbe):
    """Knows an image that it has seen, and nothing else."""

    def fit(self, x: object, y: object, *, x_val: object = None, y_val: object = None) -> NearestCopy:
        self.seen = {row.tobytes(): label for row, label in zip(np.asarray(x), np.asarray(y), strict=True)}
        self.report_ = {}
        return self

    def refit(self, x: object, y: object) -> NearestCopy:
        return self.fit(x, y)

    def predict(self, x: object) -> object:
        return np.array([self.seen.get(row.tobytes(), 0) for row in np.asarray(x)])


def test_no_held_out_subset_has_a_copy_of_what_its_probe_is_trained_on() -> None:
    train, test = gaussian_pair(n_train=240, n_test=60)
    twice = np.arange(240) // 8 * 4 + np.arange(240) % 4  # rows i and i + 4 are one image
    doubled = features(np.asarray(train.x)[twice], train.y[twice])
    memory = decompose(doubled, test, probe=NearestCopy, n_bootstrap=100)
    known = replace(doubled, contents=twice.astype(np.uint64))
    honest = decompose(known, test, probe=NearestCopy, n_bootstrap=100)
    assert memory.risks["R_AS"].error.value < 25 < 45 < honest.risks["R_AS"].error.value


def test_probes_that_hold_out_rows_by_themselves_keep_copies_together() -> None:
    y, groups = np.arange(60) % 3, (np.arange(60) // 6 * 3 + np.arange(60) % 3).astype(np.uint64)  # all twice
    out = keep_groups_together(np.arange(0, 60, 7), y, groups)
    assert len(out) and not np.isin(groups[np.setdiff1d(np.arange(60), out)], groups[out]).any()
