"""Items: the units in which features are computed on workers, and how they are planned and completed.

An item is some images of a set, those of one shard, and the encoders of a group, whose preprocessing is the same: a
worker decodes the images once, gives them to every encoder, and writes a shard each. A shard is a function of the
images, the encoder and the setting alone. Whether it is there is seen by its name, and whether a folder is that of the
encoder by its origin: neither needs the weights, which only a worker loads that has something to compute.
"""

from __future__ import annotations

import os
import pickle
import re
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
from ..errors import CorruptImage, DataError, QueryError, ZooError
from ..optional import require_extra
from ..progress import SilentProgress
from ..storage import Location, resolve_place
from .computing import (
    ComputedShard,
    ForwardSpec,
    GroupNetwork,
    build_index,
    choose_device,
    compute,
    get_number_type,
)
from .decoding import DecodingSpec
from .origin import Origin, compute_run_hash, describe_origin_differences, format_storage, get_code_version
from .shards import Skipped, parse_shard_number, write_shard
from .store import (
    INDEX,
    SHARD_SIZE,
    claim,
    complete_origin,
    find_finished_shards,
    find_unfinished_run,
    hash_preprocess,
    hash_weights,
    publish,
    read_index,
)

with require_extra("models", needed_for="Computing features"):
    import numpy as np
    import torch

