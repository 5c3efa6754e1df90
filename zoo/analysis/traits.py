"""What encoders have in common, and the scale of labels, of the model in :mod:`zoo.analysis.expected_error`.

Pure Python, for ``zoo recommend`` reads what that estimated without NumPy.
"""

from __future__ import annotations

import math

from ..cards.gates import OF_NATURAL_IMAGES, domain_of
from ..cards.schema import EncoderCard, Missing

WRONG_LABELS = {"imagenet-1k": 0.0583}
"""Share of test labels that are wrong, below which no error is expected; others are taken as right.

C. Northcutt, A. Athalye and J. Mueller 2021, Pervasive Label Errors in Test Sets (arXiv:2103.14749): 2,916 of 50,000.
"""
REFERENCE_LABELS = 30
"""A class, at which effects of labels are 0."""

GROUPS = ("weights", "family", "data", "images", "objective", "supervision", "architecture")
SLOPES = ("size", "px", "date")
TRAITS = (*GROUPS, *SLOPES)
"""Within a group an effect is shared, along a slope it is proportional."""


def place_of_labels(labels_a_class: float) -> float:
    """Labels a class on the scale of effects: 0 at 30, 1 at 3,000.

    >>> place_of_labels(30), round(place_of_labels(3_000), 6)
    (0.0, 1.0)
    """
    return math.log10(labels_a_class / REFERENCE_LABELS) / 2


def traits_of(card: EncoderCard) -> dict[str, str | float]:
    """The traits of an encoder; what is not known is shared with no other."""

    def known(value: object) -> str:
        return card.id if isinstance(value, Missing) else str(value)

    mode = card.objective.mode
    if card.saw_texts:
        supervision = "texts"
    elif mode in ("supervised", "weakly_supervised") or card.saw_labels:
        supervision = "labels"
    else:
        supervision = "none"
    year, _, month = str(card.released).partition("-")
    months = int(month[:2]) - 1 if month else 6
    date = (int(year) + months / 12 - 2022) / 3 if year.isdigit() else 0.0
    return {
        "encoder": card.id,
        "weights": known(card.weights.url),
        "family": card.family,
        "data": known(card.pretraining.dataset),
        "images": "natural" if domain_of(card) in OF_NATURAL_IMAGES else domain_of(card),
        "objective": known(mode),
        "supervision": supervision,
        "architecture": card.architecture.family,
        "size": math.log10(card.architecture.n_parameters / 1e8),
        "px": math.log2(card.preprocess.crop_px / 224),
        "date": date,
    }
