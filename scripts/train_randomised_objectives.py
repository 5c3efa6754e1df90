"""The eight objectives of ``train_randomised.py``, each for any network, projector and number of views.

Every one sees the views of a batch, one tensor a view, and puts the projector that was drawn between the features and
its own last layer. Losses, prototypes and predictors are lightly's, but for those it has not: classification (of the
classes, of rotations) and painting hidden pixels.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Sequence
from itertools import combinations, permutations

import torch
import torch.nn.functional as F  # noqa: N812
from randomised_design import IMAGE_PX, N_CLASSES, Choices
from torch import Tensor, nn
from train_pocket_objectives import HIDDEN_SHARE, TEACHER_TEMPERATURE, TEMPERATURE, move_average

from zoo.encoders import Encoder

os.environ.setdefault("LIGHTLY_DID_VERSION_CHECK", "True")  # importing lightly would ask its server
from lightly.loss import DINOLoss, NegativeCosineSimilarity, NTXentLoss, SwaVLoss, VICRegLoss
from lightly.models.modules.heads import BYOLPredictionHead, ProjectionHead, SwaVPrototypes

PATCH_PX = 4  # of what the context encoder hides
N_TAUGHT = 2  # views that DINO's teacher and SwAV's codes see


class Objective(nn.Module):
    """Encoder, projector and loss; ``loss`` takes views (n, 3, px, px) and labels (n,)."""

    def __init__(self, choices: Choices, encoder: Encoder, n_classes: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.projector = projector(choices)
        self.width = choices.dim if choices.projector == "none" else choices.projector_width

    def loss(self, views: Sequence[Tensor], labels: Tensor, generator: torch.Generator) -> Tensor:
        raise NotImplementedError

    def before_step(self) -> None:
        """Whatever precedes a forward pass."""

    def after_step(self, progress: float) -> None:
        """Whatever follows an update; ``progress`` goes from 0 to 1."""

    def projected(self, views: Sequence[Tensor]) -> list[Tensor]:
        """Of each view, all in one pass."""
        return list(self.projector(self.encoder(torch.cat(list(views)))).chunk(len(views)))


class Supervised(Objective):
    """Cross-entropy of the classes, on every view."""

    def __init__(self, choices: Choices, encoder: Encoder, n_classes: int) -> None:
        super().__init__(choices, encoder, n_classes)
        self.classifier = nn.Linear(self.width, n_classes)

    def loss(self, views: Sequence[Tensor], labels: Tensor, generator: torch.Generator) -> Tensor:
        return F.cross_entropy(self.classifier(torch.cat(self.projected(views))), labels.repeat(len(views)))


class Rotation(Objective):
    """By how much each view was turned: 0, 90, 180 or 270 degrees."""

    def __init__(self, choices: Choices, encoder: Encoder, n_classes: int) -> None:
        super().__init__(choices, encoder, n_classes)
        self.classifier = nn.Linear(self.width, 4)

    def loss(self, views: Sequence[Tensor], labels: Tensor, generator: torch.Generator) -> Tensor:
        turned, quarters = [], []
        for number, x in enumerate(views):
            by = (torch.arange(len(x)) + number) % 4  # as many of each; the images are in random order
            whole = torch.stack([torch.rot90(x, turns, (2, 3)) for turns in range(4)])
            turned.append(whole[by, torch.arange(len(x))])
            quarters.append(by)
        return F.cross_entropy(self.classifier(torch.cat(self.projected(turned))), torch.cat(quarters))


class ContextEncoder(Objective):
    """Patches are blanked, and their pixels are painted from the features, by one linear layer."""

    def __init__(self, choices: Choices, encoder: Encoder, n_classes: int) -> None:
        super().__init__(choices, encoder, n_classes)
        self.paint = nn.Linear(self.width, IMAGE_PX**2)

    def loss(self, views: Sequence[Tensor], labels: Tensor, generator: torch.Generator) -> Tensor:
        x = torch.cat(list(views))
        side = IMAGE_PX // PATCH_PX
        order = torch.rand(len(x), side * side, generator=generator).argsort(dim=1)
        is_hidden = (order < HIDDEN_SHARE * side * side).float().reshape(-1, 1, side, side)
        is_hidden = is_hidden.repeat_interleave(PATCH_PX, dim=2).repeat_interleave(PATCH_PX, dim=3)
        painted = self.paint(torch.cat(self.projected([x * (1 - is_hidden)]))).reshape(-1, 1, IMAGE_PX, IMAGE_PX)
        return ((painted - x[:, :1]).square() * is_hidden).sum() / is_hidden.sum()


class Pairs(Objective):
    """A loss of two views, averaged over all pairs of them: SimCLR, VICReg."""

    def __init__(self, choices: Choices, encoder: Encoder, n_classes: int) -> None:
        super().__init__(choices, encoder, n_classes)
        self.criterion = VICRegLoss() if choices.objective == "vicreg" else NTXentLoss(temperature=TEMPERATURE)

    def loss(self, views: Sequence[Tensor], labels: Tensor, generator: torch.Generator) -> Tensor:
        losses = [self.criterion(a, b) for a, b in combinations(self.projected(views), 2)]
        return torch.stack(losses).mean()


class BYOL(Objective):
    """A predictor says what a moving average of the network makes of each other view."""

    def __init__(self, choices: Choices, encoder: Encoder, n_classes: int) -> None:
        super().__init__(choices, encoder, n_classes)
        self.predictor = BYOLPredictionHead(self.width, 2 * self.width, self.width)
        self.teacher = copy.deepcopy(nn.Sequential(self.encoder, self.projector)).requires_grad_(False)
        self.criterion = NegativeCosineSimilarity()

    def loss(self, views: Sequence[Tensor], labels: Tensor, generator: torch.Generator) -> Tensor:
        predicted = self.predictor(torch.cat(self.projected(views))).chunk(len(views))
        with torch.no_grad():
            wanted = self.teacher(torch.cat(list(views))).chunk(len(views))
        pairs = permutations(range(len(views)), 2)
        return torch.stack([self.criterion(predicted[i], wanted[j]) for i, j in pairs]).mean()

    def after_step(self, progress: float) -> None:
        move_average(self.teacher, nn.Sequential(self.encoder, self.projector), progress)


class SwAV(Objective):
    """Clusters of one view, balanced over the batch, are predicted from the others."""

    def __init__(self, choices: Choices, encoder: Encoder, n_classes: int) -> None:
        super().__init__(choices, encoder, n_classes)
        self.prototypes = SwaVPrototypes(self.width, N_CLASSES)
        self.criterion = SwaVLoss()

    def before_step(self) -> None:
        self.prototypes.normalize()

    def loss(self, views: Sequence[Tensor], labels: Tensor, generator: torch.Generator) -> Tensor:
        scores = [self.prototypes(F.normalize(z, dim=1)) for z in self.projected(views)]
        return self.criterion(scores[:N_TAUGHT], scores[N_TAUGHT:])


class DINO(Objective):
    """Soft classes that a moving average of the network gives two views, centred and sharpened, for all others."""

    def __init__(self, choices: Choices, encoder: Encoder, n_classes: int) -> None:
        super().__init__(choices, encoder, n_classes)
        self.prototypes = SwaVPrototypes(self.width, N_CLASSES)
        self.teacher = copy.deepcopy(nn.Sequential(self.encoder, self.projector)).requires_grad_(False)
        self.taught = copy.deepcopy(self.prototypes).requires_grad_(False)
        self.criterion = DINOLoss(N_CLASSES, teacher_temp=TEACHER_TEMPERATURE)

    def before_step(self) -> None:
        self.prototypes.normalize()

    def loss(self, views: Sequence[Tensor], labels: Tensor, generator: torch.Generator) -> Tensor:
        with torch.no_grad():
            features = self.teacher(torch.cat(list(views[:N_TAUGHT])))
            taught = self.taught(F.normalize(features, dim=1)).chunk(N_TAUGHT)
        student = [self.prototypes(F.normalize(z, dim=1)) for z in self.projected(views)]
        return self.criterion(list(taught), student)

    def after_step(self, progress: float) -> None:
        move_average(self.teacher, nn.Sequential(self.encoder, self.projector), progress)
        move_average(self.taught, self.prototypes, progress)


OBJECTIVES: dict[str, type[Objective]] = {
    "simclr": Pairs, "vicreg": Pairs, "byol": BYOL, "swav": SwAV, "dino": DINO,
    "context_encoder": ContextEncoder, "rotnet": Rotation, "supervised": Supervised,
}  # fmt: skip


def projector(choices: Choices) -> nn.Module:
    """Nothing, a linear layer, or two with batch norm and ReLU between."""
    width = choices.projector_width
    if choices.projector == "none":
        return nn.Identity()
    if choices.projector == "linear":
        return ProjectionHead([(choices.dim, width, None, None)])
    hidden = (choices.dim, width, nn.BatchNorm1d(width), nn.ReLU())
    return ProjectionHead([hidden, (width, width, None, None)])
