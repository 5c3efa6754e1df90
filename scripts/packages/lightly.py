"""lightly: the loss of alignment and uniformity, of two views per image, and the k-NN classifier of its benchmarks."""

import torch
from lightly.loss.hypersphere_loss import HypersphereLoss
from lightly.utils.benchmarking import knn_predict
from torch.nn.functional import normalize

REQUIREMENTS = ("lightly==1.6.0", "torch==2.15.0", "torchvision==0.29.2", "numpy==2.4.6")


def contrast(z):
    return HypersphereLoss()(torch.from_numpy(z[:, 0]), torch.from_numpy(z[:, 1]))


def accuracy(z, y, z_test, y_test, unit=True, **options):
    z, z_test = torch.from_numpy(z), torch.from_numpy(z_test)
    if unit:
        z, z_test = normalize(z), normalize(z_test)
    found = knn_predict(z_test, z.T, torch.from_numpy(y), int(y.max()) + 1, knn_k=20, **options)
    return 100 * (found[:, 0].numpy() == y_test).mean()


QUANTITIES = {
    "contrast": contrast,
    "knn_accuracy": lambda **data: accuracy(**data, knn_t=0.07),
    "knn_accuracy:default temperature": accuracy,
    "knn_accuracy:as given": lambda **data: accuracy(**data, unit=False, knn_t=0.07),
}
