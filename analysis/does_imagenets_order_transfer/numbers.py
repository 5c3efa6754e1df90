"""Accuracies of the same encoders on many data sets, and what the order on one of them, or a few, says of the others.

Counts are how often each row of an array counts: in the first sample once, in the others as a bootstrap draws them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np
import pandas as pd
from scipy.special import comb

from zoo.analysis.columns import Estimate
from zoo.analysis.correlations import (
    FEWEST_ENCODERS,
    TAU,
    Floats,
    compute_kendall,
    compute_middle_interval,
    compute_pair_signs,
    compute_pearson,
    draw_counts,
    estimate_of,
)
from zoo.cards.catalogue import load_catalogue
from zoo.results.evidence import list_datasets
from zoo.results.reported import reported_numbers
from zoo.results.reported_values import ReportedNumber
from zoo.results.values import IMAGENET

FEW = "reported-few-shot", "mteb-image-classification"  # protocol and setting: 16 labels per class
ZERO = "reported-zero-shot", "datacomp-38"
N_RESAMPLES = 1_000
ALL, COMMERCIAL = "no limit", "commercial use"
LIMITS = {"up to 450 M": 450e6, "up to 100 M": 100e6}  # parameters
LIKE_SIZE = 2.0  # largest ratio of the parameters of encoders of like size
MOST_SETS, ENOUGH = 12, 0.9  # data sets that are chosen; tau above which they say as much as all
FIVE = 5  # encoders that are tried, of which the best by the labels of the data set is kept
BEST, FIRST_FIVE, LARGEST = "best on ImageNet-1K", "best of ImageNet-1K's first five", "largest"
BEST_ZERO, RANDOM, RANDOM_FIVE = "best zero-shot on ImageNet-1K", "random", "best of a random five"
POINTS, LOG_ODDS = "percentage points", "log odds"
MEAN, DRAWN, BOTH = "mean over data sets", "bootstrap over encoders", "bootstrap over encoders and data sets"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Numbers:
    """Accuracies in percent, a row per encoder, a column per data set."""

    few: pd.DataFrame  # of a classifier of 16 labels per class; none missing
    zero: pd.DataFrame  # without labels, of the same weights; NaN where nobody measured
    facts: pd.DataFrame  # parameters, commercial, language, family, data; a row per encoder
    left_out: dict[str, int]

    @property
    def sets(self) -> list[str]:
        """The data sets."""
        return [str(name) for name in self.few]

    @property
    def others(self) -> list[str]:
        """The data sets but ImageNet-1K."""
        return [name for name in self.sets if name != IMAGENET]

    @property
    def log_odds(self) -> Floats:
        """Of the few-shot accuracies."""
        shares = self.few.clip(0.01, 99.99).to_numpy() / 100
        return np.asarray(np.log(shares / (1 - shares)))

    def limits(self) -> dict[str, list[str]]:
        """The encoders within each limit that leaves some out, and without a limit."""
        fitting = {name: self.facts["parameters"] <= most for name, most in LIMITS.items()}
        fitting[COMMERCIAL] = self.facts["commercial"]
        return {ALL: list(self.few.index)} | {
            name: list(self.few.index[fits]) for name, fits in fitting.items() if not fits.all()
        }


def read() -> Numbers:
    """The numbers without a doubt, of the encoders that were measured on every data set."""
    every = {key: [one for one in reported_numbers() if (one.protocol, one.setting) == key] for key in (FEW, ZERO)}
    few, zero = (_frame(one for one in some if not one.doubt) for some in every.values())
    complete = few.dropna()
    doubtful = {one.encoder for one in every[FEW]} - set(few.index)
    left_out = {"their numbers are doubtful": len(doubtful), "not on every data set": len(few) - len(complete)}
    known = load_catalogue()
    cards = [known[name] for name in complete.index]
    facts = {
        "parameters": [card.architecture.n_parameters for card in cards],
        "commercial": [card.commercial_use == "yes" for card in cards],
        "language": [card.saw_texts for card in cards],
        "family": [card.family for card in cards],
        "data": [card.pretraining.image_sets for card in cards],
    }
    return Numbers(
        few=complete,
        zero=zero.reindex(index=complete.index).dropna(how="all", axis=1),
        facts=pd.DataFrame(facts, index=complete.index),
        left_out={reason: n for reason, n in left_out.items() if n},
    )


def _frame(numbers: Iterable[ReportedNumber]) -> pd.DataFrame:
    rows: dict[str, dict[str, float]] = {}
    for one in numbers:
        rows.setdefault(one.encoder, {})[one.dataset] = one.value
    frame = pd.DataFrame.from_dict(rows, orient="index").sort_index()
    return frame[[name for name in list_datasets() if name in frame]]


def counts_of(n: int, seed: int) -> Floats:
    """Everything once, and bootstrap samples; (1 + n_resamples, n)."""
    return np.concatenate([np.ones((1, n)), draw_counts(n, N_RESAMPLES, seed)])


def over_sets(values: Floats, seed: int) -> Floats:
    """Means over data sets, which are drawn too; (1 + n_resamples, n_sets) -> (1 + n_resamples,)."""
    counts = counts_of(values.shape[1], 2 * seed + 1) * np.isfinite(values)
    with np.errstate(invalid="ignore"):  # a sample may have none
        means: Floats = (np.nan_to_num(values) * counts).sum(axis=1) / counts.sum(axis=1)
    return means


def orders(first: pd.DataFrame, second: pd.DataFrame, *, seed: int, outcome: str) -> list[Estimate]:
    """Kendall's tau of the columns of each name, and the mean of all."""
    counts, sets = counts_of(len(second), 2 * seed), [str(name) for name in second]
    taus = [compute_kendall(first[name].to_numpy(), second[name].to_numpy(), counts) for name in sets]
    return means_of(taus, sets, seed, Estimate(term="", n=len(second), unit=TAU, outcome=outcome))


