"""Layouts of convolutional networks that have other names than torchvision's ResNets, and of later training scripts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from .residual import convnext_names
from .steps import Layout, Misfit, State, below, holds, nested, renamed, state_dict, unwrapped, without
from .swins import mmpretrain_swin


def vissl_regnet(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """A RegNet of VISSL's, the trunk of a training's checkpoint; or of SWAG, which releases the network alone.

    The trunk of the largest was sharded, and names the shards.

    Source: facebookresearch/vissl, ``models/trunks/regnet.py``; facebookresearch/SWAG, ``models/regnet.py``; for timm's
    names, ``_filter_fn`` in its ``models/regnet.py``.
    """
    is_training = holds(content, "classy_state_dict")
    state = state_dict(nested(content, "classy_state_dict", "base_model", "model", "trunk") if is_training else content)
    if any(name.startswith("_feature_blocks.") for name in state):
        state = below(state, "_feature_blocks.")
    block = r"^(?:res\d|trunk_output\.block\d)\.block(\d)-(\d+)\."
    numbered = renamed(without(state, "head.", "fc."), (r"\.block\d+-part\d+(?=\.)", ""), (block, r"s\1.b\2."))
    return renamed(
        {_counted_from_1(name): tensor for name, tensor in numbered.items()},
        (r"^(?:conv1|stem)\.stem\.0\.", "stem.conv."),
        (r"^(?:conv1|stem)\.stem\.1\.", "stem.bn."),
        (r"\.f\.([ab])\.0\.", r".\1.conv."),
        (r"\.f\.([ab])\.1\.", r".\1.bn."),
        (r"\.f\.se\.excitation\.0\.", ".se.fc1."),
        (r"\.f\.se\.excitation\.2\.", ".se.fc2."),
        (r"\.f\.c\.", ".conv3.conv."),
        (r"\.f\.final_bn\.", ".conv3.bn."),
        (r"\.a\.", ".conv1."),
        (r"\.b\.", ".conv2."),
        (r"\.proj\.", ".downsample.conv."),
        (r"^(s\d\.b\d+)\.bn\.", r"\1.downsample.bn."),
    )


def vissl_regnet_bgr(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """The same of a network that sees blue first; its first convolution is turned, so that it takes red first."""
    state = vissl_regnet(content, target=target)
    first = "stem.conv.weight"
    if first not in state or state[first].shape[1:2] != (3,):
        raise Misfit(f"the tensor {first!r} is missing, expected one of 3 channels")
    return state | {first: state[first].flip(1)}


def _counted_from_1(name: str) -> str:
    """timm counts the blocks of a stage from 1."""
    return re.sub(r"^(s\d+)\.b(\d+)(?=\.|$)", lambda match: f"{match[1]}.b{int(match[2]) + 1}", name)


def vissl_alexnet(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """An AlexNet that VISSL converted; RotNet's keeps the layers of its classifier.

    Source: facebookresearch/vissl, ``extra_scripts/convert_caffe2_to_vissl_alexnet.py`` and
    ``models/trunks/alexnet_*.py``; gidariss/FeatureLearningRotNet, ``architectures/AlexNet.py``.
    """
    state = state_dict(content["model_state_dict"] if holds(content, "model_state_dict") else content)
    state = below(state, "_feature_blocks.")
    places = enumerate((0, 2, 4, 5, 6), start=1)  # the pools stand between
    return renamed(without(state, "8.", "9."), *((rf"^{place}\.", f"conv{number}.") for number, place in places))


def vissl_dino(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """A training's checkpoint of DINO, a ViT or an XCiT; what is evaluated is the teacher, which is with the loss.

    Source: facebookresearch/vissl, ``losses/dino_loss.py``, ``hooks/hook_utils.py``, and the configurations of its
    benchmarks with ``nearest_neighbor/models/dino``.
    """
    teacher = "momentum_teacher.module."
    state = below(state_dict(nested(content, "loss")), f"{teacher}trunk.", beside=(f"{teacher}heads.", "center"))
    return dino_xcit(state, target=target) if any(name.startswith("pos_embeder.") for name in state) else state


def dino_xcit(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """A released backbone, by the names of XCiT's authors; timm splits what a class token's attention projects to.

    Source: facebookresearch/dino, ``hubconf.py``; facebookresearch/xcit, ``xcit.py``; for timm's names,
    ``checkpoint_filter_fn`` in its ``models/xcit.py``.
    """
    state: State = {}
    for name, tensor in renamed(without(state_dict(content), "head."), (r"^pos_embeder\.", "pos_embed.")).items():
        if name.startswith("cls_attn_blocks.") and ".attn.qkv." in name:
            for letter, part in zip("qkv", tensor.chunk(3), strict=True):
                state[name.replace(".qkv.", f".{letter}.")] = part.clone()
        else:
            state[name] = tensor
    return state


def lightly(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """A checkpoint of Lightning; ``backbone`` is what is evaluated: DINO's teacher, and the online network of others.

    Source: lightly-ai/lightly, ``benchmarks/imagenet/resnet50``.
    """
    beside = (
        "projection_head", "prediction_head", "prototypes", "online_classifier", "knn_classifier", "criterion",
        "queues", "teacher_", "student_", "key_", "backbone_momentum.",
    )  # fmt: skip
    return without(below(state_dict(nested(content, "state_dict")), "backbone.", beside=beside), "fc.")


def pixpro(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """A training's checkpoint; the online encoder is what is transferred.

    Source: zdaxie/PixPro, ``contrast/models/PixPro.py`` and ``publish_model.py``.
    """
    heads = ("encoder_k.", "projector", "predictor.", "value_transform.")
    return below(unwrapped(state_dict(nested(content, "model"))), "encoder.", beside=heads)


def twist(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """A released backbone. Source: bytedance/TWIST, ``evaluate.py`` without ``--key``."""
    return state_dict(content)


def simclr(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """A checkpoint of TensorFlow that others converted: SimCLR, by torchvision's names; or SimCLRv2, by its own.

    Both keep the classifier that was trained on top. Source: tonylins/simclr-converter, ``convert.py``;
    Separius/SimCLRv2-Pytorch, ``convert.py`` and ``resnet.py``.
    """
    if not holds(content, "resnet"):
        return without(state_dict(nested(content, "state_dict")), "fc.")
    state = without(state_dict(nested(content, "resnet")), "fc.")
    is_selective = any(".main_conv." in name for name in state)
    stem: tuple[tuple[str, str], ...] = ((r"^net\.0\.0\.weight$", "conv1.weight"), (r"^net\.0\.1\.0\.", "bn1."))
    kernel: tuple[tuple[str, str], ...] = (
        (r"\.net\.2\.weight$", ".conv2.weight"),
        (r"\.net\.3\.0\.", ".bn2."),
        (r"\.net\.4\.weight$", ".conv3.weight"),
        (r"\.net\.5\.0\.", ".bn3."),
        (r"\.projection\.shortcut\.weight$", ".downsample.0.weight"),
        (r"\.projection\.bn\.0\.", ".downsample.1."),
    )
    if is_selective:
        stem = (
            (r"^net\.0\.0\.weight$", "conv1.0.weight"),
            (r"^net\.0\.1\.0\.", "conv1.1."),
            (r"^net\.0\.2\.weight$", "conv1.3.weight"),
            (r"^net\.0\.3\.0\.", "conv1.4."),
            (r"^net\.0\.4\.weight$", "conv1.6.weight"),
            (r"^net\.0\.5\.0\.", "bn1."),
        )
        kernel = (
            (r"\.net\.2\.main_conv\.0\.", ".conv2.conv."),
            (r"\.net\.2\.main_conv\.1\.0\.", ".conv2.bn."),
            (r"\.net\.2\.mixing_conv\.0\.", ".conv2.squeeze."),
            (r"\.net\.2\.mixing_conv\.1\.0\.", ".conv2.squeeze_bn."),
            (r"\.net\.2\.mixing_conv\.2\.", ".conv2.mix."),
            (r"\.net\.3\.weight$", ".conv3.weight"),
            (r"\.net\.4\.0\.", ".bn3."),
            (r"\.projection\.shortcut\.2\.weight$", ".downsample.1.weight"),
            (r"\.projection\.bn\.0\.", ".downsample.2."),
        )
    return renamed(
        state,
        *stem,
        (r"^net\.([1-4])\.blocks\.", r"layer\1."),
        *kernel,
        (r"\.net\.0\.weight$", ".conv1.weight"),
        (r"\.net\.1\.0\.", ".bn1."),
    )


def spark(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """A released encoder without its decoder: a ResNet, or a ConvNeXt by the names of the original.

    Its last norm, if it is there, was never trained. Source: keyu-tian/SparK, ``README.md``.
    """
    state = state_dict(nested(content, "module") if holds(content, "module") else content)
    return convnext_names(without(state, "fc.", "head.", "norm."))


def mmpretrain(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """A training's checkpoint of MMSelfSup 1.x or MMPretrain, or a backbone that was extracted from it.

    A ResNet, a Swin, MixMIM's transformer or SparK's ConvNeXt V2. Source: open-mmlab/mmpretrain, ``models/selfsup`` and
    ``models/backbones``.
    """
    state = unwrapped(state_dict(nested(content, "state_dict")))
    if any(name.startswith("backbone.") for name in state):
        beside = (
            "neck.", "head.", "encoder_k.", "queue", "target_net.", "momentum_encoder.", "memory_bank.",
            "enc_dec_norms.", "enc_dec_projectors.", "mask_tokens.", "data_preprocessor.", "target_generator.",
        )  # fmt: skip
        state = below(state, "backbone.", beside=beside)
    if any(".ffn." in name for name in state):
        return mmpretrain_swin(state)
    if "conv1.weight" in state:
        return without(state, "fc.")
    # OpenMMLab has a name of its own for every part of a block of ConvNeXt
    return _shaped(
        convnext_names(
            renamed(
                state,
                (r"\.depthwise_conv\.", ".dwconv."),
                (r"\.pointwise_conv([12])\.", r".pwconv\1."),
                (r"\.grn\.gamma$", ".mlp.grn.weight"),
                (r"\.grn\.beta$", ".mlp.grn.bias"),
            )
        )
    )


def _shaped(state: State) -> State:
    """Tensors of a norm without the dimensions of one element that some files have around them."""
    return {name: torch.flatten(tensor) if ".grn." in name else tensor for name, tensor in state.items()}


LAYOUTS: dict[str, Layout] = {
    "vissl_regnet": Layout(convert=vissl_regnet),
    "vissl_regnet_bgr": Layout(convert=vissl_regnet_bgr),
    "vissl_alexnet": Layout(convert=vissl_alexnet),
    "vissl_dino": Layout(convert=vissl_dino),
    "dino_xcit": Layout(convert=dino_xcit),
    "lightly": Layout(convert=lightly),
    "pixpro": Layout(convert=pixpro),
    "twist": Layout(convert=twist),
    "simclr": Layout(convert=simclr),
    "spark": Layout(convert=spark),
    "mmpretrain": Layout(convert=mmpretrain),
}
