"""What do design choices change, if they are drawn at random?

Claim: more dimensions improve usability at the expense of probe generalization; ViTs improve probe generalization; MLP
projectors, more views, augmentations, longer training and larger networks improve usability; generative and
transformation-predicting objectives worsen it (Dubois et al. 2023, Sections 5.3 and D). Errors fall with labels by one
exponent (Section F.4). RankMe and LiDAR tell without labels which encoder of a method is better.

Expected, of 64 tiny encoders on Fashion-MNIST: 19 of 115 effects are detected, where chance alone gives 6; 5 stand
family-wise. 4 times the dimensions change usability by -6.0 [-8.5, -3.5] points and probe generalization by +.42 [+.18,
+.65]; a ViT changes the error with all labels by +6.9 [+2.8, +10.9] and probe generalization by -.56 [-.94, -.17]. Of
projectors, views, epochs, size, batches and self-supervised objectives nothing
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

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pandas as pd

from zoo.analysis.columns import Estimate
from zoo.analysis.label_free import get_metric_title
from zoo.analysis.randomised import (
    OF_OBJECTIVE,
    OUTCOMES,
    SWITCHES,
    RandomisedPopulation,
    load_randomised_population,
)
from zoo.analysis.table import StudyTable
from zoo.datasets.recipes import WORDS
from zoo.errors import QueryError
from zoo.studies.findings import (
    Claim,
    ClaimAnswer,
    Claims,
    Findings,
    answer_in_sentence,
    format_statement,
    has_interval_without_zero,
)
from zoo.studies.running import StudyOptions
from zoo.studies.tables import format_estimate, format_p_value, format_unsigned, read_printed

from . import tables
from .effects import RandomisedEffect
from .experiment import (
    ALL,
    ALPHA,
    ARCHITECTURE,
    CERTAIN,
    DIMENSIONS,
    FREE,
    SEARCH,
    SIGNS,
    SUPERVISED,
    WITHIN,
    Experiment,
    Interaction,
    Laws,
    Orders,
    disagreement,
    experiment_of,
    kind_of,
    laws_of,
    orders_of,
    robust,
    sign_of,
    tied_contrasts,
    why_missing,
)
from .measured import INTERACTIONS, label_free_values, randomised_law_rows
from .tables import all_figures


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
    population = load_randomised_population()
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
        answer=answer_in_sentence(lambda: _answer(experiment)),
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


def _answer(experiment: Experiment) -> str:
    wide = [format_statement(robust(experiment.effect("dim", one).beside), 1) for one in ("usability", "probe_gen")]
    effects = experiment.first.values()
    found, of_family = sum(one.p <= CERTAIN for one in effects), sum(one.p_family <= CERTAIN for one in effects)
    return (
        f"{found} of {len(effects)} effects are detected ({CERTAIN * len(effects):.0f} by chance), {of_family} "
        f"family-wise; four times the dimensions change usability error by {wide[0]} points, probe generalization by "
        f"{wide[1]}."
    )


def _notes(experiment: Experiment, metrics: pd.DataFrame) -> list[str]:
    population = experiment.population
    return [
        f"{len(population)} encoders, trained in {population.log['seconds'].sum() / 3600:.1f} hours in all: "
        f"{_states(population)}. Grey images of 28 px in ten classes, networks of some ten thousand parameters, four "
        "epochs at most: effects on ImageNet may be of another size or sign.",
        "An effect that was not detected may exist; the table of detectable effects says how large it may be.",
        "An effect is detected by the permutation p-value of the difference in means, as was stated beforehand "
        "(docs/randomised.md). Its size and interval are by least squares adjusted for all other choices; where both "
        "have different signs neither is taken for an effect.",
        _chance(experiment),
        _balance(population),
        "Effects are averages over all other choices as drawn; only six pairs are tested for interaction. More epochs, "
        "smaller batches and more views entail more steps or more computation.",
        *_rank_of_vits(population, metrics),
        "Metrics are of representations, not of embeddings behind the projector. Views have of what was drawn only "
        f"{', '.join(name for name in SWITCHES if name in WORDS)}, for by the names "
        f"{', '.join(name for name in SWITCHES if name not in WORDS)} the zoo makes none. Intervals of tau draw "
        "encoders, not objectives: the choices of each were drawn independently.",
        "The probe behind the two generalization errors was trained once per encoder, without one subset of the "
        "images: these are known to some tenths of a point.",
    ]


def _states(population: RandomisedPopulation) -> str:
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


def _balance(population: RandomisedPopulation) -> str:
    contrasts = population.contrasts
    tied = ", ".join(f"{one} and {other} ({r:+.2f})" for one, other, r in tied_contrasts(contrasts))
    fewest = {str(name): int(min((x > x.mean()).sum(), (x < x.mean()).sum())) for name, x in contrasts.items()}
    least = min(fewest, key=lambda name: fewest[name])
    return (
        f"What was drawn at random is not balanced: the contrasts that go together most by chance are {tied}; {least} "
        f"has {fewest[least]} encoders on one side."
    )


def _rank_of_vits(population: RandomisedPopulation, metrics: pd.DataFrame) -> list[str]:
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


SAID = read_printed(Path(__file__).with_name("said.tsv"))
ELSEWHERE = "grey images of 28 px, networks of some ten thousand parameters"
CLOSE = 0.5  # of ImageNet's exponent: another one within so much of it is called the same
RANKME, LIDAR = "rankme", "lidar"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Found:
    experiment: Experiment
    laws: Laws
    orders: Orders

    def measured(self, *metrics: str) -> None:
        """QueryError if one of the metrics was not measured."""
        for name in metrics:
            if name not in self.orders.predictors:
                raise QueryError(f"{get_metric_title(name)} of the randomised encoders is not in results/; measure it.")


def claims_of(found: Found) -> list[Claim]:
    said = [
        claim
        for row in SAID
        for claim in of_choices(row).judged(found.experiment, row["term"], row["outcome"], int(row["sign"]))
    ]
    interactions = [
        claim
        for one, (first, second, outcome) in zip(found.experiment.interactions, INTERACTIONS, strict=True)
        for claim in of_interactions(one, first, second, outcome).judged(found.experiment, one)
    ]
    return [*said, *interactions, *of_the_law.judged(found.laws), *of_metrics.judged(found)]


# Effects that the paper speaks of


def of_choices(row: Mapping[str, str]) -> Claims:
    """The statement of a row of ``said.tsv``."""
    claims = Claims(source=row["source"])
    claims(row["claim"], paper=row["paper"])(the_effect_has_the_sign)
    return claims


def the_effect_has_the_sign(experiment: Experiment, term: str, outcome: str, sign: int) -> ClaimAnswer:
    effect = experiment.effect(term, outcome)
    seen = sign_of(effect)
    caveats = [disagreement(effect) if seen else "", _of_family(effect) if seen else "", _of_others(experiment, effect)]
    return ClaimAnswer(
        ours=shown(effect),
        holds=seen == sign,
        value=effect.beside.value,
        reason=_why_not(experiment, effect, seen),
        caveat="; ".join([*filter(None, caveats), ELSEWHERE]),
    )


def shown(effect: RandomisedEffect) -> str:
    """``"-6.02 [-8.49, -3.54] points for 4 times the dimensions; alone -4.39, p 1.0e-04, family-wise 5.0e-04"``."""
    per = effect.beside.unit.removeprefix("percentage points ").replace("per ", "for ", 1).replace("_", " ")
    alone = "" if effect.alone is None else f"alone {effect.alone.value:+.2f}, "
    p = f"p {format_p_value(effect.p)}, family-wise {format_p_value(effect.p_family)}"
    return f"{format_estimate(robust(effect.beside), digits=2)} points {per}; {alone}{p}"


def _why_not(experiment: Experiment, effect: RandomisedEffect, seen: int) -> str:
    if seen:
        return "the effect goes the other way here"
    if effect.p <= CERTAIN:
        return "the difference in means and least squares have different signs, so that chance in the draw decides"
    reason = f"not detected (80 % power for {experiment.smallest(effect):.2g} points)"
    return "; ".join(filter(None, [reason, disagreement(effect)]))


def _of_family(effect: RandomisedEffect) -> str:
    return "" if effect.p_family <= CERTAIN else f"family-wise p is {effect.p_family:.2g}, so chance is not ruled out"


def _of_others(experiment: Experiment, effect: RandomisedEffect) -> str:
    """What the second analysis says of an objective, which the paper compares with self-supervised ones."""
    if effect.term not in OF_OBJECTIVE or effect.term == SUPERVISED:
        return ""
    other = experiment.second[effect.term, effect.outcome]
    return (
        f"against self-supervised objectives alone {format_estimate(robust(other.beside), digits=2)}, p {other.p:.2g}"
    )


# Interactions that were stated beforehand


def of_interactions(one: Interaction, first: str, second: str, outcome: str) -> Claims:
    """The statement of an interaction."""
    claims = Claims(source="docs/randomised.md, stated beforehand")
    words = WORDS_OF_INTERACTIONS[first, second, outcome]
    claims(words, paper=SIGNS[one.expected])(no_interaction if not one.expected else an_interaction)
    return claims


WORDS_OF_INTERACTIONS = dict(
    zip(
        INTERACTIONS,
        (
            "An MLP projector helps the usability of joint-embedding objectives more",
            "Crops help the error with all labels of joint-embedding objectives more",
            "More views help the usability of joint-embedding objectives more",
            "What dimensions change in probe generalization does not depend on an MLP projector",
            "Longer training worsens the encoder generalization of large networks more",
            "Longer training helps the error with all labels of ViTs more",
        ),
        strict=True,
    )
)


def an_interaction(experiment: Experiment, one: Interaction) -> ClaimAnswer:
    effect = one.effect
    return ClaimAnswer(
        ours=shown(effect),
        holds=one.verdict == "expectation found",
        contradicted=one.verdict == "opposite",
        value=effect.beside.value,
        reason=one.verdict,
        caveat="; ".join(filter(None, [_of_family(effect) if effect.p <= CERTAIN else "", ELSEWHERE])),
    )


def no_interaction(experiment: Experiment, one: Interaction) -> ClaimAnswer:
    """That there is none takes an interval that leaves out one as large as the effect itself."""
    effect = robust(one.effect.beside)
    own = abs(experiment.effect(one.effect.term.split(" x ")[0], one.effect.outcome).beside.value or 0.0)
    is_small = effect.ci_low is not None and effect.ci_high is not None and -own < effect.ci_low < effect.ci_high < own
    is_none = one.effect.p > CERTAIN
    return ClaimAnswer(
        ours=shown(one.effect),
        holds=is_none and is_small,
        contradicted=not is_none,
        value=effect.value,
        reason="there is one" if not is_none else f"one as large as the effect itself, {own:.2f}, is not ruled out",
        caveat=ELSEWHERE,
    )


# The scaling law

of_the_law = Claims(source="the question of this study; Appendix F.4 has the law of ImageNet")


@of_the_law("Errors fall with labels by the exponent of ImageNet", paper="alpha .15, for all encoders")
def exponents_are_alike(laws: Laws) -> ClaimAnswer:
    difference, theirs = laws.difference(ALPHA), laws.known().law.alpha
    return ClaimAnswer(
        ours=f"{format_unsigned(laws.ours.law.alpha, 3)} against {format_unsigned(theirs, 3)}, difference "
        f"{format_estimate(difference, digits=3)}",
        holds=not has_interval_without_zero(difference) and _within(difference, CLOSE * (theirs.value or 0.0)),
        contradicted=has_interval_without_zero(difference),
        value=difference.value,
        reason="the interval of the difference leaves out 0"
        if has_interval_without_zero(difference)
        else "the interval of the difference holds 0, and exponents half as large again",
        caveat="10 classes instead of 1,000",
    )


@of_the_law(
    "Two parameters predict the errors of other encoders from their components", source="Section 5.2.1", paper="R2 .94"
)
def the_law_fits(laws: Laws) -> ClaimAnswer:
    ours = laws.ours
    low = ours.left_out.ci_low
    return ClaimAnswer(
        ours=f"R2 {format_unsigned(ours.left_out, 2)} of encoders left out; with the full-shot error alone "
        f"{ours.full_shot_only:.2f}",
        holds=low is not None and low >= 0.9,
        value=ours.left_out.value,
        reason="few-shot errors of these encoders scatter around the law",
        caveat=f"predicts: R2 of at least .9 with its whole interval; {ELSEWHERE}",
    )


def _within(estimate: Estimate, most: float) -> bool:
    ends = (estimate.ci_low, estimate.ci_high)
    return all(end is not None and abs(end) <= most for end in ends)


# Metrics without labels

of_metrics = Claims(source="RankMe (arXiv:2210.02885), section 3")


@of_metrics("RankMe goes with accuracy among encoders of one objective", paper="a good predictor")
def rankme_tells_within_an_objective(found: Found) -> ClaimAnswer:
    found.measured(RANKME)
    return beyond_chance(found.orders.one(RANKME, "full", WITHIN))


@of_metrics(
    "RankMe tells more among encoders of one objective than among all",
    source="RankMe (arXiv:2210.02885), section 3.1",
    paper="only to compare runs of a given method",
)
def rankme_tells_more_within(found: Found) -> ClaimAnswer:
    found.measured(RANKME)
    return beyond_chance(found.orders.more_among(RANKME, "full", WITHIN, ALL), what="difference of tau")


@of_metrics(
    "RankMe tells hyper-parameters apart where objective, network and dimensions are the same",
    paper="hyper-parameter selection without labels",
)
def rankme_tells_hyperparameters_apart(found: Found) -> ClaimAnswer:
    found.measured(RANKME)
    return beyond_chance(found.orders.one(RANKME, "full", SEARCH))


@of_metrics(
    "RankMe tells more than the number of dimensions among encoders of one objective",
    source="the question of this study",
    paper="more",
)
def rankme_tells_more_than_the_width(found: Found) -> ClaimAnswer:
    found.measured(RANKME)
    return beyond_chance(found.orders.against(RANKME, DIMENSIONS, "full", WITHIN), what="difference of tau")


@of_metrics(
    "RankMe tells encoders of one network and number of dimensions apart",
    source="the question of this study",
    paper="above 0",
)
def rankme_tells_encoders_of_one_width_apart(found: Found) -> ClaimAnswer:
    found.measured(RANKME)
    return beyond_chance(found.orders.one(RANKME, "full", ARCHITECTURE))


@of_metrics(
    "Some metric without labels tells encoders of one network and number of dimensions apart",
    source="the question of this study",
    paper="above 0",
)
def some_metric_tells_encoders_of_one_width_apart(found: Found) -> ClaimAnswer:
    free = [name for name in map(str, found.orders.predictors) if kind_of(name) == FREE]
    taus = {name: found.orders.one(name, "full", ARCHITECTURE) for name in free}
    known = {name: one for name, one in taus.items() if one.value is not None}
    if not known:
        raise QueryError("No metric without labels of encoders of one network and width is in results/; measure some.")
    best = max(known, key=lambda name: known[name].value or 0.0)
    surely = [name for name, one in known.items() if (one.ci_low or 0.0) > 0]
    return ClaimAnswer(
        ours=f"the best is {get_metric_title(best)}: tau {format_estimate(known[best], digits=2)}; "
        "beyond their interval "
        f"{len(surely)} of {len(known)}",
        holds=best in surely,
        value=known[best].value,
        reason="the interval of the best one holds 0",
        caveat=f"the best of several is selected afterwards, which is optimistic; {ELSEWHERE}",
    )


@of_metrics(
    "LiDAR orders encoders of one objective better than RankMe",
    source="LiDAR (arXiv:2312.04000), Tables 1, 5, 7 to 9",
    paper="consistently higher tau",
)
def lidar_is_better_within_an_objective(found: Found) -> ClaimAnswer:
    found.measured(LIDAR, RANKME)
    return beyond_chance(found.orders.against(LIDAR, RANKME, "full", WITHIN), what="difference of tau")


@of_metrics(
    "LiDAR orders all encoders better than RankMe",
    source="LiDAR (arXiv:2312.04000), Tables 1, 5, 7 to 9",
    paper="consistently higher tau",
)
def lidar_is_better_over_all(found: Found) -> ClaimAnswer:
    found.measured(LIDAR, RANKME)
    return beyond_chance(found.orders.against(LIDAR, RANKME, "full", ALL), what="difference of tau")


def beyond_chance(estimate: Estimate, what: str = "tau") -> ClaimAnswer:
    """Holds if the estimate lies above 0 with its whole interval."""
    if estimate.value is None:
        raise QueryError(f"{what.capitalize()} of {estimate.term} is not known: {estimate.note}.")
    low, high = estimate.ci_low, estimate.ci_high
    reason = "there is no interval" if high is None else "the interval holds 0, so that these encoders do not tell"
    if high is not None and high < 0:
        reason = "it is the other way round on these encoders, which are not the paper's"
    return ClaimAnswer(
        ours=f"{what} {format_estimate(estimate, digits=2)}, {estimate.n} encoders, {estimate.note}",
        value=estimate.value,
        holds=low is not None and low > 0,
        reason=reason,
        caveat=f"representations, not embeddings; {ELSEWHERE}",
    )
