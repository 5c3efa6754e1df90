#!/bin/sh
# Guess: a usearch index of int8 scales or clips the numbers, so that metric "l2sq" ranks about as float32 does, with rounding.
#
# Behaviour (usearch 2.26.6): int8 stores every vector by itself divided by its length (times 127), also for "l2sq" and "ip",
# where length counts: a vector and three times it are at a distance of 0, and inner products are cosines. float16 and
# bfloat16 are what one expects. Approximate search has no part in it (exact=True); neither the metric's name nor a
# warning says so.
# Output seen: recall of the ten nearest of 3,000 rows of unequal length: float16 1.00 for both metrics, int8 0.11 (l2sq) and
# 0.18 (ip). Distances of 2.9 v to 3 v and v: float32 1.2 and 420, int8 0 and 0.
# Exits 0 while that is so.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet usearch==2.26.6 numpy==2.4.6
"$work/venv/bin/python" - <<'PY'
import numpy as np
from usearch.index import Index

random = np.random.default_rng(0)
v = random.normal(size=128)
rows = random.normal(size=(3000, 128)) * np.exp(0.5 * random.normal(size=(3000, 1)))
queries = random.normal(size=(200, 128))
ranks = {
    "l2sq": np.argsort([np.square(rows - one).sum(axis=1) for one in queries], axis=1)[:, :10],
    "ip": np.argsort(-queries @ rows.T, axis=1)[:, :10],
}
recall = {}
for metric in ("l2sq", "ip"):
    for dtype in ("f16", "i8"):
        index = Index(ndim=128, metric=metric, dtype=dtype)
        index.add(np.arange(len(rows)), rows.astype(np.float32))
        keys = index.search(queries.astype(np.float32), 10, exact=True).keys
        recall[metric, dtype] = float(np.mean([len(set(a) & set(b)) / 10 for a, b in zip(keys, ranks[metric])]))
print(recall)
assert min(recall["l2sq", "f16"], recall["ip", "f16"]) > 0.98 and max(recall["l2sq", "i8"], recall["ip", "i8"]) < 0.7
for dtype in ("f32", "i8"):
    index = Index(ndim=128, metric="l2sq", dtype=dtype)
    index.add(np.arange(3), np.stack([3 * v, v, v + 0.5 * random.normal(size=128)]).astype(np.float32))
    found = index.search((2.9 * v).astype(np.float32), 3, exact=True)
    print(dtype, found.keys, found.distances)
assert found.distances[0] == found.distances[1] == 0
PY
