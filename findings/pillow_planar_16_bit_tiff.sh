#!/bin/sh
# Guess: Pillow reads RGB TIFF of 16 bits a channel as 8 bits (its high bytes), whichever way the channels are stored; where
# it could not, it would raise "cannot identify image file".
#
# Behaviour (Pillow 12.0.0 and 13.0.0): with interleaved channels it does. With one plane per channel (as GDAL's
# INTERLEAVE=BAND and tifffile of arrays (3, h, w) write), the image opens, has mode RGB and the right size, and its
# pixels are wrong, without an error or a warning. 8-bit files with planes are right.
# Output seen: interleaved 16 bits differ by 0, planes of 8 bits by 0, planes of 16 bits by 225 of 255.
# Exits 0 while that is so.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
for pillow in 12.0.0 13.0.0; do
"$work/venv/bin/pip" install --quiet pillow==$pillow tifffile==2026.3.3 numpy==2.4.6
"$work/venv/bin/python" - "$work" <<'PY'
import sys
from pathlib import Path

import numpy as np
import PIL
import tifffile
from PIL import Image

y, x = np.mgrid[:40, :60]
colours = np.dstack([x * 1000, y * 1500, np.full((40, 60), 20000)]).astype(np.uint16)  # (40, 60, 3)
eight = (colours >> 8).astype(np.uint8)
planes = {16: np.ascontiguousarray(colours.transpose(2, 0, 1)), 8: np.ascontiguousarray(eight.transpose(2, 0, 1))}
files = {name: Path(sys.argv[1]) / f"{name}.tif" for name in ("interleaved16", "planes8", "planes16")}
tifffile.imwrite(files["interleaved16"], colours, photometric="rgb")
for bits, stored in planes.items():
    tifffile.imwrite(files[f"planes{bits}"], stored, photometric="rgb", planarconfig="separate")
off = {}
for name, file in files.items():
    read = Image.open(file)
    off[name] = (read.mode, read.size, int(np.abs(np.asarray(read).astype(int) - eight).max()))
print(PIL.__version__, off)
assert off["interleaved16"] == off["planes8"] == ("RGB", (60, 40), 0)
assert off["planes16"][:2] == ("RGB", (60, 40)) and off["planes16"][2] > 100
assert np.array_equal(tifffile.imread(files["planes16"]), planes[16])
PY
done
