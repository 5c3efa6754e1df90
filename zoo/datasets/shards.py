"""Image sets in shards: what tar and parquet files have in common, and tar files as webdataset writes them.

The shards of a set are named by a pattern, in a folder or at an address, and each is read once from its beginning to
its end. What is in it (where each image lies, its label, the hash of its bytes and what its head says) is kept in the
user's cache for as long as the shard stays as it is, so that a set of terabytes opens in seconds the next time. Every
image that is read is held against its hash, so that a shard which changes under a running computation is noticed.

Images are read one by one in any order and by several processes, which the streams of the library datasets cannot, and
without a copy of the whole set in its cache, which its tables would need.

References
----------
A. Aizman, G. Maltby and T. Breuel 2019, High Performance I/O For Large Scale Deep Learning (the format of tar files).
"""

from __future__ import annotations

import fnmatch
import hashlib
import io
import json
import os
import re
import tarfile
import threading
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain, takewhile
from typing import Any, NamedTuple

from ..errors import CorruptImage, DataError, QueryError, format_count, format_list
from ..files import get_cache_folder, replace_file
from ..optional import require_extra
from ..storage import Location, resolve_place, strip_password
from .bands import open_image
from .image_files import (
    DECODING_ERRORS,
    DICOM_SUFFIXES,
    SUFFIXES,
    USUAL,
    DisplayOptions,
    Shape,
    StoredFormat,
    classify_hidden_name,
    convert_opened_image,
    find_remedy,
    format_reason,
    inspect_opened_images,
    read_head,
)
from .images import NO_LABEL, ImageData, ImageSet, LazyImages, compute_fingerprint, hash_encoded_images
from .labels import add_notes, build_image_data
from .split_names import find_part, is_generic_name, parse_part_name, split_by_columns

with require_extra("models", needed_for="Working with images"):
    import numpy as np
    from PIL import Image

_INDEX_FORMAT = "zoo-shard-3"
_N_THREADS = 8  # shards that are looked through at once
_N_EXPANDED = 1_000_000  # shards that braces may stand for
_BRACES = re.compile(r"\{([^{}]*)\}")
_ENDING = re.compile(r"\.(?:tar\.\w+|\w+)$")
_FOLD = re.compile(r"(?:k?fold|cv)[\W_]?\d+")
_NUMBERING = re.compile(r"^(?:of|[0-9a-f]{8,})$|\d+(?:of\d+)?$")  # train-00000-of-00004-a9eb5ddd8e0e4d1b
_RANGE = re.compile(r"(\d+)\.\.(\d+)")
_TAR = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar.zst")  # packed: to be refused
_PACKED = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7zXZ": "xz", b"\x28\xb5\x2f\xfd": "zstd"}
_IMAGES = tuple(suffix.removeprefix(".") for suffix in SUFFIXES if suffix not in DICOM_SUFFIXES)
_COMMON = ("bmp", "gif", "jpeg", "jpg", "pgm", "png", "ppm", "tif", "tiff", "webp")  # the image of a key, if it has one
_BLOCK = 512  # bytes of a header of tar, and of the marks at the end
_AHEAD = 16 << 20  # bytes of a shard that are read at once when it is looked through
_WINDOW = 4 << 20  # bytes of neighbouring images that are read at once from an address
_MOST_NAMED, _MOST_LETTERS = 8, 60  # of names in a sentence


