"""DINOv2 without and with registers: where the position table is interpolated, at every size but 518 px."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import timm
import torch
import torchvision
from timm.data import create_transform, resolve_data_config
from timm.layers import resample_abs_pos_embed
from timm.models.vision_transformer import checkpoint_filter_fn
from torch import Tensor, nn
from torchvision.transforms import Compose
from transformers import (
    BitImageProcessor,
    BitImageProcessorPil,
    Dinov2Config,
    Dinov2Model,
    Dinov2WithRegistersConfig,
    Dinov2WithRegistersModel,
)

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
    shortened,
    to_transformers_vit,
)
from zoo.encoders.build import build_empty_encoder

AUTHORS = {"facebookresearch/dinov2": ("b8931f7bf91576930313be2c6d6af376033b35f0", ("dinov2",))}
DEPTH = 4
UNSCALED = {"mean": (0.0, 0.0, 0.0), "std": (1.0, 1.0, 1.0)}
PUBLISHED = {  # of facebook/dinov2-small and its kin, as transformers' convert_dinov2_to_hf.py writes it
    "size": {"shortest_edge": 256},
    "crop_size": {"height": 224, "width": 224},
    "resample": 3,
    "do_normalize": False,
}


def measure(authors: Mapping[str, Path]) -> Iterator[Difference]:
    """Rows of the table."""
    import_from(authors["facebookresearch/dinov2"])
    from dinov2.data.transforms import make_classification_eval_transform
    from dinov2.hub import backbones

    for n_registers, name in ((4, "dinov2_vits14_reg"), (0, "dinov2_vits14")):
        theirs = getattr(backbones, name)(pretrained=False)
        theirs.blocks = theirs.blocks[:DEPTH]
        randomise(theirs)
        named = n_registers or "no"
        for kind in ("independent", "smooth"):
            if kind == "smooth":
                theirs.pos_embed.data.copy_(_smoothed(theirs.pos_embed))
            networks = _converted(theirs, n_registers)
            yield from _features(networks, f"{named} registers, {kind} table")
            if kind == "smooth":
                yield from _halves(networks, f"{named} registers, 224 px")
        yield from _tables(theirs, networks, f"{named} registers")
    theirs.pos_embed.data.copy_(_smoothed(theirs.pos_embed))
    yield from _pixels(make_classification_eval_transform(), theirs)


def _smoothed(table: Tensor) -> Tensor:
    """A table whose neighbours are alike, as we take trained ones to be: blurred over three patches, of one spread."""
    grid = table[:, 1:].reshape(1, 37, 37, -1).permute(0, 3, 1, 2)
    soft = torchvision.transforms.functional.gaussian_blur(grid, [13, 13], [3.0, 3.0])
    soft = soft * table.std() / soft.std()
    return torch.cat((table[:, :1], soft.permute(0, 2, 3, 1).flatten(1, 2)), dim=1)


def _converted(theirs: nn.Module, n_registers: int) -> dict[str, Any]:
    """Networks by library, each a function from inputs to the feature that it calls its own; and the modules."""
    arch = f"vit_small_patch14_{'reg4_' if n_registers else ''}dinov2"
    of_timm = timm.create_model(arch, num_classes=0, dynamic_img_size=True, depth=DEPTH).eval()
    of_timm.load_state_dict(checkpoint_filter_fn(dict(theirs.state_dict()), of_timm))
    options = {
        "hidden_size": 384,
        "num_hidden_layers": DEPTH,
        "num_attention_heads": 6,
        "image_size": 518,
        "patch_size": 14,
    }
    published = to_transformers_vit(theirs.state_dict())
    if n_registers:
        config: Any = Dinov2WithRegistersConfig(num_register_tokens=n_registers, **options)
        of_transformers = as_published(Dinov2WithRegistersModel, config, published, unused="mask_token")
    else:
        of_transformers = as_published(Dinov2Model, Dinov2Config(**options), published, unused="mask_token")
    encoder = build_empty_encoder(shortened(card_of(f"dinov2_vitS14{'_reg4' if n_registers else ''}"), DEPTH))
    encoder.backbone.load_state_dict(of_timm.state_dict())
    return {"authors": theirs, "timm": of_timm, "transformers": of_transformers, "zoo": encoder}


def _feature(library: str, network: Any, inputs: Tensor) -> Tensor:
    output = network(inputs)
    return output.pooler_output if library == "transformers" else output


def _features(networks: Mapping[str, Any], case: str) -> Iterator[Difference]:
    for px in (518, 448, 224):
        inputs = batch(px, n=1)
        encoder = networks["zoo"]
        encoder.px = px
        own = {library: _feature(library, network, inputs) for library, network in networks.items()}
        for library in ("timm", "transformers", "zoo"):
            apart = relative(own["authors"], own[library])
            yield Difference("feature", f"authors, {library}", f"{px} px, {case}", apart, "relative")
    tokens = networks["timm"].forward_features(inputs)
    mean = tokens[:, networks["timm"].num_prefix_tokens :].mean(dim=1)
    yield Difference("feature", "class token, mean of patches", case, relative(own["timm"], mean), "relative")


def _halves(networks: Mapping[str, Any], case: str) -> Iterator[Difference]:
    inputs = batch(224, n=1)
    for library in ("authors", "timm", "transformers"):
        network = networks[library]
        whole = _feature(library, network, inputs)
        half = _feature(library, network.bfloat16(), inputs.bfloat16())
        yield Difference("precision", f"{library}, the same in bfloat16", case, relative(whole, half), "relative")
        network.float()


def _tables(theirs: Any, networks: Mapping[str, Any], case: str) -> Iterator[Difference]:
    """Interpolated tables of independent numbers."""
    randomise(theirs)
    networks["transformers"].embeddings.position_embeddings.data.copy_(theirs.pos_embed)
    for px in (224, 448, 518):
        n = (px // 14) ** 2
        tokens = torch.zeros(1, 1 + n, 384)
        one = theirs.interpolate_pos_encoding(tokens, px, px)
        others = {
            "timm": resample_abs_pos_embed(theirs.pos_embed, new_size=[px // 14] * 2, num_prefix_tokens=1),
            "transformers": networks["transformers"].embeddings.interpolate_pos_encoding(tokens, px, px),
        }
        for library, other in others.items():
            apart = float((one - other).abs().max() / theirs.pos_embed.std())
            yield Difference(
                "positions",
                f"authors, {library}",
                f"{px} px, {case}",
                apart,
                "standard deviations of the table at most",
            )


def _pixels(theirs: Any, network: Any) -> Iterator[Difference]:
    steps = theirs.transforms[:-1]  # without mean and standard deviation
    settings = resolve_data_config({}, model=timm.create_model("vit_small_patch14_dinov2", pretrained=False))
    at_224 = settings | UNSCALED | {"input_size": (3, 224, 224)}
    others = {
        "timm for 224 px": create_transform(**at_224),
        "timm for 224 px with crop_pct=0.875": create_transform(**at_224 | {"crop_pct": 224 / 256}),
        "transformers on Pillow": BitImageProcessorPil(**PUBLISHED),
        "transformers on torchvision": BitImageProcessor(**PUBLISHED),
    }
    card = card_of("dinov2_vitS14")
    yield from pixel_rows(Compose(steps), others, card)
    inputs = {
        "authors": Compose(steps),
        "timm": create_transform(**settings | UNSCALED),
        "timm for 224 px": others["timm for 224 px"],
        "transformers": others["transformers on torchvision"],
    }
    yield from input_rows(card, inputs, network)
