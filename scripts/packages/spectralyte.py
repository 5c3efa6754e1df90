"""spectralyte: geometry of embedding spaces."""

from spectralyte.metrics import dimensionality

REQUIREMENTS = ("spectralyte==0.4.0", "numpy==2.4.6")

QUANTITIES = {
    "participation_ratio": lambda z: dimensionality.compute(z).participation_ratio,
    "effective_rank": lambda z: dimensionality.compute(z).effective_dims,
}
