"""Errors of tuned probes in a label setting: the rows they are trained and tuned on, their errors and intervals.

Dubois et al. 2023, Appendix C.3: the settings of a probe are chosen on training images that it is not trained on, at
most as many as the test set has, and never on the images that it is evaluated on. Few-shot probes are tuned on images
outside the setting, if there are as many as the test set has or ``TUNING_SHARE`` of the labels. Otherwise that share of
the labels is held out for the choice, and the probe is then trained on all labels. A probe with ``folds`` chooses by
cross-validation on its labels where tuning rows would be fewer than ``FEWEST_TUNING`` and than the labels. Tuning rows
never share a duplicate or a group (e.g. a patient) with the rows trained on, and intervals are over groups of test
images where there are any.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial
from hashlib import blake2b
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from zipfile import BadZipFile

from ..datasets.images import has_copies
from ..datasets.subsets import balanced, fraction, held_out
from ..errors import DataError, QueryError, format_count
from ..features import Features, require_comparable
from ..features.origin import TORCH, build_origin_document
from ..files import replace_file
from ..optional import require_extra
from .arrays import find_extreme, find_non_finite_row, select_rows
from .bootstrap import N_DRAWS, Interval, build_outcome_table, compute_drawn_interval, resample_errors
from .protocols import Protocol as ProbeProtocol

with require_extra("evaluate", needed_for="Measuring an encoder"):
    import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Indices = NDArray[np.int64]

N_SEEDS = 5  # of a setting with few labels; three determine their variance too poorly
TUNING_SHARE = 0.2  # of the labels, held out for the choice where a test set as large would take more
FEWEST_TUNING = 150  # rows, below which a probe that can cross-validates on its labels instead
CHOSEN = ("kept", "penalty", "C", "preparation")  # what reports call the settings that a probe has chosen
PUBLISHED_SETTINGS = ("full", "30-shot", "1%", "5-shot", "3-shot")
_SHOTS = re.compile(r"([1-9][0-9]*)-?shot")
_PERCENT = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s?%")


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelSetting:
    """How many labels a probe has."""

    name: str  # "full", "30-shot", "1%"
    split: str  # in the rows of results/: "train 30-shot -> val"
    n_per_class: int | None = None
    percent: float | None = None  # of the labels, each class alike

    @property
    def is_full(self) -> bool:
        return self.n_per_class is None and self.percent is None


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningSplit:
    """Rows of the training set, sorted: those a probe is trained on, and those its settings are chosen on."""

    train: Indices
    tuning: Indices
    refits: bool  # the tuning rows are part of the training rows, and left out for the choice alone

    @property
    def choice(self) -> Indices:
        """Rows that the probe is trained on while its settings are chosen."""
        return np.setdiff1d(self.train, self.tuning, assume_unique=True)


def label_setting(name: str) -> LabelSetting:
    """The setting with this name.

    Parameters
    ----------
    name : str
        "full" or "100%", any "K-shot" (labels per class) or any "P%" of the labels.

    Raises
    ------
    QueryError
        If the name says nothing of the kind, or a share is not above 0 and below 100 %.

    Examples
    --------
    >>> [label_setting(name).split for name in ("100%", "30-shot", "1.0 %")]
    ['train -> val', 'train 30-shot -> val', 'train 1% -> val']
    """
    folded = name.strip().casefold()
    if shots := _SHOTS.fullmatch(folded):
        plain = f"{shots[1]}-shot"
        return LabelSetting(name=plain, split=f"train {plain} -> val", n_per_class=int(shots[1]))
    share = _PERCENT.fullmatch(folded)
    if folded == "full" or (share and float(share[1]) == 100):
        return LabelSetting(name="full", split="train -> val")
    if share and 0 < float(share[1]) < 100:
        plain = f"{Decimal(share[1]).normalize():f}%"
        return LabelSetting(name=plain, split=f"train {plain} -> val", percent=float(share[1]))
    raise QueryError(
        f"There is no label setting {name!r}; expected 'full', labels per class as in '30-shot', or a share above 0 "
        "and at most 100 % as in '1%'."
    )


def divide(setting: LabelSetting, train: Features, *, n_test: int, seed: int) -> TuningSplit:
    """The rows that a probe is trained on in a setting, and those that its settings are chosen on.

    ``n_test`` is the number of test images, which the tuning rows mirror; ``seed`` is of both draws, and gives the same
    rows on every machine.
    """
    labels, joined = train.y, train.together
    rows = everything = np.arange(len(labels), dtype=np.int64)
    if setting.n_per_class is not None:
        rows = balanced(labels, setting.n_per_class, seed=seed, classes=train.classes).indices
    elif setting.percent is not None:
        rows = fraction(labels, setting.percent / 100, seed=seed).indices
    outside = np.setdiff1d(everything, rows, assume_unique=True)
    if joined is not None:
        outside = outside[~np.isin(joined[outside], joined[rows])]
    available = len(outside) - len(np.unique(labels[outside]))  # a held-out part leaves one image per class behind
    if available >= min(n_test, math.ceil(TUNING_SHARE * len(rows))):
        tuning = select_tuning_rows(train, outside, n=min(n_test, available), seed=seed)
        return TuningSplit(train=rows, tuning=tuning, refits=False)
    return divide_own(train, rows, n_test=n_test, seed=seed)


def divide_own(train: Features, rows: Indices, *, n_test: int, seed: int) -> TuningSplit:
    """A division whose tuning rows are some of the training rows."""
    n = min(n_test, math.ceil(TUNING_SHARE * len(rows)))
    return TuningSplit(train=rows, tuning=select_tuning_rows(train, rows, n=n, seed=seed), refits=True)


def select_tuning_rows(train: Features, rows: Indices, *, n: int, seed: int) -> Indices:
    """``n`` of some rows, sorted, as classes have shares; each class keeps one, and copies and groups are together."""
    contents, groups = (None if hashes is None else hashes[rows] for hashes in (train.contents, train.groups))
    drawn = held_out(train.y[rows], n, seed=seed, classes=train.classes, contents=contents, groups=groups)
    chosen: Indices = rows[drawn.indices]
    return chosen


class TunedProbe(Protocol):
    """A classifier of features that chooses its settings on validation data.

    To be trained again with what it chose, it has a method ``refit(x, y)``. One that has none must, when ``fit`` is
    given no validation rows, hold out some of its rows for the choice by itself and then train on all of them; if it
    takes ``groups``, it gets a number for each row that copies, and images of a group, share. One whose fits are to be
    found again has ``fitted_arrays()``, what it predicts with, and ``adopt_fit(arrays, report)``.
    """

    report_: dict[str, Any]  # after fit: what was chosen, and how the fit went

    def fit(self, x: Any, y: Any, *, x_val: Any = None, y_val: Any = None) -> Any:
        """Chooses settings by the error on the validation rows, of probes trained on the training rows."""

    def predict(self, x: Any) -> Any:
        """Labels, shape (n,)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeMaker:
    """Makes the probes of a protocol; what divides the labels is known before the module of the probe is imported."""

    protocol: ProbeProtocol
    module: str  # of this package
    device: str | None
    seed: int  # of their random draws, such as the order of rows
    known: Mapping[str, Any] = field(default_factory=dict)  # of the features, such as the channels of their maps

    def __call__(self) -> TunedProbe:
        probe: TunedProbe = getattr(import_module(f".{self.module}", __package__), self.protocol.probe)(
            **self.protocol.settings, **self.known, device=self.device, seed=self.seed
        )
        return probe

    @property
    def folds(self) -> int:
        """Of cross-validation; 0 of a probe that has none."""
        return int(self.protocol.settings.get("folds") or 0)

    @property
    def refits(self) -> bool:
        """Whether the probe is trained again with what it chose."""
        return self.protocol.probe in ("AttentiveProbe", "LogisticProbe")


