"""The torch.hub entry points: one for each card and one for each table, so that a new card is a new entry point.

``hubconf.py`` at the root of the repository does nothing but publish what :func:`entry_points` returns. torch.hub runs
it anew at every load, so everything here is cheap: no torch, and the text of a card is written when somebody reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

from .. import load, metadata_df, metadata_dict, results_df
from ..cards.catalogue import catalogue
from ..cards.schema import EncoderCard, Missing

if TYPE_CHECKING:
    import os

    import torch

_TABLES: dict[str, Callable[..., Any]] = {
    "metadata_dict": metadata_dict,
    "metadata_df": metadata_df,
    "results_df": results_df,
}

_USAGE = """\
Returns (encoder, preprocess). The encoder takes float32 images of shape (n, 3, {px}, {px}), as preprocess makes them
from PIL images, and gives float32 features of shape (n, {dim}), in eval mode.

Parameters
----------
pretrained : bool, True unless given
    With the trained weights; False gives the same architecture with random ones.
weights : path or address, optional
    A checkpoint of your own to load instead, as training scripts save it; a list for a file and its companions.
checkpoint_key : str, optional
    Which of several encoders in your own checkpoint is meant, such as teacher or state_dict_ema.
layout : str, optional
    How your own checkpoint is laid out, if not as the files of this encoder are.
seed : int, 0 unless given
    Of the random weights, where there are any.
device : str or torch.device, optional
    Where the encoder is built.
features : str, optional
    What is taken from a vision transformer instead: cls, avg, cls+avg, proj or proj+cls.
layers : int or iterable of int, optional
    Of which blocks, from 0 or, negative, from the end; or how many of the last.
"""


class EncoderEntry:
    """Entry point of one encoder; calling it loads the encoder, its ``__doc__`` is the card."""

    def __init__(self, encoder: str) -> None:
        self.__name__ = self.__qualname__ = encoder

    def __call__(
        self,
        *,
        pretrained: bool = True,
        weights: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None = None,
        checkpoint_key: str | None = None,
        layout: str | None = None,
        seed: int = 0,
        device: str | torch.device | None = None,
        features: str | None = None,
        layers: int | Iterable[int] | None = None,
    ) -> tuple[torch.nn.Module, Any]:
        return load(
            self.__name__,
            pretrained=pretrained,
            weights=weights,
            checkpoint_key=checkpoint_key,
            layout=layout,
            seed=seed,
            device=device,
            features=features,
            layers=layers,
        )

    def __repr__(self) -> str:
        return f"<SSL Zoo encoder {self.__name__}>"

    def __getattribute__(self, name: str) -> Any:
        if name == "__doc__":
            return card_text(catalogue()[self.__name__])
        return super().__getattribute__(name)


def entry_points() -> dict[str, Callable[..., Any]]:
    """Every entry point by its name: the encoders in the order of their cards, then the tables.

    Raises
    ------
    CardError
        If any card is wrong: the zoo never shrinks in silence.
    """
    return {encoder: EncoderEntry(encoder) for encoder in catalogue()} | _TABLES


def card_text(card: EncoderCard) -> str:
    """The card as plain text: how to use the encoder, then all facts under the names that they have in Python."""
    usage = _USAGE.format(px=card.preprocess.crop_px, dim=card.representation.dim)
    lines = [f"{card.id}: {_summary(card)}.", "", usage, f"Facts, as in zoo.card({card.id!r})", "", *_facts(card)]
    if card.errata:
        lines += ["", "Errata"]
        lines += [f"    {e.field}: published as {_shown(e.published)}; {e.reason}" for e in card.errata]
    return "\n".join(lines) + "\n"


def _summary(card: EncoderCard) -> str:
    if card.is_untrained:
        return f"{card.architecture.exact} with random weights"
    objective = card.objective.mode if isinstance(card.objective.name, Missing) else card.objective.name
    trained = "how it was trained is not published" if isinstance(objective, Missing) else f"objective {objective}"
    data = card.pretraining.dataset
    return f"{card.architecture.exact}, {trained}{'' if isinstance(data, Missing) else f', on {data}'}"


def _facts(card: EncoderCard) -> Iterator[str]:
    for part in fields(card):
        value = getattr(card, part.name)
        if part.name in ("id", "errata"):
            continue
        if not is_dataclass(value):
            yield f"{part.name}: {_shown(value)}"
            continue
        yield part.name
        names = [field.name for field in fields(value)]
        width = max(map(len, names))
        yield from (f"    {name:<{width}}  {_shown(getattr(value, name))}" for name in names)


def _shown(value: Any) -> str:
    if isinstance(value, Missing):
        return value.value
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) and value >= 10_000:
        return f"{value:,}"
    if isinstance(value, dict):
        return ", ".join(f"{key}={_shown(item)}" for key, item in value.items()) or "none"
    if isinstance(value, (tuple, list)):
        return ", ".join(map(_shown, value)) or "none"
    return str(value)
