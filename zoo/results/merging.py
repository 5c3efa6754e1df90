"""Brings together the rows of several people or machines: equal ones once, contradictions told, nothing lost.

Rows are read from results files with their provenance beside them, wherever these lie: a file, a folder (a zoo home, a
clone of a shared results repository, the place of a run on many workers), or such a folder at an address. What is read
there is never changed.

Of rows that have everything in common but their number, those of one number, by the rules of
:mod:`zoo.results.recording`, are one row, which keeps the provenance that was there first. Of different numbers the
recorded one stays, and among new ones that of the place that was named first, so that merging places one after the
other comes to the same as merging them at once. The other one is set aside: as a line of JSON in ``set-aside.jsonl``
beside the rows, with both rows, both provenances and what differs. Rows that were measured on other images under the
name of the same data set are set aside as well, and so are wrong lines and rows without provenance, as they stand in
their file.

Cards of encoders that nobody here knows come along, if they lie in ``metadata/`` of what is read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from ..cards.catalogue import adopt, build_card, catalogue, parse_beside_shipped
from ..errors import QueryError, ResultsError, StoreError
from ..files import content_folder, replaced, user_folder
from ..storage import Place, place_at
from .reading import checked_rows, table_lines
from .recording import (
    PROVENANCE_KEYS,
    difference_of,
    identity_of,
    images_behind,
    provenance_line,
    record,
    sidecar_of,
)
from .rows import Measurement, measurement_of
from .values import COLUMNS, Key, Row, key_of

SET_ASIDE = "set-aside.jsonl"
_NOT_RESULTS = ("features", "probes", "runs")  # folders that evaluations keep beside the rows
_DEEPEST = 8  # folders below a place
_SHOWN_FACTS = 6  # differing facts in a sentence
_ADDRESS = "://"

Why = Literal["value", "interval", "images"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A row of a file, with what it was measured from."""

    row: Row
    place: str  # file and line
    provenance: Mapping[str, Any] | None = None  # None if nothing beside the file tells

    @property
    def measurement(self) -> Measurement:
        """The row with its numbers as numbers."""
        return measurement_of(self.row)

    def as_dict(self) -> dict[str, Any]:
        """Everything as JSON."""
        return {"place": self.place, "row": self.row._asdict(), "provenance": self.provenance}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrong:
    """A line that cannot be merged: no reader would take it, or it has no provenance."""

    place: str  # file, and line if it is of one line
    sentence: str
    line: str  # as it stands there

    def as_dict(self) -> dict[str, Any]:
        """Everything as JSON."""
        return {"why": "wrong", "place": self.place, "sentence": self.sentence, "line": self.line}


@dataclass(frozen=True, slots=True, kw_only=True)
class Contradiction:
    """Two numbers for one row, or two image sets by one name."""

    why: Why
    kept: Found
    other: Found  # set aside
    differs: Mapping[str, tuple[Any, Any]]  # facts of the two provenances, by dotted name: of the kept one, the other

    @property
    def cause(self) -> str:
        """What the provenances say of how it came about, in words."""
        if self.kept.provenance is None or self.other.provenance is None:
            return "one of them has no provenance"
        parts = {name.partition(".")[0] for name in self.differs}
        for fact, words in _CAUSES:
            if fact in parts:
                return words
        if not self.differs:
            return "their provenances agree: the same features gave another number, by another version or processor"
        return f"their provenances differ in {_and(sorted(parts))}"

    def __str__(self) -> str:
        row, before, now = self.kept.row, self.kept.row.value, self.other.row.value
        what = f"{row.metric} of {row.encoder} on {row.dataset}, {row.split}"
        what += f", seed {row.seed}" if row.seed else ""
        what += f", by {row.protocol}, of {row.source}"
        if self.why == "interval":
            before, now = (_interval(one.row) for one in (self.kept, self.other))
        elif self.why == "images":
            what, before, now = f"images of {row.dataset}", "one set", "another"
        facts = [f"{name} {_short(one)} and {_short(other)}" for name, (one, other) in self.differs.items()]
        more = f" and {len(facts) - _SHOWN_FACTS} more" if len(facts) > _SHOWN_FACTS else ""
        told = f" ({'; '.join(facts[:_SHOWN_FACTS])}{more})" if facts else ""
        return f"{what}: {before} in {self.kept.place}, {now} in {self.other.place}: {self.cause}{told}"

    def as_dict(self) -> dict[str, Any]:
        """Everything as JSON."""
        return {
            "why": self.why,
            "kept": self.kept.as_dict(),
            "other": self.other.as_dict(),
            "differs": {name: list(both) for name, both in self.differs.items()},
            "cause": self.cause,
        }


