"""How well scaling laws predict rows that they were not fitted to: the comparison of Table 9.

Beside the laws of the table stands one that it lacks: Eq. 25 with nothing but the full-shot error of an encoder. Eq. 25
knows, of the encoders it is tested on, measurements from which their full-shot error follows; the standard laws know a
group and a number of dimensions. What the components themselves are worth is what Eq. 25 gains over that law.

References
----------
Dubois et al. 2023, Evaluating Self-Supervised Learning via Risk Decomposition, Table 9.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ..optional import requires_extra
from .estimates import Estimate
from .scaling_law import (
    FEWEST_ENCODERS,
    METHOD,
    N_FULL_SHOT,
    encoder_counts,
    explained,
    fit_scaling_law,
    full_shot_only,
    predict,
)
from .standard_laws import STANDARD_LAWS, fit_standard_law, predict_standard
from .threads import one_thread

with requires_extra("study", needed_for="A scaling law"):
    import numpy as np
    import pandas as pd

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Masks = NDArray[np.bool_]  # (n_repeats, n_rows), true where a row is held out

COMPONENT_LAW, FULL_SHOT_LAW = "Eq. 25", "full-shot error alone"
LAWS = (*STANDARD_LAWS, FULL_SHOT_LAW, COMPONENT_LAW)
SPLITS = {  # what is held out
    "iid": "rows (60 % of each encoder's)",
    "2022": "encoders of 2022",
    "contrastive": "contrastive encoders",
    "ViT": "ViTs",
}
_NEEDED = ["year", "ssl_mode", "family", "architecture", "objective", "z_dim"]
_HELD_OUT_SHARE = 0.6


@dataclass(frozen=True, slots=True)
class Score:
    """How well one law predicts the held-out rows of one split."""

    law: str
    split: str
    r2: Estimate  # pooled over rows, averaged over repeats; value None where a held-out group was never seen
    few_shot: float | None  # the same without the full-shot rows
    seen: float | None  # the same on the rows of groups that were seen, which is r2 where all were
    n_seen: int  # those rows, of the first repeat
    lowest: float | None  # of the repeats
    highest: float | None
    lead: Estimate  # r2 of Eq. 25 minus this one, resampling held-out encoders
    unseen: tuple[str, ...]  # groups held out and never seen, of the first repeat
    at_limits: tuple[tuple[str, ...], ...] = ()  # of each repeat of a standard law: limits that its fit ends on


def comparable_rows(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows that every law and split can use: those whose encoder has a year, a size and all groups."""
    return rows.dropna(subset=_NEEDED).reset_index(drop=True)


def held_out(rows: pd.DataFrame, *, n_repeats: int = 5, seed: int = 0) -> dict[str, Masks]:
    """Which rows each split holds out, shape (n_repeats, n_rows); one repeat but for "iid", which is random.

    "iid" holds out 60 % of each encoder's rows, rounded, and leaves at least one.
    """
    random = np.random.default_rng(seed)
    iid = np.zeros((n_repeats, len(rows)), bool)
    for repeat in iid:
        for position in rows.groupby("encoder", sort=False).indices.values():
            count = min(round(_HELD_OUT_SHARE * len(position)), len(position) - 1)
            repeat[random.permutation(position)[:count]] = True
    return {
        "iid": iid,
        "2022": (rows["year"] == 2022).to_numpy(bool)[None],
        "contrastive": (rows["ssl_mode"] == "contrastive").to_numpy(bool)[None],
        "ViT": (rows["family"] == "vit").to_numpy(bool)[None],
    }


def predict_held_out(rows: pd.DataFrame, law: str, held: Masks, *, falls_with_size: bool = True) -> Floats:
    """Errors in percent of the held-out rows by a law of the others, shape (n_held_out,); NaN where it cannot tell."""
    return _held_out(rows, law, held, falls_with_size)[0]


@one_thread()
def compare_laws(
    rows: pd.DataFrame,
    *,
    laws: tuple[str, ...] = LAWS,
    n_repeats: int = 5,
    n_resamples: int = 1000,
    seed: int = 0,
    falls_with_size: bool = True,
    told: Callable[[str, int, int], None] = lambda what, done, total: None,
) -> list[Score]:
    """Every law on every split.

    Parameters
    ----------
    rows : DataFrame
        As :func:`comparable_rows` makes them.
    laws : tuple of str
        Some of :data:`LAWS`; "Eq. 25" is fitted in any case.
    n_repeats : int
        Random splits of "iid".
    n_resamples : int
        Of the held-out encoders, for the 95 % intervals; they say how R2 depends on which encoders it is taken over,
        and not on those that the law was fitted to.
    seed : int
        Of the random splits and the bootstrap.
    falls_with_size : bool
        Whether K of the standard laws must not be negative, as in the paper.
    told : callable
        Told the split that is fitted, how many are done, and of how many.

    Returns
    -------
    list of Score
        By split, then law; a split that leaves too few encoders to fit or no row to predict has no values.
    """
    found = []
    masks = held_out(rows, n_repeats=n_repeats, seed=seed)
    for done, (split, repeats) in enumerate(masks.items()):
        told(f"laws, {split}", done, len(masks))
        if any(held.sum() < 2 or rows[~held]["encoder"].nunique() < FEWEST_ENCODERS for held in repeats):
            found += [_impossible(law, split, int(repeats[0].sum())) for law in laws]
            continue
        results = {
            law: [_held_out(rows, law, held, falls_with_size) for held in repeats]
            for law in dict.fromkeys((*laws, COMPONENT_LAW))
        }
        limits = {law: tuple(at_limits for _, at_limits in found) for law, found in results.items()}
        fitted = {law: [predicted for predicted, _ in found] for law, found in results.items()}
        draws = {law: _draws(rows, repeats, fitted[law], n_resamples, seed) for law in fitted}
        found += [replace(_score(rows, law, split, repeats, fitted, draws), at_limits=limits[law]) for law in laws]
    return found


