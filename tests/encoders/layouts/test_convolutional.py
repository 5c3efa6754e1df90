"""Files of RegNets, Swins, XCiTs, AlexNets and SimCLR's ResNets, against networks that other libraries build from them.

A network of torchvision, or what the source says it computes, written out, is the reference; its weights are renamed to
what the source saves, and read back by the layout. Networks are reduced where their class takes options.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
import timm
import torch
import torch.nn.functional as F  # noqa: N812
from timm.models import xcit
from torch import Tensor, nn
from torchvision.models import get_model
from torchvision.models.swin_transformer import SwinTransformer

from tests.each import for_each
from tests.encoder_checks import exact_images, resnet_by_hand, symmetric_conv
from tests.sources import in_double
from tests.sources.residual import N_HIDDEN, another, named, simclr_v1, simclr_v2
from tests.sources.residual_convnext import SIZES, convnext_tensors
from tests.sources.resnet_forward import Draw, Shape, State, assert_same, resnet_tensors
from zoo.cards.catalogue import load_catalogue
from zoo.encoders import Encoder, build_encoder
from zoo.encoders import resnet as resnets
from zoo.encoders.layouts import convert, get_layout, hash_parameters
from zoo.encoders.resnet import convert_to_lightness
from zoo.errors import WeightsRefused

IMAGES = exact_images(2, 64)


def encoder_of(card: str, *, dim: int | None = None, **options: Any) -> Encoder:
    """The encoder of a card, of another size if options are given."""
    found = load_catalogue()[card]
    if options:
        found = replace(found, architecture=replace(found.architecture, options=options))
    if dim:
        found = replace(found, representation=replace(found.representation, dim=dim))
    return build_encoder(found)


def loaded(content: Any, encoder: Encoder, layout: str) -> Encoder:
    """The encoder with what a layout makes of a file, in float64."""
    before = hash_parameters(encoder)
    state = convert([content], encoder, layout=layout, what="a file", untrained=lambda: before)
    encoder.load_state_dict(dict(state))
    return encoder.double()


def filled(network: nn.Module, *, seed: int = 3) -> nn.Module:
    """A network with other numbers everywhere, for which a layout cannot mistake one tensor for another."""
    draw = Draw(seed=seed)
    with torch.no_grad():
        for name, tensor in network.state_dict().items():
            if tensor.is_floating_point() and "coords_table" not in name:
                is_scale = tensor.ndim == 1 and not name.endswith(("bias", "running_mean"))
                tensor.copy_(draw.between(0.6, 1.4, *tensor.shape) if is_scale else small(draw, tensor))
    return network.eval()


def small(draw: Draw, tensor: Tensor) -> Tensor:
    bound = (3 / max(tensor[0].numel(), 1)) ** 0.5 if tensor.ndim > 1 else 0.2
    return draw.between(-bound, bound, *tensor.shape)


# RegNets


def regnet_file(network: nn.Module, *, stem: str, trunk: str) -> State:
    """torchvision's RegNet by the names of ClassyVision, of which VISSL and SWAG keep all but the outermost."""
    state: State = {}
    for name, tensor in network.state_dict().items():
        if name.startswith("stem."):
            state[f"{stem}{name}"] = tensor
        elif name.startswith("trunk_output."):
            stage = int(name.split(".")[1].removeprefix("block"))
            inner = name.split(".", 2)[2]
            for torchvisions, own in ((".f.c.0.", ".f.c."), (".f.c.1.", ".f.final_bn."), (".proj.0.", ".proj.")):
                inner = inner.replace(torchvisions, own)
            inner = inner.replace(".proj.1.", ".bn.").replace(".se.fc1.", ".se.excitation.0.")
            inner = inner.replace(".se.fc2.", ".se.excitation.2.")
            state[f"{trunk.format(stage=stage, res=stage + 1)}.{inner}"] = tensor
    return state


def regnet_trunk() -> State:
    """A trunk of VISSL's, of which no name says whether it sees blue first."""
    return regnet_file(filled(get_model("regnet_y_400mf", weights=None)), stem="conv1.", trunk="res{res}")


def regnet_encoder() -> Encoder:
    card = load_catalogue()["swav_regnety16gf"]
    small_one = replace(card.architecture, backbone="timm:regnety_004")
    return build_encoder(replace(card, architecture=small_one, representation=replace(card.representation, dim=440)))


