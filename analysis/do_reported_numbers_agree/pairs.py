"""Pairs of accuracies of one encoder: reported and measured, of two sources, by two protocols; and their estimates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise

import numpy as np
import pandas as pd

from zoo.analysis.columns import Estimate
from zoo.analysis.correlations import (
    FEWEST_CLUSTERS,
    Floats,
    Resampling,
    compute_kendall,
    compute_middle_interval,
    compute_pair_signs,
    compute_spearman,
    is_constant,
)
from zoo.analysis.reported_agreement import FEWEST_PAIRS, select_reported_numbers
from zoo.analysis.table import StudyTable
from zoo.cards.catalogue import load_catalogue
from zoo.results.derived import summaries
from zoo.results.reported import reported_numbers
from zoo.results.reported_values import PROTOCOLS, ReportedNumber
from zoo.results.rows import errata
from zoo.results.values import SETTINGS

N_RESAMPLES = 1_000
ONE_PERCENT, FIVE_SHOT = "train 1% -> val", "train 5-shot -> val"
FEW_LABELS = {ONE_PERCENT: "few labels, 1 %", FIVE_SHOT: "few labels, 5-shot"}
POINTS = "percentage points"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs:
    """Accuracies of the same encoders by two roads, in percent; the index holds the encoders."""

    name: str  # "linear", "k-NN and linear"
    first: pd.Series[float]  # reported
    second: pd.Series[float]  # measured, or reported by another source or protocol
    clusters: pd.Series[str]  # encoders that may err alike: of one objective, or evaluated by the same people
    drawn: str  # what a cluster is: "objective", "source"

    def __len__(self) -> int:
        return len(self.first)

    @property
    def differences(self) -> pd.Series[float]:
        """First minus second, in percentage points."""
        return self.first - self.second

    @property
    def n_clusters(self) -> int:
        """How many clusters there are."""
        return int(self.clusters.nunique())

    @property
    def are_enough(self) -> bool:
        """Whether anything is said of bias, spread and order."""
        return len(self) >= FEWEST_PAIRS

    def of(self, encoders: Iterable[str], name: str) -> Pairs:
        """Those of some encoders."""
        chosen = self.first.index.isin(list(encoders))
        return replace(
            self, name=name, first=self.first[chosen], second=self.second[chosen], clusters=self.clusters[chosen]
        )


def believable() -> list[ReportedNumber]:
    """Every reported number of which nothing doubtful is known, of the card's features or the space of texts."""
    return [one for one in reported_numbers() if not one.doubt and (not one.features or "zero-shot" in one.protocol)]


def pairs_with_measured(table: StudyTable, numbers: Sequence[ReportedNumber]) -> dict[str, Pairs]:
    """By kind of number, its pairs with the error of a linear probe with as many labels; empty ones too."""
    wrong = [erratum.encoder for erratum in errata() if erratum.exclude]
    frame = table.frame.drop(index=wrong, errors="ignore")
    columns = {setting.split: setting.column for setting in SETTINGS}
    accuracies = {split: 100 - frame[column].dropna() for split, column in columns.items()}
    heads = pd.Series(_supervised_accuracies(), dtype="float64")
    objectives = frame["objective"].fillna("unknown")
    found = {}
    for protocol, words in PROTOCOLS.items():
        if protocol == "reported-few-labels":
            continue
        chosen = {name: one.value for name, one in select_reported_numbers(numbers, protocol).items()}
        measured = accuracies[SETTINGS[0].split] if protocol != "reported-own-head" else heads
        found[words.short] = _paired(words.short, chosen, measured, objectives, "objective")
    for split, name in FEW_LABELS.items():
        few = {one.encoder: one.value for one in numbers if one.split == split}
        found[name] = _paired(name, few, accuracies[split], objectives, "objective")
    return found


def _supervised_accuracies() -> dict[str, float]:
    """Accuracies of linear probes on the features of supervised networks, with all labels."""
    cards, full_shot = load_catalogue(), SETTINGS[0].name
    return {
        encoder: 100 - summary.errors[full_shot]
        for encoder, summary in summaries(exclude_wrong=True).items()
        if cards[encoder].objective.mode == "supervised" and full_shot in summary.errors
    }


def _paired(
    name: str, first: Mapping[str, float], second: pd.Series[float], clusters: pd.Series[str], drawn: str
) -> Pairs:
    rows = pd.DataFrame({"first": pd.Series(first, dtype="float64"), "second": second}).dropna().sort_index()
    of = clusters.reindex(rows.index).fillna("unknown").astype(str)
    return Pairs(name=name, first=rows["first"], second=rows["second"], clusters=of, drawn=drawn)


