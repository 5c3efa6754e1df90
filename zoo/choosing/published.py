"""Where an encoder stands among the published ones: ranks by component, the nearest by design, what choices change.

Numbers of two protocols do not compare: one that was measured by another protocol than its group has no rank, but a
range that allows for what lies between them. That is their difference on encoders that have both, of at least three;
else by how much linear probes of authors differ from the study's.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median, stdev
from typing import Any

from ..analysis.columns import STUDY_COLUMNS, Estimate
from ..analysis.controlled import CORE_COLUMNS, controlled_effect
from ..analysis.label_budget import N_VALIDATION_IMAGES, Noise, simulate_ranks
from ..analysis.linear import global_linear_effect
from ..analysis.reported_agreement import estimate_protocol_spread
from ..analysis.table import StudyTable, study_table
from ..cards.catalogue import load_catalogue
from ..cards.representations import MARK
from ..cards.schema import EncoderCard, Missing
from ..errors import QueryError, UnknownName
from ..results.derived import summaries
from ..results.facts import FACTS, Fact, Subject, format_short_number, list_subjects
from ..results.rows import average_over_seeds, measurements
from ..results.tables import list_study_facts
from ..results.values import IMAGENET, PROBE
from .ranking import NO_CANDIDATES

ERROR = FACTS["train_test"]
FEWEST = 10  # encoders of a group, or it is widened
FEWEST_BOTH = 3  # encoders measured by both protocols, from which their difference is taken
FEW_PAIRS = 5  # groups of encoders that differ in nothing else, below which an effect rests on few
_N_NEAREST = 3
_NO_CHOICES = ("other", "year", "version")  # core columns that nobody would choose
_OF_LINEAR = ("ssl_mode", "family", "n_parameters")  # choices of the linear analysis that core columns imply
_ALIKE = 0.1  # difference of logarithms up to which numbers are one choice
_HALF_WIDTH = 1.959963984540054  # of 95 %, in standard deviations


@dataclass(frozen=True, slots=True, kw_only=True)
class RiskRank:
    """A risk of the encoder and its rank in a group, itself included; 1 is the lowest, equal ones share the middle."""

    risk: str  # column of results_df
    value: float  # percent, or percentage points
    interval: tuple[float, float] | None  # 95 %, as it was recorded
    rank: int | None
    lowest: int  # nine in ten draws of its rank are from here
    highest: int  # to here
    n: int
    median: float  # of the others
    best: str
    between_protocols: float  # standard deviation of what lies between two protocols, in points; 0 within one
    n_both: int  # encoders measured by both


@dataclass(frozen=True, slots=True)
class NearestEncoder:
    """A published encoder, how many core choices it shares, and its choice and the other's where they differ."""

    encoder: str
    n_alike: int
    differing: Mapping[str, tuple[Any, Any]]


@dataclass(frozen=True, slots=True)
class PublishedComparison:
    """Where an encoder stands, what the nearest do otherwise, what that changes on average, and what cannot be said."""

    encoder: str
    dataset: str
    answer: str
    group: Mapping[str, str]  # encoder -> protocol
    group_words: str  # how it was chosen
    places: Sequence[RiskRank]  # of the error, then of its components
    n_said: int  # core choices that its card says
    nearest: Sequence[NearestEncoder]
    effects: Sequence[Estimate]  # of having its choice in place of a neighbour's; without a value where not known
    cautions: Sequence[str]


