"""The risk of a probe as a function of its number of labels: the scaling law, and how well it predicts.

An encoder whose components are known, measured with N labels, is predicted to have with n labels the error

    enc_gen + (1 - W) T + (W T + probe_gen) (N / n)^alpha,    cut to 0 ... 100 percent.

T is the error of the probe on its own training images: approximation plus usability, signed. The paper prints W times
usability alone; its numbers come from W times T.

Dubois et al. 2023, Eq. 25, Appendix F.4 and Figure 5b.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import QueryError
from ..optional import require_extra
from .columns import COMPONENTS, ERRORS, Estimate
from .table import StudyTable, limit_to_one_thread

with require_extra("study", needed_for="The scaling law"):
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray
    from scipy.optimize import least_squares
    from scipy.stats import t as student

Floats = NDArray[np.float64]
Cells = Mapping[str, Any] | pd.DataFrame
Numbers = float | Floats
Masks = NDArray[np.bool_]


N_DECOMPOSITION = 1_231_167  # labels with which the components were measured: ImageNet without 50,000 images
N_FULL_SHOT = 1_281_167
LARGEST_ALPHA = 0.5
FEWEST_ENCODERS = 5  # fewer say nothing about how the law differs between encoders
ABOUT_ENCODERS = ("family", "architecture", "objective", "ssl_mode", "year", "z_dim", "train_test")
METHOD = "scaling law, Eq. 25"
_STARTS = [(alpha, w) for alpha in (0.05, 0.15, 0.35) for w in (0.0, 0.5, 1.0, 2.0)]


@dataclass(frozen=True, slots=True)
class ScalingLaw:
    """A fitted law, with what it was fitted to."""

    alpha: Estimate  # exponent, in [0, 0.5]
    W: Estimate  # weight of T in the part that falls with labels, at least 0
    r2: Estimate  # explained variance of the rows it was fitted to, pooled over settings
    n_rows: int
    n_encoders: int
    draws: Floats  # (n_resamples, 2): alpha and W of resampled encoders
    n_measured: float = N_DECOMPOSITION  # labels with which the components were measured


def law_rows(table: StudyTable, *, complete_only: bool = True) -> pd.DataFrame:
    """The measured errors of each encoder, one row per encoder and number of labels.

    ``complete_only`` takes encoders with all four components, as in the paper; else all with T and the two
    generalization errors. Columns are ``encoder``; ``n``, the labels of the probe; ``error``, ``T``, ``probe_gen``,
    ``enc_gen``, ``approx``, ``usability`` in percent; and :data:`ABOUT_ENCODERS`. QueryError if no encoder has the
    components.
    """
    names = [component.column for component in COMPONENTS] if complete_only else ["probe_gen", "enc_gen"]
    known = table.complete("approx_plus_usability", *names)
    settings = [
        pd.DataFrame({"encoder": known.index, "n": setting.n_labels, "error": known[setting.column].to_numpy()})
        for setting in ERRORS
    ]
    facts = known[["approx_plus_usability", "probe_gen", "enc_gen", "approx", "usability", *ABOUT_ENCODERS]]
    facts = facts.rename(columns={"approx_plus_usability": "T"})
    return pd.concat(settings).dropna(subset=["error"]).join(facts, on="encoder").reset_index(drop=True)


def reduce_to_full_shot(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows as if nothing but the full-shot error R were known: the law is then (1 - W) R + W R (N / n)^alpha."""
    return rows.assign(T=rows["train_test"], probe_gen=0.0, enc_gen=0.0)


def predict_law_errors(cells: Cells, *, alpha: Numbers, w: Numbers, n_measured: float = N_DECOMPOSITION) -> Floats:
    """Errors in percent that the law predicts, in the shape of the cells; lower is better.

    ``cells`` has ``n``, labels of the probe, and ``T``, ``probe_gen``, ``enc_gen`` in percent: numbers or arrays of one
    shape. With as many labels as the components were measured with (``n_measured``), the law is their sum:

    >>> cells = {"n": 1_231_167, "T": 8.0, "probe_gen": 18.0, "enc_gen": 3.0}
    >>> float(predict_law_errors(cells, alpha=0.15, w=0.5))
    29.0
    """
    n, on_train, probe_gen, enc_gen = (np.asarray(cells[key], float) for key in ("n", "T", "probe_gen", "enc_gen"))
    falling = (w * on_train + probe_gen) * (n_measured / n) ** alpha
    return np.asarray(np.clip(enc_gen + (1 - w) * on_train + falling, 0, 100))


def predict(law: ScalingLaw, cells: Cells) -> Floats:
    """Errors in percent that a fitted law predicts; the cells are those of :func:`predict_law_errors`."""
    return predict_law_errors(cells, alpha=_number(law.alpha), w=_number(law.W), n_measured=law.n_measured)


