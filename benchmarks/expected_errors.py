"""How right expected errors are: each encoder, family, data set and origin left out, and the published errors hidden.

    python benchmarks/expected_errors.py [--halves]

The effects are those of results/expected.toml, estimated from everything; what is left out are the observations, all
of a data set, of an encoder with all that share its weights, of a family, of an origin, or every error that was
measured here. ``--halves`` estimates the effects too on one half of the data sets only, and is judged on the others.

Errors are those of few-shot probes on MTEB's data sets (of ImageNet-1K in the last part). MAE is in percentage points;
where a data set is left out its own difficulty is taken from its mean, for only the order is to be known. Coverage is
that of 90 % intervals. Regret is the accuracy of the best encoder within a limit less that of the first choice, and of
the best of five; in points, mean over data sets and worst. Rules compared with the model: ImageNet's order (few-shot in
MTEB), the mean over the other data sets, zero-shot accuracy on ImageNet-1K and on the data set, reported linear
accuracy, size, release date, and a random pick. A rule counts where it knows at least half of the encoders; those that
it does not know come last.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from prettytable import PrettyTable
from scipy.stats import kendalltau, norm

from scripts.error_model import (
    ANCHOR,
    FEW_SHOT,
    LINEAR,
    MEASURED,
    TASK_SD,
    WEAK_ZERO_SHOT,
    ZERO_SHOT,
    Effects,
    LeftOut,
    Model,
    Observation,
    label_place,
    log_odds,
    observations,
    shipped_effects,
)
from zoo.analysis.covariates import SLOPES, WRONG_LABELS, find_covariates
from zoo.cards.catalogue import load_catalogue
from zoo.choosing.expectations import Images, read_difficulties, scale_sd
from zoo.choosing.ranking import RankedEncoder
from zoo.choosing.shortlist import draw_errors, select_greedily
from zoo.results.evidence import list_datasets
from zoo.results.values import IMAGENET

CARDS = dict(load_catalogue().items())
LIMITS: dict[str, Callable[[str], bool]] = {
    "up to 30 M": lambda name: CARDS[name].architecture.n_parameters <= 30.5e6,
    "up to 100 M": lambda name: CARDS[name].architecture.n_parameters <= 100.5e6,
    "up to 400 M": lambda name: CARDS[name].architecture.n_parameters <= 400e6,
    "up to 450 M": lambda name: CARDS[name].architecture.n_parameters <= 450e6,
    "commercial": lambda name: CARDS[name].commercial_use == "yes",
    "commercial, up to 100 M": lambda name: LIMITS["commercial"](name) and LIMITS["up to 100 M"](name),
    "all": lambda name: True,
}
N_SHORT = 5
TEXTS = (ZERO_SHOT, WEAK_ZERO_SHOT)
SELF_SUPERVISED = ("dinov2", "dinov3", "franca", "webssl", "capi", "ijepa", "maws")  # families of the front
MTEB = "embeddings-benchmark"
ELSEWHERE = f"{FEW_SHOT}, elsewhere"  # the noise of few-shot probes on other data sets than ImageNet-1K


def accuracy(odds: np.ndarray | float, dataset: str = "") -> np.ndarray:
    """Percent, of log odds of the error beyond wrong labels."""
    return 100 * (1 - WRONG_LABELS.get(dataset, 0.0)) / (1 + np.exp(odds))


@dataclass
class Score:
    """What one way of leaving out gives."""

    misses: list[float] = field(default_factory=list)
    inside: list[bool] = field(default_factory=list)
    taus: list[float] = field(default_factory=list)
    regrets: dict[tuple[str, str], list[tuple[float, float]]] = field(default_factory=lambda: defaultdict(list))
    worst: dict[tuple[str, str], str] = field(default_factory=dict)

    def add_errors(self, dataset: str, found: np.ndarray, mean: np.ndarray, sd: np.ndarray) -> None:
        """Log odds known and predicted."""
        self.misses += list(np.abs(accuracy(found, dataset) - accuracy(mean, dataset)))
        self.inside += list(np.abs(found - mean) <= norm.ppf(0.95) * sd)

    def add_choice(
        self, dataset: str, truth: Mapping[str, float], rules: Mapping[str, Mapping[str, float]], short: Mapping
    ) -> None:
        """``truth`` is accuracy, rules are scores (higher is better); ``short`` lists five of a limit by the model."""
        for limit, keeps in LIMITS.items():
            names = [name for name in truth if keeps(name)]
            if len(names) < 3:
                continue
            best = max(truth[name] for name in names)
            random = best - float(np.mean([truth[name] for name in names]))
            five = best - expected_best([truth[name] for name in names], N_SHORT)
            self.regrets[limit, "random"].append((random, five))
            for rule, score in rules.items():
                known = [name for name in names if name in score]
                if 2 * len(known) < len(names):
                    continue
                ranked = sorted(known, key=lambda name: -score[name])
                chosen = short[limit] if rule.startswith("model") else ranked[:N_SHORT]
                regret = best - truth[ranked[0]], best - max(truth[name] for name in chosen)
                before = max((first for first, _ in self.regrets[limit, rule]), default=-1.0)
                self.regrets[limit, rule].append(regret)
                if regret[0] > before:
                    self.worst[limit, rule] = dataset


def expected_best(values: Sequence[float], n: int) -> float:
    """The expected best of ``n`` drawn without replacement."""
    ordered = sorted(values)
    total, found = len(ordered), 0.0
    n = min(n, total)
    from math import comb

    for place, value in enumerate(ordered):
        found += value * comb(place, n - 1) / comb(total, n)
    return found


class Bench:
    """Observations, the model, and the accuracies that choices are judged by."""

    def __init__(self) -> None:
        self.known = observations(CARDS)
        self.model = Model(CARDS, self.known, shipped_effects())
        self.few = [i for i, one in enumerate(self.known) if one.protocol == FEW_SHOT and one.origin.startswith(MTEB)]
        self.truth: dict[str, dict[str, float]] = defaultdict(dict)
        for i in self.few:
            one = self.known[i]
            self.truth[one.dataset][one.encoder] = 100 * (1 - one.error)
        self.left = self.model.left_out()

    def rules(self, dataset: str, hidden: set[int]) -> dict[str, dict[str, float]]:
        """Scores of encoders by each simple rule, without what is hidden."""
        known = [one for i, one in enumerate(self.known) if i not in hidden]
        some: dict[str, dict[str, float]] = defaultdict(dict)
        others: dict[str, list[float]] = defaultdict(list)
        for one in known:
            if one.protocol == FEW_SHOT and one.dataset == IMAGENET:
                some["ImageNet, few-shot"][one.encoder] = -one.error
            if one.protocol == FEW_SHOT and one.dataset != dataset:
                others[one.encoder].append(-np.log(one.error / (1 - one.error)))
            if one.protocol == ZERO_SHOT and one.dataset == IMAGENET:
                some["zero-shot, ImageNet"][one.encoder] = -one.error
            if one.protocol == ZERO_SHOT and one.dataset == dataset:
                some["zero-shot, this set"][one.encoder] = -one.error
            if one.protocol == "linear" and one.dataset == IMAGENET:
                some["reported linear"][one.encoder] = -one.error
            if one.protocol == MEASURED and one.labels == 0:
                some["measured here"][one.encoder] = -one.error
        some["mean of others"] = {name: float(np.mean(values)) for name, values in others.items()}
        some["size"] = {name: float(find_covariates(CARDS[name])["size"]) for name in self.truth[dataset]}
        some["date"] = {name: float(find_covariates(CARDS[name])["date"]) for name in self.truth[dataset]}
        return dict(some)

    def shortlists(self, names: Sequence[str], mean: np.ndarray, covariance: np.ndarray, dataset: str) -> dict:
        """Five of each limit, as ``zoo choose`` lists them for images of a known domain."""
        effects, found = self.model.effects, {}
        shared = [  # on a data set, which drawn_errors adds itself
            sum(
                sd**2 * (float(traits[trait]) ** 2 if trait in SLOPES else 1.0)
                for (trait, scope), sd in effects.sd.items()
                if scope == "dataset"
            )
            for traits in (find_covariates(CARDS[name]) for name in names)
        ]
        images = Images("", list_datasets()[dataset].domain)
        shared = np.array(shared) * read_difficulties()[images.column].scale ** 2
        own = np.sqrt(np.maximum(np.diag(covariance) - effects.noise[ELSEWHERE] ** 2 - shared, 0))
        for limit, keeps in LIMITS.items():
            among = [i for i, name in enumerate(names) if keeps(name)]
            some = [RankedEncoder(CARDS[names[i]], None) for i in among]
            if some:
                cards = [one.card for one in some]
                drawn = draw_errors(cards, mean[among], own[among], known_here=[False] * len(some), images=images)
                found[limit] = [some[i].card.id for i in select_greedily(drawn, some, N_SHORT)]
        return found

    def rescaled(self, covariance: np.ndarray, scale: float) -> np.ndarray:
        """The covariance of one task as if its encoders differed by less, by this factor."""
        noise = self.model.effects.noise[ELSEWHERE] ** 2 * np.eye(len(covariance))
        return (covariance - noise - TASK_SD**2) / scale**2 + noise + TASK_SD**2

    def level(self, rows: Sequence[int], mean: np.ndarray, covariance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Predictions of one task, given the mean of its log odds."""
        ones = np.full(len(rows), 1 / len(rows))
        gain = covariance @ ones / (ones @ covariance @ ones)
        found = ones @ self.left.y[list(rows)]
        return mean + gain * (found - ones @ mean), covariance - np.outer(gain, ones @ covariance)

    def data_sets(self, left: LeftOut | None = None, only: set[str] | None = None) -> Score:
        """Each data set left out, with every protocol."""
        left, score, few = left or self.left, Score(), set(self.few)
        for dataset in sorted(only or self.truth):
            block = [i for i, one in enumerate(self.known) if one.dataset == dataset]
            mean, covariance = left.predict(block)
            at = [place for place, i in enumerate(block) if i in few]
            rows = [block[place] for place in at]
            scales = {name: self.model.effects.scale[name, LINEAR] for name in self.truth}
            others = np.exp(np.mean([np.log(one) for name, one in scales.items() if name != dataset]))
            scale = scales.get(dataset, 1.0) / others  # the own one is not known of a new data set
            mean, covariance = mean[at] / scale, self.rescaled(covariance[np.ix_(at, at)], scale)
            mean, covariance = self.level(rows, mean, covariance)
            covariance = covariance + np.diag((scale_sd() * (mean - mean.mean())) ** 2)
            names = [self.known[i].encoder for i in rows]
            score.add_errors(dataset, self.left.y[rows], mean, np.sqrt(np.diag(covariance)))
            score.taus.append(kendalltau(mean, self.left.y[rows]).statistic)
            if dataset != IMAGENET:
                rules = self.rules(dataset, set(block)) | {"model": dict(zip(names, -mean, strict=True))}
                score.add_choice(dataset, self.truth[dataset], rules, self.shortlists(names, mean, covariance, dataset))
        return score

    def blocks(self, groups: Mapping[str, Sequence[int]]) -> Score:
        """Each group of observations left out; encoders are ranked by what is expected of each without its group."""
        score, expected, few = Score(), {}, set(self.few)
        for group in groups.values():
            rows = sorted(group)
            mean, covariance = self.left.predict(rows)
            for dataset in {self.known[i].dataset for i in rows} if len(groups) == 1 else ():  # no level is known
                at = [
                    p
                    for p, i in enumerate(rows)
                    if (self.known[i].dataset, self.known[i].protocol) == (dataset, FEW_SHOT)
                ]
                own, spread = self.level([rows[p] for p in at], mean[at], covariance[np.ix_(at, at)])
                mean[at], covariance[np.ix_(at, at)] = own, spread
            for place, i in enumerate(rows):
                if i in few:
                    expected[i] = mean[place], covariance[place, place]
        by_set: dict[str, list[int]] = defaultdict(list)
        for i in expected:
            by_set[self.known[i].dataset].append(i)
        for dataset, rows in by_set.items():
            mean, sd = np.array([expected[i][0] for i in rows]), np.sqrt([expected[i][1] for i in rows])
            names = [self.known[i].encoder for i in rows]
            score.add_errors(dataset, self.left.y[rows], mean, sd)
            score.taus.append(kendalltau(mean, self.left.y[rows]).statistic)
            if dataset != IMAGENET:
                hidden = {i for group in groups.values() for i in group} if len(groups) == 1 else set()
                rules = self.rules(dataset, hidden)
                if len(groups) > 1:  # each is judged without its own numbers: only facts of cards are left
                    rules = {name: rules[name] for name in ("size", "date")}
                elif "zero-shot, this set" in rules:
                    rules["model, of these sets"] = dict(zip(names, -mean, strict=True))
                rules |= {"model": dict(zip(names, -mean, strict=True))}
                short = self.shortlists(names, mean, np.diag(sd**2), dataset)
                score.add_choice(dataset, {name: self.truth[dataset][name] for name in names}, rules, short)
        return score

    def encoders(self) -> Score:
        """Each encoder left out, with all of its weights."""
        groups: dict[str, list[int]] = defaultdict(list)
        wanted = {find_covariates(CARDS[self.known[i].encoder])["weights"] for i in self.few}
        for i, one in enumerate(self.known):
            weights = str(find_covariates(CARDS[one.encoder])["weights"])
            if weights in wanted:
                groups[weights].append(i)
        return self.blocks(groups)

    def families(self) -> Score:
        """Each family left out."""
        groups: dict[str, list[int]] = defaultdict(list)
        wanted = {CARDS[self.known[i].encoder].family for i in self.few}
        for i, one in enumerate(self.known):
            if CARDS[one.encoder].family in wanted:
                groups[CARDS[one.encoder].family].append(i)
        return self.blocks(groups)

    def origin(self) -> Score:
        """All of MTEB left out."""
        return self.blocks({"mteb": self.few})

    def other_origin(self, source: str) -> tuple[float, float, float, int]:
        """MAE, tau and coverage where an origin of linear probes is left out, levels of its data sets given."""
        rows = [i for i, one in enumerate(self.known) if one.origin == source and one.protocol == LINEAR]
        hidden = [i for i, one in enumerate(self.known) if one.origin == source]
        mean, covariance = self.left.predict(hidden)
        places = {i: place for place, i in enumerate(sorted(hidden))}
        score = Score()
        for dataset in sorted({self.known[i].dataset for i in rows}):
            some = [i for i in rows if self.known[i].dataset == dataset]
            at = [places[i] for i in some]
            own, spread = self.level(some, mean[at], covariance[np.ix_(at, at)])
            score.add_errors(dataset, self.left.y[some], own, np.sqrt(np.diag(spread)))
            score.taus.append(kendalltau(own, self.left.y[some]).statistic)
        return float(np.mean(score.misses)), float(np.mean(score.taus)), float(np.mean(score.inside)), len(rows)

    def hidden_published(self) -> None:
        """Every error that was measured here hidden: those with all labels and with 30 a class are predicted."""
        hidden = [i for i, one in enumerate(self.known) if one.protocol == MEASURED]
        mean, covariance = self.left.predict(hidden)
        table = PrettyTable(["labels per class", "encoders", "rule", "MAE", "tau", "in 90 %", "first", "five"])
        for labels in (1_281.167, 30.0):
            at = [p for p, i in enumerate(sorted(hidden)) if abs(self.known[i].labels - label_place(labels)) < 0.01]
            rows = [sorted(hidden)[p] for p in at]
            own, spread = self.level(rows, mean[at], covariance[np.ix_(at, at)])
            names, found = [self.known[i].encoder for i in rows], self.left.y[rows]
            sd = np.sqrt(np.diag(spread))
            truth = dict(zip(names, accuracy(found, IMAGENET), strict=True))
            rules = self.rules(IMAGENET, set(hidden))
            rules["size"] = {name: float(find_covariates(CARDS[name])["size"]) for name in names}
            rules["date"] = {name: float(find_covariates(CARDS[name])["date"]) for name in names}
            rules["model"] = dict(zip(names, -own, strict=True))
            rules["model, of these"] = {
                name: rules["model"][name] for name in names if name in rules["reported linear"]
            }
            for rule in ("model", "reported linear", "model, of these", "size", "date"):
                known = [name for name in names if name in rules[rule]]
                order = sorted(known, key=lambda name: -rules[rule][name])
                best = max(truth.values())
                regret = f"{best - truth[order[0]]:.1f}", f"{best - max(truth[name] for name in order[:5]):.1f}"
                tau = kendalltau([rules[rule][name] for name in known], [truth[name] for name in known]).statistic
                mae = inside = ""
                if rule == "model":
                    mae = f"{np.mean(np.abs(accuracy(found, IMAGENET) - accuracy(own, IMAGENET))):.1f}"
                    inside = f"{100 * np.mean(np.abs(found - own) <= norm.ppf(0.95) * sd):.0f} %"
                table.add_row([round(labels), len(known), rule, mae, f"{tau:.2f}", inside, *regret])
        print("Errors measured here hidden (ImageNet-1K)")
        print(table)


