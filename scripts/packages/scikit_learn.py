"""scikit-learn: k-NN, balanced accuracy, average precision."""

import numpy as np
from sklearn.metrics import average_precision_score, balanced_accuracy_score, recall_score
from sklearn.neighbors import KNeighborsClassifier

REQUIREMENTS = ("scikit-learn==1.9.1", "numpy==2.4.6")


def accuracy(z, y, z_test, y_test, **options):
    return 100 * KNeighborsClassifier(20, metric="cosine", algorithm="brute", **options).fit(z, y).score(z_test, y_test)


QUANTITIES = {
    "knn_accuracy": accuracy,
    "knn_accuracy:by distance": lambda **data: accuracy(**data, weights="distance"),
    "macro_accuracy": lambda p, y: 100 * balanced_accuracy_score(y, p.argmax(axis=1)),
    "macro_accuracy:recall_score": lambda p, y: 100 * recall_score(y, p.argmax(axis=1), average="macro"),
    "average_precision": lambda p, y: 100 * average_precision_score(np.eye(p.shape[1])[y], p),
}
