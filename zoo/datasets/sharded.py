"""Image sets in shards: large files with many images each, in a folder or at an address.

The shards of a set are named by a pattern, and each is read once from its beginning to its end. What is in it (where
each image lies, its label, the hash of its bytes and what its head says) is kept in the user's cache for as long as the
shard stays as it is, so that a set of terabytes opens in seconds the next time. Every image that is read is held
against its hash, so that a shard which changes under a running computation is noticed.
"""

from __future__ import annotations

import fnmatch
import hashlib
import json
import os
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from io import BytesIO
from itertools import islice, product, takewhile
from pathlib import Path
from typing import Any

from ..errors import CorruptImage, DataError, QueryError, StoreError
from ..files import cache_folder, locked, replaced
from ..optional import requires_extra
from ..storage import Place, place_at
from .imagefiles import DECODING_ERRORS, Stored, as_shown, head_of, reading_of, reason_of
from .images import ImageData, ImageSet, LazyImages, contents_of_bytes, fingerprint_of
from .labels import data_of
from .parts import in_parts
from .rgb import Scale

with requires_extra("models", needed_for="Working with images"):
    import numpy as np
    from PIL import Image

Labels = list[int] | list[str]

_INDEX_FORMAT = "zoo-shard-2"
_SETTLED_S = 2.0  # a file may change twice within one tick of a coarse clock
_N_THREADS = 8  # shards that are looked through at once
_LOCKED_S = 900.0  # within which another process of this machine looks through a shard
_N_EXPANDED = 1_000_000  # shards that braces may stand for
_SPLITS = {
    "train": ("train", "training"),
    "val": ("val", "valid", "validation", "dev"),
    "test": ("test", "testing", "eval"),
}
_BRACES = re.compile(r"\{([^{}]*)\}")
_RANGE = re.compile(r"(\d+)\.\.(\d+)")


@dataclass(frozen=True, slots=True)
class Shard:
    """A file with images."""

    where: str  # folder or address that it is in
    file: str
    name: str  # path below what all shards of the set have in common
    size: int  # bytes
    state: str  # changes when the file does; empty if its place does not say

    @property
    def place(self) -> Place:
        return place_at(self.where)

    @property
    def shown(self) -> str:
        """Its path or address as it may be printed."""
        return f"{self.place.shown.rstrip('/')}/{self.file}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Index:
    """What is in a shard, one entry an image."""

    names: list[str]  # unique in the shard
    labels: Labels
    contents: list[int]  # hashes of the encoded images
    stored: dict[int, Stored]  # by number, of images that are not just 8-bit pixels
    starts: list[int] = field(default_factory=list)  # first byte of each image, if its bytes are one range of the file
    sizes: list[int] = field(default_factory=list)  # bytes of each
    blocks: list[int] = field(default_factory=list)  # how many images are read together, if they are in blocks
    classes: list[str] | None = None  # names of labels that are numbers, if the shard has them
    left_out: dict[str, int] = field(default_factory=dict)  # files of systems

    def as_dict(self) -> dict[str, Any]:
        fields = {name: getattr(self, name) for name in self.__slots__}
        return fields | {"format": _INDEX_FORMAT, "stored": [[i, *stored] for i, stored in self.stored.items()]}

    @classmethod
    def of(cls, found: dict[str, Any]) -> Index:
        """The index that :meth:`as_dict` wrote; KeyError, TypeError or ValueError if it is none."""
        if found.pop("format") != _INDEX_FORMAT:
            raise ValueError("another format")
        stored = {int(i): Stored(*values) for i, *values in found.pop("stored")}
        index = cls(stored=stored, **found)
        if not len(index.names) == len(index.labels) == len(index.contents):
            raise ValueError("cut off")
        return index


Parts = dict[str, list[Shard]]


