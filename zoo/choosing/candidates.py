"""Encoders as contenders on real images: features chunk by chunk, kept on disk, with their speed and memory here.

A chunk has the images that a rung adds, and a folder of its own among those of ``zoo evaluate``. Its images follow from
the data set, the seed and the size of the first rung alone, so that a race that was stopped, or is run again with other
encoders, computes only what is missing. Features of a whole part that are kept are read instead.
"""

from __future__ import annotations

import json
import platform
import shutil
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..cards.catalogue import load_catalogue
from ..cards.costs import estimate_memory, find_cost
from ..cards.schema import Preprocess
from ..datasets import DenseData, ImageData, ImageSet
from ..errors import DataError, QueryError, ZooError, format_count
from ..evaluation.evaluating import get_runs_folder, locate_speed
from ..features import Features, featurise, load_features
from ..features.featurising import compute_shard_size
from ..features.store import hash_preprocess
from ..features.work_items import FeaturisingOptions, build_features_path
from ..files import replace_file
from ..optional import require_extra
from ..progress import Progress, SilentProgress
from .scoring import Schedule, build_task
from .shortlist import find_local_weights
from .successive_halving import Plan

with require_extra("models", needed_for="Choosing an encoder"):
    import numpy as np
    import torch

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]
    Rows = NDArray[np.int64]

_MOST_LOADED = 2  # encoders that are kept in memory; the last rungs go on with few
_MOST_OPEN = 8  # folders of features that are not opened again for each probe
_TIMED = 16  # images by whose features a speed is measured where those of all were there
_WARMING = 4  # images of a first forward pass, which sets things up and is not timed

