"""Image sets in tar files as webdataset writes them: members KEY.jpg with KEY.cls or KEY.json beside it.

References
----------
A. Aizman, G. Maltby and T. Breuel 2019, High Performance I/O For Large Scale Deep Learning (the format).
"""

from __future__ import annotations

import json
import tarfile
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from ..errors import DataError
from ..optional import requires_extra
from .endings import DICOM_SUFFIXES, SUFFIXES, USUAL, remedy_for, skipped_as
from .images import ImageData
from .rgb import WHITE, Scale
from .sharded import (
    Index,
    OfThread,
    SequentialFile,
    Shard,
    found_parts,
    indexed,
    range_of,
    sharded_data,
    take,
)

with requires_extra("models", needed_for="Working with images"):
    import numpy as np

_ENDINGS = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar.zst")  # packed ones are found to be refused
_PACKED = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7zXZ": "xz", b"\x28\xb5\x2f\xfd": "zstd"}
_IMAGES = tuple(suffix.removeprefix(".") for suffix in SUFFIXES if suffix not in DICOM_SUFFIXES)
_COMMON = ("bmp", "gif", "jpeg", "jpg", "pgm", "png", "ppm", "tif", "tiff", "webp")  # the image of a key, if it has one
_BLOCK = 512  # bytes of a header, and of the marks at the end
_AHEAD = 16 << 20  # bytes of a shard that are read at once when it is looked through
_WINDOW = 4 << 20  # bytes of neighbouring images that are read at once from an address


def webdataset_data(
    text: str,
    *,
    name: str,
    val_share: float,
    seed: int,
    image_column: str | None = None,
    label_column: str | None = None,
    scale: Scale | None = None,
    background: str = WHITE,
    fold_labels: bool = False,
) -> ImageData:
    """Images of tar files: ``text`` names them as :func:`zoo.datasets.sharded.found_parts` says.

    Neighbouring members with the same key are an image and what is known of it; the key is the path up to the first dot
    of the last name, and what is behind that dot says what the member is: an image by its ending (of several,
    ``image_column`` names one, such as "jpg"), and the label: ``cls``, a whole number, or else the entry "label" of
    ``json``. ``label_column`` names another entry of json, whose values are whole numbers or texts. Members with
    other endings are ignored, and members that systems put there are left out. The same key may be in several shards.
    """
    parts = found_parts(text, _ENDINGS)
    wanted = _Wanted(image_column, label_column)
    what = f"webdataset {image_column!r} {label_column!r}"
    indexes = {part: indexed(shards, wanted.look, what=what) for part, shards in parts.items()}
    how: dict[str, Any] = {"val_share": val_share, "seed": seed, "scale": scale, "background": background}
    return sharded_data(parts, indexes, Members, kind="webdataset", name=name, fold_labels=fold_labels, **how)


class Members:
    """Encoded images of tar files by their number; from an address, those behind them come along."""

    def __init__(self, shards: Sequence[Shard], indexes: Sequence[Index]) -> None:
        self.shards = list(shards)
        self.firsts = np.cumsum([0, *(len(index.names) for index in indexes)])  # first image of each shard
        self.starts = np.array([start for index in indexes for start in index.starts], np.int64)
        self.sizes = np.array([size for index in indexes for size in index.sizes], np.int64)
        self.of_thread = OfThread()

    def __call__(self, number: int) -> bytes:
        of = bisect_right(self.firsts, number) - 1
        shard, start, size = self.shards[of], int(self.starts[number]), int(self.sizes[number])
        if shard.place.folder is not None:
            return range_of(shard, start, size)
        window: _Window = self.of_thread.kept.get("window", _NO_WINDOW)
        offset = start - window.start
        if window.shard != of or not 0 <= offset <= offset + size <= len(window.held):
            # twice as many as before while one image follows the other, as disks do
            n = 2 * window.n if number == window.next else 1
            stop = min(number + n, int(self.firsts[of + 1]))
            ends = self.starts[number:stop] + self.sizes[number:stop]
            n_whole = max(1, int(np.searchsorted(ends, start + _WINDOW, side="right")))
            held = range_of(shard, start, int(ends[n_whole - 1]) - start)
            window, offset = _Window(of, start, held, n_whole, number + 1), 0
        self.of_thread.kept["window"] = window._replace(next=number + 1)
        return window.held[offset : offset + size]


class _Window(NamedTuple):
    shard: int
    start: int  # first byte in the shard
    held: bytes
    n: int  # images that were read at once
    next: int  # the image that is wanted next if all are


_NO_WINDOW = _Window(-1, 0, b"", 1, -1)


class _Sample(NamedTuple):
    """Neighbouring members of one key: each ending with its place and size."""

    key: str
    members: dict[str, tuple[int, int]]


