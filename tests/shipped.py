"""The study table of the shipped rows, and what the shipped studies find in it, made once a process."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from types import ModuleType

from zoo.analysis.table import StudyTable, study_table
from zoo.analysis.threads import one_thread
from zoo.studies.findings import Findings
from zoo.studies.running import StudyOptions, load_study, study_named


@cache
def shipped_table(*, corrected: bool = False) -> StudyTable:
    """The 169 encoders of the paper; shared, so whoever changes it takes a copy."""
    return study_table(corrected=corrected)


@cache
def shipped_findings(study: str, *, corrected: bool = False) -> Findings:
    """What a study finds in the shipped rows with default options."""
    with one_thread():
        found = load_study(study_named(study))(shipped_table(corrected=corrected), StudyOptions())
    assert isinstance(found, Findings)
    return found


@cache
def study_module(study: str, module: str = "") -> ModuleType:
    """A shipped study, or a module of its folder, which is no package that could be imported by its name."""
    return import_module(f"{load_study(study_named(study)).__module__}.{module}".rstrip("."))
