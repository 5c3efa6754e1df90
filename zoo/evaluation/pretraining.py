"""Whether a probe's images come from the encoder's pretraining distribution, as a decomposition assumes."""

from __future__ import annotations

import re

from ..metadata import NOT_APPLICABLE, NOT_PUBLISHED, EncoderCard

ASSUMPTION = (
    "The components mean what their names say only if the probe's images come from the encoder's pretraining "
    "distribution: the training images must be those that it was pretrained on, or at least drawn from the same "
    "distribution, and the test images must be new to it."
)
_PART = re.compile(r"\s*([0-9.]+)\s*%\s*(?:of\s+)?(.+)")


def pretraining_warning(card: EncoderCard, *, dataset: str) -> str:
    """Why a decomposition on a data set does not mean what it says, in a sentence; "" if the card gives no reason.

    Parameters
    ----------
    card : EncoderCard
        Of the encoder.
    dataset : str
        Name of the data set that the probe is trained and tested on.

    Notes
    -----
    Names are compared without case and punctuation: "ImageNet-1K" is "imagenet1k".
    """
    own, tuned = card.pretraining.dataset, card.pretraining.finetuning_dataset
    if card.is_untrained or own is NOT_APPLICABLE:
        return (
            f"{card.id} was not pretrained on images, so that there is no pretraining distribution: its encoder "
            "generalization only compares two draws of images."
        )
    if own is NOT_PUBLISHED or not isinstance(own, str):
        return (
            f"Nobody has published what {card.id} was pretrained on, so that it is unknown whether the images of "
            f"{dataset} come from its pretraining distribution, as the components assume."
        )
    if (part := _PART.fullmatch(own)) and _folded(part[2]) == _folded(dataset):
        return (
            f"{card.id} was pretrained on {part[1]} % of {part[2]}, so that the other training images of {dataset} are "
            "new to it: a part of its encoder generalization is counted as usability and probe generalization."
        )
    if _folded(own) != _folded(dataset):
        return (
            f"{card.id} was pretrained on {own}, not on {dataset}: what is called encoder generalization here compares "
            "training and test images that are both new to it, and the components are not those of its pretraining."
        )
    if isinstance(tuned, str) and _folded(tuned) != _folded(dataset):
        return (
            f"{card.id} was trained further on {tuned} after its pretraining on {own}, so that the images of {dataset} "
            "are not all that it has learnt from."
        )
    return ""


def _folded(name: str) -> str:
    return re.sub(r"[\W_]", "", name.casefold())
