"""Contenders and task of a race over images with masks: which encoder's maps name the classes of pixels best.

The race is that of labelled images (:mod:`.choosing`); what is compared is, for each test image, the share of its valid
pixels that is named wrongly, of which differences are paired by image. Before all training images are there, a probe on
the places alone (1 x 1 cells) judges in place of ridge regression; with all of them, the probe of ``zoo segment``. Maps
are kept in its store: what a race computed is not computed again, and they are read from there, some images at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from ..cards.catalogue import load_catalogue
from ..cards.schema import Preprocess
from ..datasets.dense import DenseData
from ..encoders.build import build_encoder
from ..errors import DataError, QueryError
from ..evaluation.segmentation import MaskReader, SegmentationProbe
from ..evaluation.segmentation_runs import get_maps_folder
from ..features import Features
from ..features.maps import MapEncoder, MapGrid, featurise_maps, parse_map_grid
from ..features.shards import PickedRows
from ..loading import derive_whole_preprocess, load_for_whole_images
from ..optional import require_extra
from .candidates import ImageContender
from .scoring import Chunk, Task

with require_extra("evaluate", needed_for="Choosing an encoder"):
    import numpy as np

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray

    Rows = NDArray[np.int64]

_FEWEST = 8  # images of a part
_EARLY_TOL = 1e-3  # of probes on part of the training images


class MaskContender(ImageContender):
    """An encoder in a race over masks: its maps of whole images, chunk by chunk in the store of ``zoo segment``."""

    stored = "float16"

    @cached_property
    def preprocess(self) -> Preprocess:
        """Of whole images."""
        return derive_whole_preprocess(load_catalogue()[self.name])

    @property
    def root(self) -> Path:
        """Where maps of whole images of this size are."""
        return Path(get_maps_folder(self.ground.root, self.preprocess))

    @cached_property
    def representation(self) -> str:
        """Of the maps that the network pools, by a pass that computes nothing."""
        px = self.preprocess.crop_px
        return MapEncoder(build_encoder(load_catalogue()[self.name], device="meta"), size=(px, px)).names[0]

    @property
    def grid(self) -> MapGrid:
        """Of these maps."""
        return parse_map_grid(self.representation)

    @property
    def called(self) -> str:
        """What its maps are kept under."""
        return f"{self.name}@{self.representation}"

    def features(self, part: str, rows: Rows) -> Any:
        """The numbers of these images, once their maps are kept: :meth:`read` has these."""
        if self.whole(part) is None:
            for number in np.unique(self.ground.chunk_of[part][0][rows]).tolist():
                self.chunk(part, number)
        return rows

    def read(self, part: str, rows: Rows) -> PickedRows:
        """Maps of these images, (len(rows), width), which stay on the disk."""
        self.features(part, rows)
        if (whole := self.whole(part)) is not None:
            parts, positions = [whole.x], rows
        else:
            number, row = (of_image[rows] for of_image in self.ground.chunk_of[part])
            used, at = np.unique(number, return_inverse=True)
            parts = [self.chunk(part, one).x for one in used.tolist()]
            positions = np.cumsum([0, *map(len, parts)])[at.reshape(-1)] + row
        return PickedRows(parts, positions)  # type: ignore[arg-type]  # those of a store are Rows

    _read = read

    @staticmethod
    def _load(name: str) -> tuple[torch.nn.Module, Any]:
        return load_for_whole_images(name)[:2]

    def _featurise(self, encoder: torch.nn.Module, preprocess: Any, images: Any, **how: Any) -> Features:
        progress = how.get("progress")
        ((_, found),) = featurise_maps(
            self.name,
            {"race": images},
            root=self.root if how.get("folder") else None,
            how=replace(self.ground.how, batch_size=self.batch_size, skip_corrupt=False),
            stored=self.stored,
            load=lambda name: (encoder, preprocess),
            progress=None if progress is None else lambda part: progress,
            parts=("race",),
        ).items()
        return found["race"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MaskTask(Task):
    """Masks in place of labels: a target is the number of an image, a loss the share of its pixels named wrongly."""

    data: DenseData
    contenders: dict[str, MaskContender]
    seed: int = 0
    judge: ClassVar[str] = "coarse probe"

    def __post_init__(self) -> None:
        if min(self.n_train, self.n_test) < _FEWEST:
            raise DataError(
                f"{self.data.name!r} has {self.n_train:,} training and {self.n_test:,} test images; expected "
                f"at least {_FEWEST} of both."
            )

    @property
    def targets(self) -> tuple[Any, Any]:
        """Numbers of the images."""
        return np.arange(self.n_train), np.arange(self.n_test)

    def compute_losses(self, predicted: Any, rows: Any) -> Any:
        """The losses, which is what a probe of this task gives."""
        return predicted

    def score(self, name: str, chunk: Chunk) -> tuple[Any, Any, float]:
        """Of a probe on part of the training images: none on these, and shares of pixels of the test images."""
        train, test = chunk.y_train, chunk.y_test
        groups = None if self.groups_train is None else self.groups_train[train]
        if len(train) < 2 or (groups is not None and len(np.unique(groups)) < 2):
            return np.empty(0), np.ones(len(test)), 1.0
        losses = self.fit(name, train, cells=1, tol=_EARLY_TOL)(None, test)
        return np.empty(0), losses, float(losses.mean())

    def fit(self, name: str, rows: Any, x: Any = None, y: Any = None, **settings: Any) -> Callable[[Any, Any], Any]:
        """Trains a probe on the maps of some training images; gives the shares of wrong pixels of test images."""
        contender = self.contenders[name]
        groups = None if self.groups_train is None else self.groups_train[rows]
        probe = SegmentationProbe(contender.grid, n_classes=len(self.classes), seed=self.seed, **settings)
        some = self.data.train.subset(rows, split="train")
        probe.fit(contender.read("train", rows), MaskReader(some, contender.preprocess), groups=groups)
        return partial(self._judge, probe, contender)

    def _judge(self, probe: SegmentationProbe, contender: MaskContender, x: Any, rows: Any) -> Any:
        masks, found = MaskReader(self.data.val, contender.preprocess), list[float]()
        for row, logits in zip(rows, probe.iterate_logits(contender.read("val", rows)), strict=True):
            labels, valid = masks[int(row)]
            wrong = probe.enlarge(logits, labels.shape) != labels
            found.append(float(wrong[valid].mean()) if valid.any() else 0.0)
        return np.array(found)


def build_mask_task(data: DenseData, *, seed: int = 0) -> MaskTask:
    """The task of images with masks, whose ``contenders`` are still to be named.

    QueryError if they have no masks, DataError if there are too few.
    """
    if data.task != "segmentation":
        raise QueryError(f"{data.name!r} has maps of {data.task}; expected masks (the task segmentation).")
    return MaskTask(
        y_train=np.zeros(len(data.train), np.int64),
        y_test=np.zeros(len(data.val), np.int64),
        groups_train=data.train.images.together,
        groups_test=data.val.images.together,
        given_groups_test=data.val.images.groups,
        classes=data.train.classes,
        data=data,
        contenders={},
        seed=seed,
    )
