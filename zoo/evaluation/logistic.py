"""Multinomial logistic regression on features, with its whole regularisation path: a probe that needs no tuning.

The number that such a probe gives is defined by convergence: by the optimum of a convex objective, not by a solver, its
learning rate or its number of steps. :mod:`.logistic_solver` solves one penalty, :mod:`.logistic_path` fits a path of
penalties and finds the best one.

The same objective can be solved by scikit-learn, with its stop, for numbers that compare with published ones. On
few labels the accuracy of a logistic regression depends on where its solver stops: at the same C different tolerances
give different errors. scikit-learn's lbfgs begins at zero and ends by its tolerance, long before the optimum of large
problems.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from numbers import Integral, Real
from typing import Any

from ..errors import DataError, QueryError
from ..optional import require_extra
from .arrays import (
    BLOCK_ROWS,
    Array,
    check_finite_rows,
    check_labels,
    check_rows,
    check_width,
    find_extreme,
    has_validation,
    list_classes,
    number_labels,
)
from .logistic_basis import centre_and_scale
from .logistic_path import (
    LocatedPenalty,
    PathFit,
    PathPoint,
    RegularisationPath,
    finish_fit,
    is_settled,
    locate_penalty,
    make_choice_key,
)
from .scaling import AS_THEY_ARE, Preparations, PreparedRows, parse_strength, split_folds, tune_penalties
from .threads import limit_threads

with require_extra("evaluate", needed_for="A probe"):
    import numpy as np
    import torch
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.utils.validation import check_is_fitted

_HALF_POWER = math.sqrt(10.0)
_PATIENCE = 3  # fits without a better one that end the walk


class ScikitLearnFits:
    """Fits by scikit-learn's lbfgs, each from zero, and the choice of C among them on validation data."""

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

    def require_gradient(self) -> None:
        """Refuse features whose weights lbfgs would leave at zero, whatever C, and call that converged.

        It ends where no number of the mean loss's gradient is above its tolerance. The gradient of a constant guess
        shrinks with the size of the features and with the number of classes. Where it is 0 whatever their size, as of
        constant features, that guess is the right one.
        """
        n = len(self.y)
        sums = torch.zeros((self.n_classes, self.x.shape[1]), dtype=torch.float64)
        for start in range(0, n, BLOCK_ROWS):
            rows, labels = (torch.from_numpy(one[start : start + BLOCK_ROWS]) for one in (self.x, self.y))
            sums.index_add_(0, labels, rows.double())
        shares = torch.from_numpy(np.bincount(self.y, minlength=self.n_classes) / n)
        steepest = float((shares[:, None] * sums.sum(dim=0) - sums).abs().max()) / n
        rounding = np.finfo(np.float64).eps * n * float(np.abs(self.x).max())
        if rounding < steepest <= (tol := LogisticRegression().tol):
            raise DataError(
                f"The gradient of a constant guess has no number above {steepest:.1g} for features of x of this size "
                f"and {self.n_classes} classes, so that scikit-learn (tolerance {tol:g}) ends without a weight; "
                "expected more: multiply the features by a number, or fit with stop='convergence'."
            )

    def along(self, values: Sequence[float]) -> tuple[LogisticRegression, PathPoint]:
        """Fits every value of C, from small to large; returns the best."""
        return min((self.fitted(value) for value in sorted(values)), key=lambda fit: self._key(fit[1]))

    def searched(self, most: int) -> tuple[LogisticRegression, PathPoint]:
        """Walks by half powers of ten from strong regularisation past the best, then tries half steps around it."""
        squares = float(np.square(self.x - self.x.mean(axis=0, dtype=np.float64)).sum())
        value = self.n_classes * min(self.x.shape) / max(squares, np.finfo(np.float64).tiny)
        fits: list[tuple[LogisticRegression, PathPoint]] = []
        since_best, best = 0, 0
        while len(fits) < max(most - 2, 1) and since_best < _PATIENCE:
            fits.append(self.fitted(value))
            better = self._key(fits[-1][1]) < self._key(fits[best][1])
            best, since_best = (len(fits) - 1, 0) if better else (best, since_best + (len(fits) > 1))
            value *= _HALF_POWER
        chosen = fits[best][1].C
        between = [self.fitted(chosen * _HALF_POWER**share) for share in (-0.5, 0.5)] if most > 2 else []
        return min([*fits, *between], key=lambda fit: self._key(fit[1]))

    def fitted(self, value: float) -> tuple[LogisticRegression, PathPoint]:
        model = LogisticRegression(C=value, max_iter=self.max_iterations)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # reported as ``converged`` of the path
            model.fit(self.x, self.y)
        iterations = int(np.max(model.n_iter_))
        objective, norm, gap = self._measured(model, value)
        error, loss = math.nan, math.nan
        if self.validation is not None:
            error, loss = self._judged(model, *self.validation)
        record = PathPoint(
            C=value,
            iterations=iterations,
            objective=objective,
            gradient_norm=norm,
            gap=gap,
            tol=model.tol,
            converged=iterations < self.max_iterations,
            validation_error_percent=error,
            validation_log_loss=loss,
        )
        self.records.append(record)
        self.iterations += iterations
        if self.progress is not None:
            self.progress(record)
        return model, record

    def _measured(self, model: LogisticRegression, value: float) -> tuple[float, float, float]:
        """Objective, norm of its gradient by the weights, and the bound of its relative excess over the least value."""
        weights, logits = extract_weights(model)[0], compute_logits(model, self.x)
        penalty = (2.0 if self.n_classes == 2 else 1.0) / value
        losses = torch.nn.functional.cross_entropy(logits, torch.from_numpy(self.y), reduction="none")
        residuals = torch.softmax(logits, dim=1).numpy()
        residuals[np.arange(len(self.y)), self.y] -= 1.0
        gradient = residuals.T @ self.x + penalty * weights
        objective = float(losses.double().sum()) + 0.5 * penalty * float(np.square(weights).sum())
        squared = float(np.square(gradient).sum())
        return objective, math.sqrt(squared), squared / (2.0 * penalty) / max(objective, np.finfo(np.float64).tiny)

    def _judged(self, model: LogisticRegression, x: Array, y: Array) -> tuple[float, float]:
        logits, labels = compute_logits(model, x), torch.from_numpy(y)
        known = labels >= 0
        wrong = float((logits.argmax(dim=1) != labels).double().mean())
        loss = torch.nn.functional.cross_entropy(logits[known].double(), labels[known]) if bool(known.any()) else None
        return 100.0 * wrong, math.nan if loss is None else float(loss)

    def _key(self, record: PathPoint) -> tuple[float, ...]:
        return make_choice_key(self.select, record.validation_error_percent, record.validation_log_loss, record.C)


