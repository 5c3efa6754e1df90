"""The objectives of ``train_pocket.py``: from a card to what is minimised; losses and heads are lightly's.

Each takes the numbers that a card states (projector, temperature, classes) from the card and has none of its own but
those that no card has a place for: the constants below.
"""

from __future__ import annotations

import copy
import math
import os
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from train_pocket_views import Views

from zoo.cards.schema import EncoderCard
from zoo.encoders import Encoder

os.environ.setdefault("LIGHTLY_DID_VERSION_CHECK", "True")  # importing lightly would ask its server
from lightly.loss import BarlowTwinsLoss, DINOLoss, NTXentLoss, VICRegLoss
from lightly.models import utils
from lightly.models.modules.heads import (
    DINOProjectionHead,
    ProjectionHead,
)
from lightly.models.modules.masked_vision_transformer_decoder_timm import MaskedVisionTransformerDecoderTIMM
from lightly.models.modules.masked_vision_transformer_timm import MaskedVisionTransformerTIMM

TEMPERATURE = 0.2  # of SimCLR, unless objective.variant says another
MOMENTUM = 0.98  # of DINO's moving average at the first step; 1 at the last
TEACHER_TEMPERATURE = 0.02  # of DINO; from 0.05 on, all images stay in all classes alike for as few steps as these
HIDDEN_SHARE = 0.6  # of the patches, in MAE
DECODER = {"embed_dim": 32, "depth": 1, "num_heads": 2}  # of MAE


