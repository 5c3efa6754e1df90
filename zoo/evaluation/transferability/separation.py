"""How far classes lie apart in the features: shrunk H-score, Gaussian Bhattacharyya coefficient, TransRate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...errors import DataError
from ...optional import requires_extra
from ..arrays import Array
from ..eigen import log_det_of_one_plus
from ..label_free.arrays import require_choice, require_number
from .components import centred_of, components_of

with requires_extra("evaluate", needed_for="A score of labelled features"):
    import numpy as np
    import torch

COVARIANCES = ("spherical", "diagonal")
_LEAST = 3  # images
_HALVES = 1 << 23  # numbers of pairs of classes at a time


@dataclass(frozen=True, slots=True, kw_only=True)
class HScore:
    """The shrunk H-score, and how much it was shrunk."""

    value: float  # dimensionless
    shrinkage: float  # from 0 to 1, the weight of the multiple of the identity
    n: int
    n_classes: int


def h_score(z: Any, y: Any, *, shrinkage: float | None = None) -> HScore:
    """Shrunk H-score: the share of the variance of the features between classes, summed over whitened directions.

    tr(C^-1 (1 - a) B), where B is the covariance of the class means, each with the share of its class, and
    C = (1 - a) S + a tr(S) / dim the covariance of the features shrunk by Ledoit and Wolf's estimate of a, which keeps
    it invertible for fewer images than dimensions. Without shrinkage the score of any labels reaches the number of
    classes less one there.

    Rotation, scaling and shifts of the features change nothing, nor do other names of the classes.

    Parameters
    ----------
    z : float array, shape (n, dim)
    y : array, shape (n,)
        Labels of two classes or more.
    shrinkage : float, optional
        The weight a, above 0 and up to 1, instead of the estimate.

    Returns
    -------
    HScore
        ``value`` is dimensionless, from 0 to min(n_classes - 1, dim); higher is better.

    Raises
    ------
    DataError
        If there are fewer than 3 images or one class only, all rows are equal, a number is not finite, or labels do
        not match the rows.
    QueryError
        If the shrinkage is out of its range.

    References
    ----------
    Ibrahim et al. 2021, "Newer is not always better", arXiv:2110.06893, Eq. 4; Bao et al. 2019, the H-score; Ledoit and
    Wolf 2004, "A well-conditioned estimator for large-dimensional covariance matrices".

    Examples
    --------
    >>> y = np.array([0, 0, 1, 1])
    >>> found = h_score([[0.0], [0.0], [1.0], [1.0]], y)
    >>> found.value, found.n_classes
    (1.0, 2)
    """
    if shrinkage is not None:
        require_number(shrinkage, "shrinkage", above=0, most=1)
    data = centred_of(z, y, least=_LEAST, needed_for="the H-score")
    components = components_of(data.z)
    n, dim = data.z.shape
    variances = components.squares / n
    if shrinkage is None:
        shrinkage = _ledoit_wolf(data.z, variances)
    counts = np.bincount(data.y)
    means = (data.targets.T @ components.scores) / counts[:, None]  # (n_classes, r), along principal components
    between = (counts / n) @ means**2  # (r,)
    floor = shrinkage * float(variances.sum()) / dim
    within_reach = (1 - shrinkage) * variances + floor
    kept = components.is_positive
    value = (1 - shrinkage) * float((between[kept] / within_reach[kept]).sum())
    return HScore(value=value, shrinkage=float(shrinkage), n=n, n_classes=len(counts))


def _ledoit_wolf(centred: Array, variances: Array) -> float:
    """Ledoit and Wolf's shrinkage of the covariance of centred rows, whose eigenvalues other than 0 are given."""
    n, dim = centred.shape
    mean = float(variances.sum()) / dim
    distance = float((variances**2).sum()) - dim * mean**2  # of the covariance from a multiple of the identity
    fourth = float((np.einsum("nd,nd->n", centred, centred) ** 2).sum()) / n
    noise = (fourth - float((variances**2).sum())) / n  # of the covariance itself
    return min(noise, distance) / distance if noise > 0 and distance > 0 else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Bhattacharyya:
    """The Gaussian Bhattacharyya coefficient, and what it was made of."""

    value: float  # dimensionless, at most 0
    n_components: int
    covariance: str
    n: int
    n_classes: int


