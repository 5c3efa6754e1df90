"""AUROC and average precision of weighted images: of many draws of a bootstrap at once, from one sort of the scores.

Both depend on the order of the scores alone. Sorted from the highest to the lowest, sums of weights down to each
threshold give them for every draw: images with the same score share a threshold, as scikit-learn has it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..optional import require_extra

with require_extra("evaluate", needed_for="A metric of predictions"):
    import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RankingMetrics:
    """Shares from 0 to 1 for each draw, and the weights of positives and negatives; all float64 (n_draws,)."""

    auroc: Floats
    average_precision: Floats
    positives: Floats
    negatives: Floats


class ScoreRanking:
    """The order of the scores of one class, whose positives are some of the images and at least one, but not all.

    >>> ranking = ScoreRanking(np.array([0.9, 0.8, 0.3, 0.1]), np.array([True, False, True, False]))
    >>> drawn = ranking.of(np.ones((4, 1)))
    >>> drawn.auroc.tolist(), drawn.average_precision.round(4).tolist()
    ([0.75], [0.8333])
    """

    def __init__(self, scores: Floats, positive: NDArray[np.bool_]) -> None:
        self._order = np.argsort(-scores, kind="stable")
        ordered, is_positive = scores[self._order], positive[self._order]
        threshold = np.concatenate([[0], np.cumsum(ordered[1:] != ordered[:-1])])  # number of the one of each image
        last = np.append(np.flatnonzero(threshold[1:] != threshold[:-1]), len(scores) - 1)
        self._positives = self._order[is_positive]
        with_positives, self._starts = np.unique(threshold[is_positive], return_index=True)
        self._last = last[with_positives]  # place of the last image of each threshold that has positives
        self._before = np.where(with_positives > 0, last[with_positives - 1], -1)

    def of(self, weights: Floats) -> RankingMetrics:
        """Of images with these weights, (n, n_draws)."""
        sums = np.cumsum(weights[self._order], axis=0)
        found = np.add.reduceat(weights[self._positives], self._starts, axis=0)  # positives at each threshold
        true = np.cumsum(found, axis=0)
        down_to, above = sums[self._last], np.where(self._before[:, None] < 0, 0.0, sums[self._before])
        false, false_above = down_to - true, above - (true - found)
        positives, negatives = true[-1], sums[-1] - true[-1]
        beaten = (found * (false_above + false)).sum(axis=0) / 2  # pairs in which the negative has the higher score
        return RankingMetrics(
            auroc=np.clip(1 - beaten / (positives * negatives), 0, 1),
            average_precision=np.clip((found * (true / down_to)).sum(axis=0) / positives, 0, 1),
            positives=positives,
            negatives=negatives,
        )
