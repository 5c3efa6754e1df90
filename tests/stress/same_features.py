"""The zoo's features of encoders from timm and transformers against these libraries' own forward, on random weights.

    python tests/stress/same_features.py [ID ...]

One encoder of each of many families, at the size that its weights are for and at 224 px. The reference is built by the
library itself, under its own name and for its own size; what is pooled is pooled here, in a line. At another size the
reference's weights are those that timm's own loading makes of the same state dict. A deviation is the largest
difference divided by the largest feature; above 1e-5 the script ends with 1.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import timm
import torch
from torch import Tensor

from zoo.cards.catalogue import load_catalogue
from zoo.cards.schema import EncoderCard
from zoo.encoders import Encoder, build_encoder
from zoo.encoders.sizes import derive_sized_card, resize_encoder
from zoo.errors import QueryError

WITHIN = 1e-5
ENCODERS = (
    "dinov2_vitS14_reg4", "dinov3_vitS16_lvd1689m", "eupe_vitT16", "lingbot_vitS16", "eva02_vitT14_mim_in22k",
    "evaclip02_vitB16_merged2b", "siglip_vitB16_224", "siglip2_vitB16_224", "metaclip_vitB16_2pt5b",
    "dfnclip_vitB16_dfn2b", "tinyclip_vitXS16_yfcc15m", "openclip_vitB32", "clip_vitB16", "beit_vitB16_pt22k_ft22k",
    "mae_hieraT", "fcmae_convnextv2A", "vitamin_S_224", "mobileclip2_s0", "cradio_v3_vitB16", "tipsv2_vitB14",
    "pe_spatial_vitT16_512", "sup_swinT_in1k", "dino_vitS16_last", "mae_vitB16", "sup_efficientnetb0",
    "dino_resmlp12", "semisl_rn18_yfcc100m_ft1k", "vjepa2_vitL16_256",
)  # fmt: skip


def main(names: Iterable[str]) -> int:
    warnings.simplefilter("ignore")
    worst = 0.0
    print(f"{'family':14} {'encoder':30} {'layer':9} {'px':>5} {'deviation':>10}")
    for name in names:
        for card, px, deviation in deviations(name):
            worst = max(worst, deviation)
            print(f"{card.family:14} {card.id:30} {card.representation.layer:9} {px:5} {deviation:10.1e}", flush=True)
    print(f"largest deviation {worst:.1e}")
    return int(not worst <= WITHIN)


def deviations(name: str) -> Iterator[tuple[EncoderCard, int, float]]:
    """Card, side and deviation of an encoder: at the size of its weights, and at 224 where it takes that."""
    card = load_catalogue()[name]
    native = card.architecture.native_px if isinstance(card.architecture.native_px, int) else card.preprocess.crop_px
    for px in dict.fromkeys((native, 224)):
        whole = build_encoder(card)
        drawn = _drawn(whole, seed=7)
        whole.load_state_dict(drawn)
        try:
            encoder = resize_encoder(whole, card, derive_sized_card(card, px))
        except QueryError as error:
            print(f"{card.family:14} {error}")
            continue
        images = torch.randn(1, 3, px, px, generator=torch.Generator().manual_seed(8))
        with torch.inference_mode():
            own, other = encoder(images), _reference(card, drawn, px, native)(images)
        yield card, px, float((own - other).abs().max() / other.abs().max())


def _drawn(encoder: Encoder, *, seed: int) -> dict[str, Tensor]:
    """Every tensor moved a little at random, so that no norm and no bias is at its start."""
    generator = torch.Generator().manual_seed(seed)
    moved = {}
    for name, tensor in encoder.state_dict().items():
        if tensor.is_floating_point():
            tensor = tensor + 0.02 * torch.randn(tensor.shape, generator=generator)
        moved[name] = tensor.abs() if name.endswith("running_var") else tensor
    return moved


def _reference(card: EncoderCard, drawn: dict[str, Tensor], px: int, native: int) -> Callable[[Tensor], Tensor]:
    library, _, name = card.architecture.backbone.partition(":")
    state = {
        key.removeprefix("backbone."): tensor.abs() if "running_var" in key else tensor for key, tensor in drawn.items()
    }
    if library == "transformers":
        return _of_transformers(name, card, state)
    options = {
        key: value for key, value in card.architecture.options.items() if key not in ("depth", "dynamic_img_size")
    }
    layer = card.representation.layer
    is_of_tokens = layer in ("cls", "avg", "cls+avg")
    if is_of_tokens:
        options = {"global_pool": ""} | options
    try:
        network: Any = timm.create_model(name, num_classes=0, img_size=px, **options)
    except TypeError:  # it has no size
        network = timm.create_model(name, num_classes=0, **options)
    network = network.eval()
    rename = getattr(sys.modules[timm.models.model_entrypoint(name).__module__], "checkpoint_filter_fn", None)
    if px != native and rename is not None:
        state = rename(dict(state), network)
    network.load_state_dict({key: state[key] for key in network.state_dict()})
    if not is_of_tokens:
        return lambda images: network.forward_head(network.forward_features(images), pre_logits=True)

    def pooled(images: Tensor) -> Tensor:
        tokens = network.forward_features(images)
        mean = network.fc_norm(tokens[:, network.num_prefix_tokens :].mean(dim=1))  # the identity in most
        return torch.cat([{"cls": tokens[:, 0], "avg": mean}[word] for word in layer.split("+")], dim=1)

    return pooled


def _of_transformers(name: str, card: EncoderCard, state: dict[str, Tensor]) -> Callable[[Tensor], Tensor]:
    from transformers import AutoConfig, AutoModel

    build: Any = AutoModel.from_config
    network = build(AutoConfig.for_model(name, **card.architecture.options)).eval()
    network.load_state_dict({key.removeprefix("network."): tensor for key, tensor in state.items()}, strict=False)

    def pooled(images: Tensor) -> Tensor:  # of a video that stands still
        frames = torch.stack([images] * network.config.tubelet_size, dim=1)
        tokens: Tensor = network(pixel_values_videos=frames, skip_predictor=True).last_hidden_state
        return tokens.mean(dim=1)

    return pooled


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or ENCODERS))
