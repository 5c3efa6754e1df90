"""Which error to expect of an encoder with fewer labels, from its own risk components and its full-shot error.

The scaling law (:mod:`~zoo.analysis.scaling_law`) has an alpha and a W that were fitted to the published encoders on
ImageNet-1K; calibrated, its curve is shifted so that it meets the measured full-shot error. The 95 % interval combines
bootstrap draws of the components, of alpha and W, and the misses of leave-one-encoder-out predictions at the same ratio
of labels. The last part holds a new published encoder in 92 to 95 % of cases (:func:`compute_held_out_coverage`); the
mean absolute miss is 3.0 percentage points with 30 labels per class, 3.3 with 1 %, 3.8 with 5 and 4.8 with 3.

On other data sets there is no interval: :func:`fit_exponent` fits alpha to errors with few labels measured there;
without them the law is an extrapolation, and :func:`measure_misses_elsewhere` says how far off it has been (Dubois et
al. 2023, Eq. 25 and Figure 5b).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from ..errors import QueryError, format_count
from ..files import use_shipped_only
from ..optional import require_extra
from ..results.rows import read_rows
from ..results.values import Row
from ..results.vocabulary import find_split
from .scaling_law import (
    N_FULL_SHOT,
    ScalingLaw,
    fit_scaling_law,
    law_rows,
    predict_law_errors,
    predict_leaving_encoder_out,
)
from .table import study_table

with require_extra("study", needed_for="Predicting an error by labels"):
    import numpy as np
    import pandas as pd
    from scipy.special import stdtrit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..evaluation.measuring import SettingResult
    from ..evaluation.risk import RiskReport

    Floats = NDArray[np.float64]

DATASET, N_CLASSES = "imagenet-1k", 1_000  # of the published encoders
N_RESAMPLES = 500
FEWEST_SETTINGS = 2  # numbers of labels that an exponent is fitted to: with one, nothing says how far it is off
LARGEST_EXPONENT = 3.0
_ALPHAS = np.linspace(0.0, LARGEST_EXPONENT, 601)
_ALPHA_STEP = 1e-4  # of an exponent, for its slope
_N_DRAWS = 1000  # of the exponent
_FULL, _HELD_OUT = "train -> val", "train minus subset -> subset"
_PROTOCOLS = (("zoo-logistic-3", "zoo-risk-logistic-3"), ("zoo-logistic-2", "zoo-risk-logistic-2"))
"""Of errors and components in the shipped rows; an encoder counts by the first that it has."""


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
    ci_low: float | None  # of the calibrated one; None on other data than ImageNet-1K
    ci_high: float | None
    caveats: tuple[str, ...]  # why it may be worse than the interval says


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedExponent:
    """The exponent of the law on another data set, fitted to errors with few labels that were measured there."""

    exponent: float
    ci_low: float  # 95 %
    ci_high: float
    n_labels: tuple[int, ...]  # different numbers of labels that it was fitted to, ascending
    n_settings: int  # errors that it was fitted to
    mean_absolute_miss: float  # of these errors, percentage points
    largest_miss: float
    W: float  # of ImageNet-1K; taken as it is


@dataclass(frozen=True, slots=True, kw_only=True)
class Missed:
    """How far ImageNet's law was off on other data, in percentage points."""

    n: int  # errors
    n_encoders: int
    datasets: tuple[str, ...]
    mean_absolute: float
    largest: float


def calibrate_law(rows: pd.DataFrame, *, n_resamples: int = N_RESAMPLES, seed: int = 0) -> CalibratedLaw:
    """Fits the law to rows of :func:`~zoo.analysis.scaling_law.law_rows`, and predicts every encoder by the law of all
    others.
    """
    law = fit_scaling_law(rows, n_resamples=n_resamples, seed=seed)
    missed = rows.assign(missed=rows["error"] - predict_leaving_encoder_out(rows))
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
def calibrate_published_law() -> CalibratedLaw:
    """The law of all encoders of the study table with the components that it needs, computed once."""
    return calibrate_law(law_rows(study_table(), complete_only=False))


