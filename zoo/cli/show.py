"""``zoo show``: everything known of one encoder: its card, what was measured and reported, cost, licence, errata."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from ..cards.catalogue import catalogue
from ..cards.gates import GATED, access_words, advice, licence_terms, lineage
from ..cards.licences import commercial_words
from ..cards.same_weights import find_same_weights
from ..cards.schema import LINEAGE, EncoderCard, Missing, fact_text
from ..cards.wording import facts_by_part, label_of
from ..errors import counted
from ..results.derived import seed_means
from ..results.evidence import disagreements, measured_numbers, origin_of
from ..results.facts import points, subjects
from ..results.reported import reported_numbers
from ..results.reported_values import TOP_1, ReportedNumber
from ..results.values import IMAGENET, SETTINGS, SeedMean, Summary
from ..results.wording import (
    NEIGHBOURS,
    PROBE,
    how,
    interval,
    is_by_labels,
    kind,
    of_plain_protocols,
    origin,
    setting_name,
    shown_value,
)
from .facts import PART_HEADS, risk_record
from .options import encoder_names
from .others import entries
from .output import entry, json_option, listed, print_json, record, size, wrapped

if TYPE_CHECKING:
    from ..cards.costs import Cost
    from ..choosing.expectations import Expected

_LAST_SECTIONS = ("weights", "licence")
_OF_CARD = {
    "top1_percent": "accuracy with all labels",
    "top1_percent_with_1_percent_labels": "with 1 % of the labels",
    "top1_percent_with_5_shot": "with 5 labels per class",
}
_UP = [up for _, up in LINEAGE.values()]
_UNITS = {"percent": " %", "millimetres": " mm"}  # others stand in words, or need none


@click.command("show", epilog="\b\nExample:\n  zoo show dino_vitS16")
@click.argument("name", shell_complete=encoder_names)
@json_option
def show_command(name: str, as_json: bool) -> None:
    """Show everything known of one encoder.

    With --json the facts have the dotted names of the card, such as "representation.dim". Measurements on other data
    sets than ImageNet-1K, numbers reported by authors, and those measured by others have sections of their own.
    """
    (subject,) = subjects([name], with_risks=True, exclude_wrong=True)
    card, summary = subject.card, subject.measured
    elsewhere: dict[tuple[str, str], list[SeedMean]] = {}  # by data set and source
    for mean in seed_means(subject.id):
        elsewhere.setdefault((mean.dataset, mean.source), []).append(mean)
    numbers = reported_numbers(card.id)
    differing = disagreements([*numbers, *measured_numbers(card, subject.summary)])
    if as_json:
        document = _document(card, summary, [mean for means in elsewhere.values() for mean in means], numbers)
        print_json({**document, "disagreements": differing})
        return
    reported = [one for one in numbers if not origin_of(one)]
    by_others = [one for one in numbers if origin_of(one)]
    parts = facts_by_part(card)
    lines = [click.style(card.id, bold=True), *entry("released", fact_text(card.released))]
    for part in parts:
        if part == "reported" and reported:
            lines += _reported(card, reported)
        elif part not in _LAST_SECTIONS:
            lines += _section(part.capitalize(), parts[part])
        if part == "architecture" and card.patch_grid is not None:
            lines += entry("patch grid", "{} x {}".format(*card.patch_grid))
        if part == "provenance":
            for words, names in lineage(card).items():
                lines += entry(words.lower(), listed(names, most=12)) if words in _UP else []
    lines += [*_cost(card), *_risks(card, summary)]
    for means in elsewhere.values():
        lines += _measured(means)
    lines += _title("Where origins disagree (percent)") if differing else []
    for about, told in differing.items():
        lines += entry(about, told)
    if by_others:
        lines += [*_title("Measured by others (percent, higher is better; a protocol an entry)"), *entries(by_others)]
    lines += _section("Weights", parts["weights"])
    words, availability = access_words(card), card.weights.availability
    if words != availability and not isinstance(availability, Missing):
        lines += entry("access", words)
    for one in find_same_weights(card):
        other = one.place if one.encoder == card.id.partition("@")[0] else f"than {one.encoder}, of the same weights"
        lines += entry("other features", f"{other}: {one.says}")
    if availability in GATED and (near := advice(card, catalogue())):
        lines += entry("instead", near)
    lines += _section("Licence", parts["licence"])
    terms, use = licence_terms(card), card.commercial_use
    said = {"commercial use": "" if isinstance(use, Missing) else commercial_words(use)}
    said |= {"in plain words": terms["summary"], "text": terms["text"]}
    for label, text in [*said.items(), *(("note", remark) for remark in terms["remarks"])]:
        lines += entry(label, text) if text else []
    click.echo("\n".join(lines + _errata(card, summary)))


def _document(
    card: EncoderCard, summary: Summary | None, others: Sequence[SeedMean], reported: Sequence[ReportedNumber]
) -> dict[str, Any]:
    facts = {f"{part}.{name}": value for part, values in facts_by_part(card).items() for name, value in values.items()}
    split = record({"released": card.released, **facts})
    missing = split.pop("missing")
    one = _expected(card) if summary is None else None
    expected = None
    if one is not None:
        expected = {"error": one.error, "interval": list(one.interval), "rests_on": one.basis, "source": one.source}
    cost, cost_document = _known_cost(card), None
    if cost is not None:
        from ..cards.costs import BATCH_SIZE

        cost_document = {**asdict(cost), "batch_size": BATCH_SIZE, "memory_bytes": _memory(cost)}
    return {
        "encoder": card.id,
        "family": card.family,
        "facts": split,
        "missing": missing,
        "licence_terms": record(licence_terms(card)),
        "access": access_words(card),
        "lineage": lineage(card),
        "same_weights": [asdict(one) for one in find_same_weights(card)],
        "errata": [
            record({"field": erratum.field, "published": erratum.published, "reason": erratum.reason})
            for erratum in card.errata
        ],
        "cost": cost_document,
        "results": None if summary is None else risk_record(summary),
        "expected": expected,
        "other_results": [asdict(mean) for mean in others],
        "reported": [asdict(number) for number in reported],
    }


def _title(text: str) -> list[str]:
    return ["", click.style(wrapped(text), bold=True)]


def _section(title: str, values: dict[str, Any]) -> list[str]:
    """Known facts a line each; below them the names of missing ones, by reason."""
    lines = _title(title)
    for name, value in values.items():
        if not isinstance(value, Missing):
            label, unit = label_of(name)
            lines += entry(label, fact_text(value) + unit)
    for reason in Missing:
        absent = [label_of(name)[0] for name, value in values.items() if value is reason]
        if absent:
            lines += entry(f"({reason.value})", ", ".join(absent))
    return lines


def _known_cost(card: EncoderCard) -> Cost | None:
    from ..cards.costs import shipped_costs

    shipped = shipped_costs().get(card.id)
    if shipped is not None:
        return shipped
    from ..choosing.constraints import known_cost  # which computes it, for an encoder of the user's

    return known_cost(card)


def _memory(cost: Cost) -> dict[str, int]:
    from ..cards.costs import BATCH_SIZE, memory_bytes

    return {device: memory_bytes(cost, BATCH_SIZE, device=device) for device in ("cuda", "cpu")}


def _cost(card: EncoderCard) -> list[str]:
    from ..cards.costs import BATCH_SIZE

    lines, cost = _title("Cost (computed, in float32)"), _known_cost(card)
    if cost is None:
        return [*lines, "  not known"]
    memory = {device: size(n_bytes) for device, n_bytes in _memory(cost).items()}
    lines += entry("operations", f"{cost.gflops:.3g} GFLOPs an image of {cost.px} px; a multiply-add is two")
    lines += entry("parameters", f"{size(cost.parameter_bytes)} with buffers")
    lines += entry("activations", f"{size(cost.activation_bytes)} an image, the most alive at once")
    batches = f"for batches of {BATCH_SIZE}, with a margin for what allocators and kernels add"
    return lines + entry(
        "memory", f"{memory['cuda']} of a GPU with CUDA's context, {memory['cpu']} of a CPU; {batches}"
    )


def _expected(card: EncoderCard) -> Expected | None:
    """The error to expect on ImageNet-1K with all labels; None of untrained encoders and those of the pocket."""
    from ..choosing.expectations import Images, expected_errors
    from ..choosing.ranking import is_of_pocket

    if is_of_pocket(card):
        return None
    found = expected_errors({card.id: card}, SETTINGS[0].n_labels, 1_000, images=Images.named(like=IMAGENET))
    return found.get(card.id)


def _risks(card: EncoderCard, summary: Summary | None) -> list[str]:
    lines = _title("Error of a linear probe on ImageNet-1K (percent, lower is better)")
    if summary is None:
        one = _expected(card)
        if one is None:
            return [*lines, "  not measured"]
        low, high = one.interval
        told = f"{points(one.error)} (90 % interval {points(low)} to {points(high)}), {one.source}; not measured"
        return lines + entry(f"expected, {SETTINGS[0].name}", told)
    for setting in SETTINGS:
        error = summary.errors.get(setting.name)
        lines += entry(
            f"{setting.name} ({setting.n_labels:,} labels)", "not measured" if error is None else f"{error:.1f}"
        )
    lines += entry("protocol", f"{summary.campaign.protocol} ({summary.campaign.source})")
    lines += _title("Components of the error with 100% (percentage points, signed)")
    if summary.decomposition is None:
        return [*lines, "  not measured"]
    found = summary.decomposition
    if isinstance(found.approximation, Missing) or isinstance(found.usability, Missing):
        together = f"{points(found.approximation_plus_usability)} (not separable without a supervised twin)"
        lines += entry("approximation + usability", together)
    else:
        assumed = " (assumed, not measured)" if found.approximation_assumed else ""
        lines += entry("approximation", f"{points(found.approximation)}{assumed}")
        lines += entry("usability", points(found.usability))
    lines += entry("probe generalization", points(found.probe_generalization))
    lines += entry("encoder generalization", points(found.encoder_generalization))
    lines += entry("sum", points(found.full_shot_error))
    return lines + (entry("of another measurement", summary.older_parts) if summary.older_parts else [])


def _measured(means: Sequence[SeedMean]) -> list[str]:
    """What one source measured on one data set: errors, components, label-free metrics, curves."""
    dataset, encoder = means[0].dataset, means[0].encoder
    shown = of_plain_protocols(means)
    lines = _title(f"Measured on {dataset} by the source {means[0].source!r} (errors in percent, lower is better)")
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
        images = "" if mean.n_train is None else f" ({counted(mean.n_train, 'image')})"
        seeds = "" if mean.n_seeds == 1 else f", {mean.n_seeds} seeds"
        ends = "" if mean.low is None else f" ({interval(mean)}{seeds})"
        label = f"{'k-NN, ' if mean.metric == NEIGHBOURS else ''}{setting_name(mean.split)}{images}"
        lines += entry(label, shown_value(mean.value, mean) + ends)
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


def _reported(card: EncoderCard, numbers: Sequence[ReportedNumber]) -> list[str]:
    """An entry for all numbers of one kind from one place."""
    groups: dict[tuple[str, str, str], list[ReportedNumber]] = {}
    for one in numbers:
        groups.setdefault((kind(one), how(one), origin(one)), []).append(one)
    lines = _title("Reported (not measured here; recipes differ, so mostly not comparable)")
    for (label, recipe, where), group in groups.items():
        told = [
            f"{'' if one.metric == TOP_1 else f'{one.metric} on '.replace('_', ' ')}{one.dataset} {one.printed}"
            f"{_UNITS.get(one.unit, '')}"
            for one in group
        ]
        lines += entry(label, "; ".join(text for text in (", ".join(told), recipe, where) if text))
    for reason in (Missing.NOT_PUBLISHED, Missing.NOT_APPLICABLE):
        absent = [words for name, words in _OF_CARD.items() if getattr(card.reported, name) is reason]
        if absent:
            lines += entry(f"({reason.value})", ", ".join(absent))
    return lines


def _errata(card: EncoderCard, summary: Summary | None) -> list[str]:
    results = summary.errata if summary else ()
    lines = _title("Errata") if card.errata or results else []
    for erratum in card.errata:
        lines += [*entry(erratum.field, f"published: {fact_text(erratum.published)}"), *entry("", erratum.reason)]
    for result in results:
        metric = "all measurements" if result.metric == "*" else result.metric.replace("_", " ")
        left_out = " Left out of recommendations." if result.exclude else ""
        lines += entry(metric, f"{result.kind}: {result.reason}{left_out}")
    return lines
