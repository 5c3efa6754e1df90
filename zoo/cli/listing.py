"""``zoo list``: encoders as a table, filtered, sorted, with the columns one asks for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import click

from .facts import FACTS, LEGEND, Fact, Subject, cell, find_fact, kinds, marks
from .options import column_name, column_names, dataset_option, encoder_names, exclude_wrong_option
from .output import NothingFound, json_option, print_json, print_notes, print_table, record
from .selection import left_out, matching, satisfying, sorted_by, subjects

_USUAL = "encoder,architecture,z_dim,n_parameters,train_test,licence"
_EPILOG = """\b
Examples:
  zoo list dino
  zoo list 'msn_vit*' --columns encoder,z_layer,train_test,error_3shot
  zoo list --where 'family == "vit" and 300 <= z_dim <= 768' --sort train_test
  zoo list --dataset shapes --sort error_5shot --columns encoder,error_5shot,usability
  zoo list --where '"jigsaw" in augmentations or missing(augmentations)'
  zoo list --where '`train-nperclass-5_test` < 40' --sort error_5shot --limit 10

\b
A condition has columns, texts in quotes, numbers, true and false; == != < <=
> >= in, not in; and, or, not; + - * /; missing(x), not_published(x) and
not_applicable(x). Texts are compared without regard to case. A comparison with
a missing value is not true.
"""


@click.command("list", epilog=_EPILOG)
@click.argument("pattern", required=False, shell_complete=encoder_names)
@click.option("--where", "condition", metavar="EXPR", help="Only encoders for which this is true.")
@click.option(
    "--sort", metavar="COLUMN", shell_complete=column_name, help="Sort by this column; missing values come last."
)
@click.option("--descending", "--reverse", is_flag=True, help="Largest values first.")
@click.option(
    "--columns",
    metavar="A,B,...",
    shell_complete=column_names,
    help=f"Which columns to show, each of them once. [default: {_USUAL}]",
)
@dataset_option
@exclude_wrong_option
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="At most this many encoders.")
@click.option("--help-columns", is_flag=True, help="List the columns and what they mean, and exit.")
@json_option
def command(
    pattern: str | None,
    condition: str | None,
    sort: str | None,
    descending: bool,
    columns: str | None,
    dataset: str | None,
    exclude_wrong: bool,
    limit: int | None,
    help_columns: bool,
    as_json: bool,
) -> None:
    """List encoders: filter, sort, choose columns.

    PATTERN is a glob such as 'dino*', or a text that the name contains; case does not matter. With --json all columns
    are printed, under their published names, unless --columns says otherwise. With --dataset only encoders that were
    measured there are listed.
    """
    if descending and sort is None:
        raise click.UsageError("Got --descending without --sort, expected the column to sort by.")
    for option, given in (("--sort", sort), ("--columns", columns), ("--where", condition)):
        if given is not None and not given.strip():
            raise click.UsageError(f"Got an empty text for {option}; leave the option out, or say what you mean by it.")
    if help_columns:
        _explain_columns(as_json)
        return
    wanted = FACTS if as_json and columns is None else _columns(columns or _USUAL)
    risks_wanted = any(fact.from_results for fact in wanted.values())
    found = _select(
        pattern, condition, sort, descending, risks_wanted=risks_wanted, exclude_wrong=exclude_wrong, dataset=dataset
    )
    listed = found[:limit]
    if as_json:
        records = [{"encoder": subject.card.id, **_values(wanted, subject)} for subject in listed]
        on = {} if dataset is None else {"dataset": dataset}
        print_json({**on, "n_matching": len(found), "encoders": records})
    elif listed:
        rows = [[cell(fact, subject) for fact in wanted.values()] for subject in listed]
        numbers = {position for position, fact in enumerate(wanted.values()) if "number" in fact.kind}
        print_table(list(wanted), rows, right=numbers)
        count = f"{len(listed)} of {len(found)}" if len(listed) < len(found) else f"{len(found)}"
        explained = [*marks(wanted.values(), listed), *left_out(listed)]
        where = "" if dataset is None else f" measured on {dataset}"
        print_notes([f"{count} encoder{'s' if len(found) != 1 else ''}{where}    {LEGEND}", *explained])
    if not found:
        raise NothingFound(_why_nothing(pattern, condition, dataset))


def _columns(names: str) -> dict[str, Fact]:
    """Facts by their names as they were given, which head the columns."""
    given = [name.strip() for name in names.split(",") if name.strip()]
    if not given:
        raise click.UsageError(f"Got {names!r} for --columns, expected names of columns such as {_USUAL}.")
    twice = [name for name, n in Counter(given).items() if n > 1]
    if twice:
        raise click.UsageError(f"Got {', '.join(twice)} more than once for --columns, expected each column once.")
    return {name: find_fact(name) for name in given}


def _select(
    pattern: str | None,
    condition: str | None,
    sort: str | None,
    descending: bool,
    *,
    risks_wanted: bool,
    exclude_wrong: bool,
    dataset: str | None,
) -> list[Subject]:
    sort_fact = None if sort is None else find_fact(sort)
    parsed = None
    if condition is not None:
        from .where import parse_condition

        parsed = parse_condition(condition, kinds())
        risks_wanted = risks_wanted or any(find_fact(name).from_results for name in parsed.names)
    risks_wanted = risks_wanted or (sort_fact is not None and sort_fact.from_results)
    risks_wanted = risks_wanted or dataset is not None
    found = subjects(matching(pattern), with_risks=risks_wanted, exclude_wrong=exclude_wrong, dataset=dataset)
    if dataset is not None:
        found = [subject for subject in found if subject.measured is not None]
    if parsed is not None:
        found = satisfying(parsed, found)
    return sorted_by(sort_fact, found, descending=descending) if sort_fact else found


def _values(wanted: Mapping[str, Fact], subject: Subject) -> dict[str, object]:
    return record({name: fact.of(subject) for name, fact in wanted.items()})


def _why_nothing(pattern: str | None, condition: str | None, dataset: str | None) -> str:
    name = f"has a name like {pattern!r}" if pattern is not None else ""
    truth = f"satisfies {condition}" if condition is not None else ""
    measured = f"was measured on {dataset}" if dataset is not None else ""
    return f"No encoder {' and '.join(part for part in (name, truth, measured) if part)}."


def _explain_columns(as_json: bool) -> None:
    if as_json:
        explained = [
            {"name": fact.name, "other_name": fact.other_name or None, "kind": fact.kind, "unit": fact.unit or None}
            | {"meaning": fact.meaning}
            for fact in FACTS.values()
        ]
        print_json({"columns": explained})
        return
    print_table(["column", "kind", "meaning"], [[fact.name, fact.kind, _meaning(fact)] for fact in FACTS.values()])


def _meaning(fact: Fact) -> str:
    unit = f", in {fact.unit}" if fact.from_results and fact.unit else ""
    return f"{fact.meaning}{unit}{f'; also called {fact.other_name}' if fact.other_name else ''}"
