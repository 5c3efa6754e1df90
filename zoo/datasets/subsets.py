"""Parts of an image set: n images per class, shares, held-out parts, splits; and the random draws for them.

Every image has a rank that depends only on the seed and its position: the raw 64-bit outputs of one PCG64 stream, ties
by position. Small subsets take the lowest ranks of each class and held-out parts the highest: of one seed, the 3-shot
subset is within the 5-shot one, a smaller held-out part within a larger, and a subset has no image of a held-out part
as long as there are enough of each class. Copies, and groups where they are known, are on one side.

Draws stay the same whatever numpy's generators do next: the bits of PCG64 and of SeedSequence are fixed by numpy's
promise on bit generators; the methods of ``numpy.random.Generator`` are not, so that none is used. A stream belongs to
a key of whole numbers, as text with commas between them; the BLAKE2b-128 of that text, as a number, seeds it.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b

from ..errors import DataError, QueryError, format_count
from ..optional import require_extra
from .images import ImageData, ImageSet, compute_split_groups, follow_first_copy, indicators_of

with require_extra("models", needed_for="Working with images"):
    import numpy as np


def draw_raw(key: tuple[int, ...], n: int) -> np.ndarray:
    """The first ``n`` outputs of the stream of a key, uint64 (n,).

    >>> draw_raw((0, 1), 2).dtype
    dtype('uint64')
    """
    text = ",".join(str(int(number)) for number in key)  # SeedSequence itself takes (1,) and (1, 0) for the same
    entropy = int.from_bytes(blake2b(text.encode(), digest_size=16).digest(), "big")
    return np.asarray(np.random.PCG64(np.random.SeedSequence(entropy)).random_raw(n), np.uint64)


def draw_uniform(key: tuple[int, ...], n: int) -> np.ndarray:
    """Float64 (n,) in [0, 1): the upper 53 bits of each raw draw."""
    return np.asarray((draw_raw(key, n) >> np.uint64(11)).astype(np.float64) * 2.0**-53)


def draw_normal_noise(key: tuple[int, ...], shape: tuple[int, ...]) -> np.ndarray:
    """Noise of mean 0 and variance 1, float32: the sum of four bytes, which is close enough to normal for pixels."""
    n = int(np.prod(shape))
    octets = draw_raw(key, -(-n // 2)).astype("<u8").view(np.uint8).reshape(-1, 4)[:n]  # (n, 4), eight bytes per draw
    centred = octets.sum(axis=1, dtype=np.float32) - np.float32(510)  # four times the mean of 0 to 255
    return np.asarray((centred / np.float32(np.sqrt(4 * (256**2 - 1) / 12))).reshape(shape))


def is_whole(value: object, low: int, high: int | None = None) -> bool:
    """True for a whole number, of Python or NumPy, from ``low`` to ``high``."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        return False
    return bool(low <= value and (high is None or value <= high))


def check_seed(seed: int) -> int:
    """The seed, if it is a whole number from 0 on; anything else is refused."""
    if not is_whole(seed, 0):
        raise DataError(f"The seed is {seed!r}; expected a whole number from 0 on.")
    return int(seed)


_SUBSET_STREAM = 7_001  # keeps the ranks apart from all other draws of a seed


@dataclass(frozen=True, eq=False)
class Subset:
    """Some images of a set, by their positions.

    Attributes
    ----------
    name : str
        "5-shot", "1%", "held-out 450".
    indices : int64 array, shape (n,)
        Positions in the set, ascending.
    n_parent : int
        Number of images of the set.
    """

    name: str
    indices: np.ndarray
    n_parent: int

    def __len__(self) -> int:
        return len(self.indices)

    def rest(self) -> np.ndarray:
        """The positions that are not in the subset, int64, ascending."""
        others = np.ones(self.n_parent, bool)
        others[self.indices] = False
        return np.flatnonzero(others).astype(np.int64)

    def of(self, images: ImageSet) -> ImageSet:
        """The images themselves; DataError of an image set with another number of images."""
        if self.n_parent != len(images):
            raise DataError(
                f"The subset {self.name!r} was made of {format_count(self.n_parent, 'image')}, but {images.name!r} has "
                f"{len(images):,}; make the subset of this image set again."
            )
        return images.subset(self.indices, split=f"{images.split} {self.name}")