@torch.no_grad()
@for_each(["VISSL", "SWAG", "VISSL, blue first", "VISSL, in shards"])
def test_a_regnet_has_the_features_that_torchvision_computes(source: str) -> None:
    network: Any = filled(get_model("regnet_y_400mf", weights=None))
    if source == "SWAG":
        content: Any = regnet_file(network, stem="stem.", trunk="trunk_output.block{stage}")
    else:
        shard = ".block0-part0" if source == "VISSL, in shards" else ""
        trunk = regnet_file(network, stem="conv1.", trunk=f"res{{res}}{shard}")
        model = {"trunk": named("_feature_blocks.", trunk), "heads": {"0.clf.0.weight": torch.ones(3, 3)}}
        content = {"classy_state_dict": {"base_model": {"model": model}}, "type": "consolidated"}
    is_bgr = source == "VISSL, blue first"
    encoder = loaded(content, regnet_encoder(), "vissl_regnet_bgr" if is_bgr else "vissl_regnet")
    network.fc = nn.Identity()
    assert_same(encoder(IMAGES.flip(1) if is_bgr else IMAGES), network.double()(IMAGES))


# Swins


def original_swin(network: nn.Module) -> State:
    """torchvision's Swin by the names of the original, with the tables that the original saves."""
    state: State = {}
    for name, tensor in network.state_dict().items():
        if name.startswith("head."):
            continue
        if name.startswith("norm."):
            state[name] = tensor
            continue
        _, number, rest = name.split(".", 2)
        stage = int(number)
        if stage == 0:
            renamed = (
                f"patch_embed.{rest.replace('0.', 'proj.', 1) if rest[0] == '0' else rest.replace('2.', 'norm.', 1)}"
            )
        elif stage % 2:
            renamed = f"layers.{stage // 2}.blocks.{rest}".replace(".mlp.0.", ".mlp.fc1.").replace(
                ".mlp.3.", ".mlp.fc2."
            )
        else:
            renamed = f"layers.{stage // 2 - 1}.downsample.{rest}"
        state[renamed] = tensor
    return state | {"layers.0.blocks.1.attn_mask": torch.zeros(64, 49, 49)}


def openmmlab_swin(original: State) -> State:
    """The same by OpenMMLab's names: patches are merged in the order of ``torch.nn.Unfold``."""
    pairs = (
        ("layers.", "stages."), ("patch_embed.proj", "patch_embed.projection"), (".attn.", ".attn.w_msa."),
        (".mlp.fc1.", ".ffn.layers.0.0."), (".mlp.fc2.", ".ffn.layers.1."),
    )  # fmt: skip
    state: State = {}
    for name, tensor in original.items():
        if name.endswith("attn_mask"):
            continue
        changed = tensor
        if ".downsample." in name:
            n = tensor.shape[-1] // 4
            # where the original has a channel of a patch: (row, column) 00, 10, 01, 11, all channels of one first
            places = torch.arange(4 * n).view(2, 2, n).permute(2, 1, 0).float()  # channels, rows, columns
            changed = tensor[..., F.unfold(places[None], 2)[0, :, 0].long()]
        for own, theirs in pairs:
            name = name.replace(own, theirs)
        state["norm3." + name.removeprefix("norm.") if name.startswith("norm.") else name] = changed
    return state


def simmim(swin: State) -> Any:
    decoder = {"decoder.0.weight": torch.ones(3, 3), "decoder.0.bias": torch.ones(3)}
    return {"model": named("encoder.", swin, {"mask_token": torch.ones(1, 1, 96)}) | decoder, "epoch": 99}


def moby(swin: State) -> Any:
    heads = {"projector.linear_out.weight": torch.ones(3, 3), "queue1": torch.ones(3, 4), "predictor.x": torch.ones(1)}
    return {"model": named("encoder.", swin) | named("encoder_k.", another(swin, Draw())) | heads}


def esvit(swin: State) -> Any:
    heads = {"head.mlp.0.weight": torch.ones(3, 3), "head_dense.mlp.0.weight": torch.ones(3, 3)}
    return {"student": named("module.", another(swin, Draw()), heads), "teacher": {**swin, **heads}, "epoch": 300}


def openmmlab(swin: State) -> Any:
    neck = {"neck.decoder.0.weight": torch.ones(3, 3)}
    backbone = named("backbone.", openmmlab_swin(swin), {"mask_token": torch.ones(1, 1, 96)})
    return {"meta": {"epoch": 100}, "state_dict": backbone | neck}


