"""The error to expect of an encoder before it has seen the user's images: measured, reported, or that of its kin.

All numbers are brought to one scale, the error of a linear probe on ImageNet-1K with as many labels a class as the user
has, in percent. What was not measured there is translated by a straight line between the log odds of two errors, fitted
to the encoders of which both are known, with the standard deviation of a new point about the line:

* a measurement in other settings, or with all labels alone;
* a reported accuracy: of a linear probe directly, of other protocols by way of the encoders with a linear probe too (an
  attentive probe is taken for a linear one, with a wider margin);
* for an encoder of which nothing is known, the median of its family, or else of its kind of objective, moved to its
  size by the slope of its kind over the number of parameters, and no better than the best of them.

An encoder trained with ImageNet's labels is treated as a self-supervised one with its error with all labels, and
:data:`FLATTERED` is added to its standard deviation. Measurements on the user's own images come first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from statistics import fmean, linear_regression, median, stdev
from typing import Literal, TypeAlias

from ..analysis.label_budget import FEWEST_LABELS, MOST_LABELS, held_out_error, noise_of, predict_error
from ..analysis.reported_agreement import FEWEST_PAIRS
from ..cards.schema import EncoderCard, Missing
from ..errors import QueryError, UnknownName
from ..results.derived import summaries
from ..results.reported import preferred_numbers
from ..results.reported_values import PROTOCOLS
from ..results.values import SETTINGS, Summary

Kind: TypeAlias = Literal["these images", "measured", "interpolated", "extrapolated", "translated", "reported", "kin"]

FLATTERED = 5.0
"""Points, assumed: how much less the error on ImageNet says of an encoder that was trained with its labels."""

_IMAGENET_CLASSES = 1_000
_ALL = SETTINGS[0]
_FEWEST_SETTINGS = 3
_LEAST_SPREAD = 0.3  # points; other draws of labels and other trainings of a probe move every number that far
_KIN_SPREAD = 4.0  # points at least, of an encoder that is known by its kin alone
_ATTENTIVE_SPREAD = 3.0  # points, for what an attentive probe finds and a linear one does not
_NEAR_0 = 1e-4  # errors are kept so far from 0 and 1, whose log odds are infinite

_BY_WAY_OF_LINEAR = ("reported-knn", "reported-zero-shot", "reported-own-head", "reported-finetune")
"""Reported protocols without pairs of their own among measured encoders, in the order in which they are trusted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """The error to expect of one encoder."""

    error: float  # percent; of a linear probe on ImageNet-1K with as many labels a class, or on these images
    spread: float  # standard deviation, percentage points
    kind: Kind
    source: str  # where it comes from, for the end of a sentence
    comparable: float  # percent, on the scale of ImageNet-1K; the error itself unless it is of these images


def imagenet_labels(n_labels: int, n_classes: int) -> int:
    """The number of ImageNet labels with as many labels a class, within what can be said: 1,000 to 1,281,167.

    Raises
    ------
    QueryError
        If there are fewer than two classes, or fewer labels than classes.

    Examples
    --------
    >>> imagenet_labels(5_000, 2), imagenet_labels(120, 4), imagenet_labels(12, 4)
    (1281167, 30000, 3000)
    """
    if n_classes < 2:
        raise QueryError(f"Got {n_classes} class{'' if n_classes == 1 else 'es'}, expected at least 2 to tell apart.")
    if n_labels < n_classes:
        raise QueryError(
            f"Got {n_labels:,} labels of {n_classes:,} classes, expected at least one label a class; label more images."
        )
    return min(max(round(_IMAGENET_CLASSES * n_labels / n_classes), FEWEST_LABELS), MOST_LABELS)


def expected_errors(
    cards: Mapping[str, EncoderCard], n_labels: int, n_classes: int, *, dataset: str | None = None
) -> dict[str, Expected]:
    """The error to expect of every trained encoder among ``cards``, by id, with so many labels of so many classes.

    ``dataset`` is the name under which measurements on the user's images are recorded, if there are any.
    """
    n = imagenet_labels(n_labels, n_classes)
    trained = {name: card for name, card in cards.items() if not card.is_untrained}
    known = _measured(trained, n)
    known |= _reported(trained, known)
    known = {name: _doubted(one) if saw_labels(trained[name]) else one for name, one in known.items()}
    known |= _of_kin(trained, known)
    return known | _on_these_images(dataset, known)


# --- what was measured -----------------------------------------------------------------------------------------------


