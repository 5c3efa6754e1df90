"""``zoo recommend``: encoders ranked by the error to expect with the user's labels, by measured or reported numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import click

from ..analysis.label_budget import LEVEL, MOST_LABELS, N_CLASSES, ImageNetBudget, check_n_labels, translate_to_imagenet
from ..analysis.reported_agreement import FEWEST_PAIRS, Agreement, estimate_agreement, pair_with_measured
from ..cards.answers import AnswerColumn, AnswerTable
from ..cards.schema import EncoderCard
from ..choosing.boards import ATTENTIVE, SEGMENTATION, ReportedBoard, describe_board
from ..choosing.constraints import Constraints
from ..choosing.expectations import ExpectedError
from ..choosing.ranking import (
    BEYOND,
    FEWEST_MEASURED,
    SETTING_OF,
    TIED,
    MeasuredError,
    RankedEncoder,
    Ranking,
    describe_certainty,
    describe_ties,
    describe_wider_gaps,
    find_usual_prediction,
    has_no_information,
    list_card_columns,
    list_interval_sources,
    predict_errors,
    rank_encoders,
    recommend,
    select_first_networks,
    select_racers,
)
from ..errors import format_count
from ..results.derived import select_main_protocol, summaries
from ..results.facts import DOUBTFUL, REPORTED, format_points
from ..results.reported_values import PROTOCOLS, ReportedNumber
from ..results.values import IMAGENET
from ..results.wording import describe_protocol_details
from .constraint_options import (
    KIND_OF_IMAGES,
    add_constraint_options,
    build_constraints,
    build_cost_record,
    format_constraint_options,
    format_cost_note,
    list_cost_columns,
    needs_costs,
)
from .facts import WRONG, build_errata_records, list_distrust_notes
from .options import add_options, parse_count, reject_unused_options
from .output import (
    NothingFound,
    add_json_option,
    format_list,
    make_record,
    print_command,
    print_json,
    print_notes,
    print_table,
    wrap_text,
)

BY = ("reported-linear", "reported-knn", "reported-attentive", "reported-zero-shot")
"""Protocols that say something of frozen features."""
_N_FIRST = 3  # encoders that the next command measures
_N_GATED = 3  # encoders without a rank that are named
_EPILOG = """\b
Examples:
  zoo recommend
  zoo recommend --labels 20k
  zoo recommend --classes 2 --labels 5000 --max-memory 8GB --licence commercial
  zoo recommend --classes 10 --labels 500 --like eurosat --device "RTX 4090"
  zoo recommend --classes 4 --labels 2000 --domain pathology --json
  zoo recommend --labels 5000 --licence permissive --measured
  zoo recommend --by reported-linear --max-parameters 100M
  zoo recommend --probe attentive --licence commercial
  zoo recommend --task segment
