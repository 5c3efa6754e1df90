"""Figures of SHAP values: swarms of points, one an encoder, coloured by the choice they belong to; bars of means."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..evaluation.drawing import SMALLEST, name_points, palette
from ..optional import requires_extra

with requires_extra("study", needed_for="A figure"):
    import numpy as np
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import ListedColormap, LogNorm, Normalize
    from matplotlib.lines import Line2D
    from matplotlib.transforms import ScaledTranslation

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing
    from numpy.typing import NDArray


MISSING = "#B8B8B8"  # colour of points whose choice is not known
OTHER, OTHER_COLOUR = "other", "#444444"  # values too rare for a colour of their own
_HALF_ROW = 0.42  # of a row, on each side of its middle, that points may take
_LIMIT_MARGIN = 1.04  # of a cut axis, so that triangles at its border are whole
_TIGHT: Any = {"handletextpad": 0.1, "columnspacing": 0.8, "labelspacing": 0.3}
_POINT_STEP = 0.085  # of a row, between points side by side where there is room


@dataclass(frozen=True, slots=True)
class Swarm:
    """One row of points: SHAP values of one choice on one outcome."""

    label: str
    x: Sequence[float]  # (n,), SHAP values; negative lowers the risk
    choices: Sequence[Any]  # (n,), numbers or texts; NaN where missing
    names: Sequence[str] = ()  # (n,), the encoders, for the data of the figure


@dataclass(frozen=True, slots=True)
class NumberColours:
    """Colours of numbers, dark for small ones; ``ticks`` are numbers that occur."""

    low: float
    high: float
    log: bool
    ticks: tuple[float, ...]

    @property
    def scale(self) -> ScalarMappable:
        """Number to colour, for a colour bar."""
        norm = LogNorm(self.low, self.high) if self.log else Normalize(self.low, self.high)
        return ScalarMappable(norm, ListedColormap(colormaps["viridis"](np.linspace(0.0, 0.93, 256))))


@dataclass(frozen=True, slots=True)
class ValueColours:
    """Colours of values that are no numbers."""

    by_value: Mapping[str, str]


Colours = NumberColours | ValueColours


def number_colours(numbers: Sequence[float], *, n_ticks: int = 5) -> NumberColours:
    """A scale over the numbers that occur, logarithmic if they are positive and differ by more than a factor of 4.

    >>> number_colours([384, 768, 768, 2048, float("nan")]).ticks
    (384.0, 768.0, 2048.0)
    """
    known = sorted({float(number) for number in numbers if not math.isnan(number)}) or [1.0]
    low, high = known[0], known[-1]
    log = low > 0 and high / low > 4
    if low == high:
        low, high = low - 0.5, high + 0.5
    place = (lambda number: math.log(number / low)) if log else (lambda number: number - low)
    apart = 0.7 * (place(known[-1]) - place(known[0])) / max(n_ticks - 1, 1)
    ticks = [known[0]]
    for number in known[1:-1]:
        if place(number) - place(ticks[-1]) >= apart and place(known[-1]) - place(number) >= apart:
            ticks.append(number)
    ticks += known[-1:] if len(known) > 1 else []
    return NumberColours(low, high, log, tuple(ticks))


def value_colours(values: Sequence[Any], known: Mapping[str, str] | None = None, *, n_values: int = 7) -> ValueColours:
    """A colour for each of the most frequent values, one for all others; ``known`` values keep their own."""
    texts = [str(value) for value in values if not _is_missing(value)]
    order = sorted(set(texts), key=lambda text: (-texts.count(text), text))
    named = order if len(order) <= n_values + 1 else order[:n_values]
    colours = {value: colour for value, (colour, _) in palette(named, known).items()}
    return ValueColours(colours | ({OTHER: OTHER_COLOUR} if len(order) > len(named) else {}))


def colours_for(choices: Sequence[Any], known: Mapping[str, str] | None = None) -> Colours:
    """:func:`number_colours` of numbers and :func:`value_colours` of anything else."""
    present = [choice for choice in choices if not _is_missing(choice)]
    if present and all(isinstance(choice, (int, float)) and not isinstance(choice, bool) for choice in present):
        return number_colours([float(choice) for choice in present])
    return value_colours(choices, known)


def beeswarm(
    axes: Axes,
    swarms: Sequence[Swarm],
    colours: Colours,
    *,
    limit: float | None = None,
    size: float = 7.0,
    rasterized: bool = False,
) -> None:
    """One row a swarm, from the top; points that would cover each other move apart, always in the same way.

    The axis holds all points and 0, or goes little further than from ``-limit`` to ``limit``; points beyond are drawn
    there, as triangles that point outwards. ``rasterized`` points are pixels in a figure that is otherwise lines, for
    figures of very many.
    """
    drawn = [float(value) for swarm in swarms for value in swarm.x]
    low, high = min([*drawn, 0.0]), max([*drawn, 0.0])
    margin = 0.05 * (high - low) or 1.0
    low, high = (low - margin, high + margin) if limit is None else (-limit, limit)
    axes.axvline(0.0, color="#777777", linewidth=0.7, zorder=1)
    for row, swarm in enumerate(swarms):
        x = np.asarray(swarm.x, dtype=float)
        shown = np.clip(x, low, high)
        y = row + spread(shown, width=(high - low) / 70)
        colour = np.asarray([*_colours_of(swarm.choices, colours), None], dtype=object)[:-1]
        for mark, chosen in (("o", (low <= x) & (x <= high)), ("<", x < low), (">", x > high)):
            if chosen.any():
                points = axes.scatter(
                    shown[chosen],
                    y[chosen],
                    s=size if mark == "o" else 2 * size,
                    c=list(colour[chosen]),
                    marker=mark,
                    linewidths=0,
                    alpha=0.9,
                    clip_on=mark == "o",
                    zorder=2,
                    rasterized=rasterized,
                )
                if len(swarm.names):
                    name_points(points, [swarm.names[place] for place in np.flatnonzero(chosen).tolist()])
    axes.set_xlim((low, high) if limit is None else (_LIMIT_MARGIN * low, _LIMIT_MARGIN * high))
    axes.set_ylim(len(swarms) - 0.5, -0.5)
    axes.set_yticks(range(len(swarms)), [swarm.label for swarm in swarms])
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", length=0)


def spread(x: NDArray[np.float64], *, width: float) -> NDArray[np.float64]:
    """How far each point moves off its row: points of one bin stand side by side around it, closer where many are.

    >>> [float(move) for move in spread(np.array([0.0, 0.0, 5.0, 0.0]), width=1.0).round(3)]
    [0.0, 0.085, 0.0, -0.085]
    """
    bins = np.round(x / width).astype(int)
    moves = np.zeros(len(x))
    fullest = max((int((bins == one).sum()) for one in set(bins.tolist())), default=1)
    step = min(_POINT_STEP, 2 * _HALF_ROW / max(fullest, 1))
    for one in sorted(set(bins.tolist())):
        members = np.flatnonzero(bins == one)
        places = np.arange(len(members))
        moves[members] = step * np.where(places % 2, (places + 1) // 2, -(places // 2))
    return moves


def explain_colours(
    drawing: Drawing,
    axes: Axes | Sequence[Axes],
    colours: Colours,
    swarms: Sequence[Swarm],
    *,
    label: str = "",
    below: bool = True,
    n_columns: int = 3,
) -> None:
    """A colour bar of numbers or a legend of values, with what grey means if something is missing.

    It stands under the axes that the colours belong to; a colour bar that is not ``below`` stands to their right.
    """
    several = list(axes) if isinstance(axes, Sequence) else [axes]
    if isinstance(colours, NumberColours):
        bar = drawing.colorbar(
            colours.scale,
            ax=several,
            location="bottom" if below else "right",
            pad=0.02,
            aspect=30,
            shrink=0.9 if below else 0.8,
        )
        _finish_bar(bar, colours, swarms, label)
        return
    handles = _handles(colours, swarms)
    if len(several) == 1:
        down = 32 if several[0].get_xlabel() else 18  # points, below the ticks and what the axis is called
        lower = several[0].transAxes + ScaledTranslation(0.0, -down / 72, drawing.dpi_scale_trans)
        several[0].legend(
            handles=handles,
            loc="upper center",
            bbox_to_anchor=(0.5, 0.0),
            bbox_transform=lower,
            ncols=n_columns,
            borderaxespad=0.0,
            title=label or None,
            **_TIGHT,
        )
    else:
        drawing.legend(handles=handles, loc="outside lower center", ncols=n_columns, title=label or None, **_TIGHT)


def explain_colours_in(
    drawing: Drawing, axes: Axes, colours: Colours, swarms: Sequence[Swarm], *, label: str = "", n_columns: int = 3
) -> None:
    """The same within axes of its own, which show nothing else."""
    axes.set_axis_off()
    if isinstance(colours, NumberColours):
        bar = drawing.colorbar(colours.scale, cax=axes.inset_axes((0.03, 0.8, 0.94, 0.2)), orientation="horizontal")
        _finish_bar(bar, colours, swarms, label)
    else:
        axes.legend(
            handles=_handles(colours, swarms),
            loc="upper center",
            ncols=n_columns,
            borderaxespad=0.0,
            title=label or None,
            **_TIGHT,
        )


def _finish_bar(bar: Any, colours: NumberColours, swarms: Sequence[Swarm], label: str) -> None:
    axis = bar.ax.yaxis if bar.orientation == "vertical" else bar.ax.xaxis
    axis.set_ticks(list(colours.ticks), labels=[short(tick) for tick in colours.ticks])
    axis.set_ticks([], minor=True)
    bar.set_label(" ".join([label, "(grey: missing)"] if _some_missing(swarms) else [label]).strip())
    bar.outline.set_visible(False)


def _handles(colours: ValueColours, swarms: Sequence[Swarm]) -> list[Line2D]:
    entries = {**colours.by_value, **({"missing": MISSING} if _some_missing(swarms) else {})}
    return [
        Line2D([], [], linestyle="", marker="o", markersize=3.5, color=colour, label=value)
        for value, colour in entries.items()
    ]


def _some_missing(swarms: Sequence[Swarm]) -> bool:
    return any(_is_missing(choice) for swarm in swarms for choice in swarm.choices)


def importance_bars(
    axes: Axes, means: Mapping[str, float], labels: Mapping[str, str], *, n_features: int = 8, colour: str = "#0072B2"
) -> None:
    """The largest mean absolute SHAP values as bars, largest on top, each with its number."""
    largest = sorted(means, key=lambda feature: (-means[feature], feature))[:n_features]
    heights = [means[feature] for feature in largest]
    bars = axes.barh(range(len(largest)), heights, height=0.72, color=colour)
    axes.bar_label(
        bars,
        labels=[f"{height:.1f}" if height >= 1 else f"{height:#.2g}" for height in heights],
        padding=2,
        fontsize=SMALLEST,
    )
    axes.set_yticks(range(len(largest)), [labels.get(feature, feature) for feature in largest])
    axes.set_ylim(max(n_features, len(largest)) - 0.4, -0.6)
    axes.set_xlim(0, 1.17 * max(heights, default=1.0) or 1.0)
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", length=0)


def short(number: float) -> str:
    """A number as a tick: 2048, 23M, 1.2B.

    >>> short(2048.0), short(23_500_000), short(1.85e9), short(0.5)
    ('2048', '24M', '1.9B', '0.5')
    """
    for scale, letter in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if number >= scale and (scale > 1e3 or number >= 1e5):
            return f"{number / scale:.2g}{letter}" if number / scale < 100 else f"{number / scale:.0f}{letter}"
    return f"{number:g}"


def _colours_of(choices: Sequence[Any], colours: Colours) -> list[Any]:
    if isinstance(colours, ValueColours):
        by_value = colours.by_value
        return [MISSING if _is_missing(choice) else by_value.get(str(choice), OTHER_COLOUR) for choice in choices]
    rgba = colours.scale.to_rgba(np.array([np.nan if _is_missing(choice) else float(choice) for choice in choices]))
    return [MISSING if _is_missing(choice) else tuple(row) for choice, row in zip(choices, rgba, strict=True)]


def _is_missing(choice: Any) -> bool:
    return choice is None or choice != choice
