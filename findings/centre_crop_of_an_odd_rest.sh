#!/bin/sh
# Guess: the centre crop of transformers' image processors and torchvision's CenterCrop, which timm and OpenCLIP use, take
# the same pixels; or, where an odd number of pixels is cut off, differ always in the same way.
#
# Behaviour (transformers 5.23.0, torchvision 0.29.2): transformers starts at the rest divided by two, rounded down;
# torchvision rounds halves to the even number. They agree for rests of 1, 5, 9, ... and are one pixel apart for 3, 7, 11,
# ..., in both directions. A crop of 225 from 256 (a rest of 31: 15 and 16) is one of them, one of 223 (33: 16 and 16) is not.
# Output seen: rest 1: 0 0, rest 3: 1 2, rest 5: 2 2, rest 7: 3 4, rest 31: 15 16, rest 33: 16 16.
# Exits 0 while that is so. Installs torch, several gigabytes.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet transformers==5.23.0 torch==2.15.0 torchvision==0.29.2 pillow==13.0.0 numpy==2.4.6
HF_HUB_OFFLINE=1 "$work/venv/bin/python" - <<'PY'
import numpy as np
from PIL import Image
from torchvision.transforms import CenterCrop
from transformers import BitImageProcessor

side = 256
ramp = np.broadcast_to(np.arange(side, dtype=np.uint8), (side, side))  # each pixel says its column
image = Image.fromarray(np.dstack([ramp] * 3))
starts = {}
for rest in (1, 3, 5, 7, 31, 33):
    size = side - rest
    processor = BitImageProcessor(
        do_resize=False, do_rescale=False, do_normalize=False, crop_size={"height": size, "width": size}
    )
    theirs = np.asarray(processor(image, return_tensors="np")["pixel_values"])[0, 0, 0, 0]
    starts[rest] = (int(theirs), int(np.asarray(CenterCrop(size)(image))[0, 0, 0]))
print(starts)
assert starts == {1: (0, 0), 3: (1, 2), 5: (2, 2), 7: (3, 4), 31: (15, 16), 33: (16, 16)}, starts
PY
