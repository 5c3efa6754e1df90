#!/bin/sh
# Guess: reptrix.alpha.get_alpha is a function of its arguments: the same features and the same fit_range give the same alpha,
# so that one range defined at the top of a script serves all checkpoints.
#
# Behaviour (reptrix 0.1.0): the fit adds 1 to the caller's array in place. Each call with it fits ranks one further down, so
# that alpha of the same features rises from call to call where the spectrum steepens: a trend over checkpoints that no
# checkpoint has. Without fit_range a new array is made each time, and all is well.
# Output seen: alpha 1.877 1.956 2.033 2.110 2.183 the range now starts at 15; without fit_range 1.877 1.877
# Exits 0 while that is so. Installs torch, several gigabytes.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet reptrix==0.1.0 torch==2.15.0 numpy==2.4.6
"$work/venv/bin/python" - <<'PY'
import numpy as np
import torch
from reptrix.alpha import get_alpha

features = np.random.default_rng(0).normal(size=(2000, 256)) * np.exp(-np.arange(256) / 40)
ranks = np.arange(10, 100)
alphas = [float(get_alpha(torch.from_numpy(features), fit_range=ranks)[0]) for _ in range(5)]
without = [float(get_alpha(torch.from_numpy(features))[0]) for _ in range(2)]
print("alpha", *(f"{one:.3f}" for one in alphas), "the range now starts at", ranks[0])
print("without fit_range", *(f"{one:.3f}" for one in without))
assert ranks[0] == 15 and np.diff(alphas).min() > 0.05, alphas
assert without[0] == without[1] and abs(without[0] - alphas[0]) < 1e-9
PY