class ImageShard(NamedTuple):
    """A file with images."""

    where: str  # folder or address that it is in
    file: str
    name: str  # path below what all shards of the set have in common
    size: int  # bytes
    state: str  # changes when the file does; empty if its place does not say

    @property
    def place(self) -> Location:
        return resolve_place(self.where)

    @property
    def shown(self) -> str:
        """Its path or address as it may be printed."""
        return f"{self.place.shown.rstrip('/')}/{self.file}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageShardIndex:
    """What is in a shard, one entry per image."""

    names: list[str] = field(default_factory=list)  # unique in the shard
    labels: list[int | str] = field(default_factory=list)
    contents: list[int] = field(default_factory=list)  # hashes of the encoded images
    shapes: list[Shape] = field(default_factory=list)
    stored: dict[int, StoredFormat] = field(default_factory=dict)  # by number, of images that are not just 8-bit pixels
    starts: list[int] = field(default_factory=list)  # of tar: first byte of each image
    sizes: list[int] = field(default_factory=list)  # of tar: bytes of each image
    blocks: list[int] = field(default_factory=list)  # of parquet: how many images each row group has
    classes: list[str] | None = None  # names of labels that are numbers, if the shard has them
    outside: list[str] = field(default_factory=list)  # of parquet: files next to it that have images of its rows
    left_out: dict[str, int] = field(default_factory=dict)  # files of systems

    def add(self, name: str, encoded: bytes, label: Any, told: str) -> None:
        """Adds an image; ``told`` names its label in messages, and is empty of one that is right."""
        if isinstance(label, float | bool):
            label = str(label) if isinstance(label, bool) else int(label) if label.is_integer() else label
        is_label = isinstance(label, int) and label >= 0
        if told and not is_label and not (isinstance(label, str) and label):
            raise DataError(
                f"{told} is {label!r}; expected a whole number from 0, or a text: label it or leave it out."
            )
        stored, shape = read_head(lambda: open_image(io.BytesIO(encoded)))
        self.shapes.append(shape)
        if stored is not None:
            self.stored[len(self.names)] = stored
        self.names.append(name)
        self.contents.append(int(hash_encoded_images([encoded])[0]))
        self.labels.append(label)


_NO_BYTES = int(hash_encoded_images([b""])[0])
Look = Callable[[ImageShard], ImageShardIndex]
Parts = dict[str, list[ImageShard]]


def open_webdataset_data(
    text: str, show: DisplayOptions, *, image: str | None, label: str | None, **division: Any
) -> ImageData:
    """Images of tar files: ``text`` names them as :func:`find_shards` says.

    Neighbouring members with the same key are an image and what is known of it; the key is the path up to the first dot
    of the last name, and what is behind that dot says what the member is: an image by its ending (of several,
    ``image`` names one, such as "jpg"), and the label: ``cls``, a whole number, or else the entry "label" of ``json``.
    ``label`` names another entry of json, whose values are whole numbers or texts, or "" no label. Members with other
    endings are ignored, and members that systems put there are left out. The same key may be in several shards.
    """
    parts, notes = find_shards(text, _TAR, is_whole=label == "")
    ending = None if image is None else image.lower().removeprefix(".")
    indexes = build_shard_indexes(
        parts, lambda shard: _look_in_tar(shard, ending, label), f"webdataset {image!r} {label!r}"
    )
    return add_notes(make_image_data(parts, indexes, _TarImages, "webdataset", show, {}, division), notes)