def pairs_of_protocols(numbers: Sequence[ReportedNumber]) -> list[Pairs]:
    """Pairs of what two protocols report of one encoder, the protocols in the order of their list."""
    chosen = {
        protocol: select_reported_numbers(numbers, protocol)
        for protocol in PROTOCOLS
        if protocol != "reported-few-labels"
    }
    found = []
    for one, two in combinations(chosen, 2):
        both = chosen[one].keys() & chosen[two].keys()
        if both:
            second = pd.Series({name: chosen[two][name].value for name in both}, dtype="float64")
            sources = pd.Series({name: _sources(chosen[one][name], chosen[two][name]) for name in both})
            first = {name: chosen[one][name].value for name in both}
            name = f"{PROTOCOLS[one].short} and {PROTOCOLS[two].short}"
            found.append(_paired(name, first, second, sources, "source"))
    return sorted(found, key=lambda pairs: -len(pairs))


def _sources(one: ReportedNumber, two: ReportedNumber) -> str:
    return " and ".join(sorted({one.source, two.source}))


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoSources:
    """One quantity of one encoder, as two sources print it."""

    first: ReportedNumber
    second: ReportedNumber

    @property
    def between(self) -> str:
        """Who they are."""
        if self.first.source == self.second.source:
            return f"{self.first.source}: two pages"
        return f"{self.first.source} and {self.second.source}"

    @property
    def difference(self) -> float:
        """Second minus first, rounded as the coarser of them is printed."""
        return round(self.second.value - self.first.value, 10)

    @property
    def is_same(self) -> bool:
        """Equal at the coarser printed precision."""
        digits = min(len(one.printed.partition(".")[2]) for one in (self.first, self.second))
        return abs(self.difference) <= 0.5 * 10.0**-digits * (1 + 1e-9)

    @property
    def same_size(self) -> bool:
        """Whether both say the same size of images, or one says none."""
        sizes = {self.first.resolution, self.second.resolution} - {""}
        return len(sizes) < 2


def _page(one: ReportedNumber) -> tuple[str, str]:
    """Source and file, without the section."""
    return one.source, one.place.partition(", ")[0]


def _quantity(one: ReportedNumber) -> tuple[str, ...]:
    labels = one.setting if one.protocol == "reported-few-shot" else ""
    return (one.encoder, one.metric, one.dataset, one.split or labels, one.unit, one.protocol)


def two_sources(numbers: Iterable[ReportedNumber]) -> list[TwoSources]:
    """What two pages print of one quantity at one size of images, whoever trained the weights first."""
    groups: dict[tuple[str, ...], list[ReportedNumber]] = {}
    for one in numbers:
        groups.setdefault(_quantity(one), []).append(one)
    found = []
    for some in groups.values():
        for one, two in combinations(sorted(some, key=lambda one: (one.standing, one.source, one.place)), 2):
            if _page(one) != _page(two):
                pair = TwoSources(first=one, second=two)
                found += [pair] if pair.same_size else []
    return found


def pairs_between_sources(found: Sequence[TwoSources]) -> Pairs:
    """The pairs of different sources, second against first, drawn by who the two are."""
    apart = [one for one in found if one.first.source != one.second.source]
    index = pd.Index([f"{one.first.encoder}, {one.first.protocol}, {n}" for n, one in enumerate(apart)], dtype="object")
    return Pairs(
        name="two sources",
        first=pd.Series([one.second.value for one in apart], index=index, dtype="float64"),
        second=pd.Series([one.first.value for one in apart], index=index, dtype="float64"),
        clusters=pd.Series([one.between for one in apart], index=index, dtype="object"),
        drawn="comparison",
    )


def by_mode(pairs: Pairs, table: StudyTable) -> list[Pairs]:
    """The pairs of each kind of objective, the kind with most pairs first."""
    modes = table.frame["ssl_mode"].reindex(pairs.first.index).fillna("unknown")
    groups = [pairs.of(modes.index[modes == mode], f"{pairs.name}, {mode}") for mode in modes.unique()]
    return sorted(groups, key=lambda one: (-len(one), one.name))


def _drawn(pairs: Pairs, seed: int) -> tuple[Floats, str]:
    """How often each pair is in each bootstrap sample, and in words what was drawn."""
    counts, drawn = Resampling(clusters=pairs.clusters, n_resamples=N_RESAMPLES, seed=seed).counts(pairs.first.index)
    what = f"{pairs.n_clusters} {pairs.drawn}s" if drawn.endswith("clusters") else "encoders"
    return counts, f"bootstrap over {what}"


