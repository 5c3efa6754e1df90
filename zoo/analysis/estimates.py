"""What an analysis returns: one record a quantity, with its uncertainty and what it was estimated from."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """One estimated quantity.

    ``value`` is None where the data do not identify the term; ``note`` then says why, and there is no interval and no
    p-value. Intervals are at 95 %.
    """

    term: str  # "log(z_dim)": what the quantity belongs to
    value: float | None
    ci_low: float | None = None
    ci_high: float | None = None
    p: float | None = None  # two-sided, of the hypothesis that the value is 0
    n: int  # rows it was estimated from
    unit: str  # "percentage points per unit of log(z_dim)"
    outcome: str = ""  # column that is explained: "usability"
    method: str = ""  # "controlled", "global linear", "scaling law", ...
    ci_low_robust: float | None = None  # with HC3 standard errors
    ci_high_robust: float | None = None
    p_robust: float | None = None
    p_adjusted: float | None = None  # false-discovery rate (Benjamini-Hochberg) within the family of tests
    family: str = ""  # the tests that p_adjusted was computed over
    note: str = ""

    def described(self, **changes: object) -> Estimate:
        """The same estimate with other labels."""
        return replace(self, **changes)  # type: ignore[arg-type]


FIELDS = tuple(field.name for field in fields(Estimate))


def records(estimates: Iterable[Estimate]) -> list[dict[str, object]]:
    """Plain records, one an estimate, for JSON: Python's own numbers, None where there is none."""
    return [{name: _plain(value) for name, value in asdict(estimate).items()} for estimate in estimates]


def _plain(value: object) -> object:
    if isinstance(value, str) or value is None:
        return value
    number = float(value) if isinstance(value, float) else int(value)  # type: ignore[call-overload]
    return number if math.isfinite(number) else None


def estimates_frame(estimates: Sequence[Estimate]) -> pd.DataFrame:
    """One row an estimate, one column a field of :class:`Estimate`; numbers are float64, missing ones NaN."""
    import pandas as pd

    frame = pd.DataFrame(records(estimates), columns=list(FIELDS))
    numbers = [field.name for field in fields(Estimate) if "float" in str(field.type)]
    return frame.astype(dict.fromkeys(numbers, "float64"))
