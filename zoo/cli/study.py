"""``zoo study``: the paper's questions, answered with the results and compared with the paper's claims."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..cards.answers import make_table
from ..cards.catalogue import load_catalogue
from ..errors import QueryError
from .options import complete_encoder_names, make_seed_option, study_names
from .output import add_json_option, print_json, print_notes, print_table, show_steps, wrap_indented, wrap_text

if TYPE_CHECKING:
    from ..studies.findings import Claim
    from ..studies.running import Study, StudyRun

_EPILOG = """\b
Examples:
  zoo study
  zoo study where_the_risk_lies
  zoo study all --out report
  zoo study all --out report --single-file
  zoo study how_risk_scales_with_labels --corrected --json
  zoo study what_an_encoder_is_good_at --encoder dino_vitS16 --encoder mae_vitB16 --out radar
  zoo study my_study.py --with-mine
"""
_COLOURS = {"agrees": "green", "compatible": "cyan", "corrected": "yellow", "not reproducible": "red"}


@click.command("study", epilog=_EPILOG)
@click.argument("names", metavar="[NAME|FILE|all]...", nargs=-1, shell_complete=study_names)
@click.option("--out", "folder", metavar="DIR", type=click.Path(path_type=Path), help="Write a report with figures.")
@click.option("--single-file", is_flag=True, help="The report as one page, DIR.html, with its figures inside.")
@click.option("--corrected", is_flag=True, help="Errata applied, wrong rows left out, signed components.")
@click.option("--with-mine", is_flag=True, help="With the encoders that only you have measured.")
@click.option(
    "--encoder", "encoders", multiple=True, shell_complete=complete_encoder_names, help="For the radar; repeatable."
)
@click.option("--tune", is_flag=True, help="Search the trees' settings anew instead of taking the stored ones.")
@click.option("--trials", type=click.IntRange(1, 10_000), default=50, show_default=True, help="Of that search, each.")
@make_seed_option("Of folds and resamples.")
@click.option("--jobs", type=click.IntRange(0, 1024), default=0, help="Processes for the trees; 0 means one per core.")
@add_json_option
def study_command(
    names: tuple[str, ...],
    folder: Path | None,
    single_file: bool,
    corrected: bool,
    with_mine: bool,
    encoders: tuple[str, ...],
    tune: bool,
    trials: int,
    seed: int,
    jobs: int,
    as_json: bool,
) -> None:
    """Answer the paper's questions with the results.

    The paper is the one on risk decomposition. Without a NAME the studies are listed. The code of a FILE is run with
    your rights: read it first. Each study prints the claim, the paper's number, ours, and the verdict: agrees;
    compatible (other encoders, within our interval); corrected (for a fault that the reason names); or not
    reproducible. The default table is the published one; a report (--out) shows the corrected table next to it.
    """
    from ..studies.running import list_studies

    if single_file and folder is None:
        raise QueryError("Got --single-file without a report to write, expected --out DIR too.")
    if not names:
        known = list_studies().values()
        if as_json:
            records = [{name: getattr(one, name) for name in ("name", "question", "introduction")} for one in known]
            print_json({"studies": records})
            return
        print_table(make_table(["study", "question"], [[study.name, study.question] for study in known]))
        print_notes(["run one with: zoo study NAME, all of them with: zoo study all --out report"])
        return
    chosen = _chosen(names)
    ids = tuple(dict.fromkeys(load_catalogue().id_of(name) for name in encoders))
    from ..studies.report import build_report_document
    from ..studies.running import StudyOptions, run_studies

    if folder is not None:
        from ..studies.report import require_reportable, write_page, write_report

        require_reportable(folder, single_file=single_file)
    with show_steps("reading the table") as progress:
        options = StudyOptions(seed=seed, tune=tune, n_trials=trials, n_workers=jobs, encoders=ids, progress=progress)
        runs = run_studies(
            chosen, corrected=corrected, with_mine=with_mine, compare=folder is not None, options=options
        )
        if folder is not None and single_file:
            folder = write_page(runs, folder, progress=progress)
        elif folder is not None:
            write_report(runs, folder, progress=progress)
    if as_json:
        print_json(build_report_document(runs) | ({"report": str(folder)} if folder else {}))
        return
    for run in runs:
        _print_run(run)
    _print_summary(runs, with_mine=with_mine)
    files = sorted({name for run in runs for name in run.findings.files})
    if files and folder is None:
        print_notes([f"{', '.join(files)}: kept only with --out DIR"])
    if folder is not None:
        n_figures = sum(len(run.findings.figures) for run in runs)
        what = f"{folder / 'index.html'}, report.md, report.json, estimates.csv, {n_figures} figures"
        click.echo(
            wrap_text(f"Wrote {f'{folder}, one page with {n_figures} figures inside' if single_file else what}.")
        )


def _chosen(names: Sequence[str]) -> list[Study]:
    from ..studies.running import find_study, list_studies

    if "all" in names:
        if len(names) > 1:
            raise QueryError(f"Got {' '.join(names)}, expected 'all' alone or names of studies.")
        return list(list_studies().values())
    found = [find_study(name) for name in names]
    return list({study.path: study for study in found}.values())


def _print_run(run: StudyRun) -> None:
    from ..analysis.columns import list_estimates
    from ..studies.report import ESTIMATE_HEADERS, describe_rows_used, estimate_cells

    click.secho(wrap_text(run.study.question), bold=True)
    if run.findings.answer:
        click.echo(wrap_text(run.findings.answer) + "\n")
    if run.findings.claims:
        _print_claims(run.findings.claims)
    elif run.findings.estimates:  # a question of the user's own, of which no paper has said anything
        rows = [estimate_cells(record) for record in list_estimates(run.findings.estimates)]
        print_table(make_table(ESTIMATE_HEADERS, rows))
    lines = [
        describe_rows_used({"part": rows.part, "used": rows.used, "unit": rows.unit, "left_out": rows.left_out})
        for rows in run.findings.rows
    ]
    print_notes([*lines, *run.findings.notes])
    click.echo()


def _print_claims(claims: Sequence[Claim]) -> None:
    from ..studies.findings import format_verdict

    verdicts = [click.style(format_verdict(one.verdict, one.rests_on), fg=_COLOURS[one.verdict]) for one in claims]
    rows = [
        [claim.claim, claim.source, claim.paper, claim.ours, verdict]
        for claim, verdict in zip(claims, verdicts, strict=True)
    ]
    headers = ["claim", "source", "paper", "ours", "verdict"]
    if sys.stdout.isatty():  # a terminal is too narrow for the reasons, which stand below
        print_table(make_table(headers, rows))
        for claim in claims:
            if claim.reason:
                click.echo(
                    wrap_indented(f"{format_verdict(claim.verdict, claim.rests_on)}: {claim.claim}: {claim.reason}")
                )
    else:
        print_table(
            make_table([*headers, "why"], [[*row, claim.reason] for row, claim in zip(rows, claims, strict=True)])
        )


def _print_summary(runs: Sequence[StudyRun], *, with_mine: bool) -> None:
    from ..studies.report import build_report_document, summarise_report

    table, document = runs[0].table, build_report_document(runs)
    if len(runs) > 1:
        headers = ["study", *document["verdicts"], "claims"]
        rows = [
            [study["name"], *map(str, study["verdicts"].values()), str(len(study["claims"]))]
            for study in document["studies"]
        ]
        print_table(make_table(headers, rows, numbers=range(1, len(headers))))
        click.echo()
    click.echo(wrap_text(summarise_report(document)))
    if with_mine and not table.mine:
        why = "your results name none that only you have measured on imagenet-1k (zoo evaluate --dataset imagenet-1k)"
        yours = [f"{', '.join(ids)}: {reason}" for reason, ids in table.left_out.items() if reason.startswith("your")]
        print_notes([f"--with-mine added no encoder: {'; '.join(yours) or why}"])