"""


@click.command("recommend", epilog=_EPILOG)
@click.option(
    "--labels",
    "n_labels",
    callback=parse_count,
    metavar="N",
    help="Labelled images, such as 20k.  [default: as many per class as ImageNet-1K has]",
)
@click.option(
    "--classes",
    "n_classes",
    callback=parse_count,
    metavar="K",
    help="Classes of your images.  [default: those of --like, or ImageNet's 1,000]",
)
@(lambda command: add_options(command, KIND_OF_IMAGES))
@click.option("--measured", "only_measured", is_flag=True, help="Only encoders that were measured on ImageNet-1K.")
@click.option("--by", type=click.Choice(BY), help="Rank by the accuracy that others reported, with all labels.")
@click.option(
    "--probe",
    type=click.Choice(["linear", "attentive"]),
    default="linear",
    show_default=True,
    help="attentive: rank by what others reported of probes that attend to patches.",
)
@click.option(
    "--task",
    type=click.Choice(["classify", "segment"]),
    default="classify",
    show_default=True,
    help="segment: rank by what others measured of masks.",
)
@add_constraint_options
@click.option("--top", type=click.IntRange(min=1), default=10, show_default=True, help="How many to show.")
@click.option("--offline", is_flag=True, hidden=True)  # of zoo choose
@click.option("--include-gone", is_flag=True, help="Also encoders whose weights are no longer available.")
@click.option("--include-wrong", is_flag=True, help="With --measured, also measurements that an erratum leaves out.")
@add_json_option
def recommend_command(
    n_labels: int | None,
    n_classes: int | None,
    like: str | None,
    domain: str | None,
    only_measured: bool,
    by: str | None,
    probe: str,
    task: str,
    top: int,
    offline: bool,
    include_gone: bool,
    include_wrong: bool,
    device: str | None,
    batch_size: int,
    as_json: bool,
    **options: Any,
) -> None:
    """Rank encoders by the error to expect with the labels you have.

    The error is that of a linear probe on ImageNet-1K with as many labels per class, or the data set of --like, or on
    a data set of the --domain. It is measured by the study where that was done, and else expected from all that was
    measured or reported of the encoder and of encoders like it; intervals hold nine in ten. "=" marks encoders
    statistically tied with the first. Encoders trained with ImageNet's labels have no rank, nor, with few
    labels, those whose objective nobody probed with few; gated ones and those of special images are named separately.

    --measured ranks by measured errors alone, with ranks' intervals; --by by reported accuracies, as --probe attentive
    and --task segment do, of which few encoders are known. The last line is the command that measures the first three
    networks on your images.
    """
    if offline:
        raise click.UsageError("Got --offline, but ranking downloads nothing: leave it out, or give it to zoo choose.")
    constraints = build_constraints(options, device=device, batch_size=batch_size)
    board = _choose_board(by, probe, task)
    if board is None and not only_measured:
        reject_unused_options(
            ("include_wrong",),
            "a ranking by expected errors leaves wrong measurements out (--measured can rank by them)",
        )
        if n_classes is None and domain and not like and n_labels is not None:
            raise click.UsageError("Missing option '--classes': how many classes your images have.")
        of: dict[str, Any] = {"like": like, "domain": domain, "include_gone": include_gone}
        _by_expected(recommend(n_labels, n_classes, constraints=constraints, **of), constraints, top, as_json)
        return
    reject_unused_options(("like", "domain"), "ranks by measured or reported errors are those on ImageNet-1K")
    budget = None if n_classes is None or n_labels is None else translate_to_imagenet(n_labels, n_classes)
    n_labels = n_labels if budget is None else budget.n_labels
    n_labels = MOST_LABELS if n_labels is None and board is None else n_labels
    if n_labels is not None:
        check_n_labels(n_labels)
    passing: dict[str, Any] = {"constraints": constraints, "include_gone": include_gone}
    if board is not None:
        reject_unused_options(("include_wrong", "only_measured"), f"{board.protocol} is what others reported")
        found = rank_encoders(MOST_LABELS, basis="reported", board=board, **passing)
        _by_reported(found, board, n_labels, top=top, as_json=as_json)
        return
    assert n_labels is not None
    passing |= {"basis": "measured", "include_wrong": include_wrong}
    answer: Ranking[MeasuredError] = rank_encoders(n_labels, **passing)
    too_few = None
    if budget is not None and has_no_information(answer):
        answer, too_few = rank_encoders(FEWEST_MEASURED, **passing), n_labels
    translation = [] if budget is None else _translation(budget, too_few)
    command = None
    if answer.ranked:
        command = _next(select_first_networks((one.card for one in answer.ranked), _N_FIRST), constraints)
    if as_json:
        of_user = None
        if budget is not None:
            of_user = {
                "n_labels": budget.asked,
                "n_classes": budget.n_classes,
                "labels_per_class": budget.labels_per_class,
                "imagenet_labels": budget.n_labels,
                "is_capped": budget.is_capped,
                "ranked_by": "expected error" if too_few is None else "3-shot error",
                "translation": translation,
            }
        print_json(
            {
                "n_labels": answer.n_labels,
                "asked": of_user,
                "constraints": asdict(constraints),
                "unit": "percent",
                "n_candidates": len(answer.ranked),
                "uncertainty": None if answer.uncertainty is None else asdict(answer.uncertainty),
                "interval_level": LEVEL,
                "intervals_contain": list_interval_sources(answer.ranked),
                "n_ties_with_first": answer.n_ties,
                "left_out": _left_out_records(answer.left_out),
                "encoders": [_ranked_record(one, constraints) for one in answer.ranked[:top]],
                "not_measured": {"n": len(answer.unmeasured)},
                "next": command,
            }
        )
    elif answer.ranked:
        _print(answer, constraints, translation, top)
        print_command("on your images", command)
    if not answer.ranked:
        raise NothingFound(answer.why_nobody)


def _choose_board(by: str | None, probe: str, task: str) -> ReportedBoard | None:
    """The reported numbers to rank by; None: errors of a linear probe."""
    asked = {
        "--by": None if by is None else ReportedBoard(protocol=by),
        "--probe attentive": ATTENTIVE if probe == "attentive" else None,
        "--task segment": SEGMENTATION if task == "segment" else None,
    }
    given = {option: board for option, board in asked.items() if board is not None}
    if len(given) > 1:
        raise click.UsageError(f"Got {' and '.join(given)}, expected one of them: each ranks by other numbers.")
    return next(iter(given.values()), None)


def _next(names: Sequence[str], constraints: Constraints) -> str:
    return " ".join(["zoo choose IMAGES --encoders", ",".join(names), *format_constraint_options(constraints.here())])


# --- by expected errors ----------------------------------------------------------------------------------------------


def _by_expected(found: Ranking[ExpectedError], constraints: Constraints, top: int, as_json: bool) -> None:
    """The ranking of all encoders by the error to expect on such images."""
    images, shown = found.images, found.ranked[:top]
    racers = [one.card.id for one in select_racers(found.ranked)]
    first = racers or select_first_networks((one.card for one in found.ranked), _N_FIRST)
    command = _next(first, constraints) if shown else None
    if as_json:
        print_json(
            {
                "n_labels": found.n_labels,
                "n_classes": found.n_classes,
                "images": {"dataset": images.dataset, "domain": images.domain, "description": images.words},
                "constraints": asdict(constraints),
                "unit": "percent",
                "n_candidates": len(found.ranked),
                "interval_level": LEVEL,
                "n_ties_with_first": found.n_ties,
                "race": racers,
                "tied_without_linear_probe": found.unprobed,
                "cautions": found.cautions,
                "difficulty_sd_log_odds": found.level_sd,
                "left_out": _left_out_records(found.left_out),
                "encoders": [
                    {"rank": one.rank, **_expected_record(one, constraints), "ties_with_first": one.is_tie}
                    for one in shown
                ],
                "beside": [{**_expected_record(one, constraints), "why": one.why} for one in found.beside[:top]],
                "next": command,
            }
        )
    elif shown:
        _print_expected(found, shown, constraints)
        print_command("on your images", command)
    if not shown:
        raise NothingFound(found.why_nobody)


def _expected_record(one: RankedEncoder[ExpectedError], constraints: Constraints) -> dict[str, Any]:
    card, expected = one.card, one.number
    return {
        "encoder": card.id,
        "error": expected.error,
        "interval": list(expected.interval),
        "rests_on": expected.basis,
        "how": expected.how,
        "source": expected.source,
        **make_record(_list_facts(card)),
        **(build_cost_record(card, constraints) if needs_costs(constraints) else {}),
    }


def _list_facts(card: EncoderCard) -> dict[str, Any]:
    return {
        "n_parameters": card.architecture.n_parameters,
        "z_dim": card.representation.dim,
        "licence": card.licence.weights,
        "licence_code": card.licence.code,
        "commercial_use": card.commercial_use,
        "availability": card.weights.availability,
    }


def _print_expected(
    found: Ranking[ExpectedError], shown: Sequence[RankedEncoder[ExpectedError]], constraints: Constraints
) -> None:
    shows_costs = needs_costs(constraints)
    click.echo(click.style(wrap_text(found.title), bold=True) + "\n")
    if found.lead:
        click.echo(wrap_text(found.lead) + "\n")
    *columns, parameters, dim, licence = found.build_tables()[0].take(len(shown)).columns
    costs = list_cost_columns([one.card for one in shown], constraints)
    print_table(AnswerTable(columns=[*columns, *costs, parameters, dim, licence]))
    n_ties = found.n_ties
    ties = f"{TIED}  {n_ties} encoders are statistically tied with the first" if n_ties > 1 else ""
    notes = [ties] * bool(ties)
    notes.append(f"{len(shown)} of {format_count(len(found.ranked), 'encoder')}{_left_out(found.left_out)}")
    notes += [*found.cautions, *_list_unranked(found, shown)]
    own = "" if found.images.dataset else "; their mean difficulty is taken, and yours may be easier or harder for all"
    more = [f"errors are those on {found.images.words}{own}: the order is what counts"]
    if any(one.number.error < found.lowest_measured for one in shown):
        least = format_points(found.lowest_measured)
        notes.insert(1, f"{BEYOND}  extrapolated: below {least}, the lowest error that the study measured")
    more += [format_cost_note(constraints)] * shows_costs
    print_notes(notes, more=more)


def _list_unranked(found: Ranking[ExpectedError], shown: Sequence[RankedEncoder[ExpectedError]]) -> list[str]:
    """Encoders without a rank that would be among those shown, by why."""
    last = shown[-1].number.odds
    lines = []
    for why in dict.fromkeys(one.why for one in found.beside):
        some = [one for one in found.beside if one.why == why]
        near = [f"{one.card.id} {format_points(one.number.error)}" for one in some if one.number.odds <= last]
        if near:
            lines.append(f"{why}, not ranked: {format_list(near, _N_GATED)}")
    return lines


# --- by measured errors ----------------------------------------------------------------------------------------------


def _print(answer: Ranking[MeasuredError], constraints: Constraints, translation: list[str], top: int) -> None:
    n_labels, ranked = answer.n_labels, answer.ranked
    shown, shows_costs, usual = ranked[:top], needs_costs(constraints), find_usual_prediction(ranked)
    kind = f"{usual.kind}; lower is better."
    title = f"Error of a linear probe with {format_count(n_labels, 'label')} of ImageNet-1K, percent, {kind}"
    click.echo(click.style(wrap_text(title), bold=True) + "\n")
    basis = sorted({n for one in shown for n in one.number.predicted.basis} - {n_labels})
    cards, numbers = [one.card for one in shown], [one.number for one in shown]
    names = [one.card.id + (f" {WRONG}" if one.number.errata else "") for one in shown]
    columns = [
        AnswerColumn("rank", [one.rank_text for one in numbers], has_numbers=True),
        AnswerColumn("encoder", names),
        AnswerColumn(f"{n_labels:,}", [one.error for one in numbers], form=format_points),
        AnswerColumn("interval", [one.interval_text for one in numbers], has_numbers=True),
        AnswerColumn("best", [one.best_text for one in numbers], has_numbers=True),
    ]
    for n in basis:
        known = [one.curve[n] if n in one.predicted.basis else None for one in numbers]
        columns.append(AnswerColumn(SETTING_OF[n], known, form=format_points, spare=2))
    columns += [*list_cost_columns(cards, constraints), *list_card_columns(cards)]
    print_table(AnswerTable(columns=columns))
    sure, ties = describe_certainty(answer), describe_ties(ranked)
    doubtful = [one.card.id for one in shown if one.number.errata]
    errata = [line for one in shown for line in list_distrust_notes(one.card.id, one.number.errata)]
    notes = [*translation[:1], *ties]
    notes += [f"{WRONG}  doubtful measurements; zoo show NAME --all says why: {', '.join(doubtful)}"] * bool(doubtful)
    without = (
        f"; not ranked: {len(answer.unmeasured)} not measured, see it without --measured" if answer.unmeasured else ""
    )
    notes.append(f"{len(shown)} of {format_count(len(ranked), 'encoder')}{_left_out(answer.left_out)}{without}")
    more = [format_cost_note(constraints)] * shows_costs + translation[1:] + [line for line in sure if line not in ties]
    print_notes(notes, more=[*more, *describe_wider_gaps(shown, usual.basis), *errata])


def _left_out(left_out: Mapping[str, list[str]]) -> str:
    gone = ", ".join(f"{len(encoders)} ({reason})" for reason, encoders in left_out.items())
    return f"; left out: {gone}" if gone else ""


def _translation(budget: ImageNetBudget, too_few: int | None) -> list[str]:
    """Sentences on which labels of ImageNet stand for the user's; ``too_few`` are fewer than were ever measured."""
    lines = [str(budget)]
    if too_few is not None:
        lines.append(
            f"Extrapolated to {too_few:,} labels, over half of the encoders would be statistically tied with the "
            f"first: the order is that with {FEWEST_MEASURED // N_CLASSES} labels per class, the fewest measured."
        )
    lines.append(
        f"Errors are those of {N_CLASSES:,} classes of photographs; with {budget.n_classes:,} classes of other images "
        "they differ, and the order may too: use it as a shortlist."
    )
    return lines