def means_of(values: Sequence[Floats], sets: Sequence[str], seed: int, label: Estimate) -> list[Estimate]:
    """An estimate a data set, and their mean; values are (1 + n_resamples,) each."""
    label, known = label.described(method=DRAWN), list_datasets()
    found = [estimate_of(one, label.described(term=known[name].title)) for name, one in zip(sets, values, strict=True)]
    mean = over_sets(np.stack(values, axis=1), seed)
    return [*found, estimate_of(mean, label.described(term=MEAN, method=BOTH))]


def few_less_zero(numbers: Numbers, *, seed: int) -> dict[str, list[Estimate]]:
    """Of the weights and data sets that have both, tau of both accuracies and few-shot less zero-shot, points."""
    zero = numbers.zero.dropna()
    sets = [name for name in numbers.sets if name in zero]
    few = numbers.few.loc[zero.index, sets]
    label = Estimate(term="", n=len(few), unit=POINTS, outcome="few-shot less zero-shot")
    apart = counts_of(len(few), 2 * seed) @ (few - zero[sets]).to_numpy() / len(few)
    return {
        "Kendall's tau": orders(zero, few, seed=seed, outcome="order zero-shot and few-shot"),
        "few-shot less zero-shot [points]": means_of([*apart.T], sets, seed, label),
    }


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Loss:
    """The best accuracy less that of the encoder that a rule picks within a limit, percentage points."""

    rule: str
    limit: str
    picked: str  # the encoder, if the rule names one
    mean: Estimate
    gain: Estimate  # what a random pick, or the best of a random five, loses more
    worst: Estimate
    worst_set: str  # title of the data set


def losses(numbers: Numbers, *, seed: int) -> list[Loss]:
    """Of every rule within every limit, over the data sets but ImageNet-1K."""
    scores = {BEST: numbers.few[IMAGENET], FIRST_FIVE: numbers.few[IMAGENET], LARGEST: numbers.facts["parameters"]}
    scores[BEST_ZERO], found = numbers.zero[IMAGENET], []
    for limit, encoders in numbers.limits().items():
        accuracies, counts = numbers.few.loc[encoders, numbers.others].to_numpy(), counts_of(len(encoders), 2 * seed)
        best = _first(accuracies, counts, len(encoders))
        random = {n: best - _random(accuracies, counts, n) for n in (1, FIVE)}
        for rule, score in [*scores.items(), (RANDOM, None), (RANDOM_FIVE, None)]:
            tries, picked = FIVE if rule in (FIRST_FIVE, RANDOM_FIVE) else 1, ""
            lost = random[tries]
            if score is not None:
                of_two = numbers.few.loc[encoders, IMAGENET], -numbers.few.loc[encoders, IMAGENET]  # of one score
                firsts = [np.lexsort((one, score[encoders].fillna(-inf)))[::-1] for one in of_two]
                lost = best - np.mean([_first(accuracies[one], counts[:, one], tries) for one in firsts], axis=0)
                picked = encoders[firsts[0][0]] if tries == 1 else ""
            label = Estimate(term=rule, n=len(encoders), unit=POINTS, method=BOTH)
            mean, gain = (over_sets(values, seed) for values in (lost, random[tries] - lost))
            worst = label.described(outcome=f"lost at worst, {limit}", method=DRAWN)
            found.append(
                Loss(
                    rule=rule,
                    limit=limit,
                    picked=picked,
                    mean=estimate_of(mean, label.described(outcome=f"lost on average, {limit}")),
                    gain=estimate_of(gain, label.described(outcome=f"lost less than by random ones, {limit}")),
                    worst=estimate_of(lost.max(axis=1), worst),
                    worst_set=list_datasets()[numbers.others[int(lost[0].argmax())]].title,
                )
            )
    return found


