"""The model card: front matter and text, generated from the card of an encoder and what was measured of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import Any

from huggingface_hub import ModelCard, ModelCardData

from ..metadata import NOT_PUBLISHED, EncoderCard, Missing
from ..version import __version__
from ..weights.places import portable, shown
from ..weights.store import REGISTERED, Record
from .addresses import without_keys
from .code import plain_code, zoo_code
from .licences import conditions, hub_licence
from .results import Measured, eval_results, label_setting, measured

LIBRARY = "ssl-zoo"
_HUB_DATASETS = {"ImageNet-1K": "imagenet-1k", "ImageNet-21K": "imagenet-21k", "ImageNet-22K": "imagenet-21k"}
_FEATURES = {
    "avgpool": "the average of the last feature map",
    "attnpool": "the last feature map, pooled by attention",
    "cls": "the class token after the last block and its norm",
    "cls+avg": "the class token and the mean of the patch tokens, {order}",
    "4xcls": "the class tokens of the last four blocks, each through the final norm, the earliest first",
    "proj": "the class token, projected to the space shared with text",
    "pred": "the class token, projected to the space shared with text and quantised",
    "proj+cls": "the class token, followed by its projection to the space shared with text",
}
_LABELS = {
    "objective.name": "objective",
    "objective.mode": "kind of objective",
    "objective.version": "version of the objective",
    "objective.n_negatives": "negatives a positive pair",
    "objective.n_classes": "clusters or classes that are predicted",
    "objective.stop_gradient": "stops the gradient of one branch",
    "objective.ema": "one branch is a moving average of the other",
    "pretraining.dataset": "data set",
    "pretraining.finetuning_dataset": "data set of the training afterwards",
    "pretraining.augmentation_invariant": "asks for equal features of two augmentations",
    "pretraining.learning_rate": "base learning rate",
    "pretraining.n_processors": "number of processors",
    "pretraining.duration_hours": "duration in hours",
    "projector.first_arch": "projector of one branch",
    "projector.second_arch": "projector of the other branch",
    "projector.same": "both branches have the same projector",
    "projector.output_dim": "dimensions that the loss sees",
    "projector.hidden_width": "units in a hidden layer of the projector",
    "projector.hidden_depth": "hidden layers of the projector",
    "projector.n_parameters": "parameters of the projector",
}
_STUDY = """\
@inproceedings{dubois2023evaluating,
  title = {Evaluating Self-Supervised Learning via Risk Decomposition},
  author = {Dubois, Yann and Hashimoto, Tatsunori and Liang, Percy},
  booktitle = {International Conference on Machine Learning},
  year = {2023},
  url = {https://arxiv.org/abs/2302.03068}
}"""


def model_card(card: EncoderCard, record: Record) -> ModelCard:
    """The model card of an encoder with these weights.

    Raises
    ------
    ResultsError
        If a file of results is unreadable or a row in it is wrong.
    """
    found = measured(card)
    results = eval_results(found)
    licence: dict[str, Any] = hub_licence(card)
    front = ModelCardData(
        **licence,
        library_name=LIBRARY,
        pipeline_tag="image-feature-extraction",
        tags=_tags(card),
        datasets=_datasets(card),
        metrics=["accuracy"] if results else None,
        model_name=card.id if results else None,
        eval_results=results or None,
    )
    sections = [
        _opening(card),
        _use(card),
        _preprocessing(card),
        _results(card, found),
        _training(card),
        _corrections(card),
        _licence(card),
        _citation(card, found),
        _provenance(card, record),
    ]
    text = f"---\n{front.to_yaml()}\n---\n\n" + "\n\n".join(filter(None, sections)) + "\n"
    return ModelCard(without_keys(text))  # names and notes may hold addresses too


def _tags(card: EncoderCard) -> list[str]:
    mode = card.objective.mode
    kind: str | Missing = "supervised" if mode == "supervised" else "self-supervised-learning"
    kind = mode if isinstance(mode, Missing) else kind
    words = [kind, card.objective.name, card.architecture.family, card.architecture.name]
    known = ["-".join(word.casefold().split()) for word in words if not isinstance(word, Missing)]
    return [LIBRARY, *dict.fromkeys(known)]


def _datasets(card: EncoderCard) -> list[str] | None:
    """Identifiers on the Hub of what the encoder was trained on, where it has one; parts of a set count as the set."""
    names = (card.pretraining.dataset, card.pretraining.finetuning_dataset)
    wholes = [name.rpartition("% ")[2] for name in names if not isinstance(name, Missing)]
    return list(dict.fromkeys(_HUB_DATASETS[name] for name in wholes if name in _HUB_DATASETS)) or None


def _opening(card: EncoderCard) -> str:
    mode, name = card.objective.mode, card.objective.name
    how = "with labels" if mode == "supervised" else f"with a {mode} objective"
    how = "" if isinstance(mode, Missing) else how
    how += "" if isinstance(name, Missing) else f" ({_inline(name)})"
    sets = (card.pretraining.dataset, card.pretraining.finetuning_dataset)
    named = [f"the data set {_inline(name)}" for name in sets if not isinstance(name, Missing)]
    how += (" on " if named else "") + ", then on ".join(named)
    layer = _FEATURES[card.representation.layer].format(order=card.representation.order)
    px, n = card.preprocess.crop_px, card.architecture.n_parameters
    size = f"{n / 1e6:,.1f} million parameters" if n >= 100_000 else f"{n:,} parameters"
    network = f"`{_inline(card.architecture.exact)}`, {size}"
    trained = f", trained {how.strip()}" if how else ""
    text = (
        f"An image encoder ({network}){trained}. It turns an image of {px} x {px} pixels into "
        f"{card.representation.dim} features: {layer}."
    )
    url = _web(card.provenance.url)
    if url is None:
        origin = "The weights are those of whoever publishes this page."
    else:
        origin = f"The weights are those released at [{url.partition('://')[2]}]({url}), converted to safetensors."
    origin += f" `{card.id}` is the id of the encoder in SSL Zoo, a registry of vision encoders."
    return f"# {card.id}\n\n{text}\n\n{origin}"


def _use(card: EncoderCard) -> str:
    text = f"## Use\n\nWith the Python package `{LIBRARY}`:\n\n```python\n{zoo_code(card)}\n```"
    if _is_registered(card):
        text = (
            f"## Use\n\nThis encoder is not one of those that come with the Python package `{LIBRARY}`. To add it "
            f"there, run `zoo register hf:OWNER/REPO --like ID --id {card.id} --layout zoo`, where ID is an encoder of "
            "the same architecture and OWNER/REPO is this repository; `config.json` has the facts that differ."
        )
    plain = plain_code(card)
    if plain is None:
        return f"{text}\n\nNeither torchvision nor timm builds this encoder by itself; its parts are in `{LIBRARY}`."
    library = card.architecture.backbone.partition(":")[0]
    return f"{text}\n\nThe same features with {library} alone:\n\n```python\n{plain}\n```"


def _preprocessing(card: EncoderCard) -> str:
    how = card.preprocess
    rows = [
        ("mode", "RGB"),
        ("resize", f"shorter side to {how.resize_px} px, {how.interpolation}, antialiased"),
        ("crop", f"centre, {how.crop_px} x {how.crop_px} px"),
        ("scale", "pixels from 0 to 1"),
        ("mean", ", ".join(map(str, how.mean))),
        ("standard deviation", ", ".join(map(str, how.std))),
    ]
    return "## Preprocessing\n\n" + _table(("step", "value"), rows)


def _results(card: EncoderCard, found: Measured) -> str:
    parts = ["## Results"]
    if found.top1_percent:
        source = f"[{_inline(found.source)}]({found.source_url})" if found.source_url else _inline(found.source)
        parts.append(
            "Top-1 accuracy of a linear probe on the frozen features, on the validation images of ImageNet-1K, by the "
            f"labels it was trained on. Measured by {source}."
        )
        rows = [
            (label_setting(setting), f"{setting.n_labels:,}", f"{value:.1f}")
            for setting, value in found.top1_percent.items()
        ]
        parts.append(_table(("labels", "images", "accuracy, %"), rows, right=(1, 2)))
    stated = card.reported.top1_percent
    if not isinstance(stated, Missing):
        of = "the network" if card.objective.mode == "supervised" else "a linear probe"
        parts.append(f"Its authors state a top-1 accuracy of {stated:g} % for {of}, with all labels.")
    left = f" {found.n_left_out} measured settings are left out here for that." if found.n_left_out else ""
    parts += [f"**Caution ({erratum.kind}).** {_inline(erratum.reason)}{left}" for erratum in found.errata]
    return "\n\n".join(parts) if len(parts) > 1 else "## Results\n\nNothing was measured yet."


def _training(card: EncoderCard) -> str:
    rows, unknown = [], []
    for part in ("objective", "pretraining", "projector"):
        for field in fields(getattr(card, part)):
            fact = f"{part}.{field.name}"
            label, value = _LABELS.get(fact, field.name.replace("_", " ")), card.fact(fact)
            if value is NOT_PUBLISHED:
                unknown.append(label)
            elif not isinstance(value, Missing):
                rows.append((label, _shown(value)))
    if not rows:
        return "## Training\n\nHow it was trained is not stated."
    text = "## Training\n\n" + _table(("fact", "value"), rows)
    return f"{text}\n\nNot published: {', '.join(unknown)}." if unknown else text


def _corrections(card: EncoderCard) -> str:
    wrong = [erratum for erratum in card.errata if erratum.published is not NOT_PUBLISHED]  # the others fill a gap
    if not wrong:
        return ""
    rows = [(f"`{erratum.field}`", _shown(erratum.published), erratum.reason) for erratum in wrong]
    why = "What was published about this encoder and is wrong; everything above is corrected."
    return f"## Corrections\n\n{why}\n\n" + _table(("fact", "published", "why it is wrong"), rows)


def _licence(card: EncoderCard) -> str:
    weights, code = (
        "not published" if isinstance(spdx, Missing) else spdx for spdx in (card.licence.weights, card.licence.code)
    )
    text = f"## Licence\n\nWeights: {_inline(weights)}. Code that released them: {_inline(code)}."
    known = conditions(card)
    return f"{text} {known}" if known else text


def _citation(card: EncoderCard, found: Measured) -> str:
    entries = []
    title, url = card.paper.title, card.paper.url
    url = url if isinstance(url, Missing) else shown(url)
    if not isinstance(title, Missing):
        lines = [f"  title = {{{_inline(title)}}}"]
        arxiv = None if isinstance(url, Missing) else re.search(r"arxiv\.org/abs/((\d\d)\d\d\.\d+)", url)
        if arxiv:
            lines += [f"  eprint = {{{arxiv[1]}}}", "  archivePrefix = {arXiv}", f"  year = {{20{arxiv[2]}}}"]
        lines += [] if isinstance(url, Missing) else [f"  url = {{{url}}}"]
        entries.append(f"@misc{{{card.id},\n" + ",\n".join(lines) + "\n}")
    if found.is_published and found.top1_percent:
        entries.append(_STUDY)
    if not entries:
        return ""
    return "## Citation\n\n```bibtex\n" + "\n\n".join(entries) + "\n```"


def _provenance(card: EncoderCard, record: Record) -> str:
    rows = [
        (f"`{_inline(shown(portable(origin.place)))}`", origin.format, f"{origin.size_bytes:,}", f"`{origin.sha256}`")
        for origin in record.origins
        if not origin.place.startswith(REGISTERED)
    ]
    if not rows:
        rows = [
            ("a file of the publisher's own", one.format, f"{one.size_bytes:,}", f"`{one.sha256}`")
            for one in record.origins
        ]
    made_with = ", ".join(f"{library} {number}" for library, number in record.versions.items())
    note = "" if isinstance(card.weights.note, Missing) else f"\n\n{_inline(card.weights.note)}"
    return (
        "## Provenance\n\n"
        + _table(("source", "format", "bytes", "SHA-256"), rows, right=(2,))
        + f"\n\n`model.safetensors` (SHA-256 `{record.sha256}`) was converted from it on {record.created} through the "
        f"layout `{record.layout}`, version {record.layout_version}, with {made_with}. This page was written by "
        f"{LIBRARY} {__version__}.{note}"
    )


def _is_registered(card: EncoderCard) -> bool:
    return not isinstance(card.weights.url, Missing) and card.weights.url.startswith(REGISTERED)


def _web(address: str) -> str | None:
    """An address that others can open; the place of a registered file may be a path on somebody's machine."""
    return shown(address) if re.fullmatch(r"https?://[^\s()<>]+", address) else None


def _table(headers: Sequence[str], rows: Iterable[Sequence[str]], *, right: Sequence[int] = ()) -> str:
    rule = ["--:" if position in right else "---" for position in range(len(headers))]
    lines = [headers, rule, *([_inline(cell).replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _inline(text: str) -> str:
    """Text of a card in one line, in which Markdown sees no tags."""
    return " ".join(text.split()).replace("<", "&lt;")


def _shown(value: Any) -> str:
    if isinstance(value, Missing):
        return value.value
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, (tuple, list)):
        return ", ".join(map(_shown, value)) or "none"
    return f"{value:g}" if isinstance(value, float) else str(value)
