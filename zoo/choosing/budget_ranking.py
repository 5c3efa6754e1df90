"""Encoders ranked by the expected linear-probe error with a number of labels of ImageNet, and how certain that is.

Errors are measured, interpolated between settings or extrapolated (:mod:`zoo.analysis.label_budget`); lower is better.
``zoo recommend --measured`` ranks by :func:`rank_for_budget`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..analysis.label_budget import (
    LEVEL,
    N_VALIDATION_IMAGES,
    Curve,
    HeldOutError,
    Noise,
    PredictedError,
    RankOdds,
    compute_amplification,
    estimate_held_out_error,
    estimate_noise,
    predict_error,
    simulate_ranks,
)
from ..cards.catalogue import load_catalogue
from ..cards.schema import EncoderCard, Missing
from ..results.derived import select_main_protocol, summaries
from ..results.facts import format_points
from ..results.values import SETTINGS, ResultErratum
from .constraints import Filter, LeftOut, apply_filters

NO_CANDIDATES = ("supervised", "initialized")
"""Modes of objectives whose encoders are no candidates: they saw labels, or nothing at all."""
FEWEST_MEASURED = min(setting.n_labels for setting in SETTINGS)
SETTING_OF = {setting.n_labels: setting.name for setting in SETTINGS}
"""Names of the measured settings by number of labels."""

_FEWEST_SETTINGS = 3
_TIE = (1 - LEVEL) / 2  # probability to be better up to which an encoder counts as worse


@dataclass(frozen=True, slots=True)
class BudgetCandidate:
    """An encoder and its expected error."""

    card: EncoderCard
    curve: Curve  # what was measured
    predicted: PredictedError
    errata: tuple[ResultErratum, ...]  # of its measurements


@dataclass(frozen=True, slots=True)
class BudgetRankedEncoder:
    """A candidate and its rank; noise and odds are None where its uncertainty is unknown."""

    candidate: BudgetCandidate
    rank: int  # by the error as it is shown; equal errors have equal ranks
    noise: Noise | None
    odds: RankOdds | None

    @property
    def error(self) -> float:
        """The expected error, percent."""
        return self.candidate.predicted.error

    @property
    def interval(self) -> tuple[float, float] | None:
        """Within which nine in ten such errors are expected, percent; None where that is unknown."""
        return None if self.noise is None else self.noise.interval(self.error)

    @property
    def is_tie(self) -> bool:
        """Whether it ties with the first; an encoder of unknown uncertainty is not known to."""
        return self.odds is not None and self.odds.ties_with_first

    @property
    def rank_text(self) -> str:
        """The range of its rank, as 1-4."""
        if self.odds is None:
            return "?"
        low, high = self.odds.lowest, self.odds.highest
        return str(low) if low == high else f"{low}-{high}"

    @property
    def interval_text(self) -> str:
        """The interval, as 21.3-21.9."""
        return "?" if self.interval is None else "-".join(map(format_points, self.interval))

    @property
    def best_text(self) -> str:
        """The probability to be the best, as 12%."""
        if self.odds is None:
            return "?"
        return "<1%" if 0 < self.odds.best < 0.005 else f"{self.odds.best:.0%}"


@dataclass(frozen=True, slots=True)
class BudgetRanking:
    """Encoders in their order at one number of labels."""

    n_labels: int
    ranked: list[BudgetRankedEncoder]
    uncertainty: HeldOutError | None  # of predictions between or below settings; None at a measured setting
    left_out: LeftOut
    why_nobody: str  # "" if anybody is ranked

    @property
    def says_nothing(self) -> bool:
        """Whether it is an extrapolation that cannot tell more than half of the encoders from the first."""
        kinds = {one.candidate.predicted.kind for one in self.ranked}
        n_ties = sum(one.odds is None or one.odds.ties_with_first for one in self.ranked)
        return "extrapolated" in kinds and 2 * n_ties > len(self.ranked)

    @property
    def n_ties(self) -> int:
        """Encoders that share the first place."""
        return sum(one.is_tie for one in self.ranked)

    @property
    def usual(self) -> PredictedError:
        """The prediction from the settings nearest to the number of labels, which most encoders have."""
        return find_usual_prediction(one.candidate for one in self.ranked)


def is_right(encoders: Iterable[str]) -> Filter:
    """Keeps the encoders with these ids, whose measurements no erratum excludes."""
    right = set(encoders)
    return Filter("measured wrongly, see --include-wrong", lambda one: one.card.id in right)


def collect_candidates(n_labels: int) -> tuple[list[Curve], list[BudgetCandidate], LeftOut]:
    """All believable error curves, the self-supervised encoders whose curve predicts an error, others by reason.

    Of one protocol, that of most encoders. A curve through fewer than three settings counts only where it was measured.
    QueryError below 1,000 labels, or above 1,281,167.
    """
    curves: list[Curve] = []
    found = []
    left_out: LeftOut = {}
    cards, known = load_catalogue(), summaries()
    usual = select_main_protocol(known)
    for encoder, summary in known.items():
        card = cards[encoder]
        if card.objective.mode in NO_CANDIDATES:
            continue
        if encoder not in usual:
            why = f"measured by {summary.campaign.protocol}, which does not compare with the others' protocol"
            left_out.setdefault(why, []).append(card.id)
            continue
        curve = {
            setting.n_labels: summary.errors[setting.name] for setting in SETTINGS if setting.name in summary.errors
        }
        predicted, reason = None, "not measured with as many labels"
        if any(error <= 0 for error in curve.values()):
            reason = "measured with an error of 0"
        elif len(curve) < _FEWEST_SETTINGS and n_labels not in curve:
            reason = f"measured in fewer than {_FEWEST_SETTINGS} settings"
        else:
            curves.append(curve)
            predicted = predict_error(curve, n_labels)
        if predicted is None:
            left_out.setdefault(reason, []).append(card.id)
        else:
            found.append(BudgetCandidate(card, curve, predicted, summary.errata))
    return curves, found, left_out


def estimate_noises(
    curves: Sequence[Curve], found: Sequence[BudgetCandidate], usual: HeldOutError | None
) -> list[Noise | None]:
    """The uncertainty of each error; where a neighbouring setting was not measured, by a trial without that setting.

    ``usual`` is :func:`~zoo.analysis.label_budget.estimate_held_out_error` of the curves. None where misses are
    unknown.
    """
    grid = {n for curve in curves for n in curve}
    trials: dict[tuple[int, ...], HeldOutError | None] = {}
    of_each = []
    for candidate in found:
        predicted, own, trial = candidate.predicted, tuple(sorted(candidate.curve)), usual
        usual_one = predict_error(dict.fromkeys(grid, 1.0), predicted.n_labels)
        if usual_one is not None and predicted.basis != usual_one.basis:
            if own not in trials:
                some = [{n: curve[n] for n in own} for curve in curves if curve.keys() >= set(own)]
                trials[own] = estimate_held_out_error(some, predicted.n_labels)
            trial = trials[own]
        of_each.append(estimate_noise(candidate.curve, predicted, trial))
    return of_each


def find_usual_prediction(found: Iterable[BudgetCandidate]) -> PredictedError:
    """The prediction from the settings nearest to the number of labels, which most of at least one candidate have."""
    return max((one.predicted for one in found), key=lambda one: (one.basis[0], -one.basis[-1]))


def rank_for_budget(n_labels: int, filters: Sequence[Filter]) -> BudgetRanking:
    """The ranking with ``n_labels`` labels of ImageNet, of the candidates that pass the filters.

    Prediction errors are those of all candidates, whatever the filters; ranks are among those that pass. QueryError
    below 1,000 labels, or above 1,281,167.
    """
    curves, everyone, without = collect_candidates(n_labels)
    kept, left_out, why_nobody = apply_filters(everyone, filters, without)
    uncertainty = estimate_held_out_error(curves, n_labels)
    return BudgetRanking(n_labels, _ranked(curves, kept, uncertainty), uncertainty, left_out, why_nobody)


def _ranked(
    curves: Sequence[Curve], kept: Sequence[BudgetCandidate], uncertainty: HeldOutError | None
) -> list[BudgetRankedEncoder]:
    """Candidates by rising error, with their uncertainty."""
    ordered = sorted(kept, key=lambda candidate: (candidate.predicted.error, candidate.card.id))
    errors = [candidate.predicted.error for candidate in ordered]
    own = estimate_noises(curves, ordered, uncertainty)
    known = {place: noise for place, noise in enumerate(own) if noise is not None}
    odds = dict(zip(known, simulate_ranks([errors[place] for place in known], [*known.values()]), strict=True))
    return [
        BudgetRankedEncoder(candidate, 1 + errors.index(error), noise, odds.get(place))
        for place, (candidate, error, noise) in enumerate(zip(ordered, errors, own, strict=True))
    ]


def select_first_networks(cards: Iterable[EncoderCard], n: int) -> list[str]:
    """Ids of the first ``n`` encoders with different weights."""
    first: dict[str, str] = {}
    for card in cards:
        url = card.weights.url
        first.setdefault(card.id if isinstance(url, Missing) else url, card.id)
    return [*first.values()][:n]


# --- words -----------------------------------------------------------------------------------------------------------


def describe_certainty(answer: BudgetRanking) -> list[str]:
    """Sentences on where the numbers come from and how far to trust them."""
    ranked = answer.ranked
    lines = describe_error_origin(answer.usual, [one.noise for one in ranked], answer.uncertainty) + describe_ties(
        ranked
    )
    if answer.usual.kind == "extrapolated":
        lines.append(EXTRAPOLATION)
    return lines


EXTRAPOLATION = "Extrapolation: nothing was measured with so few labels."


def describe_error_origin(
    predicted: PredictedError, noises: Sequence[Noise | None], uncertainty: HeldOutError | None
) -> list[str]:
    """Sentences on what errors like ``predicted`` rest on, by how much such errors miss, and what intervals hold."""
    caution = "measured on ImageNet with the published probe; other data can rank encoders differently."
    images = f"the choice of {N_VALIDATION_IMAGES:,} validation images"
    if predicted.kind == "measured":
        return [
            f"As {caution}",
            f"No intervals were published: those shown hold nine in ten errors and ranks under {images} alone. By how "
            "much other draws of the labels and other trainings of the probe move them is not known.",
        ]
    *others, last = [f"{SETTING_OF[n]} ({n:,} labels)" for n in predicted.basis]
    verb = "Continued from" if predicted.kind == "extrapolated" else "Interpolated between"
    lines = [f"{verb} {', '.join(others)} and {last}, {caution}"]
    parts = "such misses"
    if uncertainty is not None:
        lines.append(describe_misses(predicted, uncertainty))
    if predicted.kind == "extrapolated":
        laws = [abs(noise.law) for noise in noises if noise is not None]
        if laws:
            lines.append(
                f"A power law with a floor differs by {sum(laws) / len(laws):.1f} points on average, and no "
                "measurement tells which law is right."
            )
        parts = "such misses, the difference between the laws"
    lines.append(
        f"Intervals hold nine in ten errors and ranks under {parts} and {images}. Other draws of the labels and other "
        "trainings of the probe count only as far as they show in those misses."
    )
    return lines


def describe_misses(predicted: PredictedError, trial: HeldOutError) -> str:
    """Sentence on how far predictions missed known errors, and the miss to expect here."""
    hidden = " and ".join(SETTING_OF[n] for n in trial.left_out)
    target = SETTING_OF[trial.predicted]
    which = f"{target} is hidden and" if hidden == target else f"{hidden} are hidden and {target} is"
    mean, most = trial.mean_absolute_error, trial.percentile_90
    if predicted.kind == "interpolated":
        return (
            f"Give or take {mean:.1f} points, the mean miss for {trial.n} encoders when {which} predicted; nine in ten "
            f"are within {most:.1f}."
        )
    here = compute_amplification(predicted.basis, predicted.n_labels)
    there = compute_amplification(trial.basis, trial.predicted)
    scale = here / there
    return (
        f"Give or take {mean * scale:.1f} points, nine in ten within {most * scale:.1f}, for noise alone: the mean "
        f"miss for {trial.n} encoders is {mean:.1f}, and nine in ten are within {most:.1f}, when {which} predicted, "
        f"which multiplies the noise of the measurements by {there:.1f}; with {predicted.n_labels:,} labels it is "
        f"{here:.1f}."
    )


ONE_IS_FIRST = f"The first is better than any other in at least {1 - _TIE:.0%} of draws."
TIES = (
    "Ties: {} encoders share the first place; each other is better than the first in the table in over "
    f"{_TIE:.0%} of draws."
)
"""On several that share the first place; braces stand for their number."""


def describe_ties(ranked: Sequence[BudgetRankedEncoder]) -> list[str]:
    """Sentence on how many encoders may be the best."""
    known = [one for one in ranked if one.odds is not None]
    ties = sum(one.is_tie for one in known)
    if not known:
        return []
    return [ONE_IS_FIRST if ties == 1 else TIES.format(ties)]


def describe_wider_gaps(shown: Sequence[BudgetRankedEncoder], usual: Sequence[int]) -> list[str]:
    """Sentences on encoders without one of the settings between which the others are interpolated."""
    return [
        f"{one.candidate.card.id} was not measured with {SETTING_OF[n]}: its number spans a wider gap and is less "
        "certain."
        for one in shown
        for n in usual
        if n not in one.candidate.curve
    ]


def list_interval_sources(ranked: Sequence[BudgetRankedEncoder]) -> list[str]:
    """Sources of error within the intervals; draws of labels and trainings of probes never are."""
    known = [one.noise for one in ranked if one.noise is not None]
    parts = {
        "validation images": bool(known),
        "misses of predictions": any(noise.prediction for noise in known),
        "difference between laws": any(noise.law for noise in known),
    }
    return [name for name, is_in in parts.items() if is_in]
