"""``zoo show``: one encoder, in short; or its whole card, what was measured and reported, cost, licence, errata."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from ..cards.catalogue import load_catalogue
from ..cards.descriptions import format_fact_label, group_facts
from ..cards.gated_access import GATED, describe_access, describe_licence_terms, list_lineage, suggest_open_encoder
from ..cards.licences import describe_commercial_use
from ..cards.same_weights import find_same_weights
from ..cards.schema import LINEAGE, EncoderCard, Missing, format_fact
from ..errors import format_count
from ..results.derived import seed_means
from ..results.evidence import build_measured_numbers, describe_disagreements, find_origin
from ..results.facts import format_points, format_short_number, list_subjects
from ..results.reported import reported_numbers
from ..results.reported_values import TOP_1, ReportedNumber, choose
from ..results.values import AUTHORS, EXPECTED, IMAGENET, PROJECT, PUBLISHED_SOURCE, SETTINGS, STUDY, SeedMean, Summary
from ..results.wording import (
    NEIGHBOURS,
    PROBE,
    describe_number_origin,
    describe_protocol_details,
    describe_protocol_kind,
    format_quantity,
    format_seed_interval,
    format_setting,
    is_by_labels,
    select_plain_protocols,
)
from .facts import PART_HEADS, build_expected_record, build_risk_record
from .options import complete_encoder_names
from .output import add_json_option, format_entry, format_list, format_size, make_record, print_json, wrap_text
from .reported_output import format_reported_entries

if TYPE_CHECKING:
    from ..cards.costs import Cost
    from ..choosing.expectations import ExpectedError

_LAST_SECTIONS = ("weights", "licence")
_OF_CARD = {
    "top1_percent": "accuracy with all labels",
    "top1_percent_with_1_percent_labels": "with 1 % of the labels",
    "top1_percent_with_5_shot": "with 5 labels per class",
}
_UP = [up for _, up in LINEAGE.values()]
_BRIEF_WIDTH = 14
_N_ALL = SETTINGS[0].n_labels
_UNITS = {"percent": " %", "millimetres": " mm"}  # others stand in words, or need none


@click.command("show", epilog="\b\nExample:\n  zoo show dino_vitS16")
@click.argument("name", shell_complete=complete_encoder_names)
@click.option("--all", "shows_all", is_flag=True, help="Every fact, number, source and erratum.")
@add_json_option
def show_command(name: str, shows_all: bool, as_json: bool) -> None:
    """Show one encoder: error, licence, size, the line to load it.

    --all shows everything that is known of it: the whole card, measurements on other data sets than ImageNet-1K,
    numbers reported by authors, those measured by others, and what is doubtful. With --json, which has all of this, the
    facts have the dotted names of the card, such as "representation.dim".
    """
    (subject,) = list_subjects([name], with_risks=True, exclude_wrong=True)
    card, summary = subject.card, subject.measured
    elsewhere: dict[tuple[str, str], list[SeedMean]] = {}  # by data set and source
    for mean in seed_means(subject.id):
        elsewhere.setdefault((mean.dataset, mean.source), []).append(mean)
    numbers = reported_numbers(card.id)
    differing = describe_disagreements([*numbers, *build_measured_numbers(card, subject.summary)])
    if as_json:
        document = _document(card, summary, [mean for means in elsewhere.values() for mean in means], numbers)
        print_json({**document, "disagreements": differing})
        return
    if not shows_all:
        click.echo("\n".join(_brief(card, summary, elsewhere, numbers)))
        return
    reported = [one for one in numbers if not find_origin(one)]
    by_others = [one for one in numbers if find_origin(one)]
    parts = group_facts(card)
    lines = [click.style(card.id, bold=True), *format_entry("released", format_fact(card.released))]
    for part in parts:
        if part == "reported" and reported:
            lines += _reported(card, reported)
        elif part not in _LAST_SECTIONS:
            lines += _section(part.capitalize(), parts[part])
        if part == "architecture" and card.patch_grid is not None:
            lines += format_entry("positions", f"for {_grid(card.patch_grid)} patches{_rescaled(card)}")
        if part == "provenance":
            for words, names in list_lineage(card).items():
                lines += format_entry(words.lower(), format_list(names, most=12)) if words in _UP else []
    lines += [*_cost(card), *_risks(card, summary)]
    for means in elsewhere.values():
        lines += _measured(means)
    lines += _title("Where origins disagree (percent)") if differing else []
    for about, told in differing.items():
        lines += format_entry(about, told)
    if by_others:
        lines += [
            *_title("Measured by others (percent, higher is better; an entry per protocol)"),
            *format_reported_entries(by_others),
        ]
    lines += _section("Weights", parts["weights"])
    words, availability = describe_access(card), card.weights.availability
    if words != availability and not isinstance(availability, Missing):
        lines += format_entry("access", words)
    for one in find_same_weights(card):
        other = one.place if one.encoder == card.id.partition("@")[0] else f"than {one.encoder}, of the same weights"
        lines += format_entry("other features", f"{other}: {one.says}")
    if availability in GATED and (near := suggest_open_encoder(card, load_catalogue())):
        lines += format_entry("instead", near)
    lines += _section("Licence", parts["licence"])
    terms, use = describe_licence_terms(card), card.commercial_use
    said = {"commercial use": "" if isinstance(use, Missing) else describe_commercial_use(use)}
    said |= {"in plain words": terms["summary"], "text": terms["text"]}
    for label, text in [*said.items(), *(("note", remark) for remark in terms["remarks"])]:
        lines += format_entry(label, text) if text else []
    click.echo("\n".join(lines + _errata(card, summary)))


# --- the first screen -------------------------------------------------------------------------------------------------


def _brief(
    card: EncoderCard,
    summary: Summary | None,
    elsewhere: Mapping[tuple[str, str], Sequence[SeedMean]],
    numbers: Sequence[ReportedNumber],
) -> list[str]:
    """What one decides by, the line to load it, and what comes next; --all has the rest."""
    entries = [*_list_errors(card, summary), ("measured on", _of_other_sets(elsewhere))]
    by_others = len([one for one in numbers if find_origin(one)])
    told = [f"{one.printed} % {describe_protocol_kind(one)}" for one in choose([*numbers], card).values()]
    told += [f"{format_count(by_others, 'number')} measured by others"] * bool(by_others)
    entries += [("reported", "; ".join(told)), ("licence", _licence(card)), *_list_sizes(card)]
    trained = [f"{card.objective.name} ({card.objective.mode})".replace("_", " ")]
    data, epochs = card.pretraining.dataset, card.pretraining.epochs
    trained += [] if isinstance(data, Missing) else [f"on {data}"]
    trained += [] if isinstance(epochs, Missing) else [format_count(epochs, "epoch")]
    trained += [] if isinstance(card.released, Missing) else [f"released {format_fact(card.released)}"]
    entries += [("trained", ", ".join(trained)), ("weights", describe_access(card))]
    results = summary.errata if summary else ()
    wrong = [format_count(len(card.errata), "published fact")] * bool(card.errata)
    wrong += [format_count(len(results), "measurement")] * bool(results)
    entries += [("errata", f"{' and '.join(wrong)} known or suspected to be wrong" if wrong else "")]
    lines = [click.style(card.id, bold=True)]
    for label, text in entries:
        lines += format_entry(label, text, width=_BRIEF_WIDTH) if text else []
    commands = {
        "load": f'encoder, preprocess = zoo.load("{card.id}")',
        "next": f"zoo evaluate {card.id} IMAGES",
        "all facts": f"zoo show {card.id} --all",
    }
    return [*lines, "", *(f"  {label}".ljust(_BRIEF_WIDTH) + text for label, text in commands.items())]


def _list_errors(card: EncoderCard, summary: Summary | None) -> list[tuple[str, str]]:
    """Measured errors with their parts, or the expected one."""
    of = "of a linear probe on ImageNet-1K with all labels"
    if summary is None:
        from ..choosing.expectations import find_best_measured

        one = _expected(card)
        if one is None:
            return [("error", f"{of.removeprefix('of a ')}: not measured")]
        ends = " to ".join(map(format_points, one.interval))
        beyond = "; extrapolated: the study measured none as low" * (one.error < find_best_measured(_N_ALL)[0])
        return [
            ("error", f"{format_points(one.error)} % {of}: {EXPECTED} (90 % interval {ends}), {one.source}{beyond}")
        ]
    errors = {setting.name: summary.errors[setting.name] for setting in SETTINGS if setting.name in summary.errors}
    first, *others = errors
    entries = [
        ("error", f"{errors[first]:.1f} % {of}: {STUDY if summary.campaign.source == PUBLISHED_SOURCE else PROJECT}")
    ]
    if found := summary.decomposition:
        approximation, usability = found.approximation, found.usability
        if isinstance(approximation, Missing) or isinstance(usability, Missing):
            parts = {"approximation and usability": found.approximation_plus_usability}
        else:
            parts = {"approximation": approximation, "usability": usability}
        parts |= {"probe": found.probe_generalization, "encoder": found.encoder_generalization}
        entries.append(("of which", ", ".join(f"{name} {format_points(value)}" for name, value in parts.items())))
    few = ", ".join(f"{errors[name]:.1f} % ({name})" for name in others)
    return [*entries, *[("few labels", few)] * bool(few)]


def _of_other_sets(elsewhere: Mapping[tuple[str, str], Sequence[SeedMean]]) -> str:
    """Errors with all labels on other data sets."""
    told = {}
    for (dataset, _), means in elsewhere.items():
        for mean in select_plain_protocols(means):
            if mean.metric == PROBE and mean.split == "train -> val":
                told[dataset] = f"{dataset} {format_quantity(mean.value, mean)} %"
    return format_list([*told.values()], most=4)


def _licence(card: EncoderCard) -> str:
    terms, use = describe_licence_terms(card), card.commercial_use
    name = format_fact(card.licence.weights).removeprefix("LicenseRef-")
    said = "" if isinstance(use, Missing) else f"; commercial use: {describe_commercial_use(use)}"
    return name + said + (f"; {terms['summary']}" if terms["summary"] else "")


def _list_sizes(card: EncoderCard) -> list[tuple[str, str]]:
    """Cost of the network, and shape of the features."""
    cost, n, px = _known_cost(card), card.architecture.n_parameters, card.preprocess.crop_px
    said = [] if isinstance(n, Missing) else [f"{format_short_number(n)} parameters"]
    if cost is not None:
        from ..cards.costs import BATCH_SIZE, format_gflops

        memory = _memory(cost)
        said.append(f"{format_gflops(cost.gflops)} GFLOPs per image")
        sizes = [f"{format_size(memory[name])} of a {words}" for name, words in (("cuda", "GPU"), ("cpu", "CPU"))]
        said.append(f"{' or '.join(sizes)} for batches of {BATCH_SIZE}")
    dim, layer, patch = card.representation.dim, card.representation.layer, card.architecture.patch_size_px
    features = [f"{format_fact(dim)} dimensions ({format_fact(layer)}) of an image of {format_fact(px)} px"]
    if not isinstance(patch, Missing) and not isinstance(px, Missing):
        features.append(f"maps of {_grid((px // patch, px // patch))} patches")
    return [("size", ", ".join(said)), ("features", "; ".join(features))]


def _grid(sides: tuple[int, int]) -> str:
    return "{} x {}".format(*sides)


def _rescaled(card: EncoderCard) -> str:
    """At which size of image the positions of the file are interpolated, and to how many."""
    px, native, patch = card.preprocess.crop_px, card.architecture.native_px, card.architecture.patch_size_px
    if isinstance(px, Missing) or isinstance(patch, Missing) or px == native:
        return ""
    return f" of {native} px; images of {px} px have {_grid((px // patch, px // patch))}"


# --- everything -------------------------------------------------------------------------------------------------------


def _document(
    card: EncoderCard, summary: Summary | None, others: Sequence[SeedMean], reported: Sequence[ReportedNumber]
) -> dict[str, Any]:
    facts = {f"{part}.{name}": value for part, values in group_facts(card).items() for name, value in values.items()}
    split = make_record({"released": card.released, **facts})
    missing = split.pop("missing")
    expected = _expected(card) if summary is None else None
    cost, cost_document = _known_cost(card), None
    if cost is not None:
        from ..cards.costs import BATCH_SIZE

        cost_document = {**asdict(cost), "batch_size": BATCH_SIZE, "memory_bytes": _memory(cost)}
    return {
        "encoder": card.id,
        "family": card.family,
        "facts": split,
        "missing": missing,
        "licence_terms": make_record(describe_licence_terms(card)),
        "access": describe_access(card),
        "lineage": list_lineage(card),
        "same_weights": [asdict(one) for one in find_same_weights(card)],
        "errata": [
            make_record({"field": erratum.field, "published": erratum.published, "reason": erratum.reason})
            for erratum in card.errata
        ],
        "cost": cost_document,
        "results": None if summary is None else build_risk_record(summary),
        "expected": None if expected is None else build_expected_record(expected),
        "other_results": [asdict(mean) for mean in others],
        "reported": [asdict(number) for number in reported],
    }


def _title(text: str) -> list[str]:
    return ["", click.style(wrap_text(text), bold=True)]


def _section(title: str, values: dict[str, Any]) -> list[str]:
    """Known facts a line each; below them the names of missing ones, by reason."""
    lines = _title(title)
    for name, value in values.items():
        if not isinstance(value, Missing):
            label, unit = format_fact_label(name)
            lines += format_entry(label, format_fact(value) + unit)
    for reason in Missing:
        absent = [format_fact_label(name)[0] for name, value in values.items() if value is reason]
        if absent:
            lines += format_entry(f"({reason.value})", ", ".join(absent))
    return lines


def _known_cost(card: EncoderCard) -> Cost | None:
    from ..cards.costs import load_shipped_costs

    shipped = load_shipped_costs().get(card.id)
    if shipped is not None:
        return shipped
    from ..choosing.constraints import find_known_cost  # which computes it, for an encoder of the user's

    return find_known_cost(card)


def _memory(cost: Cost) -> dict[str, int]:
    from ..cards.costs import BATCH_SIZE, estimate_memory

    return {device: estimate_memory(cost, BATCH_SIZE, device=device) for device in ("cuda", "cpu")}


def _cost(card: EncoderCard) -> list[str]:
    from ..cards.costs import BATCH_SIZE, format_gflops

    lines, cost = _title("Cost (computed, in float32)"), _known_cost(card)
    if cost is None:
        return [*lines, "  not known"]
    memory = {device: format_size(n_bytes) for device, n_bytes in _memory(cost).items()}
    operations = f"{format_gflops(cost.gflops)} GFLOPs per image of {cost.px} px; a multiply-add is two"
    lines += format_entry("operations", operations)
    lines += format_entry("parameters", f"{format_size(cost.parameter_bytes)} with buffers")
    lines += format_entry("activations", f"{format_size(cost.activation_bytes)} an image, the most alive at once")
    batches = f"for batches of {BATCH_SIZE}, with a margin for what allocators and kernels add"
    return lines + format_entry(
        "memory", f"{memory['cuda']} of a GPU with CUDA's context, {memory['cpu']} of a CPU; {batches}"
    )


def _expected(card: EncoderCard) -> ExpectedError | None:
    """The error to expect on ImageNet-1K with all labels; None of untrained and of toy encoders."""
    from ..choosing.expectations import Images, estimate_errors
    from ..choosing.ranking import is_of_pocket

    if is_of_pocket(card):
        return None
    found = estimate_errors({card.id: card}, SETTINGS[0].n_labels, 1_000, images=Images.named(like=IMAGENET))
    return found.get(card.id)


def _risks(card: EncoderCard, summary: Summary | None) -> list[str]:
    lines = _title("Error of a linear probe on ImageNet-1K (percent, lower is better)")
    if summary is None:
        one = _expected(card)
        if one is None:
            return [*lines, "  not measured"]
        low, high = one.interval
        interval = f"90 % interval {format_points(low)} to {format_points(high)}"
        told = f"{format_points(one.error)} ({interval}), {one.source}; not measured"
        return lines + format_entry(f"expected, {SETTINGS[0].name}", told)
    for setting in SETTINGS:
        error = summary.errors.get(setting.name)
        lines += format_entry(
            f"{setting.name} ({setting.n_labels:,} labels)", "not measured" if error is None else f"{error:.1f}"
        )
    lines += format_entry("protocol", f"{summary.campaign.protocol} ({summary.campaign.source})")
    lines += _title("Components of the error with 100% (percentage points, signed)")
    if summary.decomposition is None:
        return [*lines, "  not measured"]
    found = summary.decomposition
    if isinstance(found.approximation, Missing) or isinstance(found.usability, Missing):
        together = f"{format_points(found.approximation_plus_usability)} (not separable without a supervised twin)"
        lines += format_entry("approximation + usability", together)
    else:
        assumed = " (assumed, not measured)" if found.approximation_assumed else ""
        lines += format_entry("approximation", f"{format_points(found.approximation)}{assumed}")
        lines += format_entry("usability", format_points(found.usability))
    lines += format_entry("probe generalization", format_points(found.probe_generalization))
    lines += format_entry("encoder generalization", format_points(found.encoder_generalization))
    lines += format_entry("sum", format_points(found.full_shot_error))
    return lines + (format_entry("of another measurement", summary.older_parts) if summary.older_parts else [])


def _measured(means: Sequence[SeedMean]) -> list[str]:
    """What one source measured on one data set: errors, components, label-free metrics, curves."""
    dataset, encoder = means[0].dataset, means[0].encoder
    shown = select_plain_protocols(means)
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
        images = "" if mean.n_train is None else f" ({format_count(mean.n_train, 'image')})"
        seeds = "" if mean.n_seeds == 1 else f", {mean.n_seeds} seeds"
        ends = "" if mean.low is None else f" ({format_seed_interval(mean)}{seeds})"
        label = f"{'k-NN, ' if mean.metric == NEIGHBOURS else ''}{format_setting(mean.split)}{images}"
        lines += format_entry(label, format_quantity(mean.value, mean) + ends)
    for mean in sorted(parts, key=lambda mean: [*PART_HEADS].index(mean.metric)):
        lines += format_entry(mean.metric.replace("_", " "), f"{format_quantity(mean.value, mean)} points")
    for metric, own in curves.items():
        text = ", ".join(f"{mean.n_train:,}: {format_quantity(mean.value, mean)}" for mean in own[::-1])
        lines += format_entry(f"{metric.replace('_', ' ')} by images", text)
    if others:
        lines += format_entry(
            "others", ", ".join(f"{mean.metric} {format_quantity(mean.value, mean)}" for mean in others)
        )
    lines += format_entry("protocols", ", ".join(dict.fromkeys(mean.protocol for mean in shown)))
    if len(means) > len(shown):
        hint = f"zoo results {encoder} --dataset {dataset} --metric '*' --long"
        lines += format_entry("of other protocols", f"{len(means) - len(shown)} more: {hint}")
    return lines


def _reported(card: EncoderCard, numbers: Sequence[ReportedNumber]) -> list[str]:
    """An entry for all numbers of one kind from one place."""
    groups: dict[tuple[str, str, str], list[ReportedNumber]] = {}
    for one in numbers:
        groups.setdefault(
            (describe_protocol_kind(one), describe_protocol_details(one), describe_number_origin(one)), []
        ).append(one)
    lines = _title(f"{AUTHORS.capitalize()} or others (recipes differ, so mostly not comparable)")
    for (label, recipe, where), group in groups.items():
        told = [
            f"{'' if one.metric == TOP_1 else f'{one.metric} on '.replace('_', ' ')}{one.dataset} {one.printed}"
            f"{_UNITS.get(one.unit, '')}"
            for one in group
        ]
        lines += format_entry(label, "; ".join(text for text in (", ".join(told), recipe, where) if text))
    for reason in (Missing.NOT_PUBLISHED, Missing.NOT_APPLICABLE):
        absent = [words for name, words in _OF_CARD.items() if getattr(card.reported, name) is reason]
        if absent:
            lines += format_entry(f"({reason.value})", ", ".join(absent))
    return lines


def _errata(card: EncoderCard, summary: Summary | None) -> list[str]:
    results = summary.errata if summary else ()
    lines = _title("Errata") if card.errata or results else []
    for erratum in card.errata:
        lines += [
            *format_entry(erratum.field, f"published: {format_fact(erratum.published)}"),
            *format_entry("", erratum.reason),
        ]
    for result in results:
        metric = "all measurements" if result.metric == "*" else result.metric.replace("_", " ")
        left_out = " Left out of recommendations." if result.exclude else ""
        lines += format_entry(metric, f"{result.kind}: {result.reason}{left_out}")
    return lines
