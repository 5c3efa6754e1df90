"""BEiT and BEiT v2: the norm of transformers' backbone, and tables of relative positions at other sizes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import timm
import torch
from timm.data import create_transform, resolve_data_config
from timm.models.beit import checkpoint_filter_fn
from torch import Tensor, nn
from torchvision import transforms
from transformers import (
    AutoModel,
    BeitConfig,
    BeitForImageClassification,
    BeitForMaskedImageModeling,
    BeitImageProcessor,
    BeitImageProcessorPil,
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
    shortened,
    smoothed,
    split_qkv,
)
from zoo.encoders.build import build_empty_encoder
from zoo.encoders.layouts.transformers import convert_beit

AUTHORS = {"microsoft/unilm": ("768a3c873f598bb9b4d4dfb9267b099e35f8fe56", ("beit",))}
WIDTH, DEPTH, N_HEADS, SIDE = 768, 4, 12, 27  # of a table of relative positions
CONFIG = {"hidden_size": WIDTH, "num_hidden_layers": DEPTH, "num_attention_heads": N_HEADS, "intermediate_size": 3072}
NAMES = (
    (r"^blocks\.", "layers."),
    (r"\.norm1\.", ".layernorm_before."),
    (r"\.norm2\.", ".layernorm_after."),
    (r"\.attn\.proj\.", ".attention.o_proj."),
    (r"\.attn\.relative_position_bias_table$", ".relative_position_bias.relative_position_bias_table"),
    (r"\.attn\.q_bias$", ".attention.q_proj.bias"),
    (r"\.attn\.v_bias$", ".attention.v_proj.bias"),
    (r"\.attn\.", ".attention."),
    (r"\.gamma_([12])$", r".lambda_\1"),
    (r"^rel_pos_bias\.", "shared_position_bias."),
    (r"^fc_norm\.", "pooler.layernorm."),
    (r"^cls_token$", "embeddings.cls_token"),
    (r"^patch_embed\.proj\.", "embeddings.patch_embeddings.projection."),
    (r"^(?!norm\.|head\.)", "beit."),
    (r"^norm\.", "layernorm."),
    (r"^head\.", "classifier."),
)


def measure(authors: Mapping[str, Path]) -> Iterator[Difference]:
    """Rows of the table."""
    # before the authors' modules, which put networks of the same names into timm's registry
    of_timm, resized = {px: _of_timm(px, num_classes=0) for px in (224, 384)}, _of_timm(224, num_classes=0)
    before = _of_timm(224, num_classes=0, global_pool="token")
    pretrained = build_empty_encoder(shortened(card_of("beit_vitB16_pt22k"), DEPTH))
    tuned = build_empty_encoder(shortened(card_of("beit_vitB16_pt22k_ft22k"), DEPTH))
    settings = resolve_data_config({}, model=of_timm[224])
    import_from(authors["microsoft/unilm"] / "beit")
    from modeling_finetune import VisionTransformer

    build = partial(
        VisionTransformer, num_classes=0, embed_dim=WIDTH, depth=DEPTH, num_heads=N_HEADS, qkv_bias=True,
        init_values=0.1, use_abs_pos_emb=False, norm_layer=partial(nn.LayerNorm, eps=1e-6),
    )  # fmt: skip
    yield from _pretrained(_filled(build(use_shared_rel_pos_bias=True, use_mean_pooling=False)), before, pretrained)
    yield from _tuned(_filled(build(use_rel_pos_bias=True)), of_timm, tuned, resized)
    yield from _pixels(settings, pretrained)


def _of_timm(px: int, **options: Any) -> nn.Module:
    return timm.create_model("beit_base_patch16_224", depth=DEPTH, img_size=px, **options).eval()


def _filled(network: Any) -> Any:
    """Random weights, with tables as smooth as we take trained ones to be, and scales of layers as they start."""
    randomise(network)
    for name, parameter in network.named_parameters():
        if name.endswith("relative_position_bias_table"):
            soft = smoothed(torch.randn(1, SIDE * SIDE, N_HEADS, generator=torch.Generator().manual_seed(0)), blur=1.5)
            parameter.data[:-3].copy_(soft[0])
        elif re.search(r"gamma_[12]$", name):
            parameter.data.mul_(0.5)
    return network


def _pretrained(theirs: Any, of_timm: Any, encoder: Any) -> Iterator[Difference]:
    """After pretraining: one table for all blocks, and a norm that is trained."""
    inputs = batch(224, n=2)
    own = theirs(inputs)  # class token after the norm
    state = convert_beit({"model": theirs.state_dict()}, target=of_timm.state_dict())
    of_timm.load_state_dict(state)
    encoder.backbone.load_state_dict(state)
    case = "after pretraining, 224 px"
    yield Difference(
        "feature",
        "authors' class token, timm with global_pool='token'",
        case,
        relative(own, of_timm(inputs)),
        "relative",
    )
    yield Difference("feature", "authors' class token, zoo", case, relative(own, encoder(inputs)), "relative")
    published = BeitForMaskedImageModeling(
        BeitConfig(**CONFIG, use_shared_relative_position_bias=True, use_mask_token=True)
    )
    filled = published.state_dict() | _for_transformers(theirs)
    published.load_state_dict({name: filled[name] for name in published.state_dict()})
    with TemporaryDirectory() as folder:
        published.save_pretrained(folder)
        opened = AutoModel.from_pretrained(folder).eval()
        normed = AutoModel.from_pretrained(folder, use_mean_pooling=False, add_pooling_layer=False).eval()
    output = opened(inputs)
    rows = {
        "class token of transformers' AutoModel (no norm)": output.last_hidden_state[:, 0],
        "pooler_output of it (mean of patches, norm not trained)": output.pooler_output,
        "class token of it with use_mean_pooling=False": normed(inputs).last_hidden_state[:, 0],
    }
    for library, other in rows.items():
        yield Difference("norm", f"authors' class token, {library}", case, relative(own, other), "relative")


def _for_transformers(theirs: nn.Module) -> dict[str, Tensor]:
    state = {name: tensor for name, tensor in theirs.state_dict().items() if "relative_position_index" not in name}
    return renamed(split_qkv(state, "q_proj", "k_proj", "v_proj"), *NAMES)


def _tuned(theirs: Any, of_timm: Mapping[int, Any], encoder: Any, resized: Any) -> Iterator[Difference]:
    """After fine-tuning: a table per block, and a norm after the mean of patches."""
    inputs = batch(224, n=2)
    own = theirs(inputs)
    state = {name: tensor for name, tensor in theirs.state_dict().items() if "relative_position_index" not in name}
    for network in of_timm.values():
        network.load_state_dict(checkpoint_filter_fn(dict(state), network), strict=False)
    of_transformers = BeitForImageClassification(
        BeitConfig(**CONFIG, use_relative_position_bias=True, num_labels=0)
    ).eval()
    of_transformers.load_state_dict(_for_transformers(theirs))
    backbone = of_transformers.beit
    encoder.backbone.load_state_dict({name: of_timm[224].state_dict()[name] for name in encoder.backbone.state_dict()})
    case = "after fine-tuning, 224 px"
    others = {"timm": of_timm[224](inputs), "transformers": backbone(inputs).pooler_output, "zoo": encoder(inputs)}
    for library, other in others.items():
        yield Difference("feature", f"authors, {library}", case, relative(own, other), "relative")
    large = batch(384, n=2)
    loaded, at_once = of_timm[384](large), backbone(large).pooler_output
    asked = backbone(large, interpolate_pos_encoding=True).pooler_output
    yield Difference(
        "positions",
        "timm loaded for 384 px, transformers",
        "after fine-tuning, 384 px",
        relative(loaded, at_once),
        "relative",
    )
    yield Difference(
        "positions",
        "transformers, the same with interpolate_pos_encoding=True",
        "384 px",
        relative(at_once, asked),
        "relative",
    )
    resized.load_state_dict(of_timm[224].state_dict())
    resized.set_input_size(img_size=(384, 384))
    yield Difference(
        "positions",
        "timm loaded for 384 px, timm's set_input_size",
        "384 px",
        relative(loaded, resized(large)),
        "relative",
    )
    for library, network in (("authors", theirs), ("timm", of_timm[224]), ("transformers", backbone)):
        network.bfloat16()
        half = network(inputs.bfloat16())
        half = half.pooler_output if library == "transformers" else half
        yield Difference("precision", f"{library}, the same in bfloat16", case, relative(own, half), "relative")
        network.float()


def _pixels(settings: Mapping[str, Any], network: Any) -> Iterator[Difference]:
    """``run_linear_eval.py`` of BEiT resizes to 256 px and crops, ``datasets.py`` too."""
    theirs = transforms.Compose(
        [transforms.Resize(256, interpolation=3), transforms.CenterCrop(224), transforms.ToTensor()]
    )
    published: dict[str, Any] = {"size": {"height": 224, "width": 224}, "resample": 2, "do_center_crop": False}
    others = {
        "timm": create_transform(**settings | {"mean": (0, 0, 0), "std": (1, 1, 1)}),
        "transformers on Pillow": BeitImageProcessorPil(**published, do_normalize=False),
        "transformers on torchvision": BeitImageProcessor(**published, do_normalize=False),
    }
    card = card_of("beit_vitB16_pt22k")
    yield from pixel_rows(theirs, others, card)
    inputs = {"authors": theirs, "timm": others["timm"], "transformers": others["transformers on torchvision"]}
    yield from input_rows(card, inputs, network)
