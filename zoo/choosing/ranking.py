"""Encoders ranked by one number each: the error to expect, the error that was measured, or a reported accuracy.

``zoo recommend``, the plan of ``zoo choose`` and the site's pages show it. By expected errors, encoders trained with
ImageNet's labels have no rank, for what is known of them flatters them; nor, with few labels, those of whose objective
nobody probed any with few. Nor have gated ones and those of special kinds of images unless they are asked for: they are
named in addition. Measured errors are interpolated between settings or extrapolated (:mod:`zoo.analysis.label_budget`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any, Generic, Literal, TypeAlias, TypeVar

from ..analysis.label_budget import (
    LEVEL,
    MOST_LABELS,
    N_CLASSES,
    N_VALIDATION_IMAGES,
    Curve,
    HeldOutError,
    Noise,
    PredictedError,
    RankOdds,
    check_n_labels,
    compute_amplification,
    describe_labels_per_class,
    estimate_held_out_error,
    estimate_noise,
    predict_error,
    simulate_ranks,
)
from ..cards.answers import AnswerColumn, AnswerTable, ShownInNotebooks
from ..cards.catalogue import load_catalogue
from ..cards.gated_access import GATED, get_domain, get_image_domains
from ..cards.licences import shorten_licence
from ..cards.schema import EncoderCard, Missing, format_fact
from ..errors import QueryError, format_count
from ..results.derived import select_main_protocol, summaries
from ..results.evidence import list_datasets
from ..results.facts import format_points, format_short_number
from ..results.reported import select_preferred_accuracies
from ..results.reported_values import ReportedNumber
from ..results.values import IMAGENET, SETTINGS, ResultErratum
from .boards import ReportedBoard
from .constraints import NOT_GONE, Constraints, Filter, LeftOut, apply_filters, build_filters
from .expectations import (
    MEASURED,
    ExpectedError,
    Images,
    estimate_errors,
    find_best_measured,
    read_difficulties,
    translate_label_number,
)

RankingBasis: TypeAlias = Literal["measured", "expected", "reported"]

FLATTERING = "trained on ImageNet labels, so not comparable"
UNTOLD = "no few-label number of their objective"
"""Why an encoder has no rank where labels are far fewer than probes of its objective ever had."""
NOBODY = "nobody measured a probe on {} images: errors are those on others, and those of encoders made for them"
NO_CANDIDATES = ("supervised", "initialized")
"""Modes of objectives whose encoders are not ranked by what was measured or reported: they saw labels, or nothing."""
TIED = "="
"""Behind the rank of encoders that are tied with the first."""
N_RACERS = 5
"""Encoders that are named for a race on the user's images where a ranking says too little."""
TOO_MANY = 0.1
"""Share of the ranked encoders; where more are tied with the first, their order says too little."""
BEYOND = "<"
"""Behind an error that is lower than all that were measured with so many labels."""
TIE = 0.1
"""Probability to be better than the first up to which an encoder counts as worse."""
DEVIATES = NormalDist().inv_cdf(1 - TIE)
"""Standard deviations of their difference, from which on one of two encoders is worse."""
FEWEST_MEASURED = min(setting.n_labels for setting in SETTINGS)
SETTING_OF = {setting.n_labels: setting.name for setting in SETTINGS}
"""Names of the measured settings by number of labels."""
ON_IMAGENET = Images(IMAGENET, "natural")
_FEWEST_SETTINGS = 3
_TIE = (1 - LEVEL) / 2  # probability to be better up to which an encoder counts as worse, by measured errors
_POCKET = "shipped:"
_N_NAMED = 3  # encoders in a sentence


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredError:
    """The error of an encoder by its measurements; noise and odds are None where its uncertainty is unknown."""

    curve: Curve  # what was measured
    predicted: PredictedError
    errata: tuple[ResultErratum, ...] = ()  # of its measurements
    noise: Noise | None = None
    odds: RankOdds | None = None  # of its rank

    @property
    def error(self) -> float:
        """The error at the number of labels, percent."""
        return self.predicted.error

    @property
    def interval(self) -> tuple[float, float] | None:
        """Within which nine in ten such errors are expected, percent; None where that is unknown."""
        return None if self.noise is None else self.noise.interval(self.error)

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


