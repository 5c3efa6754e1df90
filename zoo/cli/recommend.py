"""``zoo recommend``: encoders ranked by the error to expect with the user's number of labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import click

from ..analysis.label_budget import (
    LEVEL,
    N_CLASSES,
    N_VALIDATION_IMAGES,
    Curve,
    HeldOutError,
    ImageNetBudget,
    Noise,
    PredictedError,
    RankOdds,
    amplification,
    check_n_labels,
    held_out_error,
    imagenet_budget,
    noise_of,
    predict_error,
    rank_odds,
)
from ..cards.catalogue import catalogue
from ..cards.schema import EncoderCard, Missing
from ..choosing.constraints import NOT_GONE, Constraints, Filter, LeftOut, filtered, filters
from ..results.derived import summaries
from ..results.facts import points, short_number
from ..results.values import SETTINGS, ResultErratum
from .by_reported import (
    BY,
    not_ranked,
    not_ranked_document,
    not_ranked_notes,
    print_by_reported,
    reported_candidates,
)
from .constraint_options import (
    asks_for_costs,
    constraint_options,
    constraints_of,
    cost_cells,
    cost_note,
    cost_record,
    spelled,
)
from .facts import WRONG
from .options import as_count, dataset_names, refuse_idle
from .output import NothingFound, json_option, print_command, print_json, print_notes, print_table, record, wrapped
from .risks import distrust, errata_records

_NO_CANDIDATES = ("supervised", "initialized")
_FEWEST_SETTINGS = 3
_IMPOSSIBLE = "measured with an error of 0"
_TOO_FEW = f"measured in fewer than {_FEWEST_SETTINGS} settings"
_ENDS_BEFORE = "not measured with as many labels"


@dataclass(frozen=True, slots=True)
class Candidate:
    """An encoder and its expected error."""

    card: EncoderCard
    curve: Curve  # what was measured
    predicted: PredictedError
    errata: tuple[ResultErratum, ...]  # of its measurements


def candidates(n_labels: int) -> tuple[list[Curve], list[Candidate], LeftOut]:
    """All believable error curves, the self-supervised encoders whose curve predicts an error, and the others by
    reason.

    A curve through fewer than three settings counts only where it was measured.
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
    """The uncertainty of each error; where a neighbouring setting was not measured, by a trial without that setting."""
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


_FEWEST_MEASURED = min(setting.n_labels for setting in SETTINGS)
_N_FIRST = 3  # encoders that the next command measures
_SETTING = {setting.n_labels: setting.name for setting in SETTINGS}
_EPILOG = """\b
Examples:
  zoo recommend --labels 20k
  zoo recommend --labels 20k --dataset birds
  zoo recommend --classes 2 --labels 5000 --max-memory 8GB --licence commercial
  zoo recommend --labels 5000 --max-parameters 30M --licence permissive --json
  zoo recommend --labels 5000 --licence commercial --where 'access == "open"'
  zoo recommend --by reported-linear --max-parameters 100M
"""


@dataclass(frozen=True, slots=True)
class _Asked:
    """What the user wants to know, and how it is answered."""

    n_labels: int  # of ImageNet, by whose errors encoders are ranked
    budget: ImageNetBudget | None  # what it stands for; None where the user gave labels of ImageNet
    too_few: int | None  # labels of ImageNet that stand for the user's, where n_labels are the fewest measured instead
    constraints: Constraints
    dataset: str | None  # of the user's own errors, shown beside
    top: int

    @property
    def shows_costs(self) -> bool:
        """Whether operations and memory are shown."""
        return asks_for_costs(self.constraints)


@dataclass(frozen=True, slots=True)
class _Ranked:
    """A candidate and its rank; noise and odds are None where its uncertainty is unknown."""

    candidate: Candidate
    rank: int  # by the error as it is shown; equal errors have equal ranks
    noise: Noise | None
    odds: RankOdds | None


