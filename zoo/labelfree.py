"""The table of contents of label-free metrics: results, command line, studies, documentation and tests all read it.

A metric is a function in ``zoo/evaluation/label_free/`` and one entry here; ``zoo.evaluation.label_free.catalogue``
calls it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from .errors import UnknownName

NEEDS = {
    "features": "features of images: z (n, dim)",
    "views": "features of several augmentations of each image: z (n_images, n_views, dim)",
    "rotations": "features of images turned by 0, 90, 180 and 270 degrees: z (n_images, 4, dim), and z_val of others",
    "labelled": "features of training and of validation images with labels: z, y, z_val, y_val",
    "source and target": "labelled features of the data to learn from, and features of the data to transfer to: "
    "z, y, z_target",
    "pixels": "images float32 (n, channels, height, width) beside their features: images, z, images_val, z_val",
}
"""What a metric is computed from, and the names of the arguments that it takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelFreeMetric:
    """One metric: what it needs, where its function is, and how to read its value."""

    name: str
    title: str
    function: str  # module of zoo.evaluation.label_free, and name in it
    needs: str  # a key of NEEDS
    unit: str
    higher_is_better: bool | None  # as the papers use it; None where neither is better by itself
    least: int  # images below which it refuses
    source: str
    meaning: str
    seeded: bool = False  # takes seed=
    streams: bool = False  # from sums that one pass over any number of rows makes


def metric(name: str) -> LabelFreeMetric:
    """The metric of that name.

    Raises
    ------
    UnknownName
        If there is none; lists the nearest.
    """
    if name not in LABEL_FREE_METRICS:
        raise UnknownName(
            "label-free metric", name, LABEL_FREE_METRICS, hint="Run 'zoo metric --list' to see them all."
        )
    return LABEL_FREE_METRICS[name]


def _table(metrics: Iterable[LabelFreeMetric]) -> dict[str, LabelFreeMetric]:
    return {one.name: one for one in metrics}


