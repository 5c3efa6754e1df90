"""The search space of a full-shot probe, and the proposals of what to try next.

The space, the sampler and the settings that are tried first are those of the published evaluation (Dubois et al. 2023,
Appendix C.3 and the configuration published with it).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from ..errors import QueryError
from ..optional import requires_extra

with requires_extra("evaluate", needed_for="Tuning probes"):
    import numpy as np
    import optuna

OPTIMIZERS = ("adam", "sgd", "lars")
SCHEDULES = ("multistep", "cosine", "warmcosine", "constant")
_ADAM_SHARE = 0.01  # of the learning rate, so that one range suits all optimizers
_LARGEST_SETTING = 1e30  # that float32 has room for
_WORST_PERCENT = 100.0  # reported for a training that diverged


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """Settings of one training."""

    learning_rate_per_256: float  # to be multiplied by batch_size / 256, and by 0.01 for Adam
    weight_decay: float
    batch_size: int
    batch_norm: bool
    optimizer: str
    schedule: str

    @property
    def learning_rate(self) -> float:
        """The largest of the schedule."""
        share = _ADAM_SHARE if self.optimizer == "adam" else 1.0
        return self.learning_rate_per_256 * self.batch_size / 256 * share


# Settings of well-known linear evaluations, tried before anything is drawn
STANDARD = tuple(
    Candidate(**dict(zip(Candidate.__dataclass_fields__, settings, strict=True)))  # type: ignore[arg-type]
    for settings in (
        (0.3, 1e-6, 2048, False, "sgd", "warmcosine"),
        (0.1, 1e-6, 512, False, "adam", "multistep"),
        (0.01, 1e-4, 512, True, "sgd", "multistep"),  # VISSL
        (0.02, 2e-8, 4096, False, "lars", "cosine"),  # SimSiam
        (0.1, 2e-8, 1024, False, "sgd", "cosine"),  # MoCo
        (0.001, 2.1e-8, 1024, False, "sgd", "cosine"),  # DINO
    )
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
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
    def _sizes(self) -> list[int]:
        return sorted(set(self.batch_size))

    @property
    def distributions(self) -> dict[str, optuna.distributions.BaseDistribution]:
        """For Optuna; of the batch size its index in ascending order, for sizes have an order."""
        floats, choices = optuna.distributions.FloatDistribution, optuna.distributions.CategoricalDistribution
        return {
            "batch_size": optuna.distributions.IntDistribution(0, len(self._sizes) - 1),
            "learning_rate_per_256": floats(*self.learning_rate_per_256, log=True),
            "weight_decay": floats(*self.weight_decay, log=True),
            "optimizer": choices(self.optimizer),
            "schedule": choices(self.schedule),
            "batch_norm": choices(self.batch_norm),
        }

    def parameters(self, candidate: Candidate) -> dict[str, Any]:
        return {**asdict(candidate), "batch_size": self._sizes.index(candidate.batch_size)}

    def candidate(self, parameters: Mapping[str, Any]) -> Candidate:
        return Candidate(**{**parameters, "batch_size": self._sizes[parameters["batch_size"]]})

    def __contains__(self, candidate: Candidate) -> bool:
        ranges = (self.learning_rate_per_256, self.weight_decay)
        values = (candidate.learning_rate_per_256, candidate.weight_decay)
        return (
            all(low <= value <= high for (low, high), value in zip(ranges, values, strict=True))
            and candidate.batch_size in self.batch_size
            and candidate.batch_norm in self.batch_norm
            and candidate.optimizer in self.optimizer
            and candidate.schedule in self.schedule
        )


def rounds(n_trials: int, n_startup: int, at_once: int) -> list[range]:
    """Numbers of the trials of each round.

    The first ``n_startup`` are drawn without looking at results, so that they may come in rounds of any size; from then
    on a round learns from all rounds before it.

    >>> rounds(30, 20, 10)
    [range(0, 10), range(10, 20), range(20, 30)]
    >>> rounds(7, 3, 4)
    [range(0, 3), range(3, 7)]
    """
    spans = ((0, min(n_startup, n_trials)), (min(n_startup, n_trials), n_trials))
    return [range(a, min(a + at_once, end)) for first, end in spans for a in range(first, end, at_once)]


def proposed(
    space: Space,
    numbers: Sequence[int],
    earlier: Sequence[tuple[Candidate, float | None]],
    *,
    seed: int,
    n_startup: int,
    standard_first: bool,
) -> list[Candidate]:
    """The candidates of a round with these ``numbers``, from those of earlier rounds and their errors in percent.

    The tree-structured Parzen estimator (multivariate) proposes one candidate after the other; those that are not yet
    trained count as bad ones ("constant liar"), so that the next one is sought elsewhere. An error of None is of a
    training that diverged. The first ``n_startup`` trials are drawn at random, after those of :data:`STANDARD` in the
    space, if ``standard_first``. A proposal depends on the seed, its number and the earlier results, not on what this
    process did before.
    """
    first = [candidate for candidate in STANDARD if candidate in space] if standard_first else []
    distributions = space.distributions
    with _quiet():
        study = optuna.create_study()
        for candidate, error in earlier:
            study.add_trial(
                optuna.trial.create_trial(
                    params=space.parameters(candidate),
                    distributions=distributions,
                    value=_WORST_PERCENT if error is None else error,
                )
            )
        found = []
        for number in numbers:
            if number < len(first):
                study.enqueue_trial(space.parameters(first[number]))
            words = np.random.SeedSequence([seed, number]).generate_state(1)
            study.sampler = optuna.samplers.TPESampler(
                seed=int(words[0]),
                n_startup_trials=n_startup if number >= n_startup else len(earlier) + len(numbers) + 1,
                multivariate=True,
                constant_liar=True,
            )
            found.append(space.candidate(study.ask(distributions).params))
    return found


@contextmanager
def _quiet() -> Iterator[None]:
    """Silences Optuna's line a study and its warning that some options may change."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            yield
    finally:
        optuna.logging.set_verbosity(before)
