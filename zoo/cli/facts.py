"""Columns of ``--where``, ``--sort`` and ``--columns``, their values in tables, and the selection of encoders.

Columns are those of :data:`zoo.cards.schema.COLUMNS`, a few more facts of the card, and the ImageNet-1K risks. Risks
have the published names and clearer ones beside them: ``train_test`` is also ``error_100pct``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import click

from ..cards.catalogue import LIST, PLACES, Catalogue, catalogue
from ..cards.finding import is_glob
from ..cards.representations import MARK, own_id
from ..cards.schema import (
    COLUMNS,
    NOT_APPLICABLE,
    NOT_PUBLISHED,
    NOT_RECORDED,
    Column,
    EncoderCard,
    Kind,
    Missing,
    fact_text,
)
from ..errors import UnknownName, nearest_names
from ..results.derived import summaries
from ..results.reported import Preferred, preferred_numbers
from ..results.reported_values import PROTOCOLS
from ..results.values import SETTINGS, Setting, Summary
from .output import NothingFound

if TYPE_CHECKING:
    from .where import Condition

_UNITS = {"img_size": "px", "patch_size": "px", "time_hours": "hours"}
_CLEARER = {"license": "licence", "img_size": "crop_px"}
LEGEND = "-  does not apply    ?  not published, or not measured    .  not recorded"
ASSUMED = "~"  # behind an approximation error that is zero by assumption
WRONG = "!"  # behind a risk, or the name of an encoder, that an erratum speaks of
REPORTED = "*"  # behind a number that somebody reported
DOUBTFUL = "*!"  # behind one that is doubtful


class ReportedByAll:
    """What listings show of every encoder's reported numbers, read when first asked for."""

    def of(self, encoder: str) -> Mapping[str, Preferred]:
        """The preferred numbers of an encoder by protocol."""
        return self._found.get(encoder, {})

    @cached_property
    def _found(self) -> Mapping[str, Mapping[str, Preferred]]:
        return preferred_numbers()


@dataclass(frozen=True, slots=True)
class Subject:
    """One encoder: what its card says, and its measurements."""

    id: str
    cards: Catalogue
    measured: Summary | None  # everything, believable or not
    summary: Summary | None  # what counts: perhaps without what an erratum says to leave out
    reported_by_all: ReportedByAll = field(default_factory=ReportedByAll, compare=False, repr=False)

    @property
    def reported(self) -> Mapping[str, Preferred]:
        """Accuracies on ImageNet-1K that somebody reported, by protocol; never mixed with measurements."""
        return self.reported_by_all.of(self.id)

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
        return self.name.startswith("reported")


def _component(name: str, other_name: str, meaning: str) -> Fact:
    def of(subject: Subject) -> Any:
        if subject.summary is None or subject.summary.decomposition is None:
            return NOT_PUBLISHED
        return getattr(subject.summary.decomposition, other_name)

    clear = other_name if other_name != name else ""
    return Fact(name, "number", meaning, of, "percentage points", from_results=True, other_name=clear)


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


def _reported(name: str) -> Fact:
    protocol = PROTOCOLS[name]

    def of(subject: Subject) -> Any:
        one = subject.reported.get(name)
        return _not_reported(subject, name) if one is None else one.value

    meaning = f"top-1 accuracy on ImageNet-1K that somebody reported: {protocol.meaning}"
    return Fact(protocol.column, "number", meaning, of, "percent, higher is better")


def _not_reported(subject: Subject, protocol: str) -> Missing:
    """Why a number is missing: cards say of linear probes whether anybody has searched."""
    stated = subject.fact("reported.top1_percent")
    if isinstance(stated, Missing) and (protocol == "reported-linear" or stated is NOT_APPLICABLE):
        return stated
    return NOT_RECORDED


_LISTED = (
    "reported-linear", "reported-knn", "reported-attentive", "reported-zero-shot", "reported-own-head",
    "reported-finetune",
)  # fmt: skip


def _first_reported(subject: Subject) -> Any:
    reported = subject.reported
    for name in _LISTED:
        if name in reported:
            return f"{reported[name].printed}{_mark(reported[name])} {PROTOCOLS[name].short}"
    return _not_reported(subject, "reported-linear")


def _mark(one: Preferred) -> str:
    return DOUBTFUL if one.is_doubtful else REPORTED


