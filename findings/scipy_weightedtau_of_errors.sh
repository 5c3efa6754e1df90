#!/bin/sh
# Guess: the weighted tau of scores and accuracies is that of negated scores and errors, as Kendall's, Spearman's and
# Pearson's are: both say how well a score ranks encoders.
#
# Behaviour (scipy 1.17.1): weightedtau gives the largest values the most weight. Of errors, losses and ranks (1 is best) that
# is how well the worst encoders are ordered. Scores of transferability are compared by it, in papers from accuracies.
# Output seen (12 encoders whose best three are confused): accuracies 0.79, errors 0.97; Kendall's tau is 0.91 for both.
# Exits 0 while that is so.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet scipy==1.17.1 numpy==2.4.6
"$work/venv/bin/python" - <<'PY'
import numpy as np
from scipy import stats

accuracy = np.linspace(70, 92, 12)
score = np.arange(12.0)
score[-3:] = score[-3:][::-1]  # the best three in the wrong order
found = {
    name: (float(tau(score, accuracy).statistic), float(tau(-score, 100 - accuracy).statistic))
    for name, tau in (("weighted", stats.weightedtau), ("Kendall", stats.kendalltau), ("Spearman", stats.spearmanr))
}
print(found)
assert np.isclose(*found["Kendall"]) and np.isclose(*found["Spearman"])
assert found["weighted"][1] - found["weighted"][0] > 0.1
PY