def find_shards(text: str, suffixes: tuple[str, ...], *, is_whole: bool = False) -> tuple[Parts, list[str]]:
    """The shards of each part of a set, "train" and "val", or "all" if they are not split; and notes on the others.

    ``text`` is a file, a folder, a pattern of files with ``{000..127}``, ``{a,b}``, ``*``, ``?`` and ``[]``, or two of
    them with a comma between: of training and of validation. The names of the shards of one pattern say their part:
    train-*, val-* or validation-*, test-*, in the name of the file or of its folder; of validation and test the first
    is taken. Of several names of a part, train-* and train_aug-*, the plain one is, or all are refused. ``is_whole``
    takes all shards, whatever their names say.
    """
    patterns = [piece.strip() for piece in re.split(r",(?![^{]*\})", text)]  # at commas outside of braces
    if len(patterns) > 2 or not all(patterns):
        raise QueryError(
            f"{text!r} names {len(patterns)} patterns of shards with commas between; expected one, or one of training "
            "and one of validation images (a comma in a name is written {,} with braces around it)."
        )
    files = [_files(pattern, suffixes) for pattern in patterns]
    levels = zip(*(where.split("/") for found in files for where, _, _, _ in found), strict=False)
    n_common = sum(1 for _ in takewhile(lambda names: len(set(names)) == 1, levels))
    shards = [
        [
            ImageShard(where, file, "/".join([*where.split("/")[n_common:], file]), size, state)
            for where, file, size, state in found
        ]
        for found in files
    ]
    if is_whole:
        return {"all": list(dict.fromkeys(chain(*shards)))}, []
    if len(shards) == 2:
        if twice := set(shards[0]) & set(shards[1]):
            raise DataError(
                f"The shard {min(twice).file} is in both patterns of {text!r}; expected other shards for training than "
                "for validation."
            )
        return {"train": shards[0], "val": shards[1]}, []
    parts: dict[str | None, dict[str, list[ImageShard]]] = {}
    for shard in shards[0]:
        part, name = _said_by(shard)
        parts.setdefault(part, {}).setdefault(name, []).append(shard)
    if len(parts) == 1:
        whole, notes = _of_one_name(*parts.popitem())
        return {"all": whole}, notes
    if None in parts or "train" not in parts:
        counts = ", ".join(f"{sum(map(len, some.values())):,} {part or 'of no part'}" for part, some in parts.items())
        odd = next(iter(parts.get(None, {"": shards[0]}).values()))[0]
        raise DataError(
            f"The names of the shards {text!r} do not tell training from validation images ({counts}; such as "
            f"{odd.name}); expected train-* next to val-*, validation-* or test-*, or both, with a comma between."
        )
    second = "val" if "val" in parts else "test"
    (train, notes), (val, more) = (_of_one_name(part, parts[part]) for part in ("train", second))
    more += ["shards of the part 'test' are left out, for there are some of 'val'"] * (len(parts) > 2)
    return {"train": train, "val": val}, [*notes, *more]


def _said_by(shard: ImageShard) -> tuple[str | None, str]:
    """The part that the name of a shard, or else that of its folder, says, and what else: train_aug-0 is not train-0.

    Endings, numbers and hashes say nothing, but those of folds.
    """
    for name in (shard.file.casefold(), shard.where.rpartition("/")[2].casefold()):
        words = [_NUMBERING.sub("", word) for word in re.split(r"[\W_]+", _ENDING.sub("", name))]
        if part := next((one for one in ("train", "val", "test") if one in map(parse_part_name, words)), None):
            is_plain = all(parse_part_name(word) == part or is_generic_name(word) for word in words)
            return part, "" if is_plain else " ".join(filter(None, words))
        if fold := _FOLD.match(name):
            return None, fold[0]
    return None, ""


def _of_one_name(part: str | None, by_name: dict[str, list[ImageShard]]) -> tuple[list[ImageShard], list[str]]:
    """The shards of a part that have its plain name, or the only other one; and a note on those left out."""
    kept = next(iter(by_name.values())) if len(by_name) == 1 else by_name.get("") if part else None
    if kept is None:
        raise DataError(
            f"The shards of {part or 'no part'} have several names, {list_names(filter(None, by_name))}; name those to "
            "train on and those to test on with a comma between."
        )
    others = list_names(name for name, some in by_name.items() if some is not kept)
    return kept, [f"shards of {others} next to those of {part!r} are left out"] * (len(by_name) > 1)


