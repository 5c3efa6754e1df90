"""What do design choices change, if they are drawn at random?

Claim: more dimensions improve usability at the expense of probe generalization; ViTs improve probe generalization; MLP
projectors, more views, augmentations, longer training and larger networks improve usability; generative and
transformation-predicting objectives worsen it (Dubois et al. 2023, Sections 5.3 and D). Errors fall with labels by one
exponent (Section F.4). RankMe and LiDAR tell without labels which encoder of a method is better.

Expected, of 64 tiny encoders on Fashion-MNIST: 4 times the dimensions change usability by -6.0 [-8.5, -3.5] points and
probe generalization by +.42 [+.18, +.65]; a ViT changes the error with all labels by +6.9 [+2.8, +10.9] and probe
generalization by -.56 [-.94, -.17]. Of projectors, views, epochs, size, batches and self-supervised objectives nothing
is told: of usability, 4.7 points between two levels would have been found in four of five draws. None of six
interactions is found. The exponent is .33 [.29, .36], not ImageNet's .145; R2 of encoders left out .80. RankMe orders
encoders of one objective by tau .57 [.30, .78], of one network and number of dimensions by .08 [-.19, .37]; dimensions
alone give .44 within an objective. LiDAR is no better; rotation prediction has .43 [.20, .63] within one network and
number of dimensions.

What it cannot tell: grey images of 28 px in ten classes, and networks of some ten thousand parameters trained for four
epochs at most, do not say how large an effect is on ImageNet, or whether it has that sign. Training took 1.7 hours of
one core, measuring 3 to 15 minutes of one core an encoder (docs/randomised.md).

Command: zoo study what_randomised_choices_change
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import pandas as pd

from zoo.analysis.randomised_population import (
    OUTCOMES,
    SWITCHES,
    Population,
    label_free_values,
    randomised_law_rows,
    randomised_population,
)
from zoo.analysis.table import StudyTable
from zoo.datasets.recipes import WORDS
from zoo.studies.findings import Findings
from zoo.studies.running import StudyOptions

from . import tables
from .claims import Found, claims_of
from .experiment import CERTAIN, Experiment, experiment_of, tied_contrasts
from .figures import all_figures
from .law import laws_of
from .orders import Orders, orders_of, why_missing


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Randomised:
    """What does not depend on the table of encoders."""

    experiment: Experiment
    rows: pd.DataFrame  # of the scaling law
    n_measured: int
    metrics: pd.DataFrame
    orders: Orders


@cache  # a report asks for it twice, with two tables of encoders
def randomised(seed: int) -> Randomised:
    """Effects of the randomised choices, and orders of the metrics."""
    population = randomised_population()
    rows, n_measured = randomised_law_rows(population)
    metrics = label_free_values(population)
    few_shot = rows[rows["setting"] == "5-shot"].set_index("encoder")["error"].reindex(population.choices.index)
    return Randomised(
        experiment=experiment_of(population, seed=seed),
        rows=rows,
        n_measured=n_measured,
        metrics=metrics,
        orders=orders_of(population, metrics, few_shot, seed=seed),
    )


def study(table: StudyTable, options: StudyOptions) -> Findings:
    """Effects, interactions, scaling law and metrics of the randomised encoders; the table gives ImageNet's law."""
    options.progress("effects", 0, 2)
    found = randomised(options.seed)
    options.progress("scaling laws", 1, 2)
    laws = laws_of(found.rows, found.n_measured, table, seed=options.seed)
    experiment, orders = found.experiment, found.orders
    population = experiment.population
    missing = why_missing(population, found.metrics)
    return Findings(
        claims=claims_of(Found(experiment=experiment, laws=laws, orders=orders)),
        estimates=[*experiment.estimates(), *laws.estimates(), *orders.estimates()],
        tables=[
            *tables.effects_tables(experiment),
            tables.together_table(experiment),
            tables.interactions_table(experiment),
            tables.smallest_table(experiment),
            tables.approximation_table(population),
            tables.law_table(laws),
            tables.misses_table(laws),
            *tables.orders_tables(orders),
            *([tables.missing_table(missing, len(population))] if missing else []),
            tables.runs_table(population),
            tables.choices_table(population),
        ],
        figures=all_figures(experiment, laws, orders),
        rows=tables.rows_used(experiment, laws, orders, missing),
        notes=_notes(experiment, found.metrics),
    )


