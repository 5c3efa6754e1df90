"""lightly: the loss of alignment and uniformity, on two views of each image."""

import torch
from lightly.loss.hypersphere_loss import HypersphereLoss

REQUIREMENTS = ("lightly==1.6.0", "torch==2.15.0", "torchvision==0.29.2", "numpy==2.4.6")


def contrast(z):
    return HypersphereLoss()(torch.from_numpy(z[:, 0]), torch.from_numpy(z[:, 1]))


QUANTITIES = {"contrast": contrast}