def expand_braces(pattern: str) -> list[str]:
    """What a pattern with braces stands for, as in a shell.

    >>> expand_braces("s3://b/{train,val}-{08..10}.tar")[1:4]
    ['s3://b/train-09.tar', 's3://b/train-10.tar', 's3://b/val-08.tar']
    """
    match = _BRACES.search(pattern)
    before = pattern if match is None else pattern[: match.start()]
    if "{" in before or "}" in before:
        raise QueryError(f"The braces in {pattern!r} do not close; expected {{000..127}} or {{a,b}}.")
    if match is None:
        return [pattern]
    choices = [","] if match[1] == "," else match[1].split(",")
    if numbers := _RANGE.fullmatch(match[1]):
        first, last = int(numbers[1]), int(numbers[2])
        width = max(map(len, numbers.groups())) if "0" in (numbers[1][0], numbers[2][0]) else 0
        if not 0 <= last - first < _N_EXPANDED:
            raise QueryError(f"The braces {match[0]} in {pattern!r} run from {first} to {last}; expected upwards.")
        choices = [str(number).zfill(width) for number in range(first, last + 1)]
    rest = expand_braces(pattern[match.end() :])
    return [before + choice + tail for choice in choices for tail in rest]


Found = tuple[str, str, int, str]  # folder or address, file, bytes, state


def _files(pattern: str, suffixes: tuple[str, ...]) -> list[Found]:
    """The files of a pattern: in the order of its braces, and otherwise by their names."""
    is_address = "://" in pattern
    listings: dict[str, dict[str, tuple[int, str]]] = {}
    found: list[Found] = []
    missing: list[str] = []
    paths = expand_braces(pattern if is_address else os.path.expanduser(pattern).replace(os.sep, "/"))
    for path in paths:
        where, _, file = path.rpartition("/")
        is_folder = not file or (not is_address and os.path.isdir(path))
        if is_folder or not (file.lower().endswith(suffixes) or _is_wild(file)):
            inside = list(_in_folder(path.rstrip("/") or "/", suffixes))
            folders = dict.fromkeys(where.rpartition("/")[2] for where, *_ in inside)
            sets = [one for one in folders if not find_part(one)]
            if len(sets) > 1:  # as configurations of a repository of the Hub
                raise DataError(
                    f"{strip_password(path)} has shards in {len(sets)} folders whose names say no part, such as "
                    f"{list_names(sets)}: they may be data sets of their own; give one of them, "
                    "or those that are one set as {a,b}."
                )
            found += inside
            missing += [] if inside else [f"file {' or '.join(suffixes)} in {strip_password(path)}"]
            continue
        where = where or ("/" if path.startswith("/") else ".")
        if _is_wild(where):
            raise QueryError(
                f"The pattern {strip_password(pattern)!r} has *, ? or [] in the name of a folder; expected them in "
                "names of files alone: write the folders with braces, {a,b}."
            )
        if where not in listings:
            listings[where] = resolve_place(where).states()
        there = [file] if file in listings[where] else []
        if not there and _is_wild(file):
            there = [one for one in sorted(listings[where]) if fnmatch.fnmatchcase(one, file) and one[0] != "."]
        found += [(where, one, *listings[where][one]) for one in there]
        missing += [] if there else [strip_password(path)]
    if missing:
        lacking = f"There is no {missing[0]}"
        if len(paths) > 1:
            lacking += f", one of {len(missing):,} missing of the {len(paths):,} files of {strip_password(pattern)!r}"
        raise DataError(f"{lacking}; restore it or name the shards that there are.")
    return found


def _in_folder(where: str, suffixes: tuple[str, ...]) -> Iterator[Found]:
    """The shards in a folder and in the folders directly in it."""
    place = resolve_place(where)
    for below in ("", *place.places()):
        here = f"{where.rstrip('/')}/{below}" if below else where
        for file, (size, state) in sorted((place.below(below) if below else place).states().items()):
            if file.lower().endswith(suffixes) and not file.startswith("."):
                yield here, file, size, state


def _is_wild(text: str) -> bool:
    return any(letter in text for letter in "*?[")


