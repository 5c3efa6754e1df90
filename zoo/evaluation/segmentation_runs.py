"""Which encoder, layer and size of images names the classes of pixels best; and probes on maps that are kept.

Images go through the encoder whole, resized to a square (``fit="squash"``), so that a mask is judged at its own size.
The maps of all layers of an encoder at one size come from one forward pass.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..cards.answers import AnswerTable, ShownInNotebooks
from ..cards.catalogue import get_base_card, load_catalogue
from ..cards.schema import Preprocess
from ..datasets.dense import DenseData
from ..datasets.images import ImageSet
from ..encoders.blocks import has_tokens, list_block_modules
from ..encoders.maps import find_map_layer
from ..errors import DataError, QueryError
from ..features import Features
from ..features.computing import FeaturisingOptions
from ..features.featurising import compute_shard_size
from ..features.maps import featurise_maps, parse_map_grid
from ..loading import load_for_whole_images
from ..optional import require_extra
from ..progress import Progress
from .bootstrap import N_DRAWS
from .saved_probes import SavedProbe, describe_origin, get_library_versions
from .segmentation import (
    DepthProbe,
    MapProbe,
    MaskReader,
    SegmentationProbe,
    evaluate_map_probe,
)
from .segmentation_metrics import DenseResult

with require_extra("evaluate", needed_for="A probe on maps"):
    import numpy as np

if TYPE_CHECKING:
    pass

Layers = tuple[int | None, ...]  # whose maps stand next to each other; None: what the network pools


@dataclass(frozen=True, kw_only=True, eq=False)
class SegmentedVariant(ShownInNotebooks):
    """A probe on the maps of some layers of an encoder, for images of one size, and what it measured."""

    encoder: str
    layers: Layers
    px: int  # side of the images that the encoder gets
    probe: MapProbe
    result: DenseResult
    train: Sequence[Features]  # of each layer
    test: Sequence[Features]
    data: DenseData
    preprocess: Preprocess

    @property
    def tuning_score(self) -> float:
        """What the best penalty reached on the tuning images; higher is better: mIoU, or minus the error of depth."""
        path = self.probe.report_["path"]
        return float(max(one["miou"] if isinstance(one, dict) else -one for one in path))

    def build_tables(self) -> Sequence[AnswerTable]:
        """The metrics, and those of each class."""
        result: Any = self.result
        tables: Sequence[AnswerTable] = result.build_tables()
        return tables

    def predict(self, image: int) -> Any:
        """What is predicted of each pixel of a test image, at the size that its mask is judged at."""
        logits = next(self.probe.iterate_logits([one.x[image : image + 1] for one in self.test]))
        return self.probe.enlarge(logits, self.read_mask(image)[0].shape)

    def read_mask(self, image: int) -> tuple[Any, Any]:
        """The mask of a test image and its valid pixels, (height, width), as it is judged."""
        return MaskReader(self.data.val, self.preprocess)[image]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        about = {"encoder": self.encoder, "layers": list(self.layers), "px": self.px}
        kept = {name: one for name, one in self.result.report.items() if not isinstance(one, np.ndarray)}
        return about | self.result.as_dict() | {"tuning_score": self.tuning_score, "probe": kept}


def get_maps_folder(root: str | Path, whole: Preprocess) -> Path:
    """Where maps of whole images are, apart from those of the card's crop, which would be other maps of one grid."""
    return Path(root) / f"whole-{whole.crop_px}px"


