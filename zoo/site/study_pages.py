"""``studies/``: the questions with their verdicts, a page for each study, and its figures and numbers as files.

Studies are run in several processes, each on the table as published and on the corrected one. What they found is kept
as one JSON file per study, below ``studies/`` of the cache folder, under a key of everything that decides it.
"""

from __future__ import annotations

import hashlib
import json
import platform
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypeAlias

from ..analysis.table import StudyTable, study_table
from ..analysis.trees import number_of_workers
from ..evaluation.drawing import use_style
from ..execution.executor import Resources
from ..execution.processes import Processes
from ..files import get_cache_folder, get_content_folder, replace_file, use_shipped_only
from ..studies.figure_svg import read_svg_size, render_figure_svg
from ..studies.report import (
    ESTIMATE_HEADERS,
    VERDICTS,
    add_other_table,
    build_report_document,
    format_csv,
    format_report,
    get_figure_path,
)
from ..studies.running import LIBRARIES, Study, StudyOptions, StudyRun, list_studies, run_study_tables
from ..version import __version__
from .contents import Contents
from .rendering import File, SiteRenderer, get_study_page

FOLDER = "studies"
_FEW_ROWS = 200  # of a table of the page; longer ones are cut, and whole in their file
_ENLARGED = 1.25  # figures have text of 7 points, as in print, which is small on a screen
_COMMAND = re.compile(r"\n*Command: .*\Z", re.DOTALL)  # the end of an introduction, which a page shows by itself


def build_files(contents: Contents, renderer: SiteRenderer) -> Iterator[File]:
    """The index, a page per study, figures as SVG, and data of figures, tables and estimates as CSV."""
    chosen = list(list_studies().values())
    page, index = renderer.page, f"{FOLDER}/index.html"
    if not contents.with_studies:  # their questions, and how to run them
        yield page("study_none.html.jinja", index, title="Studies", kind="studies", questions=chosen)
        return
    finished = run_studies_cached(chosen, tell=renderer.tell)
    documents = [one["document"] for one in finished]
    verdicts = {verdict: sum(document["verdicts"][verdict] for document in documents) for verdict in VERDICTS}
    every = [study for document in documents for study in document["studies"]]
    content = format_report({**documents[0], "verdicts": verdicts, "studies": every})
    values: dict[str, Any] = {
        "left_out": bool(contents.only or contents.with_mine),
        "with_mine": contents.with_mine,
        "verdict_names": VERDICTS,
        "classes": {verdict: f"verdict-{verdict.replace(' ', '-')}" for verdict in VERDICTS},
    }
    shared: dict[str, Any] = {
        "kind": "studies",
        "pages_of": {study.name: get_study_page(study.name) for study in chosen},
        **{name: value for name, value in content.items() if name != "version"},
        **values,
    }
    yield page("study_index.html.jinja", index, title="Studies", **shared)
    yield page("claims.html.jinja", f"{FOLDER}/claims.html", title="Claims that do not agree", **shared)
    for study, kept, said in zip(chosen, finished, content["studies"], strict=True):
        yield from _study(renderer, study, kept["figures"], said, values | {"table": content["table"]})


def _study(
    renderer: SiteRenderer,
    study: Study,
    drawn: Mapping[str, Mapping[str, str]],
    said: Mapping[str, Any],
    values: Mapping[str, Any],
) -> Iterator[File]:
    figures = []
    for figure in said["figures"]:
        svg, data = (drawn[figure["file"]][kind] for kind in ("svg", "csv"))
        width, height = (round(_ENLARGED * one) for one in read_svg_size(svg))
        figures.append({**figure, "width": width, "height": height, "n_rows": data.count("\n") - 1})
        yield File(f"{FOLDER}/{figure['file']}.svg", svg.encode())
        if data:
            yield File(f"{FOLDER}/{figure['file']}.csv", data.encode())
    tables = []
    for number, table in enumerate(said["tables"], start=1):
        file = f"data/{study.name}-table{number}.csv"
        yield File(f"{FOLDER}/{file}", format_csv([table["headers"], *table["rows"]]).encode())
        tables.append({**table, "file": file, "n_rows": len(table["rows"]), "rows": table["rows"][:_FEW_ROWS]})
    file = f"data/{study.name}-estimates.csv"
    if said["estimates"]:
        rows = [list(said["estimates"][0]), *([*map(_shorter, record.values())] for record in said["estimates"])]
        yield File(f"{FOLDER}/{file}", format_csv(rows).encode())
    yield renderer.page(
        "study.html.jinja",
        get_study_page(study.name),
        title=said["question"],
        kind="study",
        study=said,
        introduction=_paragraphs(study.introduction),
        figures=figures,
        tables=tables,
        estimates={
            "file": file,
            "headers": ESTIMATE_HEADERS,
            "n_rows": len(said["estimate_rows"]),
            "rows": said["estimate_rows"][:_FEW_ROWS],
        },
        few=_FEW_ROWS,
        **values,
    )


def _shorter(cell: Any) -> Any:
    """A number with six digits, more than any estimate is sure of; a file of them is half as large."""
    return f"{cell:.6g}" if isinstance(cell, float) else cell


def _paragraphs(introduction: str) -> list[str]:
    """The paragraphs of a docstring, without the command at its end.

    >>> _paragraphs("Claim: one\\nthing.\\n\\nExpected: 3.\\n\\nCommand: zoo study it")
    ['Claim: one thing.', 'Expected: 3.']
    """
    text = _COMMAND.sub("", introduction)
    return [re.sub(r"\s+", " ", part).strip() for part in text.split("\n\n") if part.strip()]


