"""Checks rows before others rely on them: words and numbers, provenance, what is there twice, what contradicts itself.

It reads places as merging does, and writes nothing. What a protocol's name stands for is known where probes are
(:mod:`zoo.evaluation.recomputing`), and is asked for by a function.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .merging import Contradiction, Found, Together, collect, incomplete
from .recording import difference_of
from .values import Row, key_of

ProtocolCheck = Callable[[Row, Mapping[str, Any]], str | None]
"""What is wrong with the settings that a row was measured by, "" if nothing is; None if nobody here can tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Something wrong with a row or its provenance."""

    kind: str  # "row", "provenance", "protocol", "twice", "contradiction" or "missing"
    place: str  # file and line
    sentence: str

    def as_dict(self) -> dict[str, str]:
        """Everything as JSON."""
        return {"kind": self.kind, "place": self.place, "sentence": self.sentence}


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What checking rows found."""

    found: tuple[Found, ...]  # rows that a reader takes
    fresh: tuple[Found, ...]  # those of them that were not there before
    files: tuple[str, ...]
    left: tuple[str, ...]  # files that are no tables of results
    problems: tuple[Problem, ...]
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
    """Checks the rows of these places, which are those of :func:`zoo.results.merging.collect`.

    ``base`` are places as they were before: a row that is gone since, or has another number, is a problem. ``protocol``
    says what is wrong with a row's settings; without it no protocol is checked.

    Raises
    ------
    QueryError
        If there is nothing at one of the places.
    """
    collected, before = collect(paths), collect(base).found
    problems = [Problem(kind="row", place=one.place, sentence=one.sentence) for one in collected.wrong]
    together, unknown = Together(), Counter[str]()
    for one in collected.found:
        if (wrong := incomplete(one)) is not None:
            problems.append(Problem(kind="provenance", place=one.place, sentence=wrong.sentence))
        elif protocol is not None:
            sentence = protocol(one.row, one.provenance or {})
            if sentence is None:
                unknown[one.row.protocol] += 1
            elif sentence:
                problems.append(Problem(kind="protocol", place=one.place, sentence=f"{one.place}: {sentence}"))
        n_before = len(together.contradictions)
        if not together.add(one) and len(together.contradictions) == n_before:
            problems.append(_twice(together.by_key[key_of(one.row)], one))
    problems += map(_contradicting, together.contradictions)
    for one in before:
        now = together.by_key.get(key_of(one.row))
        if now is None:
            sentence = f"{one.place}: this row is not there any more, expected that no row is ever removed; restore it."
            problems.append(Problem(kind="missing", place=one.place, sentence=sentence))
        elif (difference := difference_of(one.place, one.row, now.row)) is not None:
            sentence = f"{now.place}: {difference.change}; but a recorded number never changes: restore it."
            problems.append(Problem(kind="contradiction", place=now.place, sentence=sentence))
    known = {key_of(one.row) for one in before}
    return Checked(
        found=collected.found,
        fresh=tuple(one for one in collected.found if key_of(one.row) not in known),
        files=collected.files,
        left=collected.left,
        problems=tuple(problems),
        unknown_protocols=dict(sorted(unknown.items())),
    )


def _twice(first: Found, again: Found) -> Problem:
    sentence = (
        f"{again.place}: {again.row.metric!r} of {again.row.encoder!r}, {again.row.split!r} again (first in "
        f"{first.place}), expected every row once; remove one of them."
    )
    return Problem(kind="twice", place=again.place, sentence=sentence)


def _contradicting(one: Contradiction) -> Problem:
    return Problem(kind="contradiction", place=one.other.place, sentence=f"{one}.")
