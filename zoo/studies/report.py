"""Writes the report of a run: a page, the same as Markdown, figures, and the numbers as JSON and CSV.

The folder appears whole or not at all. An earlier report is replaced if nobody has touched it since.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ..analysis.estimates import estimates_frame
from ..atomic import synchronise_folder
from ..errors import QueryError, StoreError
from .document import FORMAT, document_of, figure_file
from .drawing import save, style
from .options import Progress, no_progress
from .pages import html_page, markdown_page
from .running import StudyRun

CONTENTS = "files.json"  # every file of the report and its SHA-256


def require_reportable(folder: Path) -> None:
    """Refuses a folder in which something would be lost, before any work is done for it.

    Raises
    ------
    QueryError
        If it is no folder, or holds anything but an untouched earlier report.
    StoreError
        If it cannot be read, or nothing can be written beside it.
    """
    target = Path(os.path.realpath(folder))
    if target == Path.cwd():
        raise QueryError(f"{folder} is the current folder, which cannot be replaced; name a folder below it.")
    try:
        if os.path.lexists(folder):
            if not target.is_dir():
                raise QueryError(f"{folder} is no folder, expected one for the report; choose another name.")
            obstacle = _difference(target)
            if obstacle:
                raise QueryError(
                    f"{folder} is no untouched earlier report ({obstacle}), and nothing is overwritten; "
                    "name a new folder, or remove this one."
                )
        parent = next(parent for parent in target.parents if parent.exists())
    except OSError as error:
        raise StoreError(f"The folder {folder} cannot be read ({error.strerror}); choose another name.") from error
    if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
        raise StoreError(f"Nothing can be written in {parent}, expected to make {folder} there; choose another name.")


def write_report(runs: Sequence[StudyRun], folder: Path, *, progress: Progress = no_progress) -> list[Path]:
    """Draws the figures and writes everything.

    Parameters
    ----------
    runs : sequence of StudyRun
        At least one.
    folder : Path
        Absent, empty, or an untouched earlier report.
    progress : callable, optional
        Told which figure is drawn.

    Returns
    -------
    list of Path
        The files: ``index.html``, ``report.md``, ``report.json``, ``estimates.csv``, ``figures/``.

    Raises
    ------
    QueryError, StoreError
        As :func:`require_reportable`; the folder is then as it was. StoreError also if a file cannot be written.
    """
    require_reportable(folder)
    target = Path(os.path.realpath(folder))
    temporary = target.parent / f".{target.name}-{secrets.token_hex(4)}.tmp"
    document = document_of(runs)
    try:
        temporary.mkdir(parents=True)
        _draw(runs, temporary, progress)
        texts = {
            "index.html": html_page(document),
            "report.md": markdown_page(document),
            "report.json": json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n",
            "estimates.csv": _estimates_csv(runs),
            **{name: text for run in runs for name, text in run.findings.files.items()},
        }
        for name, text in texts.items():
            (temporary / name).write_text(text, encoding="utf-8")
        _list_contents(temporary)
        _publish(temporary, target)
    except OSError as error:
        raise StoreError(
            f"The report cannot be written to {target} ({error.strerror or error}); nothing was changed there."
        ) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return sorted(path for path in target.rglob("*") if path.is_file())


def _draw(runs: Sequence[StudyRun], folder: Path, progress: Progress) -> None:
    (folder / "figures").mkdir()
    figures = [(run.study.name, figure) for run in runs for figure in run.findings.figures]
    with style():
        for position, (study, figure) in enumerate(figures):
            progress(f"drawing {figure.name}", position, len(figures))
            save(figure.draw(), folder / figure_file(study, figure.name))
    progress("drawn", len(figures), len(figures))


def _estimates_csv(runs: Sequence[StudyRun]) -> str:
    frames = []
    for run in runs:
        frame = estimates_frame(run.findings.estimates)
        frame.insert(0, "study", run.study.name)
        frames.append(frame)
    rows = [record for frame in frames for record in frame.to_dict("records")]
    text = type(frames[0])(rows, columns=list(frames[0].columns)).to_csv(index=False, lineterminator="\n")
    return str(text)


def _files(folder: Path) -> Iterator[tuple[str, str]]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name != CONTENTS:
            yield path.relative_to(folder).as_posix(), hashlib.sha256(path.read_bytes()).hexdigest()


def _list_contents(folder: Path) -> None:
    listed = {"format": FORMAT, "files": dict(_files(folder))}
    (folder / CONTENTS).write_text(json.dumps(listed, indent=1) + "\n", encoding="utf-8")


def _difference(folder: Path) -> str | None:
    """How a folder differs from what a report left there; None if it does not, or is empty."""
    found = dict(_files(folder))
    listing = folder / CONTENTS
    if not listing.is_file():
        return f"it holds {next(iter(found))!r}" if found else None
    try:
        listed: Any = json.loads(listing.read_text(encoding="utf-8"))
        known = dict(listed["files"]) if listed["format"] == FORMAT else {}
    except (ValueError, KeyError, TypeError):
        return f"{CONTENTS} cannot be read"
    changed = [name for name in sorted({*found, *known}) if found.get(name) != known.get(name)]
    return f"{changed[0]} was added, changed or removed since" if changed else None


def _publish(temporary: Path, target: Path) -> None:
    """The finished folder gets its name; an earlier report steps aside, and comes back if that fails."""
    if not target.exists():
        os.rename(temporary, target)
    else:
        aside = temporary.with_suffix(".earlier")
        os.rename(target, aside)
        try:
            os.rename(temporary, target)
        except OSError:
            os.rename(aside, target)
            raise
        shutil.rmtree(aside, ignore_errors=True)
    synchronise_folder(target.parent)