Load = Callable[[str], tuple[torch.nn.Module, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredSpeed:
    """How fast an encoder makes features of images, decoding included, and what it takes."""

    seconds_per_image: float
    n_images: int  # that it was measured on
    batch_size: int
    peak_bytes: int | None  # most memory of the GPU that tensors took; None on another device

    @property
    def images_per_second(self) -> float:
        return 1.0 / self.seconds_per_image


class Counting:
    """Counts the images of a run, and passes its progress on."""

    def __init__(self, other: Progress) -> None:
        self._other, self.n = other, 0

    def start(self, name: str, total: int | None, done: int) -> None:
        self._other.start(name, total, done)

    def advance(self, n: int) -> None:
        self.n += n
        self._other.advance(n)

    def end(self) -> None:
        self._other.end()


@dataclass(eq=False)
class RaceContext:
    """What all contenders on one data set share."""

    data: ImageData | DenseData
    schedule: Schedule
    root: Path  # of all evaluations
    how: FeaturisingOptions = field(default_factory=FeaturisingOptions)
    load: Load | None = None  # zoo.load by default
    least_images_per_second: float | None = None  # slower ones are out as soon as that is measured
    progress: Callable[[str], Progress] = lambda part: SilentProgress()
    tell: Callable[[str], None] = lambda text: None
    loaded: dict[str, tuple[torch.nn.Module, Any]] = field(default_factory=dict)
    open_features: Callable[[Path], Features] = field(default_factory=lambda: lru_cache(_MOST_OPEN)(load_features))
    _chunk_images: dict[tuple[str, int], ImageSet] = field(default_factory=dict)

    @property
    def parts(self) -> dict[str, ImageSet]:
        if isinstance(self.data, ImageData):
            return {"train": self.data.train, "val": self.data.val}
        return {"train": self.data.train.images, "val": self.data.val.images}

    @cached_property
    def chunks(self) -> dict[str, list[Rows]]:
        """The images of each chunk of each part, in the order of visits."""
        n_train, n_test = ([*dict.fromkeys(ends)] for ends in zip(*self.schedule.sizes, strict=True))
        return {
            "train": np.split(self.schedule.train, n_train[:-1]),
            "val": np.split(self.schedule.test, n_test[:-1]),
        }

    @cached_property
    def chunk_of(self) -> dict[str, tuple[Rows, Rows]]:
        """For each part, the chunk of each image and its row there."""
        found = {}
        for part, chunks in self.chunks.items():
            number = np.empty(len(self.parts[part]), np.int64)
            row = np.empty_like(number)
            for i, rows in enumerate(chunks):
                number[rows], row[rows] = i, np.arange(len(rows))
            found[part] = number, row
        return found

    def chunk_images(self, part: str, number: int) -> ImageSet:
        """The images of a chunk; the part itself where the chunk is all of it, in its order."""
        if (part, number) not in self._chunk_images:
            images, rows = self.parts[part], self.chunks[part][number]
            is_all = len(rows) == len(images) and np.array_equal(rows, np.arange(len(images)))
            some = images if is_all else images.subset(rows, split=f"{images.split} part {number + 1}")
            self._chunk_images[part, number] = some
        return self._chunk_images[part, number]

    @cached_property
    def device(self) -> str:
        if self.how.device is not None:
            return self.how.device
        return "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"

    @cached_property
    def device_name(self) -> str:
        """The device in words, by which measured speeds are kept."""
        if self.device.startswith("cuda"):
            return str(torch.cuda.get_device_name(self.device))
        return (
            f"{self.device} of {platform.node() or 'this machine'}, {format_count(torch.get_num_threads(), 'thread')}"
        )

    def encoder(self, name: str, load: Load) -> tuple[torch.nn.Module, Any]:
        """An encoder and its preprocessing; the last ones stay in memory."""
        if name not in self.loaded:
            self.make_room(_MOST_LOADED - 1)
            self.loaded[name] = (self.load or load)(name)
        return self.loaded[name]

    def make_room(self, n_left: int, *, but: str = "") -> None:
        """Forgets encoders until ``n_left`` are in memory."""
        for name in [one for one in self.loaded if one != but][: max(len(self.loaded) - n_left, 0)]:
            self.loaded.pop(name)[0].to("cpu")
        if self.device.startswith("cuda"):
            torch.cuda.empty_cache()


class ImageContender:
    """One encoder on the images of a data set."""

    stored = "float32"  # the type of the numbers on the disk

    def __init__(self, name: str, ground: RaceContext, *, expects: bool = False) -> None:
        self.name = load_catalogue().id_of(name)
        self.ground = ground
        self.batch_size = ground.how.batch_size
        self.dim: int | None = None
        self.expects = expects  # seconds of its network where none were measured, for which small ones are timed
        self.n_computed = 0  # images in this process
        self.notes: list[str] = []
        self._weights_hash = ""
        self._speed_file = locate_speed(self.root, self.name)
        self.speed = self._known_speed()
        self._is_warm = False
        self._folders: dict[str, Path] = {}  # of features, by split and fingerprint of images
        self._there: set[str] = set()  # fingerprints of images with features

    @property
    def root(self) -> Path:
        """What its features are below."""
        return self.ground.root

    @property
    def preprocess(self) -> Preprocess:
        """What images go through."""
        return load_catalogue()[self.name].preprocess

    @cached_property
    def _preprocess_hash(self) -> str:
        from ..encoders.preprocess import build_preprocess  # torchvision, which a plan does without

        return hash_preprocess(build_preprocess(self.preprocess))

    @property
    def called(self) -> str:
        """What its features are kept under."""
        return self.name

    @property
    def seconds_per_image(self) -> float:
        """Measured on this device, now or before, else as expected."""
        return self.expected_seconds()[0] or 1.0

    def expected_seconds(self) -> tuple[float | None, str]:
        """Seconds per image and "measured" (here, before) or "expected"; None and "" if nothing is known."""
        if self.speed is not None:
            return self.speed.seconds_per_image, "measured"
        cost = find_cost(load_catalogue()[self.name]) if self.expects else None
        if cost is None:
            return None, ""
        from ..encoders.costs import estimate_images_per_second

        rate = estimate_images_per_second(cost, self.ground.device, batch_size=self.ground.how.batch_size)
        return 1.0 / rate, "expected"

    @property
    def memory(self) -> tuple[int | None, str]:
        """Bytes on the device and "measured", or "computed" from the network; None and "" if that is not known."""
        if self.speed is not None and self.speed.peak_bytes is not None:
            return self.speed.peak_bytes, "measured"
        cost = find_cost(load_catalogue()[self.name])
        if cost is None:
            return None, ""
        return estimate_memory(cost, self.batch_size, device=self.ground.device), "computed"

    def features(self, part: str, rows: Rows) -> Floats:
        """Features of some images of a part, float32 (len(rows), dim); computed by whole chunks where they are not."""
        whole = self.whole(part)
        if whole is not None:
            return np.asarray(whole.x[rows], np.float32)
        number, row = (of_image[rows] for of_image in self.ground.chunk_of[part])
        x: Any = None
        for i in np.unique(number).tolist():
            chunk = self.chunk(part, i)
            mine = number == i
            if x is None:
                x = np.empty((len(rows), chunk.dim), np.float32)
            x[mine] = chunk.x[row[mine]]
        return np.asarray(x)

    def whole(self, part: str) -> Features | None:
        """The features of a whole part where they were kept."""
        images = self.ground.parts[part]
        return self._checked(self.ground.open_features(self._folder(images))) if self._is_there(images) else None

    def part(self, part: str) -> Features:
        """The features of a whole part, computed where they are not there, and kept as ``zoo evaluate`` finds them."""
        found = self.whole(part)
        if found is not None:
            return found
        images = self.ground.parts[part]
        everything = self.some(part, np.arange(len(images)))
        try:
            everything.save(self._folder(images), shard_size=compute_shard_size(everything.dim))
        except DataError as error:  # they are right all the same
            self.notes.append(f"{self.name}: its features are kept in the parts of the race alone. {error}")
            return everything
        for number in range(len(self.ground.chunks[part])):  # which the whole part has, too
            if (chunk := self.ground.chunk_images(part, number)) is not images:
                shutil.rmtree(self._folder(chunk), ignore_errors=True)
        return load_features(self._folder(images))

    def labelled(self, rows: Rows) -> Features:
        """The features of some training images, ascending; of all of them kept as a whole part."""
        return self.part("train") if len(rows) == len(self.ground.parts["train"]) else self.some("train", rows)

    def keep_parts(self, *, completes: bool = False) -> None:
        """Keeps whole parts of which all chunks are there, or ``completes`` those of which some are."""
        for part, images in self.ground.parts.items():
            n_missing = self.n_missing(part, np.arange(len(images)))
            if n_missing < len(images) and (completes or not n_missing) and not self._is_there(images):
                self.part(part)

    def some(self, part: str, rows: Rows) -> Features:
        """The features of some images of a part, with their labels and names."""
        images = self.ground.parts[part].subset(rows, split=self.ground.parts[part].split)
        origin = (self.whole(part) or self.chunk(part, 0)).origin
        return Features(
            x=self._read(part, rows),
            y=images.labels,
            origin=replace(origin, split=images.split, images_hash=images.fingerprint),
            names=list(images.names),
            classes=images.classes,
            contents=images.contents,
            groups=images.groups,
            tags=images.tags,
            target=images.target,
        )

    def _read(self, part: str, rows: Rows) -> Any:
        return self.features(part, rows)

    def chunk(self, part: str, number: int) -> Features:
        """The features of one chunk."""
        some = self.ground.chunk_images(part, number)
        if self._is_there(some):
            return self._checked(self.ground.open_features(self._folder(some)))
        return self._checked(self._computed(some, self._folder(some)))

    def n_missing(self, part: str, rows: Rows) -> int:
        """How many of these images are in chunks that would have to be computed."""
        if self._is_there(self.ground.parts[part]):
            return 0
        n_of_chunks = np.bincount(self.ground.chunk_of[part][0][rows]).tolist()
        missing = (n for i, n in enumerate(n_of_chunks) if n and not self._is_there(self.ground.chunk_images(part, i)))
        return sum(missing)

    def measure_speed(self, ends: float) -> None:
        """Times a few images if no speed is known, for all features were there.

        Nothing is fetched for that, and it is left out if it would last longer than until ``ends``.
        """
        card, images = load_catalogue()[self.name], self.ground.parts["train"]
        has_time = time.monotonic() + (_WARMING + _TIMED) * self.seconds_per_image < ends
        if self.speed is None and has_time and (self.ground.load or find_local_weights([card])[card.id]):
            n_computed = self.n_computed
            try:
                self._computed(images.subset(np.arange(min(_TIMED, len(images))), split="timed"), None)
            except ZooError as error:  # the ranking stands without it
                self.notes.append(f"{self.name}: its speed could not be measured: {error}")
            self.n_computed = n_computed

    def _is_there(self, images: ImageSet) -> bool:
        """True if features of these images were computed; once they were, nobody looks again."""
        if images.fingerprint not in self._there and (self._folder(images) / "index.json").is_file():
            self._there.add(images.fingerprint)
        return images.fingerprint in self._there

    def _folder(self, images: ImageSet) -> Path:
        key = f"{images.split} {images.fingerprint}"
        if key not in self._folders:
            how: Any = {"precision": self.ground.how.precision, "stored": self.stored}
            self._folders[key] = self.root.joinpath(*build_features_path(self.called, images, **how))
        return self._folders[key]

    def _checked(self, found: Features) -> Features:
        """Features by the preprocessing of the card, and of the same weights as all others of this contender."""
        if self.ground.load is None and found.origin.preprocess_hash != self._preprocess_hash:
            raise DataError(
                f"The features of {self.name} in {found.where} were made with another preprocessing than that of its "
                "card; remove the folder to compute them again."
            )
        if self._weights_hash not in ("", found.origin.weights_hash):
            raise DataError(
                f"The features of {self.name} in {found.where} are of other weights than those of other images of "
                f"{found.origin.dataset!r}; remove {get_runs_folder(self.root, self.name).parent} to compute them "
                "again."
            )
        if len(found.skipped):
            raise DataError(
                f"{format_count(len(found.skipped), 'image')} of {found.origin.dataset!r} were left out of the "
                f"features of {self.name}, the first is {found.skipped[0].image!r}; expected all images, as they are "
                "compared over encoders."
            )
        self._weights_hash = found.origin.weights_hash
        self.dim = found.dim
        return found

    def _computed(self, images: ImageSet, folder: Path | None) -> Features:
        """Features of some images; in smaller batches where the memory of the device asks for it."""
        encoder, preprocess = self.ground.encoder(self.name, self._load)
        while True:
            try:
                return self._timed(encoder, preprocess, images, folder)
            except QueryError as error:
                if not isinstance(error.__cause__, torch.OutOfMemoryError):
                    raise
            except (torch.OutOfMemoryError, MemoryError):
                pass
            except RuntimeError as error:
                if "not enough memory" not in str(error) and "allocate memory" not in str(error):  # on a CPU
                    raise
            if self.batch_size == 1:
                raise DataError(
                    f"{self.name} does not fit into the memory of {self.ground.device!r}, not even with one image at "
                    "a time; choose another device, or a smaller encoder."
                )
            self.batch_size //= 2
            self.ground.make_room(1, but=self.name)
            self.notes.append(
                f"{self.name}: batches of {self.batch_size}, for larger ones do not fit into the memory of "
                f"{self.ground.device!r}"
            )
            self.ground.tell(self.notes[-1])

    @staticmethod
    def _load(name: str) -> tuple[torch.nn.Module, Any]:
        from ..loading import load

        return load(name)

    def _featurise(self, encoder: torch.nn.Module, preprocess: Any, images: ImageSet, **how: Any) -> Features:
        """Features of some images, in the ``folder`` or in memory."""
        representation = self.name.partition("@")[2] or "card"
        how = {**asdict(self.ground.how), "batch_size": self.batch_size, "skip_corrupt": False, **how}
        return featurise(encoder, preprocess, images, name=self.name, representation=representation, **how)

    def _timed(self, encoder: torch.nn.Module, preprocess: Any, images: ImageSet, folder: Path | None) -> Features:
        if not self._is_warm:
            few = images.subset(np.arange(min(_WARMING, len(images))), split="first")
            self._featurise(encoder, preprocess, few)
            self._is_warm = True
        on_gpu = self.ground.device.startswith("cuda")
        if on_gpu:
            torch.cuda.reset_peak_memory_stats(self.ground.device)
        counting = Counting(self.ground.progress(images.split))
        started = time.perf_counter()
        found = self._featurise(encoder, preprocess, images, folder=folder, progress=counting)
        seconds = time.perf_counter() - started
        if counting.n:
            self.n_computed += counting.n
            peak = int(torch.cuda.max_memory_allocated(self.ground.device)) if on_gpu else None
            self._remember(seconds, counting.n, peak)
        limit = self.ground.least_images_per_second
        if folder and limit is not None and self.speed is not None and self.speed.images_per_second < limit:
            raise QueryError(
                f"{self.name} makes features of {self.speed.images_per_second:.3g} images per second on "
                f"{self.ground.device_name}, {limit:g} were asked for."
            )
        return found

    @property
    def _speed_key(self) -> str:
        workers = format_count(self.ground.how.n_workers, "worker")
        return f"{self.ground.device_name}, {self.ground.how.precision}, {workers}"

    def _known_speed(self) -> MeasuredSpeed | None:
        """What was measured before on this device; a damaged file counts as none."""
        try:
            return MeasuredSpeed(**json.loads(self._speed_file.read_bytes())[self._speed_key])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def _remember(self, seconds: float, n: int, peak: int | None) -> None:
        """Joins a measured run with those before, of equally large batches."""
        known, n_all = self.speed, n
        if known is not None and known.batch_size == self.batch_size:
            seconds, n_all = seconds + known.seconds_per_image * known.n_images, n + known.n_images
            peak = max((one for one in (peak, known.peak_bytes) if one is not None), default=None)
        self.speed = MeasuredSpeed(
            seconds_per_image=seconds / n_all, n_images=n_all, batch_size=self.batch_size, peak_bytes=peak
        )
        try:
            everything = dict(json.loads(self._speed_file.read_bytes()))
        except (OSError, ValueError, TypeError):
            everything = {}
        everything[self._speed_key] = asdict(self.speed)
        try:
            with replace_file(self._speed_file) as file:
                file.write(json.dumps(everything, indent=1).encode())
        except OSError as error:
            self.notes.append(f"{self.name}: its speed could not be kept ({error.strerror or error})")


def complete_race(name: str, data: ImageData, *, seed: int, root: Path, **others: Any) -> None:
    """Completes features of an encoder that left a race on these images early; ``others`` are fields of Ground."""
    try:
        schedule = Plan(seed=seed, share=None).schedule(build_task(data))
    except DataError:  # no race was on these images
        return
    ImageContender(name, RaceContext(data=data, schedule=schedule, root=root, **others)).keep_parts(completes=True)
