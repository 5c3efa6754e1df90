"""Attentive probe: queries that pool the patches of an image and a linear classifier, against average pooling.

What pooling hides is told by two probes of the same maps. The one of averages is the converged linear probe
(:class:`~zoo.evaluation.logistic.LogisticProbe`), the other learns where to look (:mod:`.attention_pooling`). Both are
tuned on the same rows, and the one with the lower error there is kept; of equal errors, the linear one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import DataError, QueryError
from ..optional import require_extra
from .arrays import (
    Array,
    check_labels,
    check_rows,
    check_width,
    has_validation,
    list_classes,
    number_labels,
    select_rows,
)
from .attention_pooling import (
    AttentionObjective,
    MapScale,
    MinimisedObjective,
    StandardisedMaps,
    compute_pooled_maps,
    fit_map_scale,
    predict_logits,
    run_lbfgs,
    run_one_cycle,
)
from .logistic import LogisticProbe, select_held_out_mask
from .threads import limit_threads

with require_extra("evaluate", needed_for="A probe"):
    import numpy as np
    import torch
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.utils.validation import check_is_fitted

ATTENTION, AVERAGE = "attention", "average"
_LINEAR = {  # the average's probe, as zoo-logistic-3 has it
    "Cs": 24,
    "preparations": ("as they are", "standardised", "whitened 1", "whitened 0.1", "whitened 0.001"),
}

_QUICK_LINEAR = {"Cs": 8, "tol": 1e-3, "preparations": ("standardised",)}
_QUICK_EPOCHS = 6
_PATIENCE = 2  # penalties no better than the best, after which the walk ends: one start on few rows is noisy
_FITTED = ("queries", "values", "coef", "intercept", "classes")


@dataclass(frozen=True, slots=True, eq=False)
class _AttentionFit:
    """Trained starts under one penalty, and their errors on tuning rows."""

    penalty: float
    scale: MapScale
    starts: tuple[MinimisedObjective, ...]
    objective: AttentionObjective
    error: float = math.nan  # percent
    log_loss: float = math.nan

    @property
    def _judged(self) -> dict[str, float | None]:
        loss = self.log_loss if math.isfinite(self.log_loss) else None
        return {"validation_error_percent": self.error, "validation_log_loss": loss}

    def as_dict(self) -> dict[str, Any]:
        return {
            "penalty": self.penalty,
            **({} if math.isnan(self.error) else self._judged),
            "objective": float(np.mean([start.value for start in self.starts])),
            "gradient_norm": float(np.mean([start.gradient_norm for start in self.starts])),
            "iterations": [start.n_steps for start in self.starts],
            "converged": all(start.converged for start in self.starts),
        }


class AttentiveProbe(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A linear classifier of patches that learned queries have pooled, or of their average where that is no worse.

    The model and its objective are those of :mod:`zoo.evaluation.attention_pooling`. Penalties are tried from the
    strongest on, until two have not lowered the error on the tuning rows, each from one starting point; of those
    within one standard error of the least, that of the least log loss is taken. The best one is then
    fitted from ``n_starts``, whose logits are averaged.

    Parameters
    ----------
    n_queries, value_dim : int
        Queries, and the values that each of them reads.
    n_components : int
        Maps of more channels are reduced to so many principal components of standardised channels; the average that is
        compared with keeps all channels.
    n_starts : int
    penalties : sequence of float
        Of the mean cross-entropy, descending.
    epochs, batch_size, learning_rate
        Of the one-cycle that each fit begins with.
    tol : float
        L-BFGS ends when five steps lower the objective by less than this part of it.
    quick : bool
        One start, six epochs and no L-BFGS, two penalties and one preparation of the averages: within a few points
        in a small part of the time. Nothing has converged then.
    channels : int, optional
        Of flattened maps; maps of three axes say it themselves.
    class_token : bool
        The first place is the class token: attended to like a patch, not averaged, and given to the linear classifier
        next to the average.
    device : str, optional
        Of torch; None takes a GPU if there is one.
    seed : int
        Of the starting points, of the order of rows, and of rows that are held out.

    Attributes
    ----------
    classes_ : array (n_classes,), ascending
    kept_ : str
        "attention" or "average".
    queries_, values_ : float64 arrays (n, channels) and (n, channels, value_dim)
        Of maps as they were given; without a query where the average is kept.
    coef_, intercept_ : float64 arrays (n_classes, dim) and (n_classes,)
        Of what :meth:`transform` gives.
    report_ : dict
        For JSON: what is kept, both errors on the tuning rows (percent), penalties tried, how fits ended.

    Examples
    --------
    >>> import numpy as np
    >>> draws = np.random.default_rng(0)
    >>> y = np.arange(60) % 2
    >>> maps = draws.normal(size=(60, 9, 4)) + 3 * y[:, None, None]
    >>> AttentiveProbe(quick=True).fit(maps, y).score(maps, y)
    1.0
    """

    def __init__(
        self,
        *,
        n_queries: int = 16,
        value_dim: int = 8,
        n_components: int = 128,
        n_starts: int = 4,
        penalties: Sequence[float] = (1e-2, 3e-3, 1e-3, 3e-4),
        epochs: int = 20,
        batch_size: int = 64,
        learning_rate: float = 0.03,
        tol: float = 0.05,
        quick: bool = False,
        channels: int | None = None,
        class_token: bool = False,
        device: str | None = None,
        seed: int = 0,
    ) -> None:
        self.n_queries, self.value_dim, self.n_components = n_queries, value_dim, n_components
        self.n_starts, self.penalties, self.tol, self.quick = n_starts, penalties, tol, quick
        self.epochs, self.batch_size, self.learning_rate = epochs, batch_size, learning_rate
        self.channels, self.class_token, self.device, self.seed = channels, class_token, device, seed

    def fit(self, x: Any, y: Any, *, x_val: Any = None, y_val: Any = None) -> AttentiveProbe:
        """Fits maps (n, places, channels), or flattened ones (n, places * channels), to labels (n,).

        Without validation rows a fifth of the rows are held out for the choices, and then trained on too.

        Raises
        ------
        DataError
            If maps or labels have other shapes, or a number is not finite.
        QueryError
            If a parameter is out of range.
        """
        self._check()
        rows = self._flatten(x, first=True)
        labels = check_labels(y, rows.shape[0], "y")
        self.classes_ = list_classes(labels)
        numbers = number_labels(labels, self.classes_)
        if has_validation(x_val, y_val):
            x_val = self._flatten(x_val)
            y_val = number_labels(check_labels(y_val, x_val.shape[0], "y_val"), self.classes_)
            self._choose(rows, numbers, x_val, y_val)
            return self
        out = select_held_out_mask(numbers, self.seed)
        inside, outside = (np.flatnonzero(mask) for mask in (~out, out))
        self._choose(select_rows(rows, inside), numbers[inside], select_rows(rows, outside), numbers[outside])
        choice = dict(self.report_)
        self._refit(rows, numbers)
        self.report_ |= {"choice": choice}
        return self

    def refit(self, x: Any, y: Any) -> AttentiveProbe:
        """Fits all rows with what ``report_`` says was chosen: the pooling, and its penalty or C."""
        rows = self._flatten(x, first=True)
        labels = check_labels(y, rows.shape[0], "y")
        self.classes_ = list_classes(labels)
        self._refit(rows, number_labels(labels, self.classes_))
        return self

    def _choose(self, x: Any, y: Array, x_val: Any, y_val: Array) -> None:
        averages = self._average(x), self._average(x_val)
        linear = self._linear().fit(averages[0], y, x_val=averages[1], y_val=y_val)
        linear_error = linear.report_["validation_error_percent"]
        scale = self._scale(x)
        maps, held_out = self._standardise(x, scale), self._standardise(x_val, scale)
        tried = self._walk(maps, y, held_out, y_val)
        best = tried[-1]
        self._report = {
            "average": {name: linear.report_[name] for name in ("C", "preparation", "converged")}
            | {"validation_error_percent": linear_error},
            "attention": best.as_dict() | {"tried": [fit.as_dict() for fit in tried]},
            "share_of_variance": scale.share,
            "n_val": len(y_val),
        }
        if best.error < linear_error:
            self._adopt_attention(best)
        else:
            self._adopt_average(linear)
        self._tell(penalty=best.penalty, chosen=linear.report_)

    def _refit(self, x: Any, y: Array) -> None:
        chosen = self.report_
        if chosen["kept"] == ATTENTION:
            self._adopt_attention(self._fit_penalty(self._standardise(x, self._scale(x)), y, chosen["penalty"]))
        else:
            linear = LogisticProbe(C=chosen["C"], preparations=(chosen["preparation"],), device=self.device)
            self._adopt_average(linear.fit(self._average(x), y))
        self._report = {}
        self._tell(penalty=chosen["penalty"], chosen=chosen)

    def _walk(self, maps: StandardisedMaps, y: Array, held_out: StandardisedMaps, y_val: Array) -> list[_AttentionFit]:
        """One start per penalty from the strongest on, until two are no better; then the best from all starts.

        The last fit is the one to take.
        """
        descending = sorted(self.penalties, reverse=True)
        tried: list[_AttentionFit] = []
        for penalty in _select_middle(descending) if self.quick else descending:
            tried.append(self._judge(self._fit_penalty(maps, y, penalty, n_starts=1), held_out, y_val))
            if len(tried) - _PATIENCE > min(range(len(tried)), key=lambda place: tried[place].error):
                break
        best = _select_fit(tried, len(y_val))
        if self._n_starts > 1:
            tried.append(self._judge(self._fit_penalty(maps, y, best.penalty, known=best.starts), held_out, y_val))
        return [*(fit for fit in tried if fit is not best), best] if self._n_starts == 1 else tried

    @property
    def _n_starts(self) -> int:
        return 1 if self.quick else self.n_starts

    def _fit_penalty(
        self,
        maps: StandardisedMaps,
        y: Array,
        penalty: float,
        *,
        n_starts: int | None = None,
        known: tuple[MinimisedObjective, ...] = (),
    ) -> _AttentionFit:
        """A fit from ``n_starts`` starts, by default all, the first of which may be ``known``."""
        objective = AttentionObjective(
            maps=maps,
            y=torch.from_numpy(y).to(maps.averages.device),
            n_classes=len(self.classes_),
            n_queries=self.n_queries,
            value_dim=self.value_dim,
            penalty=penalty,
        )
        with limit_threads(self.batch_size * self.n_queries * maps.places * maps.scale.axes.shape[1]):
            new = range(len(known), n_starts or self._n_starts)
            starts = known + tuple(self._train(objective, self.seed * 1000 + start) for start in new)
        return _AttentionFit(penalty, maps.scale, starts, objective)

    def _train(self, objective: AttentionObjective, seed: int) -> MinimisedObjective:
        how: dict[str, Any] = {"batch_size": self.batch_size, "learning_rate": self.learning_rate}
        if self.quick:
            vector = run_one_cycle(objective, seed=seed, epochs=min(_QUICK_EPOCHS, self.epochs), **how)
            value, gradient = objective.measure(vector)
            return MinimisedObjective(
                vector=vector, value=value, gradient_norm=float(gradient.norm()), n_steps=0, converged=False
            )
        return run_lbfgs(objective, run_one_cycle(objective, seed=seed, epochs=self.epochs, **how), tol=self.tol)

    def _judge(self, fit: _AttentionFit, maps: StandardisedMaps, y: Array) -> _AttentionFit:
        logits = torch.stack([predict_logits(fit.objective, one.vector, maps) for one in fit.starts]).mean(dim=0).cpu()
        labels = torch.from_numpy(y)
        known = labels >= 0  # the others have no training image, and count as errors
        loss = torch.nn.functional.cross_entropy(logits[known], labels[known]) if bool(known.any()) else math.nan
        error = 100 * float((logits.argmax(dim=1) != labels).double().mean())
        return _AttentionFit(fit.penalty, fit.scale, fit.starts, fit.objective, error, float(loss))

    def _adopt_attention(self, fit: _AttentionFit) -> None:
        """Equation (1) of the maps as they are given: what standardised them goes into queries, values and weights."""
        scale, n = fit.scale, len(fit.starts)
        axes, mean = scale.axes.double().cpu().numpy(), scale.mean.double().cpu().numpy()
        parts = [fit.objective.split(start.vector.double().cpu()) for start in fit.starts]
        self.queries_ = np.concatenate([part.queries.numpy() @ axes.T for part in parts])
        self.values_ = np.concatenate([axes @ part.values.numpy() for part in parts])
        of_averages = (
            np.sum([part.averages.numpy().T for part in parts], axis=0) / n
        )  # (n_classes, n_components or twice as many)
        blocks = np.split(of_averages, of_averages.shape[1] // axes.shape[1], axis=1)
        of_averages = np.concatenate([block @ axes.T for block in blocks], axis=1)
        of_values = np.concatenate([part.weights.flatten(0, 1).numpy().T for part in parts], axis=1) / n
        centre = np.concatenate([np.tile(mean, len(blocks)), (mean @ self.values_).reshape(-1)])
        self.coef_ = np.concatenate([of_averages, of_values], axis=1)
        self.intercept_ = sum(part.intercepts.numpy() for part in parts) / n - self.coef_ @ centre
        self.kept_, self._ending = ATTENTION, fit.as_dict()

    def _adopt_average(self, linear: LogisticProbe) -> None:
        self.queries_ = np.empty((0, self.channels_))
        self.values_ = np.empty((0, self.channels_, self.value_dim))
        self.coef_, self.intercept_ = linear.coef_, linear.intercept_
        if len(self.classes_) == 2 and len(self.coef_) == 1:
            self.coef_, self.intercept_ = (np.concatenate([-one, one]) / 2 for one in (self.coef_, self.intercept_))
        self.kept_, self._ending = AVERAGE, {"converged": linear.report_["converged"]}

    def _tell(self, *, penalty: float, chosen: Mapping[str, Any]) -> None:
        self.report_ = {
            **self._ending,
            "kept": self.kept_,
            "penalty": penalty,
            "C": chosen["C"],
            "preparation": chosen["preparation"],
            **self._report,
        }

    def transform(self, x: Any) -> Array:
        """What the linear classifier reads, (n, dim): the average, the class token where there is one, the values."""
        check_is_fitted(self)
        rows = check_width(self._flatten(x), self.n_features_in_, "X", type(self).__name__)
        return compute_pooled_maps(rows, self.queries_, self.values_, class_token=self.class_token)

    def decision_function(self, x: Any) -> Array:
        """Logits, float64 (n, n_classes); of two classes the difference of the second and the first, (n,)."""
        logits = self._logits(x)
        return logits[:, 1] - logits[:, 0] if len(self.classes_) == 2 else logits

    def predict(self, x: Any) -> Array:
        """The most likely class of each image, (n,)."""
        predicted: Array = self.classes_[self._logits(x).argmax(axis=1)]
        return predicted

    def predict_proba(self, x: Any) -> Array:
        """Probabilities (n, n_classes), float64."""
        return torch.softmax(torch.from_numpy(self._logits(x)), dim=1).numpy()

    def _logits(self, x: Any) -> Array:
        logits: Array = self.transform(x) @ self.coef_.T + self.intercept_
        return logits

    def fitted_arrays(self) -> dict[str, Any]:
        """What predictions are made with, for ``numpy.savez``."""
        return {name: getattr(self, f"{name}_") for name in _FITTED} | {"n_features": self.n_features_in_}

    def adopt_fit(self, arrays: Mapping[str, Any], report: dict[str, Any]) -> None:
        """Takes over a fit that was kept, by its ``fitted_arrays`` and its report."""
        for name in _FITTED:
            setattr(self, f"{name}_", arrays[name])
        self.report_, self.kept_ = report, report["kept"]
        self.channels_ = self.queries_.shape[1]
        self.n_features_in_ = int(arrays["n_features"])

    def _flatten(self, x: Any, *, first: bool = False) -> Any:
        """Maps as rows (n, places * channels); ``first`` says what they are from now on."""
        shape = tuple(getattr(x, "shape", None) or np.shape(x))
        channels = shape[2] if len(shape) == 3 else self.channels
        if channels is None:
            raise DataError(
                f"The maps have the shape {shape}, expected (n, places, channels), or (n, places * channels) and the "
                "parameter channels."
            )
        rows = check_rows(np.asarray(x).reshape(shape[0], -1) if len(shape) == 3 else x, "x")
        if first:
            self.channels_, self.n_features_in_ = int(channels), int(rows.shape[1])
        if rows.shape[1] % channels or channels != self.channels_ or rows.shape[1] < channels * (1 + self.class_token):
            raise DataError(
                f"The maps have {rows.shape[1]} numbers per image in places of {channels} channels, expected "
                f"{'a class token and ' * self.class_token}one or more places of {self.channels_} channels."
            )
        return rows

    def _linear(self) -> LogisticProbe:
        options: dict[str, Any] = _QUICK_LINEAR if self.quick else _LINEAR
        return LogisticProbe(**options, device=self.device, seed=self.seed)

    def _average(self, x: Any) -> Array:
        no_query = np.empty((0, self.channels_)), np.empty((0, self.channels_, self.value_dim))
        return compute_pooled_maps(x, *no_query, class_token=self.class_token)

    def _scale(self, x: Any) -> MapScale:
        device = torch.device(self.device or ("cuda" if torch.cuda.is_available() else "cpu"))
        return fit_map_scale(x, self.channels_, self.n_components, seed=self.seed, device=device)

    def _standardise(self, x: Any, scale: MapScale) -> StandardisedMaps:
        return StandardisedMaps(x, scale, class_token=self.class_token)

    def _check(self) -> None:
        for name in ("n_queries", "value_dim", "n_components", "n_starts", "epochs", "batch_size"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
                raise QueryError(f"{name} is {value!r}, expected a whole number from 1 on.")
        if not len(self.penalties):
            raise QueryError("penalties are none, expected one or more numbers above 0.")
        for name, values in (
            ("tol", [self.tol]),
            ("learning_rate", [self.learning_rate]),
            ("penalties", self.penalties),
        ):
            for value in values:
                if isinstance(value, bool) or not (math.isfinite(value) and value > 0):
                    raise QueryError(f"{name} has {value!r}, expected a finite number above 0.")


def _select_fit(tried: Sequence[_AttentionFit], n: int) -> _AttentionFit:
    """The least log loss of the fits whose error on ``n`` rows is within one standard error of the least.

    Errors of few rows are noisy, and the log loss alone prefers penalties that are too strong where classes are hard.
    """
    least = min(fit.error for fit in tried)
    within = least + math.sqrt(least * (100 - least) / n)
    return min((fit for fit in tried if fit.error <= within), key=lambda fit: (fit.log_loss, -fit.penalty))


def _select_middle(penalties: Sequence[float]) -> Sequence[float]:
    """The middle one and the next."""
    middle = (len(penalties) - 1) // 2
    return penalties[middle : middle + 2]
