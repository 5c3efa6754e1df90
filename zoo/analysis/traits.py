"""What encoders have in common: the traits whose effects on errors :mod:`zoo.analysis.expected_error` estimates."""

from __future__ import annotations

import math

from ..cards.gates import domain_of
from ..cards.schema import EncoderCard, Missing

WRONG_LABELS = {"imagenet-1k": 0.0583}
"""Share of test labels that are wrong, below which no error is expected; others are taken as right.

C. Northcutt, A. Athalye and J. Mueller 2021, Pervasive Label Errors in Test Sets (arXiv:2103.14749), Table 2.
"""

GROUPS = ("weights", "family", "data", "images", "objective", "supervision", "architecture")
SLOPES = ("size", "px", "date")
TRAITS = (*GROUPS, *SLOPES)
"""Within a group an effect is shared, along a slope it is proportional."""


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
        "images": domain_of(card),
        "objective": known(mode),
        "supervision": supervision,
        "architecture": card.architecture.family,
        "size": math.log10(card.architecture.n_parameters / 1e8),
        "px": math.log2(card.preprocess.crop_px / 224),
        "date": date,
    }
