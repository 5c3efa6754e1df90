"""What is said of the choices that were drawn, held against what they change.

A statement on an effect *agrees* if the effect has that sign and its p-value by permutation is at most 0.05, and is
*not reproducible* otherwise. The p-value is of the difference in means, the size and the interval are by least squares
beside all other choices; if these two have different signs, neither is taken for an effect. These are other encoders
and images than the paper's: an effect of the other sign, which the reason says, corrects nothing that was said of
ImageNet, and one that is not found may be too small for this population. What was stated beforehand of this population
itself can be corrected.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from zoo.analysis.columns import Estimate
from zoo.analysis.label_free import title_of
from zoo.analysis.randomised import RandomisedEffect
from zoo.analysis.randomised_population import INTERACTIONS, OF_OBJECTIVE
from zoo.errors import QueryError
from zoo.studies.findings import Answer, Claim, Claims, excludes_zero
from zoo.studies.tables import interval, probability, read_printed

from .experiment import CERTAIN, SUPERVISED, Experiment, Interaction, disagreement, robust, sign_of
from .law import ALPHA, Laws
from .orders import ALL, ARCHITECTURE, DIMENSIONS, FREE, SEARCH, WITHIN, Orders, kind_of

SAID = read_printed(Path(__file__).with_name("said.tsv"))
ELSEWHERE = "grey images of 28 px, networks of some ten thousand parameters"
CLOSE = 0.5  # of ImageNet's exponent: another one within so much of it is called the same
RANKME, LIDAR = "rankme", "lidar"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Found:
    """What the claims are held against."""

    experiment: Experiment
    laws: Laws
    orders: Orders

    def measured(self, *metrics: str) -> None:
        """QueryError if one of the metrics was not measured."""
        for name in metrics:
            if name not in self.orders.predictors:
                raise QueryError(f"{title_of(name)} of the randomised encoders is not in results/; measure it.")


def claims_of(found: Found) -> list[Claim]:
    """All claims."""
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


def the_effect_has_the_sign(experiment: Experiment, term: str, outcome: str, sign: int) -> Answer:
    effect = experiment.effect(term, outcome)
    seen = sign_of(effect)
    caveats = [disagreement(effect) if seen else "", _of_family(effect) if seen else "", _of_others(experiment, effect)]
    return Answer(
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
    p = f"p {probability(effect.p)}, family-wise {probability(effect.p_family)}"
    return f"{interval(robust(effect.beside), digits=2)} points {per}; {alone}{p}"


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
    return f"against self-supervised objectives alone {interval(robust(other.beside), digits=2)}, p {other.p:.2g}"


# Interactions that were stated beforehand

SIGNS = {-1: "lowers it more", 1: "raises it more", 0: "none"}


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


def an_interaction(experiment: Experiment, one: Interaction) -> Answer:
    effect = one.effect
    return Answer(
        ours=shown(effect),
        holds=one.verdict == "expectation found",
        contradicted=one.verdict == "opposite",
        value=effect.beside.value,
        reason=one.verdict,
        caveat="; ".join(filter(None, [_of_family(effect) if effect.p <= CERTAIN else "", ELSEWHERE])),
    )


def no_interaction(experiment: Experiment, one: Interaction) -> Answer:
    """That there is none takes an interval that leaves out one as large as the effect itself."""
    effect = robust(one.effect.beside)
    own = abs(experiment.effect(one.effect.term.split(" x ")[0], one.effect.outcome).beside.value or 0.0)
    is_small = effect.ci_low is not None and effect.ci_high is not None and -own < effect.ci_low < effect.ci_high < own
    is_none = one.effect.p > CERTAIN
    return Answer(
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
def exponents_are_alike(laws: Laws) -> Answer:
    difference, theirs = laws.difference(ALPHA), laws.known().law.alpha
    return Answer(
        ours=f"{_law(laws.ours.law.alpha)} against {_law(theirs)}, difference {interval(difference, digits=3)}",
        holds=not excludes_zero(difference) and _within(difference, CLOSE * (theirs.value or 0.0)),
        contradicted=excludes_zero(difference),
        value=difference.value,
        reason="the interval of the difference leaves out 0"
        if excludes_zero(difference)
        else "the interval of the difference holds 0, and exponents half as large again",
        caveat="10 classes instead of 1,000",
    )


@of_the_law(
    "Two parameters predict the errors of other encoders from their components", source="Section 5.2.1", paper="R2 .94"
)
def the_law_fits(laws: Laws) -> Answer:
    ours = laws.ours
    low = ours.left_out.ci_low
    return Answer(
        ours=f"R2 {_law(ours.left_out, 2)} of encoders left out; with the full-shot error alone "
        f"{ours.full_shot_only:.2f}",
        holds=low is not None and low >= 0.9,
        value=ours.left_out.value,
        reason="few-shot errors of these encoders scatter around the law",
        caveat=f"predicts: R2 of at least .9 with its whole interval; {ELSEWHERE}",
    )


def _law(estimate: Estimate, digits: int = 3) -> str:
    return interval(estimate, digits=digits, signed=False)


def _within(estimate: Estimate, most: float) -> bool:
    ends = (estimate.ci_low, estimate.ci_high)
    return all(end is not None and abs(end) <= most for end in ends)


# Metrics without labels

of_metrics = Claims(source="RankMe (arXiv:2210.02885), section 3")


@of_metrics("RankMe goes with accuracy among encoders of one objective", paper="a good predictor")
def rankme_tells_within_an_objective(found: Found) -> Answer:
    found.measured(RANKME)
    return beyond_chance(found.orders.one(RANKME, "full", WITHIN))


@of_metrics(
    "RankMe tells more among encoders of one objective than among all",
    source="RankMe (arXiv:2210.02885), section 3.1",
    paper="only to compare runs of a given method",
)
def rankme_tells_more_within(found: Found) -> Answer:
    found.measured(RANKME)
    return beyond_chance(found.orders.more_among(RANKME, "full", WITHIN, ALL), what="difference of tau")


@of_metrics(
    "RankMe tells hyper-parameters apart where objective, network and dimensions are the same",
    paper="hyper-parameter selection without labels",
)
def rankme_tells_hyperparameters_apart(found: Found) -> Answer:
    found.measured(RANKME)
    return beyond_chance(found.orders.one(RANKME, "full", SEARCH))


@of_metrics(
    "RankMe tells more than the number of dimensions among encoders of one objective",
    source="the question of this study",
    paper="more",
)
def rankme_tells_more_than_the_width(found: Found) -> Answer:
    found.measured(RANKME)
    return beyond_chance(found.orders.against(RANKME, DIMENSIONS, "full", WITHIN), what="difference of tau")


@of_metrics(
    "RankMe tells encoders of one network and number of dimensions apart",
    source="the question of this study",
    paper="above 0",
)
def rankme_tells_encoders_of_one_width_apart(found: Found) -> Answer:
    found.measured(RANKME)
    return beyond_chance(found.orders.one(RANKME, "full", ARCHITECTURE))


@of_metrics(
    "Some metric without labels tells encoders of one network and number of dimensions apart",
    source="the question of this study",
    paper="above 0",
)
def some_metric_tells_encoders_of_one_width_apart(found: Found) -> Answer:
    free = [name for name in map(str, found.orders.predictors) if kind_of(name) == FREE]
    taus = {name: found.orders.one(name, "full", ARCHITECTURE) for name in free}
    known = {name: one for name, one in taus.items() if one.value is not None}
    if not known:
        raise QueryError("No metric without labels of encoders of one network and width is in results/; measure some.")
    best = max(known, key=lambda name: known[name].value or 0.0)
    surely = [name for name, one in known.items() if (one.ci_low or 0.0) > 0]
    return Answer(
        ours=f"the best is {title_of(best)}: tau {interval(known[best], digits=2)}; beyond their interval "
        f"{len(surely)} of {len(known)}",
        holds=best in surely,
        value=known[best].value,
        reason="the interval of the best one holds 0",
        caveat=f"the best of several is chosen afterwards, which flatters it; {ELSEWHERE}",
    )


@of_metrics(
    "LiDAR orders encoders of one objective better than RankMe",
    source="LiDAR (arXiv:2312.04000), Tables 1, 5, 7 to 9",
    paper="consistently higher tau",
)
def lidar_is_better_within_an_objective(found: Found) -> Answer:
    found.measured(LIDAR, RANKME)
    return beyond_chance(found.orders.against(LIDAR, RANKME, "full", WITHIN), what="difference of tau")


@of_metrics(
    "LiDAR orders all encoders better than RankMe",
    source="LiDAR (arXiv:2312.04000), Tables 1, 5, 7 to 9",
    paper="consistently higher tau",
)
def lidar_is_better_over_all(found: Found) -> Answer:
    found.measured(LIDAR, RANKME)
    return beyond_chance(found.orders.against(LIDAR, RANKME, "full", ALL), what="difference of tau")


def beyond_chance(estimate: Estimate, what: str = "tau") -> Answer:
    """Holds if the estimate lies above 0 with its whole interval."""
    if estimate.value is None:
        raise QueryError(f"{what.capitalize()} of {estimate.term} is not known: {estimate.note}.")
    low, high = estimate.ci_low, estimate.ci_high
    reason = "there is no interval" if high is None else "the interval holds 0, so that these encoders do not tell"
    if high is not None and high < 0:
        reason = "it is the other way round on these encoders, which are not the paper's"
    return Answer(
        ours=f"{what} {interval(estimate, digits=2)}, {estimate.n} encoders, {estimate.note}",
        value=estimate.value,
        holds=low is not None and low > 0,
        reason=reason,
        caveat=f"representations, not embeddings; {ELSEWHERE}",
    )
