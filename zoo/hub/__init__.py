"""The torch.hub entry points: one for each card and one for each table, so that a new card is a new entry point.

``hubconf.py`` at the root of the repository publishes what :func:`entry_points` returns. torch.hub runs it anew at
every load, so this imports no torch, and the text of a card is written when it is read.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from ..cards.catalogue import load_catalogue
from ..cards.gated_access import describe_access, list_licence_remarks
from ..cards.licences import describe_commercial_use, describe_licence
from ..cards.schema import EncoderCard, Missing, format_fact
from ..results.tables import metadata_df, metadata_dict, results_df

if TYPE_CHECKING:
    import torch

_TABLES: dict[str, Callable[..., Any]] = {
    "metadata_dict": metadata_dict,
    "metadata_df": metadata_df,
    "results_df": results_df,
}


class EncoderEntry:
    """Entry point of one encoder: called, it is :func:`zoo.load` for that encoder; its ``__doc__`` is the card."""

    def __init__(self, encoder: str) -> None:
        self.__name__ = self.__qualname__ = encoder

    def __call__(self, **options: Any) -> tuple[torch.nn.Module, Any]:
        from ..loading import load

        return load(self.__name__, **options)

    def __repr__(self) -> str:
        return f"<SSL Zoo encoder {self.__name__}>"

    def __getattribute__(self, name: str) -> Any:
        if name == "__doc__":
            return format_card_text(load_catalogue()[self.__name__])
        if name == "__signature__":
            from ..loading import load

            return inspect.signature(partial(load, self.__name__))
        return super().__getattribute__(name)


def entry_points() -> dict[str, Callable[..., Any]]:
    """Every entry point by its name: the encoders in the order of their cards, then the tables.

    torch.hub lists those whose name does not begin with an underscore; the names of encoders of experiments do.
    """
    cards = load_catalogue()
    names = {encoder if cards.lists(encoder) else f"_{encoder}": encoder for encoder in cards.with_unlisted}
    return {name: EncoderEntry(encoder) for name, encoder in names.items()} | _TABLES


def format_card_text(card: EncoderCard) -> str:
    """The card as plain text: how to use the encoder, then all facts under the names that they have in Python."""
    px, dim = card.preprocess.crop_px, card.representation.dim
    usage = (
        f"Returns (encoder, preprocess). The encoder takes float32 images of shape (n, 3, {px}, {px}), as preprocess\n"
        f"makes them from PIL images, and gives float32 features of shape (n, {dim}), in eval mode."
    )
    facts = f"Facts, as in zoo.card({card.id!r})"
    opening = [f"{card.id}: {_summary(card)}.", "", usage, "", *_terms(card)]
    lines = [*opening, "", _options(), "", facts, "", *_facts(card)]
    if card.errata:
        lines += ["", "Errata"]
        lines += [f"    {e.field}: published as {format_fact(e.published)}; {e.reason}" for e in card.errata]
    return "\n".join(lines) + "\n"


def _options() -> str:
    """The options of :func:`zoo.load`, from its docstring."""
    from ..loading import load

    sections = inspect.getdoc(load) or ""
    first = "pretrained : bool"  # behind the name of the encoder
    listed = first + sections.partition(first)[2].partition("\n\nReturns")[0]
    return f"Parameters\n----------\n{listed}"


def _summary(card: EncoderCard) -> str:
    if card.is_untrained:
        return f"{card.architecture.exact} with random weights"
    objective = card.objective.mode if isinstance(card.objective.name, Missing) else card.objective.name
    trained = "how it was trained is not published" if isinstance(objective, Missing) else f"objective {objective}"
    data = card.pretraining.dataset
    return f"{card.architecture.exact}, {trained}{'' if isinstance(data, Missing) else f', on {data}'}"


def _terms(card: EncoderCard) -> Iterator[str]:
    """Licence, commercial use and access, a line each."""
    licence, use = card.licence.weights, card.commercial_use
    if isinstance(use, Missing):  # there are no weights
        return
    known = "" if isinstance(licence, Missing) else f", {describe_licence(licence)}"
    yield f"Licence of the weights: {format_fact(licence)}{known}."
    yield f"Commercial use: {describe_commercial_use(use)}."
    yield from list_licence_remarks(card)
    yield f"Access: {describe_access(card)}."


def _facts(card: EncoderCard) -> Iterator[str]:
    for part in fields(card):
        value = getattr(card, part.name)
        if part.name in ("id", "errata"):
            continue
        if not is_dataclass(value):
            yield f"{part.name}: {format_fact(value)}"
            continue
        yield part.name
        names = [field.name for field in fields(value)]
        width = max(map(len, names))
        yield from (f"    {name:<{width}}  {format_fact(getattr(value, name))}" for name in names)
