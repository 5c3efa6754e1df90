"""``zoo results``: measurements of any data set, as one row an encoder, one line a number, CSV or JSON."""

from __future__ import annotations

import csv
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import click

from ..cards.catalogue import catalogue
from ..cards.finding import is_glob
from ..cards.schema import Missing
from ..errors import UnknownName, nearest_names
from ..results.derived import seed_means, summaries
from ..results.facts import DOUBTFUL, REPORTED, points
from ..results.reported import reported_numbers
from ..results.reported_values import COLUMNS as REPORTED_COLUMNS
from ..results.reported_values import ReportedNumber
from ..results.values import IMAGENET, SETTINGS, RiskDecomposition, SeedMean, Summary
from ..results.wording import (
    NEIGHBOURS,
    PROBE,
    how,
    interval,
    is_by_labels,
    kind,
    of_plain_protocols,
    origin,
    setting_name,
    shown_value,
)
from . import CommandWithVerbs, Verb
from .facts import ASSUMED, PART_HEADS, WRONG, but_of_experiments, distrust, in_families, named, risk_record
from .options import (
    dataset_names,
    encoder_names,
    exclude_wrong_option,
    family_option,
    measured_metrics,
    only_limit_option,
    refuse_idle,
)
from .output import NothingFound, counted, fits, json_option, print_json, print_notes, print_table

if TYPE_CHECKING:
    from ..results.rows import Measurement

Column = tuple[str, str]  # metric, split


def selected(
    rows: Iterable[Any], *, metrics: Sequence[str], protocols: Sequence[str], settings: Sequence[str]
) -> list[Any]:
    """Rows that every given option keeps; names may be globs. If an option keeps none, NothingFound has the nearest."""
    found = list(rows)
    asked: list[tuple[str, Sequence[str], Callable[[Any], tuple[str, ...]]]] = [
        ("metric", metrics, lambda row: (row.metric,)),
        ("protocol", protocols, lambda row: (row.protocol,)),
        ("setting", settings, lambda row: (setting_name(row.split), row.split)),
    ]
    for what, wanted, names in asked:
        known = list(dict.fromkeys(name for row in found for name in names(row)[:1]))
        for one in wanted:
            if not any(_is_like(name, one) for row in found for name in names(row)):
                near, all_of_them = nearest_names(one, known), ", ".join(known[:8]) + (", ..." if known[8:] else "")
                hint = f"did you mean {' or '.join(near)}?" if near else f"there are {all_of_them}."
                raise NothingFound(f"No row of these has a {what} like {one!r}; {hint}")
        if wanted:
            found = [row for row in found if any(_is_like(name, one) for name in names(row) for one in wanted)]
    return found


def _is_like(name: str, pattern: str) -> bool:
    """True if the name matches; a pattern without a wild card is the name itself, because protocols hold brackets."""
    return name.casefold() == pattern.casefold() or fnmatchcase(name.casefold(), pattern.casefold())


def usual(means: Sequence[SeedMean]) -> list[SeedMean]:
    """Errors by labels and of nearest neighbours, and components of the error; everything if there are none."""
    found = [
        mean
        for mean in means
        if (mean.metric == PROBE and is_by_labels(mean.split)) or mean.metric in (NEIGHBOURS, *PART_HEADS)
    ]
    if any(mean.metric == "usability" for mean in found):  # then the sum says nothing new
        known = {(mean.encoder, mean.source) for mean in found if mean.metric == "usability"}
        sums = [mean for mean in found if mean.metric == "approximation_plus_usability"]
        if all((mean.encoder, mean.source) in known for mean in sums):
            found = [mean for mean in found if mean not in sums]
    return found or list(means)


