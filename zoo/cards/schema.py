"""The facts of an encoder as dataclasses, and the names of those facts as columns of tables.

One TOML file per family has the facts; :mod:`zoo.cards.reading` reads and checks them. Units are in the names of the
fields. Columns have the names of the published tables, so that scripts and habits carry over; the dotted names of the
card are longer and clearer.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

from ..optional import require_extra
from .licences import CommercialUse, describe_commercial_use, get_commercial_use

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


class Missing(enum.Enum):
    """Why a fact has no value. The reasons are different facts, and every table shows which."""

    NOT_APPLICABLE = "not applicable"
    """The question makes no sense here: a ResNet has no patch size."""

    NOT_PUBLISHED = "not published"
    """The question makes sense, somebody has looked, and the answer is not published."""

    NOT_RECORDED = "not recorded"
    """The question makes sense, and nobody has looked for the answer."""

    def __repr__(self) -> str:
        return self.name


NOT_APPLICABLE = Missing.NOT_APPLICABLE
NOT_PUBLISHED = Missing.NOT_PUBLISHED
NOT_RECORDED = Missing.NOT_RECORDED

T = TypeVar("T")
Maybe: TypeAlias = T | Missing


def format_fact(value: Any) -> str:
    """A fact in words; if it has no value, the reason.

    >>> [format_fact(value) for value in (True, 65536, ("crop", "flip"), {"depth": 12}, 68.0)]
    ['yes', '65,536', 'crop, flip', 'depth=12', '68.0']
    """
    if isinstance(value, Missing):
        return value.value
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, dict):
        return ", ".join(f"{key}={format_fact(item)}" for key, item in value.items()) or "none"
    if isinstance(value, (tuple, list)):
        return ", ".join(map(format_fact, value)) or "none"
    return str(value)


Mode: TypeAlias = Literal[
    "contrastive", "clustering", "siamese", "hierarchical", "generative", "transform", "supervised", "initialized",
    "latent_prediction", "distillation", "language_supervised", "weakly_supervised", "autoregressive", "hybrid",
]  # fmt: skip
ArchitectureFamily: TypeAlias = Literal[
    "resnet", "vit", "convnext", "swin", "regnet", "hiera", "hybrid", "fastvit", "xcit", "alexnet", "resmlp", "davit",
    "mobilenet", "efficientnet", "other",
]  # fmt: skip
Head: TypeAlias = Literal["mlp", "linear", "identity"]
Layer: TypeAlias = Literal[
    "avgpool", "attnpool", "pooled", "cls", "avg", "cls+avg", "4xcls", "proj", "pred", "proj+cls"
]
Fit: TypeAlias = Literal["crop", "squash"]
Rounding: TypeAlias = Literal["half even", "down"]
Channels: TypeAlias = Literal["RGB", "BGR"]
Order: TypeAlias = Literal["interleaved", "concatenated"]
Availability: TypeAlias = Literal["open", "gated", "by request", "gone", "unfit"]
Format: TypeAlias = Literal["torch pickle", "dill pickle", "torchscript", "safetensors", "npz"]

LAYOUT_NAMES = (
    "vissl", "vissl_converted", "swav", "moco", "mocov3", "simsiam", "vicreg", "vicregl", "pycontrast", "issl",
    "speccl", "mmselfsup", "dino", "ibot", "mugs", "mae", "msn", "beit", "clip", "openclip", "lossyless", "byol",
    "efficientnet", "torchvision", "torchvision_children", "torchvision_vit", "timm", "zoo", "slip", "vissl_regnet",
    "vissl_regnet_bgr", "vissl_alexnet", "vissl_dino", "dino_xcit", "lightly", "pixpro", "twist", "simclr", "spark",
    "mmpretrain", "simmim", "moby", "esvit", "ibot_swin", "ctranspath", "satlas", "dinov2", "transformers_vit", "eva",
    "swag", "mim_refiner", "data2vec2", "aim", "maws_clip", "tips", "imagebind", "conch", "keep", "transformers",
    "mmpretrain_vit", "simmim_vit", "lightly_vit", "vjepa", "capi", "musk", "tinyclip", "ijepa", "radio", "pixio",
    "farl", "sam",
)  # fmt: skip
"""How files of weights may be laid out; :mod:`zoo.encoders.layouts` has a function for each."""


@dataclass(frozen=True, slots=True)
class LayerKind:
    """What a value of ``representation.layer`` takes from a backbone."""

    meaning: str  # for readers; {order} stands for the card's representation.order
    tokens: str = ""  # "cls", "avg", "proj", joined by "+"; "" for what a network pools by itself
    n_blocks: int = 1  # last blocks whose tokens are joined
    is_quantised: bool = False  # rounded to steps, as a lossy compressor sends them


LAYERS: dict[str, LayerKind] = {
    "avgpool": LayerKind("the average of the last feature map"),
    "attnpool": LayerKind("the last feature map, pooled by attention"),
    "pooled": LayerKind("what the network pools by itself, as its classifier takes it"),
    "cls": LayerKind("the class token after the last block and its norm", "cls"),
    "avg": LayerKind("the mean of the patch tokens after the last block and its norm", "avg"),
    "cls+avg": LayerKind("the class token and the mean of the patch tokens, {order}", "cls+avg"),
    "4xcls": LayerKind(
        "the class tokens of the last four blocks, each through the final norm, the earliest first", "cls", n_blocks=4
    ),
    "proj": LayerKind("the class token, projected to the space shared with text", "proj"),
    "pred": LayerKind(
        "the class token, projected to the space shared with text and quantised", "proj", is_quantised=True
    ),
    "proj+cls": LayerKind("the class token, followed by its projection to the space shared with text", "proj+cls"),
}
"""Every :data:`Layer` of a card; :mod:`zoo.encoders.encoder` has the function that computes it."""


_OF_TEXTS = {
    "clip", "siglip", "openvision", "metaclip", "metaclip2", "mobileclip", "evaclip", "clipa", "perception_encoder",
    "tips", "slip",
}  # fmt: skip
"""Names of objectives that compare images with texts, whatever kind the published table calls them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """The objective of the training."""

    name: Maybe[str]  # "dino"; the loss, without its version
    mode: Maybe[Mode]  # the coarse family of losses
    version: Maybe[int]  # of the loss
    n_negatives: Maybe[int]  # negatives per positive pair
    n_classes: Maybe[int]  # clusters or classes that are predicted
    stop_gradient: Maybe[bool]  # no gradient flows through one branch
    ema: Maybe[bool]  # one branch is an exponential moving average of the other
    variant: Maybe[str]  # what else distinguishes it from similar encoders


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """The backbone: how the study classifies it, and how it is built."""

    family: ArchitectureFamily  # kind of network
    name: str  # "vits": coarse
    exact: str  # "vits16 4xcls": fine, names the supervised twin
    patch_size_px: Maybe[int]  # side of a patch
    n_registers: Maybe[int]  # tokens other than class token and patches
    native_px: Maybe[int]  # side of the image whose patch grid the position embeddings of the file have
    size_step_px: Maybe[int]  # sides that it takes are multiples of it; not applicable: native_px alone
    n_parameters: int  # of the encoder as it is built here; a projection counts where the features need it
    backbone: str  # "timm:vit_small_patch16_224": which library builds it, and its name there
    options: dict[str, Any]  # keyword arguments of its constructor


