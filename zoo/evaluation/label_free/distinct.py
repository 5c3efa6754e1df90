"""Rows told apart by one number each: which are equal, and an order that does not depend on how they are stored."""

from __future__ import annotations

from ...optional import requires_extra
from ..streamed_checks import Array
from .points import Points, blocks

with requires_extra("evaluate", needed_for="Nearest neighbours"):
    import numpy as np


def fingerprints(points: Points) -> Array:
    """One number a row, float64 (n,): the same for equal rows, and for others only by accident.

    It is a weighted sum of the row, always the same one, so that rows that are sorted by it are in an order of their
    own, whatever order they came in.
    """
    weights = np.random.default_rng(20_170_922).standard_normal(points.dim)
    parts = []
    for part in blocks(len(points), points.dim):
        wide = points.x[part].astype(np.float64)
        if points.scale != 1:
            wide *= points.scale
        parts.append(np.einsum("nd,d->n", wide, weights))
    found = np.concatenate(parts)
    return found if points.lengths is None else found / points.lengths


def first_equals(points: Points, rows: Array) -> Array:
    """For each of some ascending rows the first of them that is equal to it, in every feature: int64 (m,)."""
    _, start, group = np.unique(fingerprints(points)[rows], return_index=True, return_inverse=True)
    firsts = rows[start[group]]
    copies = np.flatnonzero(firsts != rows)
    for part in blocks(len(copies), points.dim):
        at = copies[part]
        equal = (points.x[rows[at]] == points.x[firsts[at]]).all(axis=1)
        firsts[at[~equal]] = rows[at[~equal]]
    found: Array = firsts
    return found
