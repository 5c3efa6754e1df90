"""effdim: effective dimensions of a table, from its spectrum and its neighbours."""

import effdim
import numpy as np

REQUIREMENTS = ("effdim==0.1.1", "numpy==2.4.6")


def computed(name):
    return lambda z: effdim.compute_dim(z.astype(np.float64))[name]  # it refuses float32


QUANTITIES = {
    "effective_rank": computed("shannon_entropy"),
    "matrix_entropy": computed("renyi_eff_dimensionality_alpha_3"),
    "participation_ratio": computed("participation_ratio"),
    "participation_ratio:geometric": computed("geometric_mean_eff_dimensionality"),
}
