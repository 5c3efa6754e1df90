"""``zoo results``: what was measured of encoders, one row an encoder."""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from dataclasses import asdict

import click

from ..cards import catalogue
from ..errors import nearest_names
from ..metadata import Missing
from ..results import SETTINGS, Summary, seed_means, summaries
from .facts import WRONG, points
from .options import dataset_names, encoder_names, exclude_wrong_option, measured_metrics
from .output import NothingFound, json_option, print_json, print_notes, print_table
from .risks import COMPONENT_HEADERS, component_cells, distrust, legend, risk_record
from .selection import matching

_IMAGENET = "imagenet-1k"
_EPILOG = """\b
Examples:
  zoo results dino_vitS16 mae_vitB16
  zoo results 'dino_*' --exclude-wrong --json
  zoo results --dataset shapes
  zoo results 'pocket_*' --dataset shapes --metric lidar,rankme --limit 5
  zoo results --dataset digits --metric transfer_error --csv
  zoo results pocket_mae_vit_shapes --dataset shapes --setting 5-shot --long
"""


def _listed(ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> list[str]:
    return [part.strip() for value in values for part in value.split(",") if part.strip()]


@click.command("results", epilog=_EPILOG)
@click.argument("names", nargs=-1, shell_complete=encoder_names)
@click.option(
    "--dataset", metavar="NAME", shell_complete=dataset_names, help="Of this data set, such as 'zoo evaluate' adds."
)
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    metavar="A,B,...",
    callback=_listed,
    shell_complete=measured_metrics,
    help="Only these metrics; globs are allowed.",
)
@click.option("--protocol", "protocols", multiple=True, metavar="NAME", help="Only this protocol; globs are allowed.")
@click.option(
    "--setting",
    "settings",
    multiple=True,
    metavar="A,B,...",
    callback=_listed,
    help="Only these numbers of labels, such as 100%, 5-shot or '20 images'.",
)
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="At most this many encoders.")
@click.option("--long", "is_long", is_flag=True, help="One line a number, with interval, protocol and source.")
@click.option("--csv", "as_csv", is_flag=True, help="Print comma-separated values instead of a table.")
@exclude_wrong_option
@json_option
def command(
    names: tuple[str, ...], dataset: str | None, metrics: list[str], protocols: tuple[str, ...], settings: list[str],
    limit: int | None, is_long: bool, as_csv: bool, exclude_wrong: bool, as_json: bool,
) -> None:  # fmt: skip
    """Show the measured errors and their components.

    Errors of linear probes on ImageNet-1K, or another data set, in percent, by the labels the probe had. The components
    are in percentage points, signed, and sum to the error with 100%. NAMES are ids of encoders or globs; without any,
    all that were measured. Means over seeds; --json and --long --csv have the rows one by one.
    """
    if as_csv and as_json:
        raise click.UsageError("Got --csv and --json, expected one of them.")
    wanted = _encoders(names)
    if dataset is not None or metrics or protocols or settings or is_long:
        _print_rows(
            dataset or _IMAGENET, wanted, metrics=metrics, protocols=protocols, settings=settings, limit=limit,
            is_long=is_long, as_csv=as_csv, as_json=as_json, exclude_wrong=exclude_wrong,
        )  # fmt: skip
        return
    known = summaries(exclude_wrong=exclude_wrong)
    everyone = [known[encoder] for encoder in wanted or known if encoder in known]
    found = everyone[:limit]
    without = [encoder for encoder in wanted if encoder not in known]
    if as_json:
        records = [{"encoder": summary.encoder, **risk_record(summary)} for summary in found]
        print_json({"encoders": records, "not_measured": without})
    elif found and as_csv:
        records = [{"encoder": summary.encoder, **risk_record(summary)} for summary in found]
        heads = [name for name in records[0] if name not in ("missing", "errata")]
        _write_csv(heads, [[record[name] for name in heads] for record in records])
    elif found:
        print_risks(found, one_by_one=bool(names))
    if len(found) < len(everyone):
        print_notes([f"{len(found)} of {len(everyone)} encoders"])
    if without and found:
        print_notes([f"not measured: {_few(without)}{_elsewhere(without)}"])
    if not found:
        left = " once the wrong measurements are left out" if exclude_wrong else ""
        hint = _elsewhere(without) or "; name another data set by --dataset"
        raise NothingFound(
            f"Nothing was measured of {_few(without)} on ImageNet-1K{left}{hint}."
            if without
            else "There are no results."
        )


def _encoders(names: Sequence[str]) -> list[str]:
    """Ids by name or glob, each once; a glob that no id matches finds nothing."""
    cards = catalogue()
    found: list[str] = []
    for name in names:
        if any(mark in name for mark in "*?["):
            matched = matching(name)
            if not matched:
                stem = name.split("*")[0].split("?")[0].split("[")[0]
                near = ", ".join(nearest_names(stem or name, cards))
                hint = f"near are: {near}." if near else "run 'zoo list' to see them all."
                raise NothingFound(f"No encoder has a name like {name!r}; {hint}")
            found += matched
        else:
            found.append(cards.id_of(name))
    return list(dict.fromkeys(found))


