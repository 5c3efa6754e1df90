"""``zoo compare``: the facts in which encoders differ, and their risks side by side."""

from __future__ import annotations

from typing import Any

import click

from ..metadata import Missing
from .facts import FACTS, LEGEND, WRONG, Fact, Subject, cell, marks, points
from .options import dataset_option, encoder_names, exclude_wrong_option
from .output import json_option, print_json, print_notes, print_table, record
from .selection import left_out, subjects

_NOT_COMPARED = ("encoder", "month", "year", "n_errata")  # the name is the heading, released says month and year
_ALWAYS_IN_JSON = ("approx_is_assumed", "is_wrong")  # without which the risks beside them can be misread


@click.command("compare", epilog="\b\nExample:\n  zoo compare dino_vitS16 dino_vitS16_last")
@click.argument("names", nargs=-1, required=True, metavar="NAME NAME...", shell_complete=encoder_names)
@dataset_option
@exclude_wrong_option
@json_option
def command(names: tuple[str, ...], dataset: str | None, exclude_wrong: bool, as_json: bool) -> None:
    """Show in which facts encoders differ.

    Facts that are the same for all of them are left out; risks are always shown, for two encoders with the second
    minus the first. They are of ImageNet-1K; --dataset gives those of another data set.
    """
    compared = subjects(names, with_risks=True, exclude_wrong=exclude_wrong, dataset=dataset)
    if len({subject.card.id for subject in compared}) < max(len(compared), 2):
        raise click.UsageError(f"Got {' '.join(names)}, expected at least two different encoders.")
    facts = [fact for fact in FACTS.values() if fact.name not in _NOT_COMPARED]
    risks = [fact for fact in facts if fact.is_risk]
    same = [fact for fact in facts if fact not in risks and len({fact.of(subject) for subject in compared}) == 1]
    differing = [fact for fact in facts if fact not in risks and fact not in same]
    if as_json:
        on = {} if dataset is None else {"dataset": dataset}
        print_json({**on, **_document(compared, differing, risks)})
        return
    ids = [subject.card.id for subject in compared]
    if differing:
        print_table(["", *ids], [[fact.name, *_cells(fact, compared)] for fact in differing])
        click.echo()
    rows = [
        [fact.other_name or fact.name, *_cells(fact, compared), *_difference_cells(fact, compared)] for fact in risks
    ]
    headers = [
        "risk, in percent" + (f", on {dataset}" if dataset is not None else ""),
        *ids,
        *["difference"] * (len(ids) == 2),
    ]
    print_table(headers, rows, right=range(1, len(headers)))
    print_notes([f"{len(same)} facts are the same    {LEGEND}", *marks(risks, compared), *left_out(compared)])


def _cells(fact: Fact, compared: list[Subject]) -> list[str]:
    return [cell(fact, subject) for subject in compared]


def _difference(fact: Fact, compared: list[Subject]) -> float | None:
    """Second minus first; None where one of them is missing, or is zero by assumption."""
    if fact.name == "approx" and any(subject.approximation_is_assumed for subject in compared):
        return None
    first, second = (fact.of(subject) for subject in compared)
    if isinstance(first, Missing) or isinstance(second, Missing):
        return None
    return float(second) - float(first)


def _difference_cells(fact: Fact, compared: list[Subject]) -> list[str]:
    if len(compared) != 2:
        return []
    difference = _difference(fact, compared)
    if difference is None:
        return [""]
    mark = WRONG if any(subject.is_wrong for subject in compared) else ""
    return [("+" if difference >= 0.05 else "") + points(difference) + mark]


def _document(compared: list[Subject], differing: list[Fact], risks: list[Fact]) -> dict[str, Any]:
    always = [fact for fact in map(FACTS.__getitem__, _ALWAYS_IN_JSON) if fact not in differing]
    facts = [*differing, *risks, *always]
    records = [
        {"encoder": subject.card.id, **record({fact.name: fact.of(subject) for fact in facts})} for subject in compared
    ]
    document: dict[str, Any] = {"differing": [fact.name for fact in differing], "encoders": records}
    if len(compared) == 2:
        document["difference"] = {fact.name: _difference(fact, compared) for fact in risks}
    return document
