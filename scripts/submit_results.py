"""Prepares a contribution to a shared results repository: a branch of a clone, with rows, cards and what was checked.

python scripts/submit_results.py --to ../shared-results --source 'A. Person' --dry-run
python scripts/submit_results.py --to ../shared-results --source 'A. Person' 'pocket_*'

NAMES are ids of encoders or globs; without any, all that was measured is contributed.

A shared repository is a git repository whose content has the form of a zoo home: rows and their provenance in
``results/measured/``, cards of encoders that the zoo does not ship in ``metadata/``. A contribution adds to both, and
has a folder of its own in ``contributions/``: ``README.md`` for readers, with each number next to the best one known,
and ``checks.json``. It becomes one commit on a branch of its own, made in a separate work tree, so that the clone stays
as it is. Nothing is pushed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from zoo.cards.answers import make_table
from zoo.cards.catalogue import load_catalogue
from zoo.cards.representations import get_base_id
from zoo.cards.writing import format_card_file
from zoo.cli.facts import match_encoder_ids
from zoo.cli.output import print_command, print_json, print_notes, print_table
from zoo.errors import QueryError, ResultsError, StoreError, ZooError, format_count
from zoo.evaluation.recorded_protocols import find_protocol_problem
from zoo.files import get_user_folder, use_shipped_only
from zoo.results.merging import CHECKS, LocatedRow, ProtocolCheck, build_row_set, check, check_provenance, collect
from zoo.results.recording import record
from zoo.results.rows import average_over_seeds, measurements
from zoo.results.values import SeedMean
from zoo.results.vocabulary import METRICS
from zoo.version import __version__

FORMAT = "zoo-contribution-1"
NOBODY = ("own", "measured")  # sources of those who did not say who they are
_LISTED = 20  # numbers; --json has all
_ROWS = Path("results", "measured")
_CARDS = Path("metadata", "contributed")
_COMMENT = "Contributed with rows of this encoder; what nobody has recorded is left open."


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """A contribution that was prepared."""

    repository: Path
    branch: str
    commit: str | None  # None if nothing was written
    folder: str  # of the contribution, in the repository
    files: tuple[str, ...]  # that were added or changed
    source: str  # who measured
    n_rows: int
    n_known: int  # that the repository has already
    n_bare: int  # that were left out, for they have no provenance
    encoders: tuple[str, ...]
    cards: tuple[str, ...]  # encoders whose cards go along
    numbers: tuple[dict[str, Any], ...]
    """Means over seeds, as JSON: next to each the best one of another encoder by the same protocol on the same data, if
    there is one and a direction is better; and its place among all of these encoders."""


def submit(
    repository: str | Path,
    *,
    encoders: Collection[str] | None = None,
    source: str | None = None,
    branch: str | None = None,
    skip_bare: bool = False,
    protocol: ProtocolCheck | None = None,
    dry_run: bool = False,
) -> Submission:
    """Makes a branch of a clone of a shared results repository with the user's rows that it does not have.

    Parameters
    ----------
    repository : path
        The clone; it must have no changes that are not committed.
    encoders : collection of str, optional
        Ids of the encoders whose rows are contributed, with all their other features; all by default.
    source : str, optional
        Who measured, in place of ``own`` and ``measured``, which name nobody.
    branch : str, optional
        Its name; by default ``contribution/WHO-HASH``.
    skip_bare : bool
        Leave rows without provenance out, in place of refusing them.
    protocol : callable, optional
        Checks the settings of rows, as :func:`zoo.results.merging.check` takes it.
    dry_run : bool
        Nothing is written.

    Raises
    ------
    QueryError
        If it is no clean clone of a git repository, there is nothing to contribute, nobody is named, or there is such a
        branch.
    ResultsError
        If rows have no provenance, contradict those of the repository, or do not pass the checks.
    StoreError
        If git fails.
    """
    root = _clean_clone(Path(repository))
    folder = get_user_folder() / "results"
    mine = [
        one
        for one in (collect([folder]).found if folder.is_dir() else ())
        if encoders is None or {one.row.encoder, get_base_id(one.row.encoder)} & set(encoders)
    ]
    bare = [one for one in mine if check_provenance(one) is not None]
    if bare and not skip_bare:
        raise ResultsError(
            f"{len(bare)} of {len(mine)} rows have no whole provenance, the first is {bare[0].place}; name the "
            "encoders to submit, or leave these rows out with --skip-bare."
        )
    signed = _signed([one for one in mine if one not in bare], source)
    there = collect([root]).found
    known = build_row_set(there)
    fresh = [one for one in signed if known.add(one)]
    if known.contradictions:
        raise ResultsError(
            f"{format_count(len(known.contradictions), 'row contradicts', 'rows contradict')} those of {root}: "
            f"{known.contradictions[0]}; nothing is prepared: measure them again, or leave their encoders out."
        )
    if not fresh:
        what = f"all {len(signed)} rows are there already" if signed else "you have no rows of these encoders"
        raise QueryError(f"There is nothing to submit to {root}: {what}; measure something with 'zoo evaluate' first.")
    who = ", ".join(dict.fromkeys(one.row.source for one in fresh))
    hashed = blake2b("\n".join(",".join(one.row) for one in fresh).encode(), digest_size=4).hexdigest()
    slug = f"{re.sub(r'[^a-z0-9]+', '-', who.casefold()).strip('-')[:40] or 'rows'}-{hashed}"
    chosen = branch or f"contribution/{slug}"
    if _git(root, "branch", "--list", "--all", chosen, f"*/{chosen}").strip():
        raise QueryError(f"{root} has a branch {chosen!r} already; remove it, or give another name with --branch.")
    with use_shipped_only():
        shipped = set(load_catalogue().with_unlisted)
    contributed = tuple(dict.fromkeys(one.row.encoder for one in fresh))
    submission = Submission(
        repository=root,
        branch=chosen,
        commit=None,
        folder=f"contributions/{date.today().isoformat()}-{slug}",
        files=(),
        source=who,
        n_rows=len(fresh),
        n_known=len(signed) - len(fresh),
        n_bare=len(bare),
        encoders=contributed,
        cards=tuple(name for name in dict.fromkeys(map(get_base_id, contributed)) if name not in shipped),
        numbers=tuple(_numbers(fresh, there)),
    )
    return submission if dry_run else _committed(submission, fresh, protocol)


def _clean_clone(folder: Path) -> Path:
    """The top of the work tree of a git repository without changes."""
    if not folder.is_dir():
        raise QueryError(
            f"There is no folder {folder}, expected a clone of a results repository; make it by git clone."
        )
    try:
        root = Path(_git(folder, "rev-parse", "--show-toplevel").strip())
        _git(root, "rev-parse", "--verify", "HEAD")
    except StoreError as error:
        raise QueryError(
            f"{folder} is no clone of a git repository with a commit ({error}); make it with git clone, or with git "
            "init and a commit."
        ) from error
    if changed := _git(root, "status", "--porcelain", "--untracked-files=normal").splitlines():
        raise QueryError(
            f"{root} has {len(changed)} changes that are not committed, such as {changed[0][3:]!r}; commit or stash "
            "them first."
        )
    return root


def _signed(found: Sequence[LocatedRow], source: str | None) -> list[LocatedRow]:
    """The same rows, those of nobody in particular by the one who is named."""
    if source is not None and (not source.strip() or source in NOBODY or not source.isprintable()):
        raise QueryError(
            f"Got --source {source!r}, expected who measured, such as a name, a laboratory or an arXiv id."
        )
    if source is None and (nobody := [one for one in found if one.row.source in NOBODY]):
        raise QueryError(
            f"{format_count(len(nobody), 'row has', 'rows have')} the source {nobody[0].row.source!r}, which names "
            "nobody; "
            "say who measured with --source NAME."
        )
    return [
        replace(one, row=one.row._replace(source=source)) if source and one.row.source in NOBODY else one
        for one in found
    ]


def _numbers(fresh: Sequence[LocatedRow], there: Sequence[LocatedRow]) -> Iterator[dict[str, Any]]:
    """Each contributed number next to the best one of the repository and of the zoo's own results."""
    known: dict[tuple[str, ...], list[SeedMean]] = {}
    with use_shipped_only():
        shipped = measurements()
    for mean in average_over_seeds([*(one.measurement for one in there), *shipped]):
        known.setdefault((mean.metric, mean.dataset, mean.split, mean.protocol), []).append(mean)
    for mean in average_over_seeds(one.measurement for one in fresh):
        subject = (mean.metric, mean.dataset, mean.split, mean.protocol)
        others = [one for one in known.get(subject, ()) if one.encoder != mean.encoder]
        lower = METRICS[mean.metric].lower_is_better
        sign = 1 if lower else -1
        ahead = {one.encoder for one in others if sign * one.value < sign * mean.value}
        best = None if lower is None else min(others, key=lambda one: sign * one.value, default=None)
        yield {
            **{name: getattr(mean, name) for name in ("encoder", "metric", "dataset", "split", "protocol", "unit")},
            "value": mean.value,
            "n_seeds": mean.n_seeds,
            "best": best and {"encoder": best.encoder, "value": best.value, "source": best.source},
            "place": None if lower is None else len(ahead) + 1,
            "of": len({one.encoder for one in others}) + 1,
        }


