"""Metrics of predicted masks and of predicted depth, with 95 % intervals over images.

What is kept is a few sums per image, of which every metric is a function, so that the bootstrap weights of
:mod:`.bootstrap` give its draws; those of two results on the same images are of the same resamples, and their
differences are paired.

``miou`` is the mean, over the classes that the test masks hold, of intersection over union, each over the pixels of all
images together (as of PASCAL VOC and ADE20K; not a mean over images). A class that no test mask holds is not in it;
pixels that are wrongly given to it count against the classes that they are of.

References
----------
M. Everingham et al. 2010, The Pascal Visual Object Classes (VOC) Challenge (intersection over union).
F. Perazzi et al. 2016, A Benchmark Dataset and Evaluation Methodology for Video Object Segmentation (boundary F1, and a
tolerance of .008 of the diagonal); G. Csurka et al. 2013, What is a Good Evaluation Measure for Semantic Segmentation?
D. Eigen et al. 2014, Depth Map Prediction from a Single Image (errors of depth, and the threshold of 1.25).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ..cards.answers import AnswerColumn, AnswerTable, make_interval_columns
from ..errors import DataError, QueryError
from ..optional import require_extra
from .bootstrap import N_DRAWS, Interval, compute_interval, draw_image_weights, number_groups

with require_extra("evaluate", needed_for="Metrics of masks"):
    import numpy as np
    from scipy.ndimage import binary_erosion, distance_transform_edt
    from scipy.special import stdtrit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

BOUNDARY_SHARE = 0.008  # of the diagonal, that boundaries may be apart
DEPTH_RATIO = 1.25  # within which a depth counts as right
PERCENT = {"miou": "mIoU %", "pixel_accuracy": "pixel accuracy %", "boundary_f1": "boundary F1 %"}
DEPTH_NAMES = {"rmse": "RMSE", "absolute_relative": "absolute relative error", "within_ratio": "within 1.25, %"}
_NORMAL_END = 1.959963984540054  # the 97.5 % point of a standard normal
_LOWER_IS_BETTER = ("rmse", "absolute_relative")


def count_confusions(predicted: Any, labels: Any, valid: Any, n_classes: int) -> NDArray[np.int64]:
    """Valid pixels by class of the mask and by predicted class, int64 (n_classes, n_classes).

    >>> count_confusions(np.array([[0, 1]]), np.array([[1, 1]]), np.array([[True, True]]), 2).tolist()
    [[0, 0], [1, 1]]
    """
    both = np.asarray(labels)[valid].astype(np.int64) * n_classes + np.asarray(predicted)[valid]
    return np.bincount(both, minlength=n_classes * n_classes).reshape(n_classes, n_classes)


def compute_boundary_f1(predicted: Any, labels: Any, valid: Any, *, share: float = BOUNDARY_SHARE) -> float:
    """F1 of the boundaries of the classes of one mask, their mean from 0 to 1; NaN where the mask has no boundary.

    A pixel of a boundary is right if the other mask has a boundary of its class within ``share`` of the diagonal,
    rounded up to whole pixels. The edge of the image and of pixels that are not valid are no boundaries.

    >>> labels = np.arange(64).reshape(8, 8) % 8 > 3
    >>> compute_boundary_f1(labels, labels, np.ones((8, 8), bool))
    1.0
    """
    tolerance = math.ceil(share * math.hypot(*labels.shape))
    found = []
    for c in np.unique(labels[valid]):
        wanted, given = (_find_boundary(one == c, valid) for one in (labels, predicted))
        if not wanted.any():
            continue
        if not given.any():
            found.append(0.0)
            continue
        precision = (distance_transform_edt(~wanted)[given] <= tolerance).mean()
        recall = (distance_transform_edt(~given)[wanted] <= tolerance).mean()
        found.append(float(2 * precision * recall / max(precision + recall, 1e-12)))
    return float(np.mean(found)) if found else math.nan


def _find_boundary(inside: Any, valid: Any) -> Any:
    """Pixels of a class that touch another one, by an edge."""
    return inside & valid & ~binary_erosion(inside | ~valid, border_value=1)


@dataclass(frozen=True, kw_only=True, eq=False)
class DenseResult:
    """Sums of each test image, and the metrics that are functions of them, with intervals over images or groups."""

    name: str  # of what was measured: encoder, layers, size
    sums: Floats  # (n_images, k)
    groups: Any = None  # (n_images,): images of one group are resampled together
    n_train: int = 0  # images that the probe learned from
    report: dict[str, Any] = field(default_factory=dict)  # of the probe
    n_draws: int = N_DRAWS
    seed: int = 0

    def _measure(self, sums: Floats) -> dict[str, Floats]:
        """Each metric of sums over images (n_draws, k): float64 (n_draws,)."""
        raise NotImplementedError

    @property
    def n_images(self) -> int:
        """Test images."""
        return len(self.sums)

    @cached_property
    def values(self) -> dict[str, float]:
        """Each metric as measured."""
        return {name: float(one[0]) for name, one in self._measure(self.sums.sum(axis=0)[None]).items()}

    @cached_property
    def draws(self) -> dict[str, Floats]:
        """Bootstrap draws of each metric, (n_draws,); draw d of two results on the same images is of one resample."""
        groups = number_groups(self.groups, self.n_images)
        blocks = [
            self._measure(weights.T @ self.sums)
            for weights in draw_image_weights(self.n_images, groups, self.n_draws, seed=self.seed)
        ]
        return {name: np.concatenate([one[name] for one in blocks]) for name in self.values}

    @cached_property
    def metrics(self) -> dict[str, Interval]:
        """Each metric with its 95 % interval."""
        return {
            name: _compute_widened_interval(value, self.draws[name], self.left_out[name], **self._bounds(name))
            for name, value in self.values.items()
        }

    @cached_property
    def left_out(self) -> dict[str, Floats]:
        """Each metric without one of the images, or groups: (n_units,)."""
        groups = number_groups(self.groups, self.n_images)
        sums = self.sums
        if groups is not None:
            sums = np.stack([np.bincount(groups, weights=column) for column in sums.T], axis=1)
        return self._measure(sums.sum(axis=0) - sums) if len(sums) > 1 else self._measure(sums)

    def _bounds(self, name: str) -> dict[str, float]:
        """The least and the most that a metric can be."""
        is_percent = name in PERCENT or name.startswith("iou ") or name == "within_ratio"
        return {"least": 0.0, "most": 100.0 if is_percent else np.inf}

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        ends = {
            name: {"value": one.value, "ci_low": one.ci_low, "ci_high": one.ci_high}
            for name, one in self.metrics.items()
        }
        return {"name": self.name, "n_train": self.n_train, "n_images": self.n_images, "metrics": ends}


@dataclass(frozen=True, kw_only=True, eq=False)
class SegmentationResult(DenseResult):
    """Metrics of predicted masks, in percent; higher is better.

    Sums are, of each class, the pixels in both, in the prediction and in the mask, (3, n_classes); then boundary F1, 0
    where not computed, and whether the image has one. ``metrics`` has ``miou``, ``pixel_accuracy``, ``boundary_f1`` if
    it was asked for (the mean over images that have boundaries), and ``iou CLASS`` of each class that the test masks
    hold.
    """

    classes: tuple[str, ...]
    confusion: NDArray[np.int64]  # (n_classes, n_classes): pixels of all test images by class and predicted class

    @cached_property
    def image_ious(self) -> Floats:
        """Mean over the classes of each image's mask of their intersection over union in it, percent (n_images,)."""
        inside, predicted, actual = self._split(self.sums)
        ious = inside / np.maximum(predicted + actual - inside, 1)
        return np.asarray(100 * (ious * (actual > 0)).sum(axis=1) / np.maximum((actual > 0).sum(axis=1), 1))

    def _split(self, sums: Floats) -> tuple[Floats, Floats, Floats]:
        k = len(self.classes)
        return sums[:, :k], sums[:, k : 2 * k], sums[:, 2 * k : 3 * k]

    def _measure(self, sums: Floats) -> dict[str, Floats]:
        inside, predicted, actual = self._split(sums)
        there = np.flatnonzero(self._split(self.sums)[2].sum(axis=0) > 0)
        ious = 100 * inside[:, there] / (predicted + actual - inside)[:, there]
        found = {"miou": ious.mean(axis=1), "pixel_accuracy": 100 * inside.sum(axis=1) / actual.sum(axis=1)}
        if self.sums[:, -1].any():
            found["boundary_f1"] = 100 * sums[:, -2] / sums[:, -1]
        return found | {f"iou {self.classes[c]}": ious[:, place] for place, c in enumerate(there)}

    def build_tables(self) -> list[AnswerTable]:
        """The metrics of all classes together, and the intersection over union of each."""
        return [build_result_table([self]), self._build_class_table()]

    def _build_class_table(self) -> AnswerTable:
        names = [name for name in self.metrics if name.startswith("iou ")]
        pixels = dict(zip(self.classes, self.confusion.sum(axis=1).tolist(), strict=True))
        columns = [
            AnswerColumn("class", [name.removeprefix("iou ") for name in names], key="class"),
            *make_interval_columns((self.metrics[name] for name in names), "IoU %", key="iou_percent"),
            AnswerColumn("pixels", [pixels[name.removeprefix("iou ")] for name in names], key="n_pixels"),
        ]
        absent = [name for name, n in pixels.items() if not n]
        notes = [f"no test mask holds {', '.join(absent)}, so that the mean is without"] if absent else []
        return AnswerTable(columns=columns, title=f"Classes, {self.name}", notes=notes)