def compare_with_published(encoder: str, *, dataset: str = IMAGENET) -> PublishedComparison:
    """Ranks of an encoder, your own or any measured one, among those that come with the zoo, and its nearest by design.

    Errors are in percent, components and effects in percentage points; lower is better. Effects are those of the
    controlled and the global linear analysis on ImageNet-1K, errata applied. QueryError if no error of it with all
    labels is recorded on the data set, or of fewer than two others.
    """
    (mine,) = list_subjects([encoder], with_risks=True, exclude_wrong=True, dataset=dataset)
    others = _published(mine, dataset) if mine.protocol(ERROR) else []
    if len(others) < 2:
        raise QueryError(
            f"Got {mine.id} on {dataset}, expected its error with all labels and those of two that come with the zoo "
            f"by its protocol; measure them alike: zoo evaluate NAME... IMAGES --dataset {dataset} --decompose."
        )
    group, group_words = _group(mine.card, others)
    together = ["approx_plus_usability"] * isinstance(FACTS["approx"].of(mine), Missing)
    names = [ERROR.name, *(together or ["approx", "usability"]), "probe_gen", "enc_gen"]
    found = [_place(FACTS[name], mine, group, others, dataset) for name in names]
    places = [place for place in found if place is not None]
    said = _choices(mine.card, CORE_COLUMNS)
    nearest = _nearest(mine.card, [one.card for one in others], said)
    weakest = max(places[1:], key=lambda one: (one.lowest / one.n, one.highest / one.n), default=None)
    effects = _effects(nearest, [place.risk for place in (weakest, places[0]) if place is not None])
    cautions = _cautions(places[0], mine.protocol(ERROR), len(said), dataset)
    answer, measured = _answer(weakest, effects), {one.id: one.protocol(ERROR) for one in group}
    return PublishedComparison(
        mine.id, dataset, answer, measured, group_words, places, len(said), nearest, effects, cautions
    )


def _published(mine: Subject, dataset: str) -> list[Subject]:
    """Encoders that come with the zoo and were measured there: self-supervised, or supervised or untrained as it is."""
    cards, mode = load_catalogue(), mine.card.objective.mode
    ids = [name for name in summaries(dataset=dataset) if MARK not in name and name not in (mine.id, *cards.own)]
    kinds = {name: cards[name].objective.mode for name in ids}
    ids = [name for name, its in kinds.items() if its == mode or {its, mode}.isdisjoint(NO_CANDIDATES)]
    found = [
        one for one in list_subjects(ids, with_risks=True, exclude_wrong=True, dataset=dataset) if one.protocol(ERROR)
    ]
    alike = [one for one in found if one.protocol(ERROR) == mine.protocol(ERROR)]
    return alike if len(alike) >= FEWEST or dataset != IMAGENET else found


def _group(card: EncoderCard, others: Sequence[Subject]) -> tuple[list[Subject], str]:
    """The others of like size and data, or of like size if these are few, or all; and how they were chosen."""
    n, data = card.architecture.n_parameters, card.pretraining.dataset
    alike = [one for one in others if one.card.pretraining.dataset == data and not isinstance(data, Missing)]
    for among, told in ((alike, f" and {data} as pre-training data"), (others, ", whatever their pre-training data")):
        for factor in (2, 4):
            near = [one for one in among if 1 / factor <= one.card.architecture.n_parameters / n <= factor]
            if len(near) >= FEWEST:
                return (
                    near,
                    f"with {format_short_number(n / factor)} to {format_short_number(n * factor)} parameters{told}",
                )
    return list(others), f"of any size and data: fewer than {FEWEST} are within four times its size"


def _place(
    fact: Fact, mine: Subject, group: Sequence[Subject], others: Sequence[Subject], dataset: str
) -> RiskRank | None:
    known = [one for one in (mine, *group) if not isinstance(fact.of(one), Missing)]
    if known[:1] != [mine] or len(known) < 2:
        return None
    is_alike = {one.protocol(fact) for one in known} == {mine.protocol(fact)}
    shift, apart, n_both = (0.0, 0.0, 0) if is_alike else _between_protocols(mine, others, fact, dataset)
    values, intervals = [fact.of(one) for one in known], _intervals(known, fact, dataset)
    noises = [Noise(_noise(one, fact, intervals.get(one.id), dataset), apart * (one is mine)) for one in known]
    odds = simulate_ranks([values[0] - shift, *values[1:]], noises)[0]
    below = sum((one < values[0] - shift) + (one == values[0] - shift) / 2 for one in values[1:])
    return RiskRank(
        risk=fact.name,
        value=values[0],
        interval=intervals.get(mine.id),
        rank=1 + round(below) if is_alike else None,
        lowest=odds.lowest,
        highest=odds.highest,
        n=len(known),
        median=median(values[1:]),
        best=known[1 + values[1:].index(min(values[1:]))].id,
        between_protocols=apart,
        n_both=n_both,
    )