SWINS: dict[str, Callable[[State], Any]] = {
    "simmim": simmim,
    "moby": moby,
    "esvit": esvit,
    "mmpretrain": openmmlab,
    "ibot_swin": lambda swin: {"state_dict": {**swin, "head.mlp.0.weight": torch.ones(3, 3)}},
}


@torch.no_grad()
def test_every_file_of_a_swin_gives_the_features_that_torchvision_computes() -> None:
    depths, n_heads = [2, 2, 2, 2], [3, 6, 12, 24]
    network: Any = filled(SwinTransformer([4, 4], embed_dim=48, depths=depths, num_heads=n_heads, window_size=[7, 7]))
    swin = original_swin(network)
    encoder = encoder_of("moby_swint_ep300", dim=384, embed_dim=48, depths=depths, num_heads=n_heads)
    target = {name.removeprefix("backbone."): tensor for name, tensor in encoder.state_dict().items()}
    first = get_layout("moby").convert(moby(swin), target=target)
    for layout, write in SWINS.items():  # one at a time, for each may be a copy
        state = get_layout(layout).convert(write(swin), target=target)
        assert state.keys() == target.keys(), layout
        assert all(torch.equal(state[name], first[name]) for name in state), layout
    network.head = nn.Identity()
    images = exact_images(1, 224)
    assert_same(loaded(moby(swin), encoder, "moby")(images), network.double()(images))


def test_a_swin_that_merges_first_is_no_original() -> None:
    swin = {f"layers.{stage}.downsample.norm.weight": torch.ones(4) for stage in (1, 2, 3)}
    with pytest.raises(WeightsRefused, match=r"'layers.1.downsample' without 'layers.0.downsample'"):
        loaded({"model": named("encoder.", swin)}, encoder_of("moby_swint_ep300"), "moby")


@torch.no_grad()
def test_satlas_has_the_map_of_torchvisions_swin_before_its_norm() -> None:
    network: Any = filled(get_model("swin_v2_t", weights=None))
    pyramid = {"intermediates.0.fpn.inner_blocks.0.0.weight": torch.ones(3, 3)}
    encoder = encoder_of("satlas_s2_swinT_si_rgb")
    encoder = loaded(named("backbone.backbone.", network.state_dict()) | pyramid, encoder, "satlas")
    with pytest.raises(WeightsRefused, match="found the tensor 'stranger'"):
        loaded({"stranger": torch.ones(1)}, encoder, "satlas")
    assert_same(encoder(IMAGES), network.double().features(IMAGES).mean(dim=(1, 2)))


@torch.no_grad()
def test_ctranspath_embeds_patches_by_convolutions() -> None:
    encoder = encoder_of("ctranspath_swinT")
    own = filled(encoder_of("ctranspath_swinT")).backbone.state_dict()
    file = {_merged_last(name): tensor for name, tensor in own.items()}
    file["layers.0.blocks.1.attn.relative_position_index"] = torch.zeros(49, 49, dtype=torch.long)
    state = convert([{"model": file}], encoder, layout="ctranspath", what="a file", untrained=dict)
    assert all(torch.equal(state[f"backbone.{name}"], tensor) for name, tensor in own.items())


def _merged_last(name: str) -> str:
    parts = name.split(".")
    if parts[0] == "layers" and parts[2] == "downsample":
        parts[1] = str(int(parts[1]) - 1)
    return ".".join(parts)


@torch.no_grad()
def test_mixmim_adds_its_positions_and_never_shifts() -> None:
    encoder = encoder_of("mixmim_base_ep300_mm", name="swin_tiny_patch4_window7_224", window_size=14, dim=768)
    assert {block.shift_size for stage in encoder.backbone.layers for block in stage.blocks} == {(0, 0)}
    own = filled(encoder.backbone).state_dict()
    own = {name: tensor.clone() for name, tensor in own.items()}
    file = openmmlab_swin({_merged_last(name): tensor for name, tensor in own.items()})
    file = {name.replace("stages.", "layers.").replace(".w_msa.", "."): tensor for name, tensor in file.items()}
    file = {name.replace(".norm1.", ".ln1.").replace(".norm2.", ".ln2."): tensor for name, tensor in file.items()}
    file = {"norm." + name.removeprefix("norm3.") if name[:5] == "norm3" else name: file[name] for name in file}
    file["absolute_pos_embed"] = file.pop("patch_embed.norm.positions").flatten(1, 2)
    content = {"state_dict": named("backbone.", file) | {"head.decoder_pred.bias": torch.ones(3)}}
    state = convert([content], encoder, layout="mmpretrain", what="a file", untrained=dict)
    assert all(torch.equal(state[f"backbone.{name}"], tensor) for name, tensor in own.items())


