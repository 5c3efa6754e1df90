"""torcheval: macro accuracy and average precision."""

import torch
from torcheval.metrics.functional import multiclass_accuracy, multiclass_auprc

REQUIREMENTS = ("torcheval==0.0.7", "torch==2.15.0", "numpy==2.4.6")


def of_predictions(function, p, y, **options):
    return 100 * function(torch.from_numpy(p), torch.from_numpy(y), num_classes=p.shape[1], **options)


QUANTITIES = {
    "macro_accuracy": lambda p, y: of_predictions(multiclass_accuracy, p, y, average="macro"),
    "average_precision": lambda p, y: of_predictions(multiclass_auprc, p, y, average="macro"),
}
