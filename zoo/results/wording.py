"""How measurements and reported numbers are said: labels of a probe, values with their digits, who measured and how."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from .facts import Fact, format_points
from .reported_values import CARD, PROTOCOLS, ReportedNumber
from .values import EXPECTED, PROJECT, SETTINGS, STUDY, SeedMean, select_newest_protocols

PROBE, NEIGHBOURS = "linear_probe_error", "knn_error"

_OF_BASIS = {
    "these images": "measured on these images",
    "the study": STUDY,
    "this project": PROJECT,
    "another protocol": "measured by another protocol",
    "reported probe": f"{EXPECTED} from a reported linear probe",
    "other numbers": f"{EXPECTED} from other numbers",
    "similar encoders": f"{EXPECTED} from similar encoders",
}

_SETTING_OF = {setting.split: setting.name for setting in SETTINGS}

_TRAINED = re.compile(r"train (.+) -> val")

_SMALLEST_WITH_ONE_DECIMAL = 2e-4  # below which decimals would hide the value

_LABELS = {
    "ssl_mode": "mode",
    "is_stopgrad": "gradients stop",
    "is_ema": "moving average",
    "other": "variant",
    "pred_dim": "projector, output",
    "projection_hid_width": "projector, hidden width",
    "projection_hid_depth": "projector, hidden layers",
    "projection1_arch": "projector",
    "projection2_arch": "projector of the other branch",
    "projection_same": "the same projectors",
    "projection_nparameters": "projector, parameters",
    "architecture_exact": "network",
    "architecture": "network, coarse",
    "family": "kind of network",
    "patch_size": "patch",
    "img_size": "input",
    "n_registers": "registers",
    "native_px": "positions for",
    "size_step_px": "step of sizes",
    "n_parameters": "parameters",
    "z_dim": "dimensions",
    "z_layer": "features",
    "size_bytes": "file of weights",
    "gflops": "operations",
    "n_images": "training images",
    "n_samples_seen": "images seen",
    "n_negatives": "negatives",
    "n_classes": "clusters or classes",
    "pretraining_data": "trained on",
    "finetuning_data": "then fine-tuned on",
    "is_aug_invariant": "invariant to augmentations",
    "where": "released at",
    "n_pus": "processors",
    "pu_type": "type of processor",
    "time_hours": "duration",
    "license": "licence",
    "licence_code": "licence of the code",
    "licence_timm": "licence at timm",
    "authors_access": "authors' own copy",
    "top1acc_in1k_official": "stated by the card",
    "top1acc_in1k-1%_official": "with 1 % of the labels",
    "top1acc_in1k-c5_official": "with 5 labels per class",
    "approx": "approximation",
    "approx_plus_usability": "approximation + usability",
    "probe_gen": "probe generalization",
    "enc_gen": "encoder generalization",
    "n_errata": "errata",
    "is_official": "by the method's authors",
    "is_industry": "by a large company",
    "is_our_extract": "other features than the authors'",
    "card_family": "family",
    "reported_linear": "reported: linear probe",
    "reported_knn": "reported: k-NN",
    "reported_attentive": "reported: attentive probe",
    "reported_zero_shot": "reported: zero-shot",
    "reported_own_head": "reported: the network's own head",
    "reported_finetune": "reported: fine-tuned",
} | {setting.column: f"{setting.name} ({setting.n_labels:,} labels)" for setting in SETTINGS}


def format_column_label(fact: Fact) -> str:
    """A column as people name it, without its unit.

    >>> from .facts import FACTS
    >>> [format_column_label(FACTS[name]) for name in ("n_pus", "train_test", "reported_linear")]
    ['processors', '100% (1,281,167 labels)', 'reported: linear probe']
    """
    return _LABELS.get(fact.name) or (fact.other_name or fact.name).replace("_", " ")


def describe_basis(basis: str, how: str = "measured") -> str:
    """What kind of number an error is, by what it rests on: a basis of :mod:`zoo.choosing.expectations`.

    >>> describe_basis("the study"), describe_basis("the study", "extrapolated"), describe_basis("similar encoders")
    ('measured by the study', 'extrapolated from the study', 'expected from similar encoders')
    """
    return _OF_BASIS[basis] if how == "measured" or _OF_BASIS[basis].startswith(EXPECTED) else f"{how} from {basis}"


def label_basis(basis: str, how: str) -> str:
    """The same below a heading "rests on": what a number rests on, and whether it lies between or beyond settings."""
    return f"{basis}, {how}" if how in ("interpolated", "extrapolated") else basis


@lru_cache
def format_setting(split: str) -> str:
    """Labels that a probe was trained on, in short.

    >>> [format_setting(split) for split in ("train -> val", "train 1% -> val", "train 20 images -> val", "val")]
    ['100%', '1%', '20 images', 'val']
    """
    found = _TRAINED.fullmatch(split)
    return _SETTING_OF.get(split) or (found[1] if found and found[1] != "plus val" else split)


def select_plain_protocols(means: Sequence[SeedMean]) -> list[SeedMean]:
    """Of each metric the rows of its plain protocol: with the fewest brackets, of the newest generation, then with the
    most encoders, then the shortest.
    """
    counts: dict[str, dict[str, set[str]]] = {}
    for mean in means:
        counts.setdefault(mean.metric, {}).setdefault(mean.protocol, set()).add(mean.encoder)
    chosen = {}
    for metric, protocols in counts.items():
        keys = [
            (name.count("("), -len(protocols[name]), len(name), name) for name in select_newest_protocols(protocols)
        ]
        chosen[metric] = min(keys)[-1]
    return [mean for mean in means if mean.protocol == chosen[mean.metric]]


def note_older_protocols(shown: Sequence[SeedMean], among: Sequence[SeedMean]) -> list[str]:
    """Notes on encoders that a table leaves out because they were measured by other protocols alone."""
    by_metric = {mean.metric: mean.protocol for mean in shown}
    there = {(mean.encoder, mean.metric) for mean in shown}
    older: dict[str, dict[str, None]] = {}
    for mean in among:
        is_other = mean.protocol != by_metric.get(mean.metric, mean.protocol)
        if is_other and (mean.encoder, mean.metric) not in there:
            older.setdefault(mean.protocol, {})[mean.encoder] = None
    return [
        f"measured by {name} alone, {len(encoders)} encoder{'s' * (len(encoders) > 1)}: --protocol '{name}'"
        for name, encoders in sorted(older.items())
    ]


@lru_cache
def is_by_labels(split: str) -> bool:
    """True if the split tests, on validation images, a probe that was trained with some number of labels."""
    return split == "train -> val" or (
        _TRAINED.fullmatch(split) is not None and "subset" not in split and "plus val" not in split
    )


def format_quantity(value: float, mean: SeedMean) -> str:
    """A value of that quantity as text."""
    return format_points(value) if mean.unit.startswith("percent") else format_short_value(value)


def format_short_value(value: float) -> str:
    """A value with about three significant digits.

    >>> [format_short_value(value) for value in (24.56, 0.0321, -0.391, 1346.0)]
    ['24.6', '0.032', '-0.39', '1346']
    """
    if abs(value) >= 1000:
        return f"{value:.0f}"
    if abs(value) >= 1 or abs(value) < _SMALLEST_WITH_ONE_DECIMAL:
        return format_points(value)
    return f"{value:.2f}" if abs(value) >= 0.1 else f"{value:.3f}"


def format_seed_interval(mean: SeedMean) -> str:
    """The interval of one seed, or the range of several."""
    if mean.low is None or mean.high is None:
        return ""
    return f"{format_quantity(mean.low, mean)} to {format_quantity(mean.high, mean)}"


def format_reported_interval(one: ReportedNumber) -> str:
    """What a source says of the spread of a number: the deviation over repeats, or an interval."""
    if one.low is not None and one.high is not None:
        return f"{format_points(one.low)} to {format_points(one.high)}"
    return "" if one.sd is None else f"sd {format_short_value(one.sd)} of {one.repeats}"


_BY = {"reproduction": "who reproduced the method", "third party": "a third party", "second hand": "second hand"}


def describe_protocol_kind(one: ReportedNumber) -> str:
    """The protocol in a word or two, with the labels if they are few."""
    few = f", {format_setting(one.split)}" if one.protocol == "reported-few-labels" else ""
    return PROTOCOLS[one.protocol].short + few


def describe_protocol_details(one: ReportedNumber) -> str:
    """What the protocol leaves open, and the size of the images, as far as the source says them."""
    size = f"{one.resolution} px" if one.resolution[:1].isdigit() else one.resolution and f"{one.resolution} size"
    return ", ".join(text for text in (one.setting, size) if text)


def describe_measurer(one: ReportedNumber) -> str:
    """Who measured it, and how they stand to the weights unless they trained them."""
    standing = _BY.get(one.standing)
    return one.measured_by + (f" ({standing})" if standing else "")


def describe_printed_place(one: ReportedNumber) -> str:
    """Where it is printed, to follow a colon."""
    return "from the card" if one.source == CARD else f"{one.source}, {one.place}"


def describe_number_origin(one: ReportedNumber) -> str:
    """Who measured it and where it is printed, with what is known to be odd about it."""
    text = f"{describe_measurer(one)}: {describe_printed_place(one)}"
    if one.remark:
        text += f"; {one.remark}"
    return f"{text}; doubtful: {one.doubt}" if one.doubt else text
