"""The risks of an encoder as every verb shows them, on paper and in JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..metadata import NOT_PUBLISHED, Missing
from ..results import SETTINGS, ResultErratum, RiskDecomposition, Summary
from .facts import ASSUMED, WRONG, points
from .output import record

MERGED = "+"  # behind approximation and usability together
COMPONENT_HEADERS = ("approx", "usability", "probe_gen", "enc_gen")


def component_cells(decomposition: RiskDecomposition | None) -> list[str]:
    """The four components as cells of a table; where there is no twin the second holds the first two together."""
    if decomposition is None:
        return ["?"] * 4
    approximation, usability = decomposition.approximation, decomposition.usability
    if isinstance(approximation, Missing) or isinstance(usability, Missing):
        first = ["?", f"{points(decomposition.approximation_plus_usability)}{MERGED}"]
    else:
        mark = ASSUMED if decomposition.approximation_assumed else ""
        first = [f"{points(approximation)}{mark}", f"{points(usability)}"]
    rest = (decomposition.probe_generalization, decomposition.encoder_generalization)
    return [*first, *(points(part) for part in rest)]


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


def legend(summaries: list[Summary]) -> list[str]:
    """What the marks mean that occur in the rows of these encoders."""
    parts = [summary.decomposition for summary in summaries]
    lines = []
    if any(part is not None and part.approximation_assumed for part in parts):
        lines.append(f"{ASSUMED}  assumed, not measured")
    if any(part is not None and isinstance(part.approximation, Missing) for part in parts):
        lines.append(f"{MERGED}  approximation and usability together: no supervised twin tells them apart")
    if any(part is None or len(summary.errors) < len(SETTINGS) for part, summary in zip(parts, summaries, strict=True)):
        lines.append("?  not measured")
    return lines


def distrust(encoder: str, errata: Sequence[ResultErratum]) -> list[str]:
    """Why the measurements of an encoder are to be distrusted, a line an erratum."""
    return [f"{WRONG}  {encoder} ({erratum.kind}): {erratum.reason}" for erratum in errata]


def errata_records(errata: Sequence[ResultErratum]) -> list[dict[str, Any]]:
    """Errata of measurements for JSON."""
    return [
        {"metric": erratum.metric, "kind": erratum.kind, "reason": erratum.reason, "exclude": erratum.exclude}
        for erratum in errata
    ]


def risk_record(summary: Summary) -> dict[str, Any]:
    """The risks for JSON, under the published names of their columns."""
    parts = summary.decomposition
    values: dict[str, Any] = {setting.column: summary.errors.get(setting.name, NOT_PUBLISHED) for setting in SETTINGS}
    values["approx"] = parts.approximation if parts else NOT_PUBLISHED
    values["usability"] = parts.usability if parts else NOT_PUBLISHED
    values["approx_plus_usability"] = parts.approximation_plus_usability if parts else NOT_PUBLISHED
    values["probe_gen"] = parts.probe_generalization if parts else NOT_PUBLISHED
    values["enc_gen"] = parts.encoder_generalization if parts else NOT_PUBLISHED
    assumed = parts is not None and parts.approximation_assumed
    return {**record(values), "approx_is_assumed": assumed, "errata": errata_records(summary.errata)}