def gbc(z: Any, y: Any, *, n_components: int = 64, covariance: str = "spherical", floor: float = 1e-4) -> Bhattacharyya:
    """Gaussian Bhattacharyya coefficient: by how much the classes overlap, each as a Gaussian.

    Minus the sum over ordered pairs of classes of exp(-D), with Bhattacharyya's distance D of two Gaussians, on the
    first principal components. It grows with the square of the number of classes in size: compare encoders on the same
    data only. The code of its authors counts the logarithm of a spherical covariance once, and not for each component,
    as its determinant does.

    Rotation, scaling and shifts of the features change nothing, nor do other names of the classes.

    Parameters
    ----------
    z : float array, shape (n, dim)
    y : array, shape (n,)
        Labels of two classes or more, of each at least two images.
    n_components : int
        Principal components, or as many as there are; 64 in the paper.
    covariance : {"spherical", "diagonal"}
        One variance a class, or one for each component.
    floor : float
        Least variance, relative to the mean variance of the components. The code of the authors has 1e-4 in units of
        the features, which makes the value depend on their scale.

    Returns
    -------
    Bhattacharyya
        ``value`` is dimensionless, from -n_classes (n_classes - 1), where no two classes differ, to 0, where none
        overlap; higher is better.

    Raises
    ------
    DataError
        If there are fewer than 3 images or one class only, a class has one image only, all rows are equal, a number is
        not finite, or labels do not match the rows.
    QueryError
        If an option is out of its range.

    References
    ----------
    Pandy et al. 2022, "Transferability estimation using Bhattacharyya class separability", arXiv:2111.12780, Eq. 3-5.

    Examples
    --------
    >>> round(gbc([[-1.0], [1.0], [-1.0], [1.0]], [0, 0, 1, 1]).value, 6)  # no two classes differ
    -2.0
    """
    require_number(n_components, "n_components", least=1, whole=True)
    require_choice(covariance, "covariance", COVARIANCES)
    require_number(floor, "floor", above=0)
    data = centred_of(z, y, least=_LEAST, needed_for="GBC")
    counts = np.bincount(data.y)
    if counts.min() < 2:
        lone = data.classes[counts < 2]
        raise DataError(
            f"{len(lone)} class{'es have' if len(lone) > 1 else ' has'} one image only ({lone[0].item()!r} first), but "
            "GBC needs at least 2 of each for a variance: give more images of them, or leave the class out."
        )
    components = components_of(data.z)
    kept = min(n_components, int(components.is_positive.sum()))
    scores = components.scores[:, :kept]
    shares = data.targets.T / counts[:, None]  # (n_classes, n)
    means = shares @ scores
    variances = np.stack(
        [scores[data.y == number].var(axis=0) for number in range(len(counts))]
    )  # (n_classes, kept), without the cancellation of squares
    least = floor * float(scores.var(axis=0).mean())
    if covariance == "spherical":
        variances = np.repeat(np.maximum(variances, least).mean(axis=1, keepdims=True), kept, axis=1)
    variances = np.maximum(variances, least)
    total, logs = 0.0, np.log(variances)
    step = max(1, _HALVES // means.size)
    for first in range(0, len(means), step):
        part = slice(first, first + step)
        both = (variances[part, None] + variances) / 2
        distances = ((means[part, None] - means) ** 2 / both).sum(axis=2) / 8
        distances += (np.log(both) - (logs[part, None] + logs) / 2).sum(axis=2) / 2
        total += float(np.exp(-distances).sum())
    return Bhattacharyya(
        value=-(total - len(means)),  # without the pairs of a class with itself, at the distance 0
        n_components=kept,
        covariance=covariance,
        n=len(data.y),
        n_classes=len(counts),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TransRate:
    """The rate that the classes save, and the two rates."""

    value: float  # nats
    rate: float  # of all features
    rate_within: float  # mean over images of that of their class
    n: int
    n_classes: int


def transrate(z: Any, y: Any, *, eps: float = 1e-4, normalise: bool = True, class_means: bool = False) -> TransRate:
    """TransRate: the coding rate of the features less that within the classes, as mutual information with the labels.

    R = 1/2 logdet(1 + Z'Z / (n eps)) of features less their mean, and the same of the images of each class about the
    mean of all, averaged with the shares of the classes. The listing of its authors averages over classes alike, which
    is the same for classes of one size. So defined, it is blind to the distance of two classes of one size, whose means
    are opposite and thus span one direction in each; ``class_means=True`` takes the features of a class about its own
    mean, as an entropy within classes would.

    The value depends on the scale: features twice as large are as with a quarter of eps, and where eps is small each
    direction that all classes share counts for little, while one that a class lacks adds log(1/eps) / 2. ``normalise``
    therefore scales the features to a mean squared length of 1 about their mean. Wider features have larger values for
    any labels, the more so the fewer images there are, since a class with fewer images than dimensions lacks
    directions by that alone.

    Rotation and shifts change nothing, scaling neither if normalised, nor do other names of the classes.

    Parameters
    ----------
    z : float array, shape (n, dim)
    y : array, shape (n,)
        Labels of two classes or more.
    eps : float
        Squared distortion of the code; 1e-4 in the paper's listing.
    normalise : bool
        False takes the features as they are, as the listing does.
    class_means : bool

    Returns
    -------
    TransRate
        ``value`` in nats, at least 0 but for rounding; higher is better.

    Raises
    ------
    DataError
        If there are fewer than 3 images or one class only, all rows are equal, a number is not finite, or labels do
        not match the rows.
    QueryError
        If eps is not above 0.

    References
    ----------
    Huang et al. 2022, "Frustratingly easy transferability estimation", arXiv:2106.09362, Eq. 4-7 and Appendix A; coding
    rates: Ma et al. 2007.

    Examples
    --------
    >>> z = np.eye(3)[[0, 0, 1, 1, 2, 2]]
    >>> transrate(z, [0, 0, 1, 1, 2, 2]).value > transrate(z, [0, 1, 2, 0, 1, 2]).value
    True
    """
    require_number(eps, "eps", above=0)
    data = centred_of(z, y, least=_LEAST, needed_for="TransRate")
    n = len(data.y)
    components = components_of(data.z)
    scores = components.scores
    unit = float(components.squares.sum()) / n if normalise else 1.0
    rate = 0.5 * float(np.log1p(components.squares / (n * unit * eps)).sum())
    within = 0.0
    for number in range(len(data.classes)):
        rows = scores[data.y == number]
        if class_means:
            rows = rows - rows.mean(axis=0)
        within += len(rows) / n * _rate(rows, unit * eps)
    return TransRate(value=rate - within, rate=rate, rate_within=within, n=n, n_classes=len(data.classes))


def _rate(rows: Array, eps: float) -> float:
    """1/2 logdet(1 + Z'Z / (n eps)) by the smaller of Z'Z and ZZ', whose determinants are equal."""
    n, dim = rows.shape
    products = (rows.T @ rows if dim <= n else rows @ rows.T) / (n * eps)
    return 0.5 * log_det_of_one_plus(torch.from_numpy(products))
