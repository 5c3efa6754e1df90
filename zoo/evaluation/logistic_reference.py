"""The same objective solved by scikit-learn, with its own stop: for numbers that compare with published ones.

On few labels the accuracy of a logistic regression depends on where its solver stops: at the same C different
tolerances give different errors. scikit-learn's lbfgs begins at zero and ends by its tolerance, long before the
optimum of large problems; a number that was measured so can only be repeated so.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from ..optional import requires_extra
from .logistic_path import PathPoint

with requires_extra("evaluate", needed_for="A probe"):
    import numpy as np
    import torch
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

Array = np.ndarray[Any, Any]
_STEP = math.sqrt(10.0)
_PATIENCE = 3


class Reference:
    """Fits by scikit-learn's lbfgs, each from zero, and which of them is the best on validation data."""

    def __init__(
        self,
        x: Array,
        y: Array,
        *,
        n_classes: int,
        validation: tuple[Array, Array] | None,
        select: str,
        max_iterations: int,
        progress: Callable[[PathPoint], None] | None,
    ) -> None:
        self.x, self.y, self.n_classes, self.validation, self.select = x, y, n_classes, validation, select
        self.max_iterations, self.progress = max_iterations, progress
        self.records: list[PathPoint] = []
        self.iterations = 0

    def along(self, values: Sequence[float]) -> tuple[LogisticRegression, PathPoint]:
        """Every value of C, from small to large; the best."""
        return min((self.fitted(value) for value in sorted(values)), key=lambda fit: self._key(fit[1]))

    def searched(self, most: int) -> tuple[LogisticRegression, PathPoint]:
        """By half powers of ten from strong regularisation until the best is past, then both sides of it halved."""
        squares = float(np.square(self.x - self.x.mean(axis=0, dtype=np.float64)).sum())
        value = self.n_classes * min(self.x.shape) / max(squares, np.finfo(np.float64).tiny)
        fits: list[tuple[LogisticRegression, PathPoint]] = []
        since_best, best = 0, 0
        while len(fits) < max(most - 2, 1) and since_best < _PATIENCE:
            fits.append(self.fitted(value))
            better = self._key(fits[-1][1]) < self._key(fits[best][1])
            best, since_best = (len(fits) - 1, 0) if better else (best, since_best + (len(fits) > 1))
            value *= _STEP
        chosen = fits[best][1].C
        between = [self.fitted(chosen * _STEP**share) for share in (-0.5, 0.5)] if most > 2 else []
        return min([*fits, *between], key=lambda fit: self._key(fit[1]))

    def fitted(self, value: float) -> tuple[LogisticRegression, PathPoint]:
        """One C."""
        model = LogisticRegression(C=value, max_iter=self.max_iterations)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # told as ``converged`` of the path
            model.fit(self.x, self.y)
        iterations = int(np.max(model.n_iter_))
        objective, norm, gap = self._measured(model, value)
        error, loss = math.nan, math.nan
        if self.validation is not None:
            error, loss = self._judged(model, *self.validation)
        record = PathPoint(
            C=value, iterations=iterations, objective=objective, gradient_norm=norm, gap=gap, tol=model.tol,
            converged=iterations < self.max_iterations, validation_error_percent=error, validation_log_loss=loss,
        )  # fmt: skip
        self.records.append(record)
        self.iterations += iterations
        if self.progress is not None:
            self.progress(record)
        return model, record

    def _measured(self, model: LogisticRegression, value: float) -> tuple[float, float, float]:
        """Objective, norm of its gradient by the weights, and the bound of what it is above its least value."""
        weights, intercepts = weights_of(model)
        logits = torch.from_numpy(self.x @ weights.T.astype(self.x.dtype) + intercepts.astype(self.x.dtype))
        penalty = (2.0 if self.n_classes == 2 else 1.0) / value
        losses = torch.nn.functional.cross_entropy(logits, torch.from_numpy(self.y), reduction="none")
        residuals = torch.softmax(logits, dim=1).numpy()
        residuals[np.arange(len(self.y)), self.y] -= 1.0
        gradient = residuals.T @ self.x + penalty * weights
        objective = float(losses.double().sum()) + 0.5 * penalty * float(np.square(weights).sum())
        squared = float(np.square(gradient).sum())
        return objective, math.sqrt(squared), squared / (2.0 * penalty) / max(objective, np.finfo(np.float64).tiny)

    def _judged(self, model: LogisticRegression, x: Array, y: Array) -> tuple[float, float]:
        weights, intercepts = weights_of(model)
        logits = torch.from_numpy(x @ weights.T.astype(x.dtype) + intercepts.astype(x.dtype))
        labels = torch.from_numpy(y)
        known = labels >= 0
        wrong = float((logits.argmax(dim=1) != labels).double().mean())
        loss = torch.nn.functional.cross_entropy(logits[known].double(), labels[known]) if bool(known.any()) else None
        return 100.0 * wrong, math.nan if loss is None else float(loss)

    def _key(self, record: PathPoint) -> tuple[float, ...]:
        error, loss = record.validation_error_percent, record.validation_log_loss
        loss = math.inf if math.isnan(loss) else loss
        return (error, loss, record.C) if self.select == "error" else (loss, error, record.C)


def weights_of(model: LogisticRegression) -> tuple[Array, Array]:
    """Weights (n_classes, dim) and intercepts; of two classes scikit-learn keeps the difference only."""
    weights, intercepts = model.coef_.astype(np.float64), model.intercept_.astype(np.float64)
    if len(weights) == 1:
        weights, intercepts = np.concatenate([-weights, weights]) / 2, np.concatenate([-intercepts, intercepts]) / 2
    return weights, intercepts
