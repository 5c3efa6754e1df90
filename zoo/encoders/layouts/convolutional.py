"""Layouts of convolutional networks: what the training scripts save in addition to the backbone, and its names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from .steps import (
    Layout,
    Misfit,
    State,
    build_layouts,
    drop_tensors,
    get_nested,
    has_nested,
    rename_tensors,
    require_state_dict,
    strip_ddp_prefix,
    strip_prefix,
)
from .transformers import rename_mmpretrain_swin


def convert_vissl(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """The trunk of a training's checkpoint, of a converted file, or alone, with or without its own prefix.

    Source: facebookresearch/vissl, ``hooks/log_hooks.py``, ``models/base_ssl_model.py`` and
    ``models/trunks/resnext.py``.
    """
    if has_nested(content, "classy_state_dict"):
        return _trunk(require_state_dict(get_nested(content, "classy_state_dict", "base_model", "model", "trunk")))
    return _trunk(require_state_dict(content, "model_state_dict"))


def convert_vissl_converted(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """A trunk that was converted from Caffe2, which counts no batches, or on to torchvision's names.

    Source: facebookresearch/vissl, ``convert_caffe2_to_torchvision_resnet.py`` and ``convert_vissl_to_torchvision.py``
    in its ``extra_scripts``.
    """
    return _trunk(require_state_dict(content, "model_state_dict"))


def convert_swav(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """A released model, or a training's checkpoint, of SwAV, DeepCluster-v2 or SeLa-v2.

    The latter two have several layers of prototypes. Source: facebookresearch/swav, ``main_swav.py``,
    ``main_deepclusterv2.py`` and ``src/resnet50.py``.
    """
    return drop_tensors(strip_ddp_prefix(require_state_dict(content, "state_dict")), "projection_head.", "prototypes.")


def convert_moco(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """A training's checkpoint of MoCo v1 or v2, which is what was released; the query encoder is what is evaluated.

    Source: facebookresearch/moco, ``main_moco.py``, ``main_lincls.py`` and ``moco/builder.py``.
    """
    state = strip_ddp_prefix(require_state_dict(get_nested(content, "state_dict")))
    return drop_tensors(strip_prefix(state, "encoder_q.", beside=("encoder_k.", "queue")), "fc.")


def convert_mocov3(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """A training's checkpoint of MoCo v3; the base encoder is what is evaluated.

    It is a ResNet whose head is ``fc``, or a transformer whose head is ``head``. Source: facebookresearch/moco-v3,
    ``main_moco.py``, ``main_lincls.py`` and ``moco/builder.py``.
    """
    state = strip_ddp_prefix(require_state_dict(get_nested(content, "state_dict")))
    return drop_tensors(
        strip_prefix(state, "base_encoder.", beside=("momentum_encoder.", "predictor.")), "fc.", "head."
    )


def convert_simsiam(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """A training's checkpoint of SimSiam, whose projector stands where the ResNet had its classifier.

    Source: facebookresearch/simsiam, ``main_simsiam.py`` and ``simsiam/builder.py``.
    """
    state = strip_ddp_prefix(require_state_dict(get_nested(content, "state_dict")))
    return drop_tensors(strip_prefix(state, "encoder.", beside=("predictor.",)), "fc.")


def convert_vicreg(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """A released backbone, or a training's checkpoint.

    Source: facebookresearch/vicreg, ``main_vicreg.py`` and ``resnet.py``.
    """
    return _backbone(require_state_dict(content, "model"), beside=("projector.",))


def convert_vicregl(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """A released backbone, or a training's checkpoint: a ResNet, or a ConvNeXt by the names of the original.

    Source: facebookresearch/VICRegL, ``main_vicregl.py``, ``utils.py`` and ``convnext.py``; for timm's names,
    ``checkpoint_filter_fn`` in its ``models/convnext.py``.
    """
    state = _backbone(require_state_dict(content, "model"), beside=("projector.", "maps_projector.", "classifier."))
    return rename_tensors(rename_convnext(state), (r"^norm\.", "norm_pre."))


def rename_convnext(state: State) -> State:
    """timm's names for those of the original ConvNeXt; others stay."""
    return rename_tensors(
        state,
        (r"^downsample_layers\.0\.", "stem."),
        (r"^downsample_layers\.(\d+)\.", r"stages.\1.downsample."),
        (r"^stages\.(\d+)\.(\d+)\.", r"stages.\1.blocks.\2."),
        (r"\.dwconv\.", ".conv_dw."),
        (r"\.pwconv([12])\.", r".mlp.fc\1."),
    )


