"""What was measured and reported of an encoder, as its page shows it: figures, tables, errata and provenance."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from ..analysis.label_budget import Curve
from ..cards.schema import EncoderCard, format_fact
from ..errors import ResultsError, warn
from ..results.derived import find_campaign
from ..results.facts import DOUBTFUL, REPORTED, format_points
from ..results.recording import iterate_provenances
from ..results.reported_values import METRICS as REPORTED_METRICS
from ..results.reported_values import PROTOCOLS, ReportedNumber
from ..results.rows import Measurement, errata, measurements
from ..results.values import IMAGENET, PUBLISHED_SOURCE, SETTINGS, ResultErratum, SeedMean
from ..results.vocabulary import FEATURE_METRICS, METRICS
from ..results.wording import (
    NEIGHBOURS,
    PROBE,
    describe_measurer,
    describe_printed_place,
    describe_protocol_details,
    describe_protocol_kind,
    format_quantity,
    format_seed_interval,
    format_setting,
    is_by_labels,
    select_plain_protocols,
)
from ..weights.locations import strip_url_keys
from .contents import SiteEntry
from .drawing import build_element, compute_extent
from .encoder_facts import Text, link_addresses
from .encoder_figures import (
    TABLED,
    ErrorPart,
    ExpectedDrawing,
    LabelCurves,
    Line,
    Mark,
    build_error_curve,
    choose_curve_labels,
    draw_chart,
    draw_decomposition,
    draw_key,
    list_measured_parts,
    list_published_parts,
)

if TYPE_CHECKING:
    from markupsafe import Markup

_CONTROLS = {
    "scratch": "the same network, trained from scratch",
    "blind": "the best guess without an image",
    "maximal": "all labels, from scratch",
}
_TITLES = {"linear_probe_error": "linear probe", "knn_error": "k nearest neighbours"}
_WRONGLY = "Measured wrongly, as the erratum above says"


@dataclass(frozen=True, slots=True)
class ResultTable:
    """A table of a page; the first cell of a row names it."""

    caption: str
    heads: tuple[str, ...]
    rows: tuple[tuple[Text, ...], ...]
    numbers: frozenset[int] = frozenset()  # columns of numbers
    summary: str = ""  # of a table that is folded away


def make_table(
    caption: str, heads: Sequence[str], rows: Sequence[Sequence[Text]], *, numbers: set[int], summary: str = ""
) -> ResultTable:
    """A table without the columns in which nothing stands; a word that is explained is so where it stands first."""
    from markupsafe import Markup

    kept = [column for column in range(len(heads)) if any(row[column] for row in rows)]
    explained: set[Text] = set()

    def once(cell: Text) -> Text:
        if cell in explained:
            return cell.striptags() if isinstance(cell, Markup) else cell
        explained.update([cell] if cell.startswith("<span title") else [])
        return cell

    return ResultTable(
        caption,
        tuple(heads[column] for column in kept),
        tuple(tuple(once(row[column]) for column in kept) for row in rows),
        frozenset(place for place, column in enumerate(kept) if column in numbers),
        summary,
    )


@dataclass(frozen=True, slots=True)
class Drawing:
    """A chart with its key."""

    title: str
    svg: Markup
    key: Markup
    note: str


class Records:
    """Rows with their provenance and errata by encoder, read once for all pages."""

    def __init__(self, encoders: Iterable[str]) -> None:
        self.rows: defaultdict[str, list[Measurement]] = defaultdict(list)
        for row in measurements(encoders=encoders):
            self.rows[row.encoder].append(row)
        self.errata: defaultdict[str, list[ResultErratum]] = defaultdict(list)
        for erratum in errata():
            self.errata[erratum.encoder].append(erratum)

    def wrong(self, entry: SiteEntry) -> frozenset[SeedMean]:
        """What was measured in addition to its ImageNet-1K risks and an erratum excludes."""
        known = [one for name in (entry.id, "*") for one in self.errata[name] if one.exclude]
        return frozenset(mean for mean in entry.means if any(one.covers(entry.id, mean.metric) for one in known))

    def campaign(self, entry: SiteEntry) -> Measurement | None:
        """A row of the campaign whose risks on ImageNet-1K the encoder's summary has."""
        return find_campaign([row for row in self.rows[entry.id] if row.dataset == IMAGENET])