def _few(encoders: Sequence[str]) -> str:
    """Their names; of many, as a glob finds them, the first and how many more."""
    return ", ".join(encoders) if len(encoders) <= 5 else f"{', '.join(encoders[:3])} and {len(encoders) - 3} more"


def _elsewhere(encoders: Sequence[str]) -> str:
    """On which other data sets they were measured, as the end of a sentence."""
    datasets = dict.fromkeys(mean.dataset for mean in seed_means() if mean.encoder in encoders)
    return f", but on {', '.join(datasets)}; see --dataset" if datasets else ""


def _print_rows(
    dataset: str, wanted: Sequence[str], *, metrics: Sequence[str], protocols: Sequence[str], settings: Sequence[str],
    limit: int | None, is_long: bool, as_csv: bool, as_json: bool, exclude_wrong: bool,
) -> None:  # fmt: skip
    """The rows of a data set: a pivot, a line each, CSV or JSON."""
    from ..measurements import means_over_seeds, measurements
    from ..vocabulary import COLUMNS
    from .other_results import PROBE, Pivot, left_out_note, plain, print_long, require_dataset, selected, usual

    rows = measurements(exclude_wrong=exclude_wrong)
    require_dataset(dataset, (row.dataset for row in rows))
    there = [row for row in rows if row.dataset == dataset and (not wanted or row.encoder in wanted)]
    if not there:
        raise NothingFound(f"Nothing was measured of {_few(wanted)} on {dataset}.")
    found = selected(there, metrics=metrics, protocols=protocols, settings=settings)
    encoders = list(dict.fromkeys(row.encoder for row in found))
    means = means_over_seeds(found)
    if metrics or protocols or settings:
        shown = means if protocols and is_long else plain(means)
        if settings and not metrics:
            shown = [mean for mean in shown if mean.metric == PROBE] or shown
    else:
        shown = [mean for mean in usual(plain(means)) if dataset != _IMAGENET or mean.metric == PROBE]
    if is_long and metrics:
        shown = means
    pivot = Pivot(shown, metrics)
    kept = encoders[:limit] if as_json else list(dict.fromkeys(encoder for encoder, _ in pivot.rows))[:limit]
    if as_json:
        print_json({"dataset": dataset, "measurements": [asdict(row) for row in found if row.encoder in kept]})
        return
    if as_csv and is_long:
        long = [asdict(row) for row in found if row.encoder in kept]
        _write_csv(COLUMNS, [[row[name] for name in COLUMNS] for row in long])
        return
    pivot.rows = [key for key in pivot.rows if key[0] in kept]
    shown = [mean for mean in shown if mean.encoder in kept]
    if as_csv:
        _write_csv(pivot.headers(), pivot.values())
        return
    count = f"{len(kept)} encoder{'s' * (len(kept) != 1)}"
    if len(kept) < len(encoders):
        count = f"{len(kept)} of {len(encoders)} encoders"
    if is_long:
        same = print_long(shown)
        print_notes([f"{count} on {dataset}; {same[0]}", *same[1:]])
    else:
        narrow = pivot.print()
        units = ", ".join(dict.fromkeys(mean.unit for mean in shown))
        source = "" if len(pivot.sources) > 1 else f"; source: {pivot.sources[0]}"
        protocol = next(mean.protocol for mean in shown if mean.metric == pivot.columns[0][0])
        print_notes([f"{count} on {dataset}, means over seeds; {units}{source}; protocol: {protocol}"])
        if narrow:
            print_notes([f"left out on so narrow a terminal: {', '.join(narrow)}"])
    if not metrics and not settings:
        print_notes(left_out_note(shown, [mean for mean in means if mean.encoder in kept]))
    missing = [encoder for encoder in wanted if encoder not in encoders]
    if missing:
        print_notes([f"not measured: {_few(missing)}"])


def _write_csv(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(headers)
    writer.writerows([["" if value is None or isinstance(value, Missing) else value for value in row] for row in rows])


def print_risks(found: list[Summary], *, one_by_one: bool) -> None:
    """One row an encoder, then what the marks mean and how many rows, or one by one why, are to be distrusted."""
    headers = ["encoder", *(setting.name for setting in SETTINGS), *COMPONENT_HEADERS]
    rows = []
    for summary in found:
        known = [summary.errors.get(setting.name) for setting in SETTINGS]
        errors = ["?" if error is None else points(error) for error in known]
        mark = f" {WRONG}" if summary.errata else ""
        rows.append([summary.encoder + mark, *errors, *component_cells(summary.decomposition)])
    print_table(headers, rows, right=range(1, len(headers)))
    marked = [summary for summary in found if summary.errata]
    reasons = [line for summary in marked for line in distrust(summary.encoder, summary.errata)]
    if marked and not one_by_one:
        encoders = "1 encoder has" if len(marked) == 1 else f"{len(marked)} encoders have"
        reasons = [f"{WRONG}  {encoders} errata; zoo show NAME says which"]
    print_notes(["errors in percent by labels, components in percentage points", *legend(found), *reasons])
