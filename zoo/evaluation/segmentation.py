"""Probes on maps: a linear head that names the class of each pixel, or its depth, and their measurement.

The head reads one place of the map, of one layer or of several next to each other; its logits are upsampled bilinearly
to the mask. It learns from the shares that classes have of 2 x 2 cells per place (:mod:`.segmentation_solver`), to
convergence along a path of penalties, of which the one with the best mean intersection over union on a fifth of the
training images is taken, and then from all of them.

What is evaluated is every valid pixel of the mask that the encoder saw, at the mask's own size: where the preprocessing
squashes images to a square, the whole mask as it is stored; where it crops, the crop at the size of the encoder's input
(:class:`MaskReader`). Images are not cut into windows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..cards.schema import Preprocess
from ..datasets.dense import MapSet, align_map
from ..errors import DataError, QueryError
from ..features import Features, require_comparable
from ..features.maps import MapEncoder
from ..optional import require_extra
from .bootstrap import N_DRAWS
from .protocols import PROTOCOLS, build_protocol
from .segmentation_metrics import (
    DenseResult,
    DepthResult,
    SegmentationResult,
    compute_boundary_f1,
    count_confusions,
    measure_depth_errors,
)
from .segmentation_solver import (
    MEMORY_BYTES,
    CellClasses,
    LayeredMaps,
    MapHead,
    PlaceBasis,
    SoftmaxProblem,
    average_cells,
    compute_place_basis,
    count_cell_classes,
    fit_ridge_heads,
    fit_softmax_head,
    interpolate_maps,
)

with require_extra("evaluate", needed_for="A probe on maps"):
    import numpy as np
    import torch
    from sklearn.base import BaseEstimator
    from torch import nn
    from torch.nn import functional

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .saved_probes import SavedProbe

    Indices = NDArray[np.int64]

PROTOCOL, DEPTH_PROTOCOL = "zoo-segment-2", "zoo-depth-2"
PENALTIES = (1.0, 1e-1, 1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 1e-5, 1e-6)
"""On standardised channels, of depth; those of classes are without the first."""

_BAND_BYTES = 1 << 24  # of the logits of some rows of a mask
_TUNING_STREAM = 7_411  # keeps the draw of tuning images apart from all other draws of a seed


@dataclass(frozen=True)
class MaskReader:
    """Masks, or depth, on the area that an encoder sees: indexing gives ``(values, valid)`` of (height, width).

    ``values`` are int64 classes, or float32 numbers; ``valid`` is bool. They are of the mask's own size where the
    preprocessing squashes images (``fit="squash"``), for then the map is of the whole image; else of the crop, at the
    size of the encoder's input.
    """

    maps: MapSet
    preprocess: Preprocess

    def __len__(self) -> int:
        return len(self.maps)

    def __getitem__(self, i: int) -> tuple[Any, Any]:
        values, valid = self.maps.maps[i]
        if self.preprocess.fit != "squash":
            moved, valid = align_map(values, valid, self.preprocess)
            values = moved.transpose(1, 2, 0)
        return values[:, :, 0].astype(np.int64 if self.maps.task == "segmentation" else np.float32), valid


class MapProbe(BaseEstimator):  # type: ignore[misc]
    """What probes on maps share: the head of a fit, ``coef_`` (k, channels) and ``intercept_`` (k,), and its outputs.

    ``grid`` is that of the maps, or one of each layer; ``tuning_share`` of the training images (whole groups), drawn by
    ``seed``, chooses the penalty. Maps of at most ``memory_bytes`` are held in memory while the probe is trained,
    others are read in each pass. ``device`` changes nothing: the probe is trained on the processor.
    """

    coef_: Any
    intercept_: Any

    def __init__(
        self, grid: Any, *, tuning_share: float, memory_bytes: int, device: str | None = None, seed: int = 0
    ) -> None:
        self.grid, self.tuning_share, self.memory_bytes = grid, tuning_share, memory_bytes
        self.device, self.seed = device, seed
        self.report_ = dict[str, Any]()

    def adopt_fit(self, arrays: Mapping[str, Any], report: dict[str, Any]) -> None:
        """Takes over a fit that was kept, by its ``coefficients`` and ``intercepts``, and its report."""
        self.coef_, self.intercept_, self.report_ = arrays["coefficients"], arrays["intercepts"], report

    def iterate_logits(self, x: Any) -> Iterator[torch.Tensor]:
        """What the head gives at each place, float32 (rows, columns, k), of one image after the other."""
        maps = LayeredMaps(x, self.grid, memory_bytes=0)
        weights, bias = (torch.from_numpy(np.asarray(one, np.float32)) for one in (self.coef_.T, self.intercept_))
        for _, block in maps.iterate_blocks(np.arange(maps.n)):
            yield from block @ weights + bias

    def enlarge(self, logits: torch.Tensor, size: tuple[int, int]) -> Any:
        """What is predicted of an image at a size, (height, width), from its logits."""
        step = max(1, _BAND_BYTES // (4 * size[1] * logits.shape[2]))  # rows at a time, for many classes take room
        bands = [
            self._read_out(interpolate_maps(logits[None], size, rows=slice(start, start + step))[0])
            for start in range(0, size[0], step)
        ]
        return np.concatenate(bands)

    def predict(self, x: Any, size: tuple[int, int] | None = None) -> NDArray[Any]:
        """What is predicted of each pixel at ``size``, (n, height, width); by default on the grid of the maps.

        Classes are int64, depths float32. Images of other sizes each: :meth:`iterate_logits` and :meth:`enlarge`.
        """
        return np.stack([self.enlarge(one, size or (one.shape[0], one.shape[1])) for one in self.iterate_logits(x)])

    def _read_out(self, logits: torch.Tensor) -> NDArray[Any]:
        raise NotImplementedError

    def _adopt(self, at: MapHead, basis: PlaceBasis) -> None:
        weights, bias = at.in_channels(basis)
        self.coef_, self.intercept_ = weights.T.contiguous().double().numpy(), bias.double().numpy()

    def _divide(self, n: int, groups: Any) -> tuple[Indices, Indices]:
        """Images to learn from and to choose on, whole groups of which are on one side."""
        own = np.arange(n) if groups is None else np.unique(groups, return_inverse=True)[1].reshape(-1)
        n_groups = int(own.max()) + 1
        if n_groups < 2:
            raise DataError(f"A probe on maps got {n:,} images of one group; expected two, one of them to choose on.")
        order = np.random.default_rng([self.seed, _TUNING_STREAM]).permutation(n_groups)
        is_tuning = np.isin(own, order[: max(1, round(self.tuning_share * n_groups))])
        return np.flatnonzero(~is_tuning), np.flatnonzero(is_tuning)


class SegmentationProbe(MapProbe):
    """Multinomial logistic regression of the class of each pixel on maps; see the module.

    Parameters
    ----------
    grid, tuning_share, memory_bytes, device, seed
        As for :class:`MapProbe`.
    n_classes : int
    cells : int
        Cells per side of a place, whose shares of classes are learned.
    balanced : bool
        Whether each class weighs as much as any other, by the inverse of its share of the training pixels. Without, as
        many pixels as it has; rare classes are then named more rarely.
    select : {"miou", "loss"}
        What the penalty is chosen by, on cells of the tuning images.
    penalties : sequence of float
        Descending; the path ends after two that are no better.
    tol : float
        Relative decrease of the loss by a step, at which a fit ends.
    max_iter : int
        Steps at most.

    After ``fit``: ``coef_`` float64 (n_classes, channels), ``intercept_`` (n_classes,), and ``report_`` with the chosen
    ``penalty``, the path, and whether the last fit has converged.
    """

    def __init__(
        self,
        grid: Any,
        *,
        n_classes: int,
        cells: int = 2,
        balanced: bool = False,
        select: str = "miou",
        penalties: Sequence[float] = PENALTIES[1:],
        tol: float = 1e-4,
        max_iter: int = 200,
        tuning_share: float = 0.2,
        memory_bytes: int = MEMORY_BYTES,
        device: str | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(grid, tuning_share=tuning_share, memory_bytes=memory_bytes, device=device, seed=seed)
        if n_classes < 2:
            raise QueryError(f"A probe of masks got {n_classes} classes; expected at least two.")
        if select not in ("miou", "loss"):
            raise QueryError(f"A probe of masks got select={select!r}; expected 'miou' or 'loss'.")
        self.n_classes, self.cells, self.balanced, self.select = n_classes, cells, balanced, select
        self.penalties, self.tol, self.max_iter = penalties, tol, max_iter

    def fit(self, x: Any, masks: Any, *, groups: Any = None) -> SegmentationProbe:
        """Learns the masks of images from their maps.

        Parameters
        ----------
        x : float array, shape (n, n_places * channels), or Rows; or a sequence of these, one per layer
        masks : sequence
            ``masks[i]`` gives labels, int (height, width), and valid pixels, bool, of image i; of any size, on the area
            that the encoder saw, as of :class:`MaskReader`.
        groups : array, shape (n,), optional
            Images of one group (a patient, copies) are on one side of the choice.

        Raises
        ------
        DataError
            If there are fewer than two images or groups, no valid pixel, an unknown class, or a feature is not finite.
        """
        maps = LayeredMaps(x, self.grid, memory_bytes=self.memory_bytes)
        require_as_many(maps.n, masks)
        images = np.arange(maps.n)
        size = (self.cells * maps.size[0], self.cells * maps.size[1])
        cells = count_cell_classes(masks, images.tolist(), size, self.n_classes)
        of_class = self._weigh(cells, images)
        basis = compute_place_basis(maps, images)

        def pose(some: Indices) -> SoftmaxProblem:
            return SoftmaxProblem(maps=maps, basis=basis, images=some, cells=cells, of_class=of_class)

        fit, tuning = self._divide(maps.n, groups)
        best, path = self._walk(pose(fit), pose(tuning))
        chosen = path[best]
        at = fit_softmax_head(pose(images), chosen["penalty"], chosen["head"], tol=self.tol, max_iter=self.max_iter)
        self._adopt(at, basis)
        told = [{name: one[name] for name in ("penalty", "loss", "miou", "n_passes")} for one in path]
        self.report_ = {
            "penalty": chosen["penalty"],
            "path": told,
            "loss": at.loss,
            "n_passes": at.n_passes,
            "is_converged": at.is_converged,
            "n_tuning": len(tuning),
            "n_directions": len(basis.values),
        }
        return self

    def predict_proba(self, x: Any, size: tuple[int, int] | None = None) -> NDArray[np.float32]:
        """Probabilities of classes, float32 (n, height, width, n_classes); of few images at a time."""
        enlarged = (
            interpolate_maps(one[None], size or (one.shape[0], one.shape[1]))[0] for one in self.iterate_logits(x)
        )
        return np.stack([torch.softmax(one, dim=2).numpy() for one in enlarged])

    def _read_out(self, logits: torch.Tensor) -> NDArray[np.int64]:
        return logits.argmax(dim=2).numpy()

    def _weigh(self, cells: CellClasses, images: Indices) -> NDArray[np.float32]:
        """What a cell of each class weighs."""
        if not self.balanced:
            return np.ones(self.n_classes, np.float32)
        shares = cells.sum_by_class(images)
        there = shares > 0
        return np.where(there, shares.sum() / np.where(there, shares, 1) / max(there.sum(), 1), 0).astype(np.float32)

    def _walk(self, fit: SoftmaxProblem, tuning: SoftmaxProblem) -> tuple[int, list[dict[str, Any]]]:
        """The fits of the path, from the strongest penalty on, and the place of the best."""
        at, path, best = fit.prior(), list[dict[str, Any]](), 0
        for penalty in self.penalties:
            at = fit_softmax_head(fit, penalty, at, tol=self.tol, max_iter=self.max_iter)
            loss, miou = tuning.judge(at)
            path.append({"penalty": penalty, "head": at, "loss": loss, "miou": miou, "n_passes": at.n_passes})
            if self._is_better(path[-1], path[best]):
                best = len(path) - 1
            if len(path) - best > 2 and loss > path[best]["loss"]:
                break
        return best, path

    def _is_better(self, one: dict[str, Any], other: dict[str, Any]) -> bool:
        is_better: bool = one["miou"] > other["miou"] if self.select == "miou" else one["loss"] < other["loss"]
        return is_better


class DepthProbe(MapProbe):
    """Ridge regression of the depth of each pixel on maps: of the mean of each place, in closed form.

    ``penalties`` are tried on the tuning images, by the squared error of places. After ``fit``: ``coef_`` float64
    (1, channels), ``intercept_`` (1,), and ``report_`` with the chosen ``penalty``.
    """

    def __init__(
        self,
        grid: Any,
        *,
        penalties: Sequence[float] = PENALTIES,
        tuning_share: float = 0.2,
        memory_bytes: int = MEMORY_BYTES,
        device: str | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(grid, tuning_share=tuning_share, memory_bytes=memory_bytes, device=device, seed=seed)
        self.penalties = penalties

    def fit(self, x: Any, depths: Any, *, groups: Any = None) -> DepthProbe:
        """Learns depths: ``depths[i]`` gives numbers and valid pixels, float and bool (height, width), of image i.

        The rest, and errors, as :meth:`SegmentationProbe.fit`.
        """
        maps = LayeredMaps(x, self.grid, memory_bytes=self.memory_bytes)
        require_as_many(maps.n, depths)
        images = np.arange(maps.n)
        targets = average_cells(depths, images.tolist(), maps.size)
        basis = compute_place_basis(maps, images)
        fit, tuning = self._divide(maps.n, groups)
        heads = fit_ridge_heads(maps, basis, fit, targets, self.penalties)
        errors = self._score(maps, basis, tuning, targets, heads)
        best = int(np.argmin(errors))
        self._adopt(fit_ridge_heads(maps, basis, images, targets, self.penalties[best : best + 1])[0], basis)
        self.report_ = {"penalty": self.penalties[best], "path": errors, "n_tuning": len(tuning)}
        return self

    def _read_out(self, logits: torch.Tensor) -> NDArray[np.float32]:
        return logits[:, :, 0].numpy()

    @staticmethod
    def _score(maps: LayeredMaps, basis: PlaceBasis, images: Indices, targets: Any, heads: Any) -> list[float]:
        """Root of the mean squared error of each head over the valid pixels of some images."""
        every = [one.in_channels(basis) for one in heads]
        weights, bias = (torch.cat([one[part].reshape(-1, 1) for one in every], dim=1) for part in (0, 1))
        squares, total = torch.zeros(len(heads), dtype=torch.float64), 0.0
        for some, block in maps.iterate_blocks(images):
            y, w = (one[torch.from_numpy(images[some])].reshape(-1, 1) for one in targets)
            off = block.reshape(-1, maps.channels) @ weights + bias - y
            squares += (w * off.square()).sum(dim=0, dtype=torch.float64)
            total += float(w.sum(dtype=torch.float64))
        return [float(one) for one in (squares / max(total, 1e-12)).sqrt()]


class EncoderWithMapProbe(nn.Module):
    """An encoder and a probe on its maps as one network: from normalised images to what is predicted of each pixel."""

    weights: torch.Tensor
    bias: torch.Tensor

    def __init__(self, encoder: nn.Module, probe: SavedProbe) -> None:
        super().__init__()
        px, layers = int(probe.about["px"]), [None if one is None else int(one) for one in probe.about["layers"]]
        self.maps = MapEncoder(encoder, layers, size=(px, px))
        self.size = (max(one.rows for one in self.maps.grids), max(one.columns for one in self.maps.grids))
        self.is_depth = probe.kind == "depth"
        self.register_buffer("weights", torch.from_numpy(probe.coefficients).float()[:, :, None, None])
        self.register_buffer("bias", torch.from_numpy(probe.intercepts).float())

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Probabilities, float32 (n, n_classes, px, px), or depth (n, 1, px, px)."""
        flat, found = self.maps(images).float(), list[torch.Tensor]()
        for grid, own in zip(self.maps.grids, self.maps.columns, strict=True):
            one = flat[:, own.start : own.stop].reshape(-1, grid.rows, grid.columns, grid.channels).permute(0, 3, 1, 2)
            is_finest = (grid.rows, grid.columns) == self.size
            found.append(one if is_finest else functional.interpolate(one, self.size, mode="bilinear"))
        logits = functional.conv2d(torch.cat(found, dim=1), self.weights, self.bias)
        logits = functional.interpolate(logits, images.shape[2:], mode="bilinear")
        return logits if self.is_depth else torch.softmax(logits, dim=1)


