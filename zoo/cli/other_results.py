"""Measured quantities of any data set, as the verbs show them: one row an encoder, a line each, or a section each."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Any

import click

from ..errors import UnknownName, nearest_names
from ..results import SETTINGS, SeedMean
from .facts import points
from .output import NothingFound, entry, print_table, width, wrapped

PROBE, NEIGHBOURS = "linear_probe_error", "knn_error"
_PARTS = {  # metric -> head of its column
    "approximation": "approx",
    "usability": "usability",
    "approximation_plus_usability": "approx+usab.",
    "probe_generalization": "probe_gen",
    "encoder_generalization": "enc_gen",
}
_SETTING_OF = {setting.split: setting.name for setting in SETTINGS}
_TRAINED = re.compile(r"train (.+) -> val")
_SMALLEST = 2e-4  # below which decimals would hide the value

Column = tuple[str, str]  # metric, split


def setting_name(split: str) -> str:
    """What a probe was trained on, in short.

    >>> [setting_name(split) for split in ("train -> val", "train 1% -> val", "train 20 images -> val", "val")]
    ['100%', '1%', '20 images', 'val']
    """
    found = _TRAINED.fullmatch(split)
    return _SETTING_OF.get(split) or (found[1] if found and found[1] != "plus val" else split)


def selected(
    rows: Iterable[Any], *, metrics: Sequence[str], protocols: Sequence[str], settings: Sequence[str]
) -> list[Any]:
    """The rows that every given option keeps; names of metrics and protocols may be globs.

    Raises
    ------
    NothingFound
        If an option keeps nothing; names what is nearest.
    """
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
    """Protocols hold brackets, so that a pattern without a wild card is the name itself."""
    return name.casefold() == pattern.casefold() or fnmatchcase(name.casefold(), pattern.casefold())


def plain(means: Sequence[SeedMean]) -> list[SeedMean]:
    """Of each metric the protocol that most encoders have, of equal ones the shortest: the plain one."""
    counts: dict[str, dict[str, set[str]]] = {}
    for mean in means:
        counts.setdefault(mean.metric, {}).setdefault(mean.protocol, set()).add(mean.encoder)
    chosen = {
        metric: min(protocols, key=lambda name: (name.count("("), -len(protocols[name]), len(name), name))
        for metric, protocols in counts.items()
    }
    return [mean for mean in means if mean.protocol == chosen[mean.metric]]


def usual(means: Sequence[SeedMean]) -> list[SeedMean]:
    """Errors by labels, of nearest neighbours and the parts of the full-shot error; all of them if there is none."""
    found = [
        mean
        for mean in means
        if (mean.metric == PROBE and is_by_labels(mean.split)) or mean.metric in (NEIGHBOURS, *_PARTS)
    ]
    if any(mean.metric == "usability" for mean in found):  # then the sum says nothing new
        known = {(mean.encoder, mean.source) for mean in found if mean.metric == "usability"}
        sums = [mean for mean in found if mean.metric == "approximation_plus_usability"]
        if all((mean.encoder, mean.source) in known for mean in sums):
            found = [mean for mean in found if mean not in sums]
    return found or list(means)


class Pivot:
    """A table with one row an encoder, or one each of its sources where they differ, best in the first column first."""

    def __init__(self, means: Sequence[SeedMean], metrics: Sequence[str] = ()) -> None:
        from ..labelfree import LABEL_FREE_METRICS

        self.columns = _columns(means)
        self.columns.sort(key=lambda column: metrics.index(column[0]) if column[0] in metrics else len(metrics))
        self.sources = list(dict.fromkeys(mean.source for mean in means))
        self.cells: dict[tuple[str, str], dict[Column, SeedMean]] = {}
        for mean in means:
            self.cells.setdefault((mean.encoder, mean.source), {})[mean.metric, mean.split] = mean
        self.means = means
        first = self.columns[0]
        free = LABEL_FREE_METRICS.get(first[0])
        sign = -1 if free is not None and free.higher_is_better else 1  # all others are errors and their parts
        known = [key for key, row in self.cells.items() if first in row]
        self.rows = sorted(known, key=lambda key: sign * self.cells[key][first].value)
        self.rows += [key for key in self.cells if first not in self.cells[key]]

    def headers(self, columns: Sequence[Column] | None = None) -> list[str]:
        """Names of the columns: settings where there is one metric, else metrics, with the setting if it varies."""
        columns = self.columns if columns is None else columns
        metrics = {metric for metric, _ in columns}
        n_splits = Counter(metric for metric, _ in columns)
        heads = []
        for metric, split in columns:
            setting = setting_name(split)
            if len(metrics) == 1 or metric == PROBE:
                heads.append(setting)
            else:
                name = "k-NN" if metric == NEIGHBOURS else _PARTS.get(metric, metric)
                heads.append(f"{name} {setting}" if n_splits[metric] > 1 else name)
        return ["encoder", *heads, *["source"] * (len(self.sources) > 1)]

    def values(self) -> list[list[Any]]:
        """One list a row: the encoder, a number or None a column, and the source where there are several."""
        return [
            [key[0], *(getattr(self.cells[key].get(column), "value", None) for column in self.columns)]
            + [key[1]] * (len(self.sources) > 1)
            for key in self.rows
        ]

    def print(self) -> list[str]:
        """The table, without the parts of the error where they do not fit; returns the names of what was left out."""
        from .terminal import layout  # with prettytable, which only tables need

        for columns in (self.columns, [column for column in self.columns if column[0] not in (NEIGHBOURS, *_PARTS)]):
            heads, right = self.headers(columns), range(1, len(columns) + 1)
            table = [
                [key[0], *(_cell(self.cells[key].get(column)) for column in columns)]
                + [key[1]] * (len(self.sources) > 1)
                for key in self.rows
            ]
            chosen = layout(heads, table, right, width=width())
            longest = max(len(row[0]) for row in table)
            if chosen is not None and chosen.widths[0] >= longest:
                break
        print_table(heads, table, right=right)
        return [name for name in self.headers() if name not in heads]


def _cell(mean: SeedMean | None) -> str:
    return "?" if mean is None else shown_value(mean.value, mean)


def shown_value(value: float, mean: SeedMean) -> str:
    """A value in the unit of that quantity."""
    return points(value) if mean.unit.startswith("percent") else number(value)


def _columns(means: Sequence[SeedMean]) -> list[Column]:
    """Errors of probes by falling numbers of labels, then the others as they come, each metric together."""
    first: dict[str, int] = {PROBE: -2, NEIGHBOURS: -1, **dict.fromkeys(_PARTS, 0)}
    parts = [*_PARTS]
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


def number(value: float) -> str:
    """A value with about three digits that say something.

    >>> [number(value) for value in (24.56, 0.0321, -0.391, 1346.0)]
    ['24.6', '0.032', '-0.39', '1346']
    """
    if abs(value) >= 1000:
        return f"{value:.0f}"
    if abs(value) >= 1 or abs(value) < _SMALLEST:
        return points(value)
    return f"{value:.2f}" if abs(value) >= 0.1 else f"{value:.3f}"


def left_out_note(shown: Sequence[SeedMean], among: Sequence[SeedMean]) -> list[str]:
    """What was measured there and is not in the table."""
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


def interval(mean: SeedMean) -> str:
    """The interval of one seed, or the range of several."""
    if mean.low is None or mean.high is None:
        return ""
    return f"{shown_value(mean.low, mean)} to {shown_value(mean.high, mean)}"


def print_long(means: Sequence[SeedMean]) -> list[str]:
    """A line each; returns what is the same for all of them, which needs no column."""
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


def _with_interval(mean: SeedMean) -> str:
    if mean.low is None:
        return shown_value(mean.value, mean)
    of = "" if mean.n_seeds == 1 else f", {mean.n_seeds} seeds"
    return f"{shown_value(mean.value, mean)} ({interval(mean)}{of})"


def section_lines(means: Sequence[SeedMean]) -> list[str]:
    """A short section on what one source measured on one data set: errors, their parts, label-free metrics, curves."""
    dataset, encoder = means[0].dataset, means[0].encoder
    shown = plain(means)
    title = f"Measured on {dataset} by the source {means[0].source!r} (errors in percent, lower is better)"
    lines = ["", click.style(wrapped(title), bold=True)]
    errors, parts, others, curves = [], [], [], dict[str, list[SeedMean]]()
    for mean in sorted(shown, key=lambda mean: -(mean.n_train or 0)):
        if mean.split.endswith(" images -> val"):
            curves.setdefault(mean.metric, []).append(mean)
        elif mean.metric in _PARTS:
            parts.append(mean)
        elif mean.metric in (PROBE, NEIGHBOURS):
            if is_by_labels(mean.split):  # the others are raw risks, which the parts hold
                errors.append(mean)
        else:
            others.append(mean)
    for mean in sorted(errors, key=lambda mean: mean.metric == NEIGHBOURS):
        images = "" if mean.n_train is None else f" ({mean.n_train:,} images)"
        kind = "k-NN, " if mean.metric == NEIGHBOURS else ""
        lines += entry(f"{kind}{setting_name(mean.split)}{images}", _with_interval(mean))
    for mean in sorted(parts, key=lambda mean: [*_PARTS].index(mean.metric)):
        lines += entry(mean.metric.replace("_", " "), f"{shown_value(mean.value, mean)} points")
    for metric, own in curves.items():
        text = ", ".join(f"{mean.n_train:,}: {shown_value(mean.value, mean)}" for mean in own[::-1])
        lines += entry(f"{metric.replace('_', ' ')} by images", text)
    if others:
        lines += entry("others", ", ".join(f"{mean.metric} {shown_value(mean.value, mean)}" for mean in others))
    lines += entry("protocols", ", ".join(dict.fromkeys(mean.protocol for mean in shown)))
    if len(means) > len(shown):
        hint = f"zoo results {encoder} --dataset {dataset} --metric '*' --long"
        lines += entry("of other protocols", f"{len(means) - len(shown)} more: {hint}")
    return lines


def is_by_labels(split: str) -> bool:
    """True if probes with such a number of labels were tested on validation images."""
    return split == "train -> val" or (
        _TRAINED.fullmatch(split) is not None and "subset" not in split and "plus val" not in split
    )


def require_dataset(dataset: str, known: Iterable[str]) -> None:
    """Refuse a name under which nothing was measured."""
    names = list(dict.fromkeys(known))
    if dataset not in names:
        raise UnknownName("data set with measurements", dataset, names, hint=f"There are {', '.join(names)}.")