Number = TypeVar("Number")  # Expected, MeasuredError or ReportedNumber


@dataclass(frozen=True, slots=True)
class RankedEncoder(Generic[Number]):
    """An encoder, the number that it is ranked by, and its rank; filters look at those without a rank, too."""

    card: EncoderCard
    number: Number
    rank: int = 0  # 0 without one
    is_tie: bool = False  # with the first: by expected and measured errors
    why: str = ""  # it has no rank: gated, or of special images
    here: str = ""  # where its weights are on this machine, where that was asked


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking(ShownInNotebooks, Generic[Number]):
    """Encoders in their order; a table in a notebook, with ``.df`` and ``.plot()``."""

    n_labels: int
    n_classes: int = N_CLASSES
    images: Images = ON_IMAGENET
    ranked: list[RankedEncoder[Number]]
    beside: Sequence[RankedEncoder[Number]] = ()  # without a rank, by rising expected error
    left_out: LeftOut
    why_nobody: str  # "" if anybody is ranked
    level_sd: float = 0.0  # standard deviation of the difficulty of such images, in log odds, which moves all alike
    uncertainty: HeldOutError | None = None  # of measured errors between or below settings; None at a setting
    unmeasured: Sequence[EncoderCard] = ()  # that would be ranked by measured errors if they had any

    @property
    def n_ties(self) -> int:
        """Encoders that share the first place."""
        return sum(one.is_tie for one in self.ranked)

    @property
    def unprobed(self: Ranking[ExpectedError]) -> list[str]:
        """Encoders that share the first place with others and of which no linear probe on ImageNet-1K is known."""
        reported = select_preferred_accuracies()
        probed = (*MEASURED, "another protocol")
        tied = [one for one in self.ranked if one.is_tie and one.number.basis not in probed]
        names = [one.card.id for one in tied if "reported-linear" not in reported.get(one.card.id, {})]
        return names if self.n_ties > 1 else []

    @property
    def cautions(self: Ranking[ExpectedError]) -> list[str]:
        """Sentences on what is not known: the kind of images, and what would tell those in the first place apart."""
        lines = []
        if self.images.is_unmeasured:
            made = [f"{one.card.id} (rank {one.rank})" for one in self.ranked if get_image_domains(one.card)]
            lines.append(
                f"{NOBODY.format(self.images.domain)} ({_some(made) or 'none is left'}) rest on similar encoders"
            )
        if self.n_ties > 1 and self.images.dataset != IMAGENET:
            lines.append("what would separate them: a probe on such images, as by the command below")
        elif names := self.unprobed:
            of_them = "any" if len(names) == self.n_ties else f"{len(names)} of them ({_some(names)})"
            lines.append(f"what would separate them: a linear probe; none on ImageNet-1K is known of {of_them}")
        kin = [one for one in self.ranked if one.number.basis == "similar encoders"]
        n_kin = sum(not one.is_tie and not is_worse(one.number, self.ranked[0].number) for one in kin)
        if kin and len(kin) == len(self.ranked):
            lines.append("of none of them is any number known: the order is that of similar encoders")
        elif n_kin:
            lines.append(f"{n_kin} more may be as good, of which no number is known (similar encoders)")
        return lines

    def build_tables(self: Ranking[ExpectedError]) -> list[AnswerTable]:
        """A row per ranked encoder: its expected error, what that rests on, and what it is."""
        numbers, ties = [one.number for one in self.ranked], [one.is_tie for one in self.ranked]
        errors, lowest = [one.error for one in numbers], self.lowest_measured
        blank = "  " * any(error < lowest for error in errors)  # so that numbers stay below each other

        def marked(error: float) -> str:
            return format_points(error) + (f" {BEYOND}" if error < lowest else blank)

        places = [one.rank for one in self.ranked]
        ranks = [f"{rank}{TIED * is_tie}" for rank, is_tie in zip(places, ties, strict=True)]
        columns = [
            AnswerColumn(None, places, key="rank"),
            AnswerColumn("rank", ranks, has_numbers=True),
            AnswerColumn("encoder", [one.card.id for one in self.ranked], key="encoder"),
            AnswerColumn("error", errors, form=marked, key="error_percent"),
            AnswerColumn(
                "interval",
                [one.interval for one in numbers],
                form=lambda ends: "-".join(map(format_points, ends)),
                key="ci_{}_percent",
            ),
            AnswerColumn(None, ties, key="ties_with_first"),
            AnswerColumn("rests on", [one.rests_on for one in numbers]),
            AnswerColumn(None, [one.basis for one in numbers], key="rests_on"),
            AnswerColumn(None, [one.how for one in numbers], key="how"),
            *list_card_columns(one.card for one in self.ranked),
        ]
        first = f"{format_count(len(self.ranked), 'encoder')}, {self.n_ties:,} tied with the first; 90 % intervals."
        return [
            AnswerTable(
                title=self.title,
                columns=columns,
                notes=[*filter(None, [self.lead]), first, *(f"{one}." for one in self.cautions)],
            )
        ]

    @property
    def lead(self: Ranking[ExpectedError]) -> str:
        """What to know before the order: that it says too little, and whom to race; "" where it says enough."""
        if not (racers := select_racers(self.ranked)):
            return ""
        low, high = map(format_points, self.ranked[0].number.interval)
        return (
            f"Too uncertain to rank: {self.n_ties:,} of {len(self.ranked):,} encoders share the first place, and the "
            f"error of the first is anywhere from {low} to {high}. Race these {len(racers)} on your images: "
            f"{', '.join(one.card.id for one in racers)}."
        )

    @property
    def lowest_measured(self) -> float:
        """The lowest error measured on ImageNet-1K with so many labels or the next more, percent; 0 on other images."""
        n_labels = translate_label_number(self.n_labels, self.n_classes)
        return find_best_measured(n_labels)[0] if self.images.dataset == IMAGENET else 0.0

    @property
    def title(self) -> str:
        """What is expected, on which images."""
        is_all = self.images == ON_IMAGENET and self.n_labels == MOST_LABELS
        a_class = "all labels" if is_all else describe_labels_per_class(self.n_labels, self.n_classes)
        return f"Expected error of a linear probe on {self.images.words}, {a_class}, percent"


