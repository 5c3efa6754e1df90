"""The numerics of probes on maps: targets of cells, blocks of maps, and softmax regression by full-batch L-BFGS.

A linear head gives every place of a map its logits; these are upsampled bilinearly to cells, 1 x 1 or 2 x 2 per place,
and what is minimised is the cross-entropy to the share that each class has of the pixels of a cell, plus a ridge ::

    L(B, b) = 1/S sum_cells sum_c t_c (logsumexp(z) - z_c) + penalty/2 |B|^2,   z = U (X V B + b)

with t the shares times what their classes weigh, S their sum, U the upsampling (its rows add up to 1, so that it may be
moved past the head), X the standardised channels, V (d, r) the eigenvectors of their correlations, B the head in this
basis, whose squared norm is that of the head on the channels, and b the bias, which is not penalised. Convex, so that
the answer does not depend on the start or the order of images. Its Hessian is about c diag(e) + penalty, with e the
eigenvalues, and L-BFGS runs on coordinates that are divided by its root.

References
----------
D. C. Liu and J. Nocedal 1989, On the Limited Memory BFGS Method for Large Scale Optimization (SciPy's L-BFGS-B).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ..errors import DataError
from ..features.maps import MapGrid
from ..optional import require_extra
from .eigen import compute_eigh

with require_extra("evaluate", needed_for="A probe on maps"):
    import numpy as np
    import torch
    from torch import Tensor

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Indices = NDArray[np.int64]

MEMORY_BYTES = 1 << 31  # of maps that are held in memory
BLOCK_BYTES = 1 << 22  # of maps and logits that are computed with at a time
NULL_SHARE = 1e-7  # of the largest eigenvalue, below which a direction is rounding and is dropped
NULL_DEVIATION = 1e-6  # of a channel's mean, below which its deviations are rounding
PLACES_PER_CHANNEL = 32  # places whose covariance is taken, at least, if there are as many
CURVATURE = 0.1  # of the cross-entropy along a logit, p (1 - p) on average


@lru_cache(maxsize=64)
def build_interpolation(n_out: int, n_in: int) -> Tensor:
    """Bilinear interpolation along one side, float32 (n_out, n_in), whose rows add up to 1.

    Centres of pixels are aligned, and what lies outside of the outermost centres is as they are
    (``align_corners=False`` of :func:`torch.nn.functional.interpolate`).

    >>> build_interpolation(4, 2).tolist()
    [[1.0, 0.0], [0.75, 0.25], [0.25, 0.75], [0.0, 1.0]]
    """
    at = np.clip((np.arange(n_out) + 0.5) * n_in / n_out - 0.5, 0, n_in - 1)
    low = np.minimum(at.astype(np.int64), max(n_in - 2, 0))
    found = np.zeros((n_out, n_in), np.float32)
    found[np.arange(n_out), low] = 1 - (at - low)
    found[np.arange(n_out), np.minimum(low + 1, n_in - 1)] += at - low
    return torch.from_numpy(found)


def interpolate_maps(maps: Tensor, size: tuple[int, int], *, rows: slice = slice(None)) -> Tensor:
    """Maps (n, h, w, k) at another size, (n, *size, k), or only some of its rows."""
    n, h, w, k = maps.shape
    down, across = build_interpolation(size[0], h)[rows], build_interpolation(size[1], w)
    lowered = maps[:, rows] if size[0] == h else down @ maps.reshape(n, h, w * k)
    found = lowered.reshape(-1, w, k) if size[1] == w else across @ lowered.reshape(-1, w, k)
    return found.view(n, -1, size[1], k)


def gather_maps(maps: Tensor, size: tuple[int, int]) -> Tensor:
    """The transpose of :func:`interpolate_maps`: from (n, h, w, k) to (n, *size, k)."""
    n, h, w, k = maps.shape
    gathered = maps.reshape(-1, w, k) if size[1] == w else build_interpolation(w, size[1]).T @ maps.reshape(-1, w, k)
    gathered = gathered.view(n, h, -1)
    return (gathered if size[0] == h else build_interpolation(h, size[0]).T @ gathered).view(n, *size, k)


class LayeredMaps:
    """Stored maps of one or several layers, read some images at a time, their channels one behind the other.

    Parameters
    ----------
    x : float array, shape (n, n_places * channels), or Rows; or a sequence of these, one per layer
        Maps row by row, the channels of a place together; after a class token, where there is one, which is left out.
    grid : MapGrid, or a sequence of them
        Layers with fewer places are upsampled bilinearly to the finest.
    memory_bytes : int
        Maps that take at most so much as float32 are held in memory; others are read again in each pass.
    """

    def __init__(self, x: Any, grid: Any, *, memory_bytes: int = MEMORY_BYTES) -> None:
        self.layers = list(x) if isinstance(x, (list, tuple)) else [x]
        self.grids: list[MapGrid] = list(grid) if isinstance(grid, (list, tuple)) else [grid]
        if len(self.layers) != len(self.grids):
            raise DataError(f"Got maps of {len(self.layers)} layers and {len(self.grids)} grids; expected one of each.")
        self.n = len(self.layers[0])
        for rows, one in zip(self.layers, self.grids, strict=True):
            if tuple(rows.shape) != (self.n, one.width):
                raise DataError(
                    f"Maps have the shape {tuple(rows.shape)}; expected ({self.n}, {one.width}): {one.rows} x "
                    f"{one.columns} places of {one.channels} channels{' after a class token' * one.has_class_token}."
                )
        self.size = (max(one.rows for one in self.grids), max(one.columns for one in self.grids))
        self.channels = sum(one.channels for one in self.grids)
        self.held: Tensor | None = None
        n_bytes = 4 * self.n * self.size[0] * self.size[1] * self.channels
        if n_bytes <= memory_bytes:
            self.held = self._read(slice(0, self.n))

    def read(self, images: Any) -> Tensor:
        """Maps of these images (a slice or numbers), float32 (k, rows, columns, channels)."""
        return self._read(images) if self.held is None else self.held[images]

    def iterate_blocks(self, images: Indices, n_bytes_more: int = 0) -> Iterator[tuple[slice, Tensor]]:
        """Places in ``images`` and their maps; a block and ``n_bytes_more`` per image take about ``BLOCK_BYTES``."""
        each = 4 * self.size[0] * self.size[1] * self.channels + n_bytes_more
        step = max(1, BLOCK_BYTES // each)
        for start in range(0, len(images), step):
            some = images[start : start + step]
            is_run = some[-1] - some[0] == len(some) - 1 and bool((np.diff(some) == 1).all())
            yield slice(start, start + len(some)), self.read(slice(some[0], some[-1] + 1) if is_run else some)

    def _read(self, images: Any) -> Tensor:
        found = []
        for rows, one in zip(self.layers, self.grids, strict=True):
            flat = np.ascontiguousarray(rows[images], np.float32)[:, one.has_class_token * one.channels :]
            if not np.isfinite(flat.sum()):
                raise DataError("Maps hold NaN or infinity; expected finite numbers: compute them again.")
            maps = torch.from_numpy(flat if flat.flags.writeable else flat.copy())
            found.append(interpolate_maps(maps.reshape(-1, one.rows, one.columns, one.channels), self.size))
        return found[0] if len(found) == 1 else torch.cat(found, dim=3)


# --- targets ----------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def _number_cells(height: int, width: int, size: tuple[int, int]) -> NDArray[np.int64]:
    """The cell that the centre of each pixel lies in, (height, width), numbered row by row."""
    rows, columns = (
        ((np.arange(side) + 0.5) * n / side).astype(np.int64) for side, n in zip((height, width), size, strict=True)
    )
    return np.asarray(rows[:, None] * size[1] + columns)


def _refine(pixels: NDArray[Any], size: tuple[int, int]) -> NDArray[Any]:
    """Pixels (h, w) so often repeated that no cell is without one."""
    for axis, n in enumerate(size):
        if pixels.shape[axis] < n:
            pixels = np.repeat(pixels, -(-n // pixels.shape[axis]), axis=axis)
    return pixels


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CellClasses:
    """The share that each class has of the pixels of each cell, of n images; what is not valid has none.

    Sparse, for most cells are of one class: image i has ``places[starts[i]:starts[i + 1]]``, int32, cell * n_classes +
    class, with their ``shares``, float32.
    """

    size: tuple[int, int]
    n_classes: int
    starts: Indices
    places: NDArray[np.int32]
    shares: NDArray[np.float32]

    def weigh(self, images: Indices, of_class: NDArray[np.float32]) -> tuple[Tensor, Tensor]:
        """Flat places in (images, cells, classes) of some images, and shares times what their classes weigh."""
        runs = [slice(self.starts[i], self.starts[i + 1]) for i in images.tolist()]
        n_each = self.size[0] * self.size[1] * self.n_classes
        lengths = [run.stop - run.start for run in runs]
        inside = np.concatenate([self.places[run] for run in runs]).astype(np.int64)
        weights = np.concatenate([self.shares[run] for run in runs]) * of_class[inside % self.n_classes]
        return torch.from_numpy(inside + np.repeat(np.arange(len(runs)) * n_each, lengths)), torch.from_numpy(weights)

    def sum_by_class(self, images: Indices) -> NDArray[np.float64]:
        """Cells of each class in some images, float64 (n_classes,)."""
        found = np.zeros(self.n_classes)
        for i in images.tolist():
            run = slice(self.starts[i], self.starts[i + 1])
            found += np.bincount(self.places[run] % self.n_classes, self.shares[run], self.n_classes)
        return found


def count_cell_classes(masks: Any, images: Sequence[int], size: tuple[int, int], n_classes: int) -> CellClasses:
    """Shares of classes in cells of masks; ``masks[i]`` gives ``(labels, valid)``, int and bool (height, width)."""
    starts, places, shares = [0], list[Any](), list[Any]()
    for i in images:
        labels, valid = (np.asarray(one) for one in masks[i])
        if labels.shape != valid.shape or labels.ndim != 2:
            raise DataError(f"The mask {i} has labels {labels.shape} and valid pixels {valid.shape}; expected (h, w).")
        labels, valid = _refine(labels, size), _refine(valid, size)
        cells = _number_cells(*labels.shape, size)
        named = labels[valid].astype(np.int64)
        if named.size and not 0 <= named.min() <= named.max() < n_classes:
            raise DataError(
                f"The mask {i} holds the class {named.max() if named.max() >= n_classes else named.min()}; expected 0 "
                f"to {n_classes - 1}: name all classes, or mark its pixels as not valid."
            )
        counts = np.bincount(cells[valid] * n_classes + named, minlength=size[0] * size[1] * n_classes)
        there = np.flatnonzero(counts)
        per_cell = np.bincount(cells.ravel(), minlength=size[0] * size[1])
        places.append(there.astype(np.int32))
        shares.append((counts[there] / per_cell[there // n_classes]).astype(np.float32))
        starts.append(starts[-1] + len(there))
    return CellClasses(
        size=size,
        n_classes=n_classes,
        starts=np.array(starts),
        places=np.concatenate([np.zeros(0, np.int32), *places]),
        shares=np.concatenate([np.zeros(0, np.float32), *shares]),
    )


# --- the minimum ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlaceBasis:
    """Mean of places (d,), eigenvectors of their correlations over deviations (d, r), values (r,), descending."""

    mean: Tensor
    vectors: Tensor
    values: Tensor


def compute_place_basis(maps: LayeredMaps, images: Indices) -> PlaceBasis:
    """Of evenly chosen images with ``PLACES_PER_CHANNEL`` places per channel, without directions that are rounding."""
    n_places = maps.size[0] * maps.size[1]
    n = min(len(images), -(-PLACES_PER_CHANNEL * maps.channels // n_places))
    chosen = images[np.linspace(0, len(images) - 1, n).astype(np.int64)]
    total, products, shift = torch.zeros(maps.channels, dtype=torch.float64), None, None
    for _, block in maps.iterate_blocks(chosen):
        x = block.reshape(-1, maps.channels)
        shift = x.mean(dim=0) if shift is None else shift  # near the mean, so that float32 keeps its digits
        centred = x - shift
        total += centred.sum(dim=0, dtype=torch.float64)
        products = (centred.T @ centred).double() + (0 if products is None else products)
    if products is None or shift is None:
        raise DataError("Got maps of no image; expected at least one.")
    offset = total / (n * n_places)
    covariance = products / (n * n_places) - torch.outer(offset, offset)
    mean, deviations = shift.double() + offset, covariance.diagonal().clamp_min(0).sqrt()
    varies = deviations > NULL_DEVIATION * mean.abs()
    if not bool(varies.any()):
        raise DataError("All places of all maps are alike; expected features that differ: check the encoder.")
    scale = torch.where(varies, 1 / deviations, 0)
    values, vectors = compute_eigh(scale[:, None] * covariance * scale)
    values, vectors = values.flip(0), vectors.flip(1)
    kept = values > NULL_SHARE * float(values[0])
    return PlaceBasis(
        mean=mean.float(), vectors=(scale[:, None] * vectors[:, kept]).float(), values=values[kept].float()
    )


@dataclass(slots=True, kw_only=True, eq=False)
class MapHead:
    """A linear head: in the basis (r, k), its bias (k,) at the mean, and how the fit went."""

    head: Tensor
    bias: Tensor
    loss: float = float("nan")  # without the ridge
    n_passes: int = 0
    is_converged: bool = True

    def in_channels(self, basis: PlaceBasis) -> tuple[Tensor, Tensor]:
        """Weights (d, k) and bias (k,) of the channels as they are stored."""
        weights = basis.vectors @ self.head
        return weights, self.bias - basis.mean @ weights


@dataclass(slots=True, kw_only=True, eq=False)
class SoftmaxProblem:
    """The cross-entropy of a head on some images, and its gradient."""

    maps: LayeredMaps
    basis: PlaceBasis
    images: Indices
    cells: CellClasses
    of_class: NDArray[np.float32]  # what a class weighs
    _targets: dict[int, tuple[Tensor, Tensor, Tensor]] = field(default_factory=dict)
    total: float = 0.0

    def __post_init__(self) -> None:
        self.total = float(self.cells.sum_by_class(self.images) @ self.of_class)
        if self.total <= 0:
            raise DataError("No pixel of the masks is valid; expected some to learn from.")

    def evaluate(self, at: MapHead) -> tuple[float, Tensor, Tensor]:
        """Mean loss, and its gradients by head (r, k) and bias (k,)."""
        weights, bias = at.in_channels(self.basis)
        loss, of_weights, of_bias = 0.0, torch.zeros_like(weights), torch.zeros_like(bias)
        n_classes, size = self.cells.n_classes, self.cells.size
        n_bytes = 12 * size[0] * size[1] * n_classes
        for some, block in self.maps.iterate_blocks(self.images, n_bytes):
            x = block.reshape(-1, self.maps.channels)
            logits = torch.addmm(bias, x, weights).view(len(block), *self.maps.size, n_classes)
            log_p = torch.log_softmax(interpolate_maps(logits, size).reshape(-1, n_classes), dim=1)
            flat, wanted, of_cell = self._target(some, len(log_p))
            loss -= float((wanted * log_p.view(-1)[flat]).sum(dtype=torch.float64))
            residual = log_p.exp_().mul_(of_cell)  # (cells, classes): of_cell p - t
            residual.view(-1).scatter_add_(0, flat, -wanted)
            gathered = gather_maps(residual.view(len(block), *size, n_classes), self.maps.size).reshape(-1, n_classes)
            of_weights.addmm_(x.T, gathered)
            of_bias += gathered.sum(dim=0)
        of_weights -= torch.outer(self.basis.mean, of_bias)
        return loss / self.total, self.basis.vectors.T @ of_weights / self.total, of_bias / self.total

    def judge(self, at: MapHead) -> tuple[float, float]:
        """Mean loss, and mean intersection over union of the classes that are there, from 0 to 1, over cells."""
        weights, bias = at.in_channels(self.basis)
        n_classes, size = self.cells.n_classes, self.cells.size
        loss, inside, predicted, actual = 0.0, *(torch.zeros(n_classes, dtype=torch.float64) for _ in range(3))
        for some, block in self.maps.iterate_blocks(self.images, 12 * size[0] * size[1] * n_classes):
            log_p = torch.log_softmax(interpolate_maps(block @ weights + bias, size).reshape(-1, n_classes), dim=1)
            flat, wanted, of_cell = self._target(some, len(log_p))
            loss -= float((wanted * log_p.view(-1)[flat]).sum(dtype=torch.float64))
            named, classes = log_p.argmax(dim=1), flat % n_classes
            shares = wanted.double() / torch.from_numpy(self.of_class)[classes]
            of_cell = torch.zeros(len(log_p), dtype=torch.float64).index_add_(0, flat // n_classes, shares)
            is_right = named[flat // n_classes] == classes
            inside.index_add_(0, classes[is_right], shares[is_right])
            actual.index_add_(0, classes, shares)
            predicted.index_add_(0, named, of_cell)
        there = actual > 0
        return loss / self.total, float((inside / (predicted + actual - inside))[there].mean())

    def _target(self, some: slice, n_cells: int) -> tuple[Tensor, Tensor, Tensor]:
        """Of a block: flat places (k,), their weights (k,), and the sum of each cell (n_cells, 1)."""
        if some.start not in self._targets:
            flat, wanted = self.cells.weigh(self.images[some], self.of_class)
            of_cell = torch.zeros(n_cells).index_add_(0, flat // self.cells.n_classes, wanted)
            self._targets[some.start] = flat, wanted, of_cell[:, None]
        return self._targets[some.start]

    def prior(self) -> MapHead:
        """The head of no features: log shares of the classes."""
        shares = self.cells.sum_by_class(self.images) * self.of_class / self.total
        bias = torch.from_numpy(np.log(np.maximum(shares, 1e-6))).float()
        return MapHead(head=torch.zeros(len(self.basis.values), len(bias)), bias=bias)


def fit_softmax_head(problem: SoftmaxProblem, penalty: float, start: MapHead, *, tol: float, max_iter: int) -> MapHead:
    """The head of least loss and ridge, to a relative decrease per step of ``tol``, or after ``max_iter`` steps."""
    scale = (CURVATURE * problem.basis.values[:, None] + penalty).rsqrt()  # (r, 1)
    r, k = start.head.shape
    n_passes = 0

    def split(u: Any) -> MapHead:
        parameters = torch.from_numpy(u).float()
        return MapHead(head=parameters[: r * k].view(r, k) * scale, bias=parameters[r * k :])

    def objective(u: Any) -> tuple[float, Any]:
        nonlocal n_passes
        n_passes += 1
        at = split(u)
        loss, of_head, of_bias = problem.evaluate(at)
        ridge = penalty * at.head
        gradient = torch.cat([((of_head + ridge) * scale).reshape(-1), of_bias])
        return loss + 0.5 * float((ridge * at.head).sum(dtype=torch.float64)), gradient.double().numpy()

    begin = torch.cat([(start.head / scale).reshape(-1), start.bias]).double().numpy()
    options = {"maxiter": max_iter, "ftol": tol, "gtol": 0.0, "maxcor": 10}
    from scipy.optimize import minimize  # slow to import

    found = minimize(objective, begin, jac=True, method="L-BFGS-B", options=options)
    ended = split(found.x)
    ended.loss = float(found.fun) - 0.5 * penalty * float(ended.head.square().sum(dtype=torch.float64))
    ended.n_passes, ended.is_converged = n_passes, found.nit < max_iter
    return ended


# --- numbers ----------------------------------------------------------------------------------------------------------


def average_cells(maps: Any, images: Sequence[int], size: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """Means of the valid pixels of cells, and the share of their pixels that is valid, float32 (n, cells) both.

    ``maps[i]`` gives numbers and valid pixels, float and bool (height, width).
    """
    n_cells = size[0] * size[1]
    means, shares = np.zeros((len(images), n_cells), np.float32), np.zeros((len(images), n_cells), np.float32)
    for place, i in enumerate(images):
        values, valid = (_refine(np.asarray(one), size) for one in maps[i])
        cells = _number_cells(*values.shape, size)
        n_valid = np.bincount(cells[valid], minlength=n_cells)
        sums = np.bincount(cells[valid], values[valid].astype(np.float64), n_cells)
        means[place] = sums / np.maximum(n_valid, 1)
        shares[place] = n_valid / np.bincount(cells.ravel(), minlength=n_cells)
    return torch.from_numpy(means), torch.from_numpy(shares)


def fit_ridge_heads(
    maps: LayeredMaps, basis: PlaceBasis, images: Indices, targets: tuple[Tensor, Tensor], penalties: Sequence[float]
) -> list[MapHead]:
    """Heads of one number per place, (r, 1), of least squares and ridge, weighted by valid pixels, in closed form.

    With w the weights of places over their sum and Z = (X - mean) V, centred by w, the head is of each penalty ::

        argmin |sqrt(w) (y - Z B)|^2 + penalty |B|^2      by the eigenvectors of Z' w Z
    """
    r = len(basis.values)
    products, moments = torch.zeros(r + 1, r + 1, dtype=torch.float64), torch.zeros(r + 1, dtype=torch.float64)
    total = 0.0
    for some, block in maps.iterate_blocks(images):
        z = (block.reshape(-1, maps.channels) - basis.mean) @ basis.vectors
        y, w = (one[torch.from_numpy(images[some])].reshape(-1) for one in targets)
        z = torch.cat([z, torch.ones(len(z), 1)], dim=1)
        weighted = z * w[:, None]
        products += (weighted.T @ z).double()
        moments += (weighted.T @ y).double()
        total += float(w.sum(dtype=torch.float64))
    if total <= 0:
        raise DataError("No pixel of the maps is valid; expected some to learn from.")
    products, moments = products / total, moments / total
    mean_z, mean_y = products[:r, r], moments[r]
    values, vectors = compute_eigh(products[:r, :r] - torch.outer(mean_z, mean_z))
    aims = vectors.T @ (moments[:r] - mean_z * mean_y)
    found = []
    for penalty in penalties:
        head = vectors @ (aims / (values.clamp_min(0) + penalty))
        found.append(MapHead(head=head[:, None].float(), bias=(mean_y - mean_z @ head)[None].float()))
    return found
