"""From an image to an encoder's input, as its card says.

Unpickling the transforms needs nothing of the zoo: torchvision's classes follow one whose pickle carries its own text.
Workers of a data loader that are started afresh could not import the zoo if it came through ``torch.hub``.
"""

from __future__ import annotations

from typing import Any

from ..cards.schema import Preprocess
from ..datasets.rgb import RGB, CentreCrop
from ..datasets.views import make_channel_reorder
from ..optional import require_extra

with require_extra("models", needed_for="Preprocessing images"):
    import torch
    from torchvision import transforms
    from torchvision.transforms import v2


def build_preprocess(preprocess: Preprocess, *, fast_resize: bool = False) -> transforms.Compose:
    """The transform of ``card.preprocess``, from an image to a float32 tensor (3, crop_px, crop_px).

    The image is of PIL, or an array (height, width) or (height, width, channels). It is made 8-bit RGB first, and
    turned as its EXIF orientation says; :func:`zoo.datasets.rgb.to_rgb` documents which images are accepted, and makes
    images with another range of values or over another background.

    Pixels that were turned by hand are turned again if the image still has an orientation: turn them with
    ``PIL.ImageOps.exif_transpose``, which removes it.

    ``fast_resize`` takes torchvision's kernel for tensors in place of Pillow's. Pixels differ by two steps of 255 at
    most; the features are other features, with another hash of the preprocessing.
    """
    normalize = [
        transforms.Normalize(mean=list(preprocess.mean), std=list(preprocess.std)),
        *make_channel_reorder(preprocess),
    ]
    if not fast_resize:
        return transforms.Compose([*build_geometry_steps(preprocess), transforms.ToTensor(), *normalize])
    rgb, sized, cropped = build_geometry_steps(preprocess)
    resize = v2.Resize(sized.size, interpolation=sized.interpolation)
    as_float = transforms.ConvertImageDtype(torch.float32)
    return transforms.Compose([rgb, v2.PILToTensor(), resize, cropped, as_float, *normalize])


def build_geometry_steps(preprocess: Preprocess) -> list[Any]:
    """The first steps of :func:`build_preprocess`: from an image to the 8-bit RGB square that the encoder sees."""
    how = transforms.InterpolationMode(preprocess.interpolation)
    crop = transforms.CenterCrop if preprocess.crop_rounding == "half even" else CentreCrop
    return [
        RGB(is_squashed=preprocess.fit == "squash"),
        transforms.Resize(preprocess.resize_size, interpolation=how),
        crop((preprocess.crop_px, preprocess.crop_px)),
    ]
