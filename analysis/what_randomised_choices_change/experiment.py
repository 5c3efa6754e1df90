"""Effects of the drawn choices: of all encoders, of the self-supervised alone, and what could have been found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import t as student

from zoo.analysis.columns import Estimate
from zoo.analysis.correlations import Floats, compute_kendall, compute_middle_interval, draw_counts
from zoo.analysis.label_free import direct_upwards, get_metric_title, needs_labels
from zoo.analysis.randomised import (
    DATASET,
    OF_OBJECTIVE,
    OUTCOMES,
    SWITCHES,
    UNITS,
    RandomisedPopulation,
)
from zoo.analysis.scaling_law import (
    METHOD,
    N_DECOMPOSITION,
    ScalingLaw,
    compute_residuals,
    estimate_r2,
    fit_scaling_law,
    law_rows,
    predict_law_errors,
    predict_leaving_encoder_out,
    reduce_to_full_shot,
)
from zoo.analysis.table import StudyTable
from zoo.datasets.recipes import WORDS
from zoo.errors import QueryError, UnknownName
from zoo.results.values import IMAGENET
from zoo.results.vocabulary import LABEL_FREE_METRICS
from zoo.studies.findings import has_interval_without_zero

from .effects import (
    RandomisedEffect,
    critical_t,
    detectable,
    randomised_effects,
    randomised_interactions,
    randomised_mean,
)
from .measured import EXPECTED_SIGNS, INTERACTIONS, with_joint_embedding

N_PERMUTATIONS = 9_999
CERTAIN = 0.05  # p-value up to which an effect is detected
SIGNS = {-1: "lowers it more", 1: "raises it more", 0: "none"}
SUPERVISED, AUGMENTATION = "objective supervised", "augmentation"
Effects = Mapping[tuple[str, str], RandomisedEffect]  # by contrast and outcome
KINDS: Mapping[str, tuple[str, ...]] = {
    "an objective against the others": OF_OBJECTIVE,
    "a projector against none": ("projector linear", "projector mlp"),
    "width of the projector": ("projector_width",),
    "one of two levels": ("vit", "large", *SWITCHES, "n_views"),
    "one of three levels to the next": ("dim", "epochs", "batch_size", "rate_factor"),
}
"""Contrasts that are as easy to find as each other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interaction:
    """An interaction that was stated beforehand, with what was expected and what came out."""

    effect: RandomisedEffect
    expected: int  # -1, 0 or 1, as EXPECTED_SIGNS

    @property
    def verdict(self) -> str:
        """What the p-value and the sign say of the expectation."""
        if self.effect.p > CERTAIN:
            return "not detected"
        sign = np.sign(self.effect.beside.value or 0.0)
        if not self.expected:
            return "there is one"
        return "expectation found" if sign == self.expected else "opposite"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Experiment:
    """Everything that the randomised choices changed."""

    population: RandomisedPopulation
    first: Effects  # of all encoders; these count
    second: Effects  # of the self-supervised alone
    n_second: int
    together: Effects  # the mean effect of the augmentations
    interactions: tuple[Interaction, ...]
    t_of_family: float  # beyond which a t statistic has a family-wise p below CERTAIN

    def effect(self, term: str, outcome: str) -> RandomisedEffect:
        """One effect of the first analysis, or the mean of the augmentations."""
        every = {**self.first, **self.together}
        if (term, outcome) not in every:
            raise UnknownName("contrast and outcome", f"{term} on {outcome}", [" on ".join(key) for key in every])
        return every[term, outcome]

    def smallest(self, effect: RandomisedEffect, *, of_family: bool = False) -> float:
        """The size of an effect that four of five such populations would have detected."""
        t = self.t_of_family if of_family else float(student.ppf(1 - CERTAIN / 2, effect.n - 2))
        return detectable(effect, t)

    def estimates(self) -> Iterator[Estimate]:
        """All of them, with what they are of."""
        n_tests = len(self.first)
        for effects, of, family in (
            (self.first, "", f"{n_tests} contrasts and outcomes"),
            (self.second, ", self-supervised alone", f"{len(self.second)} contrasts and outcomes"),
            (self.together, "", f"{len(self.together)} outcomes"),
        ):
            for effect in effects.values():
                note = f"by permutation p {effect.p:.2g}, family-wise {effect.p_family:.2g}, over {family}"
                for one in filter(None, (effect.alone, effect.beside)):
                    yield one.described(method=f"{one.method}{of}", note=f"{note}; {one.note}" if one.note else note)
        for interaction in self.interactions:
            effect = interaction.effect
            note = f"by permutation p {effect.p:.2g}, family-wise {effect.p_family:.2g}, over {len(INTERACTIONS)}"
            yield effect.beside.described(method="randomised, interaction", note=note)