def estimates_of(pairs: Pairs, *, seed: int = 0) -> list[Estimate]:
    """Mean, spread and rank correlation of enough pairs, each with a bootstrap interval; none of too few."""
    if not pairs.are_enough:
        return []
    counts, method = _drawn(pairs, seed)
    once = np.ones((1, len(pairs)))
    x, y, d = map(_floats, (pairs.first, pairs.second, pairs.differences))
    label = Estimate(term=pairs.name, n=len(pairs), unit=POINTS, method=method)
    found = [
        _estimate(label, _mean, (d,), once, counts).described(outcome="first minus second, mean"),
        _estimate(label, _spread, (d,), once, counts).described(outcome="first minus second, standard deviation"),
    ]
    if not (is_constant(x) or is_constant(y)):
        found += [
            _estimate(label.described(unit="tau"), compute_kendall, (x, y), once, counts).described(
                outcome="Kendall's tau"
            ),
            _estimate(label.described(unit="rho"), compute_spearman, (x, y), once, counts).described(
                outcome="Spearman's rho"
            ),
        ]
    return found


def within_clusters(pairs: Pairs, *, seed: int = 0) -> Estimate | None:
    """Kendall's tau over pairs of encoders of one cluster only; None if too few encoders have such a companion."""
    codes = pd.factorize(pairs.clusters)[0]
    same = (codes[:, None] == codes).astype(float)
    n = int((same.sum(axis=1) > 1).sum())
    if n < FEWEST_PAIRS:
        return None
    x, y = map(_floats, (pairs.first, pairs.second))
    counts, _ = _drawn(pairs, seed)
    value = float(compute_kendall(x, y, np.ones((1, len(pairs))), same)[0])
    if not np.isfinite(value):
        return None
    enough = pairs.n_clusters >= FEWEST_CLUSTERS
    low, high = compute_middle_interval(compute_kendall(x, y, counts, same)) if enough else (None, None)
    label = Estimate(term=pairs.name, n=n, unit="tau", outcome=f"Kendall's tau within one {pairs.drawn}")
    note = "" if low is not None else f"no interval from {pairs.n_clusters} {pairs.drawn}s"
    return label.with_value(value, (low, high), method=f"bootstrap over {pairs.n_clusters} {pairs.drawn}s", note=note)


def same_order(pairs: Pairs, gaps: Sequence[float], *, seed: int = 0) -> list[Estimate]:
    """How often two encoders have the same order by both roads, by how far apart the first puts them (0.5: chance)."""
    if not pairs.are_enough:
        return []
    counts, method = _drawn(pairs, seed)
    x, y = map(_floats, (pairs.first, pairs.second))
    alike = (np.multiply(compute_pair_signs(x), compute_pair_signs(y)) + 1) / 2
    apart = np.abs(x[:, None] - x)
    found = []
    for low, high in pairwise(gaps):
        within = ((apart > low + 1e-9) & (apart <= high + 1e-9)).astype(float)
        n = int(within.sum() / 2)
        term = f"{low:g} to {high:g} points" if high < max(gaps) else f"above {low:g} points"
        label = Estimate(
            term=term, n=n, unit="share of pairs of encoders", outcome=f"same order, {pairs.name}", method=method
        )
        if n < FEWEST_PAIRS:
            if n:
                found.append(label.described(note=f"{n} pairs of encoders say nothing"))
            continue
        found.append(_estimate(label, _share, (alike * within, within), np.ones((1, len(pairs))), counts))
    return found


def _estimate(
    label: Estimate, statistic: Callable[..., Floats], columns: tuple[Floats, ...], once: Floats, counts: Floats
) -> Estimate:
    return label.with_value(float(statistic(*columns, once)[0]), compute_middle_interval(statistic(*columns, counts)))


def _floats(values: pd.Series[float]) -> Floats:
    found: Floats = np.asarray(values, dtype=np.float64)
    return found


def _mean(values: Floats, counts: Floats) -> Floats:
    means: Floats = (counts * values).sum(axis=1) / counts.sum(axis=1)
    return means


def _spread(values: Floats, counts: Floats) -> Floats:
    """Standard deviation, n - 1 in the denominator."""
    n = counts.sum(axis=1)
    squares = (counts * (values - _mean(values, counts)[:, None]) ** 2).sum(axis=1)
    spread: Floats = np.sqrt(squares / np.maximum(n - 1, 1))
    return spread


def _share(alike: Floats, within: Floats, counts: Floats) -> Floats:
    total = ((counts @ within) * counts).sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):  # samples without two encoders so far apart
        share: Floats = np.where(total > 0, ((counts @ alike) * counts).sum(axis=1) / total, np.nan)
    return share