@dataclass(frozen=True, slots=True, kw_only=True)
class Projector:
    """The head between representation and loss, thrown away after pretraining."""

    first_arch: Maybe[Head]  # of one branch
    second_arch: Maybe[Head]  # of the other branch
    same: Maybe[bool]  # both branches have the same head
    output_dim: Maybe[int]  # dimensions that the loss sees
    hidden_width: Maybe[int]  # units a hidden layer
    hidden_depth: Maybe[int]  # hidden layers
    n_parameters: Maybe[int]  # of the projector, as its authors round it


@dataclass(frozen=True, slots=True, kw_only=True)
class Representation:
    """Which features are taken from the backbone; :mod:`zoo.cards.representations` has layers that no card names."""

    dim: int  # dimensions of the features
    layer: Layer  # which tokens or pools they come from
    order: Maybe[Order]  # how two kinds of token share the dimensions

    @property
    def is_quantised(self) -> bool:
        """True if the features are rounded to steps."""
        return self.layer in LAYERS and LAYERS[self.layer].is_quantised


@dataclass(frozen=True, slots=True, kw_only=True)
class Pretraining:
    """How the encoder was trained."""

    dataset: Maybe[str]  # images it was pretrained on
    finetuning_dataset: Maybe[str]  # images it was trained on afterwards
    image_sets: Maybe[tuple[str, ...]]  # every data set whose images it was trained on, in any stage
    domain: Maybe[str]  # kind of those images: "natural", "pathology H&E", "earth RGB"
    magnification: Maybe[str]  # of those images, where it means something: "20x", "0.5 m/px"
    n_images: Maybe[int]  # of the pretraining data
    n_samples_seen: Maybe[int]  # images of all steps of pretraining together
    views: Maybe[str]  # crops per image: "2x224+10x96"
    augmentations: Maybe[tuple[str, ...]]  # of the views
    augmentation_invariant: Maybe[bool]  # the loss asks for equal features of two augmentations
    epochs: Maybe[int]  # passes over the data set
    batch_size: Maybe[int]  # images per step
    optimizer: Maybe[str]  # of pretraining
    learning_rate: Maybe[float]  # the base rate as its authors state it, for most of them per 256 images
    weight_decay: Maybe[float]  # of pretraining
    scheduler: Maybe[str]  # of the learning rate
    n_processors: Maybe[int]  # GPUs or TPUs
    processor: Maybe[str]  # type of those
    duration_hours: Maybe[float]  # of pretraining on them


