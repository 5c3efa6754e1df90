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

Intervals (:mod:`zoo.evaluation.bootstrap`) are over images and over the seeds of S_sub, given these probes: that other
training images would have given other probes is not in them. With ``n_refits``, training and test images are resampled
with replacement (copies are held out together) and every probe is tuned and trained again: the interval is the value
plus and minus Student's t times the standard deviation over replicates, never narrower than the choice of images alone
makes it. (The one given these probes would be no such bound: two or three subsets tell next to nothing of how their
probes differ, so that it may be twice as wide.)
Whether the probes behind R_AS differ by more than their images explain is tested at the level ``LEVEL``.

References
----------
Dubois et al. 2023, Evaluating Self-Supervised Learning via Risk Decomposition, Algorithm 1, Eq. 1 and 5, Appendix C.3.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from ..cards.answers import AnswerColumn, AnswerTable, ShownInNotebooks, make_interval_columns
from ..cards.catalogue import load_catalogue
from ..cards.schema import NOT_APPLICABLE, NOT_PUBLISHED, EncoderCard, Missing
from ..datasets.images import compute_digest
from ..errors import DataError, QueryError
from ..features import Features
from ..optional import require_extra
from ..results.values import RiskDecomposition
from .arrays import select_rows
from .bootstrap import (
    N_DRAWS,
    Drawn,
    Interval,
    build_outcome_table,
    compute_disagreement_p,
    compute_drawn_interval,
    compute_interval,
    make_constant_draws,
    resample_errors,
)
from .measuring import (
    ProbeCache,
    ProbeRun,
    TunedProbe,
    TuningSplit,
    check_count,
    check_features,
    check_pair,
    divide,
    divide_own,
    format_class_label,
    label_setting,
    run_probe,
    select_tuning_rows,
)

with require_extra("evaluate", needed_for="A risk decomposition"):
    import numpy as np
    from scipy.special import stdtrit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

ASSUMPTION = (
    "The components mean what their names say only if the probe's images come from the encoder's pretraining "
    "distribution: the training images must be those that it was pretrained on, or at least drawn from the same "
    "distribution, and the test images must be new to it."
)
_PART = re.compile(r"\s*([0-9.]+)\s*%\s*(?:of\s+)?(.+)")


def format_pretraining_warning(card: EncoderCard, *, dataset: str) -> str:
    """Why a decomposition on a data set does not mean what it says, in a sentence; "" if the card gives no reason.

    It compares names of data sets without case and punctuation: "ImageNet-1K" is "imagenet1k".
    """
    pretrained, tuned = card.pretraining.dataset, card.pretraining.finetuning_dataset
    if card.is_untrained or pretrained is NOT_APPLICABLE:
        return (
            f"{card.id} was not pretrained on images, so that there is no pretraining distribution: its encoder "
            "generalization only compares two draws of images."
        )
    if isinstance(pretrained, Missing):
        return (
            f"What {card.id} was pretrained on is {pretrained.value}, so that it is unknown whether the images of "
            f"{dataset} come from its pretraining distribution, as the components assume."
        )
    if (part := _PART.fullmatch(pretrained)) and _folded(part[2]) == _folded(dataset):
        return (
            f"{card.id} was pretrained on {part[1]} % of {part[2]}, so that the other training images of {dataset} are "
            "new to it: a part of its encoder generalization is counted as usability and probe generalization."
        )
    if _folded(pretrained) != _folded(dataset):
        return (
            f"{card.id} was pretrained on {pretrained}, not on {dataset}: what is called encoder generalization here "
            "compares training and test images that are both new to it, and the components are not those of its "
            "pretraining."
        )
    if isinstance(tuned, str) and _folded(tuned) != _folded(dataset):
        return (
            f"{card.id} was trained further on {tuned} after its pretraining on {pretrained}, so that the images of "
            f"{dataset} are not all that it has learnt from."
        )
    return ""


def _folded(name: str) -> str:
    return re.sub(r"[\W_]", "", name.casefold())


Number = TypeVar("Number", float, Any)

