"""``about.html``: sources of the numbers, how they were measured, and their limits."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from ..analysis.label_budget import N_CLASSES
from ..cards.descriptions import format_fact_label, read_meanings
from ..results.values import PUBLISHED_SOURCE, SETTINGS
from .contents import TITLE, Contents
from .rendering import File, SiteRenderer

PAGE = "about.html"


def build_files(contents: Contents, renderer: SiteRenderer) -> Iterator[File]:
    """The page."""
    entries = contents.entries.values()
    yield renderer.page(
        "about.html.jinja",
        PAGE,
        title="About",
        kind="about",
        contents=contents,
        n_encoders=len(entries),
        n_families=len({entry.card.family for entry in entries}),
        n_elsewhere=sum(bool(entry.means) for entry in entries),
        n_reported=sum(bool(entry.reported) for entry in entries),
        n_wrong=sum(entry.subject.is_wrong for entry in entries),
        settings=SETTINGS,
        n_classes=N_CLASSES,
        published=PUBLISHED_SOURCE,
        made_with=_command(contents),
        facts=[*_facts()],
    )


def _facts() -> Iterator[tuple[str, str, str]]:
    """Part of the card, name and meaning of every fact, as pages of encoders call them."""
    for fact, meaning in read_meanings().items():
        part, _, name = fact.rpartition(".")
        label, unit = format_fact_label(name)
        yield part or "card", label, f"{meaning}, in{unit}" if unit else meaning


def _command(contents: Contents) -> str:
    """The command line that makes a site of the same encoders."""
    only = "".join(f" --only {shlex.quote(pattern)}" for pattern in contents.only)
    title = "" if contents.title == TITLE else f" --title {shlex.quote(contents.title)}"
    return f"zoo site --out site{only}{title}" + " --with-mine" * contents.with_mine
