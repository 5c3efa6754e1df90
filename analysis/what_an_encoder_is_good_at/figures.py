"""Radars of encoders: one small picture a profile, all on the same scale, and pages of them.

Every axis runs from the worst encoder of the reference in the centre to its best at the rim. An axis that was not
measured has no corner: the area next to it stays empty instead of running through the centre.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from zoo.analysis.table import StudyTable
from zoo.evaluation.drawing import FULL_WIDTH, MODE_COLOURS, SMALLEST, Figure, new_figure
from zoo.optional import requires_extra

from .profiles import AXES, Profiles

with requires_extra("study", needed_for="A radar"):
    from matplotlib.lines import Line2D

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing


LABELS = {
    "train_test": "Full-shot",
    "enc_gen": "Encoder\ngen.",
    "probe_gen": "Probe\ngen.",
    "usability": "Usability",
    "approx": "Approx.",
}
ASSUMED = "approx_is_assumed"
PER_PAGE = 35  # radars of a page: 5 columns of 7
_SHORT = {"train_test": "F", "enc_gen": "E", "probe_gen": "P", "usability": "U", "approx": "A"}
_UNKNOWN, _RIM = "#999999", "#BBBBBB"


@dataclass(frozen=True, slots=True, kw_only=True)
class Radar:
    """One profile to draw."""

    title: str
    places: Mapping[str, float]  # axis -> 0 worst to 1 best; NaN where it was not measured
    colour: str = "#444444"
    assumed: frozenset[str] = frozenset()  # axes whose place is an assumption rather than a measurement


def average_radar(profiles: Profiles) -> Radar:
    """The mean of the encoders that have every axis."""
    mean = {str(axis): place for axis, place in profiles.average().items()}
    return Radar(title=f"average of {len(profiles.reference)}", places=mean)


def figure_1(table: StudyTable, profiles: Profiles, chosen: Sequence[str], average: Radar, *, asked: bool) -> Figure:
    """The average and the chosen encoders, or those of the paper where a user asked for none."""
    radars = [average, *(_radar(table, profiles, encoder) for encoder in chosen)]
    return Figure(
        name="figure1",
        title="Chosen encoders" if asked else "What encoders are good at (Figure 1)",
        caption=f"Each axis from the worst encoder (centre) to the best (rim) of {len(profiles.reference)}; farther "
        "out is better. Dashed: half way. Full-shot is the error of the linear probe on ImageNet-1K, the others are "
        "its components; a hollow corner is an approximation error that was assumed to be 0. Colours are types of "
        "objective.",
        draw=partial(radar_row, radars, legend=_modes(table, chosen)),
        data=partial(radar_data, radars),
    )


def figure_26(table: StudyTable, profiles: Profiles, complete: Sequence[str], average: Radar) -> list[Figure]:
    """Every encoder that has all axes, in pages."""
    ordered = sorted(complete, key=str.casefold)
    radars = [_radar(table, profiles, encoder) for encoder in ordered]
    figures, done = [], 0
    for number, page in enumerate(pages(radars, first=average), start=1):
        shown = ordered[done : done + len(page) - 1]
        done += len(shown)
        figure = Figure(
            name=f"figure26_page{number}",
            title=f"All encoders, {shown[0]} to {shown[-1]} (Figure 26)",
            caption=f"Each axis from the worst encoder (centre) to the best (rim) of {len(profiles.reference)}; "
            "farther out is better. F full-shot, E encoder generalization, P probe generalization, U usability, A "
            "approximation, hollow where it was assumed to be 0. Dashed: half way.",
            draw=partial(radar_page, page, legend=_modes(table, shown)),
            data=partial(radar_data, page),
        )
        figures.append(figure)
    return figures


def radar_data(radars: Sequence[Radar]) -> list[list[object]]:
    """Each place of each radar: 0 is the worst encoder of the scale, 1 its best; empty where it was not measured."""
    rows: list[list[object]] = [["radar", "axis", "place", "assumed"]]
    for radar in radars:
        for axis in AXES:
            place = radar.places.get(axis.column, math.nan)
            cell = "" if math.isnan(place) else f"{place:.7g}"
            rows.append(
                [radar.title.replace("\n", " "), axis.label, cell, "yes" if axis.column in radar.assumed else "no"]
            )
    return rows


def radar_row(radars: Sequence[Radar], *, legend: Mapping[str, str] | None = None) -> Drawing:
    """A few radars, four in a row, each with the names of its axes; ``legend`` has words -> colour."""
    n_columns = min(4, len(radars))
    n_rows = math.ceil(len(radars) / n_columns)
    width = FULL_WIDTH * n_columns / 4
    drawing, panels = new_figure(width=width, height=1.75 * n_rows + 0.3, n_rows=n_rows, n_columns=n_columns)
    _fill(panels, radars, long_labels=True)
    _legend(drawing, legend or {})
    return drawing


def radar_page(radars: Sequence[Radar], *, legend: Mapping[str, str] | None = None) -> Drawing:
    """A page of small radars, five in a row; the first has the names of the axes, the others their first letters."""
    n_rows = math.ceil(len(radars) / 5)
    drawing, panels = new_figure(height=1.5 * n_rows + 0.3, n_rows=n_rows, n_columns=5)
    _fill(panels, radars, long_labels=False)
    _legend(drawing, legend or {})
    return drawing


def pages(radars: Sequence[Radar], *, first: Radar, per_page: int = PER_PAGE) -> list[list[Radar]]:
    """Radars in pages, each of them opened by ``first``; the last page has what is left.

    >>> [len(page) for page in pages([Radar(title="a", places={})] * 146, first=Radar(title="mean", places={}))]
    [35, 35, 35, 35, 11]
    """
    others = per_page - 1
    return [[first, *radars[start : start + others]] for start in range(0, len(radars), others)]


def draw_radar(axes: Axes, radar: Radar, *, long_labels: bool) -> None:
    """One radar into one of the axes of a figure; places beyond the scale are drawn at its end."""
    names = [axis.column for axis in AXES]
    corners = {name: _corner(position, len(names)) for position, name in enumerate(names)}
    known = {name: min(1.0, max(0.0, place)) for name, place in radar.places.items() if not math.isnan(place)}
    for name, (x, y) in corners.items():
        axes.plot([0, x], [0, y], color=_RIM, linewidth=0.5, linestyle="-" if name in known else ":")
    for ring, style in ((0.5, "--"), (1.0, "-")):
        rim = [*corners.values(), corners[names[0]]]
        axes.plot([ring * x for x, _ in rim], [ring * y for _, y in rim], color=_RIM, linewidth=0.5, linestyle=style)
    for name, following in zip(names, [*names[1:], names[0]], strict=True):
        if name in known and following in known:
            (x, y), (u, v) = _at(corners[name], known[name]), _at(corners[following], known[following])
            axes.fill([0, x, u], [0, y, v], color=radar.colour, alpha=0.25, linewidth=0)
            axes.plot([x, u], [y, v], color=radar.colour, linewidth=1.2 if long_labels else 0.9, zorder=3)
    for name, place in known.items():
        x, y = _at(corners[name], place)
        face = "white" if name in radar.assumed else radar.colour
        axes.plot(x, y, "o", color=radar.colour, markerfacecolor=face, markersize=2.4 if long_labels else 1.5, zorder=4)
    for name, (x, y) in corners.items():
        words = _SHORT[name]
        if long_labels:
            note = "" if name in known else "\nunknown"
            words = LABELS[name] + ("\nassumed" if name in radar.assumed else note)
        sure = name in known and name not in radar.assumed
        axes.text(
            1.1 * x,
            1.1 * y,
            words,
            fontsize=SMALLEST,
            color="#222222" if sure else _UNKNOWN,
            ha=_beside(x),
            va=_above(y),
            linespacing=1.15,
        )
    axes.text(0, 1.42, radar.title, fontsize=7 if long_labels else SMALLEST, ha="center", va="bottom", linespacing=1.1)
    margin = 0.55 if long_labels else 0.3
    axes.set(xlim=(-1 - margin, 1 + margin), ylim=(-1.25, 1.9), aspect="equal")
    axes.set_axis_off()


def wrapped(name: str, *, width: int = 24) -> str:
    """An id in lines of at most ``width`` letters where its underscores allow it.

    >>> wrapped("deepcluster_rn50_bs512_ep200_mmselfsup")
    'deepcluster_rn50_bs512\\n_ep200_mmselfsup'
    """
    first, *others = name.split("_")
    lines = [first]
    for part in others:
        if len(lines[-1]) + len(part) + 1 > width:
            lines.append("")
        lines[-1] += f"_{part}"
    return "\n".join(lines)


def _radar(table: StudyTable, profiles: Profiles, encoder: str) -> Radar:
    mode = table.frame.at[encoder, "ssl_mode"]
    mine = " (yours)" if encoder in table.mine else ""
    assumed = frozenset({"approx"} if table.frame.at[encoder, ASSUMED] is True else ())
    return Radar(
        title=wrapped(f"{encoder}{mine}"),
        places=profiles.places_of(encoder),
        colour=MODE_COLOURS.get(str(mode), "#444444"),
        assumed=assumed,
    )


def _modes(table: StudyTable, encoders: Sequence[str]) -> dict[str, str]:
    modes = set(table.frame.loc[list(encoders), "ssl_mode"])
    return {mode: colour for mode, colour in MODE_COLOURS.items() if mode in modes}


def _fill(panels: Sequence[Axes], radars: Sequence[Radar], *, long_labels: bool) -> None:
    for position, axes in enumerate(panels):
        if position < len(radars):
            draw_radar(axes, radars[position], long_labels=long_labels or position == 0)
        else:
            axes.set_axis_off()


def _legend(drawing: Drawing, legend: Mapping[str, str]) -> None:
    if legend:
        handles = [Line2D([], [], color=colour, linewidth=3, label=words) for words, colour in legend.items()]
        drawing.legend(handles=handles, loc="outside lower center", ncols=6)


def _corner(position: int, n: int) -> tuple[float, float]:
    angle = math.pi / 2 - 2 * math.pi * position / n  # clockwise from the top
    return math.cos(angle), math.sin(angle)


def _at(corner: tuple[float, float], place: float) -> tuple[float, float]:
    return place * corner[0], place * corner[1]


def _beside(x: float) -> str:
    return "center" if abs(x) < 0.1 else "left" if x > 0 else "right"


def _above(y: float) -> str:
    return "bottom" if y > 0.9 else "center" if y > -0.5 else "top"
