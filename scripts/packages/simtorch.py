"""simtorch: CKA of two networks over a data loader."""

import torch
from simtorch.model import SimilarityModel
from simtorch.similarity import CKA
from torch import nn
from torch.utils.data import DataLoader

REQUIREMENTS = ("simtorch==0.2.1", "torch==2.15.0", "numpy==2.4.6")


class Half(nn.Module):
    """A network whose layer gives some of its input's numbers."""

    def __init__(self, of):
        super().__init__()
        self.layer, self.of = nn.Identity(), of

    def forward(self, x):
        return self.layer(x[:, self.of])


def of_loader(a, b, size, **options):
    rows = torch.cat([torch.from_numpy(a), torch.from_numpy(b)], dim=1)
    first, second = Half(slice(0, a.shape[1])), Half(slice(a.shape[1], None))
    first, second = (SimilarityModel(one, model_name="x", layers_to_include=["layer"]) for one in (first, second))
    return CKA(first, second, **options).compute(DataLoader([(row, 0) for row in rows], batch_size=size))[0, 0]


QUANTITIES = {
    "linear_cka": lambda a, b: of_loader(a, b, len(a)),
    "unbiased_cka": lambda a, b: of_loader(a, b, len(a), unbiased=True),
    "minibatch_cka": lambda a, b: of_loader(a, b, 100),
}