def found_parts(text: str, suffixes: Sequence[str]) -> Parts:
    """The shards of each part of a set: "train" and "val", or "all" if they are not split.

    ``text`` is a file, a folder, a pattern of files with ``{000..127}``, ``{a,b}``, ``*``, ``?`` and ``[]``, or two of
    them with a comma between: of training and of validation. The names of the shards of one pattern say their part:
    train-*, val-* or validation-*, test-*, in the name of the file or of its folder; of validation and test the first
    is taken.
    """
    patterns = _outside_braces(text)
    if len(patterns) > 2 or not all(patterns):
        raise QueryError(
            f"{text!r} names {len(patterns)} patterns of shards with commas between; expected one, or one of training "
            "and one of validation images (a comma in a name is written {,} with braces around it)."
        )
    files = [_files(pattern, suffixes) for pattern in patterns]
    levels = zip(*(where.split("/") for found in files for where, _, _, _ in found), strict=False)
    n_common = sum(1 for _ in takewhile(lambda names: len(set(names)) == 1, levels))
    shards = [[_shard(one, n_common) for one in found] for found in files]
    if len(shards) == 2:
        twice = {(shard.where, shard.file) for shard in shards[0]} & {(shard.where, shard.file) for shard in shards[1]}
        if twice:
            raise DataError(
                f"The shard {min(twice)[1]} is in both patterns of {text!r}; expected other shards for training than "
                "for validation."
            )
        return {"train": shards[0], "val": shards[1]}
    return _by_name(shards[0], text)


def indexed(shards: Sequence[Shard], look: Callable[[Shard], Index], *, what: str) -> list[Index]:
    """What is in each shard, by ``look`` or from the cache; ``what`` names the function and its options."""

    def one(shard: Shard) -> Index:
        path = _cache_file(shard, what)
        cached = None if path is None else _cached(path)
        if cached is not None or path is None:
            return cached or look(shard)
        with ExitStack() as stack:
            try:  # or every process of a machine would read it
                stack.enter_context(locked(path.with_suffix(".lock"), patience_s=_LOCKED_S))
            except (OSError, StoreError):  # a cache that cannot be written to, or a process that hangs
                return look(shard)
            index = _cached(path) or look(shard)
            try:
                with replaced(path) as file:
                    file.write(json.dumps(index.as_dict(), separators=(",", ":")).encode())
            except OSError:  # a full cache: next time the shard is read again
                pass
            return index

    if len(shards) == 1:
        return [one(shards[0])]
    with ThreadPoolExecutor(_N_THREADS, thread_name_prefix="zoo-shards") as threads:
        return list(threads.map(one, shards))


def sharded_data(
    parts: Parts,
    indexes: dict[str, list[Index]],
    reader: Callable[..., Callable[[int], bytes]],
    *,
    kind: str,
    name: str,
    val_share: float,
    seed: int,
    scale: Scale | None,
    background: str,
    fold_labels: bool,
    columns: Mapping[str, Sequence[str]] | None = None,
) -> ImageData:
    """The image set of shards and what is in them; ``reader(shards, indexes)`` returns images' bytes by their number.

    A set without parts is split by that of ``columns``, one value an image, that says them, or stratified by class. The
    fingerprint is over names, which begin with those of the shards in their order, labels, classes, the bytes of the
    images, and how images are scaled that have more than 8 bits, and shown that are transparent.
    """
    classes, codes = _classes(parts, indexes)
    sets = {}
    for part, shards in parts.items():
        held = indexes[part]
        names = [f"{shard.name}/{image}" for shard, index in zip(shards, held, strict=True) for image in index.names]
        contents = np.array([content for index in held for content in index.contents], np.uint64)
        encoded = Encoded(reader(shards, held), names, contents, name)
        starts = np.cumsum([0, *(len(index.names) for index in held)])
        heads = [
            (int(start) + i, stored)
            for start, index in zip(starts, held, strict=False)
            for i, stored in index.stored.items()
        ]
        reading = reading_of(names, encoded.opened, image_set=name, scale=scale, background=background, heads=heads)
        reading = replace(reading, left_out=sum((Counter(index.left_out) for index in held), Counter()))
        sets[part] = ImageSet(
            name=name,
            split=part,
            images=LazyImages(Decoder(encoded, reading.scale, reading.background), np.arange(len(names))),
            labels=codes[part],
            classes=classes,
            names=names,
            fingerprint=fingerprint_of(
                [kind, *classes, *names, codes[part].astype("<i8"), contents.astype("<u8")], reading
            ),
            reading=reading,
            contents=contents,
        )
    found = in_parts(sets["all"], columns or {}) if "all" in sets else [sets["train"], sets["val"]]
    return data_of(found, val_share=val_share, seed=seed, fold_labels=fold_labels)


