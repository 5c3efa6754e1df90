#!/bin/sh
# Guess: load_dataset("imagefolder") takes a folder of classes as torchvision's ImageFolder does, so that every image is
# there with its class; part words matter where they name the folders at the top (train/, test/).
#
# Behaviour (datasets 5.2.0): a part word anywhere in a path decides, as a whole word of a folder's or a file's name.
#   1. classes bus/, car/, train/ of 3 images each: one split "train" with 3 images and no labels; the 6 others are gone
#   2. 12 images in cat/ and dog/, of which one file is called 0_test.png: one split "test" with that image alone
#   3. Training/CLASS and Testing/CLASS: no parts; all images are in "train", those of Testing, too
# Output seen: those numbers, and no warning or error in any of them. Exits 0 while that is so.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet datasets==5.2.0 pillow==12.0.0 numpy==2.4.6
HF_HOME="$work/home" HF_HUB_OFFLINE=1 "$work/venv/bin/python" - "$work" <<'PY'
import sys
from pathlib import Path

import datasets
from PIL import Image

datasets.disable_progress_bars()


def load(name, files):
    root = Path(sys.argv[1]) / name
    for number, file in enumerate(files):
        path = root / file
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8), (number * 20, 0, 0)).save(path)
    splits = datasets.load_dataset("imagefolder", data_dir=str(root))
    found = {split: (len(rows), sorted(rows.features)) for split, rows in splits.items()}
    print(name, found)
    return found


vehicles = load("vehicles", [f"{kind}/{i}.png" for kind in ("bus", "car", "train") for i in range(3)])
one_name = load("one_name", ["cat/0_test.png"] + [f"{kind}/{i}.png" for kind in ("cat", "dog") for i in range(1, 7)][:11])
kaggle = load("kaggle", [f"{part}/{kind}/{i}.png" for part in ("Training", "Testing") for kind in ("cat", "dog") for i in range(3)])
assert vehicles == {"train": (3, ["image"])}, vehicles
assert one_name == {"test": (1, ["image"])}, one_name
assert kaggle == {"train": (12, ["image", "label"])}, kaggle
PY
