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
_GROUPS = re.compile(r"<g(?: [^>]*[^>/])?>\n?|</g>\n?")
_ALIKE = re.compile(r'<use [^>]* style="([^"]*)"/>\n(?:<use [^>]* style="\1"/>\n){2,}')
_NO_TURN = re.compile(r' transform="rotate\(-?0 [^"]*\)"')
_STYLED = re.compile(r'<(\w+)([^>]*?)(?: clip-path="url\(#([^)]*)\)")? style="([^"]*)"')
_COLOUR = re.compile(r"(fill|stroke):(#[0-9a-f]{6})")
_SHAPES = re.compile(r"(<defs>.*?</defs>)", re.DOTALL)  # marks and clips, a few points wide: they keep two decimals
_NUMBERS = re.compile(r' (?:d|x|y|x1|x2|y1|y2|points)="[^"]*"')
_DECIMALS = re.compile(r"-?\d+\.\d+")
_PATH = re.compile(r' d="([^"]*)"')
_COMMAND = re.compile(r"\s*([A-Za-z])\s*")
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
    return shorten_figure_svg(escape_unprintable(file.getvalue()))


def shorten_figure_svg(text: str) -> str:
    """What matplotlib wrote, a third as long, with the same picture to a tenth of a point and colours for the dark."""
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text, flags=re.DOTALL)
    text = re.sub(r"\s*\n\s*", "\n", text)  # a tenth of it is indentation
    text = _without_idle_groups(_NO_TURN.sub("", _GROUP.sub("<g>", text)))
    text = "".join(_with_short_numbers(part, 2 if part.startswith("<defs>") else 1) for part in _SHAPES.split(text))
    text = _CLIPPED.sub(lambda found: found[0].replace(f"</g>\n{found[1]}", ""), text)  # a group per point becomes one
    text = _ALIKE.sub(_with_one_style, text)
    return _with_short_ids(_with_classes(text)).replace(">\n<", "><").replace("xlink:href", "href")


def _without_idle_groups(text: str) -> str:
    """Groups that have neither a clip nor a transformation go, and leave what is in them."""
    stays: list[bool] = []

    def kept(found: re.Match[str]) -> str:
        if found[0].startswith("<g"):
            stays.append(found[0].startswith("<g "))
            return found[0] if stays[-1] else ""
        return found[0] if stays.pop() else ""

    return _GROUPS.sub(kept, text)


def _with_short_numbers(text: str, decimals: int) -> str:
    """Places as a screen shows them, and paths without the spaces and commands that a path implies."""

    def rounded(found: re.Match[str]) -> str:
        return f"{float(found[0]):.{decimals}f}".rstrip("0").rstrip(".")

    def shortened(found: re.Match[str]) -> str:
        path = _COMMAND.sub(r"\1", found[1]).strip()
        return f' d="{path if set(path) & set("CQ") else path.replace("L", " ")}"'

    return _PATH.sub(shortened, _NUMBERS.sub(lambda found: _DECIMALS.sub(rounded, found[0]), text))


def _with_one_style(found: re.Match[str]) -> str:
    """Marks of one style as a group that has it; a group that is seen through would hide marks below marks."""
    style = f' style="{found[1]}"'
    return found[0] if "opacity" in found[1] else f"<g{style}>\n{found[0].replace(style, '')}</g>\n"


def _with_classes(text: str) -> str:
    """Styles of elements as classes, each with its colours for light and for dark; half the size, too."""
    classes: dict[tuple[bool, str], str] = {}
    clips: dict[str, str] = {}

    def named(found: re.Match[str]) -> str:
        style = re.sub(r"([:;])\s+", r"\1", found[4])
        name = classes.setdefault((found[1] == "text", style), f"z{len(classes)}")
        clip = f" {clips.setdefault(found[3], f'c{len(clips)}')}" if found[3] else ""
        return f'<{found[1]}{found[2]} class="{name}{clip}"'

    text = _STYLED.sub(named, text)
    light, dark = ["text{fill:#000000}"], [f"text{{fill:{_INK}}}"]
    light += [f".{name}{{clip-path:url(#{clip})}}" for clip, name in clips.items()]
    for (is_text, style), name in classes.items():
        light.append(f".{name}{{{style}}}")
        colours = [(what, colour, _IN_THE_DARK.get(colour, colour)) for what, colour in _COLOUR.findall(style)]
        changed = [f"{what}:{to}" for what, of, to in colours if to != of and not (is_text and of == "#ffffff")]
        if changed:
            dark.append(f".{name}{{{';'.join(changed)}}}")
    rules = f"{''.join(light)}@media (prefers-color-scheme: dark){{{''.join(dark)}}}"
    return text.replace("<defs>", f"<style>{rules}</style>\n<defs>", 1)


def _with_short_ids(text: str) -> str:
    """Ids as short as can be: a figure with a mark per point names them ten thousand times."""
    short = {name: f"{place:x}" for place, name in enumerate(dict.fromkeys(_ID.findall(text)))}
    text = _ID.sub(lambda found: f' id="i{short[found[1]]}"', text)
    return _REFERENCE.sub(lambda found: f"{found[1]}i{short[found[2]]}", text)


def read_svg_size(svg: str) -> tuple[int, int]:
    """Width and height of such a file in pixels of a page."""
    found = _SIZE.search(svg)
    if found is None:
        raise ValueError("got an SVG without width and height in points, expected one of matplotlib")
    return round(float(found[1]) * _PIXELS_A_POINT), round(float(found[2]) * _PIXELS_A_POINT)
