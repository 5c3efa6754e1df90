"""How verbs show numbers that somebody reported: apart from measurements, marked, with who measured them and where."""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from dataclasses import asdict

import click

from ..cards.schema import EncoderCard, Missing
from ..results.facts import DOUBTFUL, REPORTED
from ..results.reported_values import COLUMNS, TOP_1, ReportedNumber
from ..results.wording import how, kind, origin
from .output import entry, print_json, print_notes, print_table, wrapped

_TITLE = "Reported (measured by none of our protocols, and mostly not comparable with one another)"
_OF_CARD = {
    "top1_percent": "accuracy with all labels",
    "top1_percent_with_1_percent_labels": "with 1 % of the labels",
    "top1_percent_with_5_shot": "with 5 labels a class",
}
_UNITS = {"percent": " %", "millimetres": " mm"}  # others stand in words, or need none


def reported_lines(card: EncoderCard, numbers: Sequence[ReportedNumber]) -> list[str]:
    """The section of ``zoo show``: an entry for all numbers of one kind from one place."""
    groups: dict[tuple[str, str, str], list[ReportedNumber]] = {}
    for one in numbers:
        groups.setdefault((kind(one), how(one), origin(one)), []).append(one)
    lines = ["", click.style(wrapped(_TITLE), bold=True)]
    for (label, recipe, where), group in groups.items():
        lines += entry(label, "; ".join(text for text in (", ".join(map(_what, group)), recipe, where) if text))
    for reason in (Missing.NOT_PUBLISHED, Missing.NOT_APPLICABLE):
        absent = [words for name, words in _OF_CARD.items() if getattr(card.reported, name) is reason]
        if absent:
            lines += entry(f"({reason.value})", ", ".join(absent))
    return lines


def _what(one: ReportedNumber) -> str:
    metric = "" if one.metric == TOP_1 else f"{one.metric.replace('_', ' ')} on "
    return f"{metric}{one.dataset} {one.printed}{_UNITS.get(one.unit, '')}"


def print_reported(numbers: Sequence[ReportedNumber], *, as_csv: bool, as_json: bool) -> None:
    """Prints a line a number, as it is printed in its source; as JSON or CSV with all columns of the file."""
    if as_json:
        print_json({"reported": [asdict(one) for one in numbers]})
        return
    if as_csv:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(
            [one.printed if name == "value" else getattr(one, name) for name in COLUMNS] for one in numbers
        )
        return
    rows = [
        [
            one.encoder,
            ", ".join(text for text in (kind(one), how(one)) if text),
            one.metric,
            one.dataset,
            one.printed + (DOUBTFUL if one.doubt else REPORTED),
            one.unit,
            origin(one),
        ]
        for one in numbers
    ]
    print_table(["encoder", "how", "metric", "dataset", "value", "unit", "by"], rows, right=[4])
    encoders, n = {one.encoder for one in numbers}, len(numbers)
    counts = f"{n} number{'s' * (n != 1)} of {len(encoders)} encoder{'s' * (len(encoders) != 1)}"
    notes = [f"{counts}, as they are printed    {REPORTED}  reported: not measured here"]
    if any(one.doubt for one in numbers):
        notes.append("*!  doubtful, for the reason that stands beside it")
    print_notes(notes)