def convert_pycontrast(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """A training's checkpoint of PyContrast, with which InfoMin was trained; a second head solves jigsaw puzzles.

    Source: HobbitLong/PyContrast, ``learning/contrast_trainer.py`` and ``networks/build_backbone.py``.
    """
    state = strip_ddp_prefix(require_state_dict(get_nested(content, "model")))
    return strip_prefix(state, "encoder.", beside=("head.", "head_jig."))


def convert_issl(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """A released backbone; what sets the dimensions of its features, if anything does, is the resizer.

    Source: YannDubs/Invariant-Self-Supervised-Learning, ``hub/resnet_dim.py``.
    """
    return rename_tensors(require_state_dict(content), (r"^resizer\.", "avgpool.0."))


def convert_speccl(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """A training's checkpoint, which names the backbone twice; the projection is part of it.

    Source: jhaochenz96/spectral_contrastive_learning, ``pretrain.py``, ``models/spectral.py`` and
    ``models/backbones/resnet_mlp_norelu_3layer.py``.
    """
    state = strip_ddp_prefix(require_state_dict(get_nested(content, "state_dict")))
    return drop_tensors(strip_prefix(state, "backbone.", beside=("encoder.0.",)), "proj_resnet_layer", "fc.")


def convert_mmselfsup(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """A backbone that was extracted, or a training's checkpoint.

    Source: open-mmlab/mmselfsup, ``tools/model_converters/extract_backbone_weights.py`` and ``models/algorithms``.
    """
    beside = ("neck.", "head.", "encoder_q.", "encoder_k.", "queue", "memory_bank.", "loss_weight", "sobel_layer.")
    state = _backbone(require_state_dict(get_nested(content, "state_dict")), beside=beside)
    if "conv1.weight" in state and state["conv1.weight"].shape[1:2] == (2,):
        raise Misfit("'conv1.weight' takes the 2 channels of a Sobel filter, expected the 3 channels of an image")
    return state


def convert_efficientnet(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """An EfficientNet as the PyTorch ports of TensorFlow's name it: blocks are counted through, layers have a dash.

    Source: lukemelas/EfficientNet-PyTorch, ``efficientnet_pytorch/model.py``, and its Lite version by ml-illustrated.
    """
    blocks = dict.fromkeys(name.rpartition(".")[0].split(".conv")[0].split(".bn")[0] for name in target)
    names = [name for name in blocks if name.startswith("blocks.")]
    renames = [(r"^_conv_stem\.", "conv_stem."), (r"^_conv_head\.", "conv_head."), (r"^_bn0\.", "bn1.")]
    renames.append((r"^_bn1\.", "bn2."))
    expanding = {"expand_conv": "conv_pw", "bn0": "bn1", "depthwise_conv": "conv_dw", "bn1": "bn2"}
    expanding |= {"project_conv": "conv_pwl", "bn2": "bn3"}
    plain = {"depthwise_conv": "conv_dw", "bn1": "bn1", "project_conv": "conv_pw", "bn2": "bn2"}
    for number, name in enumerate(names):
        layers = expanding if f"{name}.conv_pwl.weight" in target else plain
        renames += [(rf"^_blocks\.{number}\._{theirs}\.", f"{name}.{ours}.") for theirs, ours in layers.items()]
    return drop_tensors(rename_tensors(require_state_dict(content), *renames), "_fc.")


def _trunk(state: State) -> State:
    """VISSL's trunk; that of a jigsaw puzzle ends in two layers of its head."""
    head = ("fc1", "fc2")
    if any(name.startswith("_feature_blocks.") for name in state):
        state = strip_prefix(state, "_feature_blocks.", beside=head)
    return drop_tensors(state, *head)


def _backbone(state: State, *, beside: tuple[str, ...]) -> State:
    """The backbone of a whole model, or a backbone alone."""
    state = strip_ddp_prefix(state)
    return (
        strip_prefix(state, "backbone.", beside=beside)
        if any(name.startswith("backbone.") for name in state)
        else state
    )


def convert_vissl_regnet(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """A RegNet of VISSL's, the trunk of a training's checkpoint; or of SWAG, which releases the network alone.

    The trunk of the largest was sharded, and names the shards.

    Source: facebookresearch/vissl, ``models/trunks/regnet.py``; facebookresearch/SWAG, ``models/regnet.py``; for timm's
    names, ``_filter_fn`` in its ``models/regnet.py``.
    """
    is_training = has_nested(content, "classy_state_dict")
    state = require_state_dict(
        get_nested(content, "classy_state_dict", "base_model", "model", "trunk") if is_training else content
    )
    if any(name.startswith("_feature_blocks.") for name in state):
        state = strip_prefix(state, "_feature_blocks.")
    block = r"^(?:res\d|trunk_output\.block\d)\.block(\d)-(\d+)\."
    numbered = rename_tensors(
        drop_tensors(state, "head.", "fc."), (r"\.block\d+-part\d+(?=\.)", ""), (block, r"s\1.b\2.")
    )
    return rename_tensors(
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


def convert_vissl_regnet_bgr(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """The same of a network that sees blue first; its first convolution is turned, so that it takes red first."""
    state = convert_vissl_regnet(content, target=target)
    first = "stem.conv.weight"
    if first not in state or state[first].shape[1:2] != (3,):
        raise Misfit(f"the tensor {first!r} is missing, expected one of 3 channels")
    return state | {first: state[first].flip(1)}


def _counted_from_1(name: str) -> str:
    """timm counts the blocks of a stage from 1."""
    return re.sub(r"^(s\d+)\.b(\d+)(?=\.|$)", lambda match: f"{match[1]}.b{int(match[2]) + 1}", name)


def convert_vissl_alexnet(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """An AlexNet that VISSL converted; RotNet's keeps the layers of its classifier.

    Source: facebookresearch/vissl, ``extra_scripts/convert_caffe2_to_vissl_alexnet.py`` and
    ``models/trunks/alexnet_*.py``; gidariss/FeatureLearningRotNet, ``architectures/AlexNet.py``.
    """
    state = require_state_dict(content, "model_state_dict")
    state = strip_prefix(state, "_feature_blocks.")
    places = enumerate((0, 2, 4, 5, 6), start=1)  # the pools stand between
    return rename_tensors(
        drop_tensors(state, "8.", "9."), *((rf"^{place}\.", f"conv{number}.") for number, place in places)
    )


def convert_vissl_dino(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """A training's checkpoint of DINO, a ViT or an XCiT; what is evaluated is the teacher, which is with the loss.

    Source: facebookresearch/vissl, ``losses/dino_loss.py``, ``hooks/hook_utils.py``, and the configurations of its
    benchmarks with ``nearest_neighbor/models/dino``.
    """
    teacher = "momentum_teacher.module."
    state = strip_prefix(
        require_state_dict(get_nested(content, "loss")), f"{teacher}trunk.", beside=(f"{teacher}heads.", "center")
    )
    return convert_dino_xcit(state, target=target) if any(name.startswith("pos_embeder.") for name in state) else state


def convert_dino_xcit(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """A released backbone, by the names of XCiT's authors; timm splits what a class token's attention projects to.

    Source: facebookresearch/dino, ``hubconf.py``; facebookresearch/xcit, ``xcit.py``; for timm's names,
    ``checkpoint_filter_fn`` in its ``models/xcit.py``.
    """
    state: State = {}
    for name, tensor in rename_tensors(
        drop_tensors(require_state_dict(content), "head."), (r"^pos_embeder\.", "pos_embed.")
    ).items():
        if name.startswith("cls_attn_blocks.") and ".attn.qkv." in name:
            for letter, part in zip("qkv", tensor.chunk(3), strict=True):
                state[name.replace(".qkv.", f".{letter}.")] = part.clone()
        else:
            state[name] = tensor
    return state


def convert_lightly(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """A checkpoint of Lightning; ``backbone`` is what is evaluated: DINO's teacher, and the online network of others.

    Source: lightly-ai/lightly, ``benchmarks/imagenet/resnet50``.
    """
    beside = (
        "projection_head", "prediction_head", "prototypes", "online_classifier", "knn_classifier", "criterion",
        "queues", "teacher_", "student_", "key_", "backbone_momentum.",
    )  # fmt: skip
    return drop_tensors(
        strip_prefix(require_state_dict(get_nested(content, "state_dict")), "backbone.", beside=beside), "fc."
    )


def convert_pixpro(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """A training's checkpoint; the online encoder is what is transferred.

    Source: zdaxie/PixPro, ``contrast/models/PixPro.py`` and ``publish_model.py``.
    """
    heads = ("encoder_k.", "projector", "predictor.", "value_transform.")
    return strip_prefix(strip_ddp_prefix(require_state_dict(get_nested(content, "model"))), "encoder.", beside=heads)


def convert_twist(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """A released backbone. Source: bytedance/TWIST, ``evaluate.py`` without ``--key``."""
    return require_state_dict(content)


def convert_simclr(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """A checkpoint of TensorFlow that others converted: SimCLR, by torchvision's names; or SimCLRv2, by its own.

    Both keep the classifier that was trained on top. Source: tonylins/simclr-converter, ``convert.py``;
    Separius/SimCLRv2-Pytorch, ``convert.py`` and ``resnet.py``.
    """
    if not has_nested(content, "resnet"):
        return drop_tensors(require_state_dict(get_nested(content, "state_dict")), "fc.")
    state = drop_tensors(require_state_dict(get_nested(content, "resnet")), "fc.")
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
    return rename_tensors(
        state,
        *stem,
        (r"^net\.([1-4])\.blocks\.", r"layer\1."),
        *kernel,
        (r"\.net\.0\.weight$", ".conv1.weight"),
        (r"\.net\.1\.0\.", ".bn1."),
    )


def convert_spark(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """A released encoder without its decoder: a ResNet, or a ConvNeXt by the names of the original.

    Its last norm, if it is there, was never trained. Source: keyu-tian/SparK, ``README.md``.
    """
    state = require_state_dict(content, "module")
    return rename_convnext(drop_tensors(state, "fc.", "head.", "norm."))


def convert_mmpretrain(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """A training's checkpoint of MMSelfSup 1.x or MMPretrain, or a backbone that was extracted from it.

    A ResNet, a Swin, MixMIM's transformer or SparK's ConvNeXt V2. Source: open-mmlab/mmpretrain, ``models/selfsup`` and
    ``models/backbones``.
    """
    state = strip_ddp_prefix(require_state_dict(get_nested(content, "state_dict")))
    if any(name.startswith("backbone.") for name in state):
        beside = (
            "neck.", "head.", "encoder_k.", "queue", "target_net.", "momentum_encoder.", "memory_bank.",
            "enc_dec_norms.", "enc_dec_projectors.", "mask_tokens.", "data_preprocessor.", "target_generator.",
        )  # fmt: skip
        state = strip_prefix(state, "backbone.", beside=beside)
    if any(".ffn." in name for name in state):
        return rename_mmpretrain_swin(state)
    if "conv1.weight" in state:
        return drop_tensors(state, "fc.")
    # OpenMMLab has a name of its own for every part of a block of ConvNeXt
    return _shaped(
        rename_convnext(
            rename_tensors(
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


_HEADS_OF_BYOL = ("projector/", "predictor/", "classifier")


def convert_byol(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """The online network of a training's checkpoint; or that network under torchvision's names, as others converted it.

    It was trained with Haiku: modules in modules, and channels last. The statistics of a norm are its averages, which
    are corrected for their start at zero; ``hidden`` and ``counter``, from which they are computed, stand next to them.
    Source: google-deepmind/deepmind-research, ``byol_experiment.py`` and ``utils/checkpointing.py`` of byol; Haiku,
    ``ResNet`` and ``ExponentialMovingAverage``.
    """
    if not has_nested(content, "experiment_state"):
        return drop_tensors(require_state_dict(content), "fc.")
    flat: dict[str, Any] = {}
    for part in ("online_params", "online_state"):
        modules = get_nested(content, "experiment_state", part)
        if not isinstance(modules, Mapping) or not all(isinstance(values, Mapping) for values in modules.values()):
            raise Misfit(f"found {type(modules).__name__} under {part!r}, expected modules by name")
        flat |= {f"{module}/{name}": tensor for module, values in modules.items() for name, tensor in values.items()}
    state = drop_tensors(require_state_dict(flat), endings=("/hidden", "/counter"))
    state = rename_tensors(
        strip_prefix(rename_tensors(state, (r"^res_net\d+/~/", "/")), "/", beside=_HEADS_OF_BYOL), *_HAIKU
    )
    return {name: _channels_first(tensor) for name, tensor in state.items()}


_HAIKU = (
    *((rf"^block_group_{group}/~/block_(\d+)/~/", rf"layer{group + 1}.\1.") for group in range(4)),
    (r"^initial_conv(_1)?/", "conv1/"),  # so numbered where the class that it inherits from had made one before
    (r"^initial_batchnorm(_1)?/", "bn1/"),
    *((rf"\.conv_{number}/", f".conv{number + 1}/") for number in range(3)),
    *((rf"\.batchnorm_{number}/", f".bn{number + 1}/") for number in range(3)),
    (r"\.shortcut_conv/", ".downsample.0/"),
    (r"\.shortcut_batchnorm/", ".downsample.1/"),
    (r"/(w|scale)$", ".weight"),
    (r"/offset$", ".bias"),
    (r"/~/mean_ema/average$", ".running_mean"),
    (r"/~/var_ema/average$", ".running_var"),
)


def _channels_first(tensor: Tensor) -> Tensor:
    if tensor.numel() == tensor.shape[-1]:
        return tensor.flatten()  # of a norm, (1, 1, 1, channels)
    return tensor.permute(3, 2, 0, 1) if tensor.ndim == 4 else tensor  # height, width, in, out -> out, in, ...


LAYOUTS: dict[str, Layout] = build_layouts(
    *(
        convert_vissl,
        convert_vissl_converted,
        convert_swav,
        convert_moco,
        convert_mocov3,
        convert_simsiam,
        convert_vicreg,
        convert_vicregl,
        convert_pycontrast,
        convert_issl,
        convert_speccl,
        convert_mmselfsup,
    ),
    *(
        convert_efficientnet,
        convert_vissl_regnet,
        convert_vissl_regnet_bgr,
        convert_vissl_alexnet,
        convert_vissl_dino,
        convert_dino_xcit,
        convert_lightly,
        convert_pixpro,
        convert_twist,
    ),
    *(convert_simclr, convert_spark, convert_mmpretrain, convert_byol),
)
