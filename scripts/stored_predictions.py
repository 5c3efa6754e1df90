"""How ``analysis/out_of_fold.json`` was made: what trees predict of the shipped encoders that they were not shown.

    python scripts/stored_predictions.py [--workers 0]

Some 1,400 models, a minute or two, which the study of choices would otherwise train each time. A prediction is looked
up by a hash of its rows, settings, folds, seed and release of XGBoost, so that whatever changes one of them has to run
this again; until then the study trains the models itself.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import xgboost

from zoo.analysis.columns import TREE_OUTCOMES
from zoo.analysis.table import study_table
from zoo.analysis.trees import (
    PREDICTIONS,
    draw_folds,
    hash_predictions,
    predict_out_of_fold,
    read_tuned_parameters,
    select_sample,
)

N_FOLDS, SEED = 30, 0
REPEATS = {"filtered": 1, "few": 3}  # those of the study


def main() -> None:
    """Boost everything and replace the file."""
    parser = argparse.ArgumentParser(description="Store what boosted trees predict of encoders left out.")
    parser.add_argument("--workers", type=int, default=0, help="threads; 0 is one per core [0]")
    options = parser.parse_args()
    lines = []
    for table in (study_table(corrected=corrected) for corrected in (False, True)):
        for features, n_repeats in REPEATS.items():
            for outcome in TREE_OUTCOMES:
                sample, settings = select_sample(table, outcome, features), read_tuned_parameters(outcome, features)
                folds = [draw_folds(sample.n, N_FOLDS, seed=SEED, draw=1 + repeat) for repeat in range(n_repeats)]
                found = predict_out_of_fold(sample, settings, folds, seed=SEED, n_workers=options.workers).astype(
                    "float32"
                )
                rows = ",".join(f"[{','.join(map(str, row))}]" for row in found)  # a float32 as short as it can be
                lines.append(f'"{hash_predictions(sample, settings, folds, SEED)}":[{rows}]')
    about = json.dumps({"script": "scripts/stored_predictions.py", "xgboost": xgboost.__version__})
    path = Path(__file__).resolve().parents[1] / "analysis" / PREDICTIONS
    text = ",\n".join(sorted(lines))
    path.write_text(f'{{"how":{about},"predictions":{{\n{text}\n}}}}\n', encoding="utf-8")
    print(f"wrote {path}, {path.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
