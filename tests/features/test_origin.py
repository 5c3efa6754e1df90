"""Where features come from: what makes another origin, and who may be compared with whom."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from tests.feature_runs import encoder, image_set, to_tensor
from zoo.errors import DataError
from zoo.features import featurise, get_code_version, require_comparable


def test_other_weights_preprocessings_images_and_precisions_give_other_origins() -> None:
    images = image_set(6)

    def mirrored(image: object) -> torch.Tensor:
        return to_tensor(image).flip(2)

    def origin(**changed: object) -> object:
        given = {"encoder": encoder(), "preprocess": to_tensor, "images": images, "name": "small", **changed}
        return featurise(**given).origin  # type: ignore[arg-type]

    first = origin()
    assert origin() == first
    assert origin(batch_size=2, n_workers=1, channels_last=True) == first
    assert origin(encoder=encoder(seed=1)).weights_hash != first.weights_hash
    assert origin(preprocess=mirrored).preprocess_hash != first.preprocess_hash
    assert origin(images=image_set(6, seed=1)).images_hash != first.images_hash == images.fingerprint
    assert origin(precision="bfloat16").precision == "bfloat16" != first.precision == "float32"
    assert origin(representation="cls of blocks 1+2").representation != first.representation == "card"
    assert first.code_version == get_code_version()


def test_features_of_another_encoder_or_of_other_classes_are_not_comparable() -> None:
    train, val = (
        featurise(encoder(), to_tensor, image_set(6, seed=seed, split=split), name="small")
        for seed, split in enumerate(("train", "val"))
    )
    require_comparable(train, val)
    other = featurise(encoder(seed=1), to_tensor, image_set(6), name="other", precision="bfloat16")
    with pytest.raises(DataError, match=r"differ in encoder \('small' and 'other'\) and weights .* and precision"):
        require_comparable(train, other)
    with pytest.raises(DataError, match=r"what label 1 means \('b' and 'x'\)"):
        require_comparable(train, replace(val, classes=("a", "x", "c")))
    released = replace(train.origin, code_version=train.origin.code_version.replace("zoo ", "zoo 9."))
    require_comparable(train, replace(val, origin=released))
    with pytest.raises(DataError, match="featurising code"):
        require_comparable(train, replace(val, origin=replace(train.origin, code_version="zoo 0.1.0, featurising 0")))


def test_a_preprocessing_that_does_not_say_what_it_does_is_refused() -> None:
    class Opaque:
        def __call__(self, image: object) -> torch.Tensor:
            return to_tensor(image)

    with pytest.raises(DataError, match="does not say what it does"):
        featurise(encoder(), Opaque(), image_set(3), name="small")
