"""An encoder as a transformer of scikit-learn: images in, features out, for pipelines and searches."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable
from typing import Any

from ..cards.catalogue import catalogue
from ..cards.schema import EncoderCard
from ..datasets.folders import unlabelled_images
from ..datasets.rgb import Scale
from ..encoders.encoder import Encoder
from ..encoders.preprocess import build_preprocess
from ..errors import DataError, QueryError
from ..loading import load
from ..optional import requires_extra
from .computing import featurise

with requires_extra("evaluate", needed_for="An encoder as a transformer of scikit-learn"):
    import numpy as np
    import torch
    from PIL import Image
    from sklearn.base import BaseEstimator, TransformerMixin

_EXPECTED = "paths, PIL images or arrays of pixels, one per image"
_CHANNELS = (1, 3, 4)


class ImageTransformer(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Features of images by a frozen encoder, as a step of scikit-learn.

    They are those of :func:`zoo.features.featurise` and ``zoo features``, to the last bit where batches are the same.
    ``fit`` learns nothing. The first ``transform`` loads the network, which clones share; pickles are without it.

    A search computes the features again for every candidate and fold: search on features that were computed once, or
    give the pipeline ``memory=``, which keeps those of training folds (files are recognised by their paths there).

    Parameters
    ----------
    encoder : str or Encoder
        What :func:`zoo.load` takes, such as ``"dino_vitS16@cls:9"``; or what it returns, also changed: that is shared
        by clones, in eval mode, and is in pickles.
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

    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.linear_model import LogisticRegression
    >>> pixels = np.zeros((4, 8, 8), np.uint8)
    >>> pixels[2:] = 255
    >>> classifier = make_pipeline(ImageTransformer("pocket_init_rn", device="cpu"), LogisticRegression())
    >>> classifier.fit(pixels, ["black", "black", "white", "white"]).predict(pixels[1:3]).tolist()
    ['black', 'white']
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
        images = unlabelled_images(items, names=names, scale=self.scale)
        for sentence in images.reading.notes:
            warnings.warn(sentence, stacklevel=2)
        network, preprocess = self._network()
        how = {name: getattr(self, name) for name in ("batch_size", "n_workers", "device", "precision")}
        return np.asarray(featurise(network, preprocess, images, name=self._card.id, **how).x)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the features, objects (dim,): ``dino_vitS16_0`` and so on."""
        card = self._card
        return np.array([f"{card.id}_{number}" for number in range(card.representation.dim)], dtype=object)

    @property
    def _card(self) -> EncoderCard:
        if isinstance(self.encoder, str):
            return catalogue()[self.encoder]
        card = getattr(self.encoder, "card", None)
        if card is None or self.px is not None:
            found = type(self.encoder).__name__ + " and px" * (self.px is not None)
            raise QueryError(f"Got {found} as the encoder, expected its name, or what zoo.load returns alone.")
        return card

    def _network(self) -> tuple[torch.nn.Module, Any]:
        """Encoder and preprocessing, loaded once for this transformer and its clones."""
        if not isinstance(self.encoder, str):
            return self.encoder, build_preprocess(self._card.preprocess)
        shared, key = self._shared(), (self.encoder, self.px)
        if key not in shared:
            shared.clear()  # a search over encoders holds one of them
            shared[key] = load(self.encoder, px=self.px)
        return shared[key]

    def _shared(self) -> dict[Any, tuple[torch.nn.Module, Any]]:
        found: dict[Any, tuple[torch.nn.Module, Any]] = self.__dict__.setdefault("_loaded", {})
        return found

    def __sklearn_clone__(self) -> ImageTransformer:
        other = type(self)(**self.get_params(deep=False))
        kept = {name: value for name, value in vars(self).items() if name == "_sklearn_output_config"}
        vars(other).update(kept, _loaded=self._shared())
        return other

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name != "_loaded"}

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit, tags.no_validation = False, True
        tags.input_tags.two_d_array, tags.input_tags.three_d_array, tags.input_tags.string = False, True, True
        return tags


def _listed(x: Any) -> list[Any]:
    """One item per image; DataError if the value is no images."""
    if isinstance(x, str | bytes | os.PathLike | Image.Image):
        raise DataError(f"Got one {type(x).__name__}, expected {_EXPECTED}; put it into a list.")
    if isinstance(x, torch.Tensor) or not hasattr(x, "__array__"):
        if isinstance(x, dict | set | frozenset) or not isinstance(x, Iterable):
            raise DataError(f"Got a {type(x).__name__}, expected {_EXPECTED}; give a list, an array or a column.")
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
