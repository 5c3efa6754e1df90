"""Backbones that transformers builds: ``transformers:MODEL_TYPE``, with the options of its configuration.

Every network is wrapped, so that the encoder's poolings and maps find what they find in networks of timm: tokens after
the final norm, class and register tokens first; how many of those there are; the blocks; the width. Names of tensors
are those of transformers behind ``network.``.

Networks whose tokens are not known here give what they pool by themselves (``pooler_output``), or the average of their
last map.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from logging import CRITICAL
from typing import Any, cast

import torch
from torch import Tensor, nn

from ..cards.schema import NOT_APPLICABLE
from ..optional import require_extra
from .blocks import watch_blocks
from .layouts.steps import Misfit, require_none

with require_extra("transformers", needed_for="Building an encoder of transformers"):
    from transformers import CONFIG_MAPPING, MODEL_MAPPING, PreTrainedModel
    from transformers.utils import logging


@dataclass(frozen=True, slots=True, kw_only=True)
class _TokenRecipe:
    """How the tokens of one type of network are obtained."""

    n_prefix: Callable[[Any], int]  # tokens before the patches, from the configuration
    norm: str = "layernorm"  # the final norm; "" if there is none
    is_normed: bool = True  # what the network gives is after that norm
    layers: str = "layers"  # its blocks
    call: Callable[..., Any] | None = None  # from network and images to its output; otherwise they are pixel_values
    has_class: bool = True  # the first token is of the class


def _masking_nothing(network: Any, images: Tensor, **more: Any) -> Any:
    """MAE's network hides patches in the order of random numbers: none here, and in the order of the image."""
    n_patches = network.embeddings.patch_embeddings.num_patches
    if more:  # another size
        n_patches = (images.shape[-2] // network.config.patch_size) * (images.shape[-1] // network.config.patch_size)
    order = torch.arange(n_patches, device=images.device, dtype=torch.float32).expand(len(images), -1)
    return network(pixel_values=images, noise=order, **more)


def _as_video(network: Any, images: Tensor) -> Any:
    """An image, repeated over the frames that one tubelet has."""
    frames = images[:, None].expand(-1, network.config.tubelet_size, -1, -1, -1)
    return network(pixel_values_videos=frames, skip_predictor=True)


def _as_patches(network: Any, images: Tensor) -> Any:
    """Rows of patches, each of rows, columns and channels, as networks for images of any shape take them."""
    n, n_channels, height, width = images.shape
    side = network.config.patch_size
    rows, columns = height // side, width // side
    cut = images[:, :, : rows * side, : columns * side].reshape(n, n_channels, rows, side, columns, side)
    patches = cut.permute(0, 2, 4, 3, 5, 1).reshape(n, rows * columns, side * side * n_channels)
    is_there = torch.ones(n, rows * columns, dtype=torch.int64, device=images.device)
    shapes = torch.tensor([[rows, columns]] * n)  # on the CPU, for the network reads them as numbers
    return network(pixel_values=patches, pixel_attention_mask=is_there, spatial_shapes=shapes)


def _n_registers(config: Any) -> int:
    return 1 + int(config.num_register_tokens)


_VIT = _TokenRecipe(n_prefix=lambda config: 1)
_CLIP = _TokenRecipe(n_prefix=lambda config: 1, norm="post_layernorm", is_normed=False, layers="encoder.layers")
_SIGLIP = _TokenRecipe(n_prefix=lambda config: 0, norm="post_layernorm", layers="encoder.layers", has_class=False)
_DINOV2 = _TokenRecipe(n_prefix=lambda config: 1, layers="encoder.layer")

KINDS: dict[str, _TokenRecipe] = {
    "vit": _VIT,
    "vit_msn": _VIT,
    "beit": _VIT,
    "data2vec-vision": _DINOV2,
    "deit": _TokenRecipe(n_prefix=lambda config: 2),
    "vit_mae": _TokenRecipe(n_prefix=lambda config: 1, call=_masking_nothing),
    "ijepa": _TokenRecipe(n_prefix=lambda config: 0, has_class=False),
    "pixio": _TokenRecipe(n_prefix=lambda config: int(config.n_cls_tokens)),
    "dinov2": _DINOV2,
    "dinov2_with_registers": _TokenRecipe(n_prefix=_n_registers, layers="encoder.layer"),
    "dinov3_vit": _TokenRecipe(n_prefix=_n_registers, norm="norm", layers="model.layer"),
    "tipsv2_vision_model": _TokenRecipe(n_prefix=_n_registers, layers="encoder.layer"),
    "internvl_vision": _DINOV2,
    "sapiens2": _TokenRecipe(n_prefix=_n_registers, norm="norm", layers="model.layer"),
    "radio": _TokenRecipe(
        n_prefix=lambda config: config.num_cls_tokens + config.num_registers, norm="", layers="encoder.layer"
    ),
    "clip_vision_model": _CLIP,
    "chinese_clip_vision_model": _CLIP,
    "metaclip_2_vision_model": _CLIP,
    "mlcd": _CLIP,
    "mlcd_vision_model": _CLIP,
    "siglip_vision_model": _SIGLIP,
    "siglip2_vision_model": _TokenRecipe(
        n_prefix=lambda config: 0, norm="post_layernorm", layers="encoder.layers", call=_as_patches, has_class=False
    ),
    "aimv2_vision_model": _TokenRecipe(
        n_prefix=lambda config: 0, norm="rms_norm", layers="encoder.layers", has_class=False
    ),
    "vjepa2": _TokenRecipe(
        n_prefix=lambda config: 0,
        norm="encoder.layernorm",
        layers="encoder.layer",
        call=_as_video,
        has_class=False,
    ),
}
"""Networks whose tokens the zoo knows how to read, by their type; every other network only pools by itself."""

_UNTRAINED_POOLERS = ("vit", "deit", "beit", "data2vec-vision", "ijepa")  # made for fine-tuning, and not trained before
_NORMED_MEANS = ("beit", "data2vec-vision")  # have a norm after the mean of patches where they pool that
_POOLED_BY = ("Model", "ForImageClassification")  # classes of transformers with such a pooler, by their ends
_POOLED_FIRST = ("dinov3_convnext",)  # give what they pool as the first token
_UNREAD = {"vjepa2": ("predictor",)}  # parts of a network that its features do not pass


def build_transformers_model(model_type: str, **options: Any) -> tuple[nn.Module, int]:
    """A vision backbone of transformers, by the ``model_type`` of its configuration, and its width.

    ``options`` are keyword arguments of the configuration, or of the network where that has such.
    """
    kind, network = _built(model_type, options)
    if kind is not None:
        return TokenNetwork(network, kind, joined=options.get("summary_idxs", ())), int(network.config.hidden_size)
    px = getattr(network.config, "image_size", None)
    px = max(px) if isinstance(px, list | tuple) else px or 224
    try:
        with torch.device("meta"):
            pooled = PooledNetwork(_built(model_type, options)[1]).eval()(torch.empty(1, 3, px, px))
    except (AttributeError, RuntimeError, TypeError) as error:  # a network for other tasks needs more than images
        raise ValueError(f"transformers' {model_type} is no vision backbone") from error
    return PooledNetwork(network), int(pooled.shape[-1])


def _built(model_type: str, options: dict[str, Any]) -> tuple[_TokenRecipe | None, PreTrainedModel]:
    network_class = _class_of(model_type)
    accepted = [name for name in inspect.signature(network_class.__init__).parameters if name not in ("self", "config")]
    own = {name: options[name] for name in accepted if name in options}
    if "add_pooling_layer" in accepted and model_type in _UNTRAINED_POOLERS:
        own = {"add_pooling_layer": False} | own
    defaults = CONFIG_MAPPING[model_type]()
    of_config = {name: value for name, value in options.items() if name not in own}
    unknown = [name for name in of_config if not hasattr(defaults, name)]
    if unknown:
        raise ValueError(f"the configuration of {model_type} has no {unknown[0]!r}")
    if model_type == "vit_mae":
        of_config["mask_ratio"] = 0.0
    network = network_class(CONFIG_MAPPING[model_type](**of_config), **own)
    for part in _UNREAD.get(model_type, ()):
        setattr(network, part, nn.Identity())
    for module in network.modules():  # a token in place of masked patches, which no forward pass reads
        if "mask_token" in dict(module.named_parameters(recurse=False)):
            module.register_parameter("mask_token", None)
    return KINDS.get(model_type), network


def _class_of(model_type: str) -> type[PreTrainedModel]:
    if model_type not in CONFIG_MAPPING:
        raise ValueError(f"transformers has no type {model_type!r}")
    config_class = CONFIG_MAPPING[model_type]
    found = MODEL_MAPPING.get(config_class, None)
    network_class = found[0] if isinstance(found, tuple) else found
    if network_class is None:  # towers that transformers does not list by themselves
        module = inspect.getmodule(config_class)
        name = config_class.__name__.removesuffix("Config") + "Model"
        package = __import__(module.__name__.rpartition(".")[0], fromlist=[name]) if module else None
        network_class = getattr(package, name, None)
    if network_class is None or not str(network_class.main_input_name).startswith("pixel_values"):
        raise ValueError(f"transformers' {model_type} is no vision backbone")
    return cast(type[PreTrainedModel], network_class)


class PooledNetwork(nn.Module):
    """A network of transformers whose output is what it pools, or the average of its last map."""

    def __init__(self, network: PreTrainedModel) -> None:
        super().__init__()
        self.network = network
        self.interpolates_positions = False
        has_class = any(name.endswith(("cls_token", "class_embedding")) for name, _ in network.named_parameters())
        self.num_prefix_tokens = int(has_class or network.config.model_type in _POOLED_FIRST)

    def forward_features(self, images: Tensor) -> Tensor:
        """The last map, (n, channels, rows, columns), or tokens, the first of which may have no place."""
        return self._last(self._output(images))

    @staticmethod
    def _last(output: Any) -> Tensor:
        last: Tensor = output.last_hidden_state
        has_channels_last = last.ndim == 4 and last.shape[1] == last.shape[2] != last.shape[3]  # maps are squares
        return last.permute(0, 3, 1, 2) if has_channels_last else last

    def _output(self, images: Tensor) -> Any:
        more = {"interpolate_pos_encoding": True} if self.interpolates_positions else {}
        return self.network(pixel_values=images, **more)

    def forward(self, images: Tensor) -> Tensor:
        output = self._output(images)
        pooled = getattr(output, "pooler_output", None)
        if pooled is not None:
            return cast(Tensor, pooled.flatten(1))
        last = self._last(output)
        return last.flatten(2).mean(dim=2) if last.ndim == 4 else last.mean(dim=1)


class TokenNetwork(nn.Module):
    """A transformer of transformers as the zoo reads one of timm."""

    def __init__(self, network: PreTrainedModel, kind: _TokenRecipe, *, joined: Sequence[int] = ()) -> None:
        super().__init__()
        self.network = network
        self._joined = tuple(joined)  # class tokens that RADIO's summary is made of, where the options say them
        self.interpolates_positions = False
        self._kind = kind
        config = network.config
        self.num_prefix_tokens = kind.n_prefix(config)
        self.num_features = int(config.hidden_size)
        patch = config.patch_size
        self.patch_px = int(patch[0] if isinstance(patch, list | tuple) else patch)
        self.feature_info = [
            {"num_chs": self.num_features, "reduction": self.patch_px, "module": f"{kind.layers}.{i}"}
            for i in range(len(self._layers))
        ]

    @property
    def fc_norm(self) -> nn.Module:
        """The norm after a pooling, as timm calls it: of BEiT and Data2Vec that were tuned on the mean of patches."""
        norm = getattr(getattr(self.network, "pooler", None), "layernorm", None)
        return norm if isinstance(norm, nn.Module) else nn.Identity()

    @property
    def pooled_features(self) -> int:
        """Dimensions of what the network pools by itself."""
        return self.num_features * max(1, len(self._joined))

    @property
    def blocks(self) -> list[nn.Module]:
        """The blocks, the first first."""
        return list(self._layers)

    @property
    def _layers(self) -> nn.ModuleList:
        return cast(nn.ModuleList, self.network.get_submodule(self._kind.layers))

    def forward(self, images: Tensor) -> Tensor:
        """What the network pools by itself: its head's output, its class token, or the mean of its patches."""
        return self._pooled(self._output(images))

    def _pooled(self, output: Any) -> Tensor:
        pooled = output.summary if self._joined else getattr(output, "pooler_output", None)
        if pooled is not None:
            return cast(Tensor, pooled)
        tokens = self._normed(output.last_hidden_state)
        return tokens[:, 0] if self._kind.has_class else tokens.mean(dim=1)

    def forward_features(self, images: Tensor) -> Tensor:
        """Tokens after the final norm, (n, prefix + patches, width)."""
        return self._normed(self._output(images).last_hidden_state)

    def forward_intermediates(
        self,
        images: Tensor,
        indices: int | list[int] | None = None,
        *,
        return_prefix_tokens: bool = False,
        norm: bool = False,
        stop_early: bool = False,
        output_fmt: str = "NCHW",
        intermediates_only: bool = True,
    ) -> list[Any]:
        """Tokens of blocks, as timm's networks give them; every block is computed."""
        n = len(self._layers)
        taken = range(n - indices, n) if isinstance(indices, int) else [i % n for i in indices or range(n)]
        seen = self._watched(images, taken)[1]
        of_block = [self._final_norm(seen[i]) if norm else seen[i] for i in taken]
        n_prefix = self.num_prefix_tokens
        given: list[Any] = []
        for tokens in of_block:
            patches = tokens[:, n_prefix:]
            if output_fmt == "NCHW":
                rows, columns = images.shape[-2] // self.patch_px, images.shape[-1] // self.patch_px
                patches = patches.transpose(1, 2).reshape(len(tokens), -1, rows, columns)
            given.append((patches, tokens[:, :n_prefix]) if return_prefix_tokens else patches)
        return given

    def one_pass(self, images: Tensor, blocks: Sequence[int]) -> tuple[Tensor, Tensor, list[Tensor]]:
        """What the network pools, its tokens, and those of blocks, each after the final norm; of one forward pass."""
        output, seen = self._watched(images, blocks)
        of_blocks = [self._final_norm(seen[i]) for i in blocks]
        return self._pooled(output), self._normed(output.last_hidden_state), of_blocks

    def _watched(self, images: Tensor, blocks: Iterable[int]) -> tuple[Any, dict[int, Tensor]]:
        """The output of the network, and of blocks by their numbers."""
        numbers, seen = list(blocks), dict[int, Tensor]()
        with watch_blocks([self._layers[i] for i in numbers], lambda at, output: seen.update({numbers[at]: output})):
            return self._output(images), seen

    def _output(self, images: Tensor) -> Any:
        more = {"interpolate_pos_encoding": True} if self.interpolates_positions else {}
        if self._kind.call is not None:
            return self._kind.call(self.network, images, **more)
        return self.network(pixel_values=images, **more)

    def _normed(self, tokens: Tensor) -> Tensor:
        return tokens if self._kind.is_normed else self._final_norm(tokens)

    def _final_norm(self, tokens: Tensor) -> Tensor:
        return cast(Tensor, self.network.get_submodule(self._kind.norm)(tokens)) if self._kind.norm else tokens


def rename_as_transformers(state: dict[str, Tensor], backbone: nn.Module) -> dict[str, Tensor]:
    """The tensors of a file by the names of a backbone of this module, as transformers itself gives them.

    What is left out is next to the backbone: another tower, a decoder, a classifier. Misfit if the file has parts of
    the backbone that it does not have, or lacks some.
    """
    network = cast(PreTrainedModel, backbone.network)
    wanted = network.state_dict()
    projection = {"head.weight": state["visual_projection.weight"]} if "visual_projection.weight" in state else {}
    with mute_transformers():
        try:
            load: Any = type(network).from_pretrained  # gives two values with output_loading_info
            how: Any = {"config": network.config, "output_loading_info": True, "dtype": torch.float32}
            if "pooler.layernorm.weight" in wanted:
                how["add_pooling_layer"] = True
            read, about = load(None, state_dict=dict(state), **how)
        except (KeyError, RuntimeError, ValueError) as error:
            raise Misfit(f"transformers cannot read it ({str(error).strip().splitlines()[0]})") from error
    whole = ("", f"{network.base_model_prefix}.", "vision_model.")  # what the backbone is called in a larger model
    parts = tuple(f"{above}{name}." for above in whole for name, _ in network.named_children())
    missing = sorted(name for name in about["missing_keys"] if name in wanted)
    left_over = sorted(name for name in about["unexpected_keys"] if name.startswith(parts))
    if "pooler.layernorm.weight" not in wanted:  # trained, and transformers is told of it by nobody
        left_over += sorted(name for name in state if name.endswith("pooler.layernorm.weight"))
    require_none(("is missing", missing), ("is left over", left_over))
    taken = {f"network.{name}": tensor for name, tensor in read.state_dict().items() if name in wanted}
    return taken | ({} if getattr(backbone, "head", None) is None else projection)


@contextmanager
def mute_transformers() -> Iterator[None]:
    """Without the bar and the report of transformers: what does not fit is an error here."""
    level, has_bar = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity(CRITICAL)
    hide, show = cast(Any, logging.disable_progress_bar), cast(Any, logging.enable_progress_bar)
    hide()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if has_bar:
            show()


_FAMILIES = {
    "convnext": "convnext",
    "convnextv2": "convnext",
    "dinov3_convnext": "convnext",
    "resnet": "resnet",
    "bit": "resnet",
    "regnet": "regnet",
    "swin": "swin",
    "swinv2": "swin",
    "hiera": "hiera",
    "efficientnet": "efficientnet",
    "mobilenet_v1": "mobilenet",
    "mobilenet_v2": "mobilenet",
}
_SIZES = {192: "t", 384: "s", 768: "b", 1024: "l", 1280: "h", 1408: "g", 1536: "g", 1664: "G"}  # by width
_BOOKKEEPING = {
    "architectures", "dtype", "torch_dtype", "transformers_version", "_name_or_path", "model_type", "id2label",
    "label2id", "num_labels", "problem_type", "initializer_range", "initializer_factor", "use_cache", "return_dict",
    "output_attentions", "output_hidden_states", "auto_map", "semantic_loss_ignore_index", "mask_ratio", "out_features",
    "out_indices", "stage_names", "drop_path_rate", "projection_dim", "chunk_size_feed_forward", "is_encoder_decoder",
    "attn_implementation", "_attn_implementation",
}  # fmt: skip
_NONE = NOT_APPLICABLE.value


def parse_configuration(config: Mapping[str, Any]) -> dict[str, Any]:
    """Architecture and representation of a card, from a ``config.json``; ValueError if it has no vision backbone.

    Of a model of images and text the backbone is its vision tower.
    """
    model_type, options = _options_of(config)
    classes = config.get("architectures") or ()
    if model_type in _NORMED_MEANS and config.get("use_mean_pooling", True):
        if "BeitForMaskedImageModeling" in classes:  # has the backbone's norm next to it, and no pooler
            options["use_mean_pooling"] = False
        elif all(str(name).endswith(_POOLED_BY) for name in classes):
            options["add_pooling_layer"] = True
    with torch.device("meta"):
        backbone, dim = build_transformers_model(model_type, **options)
        backbone.eval()
    network: Any = backbone.network
    n_parameters = sum(parameter.numel() for parameter in backbone.parameters())
    own = network.config
    side = getattr(own, "image_size", None) or getattr(own, "crop_size", None)
    native_px = int(max(side)) if isinstance(side, list | tuple) else int(side) if side else None
    facts: dict[str, Any] = {
        "family": _FAMILIES.get(model_type, "vit" if model_type in KINDS else "other"),
        "name": model_type,
        "exact": model_type,
        "patch_size_px": _NONE,
        "n_registers": _NONE,
        "native_px": _NONE,
        "n_parameters": n_parameters,
        "backbone": f"transformers:{model_type}",
        "options": options,
    }
    layer = "pooled"
    if isinstance(backbone, TokenNetwork):
        kind = KINDS[model_type]
        has_head = getattr(network, "head", None) is not None
        layer = "attnpool" if has_head else "cls" if kind.has_class else "avg"
        if getattr(own, "use_mean_pooling", False):
            layer = "avg"
        joined = list(getattr(own, "summary_idxs", [0]))
        if joined != [0]:  # RADIO's summary is of several class tokens
            layer, dim = "pooled", own.hidden_size * len(joined)
            options |= {"hidden_size": own.hidden_size, "summary_idxs": joined}
        facts["name"] = f"vit{_SIZES.get(own.hidden_size, own.hidden_size)}"
        facts["exact"] = f"{facts['name']}{backbone.patch_px} {layer}"
        facts["patch_size_px"] = backbone.patch_px
        facts["n_registers"] = backbone.num_prefix_tokens - int(kind.has_class)
        has_places = any("position" in name or "relative" in name for name, _ in network.named_parameters())
        facts["native_px"] = native_px if has_places and native_px else _NONE
    facts["size_step_px"] = _NONE if native_px is None else _size_step(backbone, native_px) or _NONE
    return {"architecture": facts, "representation": {"dim": dim, "layer": layer, "order": _NONE}}


def _options_of(config: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Type and options of the vision backbone that a configuration describes."""
    tower = config.get("vision_config")
    if isinstance(tower, dict):  # of a model of images and text, whose own type says which tower it is
        known = str(tower.get("model_type") or f"{config.get('model_type')}_vision_model")
        config = tower | {"model_type": known if known in CONFIG_MAPPING else f"{known}_vision_model"}
    model_type = str(config.get("model_type") or "")
    if model_type not in CONFIG_MAPPING:
        raise ValueError(f"transformers has no type {model_type!r}")
    defaults = CONFIG_MAPPING[model_type]()
    options: dict[str, Any] = {}
    for name, value in config.items():
        if name in _BOOKKEEPING or not hasattr(defaults, name) or getattr(defaults, name) == value:
            continue
        plain = value if isinstance(value, list) else [value]
        if not all(isinstance(item, bool | int | float | str) for item in plain):
            raise ValueError(f"its configuration has {name} = {value!r}, expected a number, a text or a list of them")
        options[name] = value
    return model_type, options


def _size_step(backbone: nn.Module, px: int) -> int | None:
    """Of which number of pixels the sides of images are multiples; None if the network takes images of one size."""
    patch_px = int(getattr(backbone, "patch_px", 1))
    for step in dict.fromkeys((patch_px, 32)):
        if accepts_size(backbone, (px // step + 1) * step):
            return step
    return None


def accepts_size(backbone: nn.Module, px: int) -> bool:
    """True if a backbone on the meta device takes images of this side, with its positions interpolated if need be."""
    network: Any = backbone
    before = network.interpolates_positions
    network.interpolates_positions = can_interpolate(backbone)
    try:
        with torch.device("meta"):
            backbone(torch.empty(1, 3, px, px))
    except (RuntimeError, TypeError, ValueError):  # what networks of transformers raise for a size
        return False
    finally:
        network.interpolates_positions = before
    return True


def can_interpolate(backbone: nn.Module) -> bool:
    """True if a network interpolates its positions when it is told to; others do by themselves, or never."""
    network: Any = backbone.network
    return "interpolate_pos_encoding" in inspect.signature(network.forward).parameters