def _intervals(known: Sequence[Subject], fact: Fact, dataset: str) -> dict[str, tuple[float, float]]:
    """95 % intervals as they were recorded with these numbers; published ones have none."""
    values, metric = {one.id: fact.of(one) for one in known}, PROBE if fact == ERROR else fact.other_name or fact.name
    means = average_over_seeds(measurements(metrics=metric, encoders=list(values), dataset=dataset))
    same = [mean for mean in means if abs(mean.value - values[mean.encoder]) < 1e-6]
    return {one.encoder: (one.low, one.high) for one in same if one.low is not None and one.high is not None}


def _noise(one: Subject, fact: Fact, ends: tuple[float, float] | None, dataset: str) -> float:
    """Standard deviation by the choice of images, in points; 0 where nothing is known of it."""
    if ends is not None:
        return (ends[1] - ends[0]) / 2 / _HALF_WIDTH
    share, n_errors = ERROR.of(one) / 100, 1 if fact == ERROR else 2  # a component is the difference of two errors
    return 100 * math.sqrt(n_errors * share * (1 - share) / N_VALIDATION_IMAGES) if dataset == IMAGENET else 0.0


def _between_protocols(mine: Subject, others: Sequence[Subject], fact: Fact, dataset: str) -> tuple[float, float, int]:
    """By how much an encoder's protocol gives more than that of others, its standard deviation, and n with both."""
    source = mine.summary.campaign.source if mine.summary else None
    again = summaries(source=source, dataset=dataset, encoders=[one.id for one in others])
    both = [(replace(one, summary=again[one.id]), one) for one in others if one.id in again]
    pairs = [(fact.of(one), fact.of(other)) for one, other in both if one.protocol(fact) == mine.protocol(fact)]
    apart = [one - other for one, other in pairs if not isinstance(other, Missing)]
    if len(apart) >= FEWEST_BOTH:
        return fmean(apart), stdev(apart) * math.sqrt(1 + 1 / len(apart)), len(apart)
    return 0.0, estimate_protocol_spread(), len(apart)


def _choices(card: EncoderCard, names: Sequence[str]) -> dict[str, Any]:
    """Design choices that a card says; that one does not apply is one, too."""
    facts = {name: value for name, value in list_study_facts(card, False).items() if name in names}
    unknown = (Missing.NOT_PUBLISHED, Missing.NOT_RECORDED)
    known = {name: value for name, value in facts.items() if name not in _NO_CHOICES and value not in unknown}
    return {name: value.value if isinstance(value, Missing) else value for name, value in known.items()}


def _is_alike(one: Any, other: Any) -> bool:
    are_numbers = all(type(value) in (int, float) and value > 0 for value in (one, other))
    return abs(math.log(one / other)) <= _ALIKE if are_numbers else bool(one == other)


def _nearest(mine: EncoderCard, others: Sequence[EncoderCard], said: Mapping[str, Any]) -> list[NearestEncoder]:
    """Those that share most of the core choices, of equals those of the nearest size."""
    asked, found = {**said, **_choices(mine, _OF_LINEAR)}, []
    for card in others:
        its = _choices(card, list(asked))
        differing = {name: (its[name], asked[name]) for name in its if not _is_alike(its[name], asked[name])}
        n_alike = sum(name in its and name not in differing for name in said)
        apart = abs(math.log(card.architecture.n_parameters / mine.architecture.n_parameters))
        found.append((-n_alike, apart, card.id, NearestEncoder(card.id, n_alike, differing)))
    return [one for *_, one in sorted(found, key=lambda one: one[:3])[:_N_NEAREST]]


def _effects(nearest: Sequence[NearestEncoder], risks: Sequence[str]) -> list[Estimate]:
    """What the studies say of each choice in which a neighbour differs, on each of the risks."""
    table = study_table(corrected=True)
    choices = {(name, str(ends)): (name, *ends) for one in nearest for name, ends in one.differing.items()}
    methods = {"controlled": CORE_COLUMNS, "linear": tuple(STUDY_COLUMNS)}
    asked = [(choice, risk, method) for choice in choices.values() for risk in risks for method in methods]
    return [_effect(table, *choice, risk, method) for choice, risk, method in asked if choice[0] in methods[method]]