def build_imagenet_section(entry: SiteEntry, records: Records, curves: LabelCurves) -> dict[str, Any] | None:
    """The section on ImageNet-1K: source, bars, drawing and table; None where nothing was measured there."""
    summary = entry.summary
    if summary is None:
        return None
    campaign = records.campaign(entry)
    means = [mean for mean in entry.means if campaign is not None and mean.source == campaign.source]
    means = [mean for mean in select_plain_protocols(means) if mean.dataset == IMAGENET]
    intervals = {mean.n_train: mean for mean in means if mean.metric == PROBE and is_by_labels(mean.split)}
    parts = list_measured_parts(means) or (list_published_parts(summary.decomposition) if summary.decomposition else [])
    curve = build_error_curve(summary)
    is_right = entry.right is not None and build_error_curve(entry.right) == curve
    caption = ("" if is_right else f"{_WRONGLY}. ") + _bars_caption(parts, "ImageNet-1K")
    return {
        "source": _campaign_words(campaign, with_intervals=bool(intervals)),
        "is_mine": any(mean in entry.own_means for mean in means),
        "bars": draw_decomposition(parts, caption=caption, is_wrong=not is_right) if parts else None,
        "drawing": _label_drawing(entry, curve, curves, intervals, is_right=is_right) if curve else None,
        "table": _label_table(entry, curve, curves, intervals, is_right=is_right),
    }


def _campaign_words(campaign: Measurement | None, *, with_intervals: bool) -> Markup:
    if campaign is None:
        return link_addresses("")
    if campaign.source == PUBLISHED_SOURCE:
        link = build_element(
            "a", {"href": f"https://arxiv.org/abs/{campaign.source.partition(':')[2]}"}, campaign.source
        )
        text = ["Measured and published by the study ", link, f", protocol {campaign.protocol}, {campaign.date}. "]
        return build_element(
            "span",
            {},
            *text,
            "One probe per setting was published, and no interval: the one above is "
            "what other draws of labels and other trainings of a probe would change.",
        )
    stated = "" if with_intervals else " without intervals"
    return link_addresses(f"Measured by {campaign.source!r}, protocol {campaign.protocol}, {campaign.date}{stated}.")


def _bars_caption(parts: Sequence[ErrorPart], dataset: str) -> str:
    with_intervals = any(part.low is not None for part in parts)
    said = "lines are 95 % intervals" if with_intervals else "published without intervals"
    return (
        f"Where the error on {dataset} comes from: components in percentage points, signed, lower is better; {said}. "
        "The scale is the same on every page; a bar with a break is longer."
    )


_Intervals: TypeAlias = dict[int | None, SeedMean]


def _label_table(
    entry: SiteEntry, curve: Curve, curves: LabelCurves, intervals: _Intervals, *, is_right: bool
) -> ResultTable:
    """Measured errors by labels, and where they are right, what two laws expect between and below them."""
    known = {n: ExpectedDrawing(n, curve[n], "measured") for n in curve}
    law_at: dict[int, float] = {}
    if is_right:
        known = {one.n_labels: one for one in curves.expected(curve, TABLED)} or known
        if entry.right and entry.right.decomposition:
            law_at = dict(zip(TABLED, curves.by_law(entry.right.decomposition, TABLED), strict=True))
    names = {setting.n_labels: f" ({setting.name})" for setting in SETTINGS}
    rows = []
    for n, one in sorted(known.items()):
        reach = (
            ""
            if one.low is None or one.kind == "measured"
            else f"{format_points(one.low)} to {format_points(one.high or 0)}"
        )
        error, ends = (
            format_points(one.error) + " !" * (not is_right),
            format_seed_interval(intervals[n]) if n in intervals else reach,
        )
        law = format_points(law_at[n]) if n in law_at else ""
        rows.append((f"{n:,}{names.get(n, '')}", error, one.kind, ends, law))
    return make_table(
        "Top-1 error of a linear probe on ImageNet-1K by its number of labels (percent, lower is better)."
        + (" Intervals of predictions hold 90 %." if len(known) > len(curve) else ""),
        ("labels", "error, %", "how", "interval", "scaling law, %"),
        rows,
        numbers={1, 3, 4},
    )


