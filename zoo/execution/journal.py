"""Records of runs at a place: what was asked, and what became of it as far as each process that hands out work knows.

``runs/RUN/run.json`` says what was asked. It is written once, by the first process; RUN is a hash of the settings, so
that the same command is the same run from any machine, by any engine and in any part. ``runs/RUN/WRITER.json`` is the
journal of one process that handed out work, written whole again every few seconds. A record informs and decides
nothing: what is done is what lies at the place.

Whether a process still runs is seen by when its journal was written and by a file that is written to look, both by the
clock of the place.
"""

from __future__ import annotations

import json
import os
import re
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from hashlib import blake2b
from types import TracebackType
from typing import Any, Literal

from ..errors import DataError, QueryError, StoreError
from ..storage import Location
from .executor import DIED, Failure, WorkResult, describe_version_difference

RUNS, ASKED = "runs", "run.json"
FORMAT = 1
WRITE_S = 5.0
"""Seconds between two writings of a journal, at least; they take at most a fiftieth of the time."""
LOST_S = 90.0
"""Seconds without a writing after which a process that has not ended is taken for lost."""
CLOCKS_DIFFER_S = 60.0
_PROBE = "clock"
_MOST_LISTED = 1000  # failures and the like in a journal; they are counted beyond
_MOST_SKIPPED = 20  # names of images
_LONGEST = 600  # characters of a sentence
_RUN = re.compile(r"[0-9a-f]{12}")

