"""``zoo recommend``: encoders ranked by the error to expect with the user's number of labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import click

from ..analysis.label_budget import LEVEL, N_CLASSES, ImageNetBudget, check_n_labels, imagenet_budget
from ..cards.catalogue import catalogue
from ..cards.schema import EncoderCard, Missing
from ..choosing.budget_ranking import (
    FEWEST_MEASURED,
    NO_CANDIDATES,
    SETTING_OF,
    Answer,
    Ranked,
    answered,
    candidates,
    contained,
    first_networks,
    how_sure,
    is_right,
    wider_gaps,
)
from ..choosing.constraints import NOT_GONE, Constraints, Filter, filtered, filters
from ..errors import QueryError
from ..results.derived import summaries
from ..results.facts import points, short_number
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

_N_FIRST = 3  # encoders that the next command measures
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
    for MIT, Apache-2.0 or BSD, of code and weights. Encoders that were pretrained with labels are no candidates, nor
    are those of an experiment, such as the family "randomised".
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
        conditions.append(is_right(summaries(exclude_wrong=True)))
    asked = _Asked(n_labels, budget, None, constraints, dataset, top)
    answer = answered(n_labels, conditions)
    if budget is not None and answer.says_nothing:
        asked = replace(asked, n_labels=FEWEST_MEASURED, too_few=n_labels)
        answer = answered(FEWEST_MEASURED, conditions)
    unmeasured = not_ranked(summaries(), NO_CANDIDATES, of_cards)
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


def _next_command(asked: _Asked, ranked: Sequence[Ranked]) -> str | None:
    """The command that measures the first encoders on the user's images; None without any."""
    if not ranked:
        return None
    names = ",".join(first_networks(ranked, _N_FIRST))
    return " ".join(["zoo choose IMAGES --encoders", names, *spelled(asked.constraints)])


def _by_reported(by: str, conditions: Sequence[Filter], n_labels: int | None, *, top: int, as_json: bool) -> None:
    """The ranking by a reported number, with measured errors beside it where there are any."""
    everyone = reported_candidates(by, NO_CANDIDATES)
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
    cards = catalogue()
    found = {encoder: summary for encoder, summary in summaries(dataset=dataset).items() if cards.lists(encoder)}
    if not found:
        raise QueryError(
            f"On {dataset!r} only encoders of an experiment were measured, which are no candidates; 'zoo results "
            f"--dataset {dataset} --family {' --family '.join(cards.experiments)}' shows them."
        )
    return {encoder: summary.errors["100%"] for encoder, summary in found.items() if "100%" in summary.errors}


def _print(asked: _Asked, answer: Answer, own: dict[str, float]) -> None:
    n_labels, ranked, dataset = asked.n_labels, answer.ranked, asked.dataset
    shown = ranked[: asked.top]
    kind = f"{answer.usual.kind}; lower is better."
    if asked.budget is not None:
        click.echo("\n".join(map(wrapped, _translation(asked))) + "\n")
    title = f"Error of a linear probe with {n_labels:,} labels of ImageNet-1K, percent, {kind}"
    click.echo(click.style(wrapped(title), bold=True) + "\n")
    basis = sorted({n for one in shown for n in one.candidate.predicted.basis} - {n_labels})
    settings = [SETTING_OF[n] for n in basis]
    headers = ["rank", "encoder", f"{n_labels:,}", "interval", "best", *settings, "parameters", "dim", "licence"]
    rows = [
        [
            one.rank_text,
            one.candidate.card.id + (f" {WRONG}" if one.candidate.errata else ""),
            points(one.candidate.predicted.error),
            one.interval_text,
            one.best_text,
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
    sure = [*how_sure(answer, len(shown)), *wider_gaps(shown, answer.usual.basis)]
    sure += [line for one in shown for line in distrust(one.candidate.card.id, one.candidate.errata)]
    click.echo("\n" + "\n".join(map(wrapped, sure)))
    gone = ", ".join(f"{len(encoders)} ({reason})" for reason, encoders in answer.left_out.items())
    print_notes([f"{len(shown)} of {len(ranked)} encoders{f'; left out: {gone}' if gone else ''}"])
    if asked.shows_costs:
        print_notes([cost_note(asked.constraints)])
    if dataset is not None:
        place = {one.candidate.card.id: one.rank_text for one in ranked}
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
            f"order is that with {FEWEST_MEASURED // N_CLASSES} labels a class, the fewest that were measured."
        )
    lines.append(
        f"Errors are those of {N_CLASSES:,} classes of photographs; with {budget.n_classes:,} classes of other images "
        "they are others, and the order may be too: take it for a shortlist."
    )
    return lines


def _licence(card: EncoderCard) -> str:
    return "?" if isinstance(card.licence.weights, Missing) else card.licence.weights


def _document(asked: _Asked, answer: Answer) -> dict[str, Any]:
    records: list[dict[str, Any]] = []
    ranked, budget = answer.ranked, asked.budget
    for one in ranked[: asked.top]:
        candidate = one.candidate
        card, predicted = candidate.card, candidate.predicted
        basis = [{"setting": SETTING_OF[n], "n_labels": n, "error": candidate.curve[n]} for n in predicted.basis]
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
        "intervals_contain": contained(ranked),
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


def _uncertain(one: Ranked) -> dict[str, Any]:
    """Interval, rank and probabilities as JSON; null where the uncertainty is unknown."""
    noise, odds = one.noise, one.odds
    return {
        "interval": None if noise is None else list(noise.interval(one.candidate.predicted.error)),
        "noise": None if noise is None else asdict(noise),
        "rank_interval": None if odds is None else [odds.lowest, odds.highest],
        "probability_best": None if odds is None else odds.best,
        "ties_with_first": None if odds is None else odds.ties_with_first,
    }
