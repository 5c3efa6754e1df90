"""Metrics of predictions in addition to the error, each with its interval, from labels and probabilities as arrays.

Values are those of scikit-learn's functions. Errors (of all images, of a class, of a tag) have the interval of
:func:`~.bootstrap.compute_error_interval`. All else is resampled (:mod:`.bootstrap`): every image, or group of images,
has the weight that it has everywhere. As weights are above zero, no class is ever absent from a draw. Added to a metric
between 0 and 100 % are one best and one worst image of half an image's weight, so that an interval does not shrink to a
point where nothing is wrong. They count in addition to as many images as decide the metric: positives for average
precision, the rarer of positives and negatives for the AUROC, and of means over classes as many as would have their
variance. With groups, half a group is added.

A metric that a class lacks the images for (recall, AUROC, average precision) is left out with the reason; means are
over the classes that have a value. Calibration errors are of the predicted class (Guo et al. 2017), in bins of equal
widths and of equal sizes. They are above zero by chance even for a calibrated probe: ``by_chance`` says how far, and
the lower end of their interval is 0 where the error is within what chance gives. Intervals of the log loss are too
short where nearly all images are classified right: it is the mean of a few large losses.

References
----------
C. Guo, G. Pleiss, Y. Sun and K. Q. Weinberger 2017, On Calibration of Modern Neural Networks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from ..errors import DataError, QueryError, escape_unprintable, format_count
from ..optional import require_extra
from .arrays import check_finite_numbers
from .bootstrap import Interval, compute_error_interval, compute_interval, draw_image_weights, number_groups
from .drawing import FULL_WIDTH, HALF_WIDTH, SMALLEST, Figure, make_figure
from .ranking_metrics import ScoreRanking

with require_extra("evaluate", needed_for="A metric of predictions"):
    import numpy as np

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]
    Indices = NDArray[np.int64]

N_DRAWS = 1000
N_BINS = 15
UNITS = {
    "error": "percent",
    "balanced_error": "percent",
    "auroc": "percent",
    "average_precision": "percent",
    "log_loss": "nats",
    "calibration_error": "percent",
    "adaptive_calibration_error": "percent",
    "tag_average_precision": "percent",
    "tag_error": "percent",
    "any_tag_error": "percent",
}
"""Metrics of predictions and their units."""
HIGHER_IS_BETTER = frozenset({"auroc", "average_precision", "tag_average_precision"})  # of all others lower is

_MOST_WORK = 2_000_000_000  # images times classes times draws, above which rankings have no interval: a minute
_AT_A_TIME = 2_000_000  # weights in memory
_MOST_COUNTED = 100  # classes whose whole confusion matrix is in JSON, else so many confusions
_SUM_OFF = 1e-3  # by which probabilities of an image may miss 1, as those of half precision do


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassResult:
    """How well one class, or one tag, is told from the others; None where the images do not tell."""

    name: str
    n_images: int  # that have it
    n_predicted: int
    error: Interval | None  # percent: of the images that have the class; of a tag: of all images
    auroc: Interval | None  # percent, against all others
    average_precision: Interval | None  # percent, against all others


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbabilityBin:
    """Predictions whose probability is within a range."""

    low: float  # of the probability, above it but for the first bin
    high: float
    n: int
    confidence: float | None  # mean probability of the predicted class; None without a prediction
    accuracy: float | None  # share of right predictions


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """Whether probabilities are shares of right predictions."""

    bins: tuple[ProbabilityBin, ...]  # of equal widths
    by_chance: float | None  # percent: error that 1 in 40 perfectly calibrated probes exceeds; None with groups
    p_value: float | None  # of a perfectly calibrated probe having such an error; None with groups


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ClassificationMetrics:
    """Metrics of the predictions of one probe."""

    classes: tuple[str, ...]
    positive: str | None  # of two classes the one whose AUROC and average precision ``metrics`` has: the second
    n_images: int
    n_groups: int | None  # None: every image is by itself
    n_draws: int
    metrics: dict[str, Interval]  # by the names of UNITS
    left_out: dict[str, str]  # what is missing, and why
    per_class: tuple[ClassResult, ...]
    confusion: Indices  # (n_classes, n_classes): of images of the row's class, how many are predicted as the column's
    calibration: Calibration

    def as_dict(self) -> dict[str, Any]:
        """Everything for JSON; of more than 100 classes the most frequent confusions instead of the whole matrix."""
        return {
            "n_images": self.n_images,
            "n_groups": self.n_groups,
            "n_draws": self.n_draws,
            "positive": self.positive,
            "metrics": _metrics_document(self.metrics),
            "left_out": dict(self.left_out),
            "per_class": [asdict(one) for one in self.per_class],
            "confusion": {
                "classes": list(self.classes),
                "counts": self.confusion.tolist() if len(self.classes) <= _MOST_COUNTED else None,
                "most_frequent": [
                    {"class": one, "predicted": other, "n": n} for one, other, n in self.confusions(_MOST_COUNTED)
                ],
            },
            "calibration": asdict(self.calibration) | {"bins": [asdict(one) for one in self.calibration.bins]},
        }

    def confusions(self, n: int = 10) -> list[tuple[str, str, int]]:
        """The most frequent mistakes: class, what it is taken for, number of images; of equal ones in class order."""
        off = self.confusion - np.diag(np.diag(self.confusion))
        order = np.argsort(-off, axis=None, kind="stable")[:n]
        pairs = [tuple(int(place) for place in np.unravel_index(one, off.shape)) for one in order]
        return [
            (self.classes[row], self.classes[column], int(off[row, column]))
            for row, column in pairs
            if off[row, column]
        ]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TaggingMetrics:
    """Metrics of predictions where an image has any number of tags."""

    tags: tuple[str, ...]
    n_images: int
    n_groups: int | None
    n_draws: int
    metrics: dict[str, Interval]
    left_out: dict[str, str]
    per_tag: tuple[ClassResult, ...]

    def as_dict(self) -> dict[str, Any]:
        """Everything for JSON."""
        return {
            "n_images": self.n_images,
            "n_groups": self.n_groups,
            "n_draws": self.n_draws,
            "metrics": _metrics_document(self.metrics),
            "left_out": dict(self.left_out),
            "per_tag": [asdict(one) for one in self.per_tag],
        }


def classification_metrics(
    labels: ArrayLike,
    probabilities: ArrayLike,
    *,
    classes: Sequence[str] = (),
    groups: ArrayLike | None = None,
    n_draws: int = N_DRAWS,
    n_bins: int = N_BINS,
    seed: int = 0,
) -> ClassificationMetrics:
    """Metrics of predicted classes.

    Parameters
    ----------
    labels : int array, shape (n,)
        Numbers of classes, from 0.
    probabilities : float array, shape (n, n_classes)
        Of each class, which add up to 1 for every image; the class with the largest one is predicted.
    classes : sequence of str
        Names of the classes; their numbers if there are none.
    groups : array, shape (n,), optional
        Images with the same value are not independent of each other.
    n_draws : int
        Of the bootstrap; 0 gives values without intervals.
    n_bins : int
        Of the calibration.
    seed : int
        Of the draws.

    Returns
    -------
    Classification
        Error and balanced error (the mean over classes of their errors), lower is better; AUROC and average precision,
        higher is better: of two classes those of the second, of more the means over classes, each against the rest; all
        in percent. Log loss in nats per image, lower is better. Calibration errors in percent, lower is better.

    Raises
    ------
    DataError
        If shapes do not fit each other, a label is no class, or probabilities are none.
    QueryError
        If there is no such number of draws or bins.

    Examples
    --------
    >>> found = classification_metrics([0, 0, 1, 1], [[0.9, 0.1], [0.4, 0.6], [0.3, 0.7], [0.2, 0.8]])
    >>> found.metrics["error"].value, found.metrics["auroc"].value, found.confusion.tolist()
    (25.0, 100.0, [[1, 1], [0, 2]])
    """
    p = _probabilities(probabilities)
    n, k = p.shape
    y, names, unit_of = _labels_of(labels, n, k), _names(classes, k, "classes"), number_groups(groups, n)
    _check_numbers(n_draws, n_bins)
    predicted = p.argmax(axis=1)
    wrong = predicted != y
    of_label = p[np.arange(n), y] / p.sum(axis=1)
    losses = -np.log(np.clip(of_label, np.finfo(np.float64).eps, 1))
    confusion = np.bincount(k * y + predicted, minlength=k * k).reshape(k, k).astype(np.int64)
    counts = confusion.sum(axis=1)
    present = np.flatnonzero(counts)
    left_out = _absences(counts, n, names, what="class")
    bins = _ProbabilityBins(p.max(axis=1), ~wrong, n_bins)
    rankings = _ClassRankings(
        p, y[:, None] == np.arange(k), n_draws=n_draws, only=1 if k == 2 else None, left_out=left_out
    )
    by_class = np.argsort(y, kind="stable")
    starts = np.concatenate([[0], np.cumsum(counts[present])[:-1]])
    n_effective = len(present) ** 2 / (1 / counts[present]).sum()
    drawn, size = _ShareDraws(n_draws, seed), _images_per_group(n, unit_of)
    for weights in draw_image_weights(n, unit_of, n_draws, seed=seed):
        total = weights.sum(axis=0)  # (n_drawn,)
        of_class = np.add.reduceat(weights[by_class], starts, axis=0)  # (n_present, n_drawn)
        wrong_of_class = np.add.reduceat((weights * wrong[:, None])[by_class], starts, axis=0)
        drawn.add("balanced_error", (wrong_of_class / of_class).mean(axis=0), n_effective * total / n / size)
        drawn.add("log_loss", losses @ weights / total)
        for name, errors in bins.errors(weights).items():
            drawn.add(name, errors)
        rankings.add_to(drawn, weights, size)
    metrics = {"error": _error(wrong, unit_of, n_draws)}
    class_errors = 1 - np.diag(confusion)[present] / counts[present]
    if len(present) > 1:
        metrics["balanced_error"] = drawn.percent("balanced_error", class_errors.mean())
    else:
        left_out["balanced_error"] = f"all images are of the class {names[present[0]]!r}"
    metrics |= rankings.means(drawn)
    metrics["log_loss"] = drawn.plain("log_loss", float(losses.mean()))
    chance = bins.by_chance(n_draws, seed) if unit_of is None and n_draws else {}
    metrics |= {name: drawn.bins(name, value, chance.get(name)) for name, value in bins.values.items()}
    of_width = chance.get("calibration_error")
    return ClassificationMetrics(
        classes=names,
        positive=names[1] if k == 2 else None,
        n_images=n,
        n_groups=None if unit_of is None else int(unit_of.max()) + 1,
        n_draws=n_draws,
        metrics=metrics,
        left_out=left_out,
        per_class=tuple(
            ClassResult(
                name=name,
                n_images=int(counts[c]),
                n_predicted=int(confusion[:, c].sum()),
                error=_error(wrong, unit_of, n_draws, among=y == c) if counts[c] else None,
                auroc=rankings.interval(drawn, "auroc", c),
                average_precision=rankings.interval(drawn, "average_precision", c),
            )
            for c, name in enumerate(names)
        ),
        confusion=confusion,
        calibration=Calibration(
            bins=bins.table(),
            by_chance=None if of_width is None else 100 * float(np.quantile(of_width, 0.975)),
            p_value=None if of_width is None else _p_value(bins.values["calibration_error"], of_width),
        ),
    )


def tag_metrics(
    indicators: ArrayLike,
    probabilities: ArrayLike,
    *,
    tags: Sequence[str] = (),
    groups: ArrayLike | None = None,
    n_draws: int = N_DRAWS,
    seed: int = 0,
) -> TaggingMetrics:
    """Metrics of predicted tags, of which an image may have any number.

    Parameters
    ----------
    indicators : bool or 0/1 array, shape (n, n_tags)
        Which tags an image has.
    probabilities : float array, shape (n, n_tags)
        Of each tag by itself; one above a half is predicted.
    tags : sequence of str
        Their names; their numbers if there are none.
    groups, n_draws, seed
        As for :func:`classification_metrics`.

    Returns
    -------
    Tagging
        In percent: mean average precision and AUROC, the means over tags, higher is better; ``tag_error``, the share of
        all decisions on an image and a tag that are wrong, and ``any_tag_error``, of the images on which one is, lower
        is better.

    Raises
    ------
    DataError
        If shapes do not fit each other, an indicator is neither 0 nor 1, or probabilities are none.
    QueryError
        If there is no such number of draws.

    Examples
    --------
    >>> found = tag_metrics([[1, 0], [1, 1], [0, 1], [0, 0]], [[0.9, 0.2], [0.7, 0.6], [0.4, 0.3], [0.6, 0.1]])
    >>> {name: one.value for name, one in found.metrics.items()}  # doctest: +NORMALIZE_WHITESPACE
    {'tag_average_precision': 100.0, 'auroc': 100.0, 'tag_error': 25.0, 'any_tag_error': 50.0}
    """
    p = check_finite_numbers(probabilities, name="The probability", n_axes=2)
    _require_shares(p)
    n, k = p.shape
    y = _indicators(indicators, p.shape)
    names, unit_of = _names(tags, k, "tags"), number_groups(groups, n)
    _check_numbers(n_draws, N_BINS)
    wrong = (p > 0.5) != y
    counts = y.sum(axis=0)
    left_out = _absences(counts, n, names, what="tag")
    rankings = _ClassRankings(p, y, n_draws=n_draws, only=None, left_out=left_out)
    drawn, size = _ShareDraws(n_draws, seed), _images_per_group(n, unit_of)
    for weights in draw_image_weights(n, unit_of, n_draws, seed=seed):
        total = weights.sum(axis=0)
        drawn.add("tag_error", (wrong.T @ weights / total).mean(axis=0), total / size)
        rankings.add_to(drawn, weights, size)
    means = rankings.means(drawn)
    metrics = {"tag_average_precision": means.pop("average_precision")} if "average_precision" in means else {}
    metrics |= means
    metrics["tag_error"] = drawn.percent("tag_error", wrong.mean())
    metrics["any_tag_error"] = _error(wrong.any(axis=1), unit_of, n_draws)
    return TaggingMetrics(
        tags=names,
        n_images=n,
        n_groups=None if unit_of is None else int(unit_of.max()) + 1,
        n_draws=n_draws,
        metrics=metrics,
        left_out=left_out,
        per_tag=tuple(
            ClassResult(
                name=name,
                n_images=int(counts[c]),
                n_predicted=int((p[:, c] > 0.5).sum()),
                error=_error(wrong[:, c], unit_of, n_draws),
                auroc=rankings.interval(drawn, "auroc", c),
                average_precision=rankings.interval(drawn, "average_precision", c),
            )
            for c, name in enumerate(names)
        ),
    )


def make_confusion_figure(found: ClassificationMetrics, *, n_most: int = 25) -> Figure:
    """The confusion matrix as a figure: of each class, the share that is predicted as each; numbers where they fit.

    Of more than ``n_most`` classes it shows those with the most mistakes, of either kind.
    """
    off = found.confusion - np.diag(np.diag(found.confusion))
    involved = off.sum(axis=0) + off.sum(axis=1)
    shown = np.sort(np.argsort(-involved, kind="stable")[:n_most])
    error = found.metrics["error"].value
    caption = (
        f"Rows are classes, columns what {format_count(found.n_images, 'image is', 'images are')} predicted as, in "
        f"percent of the row; {error:.1f} percent of all are wrong."
    )
    if len(shown) < len(found.classes):
        caption += f" Shown are the {len(shown)} of {len(found.classes)} classes with the most mistakes."
    return Figure(
        name="confusion",
        title="Confusion matrix",
        caption=caption,
        draw=lambda: _drawn_confusion(found.confusion, [found.classes[c] for c in shown.tolist()], shown),
    )


_LONGEST_NAME = 24  # characters of a class on an axis
_NUMBERS_UP_TO = 16  # classes, whose cells have room for a number


def _drawn_confusion(confusion: Indices, names: Sequence[str], shown: Indices) -> Drawing:
    counts = confusion.sum(axis=1)[shown]
    shares = 100 * confusion[np.ix_(shown, shown)] / np.maximum(counts, 1)[:, None]
    k = len(shown)
    side = min(FULL_WIDTH, max(HALF_WIDTH, 1.6 + 0.36 * k))
    drawing, (axes,) = make_figure(width=side, height=0.9 * side)
    image = axes.imshow(np.where(counts[:, None] > 0, shares, np.nan), cmap="Blues", vmin=0, vmax=100)
    names = list(map(escape_unprintable, names))
    short = [name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}\u2026" for name in names]
    short = [name.replace("$", r"\$") for name in short]  # which would begin a formula
    size = 7.0 if k <= _NUMBERS_UP_TO else SMALLEST
    axes.set_xticks(range(k), short, rotation=45 if max(map(len, short)) > 2 else 0, ha="right", rotation_mode="anchor")
    if max(map(len, short)) <= 2:
        axes.set_xticks(range(k), short)
    axes.set_yticks(range(k), [f"{name} ({n:,})" for name, n in zip(short, counts.tolist(), strict=True)])
    axes.tick_params(labelsize=size, length=0)
    axes.set_xlabel("predicted class")
    axes.set_ylabel("class (images)")
    axes.grid(False)
    for spine in axes.spines.values():
        spine.set_visible(False)
    if k <= _NUMBERS_UP_TO:
        for row in range(k):
            for column in range(k):
                value = float(shares[row, column])
                if value > 0:
                    text = f"{value:.0f}" if value >= 1 else "<1"
                    ink = "white" if value > 55 else "#222222"
                    axes.text(column, row, text, ha="center", va="center", fontsize=SMALLEST, color=ink)
    drawing.colorbar(image, ax=axes, label="percent of the class", shrink=0.8)
    return drawing


class _ShareDraws:
    """Bootstrap draws by name, shares from 0 to 1 with the number of images (or groups) that decide them."""

    def __init__(self, n_draws: int, seed: int) -> None:
        self.n_draws = n_draws
        self.halves = np.random.default_rng([seed, 1]).standard_gamma(0.5, size=(n_draws, 2))
        self._values: dict[Any, list[Floats]] = {}
        self._masses: dict[Any, list[Floats]] = {}

    def add(self, name: Any, values: Floats, mass: Floats | None = None) -> None:
        """Some draws more, each (n_drawn,)."""
        self._values.setdefault(name, []).append(values)
        if mass is not None:
            self._masses.setdefault(name, []).append(mass)

    def percent(self, name: Any, value: float) -> Interval:
        """A share, in percent, with half an image of either kind in its draws."""
        if name not in self._values:
            return _without_ends(100 * float(value))
        drawn, mass = np.concatenate(self._values[name]), np.concatenate(self._masses[name])
        softened = (drawn * mass + self.halves[:, 1]) / (mass + self.halves.sum(axis=1))
        return compute_interval(100 * float(value), 100 * softened)

    def plain(self, name: Any, value: float) -> Interval:
        """Something without bounds."""
        return compute_interval(value, np.concatenate(self._values[name])) if self.n_draws else _without_ends(value)

    def bins(self, name: str, value: float, chance: Floats | None) -> Interval:
        """An error of calibration, in percent."""
        if not self.n_draws:
            return _without_ends(100 * value)
        low, high = 2 * value - np.percentile(np.concatenate(self._values[name]), [97.5, 2.5])
        is_chance = chance is not None and _p_value(value, chance) > 0.025
        return Interval(
            value=100 * value,
            ci_low=0.0 if is_chance else 100 * float(np.clip(min(low, value), 0, 1)),
            ci_high=100 * float(np.clip(max(high, value), 0, 1)),
        )


class _ClassRankings:
    """AUROC and average precision of classes against all others."""

    def __init__(
        self, p: Floats, y: NDArray[np.bool_], *, n_draws: int, only: int | None, left_out: dict[str, str]
    ) -> None:
        counts = y.sum(axis=0)
        some = [c for c in range(p.shape[1]) if 0 < counts[c] < len(p)]
        self.values: dict[str, dict[int, float]] = {"auroc": {}, "average_precision": {}}
        self.only = only  # of two classes, the one that stands for both
        self.is_drawn = n_draws > 0
        if len(p) * len(some) * n_draws > _MOST_WORK:
            self.is_drawn = False
            left_out["intervals of AUROC and average precision"] = (
                f"{len(p):,} images of {len(some):,} classes would take minutes; ask for fewer draws"
            )
        self.rankings: dict[int, ScoreRanking] = {}
        for c in some:
            ranking = ScoreRanking(p[:, c], y[:, c])
            once = ranking.of(np.ones((len(p), 1)))
            self.values["auroc"][c] = float(once.auroc[0])
            self.values["average_precision"][c] = float(once.average_precision[0])
            if self.is_drawn:
                self.rankings[c] = ranking
        rarer = np.minimum(counts, len(p) - counts)
        self.n_deciding = {}
        for name, deciding in (("auroc", rarer), ("average_precision", counts)):
            numbers = [int(deciding[c]) for c in some]
            self.n_deciding[name] = min(len(p), len(numbers) ** 2 / sum(1 / n for n in numbers)) if numbers else 0.0
        if not some:
            left_out |= dict.fromkeys(self.values, "no class has images in addition to those of others")

    def add_to(self, drawn: _ShareDraws, weights: Floats, size: float) -> None:
        """Adds draws with these weights, (n, n_drawn); ``size`` is the number of images per group."""
        found: dict[str, list[Floats]] = {name: [] for name in self.values}
        for c, ranking in self.rankings.items():
            ranked = ranking.of(weights)
            rarer = np.minimum(ranked.positives, ranked.negatives)
            for name, values, deciding in (
                ("auroc", ranked.auroc, rarer),
                ("average_precision", ranked.average_precision, ranked.positives),
            ):
                drawn.add((name, c), values, deciding / size)
                found[name].append(values)
        for name, by_class in found.items():
            if by_class and self.only is None:
                drawn.add(name, np.mean(by_class, axis=0), self.n_deciding[name] * weights.mean(axis=0) / size)

    def means(self, drawn: _ShareDraws) -> dict[str, Interval]:
        """The means over classes, or those of the one that stands for both."""
        if self.only is not None:
            alone = {name: self.interval(drawn, name, self.only) for name in self.values}
            return {name: one for name, one in alone.items() if one is not None}
        means = {name: float(np.mean(list(by_class.values()))) for name, by_class in self.values.items() if by_class}
        return {name: drawn.percent(name, value) for name, value in means.items()}

    def interval(self, drawn: _ShareDraws, name: str, c: int) -> Interval | None:
        """Of one class; None where it has no value."""
        return drawn.percent((name, c), self.values[name][c]) if c in self.values[name] else None


class _ProbabilityBins:
    """Predictions in bins of their probability."""

    def __init__(self, confidence: Floats, correct: NDArray[np.bool_], n_bins: int) -> None:
        self.n_bins = n_bins
        self.order = np.argsort(confidence, kind="stable")
        self.confidence, self.correct = confidence[self.order], correct[self.order]
        self.numbers = np.clip(np.ceil(self.confidence * n_bins).astype(np.int64) - 1, 0, n_bins - 1)
        sizes = [len(part) for part in np.array_split(self.order, min(n_bins, len(self.order)))]
        self.starts = {
            "calibration_error": np.unique(self.numbers, return_index=True)[1],
            "adaptive_calibration_error": np.concatenate([[0], np.cumsum(sizes)[:-1]]),
        }
        off = (self.confidence - self.correct)[:, None] / len(self.order)
        self.values = {name: float(one[0]) for name, one in self._sums(off).items()}

    def errors(self, weights: Floats) -> dict[str, Floats]:
        """Both errors with these weights (n, n_drawn), as shares (n_drawn,)."""
        off = weights[self.order] * (self.confidence - self.correct)[:, None]
        return {name: sums / weights.sum(axis=0) for name, sums in self._sums(off).items()}

    def by_chance(self, n_draws: int, seed: int) -> dict[str, Floats]:
        """Both errors, (n_draws,), if every prediction were right with its own probability."""
        random, n = np.random.default_rng([seed, 2]), len(self.order)
        drawn: dict[str, list[Floats]] = {name: [] for name in self.starts}
        for n_drawn in _blocks(n, n_draws):
            right = random.random((n, n_drawn)) < self.confidence[:, None]
            for name, sums in self._sums((self.confidence[:, None] - right) / n).items():
                drawn[name].append(sums)
        return {name: np.concatenate(parts) for name, parts in drawn.items()}

    def table(self) -> tuple[ProbabilityBin, ...]:
        """The bins of equal widths."""
        bins = []
        for number in range(self.n_bins):
            inside = self.numbers == number
            n = int(inside.sum())
            bins.append(
                ProbabilityBin(
                    low=number / self.n_bins,
                    high=(number + 1) / self.n_bins,
                    n=n,
                    confidence=float(self.confidence[inside].mean()) if n else None,
                    accuracy=float(self.correct[inside].mean()) if n else None,
                )
            )
        return tuple(bins)

    def _sums(self, off: Floats) -> dict[str, Floats]:
        return {name: np.abs(np.add.reduceat(off, starts, axis=0)).sum(axis=0) for name, starts in self.starts.items()}


def _blocks(n: int, n_draws: int) -> Iterator[int]:
    """Numbers of draws at a time."""
    block = max(1, _AT_A_TIME // n)
    for start in range(0, n_draws, block):
        yield min(block, n_draws - start)


def _p_value(value: float, chance: Floats) -> float:
    return float((1 + (chance >= value).sum()) / (1 + len(chance)))


def _images_per_group(n: int, unit_of: Indices | None) -> float:
    return 1.0 if unit_of is None else n / (int(unit_of.max()) + 1)


def _error(wrong: NDArray[np.bool_], unit_of: Indices | None, n_draws: int, *, among: Any = slice(None)) -> Interval:
    """The share of some images that are wrong, in percent."""
    some = wrong[among]
    if not n_draws:
        return _without_ends(100 * float(some.mean()))
    return compute_error_interval(some, groups=None if unit_of is None else unit_of[among])


def _without_ends(value: float) -> Interval:
    return Interval(value=value, ci_low=None, ci_high=None)


def _metrics_document(metrics: dict[str, Interval]) -> dict[str, Any]:
    return {
        name: asdict(one) | {"unit": UNITS[name], "higher_is_better": name in HIGHER_IS_BETTER}
        for name, one in metrics.items()
    }


def _absences(counts: NDArray[Any], n: int, names: Sequence[str], *, what: str) -> dict[str, str]:
    """Classes that none or all of the images have, by what they lack."""
    plural = "classes" if what == "class" else "tags"
    found = {}
    for number, who in ((0, "no image has"), (n, "all images have")):
        some = [name for name, count in zip(names, counts.tolist(), strict=True) if count == number]
        if some:
            listed = ", ".join(map(repr, some[:5])) + (", ..." if len(some) > 5 else "")
            found[f"{what if len(some) == 1 else plural} that {who}"] = f"{len(some):,} of {len(names):,}: {listed}"
    return found


def _probabilities(values: ArrayLike) -> Floats:
    p = check_finite_numbers(values, name="The probability", n_axes=2)
    _require_shares(p)
    sums = p.sum(axis=1)
    off = np.flatnonzero(np.abs(sums - 1) > _SUM_OFF)
    if p.shape[1] < 2 or off.size:
        got = f"{p.shape[1]} a row" if p.shape[1] < 2 else f"{sums[off[0]]:.4g} in the sum for row {off[0]}"
        raise DataError(f"The probabilities are {got}; expected those of two classes or more, which add up to 1.")
    return p


def _require_shares(p: Floats) -> None:
    if not len(p) or not p.shape[1]:
        raise DataError(f"The probabilities have the shape {p.shape}; expected one row per image, and an image.")
    out = np.argwhere((p < 0) | (p > 1))
    if len(out):
        row, column = (int(place) for place in out[0])
        raise DataError(
            f"The probability of row {row}, column {column} is {p[row, column]:.4g}; expected numbers from 0 to 1, so "
            "pass logits through a softmax first."
        )


def _labels_of(labels: ArrayLike, n: int, k: int) -> Indices:
    y = np.asarray(labels)
    if y.dtype.kind not in "iu" or y.shape != (n,):
        raise DataError(f"The labels are {y.dtype} of shape {y.shape}; expected whole numbers of shape ({n},).")
    if y.min() < 0 or y.max() >= k:
        raise DataError(f"The labels are from {y.min()} to {y.max()}; expected 0 to {k - 1}, one per class.")
    return y.astype(np.int64)


def _indicators(indicators: ArrayLike, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    y = np.asarray(indicators)
    if y.shape != shape or y.dtype.kind not in "biuf" or not np.isin(y, (0, 1)).all():
        raise DataError(
            f"The indicators are {y.dtype} of shape {y.shape}; expected 0 or 1 of shape {shape}, as the probabilities."
        )
    return y.astype(bool)


def _names(names: Sequence[str], k: int, what: str) -> tuple[str, ...]:
    if len(names) not in (0, k):
        raise DataError(f"Got {len(names)} names of {what} and probabilities of {k}; expected one name for each.")
    return tuple(names) or tuple(map(str, range(k)))


def _check_numbers(n_draws: int, n_bins: int) -> None:
    for what, number, least in (("draws", n_draws, 0), ("bins", n_bins, 1)):
        if number < least:
            raise QueryError(f"Asked for {number} {what}; expected at least {least}.")
