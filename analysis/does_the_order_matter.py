"""Does it matter in which order the two generalization errors are taken?

Claim: the decomposition can also let the encoder generalize before the probe (Eq. 5), with a probe that was trained on
the validation images as well; its generalization errors are "highly related" to those of the main decomposition, and
"the relative ordering of models seems similar" (Appendix F.2, Figure 28).

Expected: for 10 encoders, r .98 and tau .87 for probe generalization, so it agrees; r -.14 and tau .02 for encoder
generalization, of which ten rows say nothing: without RotNet r is +.48, without SimCLR -.57.

Command: zoo study does_the_order_matter
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import cycle

import pandas as pd
from matplotlib.figure import Figure as Drawing
from scipy import stats

from zoo.analysis.columns import Estimate
from zoo.analysis.correlations import FEWEST_ENCODERS, HIGH, compare_pairs, correlate_columns, is_constant, is_high
from zoo.analysis.table import FEWEST, StudyTable
from zoo.errors import QueryError
from zoo.evaluation.drawing import COLOURS, Figure, draw_legend_below, make_figure, write_panel_letters
from zoo.studies.findings import (
    ClaimAnswer,
    Claims,
    Findings,
    FindingsTable,
    RowsUsed,
    answer_in_sentence,
    format_statement,
)
from zoo.studies.running import StudyOptions
from zoo.studies.tables import format_unsigned

COMPONENTS = {"probe": "probe generalization", "encoder": "encoder generalization"}
RISKS = ("train_train", "train-cmplmnt-ntest_train-sbst-ntest", "union_test", "train_test")


def study(table: StudyTable, options: StudyOptions) -> Findings:
    """Both orders on the encoders that have a probe trained on training and validation images."""
    both = _both_orders(table)
    if len(both) < FEWEST:
        raise QueryError(
            f"{len(both)} of the {len(table)} encoders of the table were measured in both orders, expected at least "
            f"{FEWEST} to compare; measure train plus val -> val for more."
        )
    related = {name: _related(both, name) for name in COMPONENTS}
    differences = [_difference(both, name) for name in COMPONENTS]
    return Findings(
        claims=[
            *(claim for name, words in COMPONENTS.items() for claim in of_an_order.judged(both, name, component=words)),
            *of_sizes.judged(both),
        ],
        answer=answer_in_sentence(lambda: _answer(*(r for r, _ in related.values()))),
        estimates=[*(one for pair in related.values() for one in pair), *differences],
        tables=[_values(both), _relations(both, related, differences)],
        figures=[
            Figure(
                name="figure28",
                title="Both orders of the generalization errors (Figure 28)",
                caption=f"Probe and encoder generalization of {len(both)} encoders by the main decomposition (Eq. 4) "
                "and by the alternative one (Eq. 5), in percentage points, lower is better. (a) Probe and (b) encoder "
                "generalization; on the dashed line both orders give the same. (c) Both on one scale: each arrow goes "
                "from the main to the alternative decomposition.",
                draw=lambda: _draw(both),
            )
        ],
        rows=[RowsUsed(part="Figure 28", used=len(both), left_out=_left_out(table))],
        notes=[
            "Both orders add up to the same error, so what one component loses in the alternative the other gains.",
            "The two encoder generalizations share no probe: one is the gap of a probe of the training images alone, "
            "the other that of a probe which has seen the validation images it is tested on.",
            f"{len(both)} encoders, chosen by the authors, can show a strong relation but cannot rule out a weak one.",
        ],
    )


def _answer(probe: Estimate, encoder: Estimate) -> str:
    matters = [r.outcome for r in (probe, encoder) if not is_high(r, sign=1)]
    return (
        f"{'For ' + ' and '.join(matters) if matters else 'No'}: over {probe.n} encoders both orders correlate by "
        f"{format_statement(encoder)} in encoder generalization, and by {format_statement(probe)} in probe "
        "generalization."
    )


def _both_orders(table: StudyTable) -> pd.DataFrame:
    """Generalization errors in percentage points: probe and encoder by Eq. 4, probe_alternative and so on by Eq. 5."""
    training, held_out, union, test = (table.frame[name] for name in RISKS)
    return pd.DataFrame(
        {
            "probe": held_out - training,  # R_AS - R_AF
            "encoder": test - held_out,  # R_US - R_AS
            "probe_alternative": test - union,  # R_US - R_UF
            "encoder_alternative": union - training,  # R_UF - R_AF
        }
    ).dropna()


def _left_out(table: StudyTable) -> dict[str, int]:
    return table.n_left_out("union_test", *(name for name in RISKS if name != "union_test"))


def _related(both: pd.DataFrame, name: str) -> tuple[Estimate, Estimate]:
    return correlate_columns(
        both[name],
        both[f"{name}_alternative"],
        term=f"{COMPONENTS[name]}, both orders",
        outcome=COMPONENTS[name],
        method="main and alternative decomposition",
    )


def _difference(both: pd.DataFrame, name: str) -> Estimate:
    return compare_pairs(
        both[f"{name}_alternative"] - both[name],
        outcome=COMPONENTS[name],
        term=f"{COMPONENTS[name]}, alternative minus main",
    ).mean


of_an_order = Claims(source="Appendix F.2")


@of_an_order("Both orders give highly related {component}", paper="highly related")
def both_orders_are_related(both: pd.DataFrame, name: str) -> ClaimAnswer:
    r, _ = _related(both, name)
    without = correlate_leaving_one_out(both[name], both[f"{name}_alternative"])
    moved = f"without {without.idxmax()} r is {without.max():+.2f}, without {without.idxmin()} {without.min():+.2f}"
    return _is_high(r, moved)


@of_an_order("Both orders rank encoders similarly by {component}", paper="similar relative ordering")
def both_orders_rank_alike(both: pd.DataFrame, name: str) -> ClaimAnswer:
    _, tau = _related(both, name)
    return _is_high(tau, "one order does not tell the ranks in the other")


def _is_high(one: Estimate, reason: str) -> ClaimAnswer:
    return ClaimAnswer(
        ours=f"{one.unit} {format_unsigned(one)} (high: at least {HIGH:g})",
        value=one.value,
        holds=is_high(one, sign=1),
        contradicted=not is_high(one, sign=1),
        reason=f"over all {one.n} encoders that were measured in both orders; {reason}",
    )


of_sizes = Claims(source="Appendix F.2")


@of_sizes(
    "Encoder generalization is small in absolute terms in the alternative order too", paper="small in absolute terms"
)
def encoder_generalization_is_small(both: pd.DataFrame) -> ClaimAnswer:
    smaller = both["encoder_alternative"] < both["probe_alternative"]
    return ClaimAnswer(
        ours=f"below probe generalization for {smaller.sum()} of {len(both)}, at most "
        f"{both['encoder_alternative'].max():.1f} points (small: below probe generalization)",
        holds=bool(smaller.all()),
        reason="it is above probe generalization for some",
    )


@of_sizes(
    "Encoder generalization is of similar size in both orders", source="caption of Figure 28", paper="similar results"
)
def encoder_generalization_is_of_similar_size(both: pd.DataFrame) -> ClaimAnswer:
    size = _difference(both, "encoder")
    return ClaimAnswer(
        ours=f"{both['encoder_alternative'].mean():.2f} instead of {both['encoder'].mean():.2f} points on average "
        "(similar: no significant difference)",
        holds=not _differs(size),
        contradicted=_differs(size),
        value=size.value,
        reason=f"they differ by {format_unsigned(size)} points; the alternative probe has seen its test "
        "images, and the paper calls its estimates worse",
    )


def _differs(estimate: Estimate) -> bool:
    return estimate.p is not None and estimate.p < 0.05


def _values(both: pd.DataFrame) -> FindingsTable:
    rows = [
        [str(encoder), *(f"{value:.2f}" for value in row)]
        for encoder, row in zip(both.index, both.to_numpy(), strict=True)
    ]
    return FindingsTable(
        title="Generalization errors in both orders, in percentage points",
        headers=["encoder", "probe (Eq. 4)", "encoder (Eq. 4)", "probe (Eq. 5)", "encoder (Eq. 5)"],
        rows=rows,
        note="Signed; lower is better. Eq. 5 takes a probe of training and validation images for R_UF.",
    )


def _relations(
    both: pd.DataFrame, related: Mapping[str, tuple[Estimate, Estimate]], differences: list[Estimate]
) -> FindingsTable:
    rows = []
    for (name, (r, tau)), difference in zip(related.items(), differences, strict=True):
        without = correlate_leaving_one_out(both[name], both[f"{name}_alternative"])
        rows.append(
            [
                COMPONENTS[name],
                format_unsigned(r),
                f"{without.min():.2f} to {without.max():.2f}",
                format_unsigned(tau),
                format_unsigned(difference),
                f"{difference.p:.3f}",
            ]
        )
    return FindingsTable(
        title=f"Main against alternative decomposition, {len(both)} encoders",
        headers=[
            "component", "Pearson r [95 % interval]", "r without one encoder", "Kendall tau [95 % interval]",
            "alternative - main [95 % interval]", "p, paired t",
        ],
        rows=rows,
        note="The difference in percentage points.",
    )  # fmt: skip


def _draw(both: pd.DataFrame) -> Drawing:
    drawing, axes = make_figure(height=5.2, n_rows=2, n_columns=2, height_ratios=[2.2, 1])
    first, second, third, spare = axes
    spare.remove()
    grid = third.get_gridspec()
    assert grid is not None
    third.set_subplotspec(grid[1, :])
    marks = dict(zip(both.index, cycle("os^DvPX<>*"), strict=False))
    colours = dict(zip(both.index, cycle((*COLOURS[:8], "#AAAAAA", "#8B0000")), strict=False))  # no yellow on white
    for panel, (name, words) in zip((first, second), COMPONENTS.items(), strict=True):
        other = f"{name}_alternative"
        ends = _limits(both[[name, other]])
        panel.plot(ends, ends, "--", color="#888888", linewidth=0.8)
        for encoder, row in both.iterrows():
            panel.plot(row[name], row[other], marks[encoder], color=colours[encoder], label=str(encoder))
        panel.set(
            xlabel=f"{words}, Eq. 4 [points]\nlower is better",
            xlim=ends,
            ylim=ends,
            aspect="equal",
            ylabel=f"{words}, Eq. 5 [points]\nlower is better",
        )
    for encoder, row in both.iterrows():
        start, end = (row["probe"], row["encoder"]), (row["probe_alternative"], row["encoder_alternative"])
        arrow = {"arrowstyle": "->", "color": colours[encoder], "lw": 0.9, "shrinkA": 0, "shrinkB": 0}
        third.annotate("", end, start, arrowprops=arrow)
        third.plot(*start, marks[encoder], color=colours[encoder], markersize=3)
    third.set(
        xlabel="probe generalization [points], lower is better",
        aspect="equal",
        ylabel="encoder gen.\n[points]",
        xlim=_limits(both[["probe", "probe_alternative"]]),
        ylim=_limits(both[["encoder", "encoder_alternative"]]),
    )
    write_panel_letters([first, second, third])
    draw_legend_below(drawing, first, n_columns=4)
    return drawing


def _limits(values: pd.DataFrame) -> tuple[float, float]:
    """From 0, or below the lowest, to above the highest: an annotation moves no limits by itself."""
    low, high = min(0.0, float(values.min().min())), float(values.max().max())
    return low - 0.08 * (high - low), high + 0.12 * (high - low)


def correlate_leaving_one_out(first: pd.Series[float], second: pd.Series[float]) -> pd.Series[float]:
    """Pearson's r without each row in turn, in the order of the index; shows whether one row makes a correlation."""
    pairs = pd.DataFrame({"first": first, "second": second}).dropna()
    if len(pairs) < FEWEST_ENCODERS:
        raise QueryError(f"Leaving out one row of {len(pairs)} leaves too few to correlate; expected at least 5.")
    without = {}
    for row in pairs.index:
        rest = pairs.drop(index=row)
        if any(is_constant(rest[name]) for name in rest):
            raise QueryError(f"Without {row}, one column of a correlation never varies; expected some spread.")
        without[row] = float(stats.pearsonr(rest["first"], rest["second"]).statistic)
    return pd.Series(without, dtype="float64", name="r")
