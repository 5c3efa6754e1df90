"""Checks card files against the schema of :mod:`zoo.metadata` and merges defaults, ``like`` and own facts.

Every refusal is one sentence: file, encoder, field, what was found, what was expected.
"""

from __future__ import annotations

import tomllib
import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from .errors import CardError, MissingExtra, nearest_names
from .metadata import EncoderCard, Missing

_MISSING_WORDS = tuple(reason.value for reason in Missing)
_OWN_KEYS = {"like", "errata"}
_DERIVED = {"id", "family"}
_HINTS = get_type_hints(EncoderCard)
_PARTS = {name: hint for name, hint in _HINTS.items() if isinstance(hint, type) and is_dataclass(hint)}
_SPDX_FIELDS = ("licence.code", "licence.weights")

Facts = dict[str, Any]


def parse_cards(sources: Mapping[Path, bytes]) -> dict[str, Facts]:
    """Checked facts by encoder id, from the content of card files.

    Raises
    ------
    CardError
        At the first card that breaks the schema.
    """
    cards: dict[str, Facts] = {}
    owner: dict[str, tuple[str, Path]] = {}  # folded id -> id, file
    for path, content in sources.items():
        for encoder, facts in _parse_file(path, content).items():
            folded = encoder.casefold()
            if folded in owner:
                other, elsewhere = owner[folded]
                raise CardError(
                    f"{path.name}: encoder {encoder!r} is already defined as {other!r} in {elsewhere.name} "
                    "(ids are compared without case); give one of them another id."
                )
            owner[folded] = (encoder, path)
            cards[encoder] = facts
    _check_shared_weights(cards)
    return cards