class Encoded:
    """Encoded images by their numbers, each held against the hash that it had when the set was opened."""

    def __init__(self, read: Callable[[int], bytes], names: list[str], contents: np.ndarray, image_set: str) -> None:
        self.read, self.names, self.contents, self.image_set = read, names, contents, image_set

    def __call__(self, number: int) -> bytes:
        encoded = self.read(number)
        if contents_of_bytes([encoded])[0] != self.contents[number]:
            raise DataError(
                f"The image {self.names[number]!r} of {self.image_set!r} is not the one that was there when the set "
                "was opened: its shard has changed; open the set again, and leave its shards as they are while they "
                "are read."
            )
        return encoded

    def opened(self, number: int) -> Any:
        """The image as Pillow opens it."""
        return Image.open(BytesIO(self(number)))


class Decoder:
    """Images by their numbers, upright, of 8 bits a channel and without transparency."""

    def __init__(self, encoded: Encoded, scale: Scale | None, background: str) -> None:
        self.encoded, self.scale, self.background = encoded, scale, background

    def __call__(self, number: int) -> Image.Image:
        name, image_set = self.encoded.names[number], self.encoded.image_set
        encoded = self.encoded(number)
        try:
            with Image.open(BytesIO(encoded)) as image:
                image.load()
        except DECODING_ERRORS as error:
            raise CorruptImage.of(name, image_set=image_set, reason=reason_of(error)) from error
        return as_shown(image, image=name, image_set=image_set, scale=self.scale, background=self.background)


class OfThread(threading.local):
    """What a thread keeps between its readings; a pickled copy keeps nothing."""

    def __init__(self) -> None:
        self.kept: dict[str, Any] = {}

    def __reduce__(self) -> tuple[type[OfThread], tuple[()]]:
        return type(self), ()


def take(index: Index, name: str, encoded: bytes, label: int | str) -> None:
    """Adds an image to what is in a shard."""
    stored = head_of(lambda: Image.open(BytesIO(encoded)))
    if stored is not None:
        index.stored[len(index.names)] = stored
    index.names.append(name)
    index.contents.append(int(contents_of_bytes([encoded])[0]))
    index.labels.append(label)  # type: ignore[arg-type]


def range_of(shard: Shard, start: int, n_bytes: int) -> bytes:
    """A part of a shard; DataError if the shard is not there or ends before."""
    found = shard.place.read(shard.file, start, n_bytes)
    if found is None or len(found) != n_bytes:
        what = "is not there any more" if found is None else "has become shorter"
        raise DataError(f"The shard {shard.shown} {what}; restore it, or open the image set again as it is now.")
    return found


def require_unchanged(shard: Shard) -> None:
    """Refuses a shard that is not the one that was listed; for what cannot be read."""
    if shard.place.states().get(shard.file) != (shard.size, shard.state):
        raise DataError(
            f"The shard {shard.shown} has changed since the image set was opened; open it again, and leave its shards "
            "as they are while they are read."
        )


class SequentialFile:
    """A shard as a file that is open for reading, which is read ahead in large pieces."""

    def __init__(self, shard: Shard, *, ahead: int) -> None:
        self._shard, self._ahead = shard, ahead
        self._position, self._start, self._held = 0, 0, b""
        self.closed = False

    def read(self, n_bytes: int | None = -1) -> bytes:
        """Up to so many bytes, fewer at the end alone."""
        left = max(self._shard.size - self._position, 0)
        n = left if n_bytes is None or n_bytes < 0 else min(n_bytes, left)
        offset = self._position - self._start
        if not 0 <= offset <= offset + n <= len(self._held):
            length = min(max(n, self._ahead), left)
            self._held, self._start, offset = range_of(self._shard, self._position, length), self._position, 0
        self._position += n
        return self._held[offset : offset + n]

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._shard.size}[whence]
        self._position = base + offset
        return self._position

    def tell(self) -> int:
        return self._position

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def writable(self) -> bool:
        return False

    def close(self) -> None:
        self.closed = True

    def flush(self) -> None:
        """Nothing is ever written."""


def _outside_braces(text: str) -> list[str]:
    """The pieces between the commas that are outside braces.

    >>> _outside_braces("a-{0..3}.tar,b-{x,y}.tar")
    ['a-{0..3}.tar', 'b-{x,y}.tar']
    """
    pieces, depth = [""], 0
    for letter in text:
        depth += {"{": 1, "}": -1}.get(letter, 0)
        if letter == "," and depth <= 0:
            pieces.append("")
        else:
            pieces[-1] += letter
    return [piece.strip() for piece in pieces]


