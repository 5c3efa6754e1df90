#!/bin/sh
# Guess: IndexFlatL2, which compares with every row, gives a query the same neighbours whoever is asked with it. (Who knows
# more: from 20 queries on, distances are computed from a matrix product; distance_compute_blas_threshold is 20.)
#
# Behaviour (faiss-cpu 1.15.1): while queries times dimensions are below 128,000 (333 queries of 384 numbers), differences are
# squared; from there on it is |q|^2 + |x|^2 - 2qx in float32, which loses the digits of near neighbours where features have
# a mean far from zero. Then a query of a large batch has another nearest row than the same query alone, distances in
# steps of 0.25, and rows that are no copies at a distance of 0. Centring the features is enough.
# Output seen (two near copies of each of 1,000 queries, spread 1 about a mean of 0, 10, 30): nearest row right 1.00, 0.93, 0.69
# of the time if all are asked together, 1.00 if 100 at a time; distances of 0, of which float64 has none: 0, 0, 571.
# Exits 0 while that is so.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet faiss-cpu==1.15.1 numpy==2.4.6
"$work/venv/bin/python" - <<'PY'
import faiss
import numpy as np

n, dim = 1000, 384
print("threshold", faiss.cvar.distance_compute_blas_threshold)
right = {}
for mean in (0, 10, 30):
    random = np.random.default_rng(0)
    queries = (mean + random.normal(size=(n, dim))).astype(np.float32)
    near = [(queries + spread * random.normal(size=(n, dim))).astype(np.float32) for spread in (0.010, 0.012)]
    rows = np.vstack([*near, (mean + random.normal(size=(5000, dim))).astype(np.float32)])
    index = faiss.IndexFlatL2(dim)
    index.add(rows)
    distances = [np.square(queries.astype(float) - one).sum(axis=1) for one in near]  # float64
    truly = np.where(distances[0] < distances[1], 0, n) + np.arange(n)
    together = index.search(queries, 1)
    apart = [index.search(queries[start : start + 100], 1) for start in range(0, n, 100)]
    right[mean] = [float((found[:, 0] == truly).mean()) for found in (together[1], np.vstack([one[1] for one in apart]))]
    print(mean, right[mean], "distances of 0:", int((together[0] == 0).sum()), "float64 has at least", min(map(np.min, distances)))
assert right[0] == [1, 1] and right[30][1] == 1 and right[30][0] < 0.9 and right[10][0] < 1, right
PY
