"""Tables of the controlled analysis: effects by choice and risk, and what repeating rows does to them."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing
from matplotlib.lines import Line2D

from zoo.analysis.columns import OUTCOMES, Estimate
from zoo.analysis.controlled import CORE_COLUMNS, VARIED_TOGETHER, ControlledEffect, find_controlled_groups
from zoo.analysis.table import StudyTable
from zoo.evaluation.drawing import (
    COLOURS,
    FULL_WIDTH,
    MARKS,
    Figure,
    draw_legend_below,
    make_figure,
    write_panel_letters,
)
from zoo.studies.findings import FindingsTable, RowsUsed
from zoo.studies.tables import format_effect_unit, format_p_value, label_risk_axis


def overview_table(effects: Sequence[ControlledEffect], outcomes: Sequence[str]) -> FindingsTable:
    """One row per choice, one column per risk: coefficient, p-value, encoders in groups."""
    cells: dict[tuple[str, str], dict[str, str]] = {}
    for found in effects:
        for estimate in found.estimates:
            size = f"{found.n_encoders} in {found.n_groups}"
            cells.setdefault((found.treatment, format_effect_unit(estimate)), {})[found.outcome] = (
                f"{short(estimate)}; {size}"
            )
    return FindingsTable(
        title="What each choice changes, all others equal",
        headers=["choice", "contrast", *(OUTCOMES[outcome].label for outcome in outcomes)],
        rows=[
            [treatment, contrast, *(row.get(one, "") for one in outcomes)]
            for (treatment, contrast), row in cells.items()
        ],
        note="Percentage points; negative is better. After the semicolon: encoders in groups. Empty: too few.",
    )


def estimates_table(effects: Sequence[ControlledEffect], estimates: Sequence[Estimate]) -> FindingsTable:
    """One row an estimate, with both kinds of interval and the false-discovery rate."""
    groups = [found.n_groups for found in effects for _ in found.estimates]
    rows = []
    for estimate, n_groups in zip(estimates, groups, strict=True):
        rows.append(
            [
                estimate.term,
                OUTCOMES[estimate.outcome].label,
                format_effect_unit(estimate),
                _number(estimate.value),
                _interval(estimate.ci_low, estimate.ci_high),
                format_p_value(estimate.p),
                format_p_value(estimate.p_adjusted),
                _interval(estimate.ci_low_robust, estimate.ci_high_robust),
                format_p_value(estimate.p_robust),
                str(estimate.n),
                str(n_groups),
                estimate.note,
            ]
        )
    return FindingsTable(
        title="All controlled estimates",
        headers=[
            "term", "risk", "contrast", "effect", "95 % interval", "p", "false-discovery rate", "HC3 interval",
            "p, HC3 and t", "encoders", "groups", "note",
        ],
        rows=rows,
        note="Effects in percentage points; false-discovery rate by Benjamini and Hochberg, over all of this table.",
    )  # fmt: skip


def repetition_table(pairs: Sequence[tuple[ControlledEffect, ControlledEffect]]) -> FindingsTable:
    """Each encoder once next to the rows as the published code repeated them."""
    rows = []
    for once, repeated in pairs:
        for estimate in once.estimates:
            level = estimate.term.partition("[")[2].removesuffix("]") or None
            other = repeated.estimate(level)
            rows.append(
                [
                    estimate.term,
                    OUTCOMES[once.outcome].label,
                    _number(estimate.value),
                    format_p_value(estimate.p),
                    str(once.n_encoders),
                    str(once.fit.residual_df),
                    _number(other.value),
                    format_p_value(other.p),
                    f"{repeated.fit.n} of {repeated.n_encoders}",
                    str(repeated.fit.residual_df),
                ]
            )
    return FindingsTable(
        title="Each encoder once, and rows repeated as the published code did",
        headers=[
            "term", "risk", "effect", "p", "encoders", "residual df", "effect, repeated", "p, repeated",
            "rows of encoders, repeated", "residual df, repeated",
        ],
        rows=rows,
        note="The repeated rows are of encoders with every component, once for each column that varies in their group.",
    )  # fmt: skip


def rows_used(effects: Sequence[ControlledEffect]) -> list[RowsUsed]:
    """Which rows each choice used, risks with the same ones together."""
    together: dict[tuple[object, ...], list[ControlledEffect]] = {}
    for found in effects:
        missing = found.left_out.get(f"{found.outcome} missing", 0)
        together.setdefault((found.treatment, found.n_encoders, missing), []).append(found)
    rows = []
    for alike in together.values():
        first = alike[0]
        left_out = dict(first.left_out)
        if missing := left_out.pop(f"{first.outcome} missing", 0):
            left_out = {"the risk is missing": missing, **left_out}
        risks = ", ".join(OUTCOMES[found.outcome].label.lower() for found in alike)
        rows.append(RowsUsed(part=f"{first.treatment} ({risks})", used=first.n_encoders, left_out=left_out))
    return rows


def short(estimate: Estimate) -> str:
    """ "-3.82 (p 2e-04)", or why there is no such number."""
    if estimate.value is None:
        return "not identified"
    return _number(estimate.value) + (
        f" (p {format_p_value(estimate.p)})" if estimate.p is not None else " (exact fit)"
    )


def _number(value: float | None) -> str:
    return "" if value is None else f"{value + 0.0:.2f}".replace("-0.00", "0.00")


def _interval(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f"{low:.2f} to {high:.2f}"


_OBJECTIVES = {
    "barlow_twins": "Barlow Twins", "beit": "BEiT", "byol": "BYOL", "clip": "CLIP", "clip+eb": "CLIP + bottleneck",
    "clusterfit": "ClusterFit", "deepcluster": "DeepCluster", "densecl": "DenseCL", "dino": "DINO", "dissl": "DISSL",
    "ibot": "iBOT", "jigsaw": "Jigsaw", "locnet": "LocNet", "mae": "MAE", "moco": "MoCo", "msn": "MSN", "mugs": "MUGS",
    "npid": "NPID", "odc": "ODC", "pirl": "PIRL", "rotnet": "RotNet", "sela": "SeLa", "simclr": "SimCLR",
    "simsiam": "SimSiam", "speccl": "SpecCL", "swav": "SwAV", "vicreg": "VICReg", "vicregl": "VICRegL",
}  # fmt: skip
_SAID = {  # words for a choice in which groups differ, those that readers know best first
    "epochs": "{} epochs",
    "nviews": "{} views",
    "projection2_arch": "{} projector",
    "batch_size": "batches of {}",
    "z_dim": "{} dimensions",
    "pretraining_data": "{}",
    "n_augmentations": "{} augmentations",
    "img_size": "{} px",
    "year": "{}",
    "other": "{}",
}
_LEVELS = {"identity": "none", "mlp": "MLP", "ImageNet-1K": "ImageNet-1k", "ImageNet-22K": "ImageNet-22k"}
_COLOURS = COLOURS[:8]  # without yellow, which is faint as a line
_TICK_INCHES = 0.33  # from one number below an axis to the next


_TWO, _THREE = ("usability", "probe_gen"), ("usability", "probe_gen", "enc_gen")
_FIGURES = (  # name, title, treatment, outcomes, label of the axis
    ("views", "Number of views, all else equal (Figure 9b)", "nviews", _TWO, "Number of views of an image"),
    ("projector", "Projection head, all else equal (Figure 11)", "projection2_arch", _TWO, "Projection head"),
    ("dimensions", "Dimensions, all else equal (Figure 19a)", "z_dim", _TWO, "Representation [dimensions]"),
    ("imagenet22k", "Pretraining data, all else equal (Figure 21)", "pretraining_data", _THREE, "Pretraining data"),
    ("epochs", "Epochs, all else equal (Figure 25)", "epochs", _THREE, "Pretraining [epochs]"),
)


@dataclass(frozen=True, slots=True)
class Members:
    """The encoders that a figure of a treatment shows."""

    treatment: str
    outcomes: tuple[str, ...]
    frame: pd.DataFrame  # index "enc"; columns "group" (in words), the varied ones, the outcomes
    groups: tuple[str, ...]  # words, in the order of the table

    def panel(self, outcome: str) -> pd.DataFrame:
        """The rows of one panel: groups in which the treatment varies among those that have the outcome."""
        return _varying(self.frame.dropna(subset=[outcome]), self.treatment)

    def counts(self) -> str:
        """How many encoders in how many groups, for a caption."""
        parts = [(len(rows), rows["group"].nunique()) for rows in (self.panel(one) for one in self.outcomes)]
        if len(set(parts)) == 1:
            return f"{parts[0][0]} encoders in {parts[0][1]} groups"
        words = [OUTCOMES[outcome].label.lower() for outcome in self.outcomes]
        return ", ".join(f"{n} encoders in {k} groups ({word})" for (n, k), word in zip(parts, words, strict=True))


def controlled_figures(table: StudyTable) -> list[Figure]:
    """Figures 8, 9b, 11, 19a, 21 and 25 of the paper, those of which the table has a group."""
    figures = []
    vits = table.only(table.frame.index[table.frame["family"] == "vit"], because="no ViT")
    networks = members_of(vits, "z_dim", _TWO, all_of_them=True)
    if networks.groups:
        figures.append(
            Figure(
                name="same_network",
                title="Representations of the same ViT (Figure 8)",
                caption="Probe generalization error over usability error, in percentage points (lower is better), of "
                f"representations of the same network, joined by a line: {networks.counts()}. The larger a dot, the "
                "more dimensions: tokens and layers that are concatenated, or a projection.",
                draw=partial(representations_of_one_network, networks),
            )
        )
    for name, title, treatment, outcomes, label in _FIGURES:
        members = members_of(table, treatment, outcomes)
        if members.groups:
            figures.append(
                Figure(
                    name=name,
                    title=title,
                    draw=partial(lines_of_groups, members, x_label=label),
                    caption="Errors in percentage points, lower is better; a line joins encoders that are equal in "
                    f"every other core choice: {members.counts()}.",
                )
            )
    return figures


def members_of(table: StudyTable, treatment: str, outcomes: Sequence[str], *, all_of_them: bool = False) -> Members:
    """The groups in which a treatment varies, with the outcomes; of encoders that have any or ``all_of_them``."""
    varied = VARIED_TOGETHER.get(treatment, (treatment,))
    groups = find_controlled_groups(table, varied)
    frame = groups.drop(columns="n_varying").join(table.frame[list(outcomes)])
    frame = frame.dropna(subset=list(outcomes), how="any" if all_of_them else "all").dropna(subset=[treatment])
    if table.column(treatment).is_number:
        frame = frame[frame[treatment] > 0]  # the axis is logarithmic, as the analysis is
    frame = _varying(frame, treatment)
    words = group_words(table, list(dict.fromkeys(frame["group"])), varied)
    frame["group"] = frame["group"].map(words).astype(object)
    return Members(treatment, tuple(outcomes), frame, tuple(words.values()))


def group_words(table: StudyTable, groups: Sequence[str], varied: Sequence[str]) -> dict[str, str]:
    """Words for groups, "SimCLR, ResNet-50, 100 epochs": no more choices than it takes to tell them apart."""
    fixed = [name for name in CORE_COLUMNS if name not in varied]
    reasons = table.why_missing.loc[list(groups), fixed]
    cells = table.frame.loc[list(groups), fixed].astype(object).mask(reasons != "", reasons)
    words = {group: _base_words(dict(cells.loc[group])) for group in groups}
    for column in sorted(fixed, key=lambda name: list(_SAID).index(name) if name in _SAID else len(_SAID)):
        for text in sorted(set(words.values())):
            alike = [group for group in groups if words[group] == text]
            if cells.loc[alike, column].nunique() > 1:
                words |= {group: f"{text}, {_said(table, column, cells.at[group, column])}" for group in alike}
    return words


def lines_of_groups(members: Members, *, x_label: str, legend_columns: int = 3) -> Drawing:
    """One panel an outcome: its value over the treatment, the encoders of a group joined by a line."""
    n_rows = math.ceil(len(members.groups) / legend_columns)
    n_panels = len(members.outcomes)
    drawing, panels = make_figure(n_columns=n_panels, height=2.5 + 0.15 * n_rows, sharex=True)
    levels = _levels(members)
    for axes, outcome in zip(panels, members.outcomes, strict=True):
        rows = members.panel(outcome)
        for group, look in _looks(members.groups).items():
            own = rows[rows["group"] == group]
            x = own[members.treatment].map(levels.index) if levels else own[members.treatment]
            order = x.sort_values(kind="stable").index
            axes.plot(x[order].astype(float), own.loc[order, outcome], label=group, **look)
        axes.set_ylabel(f"{OUTCOMES[outcome].label} [points]")
        axes.set_xlabel(x_label)
        if levels:
            axes.set_xticks(range(len(levels)), [_LEVELS.get(level, level) for level in levels])
            axes.set_xlim(-0.35, len(levels) - 0.65)
        else:
            _number_ticks(axes, members.frame[members.treatment].unique().tolist(), FULL_WIDTH / n_panels - 0.7)
    write_panel_letters(panels)
    draw_legend_below(drawing, panels[0], n_columns=legend_columns, title="Lower is better", handlelength=3.0)
    return drawing


def representations_of_one_network(members: Members) -> Drawing:
    """Probe generalization over usability of representations of one network; areas are dimensions."""
    drawing, (axes,) = make_figure(width=5.2, height=4.2)
    per_dimension = 130.0 / members.frame["z_dim"].max()
    for group, look in _looks(members.groups).items():
        own = members.frame[members.frame["group"] == group].sort_values("z_dim", kind="stable")
        axes.plot(own["usability"], own["probe_gen"], color=look["color"], linewidth=0.8, linestyle=look["linestyle"])
        axes.scatter(
            own["usability"],
            own["probe_gen"],
            s=own["z_dim"] * per_dimension,
            color=look["color"],
            alpha=0.8,
            edgecolors="white",
            linewidths=0.4,
            zorder=3,
        )
    axes.set_xlabel(label_risk_axis("usability"))
    axes.set_ylabel(label_risk_axis("probe_gen"))
    axes.margins(0.08)
    handles = [
        Line2D([], [], linestyle="", marker="o", color=look["color"], label=group, markersize=5)
        for group, look in _looks(members.groups).items()
    ]
    drawing.legend(handles=handles, loc="outside lower center", ncols=3)
    sizes = _thinned(sorted(members.frame["z_dim"].unique()), 4)
    dots = [axes.scatter([], [], s=size * per_dimension, color="#888888", label=f"{size:g}") for size in sizes]
    axes.legend(handles=dots, title="Dimensions", loc="upper right", labelspacing=0.9)
    return drawing


def _varying(frame: pd.DataFrame, treatment: str) -> pd.DataFrame:
    return frame[frame.groupby("group")[treatment].transform("nunique") > 1].copy()


def _levels(members: Members) -> list[str]:
    """Levels of a categorical treatment, in the order of the axis; none for a number."""
    cells = members.frame[members.treatment]
    return [] if pd.api.types.is_float_dtype(cells) else sorted(cells.astype(str).unique())


def _looks(groups: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Colour, mark and line of each group: filled and solid first, then hollow and dashed."""
    looks: dict[str, dict[str, Any]] = {}
    for position, group in enumerate(groups):
        colour, again = _COLOURS[position % len(_COLOURS)], position // len(_COLOURS)
        looks[group] = {
            "color": colour,
            "marker": MARKS[position % len(MARKS)],
            "linestyle": ("-", "--", ":")[again % 3],
            "markerfacecolor": "white" if again else colour,
            "markeredgecolor": colour,
        }
    return looks


