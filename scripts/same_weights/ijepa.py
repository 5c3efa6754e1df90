"""I-JEPA: which of two encoders of a file is read, and how images are made ready."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import timm
import torch
from timm.data import create_transform, resolve_data_config
from timm.layers import resample_abs_pos_embed
from timm.models.vision_transformer import checkpoint_filter_fn
from torch import nn
from transformers import IJepaConfig, IJepaModel, ViTImageProcessor, ViTImageProcessorPil

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
    shortened,
    split_qkv,
)
from zoo.encoders.build import build_empty_encoder
from zoo.encoders.layouts.transformers import convert_ijepa

AUTHORS = {"facebookresearch/ijepa": ("52c1ae95d05f743e000e8f10a1f3a79b10cff048", ("src",))}
ARCH, WIDTH, DEPTH = "vit_huge_patch14_gap_224", 1280, 2
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
BLOCKS = (
    (r"^blocks\.", "layers."),
    (r"\.norm1\.", ".layernorm_before."),
    (r"\.norm2\.", ".layernorm_after."),
    (r"\.attn\.proj\.", ".attention.o_proj."),
    (r"\.attn\.", ".attention."),
    (r"^norm\.", "layernorm."),
    (r"^pos_embed$", "embeddings.position_embeddings"),
    (r"^patch_embed\.proj\.", "embeddings.patch_embeddings.projection."),
)


def measure(authors: Mapping[str, Path]) -> Iterator[Difference]:
    """Rows of the table."""
    import_from(authors["facebookresearch/ijepa"])
    from src.models.vision_transformer import VisionTransformer

    options: dict[str, Any] = {"patch_size": 14, "embed_dim": WIDTH, "depth": DEPTH, "num_heads": 16}
    made = []
    for seed in (0, 1):
        network = VisionTransformer(**options, norm_layer=lambda width: nn.LayerNorm(width, eps=1e-6))
        waves = network.pos_embed.detach().clone()
        randomise(network, seed=seed)
        network.pos_embed.data.copy_(waves)  # which are not trained
        made.append(network)
    student, theirs = made
    yield from _read(student, theirs)
    networks = _converted(theirs)
    yield from _features(networks)
    yield from _pixels(networks["authors"])


def _read(student: nn.Module, teacher: nn.Module) -> Iterator[Difference]:
    """Of a file as the training script writes it, which encoder is read."""
    content = {
        name: {f"module.{key}": value for key, value in network.state_dict().items()}
        for name, network in (("encoder", student), ("target_encoder", teacher))
    }
    of_timm = checkpoint_filter_fn(content, timm.create_model(ARCH, depth=DEPTH, num_classes=0))
    for library, state in (("timm", of_timm), ("zoo", convert_ijepa(content, target={}))):
        taken = [name for name in state if name != "pos_embed"]  # which is the same in both
        n_others = sum(torch.equal(state[name], content["encoder"][f"module.{name}"]) for name in taken)
        unit = "of the tensors are the context encoder's"
        yield Difference("tensors", f"target encoder, {library}", "a file of both", n_others / len(taken), unit)


def _converted(theirs: nn.Module) -> dict[str, Any]:
    """Networks by library, of the same weights."""
    of_timm = timm.create_model(ARCH, depth=DEPTH, num_classes=0, dynamic_img_size=True).eval()
    of_timm.load_state_dict(theirs.state_dict())
    config = {
        "hidden_size": WIDTH,
        "num_hidden_layers": DEPTH,
        "num_attention_heads": 16,
        "intermediate_size": 4 * WIDTH,
    }
    of_transformers = IJepaModel(IJepaConfig(**config, patch_size=14, layer_norm_eps=1e-6)).eval()
    of_transformers.load_state_dict(renamed(split_qkv(theirs.state_dict(), "q_proj", "k_proj", "v_proj"), *BLOCKS))
    encoder = build_empty_encoder(shortened(card_of("ijepa_vitH14_in1k"), DEPTH))
    encoder.backbone.load_state_dict(theirs.state_dict())
    return {"authors": theirs, "timm": of_timm, "transformers": of_transformers, "zoo": encoder}


def _features(networks: Mapping[str, Any]) -> Iterator[Difference]:
    inputs = batch(224, n=2)
    own = networks["authors"](inputs).mean(dim=1)
    tokens = networks["transformers"](inputs).last_hidden_state
    others = {
        "timm": networks["timm"](inputs),
        "mean of transformers' last_hidden_state": tokens.mean(dim=1),
        "zoo": networks["zoo"](inputs),
        "first token of transformers, which its pooler takes": tokens[:, 0],
    }
    for library, other in others.items():
        yield Difference("feature", f"authors' mean of patches, {library}", "224 px", relative(own, other), "relative")
    of_timm = networks["timm"]
    before = of_timm.blocks(of_timm._pos_embed(of_timm.patch_embed(inputs))).mean(dim=1)
    apart = relative(own, of_timm.norm(before))
    yield Difference("norm", "norm before the mean, after it", "224 px", apart, "relative")
    finer = IJepaModel(IJepaConfig(**networks["transformers"].config.to_dict() | {"layer_norm_eps": 1e-12})).eval()
    finer.load_state_dict(networks["transformers"].state_dict())
    apart = relative(tokens, finer(inputs).last_hidden_state)
    yield Difference("norm", "epsilon of 1e-6, of 1e-12 (a new IJepaConfig's)", "224 px", apart, "relative")
    levels = inputs * torch.tensor(STD)[:, None, None] + torch.tensor(MEAN)[:, None, None]
    apart = relative(own, networks["timm"]((levels - 0.5) / 0.5))
    yield Difference(
        "colours", "mean and std of ImageNet, of 0.5 (a new ViTImageProcessor's)", "224 px", apart, "relative"
    )
    yield from _sizes(networks)


def _sizes(networks: Mapping[str, Any]) -> Iterator[Difference]:
    """At other sizes, for which the authors' code has an interpolation that cannot run without a class token."""
    table = networks["timm"].pos_embed
    for px in (448, 168):
        inputs, n = batch(px, n=1), px // 14
        networks["zoo"].px = px
        own = networks["timm"](inputs)
        other = networks["transformers"](inputs, interpolate_pos_encoding=True).last_hidden_state.mean(dim=1)
        yield Difference("positions", "timm, transformers", f"{px} px", relative(own, other), "relative")
        apart = relative(own, networks["zoo"](inputs))
        yield Difference("positions", "timm, zoo", f"{px} px", apart, "relative")
        taken = resample_abs_pos_embed(table, new_size=[n, n], num_prefix_tokens=0)
        zeros = torch.zeros(1, n * n, WIDTH)
        given = networks["transformers"].embeddings.interpolate_pos_encoding(zeros, px, px)
        apart = float((taken - given).abs().max() / table.std())
        unit = "standard deviations of the table at most"
        yield Difference("positions", "table of timm, of transformers", f"{px} px", apart, unit)


def _pixels(network: Any) -> Iterator[Difference]:
    """No script of the authors evaluates; timm's pixels are what the others are held against."""
    settings = resolve_data_config({}, model=timm.create_model(ARCH, pretrained=False, depth=1))
    size = {"height": 224, "width": 224}
    others = {
        "transformers on Pillow": ViTImageProcessorPil(size=size, do_normalize=False),
        "transformers on torchvision": ViTImageProcessor(size=size, do_normalize=False),
    }
    of_timm = create_transform(**settings | {"mean": (0, 0, 0), "std": (1, 1, 1)})
    card = card_of("ijepa_vitH14_in1k")
    yield from pixel_rows(of_timm, others, card, first="timm")
    inputs = {"timm": of_timm, "transformers": others["transformers on torchvision"]}
    yield from input_rows(card, inputs, lambda images: network(images).mean(dim=1))
