#!/bin/sh
# Guess: one NaN among p-values (a metric that could not be computed) stays NaN; the others are corrected as without it, or
# the call is refused, as scipy's false_discovery_control does.
#
# Behaviour (statsmodels 0.15.0): Benjamini-Hochberg and -Yekutieli return NaN for every corrected p-value and all the same
# say which are rejected: three, where the five that are there give four. Bonferroni and Holm count the missing one as a
# test. No warning.
# Output seen (p .001 .01 .02 NaN .04 .3): fdr_bh rejects 3, without the NaN 4, all corrected NaN; bonferroni .006 for .001
# instead of .005; holm rejects 2 in both, .05 for .01 instead of .04.
# Exits 0 while that is so.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet statsmodels==0.15.0 pandas==3.1.1 scipy==1.17.1 numpy==2.4.6
"$work/venv/bin/python" - <<'PY'
import warnings

import numpy as np
from scipy.stats import false_discovery_control
from statsmodels.stats.multitest import multipletests

there = np.array([0.001, 0.01, 0.02, 0.04, 0.3])
missing = np.insert(there, 3, np.nan)
found = {}
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    for method in ("fdr_bh", "holm", "bonferroni"):
        (rejected, with_it), (expected, without) = (multipletests(p, method=method)[:2] for p in (missing, there))
        found[method] = int(rejected.sum()), int(expected.sum()), with_it.round(4).tolist(), without.round(4).tolist()
        print(method, found[method])
assert found["fdr_bh"][:2] == (3, 4) and np.isnan(found["fdr_bh"][2]).all() and not told
assert found["holm"][2][1] == 0.05 and found["holm"][3][1] == 0.04
assert found["bonferroni"][2][0] == 0.006 and found["bonferroni"][3][0] == 0.005
try:
    false_discovery_control(missing)
except ValueError as error:
    print("scipy:", error)
else:
    raise AssertionError("scipy took it")
PY
