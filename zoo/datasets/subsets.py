"""Parts of an image set that anybody can make again: n images a class, a share of each class, a held-out part.

Every image has a rank that depends only on the seed and its position: the raw 64-bit outputs of one PCG64 stream, ties
(there are none to be expected) by position. Small subsets take the lowest ranks of each class and held-out parts the
highest, hence:

* of one seed, the 3-shot subset is within the 5-shot one, 1 % within 10 %, and a smaller held-out part within a larger;
* of one seed, a subset and a held-out part have no image in common as long as there are enough images of each class.

A held-out part has all copies of an image or none of them, so that none of its images is among those that are left.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import DataError
from ..optional import requires_extra
from .draws import checked_seed, raw_draws
from .imagesets import ImageSet, digest

with requires_extra("models", needed_for="Working with images"):
    import numpy as np

KINDS = ("balanced", "fraction", "held-out")
_STREAM = 7_001  # keeps the ranks apart from all other draws of a seed


@dataclass(frozen=True, eq=False)
class Subset:
    """Some images of a set, by their positions.

    Attributes
    ----------
    name : str
        "5-shot", "1%", "held-out 450".
    kind : str
        "balanced", "fraction" or "held-out".
    amount : float
        Images a class, share of each class, or images in all.
    indices : int64 array, shape (n,)
        Positions in the set, ascending.
    seed : int
    parent : str
        Fingerprint of the image set; empty if it was not given.
    n_parent : int
        Number of images of the set.
    fingerprint : str
        Hex, of all of these.
    """

    name: str
    kind: str
    amount: float
    indices: np.ndarray
    seed: int
    parent: str
    n_parent: int

    def __post_init__(self) -> None:
        indices = self.indices
        ascending = indices.ndim == 1 and indices.dtype == np.int64 and bool((np.diff(indices) > 0).all())
        if not ascending or not len(indices) or indices[0] < 0 or indices[-1] >= self.n_parent:
            raise DataError(
                f"The subset {self.name!r} has {len(indices):,} indices as {indices.dtype}; expected int64, ascending, "
                f"each once, from 0 to {self.n_parent - 1:,}, and at least one."
            )

    @property
    def fingerprint(self) -> str:
        facts = (self.name, self.kind, repr(float(self.amount)), str(self.seed), self.parent, str(self.n_parent))
        return digest([*facts, self.indices.astype("<i8")])

    def __len__(self) -> int:
        return len(self.indices)

    def rest(self) -> np.ndarray:
        """The positions that are not in the subset, int64, ascending."""
        others = np.ones(self.n_parent, bool)
        others[self.indices] = False
        return np.flatnonzero(others).astype(np.int64)

    def of(self, images: ImageSet) -> ImageSet:
        """The images themselves.

        Raises
        ------
        DataError
            If the subset was made for another image set.
        """
        require_parent(self, images.fingerprint, len(images), name=images.name)
        return images.subset(self.indices, split=f"{images.split} {self.name}")


def balanced(
    labels: np.ndarray, n_per_class: int, *, seed: int = 0, parent: str = "", classes: tuple[str, ...] = ()
) -> Subset:
    """The same number of images of each class that occurs.

    Parameters
    ----------
    labels : int array, shape (n,)
    n_per_class : int
        From 1 on.
    seed : int
    parent : str
        Fingerprint of the image set, kept with the subset.
    classes : tuple of str
        Names for messages.

    Raises
    ------
    DataError
        If a class has fewer images; says which and how many.

    >>> balanced(np.array([0, 1, 0, 1, 0, 1]), 2, seed=1).indices.size
    4
    """
    checked = _checked_labels(labels)
    if isinstance(n_per_class, bool) or not isinstance(n_per_class, int | np.integer) or n_per_class < 1:
        raise DataError(f"A balanced subset was asked for with {n_per_class!r} images a class; expected 1 or more.")
    present, counts = np.unique(checked, return_counts=True)
    short = np.flatnonzero(counts < n_per_class)
    if short.size:
        shown = ", ".join(f"{_named(present[i], classes)} has {counts[i]:,}" for i in short[:3])
        more = f" and {short.size - 3} more have too few" if short.size > 3 else ""
        raise DataError(
            f"{n_per_class:,} images a class were asked for, but {shown}{more}; ask for at most {counts.min():,}, or "
            "add images."
        )
    wanted = np.full(len(present), int(n_per_class))
    chosen = lowest_of_each(checked, present, wanted, _ranks(len(checked), seed))
    return Subset(f"{n_per_class}-shot", "balanced", float(n_per_class), chosen, int(seed), parent, len(checked))


def fraction(labels: np.ndarray, share: float, *, seed: int = 0, parent: str = "") -> Subset:
    """The same share of each class, rounded to the nearest whole number (halves up), and at least one image of each.

    Parameters
    ----------
    labels : int array, shape (n,)
    share : float
        Above 0, at most 1.

    Raises
    ------
    DataError
        If the share is out of range.

    >>> fraction(np.array([0] * 200 + [1] * 50), 0.01).indices.size
    3
    """
    checked = _checked_labels(labels)
    if not 0 < share <= 1:
        raise DataError(f"A subset was asked for with a share of {share!r}; expected above 0 and at most 1.")
    present, counts = np.unique(checked, return_counts=True)
    wanted = np.maximum(np.floor(counts * float(share) + 0.5).astype(np.int64), 1)
    chosen = lowest_of_each(checked, present, wanted, _ranks(len(checked), seed))
    return Subset(f"{100 * share:g}%", "fraction", float(share), chosen, int(seed), parent, len(checked))


def held_out(
    labels: np.ndarray,
    n: int,
    *,
    seed: int = 0,
    parent: str = "",
    classes: tuple[str, ...] = (),
    contents: np.ndarray | None = None,
) -> Subset:
    """``n`` images in the proportions of the classes, such that every class keeps at least one image in the rest.

    The proportions are by the largest remainder: each class gives the whole part of its due, and the classes with the
    largest remainders one more (the first of equals); a class that would give all its images gives one less, and the
    next in that order makes it up.

    Parameters
    ----------
    labels : int array, shape (n_images,)
    n : int
        From 1 to the number of images less one a class.
    contents : uint64 array, shape (n_images,), optional
        Copies, which have the same one, are held out together or not at all; where they cannot be made to fit, fewer
        than ``n`` images are held out.

    Raises
    ------
    DataError
        If so many cannot be held out.
    """
    checked = _checked_labels(labels)
    present, counts = np.unique(checked, return_counts=True)
    most = int((counts - 1).sum())
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or not 1 <= n <= most:
        small = _named(present[counts.argmin()], classes)
        raise DataError(
            f"{n!r} of {len(checked):,} images were to be held out; expected 1 to {most:,}, so that each of the "
            f"{len(present)} classes keeps an image to train on (the smallest, {small}, has {counts.min():,})."
        )
    wanted, ranks = _proportional(counts, int(n)), ~_ranks(len(checked), seed)
    chosen = lowest_of_each(checked, present, wanted, ranks, contents)
    if not len(chosen):
        raise DataError(
            f"{n:,} of {len(checked):,} images were to be held out, but each has so many copies that it cannot be held "
            "out with all of them; remove the copies, or hold out more."
        )
    return Subset(f"held-out {n}", "held-out", float(n), chosen, int(seed), parent, len(checked))


def require_parent(subset: Subset, fingerprint: str, n: int, *, name: str) -> None:
    """Refuses a subset of another image set.

    Raises
    ------
    DataError
    """
    if subset.n_parent != n or (subset.parent and subset.parent != fingerprint):
        raise DataError(
            f"The subset {subset.name!r} was made of {subset.n_parent:,} images with the fingerprint "
            f"{subset.parent or 'unknown'}, but {name!r} has {n:,} images with {fingerprint}; make the subset of this "
            "image set anew."
        )


def _ranks(n: int, seed: int) -> np.ndarray:
    return raw_draws((checked_seed(seed), _STREAM), n)


def lowest_of_each(
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
        own = by_number[starts[group] : starts[group] + counts[group]]
        if (n_taken > wanted)[place[own]].any():
            taken[own] = False
            n_taken -= np.bincount(place[own], minlength=len(present))
    single = np.flatnonzero(~is_copy)
    n_single = np.bincount(place[single], minlength=len(present))
    more = _lowest(labels[single], present, np.minimum(wanted - n_taken, n_single), ranks[single])
    return np.sort(np.concatenate([np.flatnonzero(taken), single[more]])).astype(np.int64)


def _lowest(labels: np.ndarray, present: np.ndarray, wanted: np.ndarray, ranks: np.ndarray) -> np.ndarray:
    order = np.lexsort((np.arange(len(labels)), ranks, labels))  # by class, then rank, then position
    starts = np.searchsorted(labels[order], present)
    within = np.arange(len(labels)) - np.repeat(starts, np.diff(np.append(starts, len(labels))))  # place in the class
    take = within < np.repeat(wanted, np.diff(np.append(starts, len(labels))))
    return np.sort(order[take]).astype(np.int64)


def _proportional(counts: np.ndarray, n: int) -> np.ndarray:
    due = counts * n  # in units of 1 / total, whole numbers: no rounding
    wanted = np.minimum(due // counts.sum(), counts - 1)
    order = np.lexsort((np.arange(len(counts)), -(due % counts.sum())))
    while (missing := n - int(wanted.sum())) > 0:
        open_classes = [number for number in order.tolist() if wanted[number] < counts[number] - 1]
        wanted[open_classes[:missing]] += 1
    return np.asarray(wanted)


def _checked_labels(labels: np.ndarray) -> np.ndarray:
    found = np.asarray(labels)
    if found.ndim != 1 or found.dtype.kind not in "iu" or not len(found):
        raise DataError(
            f"Labels are {found.dtype} of shape {found.shape}; expected whole numbers of shape (n,), n > 0."
        )
    return found.astype(np.int64)


def _named(label: int, classes: tuple[str, ...]) -> str:
    return repr(classes[label]) if 0 <= label < len(classes) else f"class {label}"
