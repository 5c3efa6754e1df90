"""intrinsics-dimension: TwoNN and maximum likelihood in PyTorch."""

import torch
from intrinsics_dimension import mle_id, twonn_pytorch

REQUIREMENTS = ("intrinsics-dimension==0.1.0", "torch==2.15.0", "numpy==2.4.6")

QUANTITIES = {
    "twonn": lambda z: twonn_pytorch(torch.from_numpy(z)),
    "dimension_by_neighbours": lambda z: mle_id(torch.from_numpy(z), k=20),
}
