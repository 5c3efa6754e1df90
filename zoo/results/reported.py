"""Numbers that somebody reported of an encoder: printed by its authors or by others, measured by none of our protocols.

Their rows are in ``results/reported.tsv``, every digit as it is printed; the accuracies that cards state enter as the same
kind. They have another file format and another vocabulary than measurements, whose readers ignore them, so that neither
is ever taken for the other. What is doubtful about a number stands beside it (``doubt``) and is shown with it.

Two reported numbers of one protocol need not be comparable: layers, image sizes, augmentations, sweeps and labels differ,
and mostly nobody says how. The study ``do_reported_numbers_agree`` says how far they can be trusted.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from ..cards.catalogue import RULES, catalogue, compiled, read_card_files
from ..cards.schema import EncoderCard, Missing
from ..errors import warn
from .values import IMAGENET, read_files

FILE = "reported.tsv"
PREFIX = "reported-"  # of every protocol, and of no protocol of a measurement
TOP_1 = "top1_accuracy"
FULL, ZERO_SHOT = "train -> val", "val"  # splits of ImageNet-1K


@dataclass(frozen=True, slots=True)
class ReportedProtocol:
    """How a number was come by, as far as pages tell."""

    name: str
    short: str  # beside a number in tables
    meaning: str

    @property
    def column(self) -> str:
        """Its name as a column of listings: ``reported_zero_shot``."""
        return self.name.replace("-", "_")


PROTOCOLS = {
    one.name: one
    for one in (
        ReportedProtocol("reported-linear", "linear", "a linear layer on frozen features, trained with all labels"),
        ReportedProtocol("reported-knn", "k-NN", "a vote of the nearest neighbours on frozen features"),
        ReportedProtocol(
            "reported-attentive", "attentive", "a layer that attends to the tokens, or patches, of frozen features"
        ),
        ReportedProtocol(
            "reported-zero-shot", "zero-shot", "names of classes through a text tower, or an adaptor to one; no labels"
        ),
        ReportedProtocol(
            "reported-own-head", "own head", "the network with the classifier that it was trained or fine-tuned with"
        ),
        ReportedProtocol(
            "reported-finetune", "fine-tuned", "a network that was fine-tuned from these weights, so one of other weights"
        ),
        ReportedProtocol(
            "reported-few-labels", "few labels", "with few labels: a probe or a fine-tuned network, which is not recorded"
        ),
        ReportedProtocol("reported-ridge", "ridge", "a ridge regression on frozen features"),
        ReportedProtocol(
            "reported-decoder", "decoder", "a decoder trained on frozen features: segmentation, depth, meshes, places"
        ),
        ReportedProtocol("reported-retrieval", "retrieval", "nearest neighbours of an image in a collection"),
        ReportedProtocol("reported-text-retrieval", "text retrieval", "images by text, or the reverse, through a text tower"),
        ReportedProtocol("reported-tracking", "tracking", "labels of patches carried from frame to frame by their features"),
        ReportedProtocol("reported-correspondence", "correspondence", "points of one image found in another by features"),
        ReportedProtocol("reported-language-model", "language model", "the frozen encoder as the eye of a language model"),
        ReportedProtocol("reported-several", "several", "the mean over tasks of several of these kinds"),
    )
}


@dataclass(frozen=True, slots=True)
class ReportedMetric:
    """What a reported number counts."""

    name: str
    units: tuple[str, ...]  # printed by some in percent and by others as a fraction
    higher_is_better: bool
    meaning: str


METRICS = {
    one.name: one
    for one in (
        ReportedMetric(TOP_1, ("percent",), True, "images whose class is the first guess"),
        ReportedMetric("balanced_accuracy", ("percent", "fraction"), True, "mean over classes of the share found"),
        ReportedMetric("mean_score", ("percent", "fraction"), True, "mean of the scores of several data sets or tasks"),
        ReportedMetric("score", ("percent",), True, "the score that a benchmark defines for a data set"),
        ReportedMetric("mean_iou", ("percent",), True, "mean over classes of intersection over union"),
        ReportedMetric("dice", ("fraction",), True, "overlap of predicted and true regions"),
        ReportedMetric("depth_rmse", ("depth units of the data set",), False, "root mean squared error of depth"),
        ReportedMetric("vertex_error", ("millimetres",), False, "mean distance of vertices after alignment (PA-PVE)"),
        ReportedMetric("area_under_curve", ("percent",), True, "area under a curve of precision"),
        ReportedMetric("recall_at_1", ("percent",), True, "queries whose first answer is right"),
        ReportedMetric("mean_average_precision", ("percent",), True, "mean over queries of the average precision"),
        ReportedMetric("region_and_contour", ("percent",), True, "mean of region overlap and contour accuracy (J and F)"),
        ReportedMetric("correspondence_recall", ("percent",), True, "points that are found close enough"),
        ReportedMetric("pearson_correlation", ("dimensionless",), True, "correlation of predictions with the truth"),
    )
}
STANDINGS = {
    "authors": "who trained the weights",
    "reproduction": "who trained the weights after a method of others",
    "third party": "who had no part in the weights",
    "second hand": "the authors, as a list or a page of others has it",
}
"""Who measured, seen from the weights; in the order in which they are trusted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedNumber:
    """One number as somebody printed it."""

    encoder: str  # id of a card
    metric: str  # one of METRICS
    dataset: str  # imagenet-1k, or another as the source calls it
    split: str  # of imagenet-1k as in measurements; "" where the source's own
    value: float  # in `unit`
    printed: str  # with every printed digit
    unit: str
    protocol: str  # one of PROTOCOLS
    source: str  # repository, site or list that prints it
    date: str  # when the source was read, a month or a day; "" of what a card states
    resolution: str  # side of the images in pixels, "native", or several; "" where the source does not say
    place: str  # within the source: file, commit, table
    setting: str  # what the protocol leaves open, as far as the source says it
    measured_by: str
    standing: str  # one of STANDINGS
    remark: str
    doubt: str  # why it should not be believed as it stands; "" if nothing is known

    @property
    def key(self) -> tuple[str, ...]:
        """What no two rows have in common."""
        return (
            self.encoder, self.metric, self.dataset, self.split, self.protocol, self.source, self.place, self.setting,
            self.resolution,
        )  # fmt: skip

    @property
    def is_of_imagenet(self) -> bool:
        """True for a top-1 accuracy on ImageNet-1K with all labels or, of zero-shot, with none."""
        split = ZERO_SHOT if self.protocol == "reported-zero-shot" else FULL
        return (self.metric, self.dataset, self.split) == (TOP_1, IMAGENET, split)


