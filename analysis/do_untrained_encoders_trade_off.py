"""Do untrained encoders trade usability against probe generalization too?

Claim: "the tradeoff between probe generalization and usability also holds when the encoder is untrained"
(Appendix F.5, Figure 32).

Expected: of 16 untrained encoders 14 have both components; r -.85 (95 % interval -.95 to -.57) and tau -.63. Without
the one that is at chance on its own training images r stays -.85. But all of these encoders are near chance, so a lower
usability error leaves room for little else: part of the correlation is arithmetic.

Command: zoo study do_untrained_encoders_trade_off
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd
from matplotlib.figure import Figure as Drawing

from zoo.analysis.columns import Estimate
from zoo.analysis.correlations import correlate_columns
from zoo.analysis.table import StudyTable, study_table
from zoo.evaluation.drawing import COLOURS, Figure, draw_legend_below, make_figure
from zoo.results.rows import errata
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
from zoo.studies.tables import format_unsigned, label_risk_axis

COMPONENTS = ("usability", "probe_gen")
SERIES = "resnet50"  # untrained ones that differ in their dimensions only


def study(table: StudyTable, options: StudyOptions) -> Findings:
    """Usability against probe generalization of the untrained encoders, which the given table does not hold."""
    untrained = study_table("untrained", corrected=table.corrected, with_mine=table.with_mine)
    frame = untrained.complete(*COMPONENTS)
    mine = [encoder for encoder in frame.index if encoder in untrained.mine]
    own = f"{len(untrained) - len(untrained.mine)} published and {len(untrained.mine)} own"
    degenerate = sorted({erratum.encoder for erratum in errata() if erratum.kind == "degenerate"} & set(frame.index))
    sound = frame.drop(index=degenerate)
    series = frame[frame["architecture"] == SERIES].dropna(subset=["z_dim"]).sort_values("z_dim")
    related = {
        "all": _related(frame, "untrained encoders"),
        "sound": _related(sound, "untrained encoders above chance"),
    }
    total = correlate_columns(
        sound["train_test"],
        sound["probe_gen"],
        term="untrained encoders above chance",
        outcome="full-shot error with probe generalization",
    )
    return Findings(
        claims=claims.judged(related, degenerate),
        answer=answer_in_sentence(lambda: _answer(*related["all"])),
        estimates=[*related["all"], *related["sound"], *total],
        tables=[_relations([*related["all"], *related["sound"], *total]), _values(frame, mine)],
        figures=[
            Figure(
                name="figure32",
                title="Untrained encoders trade usability against probe generalization (Figure 32)",
                caption=f"Usability and probe generalization error of {len(frame)} randomly initialised encoders, in "
                f"percentage points, lower is better. The line joins ResNet-50s of {_dimensions(series)} dimensions.",
                draw=lambda: _draw(frame, degenerate, series, mine),
            )
        ],
        rows=[
            RowsUsed(part=f"untrained encoders, {own}", used=len(frame), left_out=untrained.n_left_out(*COMPONENTS)),
            RowsUsed(
                part=f"untrained encoders above chance, {own}",
                used=len(sound),
                left_out={
                    **untrained.n_left_out(*COMPONENTS),
                    **({"degenerate, says an erratum": len(degenerate)} if degenerate else {}),
                },
            ),
        ],
        notes=[*_series_note(series), *_arithmetic_note(sound, total[0])],
    )


def _answer(r: Estimate, tau: Estimate) -> str:
    return (
        f"{'Yes' if _negative(r) and _negative(tau) else 'Not beyond chance'}: over {r.n} untrained encoders "
        f"usability and probe generalization correlate by {format_statement(r)}, which is partly arithmetic near "
        "chance."
    )


def _related(frame: pd.DataFrame, term: str) -> tuple[Estimate, Estimate]:
    return correlate_columns(
        frame["usability"], frame["probe_gen"], term=term, outcome="usability with probe generalization"
    )


claims = Claims(source="Figure 32")
Related = Mapping[str, tuple[Estimate, Estimate]]  # Pearson and Kendall of "all" encoders, and of "sound" ones


@claims("Usability and probe generalization trade off when the encoder is untrained", paper="the tradeoff also holds")
def untrained_encoders_trade_off(related: Related, degenerate: Sequence[str]) -> ClaimAnswer:
    return _trade_off(*related["all"])


@claims("The tradeoff of untrained encoders does not rest on one that is at chance", paper="the tradeoff also holds")
def untrained_encoders_above_chance_trade_off(related: Related, degenerate: Sequence[str]) -> ClaimAnswer:
    return _trade_off(*related["sound"], without=degenerate)


def _trade_off(r: Estimate, tau: Estimate, *, without: Sequence[str] = ()) -> ClaimAnswer:
    return ClaimAnswer(
        ours=f"r {format_unsigned(r)}, tau {format_unsigned(tau)}, {r.n} encoders",
        holds=_negative(r) and _negative(tau),
        value=r.value,
        reason="the 95 % intervals of r or tau reach 0" + (f" without {' and '.join(without)}" if without else ""),
    )


def _negative(estimate: Estimate) -> bool:
    high = estimate.value if estimate.ci_high is None else estimate.ci_high  # no interval where the order is strict
    return high is not None and high < 0


def _series_note(series: pd.DataFrame) -> list[str]:
    if len(series) < 3:
        return []
    falls, rises = series["usability"].is_monotonic_decreasing, series["probe_gen"].is_monotonic_increasing
    how = "step by step" if falls and rises else "though not step by step"
    first, last = series.iloc[0], series.iloc[-1]
    return [
        f"Over the untrained {SERIES} of {_dimensions(series)} dimensions, which differ in the width of the last block "
        f"only, usability goes from {first['usability']:.1f} to {last['usability']:.1f} and probe generalization from "
        f"{first['probe_gen']:.1f} to {last['probe_gen']:.1f} points, {how}."
    ]


def _arithmetic_note(sound: pd.DataFrame, total: Estimate) -> list[str]:
    return [
        f"The components add up to an error near chance that spreads by {sound['train_test'].std():.1f} points only, "
        f"while usability spreads by {sound['usability'].std():.1f}; what one component loses another must gain, so a "
        "negative correlation is partly arithmetic. Probe generalization itself goes with the full-shot error by r "
        f"{format_unsigned(total)}.",
        "Encoders of one architecture share parts, so the points are fewer than they look.",
    ]


def _relations(estimates: list[Estimate]) -> FindingsTable:
    rows = [
        [one.term, one.outcome, one.method.partition(", ")[2], str(one.n), format_unsigned(one), f"{one.p:.1e}"]
        for one in estimates
    ]
    return FindingsTable(
        title="Correlations over untrained encoders",
        headers=["encoders", "of", "coefficient", "n", "value [95 % interval]", "p"],
        rows=rows,
    )


def _values(frame: pd.DataFrame, mine: list[str]) -> FindingsTable:
    columns = ["architecture_exact", "z_dim", "approx", "usability", "probe_gen", "enc_gen", "train_test"]
    shown = frame.sort_values("usability")[columns].reset_index()
    shown["z_dim"] = ["" if pd.isna(dimensions) else f"{dimensions:.0f}" for dimensions in shown["z_dim"]]
    return FindingsTable.of(
        "Untrained encoders",
        shown,
        note="Components in percentage points, full-shot error in percent."
        f"{' Yours: ' + ', '.join(mine) + '.' if mine else ''}",
    )


def _dimensions(series: pd.DataFrame) -> str:
    *others, last = [f"{value:.0f}" for value in series["z_dim"]] or ["no"]
    return f"{', '.join(others)} and {last}" if others else last


def _draw(frame: pd.DataFrame, degenerate: list[str], series: pd.DataFrame, mine: list[str]) -> Drawing:
    drawing, (axes,) = make_figure(width=4.6, height=3.2)
    axes.plot(series["usability"], series["probe_gen"], color="#AAAAAA", linewidth=0.8, zorder=1)
    for _, row in series.iterrows():
        axes.annotate(
            f"{row['z_dim']:.0f}", (row["usability"], row["probe_gen"]), (4, 3), textcoords="offset points", fontsize=6
        )
    sound = frame.drop(index=degenerate)
    names = {"resnet": "ResNet", "vit": "ViT", "convnext": "ConvNeXt"}
    for position, (family, rows) in enumerate(sound.groupby(sound["family"].fillna("unknown"))):
        axes.plot(
            rows["usability"],
            rows["probe_gen"],
            "os^D"[position % 4],
            color=COLOURS[position],
            label=f"{names.get(str(family), family)} ({len(rows)})",
        )
    if degenerate:
        rows = frame.loc[degenerate]
        axes.plot(
            rows["usability"],
            rows["probe_gen"],
            "X",
            color="#444444",
            markersize=6,
            label=f"at chance, says an erratum ({len(rows)})",
        )
    if mine:
        rows = frame.loc[mine]
        axes.plot(
            rows["usability"],
            rows["probe_gen"],
            "o",
            color="black",
            markersize=9,
            markerfacecolor="none",
            label=f"yours ({len(rows)})",
        )
    axes.set(
        xlabel=label_risk_axis("usability"),
        ylabel=label_risk_axis("probe_gen", lines=True),
    )
    draw_legend_below(drawing, axes, n_columns=3)
    return drawing