@click.command("recommend", epilog=_EPILOG)
@click.option(
    "--labels",
    "n_labels",
    callback=as_count,
    metavar="N",
    help="Labelled images, such as 20k: from 1,000 to 1,281,167, and below 3,000 by extrapolation.",
)
@click.option(
    "--classes",
    "n_classes",
    callback=as_count,
    metavar="K",
    help="Classes of your images; the labels are then translated into ImageNet's by labels a class.",
)
@click.option(
    "--by",
    type=click.Choice(BY),
    help="Rank by the accuracy that somebody reported, with all labels, instead of by what was measured.",
)
@constraint_options
@click.option(
    "--dataset",
    metavar="NAME",
    shell_complete=dataset_names,
    help="Show beside it the errors with all labels that were measured on this data set; the rank stays ImageNet's.",
)
@click.option("--top", type=click.IntRange(min=1), default=10, show_default=True, help="How many to show.")
@click.option("--include-gone", is_flag=True, help="Also encoders whose weights are no longer available.")
@click.option("--include-wrong", is_flag=True, help="Also measurements that an erratum says to leave out.")
@json_option
def recommend_command(
    n_labels: int | None,
    n_classes: int | None,
    by: str | None,
    dataset: str | None,
    top: int,
    include_gone: bool,
    include_wrong: bool,
    device: str | None,
    batch_size: int,
    as_json: bool,
    **options: Any,
) -> None:
    """Rank encoders for the number of labels you have.

    The rank is by the error of a linear probe with N labels of ImageNet-1K: as measured, or interpolated between the
    settings measured on either side (3,000; 5,000; 12,811; 30,000; 1,281,167 labels). From 1,000 to 3,000 labels it
    is an extrapolation; with fewer or with more than 1,281,167 nothing can be said. Nine in ten errors and ranks are
    expected within the intervals beside them; an encoder is "best" with the probability beside it. "permissive" asks
    for MIT, Apache-2.0 or BSD, of code and weights. Encoders that were pretrained with labels are no candidates.
    --dataset shows what was measured on your own data beside it, and does not change the rank. Encoders of which
    nothing was measured have no rank; what others reported of them is named below the table, and --by ranks by that.

    With --classes, labels are yours: the rank is that with as many labels a class of ImageNet. --max-memory and
    --device show and limit what batches of --batch-size take, computed from each network. The last line is the command
    that measures the first three networks on your images.
    """
    constraints = constraints_of(options, device=device, batch_size=batch_size)
    if n_labels is None and by is None:
        raise click.UsageError("Missing option '--labels': how many labelled images you have, or --by reported-linear.")
    if n_labels is None:
        refuse_idle(("n_classes",), "no labels were given to be translated")
    budget = None if n_classes is None or n_labels is None else imagenet_budget(n_labels, n_classes)
    n_labels = n_labels if budget is None else budget.n_labels
    if n_labels is not None:
        check_n_labels(n_labels)
    conditions = filters(constraints)
    if not include_gone:
        conditions.append(NOT_GONE)
    if by is not None:
        refuse_idle(("dataset", "include_wrong"), f"--by {by} ranks by what others reported on ImageNet-1K")
        if constraints.max_memory is None and constraints.min_images_per_second is None:
            refuse_idle(("device", "batch_size"), f"--by {by} shows no memory")
        _by_reported(by, conditions, n_labels, top=top, as_json=as_json)
        return
    assert n_labels is not None
    own = _full_shot_errors(dataset)
    of_cards = list(conditions)
    if not include_wrong:
        right = summaries(exclude_wrong=True)
        conditions.append(Filter("measured wrongly, see --include-wrong", lambda one: one.card.id in right))
    asked = _Asked(n_labels, budget, None, constraints, dataset, top)
    answer = _answered(n_labels, conditions)
    if budget is not None and answer.says_nothing:
        asked = replace(asked, n_labels=_FEWEST_MEASURED, too_few=n_labels)
        answer = _answered(_FEWEST_MEASURED, conditions)
    unmeasured = not_ranked(summaries(), _NO_CANDIDATES, of_cards)
    command = _next_command(asked, answer.ranked)
    if as_json:
        document = _document(asked, answer)
        document["not_measured"] = not_ranked_document(unmeasured, top)
        if dataset is not None:
            document["dataset"] = dataset
            document["errors_on_dataset"] = own
        print_json({**document, "next": command})
    elif answer.ranked:
        _print(asked, answer, own)
        print_notes(not_ranked_notes(unmeasured))
        print_command("on your images", command)
    if not answer.ranked:
        raise NothingFound(answer.why_nobody)


