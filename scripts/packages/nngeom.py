"""nngeom: geometry of networks; ranks and uniformity of representations."""

from nngeom.manifolds import effective_rank, participation_ratio
from nngeom.metrics import get_metric
from nngeom.representations import uniformity

REQUIREMENTS = ("nngeom==0.2.0", "numpy==2.4.6")

QUANTITIES = {
    "effective_rank": lambda z: effective_rank(z),
    "participation_ratio": lambda z: participation_ratio(z),
    "stable_rank": lambda z: get_metric("stable_rank")(z),
    "uniformity": lambda z: uniformity(z, seed=0),
}
