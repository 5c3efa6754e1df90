"""Columns of what is known of encoders: their names, kinds and values, and the selection of encoders by a condition.

Columns are those of :data:`zoo.cards.schema.COLUMNS`, a few more facts of the card, and the ImageNet-1K risks. Risks
have the published names and clearer ones next to them: ``train_test`` is also ``error_100pct``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from ..cards.catalogue import Catalogue, load_catalogue
from ..cards.schema import COLUMNS, NOT_APPLICABLE, NOT_PUBLISHED, NOT_RECORDED, Column, EncoderCard, Kind, Missing
from ..errors import UnknownName
from .derived import summaries
from .reported import Preferred, select_preferred_accuracies
from .reported_values import PROTOCOLS, ReportedNumber
from .values import IMAGENET, PUBLISHED_SOURCE, SETTINGS, Setting, Summary

if TYPE_CHECKING:
    from .filter_expression import Condition

_UNITS = {"img_size": "px", "patch_size": "px", "time_hours": "hours"}
_POINTS = "percentage points"
_CLEARER = {"license": "licence", "img_size": "crop_px"}
REPORTED = "*"  # behind a number that somebody reported
DOUBTFUL = "*!"  # behind one that is doubtful
OTHER_PROTOCOL = "^"  # behind a risk by another protocol than most of a table, and once more for every further one
OTHERS = "others_"  # begins the columns of what others measured on a data set: others_eurosat


@dataclass(frozen=True, slots=True)
class Subject:
    """One encoder: what its card says, and its measurements."""

    id: str
    cards: Catalogue
    measured: Summary | None  # everything, believable or not
    summary: Summary | None  # what counts: perhaps without what an erratum says to leave out
    reported: Mapping[str, Preferred]  # accuracies on ImageNet-1K that somebody reported, by protocol

    @property
    def card(self) -> EncoderCard:
        """The whole card, which takes longer than a fact of it."""
        return self.cards[self.id]

    def fact(self, field: str) -> Any:
        """The fact of the card with a dotted name."""
        values = self.cards.column(field)
        return values[self.id] if self.id in values else self.card.fact(field)  # other features are in no column

    @property
    def is_wrong(self) -> bool:
        """True if an erratum says to leave measurements out."""
        return self.measured is not None and any(erratum.exclude for erratum in self.measured.errata)

    def protocol(self, fact: Fact) -> str:
        """By which protocol a risk of it was measured; nothing if it was not."""
        if self.summary is None or isinstance(fact.of(self), Missing):
            return ""
        campaign = self.summary.campaign_of_parts if fact.unit == _POINTS else self.summary.campaign
        return "" if campaign is None else campaign.protocol

    @property
    def approximation_is_assumed(self) -> bool:
        """True if the approximation error is zero by assumption."""
        parts = self.summary.decomposition if self.summary else None
        return parts is not None and parts.approximation_assumed


@dataclass(frozen=True, slots=True)
class Fact:
    """One column."""

    name: str
    kind: Kind
    meaning: str
    of: Callable[[Subject], Any]  # a Missing where it has no value
    unit: str = ""
    from_results: bool = False  # needs the files of results/
    other_name: str = ""
    field: str = ""  # dotted name in the card, if the value is that fact as it is

    @property
    def is_risk(self) -> bool:
        """True for errors and their components."""
        return self.from_results and self.kind == "number"

    @property
    def is_reported(self) -> bool:
        """True for what somebody reported, which no protocol of ours measured."""
        return self.name.startswith("reported") or self.is_of_others

    @property
    def is_of_others(self) -> bool:
        """True for what others measured on one data set."""
        return self.name.startswith(OTHERS)


def _component(name: str, other_name: str, meaning: str) -> Fact:
    def of(subject: Subject) -> Any:
        if subject.summary is None or subject.summary.decomposition is None:
            return NOT_PUBLISHED
        return getattr(subject.summary.decomposition, other_name)

    clear = other_name if other_name != name else ""
    return Fact(name, "number", meaning, of, _POINTS, from_results=True, other_name=clear)


def _setting_error(setting: Setting) -> Fact:
    def of(subject: Subject) -> Any:
        return NOT_PUBLISHED if subject.summary is None else subject.summary.errors.get(setting.name, NOT_PUBLISHED)

    clear = "error_" + setting.name.replace("%", "pct").replace("-", "")
    meaning = f"error of a linear probe with {setting.n_labels:,} labels"
    return Fact(setting.column, "number", meaning, of, "percent", from_results=True, other_name=clear)


def _of_card(column: Column) -> Fact:
    unit = "percent" if column.section == "metrics" else _UNITS.get(column.name, "")
    clear = _CLEARER.get(column.name, "")
    if column.field == "released":
        return Fact(column.name, column.kind, column.meaning, _part_of_month(column), unit, other_name=clear)
    of = _recorded(column.field)
    return Fact(column.name, column.kind, column.meaning, of, unit, other_name=clear, field=column.field)


def _recorded(field: str) -> Callable[[Subject], Any]:
    return lambda subject: subject.fact(field)


def _part_of_month(column: Column) -> Callable[[Subject], Any]:
    return lambda subject: column.of_fact(subject.fact(column.field))


def _n_errata(subject: Subject) -> int:
    of_card = subject.cards.column("n_errata").get(subject.id)
    if of_card is None:
        of_card = len(subject.card.errata)
    return of_card + (len(subject.measured.errata) if subject.measured else 0)


def _is_wrong(subject: Subject) -> Any:
    return NOT_APPLICABLE if subject.measured is None else subject.is_wrong


def _is_assumed(subject: Subject) -> Any:
    if subject.summary is None or subject.summary.decomposition is None:
        return NOT_PUBLISHED
    return subject.approximation_is_assumed


def _protocol(subject: Subject) -> Any:
    return NOT_PUBLISHED if subject.summary is None else subject.summary.campaign.protocol


def _reported(name: str) -> Fact:
    protocol = PROTOCOLS[name]

    def of(subject: Subject) -> Any:
        one = subject.reported.get(name)
        return _not_reported(subject, name) if one is None else one.value

    meaning = f"top-1 accuracy on ImageNet-1K that somebody reported: {protocol.meaning}"
    return Fact(protocol.column, "number", meaning, of, "percent, higher is better")


def list_others_columns() -> list[str]:
    """Names of the columns of what others measured, one per data set."""
    from .evidence import list_datasets  # whose table other columns do without

    return [OTHERS + name.replace("-", "_") for name in list_datasets()]


@cache
def find_numbers_by_others(name: str) -> dict[str, ReportedNumber]:
    """The number of each encoder in such a column."""
    from .evidence import select_preferred_numbers

    return select_preferred_numbers(name.removeprefix(OTHERS))


def _others(name: str) -> Fact:
    numbers = find_numbers_by_others(name)

    def of(subject: Subject) -> Any:
        return numbers[subject.id].value if subject.id in numbers else NOT_RECORDED

    return Fact(name, "number", "what others measured on a data set", of, "percent, higher is better")


def _not_reported(subject: Subject, protocol: str) -> Missing:
    """Why a number is missing: cards say of linear probes whether anybody has searched."""
    stated = subject.fact("reported.top1_percent")
    if isinstance(stated, Missing) and (protocol == "reported-linear" or stated is NOT_APPLICABLE):
        return stated
    return NOT_RECORDED


def _gflops(subject: Subject) -> Any:
    from ..cards.costs import find_cost, load_shipped_costs  # a table that few command lines read

    cost = load_shipped_costs().get(subject.id) or find_cost(subject.card)
    return NOT_RECORDED if cost is None else cost.gflops


_LISTED = (
    "reported-linear", "reported-knn", "reported-attentive", "reported-zero-shot", "reported-own-head",
    "reported-finetune",
)  # fmt: skip


def _first_reported(subject: Subject) -> Any:
    reported = subject.reported
    for name in _LISTED:
        if name in reported:
            return f"{reported[name].printed}{mark_reported(reported[name])} {PROTOCOLS[name].short}"
    return _not_reported(subject, "reported-linear")


def mark_reported(one: Preferred) -> str:
    """What stands behind a reported number."""
    return DOUBTFUL if one.is_doubtful else REPORTED


_FIRST_REPORTED = "accuracy on ImageNet-1K that somebody reported, and how: the first known of the columns that follow"
_GFLOPS = "operations of one image at its own size, computed; a multiplication and an addition are two (docs/costs.md)"
_COMMERCIAL = "yes, no, conditions or unknown, from the licence of the weights"
_ACCESS = "who is given the weights: open, gated, by request, gone or unfit"
_ERRATA = "published facts and measurements known or suspected to be wrong"
_WRONG = "an erratum says to leave its measurements out"
_ASSUMPTION = "approx is 0 by assumption, not by measurement"
_ALL = [
    Fact("encoder", "text", "id of the encoder", attrgetter("id")),
    *map(_of_card, COLUMNS),
    Fact("released", "text", "month of publication", _recorded("released")),
    Fact("card_family", "text", "family of encoders, as its files are called", _recorded("family"), field="family"),
    Fact("commercial_use", "text", _COMMERCIAL, _recorded("commercial_use"), field="commercial_use"),
    Fact("licence_code", "text", "licence of the code, SPDX", _recorded("licence.code")),
    Fact("licence_timm", "text", "licence as timm labels its copy", _recorded("licence.timm")),
    Fact("availability", "text", _ACCESS, _recorded("weights.availability"), other_name="access"),
    Fact("gate", "text", "who is given weights that are not open", _recorded("weights.gate")),
    Fact("authors_access", "text", "access to the authors' own copy", _recorded("weights.authors_availability")),
    Fact("domain", "text", "kind of images it was trained on", _recorded("pretraining.domain")),
    Fact("magnification", "text", "of those images", _recorded("pretraining.magnification")),
    Fact("image_sets", "list", "every data set it was trained on", _recorded("pretraining.image_sets")),
    Fact("n_images", "whole number", "images of the pretraining data", _recorded("pretraining.n_images")),
    Fact("n_samples_seen", "whole number", "images of all steps", _recorded("pretraining.n_samples_seen")),
    Fact("n_registers", "whole number", "tokens other than class and patches", _recorded("architecture.n_registers")),
    Fact("native_px", "whole number", "side that its positions are for", _recorded("architecture.native_px"), "px"),
    Fact("size_step_px", "whole number", "sides are multiples of it", _recorded("architecture.size_step_px"), "px"),
    Fact("adapted_from", "text", "encoder that its training started from", _recorded("provenance.adapted_from")),
    Fact("distilled_from", "list", "teachers whose outputs it learned", _recorded("provenance.distilled_from")),
    Fact("superseded_by", "text", "encoder offered in its place", _recorded("provenance.superseded_by")),
    Fact("size_bytes", "whole number", "size of the file of weights", _recorded("weights.size_bytes"), "bytes"),
    Fact("gflops", "number", _GFLOPS, _gflops, "1e9 operations"),
    Fact("n_errata", "whole number", _ERRATA, _n_errata, from_results=True),
    Fact("is_wrong", "true or false", _WRONG, _is_wrong, from_results=True),
    Fact("protocol", "text", "by which its errors were measured", _protocol, from_results=True),
    *map(_setting_error, SETTINGS),
    _component("approx", "approximation", "error of the architecture, trained with supervision"),
    Fact("approx_is_assumed", "true or false", _ASSUMPTION, _is_assumed, from_results=True),
    _component("usability", "usability", "error from pretraining without labels"),
    _component("approx_plus_usability", "approximation_plus_usability", "approximation and usability together"),
    _component("probe_gen", "probe_generalization", "error from training the probe on a finite data set"),
    _component("enc_gen", "encoder_generalization", "error from pretraining on a finite data set"),
    Fact("reported", "text", _FIRST_REPORTED, _first_reported),
    *map(_reported, _LISTED),
]
FACTS: dict[str, Fact] = {fact.name: fact for fact in _ALL}
_BY_ANY_NAME = FACTS | {fact.other_name: fact for fact in FACTS.values() if fact.other_name}


def list_column_kinds() -> dict[str, Kind]:
    """Kind of every column by each of its names."""
    return {name: fact.kind for name, fact in _BY_ANY_NAME.items()}


def get_column_value(subject: Subject, name: str) -> Any:
    """The value of the column with that name, or why it is missing."""
    return find_fact(name).of(subject)


def get_column_values(fact: Fact, among: Sequence[Subject]) -> list[Any]:
    """The values of one column for several encoders, quicker than one by one."""
    if not fact.field or not among:
        return [fact.of(subject) for subject in among]
    column = among[0].cards.column(fact.field)
    return [column[subject.id] if subject.id in column else fact.of(subject) for subject in among]


def find_fact(name: str) -> Fact:
    """The column with that name, in either spelling; UnknownName lists the nearest."""
    if name in _BY_ANY_NAME:
        return _BY_ANY_NAME[name]
    try:
        if name.startswith(OTHERS):
            return _others(name)
    except UnknownName:
        pass
    known = [*_BY_ANY_NAME, *list_others_columns()]
    raise UnknownName("column", name, known, hint="Run 'zoo list --help-columns' to see them all.")


def format_points(value: float) -> str:
    """Percent or percentage points with one decimal; never a negative zero.

    >>> format_points(24.56), format_points(-0.04)
    ('24.6', '0.0')
    """
    return f"{round(value, 1) + 0.0:.1f}"


def format_short_number(value: float) -> str:
    """A count in at most four characters and a letter.

    >>> [format_short_number(n) for n in (950, 23_508_032, 999_900_000, 1_011_223_040)]
    ['950', '23.5M', '1G', '1.01G']
    """
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= 0.9995 * size:  # from there on three digits round to 1000 of the smaller unit
            return f"{value / size:.3g}{letter}"
    return f"{value:g}"


def list_subjects(
    names: Iterable[str], *, with_risks: bool, exclude_wrong: bool = False, dataset: str | None = None
) -> list[Subject]:
    """Encoders by name, in that order, with risks on ImageNet-1K or another data set."""
    cards = load_catalogue()
    ids = [cards.id_of(name) for name in names]
    cards = cards.listing(ids)
    risks = partial(summaries, encoders=ids, dataset=IMAGENET if dataset is None else dataset)
    measured: Mapping[str, Summary] = risks() if with_risks else {}
    counting = risks(exclude_wrong=True) if with_risks and exclude_wrong else measured
    reported = select_preferred_accuracies()
    return [Subject(one, cards, measured.get(one), counting.get(one), reported.get(one, {})) for one in ids]


def mark_protocols(known: Iterable[Summary | None]) -> dict[str, str]:
    """The mark of each protocol in a table with these risks, which compare within one alone.

    The published one has none, else the most frequent.
    """
    pairs = ((one.campaign, one.campaign_of_parts) for one in known if one is not None)
    counts = Counter(one for pair in pairs for one in dict.fromkeys(pair) if one is not None)
    campaigns = sorted(counts, key=lambda one: (one.source != PUBLISHED_SOURCE, -counts[one]))
    return {name: OTHER_PROTOCOL * n for n, name in enumerate(dict.fromkeys(one.protocol for one in campaigns))}


def parse_condition(text: str) -> tuple[Condition, bool]:
    """The condition of ``--where``, and whether it reads results."""
    from .filter_expression import parse_condition  # the compiler's tree, which few command lines need

    try:
        condition = parse_condition(text, list_column_kinds())
    except UnknownName:
        condition = parse_condition(text, list_column_kinds() | dict.fromkeys(list_others_columns(), "number"))
    return condition, any(find_fact(name).from_results for name in condition.names)


def select_satisfying(condition: Condition, among: Sequence[Subject]) -> list[Subject]:
    """Encoders for which the condition is true."""
    return [subject for subject in among if condition.holds(partial(get_column_value, subject))]


def sort_by_column(fact: Fact, among: Sequence[Subject], *, descending: bool) -> list[Subject]:
    """Encoders sorted by one column, texts without regard to case, missing values always last."""

    def key(subject: Subject) -> Any:
        value = fact.of(subject)
        if isinstance(value, str):
            return value.casefold()
        return value

    known = [subject for subject in among if not isinstance(fact.of(subject), Missing)]
    unknown = [subject for subject in among if isinstance(fact.of(subject), Missing)]
    return sorted(known, key=key, reverse=descending) + unknown
