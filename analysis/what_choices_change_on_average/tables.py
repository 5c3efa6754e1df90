"""Tables and notes of the global linear analysis."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing
from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator
from statsmodels.regression.linear_model import OLS

from zoo.analysis.columns import OUTCOMES, Estimate, OutcomeColumn
from zoo.analysis.linear import PROJECTOR, LinearEffect, OlsFit, global_linear_effect
from zoo.analysis.table import StudyTable
from zoo.evaluation.drawing import (
    COMPONENT_COLOURS,
    MODE_COLOURS,
    SMALLEST,
    Figure,
    draw_legend_below,
    make_figure,
    plot_groups,
)
from zoo.studies.findings import FindingsTable, RowsUsed
from zoo.studies.tables import format_estimate, format_p_value, label_risk_axis


def overview_table(estimates: Sequence[Estimate], outcomes: Sequence[str], labels: Mapping[str, str]) -> FindingsTable:
    """One row per choice, one column per outcome: effect per doubling or per level, with the classical interval."""
    known = {(one.term, one.outcome): per_doubling(one) for one in estimates}
    shown = [term for term in labels if any((term, outcome) in known for outcome in outcomes)]
    cells = [
        [format_estimate(known[term, one], digits=2) if (term, one) in known else "" for one in outcomes]
        for term in shown
    ]
    return FindingsTable(
        title="Effects of main choices, others held equal",
        headers=["choice", *(OUTCOMES[one].label for one in outcomes)],
        rows=[[labels[term], *row] for term, row in zip(shown, cells, strict=True)],
        note="Percentage points with classical 95 % intervals, negative is better; 2x is a doubling.",
    )


def estimates_table(estimates: Sequence[Estimate], effects: Effects) -> FindingsTable:
    """One row an estimate, with both kinds of interval, the false-discovery rate and the size of the model."""
    size = {(term.term, found.outcome): found.fit for found in effects.values() for term in found.estimates}
    rows = []
    for raw in estimates:
        one, fit = per_doubling(raw), size[raw.term, raw.outcome]
        rows.append(
            [
                one.term.removeprefix("log(").removesuffix(")") if one.term.startswith("log(") else one.term,
                OUTCOMES[one.outcome].label,
                one.unit.partition(" per ")[2] or one.unit.removeprefix("percentage points "),
                format_estimate(one, digits=2),
                format_p_value(one.p),
                format_p_value(one.p_adjusted),
                _robust(one),
                format_p_value(one.p_robust),
                str(one.n),
                f"{fit.rank} of {fit.n_columns}",
                one.note,
            ]
        )
    return FindingsTable(
        title="All estimates of main choices",
        headers=[
            "term", "risk", "per", "effect [95 % interval]", "p", "false-discovery rate", "HC3 interval",
            "p, HC3 and t", "encoders", "rank of columns", "note",
        ],
        rows=rows,
        note="Percentage points, negative is better. False-discovery rate by Benjamini and Hochberg, over this table.",
    )  # fmt: skip


def artefact_table(artefacts: Mapping[str, Estimate]) -> FindingsTable:
    """What a pseudo-inverse says of a term that is not identified: one row a way to write the model."""
    term = next(iter(artefacts.values())).term
    return FindingsTable(
        title=f"What a pseudo-inverse says of {term}, which is not identified",
        headers=["how the model is written", "coefficient", "p"],
        rows=[[how, format_estimate(one), format_p_value(one.p)] for how, one in artefacts.items()],
        note="But for the second row it is one and the same model, and fits equally well.",
    )


def surviving_note(estimates: Sequence[Estimate]) -> str:
    """How many tests have a small false-discovery rate, and a small robust p-value too."""
    left = [one for one in estimates if one.p_adjusted is not None and one.p_adjusted < SIGNIFICANT]
    robust = [one for one in left if one.p_robust is not None and one.p_robust < SIGNIFICANT]
    return (
        f"Of {sum(one.p_adjusted is not None for one in estimates)} tests of main choices, {len(left)} have a "
        f"false-discovery rate below {SIGNIFICANT:.0%}, and {len(robust)} of these an HC3 p-value below it too."
    )


def fragile_notes(estimates: Sequence[Estimate]) -> list[str]:
    """Effects whose significance does not survive standard errors that allow for unequal variances, in a sentence."""
    lost = [
        f"{one.term} on {one.outcome} (p {format_p_value(one.p)}, HC3 {format_p_value(one.p_robust) or 'none'})"
        for one in estimates
        if one.p is not None and one.p < SIGNIFICANT and (one.p_robust is None or one.p_robust >= SIGNIFICANT)
    ]
    if not lost:
        return []
    return [f"Significant by the classical p-value, but not with HC3 standard errors: {', '.join(lost)}."]


def unidentified_notes(estimates: Sequence[Estimate]) -> list[str]:
    """One sentence a term that is not identified, with the outcomes."""
    notes: dict[str, list[str]] = {}
    for one in estimates:
        if one.value is None:
            notes.setdefault(f"{one.term} is {one.note}", []).append(one.outcome)
    return [f"{note} (models of {', '.join(outcomes)})." for note, outcomes in notes.items()]


def unanswered_notes(reasons: Mapping[tuple[str, str], str]) -> list[str]:
    """One sentence a choice without some effect, with the first reason; by (treatment, outcome)."""
    notes = []
    for treatment in dict.fromkeys(one for one, _ in reasons):
        outcomes = [outcome for one, outcome in reasons if one == treatment]
        notes.append(f"No effect of {treatment} on {', '.join(outcomes)}: {reasons[treatment, outcomes[0]]}")
    return notes


def rows_used(effects: Sequence[LinearEffect]) -> list[RowsUsed]:
    """Which rows each choice used, choices and outcomes with the same ones together."""
    models: dict[tuple[str, int, tuple[tuple[str, int], ...]], list[str]] = {}
    for found in effects:
        models.setdefault((found.treatment, found.used, tuple(_left_out(found).items())), []).append(found.outcome)
    together: dict[tuple[str, int, tuple[tuple[str, int], ...]], list[str]] = {}
    for (treatment, used, left_out), outcomes in models.items():
        together.setdefault((", ".join(dict.fromkeys(outcomes)), used, left_out), []).append(treatment)
    return [
        RowsUsed(part=f"{', '.join(treatments)} on {outcomes}", used=used, left_out=dict(left_out))
        for (outcomes, used, left_out), treatments in together.items()
    ]


def _left_out(found: LinearEffect) -> dict[str, int]:
    """Reasons in words that outcomes share."""
    return {reason.replace(f"{found.outcome} ", "outcome ", 1): number for reason, number in found.left_out.items()}


GENERATIVE = "ssl_mode[generative]"
_NONE = {PROJECTOR: "none"}


def pseudo_inverse(fit: OlsFit, term: str, *, shifts: Mapping[str, float] | None = None) -> Estimate:
    """What a program that takes the pseudo-inverse of a design says of a term, identified or not.

    It is here to show where a published number comes from; ``shifts`` are subtracted from columns first.
    """
    matrix = fit.design.assign(**{name: fit.design[name] - shift for name, shift in (shifts or {}).items()})
    # within the row space, of known dimension, statsmodels' own fit has full rank: no cut at some tiny singular value
    row_space = np.linalg.svd(matrix.to_numpy(), full_matrices=False)[2][: fit.rank].T  # (n_columns, rank)
    results = OLS(fit.results.model.endog, matrix.to_numpy() @ row_space).fit()
    test = results.t_test(row_space[matrix.columns.get_loc(term)])
    low, high = test.conf_int(alpha=0.05)[0]
    known = {estimate.term: estimate for estimate in fit.estimates}
    label = known.get(term) or Estimate(term=term, value=None, n=fit.n, unit="")
    return replace(
        label,
        value=float(test.effect[0]),
        ci_low=float(low),
        ci_high=float(high),
        p=float(test.pvalue),
        ci_low_robust=None,
        ci_high_robust=None,
        p_robust=None,
        method="pseudo-inverse",
        note="an artefact: the rows do not identify it" if term in fit.not_identified else "",
    )


def generative_artefacts(table: StudyTable) -> dict[str, Estimate]:
    """What a pseudo-inverse says of generative objectives and usability, by how the model is written.

    All generative encoders, and no others, lack a projector, so that the printed effect is not identified.
    """
    plain = global_linear_effect(table, "ssl_mode", "usability")
    if GENERATIVE not in plain.fit.not_identified or f"{PROJECTOR}[none]" not in plain.fit.design:
        return {}
    none = global_linear_effect(table, "ssl_mode", "usability", references=_NONE)
    first = global_linear_effect(
        table, "ssl_mode", "usability", references=_NONE, projectors=("projection1_arch", "projection2_arch")
    )
    return {
        "none as reference level": pseudo_inverse(none.fit, GENERATIVE),
        "the same with first projectors": pseudo_inverse(first.fit, GENERATIVE),
        "none as reference level, years counted from 2000": pseudo_inverse(none.fit, GENERATIVE, shifts={"year": 2000}),
        "none as reference level, years counted from 2010": pseudo_inverse(none.fit, GENERATIVE, shifts={"year": 2010}),
        f"{plain.references[PROJECTOR]} as reference level": pseudo_inverse(plain.fit, GENERATIVE),
    }


def artefact_records(artefacts: Mapping[str, Estimate]) -> list[Estimate]:
    """The same as records without interval and p-value, whose terms say what they are."""
    return [
        one.described(
            term=f"pseudo-inverse of {one.term}, {how}",
            p=None,
            ci_low=None,
            ci_high=None,
            note=f"{one.note}; a pseudo-inverse prints p {one.p:.2g}".removeprefix("; "),
        )
        for how, one in artefacts.items()
    ]


_ROBUST = "#222222"
_GAP = 0.17  # between both intervals of a row, in rows
_ROW_INCHES = 0.225
_TICKS_FROM = 4  # least exponent of 2 that an axis of dimensions is labelled at
Effects = Mapping[tuple[str, str], LinearEffect]  # (treatment, outcome)
SIGNIFICANT = 0.05
_MLP, _LINEAR = "projection2_arch[mlp]", "projection2_arch[linear]"
CHOICES = {  # term -> words, in the order of figure and table
    "log(z_dim)": "2x dimensions",
    "log(n_parameters)": "2x parameters",
    "family[vit]": "ViT (vs ResNet)",
    "log(patch_size)": "2x patch size",
    "log(nviews)": "2x views",
    "log(n_augmentations)": "2x augmentations",
    "log(epochs)": "2x epochs",
    "log(batch_size)": "2x batch size",
    _LINEAR: "linear projector (vs none)",
    _MLP: "MLP projector (vs none)",
    "log(projection_nparameters_hidden)": "2x hidden projector",
    "ssl_mode[contrastive]": "contrastive (vs clustering)",
    "ssl_mode[siamese]": "siamese (vs clustering)",
    "ssl_mode[hierarchical]": "hierarchical (vs clustering)",
    "ssl_mode[generative]": "generative (vs clustering)",
    "ssl_mode[transform]": "transform (vs clustering)",
    "optimizer[adam]": "Adam (vs SGD)",
    "optimizer[adamw]": "AdamW (vs SGD)",
    "optimizer[lars]": "LARS (vs SGD)",
}


def per_doubling(estimate: Estimate) -> Estimate:
    """The effect of doubling a number instead of one unit of its natural logarithm; other effects stay as they are.

    >>> per_doubling(Estimate(term="log(z_dim)", value=-4.0, n=9, unit="percent per unit of log(z_dim)")).unit
    'percent per doubling of z_dim'
    """
    if not estimate.term.startswith("log("):
        return estimate
    column = estimate.term.removeprefix("log(").removesuffix(")")

    def scaled(number: float | None) -> float | None:
        return None if number is None else number * math.log(2)

    return replace(
        estimate,
        value=scaled(estimate.value),
        ci_low=scaled(estimate.ci_low),
        ci_high=scaled(estimate.ci_high),
        ci_low_robust=scaled(estimate.ci_low_robust),
        ci_high_robust=scaled(estimate.ci_high_robust),
        unit=estimate.unit.replace(f"per unit of {estimate.term}", f"per doubling of {column}"),
    )


def effect_figure(
    estimates: Sequence[Estimate], outcomes: Sequence[OutcomeColumn], labels: Mapping[str, str]
) -> Figure:
    """Every effect on every component, with classical and robust intervals."""
    rows = sorted({one.n for one in estimates if one.outcome in {outcome.column for outcome in outcomes}})
    n = f"{rows[0]} to {rows[-1]}" if len(rows) > 1 else f"{rows[0]}" if rows else "no"
    return Figure(
        name="effects_on_components",
        title="What main choices change on average, others held equal",
        caption="Effect on each component in percentage points, negative is better: of doubling a number (2x), or of "
        "one level against another. Global linear analysis: one model a choice and a component, with the other "
        f"choices, data and origin of the encoder as controls; {n} encoders. Dots and thick lines: estimates with "
        "classical 95 % intervals; thin dark lines below them: 95 % intervals with heteroscedasticity-robust (HC3) "
        "standard errors. Panels differ in scale.",
        draw=partial(draw_effects, [per_doubling(one) for one in estimates], outcomes, labels),
    )


def draw_effects(
    estimates: Sequence[Estimate], outcomes: Sequence[OutcomeColumn], labels: Mapping[str, str]
) -> Drawing:
    """One column of panels an outcome, one row per term: doublings above, levels below on a scale of their own."""
    known = {(one.term, one.outcome): one for one in estimates}
    shown = [term for term in labels if any((term, outcome.column) in known for outcome in outcomes)]
    parts = [[term for term in shown if term.startswith("log(") is doubled] for doubled in (True, False)]
    parts = [part for part in parts if part]
    drawing, panels = make_figure(
        n_rows=max(len(parts), 1),
        n_columns=len(outcomes),
        height=1.5 + _ROW_INCHES * (len(shown) + 1),
        sharey="row",
        gridspec_kw={"height_ratios": [len(part) for part in parts] or [1]},
    )
    for row, part in enumerate(parts):
        band = panels[row * len(outcomes) : (row + 1) * len(outcomes)]
        for axes, outcome in zip(band, outcomes, strict=True):
            _draw_panel(axes, [known.get((term, outcome.column)) for term in part], COMPONENT_COLOURS[outcome.column])
            axes.set_xlabel("\n".join([*outcome.label.split(" "), "[points]"]))
        band[0].set_yticks(range(len(part)), [labels[term] for term in part])
    handles = [
        Line2D([], [], color="#777777", marker="o", markersize=3.5, linewidth=2.0, label="classical 95 % interval"),
        Line2D([], [], color=_ROBUST, marker="|", markersize=3.2, linewidth=0.9, label="HC3 95 % interval"),
    ]
    drawing.legend(
        handles=handles, loc="outside lower center", ncols=2, title="Change of the error component; negative is better"
    )
    return drawing


def _draw_panel(axes: Axes, estimates: Sequence[Estimate | None], colour: str) -> None:
    axes.axvline(0.0, color="#888888", linewidth=0.8, zorder=1)
    for row, estimate in enumerate(estimates):
        if row % 2:
            axes.axhspan(row - 0.5, row + 0.5, color="#F5F5F5", zorder=0, linewidth=0)
        if estimate is not None:
            _draw_row(axes, row, estimate, colour)
    axes.set_ylim(len(estimates) - 0.4, -0.6)
    axes.grid(axis="y", visible=False)
    axes.tick_params(axis="y", length=0)
    axes.margins(x=0.06)


def _draw_row(axes: Axes, row: int, estimate: Estimate, colour: str) -> None:
    if estimate.value is None:
        axes.text(
            0.0,
            row,
            "not identified",
            ha="center",
            va="center",
            fontsize=SMALLEST,
            color="#555555",
            style="italic",
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6},
        )
        return
    axes.plot([estimate.value], [row - _GAP], "o", color=colour, markersize=3.5, zorder=4)
    if estimate.ci_low is not None and estimate.ci_high is not None:
        axes.plot(
            [estimate.ci_low, estimate.ci_high],
            [row - _GAP] * 2,
            color=colour,
            linewidth=2.0,
            zorder=3,
            solid_capstyle="butt",
        )
    if estimate.ci_low_robust is not None and estimate.ci_high_robust is not None:
        axes.plot(
            [estimate.ci_low_robust, estimate.ci_high_robust],
            [row + _GAP] * 2,
            color=_ROBUST,
            linewidth=0.9,
            marker="|",
            markersize=3.2,
            zorder=3,
        )


def rank_figure(table: StudyTable) -> Figure | None:
    """Figure 19b: usability over the effective dimensionality; None if no encoder has both."""
    both = table.frame[["train_rank", "usability", "ssl_mode"]].dropna()
    both = both[both["train_rank"] > 0]  # the axis is logarithmic, as the analysis is
    if both.empty:
        return None
    return Figure(
        name="effective_dimensionality",
        title="Usability over effective dimensionality (Figure 19b)",
        caption="Usability error in percentage points (lower is better) over the effective dimensionality of the "
        f"representation, the rank of the correlations of its dimensions; {len(both)} encoders by type of objective.",
        draw=partial(
            draw_rank,
            both["train_rank"].tolist(),
            both["usability"].tolist(),
            both["ssl_mode"].tolist(),
        ),
    )


def draw_rank(ranks: Sequence[float], usability: Sequence[float], modes: Sequence[str]) -> Drawing:
    """Points by type of objective; the types in the order of their colours, others after them."""
    order = [*(mode for mode in MODE_COLOURS if mode in modes), *sorted(set(modes) - set(MODE_COLOURS))]
    places = sorted(range(len(modes)), key=lambda place: order.index(modes[place]))
    drawing, (axes,) = make_figure(width=4.6, height=3.4)
    plot_groups(
        axes,
        [ranks[place] for place in places],
        [usability[place] for place in places],
        [modes[place] for place in places],
        colours=MODE_COLOURS,
        size=20.0,
    )
    axes.set_xscale("log", base=2)
    low, high = math.floor(math.log2(min(ranks))), math.ceil(math.log2(max(ranks)))
    ticks = [2**exponent for exponent in range(min(low, _TICKS_FROM), high + 1)]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlim(min(ranks) / 1.25, max(ranks) * 1.25)
    axes.set_xlabel("Effective dimensionality [dimensions, doubling scale]")
    axes.set_ylabel(label_risk_axis("usability", lines=True))
    draw_legend_below(drawing, axes, n_columns=3, title="Type of objective (encoders)")
    return drawing


def _robust(one: Estimate) -> str:
    if one.ci_low_robust is None or one.ci_high_robust is None:
        return ""
    return f"[{one.ci_low_robust:+.2f}, {one.ci_high_robust:+.2f}]"
