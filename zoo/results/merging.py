"""Rows of several people or machines: read where they lie, merged into one's own, checked before others rely on them.

Rows are read from results files with their provenance next to them: a file, a folder (a zoo home, a clone of a shared
results repository, the place of a run on many workers), or such a folder at an address. Nothing there is changed.

Of rows that have everything in common but their number, those of one number, by the rules of
:mod:`zoo.results.recording`, are one row with the provenance that was there first. Of different numbers the recorded
one stays, and among new ones that of the place that was named first. The other one is set aside, as a line of JSON in
``set-aside.jsonl`` next to the rows, with both provenances; so are rows that were measured on other images under the
name of the same data set, wrong lines, and rows without provenance. Cards of unknown encoders come along, if they lie
in ``metadata/`` of what is read.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from ..cards.catalogue import adopt, build_card, load_catalogue, parse_own_cards
from ..errors import QueryError, ResultsError, StoreError
from ..files import get_content_folder, get_user_folder, replace_file
from ..storage import Location, resolve_place
from .reading import iterate_table_lines
from .recording import (
    PROVENANCE_KEYS,
    compare_recorded,
    get_image_fingerprints,
    get_provenance_path,
    iterate_rows_with_provenance,
    record,
)
from .rows import Measurement, convert_row
from .values import COLUMNS, Key, Row, get_row_key

SET_ASIDE = "set-aside.jsonl"
_NOT_RESULTS = ("features", "probes", "runs")  # folders that evaluations keep next to the rows

ProtocolCheck = Callable[[Row, Mapping[str, Any]], str | None]
"""What is wrong with the settings that a row was measured by, "" if nothing is; None if nobody here can tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocatedRow:
    """A row of a file, with what it was measured from."""

    row: Row
    place: str  # file and line
    provenance: Mapping[str, Any] | None = None  # None if nothing next to the file tells

    @property
    def measurement(self) -> Measurement:
        """The row with its numbers as numbers."""
        return convert_row(self.row)

    def as_dict(self) -> dict[str, Any]:
        """Everything as JSON."""
        return {"place": self.place, "row": self.row._asdict(), "provenance": self.provenance}


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeProblem:
    """Something wrong with a row or its provenance."""

    kind: str  # "row", "provenance", "protocol", "twice", "contradiction" or "missing"
    place: str  # file, and line if it is of one line
    sentence: str
    line: str = ""  # as it stands there

    def as_dict(self) -> dict[str, str]:
        """Everything as JSON."""
        return {"kind": self.kind, "place": self.place, "sentence": self.sentence}