def list_card_columns(cards: Iterable[EncoderCard]) -> list[AnswerColumn]:
    """Parameters, dimensions of the features and licence of the weights."""
    known = [*cards]
    licences = [format_fact(one.licence.weights) for one in known]
    reasons = {reason.value for reason in Missing}
    return [
        AnswerColumn(
            "parameters",
            [one.architecture.n_parameters for one in known],
            form=format_short_number,
            key="n_parameters",
            spare=3,
        ),
        AnswerColumn("dim", [one.representation.dim for one in known], form=str, key="dim", spare=4),
        AnswerColumn(
            "licence",
            licences,
            form=lambda text: "?" if text in reasons else shorten_licence(text),
            key="licence",
            spare=1,
        ),
    ]


def rank_encoders(
    n_labels: int,
    n_classes: int = N_CLASSES,
    images: Images = ON_IMAGENET,
    constraints: Constraints | None = None,
    *,
    basis: RankingBasis = "expected",
    board: ReportedBoard | None = None,
    include_gone: bool = False,
    include_wrong: bool = False,
) -> Ranking[Any]:
    """Encoders that pass the constraints by one number each: Expected, MeasuredError or ReportedNumber.

    Errors are those with so many labels of so many classes on these images; measured and reported ones are those on
    ImageNet-1K, but those of a ``board``, which were reported with all labels. ``include_wrong`` ranks by measurements
    that an erratum leaves out, too. QueryError where the numbers cannot be meant.
    """
    limits = constraints or Constraints()
    conditions = [*build_filters(limits), *([] if include_gone else [NOT_GONE])]
    match basis:
        case "measured":
            return _by_measured(n_labels, conditions, include_wrong=include_wrong)
        case "reported":
            return _by_reported(n_labels, conditions, board or ReportedBoard(protocol="reported-linear"))
        case "expected":
            return _by_expected(n_labels, n_classes, images, conditions, where=limits.where or "")


