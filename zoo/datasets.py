"""Image sets: labelled images with a name and a split, ready for :func:`zoo.features.featurise`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .errors import DataError, MissingExtra

try:
    import numpy as np
except ModuleNotFoundError as error:
    raise MissingExtra("numpy", extra="models", needed_for="Working with images") from error

if TYPE_CHECKING:
    from PIL import Image


@dataclass(frozen=True, eq=False)
class ImageSet:
    """Labelled images of one split; indexing gives ``(PIL image, label)`` as torch's loaders expect."""

    name: str
    split: str
    images: Sequence[Image.Image]
    labels: np.ndarray  # int64 (n,)
    classes: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(self.images) != len(self.labels):
            raise DataError(
                f"The image set {self.name!r} has {len(self.images)} images and {len(self.labels)} labels; "
                "expected one label an image."
            )

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[Image.Image, int]:
        return self.images[index], int(self.labels[index])


def digits(*, n_images: int | None = None) -> ImageSet:
    """The handwritten digits that ship with scikit-learn: 1,797 images of 8 x 8 px in 10 classes.

    Parameters
    ----------
    n_images : int, optional
        Only the first so many; they come in a mixed order of classes.

    Raises
    ------
    MissingExtra
        If scikit-learn is not installed.
    DataError
        If ``n_images`` is not between 1 and 1,797.

    References
    ----------
    E. Alpaydin and C. Kaynak 1998, Optical Recognition of Handwritten Digits, UCI (its test part).
    """
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise MissingExtra("scikit-learn", extra="demo", needed_for="The handwritten digits") from error
    try:
        from PIL import Image
    except ModuleNotFoundError as error:
        raise MissingExtra("pillow", extra="models", needed_for="The handwritten digits") from error

    bunch = load_digits()
    n_all = len(bunch.target)
    if n_images is not None and not 1 <= n_images <= n_all:
        raise DataError(f"Asked for {n_images} digits; expected between 1 and {n_all:,}.")
    grey = np.rint(bunch.images[:n_images] * (255 / 16)).astype(np.uint8)  # (n, 8, 8), pixels come as 0 to 16
    return ImageSet(
        name="digits",
        split="all" if n_images is None else f"first {n_images}",
        images=[Image.fromarray(pixels) for pixels in grey],
        labels=bunch.target[:n_images].astype(np.int64),
        classes=tuple(str(name) for name in bunch.target_names),
    )
