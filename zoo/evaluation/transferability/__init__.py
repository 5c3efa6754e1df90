"""Scores of labelled features that say how well a probe on them may do, without training a tuned one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...optional import lazy

if TYPE_CHECKING:
    from .leave_one_out import LeaveOneOut as LeaveOneOut
    from .leave_one_out import leave_one_out_neighbours as leave_one_out_neighbours
    from .leave_one_out import leave_one_out_ridge as leave_one_out_ridge
    from .leave_one_out import neighbour_predictions as neighbour_predictions
    from .leave_one_out import ridge_predictions as ridge_predictions
else:
    __getattr__, __dir__, __all__ = lazy(
        __name__,
        {
            "leave_one_out": [
                "LeaveOneOut",
                "leave_one_out_neighbours",
                "leave_one_out_ridge",
                "neighbour_predictions",
                "ridge_predictions",
            ]
        },
    )