def _first(accuracies: Floats, counts: Floats, tries: int) -> Floats:
    """The best of the first rows of each sample; (1 + n_resamples, n_sets)."""
    tried = (counts > 0) & ((counts > 0).cumsum(axis=1) <= tries)
    return np.where(tried[:, :, None], accuracies, -inf).max(axis=1)  # type: ignore[no-any-return]


def _random(accuracies: Floats, counts: Floats, tries: int) -> Floats:
    """The best of some that are drawn without replacement from a sample, on average; (1 + n_resamples, n_sets)."""
    found = []
    for column in accuracies.T:
        by_value = np.argsort(-column)
        drawn = counts[:, by_value] > 0
        better, n = drawn.cumsum(axis=1) - 1, drawn.sum(axis=1)
        k = np.minimum(tries, n)  # a sample may have fewer
        chance = drawn * comb(n[:, None] - 1 - better, k[:, None] - 1) / comb(n, k)[:, None]
        found.append(chance @ column[by_value])
    return np.stack(found, axis=1)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Difference:
    """Self-supervised encoders less language-supervised ones of like size; positive where the former are better."""

    points: pd.DataFrame  # percentage points; a row a self-supervised encoder and how many it is compared with
    by_set: dict[str, Estimate]  # log odds
    by_group: dict[str, Estimate]  # of domains, of all, and of what was or was not seen in pretraining
    seen: list[str]  # data sets


def difference_of(numbers: Numbers, *, seed: int) -> Difference:
    """Each self-supervised encoder is compared with the mean of the language-supervised ones of like size, if any."""
    facts, known, sets, odds = numbers.facts, list_datasets(), numbers.sets, numbers.log_odds
    language, sizes = facts["language"].to_numpy(dtype=bool), np.log(facts["parameters"].to_numpy())
    like = (np.abs(sizes[:, None] - sizes) <= np.log(LIKE_SIZE)) & language & ~language[:, None]
    ours = [int(place) for place in np.flatnonzero(like.any(axis=1))]
    weights = like[ours] * counts_of(len(facts), 2 * seed)[:, None]  # (1 + n_resamples, ours, encoders)
    total = weights.sum(axis=2)
    drawn = counts_of(len(ours), 2 * seed + 7) * (total > 0)
    with np.errstate(invalid="ignore"):  # a sample may have none of like size
        apart = np.nan_to_num(odds[ours] - (weights @ odds) / total[:, :, None])
        values = (apart * drawn[:, :, None]).sum(axis=1) / drawn.sum(axis=1)[:, None]
    label = Estimate(term="", n=len(ours), unit=LOG_ODDS, outcome="self- less language-supervised", method=DRAWN)

    def mean(term: str, chosen: Sequence[str]) -> Estimate:
        column = values[:, [sets.index(name) for name in chosen]]
        return estimate_of(over_sets(column, seed), label.described(term=term, method=BOTH))

    groups: dict[str, list[str]] = {}
    for name in sets:
        groups.setdefault(known[name].domain, []).append(name)
    data = {one for place in ours for one in facts["data"].iloc[place]}
    seen = [name for name in sets if data & set(known[name].in_pretraining)]
    groups |= {"all": sets, "pretrained on": seen, "not pretrained on": [name for name in sets if name not in seen]}
    few = numbers.few
    rows = {f"{few.index[one]} less {like[one].sum()}": few.iloc[one] - few[like[one]].mean() for one in ours}
    return Difference(
        points=pd.DataFrame(rows).T,
        by_set={name: mean(known[name].title, [name]).described(method=DRAWN) for name in sets},
        by_group={one: mean(one, some) for one, some in groups.items() if some},
        seen=seen,
    )


