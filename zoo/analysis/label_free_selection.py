"""What choosing an encoder by a metric costs: the accuracy that it recovers of what choosing by labels would give.

In every group of encoders that differ in one choice, the metric picks the one that it holds to be best, and the oracle
the most accurate one. *Regret* is what the pick lacks. A pick at random lacks something too, the mean of the group, so
the *gain recovered* is the share of the way from there to the oracle: 0 is no better than chance, 1 is the oracle's.

An encoder that the metric cannot tell from another is picked as often as that one: the expected accuracy counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import QueryError
from ..optional import requires_extra
from .estimates import Estimate
from .populations import FEWEST
from .resampled_correlations import Floats, Resampling, drawn_counts, percentiles

with requires_extra("study", needed_for="Choosing encoders by a metric"):
    import numpy as np
    import pandas as pd

ACCURACY, ORACLE, CHANCE = "accuracy recovered", "accuracy of the oracle's choice", "accuracy of a choice at random"
REGRET, GAIN = "regret", "gain recovered"
OUTCOMES = {ACCURACY: "percent", ORACLE: "percent", CHANCE: "percent", REGRET: "percentage points", GAIN: "share"}
FEWEST_GROUPS = 8  # for an interval by drawing groups: with 8 it covers 87 %, with 3 only 67 %
_SAME = 1e-9  # percentage points of a gain below which there is nothing to gain


@dataclass(frozen=True, slots=True, kw_only=True)
class Pick:
    """What a metric picks in one group."""

    group: str
    n: int
    chosen: tuple[str, ...]  # several if the metric cannot tell them apart
    accuracy: float  # percent, of the pick; the mean over ties
    best: str  # the oracle's, the first of several
    oracle: float  # percent
    chance: float  # percent, mean of the group

    @property
    def regret(self) -> float:
        """Percentage points that the pick lacks."""
        return self.oracle - self.accuracy


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What one metric recovers, over all groups of a kind."""

    metric: str
    picks: tuple[Pick, ...]
    n_singles: int  # encoders that are alone in their group and so were left out
    estimates: tuple[Estimate, ...]  # of the OUTCOMES, in their order

    @property
    def n_ties(self) -> int:
        """Groups in which the metric holds several encoders to be best."""
        return sum(len(pick.chosen) > 1 for pick in self.picks)

    def estimate(self, outcome: str) -> Estimate:
        """One of the estimates, by its outcome."""
        return self.estimates[list(OUTCOMES).index(outcome)]


def selections(
    predictors: pd.DataFrame, accuracy: pd.Series[float], groups: pd.Series[str], *, population: str, of: str,
    resampling: Resampling | None = None,
) -> list[Selection]:  # fmt: skip
    """What each predictor recovers, over groups of encoders.

    Parameters
    ----------
    predictors : DataFrame, index: encoders
        More is better.
    accuracy : Series of float
        In percent.
    groups : Series of str
        Group of each encoder; those that are not in it take no part.
    of : str
        What sets the members of a group apart, in words: "epochs".

    Returns
    -------
    list of Selection
        One a predictor that ranks encoders of some group. Each estimate is the mean over groups, and the gain their
        gains added up over what could be gained. Intervals draw groups; with two there are none. Of a single group of
        at least 5, the bootstrap draws encoders, or clusters of them, and chooses anew; as no draw has a better
        encoder than all of them, such an interval ends at the oracle's accuracy, and is rough.
    """
    settings = resampling or Resampling()
    found = []
    for name in predictors:
        rows = pd.DataFrame({"x": predictors[name], "y": accuracy, "group": groups.reindex(accuracy.index)}).dropna()
        rows = rows.sort_index()  # the bootstrap draws places
        sizes = rows.groupby("group")["group"].transform("size")
        rows, n_singles = rows[sizes > 1], int((sizes == 1).sum())
        if rows.empty:
            continue
        picks = tuple(_pick(str(group), own) for group, own in rows.groupby("group", sort=True))
        spread, drawn = _spread(rows, picks, settings)
        method = f"selection by {of}, {population}, {drawn}"
        found.append(_selection(str(name), picks, n_singles, spread, method=method))
    return found


def overall_selections(
    predictors: pd.DataFrame, accuracy: pd.Series[float], *, population: str, resampling: Resampling | None = None
) -> list[Selection]:
    """What each predictor recovers if it chooses one encoder of all; see :func:`selections`."""
    everybody = pd.Series("everybody", index=accuracy.index)
    return selections(predictors, accuracy, everybody, population=population, of="whatever sets them apart",
                      resampling=resampling)  # fmt: skip