@dataclass(frozen=True, kw_only=True, eq=False)
class DepthResult(DenseResult):
    """Errors of predicted depth over all valid pixels of the test images.

    ``metrics`` has ``rmse``, in ``unit``, lower is better; and, where all depths are above 0, ``absolute_relative``,
    the mean of abs(predicted - depth) / depth, lower is better, and ``within_ratio``, the percentage of pixels whose
    larger of predicted / depth and depth / predicted is below 1.25.

    ``sums`` (n_images, 4): squared errors, relative errors, pixels within the ratio, valid pixels.
    """

    unit: str = ""
    is_positive: bool = True

    def _measure(self, sums: Floats) -> dict[str, Floats]:
        n = sums[:, 3]
        found = {"rmse": np.sqrt(sums[:, 0] / n)}
        if self.is_positive:
            found |= {"absolute_relative": sums[:, 1] / n, "within_ratio": 100 * sums[:, 2] / n}
        return found

    def build_tables(self) -> list[AnswerTable]:
        """The errors."""
        return [build_result_table([self])]


def measure_depth_errors(predicted: Any, depth: Any, valid: Any) -> Floats:
    """What :class:`DepthResult` keeps of an image: float64 (4,)."""
    wanted, given = (np.asarray(one)[valid].astype(np.float64) for one in (depth, predicted))
    error = np.abs(given - wanted)
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = float((error / np.abs(wanted)).sum())
        is_near = (given < DEPTH_RATIO * wanted) & (wanted < DEPTH_RATIO * given)
    return np.array([float(np.square(error).sum()), relative, float(is_near.sum()), float(wanted.size)])


