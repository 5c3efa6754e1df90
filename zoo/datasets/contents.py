"""What is in each image, as a hash: of the bytes of its file, or of its pixels where there is no file.

Images with the same hash are copies of each other. Hashes have 64 bits: of two million different images, the chance
that any two have the same is about one in ten million.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from ..atomic import replaced
from ..content import cache_folder
from ..errors import DataError
from ..optional import requires_extra

with requires_extra("models", needed_for="Working with images"):
    import numpy as np
    from numpy.typing import NDArray

Contents = NDArray[np.uint64]

_KEPT_FROM_BYTES = 1 << 28  # below, reading everything again takes no second
_SETTLED_NS = 2_000_000_000  # a file may change twice within one tick of a coarse clock
_hash = partial(hashlib.blake2b, digest_size=8)


@dataclass(frozen=True, slots=True, kw_only=True)
class Copies:
    """How many images of a data set are copies of others.

    Attributes
    ----------
    test_in_train : int
        Test images whose content a training image has, too.
    within_train, within_test : int
        Images of the part that are copies of an earlier image of it.
    in_two_classes : int
        Different contents that stand in more than one class, in both parts together.
    n_train, n_test : int
        Images of the parts.
    """

    test_in_train: int
    within_train: int
    within_test: int
    in_two_classes: int
    n_train: int
    n_test: int

    def as_dict(self) -> dict[str, int]:
        """The counts by name."""
        return asdict(self)

    def notes(self) -> list[str]:
        """A sentence on each kind of copies that there are."""
        found = []
        if self.test_in_train:
            share = 100 * self.test_in_train / self.n_test
            found.append(
                f"{self.test_in_train:,} of {self.n_test:,} test images ({share:.2g} %) are exact copies of training "
                "images: what is measured on them is memory, and errors come out too low"
            )
        for n, n_all, part in (
            (self.within_train, self.n_train, "training"),
            (self.within_test, self.n_test, "test"),
        ):
            if n:
                found.append(f"{n:,} of {n_all:,} {part} images are exact copies of other {part} images")
        if self.in_two_classes:
            images = "1 image stands" if self.in_two_classes == 1 else f"{self.in_two_classes:,} images stand"
            found.append(f"{images} in more than one class")
        return found


def copies_of(
    train: Contents | None, y_train: NDArray[np.int64], test: Contents | None, y_test: NDArray[np.int64]
) -> Copies | None:
    """Counts copies within and between the two parts of a data set.

    Parameters
    ----------
    train, test : uint64 arrays, shapes (n_train,) and (n_test,), or None
        Contents of the images.
    y_train, y_test : int64 arrays of the same shapes
        Their classes.

    Returns
    -------
    Copies or None
        None if the contents of a part are not known.

    Examples
    --------
    >>> few = np.array([7, 7, 8], np.uint64)
    >>> copies_of(few, np.array([0, 0, 1]), few[2:], np.array([0])).as_dict()  # doctest: +NORMALIZE_WHITESPACE
    {'test_in_train': 1, 'within_train': 1, 'within_test': 0, 'in_two_classes': 1, 'n_train': 3, 'n_test': 1}
    """
    if train is None or test is None:
        return None
    both, y = np.concatenate([train, test]), np.concatenate([y_train, y_test])
    contents, number = np.unique(both, return_inverse=True)
    lowest, highest = np.full(len(contents), np.iinfo(np.int64).max), np.full(len(contents), np.iinfo(np.int64).min)
    np.minimum.at(lowest, number, y)
    np.maximum.at(highest, number, y)
    return Copies(
        test_in_train=int(np.isin(test, train).sum()),
        within_train=len(train) - len(np.unique(train)),
        within_test=len(test) - len(np.unique(test)),
        in_two_classes=int((lowest < highest).sum()),
        n_train=len(train),
        n_test=len(test),
    )


def beside_the_first(chosen: NDArray[np.bool_], contents: Contents | None) -> NDArray[np.bool_]:
    """A choice of images in which every copy goes with the first image of its content.

    Parameters
    ----------
    chosen : bool array, shape (n,)
    contents : uint64 array, shape (n,), or None
        Where they are not known, or all differ, the choice stays as it is.

    >>> beside_the_first(np.array([True, False, False]), np.array([5, 6, 5], np.uint64)).tolist()
    [True, False, True]
    """
    if contents is None or not len(contents):
        return chosen
    _, first, number = np.unique(contents, return_index=True, return_inverse=True)
    return np.asarray(chosen[first[number]])


def has_copies(contents: Contents | None) -> bool:
    """True if two images are known to have the same content."""
    return contents is not None and len(np.unique(contents)) < len(contents)


def contents_of_pixels(pixels: NDArray[Any]) -> Contents:
    """Of each image of an array, shape (n, height, width[, channels]); the result has the shape (n,)."""
    shape = str(pixels.shape[1:]).encode()
    return _numbers([_hash(shape + np.ascontiguousarray(image).tobytes()).digest() for image in pixels])


def contents_of_bytes(images: Iterable[bytes]) -> Contents:
    """Of encoded images."""
    return _numbers([_hash(image).digest() for image in images])


def contents_of_files(files: Sequence[str]) -> Contents:
    """Of files, every byte of which is read.

    Of more than 256 MB the hashes are kept in the cache, and are those of the same files as long as paths, sizes and
    times of change stay. A file that cannot be opened has a content of its own, for it may be left out later.

    Raises
    ------
    DataError
        If a file is not there.
    """

    def read() -> Contents:
        with ThreadPoolExecutor(max_workers=min(16, 2 * (os.cpu_count() or 1))) as pool:
            return _numbers(list(pool.map(_of_file, files)))

    return kept_contents(files, read)


def kept_contents(files: Sequence[str], read: Callable[[], Contents], *, what: str = "") -> Contents:
    """What ``read`` gives of ``what`` in these files, or what it gave before if none of them has changed since.

    Raises
    ------
    DataError
        If a file is not there.
    """
    try:
        stats = [os.stat(file) for file in files]
    except OSError as error:
        raise DataError(
            f"The image {error.filename} cannot be read ({error.strerror}); restore or remove it."
        ) from error
    if sum(stat.st_size for stat in stats) < _KEPT_FROM_BYTES:
        return read()
    changed_ns = max(max(stat.st_mtime_ns, stat.st_ctime_ns) for stat in stats)
    now_ns = time.time_ns()
    key = hashlib.blake2b(what.encode() + b"\0", digest_size=16)
    for file, stat in zip(files, stats, strict=True):
        key.update(os.fsencode(os.path.abspath(file)) + b"\0")
        key.update(f"{stat.st_size} {stat.st_mtime_ns} {stat.st_ctime_ns} {stat.st_ino}\n".encode())
    path = cache_folder() / "contents" / f"{key.hexdigest()}.npy"
    try:
        kept = np.load(path, allow_pickle=False)
        if kept.dtype == np.uint64 and kept.ndim == 1:
            return np.asarray(kept)
    except (OSError, ValueError, EOFError):  # not there, or cut off: it is read again
        pass
    found = read()
    if changed_ns < now_ns - _SETTLED_NS:
        try:
            with replaced(path) as kept_file:
                np.save(kept_file, found)
        except OSError:  # a full or read-only cache; next time everything is read again
            pass
    return found


def _of_file(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, _hash).digest()
    except OSError as error:
        return _hash(os.fsencode(path) + str(error.errno).encode()).digest()


def _numbers(digests: Sequence[bytes]) -> Contents:
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)