def pooled(found: Sequence[Selection], *, of: str, population: str, resampling: Resampling | None = None) -> Selection:
    """One metric's picks over the groups of several choices, as one selection.

    Parameters
    ----------
    found : sequence of Selection
        Of the same metric, one a choice.

    Raises
    ------
    QueryError
        If there are none, or they are of several metrics.
    """
    if len({one.metric for one in found}) != 1:
        raise QueryError(f"Got selections of {len({one.metric for one in found})} metrics to pool, expected one.")
    settings = resampling or Resampling()
    picks = tuple(pick for one in found for pick in one.picks)
    spread = _of_groups(_triples(picks), settings)
    return _selection(
        found[0].metric, picks, sum(one.n_singles for one in found), spread,
        method=f"selection by {of}, {population}, {'bootstrap over groups' if spread else 'no interval'}",
    )  # fmt: skip


def _selection(
    metric: str, picks: tuple[Pick, ...], n_singles: int, spread: dict[str, Floats] | None, *, method: str
) -> Selection:
    ties = sum(len(pick.chosen) > 1 for pick in picks)
    note = f"{len(picks)} group{'s' * (len(picks) != 1)}" + (f", {ties} with ties" if ties else "")
    label = Estimate(term=metric, value=None, n=sum(pick.n for pick in picks), unit="", note=note, method=method)
    totals = _outcomes(_triples(picks).mean(axis=0)[None])
    estimates = (_estimate(label, one, totals[one], spread[one] if spread else None) for one in OUTCOMES)
    return Selection(metric=metric, picks=picks, n_singles=n_singles, estimates=tuple(estimates))


def _triples(picks: Sequence[Pick]) -> Floats:
    return np.array([[pick.accuracy, pick.oracle, pick.chance] for pick in picks])  # (n_groups, 3)


def _pick(group: str, rows: pd.DataFrame) -> Pick:
    chosen = rows[rows["x"] == rows["x"].max()]
    return Pick(
        group=group, n=len(rows), chosen=tuple(map(str, chosen.index)), accuracy=float(chosen["y"].mean()),
        best=str(rows["y"].idxmax()), oracle=float(rows["y"].max()), chance=float(rows["y"].mean()),
    )  # fmt: skip


def _outcomes(triples: Floats) -> dict[str, Floats]:
    """By outcome, of mean accuracies (n, 3) of the pick, the oracle's and one at random; no gain where none can be."""
    accuracy, oracle, chance = triples.T
    possible = oracle - chance
    gain = np.where(possible > _SAME, (accuracy - chance) / np.where(possible > _SAME, possible, 1.0), np.nan)
    return {ACCURACY: accuracy, ORACLE: oracle, CHANCE: chance, REGRET: oracle - accuracy, GAIN: gain}


def _spread(rows: pd.DataFrame, picks: Sequence[Pick], settings: Resampling) -> tuple[dict[str, Floats] | None, str]:
    if len(picks) > 1:
        spread = _of_groups(_triples(picks), settings)
        return spread, "bootstrap over groups" if spread else "no interval"
    if len(rows) < FEWEST:
        return None, "no interval"
    counts, drawn = settings.counts(rows.index)
    return _outcomes(_chosen_anew(rows["x"].to_numpy(dtype=float), rows["y"].to_numpy(dtype=float), counts)), (
        f"bootstrap over {drawn}"
    )


def _of_groups(triples: Floats, settings: Resampling) -> dict[str, Floats] | None:
    if len(triples) < FEWEST_GROUPS:
        return None
    counts = drawn_counts(len(triples), settings.n_resamples, settings.seed)
    return _outcomes(counts @ triples / len(triples))


def _chosen_anew(x: Floats, y: Floats, counts: Floats) -> Floats:
    """Accuracies of the pick, the oracle's and one at random in each sample of encoders, (n_resamples, 3)."""
    drawn = counts > 0
    best = np.where(drawn, x, -np.inf).max(axis=1, keepdims=True)
    tied = counts * (x == best)
    return np.column_stack(
        [(tied @ y) / tied.sum(axis=1), np.where(drawn, y, -np.inf).max(axis=1), (counts @ y) / counts.sum(axis=1)]
    )


def _estimate(label: Estimate, outcome: str, whole: Floats, spread: Floats | None) -> Estimate:
    value = float(whole[0])
    low, high = (None, None) if spread is None else percentiles(spread)
    known = bool(np.isfinite(value))
    return label.described(
        outcome=outcome, unit=OUTCOMES[outcome], value=value if known else None, ci_low=low if known else None,
        ci_high=high if known else None,
        note=label.note if known else f"{label.note}; all encoders of a group are equally accurate",
    )  # fmt: skip
