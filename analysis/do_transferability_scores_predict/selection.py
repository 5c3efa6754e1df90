"""How well a score selects: its order of encoders, and the regret of the one that it chooses.

Scores and true errors are (n_draws, n_encoders), and a resample draws encoders and draws anew (Owen 2007, The
Pigeonhole Bootstrap), so that differences are paired.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from zoo.analysis.correlations import Floats, compute_kendall, draw_counts


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Resamples:
    """How often each encoder and each draw of the labels counts; the first row is everything once."""

    encoders: Floats  # (1 + n_resamples, n_encoders)
    draws: Floats  # (1 + n_resamples, n_draws)


def draw_resamples(n_encoders: int, n_draws: int, *, n_resamples: int, seed: int = 0) -> Resamples:
    """Everything once, and resamples of both."""
    counts = [
        np.concatenate([np.ones((1, n)), draw_counts(n, n_resamples, 2 * seed + place)])
        for place, n in enumerate((n_encoders, n_draws))
    ]
    return Resamples(encoders=counts[0], draws=counts[1])


def order(scores: Floats, errors: Floats, counts: Resamples) -> Floats:
    """Kendall's tau-b of scores and true accuracies, a mean over draws; shape (1 + n_resamples,), in [-1, 1].

    A score that gives all encoders the same value has 0. The first value is of all encoders and draws.

    >>> everything = draw_resamples(3, 1, n_resamples=0)
    >>> order(np.array([[3.0, 2.0, 1.0]]), np.array([[10.0, 20.0, 30.0]]), everything)
    array([1.])
    """
    by_draw = np.stack(
        [compute_kendall(score, -error, counts.encoders) for score, error in zip(scores, errors, strict=True)], axis=1
    )
    return _mean_over_draws(np.nan_to_num(by_draw), counts)


def compute_regret(scores: Floats, errors: Floats, counts: Resamples) -> Floats:
    """The true error of the encoder with the highest score less that of the best one, a mean over draws.

    Parameters and shapes as of :func:`order`; in the unit of the errors, 0 or more, lower is better.

    >>> everything = draw_resamples(3, 1, n_resamples=0)
    >>> compute_regret(np.array([[3.0, 3.0, 1.0]]), np.array([[10.0, 20.0, 30.0]]), everything)  # one of the first two
    array([5.])
    """
    is_drawn = counts.encoders > 0  # (1 + n_resamples, n_encoders)
    by_draw = []
    for score, error in zip(scores, errors, strict=True):
        among = np.where(is_drawn, score, -np.inf)
        is_chosen = is_drawn & (among == among.max(axis=1, keepdims=True))
        chosen = (is_chosen * error).sum(axis=1) / is_chosen.sum(axis=1)
        by_draw.append(chosen - np.where(is_drawn, error, np.inf).min(axis=1))
    return _mean_over_draws(np.stack(by_draw, axis=1), counts)


def average_data_sets(values: Sequence[Floats]) -> Floats:
    """The mean over data sets, which are not drawn."""
    return np.asarray(np.mean(values, axis=0))


def _mean_over_draws(by_draw: Floats, counts: Resamples) -> Floats:
    """Means over draws, each as often as it counts; (1 + n_resamples, n_draws) -> (1 + n_resamples,)."""
    return np.asarray((by_draw * counts.draws).sum(axis=1) / counts.draws.sum(axis=1))
