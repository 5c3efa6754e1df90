"""Every name that ``--where``, ``--sort`` and ``--columns`` understand, and how its values look in a table.

They are the names of :data:`zoo.columns.COLUMNS`, a few more facts of the card, and the ImageNet-1K risks. Risks have
the published names and clearer ones beside them: ``train_test`` is also ``error_100pct``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..columns import COLUMNS, Column, Kind
from ..errors import UnknownName
from ..metadata import NOT_APPLICABLE, NOT_PUBLISHED, EncoderCard
from ..results import SETTINGS, Setting, Summary

_UNITS = {"img_size": "px", "patch_size": "px", "time_hours": "hours"}
_CLEARER = {"license": "licence", "img_size": "crop_px"}
LEGEND = "-  does not apply    ?  not published"


@dataclass(frozen=True, slots=True)
class Subject:
    """One encoder: its card, and its risks where it has any."""

    card: EncoderCard
    summary: Summary | None


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing to ask of an encoder."""

    name: str
    kind: Kind
    unit: str  # "" where it has none
    meaning: str
    of: Callable[[Subject], Any]  # a Missing where it has no value
    from_results: bool = False  # needs the files of results/
    other_name: str = ""


def _component(name: str, other_name: str, meaning: str) -> Fact:
    def of(subject: Subject) -> Any:
        if subject.summary is None or subject.summary.decomposition is None:
            return NOT_PUBLISHED
        return getattr(subject.summary.decomposition, other_name)

    unit = "percentage points"
    return Fact(
        name, "number", unit, meaning, of, from_results=True, other_name=other_name if other_name != name else ""
    )


def _setting_error(setting: Setting) -> Fact:
    def of(subject: Subject) -> Any:
        return NOT_PUBLISHED if subject.summary is None else subject.summary.errors.get(setting.name, NOT_PUBLISHED)

    clear = "error_" + setting.name.replace("%", "pct").replace("-", "")
    meaning = f"error of a linear probe with {setting.n_labels:,} labels"
    return Fact(setting.column, "number", "percent", meaning, of, from_results=True, other_name=clear)


def _of_card(column: Column) -> Fact:
    unit = "percent" if column.section == "metrics" else _UNITS.get(column.name, "")
    other_name = _CLEARER.get(column.name, "")
    return Fact(
        column.name, column.kind, unit, column.meaning, lambda subject: column.of(subject.card), other_name=other_name
    )


def _all() -> list[Fact]:
    return [
        Fact("encoder", "text", "", "id of the encoder", lambda subject: subject.card.id),
        *map(_of_card, COLUMNS),
        Fact("released", "text", "", "month of publication", lambda subject: subject.card.released),
        Fact("licence_code", "text", "", "licence of the code, SPDX", lambda subject: subject.card.licence.code),
        Fact(
            "availability", "text", "", "open, gated or gone: the weights",
            lambda subject: subject.card.weights.availability,
        ),
        Fact(
            "size_bytes", "whole number", "bytes", "size of the file of weights",
            lambda subject: subject.card.weights.size_bytes,
        ),
        Fact(
            "n_errata", "whole number", "", "published facts and measurements known or suspected to be wrong",
            lambda subject: len(subject.card.errata) + (len(subject.summary.errata) if subject.summary else 0),
            from_results=True,
        ),
        *map(_setting_error, SETTINGS),
        _component("approx", "approximation", "error of the architecture, trained with supervision"),
        _component("usability", "usability", "error from pretraining without labels"),
        _component("approx_plus_usability", "approximation_plus_usability", "approximation and usability together"),
        _component("probe_gen", "probe_generalization", "error from training the probe on a finite data set"),
        _component("enc_gen", "encoder_generalization", "error from pretraining on a finite data set"),
    ]  # fmt: skip


FACTS: dict[str, Fact] = {fact.name: fact for fact in _all()}
_BY_ANY_NAME = FACTS | {fact.other_name: fact for fact in FACTS.values() if fact.other_name}


def kinds() -> dict[str, Kind]:
    """Kind of every column by each of its names."""
    return {name: fact.kind for name, fact in _BY_ANY_NAME.items()}


def value_of(subject: Subject, name: str) -> Any:
    """The value of the column with that name, or the reason why there is none."""
    return _BY_ANY_NAME[name].of(subject)


def find_fact(name: str) -> Fact:
    """The fact with that name, in either spelling.

    Raises
    ------
    UnknownName
        If no column is called that; lists the nearest names.
    """
    if name not in _BY_ANY_NAME:
        raise UnknownName("column", name, _BY_ANY_NAME, hint="Run 'zoo list --help-columns' to see them all.")
    return _BY_ANY_NAME[name]


def shown(fact: Fact, value: Any) -> str:
    """A value as a table shows it."""
    if value is NOT_APPLICABLE:
        return "-"
    if value is NOT_PUBLISHED:
        return "?"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    if isinstance(value, float):
        return points(value) if fact.unit.startswith("percent") else f"{value:g}"
    if fact.name.endswith("n_parameters") or fact.name in ("size_bytes", "projection_nparameters"):
        return short_number(value)
    return str(value)


def points(value: float) -> str:
    """Percent or percentage points with one decimal; never a negative zero.

    >>> points(24.56), points(-0.04)
    ('24.6', '0.0')
    """
    return f"{round(value, 1) + 0.0:.1f}"


def short_number(value: float) -> str:
    """A count in at most four characters and a letter.

    >>> [short_number(n) for n in (950, 23_508_032, 1_011_223_040)]
    ['950', '23.5M', '1.01G']
    """
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:g}"
