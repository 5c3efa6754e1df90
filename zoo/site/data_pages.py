"""``data/``: every table as CSV and as JSON, and the page that lists them with their data dictionary."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .contents import Contents
from .data_tables import Field, Table, csv_bytes, dictionary, json_bytes, tables
from .rendering import File, Renderer

FOLDER = "data"
PAGE = f"{FOLDER}/index.html"


@dataclass(frozen=True, slots=True)
class Listed:
    """What the page says of a table."""

    table: Table
    csv_size: str
    json_size: str

    @property
    def columns(self) -> list[tuple[Field, str]]:
        """Each with why its cells may be empty, and how many are."""
        return [(column, _absent(self.table, place)) for place, column in enumerate(self.table.columns)]


def files(contents: Contents, renderer: Renderer) -> Iterator[File]:
    """Two files a table, and the page."""
    found = tables(contents)
    found.append(dictionary(found))
    listed = []
    for table in found:
        as_csv, as_json = csv_bytes(table), json_bytes(table)
        yield File(f"{FOLDER}/{table.name}.csv", as_csv)
        yield File(f"{FOLDER}/{table.name}.json", as_json)
        listed.append(Listed(table, size(len(as_csv)), size(len(as_json))))
    yield renderer.page("data.html.jinja", PAGE, title="Data", kind="data", listed=listed, contents=contents)


def size(n_bytes: int) -> str:
    """A size of a file.

    >>> size(812), size(38_595), size(1_867_326)
    ('1 kB', '39 kB', '1.9 MB')
    """
    return f"{n_bytes / 1e6:.1f} MB" if n_bytes >= 1e6 else f"{max(round(n_bytes / 1e3), 1)} kB"


def _absent(table: Table, place: int) -> str:
    """Why cells of a column have no value: "not published (12), not applicable (3)"."""
    counted = {reason: len(rows) for reason, rows in table.missing(place).items()}
    return ", ".join(f"{reason} ({n:,})" for reason, n in sorted(counted.items(), key=lambda pair: -pair[1]))
