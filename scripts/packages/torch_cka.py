"""torch-cka: CKA of two networks over a data loader."""

import torch
from torch import nn
from torch.utils.data import DataLoader
from torch_cka import CKA

REQUIREMENTS = (
    "torch-cka==0.21",
    "tqdm==4.70.1",
    "matplotlib==3.11.2",
    "torch==2.15.0",
    "torchvision==0.29.2",
    "numpy==2.4.6",
)


class Half(nn.Module):
    """A network whose layer gives some of its input's numbers."""

    def __init__(self, of):
        super().__init__()
        self.layer, self.of = nn.Identity(), of

    def forward(self, x):
        return self.layer(x[:, self.of])


def of_loader(a, b, size):
    rows = torch.cat([torch.from_numpy(a), torch.from_numpy(b)], dim=1)
    first, second = Half(slice(0, a.shape[1])), Half(slice(a.shape[1], None))
    of = CKA(first, second, "a", "b", ["layer"], ["layer"])
    of.compare(DataLoader([(row, 0) for row in rows], batch_size=size))
    return of.export()["CKA"][0, 0]


QUANTITIES = {
    "unbiased_cka": lambda a, b: of_loader(a, b, len(a)),
    "minibatch_cka": lambda a, b: of_loader(a, b, 100),
}
