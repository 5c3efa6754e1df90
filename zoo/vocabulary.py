"""The words that results files may use: columns, what was measured, on which images, and what kinds of fault there are.

A metric is one line here; ``results/README.md`` shows these tables.
"""

from __future__ import annotations

from dataclasses import dataclass

COLUMNS = (
    "encoder", "metric", "dataset", "split", "n_train", "seed", "value",
    "unit", "ci_low", "ci_high", "protocol", "source", "date",
)  # fmt: skip
ENCODER, METRIC, DATASET, SPLIT, N_TRAIN, SEED, VALUE, UNIT, CI_LOW, CI_HIGH, PROTOCOL, SOURCE, DATE = range(13)
IMAGENET = "imagenet-1k"


@dataclass(frozen=True, slots=True)
class Split:
    """What a probe was trained on and evaluated on, or which images a statistic describes."""

    name: str
    n_train: int | None  # ImageNet-1K labels the probe was trained on; None where no probe is trained
    meaning: str


@dataclass(frozen=True, slots=True)
class Metric:
    """What was measured."""

    name: str
    unit: str
    lower_is_better: bool | None  # None where neither direction is better by itself
    splits: tuple[str, ...]  # the first is the usual one
    meaning: str


SPLITS = {
    split.name: split
    for split in (
        Split("train -> val", 1_281_167, "probe trained on the whole training set, evaluated on the validation set"),
        Split("train 30-shot -> val", 30_000, "probe trained on 30 labels a class, evaluated on the validation set"),
        Split("train 1% -> val", 12_811, "probe trained on 1 % of the labels, evaluated on the validation set"),
        Split("train 5-shot -> val", 5_000, "probe trained on 5 labels a class, evaluated on the validation set"),
        Split("train 3-shot -> val", 3_000, "probe trained on 3 labels a class, evaluated on the validation set"),
        Split("train -> train", 1_281_167, "probe trained and evaluated on the same training set"),
        Split("train minus subset -> subset", 1_231_167, "50 000 training images held out; probe evaluated on them"),
        Split("train minus subset -> val", 1_231_167, "the same probe, evaluated on the validation set"),
        Split("train plus val -> val", 1_331_167, "probe trained on both, so it has seen what it is tested on"),
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
_COMPONENT = ("percentage points", True, ("train -> val",), "published part of the full-shot error, clipped at 0")
METRICS = {
    metric.name: metric
    for metric in (
        Metric("linear_probe_error", "percent", True, _PROBE, "top-1 error of a linear probe on frozen features"),
        Metric(
            "supervised_twin_error", "percent", True, ("train -> train", "train -> val"),
            "top-1 error of a supervised network of the encoder's architecture",
        ),
        Metric("approximation", *_COMPONENT),
        Metric("usability", *_COMPONENT),
        Metric("probe_generalization", *_COMPONENT),
        Metric("encoder_generalization", *_COMPONENT),
        Metric("correlation_rank", "dimensions", None, _PLAIN, "rank of the correlation matrix of the features"),
        Metric("feature_rank", "dimensions", None, _PLAIN, "rank of the feature matrix"),
        Metric("uniformity", "dimensionless", None, _PLAIN, "log mean Gaussian potential of normalised features"),
        Metric(
            "alignment", "dimensionless", None, _ALL_IMAGES,
            "mean squared distance of two normalised features of the same class",
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
    "suspicious": "nobody has shown it wrong, and it should be measured again",
}
