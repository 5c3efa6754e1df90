"""What encoders see as figures for PNG files, and as one page, in a folder."""

from __future__ import annotations

import io
import math
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import QueryError, StoreError, format_count
from ..evaluation.arrays import Array
from ..evaluation.drawing import make_figure, use_style
from ..files import replace_file
from ..optional import require_extra
from ..version import __version__
from .neighbourhood import select_apart
from .pages import MOST_BYTES, encode_data_address, make_thumbnail, note_stretched, render_template
from .visualization import Look, Patches

with require_extra("models", needed_for="Pictures of what encoders see"):
    import numpy as np
    from PIL import Image

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

_FILES = ("index.html", "layout.png", "neighbours.png", "similarity.png", "components.png")
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
_MOST, _MOST_ROWS = 12, 200  # images in a figure of maps, and rows of neighbours: PNG files have 65,535 pixels at most

_Tile = tuple[Any, str, str]  # a picture or None, its title, and its frame
_NONE: _Tile = None, "", ""


def choose_class_colours(found: Look) -> dict[int, str]:
    """A colour for each class that occurs; none without labels, or if there are more classes than colours."""
    present = np.unique(found.images.labels).tolist() if found.is_labelled else []
    return dict(zip(present, _CLASS_COLOURS, strict=False)) if len(present) <= len(_CLASS_COLOURS) else {}


def list_image_colours(found: Look) -> list[str]:
    """The colour of each image in a layout."""
    colours = choose_class_colours(found)
    return [colours.get(label, _OTHER) for label in found.images.labels.tolist()]


def place_class_names(found: Look, places: Array) -> dict[int, tuple[float, float]]:
    """Where the name of each class with a colour stands in a layout: at the median of its images, or above others."""
    y, names = found.images.labels, dict[int, tuple[float, float]]()
    medians = {label: np.median(places[y == label], axis=0).tolist() for label in choose_class_colours(found)}
    for label, (across, up) in sorted(medians.items(), key=lambda one: one[1][1]):
        for x, below in names.values():  # from the lowest to the highest
            if abs(x - across) < _NAME[0] and up - below < _NAME[1]:
                up = below + _NAME[1]
        names[label] = across, up
    return names


def compute_heat_range(similarity: Array) -> tuple[float, float]:
    """The similarities that are dark and bright, common to all images of an encoder."""
    low, high = np.quantile(similarity, (0.01, 0.995)).tolist()
    return low, high if high > low else low + 1


def convert_to_heat(similarity: Array) -> Array:
    """Similarities of an encoder as colours, uint8 (..., 3), from dark to bright between :func:`compute_heat_range`."""
    with require_extra("study", needed_for="A figure"):
        from matplotlib import colormaps

    low, high = compute_heat_range(similarity)
    coloured: Array = colormaps["magma"](((similarity - low) / (high - low)).clip(0, 1), bytes=True)[..., :3]
    return coloured


def figures_of(found: Look) -> dict[str, Drawing]:
    """The figures by name: components, similarity, neighbours and layout, as far as there is something to show."""
    drawn: dict[str, Drawing] = {}
    mapped = [(view.encoder, view.patches) for view in found.views if view.patches]
    shown = found.shown[:_MOST]
    for name in ("components", "similarity") if mapped else ():
        tiles: list[_Tile] = []
        drawings = [one.colours if name == "components" else convert_to_heat(one.similarity) for _, one in mapped]
        for place, at in enumerate(shown):
            tiles.append((found.image(at), found.label(at), ""))
            tiles += [(maps[place], encoder, "") for (encoder, _), maps in zip(mapped, drawings, strict=True)]
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
        padded = [one for row in rows[:_MOST_ROWS] for one in (*row, *[_NONE] * (n_columns - len(row)))]
        drawn["neighbours"], _ = _tiles(padded, n_columns)
        drawn["layout"] = _layouts(found)
    return drawn


