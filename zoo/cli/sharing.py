"""``zoo results merge`` and ``check``, ``zoo submit``: rows of results that are shared between people and machines."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..cards.catalogue import load_catalogue
from ..errors import QueryError, format_count
from .facts import match_encoder_ids
from .measure_options import FEATURE_OPTIONS, RUN_OPTIONS
from .options import add_options, complete_encoder_names, dry_run_option, make_seed_option, reject_unused_options
from .output import (
    NothingFound,
    add_json_option,
    format_list,
    log_progress,
    print_command,
    print_json,
    print_notes,
    print_table,
)

if TYPE_CHECKING:
    from ..evaluation.recomputing import RecomputedRow

_LISTED = 20  # contradictions, problems or numbers; --json has all

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
    help="Where the rows go, a file an encoder.  [default: your results]",
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
        print_table(["rows", ""], rows, right=[1])
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
  zoo results check . --base ../as-it-was --recompute 5 --seed 1
  zoo results check results --recompute 20 --images birds=./birds --json
"""


@click.command("check", epilog=_CHECK_EXAMPLES)
@click.argument("paths", metavar="PATH...", nargs=-1, required=True)
@click.option(
    "--recompute",
    "sample",
    type=click.IntRange(min=1),
    metavar="N",
    help="Measure N rows, drawn at random, again from weights and images.",
)
@click.option(
    "--base",
    metavar="PATH",
    multiple=True,
    help="The rows as they were before: none may be gone or changed, and only new ones are measured again. Repeatable.",
)
@make_seed_option("Of that draw.")
@click.option(
    "--images",
    metavar="NAME=IMAGES",
    multiple=True,
    help="Where the images of a data set are; digits, shapes and fashion-mnist are found. Repeatable.",
)
@(lambda command: add_options(command, RUN_OPTIONS))
@add_json_option
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
    provenance of every row, duplicates and contradictions, and that the settings are those of its protocol. With
    --recompute a sample is measured again from weights and images. Exit code 1 if anything is wrong or comes out
    differently, or if nothing could be measured again.
    """
    from ..evaluation.recomputing import count_skipped_rows, find_protocol_problem, recompute
    from ..results.merging import check

    if sample is None:
        reject_unused_options(
            ("seed", "images", "batch_size", "n_workers", "device"), "without --recompute nothing is measured"
        )
    sources: dict[str, str] = {}
    for text in images:
        name, sign, source = text.partition("=")
        if not sign or not name or not source or name in sources:
            raise QueryError(f"Got --images {text!r}, expected NAME=IMAGES, each name once.")
        sources[name] = source
    checked = check(paths, base=base, protocol=find_protocol_problem)
    if not checked.files and not as_json:
        raise NothingFound(f"There are no results files in {', '.join(paths)}.")
    done: list[RecomputedRow] = []
    if sample is not None and checked.fresh:
        from ..features.work_items import FeaturisingOptions

        how = FeaturisingOptions(**{name: options[name] for name in FEATURE_OPTIONS if name in options})
        done = recompute(checked.fresh, sample=sample, seed=seed, images=sources, how=how, tell=log_progress)
    measured = [one for one in done if one.state != "passed over"]
    others = [one for one in measured if one.state == "other"]
    if as_json:
        passed = [{"reason": reason, "rows": n} for reason, n in count_skipped_rows(done).items()]
        print_json(checked.as_dict() | {"recomputed": [one.as_dict() for one in measured], "passed_over": passed})
    else:
        _print_wrong([problem.sentence for problem in checked.problems])
        if measured:
            rows = []
            for one in measured:
                row, now = one.found.row, "" if one.row is None else one.row.value
                what = f"{row.metric} of {row.encoder} on {row.dataset}, {row.split}"
                rows.append([what, row.protocol, row.value, now, one.state])
            print_table(["row", "protocol", "recorded", "measured now", ""], rows, right=[2, 3])
        new = f", {len(checked.fresh):,} of them new" if len(checked.fresh) < len(checked.found) else ""
        files = format_count(len(checked.files), "file")
        rows_checked, n_problems = (
            format_count(len(checked.found), "row"),
            format_count(len(checked.problems), "problem"),
        )
        notes = [f"{rows_checked} of {files}{new} checked, {n_problems}"]
        notes += [f"{one.found.place}: {one.reason}" for one in others]
        notes += [
            f"not measured again, {format_count(n, 'row')}: {reason}" for reason, n in count_skipped_rows(done).items()
        ]
        notes += [
            f"not checked, the protocol is unknown to this version: {format_count(n, 'row')} by {name}"
            for name, n in checked.unknown_protocols.items()
        ]
        print_notes(notes)
    problems = []
    if checked.problems:
        found = format_count(len(checked.problems), "problem was", "problems were")
        problems.append(f"{found} found in {format_count(len(checked.found), 'row')}.")
    if others:
        problems.append(f"{len(others)} of {len(measured)} rows came out otherwise.")
    if sample is not None and checked.fresh and not measured:
        problems.append("No row could be measured again.")
    if problems:
        raise click.ClickException(" ".join(problems))


# --- submit ----------------------------------------------------------------------------------------------------------

_SUBMIT_EXAMPLES = """\b
Examples:
  zoo submit --to ../shared-results --source 'A. Person' --dry-run
  zoo submit --to ../shared-results --source 'A. Person' 'pocket_*'