def _label_drawing(
    entry: SiteEntry, curve: Curve, curves: LabelCurves, intervals: _Intervals, *, is_right: bool
) -> Drawing:
    name = "f1" if is_right else "wrong"
    marks = [Mark.of(intervals[n], name) if n in intervals else Mark(n, curve[n], name=name) for n in sorted(curve)]
    key = [(name, "measured" if is_right else _WRONGLY.lower())]
    lines: list[Line] = []
    band: list[tuple[float, float, float]] = []
    readout: list[tuple[float, float]] = []
    note = "The axes are the same on every page."
    if is_right:
        at = choose_curve_labels()
        drawn = curves.expected(curve, at)
        band = [(one.n_labels, one.low, one.high) for one in drawn if one.low is not None and one.high is not None]
        readout = [(one.n_labels, one.error) for one in drawn] if len(drawn) > 1 else []
        fewest = min(curve)
        for places, name, words in (
            ([one for one in readout if one[0] >= fewest], "s1", "interpolated (label-budget study)"),
            ([one for one in readout if one[0] <= fewest], "s1 dashed", "extrapolated (label-budget study)"),
        ):
            if len(places) > 1:
                lines.append((name, places))
                key.append((f"line {name}", words))
        if lines:
            key.append(("band", "90 % interval of a prediction"))
            note += " The label-budget study goes through an encoder's own measurements and continues them."
        if entry.right and entry.right.decomposition:
            alpha, w, n_encoders = curves.law
            lines.append(("s6 dotted", list(zip(at, curves.by_law(entry.right.decomposition, at), strict=True))))
            key.append(("line s6 dotted", "scaling law (Eq. 25)"))
            note += (
                f" The scaling law predicts from the components alone, with two parameters that {n_encoders} "
                f"encoders share: alpha {alpha:.3f}, W {w:.2f}."
            )
    described = ", ".join(f"{format_points(error)} % with {n:,} labels" for n, error in sorted(curve.items()))
    svg = draw_chart(
        (1_000.0, 1_281_167.0),
        (0.0, 100.0),
        titles=("labels (of 1,000 classes)", "error, %"),
        lines=lines,
        marks=marks,
        band=band,
        readout=readout,
        description=f"Error against the number of labels on ImageNet-1K: {described}.",
    )
    return Drawing("Error against labels", svg, draw_key(key), note)


def build_other_sections(entry: SiteEntry, records: Records) -> list[dict[str, Any]]:
    """A section per data set and source, of all but the risks on ImageNet-1K, as the template takes it."""
    campaign = records.campaign(entry)
    wrong = records.wrong(entry)
    groups: dict[tuple[str, str], list[SeedMean]] = {}
    for mean in entry.means:
        groups.setdefault((mean.dataset, mean.source), []).append(mean)
    above = (IMAGENET, "" if campaign is None else campaign.source)
    return [_of_set(entry.own_means, wrong, *key, means, is_above=key == above) for key, means in groups.items()]


def _of_set(
    own: frozenset[SeedMean],
    wrong: frozenset[SeedMean],
    dataset: str,
    source: str,
    means: Sequence[SeedMean],
    *,
    is_above: bool,
) -> dict[str, Any]:
    """With ``is_above`` errors and components stand in the section on ImageNet-1K, and here only folded away."""
    plain = select_plain_protocols(means)
    is_shown = () if is_above else (PROBE, NEIGHBOURS)
    errors = [mean for mean in plain if mean.metric in is_shown and is_by_labels(mean.split)]
    parts = [] if is_above else list_measured_parts([mean for mean in plain if mean not in wrong])
    curves = [mean for mean in means if mean.split.endswith(" images -> val") or "(control=" in mean.protocol]
    used = {*errors, *curves}
    free = [mean for mean in plain if mean.metric in FEATURE_METRICS and mean not in used]
    behind = [mean for mean in plain if mean not in used and mean not in free]
    rest = [mean for mean in means if mean not in {*used, *plain}]

    def value(mean: SeedMean) -> str:
        return format_quantity(mean.value, mean) + (" !" if mean in wrong else "")

    def protocol(mean: SeedMean) -> str:
        return mean.protocol + (" (yours)" if mean in own else "")

    def quantities(caption: str, some: Sequence[SeedMean], setting: str = "setting", summary: str = "") -> ResultTable:
        rows = []
        for mean in some:
            n_train = "" if mean.n_train is None else f"{mean.n_train:,}"
            found = value(mean), format_seed_interval(mean), str(mean.n_seeds), protocol(mean)
            rows.append((_meant(mean.metric), format_setting(mean.split), n_train, *found))
        heads = ("what", setting, "images", "value", "interval", "seeds", "protocol")
        return make_table(caption, heads, rows, numbers={2, 3, 4, 5}, summary=summary)

    tables = []
    if errors:
        errors.sort(key=lambda mean: (mean.metric == NEIGHBOURS, mean.n_train or 0))
        tables.append(quantities(f"Errors on {dataset} by labels (percent, lower is better)", errors, "labels"))
    if free:
        better = {True: "higher is better", False: "lower is better", None: "no direction"}
        rows = []
        for mean in free:
            way = better[FEATURE_METRICS[mean.metric].higher_is_better]
            found = value(mean), format_seed_interval(mean), mean.unit, way, mean.split, protocol(mean)
            rows.append((_meant(mean.metric), *found))
        caption = f"Metrics of the features on {dataset}, most of which need no labels"
        heads = ("metric", "value", "interval", "unit", "direction", "images", "protocol")
        tables.append(make_table(caption, heads, rows, numbers={1, 2}))
    right = [mean for mean in errors if mean not in wrong]
    drawings = [_error_drawing(right, dataset)] if len(right) > 2 else []
    drawings += _curve_drawings([mean for mean in curves if mean not in wrong], dataset)
    folded = [
        quantities(f"{title} on {dataset}", some, summary=f"{len(some):,} {words}")
        for title, words, some in (
            ("Points of the learning curves, and their controls", "points of learning curves", curves),
            ("Components and the risks behind them", "components, and risks behind them", behind),
            ("Numbers of other protocols", "numbers of other protocols", rest),
        )
        if some
    ]
    return {
        "dataset": dataset,
        "source": source,
        "is_mine": all(mean in own for mean in means),
        "bars": draw_decomposition(parts, caption=_bars_caption(parts, dataset)) if parts else None,
        "drawings": drawings,
        "tables": tables,
        "folded": folded,
    }


