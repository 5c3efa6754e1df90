"""pytorch-cka: CKA of features, and of two networks over a data loader."""

import torch
from cka import cka_from_features, compute_cka
from torch import nn
from torch.utils.data import DataLoader

REQUIREMENTS = ("pytorch_cka==1.1.3", "torch==2.15.0", "numpy==2.4.6")


class Half(nn.Module):
    """A network whose layer gives some of its input's numbers."""

    def __init__(self, of):
        super().__init__()
        self.layer, self.of, self.unused = nn.Identity(), of, nn.Parameter(torch.zeros(1))

    def forward(self, x):
        return self.layer(x[:, self.of])


def of_loader(a, b):
    rows = torch.cat([torch.from_numpy(a), torch.from_numpy(b)], dim=1)
    first, second = Half(slice(0, a.shape[1])), Half(slice(a.shape[1], None))
    loader = DataLoader(rows, batch_size=100)
    return compute_cka(first, second, loader, layers=["layer"], model2_layers=["layer"], progress=False)[0][0, 0]


QUANTITIES = {
    "unbiased_cka": lambda a, b: cka_from_features(torch.from_numpy(a), torch.from_numpy(b)).squeeze(),
    "minibatch_cka": of_loader,
}
