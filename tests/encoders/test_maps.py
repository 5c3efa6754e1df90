"""Maps of patch features: what stands where in every kind of network."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
import timm
import torch
from torch import Tensor, nn

import zoo
from tests.each import for_each
from tests.encoder_checks import SAME, exact_images, random_images, relative_difference, with_random_statistics
from zoo.encoders import Encoder
from zoo.encoders.blocks import compute_block_means, has_tokens
from zoo.encoders.encoder import apply_backbone, average_patch_tokens, join_block_tokens
from zoo.encoders.maps import compute_block_maps, find_map_layer
from zoo.encoders.resnet import BACKBONES as RESNETS
from zoo.encoders.resnet import build_torchvision_resnet
from zoo.encoders.timm_models import BACKBONES as OF_TIMM
from zoo.encoders.transformers_models import build_transformers_model
from zoo.errors import DataError, QueryError


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A small network of one kind, and where in it a block is."""

    build: Callable[[], Any]
    px: int
    block: int | None = None  # a block before the last one, None: they are unknown
    at: str = ""  # its name
    gives: str = "map"  # what it gives: a map, a map with its "channels last", or "tokens"
    n_prefix: int = 0
    norm: str = ""  # through which the tokens of blocks go
    pools: bool = False  # the features are the mean of the map
    within: int = 0  # how many cells beyond itself a place may change, for strided kernels see aside of their cell


def of_timm(name: str, **options: Any) -> Callable[[], Any]:
    return partial(timm.create_model, name, num_classes=0, **options)


def of_zoo(constructor: str, **options: Any) -> Callable[[], Any]:
    return lambda: (RESNETS | OF_TIMM)[f"zoo:{constructor}"](**options)[0]


def of_transformers(model_type: str, **options: Any) -> Callable[[], Any]:
    sizes = {"hidden_size": 48, "num_attention_heads": 4, "num_hidden_layers": 3, "patch_size": 8}
    return lambda: build_transformers_model(model_type, **(options if model_type == "convnext" else sizes | options))[0]


