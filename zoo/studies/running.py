"""Finds studies, and runs them on a table and on the published one next to it.

A study is a file ``analysis/QUESTION.py`` or a folder with ``__init__.py``. The verdict of a claim belongs to the table
as published; with encoders of the user it stays. On the corrected table a claim that no longer agrees is *corrected*.
"""

from __future__ import annotations

import ast
import hashlib
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from ..analysis.table import StudyTable, limit_to_one_thread, study_table
from ..errors import ContentError, MissingExtra, QueryError, UnknownName
from ..files import list_shipped_studies, require_regular
from .findings import Claim, Findings

Progress = Callable[[str, int, int], None]
"""Told what is being done, how many steps are done, and of how many."""


def ignore_progress(what: str, done: int, total: int) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyOptions:
    """Choices of a user; every study takes them all and reads those that concern it."""

    seed: int = 0  # of the bootstrap, the folds and the tuning
    tune: bool = False  # search the trees' settings anew instead of taking the stored ones
    n_trials: int = 50  # of that search, each target
    n_workers: int = 0  # processes; 0 means one per core
    encoders: tuple[str, ...] = ()  # of the radar; empty means those of the paper
    progress: Progress = ignore_progress


LIBRARIES = ("matplotlib", "numpy", "optuna", "pandas", "scipy", "statsmodels", "xgboost")
"""Of the extra ``study``."""

StudyFunction = Callable[[StudyTable, StudyOptions], Findings]


@dataclass(frozen=True, slots=True)
class Study:
    """One study, as its docstring introduces it."""

    name: str  # of the file without its suffix, or of the folder
    path: Path  # of the file, or of the folder
    question: str  # first line of its docstring
    introduction: str  # the rest: claim, expected numbers, command
    options: tuple[str, ...] = ()  # fields of StudyOptions, in addition to the seed, that it says it reads: its OPTIONS
    reads_table: bool = True  # False: the table has no part in it, so that once is enough; its READS_TABLE

    @property
    def file(self) -> Path:
        """The Python file that holds ``study(table, options)``."""
        return self.path / "__init__.py" if self.path.is_dir() else self.path


def list_studies() -> dict[str, Study]:
    """The shipped studies by name, in name order."""
    return {name: read_study(path) for name, path in list_shipped_studies().items()}


def find_study(name: str) -> Study:
    """A shipped study by its name or an unambiguous beginning of it, or any study by the path of its file or folder."""
    if name.endswith(".py") or "/" in name:
        path = Path(name)
        if path.is_dir() and not (path / "__init__.py").is_file():
            raise QueryError(f"The folder {name} has no __init__.py, expected one that opens with a question.")
        if not path.exists():
            raise QueryError(
                f"There is no file {name}, expected the path of a study; 'zoo study' lists the shipped ones."
            )
        return read_study(path)
    known = list_shipped_studies()
    if name in known:
        return read_study(known[name])
    folded = name.casefold().replace("-", "_")
    begun = [study for study in known if study.startswith(folded)] if folded else []
    if len(begun) == 1:
        return read_study(known[begun[0]])
    if begun:
        raise QueryError(f"Got the study {name!r}, with which {' and '.join(begun)} begin; write one of them out.")
    raise UnknownName("study", name, known, hint="'zoo study' lists them all.")


def read_study(path: Path) -> Study:
    """Name, question, introduction and options of the study of a file or folder, which is parsed and not run."""
    path = path.resolve()
    if path.name == "__init__.py":
        path = path.parent
    file = path / "__init__.py" if path.is_dir() else path
    try:
        require_regular(file)
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ContentError(f"The study {path} cannot be read ({error}); make it readable or remove it.") from error
    try:
        tree = ast.parse(text)
        docstring = ast.get_docstring(tree) or ""
        said = {  # OPTIONS = ("tune", ...) and READS_TABLE = False
            ast.unparse(node.targets[0]): ast.literal_eval(node.value)
            for node in tree.body
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in ("OPTIONS", "READS_TABLE")
        }
    except (SyntaxError, ValueError) as error:  # ValueError: a null byte
        raise QueryError(f"The study {path} is not Python ({error}); correct it.") from error
    question, _, introduction = docstring.partition("\n\n")
    question = re.sub(r"\s+", " ", question)
    if not question.endswith("?"):
        raise QueryError(
            f"The study {path} opens with {question[:60]!r}, expected a docstring that begins with a question."
        )
    name = path.name.removesuffix(".py")
    return Study(name, path, question, introduction.strip(), said.get("OPTIONS", ()), said.get("READS_TABLE", True))


def load_study(study: Study) -> StudyFunction:
    """The function ``study`` of a study, whose modules are run for it.

    A folder is loaded as a package, so that its modules import each other relatively (``from .figures import ...``).
    """
    apart = hashlib.sha256(str(study.path).encode()).hexdigest()[:8]  # from others of this name
    name = f"zoo_study_{re.sub(r'[^a-zA-Z0-9]', '_', study.name)}_{apart}"
    folder = None if study.file == study.path else [str(study.path)]
    spec = spec_from_file_location(name, study.file, submodule_search_locations=folder)
    if spec is None or spec.loader is None:
        raise QueryError(f"The study {study.path} cannot be run; expected a Python file.")
    module = module_from_spec(spec)
    for loaded in [one for one in sys.modules if one == name or one.startswith(f"{name}.")]:
        del sys.modules[loaded]  # what was loaded before may have changed since
    sys.modules[name] = module  # dataclasses and pickles of the file look their module up
    try:
        with _no_bytecode():
            spec.loader.exec_module(module)
    except ModuleNotFoundError as error:
        library = str(error.name).partition(".")[0]
        if library not in LIBRARIES:
            raise
        raise MissingExtra(library, extra="study", needed_for=f"The study {study.name}") from error
    function = getattr(module, "study", None)
    if not callable(function):
        raise QueryError(
            f"The study {study.path} defines no function study(table, options); add one that returns Findings."
        )
    return function  # type: ignore[no-any-return]


