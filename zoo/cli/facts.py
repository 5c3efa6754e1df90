"""Values of columns in tables, with marks and legend; risks and errata; encoders by name, glob or condition."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..cards.catalogue import LIST, PLACES, RULES, Catalogue, load_catalogue
from ..cards.content_cache import load_cached_content, read_stamp
from ..cards.licences import shorten_licence
from ..cards.representations import MARK, get_base_id
from ..cards.schema import NOT_APPLICABLE, NOT_PUBLISHED, NOT_RECORDED, EncoderCard, Missing, format_fact
from ..cards.search import is_glob
from ..errors import ResultsError, StoreError, UnknownName, find_nearest_names
from ..files import get_user_folder, list_content_names, read_contents
from ..results.facts import (
    DOUBTFUL,
    REPORTED,
    Fact,
    Subject,
    find_numbers_by_others,
    format_points,
    format_short_number,
    get_column_values,
    list_subjects,
    mark_reported,
    parse_condition,
    select_satisfying,
)
from ..results.reported_values import PROTOCOLS
from ..results.rows import open_stored_rows
from ..results.values import AUTHORS, EXPECTED, SETTINGS, ResultErratum, Summary
from .output import NothingFound, make_record

if TYPE_CHECKING:
    from ..choosing.expectations import ExpectedError

LEGEND = "-  does not apply    ?  not published, or not measured    .  not recorded"
EXPECTED_NOTE = f"(a-b)  {EXPECTED}, not measured; nine in ten such intervals hold the error"
_BEYOND_NOTE = "; <  extrapolated, the study measured none as low"
BEYOND_MARK = " <"
ASSUMED = "~"  # behind an approximation error that is zero by assumption
WRONG = "!"  # behind a risk, or the name of an encoder, that an erratum speaks of


def format_fact_cell(fact: Fact, value: Any) -> str:
    """A value as a table shows it."""
    if type(value) is str:  # most of them
        return shorten_licence(value)
    if value is NOT_APPLICABLE:
        return "-"
    if value is NOT_PUBLISHED:
        return "?"
    if value is NOT_RECORDED:
        return "."
    if isinstance(value, bool | tuple):
        return format_fact(value)
    if isinstance(value, float):
        return format_points(value) if fact.unit.startswith("percent") else f"{value:g}"
    if fact.name.endswith("n_parameters") or fact.name in ("size_bytes", "projection_nparameters"):
        return format_short_number(value)
    return str(value)


def list_protocol_notes(marks: Mapping[str, str]) -> list[str]:
    """A note on a table whose risks are by several protocols."""
    usual, *others = marks or [""]
    told = ", ".join(f"{marks[protocol]} by {protocol}" for protocol in others)
    return [f"{told}; unmarked by {usual}: numbers of two protocols do not compare (docs/probes.md)"] * bool(others)


def format_cell(fact: Fact, subject: Subject, protocols: Mapping[str, str]) -> str:
    """The value of one encoder as a table shows it, marked where it is assumed, wrong or by another protocol."""
    value = fact.of(subject)
    if fact.is_of_others and not isinstance(value, Missing):
        number = find_numbers_by_others(fact.name)[subject.id]
        return (
            f"{format_points(number.value)}{DOUBTFUL if number.doubt else REPORTED} {PROTOCOLS[number.protocol].short}"
        )
    if fact.is_reported and not isinstance(value, Missing | str):
        one = next(one for name, one in subject.reported.items() if PROTOCOLS[name].column == fact.name)
        return one.printed + mark_reported(one)  # with its printed digits
    text = format_fact_cell(fact, value)
    if not fact.is_risk or isinstance(value, Missing):
        return text
    assumed = ASSUMED if fact.name == "approx" and subject.approximation_is_assumed else ""
    return text + assumed + (WRONG if subject.is_wrong else "") + protocols.get(subject.protocol(fact), "")


def format_cells(fact: Fact, among: Sequence[Subject], protocols: Mapping[str, str]) -> list[str]:
    """The values of several encoders as a table shows them, quicker than one by one."""
    values, is_marked = get_column_values(fact, among), fact.is_risk or fact.is_reported
    return [
        format_cell(fact, subject, protocols)
        if is_marked and not isinstance(value, Missing)
        else format_fact_cell(fact, value)
        for subject, value in zip(among, values, strict=True)
    ]


def explain_marks(table: Mapping[Fact, Sequence[str]]) -> list[str]:
    """What the marks in the columns of a table mean."""
    of_risks = [text for fact, texts in table.items() if fact.is_risk for text in texts]
    wrong = f"{WRONG}  measured wrongly: zoo show NAME --all says why, --exclude-wrong leaves it out"
    found = {ASSUMED: f"{ASSUMED}  assumed, not measured", WRONG: wrong}
    lines = [line for mark, line in found.items() if any(mark in text for text in of_risks)]
    others = [text for fact, texts in table.items() if fact.is_reported for text in texts]
    lines += [line for mark, line in _OF_REPORTED.items() if any(mark in text for text in others)]
    names = [fact.name for fact in table if fact.is_of_others]
    return lines + [f"{', '.join(names)}: comparable within one protocol; zoo results --dataset has all"] * bool(names)


_OF_REPORTED = {
    REPORTED: f"{REPORTED}  an accuracy (higher is better) {AUTHORS} or others, by their own recipe",
    DOUBTFUL: f"{DOUBTFUL}  reported and doubtful: zoo show NAME --all says why",
}


def estimate_unmeasured(subjects: Sequence[Subject], n_labels: int = SETTINGS[0].n_labels) -> dict[str, ExpectedError]:
    """The errors to expect on ImageNet-1K of those that were not measured there, by id; of toy encoders none."""
    from ..choosing.expectations import estimate_errors  # and the model of errors, which other columns do without
    from ..choosing.ranking import ON_IMAGENET, is_of_pocket

    cards = {one.id: one.card for one in subjects if one.measured is None}
    cards = {name: card for name, card in cards.items() if not is_of_pocket(card)}
    return estimate_errors(cards, n_labels, 1_000, images=ON_IMAGENET)


def build_expected_record(one: ExpectedError) -> dict[str, Any]:
    """An expected error as JSON."""
    numbers = {"error": one.error, "interval": list(one.interval)}
    return {**numbers, "rests_on": one.basis, "how": one.how, "source": one.source}


def format_expected(expected: Mapping[str, ExpectedError], n_labels: int = SETTINGS[0].n_labels) -> dict[str, str]:
    """Expected errors as cells of a column of errors, told apart by their intervals.

    One is marked where the study measured no error as low with so many labels.
    """
    from ..choosing.expectations import find_best_measured

    lowest = find_best_measured(n_labels)[0] if expected else 0.0
    return {
        name: f"{format_points(one.error):>4} ({'-'.join(map(format_points, one.interval))})"
        + BEYOND_MARK * (one.error < lowest)
        for name, one in expected.items()
    }


def load_expected_cells(listed: Collection[Subject]) -> dict[str, str]:
    """The cells of errors to expect with all labels of those that were not measured, by id.

    Those of all encoders that are listed come from a copy, for every listing asks for them.
    """

    def make(sources: Mapping[Path, bytes]) -> dict[str, Any]:
        return {"cells": _make_expected_cells(list_subjects(load_catalogue(), with_risks=True))}

    unknown = [one for one in listed if one.measured is None]
    if not unknown:
        return {}
    shipped, own = open_stored_rows()  # which know the cards
    names = [*list_content_names("results", ".tsv"), *list_content_names("results", ".toml")]
    stored: dict[str, str] = load_cached_content(
        "expected",
        [*map(read_stamp, names)],
        (*RULES, "results", "analysis", "choosing", "cli/facts"),
        lambda: read_contents(map(Path, names), "results", ResultsError, []),
        make,
        of=get_user_folder(),
        beside="-".join([*load_catalogue().digests, shipped.digest, own.token if own else ""]),
    )["cells"]
    covered = {*load_catalogue()}
    return {one.id: stored[one.id] for one in unknown if one.id in stored} | _make_expected_cells(
        [one for one in unknown if one.id not in covered]
    )


def _make_expected_cells(several: Sequence[Subject]) -> dict[str, str]:
    return format_expected(estimate_unmeasured(several)) if several else {}


def list_expected_notes(cells: Iterable[str]) -> list[str]:
    """What the intervals and marks of expected errors in a table mean."""
    found = [cell for cell in cells if cell.endswith((")", ")" + BEYOND_MARK))]
    beyond = any(cell.endswith(BEYOND_MARK) for cell in found)
    return [EXPECTED_NOTE + _BEYOND_NOTE * beyond] * bool(found)


def list_older_parts_notes(known: Iterable[Summary | None]) -> list[str]:
    """Notes on components that are of another measurement than the errors next to them."""
    return [one.older_parts for one in known if one is not None and one.older_parts]


def describe_left_out_encoders(among: Iterable[Subject]) -> list[str]:
    """A note that names the encoders whose wrong measurements are left out."""
    names = [subject.id for subject in among if subject.is_wrong and subject.summary != subject.measured]
    return [f"measured wrongly and left out: {', '.join(names)}"] if names else []


OF_EXPERIMENTS = "encoders of an experiment, which are listed only when asked for by name or --family"

PART_HEADS = {  # metric -> head of its column
    "approximation": "approx",
    "usability": "usability",
    "approximation_plus_usability": "approx+usab.",
    "probe_generalization": "probe_gen",
    "encoder_generalization": "enc_gen",
}


def list_distrust_notes(encoder: str, errata: Sequence[ResultErratum]) -> list[str]:
    """Why the measurements of an encoder are doubtful, a line an erratum."""
    return [f"{WRONG}  {encoder} ({erratum.kind}): {erratum.reason}" for erratum in errata]


def build_errata_records(errata: Sequence[ResultErratum]) -> list[dict[str, Any]]:
    """Errata of measurements as JSON."""
    return [
        {"metric": erratum.metric, "kind": erratum.kind, "reason": erratum.reason, "exclude": erratum.exclude}
        for erratum in errata
    ]


def build_risk_record(summary: Summary) -> dict[str, Any]:
    """The risks as JSON, under the published names of their columns."""
    parts = summary.decomposition
    values: dict[str, Any] = {setting.column: summary.errors.get(setting.name, NOT_PUBLISHED) for setting in SETTINGS}
    values["approx"] = parts.approximation if parts else NOT_PUBLISHED
    values["usability"] = parts.usability if parts else NOT_PUBLISHED
    values["approx_plus_usability"] = parts.approximation_plus_usability if parts else NOT_PUBLISHED
    values["probe_gen"] = parts.probe_generalization if parts else NOT_PUBLISHED
    values["enc_gen"] = parts.encoder_generalization if parts else NOT_PUBLISHED
    assumed = parts is not None and parts.approximation_assumed
    of_parts = summary.campaign_of_parts
    campaigns: dict[str, Any] = {"protocol": summary.campaign.protocol, "source": summary.campaign.source}
    campaigns |= {"protocol_of_parts": of_parts and of_parts.protocol, "source_of_parts": of_parts and of_parts.source}
    return {
        **make_record(values),
        "approx_is_assumed": assumed,
        **campaigns,
        "errata": build_errata_records(summary.errata),
    }


def search_encoders(words: Sequence[str], families: Sequence[str] = ()) -> list[str]:
    """Ids of encoders of these families that all the words find, those meant first; all ids without either.

    Encoders of experiments are found by their family, or by words that are in their id or family and find no other.
    """
    cards = load_catalogue()
    if families:
        kept = list_family_members(families)
        return [encoder for encoder in search_cards(cards.with_unlisted, words) if encoder in kept]
    family_of, parts = cards.with_unlisted.column("family"), " ".join(words).casefold().split()
    return search_cards(cards, words) or [
        encoder
        for encoder in search_cards(cards.with_unlisted, words)
        if any(is_glob(part) or part in f"{encoder} {family_of[encoder]}".casefold() for part in parts)
    ]


def list_family_members(families: Iterable[str]) -> set[str]:
    """Ids of all encoders of these families, also of those of experiments; UnknownName if there is no such family."""
    family_of = load_catalogue().with_unlisted.column("family")
    known = {name.casefold(): name for name in family_of.values()}
    for name in families:
        if name.casefold() not in known:
            raise UnknownName("family", name, known.values(), hint="'zoo list --families' names them all.")
    wanted = {known[name.casefold()] for name in families}
    return {encoder for encoder, family in family_of.items() if family in wanted}


def describe_only_experiments(encoders: Collection[str]) -> str:
    """A sentence on what none but these encoders of experiments meet, from behind the first words."""
    families = dict.fromkeys(load_catalogue()[encoder].family for encoder in encoders)
    options = " ".join(f"--family {family}" for family in families)
    return f"but {len(encoders)} of an experiment; {options} shows {'them' if len(encoders) > 1 else 'it'}."


def search_cards(cards: Catalogue, words: Sequence[str]) -> list[str]:
    """Ids that these cards list and all the words find; all of them without a word."""
    return cards.finder.find(words) if any(word.strip() for word in words) else list(cards)


def list_experiment_notes(encoders: Iterable[str]) -> list[str]:
    """A note for a listing in which encoders of experiments are."""
    lists = load_catalogue().lists
    return [] if all(map(lists, encoders)) else [OF_EXPERIMENTS]


def match_encoder_ids(patterns: Sequence[str], known: Collection[str]) -> list[str]:
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
            found[get_base_id(load_catalogue().id_of(pattern))] = None
            continue
        if MARK in pattern:  # other features of an encoder have its weights
            found.update(dict.fromkeys(match_encoder_ids([get_base_id(pattern)], known)))
            continue
        if not is_glob(pattern) and isinstance(known, Catalogue) and pattern in known:
            found[known.id_of(pattern)] = None
            continue
        if not is_glob(pattern):
            near = load_catalogue().finder.nearest(pattern) if isinstance(known, Catalogue) else None
            raise UnknownName("encoder", pattern, known, hint=LIST, nearest=near)
        matching = [encoder for encoder in known if fnmatchcase(encoder.casefold(), folded)]
        if not matching and isinstance(known, Catalogue):  # encoders of experiments are found by what finds no other
            matching = [encoder for encoder in known.with_unlisted if fnmatchcase(encoder.casefold(), folded)]
        if not matching:
            near = find_nearest_names(re.split(r"[*?[]", pattern)[0] or pattern, known)
            hint = f"near are: {', '.join(near)}." if near else "run 'zoo list' to see them all."
            raise NothingFound(f"No encoder has a name like {pattern!r}; {hint}")
        found.update(dict.fromkeys(matching))
    return list(found)


def select_cards(names: Sequence[str], condition: str | None) -> list[EncoderCard]:
    """The cards that names, globs and a condition select; a usage error if there is neither names nor condition."""
    cards = load_catalogue()
    if not names and condition is None:
        raise click.UsageError("Got no name, expected encoders or globs such as 'dino_*', or --where.")
    ids = match_encoder_ids(names, cards) if names else list(cards)
    if condition is not None:
        parsed, reads_results = parse_condition(condition)
        among = list_subjects(ids, with_risks=reads_results)
        ids = [subject.id for subject in select_satisfying(parsed, among)]
        if not ids:
            raise NothingFound(f"No encoder {'of these ' if names else ''}satisfies {condition}.")
    return [cards[name] for name in ids]


def fetch_converted_weights(card: EncoderCard) -> Any:
    """Where the converted weights of a trained encoder are; see :func:`zoo.loading.find_cached_weights`."""
    from ..encoders import build_encoder
    from ..loading import find_cached_weights, list_weights_sources, load
    from ..weights.locations import get_weights_folder

    choices = list_weights_sources(card, build_encoder(card, device="meta"))
    found = find_cached_weights(choices)
    if found is None:
        load(card.id)
        found = find_cached_weights(choices)
    if found is None:
        raise StoreError(
            f"The weights of {card.id!r} load, but are not kept: {get_weights_folder()} cannot be written; set "
            "ZOO_CACHE to a folder that can be written."
        )
    return found
