"""The four parts of an encoder's full-shot error: approximation, usability, probe and encoder generalization.

Algorithm 1. Every risk is the error of a tuned probe on frozen features, in percent:

======  =============================  ==========================  =================================================
risk    trained on                     evaluated on                its settings are chosen on (C.3)
======  =============================  ==========================  =================================================
R_US    S_tr                           S_te                        rows held out of S_tr; then trained on all of S_tr
R_AS    S_tr minus S_sub               S_sub, as large as S_te     another S_sub, held out of S_tr minus S_sub; then
                                                                   trained on all of S_tr minus S_sub
R_AF    S_tr                           S_tr                        S_tr itself
R_PhiF  S_tr, of a supervised twin     S_tr                        S_tr itself
R_UF    S_te (Eq. 5 only)              S_te                        S_te itself
======  =============================  ==========================  =================================================

The rows held out for a choice are as many as S_te has, or a fifth of the training rows where that is fewer. They mirror
what the probe is evaluated on, and no choice sees an image that the probe is evaluated on, unless it is trained on it
too. (Upstream's other S_sub is drawn from all of S_tr; here S_sub takes no part in the choice at all.)

The parts are differences, signed and never clipped, in percentage points; they add up to R_US::

    standard (Eq. 1)                             alternative (Eq. 5)
    approximation          = R_PhiF              R_PhiF
    usability              = R_AF - R_PhiF       R_AF - R_PhiF
    probe_generalization   = R_AS - R_AF         R_US - R_UF
    encoder_generalization = R_US - R_AS         R_UF - R_AF

R_UF is a worse estimate than R_AS, for a probe easily fits all of a small S_te; Eq. 5 is for comparison. Without a twin
the first two parts are known as their sum only, ``approximation_plus_usability``.

The intervals are those of :mod:`zoo.evaluation.intervals`: over test images, over training images, each of which
counts the same wherever it enters (in R_AF, in R_PhiF and in R_AS), and over the seeds of S_sub.

References
----------
Dubois et al. 2023, Evaluating Self-Supervised Learning via Risk Decomposition, Algorithm 1, Eq. 1 and 5, Appendix C.3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from ..cards import catalogue
from ..errors import DataError, MissingExtra, QueryError
from ..features import Features
from ..metadata import NOT_PUBLISHED, EncoderCard, Missing
from ..results import RiskDecomposition
from .intervals import N_DRAWS, Interval, error_draws, interval, outcomes_of
from .measuring import check_count, check_features, check_pair
from .pretraining import ASSUMPTION, pretraining_warning
from .runs import ProbeRun, TunedProbe, run_probe
from .settings import Division, divide, divide_own, label_setting, rows_held_out

try:
    import numpy as np
except ModuleNotFoundError as error:
    raise MissingExtra(str(error.name), extra="evaluate", needed_for="A risk decomposition") from error

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .kept import KeptRuns

    Floats = NDArray[np.float64]

Number = TypeVar("Number", float, Any)

Order = Literal["standard", "alternative"]
ORDERS: tuple[Order, ...] = ("standard", "alternative")
N_SUBSETS = 3
FULL = label_setting("full")
OWN_SPLIT, SUBSET_SPLIT, TEST_SPLIT = "train -> train", "train minus subset -> subset", "val -> val"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Risk:
    """One risk of Algorithm 1: a row of results/."""

    name: str  # "R_US"
    metric: str  # "linear_probe_error", or "supervised_twin_error" for R_PhiF
    split: str  # "train -> val"
    error: Interval  # in percent; mean over the runs
    runs: tuple[ProbeRun, ...]  # one a seed; empty if the error was recorded elsewhere


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RiskReport:
    """The parts of an encoder's full-shot error, with their uncertainty and what they were computed from."""

    encoder: str
    dataset: str
    order: Order
    decomposition: RiskDecomposition  # in percentage points, signed
    intervals: dict[str, Interval]  # of each part that is known, of their sum in "full_shot_error"
    risks: dict[str, Risk]  # by name
    draws: dict[str, Floats]  # (n_bootstrap,) of each in intervals; draw i is of the same images and seeds everywhere
    n_train: int  # images of S_tr
    n_test: int  # images of S_te
    n_classes: int
    seed: int
    assumption: str  # what must be true of the images for the parts to mean what they are called
    warning: str  # why it is not, "" if there is no reason to doubt it


