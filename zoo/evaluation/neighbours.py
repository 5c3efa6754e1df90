"""A weighted vote of the nearest neighbours: a probe that learns nothing, as a cheap companion of the linear ones.

As DINO's evaluation (Caron et al. 2021, Section 4.2, after Wu et al. 2018): similarity is the cosine of features,
neither centred nor scaled otherwise, and each of the k nearest training images votes for its class with the weight
exp(similarity / temperature). Features may lie on disk; they are read by blocks and a block of queries passes over all
of them (:mod:`.neighbours_search`, which also says what makes the neighbours certain).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from ..errors import DataError, QueryError
from ..optional import requires_extra
from .arrays import Array, both_or_neither, classes_of, labels_of, numbered, rows_of, width_checked
from .streamed_training import Labelled, require_finite

with requires_extra("evaluate", needed_for="Nearest neighbours"):
    import numpy as np
    import torch
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.utils.validation import check_is_fitted

_SPARE = 64  # neighbours that are kept beyond those asked for
_DIGITS = 12  # of a similarity
_FLOAT32, _FLOAT64 = 2.0**-24, 2.0**-53  # units of rounding
_UNDERFLOW = 2.0**-100  # what numbers that float32 takes for 0 add up to


@dataclass(frozen=True, eq=False)
class Reference:
    """The images among which neighbours are sought."""

    data: Labelled
    lengths: Array  # float64 (n,), infinite for rows of zeros, so that their similarities are 0
    centre: Array  # float32 (dim,), about the mean of the rows at length 1
    device: torch.device
    block_bytes: int

    @classmethod
    def of(cls, data: Labelled, *, device: torch.device, block_bytes: int) -> Reference:
        """Reads all rows once.

        Raises
        ------
        DataError
            If a feature is not finite; names the first such row.
        """
        lengths, total = np.empty(len(data)), np.zeros(data.dim)
        for part, block in data.blocks():
            require_finite(block, part, data)
            wide = _in_range(block).astype(np.float64)
            lengths[part] = _lengths(wide)
            total += np.einsum("nd,n->d", wide, 1 / lengths[part])
        return cls(data, lengths, (total / len(data)).astype(np.float32), device, block_bytes)

    @property
    def query_rows(self) -> int:
        """Queries that pass over the reference together."""
        return max(1, min(4096, self.block_bytes // (4 * max(self.data.dim, 1024))))

    @property
    def rows(self) -> int:
        """Rows of the reference that are compared with them at a time."""
        return max(1, min(8192, self.block_bytes // (4 * max(2 * self.data.dim, self.query_rows))))

    @property
    def pairs(self) -> int:
        """Pairs whose rows are read together to sum up their similarities."""
        return max(1, self.block_bytes // (16 * self.data.dim))


def nearest(reference: Reference, queries: Labelled, wanted: int, *, left_out: bool) -> Iterator[tuple[Array, Array]]:
    """Neighbours of blocks of queries: similarities float64 (m, wanted), descending, and rows int64 (m, wanted).

    Parameters
    ----------
    wanted : int
        Number of neighbours.
    left_out : bool
        The queries are rows of the reference, and none is its own neighbour.
    """
    for part, block in queries.blocks(reference.query_rows):
        own = None
        if left_out:
            own = np.arange(part.start, part.stop) if queries.index is None else queries.index[part]
        unit = _in_range(block).astype(np.float64)
        unit /= _lengths(unit)[:, None]
        near, rows, off = _candidates(reference, unit, wanted, own)
        kept = near >= (near[:, wanted - 1] - 2 * off)[:, None]
        complete = ~kept[:, -1] if near.shape[1] < len(reference.data) else np.ones(len(block), dtype=bool)
        similarities = np.empty((len(block), wanted))
        neighbours = np.empty((len(block), wanted), dtype=np.int64)
        for some in _groups(np.flatnonzero(complete), kept.sum(axis=1), reference.pairs):
            similarities[some], neighbours[some] = _ordered(reference, unit[some], kept[some], rows[some], wanted)
        again = np.flatnonzero(~complete)
        if len(again):
            found = _among_all(reference, unit[again], wanted, None if own is None else own[again])
            similarities[again], neighbours[again] = found
        yield similarities, neighbours


def _candidates(reference: Reference, unit: Array, wanted: int, own: Array | None) -> tuple[Array, Array, Array]:
    """The most similar rows by products in float32, less c q, and what these may be off by.

    Returns
    -------
    products : float32 (m, width), descending
    rows : int64 (m, width)
    off : float64 (m,)
    """
    data, device = reference.data, reference.device
    width = min(wanted + _SPARE + (own is not None), len(data))
    centre = torch.from_numpy(reference.centre).to(device)
    centred = torch.from_numpy(unit - reference.centre).to(device)
    queries = torch.cat([centred, torch.ones_like(centred[:, :1])], dim=1).float()
    apart = torch.linalg.vector_norm(centred, dim=1).cpu().numpy()
    squared_centre = float(centre.double().square().sum())
    farthest, highest = 0.0, 0.0
    best = torch.empty((len(unit), 0), device=device)
    rows = torch.empty((len(unit), 0), dtype=torch.int64, device=device)
    for part, block in data.blocks(reference.rows):
        others = torch.empty((len(block), data.dim + 1), device=device)
        lengths = reference.lengths[part]
        others[:, :-1] = torch.from_numpy(_units(block, lengths)).to(device)
        others[:, :-1] -= centre
        squares = torch.linalg.vector_norm(others[:, :-1], dim=1, dtype=torch.float64).square_()
        own_squares = torch.from_numpy(np.isfinite(lengths).astype(np.float64)).to(device)  # 1, or 0
        others[:, -1] = 0.5 * (own_squares - squared_centre - squares)
        farthest, highest = max(farthest, float(squares.max())), max(highest, float(others[:, -1].abs().max()))
        found = _products(queries, others)
        _leave_out(found, own, part)
        values, places = torch.topk(found, min(width, found.shape[1]), dim=1, sorted=False)
        values, places = torch.cat([best, values], dim=1), torch.cat([rows, places + part.start], dim=1)
        best, kept = torch.topk(values, min(width, values.shape[1]), dim=1)
        rows = places.gather(1, kept)
    off = _bound(data.dim, apart, math.sqrt(farthest), highest)
    return best.cpu().numpy(), rows.cpu().numpy(), off


def _bound(dim: int, apart: Array, farthest: float, highest: float) -> Array:
    """What products of queries may be off by, the rounding of float64 and to twelve digits included: float64 (m,)."""
    n, u = dim + 4, _FLOAT32
    farthest += 3 * u  # which was measured from rounded rows
    found: Array = n * u / (1 - n * u) * (apart * farthest + highest) + 5 * u * (apart + farthest) + 16 * u * u
    return 1.001 * found + 8 * n * _FLOAT64 + 10.0**-_DIGITS + _UNDERFLOW


def _groups(queries: Array, counts: Array, most: int) -> Iterator[Array]:
    """Queries whose candidates are no more than so many together, or single ones."""
    first = 0
    ends = np.cumsum(counts[queries])
    while first < len(queries):
        before = ends[first - 1] if first else 0
        last = max(first + 1, int(np.searchsorted(ends, before + most, side="right")))
        yield queries[first:last]
        first = last


def _ordered(reference: Reference, unit: Array, kept: Array, rows: Array, wanted: int) -> tuple[Array, Array]:
    """Similarities and rows (m, wanted) of the candidates that are kept, which are no fewer for any query."""
    at, place = np.nonzero(kept)
    candidates = rows[at, place]
    read, which = np.unique(candidates, return_inverse=True)
    others = _in_range(reference.data.read(read)).astype(np.float64)
    products = np.empty(len(candidates))
    starts = np.searchsorted(at, np.arange(len(unit) + 1))
    for query, (first, last) in enumerate(pairwise(starts.tolist())):  # each pair by itself, unlike in a matrix product
        products[first:last] = np.einsum("nd,d->n", others[which[first:last]], unit[query])
    similarities = (products / reference.lengths[candidates]).round(_DIGITS)
    order = np.lexsort((candidates, -similarities, at))
    chosen = order[starts[:-1, None] + np.arange(wanted)]
    return similarities[chosen], candidates[chosen]


def _among_all(reference: Reference, unit: Array, wanted: int, own: Array | None) -> tuple[Array, Array]:
    """The same among all rows, by matrix products in float64."""
    device = reference.device
    queries = torch.from_numpy(unit).to(device)
    best = torch.empty((len(unit), 0), dtype=torch.float64, device=device)
    rows = torch.empty((len(unit), 0), dtype=torch.int64, device=device)
    for part, block in reference.data.blocks(reference.rows):
        others = torch.from_numpy(_in_range(block).astype(np.float64)).to(device)
        found = queries @ others.T
        found /= torch.from_numpy(reference.lengths[part]).to(device)
        found = found.round(decimals=_DIGITS)
        _leave_out(found, own, part)
        values, places = torch.cat([best, found], dim=1).sort(dim=1, descending=True, stable=True)
        best, places = values[:, :wanted], places[:, :wanted]
        here = torch.arange(part.start, part.stop, device=device).expand(len(unit), -1)
        rows = torch.cat([rows, here], dim=1).gather(1, places)
    return best.cpu().numpy(), rows.cpu().numpy()


def _leave_out(found: torch.Tensor, own: Array | None, part: slice) -> None:
    """No query is its own neighbour."""
    if own is not None:
        inside = np.flatnonzero((own >= part.start) & (own < part.stop))
        found[torch.from_numpy(inside), torch.from_numpy(own[inside] - part.start)] = -torch.inf


def _products(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Products of float32 rows with all 24 bits; torch leaves some of them out if it has been allowed to."""
    if left.device.type == "cpu":
        found: Array = left.numpy() @ right.numpy().T
        return torch.from_numpy(found)
    allowed = getattr(torch.backends.cuda.matmul, "fp32_precision", None)  # older versions have one setting for all
    full = torch.get_float32_matmul_precision() == "highest" if allowed is None else allowed in ("none", "ieee")
    return left @ right.T if full else (left.double() @ right.double().T).float()