class Pivot:
    """A table with one row an encoder, or one for each of its sources; the best in the first column comes first."""

    def __init__(self, means: Sequence[SeedMean], metrics: Sequence[str] = ()) -> None:
        from ..results.vocabulary import FEATURE_METRICS

        self.columns = _columns(means)
        self.columns.sort(key=lambda column: metrics.index(column[0]) if column[0] in metrics else len(metrics))
        self.sources = list(dict.fromkeys(mean.source for mean in means))
        self.cells: dict[tuple[str, str], dict[Column, SeedMean]] = {}
        for mean in means:
            self.cells.setdefault((mean.encoder, mean.source), {})[mean.metric, mean.split] = mean
        self.means = means
        first = self.columns[0]
        free = FEATURE_METRICS.get(first[0])
        sign = -1 if free is not None and free.higher_is_better else 1  # all others are errors and their parts
        known = [key for key, row in self.cells.items() if first in row]
        self.rows = sorted(known, key=lambda key: sign * self.cells[key][first].value)
        self.rows += [key for key in self.cells if first not in self.cells[key]]

    def headers(self, columns: Sequence[Column] | None = None) -> list[str]:
        """Names of columns: settings if there is one metric, else metrics, with the setting if it varies."""
        columns = self.columns if columns is None else columns
        metrics = {metric for metric, _ in columns}
        n_splits = Counter(metric for metric, _ in columns)
        heads = []
        for metric, split in columns:
            setting = setting_name(split)
            if len(metrics) == 1 or metric == PROBE:
                heads.append(setting)
            else:
                name = "k-NN" if metric == NEIGHBOURS else PART_HEADS.get(metric, metric)
                heads.append(f"{name} {setting}" if n_splits[metric] > 1 else name)
        return ["encoder", *heads, *["source"] * (len(self.sources) > 1)]

    def values(self) -> list[list[Any]]:
        """One list a row: the encoder, a number or None for each column, and the source if there are several."""
        return [
            [key[0], *(getattr(self.cells[key].get(column), "value", None) for column in self.columns)]
            + [key[1]] * (len(self.sources) > 1)
            for key in self.rows
        ]

    def print(self) -> list[str]:
        """Prints the table, without components where they do not fit; returns the names of the columns left out."""
        errors = [column for column in self.columns if column[0] not in (NEIGHBOURS, *PART_HEADS)]
        for columns in (self.columns, errors):
            heads = self.headers(columns)
            table = [
                [key[0], *(_cell(self.cells[key].get(column)) for column in columns)]
                + [key[1]] * (len(self.sources) > 1)
                for key in self.rows
            ]
            if fits(heads, table):
                break
        print_table(heads, table, right=range(1, len(columns) + 1))
        return [name for name in self.headers() if name not in heads]


def _cell(mean: SeedMean | None) -> str:
    return "?" if mean is None else shown_value(mean.value, mean)


def _columns(means: Sequence[SeedMean]) -> list[Column]:
    """Errors of probes by falling numbers of labels, then the other metrics in their order, each metric together."""
    first: dict[str, int] = {PROBE: -2, NEIGHBOURS: -1, **dict.fromkeys(PART_HEADS, 0)}
    parts = [*PART_HEADS]
    found: dict[Column, int] = {}
    for mean in means:
        column = (mean.metric, mean.split)
        found[column] = max(found.get(column, 0), mean.n_train or 0)
    order = {metric: position for position, metric in enumerate(dict.fromkeys(metric for metric, _ in found), start=1)}

    def key(column: Column) -> tuple[int, int, int]:
        metric = column[0]
        place = parts.index(metric) if metric in parts else order[metric]
        return first.get(metric, 1), place, -found[column]

    return sorted(found, key=key)


def left_out_note(shown: Sequence[SeedMean], among: Sequence[SeedMean]) -> list[str]:
    """Notes on measurements that the table leaves out."""
    there = {(mean.metric, mean.protocol) for mean in shown}
    metrics = {metric for metric, _ in there}
    others = dict.fromkeys(mean.metric for mean in among if mean.metric not in metrics)
    notes = []
    if others:
        notes.append(f"also measured: {', '.join(others)}; --metric NAME shows one, --metric '*' all")
    variants = dict.fromkeys(
        mean.protocol for mean in among if mean.metric in metrics and (mean.metric, mean.protocol) not in there
    )
    if variants:
        notes.append(
            f"other protocols, which --protocol shows: {', '.join([*variants][:3])}{', ...' * (len(variants) > 3)}"
        )
    splits = {(mean.metric, mean.split) for mean in shown}
    rest = dict.fromkeys(
        setting_name(mean.split)
        for mean in among
        if (mean.metric, mean.protocol) in there and (mean.metric, mean.split) not in splits
    )
    if rest:
        notes.append(f"other settings, which --setting shows: {', '.join(rest)}")
    return notes