class Front:
    """The error on ImageNet-1K with all labels of encoders whose numbers are hidden, against what was found of them.

    What was found of an encoder is its error measured here, or else the mean of what others found by a linear probe.
    """

    def __init__(self, known: Sequence[Observation], effects: Effects | None = None) -> None:
        self.known = list(known)
        found: dict[str, list[Observation]] = defaultdict(list)
        for one in known:
            if one.scaled_by == ANCHOR and one.labels == 0 and not CARDS[one.encoder].saw_labels:
                found[one.encoder].append(one)
        here = {name: [one for one in some if one.protocol == MEASURED] or some for name, some in found.items()}
        self.found = {name: 100 * float(np.mean([one.error for one in some])) for name, some in here.items()}
        asked = [Observation(name, IMAGENET, MEASURED, 0.0, 0.5, "here") for name in self.found]
        self.place = {name: len(known) + place for place, name in enumerate(self.found)}
        self.left = Model(CARDS, [*known, *asked], effects or shipped_effects()).left_out()
        texts = {one.encoder for one in known if (one.dataset, one.protocol) == (IMAGENET, ZERO_SHOT)}
        self.new = [name for name in self.found if is_new(name)]
        self.groups = {
            "language-supervised": [name for name in self.new if CARDS[name].saw_texts and name in texts],
            "self-supervised": [name for name in self.new if CARDS[name].family.startswith(SELF_SUPERVISED)],
            "all since 2022": self.new,
            "all": list(self.found),
        }

    def ask(self, hides: Callable[[Observation], bool], names: Sequence[str]) -> dict[str, tuple[float, float]]:
        """The log odds to expect of encoders and their standard deviations, without what is hidden."""
        block = sorted({i for i, one in enumerate(self.known) if hides(one)} | set(self.place.values()))
        mean, covariance = self.left.predict(block)
        at = {i: place for place, i in enumerate(block)}
        where = {name: at[self.place[name]] for name in names}
        return {name: (float(mean[i]), math.sqrt(covariance[i, i])) for name, i in where.items()}

    def in_turn(
        self, of: Callable[[Observation], str], names: Sequence[str], keeps: Sequence[str] = ()
    ) -> dict[str, tuple[float, float]]:
        """The same where each group of observations is hidden in turn, but for protocols to keep, and asked for."""
        groups: dict[str, list[str]] = defaultdict(list)
        for one in self.known:
            if (
                one.encoder in names
                and one.scaled_by == ANCHOR
                and one.labels == 0
                and one.encoder not in groups[of(one)]
            ):
                groups[of(one)].append(one.encoder)
        found: dict[str, tuple[float, float]] = {}
        for group, some in groups.items():
            if group != "here":
                found |= self.ask(lambda one, group=group: of(one) == group and one.protocol not in keeps, some)
        return found

    def row(self, title: str, group: str, asked: Mapping[str, tuple[float, float]]) -> list[object]:
        """How right answers are, in points of error."""
        names = [name for name in self.groups[group] if name in asked]
        odds, sd = np.array([asked[name] for name in names]).T
        truth = np.array([self.found[name] for name in names])
        guess, low, high = (100 - accuracy(odds + z * sd, IMAGENET) for z in (0, norm.ppf(0.05), norm.ppf(0.95)))
        off, inside = guess - truth, (truth >= low) & (truth <= high)
        numbers = [math.sqrt(np.mean(off**2)), np.abs(off).mean(), off.mean(), (high - low).mean()]
        tau = kendalltau(guess, truth).statistic if len(names) > 2 else math.nan
        row = [f"{one:.2f}" for one in (*numbers, tau)]
        return [title, group, len(names), *row[:3], f"{100 * inside.mean():.0f} %", *row[3:]]

    def line(self, *, with_size: bool) -> dict[str, tuple[float, float]]:
        """A straight line from zero-shot to linear errors, through encoders released before 2022."""
        zero = {
            one.encoder: log_odds(one.error, IMAGENET)
            for one in self.known
            if one.protocol == ZERO_SHOT and one.dataset == IMAGENET
        }
        rows = {
            name: [1.0, odds, *([float(find_covariates(CARDS[name])["size"])] * with_size)]
            for name, odds in zero.items()
        }
        seen = [name for name in rows if name in self.found and name not in self.new and CARDS[name].saw_texts]
        x, y = (
            np.array([rows[name] for name in seen]),
            np.array([log_odds(self.found[name] / 100, IMAGENET) for name in seen]),
        )
        weights, rest, *_ = np.linalg.lstsq(x, y)
        sd = math.sqrt(float(rest[0]) / (len(seen) - x.shape[1]))
        return {name: (float(np.dot(rows[name], weights)), sd) for name in rows if name in self.found}

    def rows(self, title: str, *, in_turn: bool = True) -> Iterator[list[object]]:
        """All ways of hiding."""
        front = self.ask(lambda one: is_new(one.encoder) and one.protocol not in TEXTS, self.new)
        for group in ("language-supervised", "self-supervised", "all since 2022"):
            yield self.row(f"{title}: the front hidden, but zero-shot", group, front)
        if not in_turn:
            return
        family = self.in_turn(lambda one: CARDS[one.encoder].family, self.new, TEXTS)
        origin = self.in_turn(lambda one: one.origin, self.new)
        own = self.in_turn(
            lambda one: (
                str(find_covariates(CARDS[one.encoder])["weights"])
                if one.scaled_by == ANCHOR and one.dataset == IMAGENET
                else ""
            ),
            list(self.found),
        )
        for words, asked in (("a family, but zero-shot", family), ("an origin", origin), ("own linear probes", own)):
            for group in self.groups if asked is own else ("language-supervised", "self-supervised", "all since 2022"):
                yield self.row(f"{title}: {words}", group, asked)
        clips = {name for name in self.found if CARDS[name].family in ("clip", "openclip")}
        kept = self.ask(
            lambda one: (
                one.encoder in clips
                and one.dataset == IMAGENET
                and one.protocol not in TEXTS
                and not one.origin.startswith(MTEB)
            ),
            sorted(clips),
        )
        self.groups["CLIP and OpenCLIP"] = sorted(clips)
        yield self.row(f"{title}: all but zero-shot and 16-shot", "CLIP and OpenCLIP", kept)


