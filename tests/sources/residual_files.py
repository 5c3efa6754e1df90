"""The table of all kinds of files of ResNets, and the last block of DISSL's wide features."""

from __future__ import annotations

from functools import partial

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from . import in_double
from .residual import (
    LARS,
    N_HIDDEN,
    Source,
    densecl_training,
    esvit,
    lightly,
    mmpretrain,
    moco,
    mocov3,
    named,
    odc_training,
    pixpro,
    pycontrast,
    satlas,
    simsiam,
    speccl,
    swav_model,
    swav_training,
    vicreg_training,
    vissl_training,
    without_counters,
)
from .resnet_forward import Draw, State, padded_twice

TRUNK = ("classy_state_dict", "base_model", "model", "trunk")
FEATURES = "_feature_blocks."


def jigsaw(weights: State, draw: Draw) -> State:
    """A trunk of VISSL's that was converted from Caffe2, which counts no batches, with what solves the puzzle."""
    head = draw.linear("fc1", 2048, N_HIDDEN) | draw.norm("fc1_bn", N_HIDDEN) | draw.linear("fc2", 9 * N_HIDDEN, 10)
    return named(FEATURES, without_counters(weights), head)


def same(weights: State, draw: Draw) -> State:
    """The network's state dict itself."""
    return dict(weights)


SOURCES = (
    Source(name="VISSL, training", layout="vissl", content=vissl_training, path=TRUNK, prefix=FEATURES, legacy=True),
    Source(
        name="VISSL, training with LARS",
        layout="vissl",
        content=partial(vissl_training, exclude=LARS.exclude),
        path=TRUNK,
        prefix=FEATURES,
    ),
    Source(
        name="VISSL, state dict of a model",
        layout="vissl",
        content=lambda weights, draw: {"model_state_dict": named(FEATURES, weights)},
        path=("model_state_dict",),
        prefix=FEATURES,
    ),
    Source(
        name="VISSL, trunk alone",
        layout="vissl",
        content=lambda weights, draw: named(FEATURES, weights),
        prefix=FEATURES,
    ),
    Source(name="VISSL, torchvision's names", layout="vissl", content=same),
    Source(
        name="VISSL, converted jigsaw",
        layout="vissl_converted",
        content=lambda weights, draw: {"model_state_dict": jigsaw(weights, draw)},
        path=("model_state_dict",),
        prefix=FEATURES,
        legacy=True,
    ),
    Source(
        name="VISSL, converted",
        layout="vissl_converted",
        content=lambda weights, draw: {"model_state_dict": named(FEATURES, without_counters(weights))},
        path=("model_state_dict",),
        prefix=FEATURES,
        legacy=True,
    ),
    Source(
        name="VISSL, converted on to torchvision's names",
        layout="vissl_converted",
        content=lambda weights, draw: without_counters(weights),
        legacy=True,
    ),
    Source(name="SwAV", layout="swav", content=swav_model, prefix="module.", legacy=True, conv=padded_twice),
    Source(
        name="DeepCluster-v2",
        layout="swav",
        content=partial(swav_model, n_heads=3),
        prefix="module.",
        legacy=True,
        conv=padded_twice,
    ),
    Source(
        name="SwAV, training",
        layout="swav",
        content=swav_training,
        path=("state_dict",),
        prefix="module.",
        legacy=True,
        conv=padded_twice,
    ),
    Source(name="MoCo v2", layout="moco", content=moco, path=("state_dict",), prefix="module.encoder_q.", legacy=True),
    Source(
        name="MoCo v1",
        layout="moco",
        content=partial(moco, mlp=False),
        path=("state_dict",),
        prefix="module.encoder_q.",
        legacy=True,
    ),
    Source(
        name="MoCo v2, one process",
        layout="moco",
        content=partial(moco, prefix=""),
        path=("state_dict",),
        prefix="encoder_q.",
    ),
    Source(name="MoCo v3", layout="mocov3", content=mocov3, path=("state_dict",), prefix="module.base_encoder."),
    Source(
        name="MoCo v3, one process",
        layout="mocov3",
        content=partial(mocov3, prefix=""),
        path=("state_dict",),
        prefix="base_encoder.",
    ),
    Source(name="SimSiam", layout="simsiam", content=simsiam, path=("state_dict",), prefix="module.encoder."),
    Source(
        name="SimSiam, one process",
        layout="simsiam",
        content=partial(simsiam, prefix=""),
        path=("state_dict",),
        prefix="encoder.",
    ),
    Source(name="VICReg", layout="vicreg", content=same, conv=padded_twice),
    Source(
        name="VICReg, training",
        layout="vicreg",
        content=vicreg_training,
        path=("model",),
        prefix="module.backbone.",
        conv=padded_twice,
    ),
    Source(name="VICRegL", layout="vicregl", content=same, conv=padded_twice),
    Source(
        name="VICRegL, training",
        layout="vicregl",
        content=partial(vicreg_training, local=True),
        path=("model",),
        prefix="module.backbone.",
        conv=padded_twice,
    ),
    Source(
        name="InfoMin", layout="pycontrast", content=pycontrast, path=("model",), prefix="module.encoder.", legacy=True
    ),
    Source(
        name="InfoMin, momentum encoder",
        layout="pycontrast",
        content=partial(pycontrast, ema=True),
        path=("model",),
        prefix="module.encoder.",
        legacy=True,
    ),
    Source(name="DISSL", layout="issl", content=same),
    Source(
        name="DISSL, as its hub builds it",
        layout="issl",
        content=lambda weights, draw: {name.replace("resizer.", "avgpool.0."): weights[name] for name in weights},
    ),
    Source(
        name="spectral contrastive learning", layout="speccl", content=speccl, path=("state_dict",), prefix="backbone."
    ),
    Source(
        name="MMSelfSup",
        layout="mmselfsup",
        content=lambda weights, draw: {"meta": {"epoch": 200, "CLASSES": None}, "state_dict": dict(weights)},
        path=("state_dict",),
    ),
    Source(
        name="MMSelfSup, extracted",
        layout="mmselfsup",
        content=lambda weights, draw: {"state_dict": dict(weights), "author": "MMSelfSup"},
        path=("state_dict",),
    ),
    Source(
        name="MMSelfSup, DenseCL's training",
        layout="mmselfsup",
        content=densecl_training,
        path=("state_dict",),
        prefix="backbone.",
    ),
    Source(
        name="MMSelfSup, ODC's training",
        layout="mmselfsup",
        content=odc_training,
        path=("state_dict",),
        prefix="backbone.",
    ),
    Source(name="lightly", layout="lightly", content=lightly, path=("state_dict",), prefix="backbone."),
    Source(
        name="lightly, DINO",
        layout="lightly",
        content=partial(lightly, second="student_backbone."),
        path=("state_dict",),
        prefix="backbone.",
    ),
    Source(name="PixPro", layout="pixpro", content=pixpro, path=("model",), prefix="module.encoder."),
    Source(name="TWIST", layout="twist", content=same),
    Source(name="MMPretrain", layout="mmpretrain", content=mmpretrain, path=("state_dict",), prefix="backbone."),
    Source(name="EsViT", layout="esvit", content=esvit, path=("teacher",), prefix="module.backbone.backbone."),
    Source(name="SatlasPretrain", layout="satlas", content=satlas, prefix="backbone.resnet."),
    Source(name="SparK", layout="spark", content=same),
)


