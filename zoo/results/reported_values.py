"""Words and values of reported numbers: protocols, metrics, who measured, and one number as somebody printed it.

:mod:`zoo.results.reported` says what they are, and has them all.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..cards.schema import EncoderCard
from .values import IMAGENET

FILE = "reported.tsv"
EVIDENCE = "evidence"  # folder of what others than the authors measured, a file an origin
CARD = "card"  # source of the numbers that a card states
COLUMNS = (
    "encoder", "metric", "dataset", "split", "value", "unit", "protocol", "source", "date", "resolution", "place",
    "setting", "measured_by", "standing", "remark", "doubt",
)  # fmt: skip
EVIDENCE_COLUMNS = (
    "encoder", "metric", "dataset", "split", "value", "unit", "protocol", "resolution", "setting", "standing",
    "repeats", "sd", "low", "high", "features", "remark", "doubt",
)  # fmt: skip
"""Of the files of ``results/evidence``; what all rows of a file share is in ``origins.toml`` next to them."""
PREFIX = "reported-"  # of every protocol, and of no protocol of a measurement
TOP_1 = "top1_accuracy"
FULL, ZERO_SHOT = "train -> val", "val"  # splits of ImageNet-1K


@dataclass(frozen=True, slots=True)
class ReportedProtocol:
    """How a number was come by, as far as pages tell."""

    name: str
    short: str  # next to a number in tables
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
            "reported-finetune",
            "fine-tuned",
            "a network that was fine-tuned from these weights: one of other weights",
        ),
        ReportedProtocol(
            "reported-few-labels",
            "few labels",
            "with few labels, by a probe or a fine-tuned network: not recorded which",
        ),
        ReportedProtocol(
            "reported-few-shot", "few-shot", "a linear layer on frozen features, trained with a few labels per class"
        ),
        ReportedProtocol("reported-clustering", "clustering", "k-means of frozen features, compared with the classes"),
        ReportedProtocol("reported-ridge", "ridge", "a ridge regression on frozen features"),
        ReportedProtocol(
            "reported-decoder", "decoder", "a decoder trained on frozen features: segmentation, depth, meshes, places"
        ),
        ReportedProtocol("reported-retrieval", "retrieval", "nearest neighbours of an image in a collection"),
        ReportedProtocol(
            "reported-text-retrieval", "text retrieval", "images by text, or the reverse, with a text tower"
        ),
        ReportedProtocol("reported-tracking", "tracking", "labels of patches, carried from frame to frame by features"),
        ReportedProtocol(
            "reported-correspondence", "correspondence", "points of one image, found in another by features"
        ),
        ReportedProtocol("reported-language-model", "language model", "the frozen encoder as the eye of one"),
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
        ReportedMetric("mean_class_recall", ("percent",), True, "mean over classes of the share found, for zero-shot"),
        ReportedMetric("mean_score", ("percent", "fraction"), True, "mean of the scores of several data sets or tasks"),
        ReportedMetric("score", ("percent",), True, "the score that a benchmark defines for a data set"),
        ReportedMetric("mean_iou", ("percent",), True, "mean over classes of intersection over union"),
        ReportedMetric("dice", ("percent", "fraction"), True, "overlap of predicted and true regions"),
        ReportedMetric("depth_rmse", ("depth units of the data set",), False, "root mean squared error of depth"),
        ReportedMetric("vertex_error", ("millimetres",), False, "mean distance of vertices after alignment (PA-PVE)"),
        ReportedMetric("area_under_curve", ("percent",), True, "area under a curve of precision"),
        ReportedMetric("recall_at_1", ("percent",), True, "queries whose first answer is right"),
        ReportedMetric(
            "mean_average_precision", ("percent",), True, "mean over queries or labels of the average precision"
        ),
        ReportedMetric("region_and_contour", ("percent",), True, "mean of region and contour accuracy (J and F)"),
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
    repeats: int | None = None  # draws of labels or trainings, of which the value is the mean
    sd: float | None = None  # over the repeats, in `unit`
    low: float | None = None  # ends of the interval that the source states, in `unit`
    high: float | None = None
    features: str = ""  # pooled otherwise than the card's features, and how

    @property
    def key(self) -> tuple[str, ...]:
        """What no two rows have in common."""
        return (
            self.encoder, self.metric, self.dataset, self.split, self.protocol, self.source, self.place, self.setting,
            self.resolution, self.features,
        )  # fmt: skip

    @property
    def is_of_imagenet(self) -> bool:
        """True for a top-1 accuracy on ImageNet-1K with all labels or, of zero-shot, with none."""
        split = ZERO_SHOT if self.protocol == "reported-zero-shot" else FULL
        return (self.metric, self.dataset, self.split) == (TOP_1, IMAGENET, split)


def choose(numbers: Iterable[ReportedNumber], card: EncoderCard) -> dict[str, ReportedNumber]:
    """By protocol the one of an encoder's ImageNet-1K accuracies that ``preferred_numbers`` has."""
    standings = list(STANDINGS)
    crop = str(card.preprocess.crop_px)

    def key(one: ReportedNumber) -> tuple[bool, int, bool, bool, float]:
        by_weights = one.standing in ("authors", "reproduction")
        rank = 0 if by_weights else standings.index(one.standing)
        return bool(one.doubt), rank, bool(one.features), one.resolution != crop, one.value

    found: dict[str, ReportedNumber] = {}
    for one in sorted((one for one in numbers if one.is_of_imagenet), key=key):
        found.setdefault(one.protocol, one)
    return found
