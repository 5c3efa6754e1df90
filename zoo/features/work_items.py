"""Items: the units in which features are computed on workers, and how they are planned and completed.

An item is some images of a set, those of one shard, and the encoders of a group, whose preprocessing is the same: a
worker decodes the images once, gives them to every encoder, and writes a shard each. A shard is a function of the
images, the encoder and the setting alone. Whether it is there is seen by its name, and whether a folder is that of the
encoder by its origin: neither needs the weights, which only a worker loads that has something to compute.
"""

from __future__ import annotations

import os
import pickle
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any, TypeAlias

from ..cards.catalogue import load_catalogue
from ..cards.costs import estimate_memory, find_cost
from ..cards.schema import EncoderCard
from ..datasets import ImageData, ImageSet
from ..encoders.processor import is_out_of_memory, read_memory_size
from ..errors import DataError, OtherFeatures, QueryError, ZooError
from ..files import format_path_part
from ..optional import require_extra
from ..progress import SilentProgress
from ..storage import Location, resolve_place
from .backends import choose_backend
from .computing import FeaturisingOptions as FeaturisingOptions
from .computing import ForwardSpec, GroupNetwork, choose_device, get_number_type
from .decoding import DecodingSpec
from .filling import FillTarget, Present, fill, find_origin_there, find_present, finish, plan_shards
from .origin import format_storage
from .shards import parse_shard_number
from .store import SHARD_SIZE, FinishedShard, claim, hash_preprocess, hash_weights, require_same_origin

with require_extra("models", needed_for="Computing features"):
    import torch

