"""One-shot accuracy: what a classifier achieves that has seen one labelled image of each class."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any

from ...errors import QueryError
from ...optional import requires_extra
from ..neighbours import NeighbourProbe
from ..probe import LogisticProbe
from ..streamed_checks import Array
from .cosine_rows import in_range
from .labelled import labelled_of, validation_of

with requires_extra("evaluate", needed_for="One-shot accuracy"):
    import numpy as np

CLASSIFIERS = ("nearest", "logistic")
_NEEDED_FOR = "one-shot accuracy"


@dataclass(frozen=True, slots=True, kw_only=True)
class OneShotAccuracy:
    """Mean accuracy in percent over draws of the labelled images, and each draw's.

    ``standard_error`` (percentage points, None for one draw) is that of the mean over draws; the validation images are
    the same in all of them. ``n_train`` images were there to draw from. Chance is 100 / ``n_classes``.
    """

    value: float
    standard_error: float | None
    draws: tuple[float, ...]
    classifier: str
    n_classes: int
    n_train: int
    n_val: int


def one_shot_accuracy(
    z: Any,
    y: Any,
    z_val: Any,
    y_val: Any,
    *,
    n_draws: int = 10,
    classifier: str = "nearest",
    C: float = 1.0,  # noqa: N803  (scikit-learn's name)
    seed: int = 0,
    device: str | None = None,
) -> OneShotAccuracy:
    """Accuracy on validation images of a classifier from one image a class, drawn at random, mean over draws.

    The same seed draws the same images for every encoder whose rows are in the same order, so that encoders are
    compared on equal terms; what classes are called changes nothing.

    Parameters
    ----------
    z, y : arrays, shapes (n, dim) and (n,)
        Features and labels of the images from which one a class is drawn.
    z_val, y_val : arrays, shapes (m, dim) and (m,)
        Validation images of these classes.
    n_draws : int
    classifier : {"nearest", "logistic"}
        The paper does not say which. "nearest": the class of the drawn image that is nearest by cosine similarity,
        neither centred nor scaled otherwise, as the paper's other neighbours; of equally near ones the lower class.
        "logistic": multinomial logistic regression on features of length 1.
    C : float
        Inverse regularisation of "logistic", as scikit-learn defines it; one image a class leaves none to choose it on.
    seed : int
    device : str, optional
        Of torch; None takes a GPU if there is one.

    Returns
    -------
    OneShotAccuracy
        ``value`` in percent; higher is better.

    Raises
    ------
    DataError
        If features are not finite, are all the same or have different widths, labels do not match rows, there is one
        class only, or a class of y_val has no image in y.
    QueryError
        If an option is out of its range.

    References
    ----------
    CLID, arXiv:2206.01251, Table 5, footnote a.

    Examples
    --------
    >>> z, y = np.array([[1.0, 0.0], [3.0, 1.0], [0.0, 1.0]]), ["cat", "cat", "dog"]
    >>> found = one_shot_accuracy(z, y, [[2.0, 1.0], [1.0, 9.0]], ["cat", "dog"])
    >>> found.value, len(found.draws)
    (100.0, 10)
    """
    if classifier not in CLASSIFIERS:
        raise QueryError(f"classifier is {classifier!r}, expected one of {', '.join(map(repr, CLASSIFIERS))}.")
    if not isinstance(n_draws, Integral) or isinstance(n_draws, bool) or n_draws < 1:
        raise QueryError(f"n_draws is {n_draws!r}, expected a whole number of at least 1.")
    train = labelled_of(z, y, least=2, needed_for=_NEEDED_FOR)
    validation = validation_of(train, z_val, y_val, needed_for=_NEEDED_FOR)
    rows, rows_val = in_range(train.z), in_range(validation.z)
    if classifier == "logistic":
        rows, rows_val = _unit(rows), _unit(rows_val)
    probe: NeighbourProbe | LogisticProbe = NeighbourProbe(k=1, device=device)
    if classifier == "logistic":
        probe = LogisticProbe(C=C, device=device, seed=seed, precision="float32")  # on every machine
    generator = np.random.default_rng(seed)
    accuracies = []
    for _ in range(n_draws):
        drawn = _one_each(train.y, generator)
        predicted = probe.fit(rows[drawn], np.arange(len(drawn))).predict(rows_val)
        accuracies.append(100 * float((predicted == validation.y).mean()))
    spread = float(np.std(accuracies, ddof=1)) / n_draws**0.5 if n_draws > 1 else None
    return OneShotAccuracy(
        value=float(np.mean(accuracies)),
        standard_error=spread,
        draws=tuple(accuracies),
        classifier=classifier,
        n_classes=len(train.classes),
        n_train=len(train.z),
        n_val=len(validation.z),
    )


def _one_each(y: Array, generator: np.random.Generator) -> Array:
    """A row of each class, in the order of classes: the first of its rows in a random order of all rows.

    Classes are drawn from by where their rows are, not by their numbers, so that naming them otherwise draws the same.
    """
    order = generator.permutation(len(y))
    first = np.unique(y[order], return_index=True)[1]
    drawn: Array = order[first]
    return drawn


def _unit(rows: Array) -> Array:
    """Rows of length 1, or 0."""
    wide = rows.astype(np.float64)
    lengths = np.linalg.norm(wide, axis=1, keepdims=True)
    unit: Array = (wide / np.where(lengths > 0, lengths, 1)).astype(np.float32)
    return unit
