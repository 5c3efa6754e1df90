"""All files of a site, from what the zoo knows: one maker a kind of page."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from . import about_page, badges, choose_page, compare_page, data_pages, encoder_pages, first_page, study_pages
from .contents import Contents
from .rendering import File, Renderer, assets_of

Maker = Callable[[Contents, Renderer], Iterator[File]]
MAKERS: dict[str, Maker] = {
    "first page": first_page.files,
    "encoders": encoder_pages.files,
    "comparison": compare_page.files,
    "choice": choose_page.files,
    "studies": study_pages.files,
    "data": data_pages.files,
    "badges": badges.files,
    "about": about_page.files,
}
"""What makes each kind of page, in the order in which progress names them."""


def site_files(
    contents: Contents, progress: Callable[[str, int, int], None] = lambda what, done, total: None
) -> Iterator[File]:
    """Every file of the site, pages first, assets last."""
    renderer = Renderer(contents)
    for number, (name, make) in enumerate(MAKERS.items()):
        progress(name, number, len(MAKERS))
        yield from make(contents, renderer)
    yield from assets_of(renderer)
