#!/bin/sh
# Guess: resample=3 (bicubic, as DINOv3's authors evaluate) makes of transformers' processors the same pixels as torchvision's
# bicubic resize, to a grey level or two, and rescaled values stay within 0 to 1.
#
# Behaviour (transformers 5.23.0): so it is of SiglipImageProcessor and others, which resize whole numbers and then rescale.
# DINOv3ViTImageProcessor rescales first and resizes floats, so that a bicubic kernel overshoots at edges and nothing cuts it
# off: values below 0 and above 1, tens of grey levels from those of the authors' transform. With its own default (bilinear)
# the order does not matter, which is why nothing shows it.
# Output seen (lowest and highest value of black and white stripes): DINOv3 bilinear 0 to 1, bicubic -.048 to 1.048; SigLIP 0 to 1
# with both.
# Exits 0 while that is so. Installs torch, several gigabytes.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet transformers==5.23.0 torch==2.15.0 torchvision==0.29.2 pillow==13.0.0 numpy==2.4.6
HF_HUB_OFFLINE=1 "$work/venv/bin/python" - <<'PY'
import numpy as np
from PIL import Image
from transformers import DINOv3ViTImageProcessor, SiglipImageProcessor

columns = np.arange(400) // 5 % 2 * 255  # black and white stripes
image = Image.fromarray(np.broadcast_to(columns[None, :, None], (300, 400, 3)).astype(np.uint8))
found = {}
for kind in (DINOv3ViTImageProcessor, SiglipImageProcessor):
    for name, resample in (("bilinear", 2), ("bicubic", 3)):
        processor = kind(size={"height": 224, "width": 224}, resample=resample, do_normalize=False)
        made = processor(image, return_tensors="np")["pixel_values"]
        found[f"{kind.__name__[:6]} {name}"] = (round(float(made.min()), 3), round(float(made.max()), 3))
print(found)
assert all(0 <= low and high <= 1 for name, (low, high) in found.items() if name != "DINOv3 bicubic"), found
lowest, highest = found["DINOv3 bicubic"]
assert lowest < -0.03 and highest > 1.03, found
PY
