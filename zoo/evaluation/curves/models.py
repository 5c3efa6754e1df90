"""Networks of a transfer: an encoder with the decoder that a task needs, its losses, and candidates.

A candidate is an encoder of the zoo or of the user's, with its architecture at random weights for the controls. The
decoder is a linear head for classes and a U-Net for maps, trained with the encoder or alone.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from typing import Any

from ...cards.catalogue import load_catalogue
from ...cards.schema import Preprocess
from ...errors import DataError, QueryError
from ...features.store import hash_network_code, hash_weights
from ...optional import require_extra
from .recipe import TransferTask

with require_extra("models", needed_for="A decoder"):
    import numpy as np
    import torch
    from torch import Tensor, nn
    from torch.nn import functional
    from torchvision.ops import Conv2dNormActivation

    from ...encoders import Encoder, build_encoder
    from ...encoders.encoder import QuantisedProjection
    from ...encoders.maps import StageReader, build_stage_reader

MOST_CHANNELS = 256  # of the decoder's deepest map
LEAST_CHANNELS = 8  # of any of its maps
CHANNELS_PER_GROUP = 8  # of a group norm


class LinearHead(nn.Module):
    """One fully connected layer from features to the logits of classes."""

    def __init__(self, dim: int, n_outputs: int) -> None:
        super().__init__()
        self.linear = nn.Linear(dim, n_outputs)

    def forward(self, features: Tensor) -> Tensor:
        """Logits, float32 (n, n_outputs), of features, float32 (n, dim)."""
        output: Tensor = self.linear(features)
        return output


class UNetDecoder(nn.Module):
    """Blocks that double the resolution, from the deepest stage of an encoder to its images, with skip connections.

    A block enlarges the map that comes from below, bilinearly, adds the stages of the new resolution and convolves,
    with half as many channels for the next block; the last one adds the image itself. Of stages of one stride, as the
    depths of a transformer are, each earlier one joins a level higher. Every stage is projected to the channels of its
    level and normalised before it is added; norms are over groups of channels of one image.

    ``channels`` and ``strides`` are those of the stages, shallow first, as in
    :class:`zoo.encoders.maps.StageReader`; images are ``px`` high and wide.

    References
    ----------
    Ronneberger et al. 2015, U-Net. Ranftl et al. 2021, Vision Transformers for Dense Prediction: the pyramid.
    """

    def __init__(self, channels: Sequence[int], strides: Sequence[int], n_outputs: int, px: int) -> None:
        super().__init__()
        level_strides, self.levels = compute_pyramid((1, *strides))  # the image is a stage too
        self.sizes = [math.ceil(px / stride) for stride in level_strides]
        widths = [_width(min(channels[-1], MOST_CHANNELS))]
        for _ in level_strides[1:]:
            widths.append(_width(widths[-1] // 2))
        self.projections = nn.ModuleList(
            _convolution(n_in, widths[level], kernel_px=1)
            for n_in, level in zip((3, *channels), self.levels, strict=True)
        )
        self.blocks = nn.ModuleList()
        for level, width in enumerate(widths[:-1]):
            narrowing = _convolution(width, widths[level + 1])
            self.blocks.append(nn.Sequential(_convolution(width, width), narrowing) if level else narrowing)
        self.blocks.append(_convolution(widths[-1], widths[-1]))
        self.output = nn.Conv2d(widths[-1], n_outputs, kernel_size=1)

    def forward(self, stages: Sequence[Tensor], images: Tensor) -> Tensor:
        """Map, float32 (n, n_outputs, px, px), of an encoder's stages and the images that it saw, (n, 3, px, px)."""
        joining: list[list[Tensor]] = [[] for _ in self.sizes]
        for stage, project, level in zip((images, *stages), self.projections, self.levels, strict=True):
            joining[level].append(_resized(project(stage), self.sizes[level]))
        x: Tensor | None = None
        for block, size, added in zip(self.blocks, self.sizes, joining, strict=True):
            x = block(sum(added) if x is None else sum(added, _resized(x, size)))  # (n, width, size, size)
        output: Tensor = self.output(x)
        return output


def compute_pyramid(strides: Sequence[int]) -> tuple[list[float], list[int]]:
    """Strides of the levels of a U-Net, and the level at which each stage joins.

    ``strides`` are that of the image, 1, and those of the stages, ascending. The levels begin at the deepest stage and
    end at stride 1. A stage joins at the first level as fine as its stride, and finer than that of the stage below; or
    else at the last.

    >>> compute_pyramid([1, 16, 16, 16, 16])  # a transformer
    ([16.0, 8.0, 4.0, 2.0, 1.0], [4, 3, 2, 1, 0])
    """
    level_strides = [float(strides[-1])]
    while len(level_strides) == 1 or level_strides[-1] > 1:
        level_strides.append(max(level_strides[-1] / 2, 1.0))
    levels = [0]
    for stride in reversed(strides[:-1]):
        finer = range(levels[-1] + 1, len(level_strides))
        levels.append(next((level for level in finer if level_strides[level] <= stride), len(level_strides) - 1))
    return level_strides, levels[::-1]