def expanded(pattern: str) -> list[str]:
    """What a pattern with braces stands for, as in a shell.

    >>> expanded("s3://b/{train,val}-{08..10}.tar")[1:4]
    ['s3://b/train-09.tar', 's3://b/train-10.tar', 's3://b/val-08.tar']
    """
    literal, choices, place = [], [], 0
    for match in _BRACES.finditer(pattern):
        literal.append(pattern[place : match.start()])
        numbers = _RANGE.fullmatch(match[1])
        if numbers is not None:
            first, last = int(numbers[1]), int(numbers[2])
            width = max(len(numbers[1]), len(numbers[2])) if "0" in (numbers[1][0], numbers[2][0]) else 0
            if last < first or last - first >= _N_EXPANDED:
                raise QueryError(f"The braces {match[0]} in {pattern!r} run from {first} to {last}; expected upwards.")
            choices.append([str(number).zfill(width) for number in range(first, last + 1)])
        elif match[1] == ",":
            choices.append([","])
        else:
            choices.append(match[1].split(","))
        place = match.end()
    rest = pattern[place:]
    if "{" in rest or "}" in rest or any("{" in piece or "}" in piece for piece in literal):
        raise QueryError(f"The braces in {pattern!r} do not close; expected {{000..127}} or {{a,b}}.")
    chosen = islice(product(*choices), _N_EXPANDED)
    return ["".join(a + b for a, b in zip(literal, one, strict=True)) + rest for one in chosen]


Found = tuple[str, str, int, str]  # folder or address, file, bytes, state


def _files(pattern: str, suffixes: Sequence[str]) -> list[Found]:
    """The files of a pattern: in the order of its braces, and otherwise by their names."""
    is_address = "://" in pattern
    paths = expanded(pattern)
    if not is_address:
        paths = [os.path.expanduser(path).replace(os.sep, "/") for path in paths]
    listings: dict[str, dict[str, tuple[int, str]]] = {}
    found: list[Found] = []
    missing: list[str] = []
    for path in paths:
        is_folder = path.endswith("/") or (os.path.isdir(path) if not is_address else False)
        if is_folder or not (path.lower().endswith(tuple(suffixes)) or _is_wild(path.rpartition("/")[2])):
            inside = list(_in_folder(path.rstrip("/") or "/", suffixes))
            found += inside
            missing += [] if inside else [f"a file {' or '.join(suffixes)} in {_shown(path)}"]
            continue
        where, _, file = path.rpartition("/")
        if not is_address:
            where = where or ("/" if path.startswith("/") else ".")
        if _is_wild(where):
            raise QueryError(
                f"The pattern {_shown(pattern)!r} has *, ? or [] in the name of a folder; expected them in names of "
                "files alone: write the folders with braces, {a,b}."
            )
        if where not in listings:
            listings[where] = place_at(where).states()
        files = [file] if file in listings[where] or not _is_wild(file) else _matching(listings[where], file)
        there = [one for one in files if one in listings[where]]
        found += [(where, one, *listings[where][one]) for one in there]
        missing += [] if there else [_shown(path)]
    if missing:
        several = f"{len(missing):,} of {len(paths):,} files of {_shown(pattern)!r}, the first is " * (len(paths) > 1)
        raise DataError(f"There is no {several or ''}{missing[0]}; restore it or name the shards that there are.")
    return found


def _in_folder(where: str, suffixes: Sequence[str]) -> Iterator[Found]:
    """The shards in a folder and in the folders directly in it."""
    place = place_at(where)
    for below in ("", *place.places()):
        here = f"{where.rstrip('/')}/{below}" if below else where
        for file, (size, state) in sorted((place.below(below) if below else place).states().items()):
            if file.lower().endswith(tuple(suffixes)) and not file.startswith("."):
                yield here, file, size, state


def _matching(listing: Mapping[str, Any], pattern: str) -> list[str]:
    return [file for file in sorted(listing) if fnmatch.fnmatchcase(file, pattern) and not file.startswith(".")]


def _is_wild(text: str) -> bool:
    return any(letter in text for letter in "*?[")


def _shown(path: str) -> str:
    """A pattern as it may be printed."""
    return path if "://" not in path else re.sub(r"(?<=://)[^/]*@", "***@", path)


