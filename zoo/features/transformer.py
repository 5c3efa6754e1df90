"""An encoder as a transformer of scikit-learn: images in, features out, for pipelines and searches."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from ..cards.catalogue import load_catalogue
from ..cards.schema import EncoderCard
from ..datasets.folders import make_unlabelled_images
from ..datasets.rgb import Scale
from ..encoders.encoder import Encoder
from ..encoders.preprocess import build_preprocess
from ..errors import DataError, QueryError
from ..loading import load
from ..optional import require_extra
from .featurising import featurise
from .origin import TORCH

with require_extra("evaluate", needed_for="An encoder as a transformer of scikit-learn"):
    import numpy as np
    import torch
    from PIL import Image
    from sklearn.base import BaseEstimator, TransformerMixin

_EXPECTED = "paths, PIL images or arrays of pixels, one per image"
_CHANNELS = (1, 3, 4)


class ImageTransformer(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Features of images by a frozen encoder, as a step of scikit-learn; those of ``zoo features --backend torch``.

    ``fit`` learns nothing. ``transform`` loads the network; the last two stay in memory, also for clones, and are in no
    pickle. A search computes features for every candidate and fold: search on features that were computed once, or give
    the pipeline ``memory=``, which keeps those of training folds (and knows files by their paths alone).

    Parameters
    ----------
    encoder : str or Encoder
        What :func:`zoo.load` takes, such as ``"dino_vitS16@cls:9"``; or what it returns, also trained further: that is
        copied by clones and pickles, and left in eval mode.
    px : int, optional
        As for :func:`zoo.load`, with a name.
    batch_size, n_workers, device, precision
        As for :func:`zoo.features.featurise`.
    scale : (float, float), optional
        The values that are black and white, of images with other values than 8-bit ones.

    Notes
    -----
    ``transform`` takes paths, PIL images or arrays (height, width[, channels]) in a list, an array of objects, a column
    or a table of one column; or an array (n, height, width[, channels]) with 1, 3 or 4 channels, uint8 or another type
    that :func:`~zoo.datasets.rgb.to_rgb` takes. It returns float32 (n, dim), and raises DataError if the images are
    none of these or their values have no range; CorruptImage if a file is missing or cannot be read; QueryError if an
    option makes no sense; and what :func:`zoo.load` raises.

    >>> ImageTransformer("pocket_init_rn", device="cpu").transform(np.zeros((2, 8, 8), np.uint8)).shape
    (2, 48)
    """

    def __init__(
        self,
        encoder: str | Encoder,
        *,
        px: int | None = None,
        batch_size: int = 64,
        n_workers: int = 0,
        device: str | None = None,
        precision: str = "float32",
        scale: Scale | None = None,
    ) -> None:
        self.encoder = encoder
        self.px = px
        self.batch_size = batch_size
        self.n_workers = n_workers
        self.device = device
        self.precision = precision
        self.scale = scale

    def fit(self, X: Any, y: Any = None) -> ImageTransformer:  # noqa: N803
        """The transformer itself; the images are not looked at."""
        return self

    def transform(self, X: Any) -> np.ndarray:  # noqa: N803
        """Features of images, float32 (n, dim), in their order; the class says which images and which errors."""
        items = _listed(X)
        names = [str(number) for number in range(len(items))]  # not paths, of which one may come twice
        images = make_unlabelled_images(items, names=names, scale=self.scale)
        for sentence in images.reading.notes:
            warnings.warn(sentence, stacklevel=2)
        network, preprocess = self._network()
        how = {name: getattr(self, name) for name in ("batch_size", "n_workers", "device", "precision")}
        # by PyTorch, however many images: those of a pipeline come in several calls
        return np.asarray(featurise(network, preprocess, images, name=self._card.id, backend=TORCH, **how).x)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the features, objects (dim,): the id of the encoder, ``_`` and a number from 0."""
        card = self._card
        return np.array([f"{card.id}_{number}" for number in range(card.representation.dim)], dtype=object)

    @property
    def _card(self) -> EncoderCard:
        if isinstance(self.encoder, str):
            return load_catalogue()[self.encoder]
        card: EncoderCard | None = getattr(self.encoder, "card", None)
        if card is None or self.px is not None:
            found = f"{type(self.encoder).__name__} and px {self.px}"
            raise QueryError(f"Got {found} as the encoder, expected its name, or what zoo.load returns, without px.")
        return card

    def _network(self) -> tuple[torch.nn.Module, Any]:
        if isinstance(self.encoder, str):
            return _loaded(self.encoder, self.px, repr(self._card))
        return self.encoder, build_preprocess(self._card.preprocess)

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit, tags.no_validation = False, True
        tags.input_tags.two_d_array, tags.input_tags.three_d_array, tags.input_tags.string = False, True, True
        return tags


@lru_cache(maxsize=2)
def _loaded(name: str, px: int | None, card: str) -> tuple[torch.nn.Module, Any]:
    """The card is part of the key, for an encoder may be registered anew under its name."""
    return load(name, px=px)


def _listed(x: Any) -> list[Any]:
    """One item per image; DataError if the value is no images."""
    if isinstance(x, torch.Tensor) or not hasattr(x, "__array__"):
        if isinstance(x, str | bytes | os.PathLike | Image.Image | dict | set) or not isinstance(x, Iterable):
            raise DataError(f"Got one {type(x).__name__}, expected {_EXPECTED}: in a list, an array or a column.")
        return list(x)
    array = np.asarray(x)
    found, shape = f"Got values of type {array.dtype} and shape {array.shape}, expected", array.shape
    if array.dtype.kind in "OUST":
        if array.ndim == 1 or (array.ndim == 2 and shape[1] == 1):
            return list(array.reshape(-1).tolist())
        raise DataError(f"{found} one column with {_EXPECTED}; choose one.")
    if (array.ndim == 4 and shape[3] in _CHANNELS) or (array.ndim == 3 and shape[2] not in _CHANNELS):
        return list(array)
    remedy = "give the pixels of images, not a table of numbers"
    if array.ndim == 3:
        remedy = "is it one image or grey ones? Give one as [image], and grey ones as array[..., None]"
    elif array.ndim == 4 and shape[1] in _CHANNELS:
        remedy = "move the channels to the end with .transpose(0, 2, 3, 1)"
    raise DataError(f"{found} (n, height, width) or (n, height, width, channels) with 1, 3 or 4 channels; {remedy}.")
