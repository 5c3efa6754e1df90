"""``zoo results``: measurements of any data set, as one row per encoder, one line a number, CSV or JSON."""

from __future__ import annotations

import csv
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from fnmatch import fnmatchcase
from operator import attrgetter
from typing import Any

import click

from ..cards.answers import make_column_table, make_table
from ..cards.catalogue import load_catalogue
from ..cards.schema import Missing
from ..cards.search import is_glob
from ..errors import UnknownName, find_nearest_names, format_count
from ..files import escape_csv_cell
from ..results.derived import seed_means, summaries
from ..results.facts import DOUBTFUL, REPORTED, format_points, mark_protocols
from ..results.reported import reported_numbers
from ..results.reported_values import COLUMNS as REPORTED_COLUMNS
from ..results.reported_values import ReportedNumber
from ..results.values import AUTHORS, IMAGENET, SETTINGS, SeedMean, Summary
from ..results.wording import (
    NEIGHBOURS,
    PROBE,
    describe_number_origin,
    describe_protocol_details,
    describe_protocol_kind,
    format_quantity,
    format_seed_interval,
    format_setting,
    is_by_labels,
    note_older_protocols,
    select_plain_protocols,
)
from . import CommandWithVerbs, Verb
from .facts import (
    ASSUMED,
    PART_HEADS,
    WRONG,
    build_risk_record,
    describe_only_experiments,
    list_distrust_notes,
    list_family_members,
    list_older_parts_notes,
    list_protocol_notes,
    match_encoder_ids,
)
from .options import (
    all_dataset_names,
    complete_encoder_names,
    exclude_wrong_option,
    family_option,
    measured_metrics,
    only_limit_option,
    reject_unused_options,
)
from .output import NothingFound, add_json_option, can_fit_table, format_list, print_json, print_notes, print_table

Column = tuple[str, str]  # metric, split
_EPILOG = """\b
Examples:
  zoo results dino_vitS16 mae_vitB16
  zoo results 'dino_*' --exclude-wrong --json
  zoo results --dataset shapes
  zoo results --dataset eurosat --limit 10
  zoo results 'pocket_*' --dataset shapes --metric lidar,rankme --limit 5
  zoo results --dataset digits --metric transfer_error --csv
  zoo results pocket_mae_vit_shapes --dataset shapes --setting 5-shot --long
  zoo results 'dino*' --reported --protocol reported-linear
  zoo results merge ../their-results s3://bucket/run
"""