def last_block_tensors(dim: int, draw: Draw) -> State:
    """The bottleneck that widens DISSL's features from 2048 to ``dim``."""
    tensors = {
        "resizer.conv1.weight": draw.weight(512, 2048, 1, 1),
        "resizer.conv2.weight": draw.weight(512, 512, 3, 3),
    }
    tensors["resizer.conv3.weight"] = draw.weight(dim, 512, 1, 1)
    norms = (draw.norm(f"resizer.bn{i}", dim if i == 3 else 512, scale=0.3 if i == 3 else 1.0) for i in (1, 2, 3))
    return named("", tensors, *norms)


def last_block(weights: State, x: Tensor) -> Tensor:
    """(n, 2048, px, px) -> (n, dim, px, px); the input is added, repeated as often as it fits."""
    weights, out = in_double(weights), x
    for i in (1, 2, 3):
        out = F.conv2d(out, weights[f"resizer.conv{i}.weight"], padding=1 if i == 2 else 0)
        mean, variance, scale, shift = (
            weights[f"resizer.bn{i}.{part}"] for part in ("running_mean", "running_var", "weight", "bias")
        )
        out = F.batch_norm(out, mean, variance, scale, shift)
        out = out.relu() if i < 3 else out
    return (out + torch.cat([x] * (out.shape[1] // x.shape[1]), dim=1)).relu()
