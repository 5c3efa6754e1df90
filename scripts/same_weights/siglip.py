"""SigLIP and SigLIP 2: which GELU, the shape of the input, and positions of images of any shape.

The authors' code is JAX and TensorFlow and is not run: their resize is that of torch with the same settings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import open_clip
import timm
import torch
from PIL import Image
from timm.data import create_transform, resolve_data_config
from timm.layers import resample_abs_pos_embed
from torch import Tensor, nn
from transformers import (
    Siglip2VisionConfig,
    Siglip2VisionModel,
    SiglipImageProcessor,
    SiglipImageProcessorPil,
    SiglipVisionConfig,
    SiglipVisionModel,
)

from same_weights.shared import (
    Difference,
    as_published,
    batch,
    card_of,
    input_rows,
    pixel_rows,
    randomise,
    relative,
    renamed,
    rendered,
    shortened,
)
from zoo.encoders.build import build_empty_encoder

AUTHORS: dict[str, tuple[str, tuple[str, ...]]] = {}  # google-research/big_vision is not run
DEPTH = 3
ARCH = "vit_base_patch16_siglip_224"
UNSCALED = {"mean": (0.0, 0.0, 0.0), "std": (1.0, 1.0, 1.0)}


def measure(authors: Mapping[str, Path]) -> Iterator[Difference]:
    """Rows of the table."""
    of_timm = timm.create_model(ARCH, num_classes=0, depth=DEPTH)
    randomise(of_timm)
    yield from _fixed(of_timm)
    yield from _naflex()
    yield from _pixels(of_timm)


def _published(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """timm's tensors by the names of files for transformers, as its convert_siglip_to_hf.py gives them."""
    whole = dict(state)
    for name in [name for name in whole if ".attn.qkv." in name]:
        for letter, part in zip("qkv", whole.pop(name).chunk(3), strict=True):
            whole[name.replace("attn.qkv", f"self_attn.{letter}_proj")] = part
    for kind in ("weight", "bias"):
        parts = (whole.pop(f"attn_pool.q.{kind}"), whole.pop(f"attn_pool.kv.{kind}"))
        whole[f"head.attention.in_proj_{kind}"] = torch.cat(parts)
    for name in ("pos_embed", "embeds.pos_embed"):
        if name in whole:
            whole["embeddings.position_embedding.weight"] = whole.pop(name).flatten(0, -2)
    named = renamed(
        whole,
        (r"^(patch_embed|embeds)\.proj\.", "embeddings.patch_embedding."),
        (r"^blocks\.", "encoder.layers."),
        (r"attn\.proj\.", "self_attn.out_proj."),
        (r"layers\.(\d+)\.norm([12])\.", r"layers.\1.layer_norm\2."),
        (r"^norm\.", "post_layernorm."),
        (r"^attn_pool\.latent", "head.probe"),
        (r"^attn_pool\.norm\.", "head.layernorm."),
        (r"^attn_pool\.proj\.|^attn_pool\.self_attn\.out_proj\.", "head.attention.out_proj."),
        (r"^attn_pool\.", "head."),
    )
    return {f"vision_model.{name}": tensor for name, tensor in named.items()}


def _fixed(of_timm: nn.Module) -> Iterator[Difference]:
    inputs, where = batch(224), "B/16, 224 px"
    state = of_timm.state_dict()
    of_transformers = as_published(SiglipVisionModel, SiglipVisionConfig(num_hidden_layers=DEPTH), _published(state))
    output = of_transformers(inputs)
    own = of_timm(inputs)
    yield Difference(
        "activation", "transformers (tanh), timm (exact)", where, relative(output.pooler_output, own), "relative"
    )
    tanh = timm.create_model(ARCH, num_classes=0, depth=DEPTH, act_layer="gelu_tanh").eval()
    tanh.load_state_dict(state)
    yield Difference(
        "activation",
        'transformers, timm with act_layer="gelu_tanh"',
        where,
        relative(output.pooler_output, tanh(inputs)),
        "relative",
    )
    half = relative(own, of_timm.bfloat16()(inputs.bfloat16()))
    of_timm.float().load_state_dict(state)
    yield Difference("precision", "timm, the same in bfloat16", where, half, "relative")
    tokens = tanh.forward_features(inputs)
    yield Difference(
        "norm", "`last_hidden_state`, timm's tokens", where, relative(output.last_hidden_state, tokens), "relative"
    )
    yield Difference(
        "feature",
        "attention pool, mean of tokens (timm's names with gap)",
        where,
        relative(tanh(inputs), tokens.mean(dim=1)),
        "relative",
    )
    encoder = build_empty_encoder(shortened(card_of("siglip_vitB16_224"), DEPTH))
    encoder.backbone.load_state_dict(state)
    yield Difference("feature", "timm, zoo", where, relative(own, encoder(inputs)), "relative")
    tower = open_clip.create_model("ViT-B-16-SigLIP", pretrained=None, pretrained_image=False).visual.eval()
    tower.trunk.blocks = tower.trunk.blocks[:DEPTH]
    tower.trunk.load_state_dict(state)
    yield Difference("feature", "timm, OpenCLIP", where, relative(own, tower(inputs)), "relative")
    larger = of_transformers(batch(384, n=1), interpolate_pos_encoding=True).pooler_output
    resized = timm.create_model(ARCH, num_classes=0, depth=DEPTH, act_layer="gelu_tanh", img_size=384).eval()
    table = resample_abs_pos_embed(state["pos_embed"], new_size=[24, 24], num_prefix_tokens=0)
    resized.load_state_dict(state | {"pos_embed": table})
    yield Difference(
        "positions",
        "transformers with interpolate_pos_encoding, timm",
        "B/16 of 224 px at 384 px",
        relative(larger, resized(batch(384, n=1))),
        "relative",
    )


