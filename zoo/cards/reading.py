"""Reads card files: merges defaults, ``like`` and the encoder's facts, and checks cards against the schema.

Merged facts are checked against the annotations of :mod:`zoo.cards.schema`, for what those cannot express (ranges,
licences, hashes, errata), and cards against each other (shared weights). Every refusal is one sentence: file, encoder,
field, what it holds, what was expected.
"""

from __future__ import annotations

import math
import re
import tomllib
import types
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, NoReturn, TypeAlias, Union, get_args, get_origin, get_type_hints

from ..errors import CardError, find_nearest_names
from ..optional import require_extra
from .licences import LICENCES, parse_licence_ids
from .schema import LINEAGE, EncoderCard, Missing, Preprocess, list_named_encoders

Facts = dict[str, Any]

MISSING_WORDS = tuple(reason.value for reason in Missing)
_NONE, _NOT_RECORDED = Missing.NOT_APPLICABLE.value, Missing.NOT_RECORDED.value
_HINTS = get_type_hints(EncoderCard)
PARTS = {name: hint for name, hint in _HINTS.items() if isinstance(hint, type) and is_dataclass(hint)}
_HINTS_OF = {part: get_type_hints(part) for part in PARTS.values()}  # once, for it takes as long as all checks
TOP_LEVEL = {*PARTS, "released", "errata"}
_RESERVED = {"metadata_dict", "metadata_df", "results_df", "dependencies"}  # entry points of torch.hub
_LARGEST = 2**63 - 1  # tables keep whole numbers in 64 bits
_AT_LEAST_1 = {
    "architecture.n_parameters", "architecture.patch_size_px", "representation.dim", "pretraining.epochs",
    "pretraining.batch_size", "pretraining.n_processors", "pretraining.n_images", "pretraining.n_samples_seen",
    "preprocess.resize_px", "preprocess.crop_px", "weights.size_bytes", "architecture.native_px",
    "architecture.size_step_px",
}  # fmt: skip
_ABOVE_0 = {"preprocess.std"}
_MAY_BE_EMPTY = {"architecture.options", "weights.mirrors", "weights.companions"}
_DEFAULTS = {f"preprocess.{field.name}": field.default for field in fields(Preprocess) if field.default is not MISSING}
_FITTING: set[tuple[Any, ...]] = set()  # part, field, type and value of facts that were checked
_SPDX = ("licence.code", "licence.weights")


def check_id(where: str, encoder: str) -> None:
    """Refuses an id that is no Python name, for torch.hub makes an attribute of it."""
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", encoder) or encoder in _RESERVED:
        raise CardError(
            f"{where}: found the id {quote_value(encoder)}, expected letters, digits and '_' after a letter, and none "
            f"of {', '.join(sorted(_RESERVED))}."
        )


def check_facts(where: str, merged: Facts) -> Facts:
    """The checked facts of an encoder in the order of the schema."""
    unknown = set(merged) - TOP_LEVEL
    if unknown:
        _refuse_unknown(where, min(unknown), TOP_LEVEL)
    checked: Facts = {}
    for part, kind in PARTS.items():
        table = merged.get(part, {})
        if not isinstance(table, dict):
            raise CardError(f"{where}, field {part!r}: found {quote_value(table)}, expected a table.")
        checked[part] = _check_part(where, part, table, kind)
    _add_what_follows(checked)
    checked["released"] = _check_released(where, merged)
    checked["errata"] = _check_errata(where, merged.get("errata", []))
    _check_licences(where, checked)
    for name, n_digits in (("sha256", 64), ("revision", 40)):
        value = checked["weights"][name]
        if value not in MISSING_WORDS and not re.fullmatch(f"[0-9a-f]{{{n_digits}}}", value):
            _refuse(f"{where}, field 'weights.{name}'", value, f"{n_digits} hexadecimal digits in lower case")
    url, sha256 = checked["weights"]["url"], checked["weights"]["sha256"]
    if url.startswith("package:") and sha256 in MISSING_WORDS:
        _refuse(f"{where}, field 'weights.sha256'", sha256, "the hash of the file, for packages change without notice")
    mean, std = checked["preprocess"]["mean"], checked["preprocess"]["std"]
    if len(mean) != len(std) or not mean:
        _refuse(
            f"{where}, field 'preprocess.std'", std, f"as many numbers as 'preprocess.mean' has channels, {len(mean)}"
        )
    return checked


