"""Metrics from labels or known classes: label entropy, one-shot accuracy, rotation prediction, neural collapse."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from ...errors import DataError, QueryError
from ...optional import require_extra
from ..arrays import Array, check_labels, check_width, list_classes, number_labels
from ..eigen import compute_svd
from ..nearest_neighbours import scale_to_range
from .arrays import check_feature_rows, check_views, require_choice, require_number, require_rows, require_varied
from .scatter import NOISE_UNITS, get_unit_roundoff, group_views

with require_extra("evaluate", needed_for="A metric of labelled features"):
    import numpy as np
    import torch
    from scipy.special import entr

CLASSIFIERS = ("nearest", "logistic")
DEFINITIONS = ("papyan", "dubois")
_LEAST_IMAGES = 4  # to learn from
_LARGEST = 1e30  # products of features with weights stay within float32
_ONE_SHOT, _ROTATION, _COLLAPSE = "one-shot accuracy", "rotation prediction", "neural collapse"


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class LabelledFeatures:
    """Features (n, dim), and the number of each row's class among ``classes`` (ascending), int64 (n,)."""

    z: Array
    y: Array
    classes: Array


def check_labelled_features(z: Any, y: Any, *, least: int, needed_for: str) -> LabelledFeatures:
    """Training data of a classifier; refuses fewer than ``least`` rows, equal rows, and a single class."""
    rows = check_feature_rows(z, "z", least=least, needed_for=needed_for)
    require_varied(rows, "z", needed_for=needed_for)
    labels = check_labels(y.detach().cpu() if hasattr(y, "detach") else y, len(rows), "y")
    classes = list_classes(labels)
    return LabelledFeatures(z=rows, y=number_labels(labels, classes), classes=classes)


