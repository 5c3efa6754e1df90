"""Label entropy of a linear classifier: how certain it is of images of its own data set, and of another one's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...errors import DataError
from ...optional import requires_extra
from ..probe import LogisticProbe
from ..streamed_checks import Array, width_checked
from .arrays import features_of
from .labelled import labelled_of, validation_of

with requires_extra("evaluate", needed_for="Label entropy"):
    from scipy.special import entr

_LEAST = 4
_LARGEST = 1e30  # products of features with weights stay within float32


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelEntropy:
    """Mean entropy in nats, between 0 and log ``n_classes``, and the classifier that it is of.

    ``standard_error`` is over the ``n_val`` images (None for one); ``C`` is the inverse regularisation, ``converged``
    whether the classifier reached its optimum for it. ``accuracy`` in percent is that on these images, None where
    their labels are unknown; ``held_out_accuracy`` that on the part of the training images on which C was chosen, None
    where C was given.
    """

    value: float
    standard_error: float | None
    C: float
    converged: bool
    n_train: int
    n_val: int
    n_classes: int
    accuracy: float | None
    held_out_accuracy: float | None


def source_label_entropy(
    z: Any,
    y: Any,
    z_val: Any,
    y_val: Any,
    *,
    C: float | None = None,  # noqa: N803  (scikit-learn's name)
    select: str = "log_loss",
    seed: int = 0,
    device: str | None = None,
) -> LabelEntropy:
    """H(Y|X) of a linear classifier's predictions for new images of the data set that it was trained on.

    The classifier is a multinomial logistic regression (:class:`zoo.evaluation.probe.LogisticProbe`). Its
    regularisation is chosen on a stratified fifth of the training images; validation images choose nothing.

    Parameters
    ----------
    z, y : arrays, shapes (n, dim) and (n,)
        Features and labels of training images.
    z_val, y_val : arrays, shapes (m, dim) and (m,)
        Validation images of the same classes; their labels are used for ``accuracy`` alone.
    C : float, optional
        Inverse regularisation, as scikit-learn defines it; nothing is chosen then. With a given C the value depends on
        the scale of the features.
    select : {"log_loss", "error"}
        What the choice of C makes least. Entropies mean most where probabilities are honest, hence log loss.
    seed : int
        Of the images on which C is chosen.
    device : str, optional
        Of torch; None takes a GPU if there is one.

    Returns
    -------
    LabelEntropy
        ``value`` in nats; LOWER is better: the paper ranks encoders by its negative.

    Raises
    ------
    DataError
        If features are not finite, are all the same or have different widths, there are fewer than 4 training images,
        labels do not match rows, there is one class only, or a class of y_val has no training image.
    QueryError
        If an option is out of its range.

    References
    ----------
    Vedantam et al. 2021; CLID, arXiv:2206.01251, section 3.5 ("Source Ent").

    Examples
    --------
    >>> import numpy as np
    >>> z = np.array([[-2.0], [-1.0], [1.0], [2.0]])
    >>> found = source_label_entropy(z, [0, 0, 1, 1], [[0.0], [3.0]], [0, 1], C=1.0)
    >>> bool(0 < found.value < np.log(2)), found.n_classes
    (True, 2)
    """
    name = "source label entropy"
    train = labelled_of(z, y, least=_LEAST, needed_for=name)
    validation = validation_of(train, z_val, y_val, needed_for=name)
    return _entropy_of(train.z, train.y, validation.z, validation.y, _probe(C, select, seed, device))


def target_label_entropy(
    z: Any,
    y: Any,
    z_target: Any,
    *,
    C: float | None = None,  # noqa: N803
    select: str = "log_loss",
    seed: int = 0,
    device: str | None = None,
) -> LabelEntropy:
    """H(Y|X) of the same classifier's predictions for images of another data set, whose labels nobody looks at.

    The classes of the two data sets may have nothing in common.

    Parameters
    ----------
    z, y : arrays, shapes (n, dim) and (n,)
        Features and labels of the source's training images.
    z_target : array, shape (m, dim)
        Features of the target's images.
    C, select, seed, device
        As in :func:`source_label_entropy`.

    Returns
    -------
    LabelEntropy
        ``value`` in nats; LOWER is better: the paper ranks encoders by its negative. ``accuracy`` is None.

    Raises
    ------
    DataError, QueryError
        As :func:`source_label_entropy`.

    References
    ----------
    Vedantam et al. 2021; CLID, arXiv:2206.01251, section 3.5 ("Target Ent").

    Examples
    --------
    >>> import numpy as np
    >>> z = np.array([[-2.0], [-1.0], [1.0], [2.0]])
    >>> near, far = (target_label_entropy(z, [0, 0, 1, 1], [[x]], C=1.0).value for x in (0.0, 99.0))
    >>> round(near, 3), far < 0.001
    (0.693, True)
    """
    name = "target label entropy"
    train = labelled_of(z, y, least=_LEAST, needed_for=name)
    rows = features_of(z_target, "z_target", needed_for=name)
    width_checked(rows, train.z.shape[1], "z_target", name)
    return _entropy_of(train.z, train.y, rows, None, _probe(C, select, seed, device))


def _probe(c: float | None, select: str, seed: int, device: str | None) -> LogisticProbe:
    return LogisticProbe(C=c, select=select, seed=seed, device=device, precision="float32")  # on every machine


def _entropy_of(z: Array, y: Array, z_val: Array, y_val: Array | None, probe: LogisticProbe) -> LabelEntropy:
    largest, largest_val = (max(float(one.max()), -float(one.min())) for one in (z, z_val))
    if not (1 / _LARGEST < largest < _LARGEST and largest_val < _LARGEST * min(1.0, largest)):
        raise DataError(
            f"Features are as large as {largest:.0e} in training and {largest_val:.0e} in the images that entropy was "
            "asked of, too far from 1 or from each other for a classifier: scale the features of all images by the "
            "same number."
        )
    probe.fit(z, y)
    probabilities = probe.predict_proba(z_val)  # (m, n_classes)
    entropies = entr(probabilities).sum(axis=1)
    report = probe.report_
    error_percent = report["validation_error_percent"]
    return LabelEntropy(
        value=abs(float(entropies.mean())),  # 0, where certainty gives -0
        standard_error=float(entropies.std(ddof=1)) / len(entropies) ** 0.5 if len(entropies) > 1 else None,
        C=float(report["C"]),
        converged=bool(report["converged"]),
        n_train=len(z),
        n_val=len(z_val),
        n_classes=probabilities.shape[1],
        accuracy=None if y_val is None else 100 * float((probabilities.argmax(axis=1) == y_val).mean()),
        held_out_accuracy=None if error_percent is None else 100 - float(error_percent),
    )
