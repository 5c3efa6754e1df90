"""Other features of the same encoder: how they are named, how many dimensions they have, and the card of each.

A card says which features its encoder gives. A vision transformer has more, and each may be evaluated by itself, as
Dubois et al. 2023 do in Figure 8 and Table 4. Other features are written behind the id:

==========================  ===================================================================================
``dino_vitS16@cls``         the class token of the last block
``dino_vitS16@avg``         the mean of its patch tokens; class and register tokens do not count
``dino_vitS16@cls+avg``     the class token, then that mean; block by block if there are several
``dino_vitS16@cls:9+11``    the class tokens of blocks 9 and 11, counted from 0, the earliest first
``dino_vitS16@cls:-2+-1``   blocks counted from the end; this name is ``dino_vitS16@cls:10+11``
``dino_vitS16@3xcls``       the last three blocks; this name is ``dino_vitS16@cls:9+10+11``
``dino_vitS16@4xcls``       the last four, which cards call so, and the name of ``cls:8+9+10+11`` too
``clip...@proj``            the projection of the last class token, where the encoder has one, as its card takes it
``clip...@proj+cls``        the projection and the class token; the class token comes first, as in the cards
==========================  ===================================================================================

Networks without tokens of one width, as ResNets, EfficientNets and Swin, have names for means of their blocks' maps:

==========================  ===================================================================================
``sup_rn50@avg:12``         the mean over all positions of what block 12 of all stages gives, counted from 0
``sup_rn50@avg:12+15``      two blocks, the earliest first; ``2xavg`` and negative numbers count from the end
==========================  ===================================================================================

Tokens of every block of a transformer go through the final norm, or, where a backbone norms after its pooling
(``fc_norm``), the pooled tokens go through that; maps are as the block gives them. An average next to a class token
follows it. Many spellings, without regard to case, are one name, and the name of the card's features is the id of the
card. Everything but the features is that of the encoder.

>>> from zoo.cards.catalogue import load_catalogue
>>> card = load_catalogue()["DINO_vitS16@3xCLS"]
>>> card.id, card.representation.dim
('dino_vitS16@cls:9+10+11', 1152)
>>> load_catalogue().id_of("dino_vitS16@cls:8+9+10+11")
'dino_vitS16'
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from operator import index
from typing import NoReturn, TypeAlias, cast

from ..errors import QueryError
from .blocks import Stages, find_stages
from .schema import LAYERS, NOT_APPLICABLE, NOT_PUBLISHED, EncoderCard, Layer, Missing, Reported, Representation

PROJECTED = ("proj", "proj+cls")
"""Features of encoders with a projection, of the last block alone."""

_SIZES = {  # width and blocks of the transformers that timm calls so
    "tiny": (192, 12),
    "small": (384, 12),
    "base": (768, 12),
    "large": (1024, 24),
    "huge": (1280, 32),
    "giant": (1408, 40),
    "gigantic": (1664, 48),
}
_PLAIN_NAME = rf"timm:(?:vit|beit|beitv2|deit)_({'|'.join(_SIZES)})_patch[0-9]+(?:_clip(?:_quickgelu)?)?_[0-9]+"


@dataclass(frozen=True, slots=True)
class TokenSelection:
    """Which tokens are taken, of which blocks."""

    words: str  # "cls", "avg", "cls+avg", "proj" or "proj+cls"
    blocks: tuple[int, ...]  # the earliest first; counted from 0, or all of them, being negative, from the end


@dataclass(frozen=True, slots=True, kw_only=True)
class Transformer:
    """A network of blocks that keep the number and the width of their tokens."""

    width: int  # of a token
    n_blocks: int | None  # None: it does not follow from the card
    has_class_token: bool
    n_projected: int  # dimensions of the projection; 0 if there is none
    of_card: TokenSelection | None  # the features of the card; None if they are more than tokens

    @property
    def words(self) -> list[str]:
        """Features of the last block."""
        plain = ["cls", "avg", "cls+avg"] if self.has_class_token else ["avg"]
        return plain + (list(PROJECTED) if self.n_projected else [])

    def last(self, n: int = 1) -> tuple[int, ...]:
        """The last blocks; counted from the end if their number is unknown."""
        return tuple(range((self.n_blocks or 0) - n, self.n_blocks or 0))

    def dim(self, tokens: TokenSelection) -> int:
        """Dimensions of such features."""
        widths = {"cls": self.width, "avg": self.width, "proj": self.n_projected}
        return len(tokens.blocks) * sum(widths[word] for word in tokens.words.split("+"))


def infer_transformer(card: EncoderCard) -> Transformer | None:
    """The vision transformer of a card, without building it; None for networks without tokens or of unknown width.

    Width and depth are those of timm's name or of the options ``embed_dim`` and ``depth``; of other names the width
    follows from the dimensions of the card, and the depth is that of :mod:`zoo.cards.blocks`, or unknown.
    """
    options, layer, dim = card.architecture.options, card.representation.layer, card.representation.dim
    name = re.fullmatch(_PLAIN_NAME, card.architecture.backbone)
    kind = LAYERS[layer]
    joins_tokens = "summary_idxs" in options  # RADIO of transformers, whose pooled features are several class tokens
    if name is None and not kind.tokens and "embed_dim" not in options and not joins_tokens:
        return None
    taken = kind.tokens.split("+")
    n_token_widths = sum(word != "proj" for word in taken) * kind.n_blocks
    width: int | None = dim // n_token_widths if kind.tokens and "proj" not in taken else None
    n_blocks: int | None = None
    if name is not None:
        width, n_blocks = _SIZES[name[1]]
    if joins_tokens:
        width = options["hidden_size"]
    width, n_blocks = options.get("embed_dim", width), options.get("depth", n_blocks)
    if width is None:
        return None
    if n_blocks is None and (stages := find_stages(card)) is not None and set(stages.of_blocks) == {width}:
        n_blocks = len(stages.of_blocks)
    network = Transformer(
        width=width,
        n_blocks=n_blocks,
        has_class_token=bool(options.get("class_token", True)),
        n_projected=dim - n_token_widths * width if "proj" in taken else 0,
        of_card=None,
    )
    if layer == "avgpool" and not options.get("pool_include_prefix"):
        return replace(network, of_card=TokenSelection("avg", network.last()))
    if not kind.tokens or kind.is_quantised:
        return network
    return replace(network, of_card=TokenSelection(kind.tokens, network.last(kind.n_blocks)))


@dataclass(frozen=True, slots=True, kw_only=True)
class HierarchicalNetwork:
    """A network of blocks whose maps have widths of their own."""

    stages: Stages
    of_card: TokenSelection | None  # the features of the card; None if they are more than the mean of a map

    @property
    def n_projected(self) -> int:
        """Dimensions of the projection: there is none."""
        return 0

    @property
    def words(self) -> list[str]:
        """Features of every block."""
        return ["avg"]

    @property
    def n_blocks(self) -> int:
        return len(self.stages.of_blocks)

    def last(self, n: int = 1) -> tuple[int, ...]:
        """The last blocks."""
        return tuple(range(self.n_blocks - n, self.n_blocks))

    def dim(self, tokens: TokenSelection) -> int:
        """Dimensions of such features."""
        return sum(self.stages.of_blocks[block] for block in tokens.blocks)


Network: TypeAlias = Transformer | HierarchicalNetwork


def infer_network(card: EncoderCard) -> Network | None:
    """The blocks of a card's network, without building it; None where they are not known."""
    found = infer_transformer(card)
    if found is not None:
        return found
    stages = find_stages(card)
    if stages is None:
        return None
    network = HierarchicalNetwork(stages=stages, of_card=None)
    if card.representation.layer == "avgpool" and stages.pools_last:
        return replace(network, of_card=TokenSelection("avg", network.last()))
    return network


