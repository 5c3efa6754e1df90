"""``zoo results --dataset``: every number that was measured on a data set, as the rows say it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict
from statistics import fmean
from typing import TYPE_CHECKING

from ..errors import UnknownName
from .output import NothingFound, print_json, print_notes, print_table

if TYPE_CHECKING:
    from ..results import Measurement

Group = tuple[str, str, str, int | None, str, str, str]  # encoder, metric, split, n_train, unit, protocol, source


def print_rows(dataset: str, encoders: Collection[str], *, as_json: bool, exclude_wrong: bool) -> None:
    """The rows of a data set, seeds together; in JSON each by itself.

    Raises
    ------
    UnknownName
        If nothing was measured on such a data set.
    NothingFound
        If nothing was measured of these encoders there.
    """
    from ..results import measurements

    rows = measurements(exclude_wrong=exclude_wrong)
    known = dict.fromkeys(row.dataset for row in rows)
    if dataset not in known:
        raise UnknownName("data set with measurements", dataset, known, hint=f"There are {', '.join(known)}.")
    found = [row for row in rows if row.dataset == dataset and (not encoders or row.encoder in encoders)]
    if not found:
        raise NothingFound(f"Nothing was measured of {', '.join(encoders)} on {dataset}.")
    if as_json:
        print_json({"dataset": dataset, "measurements": [asdict(row) for row in found]})
        return
    headers = ["encoder", "metric", "split", "images", "value", "unit", "seeds", "protocol", "source"]
    table = []
    for group, same in _by_seed(found).items():
        encoder, metric, split, n_train, unit, protocol, source = group
        number = "" if n_train is None else f"{n_train:,}"
        value = f"{fmean(row.value for row in same):.2f}"
        table.append([encoder, metric, split, number, value, unit, str(len(same)), protocol, source])
    print_table(headers, table, right=[3, 4, 6])
    print_notes([f"on {dataset}; means over seeds, each with its interval in --json"])


def _by_seed(rows: Sequence[Measurement]) -> dict[Group, list[Measurement]]:
    groups: dict[Group, list[Measurement]] = {}
    for row in rows:
        key = (row.encoder, row.metric, row.split, row.n_train, row.unit, row.protocol, row.source)
        groups.setdefault(key, []).append(row)
    return groups