def _by_comma(ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> list[str]:
    return [part.strip() for value in values for part in value.split(",") if part.strip()]


VERBS = {
    "merge": Verb("sharing", "Add the rows of other people or machines to yours."),
    "check": Verb("sharing", "Check rows and their provenance, and measure some again."),
}


@click.command("results", cls=CommandWithVerbs, verbs=VERBS, epilog=_EPILOG)
@click.argument("names", nargs=-1, shell_complete=complete_encoder_names)
@family_option
@click.option(
    "--dataset",
    metavar="NAME",
    shell_complete=all_dataset_names,
    help="Of this data set, such as 'zoo evaluate' adds; and what others measured on it.",
)
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    metavar="A,B,...",
    callback=_by_comma,
    shell_complete=measured_metrics,
    help="Only these metrics; globs are allowed.",
)
@click.option("--protocol", "protocols", multiple=True, metavar="NAME", help="Only this protocol; globs are allowed.")
@click.option(
    "--setting",
    "settings",
    multiple=True,
    metavar="A,B,...",
    callback=_by_comma,
    help="Only these numbers of labels, such as 100%, 5-shot or '20 images'.",
)
@only_limit_option
@click.option("--long", "is_long", is_flag=True, help="One line a number, with interval, protocol and source.")
@click.option("--csv", "as_csv", is_flag=True, help="Print comma-separated values instead of a table.")
@click.option("--reported", "is_reported", is_flag=True, help="What others reported, instead of what was measured.")
@exclude_wrong_option
@add_json_option
def results_command(
    names: tuple[str, ...],
    families: tuple[str, ...],
    dataset: str | None,
    limit: int | None,
    is_long: bool,
    is_reported: bool,
    as_csv: bool,
    exclude_wrong: bool,
    as_json: bool,
    **asked: Sequence[str],
) -> None:
    """Show the measured errors and their components.

    Errors of linear probes on ImageNet-1K, or another data set, in percent, by the number of labels. The components are
    in percentage points, signed, and sum to the error with 100%. NAMES are ids of encoders or globs; without any, all
    that were measured, except those of an experiment (NAMES or --family show them). For encoders not measured on
    ImageNet-1K, the data set is shown on which most of them were. Values are means over seeds; --json and --long --csv
    have the rows one by one. --dataset also shows, in tables of their own, what others measured on that data set; and
    --reported every number reported by authors or others, by protocols of their own.
    """
    if as_csv and as_json:
        raise click.UsageError("Got --csv and --json, expected one of them.")
    cards = load_catalogue()
    ids = [
        encoder
        for name in names
        for encoder in (match_encoder_ids([name], cards) if is_glob(name) else [cards.id_of(name)])
    ]
    wanted = list(dict.fromkeys(ids))
    if families:
        kept = list_family_members(families)
        wanted = [encoder for encoder in (wanted if names else cards.with_unlisted) if encoder in kept]
        if not wanted:
            raise NothingFound(f"None of {format_list(ids)} is of the family {' or '.join(families)}.")
    if is_reported:
        reject_unused_options(
            ("settings", "is_long", "exclude_wrong"), "--reported prints each number as it is printed"
        )
        _print_reported(wanted, dataset, asked, limit, as_csv=as_csv, as_json=as_json)
        return
    elsewhere = _datasets(wanted) if dataset is None and wanted and not summaries(encoders=wanted) else []
    if IMAGENET in elsewhere:
        elsewhere = []
    if dataset is not None or any(asked.values()) or is_long or elsewhere:
        notes = []
        if elsewhere:
            others = f"; --dataset NAME shows them on {', '.join(elsewhere[1:])}" if elsewhere[1:] else ""
            notes = [f"nothing was measured of them on ImageNet-1K{others}"]
        where = dataset or next(iter(elsewhere), IMAGENET)
        form = {"is_named": dataset is not None, "is_long": is_long, "as_csv": as_csv, "as_json": as_json}
        _print_rows(where, wanted, asked, notes, limit, exclude_wrong, **form)
        return
    known = summaries(exclude_wrong=exclude_wrong, encoders=wanted or None)
    everyone = [known[encoder] for encoder in wanted or known if encoder in known]
    found = everyone[:limit]
    without = [encoder for encoder in wanted if encoder not in known]
    missing = _elsewhere(without)
    records = [{"encoder": one.encoder, **build_risk_record(one)} for one in found] if as_json or as_csv else []
    if as_json:
        print_json({"encoders": records, "not_measured": without})
    elif records:
        heads = [name for name in records[0] if name not in ("missing", "errata")]
        _write_csv(heads, [[record[name] for name in heads] for record in records])
    elif found:
        notes = [f"{len(found)} of {len(everyone)} encoders"] * (len(found) < len(everyone))
        notes += [f"not measured: {format_list(without)}{missing}"] * bool(without)
        _print_risks(found, notes, one_by_one=bool(names))
    if not found:
        left = " once the wrong measurements are left out" if exclude_wrong else ""
        hint = missing if "--dataset" in missing else f"; name another data set by --dataset{missing}"
        nothing = f"Nothing was measured of {format_list(without)} on ImageNet-1K{left}{hint}."
        raise NothingFound(nothing if without else "There are no results.")


def _datasets(encoders: Sequence[str]) -> list[str]:
    """Data sets on which these encoders were measured, that of most of them first."""
    pairs = dict.fromkeys((mean.dataset, mean.encoder) for mean in seed_means(encoders))
    return [dataset for dataset, _ in Counter(dataset for dataset, _ in pairs).most_common()]


def _elsewhere(encoders: Sequence[str]) -> str:
    """Other data sets on which they were measured, and how much was reported of them, as the end of a sentence."""
    datasets, n = _datasets(encoders), sum(one.encoder in encoders for one in reported_numbers())
    measured = f", but on {', '.join(datasets)}; see --dataset" if datasets else ""
    return measured + (f"; others reported {format_count(n, 'number')}, see --reported" if n else "")