State = Literal["running", "ended", "interrupted", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpec:
    """What a run is to do; JSON values throughout."""

    verb: str
    command: tuple[str, ...]  # arguments of the command line that ask the same again, without place and engine
    settings: Mapping[str, Any]  # everything that decides what is computed; the run is named by them
    features: tuple[Mapping[str, Any], ...] = ()  # encoder, part, folder, n_images and n_shards of each of its features
    versions: Mapping[str, str] = field(default_factory=dict)  # of what may change numbers
    started: str = ""  # by the clock of the first process

    @property
    def run(self) -> str:
        """The name of the run: a hash of verb and settings."""
        text = json.dumps([self.verb, self.settings], sort_keys=True)
        return blake2b(text.encode(), digest_size=6).hexdigest()

    def as_dict(self) -> dict[str, Any]:
        """As it is written."""
        return {"format": FORMAT, "run": self.run, **asdict(self)}


class Journal:
    """The record that one process keeps of its share of a run; a context manager, which ends it.

    It is below ``runs`` at the place of all evaluations; ``asked`` is written by the first process of the run, and read
    by the others. ``engine`` is such as "local:4"; ``part`` has k and n of a part of the work by number. With
    ``mixed_versions`` a run that was begun with other versions goes on, and the record is marked; otherwise
    :attr:`refusal` says so in a sentence. StoreError if the place cannot be written to.
    """

    def __init__(
        self,
        place: Location,
        asked: RunSpec,
        *,
        engine: str,
        n_workers: int,
        part: tuple[int, int] | None = None,
        mixed_versions: bool = False,
    ) -> None:
        self.run = asked.run
        self._place = place.below(RUNS).below(self.run)
        text = json.dumps(asked.as_dict(), indent=1, ensure_ascii=True)
        is_first = self._place.write_new(ASKED, text.encode())
        self.asked = asked if is_first else _read_asked(self._place) or asked
        host = re.sub(r"[^\w.-]", "_", socket.gethostname())
        self.writer = f"{host}-{os.getpid()}-{os.urandom(4).hex()}"
        self.problem = ""  # why the record could not be written, the last time
        differ = describe_version_difference(self.asked.versions, asked.versions)
        self.refusal = (  # of work, not of looking whether there is any
            ""
            if mixed_versions or not differ
            else f"The run {self.run} at {place.shown} was begun with other versions than those here ({differ}), which "
            "may change numbers; install the same, or go on with --mixed-versions."
        )
        self._lock = threading.Lock()
        self._facts: dict[str, Any] = {
            "format": FORMAT,
            "writer": self.writer,
            "engine": engine,
            "n_workers": n_workers,
            "part": None if part is None else list(part),
            "state": "running",
            "sentence": "",
            "started": format_current_time(),
            "updated": format_current_time(),
            "clock_offset_s": None,
            "items": {"planned": 0, "done": 0, "there": 0, "failed": 0, "retried": 0},
            "more": {"done": 0, "failed": 0},  # other pieces of work, such as measuring what is complete
            "n_images": 0,
            "n_bytes": 0,
            "busy_s": 0.0,
            "complete": [],
            "failures": [],
            "retried": [],
            "deaths": 0,
            "n_skipped": 0,
            "skipped": [],
            "nondeterministic": [],
            "halved": [],
            "workers": {},
            "marked": {self.writer: differ} if differ else {},
            "refused": {},
        }
        self._write()
        try:
            there = self._place.modified_s(f"{self.writer}.json")
            self._facts["clock_offset_s"] = None if there is None else round(there - time.time(), 1)
        except StoreError as error:
            self.problem = str(error)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._keep_writing, name="zoo-journal", daemon=True)
        self._thread.start()

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.end("ended")
        elif isinstance(error, KeyboardInterrupt | GeneratorExit):
            self.end("interrupted")
        else:
            self.end("failed", str(error) or repr(error))

    @property
    def clock_note(self) -> str:
        """A sentence if this clock and that of the place disagree, else ""."""
        offset = self._facts["clock_offset_s"]
        if offset is None or abs(offset) <= CLOCKS_DIFFER_S:
            return ""
        return (
            f"The clock of the place is {abs(offset):,.0f} s {'ahead of' if offset > 0 else 'behind'} the one here; "
            "nothing depends on that, but times in messages do: set the clock."
        )

    def planned(self, n_items: int) -> None:
        """So many items are this process's share, those that are planned later on top."""
        with self._lock:
            self._facts["items"]["planned"] += n_items

    def outcome(
        self,
        outcome: WorkResult[Any, Any],
        label: Mapping[str, Any],
        *,
        is_item: bool = True,
        was_there: bool = False,
        n_images: int = 0,
        n_bytes: int = 0,
    ) -> None:
        """Notes what became of a piece of work; ``label`` says which, by its encoders, part and number."""
        with self._lock:
            facts = self._facts
            counts = facts["items" if is_item else "more"]
            counts["failed" if outcome.failed else "done"] += 1
            facts["workers"][outcome.worker] = facts["workers"].get(outcome.worker, 0) + 1
            facts["deaths"] += sum(failure.kind == DIED for failure in outcome.failures)
            facts["busy_s"] = round(facts["busy_s"] + outcome.seconds, 3)
            facts["n_images"] += n_images
            facts["n_bytes"] += n_bytes
            if is_item and was_there:
                counts["there"] += 1
            if outcome.failed or outcome.failures:
                tries = [_sentence(failure) for failure in outcome.failures]
                _add(
                    facts["failures" if outcome.failed else "retried"],
                    {**label, "worker": outcome.worker, "tries": tries},
                )
                if not outcome.failed and is_item:
                    counts["retried"] += 1

    def failed(self, label: Mapping[str, Any], sentence: str) -> None:
        """Notes what failed and was no piece of work, such as completing features."""
        self._note("failures", {**label, "worker": self.writer, "tries": [_cut(sentence)]})

    def nondeterministic(self, label: Mapping[str, Any]) -> None:
        """Notes an item of which two workers made different features."""
        self._note("nondeterministic", dict(label))

    def halved(self, label: Mapping[str, Any], batch_size: int) -> None:
        """Notes an item for which the memory was too small for its batches."""
        self._note("halved", {**label, "batch_size": batch_size})

    def skipped(self, encoder: str, part: str, names: Sequence[str], n: int) -> None:
        """Notes images that could not be read, by the names of the first."""
        with self._lock:
            known = {(one["part"], one["image"]) for one in self._facts["skipped"]}
            new = [name for name in names if (part, name) not in known]
            room = max(_MOST_SKIPPED - len(known), 0)
            self._facts["skipped"] += [{"part": part, "image": _cut(name)} for name in new[:room]]
            self._facts["n_skipped"] = max(self._facts["n_skipped"], n)

    def complete(self, encoder: str, part: str) -> None:
        """Notes features that are complete."""
        with self._lock:
            self._facts["complete"].append([encoder, part])

    def versions_of(self, *, marked: Mapping[str, str], refused: Mapping[str, str]) -> None:
        """Notes workers with other versions that are used, or are not, and what differs."""
        with self._lock:
            self._facts["marked"] |= dict(marked)
            self._facts["refused"] |= dict(refused)

    def end(self, state: State, sentence: str = "") -> None:
        """Writes the journal for the last time; more than once does nothing."""
        if self._ended.is_set():
            return
        self._ended.set()
        self._thread.join(timeout=10 * WRITE_S)
        with self._lock:
            self._facts["state"], self._facts["sentence"] = state, _cut(sentence)
        self._write()

    def _note(self, name: str, one: dict[str, Any]) -> None:
        with self._lock:
            _add(self._facts[name], one)

    def _keep_writing(self) -> None:
        pause = WRITE_S
        while not self._ended.wait(pause):
            began = time.monotonic()
            self._write()
            pause = max(WRITE_S, 50 * (time.monotonic() - began))

    def _write(self) -> None:
        """Writes the journal; where that fails it is tried again the next time, for the work is worth more."""
        with self._lock:
            self._facts["updated"] = format_current_time()
            text = json.dumps(self._facts, ensure_ascii=True)
        try:
            self._place.write(f"{self.writer}.json", text.encode())
            self.problem = ""
        except StoreError as error:
            self.problem = str(error)


