"""platonic-universe: nearest neighbours that two encoders have in common."""

from pu.metrics import jaccard_index, mknn

REQUIREMENTS = ("platonic-universe==0.1.0", "torch==2.15.0", "numpy==2.4.6", "scikit-learn==1.9.1")

QUANTITIES = {
    "mutual_neighbours": lambda a, b: mknn(a, b, k=10),
    "mutual_neighbours:jaccard": lambda a, b: jaccard_index(a, b, k=10),
}