_FIELDS = tuple(field.name for field in fields(ReportedNumber))
_RULES = (*RULES, "results")
CARD = "card"  # source of the numbers that a card states


def reported_numbers(encoder: str | None = None) -> list[ReportedNumber]:
    """Every reported number, of all encoders or one: those of the cards, then those of the files, in their order.

    Parameters
    ----------
    encoder : str, optional
        Id of a card; the case does not matter.

    Raises
    ------
    ResultsError
        If the shipped file is unreadable or a row in it is wrong; what is wrong in yours is left out with a warning.
    UnknownName
        If there is no such encoder.

    Examples
    --------
    >>> [number] = [one for one in reported_numbers("dino_vitS16") if one.protocol == "reported-linear"]
    >>> number.printed, number.unit, number.standing
    ('77.0', 'percent', 'authors')
    """
    texts = _stored("numbers")
    wanted = texts if encoder is None else [catalogue().id_of(encoder)]
    rows = [row for name in wanted for row in json.loads(texts.get(name, "[]"))]
    return [ReportedNumber(**dict(zip(_FIELDS, row, strict=True))) for row in rows]


@dataclass(frozen=True, slots=True)
class Preferred:
    """Of the ImageNet-1K accuracies reported by one protocol the one that listings show."""

    value: float
    printed: str
    is_doubtful: bool
    is_of_authors: bool
    n: int  # how many there are