def _measured(cards: Mapping[str, EncoderCard], n: int) -> dict[str, Expected]:
    """Those with a linear probe on ImageNet: in this setting, beside it, or with all labels alone."""
    found = {name: one for name, one in summaries(exclude_wrong=True).items() if name in cards and _is_possible(one)}
    curves = {name: _curve(one) for name, one in found.items() if not saw_labels(cards[name])}
    full = {name: one.errors[_ALL.name] for name, one in found.items() if _ALL.name in one.errors}
    usable = [curve for curve in curves.values() if len(curve) >= _FEWEST_SETTINGS]
    trial = held_out_error(usable, n) if usable else None
    known = {}
    for name, curve in curves.items():
        if len(curve) < _FEWEST_SETTINGS and n not in curve:
            continue
        predicted = predict_error(curve, n)
        if predicted is not None:
            noise = noise_of(curve, predicted, trial)
            spread = _LEAST_SPREAD if noise is None else max(noise.total, _LEAST_SPREAD)
            source = f"{predicted.kind} on ImageNet-1K with as many labels a class"
            known[name] = _expected(predicted.error, spread, predicted.kind, source)
    line = _line((full[name], one.error) for name, one in known.items() if name in full)
    for name in full.keys() - known.keys():
        error, spread = (full[name], 0.0) if n == _ALL.n_labels else line(full[name]) if line else (math.nan, 0.0)
        if not math.isnan(error):
            how = "ImageNet-1K with all labels" + ("" if n == _ALL.n_labels else ", translated to this many labels")
            kind: Kind = "measured" if n == _ALL.n_labels else "translated"
            known[name] = _expected(error, max(spread, _LEAST_SPREAD), kind, f"measured on {how}")
    return known


def saw_labels(card: EncoderCard) -> bool:
    """Whether an encoder was trained with the labels of ImageNet, on which its error is then flattered."""
    tuned = card.pretraining.finetuning_dataset
    return card.objective.mode == "supervised" or (not isinstance(tuned, Missing) and "ImageNet" in tuned)


def _doubted(one: Expected) -> Expected:
    source = f"{one.source}; it was trained with ImageNet's labels"
    return replace(one, spread=math.hypot(one.spread, FLATTERED), source=source)


def _curve(summary: Summary) -> dict[int, float]:
    return {setting.n_labels: summary.errors[setting.name] for setting in SETTINGS if setting.name in summary.errors}


def _is_possible(summary: Summary) -> bool:
    return bool(summary.errors) and all(error > 0 for error in summary.errors.values())


# --- what was reported -----------------------------------------------------------------------------------------------


def _reported(cards: Mapping[str, EncoderCard], measured: Mapping[str, Expected]) -> dict[str, Expected]:
    """Those without a measurement of which somebody reported an accuracy that is not doubtful."""
    numbers = {
        name: {protocol: 100 - one.value for protocol, one in found.items() if not one.is_doubtful}
        for name, found in preferred_numbers().items()
        if name in cards
    }
    found: dict[str, Expected] = {}
    linear = _line_of("reported-linear", numbers, measured)
    if linear is not None:
        found |= _translated("reported-linear", numbers, measured, linear)
        attentive = _translated("reported-attentive", numbers, {**measured, **found}, linear)
        found |= {
            name: replace(one, spread=math.hypot(one.spread, _ATTENTIVE_SPREAD)) for name, one in attentive.items()
        }
    anchors = {**measured, **found}
    for protocol in _BY_WAY_OF_LINEAR:
        line = _line_of(protocol, numbers, anchors)
        if line is not None:
            found |= _translated(protocol, numbers, {**measured, **found}, line)
    return found


Line: TypeAlias = Callable[[float], tuple[float, float]]
"""From an error in percent to the error that it stands for, and its standard deviation in points."""


def _line_of(protocol: str, numbers: Mapping[str, Mapping[str, float]], known: Mapping[str, Expected]) -> Line | None:
    """The line from a protocol to the errors of those known, whose own uncertainty it passes on."""
    both = [(of[protocol], known[name]) for name, of in numbers.items() if protocol in of and name in known]
    line = _line((error, one.error) for error, one in both)
    if line is None:
        return None
    inherited = math.sqrt(fmean(one.spread**2 for _, one in both))

    def to_known(error: float) -> tuple[float, float]:
        there, spread = line(error)
        return there, math.hypot(spread, inherited)

    return to_known


def _translated(
    protocol: str, numbers: Mapping[str, Mapping[str, float]], known: Mapping[str, Expected], line: Line
) -> dict[str, Expected]:
    """Those that are not known yet and have a number of the protocol."""
    found = {}
    for name, of in numbers.items():
        if protocol in of and name not in known:
            error, spread = line(of[protocol])
            source = f"reported accuracy of {100 - of[protocol]:.1f} % ({PROTOCOLS[protocol].short}), translated"
            found[name] = _expected(error, max(spread, 2 * _LEAST_SPREAD), "reported", source)
    return found


