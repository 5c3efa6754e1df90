"""What others measured, as verbs print it: a section of an encoder, tables of a data set, rows of a comparison."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import click

from ..cards.answers import make_column_table, make_table
from ..errors import UnknownName, format_count
from ..results import evidence
from ..results.facts import DOUBTFUL, format_points
from ..results.reported import reported_numbers
from ..results.reported_values import METRICS, PROTOCOLS, TOP_1, ReportedNumber
from ..results.values import OTHERS
from ..results.wording import describe_measurer, format_reported_interval
from .output import format_entry, format_list, is_verbose, print_notes, print_table, wrap_text

_SIZE = re.compile(r", \d+ training images$")  # end of a setting that says no more than which data set it is


def _words(metric: str) -> str:
    return "top-1 accuracy" if metric == TOP_1 else metric.replace("_", " ")


def _value(one: ReportedNumber) -> str:
    return format_points(one.value) + DOUBTFUL * bool(one.doubt)


def _doubts(numbers: Sequence[ReportedNumber]) -> list[str]:
    return [f"{DOUBTFUL}  doubtful: {doubt}" for doubt in dict.fromkeys(one.doubt for one in numbers) if doubt]


def _domain(dataset: str) -> str:
    return evidence.list_datasets()[dataset].domain if dataset in evidence.list_datasets() else "all"


def _place(dataset: str) -> int:
    order = [*evidence.list_datasets()]
    return order.index(dataset) if dataset in order else -1


def format_reported_entries(numbers: Sequence[ReportedNumber]) -> list[str]:
    """Lines of what others measured of one encoder: an entry for each origin, protocol and setting."""
    groups: dict[tuple[str, str, str, str], dict[str, ReportedNumber]] = {}
    for one in sorted(numbers, key=evidence.rank_preference):
        key = (
            one.protocol,
            evidence.find_origin(one),
            _SIZE.sub("", evidence.describe_origin_setting(one)),
            one.features,
        )
        groups.setdefault(key, {}).setdefault(one.dataset, one)
    lines = []
    for (protocol, origin, setting, features), found in groups.items():
        group = list(found.values())
        metrics = {one.metric for one in group}
        by_domain: dict[str, list[str]] = {}
        for one in sorted(group, key=lambda one: _place(one.dataset)):
            metric = f" ({_words(one.metric)})" if len(metrics) > 1 and one.metric != TOP_1 else ""
            by_domain.setdefault(_domain(one.dataset), []).append(f"{one.dataset} {_value(one)}{metric}")
        said = [
            setting,
            f"pooled otherwise: {features}" if features else "",
            "by the authors of the weights" if group[0].standing == "authors" else "",
            _words(group[0].metric) if len(metrics) == 1 and group[0].metric != TOP_1 else "",
            format_count(sum(one.dataset in evidence.list_datasets() for one in group), "data set"),
        ]
        values = "; ".join(f"{domain}: {', '.join(some)}" for domain, some in by_domain.items())
        text = f"{'; '.join(filter(None, said))}. {values[:1].upper()}{values[1:]}"
        doubts = "".join(f"; {DOUBTFUL} {doubt}" for doubt in dict.fromkeys(one.doubt for one in group) if doubt)
        lines += format_entry(f"{PROTOCOLS[protocol].short}, {evidence.get_origin_title(origin)}", text + doubts)
    return [*lines, *format_entry("every number", f"zoo results {numbers[0].encoder} --reported")]


def find_reported_on_dataset(name: str, wanted: Sequence[str]) -> list[ReportedNumber]:
    """What others measured on a data set in any spelling, of these encoders or all; nothing if nobody did."""
    try:
        numbers = evidence.find_numbers_on(name)
    except UnknownName:
        return []
    return [one for one in numbers if evidence.find_origin(one) and (not wanted or one.encoder in wanted)]


def select_best_blocks(numbers: Sequence[ReportedNumber], limit: int | None) -> list[ReportedNumber]:
    """The numbers of a data set by blocks, in each the best first, of at most so many encoders."""
    kept = []
    for block in evidence.group_numbers(numbers).values():
        encoders = list(dict.fromkeys(one.encoder for one in block))[:limit]
        kept += [one for one in block if one.encoder in encoders]
    return kept


def print_on_dataset(numbers: Sequence[ReportedNumber], limit: int | None) -> None:
    """Prints what others measured on a data set: a table for each origin, protocol and metric."""
    dataset = evidence.find_dataset(numbers[0].dataset)
    sizes = [(dataset.n_classes, "classes"), (dataset.n_images, "images")]
    facts = [dataset.domain, *(f"{n:,} {noun}" for n, noun in sizes if n is not None), dataset.metric]
    click.echo(click.style(wrap_text(f"Measured by others on {dataset.title}: {', '.join(facts)}"), bold=True))
    shown = select_best_blocks(numbers, limit)
    for (origin, protocol, metric), block in evidence.group_numbers(shown).items():
        columns = {
            "encoder": [one.encoder for one in block],
            "value": [_value(one) for one in block],
            "sd or interval": [format_reported_interval(one) for one in block],
            "setting": [evidence.describe_origin_setting(one) for one in block],
            "features": [one.features for one in block],
            "by": [describe_measurer(one) for one in block],
        }
        columns = {name: texts for name, texts in columns.items() if any(texts)}
        table, same = make_column_table(columns, numbers=("value", "sd or interval")).set_apart(("setting", "by"))
        better = "higher" if METRICS[metric].higher_is_better else "lower"
        head = f"{PROTOCOLS[protocol].short}, {evidence.get_origin_title(origin)}: {_words(metric)}, {block[0].unit}"
        click.echo("\n" + wrap_text("; ".join([f"{head}, {better} is better", *map(": ".join, same.items())])))
        print_table(table)
    encoders, n = {one.encoder for one in shown}, len({one.encoder for one in numbers})
    count = f"{len(encoders)} of " * (len(encoders) < n) + format_count(n, "encoder")
    notes = [f"{count} {OTHERS}; a table per protocol, which do not compare with each other"]
    for encoder in sorted(encoders):
        told = evidence.describe_disagreements(one for one in numbers if one.encoder == encoder)
        notes += [f"origins differ: {encoder}, {words}" for words in told.values()]
    notes += _doubts(shown)
    notes += ["features: pooled otherwise than the card's features"] * any(one.features for one in shown)
    contains = f"its training images are in the pretraining sets {', '.join(dataset.in_pretraining)}"
    notes += [contains] * bool(dataset.in_pretraining)
    said = sum(not evidence.find_origin(one) for one in evidence.find_numbers_on(dataset.id))
    count = format_count(said, "number")
    more = f"{count} more that authors and lists print: zoo results --reported --dataset {dataset.id}"
    print_notes([*notes, *[more] * bool(said)])


def find_shared_numbers(encoders: Sequence[str]) -> list[dict[str, Any]]:
    """What others measured of at least two of these encoders by one protocol, as records by data set."""
    found: dict[tuple[str, ...], dict[str, ReportedNumber]] = {}
    numbers = [one for encoder in encoders for one in reported_numbers(encoder) if evidence.find_origin(one)]
    for one in sorted(numbers, key=evidence.rank_preference):
        where = (one.dataset, _domain(one.dataset), evidence.find_origin(one))
        found.setdefault((*where, one.protocol, one.metric, evidence.describe_origin_setting(one)), {}).setdefault(
            one.encoder, one
        )
    names = ("dataset", "domain", "origin", "protocol", "metric", "setting", "numbers")
    rows = [dict(zip(names, (*key, some), strict=True)) for key, some in found.items() if len(some) > 1]
    return sorted(rows, key=lambda row: _place(row["dataset"]))


def build_shared_records(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The rows as JSON."""

    def short(one: ReportedNumber) -> dict[str, Any]:
        return {name: getattr(one, name) for name in ("value", "features", "doubt")}

    return [{**row, "numbers": {name: short(one) for name, one in row["numbers"].items()}} for row in rows]


