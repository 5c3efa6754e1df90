"""From what a file of weights holds to the state dict of an encoder: one small function a layout.

A card names its layout in ``weights.converter``. The function takes what :mod:`zoo.weights.reading` made of the file
and gives tensors under the names of torchvision or timm; what it leaves out, it declares, so that :func:`convert` can
insist on the rest: no name missing, none left over, every shape and type right, every number finite, and every
parameter moved from where training starts.

A new layout is one function and one line in the table ``LAYOUTS`` of the module it belongs to.

==================  ==================================================================
``convert``         applies a layout, and holds what comes out against the encoder
``steps``           what layouts are made of: nesting, prefixes, declared drops, renames
``residual``        layouts of convolutional networks
``transformers``    layouts of vision transformers
``contrastive``     CLIP's, OpenCLIP's and what is built on them
``haiku``           BYOL's, from JAX
``libraries``       files of timm, torchvision and the zoo's own
==================  ==================================================================
"""

from __future__ import annotations

from .convert import LAYOUTS, convert, layout_named, require_fit

__all__ = ["LAYOUTS", "convert", "layout_named", "require_fit"]