def decompose(
    train: Features,
    test: Features,
    *,
    probe: Callable[[], TunedProbe],
    supervised: Features | float | None = None,
    n_subsets: int = N_SUBSETS,
    seed: int = 0,
    order: Order = "standard",
    n_bootstrap: int = N_DRAWS,
    card: EncoderCard | None = None,
    kept: KeptRuns | None = None,
    progress: Callable[[str], None] | None = None,
) -> RiskReport:
    """Decomposes the full-shot error of an encoder.

    Parameters
    ----------
    train, test : Features
        Of S_tr, on which the encoder was pretrained, and of S_te, which is new to it.
    probe : callable
        Makes a new tuned probe.
    supervised : Features or float, optional
        The supervised twin, a network of the encoder's architecture: its features of S_tr, or its recorded training
        error in percent. Without one, approximation and usability are merged.
    n_subsets, seed : int
        The seeds of the S_sub are ``seed``, ``seed + 1``, ...; the bootstrap's is ``seed``.
    order : "standard" or "alternative"
        Which generalization comes first: Eq. 1 or Eq. 5, which needs no S_sub.
    n_bootstrap : int
        Draws of the bootstrap.
    card : EncoderCard, optional
        Of the encoder; the report then says if it was pretrained on other images.
    kept : KeptRuns, optional
        Where probes that were measured already are found again.
    progress : callable, optional
        Called with the name of each risk before it is estimated.

    Returns
    -------
    RiskReport
        Errors in percent and parts in percentage points, lower is better.

    Raises
    ------
    DataError
        If the features cannot be used together or are not finite, S_te is not smaller than S_tr, or a class has too
        few images to be held out.
    QueryError
        If the order, the number of seeds or the recorded error cannot be.
    """
    _check_request(order, n_subsets=n_subsets, n_bootstrap=n_bootstrap, supervised=supervised)
    check_pair(train, test)
    if order == "standard" and len(test.y) >= len(train.y):
        raise DataError(
            f"The test set has {len(test.y):,} images and the training set {len(train.y):,}; expected fewer, for a "
            "subset of the training set as large as the test set is held out: use a part of the test set."
        )
    twin = supervised if isinstance(supervised, Features) else None
    if twin is not None:
        _check_twin(twin, train)
    recorded = None if supervised is None or twin is not None else float(supervised)  # type: ignore[arg-type]
    announce = progress or (lambda name: None)

    announce("R_US")
    division = divide(
        FULL, train.y, n_test=len(test.y), seed=seed, parent=train.origin.images_hash, classes=train.classes
    )
    runs: dict[str, tuple[ProbeRun, ...]] = {}
    runs["R_US"] = (run_probe(probe(), train, test, division, setting="full", split=FULL.split, seed=seed, kept=kept),)
    announce("R_AF")
    runs["R_AF"] = (_on_itself(probe(), train, split=OWN_SPLIT, seed=seed, kept=kept),)
    if twin is not None:
        announce("R_PhiF")
        runs["R_PhiF"] = (_on_itself(probe(), twin, split=OWN_SPLIT, seed=seed, kept=kept),)
    if order == "alternative":
        announce("R_UF")
        runs["R_UF"] = (_on_itself(probe(), test, split=TEST_SPLIT, seed=seed, kept=kept),)
    else:
        announce("R_AS")
        runs["R_AS"] = tuple(
            _on_held_out(probe(), train, n=len(test.y), seed=seed + i, kept=kept) for i in range(n_subsets)
        )

    values = {name: sum(run.error_percent for run in some) / len(some) for name, some in runs.items()}
    draws = _draws(runs, n_train=len(train.y), n_test=len(test.y), n_draws=n_bootstrap, seed=seed)
    errors = {name: interval(value, draws[name]) for name, value in values.items()}
    if recorded is not None:
        values["R_PhiF"], draws["R_PhiF"] = recorded, np.full(n_bootstrap, recorded)
        errors["R_PhiF"] = Interval(value=recorded, ci_low=None, ci_high=None)
    parts, part_draws = _parts(values, order=order), _parts(draws, order=order)
    intervals = {name: interval(value, part_draws[name]) for name, value in parts.items()}
    if recorded is not None:
        intervals["approximation"] = errors["R_PhiF"]
    return RiskReport(
        encoder=train.origin.encoder,
        dataset=train.origin.dataset,
        order=order,
        decomposition=RiskDecomposition(
            approximation=parts.get("approximation", NOT_PUBLISHED),
            usability=parts.get("usability", NOT_PUBLISHED),
            approximation_plus_usability=parts["approximation_plus_usability"],
            probe_generalization=parts["probe_generalization"],
            encoder_generalization=parts["encoder_generalization"],
            approximation_assumed=False,
        ),
        intervals=intervals,
        risks={name: _risk(name, error, runs.get(name, ())) for name, error in errors.items()},
        draws=part_draws,
        n_train=len(train.y),
        n_test=len(test.y),
        n_classes=len(np.unique(train.y)),
        seed=seed,
        assumption=ASSUMPTION,
        warning="" if card is None else pretraining_warning(card, dataset=train.origin.dataset),
    )