# --- measuring --------------------------------------------------------------------------------------------------------


def evaluate_map_probe(
    probe: MapProbe,
    train: Any,
    test: Any,
    masks: Any,
    *,
    classes: Sequence[str] = (),
    unit: str = "",
    name: str = "",
    boundary: bool = False,
    n_draws: int = N_DRAWS,
    seed: int = 0,
) -> DenseResult:
    """Measures what a fitted probe predicts of every valid pixel of test images.

    Parameters
    ----------
    probe : SegmentationProbe or DepthProbe
    train, test : Features, or a sequence of them, one per layer
        Maps (:func:`zoo.features.maps.featurise_maps`) that it learned from, and those of the test images.
    masks : sequence
        ``masks[i]`` gives labels, int (height, width), or depth, float, and valid pixels, bool, as of
        :class:`MaskReader`.
    classes : sequence of str
        Of masks.
    unit : str
        Of depth.
    name : str
        Of the result; by default encoder and representation.
    boundary : bool
        Also boundary F1 (:func:`.segmentation_metrics.compute_boundary_f1`), which takes longer.
    n_draws, seed : int
        Of the bootstrap.

    Returns
    -------
    SegmentationResult or DepthResult

    Raises
    ------
    DataError
        If the maps cannot be used together or are not finite, or no test mask has a valid pixel.
    """
    train, test = _list_layers(train, test)
    require_as_many(len(test[0]), masks)
    is_depth, sums, least = isinstance(probe, DepthProbe), list[Any](), np.inf
    confusion = np.zeros((len(classes), len(classes)), np.int64)
    for i, logits in enumerate(probe.iterate_logits([one.x for one in test])):
        wanted, valid = masks[i]
        predicted = probe.enlarge(logits, wanted.shape)
        if is_depth:
            sums.append(measure_depth_errors(predicted, wanted, valid))
            least = min(least, float(wanted[valid].min(initial=np.inf)))
            continue
        of_image = count_confusions(predicted, wanted, valid, len(classes))
        confusion += of_image
        f1 = compute_boundary_f1(predicted, wanted, valid) if boundary else np.nan
        counts = np.concatenate([np.diagonal(of_image), of_image.sum(axis=0), of_image.sum(axis=1)])
        sums.append([*counts.tolist(), 0.0 if np.isnan(f1) else f1, float(not np.isnan(f1))])
    if not (np.isfinite(least) if is_depth else confusion.any()):
        raise DataError(f"No pixel of the {len(sums):,} test masks is valid; expected some to measure on.")
    about: dict[str, Any] = {
        "name": name or _name_layers(train),
        "sums": np.array(sums, np.float64),
        "groups": test[0].groups,
        "n_train": len(train[0]),
        "report": probe.report_ | {"protocol": format_map_protocol(probe)},
        "n_draws": n_draws,
        "seed": seed,
    }
    if is_depth:
        return DepthResult(unit=unit, is_positive=least > 0, **about)
    return SegmentationResult(classes=tuple(classes), confusion=confusion, **about)