def balanced(labels: np.ndarray, n_per_class: int, *, seed: int = 0, classes: tuple[str, ...] = ()) -> Subset:
    """The same number of images of each class that occurs.

    Parameters
    ----------
    labels : int array, shape (n,)
    n_per_class : int
        From 1 on; DataError if a class has fewer images.
    seed : int
    classes : tuple of str
        Names for messages.

    >>> balanced(np.array([0, 1, 0, 1, 0, 1]), 2, seed=1).indices.size
    4
    """
    checked = _checked_labels(labels)
    if not is_whole(n_per_class, 1):
        raise DataError(f"A balanced subset was asked for with {n_per_class!r} images per class; expected 1 or more.")
    present, counts = np.unique(checked, return_counts=True)
    short = np.flatnonzero(counts < n_per_class)
    if short.size:
        shown = ", ".join(f"{_class_name(present[i], classes)} has {counts[i]:,}" for i in short[:3])
        more = f" and {short.size - 3} more have too few" if short.size > 3 else ""
        raise DataError(
            f"{n_per_class:,} images per class were asked for, but {shown}{more}; ask for at most {counts.min():,}, or "
            "add images."
        )
    wanted = np.full(len(present), int(n_per_class))
    chosen = select_lowest_ranks(checked, present, wanted, _ranks(len(checked), seed))
    return Subset(f"{n_per_class}-shot", chosen, len(checked))


def fraction(labels: np.ndarray, share: float, *, seed: int = 0) -> Subset:
    """The same share of each class, rounded to the nearest whole number (halves up), and at least one image of each.

    ``share`` is above 0 and at most 1; labels and seed are as for :func:`balanced`.

    >>> fraction(np.array([0] * 200 + [1] * 50), 0.01).indices.size
    3
    """
    checked = _checked_labels(labels)
    if not 0 < share <= 1:
        raise DataError(f"A subset was asked for with a share of {share!r}; expected above 0 and at most 1.")
    present, counts = np.unique(checked, return_counts=True)
    wanted = np.maximum(np.floor(counts * float(share) + 0.5).astype(np.int64), 1)
    chosen = select_lowest_ranks(checked, present, wanted, _ranks(len(checked), seed))
    return Subset(f"{100 * share:g}%", chosen, len(checked))


def held_out(
    labels: np.ndarray,
    n: int,
    *,
    seed: int = 0,
    classes: tuple[str, ...] = (),
    contents: np.ndarray | None = None,
    groups: np.ndarray | None = None,
) -> Subset:
    """``n`` images in the proportions of the classes, such that every class keeps at least one image in the rest.

    The proportions are by the largest remainder: each class gives the whole part of its due, and the classes with the
    largest remainders one more (the first of equals); a class that would give all its images gives one less, and the
    next in that order makes it up.

    ``n`` is from 1 to the number of images less one per class; labels, seed and classes are as for
    :func:`balanced`. ``contents`` and ``groups``, uint64 (n_images,), say which images are copies or of a group: they
    are held out together or not at all, so that fewer than ``n`` images, and with groups about ``n``, are held out.
    """
    checked = _checked_labels(labels)
    present, counts = np.unique(checked, return_counts=True)
    most = int((counts - 1).sum())
    if not is_whole(n, 1, most):
        small = _class_name(present[counts.argmin()], classes)
        raise DataError(
            f"{n!r} of {len(checked):,} images were to be held out; expected 1 to {most:,}, so that each of the "
            f"{len(present)} classes keeps an image to train on (the smallest, {small}, has {counts.min():,})."
        )
    wanted, ranks = _proportional(counts, int(n)), ~_ranks(len(checked), seed)
    one_side = compute_split_groups(contents, groups)
    if groups is not None and one_side is not None:
        chosen = select_whole_groups(checked, present, wanted, ranks, one_side)
    else:
        chosen = select_lowest_ranks(checked, present, wanted, ranks, contents)
    if not len(chosen):
        raise DataError(
            f"{n:,} of {len(checked):,} images were to be held out, but none can be held out with all of its "
            f"{'copies' if groups is None else 'group'} so that each class keeps an image; hold out more, or use more "
            "images."
        )
    return Subset(f"held-out {n}", chosen, len(checked))


