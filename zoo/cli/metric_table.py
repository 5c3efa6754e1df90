"""How metrics without labels are shown, and how their options are read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from ..errors import QueryError
from ..labelfree import metric
from .output import print_notes, print_table
from .probe_options import settings_of

BETTER = {True: "higher", False: "lower", None: "neither"}
Record = dict[str, Any]


def print_metrics(records: Sequence[Record], notes: Sequence[str], *, condensed: bool = False) -> None:
    """One line a metric, notes on them, and why some are missing; of arrays that a file lacks, one line on request.

    A column of duplicates is there if there are any.
    """
    headers = ["metric", "value", "unit", "better", "images", "views", "features s", "metric s"]
    computed = [one for one in records if one["value"] is not None]
    rows = [
        [one["title"], f"{one['value']:,.4g}", one["unit"], one["better"], f"{one['n_images']:,}",
         "" if one["n_views"] is None else str(one["n_views"]), f"{one['seconds_featurising']:.1f}",
         f"{one['seconds_computing']:.1f}"]
        for one in computed
    ]  # fmt: skip
    duplicates = [_duplicates(one["details"]) for one in computed]
    if any(duplicates):
        headers.append("duplicates")
        rows = [[*row, told] for row, told in zip(rows, duplicates, strict=True)]
    if rows:
        print_table(headers, rows, right=[1, 4, 5, 6, 7])
    reasons: dict[str, list[str]] = {}
    for one in records:
        if one["value"] is None:
            lacks = condensed and one.get("lacks")
            reason = "need views, labels or other images than the file holds" if lacks else one["reason"]
            reasons.setdefault(reason, []).append(one["title"])
    of_values = [f"{one['title']}: {note}" for one in computed for note in one["notes"]]
    of_missing = [f"{', '.join(titles)}: {reason}" for reason, titles in reasons.items()]
    print_notes([*notes, *of_values, *of_missing])


def _duplicates(details: Record) -> str:
    """Rows that equal another, and rows that nearly do, where a metric counts them."""
    counts = {"exact": details.get("n_duplicates"), "near": details.get("n_near_duplicates")}
    return ", ".join(f"{n:,} {kind}" for kind, n in counts.items() if n)


def refuse_nothing(records: Sequence[Record]) -> None:
    """Nothing at all could be measured: say so by the exit code."""
    if all(one["value"] is None for one in records):
        raise click.ClickException("No metric could be computed; see above.")


def options_of(given: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Options by metric, from METRIC.NAME=VALUE."""
    found: dict[str, dict[str, Any]] = {}
    for key, value in settings_of(given, form="METRIC.NAME=VALUE").items():
        name, point, option = key.partition(".")
        if not point or not option:
            raise QueryError(f"Got --set {key!r}, expected METRIC.NAME=VALUE, as in lidar.delta=1e-4.")
        found.setdefault(metric(name).name, {})[option] = value
    return found
