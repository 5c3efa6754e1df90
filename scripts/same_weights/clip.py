"""CLIP of OpenAI: which GELU, and whether a feature is before or after the projection."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import open_clip
import timm
from PIL import Image
from timm.data import create_transform
from timm.models.vision_transformer import checkpoint_filter_fn
from torch import Tensor
from transformers import (
    CLIPImageProcessor,
    CLIPImageProcessorPil,
    CLIPVisionConfig,
    CLIPVisionModel,
    CLIPVisionModelWithProjection,
)

from same_weights.shared import (
    Difference,
    as_published,
    batch,
    card_of,
    import_from,
    input_rows,
    pictures,
    pixel_rows,
    randomise,
    relative,
    renamed,
    shortened,
)
from zoo.encoders.build import build_empty_encoder

AUTHORS = {"openai/CLIP": ("d05afc436d78f1c48dc0dbf8e5980a9d471f35f6", ("clip",))}
DEPTH = 4
UNSCALED = {"mean": (0.0, 0.0, 0.0), "std": (1.0, 1.0, 1.0)}


def measure(authors: Mapping[str, Path]) -> Iterator[Difference]:
    """Rows of the table."""
    import_from(authors["openai/CLIP"])
    from clip.clip import _transform
    from clip.model import VisionTransformer

    theirs = VisionTransformer(224, 32, 768, DEPTH, 12, 512)
    randomise(theirs)
    state = theirs.state_dict()
    yield from _features(theirs, state)
    steps = _transform(224).transforms[:-1]  # without mean and standard deviation

    def squared(image: Image.Image) -> Any:
        for step in steps:
            image = step(image)
        return image

    yield from _pixels(squared, shortened(card_of("clip_vitB32"), DEPTH), theirs)


def _features(theirs: Any, state: Mapping[str, Tensor]) -> Iterator[Difference]:
    inputs = batch(224)
    projected = theirs(inputs)
    theirs.proj = None
    own = theirs(inputs)
    own_tokens: list[Tensor] = []
    hook = theirs.transformer.register_forward_hook(lambda *seen: own_tokens.append(seen[2].permute(1, 0, 2)))
    theirs(inputs)
    hook.remove()
    where = "224 px"
    visual = {f"visual.{name}": tensor for name, tensor in state.items()}
    networks = {}
    for gelu in ("quickgelu_", ""):
        network = timm.create_model(f"vit_base_patch32_clip_{gelu}224", num_classes=0, depth=DEPTH).eval()
        network.load_state_dict(
            {k: v for k, v in checkpoint_filter_fn(dict(visual), network).items() if "head." not in k}
        )
        networks[gelu] = network
    yield Difference(
        "feature", "authors before projection, timm", where, relative(own, networks["quickgelu_"](inputs)), "relative"
    )
    with_head = timm.create_model("vit_base_patch32_clip_quickgelu_224", num_classes=512, depth=DEPTH).eval()
    with_head.load_state_dict(checkpoint_filter_fn(dict(visual), with_head))
    yield Difference(
        "feature", "authors, timm with its classifier of 512", where, relative(projected, with_head(inputs)), "relative"
    )
    yield Difference(
        "activation", "authors, timm's names without quickgelu", where, relative(own, networks[""](inputs)), "relative"
    )
    encoder = build_empty_encoder(shortened(card_of("clip_vitB32"), DEPTH))
    encoder.backbone.load_state_dict(networks["quickgelu_"].state_dict())
    yield Difference("feature", "authors before projection, zoo", where, relative(own, encoder(inputs)), "relative")
    yield from _of_transformers(state, own, projected, own_tokens[0], inputs)
    for quick, name in ((True, "ViT-B-32-quickgelu"), (False, "ViT-B-32")):
        config = open_clip.get_model_config(name)
        config["vision_cfg"]["layers"] = DEPTH
        visual_tower = open_clip.CLIP(**{k: v for k, v in config.items() if k != "custom_text"}).visual.eval()
        visual_tower.load_state_dict(dict(state))
        apart = relative(projected, visual_tower(inputs))
        yield Difference("feature" if quick else "activation", f"authors, OpenCLIP's {name}", where, apart, "relative")


def _of_transformers(
    state: Mapping[str, Tensor], own: Tensor, projected: Tensor, tokens: Tensor, inputs: Tensor
) -> Iterator[Difference]:
    published = {f"vision_model.{name}": tensor for name, tensor in _published(state).items()}
    projection = {"visual_projection.weight": state["proj"].T.contiguous()}
    config = {"num_hidden_layers": DEPTH, "patch_size": 32, "projection_dim": 512}
    where = "224 px"
    network = as_published(CLIPVisionModel, CLIPVisionConfig(**config), published)
    output = network(inputs)
    yield Difference(
        "feature", "authors before projection, transformers", where, relative(own, output.pooler_output), "relative"
    )
    yield Difference(
        "norm",
        "authors' tokens before ln_post, `last_hidden_state`",
        where,
        relative(tokens, output.last_hidden_state),
        "relative",
    )
    normed = network.get_submodule("post_layernorm")(output.last_hidden_state)
    yield Difference(
        "norm",
        "`last_hidden_state`, after ln_post as timm gives it",
        where,
        relative(output.last_hidden_state, normed),
        "relative",
    )
    network = as_published(CLIPVisionModelWithProjection, CLIPVisionConfig(**config), published | projection)
    yield Difference(
        "feature", "authors, `image_embeds`", where, relative(projected, network(inputs).image_embeds), "relative"
    )
    exact = as_published(CLIPVisionModel, CLIPVisionConfig(**config, hidden_act="gelu"), published)
    yield Difference(
        "activation",
        'authors, transformers with hidden_act="gelu"',
        where,
        relative(own, exact(inputs).pooler_output),
        "relative",
    )


def _published(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Names of files for transformers, as its convert_clip_original_pytorch_to_hf.py gives them."""
    whole = {name: tensor for name, tensor in state.items() if name != "proj"}
    for name in [name for name in whole if "attn.in_proj_" in name]:
        for letter, part in zip("qkv", whole.pop(name).chunk(3), strict=True):
            whole[name.replace("attn.in_proj_", f"self_attn.{letter}_proj.")] = part
    return renamed(
        whole,
        ("^class_embedding$", "embeddings.class_embedding"),
        ("^positional_embedding$", "embeddings.position_embedding.weight"),
        ("^conv1", "embeddings.patch_embedding"),
        ("^ln_pre", "pre_layrnorm"),
        ("^ln_post", "post_layernorm"),
        (r"^transformer\.resblocks", "encoder.layers"),
        (r"\.attn\.out_proj", ".self_attn.out_proj"),
        (r"\.ln_([12])", r".layer_norm\1"),
        (r"mlp\.c_fc", "mlp.fc1"),
        (r"mlp\.c_proj", "mlp.fc2"),
    )


def _pixels(theirs: Any, card: Any, network: Any) -> Iterator[Difference]:
    config = timm.get_pretrained_cfg("vit_base_patch32_clip_quickgelu_224.openai").to_dict()
    settings = timm.data.resolve_data_config({}, pretrained_cfg=config)
    of_timm = create_transform(**settings | UNSCALED)
    others = {
        "timm": lambda image: of_timm(image.convert("RGB")),  # as its data sets open files
        "OpenCLIP": open_clip.image_transform(224, is_train=False, **UNSCALED),
        "transformers on Pillow": CLIPImageProcessorPil(do_normalize=False),
        "transformers on torchvision": CLIPImageProcessor(do_normalize=False),
    }
    inputs = {"authors": theirs, "timm": others["timm"], "OpenCLIP": others["OpenCLIP"]}
    inputs |= {"transformers": others["transformers on torchvision"]}
    yield from pixel_rows(theirs, others, card)
    yield from input_rows(card, inputs, network)
    paletted = [image.quantize(64) for image in pictures()]
    case = "five palette images"
    yield from pixel_rows(theirs, others, card, images=paletted, case=case)
    yield from input_rows(card, inputs, network, images=paletted, case=case)
