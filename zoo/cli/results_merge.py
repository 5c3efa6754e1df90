"""``zoo results merge``: the rows of other people or machines, each once, and what contradicts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from .output import NothingFound, json_option, print_json, print_notes, print_table

if TYPE_CHECKING:
    from ..results.merging import Merged

_LISTED = 10  # contradictions and wrong lines; --json and the file beside the rows have all

_EPILOG = """\b
Examples:
  zoo results merge ../their-results
  zoo results merge s3://bucket/run /scratch/another-run --dry-run
  zoo results merge a.csv b.csv --out merged
"""


@click.command("merge", epilog=_EPILOG)
@click.argument("paths", metavar="PATH...", nargs=-1, required=True)
@click.option(
    "--out",
    "folder",
    metavar="FOLDER",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where the rows go, a file an encoder.  [default: your results]",
)
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@json_option
def results_merge_command(paths: tuple[str, ...], folder: Path | None, dry_run: bool, as_json: bool) -> None:
    """Add the rows of other people or machines to yours.

    PATH is a results file, or a folder of them at any depth: a zoo home, a shared results repository, what a run on
    many workers wrote, here or at an address. Their provenance lies beside them. Equal rows are added once. Of rows
    that contradict each other the recorded one stays, or that of the first PATH; the other one is shown, and set aside
    in a file with both provenances, as are lines that are wrong. Nothing at a PATH is changed.

    The exit code is 1 if anything was set aside.
    """
    from ..results.merging import merge

    done = merge(paths, folder=folder, dry_run=dry_run)
    if as_json:
        print_json(_document(done, dry_run=dry_run))
    elif not done.files:
        raise NothingFound(f"There are no results files in {', '.join(paths)}.")
    else:
        _print(done, dry_run=dry_run)
    if not done.is_clean:
        n, n_wrong = len(done.contradictions), len(done.wrong)
        where = f"; see {done.set_aside}" if done.set_aside else ""
        raise click.ClickException(
            f"{n} rows contradict others and {n_wrong} lines cannot be merged; they were left out{where}."
        )


def _print(done: Merged, *, dry_run: bool) -> None:
    would = "to be added" if dry_run else "added"
    counts = {
        would: done.n_new,
        "recorded already": done.n_known,
        "the same again": done.n_again,
        "contradict others": len(done.contradictions),
        "wrong, or without provenance": len(done.wrong),
    }
    print_table(
        ["rows", ""], [[name, f"{count:,}"] for name, count in counts.items() if count or name == would], right=[1]
    )
    listed = [*map(str, done.contradictions), *(one.sentence for one in done.wrong)]
    for sentence in listed[:_LISTED]:
        click.echo(f"- {sentence}", err=True)
    n = len(done.files)
    notes = [f"{n} file{'s' * (n != 1)} read; rows {'would be ' * dry_run}in {done.folder}"]
    if len(listed) > _LISTED:
        notes.append(f"and {len(listed) - _LISTED} more; see them with --json")
    if done.cards:
        notes.append(f"cards came along: {', '.join(done.cards)}")
    if done.left:
        notes.append(
            f"no tables of results, and left alone: {', '.join(done.left[:3])}{', ...' * (len(done.left) > 3)}"
        )
    print_notes(notes)


def _document(done: Merged, *, dry_run: bool) -> dict[str, object]:
    return {
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
        "wrong": [one.as_dict() for one in done.wrong],
        "set_aside": None if done.set_aside is None else str(done.set_aside),
    }