def _line(pairs: Iterable[tuple[float, float]]) -> Line | None:
    """The straight line between the log odds of two errors in percent; None of too few pairs, or of equal ones."""
    both = [(_log_odds(x), _log_odds(y)) for x, y in pairs]
    if len(both) < FEWEST_PAIRS or len({x for x, _ in both}) < 2:
        return None
    xs, ys = [x for x, _ in both], [y for _, y in both]
    slope, intercept = linear_regression(xs, ys)
    centre, n = fmean(xs), len(both)
    width = sum((x - centre) ** 2 for x in xs)
    variance = sum((y - intercept - slope * x) ** 2 for x, y in both) / (n - 2)

    def line(error: float) -> tuple[float, float]:
        x = _log_odds(error)
        sd = math.sqrt(variance * (1 + 1 / n + (x - centre) ** 2 / width))
        return _from_log_odds(intercept + slope * x, sd)

    return line


def _log_odds(percent: float) -> float:
    share = min(max(percent / 100, _NEAR_0), 1 - _NEAR_0)
    return math.log(share / (1 - share))


def _from_log_odds(value: float, sd: float) -> tuple[float, float]:
    """Percent and standard deviation in points, by the slope of the curve there."""
    share = 1 / (1 + math.exp(-value))
    return 100 * share, 100 * share * (1 - share) * sd


# --- what is known of nothing but the card ---------------------------------------------------------------------------


def _of_kin(cards: Mapping[str, EncoderCard], known: Mapping[str, Expected]) -> dict[str, Expected]:
    """Those of which nothing is known: by their family, or else their kind of objective, or else all encoders."""
    groups: dict[tuple[str, str], list[str]] = {}
    for name in known:
        for key in _groups_of(cards[name]):
            groups.setdefault(key, []).append(name)
    points = {name: (_size(cards[name]), _log_odds(one.error)) for name, one in known.items()}
    slopes = {key: _slope([points[name] for name in names]) for key, names in groups.items() if key[0] != _FAMILY}

    @cache
    def beside_size(key: tuple[str, str], slope: float) -> tuple[float, float]:
        """Median and standard deviation of a group's log odds, less what their sizes explain."""
        rest = [y - slope * x for x, y in (points[kin] for kin in groups[key])]
        return median(rest), stdev(rest)

    found = {}
    for name, card in cards.items():
        if name in known:
            continue
        keys = _groups_of(card)
        enough = [key for key in keys if len(groups.get(key, ())) >= _FEWEST_SETTINGS]
        if not enough:
            continue
        key = enough[0]
        slope = next((slopes[wide] for wide in keys if slopes.get(wide) is not None), None) or 0.0
        centre, deviation = beside_size(key, slope)
        best = min(points[kin][1] for kin in groups[key])  # beyond which nothing was seen
        error, scatter = _from_log_odds(max(centre + slope * _size(card), best), deviation)
        spread = math.hypot(scatter, fmean(known[kin].spread for kin in groups[key]))
        source = f"nothing is known of it, {len(groups[key])} encoders of {' '.join(key).strip()} have this at its size"
        found[name] = _expected(error, max(spread, _KIN_SPREAD), "kin", source)
    return found


_FAMILY = "the family"


def _groups_of(card: EncoderCard) -> list[tuple[str, str]]:
    """What an encoder is kin of, the nearest first."""
    mode = card.objective.mode
    kind = [] if isinstance(mode, Missing) else [("the kind", mode.replace("_", " "))]
    return [(_FAMILY, card.family), *kind, ("all kinds", "")]


def _size(card: EncoderCard) -> float:
    return math.log2(card.architecture.n_parameters)


def _slope(points: Sequence[tuple[float, float]]) -> float | None:
    """Of log odds of the error over doublings of size; None of too few encoders, or of one size."""
    if len(points) < FEWEST_PAIRS or len({x for x, _ in points}) < 2:
        return None
    return linear_regression([x for x, _ in points], [y for _, y in points]).slope


# --- the user's own images -------------------------------------------------------------------------------------------


def _on_these_images(dataset: str | None, known: Mapping[str, Expected]) -> dict[str, Expected]:
    """Those that were measured on the user's images with all labels."""
    if dataset is None:
        return {}
    try:
        found = summaries(dataset=dataset, exclude_wrong=True, encoders=known)
    except UnknownName:  # nothing was measured there yet
        return {}
    errors = {name: one.errors[_ALL.name] for name, one in found.items() if name in known and _ALL.name in one.errors}
    if not errors:
        return {}
    shift = fmean(_log_odds(known[name].comparable) - _log_odds(error) for name, error in errors.items())
    return {
        name: Expected(
            error=error,
            spread=_LEAST_SPREAD,
            kind="these images",
            source=f"measured on {dataset} with all labels",
            comparable=_from_log_odds(_log_odds(error) + shift, 0.0)[0],
        )
        for name, error in errors.items()
    }


def _expected(error: float, spread: float, kind: Kind, source: str) -> Expected:
    return Expected(error=error, spread=spread, kind=kind, source=source, comparable=error)
