"""Rows of reported numbers, for the tests that add some."""

from __future__ import annotations

from zoo.results.reported_values import COLUMNS

ROW = {
    "encoder": "dino_vitS16",
    "metric": "top1_accuracy",
    "dataset": "imagenet-1k",
    "split": "train -> val",
    "value": "77.10",
    "unit": "percent",
    "protocol": "reported-linear",
    "source": "somebody/list",
    "date": "2026-11",
    "resolution": "224",
    "place": "README.md",
    "setting": "",
    "measured_by": "somebody",
    "standing": "third party",
    "remark": "",
    "doubt": "",
}


def reported_text(*changes: dict[str, str]) -> str:
    """A file of reported numbers, a row for each set of changes to ROW."""
    lines = ["\t".join({**ROW, **change}[name] for name in COLUMNS) for change in changes]
    return "\n".join(["\t".join(COLUMNS), *lines, ""])
