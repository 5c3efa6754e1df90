"""Style, palettes and marks that all figures share.

A figure is made without pyplot, so nothing is global and no window opens. Colours are Okabe and Ito's, which
colour-blind readers can tell apart; groups differ in the shape of their marks as well. A figure has no title, which
stands with its caption in a report; panels have letters, and an axis says what it shows, in which unit, and which
direction is better. No text is smaller than :data:`SMALLEST`.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import escape_unprintable
from ..files import replace_file
from ..optional import require_extra

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing


FULL_WIDTH, HALF_WIDTH = 7.0, 3.4  # inches, of a page and of a column
SMALLEST = 6.0  # points, of any text: a page shows a figure in its own size
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#7A5C00", "#444444", "#F0E442")
MARKS = ("o", "s", "^", "D", "v", "P", "X", "<", ">")
COMPONENT_COLOURS = {
    "approx": "#999999",
    "usability": "#0072B2",
    "probe_gen": "#E69F00",
    "enc_gen": "#009E73",
}
MODE_COLOURS = {
    "contrastive": "#0072B2",
    "clustering": "#E69F00",
    "siamese": "#009E73",
    "hierarchical": "#CC79A7",
    "generative": "#D55E00",
    "transform": "#56B4E9",
}
_STYLE: Any = {
    "font.family": "DejaVu Sans", "font.size": 8.0, "axes.titlesize": 9.0, "axes.labelsize": 8.0,
    "xtick.labelsize": 7.0, "ytick.labelsize": 7.0, "legend.fontsize": 7.0, "legend.frameon": False,
    "axes.spines.top": False, "axes.spines.right": False, "axes.linewidth": 0.7, "axes.grid": True,
    "grid.color": "#E6E6E6", "grid.linewidth": 0.5, "axes.axisbelow": True, "lines.linewidth": 1.2,
    "lines.markersize": 4.0, "figure.dpi": 100.0, "savefig.dpi": 200.0, "svg.hashsalt": "ssl-zoo",
    "svg.fonttype": "path", "axes.titlelocation": "left", "axes.unicode_minus": True,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A figure with its title and caption, drawn when its file is asked for."""

    name: str  # of the file, without suffix; unique within a study: "usability_by_objective"
    title: str  # "Usability by type of objective (Figure 12)"
    caption: str  # what is shown, of how many encoders, in which unit, and which direction is better
    draw: Callable[[], Drawing]
    data: Callable[[], Sequence[Sequence[object]]] | None = None  # its CSV, headers first, if it has one


@contextmanager
def use_style() -> Iterator[None]:
    """Draws and saves figures in the block under the zoo's matplotlib settings."""
    with require_extra("study", needed_for="A figure"):
        import matplotlib

    with matplotlib.rc_context(_STYLE):
        yield


def make_figure(
    *, width: float = FULL_WIDTH, height: float = 2.6, n_rows: int = 1, n_columns: int = 1, **subplots: Any
) -> tuple[Drawing, list[Axes]]:
    """A figure and its axes, row by row; sizes in inches. Further arguments are those of ``Figure.subplots``."""
    with require_extra("study", needed_for="A figure"):
        from matplotlib.figure import Figure as Drawing

    drawing = Drawing(figsize=(width, height), layout="constrained")
    axes = drawing.subplots(n_rows, n_columns, squeeze=False, **subplots)
    return drawing, list(axes.flat)


def make_palette(groups: Sequence[str], colours: Mapping[str, str] | None = None) -> dict[str, tuple[str, str]]:
    """Colour and mark of each group, in their order; the groups of ``colours`` have the same ones in every figure.

    >>> make_palette(["mine", "siamese"], MODE_COLOURS)
    {'mine': ('#7A5C00', 'X'), 'siamese': ('#009E73', '^')}
    """
    known = dict(zip(colours or {}, zip((colours or {}).values(), cycle(MARKS), strict=False), strict=True))
    taken = {one for pair in known.values() for one in pair}
    inks, marks = ([one for one in every if one not in taken] or list(every) for every in (COLOURS, MARKS))
    others = [group for group in groups if group not in known]
    spare = {group: (inks[place % len(inks)], marks[place % len(marks)]) for place, group in enumerate(others)}
    return {group: known[group] if group in known else spare[group] for group in groups}


def plot_groups(
    axes: Axes,
    x: Sequence[float],
    y: Sequence[float],
    groups: Sequence[str],
    *,
    colours: Mapping[str, str] | None = None,
    size: float = 14.0,
    alpha: float = 0.8,
) -> None:
    """Points of several groups; each group has a legend entry with the number of its points."""
    order = list(dict.fromkeys(groups))
    for group, (colour, mark) in make_palette(order, colours).items():
        chosen = [position for position, name in enumerate(groups) if name == group]
        axes.scatter(
            [x[position] for position in chosen],
            [y[position] for position in chosen],
            s=size,
            c=colour,
            marker=mark,
            alpha=alpha,
            linewidths=0.3,
            edgecolors="white",
            label=f"{group} ({len(chosen)})",
        )


def draw_legend_below(
    drawing: Drawing, axes: Axes, *, n_columns: int = 4, title: str | None = None, handlelength: float = 2.0
) -> None:
    """The legend of one of the axes below the whole figure, where it hides no point."""
    handles, labels = axes.get_legend_handles_labels()
    drawing.legend(handles, labels, loc="outside lower center", ncols=n_columns, title=title, handlelength=handlelength)


def write_panel_letters(axes: Sequence[Axes], names: Sequence[str] = (), *, above: float = 4.0) -> None:
    """Writes (a), (b), ..., and the name of a panel if any ("ResNet"), ``above`` points over its upper left corner."""
    for position, (one, name) in enumerate(zip(axes, names or [""] * len(axes), strict=True)):
        _write_above(one, f"({chr(ord('a') + position)}) {name}".rstrip(), 0, above, ha="left")


def write_above(axes: Axes, text: str) -> None:
    """Writes a number that belongs to a panel, such as a correlation, over its upper right corner."""
    _write_above(axes, text, 1, 4, ha="right", size=7)


def _write_above(axes: Axes, text: str, x: float, points: float, **style: Any) -> None:
    coordinates: Any = {"xycoords": "axes fraction", "textcoords": "offset points"}
    axes.annotate(text, (x, 1), (0, points), **coordinates, va="bottom", annotation_clip=False, **style)


def save(drawing: Drawing, path: Path) -> list[Path]:
    """Writes ``path`` with the suffixes .png (200 dots an inch) and .svg; the same figure gives the same bytes."""
    paths = []
    for suffix, metadata in (("png", {"Software": None}), ("svg", {"Date": None, "Creator": "ssl-zoo"})):
        target = path.with_name(f"{path.name}.{suffix}")
        content = io.BytesIO()
        drawing.savefig(content, format=suffix, metadata=metadata)
        with replace_file(target) as file:  # XML has no control characters, which names may have
            file.write(
                content.getvalue() if suffix == "png" else escape_unprintable(content.getvalue().decode()).encode()
            )
        paths.append(target)
    return paths
