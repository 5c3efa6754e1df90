"""The choice of the learning rate, and the training that it goes on with."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...errors import DataError
from ...optional import requires_extra
from .fitting import Fitting, Setting, trained_weights
from .training_state import KeptTraining, State, copied

with requires_extra("models", needed_for="Training a transfer"):
    from torch import nn


@dataclass(frozen=True, slots=True)
class Step:
    """How far a run is.

    Attributes
    ----------
    step : int
        Steps done, those at learning rates that were given up included.
    n_steps : int
        At most.
    validation_risk : float or None
        After this step, in the unit of the first metric; None if nobody looked.
    """

    step: int
    n_steps: int
    validation_risk: float | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Chosen:
    """A training that is over.

    Attributes
    ----------
    fitting : Fitting
        At the learning rate that was chosen.
    trials : list of dict
        What each learning rate had reached at the end of the tuning, in their order.
    earlier_s : float
        Seconds of the processes that worked on it before.
    """

    fitting: Fitting
    trials: list[dict[str, Any]]
    earlier_s: float


def fitted(
    setting: Setting,
    network: nn.Module,
    kept: KeptTraining,
    tell: Callable[[Step], None] | None,
    *,
    began_s: float,
) -> Chosen | None:
    """Trains at all learning rates, and to the end at the best; None if none gives finite losses.

    Parameters
    ----------
    setting : Setting
    network : nn.Module
        With the weights to begin with, on the device; has those of the last step afterwards.
    kept : KeptTraining
        From where it goes on, and where it is kept after steps.
    tell : callable, optional
        Told after every step.
    began_s : float
        When this process began with it, by the monotonic clock.
    """
    rates, n_tuning = setting.recipe.learning_rates, setting.n_tuning
    first = copied(trained_weights(network)) if len(rates) > 1 else {}
    found = kept.find()
    trials: list[dict[str, Any]] = [] if found is None else found["trials"]
    leader: State | None = None if found is None else found["leader"]
    earlier_s = 0.0 if found is None else found["seconds"]

    def advance(fitting: Fitting, until: int, *, before: int) -> None:
        """Goes on to a step; ``before`` steps were done at learning rates that are no longer trained."""

        def state() -> State:
            seconds = earlier_s + time.monotonic() - began_s
            return {"trials": trials, "leader": leader, "fitting": fitting.state(), "seconds": seconds}

        def after(risk: float | None) -> None:
            kept.keep(state)
            if tell is not None:
                tell(Step(before + fitting.step, (len(rates) - 1) * n_tuning + setting.n_steps, risk))

        fitting.advance(until, after)

    fitting: Fitting | None = None
    for number in range(len(trials), len(rates)):
        network.load_state_dict(first, strict=False)
        fitting = Fitting(setting, network, rates[number])
        if found is not None:
            fitting.load(found["fitting"])
            found = None
        advance(fitting, n_tuning, before=number * n_tuning)
        trials.append(_trial(fitting))
        if _best(trials) == number and number + 1 < len(rates):
            leader = copied(fitting.state())
    best = _best(trials)
    if best is None:
        return None
    if fitting is None or best + 1 < len(rates):
        fitting = Fitting(setting, network, rates[best])
        if leader is not None:
            fitting.load(leader)
    if found is not None:  # of the training after the choice
        fitting.load(found["fitting"])
    leader = None
    advance(fitting, setting.n_steps, before=(len(rates) - 1) * n_tuning)
    return Chosen(fitting=fitting, trials=trials, earlier_s=earlier_s)


def none_is_finite(setting: Setting, *, data: str) -> DataError:
    """The sentence for :func:`fitted` that gave nothing."""
    tried = ", ".join(f"{rate:g}" for rate in setting.recipe.learning_rates)
    return DataError(
        f"Training on {len(setting.train):,} images of {data!r} in {setting.recipe.precision} gives losses that are "
        f"not finite, at every learning rate of the recipe ({tried}); expected finite ones, so check weights and "
        "targets, or give it smaller learning rates."
    )


def _trial(fitting: Fitting) -> dict[str, Any]:
    step, risk, loss = fitting.history[-1]
    finite = not fitting.diverged
    return {
        "learning_rate": fitting.learning_rate,
        "validation_risk": risk if finite else None,
        "validation_loss": loss if finite else None,
        "diverged_at_step": None if finite else int(step),
    }


def _best(trials: list[dict[str, Any]]) -> int | None:
    """The number of the best; of equals the first."""
    ranks = [
        (trial["validation_risk"], trial["validation_loss"], number)
        for number, trial in enumerate(trials)
        if trial["diverged_at_step"] is None
    ]
    return min(ranks)[2] if ranks else None