def format_map_protocol(probe: MapProbe) -> str:
    """The protocol of a probe, with what is not as usual in it.

    >>> from zoo.features.maps import MapGrid
    >>> format_map_protocol(SegmentationProbe(MapGrid(7, 7, 64), n_classes=2, balanced=True))
    'zoo-segment-2 (balanced=true)'
    """
    base = DEPTH_PROTOCOL if isinstance(probe, DepthProbe) else PROTOCOL
    return build_protocol(base, **{name: getattr(probe, name) for name in PROTOCOLS[base].settings}).name


def require_as_many(n_images: int, masks: Any) -> None:
    """DataError unless there are as many masks as maps, whose order says what belongs together."""
    if len(masks) != n_images:
        raise DataError(
            f"Got maps of {n_images:,} images and {len(masks):,} masks; expected one of each: leave out both of an "
            "image that cannot be read."
        )


def _list_layers(train: Any, test: Any) -> tuple[list[Features], list[Features]]:
    """Training and test maps of each layer, which belong together."""
    some, others = ([one] if isinstance(one, Features) else list(one) for one in (train, test))
    for one, other in zip(some, others, strict=True):
        require_comparable(one, other)
    return some, others


def _name_layers(layers: Sequence[Features]) -> str:
    return f"{layers[0].origin.encoder}, {' + '.join(one.origin.representation for one in layers)}"
