"""The model card: front matter, code, results, licence and provenance, from an encoder's card and measurements."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any

from ..cards.descriptions import STUDY, format_paper_entry
from ..cards.gated_access import list_licence_remarks
from ..cards.licences import LICENCES, describe_commercial_use, find_licence_text
from ..cards.schema import COLUMNS, NOT_PUBLISHED, NOT_RECORDED, EncoderCard, Missing, describe_encoder, format_fact
from ..errors import format_count
from ..optional import require_extra
from ..results.derived import seed_means, summaries
from ..results.rows import measurements
from ..results.values import (
    IMAGENET,
    PUBLISHED_SOURCE,
    SETTINGS,
    ResultErratum,
    SeedMean,
    Setting,
    Summary,
    select_newest_protocols,
)
from ..version import __version__
from ..weights.locations import format_location, format_portable_location, strip_url_keys
from ..weights.store import REGISTERED, WeightsRecord

with require_extra("models", needed_for="Exporting an encoder"):
    from huggingface_hub import EvalResult, ModelCard, ModelCardData

_POOLED = "features = network(images)"
_TOKENS = "tokens = network.forward_features(images)"
_HEAD = "network.head = torch.nn.Linear(network.num_features, {dim}, bias=False)"


def format_zoo_code(card: EncoderCard) -> str:
    """Python that loads the encoder through the zoo, from a repository of the Hub."""
    return f"""\
import zoo
from PIL import Image

repository = "hf:OWNER/REPO"  # the name of this one
encoder, preprocess = zoo.load({_literal(card.id)}, weights=repository)
image = preprocess(Image.open("photo.jpg"))  # (3, {card.preprocess.crop_px}, {card.preprocess.crop_px})
features = encoder(image.unsqueeze(0))  # (1, {card.representation.dim})"""


def format_plain_code(card: EncoderCard) -> str | None:
    """Python that gives the same features with torchvision or timm alone.

    None for a backbone that neither library has, or a pooling with its own weights.
    """
    library, _, name = card.architecture.backbone.partition(":")
    features = _features(card)
    if library not in ("torchvision", "timm") or features is None:
        return None
    options = dict(card.architecture.options)
    if library == "torchvision":
        imports = "from torchvision import models, transforms"
        build = [_built("models.get_model", name, {"weights": None} | options), "network.fc = torch.nn.Identity()"]
    else:
        imports = "from torchvision import transforms"
        pooled = {} if features == [_POOLED] else {"global_pool": ""}
        build = [_built("timm.create_model", name, {"num_classes": 0} | pooled | options), *_projection(card)]
    lines = [
        *(["import timm"] if library == "timm" else []),
        "import torch",
        "from PIL import Image",
        "from safetensors.torch import load_file",
        imports,
        "from torchvision.transforms import v2",
        "",
        *build,
        'weights = load_file("model.safetensors")',
        'network.load_state_dict({name.removeprefix("backbone."): tensor for name, tensor in weights.items()})',
        "network.eval()",
        "",
        *_preprocess(card),
        'images = preprocess(Image.open("photo.jpg")).unsqueeze(0)',
        "with torch.inference_mode():",
        *(f"    {line}" for line in features),
    ]
    return "\n".join(lines)


def _preprocess(card: EncoderCard) -> list[str]:
    how = card.preprocess
    return [
        "preprocess = transforms.Compose([",
        "    v2.RGB(),",
        f"    transforms.Resize({how.resize_size}, "
        f"interpolation=transforms.InterpolationMode.{how.interpolation.upper()}),",
        f"    transforms.CenterCrop({how.crop_px}),",
        "    transforms.ToTensor(),",
        f"    transforms.Normalize(mean={list(how.mean)}, std={list(how.std)}),",
        "])",
    ]


