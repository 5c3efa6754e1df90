"""Groups of images, such as those of one patient, which belong on one side of every split, and so do copies."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from hashlib import blake2b

from ..optional import requires_extra

with requires_extra("models", needed_for="Working with images"):
    import numpy as np
    from numpy.typing import NDArray

Hashes = NDArray[np.uint64]


def together(contents: Hashes | None, groups: Hashes | None) -> Hashes | None:
    """Which images belong on one side of a split: those with the same number, uint64 (n,); None where nothing is known.

    Copies do, and so do images of a group; what is joined by a chain of both is one.

    >>> together(np.array([5, 6, 6, 7], np.uint64), np.array([1, 1, 2, 3], np.uint64)).tolist()
    [1, 1, 1, 3]
    """
    if groups is None or contents is None:
        return contents if groups is None else groups
    names, number = np.unique(groups, return_inverse=True)
    order = np.argsort(contents, kind="stable")
    before, after = order[:-1], order[1:]
    joined = (contents[before] == contents[after]) & (number[before] != number[after])
    if not joined.any():
        return groups
    parent = list(range(len(names)))  # of each group, up to the first one of those that are joined to it

    def first_of(group: int) -> int:
        while parent[group] != group:
            parent[group] = group = parent[parent[group]]
        return group

    for one, other in zip(number[before[joined]].tolist(), number[after[joined]].tolist(), strict=True):
        low, high = sorted((first_of(one), first_of(other)))
        parent[high] = low
    return np.asarray(names[[first_of(group) for group in range(len(names))]][number])


def groups_of_names(names: Iterable[str]) -> Hashes:
    """Hashes, uint64 (n,), of the names of groups, one name an image.

    >>> anna, bob, again = groups_of_names(["anna", "bob", "anna"])
    >>> bool(anna == again), bool(anna == bob)
    (True, False)
    """
    given = list(names)
    of_name = {name: _hash(name) for name in set(given)}
    return np.array([of_name[name] for name in given], np.uint64)


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
            f"({self.test_images:,} of {self.n_test_images:,} test images, {share:.2g} %): errors on images of new "
            "groups are likely to be higher"
        ]


def shared_groups(train: Hashes | None, test: Hashes | None) -> SharedGroups | None:
    """Counts groups in both parts of a data set; None if the groups of a part are not known.

    >>> shared_groups(np.array([1, 1, 2], np.uint64), np.array([2, 2, 3], np.uint64)).as_dict()
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


def _hash(name: str) -> int:
    return int.from_bytes(blake2b(name.encode("utf-8", "surrogateescape"), digest_size=8).digest(), "little")
