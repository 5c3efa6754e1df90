"""Which studies there are: the files of ``analysis/``, read without running them, and a user's own file by its path."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from ..analysis.table import StudyTable
from ..errors import ContentError, QueryError, UnknownName
from ..files import content_folder
from .findings import Findings
from .options import StudyOptions

StudyFunction = Callable[[StudyTable, StudyOptions], Findings]


@dataclass(frozen=True, slots=True)
class Study:
    """One study, as its file introduces it."""

    name: str  # of the file, without suffix
    path: Path
    question: str  # first line of its docstring
    introduction: str  # the rest: claim, expected numbers, command


def studies() -> dict[str, Study]:
    """The shipped studies by name, in name order.

    Raises
    ------
    ContentError
        If the folder is missing or a file in it cannot be read.
    QueryError
        If a file does not open with a question.
    """
    paths = sorted(path for path in content_folder("analysis").glob("*.py") if path.name[0] not in "._")
    return {path.stem: read_study(path) for path in paths}


def study_named(name: str) -> Study:
    """A shipped study by its name or an unambiguous beginning of it, or any study by the path of its file.

    Raises
    ------
    UnknownName
        If there is no such study; names the nearest ones.
    QueryError
        If several begin like that, or the file is no study.
    """
    if name.endswith(".py") or "/" in name:
        path = Path(name)
        if not path.is_file():
            raise QueryError(
                f"There is no file {name}, expected the path of a study; 'zoo study' lists the shipped ones."
            )
        return read_study(path)
    known = studies()
    if name in known:
        return known[name]
    folded = name.casefold().replace("-", "_")
    begun = [study for study in known if study.startswith(folded)] if folded else []
    if len(begun) == 1:
        return known[begun[0]]
    if begun:
        raise QueryError(f"Got the study {name!r}, with which {' and '.join(begun)} begin; write one of them out.")
    raise UnknownName("study", name, known, hint="'zoo study' lists them all.")


def read_study(path: Path) -> Study:
    """Name, question and introduction of a study, from its docstring alone.

    Raises
    ------
    ContentError
        If the file cannot be read.
    QueryError
        If it is not Python, or does not open with a question.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ContentError(f"The study {path} cannot be read ({error}); make it readable or remove it.") from error
    try:
        docstring = ast.get_docstring(ast.parse(text)) or ""
    except (SyntaxError, ValueError) as error:  # ValueError: a null byte
        raise QueryError(f"The study {path} is not Python ({error}); correct it.") from error
    question, _, introduction = docstring.partition("\n\n")
    question = re.sub(r"\s+", " ", question)
    if not question.endswith("?"):
        raise QueryError(
            f"The study {path} opens with {question[:60]!r}, expected a docstring that begins with a question."
        )
    return Study(path.stem, path.resolve(), question, introduction.strip())


def load_study(study: Study) -> StudyFunction:
    """The function ``study`` of a study's file, which is run for it.

    Raises
    ------
    MissingExtra
        If a library that it needs is not installed.
    QueryError
        If the file defines no such function.
    """
    name = f"zoo_study_{study.name}"
    spec = spec_from_file_location(name, study.path)
    if spec is None or spec.loader is None:
        raise QueryError(f"The study {study.path} cannot be run; expected a Python file.")
    module = module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickles of the file look their module up
    with _no_bytecode():
        spec.loader.exec_module(module)
    function = getattr(module, "study", None)
    if not callable(function):
        raise QueryError(
            f"The study {study.path} defines no function study(table, options); add one that returns Findings."
        )
    return function  # type: ignore[no-any-return]


@contextmanager
def _no_bytecode() -> Iterator[None]:
    """Nothing is written beside a user's file while it is run."""
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        yield
    finally:
        sys.dont_write_bytecode = before