def filter_result_rows(rows: Iterable[Any], asked: Mapping[str, Sequence[str]]) -> list[Any]:
    """Rows that every given option keeps; names may be globs. If an option keeps none, NothingFound has the nearest."""
    found = list(rows)
    kinds: list[tuple[str, Callable[[Any], tuple[str, ...]]]] = [
        ("metric", lambda row: (row.metric,)),
        ("protocol", lambda row: (row.protocol,)),
        ("setting", lambda row: (format_setting(row.split), row.split)),
    ]
    for what, names in kinds:
        wanted = asked.get(f"{what}s", ())
        every = {names(row): None for row in found} if wanted else {}
        known = list(dict.fromkeys(name for some in every for name in some[:1]))
        for one in wanted:
            if not any(_is_like(name, one) for some in every for name in some):
                near = find_nearest_names(one, known)
                hint = f"did you mean {' or '.join(near)}?" if near else f"there are {format_list(known, 8)}."
                raise NothingFound(f"No row of these has a {what} like {one!r}; {hint}")
        if wanted:
            kept = {some for some in every if any(_is_like(name, one) for name in some for one in wanted)}
            found = [row for row in found if names(row) in kept]
    return found


def _is_like(name: str, pattern: str) -> bool:
    """True if the name matches; a pattern without a wild card is the name itself, because protocols hold brackets."""
    return name.casefold() == pattern.casefold() or fnmatchcase(name.casefold(), pattern.casefold())


def _print_reported(
    wanted: Sequence[str],
    dataset: str | None,
    asked: Mapping[str, Sequence[str]],
    limit: int | None,
    *,
    as_csv: bool,
    as_json: bool,
) -> None:
    """The reported numbers of these encoders, or all: a line each, as printed in the source, CSV or JSON."""
    numbers = [one for one in reported_numbers() if not wanted or one.encoder in wanted]
    if not numbers:
        raise NothingFound(f"Nothing was reported of {format_list(wanted)}.")
    if dataset is not None:
        from ..results.evidence import find_numbers_on

        try:
            there = find_numbers_on(dataset, numbers)
        except UnknownName:  # authors measure on others too
            there = [one for one in numbers if one.dataset.casefold() == dataset.casefold()]
        if not there:
            raise UnknownName("data set with reported numbers", dataset, [one.dataset for one in numbers])
        numbers = [one for one in numbers if one in there]
    numbers = filter_result_rows(numbers, asked)
    encoders = list(dict.fromkeys(one.encoder for one in numbers))[:limit]
    numbers = [one for one in numbers if one.encoder in encoders]
    if as_json:
        print_json({"reported": [asdict(one) for one in numbers]})
        return
    if as_csv:
        heads = [*REPORTED_COLUMNS, "repeats", "sd", "low", "high", "features"]
        rows = [[one.printed if name == "value" else getattr(one, name) for name in heads] for one in numbers]
        _write_csv(heads, rows)
        return
    table = []
    for one in numbers:
        recipe = ", ".join(
            text for text in (describe_protocol_kind(one), describe_protocol_details(one), one.features) if text
        )
        value = one.printed + (DOUBTFUL if one.doubt else REPORTED)
        table.append([one.encoder, recipe, one.metric, one.dataset, value, one.unit, describe_number_origin(one)])
    print_table(make_table(["encoder", "how", "metric", "dataset", "value", "unit", "by"], table, numbers=[4]))
    counts = f"{format_count(len(numbers), 'number')} of {format_count(len(encoders), 'encoder')}"
    notes = [f"{counts}, as printed in their sources    {REPORTED}  {AUTHORS} or others"]
    print_notes(notes + [f"{DOUBTFUL}  doubtful, for the reason next to it"] * any(one.doubt for one in numbers))