def _by_expected(
    n_labels: int, n_classes: int, images: Images, conditions: Sequence[Filter], *, where: str
) -> Ranking[ExpectedError]:
    cards = load_catalogue()
    known = estimate_errors(dict(cards.items()), n_labels, n_classes, images=images)
    everyone = [RankedEncoder(cards[name], one) for name, one in known.items() if not is_of_pocket(cards[name])]
    untold = {name for name, one in known.items() if one.is_untold}
    further = [
        Filter(FLATTERING, lambda one: not one.card.saw_labels),
        Filter(UNTOLD, lambda one: one.card.id not in untold),
        Filter("weights of another network", lambda one: one.card.weights.availability != "unfit"),
    ]
    kept, left_out, why_nobody = apply_filters(everyone, [*conditions, *further], {})
    kept.sort(key=lambda one: (one.number.odds, one.card.id))
    reasons = [_why_unranked(one.card, images, where) for one in kept]
    if all(reasons):  # nobody else is left
        reasons = [""] * len(kept)
    ordered = [one for one, why in zip(kept, reasons, strict=True) if not why]
    return Ranking(
        n_labels=n_labels,
        n_classes=n_classes,
        images=images,
        ranked=[
            replace(one, rank=place, is_tie=is_tied(one.number, ordered[0].number))
            for place, one in enumerate(ordered, start=1)
        ],
        beside=[replace(one, why=why) for one, why in zip(kept, reasons, strict=True) if why],
        left_out=left_out,
        why_nobody=why_nobody,
        level_sd=read_difficulties()[images.column].sd,
    )


def _why_unranked(card: EncoderCard, images: Images, where: str) -> str:
    """Why an encoder that passes all has no rank by its expected error, unless the condition asks for it; or ""."""
    if card.weights.availability in GATED and not re.search(r"\baccess\b", where):
        return "gated"
    if not is_suited(card, images) and not re.search(r"\bdomain\b", where):
        return f"for {get_domain(card).removesuffix('s')} images"  # of faces
    return ""


def _by_measured(n_labels: int, conditions: Sequence[Filter], *, include_wrong: bool) -> Ranking[MeasuredError]:
    """Prediction errors are those of all candidates, whatever the conditions; ranks are among those that pass.

    QueryError below 1,000 labels, or above 1,281,167.
    """
    curves, everyone, without = predict_errors(n_labels)
    right = summaries(exclude_wrong=True)
    is_right = Filter("measured wrongly, see --include-wrong", lambda one: one.card.id in right)
    kept, left_out, why_nobody = apply_filters(everyone, [*conditions, *([] if include_wrong else [is_right])], without)
    uncertainty = estimate_held_out_error(curves, n_labels)
    kept.sort(key=lambda one: (one.number.error, one.card.id))
    errors, own = [one.number.error for one in kept], estimate_noises(curves, kept, uncertainty)
    sure = {place: noise for place, noise in enumerate(own) if noise is not None}
    odds = dict(zip(sure, simulate_ranks([errors[place] for place in sure], [*sure.values()]), strict=True))
    ranked = [
        RankedEncoder(
            one.card,
            replace(one.number, noise=noise, odds=odds.get(place)),
            rank=1 + errors.index(one.number.error),
            is_tie=place in odds and odds[place].ties_with_first,
        )
        for place, (one, noise) in enumerate(zip(kept, own, strict=True))
    ]
    known = summaries()
    others = (RankedEncoder(card, None) for card in load_catalogue().values() if card.id not in known)
    unmeasured = [
        one.card
        for one in others
        if one.card.objective.mode not in NO_CANDIDATES and all(limit.keeps(one) for limit in conditions)
    ]
    return Ranking(
        n_labels=n_labels,
        ranked=ranked,
        left_out=left_out,
        why_nobody=why_nobody,
        uncertainty=uncertainty,
        unmeasured=unmeasured,
    )