def print_long(means: Sequence[SeedMean]) -> list[str]:
    """Prints a line a number; returns the facts that are the same for all, which get no column."""
    columns: dict[str, list[str]] = {
        "encoder": [mean.encoder for mean in means],
        "metric": [mean.metric for mean in means],
        "setting": [setting_name(mean.split) for mean in means],
        "images": ["" if mean.n_train is None else f"{mean.n_train:,}" for mean in means],
        "value": [shown_value(mean.value, mean) for mean in means],
        "interval": [interval(mean) for mean in means],
        "seeds": [str(mean.n_seeds) for mean in means],
        "protocol": [mean.protocol for mean in means],
        "source": [mean.source for mean in means],
    }
    said = ("metric", "images", "seeds", "protocol", "source")
    same = [name for name in said if len({*columns[name]}) == 1]
    heads = [name for name in columns if name not in same]
    numbers = [position for position, name in enumerate(heads) if name in ("images", "value", "interval", "seeds")]
    print_table(heads, list(zip(*(columns[name] for name in heads), strict=True)), right=numbers)
    lines = [f"{name}: {columns[name][0]}" for name in same if columns[name][0]]
    return [", ".join(lines), "interval: of one seed the 95 % interval, of several the smallest and largest value"]


MERGED = "+"  # behind approximation and usability together
COMPONENT_HEADERS = ("approx", "usability", "probe_gen", "enc_gen")


def component_cells(decomposition: RiskDecomposition | None) -> list[str]:
    """The four components as cells; without a supervised twin the second holds the sum of the first two."""
    if decomposition is None:
        return ["?"] * 4
    approximation, usability = decomposition.approximation, decomposition.usability
    if isinstance(approximation, Missing) or isinstance(usability, Missing):
        first = ["?", f"{points(decomposition.approximation_plus_usability)}{MERGED}"]
    else:
        mark = ASSUMED if decomposition.approximation_assumed else ""
        first = [f"{points(approximation)}{mark}", f"{points(usability)}"]
    rest = (decomposition.probe_generalization, decomposition.encoder_generalization)
    return [*first, *(points(part) for part in rest)]


def legend(summaries: list[Summary]) -> list[str]:
    """Meaning of the marks in the rows of these encoders."""
    parts = [summary.decomposition for summary in summaries]
    lines = []
    if any(part is not None and part.approximation_assumed for part in parts):
        lines.append(f"{ASSUMED}  assumed, not measured")
    if any(part is not None and isinstance(part.approximation, Missing) for part in parts):
        lines.append(f"{MERGED}  approximation and usability together: no supervised twin tells them apart")
    if any(part is None or len(summary.errors) < len(SETTINGS) for part, summary in zip(parts, summaries, strict=True)):
        lines.append("?  not measured")
    return lines


_EPILOG = """\b
Examples:
  zoo results dino_vitS16 mae_vitB16
  zoo results 'dino_*' --exclude-wrong --json
  zoo results --dataset shapes
  zoo results 'pocket_*' --dataset shapes --metric lidar,rankme --limit 5
  zoo results --dataset digits --metric transfer_error --csv
  zoo results pocket_mae_vit_shapes --dataset shapes --setting 5-shot --long
  zoo results 'dino*' --reported --protocol reported-linear
  zoo results merge ../their-results s3://bucket/run
"""