def _parts(risks: Mapping[str, Number], *, order: Order) -> dict[str, Number]:
    """The parts of the full-shot error, from risks or from draws of them."""
    own, full_shot = risks["R_AF"], risks["R_US"]
    known: dict[str, Number] = {}
    if "R_PhiF" in risks:
        known |= {"approximation": risks["R_PhiF"], "usability": own - risks["R_PhiF"]}
    if order == "standard":
        probe, encoder = risks["R_AS"] - own, full_shot - risks["R_AS"]
    else:
        probe, encoder = full_shot - risks["R_UF"], risks["R_UF"] - own
    return known | {
        "approximation_plus_usability": own,
        "probe_generalization": probe,
        "encoder_generalization": encoder,
        "full_shot_error": full_shot,
    }


def _on_itself(probe: TunedProbe, features: Features, *, split: str, seed: int, kept: KeptRuns | None) -> ProbeRun:
    everything = np.arange(len(features.y), dtype=np.int64)
    division = Division(train=everything, tuning=everything, refits=False)
    return run_probe(probe, features, features, division, setting="full", split=split, seed=seed, kept=kept)


def _on_held_out(probe: TunedProbe, train: Features, *, n: int, seed: int, kept: KeptRuns | None) -> ProbeRun:
    everything, parent, classes = np.arange(len(train.y), dtype=np.int64), train.origin.images_hash, train.classes
    subset = rows_held_out(train.y, everything, n=n, seed=seed, parent=parent, classes=classes)
    rest = np.setdiff1d(everything, subset, assume_unique=True)
    division = divide_own(train.y, rest, n_test=n, seed=seed, parent=parent, classes=classes)
    return run_probe(
        probe, train, train, division, setting="full", split=SUBSET_SPLIT, seed=seed, evaluated=subset, kept=kept
    )


def _draws(
    runs: Mapping[str, Sequence[ProbeRun]], *, n_train: int, n_test: int, n_draws: int, seed: int
) -> dict[str, Floats]:
    """Bootstrap draws of each risk: one draw of images for all that were evaluated on the same set."""
    found: dict[str, Floats] = {}
    for stream, (n_images, names) in enumerate(((n_train, ("R_AF", "R_PhiF", "R_AS")), (n_test, ("R_US", "R_UF")))):
        columns: dict[str, list[int]] = {}
        evaluated: list[tuple[NDArray[np.int64] | None, NDArray[np.bool_]]] = []
        for name in (name for name in names if name in runs):
            columns[name] = list(range(len(evaluated), len(evaluated) + len(runs[name])))
            evaluated += [(run.evaluated, run.correct) for run in runs[name]]
        found |= error_draws(outcomes_of(n_images, evaluated), columns, n_draws=n_draws, seed=[seed, stream])
    return found


def _risk(name: str, error: Interval, runs: tuple[ProbeRun, ...]) -> Risk:
    metric = "supervised_twin_error" if name == "R_PhiF" else "linear_probe_error"
    return Risk(name=name, metric=metric, split=runs[0].split if runs else OWN_SPLIT, error=error, runs=runs)


def _check_request(order: str, *, n_subsets: int, n_bootstrap: int, supervised: Features | float | None) -> None:
    if order not in ORDERS:
        raise QueryError(f"There is no decomposition {order!r}; expected 'standard' (Eq. 1) or 'alternative' (Eq. 5).")
    check_count(n_subsets, what="held-out subsets")
    check_count(n_bootstrap, what="draws of the bootstrap", fewest=100)
    if isinstance(supervised, int | float) and not 0 <= supervised <= 100:
        raise QueryError(f"The training error of the supervised twin is {supervised}; expected 0 to 100 percent.")


def _check_twin(twin: Features, train: Features) -> None:
    check_features(twin)
    name = twin.origin.encoder
    mode = catalogue()[name].objective.mode if name in catalogue() else "supervised"
    if mode != "supervised":
        was = "whose card does not say how it was trained" if isinstance(mode, Missing) else f"trained as {mode!r}"
        raise DataError(
            f"Found the twin {name!r}, {was}; expected a network that was trained with the labels, which its card says "
            "by objective.mode = 'supervised', or its training error in percent."
        )
    if twin.origin.images_hash != train.origin.images_hash or not np.array_equal(twin.y, train.y):
        raise DataError(
            f"The features of the supervised twin {twin.origin.encoder!r} are of other images or labels than the "
            f"training features of {train.origin.encoder!r}; expected the same training images in the same order."
        )