def _number_ticks(axes: Axes, values: Sequence[float], inches: float) -> None:
    """A logarithmic axis whose ticks are values that occur, as far apart as their labels need."""
    axes.set_xscale("log")
    known = sorted(float(value) for value in values)
    span = math.log(known[-1] / known[0])
    shown = [known[0]]
    for value in known[1:]:
        if math.log(value / shown[-1]) * inches / span >= _TICK_INCHES:
            shown.append(value)
    axes.set_xticks(shown, [f"{value:g}" for value in shown])
    axes.minorticks_off()


def _thinned(values: Sequence[float], n: int) -> list[float]:
    """At most ``n`` of some values, from the first to the last."""
    if len(values) <= n:
        return list(values)
    return [values[round(step * (len(values) - 1) / (n - 1))] for step in range(n)]


def _base_words(cells: dict[str, object]) -> str:
    parts = []
    if "objective" in cells:
        name, version = str(cells["objective"]), cells.get("version", 1.0)
        number = f" v{version:g}" if isinstance(version, float) and version > 1 else ""
        parts.append(_OBJECTIVES.get(name, name) + number)
    if "architecture" in cells:
        parts.append(_architecture(str(cells["architecture"]), cells.get("patch_size")))
    return ", ".join(parts) or "Encoders"