@dataclass(frozen=True, slots=True)
class _Answer:
    """Encoders in their order at one number of labels."""

    ranked: list[_Ranked]
    uncertainty: HeldOutError | None
    left_out: LeftOut
    why_nobody: str

    @property
    def says_nothing(self) -> bool:
        """Whether it is an extrapolation that cannot tell more than half of the encoders from the first."""
        kinds = {one.candidate.predicted.kind for one in self.ranked}
        n_ties = sum(one.odds is None or one.odds.ties_with_first for one in self.ranked)
        return "extrapolated" in kinds and 2 * n_ties > len(self.ranked)


def _answered(n_labels: int, conditions: Sequence[Filter]) -> _Answer:
    curves, everyone, without = candidates(n_labels)
    kept, left_out, why_nobody = filtered(everyone, conditions, without)
    uncertainty = held_out_error(curves, n_labels)
    return _Answer(_ranked(curves, kept, uncertainty), uncertainty, left_out, why_nobody)


def _next_command(asked: _Asked, ranked: Sequence[_Ranked]) -> str | None:
    """The command that measures the first encoders on the user's images; None without any."""
    if not ranked:
        return None
    first: dict[str, str] = {}  # other features of the same weights are no other choice
    for one in ranked:
        first.setdefault(_file_of(one.candidate.card), one.candidate.card.id)
    names = ",".join([*first.values()][:_N_FIRST])
    return " ".join(["zoo choose IMAGES --encoders", names, *spelled(asked.constraints)])


def _file_of(card: EncoderCard) -> str:
    """What two encoders with the same weights share."""
    url = card.weights.url
    return card.id if isinstance(url, Missing) else url


def _by_reported(by: str, conditions: Sequence[Filter], n_labels: int | None, *, top: int, as_json: bool) -> None:
    """The ranking by a reported number, with measured errors beside it where there are any."""
    everyone = reported_candidates(by, _NO_CANDIDATES)
    if not everyone:
        raise NothingFound(f"No encoder that is a candidate has a number of {by}.")
    kept, left_out, why_nobody = filtered(everyone, conditions, {})
    if n_labels is None:
        measured = _full_shot_errors("imagenet-1k")
    else:
        measured = {one.card.id: one.predicted.error for one in candidates(n_labels)[1]}
    if kept or as_json:
        print_by_reported(by, kept, top=top, n_labels=n_labels, measured=measured, left_out=left_out, as_json=as_json)
    if not kept:
        raise NothingFound(why_nobody)


def _full_shot_errors(dataset: str | None) -> dict[str, float]:
    """Errors with all labels of that data set, by encoder; empty without one."""
    if dataset is None:
        return {}
    found = summaries(dataset=dataset)
    return {encoder: summary.errors["100%"] for encoder, summary in found.items() if "100%" in summary.errors}


def _ranked(curves: Sequence[Curve], kept: Sequence[Candidate], uncertainty: HeldOutError | None) -> list[_Ranked]:
    """Candidates by rising error, with their uncertainty."""
    ordered = sorted(kept, key=lambda candidate: (candidate.predicted.error, candidate.card.id))
    errors = [candidate.predicted.error for candidate in ordered]
    own = noises(curves, ordered, uncertainty)
    known = {place: noise for place, noise in enumerate(own) if noise is not None}
    odds = dict(zip(known, rank_odds([errors[place] for place in known], [*known.values()]), strict=True))
    return [
        _Ranked(candidate, 1 + errors.index(error), noise, odds.get(place))
        for place, (candidate, error, noise) in enumerate(zip(ordered, errors, own, strict=True))
    ]


