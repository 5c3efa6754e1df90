"""Families of encoders as ``zoo list`` opens with them: a row each, and how to go on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from ..cards.catalogue import catalogue
from ..cards.families import Family, families
from ..cards.schema import Missing
from ..results.derived import measured_encoders
from .output import is_easy_to_read, print_notes, print_table

_RIGHT = ("encoders", "networks", "measured")
_DISPENSABLE = ("released", "trained by")  # where the table would be wider than the terminal


def family_records(encoders: Sequence[str]) -> list[dict[str, Any]]:
    """Families of these encoders for JSON."""
    measured = measured_encoders(encoders)
    return [
        {
            "family": one.name,
            "n_encoders": len(one.encoders),
            "n_measured": sum(encoder in measured for encoder in one.encoders),
            "modes": _counts(one.values("objective.mode")),
            "domains": _counts(one.values("pretraining.domain")),
            "architectures": _counts(one.values("architecture.family")),
            "commercial_use": _counts(one.values("commercial_use")),
            "licences": _counts(one.values("licence.weights")),
            "networks": one.networks,
        }
        for one in families(catalogue().listing(encoders), encoders)
    ]


def _counts(values: Counter[Any]) -> dict[str, int]:
    return {value.value if isinstance(value, Missing) else value: n for value, n in values.items()}


def print_families(encoders: Sequence[str]) -> None:
    """Prints the families of these encoders, and what to do next."""
    found = families(catalogue().listing(encoders), encoders)
    measured = measured_encoders(encoders)
    columns: dict[str, list[str]] = {
        "family": [one.name for one in found],
        "encoders": [str(len(one.encoders)) for one in found],
        "networks": [str(len(one.networks)) for one in found],
        "measured": [str(sum(encoder in measured for encoder in one.encoders) or "-") for one in found],
        "released": [_years(one) for one in found],
        "trained by": [_words(one.known("objective.mode"), 1) for one in found],
        "architecture": [_words(one.known("architecture.family"), 2) for one in found],
        "commercial use": [_commercial(one) for one in found],
    }
    for name in _DISPENSABLE:
        if not _is_easy_to_read(columns):
            del columns[name]
    print_table([*columns], _rows(columns), right=_positions(columns))
    counts = {
        ("family", "families"): len(found),
        ("encoder", "encoders"): sum(len(one.encoders) for one in found),
        ("network", "networks"): sum(len(one.networks) for one in found),
    }
    print_notes([", ".join(f"{n:,} {words[n != 1]}" for words, n in counts.items()), *_HINTS])


_HINTS = (
    "zoo list dinov3    the encoders of a family; or of a method, a name at timm, a data set",
    "zoo list --all     every encoder",
)


def _rows(columns: dict[str, list[str]]) -> list[tuple[str, ...]]:
    return list(zip(*columns.values(), strict=True))


def _positions(columns: dict[str, list[str]]) -> list[int]:
    return [position for position, name in enumerate(columns) if name in _RIGHT]


def _is_easy_to_read(columns: dict[str, list[str]]) -> bool:
    return is_easy_to_read([*columns], _rows(columns), right=_positions(columns), n_whole=len(columns))


def _years(family: Family) -> str:
    years = sorted({value[:4] for value in family.known("released")})
    return years[0] + (f"-{years[-1]}" if len(years) > 1 else "") if years else "."


def _commercial(family: Family) -> str:
    """Whether commercial use is allowed; for how many encoders, if it is for some."""
    uses = {use: n for use, n in family.values("commercial_use").items() if not isinstance(use, Missing)}
    if "yes" in uses and len(uses) > 1:
        return f"yes: {uses['yes']} of {sum(uses.values())}"
    return " or ".join(uses) or "-"


def _words(values: Sequence[Any], most: int) -> str:
    """The most frequent values, and how many others there are, in one line."""
    listed = ", ".join(str(value).replace("_", " ") for value in values[:most]) or "."
    return f"{listed} +{len(values) - most}" if len(values) > most else listed