Load: TypeAlias = Callable[[str], tuple[torch.nn.Module, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class FeaturisingOptions:
    """How features are computed; only precision and skipping change them beyond rounding."""

    batch_size: int = 64
    n_workers: int = 0
    device: str | None = None  # a GPU where there is one
    precision: str = "float32"
    skip_corrupt: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureRunSettings:
    """What all items of a run have in common; small, and goes to every worker."""

    source: Callable[[], ImageData]  # opens the images, once in a process; picklable
    place: str  # folder or address of all evaluations
    fingerprints: Mapping[str, str]  # by part; a worker that sees other images refuses
    load: Load | None = None  # zoo.load by default; picklable
    how: FeaturisingOptions = field(default_factory=FeaturisingOptions)
    stored: str = "float32"  # the type of the numbers in the shards, of zoo.features.shards.STORED
    shard_size: int = SHARD_SIZE  # images an item, but those of a shard in a folder that was begun


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureItem:
    """Images of one shard for the encoders of a group."""

    part: str  # "train" or "val"
    encoders: tuple[str, ...]  # ids
    number: int  # of the shard
    shard_size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureItemResult:
    """What became of an item."""

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
    """
    if group_bytes is None:
        group_bytes = _EVERYWHERE if everything else _group_bytes(_device(setting.how.device))
    groups = list(_groups(setting, names, group_bytes))

    def look(part: str, name: str, preprocessing: str) -> _StoredState | None:
        images: ImageSet = getattr(data, part)
        try:
            return _there(
                locate_features(setting, name, images), _known(name, images, preprocessing), setting.shard_size
            )
        except QueryError:  # which its items will say
            return None

    asked = [(part, name, hashed) for group, hashed in groups for part in parts for name in group]
    with ThreadPoolExecutor(_N_REQUESTS, thread_name_prefix="zoo-planning") as threads:
        answers = threads.map(look, *zip(*asked, strict=True)) if asked else ()
        found = dict(zip(asked, answers, strict=True))
    items = []
    for group, hashed in groups:
        for part in parts:
            by_size: dict[int, dict[str, _StoredState | None]] = defaultdict(dict)
            for name in group:
                there = found[part, name, hashed]
                by_size[setting.shard_size if there is None else there.shard_size][name] = there
            for size, some in by_size.items():
                for number in range(-(-len(getattr(data, part)) // size)):
                    lacking = tuple(
                        name for name, there in some.items() if everything or there is None or not there.has(number)
                    )
                    if lacking:
                        items.append(FeatureItem(part=part, encoders=lacking, number=number, shard_size=size))
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


def _known(name: str, images: ImageSet, preprocessing: str = "") -> Origin:
    """The origin of features as far as it is known before the encoder is loaded."""
    return Origin(
        encoder=name,
        dataset=images.name,
        split=images.split,
        weights_hash="",
        preprocess_hash=preprocessing,
        images_hash=images.fingerprint,
        representation=name.partition("@")[2] or "card",
        precision="",
        code_version=get_code_version(),
    )


def _require_known(place: Location, there: Origin, known: Origin) -> None:
    among = ["encoder", "dataset", "split", "images_hash", "representation", "code_version"]
    among += ["preprocess_hash"] if known.preprocess_hash else []
    _require_same(place, describe_origin_differences(there, known, among=tuple(among)))


def _require_same(place: Location, different: Sequence[str]) -> None:
    if different:
        raise QueryError(
            f"{place.shown} holds other features than those asked for: they differ in {' and '.join(different)}; name "
            "another place, or remove that folder to start again."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _StoredState:
    """What is at the place of some features, by one listing."""

    is_complete: bool
    shard_size: int  # as it was begun, or as it is asked for
    begun: Origin | None  # of a run that did not end
    files: Mapping[int, list[str]]  # shards by their numbers

    def has(self, number: int) -> bool:
        """True of a shard that is there by its name."""
        return self.is_complete or number in self.files


def _there(place: Location, known: Origin, shard_size: int) -> _StoredState:
    """What is at a place; QueryError if it is of other features."""
    names = place.names()
    files: dict[int, list[str]] = {}
    for file in names:
        if (number := parse_shard_number(file)) is not None:
            files.setdefault(number, []).append(file)
    if INDEX in names:
        origin = complete_origin(place)
        if origin is not None:
            _require_known(place, origin, known)
        return _StoredState(is_complete=True, shard_size=shard_size, begun=None, files=files)
    begun = find_unfinished_run(place)
    if begun is None:
        return _StoredState(is_complete=False, shard_size=shard_size, begun=None, files={})
    _require_known(place, begun[0], known)
    return _StoredState(is_complete=False, shard_size=begun[1], begun=begun[0], files=files)


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
    QueryError
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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _ShardTarget:
    """The shard of one encoder that is to be computed."""

    loaded: _LoadedEncoder
    place: Location
    run: str


class _ItemExecution:
    """One item while it is done."""

    def __init__(self, setting: FeatureRunSettings, item: FeatureItem, images: ImageSet) -> None:
        self.setting, self.item, self.images = setting, item, images
        self.files: dict[str, str] = {}  # the shard of each encoder, by its name
        self.errors: dict[str, Exception] = {}
        self.odd: set[str] = set()
        self.n_rows = self.n_skipped = self.n_bytes = self.n_there = 0
        self.batch_size = setting.how.batch_size

    def run(self) -> None:
        missing: dict[str, _StoredState] = {}
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
        targets: dict[tuple[str, str], list[_ShardTarget]] = defaultdict(list)  # by preprocessing and device
        for name, there in missing.items():
            with self._noted(name):
                target = self._target(name, there)
                targets[target.loaded.preprocess_hash, str(target.loaded.device)].append(target)
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

    def _look(self, name: str) -> _StoredState:
        place = locate_features(self.setting, name, self.images)
        preprocessing = _preprocessing(name) if self.setting.load is None else ""
        there = _there(place, _known(name, self.images, preprocessing), self.item.shard_size)
        self._require_size(place, there.shard_size)
        return there

    def _require_size(self, place: Location, size: int) -> None:
        if size != self.item.shard_size:
            raise QueryError(
                f"{place.shown} was begun with {size:,} images a shard, and this run was planned with "
                f"{self.item.shard_size:,}; run the same command again, which then goes by those."
            )

    def _target(self, name: str, there: _StoredState) -> _ShardTarget:
        """What is computed of an encoder, once its folder is claimed."""
        loaded, place = _loaded(self.setting, name), locate_features(self.setting, name, self.images)
        origin = replace(
            _known(name, self.images, loaded.preprocess_hash),
            weights_hash=loaded.weights_hash,
            precision=format_storage(loaded.precision, self.setting.stored),
        )
        size = self.item.shard_size
        if there.begun is None:
            self._require_size(place, claim(place, origin, shard_size=size))
        else:
            _require_same(place, describe_origin_differences(there.begun, origin))
        return _ShardTarget(loaded=loaded, place=place, run=compute_run_hash(origin, shard_size=size))

    def _compute(self, targets: Sequence[_ShardTarget]) -> None:
        """Computes one shard for each; where the memory is too small, by itself and in smaller batches."""
        largest = self.setting.how.batch_size
        for target in self._attempt(targets, largest):
            _make_room(target.loaded)
            size = largest if len(targets) > 1 else largest // 2
            while size and self._attempt([target], size):
                size //= 2
            self.batch_size = min(self.batch_size, size)
            if not size:
                name = target.loaded.network.name
                self.errors[name] = QueryError(
                    f"One image at a time does not fit into the memory of {str(target.loaded.device)!r} beside the "
                    f"encoder {name!r}; use a machine with more."
                )

    def _attempt(self, targets: Sequence[_ShardTarget], batch_size: int) -> list[_ShardTarget]:
        """Computes one shard for each; gives those that the memory was too small for."""
        how, first = self.setting.how, targets[0].loaded
        by_name = {target.loaded.network.name: target for target in targets}
        too_large: list[_ShardTarget] = []

        def failed(name: str, error: Exception) -> None:
            target = by_name.pop(name)
            if is_out_of_memory(error):
                too_large.append(target)
            else:
                self.errors[name] = error

        def keep(computed: ComputedShard) -> None:
            self._keep(by_name.pop(computed.name), computed)

        forward = ForwardSpec(
            networks=tuple(target.loaded.network for target in targets),
            decoding=DecodingSpec(self.images, first.preprocess),
            device=first.device,
            batch_size=batch_size,
            n_workers=how.n_workers,
            shard_size=self.item.shard_size,
            skip_corrupt=how.skip_corrupt,
            progress=SilentProgress(),
        )
        try:
            compute(forward, [self.item.number], keep, failed=failed)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            too_large += by_name.values()  # encoders that do not fit beside each other, or an image
        return too_large

    def _keep(self, target: _ShardTarget, computed: ComputedShard) -> None:
        listed = write_shard(
            target.place,
            computed.x,
            np.asarray(self.images.labels)[computed.positions],
            [self.images.names[position] for position in computed.positions],
            run=target.run,
            number=computed.number,
            skipped=computed.skipped,
            stored=self.setting.stored,
        )
        self.n_rows, self.n_skipped = len(computed.positions), len(computed.skipped)
        self.n_bytes += listed.size_bytes
        self.files[computed.name] = listed.file
        same = [file for file in target.place.names() if parse_shard_number(file) == computed.number]
        if len(same) > 1:  # another worker rounds otherwise; the index takes the first of them
            self.odd.add(computed.name)


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
    CorruptImage
        If images were skipped, and none is to be.
    DataError, QueryError
        If the folder is of other features, or no image could be read.
    """
    images: ImageSet = getattr(open_image_source(setting.source), part)
    place = locate_features(setting, name, images)
    known = _known(name, images, _preprocessing(name) if setting.load is None else "")
    index = read_index(place)
    if index is not None:
        _require_known(place, index.origin, known)
        _require_wanted(setting, index.skipped)
        return True
    begun = find_unfinished_run(place)
    if begun is None:
        return False
    origin, shard_size = begun
    _require_known(place, origin, known)
    shards = find_finished_shards(place, origin, n_images=len(images), shard_size=shard_size)
    if len(shards) < -(-len(images) // shard_size):
        for file in place.names():
            if (number := parse_shard_number(file)) is not None and number not in shards:
                place.remove(file)
        return False
    finished = [shards[number] for number in sorted(shards)]
    _require_wanted(setting, [image for shard in finished for image in shard.skipped])
    publish(place, build_index(images, origin, finished, shard_size=shard_size))
    return True


def _require_wanted(setting: FeatureRunSettings, skipped: Sequence[Skipped]) -> None:
    if skipped and not setting.how.skip_corrupt:
        raise CorruptImage(skipped[0].image, skipped[0].reason)


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


def format_path_part(text: str) -> str:
    """A text as a part of a path on every system."""
    return re.sub(r"[^\w.+-]", "_", text) or "_"
