"""vecscope: diagnostics of embeddings for vector search."""

from vecscope.diagnostics.anisotropy import anisotropy

REQUIREMENTS = ("vecscope==0.2.0", "numpy==2.4.6")

QUANTITIES = {"effective_rank": lambda z: anisotropy(z)["effective_rank"]}