def experiment_of(population: RandomisedPopulation, *, seed: int = 0) -> Experiment:
    """Both analyses, the mean of the augmentations and the interactions; QueryError if there are too few encoders."""
    contrasts, outcomes = population.contrasts, population.outcomes[list(OUTCOMES)]
    drawn: dict[str, Any] = {"n_permutations": N_PERMUTATIONS, "seed": seed}
    own = population.only(population.choices["objective"] != "supervised")
    second = _by_name(
        randomised_effects(
            own.contrasts.drop(columns=SUPERVISED),
            own.outcomes[list(OUTCOMES)],
            factors=[[name for name in OF_OBJECTIVE if name != SUPERVISED]],
            units=UNITS,
            **drawn,
        )
    )
    found = randomised_interactions(
        with_joint_embedding(contrasts), outcomes, INTERACTIONS, factors=[OF_OBJECTIVE], **drawn
    )
    return Experiment(
        population=population,
        first=_by_name(randomised_effects(contrasts, outcomes, factors=[OF_OBJECTIVE], units=UNITS, **drawn)),
        second=second,
        n_second=len(own),
        together=_by_name(
            randomised_mean(contrasts, outcomes, SWITCHES, name=AUGMENTATION, factors=[OF_OBJECTIVE], **drawn)
        ),
        interactions=tuple(
            Interaction(effect=effect, expected=sign) for effect, sign in zip(found, EXPECTED_SIGNS, strict=True)
        ),
        t_of_family=critical_t(contrasts, outcomes, level=CERTAIN, **drawn),
    )


def _by_name(effects: Sequence[RandomisedEffect]) -> Effects:
    return {(one.term, one.outcome): one for one in effects}


def of_kind(contrasts: pd.DataFrame, kind: str) -> list[str]:
    """The contrasts of a kind."""
    return [name for name in KINDS[kind] if name in contrasts]


def sign_of(effect: RandomisedEffect) -> int:
    """1 or -1 if the effect is detected and its two estimates have that sign, else 0."""
    if effect.p > CERTAIN or effect.alone is None:
        return 0
    signs = {int(np.sign(one.value or 0.0)) for one in (effect.alone, effect.beside)}
    return signs.pop() if len(signs) == 1 else 0


def robust(estimate: Estimate) -> Estimate:
    """The same estimate with its HC3 interval in the place of the classical one; QueryError if it has none."""
    if estimate.ci_low_robust is None or estimate.ci_high_robust is None:
        raise QueryError(f"{estimate.term} on {estimate.outcome} has no HC3 interval: {estimate.note}.")
    return estimate.described(ci_low=estimate.ci_low_robust, ci_high=estimate.ci_high_robust, p=estimate.p_robust)


def disagreement(effect: RandomisedEffect) -> str:
    """Where the p-value, of the difference in means, and the interval of least squares say different things."""
    told = has_interval_without_zero(robust(effect.beside))
    if effect.p <= CERTAIN and not told:
        return "0 lies in the least-squares interval adjusted for all choices"
    if effect.p > CERTAIN and told:
        return "0 lies outside of the least-squares interval adjusted for all choices, which does not count as a test"
    return ""


def tied_contrasts(contrasts: pd.DataFrame, n: int = 3) -> list[tuple[str, str, float]]:
    """The contrasts of different choices that go together most by chance, with Pearson's r."""
    names = list(map(str, contrasts))
    r = contrasts.corr(min_periods=8).to_numpy(float)
    pairs = [
        (names[one], names[other], float(r[one, other]))
        for one, other in combinations(range(len(names)), 2)
        if names[one].split()[0] != names[other].split()[0] and np.isfinite(r[one, other])
    ]
    return sorted(pairs, key=lambda pair: -abs(pair[2]))[:n]


