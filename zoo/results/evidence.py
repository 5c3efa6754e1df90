"""Data sets on which others measured encoders, with their domains, and the numbers of one data set.

``results/evidence/`` has a file an origin (MTEB, OpenCLIP, eva, torchgeo-bench, ...), whose rows are reported numbers
of :mod:`zoo.results.reported`; ``datasets.tsv`` there says what each data set is, ``encoders.tsv`` which model of an
origin is which card, or why it was left out.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from typing import Any

from ..cards.schema import EncoderCard
from ..errors import UnknownName
from ..files import content_folder
from .reported import reported_numbers
from .reported_values import CARD, COLUMNS, EVIDENCE, FULL, METRICS, PROTOCOLS, TOP_1, ReportedNumber
from .values import IMAGENET, Summary


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """A data set or task of ``results/evidence/datasets.tsv``."""

    id: str
    title: str
    domain: str  # kind of images: natural, fine-grained, texture, digits, satellite, pathology, ...
    n_classes: int | None  # None of tasks without classes
    n_images: int | None  # of the evaluated split; None if not recorded
    metric: str  # by origin where they differ
    in_pretraining: tuple[str, ...]  # pretraining sets of cards that contain its training images
    names: tuple[str, ...]  # what origins call it, as "ORIGIN:NAME"


@cache
def datasets() -> dict[str, Dataset]:
    """Every data set by id, in the order of the table."""
    found = {}
    lines = (content_folder("results") / EVIDENCE / "datasets.tsv").read_text(encoding="utf-8").splitlines()
    for line in lines[1:]:
        name, title, domain, n_classes, n_images, metric, in_pretraining, names = line.split("\t")
        found[name] = Dataset(
            id=name,
            title=title,
            domain=domain,
            n_classes=int(n_classes) if n_classes else None,
            n_images=int(n_images) if n_images else None,
            metric=metric,
            in_pretraining=tuple(filter(None, in_pretraining.split("; "))),
            names=tuple(filter(None, names.split("; "))),
        )
    return found


def dataset_named(name: str) -> Dataset:
    """The data set with this id, title or name of an origin, in any case and spelling of separators.

    Raises
    ------
    UnknownName
        If nobody measured on it, with the nearest.

    Examples
    --------
    >>> dataset_named("EuroSAT").domain, dataset_named("vtab/cifar100").id
    ('satellite', 'cifar-100')
    """
    known: dict[str, Dataset] = {}
    for one in datasets().values():
        for spelling in (one.id, one.title, *(other.partition(":")[2] for other in one.names)):
            known.setdefault(_folded(spelling), one)
    if _folded(name) not in known:
        raise UnknownName("data set that others measured", name, datasets())
    return known[_folded(name)]


def domain_named(name: str) -> str:
    """A domain of the data sets, in any case; UnknownName lists them."""
    domains = list(dict.fromkeys(one.domain for one in datasets().values()))
    if name.casefold() not in domains:
        raise UnknownName("domain", name, domains, hint=f"There are {', '.join(domains)}.")
    return name.casefold()


def _folded(text: str) -> str:
    return "".join(letter for letter in text.casefold() if letter.isalnum())


@cache
def origins() -> dict[str, dict[str, Any]]:
    """Who measured, by name of the file: title, source, place, date, measured_by, licence, and words for settings."""
    return tomllib.loads((content_folder("results") / EVIDENCE / "origins.toml").read_text(encoding="utf-8"))


def dataset_id(name: str) -> str | None:
    """Id of the data set that a measurement or a reported number calls so; None if others measured nothing on it."""
    return _ids().get(_folded(name))


def numbers_on(dataset: str, numbers: Iterable[ReportedNumber] | None = None) -> list[ReportedNumber]:
    """What was reported on a data set, by protocol and the best first; also under the names that authors use.

    ``numbers`` are all reported ones unless given.
    """
    wanted = dataset_named(dataset).id
    found = [one for one in (reported_numbers() if numbers is None else numbers) if dataset_id(one.dataset) == wanted]
    return sorted(found, key=lambda one: (one.protocol, one.setting, one.metric, _badness(one), one.encoder))


def _badness(one: ReportedNumber) -> float:
    return -one.value if METRICS[one.metric].higher_is_better else one.value


@cache
def _ids() -> Mapping[str, str]:
    return {IMAGENET: IMAGENET} | {
        _folded(spelling): one.id for one in datasets().values() for spelling in (one.id, one.title)
    }


def origin_of(one: ReportedNumber) -> str:
    """The file of ``results/evidence`` that has this number; "" of what authors and lists print."""
    printed = (one.source, one.place)
    return next((name for name, origin in origins().items() if (origin["source"], origin["place"]) == printed), "")


def title_of(origin: str) -> str:
    """What an origin is called, in short: MTEB."""
    return str(origins()[origin]["title"]).partition(",")[0]


def setting_of(one: ReportedNumber) -> str:
    """The setting of a number of an origin in words: "16 labels a class"; "" where the origin has no other."""
    words: dict[str, str] = origins()[origin_of(one)]["settings"]
    name, _, rest = one.setting.partition(", ")
    return ", ".join(filter(None, (words.get(f"{name} {one.dataset}", words.get(name, name)), rest)))


_PROTOCOLS = (
    "reported-linear", "reported-few-shot", "reported-attentive", "reported-knn", "reported-decoder",
    "reported-clustering", "reported-retrieval", "reported-zero-shot", "reported-text-retrieval",
)  # fmt: skip


def preference(one: ReportedNumber) -> tuple[Any, ...]:
    """Sorts numbers of origins: what is shown where there is room for one comes first.

    Without doubts, by labels before neighbours before texts, accuracy, the card's own features; of these the lowest.
    """
    return bool(one.doubt), _PROTOCOLS.index(one.protocol), one.metric != TOP_1, bool(one.features), one.value


def preferred_on(dataset: str) -> dict[str, ReportedNumber]:
    """By encoder the number of an origin on a data set that columns show."""
    found: dict[str, ReportedNumber] = {}
    for one in sorted(filter(origin_of, numbers_on(dataset)), key=preference):
        found.setdefault(one.encoder, one)
    return found


def blocks(numbers: Iterable[ReportedNumber]) -> dict[tuple[str, str, str], list[ReportedNumber]]:
    """Numbers of origins on one data set, by origin, protocol and metric, each with the best first."""
    found: dict[tuple[str, str, str], list[ReportedNumber]] = {}
    for one in sorted(numbers, key=lambda one: (_PROTOCOLS.index(one.protocol), one.metric != TOP_1)):
        found.setdefault((origin_of(one), one.protocol, one.metric), []).append(one)
    return {key: sorted(some, key=_badness) for key, some in found.items()}


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Two numbers of one encoder, data set and kind of protocol that differ, by two origins or by other features."""

    first: ReportedNumber
    second: ReportedNumber

    @property
    def points(self) -> float:
        """The difference, percentage points."""
        return abs(self.first.value - self.second.value)

    @property
    def is_of_two(self) -> bool:
        """True of two origins, or of one that pooled the features in two ways."""
        return (self.first.source, self.first.features) != (self.second.source, self.second.features)

    @property
    def is_explained(self) -> bool:
        """Whether what the data say of the two differs."""
        return bool(_reasons(self.first, [self.second]) or _reasons(self.second, [self.first]))