def print_shared(rows: Sequence[Mapping[str, Any]], encoders: Sequence[str]) -> None:
    """Prints a row per data set and protocol; without --verbose only the first protocol of each data set."""
    first: dict[str, Mapping[str, Any]] = {}
    for row in rows:
        first.setdefault(row["dataset"], row)
    shown = rows if is_verbose() else list(first.values())
    table = []
    for row in shown:
        numbers: Mapping[str, ReportedNumber] = row["numbers"]
        metric = "" if row["metric"] == TOP_1 else f", {_words(row['metric'])}"
        how = f"{PROTOCOLS[row['protocol']].short}, {evidence.get_origin_title(row['origin'])}{metric}"
        cells = [_value(numbers[name]) if name in numbers else "?" for name in encoders]
        if len(encoders) == 2:
            difference = numbers[encoders[1]].value - numbers[encoders[0]].value
            cells.append("+" * (difference >= 0.05) + format_points(difference))
        table.append([row["dataset"], how, *cells])
    click.echo()
    heads = [OTHERS, "how", *encoders, *["difference"] * (len(encoders) == 2)]
    print_table(make_table(heads, table, numbers=range(2, len(heads))))
    used = [one for row in shown for one in row["numbers"].values()]
    pooled = dict.fromkeys(f"{one.encoder} ({one.features})" for one in used if one.features)
    notes = [f"{OTHERS}: percent, higher is better"]
    notes += [f"{format_count(len(rows) - len(shown), 'row')} of other protocols: --verbose"] * (len(shown) < len(rows))
    notes += [f"pooled otherwise than their cards: {format_list(list(pooled))}"] * bool(pooled)
    print_notes(notes + _doubts(used))