def _meant(metric: str) -> Markup:
    meaning = METRICS[metric].meaning if metric in METRICS else ""
    known = FEATURE_METRICS.get(metric)
    title = known.title if known else _TITLES.get(metric, metric.replace("_", " "))
    return build_element("span", {"title": meaning or None}, title)


def _error_drawing(errors: Sequence[SeedMean], dataset: str) -> Drawing:
    probes = [mean for mean in errors if mean.metric == PROBE and mean.n_train]
    votes = [mean for mean in errors if mean.metric == NEIGHBOURS and mean.n_train]
    key = [("f1", "linear probe"), *([("f2", "k nearest neighbours")] if votes else [])]
    marks = [*(Mark.of(mean, "f1") for mean in probes), *(Mark.of(mean, "f2") for mean in votes)]
    described = ", ".join(f"{format_points(mean.value)} % with {mean.n_train:,} labels" for mean in probes)
    svg = draw_chart(
        _span(marks),
        (0.0, 100.0),
        titles=("labels", "error, %"),
        marks=marks,
        description=f"Error against the number of labels on {dataset}: {described}.",
    )
    note = (
        "Lines are intervals: of one seed its 95 % interval, of several the smallest and largest value. No curve is "
        "drawn, for the label-budget study is about ImageNet-1K."
    )
    return Drawing(f"Error against labels on {dataset}", svg, draw_key(key), note)


def _span(marks: Sequence[Mark]) -> tuple[float, float]:
    return min(mark.x for mark in marks) / 1.25, max(mark.x for mark in marks) * 1.25


def _curve_drawings(means: Sequence[SeedMean], dataset: str) -> Iterator[Drawing]:
    """A chart per metric of the learning curves: the encoder, and the controls that were measured with it."""
    for metric in dict.fromkeys(mean.metric for mean in means):
        by_control: defaultdict[str, list[SeedMean]] = defaultdict(list)  # "" for the encoder itself
        for mean in means:
            if mean.metric == metric:
                by_control[mean.protocol.partition("(control=")[2].rstrip(")")].append(mean)
        own, scratch = by_control[""], by_control["scratch"]
        if len(own) < 2:
            continue
        marks = [*(Mark.of(mean, "f8") for mean in scratch), *(Mark.of(mean, "f1") for mean in own)]
        span = _span(marks)
        lines: list[Line] = [
            (name, sorted((float(mean.n_train or 1), mean.value) for mean in some))
            for name, some in (("s8", scratch), ("s1", own))
        ]
        key = [("f1", "this encoder"), *([("f8", _CONTROLS["scratch"])] if scratch else [])]
        for control, name in (("maximal", "s3 dashed"), ("blind", "s6 dotted")):
            for mean in by_control[control][:1]:
                lines.append((name, [(span[0], mean.value), (span[1], mean.value)]))
                key.append((f"line {name}", _CONTROLS[control]))
        known = [end for mark in marks for end in (mark.y, mark.low, mark.high) if end is not None]
        low, high = compute_extent([*known, *(y for _, places in lines for _, y in places)])
        title, unit = metric.replace("_", " "), own[0].unit
        lowest = 0.0 if unit == "percent" else low  # an axis of percent begins at 0, of other units where values do
        described = ", ".join(f"{format_quantity(mean.value, mean)} with {mean.n_train:,} images" for mean in own)
        svg = draw_chart(
            span,
            (lowest, high),
            titles=("labelled images", title + (", %" if unit == "percent" else f", {unit}")),
            lines=lines,
            marks=marks,
            description=f"{title} on {dataset}, lower is better: {described}.",
        )
        note = "Lower is better. Lines are the smallest and largest value of the seeds."
        yield Drawing(f"Learning curve on {dataset}: {title}", svg, draw_key(key), note)