def parse_tokens(layer: str) -> TokenSelection | None:
    """The tokens that the layer of a derived card names; None if it names none, as ``avgpool``.

    >>> parse_tokens("cls:9+10+11"), parse_tokens("4xcls")
    (TokenSelection(words='cls', blocks=(9, 10, 11)), TokenSelection(words='cls', blocks=(-4, -3, -2, -1)))
    """
    if kind := LAYERS.get(layer):
        return (
            TokenSelection(kind.tokens, tuple(range(-kind.n_blocks, 0)))
            if kind.tokens and not kind.is_quantised
            else None
        )
    words, _, listed = layer.partition(":")
    if not set(words.split("+")) <= {"cls", "avg", "proj"}:
        return None
    return TokenSelection(words, tuple(map(int, listed.split("+"))) if listed else (-1,))


MARK = "@"
"""Between the id of an encoder and the features that are taken from it."""

_TEXT = r"(?:(?P<n_last>[0-9]{1,4})x)?(?P<words>[a-z]+(?:\+[a-z]+)*)(?::(?P<blocks>-?[0-9]{1,4}(?:\+-?[0-9]{1,4})*))?"
_ORDER = ("proj", "cls", "avg")  # of words in a name
_UNREPORTED = Reported(**dict.fromkeys((field.name for field in fields(Reported)), NOT_PUBLISHED))
_OF_THE_FEATURES = ("representation", "reported", "architecture.exact", "weights.same_file_as", "provenance.extracted")


