"""A weighted vote of the nearest neighbours: a probe without training, as a cheap companion of the linear ones.

As DINO's evaluation (Caron et al. 2021, Section 4.2, after Wu et al. 2018): similarity is the cosine of features,
neither centred nor scaled otherwise, and each of the k nearest training images votes for its class with the weight
exp(similarity / temperature). Features may lie on disk; they are read by blocks, and a block of queries passes over all
of them (:class:`zoo.evaluation.nearest_neighbours.CosineIndex`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ..errors import QueryError
from ..optional import require_extra
from .arrays import Array
from .nearest_neighbours import CosineIndex, compute_votes
from .streamed_training import LabelledRows, check_labelled_sets, wrap_unlabelled_rows

with require_extra("evaluate", needed_for="Nearest neighbours"):
    import numpy as np
    import torch
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.utils.validation import check_is_fitted


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
        """Stores the features, without a copy, and chooses k.

        Parameters
        ----------
        x : float array or memory-mapped rows, shape (n, dim)
        y : array, shape (n,)
            Labels of two classes or more.
        x_val, y_val : optional
            What k is chosen on.
        groups : uint64 array, shape (n,), optional
            Rows with the same number are copies of one image, or images of one group. They are not left out to choose
            k, for the nearest neighbour of each would be its copy; unless more than half of the rows are such: then any
            may be left out, and with it its whole group.

        Raises
        ------
        DataError
            If shapes, labels or numbers are not as expected.
        QueryError
            If an option is out of its range.
        """
        wanted = self._checked_options()
        self.classes_, data, queries = check_labelled_sets(x, y, x_val, y_val, is_wide=True)
        self.n_features_in_ = data.dim
        self._reference = CosineIndex.of(data, device=self._device, block_bytes=self.block_bytes)
        tried, notes = self._clipped(wanted, len(data))
        errors: dict[int, float] = {}
        on = None
        if queries is not None:
            queries.require_finite()
            on, errors = "validation data", self._errors(queries, tried, left_out=False)
        elif len(tried) > 1:
            order = np.random.Generator(np.random.PCG64(self.seed)).permutation(len(data))
            number = None
            if groups is not None:
                _, number, counts = np.unique(np.asarray(groups), return_inverse=True, return_counts=True)
                alone = order[counts[number[order]] == 1]
                if 2 * len(alone) >= len(order) or len(counts) == 1:
                    order, number = alone if len(alone) else order, None
            drawn = np.sort(order[: self.n_left_out])
            tried, more = self._clipped(tried, len(data) - 1)
            notes += [note for note in more if note not in notes]
            on = "left-out training images"
            apart = None if number is None else (number[drawn], number)
            errors = self._errors(data.subset(drawn), tried, left_out=True, apart=apart)
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

    def _queries(self, x: Any) -> LabelledRows:
        check_is_fitted(self)
        queries = wrap_unlabelled_rows(x, self.n_features_in_, type(self).__name__)
        queries.require_finite()
        return queries

    def _errors(
        self, queries: LabelledRows, tried: Sequence[int], *, left_out: bool, apart: tuple[Array, Array] | None = None
    ) -> dict[int, float]:
        """Error of each k in percent; ``apart`` has the groups of the queries and of the rows, which do not vote."""
        wrong, at = dict.fromkeys(tried, 0), dict.fromkeys(tried, 0)
        for k, votes in self._votes(queries, tried, left_out=left_out, apart=apart):
            truth = queries.y[at[k] : at[k] + len(votes)]
            wrong[k], at[k] = wrong[k] + int((votes.argmax(axis=1) != truth).sum()), at[k] + len(votes)
        return {k: 100 * number / len(queries) for k, number in wrong.items()}

    def _votes(
        self, queries: LabelledRows, tried: Sequence[int], *, left_out: bool, apart: tuple[Array, Array] | None = None
    ) -> Iterator[tuple[int, Array]]:
        """For each block of queries and each k the votes, float64 (m, n_classes), the nearest neighbour's being 1."""
        wanted, at = max(tried), 0
        if apart is not None:  # of the neighbours, as many may be of the group of the query
            wanted = min(len(self._reference.data) - 1, wanted + int(np.bincount(apart[1]).max()) - 1)
        for similarities, neighbours in self._reference.nearest(queries, wanted, left_out=left_out):
            others = None
            if apart is not None:
                own = apart[1][neighbours] == apart[0][at : at + len(neighbours), None]
                last = np.argsort(own, axis=1, kind="stable")  # those of the group behind all others
                similarities, neighbours, others = (
                    np.take_along_axis(table, last, axis=1) for table in (similarities, neighbours, ~own)
                )
            at += len(neighbours)
            labels = self._reference.data.y[neighbours]
            for k in tried:
                voting = None if others is None else others[:, :k]
                yield k, compute_votes(similarities[:, :k], labels[:, :k], len(self.classes_), self.temperature, voting)