def _shard(found: Found, n_common: int) -> Shard:
    where, file, size, state = found
    if size < 0:
        raise DataError(
            f"The place {place_at(where).shown} does not say how many bytes {file} has, so that it cannot be read in "
            "parts; copy its shards to a folder or an object store."
        )
    return Shard(where, file, "/".join([*where.split("/")[n_common:], file]), size, state)


def _by_name(shards: list[Shard], text: str) -> Parts:
    """The shards of each part by their names; all together if none is of training or none of anything else."""
    parts: dict[str | None, list[Shard]] = {}
    for shard in shards:
        parts.setdefault(_part_of(shard), []).append(shard)
    second = next((parts[part] for part in ("val", "test") if part in parts), None)
    if len(parts) == 1:
        return {"all": shards}
    if None in parts or "train" not in parts or second is None:
        counts = ", ".join(f"{len(some):,} {part or 'of no part'}" for part, some in parts.items())
        odd = parts.get(None, shards)[0]
        raise DataError(
            f"The names of the shards {text!r} do not tell training from validation images ({counts}; such as "
            f"{odd.name}); expected train-* beside val-*, validation-* or test-*, or name the two with a comma between."
        )
    return {"train": parts["train"], "val": second}


def _part_of(shard: Shard) -> str | None:
    """The part that the name of a shard says, or that of its folder."""
    whole = f"{shard.where}/{shard.file}".split("/")
    for name in (whole[-1], whole[-2] if len(whole) > 1 else ""):
        words = re.split(r"[^a-z]+", name.lower())
        part = next((part for part, known in _SPLITS.items() if any(word in known for word in words)), None)
        if part is not None:
            return part
    return None


def _cache_file(shard: Shard, what: str) -> Path | None:
    """Where the index of a shard is kept; None if it would not be noticed that the shard has changed."""
    folder = shard.place.folder
    if not shard.state:
        return None
    if folder is not None:
        try:
            if time.time() - os.stat(folder / shard.file).st_mtime < _SETTLED_S:
                return None
        except OSError:
            return None
    where = shard.where if folder is None else str(folder.resolve())
    key = hashlib.blake2b(digest_size=16)
    for text in (_INDEX_FORMAT, what, where, shard.file, str(shard.size), shard.state):
        key.update(os.fsencode(text) + b"\0")
    return cache_folder() / "shards" / f"{key.hexdigest()}.json"


def _cached(path: Path) -> Index | None:
    try:
        return Index.of(json.loads(path.read_bytes()))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):  # missing or cut off: the shard is read again
        return None


def _classes(parts: Parts, indexes: Mapping[str, list[Index]]) -> tuple[tuple[str, ...], dict[str, np.ndarray]]:
    """Names of the classes, and the labels of each part as their numbers, int64."""
    pairs = [
        (shard, index) for part, shards in parts.items() for shard, index in zip(shards, indexes[part], strict=True)
    ]
    first, named = pairs[0][0], pairs[0][1].classes
    for shard, index in pairs:
        if index.classes != named:
            raise DataError(
                f"The shards {first.shown} and {shard.shown} do not have the same names of classes; expected shards "
                "of one data set."
            )
    labels = {part: [label for index in held for label in index.labels] for part, held in indexes.items()}
    kinds = {type(label): (shard, index.names[0]) for shard, index in pairs for label in index.labels[:1]}
    if len(kinds) > 1:
        shown = " and ".join(f"{shard.shown} ({kind.__name__})" for kind, (shard, _) in kinds.items())
        raise DataError(f"Labels are whole numbers in one shard and texts in another: {shown}; expected one kind.")
    if str in kinds:
        texts = sorted({str(label) for found in labels.values() for label in found})
        number = {text: i for i, text in enumerate(texts)}
        return tuple(texts), {
            part: np.array([number[str(label)] for label in found], np.int64) for part, found in labels.items()
        }
    codes = {part: np.array(found, np.int64) for part, found in labels.items()}
    n_classes = 1 + max((int(found.max()) for found in codes.values() if len(found)), default=-1)
    if named is None:
        return tuple(map(str, range(n_classes))), codes
    if n_classes > len(named):
        raise DataError(
            f"{first.shown} names {len(named):,} classes, and there are labels up to {n_classes - 1}; expected a name "
            "for each."
        )
    return tuple(named), codes