Order = Literal["standard", "alternative"]
ORDERS: tuple[Order, ...] = ("standard", "alternative")
N_SUBSETS = 3
LEVEL = 0.01  # share of data sets with stable probes that are reported as unstable nevertheless
FEWEST_REFITS = 5
_FEWEST_DRAWS = 100
_REFIT_STREAM = 7_004  # keeps resamples apart from all other draws of a seed
FULL = label_setting("full")
COMPONENTS = (
    "approximation",
    "usability",
    "approximation_plus_usability",
    "probe_generalization",
    "encoder_generalization",
)
"""Parts of the full-shot error; the third is the sum of the first two."""
OWN_SPLIT, SUBSET_SPLIT, TEST_SPLIT = "train -> train", "train minus subset -> subset", "val -> val"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Risk:
    """One risk of Algorithm 1: a row of results/."""

    name: str  # "R_US"
    metric: str  # "linear_probe_error", or "supervised_twin_error" for R_PhiF
    split: str  # "train -> val"
    error: Interval  # in percent; mean over the runs
    runs: tuple[ProbeRun, ...]  # one per seed; empty if the error was recorded elsewhere


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RefitUncertainty:
    """The parts on resampled images, with probes that were tuned and trained again."""

    n: int  # replicates
    intervals: dict[str, Interval]  # of each part that is known, around the value that was measured
    replicates: dict[str, Floats]  # (n,) of each of them


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RiskReport(ShownInNotebooks):
    """The parts of an encoder's full-shot error, with their uncertainty and the risks that they were computed from."""

    encoder: str
    dataset: str
    order: Order
    decomposition: RiskDecomposition  # in percentage points, signed
    intervals: dict[str, Interval]  # given these probes, of each part that is known; their sum is "full_shot_error"
    risks: dict[str, Risk]  # by name
    draws: dict[str, Floats]  # (n_bootstrap,) of each in intervals; draw i is of the same images and seeds everywhere
    n_train: int  # images of S_tr
    n_test: int  # images of S_te
    n_classes: int
    seed: int
    assumption: str  # what must be true of the images for the parts to mean what they are called
    warning: str  # why it is not, "" if there is no reason to doubt it
    disagreement: float | None = None  # p-value of the probes behind R_AS being as good as each other
    refit: RefitUncertainty | None = None

    @property
    def is_unstable(self) -> bool:
        """True if the probes behind R_AS differ by more than their images explain."""
        return self.disagreement is not None and self.disagreement < LEVEL

    def build_tables(self, *, has_sum: bool = True) -> list[AnswerTable]:
        """The parts and their sum; with ``has_sum`` also that of approximation and usability where each is known."""
        parts = [*self.intervals]
        if not has_sum and "approximation" in parts:
            parts.remove("approximation_plus_usability")
        found = [self.intervals[part] for part in parts]
        columns = [
            AnswerColumn(None, [self.encoder] * len(parts), key="encoder"),
            AnswerColumn(None, [self.dataset] * len(parts), key="dataset"),
            AnswerColumn(None, [format_component(part).replace("+", "plus") for part in parts], key="part"),
            AnswerColumn("part", [*map(format_component, parts)]),
            *make_interval_columns(found, "points", key="error_points", between="given these probes"),
        ]
        if self.refit is not None:
            refitted = [self.refit.intervals[part] for part in parts]
            columns.append(make_interval_columns(refitted, key="", between="with refits")[1])
        title = f"Components of the full-shot error of {self.encoder}, in percentage points"
        return [AnswerTable(title=title, columns=columns, notes=[self.warning or self.assumption])]

    def _axis(self) -> str:
        return "percentage points of error (lower is better)"