# --- running and keeping ---

_FORMAT = "zoo-site-study-5"
_OTHER = "corrected"  # the second table of every study
_MOST_PROCESSES = 4  # each has the libraries and the tables in memory, some 400 MB
_N_KEPT = 3  # of each study: as many states of the zoo may take turns without running it again
_PACKAGE = Path(__file__).resolve().parents[1]
_NO_PART = ("site", "cli", "_content", "__pycache__")  # folders of the package that no study can import
Kept: TypeAlias = dict[str, Any]
"""What a study found, as JSON: ``document`` of :mod:`zoo.studies.report`, and ``figures`` as SVG and CSV by file."""


def run_studies_cached(
    chosen: Sequence[Study], *, tell: Callable[[str], None] = lambda what: None, n_processes: int = 0
) -> list[Kept]:
    """Every study on the shipped encoders: from the cache, or run now and kept there.

    ``n_processes`` is 0 for one per core, at most four. ``tell`` is called with what is done.
    """
    folder = get_cache_folder() / "studies"
    places = {study.name: folder / f"{study.name}-{_key(study)}.json" for study in chosen}
    found: dict[str, Kept] = {}
    for name, place in places.items():
        with suppress(OSError, ValueError):
            found[name] = json.loads(place.read_bytes())
    missing = [study for study in chosen if study.name not in found]
    if missing:
        tell(f"running {len(missing)} of {len(chosen)}, which takes a minute or two")
    for number, (name, one) in enumerate(_run(missing, n_processes), start=1):
        tell(f"{name}, {number} of {len(missing)}")
        found[name] = one
        with suppress(OSError):  # a cache that cannot be written is done without
            with replace_file(places[name]) as file:
                file.write(json.dumps(one, allow_nan=False).encode())
            states = sorted(folder.glob(f"{name}-{'?' * 32}.json"), key=lambda path: path.stat().st_mtime)
            for path in states[:-_N_KEPT]:
                path.unlink()
    return [found[study.name] for study in chosen]


def _run(chosen: Sequence[Study], n_processes: int) -> Iterator[tuple[str, Kept]]:
    """Name and findings of each study, as soon as it was run on both tables."""
    n_processes = n_processes or min(number_of_workers(0), _MOST_PROCESSES)
    is_alone = n_processes == 1 or len(chosen) < 2
    longest_first = sorted(chosen, key=lambda study: "tune" not in study.options)  # lest one core waits at the end
    work = [(study, 0 if is_alone else 1) for study in longest_first]
    with closing(Processes(0 if is_alone else n_processes)) as processes:
        for outcome in processes.map_unordered(_on_both_tables, work, Resources()):
            if outcome.value is None:
                raise outcome.failures[-1].error()
            yield outcome.work[0].name, outcome.value


def _on_both_tables(work: tuple[Study, int]) -> Kept:
    """A study on the published table, with figures as texts, and what the corrected one says otherwise.

    Both in one process, for what they share is computed once.
    """
    study, n_workers = work
    with use_shipped_only():
        table, corrected = _table(corrected=False), _table(corrected=True)
        findings, other = run_study_tables(study, table, corrected, options=StudyOptions(n_workers=n_workers))
        figures = {}
        with use_style():
            for figure in findings.figures:
                file = get_figure_path(study.name, figure.name)
                data = "" if figure.data is None else format_csv(figure.data())
                figures[file] = {"svg": render_figure_svg(figure.draw(), name=file), "csv": data}
        document = build_report_document([StudyRun(study=study, table=table, findings=findings)])
        claims = {"claims": {claim.claim: claim.ours for claim in other.claims}}  # the pages show no more of it
    [content] = document["studies"]
    document["studies"] = [add_other_table(content, _OTHER, claims)]
    found: Kept = json.loads(json.dumps({"document": document, "figures": figures}))  # the same whether run or read
    return found


@cache
def _table(*, corrected: bool) -> StudyTable:
    return study_table(corrected=corrected)


def _key(study: Study) -> str:
    """A hash of everything that decides what a study says, but for the processor."""
    own = _files(study.path) if study.path.is_dir() else [study.path]
    decisive = [_FORMAT, study.name, _surroundings(), _hash(own, study.path.parent)]
    return hashlib.sha256(json.dumps(decisive).encode()).hexdigest()[:32]


@cache
def _surroundings() -> str:
    """What all studies have in common: cards, results, the package, and the versions of libraries."""
    with use_shipped_only():
        content = [
            _hash(_files(get_content_folder(name)), get_content_folder(name)) for name in ("metadata", "results")
        ]
    analysis = get_content_folder("analysis")
    beside = [path for path in sorted(analysis.iterdir()) if path.is_file() and path.suffix != ".py"]
    package = [path for path in _files(_PACKAGE) if path.relative_to(_PACKAGE).parts[0] not in _NO_PART]
    libraries = []
    for name in (*LIBRARIES, "contourpy", "pyarrow", "scikit-learn"):
        with suppress(PackageNotFoundError):
            libraries.append([name, version(name)])
    here = [__version__, platform.python_version(), platform.machine(), libraries]
    return json.dumps([content, _hash(beside, analysis), _hash(package, _PACKAGE), here])


def _files(folder: Path) -> list[Path]:
    return sorted(
        path
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and not path.name.startswith(".")
    )


def _hash(files: Iterable[Path], folder: Path) -> str:
    found = hashlib.sha256()
    for path in files:
        found.update(f"{path.relative_to(folder).as_posix()}\0".encode())
        found.update(hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()
