#!/bin/sh
# Guess: retrieval mAP depends on the order of the scores alone, so that cosines and cosines + 2 give the same number.
#
# Behaviour (torchmetrics 1.9.0): RetrievalMAP, and retrieval_average_precision, treat every document with a score of 0 or
# below as not relevant, whatever its label. With cosines of centred features, about half of which are negative, relevant
# images that are far down the list vanish from the denominator as well, and the mAP is too high; a query all of whose
# relevant images have negative cosines counts 0. scikit-learn's average precision does not change.
# Output seen (60 queries, 300 images): cosines 0.488, cosines + 2 0.473, scikit-learn 0.473 of both.
# Exits 0 while that is so. Installs torch, several gigabytes.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet torchmetrics==1.9.0 torch==2.15.0 scikit-learn==1.9.1 numpy==2.4.6
"$work/venv/bin/python" - <<'PY'
import numpy as np
import torch
from sklearn.metrics import average_precision_score
from torchmetrics.retrieval import RetrievalMAP

random = np.random.default_rng(0)
middles, y, asked = 0.6 * random.normal(size=(6, 24)), random.integers(0, 6, 300), random.integers(0, 6, 60)
gallery, queries = (middles[labels] + random.normal(size=(len(labels), 24)) for labels in (y, asked))
unit = [rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (queries, gallery)]
cosines, relevant = unit[0] @ unit[1].T, asked[:, None] == y
indexes = torch.arange(60)[:, None].expand(60, 300).flatten()


def by_torchmetrics(scores):
    return float(RetrievalMAP()(torch.from_numpy(scores).flatten(), torch.from_numpy(relevant).flatten(), indexes=indexes))


def by_sklearn(scores):
    return float(np.mean([average_precision_score(one, row) for one, row in zip(relevant, scores, strict=True)]))


found = [by_torchmetrics(cosines), by_torchmetrics(cosines + 2), by_sklearn(cosines), by_sklearn(cosines + 2)]
print(found)
assert abs(found[1] - found[2]) < 1e-4 and abs(found[2] - found[3]) < 1e-4, found
assert found[0] > found[2] + 0.005, found
PY
