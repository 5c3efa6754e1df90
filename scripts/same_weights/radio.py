"""RADIO and C-RADIO: which class tokens are the feature, and how one large table of positions is made small."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import timm
import torch
import torch.nn.functional as F  # noqa: N812
from timm.data import create_transform, resolve_data_config
from timm.models import naflexvit
from timm.models.vision_transformer import checkpoint_filter_fn
from torch import Tensor
from transformers import CLIPImageProcessor, RadioConfig, RadioModel

from same_weights.shared import (
    Difference,
    batch,
    card_of,
    import_from,
    input_rows,
    pixel_rows,
    randomise,
    relative,
    shortened,
)
from zoo.encoders.build import build_empty_encoder

AUTHORS = {"NVlabs/RADIO": ("c0f37017930e9dda53f93424cf4bf39fc51f287e", ("radio", "examples/common"))}
ARCH, WIDTH, DEPTH, SIDE = "vit_huge_patch16_radio_v4", 1280, 2, 128
MEAN, STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
TEACHERS = [{"name": "siglip2-g"}, {"name": "dino_v3"}, {"name": "sam3", "use_summary": False}]
PREFIX = "radio_model.model."
# of hubconf.py: arguments of a training, of those that the network depends on
ARGUMENTS: dict[str, Any] = {
    "model": "vit_huge_patch16_224", "model_kwargs": {"depth": DEPTH}, "in_chans": None, "input_size": None,
    "num_classes": 0, "pretrained": False, "drop": 0.0, "drop_path": None, "drop_block": None, "gp": None,
    "bn_momentum": None, "bn_eps": None, "torchscript": False, "initial_checkpoint": "", "cpe_max_size": 2048,
    "teachers": TEACHERS, "cls_token_per_teacher": True, "cpe_num_registers": 7,
}  # fmt: skip


def measure(authors: Mapping[str, Path]) -> Iterator[Difference]:
    """Rows of the table."""
    # before the authors' modules, which put networks of the same names into timm's registry
    of_timm = timm.create_model(ARCH, depth=DEPTH, dynamic_img_size=True).eval()
    naflex = timm.create_model(ARCH, depth=DEPTH, use_naflex=True).eval()
    encoder = build_empty_encoder(shortened(card_of("cradio_v4_vitH16"), DEPTH))
    settings = resolve_data_config({}, model=of_timm)
    import_from(authors["NVlabs/RADIO"])
    from radio import extra_timm_models  # noqa: F401
    from radio.input_conditioner import get_default_conditioner
    from radio.radio_model import RADIOModel, Resolution, create_model_from_args

    network = create_model_from_args(Namespace(**ARGUMENTS))
    randomise(network)
    network.patch_generator.cls_token.token.data.mul_(0.5)
    table = network.patch_generator.pos_embed
    coarse = torch.randn(1, WIDTH, SIDE // 8, SIDE // 8, generator=torch.Generator().manual_seed(0)) * 0.5
    smooth = F.interpolate(coarse, size=(SIDE, SIDE), mode="bicubic")  # as we take trained ones to be
    table.data.copy_(smooth.flatten(2).transpose(1, 2))
    theirs = RADIOModel(
        network, get_default_conditioner(), 16, 2048, Resolution(512, 512), summary_idxs=torch.tensor([0, 1])
    ).eval()
    state = {f"{PREFIX}{name}": tensor for name, tensor in network.state_dict().items()}
    of_transformers = _of_transformers(state)
    of_timm.load_state_dict(
        checkpoint_filter_fn(dict(state), of_timm, interpolation="bilinear", antialias=False, align_corners=False),
        strict=False,
    )
    encoder.backbone.load_state_dict(of_timm.state_dict())
    yield from _features(theirs, of_timm, of_transformers, encoder)
    naflex.load_state_dict(naflexvit.checkpoint_filter_fn(dict(state), naflex), strict=False)
    yield from _sizes(theirs, of_timm, of_transformers, encoder, naflex)
    yield from _corners(theirs)
    yield from _pixels(settings, authors["NVlabs/RADIO"] / "examples" / "common", encoder)
    yield from _halves(theirs, of_transformers)


def _of_transformers(state: Mapping[str, Tensor]) -> Any:
    """The released tensors by the names of the repositories on the Hub, which transformers renames by its own rules."""
    config = RadioConfig(num_hidden_layers=DEPTH)
    beside = {"radio_model.summary_idxs": torch.tensor([0, 1])} | {
        f"radio_model.input_conditioner.norm_{kind}": torch.tensor(values)[:, None, None]
        for kind, values in (("mean", MEAN), ("std", STD))
    }
    return RadioModel.from_pretrained(None, config=config, state_dict=dict(state) | beside).eval()


def _features(theirs: Any, of_timm: Any, of_transformers: Any, encoder: Any) -> Iterator[Difference]:
    inputs = batch(512, n=1)
    levels = inputs * torch.tensor(STD)[:, None, None] + torch.tensor(MEAN)[:, None, None]  # their networks normalise
    summary, patches = theirs(levels)
    output = of_transformers(levels)
    first = of_timm(inputs)
    case = "512 px"
    yield Difference(
        "feature",
        "authors' summary of two class tokens, transformers' summary",
        case,
        relative(summary, output.summary),
        "relative",
    )
    yield Difference("feature", "the first half of it, timm", case, relative(summary[:, :WIDTH], first), "relative")
    yield Difference(
        "feature", "the first half of it, zoo", case, relative(summary[:, :WIDTH], encoder(inputs)), "relative"
    )
    yield Difference(
        "feature", "first class token, second", case, relative(summary[:, :WIDTH], summary[:, WIDTH:]), "relative"
    )
    yield Difference(
        "tokens", "authors' patches, transformers' features", case, relative(patches, output.features), "relative"
    )
    own = of_timm.forward_features(inputs)[:, of_timm.num_prefix_tokens :]
    yield Difference("tokens", "authors' patches, timm's", case, relative(patches, own), "relative")
    twice = of_transformers(inputs).summary
    yield Difference(
        "colours",
        "transformers, the same of images that were normalised before",
        case,
        relative(output.summary, twice),
        "relative",
    )


def _halves(theirs: Any, of_transformers: Any) -> Iterator[Difference]:
    """In bfloat16; last, for weights stay rounded."""
    levels = batch(512, n=1) * torch.tensor(STD)[:, None, None] + torch.tensor(MEAN)[:, None, None]
    summary, case = theirs(levels)[0], "512 px"
    theirs.model.bfloat16()
    theirs.input_conditioner.dtype = torch.bfloat16
    others = {
        "authors, the same in bfloat16, pixels in float32": theirs(levels)[0],
        "authors, the same in bfloat16, pixels too": theirs(levels.bfloat16())[0],
        "transformers, the same in bfloat16": of_transformers.bfloat16()(levels.bfloat16()).summary,
    }
    for between, other in others.items():
        yield Difference("precision", between, case, relative(summary, other), "relative")


def _sizes(theirs: Any, of_timm: Any, of_transformers: Any, encoder: Any, naflex: Any) -> Iterator[Difference]:
    """At sizes for which timm's network interpolates what was made small before."""
    for px in (224, 640):
        inputs = batch(px, n=1)
        levels = inputs * torch.tensor(STD)[:, None, None] + torch.tensor(MEAN)[:, None, None]
        summary = theirs(levels)[0]
        encoder.px = px
        yield Difference(
            "positions",
            "authors, transformers",
            f"{px} px",
            relative(summary, of_transformers(levels).summary),
            "relative",
        )
        yield Difference(
            "positions",
            "authors, timm with dynamic_img_size",
            f"{px} px",
            relative(summary[:, :WIDTH], of_timm(inputs)),
            "relative",
        )
        yield Difference(
            "positions", "authors, zoo", f"{px} px", relative(summary[:, :WIDTH], encoder(inputs)), "relative"
        )
        yield Difference(
            "positions",
            "authors, timm's naflexvit",
            f"{px} px",
            relative(summary[:, :WIDTH], naflex(inputs)),
            "relative",
        )