def _committed(submission: Submission, fresh: Sequence[LocatedRow], protocol: ProtocolCheck | None) -> Submission:
    """Commits the rows on the branch, in a work tree of its own; the branch stays only if all of it succeeds."""
    root, branch = submission.repository, submission.branch
    with TemporaryDirectory(prefix="zoo-submit-") as temporary:
        tree = Path(temporary, "tree")
        _git(root, "worktree", "add", "--quiet", "-b", branch, str(tree), "HEAD")
        commit = None
        try:
            _write(tree, submission, fresh, protocol)
            _git(tree, "add", "--all")
            files = _git(tree, "diff", "--cached", "--name-only", "-z").split("\0")
            subject = f"{format_count(submission.n_rows, 'row')} by {submission.source}"
            _git(
                tree,
                "commit",
                "--quiet",
                "-m",
                subject,
                "-m",
                f"By submit_results.py; see {submission.folder}/README.md.",
            )
            commit = _git(tree, "rev-parse", "HEAD").strip()
        finally:
            _git(root, "worktree", "remove", "--force", str(tree))
            if commit is None:
                _git(root, "branch", "--quiet", "-D", branch)
    return replace(submission, commit=commit, files=tuple(filter(None, files)))


def _write(tree: Path, submission: Submission, fresh: Sequence[LocatedRow], protocol: ProtocolCheck | None) -> None:
    """Writes everything into a work tree, and checks all rows as they then are."""
    record({one.measurement: one.provenance or {} for one in fresh}, folder=tree / _ROWS, alone=True)
    (tree / _ROWS / ".lock").unlink(missing_ok=True)
    for name in submission.cards:
        path = tree / _CARDS / f"{name}.toml"
        if not path.exists():
            _write_text(path, format_card_file(load_catalogue()[name], comment=_COMMENT))
    checked = check([tree], protocol=protocol)
    if checked.problems:
        first = checked.problems[0].sentence.replace(f"{tree}/", "").removesuffix(".")
        raise ResultsError(
            f"With this contribution {submission.repository} would not pass 'zoo results check': {first} "
            f"({format_count(len(checked.problems), 'problem')} in all); nothing is prepared."
        )
    facts = {
        "format": FORMAT,
        "source": submission.source,
        "date": date.today().isoformat(),
        "zoo": __version__,
        "n_rows": submission.n_rows,
        "encoders": list(submission.encoders),
        "passed": list(CHECKS if protocol is not None else CHECKS[:-1]),
        "not_checked": [
            f"settings of {format_count(n, 'row')} by {name}" for name, n in checked.unknown_protocols.items()
        ],
        "numbers": list(submission.numbers),
    }
    folder = tree / submission.folder
    _write_text(folder / "checks.json", json.dumps(facts, indent=1) + "\n")
    _write_text(folder / "README.md", _page(submission, facts))


