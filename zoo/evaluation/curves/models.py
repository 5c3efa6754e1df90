"""An encoder with the decoder that a task needs, to be trained together or the decoder alone."""

from __future__ import annotations

from typing import Any

from ...errors import QueryError
from ...optional import requires_extra
from .tasks import Task

with requires_extra("models", needed_for="Training a transfer"):
    import torch
    from torch import Tensor, nn

    from ...encoders import Encoder
    from ...encoders.pooling import QuantisedProjection
    from ...encoders.stages import StageReader, stage_reader
    from .decoders import LinearHead, UNetDecoder


class TransferModel(nn.Module):
    """An encoder and a decoder; made by :func:`transfer_model`.

    Attributes
    ----------
    encoder : Encoder
    head : LinearHead or UNetDecoder
        The decoder. A linear head may be called with features that were computed before.
    reader : StageReader or None
        Where the U-Net takes its stages from; it shares the modules of the encoder.
    frozen : bool
        The encoder stays in eval mode, whatever mode the model is put into, and records no gradient.
    """

    def __init__(
        self, encoder: Encoder, head: LinearHead | UNetDecoder, *, reader: StageReader | None, frozen: bool
    ) -> None:
        super().__init__()
        self.encoder = encoder.requires_grad_(not frozen)
        self.head = head
        self.reader = reader
        self.frozen = frozen

    def forward(self, images: Tensor) -> Tensor:
        """Logits, (n, n_outputs), or maps, (n, n_outputs, px, px), of normalised images, float32 (n, 3, px, px)."""
        with torch.set_grad_enabled(torch.is_grad_enabled() and not self.frozen):
            seen: Any = self.encoder(images) if self.reader is None else self.reader(images)
        output: Tensor = self.head(seen) if self.reader is None else self.head(seen, images)
        return output

    def encoder_features(self, images: Tensor) -> Tensor:
        """What the linear head of a frozen encoder sees, (n, dim), without gradient; the same at every call."""
        with torch.no_grad():
            features: Tensor = self.encoder(images)
        return features

    def train(self, mode: bool = True) -> TransferModel:
        """Training mode of what is trained: of the decoder, and of an encoder that is not frozen."""
        super().train(mode)
        if self.frozen:
            self.encoder.eval()
        return self


def transfer_model(encoder: Encoder, task: Task, *, n_outputs: int, px: int, frozen: bool, seed: int) -> TransferModel:
    """A linear head on the features of an encoder, or a U-Net on its stages, as the task needs.

    Parameters
    ----------
    encoder : Encoder
        Becomes a part of the model, not a copy: its parameters ask for gradients, or do not, from now on.
    task : Task
    n_outputs : int
        Classes, or channels of a map.
    px : int
        Height and width of the images.
    frozen : bool
        Train the decoder alone.
    seed : int
        Of the decoder's weights, which are the same on every device; the global random state is neither read nor
        changed.

    Returns
    -------
    TransferModel
        On the device of the encoder; in training mode.

    Raises
    ------
    QueryError
        If a map is asked of an encoder without spatial features, or not of this size; if an encoder is to be trained
        through features that it rounds.
    """
    reader = stage_reader(encoder, px=px) if task.is_dense else None
    if reader is None and not frozen and _rounds(encoder):
        raise QueryError(
            "The features of this encoder are rounded, so that no gradient reaches its weights; expected it frozen, or "
            "other features of it, such as NAME@cls."
        )
    device = next((tensor.device for tensor in encoder.parameters()), torch.device("cpu"))
    with torch.random.fork_rng(devices=[]), torch.device("meta" if device.type == "meta" else "cpu"):
        torch.default_generator.manual_seed(seed)  # torch.manual_seed would also seed every accelerator
        head: LinearHead | UNetDecoder
        if reader is None:
            head = LinearHead(encoder.dim, n_outputs)
        else:
            head = UNetDecoder(reader.channels, reader.strides, n_outputs, px)
    return TransferModel(encoder, head.to(device), reader=reader, frozen=frozen).train()


def _rounds(encoder: Encoder) -> bool:
    return isinstance(encoder.pooling, QuantisedProjection) and encoder.pooling.instead is None
