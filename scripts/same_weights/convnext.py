"""ConvNeXt, ConvNeXt V2 and DINOv3's ConvNeXt: the same features, from other pixels."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import open_clip
import timm
import torch
from timm.data import create_transform, resolve_data_config
from timm.models.convnext import checkpoint_filter_fn
from torch import nn
from torchvision import transforms
from transformers import (
    ConvNextConfig,
    ConvNextImageProcessor,
    ConvNextImageProcessorPil,
    ConvNextModel,
    ConvNextV2Config,
    ConvNextV2Model,
    DINOv3ConvNextConfig,
    DINOv3ConvNextModel,
    DINOv3ViTImageProcessor,
)

from same_weights.shared import (
    Difference,
    batch,
    card_of,
    import_from,
    input_rows,
    pixel_rows,
    randomise,
    relative,
    renamed,
)
from zoo.encoders.build import build_empty_encoder

AUTHORS = {
    "facebookresearch/ConvNeXt": ("048efcea897d999aed302f2639b6270aedf8d4c8", ("models",)),
    "facebookresearch/ConvNeXt-V2": ("2553895753323c6fe0b2bf390683f5ea358a42b9", ("models",)),
    "facebookresearch/dinov3": ("6876159a11b4df116f30f667f8c9888617df0751", ("dinov3",)),
}
NAMES = (
    (r"^downsample_layers\.0\.0\.", "embeddings.patch_embeddings."),
    (r"^downsample_layers\.0\.1\.", "embeddings.layernorm."),
    (r"^downsample_layers\.(\d)\.", r"encoder.stages.\1.downsampling_layer."),
    (r"^stages\.(\d)\.", r"encoder.stages.\1.layers."),
    (r"\.norm\.", ".layernorm."),
    (r"^norm\.", "layernorm."),
)
V1 = (*NAMES, (r"\.gamma$", ".layer_scale_parameter"))
V2 = (*NAMES, (r"\.grn\.gamma$", ".grn.weight"), (r"\.grn\.beta$", ".grn.bias"))
V3 = (
    (r"dwconv", "depthwise_conv"),
    (r"pwconv", "pointwise_conv"),
    (r"norm", "layer_norm"),
    (r"^stages\.(\d)\.(\d+)", r"model.stages.\1.layers.\2"),
    (r"^downsample_layers\.(\d)\.(\d)", r"model.stages.\1.downsample_layers.\2"),
)
V2_224, V2_384 = "convnextv2_tiny.fcmae_ft_in1k", "convnextv2_tiny.fcmae_ft_in22k_in1k_384"
V3_TINY = "convnext_tiny.dinov3_lvd1689m"
TINY: dict[str, Any] = {"depths": [3, 3, 9, 3], "dims": [96, 192, 384, 768]}
ATTO: dict[str, Any] = {"depths": [2, 2, 6, 2], "dims": [40, 80, 160, 320]}


def measure(authors: Mapping[str, Path]) -> Iterator[Difference]:
    """Rows of the table."""
    # before the authors' modules, which put networks of the same names into timm's registry
    tiny, atto = (timm.create_model(name, num_classes=0).eval() for name in ("convnext_tiny", "convnextv2_atto"))
    zoo = {name: build_empty_encoder(card_of(name)) for name in ("fcmae_convnextv2A", "dinov3_convnextT_lvd1689m")}
    inputs = {name: _of_timm(name) for name in (V2_224, V2_384, V3_TINY)}
    tower = open_clip.create_model("convnext_base_w").visual.eval()
    projected = timm.create_model("convnext_base.clip_laion2b", pretrained=False).eval()
    yield from _of_openclip(tower, projected)
    first, second = _theirs(authors)
    yield from _compared(
        "V1", randomised(first(**TINY, num_classes=1)), tiny, _of_transformers(ConvNextModel, ConvNextConfig, TINY), V1
    )
    of_v2 = _of_transformers(ConvNextV2Model, ConvNextV2Config, ATTO)
    yield from _compared("V2", randomised(second(**ATTO, num_classes=1)), atto, of_v2, V2, zoo["fcmae_convnextv2A"])
    import_from(authors["facebookresearch/dinov3"])
    from dinov3.models.convnext import ConvNeXt

    of_v3 = _of_transformers(DINOv3ConvNextModel, DINOv3ConvNextConfig, TINY)
    yield from _compared("DINOv3", randomised(ConvNeXt(**TINY)), tiny, of_v3, V3, zoo["dinov3_convnextT_lvd1689m"])
    yield from _pixels(zoo, inputs)


def _theirs(authors: Mapping[str, Path]) -> tuple[Any, Any]:
    """The authors' classes of both versions, whose modules have the same names."""
    import_from(authors["facebookresearch/ConvNeXt"])
    from models.convnext import ConvNeXt

    for name in [name for name in sys.modules if name.partition(".")[0] == "models"]:
        del sys.modules[name]
    sys.path.pop(0)
    # its sparse convolutions are for training with masks alone, and the module for dense ones imports one class of it
    sys.modules["MinkowskiEngine"] = ModuleType("MinkowskiEngine")
    sys.modules["MinkowskiEngine"].SparseTensor = torch.Tensor  # type: ignore[attr-defined]
    import_from(authors["facebookresearch/ConvNeXt-V2"])
    from models.convnextv2 import ConvNeXtV2

    return ConvNeXt, ConvNeXtV2