def predict_labels(
    report: RiskReport, n_labels: Iterable[int], *, law: CalibratedLaw | None = None, seed: int = 0
) -> list[LabelPrediction]:
    """The errors to expect with these numbers of labels, from one per class to the whole training set.

    The report is of the standard order (:func:`zoo.evaluation.risk.decompose`). Errors are in percent, cut to 0 ... the
    error of a guess, without intervals on other data than ImageNet-1K.
    """
    if report.order != "standard":
        raise QueryError(
            "The components are those of the alternative decomposition (Eq. 5), for which no scaling law was fitted; "
            "expected the standard one."
        )
    known = calibrate_published_law() if law is None else law
    draws = _draws(report, known, seed=seed)
    return [_predicted(report, _checked(report, n), known, draws) for n in n_labels]


def is_law_known(report: RiskReport) -> bool:
    """True on ImageNet-1K, where the law was fitted and its intervals hold."""
    return report.dataset.casefold() == DATASET


def fit_exponent(
    report: RiskReport, few: Sequence[SettingResult], *, law: CalibratedLaw | None = None, seed: int = 0
) -> FittedExponent:
    """The exponent with which an encoder's error falls on the data set that it was measured on.

    Alpha is fitted by least squares to the errors ``few``, with at least two numbers of labels on the same test images;
    components are the encoder's own and W is ImageNet-1K's. The interval is the wider of two, end by end: bootstrap of
    test images, training images and seeds; and Student's t on the residuals.
    """
    from ..evaluation.bootstrap import build_outcome_table, resample_errors

    if report.order != "standard":
        raise QueryError("The exponent is that of the standard decomposition, got the alternative one (Eq. 5).")
    n_labels = np.array([result.runs[0].n_train for result in few], np.int64)  # (m,)
    different = np.unique(n_labels)
    if len(different) < FEWEST_SETTINGS:
        raise QueryError(
            f"The exponent needs errors with at least {FEWEST_SETTINGS} different numbers of labels, fewer than all of "
            f"them, and got {len(different)}; measure others with --settings."
        )
    known = calibrate_published_law() if law is None else law
    w = _parameters(known.law)[1]
    curve = _Curve(n_labels, n_all=report.n_train, n_measured=report.n_train - report.n_test)
    parts, wanted = report.decomposition, np.array([result.error.value for result in few])
    falling = w * parts.approximation_plus_usability + parts.probe_generalization
    if falling <= 0:
        raise QueryError(
            f"By its components nothing of the error of {report.encoder} falls with labels, so that it has no exponent."
        )
    alpha = curve.exponent(wanted, full_shot=parts.full_shot_error, falling=falling)
    missed, slope = curve.missed(alpha, wanted, full_shot=parts.full_shot_error, falling=falling)

    groups = [report.risks["R_US"].runs, *(result.runs for result in few)]
    starts = np.cumsum([0, *map(len, groups)]).tolist()
    columns = {str(i): range(starts[i], starts[i + 1]) for i in range(len(groups))}
    outcomes = build_outcome_table(report.n_test, [(None, run.correct) for runs in groups for run in runs])
    drawn_on_test = resample_errors(outcomes, columns, n_draws=len(report.draws["full_shot_error"]), seed=seed)
    on_test = {name: one.draws for name, one in drawn_on_test.items()}
    falls = w * report.draws["approximation_plus_usability"] + report.draws["probe_generalization"]
    few_draws = np.stack([on_test[str(i + 1)] for i in range(len(few))], axis=1)  # (n_draws, m)
    drawn = [
        curve.exponent(errors, full_shot=full, falling=part)
        for errors, full, part in zip(few_draws[:_N_DRAWS], on_test["0"], falls, strict=False)
    ]
    low, high = (float(end) for end in np.percentile(drawn, [2.5, 97.5]))
    freedom = len(few) - 1
    margin = (
        np.inf
        if slope == 0
        else float(stdtrit(freedom, 0.975)) * float(np.linalg.norm(missed)) / (freedom**0.5 * slope)
    )
    return FittedExponent(
        exponent=alpha,
        ci_low=max(0.0, min(low, alpha - margin)),
        ci_high=min(LARGEST_EXPONENT, max(high, alpha + margin)),
        n_labels=tuple(different.tolist()),
        n_settings=len(few),
        mean_absolute_miss=float(np.abs(missed).mean()),
        largest_miss=float(np.abs(missed).max()),
        W=w,
    )