def tabulate_reported(numbers: Sequence[ReportedNumber]) -> ResultTable | None:
    """Every reported number with its printed digits, who measured it and where it stands; None without any."""
    if not numbers:
        return None
    rows = []
    for one in numbers:
        metric = REPORTED_METRICS[one.metric]
        mark = DOUBTFUL if one.doubt else REPORTED
        read = f", read {one.date}" if one.date else ""
        odd = "; ".join(text for text in (one.remark, f"doubtful: {one.doubt}" if one.doubt else "") if text)
        rows.append(
            (
                build_element("span", {"title": PROTOCOLS[one.protocol].meaning}, describe_protocol_kind(one)),
                build_element("span", {"title": metric.meaning}, one.metric.replace("_", " ")),
                one.dataset,
                f"{one.printed}{mark}",
                one.unit,
                describe_protocol_details(one),
                strip_url_keys(describe_measurer(one)),
                link_addresses(describe_printed_place(one) + read),
                link_addresses(odd),
            )
        )
    heads = ("how", "metric", "data set", "printed", "unit", "recipe", "by", "place", "remarks")
    caption = (
        "Under protocols of those who report: mostly not comparable, never ranked with measurements. *! is doubtful."
    )
    return make_table(caption, heads, rows, numbers={3})


def tabulate_card_errata(card: EncoderCard) -> ResultTable | None:
    """What was published of the encoder and is wrong; None without errata."""
    if not card.errata:
        return None
    rows = []
    for one in card.errata:
        here = format_fact(card.fact(one.field)) if "." in one.field or one.field == "released" else "see above"
        published = strip_url_keys(format_fact(one.published))
        rows.append((build_element("code", {}, one.field), published, strip_url_keys(here), link_addresses(one.reason)))
    caption = "Facts that were published otherwise; everything above is corrected."
    return ResultTable(caption, ("fact", "published", "here", "why"), tuple(rows))


def list_result_errata(entry: SiteEntry, records: Records) -> list[tuple[ResultErratum, Markup]]:
    """Errata of its measurements, each with what it says."""
    found = []
    for one in records.errata[entry.id]:
        metric = "All measurements" if one.metric == "*" else one.metric.replace("_", " ").capitalize()
        ends = " They count in no ranking and no recommendation." if one.exclude else ""
        found.append(
            (
                one,
                build_element(
                    "span", {}, build_element("b", {}, f"{metric}: {one.kind}. "), link_addresses(one.reason + ends)
                ),
            )
        )
    return found


def tabulate_provenance(entry: SiteEntry, records: Records) -> ResultTable | None:
    """One row a campaign: what was measured where, by whom, when and with what; None without measurements."""
    made = _made_with(entry) if entry.means else {}
    groups: dict[tuple[str, str, str], list[Measurement]] = {}
    for row in records.rows[entry.id]:
        groups.setdefault((row.dataset, row.source, row.protocol.partition(" (")[0]), []).append(row)
    if not groups:
        return None
    rows = []
    for key, some in groups.items():
        dataset, source, protocol = key
        dates = sorted({row.date for row in some})
        dated = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
        how_made = made.get(key, "as published" if source == PUBLISHED_SOURCE else "not recorded")
        rows.append((dataset, link_addresses(source), protocol, f"{len(some):,}", dated, how_made))
    caption = "Where the measurements come from; options of a protocol stand in brackets behind its name in the tables."
    return ResultTable(
        caption, ("data set", "source", "protocol", "rows", "date", "made with"), tuple(rows), frozenset({3})
    )


def _made_with(entry: SiteEntry) -> dict[tuple[str, str, str], str]:
    """What the files of provenance say of each campaign: code, precision, and hash of the weights."""
    texts: defaultdict[tuple[str, str, str], dict[str, None]] = defaultdict(dict)
    says = {"code_version": "{}", "precision": "{}", "weights_hash": "weights {:.8}"}
    try:
        for row, known in iterate_provenances(entry.id):
            key = row.get("dataset", ""), row.get("source", ""), str(row.get("protocol", "")).partition(" (")[0]
            words = [text.format(known[name]) for name, text in says.items() if isinstance(known.get(name), str)]
            texts[key].update(dict.fromkeys(words))
    except ResultsError as error:
        warn([str(error)])
    return {key: ", ".join(words) for key, words in texts.items()}
