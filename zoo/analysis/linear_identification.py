"""Which coefficients of a linear model its rows identify: those of columns that no other columns add up to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..optional import requires_extra

with requires_extra("study", needed_for="A linear model"):
    import numpy as np
    import pandas as pd

CONSTANT = "constant"
COLLINEAR = 1e-9  # share of a column's length that the other columns leave over, below which they add up to it
_INVOLVED = 1e-7  # weight, on columns of length 1, from which a column takes part in a collinearity
_NAMED = 4  # columns that a note names


def null_vectors(design: pd.DataFrame) -> dict[str, dict[str, float]]:
    """Columns that earlier ones add up to: their names, and the weights of every column that takes part.

    Weights belong to columns scaled to length 1, so that no unit makes a column look negligible.
    """
    matrix = design.to_numpy(dtype=float)
    lengths = np.linalg.norm(matrix, axis=0)
    scaled = matrix / np.where(lengths > 0, lengths, 1.0)
    if lengths.all() and np.linalg.matrix_rank(scaled, tol=COLLINEAR) == scaled.shape[1]:
        return {}
    null: dict[str, dict[str, float]] = {}
    kept: list[int] = []
    names = list(design.columns)
    for position, name in enumerate(names):
        earlier = scaled[:, kept]
        weights = np.linalg.lstsq(earlier, scaled[:, position], rcond=None)[0]
        if np.linalg.norm(scaled[:, position] - earlier @ weights) > COLLINEAR:
            kept.append(position)
        else:
            involved = {names[one]: float(weight) for one, weight in zip(kept, weights, strict=True)}
            null[name] = {other: weight for other, weight in involved.items() if abs(weight) > _INVOLVED}
    return null


def coincides_with(term: str, null: Mapping[str, Mapping[str, float]]) -> list[str] | None:
    """The fewest other columns that a term is tied to, or None if it is tied to none: if it is identified."""
    ties = [[*weights, name] for name, weights in null.items() if name == term or term in weights]
    return min(([other for other in tie if other != term] for tie in ties), key=len, default=None)


def why_not_identified(term: str, design: pd.DataFrame, others: Sequence[str]) -> str:
    """The sentence for a term that is tied to other columns."""
    if not others:
        return "not identified: 0 in every row"
    if list(others) == [CONSTANT]:
        return f"not identified: {design[term].iloc[0]:g} in every row"
    more = f" and {len(others) - _NAMED} more" if len(others) > _NAMED else ""
    return f"not identified: coincides with {', '.join(others[:_NAMED])}{more}"