def _listed(ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> list[str]:
    return [part.strip() for value in values for part in value.split(",") if part.strip()]


VERBS = {
    "merge": Verb("sharing", "Add the rows of other people or machines to yours."),
    "check": Verb("sharing", "Check rows and their provenance, and measure some again."),
}


@click.command("results", cls=CommandWithVerbs, verbs=VERBS, epilog=_EPILOG)
@click.argument("names", nargs=-1, shell_complete=encoder_names)
@family_option
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
@only_limit_option
@click.option("--long", "is_long", is_flag=True, help="One line a number, with interval, protocol and source.")
@click.option("--csv", "as_csv", is_flag=True, help="Print comma-separated values instead of a table.")
@click.option(
    "--reported", "is_reported", is_flag=True, help="What others reported, in place of what was measured: never both."
)
@exclude_wrong_option
@json_option
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

    Errors of linear probes on ImageNet-1K, or another data set, in percent, by the labels the probe had. The components
    are in percentage points, signed, and sum to the error with 100%. NAMES are ids of encoders or globs; without any,
    all that were measured, but those of an experiment, which NAMES or --family ask for (such as "randomised"). Of
    encoders that were not measured on ImageNet-1K, the data set is shown on which most of them were. Means over seeds;
    --json and --long --csv have the rows one by one. Numbers that somebody reported, by protocols of their own, are
    shown by --reported alone.
    """
    if as_csv and as_json:
        raise click.UsageError("Got --csv and --json, expected one of them.")
    cards = catalogue()
    ids = [encoder for name in names for encoder in (named([name], cards) if is_glob(name) else [cards.id_of(name)])]
    wanted = list(dict.fromkeys(ids))
    if families:
        kept = in_families(families)
        wanted = [encoder for encoder in (wanted if names else cards.with_unlisted) if encoder in kept]
        if not wanted:
            raise NothingFound(f"None of {_few(ids)} is of the family {' or '.join(families)}.")
    if is_reported:
        refuse_idle(("settings", "is_long", "exclude_wrong"), "--reported prints one line a number as it is printed")
        found_reported = _reported(wanted, dataset, asked)
        first = list(dict.fromkeys(one.encoder for one in found_reported))[:limit]
        _print_reported([one for one in found_reported if one.encoder in first], as_csv=as_csv, as_json=as_json)
        return
    elsewhere = _datasets(wanted) if dataset is None and wanted and not summaries(encoders=wanted) else []
    if IMAGENET in elsewhere:
        elsewhere = []
    if dataset is not None or any(asked.values()) or is_long or elsewhere:
        from ..results.rows import measurements  # which the table of risks does without

        dataset = dataset or next(iter(elsewhere), IMAGENET)
        rows = measurements(exclude_wrong=exclude_wrong, encoders=wanted or None)
        _print_rows(dataset, wanted, rows, asked, limit=limit, is_long=is_long, as_csv=as_csv, as_json=as_json)
        if elsewhere:
            others = f"; --dataset NAME shows them on {', '.join(elsewhere[1:])}" if elsewhere[1:] else ""
            print_notes([f"nothing was measured of them on ImageNet-1K{others}"])
        return
    known = summaries(exclude_wrong=exclude_wrong, encoders=wanted or None)
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
        print_notes([f"not measured: {_few(without)}{_elsewhere(without)}{_by_others(without)}"])
    if not found:
        left = " once the wrong measurements are left out" if exclude_wrong else ""
        hint = (_elsewhere(without) or "; name another data set by --dataset") + _by_others(without)
        raise NothingFound(
            f"Nothing was measured of {_few(without)} on ImageNet-1K{left}{hint}."
            if without
            else "There are no results."
        )


def _few(encoders: Sequence[str]) -> str:
    """Names of encoders; of many, the first three and how many more."""
    return ", ".join(encoders) if len(encoders) <= 5 else f"{', '.join(encoders[:3])} and {len(encoders) - 3} more"


def _datasets(encoders: Sequence[str]) -> list[str]:
    """Data sets on which these encoders were measured, that of most of them first."""
    pairs = dict.fromkeys((mean.dataset, mean.encoder) for mean in seed_means(encoders))
    return [dataset for dataset, _ in Counter(dataset for dataset, _ in pairs).most_common()]


def _elsewhere(encoders: Sequence[str]) -> str:
    """Other data sets on which they were measured, as the end of a sentence."""
    datasets = _datasets(encoders)
    return f", but on {', '.join(datasets)}; see --dataset" if datasets else ""


def _by_others(encoders: Sequence[str]) -> str:
    """How many numbers of them somebody reported, as the end of a sentence."""
    n = sum(one.encoder in encoders for one in reported_numbers())
    return f"; others reported {n} number{'s' * (n != 1)}, see --reported" if n else ""


def _reported(wanted: Sequence[str], dataset: str | None, asked: Mapping[str, Sequence[str]]) -> list[ReportedNumber]:
    """The reported numbers of these encoders, or all, on that data set, or any."""
    numbers = [one for one in reported_numbers() if not wanted or one.encoder in wanted]
    if not numbers:
        raise NothingFound(f"Nothing was reported of {_few(wanted)}.")
    datasets = {one.dataset.casefold(): one.dataset for one in numbers}
    if dataset is not None:
        if dataset.casefold() not in datasets:
            raise UnknownName("data set with reported numbers", dataset, datasets.values())
        numbers = [one for one in numbers if one.dataset.casefold() == dataset.casefold()]
    return selected(numbers, metrics=asked["metrics"], protocols=asked["protocols"], settings=())


def _print_reported(numbers: Sequence[ReportedNumber], *, as_csv: bool, as_json: bool) -> None:
    """A line a number, as it is printed in its source; as JSON or CSV with all columns of the file."""
    if as_json:
        print_json({"reported": [asdict(one) for one in numbers]})
        return
    if as_csv:
        _write_csv(
            REPORTED_COLUMNS,
            [[one.printed if name == "value" else getattr(one, name) for name in REPORTED_COLUMNS] for one in numbers],
        )
        return
    rows = [
        [
            one.encoder,
            ", ".join(text for text in (kind(one), how(one)) if text),
            one.metric,
            one.dataset,
            one.printed + (DOUBTFUL if one.doubt else REPORTED),
            one.unit,
            origin(one),
        ]
        for one in numbers
    ]
    print_table(["encoder", "how", "metric", "dataset", "value", "unit", "by"], rows, right=[4])
    counts = f"{counted(len(numbers), 'number')} of {counted(len({one.encoder for one in numbers}), 'encoder')}"
    notes = [f"{counts}, as printed in their sources    {REPORTED}  reported: not measured here"]
    print_notes(notes + [f"{DOUBTFUL}  doubtful, for the reason beside it"] * any(one.doubt for one in numbers))


def _print_rows(
    dataset: str,
    wanted: Sequence[str],
    rows: Sequence[Measurement],
    asked: Mapping[str, Sequence[str]],
    *,
    limit: int | None,
    is_long: bool,
    as_csv: bool,
    as_json: bool,
) -> None:
    """Prints the rows of a data set that match metrics, protocols and settings: a pivot, a line each, CSV or JSON."""
    from ..results.rows import means_over_seeds
    from ..results.vocabulary import COLUMNS

    metrics, protocols, settings = asked["metrics"], asked["protocols"], asked["settings"]
    there = [row for row in rows if row.dataset == dataset]
    if not there:
        cards = catalogue()
        everywhere = [*seed_means(), *seed_means(cards.with_unlisted)]
        unasked = {mean.encoder for mean in everywhere if mean.dataset == dataset and not cards.lists(mean.encoder)}
        if not wanted and unasked:
            raise NothingFound(f"No encoder was measured on {dataset} {but_of_experiments(unasked)}")
        known = list(dict.fromkeys([IMAGENET, *(mean.dataset for mean in everywhere)]))
        if dataset not in known:
            raise UnknownName("data set with measurements", dataset, known, hint=f"There are {', '.join(known)}.")
        raise NothingFound(f"Nothing was measured of {_few(wanted)} on {dataset}.")
    found = selected(there, metrics=metrics, protocols=protocols, settings=settings)
    encoders = list(dict.fromkeys(row.encoder for row in found))
    means = means_over_seeds(found)
    if metrics or protocols or settings:
        shown = means if protocols and is_long else of_plain_protocols(means)
        if settings and not metrics:
            shown = [mean for mean in shown if mean.metric == PROBE] or shown
    else:
        shown = [mean for mean in usual(of_plain_protocols(means)) if dataset != IMAGENET or mean.metric == PROBE]
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
    count = counted(len(kept), "encoder")
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
    """Prints one row an encoder, the meaning of marks, and the errata: one by one, or only how many."""
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
