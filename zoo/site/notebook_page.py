"""``notebook.html``: the notebook of the documentation with its outputs, as it was stored.

Tables are those of a notebook of ours, and go through as they are but for their styles, which the policy of the pages
forbids; the style sheet of the site has its own.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from ..files import get_content_folder
from ..optional import require_extra
from .contents import Contents
from .rendering import File, SiteRenderer

PAGE = "notebook.html"
_NOTEBOOK = "quickstart.ipynb"
_STYLES = re.compile(r'<style.*?</style>| (?:style|border)="[^"]*"', re.DOTALL)


def build_files(contents: Contents, renderer: SiteRenderer) -> Iterator[File]:
    """The page; its pictures are assets."""
    with require_extra("site", needed_for="A site"):
        from markdown_it import MarkdownIt
        from markupsafe import Markup
    markdown = MarkdownIt("commonmark", {"html": False})
    document = json.loads((get_content_folder("docs") / _NOTEBOOK).read_text(encoding="utf-8"))
    cells: list[dict[str, Any]] = []
    for cell in document["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            cells.append({"text": Markup(markdown.render(source))})
        else:
            alt = cell["metadata"].get("alt", "")
            cells.append({"code": source, "outputs": [_shown(one, alt, renderer) for one in cell["outputs"]]})
    yield renderer.page("notebook.html.jinja", PAGE, title="A notebook", kind="notebook", cells=cells, file=_NOTEBOOK)


def _shown(output: Mapping[str, Any], alt: str, renderer: SiteRenderer) -> dict[str, Any]:
    """What a page shows of one output: a table, a picture or a text."""
    from markupsafe import Markup

    data = output.get("data", {})
    if "image/png" in data:
        content = base64.b64decode("".join(data["image/png"]))
        width, height = (int.from_bytes(content[at : at + 4]) for at in (16, 20))
        number = sum(name.startswith("notebook-") for name in renderer.assets) + 1
        path = renderer.asset(f"notebook-{number}.png", content)
        return {"picture": path, "width": width, "height": height, "alt": alt}
    if "text/html" in data:
        table = _STYLES.sub("", "".join(data["text/html"])).replace("<th></th>", "<td></td>")  # a heading has words
        return {"table": Markup(table)}
    return {"words": "".join(data.get("text/plain", output.get("text", "")))}