class _Wanted:
    """Which members are the image and the label."""

    def __init__(self, image: str | None, label: str | None) -> None:
        self.image = None if image is None else image.lower().removeprefix(".")
        self.label = label

    def look(self, shard: Shard) -> Index:
        """Reads a shard from its beginning to its end."""
        index = Index(names=[], labels=[], contents=[], stored={})
        seen = set()
        file = SequentialFile(shard, ahead=_AHEAD)
        for sample in _samples(shard, file, index.left_out):
            if sample.key in seen:
                raise DataError(
                    f"The shard {shard.shown} has the key {sample.key!r} twice, apart; expected all members of a key "
                    "beside each other, and each key once."
                )
            seen.add(sample.key)
            start, size = sample.members[self._image_of(sample, shard)]
            file.seek(start)
            encoded = file.read(size)
            label = self._label_of(sample, shard, file)
            if index.labels and type(label) is not type(index.labels[0]):
                raise DataError(
                    f"The label of {sample.key!r} in {shard.shown} is {label!r}, and that of {index.names[0]!r} is "
                    f"{index.labels[0]!r}; expected whole numbers alone, or texts alone."
                )
            take(index, sample.key, encoded, label)
            index.starts.append(start)
            index.sizes.append(size)
        if not index.names:
            raise DataError(f"The shard {shard.shown} holds no image; expected KEY.jpg with KEY.cls or KEY.json.")
        return index

    def _image_of(self, sample: _Sample, shard: Shard) -> str:
        if self.image is not None:
            images = [self.image] if self.image in sample.members else []
        else:
            images = [ending for ending in sample.members if ending in _COMMON]
            images = images or [ending for ending in sample.members if ending in _IMAGES]
        if len(images) == 1:
            return images[0]
        there = ", ".join(sample.members)
        if images:
            raise DataError(
                f"The key {sample.key!r} in {shard.shown} has {len(images)} images ({', '.join(images)}); say which "
                f"with --image-column {images[0]}, or image_column={images[0]!r} in Python."
            )
        remedy = next(filter(None, map(remedy_for, sample.members)), "add it, or remove the other members of the key")
        raise DataError(
            f"The key {sample.key!r} in {shard.shown} has no image (it has {there}); expected one with the ending "
            f"{self.image or f'of an image, {USUAL}'}: {remedy}."
        )

    def _label_of(self, sample: _Sample, shard: Shard, file: SequentialFile) -> int | str:
        which = f"of {sample.key!r} in {shard.shown}"
        if "cls" in sample.members and self.label in (None, "cls"):
            text = _read(file, sample.members["cls"]).decode(errors="replace").strip()
            if not text.isascii() or not text.isdecimal():
                raise DataError(f"The label {which} is {text[:80]!r} in its .cls; expected a whole number from 0.")
            return int(text)
        if "json" not in sample.members or self.label == "cls":
            there = ", ".join(sample.members)
            raise DataError(
                f"The key {sample.key!r} in {shard.shown} has no label (it has {there}); expected a member "
                f"{'.cls' if self.label in (None, 'cls') else '.json'} beside its image."
            )
        wanted = self.label or "label"
        try:
            facts = json.loads(_read(file, sample.members["json"]))
        except ValueError as error:
            raise DataError(f"The member .json {which} cannot be read ({error}); write it again.") from error
        entries = ", ".join(map(str, facts)) if isinstance(facts, dict) else type(facts).__name__
        if not isinstance(facts, dict) or wanted not in facts:
            raise DataError(
                f"The member .json {which} has no entry {wanted!r} (it has {entries}); say which entry is the label "
                "with --label-column, or label_column= in Python."
            )
        label = facts[wanted]
        is_label = (isinstance(label, int) and label >= 0) or (isinstance(label, str) and label)
        if isinstance(label, bool) or not is_label:
            raise DataError(f"The label {which} is {label!r} in its .json; expected a whole number from 0, or a text.")
        return int(label) if isinstance(label, int) else str(label)


def _samples(shard: Shard, file: SequentialFile, left_out: dict[str, int]) -> Iterator[_Sample]:
    """The samples of a shard in their order; hidden members, and those of systems, are counted instead."""
    head = file.read(6)
    packing = next((name for magic, name in _PACKED.items() if head.startswith(magic)), None)
    if packing is not None:
        raise DataError(
            f"The shard {shard.shown} is packed by {packing}, so that its images cannot be read one by one; unpack it "
            "(images are compressed anyway)."
        )
    file.seek(0)
    sample: _Sample | None = None
    try:
        with tarfile.open(fileobj=file, mode="r:") as tar:  # type: ignore[call-overload]
            for member in tar:
                if not member.isreg():
                    continue
                if member.offset_data + member.size > shard.size:
                    raise tarfile.ReadError(f"the member {member.name!r} is cut off")
                folder, slash, last = member.name.rpartition("/")
                stem, _, ending = last.partition(".")
                key, ending = folder + slash + stem, ending.lower()
                around = [skipped_as(one, is_folder=False) for one in folder.split("/")]  # "." is no hidden folder
                skipped = next(
                    (kind for kind in around if kind not in ("", "hidden")), skipped_as(last, is_folder=False)
                )
                if skipped:
                    left_out[skipped] = left_out.get(skipped, 0) + 1
                    continue
                if sample is not None and sample.key != key:
                    yield sample
                    sample = None
                if sample is None:
                    sample = _Sample(key, {})
                if ending in sample.members:
                    raise DataError(
                        f"The shard {shard.shown} has {ending!r} of the key {key!r} twice; expected each once."
                    )
                sample.members[ending] = (member.offset_data, member.size)
                tar.members = []  # or all of them would be kept
            end = tar.offset
        file.seek(end)
        if file.read(_BLOCK) != bytes(_BLOCK):  # where tarfile stops without a word at a damaged header
            raise tarfile.ReadError(f"it breaks off at byte {end:,} without the mark of its end")
    except tarfile.TarError as error:
        at = "" if sample is None else f" behind the key {sample.key!r}"
        raise DataError(
            f"The shard {shard.shown} is cut off, damaged or no tar file{at} ({error}); put it there again."
        ) from error
    if sample is not None:
        yield sample


def _read(file: SequentialFile, member: tuple[int, int]) -> bytes:
    start, size = member
    file.seek(start)
    return file.read(size)
