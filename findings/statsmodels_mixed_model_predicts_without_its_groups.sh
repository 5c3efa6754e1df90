#!/bin/sh
# Guess: predict() of a fitted mixed model on the table it was fitted to gives fittedvalues, as it does for OLS and GLM, and
# uses the groups' effects where the table names known groups.
#
# Behaviour (statsmodels 0.15.0): fittedvalues and resid have the predicted effects of the groups in them, predict() never
# has, with the same table, the groups' column or without an argument. Errors of encoders "predicted with a random effect of
# their family" are those without it, and residuals made by hand are several times too large.
# Output seen: variance of the residuals 1.13 by resid, 7.47 from predict(table); OLS with the groups as columns 1.13 both ways.
# Exits 0 while that is so.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet statsmodels==0.15.0 pandas==3.1.1 scipy==1.17.1 numpy==2.4.6
"$work/venv/bin/python" - <<'PY'
import numpy as np
import pandas as pd
import statsmodels.formula.api as smf

random = np.random.default_rng(0)
table = pd.DataFrame({"family": np.repeat(list("abcdefgh"), 15), "size": random.normal(size=120)})
table["error"] = np.repeat(3 * random.normal(size=8), 15) + table["size"] + random.normal(size=120)
mixed = smf.mixedlm("error ~ size", table, groups=table["family"]).fit()
fixed = smf.ols("error ~ size + C(family)", table).fit()
found = {
    name: (float(np.var(table["error"] - fit.predict(table))), float(np.var(table["error"] - fit.predict())), float(np.var(fit.resid)))
    for name, fit in (("mixed", mixed), ("OLS", fixed))
}
print(found)
assert np.allclose(found["OLS"], found["OLS"][0]) and np.isclose(found["mixed"][0], found["mixed"][1])
assert found["mixed"][0] > 3 * found["mixed"][2]
assert np.allclose(mixed.fittedvalues + mixed.resid, table["error"])
PY
