"""Measuring an encoder where labels are numbers: ridge regression on its features, and what it leaves unexplained.

The loss of an image is its squared error over the variance of the test images; its mean, in percent, is 1 - R2. No rows
are held out for the choice of the penalty: each training image is predicted from all others but its copies and its
group, in closed form.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..datasets.images import CopyCounts, SharedGroups, count_copies, count_shared_groups, get_numbers
from ..errors import DataError, QueryError
from ..features import Features
from ..optional import require_extra
from .arrays import check_finite_numbers
from .bootstrap import (
    N_DRAWS,
    Interval,
    compute_error_percents,
    compute_interval,
    draw_image_weights,
    estimate_surplus_variances,
    number_groups,
    resample_error_percents,
)
from .evaluating import SOURCE, Request, Rows, RowTemplate, list_settings
from .measuring import LabelSetting, ProbeCache, TuningSplit, check_count, check_pair, fit_probe
from .protocols import PROTOCOLS, Protocol
from .refit import RefittedProbe, describe
from .saved_probes import make_probe
from .transferability.components import LabelledMatrix
from .transferability.leave_one_out import fit_ridge, number_image_groups

with require_extra("evaluate", needed_for="Measuring an encoder"):
    import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]

PROTOCOL, METRIC, UNIT = "zoo-ridge-1", "unexplained_variance", "percent of the variance"
SETTINGS = ("full", "10%", "1%")
NOT_FOR_NUMBERS = "labels that are numbers have no nearest neighbours, decomposition, classes or mistakes"
FEWEST = 10  # images to learn from, and to test on
_LEAST = 3  # rows, of which one is left out
_ROUNDING = 1e-6  # standard deviation of a unit, as a share of its largest size, that float32 can have by rounding


class RidgeProbe:
    """Ridge regression to a number, on standardised features, with the penalty of the least leave-one-out error.

    After ``fit``: ``coef_`` (dim,) and ``intercept_`` of the unscaled features, and ``report_`` with ``alpha``, the
    penalty as scikit-learn has it, and the leave-one-out R2; ``left_out_`` (n,), each row's number without it or its
    group. ``device`` and ``seed`` change nothing.

    >>> probe = RidgeProbe().fit(np.arange(12.0)[:, None], 2 * np.arange(12.0) + 1)
    >>> probe.predict([[20.0]]).round(2).tolist()
    [41.0]
    """

    def __init__(self, *, device: str | None = None, seed: int = 0) -> None:
        self.seed, self.report_ = seed, dict[str, Any]()

    def fit(self, x: Any, y: ArrayLike, *, groups: Any = None) -> RidgeProbe:
        """Learns numbers y (n,) of features x (n, dim); rows of one of ``groups`` (n,) are left out together.

        Of one number alone it predicts that. DataError if there are fewer than 3 rows, one group, or a number that is
        not finite.
        """
        rows, targets = np.asarray(x, np.float64), check_finite_numbers(y, name="The target", n_axes=1)[:, None]
        if len(rows) < _LEAST:
            raise DataError(f"A regression probe got {len(rows):,} images; expected at least {_LEAST}.")
        mean, scale = rows.mean(axis=0), rows.std(axis=0)
        scale[scale <= _ROUNDING * np.abs(rows).max(axis=0)] = np.inf  # a unit that does not change has no weight
        z = (rows - mean) / scale
        z -= z.mean(axis=0)
        numbers, self.coef_ = number_image_groups(groups, len(rows)), np.zeros(rows.shape[1])
        self.left_out_, self.share_ = np.full(len(rows), targets.mean()), 1.0
        if z.any() and np.ptp(targets) > 0:
            data = LabelledMatrix(z=z, y=np.zeros(len(z), np.int64), classes=np.arange(1))
            found = fit_ridge(data, numbers, by="squares", targets=targets)
            self.coef_, self.left_out_, self.share_ = found.weights[:, 0] / scale, found.left_out[:, 0], found.share
            r2 = 1 - float(np.square(targets - found.left_out).mean() / targets.var())
            self.report_ = {"alpha": found.share * float(np.square(z).sum()), "left_out_r2": r2}
        self.intercept_ = float(targets.mean() - mean @ self.coef_)
        return self

    def predict(self, x: Any) -> Floats:
        """Numbers of features (n, dim), float64 (n,)."""
        return np.asarray(np.asarray(x, np.float64) @ self.coef_ + self.intercept_)

    def fitted_arrays(self) -> dict[str, Any]:
        """What predictions are made with, for ``numpy.savez``."""
        return {"coefficients": self.coef_, "intercept": self.intercept_}

    def adopt_fit(self, arrays: Mapping[str, Any], report: dict[str, Any]) -> None:
        """Takes over a fit that was kept, by its ``fitted_arrays`` and its report."""
        self.coef_, self.intercept_, self.report_ = arrays["coefficients"], float(arrays["intercept"]), report


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RegressionMetrics:
    """Metrics of predicted numbers: ``r2``, ``mean_absolute_error``, ``root_mean_squared_error``, ``spearman``."""

    n_images: int
    n_groups: int | None
    metrics: dict[str, Interval]  # errors are in the unit of the numbers

    @property
    def unexplained(self) -> Interval:
        """1 - R2, in percent; lower is better."""
        r2 = self.metrics["r2"]
        low, high = (None if end is None else 100 * (1 - end) for end in (r2.ci_high, r2.ci_low))
        return Interval(value=100 * (1 - r2.value), ci_low=low, ci_high=high)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def compute_number_metrics(
    y: ArrayLike, predicted: ArrayLike, *, groups: ArrayLike | None = None, n_draws: int = N_DRAWS, seed: int = 0
) -> RegressionMetrics:
    """Metrics of predicted numbers with 95 % intervals over images, or over ``groups`` (n,) of them.

    ``y`` and ``predicted`` are (n,). DataError if there are fewer than two different numbers, or one is not finite.

    >>> {name: round(one.value, 2) for name, one in compute_number_metrics([1, 2, 3, 4], [1, 2, 3, 5]).metrics.items()}
    {'r2': 0.8, 'mean_absolute_error': 0.25, 'root_mean_squared_error': 0.5, 'spearman': 1.0}
    """
    return _metrics([predicted], y, groups, n_draws=n_draws, seed=seed)[0]


def _metrics(
    predicted: Sequence[ArrayLike], y: ArrayLike, groups: ArrayLike | None, *, n_draws: int, seed: int
) -> list[RegressionMetrics]:
    """Metrics of the predictions of some seeds: means, with intervals over images and seeds; then of each."""
    numbers = check_finite_numbers(y, name="The number", n_axes=1)
    n, units, table = len(numbers), number_groups(groups, len(numbers)), dict[str, list[Any]]()
    if np.ptp(numbers) == 0:
        raise DataError(f"All {n:,} test images have one number, of which no variance can be explained; add others.")
    given = [check_finite_numbers(one, name="The prediction", n_axes=1) for one in predicted]
    losses = np.square(np.stack(given, axis=1) - numbers[:, None])  # (n, n_seeds)
    unexplained = resample_error_percents(losses, units, numbers=numbers, n_draws=n_draws, seed=seed)
    table["r2"] = [1 - one / 100 for one in (compute_error_percents(losses, numbers)[None], unexplained)]
    for weights in chain([np.ones((n, 1))], draw_image_weights(n, units, n_draws, seed=seed)):  # first as they are
        w = weights / weights.sum(axis=0)  # (n, n_drawn)
        ranks = _ranks(numbers, w)
        of_block = {
            "mean_absolute_error": [np.abs(one - numbers) @ w for one in given],
            "root_mean_squared_error": [np.sqrt(np.square(one - numbers) @ w) for one in given],
            "spearman": [_correlations(_ranks(one, w), ranks, w) for one in given],
        }
        for name, values in of_block.items():
            table.setdefault(name, []).append(np.stack(values, axis=1))
    random = np.random.default_rng([seed, 2])
    found: list[dict[str, Interval]] = [{} for _ in range(1 + len(given))]
    for name, blocks in table.items():
        values, draws = blocks[0][0], np.concatenate(blocks[1:])  # (n_seeds,), (n_draws, n_seeds)
        mean = draws.mean(axis=1)
        if len(given) > 1:
            surplus = estimate_surplus_variances([(values, draws)], random=random)
            mean = mean + np.sqrt(surplus / len(given)) * random.standard_normal(len(mean))
            mean = np.clip(mean, *{"r2": (-np.inf, 1.0), "spearman": (-1.0, 1.0)}.get(name, (0.0, np.inf)))
        for at, (value, drawn) in enumerate([(values.mean(), mean), *zip(values, draws.T, strict=True)]):
            found[at][name] = compute_interval(float(value), drawn)
    n_groups = None if units is None else int(units.max()) + 1
    return [RegressionMetrics(n_images=n, n_groups=n_groups, metrics=metrics) for metrics in found]


def _ranks(values: Floats, w: Floats) -> Floats:
    """Middle ranks of values (n,) as shares of all weights (n, n_drawn); equal values share one."""
    place = np.unique(values, return_inverse=True)[1]
    order = np.argsort(place, kind="stable")
    sums = np.add.reduceat(w[order], np.flatnonzero(np.diff(place[order], prepend=-1)), axis=0)
    return np.asarray((np.cumsum(sums, axis=0) - sums / 2)[place])


def _correlations(a: Floats, b: Floats, w: Floats) -> Floats:
    """Weighted correlations of columns, 0 where one does not vary."""
    a, b = (one - (w * one).sum(axis=0) for one in (a, b))
    sizes = np.sqrt((w * a * a).sum(axis=0) * (w * b * b).sum(axis=0))
    return np.asarray((w * a * b).sum(axis=0) / np.where(sizes > 0, sizes, np.inf))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RegressionSetting:
    """The metrics in one label setting, with intervals over images (or groups) and seeds; ``runs`` are by seed."""

    setting: LabelSetting
    n_train: int
    metrics: RegressionMetrics
    runs: dict[int, tuple[RegressionMetrics, dict[str, Any]]]  # metrics, and the report of the probe


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RegressionEvaluation:
    """The measurements of one encoder on images that are labelled with numbers."""

    train: Features
    test: Features
    protocol: Protocol
    settings: tuple[RegressionSetting, ...]
    left_out: dict[str, str]  # settings with too few labels, and why
    kept: RefittedProbe  # the probe with all labels
    copies: CopyCounts | None
    groups: SharedGroups | None


def evaluate_numbers(
    train: Features,
    test: Features,
    request: Request,
    *,
    cache: Path | None = None,
    tell: Callable[[str], None] | None = None,
) -> RegressionEvaluation:
    """Measures an encoder by its features of images that are labelled with numbers.

    ``train`` and ``test`` have a ``target``; of the request count settings, seeds and draws of the bootstrap;
    ``cache`` is the folder of cached probes, ``tell`` is called with a few words on what is measured next. DataError if
    the features cannot be used together, or there are too few images, groups or different numbers; QueryError if a
    setting needs classes.
    """
    check_count(request.n_seeds, what="seeds")
    wanted = list_settings(request, SETTINGS)
    if shots := [one.name for one in wanted if one.n_per_class is not None]:
        raise QueryError(f"{shots[0]!r} is a number of labels per class, and these are numbers; expected full or P%.")
    check_pair(train, test, numbers=True)
    require_enough(train.origin.dataset, len(train.y), len(test.y))
    results, left_out, y = list[RegressionSetting](), dict[str, str](), get_numbers(test)
    probes = None if cache is None else ProbeCache(cache, protocol=PROTOCOL)
    full = _fitted(train, len(train.y), seed=request.seed, cache=probes)
    how: Any = {"groups": test.groups, "n_draws": request.n_bootstrap, "seed": request.seed}
    of_full = compute_number_metrics(y, full.predict(test.x), **how)
    for setting in sorted(wanted, key=lambda one: one.percent or 100):
        n = round(len(train.y) * (setting.percent or 100) / 100)
        if n < FEWEST:
            left_out[setting.name] = f"{n:,} labels, of which a regression probe needs {FEWEST}"
            continue
        seeds = range(request.seed, request.seed + (1 if setting.is_full else request.n_seeds))
        if tell is not None:
            tell(f"{setting.name}: ridge regression, seeds: {len(seeds)}")
        fits, mean, each = [full], of_full, [of_full]
        if not setting.is_full:
            fits = [_fitted(train, n, seed=seed) for seed in seeds]
            predicted = [fit.predict(test.x) for fit in fits]
            mean, *each = _metrics(predicted, y, **how)
        runs = dict(zip(seeds, zip(each, [fit.report_ for fit in fits], strict=True), strict=True))
        results.append(RegressionSetting(setting=setting, n_train=n, metrics=mean, runs=runs))
    return RegressionEvaluation(
        train=train,
        test=test,
        protocol=PROTOCOLS[PROTOCOL],
        settings=tuple(results),
        left_out=left_out,
        kept=_kept(full, of_full, train, test, request.seed),
        copies=count_copies(train.contents, train.y, test.contents, test.y),
        groups=count_shared_groups(train.groups, test.groups),
    )


def require_enough(dataset: str, n_train: int, n_test: int) -> None:
    """Refuses parts with too few images of numbers."""
    if min(n_train, n_test) < FEWEST:
        raise DataError(
            f"{dataset!r} has {n_train:,} training and {n_test:,} test images with numbers; expected at least {FEWEST} "
            "of both: add images, or hold out another share of them (--val-share)."
        )


def _fitted(train: Features, n: int, *, seed: int, cache: ProbeCache | None = None) -> RidgeProbe:
    """A probe of n training images, drawn by the seed."""
    chosen = np.sort(np.random.default_rng([seed, 0]).permutation(len(train.y))[:n])
    division = TuningSplit(train=chosen, tuning=chosen, refits=True)
    probe: Any = RidgeProbe(seed=seed)
    fitted: RidgeProbe = fit_probe(probe, train, division, labels=get_numbers(train), cache=cache)
    return fitted


def _kept(fit: RidgeProbe, metrics: RegressionMetrics, train: Features, test: Features, seed: int) -> RefittedProbe:
    """The probe with all labels, ready to save, and its metrics."""
    probe = make_probe(train, "numbers", (train.target,), fit.coef_[None], np.array([fit.intercept_]))
    probe.about.update(describe(train, test, metrics, protocol=PROTOCOL, seed=seed, chosen=fit.report_))
    return RefittedProbe(probe=probe, metrics=metrics)


def make_number_rows(evaluation: RegressionEvaluation, *, source: str = SOURCE, day: date | None = None) -> Rows:
    """A measurement of each probe with its provenance, which has the other metrics."""
    writing, protocol = RowTemplate(evaluation.train, evaluation.test, source, day), evaluation.protocol
    rows: dict[Any, Any] = {}
    for result in evaluation.settings:
        for seed, (found, report) in result.runs.items():
            row = writing.row(METRIC, result.setting.split, result.n_train, seed, found.unexplained, UNIT, protocol)
            report = report | found.as_dict() | {"target": evaluation.train.target}
            rows[row] = writing.provenance(protocol, report=report)
    return rows
