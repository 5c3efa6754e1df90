"""Scores of labelled features: LogME, shrunk H-score, Gaussian Bhattacharyya coefficient, NLEEP, TransRate."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

from ...errors import DataError
from ...optional import require_extra
from ..arrays import Array
from ..eigen import compute_log_det_one_plus
from ..label_free.arrays import require_choice, require_number
from .components import centre_labelled, compute_components, convert_labelled

with require_extra("evaluate", needed_for="A score of labelled features"):
    import numpy as np
    import torch

_STEP = 0.125  # of the logarithm of t on the grid of LogME
_BELOW, _ABOVE = 1e-18, 1e9  # ends of the grid, relative to the largest squared singular value and to their sum
_HALVES = 1 << 23  # numbers of pairs of classes at a time


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEvidence:
    """The evidence, and how much of the features it uses."""

    value: float  # nats per image
    n: int
    n_classes: int
    effective_dimensions: float  # mean over the classes of the number of directions that the labels determine
    n_without_signal: int  # classes for which weights of 0 are best
    n_at_least_noise: int  # classes for which the least noise that is allowed is best


def logme(z: Any, y: Any, *, intercept: bool = False, least_noise: float = 1e-3) -> LogEvidence:
    """LogME: log evidence of the labels per image under a linear model on the features, at its best alpha and beta.

    The mean over the classes, each against the rest. With targets y (1 for one class and 0 for the others), weights
    drawn from N(0, 1/alpha) and noise from N(0, 1/beta), y is normal with covariance (1 + X X'/t) / beta, t = alpha /
    beta; the largest density over both is searched for globally, and bounded by ``least_noise`` alone.

    The code that its authors publish is another number where there are fewer images than dimensions: it leaves a term
    out of the determinant, so that values grow with the width of the features. ``intercept=True`` adds an intercept
    with a flat prior, so that shifts change nothing: the value is then the evidence of n - 1 contrasts of the targets,
    not comparable with that without.

    Raises DataError if there are fewer than 3 images or one class only, all rows are equal, a number is not finite, or
    labels do not match the rows; QueryError if ``least_noise`` is not above 0.

    Source: You et al. 2021, LogME, arXiv:2102.11005, section 4; its search for alpha and beta, arXiv:2110.10545; MacKay
    1992.

    >>> y = np.array([0, 0, 1, 1])
    >>> known = logme([[1.0, 0.1], [1.0, 0.0], [0.0, 1.0], [0.1, 1.0]], y)
    >>> unknown = logme([[1.0, 0.1], [0.0, 1.0], [1.0, 0.0], [0.1, 1.0]], y)
    >>> known.value > unknown.value
    True

    Parameters
    ----------
    z : float array, shape (n, dim)
    y : array, shape (n,)
        Labels of two classes or more.
    intercept : bool
    least_noise : float
        Smallest standard deviation of the noise that is allowed, where targets are 0 and 1. Without it the evidence
        has no bound where features give the labels exactly.

    Returns
    -------
    LogEvidence
        ``value`` in nats per image; higher is better. It may be positive, for it is a density. Compare encoders on the
        same images only.
    """
    require_number(least_noise, "least_noise", above=0)
    checked = convert_labelled(z, y, least=3, needed_for="LogME", centred=intercept)
    targets = checked.targets
    if intercept:
        targets = targets - targets.mean(axis=0)
    found = maximise_evidence(checked.z, targets, centred=intercept, least_noise=least_noise)
    return LogEvidence(
        value=float(found.values.mean()) / (len(targets) - intercept),
        n=len(targets),
        n_classes=len(checked.classes),
        effective_dimensions=float(found.effective_dimensions.mean()),
        n_without_signal=int(np.isinf(found.ratios).sum()),
        n_at_least_noise=int(found.at_least_noise.sum()),
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EvidenceMaxima:
    """The largest log evidence of each of m targets, and where it is."""

    values: Array  # nats, float64 (m,)
    ratios: Array  # alpha / beta in units of z squared, (m,); infinite where weights of 0 are best
    precisions: Array  # beta (m,)
    at_least_noise: Array  # bool (m,)
    effective_dimensions: Array  # (m,)


def maximise_evidence(z: Array, targets: Array, *, centred: bool = False, least_noise: float = 1e-3) -> EvidenceMaxima:
    """The largest evidence of float64 targets (n, m), given features (n, dim); of both the mean is 0 if ``centred``.

    In the left singular vectors of X, of which y has the energies e_j at singular values s_j,

        log p(y) = n/2 log(beta / 2 pi) - beta/2 Q - 1/2 sum_j log(1 + s_j^2 / t),    Q = sum_j e_j / (1 + s_j^2 / t).

    For a given t the best beta is n / Q, and what is left is a search over log t. Its second derivative is less than n
    in size, so that between two points of a grid that are a step h apart the value exceeds both by no more than
    n h^2 / 8: every peak of the grid that comes within that of the highest is climbed.
    """
    components = compute_components(z, centred=centred)
    energies, positive = components.energies(targets).T, components.is_positive  # (m, r)
    squares, energies = components.squares[positive], np.ascontiguousarray(energies[:, positive])
    n, most = len(z) - centred, least_noise**-2
    rest = np.maximum((targets**2).sum(axis=0) - energies.sum(axis=1), 0.0)
    if len(squares) == n:
        rest[:] = 0.0  # and not what rounding left

    def height(misfits: Any, determinants: Any) -> Any:
        with np.errstate(divide="ignore"):
            precisions = np.minimum(n / misfits, most)
        return n / 2 * np.log(precisions / (2 * math.pi)) - precisions * misfits / 2 - determinants / 2

    logs = np.arange(math.log(_BELOW * squares[0]), math.log(_ABOVE * squares.sum()), _STEP)
    of_grid = squares / np.exp(logs)[:, None]  # (points, r)
    heights = height((1 / (1 + of_grid)) @ energies.T + rest, np.log1p(of_grid).sum(axis=1)[:, None])  # (points, m)
    sides = np.pad(heights, ((1, 1), (0, 0)), constant_values=-np.inf)
    is_peak = (heights >= sides[:-2]) & (heights >= sides[2:]) & (heights >= heights.max(axis=0) - n * _STEP**2 / 8)
    values, ratios = height(energies.sum(axis=1) + rest, 0.0), np.full(len(rest), np.inf)  # without weights
    from scipy.optimize import minimize_scalar  # slow to import

    for point, target in zip(*np.nonzero(is_peak), strict=True):

        def depth(at: float, target: int = target) -> float:
            ratio = squares / math.exp(at)
            misfit = float((energies[target] / (1 + ratio)).sum()) + rest[target]
            return -float(height(misfit, np.log1p(ratio).sum()))

        ends = logs[point] - _STEP, logs[point] + _STEP
        found = minimize_scalar(depth, bounds=ends, method="bounded", options={"xatol": 1e-9})
        if -found.fun > values[target]:
            values[target], ratios[target] = -found.fun, math.exp(found.x)
    kept = 1 / (1 + squares / ratios[:, None])
    misfits = (energies * kept).sum(axis=1) + rest
    with np.errstate(divide="ignore"):
        precisions = np.minimum(n / misfits, most)
    return EvidenceMaxima(
        values=values,
        ratios=ratios,
        precisions=precisions,
        at_least_noise=n >= most * misfits,
        effective_dimensions=(1 - kept).sum(axis=1),
    )


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

    Raises DataError if there are fewer than 3 images or one class only, all rows are equal, a number is not finite, or
    labels do not match the rows; QueryError if the shrinkage is out of its range.

    Source: Ibrahim et al. 2021, "Newer is not always better", arXiv:2110.06893, Eq. 4; Bao et al. 2019, the H-score;
    Ledoit and Wolf 2004, "A well-conditioned estimator for large-dimensional covariance matrices".

    >>> y = np.array([0, 0, 1, 1])
    >>> found = h_score([[0.0], [0.0], [1.0], [1.0]], y)
    >>> found.value, found.n_classes
    (1.0, 2)

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
    """
    if shrinkage is not None:
        require_number(shrinkage, "shrinkage", above=0, most=1)
    data = centre_labelled(z, y, least=3, needed_for="the H-score")
    components = compute_components(data.z)
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
    first principal components. Compare encoders on the same data only. The code of its authors counts the logarithm of
    a spherical covariance once, and not for each component, as its determinant does.

    Raises DataError if there are fewer than 3 images or one class only, a class has one image only, all rows are equal,
    a number is not finite, or labels do not match the rows; QueryError if an option is out of its range.

    Source: Pandy et al. 2022, "Transferability estimation using Bhattacharyya class separability", arXiv:2111.12780,
    Eq. 3-5.

    >>> round(gbc([[-1.0], [1.0], [-1.0], [1.0]], [0, 0, 1, 1]).value, 6)  # no two classes differ
    -2.0

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
        Least variance, relative to the mean variance of the components.

    Returns
    -------
    Bhattacharyya
        ``value`` is dimensionless, from -n_classes (n_classes - 1), where no two classes differ, to 0, where none
        overlap; higher is better.
    """
    require_number(n_components, "n_components", least=1, whole=True)
    require_choice(covariance, "covariance", ("spherical", "diagonal"))
    require_number(floor, "floor", above=0)
    data = centre_labelled(z, y, least=3, needed_for="GBC")
    counts = np.bincount(data.y)
    if counts.min() < 2:
        lone = data.classes[counts < 2]
        raise DataError(
            f"{len(lone)} class{'es have' if len(lone) > 1 else ' has'} one image only ({lone[0].item()!r} first), but "
            "GBC needs at least 2 of each for a variance: give more images of them, or leave the class out."
        )
    components = compute_components(data.z)
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
    mean of all, averaged with the shares of the classes. So defined, it is blind to the distance of two classes of one
    size, whose means are opposite; ``class_means=True`` takes the features of a class about its own mean.

    The value depends on the scale: ``normalise`` therefore scales the features to a mean squared length of 1 about
    their mean. Wider features have larger values for any labels, the more so the fewer images there are.

    Raises DataError if there are fewer than 3 images or one class only, all rows are equal, a number is not finite, or
    labels do not match the rows; QueryError if eps is not above 0.

    Source: Huang et al. 2022, "Frustratingly easy transferability estimation", arXiv:2106.09362, Eq. 4-7 and Appendix
    A; coding rates: Ma et al. 2007.

    >>> z = np.eye(3)[[0, 0, 1, 1, 2, 2]]
    >>> transrate(z, [0, 0, 1, 1, 2, 2]).value > transrate(z, [0, 1, 2, 0, 1, 2]).value
    True

    Parameters
    ----------
    z : float array, shape (n, dim)
    y : array, shape (n,)
        Labels of two classes or more.
    eps : float
        Squared distortion of the code; 1e-4 in the paper's listing.
    normalise : bool
        False takes unscaled features, as the listing does.
    class_means : bool

    Returns
    -------
    TransRate
        ``value`` in nats, at least 0 but for rounding; higher is better.
    """
    require_number(eps, "eps", above=0)
    data = centre_labelled(z, y, least=3, needed_for="TransRate")
    n = len(data.y)
    components = compute_components(data.z)
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
    return 0.5 * compute_log_det_one_plus(torch.from_numpy(products))


@dataclass(frozen=True, slots=True, kw_only=True)
class NLeep:
    """NLEEP, and the mixture that it was read off."""

    value: float  # nats per image, at most 0
    n_components: int  # Gaussians
    n_directions: int  # principal components
    converged: bool
    n: int
    n_classes: int
    notes: tuple[str, ...] = ()


def nleep(
    z: Any,
    y: Any,
    *,
    per_class: int = 5,
    energy: float = 0.8,
    covariance: str = "diag",
    max_iter: int = 100,
    seed: int = 0,
) -> NLeep:
    """NLEEP: LEEP with the components of a Gaussian mixture in the place of a classifier's classes.

    On the first principal components, a mixture is fitted without the labels. The joint distribution of component and
    label gives the probability of a label for each component; the score is the mean over images of the log probability
    of their label, averaged over the components that they may belong to. It is read off the images that it was fitted
    to: with few images a component, it is optimistic for any features.

    Raises DataError if there are fewer than 4 images or one class only, all rows are equal, a number is not finite, or
    labels do not match the rows; QueryError if an option is out of its range.

    Source: Li et al. 2021, "Ranking neural checkpoints", arXiv:2011.11200, section 4; Nguyen et al. 2020, LEEP,
    arXiv:2002.12462, Eq. 1-2. The mixture is scikit-learn's.

    >>> y = np.repeat([0, 1], 20)
    >>> found = nleep(10 * y[:, None] + np.linspace(0, 1, 40)[:, None], y)
    >>> abs(found.value) < 1e-6
    True

    Parameters
    ----------
    z : float array, shape (n, dim)
    y : array, shape (n,)
        Labels of two classes or more.
    per_class : int
        Gaussians per class, 5 in the paper; at most one for two images are fitted.
    energy : float
        Share of the variance that the principal components keep, above 0 and up to 1.
    covariance : {"diag", "full", "tied", "spherical"}
        Of each Gaussian, by scikit-learn's names.
    max_iter : int
        Steps of the fit at most.
    seed : int
        Of the start of the fit.

    Returns
    -------
    NLeep
        ``value`` in nats per image, at most 0; higher is better.
    """
    require_number(per_class, "per_class", least=1, whole=True)
    require_number(energy, "energy", above=0, most=1)
    require_choice(covariance, "covariance", ("diag", "full", "tied", "spherical"))
    require_number(max_iter, "max_iter", least=1, whole=True)
    require_number(seed, "seed", least=0, whole=True)
    data = centre_labelled(z, y, least=4, needed_for="NLEEP")
    components = compute_components(data.z)
    n, n_classes = len(data.y), len(data.classes)
    shares = np.cumsum(components.squares) / components.squares.sum()
    kept = min(int(np.searchsorted(shares, energy - 1e-12)) + 1, int(components.is_positive.sum()))
    reduced = components.scores[:, :kept]
    reduced = reduced / np.sqrt((reduced**2).mean())  # so that the regulariser of scikit-learn means the same for all
    reduced *= np.where(np.abs(reduced).max(axis=0) == reduced.max(axis=0), 1.0, -1.0)  # one sign for every processor
    wanted = per_class * n_classes
    n_components = max(1, min(wanted, n // 2))
    notes = []
    if n_components < wanted:
        notes.append(f"{n_components:,} Gaussians were fitted and not {wanted:,}, for there are {n:,} images.")
    from sklearn.exceptions import ConvergenceWarning  # slow to import
    from sklearn.mixture import GaussianMixture

    mixture = GaussianMixture(n_components, covariance_type=covariance, max_iter=max_iter, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the record says so
        memberships = mixture.fit(reduced).predict_proba(reduced)
    if not mixture.converged_:
        notes.append(f"The mixture had not converged after {max_iter} steps.")
    return NLeep(
        value=compute_leep(memberships, data.y, n_classes),
        n_components=n_components,
        n_directions=kept,
        converged=bool(mixture.converged_),
        n=n,
        n_classes=n_classes,
        notes=tuple(notes),
    )


def compute_leep(memberships: Array, y: Array, n_classes: int) -> float:
    """Mean log probability of the labels in nats, from the shares (n, m) of images in components.

    ``y`` has the numbers of classes, int64 (n,).
    """
    joint = np.zeros((n_classes, memberships.shape[1]))
    np.add.at(joint, y, memberships)
    totals = joint.sum(axis=0)
    given = np.divide(joint, totals, where=totals > 0, out=np.zeros_like(joint))
    expected = np.einsum("nm,nm->n", memberships, given[y])
    return float(np.log(expected).mean())
