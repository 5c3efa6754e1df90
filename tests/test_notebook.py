"""The notebook of the documentation: stored with clean outputs, and it runs as it stands."""

from __future__ import annotations

import re
from typing import Any

import nbformat
import pytest

from docs import notebook

_OF_A_MACHINE = re.compile(
    r"/(?:home|Users|root|tmp|work|var|opt)/|[A-Z]:\\\\| at 0x[0-9a-f]|\b\d+ (?:seconds|minutes)\b"
)


def code_cells(notebook: Any) -> list[Any]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def kinds(cell: Any) -> list[tuple[str, ...]]:
    """What each output of a cell is: its type and the formats of its data."""
    return [(one.output_type, *sorted(one.get("data", {}))) for one in cell.outputs]


def test_it_is_stored_with_outputs_that_say_nothing_of_a_machine() -> None:
    stored = nbformat.read(notebook.NOTEBOOK, as_version=4)
    nbformat.validate(stored)
    assert nbformat.writes(notebook.cleaned(stored)) + "\n" == notebook.NOTEBOOK.read_text(encoding="utf-8")
    for number, cell in enumerate(code_cells(stored), start=1):
        assert cell.execution_count == number and cell.outputs, cell.id
        for output in cell.outputs:
            assert output.output_type in ("execute_result", "display_data") or output.name == "stdout", cell.id
            texts = [text for kind, text in output.get("data", {}).items() if kind != "image/png"]
            assert not [one for one in (*texts, output.get("text", "")) if _OF_A_MACHINE.search(one)], cell.id
            assert "image/png" not in output.get("data", {}) or cell.metadata.get("alt"), cell.id


@pytest.mark.slow
def test_it_runs_as_it_stands() -> None:
    stored, again = nbformat.read(notebook.NOTEBOOK, as_version=4), notebook.executed()
    for before, after in zip(code_cells(stored), code_cells(again), strict=True):
        assert kinds(after) == kinds(before), before.id
        if "stable" in before.metadata.get("tags", ()):
            assert after.outputs == before.outputs, f"{before.id} is stale, run: python docs/notebook.py"