def describe_expected(hint: Any) -> str:
    """The values that a field takes, in words, from its annotation."""
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return " or ".join(describe_expected(option) for option in get_args(hint))
    if hint is Missing:
        return "one of the words " + ", ".join(map(repr, MISSING_WORDS))
    if origin is Literal:
        return "one of " + ", ".join(map(repr, get_args(hint)))
    if origin is tuple:
        items = get_args(hint)
        many = "a list, each item" if items[-1] is Ellipsis else f"a list of {len(items)}, each item"
        return f"{many} {describe_expected(items[0])}"
    names = {int: "a whole number", float: "a number", str: "a text", bool: "true or false", dict: "a table"}
    return names[origin or hint]


def quote_value(value: Any) -> str:
    """A value as a message quotes it."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _check_part(where: str, part: str, table: Facts, kind: type) -> Facts:
    hints = _HINTS_OF[kind]
    names = [field.name for field in fields(kind)]
    unknown = set(table) - set(names)
    if unknown:
        _refuse_unknown(where, f"{part}.{min(unknown)}", {f"{part}.{name}" for name in names})
    stated = {name: table[name] if name in table else _unstated(f"{part}.{name}", hints[name]) for name in names}
    for name, value in stated.items():
        seen = (kind, name, type(value), value) if isinstance(value, str | int | float) else None
        if seen in _FITTING:  # nine in ten facts are those of another card
            continue
        here = f"{where}, field '{part}.{name}'"
        if value is None:
            raise CardError(f"{here}: found nothing, expected {describe_expected(hints[name])}.")
        _check_value(here, value, hints[name], f"{part}.{name}")
        if seen is not None:
            _FITTING.add(seen)
    return stated


def _add_what_follows(facts: Facts) -> None:
    """States the facts that nobody need write down, for they follow from others of the card."""
    weights, pretraining, architecture = facts["weights"], facts["pretraining"], facts["architecture"]
    place = str(weights["url"]).partition(":")[0]
    follows = [
        (weights, "gate", weights["availability"] in ("open", "gone", "unfit", _NONE)),
        (weights, "revision", place not in ("hf", "timm")),
        (weights, "same_file_as", True),
        (weights, "authors_url", place != "timm"),
        (weights, "authors_availability", place != "timm"),
        (facts["licence"], "timm", place != "timm"),
        (architecture, "n_registers", architecture["patch_size_px"] == _NONE),
        (architecture, "native_px", architecture["patch_size_px"] == _NONE),
        (pretraining, "magnification", pretraining["domain"] == "natural"),
        (facts["representation"], "order", "+" not in facts["representation"]["layer"]),
    ]
    for part, name, is_so in follows:
        if is_so and part[name] == _NOT_RECORDED:
            part[name] = _NONE
    stages = [pretraining["dataset"], pretraining["finetuning_dataset"]]
    if pretraining["image_sets"] == _NOT_RECORDED and not {_NOT_RECORDED, Missing.NOT_PUBLISHED.value} & {*stages}:
        named = [name for stage in stages if stage != _NONE for name in re.split(r" then | \+ ", stage)]
        pretraining["image_sets"] = list(dict.fromkeys(named)) or _NONE


def _unstated(field: str, hint: Any) -> Any:
    """What a fact is that no table states: nothing of what may be empty, not recorded if it may be without a value."""
    if field in _DEFAULTS:
        return _DEFAULTS[field]
    if field in _MAY_BE_EMPTY:
        return {} if field == "architecture.options" else []
    return _NOT_RECORDED if Missing in get_args(hint) else None


def _check_value(here: str, value: Any, hint: Any, field: str) -> None:
    if not _fits(value, hint):
        _refuse(here, value, describe_expected(hint))
    for number in value if isinstance(value, list) else [value]:
        if isinstance(number, (int, float)) and not isinstance(number, bool):
            _check_number(here, number, field)


def _check_number(here: str, number: float, field: str) -> None:
    if not math.isfinite(number) or number > _LARGEST:
        _refuse(here, number, "a finite number of at most 64 bits")
    if field in _AT_LEAST_1 and number < 1:
        _refuse(here, number, "a whole number from 1")
    if number < 0 or (field in _ABOVE_0 and number == 0):
        _refuse(here, number, f"a number {'above' if field in _ABOVE_0 else 'from'} 0")
    if field.startswith("reported.") and number > 100:
        _refuse(here, number, "a percentage from 0 to 100")


def _fits(value: Any, hint: Any) -> bool:
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return any(_fits(value, option) for option in get_args(hint))
    if hint is Missing:
        return isinstance(value, str) and value in MISSING_WORDS
    if origin is Literal:
        return value in get_args(hint)
    if origin is tuple:
        items = get_args(hint)
        if not isinstance(value, list) or (items[-1] is not Ellipsis and len(value) != len(items)):
            return False
        return all(_fits(item, items[0]) for item in value)
    if origin is dict:  # only architecture.options: keyword arguments of a constructor
        return isinstance(value, dict) and all(
            isinstance(item, (bool, int, float, str))
            for listed in value.values()
            for item in (listed if isinstance(listed, list) else [listed])
        )
    if hint is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if hint is str:
        return isinstance(value, str) and value.strip() != "" and value not in MISSING_WORDS
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, hint)


def _check_released(where: str, merged: Facts) -> str:
    value = merged.get("released", _NOT_RECORDED)
    if isinstance(value, str) and (value in MISSING_WORDS or re.fullmatch(r"(19|20)[0-9]{2}-(0[1-9]|1[0-2])", value)):
        return value
    _refuse(f"{where}, field 'released'", value, "a month like '2021-04' or 'not published'")


def _check_errata(where: str, errata: Any) -> list[Facts]:
    if not isinstance(errata, list):
        _refuse(f"{where}, field 'errata'", errata, "a list of tables")
    for number, erratum in enumerate(errata, start=1):
        here = f"{where}, erratum {number}"
        if not isinstance(erratum, dict) or set(erratum) != {"field", "published", "reason"}:
            _refuse(here, erratum, "the keys field, published and reason")
        field, reason = erratum["field"], erratum["reason"]
        part, _, name = str(field).partition(".")
        hint: Any = None
        if part in PARTS:
            hint = _HINTS_OF[PARTS[part]].get(name) if name else str  # of a whole part: a description
        elif field == "released":
            hint = str
        if hint is None:
            _refuse(f"{here}, 'field'", field, "a field or a part of a card")
        _check_value(f"{here}, 'published' of {field}", erratum["published"], hint | Missing, str(field))
        _check_value(f"{here}, 'reason'", reason, str, "")
    return list(errata)


def _check_licences(where: str, facts: Facts) -> None:
    with require_extra("models", needed_for="Checking the licences of cards"):  # torch.hub installs no dependencies
        from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression

    for field in _SPDX:
        value = facts["licence"][field.partition(".")[2]]
        if value in MISSING_WORDS:
            continue
        here = f"{where}, field {field!r}"
        try:
            canonical = canonicalize_license_expression(value)
        except InvalidLicenseExpression:
            canonical = None
        if canonical != value:
            near = canonical or next(iter(find_nearest_names(value, LICENCES, n=1)), None)
            advice = f"such as {near!r}" if near else "such as 'MIT' or 'CC-BY-NC-4.0'"
            own = "" if canonical else ", 'LicenseRef-NAME' for terms of one's own, or 'not published'"
            _refuse(here, value, f"an SPDX licence id {advice}{own}")
        for name in parse_licence_ids(value):
            if name not in LICENCES and (known := _SPELT.get(_bare(name))):
                _refuse(here, value, f"{known!r} in its own spelling")


def _bare(licence: str) -> str:
    return re.sub("[^a-z0-9]", "", licence.casefold())


_SPELT = {_bare(name): name for name in LICENCES}  # other spellings would be terms of one's own


def _refuse(here: str, found: object, expected: str) -> NoReturn:
    raise CardError(f"{here}: found {quote_value(found)}, expected {expected}.")


def _refuse_unknown(where: str, key: str, known: set[str]) -> NoReturn:
    close = find_nearest_names(key, known, n=1)
    raise CardError(f"{where}: unknown field {key!r}{f', expected perhaps {close[0]!r}' if close else ''}.")


_REGISTERED = "zoo:"  # scheme of registered weights, of which two processes may make two cards at once
DERIVED = "derived"
"""Folder next to card files with what a script writes; each of its files belongs to the card file of its name."""
Shipped: TypeAlias = Mapping[str, tuple[Path, str]]
"""By id the card file of an encoder that is checked already, and its ``weights.url``."""


def parse_cards(sources: Mapping[Path, bytes], shipped: Shipped | None = None) -> tuple[dict[str, Facts], list[str]]:
    """Checked facts by encoder id, and a sentence for each card or file that is wrong and left out.

    ``sources`` is the content of card files. Without ``shipped`` they are the shipped ones, which must all be right;
    with it they are the user's, in addition to those encoders.
    """
    refused: list[str] = []
    files = _CardFiles(sources, shipped, refused)
    cards: dict[str, Facts] = {}
    for encoder in files.own:
        path = files.of[encoder]
        with files.refusing():
            family = files.document(path).get("family", path.stem)
            facts = check_facts(f"{path}: encoder {encoder!r}", files.merged(encoder))
            listed = files.document(path).get("listed", True)
            cards[encoder] = {"id": encoder, "family": family, "listed": listed, "file": str(path), **facts}
    _check_together(cards, files, shipped or {})
    return cards, refused


class _CardFiles:
    """The parsed documents, and which of them defines which encoder; shipped ones are parsed when needed."""

    def __init__(self, sources: Mapping[Path, bytes], shipped: Shipped | None, refused: list[str]) -> None:
        self.refused = refused
        self.of: dict[str, Path] = {encoder: path for encoder, (path, _) in (shipped or {}).items()}
        self.own: list[str] = []
        self._must_be_right = shipped is None
        self._sources = sources
        self._documents: dict[Path, Facts] = {}
        for path, content in sources.items():
            with self.refusing():
                self._documents[path] = _document(path, content)
        folded = {encoder.casefold(): encoder for encoder in self.of}
        for path, document in list(self._documents.items()):
            if path.parent.name == DERIVED:
                with self.refusing():
                    if path.parents[1] / path.name not in sources:
                        above = path.parents[1] / path.name
                        raise CardError(f"{path}: found no card file {above}, expected one of its name.")
                continue
            for encoder in dict.fromkeys([*self._derived(path), *document.get("encoders", ())]):
                with self.refusing():
                    check_id(str(path), encoder)
                    other = folded.setdefault(encoder.casefold(), encoder)
                    if other in self.of:
                        raise CardError(
                            f"{path}: encoder {encoder!r} is already defined as {other!r} in {self.of[other]} "
                            "(ids are compared without case); give one of them another id."
                        )
                    self.of[encoder] = path
                    self.own.append(encoder)

    @contextmanager
    def refusing(self) -> Iterator[None]:
        """Ends the block at a CardError; one in the user's files is noted, and others are raised."""
        try:
            yield
        except CardError as error:
            if self._must_be_right:
                raise
            self.refused.append(f"{str(error).removesuffix('.')}; it is left out.")

    def document(self, path: Path) -> Facts:
        """A parsed card file."""
        if path not in self._documents:
            self._documents[path] = _document(path, path.read_bytes())
        return self._documents[path]

    def _derived(self, path: Path) -> Facts:
        """What a script has derived for a card file, by encoder."""
        beside = path.parent / DERIVED / path.name
        is_there = beside in self._documents or (path not in self._sources and beside.exists())
        derived: Facts = self.document(beside).get("encoders", {}) if is_there else {}
        return derived

    def merged(self, encoder: str, above: tuple[str, ...] = ()) -> Facts:
        """All facts of an encoder, unchecked.

        Those of the one it is like, what was derived, the file's defaults, those of its table: later ones win. The
        defaults of a file come in once: an encoder that is like a neighbour has them through that neighbour.
        """
        path = self.of[encoder]
        document = self.document(path)
        table, derived = document.get("encoders", {}).get(encoder, {}), self._derived(path).get(encoder, {})
        for facts_of_it in (table, derived):
            if not isinstance(facts_of_it, dict):
                raise CardError(
                    f"{path}: encoder {encoder!r} is {quote_value(facts_of_it)}, expected a table of facts."
                )
        like = table.get("like")
        facts: Facts = {}
        if like is not None:
            above = (*above, encoder)
            if not isinstance(like, str) or like not in self.of or like in above:
                raise CardError(
                    f"{path}: encoder {encoder!r}, field 'like': found {quote_value(like)}, "
                    "expected the id of another encoder, without a circle."
                )
            facts = self.merged(like, above)
        _merge(facts, derived)
        if like is None or self.of[like] != path:
            _merge(facts, document.get("defaults", {}))
        _merge(facts, {key: value for key, value in table.items() if key != "like"})
        return facts


