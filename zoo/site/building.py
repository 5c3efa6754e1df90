"""All files of a site, from what the zoo knows: one maker a kind of page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec

from ..errors import MissingExtra
from ..studies.running import LIBRARIES as STUDY_LIBRARIES
from . import about_page, badges, choose_page, compare_page, data_tables, encoder_pages, first_page, study_pages
from .contents import Contents
from .rendering import File, Renderer, assets_of

Maker = Callable[[Contents, Renderer], Iterator[File]]
MAKERS: dict[str, Maker] = {
    "first page": first_page.files,
    "encoders": encoder_pages.files,
    "comparison": compare_page.files,
    "choice": choose_page.files,
    "studies": study_pages.files,
    "data": data_tables.files,
    "badges": badges.files,
    "about": about_page.files,
}
"""What makes each kind of page, in the order in which progress names them."""


Progress = Callable[[str, int, int], None]
"""Told what is being made, how many kinds of pages are done, and of how many."""


def no_progress(what: str, done: int, total: int) -> None: ...


def site_files(contents: Contents, progress: Progress = no_progress) -> Iterator[File]:
    """Every file of the site, pages first, assets last; the same for the same contents.

    Raises
    ------
    MissingExtra
        Before any work, if a library is missing.
    """
    require_libraries(with_studies=contents.with_studies)
    return _made(contents, progress)


def require_libraries(*, with_studies: bool) -> None:
    """MissingExtra if a library is missing that a site needs; nothing is imported."""
    for library in ("jinja2", "itables", *(STUDY_LIBRARIES if with_studies else ())):
        if find_spec(library) is None:
            raise MissingExtra(library, extra="site", needed_for="A site")


def _tell(progress: Progress, name: str, number: int, what: str) -> None:
    progress(f"{name}: {what}", number, len(MAKERS))


def _made(contents: Contents, progress: Progress) -> Iterator[File]:
    renderer = Renderer(contents)
    for number, (name, make) in enumerate(MAKERS.items()):
        progress(name, number, len(MAKERS))
        renderer.tell = partial(_tell, progress, name, number)
        for count, file in enumerate(make(contents, renderer), start=1):
            yield file
            progress(f"{name}: {count}", number, len(MAKERS))
    yield from assets_of(renderer)
    progress("done", len(MAKERS), len(MAKERS))
