#!/bin/sh
# Guess: NC1 of ssrlib (Papyan et al. 2020) depends smoothly on the number of features; double precision and a
# pseudo-inverse see to it that a covariance of rank C - 1 does no harm.
#
# Behaviour (ssrlib 0.2.0, NumPy 2.4.6): numpy.linalg.pinv keeps singular values down to 1e-15 of the largest, and the
# covariance of 5 class means of 2,048 features has rounding noise above that in many of its 2,044 empty directions. NC1 is
# off by 10 to 14 orders of magnitude and of either sign, with no warning; at 64 features it is right to all digits.
# Here the right value comes from the singular values of the 5 means themselves.
# Output seen: 64 features: 0.0593 (right: 0.0593), 0.0761 (right: 0.0761), 0.0655 (right: 0.0655)
#              2048 features: 1.47e+10 (right: 0.00172), ...; of other draws -8.85e+10, -1.57e+10 and 7.54e+10
# Exits 0 while that is so. One draw of three that is off a thousandfold is enough; which ones are depends on the processor.
# Installs torch, several gigabytes.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet ssrlib==0.2.0 numpy==2.4.6
"$work/venv/bin/python" - <<'PY'
import numpy as np
from ssrlib.processing import NeuralCollapseProcessor


def right(z, y, n_classes):
    """tr(Sigma_W pinv(Sigma_B)) / C by the singular values of the means, of which the last is 0."""
    means = np.stack([z[y == c].mean(axis=0) for c in range(n_classes)])
    _, lengths, axes = np.linalg.svd((means - means.mean(axis=0)) / n_classes**0.5, full_matrices=False)
    along = (z - means[y]) @ axes[:-1].T / lengths[:-1]
    return (along**2).sum() / len(z) / n_classes


off = {}
for n_features in (64, 2048):
    off[n_features] = 0
    for seed in range(3):
        random = np.random.default_rng(seed)
        y = np.arange(200) % 5
        z = random.normal(size=(5, n_features))[y] + random.normal(size=(200, n_features))
        theirs, ours = NeuralCollapseProcessor().process(z, labels=y)[0], right(z, y, 5)
        print(f"{n_features} features: {theirs:.3g} (right: {ours:.3g})")
        off[n_features] += not 1e-3 < theirs / ours < 1e3
assert off[64] == 0 and off[2048] >= 1, off
PY
