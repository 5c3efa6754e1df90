"""embedding-quality: unsupervised quality of embeddings; RankMe, NESum and stable rank."""

from embedding_quality import UnsupervisedEmbeddingQualityEvaluation as Quality

REQUIREMENTS = ("embedding-quality==0.1.1", "numpy==2.4.6")

QUANTITIES = {
    "rankme": lambda z: Quality.RankMe(z),
    "nesum": lambda z: Quality.NESum(z),
    "stable_rank": lambda z: Quality.Stable_rank(z),
}
