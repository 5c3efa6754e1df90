"""ckatorch: CKA of two matrices, and of two networks over a data loader."""

import torch
from ckatorch import CKA, cka_base
from torch import nn
from torch.utils.data import DataLoader

REQUIREMENTS = ("ckatorch==1.0.3", "torch==2.15.0", "numpy==2.4.6")


class Half(nn.Module):
    """A network whose layer gives some of its input's numbers: an axis of length 1, then rows, as its loop needs."""

    def __init__(self, of):
        super().__init__()
        self.layer, self.of = nn.Identity(), of

    def forward(self, x):
        return self.layer(x[None, :, self.of])


def of_loader(a, b):
    rows = torch.cat([torch.from_numpy(a), torch.from_numpy(b)], dim=1)
    first, second = Half(slice(0, a.shape[1])), Half(slice(a.shape[1], None))
    found = CKA(first, second, ["layer"], ["layer"], "a", "b")(
        DataLoader([(row,) for row in rows], batch_size=100), epochs=1
    )
    return found[0, 0]


def base(a, b, **options):
    return cka_base(torch.from_numpy(a), torch.from_numpy(b), **options)


QUANTITIES = {
    "linear_cka": base,
    "rbf_cka": lambda a, b: base(a, b, kernel="rbf"),
    "unbiased_cka": lambda a, b: base(a, b, unbiased=True),
    "unbiased_cka:hsic": lambda a, b: base(a, b, unbiased=True, method="hsic"),
    "minibatch_cka": of_loader,
}
