"""The module that users hold: images in, features out."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from torch import Tensor, nn

if TYPE_CHECKING:
    from ..weights.store import Reading

Pooling: TypeAlias = Callable[[Any, Tensor], Tensor]
"""Backbone and images -> features.

The backbone is typed ``Any``: its own attributes (``forward_features``, ``head``) are seen by no type checker.
"""


class Encoder(nn.Module):
    """A backbone and the pooling that makes one feature vector an image of what it computes.

    Keys of the state dict are those of torchvision or timm behind the prefix ``backbone.``
    (``backbone.layer1.0.conv1.weight``, ``backbone.blocks.0.attn.qkv.weight``). Further keys, for what neither has:

    * ``backbone.avgpool.0.{conv1,bn1,conv2,bn2,conv3,bn3}.*`` for the last block of ``zoo:resnet50_last_block``;
    * ``backbone.head.weight``, shape (proj, width), for CLIP's projection, which has no bias;
    * ``pooling.{scaling,biasing,medians}`` for the quantised projection.

    Parameters ask for no gradient, so a forward pass records none; to fine-tune, call ``requires_grad_()``. Gradients
    with respect to the images are to be had by asking for them.

    Attributes
    ----------
    backbone : nn.Module
        For use without the pooling, as in dense prediction.
    pooling : callable
    dim : int
        Dimensions of the features.
    reading : Reading or None
        What was taken of the user's own file that the weights are from, and what was done to it; None for others.
    """

    def __init__(self, backbone: nn.Module, pooling: Pooling, *, dim: int) -> None:
        super().__init__()
        self.backbone = backbone
        self.pooling = pooling
        self.dim = dim
        self.reading: Reading | None = None

    def forward(self, images: Tensor) -> Tensor:
        """Features, float32 (n, dim), of normalised images, float32 (n, 3, px, px)."""
        return self.pooling(self.backbone, images)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"