# XCiTs


@torch.no_grad()
@for_each(["dino_xcit", "vissl_dino"])
def test_an_xcit_is_what_timm_makes_of_its_file(layout: str) -> None:
    model: Any = filled(timm.create_model("xcit_small_12_p16_224", num_classes=0, depth=2))
    file: State = {}
    for name, tensor in model.state_dict().items():
        if ".attn.q." in name and name.startswith("cls_attn_blocks."):
            joined = torch.cat([model.state_dict()[name.replace(".q.", f".{letter}.")] for letter in "qkv"])
            file[name.replace(".q.", ".qkv.")] = joined
        elif not (name.startswith("cls_attn_blocks.") and (".attn.k." in name or ".attn.v." in name)):
            file[name.replace("pos_embed.", "pos_embeder.")] = tensor
    reference = xcit.checkpoint_filter_fn(dict(file), model)
    teacher = named("momentum_teacher.module.", named("trunk.", file), {"heads.0.last.weight": torch.ones(3, 3)})
    student = {"base_model": {"model": {"trunk": another(file, Draw()), "heads": {}}}}
    training = {"loss": teacher | {"center": torch.ones(1, 3)}, "classy_state_dict": student}
    state = get_layout(layout).convert(file if layout == "dino_xcit" else training, target=model.state_dict())
    assert state.keys() == reference.keys() == model.state_dict().keys()
    assert all(torch.equal(state[name], reference[name]) for name in state)


# AlexNets and lightness


def alexnet_by_hand(
    weights: Mapping[str, Tensor], x: Tensor, *, first: int, padding: int, groups: int, lrn: int
) -> Tensor:
    """What VISSL's trunks compute, on the names of its files."""
    for number, place in enumerate((0, 2, 4, 5, 6), start=1):
        size = 11 if number == 1 else 5 if number == 2 else 3
        x = F.conv2d(
            x,
            weights[f"{place}.0.weight"],
            weights[f"{place}.0.bias"],
            stride=first if number == 1 else 1,
            padding=padding if number == 1 else size // 2,
            groups=groups if number in (2, 4, 5) else 1,
        )
        if number > lrn:
            mean, variance, scale, shift = (
                weights[f"{place}.1.{part}"] for part in ("running_mean", "running_var", "weight", "bias")
            )
            x = F.batch_norm(x, mean, variance, scale, shift)
        x = x.relu()
        if number in (1, 2, 5):
            x = F.max_pool2d(x, 3, 2)
        if number <= lrn:
            x = F.local_response_norm(x, 5, alpha=1e-4, beta=0.75)
    return x.flatten(1)


def sobel(images: Tensor) -> Tensor:
    kernel = torch.tensor([[1.0, 0, -1], [2, 0, -2], [1, 0, -1]]).double()
    kernels = torch.stack((kernel, torch.tensor([[1.0, 2, 1], [0, 0, 0], [-1, -2, -1]]).double()))[:, None]
    return F.conv2d(images.mean(dim=1, keepdim=True), kernels, padding=1)


ALEXNETS: dict[str, tuple[Callable[[Tensor], Tensor], dict[str, int]]] = {
    "colorization_alexnet": (convert_to_lightness, {"first": 4, "padding": 0, "groups": 2, "lrn": 0}),
    "jigsaw_alexnet": (lambda images: images, {"first": 2, "padding": 0, "groups": 2, "lrn": 2}),
    "deepcluster_alexnet": (sobel, {"first": 4, "padding": 2, "groups": 1, "lrn": 0}),
    "rotnet_alexnet": (lambda images: images, {"first": 4, "padding": 2, "groups": 1, "lrn": 0}),
}


