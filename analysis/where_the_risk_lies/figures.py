"""Components of the error over the years, as figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from zoo.analysis.columns import OUTCOMES, Estimate
from zoo.analysis.groups import PARTS
from zoo.evaluation.drawing import COMPONENT_COLOURS, Figure, letter, new_figure
from zoo.optional import requires_extra
from zoo.studies.tables import COMPONENT_MARKS, draw_with_bars

from .tables import Years, not_measured
from .years import YearRisks

with requires_extra("study", needed_for="A figure"):
    from matplotlib.figure import Figure as Drawing
    from matplotlib.legend_handler import HandlerBase
    from matplotlib.lines import Line2D
    from matplotlib.text import Text

if TYPE_CHECKING:
    from matplotlib.axes import Axes


FEWEST_FOR_A_BAR = 3  # encoders; the interval of two is wider than any page
_FAMILIES = {"resnet": "ResNet", "vit": "ViT", "convnext": "ConvNeXt"}


class _QuestionMark(HandlerBase):
    """The mark of a component that was not measured, as text in a legend."""

    def create_artists(self, legend, orig_handle, xdescent, ydescent, width, height, fontsize, trans):  # type: ignore
        return [Text(width / 2, 0, "?", ha="center", weight="bold", size=8, transform=trans)]


def over_time_figure(name: str, title: str, panels: Mapping[str, Years]) -> Figure:
    """Components by year, one panel a group, as a figure of a report; groups of one year are left to its tables."""
    several = {group: years for group, years in panels.items() if len(years) > 1} or dict(panels)
    years = [risks for group in several.values() for risks in group.values()]
    averaged = all(risks.encoder is None for risks in years)
    counts = (
        "Below each year: how many encoders are averaged" if averaged else "Below each year: of how many it is best"
    )
    bars = " Bars are 95 % intervals of years with at least 3 encoders." if averaged else ""
    gaps = "".join(not_measured(group) for group in several.values())
    n = sum(risks.n for risks in years)
    return Figure(
        name=name,
        title=title,
        draw=lambda: draw_over_time(several),
        caption=f"Components of the full-shot error in percentage points, lower is better; {n} encoders. "
        f"{counts}.{bars}{gaps}",
    )


def draw_over_time(panels: Mapping[str, Years]) -> Drawing:
    """Components by year, one panel a title; a component that was not measured leaves a gap and a question mark.

    Bars are 95 % intervals, where there are any and the year has at least 3 encoders.
    """
    n_columns = min(len(panels), 3)
    n_rows = -(-len(panels) // n_columns)
    drawing, axes = new_figure(
        height=2.8 if n_rows == 1 else 0.6 + 1.9 * n_rows, n_rows=n_rows, n_columns=n_columns, sharey=True
    )
    years = sorted({year for group in panels.values() for year in group})
    for panel, group in zip(axes, panels.values(), strict=False):
        _draw_years(panel, list(group.values()), years, n_columns=n_columns)
    for panel in axes[::n_columns]:
        panel.set_ylabel("Risk component [points]\nlower is better")
    for panel in axes[max(len(panels) - n_columns, 0) : len(panels)]:
        panel.set_xlabel(
            "Year of the method, and number of encoders" if n_columns == 1 else "Year, and number of encoders"
        )
    for panel in axes[len(panels) :]:
        panel.set_visible(False)
    handles = [
        Line2D([], [], color=COMPONENT_COLOURS[part], marker=COMPONENT_MARKS[part], label=OUTCOMES[part].label)
        for part in PARTS
    ]
    marks: dict[object, HandlerBase] = {}
    everything = [risks for group in panels.values() for risks in group.values()]
    if any(risks.parts[part].value is None for risks in everything for part in PARTS):
        handles.append(Line2D([], [], linestyle="", marker="$?$", label="not measured"))
        marks[handles[-1]] = _QuestionMark()
    axes[0].set_ylim(bottom=min(0.0, axes[0].get_ylim()[0]))  # where the question marks stand
    drawing.legend(handles=handles, loc="outside lower center", ncols=5, handler_map=marks)
    if len(panels) > 1:
        letter(axes[: len(panels)], [_FAMILIES.get(group, group) for group in panels])
    return drawing


def _draw_years(axes: Axes, series: Sequence[YearRisks], years: Sequence[int], *, n_columns: int) -> None:
    for offset, part in enumerate(PARTS):
        x = [risks.year + 0.06 * (offset - 1.5) for risks in series]
        found = [risks.parts[part] for risks in series]
        draw_with_bars(
            axes, x, [estimate if estimate.n >= FEWEST_FOR_A_BAR else _bare(estimate) for estimate in found], part
        )
    for risks in series:
        gone = [part for part in PARTS if risks.parts[part].value is None]
        low = min((one.value for one in risks.parts.values() if one.value is not None), default=0.0)
        for position, part in enumerate(gone):  # above zero and the lowest mark, which would hide it
            aside = 7 * (position - (len(gone) - 1) / 2)
            axes.annotate(
                "?",
                (risks.year, max(0.0, low)),
                (aside, 4),
                textcoords="offset points",
                ha="center",
                va="bottom",
                size=8,
                weight="bold",
                color=COMPONENT_COLOURS[part],
            )
    word = "n = " if n_columns == 1 else ""
    axes.set_xticks(
        [risks.year for risks in series],
        [f"{_year(risks.year, years, n_columns)}\n{word}{risks.n}" for risks in series],
    )
    axes.tick_params(axis="x", labelsize=7.0 if n_columns < 3 else 6.0)
    axes.set_xlim(min(years) - 0.5, max(years) + 0.5)


def _year(year: int, years: Sequence[int], n_columns: int) -> str:
    """A year as the label of a tick, short where many years share a narrow panel."""
    return f"{year}" if (max(years) - min(years)) * n_columns <= 22 else f"’{year % 100:02d}"  # noqa: RUF001


def _bare(estimate: Estimate) -> Estimate:
    return estimate.described(ci_low=None, ci_high=None)
