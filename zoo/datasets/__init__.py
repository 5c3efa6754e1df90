"""Image sets: labelled images, or images with maps, of two splits from many sources; reproducible subsets and views.

>>> from zoo.datasets import balanced, open_images
>>> data = open_images("digits")
>>> few = balanced(data.train.labels, 5, seed=0).of(data.train)
>>> len(data.train), len(few), few.split
(1346, 50, 'train 5-shot')

Where groups of images are known, such as those of one patient (``open_images("scans.csv", group="patient")``), every
split keeps them together; images of a multi-label set have several tags (:func:`indicators_of`).
"""

from typing import TYPE_CHECKING

from ..optional import make_lazy_exports

if TYPE_CHECKING:
    from .dense import DenseData as DenseData
    from .dense import Maps as Maps
    from .dense import MapSet as MapSet
    from .images import ImageData as ImageData
    from .images import ImageSet as ImageSet
    from .images import LazyImages as LazyImages
    from .images import array_images as array_images
    from .images import indicators_of as indicators_of
    from .images import pixels_of as pixels_of
    from .libraries import digits as digits
    from .libraries import digits_data as digits_data
    from .rendering import Geometry as Geometry
    from .rendering import geometry as geometry
    from .rendering import shapes as shapes
    from .sources import open_any_images as open_any_images
    from .sources import open_dense as open_dense
    from .sources import open_images as open_images
    from .subsets import Subset as Subset
    from .subsets import balanced as balanced
    from .subsets import fraction as fraction
    from .subsets import held_out as held_out
else:
    __getattr__, __dir__, __all__ = make_lazy_exports(
        __name__,
        {
            "dense": ["DenseData", "MapSet", "Maps"],
            "images": ["ImageData", "ImageSet", "LazyImages", "array_images", "indicators_of", "pixels_of"],
            "libraries": ["digits", "digits_data"],
            "sources": ["open_any_images", "open_dense", "open_images"],
            "rendering": ["Geometry", "geometry", "shapes"],
            "subsets": ["Subset", "balanced", "fraction", "held_out"],
        },
    )