def format_component(part: str) -> str:
    """A part, or the sum of all, in words.

    >>> format_component("approximation_plus_usability"), format_component("full_shot_error")
    ('approximation + usability', 'full-shot error')
    """
    return part.replace("_plus_", " + ").replace("full_shot", "full-shot").replace("_", " ")


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
    n_refits: int = 0,
    card: EncoderCard | None = None,
    cache: ProbeCache | None = None,
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
    n_refits : int
        Resamples of the images on which every probe is tuned and trained again, for intervals that include the effect
        of the training images on the probes; 0 for none, else at least 5. Each costs as much as the decomposition.
    card : EncoderCard, optional
        Of the encoder; the report then says if it was pretrained on other images.
    cache : ProbeCache, optional
        Cache of probes that were measured already.
    progress : callable, optional
        Called with the name of each risk before it is estimated.

    Returns
    -------
    RiskReport
        Errors in percent and parts in percentage points, lower is better.

    Raises
    ------
    DataError
        If the features cannot be used together or are not finite, S_te is not smaller than S_tr, or a class has too few
        images to be held out.
    QueryError
        If the order, the number of seeds or the recorded error is out of range.
    """
    if order not in ORDERS:
        raise QueryError(f"There is no decomposition {order!r}; expected 'standard' (Eq. 1) or 'alternative' (Eq. 5).")
    check_count(n_subsets, what="held-out subsets")
    check_count(n_bootstrap, what="draws of the bootstrap", fewest=_FEWEST_DRAWS)
    if n_refits:
        check_count(n_refits, what="refits", fewest=FEWEST_REFITS)
    if isinstance(supervised, int | float) and not 0 <= supervised <= 100:
        raise QueryError(f"The training error of the supervised twin is {supervised}; expected 0 to 100 percent.")
    check_pair(train, test)
    if order == "standard" and len(test.y) >= len(train.y):
        raise DataError(
            f"The test set has {len(test.y):,} images and the training set {len(train.y):,}; expected fewer, for a "
            "subset of the training set as large as the test set is held out: use a part of the test set."
        )
    if order == "alternative" and len(np.unique(test.y)) < 2:
        raise DataError(
            f"All {len(test.y):,} test images are of the class {format_class_label(test, test.y[0])}, and the "
            "alternative "
            "decomposition trains a probe on them; expected two classes or more, or the standard decomposition."
        )
    twin = supervised if isinstance(supervised, Features) else None
    if twin is not None:
        _check_twin(twin, train)
    recorded = None if supervised is None or twin is not None else float(supervised)  # type: ignore[arg-type]
    announce = progress or (lambda name: None)

    def announce_refit(number: int, name: str) -> None:
        announce(f"refit {number + 1} of {n_refits}: {name}")

    announce("R_US")
    division = divide(FULL, train, n_test=len(test.y), seed=seed)
    runs: dict[str, tuple[ProbeRun, ...]] = {}
    runs["R_US"] = (run_probe(probe, train, test, division, split=FULL.split, seed=seed, cache=cache),)
    announce("R_AF")
    runs["R_AF"] = (_on_itself(probe, train, split=OWN_SPLIT, seed=seed, cache=cache),)
    if twin is not None:
        announce("R_PhiF")
        runs["R_PhiF"] = (_on_itself(probe, twin, split=OWN_SPLIT, seed=seed, cache=cache),)
    if order == "alternative":
        announce("R_UF")
        runs["R_UF"] = (_on_itself(probe, test, split=TEST_SPLIT, seed=seed, cache=cache),)
    else:
        announce("R_AS")
        runs["R_AS"] = tuple(
            _on_held_out(probe, train, n=len(test.y), seed=seed + i, cache=cache) for i in range(n_subsets)
        )

    drawn = _draws(runs, train, test, n_draws=n_bootstrap, seed=seed)
    if recorded is not None:
        drawn["R_PhiF"] = make_constant_draws(recorded, n_draws=n_bootstrap)
    errors = {name: compute_drawn_interval(one) for name, one in drawn.items()}
    if recorded is not None:
        errors["R_PhiF"] = Interval(value=recorded, ci_low=None, ci_high=None)
    parts = _parts({name: one.value for name, one in drawn.items()}, order=order)
    part_draws = _parts({name: one.draws for name, one in drawn.items()}, order=order)
    intervals = {name: compute_interval(value, part_draws[name]) for name, value in parts.items()}
    intervals |= {part: errors[name] for part, name in _OF_ONE_PROBE.items() if name in errors}
    risks = {}
    for name, error in errors.items():
        metric = "supervised_twin_error" if name == "R_PhiF" else "linear_probe_error"
        some = runs.get(name, ())
        risks[name] = Risk(name=name, metric=metric, split=some[0].split if some else OWN_SPLIT, error=error, runs=some)
    refit = None
    if n_refits:
        options = {"probe": probe, "supervised": supervised, "n_subsets": n_subsets, "order": order, "cache": cache}
        replicates = [_replicate(train, test, n, seed, options, partial(announce_refit, n)) for n in range(n_refits)]
        of_one_subset = {name: some[:1] for name, some in runs.items()}
        alone = drawn | _draws(of_one_subset, train, test, n_draws=n_bootstrap, seed=seed)
        moved = _parts({name: one.draws for name, one in alone.items()}, order=order)
        spread = {name: np.percentile(one - one.mean(), [2.5, 97.5]) for name, one in moved.items()}
        refit = _refit(intervals, spread, replicates)
    subsets = [(run.evaluated, run.correct) for run in runs.get("R_AS", ())]
    p_value = (
        compute_disagreement_p(build_outcome_table(len(train.y), subsets), groups=train.groups)
        if len(subsets) > 1
        else None
    )
    known = "" if card is None else format_pretraining_warning(card, dataset=train.origin.dataset)
    components: dict[str, Any] = {name: parts.get(name, NOT_PUBLISHED) for name in COMPONENTS}
    return RiskReport(
        encoder=train.origin.encoder,
        dataset=train.origin.dataset,
        order=order,
        decomposition=RiskDecomposition(**components, approximation_assumed=False),
        intervals=intervals,
        risks=risks,
        draws=part_draws,
        n_train=len(train.y),
        n_test=len(test.y),
        n_classes=len(np.unique(train.y)),
        seed=seed,
        assumption=ASSUMPTION,
        warning=" ".join(filter(None, [known, _untested(train, test)])),
        disagreement=p_value,
        refit=refit,
    )


def _untested(train: Features, test: Features) -> str:
    """What classes without a test image do to the parts; nothing if there are none."""
    absent = np.setdiff1d(train.y, test.y)
    if not absent.size or train.tags:
        return ""
    more = f" and {absent.size - 1:,} more" if absent.size > 1 else ""
    return (
        "Encoder generalization holds a difference of classes too, for errors on training images count "
        f"{format_class_label(train, absent[0])}{more}, of which there is no test image."
    )


def _replicate(
    train: Features,
    test: Features,
    number: int,
    seed: int,
    options: Mapping[str, Any],
    progress: Callable[[str], None],
) -> dict[str, float]:
    """The parts of one resample, in percentage points; ``options`` are those of :func:`decompose`."""
    random = np.random.default_rng([seed, _REFIT_STREAM, number])
    rows, test_rows = (_drawn_again(part.y, random, groups=part.groups) for part in (train, test))
    if isinstance(twin := options["supervised"], Features):
        options = {**options, "supervised": _resampled(twin, rows)}
    report = decompose(
        _resampled(train, rows),
        _resampled(test, test_rows),
        seed=int(random.integers(2**30)),
        n_bootstrap=_FEWEST_DRAWS,
        progress=progress,
        **options,
    )
    return {name: found.value for name, found in report.intervals.items()}


_OF_ONE_PROBE = {"full_shot_error": "R_US", "approximation_plus_usability": "R_AF", "approximation": "R_PhiF"}
"""Parts that are errors of one probe, by the risk that they are."""


def _refit(
    given_these: Mapping[str, Interval], by_images: Mapping[str, Floats], replicates: Sequence[Mapping[str, float]]
) -> RefitUncertainty:
    """``by_images`` are how far below and above a part the choice of images alone moves it."""
    found: dict[str, Interval] = {}
    values = {name: np.array([one[name] for one in replicates]) for name in given_these}
    times = float(stdtrit(len(replicates) - 1, 0.975))
    for name, one in given_these.items():
        margin = times * float(values[name].std(ddof=1))
        low, high = one.value - margin, one.value + margin
        if name == "full_shot_error":
            low, high = max(low, 0.0), min(high, 100.0)
        if one.ci_low is not None and one.ci_high is not None:
            below, above = by_images[name].tolist()
            if name in _OF_ONE_PROBE:
                below, above = one.ci_low - one.value, one.ci_high - one.value
            low, high = min(low, one.value + below), max(high, one.value + above)
            found[name] = Interval(value=one.value, ci_low=low, ci_high=high)
        else:  # an error that was recorded elsewhere
            found[name] = one
    return RefitUncertainty(n=len(replicates), intervals=found, replicates=values)


def _drawn_again(
    labels: NDArray[np.int64], random: np.random.Generator, *, groups: NDArray[np.uint64] | None = None
) -> NDArray[np.int64]:
    """As many rows, drawn with replacement; a class of which none is drawn takes the place of a row of a larger one.

    With ``groups`` (n,) as many groups are drawn, and one more for each class of which there is none.
    """
    if groups is not None:
        names, number = np.unique(groups, return_inverse=True)
        drawn = random.integers(len(names), size=len(names)).tolist()
        for label in np.unique(labels):
            if not np.isin(drawn, number[labels == label]).any():
                drawn.append(int(random.choice(number[labels == label])))
        times = np.bincount(drawn, minlength=len(names))
        return np.repeat(np.arange(len(labels)), times[number]).astype(np.int64)
    rows = random.integers(len(labels), size=len(labels))
    for label in np.setdiff1d(labels, labels[rows]):
        present, counts = np.unique(labels[rows], return_counts=True)
        spare = np.flatnonzero(np.isin(labels[rows], present[counts > 1]))
        rows[random.choice(spare)] = random.choice(np.flatnonzero(labels == label))
    return np.sort(rows).astype(np.int64)


def _resampled(features: Features, rows: NDArray[np.int64]) -> Features:
    """These rows as new features; a row that comes several times is a copy of itself."""
    contents = rows.astype(np.uint64) if features.contents is None else features.contents[rows]
    images = compute_digest(["resample", features.origin.images_hash, rows.astype("<i8")])
    return Features(
        x=select_rows(features.x, rows),
        y=features.y[rows],
        origin=replace(features.origin, images_hash=images),
        classes=features.classes,
        contents=contents,
        groups=None if features.groups is None else features.groups[rows],
        tags=features.tags,
        target=features.target,
    )


def _parts(risks: Mapping[str, Number], *, order: Order) -> dict[str, Number]:
    """The parts of the full-shot error, from risks or from draws of them."""
    on_itself, full_shot = risks["R_AF"], risks["R_US"]
    known: dict[str, Number] = {}
    if "R_PhiF" in risks:
        known |= {"approximation": risks["R_PhiF"], "usability": on_itself - risks["R_PhiF"]}
    if order == "standard":
        probe, encoder = risks["R_AS"] - on_itself, full_shot - risks["R_AS"]
    else:
        probe, encoder = full_shot - risks["R_UF"], risks["R_UF"] - on_itself
    return known | {
        "approximation_plus_usability": on_itself,
        "probe_generalization": probe,
        "encoder_generalization": encoder,
        "full_shot_error": full_shot,
    }


def _on_itself(
    probe: Callable[[], TunedProbe], features: Features, *, split: str, seed: int, cache: ProbeCache | None
) -> ProbeRun:
    everything = np.arange(len(features.y), dtype=np.int64)
    division = TuningSplit(train=everything, tuning=everything, refits=False)
    return run_probe(probe, features, features, division, split=split, seed=seed, cache=cache)


def _on_held_out(
    probe: Callable[[], TunedProbe], train: Features, *, n: int, seed: int, cache: ProbeCache | None
) -> ProbeRun:
    everything = np.arange(len(train.y), dtype=np.int64)
    subset = select_tuning_rows(train, everything, n=n, seed=seed)
    rest = np.setdiff1d(everything, subset, assume_unique=True)
    division = divide_own(train, rest, n_test=n, seed=seed)
    return run_probe(probe, train, train, division, split=SUBSET_SPLIT, seed=seed, evaluated=subset, cache=cache)


def _draws(
    runs: Mapping[str, Sequence[ProbeRun]], train: Features, test: Features, *, n_draws: int, seed: int
) -> dict[str, Drawn]:
    """Each risk with bootstrap draws: one draw of images for all that were evaluated on the same set."""
    found: dict[str, Drawn] = {}
    for number, (part, names) in enumerate(((test, ("R_US", "R_UF")), (train, ("R_AF", "R_PhiF", "R_AS")))):
        columns: dict[str, list[int]] = {}
        evaluated: list[tuple[NDArray[np.int64] | None, NDArray[np.bool_]]] = []
        for name in (name for name in names if name in runs):
            columns[name] = list(range(len(evaluated), len(evaluated) + len(runs[name])))
            evaluated += [(run.evaluated, run.correct) for run in runs[name]]
        outcomes = build_outcome_table(len(part.y), evaluated)
        found |= resample_errors(outcomes, columns, n_draws=n_draws, seed=seed, part=number, groups=part.groups)
    return found


def _check_twin(twin: Features, train: Features) -> None:
    check_features(twin)
    name = twin.origin.encoder
    mode = load_catalogue()[name].objective.mode if name in load_catalogue() else "supervised"
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
