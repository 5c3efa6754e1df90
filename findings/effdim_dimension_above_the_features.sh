#!/bin/sh
# Guess: what effdim calls effective dimensionality is between 1 and the number of features, is largest for features that
# are all used alike, and its several estimates differ by a factor of two or so.
#
# Behaviour (effdim 0.1.1): geometric_mean_eff_dimensionality is the arithmetic over the geometric mean of the eigenvalues:
# 1 where all 50 features have one variance, 507 where half of the same 50 are a thousandth as wide, so that it rises as
# dimensions are lost, beyond their number. box_counting_dimensionality, whose boxes are at most 1 wide whatever the units,
# is 0 for both. Each stands in the answer beside a participation ratio of 48.8 and 24.7.
# Output seen: {'participation_ratio': 48.8, 'geometric_mean_eff_dimensionality': 1.01, 'box_counting_dimensionality': 0.0}
#              {'participation_ratio': 24.7, 'geometric_mean_eff_dimensionality': 507.14, 'box_counting_dimensionality': 0.0}
# Exits 0 while that is so.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet effdim==0.1.1 numpy==2.4.6
"$work/venv/bin/python" - <<'PY'
import effdim
import numpy as np

features = np.random.default_rng(0).normal(size=(2000, 50))  # isotropic: each of 50 dimensions is used alike
narrow = features * np.where(np.arange(50) < 25, 1.0, 1e-3)  # 25 dimensions, and next to nothing in the others
names = ("participation_ratio", "geometric_mean_eff_dimensionality", "box_counting_dimensionality")
all_used, half_used = ({name: float(effdim.compute_dim(z)[name]) for name in names} for z in (features, narrow))
for found in (all_used, half_used):
    print({name: round(value, 2) for name, value in found.items()})
assert all_used["geometric_mean_eff_dimensionality"] < 1.1 and all_used["participation_ratio"] > 45
assert half_used["geometric_mean_eff_dimensionality"] > 400 and half_used["participation_ratio"] < 26
assert abs(all_used["box_counting_dimensionality"]) < 0.01 and abs(half_used["box_counting_dimensionality"]) < 0.01
PY