def measure_segmentation(
    names: Sequence[str],
    data: DenseData,
    *,
    layers: Sequence[Layers] | None = ((None,),),
    px: Sequence[int | None] = (None,),
    balanced: bool = False,
    boundary: bool = False,
    root: str | Path | None = None,
    how: FeaturisingOptions | None = None,
    n_draws: int = N_DRAWS,
    seed: int = 0,
    progress: Callable[[str], Progress] | None = None,
    tell: Callable[[str], None] | None = None,
) -> list[SegmentedVariant]:
    """Trains a probe on the maps of each layer and size of each encoder, and measures it on the test images.

    ``data`` are of the task "segmentation" or "depth", as of :func:`zoo.datasets.open_dense`. A probe gets the maps of
    the ``layers`` of a tuple next to each other, counted from 0 or, negative, from the end; (None,) is what the network
    pools; without any tuple, each block by itself. ``px`` are sides of the images, None that of the card. ``root`` is
    where maps are kept, in half precision; without it they stay in memory. ``balanced``, ``boundary``, ``n_draws`` and
    ``seed`` are as for :func:`~zoo.evaluation.segmentation.evaluate_map_probe`, ``seed`` also of the draw of tuning
    images; ``how`` and ``progress`` as for :func:`zoo.features.maps.featurise_maps`.

    QueryError and DataError as these functions; QueryError also if the data have other maps.
    """
    if data.task not in ("segmentation", "depth"):
        raise QueryError(f"The data {data.name!r} have maps of {data.task}; expected segmentation or depth.")
    found = []
    for name in dict.fromkeys(get_base_card(load_catalogue()[one]).id for one in names):
        for side in px:
            of_layer, asked, whole = _featurise_whole(name, data, layers, side, root=root, how=how, progress=progress)
            for some in asked:
                called = _name_variant(name, some, whole.crop_px)
                if tell is not None:
                    tell(f"{called}: probe")
                grids = [parse_map_grid(of_layer[layer][0]) for layer in some]
                train, test = ([of_layer[layer][1][part] for layer in some] for part in ("train", "val"))
                chosen: Any = {"balanced": balanced, "boundary": boundary, "n_draws": n_draws, "seed": seed}
                probe, result = _measure(data, train, test, grids, whole, called, **chosen)
                about: Any = {"encoder": name, "layers": some, "px": whole.crop_px, "data": data, "preprocess": whole}
                found.append(SegmentedVariant(probe=probe, result=result, train=train, test=test, **about))
    return found


def _featurise_whole(
    name: str,
    data: DenseData,
    layers: Sequence[Layers] | None,
    px: int | None,
    *,
    root: str | Path | None,
    how: FeaturisingOptions | None,
    progress: Callable[[str], Progress] | None,
) -> tuple[dict[int | None, tuple[str, dict[str, Features]]], list[Layers], Preprocess]:
    """The representation of each layer and its maps of both parts; the layers that were asked for; preprocessing."""
    encoder, transform, whole = load_for_whole_images(name, px=px)
    asked = _resolve_layers(encoder, layers)
    single = [*dict.fromkeys(chain.from_iterable(asked))]
    maps = featurise_maps(
        name,
        {"train": data.train.images, "val": data.val.images},
        layers=single,
        root=None if root is None else get_maps_folder(root, whole),
        how=how,
        stored="float32" if root is None else "float16",
        load=lambda called: (encoder, transform),
        progress=progress,
    )
    return dict(zip(single, maps.items(), strict=True)), asked, whole


def _measure(
    data: DenseData,
    train: Sequence[Features],
    test: Sequence[Features],
    grids: Sequence[Any],
    preprocess: Preprocess,
    name: str,
    *,
    balanced: bool,
    boundary: bool,
    n_draws: int,
    seed: int,
) -> tuple[MapProbe, DenseResult]:
    of_train, of_test = (MaskReader(part, preprocess) for part in (data.train, data.val))
    classes = data.train.classes
    probe: Any
    if data.task == "depth":
        probe = DepthProbe(grids, seed=seed)
    else:
        probe = SegmentationProbe(grids, n_classes=len(classes), balanced=balanced, seed=seed)
    probe.fit([one.x for one in train], of_train, groups=train[0].together)
    how: Any = {"name": name, "boundary": boundary, "n_draws": n_draws, "seed": seed}
    return probe, evaluate_map_probe(probe, train, test, of_test, classes=classes, unit=data.train.unit, **how)


def _resolve_layers(encoder: Any, layers: Sequence[Layers] | None) -> list[Layers]:
    """Layers by their numbers from 0; without, each block of the encoder."""
    backbone = encoder.backbone
    if layers is None:
        n = len(backbone.blocks) if has_tokens(backbone) else sum(map(len, list_block_modules(backbone)))
        return [(block,) for block in range(n)] or [(None,)]
    return [*dict.fromkeys(tuple(find_map_layer(backbone, layer) for layer in some) for some in layers)]


