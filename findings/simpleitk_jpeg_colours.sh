#!/bin/sh
# Guess: SimpleITK, which TorchIO and other medical readers use, gives the pixels of a JPEG that Pillow and OpenCV give, or
# is a level off.
#
# Behaviour (SimpleITK 2.5.7; Pillow 13.0.0, opencv-python-headless 5.0.0.93): where the colours are stored at full size
# (4:4:4) all agree to the level. Where they are stored at half the size (4:2:0, what most cameras, scanners and programs
# write) Pillow and OpenCV agree, and SimpleITK's colours are up to 70 levels off at edges: as if it repeated the small
# colours where the others interpolate them. Features of stained tissue or skin then come of other pixels than those trained on.
# Output seen: a red disc on blue, 128 px, quality 90: OpenCV 0 and 0; SimpleITK 0 at 4:4:4, 70 at 4:2:0, 1 of 9 pixels by
# more than 8 levels.
# Exits 0 while that is so.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet SimpleITK==2.5.7 pillow==13.0.0 opencv-python-headless==5.0.0.93 numpy==2.4.6
cd "$work"
"$work/venv/bin/python" - <<'PY'
import cv2
import numpy as np
import SimpleITK
from PIL import Image

y, x = np.mgrid[:128, :128]
is_disc = ((x - 64) ** 2 + (y - 64) ** 2 < 40**2)[..., None]
picture = Image.fromarray(np.where(is_disc, (220, 20, 60), (30, 120, 200)).astype(np.uint8))
off = {}
for name, subsampling in (("4:4:4", 0), ("4:2:0", 2)):
    picture.save("a.jpg", quality=90, subsampling=subsampling)
    usual = np.asarray(Image.open("a.jpg")).astype(int)
    opencv = np.abs(cv2.imread("a.jpg")[..., ::-1] - usual).max()
    simpleitk = np.abs(SimpleITK.GetArrayFromImage(SimpleITK.ReadImage("a.jpg")) - usual)
    off[name] = int(opencv), int(simpleitk.max()), round(float((simpleitk.max(2) > 8).mean()), 2)
print(off)
assert off["4:4:4"] == (0, 0, 0.0)
assert off["4:2:0"][0] <= 2 and off["4:2:0"][1] > 40 and off["4:2:0"][2] > 0.05
PY
