"""The user's rows as a table of SQLite in the cache: a change of a file renews its rows, a question reads its answer.

Rows are kept by data set, so that those of one lie together, with an index by encoder. The copy is made in memory and
written whole; it may be removed at any time. A file is checked again when its stamp, the rules or the shipped results
change, when an encoder that it names is gone, or when a file that names the same encoder is checked again, for of two
equal rows the first counts; a file in which something is wrong is checked with every change.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, BinaryIO
from weakref import finalize

from ..cards.catalogue import RULES, Catalogue
from ..cards.content_cache import CachedContent, Stamp, locate_copy, read_module_stamps, select_settled, write_copy
from ..errors import ResultsError
from ..files import get_user_folder
from .values import Key, Row

_MOST_NAMED = 500  # encoders in one question; SQLite takes 999 values everywhere
_TABLES = """
CREATE TABLE about (told TEXT, rules TEXT, token TEXT, places TEXT);
CREATE TABLE files (number INTEGER PRIMARY KEY, path BLOB, stamp TEXT, encoders TEXT, errata TEXT, left_out TEXT);
CREATE TABLE kinds (number INTEGER PRIMARY KEY, texts TEXT UNIQUE);
CREATE TABLE rows (
    dataset TEXT, file INTEGER, line INTEGER, encoder TEXT, kind INTEGER, value TEXT, low TEXT, high TEXT,
    PRIMARY KEY (dataset, file, line)) WITHOUT ROWID;
CREATE INDEX by_encoder ON rows (encoder);
"""


class OwnRows:
    """The checked rows of the user's files; ``token`` is another one whenever they may have changed."""

    def __init__(self, table: sqlite3.Connection) -> None:
        self._table = table
        finalize(self, table.close)
        self.token, places = table.execute("SELECT token, places FROM about").fetchone()
        self._places: list[int] = json.loads(places)  # of the files by number; empty where these are in order
        texts = table.execute("SELECT number, texts FROM kinds")
        self._kinds: dict[int, list[str]] = {number: json.loads(text) for number, text in texts}
        told = table.execute("SELECT errata, left_out FROM files WHERE errata != '[]' OR left_out != '[]'").fetchall()
        self.errata: list[dict[str, Any]] = [one for errata, _ in told for one in json.loads(errata)]
        self.left_out: list[str] = [sentence for _, sentences in told for sentence in json.loads(sentences)]

    def rows(self, metrics: Collection[str] | None, encoders: Collection[str] | None, dataset: str | None) -> list[Row]:
        """Rows of these metrics, encoders by id and this data set, or of all, in the order of files and lines."""
        conditions, values = ["1"], list[str]()
        if metrics is not None:
            kinds = (str(number) for number, texts in self._kinds.items() if texts[0] in metrics)
            conditions.append(f"kind IN ({','.join(kinds)})")
        if encoders is not None and len(encoders) <= _MOST_NAMED:
            conditions.append(f"encoder IN ({','.join('?' * len(encoders))})")
            values += encoders
        if dataset is not None:
            conditions.append("dataset = ?")
            values.append(dataset)
        columns = "file, encoder, dataset, kind, value, low, high"
        question = f"SELECT {columns} FROM rows WHERE {' AND '.join(conditions)} ORDER BY file, line"
        try:
            found = self._table.execute(question, values).fetchall()
        except sqlite3.DatabaseError as error:
            _copy().unlink(missing_ok=True)
            sentence = f"The copy of your rows in {_copy()} was damaged ({error}) and is removed; ask again."
            raise ResultsError(sentence) from error
        if self._places:
            found.sort(key=lambda one: self._places[one[0]])
        if encoders is not None and len(encoders) > _MOST_NAMED:
            wanted = frozenset(encoders)
            found = [one for one in found if one[1] in wanted]
        kinds_of, rows = self._kinds, []
        for _, encoder, of, kind, value, low, high in found:
            metric, split, n_train, seed, unit, *how = kinds_of[kind]
            rows.append(Row(encoder, metric, of, split, n_train, seed, value, unit, low, high, *how))
        return rows


def read_own_rows(stamps: Sequence[Stamp], cards: Catalogue, shipped: CachedContent) -> OwnRows:
    """The rows of these files of the user, from the copy as far as it is up to date."""
    modules = read_module_stamps((*RULES, "results"))
    rules = "\n".join([shipped.digest, *map(repr, modules)])
    told = "\n".join([rules, *cards.digests, *map(repr, stamps)])
    kept, told_then, rules_then = _opened()
    if kept is not None and told_then == told:
        return OwnRows(kept)
    table = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    if kept is not None and rules_then == rules:
        kept.backup(table)
    else:
        table.executescript(_TABLES)
    if kept is not None:
        kept.close()  # an open file cannot be replaced on Windows
    table.execute("BEGIN")
    _renew(table, stamps, cards, shipped)
    numbers = dict(table.execute("SELECT path, number FROM files"))
    order = [numbers[os.fsencode(path)] for path, *_ in stamps]
    places = [0] * (max(order) + 1)
    for place, number in enumerate(order):
        places[number] = place
    told = told if len(select_settled(stamps)) == len(stamps) else ""
    table.execute("DELETE FROM about")
    about = (told, rules, os.urandom(8).hex(), json.dumps([] if order == sorted(order) else places))
    table.execute("INSERT INTO about VALUES (?, ?, ?, ?)", about)
    table.execute("COMMIT")

    def fill(file: BinaryIO) -> None:
        try:
            target = sqlite3.connect(file.name)
            table.backup(target)
            target.close()
        except sqlite3.Error as error:
            raise OSError(str(error)) from error

    if len(select_settled(modules)) == len(modules):
        write_copy(_copy(), fill)
    return OwnRows(table)