def _print_rows(
    dataset: str,
    wanted: Sequence[str],
    asked: Mapping[str, Sequence[str]],
    more: Sequence[str],
    limit: int | None,
    exclude_wrong: bool,
    *,
    is_named: bool,
    is_long: bool,
    as_csv: bool,
    as_json: bool,
) -> None:
    """The rows of a data set that match metrics, protocols and settings: an encoder or a number per line, CSV or JSON.

    Below them, what others measured on it, unless a CSV is asked for or no data set is.
    """
    from ..results.rows import average_over_seeds, measurements  # which the table of risks does without
    from ..results.values import COLUMNS
    from .reported_output import find_reported_on_dataset, print_on_dataset, select_best_blocks

    in_columns = attrgetter(*COLUMNS)
    metrics, protocols, settings = asked["metrics"], asked["protocols"], asked["settings"]
    there = measurements(exclude_wrong=exclude_wrong, encoders=wanted or None, dataset=dataset)
    by_others = find_reported_on_dataset(dataset, wanted) if is_named else []
    if by_others and not there:
        dataset = by_others[0].dataset  # asked for in another spelling
        there = measurements(exclude_wrong=exclude_wrong, encoders=wanted or None, dataset=dataset)
    if not there and not by_others:
        _refuse_dataset(dataset, wanted)
    chosen = filter_result_rows([*there, *by_others], asked)
    by_others = [one for one in chosen if isinstance(one, ReportedNumber)]
    found = [row for row in chosen if not isinstance(row, ReportedNumber)]
    others = {"measured_by_others": [asdict(one) for one in select_best_blocks(by_others, limit)]} if is_named else {}
    if not found:
        if as_csv:
            raise NothingFound(
                f"Nothing was measured by this project on {dataset}; --reported --csv has what others measured."
            )
        if as_json:
            print_json({"dataset": dataset, "measurements": []} | others)
        else:
            print_on_dataset(by_others, limit)
        return
    encoders = dict.fromkeys(row.encoder for row in found)
    means = average_over_seeds(found)
    plain = select_plain_protocols(means)
    if is_long and metrics:
        shown = means
    elif metrics or protocols or settings:
        shown = means if protocols and is_long else plain
        if settings and not metrics:
            shown = [mean for mean in shown if mean.metric == PROBE] or shown
    else:
        shown = [mean for mean in _usual(plain) if dataset != IMAGENET or mean.metric == PROBE]
    pivot = _PivotTable(shown, metrics)
    kept = dict.fromkeys(list(encoders if as_json else dict.fromkeys(encoder for encoder, _ in pivot.rows))[:limit])
    if as_json:
        long = [dict(zip(COLUMNS, in_columns(row), strict=True)) for row in found if row.encoder in kept]
        print_json({"dataset": dataset, "measurements": long} | others)
        return
    if as_csv and is_long:
        _write_csv(COLUMNS, [in_columns(row) for row in found if row.encoder in kept])
        return
    pivot.rows = [key for key in pivot.rows if key[0] in kept]
    if as_csv:
        _write_csv(pivot.headers(pivot.columns), pivot.cells(pivot.columns, lambda mean: mean and mean.value))
        return
    shown = [mean for mean in shown if mean.encoder in kept]
    count = f"{len(kept)} of " * (len(kept) < len(encoders)) + format_count(len(encoders), "encoder")
    if is_long:
        same = _print_long(shown)
        notes = [f"{count} on {dataset}{same}", "interval: 95 % of one seed, smallest and largest value of several"]
    else:
        narrow = pivot.print()
        units = ", ".join(dict.fromkeys(mean.unit for mean in shown))
        source = "" if len(pivot.sources) > 1 else f"; source: {pivot.sources[0]}"
        protocol = next(mean.protocol for mean in shown if mean.metric == pivot.columns[0][0])
        notes = [f"{count} on {dataset}, means over seeds; {units}{source}; protocol: {protocol}"]
        notes += [f"left out on so narrow a terminal: {', '.join(narrow)}"] * bool(narrow)
    missing = [encoder for encoder in wanted if encoder not in encoders]
    notes += note_older_protocols(shown, means)
    notes += [*more, *[f"not measured: {format_list(missing)}"] * bool(missing)]
    print_notes(
        notes + ([] if metrics or settings else _not_shown(shown, [one for one in means if one.encoder in kept]))
    )
    if by_others:
        click.echo()
        print_on_dataset(by_others, limit)