def needs_cross_validation(probe: TunedProbe | ProbeMaker, *, n_tuning: int, n_train: int) -> bool:
    """Whether a probe chooses by cross-validation on its labels, because the tuning rows are too few."""
    return bool(getattr(probe, "folds", 0)) and n_tuning < min(FEWEST_TUNING, n_train)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ProbeRun:
    """One tuned probe and its errors."""

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
    fitted: TunedProbe | None = None  # the probe of all training rows, where it was not found in a cache of runs


def run_probe(
    probe: Callable[[], TunedProbe],
    train: Features,
    evaluation: Features,
    division: TuningSplit,
    *,
    split: str,
    seed: int,
    setting: str = "full",
    evaluated: Indices | None = None,
    cache: ProbeCache | None = None,
) -> ProbeRun:
    """Tunes and trains a probe on rows of ``train``, and counts its errors on rows of ``evaluation`` (by default all).

    The probe gets the features as they are: nothing is centred or normalised here, so that nothing leaks. If the run
    cannot be written to ``cache``, ``cache.problems`` has the reason.
    """
    wanted = np.arange(len(evaluation.y), dtype=np.int64) if evaluated is None else evaluated
    known = probe if isinstance(probe, ProbeMaker) else probe()
    chooses_alone = _chooses_alone(known, division)
    rows = {"evaluated": _hash(wanted), **_hashes(known, division)}
    key = ""
    if cache is not None:
        apart = {"copies": "together"} if chooses_alone and has_copies(train.contents) else {}
        if chooses_alone and train.groups is not None:
            apart["groups"] = "together"
        key = cache.key(
            train, evaluation, setting=setting, split=split, seed=seed, refits=division.refits, rows=rows, **apart
        )
        if (found := cache.find(key)) is not None:
            return found
    trained = fit_probe(known() if isinstance(known, ProbeMaker) else known, train, division, cache=cache)
    correct = np.asarray(trained.predict(select_rows(evaluation.x, wanted))) == evaluation.y[wanted]
    run = ProbeRun(
        setting=setting,
        split=split,
        seed=seed,
        n_train=len(division.train),
        n_tuning=None if chooses_alone else len(division.tuning),
        refitted=division.refits or chooses_alone,
        error_percent=100 * int((~correct).sum()) / len(correct),
        correct=correct,
        evaluated=evaluated,
        rows=rows,
        report=dict(trained.report_),
        fitted=trained if _has_all(division, train) else None,
    )
    if cache is not None:
        try:
            cache.store(key, run)
        except DataError as error:  # the measured number is valid even if the disk is full
            cache.problems.append(str(error))
    return run