def _copy() -> Path:
    return locate_copy("own_rows", get_user_folder(), ".sqlite")


def _opened() -> tuple[sqlite3.Connection | None, str, str]:
    """The copy, which nobody changes once it is there, and what it was made of; None if there is no such table."""
    try:
        address = f"{_copy().absolute().as_uri()}?mode=ro&immutable=1"
        table = sqlite3.connect(address, uri=True, check_same_thread=False)
    except sqlite3.Error:
        return None, "", ""
    try:
        return table, *table.execute("SELECT told, rules FROM about").fetchone()
    except (sqlite3.Error, TypeError):
        table.close()
        return None, "", ""


def _renew(table: sqlite3.Connection, stamps: Sequence[Stamp], cards: Catalogue, shipped: CachedContent) -> None:
    """Checks what has changed, and puts it in the place of what was there."""
    from .reading import collect_keys, parse_errata, parse_rows, read_own_contents

    now, counting = {one[0]: repr(one) for one in stamps}, {one[0] for one in select_settled(stamps)}
    known: dict[str, tuple[int, list[str]]] = {}
    sharing: defaultdict[str, set[str]] = defaultdict(set)  # files by encoder that they have rows of
    fresh = set(now)
    for path, number, stamp, encoders, wrong in table.execute(
        "SELECT path, number, stamp, encoders, left_out FROM files"
    ):
        name, named = os.fsdecode(path), json.loads(encoders)
        known[name] = number, named
        for encoder in named:
            sharing[encoder].add(name)
        are_ids = all(encoder in cards and cards.id_of(encoder) == encoder for encoder in named)
        if now.get(name) == stamp and wrong == "[]" and name.endswith(".csv") and are_ids:
            fresh.discard(name)
    unreadable: list[str] = []
    contents: dict[Path, bytes] = {}
    ids: defaultdict[str, set[str]] = defaultdict(set)
    waiting = fresh | (known.keys() - now.keys())
    touched = set(waiting)
    while waiting:
        for path, content in read_own_contents(map(Path, sorted(waiting & now.keys())), unreadable).items():
            contents[path] = content
            if path.suffix == ".csv":
                names = {
                    line.partition(",")[0].strip('"') for line in content.decode("utf-8-sig", "replace").split("\n")
                }
                ids[str(path)] = {cards.id_of(name) for name in names if name in cards}
        encoders = {one for name in waiting for one in (*ids[name], *known.get(name, (0, ()))[1])}
        waiting = {name for encoder in encoders for name in sharing[encoder]} - touched
        touched |= waiting
    old = [known[name] for name in touched if name in known]
    pairs = [(encoder, number) for number, named in old for encoder in named]
    table.executemany("DELETE FROM rows WHERE encoder = ? AND file = ?", pairs)
    table.executemany("DELETE FROM files WHERE number = ?", [(number,) for number, _ in old])
    n_naming = Counter(encoder for named in ids.values() for encoder in named)
    seen_in_several: dict[Key, str] = {}
    kinds = {text: number for number, text in table.execute("SELECT number, texts FROM kinds")}
    for name in filter(touched.__contains__, now):
        path, rows, errata = Path(name), list[Row](), list[dict[str, Any]]()
        left_out = [sentence for sentence in unreadable if f" {name} " in sentence]
        if path in contents and path.suffix == ".csv":
            seen = {} if all(n_naming[one] == 1 for one in ids[name]) else seen_in_several
            seen |= collect_keys(shipped, ids[name])
            rows = parse_rows(path, contents.pop(path), cards, seen, left_out)
        elif path in contents:
            errata = [asdict(one) for one in parse_errata(path, contents.pop(path), cards, left_out)]
        told = [sorted({row.encoder for row in rows}), errata, left_out]
        about = (os.fsencode(name), now[name] if name in counting else "", *map(json.dumps, told))
        number = table.execute("INSERT INTO files VALUES (NULL, ?, ?, ?, ?, ?)", about).lastrowid
        lines = []
        for line, (encoder, metric, dataset, split, n, seed, value, unit, low, high, *how) in enumerate(rows):
            kind = kinds.setdefault(json.dumps([metric, split, n, seed, unit, *how]), len(kinds))
            lines.append((dataset, number, line, encoder, kind, value, low, high))
        table.executemany("INSERT INTO rows VALUES (?, ?, ?, ?, ?, ?, ?, ?)", lines)
    table.executemany("INSERT OR IGNORE INTO kinds VALUES (?, ?)", [(number, text) for text, number in kinds.items()])
