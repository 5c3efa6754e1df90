"""A full-shot linear probe that is tuned and trained by gradient descent, on features that need not fit in memory.

After the published evaluation (Dubois et al. 2023, Appendix C.3), without its third optimizer, LARS: settings are tuned
on a tenth of the data by 30 trials of the tree-structured Parzen estimator, and the best are used once on all data, 100
epochs each time. Many candidates are trained in the same pass over the data (:mod:`.streamed_training`).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

from ..errors import DataError, QueryError
from ..optional import require_extra
from .arrays import Array
from .streamed_training import (
    OPTIMIZERS,
    SCHEDULES,
    FeatureMoments,
    Hyperparameters,
    LabelledRows,
    PassSettings,
    TrainedCandidate,
    check_labelled_sets,
    compute_moments,
    compute_normalisation,
    evaluate_candidates,
    keep_groups_together,
    make_writable,
    select_stratified,
    train,
    wrap_unlabelled_rows,
)

with require_extra("evaluate", needed_for="Training probes"):
    import numpy as np
    import optuna
    import torch
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.utils.validation import check_is_fitted

Trial: TypeAlias = dict[str, Any]
TUNING, FINAL = 0, 1  # stages
_LARGEST_SETTING = 1e30  # that float32 has room for
_WORST_PERCENT = 100.0  # reported for a training that diverged


# Settings of well-known linear evaluations, tried before anything is drawn
STANDARD = tuple(
    Hyperparameters(**dict(zip(Hyperparameters.__dataclass_fields__, settings, strict=True)))  # type: ignore[arg-type]
    for settings in (
        (0.3, 1e-6, 2048, False, "sgd", "warmcosine"),
        (0.1, 1e-6, 512, False, "adam", "multistep"),
        (0.01, 1e-4, 512, True, "sgd", "multistep"),  # VISSL
        (0.1, 2e-8, 1024, False, "sgd", "cosine"),  # MoCo
        (0.001, 2.1e-8, 1024, False, "sgd", "cosine"),  # DINO
    )
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSpace:
    """Ranges to draw from, the logarithm uniformly, and choices, each equally often."""

    learning_rate_per_256: tuple[float, float]
    weight_decay: tuple[float, float]
    batch_size: tuple[int, ...]
    batch_norm: tuple[bool, ...]
    optimizer: tuple[str, ...]
    schedule: tuple[str, ...]

    def __post_init__(self) -> None:
        for name in ("learning_rate_per_256", "weight_decay"):
            bounds = getattr(self, name)
            if len(bounds) != 2 or not 0 < bounds[0] <= bounds[1] <= _LARGEST_SETTING:
                raise QueryError(
                    f"{name} is {bounds}, expected two numbers with 0 < lowest <= highest <= {_LARGEST_SETTING:.0e}."
                )
        for name, known in (("optimizer", OPTIMIZERS), ("schedule", SCHEDULES)):
            chosen = getattr(self, name)
            if not chosen or not set(chosen) <= set(known):
                raise QueryError(f"{name} is {chosen}, expected at least one of {', '.join(known)}.")
        if not self.batch_size or min(self.batch_size) < 2:
            raise QueryError(f"batch_size is {self.batch_size}, expected at least one size of 2 rows or more.")
        if not self.batch_norm:
            raise QueryError("batch_norm is empty, expected True, False or both.")

    @property
    def distributions(self) -> dict[str, optuna.distributions.BaseDistribution]:
        """For Optuna."""
        floats, choices = optuna.distributions.FloatDistribution, optuna.distributions.CategoricalDistribution
        return {
            "learning_rate_per_256": floats(*self.learning_rate_per_256, log=True),
            "weight_decay": floats(*self.weight_decay, log=True),
            "batch_size": choices(self.batch_size),
            "batch_norm": choices(self.batch_norm),
            "optimizer": choices(self.optimizer),
            "schedule": choices(self.schedule),
        }

    def __contains__(self, candidate: Hyperparameters) -> bool:
        ranges = (self.learning_rate_per_256, self.weight_decay)
        values = (candidate.learning_rate_per_256, candidate.weight_decay)
        return (
            all(low <= value <= high for (low, high), value in zip(ranges, values, strict=True))
            and candidate.batch_size in self.batch_size
            and candidate.batch_norm in self.batch_norm
            and candidate.optimizer in self.optimizer
            and candidate.schedule in self.schedule
        )


def create_study(space: SearchSpace, *, seed: int, n_startup: int, standard_first: bool) -> optuna.Study:
    """A search by the tree-structured Parzen estimator (multivariate) for the smallest error in percent.

    Candidates that are asked for together differ, for those without an answer count as bad ones ("constant liar"). The
    first ``n_startup`` are drawn at random, after those of :data:`STANDARD` in the space if ``standard_first``.
    """
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)  # without a line per study
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            sampler = optuna.samplers.TPESampler(
                seed=seed, n_startup_trials=n_startup, multivariate=True, constant_liar=True
            )
            study = optuna.create_study(sampler=sampler)
    finally:
        optuna.logging.set_verbosity(before)
    for candidate in STANDARD:
        if standard_first and candidate in space:
            study.enqueue_trial(asdict(candidate))
    return study


def parse_candidate(trial: Trial) -> Hyperparameters:
    return Hyperparameters(**{name: trial[name] for name in Hyperparameters.__dataclass_fields__})


@dataclass(frozen=True, slots=True, kw_only=True)
class PassProgress:
    """How far a fit is, after every epoch."""

    stage: str  # "tuning" or "final"
    n_trials_done: int
    n_trials: int
    n_candidates: int  # that are trained in this pass
    epoch: int  # that are done
    epochs: int


class StreamedProbe(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Linear softmax classifier, tuned by 30 trials on a tenth of the data and trained once on all.

    Deterministic by seed. The number is defined by the settings, not by convergence; where the data fits in memory,
    :class:`zoo.evaluation.logistic.LogisticProbe` is faster and has an optimum to converge to.

    Parameters
    ----------
    n_trials, epochs : int
        Trials of the search; epochs of every training, while tuning and at the end.
    tuning_share : float
        Of each class, in the training set of the trials; at least one row of each.
    learning_rate_per_256, weight_decay : pair of float
        Ranges. The learning rate is multiplied by batch_size / 256, and by 0.01 for Adam.
    batch_size, batch_norm, optimizer, schedule : tuple
        Choices. Batch normalisation (without learnt scale and shift) comes before the linear layer; at test time the
        moments of all training rows take the place of a batch's. The optimizers are "adam" and "sgd" (momentum 0.9);
        the schedules those of :func:`zoo.evaluation.streamed_training.compute_schedule_factor`.
    standard_first : bool
        Try the settings of five well-known linear evaluations first, as far as they lie in the space.
    n_startup_trials : int
        Trials before the estimator takes over, the standard ones among them.
    candidates_per_pass : int
        Trials that are proposed together and trained together.
    validation_share : float
        Of each class, held out from tuning where ``fit`` is given no validation data.
    window_bytes, block_rows : int
        Features in memory at a time, and neighbouring rows that stay together; they decide the order of rows.
    seed : int
    device : str, optional
        By default "cuda" if there is one.
    progress : callable, optional
        Called with a :class:`PassProgress` after each epoch.

    Attributes
    ----------
    classes_, coef_ (n_classes, dim), intercept_ (n_classes,)
        The probe as a plain linear map of features that are not normalised.
    report_ : dict
        ``chosen`` settings, ``validation_error_percent`` and ``validation_log_loss`` of the final probe (None without
        validation data), those of ``tuning``, ``n_trials``, ``n_diverged``, and every trial. A training whose loss is
        no longer finite is given up, reported as diverged, and counts as an error of 100 % in the search.
    """

    def __init__(
        self,
        *,
        n_trials: int = 30,
        epochs: int = 100,
        tuning_share: float = 0.1,
        learning_rate_per_256: tuple[float, float] = (1e-3, 1.0),
        weight_decay: tuple[float, float] = (1e-8, 2e-4),
        batch_size: tuple[int, ...] = (512, 1024, 2048, 4096),
        batch_norm: tuple[bool, ...] = (True, False),
        optimizer: tuple[str, ...] = ("adam", "sgd"),
        schedule: tuple[str, ...] = ("multistep", "cosine", "warmcosine"),
        standard_first: bool = True,
        n_startup_trials: int = 20,
        candidates_per_pass: int = 10,
        validation_share: float = 0.1,
        window_bytes: int = 1 << 30,
        block_rows: int = 8,
        seed: int = 0,
        device: str | None = None,
        progress: Callable[[PassProgress], None] | None = None,
    ) -> None:
        self.n_trials = n_trials
        self.epochs = epochs
        self.tuning_share = tuning_share
        self.learning_rate_per_256 = learning_rate_per_256
        self.weight_decay = weight_decay
        self.batch_size = batch_size
        self.batch_norm = batch_norm
        self.optimizer = optimizer
        self.schedule = schedule
        self.standard_first = standard_first
        self.n_startup_trials = n_startup_trials
        self.candidates_per_pass = candidates_per_pass
        self.validation_share = validation_share
        self.window_bytes = window_bytes
        self.block_rows = block_rows
        self.seed = seed
        self.device = device
        self.progress = progress

    def fit(self, x: Any, y: Any, *, x_val: Any = None, y_val: Any = None, groups: Any = None) -> StreamedProbe:
        """Tunes and trains.

        Parameters
        ----------
        x : float array or memory-mapped rows, shape (n, dim)
        y : array, shape (n,)
            Labels of two classes or more.
        x_val, y_val : optional
            What the settings are chosen on. Without them a share of the training data is held out from tuning; the
            final training uses all of it either way.
        groups : uint64 array, shape (n,), optional
            Rows with the same number are copies of one image; all of them are held out, or none.

        Raises
        ------
        DataError
            If shapes, labels or numbers are not as expected, or every training diverged.
        QueryError
            If an option is out of its range.
        """
        space = self._checked_space()
        self.classes_, data, given = check_labelled_sets(x, y, x_val, y_val)
        self.n_features_in_ = data.dim
        moments = compute_moments(data)
        if given is not None:
            compute_moments(given)  # refuses what is not finite before anything is trained
        trials = self._tuned(space, *self._tuning_data(data, given, groups))
        chosen, trained = self._final(trials, data)
        self._adopt(trained, moments)
        error, log_loss = (
            (None, None) if given is None else evaluate_candidates([trained], given, moments, self._setting(FINAL))[0]
        )
        best = trials[chosen]
        self.report_ = {
            "chosen": {**best, "trial": chosen},
            "validation_error_percent": error,
            "validation_log_loss": log_loss,
            "tuning_validation_error_percent": best["validation_error_percent"],
            "train_loss": trained.train_loss,
            "epochs": self.epochs,
            "n_train": len(data),
            "n_unseen_validation_labels": 0 if given is None else int((given.y < 0).sum()),
            "n_trials": len(trials),
            "n_diverged": sum(trial["diverged_at_epoch"] is not None for trial in trials),
            "trials": trials,
        }
        return self

    def predict(self, x: Any) -> Array:
        """Class of each row, shape (n,)."""
        parts = [logits.argmax(axis=1) for logits in self._logits(x)]
        found: Array = self.classes_[np.concatenate(parts)]
        return found

    def predict_proba(self, x: Any) -> Array:
        """Probability of each class, float64 (n, n_classes)."""
        parts = [torch.softmax(torch.from_numpy(logits).double(), dim=1).numpy() for logits in self._logits(x)]
        return np.concatenate(parts)

    def decision_function(self, x: Any) -> Array:
        """Logits (n, n_classes), of two classes the difference (n,); float32, or float64 if the features are."""
        logits = np.concatenate(list(self._logits(x)))
        return logits[:, 1] - logits[:, 0] if len(self.classes_) == 2 else logits

    def _checked_space(self) -> SearchSpace:
        for name in ("n_trials", "epochs", "candidates_per_pass", "block_rows", "window_bytes", "n_startup_trials"):
            lowest = 0 if name == "n_startup_trials" else 1
            if getattr(self, name) < lowest:
                raise QueryError(f"{name} is {getattr(self, name)}, expected at least {lowest}.")
        for name in ("tuning_share", "validation_share"):
            if not 0 < getattr(self, name) <= 1:
                raise QueryError(f"{name} is {getattr(self, name)}, expected a share above 0 and up to 1.")
        return SearchSpace(**{name: getattr(self, name) for name in SearchSpace.__dataclass_fields__})

    def _setting(self, stage: int) -> PassSettings:
        device = self.device or ("cuda" if torch.cuda.is_available() else "cpu")
        return PassSettings(
            epochs=self.epochs,
            n_classes=len(self.classes_),
            seed=self.seed,
            stage=stage,
            largest_batch=max(self.batch_size),
            window_bytes=self.window_bytes,
            block_rows=self.block_rows,
            device=torch.device(device),
        )

    def _tuned(self, space: SearchSpace, data: LabelledRows, validation: LabelledRows) -> list[Trial]:
        """All trials, each trained on ``data`` and scored on ``validation``."""
        moments, setting, trials = compute_moments(data), self._setting(TUNING), list[Trial]()
        study = create_study(space, seed=self.seed, n_startup=self.n_startup_trials, standard_first=self.standard_first)
        while len(trials) < self.n_trials:
            number = min(self.candidates_per_pass, self.n_trials - len(trials))
            asked = [study.ask(space.distributions) for _ in range(number)]
            done = self._trained(data, [Hyperparameters(**one.params) for one in asked], setting, len(trials))
            scores = evaluate_candidates(done, validation, moments, setting)
            for trial, one, (error, log_loss) in zip(asked, done, scores, strict=True):
                study.tell(trial, _WORST_PERCENT if error is None else error)
                trials.append(
                    {
                        **asdict(one.candidate),
                        "learning_rate": one.candidate.learning_rate,
                        "validation_error_percent": error,
                        "validation_log_loss": log_loss,
                        "train_loss": one.train_loss,
                        "diverged_at_epoch": one.diverged_at_epoch or (None if error is not None else self.epochs),
                    }
                )
        return trials

    def _final(self, trials: Sequence[Trial], data: LabelledRows) -> tuple[int, TrainedCandidate]:
        """The training on all data by the best settings that do not diverge there, and the number of their trial.

        Of trials with the same validation error the one with the smaller log loss is better, then the earlier one.
        """
        ranked = sorted(
            (trial["validation_error_percent"], trial["validation_log_loss"] or 0.0, number)
            for number, trial in enumerate(trials)
            if trial["validation_error_percent"] is not None
        )
        for _, _, number in ranked:
            (one,) = self._trained(data, [parse_candidate(trials[number])], self._setting(FINAL), len(trials))
            if one.diverged_at_epoch is None:
                return number, one
        raise DataError(
            f"The trainings of all {len(trials)} trials diverged, expected one at least to stay finite: the features "
            "or learning_rate_per_256 are too large; try batch_norm=(True,)."
        )

    def _trained(
        self, data: LabelledRows, candidates: Sequence[Hyperparameters], setting: PassSettings, n_trials_done: int
    ) -> list[TrainedCandidate]:
        """Trains candidates together, and reports every epoch."""

        def after_epoch(epoch: int) -> None:
            if self.progress is not None:
                self.progress(
                    PassProgress(
                        stage=("tuning", "final")[setting.stage],
                        n_trials_done=n_trials_done,
                        n_trials=self.n_trials,
                        n_candidates=len(candidates),
                        epoch=epoch,
                        epochs=setting.epochs,
                    )
                )

        return train(data, candidates, setting, after_epoch=after_epoch)

    def _tuning_data(
        self, data: LabelledRows, given: LabelledRows | None, groups: Any
    ) -> tuple[LabelledRows, LabelledRows]:
        """What the trials are trained and validated on."""
        if given is None:
            held_out = select_stratified(data.y, self.validation_share, seed=(self.seed, 1), keep_one=True)
            if groups is not None:
                held_out = keep_groups_together(held_out, data.y, np.asarray(groups))
            if not len(held_out):
                raise DataError("No class has two rows, so that none can be held out: give x_val and y_val.")
            given, data = data.subset(held_out), data.subset(np.setdiff1d(np.arange(len(data)), held_out))
        return data.subset(select_stratified(data.y, self.tuning_share, seed=(self.seed, 2), keep_one=False)), given

    def _adopt(self, trained: TrainedCandidate, moments: FeatureMoments) -> None:
        """Takes over the final probe as a map of unscaled features."""
        weight, bias = (one.detach().cpu().double() for one in (trained.linear.weight, trained.linear.bias))
        self._centre = np.zeros(self.n_features_in_)
        if trained.candidate.batch_norm:
            mean, scale = compute_normalisation(moments)
            self._centre, weight = mean.numpy(), weight * scale
        self.coef_ = weight.float().numpy()  # (n_classes, dim)
        self._offset = bias.float().numpy()  # of centred features: the rounding of large means stays out
        self.intercept_ = (bias - weight @ torch.from_numpy(self._centre)).float().numpy()

    def fitted_arrays(self) -> dict[str, Any]:
        """What predictions are made with, for ``numpy.savez``."""
        own = {"coefficients": self.coef_, "intercepts": self.intercept_, "centre": self._centre}
        return {**own, "offset": self._offset, "classes": self.classes_}

    def adopt_fit(self, arrays: Mapping[str, Any], report: dict[str, Any]) -> None:
        """Takes over a fit that was kept, by its ``fitted_arrays`` and its report."""
        self.coef_, self.intercept_, self._centre = (arrays[one] for one in ("coefficients", "intercepts", "centre"))
        self._offset, self.classes_, self.report_ = arrays["offset"], arrays["classes"], report
        self.n_features_in_ = self.coef_.shape[1]

    def _logits(self, x: Any) -> Iterator[Array]:
        check_is_fitted(self)
        data = wrap_unlabelled_rows(x, self.n_features_in_, type(self).__name__)
        device = self._setting(FINAL).device
        for _, block in data.finite_blocks(max(1, min(4096, (1 << 24) // len(self.classes_)))):
            x = make_writable(block).to(device)
            centre, weight, offset = (
                torch.as_tensor(one, dtype=x.dtype, device=device) for one in (self._centre, self.coef_, self._offset)
            )
            yield torch.addmm(offset, x - centre, weight.T).cpu().numpy()