def extract_weights(model: LogisticRegression) -> tuple[Array, Array]:
    """Weights (n_classes, dim) and intercepts; of two classes scikit-learn has the difference only."""
    weights, intercepts = model.coef_.astype(np.float64), model.intercept_.astype(np.float64)
    if len(weights) == 1:
        weights, intercepts = np.concatenate([-weights, weights]) / 2, np.concatenate([-intercepts, intercepts]) / 2
    return weights, intercepts


def compute_logits(model: LogisticRegression, x: Array) -> torch.Tensor:
    """Logits (n, n_classes) in the precision of the features."""
    weights, intercepts = extract_weights(model)
    return torch.from_numpy(x @ weights.T.astype(x.dtype) + intercepts.astype(x.dtype))


@dataclass(slots=True, eq=False)
class _CountedFit:
    """A fit and what it took."""

    record: PathPoint = None  # type: ignore[assignment]
    preparation: str = AS_THEY_ARE
    tried: list[dict[str, Any]] = field(default_factory=list)  # the best of each preparation
    records: list[PathPoint] = field(default_factory=list)
    iterations: int = 0
    products: int = 0

    def add(self, other: _CountedFit | RegularisationPath) -> None:
        """Counts what another one took, before this."""
        self.records = [*other.records, *self.records]
        self.iterations += other.iterations
        self.products += other.products


@dataclass(slots=True, eq=False)
class _PreparationFit:
    """The best penalty of one preparation."""

    key: tuple[float, ...]  # the lower the better
    penalty: float
    prepared: PreparedRows
    path: RegularisationPath
    found: PathFit | LocatedPenalty  # located ones are not yet fitted to the end


_MOST_FITS = 24
_HELD_OUT_SHARE = 0.2
_FEATURE_SIZES = 1e-140, 1e140  # whose squares float64 can hold
_PENALTIES = 1e-290, 1e290  # whose products and quotients with sums float64 can hold