def _effect(table: StudyTable, choice: str, start: Any, end: Any, risk: str, method: str) -> Estimate:
    """What having one choice in place of another changes, by one of the studies; without a value, why not."""
    term, column, kind = f"{choice}: {end}, not {start}", table.frame[choice], STUDY_COLUMNS[choice].kind
    blank = Estimate(term=term, n=0, unit="percentage points", outcome=risk, method=method)
    is_number, first, last, factor = "number" in kind, str(start), str(end), 1.0
    if is_number and (str in (type(start), type(end)) or start <= 0 or not 0 < column.min() <= end <= column.max()):
        return blank.described(note=f"beyond the published {choice}")
    try:
        if method == "controlled":
            effect = controlled_effect(table, choice, risk, reference=None if is_number else first)
            estimate, n = effect.estimate(None if is_number else last), effect.n_encoders
            n_pairs = len(effect.changes(*([] if is_number else [first, last])))
            note = f"controlled, {n} encoders, {n_pairs} pairs or groups" + ": few" * (n_pairs < FEW_PAIRS)
        else:
            linear = global_linear_effect(table, choice, risk, references={choice: first} if kind == "text" else {})
            estimate = linear.estimate(f"{choice}[{last}]") if kind == "text" else linear.estimates[0]
            n, note = linear.used, f"linear, {linear.used} encoders" + f", {estimate.note}" * bool(estimate.note)
            factor = 1.0 if kind == "text" or end else -1.0  # of true or false it is the effect of true
    except (QueryError, UnknownName):
        return blank.described(note="no published encoders tell the two apart")
    factor = math.log(end / start) if is_number else factor
    value, one, other = (one and factor * one for one in (estimate.value, estimate.ci_low, estimate.ci_high))
    ends = (one, other) if factor > 0 else (other, one)
    return blank.with_value(value, ends, p=estimate.p, n=n, note=note)


def _answer(weakest: RiskRank | None, effects: Sequence[Estimate]) -> str:
    """On which component it loses, and which choice goes with that."""
    if weakest is None:
        return "No component of its error is known: zoo evaluate --decompose measures them."
    words = (FACTS[weakest.risk].other_name or weakest.risk).replace("_", " ")
    if weakest.lowest == 1:
        return "Ranks of its components are too uncertain to say on which it loses: each of them may be the first."
    where = f"It ranks worst in {words}, {weakest.lowest} to {weakest.highest} of {weakest.n}"
    where += "" if weakest.lowest > (weakest.n + 1) / 2 else ", though perhaps not in the worse half"
    of_it = [one for one in effects if one.outcome == weakest.risk and (one.ci_low or 0.0) > 0]
    if not of_it:
        return f"{where}; no choice in which it differs from the nearest is known to go with more of it."
    first = max(of_it, key=lambda one: one.ci_low or 0.0)
    ends = f"{first.value:+.1f} points ({first.ci_low:.1f} to {first.ci_high:.1f}; {first.note})"
    return f"{where}; of choices in which it differs from the nearest, {first.term} goes with most of it: {ends}."


def _cautions(first: RiskRank, protocol: str, n_said: int, dataset: str) -> list[str]:
    said = []
    if first.between_protocols:
        why = f"as the {first.n_both} encoders measured by both differ"
        if first.n_both < FEWEST_BOTH:
            why = (
                f"as linear probes of authors differ from the study's, for {first.n_both or 'no'} encoders have both; "
                f"of components that is an assumption. Measure {FEWEST_BOTH} of the group as this one to know"
            )
        allowed = f"allow for {first.between_protocols:.1f} points (standard deviation), {why}"
        said = [f"measured by {protocol}, which the group was not: no rank and no difference; ranges {allowed}"]
    said += [
        "one encoder is one training run: how much another seed, or other draws of the probe, would move it is in no "
        "interval; published numbers have none, and ranks hold the choice of test images",
        "effects are averages over published encoders, as found, and not corrected for how many are looked at; what "
        "explains this one, only trainings of it with one choice changed can tell",
    ]
    if n_said < len(CORE_COLUMNS) / 2:
        said.append(f"its card says {n_said} design choices: 'zoo register --set' or '--facts' tells more of them")
    return said + [f"effects of choices are those on ImageNet-1K, not on {dataset}"] * (dataset != IMAGENET)
