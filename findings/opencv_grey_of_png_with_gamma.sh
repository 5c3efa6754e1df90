#!/bin/sh
# Guess: cv2.imread(file, cv2.IMREAD_GRAYSCALE) gives the grey of cvtColor and of Pillow within a level; the gAMA entry of a
# PNG, which some programs write, changes no pixel, as it changes none of colour reading.
#
# Behaviour (opencv-python-headless 4.13.0.92 and 5.0.0.93; Pillow 13.0.0): without gAMA they agree within 1 level. With
# gAMA 1/2.2 the grey of colours is another, 50 levels and more lighter for saturated ones: the weights of red, green and blue
# are applied to linear light and the result is made gamma again. Colour reading, and grey made of it, stay as they were.
# A folder of PNG files from two programs, read as grey, differs by the program.
# Output seen: pure red, green, blue are 76, 149, 29 without gAMA, and 147, 200, 95 with it; colours differ by 0.
# Exits 0 while that is so.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
for version in 4.13.0.92 5.0.0.93; do
"$work/venv/bin/pip" install --quiet opencv-python-headless==$version pillow==13.0.0 numpy==2.4.6
"$work/venv/bin/python" - <<'PY'
import io
import struct

import cv2
import numpy as np
from PIL import Image
from PIL.PngImagePlugin import PngInfo

colours = np.array([[[255, 0, 0], [0, 255, 0], [0, 0, 255], [128, 128, 128]]], np.uint8)
image = Image.fromarray(np.repeat(np.repeat(colours, 8, axis=0), 8, axis=1))
found = {}
for name in ("plain", "gamma"):
    info = PngInfo()
    if name == "gamma":
        info.add(b"gAMA", struct.pack(">I", 45455))  # 1/2.2, as the standard writes it
    file = io.BytesIO()
    image.save(file, "PNG", pnginfo=info)
    encoded = np.frombuffer(file.getvalue(), np.uint8)
    grey, colour = (cv2.imdecode(encoded, how) for how in (cv2.IMREAD_GRAYSCALE, cv2.IMREAD_COLOR))
    off = int(np.abs(colour[..., ::-1].astype(int) - np.asarray(image)).max())
    found[name] = grey[0, ::8].tolist(), cv2.cvtColor(colour, cv2.COLOR_BGR2GRAY)[0, ::8].tolist(), off
print(cv2.__version__, found, np.asarray(image.convert("L"))[0, ::8].tolist())
usual = np.asarray(image.convert("L"))[0, ::8].astype(int)
assert np.abs(np.array(found["plain"][0]) - usual).max() <= 1
assert np.abs(np.array(found["gamma"][1]) - usual).max() <= 1 and found["gamma"][2] == 0
assert (np.array(found["gamma"][0]) - usual)[:3].min() >= 40
PY
done
