"""What else was measured of encoders whose choices were drawn: errors by number of labels, and label-free metrics."""

from __future__ import annotations

import pandas as pd

from zoo.analysis.randomised import DATASET, JOINT_EMBEDDING, RandomisedPopulation
from zoo.errors import QueryError
from zoo.files import use_shipped_only
from zoo.results.derived import seed_means, summaries
from zoo.results.values import SETTINGS, SeedMean
from zoo.results.vocabulary import LABEL_FREE_METRICS

JOINT = "joint embedding"
INTERACTIONS = (
    ("projector mlp", JOINT, "usability"),
    ("crop", JOINT, "full"),
    ("n_views", JOINT, "usability"),
    ("dim", "projector mlp", "probe_gen"),
    ("epochs", "large", "enc_gen"),
    ("epochs", "vit", "full"),
)
"""Contrast, contrast, outcome; stated before the first run."""
EXPECTED_SIGNS = (-1, -1, -1, 0, 1, -1)
"""Of each interaction, stated with it: -1 if the first lowers the outcome more with the second, 1 if it raises it more,
0 if none was expected."""
_HELD_OUT = "train minus subset -> subset"  # of the probe that generalization is measured with


def with_joint_embedding(contrasts: pd.DataFrame) -> pd.DataFrame:
    """The contrasts, and one more that is 1 of joint-embedding objectives and 0 of others, for interactions."""
    return contrasts.assign(**{JOINT: contrasts[[f"objective {name}" for name in JOINT_EMBEDDING]].sum(axis=1)})


@use_shipped_only()
def randomised_law_rows(population: RandomisedPopulation) -> tuple[pd.DataFrame, int]:
    """Rows for :func:`~zoo.analysis.scaling_law.fit_scaling_law`, and with how many labels components were measured.

    One row per encoder and number of labels, means over seeds; ``family`` is the network. QueryError if the components
    were not all measured with the same number of labels.
    """
    measured, found = summaries(dataset=DATASET, encoders=population.choices.index), _seed_means(population)
    n_labels = {(one.encoder, one.split): one.n_train for one in found if one.metric == "linear_probe_error"}
    of_components = {n_labels.get((name, _HELD_OUT)) for name in population.outcomes.index}
    n_measured = next(iter(of_components))
    if n_measured is None or len(of_components) > 1:
        raise QueryError(
            f"The components of the {len(population)} randomised encoders were measured with "
            f"{', '.join(sorted(map(str, of_components)))} labels, expected one number for all; measure them alike."
        )
    rows = [
        {
            "encoder": name,
            "setting": setting.name,
            "n": n_labels[name, setting.split],
            "error": measured[name].errors[setting.name],
            "T": parts["approx"] + parts["usability"],
            "probe_gen": parts["probe_gen"],
            "enc_gen": parts["enc_gen"],
            "train_test": parts["full"],
            "family": population.choices.at[name, "network"],
        }
        for name, parts in zip(map(str, population.outcomes.index), population.outcomes.to_dict("records"), strict=True)
        for setting in SETTINGS
        if setting.name in measured[name].errors
    ]
    return pd.DataFrame(rows), n_measured


@use_shipped_only()
def label_free_values(population: RandomisedPopulation) -> pd.DataFrame:
    """Label-free metrics as measured, (n_encoders, n_metrics), by the protocol that most encoders have."""
    by_metric: dict[str, dict[tuple[str, str], dict[str, float]]] = {name: {} for name in LABEL_FREE_METRICS}
    for one in _seed_means(population):
        if one.metric in by_metric:
            by_metric[one.metric].setdefault((one.split, one.protocol), {})[one.encoder] = one.value
    columns = {
        name: pd.Series(max(ways.values(), key=len), dtype="float64").reindex(population.choices.index)
        for name, ways in by_metric.items()
        if ways
    }
    return pd.DataFrame(columns, index=population.choices.index)


def _seed_means(population: RandomisedPopulation) -> list[SeedMean]:
    return [one for one in seed_means(population.choices.index) if one.dataset == DATASET]
