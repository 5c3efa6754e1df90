"""The handwritten digits that ship with scikit-learn."""

from __future__ import annotations

from ..errors import DataError
from ..optional import requires_extra
from .imagesets import ImageData, ImageSet, array_images
from .splitting import stratified_split

with requires_extra("models", needed_for="Working with images"):
    import numpy as np

DIGITS_VAL_SHARE = 0.25


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
    with requires_extra("evaluate", needed_for="The handwritten digits"):
        from sklearn.datasets import load_digits

    bunch = load_digits()
    n_all = len(bunch.target)
    if n_images is not None and not 1 <= n_images <= n_all:
        raise DataError(f"Asked for {n_images} digits; expected between 1 and {n_all:,}.")
    return array_images(
        np.rint(bunch.images[:n_images] * (255 / 16)).astype(np.uint8),  # (n, 8, 8), pixels come as 0 to 16
        bunch.target[:n_images].astype(np.int64),
        name="digits",
        split="all" if n_images is None else f"first {n_images}",
        classes=tuple(str(name) for name in bunch.target_names),
    )


def digits_data(*, val_share: float = DIGITS_VAL_SHARE, seed: int = 0) -> ImageData:
    """All the digits, split once and for ever: by default 1,346 for training and 451 for testing.

    Writers are not named in the data, so that both parts may have digits of the same hand.

    Parameters
    ----------
    val_share : float
        Between 0 and 1, of each class.
    seed : int
        Another seed is another split, and its numbers are not comparable.
    """
    return stratified_split(digits(), val_share=val_share, seed=seed)