_CAUSES = (  # from the images to the number: the first that differs explains those behind it
    ("images_hash", "they were measured on other images"),
    ("data_hash", "they were measured on other images"),
    ("weights_hash", "the encoders have other weights"),
    ("preprocess_hash", "the images were preprocessed otherwise"),
    ("representation", "they are of other features"),
    ("precision", "the features are of another precision"),
    ("settings", "one protocol stands for other settings"),
    ("subset_hash", "the probes were given other images"),
    ("features_hash", "the same weights and images gave other features, by another version or processor"),
    ("versions", "they were measured by other versions"),
    ("code_version", "they were measured by another version of the zoo"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """What lies in some places."""

    found: tuple[Found, ...] = ()
    wrong: tuple[Wrong, ...] = ()
    files: tuple[str, ...] = ()  # tables of results
    left: tuple[str, ...] = ()  # files whose names end as theirs, and which are something else
    cards: tuple[str, ...] = ()  # encoders that became known by cards that lay there


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """What became of rows that were brought together."""

    folder: Path
    files: tuple[str, ...]  # that were read
    left: tuple[str, ...]
    n_rows: int  # that were read, wrong ones included
    n_new: int  # that were added, or would be
    n_known: int  # that were recorded already with the same number
    n_again: int  # that another place had too, with the same number
    contradictions: tuple[Contradiction, ...]
    wrong: tuple[Wrong, ...]
    cards: tuple[str, ...]
    paths: tuple[Path, ...]  # results files that rows were added to
    set_aside: Path | None  # where what was not merged is written; None if all was, or nothing was to be written

    @property
    def is_clean(self) -> bool:
        """True if every row was merged or known."""
        return not self.contradictions and not self.wrong


@dataclass(slots=True)
class Together:
    """Rows by what tells them apart, and the images behind each data set: of whatever comes, the first stays."""

    by_key: dict[Key, Found] = field(default_factory=dict)
    images: dict[tuple[str, str, str], tuple[str, Found]] = field(default_factory=dict)  # data set, kind, part
    contradictions: list[Contradiction] = field(default_factory=list)

    def add(self, found: Found) -> bool:
        """True if it is a row of its own; what contradicts an earlier one is noted in ``contradictions``."""
        before = self.by_key.get(key_of(found.row))
        if before is not None:
            difference = difference_of(before.place, before.row, found.row)
            if difference is not None:
                self._contradict("interval" if difference.is_of_interval else "value", before, found)
            return False
        behind = images_behind(found.provenance or {})
        parts = {(found.row.dataset, kind, part): one for kind, of in behind.items() for part, one in of.items()}
        for name, fingerprint in parts.items():
            known = self.images.setdefault(name, (fingerprint, found))
            if known[0] != fingerprint:
                self._contradict("images", known[1], found)
                return False
        self.by_key[key_of(found.row)] = found
        return True

    def _contradict(self, why: Why, kept: Found, other: Found) -> None:
        differs = differences(kept.provenance or {}, other.provenance or {})
        self.contradictions.append(Contradiction(why=why, kept=kept, other=other, differs=differs))


def merge(paths: Sequence[str | Path], *, folder: Path | None = None, dry_run: bool = False) -> Merged:
    """Adds the rows of these places to the user's results, each once.

    Parameters
    ----------
    paths : sequence of path or address
        As :func:`collect` takes them; of two new rows that contradict each other, the first place has its way.
    folder : Path, optional
        Where the rows go instead; only its own rows count as recorded then.
    dry_run : bool
        Nothing is written.

    Raises
    ------
    QueryError
        If there is nothing at one of the places.
    ResultsError
        If the results cannot be written.
    """
    target = user_folder() / "results" / "measured" if folder is None else folder
    collected, together = collect(paths), Together()
    for one in recorded_rows(folder, datasets={one.row.dataset for one in collected.found}):
        together.add(one)
    together.contradictions.clear()  # of what is recorded, which readers tell of
    n_recorded = len(together.by_key)
    fresh: dict[Key, Found] = {}
    wrong = [*collected.wrong]
    n_known = n_again = 0
    for one in collected.found:
        key = key_of(one.row)
        n_before, is_fresh = len(together.contradictions), key in fresh
        lacking = None if key in together.by_key else incomplete(one)
        if lacking is not None:
            wrong.append(lacking)
        elif together.add(one):
            fresh[key] = one
        elif len(together.contradictions) == n_before:
            n_again, n_known = n_again + is_fresh, n_known + (not is_fresh)
    assert len(together.by_key) == n_recorded + len(fresh)
    rows = {one.measurement: one.provenance or {} for one in fresh.values()}
    added: tuple[Path, ...] = ()
    n_new, aside = len(rows), None
    if not dry_run:
        said = record(rows, folder=target, differing="tell", alone=folder is not None)
        added, n_new = said.paths if said.n_new else (), said.n_new
        n_known += len(rows) - n_new  # which another process has recorded meanwhile
        aside = _set_aside(target.parent if folder is None else target, together.contradictions, wrong)
    return Merged(
        folder=target,
        files=collected.files,
        left=collected.left,
        n_rows=len(collected.found) + len(collected.wrong),
        n_new=n_new,
        n_known=n_known,
        n_again=n_again,
        contradictions=tuple(together.contradictions),
        wrong=tuple(wrong),
        cards=collected.cards,
        paths=added,
        set_aside=aside,
    )


def collect(paths: Sequence[str | Path]) -> Collected:
    """All rows that lie in some places: results files, folders of them at any depth, the same at addresses.

    Folders that are called ``features``, ``probes`` or ``runs``, and hidden ones, are left out. Files of folders that
    are no tables of results are named in ``left``. Cards in ``metadata/`` become known to this process.

    Raises
    ------
    QueryError
        If there is nothing at a place, or a folder is deeper than eight.
    """
    found: list[Found] = []
    wrong: list[Wrong] = []
    tables: list[tuple[str, bytes, bytes | None]] = []
    left: list[str] = []
    roots: list[Place] = []
    for path in dict.fromkeys(map(str, paths)):
        for place, name, is_named in _tables_at(path, roots):
            where, content = f"{place.shown.rstrip('/')}/{name}", place.read(name)
            if content is None:
                continue  # removed meanwhile
            if not is_named and not content.removeprefix(b"\xef\xbb\xbf").startswith(",".join(COLUMNS).encode()):
                left.append(where)
                continue
            tables.append((where, content, place.read(sidecar_of(Path(name)).name)))
    cards = _known_by_their_cards(tables, roots)
    for where, content, beside in tables:
        _read(where, content, beside, found, wrong)
    files = tuple(where for where, _, _ in tables)
    return Collected(found=tuple(found), wrong=tuple(wrong), files=files, left=tuple(left), cards=cards)


def recorded_rows(folder: Path | None, *, datasets: Collection[str]) -> list[Found]:
    """The rows of a folder, or by default of all results here, the shipped ones first, as :func:`rows_below` does."""
    if folder is not None:
        return rows_below(folder, datasets=datasets, depth=0)
    folders = (content_folder("results"), user_folder() / "results")
    return [one for some in folders for one in rows_below(some, datasets=datasets)]


def rows_below(folder: Path, *, datasets: Collection[str], depth: int = _DEEPEST) -> list[Found]:
    """The rows of results files in a folder that mention one of these data sets; wrong ones are left out."""
    words = [name.replace('"', '""').encode() for name in datasets]  # as CSV quotes it
    place, found = place_at(folder), list[Found]()
    names = ((place, name) for name in place.names() if name.endswith(".csv"))
    for at, name in _walked(place, depth, ()) if depth else names:
        content = at.read(name)
        if content is not None and any(word in content for word in words):
            _read(f"{at.shown}/{name}", content, at.read(sidecar_of(Path(name)).name), found, [])
    return found


def differences(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Facts in which two provenances differ, by their dotted names; None stands for one that is not there.

    >>> differences({"weights_hash": "a", "report": {"C": 1.0}}, {"weights_hash": "a", "report": {"C": 0.5}})
    {'report.C': (1.0, 0.5)}
    """
    first, second = _flat(one), _flat(other)
    names = dict.fromkeys([*first, *second])
    return {name: (first.get(name), second.get(name)) for name in names if first.get(name) != second.get(name)}


def _flat(facts: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, fact in facts.items():
        if isinstance(fact, Mapping):
            flat |= _flat(fact, f"{above}{name}.")
        else:
            flat[f"{above}{name}"] = list(fact) if isinstance(fact, tuple) else fact
    return flat


def _tables_at(path: str, roots: list[Place]) -> Iterator[tuple[Place, str, bool]]:
    """Place and name of every file that may be a table, and whether it was named itself."""
    is_here = _ADDRESS not in path
    if is_here and not Path(path).exists():
        raise QueryError(f"There is no file or folder {path!r} to merge; name results files, or folders of them.")
    if path.endswith(".csv") and (not is_here or Path(path).is_file()):
        above, name = (path.rpartition("/")[0], path.rpartition("/")[2]) if not is_here else ("", Path(path).name)
        place = place_at(Path(path).absolute().parent if is_here else above)
        if place.size(name) is None:
            raise QueryError(f"There is no file {path!r} to merge; name results files, or folders of them.")
        yield place, name, True
        return
    if is_here and not Path(path).is_dir():
        raise QueryError(f"{path!r} is no results file, expected one whose name ends with .csv, or a folder of them.")
    root = place_at(Path(path).absolute() if is_here else path)
    roots.append(root)
    tables = list(_walked(root, _DEEPEST, _NOT_RESULTS))
    yield from ((place, name, False) for place, name in tables)
    if not tables and not is_here and not root.names() and not root.places():
        raise QueryError(f"There is nothing at {root.shown} to merge; name results files, or folders of them.")


def _walked(place: Place, depth: int, without: Sequence[str]) -> Iterator[tuple[Place, str]]:
    for name in place.names():
        if name.endswith(".csv") and not name.startswith("."):
            yield place, name
    for name in place.places():
        if name.startswith(".") or name in without:
            continue
        if not depth:
            raise QueryError(f"{place.shown} lies deeper than {_DEEPEST} folders; name a folder nearer to the rows.")
        yield from _walked(place.below(name), depth - 1, without)


def _read(where: str, content: bytes, beside: bytes | None, found: list[Found], wrong: list[Wrong]) -> None:
    """Adds the rows of a file, each with its provenance, and its wrong lines."""
    texts = content.decode("utf-8-sig", "replace").split("\n")

    def refuse(error: ResultsError) -> None:
        of_line = re.match(rf"{re.escape(where)}, line (\d+)", str(error))
        line = texts[int(of_line[1]) - 1] if of_line and int(of_line[1]) <= len(texts) else ""
        wrong.append(Wrong(place=of_line[0] if of_line else where, sentence=str(error), line=line))

    provenances: dict[str, Mapping[str, Any]] = {}
    sidecar = sidecar_of(Path(where.rpartition("/")[2])).name
    for number, line in enumerate((beside or b"").decode("utf-8", "replace").split("\n"), start=1):
        if line:
            try:
                told = provenance_line(f"{where.rpartition('/')[0]}/{sidecar}, line {number}", line)
            except ResultsError as error:
                wrong.append(Wrong(place=str(error).partition(":")[0], sentence=str(error), line=line))
                continue
            provenance = told.pop("provenance")
            provenances[_name(told)] = provenance
    places: dict[Key, str] = {}
    lines = table_lines(where, content, refuse)
    for row in checked_rows(lambda line: f"{where}, line {line}", lines, catalogue(), places, refuse):
        told_of = provenances.get(_name(identity_of(row)))
        found.append(Found(row=row, place=places[key_of(row)], provenance=told_of))


def _name(identity: Mapping[str, Any]) -> str:
    return json.dumps(identity, sort_keys=True)


def incomplete(one: Found) -> Wrong | None:
    """What a row's provenance lacks; None if nothing."""
    what, provenance = f"{one.row.metric!r} of {one.row.encoder!r}, {one.row.split!r}", one.provenance or {}
    missing = sorted(PROVENANCE_KEYS.keys() - provenance.keys())
    if one.provenance is None:
        sentence = (
            f"{one.place}: {what} has no provenance beside it, expected what it was measured from; bring the "
            ".provenance.jsonl along, or copy the file itself."
        )
    elif missing:
        sentence = (
            f"{one.place}: the provenance of {what} lacks {', '.join(map(repr, missing))}, expected all keys of "
            "results/README.md; null says that there is nothing to tell."
        )
    else:
        return None
    return Wrong(place=one.place, sentence=sentence, line=",".join(one.row))


def _set_aside(folder: Path, contradictions: Sequence[Contradiction], wrong: Sequence[Wrong]) -> Path | None:
    """Adds what was not merged to a file of JSON lines, each once; where it is."""
    records = [one.as_dict() for one in contradictions] + [one.as_dict() for one in wrong]
    lines = [json.dumps(one, ensure_ascii=True) for one in records]
    if not lines:
        return None
    path = folder / SET_ASIDE
    try:
        before = path.read_bytes() if path.exists() else b""
        there = set(before.decode("utf-8", "replace").split("\n"))
        fresh = [line for line in dict.fromkeys(lines) if line not in there]
        if fresh:
            with replaced(path) as file:
                file.write(before + b"".join(line.encode() + b"\n" for line in fresh))
    except OSError as error:
        raise StoreError(
            f"What was not merged cannot be written to {path} ({error.strerror}); make it writable, and merge again: "
            "the rows that were merged are recorded."
        ) from error
    return path


def _known_by_their_cards(tables: Sequence[tuple[str, bytes, bytes | None]], roots: Sequence[Place]) -> tuple[str, ...]:
    """Makes encoders known that only cards beside the rows know; their ids."""
    cards = catalogue()
    named = {row.encoder for where, content, _ in tables for _, row in table_lines(where, content, lambda error: None)}
    unknown = {name.partition("@")[0].casefold() for name in named if name not in cards}
    if not unknown:
        return ()
    theirs: dict[Path, bytes] = {}
    for root in roots:
        for place, name in _card_files(root.below("metadata"), 3):
            content = place.read(name)
            if content is not None:
                theirs[Path(f"{place.shown}/{name}")] = content
    if not theirs:
        return ()
    facts, _ = parse_beside_shipped(theirs)
    found = [one for name, one in facts.items() if name.casefold() in unknown]
    return tuple(adopt(build_card(one)).id for one in found)


def _card_files(place: Place, depth: int) -> Iterator[tuple[Place, str]]:
    for name in place.names():
        if name.endswith(".toml"):
            yield place, name
    for name in place.places() if depth else ():
        yield from _card_files(place.below(name), depth - 1)


def _interval(row: Row) -> str:
    return f"{row.ci_low} to {row.ci_high} around {row.value}" if row.ci_low else f"no interval around {row.value}"


def _short(fact: Any) -> str:
    text = fact if isinstance(fact, str) else json.dumps(fact)
    return text if len(text) <= 24 else f"{text[:12]}..."


def _and(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
