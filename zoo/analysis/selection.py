"""How well a score chooses among encoders: the order that it gives, and what its choice costs.

A population is a table of true errors, a row a draw of the labels and a column an encoder, and scores of the same
shape, of which higher is better. Two numbers say how good a score is, each a mean over draws:

* its order: Kendall's tau-b of the score and the true accuracy, 1 if both order the encoders alike. A score that gives
  all encoders of a draw the same value tells nothing, and has 0.
* its regret: the true error of the encoder with the highest score less that of the best one, in the unit of the errors.
  Of several with the highest score, it is the mean.

Intervals are over encoders and draws: a resample draws both anew, each with replacement, and every number of it is of
the same encoders and draws, so that differences of two scores are paired, and so are means over several data sets. That
counts what is neither the encoder's nor the draw's more than once (Owen 2007, The Pigeonhole Bootstrap), and the
intervals are rather too wide. The regret of a resample is that among the encoders that it drew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import QueryError
from ..optional import requires_extra
from .columns import Estimate
from .correlations import Floats, drawn_counts, kendall, percentiles

with requires_extra("study", needed_for="A study of scores"):
    import numpy as np

POINTS = "percentage points"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Resamples:
    """How often each encoder and each draw of the labels counts; the first row is everything once."""

    encoders: Floats  # (1 + n_resamples, n_encoders)
    draws: Floats  # (1 + n_resamples, n_draws)


def resamples(n_encoders: int, n_draws: int, *, n_resamples: int, seed: int = 0) -> Resamples:
    """Everything once, and resamples of both."""
    counts = [
        np.concatenate([np.ones((1, n)), drawn_counts(n, n_resamples, 2 * seed + place)])
        for place, n in enumerate((n_encoders, n_draws))
    ]
    return Resamples(encoders=counts[0], draws=counts[1])


def order(scores: Floats, errors: Floats, counts: Resamples) -> Floats:
    """Kendall's tau-b of scores and true accuracies, a mean over draws.

    Parameters
    ----------
    scores, errors : float arrays, shape (n_draws, n_encoders)
        Scores of which higher is better, and true errors, of which lower is.
    counts : Resamples

    Returns
    -------
    float array, shape (1 + n_resamples,)
        In [-1, 1]; the first is of all encoders and draws.

    >>> everything = resamples(3, 1, n_resamples=0)
    >>> order(np.array([[3.0, 2.0, 1.0]]), np.array([[10.0, 20.0, 30.0]]), everything)
    array([1.])
    """
    _require_alike(scores, errors)
    by_draw = np.stack(
        [kendall(score, -error, counts.encoders) for score, error in zip(scores, errors, strict=True)], axis=1
    )
    return _mean(np.nan_to_num(by_draw), counts)


def regret(scores: Floats, errors: Floats, counts: Resamples) -> Floats:
    """The true error of the encoder with the highest score less that of the best one, a mean over draws.

    Parameters and shapes as of :func:`order`; in the unit of the errors, 0 or more, lower is better.

    >>> everything = resamples(3, 1, n_resamples=0)
    >>> regret(np.array([[3.0, 3.0, 1.0]]), np.array([[10.0, 20.0, 30.0]]), everything)  # one of the first two
    array([5.])
    """
    _require_alike(scores, errors)
    is_drawn = counts.encoders > 0  # (1 + n_resamples, n_encoders)
    by_draw = []
    for score, error in zip(scores, errors, strict=True):
        among = np.where(is_drawn, score, -np.inf)
        is_chosen = is_drawn & (among == among.max(axis=1, keepdims=True))
        chosen = (is_chosen * error).sum(axis=1) / is_chosen.sum(axis=1)
        by_draw.append(chosen - np.where(is_drawn, error, np.inf).min(axis=1))
    return _mean(np.stack(by_draw, axis=1), counts)


def estimate_of(values: Floats, label: Estimate) -> Estimate:
    """The first of the values with the middle 95 % of the others, under a label; the interval holds the value."""
    low, high = percentiles(values[1:]) if len(values) > 1 else (None, None)
    if low is None or high is None:
        return label.with_value(values[0])
    return label.with_value(values[0], (min(low, float(values[0])), max(high, float(values[0]))))


def mean_of(values: Sequence[Floats]) -> Floats:
    """The mean over data sets, which are not drawn."""
    return np.asarray(np.mean(values, axis=0))


def _mean(by_draw: Floats, counts: Resamples) -> Floats:
    """Means over draws, each as often as it counts; (1 + n_resamples, n_draws) -> (1 + n_resamples,)."""
    return np.asarray((by_draw * counts.draws).sum(axis=1) / counts.draws.sum(axis=1))


def _require_alike(scores: Floats, errors: Floats) -> None:
    if scores.shape != errors.shape or scores.ndim != 2 or not scores.size:
        raise QueryError(
            f"The scores have the shape {scores.shape} and the errors {errors.shape}; expected one of each for every "
            "draw and encoder."
        )
    if not (np.isfinite(scores).all() and np.isfinite(errors).all()):
        raise QueryError("A score or an error is not a finite number; expected one for every draw and encoder.")