def _parse_file(path: Path, content: bytes) -> dict[str, Facts]:
    try:
        document = tomllib.loads(content.decode("utf-8"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise CardError(f"{path.name} is not readable as TOML ({error}); correct the file or restore it.") from error
    unknown = set(document) - {"defaults", "encoders"}
    if unknown:
        raise CardError(f"{path.name}: unknown table {min(unknown)!r}, expected only [defaults] and [encoders.ID].")
    encoders = document.get("encoders", {})
    if not isinstance(encoders, dict) or not encoders:
        raise CardError(f"{path.name}: holds no encoder, expected at least one table [encoders.ID].")
    return {encoder: _facts(path, encoder, document) for encoder in encoders}


def _facts(path: Path, encoder: str, document: Facts) -> Facts:
    """Merged and checked facts of one encoder."""
    chain = _like_chain(path, encoder, document["encoders"])
    merged: Facts = {"errata": []}
    for table in [document.get("defaults", {}), *(document["encoders"][name] for name in chain)]:
        if not isinstance(table, dict):
            raise CardError(f"{path.name}: encoder {encoder!r} is {_shown(table)}, expected a table of facts.")
        _merge(merged, {key: value for key, value in table.items() if key != "like"})
    where = f"{path.name}: encoder {encoder!r}"
    unknown = set(merged) - (set(_HINTS) - _DERIVED) - _OWN_KEYS
    if unknown:
        _refuse_unknown(where, min(unknown), set(_HINTS) - _DERIVED)
    checked: Facts = {"id": encoder, "family": path.stem}
    for part, kind in _PARTS.items():
        table = merged.get(part, {})
        if not isinstance(table, dict):
            raise CardError(f"{where}, field {part!r}: found {_shown(table)}, expected a table.")
        checked[part] = _check_part(where, part, table, kind)
    checked["released"] = _check_released(where, merged)
    checked["errata"] = _check_errata(where, merged["errata"])
    _check_licences(where, checked)
    return checked


def _like_chain(path: Path, encoder: str, encoders: Facts) -> list[str]:
    """The encoders whose facts are laid over each other, the farthest first."""
    chain = [encoder]
    while isinstance(encoders[chain[0]], dict) and "like" in encoders[chain[0]]:
        like = encoders[chain[0]]["like"]
        if like not in encoders or like in chain:
            raise CardError(
                f"{path.name}: encoder {chain[0]!r}, field 'like': found {_shown(like)}, "
                "expected the id of another encoder of the same file, without a circle."
            )
        chain.insert(0, like)
    return chain


def _merge(into: Facts, table: Facts) -> None:
    for key, value in table.items():
        if key == "errata" and isinstance(value, list):
            overruled = {erratum.get("field") for erratum in value if isinstance(erratum, dict)}
            into[key] = [old for old in into.get(key, []) if old.get("field") not in overruled] + value
        elif key != "options" and isinstance(value, dict) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        elif isinstance(value, dict):
            into[key] = {}
            _merge(into[key], value)
        else:
            into[key] = value


def _check_part(where: str, part: str, table: Facts, kind: type) -> Facts:
    hints = get_type_hints(kind)
    names = [field.name for field in fields(kind)]
    unknown = set(table) - set(names)
    if unknown:
        _refuse_unknown(where, f"{part}.{min(unknown)}", {f"{part}.{name}" for name in names})
    absent = [name for name in names if name not in table]
    if absent:
        raise CardError(
            f"{where}, field '{part}.{absent[0]}': found nothing, expected {expectation(hints[absent[0]])}; "
            "a fact without a value must say why."
        )
    for name in names:
        _check_type(f"{where}, field '{part}.{name}'", table[name], hints[name])
    return {name: table[name] for name in names}


def _check_type(where: str, value: Any, hint: Any) -> None:
    if not _fits(value, hint):
        raise CardError(f"{where}: found {_shown(value)}, expected {expectation(hint)}.")


def _fits(value: Any, hint: Any) -> bool:
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return any(_fits(value, option) for option in get_args(hint))
    if hint is Missing:
        return isinstance(value, str) and value in _MISSING_WORDS
    if origin is Literal:
        return value in get_args(hint)
    if origin is tuple:
        return isinstance(value, list) and all(_fits(item, get_args(hint)[0]) for item in value)
    if origin is dict:
        return isinstance(value, dict)
    if hint is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if hint is str:
        return isinstance(value, str) and value.strip() != "" and value not in _MISSING_WORDS
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, hint)


def expectation(hint: Any) -> str:
    """What a field takes, in words, from its annotation."""
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return " or ".join(expectation(option) for option in get_args(hint))
    if hint is Missing:
        return "one of the words " + ", ".join(map(repr, _MISSING_WORDS))
    if origin is Literal:
        return "one of " + ", ".join(map(repr, get_args(hint)))
    if origin is tuple:
        return f"a list, each item {expectation(get_args(hint)[0])}"
    names = {int: "a whole number", float: "a number", str: "a text", bool: "true or false", dict: "a table"}
    return names[origin or hint]


def _check_released(where: str, merged: Facts) -> str:
    value = merged.get("released")
    if isinstance(value, str) and (value in _MISSING_WORDS or _is_month(value)):
        return value
    found = "nothing" if value is None else _shown(value)
    raise CardError(f"{where}, field 'released': found {found}, expected a month like '2021-04' or 'not published'.")


def _is_month(text: str) -> bool:
    year, _, month = text.partition("-")
    return len(text) == 7 and year.isdigit() and month.isdigit() and 1 <= int(month) <= 12


def _check_errata(where: str, errata: Any) -> list[Facts]:
    if not isinstance(errata, list):
        raise CardError(f"{where}, field 'errata': found {_shown(errata)}, expected a list of tables.")
    for number, erratum in enumerate(errata, start=1):
        here = f"{where}, erratum {number}"
        if not isinstance(erratum, dict) or set(erratum) != {"field", "published", "reason"}:
            raise CardError(f"{here}: found {_shown(erratum)}, expected the keys field, published and reason.")
        part, _, name = str(erratum["field"]).partition(".")
        hint = get_type_hints(_PARTS[part]).get(name) if part in _PARTS and name else _HINTS.get(part)
        if hint is None or (part == "released" and name):
            raise CardError(f"{here}: found the field {erratum['field']!r}, expected a field or a part of a card.")
        if not name and is_dataclass(hint):
            hint = str
        _check_type(f"{here}, 'published' of {erratum['field']}", erratum["published"], hint | Missing)
        _check_type(f"{here}, 'reason'", erratum["reason"], str)
    return errata


def _check_licences(where: str, facts: Facts) -> None:
    try:
        from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression
    except ModuleNotFoundError as error:  # under torch.hub nobody has installed our dependencies
        raise MissingExtra("packaging>=24.2", extra="models", needed_for="Checking the licences of cards") from error

    for field in _SPDX_FIELDS:
        value = facts["licence"][field.partition(".")[2]]
        if value in _MISSING_WORDS:
            continue
        try:
            canonical = canonicalize_license_expression(value)
        except InvalidLicenseExpression:
            canonical = None
        if canonical != value:
            advice = f" such as {canonical!r}" if canonical else " such as 'MIT' or 'CC-BY-NC-4.0'"
            raise CardError(f"{where}, field {field!r}: found {value!r}, expected an SPDX licence id{advice}.")


def _check_shared_weights(cards: Mapping[str, Facts]) -> None:
    """Two encoders may use one file only if a card says so."""
    first_with: dict[str, str] = {}
    for encoder, facts in cards.items():
        weights = facts["weights"]
        same, url = weights["same_file_as"], weights["url"]
        if same not in _MISSING_WORDS:
            if same not in cards or cards[same]["weights"]["url"] != url:
                raise CardError(
                    f"{facts['family']}.toml: encoder {encoder!r}, field 'weights.same_file_as': found {same!r}, "
                    "expected an encoder whose weights.url is the same."
                )
            continue
        if url in _MISSING_WORDS:
            continue
        explained = any(erratum["field"] in ("weights", "weights.url") for erratum in facts["errata"])
        if url in first_with and not explained:
            raise CardError(
                f"{facts['family']}.toml: encoder {encoder!r}, field 'weights.url': found the file that "
                f"{first_with[url]!r} has already, expected another one, 'weights.same_file_as' or an erratum."
            )
        first_with.setdefault(url, encoder)


def _refuse_unknown(where: str, key: str, known: set[str]) -> None:
    close = nearest_names(key, known, n=1)
    raise CardError(f"{where}: unknown field {key!r}{f', expected perhaps {close[0]!r}' if close else ''}.")


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
