#!/bin/sh
# Guess: normalize() of float16 features gives rows of length 1, to float16's three digits: the numbers and their lengths are
# well within what float16 can hold.
#
# Behaviour (scikit-learn 1.9.1): it stays in float16, in which squares are summed, and their sum overflows at a length of 256:
# such rows are divided by infinity and become zeros, all alike. Rows of length 0.003 are not divided at all. No warning from
# scikit-learn, and no error where infinite features would give one. (numpy.linalg.norm of float16 is infinite, too, and says
# "overflow".)
# Output seen (1,024 numbers, rows of length 32, 272, 960 and 0.003): lengths after it 1.0, 0.0, 0.0 and 0.003; 1 in float64.
# Exits 0 while that is so.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet scikit-learn==1.9.1 numpy==2.4.6
"$work/venv/bin/python" - <<'PY'
import warnings

import numpy as np
from sklearn.preprocessing import normalize

features = np.random.default_rng(0).normal(size=(100, 1024))
lengths = {}
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    for size in (1.0, 8.5, 30.0, 1e-4):
        half, double = (normalize((size * features).astype(np.float16).astype(kind)) for kind in (np.float16, np.float64))
        lengths[size] = tuple(float(np.median(np.linalg.norm(one.astype(float), axis=1))) for one in (half, double))
print(lengths, [str(one.message) for one in told])
assert all(abs(double - 1) < 1e-6 for _, double in lengths.values()) and abs(lengths[1.0][0] - 1) < 1e-3
assert lengths[8.5][0] == lengths[30.0][0] == 0 and lengths[1e-4][0] < 0.1 and not told
PY
