"""pytorch-metric-learning: mean average precision of neighbours, whole and up to R."""

import torch
from pytorch_metric_learning.distances import CosineSimilarity
from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator
from pytorch_metric_learning.utils.inference import CustomKNN

REQUIREMENTS = ("pytorch-metric-learning==2.9.0", "torch==2.15.0", "numpy==2.4.6")


def retrieval(name, z, y, z_test, y_test, **options):
    of = AccuracyCalculator((name,), knn_func=CustomKNN(CosineSimilarity()), device=torch.device("cpu"), **options)
    return of.get_accuracy(z_test, y_test, z, y)[name]


QUANTITIES = {
    "retrieval_map": lambda **data: retrieval("mean_average_precision", **data),
    "retrieval_map:k=20": lambda **data: retrieval("mean_average_precision", k=20, **data),
    "retrieval_map:at R": lambda **data: retrieval("mean_average_precision_at_r", **data),
}
