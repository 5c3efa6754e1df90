"""Which error to expect of an encoder with fewer labels, from its own risk components and its full-shot error.

The scaling law (:mod:`.scaling_law`) has an alpha and a W that were fitted to the published encoders on ImageNet-1K.
With an encoder's components, measured with N labels of any data set, it gives the error with n labels. Calibrated is
that curve moved up or down so that it meets the full-shot error that was measured: R_AS was measured with fewer labels
than R_US, and what the probe gained by the rest was taken for the encoder's generalization.

The 95 % interval has three sources: the bootstrap draws of the components (which images, which seeds), those of alpha
and W (which encoders were published), and how far calibrated predictions lie from measurements. For that each published
encoder is predicted by the law of all others; what is missed is taken at the same ratio of full-shot labels to labels,
linear in its logarithm between the published settings, of a random encoder a draw. The interval is not centred on the
prediction, for the law as a whole is some points too low with 3 labels a class and too high with 30.

How often the last part alone holds a published encoder that it was not made from, over 167 encoders with every setting:
93 to 94 % in each few-shot setting leaving one encoder out, 92 to 95 % leaving out all of its objective, of its
architecture or of its year (nominal: 95 %). The mean absolute miss is 3.0 percentage points with 30 labels a class, 3.3
with 1 %, 3.8 with 5 and 4.8 with 3. On another data set none of that is known: with other numbers of classes and
labels, alpha and W may be others, and the interval does not know it.

References
----------
Dubois et al. 2023, Evaluating Self-Supervised Learning via Risk Decomposition, Eq. 25 and Figure 5b.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from ..errors import MissingExtra, QueryError
from .scaling_law import N_FULL_SHOT, ScalingLaw, fit_scaling_law, law_errors, law_rows, leave_encoder_out
from .table import study_table

try:
    import numpy as np
    import pandas as pd
except ModuleNotFoundError as error:
    raise MissingExtra(str(error.name), extra="study", needed_for="Predicting an error by labels") from error

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..evaluation.risk import RiskReport

    Floats = NDArray[np.float64]

DATASET, N_CLASSES = "imagenet-1k", 1_000  # of the published encoders
N_RESAMPLES = 500


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CalibratedLaw:
    """The scaling law of the published encoders, and how far its calibrated predictions lie from their measurements."""

    law: ScalingLaw
    encoders: tuple[str, ...]  # those with every setting, whose misses are known
    ratios: Floats  # (n_settings,) full-shot labels over labels, ascending from 1
    misses: Floats  # (n_encoders, n_settings) measured minus predicted, percentage points


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelPrediction:
    """The expected error with some number of labels."""

    n_labels: int
    law_error: float  # percent: the law as it is
    error: float  # percent: calibrated, so that it meets the full-shot error
    ci_low: float  # of the calibrated one
    ci_high: float
    caveats: tuple[str, ...]  # why it may be worse than the interval says


def calibrated_law(rows: pd.DataFrame, *, n_resamples: int = N_RESAMPLES, seed: int = 0) -> CalibratedLaw:
    """Fits the law, and predicts every encoder by the law of all others.

    Parameters
    ----------
    rows : DataFrame
        As :func:`~zoo.analysis.scaling_law.law_rows` makes them.
    n_resamples, seed : int
        Of the bootstrap of alpha and W.

    Raises
    ------
    QueryError
        If the rows are too few to fit a law.
    """
    law = fit_scaling_law(rows, n_resamples=n_resamples, seed=seed)
    missed = rows.assign(missed=rows["error"] - leave_encoder_out(rows))
    table = missed.pivot(index="encoder", columns="n", values="missed").sort_index(axis=1, ascending=False).dropna()
    if N_FULL_SHOT not in table.columns or not len(table):
        raise QueryError(
            "No encoder has an error with every number of labels, the full-shot error among them; expected some to see "
            "how far the scaling law misses."
        )
    misses = table.to_numpy("float64") - table[[N_FULL_SHOT]].to_numpy("float64")  # each calibrated at full-shot
    ratios = N_FULL_SHOT / table.columns.to_numpy("float64")
    return CalibratedLaw(law=law, encoders=tuple(map(str, table.index)), ratios=ratios, misses=misses)


@cache
def published_law() -> CalibratedLaw:
    """The law of all encoders of the study table with the components that it needs; about a second, once."""
    return calibrated_law(law_rows(study_table(), complete_only=False))


def predict_labels(
    report: RiskReport, n_labels: Iterable[int], *, law: CalibratedLaw | None = None, seed: int = 0
) -> list[LabelPrediction]:
    """The errors to expect with these numbers of labels.

    Parameters
    ----------
    report : RiskReport
        Of the encoder, in the standard order, as :func:`zoo.evaluation.risk.decompose` makes it.
    n_labels : iterable of int
        Labels in all, from one a class to the whole training set.
    law : CalibratedLaw, optional
        By default :func:`published_law`.
    seed : int
        Which published encoders and resamples are drawn.

    Returns
    -------
    list of LabelPrediction
        In percent, cut to 0 ... the error of a guess; lower is better.

    Raises
    ------
    QueryError
        If the report is of the alternative order, or a number of labels is out of that range.
    """
    if report.order != "standard":
        raise QueryError(
            "The components are those of the alternative decomposition (Eq. 5), for which no scaling law was fitted; "
            "expected the standard one."
        )
    known = published_law() if law is None else law
    draws = _draws(report, known, seed=seed)
    return [_predicted(report, _checked(report, n), known, draws) for n in n_labels]


def held_out_coverage(law: CalibratedLaw, groups: pd.Series | None = None) -> dict[int, float]:
    """How often the spread of the other encoders' misses holds an encoder's own, by the labels of each setting.

    Parameters
    ----------
    law : CalibratedLaw
    groups : Series, optional
        A group of each encoder, by its id; then all encoders of its group are left out together.

    Returns
    -------
    dict from labels to share
        Of the few-shot settings; nominally 0.95.
    """
    group = np.arange(len(law.encoders)) if groups is None else pd.factorize(groups.loc[list(law.encoders)])[0]
    found = {}
    for ratio, missed in zip(law.ratios[1:], law.misses.T[1:], strict=True):
        held = []
        for own, value in zip(group, missed, strict=True):
            low, high = np.percentile(missed[group != own], [2.5, 97.5])
            held.append(low <= value <= high)
        found[round(N_FULL_SHOT / ratio)] = float(np.mean(held))
    return found


def _draws(report: RiskReport, known: CalibratedLaw, *, seed: int) -> dict[str, Any]:
    """Components, parameters and encoders, one of each a bootstrap draw."""
    random = np.random.default_rng(seed)
    n = len(report.draws["full_shot_error"])
    resamples = known.law.draws if len(known.law.draws) else np.array([_parameters(known.law)])
    parameters = resamples[random.integers(len(resamples), size=n)]
    return {
        "T": report.draws["approximation_plus_usability"],
        "probe_gen": report.draws["probe_generalization"],
        "enc_gen": report.draws["encoder_generalization"],
        "full_shot_error": report.draws["full_shot_error"],
        "alpha": parameters[:, 0],
        "w": parameters[:, 1],
        "encoder": random.integers(len(known.misses), size=n),
    }


def _predicted(report: RiskReport, n: int, known: CalibratedLaw, draws: dict[str, Any]) -> LabelPrediction:
    alpha, w = _parameters(known.law)
    parts = report.decomposition
    cells = {
        "T": parts.approximation_plus_usability,
        "probe_gen": parts.probe_generalization,
        "enc_gen": parts.encoder_generalization,
        "full_shot_error": parts.full_shot_error,
    }
    plain, calibrated = (float(found) for found in _errors(report, n, cells, alpha=alpha, w=w))
    log_ratio = np.log(report.n_train / n)
    missed = np.array([np.interp(log_ratio, np.log(known.ratios), own) for own in known.misses])  # (n_encoders,)
    _, spread = _errors(report, n, draws, alpha=draws["alpha"], w=draws["w"])
    guess = 100 * (1 - 1 / report.n_classes)
    low, high = np.clip(np.percentile(spread + missed[draws["encoder"]], [2.5, 97.5]), 0, guess)
    calibrated = min(max(calibrated, 0.0), guess)
    return LabelPrediction(
        n_labels=n,
        law_error=plain,
        error=calibrated,
        ci_low=min(float(low), calibrated),
        ci_high=max(float(high), calibrated),
        caveats=_caveats(report, n, known),
    )


def _errors(report: RiskReport, n: int, cells: dict[str, Any], *, alpha: Any, w: Any) -> tuple[Floats, Floats]:
    """What the law says, and the same moved so that it meets the full-shot error; percent."""
    n_measured = report.n_train - report.n_test  # labels of the probes behind R_AS
    plain = law_errors({**cells, "n": n}, alpha=alpha, w=w, n_measured=n_measured)
    at_full_shot = law_errors({**cells, "n": report.n_train}, alpha=alpha, w=w, n_measured=n_measured)
    return plain, plain + np.asarray(cells["full_shot_error"]) - at_full_shot


def _checked(report: RiskReport, n: int) -> int:
    if not report.n_classes <= n <= report.n_train:
        raise QueryError(
            f"Got {n:,} labels of {report.dataset}, expected {report.n_classes:,} (one a class) to {report.n_train:,} "
            "(its training set)."
        )
    return int(n)


def _caveats(report: RiskReport, n: int, known: CalibratedLaw) -> tuple[str, ...]:
    found = []
    if report.dataset.casefold() != DATASET or report.n_classes != N_CLASSES:
        found.append(
            f"The law was fitted on ImageNet-1K with {N_CLASSES:,} classes; {report.dataset} has {report.n_classes:,}, "
            "and nobody has shown that its exponent and weight hold there."
        )
    if report.n_train / n > known.ratios[-1] * (1 + 1e-9):
        found.append(
            f"{n:,} labels are a {report.n_train / n:,.0f}th of the training set, the law was fitted down to a "
            f"{known.ratios[-1]:,.0f}th: what it misses beyond is assumed to be as large as there."
        )
    if report.warning:
        found.append(report.warning)
    return tuple(found)


def _parameters(law: ScalingLaw) -> tuple[float, float]:
    assert law.alpha.value is not None and law.W.value is not None  # a law is never made without
    return law.alpha.value, law.W.value