def _features(card: EncoderCard) -> list[str] | None:
    """Lines of code from ``images`` to ``features``; None if the network alone cannot compute them."""
    match card.representation.layer:
        case "avgpool" | "attnpool" | "pooled":
            return [_POOLED]
        case "cls":
            return [_TOKENS, "features = tokens[:, 0]"]
        case "avg":
            mean = "mean = tokens[:, network.num_prefix_tokens :].mean(dim=1)"
            return [_TOKENS, mean, 'features = network.fc_norm(mean) if hasattr(network, "fc_norm") else mean']
        case "cls+avg":
            joined = "torch.stack(both, dim=-1).flatten(1)"
            if card.representation.order != "interleaved":
                joined = "torch.cat(both, dim=-1)"
            both = "both = (tokens[:, 0], tokens[:, network.num_prefix_tokens :].mean(dim=1))"
            return [_TOKENS, both, f"features = {joined}"]
        case "4xcls":
            return [
                "blocks = network.forward_intermediates(",
                "    images, indices=4, return_prefix_tokens=True, norm=True,",
                '    output_fmt="NLC", intermediates_only=True,',
                ")",
                "features = torch.cat([prefix[:, 0] for _, prefix in blocks], dim=-1)",
            ]
        case "proj":
            return [_TOKENS, "features = network.head(tokens[:, 0])"]
        case "proj+cls":
            joined = "features = torch.cat([tokens[:, 0], network.head(tokens[:, 0])], dim=-1)"
            return [_TOKENS, joined]
        case _:
            return None


def _projection(card: EncoderCard) -> list[str]:
    if card.representation.layer == "proj":
        return [_HEAD.format(dim=card.representation.dim)]
    if card.representation.layer == "proj+cls":
        return [_HEAD.format(dim=f"{card.representation.dim} - network.num_features")]
    return []


def _built(function: str, name: str, options: dict[str, object]) -> str:
    """The call that builds the network."""
    arguments = [_literal(name), *(f"{key}={_literal(value)}" for key, value in options.items())]
    return f"network = {function}({', '.join(arguments)})"


def _literal(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)


_DECIMALS = 3  # one of the 50,000 validation images is 0.002 %
_ARXIV = "arXiv:"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageNetMeasurements:
    """The believable measurements of one encoder, and the errata on the others."""

    top1_percent: dict[Setting, float]  # ImageNet-1K accuracy of a linear probe, by labels
    source: str  # "" if there is none
    errata: tuple[ResultErratum, ...]  # on any measurement of the encoder
    n_left_out: int  # settings that were measured and that an erratum excludes

    @property
    def source_url(self) -> str | None:
        """Address of the source, if its name contains one."""
        if self.source.startswith(_ARXIV):
            return f"https://arxiv.org/abs/{self.source.removeprefix(_ARXIV)}"
        return self.source if self.source.startswith(("http://", "https://")) else None

    @property
    def is_published(self) -> bool:
        """True if the numbers are those of the risk-decomposition study."""
        return self.source == PUBLISHED_SOURCE


def find_imagenet_measurements(card: EncoderCard) -> ImageNetMeasurements:
    """The ImageNet-1K measurements of an encoder."""
    everything, believable = (
        summaries(encoders=[card.id], exclude_wrong=wrong).get(card.id) for wrong in (False, True)
    )
    errors = believable.errors if believable else {}
    return ImageNetMeasurements(
        top1_percent={
            setting: round(100 - errors[setting.name], _DECIMALS) for setting in SETTINGS if setting.name in errors
        },
        source=format_location(_source(card, believable)) if believable else "",
        errata=everything.errata if everything else (),
        n_left_out=len(everything.errors) - len(errors) if everything else 0,
    )


def find_other_measurements(card: EncoderCard) -> dict[str, list[SeedMean]]:
    """Measurements on other data sets than ImageNet-1K, by data set."""
    found: dict[str, list[SeedMean]] = {}
    for mean in seed_means(card.id):
        if mean.dataset != IMAGENET:
            found.setdefault(mean.dataset, []).append(mean)
    for dataset, means in found.items():
        newest = select_newest_protocols(mean.protocol for mean in means)
        found[dataset] = [mean for mean in means if mean.protocol in newest]
    return found