def build_shard_indexes(parts: Parts, look: Look, what: str) -> dict[str, list[ImageShardIndex]]:
    """What is in the shards of each part, by ``look`` or from the cache; ``what`` names its options."""

    def one(shard: ImageShard) -> ImageShardIndex:
        where = str(shard.place.folder or shard.where)
        key = "\0".join((_INDEX_FORMAT, what, where, shard.file, str(shard.size), shard.state)).encode(
            "utf-8", "surrogateescape"
        )
        path = get_cache_folder() / "shards" / f"{hashlib.blake2b(key, digest_size=16).hexdigest()}.json"
        if not shard.state:  # it would not be noticed that the shard has changed
            return look(shard)
        with suppress(OSError, ValueError, KeyError, TypeError):  # missing or cut off: the shard is read again
            kept = json.loads(path.read_bytes())
            stored = {int(i): StoredFormat(*values) for i, *values in kept.pop("stored")}
            if _NO_BYTES in kept["contents"]:  # of a version that did not follow paths
                raise ValueError
            return ImageShardIndex(stored=stored, **kept)
        index = look(shard)
        if index.outside:  # it would not be noticed that they have changed
            return index
        facts = {name: getattr(index, name) for name in index.__slots__}
        facts["stored"] = [[i, *stored] for i, stored in index.stored.items()]
        with suppress(OSError), replace_file(path) as file:  # a full cache: next time the shard is read again
            file.write(json.dumps(facts, separators=(",", ":")).encode())
        return index

    with ThreadPoolExecutor(_N_THREADS, thread_name_prefix="zoo-shards") as threads:
        return {part: list(threads.map(one, shards)) for part, shards in parts.items()}


def make_image_data(
    parts: Parts,
    indexes: dict[str, list[ImageShardIndex]],
    reader: Callable[..., EncodedImages],
    kind: str,
    show: DisplayOptions,
    columns: Mapping[str, Sequence[str]],
    division: dict[str, Any],
) -> ImageData:
    """The image set of shards and what is in them.

    A set without parts is split by that of ``columns``, one value per image, that says them, or stratified by class.
    """
    sets = make_shard_sets(parts, indexes, reader, kind, show)
    return build_image_data(
        split_by_columns(sets["all"], columns) if "all" in sets else [sets["train"], sets["val"]], **division
    )


def make_shard_sets(
    parts: Parts,
    indexes: dict[str, list[ImageShardIndex]],
    reader: Callable[..., EncodedImages],
    kind: str,
    show: DisplayOptions,
) -> dict[str, ImageSet]:
    """The image sets of the parts.

    The fingerprint is over names, which begin with those of the shards in their order, labels, classes, the bytes of
    the images, and how images are scaled that have more than 8 bits, and shown that are transparent.
    """
    classes, codes = _classes(parts, indexes)
    sets = {}
    for part, shards in parts.items():
        held = indexes[part]
        names = [f"{shard.name}/{image}" for shard, index in zip(shards, held, strict=True) for image in index.names]
        contents = np.array([content for index in held for content in index.contents], np.uint64)
        encoded = reader(shards, held, names, contents, show)
        is_far = any(shard.place.folder is None for shard in shards)  # where a second reading costs a second transfer
        heads = [
            (int(first) + i, stored)
            for first, index in zip(encoded.firsts, held, strict=False)
            for i, stored in index.stored.items()
        ]
        reading = inspect_opened_images(names, encoded.opened, show, heads=heads)
        sets[part] = ImageSet(
            name=show.image_set,
            split=part,
            images=LazyImages(encoded.image, np.arange(len(names))),
            labels=codes[part],
            classes=classes,
            names=names,
            fingerprint=compute_fingerprint(
                [kind, *classes, *names, codes[part].astype("<i8"), contents.astype("<u8")], reading
            ),
            reading=replace(
                reading,
                left_out=sum((Counter(index.left_out) for index in held), Counter()),
                shapes=None if is_far else np.array([shape for index in held for shape in index.shapes], np.uint64),
            ),
            contents=contents,
        )
    return sets