def _convolution(n_in: int, n_out: int, *, kernel_px: int = 3) -> nn.Module:
    norm = partial(nn.GroupNorm, n_out // CHANNELS_PER_GROUP)
    block: nn.Module = Conv2dNormActivation(n_in, n_out, kernel_px, norm_layer=norm)
    return block


def _width(n_channels: int) -> int:
    return max(LEAST_CHANNELS, math.ceil(n_channels / CHANNELS_PER_GROUP) * CHANNELS_PER_GROUP)


def _resized(x: Tensor, px: int) -> Tensor:
    if x.shape[-2:] == (px, px):
        return x
    return functional.interpolate(x, size=(px, px), mode="bilinear", align_corners=False)


class TransferModel(nn.Module):
    """An encoder and a decoder, ``head``; made by :func:`build_transfer_model`.

    A U-Net takes its stages from ``reader``, which shares the modules of the encoder. A linear head may be called with
    features that were computed before. A frozen encoder stays in eval mode, whatever mode the model is put into, and
    records no gradient.
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
        """Input of a linear head, (n, dim), without gradient; of a frozen encoder the same at every call."""
        with torch.no_grad():
            features: Tensor = self.encoder(images)
        return features

    def train(self, mode: bool = True) -> TransferModel:
        """Training mode for the decoder, and for an encoder that is not frozen."""
        super().train(mode)
        if self.frozen:
            self.encoder.eval()
        return self


def build_transfer_model(
    encoder: Encoder, task: TransferTask, *, n_outputs: int, px: int, frozen: bool, seed: int
) -> TransferModel:
    """A linear head on the features of an encoder, or a U-Net on its stages, as the task needs; in training mode.

    The encoder becomes a part of the model, not a copy: from now on its parameters require gradients, or do not if it
    is ``frozen``. The decoder's weights depend on ``seed`` alone and are the same on every device; the global random
    state is neither read nor changed. Refuses (QueryError) a map of an encoder without spatial features or of another
    size, and training an encoder through features that it rounds.
    """
    reader = build_stage_reader(encoder, px=px) if task.is_dense else None
    rounds = isinstance(encoder.pooling, QuantisedProjection) and encoder.pooling.instead is None
    if reader is None and not frozen and rounds:
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


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """An encoder that can be made again and again, in other processes too."""

    name: str  # id of its card, or the user's name for it
    preprocess: Preprocess
    weights_hash: str
    architecture_hash: str  # candidates that share it, and the preprocessing, share their controls
    pretrained: Callable[[], Encoder]  # on the CPU, with its weights
    untrained: Callable[[int], Encoder]  # by seed, on the CPU, with random weights

    @property
    def control_hash(self) -> str:
        """Hash of all that a control depends on in addition to data, task and recipe."""
        return _hash([self.architecture_hash, self.preprocess.hashed])


def candidate(name: str) -> Candidate:
    """An encoder of the catalogue, by the id of its card; its weights are fetched, for their hash.

    Raises as :func:`zoo.load`.
    """
    card = load_catalogue()[name]
    about = card.architecture
    return Candidate(
        name=card.id,
        preprocess=card.preprocess,
        weights_hash=hash_weights(_loaded(card.id)),
        architecture_hash=_hash([about.backbone, about.options, card.representation.layer, card.representation.dim]),
        pretrained=partial(_loaded, card.id),
        untrained=partial(_untrained, card.id),
    )


def own_candidate(
    name: str,
    *,
    preprocess: Preprocess,
    pretrained: Callable[[], Encoder],
    untrained: Callable[[int], Encoder],
) -> Candidate:
    """An encoder that no card describes.

    Parameters
    ----------
    name : str
        For reports and figures; rows of results need a card.
    preprocess : Preprocess
        ``zoo.card(...).preprocess`` of one with the same input, or a new one.
    pretrained, untrained : callable
        () and (seed) -> :class:`zoo.encoders.Encoder` of one architecture on the CPU, with trained and random weights.
        Functions of a module, if runs are to go to several processes.

    Raises
    ------
    QueryError
        If one of them returns no :class:`zoo.encoders.Encoder`, or the two are not of one architecture.
    """
    one, other = pretrained(), untrained(0)
    for made in (one, other):
        if not isinstance(made, Encoder):
            raise QueryError(
                f"What gives {name!r} gave a {type(made).__name__}; expected a zoo.encoders.Encoder: put a network "
                "into Encoder(network, pooling, dim=...), where pooling makes features of network and images."
            )
    shapes, random = ({key: tuple(value.shape) for key, value in each.state_dict().items()} for each in (one, other))
    if shapes != random:
        odd = sorted(shapes.items() ^ random.items())[0][0]
        raise QueryError(
            f"The pretrained and the untrained encoder of {name!r} differ in {odd!r}; expected one architecture, with "
            "trained and with random weights."
        )
    return Candidate(
        name=name,
        preprocess=preprocess,
        weights_hash=hash_weights(one),
        architecture_hash=_hash([str(one), sorted(shapes.items()), hash_network_code(one)]),
        pretrained=pretrained,
        untrained=untrained,
    )


def _loaded(name: str) -> Encoder:
    from ...loading import load

    return load(name, device="cpu")[0]  # type: ignore[return-value]  # what load gives is an Encoder


def _untrained(name: str, seed: int) -> Encoder:
    return build_encoder(load_catalogue()[name], seed=seed, device="cpu")


def _hash(value: object) -> str:
    return blake2b(json.dumps(value, sort_keys=True, default=str).encode(), digest_size=16).hexdigest()


# --- losses ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TargetScale:
    """Where the numbers of a map lie: a network predicts ``(target - centre) / spread``."""

    centre: tuple[float, ...] = ()  # of each channel; none: numbers are as they are
    spread: float = 1.0

    def standardised(self, target: Tensor) -> Tensor:
        """From the unit of the data to that of training, shape (n, c, ...); classes stay what they are."""
        return (target - self._centre(target)) / self.spread if self.centre else target

    def in_units(self, prediction: Tensor) -> Tensor:
        """From the unit of training to that of the data."""
        return prediction * self.spread + self._centre(prediction) if self.centre else prediction

    def _centre(self, like: Tensor) -> Tensor:
        return like.new_tensor(self.centre).view(-1, *(1,) * (like.dim() - 2))  # (c, 1, 1)


def compute_target_scale(values: np.ndarray, *, what: str) -> TargetScale:
    """Median of each channel of float32 values (n, c), and mean absolute deviation from it over all channels.

    Refuses values that are all the same; ``what`` says of what they are.

    >>> compute_target_scale(np.float32([[1], [2], [6]]), what="three depths")
    TargetScale(centre=(2.0,), spread=1.6666666666666667)
    """
    centre = np.median(values, axis=0).astype(np.float64)  # (c,)
    spread = float(np.mean(np.abs(values.astype(np.float64) - centre)))
    if not spread:
        constant = ", ".join(f"{number:g}" for number in centre)
        raise DataError(f"All of {what} are {constant}; expected a target that varies, for there is nothing to learn.")
    return TargetScale(tuple(centre.tolist()), spread)


def compute_loss(task: TransferTask, prediction: Tensor, target: Tensor, valid: Tensor | None) -> Tensor:
    """Mean of the task's loss over the images, or over the valid numbers of their maps; float32 (), lower is better.

    The cross-entropy of logits (n, n_outputs) and classes, int64 (n,); or the mean absolute error of maps, float32
    (n, n_outputs, px, px), both in the unit of training and finite everywhere, over the pixels of ``valid``, bool
    (n, px, px), of which there is at least one.
    """
    if valid is None:
        return functional.cross_entropy(prediction, target)
    wrong = (prediction - target).abs() * valid.unsqueeze(1)  # (n, c, px, px)
    return wrong.sum() / count_loss_terms(task, target, valid)


def count_loss_terms(task: TransferTask, target: Tensor, valid: Tensor | None) -> Tensor | int:
    """Numbers that :func:`compute_loss` is the mean of, by which means over parts of a batch are weighted."""
    return len(target) if valid is None else valid.sum() * int(task.n_channels or 1)


def compute_risks(
    task: TransferTask, prediction: Tensor, target: Tensor, valid: Tensor | None, *, scale: TargetScale
) -> dict[str, Tensor]:
    """How wrong the prediction is for each image, by every metric of the task: float32 (n,), lower is better.

    Prediction, target and valid pixels are as in :func:`compute_loss`, but that the target is in the unit of the data
    and each image has a valid pixel. ``transfer_error``: 0 or 100 %. ``*_l1_error``: mean absolute error over the valid
    pixels (and the components), in the unit of the data. ``normals_angular_error``: mean angle in degrees between the
    predicted and the true direction; a prediction of length 0 has none, and is wrong by 90.
    """
    if valid is None:
        wrong = prediction.argmax(dim=1) != target
        return {task.metrics[0]: 100.0 * wrong.float()}
    prediction = scale.in_units(prediction)
    weight = valid.float() / valid.sum(dim=(1, 2), keepdim=True)  # (n, px, px), sums to 1 an image
    absolute = (prediction - target).abs().mean(dim=1)  # (n, px, px)
    risks = {task.metrics[0]: (absolute * weight).sum(dim=(1, 2))}
    for metric in task.metrics[1:]:  # of normals, the angle
        risks[metric] = (compute_angles(prediction, target) * weight).sum(dim=(1, 2))
    return risks


def compute_angles(one: Tensor, other: Tensor) -> Tensor:
    """Degrees between vectors of any length, shape (n, 3, ...) -> (n, ...); 90 if one has length 0.

    By the tangent of half the angle, which unlike the inverse cosine is exact near 0 and 180 degrees.
    """
    a, b = functional.normalize(one, dim=1), functional.normalize(other, dim=1)
    return torch.rad2deg(2 * torch.atan2((a - b).norm(dim=1), (a + b).norm(dim=1)))