_PAGE = """\
# {n_rows} rows by {source}

{date}, zoo {zoo}; of {encoders}.{cards}

Checked when it was prepared:

{checks}

Means over seeds next to the best number of another encoder that was known, in this repository and in the zoo, for the
same metric, data set, split and protocol:

| encoder | metric | data set | split | protocol | value | best known | of | place |
|---|---|---|---|---|--:|--:|---|--:|
{numbers}
"""


def _page(submission: Submission, facts: Mapping[str, Any]) -> str:
    rows = []
    for one in submission.numbers:
        best = one["best"]
        known = ("", "") if best is None else (f"{best['value']:.4g}", best["encoder"])
        place = "" if one["place"] is None else f"{one['place']} of {one['of']}"
        cells = [one[name] for name in ("encoder", "metric", "dataset", "split", "protocol")]
        cells += [f"{one['value']:.4g} {one['unit']}", *known, place]
        rows.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    cards = f" Cards of encoders that the zoo does not ship go along: {', '.join(submission.cards)}."
    checks = [*facts["passed"], *(f"not checked: {what}" for what in facts["not_checked"])]
    return _PAGE.format(
        **{name: facts[name] for name in ("n_rows", "source", "date", "zoo")},
        encoders=", ".join(submission.encoders),
        cards=cards if submission.cards else "",
        checks="\n".join(f"* {sentence}" for sentence in checks),
        numbers="\n".join(rows),
    )


