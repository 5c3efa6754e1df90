"""Spectral metrics, LiDAR and alignment of an encoder while it trains: two lines in the loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...errors import DataError, MissingExtra, QueryError
from ...optional import requires_extra
from ..arrays import Array
from .arrays import require_finite, require_number, tensor_of
from .rank import CERTAIN, alpha_req, correlation_rank, effective_rank, feature_rank
from .spectrum import Gram, Moments, Spectrum, mirrored

with requires_extra("models", needed_for="Following the metrics of a run"):
    import numpy as np
    import torch

_LARGEST_ERROR = 0.1  # relative error of a metric above which it has no value
_ROUNDOFF = {"bfloat16": 2.0**-8, "float16": 2.0**-11, "float32": 2.0**-24, "float64": 2.0**-53}


class Monitor:
    """Spectral metrics, and with views LiDAR and alignment, of all features since the last :meth:`reset`.

    It keeps float64 sums only: of features (n, dim) one matrix, of views (n_images, n_views, dim) one of their
    deviations from the mean of their image and one of these means. A matrix takes 8 dim**2 bytes (34 MB for 2,048
    features) on the device of the first batch, where the products are made; on a GPU only the first update,
    :meth:`compute` and :meth:`state` wait for the device. Singular values are resolved down to about 1e-6 of the
    largest, and :attr:`notes` names the metrics for which that is not enough.

    Parameters
    ----------
    eps : float
        Of :func:`zoo.evaluation.label_free.rankme` and :func:`zoo.evaluation.label_free.lidar`.
    delta : float
        Of :func:`zoo.evaluation.label_free.lidar`, in squared units of the features.
    alpha : float
        Power of the distance in :func:`zoo.evaluation.label_free.alignment`, above 0.
    first, last : int
        Ranks that :func:`alpha_req` fits.

    Attributes
    ----------
    notes : dict of str to str
        After :meth:`compute`: by metric, why it has no value, its relative error where that is above 1e-5, and
        remarks of the metric.

    Raises
    ------
    QueryError
        If alpha is not above 0.

    Examples
    --------
    >>> monitor = Monitor()
    >>> for step in range(3):
    ...     monitor.update(np.random.default_rng(step).normal(size=(40, 4)))
    >>> monitor.compute()["feature_rank"]
    4.0
    """

    def __init__(
        self,
        *,
        eps: float = 1e-7,
        delta: float = 0.0,
        alpha: float = 2.0,
        first: int = 4,
        last: int | None = None,
    ) -> None:
        require_number(alpha, "alpha", above=0)
        self.eps, self.delta, self.alpha = eps, delta, alpha
        self.first, self.last = first, last
        self.reset()

    def reset(self) -> None:
        """Forget all features."""
        self.notes: dict[str, str] = {}
        self._rows = Gram()  # features, or deviations of views from the mean of their image
        self._means = Gram()  # of images, empty without views
        self._distances = torch.zeros((), dtype=torch.float64)
        self._lengthless = torch.zeros((), dtype=torch.float64)  # views that are 0 and have no direction
        self._by_precision = torch.zeros(len(_ROUNDOFF), dtype=torch.float64)  # images that came in each type

    @torch.inference_mode(False)  # tensors that are made in it cannot be changed outside of it
    @torch.no_grad()
    def update(self, batch: Any) -> None:
        """Add features (n, dim), or views (n_images, n_views, dim): a tensor of any device, or an array.

        Refuses NaN (on a GPU :meth:`compute` does), and features after views or another number of views than before.
        """
        if not hasattr(batch, "shape"):
            batch = np.asarray(batch)
        shape = tuple(batch.shape)
        if len(shape) not in (2, 3) or 0 in shape[1:] or (len(shape) == 3 and shape[1] < 2):
            raise DataError(
                f"A batch has the shape {shape}, expected features (n, dim), or views (n_images, n_views, dim) with at "
                "least 2 views of each image."
            )
        known = self.n_views if self._rows.count else None
        if known not in (None, 1 if len(shape) == 2 else shape[1]):
            raise DataError(
                f"A batch has the shape {shape}, but those before it had {known} view{'s' * (known != 1)} of each "
                "image: use one monitor for each kind."
            )
        if len(shape) == 2:
            self._rows.update(batch)
        elif shape[0]:
            self._add_views(batch, *shape)

    def compute(self) -> dict[str, float]:
        """The metrics by name; one that has no value is missing, and :attr:`notes` says why.

        Of features: rankme, feature_rank, correlation_rank, alpha_req. Of views the same of all views together, which
        makes rankme the same as rankme_augmented, and lidar, and the alignment of normalised views. Refuses a monitor
        without features, or with NaN among them.
        """
        moments = self._all_rows()
        spectrum = Spectrum(moments)
        self.notes, found = {}, dict[str, float]()
        metrics: dict[str, Callable[[], float]] = {
            "rankme": lambda: self._rankme(spectrum),
            "feature_rank": lambda: feature_rank(spectrum),
            "correlation_rank": lambda: _correlation_rank(spectrum),
            "alpha_req": lambda: alpha_req(spectrum, first=self.first, last=self.last).value,
        }
        if self._means.count:
            metrics |= {"lidar": self._lidar, "alignment": self._alignment}
        for name, metric in metrics.items():
            try:
                found[name] = metric()
            except (DataError, QueryError, MissingExtra) as error:
                self.notes[name] = str(error)
        if self._means.count:
            for known in (known for known in (found, self.notes) if "rankme" in known):
                known["rankme_augmented"] = known["rankme"]  # type: ignore[assignment]
        return found

    @property
    def n_rows(self) -> int:
        """Features, or views, since the last reset."""
        return self._rows.count

    @property
    def n_views(self) -> int:
        """Of each image; 1 for features."""
        return self._rows.count // self._means.count if self._means.count else 1

    def covariances(self) -> tuple[Array, Array]:
        """Unbiased covariance of views around the mean of their image, and of these means: float64 (dim, dim) each."""
        n_images = self._means.count
        if n_images < 2:
            raise DataError(
                f"Views of {n_images} image{'s' * (n_images != 1)} were seen, expected 2 or more: update with arrays "
                "(n_images, n_views, dim)."
            )
        within, between = self._rows.moments(), self._means.moments()
        return (
            mirrored(within.second_moment * (within.unit**2 / (self.n_rows - n_images))).cpu().numpy(),
            mirrored(between.scatter * (between.unit**2 / (n_images - 1))).cpu().numpy(),
        )

    def merge(self, other: Monitor) -> None:
        """Add what the monitor of another process has seen: one that was pickled, or made by :meth:`from_state`."""
        if self._rows.count and other._rows.count and self.n_views != other.n_views:
            raise DataError(
                f"Monitors of {self.n_views} and of {other.n_views} views of each image were to be merged, expected "
                "the same number."
            )
        self._rows.merge(other._rows)
        self._means.merge(other._means)
        self._distances = self._distances + other._distances.to(self._distances.device)
        self._lengthless = self._lengthless + other._lengthless.to(self._lengthless.device)
        self._by_precision += other._by_precision

    def state(self) -> dict[str, Array]:
        """Float64 arrays that processes may add up, each to its own, for example by ``all_reduce``.

        Every process has to have seen something. :meth:`.spectrum.Gram.state` describes the precision of such sums.
        """
        sums = {
            "distances": self._distances.cpu().numpy(),
            "lengthless": self._lengthless.cpu().numpy(),
            "by_precision": self._by_precision.numpy(),
        }
        for name, gram in (("rows", self._rows), ("means", self._means)):
            if gram.count or name == "rows":
                sums |= {f"{name}.{key}": value for key, value in gram.state().items()}
        return sums

    @classmethod
    def from_state(cls, state: Mapping[str, Any], **options: Any) -> Monitor:
        """A monitor with the sums that :meth:`state` returned, of one process or added over several."""
        new = cls(**options)
        if missing := {"distances", "lengthless", "by_precision"} - state.keys():
            raise DataError(f"The state has no {', '.join(sorted(missing))}: pass what state() returned, or its sums.")
        for name in ("rows", "means"):
            sums = {key.partition(".")[2]: value for key, value in state.items() if key.startswith(f"{name}.")}
            if sums:
                setattr(new, f"_{name}", Gram.from_state(sums))
        new._distances, new._lengthless = (
            torch.tensor(np.asarray(state[name]), dtype=torch.float64) for name in ("distances", "lengthless")
        )
        new._by_precision = torch.tensor(np.asarray(state["by_precision"]), dtype=torch.float64)
        return new

    def _add_views(self, batch: Any, n_images: int, n_views: int, dim: int) -> None:
        kind = str(getattr(batch, "dtype", "float64")).rpartition(".")[2]
        self._by_precision[list(_ROUNDOFF).index(kind if kind in _ROUNDOFF else "float64")] += n_images
        rows = tensor_of(batch.reshape(n_images * n_views, dim), "the batch")
        if rows.device.type == "cpu":
            require_finite(rows, self.n_rows, "the views so far")
        views = rows.double().reshape(n_images, n_views, dim)
        means = views[:, 0] + (views - views[:, :1]).mean(dim=1)  # exact where views are equal
        self._means.update(means)
        self._rows.update((views - means[:, None]).reshape(-1, dim))
        largest = views.abs().amax(dim=2, keepdim=True)
        units = views / torch.where(largest > 0, largest, torch.ones_like(largest))  # so that no square overflows
        units = units / torch.linalg.vector_norm(units, dim=2, keepdim=True).clamp_min(1)
        distances = torch.stack([(units - units.roll(step, 1)).norm(dim=2) for step in range(1, n_views)])
        self._distances = self._distances.to(rows.device) + distances.pow(self.alpha).mean(dim=(0, 2)).sum()
        self._lengthless = self._lengthless.to(rows.device) + (largest == 0).sum()

    def _all_rows(self) -> Moments:
        """Moments of all rows; of views from the sums within and between images."""
        rows = self._rows.moments()
        if not self._means.count:
            return rows
        means = self._means.moments()
        unit = max(rows.unit, means.unit)
        inside, between = (rows.unit / unit) ** 2, (means.unit / unit) ** 2 * self.n_views
        within = rows.error_as_they_are * inside
        return Moments(
            count=rows.count,
            unit=unit,
            mean=means.mean * (means.unit / unit),
            scatter=rows.second_moment * inside + means.scatter * between,
            error=within + means.error * between,
            error_as_they_are=within + means.error_as_they_are * between,
        )

    def _rankme(self, spectrum: Spectrum) -> float:
        found = effective_rank(spectrum, eps=self.eps)
        self._check_error("rankme", found.relative_error, "many singular values are below the rounding of sums")
        return found.value

    def _lidar(self) -> float:
        from .scatter import lidar_of_covariances

        within, between = self.covariances()
        deviations, rows = self._rows.moments(), self._all_rows()
        size = (rows.second_moment.diagonal() / rows.count).clamp_min(0).sqrt().cpu().numpy() * rows.unit
        error = deviations.error_as_they_are.cpu().numpy() * (deviations.unit**2 / (self.n_rows - self._means.count))
        found, relative_error = lidar_of_covariances(
            within,
            between,
            n_images=self._means.count,
            n_views=self.n_views,
            delta=self.delta,
            eps=self.eps,
            rounding=self._roundoff() * size,
            error=error,
        )
        self._check_error(
            "lidar", relative_error, "in some direction views of an image differ by hardly more than rounding of sums"
        )
        if found.notes:
            self.notes["lidar"] = " ".join([*found.notes, *filter(None, [self.notes.get("lidar")])])
        return found.value

    def _check_error(self, metric: str, relative_error: float, reason: str) -> None:
        """Note that a metric is less certain than usual, or refuse it."""
        if relative_error > _LARGEST_ERROR:
            raise DataError(f"The value would be certain to {relative_error:.0e} only, for {reason}.")
        if relative_error > CERTAIN:
            self.notes[metric] = f"The value is certain to {relative_error:.0e} only, for {reason}."

    def _roundoff(self) -> float:
        """The coarsest relative rounding of the batches so far."""
        seen = self._by_precision.tolist()
        return max((unit for unit, count in zip(_ROUNDOFF.values(), seen, strict=True) if count), default=0.0)

    def _alignment(self) -> float:
        if float(self._lengthless):
            raise DataError(
                f"{int(self._lengthless)} views are all 0 and have no direction, so that alignment of normalised "
                "features is not defined."
            )
        return float(self._distances) / self._means.count


def _correlation_rank(spectrum: Spectrum) -> float:
    found = correlation_rank(spectrum)
    if found.n_uncertain:
        raise DataError(
            f"{found.n_uncertain} eigenvalues of the correlation matrix are too close to the threshold for the "
            "precision of sums."
        )
    return found.value