def build_eval_results(found: ImageNetMeasurements) -> list[EvalResult]:
    """The measurements as huggingface_hub's records, one per setting."""
    return [
        EvalResult(
            task_type="image-classification",
            task_name="Linear probe on frozen features",
            dataset_type=IMAGENET,
            dataset_name="ImageNet-1K",
            dataset_split="validation",
            metric_type="accuracy",
            metric_name=f"Top-1 accuracy, {describe_label_setting(setting)}",
            metric_value=value,
            metric_args={"n_train": setting.n_labels},
            source_name=found.source if found.source_url else None,
            source_url=found.source_url,
        )
        for setting, value in found.top1_percent.items()
    ]


def describe_label_setting(setting: Setting) -> str:
    """How many labels the probe had, in words.

    >>> [describe_label_setting(setting) for setting in SETTINGS[:2]]
    ['100% of the labels', '30 labels per class']
    """
    if setting.name.endswith("%"):
        return f"{setting.name} of the labels"
    return format_count(int(setting.name.removesuffix("-shot")), "label") + " per class"


def _source(card: EncoderCard, believable: Summary) -> str:
    """The source whose errors the summary holds."""
    rows = measurements(metrics="linear_probe_error", encoders=card.id, exclude_wrong=True)
    sources = list(dict.fromkeys(row.source for row in rows if row.dataset == IMAGENET))
    if PUBLISHED_SOURCE in sources or len(sources) == 1:
        return PUBLISHED_SOURCE if PUBLISHED_SOURCE in sources else sources[0]
    for source in reversed(sources):
        own = summaries(exclude_wrong=True, source=source, encoders=[card.id]).get(card.id)
        if own is not None and own.errors == believable.errors:
            return source
    raise AssertionError("a summary comes from one of the sources of its rows")


# https://huggingface.co/docs/hub/repositories-licenses: those whose identifier is the SPDX id in lower case
_AS_SPDX = """
afl-3.0 agpl-3.0 apache-2.0 artistic-2.0 bsd-2-clause bsd-3-clause bsd-3-clause-clear bsl-1.0 cc-by-2.0 cc-by-2.5
cc-by-3.0 cc-by-4.0 cc-by-nc-2.0 cc-by-nc-3.0 cc-by-nc-4.0 cc-by-nc-nd-3.0 cc-by-nc-nd-4.0 cc-by-nc-sa-2.0
cc-by-nc-sa-3.0 cc-by-nc-sa-4.0 cc-by-nd-4.0 cc-by-sa-3.0 cc-by-sa-4.0 cc0-1.0 cdla-permissive-1.0 cdla-permissive-2.0
cdla-sharing-1.0 ecl-2.0 epl-1.0 epl-2.0 etalab-2.0 eupl-1.1 eupl-1.2 gpl-2.0 gpl-3.0 isc lgpl-2.1 lgpl-3.0 lppl-1.3c
mit mpl-2.0 ms-pl ncsa ofl-1.1 osl-3.0 postgresql unlicense wtfpl zlib
"""
_ON_THE_HUB = {identifier: identifier for identifier in _AS_SPDX.split()} | {
    "gfdl-1.3": "gfdl",
    "lgpllr": "lgpl-lr",
    "odbl-1.0": "odbl",
    "odc-by-1.0": "odc-by",
    "pddl-1.0": "pddl",
}
_FREE_TO_PUBLISH = ("apache-2.0", "bsd-2-clause", "bsd-3-clause", "bsl-1.0", "cc0-1.0", "cc-by-4.0", "isc", "mit")