def _in_range(rows: Array) -> Array:
    """Rows whose squares float64 can hold: those of float64 are multiplied by powers of two, which rounds nothing."""
    if rows.dtype == np.float32:
        return rows
    exponents = np.frexp(np.maximum(rows.max(axis=1), -rows.min(axis=1)))[1]
    found: Array = np.ldexp(rows, -exponents[:, None])
    return found


def _lengths(wide: Array) -> Array:
    """Of rows in range, row by row; infinite for those of zeros."""
    found = np.sqrt(np.einsum("nd,nd->n", wide, wide))
    return np.where(found > 0, found, np.inf)


def _units(rows: Array, lengths: Array) -> Array:
    """Rows of length 1 in float32, off by two units of rounding."""
    found: Array = (_in_range(rows) / lengths.astype(rows.dtype)[:, None]).astype(np.float32, copy=False)
    return found


class NeighbourProbe(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """k-nearest neighbours by cosine similarity, weighted by exp(similarity / temperature).

    Which images are neighbours does not depend on how the features are cut into blocks; of images that are equally
    similar the one that comes first in the training set is nearer, and of classes with equal votes the lower one is
    predicted. An image whose features are all 0 has the similarity 0 with every other one.

    Parameters
    ----------
    k : int or sequence of int
        Neighbours that vote. Of several the one with the smallest validation error is chosen, the smallest of equals.
    temperature : float
    n_left_out : int
        Where several k are to be compared and ``fit`` is given no validation data, each of so many training images
        (or of all, if there are fewer), drawn by ``seed``, is classified by all others.
    block_bytes : int
        Of similarities, and of features, in memory at a time; changes nothing but the time.
    seed : int
    device : str, optional
        By default "cuda" if there is one.

    Attributes
    ----------
    classes_ : array, ascending
    k_ : int
        The chosen number of neighbours.
    report_ : dict
        ``k``, ``temperature``, ``validated_on`` ("validation data", "left-out training images" or None), and of that
        ``validation_error_percent``, and ``errors_percent`` for each k; ``notes``, for example on a k that was cut to
        the number of training images.
    """

    def __init__(
        self,
        *,
        k: int | Sequence[int] = (10, 20, 100, 200),
        temperature: float = 0.07,
        n_left_out: int = 10_000,
        block_bytes: int = 1 << 27,
        seed: int = 0,
        device: str | None = None,
    ) -> None:
        self.k = k
        self.temperature = temperature
        self.n_left_out = n_left_out
        self.block_bytes = block_bytes
        self.seed = seed
        self.device = device

    def fit(self, x: Any, y: Any, *, x_val: Any = None, y_val: Any = None, groups: Any = None) -> NeighbourProbe:
        """Keeps the features, without a copy, and chooses k.

        Parameters
        ----------
        x : float array or memory-mapped rows, shape (n, dim)
        y : array, shape (n,)
            Labels of two classes or more.
        x_val, y_val : optional
            What k is chosen on.
        groups : uint64 array, shape (n,), optional
            Rows with the same number are copies of one image. They are not left out to choose k, for the nearest
            neighbour of each would be its copy; unless all rows have copies.

        Raises
        ------
        DataError
            If shapes, labels or numbers are not as expected.
        QueryError
            If an option is out of its range.
        """
        wanted = self._checked_options()
        rows = rows_of(x, "x")
        if y is None:
            raise DataError("requires y to be passed, but the target y is None: a probe needs labels.")
        labels = labels_of(y, rows.shape[0], "y")
        self.classes_ = classes_of(labels)
        self.n_features_in_ = rows.shape[1]
        data = Labelled(rows, numbered(labels, self.classes_), is_wide=True)
        queries = None
        if both_or_neither(x_val, y_val):
            rows_val = width_checked(rows_of(x_val, "x_val"), rows.shape[1], "x_val", "the probe")
            labels_val = labels_of(y_val, rows_val.shape[0], "y_val")
            queries = Labelled(rows_val, numbered(labels_val, self.classes_), name="x_val", is_wide=True)
        self._reference = Reference.of(data, device=self._device, block_bytes=self.block_bytes)
        tried, notes = self._clipped(wanted, len(data))
        errors: dict[int, float] = {}
        on = None
        if queries is not None:
            _require_all_finite(queries)
            on, errors = "validation data", self._errors(queries, tried, left_out=False)
        elif len(tried) > 1:
            order = np.random.Generator(np.random.PCG64(self.seed)).permutation(len(data))
            if groups is not None:
                _, number, counts = np.unique(np.asarray(groups), return_inverse=True, return_counts=True)
                alone = order[counts[number[order]] == 1]
                order = alone if len(alone) else order
            drawn = order[: self.n_left_out]
            tried, more = self._clipped(tried, len(data) - 1)
            notes += [note for note in more if note not in notes]
            on = "left-out training images"
            errors = self._errors(data.subset(np.sort(drawn)), tried, left_out=True)
        self.k_ = min(tried, key=lambda k: (errors.get(k, 0.0), k))
        self.report_ = {
            "k": self.k_,
            "temperature": self.temperature,
            "n_train": len(data),
            "validated_on": on,
            "validation_error_percent": errors.get(self.k_),
            "errors_percent": {str(k): error for k, error in errors.items()},
            "notes": notes,
        }
        return self

    def predict(self, x: Any) -> Array:
        """Class of each row, shape (n,)."""
        parts = [votes.argmax(axis=1) for _, votes in self._votes(self._queries(x), (self.k_,), left_out=False)]
        found: Array = self.classes_[np.concatenate(parts)]
        return found

    def predict_proba(self, x: Any) -> Array:
        """Share of each class in the votes, float64 (n, n_classes)."""
        votes = np.concatenate([part for _, part in self._votes(self._queries(x), (self.k_,), left_out=False)])
        shares: Array = votes / votes.sum(axis=1, keepdims=True)
        return shares

    def _checked_options(self) -> tuple[int, ...]:
        wanted = (self.k,) if isinstance(self.k, int | np.integer) else tuple(self.k)
        if not wanted or min(wanted) < 1:
            raise QueryError(f"k is {self.k}, expected numbers of neighbours of at least 1.")
        for name in ("temperature", "n_left_out", "block_bytes"):
            if not getattr(self, name) > 0:
                raise QueryError(f"{name} is {getattr(self, name)}, expected a number above 0.")
        return tuple(int(k) for k in wanted)

    def _clipped(self, wanted: Sequence[int], n: int) -> tuple[tuple[int, ...], list[str]]:
        notes = [f"k = {k} was cut to {n}, for no more training images can vote." for k in wanted if k > n]
        return tuple(sorted({min(k, max(1, n)) for k in wanted})), notes

    @property
    def _device(self) -> torch.device:
        return torch.device(self.device or ("cuda" if torch.cuda.is_available() else "cpu"))

    def _queries(self, x: Any) -> Labelled:
        check_is_fitted(self)
        rows = width_checked(rows_of(x, "x"), self.n_features_in_, "X", type(self).__name__)
        queries = Labelled(rows, np.zeros(rows.shape[0], dtype=np.int64), is_wide=True)
        _require_all_finite(queries)
        return queries

    def _errors(self, queries: Labelled, tried: Sequence[int], *, left_out: bool) -> dict[int, float]:
        """Error of each k in percent."""
        wrong, at = dict.fromkeys(tried, 0), dict.fromkeys(tried, 0)
        for k, votes in self._votes(queries, tried, left_out=left_out):
            truth = queries.y[at[k] : at[k] + len(votes)]
            wrong[k], at[k] = wrong[k] + int((votes.argmax(axis=1) != truth).sum()), at[k] + len(votes)
        return {k: 100 * number / len(queries) for k, number in wrong.items()}

    def _votes(self, queries: Labelled, tried: Sequence[int], *, left_out: bool) -> Iterator[tuple[int, Array]]:
        """For each block of queries and each k the votes, float64 (m, n_classes), the nearest neighbour's being 1."""
        for similarities, neighbours in nearest(self._reference, queries, max(tried), left_out=left_out):
            weights = np.exp((similarities - similarities[:, :1]) / self.temperature)  # (m, largest k)
            labels = self._reference.data.y[neighbours]
            rows = np.broadcast_to(np.arange(len(labels))[:, None], labels.shape)
            for k in tried:
                votes = np.zeros((len(labels), len(self.classes_)))
                np.add.at(votes, (rows[:, :k], labels[:, :k]), weights[:, :k])
                yield k, votes


def _require_all_finite(data: Labelled) -> None:
    for part, block in data.blocks():
        require_finite(block, part, data)
