"""Copies by pixels: images that show the same and lie in files that differ, as a PNG saved anew, or a BMP beside it.

Equal files are known by their contents. Of the others those are decoded when a set is opened that may show the same:
images of one size of which one has a format without loss, and photographs of one size that end with the same bytes, as
they do where metadata alone differ. That is one reading of these images; what takes a second or more is kept.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import chain

from ..errors import DataError
from ..optional import requires_extra
from .images import Contents, ImageSet, contents_of_bytes, digest, kept_contents

with requires_extra("models", needed_for="Working with images"):
    import numpy as np

_AT_A_TIME = 64  # neighbours in a shard, which one thread reads
_KEPT_FROM_S = 1


def with_copies(parts: Sequence[ImageSet]) -> Sequence[ImageSet]:
    """The parts of a data set, in which all images that show the same have the content of the first of them.

    Unchanged where contents or sizes are not known, as of arrays, whose contents are hashes of pixels.
    """
    known = [(part.contents, part.reading.shapes) for part in parts if part.contents is not None]
    if len(known) < len(parts) or any(shapes is None for _, shapes in known):
        return parts
    contents, shapes = (np.concatenate(some) for some in zip(*known, strict=True))
    values, first, number = np.unique(contents, return_index=True, return_inverse=True)
    compared = np.flatnonzero(_may_be_copies(shapes[first]))
    compared = compared[np.argsort(first[compared])]  # of each content the first image, in their order
    if not len(compared):
        return parts
    ends = np.cumsum([len(part) for part in parts])

    def pixels(image: int) -> bytes:
        at = int(np.searchsorted(ends, image, side="right"))
        try:
            shown = parts[at].images[image - int(ends[at]) + len(parts[at])].convert("RGB")
        except DataError:  # raised again when it is asked for
            return f"image {image}".encode()
        return str(shown.size).encode() + shown.tobytes()

    def read() -> tuple[Contents, bool]:
        images, start = first[compared].tolist(), time.monotonic()
        some = [images[at : at + _AT_A_TIME] for at in range(0, len(images), _AT_A_TIME)]
        with ThreadPoolExecutor(max_workers=os.cpu_count()) as threads:
            hashes = list(chain.from_iterable(threads.map(lambda few: contents_of_bytes(map(pixels, few)), some)))
        return np.array(hashes, np.uint64), time.monotonic() - start > _KEPT_FROM_S

    _, earliest, same = np.unique(
        kept_contents(digest(["pixels", *(part.fingerprint for part in parts)]), read),
        return_index=True,
        return_inverse=True,
    )
    values[compared] = values[compared[earliest[same]]]
    found = np.split(values[number], ends[:-1])
    return [replace(part, contents=of_part) for part, of_part in zip(parts, found, strict=True)]


def _may_be_copies(shapes: np.ndarray) -> np.ndarray:
    """Which images may show the same as another by their sizes and last bytes, bool (n,), from uint64 (n, 2)."""
    sides, tails = shapes.T
    _, of_size, n_of_size = np.unique(sides, return_inverse=True, return_counts=True)
    _, of_tail, n_of_tail = np.unique(shapes, axis=0, return_inverse=True, return_counts=True)
    has_lossless = np.bincount(of_size, weights=tails == 0) > 0
    among_size = has_lossless[of_size] & (n_of_size[of_size] > 1)
    return np.asarray((sides > 0) & (among_size | (n_of_tail[of_tail.reshape(-1)] > 1)))