class LogisticProbe(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Minimises ``0.5 / C * |W|^2 + sum of cross-entropies``, scikit-learn's objective, for the best C.

    The intercept is not penalised. For two classes W is the difference of their weights, as in scikit-learn, so that
    the same C means the same there and here.

    Converged means that no weights and intercepts have an objective that is lower than that of the fit by more than
    ``tol`` times it. That is a bound, for the objective with the best intercepts of given weights is strongly convex in
    these: what is missing is at most the squared norm of its gradient over twice the penalty 1 / C, and what the fit's
    intercepts cost against the best ones. With the default of 1e-4 the objective is typically above its least value by
    1e-5. (Scikit-learn's tolerance of 1e-4 ends far above that where regularisation is weak, and below where a problem
    is easy.)

    Every fit that counts, all but those of the walk described below, is measured in float64 from its weights and the
    features as they were given, whatever precision it was solved in: ``objective``, ``gap`` (the share above),
    ``gradient_norm`` and ``converged`` are the result, on any processor. A fit that does not converge in float32 goes
    on in float64. Convergence is impossible where the penalty is below the rounding of the loss, with C times the
    squared size of the features above some 1e20: such a fit ends where float64 gets no lower, and is reported as not
    converged. Otherwise the size of the features only changes what a C means.

    Parameters
    ----------
    Cs : int, sequence of float, or None
        A sequence: exactly these are fitted, each until it has converged. A number, or None for 24: the search may fit
        so many. It walks by powers of ten from a penalty that leaves next to nothing of the features towards none, ends
        when validation is past its best by one value of C (by log loss; two by error), but not before half of the
        features' directions count and the probe beats guessing; or when the training images are fitted to 1e-5 nats
        each, or, where they are the validation images too, without an error. It goes the other way if the first was the
        best. These fits stop at 3e-3 (``tol`` of their row in ``path_``) as float32 sees it. A later, second optimum
        would be missed. Then the best C between the best three is interpolated and fitted until it has converged.
    select : {"error", "log_loss"}
        What is minimised on the validation images. Of equal errors the lower log loss wins, then stronger
        regularisation.
    C : float, optional
        This one, and no path.
    tol : float
        See above.
    stop : {"convergence", "scikit-learn"}
        The second fits every C by scikit-learn's lbfgs, from zero and with its tolerance, for comparison with numbers
        that were measured so; slow, and away from the optimum by an accident of that tolerance. Where it
        would end at zero, by small features of many classes, they are refused.
    max_iter : int
        Per C; ``report_["converged"]`` says whether it was enough.
    precision : {"float32", "float64"}
        Of the matrix products on the way; sums over images are always float64. The same images may get another C on
        another machine, within what the early stops of the walk leave open.
    preparations : sequence of str
        Of the features (:mod:`zoo.evaluation.scaling`): "as they are", "standardised", "whitened 0.1" with another
        shrinkage. Each has its own path of C; the fit that ``select`` finds best on the validation images counts. C is
        then of the prepared features, the coefficients of the unscaled features.
    folds : int
        Of the cross-validation that chooses C and preparation where there is no validation data, each class and the
        copies and groups of images kept together; 0 holds out a fifth of the training images, stratified, instead. The
        probe is fitted on all of them afterwards.
    device : str, optional
        Of torch; None takes a GPU if there is one.
    seed : int
        Of the folds, or of the fifth that is held out.
    progress : callable, optional
        Called with every finished fit (:class:`zoo.evaluation.logistic_path.PathPoint`).

    Attributes
    ----------
    classes_ : array (n_classes,), ascending
    coef_, intercept_ : float64 arrays (n_classes, dim) and (n_classes,)
    report_ : dict
        Fit for JSON: the chosen C, how well it converged, what it cost, its validation error (percent) and log loss.
    path_ : list of dict
        The same for every C, in the order in which they were fitted. Validation images of a class without training
        images count as errors and have no log loss.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.array([[-2.0], [-1.0], [1.0], [2.0]])
    >>> probe = LogisticProbe(C=1.0).fit(x, np.array([3, 3, 7, 7]))
    >>> probe.predict(np.array([[-0.5], [0.5]]))
    array([3, 7])
    >>> probe.report_["converged"]
    True
    """

    def __init__(
        self,
        *,
        Cs: int | Sequence[float] | None = None,  # noqa: N803  (scikit-learn's name)
        select: str = "error",
        C: float | None = None,  # noqa: N803
        tol: float = 1e-4,
        stop: str = "convergence",
        max_iter: int = 1000,
        precision: str = "float32",
        preparations: Sequence[str] = (AS_THEY_ARE,),
        folds: int = 0,
        device: str | None = None,
        seed: int = 0,
        progress: Callable[[PathPoint], None] | None = None,
    ) -> None:
        self.Cs, self.select, self.C, self.tol, self.stop = Cs, select, C, tol, stop
        self.max_iter, self.precision, self.device = max_iter, precision, device
        self.preparations, self.folds, self.seed, self.progress = preparations, folds, seed, progress

    def fit(self, x: Any, y: Any, *, x_val: Any = None, y_val: Any = None, groups: Any = None) -> LogisticProbe:
        """Fits features (n, dim) to labels (n,).

        ``groups`` (n,) are numbers that rows share which one fold of the cross-validation has to have together.

        Raises
        ------
        DataError
            If features or labels are not what they must be: other shapes, NaN or infinity, one class only, a size
            whose square float64 cannot hold.
        QueryError
            If a parameter has no meaning, or C none for features of this size.
        """
        self._check()
        rows = check_finite_rows(x, "x")
        if extreme := find_extreme(rows):
            raise DataError(
                f"Row {extreme[0]} of x has {rows[extreme]:.3g} in column {extreme[1]}, so far from others that they "
                "would have no digits left; expected features of one scale: compute it again, or leave the row out."
            )
        labels = check_labels(y, len(rows), "y")
        self.classes_ = list_classes(labels)
        self.n_features_in_ = rows.shape[1]
        numbers = number_labels(labels, self.classes_)
        if groups is not None and np.shape(groups) != labels.shape:
            raise DataError(
                f"groups have the shape {np.shape(groups)}, expected {labels.shape}: a number for each row."
            )
        validation = None
        if has_validation(x_val, y_val):
            rows_val = check_finite_rows(
                check_width(check_rows(x_val, "x_val"), rows.shape[1], "x_val", "this fit"), "x_val"
            )
            validation = rows_val, number_labels(check_labels(y_val, len(rows_val), "y_val"), self.classes_)
        if self.stop == "scikit-learn":
            self._fit_held_out(self._fit_by_sklearn, rows, numbers, validation)
        elif self.C is None and validation is None and self.folds:
            self._fit_folds(rows, numbers, groups)
        else:
            if validation is not None and np.array_equal(validation[1], numbers) and np.array_equal(rows_val, rows):
                self._fit_held_out(self._fit_path, rows, numbers, (rows, numbers))
                is_settled = any(one["validation_error_percent"] == 0.0 for one in self.path_)
                if not is_settled or np.array_equal(self.predict(rows), labels):
                    return self
                validation = rows.view(), numbers  # rounding has brought an error back: the whole path, then
            self._fit_held_out(self._fit_path, rows, numbers, validation)
        return self

    def refit(self, x: Any, y: Any) -> LogisticProbe:
        """Fits features and labels at the C, and by the preparation, that ``report_`` has; the probe is one of these
        from then on.
        """
        preparations = (self.report_["preparation"],) if "preparation" in self.report_ else self.preparations
        return self.set_params(C=self.report_["C"], preparations=preparations).fit(x, y)  # type: ignore[no-any-return]

    def _fit_held_out(self, fit: Any, x: Array, y: Array, validation: tuple[Array, Array] | None) -> None:
        """Chooses on the validation data, or on rows held out for it, and then fits all rows."""
        if self.C is not None or validation is not None:
            found = fit(x, y, validation, self.C, self.preparations)
            n_val = 0 if validation is None else len(validation[0])
            unseen = 0 if validation is None else int((validation[1] < 0).sum())
            self._report(found.record, found, n_train=len(x), n_val=n_val, n_unseen_validation_labels=unseen)
            return
        out = select_held_out_mask(y, self.seed)
        chosen = fit(x[~out], y[~out], (x[out], y[out]), None, self.preparations)
        final = fit(x, y, None, chosen.record.C, (chosen.preparation,))
        final.add(chosen)
        final.tried = chosen.tried
        self._report(chosen.record, final, n_train=len(x), n_val=int(out.sum()), held_out_from_training=True)

    def _fit_folds(self, x: Array, y: Array, groups: Any) -> None:
        """Chooses by cross-validation, and then fits all rows."""
        folds = split_folds(y, self.folds, seed=self.seed, groups=None if groups is None else np.asarray(groups))
        ways = self._ways(x, y)
        with limit_threads(x.size * len(self.classes_)):
            located_by = tune_penalties(
                ways,
                self.preparations,
                folds=folds,
                values=self._values(None),
                most=self.Cs or _MOST_FITS,  # type: ignore[arg-type]
                **self._path_options(),
            )
        tried = {name: self._tried(name, found.key, c) for name, (found, c) in located_by.items()}
        name = min(located_by, key=lambda name: located_by[name][0].key)
        final = self._fit_path(x, y, None, located_by[name][1], (name,))
        final.tried = list(tried.values())
        chosen = replace(
            final.record, **{key: tried[name][key] for key in ("validation_error_percent", "validation_log_loss")}
        )
        self._report(chosen, final, n_train=len(x), n_val=sum(len(out) for _, out in folds), n_folds=len(folds))

    def _report(self, chosen: PathPoint, final: _CountedFit, **facts: Any) -> None:
        self.path_ = [_jsonable(record) for record in final.records]
        self.n_iter_ = max(1, final.record.iterations)
        self.report_ = {
            **_jsonable(final.record),
            "validation_error_percent": _number(chosen.validation_error_percent),
            "validation_log_loss": _number(chosen.validation_log_loss),
            "select": self.select,
            "stop": self.stop,
            "precision": self._precision,
            "n_unseen_validation_labels": 0,
            "held_out_from_training": False,
            **facts,
            "n_fits": len(final.records),
            "iterations_of_all": final.iterations,
            "products_of_all": final.products,
        }
        if self.folds or tuple(self.preparations) != (AS_THEY_ARE,):
            self.report_ |= {"preparation": final.preparation, "preparations": final.tried}

    def decision_function(self, x: Any) -> Array:
        """Logits; for two classes the difference of the second and the first.

        Products are made in the precision of the features, at least float32 (float64 also if the probe's is): those of
        float64 features do not depend on how the rows are batched, but for some 1e-15 of their size.

        Returns
        -------
        float64 (n, n_classes), or (n,) for two classes
        """
        logits = self._logits(x)
        difference: Array = logits[:, 1] - logits[:, 0] if len(self.classes_) == 2 else logits
        return difference

    def predict(self, x: Any) -> Array:
        """The most likely class of each row, (n,)."""
        places = self._logits(x).argmax(axis=1)
        predicted: Array = self.classes_[places]
        return predicted

    def predict_proba(self, x: Any) -> Array:
        """Probabilities (n, n_classes), float64."""
        return torch.softmax(torch.from_numpy(self._logits(x)), dim=1).numpy()

    def _ways(self, x: Array, y: Array) -> Preparations:
        device = torch.device(self.device or ("cuda" if torch.cuda.is_available() else "cpu"))
        dtype = torch.float64 if self.precision == "float64" else torch.float32
        ways = Preparations(x, y, n_classes=len(self.classes_), dtype=dtype, device=device)
        if not _FEATURE_SIZES[0] <= ways.scale <= _FEATURE_SIZES[1]:
            raise DataError(
                f"The features of x differ from their means by up to {ways.scale:.3g}, expected a size from "
                f"{_FEATURE_SIZES[0]:g} to {_FEATURE_SIZES[1]:g}, whose square float64 can hold: multiply them by a "
                "number."
            )
        return ways

    def _path_options(self) -> dict[str, Any]:
        return {
            "select": self.select,
            "tol": self.tol,
            "max_iterations": self.max_iter,
            "progress": self.progress,
        }

    def _fit_path(
        self,
        x: Array,
        y: Array,
        validation: tuple[Array, Array] | None,
        c: float | None,
        preparations: Sequence[str],
    ) -> _CountedFit:
        ways = self._ways(x, y)
        spent = _CountedFit()  # by preparations that others beat
        best: _PreparationFit | None = None
        with limit_threads(x.size * len(self.classes_)):
            for name in preparations:
                one = self._candidate(ways, name, validation, c)
                spent.tried.append(self._tried(name, one.key, one.path.c_times_penalty / one.penalty))
                if best is None:
                    best = one
                elif one.key < best.key:
                    spent.add(best.path)
                    best = one
                else:
                    spent.add(one.path)
                if is_settled(one.path, one.key[0]):
                    break
                del one  # its rows are as large as the features
            assert best is not None
            fit = finish_fit(best.path, best.found) if isinstance(best.found, LocatedPenalty) else best.found
        assert fit.weights is not None  # for it counts
        spent.add(best.path)
        spent.record, spent.preparation = fit.record, best.prepared.name
        weights = ways.weights(best.prepared, fit.weights).cpu()
        self._precision = self.precision
        self._adopt(weights[:, :-1], weights[:, -1], ways.mean, ways.scale)
        return spent

    def _candidate(
        self, ways: Preparations, name: str, validation: tuple[Array, Array] | None, c: float | None
    ) -> _PreparationFit:
        prepared, path = ways.path(name, validation, **self._path_options())
        penalties = [_penalty(value, path.c_times_penalty, prepared.basis.scale) for value in self._values(c)]
        if not penalties:
            found = locate_penalty(path, self.Cs or _MOST_FITS)  # type: ignore[arg-type]
            path.narrow()
            return _PreparationFit(found.key, found.penalty, prepared, path, found)
        fit = path.along(penalties) if c is None else path.towards(*penalties)
        return _PreparationFit(path.key(fit), fit.point.penalty, prepared, path, fit)

    def _tried(self, name: str, key: tuple[float, ...], c: float) -> dict[str, Any]:
        error, log_loss = key[:2] if self.select == "error" else key[1::-1]
        return {
            "preparation": name,
            "C": c,
            "validation_error_percent": _number(error),
            "validation_log_loss": _number(log_loss),
        }

    def _fit_by_sklearn(
        self,
        x: Array,
        y: Array,
        validation: tuple[Array, Array] | None,
        c: float | None,
        preparations: Sequence[str],
    ) -> _CountedFit:
        search = ScikitLearnFits(
            x,
            y,
            n_classes=len(self.classes_),
            validation=validation,
            select=self.select,
            max_iterations=self.max_iter,
            progress=self.progress,
        )
        search.require_gradient()
        if c is not None:
            model, record = search.fitted(c)
        elif values := self._values(c):
            model, record = search.along(values)
        else:
            model, record = search.searched(self.Cs or _MOST_FITS)  # type: ignore[arg-type]
        weights, intercepts = (torch.from_numpy(one) for one in extract_weights(model))
        self._precision = str(x.dtype)
        self._adopt(weights, intercepts, torch.zeros(x.shape[1], dtype=torch.float64), 1.0)
        return _CountedFit(
            record=record,
            preparation=AS_THEY_ARE,
            records=search.records,
            iterations=search.iterations,
            products=2 * search.iterations,
        )

    def _adopt(self, weights: torch.Tensor, intercepts: torch.Tensor, mean: torch.Tensor, scale: float) -> None:
        """Takes over a fit of centred, scaled features; predictions are made in them, so that large means cost no
        digits.
        """
        self._weights, self._intercepts, self._mean, self._scale = weights, intercepts, mean, scale
        self.coef_ = (weights / scale).numpy()
        self.intercept_ = intercepts.numpy() - self.coef_ @ mean.numpy()

    def fitted_arrays(self) -> dict[str, Any]:
        """What predictions are made with, for ``numpy.savez``."""
        of_fit = {"weights": self._weights, "intercepts": self._intercepts, "mean": self._mean, "scale": self._scale}
        return {**of_fit, "classes": self.classes_, "precision": self._precision}

    def adopt_fit(self, arrays: Mapping[str, Any], report: dict[str, Any]) -> None:
        """Takes over a fit that was kept, by its ``fitted_arrays`` and its report."""
        self.classes_, self._precision, self.report_ = arrays["classes"], str(arrays["precision"]), report
        weights, intercepts, mean = (torch.from_numpy(arrays[name]) for name in ("weights", "intercepts", "mean"))
        self.n_features_in_ = weights.shape[1]
        self._adopt(weights, intercepts, mean, float(arrays["scale"]))

    def _logits(self, x: Any) -> Array:
        check_is_fitted(self)
        rows = check_width(check_rows(x, "x"), self.n_features_in_, "X", type(self).__name__)
        out = np.empty((rows.shape[0], len(self.classes_)))
        for start in range(0, len(out), BLOCK_ROWS):
            some = check_finite_rows(rows[start : start + BLOCK_ROWS], "x", first=start)
            is_wide = some.dtype == np.float64 or self._precision == "float64"
            weights = self._weights if is_wide else self._weights.float()
            scaled = centre_and_scale(some, self._mean, self._scale, weights)
            out[start : start + len(some)] = ((scaled @ weights.T).double() + self._intercepts).numpy()
        return out

    def _values(self, c: float | None) -> tuple[float, ...]:
        """The values of C that are to be fitted; none where they are to be searched."""
        if c is not None:
            return (c,)
        return tuple(self.Cs) if isinstance(self.Cs, list | tuple | np.ndarray) else ()

    def _check(self) -> None:
        for name, allowed in (
            ("select", ("error", "log_loss")),
            ("stop", ("convergence", "scikit-learn")),
            ("precision", ("float32", "float64")),
        ):
            if getattr(self, name) not in allowed:
                raise QueryError(f"{name} is {getattr(self, name)!r}, expected one of {', '.join(map(repr, allowed))}.")
        for name in self.preparations:
            parse_strength(name)
        if not len(self.preparations) or (self.C is not None and len(self.preparations) > 1):
            expected = "one or more" if self.C is None else "one, whose C is given"
            raise QueryError(f"preparations are {list(self.preparations)}, expected {expected}.")
        if self.stop == "scikit-learn" and (tuple(self.preparations) != (AS_THEY_ARE,) or self.folds):
            raise QueryError(
                "stop 'scikit-learn' fits unscaled features, with rows held out; expected preparations "
                f"[{AS_THEY_ARE!r}] and no folds, as zoo-logistic-2 has them."
            )
        if not (_is_number(self.folds, Integral) and (self.folds == 0 or self.folds >= 2)):
            raise QueryError(f"folds is {self.folds!r}, expected 0 or a whole number from 2 on.")
        several = self._values(None)
        if self.Cs is not None and not several and not (_is_number(self.Cs, Integral) and self.Cs >= 3):  # type: ignore[operator]
            raise QueryError(f"Cs is {self.Cs!r}, expected 3 fits or more, values of C, or None for {_MOST_FITS} fits.")
        values = several + (() if self.C is None else (self.C,))
        for name, value in [("C", value) for value in values] + [("tol", self.tol)]:
            if not (_is_number(value, Real) and math.isfinite(value) and value > 0):
                raise QueryError(f"{name} is {value!r}, expected a finite number above 0.")
        if not (_is_number(self.max_iter, Integral) and self.max_iter > 0):
            raise QueryError(f"max_iter is {self.max_iter!r}, expected a whole number above 0.")


def select_held_out_mask(y: Array, seed: int) -> Array:
    """Mask of the rows C is chosen on: a fifth of every class, at least one image but never a class's only one."""
    draws = np.random.default_rng(seed).permutation(len(y))
    out = np.zeros(len(y), dtype=bool)
    for label in np.unique(y):
        of_class = draws[y[draws] == label]
        if len(of_class) > 1:
            out[of_class[: max(1, round(_HELD_OUT_SHARE * len(of_class)))]] = True
    if not out.any():
        raise DataError("No class has two images, so none can be held out to choose C on; pass x_val and y_val, or C.")
    return out


def _penalty(c: float, factor: float, scale: float) -> float:
    """The penalty of scaled features for a value of C."""
    penalty = float(factor) / float(c)
    if not _PENALTIES[0] <= penalty <= _PENALTIES[1]:
        raise QueryError(
            f"C is {c:g} where the features of x differ from their means by up to {scale:.3g}; expected C times the "
            f"square of that from {1 / _PENALTIES[1]:g} to {1 / _PENALTIES[0]:g}, which float64 can hold."
        )
    return penalty


def _jsonable(record: PathPoint) -> dict[str, Any]:
    return {name: _number(value) if isinstance(value, float) else value for name, value in asdict(record).items()}


def _is_number(value: object, kind: type) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool | np.bool_)


def _number(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
