"""Reads and checks the files of reported numbers, ``reported.tsv``; :mod:`zoo.results.reported` says what they hold.

Every refusal is one sentence: file, line, column, what it holds, what was expected. A wrong row or file of the user's
is left out with such a sentence; a wrong shipped one raises it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator
from pathlib import Path

from ..cards.catalogue import Catalogue
from ..errors import ResultsError, nearest_names
from .reported_values import COLUMNS, FILE, FULL, METRICS, PROTOCOLS, STANDINGS, ZERO_SHOT, ReportedNumber
from .rows import is_date
from .values import IMAGENET, is_of_user, read_files
from .vocabulary import METRICS as MEASURED

_NUMBER = re.compile(r"-?\d+(\.\d+)?", re.ASCII)
_RESOLUTION = re.compile(r"|native|[1-9]\d{1,4}(/[1-9]\d{1,4})*", re.ASCII)
_NEEDED = ("dataset", "source", "place", "measured_by")


def checked_numbers(cards: Catalogue, left_out: list[str]) -> Iterator[ReportedNumber]:
    """The right rows of all files, the shipped one first; a sentence for each wrong one of the user's is added."""
    seen: dict[tuple[str, ...], str] = {}
    for path, content in read_files(FILE).items():
        if path.name != FILE:  # a name that merely ends in it
            continue
        for place, fields in _lines(path, content, left_out):
            try:
                number = _number(place, fields, cards)
                if number.key in seen:
                    raise ResultsError(
                        f"{place}: found the row of {seen[number.key]} again, expected one row a number; delete one, "
                        "or tell them apart by setting, resolution, source or place."
                    )
            except ResultsError as error:
                _refuse_file(path, error, left_out)
                continue
            seen[number.key] = place
            yield number


def _refuse_file(path: Path, error: ResultsError, left_out: list[str]) -> None:
    if not is_of_user(path):
        raise error
    left_out.append(f"{str(error).removesuffix('.')}; this is left out.")


def _lines(path: Path, content: bytes, left_out: list[str]) -> Iterator[tuple[str, dict[str, str]]]:
    """Place and fields of every line below the header."""
    try:
        lines = content.decode("utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        _refuse_file(path, ResultsError(f"{path} is not UTF-8 text ({error}); save it again as UTF-8."), left_out)
        return
    if tuple(lines[0].rstrip("\r").split("\t")) != COLUMNS:
        found = " ".join(lines[0].split()) or "nothing"
        sentence = f"{path}, line 1: found {found}, expected exactly these columns between tabs: {' '.join(COLUMNS)}."
        _refuse_file(path, ResultsError(sentence), left_out)
        return
    if lines[-1]:
        sentence = f"{path}, line {len(lines)}: the file breaks off, expected a line end; restore it."
        _refuse_file(path, ResultsError(sentence), left_out)
    for number, line in enumerate(lines[1:-1], start=2):
        fields, place = line.rstrip("\r").split("\t"), f"{path}, line {number}"
        if len(fields) == len(COLUMNS):
            yield place, dict(zip(COLUMNS, fields, strict=True))
        else:
            sentence = f"{place}: found {len(fields)} fields, expected {len(COLUMNS)} between tabs; restore it."
            _refuse_file(path, ResultsError(sentence), left_out)


def _number(place: str, fields: dict[str, str], cards: Catalogue) -> ReportedNumber:
    """The number of a line; ResultsError says which field is wrong."""

    def refuse(column: str, expected: str) -> ResultsError:
        found = repr(fields[column]) if fields[column] else "nothing"
        return ResultsError(f"{place}, column {column!r}: found {found}, expected {expected}.")

    def known(column: str, words: Collection[str], what: str) -> None:
        if fields[column] not in words:
            near = ", ".join(map(repr, nearest_names(fields[column], words)))
            raise refuse(column, f"{what}{f'; near are: {near}' if near else ''}")

    if fields["encoder"] not in cards:
        known("encoder", cards, "the id of a card")
    known("metric", METRICS, "a metric of reported numbers, see results/README.md")
    known("protocol", PROTOCOLS, "a protocol of reported numbers, see results/README.md")
    known("standing", STANDINGS, f"one of {', '.join(STANDINGS)}")
    metric = METRICS[fields["metric"]]
    known("unit", metric.units, " or ".join(metric.units))
    for column in _NEEDED:
        if not fields[column].strip():
            raise refuse(column, "a text")
    if not _fits(fields["split"], fields["dataset"], fields["protocol"]):
        raise refuse("split", _EXPECTED_SPLIT)
    if not is_date(fields["date"]):
        raise refuse("date", "a date like '2026-11-22' or '2026-11', when the source was read")
    if not _RESOLUTION.fullmatch(fields["resolution"]):
        raise refuse("resolution", "pixels such as '224', several such as '224/336', 'native', or nothing")
    value = float(fields["value"]) if _NUMBER.fullmatch(fields["value"]) else math.nan
    most = {"percent": 100.0, "fraction": 1.0, "dimensionless": 1.0}.get(fields["unit"], math.inf)
    least = -1.0 if fields["unit"] == "dimensionless" else 0.0
    if not least <= value <= most:
        raise refuse("value", f"a number as it is printed, from {least:g}{'' if most == math.inf else f' to {most:g}'}")
    texts = {name: text for name, text in fields.items() if name not in ("encoder", "value")}
    return ReportedNumber(encoder=cards.id_of(fields["encoder"]), value=value, printed=fields["value"], **texts)


_EXPECTED_SPLIT = (
    f"nothing, but of {IMAGENET} {FULL!r}, {ZERO_SHOT!r} by reported-zero-shot, or as in 'train 1% -> val' by "
    "reported-few-labels"
)


def _fits(split: str, dataset: str, protocol: str) -> bool:
    """Only the splits of ImageNet-1K are known; those of other data sets are the source's own."""
    if dataset != IMAGENET:
        return not split
    if protocol == "reported-few-labels":
        return split not in (FULL, "") and MEASURED["linear_probe_error"].takes(split)
    return split == (ZERO_SHOT if protocol == "reported-zero-shot" else FULL)