def _compute_widened_interval(
    value: float, draws: Floats, left_out: Floats, *, least: float = -np.inf, most: float = np.inf
) -> Interval:
    """The interval of draws that are as much further from the value as few images know their variance poorly.

    A class in few masks hangs on those. By the variance of the variance of what each image adds, v_i (from leaving it
    out), there are nu = 2 / (sum v^4 / (sum v^2)^2 - 1 / n) degrees of freedom (Satterthwaite 1946), so that 1.96
    standard errors become Student's t; and Bayesian weights have a variance that is smaller by about nu / (nu + 2).
    """
    v = left_out[np.isfinite(left_out)]
    v = v - v.mean() if len(v) else v
    total = float(np.square(v).sum())
    if total > 0 and len(v) > 1:
        excess = float((v**4).sum()) / total**2 - 1 / len(v)
        nu = min(max(2 / excess if excess > 0 else len(v), 1.0), len(v) - 1.0)
        draws = value + (draws - value) * float(stdtrit(nu, 0.975)) / _NORMAL_END * np.sqrt((nu + 2) / nu)
    return compute_interval(value, np.clip(draws, least, most))


def compare_results(results: Sequence[DenseResult], metric: str) -> dict[str, Interval]:
    """How far each result is behind the best of them in a metric, by name, with 95 % intervals over the same images.

    Positive: worse by so much, in the unit of the metric; the best is compared with the second, so that its difference
    is negative. Intervals are of single pairs, paired by image. DataError if they are not of equally many images with
    the same groups and draws; QueryError if one does not have the metric.
    """
    if missing := [one.name for one in results if metric not in one.values]:
        raise QueryError(f"{missing[0]!r} has no {metric!r}; expected one of {', '.join(results[0].values)}.")
    if len({(one.n_images, one.n_draws, one.seed) for one in results}) > 1:
        raise DataError("Results on different test images, or of different draws, cannot be compared image by image.")
    sign = 1 if metric in _LOWER_IS_BETTER else -1
    ordered = sorted(results, key=lambda one: sign * one.values[metric])
    found = {}
    for one in results:
        other = ordered[0] if one is not ordered[0] else ordered[min(1, len(ordered) - 1)]
        draws, left_out = one.draws[metric] - other.draws[metric], one.left_out[metric] - other.left_out[metric]
        value = sign * (one.values[metric] - other.values[metric])
        found[one.name] = _compute_widened_interval(value, sign * draws, sign * left_out)
    return found


def build_result_table(results: Sequence[DenseResult], *, title: str = "") -> AnswerTable:
    """A row per result, the best first, and how far the others are behind it in the first metric."""
    metrics = [name for name in results[0].values if not name.startswith("iou ")]
    sign = 1 if metrics[0] in _LOWER_IS_BETTER else -1
    ordered = sorted(results, key=lambda one: sign * one.values[metrics[0]])
    columns = [AnswerColumn("maps", [one.name for one in ordered], key="name")]
    for name in metrics:
        is_percent = name in PERCENT or name == "within_ratio"
        heading = (PERCENT | DEPTH_NAMES)[name]
        columns += make_interval_columns(
            (one.metrics.get(name) for one in ordered),
            heading,
            key=f"{name}_{'percent' if is_percent else 'value'}",
            digits=1 if is_percent else 3,
        )
    if len(ordered) > 1:
        behind = compare_results(ordered, metrics[0])
        lost: list[Any] = [None, *(behind[one.name] for one in ordered[1:])]
        digits = 1 if metrics[0] in PERCENT else 3
        columns += make_interval_columns(lost, "behind", key="behind_points", between="paired interval", digits=digits)
    n = ordered[0].n_images
    about = f"{ordered[0].n_train:,} training and {n:,} test images"
    return AnswerTable(columns=columns, title=title or ordered[0].name, about=f": {about}")