def _classes(
    parts: Parts, indexes: Mapping[str, list[ImageShardIndex]]
) -> tuple[tuple[str, ...], dict[str, np.ndarray]]:
    """Names of the classes, and the labels of each part as their numbers, int64."""
    every = [index for held in indexes.values() for index in held]
    named, first = every[0].classes, next(iter(parts.values()))[0]
    if any(index.classes != named for index in every):
        raise DataError(
            f"Not all shards next to {first.shown} have its names of classes; expected shards of one data set."
        )
    labels = {part: [label for index in held for label in index.labels] for part, held in indexes.items()}
    values = {label for found in labels.values() for label in found}
    if values == {NO_LABEL}:
        return (), {part: np.array(found, np.int64) for part, found in labels.items()}
    if len({type(value) for value in values}) > 1:
        raise DataError(
            f"Some labels of {first.shown} and the shards next to it are whole numbers, and others texts; expected one "
            "kind."
        )
    if isinstance(next(iter(values)), str):
        texts = sorted(map(str, values))
        place = {text: i for i, text in enumerate(texts)}
        numbers = {part: [place[str(label)] for label in found] for part, found in labels.items()}
        return tuple(texts), {part: np.array(found, np.int64) for part, found in numbers.items()}
    codes = {part: np.array(found, np.int64) for part, found in labels.items()}
    n_classes = 1 + max(int(found.max()) for found in codes.values())
    if named is not None and n_classes > len(named):
        raise DataError(
            f"{first.shown} names {len(named):,} classes, and there are labels up to {n_classes - 1}; expected a name "
            "for each."
        )
    return tuple(map(str, range(n_classes)) if named is None else named), codes


class _ThreadCache(threading.local):
    """What a thread keeps between its readings; a pickled copy keeps nothing."""

    def __init__(self) -> None:
        self.place: tuple[int, int] = (-1, -1)  # number of the shard; its first byte or row group that is held
        self.held: Any = b""
        self.n, self.following = 1, -1  # images that were read at once; the image that follows the last one

    def __reduce__(self) -> tuple[type[_ThreadCache], tuple[()]]:
        return type(self), ()


class EncodedImages:
    """Images of shards by their numbers, each held against the hash that it had when the set was opened."""

    def __init__(
        self,
        shards: Sequence[ImageShard],
        indexes: Sequence[ImageShardIndex],
        names: list[str],
        contents: np.ndarray,
        show: DisplayOptions,
    ) -> None:
        self.shards, self.names, self.contents, self.show = list(shards), names, contents, show
        self.firsts = np.cumsum([0, *(len(index.names) for index in indexes)])  # first image of each shard
        self.kept = _ThreadCache()

    def read(self, of: int, number: int) -> bytes:
        """The bytes of an image, which is in the shard with the number ``of``."""
        raise NotImplementedError

    def opened(self, number: int) -> Any:
        """The image as Pillow opens it."""
        encoded = self.read(bisect_right(self.firsts, number) - 1, number)
        if not encoded:
            raise OSError("it has no bytes")
        if hash_encoded_images([encoded])[0] != self.contents[number]:
            raise DataError(
                f"The image {self.names[number]!r} of {self.show.image_set!r} is not the one that was there when the "
                "set was opened: its shard has changed; open the set again, and leave its shards as they are while "
                "they are read."
            )
        return self.show.open(io.BytesIO(encoded))

    def image(self, number: int) -> Image.Image:
        """The image, upright, of 8 bits per channel and without transparency."""
        try:
            with self.opened(number) as image:
                image.load()
        except DataError:
            raise
        except DECODING_ERRORS as error:
            raise CorruptImage.of(
                self.names[number], image_set=self.show.image_set, reason=format_reason(error)
            ) from error
        return convert_opened_image(image, self.names[number], self.show)


def get_encoded_images(images: ImageSet) -> EncodedImages:
    """What reads the images of shards, with their bytes."""
    assert isinstance(images.images, LazyImages)
    encoded: EncodedImages = images.images.read.__self__  # type: ignore[attr-defined]
    return encoded


def list_names(names: Iterable[Any]) -> str:
    """The first of some names, each cut to a length, for a sentence."""
    cut = (str(name) if len(str(name)) <= _MOST_LETTERS else f"{name!s:.{_MOST_LETTERS}}..." for name in names)
    return format_list(cut, _MOST_NAMED)