class Objective(nn.Module):
    """Encoder, heads and loss.

    Parameters
    ----------
    card : EncoderCard
    encoder : Encoder
        Trained in place.
    n_classes : int
        Of the labels, which only the supervised objective reads.
    """

    own_augmentations: tuple[str, ...] = ()  # words of a card that are the objective itself, and no view

    def __init__(self, card: EncoderCard, encoder: Encoder, n_classes: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.head: nn.Module = nn.Identity()

    def loss(self, images: Tensor, labels: Tensor, views: Views) -> Tensor:
        """Of one batch of uint8 images (n, 3, px, px)."""
        raise NotImplementedError

    def after_step(self, progress: float) -> None:
        """Whatever follows an update; ``progress`` goes from 0 to 1."""

    def projected(self, x: Tensor) -> Tensor:
        return self.head(self.encoder(x))

    def n_projector_parameters(self) -> int:
        """Weights and biases of the head of the first branch."""
        return sum(parameter.numel() for parameter in self.head.parameters())


class Supervised(Objective):
    """Cross-entropy of the classes, through a linear layer."""

    def __init__(self, card: EncoderCard, encoder: Encoder, n_classes: int) -> None:
        super().__init__(card, encoder, n_classes)
        self.head = nn.Linear(card.representation.dim, n_classes)

    def loss(self, images: Tensor, labels: Tensor, views: Views) -> Tensor:
        return F.cross_entropy(self.projected(views(images)), labels)

    def n_projector_parameters(self) -> int:
        return 0  # a classifier is no projector


class Rotation(Objective):
    """By how much the image was turned: 0, 90, 180 or 270 degrees."""

    own_augmentations = ("rotate",)

    def __init__(self, card: EncoderCard, encoder: Encoder, n_classes: int) -> None:
        super().__init__(card, encoder, n_classes)
        self.head = nn.Linear(card.representation.dim, 4)

    def loss(self, images: Tensor, labels: Tensor, views: Views) -> Tensor:
        x = views(images)
        quarters = torch.arange(len(x)) % 4  # as many of each; the images are in random order
        turned = torch.stack([torch.rot90(image, int(n), (1, 2)) for image, n in zip(x, quarters, strict=True)])
        return F.cross_entropy(self.projected(turned), quarters)


class TwoViews(Objective):
    """Two views of each image through one head, and a loss of the two: SimCLR, VICReg, Barlow Twins."""

    def __init__(self, card: EncoderCard, encoder: Encoder, n_classes: int) -> None:
        super().__init__(card, encoder, n_classes)
        self.head = projector(card)
        self.criterion = {
            "simclr": lambda: NTXentLoss(temperature=_stated(card, "temperature", TEMPERATURE)),
            "vicreg": VICRegLoss,
            "barlow_twins": BarlowTwinsLoss,
        }[str(card.objective.name)]()

    def loss(self, images: Tensor, labels: Tensor, views: Views) -> Tensor:
        return self.criterion(self.projected(views(images)), self.projected(views(images)))


class DINO(Objective):
    """A student gives the soft classes that a moving average of it gives another view, centred and sharpened."""

    def __init__(self, card: EncoderCard, encoder: Encoder, n_classes: int) -> None:
        super().__init__(card, encoder, n_classes)
        about: Any = card.projector
        sizes: Any = (card.representation.dim, about.hidden_width, about.output_dim, card.objective.n_classes)
        self.head, self.target = (DINOProjectionHead(*sizes, batch_norm=True) for _ in range(2))
        self.target.load_state_dict(self.head.state_dict())
        self.teacher = copy.deepcopy(self.encoder)
        self.teacher.requires_grad_(False)
        self.target.requires_grad_(False)
        self.criterion = DINOLoss(card.objective.n_classes, teacher_temp=TEACHER_TEMPERATURE)

    def loss(self, images: Tensor, labels: Tensor, views: Views) -> Tensor:
        both = [views(images), views(images)]
        with torch.no_grad():
            taught = [self.target(self.teacher(x)) for x in both]
        return self.criterion(taught, [self.projected(x) for x in both])

    def after_step(self, progress: float) -> None:
        move_average(self.teacher, self.encoder, progress)
        move_average(self.target, self.head, progress)


class MAE(Objective):
    """Most patches are hidden; the encoder sees the others, and a light decoder paints the pixels of the hidden."""

    own_augmentations = ("masking",)

    def __init__(self, card: EncoderCard, encoder: Encoder, n_classes: int) -> None:
        super().__init__(card, encoder, n_classes)
        vit: Any = encoder.backbone
        self.patch_px: Any = card.architecture.patch_size_px
        self.masked = MaskedVisionTransformerTIMM(vit, weight_initialization="skip", pos_embed_initialization="skip")
        self.masked.mask_token.requires_grad_(False)  # a decoder has its own
        self.embed = nn.Linear(vit.embed_dim, DECODER["embed_dim"])
        self.decoder = MaskedVisionTransformerDecoderTIMM(num_patches=vit.patch_embed.num_patches, **DECODER)
        self.paint = nn.Linear(DECODER["embed_dim"], 3 * self.patch_px**2)

    def loss(self, images: Tensor, labels: Tensor, views: Views) -> Tensor:
        x = views(images)
        n, length = len(x), self.masked.sequence_length
        order = torch.rand(n, length - 1, generator=views.generator).argsort(dim=1) + 1  # of the patches
        n_hidden = int(HIDDEN_SHARE * (length - 1))
        hidden, seen = (
            order[:, :n_hidden],
            torch.cat([torch.zeros(n, 1, dtype=torch.int64), order[:, n_hidden:]], dim=1),
        )
        encoded = self.embed(self.masked.encode(x, idx_keep=seen))
        tokens = utils.repeat_token(self.decoder.mask_token, (n, length))
        tokens = utils.set_at_index(tokens, seen, encoded.type_as(tokens))
        painted = self.paint(utils.get_at_index(self.decoder(tokens), hidden))
        wanted = utils.get_at_index(utils.patchify(x, self.patch_px), hidden - 1)
        return F.mse_loss(painted, wanted)


OBJECTIVES: dict[str, type[Objective]] = {
    "barlow_twins": TwoViews,
    "dino": DINO,
    "mae": MAE,
    "rotnet": Rotation,
    "simclr": TwoViews,
    "vicreg": TwoViews,
}


def objective_of(card: EncoderCard, encoder: Encoder, n_classes: int) -> Objective:
    """The objective that a card names, with freshly drawn heads."""
    if card.objective.mode == "supervised":
        return Supervised(card, encoder, n_classes)
    return OBJECTIVES[str(card.objective.name)](card, encoder, n_classes)


def projector(card: EncoderCard) -> nn.Module:
    """The head that a card describes, without its last layer's batch norm."""
    about: Any = card.projector
    width: int = card.representation.dim
    if about.first_arch == "identity":
        return nn.Identity()
    blocks: list[Any] = []
    for _ in range(about.hidden_depth if about.first_arch == "mlp" else 0):
        blocks.append((width, about.hidden_width, nn.BatchNorm1d(about.hidden_width), nn.ReLU()))
        width = about.hidden_width
    return ProjectionHead([*blocks, (width, about.output_dim, None, None)])


def _stated(card: EncoderCard, what: str, default: float) -> float:
    """A number in ``objective.variant``, such as "temperature 1"."""
    variant = card.objective.variant
    if isinstance(variant, str) and variant.startswith(f"{what} "):
        return float(variant.removeprefix(what))
    return default


@torch.no_grad()
def move_average(average: nn.Module, current: nn.Module, progress: float) -> None:
    """An exponential moving average of parameters; buffers are copied."""
    momentum = 1 - (1 - MOMENTUM) * (math.cos(math.pi * progress) + 1) / 2
    for kept, new in zip(average.parameters(), current.parameters(), strict=True):
        kept.lerp_(new, 1 - momentum)
    for kept, new in zip(average.buffers(), current.buffers(), strict=True):
        kept.copy_(new)