def derive_card(card: EncoderCard, *, features: str | None, layers: int | Iterable[int] | None = None) -> EncoderCard:
    """The card of other features of the same encoder; the same card if they are those of the card.

    ``features`` are ``cls``, ``avg``, ``cls+avg``, ``proj``, ``proj+cls``, the card's ``representation.layer``, or any
    text that may be behind the mark of a name, such as ``cls:9+10+11``. ``layers`` are blocks, counted from 0 or,
    negative, from the end, in any order; or how many of the last, as timm counts them; the last block unless given.
    Features that this encoder does not have are refused as a QueryError that says what it has.
    """
    if MARK in card.id:
        raise QueryError(
            f"{card.id!r} says already which features are taken; ask for others of {get_base_id(card.id)!r}, or leave "
            "out features and layers."
        )
    if features is None:
        raise QueryError(f"Found layers of {card.id!r} and no features; say which, such as features='cls'.")
    network = infer_network(card)
    text = re.fullmatch(_TEXT, features.strip().casefold()) if isinstance(features, str) else None
    if text is None:
        _refuse(card, network, f"There are no features {features!r}")
    if layers is None and text[0] == card.representation.layer:
        return card
    if sum(blocks is not None for blocks in (text["n_last"], text["blocks"], layers)) > 1:
        raise QueryError(f"Found the blocks of {card.id!r} in features={features!r} and again; say them once.")
    words = text["words"]
    if set(words.split("+")) <= set(_ORDER):
        words = "+".join(sorted(words.split("+"), key=_ORDER.index))
    if network is None or words not in network.words:
        _refuse(card, network, f"There are no features {features!r}")
    wanted = layers
    if text["n_last"] is not None:
        wanted = int(text["n_last"])
    elif text["blocks"] is not None:
        wanted = [int(block) for block in text["blocks"].split("+")]
    tokens = TokenSelection(words, network.last() if wanted is None else _blocks(card, network, wanted))
    if words in PROJECTED and tokens.blocks != network.last():
        _refuse(card, network, f"There is no projection of blocks {_joined(tokens.blocks)}")
    return card if tokens == network.of_card else _derived_card(card, network, tokens)


def list_representations(card: EncoderCard) -> dict[str, Representation]:
    """Features that an encoder offers, by name: its card's first, then those of the last block and of the last few.

    Class tokens of two to four last blocks are examples; every other choice of blocks has a name too. The names are
    known to :func:`zoo.load` and to the catalogue.

    >>> from zoo.cards.catalogue import load_catalogue
    >>> for name, how in list_representations(load_catalogue()["dino_vitS16_last"]).items():
    ...     print(name, how.dim)
    dino_vitS16_last 384
    dino_vitS16_last@avg 384
    dino_vitS16_last@cls+avg 768
    dino_vitS16_last@cls:10+11 768
    dino_vitS16_last@cls:9+10+11 1152
    dino_vitS16_last@4xcls 1536
    """
    network = infer_transformer(card)
    offered = [card]
    if network is not None:
        offered += [derive_card(card, features=words) for words in network.words]
        if network.has_class_token and network.n_blocks is not None:
            offered += [derive_card(card, features="cls", layers=n) for n in range(2, min(4, network.n_blocks) + 1)]
    return {one.id: one.representation for one in offered}