def _read_asked(place: Location) -> RunSpec | None:
    facts = _read(place, ASKED)
    if facts is None:
        return None
    try:
        return RunSpec(
            verb=facts["verb"],
            command=tuple(facts["command"]),
            settings=facts["settings"],
            features=tuple(facts["features"]),
            versions=facts["versions"],
            started=facts["started"],
        )
    except KeyError as error:
        raise _damaged(place, ASKED, error) from error


def _read(place: Location, name: str) -> dict[str, Any] | None:
    content = place.read(name)
    if content is None:
        return None
    try:
        facts: dict[str, Any] = json.loads(content)
        if facts["format"] != FORMAT:
            raise ValueError(f"it has format {facts['format']!r}, expected {FORMAT}")
    except (ValueError, KeyError, TypeError) as error:
        raise _damaged(place, name, error) from error
    return facts


def _damaged(place: Location, name: str, error: Exception) -> DataError:
    return DataError(
        f"The record of a run in {place.shown} is damaged ({name}: {error}); remove it, it decides nothing."
    )


def format_current_time() -> str:
    """This moment by the clock here, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _sentence(failure: Failure) -> str:
    return _cut(failure.text if failure.kind != DIED else f"the worker died: {failure.text}")


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _add(listed: list[dict[str, Any]], one: dict[str, Any]) -> None:
    if len(listed) < _MOST_LISTED:
        listed.append(one)


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalWriter:
    """The journal of one process, as it was last written."""

    facts: Mapping[str, Any]
    age_s: float  # since it was written, by the clock of the place

    @property
    def state(self) -> str:
        """ "running", "ended", "interrupted", "failed", or "lost" if it has not ended and writes no more."""
        state = str(self.facts["state"])
        return "lost" if state == "running" and self.age_s > LOST_S else state


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """All that is recorded of a run."""

    asked: RunSpec
    writers: tuple[JournalWriter, ...]  # those that wrote last come first

    @property
    def run(self) -> str:
        """Its name."""
        return self.asked.run

    def total(self, *names: str) -> int:
        """A count, as ("items", "done"), over all journals."""
        found = 0
        for writer in self.writers:
            value: Any = writer.facts
            for name in names:
                value = value[name]
            found += value if isinstance(value, int) else len(value)
        return found

    def all_of(self, name: str) -> list[Any]:
        """The entries of a list, as "failures", of all journals."""
        return [one for writer in self.writers for one in writer.facts[name]]

    @property
    def is_running(self) -> bool:
        """True if a process still hands out its work."""
        return any(writer.state == "running" for writer in self.writers)


def list_run_records(place: Location) -> list[RunRecord]:
    """The runs at a place, those that were written last first; DataError names a record that is damaged."""
    runs = place.below(RUNS)
    names = _names(runs)
    time_there = _time_of(runs) if names else None
    found = [record for name in names if (record := _record(runs.below(name), time_there)) is not None]
    return sorted(found, key=lambda record: min((writer.age_s for writer in record.writers), default=1e18))


def find_run_record(place: Location, beginning: str) -> RunRecord:
    """The run whose name begins so; QueryError if there is none, or are several."""
    runs = place.below(RUNS)
    names = _names(runs)
    fitting = [name for name in names if name.startswith(beginning)]
    record = _record(runs.below(fitting[0]), _time_of(runs)) if len(fitting) == 1 else None
    if record is None:
        known = f"there are {', '.join(names)}" if names else "there is none"
        raise QueryError(f"Got the run {beginning!r}, expected one of those at {place.shown}: {known}.")
    return record


def _names(runs: Location) -> list[str]:
    return [name for name in runs.places() if _RUN.fullmatch(name)]


def _record(place: Location, time_there: float | None) -> RunRecord | None:
    asked = _read_asked(place)
    if asked is None:
        return None
    writers = []
    for name in place.names():
        facts = None if name == ASKED or not name.endswith(".json") else _read(place, name)
        if facts is not None:
            written = place.modified_s(name)
            age_s = 0.0 if written is None or time_there is None else max(time_there - written, 0.0)
            writers.append(JournalWriter(facts=facts, age_s=age_s))
    return RunRecord(asked=asked, writers=tuple(sorted(writers, key=lambda writer: writer.age_s)))


def _time_of(place: Location) -> float | None:
    """The time by the clock of the place: of a file that is written to look, else of what was written last there."""
    try:
        place.write(_PROBE, b"The time by the clock of this place.\n")
        return place.modified_s(_PROBE)
    except StoreError:  # a place that can only be read
        times = [below.modified_s(name) for below in map(place.below, place.places()) for name in below.names()]
        return max((one for one in times if one is not None), default=None)
