#!/bin/sh
# Guess: TwoNN of scikit-dimension, which warns that it drops points with a copy, gives about the same dimension with some
# rows twice as without, and exactly the same if columns of zeros are added, which change no distance.
#
# Behaviour (scikit-dimension 0.5.0, scikit-learn 1.9.1): a copy is recognised by a distance of exactly 0. Both rows go then,
# and rows whose nearest neighbour stands twice keep a ratio of 1, so that the dimension is too high. With more than 15
# columns scikit-learn computes distances from products, and those of equal rows come out as 0 or as 1e-8; the latter stay
# with ratios of 1e7, and where they are more than the 10 % that the fit discards, the dimension collapses. Features of
# encoders have more than 15 columns, and data sets have copies: leave one row of each out before.
# Output seen (1,000 rows of 5 dimensions in 12 columns): 5.05, with 300 of them twice 7.13; the same two with 18 columns of
# zeros 5.05 and 0.13.
# Exits 0 while that is so.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet scikit-dimension==0.5.0 scikit-learn==1.9.1
"$work/venv/bin/python" -W ignore - <<'PY'
import numpy as np
from skdim.id import TwoNN

random = np.random.default_rng(0)
once = random.normal(size=(1000, 5)) @ random.normal(size=(5, 12)) + 3
twice = np.concatenate([once, once[:300]])


def find_dimension(z, n_zeros):
    return float(TwoNN().fit_transform(np.pad(z, ((0, 0), (0, n_zeros)))))


found = {(name, n): find_dimension(z, n) for name, z in (("once", once), ("twice", twice)) for n in (0, 18)}
print(found)
assert abs(found["once", 0] - found["once", 18]) < 0.01, found
assert found["twice", 0] > 6 > found["once", 0] > 4, found
assert found["twice", 18] < 1, found
PY
