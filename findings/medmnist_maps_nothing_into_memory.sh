#!/bin/sh
# Guess: MedMNIST's data sets with mmap_mode="r" map their arrays into memory, so that MedMNIST+ at 224 px (PathMNIST: 16 GB of
# pixels) can be read on a small machine; images are then read as they are asked for.
#
# Behaviour (medmnist 3.0.2, numpy 2.4.6): the argument goes to numpy.load, which ignores it for .npz files without a word; the
# whole part is read, as without it. Opening takes the memory of all its images, in each worker and process anew.
# Output seen: imgs is a plain array, not a map; 2,000 images of 224 px take 96 MiB in both ways. A .npy file is mapped: 0 MiB.
# Exits 0 while that is so. Installs torch, several gigabytes.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet medmnist==3.0.2 torch==2.15.0 torchvision==0.29.2 numpy==2.4.6
cd "$work"
"$work/venv/bin/python" - <<'PY'
import tracemalloc

import medmnist
import numpy as np

images = np.random.default_rng(0).integers(0, 256, (2000, 224, 224), dtype=np.uint8)
labels = np.zeros((2000, 1), np.uint8)
some = {"train": slice(0, 1), "val": slice(0, 1), "test": slice(None)}
arrays = {f"{part}_images": images[rows] for part, rows in some.items()}
arrays |= {f"{part}_labels": labels[rows] for part, rows in some.items()}
np.savez("pneumoniamnist_224.npz", **arrays)
np.save("images.npy", images)
opened = {}
for mode in (None, "r"):
    tracemalloc.start()
    opened[mode] = medmnist.PneumoniaMNIST(split="test", root=".", size=224, mmap_mode=mode)
    print(mode, type(opened[mode].imgs).__name__, tracemalloc.get_traced_memory()[0] >> 20, "MiB")
    assert tracemalloc.get_traced_memory()[0] > images.nbytes * 0.9
    tracemalloc.stop()
assert not any(isinstance(one.imgs, np.memmap) for one in opened.values())
assert isinstance(np.load("images.npy", mmap_mode="r"), np.memmap)
PY
