"""The risk of a probe as a function of its number of labels: scaling laws, and how well they predict.

An encoder whose components are known, measured with N labels, is predicted to have with n labels the error

    enc_gen + (1 - W) T + (W T + probe_gen) (N / n)^alpha,    cut to 0 ... 100 percent.

T is the error of the probe on its own training images: approximation plus usability, signed. The paper prints W times
usability alone; its numbers come from W times T. The standard laws know nothing of an encoder but a group e, and the
parameters p of the probe (1,000 classes a dimension):

    cut(cut(I_e + C_e / n^a_e) + K / p^b)

with I, and C at 3,000 labels, in [0, 100]; a in [0, 1]; b in [0, 3]; and a last term of at most 100 points, which is
not negative unless a K of either sign is asked for. :func:`compare_laws` is the comparison of Table 9 on held-out rows.

Dubois et al. 2023, Eq. 25, Appendix F.4, Figure 5b and Table 9; the standard form is that of Rosenfeld 2021.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..errors import QueryError, format_count
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

STANDARD_LAWS: dict[str, str | None] = {
    "Std": None,
    "e = family": "family",
    "e = architecture": "architecture",
    "e = objective": "objective",
    "e = encoder": "encoder",
}
"""The laws of Table 9 by what makes a group; the last one is not printed there."""

N_CLASSES = 1000
FEWEST_LABELS = 3000  # C is fitted as its contribution there, so that it has a scale
_LARGEST_EXPONENT, _LARGEST_SIZE_EXPONENT, _LARGEST_TERM = 1.0, 3.0, 100.0
_SIZE_EXPONENTS = (0.03, 0.1, 0.3, 1.0, 2.5)  # the fit starts at each
FLAT = "b = 0"  # a limit at which the term of size is a constant
_NEAR_LIMIT = 1e-3  # of a limit, which the search approaches from inside
_TIE_BREAK_WEIGHT = 1e-6  # decides between parameters that fit equally well; far below what rows can tell


@dataclass(frozen=True, slots=True)
class StandardLaw:
    """A fitted standard law; arrays of shape (n_groups,)."""

    by: str | None  # column that makes the groups; None for one group
    groups: tuple[Any, ...]  # values of that column, in the order of the arrays
    floor: Floats  # I, percent
    fall: Floats  # C / 3,000^a, percentage points
    exponent: Floats  # a
    size: float  # K / (smallest p)^b, percentage points
    size_exponent: float  # b
    smallest: float  # smallest p of the rows it was fitted to
    loss: float  # sum of squares over those rows

    @property
    def at_limits(self) -> tuple[str, ...]:
        """Which shared parameters the fit would move further if the search let it: none, "b = 3", "b = 0", "K"."""
        if self.size == 0.0:
            return ()
        reached_by = {
            f"b = {_LARGEST_SIZE_EXPONENT:g}": self.size_exponent >= _LARGEST_SIZE_EXPONENT - _NEAR_LIMIT,
            FLAT: self.size_exponent <= _NEAR_LIMIT,
            "K": abs(self.size) >= _LARGEST_TERM - _NEAR_LIMIT,
        }
        return tuple(name for name, reached in reached_by.items() if reached)


def count_parameters(rows: pd.DataFrame, by: str | None) -> int:
    """Parameters of a standard law of all the groups in these rows."""
    return 3 * (1 if by is None else rows[by].nunique()) + 2


def fit_standard_law(rows: pd.DataFrame, *, by: str | None = None, falls_with_size: bool = True) -> StandardLaw:
    """Least squares from several starts, without randomness; the column ``by`` makes the groups.

    For given K and b, each group's exponent is searched on a refined grid, I and C being a linear fit; least squares
    over everything ends the search, from five values of b. Where every group has encoders of one size only, K is left
    out. Of values that fit equally well those nearest to the law of all encoders are taken.
    """
    needed = ["z_dim", *([by] if by else [])]
    lacking = int(rows[needed].isna().any(axis=1).sum())
    if rows.empty or lacking:
        raise QueryError(
            f"Got {format_count(len(rows), 'row')}, {lacking} of them without {' or '.join(needed)}, expected at "
            "least one "
            "and all with it to fit a standard scaling law; leave out the encoders that lack it."
        )
    _check_sizes(rows)
    group, groups = _groups(rows, by)
    x = np.log(rows["n"].to_numpy("float64") / FEWEST_LABELS)
    y = rows["error"].to_numpy("float64")
    p = rows["z_dim"].to_numpy("float64") * N_CLASSES
    s = np.log(p / p.min())
    pooled = _fit_groups(x, y, np.zeros(len(y), "int64"), 1, np.array([[20.0], [40.0], [0.25]]))
    sizes = pd.Series(s).groupby(group).nunique()
    if (sizes == 1).all() and len(groups) > 1:
        floor, fall, exponent = _fit_groups(x, y, group, len(groups), pooled)
        size, size_exponent = 0.0, 0.0
    else:
        problem = _StandardProblem(x, y, s, group, len(groups), -_LARGEST_TERM * (not falls_with_size))
        ends = [problem.solve(problem.start(b, pooled)) for b in _SIZE_EXPONENTS]
        best = min(ends, key=problem.loss)
        floor, fall, exponent = best[:-2].reshape(3, -1)
        size, size_exponent = float(best[-2]), float(best[-1])
    law = StandardLaw(by, groups, floor, fall, exponent, size, size_exponent, float(p.min()), 0.0)
    loss = float(((predict_standard(law, rows) - y) ** 2).sum())
    return StandardLaw(by, groups, floor, fall, exponent, size, size_exponent, float(p.min()), loss)


def predict_standard(law: StandardLaw, rows: pd.DataFrame) -> Floats:
    """Errors in percent, shape (n_rows,); NaN where the law never saw the row's group."""
    _check_sizes(rows)
    keys = pd.Index(["all"] * len(rows) if law.by is None else rows[law.by])
    group = pd.Index(law.groups).get_indexer(keys)
    n, p = rows["n"].to_numpy("float64"), rows["z_dim"].to_numpy("float64") * N_CLASSES
    labels = law.floor[group] + law.fall[group] * (n / FEWEST_LABELS) ** -law.exponent[group]
    predicted = _cut(_cut(labels) + law.size * (p / law.smallest) ** -law.size_exponent)
    return np.where(group >= 0, predicted, np.nan)


