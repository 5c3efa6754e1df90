"""Numbers that somebody reported of an encoder: printed by its authors or by others, measured by none of our protocols.

Their rows are in ``results/reported.tsv``, every digit as it is printed; the accuracies that cards state enter as the
same kind. They have another file format and another vocabulary than measurements, whose readers ignore them, so that
neither is ever taken for the other. What is doubtful about a number stands beside it (``doubt``) and is shown with it.

Two reported numbers of one protocol need not be comparable: layers, image sizes, augmentations, sweeps and labels
differ, and mostly nobody says how. The study ``do_reported_numbers_agree`` says how far they can be trusted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from ..cards.catalogue import RULES, catalogue, read_card_files
from ..cards.compiled import compiled, stamp
from ..cards.schema import EncoderCard, Missing
from ..errors import warn
from ..files import content_files
from .reported_values import CARD, FILE, FULL, TOP_1, ReportedNumber, choose
from .values import IMAGENET, files, read_files

_FIELDS = tuple(field.name for field in fields(ReportedNumber))
_RULES = (*RULES, "results")
_NUMBERS = "numbers of "  # begins the names of parts


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
    stored = _stored()
    wanted = stored if encoder is None else [f"{_NUMBERS}{catalogue().id_of(encoder)}"]
    rows = [row for name in wanted if name.startswith(_NUMBERS) for row in stored.get(name, ())]
    return [ReportedNumber(**dict(zip(_FIELDS, row, strict=True))) for row in rows]


@dataclass(frozen=True, slots=True)
class Preferred:
    """Of the ImageNet-1K accuracies reported by one protocol the one that listings show."""

    value: float
    printed: str
    is_doubtful: bool


def preferred_numbers() -> dict[str, dict[str, Preferred]]:
    """By encoder and protocol the top-1 accuracy on ImageNet-1K that listings show.

    Of several the one without doubts, by whoever trained the weights, at the card's input size; of these the lowest.
    """
    return {
        encoder: {name: Preferred(*values) for name, values in by_protocol.items()}
        for encoder, by_protocol in _stored()["preferred"].items()
    }


def _stored() -> Mapping[str, Any]:
    """What is made of the files, in parts: what listings show of all encoders, and the numbers of each."""
    stamps = [stamp(path) for path in [*content_files("metadata", ".toml"), *files(FILE)]]
    stored = compiled("reported", stamps, _RULES, lambda: read_card_files() | read_files(FILE), _made)
    warn(stored["left_out"])
    return stored


def _made(_: object) -> dict[str, Any]:
    from .reported_rows import checked_numbers  # which listings do without while nothing has changed

    cards, left_out = catalogue(), list[str]()
    by_encoder: dict[str, list[ReportedNumber]] = {}
    for number in (*_of_cards(cards.values()), *checked_numbers(cards, left_out)):
        by_encoder.setdefault(number.encoder, []).append(number)
    preferred: dict[str, dict[str, list[Any]]] = {}
    for encoder, numbers in by_encoder.items():
        for protocol, one in choose(numbers, cards[encoder]).items():
            preferred.setdefault(encoder, {})[protocol] = [one.value, one.printed, bool(one.doubt)]
    texts = {
        f"{_NUMBERS}{encoder}": [[getattr(one, name) for name in _FIELDS] for one in numbers]
        for encoder, numbers in by_encoder.items()
    }
    return {"left_out": left_out, "preferred": preferred, **texts}


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
