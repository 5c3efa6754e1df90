"""From the content of a checkpoint to the state dict of an encoder: one small function a layout.

A card names its layout in ``weights.converter``. The function takes the content that :mod:`zoo.weights.checkpoints`
read and gives tensors under the names of torchvision or timm; what it leaves out, it declares, so that :func:`convert`
can insist on the rest: no name missing, none left over, every shape and type right, every number finite, and no
parameter equal to its value before training.

A new layout is one function, its name in the table ``LAYOUTS`` of a module here, and in
``zoo.cards.schema.LAYOUT_NAMES``. A user's file may be wrapped in many ways; :mod:`.wrappers` finds the encoder in it.
"""

from __future__ import annotations

from .convert import (
    LAYOUTS,
    Converted,
    convert,
    convert_own,
    get_layout,
    hash_parameters,
    is_complete_file,
    require_fit,
)
from .wrappers import find_published_role

__all__ = [
    "LAYOUTS",
    "Converted",
    "convert",
    "convert_own",
    "find_published_role",
    "get_layout",
    "hash_parameters",
    "is_complete_file",
    "require_fit",
]