def _by_reported(n_labels: int, conditions: Sequence[Filter], board: ReportedBoard) -> Ranking[ReportedNumber]:
    """The highest number is the first; equal ones have equal ranks."""
    cards = load_catalogue()
    numbers = sorted(board.select().items(), key=lambda pair: (-pair[1].value, pair[0]))
    unranked = NO_CANDIDATES if board.dataset == IMAGENET else ()  # whose labels are not those of other data
    everyone = [RankedEncoder(cards[name], one) for name, one in numbers if cards[name].objective.mode not in unranked]
    kept, left_out, why_nobody = apply_filters(everyone, conditions, {})
    values = [one.number.value for one in kept]
    return Ranking(
        n_labels=n_labels,
        ranked=[replace(one, rank=1 + values.index(one.number.value)) for one in kept],
        left_out=left_out,
        why_nobody=why_nobody if everyone else f"No encoder that is a candidate has a number of {board.protocol}.",
    )


def recommend(
    n_labels: int | None = None,
    n_classes: int | None = None,
    *,
    like: str | None = None,
    domain: str | None = None,
    constraints: Constraints | None = None,
    include_gone: bool = False,
) -> Ranking[ExpectedError]:
    """Encoders by the error to expect, percent, of a linear probe with ``n_labels`` images, as ``zoo recommend`` does.

    The images are like a data set (``like``), of a kind such as "satellite" (``domain``), or those of ImageNet-1K;
    ``n_classes`` is by default that of the data set. Without ``n_labels`` there are as many per class as ImageNet-1K
    has, 1,281. ``include_gone`` ranks encoders without weights, too.

    Raises
    ------
    QueryError
        If the numbers cannot be meant, or the number of classes is not known.
    UnknownName
        If there is no data set or domain of that name.
    """
    images = Images.named(like, domain) if like or domain else ON_IMAGENET
    if n_classes is None and images.dataset:
        n_classes = list_datasets()[images.dataset].n_classes
    if n_labels is None:
        n_classes = n_classes or N_CLASSES
        n_labels = MOST_LABELS if n_classes == N_CLASSES else MOST_LABELS * n_classes // N_CLASSES
    if n_classes is None:
        raise QueryError(f"Got no number of classes, expected n_classes for {images.words}.")
    if images.dataset == IMAGENET and n_classes == N_CLASSES:
        check_n_labels(n_labels)
    found: Ranking[ExpectedError] = rank_encoders(n_labels, n_classes, images, constraints, include_gone=include_gone)
    return found


def is_suited(card: EncoderCard, images: Images) -> bool:
    """Whether an encoder is for images of a kind: natural ones are for all, special ones for theirs."""
    kinds = get_image_domains(card)
    return not kinds or images.domain in kinds


def is_of_pocket(card: EncoderCard) -> bool:
    """Whether an encoder is one of the tiny ones that come with the zoo, or of an experiment with them."""
    url = card.weights.url
    return card.family == "randomised" or (not isinstance(url, Missing) and url.startswith(_POCKET))


def is_worse(one: ExpectedError, other: ExpectedError) -> bool:
    """Whether one encoder is worse than another beyond a tie."""
    return one.odds > other.odds and one.odds - other.odds >= DEVIATES * one.sd_from(other)


def is_tied(one: ExpectedError, first: ExpectedError) -> bool:
    """Whether an encoder shares the first place, by numbers of its own."""
    return one is first or (one.basis != "similar encoders" and not is_worse(one, first))


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:_N_NAMED]) + " ..." * (len(names) > _N_NAMED)


def select_racers(ranked: Sequence[RankedEncoder[ExpectedError]]) -> list[RankedEncoder[ExpectedError]]:
    """Whom to race where too many are tied with the first to rank them: five of them, of as many families, those with
    a linear probe on ImageNet-1K first, by rising error. [] where the order says enough.
    """
    tied = [one for one in ranked if is_tied(one.number, ranked[0].number)]
    if len(tied) <= max(N_RACERS, TOO_MANY * len(ranked)):
        return []
    tied.sort(key=lambda one: one.number.basis in ("other numbers", "similar encoders"))
    of_families: dict[str, RankedEncoder[ExpectedError]] = {}
    for one in tied:
        of_families.setdefault(one.card.family, one)
    return [*of_families.values()][:N_RACERS]


def select_first_networks(cards: Iterable[EncoderCard], n: int) -> list[str]:
    """Ids of the first ``n`` encoders with different weights."""
    first: dict[str, str] = {}
    for card in cards:
        url = card.weights.url
        first.setdefault(card.id if isinstance(url, Missing) else url, card.id)
    return [*first.values()][:n]