_FIRST_REPORTED = "accuracy on ImageNet-1K that somebody reported, and how: the first known of the columns that follow"
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
    Fact("n_registers", "whole number", "tokens beside class and patches", _recorded("architecture.n_registers")),
    Fact("native_px", "whole number", "side that its positions are for", _recorded("architecture.native_px"), "px"),
    Fact("size_step_px", "whole number", "sides are multiples of it", _recorded("architecture.size_step_px"), "px"),
    Fact("adapted_from", "text", "encoder that its training started from", _recorded("provenance.adapted_from")),
    Fact("superseded_by", "text", "encoder offered in its place", _recorded("provenance.superseded_by")),
    Fact("size_bytes", "whole number", "size of the file of weights", _recorded("weights.size_bytes"), "bytes"),
    Fact("n_errata", "whole number", _ERRATA, _n_errata, from_results=True),
    Fact("is_wrong", "true or false", _WRONG, _is_wrong, from_results=True),
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


def kinds() -> dict[str, Kind]:
    """Kind of every column by each of its names."""
    return {name: fact.kind for name, fact in _BY_ANY_NAME.items()}


def value_of(subject: Subject, name: str) -> Any:
    """The value of the column with that name, or why it is missing."""
    return _BY_ANY_NAME[name].of(subject)


def values(fact: Fact, among: Sequence[Subject]) -> list[Any]:
    """The values of one column for several encoders, quicker than one by one."""
    if not fact.field or not among:
        return [fact.of(subject) for subject in among]
    column = among[0].cards.column(fact.field)
    return [column[subject.id] if subject.id in column else fact.of(subject) for subject in among]


def find_fact(name: str) -> Fact:
    """The column with that name, in either spelling; UnknownName lists the nearest."""
    if name not in _BY_ANY_NAME:
        raise UnknownName("column", name, _BY_ANY_NAME, hint="Run 'zoo list --help-columns' to see them all.")
    return _BY_ANY_NAME[name]


def shown(fact: Fact, value: Any) -> str:
    """A value as a table shows it."""
    if value is NOT_APPLICABLE:
        return "-"
    if value is NOT_PUBLISHED:
        return "?"
    if value is NOT_RECORDED:
        return "."
    if isinstance(value, bool | tuple):
        return fact_text(value)
    if isinstance(value, float):
        return points(value) if fact.unit.startswith("percent") else f"{value:g}"
    if fact.name.endswith("n_parameters") or fact.name in ("size_bytes", "projection_nparameters"):
        return short_number(value)
    return str(value)


def cell(fact: Fact, subject: Subject) -> str:
    """The value of one encoder as a table shows it, marked where it is assumed or wrong."""
    value = fact.of(subject)
    if fact.is_reported and not isinstance(value, Missing | str):
        one = next(one for name, one in subject.reported.items() if PROTOCOLS[name].column == fact.name)
        return one.printed + _mark(one)  # with its printed digits
    text = shown(fact, value)
    if not fact.is_risk or isinstance(value, Missing):
        return text
    assumed = ASSUMED if fact.name == "approx" and subject.approximation_is_assumed else ""
    return text + assumed + (WRONG if subject.is_wrong else "")


def cells(fact: Fact, among: Sequence[Subject]) -> list[str]:
    """The values of several encoders as a table shows them, quicker than one by one."""
    if fact.is_risk or fact.is_reported:
        return [cell(fact, subject) for subject in among]
    return [shown(fact, value) for value in values(fact, among)]


def marks(facts: Iterable[Fact], among: Sequence[Subject]) -> list[str]:
    """What the marks of :func:`cell` in these columns of these encoders mean."""
    return marks_in({fact: cells(fact, among) for fact in facts})


def marks_in(table: Mapping[Fact, Sequence[str]]) -> list[str]:
    """What the marks in the columns of a table mean."""
    of_risks = [text for fact, texts in table.items() if fact.is_risk for text in texts]
    wrong = f"{WRONG}  measured wrongly: zoo show NAME says why, --exclude-wrong leaves it out"
    found = {ASSUMED: f"{ASSUMED}  assumed, not measured", WRONG: wrong}
    lines = [line for mark, line in found.items() if any(mark in text for text in of_risks)]
    others = [text for fact, texts in table.items() if fact.is_reported for text in texts]
    return lines + [line for mark, line in _OF_REPORTED.items() if any(mark in text for text in others)]


_OF_REPORTED = {
    REPORTED: f"{REPORTED}  an accuracy (higher is better) that somebody reported, by a recipe of their own: not ours",
    DOUBTFUL: f"{DOUBTFUL}  reported and doubtful: zoo show NAME says why",
}


def points(value: float) -> str:
    """Percent or percentage points with one decimal; never a negative zero.

    >>> points(24.56), points(-0.04)
    ('24.6', '0.0')
    """
    return f"{round(value, 1) + 0.0:.1f}"