def _check_sizes(rows: pd.DataFrame) -> None:
    if (wrong := rows["z_dim"] <= 0).any():
        first = rows[wrong].iloc[0]
        raise QueryError(
            f"Got z_dim {first['z_dim']:g} of {first['encoder']!r}, expected a positive number of dimensions for a "
            "standard scaling law; correct the card of the encoder or leave it out."
        )


def _groups(rows: pd.DataFrame, by: str | None) -> tuple[NDArray[np.int64], tuple[Any, ...]]:
    if by is None:
        return np.zeros(len(rows), "int64"), ("all",)
    codes, values = pd.factorize(rows[by])
    return codes.astype("int64"), tuple(values)


def _cut(percent: Floats) -> Floats:
    return np.clip(percent, 0, 100)


def _fit_groups(x: Floats, y: Floats, group: Any, n_groups: int, near: Floats) -> Floats:
    """I, C and a of each group, shape (3, n_groups), without the term of size; ``near``, (3, 1), breaks ties."""
    candidates = np.repeat(_LARGEST_EXPONENT * np.linspace(0, 1, 41)[:, None] ** 2, n_groups, axis=1)  # (a, groups)
    while True:
        fitted, loss = _linear_fits(x, y, group, candidates, near)
        best = loss.argmin(axis=0)
        low, high = (
            np.take_along_axis(candidates, np.clip(best + step, 0, len(candidates) - 1)[None], axis=0)
            for step in (-1, 1)
        )
        if (high - low).max() < 1e-5:
            exponent = np.take_along_axis(candidates, best[None], axis=0)
            return np.concatenate([np.take_along_axis(part, best[None], axis=0) for part in fitted] + [exponent])
        candidates = low + (high - low) * np.linspace(0, 1, 13)[:, None]


