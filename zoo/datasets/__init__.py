"""Image sets: labelled images of two splits, from many sources, and reproducible subsets of them.

>>> from zoo.datasets import balanced, open_images
>>> data = open_images("digits")
>>> few = balanced(data.train.labels, 5, seed=0, parent=data.train.fingerprint).of(data.train)
>>> len(data.train), len(few), few.split
(1346, 50, 'train 5-shot')

"""

from __future__ import annotations

from .images import ImageData, ImageSet, LazyImages, array_images, pixels_of
from .libraries import digits, digits_data
from .opening import open_images
from .shapes import Geometry, geometry, shapes
from .subsets import Subset, balanced, fraction, held_out, load_subset, save_subset

__all__ = [
    "Geometry",
    "ImageData",
    "ImageSet",
    "LazyImages",
    "Subset",
    "array_images",
    "balanced",
    "digits",
    "digits_data",
    "fraction",
    "geometry",
    "held_out",
    "load_subset",
    "open_images",
    "pixels_of",
    "save_subset",
    "shapes",
]