NARROW: dict[str, Any] = {"embed_dim": 48, "depth": 3, "num_heads": 3}
WINDOWS = {"img_size": 128, "window_size": 4, "embed_dim": 24, "depths": (1, 1, 2, 1), "num_heads": (1, 2, 2, 4)}
STAGED = partial(Kind, block=3, at="layer2.1", pools=True, within=1)
ALEXNET = partial(Kind, within=1)
TOKENS = partial(Kind, px=80, block=1, at="blocks.1", gives="tokens", norm="norm", n_prefix=1)
SWIN, PATCH16 = "swin_tiny_patch4_window7_224", "vit_tiny_patch16_224"
KINDS = {
    "torchvision's ResNet": STAGED(build=lambda: build_torchvision_resnet("resnet18")[0], px=128),
    "small ResNet": STAGED(
        build=of_zoo("resnet_small", width=8, n_blocks=2, dim=16, last_width=12), px=32, block=4, at="layer3.0"
    ),
    "SimCLRv2": STAGED(build=of_zoo("resnet_selective", depth=50, width=1), px=128, block=4),
    "BYOL": STAGED(build=of_zoo("resnet50_same_padding"), px=128, block=4),
    "resnet50_last_block": STAGED(
        build=of_zoo("resnet50_last_block", dim=2048, residual=True), px=128, block=15, at="layer4.2"
    ),
    "AlexNet of jigsaw": ALEXNET(build=of_zoo("alexnet", kind="jigsaw"), px=227),
    "AlexNet of colorization": ALEXNET(build=of_zoo("alexnet", kind="colorization"), px=227),
    "AlexNet of RotNet": ALEXNET(build=of_zoo("alexnet", kind="rotnet"), px=224),
    "AlexNet of DeepCluster": ALEXNET(build=of_zoo("alexnet", kind="deepcluster"), px=224),
    "timm's ResNet": STAGED(build=of_timm("resnet10t"), px=128, block=1, at="layer2.0"),
    "ByobNet": STAGED(build=of_zoo("clip_resnet", width=8), px=224, at="stages.1.0", pools=False),
    "RegNet": STAGED(build=of_timm("regnety_002"), px=128, block=2, at="s3.b1"),
    "EfficientNet": STAGED(build=of_timm("efficientnet_lite0"), px=128, at="blocks.2.0"),
    "MobileNetV3": STAGED(build=of_timm("mobilenetv3_small_050"), px=128, at="blocks.2.0", pools=False),
    "MobileNetV5": STAGED(build=of_timm("mobilenetv5_300m", channel_multiplier=0.1), px=256, at="blocks.1.0"),
    "ConvNeXt": STAGED(build=of_timm("convnext_atto"), px=128, at="stages.1.blocks.1", pools=False),
    "ConvNeXt, norm first": STAGED(
        build=of_timm("convnext_atto", head_norm_first=True), px=128, at="stages.1.blocks.1"
    ),
    "FastVit": STAGED(build=of_timm("fastvit_mci0"), px=128, at="stages.1.blocks.1"),
    "Swin": STAGED(build=of_timm(SWIN, **WINDOWS), px=128, at="layers.2.blocks.1", within=0, gives="channels last"),
    "Swin V2": STAGED(
        build=of_timm("swinv2_tiny_window8_256", **WINDOWS),
        px=128,
        at="layers.2.blocks.1",
        within=0,
        gives="channels last",
    ),
    "torchvision's Swin V2": Kind(build=of_zoo("swinv2_of_torchvision", name="swin_v2_t"), px=128, pools=True),
    "Swin of CTransPath": STAGED(
        build=of_zoo("swin_conv_stem", name=SWIN), px=224, at="layers.1.blocks.1", within=0, gives="channels last"
    ),
    "Hiera": Kind(build=of_timm("hiera_tiny_224", embed_dim=24), px=224, block=1, at="blocks.1", gives="unrolled"),
    "HieraDet": Kind(
        build=of_timm("sam2_hiera_tiny", embed_dim=24), px=224, block=1, at="blocks.1", gives="channels last"
    ),
    "Mixer": TOKENS(build=of_timm("resmlp_12_224", img_size=80), norm="", n_prefix=0, pools=True),
    "XCiT": TOKENS(build=of_timm("xcit_tiny_12_p16_224", **NARROW), norm="", n_prefix=0),
    "CaiT": TOKENS(build=of_timm("cait_xxs24_224", img_size=80, **NARROW), norm="", n_prefix=0),
    "SAM": Kind(
        build=of_timm("samvit_base_patch16", img_size=96, window_size=4, global_attn_indexes=(1,), **NARROW),
        px=96,
        block=1,
        at="blocks.1",
        gives="channels last",
        pools=True,
    ),
    "NaFlexVit": TOKENS(build=of_timm("naflexvit_base_patch16_siglip", **NARROW), n_prefix=0),
    "DeepSeek": Kind(build=of_timm("deepseek_vit_412m", img_size=70, **NARROW), px=70),
    "Qwen": Kind(build=of_timm("qwen3_vit_88m", img_size=96, **NARROW), px=96),
    "Gemma": Kind(build=of_timm("gemma4_vit_167m", img_size=96, head_dim=16, intermediate_size=96, **NARROW), px=96),
    "ViT": TOKENS(build=of_timm(PATCH16, img_size=80, global_pool="avg", fc_norm=False, **NARROW), pools=True),
    "ViT with registers": TOKENS(
        build=of_timm("vit_small_patch14_reg4_dinov2", img_size=70, global_pool="", **NARROW), px=70, n_prefix=5
    ),
    "ViT that norms its average": TOKENS(
        build=of_timm(PATCH16, img_size=80, global_pool="avg", fc_norm=True, **NARROW)
    ),
    "ViTamin": TOKENS(
        build=of_timm("vitamin_small_224", img_size=160, depth=3), px=160, n_prefix=0, within=1, norm="norm"
    ),
    "EVA": TOKENS(build=of_timm("vit_small_patch16_dinov3", img_size=80, **NARROW), n_prefix=5, pools=True),
    "BEiT": TOKENS(build=of_timm("beit_base_patch16_224", img_size=80, global_pool="", **NARROW)),
    "DINOv2": TOKENS(build=of_zoo("dinov2", name="vit_small_patch14_dinov2", img_size=70, **NARROW), px=70),
    "V-JEPA": TOKENS(
        build=of_zoo("vit_of_clips", name=PATCH16, n_frames=6, n_in_tubelet=2, img_size=80, patch_size=16, **NARROW),
        n_prefix=0,
        gives="clips of 3",
    ),
    "CAPI": TOKENS(build=of_zoo("capi", img_size=70, **NARROW), px=70, n_prefix=16),
    "V-JEPA 2.1": TOKENS(build=of_zoo("vjepa21", name=PATCH16, img_size=80, **NARROW), n_prefix=0, pools=False),
    "Pixio": TOKENS(build=of_zoo("pixio", img_size=80, **NARROW), n_prefix=8),
    "data2vec": TOKENS(build=of_zoo("vit_post_norm", size="base", img_size=80, **NARROW)),
    "CoCa": TOKENS(build=of_zoo("coca_vit", name=PATCH16, pooled_dim=32, img_size=80, **NARROW)),
    "toy ViT": TOKENS(
        build=of_zoo("vit_small", img_size=40, patch_size=8, width=24, depth=3, n_heads=2, dim=10), px=40, n_prefix=0
    ),
    "transformers' DINOv2": TOKENS(
        build=of_transformers("dinov2", image_size=40), px=40, at="network.encoder.layer.1", norm="network.layernorm"
    ),
    "transformers' V-JEPA 2": TOKENS(
        build=of_transformers("vjepa2", crop_size=40, frames_per_clip=4),
        px=40,
        n_prefix=0,
        at="network.encoder.layer.1",
        norm="network.encoder.layernorm",
        pools=True,
    ),
    "transformers' ConvNeXt": Kind(
        build=of_transformers("convnext", hidden_sizes=[16, 24, 32, 48], depths=[1] * 4), px=128
    ),
}