class _Curve:
    """Errors by labels as the calibrated law has them: full_shot + falling ((N / n)^alpha - (N / n_all)^alpha)."""

    def __init__(self, n_labels: NDArray[np.int64], *, n_all: int, n_measured: int) -> None:
        self.log_n, self.log_all = np.log(n_measured / n_labels), np.log(n_measured / n_all)
        self.grid = self.shape(_ALPHAS)  # (n_grid, m)

    def shape(self, alpha: Any) -> Floats:
        return np.asarray(np.exp(np.multiply.outer(alpha, self.log_n)) - np.exp(alpha * self.log_all)[..., None])

    def exponent(self, wanted: Floats, *, full_shot: float, falling: float) -> float:
        """The exponent of least squares: the lowest of a grid, refined by the parabola through its neighbours."""
        losses = ((full_shot + falling * self.grid - wanted) ** 2).sum(axis=1)
        at = int(np.argmin(losses))
        if at in (0, len(_ALPHAS) - 1):
            return float(_ALPHAS[at])
        before, here, after = (float(loss) for loss in losses[at - 1 : at + 2])
        bend = before - 2 * here + after
        return float(_ALPHAS[at] + (_ALPHAS[1] - _ALPHAS[0]) * (0.5 * (before - after) / bend if bend > 0 else 0.0))

    def missed(self, alpha: float, wanted: Floats, *, full_shot: float, falling: float) -> tuple[Floats, float]:
        """Measured minus fitted, (m,), and by how much the fitted ones move with alpha, as a norm."""
        near = self.shape(np.array([alpha, alpha + _ALPHA_STEP]))
        return wanted - full_shot - falling * near[0], falling * float(np.linalg.norm(near[1] - near[0])) / _ALPHA_STEP


@cache
def measure_misses_elsewhere() -> Missed:
    """How far ImageNet's law, calibrated, is from the shipped errors of encoders on other data."""
    alpha, w = _parameters(calibrate_published_law().law)
    measured: dict[tuple[str, str], list[Row]] = {}
    with use_shipped_only():
        for row in read_rows(with_unlisted=True):
            if row.dataset != DATASET:
                measured.setdefault((row.encoder, row.dataset), []).append(row)
    by_encoder = {}
    for key, rows in measured.items():
        for pair in _PROTOCOLS:
            if {row.protocol for row in rows} >= {*pair}:
                by_encoder[key] = [row for row in rows if row.protocol in pair]
                break
    misses: list[float] = []
    used = set()
    for (encoder, dataset), rows in by_encoder.items():
        parts = {row.metric: float(row.value) for row in rows if row.protocol.startswith("zoo-risk-")}
        values: dict[str, list[float]] = {}
        n_train = {row.split: int(row.n_train) for row in rows}
        for row in rows:
            if row.metric == "linear_probe_error":
                values.setdefault(row.split, []).append(float(row.value))
        if not {"probe_generalization", "encoder_generalization"} <= parts.keys():
            continue
        errors = {split: sum(some) / len(some) for split, some in values.items()}
        cells = {
            "T": errors["train -> train"],
            "probe_gen": parts["probe_generalization"],
            "enc_gen": parts["encoder_generalization"],
            "full_shot_error": errors[_FULL],
        }
        n_classes = next(n / shots for split, n in n_train.items() if (shots := find_split(split).shots))
        guess = 100 * (1 - 1 / n_classes)
        for split, error in errors.items():
            if split.startswith("train ") and split.endswith("-> val") and split != _FULL:
                _, calibrated = _errors(
                    cells, n_train[split], n_all=n_train[_FULL], n_measured=n_train[_HELD_OUT], alpha=alpha, w=w
                )
                misses.append(abs(error - min(max(float(calibrated), 0.0), guess)))
                used.add((encoder, dataset))
    if not misses:
        raise QueryError("No measurement of another data set than ImageNet-1K with a decomposition is shipped.")
    return Missed(
        n=len(misses),
        n_encoders=len({encoder for encoder, _ in used}),
        datasets=tuple(sorted({dataset for _, dataset in used})),
        mean_absolute=float(np.mean(misses)),
        largest=max(misses),
    )