def read_range(shard: ImageShard, start: int, n_bytes: int) -> bytes:
    """A part of a shard; DataError if the shard is not there or ends before."""
    found = shard.place.read(shard.file, start, n_bytes)
    if found is None or len(found) != n_bytes:
        what = "is not there any more" if found is None else "has become shorter"
        raise DataError(f"The shard {shard.shown} {what}; restore it, or open the image set again as it is now.")
    return found


class ShardStream(io.RawIOBase):
    """A shard as a file that is open for reading."""

    def __init__(self, shard: ImageShard) -> None:
        self.shard, self.position = shard, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self.position, os.SEEK_END: self.shard.size}[whence]
        self.position = base + offset
        return self.position

    def readinto(self, buffer: Any) -> int:
        n = max(min(len(buffer), self.shard.size - self.position), 0)
        buffer[:n] = read_range(self.shard, self.position, n) if n else b""
        self.position += n
        return n


class _TarImages(EncodedImages):
    """Images of tar files; from an address, those behind them come along."""

    def __init__(self, shards: Sequence[ImageShard], indexes: Sequence[ImageShardIndex], *rest: Any) -> None:
        super().__init__(shards, indexes, *rest)
        self.starts = np.array([start for index in indexes for start in index.starts], np.int64)
        self.sizes = np.array([size for index in indexes for size in index.sizes], np.int64)

    def read(self, of: int, number: int) -> bytes:
        shard, start, size = self.shards[of], int(self.starts[number]), int(self.sizes[number])
        if shard.place.folder is not None:
            return read_range(shard, start, size)
        kept = self.kept
        offset = start - kept.place[1]
        if kept.place[0] != of or not 0 <= offset <= offset + size <= len(kept.held):
            # twice as many as before while one image follows the other, as disks do
            n = 2 * kept.n if number == kept.following else 1
            stop = min(number + n, int(self.firsts[of + 1]))
            ends = self.starts[number:stop] + self.sizes[number:stop]
            kept.n = max(1, int(np.searchsorted(ends, start + _WINDOW, side="right")))
            kept.held, kept.place, offset = read_range(shard, start, int(ends[kept.n - 1]) - start), (of, start), 0
        kept.following = number + 1
        return bytes(kept.held[offset : offset + size])


def _look_in_tar(shard: ImageShard, image: str | None, label: str | None) -> ImageShardIndex:
    """Reads a shard from its beginning to its end."""
    index, file = ImageShardIndex(), io.BufferedReader(ShardStream(shard), _AHEAD)
    for key, members in _samples(shard, file, index.left_out):
        start, size = members[_image_of(key, members, image, shard)]
        file.seek(start)
        encoded = file.read(size)
        index.add(key, encoded, *((NO_LABEL, "") if label == "" else _label_of(key, members, label, shard, file)))
        index.starts.append(start)
        index.sizes.append(size)
    if not index.names:
        raise DataError(f"The shard {shard.shown} holds no image; expected KEY.jpg with KEY.cls or KEY.json.")
    return index


Members = dict[str, tuple[int, int]]  # neighbouring members of one key: each ending with its place and size


def _image_of(key: str, members: Members, wanted: str | None, shard: ImageShard) -> str:
    images = [ending for ending in members if ending == wanted]
    if wanted is None:
        images = [ending for ending in members if ending in _COMMON] or [one for one in members if one in _IMAGES]
    if len(images) == 1:
        return images[0]
    if images:
        raise DataError(
            f"The key {key!r} in {shard.shown} has {format_count(len(images), 'image')} ({list_names(images)}); say "
            f"which with --image-column {images[0]}, or image_column={images[0]!r} in Python."
        )
    remedy = next(filter(None, map(find_remedy, members)), "add it, or remove the other members of the key")
    dotted = any(ending.rpartition(".")[2] in _IMAGES for ending in members)
    remedy += " (a key ends at the first dot of the name: write another sign in place of dots in keys)" * dotted
    raise DataError(
        f"The key {key!r} in {shard.shown} has no image (it has {list_names(members)}); expected one with the ending "
        f"{wanted or f'of an image, {USUAL}'}: {remedy}."
    )