def small(kind: Kind) -> Encoder:
    """The network in float64, its every number drawn; what mixes places counts a tenth, so each sees itself most."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        backbone = with_random_statistics(kind.build().eval().requires_grad_(False))
    for name, parameter in backbone.named_parameters():
        side = parameter.shape[-1]
        if parameter.ndim == 4 and side > 1 and side % 2:
            parameter *= 0.1
            parameter[..., side // 2, side // 2] *= 10
        elif any(mixer in name for mixer in ("attn", "attention", ".mix.", ".se.")):
            parameter *= 0.1
    return Encoder(backbone, apply_backbone, dim=1)


@for_each(KINDS)
@torch.no_grad()
def test_a_map_of_every_kind_has_each_place_where_it_is_and_the_mean_that_is_pooled(name: str) -> None:
    kind, encoder = KINDS[name], small(KINDS[name])
    images = exact_images(1, kind.px)
    for layer in (None, kind.block) if kind.block is not None else (None,):
        before = encoder.maps(images, layer)
        rows, columns = before.shape[2:]
        row, column, side = (rows - 2) // 4, (columns + 1) // 2, kind.px // rows
        assert rows == columns and row not in (column, columns - 1 - column)  # or else a turned map would do
        changed = images.clone()
        changed[:, :, row * side : (row + 1) * side, column * side : (column + 1) * side] = 2 * exact_images(1, side)
        change = (encoder.maps(changed, layer) - before).norm(dim=1)[0]
        changed_row, changed_column = divmod(int(change.argmax()), columns)
        assert max(abs(changed_row - row), abs(changed_column - column)) <= kind.within, (layer, change)
    means = encoder.maps(images).mean(dim=(2, 3))
    if kind.pools:
        assert relative_difference(encoder(images), means) < SAME
    if has_tokens(encoder.backbone):
        backbone: Any = encoder.backbone
        assert relative_difference(average_patch_tokens(backbone, images), backbone.fc_norm(means)) < SAME


@contextmanager
def seen(module: nn.Module) -> Iterator[list[Tensor]]:
    """What a module gives within."""
    given: list[Tensor] = []
    handle = module.register_forward_hook(lambda *call: given.append(call[-1]))
    yield given
    handle.remove()


@for_each([name for name, kind in KINDS.items() if kind.block is not None])
@torch.no_grad()
def test_the_map_of_a_block_is_what_that_block_gives(name: str) -> None:
    kind, encoder = KINDS[name], small(KINDS[name])
    backbone: Any = encoder.backbone
    images, block = exact_images(2, kind.px), kind.block
    assert block is not None
    with seen(backbone.get_submodule(kind.at)) as given:
        backbone(images)
    found = encoder.maps(images, block)
    output = given[0][0] if isinstance(given[0], tuple) else given[0]
    if kind.gives == "unrolled":
        (expected,) = backbone.forward_intermediates(images, indices=[block], coarse=False, intermediates_only=True)
    elif kind.gives == "map":
        expected = output
    elif kind.gives == "channels last":
        expected = output.permute(0, 3, 1, 2)
    else:
        tokens = backbone.get_submodule(kind.norm)(output) if kind.norm else output
        patches = tokens[:, kind.n_prefix :].transpose(1, 2)  # (n, width, patches)
        if kind.gives == "clips of 3":
            patches = sum(patches.chunk(3, dim=2)) / 3
        expected = patches.reshape(found.shape)
    assert relative_difference(expected, found) < SAME
    read = partial(join_block_tokens, words=("avg",)) if kind.norm else compute_block_means
    means = backbone.fc_norm(found.mean(dim=(2, 3))) if kind.norm else found.mean(dim=(2, 3))
    assert relative_difference(read(backbone, images, blocks=(block,)), means) < SAME
    assert torch.equal(encoder.maps(images, block - len(blocks_of(encoder))), found)


@for_each([name for name, kind in KINDS.items() if kind.block is not None])
@torch.no_grad()
def test_maps_of_several_blocks_at_once_are_those_of_each(name: str) -> None:
    kind, encoder = KINDS[name], small(KINDS[name])
    images, blocks, last = exact_images(1, kind.px), blocks_of(encoder), find_map_layer(encoder.backbone, None)
    layers = (last, kind.block, None, blocks[0])
    for layer, (found, token) in zip(layers, compute_block_maps(encoder.backbone, images, layers), strict=True):
        assert relative_difference(encoder.maps(images, layer), found) < SAME
        assert (token is None) or tuple(token.shape) == tuple(found.shape[:2])
    assert last in (None, blocks[-1])
    if last is not None:  # what is pooled is the map of a block
        assert relative_difference(encoder.maps(images), encoder.maps(images, last)) < SAME


def blocks_of(encoder: Encoder) -> range:
    """Numbers of the blocks, as the refusal of one more says them."""
    with pytest.raises(QueryError, match=r"from 0 to [0-9]+") as refusal:
        encoder.maps(exact_images(1, 32), 10_000)
    return range(int(str(refusal.value).partition("from 0 to ")[2].partition(",")[0]) + 1)


@for_each(["pocket_simclr_vit_shapes", "pocket_simclr_rn_shapes"])
def test_means_of_the_maps_are_the_averages_that_load_gives(name: str) -> None:
    for px in (32, 48):
        encoder, _ = zoo.load(name, px=px)
        images = random_images(2, px)
        for block in blocks_of(encoder):
            average, _ = zoo.load(f"{name}@avg:{block}", px=px)
            maps = encoder.maps(images, block)
            means: Any = maps.mean(dim=(2, 3))
            assert maps.shape[2:] == encoder.maps(images, -1).shape[2:] or block == 0 or "rn" in name
            means = encoder.backbone.fc_norm(means) if "vit" in name else means
            # the same operations on the same batch: what differs is rounding of float32, a few units of the last place
            assert relative_difference(average(images), means) < 1e-5
            assert torch.equal(average.maps(images), encoder.maps(images)), "maps do not depend on the features"


def test_maps_belong_to_the_network_whatever_features_are_taken() -> None:
    for name, width, side in (
        ("dino_vitS16@cls:11", 384, 14),
        ("clip_vitL14_px336_extractPredCls@proj", 1024, 24),
        ("lossyless_vitb32_b01@cls", 768, 7),
        ("sup_rn50@avg:3", 2048, 7),
    ):
        encoder: Any = zoo.load(name, device="meta")[0]
        assert encoder.maps(torch.empty(1, 3, encoder.px, encoder.px, device="meta")).shape == (1, width, side, side)
    resized, _ = zoo.load("dino_vitS16@cls+avg", px=288, device="meta")
    assert resized.maps(torch.empty(1, 3, 288, 288, device="meta")).shape == (1, 384, 18, 18)


def test_rows_and_columns_of_images_that_are_no_squares_are_counted() -> None:
    def shape(backbone: Any, height: int, width: int) -> tuple[int, ...]:
        maps: Tensor = Encoder(backbone.eval(), apply_backbone, dim=1).maps(random_images(1, 128)[..., :height, :width])
        return tuple(maps.shape[2:])

    assert shape(build_torchvision_resnet("resnet18")[0], 64, 128) == (2, 4)
    vit = timm.create_model(PATCH16, num_classes=0, dynamic_img_size=True, dynamic_img_pad=True, **NARROW)
    assert (shape(vit, 48, 112), shape(vit, 128, 33)) == ((3, 7), (8, 3))
    network = of_transformers("dinov2", image_size=40)()
    network.interpolates_positions = True
    assert shape(network, 31, 71) == (3, 8)
    with torch.device("meta"):  # 64 columns, as many as channels of other maps
        wide = Encoder(timm.create_model("cspresnet50w", num_classes=0), apply_backbone, dim=1)
        assert wide.maps(torch.empty(1, 3, 256, 256), 0).shape == (1, 128, 64, 64)
    assert shape(of_timm(SWIN, strict_img_size=False, **WINDOWS)(), 64, 128) == (2, 4)


@for_each([torch.float16, torch.bfloat16])
def test_maps_are_of_the_type_of_the_encoder(dtype: torch.dtype) -> None:
    for name in ("pocket_simclr_vit_shapes", "pocket_simclr_rn_shapes"):
        encoder = zoo.load(name)[0].to(dtype)
        for layer in (None, 0):
            maps = encoder.maps(random_images(2, 32).to(dtype), layer)
            assert maps.dtype == dtype and maps.isfinite().all()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert (
                encoder.float().maps(random_images(2, 32)).shape
                == maps.shape[:1] + encoder.maps(random_images(2, 32)).shape[1:]
            )


def test_gradients_reach_images_and_weights_as_those_of_features_do() -> None:
    encoder, _ = zoo.load("pocket_simclr_vit_shapes")
    images = random_images(1, 32)
    assert not encoder.maps(images).requires_grad
    images.requires_grad_()
    (gradient,) = torch.autograd.grad(encoder.maps(images, 0)[0, :, 1, 2].sum(), images)
    assert gradient.abs().sum() > 0
    encoder.requires_grad_()
    assert encoder.maps(random_images(1, 32)).requires_grad


def test_images_that_an_encoder_cannot_take_are_answered_as_by_the_encoder() -> None:
    encoder, _ = zoo.load("pocket_simclr_vit_shapes")
    image = random_images(1, 32)
    with pytest.raises(DataError, match=r"got float32 \(3, 32, 32\), .*; call encoder\.maps\(image\[None\]\) for one"):
        encoder.maps(image[0])
    with pytest.raises(DataError, match=r"got uint8 .*; call encoder\.maps\(preprocess\(image\)\[None\]\)"):
        encoder.maps(image.to(torch.uint8))
    with pytest.raises(DataError, match=r"got float32 \(1, 3, 3, 3\), expected float32 \(n, 3, 32, 32\)"):
        encoder.maps(image[..., :3, :3])
    with pytest.raises(DataError, match=r"call encoder\.maps\(images\.to\(torch\.float32\)\)"):
        encoder.maps(image.double(), 1)


@for_each([3, -4, 1.5, True, "2"])
def test_blocks_that_are_not_there_are_refused(layer: Any) -> None:
    for name in ("pocket_simclr_vit_shapes", "pocket_simclr_rn_shapes"):
        encoder, _ = zoo.load(name)
        with pytest.raises(
            QueryError, match=rf"^Found layer={layer!r}, expected .*, from 0 to 2, or from the end, as -1"
        ):
            encoder.maps(random_images(1, 32), layer)


def test_networks_without_maps_say_so() -> None:
    own = Encoder(nn.Flatten(), apply_backbone, dim=3 * 64)
    with pytest.raises(
        QueryError, match=r"has no maps: its backbone, a Flatten, has neither .*; take another encoder\."
    ):
        own.maps(random_images(1, 8))
    with pytest.raises(QueryError, match=r"Found layer=0, but the zoo does not know the blocks of a Flatten; leave it"):
        own.maps(random_images(1, 8), 0)
    for name, px, layer, why in (
        ("coat_lite_tiny", 224, None, r"gives \(1, 320, 50\), which fill no rows and columns"),  # one is of the class
        ("pit_ti_224", 224, None, r"gives \(1, 256, 1\), which fill no rows and columns"),  # of the class alone
        ("crossvit_9_240", 240, None, "gives a list"),  # of two networks
        ("twins_svt_small", 224, 0, "blocks of a Twins do not run as"),
    ):
        with torch.device("meta"):
            network = Encoder(timm.create_model(name, num_classes=0), apply_backbone, dim=1)
            with pytest.raises(QueryError, match=why):
                network.maps(torch.empty(1, 3, px, px), layer)
