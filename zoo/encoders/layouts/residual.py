"""Layouts of convolutional networks: what the training scripts save beside the backbone, and how they name it.

All of them have the names of torchvision, or of the original ConvNeXt. Each function takes the file that was released
and what the training script saves, whether or not the network was wrapped for several processes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from .steps import Layout, Misfit, State, below, holds, nested, renamed, state_dict, unwrapped, without


def vissl(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """The trunk of a training's checkpoint, of a converted file, or alone, with or without its own prefix.

    Source: facebookresearch/vissl, ``hooks/log_hooks.py``, ``models/base_ssl_model.py`` and
    ``models/trunks/resnext.py``.
    """
    if holds(content, "classy_state_dict"):
        return _trunk(state_dict(nested(content, "classy_state_dict", "base_model", "model", "trunk")))
    return _trunk(_weights(content, "model_state_dict"))


def vissl_converted(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """A trunk that was converted from Caffe2, which counts no batches, or on to torchvision's names.

    Source: facebookresearch/vissl, ``convert_caffe2_to_torchvision_resnet.py`` and ``convert_vissl_to_torchvision.py``
    in its ``extra_scripts``.
    """
    return _trunk(_weights(content, "model_state_dict"))


def swav(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """A released model, or a training's checkpoint, of SwAV, DeepCluster-v2 or SeLa-v2.

    The latter two have several layers of prototypes. Source: facebookresearch/swav, ``main_swav.py``,
    ``main_deepclusterv2.py`` and ``src/resnet50.py``.
    """
    return without(unwrapped(_weights(content, "state_dict")), "projection_head.", "prototypes.")


def moco(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """A training's checkpoint of MoCo v1 or v2, which is what was released; the query encoder is what is evaluated.

    Source: facebookresearch/moco, ``main_moco.py``, ``main_lincls.py`` and ``moco/builder.py``.
    """
    state = unwrapped(state_dict(nested(content, "state_dict")))
    return without(below(state, "encoder_q.", beside=("encoder_k.", "queue")), "fc.")


def mocov3(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """A training's checkpoint of MoCo v3; the base encoder is what is evaluated.

    It is a ResNet whose head is ``fc``, or a transformer whose head is ``head``. Source: facebookresearch/moco-v3,
    ``main_moco.py``, ``main_lincls.py`` and ``moco/builder.py``.
    """
    state = unwrapped(state_dict(nested(content, "state_dict")))
    return without(below(state, "base_encoder.", beside=("momentum_encoder.", "predictor.")), "fc.", "head.")


def simsiam(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """A training's checkpoint of SimSiam, whose projector stands where the ResNet had its classifier.

    Source: facebookresearch/simsiam, ``main_simsiam.py`` and ``simsiam/builder.py``.
    """
    state = unwrapped(state_dict(nested(content, "state_dict")))
    return without(below(state, "encoder.", beside=("predictor.",)), "fc.")


def vicreg(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """A released backbone, or a training's checkpoint.

    Source: facebookresearch/vicreg, ``main_vicreg.py`` and ``resnet.py``.
    """
    return _backbone(_weights(content, "model"), beside=("projector.",))


def vicregl(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """A released backbone, or a training's checkpoint: a ResNet, or a ConvNeXt by the names of the original.

    Source: facebookresearch/VICRegL, ``main_vicregl.py``, ``utils.py`` and ``convnext.py``; for timm's names,
    ``checkpoint_filter_fn`` in its ``models/convnext.py``.
    """
    state = _backbone(_weights(content, "model"), beside=("projector.", "maps_projector.", "classifier."))
    return renamed(convnext_names(state), (r"^norm\.", "norm_pre."))


def convnext_names(state: State) -> State:
    """timm's names for those of the original ConvNeXt; others stay."""
    return renamed(
        state,
        (r"^downsample_layers\.0\.", "stem."),
        (r"^downsample_layers\.(\d+)\.", r"stages.\1.downsample."),
        (r"^stages\.(\d+)\.(\d+)\.", r"stages.\1.blocks.\2."),
        (r"\.dwconv\.", ".conv_dw."),
        (r"\.pwconv([12])\.", r".mlp.fc\1."),
    )


def pycontrast(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """A training's checkpoint of PyContrast, with which InfoMin was trained; a second head solves jigsaw puzzles.

    Source: HobbitLong/PyContrast, ``learning/contrast_trainer.py`` and ``networks/build_backbone.py``.
    """
    state = unwrapped(state_dict(nested(content, "model")))
    return below(state, "encoder.", beside=("head.", "head_jig."))


def issl(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """A released backbone; what sets the dimensions of its features, if anything does, is the resizer.

    Source: YannDubs/Invariant-Self-Supervised-Learning, ``hub/resnet_dim.py``.
    """
    return renamed(state_dict(content), (r"^resizer\.", "avgpool.0."))


def speccl(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """A training's checkpoint, which names the backbone twice; the projection is part of it.

    Source: jhaochenz96/spectral_contrastive_learning, ``pretrain.py``, ``models/spectral.py`` and
    ``models/backbones/resnet_mlp_norelu_3layer.py``.
    """
    state = unwrapped(state_dict(nested(content, "state_dict")))
    return without(below(state, "backbone.", beside=("encoder.0.",)), "proj_resnet_layer", "fc.")


def mmselfsup(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """A backbone that was extracted, or a training's checkpoint.

    Source: open-mmlab/mmselfsup, ``tools/model_converters/extract_backbone_weights.py`` and ``models/algorithms``.
    """
    beside = ("neck.", "head.", "encoder_q.", "encoder_k.", "queue", "memory_bank.", "loss_weight", "sobel_layer.")
    state = _backbone(state_dict(nested(content, "state_dict")), beside=beside)
    if "conv1.weight" in state and state["conv1.weight"].shape[1:2] == (2,):
        raise Misfit("'conv1.weight' takes the 2 channels of a Sobel filter, expected the 3 channels of an image")
    return state


def _weights(content: Any, key: str) -> State:
    """What a training saves under a key, and the released file without it."""
    return state_dict(content[key] if holds(content, key) else content)


def efficientnet(content: Any, *, target: Mapping[str, Tensor]) -> State:
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
    return without(renamed(state_dict(content), *renames), "_fc.")


def _trunk(state: State) -> State:
    """VISSL's trunk; that of a jigsaw puzzle ends in two layers of its head."""
    head = ("fc1", "fc2")
    if any(name.startswith("_feature_blocks.") for name in state):
        state = below(state, "_feature_blocks.", beside=head)
    return without(state, *head)


def _backbone(state: State, *, beside: tuple[str, ...]) -> State:
    """The backbone of a whole model, or a backbone alone."""
    state = unwrapped(state)
    return below(state, "backbone.", beside=beside) if any(name.startswith("backbone.") for name in state) else state


LAYOUTS: dict[str, Layout] = {
    "vissl": Layout(convert=vissl),
    "vissl_converted": Layout(convert=vissl_converted),
    "swav": Layout(convert=swav),
    "moco": Layout(convert=moco),
    "mocov3": Layout(convert=mocov3),
    "simsiam": Layout(convert=simsiam),
    "vicreg": Layout(convert=vicreg),
    "vicregl": Layout(convert=vicregl),
    "pycontrast": Layout(convert=pycontrast),
    "issl": Layout(convert=issl),
    "speccl": Layout(convert=speccl),
    "mmselfsup": Layout(convert=mmselfsup),
    "efficientnet": Layout(convert=efficientnet),
}