def _label_of(key: str, members: Members, wanted: str | None, shard: ImageShard, file: Any) -> tuple[Any, str]:
    """The label of a key, and what messages call it."""

    def read(ending: str) -> bytes:
        start, size = members[ending]
        file.seek(start)
        content: bytes = file.read(size)
        return content

    which = f"of {key!r} in {shard.shown}"
    if "cls" in members and wanted in (None, "cls"):
        text = read("cls").decode(errors="replace").strip()
        if not text.isascii() or not text.isdecimal():
            raise DataError(f"The label {which} is {text[:80]!r} in its .cls; expected a whole number from 0.")
        return int(text), ""
    if "json" not in members or wanted == "cls":
        where = ", or unpack it if its folders are the classes" * ("/" in key)
        raise DataError(
            f"The key {key!r} in {shard.shown} has no label (it has {list_names(members)}); expected a member "
            f"{'.cls' if wanted in (None, 'cls') else '.json'} next to its image{where}."
        )
    try:
        facts = json.loads(read("json"))
    except ValueError as error:
        raise DataError(f"The member .json {which} cannot be read ({error}); write it again.") from error
    entries = list_names(facts) if isinstance(facts, dict) else type(facts).__name__
    if not isinstance(facts, dict) or (wanted or "label") not in facts:
        raise DataError(
            f"The member .json {which} has no entry {wanted or 'label'!r} (it has {entries}); say which entry is the "
            "label with --label-column, or label_column= in Python."
        )
    return facts[wanted or "label"], f"The label {which} in its .json"


def _samples(shard: ImageShard, file: Any, left_out: dict[str, int]) -> Iterator[tuple[str, Members]]:
    """Keys with their members in their order; hidden members, and those of systems, are counted instead."""
    head = file.read(6)
    packing = next((name for magic, name in _PACKED.items() if head.startswith(magic)), None)
    if packing is not None:
        raise DataError(
            f"The shard {shard.shown} is packed by {packing}, so that its images cannot be read one by one; unpack it "
            "(images are compressed anyway)."
        )
    file.seek(0)
    key, members = "", Members()
    try:
        with tarfile.open(fileobj=file, mode="r:") as tar:
            for member in tar:
                tar.members = []  # type: ignore[attr-defined]  # or all of them would be kept
                if not member.isreg():
                    continue
                if member.offset_data + member.size > shard.size:
                    raise tarfile.ReadError(f"the member {member.name!r} is cut off")
                folder, slash, last = member.name.rpartition("/")
                around = [
                    classify_hidden_name(one, is_folder=False) for one in folder.split("/")
                ]  # "." is no hidden folder
                of_system = (kind for kind in around if kind not in ("", "hidden"))
                if skipped := next(of_system, classify_hidden_name(last, is_folder=False)):
                    left_out[skipped] = left_out.get(skipped, 0) + 1
                    continue
                stem, _, ending = last.partition(".")
                if folder + slash + stem != key:
                    if members:
                        yield key, members
                    key, members = folder + slash + stem, {}
                if ending.lower() in members:
                    raise DataError(
                        f"The shard {shard.shown} has {ending!r} of the key {key!r} twice; expected each once."
                    )
                members[ending.lower()] = member.offset_data, member.size
            end = tar.offset
        file.seek(end)
        if file.read(_BLOCK) != bytes(_BLOCK):  # where tarfile stops without a word at a damaged header
            raise tarfile.ReadError(f"it breaks off at byte {end:,} without the mark of its end")
    except tarfile.TarError as error:
        raise DataError(
            f"The shard {shard.shown} is cut off, damaged or no tar file behind the key {key!r} ({error}); put it "
            "there again."
        ) from error
    if members:
        yield key, members
