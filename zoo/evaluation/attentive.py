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
    StandardisedMaps,
    compute_pooled_maps,
    fit_map_scale,
    predict_logits,
    run_one_cycle,
)
from .logistic import LogisticProbe, select_held_out_mask
from .threads import limit_threads

with require_extra("evaluate", needed_for="A probe"):
    import numpy as np
    import torch
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.utils.validation import check_is_fitted
    from torch import Tensor

ATTENTION, AVERAGE = "attention", "average"
_LINEAR = {  # the average's probe, as zoo-logistic-3 has it
    "Cs": 24,
    "preparations": ("as they are", "standardised", "whitened 1", "whitened 0.1", "whitened 0.001"),
}

_QUICK_LINEAR = {"Cs": 8, "tol": 1e-3, "preparations": ("standardised",)}
_QUICK = {"epochs": 5, "n_steps": 300}
_TUNING_STARTS = 2  # two choose the penalty as well as four
_FITTED = ("queries", "values", "coef", "intercept", "classes")


@dataclass(frozen=True, slots=True, eq=False)
class _AttentionFit:
    """Trained members, ``n_starts`` per penalty."""

    objective: AttentionObjective
    vector: Tensor
    n_starts: int

    def judge(self, maps: StandardisedMaps, y: Array, penalties: Sequence[float]) -> list[dict[str, Any]]:
        """Error (percent) and log loss on tuning rows under each penalty, of the mean of its starts."""
        logits = predict_logits(self.objective, self.vector, maps).cpu()
        labels = torch.from_numpy(y)
        known = labels >= 0  # the others have no training image, and count as errors
        judged = []
        for penalty, one in zip(penalties, torch.split(logits, self.n_starts), strict=True):
            mean = one.mean(dim=0)
            loss = float(torch.nn.functional.cross_entropy(mean[known], labels[known])) if bool(known.any()) else None
            error = 100 * float((mean.argmax(dim=1) != labels).double().mean())
            judged.append({"penalty": penalty, "validation_error_percent": error, "validation_log_loss": loss})
        return judged


