"""``zoo recommend``: encoders ranked by the error to expect with the labels one has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import click

from ..analysis.label_budget import HeldOutError, PredictedError, check_n_labels, held_out_error
from ..metadata import EncoderCard, Missing
from ..results import SETTINGS, summaries
from .candidates import Candidate, Filter, LeftOut, candidates, filtered, requested
from .counts import as_count
from .facts import WRONG, points, short_number
from .options import dataset_names, licences
from .output import NothingFound, json_option, print_json, print_notes, print_table, record, wrapped
from .risks import distrust, errata_records

_SETTING = {setting.n_labels: setting.name for setting in SETTINGS}
_EPILOG = """\b
Examples:
  zoo recommend --labels 20k
  zoo recommend --labels 20k --dataset birds
  zoo recommend --labels 5000 --max-parameters 30M --licence permissive --json
"""


@click.command("recommend", epilog=_EPILOG)
@click.option(
    "--labels",
    "n_labels",
    callback=as_count,
    required=True,
    metavar="N",
    help="Labelled images, such as 20k: from 1,000 to 1,281,167, and below 3,000 by extrapolation.",
)
@click.option("--max-parameters", callback=as_count, metavar="N", help="Largest encoder, such as 100M or 1e8.")
@click.option("--max-dim", callback=as_count, metavar="N", help="Most dimensions of the features.")
@click.option(
    "--licence",
    default="any",
    show_default=True,
    metavar="any|permissive|SPDX",
    shell_complete=licences,
    help="Of the weights.",
)
@click.option(
    "--dataset",
    metavar="NAME",
    shell_complete=dataset_names,
    help="Show beside it the errors with all labels that were measured on this data set; the rank stays ImageNet's.",
)
@click.option("--top", type=click.IntRange(min=1), default=10, show_default=True, help="How many to show.")
@click.option("--include-gone", is_flag=True, help="Also encoders whose weights can no longer be had.")
@click.option("--include-wrong", is_flag=True, help="Also measurements that an erratum says to leave out.")
@json_option
def command(
    n_labels: int,
    max_parameters: int | None,
    max_dim: int | None,
    licence: str,
    dataset: str | None,
    top: int,
    include_gone: bool,
    include_wrong: bool,
    as_json: bool,
) -> None:
    """Rank encoders for the number of labels you have.

    The rank is by the error of a linear probe with N labels of ImageNet-1K: as measured, or interpolated between the
    settings measured on either side (3,000; 5,000; 12,811; 30,000; 1,281,167 labels). From 1,000 to 3,000 labels it
    is an extrapolation; with fewer or with more than 1,281,167 nothing can be said. "permissive" asks for MIT,
    Apache-2.0 or BSD, of code and weights. Encoders that were pretrained with labels are no candidates. --dataset shows
    what was measured on your own data beside it, and does not change the rank.
    """
    check_n_labels(n_labels)
    own = _full_shot_errors(dataset)
    filters = requested(licence, max_parameters, max_dim)
    if not include_gone:
        filters.append(Filter("weights gone, see --include-gone", lambda one: one.card.weights.availability != "gone"))
    if not include_wrong:
        right = summaries(exclude_wrong=True)
        filters.append(Filter("measured wrongly, see --include-wrong", lambda one: one.card.id in right))
    curves, everyone, without = candidates(n_labels)
    kept, left_out, why_nobody = filtered(everyone, filters, without)
    ranked = sorted(kept, key=lambda candidate: (candidate.predicted.error, candidate.card.id))
    uncertainty = held_out_error(curves, n_labels)
    if as_json:
        document = _document(n_labels, ranked, top, uncertainty, left_out)
        if dataset is not None:
            document["dataset"] = dataset
            document["errors_on_dataset"] = own
        print_json(document)
    elif ranked:
        _print(n_labels, ranked, top, uncertainty, left_out, dataset, own)
    if not ranked:
        raise NothingFound(why_nobody)


def _full_shot_errors(dataset: str | None) -> dict[str, float]:
    """Errors with all labels of that data set, by encoder; empty without one."""
    if dataset is None:
        return {}
    found = summaries(dataset=dataset)
    return {encoder: summary.errors["100%"] for encoder, summary in found.items() if "100%" in summary.errors}


def _print(
    n_labels: int,
    ranked: list[Candidate],
    top: int,
    uncertainty: HeldOutError | None,
    left_out: LeftOut,
    dataset: str | None,
    own: dict[str, float],
) -> None:
    shown = ranked[:top]
    usual = max(ranked, key=lambda one: (one.predicted.basis[0], -one.predicted.basis[-1])).predicted
    title = f"Error of a linear probe with {n_labels:,} labels of ImageNet-1K, percent, {usual.kind}; lower is better."
    click.echo(click.style(wrapped(title), bold=True) + "\n")
    basis = sorted({n for candidate in shown for n in candidate.predicted.basis} - {n_labels})
    headers = ["", "encoder", f"{n_labels:,}", *(f"{_SETTING[n]}" for n in basis), "parameters", "dim", "licence"]
    rows = [
        [
            str(rank),
            candidate.card.id + (f" {WRONG}" if candidate.errata else ""),
            points(candidate.predicted.error),
            *(points(candidate.curve[n]) if n in candidate.predicted.basis else "" for n in basis),
            short_number(candidate.card.architecture.n_parameters),
            str(candidate.card.representation.dim),
            _licence(candidate.card),
        ]
        for rank, candidate in enumerate(shown, start=1)
    ]
    if dataset is not None:
        headers.insert(3, f"on {dataset}")
        for row, candidate in zip(rows, shown, strict=True):
            row.insert(3, points(own[candidate.card.id]) if candidate.card.id in own else "?")
    print_table(headers, rows, right=[0, *range(2, len(headers) - 1)])
    sure = [*_how_sure(usual, uncertainty), *_wider_gaps(shown, usual.basis)]
    sure += [line for candidate in shown for line in distrust(candidate.card.id, candidate.errata)]
    click.echo("\n" + "\n".join(map(wrapped, sure)))
    gone = ", ".join(f"{len(encoders)} ({reason})" for reason, encoders in left_out.items())
    print_notes([f"{len(shown)} of {len(ranked)} encoders{f'; left out: {gone}' if gone else ''}"])
    if dataset is not None:
        place = {candidate.card.id: rank for rank, candidate in enumerate(ranked, start=1)}
        best = [
            f"{encoder} {points(error)} ({f'rank {place[encoder]}' if encoder in place else 'not ranked'})"
            for encoder, error in sorted(own.items(), key=lambda pair: pair[1])
        ]
        more = f" and {len(best) - top} more" if len(best) > top else ""
        print_notes([f"measured on {dataset} with all its labels, best first: {', '.join(best[:top])}{more}"])


def _licence(card: EncoderCard) -> str:
    return "?" if isinstance(card.licence.weights, Missing) else card.licence.weights


def _how_sure(predicted: PredictedError, uncertainty: HeldOutError | None) -> list[str]:
    """Where the numbers come from and how far to trust them."""
    caution = "measured on ImageNet with the published probe; other data can rank encoders differently."
    if predicted.kind == "measured":
        return [f"As {caution}"]
    *others, last = [f"{_SETTING[n]} ({n:,} labels)" for n in predicted.basis]
    verb = "Continued from" if predicted.kind == "extrapolated" else "Interpolated between"
    lines = [f"{verb} {', '.join(others)} and {last}, {caution}"]
    if uncertainty is not None:
        hidden = " and ".join(_SETTING[n] for n in uncertainty.left_out)
        target = _SETTING[uncertainty.predicted]
        trial = f"{target} is hidden and" if hidden == target else f"{hidden} are hidden and {target} is"
        lines.append(
            f"Give or take {uncertainty.mean_absolute_error:.1f} points, the mean miss for {uncertainty.n} encoders "
            f"when {trial} predicted; nine in ten are within "
            f"{uncertainty.percentile_90:.1f}. Encoders closer than that are ties."
        )
    if predicted.kind == "extrapolated":
        lines.append("Extrapolation: nothing was measured with so few labels.")
    return lines


def _wider_gaps(shown: Sequence[Candidate], usual: Sequence[int]) -> list[str]:
    """Encoders without one of the settings that the others are interpolated between."""
    return [
        f"{candidate.card.id} was not measured with {_SETTING[n]}: its number spans a wider gap and is less certain."
        for candidate in shown
        for n in usual
        if n not in candidate.curve
    ]


def _document(
    n_labels: int, ranked: list[Candidate], top: int, uncertainty: HeldOutError | None, left_out: LeftOut
) -> dict[str, Any]:
    records = []
    for rank, candidate in enumerate(ranked[:top], start=1):
        card, predicted = candidate.card, candidate.predicted
        basis = [{"setting": _SETTING[n], "n_labels": n, "error": candidate.curve[n]} for n in predicted.basis]
        facts = {
            "n_parameters": card.architecture.n_parameters,
            "z_dim": card.representation.dim,
            "licence": card.licence.weights,
            "licence_code": card.licence.code,
            "availability": card.weights.availability,
        }
        known = {"rank": rank, "encoder": card.id, "error": predicted.error, "kind": predicted.kind, "basis": basis}
        records.append({**known, **record(facts), "errata": errata_records(candidate.errata)})
    return {
        "n_labels": n_labels,
        "unit": "percent",
        "n_candidates": len(ranked),
        "uncertainty": None if uncertainty is None else asdict(uncertainty),
        "left_out": [
            {"reason": reason, "n": len(encoders), "names": encoders} for reason, encoders in left_out.items()
        ],
        "encoders": records,
    }
