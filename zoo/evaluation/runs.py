"""One probe: tuned and trained on some rows of features, and evaluated on others."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from inspect import signature
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from ..datasets.contents import has_copies
from ..errors import DataError
from ..features import Features
from ..optional import requires_extra
from .rows import chosen_rows
from .settings import Division

with requires_extra("evaluate", needed_for="Measuring an encoder"):
    import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .kept import KeptRuns

    Indices = NDArray[np.int64]


class TunedProbe(Protocol):
    """What can be measured: a classifier of features that chooses its own settings on validation data.

    To be trained again at what it chose, it has a method ``refit(x, y)``, or is an estimator of scikit-learn's kind
    with a parameter ``C`` and the chosen one in ``report_["C"]``. One that has neither must, when ``fit`` is given no
    validation rows, hold out some of its rows for the choice by itself and then train on all of them; where it takes
    ``groups``, it is told which rows are copies of each other.
    """

    report_: dict[str, Any]  # after fit: what was chosen, and how the fit went

    def fit(self, x: Any, y: Any, *, x_val: Any = None, y_val: Any = None) -> Any:
        """Choose settings by the error on the validation rows, of probes trained on the training rows."""

    def predict(self, x: Any) -> Indices:
        """Labels, shape (n,)."""


@runtime_checkable
class Refittable(Protocol):
    """A probe that can be trained again with the settings that its last fit chose."""

    def refit(self, x: Any, y: Any) -> Any:
        """Train on these rows."""


@runtime_checkable
class Regularised(Protocol):
    """A probe whose one chosen setting is C, which it may also be given."""

    C: Any

    def get_params(self) -> dict[str, Any]:
        """Arguments that make another one like it."""


@runtime_checkable
class Resumable(Protocol):
    """A probe that keeps the state of a long fit in a folder, and goes on from there."""

    folder: Any  # None: keeps nothing


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ProbeRun:
    """One tuned probe and how wrong it was."""

    setting: str  # name of the label setting
    split: str  # what it was trained on and evaluated on, as in the rows of results/
    seed: int  # of the rows
    n_train: int  # labels that the probe was trained on
    n_tuning: int | None  # labels that its settings were chosen on; None if the probe held them out by itself
    refitted: bool  # those are among n_train: left out for the choice, then trained on too
    error_percent: float
    correct: NDArray[np.bool_]  # (n_evaluated,)
    evaluated: Indices | None  # rows of the evaluation set, None for all
    rows: dict[str, str]  # hashes of the training and evaluated rows, and of the tuning rows if they are known
    report: dict[str, Any]  # of the probe


def run_probe(
    probe: TunedProbe,
    train: Features,
    evaluation: Features,
    division: Division,
    *,
    setting: str,
    split: str,
    seed: int,
    evaluated: Indices | None = None,
    kept: KeptRuns | None = None,
) -> ProbeRun:
    """Tunes and trains a probe on rows of one set, and counts its errors on rows of another or the same.

    Parameters
    ----------
    probe : TunedProbe
        Gets the features as they are: nothing is centred or normalised here, so that nothing leaks.
    train, evaluation : Features
        Checked already.
    division : Division
        Rows of ``train``.
    setting, split, seed
        Kept with the run.
    evaluated : int64 array, optional
        Rows of ``evaluation``; all of them by default.
    kept : KeptRuns, optional
        Where the run is looked for, and kept; if that fails, ``kept.problems`` has the reason.
    """
    wanted = np.arange(len(evaluation.y), dtype=np.int64) if evaluated is None else evaluated
    own_choice = division.refits and not isinstance(probe, Refittable | Regularised)
    rows = {"train": _hash(division.train), "evaluated": _hash(wanted)}
    if not own_choice:
        rows["tuning"] = _hash(division.tuning)
    key = ""
    if kept is not None:
        apart = {"copies": "together"} if own_choice and has_copies(train.contents) else {}
        key = kept.key(
            train, evaluation, setting=setting, split=split, seed=seed, refits=division.refits, rows=rows, **apart
        )  # fmt: skip
        if (found := kept.find(key)) is not None:
            return found
        if isinstance(probe, Resumable) and probe.folder is None:
            probe.folder = kept.state_folder(key)
    trained, report = _trained(probe, train, division)
    correct = np.asarray(trained.predict(chosen_rows(evaluation.x, wanted))) == evaluation.y[wanted]
    run = ProbeRun(
        setting=setting,
        split=split,
        seed=seed,
        n_train=len(division.train),
        n_tuning=None if own_choice else len(division.tuning),
        refitted=division.refits,
        error_percent=100 * int((~correct).sum()) / len(correct),
        correct=correct,
        evaluated=evaluated,
        rows=rows,
        report=report,
    )
    if kept is not None:
        try:
            kept.keep(key, run)
        except DataError as error:  # a full disk takes no number away
            kept.problems.append(str(error))
    return run


def _trained(probe: TunedProbe, train: Features, division: Division) -> tuple[TunedProbe, dict[str, Any]]:
    """The probe to be evaluated, and what is to be known of it; what it was chosen on is in "choice"."""
    x, y = chosen_rows(train.x, division.train), train.y[division.train]
    x_val, y_val = chosen_rows(train.x, division.tuning), train.y[division.tuning]
    if not division.refits:
        probe.fit(x, y, x_val=x_val, y_val=y_val)
        return probe, dict(probe.report_)
    if not isinstance(probe, Refittable | Regularised):
        if train.contents is not None and "groups" in signature(probe.fit).parameters:
            probe.fit(x, y, groups=train.contents[division.train])  # type: ignore[call-arg]
        else:
            probe.fit(x, y)
        return probe, dict(probe.report_)
    probe.fit(chosen_rows(train.x, division.choice), train.y[division.choice], x_val=x_val, y_val=y_val)
    choice = dict(probe.report_)
    if isinstance(probe, Refittable):
        probe.refit(x, y)
        return probe, dict(probe.report_) | {"choice": choice}
    again: TunedProbe = type(probe)(**{**probe.get_params(), "C": choice["C"]})
    again.fit(x, y)
    return again, dict(again.report_) | {"choice": choice}


def _hash(rows: Indices) -> str:
    return blake2b(np.ascontiguousarray(rows, dtype="<i8").tobytes(), digest_size=16).hexdigest()
