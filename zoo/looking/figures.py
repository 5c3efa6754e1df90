"""Figures of what encoders see, for PNG files, and the colours that the page shares with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..evaluation.arrays import Array
from ..evaluation.drawing import new_figure
from ..optional import requires_extra
from .looking import Look, Patches
from .neighbourhood import standing_apart

with requires_extra("models", needed_for="Figures of images"):
    import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

_CLASS_COLOURS = (  # seen on white and on black
    "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#B8A700", "#8C6BB1", "#8C564B", "#7F7F7F",
    "#17A2A2", "#A6761D",
)  # fmt: skip
_OTHER = "#8a929b"  # of images without a class, or of more classes than there are colours
SIDE = 0.062  # of a thumbnail in a layout, whose side is 1
_NAME = 0.22, 0.056  # width and height of the name of a class there
_FRAMES: dict[str, dict[str, Any]] = {
    "": {"visible": False},
    "same": {"visible": True, "color": "#009E73", "lw": 2},
    "other": {"visible": True, "color": "#D55E00", "lw": 2, "ls": (0, (2, 1.5))},
}
_MOST = 12  # images in a figure of maps

_Tile = tuple[Any, str, str]  # a picture or None, its title, and its frame
_NONE: _Tile = None, "", ""


def class_colours(found: Look) -> dict[int, str]:
    """A colour for each class that occurs; none without labels, or if there are more classes than colours."""
    present = np.unique(found.images.labels).tolist() if found.is_labelled else []
    return dict(zip(present, _CLASS_COLOURS, strict=False)) if len(present) <= len(_CLASS_COLOURS) else {}


def inks_of(found: Look) -> list[str]:
    """The colour of each image in a layout."""
    colours = class_colours(found)
    return [colours.get(label, _OTHER) for label in found.images.labels.tolist()]


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
    low, high = np.quantile(similarity, (0.01, 0.995)).tolist()
    return low, high if high > low else low + 1


def heat(similarity: Array) -> Array:
    """Similarities of an encoder as colours, uint8 (..., 3), from dark to bright between :func:`heat_ends`."""
    with requires_extra("study", needed_for="A figure"):
        from matplotlib import colormaps

    low, high = heat_ends(similarity)
    coloured: Array = colormaps["magma"](((similarity - low) / (high - low)).clip(0, 1), bytes=True)[..., :3]
    return coloured


def figures_of(found: Look) -> dict[str, Drawing]:
    """The figures by name: components, similarity, neighbours and layout, as far as there is something to show."""
    drawn: dict[str, Drawing] = {}
    mapped = [(view.encoder, view.patches) for view in found.views if view.patches]
    shown = found.shown[:_MOST]
    for name in ("components", "similarity") if mapped else ():
        tiles: list[_Tile] = []
        for place, at in enumerate(shown):
            tiles.append((found.image(at), found.label(at), ""))
            for encoder, one in mapped:
                tiles.append((one.colours[place] if name == "components" else heat(one.similarity)[place], encoder, ""))
        per_row = max(1, min(-(-len(shown) // 4), 6 // (1 + len(mapped))))
        drawn[name], axes = _tiles(tiles, per_row * (1 + len(mapped)))
    if mapped:
        _mark(axes[0], found.image(shown[0]).size, mapped[0][1])
    if among := [(view.encoder, view.among) for view in found.views if view.among]:
        rows: list[list[_Tile]] = []
        for query in found.queries:
            for encoder, these in among:
                rows.append([(found.image(query), f"{_short(found.label(query))}\n{_short(encoder)}", "")])
                for at, far, word in found.near(these, query):
                    title = f"{_short(found.label(at))}\n{word}{', ' * bool(word)}{far:.2f}"
                    rows[-1].append((found.image(at), title, word))
        n_columns = max(map(len, rows))
        drawn["neighbours"], _ = _tiles(
            [one for row in rows for one in (*row, *[_NONE] * (n_columns - len(row)))], n_columns
        )
        drawn["layout"] = _layouts(found)
    return drawn


def _tiles(tiles: list[_Tile], n_columns: int) -> tuple[Drawing, list[Axes]]:
    """Pictures with titles, row by row."""
    n_rows = -(-len(tiles) // n_columns)
    drawing, axes = new_figure(width=1.15 * n_columns, height=1.42 * n_rows, n_rows=n_rows, n_columns=n_columns)
    for one, (image, title, frame) in zip(axes, [*tiles, *[_NONE] * (len(axes) - len(tiles))], strict=True):
        one.set(xticks=[], yticks=[])
        one.grid(False)
        one.spines[:].set(**_FRAMES[frame])
        if image is not None:
            one.imshow(np.asarray(image), interpolation="nearest")
            one.set_title(title if "\n" in title else _short(title), fontsize=6, pad=2, parse_math=False)
    return drawing, axes


def _mark(axes: Axes, size: tuple[int, int], patches: Patches) -> None:
    """A frame around the patch that others are compared with."""
    from matplotlib.patches import Rectangle

    height, width = (px / n for px, n in zip(size[::-1], patches.grid, strict=True))
    for colour, line in (("black", 3.0), ("white", 1.5)):
        place = patches.at[1] * width - 0.5, patches.at[0] * height - 0.5
        axes.add_patch(Rectangle(place, width, height, fill=False, edgecolor=colour, linewidth=line))


def _layouts(found: Look) -> Drawing:
    """All images of each encoder: thumbnails where they do not overlap, and dots."""
    from matplotlib.offsetbox import AnnotationBbox, OffsetImage

    among = [(view.encoder, view.among.places) for view in found.views if view.among]
    n_columns, colours, inks = min(2, len(among)), class_colours(found), inks_of(found)
    n_rows = -(-len(among) // n_columns)
    drawing, axes = new_figure(width=5.0 * n_columns, height=5.2 * n_rows, n_rows=n_rows, n_columns=n_columns)
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
            one.text(x, y, name, fontsize=7, ha="center", va="center", bbox=boxed, zorder=9, parse_math=False)
    return drawing


def _short(text: str) -> str:
    return text if len(text) <= 22 else f"{text[:10]}…{text[-11:]}"