Load: TypeAlias = Callable[[str], tuple[torch.nn.Module, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureRunSettings:
    """What all items of a run have in common; small, and goes to every worker."""

    source: Callable[[], ImageData]  # opens the images, once in a process; picklable
    place: str  # folder or address of all evaluations
    fingerprints: Mapping[str, str]  # by part; a worker that sees other images refuses
    load: Load | None = None  # zoo.load by default; picklable
    how: FeaturisingOptions = field(default_factory=FeaturisingOptions)
    stored: str = "float32"  # the type of the numbers in the shards, of zoo.features.shards.STORED
    shard_size: int = SHARD_SIZE  # images per item, but those of a shard in a folder that was begun
    n_threads: int = 1  # of a worker

    @property
    def way(self) -> dict[str, Any]:
        """What moves the last bits of features, as they are begun with it."""
        return {"batch_size": self.how.batch_size, "n_threads": self.n_threads, "stored": self.stored}


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureItem:
    """Images of one shard for the encoders of a group."""

    part: str  # "train" or "val"
    encoders: tuple[str, ...]  # ids
    number: int  # of the shard
    shard_size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureItemResult:
    """Result of an item."""

    digest: str  # hash of the hashes of its shards, in the order of the encoders
    n_rows: int  # images with features
    n_skipped: int  # images that could not be read
    batch_size: int  # the smallest that was used; less than asked for where the memory was too small
    n_there: int  # encoders whose shard was there already
    n_bytes: int  # that were written
    nondeterministic: tuple[str, ...]  # encoders of which there are other features, too

    @property
    def was_there(self) -> bool:
        """True if nothing was computed."""
        return self.n_bytes == 0


MOST = 64
"""Encoders in an item, at most."""

_SHARE_OF_MEMORY = 0.5  # that the encoders of a group may take
_EVERYWHERE = 1 << 33  # bytes of a group where all machines must plan the same, whatever memory they have
_N_REQUESTS = 16  # to a place at once
_N_SOURCES = 2  # image sets that stay open in a process

_OPENED: dict[bytes, ImageData] = {}


def open_image_source(source: Callable[[], ImageData]) -> ImageData:
    """The images of a source, such as ``Setting.source``, which is opened once in a process."""
    key = pickle.dumps(source)
    if key not in _OPENED:
        while len(_OPENED) >= _N_SOURCES:
            del _OPENED[next(iter(_OPENED))]
        _OPENED[key] = source()
    return _OPENED[key]


def make_items(
    setting: FeatureRunSettings,
    names: Sequence[str],
    data: ImageData,
    parts: Sequence[str],
    *,
    group_bytes: int | None = None,
    everything: bool = False,
) -> list[FeatureItem]:
    """The items that make features of all images of these parts under all encoders.

    Encoders with the same preprocessing, as their cards have it, are groups of as many as fit into ``group_bytes``: by
    default half of the GPU, or of what a core has of the memory of this machine, and 8 GiB where everything is asked
    for. Groups come one after the other, each with all its images, so that the first encoders are complete, and can be
    measured, when the first group is through; nothing would be saved by taking all groups through the same images, for
    no item keeps what it has decoded.

    Shards that are there by their names are left out, unless ``everything`` is asked for: a part of the work by number
    needs the same list on every machine, whatever is there. Encoders of a ``load`` of one's own are loaded here, one
    after the other.

    Raises
    ------
    UnknownName
        If there is no such encoder.
    QueryError
        If features were begun with other batches or threads.
    """
    if group_bytes is None:
        group_bytes = _EVERYWHERE if everything else _group_bytes(_device(setting.how.device))
    groups = list(_groups(setting, names, group_bytes))

    def look(part: str, name: str, preprocessing: str) -> Present | None:
        try:
            return _present(setting, name, getattr(data, part), preprocessing)
        except OtherFeatures:  # which its items will say
            return None

    asked = [(part, name, hashed) for group, hashed in groups for part in parts for name in group]
    with ThreadPoolExecutor(_N_REQUESTS, thread_name_prefix="zoo-planning") as threads:
        answers = threads.map(look, *zip(*asked, strict=True)) if asked else ()
        found = dict(zip(asked, answers, strict=True))
    items = []
    for group, hashed in groups:
        for part in parts:
            there, n_images = {name: found[part, name, hashed] for name in group}, len(getattr(data, part))
            plan = plan_shards(there, n_images, shard_size=setting.shard_size, everything=everything)
            for size, lacking in plan.items():
                for number, some in lacking.items():
                    items.append(FeatureItem(part=part, encoders=tuple(some), number=number, shard_size=size))
    return items


def split_by_encoder(item: FeatureItem) -> list[FeatureItem]:
    """The same images for each encoder by itself: says which one an item fails of, and spares the others."""
    return [replace(item, encoders=(name,)) for name in item.encoders]


def _group_bytes(device: torch.device) -> int:
    """What a group may take of this machine, which has a worker a core or two a GPU."""
    n_workers = (os.cpu_count() or 1) if device.type == "cpu" else 1
    return int(_SHARE_OF_MEMORY * read_memory_size(device) / n_workers)


def _groups(
    setting: FeatureRunSettings, names: Sequence[str], group_bytes: int
) -> Iterator[tuple[tuple[str, ...], str]]:
    """Encoders that are computed together, with the hash of their preprocessing."""
    by_preprocessing: dict[str, dict[str, tuple[int, int]]] = defaultdict(dict)
    failing = []  # of which items say why
    for name in names:
        if setting.load is None:
            card = load_catalogue()[name]
            by_preprocessing[_preprocessing(name)][card.id] = _bytes_of_card(card, setting.how)
        else:
            try:
                encoder, preprocess = setting.load(name)
            except ZooError:
                failing.append(name)
                continue
            n_bytes = sum(tensor.nbytes for tensor in encoder.state_dict().values())
            by_preprocessing[hash_preprocess(preprocess)][name] = n_bytes, n_bytes
    for hashed, sizes in by_preprocessing.items():
        group: list[str] = []
        for name in sizes:
            wider = [*group, name]
            needed = sum(sizes[one][0] for one in wider) + max(sizes[one][1] for one in wider)
            if group and (needed > group_bytes or len(wider) > MOST):
                yield tuple(group), hashed
                wider = [name]
            group = wider
        yield tuple(group), hashed
    yield from (((name,), "") for name in dict.fromkeys(failing))


def _bytes_of_card(card: EncoderCard, how: FeaturisingOptions) -> tuple[int, int]:
    """Memory that an encoder takes: always, and while it computes. They take turns, so that the second is shared."""
    cost = find_cost(card)
    if cost is None:
        stored = 4 * card.architecture.n_parameters
        return stored, stored
    device = _device(how.device).type
    computing = estimate_memory(cost, how.batch_size, "float32", device=device) - cost.parameter_bytes
    return cost.parameter_bytes, computing


def _device(wanted: str | None) -> torch.device:
    return choose_device(torch.nn.Identity(), wanted)


def _present(setting: FeatureRunSettings, name: str, images: ImageSet, preprocessing: str) -> Present:
    """What is at the place of an encoder's features of a part."""
    place, known = locate_features(setting, name, images), find_origin_there(name, images, preprocessing)
    return find_present(place, known, shard_size=setting.shard_size, way=setting.way)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _LoadedEncoder:
    """An encoder that stays in memory as long as it belongs to the items of its process."""

    network: GroupNetwork
    preprocess: Any
    device: torch.device
    weights_hash: str
    preprocess_hash: str
    precision: str


_LOADED: dict[tuple[bytes, str], _LoadedEncoder] = {}


def _loaded(setting: FeatureRunSettings, name: str) -> _LoadedEncoder:
    key = pickle.dumps((setting.load, setting.how.device, setting.how.precision)), name
    if key not in _LOADED:
        from ..loading import load

        encoder, preprocess = (setting.load or load)(name)
        device = choose_device(encoder, setting.how.device)
        precision = get_number_type(encoder, setting.how.precision)
        _LOADED[key] = _LoadedEncoder(
            network=GroupNetwork(encoder=encoder, name=name, precision=precision, stays=True),
            preprocess=preprocess,
            device=device,
            weights_hash=hash_weights(encoder),
            preprocess_hash=hash_preprocess(preprocess),
            precision=precision,
        )
    return _LOADED[key]


def _forget_others(encoders: Sequence[str]) -> None:
    for key in [key for key in _LOADED if key[1] not in encoders]:
        del _LOADED[key]


def compute_item(setting: FeatureRunSettings, item: FeatureItem) -> FeatureItemResult:
    """Does one item: computes and writes the shards that are missing.

    Where one of the encoders fails, the others' shards are written before its error is raised.

    Raises
    ------
    DataError
        If the images are not those of the run; an encoder gives something else than finite vectors, or other ones each
        time; a shard cannot be written.
    CorruptImage
        If an image cannot be read, and none is to be skipped.
    OtherFeatures
        If the place holds features of another origin.
    WeightsUnavailable, WeightsRefused, StoreError
        If an encoder cannot be loaded, or the place not be reached.
    """
    images: ImageSet = getattr(open_image_source(setting.source), item.part)
    expected = setting.fingerprints[item.part]
    if images.fingerprint != expected:
        raise DataError(
            f"The images of {images.name!r} ({images.split}) on this machine have the fingerprint "
            f"{images.fingerprint[:12]}..., and the run was begun with {expected[:12]}...; expected the same images on "
            "every machine, so copy them again or begin another run."
        )
    doing = _ItemExecution(setting, item, images)
    doing.run()
    return doing.value()


class _ItemExecution:
    """One item while it is done."""

    def __init__(self, setting: FeatureRunSettings, item: FeatureItem, images: ImageSet) -> None:
        self.setting, self.item, self.images = setting, item, images
        self.loaded: dict[str, _LoadedEncoder] = {}  # encoders that compute
        self.files: dict[str, str] = {}  # the shard of each encoder, by its name
        self.errors: dict[str, Exception] = {}
        self.networks: dict[str, GroupNetwork] = {}  # of the encoders that compute, with their backends
        self.odd: set[str] = set()
        self.n_rows = self.n_skipped = self.n_bytes = self.n_there = 0
        self.batch_size = setting.how.batch_size

    def run(self) -> None:
        missing: dict[str, Present] = {}
        for name in self.item.encoders:
            with self._noted(name):
                there = self._look(name)
                if there.has(self.item.number):
                    self.files[name] = "".join(there.files.get(self.item.number, [])[:1])
                    self.n_there += 1
                else:
                    missing[name] = there
        if missing:
            _forget_others(self.item.encoders)
        targets: dict[tuple[str, str], list[FillTarget]] = defaultdict(list)  # by preprocessing and device
        for name, there in missing.items():
            with self._noted(name):
                loaded = self.loaded[name] = _loaded(self.setting, name)
                targets[loaded.preprocess_hash, str(loaded.device)].append(self._target(name, there))
        for some in targets.values():
            self._compute(some)
        for error in self.errors.values():
            raise error

    def value(self) -> FeatureItemResult:
        names = self.item.encoders
        return FeatureItemResult(
            digest=blake2b("".join(self.files[name] for name in names).encode(), digest_size=16).hexdigest(),
            n_rows=self.n_rows,
            n_skipped=self.n_skipped,
            batch_size=self.batch_size,
            n_there=self.n_there,
            n_bytes=self.n_bytes,
            nondeterministic=tuple(name for name in names if name in self.odd),
        )

    @contextmanager
    def _noted(self, name: str) -> Iterator[None]:
        """Keeps what goes wrong with one encoder until the others are done."""
        try:
            yield
        except (ZooError, RuntimeError) as error:
            self.errors[name] = error

    def _look(self, name: str) -> Present:
        preprocessing = _preprocessing(name) if self.setting.load is None else ""
        there = _present(self.setting, name, self.images, preprocessing)
        self._require_size(locate_features(self.setting, name, self.images), there.shard_size)
        return there

    def _require_size(self, place: Location, size: int) -> None:
        if size != self.item.shard_size:
            raise QueryError(
                f"{place.shown} was begun with {size:,} images per shard, and this run was planned with "
                f"{self.item.shard_size:,}; run the same command again, which then goes by those."
            )

    def _target(self, name: str, there: Present) -> FillTarget:
        """What is computed of an encoder, once its folder is claimed."""
        loaded, place, how = self.loaded[name], locate_features(self.setting, name, self.images), self.setting.how
        data = open_image_source(self.setting.source)
        network = self.networks[name] = choose_backend(
            loaded.network,
            DecodingSpec(self.images, loaded.preprocess),
            device=loaded.device,
            wanted=how.backend if there.begun is None else there.begun.backend.partition(" ")[0],
            n_images=sum(len(getattr(data, part)) for part in self.setting.fingerprints),
            weights_hash=loaded.weights_hash,
        )
        origin = replace(
            find_origin_there(name, self.images, loaded.preprocess_hash),
            weights_hash=loaded.weights_hash,
            precision=format_storage(loaded.precision, self.setting.stored),
            backend=network.backend,
        )
        if there.begun is None:
            size = self.item.shard_size
            self._require_size(place, claim(place, origin, shard_size=size, way=self.setting.way))
        else:
            require_same_origin(place, there.begun, origin)
        return FillTarget(place=place, origin=origin, network=name)

    def _compute(self, targets: Sequence[FillTarget]) -> None:
        """Computes one shard for each; where the memory is too small, by itself and in smaller batches."""
        largest = self.setting.how.batch_size
        for target in self._attempt(targets, largest):
            name = target.network
            _make_room(self.loaded[name])
            size = largest if len(targets) > 1 else largest // 2
            while size and self._attempt([target], size):
                size //= 2
            self.batch_size = min(self.batch_size, size)
            if not size:
                self.errors[name] = QueryError(
                    f"One image at a time does not fit into the memory of {str(self.loaded[name].device)!r} in "
                    f"addition to the encoder {name!r}; use a machine with more."
                )

    def _attempt(self, targets: Sequence[FillTarget], batch_size: int) -> list[FillTarget]:
        """Computes one shard for each; gives those that the memory was too small for."""
        how, first = self.setting.how, self.loaded[targets[0].network]
        left = {target.network: target for target in targets}
        too_large: list[FillTarget] = []

        def failed(name: str, error: Exception) -> None:
            target = left.pop(name)
            if is_out_of_memory(error):
                too_large.append(target)
            else:
                self.errors[name] = error

        def wrote(target: FillTarget, number: int, finished: FinishedShard) -> None:
            self._take(left.pop(target.network), number, finished)

        forward = ForwardSpec(
            networks=tuple(self.networks[target.network] for target in targets),
            decoding=DecodingSpec(self.images, first.preprocess),
            device=first.device,
            batch_size=batch_size,
            n_workers=how.n_workers,
            shard_size=self.item.shard_size,
            skip_corrupt=how.skip_corrupt,
            progress=SilentProgress(),
        )
        try:
            fill(forward, {self.item.number: targets}, wrote, failed=failed)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            too_large += left.values()  # encoders that do not fit side by side, or an image
        return too_large

    def _take(self, target: FillTarget, number: int, finished: FinishedShard) -> None:
        listed = finished.listed
        self.n_rows, self.n_skipped = listed.n_rows, len(finished.skipped)
        self.n_bytes += listed.size_bytes
        self.files[target.network] = listed.file
        same = [file for file in target.place.names() if parse_shard_number(file) == number]
        if len(same) > 1:  # another worker rounds otherwise; the index takes the first of them
            self.odd.add(target.network)


def _make_room(loaded: _LoadedEncoder) -> None:
    """Moves all other encoders of this process away from the GPU."""
    if loaded.device.type == "cpu":
        return
    for other in _LOADED.values():
        if other is not loaded:
            other.network.encoder.to("cpu")
    if loaded.device.type == "cuda":
        torch.cuda.empty_cache()


def complete(setting: FeatureRunSettings, name: str, part: str) -> bool:
    """Writes the index of an encoder's features of a part if all shards are there; True if there is an index.

    Nothing is loaded but the images. False although all items are done: shards were damaged, and have been removed;
    plan again.

    Raises
    ------
    CorruptImage, DataError
        As :func:`~zoo.features.filling.finish`.
    """
    images: ImageSet = getattr(open_image_source(setting.source), part)
    known = find_origin_there(name, images, _preprocessing(name) if setting.load is None else "")
    return finish(locate_features(setting, name, images), images, known, skip_corrupt=setting.how.skip_corrupt)


def _preprocessing(name: str) -> str:
    from ..encoders.preprocess import build_preprocess  # torchvision, which a plan does without

    return hash_preprocess(build_preprocess(load_catalogue()[name].preprocess))


def locate_features(setting: FeatureRunSettings, name: str, images: ImageSet) -> Location:
    """Where the features of a part under an encoder are."""
    root = resolve_place(setting.place)
    return get_features_location(root, name, images, precision=setting.how.precision, stored=setting.stored)


def get_features_location(
    place: Location, name: str, images: ImageSet, *, precision: str, stored: str = "float32"
) -> Location:
    """Where the features of a part are, below the place of all evaluations."""
    for folder in build_features_path(name, images, precision=precision, stored=stored):
        place = place.below(folder)
    return place


def build_features_path(
    name: str, images: ImageSet, *, precision: str, stored: str = "float32"
) -> tuple[str, str, str]:
    """The folders of the features of a part, by encoder, data set, part, images and precision."""
    suffix = ("" if precision == "float32" else f"-{precision}") + ("" if stored == "float32" else f"-stored-{stored}")
    folder = f"{format_path_part(images.name)}-{format_path_part(images.split)}-{images.fingerprint[:12]}{suffix}"
    return format_path_part(name), "features", folder