# --- measured errors ------------------------------------------------------------------------------------------------


def predict_errors(n_labels: int) -> tuple[list[Curve], list[RankedEncoder[MeasuredError]], LeftOut]:
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
            number = MeasuredError(curve=curve, predicted=predicted, errata=summary.errata)
            found.append(RankedEncoder(card, number))
    return curves, found, left_out


def estimate_noises(
    curves: Sequence[Curve], found: Sequence[RankedEncoder[MeasuredError]], usual: HeldOutError | None
) -> list[Noise | None]:
    """The uncertainty of each error; where a neighbouring setting was not measured, by a trial without that setting.

    ``usual`` is :func:`~zoo.analysis.label_budget.estimate_held_out_error` of the curves. None where misses are
    unknown.
    """
    grid = {n for curve in curves for n in curve}
    trials: dict[tuple[int, ...], HeldOutError | None] = {}
    of_each = []
    for one in found:
        predicted, own, trial = one.number.predicted, tuple(sorted(one.number.curve)), usual
        usual_one = predict_error(dict.fromkeys(grid, 1.0), predicted.n_labels)
        if usual_one is not None and predicted.basis != usual_one.basis:
            if own not in trials:
                some = [{n: curve[n] for n in own} for curve in curves if curve.keys() >= set(own)]
                trials[own] = estimate_held_out_error(some, predicted.n_labels)
            trial = trials[own]
        of_each.append(estimate_noise(one.number.curve, predicted, trial))
    return of_each


def has_no_information(found: Ranking[MeasuredError]) -> bool:
    """Whether it is an extrapolation that cannot tell more than half of the encoders from the first."""
    n_ties = sum(one.number.odds is None or one.is_tie for one in found.ranked)
    return any(one.number.predicted.kind == "extrapolated" for one in found.ranked) and 2 * n_ties > len(found.ranked)


def find_usual_prediction(found: Iterable[RankedEncoder[MeasuredError]]) -> PredictedError:
    """The prediction from the settings nearest to the number of labels, which most of at least one encoder have."""
    return max((one.number.predicted for one in found), key=lambda one: (one.basis[0], -one.basis[-1]))


def describe_certainty(found: Ranking[MeasuredError]) -> list[str]:
    """Sentences on where the numbers come from and how far to trust them."""
    usual = find_usual_prediction(found.ranked)
    lines = describe_error_origin(usual, [one.number.noise for one in found.ranked], found.uncertainty)
    lines += describe_ties(found.ranked)
    if usual.kind == "extrapolated":
        lines.append("Extrapolation: nothing was measured with so few labels.")
    return lines


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


def describe_ties(ranked: Sequence[RankedEncoder[MeasuredError]]) -> list[str]:
    """Sentence on how many encoders may be the best."""
    known = [one for one in ranked if one.number.odds is not None]
    ties = sum(one.is_tie for one in known)
    if not known:
        return []
    if ties == 1:
        return [f"The first is better than any other in at least {1 - _TIE:.0%} of draws."]
    return [
        f"Ties: {ties} encoders share the first place; each other is better than the first in the table in over "
        f"{_TIE:.0%} of draws."
    ]


def describe_wider_gaps(shown: Sequence[RankedEncoder[MeasuredError]], usual: Sequence[int]) -> list[str]:
    """Sentences on encoders without one of the settings between which the others are interpolated."""
    return [
        f"{one.card.id} was not measured with {SETTING_OF[n]}: its number spans a wider gap and is less certain."
        for one in shown
        for n in usual
        if n not in one.number.curve
    ]


def list_interval_sources(ranked: Sequence[RankedEncoder[MeasuredError]]) -> list[str]:
    """Sources of error within the intervals; draws of labels and trainings of probes never are."""
    known = [one.number.noise for one in ranked if one.number.noise is not None]
    parts = {
        "validation images": bool(known),
        "misses of predictions": any(noise.prediction for noise in known),
        "difference between laws": any(noise.law for noise in known),
    }
    return [name for name, is_in in parts.items() if is_in]