def _write_text(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _git(folder: Path, *arguments: str) -> str:
    """What a command of git prints; StoreError with what it complains of."""
    of_a_hook = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE")  # that runs the zoo, about another repository
    environment = {name: value for name, value in os.environ.items() if name not in of_a_hook}
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments],
            capture_output=True,
            check=False,
            stdin=subprocess.DEVNULL,
            text=True,
            errors="replace",
            env=environment | {"GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"},
        )
    except FileNotFoundError as error:
        raise QueryError("git is not installed, which makes the branch of a contribution; install it.") from error
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        complaint = said[-1] if said else f"exit code {done.returncode}"
        raise StoreError(f"git {arguments[0]} failed in {folder}: {complaint}; mend that, and submit again.")
    return done.stdout


def main(arguments: Sequence[str] | None = None) -> None:
    """Prepare the branch, and print its numbers and what comes next."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--to", required=True, type=Path, metavar="REPOSITORY", help="folder of a clean clone")
    parser.add_argument("--source", metavar="WHO", help="who measured, in place of 'own' and 'measured' in your rows")
    parser.add_argument("--branch", help="its name; contribution/WHO-HASH unless given")
    parser.add_argument("--skip-bare", action="store_true", help="leave out rows without provenance")
    parser.add_argument("--dry-run", action="store_true", help="write nothing, and print what would be done")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    options = parser.parse_args(arguments)
    try:
        done = submit(
            options.to,
            encoders=set(match_encoder_ids(options.names, load_catalogue())) if options.names else None,
            source=options.source,
            branch=options.branch,
            skip_bare=options.skip_bare,
            protocol=find_protocol_problem,
            dry_run=options.dry_run,
        )
    except ZooError as error:
        sys.exit(f"Error: {error}")
    if options.json:
        print_json(_make_document(done))
    else:
        _print_submission(done)


def _make_document(done: Submission) -> dict[str, Any]:
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
        "numbers": list(done.numbers),
    }


def _print_submission(done: Submission) -> None:
    rows = []
    for one in done.numbers[:_LISTED]:
        best = one["best"]
        known = "" if best is None else f"{best['value']:.4g} ({best['encoder']})"
        place = "" if one["place"] is None else f"{one['place']} of {one['of']}"
        what = [one[name] for name in ("encoder", "metric", "dataset", "split")]
        rows.append([*what, f"{one['value']:.4g}", known, place])
    print_table(
        make_table(["encoder", "metric", "data set", "split", "value", "best known", "place"], rows, numbers=[4])
    )
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


if __name__ == "__main__":
    main()