N_RESAMPLES = 1_000
ALPHA, W = "alpha", "W"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fitted:
    """A law, what it was fitted to, and how well it predicts."""

    dataset: str
    law: ScalingLaw
    rows: pd.DataFrame
    left_out: Estimate  # R2 of each encoder predicted by the law of the others
    full_shot_only: float  # R2 of the same law that knows nothing but the full-shot error

    def misses(self) -> pd.DataFrame:
        """Measured minus predicted by number of labels, as :func:`~zoo.analysis.scaling_law.compute_residuals`."""
        found = compute_residuals(self.law, self.rows)
        return found[found["family"] == "all"].drop(columns="family")

    def mean_curve(self, n: Floats, alpha: float, w: float) -> Floats:
        """The mean error of all encoders with each of some numbers of labels by a law, in percent."""
        encoders = self.rows.drop_duplicates("encoder")
        cells = {name: encoders[name].to_numpy(float)[:, None] for name in ("T", "probe_gen", "enc_gen")}
        errors = predict_law_errors({"n": n, **cells}, alpha=alpha, w=w, n_measured=self.law.n_measured)
        return np.asarray(errors.mean(axis=0))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Laws:
    """Both laws; ImageNet's is None, with the reason, if the table of encoders has too few rows for it."""

    ours: Fitted
    imagenet: Fitted | None
    why_not: str = ""

    def known(self) -> Fitted:
        """ImageNet's law; QueryError if there is none."""
        if self.imagenet is None:
            raise QueryError(self.why_not)
        return self.imagenet

    def each(self) -> list[Fitted]:
        """The laws that there are."""
        return [one for one in (self.ours, self.imagenet) if one is not None]

    def difference(self, name: str) -> Estimate:
        """How much larger a parameter is here than on ImageNet, with encoders of both resampled independently."""
        ours, theirs = self.ours.law, self.known().law
        column = (ALPHA, W).index(name)
        one, other = (law.alpha if name == ALPHA else law.W for law in (ours, theirs))
        low, high = compute_middle_interval(ours.draws[:, column] - theirs.draws[:, column])
        return one.described(
            term=f"{name}, {DATASET} minus {IMAGENET}", method=f"{METHOD}, difference", n=one.n + other.n
        ).with_value((one.value or 0.0) - (other.value or 0.0), (low, high))

    def estimates(self) -> Iterator[Estimate]:
        """Parameters, fit, prediction and misses of each law, and the differences."""
        for fitted in self.each():
            law = fitted.law
            for one in (law.alpha, law.W, law.r2, fitted.left_out):
                yield one.described(term=f"{one.term}, {fitted.dataset}")
            for n, count, bias, low, high, _ in fitted.misses().itertuples(index=False):
                yield Estimate(
                    term=f"measured minus predicted, {n:,} labels, {fitted.dataset}",
                    n=count,
                    outcome="error",
                    unit="percentage points",
                    method=METHOD,
                ).with_value(bias, (low, high))
        if self.imagenet is not None:
            yield from (self.difference(name) for name in (ALPHA, W))


def laws_of(rows: pd.DataFrame, n_measured: int, table: StudyTable, *, seed: int = 0) -> Laws:
    """The law of some rows, whose components were measured with so many labels, and that of a table of encoders."""
    ours = _fitted(DATASET, rows, n_measured, seed)
    try:
        return Laws(ours=ours, imagenet=_fitted(IMAGENET, law_rows(table), N_DECOMPOSITION, seed + 1))
    except QueryError as error:
        return Laws(ours=ours, imagenet=None, why_not=str(error))


def _fitted(dataset: str, rows: pd.DataFrame, n_measured: float, seed: int) -> Fitted:
    alone = fit_scaling_law(reduce_to_full_shot(rows), n_resamples=0, n_measured=n_measured)
    return Fitted(
        dataset=dataset,
        law=fit_scaling_law(rows, n_resamples=N_RESAMPLES, seed=seed, n_measured=n_measured),
        rows=rows,
        left_out=estimate_r2(
            rows,
            predict_leaving_encoder_out(rows, n_measured=n_measured),
            term="R2, each encoder predicted by the law of the others",
            n_resamples=N_RESAMPLES,
            seed=seed,
        ),
        full_shot_only=alone.r2.value or 0.0,
    )


