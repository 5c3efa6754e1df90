"""Image sets: labelled images of two splits, from many sources, and reproducible subsets of them.

>>> from zoo.datasets import balanced, open_images
>>> data = open_images("digits")
>>> few = balanced(data.train.labels, 5, seed=0, parent=data.train.fingerprint).of(data.train)
>>> len(data.train), len(few), few.split
(1346, 50, 'train 5-shot')

====================  ===========================================================================================
``opening``           ``open_images``: an image set from one text, whatever its source
``imagesets``         ``ImageSet`` and ``ImageData``, what every source becomes
``contents``          hashes of what is in each image, and which images are copies of others
``shapes``            rendered solids with exact depth and normals
``rendering``         pixels, depth and normals of one scene
``scenes``            what is in an image: shapes, textures, and what has nothing to do with them
``solids``            where rays meet solids
``handwritten``       scikit-learn's handwritten digits
``folders``           a folder a class
``imagefiles``        what is in image files beside their pixels, and how they are read; ``dicom`` for those files
``arrays``            npz files
``torchvision_sets``  data sets of torchvision on the disk
``huggingface_sets``  data sets of the Hugging Face library ``datasets`` on the disk
``splitting``         one set as two, by hash or stratified
``subsets``           n images a class, shares and held-out parts
``subsetfiles``       subsets as files that say what they are of
``draws``             random numbers that stay the same for ever
``dense``             ``open_dense``: images with a map of depth or surface normals each; needs torchvision
``maps``              ``MapSet`` and ``DenseData``, what every source of maps becomes; ``alignment``: to an input
``dense_shapes``      the rendered set with its geometry
``dense_folders``     folders of images and maps, found in pairs by ``dense_pairs`` and read by ``mapfiles``
``augmentations``     from a card to the recipe of its training's views: ``strengths``, ``masks``, ``policies``
``views``             augmented views and turned images, as image sets; ``augmenting`` makes one
====================  ===========================================================================================
"""

from __future__ import annotations

from .handwritten import digits, digits_data
from .imagesets import ImageData, ImageSet, LazyImages, array_images, pixels_of
from .opening import open_images
from .rendering import Geometry
from .shapes import geometry, shapes
from .subsetfiles import load_subset, save_subset
from .subsets import Subset, balanced, fraction, held_out

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