def _tiles(tiles: list[_Tile], n_columns: int) -> tuple[Drawing, list[Axes]]:
    """Pictures with titles, row by row."""
    n_rows = -(-len(tiles) // n_columns)
    drawing, axes = make_figure(width=1.15 * n_columns, height=1.42 * n_rows, n_rows=n_rows, n_columns=n_columns)
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
    n_columns, colours, inks = min(2, len(among)), choose_class_colours(found), list_image_colours(found)
    n_rows = -(-len(among) // n_columns)
    drawing, axes = make_figure(width=5.0 * n_columns, height=5.2 * n_rows, n_rows=n_rows, n_columns=n_columns)
    axes[-1].axis("on" if len(axes) == len(among) else "off")
    for one, (encoder, places) in zip(axes, among, strict=False):
        one.set(xlim=(-0.05, 1.05), ylim=(-0.05, 1.05), xticks=[], yticks=[], aspect="equal", title=encoder)
        one.grid(False)
        one.spines[:].set(visible=True, color="#d8dee4")
        one.scatter(places[:, 0], places[:, 1], s=14, c=inks, linewidths=0)
        for at in select_apart(places, SIDE):
            box = OffsetImage(np.asarray(found.image(at).resize((48, 48))), zoom=0.4)
            framed = {"edgecolor": inks[at], "linewidth": 1.2, "boxstyle": "square,pad=0.05"}
            one.add_artist(AnnotationBbox(box, places[at], pad=0.05, bboxprops=framed))
        for label, (x, y) in place_class_names(found, places).items():
            boxed = {"facecolor": "white", "edgecolor": colours[label], "boxstyle": "round,pad=0.2", "alpha": 0.9}
            one.text(
                x,
                y,
                found.class_name(label),
                fontsize=7,
                ha="center",
                va="center",
                bbox=boxed,
                zorder=9,
                parse_math=False,
            )
    return drawing


def _short(text: str) -> str:
    return text if len(text) <= 22 else f"{text[:10]}…{text[-11:]}"


# --- the page and its folder ------------------------------------------------------------------------------------------


def require_folder(folder: Path) -> None:
    """Refuses a folder that holds something else than an earlier look, before any work; StoreError."""
    if folder.exists() and not folder.is_dir():
        raise StoreError(f"{folder} is no folder, expected one for the pictures; name another one.")
    others = sorted(one.name for one in folder.iterdir() if one.name not in _FILES) if folder.exists() else []
    if others:
        raise StoreError(
            f"The folder {folder} holds other things than pictures of an earlier look, such as {others[0]!r}; name "
            "another one."
        )


def write_look(found: Look, folder: Path, *, command: str = "") -> tuple[list[Path], list[str]]:
    """Writes ``index.html`` and a PNG for each part in place of an earlier look; ``command`` stands on the page.

    Returns the paths, the page first, and notes on what is smaller than asked so that the page stays below 3 MB.
    StoreError if the folder holds other things, or cannot be written.
    """
    require_folder(folder)
    text, notes = render_look_page(found, command=command)
    files = {"index.html": text.encode()}
    with use_style(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")  # boxes stand for letters that the font does not have
        for name, drawing in figures_of(found).items():
            file = io.BytesIO()
            drawing.savefig(file, format="png", metadata={"Software": None})
            files[f"{name}.png"] = file.getvalue()
    return write_files(files, folder), notes


def write_files(files: dict[str, bytes], folder: Path) -> list[Path]:
    """Writes ``index.html`` and what there is next to it in place of an earlier look; errors as :func:`write_look`."""
    require_folder(folder)
    try:
        for name in reversed(_FILES):  # the page when everything else is there
            if name in files:
                with replace_file(folder / name) as target:
                    target.write(files[name])
            else:
                (folder / name).unlink(missing_ok=True)
    except OSError as error:
        raise StoreError(f"The pictures cannot be written to {folder} ({error.strerror or error}).") from error
    return [folder / name for name in _FILES if name in files]


def render_look_page(found: Look, *, command: str = "") -> tuple[str, list[str]]:
    """The page as a text of 3 MB at most, and notes on what is smaller than asked because of that.

    QueryError if what cannot be left out does not fit.
    """
    mapped = [(view, view.patches) for view in found.views if view.patches]
    among = [(view, view.among) for view in found.views if view.among]
    beside = {at for _, one in among for query in found.queries for at in (query, *one.rows[query].tolist()) if at >= 0}
    stand = {view.encoder: select_apart(one.places, SIDE) for view, one in among}
    drawn = [(one.colours, convert_to_heat(one.similarity)) for _, one in mapped]
    for share in (1, 0.7, 0.5, 0.35, 0.25, 0.15, 0.08, 0.04, 0):
        shown = found.shown[: math.ceil(share * len(found.shown)) or 1]
        apart = {name: some[: math.ceil(share * len(some))] for name, some in stand.items()}
        px, small = (max(32, round(share * one)) for one in (512 if len(shown) <= 4 else 256, 96))
        others = (beside | {at for some in apart.values() for at in some}) - {*shown}
        sides = dict.fromkeys(sorted(others), small) | dict.fromkeys(shown, px)
        fewer = f"maps of {len(shown)} of {len(found.shown)} images, and {100 * share:.0f} % of the layouts' pictures"
        notes = [f"the page has {fewer}, so that it stays below 3 MB"] * (share < 1)
        pictures = {at: make_thumbnail(found.image(at), side) for at, side in sides.items()}
        dark = note_stretched(sum("stretched" in picture.info for picture in pictures.values()))
        notes += [dark] * bool(dark)
        text = render_template(
            "looking/look.html.jinja",
            found=found,
            command=command,
            version=__version__,
            mapped=[view for view, _ in mapped],
            among=[view for view, _ in among],
            colours=choose_class_colours(found),
            inks=list_image_colours(found),
            class_places=place_class_names,
            heat_ends=compute_heat_range,
            ramp=convert_to_heat(np.linspace(0, 1, 9)).tolist(),
            side=100 * SIDE,
            shown=shown,
            apart=apart,
            maps=[
                [[encode_data_address(Image.fromarray(one)) for one in some[: len(shown)]] for some in two]
                for two in drawn
            ],
            pictures={at: encode_data_address(picture) for at, picture in pictures.items()},
            notes=[*found.notes, *notes],
        )
        if len(text.encode()) <= MOST_BYTES:
            return text, notes
    shown_of = f"{format_count(len(found.queries), 'query', 'queries')} and {len(found.images):,} images under "
    shown_of += format_count(len(among), "encoder")
    raise QueryError(
        f"What is shown of {shown_of} does not fit on a page of 3 MB; ask for fewer (--queries, --images)."
    )
