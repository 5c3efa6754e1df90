"""The tables of the report; where there are too few pairs, they say so in place of a number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from zoo.analysis.columns import Estimate
from zoo.analysis.reported_agreement import FEWEST_PAIRS
from zoo.studies.findings import Table
from zoo.studies.tables import interval

from .claims import MEAN, SPREAD, TAU
from .pairs import Pairs, TwoSources

TOO_FEW = "too few"


def kinds_table(
    title: str, groups: Sequence[Pairs], estimates: Mapping[str, Sequence[Estimate]], *, what: str
) -> Table:
    """One row a kind of number or of objective."""
    none = [pairs.name for pairs in groups if not len(pairs)]
    rows = [
        [pairs.name, str(len(pairs)), *_cells(estimates.get(pairs.name, ()), MEAN, SPREAD, TAU), _range(pairs)]
        for pairs in groups
        if len(pairs)
    ]
    return Table(
        title=f"{title}, in percentage points",
        headers=[what, "pairs", "mean [95 % interval]", "standard deviation", "Kendall's tau", "smallest to largest"],
        rows=rows,
        note=f"Positive: reported above measured, by a linear probe with as many labels. Fewer than {FEWEST_PAIRS} "
        f"pairs get no estimate.{f' Without a pair: {_listed(none)}.' if none else ''}",
    )


def _cells(estimates: Sequence[Estimate], *outcomes: str) -> list[str]:
    known = {one.outcome: one for one in estimates}
    return [
        interval(known[outcome], digits=2, signed=outcome != SPREAD) if outcome in known else TOO_FEW
        for outcome in outcomes
    ]


def _range(pairs: Pairs) -> str:
    return f"{pairs.differences.min():+.2f} to {pairs.differences.max():+.2f}"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names)


def order_table(order: Sequence[Estimate]) -> Table:
    """One row a range of gaps."""
    return Table(
        title="Whether the better reported linear accuracy is the better measured one",
        headers=["reported accuracies apart by", "pairs of encoders", "same order [95 % interval]"],
        rows=[[one.term, str(one.n), _share(one)] for one in order],
        note="Share of pairs of encoders; 0.5 is what a coin gives. Intervals from a bootstrap over objectives.",
    )


def _share(one: Estimate) -> str:
    return TOO_FEW if one.value is None else interval(one, digits=2, signed=False)


def protocols_table(
    groups: Sequence[Pairs], estimates: Mapping[str, Sequence[Estimate]], within: Mapping[str, Estimate]
) -> Table:
    """One row a pair of protocols."""
    rows = []
    for pairs in groups:
        cells = _cells(estimates.get(pairs.name, ()), MEAN, SPREAD, TAU)
        if pairs.n_clusters == 1 and pairs.are_enough:
            cells = ["one source alone"] * len(cells)
        own = within.get(pairs.name)
        inside = "" if own is None else interval(own, digits=2)
        rows.append([pairs.name, str(len(pairs)), str(pairs.n_clusters), *cells, inside])
    return Table(
        title="Accuracies that two protocols report of the same encoder",
        headers=[
            "protocols",
            "encoders",
            "sources",
            "first minus second [95 % interval]",
            "standard deviation",
            "Kendall's tau",
            "tau within one source",
        ],
        rows=rows,
        note="In percentage points. Sources are drawn with all of their encoders where there are at least five of "
        "them, else encoders.",
    )


def sources_table(found: Sequence[TwoSources]) -> Table:
    """One row a pair of sources and a protocol."""
    groups: dict[tuple[str, str], list[TwoSources]] = {}
    for one in found:
        groups.setdefault((one.between, one.first.protocol), []).append(one)
    rows = []
    for (between, protocol), some in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0])):
        gaps = [one.difference for one in some]
        same = sum(one.is_same for one in some)
        rows.append([between, protocol, str(len(some)), str(same), f"{min(gaps):+.3f} to {max(gaps):+.3f}"])
    return Table(
        title="The same weights by the same protocol at the same size of images, as two sources print it",
        headers=["sources", "protocol", "numbers", "the same", "second minus first"],
        rows=rows,
        note="The same: equal at the precision of the coarser one. Two pages of one source are one evaluation.",
    )
