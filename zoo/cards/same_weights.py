"""What else gives features of the same weights, and what is different about them: ``metadata/same_weights.tsv``.

A row has encoders, a place of the same weights for each, and a sentence that is true of all. ``docs/same_weights.md``
says by how much, made of the same table by ``scripts/compare_weights.py``. Nothing here imports torch.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ..errors import ContentError
from ..files import get_content_folder
from .schema import EncoderCard

TABLE = "same_weights.tsv"
COLUMNS = ("encoders", "places", "says")


@dataclass(frozen=True, slots=True)
class SameWeights:
    """One place of an encoder's weights, whose features are not those of its card."""

    encoder: str
    place: str  # hf:ORG/NAME or timm:ARCH.TAG as the zoo loads them; "timm" as it does by itself
    says: str  # what that place does otherwise


def find_same_weights(card: EncoderCard) -> list[SameWeights]:
    """Rows of a card, or of the place that a card without an entry was made of."""
    encoder, place = card.id.partition("@")[0], str(card.weights.url).partition("@")[0]
    return [one for one in _table() if encoder == one.encoder or place.casefold() == one.place.casefold()]


def read_same_weights(path: Path) -> tuple[SameWeights, ...]:
    """Rows of such a table, an encoder each; ContentError if it is damaged."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            head, *rows = csv.reader(file, delimiter="\t")
        if tuple(head) != COLUMNS:
            raise ValueError(f"it has the columns {', '.join(head)}, expected {', '.join(COLUMNS)}")
        return tuple(
            SameWeights(encoder, place, says)
            for encoders, places, says in rows
            for encoder, place in zip(encoders.split(), places.split(), strict=True)
        )
    except (OSError, ValueError) as error:
        raise ContentError(f"The table {path} cannot be read ({error}); restore it.") from error


@cache
def _table() -> tuple[SameWeights, ...]:
    return read_same_weights(get_content_folder("metadata") / TABLE)