def _refuse_dataset(dataset: str, wanted: Sequence[str]) -> None:
    """Ends with what is known of a data set without rows of these encoders."""
    cards = load_catalogue()
    everywhere = [*seed_means(), *seed_means(cards.with_unlisted)]
    unasked = {mean.encoder for mean in everywhere if mean.dataset == dataset and not cards.lists(mean.encoder)}
    if not wanted and unasked:
        raise NothingFound(f"No encoder was measured on {dataset} {describe_only_experiments(unasked)}")
    from ..results.evidence import find_dataset, list_datasets

    known = list(dict.fromkeys([IMAGENET, *(mean.dataset for mean in everywhere)]))
    try:
        find_dataset(dataset)
    except UnknownName as error:
        if dataset not in known:
            reported = [one.dataset for one in reported_numbers()]
            n_others = len(list_datasets().keys() & reported)
            hint = f"There are {', '.join(known)}, and {n_others} on which others measured."
            if n := sum(name.casefold() == dataset.casefold() for name in reported):
                numbers = format_count(n, "number")
                hint = f"Authors and others report {numbers}: zoo results --reported --dataset '{dataset}'"
            raise UnknownName("data set with measurements", dataset, [*known, *list_datasets()], hint=hint) from error
    raise NothingFound(f"Nothing was measured {f'of {format_list(wanted)} ' if wanted else ''}on {dataset}.")


def _usual(means: Sequence[SeedMean]) -> list[SeedMean]:
    """Errors by labels and of nearest neighbours, and components of the error; everything if there are none."""
    found = [
        mean
        for mean in means
        if (mean.metric == PROBE and is_by_labels(mean.split)) or mean.metric in (NEIGHBOURS, *PART_HEADS)
    ]
    split = {(mean.encoder, mean.source) for mean in found if mean.metric == "usability"}
    sums = [mean for mean in found if mean.metric == "approximation_plus_usability"]
    if all((mean.encoder, mean.source) in split for mean in sums):  # then the sum says nothing new
        found = [mean for mean in found if mean.metric != "approximation_plus_usability"]
    return found or list(means)


class _PivotTable:
    """A table with one row per encoder, or one for each of its sources; the best in the first column comes first."""

    def __init__(self, means: Sequence[SeedMean], metrics: Sequence[str]) -> None:
        from ..results.vocabulary import FEATURE_METRICS

        order = list(dict.fromkeys([*metrics, PROBE, NEIGHBOURS, *PART_HEADS, *(mean.metric for mean in means)]))
        n_labels: dict[Column, int] = {}
        self.found: dict[tuple[str, str], dict[Column, SeedMean]] = {}
        for mean in means:
            column = (mean.metric, mean.split)
            n_labels[column] = max(n_labels.get(column, 0), mean.n_train or 0)
            self.found.setdefault((mean.encoder, mean.source), {})[column] = mean
        self.columns = sorted(n_labels, key=lambda column: (order.index(column[0]), -n_labels[column]))
        self.sources = list(dict.fromkeys(mean.source for mean in means))
        first = self.columns[0]
        free = FEATURE_METRICS.get(first[0])
        sign = -1 if free is not None and free.higher_is_better else 1  # all others are errors and their parts
        known = [key for key, row in self.found.items() if first in row]
        self.rows = sorted(known, key=lambda key: sign * self.found[key][first].value)
        self.rows += [key for key in self.found if first not in self.found[key]]

    def headers(self, columns: Sequence[Column]) -> list[str]:
        """Names of columns: settings if there is one metric, else metrics, with the setting if it varies."""
        n_splits = Counter(metric for metric, _ in columns)
        heads = []
        for metric, split in columns:
            setting = format_setting(split)
            name = "k-NN" if metric == NEIGHBOURS else PART_HEADS.get(metric, metric)
            if len(n_splits) == 1 or metric == PROBE:
                name = setting
            elif n_splits[metric] > 1:
                name = f"{name} {setting}"
            heads.append(name)
        return ["encoder", *heads, *["source"] * (len(self.sources) > 1)]

    def cells(self, columns: Sequence[Column], show: Callable[[SeedMean | None], Any]) -> list[list[Any]]:
        """One list a row: the encoder, each column, and the source if there are several."""
        return [
            [key[0], *(show(self.found[key].get(column)) for column in columns), *[key[1]] * (len(self.sources) > 1)]
            for key in self.rows
        ]

    def print(self) -> list[str]:
        """Prints the table, without components where they do not fit; returns the names of the columns left out."""
        errors = [column for column in self.columns if column[0] not in (NEIGHBOURS, *PART_HEADS)]
        for columns in (self.columns, errors):
            heads = self.headers(columns)
            table = self.cells(columns, lambda mean: "?" if mean is None else format_quantity(mean.value, mean))
            if can_fit_table(make_table(heads, table)):
                break
        print_table(make_table(heads, table, numbers=range(1, len(columns) + 1)))
        return [name for name in self.headers(self.columns) if name not in heads]


