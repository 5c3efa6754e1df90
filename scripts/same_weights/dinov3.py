"""DINOv3's transformers: timm averages patches where all others take the class token, and each has other pixels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import timm
import torch
from timm.data import create_transform, resolve_data_config
from timm.models.eva import checkpoint_filter_fn
from torch import Tensor
from torchvision.transforms import v2
from transformers import DINOv3ViTConfig, DINOv3ViTImageProcessor, DINOv3ViTModel

from same_weights.shared import (
    Difference,
    as_published,
    batch,
    card_of,
    import_from,
    input_rows,
    levels_apart,
    levels_made,
    pictures,
    pixel_rows,
    randomise,
    relative,
    renamed,
    shortened,
)
from zoo.encoders.build import build_empty_encoder

AUTHORS = {"facebookresearch/dinov3": ("6876159a11b4df116f30f667f8c9888617df0751", ("dinov3",))}
DEPTH = 4
UNSCALED = {"mean": (0.0, 0.0, 0.0), "std": (1.0, 1.0, 1.0)}


def measure(authors: Mapping[str, Path]) -> Iterator[Difference]:
    """Rows of the table."""
    import_from(authors["facebookresearch/dinov3"])
    from dinov3.data.transforms import make_eval_transform
    from dinov3.hub.backbones import dinov3_vits16

    theirs = dinov3_vits16(pretrained=False)
    theirs.blocks = theirs.blocks[:DEPTH]
    randomise(theirs)
    for block in theirs.blocks:  # published files have a mask for the bias of keys, and timm's plain names no bias
        block.attn.qkv.bias_mask.copy_(torch.tensor([1.0, 0.0, 1.0]).repeat_interleave(384))
        block.attn.qkv.bias.zero_()
    yield from _pixels(make_eval_transform, theirs)
    yield from _features(theirs, "vit_small_patch16_dinov3")


def _features(theirs: Any, arch: str) -> Iterator[Difference]:
    state = dict(theirs.state_dict())
    networks = {}
    for pool in ("avg", "token"):
        networks[pool] = timm.create_model(arch, num_classes=0, depth=DEPTH, global_pool=pool).eval()
        networks[pool].load_state_dict(checkpoint_filter_fn(state, networks[pool]))
    config = DINOv3ViTConfig(num_hidden_layers=DEPTH, num_register_tokens=4)
    of_transformers = as_published(DINOv3ViTModel, config, _published(state), unused="mask_token|bias")
    encoder = build_empty_encoder(shortened(card_of("dinov3_vitS16_lvd1689m"), DEPTH))
    encoder.backbone.load_state_dict(networks["avg"].state_dict())
    for px in (224, 256, 512):
        inputs, where = batch(px, n=2 if px < 512 else 1), f"S/16, {px} px"
        own = theirs(inputs)
        encoder.px = px
        made = {
            "timm as it comes": networks["avg"](inputs),
            'timm with global_pool="token"': networks["token"](inputs),
            "transformers": of_transformers(inputs).pooler_output,
            "zoo": encoder(inputs),
        }
        for library, feature in made.items():
            yield Difference("feature", f"authors, {library}", where, relative(own, feature), "relative")
    inputs, where = batch(256, n=1), "S/16, 256 px"
    own = theirs(inputs)
    periods = theirs.rope_embed.periods.clone()
    theirs.rope_embed.periods.copy_(periods.bfloat16().float())
    apart = relative(own, theirs(inputs))
    theirs.rope_embed.periods.copy_(periods)
    yield Difference("positions", "authors, the same with periods rounded to bfloat16", where, apart, "relative")
    for library, network in {"timm": networks["token"], "transformers": of_transformers, "authors": theirs}.items():
        half = network.bfloat16()(inputs.bfloat16())
        half = half.pooler_output if library == "transformers" else half
        yield Difference(
            "precision", f"authors in float32, {library} in bfloat16", where, relative(own, half), "relative"
        )


def _published(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Names of files for transformers, as its convert_dinov3_vit_to_hf.py gives them."""
    whole = {
        name: tensor for name, tensor in state.items() if not name.endswith(("periods", "bias_mask", "mask_token"))
    }
    for name in [name for name in whole if ".attn.qkv." in name]:
        for letter, part in zip("qkv", whole.pop(name).chunk(3), strict=True):
            if letter != "k" or name.endswith("weight"):
                whole[name.replace("attn.qkv", f"attention.{letter}_proj")] = part
    return renamed(
        whole,
        ("^cls_token$", "embeddings.cls_token"),
        ("^storage_tokens$", "embeddings.register_tokens"),
        (r"^patch_embed\.proj\.", "embeddings.patch_embeddings."),
        (r"^blocks\.", "layer."),
        (r"attn\.proj\.", "attention.o_proj."),
        (r"ls([12])\.gamma$", r"layer_scale\1.lambda1"),
        (r"mlp\.fc1\.", "mlp.up_proj."),
        (r"mlp\.fc2\.", "mlp.down_proj."),
    )


def _pixels(make_eval_transform: Any, network: Any) -> Iterator[Difference]:
    mean, std = (torch.tensor(one)[:, None, None] for one in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))

    def unscaled(transform: Any) -> Any:
        return lambda image: transform(image) * std + mean

    config = timm.get_pretrained_cfg("vit_small_patch16_dinov3.lvd1689m").to_dict()
    settings = resolve_data_config({}, pretrained_cfg=config) | UNSCALED | {"input_size": (3, 224, 224)}
    others = {
        "timm for 224 px": create_transform(**settings),
        "timm for 224 px with crop_pct=0.875": create_transform(**settings | {"crop_pct": 224 / 256}),
        "transformers": DINOv3ViTImageProcessor(do_normalize=False),
    }
    probes = unscaled(make_eval_transform(resize_size=256, crop_size=224))
    yield from pixel_rows(probes, others, None)
    readme = make_eval_transform(
        resize_size=256, crop_size=256, resize_square=True, interpolation=v2.InterpolationMode.BILINEAR
    )
    inputs = {
        "authors' probes": probes,
        "authors' README": unscaled(readme),
        "timm": create_transform(**settings | {"input_size": config["input_size"]}),
        "transformers": others["transformers"],
    }
    yield from input_rows(card_of("dinov3_vitS16_lvd1689m"), inputs, network)
    images = pictures()
    for name, how, number in (
        ("bilinear", v2.InterpolationMode.BILINEAR, 2),
        ("bicubic", v2.InterpolationMode.BICUBIC, 3),
    ):
        squash = unscaled(make_eval_transform(resize_size=224, crop_size=224, resize_square=True, interpolation=how))
        processor = DINOv3ViTImageProcessor(do_normalize=False, resample=number)
        most = max(levels_apart(levels_made(squash, images), levels_made(processor, images)))
        between = f"authors' transform that squashes, transformers with resample={number}"
        yield Difference("resize", between, f"five photographs, {name}, 224 px", most, "of 255 at most")
