#!/bin/sh
# Guess: a PNG with a palette, as optimised web images and many segmentation and logo sets have it, is an RGB image to
# readers of this field: they apply the palette as Pillow's convert("RGB") does, or refuse.
#
# Behaviour (torchvision 0.29.2, datasets 5.2.0, litdata 0.2.76; Pillow 13.0.0):
#   1. torchvision.io.decode_image, in its own mode: one channel, the numbers of the palette; with mode="RGB" right
#   2. datasets, with_format("numpy") and "torch": a grey image, the numbers of the palette; without a format right
#   3. litdata keeps the mode P and the numbers and loses the palette: colours by a palette of greys
# No warning in any. The numbers are in the order of the palette: neighbours need not look alike.
# Output seen: shapes (1, 30, 40), (30, 40), mode P; all three are the palette's numbers. Exits 0 while that is so.
# Installs torch, several gigabytes.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet torch==2.15.0 torchvision==0.29.2 datasets==5.2.0 litdata==0.2.76 pillow==13.0.0 numpy==2.4.6
cd "$work"
HF_HOME="$work/home" HF_HUB_OFFLINE=1 "$work/venv/bin/python" - <<'PY'
import datasets
import numpy as np
from litdata.streaming.serializers import PILSerializer
from PIL import Image
from torchvision.io import decode_image

pixels = np.random.default_rng(0).integers(0, 256, (30, 40, 3), dtype=np.uint8)
Image.fromarray(pixels).quantize(200).save("a.png")
opened = Image.open("a.png")
colours, numbers = np.asarray(opened.convert("RGB")), np.asarray(opened)
rows = datasets.Dataset.from_dict({"image": ["a.png"]}).cast_column("image", datasets.Image())
litdata = PILSerializer()
found = {
    "torchvision": decode_image("a.png").numpy(),
    "numpy": rows.with_format("numpy")[0]["image"],
    "torch": rows.with_format("torch")[0]["image"].numpy(),
}
back = litdata.deserialize(litdata.serialize(opened)[0])
print({name: array.shape for name, array in found.items()}, back.mode)
for name, array in found.items():
    assert np.array_equal(np.squeeze(array), numbers), name
assert np.array_equal(decode_image("a.png", mode="RGB").numpy().transpose(1, 2, 0), colours)
assert np.array_equal(np.asarray(rows[0]["image"].convert("RGB")), colours)
assert back.mode == "P" and np.array_equal(np.asarray(back), numbers)
assert np.array_equal(np.asarray(back.convert("RGB")), np.dstack([numbers] * 3))
PY