def fit_probe(
    probe: TunedProbe,
    train: Features,
    division: TuningSplit,
    *,
    labels: NDArray[Any] | None = None,
    cache: ProbeCache | None = None,
) -> Any:
    """Tunes a probe on some rows and trains it by a division; its report has that of the choice in "choice".

    ``labels`` (n,) take the place of those of ``train``. A probe of all rows comes from ``cache`` if it is there.
    """
    facts = _hashes(probe, division) | ({} if labels is None else {"labels": _hash(labels)})
    fit = partial(_fit, probe, train, train.y if labels is None else labels, division)
    return _find_or_fit(probe, train, facts, fit, cache=cache if _has_all(division, train) else None)


def refit_probe(
    probe: TunedProbe, train: Features, rows: Indices, chosen: Mapping[str, Any], *, cache: ProbeCache | None = None
) -> Any:
    """Trains a probe on some rows with settings that a report names; it comes from ``cache`` if it is there."""
    settings = {name: chosen[name] for name in CHOSEN if name in chosen}

    def fit() -> None:
        probe.report_ = settings
        probe.refit(select_rows(train.x, rows), train.y[rows])  # type: ignore[attr-defined]

    return _find_or_fit(probe, train, {"train": _hash(rows), "chosen": settings}, fit, cache=cache)


def _find_or_fit(
    probe: TunedProbe,
    train: Features,
    facts: Mapping[str, Any],
    fit: Callable[[], None],
    *,
    cache: ProbeCache | None,
) -> TunedProbe:
    if cache is None or not hasattr(probe, "adopt_fit"):
        fit()
    elif not cache.find_fit(probe, train, facts):
        fit()
        cache.store_fit(probe, train, facts)
    return probe


def _has_all(division: TuningSplit, train: Features) -> bool:
    return len(division.train) == len(train.y)


def _hashes(probe: TunedProbe | ProbeMaker, division: TuningSplit) -> dict[str, str]:
    """Of the rows that decide a fit."""
    rows = {"train": _hash(division.train)}
    return rows if _chooses_alone(probe, division) else {**rows, "tuning": _hash(division.tuning)}


def _fit(probe: TunedProbe, train: Features, labels: NDArray[Any], division: TuningSplit) -> None:
    x, y = select_rows(train.x, division.train), labels[division.train]
    if _chooses_alone(probe, division):
        joined = train.together
        if joined is not None and "groups" in signature(probe.fit).parameters:
            probe.fit(x, y, groups=joined[division.train])  # type: ignore[call-arg]
        else:
            probe.fit(x, y)
        return
    tuning = {"x_val": select_rows(train.x, division.tuning), "y_val": labels[division.tuning]}
    if not division.refits:
        probe.fit(x, y, **tuning)
        return
    probe.fit(select_rows(train.x, division.choice), labels[division.choice], **tuning)
    choice = dict(probe.report_)
    probe.refit(x, y)  # type: ignore[attr-defined]
    probe.report_ = dict(probe.report_) | {"choice": choice}


def _chooses_alone(probe: TunedProbe | ProbeMaker, division: TuningSplit) -> bool:
    """Whether the probe gets no tuning rows, and makes its choice on its training rows by itself."""
    if needs_cross_validation(probe, n_tuning=len(division.tuning), n_train=len(division.train)):
        return True
    refits = probe.refits if isinstance(probe, ProbeMaker) else hasattr(probe, "refit")
    return division.refits and not refits


