"""stable-pretraining: OnlineKNN."""

import torch
from stable_pretraining.callbacks import OnlineKNN

REQUIREMENTS = ("stable-pretraining==0.1.8", "torch==2.15.0", "torchvision==0.29.2", "numpy==2.4.6")


def accuracy(z, y, z_test, y_test, **options):
    probe = OnlineKNN(
        name="knn",
        input="z",
        target="y",
        queue_length=len(z),
        metrics={},
        num_classes=int(y.max()) + 1,
        k=20,
        **options,
    )
    votes = probe._compute_knn_predictions(torch.from_numpy(z_test), torch.from_numpy(z), torch.from_numpy(y))
    return 100 * (votes.argmax(dim=1).numpy() == y_test).mean()


QUANTITIES = {
    "knn_accuracy": accuracy,
    "knn_accuracy:cosine": lambda **data: accuracy(**data, distance_metric="cosine"),
}