TARGETS: Mapping[str, str] = {
    "full": "the error with all labels",
    "3-shot": "the 3-shot error",
    "usability": "the usability error",
}
ALL, SELF, WITHIN = "all encoders", "self-supervised", "one objective"
WIDTH, ARCHITECTURE, SEARCH = "one width", "one network and width", "one objective, network and width"
SHARED: Mapping[str, tuple[str, ...]] = {  # what two encoders must have in common to be compared
    ALL: (),
    SELF: (),
    WITHIN: ("objective",),
    WIDTH: ("dim",),
    ARCHITECTURE: ("network", "dim"),
    SEARCH: ("objective", "network", "dim"),
}
DIMENSIONS, FEW_LABELS = "number of dimensions", "5-shot accuracy"
SPECTRAL = "alpha_req"  # a power law of eigenvalues, which needs that they are not 0
AUGMENTED_BY_THEMSELVES = ("context_encoder", "rotnet")  # objectives whose own masks and turns make views that differ
FREE, LABELLED, BASELINE = "without labels", "with labels", "to compare with"
FEWEST_PAIRS = 10
Masks = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Orders:
    """Tau of every metric with every error over all kinds of pairs, and what it was computed of."""

    predictors: pd.DataFrame  # more is better; index: encoders; NaN where an encoder did not allow a metric
    errors: pd.DataFrame  # columns: TARGETS
    masks: Mapping[str, Floats]  # by SHARED: 1 where a pair of encoders is compared, (n, n)
    counts: Floats  # (1 + n_resamples, n): each encoder once, and resamples
    known: Mapping[tuple[str, str, str], Estimate]  # by metric, target and pairs

    def one(self, metric: str, target: str, pairs: str) -> Estimate:
        """Tau of a metric with a target."""
        return self.known[metric, target, pairs]

    def against(self, metric: str, other: str, target: str, pairs: str) -> Estimate:
        """Tau of a metric minus that of another one, of the encoders that have both."""
        has = _has(self.predictors, metric, other)
        values, others = (
            _taus(self.predictors[name], self.errors[target], self.masks[pairs], self.counts, has)
            for name in (metric, other)
        )
        term = f"{get_metric_title(metric)} - {get_metric_title(other)}"
        return _estimate(term, values - others, has, target, pairs, _n_pairs(self.masks[pairs], has))

    def more_among(self, metric: str, target: str, pairs: str, others: str) -> Estimate:
        """How much larger tau of a metric is among some pairs than among others."""
        has = _has(self.predictors, metric)
        values, less = (
            _taus(self.predictors[metric], self.errors[target], self.masks[name], self.counts, has)
            for name in (pairs, others)
        )
        n_pairs = min(_n_pairs(self.masks[name], has) for name in (pairs, others))
        return _estimate(get_metric_title(metric), values - less, has, target, f"{pairs} minus {others}", n_pairs)

    def n_pairs(self, pairs: str) -> int:
        """How many pairs of encoders share so much."""
        return _n_pairs(self.masks[pairs], np.ones(len(self.predictors), dtype=bool))

    def estimates(self) -> Iterator[Estimate]:
        """All of them, and what each metric has more than the number of dimensions."""
        yield from self.known.values()
        for metric in map(str, self.predictors.drop(columns=DIMENSIONS)):
            yield from (self.against(metric, DIMENSIONS, "full", pairs) for pairs in (ALL, WITHIN))


def orders_of(
    population: RandomisedPopulation, metrics: pd.DataFrame, few_shot: pd.Series[float], *, seed: int = 0
) -> Orders:
    """Every metric turned so that more is better, the number of dimensions and the accuracy with few labels."""
    if not metrics.index.equals(population.choices.index) or not few_shot.index.equals(population.choices.index):
        raise QueryError("The encoders of the metrics are not those of the population, expected the same in one order.")
    varying = [str(name) for name in metrics if metrics[name].nunique() > 1]
    predictors = pd.DataFrame({name: direct_upwards(metrics[name]) for name in varying}, index=metrics.index)
    predictors[DIMENSIONS] = population.choices["dim"].astype("float64")
    predictors[FEW_LABELS] = 100 - few_shot
    n, errors = len(population), population.outcomes[list(TARGETS)]
    masks = {name: _mask(population.choices, name) for name in SHARED}
    counts = np.concatenate([np.ones((1, n)), draw_counts(n, N_RESAMPLES, seed)])
    known = {}
    for metric in map(str, predictors):
        has = _has(predictors, metric)
        for target, pairs in product(TARGETS, SHARED):
            values = _taus(predictors[metric], errors[target], masks[pairs], counts, has)
            known[metric, target, pairs] = _estimate(
                get_metric_title(metric), values, has, target, pairs, _n_pairs(masks[pairs], has)
            )
    return Orders(predictors=predictors, errors=errors, masks=masks, counts=counts, known=known)


