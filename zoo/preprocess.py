"""From an image to an encoder's input, as its card says.

The transforms are torchvision's classes and nothing else: workers of a data loader that are started afresh unpickle
them without the zoo, which under ``torch.hub`` they could not import.
"""

from __future__ import annotations

from .errors import MissingExtra
from .metadata import Preprocess

try:
    from torchvision import transforms
    from torchvision.transforms import v2
except ModuleNotFoundError as error:
    library = str(error.name).partition(".")[0]
    if library not in ("torch", "torchvision"):
        raise
    raise MissingExtra(library, extra="models", needed_for="Preprocessing images") from error


def build_preprocess(preprocess: Preprocess) -> transforms.Compose:
    """The transform of one encoder.

    Parameters
    ----------
    preprocess : Preprocess
        ``card.preprocess``.

    Returns
    -------
    torchvision.transforms.Compose
        A PIL image of any mode that Pillow converts to RGB -> float32 tensor (3, crop_px, crop_px). As everywhere in
        torchvision, conversion drops transparency, and 16-bit pixels above 255 saturate: rescale such images before.
    """
    return transforms.Compose(
        [
            v2.RGB(),
            transforms.Resize(
                preprocess.resize_px, interpolation=transforms.InterpolationMode(preprocess.interpolation)
            ),
            transforms.CenterCrop(preprocess.crop_px),
            transforms.ToTensor(),
            transforms.Normalize(mean=list(preprocess.mean), std=list(preprocess.std)),
        ]
    )
