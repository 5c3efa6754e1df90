"""What others measured of frozen encoders by one kind of probe on one data set, and how little that is.

A board orders encoders by such numbers, as ``zoo recommend --probe attentive`` and ``--task segment`` do. The numbers
are of several people, whose recipes differ; :func:`describe_board` says whose they are, by how much recipes differ
where two of them measured the same encoder, and what was measured here by the same kind of probe.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from ..analysis.reported_agreement import pair_sources, select_reported_numbers
from ..errors import format_count
from ..results.evidence import find_dataset, find_numbers_on
from ..results.reported import reported_numbers
from ..results.reported_values import METRICS, PROTOCOLS, TOP_1, ReportedNumber
from ..results.rows import measurements
from ..results.values import IMAGENET

_N_NAMED = 3  # who measured


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedBoard:
    """Numbers of one protocol and metric on one data set."""

    protocol: str  # of zoo.results.reported_values.PROTOCOLS
    dataset: str = IMAGENET
    metric: str = TOP_1
    measured_by: str = ""  # how the name of the protocol begins by which the same is measured here

    @property
    def title(self) -> str:
        """What the numbers are, as the title of a table."""
        if self.dataset == IMAGENET:
            return f"Top-1 accuracy on ImageNet-1K as reported ({self.protocol}), percent"
        metric = self.metric.replace("_", " ").capitalize().replace("iou", "IoU")
        return f"{metric} on {find_dataset(self.dataset).title} as reported ({self.protocol}), percent"

    def select(self) -> dict[str, ReportedNumber]:
        """The number of each encoder, by its id."""
        if self.dataset == IMAGENET:
            return select_reported_numbers(reported_numbers(), self.protocol)
        of_board = [
            one
            for one in find_numbers_on(self.dataset)  # the best first
            if (one.protocol, one.metric) == (self.protocol, self.metric) and not one.doubt
        ]
        return {one.encoder: one for one in reversed(of_board)}


ATTENTIVE = ReportedBoard(protocol="reported-attentive", measured_by="zoo-attentive")
SEGMENTATION = ReportedBoard(
    protocol="reported-decoder",
    dataset="voc-2012-segmentation",
    metric="mean_iou",
    measured_by="zoo-segment",
)


def describe_board(board: ReportedBoard, numbers: Iterable[ReportedNumber]) -> list[str]:
    """Sentences on whose numbers these are, how far recipes are apart, and what was measured here."""
    some = list(numbers)
    told = [_describe_sources(some), f"{board.protocol}: {PROTOCOLS[board.protocol].meaning}"]
    gaps = [abs(one.difference) for one in pair_sources(board.protocol)] if board.dataset == IMAGENET else []
    if gaps:
        told.append(
            f"recipes differ: of {format_count(len(gaps), 'encoder')} that two of them measured, the numbers are "
            f"{min(gaps):.1f} to {max(gaps):.1f} points apart (median {median(gaps):.1f}); nearer ones have no order"
        )
    elif len({one.source for one in some}) == 1:
        told.append("one recipe, of one source alone: with another one the order may be another")
    if all((one.repeats or 1) == 1 and one.sd is None and one.low is None for one in some):
        told.append(f"each is of one run, without an interval; the metric: {METRICS[board.metric].meaning}")
    return [*told, _describe_measured(board)]


def _describe_sources(numbers: Sequence[ReportedNumber]) -> str:
    of_weights = "authors of the weights"
    people = Counter(of_weights if one.measured_by == "authors" else one.measured_by or one.source for one in numbers)
    named = [f"{n} by {name}" for name, n in people.most_common(_N_NAMED)]
    others = len(numbers) - sum(n for _, n in people.most_common(_N_NAMED))
    named += [f"{others} by others"] * bool(others)
    return (
        f"{format_count(len(numbers), 'encoder')} with such a number, none measured by this project: {', '.join(named)}"
    )


def _describe_measured(board: ReportedBoard) -> str:
    found = [one for one in measurements() if one.protocol.startswith(board.measured_by)]
    if not found:
        return f"by {board.measured_by} this project measured nothing yet"
    encoders, datasets = {one.encoder for one in found}, dict.fromkeys(one.dataset for one in found)
    return (
        f"measured by this project with {board.measured_by}: {format_count(len(encoders), 'encoder')} on "
        f"{', '.join(datasets)}, small images that say little of yours and have no part in the ranks"
    )
