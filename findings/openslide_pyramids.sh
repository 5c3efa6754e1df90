#!/bin/sh
# Guess: openslide has the levels of any tiled TIFF pyramid, also of OME-TIFF, whose smaller levels are sub-images of the first
# page; and get_best_level_for_downsample(4) is the level that is 4 times smaller.
#
# Behaviour (openslide-python 1.4.7 with openslide-bin 4.0.1.2; tifffile 2026.3.3):
#   1. a pyramid in sub-images, as OME-TIFF keeps it, opens without a word as one level, that of full size: 16 times the
#      pixels are read for a patch at 1/4. The same pyramid as pages of its own has its 3 levels.
#   2. a level's downsample is the mean ratio of the sides, 4.008 for 1003 x 1001 px over 250 x 250 px, and the best level for
#      4 is the one below, of full size. So slides whose sides do not divide are read at another level than those whose
#      do, and patches cut there by resizing are other pixels. 4.01 gives the level that was meant.
# Output seen: levels 1 and 3; downsamples 1, 4.008, 16.161; best levels for 4 and 4.01 are 0 and 1, with 1024 px 1 and 1.
# Exits 0 while that is so.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet openslide-python==1.4.7 openslide-bin==4.0.1.2 tifffile==2026.3.3 pillow==13.0.0 numpy==2.4.6
cd "$work"
"$work/venv/bin/python" - <<'PY'
import numpy as np
import openslide
import tifffile

TILED = {"tile": (256, 256), "photometric": "rgb", "metadata": None}


def open_pyramid(file, width, height, *, in_sub_images=False):
    slide = np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)
    with tifffile.TiffWriter(file) as writer:
        writer.write(slide, **TILED, subifds=2 * in_sub_images)
        for k in (4, 16):
            level = np.ascontiguousarray(slide[: height // k * k : k, : width // k * k : k])
            writer.write(level, **TILED, subfiletype=1)
    return openslide.OpenSlide(file)


odd, even = open_pyramid("odd.tif", 1003, 1001), open_pyramid("even.tif", 1024, 1024)
hidden = open_pyramid("hidden.tif", 1024, 1024, in_sub_images=True)
assert len(tifffile.TiffFile("hidden.tif").series[0].levels) == 3
best = {name: [one.get_best_level_for_downsample(by) for by in (4, 4.01)] for name, one in (("odd", odd), ("even", even))}
print(hidden.level_count, even.level_count, odd.level_downsamples, best)
assert (hidden.level_count, even.level_count) == (1, 3)
assert best == {"odd": [0, 1], "even": [1, 1]}, best
PY