@limit_to_one_thread()
def fit_scaling_law(
    rows: pd.DataFrame, *, n_resamples: int = 1000, seed: int = 0, n_measured: float = N_DECOMPOSITION
) -> ScalingLaw:
    """Fits alpha and W by least squares, every row counting the same.

    Because predictions are cut at 100 percent, a bad start can stop where most of them are cut; so the fit starts at
    twelve places and the best end counts. The 95 % intervals are percentiles over resampled encoders, each with all its
    rows, for the rows of one encoder go up and down together.

    Parameters
    ----------
    rows : DataFrame
        As :func:`law_rows` makes them.
    n_resamples : int
        Of the bootstrap, about 1 ms each; 0 gives no intervals.
    seed : int
        Of the bootstrap.
    n_measured : float
        Labels with which the components were measured: those of the probe that was trained without the held-out
        subset. By default ImageNet's.

    Raises
    ------
    QueryError
        If there are fewer than five encoders or two numbers of labels, or if the parameters have nothing to act on.
    """
    n_encoders = rows["encoder"].nunique()
    if n_encoders < FEWEST_ENCODERS:
        raise QueryError(
            f"Got {n_encoders} encoders with components and errors, expected at least {FEWEST_ENCODERS} to fit the "
            "scaling law; measure more encoders or use the published ones too."
        )
    if rows["n"].nunique() < 2:
        raise QueryError(
            f"Got errors with {int(rows['n'].iloc[0]):,} labels only, expected at least 2 numbers of labels to fit the "
            "scaling law; measure a few-shot error too."
        )
    if not (rows["T"].abs() > 0).any():
        raise QueryError(
            "Got an error of 0 on the training images (T) for every encoder, so W of the scaling law has nothing to "
            "act on; expected at least one that is not 0."
        )
    problem = _Problem(rows, n_measured)
    best = problem.best()
    counts = draw_encoder_counts(n_encoders, n_resamples=n_resamples, seed=seed)
    draws = np.array([problem.solve(best, weights) for weights in counts[:, problem.encoder]]).reshape(-1, 2)
    cells = {name: rows[name].to_numpy("float64") for name in ("n", "T", "probe_gen", "enc_gen")}
    r2 = compute_r2(rows["error"], predict_law_errors(cells, alpha=best[0], w=best[1], n_measured=n_measured))
    r2_draws = [
        _weighted_r2(problem.error, predict_law_errors(cells, alpha=alpha, w=w, n_measured=n_measured), weights)
        for (alpha, w), weights in zip(draws, counts[:, problem.encoder], strict=True)
    ]
    n = len(rows)
    return ScalingLaw(
        alpha=_estimate("alpha", best[0], draws[:, 0], n, "exponent of N / n"),
        W=_estimate("W", best[1], draws[:, 1], n, "weight of T in the part that falls with labels"),
        r2=_estimate("R2", r2, np.array(r2_draws), n, "share of variance"),
        n_rows=n,
        n_encoders=n_encoders,
        draws=draws,
        n_measured=n_measured,
    )


def compute_residuals(law: ScalingLaw, rows: pd.DataFrame) -> pd.DataFrame:
    """Measured minus predicted errors by number of labels and family ("all" for all), in percentage points.

    Columns are ``n``, ``family``, ``n_encoders``, the mean ``bias`` with its 95 % interval, and ``rmse``.
    """
    missed = rows.assign(missed=rows["error"] - predict(law, rows))
    by_family = [*missed.groupby(["n", "family"]), *(((n, "all"), part) for n, part in missed.groupby("n"))]
    missed_by = []
    for (n, family), part in by_family:
        misses = part["missed"].to_numpy()
        count, bias = len(misses), float(misses.mean())
        margin = float(student.ppf(0.975, count - 1) * misses.std(ddof=1) / count**0.5) if count > 1 else np.nan
        missed_by.append([int(n), family, count, bias, bias - margin, bias + margin, float((misses**2).mean() ** 0.5)])
    columns = ["n", "family", "n_encoders", "bias", "ci_low", "ci_high", "rmse"]
    return pd.DataFrame(missed_by, columns=columns).sort_values(["n", "family"], ignore_index=True)


@limit_to_one_thread()
def predict_leaving_encoder_out(rows: pd.DataFrame, *, n_measured: float = N_DECOMPOSITION) -> Floats:
    """Each encoder's errors as predicted by the law of all others, shape (n_rows,), in percent."""
    problem = _Problem(rows, n_measured)
    start = problem.best()
    predicted = np.empty(len(rows))
    for out in (problem.encoder == encoder for encoder in range(problem.encoder.max() + 1)):
        alpha, w = problem.solve(start, (~out).astype(float))
        predicted[out] = predict_law_errors(rows[out], alpha=alpha, w=w, n_measured=n_measured)
    return predicted


def compute_r2(measured: Any, predicted: Any) -> float:
    """R2: the share of the variance of the measurements that predictions explain; NaN if they do not vary."""
    y = np.asarray(measured, "float64")
    return _weighted_r2(y, np.asarray(predicted, "float64"), np.ones(len(y)))


def draw_encoder_counts(n_encoders: int, *, n_resamples: int, seed: int) -> NDArray[np.int64]:
    """How often each encoder is drawn in each resample, shape (n_resamples, n_encoders)."""
    return np.random.default_rng(seed).multinomial(n_encoders, np.full(n_encoders, 1 / n_encoders), size=n_resamples)