class AttentiveProbe(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A linear classifier of patches that learned queries have pooled, or of their average where that is no worse.

    The model and its objective are those of :mod:`zoo.evaluation.attention_pooling`. Logits are averaged over
    ``n_starts``. Of the penalties whose error on the tuning rows is within one standard error of the least, that of
    the least log loss is taken, by the mean of two starts.

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
    epochs, n_steps, batch_size, learning_rate
        Of the one-cycle of Adam: passes over the rows, more of them (at most 60) where these have fewer than
        ``n_steps`` batches. Training ends when its rate has reached 0, not at a minimum: from there on, L-BFGS
        lowers the objective and not the error (docs/decisions/0027).
    quick : bool
        Five epochs, 300 steps, one penalty and one preparation of the averages: within a few points in a small part of
        the time.
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

    report_: dict[str, Any]

    def __init__(
        self,
        *,
        n_queries: int = 12,
        value_dim: int = 4,
        n_components: int = 128,
        n_starts: int = 4,
        penalties: Sequence[float] = (1e-2, 3e-3, 1e-3, 3e-4),
        epochs: int = 12,
        n_steps: int = 1000,
        batch_size: int = 32,
        learning_rate: float = 0.03,
        quick: bool = False,
        channels: int | None = None,
        class_token: bool = False,
        device: str | None = None,
        seed: int = 0,
    ) -> None:
        self.n_queries, self.value_dim, self.n_components = n_queries, value_dim, n_components
        self.n_starts, self.penalties, self.quick = n_starts, penalties, quick
        self.epochs, self.n_steps, self.batch_size, self.learning_rate = epochs, n_steps, batch_size, learning_rate
        self.channels, self.class_token, self.device, self.seed = channels, class_token, device, seed

    def fit(self, x: Any, y: Any, *, x_val: Any = None, y_val: Any = None) -> AttentiveProbe:
        """Fits maps (n, places, channels), or flattened ones (n, places * channels), to labels (n,).

        Without validation rows a fifth of the rows are held out for the choices, and then trained on too. With them the
        probe is that of the choices, of two starts, until :meth:`refit`.

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
        descending = sorted(self.penalties, reverse=True)
        penalties = [descending[len(descending) // 2]] if self.quick else descending
        fit = self._train(maps, y, penalties, min(_TUNING_STARTS, self.n_starts))
        judged = fit.judge(held_out, y_val, penalties)
        place = _select_penalty(judged, len(y_val))
        best = judged[place]
        self._report = {
            "average": {name: linear.report_[name] for name in ("C", "preparation", "converged")}
            | {"validation_error_percent": linear_error},
            "attention": best | {"tried": judged},
            "share_of_variance": scale.share,
            "n_val": len(y_val),
        }
        if best["validation_error_percent"] < linear_error:
            self._adopt_attention(fit, place)
        else:
            self._adopt_average(linear)
        self._tell(penalty=best["penalty"], chosen=linear.report_)

    def _refit(self, x: Any, y: Array) -> None:
        chosen = self.report_
        if chosen["kept"] == ATTENTION:
            fit = self._train(self._standardise(x, self._scale(x)), y, [chosen["penalty"]], self.n_starts)
            self._adopt_attention(fit, 0)
            values, gradient = fit.objective.measure(fit.vector)
            self._ending = {"objective": float(values.mean()), "gradient_norm": float(gradient.norm()) / self.n_starts}
        else:
            linear = LogisticProbe(C=chosen["C"], preparations=(chosen["preparation"],), device=self.device)
            self._adopt_average(linear.fit(self._average(x), y))
        self._report = {}
        self._tell(penalty=chosen["penalty"], chosen=chosen)

    def _train(self, maps: StandardisedMaps, y: Array, penalties: Sequence[float], n_starts: int) -> _AttentionFit:
        """``n_starts`` members per penalty, together."""
        objective = AttentionObjective(
            maps=maps,
            y=torch.from_numpy(y).to(maps.averages.device),
            n_classes=len(self.classes_),
            n_queries=self.n_queries,
            value_dim=self.value_dim,
            penalties=torch.tensor(penalties).repeat_interleave(n_starts).to(maps.averages.device),
        )
        length = {"epochs": self.epochs, "n_steps": self.n_steps}
        if self.quick:
            length = {name: min(_QUICK[name], given) for name, given in length.items()}
        n_queries = self.n_queries * len(objective.penalties)
        with limit_threads(self.batch_size * n_queries * maps.places * maps.scale.axes.shape[1]):
            vector = run_one_cycle(
                objective, seed=self.seed, batch_size=self.batch_size, learning_rate=self.learning_rate, **length
            )
        return _AttentionFit(objective, vector, n_starts)

    def _adopt_attention(self, fit: _AttentionFit, place: int) -> None:
        """Equation (1) of the maps as they are given: what standardised them goes into queries, values and weights.

        Of the members of the penalty at ``place``, whose mean is taken.
        """
        scale, n = fit.objective.maps.scale, fit.n_starts
        axes, mean = scale.axes.double().cpu().numpy(), scale.mean.double().cpu().numpy()
        parts = fit.objective.split(fit.vector.double().cpu())
        members = slice(place * n, place * n + n)
        queries = slice(members.start * self.n_queries, members.stop * self.n_queries)
        self.queries_ = parts.queries[queries].numpy() @ axes.T
        self.values_ = axes @ parts.values[queries].numpy().transpose(0, 2, 1)
        of_averages = parts.averages[members].mean(dim=0).numpy()  # (n_classes, n_components or twice as many)
        blocks = np.split(of_averages, of_averages.shape[1] // axes.shape[1], axis=1)
        of_averages = np.concatenate([block @ axes.T for block in blocks], axis=1)
        of_values = np.concatenate(list(parts.weights[members].numpy()), axis=1) / n
        centre = np.concatenate([np.tile(mean, len(blocks)), (mean @ self.values_).reshape(-1)])
        self.coef_ = np.concatenate([of_averages, of_values], axis=1)
        self.intercept_ = parts.intercepts[members].mean(dim=0)[:, 0].numpy() - self.coef_ @ centre
        self.kept_, self._ending = ATTENTION, {}

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
        for name in ("n_queries", "value_dim", "n_components", "n_starts", "epochs", "n_steps", "batch_size"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
                raise QueryError(f"{name} is {value!r}, expected a whole number from 1 on.")
        if not len(self.penalties):
            raise QueryError("penalties are none, expected one or more numbers above 0.")
        for name, values in (
            ("learning_rate", [self.learning_rate]),
            ("penalties", self.penalties),
        ):
            for value in values:
                if isinstance(value, bool) or not (math.isfinite(value) and value > 0):
                    raise QueryError(f"{name} has {value!r}, expected a finite number above 0.")


def _select_penalty(judged: Sequence[Mapping[str, Any]], n: int) -> int:
    """The place of the least log loss where the error on ``n`` rows is within one standard error of the least.

    Errors of few rows are noisy, and the log loss alone prefers penalties that are too strong where classes are hard.
    """
    errors = [one["validation_error_percent"] for one in judged]
    within = min(errors) + math.sqrt(min(errors) * (100 - min(errors)) / n)
    losses = [math.inf if one["validation_log_loss"] is None else one["validation_log_loss"] for one in judged]
    return min((place for place, error in enumerate(errors) if error <= within), key=lambda place: losses[place])