def is_new(name: str) -> bool:
    """Whether an encoder was released in 2022 or later."""
    released = CARDS[name].released
    return isinstance(released, str) and released >= "2022"


def front_table(known: Sequence[Observation]) -> None:
    """The front hidden from the model and from simpler ones."""
    table = PrettyTable(["model: hidden", "encoders", "n", "rms", "MAE", "bias", "in 90 %", "width", "tau"])
    front = Front(known)
    for with_size in (False, True):
        asked = front.line(with_size=with_size)
        table.add_row(front.row(f"line{', with size' * with_size}: the front", "language-supervised", asked))
    effects = shipped_effects()
    ability = {("weights", "overall"): 0.6, ("origin", "origin"): effects.sd["origin", "origin"]}
    on_imagenet = [one for one in known if one.dataset == IMAGENET]
    for row in Front(on_imagenet, replace(effects, sd=ability)).rows("one factor"):
        table.add_row(row)
    for row in front.rows("the model"):
        table.add_row(row)
    print("\nErrors on ImageNet-1K of encoders whose numbers are hidden, percent, all labels")
    print(table)


def show(title: str, score: Score) -> None:
    """Prints one way of leaving out."""
    inside, tau = 100 * np.mean(score.inside), np.nanmean(score.taus)
    errors = f"{len(score.misses)} errors, MAE {np.mean(score.misses):.1f}"
    print(f"\n{title}: {errors}, tau {tau:.2f}, in 90 %: {inside:.0f} %")
    table = PrettyTable(["limit", "rule", "sets", "first: mean", "worst", "on", "best of five: mean", "worst "])
    for limit in LIMITS:
        for (other, rule), regrets in score.regrets.items():
            if other == limit:
                first, five = np.array(regrets).T
                on = score.worst.get((limit, rule), "")
                row = [f"{first.mean():.2f}", f"{first.max():.1f}", on, f"{five.mean():.2f}", f"{five.max():.1f}"]
                table.add_row([limit, rule, len(regrets), *row])
    print(table)


