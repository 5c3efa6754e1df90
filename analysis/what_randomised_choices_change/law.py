"""The scaling law of the randomised encoders beside that of ImageNet, and how much they differ."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from zoo.analysis.columns import Estimate
from zoo.analysis.correlations import Floats, percentiles
from zoo.analysis.randomised_population import DATASET
from zoo.analysis.scaling_law import (
    METHOD,
    N_DECOMPOSITION,
    ScalingLaw,
    fit_scaling_law,
    full_shot_only,
    law_errors,
    law_rows,
    leave_encoder_out,
    r2_estimate,
    residuals,
)
from zoo.analysis.table import StudyTable
from zoo.errors import QueryError
from zoo.results.values import IMAGENET

N_RESAMPLES = 1_000
ALPHA, W = "alpha", "W"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fitted:
    """A law, what it was fitted to, and how well it predicts."""

    dataset: str
    law: ScalingLaw
    rows: pd.DataFrame
    left_out: Estimate  # R2 of each encoder predicted by the law of the others
    full_shot_only: float  # R2 of the same law that knows nothing but the full-shot error

    def misses(self) -> pd.DataFrame:
        """Measured minus predicted by number of labels, the columns of :func:`~zoo.analysis.scaling_law.residuals`."""
        found = residuals(self.law, self.rows)
        return found[found["family"] == "all"].drop(columns="family")

    def mean_curve(self, n: Floats, alpha: float, w: float) -> Floats:
        """The mean error of all encoders with each of some numbers of labels by a law, in percent."""
        encoders = self.rows.drop_duplicates("encoder")
        cells = {name: encoders[name].to_numpy(float)[:, None] for name in ("T", "probe_gen", "enc_gen")}
        errors = law_errors({"n": n, **cells}, alpha=alpha, w=w, n_measured=self.law.n_measured)
        return np.asarray(errors.mean(axis=0))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Laws:
    """Both laws; ImageNet's is None, with the reason, if the table of encoders has too few rows for it."""

    ours: Fitted
    imagenet: Fitted | None
    why_not: str = ""

    def known(self) -> Fitted:
        """ImageNet's law; QueryError if there is none."""
        if self.imagenet is None:
            raise QueryError(self.why_not)
        return self.imagenet

    def each(self) -> list[Fitted]:
        """The laws that there are."""
        return [one for one in (self.ours, self.imagenet) if one is not None]

    def difference(self, name: str) -> Estimate:
        """How much larger a parameter is here than on ImageNet, with encoders of both resampled independently."""
        ours, theirs = self.ours.law, self.known().law
        column = (ALPHA, W).index(name)
        one, other = (law.alpha if name == ALPHA else law.W for law in (ours, theirs))
        low, high = percentiles(ours.draws[:, column] - theirs.draws[:, column])
        return one.described(
            term=f"{name}, {DATASET} minus {IMAGENET}", method=f"{METHOD}, difference", n=one.n + other.n
        ).with_value((one.value or 0.0) - (other.value or 0.0), (low, high))

    def estimates(self) -> Iterator[Estimate]:
        """Parameters, fit, prediction and misses of each law, and the differences."""
        for fitted in self.each():
            law = fitted.law
            for one in (law.alpha, law.W, law.r2, fitted.left_out):
                yield one.described(term=f"{one.term}, {fitted.dataset}")
            for n, count, bias, low, high, _ in fitted.misses().itertuples(index=False):
                yield Estimate(
                    term=f"measured minus predicted, {n:,} labels, {fitted.dataset}",
                    n=count,
                    outcome="error",
                    unit="percentage points",
                    method=METHOD,
                ).with_value(bias, (low, high))
        if self.imagenet is not None:
            yield from (self.difference(name) for name in (ALPHA, W))


def laws_of(rows: pd.DataFrame, n_measured: int, table: StudyTable, *, seed: int = 0) -> Laws:
    """The law of some rows, whose components were measured with so many labels, and that of a table of encoders."""
    ours = _fitted(DATASET, rows, n_measured, seed)
    try:
        return Laws(ours=ours, imagenet=_fitted(IMAGENET, law_rows(table), N_DECOMPOSITION, seed + 1))
    except QueryError as error:
        return Laws(ours=ours, imagenet=None, why_not=str(error))


def _fitted(dataset: str, rows: pd.DataFrame, n_measured: float, seed: int) -> Fitted:
    alone = fit_scaling_law(full_shot_only(rows), n_resamples=0, n_measured=n_measured)
    return Fitted(
        dataset=dataset,
        law=fit_scaling_law(rows, n_resamples=N_RESAMPLES, seed=seed, n_measured=n_measured),
        rows=rows,
        left_out=r2_estimate(
            rows,
            leave_encoder_out(rows, n_measured=n_measured),
            term="R2, each encoder predicted by the law of the others",
            n_resamples=N_RESAMPLES,
            seed=seed,
        ),
        full_shot_only=alone.r2.value or 0.0,
    )