def _naflex() -> Iterator[Difference]:
    of_timm = timm.create_model("naflexvit_base_patch16_siglip", num_classes=0)
    of_timm.blocks = of_timm.blocks[:DEPTH]
    randomise(of_timm)
    config = Siglip2VisionConfig(num_hidden_layers=DEPTH)
    of_transformers = as_published(Siglip2VisionModel, config, _published(of_timm.state_dict()))
    for rows, columns in ((16, 16), (24, 24), (12, 20), (20, 12)):
        image = torch.from_numpy(_picture(columns * 16, rows * 16))[None]
        cut = image.reshape(1, 3, rows, 16, columns, 16).permute(0, 2, 4, 3, 5, 1).reshape(1, rows * columns, -1)
        mask = torch.ones(1, rows * columns, dtype=torch.int64)
        theirs = of_transformers(cut, pixel_attention_mask=mask, spatial_shapes=torch.tensor([[rows, columns]]))
        apart = relative(theirs.pooler_output, of_timm(image))
        case = f"NaFlex B/16, {columns * 16} x {rows * 16} px"
        yield Difference("positions", "transformers, timm", case, apart, "relative")
        padded = torch.cat((cut, torch.zeros(1, 64, cut.shape[-1])), dim=1)
        masks = torch.cat((mask, torch.zeros(1, 64, dtype=torch.int64)), dim=1)
        other = of_transformers(padded, pixel_attention_mask=masks, spatial_shapes=torch.tensor([[rows, columns]]))
        apart = relative(theirs.pooler_output, other.pooler_output)
        yield Difference("tokens", "transformers, the same with 64 empty patches", case, apart, "relative")


def _picture(width: int, height: int) -> np.ndarray:
    return (np.asarray(rendered(width, height), dtype=np.float32).transpose(2, 0, 1) / 255 - 0.5) / 0.5


def _as_tensorflow(image: Image.Image) -> np.ndarray:
    """tf.image.resize as the authors' ``resize(224)`` takes it: bilinear, not antialiased, cut to whole numbers."""
    pixels = torch.from_numpy(np.asarray(image.convert("RGB"))).permute(2, 0, 1)[None].float()
    resized = nn.functional.interpolate(pixels, size=(224, 224), mode="bilinear", align_corners=False)
    return np.floor(resized[0].numpy()) / 255


def _pixels(network: Any) -> Iterator[Difference]:
    settings = resolve_data_config({}, pretrained_cfg=timm.get_pretrained_cfg(f"{ARCH}.webli").to_dict())
    size = {"height": 224, "width": 224}
    second = SiglipImageProcessor(size=size, do_normalize=False, resample=2)  # as SigLIP 2 of a fixed size is published
    others = {
        "timm": create_transform(**settings | UNSCALED),
        "OpenCLIP": open_clip.image_transform(
            224, is_train=False, resize_mode="squash", interpolation="bicubic", **UNSCALED
        ),
        "transformers on Pillow": SiglipImageProcessorPil(size=size, do_normalize=False),
        "transformers on torchvision": SiglipImageProcessor(size=size, do_normalize=False),
        "transformers, SigLIP 2": second,
    }
    card = card_of("siglip_vitB16_224")
    yield from pixel_rows(_as_tensorflow, others, card)
    inputs = {"authors": _as_tensorflow, "timm": others["timm"], "OpenCLIP": others["OpenCLIP"]}
    inputs |= {"transformers, SigLIP": others["transformers on torchvision"], "transformers, SigLIP 2": second}
    yield from input_rows(card, inputs, network)
    for one in pixel_rows(others["transformers on Pillow"], {"OpenCLIP": others["OpenCLIP"]}, None):
        yield replace(one, between="transformers on Pillow, OpenCLIP")
