"""Do accuracies that others reported agree with measured ones, with each other, and across protocols?

Claim: numbers of papers, model cards and leaderboards stand in one column, as if a reported linear accuracy were what
the same probe would find, as if who reports more were better, and as if k-NN or fine-tuning ordered encoders alike. MAE
(arXiv:2111.06377, Section 4.3) calls the results of linear probing and fine-tuning largely uncorrelated.

Expected: over 122 encoders reported linear accuracies are 1.3 points above those of the published probe (0.9 to 2.1),
with a standard deviation of 2.3; both order encoders alike (tau .92), but of two that are reported at most half a point
apart the better one is told hardly more often than by a coin (60 %), of two that are 1 to 2 points apart 91 times in
100. The kinds of objective differ in bias, from 0.5 points to 1.6, and those that predict a transformation are 3 to 18
points above, too few for an estimate. Two sources that evaluate the same weights in the same way print the same where
nothing is chosen, but their linear accuracies differ by up to 1.7 points, k-NN by up to 4, and zero-shot accuracies of
two benchmarks by up to 21 where they choose other names and prompts (SVHN, distances in CLEVR). k-NN orders encoders
much as linear probes do (tau .81), fine-tuning less (.49). What nobody measured here (k-NN, attentive, zero-shot,
fine-tuned) has no counterpart, and nothing is said of it.

Command: zoo study do_reported_numbers_agree
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing

from zoo.analysis.columns import Estimate
from zoo.analysis.correlations import HIGH
from zoo.analysis.reported_agreement import FEWEST_PAIRS
from zoo.analysis.table import StudyTable, require_encoders
from zoo.errors import QueryError
from zoo.evaluation.drawing import (
    COLOURS,
    MODE_COLOURS,
    Figure,
    draw_legend_below,
    make_figure,
    make_palette,
    plot_groups,
    write_panel_letters,
)
from zoo.results.reported_values import PROTOCOLS, ReportedNumber
from zoo.studies.findings import (
    Claim,
    ClaimAnswer,
    Claims,
    Findings,
    FindingsTable,
    RowsUsed,
    answer_in_sentence,
    format_statement,
    has_interval_without_zero,
    require_value,
)
from zoo.studies.running import StudyOptions
from zoo.studies.tables import format_estimate, format_unsigned

from .pairs import (
    Pairs,
    TwoSources,
    believable,
    by_mode,
    estimates_of,
    pairs_between_sources,
    pairs_of_protocols,
    pairs_with_measured,
    same_order,
    two_sources,
    within_clusters,
)

GAPS = (0.0, 0.5, 1.0, 2.0, 3.0, 5.0, 100.0)  # percentage points between two reported accuracies


def study(table: StudyTable, options: StudyOptions) -> Findings:
    """Reported against measured, source against source, protocol against protocol."""
    require_encoders(table)
    numbers = believable()
    measured = pairs_with_measured(table, numbers)
    modes = by_mode(measured["linear"], table)
    protocols = pairs_of_protocols(numbers)
    sources = two_sources(numbers)
    between = pairs_between_sources(sources)
    several = [pairs for pairs in protocols if pairs.n_clusters > 1]  # one source says nothing of others
    estimates = {
        pairs.name: estimates_of(pairs, seed=options.seed) for pairs in (*measured.values(), *modes, *several, between)
    }
    order = same_order(measured["linear"], GAPS, seed=options.seed)
    within = {
        pairs.name: one for pairs in several if (one := within_clusters(pairs, seed=options.seed)) and pairs.are_enough
    }
    found = Found(
        measured=measured, protocols=protocols, sources=sources, order=order, estimates=estimates, within=within
    )
    figures = [agreement_figure(measured["linear"], table, order)] if measured["linear"].are_enough else []
    drawn = [pairs for pairs in several if pairs.are_enough][:2]
    figures += [protocols_figure(drawn, sources)] if drawn else []
    return Findings(
        claims=claims_of(found),
        answer=answer_in_sentence(lambda: _answer(found)),
        estimates=[*(one for some in estimates.values() for one in some), *order, *within.values()],
        tables=[
            kinds_table("Reported minus measured accuracy", [*measured.values()], estimates, what="kind of number"),
            kinds_table("Reported linear accuracy minus measured, by kind of objective", modes, estimates, what="kind"),
            order_table(order),
            protocols_table(protocols, estimates, within),
            sources_table(sources),
        ],
        figures=figures,
        rows=_rows(table, measured, protocols, sources),
        notes=_notes(measured, protocols, numbers),
    )


def _answer(found: Found) -> str:
    mean, tau, (nearest, *_) = found.one("linear", MEAN), found.one("linear", TAU), found.order
    is_below = require_value(mean) < 0
    return (
        f"Reported linear accuracies are {format_statement(mean, 1, unit='points', is_turned=is_below)} "
        f"{'below' if is_below else 'above'} measured ones (n {mean.n}); both orders have tau "
        f"{require_value(tau):.2f}, and "
        f"of pairs within half a point {100 * require_value(nearest):.0f} % are right."
    )


def _rows(
    table: StudyTable, measured: Mapping[str, Pairs], protocols: Sequence[Pairs], sources: Sequence[object]
) -> list[RowsUsed]:
    rows = []
    for pairs in measured.values():
        if len(pairs) and pairs.name != "own head":
            n = len(table) - len(pairs)
            why = f"no {pairs.name} accuracy reported, or an erratum excludes the measurement"
            rows.append(
                RowsUsed(
                    part=f"reported against measured, {pairs.name}", used=len(pairs), left_out={why: n} if n else {}
                )
            )
    rows.append(RowsUsed(part="supervised networks, own head against linear probe", used=len(measured["own head"])))
    rows += [RowsUsed(part=f"two protocols, {pairs.name}", used=len(pairs)) for pairs in protocols]
    return [*rows, RowsUsed(part="two sources of one number", used=len(sources), unit="pairs")]


def _notes(measured: Mapping[str, Pairs], protocols: Sequence[Pairs], numbers: Sequence[ReportedNumber]) -> list[str]:
    n_encoders = len({one.encoder for one in numbers})
    both = {encoder for pairs in measured.values() for encoder in pairs.first.index}
    notes = [
        f"{len(both)} of the {n_encoders} encoders with a reported number were measured here. The others are newer and "
        "larger: nothing shows that bias and spread are the same for them.",
        "Who reported chose the layer, the size of the images, the augmentations and the sweep, and mostly does not "
        "say which; what part of a difference each of them makes is not identified.",
        f"Fewer than {FEWEST_PAIRS} pairs get no estimate, and neither do protocols that one source alone compares. "
        "Doubtful numbers, and measurements that an erratum excludes, make no pair.",
    ]
    by_protocol: dict[str, set[str]] = {}
    for one in numbers:
        if one.is_of_imagenet:
            by_protocol.setdefault(PROTOCOLS[one.protocol].short, set()).add(one.encoder)
    alone = [f"{name} ({len(some)})" for name, some in by_protocol.items() if not len(measured.get(name, ()))]
    if alone:
        notes.append(f"Without any measurement to hold them against, by encoders: {', '.join(alone)}.")
    single = [f"{pairs.name} ({len(pairs)}, {pairs.clusters.iloc[0]})" for pairs in protocols if pairs.n_clusters == 1]
    if single:
        notes.append(f"Compared by one source alone, and so not identified: {'; '.join(single)}.")
    return notes


SURE = 0.9  # share of pairs of encoders from which an order counts as told
SAME = 0.2  # percentage points within which two sources print the same
MEAN, SPREAD, TAU = "first minus second, mean", "first minus second, standard deviation", "Kendall's tau"


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    measured: Mapping[str, Pairs]
    protocols: Sequence[Pairs]
    sources: Sequence[TwoSources]
    order: Sequence[Estimate]
    estimates: Mapping[str, Sequence[Estimate]]  # by name of the pairs
    within: Mapping[str, Estimate]

    def one(self, pairs: str, outcome: str) -> Estimate:
        """An estimate of some pairs; QueryError if they are too few."""
        for estimate in self.estimates.get(pairs, ()):
            if estimate.outcome == outcome:
                return estimate
        raise QueryError(
            f"Too few encoders have what {pairs} needs, expected at least {FEWEST_PAIRS} pairs of several sources."
        )


def claims_of(found: Found) -> list[Claim]:
    return [*of_columns.judged(found), *of_mae.judged(found)]


of_columns = Claims(source="assumed where reported numbers stand in one column")


@of_columns("A reported linear accuracy is what the published probe finds", paper="no difference")
def reported_is_measured(found: Found) -> ClaimAnswer:
    mean, spread = found.one("linear", MEAN), found.one("linear", SPREAD)
    return ClaimAnswer(
        ours=f"{_cell(mean)} points, sd {spread.value:.1f}, {mean.n} encoders",
        holds=not has_interval_without_zero(mean),
        contradicted=has_interval_without_zero(mean),
        value=mean.value,
        reason="those who report choose layers, sizes of images and sweeps; which of these it is is not identified",
    )


@of_columns("Reported linear accuracies rank encoders as the published probe does", paper="the same order")
def reported_ranks_alike(found: Found) -> ClaimAnswer:
    tau = found.one("linear", TAU)
    return ClaimAnswer(
        ours=f"tau {_cell(tau)} (high: at least {HIGH:g})",
        holds=tau.value is not None and tau.value >= HIGH,
        value=tau.value,
        reason="they rank otherwise",
        caveat="encoders of very different accuracy make it so; of near ones see the next claim",
    )


@of_columns(
    "Of two encoders that are at most half a point apart, the one with the higher reported accuracy is better",
    paper="better",
)
def near_ones_are_told_apart(found: Found) -> ClaimAnswer:
    known = [one for one in found.order if one.value is not None]
    if not known or known[0] is not found.order[0]:
        raise QueryError(f"Fewer than {FEWEST_PAIRS} pairs of encoders are so near each other.")
    first = known[0]
    sure = next((one.term for one in known if one.value is not None and one.value >= SURE), "no gap")
    return ClaimAnswer(
        ours=f"so for {first.value:.0%} of {first.n} pairs of encoders (of a coin: 50 %); for nine in ten from {sure}",
        holds=first.value is not None and first.value >= SURE,
        contradicted=first.ci_high is not None and first.ci_high < SURE,
        value=first.value,
        reason="the recipes of those who report differ by more than that",
    )


@of_columns("Two sources that evaluate the same weights in the same way print the same number", paper="the same")
def sources_agree(found: Found) -> ClaimAnswer:
    apart = [one for one in found.sources if one.first.source != one.second.source]
    if len(apart) < FEWEST_PAIRS:
        raise QueryError(f"{len(apart)} numbers come from two sources, expected at least {FEWEST_PAIRS}.")
    most = max(abs(one.difference) for one in apart)
    same = sum(one.is_same for one in apart)
    kinds = sorted({one.first.protocol.removeprefix("reported-") for one in apart})
    return ClaimAnswer(
        ours=f"{same} of {len(apart)} to the last common digit, all within {most:.2f} points (same: within {SAME:g})",
        holds=most <= SAME,
        contradicted=most > SAME,
        value=most,
        reason="they evaluate differently",
        caveat=f"of {', '.join(kinds)}; where something is trained, sources choose other rates, crops and layers",
    )


@of_columns("k-NN accuracies rank encoders as linear ones do", paper="the same order")
def knn_ranks_as_linear(found: Found) -> ClaimAnswer:
    name = "linear and k-NN"
    tau, mean = found.one(name, TAU), found.one(name, MEAN)
    inside = found.within.get(name)
    own = "" if inside is None else f", within one source {_cell(inside)}"
    return ClaimAnswer(
        ours=f"tau {_cell(tau)}{own} (high: at least {HIGH:g}); linear {_cell(mean)} points higher, {tau.n} encoders",
        holds=tau.value is not None and tau.value >= HIGH,
        value=tau.value,
        reason="they rank otherwise",
        caveat="one accuracy does not tell the other: the difference varies with the method",
    )


of_mae = Claims(source="MAE (arXiv:2111.06377), Section 4.3")


@of_mae("Linear probing and fine-tuning are largely uncorrelated", paper="largely uncorrelated")
def linear_and_finetuned_are_uncorrelated(found: Found) -> ClaimAnswer:
    tau = found.one("linear and fine-tuned", TAU)
    inside = found.within.get("linear and fine-tuned")
    own = "" if inside is None else f", within one source {_cell(inside)}"
    return ClaimAnswer(
        ours=f"tau {_cell(tau)}{own}, {tau.n} encoders (uncorrelated: an interval that holds 0)",
        holds=not has_interval_without_zero(tau),
        value=tau.value,
        reason="over encoders of several methods, where both follow how good a method is; the paper speaks of choices "
        "within one",
    )


def _cell(estimate: Estimate) -> str:
    return format_estimate(estimate, digits=2)


TOO_FEW = "too few"


def kinds_table(
    title: str, groups: Sequence[Pairs], estimates: Mapping[str, Sequence[Estimate]], *, what: str
) -> FindingsTable:
    """One row per kind of number or of objective."""
    none = ", ".join(pairs.name for pairs in groups if not len(pairs))
    rows = [
        [pairs.name, str(len(pairs)), *_cells(estimates.get(pairs.name, ()), MEAN, SPREAD, TAU), _range(pairs)]
        for pairs in groups
        if len(pairs)
    ]
    return FindingsTable(
        title=f"{title}, in percentage points",
        headers=[what, "pairs", "mean [95 % interval]", "standard deviation", "Kendall's tau", "smallest to largest"],
        rows=rows,
        note=f"Positive: reported above measured, by a linear probe with as many labels. Fewer than {FEWEST_PAIRS} "
        f"pairs get no estimate.{f' Without a pair: {none}.' if none else ''}",
    )


def _cells(estimates: Sequence[Estimate], *outcomes: str) -> list[str]:
    known = {one.outcome: one for one in estimates}
    return [
        format_estimate(known[outcome], digits=2, signed=outcome != SPREAD) if outcome in known else TOO_FEW
        for outcome in outcomes
    ]


def _range(pairs: Pairs) -> str:
    return f"{pairs.differences.min():+.2f} to {pairs.differences.max():+.2f}"


def order_table(order: Sequence[Estimate]) -> FindingsTable:
    """One row a range of gaps."""
    return FindingsTable(
        title="Whether the better reported linear accuracy is the better measured one",
        headers=["reported accuracies apart by", "pairs of encoders", "same order [95 % interval]"],
        rows=[[one.term, str(one.n), _share(one)] for one in order],
        note="Share of pairs of encoders; 0.5 is what a coin gives. Intervals from a bootstrap over objectives.",
    )


def _share(one: Estimate) -> str:
    return TOO_FEW if one.value is None else format_unsigned(one)


def protocols_table(
    groups: Sequence[Pairs], estimates: Mapping[str, Sequence[Estimate]], within: Mapping[str, Estimate]
) -> FindingsTable:
    """One row a pair of protocols."""
    rows = []
    for pairs in groups:
        cells = _cells(estimates.get(pairs.name, ()), MEAN, SPREAD, TAU)
        if pairs.n_clusters == 1 and pairs.are_enough:
            cells = ["one source alone"] * len(cells)
        own = within.get(pairs.name)
        inside = "" if own is None else format_estimate(own, digits=2)
        rows.append([pairs.name, str(len(pairs)), str(pairs.n_clusters), *cells, inside])
    return FindingsTable(
        title="Accuracies that two protocols report of the same encoder",
        headers=[
            "protocols", "encoders", "sources", "first minus second [95 % interval]", "standard deviation",
            "Kendall's tau", "tau within one source",
        ],
        rows=rows,
        note="In percentage points. Sources are drawn with all of their encoders where there are at least five of "
        "them, else encoders.",
    )  # fmt: skip


def sources_table(found: Sequence[TwoSources]) -> FindingsTable:
    """One row a pair of sources and a protocol."""
    groups: dict[tuple[str, str], list[TwoSources]] = {}
    for one in found:
        groups.setdefault((one.between, one.first.protocol), []).append(one)
    rows = []
    for (between, protocol), some in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0])):
        gaps = [one.difference for one in some]
        same = sum(one.is_same for one in some)
        rows.append([between, protocol, str(len(some)), str(same), f"{min(gaps):+.3f} to {max(gaps):+.3f}"])
    return FindingsTable(
        title="The same weights by the same protocol at the same size of images, as two sources print it",
        headers=["sources", "protocol", "numbers", "the same", "second minus first"],
        rows=rows,
        note="The same: equal at the precision of the coarser one. Two pages of one source are one evaluation.",
    )


def agreement_figure(pairs: Pairs, table: StudyTable, order: Sequence[Estimate]) -> Figure:
    """Every pair of a reported linear accuracy and a measured one, and how often two encoders are ordered alike."""
    return Figure(
        name="reported_against_measured",
        title="Reported against measured linear accuracy",
        caption=f"Top-1 accuracy on ImageNet-1K with all labels, in percent, of {len(pairs)} encoders: (a) as "
        "reported, and as the published linear probe finds it; on the dashed line both are the same, above it the "
        "reported one is higher. (b) Of two encoders, how often the one with the higher reported accuracy is also the "
        "better by the probe, by how far the reported ones are apart; bars are 95 % intervals, the dotted line is what "
        "a coin gives, and small numbers count pairs of encoders.",
        draw=lambda: _draw_agreement(pairs, table, order),
    )


def _draw_agreement(pairs: Pairs, table: StudyTable, order: Sequence[Estimate]) -> Drawing:
    drawing, (left, right) = make_figure(height=3.6, n_columns=2, width_ratios=[1.15, 1])
    modes = table.frame["ssl_mode"].reindex(pairs.first.index).fillna("unknown").astype(str)
    ends = (min(pairs.first.min(), pairs.second.min()) - 2, max(pairs.first.max(), pairs.second.max()) + 2)
    left.plot(ends, ends, "--", color="#888888", linewidth=0.8)
    plot_groups(left, pairs.second.tolist(), pairs.first.tolist(), modes.tolist(), colours=MODE_COLOURS)
    left.set(
        xlabel="measured accuracy [%], higher is better",
        ylabel="reported accuracy [%]\nhigher is better",
        xlim=ends,
        ylim=ends,
        aspect="equal",
    )
    _draw_order(right, order)
    write_panel_letters([left, right])
    draw_legend_below(drawing, left, n_columns=3)
    return drawing


def _draw_order(axes: Axes, order: Sequence[Estimate]) -> None:
    known = [one for one in order if one.value is not None]
    for place, one in enumerate(known):
        if one.ci_low is not None and one.ci_high is not None:
            axes.vlines(place, 100 * one.ci_low, 100 * one.ci_high, color=COLOURS[0], linewidth=1.2)
        axes.plot(place, 100 * (one.value or 0.0), "o", color=COLOURS[0])
        axes.annotate(f"{one.n:,}", (place, 44), ha="center", va="bottom", fontsize=6, color="#555555")
    axes.axhline(50, color="#444444", linewidth=0.8, linestyle=":")
    words = [one.term.removesuffix(" points").replace("above ", ">").replace(" to ", "-") for one in known]
    axes.set_xticks(range(len(known)), words)
    axes.set(
        xlabel="reported accuracies apart by [points]",
        ylabel="pairs in the same order [%]\nhigher is better",
        xlim=(-0.5, len(known) - 0.5),
        ylim=(42, 102),
    )


def protocols_figure(groups: Sequence[Pairs], sources: Sequence[TwoSources]) -> Figure:
    """Two protocols against each other, by source, and how far two sources of one number are apart."""
    counted = [f"{pairs.name}, {len(pairs)} encoders" for pairs in groups]
    names = "; ".join(f"({chr(ord('a') + place)}) {words}" for place, words in enumerate(counted))
    last = chr(ord("a") + len(groups))
    return Figure(
        name="protocols_and_sources",
        title="Two protocols, and two sources, of the same encoder",
        caption=f"Top-1 accuracy on ImageNet-1K as reported, in percent, higher is better: {names}; marks are those "
        f"who reported, and on the dashed line both are the same. ({last}) The same weights by the same protocol at "
        "the same size of images, as two sources print it, second minus first in percentage points.",
        draw=lambda: _draw_protocols(groups, sources),
    )


def _draw_protocols(groups: Sequence[Pairs], sources: Sequence[TwoSources]) -> Drawing:
    drawing, axes = make_figure(height=6.4, n_rows=2, n_columns=2, height_ratios=[1.4, 1])
    shown, last = axes[: len(groups)], axes[3]
    for spare in axes[len(groups) : 3]:
        spare.remove()
    grid = last.get_gridspec()
    assert grid is not None
    last.set_subplotspec(grid[1, :])
    named = _most([_short(name) for pairs in groups for name in pairs.clusters])
    inks = make_palette([*sorted(named), OTHERS])
    for panel, pairs in zip(shown, groups, strict=True):
        first, _, second = pairs.name.partition(" and ")
        panel.axline((50, 50), slope=1, linestyle="--", color="#888888", linewidth=0.8)
        for name, (ink, mark) in inks.items():
            own = pairs.clusters.map(lambda one: _short(one) if _short(one) in named else OTHERS) == name
            panel.scatter(
                pairs.first[own],
                pairs.second[own],
                s=16,
                c=ink,
                marker=mark,
                linewidths=0.3,
                edgecolors="white",
                label=name,
            )
        panel.set(
            xlabel=f"{first} [%]\nhigher is better",
            ylabel=f"{second} [%]\nhigher is better",
            xlim=(pairs.first.min() - 2, pairs.first.max() + 2),
            ylim=(pairs.second.min() - 2, pairs.second.max() + 2),
        )
    _draw_sources(last, sources)
    write_panel_letters([*shown, last])
    draw_legend_below(drawing, shown[0], n_columns=3)
    return drawing


OTHERS, NAMED = "others", 8  # how many comparisons a figure names


def _most(names: Sequence[str]) -> list[str]:
    """The most frequent names."""
    return [name for name, _ in Counter(names).most_common(NAMED)]


def _short(sources: str) -> str:
    """Names of repositories without their owners."""
    return " and ".join(name.rpartition("/")[2] for name in sources.split(" and "))


def _draw_sources(axes: Axes, sources: Sequence[TwoSources]) -> None:
    apart = [(_short(one.between).replace(" and ", ", "), one) for one in sources if "two pages" not in one.between]
    rows: dict[str, list[float]] = {name: [] for name in [*_most([name for name, _ in apart]), OTHERS]}
    for name, one in apart:
        rows[name if name in rows else OTHERS].append(one.difference)
    rows = {name: gaps for name, gaps in rows.items() if gaps}
    for place, gaps in enumerate(rows.values()):
        stacked: dict[float, int] = {}
        for gap in sorted(gaps):
            level = stacked[round(gap, 2)] = stacked.get(round(gap, 2), -1) + 1
            axes.plot(gap, -place + 0.07 * level, "o", color=COLOURS[0], markersize=3)
    axes.axvline(0, color="#444444", linewidth=0.8, zorder=0)
    axes.grid(axis="y", visible=False)
    axes.set_yticks([-place for place in range(len(rows))], [f"{name} ({len(gaps)})" for name, gaps in rows.items()])
    axes.set(xlabel="second minus first [points]", ylim=(-len(rows) + 0.4, 1.3))