def _print(asked: _Asked, answer: _Answer, own: dict[str, float]) -> None:
    n_labels, ranked, uncertainty, dataset = asked.n_labels, answer.ranked, answer.uncertainty, asked.dataset
    shown = ranked[: asked.top]
    usual = max((one.candidate for one in ranked), key=lambda one: (one.predicted.basis[0], -one.predicted.basis[-1]))
    kind = f"{usual.predicted.kind}; lower is better."
    if asked.budget is not None:
        click.echo("\n".join(map(wrapped, _translation(asked))) + "\n")
    title = f"Error of a linear probe with {n_labels:,} labels of ImageNet-1K, percent, {kind}"
    click.echo(click.style(wrapped(title), bold=True) + "\n")
    basis = sorted({n for one in shown for n in one.candidate.predicted.basis} - {n_labels})
    settings = [_SETTING[n] for n in basis]
    headers = ["rank", "encoder", f"{n_labels:,}", "interval", "best", *settings, "parameters", "dim", "licence"]
    rows = [
        [
            _rank(one),
            one.candidate.card.id + (f" {WRONG}" if one.candidate.errata else ""),
            points(one.candidate.predicted.error),
            *_odds(one),
            *(points(one.candidate.curve[n]) if n in one.candidate.predicted.basis else "" for n in basis),
            short_number(one.candidate.card.architecture.n_parameters),
            str(one.candidate.card.representation.dim),
            _licence(one.candidate.card),
        ]
        for one in shown
    ]
    if dataset is not None:
        headers.insert(3, f"on {dataset}")
        for row, one in zip(rows, shown, strict=True):
            row.insert(3, points(own[one.candidate.card.id]) if one.candidate.card.id in own else "?")
    if asked.shows_costs:
        headers[-1:-1] = ["GFLOPs", "memory"]
        for row, one in zip(rows, shown, strict=True):
            row[-1:-1] = cost_cells(one.candidate.card, asked.constraints)
    print_table(headers, rows, right=[0, *range(2, len(headers) - 1)])
    sure = [*_how_sure(usual.predicted, ranked, uncertainty, len(shown)), *_wider_gaps(shown, usual.predicted.basis)]
    sure += [line for one in shown for line in distrust(one.candidate.card.id, one.candidate.errata)]
    click.echo("\n" + "\n".join(map(wrapped, sure)))
    gone = ", ".join(f"{len(encoders)} ({reason})" for reason, encoders in answer.left_out.items())
    print_notes([f"{len(shown)} of {len(ranked)} encoders{f'; left out: {gone}' if gone else ''}"])
    if asked.shows_costs:
        print_notes([cost_note(asked.constraints)])
    if dataset is not None:
        place = {one.candidate.card.id: _rank(one) for one in ranked}
        best = [
            f"{encoder} {points(error)} ({f'rank {place[encoder]}' if encoder in place else 'not ranked'})"
            for encoder, error in sorted(own.items(), key=lambda pair: pair[1])
        ]
        more = f" and {len(best) - asked.top} more" if len(best) > asked.top else ""
        print_notes([f"measured on {dataset} with all its labels, best first: {', '.join(best[: asked.top])}{more}"])


def _translation(asked: _Asked) -> list[str]:
    """Sentences on which labels of ImageNet stand for the user's, and what that is worth."""
    budget = asked.budget
    assert budget is not None
    lines = [str(budget)]
    if asked.too_few is not None:
        lines.append(
            f"An extrapolation to {asked.too_few:,} labels tells fewer than half of the encoders from the first: the "
            f"order is that with {_FEWEST_MEASURED // N_CLASSES} labels a class, the fewest that were measured."
        )
    lines.append(
        f"Errors are those of {N_CLASSES:,} classes of photographs; with {budget.n_classes:,} classes of other images "
        "they are others, and the order may be too: take it for a shortlist."
    )
    return lines