def _linear_fits(x: Floats, y: Floats, group: Any, exponent: Floats, near: Floats) -> tuple[Sequence[Floats], Floats]:
    """I and C for each candidate exponent and group, and the sum of squares; all of shape (n_candidates, n_groups)."""
    power = np.exp(-exponent[:, group] * x)  # (candidates, rows)
    order = np.argsort(group, kind="stable")
    first = np.searchsorted(group[order], np.arange(exponent.shape[1]))

    def total(cells: Floats) -> Floats:
        return np.asarray(np.add.reduceat(np.atleast_2d(cells)[:, order], first, axis=1))

    n, s_y, s_yy = total(np.ones_like(y)), total(y), total(y**2)
    s_x, s_xx, s_xy = total(power), total(power**2), total(power * y)
    # normal equations, with a tie-break towards ``near``
    n_, s_xx_ = n + _TIE_BREAK_WEIGHT, s_xx + _TIE_BREAK_WEIGHT
    right_0, right_1 = s_y + _TIE_BREAK_WEIGHT * near[0], s_xy + _TIE_BREAK_WEIGHT * near[1]
    determinant = n_ * s_xx_ - s_x**2
    floor = (s_xx_ * right_0 - s_x * right_1) / determinant
    fall = (n_ * right_1 - s_x * right_0) / determinant
    without_floor, without_fall = np.maximum(right_1 / s_xx_, 0), np.maximum(right_0 / n_, 0)
    rising, sinking = fall < 0, (floor < 0) & (fall >= 0)
    floor = np.minimum(np.where(rising, without_fall, np.where(sinking, 0, floor)), _LARGEST_TERM)
    fall = np.minimum(np.where(rising, 0, np.where(sinking, without_floor, fall)), _LARGEST_TERM)
    loss = s_yy - 2 * (floor * s_y + fall * s_xy) + n * floor**2 + 2 * floor * fall * s_x + fall**2 * s_xx
    ties = (floor - near[0]) ** 2 + (fall - near[1]) ** 2 + (100 * (exponent - near[2])) ** 2
    return (floor, fall), loss + _TIE_BREAK_WEIGHT * ties


class _StandardProblem:
    """Least squares over all parameters: the groups' I, then C, then a, then K and b, in one array."""

    def __init__(self, x: Floats, y: Floats, s: Floats, group: Any, n_groups: int, lowest_size: float) -> None:
        self.x, self.y, self.s, self.group, self.n_groups = x, y, s, group, n_groups
        self.low = np.concatenate([np.zeros(3 * n_groups), [lowest_size, 0.0]])
        upper = (_LARGEST_TERM, _LARGEST_TERM, _LARGEST_EXPONENT)
        self.high = np.concatenate([np.repeat(upper, n_groups), [_LARGEST_TERM, _LARGEST_SIZE_EXPONENT]])

    def start(self, size_exponent: float, near: Floats) -> Floats:
        """Best parameters for a given b, K being fitted with one exponent for all groups."""
        one_hot = np.eye(self.n_groups)[self.group]
        size = np.exp(-size_exponent * self.s)
        design = np.column_stack([one_hot, one_hot * np.exp(-near[2] * self.x)[:, None], size])
        factor = float(np.clip(np.linalg.lstsq(design, self.y, rcond=None)[0][-1], self.low[-2], self.high[-2]))
        of_groups = _fit_groups(self.x, self.y - factor * size, self.group, self.n_groups, near)
        return np.concatenate([of_groups.ravel(), [factor, size_exponent]])

    def parts(self, parameters: Floats) -> tuple[Floats, Floats, Floats]:
        floor, fall, exponent = parameters[:-2].reshape(3, -1)
        power = np.exp(-exponent[self.group] * self.x)
        return floor[self.group] + fall[self.group] * power, power, np.exp(-parameters[-1] * self.s)

    def misses(self, parameters: Floats) -> Floats:
        labels, _, size = self.parts(parameters)
        return _cut(_cut(labels) + parameters[-2] * size) - self.y

    def loss(self, parameters: Floats) -> float:
        return float((self.misses(parameters) ** 2).sum())

    def slopes(self, parameters: Floats) -> Floats:
        """Derivatives of :meth:`misses`, shape (n_rows, n_parameters)."""
        labels, power, size = self.parts(parameters)
        whole = _cut(labels) + parameters[-2] * size
        outer = ((whole > 0) & (whole < 100)).astype(float)
        inner = outer * ((labels > 0) & (labels < 100))
        derivatives = np.zeros((len(self.y), len(parameters)))
        row, fall = np.arange(len(self.y)), parameters[self.n_groups + self.group]
        for position, by_parameter in enumerate((np.ones_like(power), power, -fall * power * self.x)):
            derivatives[row, position * self.n_groups + self.group] = inner * by_parameter
        derivatives[:, -2], derivatives[:, -1] = outer * size, -outer * parameters[-2] * size * self.s
        return derivatives

    def solve(self, start: Floats) -> Floats:
        inside = np.clip(start, self.low + 1e-9, self.high - 1e-9)
        bounds = (self.low, self.high)
        fitted = least_squares(self.misses, inside, jac=self.slopes, bounds=bounds, x_scale="jac", max_nfev=200)
        return np.asarray(min((inside, fitted.x), key=self.loss))


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