def randomised(network: Any) -> Any:
    """With random weights and without its classifier."""
    randomise(network)
    network.head = nn.Identity()
    return network


def _of_transformers(model: Any, config: Any, sizes: Mapping[str, Any]) -> Any:
    return model(config(depths=sizes["depths"], hidden_sizes=sizes["dims"])).eval()


def _compared(
    case: str, theirs: Any, of_timm: Any, of_transformers: Any, names: tuple[tuple[str, str], ...], encoder: Any = None
) -> Iterator[Difference]:
    state = {name: tensor for name, tensor in theirs.state_dict().items() if not name.startswith("norms.")}
    of_timm.load_state_dict(checkpoint_filter_fn(dict(state), of_timm))
    of_transformers.load_state_dict(renamed(state, *names))
    networks = {"authors": theirs, "timm": of_timm, "transformers' pooler_output": of_transformers}
    if encoder is not None:
        encoder.backbone.load_state_dict(of_timm.state_dict())
        networks["zoo"] = encoder
    for px in (224, 288):
        inputs = batch(px, n=2)
        if encoder is not None:
            encoder.px = px
        given = {library: _pooled(network(inputs)) for library, network in networks.items()}
        for library in list(networks)[1:]:
            yield Difference(
                "feature",
                f"authors, {library}",
                f"{case}, {px} px",
                relative(given["authors"], given[library]),
                "relative",
            )
    last = of_transformers(inputs).last_hidden_state
    mean = last.mean(dim=(2, 3)) if last.ndim == 4 else last[:, 1:].mean(dim=1)
    yield Difference(
        "norm",
        "pooled then normed, mean of transformers' last_hidden_state",
        case,
        relative(given["authors"], mean),
        "relative",
    )
    for library in list(networks)[:3]:
        network = networks[library]
        half = _pooled(network.bfloat16()(inputs.bfloat16()))
        yield Difference(
            "precision",
            f"{library}, the same in bfloat16",
            f"{case}, 288 px",
            relative(given[library], half),
            "relative",
        )
        network.float()


def _pooled(output: Any) -> torch.Tensor:
    return output if isinstance(output, torch.Tensor) else output.pooler_output


def _of_openclip(tower: Any, of_timm: Any) -> Iterator[Difference]:
    """OpenCLIP's tower is timm's network and a projection next to it, which timm takes for the classifier."""
    randomise(tower)
    state = {f"visual.{name}": tensor for name, tensor in tower.state_dict().items()}
    of_timm.load_state_dict(checkpoint_filter_fn(state, of_timm))
    inputs = batch(224, n=2)
    own = tower(inputs)
    case = "convnext_base_w, 224 px"
    yield Difference("feature", "OpenCLIP, timm with its classifier", case, relative(own, of_timm(inputs)), "relative")
    pooled = of_timm.forward_head(of_timm.forward_features(inputs), pre_logits=True)
    yield Difference(
        "feature",
        "OpenCLIP's tower before the projection, timm without classifier",
        case,
        relative(tower.trunk(inputs), pooled),
        "relative",
    )


def _pixels(networks: Mapping[str, Any], of_timm: Mapping[str, Any]) -> Iterator[Difference]:
    bicubic = transforms.InterpolationMode.BICUBIC
    theirs = {
        224: [transforms.Resize(256, bicubic), transforms.CenterCrop(224), transforms.ToTensor()],
        384: [transforms.Resize((384, 384), bicubic), transforms.ToTensor()],
    }
    zoo = {224: "fcmae_convnextv2T_ft1k", 384: "fcmae_convnextv2T_ft22k_ft1k_384"}
    names = {224: V2_224, 384: V2_384}
    for px, steps in theirs.items():
        published: dict[str, Any] = {"size": {"shortest_edge": px}, "crop_pct": 224 / 256, "resample": 3}
        others = {
            "timm": of_timm[names[px]],
            "transformers on Pillow": ConvNextImageProcessorPil(**published, do_normalize=False),
            "transformers on torchvision": ConvNextImageProcessor(**published, do_normalize=False),
        }
        case, card = f"five photographs, {px} px", card_of(zoo[px])
        yield from pixel_rows(transforms.Compose(steps), others, card, case=case)
        inputs = {"authors": transforms.Compose(steps), "timm": others["timm"]}
        inputs |= {"transformers": others["transformers on torchvision"]}
        networks["fcmae_convnextv2A"].px = px
        yield from input_rows(card, inputs, networks["fcmae_convnextv2A"], case=case)
    squashed = DINOv3ViTImageProcessor(size={"height": 224, "width": 224}, resample=2, do_normalize=False)
    card, others = card_of("dinov3_convnextT_lvd1689m"), {"transformers": squashed}
    first = of_timm[V3_TINY]
    case = "five photographs, DINOv3's"
    yield from pixel_rows(first, others, card, case=case, first="timm")
    networks[card.id].px = 224
    yield from input_rows(card, {"timm": first} | others, networks[card.id], case=case)


def _of_timm(name: str) -> Any:
    settings = resolve_data_config({}, model=timm.create_model(name, pretrained=False))
    return create_transform(**settings | {"mean": (0, 0, 0), "std": (1, 1, 1)})
