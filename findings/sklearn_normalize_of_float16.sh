#!/bin/sh
# Guess: features that are kept in float16 lose digits and nothing else; scikit-learn either takes them and is right to three
# digits, or makes them float64 first, as it says of most inputs.
#
# Behaviour (scikit-learn 1.9.1, NumPy 2.4.6): cosine_similarity and NearestNeighbors make float16 float64, and are right.
# normalize and Normalizer keep float16 and square in it: rows longer than 256, as of 768 numbers of size 9 and more, become
# zeros, without an error; np.linalg.norm is inf of them. Neighbours by dot products of normalised rows are then all
# equally near. Rows of length 1 to 200 are right to three digits, so that a check on another encoder passes.
# Output seen (length of row, largest number and squares' sum of the normalised row, np.linalg.norm): 99.8 0.166 1.000 99.7,
# 998.0 0.000 0.000 inf.
# Exits 0 while that is so.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet scikit-learn==1.9.1 numpy==2.4.6
"$work/venv/bin/python" - <<'PY'
import numpy as np
from sklearn.metrics.pairwise import cosine_similarity
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import Normalizer, normalize

unit = np.random.default_rng(0).normal(size=(50, 768))
for scale in (3.6, 36.0):
    half = (unit * scale).astype(np.float16)
    exact = half.astype(np.float64)
    length = float(np.linalg.norm(exact, axis=1).mean())
    with np.errstate(over="ignore"):
        rows = normalize(half)
        assert rows.dtype == np.float16 and np.array_equal(rows, Normalizer().fit_transform(half))
        own_length = np.linalg.norm(half, axis=1)
    squares = float((rows.astype(np.float64) ** 2).sum(axis=1).mean())
    print(f"{length:.1f} {float(np.abs(rows).max()):.3f} {squares:.3f} {own_length[0]}")
    assert np.abs(cosine_similarity(half) - cosine_similarity(exact)).max() < 1e-6
    near = [NearestNeighbors(n_neighbors=5, metric="cosine").fit(x).kneighbors(x)[1] for x in (half, exact)]
    assert np.array_equal(*near)
    if scale < 10:
        assert abs(squares - 1) < 1e-2 and np.isfinite(own_length).all()
    else:
        assert not rows.any() and np.isinf(own_length).all()
PY
