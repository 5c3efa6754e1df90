"""Hiera: the same features of other margins; and what its classifier gives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import timm
from timm.data import create_transform, resolve_data_config
from timm.models.hiera import checkpoint_filter_fn
from torch import nn
from torchvision import transforms
from transformers import BitImageProcessor, BitImageProcessorPil, HieraConfig, HieraForImageClassification

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

AUTHORS = {"facebookresearch/hiera": ("b12b842542ee5c757fcfec8c41f6b56fcbe89b65", ("hiera",))}
DEPTHS = (1, 2, 7, 2)
NAMES = (
    (r"\.norm1\.", ".layernorm_before."),
    (r"\.norm2\.", ".layernorm_after."),
    (r"^patch_embed\.proj\.", "embeddings.patch_embeddings.projection."),
    (r"^pos_embed$", "embeddings.position_embeddings"),
    (r"^norm\.", "pooler.layernorm."),
    (r"^(?!head\.)", "hiera."),
    (r"^head\.projection\.", "classifier."),
)


def measure(authors: Mapping[str, Path]) -> Iterator[Difference]:
    """Rows of the table."""
    import_from(authors["facebookresearch/hiera"])
    from hiera.hiera import Hiera

    theirs = Hiera(embed_dim=96, num_heads=1, stages=DEPTHS)
    randomise(theirs)
    of_timm = timm.create_model("hiera_tiny_224").eval()
    of_timm.load_state_dict(checkpoint_filter_fn(dict(theirs.state_dict()), of_timm))
    of_transformers = HieraForImageClassification(HieraConfig(depths=list(DEPTHS), num_labels=1000)).eval()
    blocks = [
        (rf"^blocks\.{sum(DEPTHS[:stage]) + i}\.", f"encoder.stages.{stage}.layers.{i}.")
        for stage in range(4)
        for i in range(DEPTHS[stage])
    ]
    of_transformers.load_state_dict(renamed(theirs.state_dict(), *blocks, *NAMES))
    encoder = build_empty_encoder(card_of("mae_hieraT"))
    encoder.backbone.load_state_dict({name: of_timm.state_dict()[name] for name in encoder.backbone.state_dict()})
    yield from _features(theirs, of_timm, of_transformers, encoder)
    yield from _pixels(encoder)


def _features(theirs: Any, of_timm: Any, of_transformers: Any, encoder: Any) -> Iterator[Difference]:
    inputs = batch(224, n=2)
    logits, maps = theirs(inputs, return_intermediates=True)
    classify, theirs.head = theirs.head, nn.Identity()
    own = theirs(inputs)
    output = of_transformers.hiera(inputs)
    others = {
        "timm": of_timm.forward_head(of_timm.forward_features(inputs), pre_logits=True),
        "transformers' pooler_output": output.pooler_output,
        "zoo": encoder(inputs),
    }
    for library, other in others.items():
        yield Difference("feature", f"authors, {library}", "224 px", relative(own, other), "relative")
    yield Difference(
        "norm",
        "authors, mean of transformers' last_hidden_state (no norm)",
        "224 px",
        relative(own, output.last_hidden_state.mean(dim=1)),
        "relative",
    )
    tokens = maps[-1].flatten(1, 2)
    yield Difference(
        "tokens",
        "the authors' last map row by row, transformers' last_hidden_state",
        "224 px",
        relative(tokens, output.last_hidden_state),
        "relative",
    )
    linear = classify.projection(own)
    yield Difference(
        "classes",
        "a linear layer of the feature, authors in eval mode (softmax)",
        "224 px",
        relative(linear, logits),
        "relative",
    )
    yield Difference(
        "classes", "its softmax, authors in eval mode", "224 px", relative(linear.softmax(dim=-1), logits), "relative"
    )
    for library, other in (("timm", of_timm(inputs)), ("transformers", of_transformers(inputs).logits)):
        yield Difference(
            "classes", f"a linear layer of the feature, {library}", "224 px", relative(linear, other), "relative"
        )
    for library, network, take in (
        ("authors", theirs, lambda x: x),
        ("timm", of_timm.reset_classifier(0) or of_timm, lambda x: x),
        ("transformers", of_transformers.hiera, lambda x: x.pooler_output),
    ):
        half = take(network.bfloat16()(inputs.bfloat16()))
        yield Difference("precision", f"{library}, the same in bfloat16", "224 px", relative(own, half), "relative")
        network.float()


def _pixels(network: Any) -> Iterator[Difference]:
    """The authors' transform is that of their notebook ``examples/inference.ipynb``."""
    bicubic = transforms.InterpolationMode.BICUBIC
    theirs = transforms.Compose([transforms.Resize(256, bicubic), transforms.CenterCrop(224), transforms.ToTensor()])
    settings = resolve_data_config({}, model=timm.create_model("hiera_tiny_224.mae", pretrained=False))
    others = {
        "timm": create_transform(**settings | {"mean": (0, 0, 0), "std": (1, 1, 1)}),
        "transformers on Pillow": BitImageProcessorPil(size={"shortest_edge": 256}, do_normalize=False),
        "transformers on torchvision": BitImageProcessor(size={"shortest_edge": 256}, do_normalize=False),
    }
    card = card_of("mae_hieraT")
    yield from pixel_rows(theirs, others, card)
    inputs = {"authors": theirs, "timm": others["timm"], "transformers": others["transformers on torchvision"]}
    yield from input_rows(card, inputs, network)
