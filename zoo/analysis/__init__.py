"""What the measurements mean: methods that read one table of cards and results, and import no torch.

Each method is a function from :func:`study_table` to records (:class:`Estimate`) and DataFrames; it is imported, with
the library that it needs, when it is first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..optional import make_lazy_exports

if TYPE_CHECKING:
    from .columns import Estimate as Estimate
    from .columns import estimates_frame as estimates_frame
    from .controlled import controlled_effect as controlled_effect
    from .importance import explained_variance as explained_variance
    from .importance import tree_importance as tree_importance
    from .linear import global_linear_effect as global_linear_effect
    from .scaling_law import fit_scaling_law as fit_scaling_law
    from .scaling_law import law_rows as law_rows
    from .table import StudyTable as StudyTable
    from .table import study_table as study_table
else:
    __getattr__, __dir__, __all__ = make_lazy_exports(
        __name__,
        {
            "columns": ["Estimate", "estimates_frame"],
            "controlled": ["controlled_effect"],
            "importance": ["explained_variance", "tree_importance"],
            "linear": ["global_linear_effect"],
            "scaling_law": ["fit_scaling_law", "law_rows"],
            "table": ["StudyTable", "study_table"],
        },
    )
