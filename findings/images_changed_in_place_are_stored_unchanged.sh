#!/bin/sh
# Guess: an image that Dataset.map or a generator returns is stored as it is then: made smaller by thumbnail, turned by
# ImageOps.exif_transpose(in_place=True), or painted over.
#
# Behaviour (datasets 5.2.0, Pillow 13.0.0): an image that Pillow opened from a file keeps the file's name through every change
# in place, and the library then stores this name, so that the file comes back: full size, nothing painted over. Changes
# that make a new image (resize, crop, convert) are kept. Images from bytes, as of the Hub's parquet files, keep changes
# in place, so that the same map does on the one data set what it does not on the other. mosaicml-streaming's jpeg column
# (0.13.0, seen, not run here) does alike with JPEG files.
# Output seen: sizes after thumbnail((16, 16)): from a file 64, from bytes 16, by a generator 64; after resize 16. The box
# that hides the burnt-in text is gone in the first, too.
# Exits 0 while that is so.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet datasets==5.2.0 pillow==13.0.0 numpy==2.4.6
cd "$work"
HF_HOME="$work/home" HF_HUB_OFFLINE=1 "$work/venv/bin/python" - <<'PY'
from pathlib import Path

import datasets
from datasets import Dataset, Features
from datasets import Image as ImageColumn
from PIL import Image, ImageDraw

datasets.disable_progress_bars()
Image.new("RGB", (64, 64), (60, 60, 60)).save("scan.png")
columns = Features({"image": ImageColumn()})
by_name = Dataset.from_dict({"image": ["scan.png"]}, features=columns)
by_bytes = Dataset.from_dict({"image": [{"bytes": Path("scan.png").read_bytes(), "path": None}]}, features=columns)


def shrink(row):
    row["image"].thumbnail((16, 16))
    return row


def resize(row):
    return {"image": row["image"].resize((16, 16))}


def hide_text(row):
    ImageDraw.Draw(row["image"]).rectangle((0, 0, 63, 15), fill=(0, 0, 0))
    return row


def generate():
    image = Image.open("scan.png")
    image.thumbnail((16, 16))
    yield {"image": image}


sizes = {
    "file": by_name.map(shrink)[0]["image"].width,
    "bytes": by_bytes.map(shrink)[0]["image"].width,
    "generator": Dataset.from_generator(generate, features=columns)[0]["image"].width,
    "resize": by_name.map(resize)[0]["image"].width,
}
corner = [rows.map(hide_text)[0]["image"].getpixel((5, 5))[0] for rows in (by_name, by_bytes)]
print(sizes, corner)
assert sizes == {"file": 64, "bytes": 16, "generator": 64, "resize": 16}, sizes
assert corner == [60, 0], corner
PY
