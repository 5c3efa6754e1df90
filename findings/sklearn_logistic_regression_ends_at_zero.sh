#!/bin/sh
# Guess: LogisticRegression on separable features of unit length reaches a training accuracy near 1 with a large C, or warns
# that it has not converged; without a penalty the size of the features matters for speed only.
#
# Behaviour (scikit-learn 1.9.1): lbfgs ends where no number of the gradient of the mean loss is above tol = 1e-4. At weights
# of zero that gradient is of the size of a feature over the number of classes: for 1,000 classes and unit vectors of 2,048
# numbers it is below, so that the fit ends after 0 iterations with weights of zero. No ConvergenceWarning, accuracy by
# chance, whatever C. The same features times 30 are fitted. (Of 1,024 numbers a single step is made.)
# Output seen: 0 iterations, accuracy 0.001, no warnings; times 30: 1 iteration, accuracy 1.0.
# Exits 0 while that is so.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet scikit-learn==1.9.1 numpy==2.4.6
"$work/venv/bin/python" - <<'PY'
import warnings

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import normalize

random = np.random.default_rng(0)
n_classes, dim = 1000, 2048
y = np.arange(4 * n_classes) % n_classes
x = random.normal(size=(n_classes, dim))[y] + random.normal(size=(len(y), dim))
x = normalize(x.astype(np.float32))  # four images of each class, cosine .5 within a class and 0 between
found = []
for size in (1, 30):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        probe = LogisticRegression(C=np.inf).fit(size * x, y)
    found.append((int(probe.n_iter_[0]), probe.score(size * x, y), len(told)))
    print(f"times {size}: {found[-1][0]} iterations, accuracy {found[-1][1]:.3f}, {len(told)} warnings")
assert found[0] == (0, 0.001, 0) and found[1][0] > 0 and found[1][1] > 0.99, found
PY
