"""Patch features of images: maps of one or several blocks, as ordinary features that stay on the disk.

A row is the flattened map of an image, (n_places * channels,): places row by row, the channels of a place next to each
other (index = place * channels + channel), with the class token as the first place where it is asked for. Which map
that is and its grid stand in ``Origin.representation``, which :func:`parse_map_grid` reads::

    map:11 14x14x384        patches of block 11, counted from 0: rows, columns, channels; tokens after the final norm
    cls+map:11 14x14x384    with the class token before them
    map 7x7x1280            what the network pools, where that is not the output of a block
    map:11 14x14x64 of 384 (91.2 % of variance, components 3f1c09ab)

The last is reduced to principal components of patches of at most 1,000 training images; their hash is in its name, for
two maps are comparable only in one basis. The basis is stored next to the maps, as features: the mean, then the
components, each as long as its standard deviation, so that one fit serves every number of components.

Shards, hashes and resuming are those of all features. In memory are a shard of all layers together
(:data:`~zoo.features.featurising.SHARD_BYTES`, or one image if that is larger), two copies of it while it is written,
and the network with its batch, whatever the number of images.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

from ..cards.catalogue import get_base_card, load_catalogue
from ..datasets import ImageData, ImageSet
from ..datasets.images import NO_LABEL
from ..encoders.encoder import Encoder
from ..encoders.maps import compute_block_maps, find_map_layer
from ..errors import CorruptImage, DataError, QueryError, format_count
from ..loading import load as load_encoder
from ..optional import require_extra
from ..progress import Progress
from ..storage import Location, resolve_place
from .computing import ComputedShard, FeaturisingOptions, GroupNetwork, compute
from .decoding import Preprocess
from .featurising import (
    FeatureColumns,
    build_forward,
    build_origin,
    compute_shard_size,
    featurise_parts,
    report_progress,
)
from .shards import STORED
from .store import Features, load_features, read_index, require_same_origin
from .work_items import Load, get_features_location

with require_extra("models", needed_for="Computing features"):
    import numpy as np
    import torch
    from torch import Tensor, nn

_CLASS = "cls+"
_GRID = re.compile(r"(cls\+)?map(?::-?\d+)? (\d+)x(\d+)x(\d+)(?: of \d+ \(.+\))?")
_MOST_SAMPLED, _LEAST_SAMPLED = 1_000, 64  # training images whose patches say the components
_PATCHES_SAMPLED = 1 << 17  # about, of all of them
_FLAT = 1e-6  # standard deviations below this part of the largest are rounding


@dataclass(frozen=True, slots=True)
class MapGrid:
    """How the numbers of a flattened map are to be read."""

    rows: int
    columns: int
    channels: int
    has_class_token: bool = False  # as the first place

    @property
    def n_places(self) -> int:
        """Patches, and the class token where there is one."""
        return self.rows * self.columns + self.has_class_token

    @property
    def width(self) -> int:
        """Numbers per image."""
        return self.n_places * self.channels

    def __str__(self) -> str:
        return f"{self.rows}x{self.columns}x{self.channels}"


def parse_map_grid(representation: str) -> MapGrid:
    """The grid of maps by the representation in their origin; QueryError if those features are no maps.

    >>> parse_map_grid("cls+map:11 14x14x64 of 384 (91.2 % of variance, components 3f1c09ab)")
    MapGrid(rows=14, columns=14, channels=64, has_class_token=True)
    """
    match = _GRID.fullmatch(representation)
    if match is None:
        raise QueryError(
            f"The features are {representation!r}, expected maps, such as 'map:11 14x14x384'; compute them with "
            "zoo features --maps or featurise_maps."
        )
    return MapGrid(int(match[2]), int(match[3]), int(match[4]), has_class_token=match[1] is not None)


def parse_map_layer(representation: str) -> int | None:
    """The block of maps, None of what the network pools; QueryError if they are no maps, or on components.

    >>> parse_map_layer("map:11 14x14x384"), parse_map_layer("map 7x7x1280")
    (11, None)
    """
    parse_map_grid(representation)
    if " of " in representation:
        raise QueryError(
            f"The maps are {representation!r}, on principal components; expected those of the encoder itself, which "
            "zoo features --maps without --components computes."
        )
    layer = representation.partition(" ")[0].partition(":")[2]
    return int(layer) if layer else None


def iterate_maps(features: Features, n_images: int = 64) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Maps and labels in order, ``n_images`` at a time: float32 (n_images, n_places, channels), int64 (n_images,).

    The class token, where there is one, is the first place; the others are the patches, row by row.
    """
    grid = parse_map_grid(features.origin.representation)
    for x, y in features.batches(n_images):
        yield x.reshape(len(x), grid.n_places, grid.channels), y


