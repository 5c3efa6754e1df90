"""What the tests of encoders share: weights that hide nothing, and a ResNet written out as plain functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeVar

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from zoo.cards.catalogue import load_catalogue
from zoo.cards.schema import EncoderCard
from zoo.encoders import Encoder, build_encoder

Window = Callable[[Tensor, Tensor, int], Tensor]
M = TypeVar("M", bound=nn.Module)


N_WIDTHS = {"cls": 1, "4xcls": 4, "cls+avg": 2, "avg": 1, "proj+cls": 1, "proj": 0, "pred": 0}  # of tokens in features


def reduced_transformer(card: EncoderCard, *, depth: int, width: int) -> EncoderCard:
    """The same transformer with fewer blocks and narrower tokens; what it projects to stays as wide as it is."""
    architecture, representation = card.architecture, card.representation
    options = architecture.options | {"depth": depth, "embed_dim": width}
    n_widths = N_WIDTHS[str(representation.layer)]
    built = build_encoder(card, device="meta").backbone.embed_dim
    dim = representation.dim + n_widths * (width - built)
    return replace(
        card,
        architecture=replace(architecture, options=options),
        representation=replace(representation, dim=dim),
    )


def with_random_statistics(module: M) -> M:
    """A network in float64 whose every parameter and buffer matters."""
    source = torch.Generator().manual_seed(0)
    for key, tensor in module.state_dict().items():
        if key.endswith(("running_var", "gamma", "gamma_1", "gamma_2")) or (
            key.endswith("weight") and tensor.ndim == 1
        ):
            tensor.uniform_(0.6, 1.4, generator=source)
        elif key.endswith(("running_mean", "bias")):
            tensor.uniform_(-0.3, 0.3, generator=source)
        elif key.endswith(("cls_token", "pos_embed", "bias_table", "medians", "biasing")):
            tensor.uniform_(-1, 1, generator=source)
        elif tensor.ndim == 2:
            tensor.normal_(0, 1.5 * tensor.shape[1] ** -0.5, generator=source)
    return module.double()


def encoder_with_random_statistics(
    encoder: str | EncoderCard, *, depth: int | None = None, width: int | None = None
) -> Encoder:
    """An encoder in float64 whose every parameter and buffer matters.

    As initialised, norms are the identity, biases zero, attention even, layer scales and class token small: a network
    that forgot one of them would give the same features.

    Parameters
    ----------
    encoder : str or EncoderCard
    depth, width : int, optional
        Build a transformer of fewer blocks and of narrower tokens, to save time and memory.
    """
    card = load_catalogue()[encoder] if isinstance(encoder, str) else encoder
    if depth is not None and width is not None:
        card = reduced_transformer(card, depth=depth, width=width)
    return with_random_statistics(build_encoder(card))


@contextmanager
def blocks_that_pass_on(encoder: Encoder, *, after: int = 0) -> Iterator[None]:
    """Inside, blocks of a transformer ``after`` so many give back their tokens, whose shape is the same."""
    blocks = list(getattr(encoder.backbone, "blocks", ()))[after:]
    for block in blocks:
        block.forward = lambda tokens, *others, **more: tokens
    try:
        yield
    finally:
        for block in blocks:
            del block.forward


SAME = 1e-10
"""Relative difference of what is computed in float64 in two ways: 500,000 of its roundings, from some 10,000 sums."""


def relative_difference(left: Tensor, right: Tensor) -> float:
    """Largest difference, in units of the mean magnitude of the first."""
    return float((left - right).abs().max() / left.abs().mean())


def random_images(n: int, px: int, *, seed: int = 1) -> Tensor:
    """Normalised images, (n, 3, px, px)."""
    return torch.randn(n, 3, px, px, generator=torch.Generator().manual_seed(seed))


def exact_images(n: int, px: int, *, seed: int = 1) -> Tensor:
    """The same in float64, for encoders in it."""
    return random_images(n, px, seed=seed).double()


def resnet_by_hand(
    weights: Mapping[str, Tensor], images: Tensor, *, conv: Window, max_pool: Callable[[Tensor], Tensor]
) -> Tensor:
    """The last feature map of a bottleneck ResNet of any width and depth, from nothing but its weights."""

    def norm(x: Tensor, name: str) -> Tensor:
        mean, variance, scale, shift = (
            weights[f"{name}.{part}"][:, None, None] for part in ("running_mean", "running_var", "weight", "bias")
        )
        return (x - mean) / torch.sqrt(variance + 1e-5) * scale + shift

    x = max_pool(norm(conv(images, weights["conv1.weight"], 2), "bn1").relu())
    for stage in range(1, 5):
        block = 0
        while f"layer{stage}.{block}.conv1.weight" in weights:
            at = f"layer{stage}.{block}"
            stride = 2 if stage > 1 and block == 0 else 1
            out = norm(conv(x, weights[f"{at}.conv1.weight"], 1), f"{at}.bn1").relu()
            out = norm(conv(out, weights[f"{at}.conv2.weight"], stride), f"{at}.bn2").relu()
            out = norm(conv(out, weights[f"{at}.conv3.weight"], 1), f"{at}.bn3")
            if f"{at}.downsample.0.weight" in weights:
                x = norm(conv(x, weights[f"{at}.downsample.0.weight"], stride), f"{at}.downsample.1")
            x = (x + out).relu()
            block += 1
    return x


def symmetric_conv(x: Tensor, weight: Tensor, stride: int) -> Tensor:
    """PyTorch's padding: half a kernel on every side."""
    return F.conv2d(x, weight, stride=stride, padding=weight.shape[-1] // 2)


def symmetric_max_pool(x: Tensor) -> Tensor:
    return F.max_pool2d(x, 3, stride=2, padding=1)


def weights_of(module: nn.Module) -> dict[str, Tensor]:
    return dict(module.state_dict())