def _architecture(name: str, patch_size: object) -> str:
    """
    >>> _architecture("vitb", 16.0), _architecture("resnet50w2", 7.0), _architecture("convnextxl", 4.0)
    ('ViT-B/16', 'ResNet-50 w2', 'ConvNeXt-XL')
    """
    if found := re.fullmatch(r"resnet(\d+)(w\d+)?", name):
        return f"ResNet-{found[1]}{' ' + found[2] if found[2] else ''}"
    if found := re.fullmatch(r"vit([a-z]+)", name):
        size = found[1] if found[1] == "g" else found[1].upper()
        return f"ViT-{size}/{patch_size:g}" if isinstance(patch_size, float) else f"ViT-{size}"
    if found := re.fullmatch(r"convnext([a-z]+)", name):
        return f"ConvNeXt-{found[1].upper()}"
    return name


def _said(table: StudyTable, column: str, value: object) -> str:
    """One choice in words: "100 epochs", "no second projector"."""
    label = table.column(column).label
    if value == "not applicable":
        return f"no {label}"
    if value == "not published":
        return f"unknown {label}"
    shown = f"{value:g}" if isinstance(value, float) else {"mlp": "MLP"}.get(str(value), str(value))
    return _SAID.get(column, f"{label} {{}}").format(shown)