@dataclass(frozen=True, slots=True, kw_only=True)
class Contradiction:
    """Two numbers for one row, or two image sets by one name."""

    why: Literal["value", "interval", "images"]
    kept: LocatedRow
    other: LocatedRow  # set aside
    differs: Mapping[str, tuple[Any, Any]]  # facts of the two provenances, by dotted name: of the kept one, the other

    @property
    def cause(self) -> str:
        """What the provenances say of how it came about, in words."""
        if self.kept.provenance is None or self.other.provenance is None:
            return "one of them has no provenance"
        if not self.differs:
            return "their provenances agree: the same features gave another number, by another version or processor"
        return (
            f"their provenances differ in {', '.join(dict.fromkeys(name.partition('.')[0] for name in self.differs))}"
        )

    def __str__(self) -> str:
        row, before, now = self.kept.row, self.kept.row.value, self.other.row.value
        what = f"{row.metric} of {row.encoder} on {row.dataset}, {row.split}"
        what += f", seed {row.seed}" if row.seed else ""
        what += f", by {row.protocol}, of {row.source}"
        if self.why == "interval":
            before, now = (f"{one.ci_low} to {one.ci_high} around {one.value}" for one in (row, self.other.row))
        elif self.why == "images":
            what, before, now = f"images of {row.dataset}", "one set", "another"
        return f"{what}: {before} in {self.kept.place}, {now} in {self.other.place}: {self.cause}"

    def as_dict(self) -> dict[str, Any]:
        """Everything as JSON."""
        return {
            "why": self.why,
            "kept": self.kept.as_dict(),
            "other": self.other.as_dict(),
            "differs": {name: list(both) for name, both in self.differs.items()},
            "cause": self.cause,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """What lies in some places."""

    found: tuple[LocatedRow, ...]
    wrong: tuple[MergeProblem, ...]  # lines that no reader would take
    files: tuple[str, ...]  # tables of results
    left: tuple[str, ...]  # files whose names end as theirs, and which are something else
    cards: tuple[str, ...]  # encoders that became known by cards that lay there


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """Result of rows that were brought together."""

    folder: Path
    files: tuple[str, ...]  # that were read
    left: tuple[str, ...]
    n_rows: int  # that were read, wrong ones included
    n_new: int  # that were added, or would be
    n_known: int  # that were recorded already with the same number
    n_again: int  # that another place had too, with the same number
    contradictions: tuple[Contradiction, ...]
    wrong: tuple[MergeProblem, ...]  # likewise, and rows without provenance
    cards: tuple[str, ...]
    paths: tuple[Path, ...]  # results files that rows were added to
    set_aside: Path | None  # where what was not merged is written; None if all was, or nothing was to be written

    @property
    def is_clean(self) -> bool:
        """True if every row was merged or known."""
        return not self.contradictions and not self.wrong


@dataclass(slots=True)
class RowSet:
    """Rows by what tells them apart, and the images behind each data set: of whatever comes, the first stays."""

    by_key: dict[Key, LocatedRow] = field(default_factory=dict)
    images: dict[tuple[str, str, str], tuple[str, LocatedRow]] = field(default_factory=dict)  # data set, kind, part
    contradictions: list[Contradiction] = field(default_factory=list)

    def add(self, found: LocatedRow) -> bool:
        """True if it is a row of its own; what contradicts an earlier one is noted in ``contradictions``."""
        before = self.by_key.get(get_row_key(found.row))
        if before is not None:
            difference = compare_recorded(before.place, before.row, found.row)
            if difference is not None:
                self._contradict("interval" if difference.is_of_interval else "value", before, found)
            return False
        behind = get_image_fingerprints(found.provenance or {})
        parts = {(found.row.dataset, kind, part): one for kind, of in behind.items() for part, one in of.items()}
        for name, fingerprint in parts.items():
            known = self.images.setdefault(name, (fingerprint, found))
            if known[0] != fingerprint:
                self._contradict("images", known[1], found)
                return False
        self.by_key[get_row_key(found.row)] = found
        return True

    def _contradict(self, why: Literal["value", "interval", "images"], kept: LocatedRow, other: LocatedRow) -> None:
        differs = list_provenance_differences(kept.provenance or {}, other.provenance or {})
        self.contradictions.append(Contradiction(why=why, kept=kept, other=other, differs=differs))


def build_row_set(rows: Sequence[LocatedRow]) -> RowSet:
    """Rows that lie in one place, whose contradictions among themselves are no matter of what is added to them."""
    there = RowSet()
    for one in rows:
        there.add(one)
    there.contradictions.clear()
    return there


def merge(paths: Sequence[str | Path], *, folder: Path | None = None, dry_run: bool = False) -> Merged:
    """Adds the rows of these places, as :func:`collect` takes them, to the user's results, each once.

    Of two new rows that contradict each other, the first place has its way. With ``folder`` the rows go there, and only
    its own rows count as recorded; ``dry_run`` writes nothing. QueryError if there is nothing at one of the places,
    ResultsError if the results cannot be written.
    """
    target = get_user_folder() / "results" / "measured" if folder is None else folder
    collected = collect(paths)
    recorded_in = [get_content_folder("results"), get_user_folder() / "results"] if folder is None else [folder]
    datasets = {one.row.dataset for one in collected.found}
    there = build_row_set([one for some in recorded_in for one in locate_rows(some, datasets=datasets)])
    fresh: dict[Key, LocatedRow] = {}
    wrong = [*collected.wrong]
    n_known = n_again = 0
    for one in collected.found:
        key = get_row_key(one.row)
        n_before, is_fresh = len(there.contradictions), key in fresh
        lacking = None if key in there.by_key else check_provenance(one)
        if lacking is not None:
            wrong.append(lacking)
        elif there.add(one):
            fresh[key] = one
        elif len(there.contradictions) == n_before:
            n_again, n_known = n_again + is_fresh, n_known + (not is_fresh)
    rows = {one.measurement: one.provenance or {} for one in fresh.values()}
    added: tuple[Path, ...] = ()
    n_new, aside = len(rows), None
    if not dry_run:
        said = record(rows, folder=target, differing="tell", alone=folder is not None)
        added, n_new = said.paths if said.n_new else (), said.n_new
        n_known += len(rows) - n_new  # which another process has recorded meanwhile
        records = [one.as_dict() for one in there.contradictions]
        records += [{"why": "wrong", "place": one.place, "sentence": one.sentence, "line": one.line} for one in wrong]
        aside = _set_aside(target.parent if folder is None else target, records)
    return Merged(
        folder=target,
        files=collected.files,
        left=collected.left,
        n_rows=len(collected.found) + len(collected.wrong),
        n_new=n_new,
        n_known=n_known,
        n_again=n_again,
        contradictions=tuple(there.contradictions),
        wrong=tuple(wrong),
        cards=collected.cards,
        paths=added,
        set_aside=aside,
    )


def collect(paths: Sequence[str | Path]) -> Collected:
    """All rows that lie in some places: results files, folders of them at any depth, the same at addresses.

    Folders that are called ``features``, ``probes`` or ``runs``, and hidden ones, are left out. Files of folders that
    are no tables of results are named in ``left``. Cards in ``metadata/`` become known to this process. QueryError if
    there is nothing at a place.
    """
    found: list[LocatedRow] = []
    wrong: list[MergeProblem] = []
    tables: list[tuple[str, bytes, bytes | None]] = []
    left: list[str] = []
    roots: list[Location] = []
    for path in dict.fromkeys(map(str, paths)):
        for place, name, is_named in _tables_at(path, roots):
            where, content = f"{place.shown.rstrip('/')}/{name}", place.read(name)
            if content is None:
                continue  # removed meanwhile
            if is_named or content.removeprefix(b"\xef\xbb\xbf").startswith(",".join(COLUMNS).encode()):
                tables.append((where, content, place.read(get_provenance_path(Path(name)).name)))
            else:
                left.append(where)
    cards = _known_by_their_cards(tables, roots)
    for where, content, beside in tables:
        _read(where, content, beside, found, wrong)
    files = tuple(where for where, _, _ in tables)
    return Collected(found=tuple(found), wrong=tuple(wrong), files=files, left=tuple(left), cards=cards)


def locate_rows(folder: Path, *, datasets: Collection[str]) -> list[LocatedRow]:
    """The rows of results files in a folder that mention one of these data sets; wrong ones are left out."""
    words = [name.replace('"', '""').encode() for name in datasets]  # as CSV quotes it
    found: list[LocatedRow] = []
    for place, name in _files_in(resolve_place(folder), ".csv"):
        content = place.read(name)
        if content is not None and any(word in content for word in words):
            _read(f"{place.shown}/{name}", content, place.read(get_provenance_path(Path(name)).name), found, [])
    return found


def list_provenance_differences(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Facts in which two provenances differ, by their dotted names; None stands for one that is not there.

    >>> one = {"weights_hash": "a", "report": {"C": 1.0}}
    >>> list_provenance_differences(one, {"weights_hash": "a", "report": {"C": 0.5}})
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


def _tables_at(path: str, roots: list[Location]) -> Iterator[tuple[Location, str, bool]]:
    """Place and name of every file that may be a table, and whether it was named itself."""
    nothing = QueryError(f"There is nothing at {path} to merge; name results files (.csv), or folders of them.")
    if "://" not in path:
        here = Path(path).absolute()
        if here.is_file() and here.suffix == ".csv":
            yield resolve_place(here.parent), here.name, True
            return
        if not here.is_dir():
            raise nothing
        root = resolve_place(here)
    elif path.endswith(".csv"):
        above, _, name = path.rpartition("/")
        if resolve_place(above).size(name) is None:
            raise nothing
        yield resolve_place(above), name, True
        return
    else:
        root = resolve_place(path)
        if not root.names() and not root.places():
            raise nothing
    roots.append(root)
    yield from ((place, name, False) for place, name in _files_in(root, ".csv"))


def _files_in(place: Location, suffix: str) -> Iterator[tuple[Location, str]]:
    for name in place.names():
        if name.endswith(suffix) and not name.startswith("."):
            yield place, name
    for name in place.places():
        if not name.startswith(".") and name not in _NOT_RESULTS:
            yield from _files_in(place.below(name), suffix)


def _read(where: str, content: bytes, beside: bytes | None, found: list[LocatedRow], wrong: list[MergeProblem]) -> None:
    """Adds the rows of a file, each with its provenance, and its wrong lines."""

    def refuse(error: ResultsError) -> None:
        of_line = re.match(r"(.+?), line (\d+)", str(error))
        text = (content if of_line and of_line[1] == where else beside or b"").decode("utf-8-sig", "replace")
        lines = dict(enumerate(text.split("\n"), start=1))
        line = lines.get(int(of_line[2]), "") if of_line else ""
        wrong.append(MergeProblem(kind="row", place=of_line[0] if of_line else where, sentence=str(error), line=line))

    for place, row, provenance in iterate_rows_with_provenance(where, content, beside or b"", refuse):
        found.append(LocatedRow(row=row, place=place, provenance=provenance))


def check_provenance(one: LocatedRow) -> MergeProblem | None:
    """What a row's provenance lacks; None if nothing."""
    what = f"{one.place}: {one.row.metric!r} of {one.row.encoder!r}, {one.row.split!r}"
    missing = sorted(PROVENANCE_KEYS.keys() - (one.provenance or {}).keys())
    if one.provenance is None:
        sentence = f"{what} has no provenance next to it, expected what it was measured from in a .provenance.jsonl."
    elif missing:
        keys = ", ".join(map(repr, missing))
        sentence = f"{what}: its provenance lacks {keys}, expected all keys of results/README.md; null is a value."
    else:
        return None
    return MergeProblem(kind="provenance", place=one.place, sentence=sentence, line=",".join(one.row))


def _set_aside(folder: Path, records: Sequence[dict[str, Any]]) -> Path | None:
    """Adds what was not merged to a file of JSON lines, each once; where it is."""
    if not records:
        return None
    path = folder / SET_ASIDE
    try:
        before = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        lines = dict.fromkeys([*before, *map(json.dumps, records)])
        with replace_file(path) as file:
            file.write("".join(f"{line}\n" for line in lines).encode())
    except OSError as error:
        raise StoreError(
            f"What was not merged cannot be written to {path} ({error.strerror}); make it writable, and merge again: "
            "the rows that were merged are recorded."
        ) from error
    return path


def _known_by_their_cards(
    tables: Sequence[tuple[str, bytes, bytes | None]], roots: Sequence[Location]
) -> tuple[str, ...]:
    """Makes encoders known that only cards next to the rows know; their ids."""
    cards = load_catalogue()
    named = {
        row.encoder
        for where, content, _ in tables
        for _, row in iterate_table_lines(where, content, lambda error: None)
    }
    unknown = {name.partition("@")[0].casefold() for name in named if name not in cards}
    if not unknown:
        return ()
    files = [file for root in roots for file in _files_in(root.below("metadata"), ".toml")]
    theirs = {Path(f"{place.shown}/{name}"): place.read(name) or b"" for place, name in files}
    facts, _ = parse_own_cards(theirs)
    return tuple(adopt(build_card(one)).id for name, one in facts.items() if name.casefold() in unknown)


# --- checks ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What checking rows found."""

    found: tuple[LocatedRow, ...]  # rows that a reader takes
    fresh: tuple[LocatedRow, ...]  # those of them that were not there before
    files: tuple[str, ...]
    left: tuple[str, ...]  # files that are no tables of results
    problems: tuple[MergeProblem, ...]
    unknown_protocols: Mapping[str, int]  # number of rows by protocols that could not be checked here

    def as_dict(self) -> dict[str, Any]:
        """Everything but the rows, as JSON."""
        return {
            "files": list(self.files),
            "rows": len(self.found),
            "new_rows": len(self.fresh),
            "left": list(self.left),
            "problems": [one.as_dict() for one in self.problems],
            "unknown_protocols": dict(self.unknown_protocols),
        }


CHECKS = (
    "every row has the columns, words, units and values of results/README.md, and an encoder with a card",
    "every row has its provenance, with all keys",
    "no row is there twice, and no two rows contradict each other",
    "rows of one data set are of the same images",
    "the settings in the provenance are those that the protocol's name stands for",
)
"""What :func:`check` checks, in sentences."""


def check(
    paths: Sequence[str | Path], *, base: Sequence[str | Path] = (), protocol: ProtocolCheck | None = None
) -> Checked:
    """Checks the rows of these places, as :func:`collect` takes them, and writes nothing.

    ``base`` are places as they were before: a row that is gone since, or has another number, is a problem. ``protocol``
    says what is wrong with a row's settings; without it no protocol is checked. QueryError if there is nothing at one
    of the places.
    """
    collected, before = collect(paths), collect(base).found
    problems = [*collected.wrong]
    there, unknown = RowSet(), Counter[str]()
    for one in collected.found:
        if (wrong := check_provenance(one)) is not None:
            problems.append(wrong)
        elif protocol is not None:
            sentence = protocol(one.row, one.provenance or {})
            if sentence is None:
                unknown[one.row.protocol] += 1
            elif sentence:
                problems.append(MergeProblem(kind="protocol", place=one.place, sentence=f"{one.place}: {sentence}"))
        n_before = len(there.contradictions)
        if not there.add(one) and len(there.contradictions) == n_before:
            what = f"{one.row.metric!r} of {one.row.encoder!r}, {one.row.split!r}"
            first = there.by_key[get_row_key(one.row)].place
            sentence = f"{one.place}: {what} again (first in {first}), expected every row once; remove one of them."
            problems.append(MergeProblem(kind="twice", place=one.place, sentence=sentence))
    problems += [
        MergeProblem(kind="contradiction", place=one.other.place, sentence=f"{one}.") for one in there.contradictions
    ]
    for one in before:
        now = there.by_key.get(get_row_key(one.row))
        if now is None:
            sentence = f"{one.place}: this row is missing, expected that no row is ever removed; restore it."
            problems.append(MergeProblem(kind="missing", place=one.place, sentence=sentence))
        elif (difference := compare_recorded(one.place, one.row, now.row)) is not None:
            sentence = f"{now.place}: {difference.change}; but a recorded number never changes: restore it."
            problems.append(MergeProblem(kind="contradiction", place=now.place, sentence=sentence))
    known = {get_row_key(one.row) for one in before}
    return Checked(
        found=collected.found,
        fresh=tuple(one for one in collected.found if get_row_key(one.row) not in known),
        files=collected.files,
        left=collected.left,
        problems=tuple(problems),
        unknown_protocols=dict(sorted(unknown.items())),
    )
