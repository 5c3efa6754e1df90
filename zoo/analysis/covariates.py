"""What encoders have in common, and the scale of labels, of the model in ``scripts/error_model.py``.

Pure Python, for ``zoo recommend`` reads what that estimated without NumPy.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from ..cards.gated_access import OF_NATURAL_IMAGES, list_image_kinds
from ..cards.schema import EncoderCard, Missing, list_supervision

WRONG_LABELS = {"imagenet-1k": 0.0583}
"""Share of test labels that are wrong, below which no error is expected; others are taken as right.

C. Northcutt, A. Athalye and J. Mueller 2021, Pervasive Label Errors in Test Sets (arXiv:2103.14749): 2,916 of 50,000.
"""
ALL_LABELS = 1_281.167
"""Labels per class of ImageNet-1K's training set, at which effects of labels are 0."""

GROUPS = ("weights", "family", "data", "images", "objective", "supervision", "architecture")
SLOPES = ("size", "px", "date")
TRAITS = (*GROUPS, *SLOPES)
"""Within a group an effect is shared, along a slope it is proportional."""


def compute_label_place(labels_per_class: float) -> float:
    """Labels per class on the scale of effects: 0 with all of ImageNet's, 1 with a hundredth of them.

    >>> compute_label_place(1_281.167), round(compute_label_place(12.81167), 6)
    (0.0, 1.0)
    """
    return math.log10(ALL_LABELS / labels_per_class) / 2


def find_covariates(card: EncoderCard) -> dict[str, str | float]:
    """The traits of an encoder, as :func:`list_covariates` has them."""
    return list_covariates([card])[0]


def list_covariates(cards: Iterable[EncoderCard]) -> list[dict[str, str | float]]:
    """The traits of encoders; what is not known of one is shared within its family.

    All that learned with texts have one objective, CLIP's two modes among them. Networks that saw ImageNet's labels
    share no group with frozen ones: a number of a fine-tuned network says nothing of the network before.
    """
    several = list(cards)
    known = zip(several, list_supervision(several), list_image_kinds(several), strict=True)
    return [_describe(card, *saw, domain=domain) for card, saw, domain in known]


def _describe(card: EncoderCard, saw_texts: bool, saw_labels: bool, *, domain: str) -> dict[str, str | float]:
    def known(value: object) -> str:
        return f"{card.family if isinstance(value, Missing) else value}{labelled}"

    labelled = ", with labels" if saw_labels else ""
    has_labels = saw_labels or card.objective.mode in ("supervised", "weakly_supervised")
    supervision = "texts" if saw_texts else "labels" if has_labels else "none"
    year, _, month = str(card.released).partition("-")
    months = int(month[:2]) - 1 if month else 6
    date = (int(year) + months / 12 - 2022) / 3 if year.isdigit() else 0.0
    return {
        "encoder": card.id,
        "weights": card.id if isinstance(card.weights.url, Missing) else card.weights.url,
        "family": f"{card.family}{labelled}",
        "data": known(card.pretraining.dataset),
        "images": "natural" if domain in OF_NATURAL_IMAGES else domain,
        "objective": f"texts{labelled}" if saw_texts else known(card.objective.mode),
        "supervision": supervision,
        "architecture": card.architecture.family,
        "size": math.log10(card.architecture.n_parameters / 1e8),
        "px": math.log2(card.preprocess.crop_px / 224),
        "date": date,
    }
