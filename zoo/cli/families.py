"""Families of encoders as ``zoo list`` opens with them: a row each, and how to go on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from ..cards.catalogue import catalogue
from ..cards.families import Family, families
from ..cards.schema import Missing
from ..results.derived import measured_encoders
from .output import is_easy_to_read, print_notes, print_table

_RIGHT = ("encoders", "networks", "measured")
_DISPENSABLE = ("trained by", "released")  # where the table would be wider than the terminal
_MOST_WORDS = 3  # of one cell


def family_records(encoders: Iterable[str]) -> list[dict[str, Any]]:
    """Families of these encoders for JSON."""
    measured = measured_encoders()
    return [
        {
            "family": one.name,
            "n_encoders": len(one.encoders),
            "n_measured": sum(encoder in measured for encoder in one.encoders),
            "modes": _counts(one.values("objective.mode")),
            "domains": _counts(one.values("pretraining.domain")),
            "architectures": _counts(one.values("architecture.family")),
            "licences": _counts(one.values("licence.weights")),
            "networks": one.networks,
        }
        for one in families(catalogue(), encoders)
    ]


def _counts(values: Counter[Any]) -> dict[str, int]:
    return {value.value if isinstance(value, Missing) else value: n for value, n in values.items()}


def print_families(encoders: Iterable[str]) -> None:
    """Prints the families of these encoders, and what to do next."""
    found = families(catalogue(), encoders)
    measured = measured_encoders()
    columns: dict[str, list[str]] = {
        "family": [one.name for one in found],
        "encoders": [str(len(one.encoders)) for one in found],
        "networks": [str(len(one.networks)) for one in found],
        "measured": [str(sum(encoder in measured for encoder in one.encoders) or "-") for one in found],
        "released": [_years(one) for one in found],
        "trained by": [_words(one.known("objective.mode")) for one in found],
        "architecture": [_words(one.known("architecture.family")) for one in found],
        "licence": [_words(one.known("licence.weights")) for one in found],
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


_HINTS = ("zoo list dinov3: what a family has, or a method, timm name or data set    zoo list --all: every encoder",)


def _rows(columns: dict[str, list[str]]) -> list[tuple[str, ...]]:
    return list(zip(*columns.values(), strict=True))


def _positions(columns: dict[str, list[str]]) -> list[int]:
    return [position for position, name in enumerate(columns) if name in _RIGHT]


def _is_easy_to_read(columns: dict[str, list[str]]) -> bool:
    return is_easy_to_read([*columns], _rows(columns), right=_positions(columns))


def _years(family: Family) -> str:
    years = sorted({value[:4] for value in family.known("released")})
    return years[0] + (f"-{years[-1]}" if len(years) > 1 else "") if years else "."


def _words(values: Sequence[Any]) -> str:
    texts = [str(value).replace("_", " ") for value in values]
    more = [f"{len(texts) - _MOST_WORDS + 1} more"] if len(texts) > _MOST_WORDS else []
    return ", ".join([*texts[: _MOST_WORDS - len(more)], *more]) or "."
