"""Label settings: how many labels a probe has, on which rows it is trained and on which its settings are chosen.

What a probe's settings are chosen on mirrors what it is evaluated on (C.3): training images that it is not trained on,
as many as the test set has and no more. Three rules say which, in every setting and for every risk:

* The choice never sees the images that the probe is evaluated on.
* If enough training images lie outside the setting (few-shot), they are what the choice is made on, and the probe is
  trained on its labels once. Enough are as many as the test set has, or ``TUNING_SHARE`` of the setting's labels.
* Else (full-shot) that share of the setting's own labels, at most as many as the test set has, is held out for the
  choice; then the probe is trained again, at what was chosen, on all labels of the setting.

Where images are known to be copies of each other, none of the tuning rows is a copy of a row that the choice is trained
on.

References
----------
Dubois et al. 2023, Evaluating Self-Supervised Learning via Risk Decomposition, Appendix C.3.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

from ..datasets.subsets import balanced, fraction, held_out
from ..errors import QueryError
from ..optional import requires_extra

with requires_extra("models", needed_for="A label setting"):
    import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..datasets.contents import Contents

    Indices = NDArray[np.int64]

TUNING_SHARE = 0.2  # of the labels, held out for the choice where a test set as large would take more
PUBLISHED_SETTINGS = ("full", "30-shot", "1%", "5-shot", "3-shot")
_SHOTS = re.compile(r"([1-9][0-9]*)-?shot")
_PERCENT = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s?%")


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelSetting:
    """How many labels a probe has."""

    name: str  # "full", "30-shot", "1%"
    split: str  # in the rows of results/: "train 30-shot -> val"
    n_per_class: int | None = None
    percent: float | None = None  # of the labels, each class alike

    @property
    def is_full(self) -> bool:
        """True if the probe has every label."""
        return self.n_per_class is None and self.percent is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Division:
    """Rows of the training set: what a probe is trained on, and what its settings are chosen on. Sorted."""

    train: Indices
    tuning: Indices
    refits: bool  # the tuning rows are part of the training rows, and left out for the choice alone

    @property
    def choice(self) -> Indices:
        """Rows that the probe is trained on while its settings are chosen."""
        return np.setdiff1d(self.train, self.tuning, assume_unique=True)


def label_setting(name: str) -> LabelSetting:
    """The setting with this name.

    Parameters
    ----------
    name : str
        "full" or "100%", any "K-shot" (labels a class) or any "P%" of the labels.

    Raises
    ------
    QueryError
        If the name says nothing of the kind, or a share is not above 0 and below 100 %.

    Examples
    --------
    >>> [label_setting(name).split for name in ("100%", "30-shot", "1.0 %")]
    ['train -> val', 'train 30-shot -> val', 'train 1% -> val']
    """
    folded = name.strip().casefold()
    if shots := _SHOTS.fullmatch(folded):
        plain = f"{shots[1]}-shot"
        return LabelSetting(name=plain, split=f"train {plain} -> val", n_per_class=int(shots[1]))
    share = _PERCENT.fullmatch(folded)
    if folded == "full" or (share and float(share[1]) == 100):
        return LabelSetting(name="full", split="train -> val")
    if share and 0 < float(share[1]) < 100:
        plain = f"{Decimal(share[1]).normalize():f}%"
        return LabelSetting(name=plain, split=f"train {plain} -> val", percent=float(share[1]))
    raise QueryError(
        f"There is no label setting {name!r}; expected 'full', labels a class as in '30-shot', or a share above 0 and "
        "at most 100 % as in '1%'."
    )


def divide(
    setting: LabelSetting,
    labels: Indices,
    *,
    n_test: int,
    seed: int,
    parent: str,
    classes: tuple[str, ...] = (),
    contents: Contents | None = None,
) -> Division:
    """The rows that a probe is trained on in a setting, and those that its settings are chosen on.

    Parameters
    ----------
    setting : LabelSetting
        As :func:`label_setting` makes it.
    labels : int64 array, shape (n,)
        Of the whole training set.
    n_test : int
        Images of the test set, which the tuning rows mirror.
    seed : int
        Of both draws; one seed has the same rows on every machine.
    parent : str
        Fingerprint of the training set.
    classes : tuple of str
        Names for messages.
    contents : uint64 array, shape (n,), optional
        What is in each image; copies have the same.

    Raises
    ------
    DataError
        If a class has too few images; says which and how many.
    """
    everything = np.arange(len(labels), dtype=np.int64)
    if setting.n_per_class is not None:
        train = balanced(labels, setting.n_per_class, seed=seed, parent=parent, classes=classes).indices
    elif setting.percent is not None:
        train = fraction(labels, setting.percent / 100, seed=seed, parent=parent).indices
    else:
        train = everything
    outside = np.setdiff1d(everything, train, assume_unique=True)
    if contents is not None:
        outside = outside[~np.isin(contents[outside], contents[train])]
    available = len(outside) - len(np.unique(labels[outside]))  # a held-out part leaves one image a class behind
    if available >= min(n_test, math.ceil(TUNING_SHARE * len(train))):
        n = min(n_test, available)
        tuning = rows_held_out(labels, outside, n=n, seed=seed, parent=parent, classes=classes, contents=contents)
        return Division(train=train, tuning=tuning, refits=False)
    return divide_own(labels, train, n_test=n_test, seed=seed, parent=parent, classes=classes, contents=contents)


def divide_own(
    labels: Indices,
    train: Indices,
    *,
    n_test: int,
    seed: int,
    parent: str,
    classes: tuple[str, ...] = (),
    contents: Contents | None = None,
) -> Division:
    """Rows for the choice out of the training rows themselves; the parameters are those of :func:`divide`."""
    n = min(n_test, math.ceil(TUNING_SHARE * len(train)))
    tuning = rows_held_out(labels, train, n=n, seed=seed, parent=parent, classes=classes, contents=contents)
    return Division(train=train, tuning=tuning, refits=True)


def rows_held_out(
    labels: Indices,
    rows: Indices,
    *,
    n: int,
    seed: int,
    parent: str,
    classes: tuple[str, ...] = (),
    contents: Contents | None = None,
) -> Indices:
    """So many of some rows, in the proportions of their classes, each of which keeps a row; sorted.

    Of copies all are held out or none.
    """
    own = None if contents is None else contents[rows]
    chosen: Indices = rows[held_out(labels[rows], n, seed=seed, parent=parent, classes=classes, contents=own).indices]
    return chosen
