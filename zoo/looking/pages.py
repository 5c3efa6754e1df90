"""Single-file HTML pages: templates, thumbnails and figures inside the page, and writing one whole or not at all.

A page has no scripts and no external resources. Text is escaped by jinja2, or by matplotlib in figures, which are SVG
in the colours of the page around them.
"""

from __future__ import annotations

import base64
import io
import os
import re
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..datasets.rgb import to_rgb
from ..errors import QueryError, StoreError, escape_unprintable
from ..evaluation.drawing import use_style
from ..files import replace_file
from ..optional import require_extra

with require_extra("models", needed_for="Pictures on a page"):
    import numpy as np

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing
    from PIL import Image

MOST_BYTES = 3_000_000
"""Of a page."""


def require_page(path: str | os.PathLike[str]) -> Path:
    """The path of a page, before any work; QueryError or StoreError if none can be written there."""
    target = Path(path)
    if target.suffix.lower() not in (".html", ".htm"):
        raise QueryError(f"Got the page {str(target)!r}, expected a name that ends in .html.")
    if target.is_dir() or not target.parent.is_dir() or not os.access(target.parent, os.W_OK | os.X_OK):
        raise StoreError(f"No page can be written to {target}; name a file in a folder that is there and writable.")
    return target


def render_template(template: str, **values: Any) -> str:
    """A template below the package zoo, such as ``choosing/page.html.jinja``, filled in.

    Everything is escaped; an undefined name is an error. MissingExtra without jinja2.
    """
    with require_extra("study", needed_for="A page"):
        import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(lambda name: files("zoo").joinpath(name).read_text(encoding="utf-8")),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(template).render(**values)


def write_page(text: str, path: str | os.PathLike[str]) -> Path:
    """Writes a page; an earlier file of that name is replaced. Errors are those of :func:`require_page`."""
    target = require_page(path)
    try:
        with replace_file(target) as file:
            file.write(text.encode())
    except OSError as error:
        raise StoreError(f"The page cannot be written to {target} ({error.strerror or error}).") from error
    return target


# --- thumbnails ------------------------------------------------------------------------------------------------------

_DARK = 96  # of 255: a picture without brighter pixels shows next to nothing


def make_thumbnail(image: Image.Image, px: int) -> Image.Image:
    """The whole image in RGB, its longer side ``px`` at most; a smaller one stays as it is.

    One that would be nearly black, as are values that use a part of their 16 bits, is stretched to its own range, with
    True as ``info["stretched"]``: encoders get it as it is, and a page has to say so (:func:`note_stretched`).
    """
    small = to_rgb(image).copy()  # which may be the caller's own
    small.thumbnail((px, px))
    low, high = np.percentile(np.asarray(small), (0.1, 99.9))
    if low < high < _DARK:
        small = small.point([round(min(max((i - low) / (high - low), 0), 1) * 255) for i in range(256)] * 3)
        small.info["stretched"] = True
    return small


def note_stretched(n: int) -> str:
    """A sentence on pictures that were stretched; "" if none was."""
    pictures = "1 picture is" if n == 1 else f"{n:,} pictures are"
    return f"{pictures} stretched to black and white here, for the encoder gets dark images" * bool(n)


def encode_data_address(image: Image.Image) -> str:
    """An image as the address of an ``<img>``: PNG if it is small, else JPEG."""
    file = io.BytesIO()
    kind = "png" if max(image.size) <= 64 else "jpeg"
    image.save(file, kind, optimize=kind == "png", quality=82)  # each takes its own
    return f"data:image/{kind};base64,{base64.b64encode(file.getvalue()).decode()}"


# --- figures ---------------------------------------------------------------------------------------------------------

INK, LINE = "#010203", "#040506"
"""Stand in a figure for the colours of text and of lines of the page."""
_PAGE_STYLE: Any = {
    "text.color": INK, "axes.edgecolor": INK, "axes.labelcolor": INK, "xtick.color": INK, "ytick.color": INK,
    "grid.color": LINE, "svg.fonttype": "none", "figure.facecolor": "none", "axes.facecolor": "none",
    "savefig.facecolor": "none", "legend.labelcolor": INK,
}  # fmt: skip
_OF_PAGE = {  # the darkest colours have lighter ones on a dark page
    INK: "currentColor",
    LINE: "var(--line)",
    "#0072b2": "var(--blue, #0072b2)",
    "#56b4e9": "var(--sky, #56b4e9)",
    "#d55e00": "var(--red, #d55e00)",
    "#009e73": "var(--green, #009e73)",
}
_SIZE = re.compile(r'<svg ([^>]*?)width="([0-9.]+)pt" height="([0-9.]+)pt"', re.DOTALL)


_WIDE, _NARROW = 8.8, 3.7  # inches of a figure on wide screens and on phones


def render_figure(draw: Callable[[float], Drawing], *, title: str, caption: str, alt: str, name: str) -> dict[str, Any]:
    """A figure for the templates, drawn for wide screens and for phones."""
    with require_extra("study", needed_for="A page"):
        from markupsafe import Markup
    widths = {"wide": _WIDE, "narrow": _NARROW}
    drawn = {size: Markup(render_svg(draw, width, name=f"{size}{name}")) for size, width in widths.items()}
    return {"title": title, "caption": caption, "alt": alt, **drawn}


def render_svg(draw: Callable[[float], Drawing], width: float, *, name: str) -> str:
    """A figure of so many inches as an ``<svg>`` element; ``name`` keeps its ids apart from those of other figures.

    Its text is text, which matplotlib has escaped. Its colours are those of the page: ``currentColor``, ``--line``,
    ``--blue``, ``--red`` and ``--green``.
    """
    with require_extra("study", needed_for="A figure"):
        import matplotlib
    file = io.StringIO()
    with use_style(), matplotlib.rc_context({**_PAGE_STYLE, "svg.hashsalt": name}):
        draw(width).savefig(file, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    text = escape_unprintable(file.getvalue())
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = _SIZE.sub(r'<svg \1width="100%" style="max-width: \2pt"', text, count=1)
    text = re.sub(r'<g id="[^"]*">', "<g>", text)
    for colour, of_page in _OF_PAGE.items():
        text = text.replace(colour, of_page)
    return text
