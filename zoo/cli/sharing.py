"""``zoo results merge`` and ``check``: rows of results that are shared between people and machines."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from ..cards.answers import make_table
from ..errors import format_count
from .options import dry_run_option
from .output import NothingFound, add_json_option, format_list, print_json, print_notes, print_table

_LISTED = 20  # contradictions or problems; --json has all

_MERGE_EXAMPLES = """\b
Examples:
  zoo results merge ../their-results
  zoo results merge s3://bucket/run /scratch/another-run --dry-run
  zoo results merge a.csv b.csv --out merged
"""


@click.command("merge", epilog=_MERGE_EXAMPLES)
@click.argument("paths", metavar="PATH...", nargs=-1, required=True)
@click.option(
    "--out",
    "folder",
    metavar="FOLDER",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where the rows go, a file per encoder.  [default: your results]",
)
@dry_run_option
@add_json_option
def results_merge_command(paths: tuple[str, ...], folder: Path | None, dry_run: bool, as_json: bool) -> None:
    """Add the rows of other people or machines to yours.

    PATH is a results file, or a folder of them at any depth: a zoo home, a shared results repository, or what a run on
    many workers wrote, here or at an address. Equal rows are added once. Of contradicting rows the recorded one stays,
    or that of the first PATH; the other is shown, and set aside in a file with both provenances, as are wrong lines.
    Nothing at a PATH is changed. Exit code 1 if anything was set aside.
    """
    from ..results.merging import merge

    done = merge(paths, folder=folder, dry_run=dry_run)
    if as_json:
        print_json(
            {
                "folder": str(done.folder),
                "dry_run": dry_run,
                "files": list(done.files),
                "left": list(done.left),
                "rows": done.n_rows,
                "new": done.n_new,
                "known": done.n_known,
                "again": done.n_again,
                "added_to": [str(path) for path in done.paths],
                "cards": list(done.cards),
                "contradictions": [one.as_dict() for one in done.contradictions],
                "wrong": [
                    {"why": "wrong", "place": one.place, "sentence": one.sentence, "line": one.line}
                    for one in done.wrong
                ],
                "set_aside": None if done.set_aside is None else str(done.set_aside),
            }
        )
    elif not done.files:
        raise NothingFound(f"There are no results files in {', '.join(paths)}.")
    else:
        would = "to be added" if dry_run else "added"
        counts = {would: done.n_new, "recorded already": done.n_known, "the same again": done.n_again}
        counts |= {"contradict others": len(done.contradictions), "wrong, or without provenance": len(done.wrong)}
        rows = [[name, f"{count:,}"] for name, count in counts.items() if count or name == would]
        print_table(make_table(["rows", ""], rows, numbers=[1]))
        _print_wrong([*map(str, done.contradictions), *(one.sentence for one in done.wrong)])
        notes = [f"{format_count(len(done.files), 'file')} read; rows {'would be ' * dry_run}in {done.folder}"]
        notes += [f"cards came along: {', '.join(done.cards)}"] * bool(done.cards)
        print_notes(notes + [f"ignored, no tables of results: {format_list(done.left, 3)}"] * bool(done.left))
    if not done.is_clean:
        where = f"; see {done.set_aside}" if done.set_aside else ""
        raise click.ClickException(
            f"{format_count(len(done.contradictions), 'row contradicts', 'rows contradict')} others and "
            f"{format_count(len(done.wrong), 'line')} cannot be merged; they were left out{where}."
        )


def _print_wrong(sentences: Sequence[str]) -> None:
    for sentence in sentences[:_LISTED]:
        click.echo(f"- {sentence}", err=True)
    if len(sentences) > _LISTED:
        click.echo(f"- and {len(sentences) - _LISTED} more: --json", err=True)


# --- check -----------------------------------------------------------------------------------------------------------

_CHECK_EXAMPLES = """\b
Examples:
  zoo results check results
  zoo results check . --base ../as-it-was --json
"""


@click.command("check", epilog=_CHECK_EXAMPLES)
@click.argument("paths", metavar="PATH...", nargs=-1, required=True)
@click.option(
    "--base",
    metavar="PATH",
    multiple=True,
    help="The rows as they were before: none may be gone or changed. Repeatable.",
)
@add_json_option
def results_check_command(paths: tuple[str, ...], base: tuple[str, ...], as_json: bool) -> None:
    """Check rows and their provenance.

    PATH is a results file, or a folder of them at any depth, here or at an address. Checked are words, numbers and
    provenance of every row, duplicates and contradictions, and that the settings are those of its protocol. Exit code
    1 if anything is wrong.
    """
    from ..evaluation.recorded_protocols import find_protocol_problem
    from ..results.merging import check

    checked = check(paths, base=base, protocol=find_protocol_problem)
    if not checked.files and not as_json:
        raise NothingFound(f"There are no results files in {', '.join(paths)}.")
    if as_json:
        print_json(checked.as_dict())
    else:
        _print_wrong([problem.sentence for problem in checked.problems])
        new = f", {len(checked.fresh):,} of them new" if len(checked.fresh) < len(checked.found) else ""
        rows = format_count(len(checked.found), "row")
        files = format_count(len(checked.files), "file")
        notes = [f"{rows} of {files}{new} checked, {format_count(len(checked.problems), 'problem')}"]
        notes += [
            f"not checked, the protocol is unknown to this version: {format_count(n, 'row')} by {name}"
            for name, n in checked.unknown_protocols.items()
        ]
        print_notes(notes)
    if checked.problems:
        found = format_count(len(checked.problems), "problem was", "problems were")
        raise click.ClickException(f"{found} found in {format_count(len(checked.found), 'row')}.")