def _document(path: Path, content: bytes) -> Facts:
    try:
        document = tomllib.loads(content.decode("utf-8-sig"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise CardError(f"{path} is not readable as TOML ({error}); correct the file or restore it.") from error
    unknown = set(document) - {"family", "listed", "derive", "defaults", "encoders"}
    if unknown:
        raise CardError(
            f"{path}: unknown table {min(unknown)!r}, expected only family, listed, [derive], [defaults] and "
            "[encoders.ID]."
        )
    if not isinstance(document.get("listed", True), bool):
        raise CardError(
            f"{path}: 'listed' is {quote_value(document['listed'])}, expected true, or false for an experiment."
        )
    family = document.get("family", "name")
    if not isinstance(family, str) or not re.fullmatch(r"[a-z0-9_]+", family):
        raise CardError(f"{path}: 'family' is {quote_value(family)}, expected lower-case letters, digits and '_'.")
    for name in ("derive", "defaults", "encoders"):
        if not isinstance(document.get(name, {}), dict):
            raise CardError(f"{path}: {name!r} is {quote_value(document[name])}, expected a table.")
    if not document.get("encoders") and "derive" not in document:
        raise CardError(f"{path}: holds no encoder, expected at least one table [encoders.ID].")
    return document


def _merge(into: Facts, table: Facts) -> None:
    """Lays a table over facts: tables add to tables, errata to errata; any other value replaces the one below."""
    for key, value in table.items():
        below = into.get(key)
        if key == "errata" and isinstance(value, list) and isinstance(below, list):
            fields = [erratum.get("field") for erratum in value if isinstance(erratum, dict)]
            others = [old for old in below if not isinstance(old, dict) or old.get("field") not in fields]
            into[key] = others + deepcopy(value)
        elif key != "options" and isinstance(value, dict) and isinstance(below, dict):
            _merge(below, value)
        else:
            into[key] = value if isinstance(value, str) else deepcopy(value)


def _check_together(cards: dict[str, Facts], files: _CardFiles, shipped: Shipped) -> None:
    """Refuses two encoders with one file unless a card says so, and wrong lineages; removes them from ``cards``."""
    n_before = -1
    while n_before != len(cards):  # again without what was refused, for another card may name it
        n_before = len(cards)
        url_of = {encoder: url for encoder, (_, url) in shipped.items()}
        url_of |= {encoder: facts["weights"]["url"] for encoder, facts in cards.items()}
        first_with: dict[str, str] = {}
        for encoder, (_, url) in shipped.items():
            first_with.setdefault(url, encoder)
        for encoder, facts in list(cards.items()):
            n_refused = len(files.refused)
            with files.refusing():
                where = f"{files.of[encoder]}: encoder {encoder!r}"
                _check_weights_of(where, encoder, facts, url_of, first_with)
                _check_lineage(where, encoder, cards, url_of)
            if len(files.refused) > n_refused:
                del cards[encoder]


def _check_lineage(where: str, encoder: str, cards: Mapping[str, Facts], known: Collection[str]) -> None:
    """Refuses a forebear that nobody knows, and an encoder that descends from itself."""
    for place in LINEAGE:
        for name in list_named_encoders(cards[encoder]["provenance"][place]):
            here = f"{where}, field 'provenance.{place}'"
            if name not in known and (place == "adapted_from" or name.isidentifier()):
                _refuse(here, name, "the id of another encoder; names of those without a card have a space or '-'")
            above = [name]
            for one in above:
                if one == encoder:
                    _refuse(here, name, "an encoder that does not descend from this one")
                said = [cards[one]["provenance"][up] for up in LINEAGE] if one in cards else []
                above += [grand for names in said for grand in list_named_encoders(names) if grand not in above]


def _check_weights_of(
    where: str, encoder: str, facts: Facts, url_of: Mapping[str, str], first_with: dict[str, str]
) -> None:
    same, url = facts["weights"]["same_file_as"], facts["weights"]["url"]
    if same not in MISSING_WORDS:
        if url_of.get(same) != url:
            raise CardError(
                f"{where}, field 'weights.same_file_as': found {same!r}, "
                "expected an encoder whose weights.url is the same."
            )
        return
    if url in MISSING_WORDS or url.startswith(_REGISTERED):
        return
    explained = any(erratum["field"] in ("weights", "weights.url") for erratum in facts["errata"])
    if url in first_with and not explained:
        raise CardError(
            f"{where}, field 'weights.url': found the file that {first_with[url]!r} has already, "
            "expected another one, 'weights.same_file_as' or an erratum."
        )
    first_with.setdefault(url, encoder)