def build_hub_licence(card: EncoderCard) -> dict[str, str]:
    """The fields of a model card that name the licence of the weights.

    ``other`` and a name where the Hub has no identifier, or no licence was published.
    """
    licence = card.licence.weights
    if isinstance(licence, Missing):
        fields = {"license": "other", "license_name": "not-published"}
    else:
        known = _ON_THE_HUB.get(_folded(licence))
        if known:
            return {"license": known}
        fields = {"license": "other", "license_name": "-".join(licence.casefold().split())}
        if address := find_licence_text(licence):
            return {**fields, "license_link": address}
    link = card.provenance.url
    return {**fields, "license_link": format_location(link)} if link.startswith(("http://", "https://")) else fields


def describe_licence_conditions(card: EncoderCard) -> str | None:
    """The conditions of the weights' licence in a sentence; None for a permissive one.

    >>> from zoo.cards.catalogue import load_catalogue
    >>> describe_licence_conditions(load_catalogue()["mae_vitB16"])
    'The licence of these weights, CC-BY-NC-4.0, forbids commercial use.'
    """
    licence = card.licence.weights
    if licence is NOT_RECORDED:
        return "The licence of these weights is not recorded here, and without one they may not be passed on."
    if isinstance(licence, Missing):
        return "No licence of these weights was published, and without one they may not be passed on."
    folded = _folded(licence)
    if folded in _FREE_TO_PUBLISH:
        return None
    if licence in LICENCES and not folded.startswith("cc-"):
        return f"The licence of these weights, {licence}: {LICENCES[licence].summary}."
    marks = {"-nc": "forbids commercial use", "-nd": "forbids altered copies", "-sa": "asks for the same licence"}
    said = [words for mark, words in marks.items() if f"{mark}-" in folded and folded.startswith("cc-")]
    return f"The licence of these weights, {licence}, {' and '.join(said) or 'has further conditions'}."


def describe_redistribution(card: EncoderCard) -> str | None:
    """What to know before publishing these weights again; None if nothing."""
    known = describe_licence_conditions(card)
    if known is None:
        return None
    if isinstance(card.licence.weights, Missing):
        return f"{known} Ask their authors before you publish this folder."
    return f"{known} Read it before you publish this folder."


def _folded(licence: str) -> str:
    return licence.casefold().removesuffix("-only").removesuffix("-or-later")


LIBRARY = "ssl-zoo"
_HUB_DATASETS = {"ImageNet-1K": "imagenet-1k", "ImageNet-21K": "imagenet-21k", "ImageNet-22K": "imagenet-21k"}
_MEANING = {column.field: column.meaning for column in COLUMNS}


def build_model_card(card: EncoderCard, record: WeightsRecord) -> ModelCard:
    """The model card of an encoder with these weights."""
    found = find_imagenet_measurements(card)
    results = build_eval_results(found)
    licence: dict[str, Any] = build_hub_licence(card)
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
    return ModelCard(strip_url_keys(text))  # names and notes may hold addresses too


def _tags(card: EncoderCard) -> list[str]:
    mode = card.objective.mode
    kind: str | Missing = "supervised" if mode == "supervised" else "self-supervised-learning"
    kind = mode if isinstance(mode, Missing) else kind
    words = [kind, card.objective.name, card.architecture.family, card.architecture.name]
    known = ["-".join(word.casefold().split()) for word in words if not isinstance(word, Missing)]
    return [LIBRARY, *dict.fromkeys(known)]


def _datasets(card: EncoderCard) -> list[str] | None:
    """The Hub's identifiers of the training sets, where it has them; parts of a set count as the set."""
    names = (card.pretraining.dataset, card.pretraining.finetuning_dataset)
    wholes = [name.rpartition("% ")[2] for name in names if not isinstance(name, Missing)]
    return list(dict.fromkeys(_HUB_DATASETS[name] for name in wholes if name in _HUB_DATASETS)) or None


