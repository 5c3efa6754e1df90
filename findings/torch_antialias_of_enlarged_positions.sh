#!/bin/sh
# Guess: antialias=True of torch's interpolate matters where a map shrinks, since there is nothing to antialias where it grows;
# so libraries that interpolate position embeddings to a larger image with it (timm) and without it (transformers) agree.
#
# Behaviour (torch 2.15.0, Pillow 13.0.0): with bicubic the flag also takes another kernel (a = -0.5, as Pillow's, and jax's
# either way; -0.75 without it, as OpenCV's), so that enlarged maps differ, by a third of a standard deviation of noise
# (with bilinear to rounding). A kernel cannot be told from the name.
# Output seen, 14 to 16 and to 28: largest difference of the two flags over the std of the map: bicubic 0.39 and 0.32,
# bilinear 1e-7 and 3e-7; with antialias Pillow's enlarged map to 4e-7, without it as far from it.
# Exits 0 while that is so. Installs torch, several gigabytes.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet torch==2.15.0 pillow==13.0.0 numpy==2.4.6
"$work/venv/bin/python" - <<'PY'
import numpy as np
import torch
from PIL import Image
from torch.nn.functional import interpolate

grid = torch.randn(1, 1, 14, 14, generator=torch.Generator().manual_seed(0))
filters = {"bicubic": Image.Resampling.BICUBIC, "bilinear": Image.Resampling.BILINEAR}
for mode, kernel in filters.items():
    for side in (16, 28):
        plain, flagged = (interpolate(grid, (side, side), mode=mode, antialias=flag) for flag in (False, True))
        pillow = np.array(Image.fromarray(grid[0, 0].numpy()).resize((side, side), kernel))
        pairs = ((flagged, plain), (flagged, torch.from_numpy(pillow)), (plain, torch.from_numpy(pillow)))
        apart = [float((a - b).abs().max() / grid.std()) for a, b in pairs]
        print(mode, side, *(f"{each:.2g}" for each in apart))
        assert apart[1] < 1e-4
        assert (apart[0] > 0.1 and apart[2] > 0.1) if mode == "bicubic" else apart[0] < 1e-4
PY
