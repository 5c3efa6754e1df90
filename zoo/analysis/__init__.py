"""What the measurements mean: methods that read one table of cards and results, and import no torch.

Each method is a function from :func:`study_table` to records (:class:`Estimate`) and DataFrames; it is imported, with
the library that it needs, when it is first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .controlled import controlled_effect
    from .estimates import Estimate, estimates_frame
    from .importance import explained_variance, tree_importance
    from .linear import global_linear_effect
    from .scaling_law import fit_scaling_law, law_rows
    from .table import StudyTable, study_table

__all__ = [
    "Estimate",
    "StudyTable",
    "controlled_effect",
    "estimates_frame",
    "explained_variance",
    "fit_scaling_law",
    "global_linear_effect",
    "law_rows",
    "study_table",
    "tree_importance",
]

_MODULES = {
    "Estimate": "estimates",
    "StudyTable": "table",
    "controlled_effect": "controlled",
    "estimates_frame": "estimates",
    "explained_variance": "importance",
    "fit_scaling_law": "scaling_law",
    "global_linear_effect": "linear",
    "law_rows": "scaling_law",
    "study_table": "table",
    "tree_importance": "importance",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f".{_MODULES[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