def _opening(card: EncoderCard) -> str:
    text = describe_encoder(card, code=lambda name: f"`{name}`", text=_inline)
    url = _web(card.provenance.url)
    if url is None:
        origin = "The weights are those of this page's publisher."
    else:
        origin = f"The weights are those released at [{url.partition('://')[2]}]({url}), converted to safetensors."
    origin += f" `{card.id}` is the id of the encoder in SSL Zoo, a registry of vision encoders."
    return f"# {card.id}\n\n{text}\n\n{origin}"


def _use(card: EncoderCard) -> str:
    text = f"## Use\n\nWith the Python package `{LIBRARY}`:\n\n```python\n{format_zoo_code(card)}\n```"
    if _is_registered(card):
        text = (
            f"## Use\n\nThis encoder is not one of those that come with the Python package `{LIBRARY}`. To add it "
            f"there, run `zoo register hf:OWNER/REPO --like ID --id {card.id} --layout zoo`, where ID is an encoder of "
            "the same architecture and OWNER/REPO is this repository; `config.json` has the facts that differ."
        )
    plain = format_plain_code(card)
    if plain is None:
        return f"{text}\n\nNeither torchvision nor timm builds this encoder by itself; its parts are in `{LIBRARY}`."
    library = card.architecture.backbone.partition(":")[0]
    return f"{text}\n\nThe same features with {library} alone:\n\n```python\n{plain}\n```"


def _preprocessing(card: EncoderCard) -> str:
    how = card.preprocess
    side = "both sides" if how.fit == "squash" else "shorter side"
    rows = [
        ("mode", "RGB"),
        ("resize", f"{side} to {how.resize_px} px, {how.interpolation}, antialiased"),
        ("crop", f"centre, {how.crop_px} x {how.crop_px} px{', rounded down' if how.crop_rounding == 'down' else ''}"),
        ("scale", "pixels from 0 to 1"),
        ("mean", ", ".join(map(str, how.mean))),
        ("standard deviation", ", ".join(map(str, how.std))),
        *([("channels", "blue, green, red")] if how.channels == "BGR" else []),
    ]
    return "## Preprocessing\n\n" + _table(("step", "value"), rows)


def _results(card: EncoderCard, found: ImageNetMeasurements) -> str:
    parts = ["## Results"]
    if found.top1_percent:
        source = f"[{_inline(found.source)}]({found.source_url})" if found.source_url else _inline(found.source)
        parts.append(
            "Top-1 accuracy of a linear probe on the frozen features, on the validation images of ImageNet-1K, by the "
            f"labels it was trained on. Measured by {source}."
        )
        rows = [
            (describe_label_setting(setting), f"{setting.n_labels:,}", f"{value:.1f}")
            for setting, value in found.top1_percent.items()
        ]
        parts.append(_table(("labels", "images", "accuracy, %"), rows, right=(1, 2)))
    stated = card.reported.top1_percent
    if not isinstance(stated, Missing):
        of = "the network" if card.objective.mode == "supervised" else "a linear probe"
        parts.append(f"Its authors state a top-1 accuracy of {stated:g} % for {of}, with all labels.")
    left = f" {found.n_left_out} measured settings are left out here for that." if found.n_left_out else ""
    parts += [f"**Caution ({erratum.kind}).** {_inline(erratum.reason)}{left}" for erratum in found.errata]
    parts += [_results_on(dataset, means) for dataset, means in find_other_measurements(card).items()]
    return "\n\n".join(parts) if len(parts) > 1 else "## Results\n\nNothing was measured yet."


def _results_on(dataset: str, means: Sequence[SeedMean]) -> str:
    """Every quantity that was measured on one data set, with protocol and source."""
    rows = []
    for mean in means:
        spread = "" if mean.low is None or mean.high is None else f"{mean.low:.3g} to {mean.high:.3g}"
        images = "" if mean.n_train is None else f"{mean.n_train:,}"
        seeds = str(mean.n_seeds)
        value = f"{mean.value:.4g}"
        metric = f"{mean.metric.replace('_', ' ')}, {mean.unit}"
        rows.append((metric, mean.split, images, value, spread, seeds, mean.protocol, format_location(mean.source)))
    heads = ("metric", "split", "training images", "value", "interval", "seeds", "protocol", "source")
    note = "The interval of one seed is its 95 % interval; of several, it is their smallest and largest value."
    return f"### Measured on {_inline(dataset)}\n\n{note}\n\n" + _table(heads, rows, right=(2, 3, 5))


