"""``zoo results check``: rows before others rely on them, and a sample of them measured again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from ..errors import QueryError
from .measure_options import FEATURE_OPTIONS, RUN_OPTIONS, with_options
from .options import refuse_idle
from .output import NothingFound, json_option, print_json, print_notes, print_table, say

if TYPE_CHECKING:
    from ..evaluation.recomputing import Recomputed
    from ..results.checking import Checked

_LISTED = 20  # problems; --json has all

_EPILOG = """\b
Examples:
  zoo results check results
  zoo results check . --base ../as-it-was --recompute 5 --seed 1
  zoo results check results --recompute 20 --images birds=./birds --json
"""


def _run_options(command: Callable[..., Any]) -> Callable[..., Any]:
    return with_options(command, RUN_OPTIONS)


@click.command("check", epilog=_EPILOG)
@click.argument("paths", metavar="PATH...", nargs=-1, required=True)
@click.option(
    "--recompute",
    "sample",
    type=click.IntRange(min=1),
    metavar="N",
    help="Measure so many rows, drawn at random, again from weights and images.",
)
@click.option(
    "--base",
    metavar="PATH",
    multiple=True,
    help="The rows as they were before: none may be gone or changed, and only new ones are measured again. Repeatable.",
)
@click.option("--seed", type=click.IntRange(0, 2**31 - 1), default=0, help="Of that draw.  [default: 0]")
@click.option(
    "--images",
    "images",
    multiple=True,
    metavar="NAME=IMAGES",
    help="Where the images of a data set are; digits, shapes and fashion-mnist are found. Repeatable.",
)
@_run_options
@json_option
def results_check_command(
    paths: tuple[str, ...],
    base: tuple[str, ...],
    sample: int | None,
    seed: int,
    images: tuple[str, ...],
    as_json: bool,
    **options: Any,
) -> None:
    """Check rows and their provenance, and measure some again.

    PATH is a results file, or a folder of them at any depth, here or at an address. Checked are words, numbers and
    provenance of every row, that none is there twice or contradicts another, and that the settings are those that its
    protocol stands for. With --recompute a sample is measured again from weights and images, and compared by the
    rules of recording. What cannot be measured again is counted with the reason.

    The exit code is 1 if anything is wrong or comes out otherwise, or if nothing could be measured again.
    """
    from ..evaluation.recomputing import protocol_problem, recompute
    from ..results.checking import check

    if sample is None:
        refuse_idle(
            ("seed", "images", "batch_size", "n_workers", "device"), "no row is measured again without --recompute"
        )
    sources = _sources(images)
    checked = check(paths, base=base, protocol=protocol_problem)
    if not checked.files and not as_json:
        raise NothingFound(f"There are no results files in {', '.join(paths)}.")
    done: list[Recomputed] = []
    if sample is not None and checked.fresh:
        from ..features.items import Featurising

        how = Featurising(**{name: options[name] for name in FEATURE_OPTIONS if name in options})
        done = recompute(checked.fresh, sample=sample, seed=seed, images=sources, how=how, tell=say)
    others = [one for one in done if one.state == "other"]
    same = [one for one in done if one.state == "same"]
    if as_json:
        print_json(_document(checked, done))
    else:
        _print(checked, done)
    problems = []
    if checked.problems:
        problems.append(f"{len(checked.problems)} problems were found in {len(checked.found):,} rows.")
    if others:
        problems.append(f"{len(others)} of {len(others) + len(same)} rows came out otherwise.")
    if sample is not None and checked.fresh and not same and not others:
        problems.append("No row could be measured again.")
    if problems:
        raise click.ClickException(" ".join(problems))


def _sources(given: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in given:
        name, sign, source = text.partition("=")
        if not sign or not name or not source or name in found:
            raise QueryError(f"Got --images {text!r}, expected NAME=IMAGES, each name once.")
        found[name] = source
    return found


def _print(checked: Checked, done: Sequence[Recomputed]) -> None:
    from ..evaluation.recomputing import passed_over

    for problem in checked.problems[:_LISTED]:
        click.echo(f"- {problem.sentence}", err=True)
    measured = [one for one in done if one.state != "passed over"]
    if measured:
        rows = []
        for one in measured:
            row, now = one.found.row, "" if one.row is None else one.row.value
            what = f"{row.metric} of {row.encoder} on {row.dataset}, {row.split}"
            rows.append([what, row.protocol, row.value, now, one.state])
        print_table(["row", "protocol", "recorded", "measured now", ""], rows, right=[2, 3])
    n, n_new = len(checked.files), len(checked.fresh)
    new = f", {n_new:,} of them new" if n_new < len(checked.found) else ""
    files = f"{n} file{'s' * (n != 1)}"
    notes = [f"{len(checked.found):,} rows of {files}{new} checked, {len(checked.problems)} problems"]
    if len(checked.problems) > _LISTED:
        notes.append(f"{len(checked.problems) - _LISTED} more problems; see them with --json")
    notes += [
        f"not checked, as the protocol is not of this version: {n} rows by {name}"
        for name, n in checked.unknown_protocols.items()
    ]
    notes += [f"{one.found.place}: {one.reason}" for one in measured if one.state == "other"]
    notes += [f"passed over, {n} rows: {reason}" for reason, n in passed_over(done).items()]
    print_notes(notes)


def _document(checked: Checked, done: Sequence[Recomputed]) -> dict[str, Any]:
    from ..evaluation.recomputing import passed_over

    return checked.as_dict() | {
        "recomputed": [one.as_dict() for one in done if one.state != "passed over"],
        "passed_over": [{"reason": reason, "rows": n} for reason, n in passed_over(done).items()],
    }
