"""The words of results files: metrics (those of features with all their options), splits, kinds of erratum.

Results, the command line, studies, documentation and tests all read these tables, which need neither NumPy nor PyTorch;
``results/README.md`` shows them. Splits with any number of labels, such as ``train 10-shot -> val``,
``train 0.5% -> val`` and ``train 300 images -> val``, are words too: :func:`find_split`. A metric of features is a
function in ``zoo/evaluation/label_free/``, or in ``zoo/evaluation/transferability/`` if it scores them by their labels;
:mod:`zoo.evaluation.label_free.catalogue` calls both.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from ..errors import UnknownName

NEEDS = {
    "features": "features of images: z (n, dim)",
    "views": "features of several augmentations of each image: z (n_images, n_views, dim)",
    "rotations": "features of images turned by 0, 90, 180 and 270 degrees: z (n_images, 4, dim), and z_val of others",
    "labelled": "features of training and of validation images with labels: z, y, z_val, y_val",
    "labels": "features of images with their labels: z, y, and groups of those that belong together if they are known",
    "source and target": "labelled features of the data to learn from, and features of the data to transfer to: "
    "z, y, z_target",
    "pixels": "images float32 (n, channels, height, width) along with their features: images, z, images_val, z_val",
}
"""What metrics of features are computed from, and the names of the arguments that they take."""

LABEL_FREE, TRANSFERABILITY = "label-free", "transferability"


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureMetric:
    """A metric of features: what it needs, where its function is, and how to read its value.

    Of two kinds: a label-free metric, or one that the papers of these compare with; or a transferability score, which
    says from features and labels how well a probe may do.
    """

    name: str
    title: str
    function: str  # module of the package of its kind in zoo.evaluation, and name in it
    needs: str  # a key of NEEDS
    unit: str
    higher_is_better: bool | None  # as the papers use it; None where neither is better by itself
    least: int  # images below which it refuses
    source: str
    meaning: str
    options: Mapping[str, Any]  # of the function, with the values of the protocol of its kind
    kind: Literal["label-free", "transferability"] = "label-free"
    seeded: bool = False  # takes seed=
    streams: bool = False  # from sums that one pass over any number of rows makes
    grouped: bool = False  # takes groups=, of images that are left out together

    @property
    def package(self) -> str:
        """The package of zoo.evaluation with its function."""
        return "transferability" if self.kind == TRANSFERABILITY else "label_free"


def find_feature_metric(name: str) -> FeatureMetric:
    """The metric of features of that name; an unknown name is refused with the nearest ones."""
    if name not in FEATURE_METRICS:
        hint = "Run 'zoo metric --list' to see them all."
        raise UnknownName("metric of features", name, FEATURE_METRICS, hint=hint)
    return FEATURE_METRICS[name]


_RANKME, _LIDAR, _CLID = "RankMe, arXiv:2210.02885", "LiDAR, arXiv:2312.04000", "CLID, arXiv:2206.01251"
_RISK = "arXiv:2302.03068, Appendix F.6"
FEATURE_METRICS = {
    metric.name: metric
    for metric in (
        FeatureMetric(
            name="rankme", title="RankMe", function="rank.rankme", needs="features", unit="dimensions",
            higher_is_better=True, least=2, source=f"{_RANKME}, Eq. 1-2", streams=True,
            meaning="effective rank: exp of the entropy of the normalised singular values",
            options={"eps": 1e-7},
        ),
        FeatureMetric(
            name="feature_rank", title="rank", function="rank.feature_rank", needs="features", unit="dimensions",
            higher_is_better=True, least=2, source=f"{_RANKME}, section 3.1", streams=True,
            meaning="number of singular values above the largest times max(n, dim) times 1e-7",
            options={"eps": 1e-7},
        ),
        FeatureMetric(
            name="correlation_rank", title="effective dimensionality", function="rank.correlation_rank",
            needs="features", unit="dimensions", higher_is_better=True, least=2, source=_RISK, streams=True,
            meaning="rank of the correlation matrix of the features",
            options={"atol": 1e-4, "rtol": 0.01},
        ),
        FeatureMetric(
            name="alpha_req", title="alpha-ReQ", function="rank.alpha_req", needs="features", unit="exponent",
            higher_is_better=None, least=12, source="alpha-ReQ, Agrawal et al. 2022", streams=True,
            meaning="exponent at which the eigenvalues of the covariance fall with their rank; 1 is held to be best",
            options={"first": 4, "last": None, "weighted": True},
        ),
        FeatureMetric(
            name="lidar", title="LiDAR", function="scatter.lidar", needs="views", unit="dimensions",
            higher_is_better=True, least=2, source=f"{_LIDAR}, Eq. 1-2",
            meaning="effective rank of the between-image scatter of views, whitened by the within-image scatter",
            options={"delta": 0.0, "eps": 1e-7},
        ),
        FeatureMetric(
            name="rankme_augmented", title="RankMe (aug.)", function="rank.rankme_augmented", needs="views",
            unit="dimensions", higher_is_better=True, least=2, source=f"{_LIDAR}, section 4.2",
            meaning="RankMe of augmented views instead of images",
            options={"ids": None, "eps": 1e-7},
        ),
        FeatureMetric(
            name="alignment", title="alignment", function="scatter.alignment", needs="views", unit="dimensionless",
            higher_is_better=False, least=2, source="Wang and Isola 2020; CLID, arXiv:2206.01251, Eq. 1",
            meaning="mean squared distance of two normalised features of one class, or of two views of one image",
            options={"alpha": 2.0, "normalise": True},
        ),
        FeatureMetric(
            name="uniformity", title="uniformity", function="scatter.uniformity", needs="features",
            unit="dimensionless", higher_is_better=False, least=2, source=f"Wang and Isola 2020; {_RISK}",
            meaning="log mean Gaussian potential of pairs of normalised features",
            options={"t": 2.0, "normalise": True},
        ),
        FeatureMetric(
            name="contrast", title="contrast", function="scatter.contrast", needs="views", unit="dimensionless",
            higher_is_better=False, least=2, source=f"{_CLID}, section 3.2",
            meaning="alignment plus uniformity, both of normalised features",
            options={"alpha": 2.0, "t": 2.0},
        ),
        FeatureMetric(
            name="intrinsic_dimension", title="intrinsic dimension", function="dimension.intrinsic_dimension",
            needs="features", unit="dimensions", higher_is_better=True, least=12,
            source=f"TwoNN, Facco et al. 2017; {_CLID}, section 2.2",
            meaning="TwoNN: from the ratio of the distances to the second and to the first neighbour",
            options={"fit": "linear", "discard": None, "distance": "euclidean"},
        ),
        FeatureMetric(
            name="cluster_learnability", title="cluster learnability", function="clusters.cluster_learnability",
            needs="features", unit="fraction", higher_is_better=True, least=4, source=f"{_CLID}, Eq. 2", seeded=True,
            meaning="how often nearest neighbours tell the k-means cluster of an image they have not seen",
            options={"n_clusters": None, "k": 1, "train_share": 0.5},
        ),
        FeatureMetric(
            name="coding_rate_reduction", title="coding-rate reduction (MCR2)",
            function="clusters.coding_rate_reduction", needs="features", unit="nats", higher_is_better=True, least=4,
            source="Yu et al. 2020, Eq. 6; CLID, arXiv:2206.01251, section 3.2", seeded=True,
            meaning="coding rate of all features less that within k-means clusters",
            options={"clusters": None, "n_clusters": None, "eps2": 0.5},
        ),
        FeatureMetric(
            name="mutual_information", title="mutual information (MINE)",
            function="mine.mutual_information",
            needs="pixels", unit="nats", higher_is_better=True, least=256,
            source="MINE, Belghazi et al. 2018; CLID, arXiv:2206.01251, section 3.2", seeded=True,
            meaning="lower bound of what features say of the image, by a trained critic",
            options={"n_steps": 1500, "batch_size": 128, "learning_rate": 5e-4,
                     "weight_decay": 1e-3, "critic": None, "n_shuffles": 4, "stopping_share": 0.1},
        ),
        FeatureMetric(
            name="rotation_accuracy", title="rotation prediction", function="labelled.rotation_accuracy",
            needs="rotations", unit="percent", higher_is_better=True, least=4, source=f"{_CLID}, section 3.2",
            meaning="accuracy of nearest neighbours in telling by how much an image was turned", seeded=True,
            options={"k": 20, "temperature": 0.07, "one_each": False},
        ),
        FeatureMetric(
            name="source_label_entropy", title="source label entropy", function="labelled.source_label_entropy",
            needs="labelled", unit="nats", higher_is_better=False, least=4,
            source="Vedantam et al. 2021; CLID, arXiv:2206.01251, section 3.5",
            meaning="mean entropy of a linear probe's predictions for the data set whose labels it has learnt",
            seeded=True,
            options={"C": None, "select": "log_loss"},
        ),
        FeatureMetric(
            name="target_label_entropy", title="target label entropy", function="labelled.target_label_entropy",
            needs="source and target", unit="nats", higher_is_better=False, least=4,
            source="Vedantam et al. 2021; CLID, arXiv:2206.01251, section 3.5",
            meaning="the same for the data set to transfer to", seeded=True,
            options={"C": None, "select": "log_loss"},
        ),
        FeatureMetric(
            name="one_shot_accuracy", title="one-shot accuracy", function="labelled.one_shot_accuracy",
            needs="labelled", unit="percent", higher_is_better=True, least=2, source=f"{_CLID}, Table 5",
            seeded=True, meaning="accuracy of a classifier from one labelled image per class",
            options={"n_draws": 10, "classifier": "nearest", "C": 1.0},
        ),
        FeatureMetric(
            name="local_dimension_entropy", title="entropy from local dimension",
            function="dimension.local_dimension_entropy", needs="features", unit="nats", higher_is_better=True,
            least=12, source=f"{_CLID}, Eq. 3-4",
            meaning="differential entropy from the local intrinsic dimension and the distance of the k-th neighbour",
            options={"k": 10, "normalised": False},
        ),
        FeatureMetric(
            name="neural_collapse", title="neural-collapse variability (NC1)", function="labelled.neural_collapse",
            needs="views", unit="dimensionless", higher_is_better=None, least=2,
            source="Papyan et al. 2020, NC1; arXiv:2302.03068, Appendix F.6",
            meaning="trace of within-class covariance times pseudo-inverse of between-class covariance, per class",
            options={"y": None, "definition": "papyan"},
        ),
        FeatureMetric(
            name="nesum", title="NESum", function="rank.nesum", needs="features", unit="dimensions",
            higher_is_better=True, least=2, source="He and Ozay 2022", streams=True,
            meaning="sum of the eigenvalues of the covariance over the largest one",
            options={},
        ),
        FeatureMetric(
            name="stable_rank", title="stable rank", function="rank.stable_rank", needs="features", unit="dimensions",
            higher_is_better=True, least=2, streams=True,
            source="Rudelson and Vershynin 2007; Tsitsulin et al. 2023, arXiv:2305.16562",
            meaning="sum of the squared singular values over the largest one",
            options={},
        ),
        FeatureMetric(
            name="matrix_entropy", title="matrix entropy", function="rank.matrix_entropy", needs="features",
            unit="nats", higher_is_better=True, least=2,
            source="Giraldo et al. 2014; Skean et al. 2025, arXiv:2502.02013, section 3", streams=True,
            meaning="von Neumann entropy of the Gram matrix over its trace; other orders are Renyi's",
            options={"order": 1.0, "centred": False},
        ),
        FeatureMetric(
            name="idest", title="dimension by spanning trees (IdEst)", function="dimension.idest", needs="features",
            unit="dimensions", higher_is_better=False, least=50, source="IdEst, arXiv:2606.03338; Costa and Hero 2004",
            meaning="from how the length of the minimum spanning tree grows with the number of rows", seeded=True,
            options={"power": 1.0, "distance": "euclidean", "most": 4096, "smallest": 0.1, "n_sizes": 8, "n_draws": 3},
        ),
        FeatureMetric(
            name="logme", title="LogME", function="scores.logme", kind="transferability", needs="labels",
            unit="nats", higher_is_better=True, least=3, source="LogME, You et al. 2021, arXiv:2102.11005, section 4",
            meaning="log evidence of the labels per image under a Bayesian linear model, mean of classes against rest",
            options={"intercept": False, "least_noise": 1e-3},
        ),
        FeatureMetric(
            name="h_score", title="H-score (shrunk)", function="scores.h_score", kind="transferability",
            needs="labels", unit="dimensionless", higher_is_better=True, least=3,
            source="Ibrahim et al. 2021, arXiv:2110.06893, Eq. 4",
            meaning="variance between classes over that of the features, shrunk after Ledoit and Wolf, summed",
            options={"shrinkage": None},
        ),
        FeatureMetric(
            name="gbc", title="Gaussian Bhattacharyya coefficient (GBC)", function="scores.gbc",
            kind="transferability", needs="labels", unit="dimensionless", higher_is_better=True, least=4,
            source="Pandy et al. 2022, arXiv:2111.12780, Eq. 3-5",
            meaning="minus the overlaps of all ordered pairs of classes as Gaussians on principal components",
            options={"n_components": 64, "covariance": "spherical", "floor": 1e-4},
        ),
        FeatureMetric(
            name="nleep", title="NLEEP", function="scores.nleep", kind="transferability", needs="labels",
            unit="nats", higher_is_better=True, least=4, source="Li et al. 2021, arXiv:2011.11200, section 4",
            meaning="log probability of the labels per image by the components of a Gaussian mixture", seeded=True,
            options={"per_class": 5, "energy": 0.8, "covariance": "diag", "max_iter": 100},
        ),
        FeatureMetric(
            name="transrate", title="TransRate", function="scores.transrate", kind="transferability",
            needs="labels", unit="nats", higher_is_better=True, least=3,
            source="Huang et al. 2022, arXiv:2106.09362, Eq. 4-7",
            meaning="coding rate of the features less that within the classes",
            options={"eps": 1e-4, "normalise": True, "class_means": False},
        ),
        FeatureMetric(
            name="leave_one_out_ridge", title="ridge, leave one out", function="leave_one_out.leave_one_out_ridge",
            kind="transferability", needs="labels", unit="percent", higher_is_better=True, least=3,
            source="Allen 1974; Rifkin and Lippert 2007", grouped=True,
            meaning="accuracy of ridge regression that has not seen the image or its group",
            options={"groups": None},
        ),
        FeatureMetric(
            name="leave_one_out_neighbours", title="k-NN, leave one out",
            function="leave_one_out.leave_one_out_neighbours", kind="transferability", needs="labels",
            unit="percent", higher_is_better=True, least=3, source="Wu et al. 2018, section 3.4", grouped=True,
            meaning="accuracy of a weighted vote of the nearest other images",
            options={"k": 10, "temperature": 0.07, "groups": None},
        ),
    )
}  # fmt: skip
LABEL_FREE_METRICS = {name: metric for name, metric in FEATURE_METRICS.items() if metric.kind == LABEL_FREE}
TRANSFERABILITY_SCORES = {name: metric for name, metric in FEATURE_METRICS.items() if metric.kind == TRANSFERABILITY}

_N_TRAIN, _N_CLASSES = 1_281_167, 1000  # of ImageNet-1K


@dataclass(frozen=True, slots=True)
class Split:
    """What a probe was trained on and evaluated on, or which images a statistic describes."""

    name: str
    n_train: int | None  # ImageNet-1K labels the probe was trained on; None where no probe is trained
    meaning: str
    shots: int | None = None  # labels per class, where it is the same number for every class
    n_rounded: int = 0  # labels by which a share of each class, rounded for itself, may differ from n_train


@dataclass(frozen=True, slots=True)
class Metric:
    """What was measured."""

    name: str
    unit: str
    lower_is_better: bool | None  # None where neither direction is better by itself
    splits: tuple[str, ...]  # the first is the usual one
    meaning: str
    any_labels: bool = False  # also with any other number of labels per class, or share of the labels
    any_images: bool = False  # also with any number of labelled images

    @lru_cache(maxsize=1024)  # noqa: B019 (of the metrics of this table alone)
    def takes(self, split: str) -> bool:
        """True if it can be measured on this split.

        >>> METRICS["linear_probe_error"].takes("train 10-shot -> val"), METRICS["usability"].takes("train -> train")
        (True, False)
        """
        return (
            split in self.splits
            or (self.any_labels and _split_of_labels(split) is not None)
            or (self.any_images and _split_of_images(split) is not None)
        )


# one spelling each, lest '2%' and '2.0%' be two measurements; all of the labels are 'train -> val'
_SHOTS = re.compile(r"train ([1-9]\d{0,5})-shot -> val", re.ASCII)
_SHARE = re.compile(r"train ((?:0|[1-9]\d?)(?:\.\d{0,7}[1-9])?)% -> val", re.ASCII)
_IMAGES = re.compile(r"train ([1-9]\d{0,11}) images -> val", re.ASCII)


def _split_of_labels(name: str) -> Split | None:
    """A split with K labels per class or P % of the labels; None for other names."""
    if shots := _SHOTS.fullmatch(name):
        return _split_of_shots(shots[1])
    if (share := _SHARE.fullmatch(name)) and share[1] != "0":
        return _split_of_share(share[1])
    return None


def _split_of_images(name: str) -> Split | None:
    """A split with N labelled images; None for other names."""
    match = _IMAGES.fullmatch(name)
    if match is None:
        return None
    meaning = f"network trained on {match[1]} labelled image{'s' * (match[1] != '1')}, evaluated on the validation set"
    return Split(name, int(match[1]), meaning, n_rounded=_N_CLASSES)  # as many of each class as it has its share


def _split_of_shots(shots: str) -> Split:
    meaning = f"probe trained on {shots} label{'s' * (shots != '1')} per class, evaluated on the validation set"
    return Split(f"train {shots}-shot -> val", int(shots) * _N_CLASSES, meaning, shots=int(shots))


def _split_of_share(percent: str) -> Split:
    whole, _, decimals = percent.partition(".")
    n_train = _N_TRAIN * int(whole + decimals) // (100 * 10 ** len(decimals))
    meaning = f"probe trained on {percent} % of the labels, evaluated on the validation set"
    return Split(f"train {percent}% -> val", n_train, meaning, n_rounded=_N_CLASSES)


SPLITS = {
    split.name: split
    for split in (
        Split("train -> val", _N_TRAIN, "probe trained on the whole training set, evaluated on the validation set"),
        _split_of_shots("30"),
        _split_of_share("1"),
        _split_of_shots("5"),
        _split_of_shots("3"),
        Split("train -> train", _N_TRAIN, "probe trained and evaluated on the same training set"),
        Split("train minus subset -> subset", 1_231_167, "50 000 training images held out; probe evaluated on them"),
        Split("train minus subset -> val", 1_231_167, "the same probe, evaluated on the validation set"),
        Split("train plus val -> val", 1_331_167, "probe trained on both, so it has seen what it is tested on"),
        Split("val -> val", 50_000, "probe trained and evaluated on the same validation set"),
        Split("train", None, "statistic of the training images"),
        Split("val", None, "statistic of the validation images"),
        Split("train augmented", None, "training images, each augmented several times, alike for every encoder"),
        Split("val augmented", None, "the same of validation images"),
        Split("train pretraining-augmented", None, "training images augmented as in the encoder's pretraining"),
        Split("val pretraining-augmented", None, "the same of validation images"),
    )
}  # fmt: skip
_PROBE = tuple(name for name, split in SPLITS.items() if split.n_train is not None)
_PLAIN = ("train", "val")
_ALL_IMAGES = tuple(name for name, split in SPLITS.items() if split.n_train is None)
_COMPONENT = (
    "percentage points",
    True,
    ("train -> val",),
    "part of the full-shot error; signed where this project measured it, clipped at 0 where published",
)
_TRANSFER = (True, ("train -> val",))  # and any number of labelled images
_SPLITS_OF_NEEDS = {  # by what a metric of features needs
    "features": _PLAIN,
    "views": _ALL_IMAGES,
    "rotations": ("train -> val",),
    "labelled": ("train -> val",),
    "labels": _PLAIN,
    "source and target": ("train -> val",),
    "pixels": ("train -> val",),
}
METRICS = {
    metric.name: metric
    for metric in (
        Metric("linear_probe_error", "percent", True, _PROBE, "top-1 error of a linear probe on frozen features", True),
        Metric(
            "attentive_probe_error", "percent", True, _PROBE,
            "top-1 error of a linear classifier of frozen patches that queries have pooled, as far as that helps", True,
        ),
        Metric(
            "knn_error", "percent", True, _PROBE,
            "top-1 error of a weighted k-nearest-neighbour vote on frozen features", True,
        ),
        Metric(
            "tag_average_precision", "percent", False, ("train -> val",),
            "mean over tags of the average precision of binary linear probes on frozen features",
        ),
        Metric(
            "unexplained_variance", "percent of the variance", True, _PROBE,
            "mean squared error of a linear probe of numbers over their variance in the test images: 1 - R2",
            True,
        ),
        Metric(
            "supervised_twin_error", "percent", True, ("train -> train", "train -> val"),
            "top-1 error of a supervised network of the encoder's architecture",
        ),
        Metric(
            "transfer_error", "percent", *_TRANSFER,
            "top-1 error of a network trained for a task, by an encoder with a linear head or by a control",
            any_images=True,
        ),
        Metric(
            "depth_l1_error", "depth units of the data set", *_TRANSFER,
            "mean absolute error of depth over the valid pixels, by an encoder with a decoder or by a control",
            any_images=True,
        ),
        Metric(
            "normals_l1_error", "dimensionless", *_TRANSFER,
            "mean absolute error of the components of surface normals, by an encoder with a decoder or by a control",
            any_images=True,
        ),
        Metric(
            "normals_angular_error", "degrees", *_TRANSFER,
            "mean angle between predicted and true surface normals, by an encoder with a decoder or by a control",
            any_images=True,
        ),
        Metric(
            "mask_mean_iou", "percent", False, ("train -> val",),
            "mean over classes of the intersection over union of masks, by a linear head on frozen maps",
        ),
        Metric(
            "pixel_accuracy", "percent", False, ("train -> val",),
            "pixels of masks whose class is predicted, by a linear head on frozen maps",
        ),
        Metric("approximation", *_COMPONENT),
        Metric("usability", *_COMPONENT),
        Metric(
            "approximation_plus_usability", "percentage points", True, ("train -> val",),
            "the sum of both, not separable without a supervised twin",
        ),
        Metric("probe_generalization", *_COMPONENT),
        Metric("encoder_generalization", *_COMPONENT),
        *(
            Metric(
                one.name, one.unit, None if one.higher_is_better is None else not one.higher_is_better,
                _SPLITS_OF_NEEDS[one.needs], one.meaning,
            )
            for one in FEATURE_METRICS.values()
        ),
        Metric(
            "nc1", "dimensionless", None, _ALL_IMAGES,
            "neural collapse: trace of within-class covariance times pseudo-inverse of between-class covariance",
        ),
        Metric("intra_class_variance", "squared feature units", None, _ALL_IMAGES, "mean variance within a class"),
        Metric("inter_class_variance", "squared feature units", None, _ALL_IMAGES, "variance of the class means"),
        Metric("variance_ratio", "dimensionless", None, _ALL_IMAGES, "intra- over inter-class variance"),
        Metric("nc1_per_root_rank", "dimensionless", None, _ALL_IMAGES, "nc1 over the root of the correlation rank"),
    )
}  # fmt: skip
ERRATUM_KINDS = {
    "wrong weights": "measured on other weights than the encoder's name says",
    "misprint": "printed wrongly elsewhere; the row here is right",
    "degenerate": "measured rightly, but says nothing about the method",
    "suspicious": "not shown to be wrong; should be measured again",
}


@lru_cache(maxsize=1024)  # of many rows there are few splits
def find_split(name: str) -> Split:
    """The split of that name: one of :data:`SPLITS`, or one with any number of labels.

    Of the latter there are three kinds: labels per class, a share of the labels (above 0 and below 100 %), and labelled
    images (at least one). Numbers have neither leading zeros nor trailing ones behind the point; other names are
    refused as unknown.

    >>> find_split("train 10-shot -> val").n_train, find_split("train 0.5% -> val").n_train
    (10000, 6405)
    >>> find_split("train 1 images -> val").meaning
    'network trained on 1 labelled image, evaluated on the validation set'
    >>> find_split("train 03-shot -> val")
    Traceback (most recent call last):
    ...
    zoo.errors.UnknownName: There is no split named 'train 03-shot -> val'; did you mean train 3-shot -> val, \
train 30-shot -> val, train 5-shot -> val, train -> val or train 1% -> val? Others are spelt like \
'train 10-shot -> val', 'train 0.5% -> val' and 'train 300 images -> val'.
    """
    split = SPLITS.get(name) or _split_of_labels(name) or _split_of_images(name)
    if split is None:
        hint = "Others are spelt like 'train 10-shot -> val', 'train 0.5% -> val' and 'train 300 images -> val'."
        raise UnknownName("split", name, SPLITS, hint=hint)
    return split
