"""Writes the report of a run: a page, the same as Markdown, figures, and the numbers as JSON and CSV.

The folder, or the one file that stands alone, appears whole or not at all. An earlier report is replaced if it was not
touched since.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ..analysis.estimates import estimates_frame
from ..errors import QueryError, StoreError
from ..files import replaced, synchronise_folder
from .document import FORMAT, document_of, figure_file
from .drawing import save, style
from .options import Progress, no_progress
from .pages import html_page, markdown_page
from .running import StudyRun

CONTENTS = "files.json"  # every file of the report and its SHA-256
_SEAL = re.compile(rb"<!-- (\S+) sha256 ([0-9a-f]{64}) -->\n\Z")  # last line of a file, about all before it


def page_of(target: Path) -> Path:
    """The file that a report which stands alone is written to: ``report.html`` for ``report``.

    >>> page_of(Path("report")).name, page_of(Path("mine.html")).name
    ('report.html', 'mine.html')
    """
    return target if target.suffix.lower() in (".html", ".htm") else target.with_name(f"{target.name}.html")


def require_reportable(folder: Path, *, single_file: bool = False) -> None:
    """Refuses a place in which something would be lost, before any work is done for it.

    Parameters
    ----------
    single_file : bool
        The report is one file, :func:`page_of` the folder's name.

    Raises
    ------
    QueryError
        If it is no folder, or holds anything but an untouched earlier report; or if the file is no such report.
    StoreError
        If it cannot be read, or nothing can be written beside it.
    """
    if single_file:
        _require_page(Path(os.path.realpath(page_of(folder))))
        return
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
        _require_writable(target)
    except OSError as error:
        raise StoreError(f"The folder {folder} cannot be read ({error.strerror}); choose another name.") from error


def _require_writable(target: Path) -> None:
    parent = next(parent for parent in target.parents if parent.exists())
    if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
        raise StoreError(f"Nothing can be written in {parent}, expected to make {target} there; choose another name.")


def _require_page(target: Path) -> None:
    try:
        if os.path.lexists(target):
            if not target.is_file():
                raise QueryError(f"{target} is no file, expected one for the report; choose another name.")
            content = target.read_bytes()
            seal = _SEAL.search(content)
            if seal is None or seal[2].decode() != hashlib.sha256(content[: seal.start()]).hexdigest():
                raise QueryError(
                    f"{target} is no untouched earlier report, and nothing is overwritten; name a new file, or remove "
                    "this one."
                )
        _require_writable(target)
    except OSError as error:
        raise StoreError(f"The file {target} cannot be read ({error.strerror}); choose another name.") from error


def write_page(runs: Sequence[StudyRun], target: Path, *, progress: Progress = no_progress) -> Path:
    """Draws the figures and writes the report as one page that stands alone, with its figures inside.

    Parameters
    ----------
    runs : sequence of StudyRun
        At least one.
    target : Path
        The file is :func:`page_of` it; absent, or an untouched earlier report.
    progress : callable, optional
        Told which figure is drawn.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    QueryError, StoreError
        As :func:`require_reportable`; the file is then as it was. StoreError also if it cannot be written.
    """
    page = Path(os.path.realpath(page_of(target)))
    _require_page(page)
    document = document_of(runs)
    try:
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch)
            _draw(runs, folder, progress)
            images = {
                file: f"data:image/svg+xml;base64,{base64.b64encode((folder / f'{file}.svg').read_bytes()).decode()}"
                for study in document["studies"] for file in (figure["file"] for figure in study["figures"])
            }  # fmt: skip
        texts = {name: text for run in runs for name, text in run.findings.files.items()}
        content = html_page(document, images=images, texts=texts).encode()
        seal = f"<!-- {FORMAT} sha256 {hashlib.sha256(content).hexdigest()} -->\n"
        with replaced(page) as file:
            file.write(content + seal.encode())
    except OSError as error:
        raise StoreError(
            f"The report cannot be written to {page} ({error.strerror or error}); nothing was changed there."
        ) from error
    return page


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
