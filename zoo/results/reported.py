"""Numbers that somebody reported of an encoder: printed by its authors or by others, measured by none of our protocols.

Their rows are in ``results/reported.tsv``, every digit as it is printed; the accuracies that cards state enter as the
same kind. They have another file format and another vocabulary than measurements, whose readers ignore them, so that
neither is ever taken for the other. What is doubtful about a number stands next to it (``doubt``) and is shown with it.

Two reported numbers of one protocol need not be comparable: layers, image sizes, augmentations, sweeps and labels
differ, and mostly nobody says how. The study ``do_reported_numbers_agree`` says how far they can be trusted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from ..cards.catalogue import RULES, load_catalogue
from ..cards.content_cache import CachedContent, load_cached_content, read_stamp
from ..cards.schema import EncoderCard, Missing
from ..errors import ResultsError, warn
from ..files import get_content_folder, list_content_files, use_shipped_only
from .reported_values import (
    CARD,
    EVIDENCE,
    FILE,
    FULL,
    TOP_1,
    ReportedNumber,
    choose,
)
from .values import IMAGENET

_FIELDS = tuple(field.name for field in fields(ReportedNumber))
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
    shipped = _shipped()
    own = _own(shipped)
    if encoder is not None:
        wanted = [load_catalogue().id_of(encoder)]
    else:
        wanted = list(dict.fromkeys([*(name.removeprefix(_NUMBERS) for name in shipped if name != "preferred"), *own]))
    return [number for name in wanted for number in (own[name] if name in own else _stored(shipped, name))]


@dataclass(frozen=True, slots=True)
class Preferred:
    """Of the ImageNet-1K accuracies reported by one protocol the one that listings show."""

    value: float
    printed: str
    is_doubtful: bool


def select_preferred_accuracies() -> dict[str, dict[str, Preferred]]:
    """By encoder and protocol the top-1 accuracy on ImageNet-1K that listings show.

    Of several the one without doubts, by who trained the weights, of the card's features and input size, the lowest.
    """
    shipped, cards = _shipped(), load_catalogue()
    preferred = shipped["preferred"] | {name: _preferred(some, cards[name]) for name, some in _own(shipped).items()}
    return {
        encoder: {name: Preferred(*values) for name, values in by_protocol.items()}
        for encoder, by_protocol in preferred.items()
    }


def _preferred(numbers: Iterable[ReportedNumber], card: EncoderCard) -> dict[str, list[Any]]:
    return {name: [one.value, one.printed, bool(one.doubt)] for name, one in choose(numbers, card).items()}


def _shipped() -> CachedContent:
    """The copy of the shipped numbers: what listings show of all encoders, and the numbers of each."""

    paths = _shipped_files()

    def read() -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in paths}

    def make(sources: Mapping[Path, bytes]) -> dict[str, Any]:
        from .reading import iterate_reported_numbers, raise_error

        with use_shipped_only():
            cards = load_catalogue()
        by_encoder: dict[str, list[ReportedNumber]] = {}
        for number in (*_of_cards(cards.values()), *iterate_reported_numbers(sources, cards, {}, raise_error)):
            by_encoder.setdefault(number.encoder, []).append(number)
        chosen = {name: _preferred(numbers, cards[name]) for name, numbers in by_encoder.items()}
        texts = {
            f"{_NUMBERS}{name}": [[getattr(one, field) for field in _FIELDS] for one in numbers]
            for name, numbers in by_encoder.items()
        }
        return {"preferred": {name: some for name, some in chosen.items() if some}, **texts}

    origins = get_content_folder("results") / EVIDENCE / "origins.toml"
    return load_cached_content(
        "reported",
        [read_stamp(str(path)) for path in (*paths, origins)],
        (*RULES, "results"),
        read,
        make,
        of=get_content_folder("results"),
        beside=load_catalogue().digests[0],
    )


def _shipped_files() -> list[Path]:
    folder = get_content_folder("results")
    by_hand = ("encoders.tsv", "datasets.tsv")
    evidence = sorted(path for path in (folder / EVIDENCE).glob("*.tsv") if path.name not in by_hand)
    return [folder / FILE, *evidence]


def _stored(shipped: CachedContent, encoder: str) -> list[ReportedNumber]:
    rows = shipped.get(f"{_NUMBERS}{encoder.removeprefix(_NUMBERS)}", ())
    return [ReportedNumber(**dict(zip(_FIELDS, row, strict=True))) for row in rows]


def _own(shipped: CachedContent) -> dict[str, list[ReportedNumber]]:
    """All numbers of the encoders of which the user's cards or files have any."""
    cards = load_catalogue()
    columns = [cards.column(f"reported.{name}") for name in _OF_CARDS] if cards.own else []
    stated = [name for name in cards.own if not all(isinstance(column[name], Missing) for column in columns)]
    own: dict[str, list[ReportedNumber]] = {}
    numbers = [*_of_cards(cards[name] for name in stated), *_in_own_files(shipped)]
    for number in numbers:
        own.setdefault(number.encoder, _stored(shipped, number.encoder)).append(number)
    return own


def _in_own_files(shipped: CachedContent) -> list[ReportedNumber]:
    folder = str(get_content_folder("results"))
    paths = [
        path for path in list_content_files("results", FILE) if path.name == FILE and not str(path).startswith(folder)
    ]
    if not paths:
        return []
    from .reading import iterate_reported_numbers, read_own_contents

    left_out: list[str] = []
    wrong: list[ResultsError] = []
    everything = [number for name in shipped if name != "preferred" for number in _stored(shipped, name)]
    seen = {number.key: "the zoo's own file" for number in everything}
    numbers = list(iterate_reported_numbers(read_own_contents(paths, left_out), load_catalogue(), seen, wrong.append))
    warn([*left_out, *(f"{str(error).removesuffix('.')}; this is left out." for error in wrong)])
    return numbers


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
