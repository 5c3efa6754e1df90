"""stable-pretraining: RankMe, LiDAR and k-NN as callbacks of a training, the first two by the JAX backend as well."""

import contextlib
import os

os.environ["SPT_DISABLE_DEFAULT_CALLBACKS"] = "1"
import lightning
import numpy as np
import torch
from stable_pretraining.callbacks import LiDAR, OnlineKNN, RankMe
from torch.utils.data import DataLoader

REQUIREMENTS = (
    "stable-pretraining==0.1.8",
    "torch==2.15.0",
    "torchvision==0.29.2",
    "numpy==2.4.6",
    "jax==0.10.2",
    "flax==0.12.8",
    "optax==0.2.8",
)


class Features(lightning.LightningModule):
    """A training whose batches are features already."""

    def __init__(self):
        super().__init__()
        self.callbacks_modules = torch.nn.ModuleDict()
        self.unused = torch.nn.Parameter(torch.zeros(1))

    def training_step(self, batch, batch_idx):
        return {"loss": self.unused.sum(), "z": batch}

    def validation_step(self, batch, batch_idx):
        return {"z": batch}

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.0)


def logged(callback, rows):
    """What a callback says after one epoch of these rows in their order."""
    rows = torch.from_numpy(np.ascontiguousarray(rows))
    trainer = lightning.Trainer(
        max_epochs=1, accelerator="cpu", callbacks=[callback], logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, num_sanity_val_steps=0,
    )  # fmt: skip
    with contextlib.redirect_stdout(None):
        trainer.fit(Features(), DataLoader(rows, batch_size=100), DataLoader(rows, batch_size=100))
    return trainer.callback_metrics["it"]


def rankme(z):
    return logged(RankMe("it", "z", queue_length=len(z), target_shape=z.shape[1]), z)


def lidar(z, in_blocks=False):
    n, q, dim = z.shape
    rows = (z.transpose(1, 0, 2) if in_blocks else z).reshape(n * q, dim)
    return logged(LiDAR("it", "z", n * q, dim, n_classes=n, samples_per_class=q), rows)


def jax_rankme(z):
    from stable_pretraining.jax.callbacks.rankme import rankme

    return rankme(z)


def jax_lidar(z):
    from stable_pretraining.jax.callbacks.lidar import lidar

    return lidar(z.reshape(-1, z.shape[2]), np.repeat(np.arange(len(z)), z.shape[1]))


def accuracy(z, y, z_test, y_test, **options):
    probe = OnlineKNN(
        name="knn", input="z", target="y", queue_length=len(z), metrics={}, num_classes=int(y.max()) + 1, k=20,
        **options,
    )  # fmt: skip
    votes = probe._compute_knn_predictions(torch.from_numpy(z_test), torch.from_numpy(z), torch.from_numpy(y))
    return 100 * (votes.argmax(dim=1).numpy() == y_test).mean()


QUANTITIES = {
    "rankme": rankme,
    "rankme:jax": jax_rankme,
    "lidar": lidar,
    "lidar:blocks": lambda z: lidar(z, in_blocks=True),
    "lidar:jax": jax_lidar,
    "knn_accuracy": accuracy,
    "knn_accuracy:cosine": lambda **data: accuracy(**data, distance_metric="cosine"),
}
