"""Features of an image set: computed once, kept with where they came from, read back and checked."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .atomic import replaced
from .datasets import ImageSet
from .errors import DataError, MissingExtra

try:
    import numpy as np
except ModuleNotFoundError as error:
    raise MissingExtra("numpy", extra="models", needed_for="Working with features") from error

if TYPE_CHECKING:
    import torch

_FORMAT = "zoo-features-1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where features came from. Two sets of features may be compared or joined only as far as these agree."""

    encoder: str  # id
    dataset: str
    split: str
    weights_hash: str  # of every tensor of the encoder
    preprocess_hash: str


@dataclass(frozen=True, eq=False)
class Features:
    """Features of one image set under one encoder.

    ``x`` is float32 (n_images, dim), one row an image; ``y`` is int64 (n_images,), the labels.
    """

    x: np.ndarray
    y: np.ndarray
    origin: Origin

    def save(self, path: str | Path) -> Path:
        """Writes a safetensors file with ``x``, ``y`` and the origin; the file appears whole or not at all.

        Raises
        ------
        DataError
            If the file cannot be written; says why.
        """
        from safetensors.numpy import save

        target = Path(path)
        header = {"format": _FORMAT, "origin": json.dumps(asdict(self.origin))}
        content = save({"x": np.ascontiguousarray(self.x), "y": np.ascontiguousarray(self.y)}, metadata=header)
        try:
            with replaced(target) as file:
                file.write(content)
        except OSError as error:
            raise DataError(f"The features could not be written to {target} ({error}); nothing was changed.") from error
        return target


def load_features(path: str | Path) -> Features:
    """Reads what :meth:`Features.save` wrote.

    Raises
    ------
    DataError
        If the file is absent, damaged, or no features file; says which.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(path), framework="numpy") as file:
            header = file.metadata() or {}
            if header.get("format") != _FORMAT:
                raise DataError(f"{path} holds no features of this zoo (format {header.get('format')!r}).")
            x, y = file.get_tensor("x"), file.get_tensor("y")
            origin = Origin(**json.loads(header["origin"]))
    except FileNotFoundError as error:
        raise DataError(f"There is no features file {path}; write one with Features.save.") from error
    except (OSError, SafetensorError, ValueError, KeyError, TypeError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"The features file {path} is damaged ({error}); compute the features again.") from error
    if x.dtype != np.float32 or x.ndim != 2 or y.dtype != np.int64 or y.shape != x.shape[:1]:
        raise DataError(
            f"The features file {path} holds x as {x.dtype} {x.shape} and y as {y.dtype} {y.shape}; "
            "expected float32 (n, dim) and int64 (n,): compute the features again."
        )
    return Features(x=x, y=y, origin=origin)


def featurise(
    encoder: torch.nn.Module,
    preprocess: Callable[[Any], torch.Tensor],
    images: ImageSet,
    *,
    name: str,
    batch_size: int = 64,
    n_workers: int = 0,
    device: str = "cpu",
    progress: Callable[[int], None] | None = None,
) -> Features:
    """Features of every image of a set, in its order.

    Parameters
    ----------
    encoder, preprocess
        As :func:`zoo.load` returns them; the encoder is left in eval mode on ``device``.
    images : ImageSet
        n labelled images.
    name : str
        Id of the encoder, kept with the features.
    batch_size : int
        Images a forward pass; the features do not depend on it beyond rounding.
    n_workers : int
        Processes that decode and preprocess.
    device : str
        Where the encoder runs.
    progress : callable, optional
        Called with the number of images after each batch.

    Returns
    -------
    Features
        x float32 (n, dim), y int64 (n,).

    Raises
    ------
    DataError
        If the set is empty, or an image gives features that are not finite; names the first one.
    """
    try:
        import torch
    except ImportError as error:
        raise MissingExtra("torch", extra="models", needed_for="Computing features") from error

    if not len(images):
        raise DataError(f"The image set {images.name!r} holds no image; there is nothing to featurise.")
    loader: torch.utils.data.DataLoader[torch.Tensor] = torch.utils.data.DataLoader(
        _Preprocessed(images, preprocess),  # type: ignore[arg-type]
        batch_size=batch_size,
        num_workers=n_workers,
    )
    encoder = encoder.to(device).eval()
    dtype = next((parameter.dtype for parameter in encoder.parameters()), torch.float32)  # half precision is welcome
    parts: list[np.ndarray] = []
    with torch.inference_mode():
        for batch in loader:  # (b, 3, px, px)
            parts.append(encoder(batch.to(device, dtype)).float().cpu().numpy())  # (b, dim)
            if progress is not None:
                progress(len(batch))
    x = np.concatenate(parts)  # (n, dim)
    broken = np.flatnonzero(~np.isfinite(x).all(axis=1))
    if broken.size:
        raise DataError(
            f"{broken.size} of {len(x)} images of {images.name!r} have features that are not finite under {name!r}, "
            f"the first is image {broken[0]}; check the image and the weights."
        )
    origin = Origin(
        encoder=name,
        dataset=images.name,
        split=images.split,
        weights_hash=_weights_hash(encoder),
        preprocess_hash=blake2b(repr(preprocess).encode(), digest_size=16).hexdigest(),
    )
    return Features(x=x, y=images.labels, origin=origin)


class _Preprocessed:
    """The images of a set after preprocessing, for a loader; a class so that spawned workers can unpickle it."""

    def __init__(self, images: ImageSet, preprocess: Callable[[Any], torch.Tensor]) -> None:
        self.images = images
        self.preprocess = preprocess

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.preprocess(self.images[index][0])


def _weights_hash(encoder: torch.nn.Module) -> str:
    import torch

    digest = blake2b(digest_size=16)
    for name, tensor in sorted(encoder.state_dict().items()):
        plain = tensor.detach().cpu().contiguous()
        digest.update(f"{name}\0{plain.dtype}\0{tuple(plain.shape)}\0".encode())
        digest.update(plain.reshape(-1).view(torch.uint8).numpy())  # as bytes, for numpy has no bfloat16
    return digest.hexdigest()
