"""How ``analysis/tuned_trees.toml`` was made, and how much its settings flatter.

    python scripts/stored_trees.py [--features few,filtered,all] [--trials 50] [--nested few] [--write]

Tunes the trees of the six outcomes of Table 6 for each set of features and prints the variance that they explain in 30
folds, in percent, by the paper's definition and pooled. For the sets named by ``--nested`` it then searches anew
without each of these folds, 180 searches a set, and prints what the settings found so explain: the honest numbers
along with the flattered ones. ``--write`` replaces the file. The result depends on the seed and the libraries alone,
not on the number of processes.
"""

from __future__ import annotations

import argparse
import datetime
from pathlib import Path

from zoo.analysis.columns import TREE_OUTCOMES
from zoo.analysis.importance import estimate_nested_variance, explained_variance
from zoo.analysis.table import study_table
from zoo.analysis.trees import FILE, Tuned, tune_all, write_parameters

NAMES = ("by_fold", "nested_by_fold", "pooled", "nested_pooled")


def main() -> None:
    """Tune, score, and write if asked."""
    parser = argparse.ArgumentParser(description="Tune the stored settings of boosted trees, and score them honestly.")
    parser.add_argument("--features", default="few,filtered,all", help="sets of features, by comma [few,filtered,all]")
    parser.add_argument("--trials", type=int, default=50, help="of each search [50]")
    parser.add_argument("--nested", default="few", help="sets to tune again without each fold, by comma; '' none [few]")
    parser.add_argument("--workers", type=int, default=0, help="processes; 0 is one per core [0]")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--write", action="store_true", help=f"replace analysis/{FILE}")
    options = parser.parse_args()
    table = study_table()
    tunings: list[Tuned] = []
    scores: dict[tuple[str, str], dict[str, float]] = {}
    print(f"{'features':10}{'outcome':24}{'error':>9}{'by fold':>9}{'nested':>8}{'pooled':>9}{'nested':>8}")
    for features in options.features.split(","):
        found = tune_all(
            table,
            TREE_OUTCOMES,
            features=features,
            n_trials=options.trials,
            n_workers=options.workers,
            seed=options.seed,
        )
        tunings += found.values()
        for outcome, tuned in found.items():
            scored = explained_variance(
                table,
                outcome,
                features=features,
                parameters=tuned.parameters,
                seed=options.seed,
                n_repeats=1,
                n_workers=options.workers,
            )
            own = {"by_fold": scored.by_fold, "pooled": scored.pooled}
            if features in options.nested.split(","):
                honest = estimate_nested_variance(
                    table,
                    outcome,
                    features=features,
                    n_trials=options.trials,
                    seed=options.seed,
                    n_workers=options.workers,
                )
                own |= {"nested_by_fold": honest.by_fold, "nested_pooled": honest.pooled}
            scores[features, outcome] = own
            shown = [f"{own[name]:.1f}" if name in own else "" for name in NAMES]
            print(f"{features:10}{outcome:24}{tuned.error:>9.4f}{shown[0]:>9}{shown[1]:>8}{shown[2]:>9}{shown[3]:>8}")
    if options.write:
        path = Path(__file__).resolve().parents[1] / "analysis" / FILE
        today = datetime.datetime.now(datetime.UTC).date().isoformat()
        rows = "published rows of self-supervised encoders"
        print(f"wrote {write_parameters(tunings, path, date=today, table=rows, scores=scores)}")


if __name__ == "__main__":
    main()
