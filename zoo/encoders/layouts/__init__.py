"""From what a file of weights holds to the state dict of an encoder: one small function a layout.

A card names its layout in ``weights.converter``. The function takes what :mod:`zoo.weights.checkpoints` made of the
file and gives tensors under the names of torchvision or timm; what it leaves out, it declares, so that :func:`convert`
can insist on the rest: no name missing, none left over, every shape and type right, every number finite, and every
parameter moved from where training starts.

A new layout is one function, one line in the table ``LAYOUTS`` of the module it belongs to, and its name in
``zoo.cards.schema.LAYOUT_NAMES``.

"""

from __future__ import annotations

from .convert import (
    LAYOUTS,
    Converted,
    convert,
    convert_own,
    fingerprints,
    fits_without_companions,
    layout_named,
    require_fit,
)
from .wrappers import published_role

__all__ = [
    "LAYOUTS",
    "Converted",
    "convert",
    "convert_own",
    "fingerprints",
    "fits_without_companions",
    "layout_named",
    "published_role",
    "require_fit",
]