def r2_estimate(
    rows: pd.DataFrame, predicted: Floats, *, term: str, n_resamples: int = 1000, seed: int = 0
) -> Estimate:
    """R2 of predictions, shape (n_rows,), pooled over the rows, with its 95 % interval over resampled encoders."""
    draws = _draws(rows, np.ones((1, len(rows)), bool), [predicted], n_resamples, seed)
    return _estimate(term, _known(explained(rows["error"], predicted)), draws, len(rows))


def _held_out(
    rows: pd.DataFrame, law: str, held: NDArray[np.bool_], falls_with_size: bool
) -> tuple[Floats, tuple[str, ...]]:
    """Predictions of the held-out rows, and the limits that the fit ends on."""
    train, test = rows[~held], rows[held]
    if law in STANDARD_LAWS:
        fitted = fit_standard_law(train, by=STANDARD_LAWS[law], falls_with_size=falls_with_size)
        return predict_standard(fitted, test), fitted.at_limits
    seen = full_shot_only if law == FULL_SHOT_LAW else pd.DataFrame.copy
    return predict(fit_scaling_law(seen(train), n_resamples=0), seen(test)), ()


def _score(
    rows: pd.DataFrame, law: str, split: str, repeats: Masks, fitted: Mapping[str, list[Floats]],
    draws: Mapping[str, Floats],
) -> Score:  # fmt: skip
    tests = [rows[held] for held in repeats]
    scored = list(zip(tests, fitted[law], strict=True))
    each = [explained(test["error"], predicted) for test, predicted in scored]
    few = [_on(test, predicted, (test["n"] < N_FULL_SHOT).to_numpy()) for test, predicted in scored]
    seen = [_on(test, predicted, ~np.isnan(predicted)) for test, predicted in scored]
    first, predicted = scored[0]
    by = STANDARD_LAWS.get(law)
    unseen = first[by][np.isnan(predicted)].unique() if by else ()
    leads = [
        explained(test["error"], best) - one for test, best, one in zip(tests, fitted[COMPONENT_LAW], each, strict=True)
    ]
    value, (term, term_of_lead) = _known(np.mean(each)), _terms(law, split)
    return Score(
        law=law, split=split, few_shot=_known(np.mean(few)), seen=_known(np.mean(seen)),
        r2=_estimate(term, value, draws[law], len(first), method=method_of(law)),
        n_seen=int((~np.isnan(predicted)).sum()), unseen=tuple(str(group) for group in unseen),
        lowest=_known(min(each)), highest=_known(max(each)),
        lead=_estimate(term_of_lead, _known(np.mean(leads)), draws[COMPONENT_LAW] - draws[law], len(first),
                       method=f"{METHOD}, minus {method_of(law)}"),
    )  # fmt: skip


def _impossible(law: str, split: str, n: int) -> Score:
    methods = (method_of(law), f"{METHOD}, minus {method_of(law)}")
    r2, lead = (
        _estimate(term, None, np.empty(0), n, method=method)
        for term, method in zip(_terms(law, split), methods, strict=True)
    )
    return Score(law=law, split=split, r2=r2, few_shot=None, seen=None, n_seen=0, lowest=None, highest=None, lead=lead,
                 unseen=())  # fmt: skip


def method_of(law: str) -> str:
    """The method of estimates of a law of :data:`LAWS`."""
    if law in STANDARD_LAWS:
        return "standard scaling law"
    return METHOD if law == COMPONENT_LAW else f"scaling law, {law}"


def _terms(law: str, split: str) -> tuple[str, str]:
    return f"R2 of {law}, {split} held out", f"R2 of Eq. 25 minus that of {law}, {split} held out"


def _on(test: pd.DataFrame, predicted: Floats, chosen: NDArray[np.bool_]) -> float:
    return explained(test["error"][chosen], predicted[chosen]) if chosen.sum() > 1 else float("nan")


def _draws(rows: pd.DataFrame, repeats: Masks, fitted: list[Floats], n_resamples: int, seed: int) -> Floats:
    """R2 over resampled held-out encoders, for all repeats one after the other; the same resamples for every law."""
    drawn = []
    for held, predicted in zip(repeats, fitted, strict=True):
        test = rows[held]
        sums = pd.DataFrame({"n": 1.0, "y": test["error"], "yy": test["error"] ** 2})
        sums["missed"] = (test["error"] - predicted) ** 2
        totals = sums.groupby(test["encoder"], sort=False).sum(min_count=1)
        counts = encoder_counts(len(totals), n_resamples=n_resamples, seed=seed)
        n, y, yy, missed = (counts @ totals[name].to_numpy("float64") for name in ("n", "y", "yy", "missed"))
        total = yy - y**2 / n
        drawn.append(1 - np.divide(missed, total, out=np.full(len(n), np.nan), where=total > 1e-6))
    return np.concatenate(drawn)


def _known(value: Any) -> float | None:
    return None if np.isnan(value) else float(value)


def _estimate(term: str, value: float | None, draws: Floats, n: int, *, method: str = METHOD) -> Estimate:
    draws = draws[~np.isnan(draws)]  # resamples in which no error differs from another
    known = value is not None and len(draws) > 0
    low, high = (float(end) for end in np.percentile(draws, [2.5, 97.5])) if known else (None, None)
    note = "" if value is not None else "a held-out group was never seen, or too few rows are held out or left to fit"
    return Estimate(term=term, value=value, ci_low=low, ci_high=high, n=n, unit="share of variance",
                    outcome="error", method=method, note=note)  # fmt: skip
