"""``zoo show``: the card of one encoder, what is wrong with it, its risks, and where its weights are."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, is_dataclass
from typing import Any

import click

from ..metadata import EncoderCard, Missing
from ..results import SETTINGS, SeedMean, Summary, seed_means
from .options import encoder_names
from .output import entry, json_option, print_json, record, wrapped
from .risks import component_lines, risk_record
from .selection import subjects

_LAST = ("weights", "licence")
_UNITS = {"_px": " px", "_bytes": " bytes", "_hours": " hours"}
_LABELS = {
    "top1_percent": ("top-1 accuracy", " %"),
    "top1_percent_with_1_percent_labels": ("top-1 accuracy, 1 % of the labels", " %"),
    "top1_percent_with_5_shot": ("top-1 accuracy, 5 labels a class", " %"),
    "ema": ("one branch a moving average", ""),
    "sha256": ("SHA-256", ""),
    "url": ("URL", ""),
}


@click.command("show", epilog="\b\nExample:\n  zoo show dino_vitS16")
@click.argument("name", shell_complete=encoder_names)
@json_option
def command(name: str, as_json: bool) -> None:
    """Show everything known of one encoder.

    With --json the facts stand under the dotted names of the card, such as "representation.dim". What was measured on
    other data sets than ImageNet-1K, or by others than the study, has a section each, with its source.
    """
    (subject,) = subjects([name], with_risks=True)
    elsewhere: dict[tuple[str, str], list[SeedMean]] = {}  # by data set and source
    for mean in seed_means(subject.card.id):
        elsewhere.setdefault((mean.dataset, mean.source), []).append(mean)
    if as_json:
        print_json(_document(subject.card, subject.measured, elsewhere))
    else:
        click.echo("\n".join(_lines(subject.card, subject.measured, elsewhere)))


def _facts(card: EncoderCard) -> dict[str, dict[str, Any]]:
    """Facts by part of the card and by name; weights and licences last."""
    parts = {field.name: getattr(card, field.name) for field in fields(card)}
    nested = {
        name: {field.name: getattr(part, field.name) for field in fields(part)}
        for name, part in parts.items()
        if is_dataclass(part)
    }
    return {name: nested[name] for name in [*(name for name in nested if name not in _LAST), *_LAST]}


def _document(
    card: EncoderCard, summary: Summary | None, elsewhere: Mapping[tuple[str, str], Sequence[SeedMean]]
) -> dict[str, Any]:
    facts = {f"{part}.{name}": value for part, values in _facts(card).items() for name, value in values.items()}
    split = record({"released": card.released, **facts})
    missing = split.pop("missing")
    errata = [
        record({"field": erratum.field, "published": erratum.published, "reason": erratum.reason})
        for erratum in card.errata
    ]
    return {
        "encoder": card.id,
        "family": card.family,
        "facts": split,
        "missing": missing,
        "errata": errata,
        "results": None if summary is None else risk_record(summary),
        "other_results": [asdict(mean) for means in elsewhere.values() for mean in means],
    }


def _lines(
    card: EncoderCard, summary: Summary | None, elsewhere: Mapping[tuple[str, str], Sequence[SeedMean]]
) -> list[str]:
    parts = _facts(card)
    lines = [click.style(card.id, bold=True), *entry("released", _text(card.released))]
    for part in parts:
        if part not in _LAST:
            lines += _section(part.capitalize(), parts[part])
    lines += _risks(summary)
    if elsewhere:
        from .other_results import section_lines

        for means in elsewhere.values():
            lines += section_lines(means)
    for part in _LAST:
        lines += _section(part.capitalize(), parts[part])
    return lines + _errata(card, summary)


def _section(title: str, values: dict[str, Any]) -> list[str]:
    """Known facts a line each; below them the names of those without a value, by reason."""
    lines = ["", click.style(title, bold=True)]
    for name, value in values.items():
        if not isinstance(value, Missing):
            label, unit = _label(name)
            lines += entry(label, _text(value) + unit)
    for reason in Missing:
        absent = [_label(name)[0] for name, value in values.items() if value is reason]
        if absent:
            lines += entry(f"({reason.value})", ", ".join(absent))
    return lines


def _label(name: str) -> tuple[str, str]:
    """A fact's name in words, and its unit."""
    if name in _LABELS:
        return _LABELS[name]
    for suffix, unit in _UNITS.items():
        if name.endswith(suffix):
            return name.removesuffix(suffix).replace("_", " "), unit
    return name.replace("_", " "), ""


def _text(value: Any) -> str:
    if isinstance(value, Missing):
        return value.value
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, (tuple, list)):
        return ", ".join(map(_text, value)) or "none"
    if isinstance(value, dict):
        return json.dumps(value) if value else "none"
    return str(value)


def _risks(summary: Summary | None) -> list[str]:
    title = "Error of a linear probe on ImageNet-1K (percent, lower is better)"
    lines = ["", click.style(wrapped(title), bold=True)]
    if summary is None:
        return [*lines, "  not measured"]
    for setting in SETTINGS:
        error = summary.errors.get(setting.name)
        text = "not measured" if error is None else f"{error:.1f}"
        lines += entry(f"{setting.name} ({setting.n_labels:,} labels)", text)
    lines += ["", click.style(wrapped("Components of the error with 100% (percentage points, signed)"), bold=True)]
    if summary.decomposition is None:
        return [*lines, "  not measured"]
    for label, text in component_lines(summary.decomposition):
        lines += entry(label, text)
    return lines


def _errata(card: EncoderCard, summary: Summary | None) -> list[str]:
    results = summary.errata if summary else ()
    if not card.errata and not results:
        return []
    lines = ["", click.style("Errata", bold=True)]
    for erratum in card.errata:
        lines += entry(erratum.field, f"published: {_text(erratum.published)}")
        lines += entry("", erratum.reason)
    for result in results:
        metric = "all measurements" if result.metric == "*" else result.metric.replace("_", " ")
        left_out = " Left out of recommendations." if result.exclude else ""
        lines += entry(metric, f"{result.kind}: {result.reason}{left_out}")
    return lines