_RANKME, _LIDAR, _CLID = "RankMe, arXiv:2210.02885", "LiDAR, arXiv:2312.04000", "CLID, arXiv:2206.01251"
_RISK = "arXiv:2302.03068, Appendix F.6"
LABEL_FREE_METRICS = _table(
    [
        LabelFreeMetric(
            name="rankme", title="RankMe", function="rank.rankme", needs="features", unit="dimensions",
            higher_is_better=True, least=2, source=f"{_RANKME}, Eq. 1-2", streams=True,
            meaning="effective rank: exp of the entropy of the normalised singular values",
        ),
        LabelFreeMetric(
            name="feature_rank", title="rank", function="rank.feature_rank", needs="features", unit="dimensions",
            higher_is_better=True, least=2, source=f"{_RANKME}, section 3.1", streams=True,
            meaning="number of singular values above the largest times max(n, dim) times 1e-7",
        ),
        LabelFreeMetric(
            name="correlation_rank", title="effective dimensionality", function="rank.correlation_rank",
            needs="features", unit="dimensions", higher_is_better=True, least=2, source=_RISK, streams=True,
            meaning="rank of the correlation matrix of the features",
        ),
        LabelFreeMetric(
            name="alpha_req", title="alpha-ReQ", function="rank.alpha_req", needs="features", unit="exponent",
            higher_is_better=None, least=12, source="alpha-ReQ, Agrawal et al. 2022", streams=True,
            meaning="exponent at which the eigenvalues of the covariance fall with their rank; 1 is held to be best",
        ),
        LabelFreeMetric(
            name="lidar", title="LiDAR", function="lidar.lidar", needs="views", unit="dimensions",
            higher_is_better=True, least=2, source=f"{_LIDAR}, Eq. 1-2",
            meaning="effective rank of the between-image scatter of views, whitened by the within-image scatter",
        ),
        LabelFreeMetric(
            name="rankme_augmented", title="RankMe (aug.)", function="rank.rankme_augmented", needs="views",
            unit="dimensions", higher_is_better=True, least=2, source=f"{_LIDAR}, section 4.2",
            meaning="RankMe of augmented views instead of images",
        ),
        LabelFreeMetric(
            name="alignment", title="alignment", function="pairs.alignment", needs="views", unit="dimensionless",
            higher_is_better=False, least=2, source="Wang and Isola 2020; CLID, arXiv:2206.01251, Eq. 1",
            meaning="mean squared distance of two normalised features of one class, or of two views of one image",
        ),
        LabelFreeMetric(
            name="uniformity", title="uniformity", function="pairs.uniformity", needs="features",
            unit="dimensionless", higher_is_better=False, least=2, source=f"Wang and Isola 2020; {_RISK}",
            meaning="log mean Gaussian potential of pairs of normalised features",
        ),
        LabelFreeMetric(
            name="contrast", title="contrast", function="pairs.contrast", needs="views", unit="dimensionless",
            higher_is_better=False, least=2, source=f"{_CLID}, section 3.2",
            meaning="alignment plus uniformity, both of normalised features",
        ),
        LabelFreeMetric(
            name="intrinsic_dimension", title="intrinsic dimension", function="dimension.intrinsic_dimension",
            needs="features", unit="dimensions", higher_is_better=True, least=12,
            source=f"TwoNN, Facco et al. 2017; {_CLID}, section 2.2",
            meaning="TwoNN: from the ratio of the distances to the second and to the first neighbour",
        ),
        LabelFreeMetric(
            name="cluster_learnability", title="cluster learnability", function="learnability.cluster_learnability",
            needs="features", unit="fraction", higher_is_better=True, least=4, source=f"{_CLID}, Eq. 2", seeded=True,
            meaning="how often nearest neighbours tell the k-means cluster of an image they have not seen",
        ),
        LabelFreeMetric(
            name="coding_rate_reduction", title="coding-rate reduction (MCR2)",
            function="coding.coding_rate_reduction", needs="features", unit="nats", higher_is_better=True, least=4,
            source="Yu et al. 2020, Eq. 6; CLID, arXiv:2206.01251, section 3.2", seeded=True,
            meaning="coding rate of all features less that within k-means clusters",
        ),
        LabelFreeMetric(
            name="mutual_information", title="mutual information (MINE)", function="mine.mutual_information",
            needs="pixels", unit="nats", higher_is_better=True, least=256,
            source="MINE, Belghazi et al. 2018; CLID, arXiv:2206.01251, section 3.2", seeded=True,
            meaning="lower bound of what features say of the image, by a trained critic",
        ),
        LabelFreeMetric(
            name="rotation_accuracy", title="rotation prediction", function="rotation.rotation_accuracy",
            needs="rotations", unit="percent", higher_is_better=True, least=4, source=f"{_CLID}, section 3.2",
            meaning="accuracy of nearest neighbours in telling by how much an image was turned", seeded=True,
        ),
        LabelFreeMetric(
            name="source_label_entropy", title="source label entropy", function="entropy.source_label_entropy",
            needs="labelled", unit="nats", higher_is_better=False, least=4,
            source="Vedantam et al. 2021; CLID, arXiv:2206.01251, section 3.5",
            meaning="mean entropy of a linear probe's predictions for the data set whose labels it has learnt",
            seeded=True,
        ),
        LabelFreeMetric(
            name="target_label_entropy", title="target label entropy", function="entropy.target_label_entropy",
            needs="source and target", unit="nats", higher_is_better=False, least=4,
            source="Vedantam et al. 2021; CLID, arXiv:2206.01251, section 3.5",
            meaning="the same for the data set to transfer to", seeded=True,
        ),
        LabelFreeMetric(
            name="one_shot_accuracy", title="one-shot accuracy", function="one_shot.one_shot_accuracy",
            needs="labelled", unit="percent", higher_is_better=True, least=2, source=f"{_CLID}, Table 5",
            seeded=True, meaning="accuracy of a classifier from one labelled image a class",
        ),
        LabelFreeMetric(
            name="local_dimension_entropy", title="entropy from local dimension",
            function="local.local_dimension_entropy", needs="features", unit="nats", higher_is_better=True, least=12,
            source=f"{_CLID}, Eq. 3-4",
            meaning="differential entropy from the local intrinsic dimension and the distance of the k-th neighbour",
        ),
        LabelFreeMetric(
            name="neural_collapse", title="neural-collapse variability (NC1)", function="collapse.neural_collapse",
            needs="views", unit="dimensionless", higher_is_better=None, least=2,
            source="Papyan et al. 2020, NC1; arXiv:2302.03068, Appendix F.6",
            meaning="trace of within-class covariance times pseudo-inverse of between-class covariance, per class",
        ),
    ]
)  # fmt: skip
"""Every metric by name."""
