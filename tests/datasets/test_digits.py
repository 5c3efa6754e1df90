"""The handwritten digits of scikit-learn, whole or the first of them."""

from __future__ import annotations

import numpy as np
import pytest

from zoo.datasets import digits
from zoo.errors import DataError


def test_the_digits_are_the_1797_images_of_scikit_learn_in_ten_classes() -> None:
    images = digits()
    assert len(images) == 1797 and len(images.classes) == 10
    image, label = images[0]
    assert image.size == (8, 8) and label == 0
    assert np.asarray(image).max() == 239  # 15 of 16 levels of grey


@pytest.mark.parametrize("wanted", [0, -1, 1798])
def test_asking_for_more_digits_than_there_are_is_refused(wanted: int) -> None:
    with pytest.raises(DataError, match="between 1 and 1,797"):
        digits(n_images=wanted)
