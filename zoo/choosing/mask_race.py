"""A race over images with masks: which encoder's maps name the classes of pixels best.

The race is that of labelled images (:mod:`.successive_halving`); what is compared is, for each test image, the share of
its valid pixels that is named wrongly, of which differences are paired by image. Before all training images are there,
a probe on the places alone (1 x 1 cells) judges in place of ridge regression; with all of them, the probe of
``zoo segment``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from ..cards.answers import AnswerColumn, AnswerTable, make_interval_columns
from ..cards.catalogue import get_base_card, load_catalogue
from ..errors import DataError, QueryError
from ..evaluation.segmentation import SegmentationProbe, make_mask_reader
from ..evaluation.segmentation_runs import load_for_whole_images
from ..features.computing import FeaturisingOptions
from ..features.maps import MapGrid, featurise_maps, parse_map_grid
from ..optional import require_extra
from .scoring import Chunk, Task
from .successive_halving import Plan, Race, race

with require_extra("evaluate", needed_for="Choosing an encoder"):
    import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..datasets.dense import DenseData

_FEWEST = 8  # images of a part
_EARLY_TOL = 1e-3  # of probes on part of the training images


class MaskContender:
    """An encoder in a race over masks: its maps of whole images, computed once per image and held in memory."""

    def __init__(self, name: str, data: DenseData, *, px: int | None, how: FeaturisingOptions | None) -> None:
        self.name, self.data, self.px, self.how = name, data, px, how
        self.grid: MapGrid | None = None
        self.preprocess: Any = None
        self.seconds_per_image = 1.0  # alike for all, until measured
        self._maps: dict[str, Any] = {}  # float32 (n, width) of each part, of which some rows are there
        self._is_there = {part: np.zeros(len(getattr(data, part)), bool) for part in ("train", "val")}

    def features(self, part: str, rows: NDArray[np.int64]) -> Any:
        """Maps of these images, float32 (len(rows), width)."""
        missing = np.sort(rows[~self._is_there[part][rows]])
        if len(missing):
            self._compute(part, missing)
        return self._maps[part][rows]

    def n_missing(self, part: str, rows: NDArray[np.int64]) -> int:
        """How many have no maps yet."""
        return int((~self._is_there[part][rows]).sum())

    def _compute(self, part: str, rows: NDArray[np.int64]) -> None:
        encoder, transform, self.preprocess = load_for_whole_images(self.name, px=self.px)
        images = getattr(self.data, part).images
        started = time.perf_counter()
        found = featurise_maps(
            self.name,
            {part: images.subset(rows, split=f"{part} {len(rows)} of a race")},
            how=self.how,
            load=lambda name: (encoder, transform),
            parts=(part,),
        )
        self.seconds_per_image = (time.perf_counter() - started) / len(rows)
        ((representation, of_part),) = found.items()
        if len(of_part[part]) != len(rows):
            raise DataError(f"{len(rows) - len(of_part[part]):,} images could not be read; leave them out of the data.")
        self.grid = parse_map_grid(representation)
        maps = self._maps.setdefault(part, np.empty((len(images), self.grid.width), np.float32))
        maps[rows], self._is_there[part][rows] = np.asarray(of_part[part].x), True


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MaskTask(Task):
    """Masks in place of labels: a target is the number of an image, a loss the share of its pixels named wrongly."""

    data: DenseData
    contenders: dict[str, MaskContender] = field(default_factory=dict)
    seed: int = 0

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
        losses = self.fit(name, train, chunk.x_train, cells=1, tol=_EARLY_TOL)(chunk.x_test, test)
        return np.empty(0), losses, float(losses.mean())

    def fit(self, name: str, rows: Any, x: Any, y: Any = None, **settings: Any) -> Callable[[Any, Any], Any]:
        """Trains a probe on the maps of some training images; gives the shares of wrong pixels of test images."""
        contender = self.contenders[name]
        groups = None if self.groups_train is None else self.groups_train[rows]
        probe = SegmentationProbe(contender.grid, n_classes=len(self.classes), seed=self.seed, **settings)
        of_train = make_mask_reader(self.data.train, contender.preprocess)
        probe.fit(x, _Picked(of_train, rows), groups=groups)
        return partial(self._judge, probe, contender)

    def _judge(self, probe: SegmentationProbe, contender: MaskContender, x: Any, rows: Any) -> Any:
        masks, found = make_mask_reader(self.data.val, contender.preprocess), list[float]()
        for row, logits in zip(rows, probe.iterate_logits(x), strict=True):
            labels, valid = masks[int(row)]
            wrong = probe.enlarge(logits, labels.shape) != labels
            found.append(float(wrong[valid].mean()) if valid.any() else 0.0)
        return np.array(found)


class _Picked:
    """Some masks, in the order of their rows."""

    def __init__(self, masks: Any, rows: Any) -> None:
        self.masks, self.rows = masks, rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, i: int) -> Any:
        return self.masks[int(self.rows[i])]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MaskChoice:
    """The end of a race over masks; errors are percent of the valid pixels, the mean over test images."""

    dataset: str
    classes: tuple[str, ...]
    race: Race

    @property
    def winner(self) -> str:
        """The encoder of the lowest error."""
        return self.race.leader.name

    def build_tables(self) -> list[AnswerTable]:
        """The encoders, the best first."""
        some = self.race.standings
        columns = [
            AnswerColumn("encoder", [one.name for one in some], key="encoder"),
            *make_interval_columns([one.error for one in some], "pixels wrong %"),
            *make_interval_columns([one.behind for one in some], "behind", key="behind_points"),
            AnswerColumn("verdict", [one.verdict for one in some], key="verdict"),
            AnswerColumn("images", [one.n_train + one.n_test for one in some], key="n_images"),
        ]
        leader = self.race.leader
        about = f": {leader.n_train:,} training and {leader.n_test:,} test images, {len(self.classes)} classes"
        return [AnswerTable(columns=columns, title=f"Masks of {self.dataset}", about=about)]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "dataset": self.dataset,
            "classes": list(self.classes),
            "winner": self.winner,
            "encoders": self.build_tables()[0].records,
            "share_of_full_cost": self.race.share,
            "notes": list(self.race.notes),
        }


def choose_for_masks(
    names: Sequence[str],
    data: DenseData,
    *,
    px: int | None = None,
    time_s: float | None = None,
    how: FeaturisingOptions | None = None,
    seed: int = 0,
    plan: Plan | None = None,
    tell: Callable[[str], None] | None = None,
) -> MaskChoice:
    """The encoder whose maps segment images best, by a race over them.

    Parameters
    ----------
    names : sequence of str
        Ids of two encoders or more.
    data : DenseData
        Of the task "segmentation", as of :func:`zoo.datasets.open_dense`.
    px : int, optional
        Side of the images that encoders get, whole and resized; by default each one's own.
    time_s : float, optional
        Seconds within which the race ends.
    how : FeaturisingOptions, optional
    seed : int
        Of the order of images and of the tuning images.
    plan : Plan, optional
        Of the race, in place of the usual one.
    tell : callable, optional
        Called with a sentence on what is done next.

    Raises
    ------
    QueryError
        If there are fewer than two encoders, or the data have no masks.
    DataError
        If there are too few images, or no encoder can be used.
    """
    ids = list(dict.fromkeys(get_base_card(load_catalogue()[name]).id for name in names))
    if len(ids) < 2:
        raise QueryError(f"A race got {len(ids)} encoder; expected two or more: name them, as --encoders A,B.")
    if data.task != "segmentation":
        raise QueryError(f"{data.name!r} has maps of {data.task}; expected masks (the task segmentation).")
    contenders = {name: MaskContender(name, data, px=px, how=how) for name in ids}
    of_train, of_test = data.train.images.together, data.val.images.together
    task = MaskTask(
        y_train=np.zeros(len(data.train), np.int64),
        y_test=np.zeros(len(data.val), np.int64),
        groups_train=of_train,
        groups_test=of_test,
        given_groups_test=data.val.images.groups,
        classes=data.train.classes,
        data=data,
        contenders=contenders,
        seed=seed,
    )
    chosen = plan or Plan(seed=seed, share=None, budget_s=time_s)
    found = race([*contenders.values()], task, chosen, probe=task.fit, tell=tell)
    return MaskChoice(dataset=data.name, classes=data.train.classes, race=found)