def _left_out_records(left_out: Mapping[str, list[str]]) -> list[dict[str, Any]]:
    return [{"reason": reason, "n": len(encoders), "names": encoders} for reason, encoders in left_out.items()]


def _ranked_record(one: RankedEncoder[MeasuredError], constraints: Constraints) -> dict[str, Any]:
    card, number, noise, odds = one.card, one.number, one.number.noise, one.number.odds
    predicted = number.predicted
    basis = [{"setting": SETTING_OF[n], "n_labels": n, "error": number.curve[n]} for n in predicted.basis]
    return {
        "rank": one.rank,
        "encoder": card.id,
        "error": predicted.error,
        "kind": predicted.kind,
        "basis": basis,
        "interval": None if number.interval is None else list(number.interval),
        "noise": None if noise is None else asdict(noise),
        "rank_interval": None if odds is None else [odds.lowest, odds.highest],
        "probability_best": None if odds is None else odds.best,
        "ties_with_first": None if odds is None else odds.ties_with_first,
        **make_record(_list_facts(card)),
        "errata": build_errata_records(number.errata),
        **(build_cost_record(card, constraints) if needs_costs(constraints) else {}),
    }


# --- by reported numbers ---------------------------------------------------------------------------------------------


def _by_reported(
    found: Ranking[ReportedNumber], board: ReportedBoard, n_labels: int | None, *, top: int, as_json: bool
) -> None:
    """The ranking by a reported number, with measured errors where there are any."""
    by = board.protocol
    if not found.ranked and not found.left_out:
        raise NothingFound(found.why_nobody)
    ranked, left_out = found.ranked, found.left_out
    if n_labels is None:
        of_one = select_main_protocol(summaries())
        measured = {name: one.errors["100%"] for name, one in of_one.items() if "100%" in one.errors}
    else:
        measured = {one.card.id: one.number.error for one in predict_errors(n_labels)[1]}
    pairs = pair_with_measured(by)
    agreement = estimate_agreement(pairs)
    about = describe_board(board, [one.number for one in ranked]) if board.measured_by and ranked else []
    if as_json:
        records = []
        for one in ranked[:top]:
            card, number = one.card, one.number
            facts = {
                "n_parameters": card.architecture.n_parameters,
                "z_dim": card.representation.dim,
                "licence": card.licence.weights,
                "availability": card.weights.availability,
            }
            known = {"rank": one.rank, "encoder": card.id, "reported": asdict(number)}
            records.append({**known, "error_measured": measured.get(card.id), **make_record(facts)})
        print_json(
            {
                "by": by,
                "n_labels": n_labels,
                "unit": "percent",
                "n_candidates": len(ranked),
                "n_pairs_with_measured": len(pairs),
                "agreement_with_measured": None if agreement is None else asdict(agreement),
                "left_out": _left_out_records(left_out),
                **({"dataset": board.dataset, "metric": board.metric, "evidence": about} if about else {}),
                "encoders": records,
            }
        )
    elif ranked:
        title = f"{board.title}, higher is better; not measured by the study."
        click.echo(click.style(wrap_text(title), bold=True) + "\n")
        error = "error (study)" if n_labels is None else f"error, {n_labels:,}"
        few = ranked[:top]
        digits = [one.number.printed if len(one.number.printed) <= 6 else f"{one.number.value:.1f}" for one in few]
        marked = zip(digits, few, strict=True)
        printed = [text + (DOUBTFUL if one.number.doubt else REPORTED) for text, one in marked]
        errors = [format_points(measured[one.card.id]) if one.card.id in measured else "?" for one in few]
        columns = [
            AnswerColumn("rank", [one.rank for one in few]),
            AnswerColumn("encoder", [one.card.id for one in few]),
            AnswerColumn(PROTOCOLS[by].short, printed, has_numbers=True),
            *([AnswerColumn(error, errors, has_numbers=True)] if board.dataset == IMAGENET else []),
            *list_card_columns(one.card for one in few),
            AnswerColumn("how", [describe_protocol_details(one.number) for one in few], spare=5),
        ]
        print_table(AnswerTable(columns=columns))
        shown = f"{min(top, len(ranked))} of {format_count(len(ranked), 'encoder')}{_left_out(left_out)}"
        unknown = "    ?  not measured by the study" * (board.dataset == IMAGENET)
        marks = f"{REPORTED}  reported{unknown}    zoo show NAME --all says who measured, and where"
        doubts = [f"{DOUBTFUL}  {one.card.id}: {one.number.doubt}" for one in ranked[:top] if one.number.doubt]
        worth = (
            []
            if by == "reported-zero-shot" or board.dataset != IMAGENET
            else ["with all labels of ImageNet-1K: other data may rank otherwise"]
        )
        meaning = f"{by}: {PROTOCOLS[by].meaning}; recipes differ (layers, image size, augmentations, sweeps)"
        if about:
            print_notes([*about, shown, marks], more=[*worth, *doubts])
            print_command("on your images", _suggest_measuring(board, ranked))
        else:
            print_notes([_agreement_note(agreement, len(pairs)), shown, marks], more=[*worth, meaning, *doubts])
    if not ranked:
        raise NothingFound(found.why_nobody)


def _suggest_measuring(board: ReportedBoard, ranked: Sequence[RankedEncoder[ReportedNumber]]) -> str:
    """The command that measures the first networks by such a probe."""
    names = select_first_networks((one.card for one in ranked), _N_FIRST)
    if board is SEGMENTATION:
        return f"zoo choose IMAGES --task segment --encoders {','.join(names)}"
    return f"zoo evaluate {' '.join(names)} IMAGES --probe attentive"


def _agreement_note(agreement: Agreement | None, n_pairs: int) -> str:
    if agreement is None:
        return f"agreement with the measured linear probe is not known: {n_pairs} encoders have both, of {FEWEST_PAIRS}"
    return (
        f"nine in ten reported accuracies differ from the measured linear probe by {format_points(agreement.low)} to "
        f"{agreement.high:+.1f} points ({format_count(agreement.n, 'encoder')} with both)"
    )
