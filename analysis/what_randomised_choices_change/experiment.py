"""Effects of the drawn choices: of all encoders, of the self-supervised alone, and what could have been found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import t as student

from zoo.analysis.columns import Estimate
from zoo.analysis.randomised import (
    RandomisedEffect,
    critical_t,
    detectable,
    randomised_effects,
    randomised_interactions,
    randomised_mean,
)
from zoo.analysis.randomised_population import (
    EXPECTED_SIGNS,
    INTERACTIONS,
    OF_OBJECTIVE,
    OUTCOMES,
    SWITCHES,
    UNITS,
    Population,
    with_joint_embedding,
)
from zoo.errors import QueryError, UnknownName
from zoo.studies.findings import excludes_zero

N_PERMUTATIONS = 9_999
CERTAIN = 0.05  # p-value up to which an effect is detected
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
            return "not told apart from none"
        sign = np.sign(self.effect.beside.value or 0.0)
        if not self.expected:
            return "there is one"
        return "expectation found" if sign == self.expected else "opposite"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Experiment:
    """Everything that the randomised choices changed."""

    population: Population
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


def experiment_of(population: Population, *, seed: int = 0) -> Experiment:
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
    told = excludes_zero(robust(effect.beside))
    if effect.p <= CERTAIN and not told:
        return "0 lies in the interval of least squares beside all choices"
    if effect.p > CERTAIN and told:
        return "0 lies outside of the interval of least squares beside all choices, which does not count as a test"
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
