"""Correlations of bootstrap samples, without ranking any sample anew.

A sample is how often each row is drawn. Pearson's r, Spearman's rho and Kendall's tau-b of the drawn rows are sums
weighted by these counts, so a thousand samples take a few matrix products.

Encoders of one objective are alike, so a bootstrap that draws encoders one by one takes them for more evidence than
they are; :class:`Resampling` draws clusters with all of their encoders, where there are enough of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from ..optional import requires_extra

with requires_extra("study", needed_for="A bootstrap of correlations"):
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

Floats = NDArray[np.float64]
FEWEST_CLUSTERS = 5  # for a bootstrap that draws them; with fewer it draws encoders
N_RESAMPLES = 1_000
ROUNDING = 1e-12  # share of the largest value below which a spread is none
_SHARE = 0.5  # of samples in which a statistic must exist for an interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Resampling:
    """How intervals are made."""

    clusters: pd.Series[str] | None = None  # index: encoders; what is drawn together, such as their objectives
    n_resamples: int = N_RESAMPLES
    seed: int = 0

    def counts(self, rows: pd.Index[str]) -> tuple[Floats, str]:
        """How often each of the rows is drawn, shape (n_resamples, n_rows), and in words what was drawn."""
        if self.clusters is not None:
            of = self.clusters.to_dict()  # reindexing a column of text for every pair of metrics took most of the time
            codes = np.unique([str(of.get(row)) for row in rows], return_inverse=True)[1]
            n_clusters = int(codes.max()) + 1
            if n_clusters >= FEWEST_CLUSTERS:
                return drawn_counts(n_clusters, self.n_resamples, self.seed)[:, codes], f"{n_clusters} clusters"
        return drawn_counts(len(rows), self.n_resamples, self.seed), "encoders"


def pearson(x: Floats, y: Floats, counts: Floats) -> Floats:
    """Pearson's r of each sample; columns of shape (n,) or (n_resamples, n)."""
    total = counts.sum(axis=1, keepdims=True)
    dx, dy = (one - (counts * one).sum(axis=1, keepdims=True) / total for one in (_scaled(x), _scaled(y)))
    variances = (counts * dx * dx).sum(axis=1), (counts * dy * dy).sum(axis=1)
    return _ratio((counts * dx * dy).sum(axis=1), *(np.where(one > ROUNDING, one, 0.0) for one in variances))


def spearman(x: Floats, y: Floats, counts: Floats) -> Floats:
    """Spearman's rho of each sample: ranks are counts of drawn rows below, and half of those that are equal."""
    below = ((one[:, None] < one) + 0.5 * (one[:, None] == one) for one in (x, y))  # (n, n)
    ranks_x, ranks_y = (counts @ one for one in below)  # (n_resamples, n)
    return pearson(ranks_x, ranks_y, counts)


def kendall(x: Floats, y: Floats, counts: Floats, mask: Floats | None = None) -> Floats:
    """Kendall's tau-b of each sample, over the pairs that a mask (n, n) admits; copies of one row are ties."""
    signs = [np.sign(one[:, None] - one) for one in (x, y)]
    if mask is not None:
        signs = [one * mask for one in signs]
    concordant, *untied = (
        ((counts @ one) * counts).sum(axis=1) for one in (signs[0] * signs[1], np.abs(signs[0]), np.abs(signs[1]))
    )
    return _ratio(concordant, *untied)


RESAMPLED: dict[str, Callable[[Floats, Floats, Floats], Floats]] = {
    "Pearson": pearson, "Spearman": spearman, "Kendall": kendall,
}  # fmt: skip


def _scaled(values: Floats) -> Floats:
    scaled: Floats = (values - values.min()) / (np.ptp(values) or 1.0)
    return scaled


def _ratio(numerator: Floats, first: Floats, second: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):  # samples in which a column does not vary are NaN
        found: Floats = np.where(first * second > 0, numerator / np.sqrt(first * second), np.nan)
    return found


def percentiles(spread: Floats) -> tuple[float | None, float | None]:
    """The middle 95 % of a statistic over samples; none if it exists in fewer than half of them."""
    known = spread[np.isfinite(spread)]
    if len(known) < _SHARE * len(spread):
        return None, None
    low, high = np.quantile(known, [0.025, 0.975])
    return float(low), float(high)


@lru_cache(maxsize=32)  # many columns have the same rows
def drawn_counts(n: int, n_resamples: int, seed: int) -> Floats:
    """How often each of n units is drawn, shape (n_resamples, n)."""
    counts = np.random.default_rng(seed).multinomial(n, np.full(n, 1 / n), size=n_resamples).astype(float)
    counts.flags.writeable = False
    return counts
