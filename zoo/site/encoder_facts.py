"""What a card says, as its page shows it: the main facts, all facts with their reasons, preprocessing, how to load."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from ..cards.costs import format_gflops
from ..cards.descriptions import format_fact_label, group_facts
from ..cards.gated_access import (
    GATED,
    describe_access,
    describe_access_request,
    describe_licence_terms,
    list_lineage,
    suggest_open_encoder,
)
from ..cards.licences import describe_commercial_use
from ..cards.schema import (
    LINEAGE,
    NOT_RECORDED,
    EncoderCard,
    Missing,
    describe_features,
    format_fact,
    format_load_line,
    list_named_encoders,
)
from ..results.facts import mark_reported
from ..results.reported_values import PROTOCOLS
from ..weights.locations import ADDRESS, format_location, format_portable_location, strip_url_keys
from .contents import Contents, SiteEntry
from .drawing import build_element

if TYPE_CHECKING:
    from markupsafe import Markup

Text: TypeAlias = "Markup | str"


@dataclass(frozen=True, slots=True)
class Named:
    """A fact with its name; ``is_missing`` where the text is the reason why there is no value."""

    name: str
    text: Text
    is_missing: bool = False


@dataclass(frozen=True, slots=True)
class Code:
    """Lines to copy."""

    title: str
    text: str


def link_addresses(text: str) -> Markup:
    """A text whose addresses are links, without keys; everything else is text.

    >>> str(link_addresses("See https://host/a?token=secret, <b>."))
    'See <a href="https://host/a">https://host/a</a>, &lt;b&gt;.'
    """
    parts: list[Text] = []
    end = 0
    for found in ADDRESS.finditer(text):
        address = format_location(found[0])
        parts += [text[end : found.start()], build_element("a", {"href": address}, address)]
        end = found.end()
    return _joined(*parts, text[end:])


def _joined(*parts: Text) -> Markup:
    from markupsafe import Markup, escape

    return Markup("").join(map(escape, parts))


def list_relations(entry: SiteEntry, contents: Contents) -> list[tuple[str, Markup]]:
    """The encoders that an encoder descends from, or that are offered in its place or share its file."""
    found = {
        "Superseded by": list_named_encoders(entry.card.provenance.superseded_by),
        **list_lineage(entry.card),
        "Same file of weights as": list_named_encoders(entry.card.weights.same_file_as),
    }
    return [(words, _encoders(some, contents)) for words, some in found.items() if some]


def _encoders(some: Sequence[str], contents: Contents) -> Markup:
    """Encoders by comma; those that have a page are links to it."""
    parts: list[Text] = []
    for one in some:
        known = contents.entries.get(one)
        link = {} if known is None else {"href": f"{known.file}.html"}
        parts += [", ", build_element("a" if link else "span", link, one)]
    return _joined(*parts[1:])


def list_main_facts(entry: SiteEntry) -> list[Named]:
    """The facts that people look for first."""
    card, how = entry.card, entry.card.preprocess
    architecture, data, (mode, method) = card.architecture, card.pretraining, (card.objective.mode, card.objective.name)
    patch, n_images, then = architecture.patch_size_px, data.n_images, data.finetuning_dataset
    learnt = ", ".join(dict.fromkeys(one.replace("_", " ") for one in (mode, method) if not isinstance(one, Missing)))
    images = data.dataset
    if not isinstance(images, Missing):
        images += "" if isinstance(n_images, Missing) else f" ({n_images:,} images)"
        images += "" if isinstance(then, Missing) else f", then {then}"
    facts: list[tuple[str, Text | Missing]] = [
        ("Network", _joined(architecture.exact, " (", build_element("code", {}, architecture.backbone), ")")),
        ("Parameters", f"{architecture.n_parameters:,}"),
        ("Features", f"{card.representation.dim:,}: {describe_features(card)}"),
        ("Operations", NOT_RECORDED if entry.cost is None else f"{format_gflops(entry.cost.gflops)} GFLOPs per image"),
        (
            "Input",
            f"{how.crop_px} x {how.crop_px} px" + ("" if isinstance(patch, Missing) else f", patches of {patch} px"),
        ),
        ("Training", "none: random weights" if card.is_untrained else learnt or mode),
        ("Data", images),
        ("Kind of images", data.domain),
        ("Released", card.released),
        ("Licence of the weights", _licence(card)),
        *([("Access", _access(card))] if card.weights.availability != "open" else []),
        ("Reported accuracy", _reported(entry)),
    ]
    return [
        Named(name, value.value, is_missing=True)
        if isinstance(value, Missing)
        else Named(name, value if hasattr(value, "__html__") else strip_url_keys(value))
        for name, value in facts
    ]


def _licence(card: EncoderCard) -> Text | Missing:
    licence = card.licence.weights
    if isinstance(licence, Missing):
        return licence
    terms, use = describe_licence_terms(card), card.commercial_use
    words = "" if isinstance(use, Missing) else f" Commercial use: {describe_commercial_use(use)}."
    text = _joined(f"{licence}.{words} In plain words: {terms['summary']}")
    if terms["text"]:
        text = _joined(text, " (", build_element("a", {"href": terms["text"]}, "its text"), ")")
    return _joined(text, *(link_addresses(f". {remark.removesuffix('.')}") for remark in terms["remarks"]), ".")


def _access(card: EncoderCard) -> Text | Missing:
    availability = card.weights.availability
    if isinstance(availability, Missing):
        return availability
    words = {
        "gone": "gone: no longer at their only address",
        "unfit": "unfit: the published file is of another network",
    }
    told = describe_access(card)
    return link_addresses(words.get(availability, told) if told == availability else told)


def _reported(entry: SiteEntry) -> str | Missing:
    preferred = entry.subject.reported
    for name, protocol in PROTOCOLS.items():
        if name in preferred:
            one = preferred[name]
            doubt = " (doubtful)" if mark_reported(one).endswith("!") else ""
            return f"{one.printed} % {protocol.short} accuracy on ImageNet-1K (as reported){doubt}"
    if entry.reported:
        return "none of ImageNet-1K; of other data sets and tasks below"
    stated = entry.card.reported.top1_percent
    return stated if isinstance(stated, Missing) else NOT_RECORDED


_PLACES = {"url", "authors_url", "mirrors", "companions"}


def list_fact_sections(entry: SiteEntry, contents: Contents) -> tuple[dict[str, list[Named]], dict[str, str]]:
    """The known facts of a card by part, and by reason the missing ones with their parts; without preprocessing."""
    card = entry.card
    parts = {"card": {"family": card.family, "released": card.released}} | group_facts(card)
    del parts["preprocess"]  # the steps of :func:`describe_preprocessing`, on the same page
    known: dict[str, list[Named]] = {}
    missing: dict[str, dict[str, list[str]]] = {}
    for part, facts in parts.items():
        for name, value in facts.items():
            label, unit = format_fact_label(name)
            if isinstance(value, Missing):
                missing.setdefault(value.value, {}).setdefault(part, []).append(label)
            else:
                known.setdefault(part.capitalize(), []).append(Named(label, _value(name, value, unit, contents)))
    words = {
        reason: "; ".join(f"{', '.join(labels)} ({part})" for part, labels in of.items())
        for reason, of in missing.items()
    }
    return known, words


def _value(name: str, value: Any, unit: str, contents: Contents) -> Text:
    if name in ("superseded_by", "same_file_as", *LINEAGE):
        return _encoders(list_named_encoders(value), contents)
    if name in _PLACES:
        places = [value] if isinstance(value, str) else list(value)
        return link_addresses(", ".join(format_location(format_portable_location(place)) for place in places) or "none")
    return link_addresses(format_fact(value) + unit)


def describe_preprocessing(card: EncoderCard) -> list[str]:
    """What happens to an image before the encoder sees it, step by step."""
    how = card.preprocess
    mean, std = (", ".join(map(str, values)) for values in (how.mean, how.std))
    down = ", rounded down" if how.crop_rounding == "down" else ""
    resized = (
        f"Resize it to {how.resize_px} x {how.resize_px} px, whatever its shape"
        if how.fit == "squash"
        else f"Resize its shorter side to {how.resize_px} px"
    )
    return [
        "Turn it as its EXIF orientation says; make it RGB, 8 bits per channel.",
        f"{resized} ({how.interpolation}, antialiased).",
        f"Crop the centre of {how.crop_px} x {how.crop_px} px{down}.",
        "Divide by 255.",
        f"Subtract from each channel its mean, {mean}; divide by its standard deviation, {std}.",
        *(["Put the channels into the order blue, green, red."] if how.channels == "BGR" else []),
    ]


def list_loading_notes(entry: SiteEntry, contents: Contents) -> list[Markup]:
    """What has to be known or done before the encoder can be loaded."""
    card = entry.card
    availability = card.weights.availability
    notes: list[str] = []
    if availability in GATED:
        notes.append(
            f"The weights are {availability}: {describe_access_request(card)}. Once you are admitted, set HF_TOKEN to "
            "a token of that account, or pass weights='PATH' with the file."
        )
    elif availability == "gone":
        notes.append(
            "The weights are gone from the only place that had them: pass weights='PATH' if you have the file."
        )
    elif availability == "unfit":
        notes.append("The published file is of another network and is not loaded.")
    elif isinstance(availability, Missing) and not card.is_untrained:
        notes.append(f"Access to the weights: {availability.value}.")
    if card.is_untrained:
        notes.append("There are no weights to fetch: the network is made with random ones, by the seed.")
    elif not isinstance(card.weights.note, Missing):
        notes.append(card.weights.note)
    if entry.is_mine:
        notes.append("This encoder is registered only on the machine on which this site was made.")
    said = [link_addresses(note) for note in notes]
    if availability in GATED and (near := suggest_open_encoder(card, entry.subject.cards)):
        words, one, rest = near.split("'", 2)  # the id is quoted
        said.append(_joined(f"{words[:1].upper()}{words[1:]}", _encoders([one], contents), f"{rest}."))
    return said


def list_loading_code(card: EncoderCard) -> list[Code]:
    """How to use the encoder, to copy."""
    px, dim = card.preprocess.crop_px, card.representation.dim
    python = f"""\
import zoo
from PIL import Image

{format_load_line(card)}
image = preprocess(Image.open("photo.jpg"))  # (3, {px}, {px})
features = encoder(image.unsqueeze(0))  # (1, {dim})"""
    if card.weights.availability in ("gone", "unfit"):
        return [Code("Python", python)]
    get = [] if card.is_untrained else [f"zoo get {card.id}"]
    command = "\n".join([*get, f"zoo evaluate {card.id} IMAGES  # a folder of labelled images"])
    return [Code("Python", python), Code("Command line", command)]
