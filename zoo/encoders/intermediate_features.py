"""All features that an encoder offers, of every block and by every pooling, from one forward pass.

Each variant is computed by the very function that computes it for :func:`zoo.load` with its name; only where that
function asks the backbone for tokens, it gets those of the pass that is done. What is put together of others, as class
token and mean, is not computed again: a variant is a list of columns of one wide row per image.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from ..cards.blocks import Stages
from ..cards.catalogue import get_base_card
from ..cards.representations import (
    PROJECTED,
    HierarchicalNetwork,
    Transformer,
    derive_card,
    infer_network,
    parse_tokens,
)
from ..cards.schema import LAYERS, EncoderCard
from ..errors import QueryError
from .blocks import average_map, list_block_modules, watch_blocks
from .build import build_encoder
from .encoder import ERRORS, Encoder, build_derived_pooling
from .processor import use_fast_forward
from .residual_networks import is_resnet

_N_TIMED = 3  # forward passes, the fastest of which counts


@dataclass(frozen=True, slots=True)
class FeatureVariant:
    """One variant of an encoder's features."""

    card: EncoderCard  # whose id is the name that zoo.load takes
    words: str  # "cls", "avg", "cls+avg", "proj", "proj+cls", "4xcls"; of the card the layer that it names
    block: int | None  # the last block that it needs, counted from 0; None: the whole network
    label: str  # of the block: "11", or stage and block in it, "4.3"; "card" for the card's features of no block alone
    of: tuple[str, ...]  # names of the variants that it is put together of, in this order; () if it is its own

    @property
    def name(self) -> str:
        return self.card.id

    @property
    def dim(self) -> int:
        return self.card.representation.dim


def list_feature_variants(card: EncoderCard, *, blocks: Sequence[int] | None = None) -> list[FeatureVariant]:
    """The variants of an encoder, the card's own first, then block by block; of some blocks if they are given.

    QueryError if a block is not there. Where the zoo does not know the blocks, those of the last one alone.
    """
    own = get_base_card(card)
    network = infer_network(own)
    if blocks is not None and (network is None or network.n_blocks is None):
        raise QueryError(
            f"Found blocks for {own.id!r}, whose blocks the zoo does not know; leave them out to compare resolutions "
            "and poolings alone."
        )
    found = {own.id: _card_tap(own, network)}
    if network is None:
        return list(found.values())
    n_blocks = network.n_blocks or 0
    chosen = _checked(own, blocks, n_blocks) if n_blocks else [-1]
    plain = [words for words in network.words if words not in PROJECTED]
    for block in chosen:
        for words in plain:
            one = derive_card(own, features=words, layers=[block] if n_blocks else None)
            parts = tuple(
                derive_card(own, features=word, layers=[block] if n_blocks else None).id for word in words.split("+")
            )
            of = parts if len(parts) > 1 and one.id != own.id else ()
            found.setdefault(
                one.id, FeatureVariant(one, words, block if n_blocks else None, _label(network, block), of)
            )
    if blocks is None or (n_blocks - 1) in chosen:
        for words in network.words:
            if words in PROJECTED:
                one = derive_card(own, features=words)
                found.setdefault(one.id, FeatureVariant(one, words, None, "head", ()))
        if isinstance(network, Transformer) and network.has_class_token and n_blocks >= 4:
            one = derive_card(own, features="4xcls")
            parts = tuple(derive_card(own, features="cls", layers=[n]).id for n in network.last(4))
            if set(parts) <= found.keys():
                found.setdefault(one.id, FeatureVariant(one, "4xcls", n_blocks - 1, "last 4", parts))
    return list(found.values())


def _card_tap(card: EncoderCard, network: Any) -> FeatureVariant:
    """The features of the card itself, at their place among the others if they have one."""
    layer, tokens = card.representation.layer, None if network is None else network.of_card
    words = LAYERS[layer].tokens if tokens is None else tokens.words
    words = layer if not words or LAYERS[layer].is_quantised or LAYERS[layer].n_blocks > 1 else words
    if tokens is None or tokens.words in PROJECTED:
        return FeatureVariant(card, "avg" if layer == "avgpool" else words, None, "head", ())
    if len(tokens.blocks) > 1:
        return FeatureVariant(
            card, layer, tokens.blocks[-1] if network.n_blocks else None, f"last {len(tokens.blocks)}", ()
        )
    block = tokens.blocks[0]
    return FeatureVariant(card, words, block if network.n_blocks else None, _label(network, block), ())


