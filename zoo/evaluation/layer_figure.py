"""A heat map of the errors of every block, pooling and size of images of an encoder: rows and columns, and a figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..optional import require_extra
from .drawing import FULL_WIDTH, SMALLEST, Figure, make_figure
from .layers import LayersReport

with require_extra("evaluate", needed_for="A map of layers"):
    import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

_CELL_INCHES = 0.66, 0.21
_BEYOND = 90  # percentile of errors above which all are as pale, for the first blocks would take all the scale


@dataclass(frozen=True, slots=True)
class LayerMap:
    """Variants in rows of blocks and columns of poolings, size by size."""

    rows: tuple[str, ...]  # labels of blocks, the last first, and above them what comes after the blocks
    columns: tuple[tuple[int, str], ...]  # side of the images, and pooling
    cells: dict[tuple[str, tuple[int, str]], int]  # numbers of variants
    shares: dict[str, float]  # of the network's operations up to there, in percent, by row

    def of_size(self, px: int) -> LayerMap:
        """The columns of one size alone."""
        return LayerMap(self.rows, tuple(column for column in self.columns if column[0] == px), self.cells, self.shares)


def build_layer_map(report: LayersReport) -> LayerMap:
    """The map of a report."""
    variants = report.variants
    labels: dict[str, float] = {}  # by row, what sorts it
    shares: dict[str, float] = {}
    whole = {px: max(one.gflops for one in variants if one.px == px) for px in {one.px for one in variants}}
    for one in variants:
        labels[one.block] = float("inf") if one.number is None else one.number + 0.5 * one.block.startswith("last ")
        if one.px == report.variants[report.default].px:
            shares[one.block] = 100 * one.gflops / whole[one.px]
    poolings = dict.fromkeys(one.pooling for one in sorted(variants, key=lambda one: _place(one.pooling)))
    columns = [(px, words) for px in sorted(whole) for words in poolings]
    cells = {(one.block, (one.px, one.pooling)): number for number, one in enumerate(variants)}
    taken = {column for _, column in cells}
    return LayerMap(
        rows=tuple(sorted(labels, key=labels.__getitem__, reverse=True)),
        columns=tuple(column for column in columns if column in taken),
        cells=cells,
        shares=shares,
    )


def _place(pooling: str) -> tuple[int, str]:
    usual = ("cls", "avg", "cls+avg")
    return (usual.index(pooling) if pooling in usual else len(usual), pooling)


def compute_fifths(report: LayersReport) -> list[int]:
    """In which fifth of all variants each is by its errors on training images: 4 has the fewest, 0 the most."""
    values = np.array([one.train_error.value for one in report.variants])
    n_more = (values[:, None] < values[None, :]).sum(axis=1) + 0.5 * (values[:, None] == values[None, :]).sum(axis=1)
    return [int(place) for place in np.minimum(5 * n_more / len(values), 4)]


def make_layer_figure(report: LayersReport) -> Figure:
    """The heat map, drawn when its file is asked for."""
    chosen, default = report.chosen, report.variants[report.default]
    gain = report.choice.nested
    caption = (
        f"{report.error_words.capitalize()} of ridge probes in percent, each of {report.n_train:,} training images of "
        f"{report.dataset} {report.judged} from all others; lower is better. Box: the features of the card "
        f"({default.px} px); double box: what training images choose ({chosen.name}, {chosen.px} px), whose "
        f"{report.error_words} on {report.n_test:,} other images is "
        f"{gain.value:+.1f} points from that of the card's (95 %: {gain.ci_low:+.1f} to {gain.ci_high:+.1f}). =: "
        "statistically tied with it there."
    )
    return Figure(
        name="layers",
        title=f"Blocks, poolings and sizes of images of {report.encoder} on {report.dataset}",
        caption=caption,
        draw=lambda: draw_layer_map(report),
    )


def draw_layer_map(report: LayersReport) -> Drawing:
    """The heat map as a figure of matplotlib, under :func:`~zoo.evaluation.drawing.use_style`."""
    grid = build_layer_map(report)
    sizes = list(dict.fromkeys(px for px, _ in grid.columns))
    values = np.array([one.train_error.value for one in report.variants])
    low, high = float(values.min()), float(np.percentile(values, _BEYOND))
    n_columns, n_rows = len(grid.columns), len(grid.rows)
    width = min(FULL_WIDTH, 1.6 + _CELL_INCHES[0] * n_columns)
    drawing, panels = make_figure(
        width=width,
        height=max(1.7, 1.0 + _CELL_INCHES[1] * n_rows),
        n_columns=len(sizes),
        sharey=True,
        gridspec_kw={"width_ratios": [sum(px == size for px, _ in grid.columns) for size in sizes]},
    )
    shown = None
    for panel, px in zip(panels, sizes, strict=True):
        columns = grid.of_size(px).columns
        table = np.full((n_rows, len(columns)), np.nan)
        for place, row in enumerate(grid.rows):
            for at, column in enumerate(columns):
                if (row, column) in grid.cells:
                    table[place, at] = values[grid.cells[row, column]]
        shown = panel.imshow(table, cmap="cividis", vmin=low, vmax=max(high, low + 1e-9), aspect="auto")
        _write(panel, report, grid.rows, columns, grid, table, middle=(low + high) / 2)
        panel.set_xticks(range(len(columns)), [words for _, words in columns], rotation=45, ha="right")
        panel.set_yticks(range(n_rows), [f"{row} ({grid.shares[row]:.0f} %)" for row in grid.rows])
        panel.set_title(f"{px} px")
        panel.grid(visible=False)
        panel.tick_params(length=0)
    panels[0].set_ylabel("block (its cost)")
    if shown is not None:
        bar = drawing.colorbar(shown, ax=panels, extend="max" if values.max() > high else "neither", pad=0.01)
        bar.set_label(f"leave-one-out {report.error_words} (%)")
    return drawing


def _write(
    panel: Axes,
    report: LayersReport,
    rows: Sequence[str],
    columns: Sequence[tuple[int, str]],
    grid: LayerMap,
    table: np.ndarray,
    *,
    middle: float,
) -> None:
    """The number in each cell, = for those not told apart, and the boxes."""
    for place, row in enumerate(rows):
        for at, column in enumerate(columns):
            number = grid.cells.get((row, column))
            if number is None:
                continue
            value = float(table[place, at])
            ink = "white" if value < middle else "black"
            mark = "=" if report.variants[number].is_tied else ""
            panel.text(at, place, f"{value:.1f}{mark}", ha="center", va="center", size=SMALLEST + 0.5, color=ink)
            if number == report.default:
                _box(panel, at, place, inset=0.04, width=1.4)
            if number == report.choice.chosen:
                _box(panel, at, place, inset=0.04, width=1.4)
                _box(panel, at, place, inset=0.13, width=0.8)


def _box(panel: Axes, at: int, place: int, *, inset: float, width: float) -> None:
    from matplotlib.patches import Rectangle

    side, corner = 1 - 2 * inset, (at - 0.5 + inset, place - 0.5 + inset)
    panel.add_patch(Rectangle(corner, side, side, fill=False, edgecolor="#D55E00", linewidth=width))
