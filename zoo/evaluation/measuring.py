"""Errors of tuned probes in a label setting: which rows they see, how wrong they are, and how sure that is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import DataError, QueryError
from ..features import Features, require_comparable
from ..optional import requires_extra
from .intervals import N_DRAWS, Interval, error_draws, interval, outcomes_of
from .rows import not_finite
from .runs import ProbeRun, TunedProbe, run_probe
from .settings import LabelSetting, divide

with requires_extra("evaluate", needed_for="Measuring an encoder"):
    import numpy as np

if TYPE_CHECKING:
    from .kept import KeptRuns

N_SEEDS = 5  # of a setting with few labels; with three of them the interval knows too little of how they differ

__all__ = [
    "N_SEEDS",
    "ProbeRun",
    "SettingResult",
    "TunedProbe",
    "check_count",
    "check_features",
    "check_pair",
    "mean_error",
    "measure",
    "measure_seeds",
    "named_class",
    "named_image",
]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SettingResult:
    """The error in one label setting: a mean over seeds, in percent, with an interval over images and seeds."""

    setting: LabelSetting
    error: Interval
    runs: tuple[ProbeRun, ...]


def measure(
    train: Features,
    test: Features,
    setting: LabelSetting,
    *,
    seed: int,
    probe: Callable[[], TunedProbe],
    kept: KeptRuns | None = None,
) -> ProbeRun:
    """The error of one tuned probe on the test set.

    Parameters
    ----------
    train, test : Features
        Of one encoder.
    setting : LabelSetting
        As :func:`~zoo.evaluation.settings.label_setting` makes it; what the probe is tuned on is said there.
    seed : int
        Of the rows that are drawn.
    probe : callable
        Makes a new probe.
    kept : KeptRuns, optional
        Where runs that ended are found again.

    Raises
    ------
    DataError
        If the two sets cannot be used together, a feature is not finite, or a class has too few images.
    """
    check_pair(train, test)
    return _measured(train, test, setting, seed=seed, probe=probe, kept=kept)


def measure_seeds(
    train: Features,
    test: Features,
    setting: LabelSetting,
    *,
    probe: Callable[[], TunedProbe],
    n_seeds: int = N_SEEDS,
    seed: int = 0,
    n_bootstrap: int = N_DRAWS,
    kept: KeptRuns | None = None,
) -> SettingResult:
    """The mean error over seeds of the rows, with its 95 % interval.

    Parameters
    ----------
    train, test, setting, probe, kept
        As for :func:`measure`.
    n_seeds, seed : int
        The seeds are ``seed``, ``seed + 1``, ...; in "full" they differ only in what the probe is tuned on.
    n_bootstrap : int
        Draws of the bootstrap.

    Raises
    ------
    DataError
        As for :func:`measure`.
    QueryError
        If ``n_seeds`` is below 1.
    """
    check_count(n_seeds, what="seeds")
    check_pair(train, test)
    runs = tuple(_measured(train, test, setting, seed=seed + i, probe=probe, kept=kept) for i in range(n_seeds))
    return SettingResult(setting=setting, error=mean_error(runs, n_bootstrap=n_bootstrap, seed=seed), runs=runs)


def mean_error(runs: Sequence[ProbeRun], *, n_bootstrap: int = N_DRAWS, seed: int = 0) -> Interval:
    """The mean error of runs that were evaluated on the same images, in percent, with its 95 % interval."""
    wrong = outcomes_of(len(runs[0].correct), [(None, run.correct) for run in runs])
    draws = error_draws(wrong, {"error": range(len(runs))}, n_draws=n_bootstrap, seed=seed)
    return interval(sum(run.error_percent for run in runs) / len(runs), draws["error"])


def check_pair(train: Features, test: Features) -> None:
    """Refuses training and test features that no probe can be measured with.

    Raises
    ------
    DataError
        Says what is wrong with which of them.
    """
    require_comparable(train, test)
    if train.x.shape[1] != test.x.shape[1]:
        raise DataError(
            f"The training features have {train.x.shape[1]} dimensions and the test features {test.x.shape[1]}; "
            "expected the same: compute both with one encoder."
        )
    if (train.origin.split, test.origin.split) == ("val", "train"):
        raise DataError(
            f"The training features are of the part 'val' of {train.origin.dataset!r}, the test features of 'train'; "
            "expected the training images first."
        )
    if train.origin.images_hash == test.origin.images_hash:
        raise DataError(
            f"The training and the test features are of the same {len(train.y):,} images of {train.origin.dataset!r}; "
            "expected test images that no probe is trained on."
        )
    for features in (train, test):
        check_features(features)
    unknown = np.setdiff1d(test.y, train.y)
    if unknown.size:
        raise DataError(
            f"{int((test.y == unknown[0]).sum())} test images have the label {named_class(test, unknown[0])}, which no "
            "training image has; expected every class in both sets."
        )
    if len(np.unique(train.y)) < 2:
        raise DataError(
            f"All {len(train.y):,} training images have the label {named_class(train, train.y[0])}; expected at least "
            "two classes to tell apart."
        )


def check_features(features: Features) -> None:
    """Refuses features without a row, without a label or with a number that is not finite.

    Raises
    ------
    DataError
        Names the image.
    """
    where = f"of {features.origin.dataset!r} ({features.origin.split})"
    if not len(features.y):
        raise DataError(f"The features {where} have no row; expected at least one image.")
    unlabelled = np.flatnonzero(features.y < 0)
    if unlabelled.size:
        raise DataError(
            f"{unlabelled.size:,} images {where} have no label, the first is the image "
            f"{named_image(features, unlabelled[0])}; expected a label for each."
        )
    bad = not_finite(features.x)
    if bad is not None:
        raise DataError(
            f"The image {named_image(features, bad)} {where} has features that are not finite under "
            f"{features.origin.encoder!r}; check the image and the weights, then compute the features again."
        )


def check_count(n: int, *, what: str, fewest: int = 1) -> None:
    """Refuses a number of seeds or draws below the fewest that make sense.

    Raises
    ------
    QueryError
        If it is too small.
    """
    if n < fewest:
        raise QueryError(f"Asked for {n} {what}; expected at least {fewest}.")


def named_class(features: Features, label: Any) -> str:
    """A label in a sentence, by its name where there is one."""
    known = 0 <= int(label) < len(features.classes)
    return repr(features.classes[int(label)]) if known else str(int(label))


def named_image(features: Features, row: Any) -> str:
    """An image in a sentence, by its name where it has one, else by its row."""
    return repr(features.names[int(row)]) if len(features.names) else f"of row {int(row)}"


def _measured(
    train: Features,
    test: Features,
    setting: LabelSetting,
    *,
    seed: int,
    probe: Callable[[], TunedProbe],
    kept: KeptRuns | None,
) -> ProbeRun:
    parent, classes = train.origin.images_hash, train.classes
    division = divide(
        setting, train.y, n_test=len(test.y), seed=seed, parent=parent, classes=classes, contents=train.contents
    )  # fmt: skip
    return run_probe(probe(), train, test, division, setting=setting.name, split=setting.split, seed=seed, kept=kept)
