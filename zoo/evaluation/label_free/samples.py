"""Features of the images, views and turned images that label-free metrics are computed from."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...datasets import ImageSet
from ...datasets.augmentations import Recipe
from ...datasets.views import drawn_images, rotations_of, view_preprocess, views_of
from ...features import Features, Progress
from ...features import featurise as compute_features
from ...features.index import INDEX
from ...metadata import EncoderCard
from ...optional import requires_extra
from ..featurising import Featurising, features_folder
from ..rows import chosen_rows
from .protocol import SAMPLES

with requires_extra("models", needed_for="A label-free metric"):
    import numpy as np

N_IMAGES: int = SAMPLES["n_images"]
"""Images whose features are taken at most."""

OF_SHORT_FEATURES, OF_LONG_FEATURES = SAMPLES["n_and_q_up_to_1024_dimensions"], SAMPLES["n_and_q_above"]
LONGEST_SHORT_DIM = 1_024

Load = Callable[[str], tuple[Any, Any]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sample:
    """Features of some images of a set."""

    features: Features  # of these images, or of more
    images: ImageSet  # one image a row of z, or a view
    z: Any  # float32 (n, dim): an array, or rows that stay on the disk
    y: np.ndarray  # int64 (n,)
    seconds: float  # that featurising took in this run; nearly none where features were found


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How much was asked for; what there is may be less."""

    n_images: int
    n: int  # images with views
    q: int  # views of each
    seed: int

    @classmethod
    def usual(cls, dim: int, *, seed: int) -> Sizes:
        """What is asked for where nobody says otherwise, for features of so many dimensions.

        >>> Sizes.usual(2048, seed=0)
        Sizes(n_images=25600, n=5000, q=10, seed=0)
        """
        n, q = OF_SHORT_FEATURES if dim <= LONGEST_SHORT_DIM else OF_LONG_FEATURES
        return cls(n_images=N_IMAGES, n=n, q=q, seed=seed)


class Featuriser:
    """One encoder, loaded once, with where its features go."""

    def __init__(
        self,
        card: EncoderCard,
        *,
        root: Path,
        how: Featurising,
        load: Load | None,
        progress: Callable[[str], Progress] | None,
        sizes: Sizes,
    ) -> None:
        from ...loading import load as load_encoder

        self.card, self.root, self.how, self.progress, self.sizes = card, root, how, progress, sizes
        self.notes: list[str] = []  # what there was less of than asked for
        found: tuple[Any, Any] = (load or load_encoder)(card.id)
        self.encoder, self.preprocess = found

    def of_images(self, label: str, images: ImageSet) -> Sample:
        """Features of images as they are, of at most so many of them."""
        chosen = drawn_images(images, self._capped(images, self.sizes.n_images), seed=self.sizes.seed)
        subset = images.subset(chosen, split=images.split)
        if len(chosen) == len(images) or (self._folder(images) / INDEX).exists():
            return self._sample(label, images, subset, chosen)  # those of all images lie there, or may lie there
        drawn = images.subset(chosen, split=f"{images.split} {len(chosen)} drawn")
        return self._sample(label, drawn, subset, np.arange(len(chosen)))

    def of_turns(self, label: str, images: ImageSet) -> Sample:
        """Features of turned images."""
        turned = rotations_of(images, n=self._capped(images, self.sizes.n), seed=self.sizes.seed)
        return self._sample(label, turned, turned, np.arange(len(turned)))

    def of_views(self, label: str, images: ImageSet, recipe: Recipe) -> Sample:
        """Features of augmented views."""
        n, q, seed = self._capped(images, self.sizes.n), self.sizes.q, self.sizes.seed
        views = views_of(images, recipe, n=n, q=q, seed=seed)
        return self._sample(label, views, views, np.arange(len(views)), preprocess=view_preprocess(self.card))

    def _capped(self, images: ImageSet, n: int) -> int:
        if len(images) < n != N_IMAGES:
            self.notes.append(
                f"{n:,} images of {images.name} ({images.split}) were to be taken, and it has {len(images):,}: all are."
            )
        return min(n, len(images))

    def _folder(self, images: ImageSet) -> Path:
        return features_folder(self.root, self.card.id, images, precision=self.how.precision)

    def _sample(
        self, label: str, featurised: ImageSet, images: ImageSet, chosen: np.ndarray, *, preprocess: Any = None
    ) -> Sample:
        begun_s = time.perf_counter()
        features = compute_features(
            self.encoder,
            preprocess or self.preprocess,
            featurised,
            name=self.card.id,
            folder=self._folder(featurised),
            batch_size=self.how.batch_size,
            n_workers=self.how.n_workers,
            device=self.how.device,
            precision=self.how.precision,
            representation=self.card.id.partition("@")[2] or "card",
            skip_corrupt=self.how.skip_corrupt,
            progress=None if self.progress is None else self.progress(label),
        )
        seconds = time.perf_counter() - begun_s
        lost = [image.position for image in features.skipped]
        kept = np.setdiff1d(np.arange(len(featurised)), np.array(lost, np.int64))  # positions of the rows
        rows = np.flatnonzero(np.isin(kept, chosen))
        if lost:
            self.notes.append(f"{len(lost):,} images of {featurised.name} ({featurised.split}) could not be read.")
            readable = np.flatnonzero(np.isin(chosen, kept))
            images = images.subset(readable, split=images.split)
        return Sample(
            features=features, images=images, z=chosen_rows(features.x, rows), y=features.y[rows], seconds=seconds
        )