def _three_shot(ranked: Sequence[_Ranked], n_shown: int) -> list[str]:
    """A sentence on the order with the fewest labels that were measured, beside an extrapolation below them."""
    known = [one.candidate for one in ranked if _FEWEST_MEASURED in one.candidate.curve]
    first = [one.card.id for one in sorted(known, key=lambda one: one.curve[_FEWEST_MEASURED])[:n_shown]]
    shown = {one.candidate.card.id for one in ranked[:n_shown]}
    if not first:
        return []
    return [
        f"With {_FEWEST_MEASURED:,} labels, the fewest measured, the first are {', '.join(first[:_N_FIRST])}; "
        f"{len(shown & set(first))} of the {len(shown)} shown are among its first {len(first)}."
    ]


def _rank(one: _Ranked) -> str:
    """The range of its rank, as 1-4."""
    if one.odds is None:
        return "?"
    low, high = one.odds.lowest, one.odds.highest
    return str(low) if low == high else f"{low}-{high}"


def _odds(one: _Ranked) -> list[str]:
    if one.noise is None or one.odds is None:
        return ["?", "?"]
    low, high = one.noise.interval(one.candidate.predicted.error)
    best = "<1%" if 0 < one.odds.best < 0.005 else f"{one.odds.best:.0%}"
    return [f"{points(low)}-{points(high)}", best]


def _licence(card: EncoderCard) -> str:
    return "?" if isinstance(card.licence.weights, Missing) else card.licence.weights


def _how_sure(
    predicted: PredictedError, ranked: Sequence[_Ranked], uncertainty: HeldOutError | None, n_shown: int
) -> list[str]:
    """Sentences on where the numbers come from and how far to trust them."""
    caution = "measured on ImageNet with the published probe; other data can rank encoders differently."
    images = f"the choice of {N_VALIDATION_IMAGES:,} validation images"
    if predicted.kind == "measured":
        return [
            f"As {caution}",
            f"No intervals were published: those shown hold nine in ten errors and ranks under {images} alone. By how "
            "much other draws of the labels and other trainings of the probe move them is not known.",
            *_ties(ranked),
        ]
    *others, last = [f"{_SETTING[n]} ({n:,} labels)" for n in predicted.basis]
    verb = "Continued from" if predicted.kind == "extrapolated" else "Interpolated between"
    lines = [f"{verb} {', '.join(others)} and {last}, {caution}"]
    parts = "such misses"
    if uncertainty is not None:
        lines.append(_misses(predicted, uncertainty))
    if predicted.kind == "extrapolated":
        laws = [abs(one.noise.law) for one in ranked if one.noise is not None]
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
    lines += _ties(ranked)
    if predicted.kind == "extrapolated":
        lines += _three_shot(ranked, n_shown)
        lines.append("Extrapolation: nothing was measured with so few labels.")
    return lines


def _misses(predicted: PredictedError, trial: HeldOutError) -> str:
    """Sentence on how far predictions missed known errors, and the miss to expect here."""
    hidden = " and ".join(_SETTING[n] for n in trial.left_out)
    target = _SETTING[trial.predicted]
    which = f"{target} is hidden and" if hidden == target else f"{hidden} are hidden and {target} is"
    mean, most = trial.mean_absolute_error, trial.percentile_90
    if predicted.kind == "interpolated":
        return (
            f"Give or take {mean:.1f} points, the mean miss for {trial.n} encoders when {which} predicted; nine in ten "
            f"are within {most:.1f}."
        )
    here = amplification(predicted.basis, predicted.n_labels)
    there = amplification(trial.basis, trial.predicted)
    scale = here / there
    return (
        f"Give or take {mean * scale:.1f} points, nine in ten within {most * scale:.1f}, for noise alone: the mean "
        f"miss for {trial.n} encoders is {mean:.1f}, and nine in ten are within {most:.1f}, when {which} predicted, "
        f"which multiplies the noise of the measurements by {there:.1f}; with {predicted.n_labels:,} labels it is "
        f"{here:.1f}."
    )


