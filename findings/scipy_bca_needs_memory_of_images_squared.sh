#!/bin/sh
# Guess: a bootstrap interval of an accuracy needs memory of the order of resamples times images, with method "BCa" (which is
# what scipy takes where none is named) as with "percentile"; of an accuracy of 100 % it is from 100 to 100.
#
# Behaviour (scipy 1.17.1): for its acceleration BCa leaves out each image in turn, all at once: a matrix of images times images,
# several times. Four times the memory for twice the images; by that rule 40 GB for the 50,000 of ImageNet. batch=10 keeps
# it small. The interval of a faultless encoder is NaN to NaN, by percentile 1 to 1.
# Output seen (199 resamples, 1,000, 2,000 and 4,000 images, MB): percentile 3, 6, 13; BCa 19, 71, 278; BCa with batch=10
# 0.4, 0.7, 1.4.
# Exits 0 while that is so.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet scipy==1.17.1 numpy==2.4.6
"$work/venv/bin/python" -W ignore - <<'PY'
import tracemalloc

import numpy as np
from scipy import stats


def megabytes(n, **options):
    right = (np.random.default_rng(0).random(n) < 0.8).astype(float)
    tracemalloc.start()
    stats.bootstrap((right,), np.mean, n_resamples=199, **options)
    peak = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    return round(peak, 1)


sizes = (1000, 2000, 4000)
percentile = [megabytes(n, method="percentile") for n in sizes]
bca, batched = [megabytes(n) for n in sizes], [megabytes(n, batch=10) for n in sizes]
print("percentile", percentile, "BCa", bca, "BCa, batch=10", batched)
assert percentile[2] / percentile[1] < 2.5 and bca[2] / bca[1] > 3.5 and bca[2] > 10 * percentile[2] and batched[2] < 10
faultless = [stats.bootstrap((np.ones(100),), np.mean, method=method).confidence_interval for method in ("BCa", "percentile")]
print(faultless)
assert np.isnan(faultless[0]).all() and tuple(faultless[1]) == (1, 1)
PY
