"""How figures look: one style, one palette for each kind of group, and the marks that studies share.

A figure is made without pyplot, so nothing is global and no window opens. Colours are Okabe and Ito's, which
colour-blind readers can tell apart; groups differ in the shape of their marks as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..atomic import replaced
from ..errors import MissingExtra

try:
    import matplotlib
    from matplotlib.figure import Figure as Drawing
except ModuleNotFoundError as error:
    raise MissingExtra(str(error.name), extra="study", needed_for="A figure") from error

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FULL_WIDTH, HALF_WIDTH = 7.0, 3.4  # inches, of a page and of a column
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#7A5C00", "#444444", "#F0E442")
MARKS = ("o", "s", "^", "D", "v", "P", "X", "<", ">")
COMPONENT_COLOURS = {
    "approx": "#999999", "usability": "#0072B2", "probe_gen": "#E69F00", "enc_gen": "#009E73",
}  # fmt: skip
MODE_COLOURS = {
    "contrastive": "#0072B2", "clustering": "#E69F00", "siamese": "#009E73", "hierarchical": "#CC79A7",
    "generative": "#D55E00", "transform": "#56B4E9",
}  # fmt: skip
_STYLE: Any = {
    "font.family": "DejaVu Sans", "font.size": 8.0, "axes.titlesize": 9.0, "axes.labelsize": 8.0,
    "xtick.labelsize": 7.0, "ytick.labelsize": 7.0, "legend.fontsize": 7.0, "legend.frameon": False,
    "axes.spines.top": False, "axes.spines.right": False, "axes.linewidth": 0.7, "axes.grid": True,
    "grid.color": "#E6E6E6", "grid.linewidth": 0.5, "axes.axisbelow": True, "lines.linewidth": 1.2,
    "lines.markersize": 4.0, "figure.dpi": 100.0, "savefig.dpi": 200.0, "svg.hashsalt": "ssl-zoo",
    "svg.fonttype": "path", "axes.titlelocation": "left", "axes.unicode_minus": True,
}  # fmt: skip


@contextmanager
def style() -> Iterator[None]:
    """The settings under which figures are drawn and saved."""
    with matplotlib.rc_context(_STYLE):
        yield


def new_figure(
    *, width: float = FULL_WIDTH, height: float = 2.6, n_rows: int = 1, n_columns: int = 1, **subplots: Any
) -> tuple[Drawing, list[Axes]]:
    """A figure and its axes, row by row; sizes in inches. Further arguments are those of ``Figure.subplots``."""
    drawing = Drawing(figsize=(width, height), layout="constrained")
    axes = drawing.subplots(n_rows, n_columns, squeeze=False, **subplots)
    return drawing, list(axes.flat)


def palette(groups: Sequence[str], colours: Mapping[str, str] | None = None) -> dict[str, tuple[str, str]]:
    """Colour and mark of each group, in their order; known groups keep their own colour.

    >>> palette(["contrastive", "mine"], MODE_COLOURS)["contrastive"]
    ('#0072B2', 'o')
    """
    known = dict(colours or {})
    spare = [colour for colour in COLOURS if colour not in known.values()] or list(COLOURS)
    found, used = {}, 0
    for position, group in enumerate(groups):
        if group in known:
            colour = known[group]
        else:
            colour, used = spare[used % len(spare)], used + 1
        found[group] = (colour, MARKS[position % len(MARKS)])
    return found


def scatter_groups(
    axes: Axes, x: Sequence[float], y: Sequence[float], groups: Sequence[str], *,
    colours: Mapping[str, str] | None = None, size: float = 14.0, alpha: float = 0.8,
) -> None:  # fmt: skip
    """Points of several groups; each group is one entry of the legend, with the number of its points."""
    order = list(dict.fromkeys(groups))
    for group, (colour, mark) in palette(order, colours).items():
        chosen = [position for position, name in enumerate(groups) if name == group]
        axes.scatter(
            [x[position] for position in chosen], [y[position] for position in chosen], s=size, c=colour, marker=mark,
            alpha=alpha, linewidths=0.3, edgecolors="white", label=f"{group} ({len(chosen)})",
        )  # fmt: skip


def legend_below(drawing: Drawing, axes: Axes, *, n_columns: int = 4, title: str | None = None) -> None:
    """The legend of one of the axes below the whole figure, where it hides no point."""
    handles, labels = axes.get_legend_handles_labels()
    drawing.legend(handles, labels, loc="outside lower center", ncols=n_columns, title=title)


def letter(axes: Sequence[Axes]) -> None:
    """(a), (b), ... before the title of each of several axes."""
    for position, one in enumerate(axes):
        one.set_title(f"({chr(ord('a') + position)}) {one.get_title(loc='left')}".rstrip(), loc="left")


def save(drawing: Drawing, path: Path) -> list[Path]:
    """Writes ``path`` with the suffixes .png (200 dots an inch) and .svg; the same figure gives the same bytes.

    Raises
    ------
    OSError
        If a file cannot be written.
    """
    paths = []
    for suffix, metadata in (("png", {"Software": None}), ("svg", {"Date": None, "Creator": "ssl-zoo"})):
        target = path.with_name(f"{path.name}.{suffix}")
        with replaced(target) as file:
            drawing.savefig(file, format=suffix, metadata=metadata)
        paths.append(target)
    return paths