def _label(network: Any, block: int) -> str:
    if isinstance(network, HierarchicalNetwork):
        return network.stages.label(block)
    return str(block) if block >= 0 else "last"


def _checked(card: EncoderCard, blocks: Sequence[int] | None, n: int) -> list[int]:
    if blocks is None:
        return list(range(n))
    for block in blocks:
        if not -n <= block < n:
            raise QueryError(f"There is no block {block} of {card.id!r}, which has blocks 0 to {n - 1}; ask for these.")
    return sorted({block % n for block in blocks})


class CachedForward:
    """A backbone whose forward pass over some images is done; poolings read from it what they would compute."""

    def __init__(self, backbone: Any, images: Tensor, blocks: Sequence[int]) -> None:
        self._backbone, self._blocks = backbone, list(blocks)
        self._n_prefix = int(backbone.num_prefix_tokens)
        if hasattr(backbone, "one_pass"):  # of transformers
            self._pooled, self._final, of_block = backbone.one_pass(images, self._blocks)
            self._of_block = [(each[:, self._n_prefix :], each[:, : self._n_prefix]) for each in of_block]
            return
        self._pooled = None
        how: Any = {"return_prefix_tokens": self._n_prefix > 0, "norm": True, "output_fmt": "NLC"}
        self._final, of_blocks = backbone.forward_intermediates(images, indices=self._blocks, **how)
        self._of_block = of_blocks if self._n_prefix else [(each, each[:, :0]) for each in of_blocks]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backbone, name)

    def __call__(self, images: Tensor) -> Tensor:
        """What the network pools by itself."""
        if self._pooled is not None:
            return cast(Tensor, self._pooled)
        return cast(Tensor, self._backbone.forward_head(self._final))

    def forward_features(self, images: Tensor) -> Tensor:
        """Tokens after the final norm."""
        return cast(Tensor, self._final)

    def forward_intermediates(
        self, images: Tensor, indices: int | list[int], *, return_prefix_tokens: bool = False, **how: Any
    ) -> list[Any]:
        """Tokens of blocks, each through the final norm."""
        n = len(self._backbone.blocks)
        numbers = range(n - indices, n) if isinstance(indices, int) else [block % n for block in indices]
        given = [self._of_block[self._blocks.index(number)] for number in numbers]
        return list(given) if return_prefix_tokens else [patches for patches, _ in given]


class IntermediateFeatures(nn.Module):
    """From images to one wide row each, with all variants of an encoder's features in it.

    ``columns`` has the columns of each variant by its name, in their order. Weights are those of the encoder.
    """

    def __init__(self, encoder: Encoder, taps: Sequence[FeatureVariant]) -> None:
        super().__init__()
        self.encoder = encoder
        self.taps = tuple(taps)
        own = [tap for tap in taps if not tap.of]
        starts, width = {}, 0
        for tap in own:
            starts[tap.name] = range(width, width + tap.dim)
            width += tap.dim
        self.width = width
        self.columns = {
            tap.name: [column for part in (tap.of or (tap.name,)) for column in starts[part]] for tap in taps
        }
        card = get_base_card(taps[0].card)
        self._is_staged = not isinstance(infer_network(card), Transformer)
        self._own = own
        self._read = (
            {}
            if self._is_staged
            else {
                tap.name: encoder.pooling if tap.card is card else build_derived_pooling(tap.card, encoder.backbone)
                for tap in own
            }
        )

    def forward(self, images: Tensor) -> Tensor:
        """All variants that are no mere combination of others, (n, width)."""
        parts = self._of_staged(images) if self._is_staged else self._of_tokens(images)
        for tap, part in zip(self._own, parts, strict=True):
            if part.shape[1:] != (tap.dim,):
                raise QueryError(
                    f"{tap.name!r} gives features of shape {tuple(part.shape[1:])}, expected ({tap.dim},)."
                )
        return torch.cat(parts, dim=-1)

    def _of_tokens(self, images: Tensor) -> list[Tensor]:
        n = len(self.encoder.backbone.blocks)  # type: ignore[arg-type]
        done: Any = CachedForward(self.encoder.backbone, images, self._needed(n))
        return [read(done, images) for read in self._read.values()]

    def _needed(self, n: int) -> list[int]:
        """Numbers of the blocks whose tokens are read."""
        numbers = {n - 1}
        for tap in self._own:
            tokens = parse_tokens(tap.card.representation.layer)
            numbers |= {block % n for block in tokens.blocks} if tokens else set()
        return sorted(numbers)

    def _of_staged(self, images: Tensor) -> list[Tensor]:
        backbone = self.encoder.backbone
        modules = [module for stage in list_block_modules(backbone) for module in stage]
        wanted = {tap.block for tap in self._own}
        means: dict[int, Tensor] = {}

        def seen(number: int, output: Tensor) -> None:
            if number in wanted:
                means[number] = average_map(backbone, output)

        with watch_blocks(modules, seen):
            of_card = self.encoder(images)
        return [of_card, *(means[tap.block] for tap in self._own[1:] if tap.block is not None)]