def _ranks(n: int, seed: int) -> np.ndarray:
    return draw_raw((check_seed(seed), _SUBSET_STREAM), n)


def select_lowest_ranks(
    labels: np.ndarray,
    present: np.ndarray,
    wanted: np.ndarray,
    ranks: np.ndarray,
    contents: np.ndarray | None = None,
) -> np.ndarray:
    """Positions of the ``wanted`` lowest ranks of each class, ascending.

    With ``contents``, copies go with the first of them, and images without a copy fill up what is then missing of a
    class; a class never has more than ``wanted``, and fewer only if all its other images are copies.
    """
    chosen = _lowest(labels, present, wanted, ranks)
    if contents is None:
        return chosen
    _, first, number, counts = np.unique(contents, return_index=True, return_inverse=True, return_counts=True)
    is_copy = counts[number] > 1  # or the image that copies are of
    if not is_copy.any():
        return chosen
    in_chosen = np.zeros(len(labels), bool)
    in_chosen[chosen] = True
    taken = is_copy & in_chosen[first[number]]
    place = np.searchsorted(present, labels)  # number of the class
    n_taken = np.bincount(place[taken], minlength=len(present))
    by_number = np.argsort(number, kind="stable")
    starts = np.cumsum(counts) - counts
    groups = np.unique(number[taken])
    for group in groups[np.argsort(ranks[first[groups]], kind="stable")[::-1]].tolist():  # the last ranks first
        copies = by_number[starts[group] : starts[group] + counts[group]]
        if (n_taken > wanted)[place[copies]].any():
            taken[copies] = False
            n_taken -= np.bincount(place[copies], minlength=len(present))
    single = np.flatnonzero(~is_copy)
    n_single = np.bincount(place[single], minlength=len(present))
    more = _lowest(labels[single], present, np.minimum(wanted - n_taken, n_single), ranks[single])
    return np.sort(np.concatenate([np.flatnonzero(taken), single[more]])).astype(np.int64)


def select_whole_groups(
    labels: np.ndarray, present: np.ndarray, wanted: np.ndarray, ranks: np.ndarray, groups: np.ndarray
) -> np.ndarray:
    """Positions of whole groups with about the ``wanted`` images of each class, ascending; each class keeps an image.

    Groups are looked at in the order of the ranks of their first images, and taken if the squared distance of the
    classes' shares to those wanted falls. Then a class of which none was taken gets its smallest group that leaves
    every class an image.
    """
    _, first, number = np.unique(groups, return_index=True, return_inverse=True)
    pairs, counts = np.unique(number * len(present) + np.searchsorted(present, labels), return_counts=True)
    group_of, class_of = pairs // len(present), pairs % len(present)
    starts = np.searchsorted(group_of, np.arange(len(first) + 1)).tolist()
    held, of_class = counts.tolist(), class_of.tolist()
    total = np.bincount(np.searchsorted(present, labels), minlength=len(present)).tolist()
    missing, left = [int(n) for n in wanted], list(total)
    taken = np.zeros(len(first), bool)

    def can_leave(group: int) -> bool:
        return all(left[of_class[at]] > held[at] for at in range(starts[group], starts[group + 1]))

    def take(group: int) -> None:
        taken[group] = True
        for at in range(starts[group], starts[group + 1]):
            missing[of_class[at]] -= held[at]
            left[of_class[at]] -= held[at]

    n_open = sum(n > 0 for n in missing)
    for group in np.argsort(ranks[first], kind="stable").tolist():
        if not n_open:
            break
        parts = range(starts[group], starts[group + 1])
        gain = sum(held[at] * (2 * missing[of_class[at]] - held[at]) / total[of_class[at]] ** 2 for at in parts)
        if gain > 0 and can_leave(group):
            take(group)
            n_open = sum(n > 0 for n in missing)
    for place in np.flatnonzero(wanted > 0).tolist():
        if left[place] == total[place]:
            having = np.flatnonzero(class_of == place)
            for at in having[np.lexsort((ranks[first[group_of[having]]], counts[having]))].tolist():
                if can_leave(int(group_of[at])):
                    take(int(group_of[at]))
                    break
    return np.flatnonzero(taken[number]).astype(np.int64)


