"""Which encoders ``zoo recommend`` can speak of, and why it leaves out the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ..analysis.label_budget import Curve, HeldOutError, Noise, PredictedError, held_out_error, noise_of, predict_error
from ..cards import catalogue
from ..errors import UnknownName
from ..metadata import EncoderCard, Missing
from ..results import SETTINGS, ResultErratum, summaries
from .facts import short_number

PERMISSIVE = ("MIT", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause")
_NO_CANDIDATES = ("supervised", "initialized")
_FEWEST_SETTINGS = 3
_IMPOSSIBLE = "measured with an error of 0"
_TOO_FEW = f"measured in fewer than {_FEWEST_SETTINGS} settings"
_ENDS_BEFORE = "not measured with as many labels"


@dataclass(frozen=True, slots=True)
class Candidate:
    """An encoder and the error to expect of it."""

    card: EncoderCard
    curve: Curve  # what was measured
    predicted: PredictedError
    errata: tuple[ResultErratum, ...]  # of its measurements


@dataclass(frozen=True, slots=True)
class Filter:
    """Which candidates stay, and what to say of those that go."""

    reason: str
    keeps: Callable[[Candidate], bool]


LeftOut = dict[str, list[str]]
"""Ids of encoders by the reason why they are no candidates."""


def requested(licence: str, max_parameters: int | None, max_dim: int | None) -> list[Filter]:
    """The filters that the user asked for.

    Raises
    ------
    UnknownName
        If no encoder has that licence.
    """
    filters = []
    if licence.casefold() == "permissive":
        filters.append(Filter("--licence permissive", lambda one: _is_permissive(one.card)))
    elif licence.casefold() != "any":
        spdx = _known_licence(licence)
        filters.append(Filter(f"--licence {spdx}", lambda one: one.card.licence.weights == spdx))
    if max_parameters is not None:
        reason = f"--max-parameters {short_number(max_parameters)}"
        filters.append(Filter(reason, lambda one: one.card.architecture.n_parameters <= max_parameters))
    if max_dim is not None:
        filters.append(Filter(f"--max-dim {max_dim}", lambda one: one.card.representation.dim <= max_dim))
    return filters


def _is_permissive(card: EncoderCard) -> bool:
    return card.licence.weights in PERMISSIVE and card.licence.code in PERMISSIVE


def _known_licence(name: str) -> str:
    """The SPDX id that some encoder has, from any spelling of its case."""
    found = {card.licence.weights for card in catalogue().values()}
    known = {licence.casefold(): licence for licence in found if not isinstance(licence, Missing)}
    if name.casefold() not in known:
        hint = f"Expected 'any', 'permissive' or one of: {', '.join(sorted(known.values()))}."
        raise UnknownName("licence", name, known.values(), hint=hint)
    return known[name.casefold()]


def candidates(n_labels: int) -> tuple[list[Curve], list[Candidate], LeftOut]:
    """All believable error curves, the self-supervised encoders whose curve says something, and those without one.

    A curve through fewer than three settings is no curve: it says something only where it was measured.
    """
    cards = catalogue()
    curves: list[Curve] = []
    found = []
    left_out: LeftOut = {}
    for encoder, summary in summaries().items():
        card = cards[encoder]
        if card.objective.mode in _NO_CANDIDATES:
            continue
        curve = {
            setting.n_labels: summary.errors[setting.name] for setting in SETTINGS if setting.name in summary.errors
        }
        reason = _why_unusable(curve, n_labels)
        if reason is not None:
            left_out.setdefault(reason, []).append(encoder)
            continue
        curves.append(curve)
        predicted = predict_error(curve, n_labels)
        if predicted is None:
            left_out.setdefault(_ENDS_BEFORE, []).append(encoder)
        else:
            found.append(Candidate(card, curve, predicted, summary.errata))
    return curves, found, left_out


def noises(curves: Sequence[Curve], ranked: Sequence[Candidate], usual: HeldOutError | None) -> list[Noise | None]:
    """How uncertain each error is; where a setting next to it was not measured, by a trial without that setting."""
    grid = {n for curve in curves for n in curve}
    trials: dict[tuple[int, ...], HeldOutError | None] = {}
    found = []
    for candidate in ranked:
        predicted, own, trial = candidate.predicted, tuple(sorted(candidate.curve)), usual
        usual_one = predict_error(dict.fromkeys(grid, 1.0), predicted.n_labels)
        if usual_one is not None and predicted.basis != usual_one.basis:
            if own not in trials:
                some = [{n: curve[n] for n in own} for curve in curves if curve.keys() >= set(own)]
                trials[own] = held_out_error(some, predicted.n_labels)
            trial = trials[own]
        found.append(noise_of(candidate.curve, predicted, trial))
    return found


def _why_unusable(curve: Curve, n_labels: int) -> str | None:
    if any(error <= 0 for error in curve.values()):
        return _IMPOSSIBLE
    if len(curve) < _FEWEST_SETTINGS and n_labels not in curve:
        return _TOO_FEW
    return None


def filtered(
    everyone: Sequence[Candidate], filters: Sequence[Filter], left_out: Mapping[str, list[str]]
) -> tuple[list[Candidate], LeftOut, str]:
    """Those that pass every filter, everyone who is left out by now, and why nobody is left ("" if somebody is)."""
    kept, gone = list(everyone), dict(left_out)
    passed: list[str] = []
    if not kept:
        reasons = ", ".join(f"{len(names)} {reason}" for reason, names in gone.items()) or "none was measured"
        return [], gone, f"No encoder can be ranked: {reasons}."
    for one in filters:
        after = [candidate for candidate in kept if one.keeps(candidate)]
        if len(after) < len(kept):
            gone[one.reason] = [candidate.card.id for candidate in kept if not one.keeps(candidate)]
        if not after:
            which = f"that pass {' and '.join(passed)}" if passed else "there are"
            return [], gone, f"No encoder is left: '{one.reason}' removes all {len(kept)} {which}."
        passed.append(f"'{one.reason}'")
        kept = after
    return kept, gone, ""
