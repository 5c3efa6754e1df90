"""``datasets/``: a page for each data set on which others measured encoders, and a list of them by domain.

Numbers of one protocol of one origin stand in a table, the best first: these can be compared. What the authors of
encoders report of the data set, by recipes of their own, and what the zoo measured stand in tables of their own.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, Any

from ..cards.schema import format_fact
from ..results.evidence import (
    Dataset,
    describe_origin_setting,
    find_contradictions,
    find_dataset_id,
    find_origin,
    get_origin_title,
    group_numbers,
    list_datasets,
    read_evidence_origins,
)
from ..results.facts import DOUBTFUL, REPORTED, format_points, format_short_number
from ..results.reported_values import METRICS, PROTOCOLS, ReportedNumber
from ..results.values import IMAGENET, PROJECT, SETTINGS, STUDY, Summary
from ..results.wording import (
    describe_measurer,
    describe_protocol_details,
    describe_protocol_kind,
    format_reported_interval,
)
from ..weights.locations import strip_url_keys
from .contents import OTHER, Contents, SiteEntry, rank_training_modes
from .drawing import Axis, Fill, PlotPoint, build_element, draw_scatter, split_name
from .encoder_facts import Text
from .encoder_results import ResultTable, make_table
from .first_page import format_words
from .rendering import File, SiteRenderer, get_dataset_page

if TYPE_CHECKING:
    from markupsafe import Markup

PAGE = "datasets/index.html"
FEWEST_DRAWN = 5
"""Encoders from which a protocol has a figure."""


def describe_metric(metric: str) -> str:
    """A metric as a heading: ``top1_accuracy`` is just accuracy."""
    return metric.removeprefix("top1_").replace("_", " ").replace(" at ", "@")


def group_by_protocol(numbers: Iterable[ReportedNumber]) -> dict[tuple[str, str], list[ReportedNumber]]:
    """Numbers of origins by protocol and origin; on each data set the main metric, the best first, then others."""
    found: dict[tuple[str, str], list[ReportedNumber]] = {}
    for (origin, protocol, _), some in group_numbers(filter(find_origin, numbers)).items():
        found.setdefault((protocol, origin), []).extend(some)
    return found


@dataclass(frozen=True)
class MeasuredDataset:
    """Everything that is known of one data set."""

    dataset: Dataset
    numbers: Sequence[ReportedNumber]
    here: Mapping[str, Summary]  # by encoder

    @cached_property
    def groups(self) -> dict[tuple[str, str], list[ReportedNumber]]:
        """Numbers of origins, by protocol and origin."""
        return group_by_protocol(self.numbers)

    @cached_property
    def n_encoders(self) -> int:
        """Encoders that others measured."""
        return len({one.encoder for numbers in self.groups.values() for one in numbers})

    @property
    def metric(self) -> str:
        """What is reported of it, with origins by their titles."""
        return re.sub(
            "|".join(rf"\b{name}\b" for name in read_evidence_origins()),
            lambda found: get_origin_title(found[0]),
            self.dataset.metric,
        )

    @property
    def how(self) -> str:
        """By how many protocols: "few-shot (28), zero-shot (102)"."""
        counts: defaultdict[str, set[str]] = defaultdict(set)
        for (protocol, _), numbers in self.groups.items():
            counts[PROTOCOLS[protocol].short].update(one.encoder for one in numbers)
        return ", ".join(f"{name} ({len(encoders)})" for name, encoders in counts.items())


def find_measured_sets(contents: Contents) -> dict[str, MeasuredDataset]:
    """The data sets on which encoders of a site were measured by others, by id."""
    numbers: defaultdict[str, list[ReportedNumber]] = defaultdict(list)
    here: defaultdict[str, dict[str, Summary]] = defaultdict(dict)
    for entry in contents.entries.values():
        for one in entry.reported:
            numbers[find_dataset_id(one.dataset) or ""].append(one)
        own = entry.elsewhere if entry.right is None else {IMAGENET: entry.right, **entry.elsewhere}
        for name, summary in own.items():
            if summary.errors:
                here[find_dataset_id(name) or ""][entry.id] = summary
    found = {name: MeasuredDataset(one, numbers[name], here[name]) for name, one in list_datasets().items()}
    return {name: one for name, one in found.items() if one.groups}


def build_files(contents: Contents, renderer: SiteRenderer) -> Iterator[File]:
    """The list, and a page per data set."""
    known, pages = find_measured_sets(contents), _Pages(contents)
    domains: dict[str, list[MeasuredDataset]] = {}
    for one in known.values():
        domains.setdefault(one.dataset.domain, []).append(one)
    yield renderer.page(
        "datasets.html.jinja",
        PAGE,
        title="Data sets",
        kind="datasets",
        domains=list(domains.items()),
        n_datasets=len(known),
        n_encoders=len({one.encoder for some in known.values() for both in some.groups.values() for one in both}),
        origins=read_evidence_origins(),
    )
    for name, one in known.items():
        yield renderer.page(
            "dataset.html.jinja",
            get_dataset_page(name),
            title=one.dataset.title,
            kind="dataset",
            one=one,
            groups=[pages.group(one, *key) for key in one.groups],
            n_contradicted=len({encoder for encoder, dataset, _ in pages.others if dataset == name}),
            here=pages.here(one),
            by=STUDY if one.dataset.id == IMAGENET else PROJECT,
            stated=pages.stated(one),
        )


def tabulate_by_others(entry: SiteEntry) -> dict[str, Any] | None:
    """What others measured of an encoder, a row per data set and a column per protocol of an origin; None without any.

    ``heads`` are kind of protocol and origin; rows by domain have page or "", title and cells.
    """
    columns = group_by_protocol(entry.reported)
    titles = {name: (one.domain, get_dataset_page(name), one.title) for name, one in list_datasets().items()}
    numbers: defaultdict[tuple[str, str, str], dict[tuple[str, str], list[ReportedNumber]]] = defaultdict(dict)
    for key, some in columns.items():
        for one in some:
            row = titles.get(find_dataset_id(one.dataset) or "", ("means", "", f"mean of {one.dataset}"))
            numbers[row].setdefault(key, []).append(one)
    domains_in_order = [*dict.fromkeys(domain for domain, _, _ in titles.values()), "means"]
    rows = sorted(numbers, key=lambda row: domains_in_order.index(row[0]))  # within a domain as origins have them
    domains = [
        (
            domain,
            [
                (page, title, [format_reported_numbers(numbers[_, page, title].get(key, ())) for key in columns])
                for _, page, title in some
            ],
        )
        for domain, some in groupby(rows, key=lambda row: row[0])
    ]
    heads = [(PROTOCOLS[protocol].short, get_origin_title(origin)) for protocol, origin in columns]
    n_datasets = sum(page != "" for _, page, _ in rows)
    return {"heads": heads, "domains": domains, "n_datasets": n_datasets} if rows else None


def format_reported_numbers(numbers: Sequence[ReportedNumber]) -> str:
    """Numbers of one encoder, data set and protocol, by its main metric; several where settings differ."""
    return ", ".join(
        dict.fromkeys(
            format_points(one.value)
            + ("" if one.sd is None else f" ± {format_points(one.sd)}")
            + DOUBTFUL * bool(one.doubt)
            for one in numbers
            if one.metric == numbers[0].metric
        )
    )


class _Pages:
    """What pages of data sets share: encoders, their colours, and which numbers others contradict."""

    def __init__(self, contents: Contents) -> None:
        self.entries = contents.entries
        self.modes = rank_training_modes(contents)
        self.others: dict[tuple[str, str, str], ReportedNumber] = {}  # encoder, data set, source -> what differs
        for pair in find_contradictions(one for entry in self.entries.values() for one in entry.reported):
            for one, other in (pair, pair[::-1]):
                self.others[one.encoder, find_dataset_id(one.dataset) or "", one.source] = other

    def group(self, measured: MeasuredDataset, protocol: str, origin: str) -> dict[str, Any]:
        """The figure and the table of what one origin measured by one protocol."""
        numbers = measured.groups[protocol, origin]
        about, words, title = read_evidence_origins()[origin], PROTOCOLS[protocol], get_origin_title(origin)
        metric = numbers[0].metric
        rows = sorted((one for one in numbers if one.metric == metric), key=lambda one: bool(one.doubt))
        more = {_key(one): one for one in numbers if one.metric != metric}
        second = next((describe_metric(one.metric) for one in more.values()), "")
        features, doubts = ({getattr(one, name) for one in rows} for name in ("features", "doubt"))
        settings = {one: describe_origin_setting(one).split(", ") for one in rows}
        shared = [part for part in settings[rows[0]] if part and all(part in some for some in settings.values())]
        repeats = {one.repeats for one in rows}
        notes = [words.meaning[0].upper() + words.meaning[1:], *shared]
        if len(repeats) == 1 and (n := repeats.pop() or 1) > 1:
            notes.append(f"mean of {n} repeats")
        if any(one.low is not None for one in rows):
            notes.append("intervals as the origin states them")
        if len(features) == 1 and features != {""}:
            notes.append(f"features: {next(iter(features))}")
        if len(doubts) > 1:
            notes.append("doubtful numbers stand last and are not drawn")
        better = "higher" if METRICS[metric].higher_is_better else "lower"
        caption = f"{'; '.join(notes)}. {describe_metric(metric).capitalize()} in {rows[0].unit}, {better} is better."
        if len(doubts) == 1 and doubts != {""}:
            caption += f" All are doubtful: {next(iter(doubts))}."
        made = [
            (
                self._link(one.encoder),
                format_points(one.value) + (DOUBTFUL if one.doubt else ""),
                format_reported_interval(one),
                format_points(more[_key(one)].value) if _key(one) in more else "",
                ", ".join(part for part in settings[one] if part not in shared),
                (one.features or "as the card") if len(features) > 1 else "",
                *self._facts(one.encoder),
                self._remarks(one, measured.dataset, one.doubt if len(doubts) > 1 else ""),
            )
            for one in rows
        ]
        heads = (
            "encoder", describe_metric(metric), "sd or interval", second, "setting", "features", "parameters",
            "licence", "remarks",
        )  # fmt: skip
        heading = f"{words.short[0].upper()}{words.short[1:]} ({title})"
        return {
            "anchor": f"{words.short.replace(' ', '-')}-{origin}",
            "heading": heading,
            "by": about["measured_by"],
            "source": about["source"],
            "plot": self._plot(measured.dataset, heading, rows),
            "table": make_table(caption, heads, made, numbers={1, 2, 3, 6}),
            "n_encoders": len({one.encoder for one in rows}),
        }

    def _plot(self, dataset: Dataset, heading: str, rows: Sequence[ReportedNumber]) -> Markup | str:
        """Value against parameters, the best of each encoder; doubtful ones are left out."""
        best: dict[str, ReportedNumber] = {}
        for one in rows:
            if not one.doubt:
                best.setdefault(one.encoder, one)
        if len(best) < FEWEST_DRAWN:
            return ""
        drawn = []
        for one in best.values():
            entry = self.entries[one.encoder]
            group = 1 + [*self.modes, entry.mode].index(entry.mode)  # one more for all other modes
            x = float(entry.card.architecture.n_parameters)
            fill: Fill = "open" if entry.is_mine else "full"
            drawn.append(
                PlotPoint(id=one.encoder, href="", x=x, y=one.value, group=group, low=one.low, high=one.high, fill=fill)
            )
        metric = METRICS[rows[0].metric]
        return draw_scatter(
            drawn,
            Axis("parameters", "log", "count"),
            Axis(
                f"{describe_metric(metric.name)}, %", "linear", "percent", "high" if metric.higher_is_better else "low"
            ),
            title=f"{dataset.title}, {heading}: {describe_metric(metric.name)} against the number of parameters",
            description="The table below has the same numbers.",
            groups=[format_words(one) for one in [*self.modes, OTHER]],
        )

    def _remarks(self, one: ReportedNumber, dataset: Dataset, doubt: str) -> str:
        """What a reader must know of a number: who trained the weights, on what, and who contradicts it."""
        card, notes = self.entries[one.encoder].card, []
        if one.standing != "third party":
            notes.append("measured by its authors")
        seen = [name for name in (card.pretraining.dataset, card.pretraining.finetuning_dataset)
                if name in dataset.in_pretraining]  # fmt: skip
        if seen:
            notes.append(f"trained on {' and '.join(map(str, seen))}, which has training images of this set")
        other = self.others.get((one.encoder, dataset.id, one.source))
        if other is not None and other.metric == one.metric:
            who = get_origin_title(find_origin(other)) if find_origin(other) else describe_measurer(other)
            notes.append(f"contradicted: {who} has {format_points(other.value)}")
        notes += [text for text in (one.remark, f"doubtful: {doubt}" if doubt else "") if text]
        return "; ".join(notes)

    def _link(self, encoder: str) -> Text:
        entry = self.entries[encoder]
        mine = [" ", build_element("span", {"class": "mine"}, "yours")] if entry.is_mine else []
        return build_element(
            "span", {}, build_element("a", {"href": f"../encoders/{entry.file}.html"}, split_name(encoder)), *mine
        )

    def _facts(self, encoder: str) -> tuple[str, str]:
        """Parameters and licence of the weights."""
        card = self.entries[encoder].card
        return format_short_number(card.architecture.n_parameters), format_fact(card.licence.weights).replace(
            "LicenseRef-", ""
        )

    def here(self, measured: MeasuredDataset) -> ResultTable | None:
        """Errors that the zoo lists as measurements, the lowest first; None without any."""
        names = [one.name for one in SETTINGS if any(one.name in some.errors for some in measured.here.values())]
        found = sorted(
            measured.here.items(), key=lambda pair: ([pair[1].errors.get(name, 100.0) for name in names], pair[0])
        )
        rows = []
        for encoder, some in found:
            errors = [format_points(some.errors[name]) if name in some.errors else "" for name in names]
            rows.append((self._link(encoder), *errors, *self._facts(encoder)))
        heads = ("encoder", *(f"error, {name}" for name in names), "parameters", "licence")
        caption = (
            "Error of a linear probe by labels, in percent, lower is better: measurements by one protocol, of which "
            "each encoder's page names source and intervals."
        )
        return make_table(caption, heads, rows, numbers=set(range(1, len(names) + 2))) if rows else None

    def stated(self, measured: MeasuredDataset) -> ResultTable | None:
        """What authors and lists report of the data set, by kind; None without any."""
        numbers = [one for one in measured.numbers if not find_origin(one)]
        counts = Counter(one.protocol for one in numbers)

        def key(one: ReportedNumber) -> tuple[object, ...]:
            sign = -1 if METRICS[one.metric].higher_is_better else 1
            return -counts[one.protocol], one.protocol, one.split, one.metric, sign * one.value, one.encoder

        rows = [
            (
                self._link(one.encoder),
                describe_protocol_kind(one),
                describe_metric(one.metric) + ("" if one.unit == "percent" else f", {one.unit}"),
                f"{one.printed}{DOUBTFUL if one.doubt else REPORTED}",
                describe_protocol_details(one),
                strip_url_keys(describe_measurer(one)),
                "; ".join(text for text in (one.remark, f"doubtful: {one.doubt}" if one.doubt else "") if text),
            )
            for one in sorted(numbers, key=key)
        ]
        caption = (
            "Reported by authors of encoders and by lists, sorted by kind and value. Recipes are their own and differ, "
            "so that small differences say little. In percent unless a unit is named; * reported; *! and doubtful."
        )
        heads = ("encoder", "how", "metric", "printed", "recipe", "by", "remarks")
        summary = f"{len(rows):,} reported numbers"
        return make_table(caption, heads, rows, numbers={3}, summary=summary) if rows else None


def _key(one: ReportedNumber) -> tuple[str, str, str]:
    """What the numbers of a row have in common."""
    return one.encoder, one.setting, one.features