def _corners(theirs: Any) -> Iterator[Difference]:
    """C-RADIO v3-B and v3-H were released with corners aligned; the authors' code and transformers align none today."""
    generator = theirs.model.patch_generator
    for px in (512, 224):
        inputs, n = batch(px, n=1), px // 16
        grid = generator.pos_embed.reshape(1, SIDE, SIDE, -1).permute(0, 3, 1, 2)
        aligned = F.interpolate(grid, size=(n, n), mode="bilinear", align_corners=True).flatten(2).transpose(1, 2)
        not_aligned = theirs.model.forward_features(inputs)[:, 0]
        generator._get_pos_embeddings = lambda *args, table=aligned, **more: table
        is_aligned = theirs.model.forward_features(inputs)[:, 0]
        del generator._get_pos_embeddings
        yield Difference(
            "positions",
            "corners aligned (v3-B, v3-H as released, and timm), not aligned (authors since June 2025, transformers)",
            f"{px} px",
            relative(is_aligned, not_aligned),
            "relative",
        )


def _pixels(settings: Mapping[str, Any], examples: Path, network: Any) -> Iterator[Difference]:
    """The authors' transform is that of ``examples/``, with a square asked for."""
    import_from(examples)
    from resize_transform import get_standard_transform

    size: dict[str, Any] = {"size": {"shortest_edge": 512}, "crop_size": {"height": 512, "width": 512}}
    others = {
        "timm": create_transform(**settings | {"mean": (0, 0, 0), "std": (1, 1, 1)}),
        "transformers' CLIPImageProcessor of 512 px": CLIPImageProcessor(**size, do_normalize=False),
    }
    theirs, card = get_standard_transform([512, 512], 16), card_of("cradio_v4_vitH16")
    yield from pixel_rows(theirs, others, card)
    network.px = 512
    inputs = {"authors": theirs, "timm": others["timm"]}
    inputs |= {"transformers": others["transformers' CLIPImageProcessor of 512 px"]}
    yield from input_rows(card, inputs, network)
