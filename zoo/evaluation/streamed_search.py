"""The course of a full-shot fit: rounds of trials on a part of the data, then one training on all of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..errors import DataError
from .streamed_rows import Labelled, scanned
from .streamed_space import Candidate, Space, proposed, rounds
from .streamed_state import Kept, State, Trial, candidate_of, trial_of
from .streamed_training import Setting, Trained, evaluated, train

TUNING, FINAL = 0, 1  # stages


@dataclass(frozen=True, slots=True, kw_only=True)
class PassProgress:
    """How far a fit is; told after every epoch."""

    stage: str  # "tuning" or "final"
    n_trials_done: int
    n_trials: int
    n_candidates: int  # that are trained in this pass
    epoch: int  # that are done
    epochs: int


@dataclass(frozen=True, eq=False, kw_only=True)
class Search:
    """What to search, how, and whom to tell; see :class:`zoo.evaluation.streamed.StreamedProbe`."""

    space: Space
    n_trials: int
    n_startup_trials: int
    candidates_per_pass: int
    standard_first: bool
    seed: int
    kept: Kept
    progress: Callable[[PassProgress], None] | None


def tuned(search: Search, data: Labelled, validation: Labelled, setting: Setting) -> list[Trial]:
    """All trials, each trained on ``data`` and scored on ``validation``; those that are kept are not repeated."""
    moments, trials = scanned(data), search.kept.trials()
    for numbers in rounds(search.n_trials, search.n_startup_trials, search.candidates_per_pass):
        if numbers.stop <= len(trials):
            continue
        candidates = proposed(
            search.space,
            numbers,
            [(candidate_of(trial), trial["validation_error_percent"]) for trial in trials],
            seed=search.seed,
            n_startup=search.n_startup_trials,
            standard_first=search.standard_first,
        )
        name = f"trials {numbers.start} to {numbers.stop - 1}"
        done = _trained(search, name, data, candidates, setting, len(trials))
        scores = evaluated(done, validation, moments, setting)
        for one, (error, log_loss) in zip(done, scores, strict=True):
            trials.append(
                trial_of(
                    one.candidate, error=error, log_loss=log_loss, train_loss=one.train_loss,
                    diverged_at_epoch=one.diverged_at_epoch if one.diverged_at_epoch or error is not None
                    else setting.epochs,
                )
            )  # fmt: skip
        search.kept.keep_trials(trials)
    return trials


def finished(search: Search, trials: Sequence[Trial], data: Labelled, setting: Setting) -> tuple[int, Trained]:
    """The final training: by the best settings that do not diverge on all data, and which trial's they are.

    Of trials with the same validation error the one with the smaller log loss is better, then the earlier one.

    Raises
    ------
    DataError
        If all of them diverge.
    """
    ranked = sorted(
        (trial["validation_error_percent"], trial["validation_log_loss"] or 0.0, number)
        for number, trial in enumerate(trials)
        if trial["validation_error_percent"] is not None
    )
    for _, _, number in ranked:
        name = f"final training by the settings of trial {number}"
        (one,) = _trained(search, name, data, [candidate_of(trials[number])], setting, len(trials))
        if one.diverged_at_epoch is None:
            return number, one
    raise DataError(
        f"The trainings of all {len(trials)} trials diverged, expected one at least to stay finite: the features or "
        "learning_rate_per_256 are too large; try batch_norm=(True,)."
    )


def _trained(
    search: Search, name: str, data: Labelled, candidates: Sequence[Candidate], setting: Setting, n_trials_done: int
) -> list[Trained]:
    """One pass after the other over the data, kept and told of."""

    def after_epoch(epoch: int, state: Callable[[], State]) -> None:
        search.kept.keep_training(name, state, at_once=setting.stage == FINAL and epoch == setting.epochs)
        if search.progress is not None:
            search.progress(
                PassProgress(
                    stage=("tuning", "final")[setting.stage],
                    n_trials_done=n_trials_done,
                    n_trials=search.n_trials,
                    n_candidates=len(candidates),
                    epoch=epoch,
                    epochs=setting.epochs,
                )
            )

    return train(data, candidates, setting, began=search.kept.training(name), after_epoch=after_epoch)
