"""Spectral metrics: how many dimensions features use, from their singular values, at once or while an encoder trains.

Singular values are those of the triangular factor of the rows, which is found block by block without squaring: good to
1e-13 of the largest. From the sums of a :class:`Monitor` they are good to 1e-6 of it, and smaller ones count as 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from ...errors import DataError, MissingExtra, QueryError
from ...optional import require_extra
from ..arrays import Array
from ..eigen import compute_svdvals
from .arrays import (
    Gram,
    check_views,
    compute_moment_root,
    compute_triangular_factor,
    convert_to_tensor,
    iterate_batches,
    make_collapsed_error,
    require_number,
    require_rows,
)

with require_extra("models", needed_for="A label-free metric"):
    import numpy as np
    import torch
    from torch import Tensor

# Descriptions: singular values of the features, of the features less their mean, and of those over their standard
# deviation times the root of n, whose squares are the eigenvalues of the correlation matrix.
AS_THEY_ARE, CENTRED, STANDARDISED = "as they are", "centred", "standardised"

_OF_SUMS = 1e-6  # of the largest singular value: what sums resolve
_LAST_RANK, _LEAST_RANKS = 100, 3  # that alpha-ReQ fits
_NULL = 1e-5  # singular values up to this share of the largest count as 0
_LEAST_SHARE_OF_RANKS = 0.9  # that alpha-ReQ still fits when it leaves out a null tail
_NOISE = 2.0**-46  # relative size of singular values that rounding makes of zeros
_ROUNDOFF = {"bfloat16": 2.0**-8, "float16": 2.0**-11, "float32": 2.0**-24}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Spectrum:
    """What all spectral metrics of ``n`` rows need, made in one pass over them."""

    n: int
    mean: Tensor  # float64 (dim,)
    root: Tensor  # R (k, dim) with R'R the scatter of the rows
    constant: Tensor  # bool (dim,): features that never change
    resolution: float  # of the stored numbers, relative
    floor: float = 0.0  # share of the largest singular value below which the others count as 0
    _known: dict[str, Array] = field(default_factory=dict)

    @property
    def dim(self) -> int:
        return len(self.mean)

    def values(self, of: str, *, least: int = 2, needed_for: str) -> Array:
        """Singular values, descending, float64 (k,); refuses fewer than ``least`` rows, or equal ones."""
        require_rows(self.n, least, "z", needed_for=needed_for)
        if bool(self.constant.all()):
            raise make_collapsed_error(self.n, "z", needed_for, self.mean.cpu().numpy())
        if of not in self._known:
            matrix = self.root
            if of == AS_THEY_ARE:
                matrix = torch.cat([matrix, math.sqrt(self.n) * self.mean[None]])
            elif of == STANDARDISED:
                lengths = torch.linalg.vector_norm(matrix, dim=0)
                varying = ~self.constant & (lengths > 0)
                matrix = matrix[:, varying] / lengths[varying]
            found = compute_svdvals(matrix).cpu().numpy()
            found[found < self.floor * found[0]] = 0.0
            self._known[of] = found[: min(self.n - (of != AS_THEY_ARE), self.dim)]
        return self._known[of]


@torch.no_grad()
def compute_spectrum(z: Any, name: str = "z") -> Spectrum:
    """Features ready for spectral metrics, all of which share one pass over them.

    ``z`` is an array, a tensor or :attr:`zoo.features.Features.x` (n, dim), which may be larger than memory, or an
    iterator of batches.

    >>> compute_spectrum(torch.eye(3).double()).dim
    3
    """
    if isinstance(z, Spectrum):
        return z
    n, resolution = 0, 0.0
    first = varies = torch.empty(0)

    def moved() -> Iterator[Tensor]:  # less the first row, so that a large mean costs no digits
        nonlocal n, resolution, first, varies
        for rows in iterate_batches(z, name):
            resolution = max(resolution, torch.finfo(rows.dtype).eps)
            if not n:
                first = rows[0].double()
                varies = torch.zeros_like(first, dtype=torch.bool)
            wide = rows.double() - first
            varies |= (wide != 0).any(dim=0)
            n += len(rows)
            yield torch.cat([torch.ones_like(wide[:, :1]), wide], dim=1)

    # the column of ones takes the mean, and the rest of the factor is that of the centred rows
    factor = compute_triangular_factor(moved())
    mean = first + factor[0, 1:] / factor[0, 0]
    return Spectrum(n=n, mean=mean, root=factor[1:, 1:], constant=~varies, resolution=resolution)


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrelationRank:
    """Rank of the correlation matrix."""

    value: float
    threshold: float  # an eigenvalue counts above it
    n_constant: int  # features that never change: they have no correlation and add nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerLaw:
    """A power law fitted to eigenvalues: the one of rank i falls as ``i ** -value``."""

    value: float
    r_squared: float  # share of the weighted variance of the logarithms that the line explains
    first: int  # rank, from 1, of the first and of the last eigenvalue that were fitted
    last: int


def rankme(z: Any, *, eps: float = 1e-7) -> float:
    """Effective rank of a feature matrix: exp of the entropy of its normalised singular values.

    Raises DataError if there are fewer than two rows, all are equal, or one holds NaN; QueryError if eps is below 0, or
    1 or above.

    Source: Garrido et al. 2023, RankMe, arXiv:2210.02885, Eq. 1-2.

    >>> round(rankme(np.eye(5)), 4)
    5.0

    Parameters
    ----------
    z : float array, shape (n_images, dim)
        One row per image, neither centred nor scaled: an array, a tensor, an iterator of batches, or
        :func:`.rank.compute_spectrum` any of these. The paper takes 25,600 images.
    eps : float
        Added to each normalised singular value.

    Returns
    -------
    float
        From 1 to min(n_images, dim), plus what eps adds, in dimensions; higher is better, 1 means full collapse.
    """
    require_number(eps, "eps", least=0, below=1)
    values = compute_spectrum(z).values(AS_THEY_ARE, needed_for="RankMe")
    return math.exp(_entropy(values / values.sum() + eps))


def feature_rank(z: Any, *, eps: float = 1e-7) -> float:
    """Classical rank: number of singular values above the largest one times max(n_images, dim) times eps.

    ``z`` is as for :func:`rankme`, of shape (n_images, dim), and so are the errors. Returns a whole number from 1 to
    min(n_images, dim), in dimensions; higher is better.

    Source: Garrido et al. 2023, RankMe, arXiv:2210.02885, section 3.1 (after Press et al. 2007).

    >>> feature_rank(np.diag([1.0, 1.0, 1e-3, 1e-9]))
    3.0
    """
    require_number(eps, "eps", least=0, below=1)
    spectrum = compute_spectrum(z)
    relative = max(spectrum.n, spectrum.dim) * eps
    if relative >= 1:
        raise QueryError(
            f"With {max(spectrum.n, spectrum.dim)} rows or features and eps = {eps:g} no singular value can pass the "
            "threshold of the rank: take a smaller eps, or fewer images."
        )
    values = spectrum.values(AS_THEY_ARE, needed_for="the rank")
    return float((values > relative * values[0]).sum())


def correlation_rank(z: Any, *, atol: float = 1e-4, rtol: float = 0.01) -> CorrelationRank:
    """Effective dimensionality: rank of the correlation matrix of the features.

    ``z`` is as for :func:`rankme`, of shape (n_images, dim), and so are the errors. An eigenvalue counts above
    max(atol, rtol times the largest one), the rule of ``torch.linalg.matrix_rank``. The ``value`` of the record is a
    whole number from 1 to dim, in dimensions; higher is better. A feature that never changes has no correlation: it
    adds nothing and is counted in ``n_constant``.

    Source: Dubois et al. 2023, arXiv:2302.03068, Appendix F.6.

    >>> correlation_rank([[0.0, 0.0, 7.0], [1.0, 2.0, 7.0], [2.0, 4.0, 7.0]]).value
    1.0
    """
    require_number(atol, "atol", least=0)
    require_number(rtol, "rtol", least=0)
    spectrum = compute_spectrum(z)
    eigenvalues = spectrum.values(STANDARDISED, needed_for="effective dimensionality") ** 2
    threshold = max(atol, rtol * float(eigenvalues[0]))
    return CorrelationRank(
        value=float((eigenvalues > threshold).sum()), threshold=threshold, n_constant=int(spectrum.constant.sum())
    )


def rankme_augmented(z: Any, *, ids: Any = None, eps: float = 1e-7) -> float:
    """RankMe of augmented views: of all views of all images as rows of one feature matrix.

    ``z`` has the shape (n_images, n_views, dim), or (n, dim) with ``ids``, numbers or names of the image of each row;
    LiDAR's paper takes 10,000 images with 10 views each. Returns dimensions and has errors as :func:`rankme`; higher is
    better. Needs two images or more, of two views or more.

    Source: Thilak et al. 2023, LiDAR, arXiv:2312.04000, section 4.2.

    >>> round(rankme_augmented(np.eye(4).reshape(2, 2, 4)), 4)
    4.0
    """
    return rankme(check_views(z, ids, needed_for="RankMe of views")[0], eps=eps)


def alpha_req(z: Any, *, first: int = 4, last: int | None = None, weighted: bool = True) -> PowerLaw:
    """alpha-ReQ: the exponent at which the eigenvalues of the covariance of the features fall with their rank.

    A straight line through the logarithms of eigenvalues and ranks, by least squares.

    Raises DataError if there are fewer than 12 rows, all are equal, or one holds NaN; if an eigenvalue in the range is
    0 or below the rounding of the features; QueryError if the range has fewer than 3 ranks, or more than there are.

    Source: Agrawal et al. 2022, alpha-ReQ, section 3; Stringer et al. 2019, Nature 571, p. 361 (methods).

    >>> rows = np.concatenate([np.diag(np.arange(1.0, 21) ** -0.5), -np.diag(np.arange(1.0, 21) ** -0.5)])
    >>> found = alpha_req(rows, last=20)
    >>> round(found.value, 6), round(found.r_squared, 6)
    (1.0, 1.0)

    Parameters
    ----------
    z : float array, shape (n_images, dim)
        As :func:`rankme` takes it.
    first, last : int
        First and last rank of the fit, counted from 1. The default is that of the published code, ranks 4 to 100, or to
        min(n_images - 1, dim) if that is less; up to a tenth of the range is left out at its end where eigenvalues are
        0 (a layer norm makes one 0). Stringer et al., whose method it is, fit 11 to 500.
    weighted : bool
        With weights 1 / rank, as both do: each stretch of the logarithmic axis then counts the same.

    Returns
    -------
    PowerLaw
        ``value`` is the exponent, dimensionless; neither higher nor lower is better: 1 is held to be best, more means
        collapse.
    """
    spectrum = compute_spectrum(z)
    values = spectrum.values(CENTRED, least=12, needed_for="alpha-ReQ")
    n_ranks = len(values)
    end = min(_LAST_RANK, n_ranks) if last is None else last
    require_number(first, "first", least=1, whole=True)
    require_number(end, "last", least=1, whole=True)
    if end - first + 1 < _LEAST_RANKS or end > n_ranks:
        raise QueryError(
            f"Ranks {first} to {end} were to be fitted, expected at least {_LEAST_RANKS} of the {n_ranks} that "
            f"{spectrum.n} rows of {spectrum.dim} features have: choose another first and last rank."
        )
    ranks = np.arange(first, end + 1)
    chosen = values[ranks - 1]
    largest = max(values[0], math.sqrt(spectrum.n) * float(torch.linalg.vector_norm(spectrum.mean)))
    lost = chosen <= max(spectrum.resolution, _NOISE) * largest
    if lost.any():
        n_left = int(lost.argmax())
        null = chosen[n_left:] <= _NULL * values[0]  # zeros, not values that an offset's rounding hides
        if last is not None or not null.all() or n_left < _LEAST_SHARE_OF_RANKS * len(ranks):
            rank = first + n_left
            raise DataError(
                f"Eigenvalue {rank} of the covariance is 0 or below the rounding of the features, which no power law "
                f"has: fit ranks below it (last={rank - 1}), or treat the representation as collapsed to {rank - 1} "
                "dimensions."
            )
        ranks, chosen = ranks[:n_left], chosen[:n_left]
    x, y = np.log(ranks), 2 * np.log(chosen)
    weights = 1 / ranks if weighted else np.ones(len(ranks))
    weights = weights / weights.sum()
    x, y = x - weights @ x, y - weights @ y
    slope = (weights * x) @ y / (weights @ x**2)
    spread = weights @ y**2
    return PowerLaw(
        value=float(-slope),
        r_squared=float(1 - weights @ (y - slope * x) ** 2 / spread) if spread > 0 else 1.0,
        first=first,
        last=int(ranks[-1]),
    )


def nesum(z: Any) -> float:
    """NESum: sum of the eigenvalues of the covariance of the features over the largest one.

    ``z`` is as for :func:`rankme`, of shape (n_images, dim), and so are the errors. Returns 1 to min(n_images - 1,
    dim), in dimensions; higher is better: eigenvalues that fall less lose less to collapse.

    Source: He and Ozay 2022, "Exploring the gap between collapsed and whitened features in self-supervised learning".

    >>> round(nesum([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]]), 4)
    2.0
    """
    values = compute_spectrum(z).values(CENTRED, needed_for="NESum")
    return float(((values / values[0]) ** 2).sum())


def stable_rank(z: Any) -> float:
    """Stable rank: sum of the squared singular values of the feature matrix over the largest one.

    ``z`` is as for :func:`rankme`, of shape (n_images, dim), and so are the errors; it is not centred, so that a large
    mean counts as one direction. Returns 1 to the rank of z, in dimensions; higher is better.

    Source: Rudelson and Vershynin 2007, "Sampling from large matrices"; for embeddings, Tsitsulin et al. 2023,
    arXiv:2305.16562.

    >>> round(stable_rank(np.diag([2.0, 1.0, 1.0])), 4)
    1.5
    """
    values = compute_spectrum(z).values(AS_THEY_ARE, needed_for="the stable rank")
    return float(((values / values[0]) ** 2).sum())


def matrix_entropy(z: Any, *, order: float = 1.0, centred: bool = False) -> float:
    """Matrix-based entropy: Renyi's entropy of the eigenvalues of the Gram matrix z z', divided by its trace.

    Of order 1 it is von Neumann's entropy -sum p log p; else log(sum p^order) / (1 - order). ``z`` is as for
    :func:`rankme`, of shape (n_images, dim), and so are the errors; ``centred`` takes its mean off first. Returns 0 to
    log min(n_images, dim), in nats; higher means that more directions are used.

    Source: Giraldo et al. 2014, "Measures of entropy from data using infinitely divisible kernels"; Skean et al. 2025,
    "Layer by layer", arXiv:2502.02013, section 3.

    >>> round(matrix_entropy(np.eye(4)), 6), round(float(np.log(4)), 6)
    (1.386294, 1.386294)
    """
    require_number(order, "order", above=0)
    values = compute_spectrum(z).values(CENTRED if centred else AS_THEY_ARE, needed_for="matrix entropy")
    squares = (values / values[0]) ** 2
    total = float(squares.sum())
    if order == 1:
        return _entropy(squares / total)
    # the largest eigenvalue apart, so that high orders do not underflow
    return (float(np.log((squares**order).sum())) - order * math.log(total)) / (1 - order)


def _entropy(shares: Array) -> float:
    positive = shares[shares > 0]
    return float(-(positive * np.log(positive)).sum())


class Monitor:
    """Spectral metrics, and with views LiDAR and alignment, of all features since the last :meth:`reset`.

    It keeps float64 sums only: of features (n, dim) one matrix, of views (n_images, n_views, dim) one of their
    deviations from the mean of their image and one of these means. A matrix takes 8 dim**2 bytes (34 MB for 2,048
    features) on the device of the first batch, where the products are made. Singular values below 1e-6 of the largest
    count as 0.

    Raises QueryError if alpha is not above 0.

    >>> monitor = Monitor()
    >>> for step in range(3):
    ...     monitor.update(np.random.default_rng(step).normal(size=(40, 4)))
    >>> monitor.compute()["feature_rank"]
    4.0

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
        After :meth:`compute`: by metric, why it has no value, or remarks of the metric.
    """

    def __init__(
        self, *, eps: float = 1e-7, delta: float = 0.0, alpha: float = 2.0, first: int = 4, last: int | None = None
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
        self._roundoff = 0.0  # the coarsest relative rounding of the views so far

    @property
    def n_rows(self) -> int:
        """Features, or views, since the last reset."""
        return self._rows.count

    @property
    def n_views(self) -> int:
        """Of each image; 1 for features."""
        return self._rows.count // self._means.count if self._means.count else 1

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
        if self.n_rows and self.n_views != (1 if len(shape) == 2 else shape[1]):
            raise DataError(
                f"A batch has the shape {shape}, but those before it had {self.n_views} views of each image: use one "
                "monitor for each kind."
            )
        if len(shape) == 2:
            self._rows.update(batch)
            return
        kind = str(getattr(batch, "dtype", "float64")).rpartition(".")[2]
        self._roundoff = max(self._roundoff, _ROUNDOFF.get(kind, 2.0**-53))
        views = convert_to_tensor(batch.reshape(-1, shape[2]), "the views so far", self.n_rows).double().reshape(shape)
        means = views[:, 0] + (views - views[:, :1]).mean(dim=1)  # exact where views are equal
        self._means.update(means)
        self._rows.update((views - means[:, None]).reshape(-1, shape[2]))
        units = views / torch.linalg.vector_norm(views, dim=2, keepdim=True)
        distances = torch.stack([(units - units.roll(step, 1)).norm(dim=2) for step in range(1, shape[1])])
        self._distances = self._distances.to(views.device) + distances.pow(self.alpha).mean(dim=(0, 2)).sum()

    @torch.no_grad()
    def compute(self) -> dict[str, float]:
        """The metrics by name; one that has no value is missing, and :attr:`notes` says why.

        Of features: rankme, feature_rank, correlation_rank, alpha_req. Of views the same of all views together, which
        makes rankme the same as rankme_augmented, and lidar, and the alignment of normalised views. Refuses a monitor
        without features, or with NaN among them.
        """
        mean, scatter, constant = self._rows.moments()
        if self._means.count:
            within = scatter + self.n_rows * torch.outer(mean, mean)
            mean, between, same = self._means.moments()
            scatter, constant = within + self.n_views * between, constant & same
        spectrum = Spectrum(
            n=self.n_rows,
            mean=mean,
            root=compute_moment_root(scatter),
            constant=constant,
            resolution=torch.finfo(torch.float32).eps,
            floor=_OF_SUMS,
        )
        metrics: dict[str, Callable[[], float]] = {
            "rankme": lambda: rankme(spectrum, eps=self.eps),
            "feature_rank": lambda: feature_rank(spectrum),
            "correlation_rank": lambda: correlation_rank(spectrum).value,
            "alpha_req": lambda: alpha_req(spectrum, first=self.first, last=self.last).value,
        }
        if self._means.count:
            size = (scatter.diagonal() / self.n_rows + mean**2).sqrt()
            metrics["rankme_augmented"] = metrics["rankme"]
            metrics["lidar"] = lambda: self._lidar(within, between, size)
            metrics["alignment"] = self._alignment
        self.notes, found = {}, dict[str, float]()
        for name, metric in metrics.items():
            try:
                found[name] = metric()
            except (DataError, QueryError, MissingExtra) as error:
                self.notes[name] = str(error)
        return found

    def merge(self, other: Monitor) -> None:
        """Add what the monitor of another process has seen, as ``torch.distributed.all_gather_object`` brings it."""
        if self.n_rows and other.n_rows and self.n_views != other.n_views:
            raise DataError(
                f"Monitors of {self.n_views} and of {other.n_views} views of each image were to be merged, expected "
                "the same number."
            )
        self._rows.merge(other._rows)
        self._means.merge(other._means)
        self._distances = self._distances + other._distances.to(self._distances.device)
        self._roundoff = max(self._roundoff, other._roundoff)

    def _lidar(self, within: Tensor, between: Tensor, size: Tensor) -> float:
        from .scatter import compute_lidar  # needs SciPy, which following a training does not

        n_images = self._means.count
        found = compute_lidar(
            compute_moment_root(within / (self.n_rows - n_images)).cpu(),
            compute_moment_root(between / max(n_images - 1, 1)).cpu(),
            torch.full((n_images,), self.n_views, dtype=torch.float64),
            noise=(self._roundoff * size).cpu(),
            error=_OF_SUMS,
            delta=self.delta,
            eps=self.eps,
        )
        if found.notes:
            self.notes["lidar"] = " ".join(found.notes)
        return found.value

    def _alignment(self) -> float:
        if not bool(self._distances.isfinite()):
            raise DataError("A view is all 0 and has no direction, so that alignment of normalised views is undefined.")
        return float(self._distances) / self._means.count
