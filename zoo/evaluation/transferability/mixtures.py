"""NLEEP: how well the components of a Gaussian mixture of the features tell the labels."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

from ...optional import requires_extra
from ..arrays import Array
from ..label_free.arrays import require_choice, require_number
from .components import centred_of, components_of

with requires_extra("evaluate", needed_for="NLEEP"):
    import numpy as np
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.mixture import GaussianMixture

COVARIANCES = ("diag", "full", "tied", "spherical")  # scikit-learn's names
_LEAST = 4  # images


@dataclass(frozen=True, slots=True, kw_only=True)
class NLeep:
    """NLEEP, and the mixture that it was read off."""

    value: float  # nats an image, at most 0
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

    Rotation, scaling and shifts of the features change nothing but by the start of the fit, nor do other names of the
    classes.

    Parameters
    ----------
    z : float array, shape (n, dim)
    y : array, shape (n,)
        Labels of two classes or more.
    per_class : int
        Gaussians a class, 5 in the paper; at most one for two images are fitted.
    energy : float
        Share of the variance that the principal components keep, above 0 and up to 1.
    covariance : {"diag", "full", "tied", "spherical"}
        Of each Gaussian, by scikit-learn's names. Full ones need more images than directions in each, which are seldom
        given, and else are made up by the regulariser.
    max_iter : int
        Steps of the fit at most.
    seed : int
        Of the start of the fit.

    Returns
    -------
    NLeep
        ``value`` in nats an image, at most 0; higher is better.

    Raises
    ------
    DataError
        If there are fewer than 4 images or one class only, all rows are equal, a number is not finite, or labels do
        not match the rows.
    QueryError
        If an option is out of its range.

    References
    ----------
    Li et al. 2021, "Ranking neural checkpoints", arXiv:2011.11200, section 4; Nguyen et al. 2020, LEEP,
    arXiv:2002.12462, Eq. 1-2. The mixture is scikit-learn's.

    Examples
    --------
    >>> y = np.repeat([0, 1], 20)
    >>> found = nleep(10 * y[:, None] + np.linspace(0, 1, 40)[:, None], y)
    >>> abs(found.value) < 1e-6
    True
    """
    require_number(per_class, "per_class", least=1, whole=True)
    require_number(energy, "energy", above=0, most=1)
    require_choice(covariance, "covariance", COVARIANCES)
    require_number(max_iter, "max_iter", least=1, whole=True)
    require_number(seed, "seed", least=0, whole=True)
    data = centred_of(z, y, least=_LEAST, needed_for="NLEEP")
    components = components_of(data.z)
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
    mixture = GaussianMixture(n_components, covariance_type=covariance, max_iter=max_iter, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the record says so
        memberships = mixture.fit(reduced).predict_proba(reduced)
    if not mixture.converged_:
        notes.append(f"The mixture had not converged after {max_iter} steps.")
    return NLeep(
        value=leep(memberships, data.y, n_classes),
        n_components=n_components,
        n_directions=kept,
        converged=bool(mixture.converged_),
        n=n,
        n_classes=n_classes,
        notes=tuple(notes),
    )


def leep(memberships: Array, y: Array, n_classes: int) -> float:
    """Mean log probability of the labels in nats, from the shares (n, m) of images in components.

    ``y`` has the numbers of classes, int64 (n,).
    """
    joint = np.zeros((n_classes, memberships.shape[1]))
    np.add.at(joint, y, memberships)
    totals = joint.sum(axis=0)
    given = np.divide(joint, totals, where=totals > 0, out=np.zeros_like(joint))
    expected = np.einsum("nm,nm->n", memberships, given[y])
    return float(np.log(expected).mean())