def is_feature_spec(text: str) -> bool:
    """True if a text behind the mark reads as features, whether or not an encoder has them.

    >>> is_feature_spec("cls:9+10"), is_feature_spec("4xcls"), is_feature_spec("main")
    (True, True, False)
    """
    match = re.fullmatch(_TEXT, text.strip().casefold())
    return match is not None and set(match["words"].split("+")) <= set(_ORDER)


def get_base_id(name: str) -> str:
    """The id of the encoder itself.

    >>> get_base_id("dino_vitS16@cls+avg")
    'dino_vitS16'
    """
    return name.partition(MARK)[0]


def _blocks(card: EncoderCard, network: Network, layers: int | Iterable[int]) -> tuple[int, ...]:
    """Blocks counted from 0, the earliest first."""
    n = network.n_blocks
    if n is None:
        raise QueryError(
            f"Found layers of {card.id!r}, but the zoo does not know how many blocks {card.architecture.backbone!r} "
            "has; write depth into architecture.options of its card, or leave them out."
        )
    if isinstance(layers, int) and not isinstance(layers, bool):
        if not 1 <= layers <= n:
            _refuse(card, network, f"There are no last {layers} blocks")
        return network.last(layers)
    try:
        asked = list(layers)  # type: ignore[arg-type] # a user may give anything
        given = [index(block) for block in asked if not isinstance(block, bool)]
    except TypeError:  # no list, or no whole numbers
        asked, given = [], []
    if not given or len(given) < len(asked):
        raise QueryError(
            f"Found layers={layers!r} for {card.id!r}, expected whole numbers of blocks from 0 to {n - 1}, or from the "
            "end, such as [-2, -1]; or how many of the last."
        )
    blocks = [block + n if block < 0 else block for block in given]
    for block, as_given in zip(blocks, given, strict=True):
        if not 0 <= block < n:
            _refuse(card, network, f"There is no block {as_given}")
        if blocks.count(block) > 1:
            raise QueryError(f"Found block {block} of {card.id!r} twice in its layers; name each block once.")
    return tuple(sorted(blocks))


def _derived_card(card: EncoderCard, network: Network, tokens: TokenSelection) -> EncoderCard:
    """The same facts, but for those about the features."""
    layer = tokens.words
    if tokens == TokenSelection("cls", network.last(4)):
        layer = "4xcls"
    elif tokens.blocks != network.last():
        layer = f"{tokens.words}:{_joined(tokens.blocks)}"
    weights, provenance = card.weights, card.provenance
    if not isinstance(weights.url, Missing):
        weights = replace(weights, same_file_as=card.id)
    if not card.is_untrained:
        provenance = replace(provenance, extracted=True)
    stem = card.architecture.exact.removesuffix(f" {card.representation.layer}")
    return replace(
        card,
        id=f"{card.id}{MARK}{layer}",
        architecture=replace(card.architecture, exact=f"{stem} {layer}"),
        representation=Representation(
            dim=network.dim(tokens),
            layer=cast(Layer, layer),  # names blocks, which those of card files do not
            order="concatenated" if "+" in tokens.words else NOT_APPLICABLE,
        ),
        weights=weights,
        reported=card.reported if card.is_untrained else _UNREPORTED,
        provenance=provenance,
        errata=tuple(one for one in card.errata if not one.field.startswith(_OF_THE_FEATURES)),
    )


def _joined(blocks: Iterable[int]) -> str:
    return "+".join(map(str, blocks))


def _refuse(card: EncoderCard, network: Network | None, what: str) -> NoReturn:
    layer = card.representation.layer
    if network is None:
        raise QueryError(f"{what} of {card.id!r}, which has no tokens to choose from and gives {layer!r} alone.")
    plain = [words for words in network.words if words not in PROJECTED]
    offer = f"{', '.join(plain[:-1])} and {plain[-1]}" if len(plain) > 1 else plain[0]
    blocks = "last block alone" if network.n_blocks is None else f"blocks 0 to {network.n_blocks - 1}"
    projected = ", and proj and proj+cls of the last" if network.n_projected else ""
    raise QueryError(
        f"{what} of {card.id!r}, which gives {layer!r} by itself and offers {offer} of its {blocks}{projected}; "
        "ask for one of these."
    )
