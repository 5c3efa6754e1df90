#!/bin/sh
# Guess: with Pipeline(memory=...) a search over the classifier alone runs a frozen feature step once per image and fold, or
# once per image; a second search over the same images runs it never.
#
# Behaviour (scikit-learn 1.9.1): memory keeps fit_transform of training folds only. The images of a validation fold go
# through the step again for every value that is tried, and so do those of training folds if training scores are asked for.
# A second search over the same folds pays for the validation folds again. Features of images are best computed before.
# Output seen (100 images, 2 folds, 5 values of C; images through the step): no memory 1100, memory 700, again 500,
# memory with training scores 1200. Without memory: 5 times (100 + 100) and 100 for the refit; with it 100 + 500 + 100.
# Exits 0 while that is so.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet scikit-learn==1.9.1 joblib==1.6.0 numpy==2.4.6
cd "$work"
cat > frozen.py <<'PY'
from sklearn.base import BaseEstimator, TransformerMixin

SEEN = []  # how many images went through, call by call


class Frozen(TransformerMixin, BaseEstimator):
    def fit(self, X, y=None):
        return self

    def transform(self, X):
        SEEN.append(len(X))
        return X * 2.0
PY
"$work/venv/bin/python" - <<'PY'
import numpy as np
from frozen import SEEN, Frozen
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

random = np.random.default_rng(0)
x, y = random.normal(size=(100, 5)), np.arange(100) % 2


def count_images(memory, **options):
    SEEN.clear()
    pipeline = make_pipeline(Frozen(), LogisticRegression(), memory=memory)
    GridSearchCV(pipeline, {"logisticregression__C": [0.01, 0.1, 1, 10, 100]}, cv=2, **options).fit(x, y)
    return sum(SEEN)


found = [count_images(None), count_images("kept"), count_images("kept"), count_images("other", return_train_score=True)]
print(found)
assert found == [1100, 700, 500, 1200], found
PY
