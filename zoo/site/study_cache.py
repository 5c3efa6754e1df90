"""The studies of a site: run in several processes, and kept in the cache until something changes that they depend on.

A study is run on the table as published and on the corrected one, in two tasks, which give plain documents; its figures
become SVG and CSV where they are drawn. What is kept of a study is one JSON file, below ``studies/`` of the cache
folder, under a key of everything that decides it: the study's own files, cards and results, the package, the versions
of libraries. It is checked when it is read; one that is damaged is made again.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import StoreError
from ..evaluation.drawing import style
from ..execution.executor import DIED, Resources
from ..execution.processes import Processes
from ..files import cache_folder, content_folder, replaced, shipped_only
from ..studies.figure_svg import svg_of
from ..studies.report import csv_text, document_of, figure_file, other_side, with_other
from ..studies.running import LIBRARIES, Study, StudyOptions, StudyRun, findings_of
from ..version import __version__

if TYPE_CHECKING:
    from ..analysis.table import StudyTable

_FORMAT = "zoo-site-study-2"
_OTHER = "corrected"  # the second table of every study
_MOST_PROCESSES = 4  # each has the libraries and the tables in memory, some 400 MB
_N_KEPT = 3  # of each study: as many states of the zoo may take turns without running it again
_PACKAGE = Path(__file__).resolve().parents[1]
Half = Callable[[Study, int], dict[str, Any]]  # a study, and the workers that it may start itself
_NO_PART = ("site", "cli", "_content", "__pycache__")  # folders of the package that no study can import


@dataclass(frozen=True, slots=True)
class Drawn:
    """A figure as files."""

    svg: str
    csv: str  # "" without data of its own


@dataclass(frozen=True, slots=True)
class Finished:
    """A study that was run on both tables."""

    study: Study
    document: Mapping[str, Any]  # of zoo.studies.report, with this study alone
    figures: Mapping[str, Drawn]  # by file, as the document names it

    @property
    def content(self) -> Mapping[str, Any]:
        """The part of the document that is about the study."""
        found: Mapping[str, Any] = self.document["studies"][0]
        return found


def finished_studies(
    chosen: Sequence[Study], *, tell: Callable[[str], None] = lambda what: None, n_processes: int = 0
) -> list[Finished]:
    """Every study on the shipped encoders: from the cache, or run now and kept there.

    ``n_processes`` is 0 for one a core, at most four. ``tell`` is called with what is done. A cache that cannot be
    written is done without.
    """
    keys = {study.name: _key(study) for study in chosen}
    found = {study.name: one for study in chosen if (one := _read(study, keys[study.name])) is not None}
    missing = [study for study in chosen if study.name not in found]
    if missing:
        tell(f"running {len(missing)} of {len(chosen)}, which takes a minute or two")
    for number, one in enumerate(_made(missing, n_processes or _n_processes()), start=1):
        tell(f"{one.study.name}, {number} of {len(missing)}")
        _keep(one, keys[one.study.name])
        found[one.study.name] = one
    return [found[study.name] for study in chosen]


# --- running ---------------------------------------------------------------------------------------------------------


def _n_processes() -> int:
    from ..analysis.trees import number_of_workers

    return min(number_of_workers(0), _MOST_PROCESSES)


def _made(chosen: Sequence[Study], n_processes: int) -> Iterator[Finished]:
    """The studies in any order, each as soon as both halves of it are done."""
    left = {study.name: study for study in chosen}
    if n_processes > 1 and len(left) > 1:
        halves = [(half, study) for study in chosen for half in (published_half, corrected_half)]
        done: dict[str, dict[Half, dict[str, Any]]] = {study.name: {} for study in chosen}
        with closing(Processes(n_processes)) as processes, suppress(StoreError):  # raised where none can begin
            for outcome in processes.map_unordered(_half_alone, halves, Resources()):
                half, study = outcome.work
                if outcome.value is not None:
                    done[study.name][half] = outcome.value
                elif outcome.failures[-1].kind != DIED:  # what is killed for memory is left to this process
                    raise outcome.failures[-1].error()
                if len(done[study.name]) == 2:
                    yield _joined(study, done[study.name][published_half], done[study.name][corrected_half])
                    del left[study.name]
    for study in left.values():
        yield _joined(study, published_half(study, 0), corrected_half(study, 0))


def _half_alone(work: tuple[Half, Study]) -> dict[str, Any]:
    """In one process of several."""
    half, study = work
    return half(study, 1)


def published_half(study: Study, n_workers: int) -> dict[str, Any]:
    """A study on the published table: its document, and its figures as texts."""
    with shipped_only():
        findings = findings_of(study, _table(corrected=False), StudyOptions(n_workers=n_workers))
        run = StudyRun(study=study, table=_table(corrected=False), findings=findings)
        figures = {}
        with style():
            for figure in findings.figures:
                file = figure_file(study.name, figure.name)
                data = "" if figure.data is None else csv_text(figure.data())
                figures[file] = {"svg": svg_of(figure.draw(), name=file), "csv": data}
    return {"document": document_of([run]), "figures": figures}


def corrected_half(study: Study, n_workers: int) -> dict[str, Any]:
    """The same study on the corrected table: what it says of claims, and its numbers."""
    with shipped_only():
        return other_side(findings_of(study, _table(corrected=True), StudyOptions(n_workers=n_workers)))


@cache
def _table(*, corrected: bool) -> StudyTable:
    """Read once a process."""
    from ..analysis.table import study_table

    return study_table(corrected=corrected)


def _joined(study: Study, published: Mapping[str, Any], corrected: Mapping[str, Any]) -> Finished:
    document = published["document"]
    joined = {**document, "studies": [with_other(document["studies"][0], _OTHER, corrected)]}
    # As JSON gives it back, so that a site is the same whether its studies were run or read.
    return _finished(study, json.loads(json.dumps({"document": joined, "figures": published["figures"]})))


def _finished(study: Study, kept: Mapping[str, Any]) -> Finished:
    figures = {file: Drawn(svg=one["svg"], csv=one["csv"]) for file, one in kept["figures"].items()}
    return Finished(study, kept["document"], figures)


# --- keeping ---------------------------------------------------------------------------------------------------------


def _key(study: Study) -> str:
    """A hash of everything that decides what a study says, but for the processor."""
    own = _files(study.path) if study.path.is_dir() else [study.path]
    decisive = [_FORMAT, study.name, _surroundings(), _hash(own, study.path.parent)]
    return hashlib.sha256(json.dumps(decisive).encode()).hexdigest()[:32]


@cache
def _surroundings() -> str:
    """What all studies have in common."""
    with shipped_only():
        content = [_hash(_files(content_folder(name)), content_folder(name)) for name in ("metadata", "results")]
    analysis = content_folder("analysis")
    beside = [path for path in sorted(analysis.iterdir()) if path.is_file() and path.suffix != ".py"]
    package = [path for path in _files(_PACKAGE) if path.relative_to(_PACKAGE).parts[0] not in _NO_PART]
    libraries = {name: _version(name) for name in (*LIBRARIES, "contourpy", "pyarrow", "scikit-learn")}
    here = [__version__, platform.python_version(), platform.machine(), libraries]
    return json.dumps([content, _hash(beside, analysis), _hash(package, _PACKAGE), here])


def _version(library: str) -> str:
    try:
        return version(library)
    except PackageNotFoundError:
        return ""


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


def _place(study: Study, key: str) -> Path:
    return cache_folder() / "studies" / f"{study.name}-{key}.json"


def _read(study: Study, key: str) -> Finished | None:
    """What was kept; None if nothing was, or if it is damaged."""
    try:
        seal, _, body = _place(study, key).read_bytes().partition(b"\n")
        if seal.decode() != f"{_FORMAT} {hashlib.sha256(body).hexdigest()}":
            return None
        return _finished(study, json.loads(body))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _keep(one: Finished, key: str) -> None:
    """Writes what is read above, a line with its hash first, and removes the oldest of the same study."""
    figures = {file: {"svg": drawn.svg, "csv": drawn.csv} for file, drawn in one.figures.items()}
    body = json.dumps({"document": one.document, "figures": figures}, allow_nan=False).encode()
    place = _place(one.study, key)
    with suppress(OSError):
        with replaced(place) as file:
            file.write(f"{_FORMAT} {hashlib.sha256(body).hexdigest()}\n".encode() + body)
        length = len(place.name)
        others = [path for path in place.parent.glob(f"{one.study.name}-*.json") if len(path.name) == length]
        for path in sorted(others, key=lambda path: path.stat().st_mtime)[:-_N_KEPT]:
            path.unlink()
