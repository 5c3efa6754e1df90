"""Strips of example predictions: what each number of labels looks like, beside truth and controls.

As in the paper's Figures 1 and 3: a row an image, a column what was predicted of it. A strip that is wider than a page
is broken into bands, each with image, truth, blind guess and maximal supervision, so that every band reads by itself.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ..errors import DataError, MissingExtra
from ..evaluation.drawing import FULL_WIDTH, SMALLEST, Figure

try:
    import numpy as np
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize, to_rgb
    from matplotlib.figure import Figure as Drawing
    from matplotlib.lines import Line2D
except ModuleNotFoundError as error:
    raise MissingExtra(str(error.name), extra="study", needed_for="A figure") from error

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    Maps = NDArray[np.float32]

_MOST_COLUMNS = 11  # of a band; narrower cells could not be read on a page
_LARGEST = 1.05  # inches of a cell
_EDGE, _GAP, _GROUP_GAP, _ROW_GAP = 0.06, 0.03, 0.12, 0.03  # inches
_LINE, _BAND_GAP, _BAR = 0.115, 0.12, 0.5  # inches
_COLOURS = "viridis"  # perceptually uniform; the smaller the darker
_INVALID = "#BBBBBB"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Column:
    """Predictions for the images of a strip, from one number of labels."""

    name: str  # "scratch", or the encoder
    n: int  # labelled images
    maps: Maps  # (n_images, n_channels, px, px); px may differ from column to column


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Strip:
    """Example predictions of a dense task.

    Attributes
    ----------
    task, dataset : str
        "depth" has one channel; "normals" have three, each in [-1, 1].
    unit : str
        Of the maps.
    images : float array, shape (n_images, px, px, 3)
        In [0, 1].
    truth : float array, shape (n_images, n_channels, px, px)
    valid : bool array, shape (n_images, px, px)
        Where the truth is known.
    blind, maximal : float arrays like ``truth``, or None
    columns : sequence of Column
        In the order of labels, and of scratch and encoders within them.
    """

    task: str
    dataset: str
    unit: str
    images: NDArray[np.float32]
    truth: Maps
    valid: NDArray[np.bool_]
    blind: Maps | None
    maximal: Maps | None
    columns: Sequence[Column]

    def __post_init__(self) -> None:
        n = len(self.images)
        parts = {"truth": self.truth, "valid": self.valid, "blind guess": self.blind, "maximal": self.maximal}
        parts |= {f"{column.name} with {column.n:,} labels": column.maps for column in self.columns}
        for name, maps in parts.items():
            if maps is not None and len(maps) != n:
                raise DataError(f"The strip of {self.dataset!r} has {n} images and {len(maps)} maps of {name}; "
                                "expected one an image.")  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Cells:
    """One column as it is drawn."""

    name: str
    pictures: Sequence[Any]  # (h, w, 3) in [0, 1], or masked (h, w)
    group: str = ""


def strip_figure(strip: Strip, *, name: str = "strip") -> Figure:
    """The strip as a figure with its caption."""
    if _is_depth(strip):
        colours = f"Depth in {strip.unit}, one scale for all maps; grey where it is not known."
    else:
        colours = (
            "Normals as colours: red to the right, green upwards, blue towards the camera, each from -1 (dark) to 1; "
            "grey where they are not known."
        )
    return Figure(
        name=name, title=f"What {strip.task} on {strip.dataset} looks like by the number of labels n",
        caption=f"Predictions for the first {len(strip.images)} test images, of the first seed and of some of the "
        f"numbers of labels. {colours}",
        draw=partial(draw_strip, strip),
    )  # fmt: skip


def draw_strip(strip: Strip) -> Drawing:
    """Rows: images; columns: image, truth, blind guess, scratch and encoders by number of labels, and maximal."""
    scale = _scale(strip)
    fixed = [
        _Cells("image", list(strip.images)),
        _Cells(
            "truth", [_picture(strip, one, scale, valid) for one, valid in zip(strip.truth, strip.valid, strict=True)]
        ),
    ]
    if strip.blind is not None:
        fixed.append(_cells(strip, "blind guess", strip.blind, scale))
    last = [] if strip.maximal is None else [_cells(strip, "maximal supervision", strip.maximal, scale)]
    bands = [
        [*fixed, *(_cells(strip, one.name, one.maps, scale, group=f"n = {one.n:,}") for one in band), *last]
        for band in _bands(strip.columns, _MOST_COLUMNS - len(fixed) - len(last))
    ]
    widest = max(map(_gaps, bands)), max(map(len, bands))
    cell = min(_LARGEST, (FULL_WIDTH - 2 * _EDGE - widest[0]) / widest[1])
    names = [[_wrapped(one.name, cell) for one in band] for band in bands]
    heads = [_LINE * (max(len(lines) for lines in own) + 1) + 0.09 for own in names]
    rows = len(strip.images) * cell + (len(strip.images) - 1) * _ROW_GAP
    width = max(2 * _EDGE + max(len(band) * cell + _gaps(band) for band in bands), 2.6)
    height = _EDGE + sum(heads) + rows * len(bands) + _BAND_GAP * len(bands) + _BAR * _is_depth(strip)
    drawing = Drawing(figsize=(width, height))
    top = height - _EDGE
    for band, lines, head in zip(bands, names, heads, strict=True):
        _draw_band(drawing, band, lines, top=top, head=head, cell=cell)
        top -= head + rows + _BAND_GAP
    if scale is not None:
        bar = drawing.add_axes((0.25, 0.3 / height, 0.5, 0.09 / height))
        mappable = ScalarMappable(Normalize(*scale), cmap=_COLOURS)
        drawing.colorbar(mappable, cax=bar, orientation="horizontal", extend="both")
        bar.set_xlabel(f"depth [{strip.unit}]", labelpad=1)
        bar.tick_params(labelsize=6, length=2, pad=1)
        bar.grid(visible=False)
    return drawing


def _draw_band(
    drawing: Drawing, band: Sequence[_Cells], lines: Sequence[list[str]], *, top: float, head: float, cell: float
) -> None:
    width, height = (float(inches) for inches in drawing.get_size_inches())
    x, begun = _EDGE, _EDGE
    for place, (column, own) in enumerate(zip(band, lines, strict=True)):
        before = band[place - 1].group if place else column.group
        if place:
            x += _GROUP_GAP if column.group != before else _GAP
        if column.group != before or not place:
            begun = x
        y = top - head
        drawing.text((x + cell / 2) / width, (y + 0.03) / height, "\n".join(own), ha="center", va="bottom",
                     fontsize=SMALLEST, linespacing=1.15)  # fmt: skip
        for row, picture in enumerate(column.pictures):
            bottom = y - (row + 1) * cell - row * _ROW_GAP
            axes = drawing.add_axes((x / width, bottom / height, cell / width, cell / height))
            _show(axes, picture)
        x += cell
        if column.group and (place + 1 == len(band) or band[place + 1].group != column.group):
            middle, line = (begun + x) / 2, (top - _LINE - 0.02) / height
            drawing.text(middle / width, line + 0.01 / height, column.group, ha="center", va="bottom", fontsize=7)
            drawing.add_artist(_rule(begun / width, x / width, line))


def _rule(start: float, end: float, height: float) -> Any:
    return Line2D([start, end], [height, height], color="black", linewidth=0.6)


def _show(axes: Axes, picture: Any) -> None:
    axes.imshow(picture, interpolation="nearest", aspect="auto")
    axes.set_axis_off()


def _is_depth(strip: Strip) -> bool:
    return bool(strip.truth.shape[1] == 1)


def _scale(strip: Strip) -> tuple[float, float] | None:
    """Least and greatest depth that is known; None for normals."""
    if not _is_depth(strip):
        return None
    known = strip.truth[:, 0][strip.valid]
    if not known.size:
        raise DataError(f"No pixel of the first test images of {strip.dataset!r} has a depth; expected some to draw.")
    low, high = float(known.min()), float(known.max())
    return (low, high) if low < high else (low - 0.5, high + 0.5)


def _cells(strip: Strip, name: str, maps: Maps, scale: tuple[float, float] | None, *, group: str = "") -> _Cells:
    return _Cells(name, [_picture(strip, one, scale) for one in maps], group)


def _picture(strip: Strip, one: Maps, scale: tuple[float, float] | None, valid: Any = None) -> NDArray[np.float32]:
    """A map (c, h, w) as colours (h, w, 3) in [0, 1]; grey where it is not valid."""
    if scale is None:
        colours = np.clip((one.astype(np.float32).transpose(1, 2, 0) + 1) / 2, 0, 1)  # (h, w, 3)
    else:
        colours = colormaps[_COLOURS](Normalize(*scale, clip=True)(one[0].astype(np.float32)))[..., :3]
    known = np.asarray(np.isfinite(one).all(axis=0)) & (True if valid is None else valid)  # (h, w)
    return np.asarray(np.where(known[..., None], colours, np.array(to_rgb(_INVALID))), dtype=np.float32)


def _bands(columns: Sequence[Column], room: int) -> list[list[Column]]:
    """Columns of one number of labels stay together, unless they are more than a band has room for."""
    bands: list[list[Column]] = [[]]
    for n in dict.fromkeys(column.n for column in columns):
        group = [column for column in columns if column.n == n]
        parts = -(-len(group) // room)
        for part in range(parts):
            some = group[part * len(group) // parts : (part + 1) * len(group) // parts]
            if len(bands[-1]) + len(some) > room:
                bands.append([])
            bands[-1] += some
    return bands


def _gaps(band: Sequence[_Cells]) -> float:
    """Inches between the columns of a band."""
    return sum(_GROUP_GAP if one.group != other.group else _GAP for one, other in pairwise(band))


def _wrapped(name: str, cell: float) -> list[str]:
    """A name on as many lines as the width of a cell asks for, broken behind its joints.

    >>> _wrapped("pocket_simclr_rn_shapes", 0.6)
    ['pocket_', 'simclr_rn_', 'shapes']
    """
    letters = max(6, int(cell * 72 / (SMALLEST * 0.6)))
    pieces = [piece[start : start + letters] for piece in re.split(r"(?<=[_@+:\- ])", name)
              for start in range(0, len(piece), letters)]  # fmt: skip
    lines = [""]
    for piece in pieces:
        if lines[-1] and len(lines[-1]) + len(piece.rstrip()) > letters:
            lines.append("")
        lines[-1] += piece
    return [line.strip() for line in lines]