def _name_variant(name: str, layers: Layers, px: int) -> str:
    """What a result is called."""
    blocks = " + ".join("map" if layer is None else str(layer) for layer in layers)
    what = "" if layers == (None,) else f", block{'s' * (len(layers) > 1)} {blocks}"
    return f"{name}{what}, {px} px"


def choose_variant(variants: Sequence[SegmentedVariant]) -> SegmentedVariant:
    """The best on tuning images, which are training images: the test images choose nothing."""
    return max(variants, key=lambda one: one.tuning_score if math.isfinite(one.tuning_score) else -math.inf)


# --- probes that are kept ---------------------------------------------------------------------------------------------

KINDS = {"segmentation": "masks", "depth": "depth"}
"""Kinds of saved probes, by task."""


def make_saved_map_probe(variant: SegmentedVariant, *, seed: int = 0) -> SavedProbe:
    """The probe with its encoder, as :func:`~zoo.evaluation.saved_probes.save_probe` writes it.

    ``coefficients`` are (n_classes, channels), for one place of the maps; the centre is 0.
    """
    train, test = variant.data.train, variant.data.val
    coefficients = np.asarray(variant.probe.coef_, np.float64)
    about = {
        "dataset": variant.data.name,
        "images_hash": {"train": train.images.fingerprint, "val": test.images.fingerprint},
        "seed": seed,
        "layers": list(variant.layers),
        "px": variant.px,
        "representations": [one.origin.representation for one in variant.train],
        "unit": train.unit,
        "protocol": variant.result.report["protocol"],
        "measured": variant.result.as_dict(),
        "versions": get_library_versions(),
    }
    return SavedProbe(
        encoder=variant.encoder,
        origin=describe_origin(variant.train[0].origin),
        kind=KINDS[variant.data.task],
        classes=train.classes or (variant.data.task,),
        coefficients=coefficients,
        intercepts=np.asarray(variant.probe.intercept_, np.float64),
        centre=np.zeros(coefficients.shape[1]),
        about=about,
        scale=train.images.reading.scale,
        background=train.images.reading.background,
    )


def predict_maps(
    probe: SavedProbe,
    images: ImageSet,
    *,
    how: FeaturisingOptions | None = None,
    progress: Callable[[str], Progress] | None = None,
) -> Iterator[tuple[str, Any]]:
    """Name of each image, and what a saved probe on maps predicts of its pixels at its own size, (height, width).

    Classes are int64, depths float32; images that cannot be read are left out if ``how`` says so. In memory are the
    maps of some images at a time.

    Raises
    ------
    DataError
        If the encoder here is not the one that the probe was trained on, or the set holds no image.
    CorruptImage
    """
    if not len(images):
        raise DataError(f"The image set {images.name!r} holds no image; there is nothing to predict.")
    representations = probe.about["representations"]
    both = probe.network  # once it is the right one
    grids = [parse_map_grid(one) for one in representations]
    is_depth = probe.kind == "depth"
    head: MapProbe = DepthProbe(grids) if is_depth else SegmentationProbe(grids, n_classes=len(probe.classes))
    head.adopt_fit({"coefficients": probe.coefficients, "intercepts": probe.intercepts}, {})
    at_once = compute_shard_size(sum(grid.width for grid in grids))
    for start in range(0, len(images), at_once):
        some = images.subset(np.arange(start, min(start + at_once, len(images))), split=images.split)
        layers = [None if layer is None else int(layer) for layer in probe.about["layers"]]
        maps = featurise_maps(
            probe.encoder,
            {"new": some},
            layers=layers,
            how=how,
            load=lambda called: both,
            progress=progress,
            parts=("new",),
        )
        found = [one["new"] for one in maps.values()]
        if [one.origin.representation for one in found] != representations:
            raise DataError(
                f"The maps of {probe.encoder!r} are {', '.join(maps)} here, and the probe was trained on "
                f"{', '.join(representations)}; save the probe again."
            )
        places = {name: position for position, name in enumerate(some.names)}
        for name, logits in zip(found[0].names, head.iterate_logits([one.x for one in found]), strict=True):
            width, height = some.images[places[name]].size
            yield name, head.enlarge(logits, (height, width))
