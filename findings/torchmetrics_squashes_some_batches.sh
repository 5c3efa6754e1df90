#!/bin/sh
# Guess: BinaryAUROC of torchmetrics depends on the order of the scores alone, however the images are cut into batches.
#
# Behaviour (torchmetrics 1.9.0): every update puts its scores through a sigmoid if one of them is below 0 or above 1, and
# leaves them as they are if none is. Scores that are mostly between 0 and 1, such as cosine similarities of image and text,
# come together from both kinds of batches. No warning. (Batches of one image do it to common logits: 0.75 becomes 0.70.)
# Output seen (4,096 similarities, 24 of them below 0): scikit-learn 0.764; all at once 0.764, batches of 1,024 0.764,
# 256 0.669, 128 0.630, 64 0.653, 32 0.680, 1 0.756.
# Exits 0 while that is so. Installs torch, several gigabytes.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet torchmetrics==1.9.0 torch==2.15.0 scikit-learn==1.9.1 numpy==2.4.6
"$work/venv/bin/python" - <<'PY'
import numpy as np
import torch
from sklearn.metrics import roc_auc_score
from torchmetrics.classification import BinaryAUROC

random = np.random.default_rng(0)
labels = (random.random(4096) < 0.3).astype(int)
scores = (0.25 + 0.1 * random.normal(size=4096) + 0.1 * labels).astype(np.float32)


def auroc(size):
    metric = BinaryAUROC()
    for start in range(0, len(labels), size):
        metric.update(torch.from_numpy(scores[start : start + size]), torch.from_numpy(labels[start : start + size]))
    return round(float(metric.compute()), 3)


found = {size: auroc(size) for size in (4096, 1024, 256, 128, 64, 32, 1)}
print("below 0:", int((scores < 0).sum()), "scikit-learn", round(roc_auc_score(labels, scores), 3), found)
assert found[4096] == round(roc_auc_score(labels, scores), 3)
assert found[4096] - found[128] > 0.1
PY