"""


@click.command("submit", epilog=_SUBMIT_EXAMPLES)
@click.argument("names", metavar="[NAME...]", nargs=-1, shell_complete=complete_encoder_names)
@click.option(
    "--to",
    "repository",
    metavar="REPOSITORY",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of a clean clone of a shared results repository.",
)
@click.option("--source", metavar="WHO", help="Who measured, in place of 'own' and 'measured' in your rows.")
@click.option("--branch", metavar="BRANCH", help="Its name.  [default: contribution/WHO-HASH]")
@click.option("--skip-bare", is_flag=True, help="Leave out rows without provenance, in place of refusing them.")
@dry_run_option
@add_json_option
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
    the best one known. NAMES are ids of encoders or globs; without any, all that you have measured. Nothing is pushed.
    """
    from ..evaluation.recomputing import find_protocol_problem
    from ..results.submitting import submit

    done = submit(
        repository,
        encoders=set(match_encoder_ids(names, load_catalogue())) if names else None,
        source=source,
        branch=branch,
        skip_bare=skip_bare,
        protocol=find_protocol_problem,
        dry_run=dry_run,
    )
    if as_json:
        print_json(
            {
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
                "numbers": list(done.numbers),
            }
        )
        return
    rows = []
    for one in done.numbers[:_LISTED]:
        best = one["best"]
        known = "" if best is None else f"{best['value']:.4g} ({best['encoder']})"
        place = "" if one["place"] is None else f"{one['place']} of {one['of']}"
        what = [one[name] for name in ("encoder", "metric", "dataset", "split")]
        rows.append([*what, f"{one['value']:.4g}", known, place])
    print_table(["encoder", "metric", "data set", "split", "value", "best known", "place"], rows, right=[4])
    left = len(done.numbers) - _LISTED
    would = "would be" if done.commit is None else "are"
    of = done.encoders[0] if len(done.encoders) == 1 else f"{len(done.encoders)} encoders"
    notes = [f"{format_count(done.n_rows, 'row')} of {of} by {done.source} {would} on the branch {done.branch}"]
    notes += [f"{format_count(done.n_bare, 'row')} without provenance left out"] * bool(done.n_bare)
    notes += [f"{format_count(done.n_known, 'row is', 'rows are')} there already"] * bool(done.n_known)
    notes += [f"cards go along: {', '.join(done.cards)}"] * bool(done.cards)
    print_notes(notes + [f"and {format_count(left, 'more number')}"] * (left > 0))
    if done.commit is not None:
        print_command("look at it", f"git -C {done.repository} show --stat {done.branch}")
        print_command("offer it", f"git -C {done.repository} push origin {done.branch}")
