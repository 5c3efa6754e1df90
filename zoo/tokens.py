"""What a card tells of the tokens of its vision transformer, without building it."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from .metadata import EncoderCard

PROJECTED = ("proj", "proj+cls")
"""What is there only where the encoder has a projection, and of the last block alone."""

_SIZES = {  # width and blocks of the transformers that timm calls so
    "tiny": (192, 12),
    "small": (384, 12),
    "base": (768, 12),
    "large": (1024, 24),
    "huge": (1280, 32),
    "giant": (1408, 40),
    "gigantic": (1664, 48),
}
_PLAIN_NAME = re.compile(
    rf"timm:(?:vit|beit|beitv2|deit)_({'|'.join(_SIZES)})_patch[0-9]+(?:_clip(?:_quickgelu)?)?_[0-9]+"
)
_WIDTHS = {"cls": 1, "cls+avg": 2, "4xcls": 4}  # of a token, by what a card takes
_OWN = {  # what a card takes, and of how many last blocks
    "cls": ("cls", 1),
    "4xcls": ("cls", 4),
    "cls+avg": ("cls+avg", 1),
    "proj": ("proj", 1),
    "proj+cls": ("proj+cls", 1),
    "avgpool": ("avg", 1),
}


@dataclass(frozen=True, slots=True)
class Tokens:
    """Which tokens are taken, of which blocks."""

    words: str  # "cls", "avg", "cls+avg", "proj" or "proj+cls"
    blocks: tuple[int, ...]  # the earliest first; counted from 0, or all of them, being negative, from the end


@dataclass(frozen=True, slots=True, kw_only=True)
class Transformer:
    """A network of blocks that keep the number and the width of their tokens."""

    width: int  # of a token
    n_blocks: int | None  # None: the card does not tell
    has_class_token: bool
    n_projected: int  # dimensions of the projection; 0 if there is none
    own: Tokens | None  # what the card takes; None if that is more than tokens

    @property
    def words(self) -> list[str]:
        """What can be taken from the last block."""
        plain = ["cls", "avg", "cls+avg"] if self.has_class_token else ["avg"]
        return plain + (list(PROJECTED) if self.n_projected else [])

    def last(self, n: int = 1) -> tuple[int, ...]:
        """The last blocks; counted from the end if nobody knows how many there are."""
        return tuple(range((self.n_blocks or 0) - n, self.n_blocks or 0))

    def dim(self, tokens: Tokens) -> int:
        """Dimensions of such features."""
        widths = {"cls": self.width, "avg": self.width, "proj": self.n_projected}
        return len(tokens.blocks) * sum(widths[word] for word in tokens.words.split("+"))


def transformer(card: EncoderCard) -> Transformer | None:
    """The vision transformer of a card; None for networks without tokens, and where nobody can tell.

    Width and depth are those of timm's name or of the options ``embed_dim`` and ``depth``; of a name that is none of
    the plain ones, the dimensions of the card tell the width, and nothing tells the depth.
    """
    options, layer, dim = card.architecture.options, card.representation.layer, card.representation.dim
    name = _PLAIN_NAME.fullmatch(card.architecture.backbone)
    if name is None and layer not in (*_WIDTHS, *PROJECTED, "pred"):
        return None
    width: int | None = dim // _WIDTHS[layer] if layer in _WIDTHS else None
    n_blocks: int | None = None
    if name is not None:
        width, n_blocks = _SIZES[name[1]]
    width, n_blocks = options.get("embed_dim", width), options.get("depth", n_blocks)
    if width is None:
        return None
    found = Transformer(
        width=width,
        n_blocks=n_blocks,
        has_class_token=bool(options.get("class_token", True)),
        n_projected={"proj": dim, "pred": dim, "proj+cls": dim - width}.get(layer, 0),
        own=None,
    )
    if layer not in _OWN or (layer == "avgpool" and options.get("pool_include_prefix")):
        return found
    words, n_last = _OWN[layer]
    return replace(found, own=Tokens(words, found.last(n_last)))


def tokens_of(layer: str) -> Tokens | None:
    """Which tokens the layer of a derived card means; None if it means none, as ``avgpool`` does.

    >>> tokens_of("cls:9+10+11"), tokens_of("4xcls")
    (Tokens(words='cls', blocks=(9, 10, 11)), Tokens(words='cls', blocks=(-4, -3, -2, -1)))
    """
    words, _, listed = layer.partition(":")
    if words == "4xcls":
        return Tokens("cls", (-4, -3, -2, -1))
    if not set(words.split("+")) <= {"cls", "avg", "proj"}:
        return None
    return Tokens(words, tuple(map(int, listed.split("+"))) if listed else (-1,))