FAR_APART, WORTH_TELLING = 3.0, 1.5
"""Points from which two numbers contradict each other, and from which they do where a reason is known."""
_OF_ALL_LABELS = ("reported-linear", "reported-knn", "reported-attentive", "reported-zero-shot")


def measured_numbers(card: EncoderCard, summary: Summary | None) -> list[ReportedNumber]:
    """What was measured here on ImageNet-1K with all labels, to be held against what others report."""
    if summary is None or "100%" not in summary.errors:
        return []
    accuracy, px = 100 - summary.errors["100%"], str(card.preprocess.crop_px)
    row: dict[str, Any] = dict.fromkeys(COLUMNS, "") | {"encoder": card.id, "resolution": px, "source": "measured here"}
    row |= {"metric": TOP_1, "dataset": IMAGENET, "split": FULL, "unit": "percent", "protocol": "reported-linear"}
    return [ReportedNumber(**row | {"value": accuracy, "printed": f"{accuracy:.1f}"})]


def _reasons(one: ReportedNumber, others: Iterable[ReportedNumber]) -> list[str]:
    """What the data say of a number in which it differs from others: size of images, features, setting, remark."""

    def said(one: ReportedNumber) -> list[str]:
        setting = setting_of(one) if origin_of(one) else one.setting
        remark = "" if one.source == CARD else one.remark.removesuffix(".")  # a card's tells of a list
        return [one.resolution and f"{one.resolution} px", one.features or "the card's features", setting, remark]

    by_kind = list(zip(*map(said, [one, *others]), strict=True))
    by_kind[0] = tuple(size or by_kind[0][0] for size in by_kind[0])  # a size that is not stated is no other
    return [own for own, *theirs in by_kind if own and any(text != own for text in theirs)]


def contradictions(numbers: Iterable[ReportedNumber]) -> list[Contradiction]:
    """Pairs of numbers that should be equal and are not, the worst first.

    They are of two origins, or of one that pooled otherwise; :data:`FAR_APART`, or :data:`WORTH_TELLING` where what the
    data say of them differs.
    """
    same: dict[tuple[str, ...], list[ReportedNumber]] = {}
    for one in numbers:
        if not one.doubt and one.unit == "percent":
            task = (one.encoder, dataset_id(one.dataset) or one.dataset, one.metric, one.protocol, one.split)
            same.setdefault((*task, "" if one.protocol in _OF_ALL_LABELS else one.setting), []).append(one)
    pairs = [Contradiction(*pair) for several in same.values() for pair in combinations(several, 2)]
    found = [pair for pair in pairs if pair.points >= (WORTH_TELLING if pair.is_explained else FAR_APART)]
    return sorted((pair for pair in found if pair.is_of_two), key=lambda pair: -pair.points)


def disagreements(numbers: Iterable[ReportedNumber]) -> dict[str, str]:
    """What contradicts something, the best first, with who has it and why it may differ, by what was measured.

    As in {"linear, imagenet-1k": "79.9 (measured here: the card's features), 77.9 (efficient-probing: ...)"}.
    """
    found: dict[str, dict[ReportedNumber, None]] = {}
    for pair in contradictions(numbers):
        dataset, protocol = dataset_id(pair.first.dataset) or pair.first.dataset, PROTOCOLS[pair.first.protocol].short
        found.setdefault(f"{protocol}, {dataset}", {}).update(dict.fromkeys((pair.first, pair.second)))

    def told(one: ReportedNumber, among: Iterable[ReportedNumber]) -> str:
        origin, why = origin_of(one), ", ".join(_reasons(one, among))
        by = title_of(origin) if origin else "its card" if one.source == CARD else one.source
        return f"{one.value:.1f} ({by}{f': {why}' if why else ''})"

    return {about: ", ".join(told(one, some) for one in sorted(some, key=_badness)) for about, some in found.items()}