@dataclass(frozen=True, slots=True, kw_only=True)
class TruncationCost:
    """What it costs to compute an image up to a block."""

    gflops: float  # 1e9 operations; a multiplication and the addition behind it are two
    seconds: float  # of one image, in batches


def compute_truncation_costs(
    encoder: Encoder, card: EncoderCard, *, px: int, device: torch.device, batch_size: int, autocast: Any = None
) -> dict[int | None, TruncationCost]:
    """What it costs to stop at each block, by its number, and the whole network under None.

    ``card`` is that of the encoder for images of ``px``: operations are counted on a network of it without weights.
    Seconds are those of the fastest of three batches of random images, on this device.
    """
    empty = build_encoder(card, device="meta")
    with torch.device("meta"):
        flops = _at_blocks(empty, torch.empty(1, 3, px, px), clock=None)
    first = next(encoder.parameters())
    images = torch.randn(batch_size, 3, px, px, device=device, dtype=first.dtype)
    encoder = encoder.to(device).eval()
    casting = torch.autocast(device.type, dtype=autocast, enabled=autocast is not None)
    with torch.inference_mode(), casting, use_fast_forward(encoder, device):  # as features are computed
        times = [_at_blocks(encoder, images, clock=partial(_now, device)) for _ in range(_N_TIMED)]
    least = {number: min(one[number] for one in times) for number in flops}
    return {number: TruncationCost(gflops=flops[number] / 1e9, seconds=least[number] / batch_size) for number in flops}


def _at_blocks(encoder: Encoder, images: Tensor, *, clock: Any) -> dict[int | None, float]:
    """Operations, or seconds by a clock, from the start to the end of each block, and of the network."""
    modules = [module for stage in list_block_modules(encoder.backbone) for module in stage]
    found: dict[int | None, float] = {}
    if clock is None:
        with FlopCounterMode(display=False) as counter:
            with watch_blocks(
                modules, lambda number, output: found.setdefault(number, float(counter.get_total_flops()))
            ):
                encoder(images)
            found[None] = float(counter.get_total_flops())
        return found
    begun = clock()
    with watch_blocks(modules, lambda number, output: found.setdefault(number, clock() - begun)):
        encoder(images)
    found[None] = clock() - begun
    return found


def _now(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def detect_stages(card: EncoderCard) -> Stages | None:
    """The blocks of a card's network, found by running it on the meta device; None if they cannot be read.

    Those can be read that run one after the other, each once, and give one vector an image.
    """
    network = build_encoder(card, device="meta")
    stages = list_block_modules(network.backbone)
    modules = [module for stage in stages for module in stage]
    px, order, widths = card.preprocess.crop_px, [], []

    def seen(number: int, output: Tensor) -> None:
        order.append(number)
        widths.append(average_map(network.backbone, output).shape[1])

    try:
        with watch_blocks(modules, seen), torch.device("meta"):
            network(torch.empty(2, 3, px, px))
    except ERRORS:
        return None
    if not modules or order != list(range(len(modules))):
        return None
    given = iter(widths)
    pools_last = is_resnet(network.backbone)
    return Stages(tuple(tuple(next(given) for _ in stage) for stage in stages), pools_last)