def preferred_numbers() -> dict[str, dict[str, Preferred]]:
    """By encoder and protocol the top-1 accuracy on ImageNet-1K that listings show.

    Of several the one without doubts, by whoever trained the weights, at the card's input size; of those left the lowest.
    """
    stored = _stored("preferred")
    return {
        encoder: {name: Preferred(*values) for name, values in by_protocol.items()}
        for encoder, by_protocol in stored.items()
    }


def choose(numbers: Iterable[ReportedNumber], card: EncoderCard) -> dict[str, ReportedNumber]:
    """By protocol the one of an encoder's ImageNet-1K accuracies that :func:`preferred_numbers` has."""
    standings = list(STANDINGS)
    crop = str(card.preprocess.crop_px)

    def key(one: ReportedNumber) -> tuple[bool, int, bool, float]:
        by_weights = one.standing in ("authors", "reproduction")
        rank = 0 if by_weights else standings.index(one.standing)
        return bool(one.doubt), rank, one.resolution != crop, one.value

    found: dict[str, ReportedNumber] = {}
    for one in sorted((one for one in numbers if one.is_of_imagenet), key=key):
        found.setdefault(one.protocol, one)
    return found


def _stored(part: str) -> dict[str, Any]:
    """A part of what is made of the files, each in a copy of its own: a listing reads the smaller one only."""

    def make() -> list[Any]:
        parts, left_out = _made()
        return [parts[part], left_out]

    stored, left_out = compiled(f"reported_{part}", _sources(), _RULES, make)
    warn(left_out)
    return dict(stored)


def _sources() -> dict[Path, bytes]:
    return read_card_files() | read_files(FILE)


def _made() -> tuple[dict[str, Any], list[str]]:
    from .reported_rows import checked_numbers  # which listings do without while nothing has changed

    cards, left_out = catalogue(), list[str]()
    by_encoder: dict[str, list[ReportedNumber]] = {}
    for number in (*_of_cards(cards.values()), *checked_numbers(cards, left_out)):
        by_encoder.setdefault(number.encoder, []).append(number)
    preferred: dict[str, dict[str, list[Any]]] = {}
    for encoder, numbers in by_encoder.items():
        for protocol, one in choose(numbers, cards[encoder]).items():
            n = sum(other.is_of_imagenet and other.protocol == protocol for other in numbers)
            by_authors = one.standing in ("authors", "reproduction")
            preferred.setdefault(encoder, {})[protocol] = [one.value, one.printed, bool(one.doubt), by_authors, n]
    texts = {  # one text an encoder, so that those that are not asked for are not parsed
        encoder: json.dumps([[getattr(one, name) for name in _FIELDS] for one in numbers])
        for encoder, numbers in by_encoder.items()
    }
    return {"numbers": texts, "preferred": preferred}, left_out


_OF_CARDS = {  # fact -> split, and protocol but for supervised encoders
    "top1_percent": (FULL, "reported-linear"),
    "top1_percent_with_1_percent_labels": ("train 1% -> val", "reported-few-labels"),
    "top1_percent_with_5_shot": ("train 5-shot -> val", "reported-few-labels"),
}


def _of_cards(cards: Iterable[EncoderCard]) -> Iterable[ReportedNumber]:
    """The accuracies that cards state, of a linear probe, or of the network itself where it is supervised."""
    for card in cards:
        for name, (split, protocol) in _OF_CARDS.items():
            value = getattr(card.reported, name)
            if isinstance(value, Missing):
                continue
            own_head = split == FULL and card.objective.mode == "supervised"
            errata = [erratum for erratum in card.errata if erratum.field == f"reported.{name}"]
            yield ReportedNumber(
                encoder=card.id,
                metric=TOP_1,
                dataset=IMAGENET,
                split=split,
                value=float(value),
                printed=str(value),
                unit="percent",
                protocol="reported-own-head" if own_head else protocol,
                source=CARD,
                date="",
                resolution="",
                place=f"reported.{name}",
                setting="",
                measured_by="authors" if card.provenance.official is not False else "who offers the weights",
                standing="authors" if card.provenance.official is not False else "reproduction",
                remark=" ".join(f"Listed as {erratum.published}: {erratum.reason}" for erratum in errata),
                doubt="",
            )