def _not_shown(shown: Sequence[SeedMean], among: Sequence[SeedMean]) -> list[str]:
    """Notes on measurements that the table leaves out."""
    metrics = {mean.metric for mean in shown}
    others = [mean.metric for mean in among if mean.metric not in metrics]
    n = len(among) - len(shown) - len(others)
    names = ", ".join(dict.fromkeys(others))
    notes = [f"also measured: {names}; --metric NAME shows one, --metric '*' all"] * bool(others)
    return notes + [f"{n} more means, of other protocols or settings: --metric '*' --long"] * (n > 0)


def _print_long(means: Sequence[SeedMean]) -> str:
    """Prints a line a number; returns the facts that are the same for all, which get no column."""
    columns: dict[str, list[str]] = {
        "encoder": [mean.encoder for mean in means],
        "metric": [mean.metric for mean in means],
        "setting": [format_setting(mean.split) for mean in means],
        "images": ["" if mean.n_train is None else f"{mean.n_train:,}" for mean in means],
        "value": [format_quantity(mean.value, mean) for mean in means],
        "interval": [format_seed_interval(mean) for mean in means],
        "seeds": [str(mean.n_seeds) for mean in means],
        "protocol": [mean.protocol for mean in means],
        "source": [mean.source for mean in means],
    }
    table = make_column_table(columns, numbers=("images", "value", "interval", "seeds"))
    table, same = table.set_apart(("metric", "images", "seeds", "protocol", "source"))
    print_table(table)
    return "".join(f"; {name}: {value}" for name, value in same.items() if value)


def _write_csv(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(headers)
    writer.writerows(
        [
            ["" if value is None or isinstance(value, Missing) else escape_csv_cell(value) for value in row]
            for row in rows
        ]
    )


_MERGED = "+"  # behind approximation and usability together


def _print_risks(found: list[Summary], notes: Sequence[str], *, one_by_one: bool) -> None:
    """Prints one row per encoder, the meaning of marks, and the errata: one by one, or only how many."""
    headers = ["encoder", *(setting.name for setting in SETTINGS), "approx", "usability", "probe_gen", "enc_gen"]
    rows, protocols = [], mark_protocols(found)
    for summary in found:
        known = [summary.errors.get(setting.name) for setting in SETTINGS]
        errors = ["?" if error is None else format_points(error) for error in known]
        parts, components = summary.decomposition, ["?"] * 4
        if parts is not None:
            components[2:] = format_points(parts.probe_generalization), format_points(parts.encoder_generalization)
            if isinstance(parts.approximation, Missing) or isinstance(parts.usability, Missing):
                components[1] = format_points(parts.approximation_plus_usability) + _MERGED
            else:
                approximation = format_points(parts.approximation) + ASSUMED * parts.approximation_assumed
                components[:2] = approximation, format_points(parts.usability)
        by, parts_by = (protocols[one.protocol] if one else "" for one in (summary.campaign, summary.campaign_of_parts))
        errors = [text if text == "?" else text + by for text in errors]
        components = [text if text == "?" else text + parts_by for text in components]
        rows.append([summary.encoder + f" {WRONG}" * bool(summary.errata), *errors, *components])
    print_table(make_table(headers, rows, numbers=range(1, len(headers)), spare=headers[:5:-1]))
    marks = {
        ASSUMED: f"{ASSUMED}  assumed, not measured",
        _MERGED: f"{_MERGED}  approximation and usability together: not separable without a supervised twin",
        "?": "?  not measured",
    }
    legend = [words for mark, words in marks.items() if any(mark in cell for row in rows for cell in row[1:])]
    marked = [summary for summary in found if summary.errata]
    reasons = [line for summary in marked for line in list_distrust_notes(summary.encoder, summary.errata)]
    if marked and not one_by_one:
        reasons = [f"{WRONG}  {format_count(len(marked), 'encoder')} with errata; zoo show NAME --all says which"]
    units = "errors in percent by labels, components in percentage points"
    print_notes([*notes, units, *list_protocol_notes(protocols), *list_older_parts_notes(found), *reasons, *legend])
