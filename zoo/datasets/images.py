"""Image sets, which every source of images makes; and hashes of image contents, by which copies are found.

:class:`ImageSet` has the labelled images of one split, :class:`ImageData` a training and a validation set. The content
of an image is a hash of 64 bits of the bytes of its file, or of its pixels where there is no file; images with the same
hash are copies. So are images that show the same in files that differ, as a PNG saved anew: images of one size of which
one has a format without loss, and photographs of one size that end with the same bytes, as where metadata alone differ,
are decoded once when a set is opened (:func:`unify_copy_contents`). Groups are hashes of names, such as those of
patients. Copies and groups stay on one side of a split.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from hashlib import blake2b
from itertools import chain
from typing import Any, TypeVar, overload

from ..errors import DataError, format_count
from ..files import get_cache_folder, map_in_threads, open_regular, replace_file
from ..optional import require_extra
from .image_files import RULES, DecodingInfo, StoredFormat

with require_extra("models", needed_for="Working with images"):
    import numpy as np
    from numpy.typing import NDArray
    from PIL import Image

Contents = NDArray[np.uint64]
Hashes = NDArray[np.uint64]
T = TypeVar("T")

NO_LABEL = -1  # of every image of a set without labels, which has no classes
NO_TAG = ""
TAG_SEPARATOR = "|"  # between the tags in the name of a class
_CACHED_FROM_BYTES = 1 << 28  # below, reading everything again takes no second
_AT_A_TIME = 64  # neighbours in a shard, which one thread reads
_KEPT_FROM_S = 1
_FEW_COLOURS = 8
_SETTLED_NS = 2_000_000_000  # a file may change twice within one tick of a coarse clock
_hash = partial(hashlib.blake2b, digest_size=8)


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyCounts:
    """How many images of a data set are copies of others."""

    test_in_train: int  # test images whose content a training image has, too
    within_train: int  # images that are copies of an earlier image of the part
    within_test: int
    in_two_classes: int  # different contents that are in more than one class, in both parts together
    n_train: int  # images of the part
    n_test: int

    def as_dict(self) -> dict[str, int]:
        """The counts by name."""
        return asdict(self)

    def notes(self) -> list[str]:
        """A sentence on each kind of copies that there are."""
        notes = []
        if self.test_in_train:
            share = 100 * self.test_in_train / self.n_test
            notes.append(
                f"{self.test_in_train:,} of {self.n_test:,} test images ({share:.3g} %) "
                f"{_are_copies(self.test_in_train)} of training images: what is measured on them is memory, and errors "
                "come out too low"
            )
        for n, n_all, part in (
            (self.within_train, self.n_train, "training"),
            (self.within_test, self.n_test, "test"),
        ):
            if n:
                notes.append(f"{n:,} of {n_all:,} {part} images {_are_copies(n)} of other {part} images")
        if self.in_two_classes:
            images = "1 image stands" if self.in_two_classes == 1 else f"{self.in_two_classes:,} images stand"
            notes.append(f"{images} in more than one class")
        return notes


def _are_copies(n: int) -> str:
    return "is an exact copy" if n == 1 else "are exact copies"


def count_copies(
    train: Contents | None, y_train: NDArray[np.int64], test: Contents | None, y_test: NDArray[np.int64]
) -> CopyCounts | None:
    """Counts copies within and between the two parts of a data set; None if the contents of a part are not known.

    >>> few = np.array([7, 7, 8], np.uint64)
    >>> count_copies(few, np.array([0, 0, 1]), few[2:], np.array([0])).as_dict()  # doctest: +NORMALIZE_WHITESPACE
    {'test_in_train': 1, 'within_train': 1, 'within_test': 0, 'in_two_classes': 1, 'n_train': 3, 'n_test': 1}
    """
    if train is None or test is None:
        return None
    _, number = np.unique(np.concatenate([train, test]), return_inverse=True)
    pairs = np.unique(np.stack([number, np.concatenate([y_train, y_test])]), axis=1)  # of content and class
    return CopyCounts(
        test_in_train=int(np.isin(test, train).sum()),
        within_train=len(train) - len(np.unique(train)),
        within_test=len(test) - len(np.unique(test)),
        in_two_classes=int((np.bincount(pairs[0].astype(np.int64)) > 1).sum()),
        n_train=len(train),
        n_test=len(test),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedGroups:
    """How many groups of a data set have images in both of its parts."""

    in_both: int  # groups
    test_images: int  # images of the test part whose group has a training image
    n_train: int  # groups of the part
    n_test: int
    n_test_images: int

    def as_dict(self) -> dict[str, int]:
        """The counts by name."""
        return asdict(self)

    def notes(self) -> list[str]:
        """A sentence on groups in both parts, if there are any."""
        if not self.in_both:
            return []
        share = 100 * self.test_images / self.n_test_images
        return [
            f"{self.in_both:,} of {self.n_test:,} groups of test images also have training images "
            f"({self.test_images:,} of {self.n_test_images:,} test images, {share:.3g} %): errors on images of new "
            "groups are likely to be higher"
        ]


def count_shared_groups(train: Hashes | None, test: Hashes | None) -> SharedGroups | None:
    """Counts groups in both parts of a data set; None if the groups of a part are not known.

    >>> count_shared_groups(np.array([1, 1, 2], np.uint64), np.array([2, 2, 3], np.uint64)).as_dict()
    {'in_both': 1, 'test_images': 2, 'n_train': 2, 'n_test': 2, 'n_test_images': 3}
    """
    if train is None or test is None:
        return None
    return SharedGroups(
        in_both=len(np.intersect1d(train, test)),
        test_images=int(np.isin(test, train).sum()),
        n_train=len(np.unique(train)),
        n_test=len(np.unique(test)),
        n_test_images=len(test),
    )


def compute_split_groups(contents: Hashes | None, groups: Hashes | None) -> Hashes | None:
    """Which images belong on one side of a split: those with the same number, uint64 (n,); None where nothing is known.

    Copies do, and so do images of a group; what is joined by a chain of both is one.

    >>> compute_split_groups(np.array([5, 6, 6, 7], np.uint64), np.array([1, 1, 2, 3], np.uint64)).tolist()
    [1, 1, 1, 3]
    """
    if groups is None or contents is None:
        return contents if groups is None else groups
    names, number = np.unique(groups, return_inverse=True)
    order = np.argsort(contents, kind="stable")
    before, after = order[:-1], order[1:]
    joined = (contents[before] == contents[after]) & (number[before] != number[after])
    parent = list(range(len(names)))  # of each group, up to the first one of those that are joined to it

    def first_of(group: int) -> int:
        while parent[group] != group:
            parent[group] = group = parent[parent[group]]
        return group

    for one, other in zip(number[before[joined]].tolist(), number[after[joined]].tolist(), strict=True):
        low, high = sorted((first_of(one), first_of(other)))
        parent[high] = low
    return np.asarray(names[[first_of(group) for group in range(len(names))]][number])


def hash_group_names(names: Iterable[str]) -> Hashes:
    """Hashes, uint64 (n,), of the names of groups, one name an image.

    >>> anna, bob, again = hash_group_names(["anna", "bob", "anna"])
    >>> bool(anna == again), bool(anna == bob)
    (True, False)
    """
    return hash_encoded_images(name.encode("utf-8", "surrogateescape") for name in names)


def follow_first_copy(chosen: NDArray[np.bool_], contents: Contents | None) -> NDArray[np.bool_]:
    """A choice of images, bool (n,), in which every copy goes with the first image of its content, where it is known.

    >>> follow_first_copy(np.array([True, False, False]), np.array([5, 6, 5], np.uint64)).tolist()
    [True, False, True]
    """
    if contents is None or not len(contents):
        return chosen
    _, first, number = np.unique(contents, return_index=True, return_inverse=True)
    return np.asarray(chosen[first[number]])


def has_copies(contents: Contents | None) -> bool:
    """True if two images are known to have the same content."""
    return contents is not None and len(np.unique(contents)) < len(contents)


def hash_pixels(pixels: NDArray[Any]) -> Contents:
    """Contents (n,) of the images of an array, shape (n, height, width[, channels])."""
    shape = str(pixels.shape[1:]).encode()
    return hash_encoded_images(shape + np.ascontiguousarray(image).tobytes() for image in pixels)


def hash_encoded_images(images: Iterable[bytes]) -> Contents:
    """Contents (n,) of encoded images."""
    return _numbers(_hash(image).digest() for image in images)


def hash_image_files(files: Sequence[str]) -> Contents:
    """Contents of files, every byte of which is read; of more than 256 MB the hashes are cached.

    A file that cannot be opened has a content that no other file has, for it may be left out later.
    """

    def read() -> Contents:
        return _numbers(map_in_threads(_of_file, files))

    return load_file_contents(files, read)


def load_file_contents(files: Sequence[str], read: Callable[[], Contents], *, what: str = "") -> Contents:
    """What ``read`` returns on ``what`` in these files, or returned before if none of them has changed since."""
    try:
        stats = [os.stat(file) for file in files]
    except OSError:  # said when the file is asked for, unless it is left out
        return read()
    if sum(stat.st_size for stat in stats) < _CACHED_FROM_BYTES:
        return read()
    changed_ns = max(max(stat.st_mtime_ns, stat.st_ctime_ns) for stat in stats)
    is_settled = changed_ns < time.time_ns() - _SETTLED_NS
    key = hashlib.blake2b(what.encode() + b"\0", digest_size=16)
    for file, stat in zip(files, stats, strict=True):
        key.update(os.fsencode(os.path.abspath(file)) + b"\0")
        key.update(f"{stat.st_size} {stat.st_mtime_ns} {stat.st_ctime_ns} {stat.st_ino}\n".encode())
    return load_cached_contents(key.hexdigest(), lambda: (read(), is_settled))


def load_cached_contents(key: str, read: Callable[[], tuple[Contents, bool]]) -> Contents:
    """What was kept under a key; else what ``read`` returns, kept if it says so."""
    path = get_cache_folder() / "contents" / f"{key}.npy"
    with suppress(OSError, ValueError, EOFError):  # missing, or cut off: it is read again
        return np.asarray(np.load(path, allow_pickle=False), np.uint64)
    contents, is_kept = read()
    if is_kept:
        with suppress(OSError), replace_file(path) as cache_file:  # a full or read-only cache: it is read again
            np.save(cache_file, contents)
    return contents


def _of_file(path: str) -> bytes:
    try:
        with open_regular(path) as file:
            return hashlib.file_digest(file, _hash).digest()
    except OSError as error:
        return _hash(os.fsencode(path) + str(error.errno).encode()).digest()


def _numbers(digests: Iterable[bytes]) -> Contents:
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)


def indicators_of(labelled: Any) -> NDArray[np.bool_]:
    """Which tags each image of a multi-label set has, bool (n, n_tags), in the order of its ``tags``.

    ``labelled`` is an ImageSet or Features whose classes are the combinations of tags that occur; DataError if it has
    no tags.

    >>> images = array_images(np.zeros((3, 2, 2), np.uint8), np.array([1, 0, 2]), name="tagged", split="all",
    ...                       classes=("", "cat", "cat|dog"), tags=("cat", "dog"))
    >>> indicators_of(images).astype(int).tolist()
    [[1, 0], [0, 0], [1, 1]]
    """
    if not labelled.tags:
        raise DataError(
            "These images have one class each and no tags; expected a multi-label set, such as a CSV file with "
            "several label columns."
        )
    of_class = np.array([[tag in name.split(TAG_SEPARATOR) for tag in labelled.tags] for name in labelled.classes])
    labels: NDArray[np.int64] = getattr(labelled, "labels" if hasattr(labelled, "labels") else "y")
    return np.asarray(of_class[labels])


def get_numbers(labelled: Any) -> NDArray[np.float64]:
    """The numbers that images are labelled with, float64 (n,).

    ``labelled`` is an ImageSet or Features with a ``target``, whose classes are the different numbers; DataError if it
    has none.

    >>> images = array_images(np.zeros((3, 2, 2), np.uint8), np.array([1, 0, 1]), name="aged", split="all",
    ...                       classes=("0.5", "31"))
    >>> get_numbers(replace(images, target="age")).tolist()
    [31.0, 0.5, 31.0]
    """
    if not labelled.target:
        raise DataError("These images have classes and no numbers; expected a CSV file with a column of numbers.")
    labels: NDArray[np.int64] = getattr(labelled, "labels" if hasattr(labelled, "labels") else "y")
    return np.array(labelled.classes, np.float64)[labels]


class LazyItems(Sequence[T]):
    """Items that are read or computed each time they are asked for; see :class:`LazyImages`."""

    def __init__(self, read: Callable[[int], T], indices: np.ndarray) -> None:
        self.read = read
        self.indices = indices

    def __len__(self) -> int:
        return len(self.indices)

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> LazyItems[T]: ...
    def __getitem__(self, index: int | slice) -> T | LazyItems[T]:
        if isinstance(index, slice):
            return type(self)(self.read, self.indices[index])
        return self.read(int(self.indices[index]))


class LazyImages(LazyItems[Image.Image]):
    """Images that are decoded each time they are asked for.

    Attributes
    ----------
    read : callable
        From a number to a PIL image. Workers of a loader get a pickled copy, so that it must be a function of a module,
        a ``functools.partial`` of one, or an object of a class of a module.
    indices : int64 array, shape (n,)
        The number that ``read`` takes for each image.
    """


@dataclass(frozen=True, eq=False)
class ImageSet:
    """Labelled images of one split; indexing gives ``(PIL image, label)`` as torch's loaders expect.

    Attributes
    ----------
    name, split : str
        Of the data set, and of its part: "train", "val", ...
    images : sequence of PIL images
        n images of any mode and size; may decode when asked, and then raises :class:`~zoo.errors.CorruptImage`.
    labels : int64 array, shape (n,)
        Numbers of classes; -1 of all images where there are no labels.
    classes : tuple of str
        Names of the classes, in the order of their numbers; empty where there are no labels.
    names : sequence of str
        One an image, unique: its path below the folder of the set, or its number.
    fingerprint : str
        Hex. Two sets with the same fingerprint have the same images, names, labels and classes; the function that makes
        a set says how an image enters it.
    reading : Reading
        Which images are turned or scaled when they are read.
    contents : uint64 array, shape (n,), or None
        A hash of what is in each image; copies have the same one. None where it is not known.
    groups : uint64 array, shape (n,), or None
        A hash of the name of the group of each image, such as its patient. Images of a group are on one side of every
        split. None where groups are not known.
    tags : tuple of str
        Names of the labels of a multi-label set, whose classes are the combinations of tags that occur: joined with
        "|", and "" for none; see :func:`indicators_of`. Empty where an image has one class.
    target : str
        What the labels measure, such as "age", where they are numbers: the classes are then the different numbers; see
        :func:`get_numbers`. Empty where they are classes.
    """

    name: str
    split: str
    images: Sequence[Image.Image]
    labels: np.ndarray
    classes: tuple[str, ...]
    names: Sequence[str]
    fingerprint: str
    reading: DecodingInfo = field(default_factory=DecodingInfo)
    contents: np.ndarray | None = None
    groups: np.ndarray | None = None
    tags: tuple[str, ...] = ()
    target: str = ""

    def __post_init__(self) -> None:
        n = len(self.images)
        one_each = {"labels": self.labels, "names": self.names, "contents": self.contents, "groups": self.groups}
        for what, values in one_each.items():
            if values is not None and len(values) != n:
                raise DataError(
                    f"The image set {self.name!r} has {format_count(n, 'image')} and {len(values):,} {what}; "
                    f"expected one of its {what} an image."
                )
        if self.labels.dtype != np.int64 or self.labels.ndim != 1:
            raise DataError(
                f"The image set {self.name!r} has labels as {self.labels.dtype} of shape {self.labels.shape}; "
                f"expected int64 of shape ({n},)."
            )
        least = 0 if self.classes else NO_LABEL
        wrong = np.flatnonzero((self.labels < least) | (self.labels >= len(self.classes)))
        if wrong.size:
            raise DataError(
                f"{wrong.size:,} of {n:,} images of {self.name!r} have no label of its {len(self.classes)} classes, "
                f"the first is {self.names[wrong[0]]!r} with {self.labels[wrong[0]]}; expected 0 to "
                f"{len(self.classes) - 1}."
            )
        if len(set(self.names)) != n:
            raise DataError(f"Two images of the set {self.name!r} have the same name; expected one name for each.")

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[Image.Image, int]:
        return self.images[index], int(self.labels[index])

    @property
    def together(self) -> np.ndarray | None:
        """Which images belong on one side of a split; see :func:`compute_split_groups`."""
        return compute_split_groups(self.contents, self.groups)

    def n_per_class(self) -> np.ndarray:
        """How many images each class has, int64 (n_classes,)."""
        return np.bincount(self.labels, minlength=len(self.classes)).astype(np.int64)

    def subset(self, indices: np.ndarray | Sequence[int], *, split: str) -> ImageSet:
        """Some of the images, in the order of ``indices``, each at most once; the classes and their numbers stay.

        The whole set in its order keeps its fingerprint; any other subset has one of this set's and the indices.
        """
        chosen, n = np.asarray(indices), len(self)
        is_list = chosen.ndim == 1 and (not chosen.size or chosen.dtype.kind in "iu")
        if not is_list or not ((chosen >= 0) & (chosen < n)).all() or len(np.unique(chosen)) < len(chosen):
            raise DataError(f"A subset of {self.name!r} was asked for; expected indices from 0 to {n - 1}, each once.")
        chosen = chosen.astype(np.int64)
        whole = np.array_equal(chosen, np.arange(n))
        names = [self.names[index] for index in chosen.tolist()]
        if isinstance(self.images, LazyImages):  # not a chain of subsets: what reads stays reachable
            images = LazyImages(self.images.read, self.images.indices[chosen])
        else:
            images = LazyImages(self.images.__getitem__, chosen)
        return ImageSet(
            name=self.name,
            split=split,
            images=images,
            labels=self.labels[chosen],
            classes=self.classes,
            names=names,
            fingerprint=self.fingerprint
            if whole
            else compute_digest(["subset", self.fingerprint, chosen.astype("<i8")]),
            reading=self.reading.of(names, chosen),
            contents=None if self.contents is None else self.contents[chosen],
            groups=None if self.groups is None else self.groups[chosen],
            tags=self.tags,
            target=self.target,
        )


@dataclass(frozen=True)
class ImageData:
    """A data set for probing: train on ``train``, test on ``val``. Both have the same classes, in the same order.

    Where there are no labels, or nothing is to be trained on, both are ``all``.
    """

    name: str
    train: ImageSet
    val: ImageSet
    is_split_here: bool = False  # by the zoo, not by the source of the images
    all: ImageSet | None = None  # the images in the order of a source that says no parts

    def __post_init__(self) -> None:
        if self.is_whole:
            return
        if self.train.tags != self.val.tags or (self.train.groups is None) != (self.val.groups is None):
            raise DataError(
                f"The two parts of {self.name!r} do not have the same tags, or only one of them has groups; expected "
                "the same in both."
            )
        if self.train.classes != self.val.classes:
            odd = sorted(set(self.train.classes) ^ set(self.val.classes)) or ["the order"]
            raise DataError(
                f"The two parts of {self.name!r} do not have the same classes; they differ in "
                f"{', '.join(map(repr, odd[:5]))}; expected the same in both."
            )
        require_two_parts(self.name, self.train, self.val, learner="a probe")
        if int((self.train.n_per_class() > 0).sum()) < 2:
            raise DataError(
                f"All {len(self.train):,} training images of {self.name!r} have the same label, "
                f"{self.train.classes[self.train.labels[0]]!r}; expected two classes, or numbers, or more."
            )

    @property
    def is_whole(self) -> bool:
        """True if nothing was split."""
        return self.all is not None and self.val.fingerprint == self.all.fingerprint


def unify_copy_contents(parts: Sequence[ImageSet]) -> Sequence[ImageSet]:
    """The parts of a data set, in which all images that show the same have the content of the first of them.

    Unchanged where contents or sizes are not known, as of arrays, whose contents are hashes of pixels.
    """
    known = [(part.contents, part.reading.shapes) for part in parts if part.contents is not None]
    if len(known) < len(parts) or any(shapes is None for _, shapes in known):
        return parts
    contents, shapes = (np.concatenate(some) for some in zip(*known, strict=True))
    values, first, number = np.unique(contents, return_index=True, return_inverse=True)
    compared = np.flatnonzero(_may_be_copies(shapes[first]))
    compared = compared[np.argsort(first[compared])]  # of each content the first image, in their order
    if not len(compared):
        return parts
    ends = np.cumsum([len(part) for part in parts])

    def pixels(image: int) -> bytes:
        number = int(np.searchsorted(ends, image, side="right"))
        part, at = parts[number], image - int(ends[number])  # from the end of the part, as below 0
        with suppress(DataError):  # raised again when it is asked for
            shown, stored = part.images[at].convert("RGB"), part.reading.stored.get(part.names[at], StoredFormat())
            # what is narrowed or laid over a colour may have lost what it differs in: black on black, values below 256
            is_lossy = bool(stored.values) or stored.is_transparent
            if not (is_lossy and shown.getcolors(_FEW_COLOURS)):
                return str(shown.size).encode() + shown.tobytes()
        return f"image {image}".encode()

    def read() -> tuple[Contents, bool]:
        images, start = first[compared].tolist(), time.monotonic()
        some = [images[at : at + _AT_A_TIME] for at in range(0, len(images), _AT_A_TIME)]
        with ThreadPoolExecutor(max_workers=os.cpu_count()) as threads:
            hashes = list(chain.from_iterable(threads.map(lambda few: hash_encoded_images(map(pixels, few)), some)))
        return np.array(hashes, np.uint64), time.monotonic() - start > _KEPT_FROM_S

    _, earliest, same = np.unique(
        load_cached_contents(compute_digest(["pixels", *(part.fingerprint for part in parts)]), read),
        return_index=True,
        return_inverse=True,
    )
    values[compared] = values[compared[earliest[same]]]
    found = np.split(values[number], ends[:-1])
    return [replace(part, contents=of_part) for part, of_part in zip(parts, found, strict=True)]


def _may_be_copies(shapes: np.ndarray) -> np.ndarray:
    """Which images may show the same as another by their sizes and last bytes, bool (n,), from uint64 (n, 2)."""
    sides, tails = shapes.T
    _, of_size, n_of_size = np.unique(sides, return_inverse=True, return_counts=True)
    _, of_tail, n_of_tail = np.unique(shapes, axis=0, return_inverse=True, return_counts=True)
    has_lossless = np.bincount(of_size, weights=tails == 0) > 0
    among_size = has_lossless[of_size] & (n_of_size[of_size] > 1)
    return np.asarray((sides > 0) & (among_size | (n_of_tail[of_tail.reshape(-1)] > 1)))


def require_two_parts(name: str, train: Any, val: Any, *, learner: str) -> None:
    """Refuses a data set with an empty part, or whose parts (of any kind) have the same fingerprint."""
    for part in (train, val):
        if not len(part):
            raise DataError(f"The part {part.split!r} of {name!r} holds no image; expected some in both parts.")
    if train.fingerprint == val.fingerprint:
        raise DataError(
            f"The two parts of {name!r} are the same {len(train):,} images; {learner} must be tested on images that it "
            "was not trained on: give it two different parts."
        )


def array_images(
    pixels: np.ndarray,
    labels: np.ndarray,
    *,
    name: str,
    split: str,
    classes: Sequence[str],
    names: Sequence[str] | None = None,
    groups: np.ndarray | None = None,
    tags: Sequence[str] = (),
) -> ImageSet:
    """An image set of an array; its fingerprint is over every pixel, and over groups and tags if there are any.

    ``pixels`` are uint8 (n, height, width) or (n, height, width, 3), grey or RGB; ``labels`` int64 (n,). ``names`` are
    by default the numbers of the images; the others are as for :class:`ImageSet`.

    >>> images = array_images(np.zeros((2, 4, 4), np.uint8), np.array([0, 1]), name="black", split="all", classes="ab")
    >>> images[1][0].size, images[1][1], images.names
    ((4, 4), 1, ('0', '1'))
    """
    if pixels.dtype != np.uint8 or pixels.ndim not in (3, 4) or (pixels.ndim == 4 and pixels.shape[3] != 3):
        raise DataError(
            f"The pixels of {name!r} are {pixels.dtype} of shape {pixels.shape}; expected uint8 of shape "
            "(n, height, width) or (n, height, width, 3)."
        )
    given = tuple(map(str, range(len(pixels)))) if names is None else tuple(names)
    return ImageSet(
        name=name,
        split=split,
        images=LazyImages(partial(_image_of_array, pixels), np.arange(len(pixels))),
        labels=labels,
        classes=tuple(classes),
        names=given,
        fingerprint=compute_digest(
            [
                "array",
                *classes,
                *given,
                labels.astype("<i8"),
                str(pixels.shape),
                pixels,
                *list_fingerprint_parts(groups, tags),
            ]
        ),
        contents=hash_pixels(pixels),
        groups=groups,
        tags=tuple(tags),
    )


def _image_of_array(pixels: np.ndarray, index: int) -> Image.Image:
    return Image.fromarray(np.ascontiguousarray(pixels[index]))


def pixels_of(images: ImageSet) -> np.ndarray:
    """All pixels of a set whose images have one size and mode, uint8 (n, height, width[, channels]).

    DataError names the first image of another size, mode or depth.
    """
    stacked: np.ndarray | None = None
    for i, image in enumerate(images.images):
        pixels = np.asarray(image)
        if stacked is None:
            stacked = np.empty((len(images), *pixels.shape), np.uint8)
        if pixels.shape != stacked.shape[1:] or pixels.dtype != np.uint8:
            raise DataError(
                f"The image {images.names[i]!r} of {images.name!r} is {pixels.dtype} of shape {pixels.shape}; expected "
                f"uint8 of shape {stacked.shape[1:]}, as the first: preprocess them to one size first."
            )
        stacked[i] = pixels
    if stacked is None:
        raise DataError(f"The image set {images.name!r} holds no image, so that it has no pixels.")
    return stacked


def compute_digest(parts: Iterable[str | np.ndarray]) -> str:
    """Hex hash of texts and arrays in their order, each with its length: different lists never hash the same bytes."""
    total = blake2b(digest_size=16)
    for part in parts:
        if isinstance(part, str):
            content = memoryview(part.encode("utf-8", "surrogateescape"))
        else:
            content = np.ascontiguousarray(part).reshape(-1).view(np.uint8).data
        total.update(content.nbytes.to_bytes(8, "little"))
        total.update(content)
    return total.hexdigest()


def list_fingerprint_parts(groups: np.ndarray | None, tags: Sequence[str]) -> list[str | np.ndarray]:
    """Parts of a fingerprint; none where there are neither groups nor tags."""
    parts: list[str | np.ndarray] = [] if groups is None else ["groups", groups.astype("<u8")]
    return [*parts, "tags", *tags] if tags else parts


def compute_fingerprint(parts: Iterable[str | np.ndarray], reading: DecodingInfo) -> str:
    """The hash of what a source says of its images, and of how they are read where files alone do not decide that."""
    source, facts = compute_digest(parts), reading.facts()
    return compute_digest([RULES, source, *facts, *facts.values()]) if facts else source
