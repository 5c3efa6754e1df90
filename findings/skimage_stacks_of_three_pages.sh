#!/bin/sh
# Guess: skimage.io.imread of a TIFF with several grey pages, as a stack of focus planes, gives (pages, height, width) whatever
# their number, as tifffile and imageio do.
#
# Behaviour (scikit-image 0.26.0; tifffile 2026.3.3, imageio 2.37.0): stacks of 2 and of 5 pages do. Stacks of 3 and of 4 pages
# become (height, width, pages), what colours and colours with alpha look like. A loop over the planes then goes over rows of
# pixels, and a check for colour images takes three focus planes for red, green and blue.
# Output seen: (2, 40, 60), (40, 60, 3), (40, 60, 4), (5, 40, 60); tifffile and imageio: pages first. Exits 0 while that is so.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet scikit-image==0.26.0 imageio==2.37.0 tifffile==2026.3.3 numpy==2.4.6
cd "$work"
"$work/venv/bin/python" -W error - <<'PY'
import imageio.v3
import numpy as np
import skimage.io
import tifffile

shapes = {}
for n_pages in (2, 3, 4, 5):
    stack = np.random.default_rng(0).integers(0, 256, (n_pages, 40, 60), dtype=np.uint8)
    tifffile.imwrite("stack.tif", stack, photometric="minisblack")
    assert tifffile.imread("stack.tif").shape == imageio.v3.imread("stack.tif").shape == (n_pages, 40, 60)
    read = skimage.io.imread("stack.tif")
    assert np.array_equal(read, stack if n_pages in (2, 5) else np.moveaxis(stack, 0, -1)), n_pages
    shapes[n_pages] = read.shape
print(shapes)
assert shapes == {2: (2, 40, 60), 3: (40, 60, 3), 4: (40, 60, 4), 5: (5, 40, 60)}, shapes
PY