def _ties(ranked: Sequence[_Ranked]) -> list[str]:
    """Sentence on how many encoders may be the best."""
    known = [one.odds for one in ranked if one.odds is not None]
    ties = sum(odds.ties_with_first for odds in known)
    if not known:
        return []
    limit = f"{(1 - LEVEL) / 2:.0%}"
    if ties == 1:
        return [f"The first is better than any other in at least {1 - (1 - LEVEL) / 2:.0%} of draws."]
    return [
        f"Ties: {ties} encoders share the first place; each other is better than the first in the table in over "
        f"{limit} of draws."
    ]


def _wider_gaps(shown: Sequence[_Ranked], usual: Sequence[int]) -> list[str]:
    """Sentences on encoders without one of the settings between which the others are interpolated."""
    return [
        f"{one.candidate.card.id} was not measured with {_SETTING[n]}: its number spans a wider gap and is less "
        "certain."
        for one in shown
        for n in usual
        if n not in one.candidate.curve
    ]


def _document(asked: _Asked, answer: _Answer) -> dict[str, Any]:
    records: list[dict[str, Any]] = []
    ranked, budget = answer.ranked, asked.budget
    for one in ranked[: asked.top]:
        candidate = one.candidate
        card, predicted = candidate.card, candidate.predicted
        basis = [{"setting": _SETTING[n], "n_labels": n, "error": candidate.curve[n]} for n in predicted.basis]
        facts = {
            "n_parameters": card.architecture.n_parameters,
            "z_dim": card.representation.dim,
            "licence": card.licence.weights,
            "licence_code": card.licence.code,
            "commercial_use": card.commercial_use,
            "availability": card.weights.availability,
        }
        known = {"rank": one.rank, "encoder": card.id, "error": predicted.error, "kind": predicted.kind, "basis": basis}
        records.append({**known, **_uncertain(one), **record(facts), "errata": errata_records(candidate.errata)})
        if asked.shows_costs:
            records[-1] |= cost_record(card, asked.constraints)
    return {
        "n_labels": asked.n_labels,
        "asked": None if budget is None else _asked_record(asked, budget),
        "constraints": asdict(asked.constraints),
        "unit": "percent",
        "n_candidates": len(ranked),
        "uncertainty": None if answer.uncertainty is None else asdict(answer.uncertainty),
        "interval_level": LEVEL,
        "intervals_contain": _contained(ranked),
        "n_ties_with_first": sum(one.odds.ties_with_first for one in ranked if one.odds is not None),
        "left_out": [
            {"reason": reason, "n": len(encoders), "names": encoders} for reason, encoders in answer.left_out.items()
        ],
        "encoders": records,
    }


def _asked_record(asked: _Asked, budget: ImageNetBudget) -> dict[str, Any]:
    """How the user's labels were translated, as JSON."""
    return {
        "n_labels": budget.asked,
        "n_classes": budget.n_classes,
        "labels_per_class": budget.labels_per_class,
        "imagenet_labels": budget.n_labels,
        "is_capped": budget.is_capped,
        "ranked_by": "expected error" if asked.too_few is None else "3-shot error",
        "translation": _translation(asked),
    }


def _contained(ranked: Sequence[_Ranked]) -> list[str]:
    """Sources of error within the intervals; draws of labels and trainings of probes never are."""
    known = [one.noise for one in ranked if one.noise is not None]
    parts = {
        "validation images": bool(known),
        "misses of predictions": any(noise.prediction for noise in known),
        "difference between laws": any(noise.law for noise in known),
    }
    return [name for name, is_in in parts.items() if is_in]


def _uncertain(one: _Ranked) -> dict[str, Any]:
    """Interval, rank and probabilities as JSON; null where the uncertainty is unknown."""
    noise, odds = one.noise, one.odds
    return {
        "interval": None if noise is None else list(noise.interval(one.candidate.predicted.error)),
        "noise": None if noise is None else asdict(noise),
        "rank_interval": None if odds is None else [odds.lowest, odds.highest],
        "probability_best": None if odds is None else odds.best,
        "ties_with_first": None if odds is None else odds.ties_with_first,
    }
