"""How well scaling laws predict held-out rows: the comparison of Table 9 of Dubois et al. 2023."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from zoo.analysis.columns import Estimate
from zoo.analysis.scaling_law import (
    FEWEST_ENCODERS,
    METHOD,
    N_FULL_SHOT,
    Floats,
    Masks,
    compute_r2,
    draw_r2,
    fit_scaling_law,
    make_r2_estimate,
    predict,
    reduce_to_full_shot,
)
from zoo.analysis.table import limit_to_one_thread

from .standard_laws import STANDARD_LAWS, fit_standard_law, predict_standard

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


def select_comparable_rows(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows that every law and split can use: those whose encoder has a year, a size and all groups."""
    return rows.dropna(subset=_NEEDED).reset_index(drop=True)


def draw_held_out_rows(rows: pd.DataFrame, *, n_repeats: int = 5, seed: int = 0) -> dict[str, Masks]:
    """Which rows each split holds out, shape (n_repeats, n_rows); "iid" is 60 % of each encoder's rows at random."""
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


@limit_to_one_thread()
def compare_laws(
    rows: pd.DataFrame,
    *,
    laws: tuple[str, ...] = LAWS,
    n_repeats: int = 5,
    n_resamples: int = 1000,
    seed: int = 0,
    falls_with_size: bool = True,
    progress: Callable[[str, int, int], None] = lambda what, done, total: None,
) -> list[Score]:
    """Every law on every split of :func:`select_comparable_rows`, by split, then law; "Eq. 25" is fitted in any case.

    "iid" is split at random ``n_repeats`` times; ``n_resamples`` of the held-out encoders give 95 % intervals.
    ``falls_with_size`` keeps K of the standard laws from being negative, as in the paper. A split that leaves too few
    encoders has no values.
    """
    scores = []
    masks = draw_held_out_rows(rows, n_repeats=n_repeats, seed=seed)
    for done, (split, repeats) in enumerate(masks.items()):
        progress(f"laws, {split}", done, len(masks))
        if any(held.sum() < 2 or rows[~held]["encoder"].nunique() < FEWEST_ENCODERS for held in repeats):
            scores += [_impossible(law, split, int(repeats[0].sum())) for law in laws]
            continue
        results = {
            law: [predict_held_out(rows, law, held, falls_with_size=falls_with_size) for held in repeats]
            for law in dict.fromkeys((*laws, COMPONENT_LAW))
        }
        limits = {law: tuple(at_limits for _, at_limits in scores) for law, scores in results.items()}
        fitted = {law: [predicted for predicted, _ in scores] for law, scores in results.items()}
        draws = {law: draw_r2(rows, repeats, fitted[law], n_resamples, seed) for law in fitted}
        scores += [replace(_score(rows, law, split, repeats, fitted, draws), at_limits=limits[law]) for law in laws]
    return scores


def predict_held_out(
    rows: pd.DataFrame, law: str, held: NDArray[np.bool_], *, falls_with_size: bool = True
) -> tuple[Floats, tuple[str, ...]]:
    """Errors in percent of the held-out rows by a law of the others, NaN where unknown; and the limits of the fit."""
    train, test = rows[~held], rows[held]
    if law in STANDARD_LAWS:
        fitted = fit_standard_law(train, by=STANDARD_LAWS[law], falls_with_size=falls_with_size)
        return predict_standard(fitted, test), fitted.at_limits
    seen = reduce_to_full_shot if law == FULL_SHOT_LAW else pd.DataFrame.copy
    return predict(fit_scaling_law(seen(train), n_resamples=0), seen(test)), ()


def _score(
    rows: pd.DataFrame,
    law: str,
    split: str,
    repeats: Masks,
    fitted: Mapping[str, list[Floats]],
    draws: Mapping[str, Floats],
) -> Score:
    tests = [rows[held] for held in repeats]
    scored = list(zip(tests, fitted[law], strict=True))
    each = [compute_r2(test["error"], predicted) for test, predicted in scored]
    few = [_on(test, predicted, (test["n"] < N_FULL_SHOT).to_numpy()) for test, predicted in scored]
    seen = [_on(test, predicted, ~np.isnan(predicted)) for test, predicted in scored]
    first, predicted = scored[0]
    by = STANDARD_LAWS.get(law)
    unseen = first[by][np.isnan(predicted)].unique() if by else ()
    leads = [
        compute_r2(test["error"], best) - one
        for test, best, one in zip(tests, fitted[COMPONENT_LAW], each, strict=True)
    ]
    term, term_of_lead = _terms(law, split)
    return Score(
        law=law,
        split=split,
        few_shot=_known(np.mean(few)),
        seen=_known(np.mean(seen)),
        r2=make_r2_estimate(term, float(np.mean(each)), draws[law], len(first), method=describe_law_method(law)),
        n_seen=int((~np.isnan(predicted)).sum()),
        unseen=tuple(str(group) for group in unseen),
        lowest=_known(min(each)),
        highest=_known(max(each)),
        lead=make_r2_estimate(
            term_of_lead,
            float(np.mean(leads)),
            draws[COMPONENT_LAW] - draws[law],
            len(first),
            method=f"{METHOD}, minus {describe_law_method(law)}",
        ),
    )


def _impossible(law: str, split: str, n: int) -> Score:
    methods = (describe_law_method(law), f"{METHOD}, minus {describe_law_method(law)}")
    r2, lead = (
        make_r2_estimate(term, np.nan, np.empty(0), n, method=method)
        for term, method in zip(_terms(law, split), methods, strict=True)
    )
    return Score(
        law=law, split=split, r2=r2, few_shot=None, seen=None, n_seen=0, lowest=None, highest=None, lead=lead, unseen=()
    )


def describe_law_method(law: str) -> str:
    """The method of estimates of a law of :data:`LAWS`."""
    if law in STANDARD_LAWS:
        return "standard scaling law"
    return METHOD if law == COMPONENT_LAW else f"scaling law, {law}"


def _terms(law: str, split: str) -> tuple[str, str]:
    return f"R2 of {law}, {split} held out", f"R2 of Eq. 25 minus that of {law}, {split} held out"


def _on(test: pd.DataFrame, predicted: Floats, chosen: NDArray[np.bool_]) -> float:
    return compute_r2(test["error"][chosen], predicted[chosen]) if chosen.sum() > 1 else float("nan")


def _known(value: Any) -> float | None:
    return None if np.isnan(value) else float(value)