class _Problem:
    """The least squares of Eq. 25, with its derivatives; arrays of shape (n_rows,)."""

    def __init__(self, rows: pd.DataFrame, n_measured: float) -> None:
        self.encoder = pd.factorize(rows["encoder"])[0]
        self.error, self.on_train, self.probe_gen, self.enc_gen = (
            rows[name].to_numpy("float64") for name in ("error", "T", "probe_gen", "enc_gen")
        )
        self.log_ratio = np.log(n_measured / rows["n"].to_numpy("float64"))

    def best(self) -> tuple[float, float]:
        return min((self.solve(start) for start in _STARTS), key=self.loss)

    def loss(self, parameters: Any) -> float:
        return float(((np.clip(self.uncut(parameters)[0], 0, 100) - self.error) ** 2).sum())

    def uncut(self, parameters: Any) -> tuple[Floats, Floats]:
        """Predictions before they are cut, and (N / n)^alpha."""
        alpha, w = parameters
        ratio = np.exp(alpha * self.log_ratio)
        return self.enc_gen + self.on_train + self.probe_gen * ratio + w * self.on_train * (ratio - 1), ratio

    def solve(self, start: Any, weights: Any = 1.0) -> tuple[float, float]:
        root = np.sqrt(weights)

        def misses(parameters: Any) -> Any:
            return root * (np.clip(self.uncut(parameters)[0], 0, 100) - self.error)

        def slopes(parameters: Any) -> Any:  # (n_rows, 2)
            uncut, ratio = self.uncut(parameters)
            moving = root * ((uncut > 0) & (uncut < 100))
            by_alpha = self.log_ratio * ratio * (self.probe_gen + parameters[1] * self.on_train)
            return np.column_stack([moving * by_alpha, moving * self.on_train * (ratio - 1)])

        low, high = (0.0, 0.0), (LARGEST_ALPHA, np.inf)
        best = least_squares(misses, start, jac=slopes, method="lm").x  # three times faster, but knows no bounds
        if not (low[0] <= best[0] <= high[0] and low[1] <= best[1]):
            best = least_squares(misses, start, jac=slopes, bounds=(low, high)).x
        return float(best[0]), float(best[1])


def _weighted_r2(y: Floats, predicted: Floats, weights: Any) -> float:
    total = (weights * (y - np.average(y, weights=weights)) ** 2).sum()
    return float(1 - (weights * (y - predicted) ** 2).sum() / total) if total > 0 else float("nan")


def _estimate(term: str, value: float, draws: Floats, n: int, unit: str) -> Estimate:
    low, high = (float(end) for end in np.percentile(draws, [2.5, 97.5])) if len(draws) else (None, None)
    return Estimate(term=term, n=n, unit=unit, outcome="error", method=METHOD).with_value(value, (low, high))


def _number(estimate: Estimate) -> float:
    assert estimate.value is not None  # a law is never made without
    return estimate.value


def estimate_r2(
    rows: pd.DataFrame, predicted: Floats, *, term: str, n_resamples: int = 1000, seed: int = 0
) -> Estimate:
    """R2 of predictions, shape (n_rows,), pooled over the rows, with its 95 % interval over resampled encoders."""
    draws = draw_r2(rows, np.ones((1, len(rows)), bool), [predicted], n_resamples, seed)
    return make_r2_estimate(term, compute_r2(rows["error"], predicted), draws, len(rows))


def draw_r2(rows: pd.DataFrame, repeats: Masks, fitted: list[Floats], n_resamples: int, seed: int) -> Floats:
    """R2 over resampled held-out encoders, for all repeats one after the other; the same resamples for every law."""
    drawn = []
    for held, predicted in zip(repeats, fitted, strict=True):
        test = rows[held]
        sums = pd.DataFrame({"n": 1.0, "y": test["error"], "yy": test["error"] ** 2})
        sums["missed"] = (test["error"] - predicted) ** 2
        totals = sums.groupby(test["encoder"], sort=False).sum(min_count=1)
        counts = draw_encoder_counts(len(totals), n_resamples=n_resamples, seed=seed)
        n, y, yy, missed = (counts @ totals[name].to_numpy("float64") for name in ("n", "y", "yy", "missed"))
        total = yy - y**2 / n
        drawn.append(1 - np.divide(missed, total, out=np.full(len(n), np.nan), where=total > 1e-6))
    return np.concatenate(drawn)


def make_r2_estimate(term: str, r2: float, draws: Floats, n: int, *, method: str = METHOD) -> Estimate:
    """R2 with the middle 95 % of its draws; one that is NaN, of groups that were never seen, has no value."""
    value = None if np.isnan(r2) else float(r2)
    draws = draws[~np.isnan(draws)]  # resamples in which no error differs from another
    known = value is not None and len(draws) > 0
    low, high = (float(end) for end in np.percentile(draws, [2.5, 97.5])) if known else (None, None)
    note = "" if value is not None else "a held-out group was never seen, or too few rows are held out or left to fit"
    return Estimate(term=term, n=n, unit="share of variance", outcome="error", method=method).with_value(
        value, (low, high), note=note
    )
