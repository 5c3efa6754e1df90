"""``look.html``: what some encoders make of images: maps as colours, and nearest neighbours.

Its pictures and their facts are in ``results/looks/`` (``scripts/look_pictures.py``): a sheet of images for each data
set and, for each encoder, its maps one below the other, a cell of a map a pixel. The page shows parts of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..files import get_content_folder
from .contents import Contents
from .drawing import build_element
from .rendering import File, SiteRenderer, get_encoder_page

if TYPE_CHECKING:
    from markupsafe import Markup

PAGE = "look.html"


def build_files(contents: Contents, renderer: SiteRenderer) -> Iterator[File]:
    """The page, of the encoders that the site has; its pictures are assets."""
    folder = get_content_folder("results") / "looks"
    sections = [_section(one, folder, contents, renderer) for one in json.loads((folder / "looks.json").read_bytes())]
    yield renderer.page("look.html.jinja", PAGE, title="Look", kind="look", sections=sections)


def _section(look: dict[str, Any], folder: Path, contents: Contents, renderer: SiteRenderer) -> dict[str, Any]:
    """A data set: rows of images next to their maps, and queries with the neighbours that each encoder finds."""
    px, n_columns, labels, shown = look["px"], look["columns"], look["labels"], look["shown"]
    sheet = renderer.asset(look["file"], (folder / look["file"]).read_bytes())
    size = (px * n_columns, px * -(-len(labels) // n_columns))

    def image(number: int, more: str = "") -> Markup:
        at = (px * (number % n_columns), px * (number // n_columns))
        return _part(sheet, size, at, (px, px), label=labels[number] + more)

    encoders = []
    for one in look["encoders"]:
        if entry := contents.entries.get(one["id"]):
            strip = renderer.asset(one["file"], (folder / one["file"]).read_bytes())
            part, whole = (one["columns"], one["rows"]), (one["columns"], one["rows"] * len(shown))
            maps = [
                _part(strip, whole, (0, part[1] * place), part, label=f"map of {one['id']}: {labels[number]}")
                for place, number in enumerate(shown)
            ]
            encoders.append({**one, "href": get_encoder_page(entry), "maps": maps})
    queries = []
    for place, query in enumerate(look["queries"]):
        found = [
            (
                one,
                [
                    (image(number, f" at {apart:.2g}"), labels[number], f"{apart:.2g}", labels[number] == labels[query])
                    for number, apart in one["neighbours"][place]
                ],
            )
            for one in encoders
        ]
        queries.append({"label": labels[query], "image": image(query), "found": found})
    images = [(labels[number], image(number)) for number in shown]
    return {**look, "encoders": encoders, "images": images, "queries": queries}


def _part(file: str, size: tuple[int, int], at: tuple[int, int], part: tuple[int, int], *, label: str) -> Markup:
    """A rectangle of a picture."""
    drawn = build_element("image", {"href": file, "width": size[0], "height": size[1]})
    box = {"class": "tile", "viewBox": f"{at[0]} {at[1]} {part[0]} {part[1]}", "role": "img", "aria-label": label}
    return build_element("svg", box, drawn)
