#!/bin/sh
# Guess: average precision of pytrec_eval depends on the similarities; equal ones, as there are many between quantised or
# hashed features, count in the order in which they are given, and similarities that differ are no ties.
#
# Behaviour (pytrec-eval-terrier 0.5.11, by which mteb 2.26 measures retrieval): similarities are held in float32
# and ties are sorted by the name of the image, backwards. So "z" comes before "a" where float64 says the opposite, and
# where features do not differ at all, classes at the end of the alphabet are found best if names begin with the class.
# Output seen: the right image is first by 1e-9; called a among b, c, d its average precision is 0.25, called z 1.0. All
# features equal: average precision for the class ant 0.12, for wolf 1.0 (by chance 0.2).
# Exits 0 while that is so.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet pytrec-eval-terrier==0.5.11 numpy==2.4.6
"$work/venv/bin/python" -W ignore - <<'PY'
import pytrec_eval


def precision(relevant, similarities):
    judge = pytrec_eval.RelevanceEvaluator({"query": {name: 1 for name in relevant}}, {"map"})
    return judge.evaluate({"query": similarities})["query"]["map"]


near = [0.9 + step * 1e-9 for step in (3, 2, 1, 0)]
named = [precision([names[0]], dict(zip(names, near))) for names in ("abcd", "zyxw")]
images = [f"{kind}/{i}.png" for kind in ("ant", "bee", "cat", "dog", "wolf") for i in range(10)]
collapsed = {kind: precision([one for one in images if one.startswith(kind)], dict.fromkeys(images, 0.5)) for kind in ("ant", "wolf")}
print(named, collapsed)
assert named == [0.25, 1.0] and collapsed["ant"] < 0.2 and collapsed["wolf"] == 1, (named, collapsed)
PY
