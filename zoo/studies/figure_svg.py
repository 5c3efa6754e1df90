"""A figure as an SVG file that follows the light or dark colours of the reader; text stays text."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING, Any

from ..errors import escape_unprintable
from ..optional import require_extra

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

_PAPER, _INK = "#14171b", "#e6e9ed"
_ON_CELLS = "#000001"  # black that no rule exchanges
_IN_THE_DARK = {
    "#ffffff": _PAPER, "#000000": _INK, "#e6e6e6": "#3a424c", "#f3f3f3": "#1f242a", "#f5f5f5": "#1f242a",
    "#444444": "#a3adb8", "#555555": "#a3adb8", "#777777": "#8b949e", "#808080": "#8b949e", "#888888": "#8b949e",
    "#cccccc": "#57606a", "#0072b2": "#3b93d9", "#56b4e9": "#9bd3f5", "#009e73": "#2fc39a",
    "#d55e00": "#ff8a3d", "#7a5c00": "#cfae55",
}  # fmt: skip
_GROUP = re.compile(r'<g id="[^"]*">')
_CLIPPED = re.compile(r'(<g clip-path="[^"]*">\n)(?:<use [^>]*/>\n)+</g>\n(?:\1(?:<use [^>]*/>\n)+</g>\n)+')
_NO_TURN = re.compile(r' transform="rotate\(-?0 [^"]*\)"')
_STYLED = re.compile(r'<(\w+)([^>]*?) style="([^"]*)"')
_COLOUR = re.compile(r"(fill|stroke):(#[0-9a-f]{6})")
_NUMBERS = re.compile(r' (?:d|x|y|x1|x2|y1|y2|points)="[^"]*"')
_DECIMALS = re.compile(r"(\.\d\d)\d+")
_ID = re.compile(r' id="([^"]*)"')
_REFERENCE = re.compile(r'(url\(#|href="#)([^)"]*)')
_SIZE = re.compile(r'<svg [^>]*?width="([0-9.]+)pt" height="([0-9.]+)pt"', re.DOTALL)
_PIXELS_A_POINT = 96 / 72


def render_figure_svg(drawing: Drawing, *, name: str) -> str:
    """The figure as SVG; the same figure and name give the same text."""
    with require_extra("study", needed_for="A figure"):
        import matplotlib

    for axes in drawing.axes:
        if axes.images:
            for written in axes.texts:
                if written.get_color() in ("black", "k", "#000000"):
                    written.set_color(_ON_CELLS)
    file = io.StringIO()
    metadata: Any = {"Date": None, "Creator": None, "Format": None, "Type": None}
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        drawing.savefig(file, format="svg", metadata=metadata)
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", escape_unprintable(file.getvalue()), flags=re.DOTALL)
    text = re.sub(r"\s*\n\s*", "\n", text)  # a tenth of it is indentation
    text = _NO_TURN.sub("", _GROUP.sub("<g>", text))
    text = _NUMBERS.sub(lambda found: _DECIMALS.sub(r"\1", found[0]), text)
    text = _CLIPPED.sub(lambda found: found[0].replace(f"</g>\n{found[1]}", ""), text)  # a group a point becomes one
    return _with_short_ids(_with_classes(text)).replace(">\n<", "><").replace("xlink:href", "href")


def _with_classes(text: str) -> str:
    """Styles of elements as classes, each with its colours for light and for dark; half the size, too."""
    classes: dict[tuple[bool, str], str] = {}

    def named(found: re.Match[str]) -> str:
        style = re.sub(r"([:;])\s+", r"\1", found[3])
        name = classes.setdefault((found[1] == "text", style), f"z{len(classes)}")
        return f'<{found[1]}{found[2]} class="{name}"'

    text = _STYLED.sub(named, text)
    light, dark = ["text{fill:#000000}"], [f"text{{fill:{_INK}}}"]
    for (is_text, style), name in classes.items():
        light.append(f".{name}{{{style}}}")
        colours = [(what, colour, _IN_THE_DARK.get(colour, colour)) for what, colour in _COLOUR.findall(style)]
        changed = [f"{what}:{to}" for what, of, to in colours if to != of and not (is_text and of == "#ffffff")]
        if changed:
            dark.append(f".{name}{{{';'.join(changed)}}}")
    rules = f"{''.join(light)}@media (prefers-color-scheme: dark){{{''.join(dark)}}}"
    return text.replace("<defs>", f"<style>{rules}</style>\n<defs>", 1)


def _with_short_ids(text: str) -> str:
    """Ids as short as can be: a figure with a mark a point names them ten thousand times."""
    short = {name: f"{place:x}" for place, name in enumerate(dict.fromkeys(_ID.findall(text)))}
    text = _ID.sub(lambda found: f' id="i{short[found[1]]}"', text)
    return _REFERENCE.sub(lambda found: f"{found[1]}i{short[found[2]]}", text)


def read_svg_size(svg: str) -> tuple[int, int]:
    """Width and height of such a file in pixels of a page."""
    found = _SIZE.search(svg)
    if found is None:
        raise ValueError("got an SVG without width and height in points, expected one of matplotlib")
    return round(float(found[1]) * _PIXELS_A_POINT), round(float(found[2]) * _PIXELS_A_POINT)