class MapEncoder(nn.Module):
    """From normalised images, float32 (n, 3, height, width), to flattened maps of layers, side by side, (n, width).

    Weights are those of the encoder. ``grids`` are those of the layers in their order, ``names`` their representations
    as in the origin of features.

    Parameters
    ----------
    encoder : torch.nn.Module
        An encoder of the zoo, or one with a method ``maps(images, layer=...)`` like theirs.
    layers : sequence of int or None
        Blocks, as :meth:`zoo.encoders.Encoder.maps` counts them, -1 the last; None: what the network pools.
    size : tuple of int
        Height and width of the images, for which the grids are.
    class_token : bool
        The class token of the layer is the first place.

    Raises
    ------
    QueryError
        If the encoder has no maps, no such block, or no class token.
    """

    def __init__(
        self,
        encoder: nn.Module,
        layers: Sequence[int | None] = (None,),
        *,
        size: tuple[int, int],
        class_token: bool = False,
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.class_token = class_token
        self._n_bases = 0
        is_read_here = isinstance(encoder, Encoder)
        found = [find_map_layer(encoder.backbone, layer) for layer in layers] if is_read_here else layers
        self.layers = tuple(dict.fromkeys(found))
        if not self.layers or not hasattr(encoder, "maps"):
            raise QueryError(
                f"Found the layers {list(layers)} of a {type(encoder).__name__}, expected one or more, such as -1, the "
                "last block, of an encoder with maps(images, layer=...)."
            )
        first = next(iter(encoder.parameters()), torch.empty(0))
        with torch.inference_mode():
            maps = self.eval()._read(torch.zeros(1, 3, *size, dtype=first.dtype, device=first.device))
        called = [f"{_CLASS if class_token else ''}map" + (f":{layer}" * (layer is not None)) for layer in self.layers]
        self.grids = tuple(MapGrid(one.shape[2], one.shape[3], one.shape[1], class_token) for one, _ in maps)
        self.names = tuple(f"{name} {grid}" for name, grid in zip(called, self.grids, strict=True))

    @property
    def columns(self) -> list[range]:
        """The columns of each layer."""
        ends = list(accumulate((grid.width for grid in self.grids), initial=0))
        return [range(*pair) for pair in pairwise(ends)]

    def forward(self, images: Tensor) -> Tensor:
        """The flattened maps of all layers, the first first, (n, width)."""
        rows = []
        for number, (patches, token) in enumerate(self._read(images)):
            places = patches.flatten(2).transpose(1, 2)  # (n, places, channels)
            if token is not None:
                places = torch.cat([token[:, None], places], dim=1)
            if self._n_bases:
                mean, axes = self.get_buffer(f"mean_{number}"), self.get_buffer(f"axes_{number}")
                places = (places.float() - mean) @ axes.T
            rows.append(places.flatten(1))
        return torch.cat(rows, dim=1)

    def _read(self, images: Tensor) -> list[tuple[Tensor, Tensor | None]]:
        """The map of each layer, (n, channels, rows, columns), and its class token where that is asked for."""
        encoder: Any = self.encoder
        if isinstance(encoder, Encoder):
            found = compute_block_maps(encoder.backbone, images, self.layers)
        else:
            asked = [{} if layer is None else {"layer": layer} for layer in self.layers]
            found = [(encoder.maps(images, **one), None) for one in asked]
        if self.class_token and any(token is None for _, token in found):
            raise QueryError("The encoder has no class token in its maps; ask for patches alone.")
        return [(patches, token if self.class_token else None) for patches, token in found]

    def reduce(self, bases: Sequence[np.ndarray], n_components: int) -> None:
        """Has the maps of each layer on its first principal components from now on; ``bases`` as of the store.

        A basis is float32 (1 + channels, channels): the mean, then the components times their standard deviations.
        QueryError if one has fewer components.
        """
        reduced = []
        for number, (basis, grid) in enumerate(zip(bases, self.grids, strict=True)):
            deviations = np.linalg.norm(basis[1:].astype(np.float64), axis=1)
            n_most = int((deviations > 0).sum())
            if not 1 <= n_components <= n_most:
                raise QueryError(
                    f"Found {format_count(n_components, 'component')}, expected 1 to {n_most}: {self.names[number]!r} "
                    f"varies along {n_most} of its {grid.channels} channels in these images."
                )
            share = np.square(deviations[:n_components]).sum() / np.square(deviations).sum()
            axes = basis[1 : n_components + 1] / deviations[:n_components, None]
            self.register_buffer(f"mean_{number}", torch.from_numpy(basis[0].copy()))
            self.register_buffer(f"axes_{number}", torch.from_numpy(axes.astype(np.float32)))
            hashed = blake2b(basis[: n_components + 1].tobytes(), digest_size=4).hexdigest()
            own = replace(grid, channels=n_components)
            called = f"{self.names[number].partition(' ')[0]} {own} of {grid.channels}"
            reduced.append((own, f"{called} ({100 * share:.1f} % of variance, components {hashed})"))
        self._n_bases = len(bases)
        self.to(next(iter(self.encoder.parameters()), torch.empty(0)).device)
        self.grids, self.names = tuple(grid for grid, _ in reduced), tuple(name for _, name in reduced)


def featurise_maps(
    name: str,
    data: ImageData | Mapping[str, ImageSet],
    *,
    layers: Sequence[int | None] = (None,),
    px: int | None = None,
    class_token: bool = False,
    n_components: int | None = None,
    root: str | Path | Location | None = None,
    how: FeaturisingOptions | None = None,
    stored: str = "float32",
    load: Load | None = None,
    progress: Callable[[str], Progress] | None = None,
    parts: Sequence[str] = ("train", "val"),
) -> dict[str, dict[str, Features]]:
    """Maps of the parts of a data set under one encoder, of all layers by one forward pass over the images.

    Parameters
    ----------
    name : str
        Id of the encoder; which features it gives has no part in its maps.
    data : ImageData, or image sets by part
    layers, class_token
        As for :class:`MapEncoder`.
    px : int, optional
        Side of the images, as for :func:`zoo.load`.
    n_components : int, optional
        Maps on so many principal components of the patches of at most 1,000 images of the part "train", or of the first
        part.
    root : path, str or Location, optional
        Folder or address of all evaluations; maps that are there are not computed again. Without it all stay in memory.
    how : FeaturisingOptions, optional
    stored : {"float32", "float16"}
        The type of the numbers on the disk; they are float32 when they are read.
    load : callable, optional
        Gives encoder and preprocessing for the name, in place of :func:`zoo.load`.
    progress : callable, optional
        Gives, for a part, what reports its progress.
    parts : sequence of str
        Which parts.

    Returns
    -------
    dict of dict
        Features by representation, in the order of the layers, and part: x float32 (n, n_places * channels), which
        :func:`iterate_maps` shapes.

    Raises
    ------
    QueryError
        If the encoder has no maps, no such block, size, class token or number of components, or an option makes no
        sense.
    CorruptImage, DataError
        As :func:`~zoo.features.featurise`.
    """
    if stored not in STORED:
        raise QueryError(f"Found stored={stored!r}, expected one of {', '.join(STORED)}.")
    if load is not None and px is not None:
        raise QueryError(f"Found px={px} and a function that loads the encoder; give one that loads it for this size.")
    chosen = how or FeaturisingOptions()
    of_zoo = None if load is not None else get_base_card(load_catalogue()[name])
    called = name if of_zoo is None else of_zoo.id
    encoder, preprocess = load_encoder(called, px=px) if load is None else load(name)
    other_px = "" if px is None or of_zoo is None or px == of_zoo.preprocess.crop_px else f"-{px}px"
    place = None if root is None else resolve_place(root)

    def locate(what: str, images: ImageSet, as_stored: str) -> Location | None:
        if place is None:
            return None
        label = f"{called}@{what}{other_px}"
        return get_features_location(place, label, images, precision=chosen.precision, stored=as_stored)

    sets = data if isinstance(data, Mapping) else {part: getattr(data, part) for part in ("train", *parts)}
    size = _find_size(encoder, preprocess, sets[parts[0]], skip_corrupt=chosen.skip_corrupt)
    maps = MapEncoder(encoder, layers, size=size, class_token=class_token)
    if n_components is not None:
        sample = _draw_sample(sets.get("train") or next(iter(sets.values())), maps.grids)
        told = None if progress is None else progress("components")
        bases = _fit_components(maps, preprocess, sample, called, how=chosen, locate=locate, progress=told)
        maps.reduce(bases, n_components)
    found: dict[str, dict[str, Features]] = {representation: {} for representation in maps.names}
    for part in parts:
        columns = [
            FeatureColumns(
                name=one,
                representation=one,
                columns=own,
                place=locate(_shorten(one), sets[part], stored),
                encoder=called,
            )
            for one, own in zip(maps.names, maps.columns, strict=True)
        ]
        told = None if progress is None else progress(part)
        of_part = featurise_parts(
            maps, encoder, preprocess, sets[part], columns, how=chosen, stored=stored, progress=told
        )
        for representation, features in of_part.items():
            found[representation][part] = features
    return found


def _find_size(encoder: nn.Module, preprocess: Preprocess, images: ImageSet, *, skip_corrupt: bool) -> tuple[int, int]:
    """Height and width of preprocessed images: those of the encoder, or of the first one that can be read."""
    if isinstance(encoder, Encoder) and encoder.px is not None:
        return encoder.px, encoder.px
    for number in range(len(images)):
        try:
            height, width = preprocess(images.images[number]).shape[-2:]
            return height, width
        except CorruptImage:
            if not skip_corrupt:
                raise
    raise DataError(
        f"None of the {len(images):,} images of {images.name!r} can be read; there is nothing to featurise."
    )


def _shorten(representation: str) -> str:
    """A representation for the name of a folder, without what its components' hash says already."""
    grid, _, about = representation.partition(" (")
    return f"{grid}-{about.rpartition(' ')[2].strip(')')}" if about else grid


def _draw_sample(images: ImageSet, grids: Sequence[MapGrid]) -> ImageSet:
    """Some of the images, whatever layers are asked for next to others at one grid; all if there are few."""
    n = _PATCHES_SAMPLED // max(grid.rows * grid.columns for grid in grids)
    n = min(max(n, _LEAST_SAMPLED), _MOST_SAMPLED)
    if n >= len(images):
        return images
    chosen = np.sort(np.random.default_rng(0).permutation(len(images))[:n])
    return images.subset(chosen, split=f"{images.split} {n} drawn")


def _fit_components(
    maps: MapEncoder,
    preprocess: Preprocess,
    images: ImageSet,
    name: str,
    *,
    how: FeaturisingOptions,
    locate: Callable[[str, ImageSet, str], Location | None],
    progress: Progress | None,
) -> list[np.ndarray]:
    """The basis of each layer, as :meth:`MapEncoder.reduce` takes it: from the store, or of the patches of images."""
    network = GroupNetwork(encoder=maps, name=name, precision=how.precision)
    size = compute_shard_size(maps.columns[-1].stop)
    forward = build_forward(network, preprocess, images, how, shard_size=size, progress=progress)
    origin = build_origin(forward, maps.encoder, representation="")
    origins = [replace(origin, representation=f"components of {one.removeprefix(_CLASS)}") for one in maps.names]
    places = [locate(one.representation, images, "float32") for one in origins]
    if all(place is not None and read_index(place) is not None for place in places):
        given = [(load_features(place), one) for place, one in zip(places, origins, strict=True) if place is not None]
        for features, one in given:
            require_same_origin(resolve_place(features.where), features.origin, one)
        return [features.x[:] for features, _ in given]
    moments = [_PatchMoments(grid) for grid in maps.grids]

    def keep(computed: ComputedShard) -> None:
        for own, columns in zip(moments, maps.columns, strict=True):
            if len(computed.x):
                own.add(computed.x[:, columns.start : columns.stop])

    with report_progress(forward, origins[0], n_done=0):
        compute(forward, range(forward.n_shards), keep)
    bases = [own.find_basis() for own in moments]
    for basis, place, one in zip(bases, places, origins, strict=True):
        names = ("mean", *(f"component {number}" for number in range(1, len(basis))))
        if place is not None and read_index(place) is None:
            Features(x=basis, y=np.full(len(basis), NO_LABEL), origin=one, names=names).save(place)
    return bases


class _PatchMoments:
    """Mean and covariance of the patches of a layer, summed up in float64 about the mean of the first images."""

    def __init__(self, grid: MapGrid) -> None:
        self._grid, self._n = grid, 0
        self._shift = np.zeros(grid.channels)
        self._sum = np.zeros(grid.channels)
        self._products = np.zeros((grid.channels, grid.channels))

    def add(self, x: np.ndarray) -> None:
        """Takes rows of flattened maps, float32 (n, width)."""
        grid = self._grid
        patches = x.reshape(len(x), grid.n_places, grid.channels)[:, int(grid.has_class_token) :]
        rows = patches.reshape(-1, grid.channels).astype(np.float64)  # (n * patches, channels)
        if not self._n:
            self._shift = rows.mean(axis=0)
        rows -= self._shift
        self._n += len(rows)
        self._sum += rows.sum(axis=0)
        self._products += rows.T @ rows

    def find_basis(self) -> np.ndarray:
        """The mean and the principal components times their standard deviations, float32 (1 + channels, channels)."""
        if not self._n:
            raise DataError("None of the images of the components could be read; there is nothing to reduce by.")
        mean = self._sum / self._n
        variances, vectors = np.linalg.eigh(self._products / self._n - np.outer(mean, mean))
        variances, vectors = variances[::-1], vectors[:, ::-1]  # the largest first
        deviations = np.sqrt(np.maximum(variances, 0))
        deviations[deviations <= _FLAT * deviations[0]] = 0
        largest = np.abs(vectors).argmax(axis=0)  # whose sign is positive, so that a fit is one
        vectors = vectors * np.sign(vectors[largest, np.arange(len(largest))])
        return np.vstack([self._shift + mean, (vectors * deviations).T]).astype(np.float32)
