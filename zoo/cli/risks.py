"""Stored risks and other measurements of an encoder, as several verbs show them: components, data sets, errata."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from ..cards.schema import NOT_PUBLISHED, Missing
from ..results.facts import points
from ..results.values import SETTINGS, ResultErratum, RiskDecomposition, SeedMean, Summary
from ..results.wording import (
    NEIGHBOURS,
    PROBE,
    interval,
    is_by_labels,
    of_plain_protocols,
    setting_name,
    shown_value,
)
from .facts import WRONG
from .output import entry, record, wrapped

PART_HEADS = {  # metric -> head of its column
    "approximation": "approx",
    "usability": "usability",
    "approximation_plus_usability": "approx+usab.",
    "probe_generalization": "probe_gen",
    "encoder_generalization": "enc_gen",
}


def _with_interval(mean: SeedMean) -> str:
    if mean.low is None:
        return shown_value(mean.value, mean)
    of = "" if mean.n_seeds == 1 else f", {mean.n_seeds} seeds"
    return f"{shown_value(mean.value, mean)} ({interval(mean)}{of})"


def section_lines(means: Sequence[SeedMean]) -> list[str]:
    """Lines on what one source measured on one data set: errors, components, label-free metrics, curves."""
    dataset, encoder = means[0].dataset, means[0].encoder
    shown = of_plain_protocols(means)
    title = f"Measured on {dataset} by the source {means[0].source!r} (errors in percent, lower is better)"
    lines = ["", click.style(wrapped(title), bold=True)]
    errors, parts, others, curves = [], [], [], dict[str, list[SeedMean]]()
    for mean in sorted(shown, key=lambda mean: -(mean.n_train or 0)):
        if mean.split.endswith(" images -> val"):
            curves.setdefault(mean.metric, []).append(mean)
        elif mean.metric in PART_HEADS:
            parts.append(mean)
        elif mean.metric in (PROBE, NEIGHBOURS):
            if is_by_labels(mean.split):  # the others are raw risks, which the parts hold
                errors.append(mean)
        else:
            others.append(mean)
    for mean in sorted(errors, key=lambda mean: mean.metric == NEIGHBOURS):
        images = "" if mean.n_train is None else f" ({mean.n_train:,} images)"
        kind = "k-NN, " if mean.metric == NEIGHBOURS else ""
        lines += entry(f"{kind}{setting_name(mean.split)}{images}", _with_interval(mean))
    for mean in sorted(parts, key=lambda mean: [*PART_HEADS].index(mean.metric)):
        lines += entry(mean.metric.replace("_", " "), f"{shown_value(mean.value, mean)} points")
    for metric, own in curves.items():
        text = ", ".join(f"{mean.n_train:,}: {shown_value(mean.value, mean)}" for mean in own[::-1])
        lines += entry(f"{metric.replace('_', ' ')} by images", text)
    if others:
        lines += entry("others", ", ".join(f"{mean.metric} {shown_value(mean.value, mean)}" for mean in others))
    lines += entry("protocols", ", ".join(dict.fromkeys(mean.protocol for mean in shown)))
    if len(means) > len(shown):
        hint = f"zoo results {encoder} --dataset {dataset} --metric '*' --long"
        lines += entry("of other protocols", f"{len(means) - len(shown)} more: {hint}")
    return lines


def component_lines(decomposition: RiskDecomposition) -> list[tuple[str, str]]:
    """The components and their sum, each with a label."""
    approximation, usability = decomposition.approximation, decomposition.usability
    if isinstance(approximation, Missing) or isinstance(usability, Missing):
        together = f"{points(decomposition.approximation_plus_usability)} (no supervised twin tells them apart)"
        lines = [("approximation + usability", together)]
    else:
        assumed = " (assumed, not measured)" if decomposition.approximation_assumed else ""
        lines = [("approximation", f"{points(approximation)}{assumed}"), ("usability", f"{points(usability)}")]
    return [
        *lines,
        ("probe generalization", f"{points(decomposition.probe_generalization)}"),
        ("encoder generalization", f"{points(decomposition.encoder_generalization)}"),
        ("sum", f"{points(decomposition.full_shot_error)}"),
    ]


def distrust(encoder: str, errata: Sequence[ResultErratum]) -> list[str]:
    """Why the measurements of an encoder are doubtful, a line an erratum."""
    return [f"{WRONG}  {encoder} ({erratum.kind}): {erratum.reason}" for erratum in errata]


def errata_records(errata: Sequence[ResultErratum]) -> list[dict[str, Any]]:
    """Errata of measurements as JSON."""
    return [
        {"metric": erratum.metric, "kind": erratum.kind, "reason": erratum.reason, "exclude": erratum.exclude}
        for erratum in errata
    ]


def risk_record(summary: Summary) -> dict[str, Any]:
    """The risks as JSON, under the published names of their columns."""
    parts = summary.decomposition
    values: dict[str, Any] = {setting.column: summary.errors.get(setting.name, NOT_PUBLISHED) for setting in SETTINGS}
    values["approx"] = parts.approximation if parts else NOT_PUBLISHED
    values["usability"] = parts.usability if parts else NOT_PUBLISHED
    values["approx_plus_usability"] = parts.approximation_plus_usability if parts else NOT_PUBLISHED
    values["probe_gen"] = parts.probe_generalization if parts else NOT_PUBLISHED
    values["enc_gen"] = parts.encoder_generalization if parts else NOT_PUBLISHED
    assumed = parts is not None and parts.approximation_assumed
    return {**record(values), "approx_is_assumed": assumed, "errata": errata_records(summary.errata)}