def _notes(experiment: Experiment, metrics: pd.DataFrame) -> list[str]:
    population = experiment.population
    return [
        f"{len(population)} encoders, trained in {population.log['seconds'].sum() / 3600:.1f} hours in all: "
        f"{_states(population)}. Grey images of 28 px in ten classes, networks of some ten thousand parameters, four "
        "epochs at most: effects on ImageNet may be of another size or sign.",
        "An effect that was not found is no absent one; the table of what could have been found says how large it may "
        "be.",
        "What counts as an effect is decided by the p-values, by permutation, of the difference in means: that is what "
        "the draw permits, and what was stated beforehand (docs/randomised.md). How large it is, with its interval, is "
        "by least squares beside all other choices, which takes away what these add by chance. An interval that leaves "
        "out 0 is no test beside it, and where both estimates have different signs neither is taken for an effect.",
        _chance(experiment),
        _balance(population),
        "Effects are averages over all other choices as they were drawn. How two choices act together is asked of six "
        "pairs only. More epochs, smaller batches and more views mean more steps or more computation, and an effect is "
        "of the choice with what it entails.",
        *_rank_of_vits(population, metrics),
        "Metrics are of representations, not of embeddings behind the projector. Views have of what was drawn only "
        f"{', '.join(name for name in SWITCHES if name in WORDS)}, for by the names "
        f"{', '.join(name for name in SWITCHES if name not in WORDS)} the zoo makes none. Intervals of tau draw "
        "encoders, not objectives: the choices of each were drawn independently.",
        "The probe behind the two generalization errors was trained once an encoder, without one subset of the images: "
        "these are known to some tenths of a point.",
    ]


def _states(population: Population) -> str:
    counts = population.log["state"].value_counts()
    return ", ".join(f"{int(counts.get(state, 0))} {state}" for state in ("trained", "collapsed", "failed"))


def _chance(experiment: Experiment) -> str:
    effects = experiment.first.values()
    alone, of_family = sum(one.p <= CERTAIN for one in effects), sum(one.p_family <= CERTAIN for one in effects)
    return (
        f"Of {len(effects)} effects (contrasts and {len(OUTCOMES)} outcomes) {alone} have a p of at most {CERTAIN:g}, "
        f"where {CERTAIN * len(effects):.0f} would by chance alone, and {of_family} family-wise. Statements of the "
        "paper are held against p alone, and a caveat says which do not stand family-wise."
    )


def _balance(population: Population) -> str:
    contrasts = population.contrasts
    tied = ", ".join(f"{one} and {other} ({r:+.2f})" for one, other, r in tied_contrasts(contrasts))
    fewest = {str(name): int(min((x > x.mean()).sum(), (x < x.mean()).sum())) for name, x in contrasts.items()}
    least = min(fewest, key=lambda name: fewest[name])
    return (
        f"What was drawn at random is not balanced: the contrasts that go together most by chance are {tied}; {least} "
        f"has {fewest[least]} encoders on one side."
    )


def _rank_of_vits(population: Population, metrics: pd.DataFrame) -> list[str]:
    """That dimensions beyond the width of a ViT add nothing to the rank of its features, if the ranks say so."""
    if "feature_rank" not in metrics:
        return []
    is_vit, widest = population.choices["network"] == "vit", population.choices["dim"].astype("float64")
    most = metrics["feature_rank"][is_vit & (widest == widest.max())].max()
    if not most < widest.max():
        return []
    return [
        "A ViT maps as many numbers as it is wide linearly to its features: with "
        f"{widest.max():.0f} dimensions their rank is {most:.0f} at most, and 4 times the dimensions are another "
        "change there than in a ResNet."
    ]
