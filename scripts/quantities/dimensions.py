"""Intrinsic dimension, similarity of two encoders, nearest neighbours and metrics of predictions."""

from __future__ import annotations

from typing import Any

import numpy as np

from zoo.evaluation.classification import classification_metrics
from zoo.evaluation.label_free import intrinsic_dimension
from zoo.looking.mistakes import find_contradicted

from . import Quantity, definitions

PAIRS, MANIFOLDS = ("two encoders", "unrelated"), ("manifold", "power", "repeats")


def metric_of(name: str) -> Any:
    """A function of predictions that gives one of the zoo's metrics."""
    return lambda p, y: classification_metrics(y, p, n_draws=0).metrics[name].value


QUANTITIES = {
    "twonn": Quantity(
        title="Intrinsic dimension, TwoNN",
        cases=MANIFOLDS,
        ours=lambda z: intrinsic_dimension(z).value,
        call="intrinsic_dimension(z).value",
    ),
    "dimension_by_neighbours": Quantity(
        title="Intrinsic dimension, maximum likelihood (20 neighbours)",
        cases=MANIFOLDS[:2],
        ours=definitions.dimension_by_neighbours,
        call="mean over images of the inverse, inverted",
        in_zoo=False,
    ),
    "other_dimensions": Quantity(
        title="Intrinsic dimension by other estimators",
        cases=MANIFOLDS[:2],
        ours=lambda z: intrinsic_dimension(z).value,
        call="intrinsic_dimension(z).value",
    ),
    "linear_cka": Quantity(
        title="CKA, linear", cases=PAIRS, ours=definitions.linear_cka, call="linear CKA", in_zoo=False
    ),
    "rbf_cka": Quantity(
        title="CKA, RBF", cases=PAIRS, ours=definitions.rbf_cka, call="RBF CKA, median distance", in_zoo=False
    ),
    "unbiased_cka": Quantity(
        title="CKA, unbiased", cases=PAIRS, ours=definitions.unbiased_cka, call="unbiased CKA", in_zoo=False
    ),
    "minibatch_cka": Quantity(
        title="CKA in four batches of 100",
        cases=PAIRS,
        ours=definitions.minibatch_cka,
        call="sums of unbiased HSIC",
        in_zoo=False,
    ),
    "mutual_neighbours": Quantity(
        title="Mutual k-NN (10 neighbours)",
        cases=PAIRS,
        ours=definitions.neighbour_shares,
        call="share of neighbours in common",
        in_zoo=False,
    ),
    "knn_accuracy": Quantity(
        title="k-NN accuracy (20 neighbours, temperature .07), percent",
        cases=("overlap", "gallery", "ties"),
        ours=definitions.neighbour_accuracy,
        call="NeighbourProbe(k=20)",
    ),
    "macro_accuracy": Quantity(
        title="Macro accuracy, percent",
        cases=("predictions", "absent"),
        ours=lambda p, y: 100 - metric_of("balanced_error")(p, y),
        call="100 - balanced_error",
    ),
    "calibration_error": Quantity(
        title="Calibration error (15 bins of equal width), percent",
        cases=("predictions", "absent", "certain"),
        ours=metric_of("calibration_error"),
        call="calibration_error",
    ),
    "adaptive_calibration_error": Quantity(
        title="Calibration error (15 bins of equal count), percent",
        cases=("predictions", "certain"),
        ours=metric_of("adaptive_calibration_error"),
        call="adaptive_calibration_error",
    ),
    "average_precision": Quantity(
        title="Average precision, mean over classes, percent",
        cases=("predictions", "absent", "certain"),
        ours=metric_of("average_precision"),
        call="average_precision",
    ),
    "label_issues": Quantity(
        title="Labels that are confidently wrong, images",
        cases=("predictions", "absent", "certain"),
        ours=lambda p, y: find_contradicted(p.astype(np.float64), y)[1],
        call="find_wrong_labels(...).n_confident",
    ),
    "retrieval_map": Quantity(
        title="Retrieval mAP",
        cases=("gallery",),
        ours=definitions.retrieval_map,
        call="mean over queries with a match",
        in_zoo=False,
    ),
}