def _taus(predictor: pd.Series[float], error: pd.Series[float], mask: Floats, counts: Floats, has: Masks) -> Floats:
    """Tau of the encoders that have a metric, and of the resamples; (1 + n_resamples,)."""
    x, y = (np.asarray(one[has], dtype=np.float64) for one in (predictor, -error))
    return compute_kendall(x, y, counts[:, has], mask[np.ix_(has, has)])


def _has(predictors: pd.DataFrame, *metrics: str) -> Masks:
    return np.asarray(predictors[list(metrics)].notna().all(axis=1), dtype=bool)


def _n_pairs(mask: Floats, has: Masks) -> int:
    own = mask[np.ix_(has, has)]
    return int((own.sum() - own.trace()) / 2)


def _estimate(term: str, values: Floats, has: Masks, target: str, pairs: str, n_pairs: int) -> Estimate:
    blank = Estimate(
        term=term,
        n=int(has.sum()),
        unit="tau",
        outcome=target,
        method=f"Kendall, pairs of {pairs}, bootstrap over encoders",
    )
    if n_pairs < FEWEST_PAIRS:
        return blank.described(note=f"{n_pairs} pairs, too few for an order")
    if not np.isfinite(values[0]):
        return blank.described(note="it never varies among such pairs")
    return blank.with_value(values[0], compute_middle_interval(values[1:]), note=f"{n_pairs} pairs")


def kind_of(metric: str) -> str:
    """Whether a metric needs labels, or is only there to compare with."""
    if metric in (DIMENSIONS, FEW_LABELS):
        return BASELINE
    return LABELLED if needs_labels(metric) else FREE


def why_missing(population: RandomisedPopulation, metrics: pd.DataFrame) -> dict[str, dict[str, int]]:
    """By metric that some encoders lack, how many lack it and why, in words."""
    choices = population.choices
    made = [name for name in SWITCHES if name in WORDS]
    has_views = choices[made].any(axis=1) | choices["objective"].isin(AUGMENTED_BY_THEMSELVES)
    rank = metrics["feature_rank"] if "feature_rank" in metrics else pd.Series(np.inf, index=choices.index)
    is_low_rank = rank < choices["dim"].astype("float64")
    found: dict[str, dict[str, int]] = {}
    for name in map(str, metrics):
        gone, needs = metrics[name].isna(), LABEL_FREE_METRICS[name].needs
        networks = " and ".join(sorted(set(choices.loc[gone & is_low_rank, "network"])))
        reasons = {
            f"drawn without what the zoo makes views with ({', '.join(made)})": gone & ~has_views & (needs == "views"),
            f"features of lower rank than dimensions ({networks})": gone & is_low_rank & (name == SPECTRAL),
        }
        reasons["refused: images differ in a direction in which views of an image do not"] = (
            gone & ~np.logical_or.reduce([*reasons.values()]) & (needs == "views")
        )
        reasons["refused"] = gone & ~np.logical_or.reduce([*reasons.values()])
        if gone.any():
            found[name] = {words: int(which.sum()) for words, which in reasons.items() if which.any()}
    return found


def _mask(choices: pd.DataFrame, name: str) -> Floats:
    if name == SELF:
        is_one = (choices["objective"] != "supervised").to_numpy()
        return np.outer(is_one, is_one).astype(float)
    keys = choices[list(SHARED[name])].astype(str).agg("/".join, axis=1).to_numpy() if SHARED[name] else None
    return np.ones((len(choices), len(choices))) if keys is None else (keys[:, None] == keys).astype(float)