def _hash(numbers: NDArray[Any]) -> str:
    """Of rows or labels."""
    kind = "<f8" if numbers.dtype.kind == "f" else "<i8"
    return blake2b(np.ascontiguousarray(numbers, dtype=kind).tobytes(), digest_size=16).hexdigest()


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
    cache: ProbeCache | None = None,
    is_checked: bool = False,
) -> ProbeRun:
    """The error of one tuned probe on the test set.

    Parameters
    ----------
    train, test : Features
        Of one encoder.
    setting : LabelSetting
        Of :func:`~zoo.evaluation.measuring.label_setting`.
    seed : int
        Of the rows that are drawn.
    probe : callable
        Makes a new probe.
    cache : ProbeCache, optional
        Cache of finished runs.
    is_checked : bool
        :func:`check_pair` has accepted the features.

    Raises
    ------
    DataError
        If the two sets cannot be used together, a feature is not finite, or a class has too few images.
    """
    if not is_checked:
        check_pair(train, test)
    division = divide(setting, train, n_test=len(test.y), seed=seed)
    return run_probe(probe, train, test, division, setting=setting.name, split=setting.split, seed=seed, cache=cache)


def measure_seeds(
    train: Features,
    test: Features,
    setting: LabelSetting,
    *,
    probe: Callable[[], TunedProbe],
    n_seeds: int = N_SEEDS,
    seed: int = 0,
    n_bootstrap: int = N_DRAWS,
    cache: ProbeCache | None = None,
) -> SettingResult:
    """The mean error over seeds of the rows, with its 95 % interval.

    Parameters
    ----------
    train, test, setting, probe, cache
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
    runs = tuple(
        measure(train, test, setting, seed=seed + i, probe=probe, cache=cache, is_checked=True) for i in range(n_seeds)
    )
    error = compute_mean_error(runs, n_bootstrap=n_bootstrap, seed=seed, groups=test.groups)
    return SettingResult(setting=setting, error=error, runs=runs)


def compute_mean_error(
    runs: Sequence[ProbeRun],
    *,
    n_bootstrap: int = N_DRAWS,
    seed: int = 0,
    groups: NDArray[np.uint64] | None = None,
) -> Interval:
    """The mean error of runs that were evaluated on the same images, in percent, with its 95 % interval.

    With ``groups`` (n_evaluated,) of these images, the interval is over groups.
    """
    wrong = build_outcome_table(len(runs[0].correct), [(None, run.correct) for run in runs])
    draws = resample_errors(wrong, {"error": range(len(runs))}, n_draws=n_bootstrap, seed=seed, groups=groups)
    return compute_drawn_interval(draws["error"])


def check_pair(train: Features, test: Features, *, numbers: bool = False) -> None:
    """Refuses training and test features that no probe, of classes or of ``numbers``, can be measured with."""
    if numbers != bool(train.target) or train.target != test.target:
        are, expected = (repr(train.target), "classes") if train.target else ("classes", "numbers")
        raise DataError(
            f"The labels of {train.origin.dataset!r} are {are}, of the test images {test.target or 'classes'!r}; this "
            f"probe learns {expected} of both: 'zoo evaluate' takes the probe that fits."
        )
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
    has_classes = not train.tags and not numbers  # a combination of tags may be new, and so may a number
    if unknown.size and has_classes:
        raise DataError(
            f"{format_count(int((test.y == unknown[0]).sum()), 'test image has', 'test images have')} the label "
            f"{format_class_label(test, unknown[0])}, which no training image has; expected every class in both sets."
        )
    if len(np.unique(train.y)) < 2:
        raise DataError(
            f"All {len(train.y):,} training images have the label {format_class_label(train, train.y[0])}; expected at "
            "least two classes."
        )


def check_features(features: Features) -> None:
    """Refuses features without a row, without a label or with a number not finite or extreme; names the image."""
    where = f"of {features.origin.dataset!r} ({features.origin.split})"
    if not len(features.y):
        raise DataError(f"The features {where} have no row; expected at least one image.")
    unlabelled = np.flatnonzero(features.y < 0)
    if unlabelled.size:
        raise DataError(
            f"{format_count(unlabelled.size, 'image')} {where} {'has' if unlabelled.size == 1 else 'have'} no label, "
            f"the first is the image {format_image_name(features, unlabelled[0])}; expected a label for each."
        )
    bad = find_non_finite_row(features.x)
    if bad is not None:
        raise DataError(
            f"The image {format_image_name(features, bad)} {where} has features that are not finite under "
            f"{features.origin.encoder!r}; check the image and the weights, then compute the features again."
        )
    if extreme := find_extreme(features.x):
        row, column = extreme
        raise DataError(
            f"The image {format_image_name(features, row)} {where}, row {row}, has {features.x[row][column]:.3g} in "
            f"column {column} under {features.origin.encoder!r}, so far from others that they would have no digits "
            "left; check the image and the weights, then compute the features again."
        )


def check_count(n: int, *, what: str, fewest: int = 1) -> None:
    """Refuses a number of seeds or draws below ``fewest``."""
    if n < fewest:
        raise QueryError(f"Asked for {n} {what}; expected at least {fewest}.")


def format_class_label(features: Features, label: Any) -> str:
    """A label for an error message: its class name where it has one."""
    known = 0 <= int(label) < len(features.classes)
    return repr(features.classes[int(label)]) if known else str(int(label))


def format_image_name(features: Features, row: Any) -> str:
    """An image for an error message: its name where it has one, else its row."""
    return repr(features.names[int(row)]) if len(features.names) else f"of row {int(row)}"


_FORMAT = "zoo-probe-run-1"


class ProbeCache:
    """A folder of measured probes of one protocol."""

    def __init__(self, folder: str | Path, *, protocol: str) -> None:
        self.folder = Path(folder)
        self.protocol = protocol
        self.problems: list[str] = []  # why runs could not be stored

    def key(self, *used: Features, **what: Any) -> str:
        """Hash of everything that decides the result of a run, or of a fit."""
        origins = [
            build_origin_document(replace(features.origin, backend=TORCH))
            | {"code_version": features.origin.code_version.rpartition(",")[2]}  # not the zoo's
            for features in used
        ]
        text = json.dumps([_FORMAT, self.protocol, origins, what], sort_keys=True)
        return blake2b(text.encode(), digest_size=16).hexdigest()

    def find(self, key: str) -> ProbeRun | None:
        """A cached run, or None; a damaged file counts as none, for the run can be repeated."""
        try:
            text = self._path(key).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise DataError(f"The cached run {self._path(key)} cannot be read ({error}); make it readable.") from error
        try:
            found = json.loads(text)
            if found.pop("format") != _FORMAT:
                return None
            found["correct"] = _unpacked(found["correct"])
            if found["evaluated"] is not None:
                found["evaluated"] = np.array(found["evaluated"], dtype=np.int64)
            return ProbeRun(**found)
        except (ValueError, KeyError, TypeError):
            return None

    def store(self, key: str, run: ProbeRun) -> None:
        """Writes a run atomically."""
        fields = {name: getattr(run, name) for name in run.__slots__ if name != "fitted"}
        fields |= {
            "format": _FORMAT,
            "correct": {"n": len(run.correct), "bits": base64.b64encode(np.packbits(run.correct).tobytes()).decode()},
            "evaluated": None if run.evaluated is None else run.evaluated.tolist(),
        }
        path = self._path(key)
        try:
            with replace_file(path) as file:
                file.write(json.dumps(fields).encode())
        except OSError as error:
            raise DataError(
                f"The measured probe could not be stored in {path} ({error.strerror or error}); what was finished "
                "before stays, make room or name another folder."
            ) from error

    def find_fit(self, probe: Any, train: Features, facts: Mapping[str, Any]) -> bool:
        """Whether this probe was fitted before, which it then is again; a damaged file counts as none."""
        try:
            with np.load(self._fit_path(probe, train, facts), allow_pickle=False) as arrays:
                probe.adopt_fit(arrays, json.loads(str(arrays["report"])))
                return True
        except (OSError, ValueError, KeyError, EOFError, BadZipFile):
            return False

    def store_fit(self, probe: Any, train: Features, facts: Mapping[str, Any]) -> None:
        """Writes what a fitted probe predicts with; without room for it the probe is trained again."""
        try:
            with replace_file(self._fit_path(probe, train, facts)) as file:
                np.savez(file, report=json.dumps(probe.report_), **probe.fitted_arrays())
        except OSError as error:
            self.problems.append(f"A probe could not be stored in {self.folder} ({error.strerror or error}).")

    def _fit_path(self, probe: Any, train: Features, facts: Mapping[str, Any]) -> Path:
        key = self.key(train, fit=facts, seed=probe.seed, joined=train.together is not None)
        return self.folder / f"{key}.npz"

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.json"


def _unpacked(packed: dict[str, Any]) -> Any:
    bits = np.frombuffer(base64.b64decode(packed["bits"], validate=True), dtype=np.uint8)
    return np.unpackbits(bits, count=packed["n"]).astype(bool)
