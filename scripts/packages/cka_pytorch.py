"""cka-pytorch: CKA of two networks over a data loader."""

import torch
from cka_pytorch.cka import CKACalculator
from torch import nn
from torch.utils.data import DataLoader

REQUIREMENTS = ("cka-pytorch==1.1.3", "torch==2.15.0", "numpy==2.4.6")


class Half(nn.Module):
    """A network whose layer gives some of its input's numbers."""

    def __init__(self, of):
        super().__init__()
        self.layer, self.of, self.unused = nn.Identity(), of, nn.Parameter(torch.zeros(1))

    def forward(self, x):
        return self.layer(x[:, self.of])


def of_loader(a, b, size):
    rows = torch.cat([torch.from_numpy(a), torch.from_numpy(b)], dim=1)
    first, second = Half(slice(0, a.shape[1])), Half(slice(a.shape[1], None))
    loader = DataLoader([(row, 0) for row in rows], batch_size=size)
    of = CKACalculator(first, second, ["layer"], ["layer"], verbose=False)
    return of.calculate_cka_matrix(loader, num_epochs=1)[0, 0]


QUANTITIES = {
    "unbiased_cka": lambda a, b: of_loader(a, b, len(a)),
    "minibatch_cka": lambda a, b: of_loader(a, b, 100),
}