@torch.no_grad()
@for_each(ALEXNETS)
def test_an_alexnet_has_the_features_that_vissl_computes(card: str) -> None:
    sees, how = ALEXNETS[card]
    own = filled(encoder_of(card)).backbone.state_dict()
    places = {f"conv{number}": str(place) for number, place in enumerate((0, 2, 4, 5, 6), start=1)}
    weights = {f"{places[name.split('.')[0]]}.{name.split('.', 1)[1]}": tensor for name, tensor in own.items()}
    classifier = {"8.1.weight": torch.ones(3, 3), "9.0.bias": torch.ones(3)} if card == "rotnet_alexnet" else {}
    content = {"model_state_dict": named("_feature_blocks.", weights, classifier)}
    encoder = loaded(content, encoder_of(card), "vissl_alexnet")
    px = load_catalogue()[card].preprocess.crop_px
    images = torch.rand(1, 3, px, px, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    found = encoder(images)
    assert found.shape == (1, load_catalogue()[card].representation.dim)
    torch.testing.assert_close(found, alexnet_by_hand(in_double(weights), sees(images), **how), rtol=1e-9, atol=1e-9)


def test_lightness_is_that_of_cie_lab() -> None:
    # black, white, middle grey, and the primaries of sRGB: CIE L* of D65, to a tenth (Lindbloom's calculator)
    colours = torch.tensor([[0, 0, 0], [1, 1, 1], [0.5, 0.5, 0.5], [1, 0, 0], [0, 1, 0], [0, 0, 1]]).double()
    expected = torch.tensor([0, 100, 53.4, 53.2, 87.7, 32.3]).double() - 50
    torch.testing.assert_close(convert_to_lightness(colours[:, :, None, None]).flatten(), expected, rtol=0, atol=0.06)


# SimCLR


def max_pool_at_the_end(x: Tensor) -> Tensor:
    """TensorFlow's SAME pool of 3 with stride 2 of an even side: one more pixel after the last."""
    return F.max_pool2d(F.pad(x, (0, 1, 0, 1), value=-torch.inf), 3, 2)


@pytest.fixture
def shallow(monkeypatch: pytest.MonkeyPatch) -> Shape:
    """ResNets of one block a stage."""
    monkeypatch.setattr(resnets, "_DEPTHS", {50: (1, 1, 1, 1)})
    return Shape(depths=(1, 1, 1, 1))


@torch.no_grad()
@for_each([simclr_v1, simclr_v2])
def test_simclr_pools_as_tensorflow(write: Callable[[State, Draw], Any], shallow: Shape) -> None:
    weights = resnet_tensors(shallow, Draw())
    encoder = loaded(write(weights, Draw(seed=1)), encoder_of("simclrv1_rn50"), "simclr")
    last = resnet_by_hand(in_double(weights), IMAGES, conv=symmetric_conv, max_pool=max_pool_at_the_end)
    assert_same(encoder(IMAGES), last.mean(dim=(2, 3)))


def selective_tensors(draw: Draw) -> State:
    """SimCLRv2 with selective kernels, one block a stage, as SimCLRv2-Pytorch names it."""
    state = {"net.0.0.weight": draw.weight(32, 3, 3, 3)} | draw.norm("net.0.1.0", 32)
    state |= {"net.0.2.weight": draw.weight(32, 32, 3, 3)} | draw.norm("net.0.3.0", 32)
    state |= {"net.0.4.weight": draw.weight(64, 32, 3, 3)} | draw.norm("net.0.5.0", 64)
    n_in = 64
    for stage, n in enumerate((64, 128, 256, 512), start=1):
        at, n_seen = f"net.{stage}.blocks.0", max(n // 16, 32)
        state |= {f"{at}.projection.shortcut.2.weight": draw.weight(4 * n, n_in, 1, 1)}
        state |= draw.norm(f"{at}.projection.bn.0", 4 * n)
        state |= {f"{at}.net.0.weight": draw.weight(n, n_in, 1, 1)} | draw.norm(f"{at}.net.1.0", n)
        state |= {f"{at}.net.2.main_conv.0.weight": draw.weight(2 * n, n, 3, 3)}
        state |= draw.norm(f"{at}.net.2.main_conv.1.0", 2 * n)
        state |= {f"{at}.net.2.mixing_conv.0.weight": draw.weight(n_seen, n, 1, 1)}
        state |= draw.norm(f"{at}.net.2.mixing_conv.1.0", n_seen)
        state |= {f"{at}.net.2.mixing_conv.2.weight": draw.weight(2 * n, n_seen, 1, 1)}
        state |= {f"{at}.net.3.weight": draw.weight(4 * n, n, 1, 1)} | draw.norm(f"{at}.net.4.0", 4 * n, scale=0.3)
        n_in = 4 * n
    return state


def selective_by_hand(weights: Mapping[str, Tensor], x: Tensor) -> Tensor:
    """google-research/simclr, ``resnet.py`` with ``sk_ratio`` above 0."""

    def conv(x: Tensor, name: str, stride: int = 1) -> Tensor:
        return symmetric_conv(x, weights[f"{name}.weight"], stride)

    def norm(x: Tensor, name: str) -> Tensor:
        parts = (weights[f"{name}.{part}"] for part in ("running_mean", "running_var", "weight", "bias"))
        return F.batch_norm(x, *parts)

    x = norm(conv(x, "net.0.0", 2), "net.0.1.0").relu()
    x = norm(conv(x, "net.0.2"), "net.0.3.0").relu()
    x = max_pool_at_the_end(norm(conv(x, "net.0.4"), "net.0.5.0").relu())
    for stage in range(1, 5):
        at, stride = f"net.{stage}.blocks.0", 1 if stage == 1 else 2
        if stride == 1:  # padded after the last row and column, and the padding does not count
            padded = F.pad(x, (0, 1, 0, 1))
            counts = F.avg_pool2d(F.pad(torch.ones_like(x), (0, 1, 0, 1)), 2, 1)
            shortcut = F.avg_pool2d(padded, 2, 1) / counts
        else:
            shortcut = F.avg_pool2d(x, 2, 2)
        shortcut = norm(conv(shortcut, f"{at}.projection.shortcut.2"), f"{at}.projection.bn.0")
        out = norm(conv(x, f"{at}.net.0"), f"{at}.net.1.0").relu()
        one, two = (
            norm(conv(out, f"{at}.net.2.main_conv.0", stride), f"{at}.net.2.main_conv.1.0").relu().chunk(2, dim=1)
        )
        seen = (one + two).mean(dim=(2, 3), keepdim=True)
        seen = norm(conv(seen, f"{at}.net.2.mixing_conv.0"), f"{at}.net.2.mixing_conv.1.0").relu()
        first, second = conv(seen, f"{at}.net.2.mixing_conv.2").chunk(2, dim=1)
        share = torch.sigmoid(first - second)  # a softmax over two
        out = norm(conv(one * share + two * (1 - share), f"{at}.net.3"), f"{at}.net.4.0")
        x = (shortcut + out).relu()
    return x.mean(dim=(2, 3))


@torch.no_grad()
def test_a_selective_resnet_has_the_features_that_its_source_computes(shallow: Shape) -> None:
    weights = selective_tensors(Draw())
    content = {"resnet": weights | Draw().linear("fc", 2048, 10), "head": Draw().linear("layers.0", 2048, N_HIDDEN)}
    encoder = loaded(content, encoder_of("simclrv2_rn50_sk"), "simclr")
    assert_same(encoder(IMAGES), selective_by_hand(in_double(weights), IMAGES))


# ConvNeXts


@torch.no_grad()
def test_a_convnext_of_spark_is_pooled_without_a_norm() -> None:
    weights = convnext_tensors(SIZES["convnexts"], Draw())
    weights |= {
        f"{name}.gamma": Draw().between(0.1, 0.3, len(weights[f"{name}.norm.weight"])) for name in _blocks(weights)
    }
    encoder = loaded(weights, encoder_of("spark_convnextsmall"), "spark")
    model: Any = encoder.backbone
    assert_same(encoder(IMAGES), model.forward_features(IMAGES).mean(dim=(2, 3)))


def test_openmmlabs_convnext_v2_has_the_tensors_of_the_encoder() -> None:
    encoder = encoder_of("spark_convnextv2T_ep800_mm")
    own = filled(encoder).backbone.state_dict()
    pairs = (
        (".blocks.", "."), (".conv_dw.", ".depthwise_conv."), (".mlp.fc1.", ".pointwise_conv1."),
        (".mlp.fc2.", ".pointwise_conv2."), (".mlp.grn.weight", ".grn.gamma"), (".mlp.grn.bias", ".grn.beta"),
    )  # fmt: skip
    file: State = {}
    for name, tensor in own.items():
        theirs = name
        for ours, their in pairs:
            theirs = theirs.replace(ours, their)
        if theirs.startswith("stem."):
            theirs = theirs.replace("stem.", "downsample_layers.0.")
        elif ".downsample." in theirs:
            theirs = f"downsample_layers.{theirs.split('.')[1]}.{theirs.split('.downsample.')[1]}"
        file[theirs] = tensor
    content = {
        "state_dict": named("backbone.", file)
        | {"enc_dec_norms.0.bias": torch.ones(1), "mask_tokens.0": file["downsample_layers.0.1.bias"]}
    }
    state = convert([content], encoder, layout="mmpretrain", what="a file", untrained=dict)
    assert all(torch.equal(state[f"backbone.{name}"], tensor) for name, tensor in own.items())


def _blocks(weights: Mapping[str, Tensor]) -> list[str]:
    return [name.removesuffix(".dwconv.weight") for name in weights if name.endswith(".dwconv.weight")]