def main() -> None:
    """Prints everything."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--halves", action="store_true", help="estimate effects on one half of the data sets, too")
    options = parser.parse_args()
    bench = Bench()
    print(f"{len(bench.known)} observations of {len({one.encoder for one in bench.known})} encoders")
    show("Data sets left out", bench.data_sets())
    show("Encoders left out", bench.encoders())
    show("Families left out", bench.families())
    show("MTEB left out", bench.origin())
    for source in ("kaiko-ai/eva", "torchgeo/torchgeo-bench"):
        mae, tau, inside, n = bench.other_origin(source)
        print(f"{source} left out: {n} errors, MAE {mae:.1f}, tau {tau:.2f}, in 90 %: {100 * inside:.0f} %")
    bench.hidden_published()
    front_table(bench.known)
    if options.halves:
        names = sorted(set(bench.truth) - {IMAGENET})
        for half in (names[::2], names[1::2]):
            some = [one for one in bench.known if one.dataset not in half]
            model = Model(CARDS, some)
            model.fit(n_steps=40, say=lambda text: print(text, end=" ", file=sys.stderr, flush=True))
            other = Model(CARDS, bench.known, model.effects)
            show(f"Data sets left out, effects too: {', '.join(half)}", bench.data_sets(other.left_out(), set(half)))


if __name__ == "__main__":
    main()