def _validation_of(train: LabelledFeatures, z_val: Any, y_val: Any, *, needed_for: str) -> LabelledFeatures:
    """Validation data of the same width as training; refuses classes without a training image."""
    rows = check_feature_rows(z_val, "z_val", needed_for=needed_for)
    check_width(rows, train.z.shape[1], "z_val", needed_for)
    labels = check_labels(y_val.detach().cpu() if hasattr(y_val, "detach") else y_val, len(rows), "y_val")
    if (labels.dtype.kind in "US") != (train.classes.dtype.kind in "US"):
        raise DataError(f"y_val holds {labels.dtype} and y {train.classes.dtype}, expected labels of one kind in both.")
    numbers = number_labels(labels, train.classes)
    missing = np.unique(labels[numbers < 0])
    if len(missing):
        raise DataError(
            f"{len(missing)} class{'es' * (len(missing) > 1)} of y_val ({missing[0].item()!r} first) "
            f"{'have' if len(missing) > 1 else 'has'} no image in y, but {needed_for} needs training images of every "
            "class: add some, or leave the class out of the validation images."
        )
    return LabelledFeatures(z=rows, y=numbers, classes=train.classes)


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelEntropy:
    """Mean entropy of a classifier's predictions, and that classifier."""

    value: float  # nats, between 0 and log n_classes
    standard_error: float | None  # over the n_val images; None for one
    C: float  # inverse regularisation
    converged: bool
    n_train: int
    n_val: int
    n_classes: int
    accuracy: float | None  # percent, on the validation images; None where their labels are unknown
    held_out_accuracy: float | None  # percent, on the training images that C was chosen on; None where C was given


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

    The classifier is a multinomial logistic regression (:class:`zoo.evaluation.logistic.LogisticProbe`). Its
    regularisation is chosen on a stratified fifth of the training images; validation images choose nothing.

    Raises DataError if features are not finite, are all the same or have different widths; if there are fewer than 4
    training images; if labels do not match the rows, or there is one class only; or if a class of y_val has no training
    image; QueryError if an option is out of its range.

    Source: Vedantam et al. 2021; CLID, arXiv:2206.01251, section 3.5 ("Source Ent").

    >>> import numpy as np
    >>> z = np.array([[-2.0], [-1.0], [1.0], [2.0]])
    >>> found = source_label_entropy(z, [0, 0, 1, 1], [[0.0], [3.0]], [0, 1], C=1.0)
    >>> bool(0 < found.value < np.log(2)), found.n_classes
    (True, 2)

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
        What the choice of C minimises: log loss by default, for entropies need calibrated probabilities.
    seed, device
        Of the images on which C is chosen, and of torch (None: a GPU if there is one).

    Returns
    -------
    LabelEntropy
        ``value`` is in nats; LOWER is better: the paper ranks encoders by its negative.
    """
    name = "source label entropy"
    train = check_labelled_features(z, y, least=_LEAST_IMAGES, needed_for=name)
    validation = _validation_of(train, z_val, y_val, needed_for=name)
    return _entropy_of(train, validation.z, validation.y, C=C, select=select, seed=seed, device=device)


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
    """H(Y|X) of a linear classifier's predictions for images of another data set, whose labels are not used.

    ``z``, of shape (n, dim), and ``y`` (n,) are the source's training images, ``z_target`` (m, dim) the target's, whose
    classes may be others. Classifier, options, unit, direction and errors are those of :func:`source_label_entropy`:
    LOWER is better; ``accuracy`` is None.

    Source: Vedantam et al. 2021; CLID, arXiv:2206.01251, section 3.5 ("Target Ent").

    >>> import numpy as np
    >>> z = np.array([[-2.0], [-1.0], [1.0], [2.0]])
    >>> near, far = (target_label_entropy(z, [0, 0, 1, 1], [[x]], C=1.0).value for x in (0.0, 99.0))
    >>> round(near, 3), far < 0.001
    (0.693, True)
    """
    name = "target label entropy"
    train = check_labelled_features(z, y, least=_LEAST_IMAGES, needed_for=name)
    rows = check_feature_rows(z_target, "z_target", needed_for=name)
    check_width(rows, train.z.shape[1], "z_target", name)
    return _entropy_of(train, rows, None, C=C, select=select, seed=seed, device=device)


def _entropy_of(train: LabelledFeatures, z_val: Array, y_val: Array | None, **options: Any) -> LabelEntropy:
    from ..logistic import LogisticProbe  # scikit-learn

    z = train.z
    largest, largest_val = (float(np.abs(one).max()) for one in (z, z_val))
    if not (1 / _LARGEST < largest < _LARGEST and largest_val < _LARGEST * min(1.0, largest)):
        raise DataError(
            f"Features are as large as {largest:.0e} in training and {largest_val:.0e} in the images to classify, too "
            "far from 1 or from each other for a classifier: scale the features of all images by the same number."
        )
    # float32, so that every processor gives the same value
    probe = LogisticProbe(precision="float32", **options).fit(z, train.y)
    probabilities = probe.predict_proba(z_val)  # (m, n_classes)
    entropies = entr(probabilities).sum(axis=1)
    report = probe.report_
    error_percent = report["validation_error_percent"]
    return LabelEntropy(
        value=abs(float(entropies.mean())),  # 0 in place of -0
        standard_error=float(entropies.std(ddof=1)) / len(entropies) ** 0.5 if len(entropies) > 1 else None,
        C=float(report["C"]),
        converged=bool(report["converged"]),
        n_train=len(z),
        n_val=len(z_val),
        n_classes=probabilities.shape[1],
        accuracy=None if y_val is None else 100 * float((probabilities.argmax(axis=1) == y_val).mean()),
        held_out_accuracy=None if error_percent is None else 100 - float(error_percent),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class OneShotAccuracy:
    """Mean accuracy over draws of the labelled images; chance is 100 / ``n_classes``."""

    value: float  # percent
    standard_error: float | None  # percentage points, of the mean over draws; None for one draw
    draws: tuple[float, ...]  # accuracy of each draw, all on the same validation images
    classifier: str
    n_classes: int
    n_train: int  # images to draw from
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
    """Accuracy on validation images of a classifier from one image per class, drawn at random; mean over draws.

    Raises DataError if features are not finite, are all the same or have different widths; if labels do not match the
    rows, or there is one class only; or if a class of y_val has no image in y; QueryError if an option is out of its
    range.

    Source: CLID, arXiv:2206.01251, Table 5, footnote a.

    >>> z, y = np.array([[1.0, 0.0], [3.0, 1.0], [0.0, 1.0]]), ["cat", "cat", "dog"]
    >>> found = one_shot_accuracy(z, y, [[2.0, 1.0], [1.0, 9.0]], ["cat", "dog"])
    >>> found.value, len(found.draws)
    (100.0, 10)

    Parameters
    ----------
    z, y : arrays, shapes (n, dim) and (n,)
        Features and labels of the images from which one per class is drawn.
    z_val, y_val : arrays, shapes (m, dim) and (m,)
        Validation images of these classes.
    n_draws : int
        Draws of the labelled images, at least 1.
    classifier : {"nearest", "logistic"}
        The paper does not say which. "nearest": the class of the drawn image that is nearest by cosine similarity; of
        equally near ones the lower class. "logistic": multinomial logistic regression on features of length 1.
    C : float
        Inverse regularisation of "logistic", as scikit-learn defines it; one image per class leaves none to choose it
        on.
    seed, device
        Of the draws, and of torch (None: a GPU if there is one).

    Returns
    -------
    OneShotAccuracy
        ``value`` is in percent; higher is better.
    """
    from ..logistic import LogisticProbe  # scikit-learn
    from ..neighbours import NeighbourProbe

    require_choice(classifier, "classifier", CLASSIFIERS)
    require_number(n_draws, "n_draws", least=1, whole=True)
    train = check_labelled_features(z, y, least=2, needed_for=_ONE_SHOT)
    validation = _validation_of(train, z_val, y_val, needed_for=_ONE_SHOT)
    rows, rows_val = scale_to_range(train.z), scale_to_range(validation.z)
    probe: NeighbourProbe | LogisticProbe = NeighbourProbe(k=1, device=device)
    if classifier == "logistic":
        rows, rows_val = _unit(rows), _unit(rows_val)
        probe = LogisticProbe(C=C, device=device, seed=seed, precision="float32")
    generator = np.random.default_rng(seed)
    accuracies = []
    for _ in range(n_draws):
        # of each class the first row in a random order, so that renamed classes draw the same
        order = generator.permutation(len(train.y))
        drawn = order[np.unique(train.y[order], return_index=True)[1]]
        predicted = probe.fit(rows[drawn], np.arange(len(drawn))).predict(rows_val)
        accuracies.append(100 * float((predicted == validation.y).mean()))
    return OneShotAccuracy(
        value=float(np.mean(accuracies)),
        standard_error=float(np.std(accuracies, ddof=1)) / n_draws**0.5 if n_draws > 1 else None,
        draws=tuple(accuracies),
        classifier=classifier,
        n_classes=len(train.classes),
        n_train=len(train.z),
        n_val=len(validation.z),
    )


def _unit(rows: Array) -> Array:
    """Rows of length 1, or 0, float32."""
    wide = rows.astype(np.float64)
    lengths = np.linalg.norm(wide, axis=1, keepdims=True)
    unit: Array = (wide / np.where(lengths > 0, lengths, 1)).astype(np.float32)
    return unit


@dataclass(frozen=True, slots=True, kw_only=True)
class RotationAccuracy:
    """Accuracy over all turned validation images in percent (chance is 25), and what it rests on."""

    value: float
    standard_error: float | None  # percentage points; the four turns of an image are one observation
    per_rotation: tuple[float, ...]  # for 0, 90, 180 and 270 degrees
    k: int  # smaller than asked for where there are fewer training rows
    temperature: float
    n_train: int  # images, not turned ones
    n_val: int
    n_shared: int  # validation images that have, unturned, exactly the features of a training image


def rotation_accuracy(
    z: Any,
    z_val: Any,
    *,
    k: int = 20,
    temperature: float = 0.07,
    one_each: bool = False,
    seed: int = 0,
    device: str | None = None,
) -> RotationAccuracy:
    """Accuracy of nearest neighbours in predicting the rotation of images by 0, 90, 180 or 270 degrees.

    Neighbours by cosine similarity among the turned training images vote with the weight exp(similarity / temperature);
    of equal votes the smaller turn wins, so that features which do not change with the turn give 25 percent.

    Raises DataError if a shape is not (n_images, 4, dim) or widths differ; if there are fewer than 4 training or 2
    validation images; if features are not finite or all the same; or if all validation images are among the training
    images; QueryError if an option is out of its range.

    Source: CLID, arXiv:2206.01251, section 3.2, after Reed et al. 2021.

    >>> turns = np.eye(4)[None] + np.zeros((6, 1, 1))  # each turn has its direction
    >>> found = rotation_accuracy(turns, turns[:3] + [0.25, 0.0, 0.0, 0.0], k=3)
    >>> found.value, found.n_train
    (100.0, 6)

    Parameters
    ----------
    z : array, shape (n_images, 4, dim)
        Features of training images, each turned by 0, 90, 180 and 270 degrees, in that order.
    z_val : array, shape (n_images, 4, dim)
        The same of other images. No image may be in both, for it would then find itself.
    k : int
        Neighbours that vote. The paper does not say how many.
    temperature : float
        Of the weights of the votes.
    one_each : bool
        Train on one turn of each image, drawn by ``seed``, instead of all four.
    seed, device
        Of the turns that ``one_each`` draws, and of torch (None: a GPU if there is one).

    Returns
    -------
    RotationAccuracy
        ``value`` is in percent; higher is better.
    """
    from ..neighbours import NeighbourProbe

    rows, n_train = _turned(z, "z")
    rows_val, n_val = _turned(z_val, "z_val")
    check_width(rows_val, rows.shape[1], "z_val", _ROTATION)
    require_rows(n_train, _LEAST_IMAGES, "z", needed_for=_ROTATION)
    require_varied(rows, "z", needed_for=_ROTATION)
    known = {row.tobytes() for row in rows[::4].astype(np.float64)}
    n_shared = sum(row.tobytes() in known for row in rows_val[::4].astype(np.float64))
    if n_shared == n_val:
        raise DataError(
            f"All {n_val} images of z_val are also in z, but {_ROTATION} is tested on images that were not in "
            "training: split the images first, with all four turns of an image on one side."
        )
    turns = np.tile(np.arange(4), n_train)
    if one_each:
        drawn = 4 * np.arange(n_train) + np.random.default_rng(seed).integers(4, size=n_train)
        rows, turns = rows[drawn], turns[drawn]
        if len(np.unique(turns)) < 4:
            raise DataError(
                f"One turn of each of {n_train} images, drawn with the seed {seed}, does not give all four turns: give "
                "it more images, or leave out one_each."
            )
    probe = NeighbourProbe(k=k, temperature=temperature, device=device).fit(scale_to_range(rows), turns)
    correct = 100.0 * (probe.predict(scale_to_range(rows_val)) == np.tile(np.arange(4), n_val)).reshape(n_val, 4)
    return RotationAccuracy(
        value=float(correct.mean()),
        standard_error=float(correct.mean(axis=1).std(ddof=1)) / n_val**0.5,
        per_rotation=tuple(correct.mean(axis=0).tolist()),
        k=int(probe.k_),
        temperature=float(temperature),
        n_train=n_train,
        n_val=n_val,
        n_shared=n_shared,
    )


def _turned(z: Any, name: str) -> tuple[Array, int]:
    """Features of turned images as rows (4 n_images, dim), the four turns of an image in succession."""
    shape = tuple(getattr(z, "shape", ())) or np.shape(z)
    if len(shape) != 3 or shape[1] != 4:
        raise DataError(
            f"{name} has the shape {shape}, expected (n_images, 4, dim): the features of each image turned by 0, 90, "
            "180 and 270 degrees, in that order."
        )
    return check_views(z, name=name, needed_for=_ROTATION)[0], int(shape[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class NeuralCollapse:
    """Variability within classes relative to that between them."""

    value: float  # NC1, dimensionless; 0 is full collapse
    definition: str
    n_classes: int  # images, or labels
    n_members: tuple[int, int]  # rows of the class with the fewest, and with the most
    rank_between: int  # directions in which the means differ and which therefore count
    variance_within: float  # traces of the two population covariances, in squared units of the features
    variance_between: float


def neural_collapse(
    z: Any, ids: Any = None, *, y: Any = None, definition: Literal["papyan", "dubois"] = "papyan"
) -> NeuralCollapse:
    """NC1: trace of the covariance within classes times the pseudo-inverse of that between them.

    Raises DataError if there is one class, or one with one member; on NaN or infinity; if ids or labels do not match
    the rows; if all rows or all means are equal, or no direction counts; QueryError if both ids and y are given, or an
    unknown definition.

    Source: Papyan, Han and Donoho 2020, Prevalence of neural collapse during the terminal phase of deep learning
    training, NC1; Dubois et al. 2023, arXiv:2302.03068.

    >>> views = np.array([[[1.0, 1.0], [1.0, -1.0]], [[-1.0, 1.0], [-1.0, -1.0]]])
    >>> neural_collapse(views).value, neural_collapse(views + np.array([[[1.0, 0.0], [-1.0, 0.0]]])).value
    (0.0, 0.5)

    Parameters
    ----------
    z : float array, shape (n_images, n_views, dim), or (n_rows, dim) with ``ids`` or ``y``
        Features, neither centred nor scaled.
    ids : n_rows numbers or names, optional
        Which image each row is a view of: images are the classes.
    y : n_rows labels, optional
        Labels are the classes, in place of images.
    definition : {"papyan", "dubois"}
        "papyan": tr(Sigma_W pinv(Sigma_B)) / n_classes with population covariances, Sigma_B that of the means of
        classes around their own mean (that of all rows in the paper, whose classes are of one size); directions in
        which the means differ by rounding only do not count. "dubois", as in the published statistics of 169 encoders:
        not divided by the number of classes, with unbiased covariances, Sigma_W the mean over classes, and only
        eigenvalues of Sigma_B above 1 % of the largest and above 1e-4, so that it depends on the scale of the features.
        Their ``nc1norm`` is this over the root of the rank of the correlation matrix.

    Returns
    -------
    NeuralCollapse
        ``value`` is dimensionless, 0 or above; neither higher nor lower is better by itself: lower means that features
        vary less within classes.
    """
    require_choice(definition, "definition", DEFINITIONS)
    if y is not None and ids is not None:
        raise QueryError("Got both ids and y, expected one of them: classes are images or labels.")
    rows, numbers = _classes(z, y) if y is not None else check_views(z, ids, needed_for=_COLLAPSE)
    require_varied(rows, "z", needed_for=_COLLAPSE)
    views = group_views(rows, numbers)
    counts, n_classes, means = views.counts, len(views.counts), views.centred_means()
    spread = torch.zeros(rows.shape[1], dtype=torch.float64)
    for piece in views.deviations():
        spread += piece.square().sum(dim=0)
    noise = NOISE_UNITS * get_unit_roundoff(rows) * views.sizes(spread)
    if not bool((means.square().mean(dim=0) > noise.square()).any()):
        raise DataError(
            f"The means of all {n_classes} classes are the same, so that neural collapse is not defined: expected "
            "classes or images that differ in the representation."
        )
    if definition == "papyan":
        _, lengths, directions = compute_svd(means / n_classes**0.5)
        counted = lengths > (directions.square() @ noise.square()).sqrt()
        weights = torch.full_like(counts, 1 / len(rows) / n_classes)
    else:
        _, lengths, directions = compute_svd(means / (n_classes - 1) ** 0.5)
        counted = lengths.square() > max(0.01 * float(lengths[0]) ** 2, 1e-4)
        weights = 1 / ((counts - 1) * n_classes)  # the mean over classes of unbiased covariances
    if not bool(counted.any()):
        raise DataError(
            "No direction has a variance of the means that counts, so that neural collapse is not defined: expected "
            "classes that differ more, or take 'papyan', which does not depend on the scale of the features."
        )
    axes = (directions[counted] / lengths[counted][:, None]).T  # (dim, rank)
    total, at = 0.0, 0
    for piece in views.deviations():
        total += float((piece @ axes).square().sum(dim=1) @ weights[views.ids[at : at + len(piece)]])
        at += len(piece)
    return NeuralCollapse(
        value=total,
        definition=definition,
        n_classes=n_classes,
        n_members=(int(counts.min()), int(counts.max())),
        rank_between=int(counted.sum()),
        variance_within=float(spread.sum() / len(rows)),
        variance_between=float(means.square().sum() / n_classes),
    )


def _classes(z: Any, y: Any) -> tuple[Array, Array]:
    """Rows, and the number of the class of each."""
    shape = tuple(getattr(z, "shape", np.shape(z)))
    n = int(np.prod(shape[:-1])) if len(shape) > 1 else 0
    if len(shape) == 3 and len(np.shape(y)) == 1 and len(y) == shape[0]:
        y = np.repeat(np.asarray(y), shape[1])  # views of an image are of its class
    labels = np.unique(check_labels(y, n, "y"), return_inverse=True)[1]
    counts = np.bincount(labels)
    if len(counts) < 2 or counts.min() < 2:
        raise DataError(
            f"y has {len(counts)} class{'es' * (len(counts) != 1)}, the smallest with {int(counts.min())} of the {n} "
            "rows, but neural collapse needs at least 2 classes of at least 2 rows."
        )
    flat = (z if hasattr(z, "reshape") else np.asarray(z)).reshape(n, shape[-1]) if len(shape) == 3 else z
    return check_views(flat, labels, needed_for=_COLLAPSE)