def compute_held_out_coverage(law: CalibratedLaw, groups: pd.Series | None = None) -> dict[int, float]:
    """How often the spread of the other encoders' misses holds an encoder's own, by few-shot labels; nominal 0.95.

    With ``groups``, by id, all encoders of its group are left out together.
    """
    group = np.arange(len(law.encoders)) if groups is None else pd.factorize(groups.loc[list(law.encoders)])[0]
    coverage = {}
    for ratio, missed in zip(law.ratios[1:], law.misses.T[1:], strict=True):
        held = []
        for code, value in zip(group, missed, strict=True):
            low, high = np.percentile(missed[group != code], [2.5, 97.5])
            held.append(low <= value <= high)
        coverage[round(N_FULL_SHOT / ratio)] = float(np.mean(held))
    return coverage


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
    numbers = {"n_all": report.n_train, "n_measured": report.n_train - report.n_test}  # R_AS: without as many as S_te
    plain, calibrated = (float(error) for error in _errors(cells, n, **numbers, alpha=alpha, w=w))
    guess = 100 * (1 - 1 / report.n_classes)
    calibrated = min(max(calibrated, 0.0), guess)
    ends: tuple[float | None, float | None] = (None, None)
    if is_law_known(report):
        log_ratio = np.log(report.n_train / n)
        missed = np.array(
            [np.interp(log_ratio, np.log(known.ratios), misses) for misses in known.misses]
        )  # (n_encoders,)
        _, spread = _errors(draws, n, **numbers, alpha=draws["alpha"], w=draws["w"])
        low, high = np.clip(np.percentile(spread + missed[draws["encoder"]], [2.5, 97.5]), 0, guess)
        ends = min(float(low), calibrated), max(float(high), calibrated)
    return LabelPrediction(
        n_labels=n,
        law_error=plain,
        error=calibrated,
        ci_low=ends[0],
        ci_high=ends[1],
        caveats=_caveats(report, n, known),
    )


def _errors(cells: dict[str, Any], n: int, *, n_all: int, n_measured: int, alpha: Any, w: Any) -> tuple[Floats, Floats]:
    """What the law says, and the same moved so that it meets the full-shot error; percent."""
    plain = predict_law_errors({**cells, "n": n}, alpha=alpha, w=w, n_measured=n_measured)
    at_full_shot = predict_law_errors({**cells, "n": n_all}, alpha=alpha, w=w, n_measured=n_measured)
    return plain, plain + np.asarray(cells["full_shot_error"]) - at_full_shot


def _checked(report: RiskReport, n: int) -> int:
    if not report.n_classes <= n <= report.n_train:
        raise QueryError(
            f"Got {n:,} labels of {report.dataset}, expected {report.n_classes:,} (one per class) to "
            f"{report.n_train:,} (its training set)."
        )
    return int(n)


def _caveats(report: RiskReport, n: int, known: CalibratedLaw) -> tuple[str, ...]:
    caveats = []
    if report.dataset.casefold() != DATASET or report.n_classes != N_CLASSES:
        caveats.append(
            f"The law was fitted on ImageNet-1K with {N_CLASSES:,} classes; {report.dataset} has {report.n_classes:,}, "
            "and its exponent and weight were not validated there."
        )
    if report.n_train / n > known.ratios[-1] * (1 + 1e-9):
        caveats.append(
            f"{format_count(n, 'label is', 'labels are')} a {report.n_train / n:,.0f}th of the training set, the law "
            f"was fitted down to a {known.ratios[-1]:,.0f}th: what it misses beyond is assumed to be as large as there."
        )
    if report.warning:
        caveats.append(report.warning)
    return tuple(caveats)


def _parameters(law: ScalingLaw) -> tuple[float, float]:
    assert law.alpha.value is not None and law.W.value is not None  # a law is never made without
    return law.alpha.value, law.W.value
