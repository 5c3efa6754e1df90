"""From an image to an encoder's input, as its card says.

Nothing of the zoo is needed to unpickle the transforms: torchvision's classes behind one whose pickle carries its own
text. Workers of a data loader that are started afresh could not import the zoo if it came through ``torch.hub``.
"""

from __future__ import annotations

from ..cards.schema import Preprocess
from ..datasets.rgb import RGB, Scale
from ..optional import requires_extra

with requires_extra("models", needed_for="Preprocessing images"):
    from torchvision import transforms


def build_preprocess(preprocess: Preprocess, *, scale: Scale | None = None) -> transforms.Compose:
    """The transform of one encoder.

    Parameters
    ----------
    preprocess : Preprocess
        ``card.preprocess``.
    scale : (float, float), optional
        The values that are black and white, of images with more than 8 bits a channel; by default those of their range.

    Returns
    -------
    torchvision.transforms.Compose
        A PIL image, or an array of shape (height, width) or (height, width, channels) -> float32 tensor
        (3, crop_px, crop_px). It is made 8-bit RGB first, and turned as its EXIF orientation says; what is taken, and
        what is refused with a :class:`~zoo.errors.DataError`, is said at :func:`zoo.datasets.rgb.to_rgb`. Pixels that
        were         turned by hand are turned again if the image still carries an orientation: turn with
        ``PIL.ImageOps.exif_transpose``, which removes it.
    """
    return transforms.Compose(
        [
            RGB(preprocess.resize_px, preprocess.crop_px, preprocess.interpolation, scale),
            transforms.Resize(
                preprocess.resize_px, interpolation=transforms.InterpolationMode(preprocess.interpolation)
            ),
            transforms.CenterCrop(preprocess.crop_px),
            transforms.ToTensor(),
            transforms.Normalize(mean=list(preprocess.mean), std=list(preprocess.std)),
        ]
    )