def _lowest(labels: np.ndarray, present: np.ndarray, wanted: np.ndarray, ranks: np.ndarray) -> np.ndarray:
    order = np.lexsort((np.arange(len(labels)), ranks, labels))  # by class, then rank, then position
    starts = np.searchsorted(labels[order], present)
    counts = np.diff(np.append(starts, len(labels)))
    place_in_class = np.arange(len(labels)) - np.repeat(starts, counts)
    return np.sort(order[place_in_class < np.repeat(wanted, counts)]).astype(np.int64)


def _proportional(counts: np.ndarray, n: int) -> np.ndarray:
    """How many of each class make ``n`` by the largest remainder, with one left of each."""
    due = counts * n  # in units of 1 / total, whole numbers: no rounding
    wanted = np.minimum(due // counts.sum(), counts - 1)
    order = np.lexsort((np.arange(len(counts)), -(due % counts.sum())))
    while (missing := n - int(wanted.sum())) > 0:
        open_classes = [number for number in order.tolist() if wanted[number] < counts[number] - 1]
        wanted[open_classes[:missing]] += 1
    return np.asarray(wanted)


def _checked_labels(labels: np.ndarray) -> np.ndarray:
    y = np.asarray(labels)
    if y.ndim != 1 or y.dtype.kind not in "iu" or not len(y):
        raise DataError(f"Labels are {y.dtype} of shape {y.shape}; expected whole numbers of shape (n,), n > 0.")
    return y.astype(np.int64)


def _class_name(label: int, classes: tuple[str, ...]) -> str:
    return repr(classes[label]) if 0 <= label < len(classes) else f"class {label}"


_SPLIT_STREAM = 7_002  # keeps the split apart from the subsets of the same seed


def split_by_hash(images: ImageSet, *, val_share: float, seed: int) -> ImageData:
    """A set of images as two, by :func:`split_positions_by_hash`."""
    return _as_split(images, split_positions_by_hash(images, val_share=val_share, seed=seed))


def split_positions_by_hash(images: ImageSet, *, val_share: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Positions of the training and of the validation images, by the hash of each name.

    Each image goes by its name alone, so that images which are added or removed move no other: it is in "val" if the
    first 8 bytes of BLAKE2b of "SEED/NAME", as a number from 0 to 1, are below ``val_share``. Copies go by the name of
    the first of them, but by their names where they all are copies of one image. Of a class whose images would all be
    in "val", the one with the largest number stays in "train", with its copies and its group.
    """
    _require_share(images, val_share)
    limit = round(val_share * 2**64)
    prefix = f"{check_seed(seed)}/"
    numbers = np.array([_hash(prefix + name) for name in images.names], np.uint64)
    by_name = numbers < np.uint64(limit) if limit < 2**64 else np.ones(len(images), bool)
    joined = follow_first_copy(by_name, images.together)
    in_val = (by_name if images.groups is None and (joined.all() or not joined.any()) else joined).copy()
    if not images.tags and not images.target:
        n_train = np.bincount(images.labels[~in_val], minlength=len(images.classes))
        alone = np.flatnonzero((n_train == 0) & (images.n_per_class() > 0))
        order = np.lexsort((numbers, images.labels))
        kept = order[np.searchsorted(images.labels[order], alone, side="right") - 1]  # the largest number of each class
        one_side = np.arange(len(images)) if images.together is None else images.together
        in_val &= ~np.isin(one_side, one_side[kept])
    return _halves(images, in_val)


def split_stratified(images: ImageSet, *, val_share: float, seed: int) -> ImageData:
    """The same share of each class, rounded to the nearest, and if it has two images at least one on both sides.

    All copies of an image are on one side; where they leave no other way, a class has fewer validation images, or none.
    All images of a group are on one side as well; the shares are then as near as groups allow. In a
    multi-label set, combinations of tags too rare for that are split as one; images labelled with numbers all are.
    """
    _require_share(images, val_share)
    labels, one_side = images.labels, images.together
    if images.tags:
        rare = images.n_per_class()[labels] * min(val_share, 1 - val_share) < 1
        labels = np.where(rare, len(images.classes), labels)
    elif images.target:
        labels = np.zeros_like(labels)
    present, counts = np.unique(labels, return_counts=True)
    wanted = np.clip(np.floor(counts * val_share + 0.5).astype(np.int64), 1, counts - 1)
    ranks = draw_raw((check_seed(seed), _SPLIT_STREAM), len(images))
    in_val = np.zeros(len(images), bool)
    if images.groups is None or one_side is None:
        in_val[select_lowest_ranks(labels, present, wanted, ranks, images.contents)] = True
    else:
        in_val[select_whole_groups(labels, present, wanted, ranks, one_side)] = True
    return _as_split(images, _halves(images, in_val))


def _as_split(images: ImageSet, halves: tuple[np.ndarray, np.ndarray]) -> ImageData:
    """A data set of one set of images, from the positions of its two parts."""
    train, val = (images.subset(half, split=split) for half, split in zip(halves, ("train", "val"), strict=True))
    return ImageData(name=images.name, train=train, val=val, is_split_here=True, all=images)


def _halves(images: ImageSet, in_val: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Positions of both parts; refuses a class without a training image, and a tag without an image on one side."""
    if images.tags:
        what, names, has = "tag", images.tags, indicators_of(images)  # (n, n_tags)
        n_val, n_train = has[in_val].sum(axis=0), has[~in_val].sum(axis=0)
        alone = np.flatnonzero((n_train == 0) != (n_val == 0))
    else:
        what, names = "class", images.classes
        n_train = np.bincount(images.labels[~in_val], minlength=len(names))
        alone = np.flatnonzero((n_train == 0) & (images.n_per_class() > 0) & (not images.target))
    if alone.size or not in_val.any():
        whom = f"the {what} {names[alone[0]]!r} without" if alone.size else "the validation part without"
        groups = "" if images.groups is None else f" in {len(np.unique(images.groups)):,} groups"
        n, n_unlike = len(images), len(images) if images.contents is None else len(np.unique(images.contents))
        copies = f", {n_unlike:,} without copies," * (n_unlike < n)
        what_is = f"{n:,} image{'s' * (n > 1)}{copies}{groups}"
        raise DataError(
            f"Splitting the {what_is} of {images.name!r} leaves {whom} an image; "
            f"{'take another share or seed, ' * (n > 1)}add images or groups, or split them yourself into train/ and "
            "val/."
        )
    return np.flatnonzero(~in_val), np.flatnonzero(in_val)


def _hash(text: str, key: bytes = b"") -> int:
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogateescape"), digest_size=8, key=key).digest(), "big")


def _require_share(images: ImageSet, val_share: float) -> None:
    if not 0 < val_share < 1:
        raise DataError(
            f"{images.name!r} was to be split with a validation share of {val_share!r}; expected above 0 and below 1."
        )


def draw_image_positions(images: ImageSet, n: int | None, *, seed: int = 0) -> np.ndarray:
    """Positions of n images, int64, ascending: those whose names have the lowest hashes under a seed; None: of all."""
    check_seed(seed)
    n_there = len(images)
    if n is None:
        return np.arange(n_there)
    if not is_whole(n, 1, n_there):
        raise QueryError(
            f"{n!r} images of {images.name!r} ({images.split}) were asked for, which has {n_there:,}; expected 1 to "
            f"{n_there:,}."
        )
    if n == n_there:
        return np.arange(n_there)
    key = str(int(seed)).encode()
    ranks = np.array([_hash(name, key) for name in images.names], np.uint64)
    return np.sort(np.argsort(ranks, kind="stable")[:n]).astype(np.int64)