@dataclass(frozen=True, slots=True, kw_only=True)
class Preprocess:
    """From an image file to the encoder's input."""

    resize_px: int  # shorter side, or both sides
    crop_px: int  # centre crop, and the side of the input
    interpolation: Literal["bilinear", "bicubic"]  # of the resize
    mean: tuple[float, ...]  # a channel, for pixels in [0, 1]
    std: tuple[float, ...]  # a channel, likewise
    fit: Fit = "crop"  # crop: the shorter side is resized; squash: both sides are, whatever the image's shape
    crop_rounding: Rounding = "half even"  # of the crop's first pixel; down as in transformers: 15, not 16, of 31 / 2
    channels: Channels = "RGB"  # their order in the input; mean and std are of red, green and blue

    @property
    def resize_size(self) -> int | tuple[int, int]:
        """What torchvision's ``Resize`` takes."""
        return (self.resize_px, self.resize_px) if self.fit == "squash" else self.resize_px

    @property
    def hashed(self) -> dict[str, Any]:
        """What hashes are made of: the last two facts where they are not as they always were."""
        own = Preprocess.__dataclass_fields__
        return {
            name: value
            for name, value in asdict(self).items()
            if name not in ("crop_rounding", "channels") or value != own[name].default
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """Where the trained weights are and how their file is laid out."""

    availability: Maybe[Availability]  # open; gated: after a form; by request: by hand; gone; unfit: of another network
    gate: Maybe[str]  # who is let in where the weights are gated or by request, and where to ask
    url: Maybe[str]  # best place: https:, timm:, hf:, torchvision:, shipped:, package:, zoo: of a registered one
    revision: Maybe[str]  # commit of the Hub repository of url, 40 hexadecimal digits
    authors_url: Maybe[str]  # the authors' own copy, where url is somebody else's equal one
    authors_availability: Maybe[Availability]  # of the authors' own copy
    mirrors: tuple[str, ...]  # other places of the same weights
    companions: tuple[str, ...]  # further files without which the encoder is incomplete
    same_file_as: Maybe[str]  # id of the encoder whose file this is too
    sha256: Maybe[str]  # of the file at url, in hexadecimal
    size_bytes: Maybe[int]  # of the file at url
    format: Maybe[Format]  # container of the file
    converter: Maybe[str]  # name of the layout of the file
    note: Maybe[str]  # for users of the file


@dataclass(frozen=True, slots=True, kw_only=True)
class Licence:
    """SPDX ids of the licences of the code and of the weights, and the wording of the published table."""

    code: Maybe[str]  # of the code that released it
    weights: Maybe[str]  # of the weights, as their authors state it
    timm: Maybe[str]  # of the weights, as timm labels its copy
    published: Maybe[str]  # in the words of the published table


@dataclass(frozen=True, slots=True, kw_only=True)
class Paper:
    """The paper that introduced the method."""

    title: Maybe[str]  # of the paper
    url: Maybe[str]  # of its abstract
    bibtex_key: Maybe[str]  # "oquab2023dinov2": first author, year, first word of the title


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """ImageNet top-1 accuracies that the authors of the weights state, in percent; higher is better."""

    top1_percent: Maybe[float]  # of a linear probe on all labels; of the network itself where it is supervised
    top1_percent_with_1_percent_labels: Maybe[float]  # with 1 % of the labels
    top1_percent_with_5_shot: Maybe[float]  # with 5 labels per class


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """Who released the weights."""

    url: str  # page that releases them
    official: Maybe[bool]  # weights of the method's authors
    industry: Maybe[bool]  # tuned by a large company
    extracted: Maybe[bool]  # features other than those that the authors use
    adapted_from: Maybe[str]  # id of the encoder that its training started from
    distilled_from: Maybe[tuple[str, ...]]  # teachers whose features, scores or codes it learned: ids, or plain names
    superseded_by: Maybe[str]  # id of the encoder that its authors offer in its place


LINEAGE = {
    "adapted_from": ("Trained further from", "Trained further as"),
    "distilled_from": ("Distilled from", "Teacher of"),
}
"""Facts of ``provenance`` that name encoders from which an encoder descends, in words, down and up the line."""


def list_named_encoders(said: Any) -> Sequence[str]:
    """The encoders that a fact of :data:`LINEAGE` names, in a card or a file: none, one or several."""
    if isinstance(said, str):
        return () if said in {reason.value for reason in Missing} else (said,)
    return () if isinstance(said, Missing) else said


@dataclass(frozen=True, slots=True, kw_only=True)
class Erratum:
    """A published statement that is wrong; the card carries the corrected one.

    ``field`` is the dotted name of a fact (``architecture.n_parameters``), then ``published`` is of its type; or of a
    whole part (``weights``), then ``published`` describes what was published.
    """

    field: str
    published: Any
    reason: str


def find_commercial_use(licence: Maybe[str]) -> CommercialUse | Missing:
    """Whether a licence allows commercial use."""
    if isinstance(licence, Missing):
        return licence if licence is NOT_APPLICABLE else "unknown"
    return get_commercial_use(licence)


DRAWS_MEASURED: list[Callable[[str, Axes | None], Axes]] = []
"""Draws what was measured of an encoder; the package fills it in, for cards know nothing of results."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderCard:
    """All facts of one encoder."""

    id: str
    family: str  # of the encoders of one method or source
    objective: Objective
    architecture: Architecture
    projector: Projector
    representation: Representation
    pretraining: Pretraining
    preprocess: Preprocess
    weights: Weights
    licence: Licence
    paper: Paper
    reported: Reported
    provenance: Provenance
    released: Maybe[str]  # "2021-04", month of publication
    errata: tuple[Erratum, ...]

    @property
    def commercial_use(self) -> CommercialUse | Missing:
        """Whether the licence of the weights allows commercial use, from :data:`zoo.cards.licences.LICENCES`."""
        return find_commercial_use(self.licence.weights)

    @property
    def patch_grid(self) -> tuple[int, int] | None:
        """Rows and columns of patches for which the file has position embeddings; None without such."""
        side, patch = self.architecture.native_px, self.architecture.patch_size_px
        return None if isinstance(side, Missing) or isinstance(patch, Missing) else (side // patch, side // patch)

    @property
    def saw_texts(self) -> bool:
        """Whether it was trained with a text tower next to it."""
        return self.objective.mode == "language_supervised" or self.objective.name in _OF_TEXTS

    @property
    def saw_labels(self) -> bool:
        """Whether it was trained with the labels of ImageNet, on which its error is then flattered."""
        tuned = self.pretraining.finetuning_dataset
        return self.objective.mode == "supervised" or (not isinstance(tuned, Missing) and "ImageNet" in tuned)

    @property
    def is_untrained(self) -> bool:
        """True if the encoder is random by definition and has no weights to load."""
        return self.objective.mode == "initialized"

    def fact(self, field: str, *, as_published: bool = False) -> Any:
        """The fact with a dotted name (``"representation.dim"``), corrected or as it was published."""
        if as_published:
            for erratum in self.errata:
                if erratum.field == field:
                    return erratum.published
        value: Any = self
        for name in field.split("."):
            value = getattr(value, name)
        return value

    @property
    def df(self) -> pd.DataFrame:
        """All facts as one row of a DataFrame, by dotted name; those without a value are None."""
        with require_extra("tables", needed_for="A DataFrame"):
            import pandas as pd
        facts: dict[str, Any] = {}
        for part in fields(self):
            value = getattr(self, part.name)
            inner = {f".{one.name}": getattr(value, one.name) for one in fields(value)} if is_dataclass(value) else {}
            facts |= {part.name + name: fact for name, fact in (inner or {"": value}).items()}
        cells = {name: [None if isinstance(fact, Missing) else fact] for name, fact in facts.items()}
        return pd.DataFrame(cells, index=[self.id])

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draws the errors of linear probes that were measured of it, on ``ax`` or a new figure.

        QueryError if none was.
        """
        return DRAWS_MEASURED[0](self.id, ax)

    def _repr_html_(self) -> str:
        from .answers import make_table, render_html_answer

        def if_known(form: str, fact: Any) -> str:
            return "" if isinstance(fact, Missing) else form.format(fact)

        px, data, size = self.preprocess.crop_px, self.pretraining, self.weights.size_bytes
        top1, (method, mode) = self.reported.top1_percent, map(format_fact, (self.objective.name, self.objective.mode))
        facts = {
            "network": f"{self.architecture.exact} ({self.architecture.family})",
            "parameters": format_fact(self.architecture.n_parameters),
            "features": f"{format_fact(self.representation.dim)}: {describe_features(self)}",
            "input": f"{px} x {px} pixels" + if_known(" in patches of {}", self.architecture.patch_size_px),
            "method": f"{method} ({mode})".replace("_", " "),
            "trained on": format_fact(data.dataset) + if_known(" ({:,} images)", data.n_images),
            "licence of weights": describe_card_licence(self),
            "weights": format_fact(self.weights.availability)
            + if_known(", {:,.3g} MB", size if isinstance(size, Missing) else size / 1e6),
            "reported top-1 accuracy": format_fact(top1) + if_known(" % on ImageNet-1K", top1),
            "paper": f"{format_fact(self.paper.title)} ({format_fact(self.released)})",
        }
        table = make_table(["", ""], facts.items(), title=self.id, about=describe_encoder(self))
        return render_html_answer(replace(table, notes=[format_load_line(self)]))


def list_supervision(cards: Iterable[EncoderCard]) -> list[tuple[bool, bool]]:
    """Of each encoder, whether it was trained with texts, and with the labels of ImageNet."""
    return [(card.saw_texts, card.saw_labels) for card in cards]


def describe_card_licence(card: EncoderCard) -> str:
    """The licence of the weights, and whether it allows commercial use."""
    use, licence = card.commercial_use, format_fact(card.licence.weights)
    return licence + ("" if isinstance(use, Missing) else f"; commercial use: {describe_commercial_use(use)}")


def format_load_line(card: EncoderCard) -> str:
    """The line of Python that loads an encoder."""
    option = {"gone": ', weights="PATH"', "unfit": ", pretrained=False"}.get(str(card.weights.availability), "")
    return f'encoder, preprocess = zoo.load("{card.id}"{option})'


def describe_features(card: EncoderCard) -> str:
    """Which features are taken, of a card's own ones and of those that a name asks for (``NAME@cls:9+10``).

    >>> from .catalogue import load_catalogue
    >>> describe_features(load_catalogue()["dino_vitB16"]), describe_features(load_catalogue()["dino_vitB16@avg:9+10"])
    ('the class token and the mean of the patch tokens, interleaved', 'the tokens or pools avg of the blocks 9, 10')
    """
    layer = card.representation.layer
    if layer in LAYERS:
        return LAYERS[layer].meaning.format(order=card.representation.order)
    words, _, blocks = layer.partition(":")
    return (
        f"the tokens or pools {words} of the block{'s' * ('+' in blocks)} {blocks.replace('+', ', ') or 'at the end'}"
    )


def describe_encoder(card: EncoderCard, code: Callable[[str], str] = str, text: Callable[[str], str] = str) -> str:
    """What the encoder is, in two sentences; ``code`` and ``text`` mark names and texts of the card.

    >>> from .catalogue import load_catalogue
    >>> describe_encoder(load_catalogue()["dino_rn50"])  # doctest: +ELLIPSIS
    'An image encoder (resnet50, 23.5 million parameters), trained with a clustering objective (dino) on the ...'
    """
    mode, name = card.objective.mode, card.objective.name
    how = ""
    if not isinstance(mode, Missing):
        a = "an" if mode[0] in "aeiou" else "a"
        how = "with labels" if mode == "supervised" else f"with {a} {mode.replace('_', ' ')} objective"
    how += "" if isinstance(name, Missing) else f" ({text(name.replace('_', ' '))})"
    sets = (card.pretraining.dataset, card.pretraining.finetuning_dataset)
    named = [f"the data set {text(name)}" for name in sets if not isinstance(name, Missing)]
    how += (" on " if named else "") + ", then on ".join(named)
    layer = describe_features(card)
    px, n = card.preprocess.crop_px, card.architecture.n_parameters
    size = f"{n / 1e6:,.1f} million parameters" if n >= 100_000 else f"{n:,} parameters"
    network = f"{code(text(card.architecture.exact))}, {size}"
    trained = f", trained {how.strip()}" if how else ""
    trained = ", untrained: with random weights" if card.is_untrained else trained
    return (
        f"An image encoder ({network}){trained}. It turns an image of {px} x {px} pixels into "
        f"{card.representation.dim} features: {layer}."
    )


Kind = Literal["text", "whole number", "number", "true or false", "list"]


@dataclass(frozen=True, slots=True)
class Column:
    """One fact as a column of a table, with all that tables, the data dictionary and the command line need of it."""

    name: str  # in tables, in --where and in --sort: that of the published tables
    field: str  # in the card
    section: str  # first level of the columns of metadata_df
    kind: Kind
    meaning: str

    def of(self, card: EncoderCard, *, as_published: bool = False) -> Any:
        """The value of this column for one card; ``Missing`` where it has none."""
        return self.of_fact(card.fact(self.field, as_published=as_published))

    def of_fact(self, value: Any) -> Any:
        """The value of this column from the fact that it shows."""
        if isinstance(value, Missing):
            return value
        if self.name == "year":
            return int(value[:4])
        if self.name == "month":
            return int(value[5:])
        return value


COLUMNS: tuple[Column, ...] = (
    Column("objective", "objective.name", "ssl", "text", "the loss, without its version"),
    Column("ssl_mode", "objective.mode", "ssl", "text", "coarse family of losses"),
    Column("version", "objective.version", "ssl", "whole number", "version of the loss"),
    Column("n_negatives", "objective.n_negatives", "ssl", "whole number", "negatives per positive pair"),
    Column("n_classes", "objective.n_classes", "ssl", "whole number", "clusters or classes that are predicted"),
    Column("is_stopgrad", "objective.stop_gradient", "ssl", "true or false", "gradients stop in one branch"),
    Column("is_ema", "objective.ema", "ssl", "true or false", "one branch is an average of the other over time"),
    Column("other", "objective.variant", "ssl", "text", "what else tells it from its neighbours"),
    Column("pred_dim", "projector.output_dim", "model", "whole number", "output dimensions of the projector"),
    Column("projection_hid_width", "projector.hidden_width", "model", "whole number", "hidden width of the projector"),
    Column("projection_hid_depth", "projector.hidden_depth", "model", "whole number", "hidden layers of the projector"),
    Column("architecture_exact", "architecture.exact", "model", "text", "architecture and representation, fine"),
    Column("architecture", "architecture.name", "model", "text", "architecture, coarse"),
    Column("family", "architecture.family", "model", "text", "resnet, vit, convnext ..."),
    Column("patch_size", "architecture.patch_size_px", "model", "whole number", "side of a patch in pixels"),
    Column("projection1_arch", "projector.first_arch", "model", "text", "projector of the first branch"),
    Column("projection2_arch", "projector.second_arch", "model", "text", "projector of the second branch"),
    Column("projection_same", "projector.same", "model", "true or false", "both branches have the same projector"),
    Column("n_parameters", "architecture.n_parameters", "model", "whole number", "parameters of the encoder"),
    Column("projection_nparameters", "projector.n_parameters", "model", "whole number", "parameters of the projector"),
    Column("z_dim", "representation.dim", "representation", "whole number", "dimensions of the features"),
    Column("z_layer", "representation.layer", "representation", "text", "which features are taken"),
    Column("epochs", "pretraining.epochs", "optimization", "whole number", "epochs of pretraining"),
    Column("batch_size", "pretraining.batch_size", "optimization", "whole number", "images per step"),
    Column("optimizer", "pretraining.optimizer", "optimization", "text", "optimizer of pretraining"),
    Column("learning_rate", "pretraining.learning_rate", "optimization", "number", "base rate as the authors state it"),
    Column("weight_decay", "pretraining.weight_decay", "optimization", "number", "weight decay of pretraining"),
    Column("scheduler", "pretraining.scheduler", "optimization", "text", "learning-rate schedule"),
    Column("pretraining_data", "pretraining.dataset", "data", "text", "data set of pretraining"),
    Column("finetuning_data", "pretraining.finetuning_dataset", "data", "text", "data set it was fine-tuned on"),
    Column("img_size", "preprocess.crop_px", "data", "whole number", "side of the input in pixels"),
    Column("views", "pretraining.views", "data", "text", "crops per image, as count x side in pixels"),
    Column(
        "is_aug_invariant", "pretraining.augmentation_invariant", "data", "true or false",
        "the loss asks for equal features of two augmentations",
    ),
    Column("augmentations", "pretraining.augmentations", "data", "list", "augmentations of pretraining"),
    Column(
        "top1acc_in1k_official", "reported.top1_percent", "metrics", "number",
        "ImageNet accuracy stated by the authors, percent",
    ),
    Column(
        "top1acc_in1k-1%_official", "reported.top1_percent_with_1_percent_labels", "metrics", "number",
        "the same with 1 % of the labels",
    ),
    Column(
        "top1acc_in1k-c5_official", "reported.top1_percent_with_5_shot", "metrics", "number",
        "the same with 5 labels per class",
    ),
    Column("where", "provenance.url", "meta", "text", "page that releases the weights"),
    Column("month", "released", "meta", "whole number", "month of publication"),
    Column("year", "released", "meta", "whole number", "year of publication"),
    Column("license", "licence.weights", "meta", "text", "licence of the weights, SPDX"),
    Column("is_official", "provenance.official", "meta", "true or false", "weights of the method's authors"),
    Column("is_industry", "provenance.industry", "meta", "true or false", "tuned by a large company"),
    Column("is_our_extract", "provenance.extracted", "meta", "true or false", "features other than the authors' own"),
    Column("n_pus", "pretraining.n_processors", "compute", "whole number", "processors used for pretraining"),
    Column("pu_type", "pretraining.processor", "compute", "text", "type of those processors"),
    Column("time_hours", "pretraining.duration_hours", "compute", "number", "hours of pretraining"),
)  # fmt: skip