def arrange_as_printed(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows arranged so that the fitted law is Eq. 25 to the letter: W multiplies usability, not T."""
    return rows.assign(T=rows["usability"], enc_gen=rows["enc_gen"] + rows["approx"])


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
        draws = {law: _draws(rows, repeats, fitted[law], n_resamples, seed) for law in fitted}
        scores += [replace(_score(rows, law, split, repeats, fitted, draws), at_limits=limits[law]) for law in laws]
    return scores


def estimate_r2(
    rows: pd.DataFrame, predicted: Floats, *, term: str, n_resamples: int = 1000, seed: int = 0
) -> Estimate:
    """R2 of predictions, shape (n_rows,), pooled over the rows, with its 95 % interval over resampled encoders."""
    draws = _draws(rows, np.ones((1, len(rows)), bool), [predicted], n_resamples, seed)
    return _split_estimate(term, _known(compute_r2(rows["error"], predicted)), draws, len(rows))


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
    value, (term, term_of_lead) = _known(np.mean(each)), _terms(law, split)
    return Score(
        law=law,
        split=split,
        few_shot=_known(np.mean(few)),
        seen=_known(np.mean(seen)),
        r2=_split_estimate(term, value, draws[law], len(first), method=describe_law_method(law)),
        n_seen=int((~np.isnan(predicted)).sum()),
        unseen=tuple(str(group) for group in unseen),
        lowest=_known(min(each)),
        highest=_known(max(each)),
        lead=_split_estimate(
            term_of_lead,
            _known(np.mean(leads)),
            draws[COMPONENT_LAW] - draws[law],
            len(first),
            method=f"{METHOD}, minus {describe_law_method(law)}",
        ),
    )


def _impossible(law: str, split: str, n: int) -> Score:
    methods = (describe_law_method(law), f"{METHOD}, minus {describe_law_method(law)}")
    r2, lead = (
        _split_estimate(term, None, np.empty(0), n, method=method)
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


def _draws(rows: pd.DataFrame, repeats: Masks, fitted: list[Floats], n_resamples: int, seed: int) -> Floats:
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


def _known(value: Any) -> float | None:
    return None if np.isnan(value) else float(value)


def _split_estimate(term: str, value: float | None, draws: Floats, n: int, *, method: str = METHOD) -> Estimate:
    draws = draws[~np.isnan(draws)]  # resamples in which no error differs from another
    known = value is not None and len(draws) > 0
    low, high = (float(end) for end in np.percentile(draws, [2.5, 97.5])) if known else (None, None)
    note = "" if value is not None else "a held-out group was never seen, or too few rows are held out or left to fit"
    return Estimate(term=term, n=n, unit="share of variance", outcome="error", method=method).with_value(
        value, (low, high), note=note
    )
