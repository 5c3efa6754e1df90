"""Metrics of features by name, the protocols of their numbers, and CLID, which compares a population of encoders.

:mod:`zoo.results.vocabulary` lists the metrics, of both kinds: label-free metrics and, from
:mod:`zoo.evaluation.transferability`, scores of labelled features.

The function of a metric returns a float, or a frozen dataclass with a field ``value``, whose other fields are details
(how many rows were left out, and the like); ``notes``, if it has them, are sentences for readers of the value. As with
probes (:mod:`zoo.evaluation.protocols`), a protocol never changes: another default, or another computation that moves a
value by more than rounding, is a new name.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b
from importlib import import_module
from types import MappingProxyType
from typing import Any

from ...errors import DataError, QueryError
from ...optional import require_extra
from ...results.vocabulary import FEATURE_METRICS, LABEL_FREE, TRANSFERABILITY, find_feature_metric
from ..arrays import Array, check_finite_numbers

with require_extra("evaluate", needed_for="A metric of features"):
    import numpy as np

PROTOCOL = "zoo-label-free-1"  # a row of results names the options that a user changed behind it
SCORES_PROTOCOL = "zoo-transferability-1"
PROTOCOLS: Mapping[str, str] = MappingProxyType({LABEL_FREE: PROTOCOL, TRANSFERABILITY: SCORES_PROTOCOL})
MEANINGS: Mapping[str, str] = MappingProxyType(
    {
        LABEL_FREE: "label-free metric of the features of images, of views by the augmentations of the encoder's "
        "training, or of turned images; with the options that follow unless its name says others",
        TRANSFERABILITY: "transferability score of the features of images and their labels; copies of an image and "
        "images of one group are left out together where single ones are left out; with the options that follow "
        "unless its name says others",
    }
)
SAMPLES: Mapping[str, Any] = MappingProxyType(
    {
        "n_images": 25_600,  # as in RankMe (arXiv:2210.02885, section 3.1)
        "n_and_q_up_to_1024_dimensions": [1_000, 50],  # LiDAR (arXiv:2312.04000, section 4.3) takes more images where
        "n_and_q_above": [5_000, 10],  # features are longer
        "n_pixels": 10_000,
    }
)
SAMPLES_OF: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {LABEL_FREE: SAMPLES, TRANSFERABILITY: MappingProxyType({"n_images": SAMPLES["n_images"]})}
)
OPTIONS: Mapping[str, Mapping[str, Any]] = {name: one.options for name, one in FEATURE_METRICS.items()}
"""Options of each metric by name; a test compares them with the defaults of its function."""
_N_PARAMETERS = 3  # of W-CLID: two weights and an intercept
_LEAST_RESIDUAL = 1e-9  # share of its variation that one predictor must have in addition to the other


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricValue:
    """The value of a metric, its details and notes."""

    value: float
    details: Mapping[str, Any]
    notes: tuple[str, ...] = ()


def find_metric_function(name: str) -> Callable[..., Any]:
    """The function of a metric."""
    one = find_feature_metric(name)
    module, _, function = one.function.rpartition(".")
    found: Callable[..., Any] = getattr(import_module(f"..{one.package}.{module}", __package__), function)
    return found


def compute(name: str, **arguments: Any) -> MetricValue:
    """The value of a metric of features by its name, a key of :data:`zoo.results.vocabulary.FEATURE_METRICS`.

    Further arguments are the arrays that it needs (:data:`zoo.results.vocabulary.NEEDS` names them) and options of its
    function, whose errors it raises; UnknownName if there is no such metric. ``value`` is in the unit of the metric.

    >>> import numpy as np
    >>> round(compute("rankme", z=np.eye(4)).value, 4)
    4.0
    """
    found = find_metric_function(name)(**arguments)
    details: dict[str, Any] = {"value": found} if isinstance(found, float) else asdict(found)
    return MetricValue(value=float(details.pop("value")), notes=details.pop("notes", ()), details=details)


def hash_metric(name: str) -> str:
    """Hash of everything that defines the numbers of a metric."""
    content = {"samples": dict(SAMPLES_OF[find_feature_metric(name).kind]), "options": dict(OPTIONS[name])}
    return blake2b(json.dumps(content, sort_keys=True).encode(), digest_size=16).hexdigest()


def format_protocol_row(kind: str = LABEL_FREE) -> str:
    """The line of the protocol of a kind of metrics in the table of ``results/README.md``."""
    chosen = [one for one in FEATURE_METRICS.values() if one.kind == kind]
    options = "; ".join(f"{one.name} {json.dumps(dict(one.options), sort_keys=True)}" for one in chosen)
    samples = "; ".join(f"{name} {json.dumps(value)}" for name, value in SAMPLES_OF[kind].items())
    return f"| `{PROTOCOLS[kind]}` | {MEANINGS[kind]} | {samples}; {options} |"


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightedClid:
    """W-CLID of a population, and the regression it comes from."""

    values: tuple[float, ...]  # predicted accuracies in the unit of ``accuracy``; higher is better
    weights: tuple[float, float]  # of standardised learnability and dimension, fitted on all encoders
    intercept: float
    n: int  # encoders
    leave_one_out: bool  # whether each value comes from a fit without that encoder


def clid(cluster_learnability: Sequence[float] | Array, intrinsic_dimension: Sequence[float] | Array) -> Array:
    """CLID: cluster learnability plus intrinsic dimension, both standardised to [0, 1] over the population.

    Both have the shape (n_encoders,), finite numbers in any unit. Returns float64 (n_encoders,) between 0 and 2,
    dimensionless; higher is better. A value is relative to this population and changes with it. Raises QueryError if
    there are fewer than two encoders, or all have the same learnability or the same dimension.

    Source: CLID, arXiv:2206.01251, section 2.2.

    >>> clid([0.25, 0.75, 0.5], [10, 20, 30]).tolist()
    [0.0, 1.5, 1.5]
    """
    return _pair(cluster_learnability, intrinsic_dimension).sum(axis=1)  # type: ignore[no-any-return]


def w_clid(
    cluster_learnability: Sequence[float] | Array,
    intrinsic_dimension: Sequence[float] | Array,
    accuracy: Sequence[float] | Array,
    *,
    leave_one_out: bool = False,
) -> WeightedClid:
    """W-CLID: the weighted sum of the standardised pair that fits the accuracies best (ordinary least squares).

    All have the shape (n_encoders,). ``leave_one_out`` takes each encoder's value from weights that were fitted without
    it; otherwise, as in the paper, every fit has seen its accuracy, which flatters a correlation with it. ``values``
    are in the unit of ``accuracy``; higher is better. Raises QueryError if there are fewer than 4 encoders (5 with
    ``leave_one_out``), or one of the three is the same for all, or learnability and dimension are linear functions of
    each other, in which case no weights are determined.

    Source: CLID, arXiv:2206.01251, section 2.2.

    >>> found = w_clid([0, 1, 0, 1], [0, 0, 1, 1], [50, 70, 60, 80])
    >>> [round(weight, 6) for weight in found.weights], round(found.intercept, 6)
    ([20.0, 10.0], 50.0)
    """
    pair = _pair(cluster_learnability, intrinsic_dimension)  # (n, 2)
    truth = _numbers(accuracy, "accuracy")
    n = len(pair)
    if len(truth) != n:
        raise DataError(f"accuracy has {len(truth)} values, expected one for each of the {n} encoders.")
    least = _N_PARAMETERS + 1 + leave_one_out
    if n < least:
        raise QueryError(
            f"W-CLID was asked for with {n} encoders, but fitting {_N_PARAMETERS} numbers"
            f"{', with one encoder left out,' if leave_one_out else ''} needs at least {least}."
        )
    if (truth == truth[0]).all():
        raise QueryError(
            f"All {n} encoders have the same accuracy ({truth[0]:g}), so that no weights can be learnt from it."
        )
    design = np.column_stack([pair, np.ones(n)])
    fit = _fitted(design, truth, without="")
    if leave_one_out:
        values = np.empty(n)
        for left_out in range(n):
            rest = np.arange(n) != left_out
            without = f" without encoder number {left_out}, counting from 0"
            values[left_out] = design[left_out] @ _fitted(design[rest], truth[rest], without=without)
    else:
        values = design @ fit
    return WeightedClid(
        values=tuple(values.tolist()),
        weights=(float(fit[0]), float(fit[1])),
        intercept=float(fit[2]),
        n=n,
        leave_one_out=leave_one_out,
    )


def compute_joint_rank(first: Sequence[float] | Array, second: Sequence[float] | Array) -> Array:
    """Joint rank of two predictors: the geometric mean of an encoder's ranks by one and by the other.

    Both are (n_encoders,) scores of which the higher is better; turn the sign of a loss, an error or an entropy. Rank 1
    is the best encoder's, and equal scores share the mean of their ranks. The result, from 1 to n_encoders, is better
    where it is LOWER; equal products of ranks give exactly equal numbers. CLID, arXiv:2206.01251, section 3.5 and Table
    3, does not say from which end ranks are counted, on which the product depends; rank 1 is taken to be the best.

    >>> compute_joint_rank([0.9, 0.5, 0.7], [10, 40, 20]).round(3).tolist()
    [1.732, 1.732, 2.0]
    """
    one, other = _numbers(first, "first"), _numbers(second, "second")
    if len(one) != len(other):
        raise DataError(f"first has {len(one)} scores and second has {len(other)}, expected both of the same encoders.")
    if len(one) < 2:
        raise QueryError(f"A joint rank was asked for with {len(one)} encoder, but ranks need at least 2.")
    from scipy.stats import rankdata  # slow to import

    return np.sqrt(rankdata(-one) * rankdata(-other))  # type: ignore[no-any-return]


def _pair(cluster_learnability: Any, intrinsic_dimension: Any) -> Array:
    """Both scaled to [0, 1], the least to 0 and the largest to 1, (n_encoders, 2)."""
    given = {"cluster learnability": cluster_learnability, "intrinsic dimension": intrinsic_dimension}
    both = [_numbers(values, name) for name, values in given.items()]
    if len(both[0]) != len(both[1]):
        raise DataError(
            f"cluster learnability has {len(both[0])} values and intrinsic dimension {len(both[1])}, expected both of "
            "the same encoders."
        )
    if len(both[0]) < 2:
        raise QueryError("CLID was asked for with 1 encoder, but standardising over a population needs at least 2.")
    for name, values in zip(given, both, strict=True):
        if values.min() == values.max():
            raise QueryError(
                f"All {len(values)} encoders have the same {name} ({values[0]:g}), so that it cannot be standardised "
                "to [0, 1]: take more encoders, or leave it out."
            )
    return np.column_stack([(values - values.min()) / (values.max() - values.min()) for values in both])


def _numbers(values: Any, name: str) -> Array:
    """Finite numbers, one per encoder, float64 (n_encoders,)."""
    found = check_finite_numbers(values, name=name, n_axes=1)
    if not len(found):
        raise DataError(f"{name} is empty, expected one number per encoder.")
    return found


def _fitted(design: Array, truth: Array, *, without: str) -> Array:
    """Two weights and the intercept of least squares, (3,)."""
    centred = design[:, :2] - design[:, :2].mean(axis=0)
    lengths = np.linalg.norm(centred, axis=0)
    if lengths.min() <= _LEAST_RESIDUAL or (centred.prod(axis=1).sum() / lengths.prod()) ** 2 >= 1 - _LEAST_RESIDUAL:
        raise QueryError(
            "Cluster learnability and intrinsic dimension do not vary independently of each other among the "
            f"{len(design)} encoders{without}, so that no weights are determined: take more encoders, or CLID."
        )
    found: Array = np.linalg.lstsq(design, truth, rcond=None)[0]
    return found
