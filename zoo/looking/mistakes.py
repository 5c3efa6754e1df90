"""Mistakes of a probe, from arrays and names: confident ones, confused classes, wrong labels, near duplicates.

What is found comes as records of names of images, ranked; nothing is drawn here. Labels are checked as confident
learning does (Northcutt, Jiang and Chuang 2021, Journal of Artificial Intelligence Research 70).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..datasets.images import indicators_of
from ..errors import DataError
from ..evaluation.arrays import select_rows
from ..evaluation.evaluating import LINEAR_PROTOCOLS, average_maps, build_probe_maker
from ..evaluation.measuring import ProbeCache, divide_own, refit_probe
from ..evaluation.protocols import Protocol, build_protocol
from ..evaluation.retrieval import FEWEST_NEAR, N_NEAR, find_near_pairs, nearest
from ..evaluation.scaling import split_folds
from ..features import Features, require_comparable
from ..optional import require_extra

with require_extra("evaluate", needed_for="Mistakes of a probe"):
    import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..evaluation.saved_probes import SavedProbe

    Floats = NDArray[np.float64]
    Rows = NDArray[np.int64]

N_FOLDS = 5
N_CONFIDENT, N_BOUNDARY, N_PAIRS, N_OF_PAIR = 16, 8, 4, 8  # images and pairs of classes in a record
MOST_ERROR = 40.0  # percent, out of sample, above which a probe's mistakes are not told from wrong labels
MOST_LISTED = 1000  # labels to check that are named, the first ones of their ranking


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One image and what a probe says of it; ``label`` is None where it is not known."""

    part: str  # "train", "val"
    image: str  # name
    label: str | None
    predicted: str
    probability: float  # of the predicted class
    label_probability: float | None
    second: str  # the class with the second largest probability
    second_probability: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Confusion:
    """How often images of a class are taken for another, and some of them, the most confident first."""

    label: str
    predicted: str
    n: int
    images: tuple[Judged, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WrongLabels:
    """Labels that are probably wrong: less probable than another class to a probe that was not trained on the image."""

    n_judged: int  # images
    n_folds: int  # of the cross-validation over the training images
    n_found: int
    n_confident: int  # of these, by confident learning; see contradicted
    found: tuple[Judged, ...]  # the first MOST_LISTED, by ``probability`` / ``label_probability``
    cannot_tell: str = ""  # why these say nothing of labels, in a sentence: the probe's own error is too large


@dataclass(frozen=True, slots=True, kw_only=True)
class NearPair:
    """A test image and a training image near it; of one set a later image and an earlier one."""

    train: str
    test: str
    train_label: str
    test_label: str
    distance: float  # 1 - cosine of the features
    false_share: float | None = None  # of the near duplicates up to this one, by chance
    is_copy: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NearDuplicates:
    """Pairs across two parts, or within a set, that are nearer than chance explains, the nearest first."""

    usual: float | None  # median distance of an image to its nearest one; None without others
    pairs: tuple[NearPair, ...]  # without exact copies
    copies: tuple[NearPair, ...] = ()  # within a set, with the first of them
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Mistakes:
    """What a probe with all labels gets wrong on the test images, and what may be wrong with the images."""

    n_test: int
    n_wrong: int | None  # None of images with tags
    confident: tuple[Judged, ...]
    boundary: tuple[Judged, ...]
    encoder: str = ""
    near_duplicates: NearDuplicates | None = None
    confusions: tuple[Confusion, ...] = ()  # both directions of a pair of classes, one after the other
    wrong_labels: WrongLabels | None = None
    notes: tuple[str, ...] = ()  # what could not be looked for


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Predicted:
    """Probabilities (n, n_classes) of images, and their labels as columns of these where they are known."""

    images: Sequence[tuple[str, str]]  # part and name
    classes: Sequence[str]
    p: Floats
    y: Rows | None = None

    def judged(self, row: int) -> Judged:
        """The record of an image."""
        best, second = np.argsort(-self.p[row], kind="stable")[:2].tolist()
        label = None if self.y is None else int(self.y[row])
        return Judged(
            part=self.images[row][0],
            image=self.images[row][1],
            label=None if label is None else self.classes[label],
            predicted=self.classes[best],
            probability=float(self.p[row, best]),
            label_probability=None if label is None else float(self.p[row, label]),
            second=self.classes[second],
            second_probability=float(self.p[row, second]),
        )

    @property
    def is_wrong(self) -> NDArray[np.bool_]:
        """Which images the probe judges otherwise than their label; none where labels are not known."""
        return np.zeros(len(self.p), bool) if self.y is None else self.p.argmax(axis=1) != self.y


def build_predictions(
    names: Sequence[str], classes: Sequence[str], p: Floats, y: Any, *, is_tags: bool
) -> list[Predicted]:
    """Those of test images; tags, with ``p`` and ``y`` (n, n_tags), have two classes each, without it and with it."""
    images = [("val", name) for name in names]
    if not is_tags:
        return [Predicted(images=images, classes=classes, p=p, y=y)]
    has = None if y is None else y.astype(np.int64)
    return [
        Predicted(
            images=images,
            classes=(f"no {tag}", tag),
            p=np.stack([1 - p[:, column], p[:, column]], axis=1),
            y=None if has is None else has[:, column],
        )
        for column, tag in enumerate(classes)
    ]


def summarise_mistakes(each: Sequence[Predicted], *, is_tags: bool, **more: Any) -> Mistakes:
    """The record of predictions whose labels are known."""
    return Mistakes(
        n_test=len(each[0].p),
        n_wrong=None if is_tags else int(each[0].is_wrong.sum()),
        confident=select_confident_mistakes(each),
        boundary=select_near_boundary(each),
        confusions=() if is_tags else count_confusions(each[0]),
        **more,
    )


def select_confident_mistakes(each: Sequence[Predicted], n: int = N_CONFIDENT) -> tuple[Judged, ...]:
    """The ``n`` wrong predictions with the largest probabilities."""
    return _lowest(each, [np.where(one.is_wrong, -one.p.max(axis=1), np.inf) for one in each], n)


def select_near_boundary(each: Sequence[Predicted], n: int = N_BOUNDARY) -> tuple[Judged, ...]:
    """The ``n`` images with the smallest difference between the two largest probabilities, right or wrong."""
    return _lowest(each, [np.diff(np.partition(one.p, -2, axis=1)[:, -2:])[:, 0] for one in each], n)


def _lowest(each: Sequence[Predicted], keys: Sequence[Floats], n: int) -> tuple[Judged, ...]:
    order = np.argsort(np.concatenate(keys), kind="stable")[:n].tolist()
    found = [divmod(at, len(keys[0])) for at in order]
    return tuple(each[i].judged(row) for i, row in found if keys[i][row] < np.inf)


def select_most_sure(found: Predicted, n_classes: int, n: int) -> dict[str, tuple[Judged, ...]]:
    """The ``n`` images with the largest probability of each predicted class, of the classes predicted most often."""
    best, order = found.p.argmax(axis=1), np.argsort(-found.p.max(axis=1), kind="stable")
    counts = np.bincount(best, minlength=len(found.classes))
    often = [c for c in np.argsort(-counts, kind="stable")[:n_classes].tolist() if counts[c]]
    return {found.classes[c]: tuple(map(found.judged, order[best[order] == c][:n].tolist())) for c in often}


def count_confusions(found: Predicted, n_pairs: int = N_PAIRS, n_images: int = N_OF_PAIR) -> tuple[Confusion, ...]:
    """The ``n_pairs`` pairs of classes with the most mistakes between them: both directions, the frequent first."""
    if found.y is None:
        return ()
    rows = np.argsort(-found.p.max(axis=1), kind="stable")
    rows = rows[found.is_wrong[rows]]
    label, best = found.y[rows], found.p[rows].argmax(axis=1)
    both, counts = np.unique(np.sort(np.stack([label, best], axis=1), axis=1), axis=0, return_counts=True)
    directions: list[Confusion] = []
    for one, other in both[np.argsort(-counts, kind="stable")[:n_pairs]].tolist():
        ways = [(a, b, rows[(label == a) & (best == b)].tolist()) for a, b in ((one, other), (other, one))]
        for a, b, way in sorted(ways, key=lambda way: -len(way[2])):
            images = tuple(map(found.judged, way[:n_images]))
            directions.append(Confusion(label=found.classes[a], predicted=found.classes[b], n=len(way), images=images))
    return tuple(directions)


# --- labels ----------------------------------------------------------------------------------------------------------


def find_contradicted(p: Floats, y: Rows) -> tuple[Rows, int]:
    """Images whose labels are probably wrong, the most probable first, and how many of them confidently so.

    Another class is more probable than the label; the order is by the ratio of the two, the largest first. It is
    confident (of confident learning) where a class is as probable, too, as on average where it is the label.
    ``p`` are out-of-sample probabilities, float64 (n, n_classes), ``y`` the labels as their columns, int64 (n,).

    >>> p = np.array([[0.9, 0.1], [0.8, 0.2], [0.4, 0.6], [0.95, 0.05], [0.2, 0.8]])
    >>> find_contradicted(p, np.array([0, 0, 0, 1, 1]))
    (array([3, 2]), 2)
    """
    every, n_classes = np.arange(len(y)), p.shape[1]
    own, n = p[every, y], np.bincount(y, minlength=n_classes)
    usual = np.where(n > 0, np.bincount(y, own, minlength=n_classes) / np.maximum(n, 1), np.inf)
    others = p.copy()
    others[every, y] = 0
    highest = others.max(axis=1)
    rows = np.flatnonzero(highest > own)
    is_confident = np.where(others >= usual, others, 0).max(axis=1) > own
    return rows[np.argsort(own[rows] / highest[rows], kind="stable")], int(is_confident.sum())


def find_wrong_labels(
    features: Features,
    *,
    chosen: Mapping[str, Any] | None = None,
    protocol: Protocol | None = None,
    seed: int = 0,
    device: str | None = None,
    tested: Predicted | None = None,
    cache: ProbeCache | None = None,
) -> WrongLabels:
    """Labels that are probably wrong, by probabilities out of sample.

    Copies and groups are in one fold. The settings of the probe ("C", "preparation") are ``chosen`` once for all folds,
    by default on a part that is held out: that costs one fit a fold, and little honesty, for two settings cannot learn
    thousands of labels by heart. ``tested`` are further images, as a probe trained on ``features`` judges them;
    ``cache`` has the probes of the folds once they were trained. Where more than :data:`MOST_ERROR` percent of labels
    are contradicted, the probe's own error on images that it was not trained on, most are its mistakes: ``cannot_tell``
    says so.
    DataError if no image can be left out, for each is the only one of its class, or in a group with the only one.
    """
    make = build_probe_maker(protocol or build_protocol(LINEAR_PROTOCOLS[0]), device=device, seed=seed)
    present, y = np.unique(features.y, return_inverse=True)
    folds = split_folds(y, N_FOLDS, seed=seed, groups=features.together)
    if chosen is None:
        own = divide_own(features, np.arange(len(y), dtype=np.int64), n_test=len(y), seed=seed)
        held_out = {"x_val": select_rows(features.x, own.tuning), "y_val": features.y[own.tuning]}
        chosen = make().fit(select_rows(features.x, own.choice), features.y[own.choice], **held_out).report_
    p = np.full((len(y), len(present)), np.nan)
    for rows, out in folds:
        p[out] = refit_probe(make(), features, rows, chosen, cache=cache).predict_proba(select_rows(features.x, out))
    images = [("train", name) for name in get_image_names(features)]
    if tested is not None and tested.y is not None:
        images, p, y = [*images, *tested.images], np.concatenate([p, tested.p]), np.concatenate([y, tested.y])
    known = np.flatnonzero(np.isfinite(p).all(axis=1))  # the only images of a class are in no fold
    every = Predicted(images=images, classes=get_class_names(features, present), p=p, y=y)
    rows, n_confident = find_contradicted(p[known], y[known])
    first = tuple(map(every.judged, known[rows[:MOST_LISTED]].tolist()))
    n = {"n_judged": len(known), "n_folds": len(folds), "n_found": len(rows), "n_confident": n_confident}
    error, why = 100 * len(rows) / max(len(known), 1), ""
    if error > MOST_ERROR:
        why = (
            f"Which labels are wrong cannot be told: the probe errs on {error:.0f} % of the images that it was not "
            f"trained on ({len(rows):,} of {len(known):,}), and above {MOST_ERROR:g} % most are its own mistakes."
        )
    return WrongLabels(**n, found=first, cannot_tell=why)


# --- near duplicates -------------------------------------------------------------------------------------------------


def find_near_duplicates(train: Features, test: Features | None = None, *, device: str | None = None) -> NearDuplicates:
    """Pairs of images that are nearer than chance explains, beyond exact copies: across two parts, or within a set.

    The rule, and what it cannot tell, is that of :mod:`zoo.evaluation.retrieval`: at most about 5 % of the pairs are
    false, 1 % of the sets without near duplicates have any, and an image with 20 or more is not found. Neighbours are
    exact. Without ``test``, or where that is ``train``, all images are compared with each other. Where contents are
    known, copies count once, and test images with a copy in ``train`` are left out. DataError if the features are not
    of one encoder, or not finite.
    """
    is_within = test is None or test.x is train.x
    other = train if test is None or is_within else test
    asked, copies = np.arange(len(other)), np.empty((0, 2), np.int64)
    if not is_within:
        require_comparable(replace(other, classes=()), train)
        if train.contents is not None and other.contents is not None:
            asked = np.flatnonzero(~np.isin(other.contents, train.contents))
    elif train.contents is not None:
        first, content = np.unique(train.contents, return_index=True, return_inverse=True)[1:]
        asked, later = np.sort(first), np.setdiff1d(np.arange(len(train)), first)
        copies = np.stack([first[content[later]], later], axis=1)
    query = other.x if len(asked) == len(other) else other.x[asked]
    gallery = query if is_within else train.x
    k = min(N_NEAR, len(gallery) - is_within)
    told: dict[str, Any] = {"copies": build_near_pairs(train, other, copies, np.zeros(len(copies)))}
    if k < FEWEST_NEAR:
        told["notes"] = (f"Of images with fewer than {FEWEST_NEAR} others near duplicates cannot be told.",)
    if not k or not len(asked):
        return NearDuplicates(usual=None, pairs=(), **told)
    rows, distances = nearest(query, gallery, k, device=device)
    found, apart, shares = find_near_pairs(np.sqrt(distances), rows, np.arange(len(rows)) if is_within else None)
    ends = asked[found] if is_within else np.stack([found[:, 1], asked[found[:, 0]]], axis=1)
    pairs = build_near_pairs(train, other, ends, apart**2, shares.tolist())
    return NearDuplicates(usual=float(np.median(distances[:, 0])), pairs=pairs, **told)


def build_near_pairs(
    train: Features, test: Features, rows: Rows, distances: Floats, shares: Iterable[float | None] = repeat(None)
) -> tuple[NearPair, ...]:
    """Records of pairs, whose ``rows`` (m, 2) are those of a training and of a test image."""
    names, of_test = get_image_names(train), get_image_names(test)
    a, b = rows[:, 0], rows[:, 1]
    copies = np.zeros(len(rows), bool)
    if train.contents is not None and test.contents is not None:
        copies = train.contents[a] == test.contents[b]
    ends: list[Iterable[Any]] = [[names[row] for row in a.tolist()], [of_test[row] for row in b.tolist()]]
    ends += [get_class_names(train, train.y[a]), get_class_names(test, test.y[b])]
    told = zip(*ends, distances.tolist(), shares, copies.tolist(), strict=False)
    return tuple(NearPair(**dict(zip(NearPair.__slots__, one, strict=True))) for one in told)


def get_image_names(features: Features) -> Sequence[str]:
    """Names of images, numbers where they are not known."""
    return features.names if len(features.names) else [*map(str, range(len(features.y)))]


def get_class_names(features: Features, numbers: Iterable[int]) -> tuple[str, ...]:
    """Names of classes, numbers where they are not known."""
    return tuple((features.classes[c] or "(no tag)") if features.classes else str(c) for c in numbers)


def mistakes_of(
    train: Features,
    test: Features,
    probe: SavedProbe,
    *,
    protocol: Protocol,
    device: str | None = None,
    seed: int = 0,
    cache: Path | None = None,
) -> Mistakes:
    """The mistakes of a probe that was trained with all labels by ``protocol``, and what may be wrong with the images.

    ``probe`` is as :func:`zoo.evaluation.refit.keep_probe` or :func:`zoo.evaluation.multilabel.evaluate_tags` give it;
    ``cache`` is the folder of cached probes.
    """
    is_tags, present, notes = probe.kind == "tags", np.unique(train.y), list[str]()
    y: Any
    if is_tags:
        classes, y = probe.classes, indicators_of(test)[:, [test.tags.index(tag) for tag in probe.classes]]
        notes.append("Images with tags have no confused classes, and their labels are not checked.")
    else:
        classes, y = get_class_names(train, present), np.searchsorted(present, test.y)
    each = build_predictions(get_image_names(test), classes, probe.predict_proba(test), y, is_tags=is_tags)
    wrong = None
    if protocol.probe != "LogisticProbe":
        notes.append(f"Labels are not checked with {protocol.name}, which would take a training by passes per fold.")
    elif not is_tags:
        try:
            how: dict[str, Any] = {"chosen": probe.about["chosen"], "protocol": protocol, "tested": each[0]}
            how |= {"cache": None if cache is None else ProbeCache(cache, protocol=protocol.name)}
            wrong = find_wrong_labels(train, **how, seed=seed, device=device)
            notes += filter(None, [wrong.cannot_tell])
        except DataError as error:
            notes.append(f"Labels are not checked: {error}")
    pair = (average_maps(train), average_maps(test)) if protocol.probe == "AttentiveProbe" else (train, test)
    near = find_near_duplicates(*pair, device=device)
    found = {"encoder": train.origin.encoder, "near_duplicates": near, "wrong_labels": wrong, "notes": tuple(notes)}
    return summarise_mistakes(each, is_tags=is_tags, **found)
