"""Runs ``docs/quickstart.ipynb`` and stores it with its outputs: ``python docs/notebook.py``.

Nothing is stored that differs from run to run by itself: no times, no paths, no texts of objects that are tables.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).resolve().parent / "quickstart.ipynb"
_KEPT = ("alt", "tags")  # metadata of cells: the words for a picture, and whether a test compares the output


def executed(path: Path = NOTEBOOK) -> Any:
    """The notebook after a run with this Python, where the zoo's folders are empty; an error of a cell is raised."""
    notebook: Any = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        own = {name: str(Path(folder, name)) for name in ("ZOO_HOME", "ZOO_CACHE", "IPYTHONDIR", "JUPYTER_RUNTIME_DIR")}
        own["PYTHONWARNINGS"] = "ignore:IProgress not found"  # which tqdm says where Jupyter has no widgets
        environment = {name: text for name, text in os.environ.items() if name != "MPLBACKEND"} | own
        kernel = AsyncKernelManager(kernel_name="python3", transport="ipc", connection_file=str(Path(folder, "kernel")))
        client = NotebookClient(notebook, kernel, timeout=600, resources={"metadata": {"path": folder}})
        client.execute(env=environment)
    return cleaned(notebook)


def cleaned(notebook: Any) -> Any:
    """The notebook without what differs from run to run."""
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    for number, cell in enumerate(notebook.cells, start=1):
        cell.id = f"cell-{number:02}"
        cell.metadata = {name: cell.metadata[name] for name in _KEPT if name in cell.metadata}
        for output in cell.get("outputs", ()):
            output.pop("metadata", None)
            if "data" in output:
                output.metadata = {}
                if len(output.data) > 1:  # the text of a table or picture is that of an object in memory
                    output.data.pop("text/plain", None)
    return notebook


if __name__ == "__main__":
    nbformat.write(executed(), NOTEBOOK)
    print(f"docs/{NOTEBOOK.name}: {NOTEBOOK.stat().st_size / 1e3:.0f} kB")