def _training(card: EncoderCard) -> str:
    rows, unknown, unrecorded = [], [], []
    for part in ("objective", "pretraining", "projector"):
        for field in fields(getattr(card, part)):
            fact = f"{part}.{field.name}"
            label, value = _MEANING.get(fact, field.name.replace("_", " ")), card.fact(fact)
            if value is NOT_PUBLISHED:
                unknown.append(label)
            elif value is NOT_RECORDED:
                unrecorded.append(label)
            elif not isinstance(value, Missing):
                rows.append((label, format_fact(value)))
    if not rows:
        return "## Training\n\nHow it was trained is not stated."
    text = "## Training\n\n" + _table(("fact", "value"), rows)
    for what, labels in (("Not published", unknown), ("Not recorded", unrecorded)):
        text += f"\n\n{what}: {', '.join(labels)}." if labels else ""
    return text


def _corrections(card: EncoderCard) -> str:
    wrong = [erratum for erratum in card.errata if erratum.published is not NOT_PUBLISHED]  # the others fill a gap
    if not wrong:
        return ""
    rows = [(f"`{erratum.field}`", format_fact(erratum.published), erratum.reason) for erratum in wrong]
    why = "What was published about this encoder and is wrong; everything above is corrected."
    return f"## Corrections\n\n{why}\n\n" + _table(("fact", "published", "why it is wrong"), rows)


def _licence(card: EncoderCard) -> str:
    weights, code = (
        spdx.value if isinstance(spdx, Missing) else spdx for spdx in (card.licence.weights, card.licence.code)
    )
    text = f"## Licence\n\nWeights: {_inline(weights)}. Code that released them: {_inline(code)}."
    use = card.commercial_use
    if not isinstance(use, Missing):
        text += f" Commercial use: {describe_commercial_use(use)}."
    said = [known for known in (describe_licence_conditions(card), *list_licence_remarks(card)) if known]
    if address := find_licence_text(weights):
        said.append(f"[Its text]({address}).")
    return " ".join([text, *said])


def _citation(card: EncoderCard, found: ImageNetMeasurements) -> str:
    study = STUDY if found.is_published and found.top1_percent else None
    entries = [entry for entry in (format_paper_entry(card, address=format_location, text=_inline), study) if entry]
    return "## Citation\n\n```bibtex\n" + "\n\n".join(entries) + "\n```" if entries else ""


def _provenance(card: EncoderCard, record: WeightsRecord) -> str:
    rows = [
        (
            f"`{_inline(format_location(format_portable_location(origin.place)))}`",
            origin.format,
            f"{origin.size_bytes:,}",
            f"`{origin.sha256}`",
        )
        for origin in record.origins
        if not origin.place.startswith(REGISTERED)
    ]
    if not rows:
        rows = [
            ("a file of the publisher", one.format, f"{one.size_bytes:,}", f"`{one.sha256}`") for one in record.origins
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
    """An address that others can open; the place of a registered file may be a local path."""
    return format_location(address) if re.fullmatch(r"https?://[^\s()<>]+", address) else None


def _table(headers: Sequence[str], rows: Iterable[Sequence[str]], *, right: Sequence[int] = ()) -> str:
    rule = ["--:" if position in right else "---" for position in range(len(headers))]
    lines = [headers, rule, *([_inline(cell).replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _inline(text: str) -> str:
    """Text of a card in one line, in which Markdown sees no tags."""
    return " ".join(text.split()).replace("<", "&lt;")
