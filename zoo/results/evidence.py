"""Data sets on which others measured encoders, with their domains, and the numbers of one data set.

``results/evidence/`` has a file an origin (MTEB, OpenCLIP, eva, torchgeo-bench, ...), whose rows are reported numbers
of :mod:`zoo.results.reported`; ``datasets.tsv`` there says what each data set is, ``encoders.tsv`` which model of an
origin is which card, or why it was left out.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from typing import Any

from ..cards.schema import EncoderCard
from ..errors import UnknownName
from ..files import get_content_folder
from .reported import reported_numbers
from .reported_values import CARD, COLUMNS, EVIDENCE, FULL, METRICS, PROTOCOLS, TOP_1, ReportedNumber
from .values import IMAGENET, STUDY, Summary


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
def list_datasets() -> dict[str, Dataset]:
    """Every data set by id, in the order of the table."""
    found = {}
    lines = (get_content_folder("results") / EVIDENCE / "datasets.tsv").read_text(encoding="utf-8").splitlines()
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


def find_dataset(name: str) -> Dataset:
    """The data set with this id, title or name of an origin, in any case and spelling of separators.

    UnknownName, with the nearest, if nobody measured on it.

    >>> find_dataset("EuroSAT").domain, find_dataset("vtab/cifar100").id
    ('satellite', 'cifar-100')
    """
    known: dict[str, Dataset] = {}
    for one in list_datasets().values():
        for spelling in (one.id, one.title, *(other.partition(":")[2] for other in one.names)):
            known.setdefault(_folded(spelling), one)
    if _folded(name) not in known:
        raise UnknownName("data set that others measured", name, list_datasets())
    return known[_folded(name)]


def find_domain(name: str, among: Iterable[str] = ()) -> str:
    """A domain of the data sets, or of ``among`` if there are any, in any case; UnknownName lists them."""
    domains = list(among) or list(dict.fromkeys(one.domain for one in list_datasets().values()))
    if name.casefold() not in domains:
        raise UnknownName("domain", name, domains, hint=f"There are {', '.join(domains)}.")
    return name.casefold()


def _folded(text: str) -> str:
    return "".join(letter for letter in text.casefold() if letter.isalnum())


@cache
def read_evidence_origins() -> dict[str, dict[str, Any]]:
    """Who measured, by name of the file: title, source, place, date, measured_by, licence, and words for settings."""
    return tomllib.loads((get_content_folder("results") / EVIDENCE / "origins.toml").read_text(encoding="utf-8"))


def find_dataset_id(name: str) -> str | None:
    """Id of the data set that a measurement or a reported number calls so; None if others measured nothing on it."""
    return _ids().get(_folded(name))


def list_datasets_called(name: str) -> list[str]:
    """Ids of the data sets that others measured on and that are called so, or else whose names begin so."""
    exact, folded = find_dataset_id(name), _folded(name)
    begins = dict.fromkeys(one for spelling, one in _ids().items() if folded and spelling.startswith(folded))
    return [exact] if exact else list(begins)


def find_numbers_on(dataset: str, numbers: Iterable[ReportedNumber] | None = None) -> list[ReportedNumber]:
    """What was reported on a data set, by protocol and the best first; also under the names that authors use.

    ``numbers`` are all reported ones unless given.
    """
    wanted = find_dataset(dataset).id
    found = [
        one for one in (reported_numbers() if numbers is None else numbers) if find_dataset_id(one.dataset) == wanted
    ]
    return sorted(found, key=lambda one: (one.protocol, one.setting, one.metric, _badness(one), one.encoder))


def _badness(one: ReportedNumber) -> float:
    return -one.value if METRICS[one.metric].higher_is_better else one.value


@cache
def _ids() -> Mapping[str, str]:
    return {IMAGENET: IMAGENET} | {
        _folded(spelling): one.id for one in list_datasets().values() for spelling in (one.id, one.title)
    }


def find_origin(one: ReportedNumber) -> str:
    """The file of ``results/evidence`` that has this number; "" of what authors and lists print."""
    printed = (one.source, one.place)
    return next(
        (name for name, origin in read_evidence_origins().items() if (origin["source"], origin["place"]) == printed), ""
    )


def get_origin_title(origin: str) -> str:
    """What an origin is called, in short: MTEB."""
    return str(read_evidence_origins()[origin]["title"]).partition(",")[0]


def describe_origin_setting(one: ReportedNumber) -> str:
    """The setting of a number of an origin in words: "16 labels per class"; "" where the origin has no other."""
    words: dict[str, str] = read_evidence_origins()[find_origin(one)]["settings"]
    name, _, rest = one.setting.partition(", ")
    return ", ".join(filter(None, (words.get(f"{name} {one.dataset}", words.get(name, name)), rest)))


_PROTOCOLS = [f"reported-{name}" for name in (
    "few-shot", "linear", "attentive", "knn", "decoder", "correspondence", "clustering", "retrieval", "zero-shot",
    "text-retrieval")]  # fmt: skip


def rank_preference(one: ReportedNumber) -> tuple[Any, ...]:
    """Sorts numbers of origins: what is shown where there is room for one comes first.

    Without doubts, by few labels, all, neighbours, then texts, accuracy, the card's own features; of these the lowest.
    """
    return bool(one.doubt), _PROTOCOLS.index(one.protocol), one.metric != TOP_1, bool(one.features), one.value


def select_preferred_numbers(dataset: str) -> dict[str, ReportedNumber]:
    """By encoder the number of an origin on a data set that columns show."""
    found: dict[str, ReportedNumber] = {}
    for one in sorted(filter(find_origin, find_numbers_on(dataset)), key=rank_preference):
        found.setdefault(one.encoder, one)
    return found


def group_numbers(numbers: Iterable[ReportedNumber]) -> dict[tuple[str, str, str], list[ReportedNumber]]:
    """Numbers of origins on one data set, by origin, protocol and metric, each with the best first."""
    found: dict[tuple[str, str, str], list[ReportedNumber]] = {}
    for one in sorted(numbers, key=lambda one: (_PROTOCOLS.index(one.protocol), one.metric != TOP_1)):
        found.setdefault((find_origin(one), one.protocol, one.metric), []).append(one)
    return {key: sorted(some, key=_badness) for key, some in found.items()}


FAR_APART, WORTH_TELLING = 3.0, 1.5
"""Points from which two numbers contradict each other, and from which they do where a reason is known."""


def build_measured_numbers(card: EncoderCard, summary: Summary | None) -> list[ReportedNumber]:
    """What the study measured on ImageNet-1K with all labels, to be held against what others report."""
    if summary is None or "100%" not in summary.errors:
        return []
    accuracy, px = 100 - summary.errors["100%"], str(card.preprocess.crop_px)
    row: dict[str, Any] = dict.fromkeys(COLUMNS, "") | {"encoder": card.id, "resolution": px, "source": STUDY}
    row |= {"metric": TOP_1, "dataset": IMAGENET, "split": FULL, "unit": "percent", "protocol": "reported-linear"}
    return [ReportedNumber(**row | {"value": accuracy, "printed": f"{accuracy:.1f}"})]


def find_contradictions(numbers: Iterable[ReportedNumber]) -> list[tuple[ReportedNumber, ReportedNumber]]:
    """Pairs of numbers that should be equal and are not, the worst first.

    They are of two origins, or of one that pooled otherwise; :data:`FAR_APART`, or :data:`WORTH_TELLING` where what the
    data say of them differs.
    """
    same: dict[tuple[str, ...], list[ReportedNumber]] = {}
    for one in numbers:
        if not one.doubt and one.unit == "percent":
            split = one.split or one.setting * (one.protocol == "reported-few-shot")  # which says how many labels
            key = (one.encoder, find_dataset_id(one.dataset) or one.dataset, one.metric, one.protocol, split)
            same.setdefault(key, []).append(one)
    found = [
        (one, other)
        for several in same.values()
        for one, other in combinations(several, 2)
        if (one.source, one.features) != (other.source, other.features)
        and abs(one.value - other.value) >= (WORTH_TELLING if any(_differences([one, other])) else FAR_APART)
    ]
    return sorted(found, key=lambda pair: -abs(pair[0].value - pair[1].value))


def _differences(numbers: Sequence[ReportedNumber]) -> list[str]:
    """What the data say of each number that is not so of all: size of images, features, setting, remark."""
    said = [
        (
            one.resolution and f"{one.resolution} px",
            one.features,
            describe_origin_setting(one) if find_origin(one) else one.setting,
            "" if one.source == CARD else one.remark.removesuffix("."),  # a card's tells of a list
        )
        for one in numbers
    ]
    sizes, *others = [{*texts} for texts in zip(*said, strict=True)]
    differs = [len(sizes - {""}) > 1, *(len(texts) > 1 for texts in others)]  # a size that is not stated is no other
    return [", ".join(text for text, is_told in zip(texts, differs, strict=True) if text and is_told) for texts in said]


def describe_disagreements(numbers: Iterable[ReportedNumber]) -> dict[str, str]:
    """What contradicts something of an encoder, with who has it and why it may differ, by what was measured.

    As in {"linear, imagenet-1k": "79.9 (measured by the study), 77.9 (Efficient probing: ...)"}.
    """
    found: dict[str, dict[ReportedNumber, None]] = {}
    for pair in find_contradictions(numbers):
        dataset, protocol = find_dataset_id(pair[0].dataset) or pair[0].dataset, PROTOCOLS[pair[0].protocol].short
        found.setdefault(f"{protocol}, {dataset}", {}).update(dict.fromkeys(pair))
    told = {}
    for about, some in found.items():
        best = sorted(some, key=_badness)
        by = [get_origin_title(name) if (name := find_origin(one)) else one.source for one in best]
        whys = [f": {why}" if why else "" for why in _differences(best)]
        words = [f"{one.value:.1f} ({who}{why})" for one, who, why in zip(best, by, whys, strict=True)]
        told[about] = ", ".join(dict.fromkeys(words))
    return told