@contextmanager
def _no_bytecode() -> Iterator[None]:
    """Nothing is written next to a user's file while it is run."""
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        yield
    finally:
        sys.dont_write_bytecode = before


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyRun:
    """What one study found, on one table and perhaps on a second one."""

    study: Study
    table: StudyTable
    findings: Findings
    other: Findings | None = None  # of the same study on the other table: corrected if ``table`` is as published


@limit_to_one_thread()
def run_studies(
    chosen: Sequence[Study],
    *,
    corrected: bool = False,
    with_mine: bool = False,
    compare: bool = False,
    options: StudyOptions | None = None,
) -> list[StudyRun]:
    """Runs studies one after the other, on the table of :func:`zoo.analysis.table.study_table`.

    ``compare`` also runs them on the corrected table; another table than the published one is always compared.
    """
    settings = options or StudyOptions()
    functions = [load_study(study) for study in chosen]  # all of them first: a missing library shows before any work
    table = study_table(corrected=corrected, with_mine=with_mine)
    is_published = not corrected and not table.mine
    other_table = study_table(corrected=is_published) if compare or not is_published else None
    corrected_table = study_table(corrected=True) if corrected and table.mine else table
    runs = []
    for position, (study, function) in enumerate(zip(chosen, functions, strict=True)):
        steps = _in_study(settings, study, position, len(chosen))
        findings = _answered(study, function(table, steps))
        other = None
        if other_table is not None and not study.reads_table:
            other = findings
        elif other_table is not None:
            other = _answered(study, function(other_table, _on_another(steps, table, other_table)))
        if other is not None and not is_published:
            known = other.claims
            if corrected and table.mine:  # the errata may change a verdict, the user's encoders may not
                without = _answered(study, function(corrected_table, _on_another(steps, table, corrected_table)))
                known = _against_published(without.claims, known, corrected_table)
            findings = replace(findings, claims=_against_published(findings.claims, known, table))
        runs.append(StudyRun(study=study, table=table, findings=findings, other=other))
    settings.progress("done", len(chosen), len(chosen))
    return runs


@limit_to_one_thread()
def run_study_tables(study: Study, *tables: StudyTable, options: StudyOptions | None = None) -> list[Findings]:
    """What one study says of the encoders of each table, which are compared with no other."""
    function = load_study(study)  # once, for what a study keeps is lost when it is loaded anew
    asked = tables if study.reads_table else tables[:1]
    found = [_answered(study, function(table, options or StudyOptions())) for table in asked]
    return [*found, *found[:1] * (len(tables) - len(found))]


def _on_another(options: StudyOptions, table: StudyTable, other: StudyTable) -> StudyOptions:
    """The options on a table to compare with: without encoders that this one alone has, such as the user's.

    With the trees' stored settings, for a search would be done twice.
    """
    alone = set(table.frame.index) - set(other.frame.index)
    kept = tuple(encoder for encoder in options.encoders if encoder not in alone)
    return replace(options, tune=False, encoders=kept)


def _in_study(options: StudyOptions, study: Study, position: int, total: int) -> StudyOptions:
    def progress(what: str, done: int, steps: int) -> None:
        options.progress(f"{study.name}: {what} {done}/{steps}" if steps else f"{study.name}: {what}", position, total)

    options.progress(study.name, position, total)
    return replace(options, progress=progress)


def _answered(study: Study, findings: Findings) -> Findings:
    """Refuses claims with the same words or without a reason."""
    if not isinstance(findings, Findings):
        raise QueryError(
            f"The study {study.path} returned a {type(findings).__name__}, expected Findings of zoo.studies.findings."
        )
    names = [claim.claim for claim in findings.claims]
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise QueryError(f"The study {study.path} makes the claim {repeated!r} twice; give each its own words.")
    unexplained = next((claim for claim in findings.claims if claim.verdict != "agrees" and not claim.reason), None)
    if unexplained is not None:
        raise QueryError(f"The study {study.path} gives no reason for {unexplained.claim!r}; add one line.")
    return findings


def _against_published(claims: Sequence[Claim], published: Sequence[Claim], table: StudyTable) -> list[Claim]:
    """Verdicts of claims on a changed table, knowing how they came out on the published rows."""
    before = {claim.claim: claim for claim in published}
    return [_judged(claim, before[claim.claim], table) if claim.claim in before else claim for claim in claims]


def _judged(claim: Claim, known: Claim, table: StudyTable) -> Claim:
    """A claim with the verdict that it had on the table before: published, or corrected without the user's encoders."""
    if table.mine:
        if claim.ours == known.ours:
            return replace(claim, verdict=known.verdict, reason=known.reason, rests_on=known.rests_on)
        mine = f"{len(table.mine)} encoder{'s' * (len(table.mine) != 1)} of yours"
        reason = f"without {mine}, {known.ours}" + (f": {known.reason}" if known.reason else "")
        return replace(claim, verdict=known.verdict, reason=reason, rests_on=known.rests_on)
    if known.verdict != "agrees":
        reason = f"on the published rows, {known.ours}: {known.reason}"
        return replace(claim, verdict=known.verdict, reason=reason, rests_on=known.rests_on)
    if claim.verdict == "agrees":
        return claim
    reason = f"{known.ours} on the published rows, which agrees; here errata applied and components signed"
    return replace(claim, verdict="corrected", reason=reason)
