"""What ``zoo site`` and ``zoo export --space`` share: the options that say what a site shows, and how it is written."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .options import encoder_names
from .output import print_notes, size, steps, wrapped

if TYPE_CHECKING:
    from ..site.contents import Contents
    from ..site.folder import Written
    from ..site.rendering import File

CONTENT_OPTIONS = ("with_mine", "only", "title", "no_studies")
"""Names of the options that :func:`content_options` adds."""
_LONGEST_TITLE = 80


def _as_title(ctx: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Callback of a title: one line of text."""
    if value is None:
        return None
    text = value.strip()
    if not text or not text.isprintable() or len(text) > _LONGEST_TITLE:
        expected = f"one line of at most {_LONGEST_TITLE} characters"
        raise click.BadParameter(f"got {value[:_LONGEST_TITLE]!r}, expected {expected}.", ctx, parameter)
    return text


def content_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds ``--with-mine``, ``--only``, ``--title`` and ``--no-studies``."""
    options = (
        click.option("--with-mine", is_flag=True, help="With your own encoders and measurements, which are marked."),
        click.option(
            "--only",
            metavar="PATTERN",
            multiple=True,
            shell_complete=encoder_names,
            help="These encoders: an id or a glob such as 'dino_*'; repeatable.",
        ),
        click.option("--title", metavar="TEXT", callback=_as_title, help="Of the site, instead of SSL Zoo."),
        click.option("--no-studies", is_flag=True, help="Without the pages of the studies, which take longest."),
    )
    for option in reversed(options):
        command = option(command)
    return command


@dataclass(frozen=True, slots=True)
class Made:
    """A site that was made and written."""

    contents: Contents
    written: Written
    seconds: float

    @property
    def index(self) -> Path:
        """Its first page."""
        return self.written.folder / "index.html"


def made_site(
    folder: Path,
    *,
    with_mine: bool,
    only: tuple[str, ...],
    title: str | None,
    no_studies: bool,
    more: Callable[[Contents], Iterator[File]] = lambda contents: iter(()),
) -> Made:
    """Makes the site and writes it; ``more`` makes files besides those of every site."""
    from dataclasses import replace
    from itertools import chain

    from ..site.building import require_libraries, site_files
    from ..site.contents import TITLE, gather
    from ..site.folder import require_site_folder, write_site

    start = time.monotonic()
    require_site_folder(folder)  # it and the libraries first: a refusal shows before any work
    require_libraries(with_studies=not no_studies)
    with steps("reading cards and results") as progress:
        gathered = gather(only=only, with_mine=with_mine, title=title or TITLE)
        contents = replace(gathered, with_studies=not no_studies)
        files = chain(more(contents), site_files(contents, progress))
        written = write_site(files, folder, title=contents.title)
    return Made(contents, written, time.monotonic() - start)


def print_made(made: Made) -> None:
    """Prints what was written, and of ``--with-mine`` what it added."""
    written = made.written
    pages, seconds = _many(written.n_pages, "page"), max(made.seconds, 1)
    whole = f"{pages} ({_many(written.n_files, 'file')}, {size(written.n_bytes)})"
    changes = f"{_many(written.n_written, 'file')} new or changed, {written.n_removed:,} removed"
    if not written.n_written and not written.n_removed:
        click.echo(wrapped(f"{written.folder} is as it should be, in {seconds:.0f} s: {whole}, none of them changed."))
    else:
        click.echo(wrapped(f"Wrote {whole} to {written.folder} in {seconds:.0f} s: {changes}."))
    if made.contents.with_mine:
        entries = made.contents.entries.values()
        own, measured = sum(entry.is_mine for entry in entries), sum(bool(entry.own_means) for entry in entries)
        added = f"{_many(own, 'encoder')} of yours, and your measurements of {_many(measured, 'encoder')}"
        print_notes(
            [f"--with-mine added {added if own or measured else 'nothing: your folder has no encoder of these'}"]
        )


def document_of(made: Made) -> dict[str, Any]:
    """The same for ``--json``."""
    written = made.written
    return {
        "folder": str(written.folder),
        "index": str(made.index),
        "title": made.contents.title,
        "encoders": len(made.contents.entries),
        "pages": written.n_pages,
        "files": written.n_files,
        "written": written.n_written,
        "unchanged": written.n_unchanged,
        "removed": written.n_removed,
        "size_bytes": written.n_bytes,
        "seconds": round(made.seconds, 3),
    }


def _many(n: int, what: str) -> str:
    return f"{n:,} {what}{'s' * (n != 1)}"
