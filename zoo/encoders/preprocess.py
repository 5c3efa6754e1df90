"""From an image to an encoder's input, as its card says.

Unpickling the steps needs nothing of the zoo, for each carries the text of its module: workers of a data loader that
are started afresh could not import the zoo if it came through ``torch.hub``.
"""

from __future__ import annotations

from typing import Any

from ..cards.schema import Preprocess
from ..datasets.rgb import RGB, CropStep, NormalizeStep, ResizeStep, Steps, TensorStep, make_channel_reorder
from ..optional import require_extra


def build_preprocess(preprocess: Preprocess, *, fast_resize: bool = False) -> Steps:
    """The transform of ``card.preprocess``, from an image to a float32 tensor (3, crop_px, crop_px).

    The image is of PIL, or an array (height, width) or (height, width, channels). It is made 8-bit RGB first, and
    turned as its EXIF orientation says; :func:`zoo.datasets.rgb.to_rgb` documents which images are accepted, and makes
    images with another range of values or over another background.

    Pixels that were turned by hand are turned again if the image still has an orientation: turn them with
    ``PIL.ImageOps.exif_transpose``, which removes it.

    ``fast_resize`` takes torchvision's kernel for tensors in place of Pillow's. Pixels differ by two steps of 255 at
    most; the features are other features, with another hash of the preprocessing.
    """
    normalize: list[Any] = [
        NormalizeStep(mean=list(preprocess.mean), std=list(preprocess.std)),
        *make_channel_reorder(preprocess.channels),
    ]
    rgb, sized, cropped = build_geometry_steps(preprocess)
    if not fast_resize:
        return Steps([rgb, sized, cropped, TensorStep(), *normalize])
    with require_extra("models", needed_for="Resizing images as tensors"):
        import torch
        from torchvision import transforms
        from torchvision.transforms import v2
    resize = v2.Resize(sized.size, interpolation=transforms.InterpolationMode(sized.interpolation))
    as_float = transforms.ConvertImageDtype(torch.float32)
    return Steps([rgb, v2.PILToTensor(), resize, cropped, as_float, *normalize])


def build_geometry_steps(preprocess: Preprocess) -> tuple[RGB, ResizeStep, CropStep]:
    """The first steps of :func:`build_preprocess`: from an image to the 8-bit RGB square that the encoder sees."""
    return (
        RGB(is_squashed=preprocess.fit == "squash"),
        ResizeStep(preprocess.resize_size, interpolation=preprocess.interpolation),
        CropStep((preprocess.crop_px,) * 2, rounds_down=preprocess.crop_rounding == "down"),
    )
