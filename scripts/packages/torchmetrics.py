"""torchmetrics: macro accuracy, calibration error, average precision and retrieval mAP."""

import torch
from torch.nn.functional import normalize
from torchmetrics.functional.classification import (
    multiclass_accuracy,
    multiclass_average_precision,
    multiclass_calibration_error,
)
from torchmetrics.retrieval import RetrievalMAP

REQUIREMENTS = ("torchmetrics==1.9.0", "torch==2.15.0", "numpy==2.4.6")


def of_predictions(function, p, y, **options):
    return 100 * function(torch.from_numpy(p), torch.from_numpy(y), num_classes=p.shape[1], **options)


def retrieval(z, y, z_test, y_test, shift=0.0, **options):
    scores = normalize(torch.from_numpy(z_test)) @ normalize(torch.from_numpy(z)).T + shift
    relevant = torch.from_numpy(y_test)[:, None] == torch.from_numpy(y)
    queries = torch.arange(len(y_test))[:, None].expand_as(relevant)
    return RetrievalMAP(**options)(scores.flatten(), relevant.flatten(), indexes=queries.flatten())


QUANTITIES = {
    "macro_accuracy": lambda p, y: of_predictions(multiclass_accuracy, p, y, average="macro"),
    "calibration_error": lambda p, y: of_predictions(multiclass_calibration_error, p, y),
    "average_precision": lambda p, y: of_predictions(multiclass_average_precision, p, y),
    "retrieval_map": retrieval,
    "retrieval_map:skip": lambda **data: retrieval(**data, empty_target_action="skip"),
    "retrieval_map:cosine + 2, skip": lambda **data: retrieval(**data, shift=2.0, empty_target_action="skip"),
}