def short_number(value: float) -> str:
    """A count in at most four characters and a letter.

    >>> [short_number(n) for n in (950, 23_508_032, 999_900_000, 1_011_223_040)]
    ['950', '23.5M', '1G', '1.01G']
    """
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= 0.9995 * size:  # from there on three digits round to 1000 of the smaller unit
            return f"{value / size:.3g}{letter}"
    return f"{value:g}"


def subjects(
    names: Iterable[str], *, with_risks: bool, exclude_wrong: bool = False, dataset: str | None = None
) -> list[Subject]:
    """Encoders by name, in that order, with risks on ImageNet-1K or another data set."""
    cards = catalogue()
    risks = summaries if dataset is None else partial(summaries, dataset=dataset)
    measured: Mapping[str, Summary] = risks() if with_risks else {}
    counting = risks(exclude_wrong=True) if with_risks and exclude_wrong else measured
    reported = ReportedByAll()
    return [Subject(one, cards, measured.get(one), counting.get(one), reported) for one in map(cards.id_of, names)]


def left_out(among: Iterable[Subject]) -> list[str]:
    """A note that names the encoders whose wrong measurements are left out."""
    names = [subject.id for subject in among if subject.is_wrong and subject.summary != subject.measured]
    return [f"measured wrongly and left out: {', '.join(names)}"] if names else []


def matching(words: Sequence[str]) -> list[str]:
    """Ids of encoders that all the words find, those meant first; all ids without a word."""
    cards = catalogue()
    return cards.finder.find(words) if any(word.strip() for word in words) else list(cards)


def parsed_condition(text: str) -> tuple[Condition, bool]:
    """The condition of ``--where``, and whether it reads results."""
    from .where import parse_condition

    condition = parse_condition(text, kinds())
    return condition, any(find_fact(name).from_results for name in condition.names)


def satisfying(condition: Condition, among: Sequence[Subject]) -> list[Subject]:
    """Encoders for which the condition is true."""
    return [subject for subject in among if condition.holds(partial(value_of, subject))]


def sorted_by(fact: Fact, among: Sequence[Subject], *, descending: bool) -> list[Subject]:
    """Encoders sorted by one column, texts without regard to case, missing values always last."""

    def key(subject: Subject) -> Any:
        value = fact.of(subject)
        if isinstance(value, str):
            return value.casefold()
        return value

    known = [subject for subject in among if not isinstance(fact.of(subject), Missing)]
    unknown = [subject for subject in among if isinstance(fact.of(subject), Missing)]
    return sorted(known, key=key, reverse=descending) + unknown


def named(patterns: Sequence[str], known: Collection[str]) -> list[str]:
    """Ids by name or glob, in the order of the patterns, each once; case does not matter."""
    from fnmatch import fnmatchcase

    by_folded = {encoder.casefold(): encoder for encoder in known}
    found: dict[str, None] = {}
    for pattern in patterns:
        folded = pattern.casefold()
        if folded in by_folded:
            found[by_folded[folded]] = None
            continue
        if folded.startswith(PLACES):  # of timm or the Hub
            found[own_id(catalogue().id_of(pattern))] = None
            continue
        if MARK in pattern:  # other features of an encoder have its weights
            found.update(dict.fromkeys(named([own_id(pattern)], known)))
            continue
        if not is_glob(pattern):
            near = catalogue().finder.nearest(pattern) if isinstance(known, Catalogue) else None
            raise UnknownName("encoder", pattern, known, hint=LIST, nearest=near)
        matching = [encoder for encoder in known if fnmatchcase(encoder.casefold(), folded)]
        if not matching:
            near = nearest_names(re.split(r"[*?[]", pattern)[0] or pattern, known)
            hint = f"near are: {', '.join(near)}." if near else "run 'zoo list' to see them all."
            raise NothingFound(f"No encoder has a name like {pattern!r}; {hint}")
        found.update(dict.fromkeys(matching))
    return list(found)


def chosen(names: Sequence[str], condition: str | None) -> list[EncoderCard]:
    """The cards that names, globs and a condition select; a usage error if there is neither names nor condition."""
    cards = catalogue()
    if not names and condition is None:
        raise click.UsageError("Got no name, expected encoders or globs such as 'dino_*', or --where.")
    ids = named(names, cards) if names else list(cards)
    if condition is not None:
        from .facts import satisfying, subjects

        parsed, reads_results = parsed_condition(condition)
        among = subjects(ids, with_risks=reads_results)
        ids = [subject.id for subject in satisfying(parsed, among)]
        if not ids:
            raise NothingFound(f"No encoder {'of these ' if names else ''}satisfies {condition}.")
    return [cards[name] for name in ids]
