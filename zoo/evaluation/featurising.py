"""Features of both parts of a data set under an encoder of the zoo, kept where a later run finds them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..cards import catalogue
from ..datasets import ImageData, ImageSet
from ..features import Features, Progress
from ..features import featurise as compute_features
from ..files import cache_folder

if TYPE_CHECKING:
    import torch

PARTS = ("train", "val")


@dataclass(frozen=True, slots=True, kw_only=True)
class Featurising:
    """How features are computed; but for precision and what is skipped nothing changes them beyond rounding."""

    batch_size: int = 64
    n_workers: int = 0
    device: str | None = None  # a GPU where there is one
    precision: str = "float32"
    skip_corrupt: bool = False


def evaluations_folder() -> Path:
    """Where features and measured probes are kept unless a folder is named."""
    return cache_folder() / "evaluations"


def features_folder(root: Path, name: str, images: ImageSet, *, precision: str) -> Path:
    """Where the features of one part lie: told apart by encoder, data set, part, images and precision."""
    suffix = "" if precision == "float32" else f"-{precision}"
    folder = f"{_plain(images.name)}-{_plain(images.split)}-{images.fingerprint[:12]}{suffix}"
    return root / _plain(name) / "features" / folder


def runs_folder(root: Path, name: str) -> Path:
    """Where the measured probes of an encoder lie."""
    return root / _plain(name) / "probes"


def featurise_data(
    name: str,
    data: ImageData,
    *,
    root: Path,
    how: Featurising | None = None,
    load: Callable[[str], tuple[torch.nn.Module, Any]] | None = None,
    progress: Callable[[str], Progress] | None = None,
    parts: tuple[str, ...] = PARTS,
) -> dict[str, Features]:
    """Features of the parts of a data set; what lies in their folder already is not computed again.

    Parameters
    ----------
    name : str
        Id of an encoder of the zoo, with its representation if it is not that of the card.
    data : ImageData
    root : Path
        Folder of all evaluations.
    how : Featurising, optional
    load : callable, optional
        From the id to encoder and preprocessing; :func:`zoo.load` by default.
    progress : callable, optional
        From the name of a part to what is told of its progress.
    parts : tuple of str
        "train", "val" or both.

    Returns
    -------
    dict from the part to its Features

    Raises
    ------
    UnknownName, WeightsUnavailable, WeightsRefused, BuildError, StoreError, MissingExtra
        As :func:`zoo.load`.
    CorruptImage, DataError, QueryError
        As :func:`zoo.features.featurise`.
    """
    from ..loading import load as load_encoder

    chosen = how or Featurising()
    card_id = catalogue().id_of(name)
    encoder, preprocess = (load or load_encoder)(card_id)
    found = {}
    for part in parts:
        images: ImageSet = getattr(data, part)
        found[part] = compute_features(
            encoder,
            preprocess,
            images,
            name=card_id,
            folder=features_folder(root, card_id, images, precision=chosen.precision),
            batch_size=chosen.batch_size,
            n_workers=chosen.n_workers,
            device=chosen.device,
            precision=chosen.precision,
            representation=card_id.partition("@")[2] or "card",
            skip_corrupt=chosen.skip_corrupt,
            progress=None if progress is None else progress(part),
        )
    return found


def _plain(text: str) -> str:
    """A text as a part of a path on every system."""
    return re.sub(r"[^\w.+-]", "_", text) or "_"