def subsets(numbers: Numbers, *, seed: int) -> dict[str, list[Estimate]]:
    """Kendall's tau of mean log odds of 1, 2, ... data sets with those of all, by how they were chosen and are judged.

    Each next data set is the one that brings tau highest. For "left out", they were chosen without an encoder or a
    family, every one in turn, and judged by its pairs.
    """
    values, rng = numbers.log_odds, np.random.default_rng(seed)
    goal, n, once = values.mean(axis=1), len(values), np.ones((1, len(values)))
    counts, chosen = counts_of(n, 2 * seed), _greedy(values)
    one_out, family_out = (
        [(_greedy(values[units != one]), units == one) for one in dict.fromkeys(units)]
        for units in (np.arange(n), numbers.facts["family"].to_numpy())
    )
    found: dict[str, list[Estimate]] = {}
    for k, place in enumerate(chosen, start=1):
        part = values[:, chosen[:k]].mean(axis=1)
        rest = np.delete(values, chosen[:k], axis=1).mean(axis=1)
        random = [rng.permutation(values.shape[1])[:k] for _ in range(N_RESAMPLES)]
        label = Estimate(term=f"{k}, with {list_datasets()[numbers.sets[place]].title}", n=n, unit=TAU, method=DRAWN)
        spreads = {
            "chosen": compute_kendall(part, goal, counts),
            "chosen, with the others": compute_kendall(part, rest, counts),
            "an encoder left out": _held_out(values, k, one_out, counts),
            "a family left out": _held_out(values, k, family_out, counts),
        }
        for name, spread in spreads.items():
            found.setdefault(name, []).append(estimate_of(spread, label.described(outcome=f"few data sets, {name}")))
        drawn = np.concatenate([compute_kendall(values[:, some].mean(axis=1), goal, once) for some in random])
        label = label.with_value(
            drawn.mean(), compute_middle_interval(drawn), outcome="few data sets, any", method="random draws"
        )
        found.setdefault("any", []).append(label)
    return found


def _held_out(values: Floats, k: int, folds: Sequence[tuple[list[int], Floats]], counts: Floats) -> Floats:
    """Tau of k chosen columns with all, over the pairs of each fold that have one of its rows."""
    goal = values.mean(axis=1)
    agree, pairs = np.zeros(len(counts)), np.zeros(len(counts))
    for places, held_out in folds:
        mask = np.logical_or(held_out[:, None], held_out)
        signs = [compute_pair_signs(one) * mask for one in (values[:, places[:k]].mean(axis=1), goal)]
        agree += ((counts @ (signs[0] * signs[1])) * counts).sum(axis=1)
        pairs += ((counts @ np.abs(signs[1])) * counts).sum(axis=1)
    return np.asarray(agree / pairs)


def _greedy(values: Floats) -> list[int]:
    """Columns, each the one that brings tau with the mean of all columns highest; of equal ones, Pearson's r."""
    goal, once = values.mean(axis=1), np.ones((1, len(values)))
    chosen: list[int] = []

    def key(place: int) -> tuple[float, float]:
        mean = values[:, [*chosen, place]].mean(axis=1)
        return round(float(compute_kendall(mean, goal, once)[0]), 9), float(compute_pearson(mean, goal, once)[0])

    while len(chosen) < min(MOST_SETS, values.shape[1] - 1):
        chosen.append(max((place for place in range(values.shape[1]) if place not in chosen), key=key))
    return chosen


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Found:
    """Everything that is estimated."""

    numbers: Numbers
    orders: dict[str, list[Estimate]]  # tau with ImageNet-1K by limit; the last of each is the mean
    parts: list[Estimate]  # mean tau without one family, and within each
    correlation: Estimate  # of log odds on ImageNet-1K and their mean over the others
    losses: list[Loss]
    difference: Difference
    subsets: dict[str, list[Estimate]]
    zero_shot: dict[str, list[Estimate]]  # the last of each is the mean


def found_in(numbers: Numbers, *, seed: int) -> Found:
    few, families = numbers.few, numbers.facts["family"]
    imagenet = pd.DataFrame(dict.fromkeys(numbers.others, few[IMAGENET]))

    def order_of(encoders: list[str], words: str) -> list[Estimate]:
        others = few.loc[encoders, numbers.others]
        return orders(imagenet.loc[encoders], others, seed=seed, outcome=f"order, {words}")

    parts = {f"without {name}": list(few.index[families != name]) for name in families.unique()}
    parts |= {f"only {name}": list(few.index[families == name]) for name in families.unique()}
    is_it = few.columns == IMAGENET
    x, y = numbers.log_odds[:, is_it][:, 0], numbers.log_odds[:, ~is_it].mean(axis=1)
    label = Estimate(term="ImageNet-1K, mean of the others", n=len(few), unit="r", outcome=LOG_ODDS, method=DRAWN)
    return Found(
        numbers=numbers,
        orders={limit: order_of(some, limit) for limit, some in numbers.limits().items()},
        parts=[
            order_of(some, words)[-1].described(term=words, outcome="mean order")
            for words, some in parts.items()
            if len(some) >= FEWEST_ENCODERS
        ],
        correlation=estimate_of(compute_pearson(x, y, counts_of(len(few), 2 * seed)), label),
        losses=losses(numbers, seed=seed),
        difference=difference_of(numbers, seed=seed),
        subsets=subsets(numbers, seed=seed),
        zero_shot=few_less_zero(numbers, seed=seed),
    )
