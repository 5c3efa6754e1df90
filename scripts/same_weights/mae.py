"""MAE: transformers hides three quarters of the patches, also in evaluation, and gives the rest in a random order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import timm
import torch
from timm.data import create_transform
from timm.layers import resample_abs_pos_embed
from torch import Tensor, nn
from torchvision import transforms
from transformers import ViTImageProcessor, ViTImageProcessorPil, ViTMAEConfig, ViTMAEModel

from same_weights.shared import (
    Difference,
    as_published,
    batch,
    card_of,
    import_from,
    input_rows,
    pixel_rows,
    randomise,
    relative,
    renamed,
    shortened,
    to_transformers_vit,
)
from zoo.encoders.build import build_empty_encoder

AUTHORS = {"facebookresearch/mae": ("efb2a8062c206524e35e47d04501ed4f544c0ae8", ("models_vit.py",))}
DEPTH = 3


def measure(authors: Mapping[str, Path]) -> Iterator[Difference]:
    """Rows of the table."""
    import_from(authors["facebookresearch/mae"])
    from models_vit import VisionTransformer

    theirs = VisionTransformer(
        patch_size=16, embed_dim=768, depth=DEPTH, num_heads=12, norm_layer=partial(nn.LayerNorm, eps=1e-6)
    )
    randomise(theirs)
    state = {name: tensor for name, tensor in theirs.state_dict().items() if not name.startswith("head.")}
    of_timm = timm.create_model("vit_base_patch16_224.mae", pretrained=False, num_classes=0, depth=DEPTH).eval()
    of_timm.load_state_dict(state)
    card = shortened(card_of("mae_vitB16"), DEPTH)
    encoder = build_empty_encoder(card)
    encoder.backbone.load_state_dict(state)
    yield from _features(theirs, of_timm, encoder, to_transformers_vit(state))
    yield from _positions(state["pos_embed"], _of_transformers(to_transformers_vit(state)))
    yield from _pixels(card, of_timm)


def _of_transformers(state: Mapping[str, Tensor], **options: Any) -> Any:
    config = ViTMAEConfig(num_hidden_layers=DEPTH, **options)
    norms = ((r"norm1\.", "layernorm_before."), (r"norm2\.", "layernorm_after."), (r"^", "vit."))
    return as_published(ViTMAEModel, config, renamed(state, *norms))


def _features(theirs: Any, of_timm: Any, encoder: Any, state: Mapping[str, Tensor]) -> Iterator[Difference]:
    inputs = batch(224)
    own, where = theirs.forward_features(inputs), "224 px"
    yield Difference("feature", "authors, timm", where, relative(own, of_timm(inputs)), "relative")
    yield Difference("feature", "authors, zoo", where, relative(own, encoder(inputs)), "relative")
    masking = _of_transformers(state)
    first, second = (masking(inputs).last_hidden_state for _ in range(2))
    token = "class token of transformers"
    yield Difference("tokens", f"{token} as it comes, twice", where, relative(first[:, 0], second[:, 0]), "relative")
    yield Difference("tokens", f"authors, {token} as it comes", where, relative(own, first[:, 0]), "relative")
    yield Difference("tokens", "transformers as it comes, tokens of 197", where, first.shape[1], "tokens")
    whole = _of_transformers(state, mask_ratio=0.0)
    first, second = (whole(inputs).last_hidden_state for _ in range(2))
    at = f"{where}, mask_ratio=0"
    yield Difference("tokens", f"authors, {token}", at, relative(own, first[:, 0]), "relative")
    yield Difference(
        "tokens", "patch tokens of transformers, twice", at, relative(first[:, 1:], second[:, 1:]), "relative"
    )
    strict = _of_transformers(state, mask_ratio=0.0, layer_norm_eps=1e-6)
    apart = relative(own, strict(inputs).last_hidden_state[:, 0])
    yield Difference("norm", f"authors, {token} with layer_norm_eps=1e-6", at, apart, "relative")
    mean = of_timm.forward_features(inputs)[:, 1:].mean(dim=1)
    yield Difference("feature", "class token, mean of patches", where, relative(own, mean), "relative")


def _positions(table: Tensor, of_transformers: Any) -> Iterator[Difference]:
    one = resample_abs_pos_embed(table, new_size=[24, 24], num_prefix_tokens=1)
    other = of_transformers.embeddings.interpolate_pos_encoding(torch.zeros(1, 1 + 24 * 24, 768), 384, 384)
    apart = float((one - other).abs().max() / table.std())
    yield Difference("positions", "timm, transformers", "384 px", apart, "standard deviations of the table at most")
    one = resample_abs_pos_embed(table, new_size=[10, 10], num_prefix_tokens=1)
    other = of_transformers.embeddings.interpolate_pos_encoding(torch.zeros(1, 1 + 10 * 10, 768), 160, 160)
    apart = float((one - other).abs().max() / table.std())
    yield Difference("positions", "timm, transformers", "160 px", apart, "standard deviations of the table at most")


def _pixels(card: Any, network: Any) -> Iterator[Difference]:
    theirs = transforms.Compose(  # main_linprobe.py, which is a script
        [transforms.Resize(256, interpolation=3), transforms.CenterCrop(224), transforms.ToTensor()]
    )
    settings = timm.data.resolve_data_config(
        {}, pretrained_cfg=timm.get_pretrained_cfg("vit_base_patch16_224.mae").to_dict()
    )
    others = {
        "timm": create_transform(**settings | {"mean": (0, 0, 0), "std": (1, 1, 1)}),
        "transformers on Pillow": ViTImageProcessorPil(size={"height": 224, "width": 224}, do_normalize=False),
        "transformers on torchvision": ViTImageProcessor(size={"height": 224, "width": 224}, do_normalize=False),
    }
    yield from pixel_rows(theirs, others, card)
    inputs = {"authors": theirs, "timm": others["timm"], "transformers": others["transformers on torchvision"]}
    yield from input_rows(card, inputs, network)
