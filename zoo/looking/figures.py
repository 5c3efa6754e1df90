"""Figures of what encoders see, for PNG files, and the colours that the page shares with them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..evaluation.arrays import Array
from ..evaluation.drawing import new_figure
from ..optional import requires_extra
from .looking import Look
from .neighbourhood import standing_apart

with requires_extra("models", needed_for="Figures of images"):
    import numpy as np

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

_CLASS_COLOURS = (  # seen on white and on black
    "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#B8A700", "#8C6BB1", "#8C564B", "#7F7F7F",
    "#17A2A2", "#A6761D",
)  # fmt: skip
OTHER = "#8a929b"
"""Of images without a class, or of more classes than there are colours."""
SIDE = 0.062
"""Of a thumbnail in a layout, whose side is 1."""
_NAME = 0.22, 0.056  # width and height of the name of a class there
_ENDS = 0.01, 0.995  # quantiles of similarities that are dark and bright
_FRAMES: dict[str, dict[str, Any]] = {
    "": {"visible": False},
    "same": {"visible": True, "color": "#009E73", "lw": 2},
    "other": {"visible": True, "color": "#D55E00", "lw": 2},
}
_MOST = 12  # images in a figure of maps


def class_colours(found: Look) -> dict[int, str]:
    """A colour for each class that occurs; none without labels, or if there are more classes than colours."""
    present = np.unique(found.images.labels).tolist() if found.is_labelled else []
    return dict(zip(present, _CLASS_COLOURS, strict=False)) if len(present) <= len(_CLASS_COLOURS) else {}


def class_places(found: Look, places: Array) -> dict[int, tuple[float, float]]:
    """Where the name of each class with a colour stands in a layout: at the median of its images, or above others."""
    y, names = found.images.labels, dict[int, tuple[float, float]]()
    medians = {label: np.median(places[y == label], axis=0).tolist() for label in class_colours(found)}
    for label, (across, up) in sorted(medians.items(), key=lambda one: one[1][1]):
        for x, below in names.values():  # from the lowest to the highest
            if abs(x - across) < _NAME[0] and up - below < _NAME[1]:
                up = below + _NAME[1]
        names[label] = across, up
    return names


def heat_ends(similarity: Array) -> tuple[float, float]:
    """The similarities that are dark and bright, common to all images of an encoder."""
    low, high = np.quantile(similarity, _ENDS).tolist()
    return low, high if high > low else low + 1


def heat(similarity: Array) -> Array:
    """Similarities of an encoder as colours, uint8 (..., 3), from dark to bright between :func:`heat_ends`."""
    with requires_extra("study", needed_for="A figure"):
        from matplotlib import colormaps

    low, high = heat_ends(similarity)
    coloured: Array = colormaps["magma"](((similarity - low) / (high - low)).clip(0, 1), bytes=True)[..., :3]
    return coloured


@dataclass(frozen=True, slots=True)
class _Tile:
    image: Any
    title: str = ""
    frame: str = ""  # of _FRAMES
    mark: tuple[float, float, float, float] | None = None  # left, top, width and height of a patch, from 0 to 1


def figures_of(found: Look) -> dict[str, Drawing]:
    """The figures by name: components, similarity, neighbours and layout, as far as there is something to show."""
    drawn = {}
    mapped = [(view.encoder, view.patches) for view in found.views if view.patches]
    if mapped:
        first = mapped[0][1]
        (row, column), (n_rows, n_columns) = first.at, first.grid
        mark = column / n_columns, row / n_rows, 1 / n_columns, 1 / n_rows
        for name, pixels in (
            ("components", [one.colours for _, one in mapped]),
            ("similarity", [heat(one.similarity) for _, one in mapped]),
        ):
            groups = []
            for place, at in enumerate(found.shown[:_MOST]):
                is_marked = name == "similarity" and not place
                of_image = _Tile(found.image(at), found.label(at), mark=mark if is_marked else None)
                groups.append(
                    [of_image, *(_Tile(maps[place], one) for (one, _), maps in zip(mapped, pixels, strict=True))]
                )
            drawn[name] = _tiles(groups, max(1, min(-(-len(groups) // 4), 6 // len(groups[0]))))
    among = [(view.encoder, view.among) for view in found.views if view.among]
    if among:
        rows = []
        for query in found.queries:
            for encoder, one in among:
                tiles = [_Tile(found.image(query), f"{_short(found.label(query))}\n{_short(encoder)}")]
                for at, far, word in found.near(one, query):
                    title = f"{_short(found.label(at))}\n{word}{', ' * bool(word)}{far:.2f}"
                    tiles.append(_Tile(found.image(at), title, frame=word))
                rows.append(tiles)
        n_columns = max(map(len, rows))
        drawn["neighbours"] = _tiles([row + [_Tile(None)] * (n_columns - len(row)) for row in rows], 1)
        drawn["layout"] = _layouts(found)
    return drawn


def _tiles(groups: list[list[_Tile]], per_row: int) -> Drawing:
    """Groups of tiles, as many in a row."""
    from matplotlib.patches import Rectangle

    n_columns, n_rows = per_row * len(groups[0]), -(-len(groups) // per_row)
    drawing, axes = new_figure(width=1.15 * n_columns, height=1.42 * n_rows, n_rows=n_rows, n_columns=n_columns)
    tiles = [tile for group in groups for tile in group]
    for number, one in enumerate(axes):
        tile = tiles[number] if number < len(tiles) else _Tile(None)
        one.set(xticks=[], yticks=[])
        one.grid(False)
        one.spines[:].set(**_FRAMES[tile.frame])
        if tile.image is None:
            continue
        pixels = np.asarray(tile.image)
        one.imshow(pixels, interpolation="nearest")
        one.set_title(tile.title if "\n" in tile.title else _short(tile.title), fontsize=6, pad=2)
        if tile.mark:
            left, top, width, height = (share * len(pixels) for share in tile.mark)
            for colour, line in (("black", 3.0), ("white", 1.5)):
                one.add_patch(Rectangle((left, top), width, height, fill=False, edgecolor=colour, linewidth=line))
    return drawing


def _layouts(found: Look) -> Drawing:
    """All images of each encoder: thumbnails where they do not overlap, and dots."""
    from matplotlib.offsetbox import AnnotationBbox, OffsetImage

    among = [(view.encoder, view.among.places) for view in found.views if view.among]
    n_columns, colours = min(2, len(among)), class_colours(found)
    n_rows = -(-len(among) // n_columns)
    drawing, axes = new_figure(width=5.0 * n_columns, height=5.2 * n_rows, n_rows=n_rows, n_columns=n_columns)
    inks = [colours.get(label, OTHER) for label in found.images.labels.tolist()]
    for one in axes[len(among) :]:
        one.axis("off")
    for one, (encoder, places) in zip(axes, among, strict=False):
        one.set(xlim=(-0.05, 1.05), ylim=(-0.05, 1.05), xticks=[], yticks=[], aspect="equal", title=encoder)
        one.grid(False)
        one.spines[:].set(visible=True, color="#d8dee4")
        one.scatter(places[:, 0], places[:, 1], s=14, c=inks, linewidths=0)
        for at in standing_apart(places, SIDE):
            box = OffsetImage(np.asarray(found.image(at).resize((48, 48))), zoom=0.4)
            framed = {"edgecolor": inks[at], "linewidth": 1.2, "boxstyle": "square,pad=0.05"}
            one.add_artist(AnnotationBbox(box, places[at], pad=0.05, bboxprops=framed))
        for label, (x, y) in class_places(found, places).items():
            boxed = {"facecolor": "white", "edgecolor": colours[label], "boxstyle": "round,pad=0.2", "alpha": 0.9}
            name = found.images.classes[label]
            one.text(x, y, name, fontsize=7, ha="center", va="center", bbox=boxed, zorder=9)
    return drawing


def _short(text: str) -> str:
    return text if len(text) <= 22 else f"{text[:10]}…{text[-11:]}"
