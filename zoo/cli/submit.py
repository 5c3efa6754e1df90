"""``zoo submit``: the user's rows as a branch of a clone of a shared results repository."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..cards.catalogue import catalogue
from .facts import named
from .options import encoder_names
from .output import json_option, print_command, print_json, print_notes, print_table

if TYPE_CHECKING:
    from ..results.submitting import Submission

_LISTED = 20  # numbers; the page of the contribution and --json have all

_EPILOG = """\b
Examples:
  zoo submit --to ../shared-results --source 'A. Person' --dry-run
  zoo submit --to ../shared-results --source 'A. Person' 'pocket_*'
"""


@click.command("submit", epilog=_EPILOG)
@click.argument("names", metavar="[NAME...]", nargs=-1, shell_complete=encoder_names)
@click.option(
    "--to",
    "repository",
    metavar="REPOSITORY",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of a clone of a shared results repository, in which all is committed.",
)
@click.option("--source", metavar="WHO", help="Who measured, in place of 'own' and 'measured' in your rows.")
@click.option("--branch", metavar="BRANCH", help="Its name.  [default: contribution/WHO-HASH]")
@click.option("--skip-bare", is_flag=True, help="Leave out rows without provenance, in place of refusing them.")
@click.option("--dry-run", is_flag=True, help="Only say what would be submitted.")
@json_option
def submit_command(
    names: tuple[str, ...],
    repository: Path,
    source: str | None,
    branch: str | None,
    skip_bare: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Prepare your rows for a shared results repository.

    What you have measured and the repository does not have becomes one commit on a new branch of your clone: rows with
    provenance, cards of encoders that the zoo does not ship, the checks they passed, and a page with each number beside
    the best one known. NAMES are ids of encoders or globs; without any, all that you have measured. The clone stays as
    it is, and nothing is pushed.
    """
    from ..evaluation.recomputing import protocol_problem
    from ..results.submitting import submit

    wanted = set(named(names, catalogue())) if names else None
    done = submit(
        repository,
        encoders=wanted,
        source=source,
        branch=branch,
        skip_bare=skip_bare,
        protocol=protocol_problem,
        dry_run=dry_run,
    )
    if as_json:
        print_json(_document(done))
        return
    rows = []
    for one in done.standings[:_LISTED]:
        mean, best = one.mean, one.best
        known = "" if best is None else f"{best.value:.4g} ({best.encoder})"
        place = "" if one.place is None else f"{one.place} of {one.n}"
        rows.append([mean.encoder, mean.metric, mean.dataset, mean.split, f"{mean.value:.4g}", known, place])
    print_table(["encoder", "metric", "data set", "split", "value", "best known", "place"], rows, right=[4])
    left = len(done.standings) - _LISTED
    would = "would be" if done.commit is None else "are"
    notes = [f"and {left} more numbers"] * (left > 0)
    of = done.encoders[0] if len(done.encoders) == 1 else f"{len(done.encoders)} encoders"
    notes.append(f"{done.n_rows:,} rows of {of} by {done.source} {would} on the branch {done.branch}")
    notes += [f"{done.n_known:,} rows are there already"] * bool(done.n_known)
    notes += [f"{done.n_bare:,} rows without provenance were left out"] * bool(done.n_bare)
    notes += [f"cards go along: {', '.join(done.cards)}"] * bool(done.cards)
    print_notes(notes)
    if done.commit is not None:
        print_command("look at it", f"git -C {done.repository} show --stat {done.branch}")
        print_command("offer it", f"git -C {done.repository} push origin {done.branch}")


def _document(done: Submission) -> dict[str, Any]:
    return {
        "repository": str(done.repository),
        "branch": done.branch,
        "commit": done.commit,
        "folder": done.folder,
        "files": list(done.files),
        "source": done.source,
        "rows": done.n_rows,
        "known": done.n_known,
        "bare": done.n_bare,
        "encoders": list(done.encoders),
        "cards": list(done.cards),
        "numbers": [one.as_dict() for one in done.standings],
    }
