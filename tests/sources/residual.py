"""Files of ResNets: one :class:`Source` for every way in which a source saves them; the last block of DISSL's."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from ..encoder_checks import symmetric_conv
from . import in_double, modules_that_exist, saved
from .resnet_forward import Draw, State, Window, padded_twice

N_HIDDEN = 48  # of heads and queues, which the scripts take as an option and no converter looks at


def exclude_bias_and_norm(parameter: Tensor) -> bool:
    """What LARS is told in VICReg's script; its checkpoints refer to it."""
    return parameter.ndim == 1


class LARS:
    """VISSL's, whose static method the optimizer's state refers to."""

    @staticmethod
    def exclude(parameter: Tensor) -> bool:
        return parameter.ndim == 1


exclude_bias_and_norm.__module__ = "__main__"
LARS.__module__, LARS.__qualname__ = "vissl.optimizers.lars", "_LARS"
LARS.exclude.__module__, LARS.exclude.__qualname__ = "vissl.optimizers.lars", "_LARS._exclude_bias_and_norm"
LARS._exclude_bias_and_norm = LARS.exclude  # type: ignore[attr-defined]
FOREIGN: dict[str, dict[str, Any]] = {
    "__main__": {"exclude_bias_and_norm": exclude_bias_and_norm},
    "vissl.optimizers.lars": {"_LARS": LARS},
}


@dataclass(frozen=True)
class Source:
    """One kind of file.

    ``content`` nests the tensors of a network, which have the shared names, as the script does. In what it gives, the
    state dict is under ``path`` and the network's names have ``prefix``.
    """

    name: str
    layout: str
    content: Callable[[State, Draw], Any]
    path: tuple[str, ...] = ()
    prefix: str = ""
    legacy: bool = False
    conv: Window = field(default=symmetric_conv)

    def file(self, weights: State, *, seed: int = 7) -> bytes:
        with modules_that_exist(FOREIGN):
            return saved(self.content(weights, Draw(seed=seed)), legacy=self.legacy)


def named(prefix: str, *parts: State) -> State:
    return {f"{prefix}{name}": tensor for name, tensor in itertools.chain(*(part.items() for part in parts))}


def another(weights: State, draw: Draw) -> State:
    """A network of the same shapes with other weights: the one that the encoder must not be made of."""
    return {
        name: draw.between(0.4, 0.6, *tensor.shape) if tensor.is_floating_point() else tensor
        for name, tensor in weights.items()
    }


def without_counters(weights: State) -> State:
    return {name: tensor for name, tensor in weights.items() if not name.endswith("num_batches_tracked")}


def sgd(tensors: Iterable[Tensor], *, learning_rate: float = 0.03, **more: Any) -> dict[str, Any]:
    """The state of an optimizer that has made a step."""
    parameters = [nn.Parameter(tensor.clone()) for tensor in tensors if tensor.is_floating_point()]
    optimizer = torch.optim.SGD(parameters, lr=learning_rate, momentum=0.9, weight_decay=1e-4)
    for parameter in parameters:
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    optimizer.param_groups[0] |= more
    return optimizer.state_dict()


def scaler() -> dict[str, Any]:
    return torch.amp.GradScaler("cpu").state_dict()


def vissl_training(weights: State, draw: Draw, **optimizer: Any) -> Any:
    heads = draw.linear("0.clf.0", 2048, N_HIDDEN) | draw.linear("0.clf.2", N_HIDDEN, 16)
    model = {"trunk": named("_feature_blocks.", weights), "heads": heads}
    progress = {"phase_idx": 99, "train_phase_idx": 99}
    task = progress | {
        "train": True,
        "base_model": {"model": model, "meta": {"trunk": {}, "heads": []}},
        "meters": [{"name": "accuracy_list_meter", "num_meters": 1, "topk_values": [1, 5], "meters": []}],
        "optimizer": sgd([*weights.values(), *heads.values()], **optimizer),
        "num_updates": 31_250 * 4096,
        "losses": [7.1, 7.0],
        "hooks": {"log_loss_lr_eta": {}, "check_nan_loss": {}},
        "loss": {},
    }
    bank = {"memory.memory": draw.between(-1, 1, 512, N_HIDDEN)}
    counts = {"iteration": 31_250, "iteration_num": 31_249}
    return progress | counts | {"loss": bank, "classy_state_dict": task, "type": "consolidated"}


def swav_model(weights: State, draw: Draw, *, n_heads: int = 0) -> State:
    head = draw.linear("projection_head.0", 2048, N_HIDDEN) | draw.norm("projection_head.1", N_HIDDEN)
    head |= draw.linear("projection_head.3", N_HIDDEN, 16)
    heads = [f"prototypes.prototypes{i}" for i in range(n_heads)] or ["prototypes"]
    prototypes = [draw.linear(name, 16, 30, bias=False) for name in heads]
    return named("module.", weights, head, *prototypes)


def swav_training(weights: State, draw: Draw) -> Any:
    state = swav_model(weights, draw)
    amp = {"loss_scaler0": {"loss_scale": 65_536.0, "unskipped": 1200}}
    return {"epoch": 400, "state_dict": state, "optimizer": sgd(state.values()), "amp": amp}


def moco(weights: State, draw: Draw, *, prefix: str = "module.", mlp: bool = True) -> Any:
    def head() -> State:
        if not mlp:
            return draw.linear("fc", 2048, 16)
        return draw.linear("fc.0", 2048, N_HIDDEN) | draw.linear("fc.2", N_HIDDEN, 16)

    queue = {"queue": draw.between(-1, 1, 16, 64), "queue_ptr": torch.zeros(1, dtype=torch.long, device=draw.device)}
    query, key = named("encoder_q.", weights, head()), named("encoder_k.", another(weights, draw), head())
    state = named(prefix, queue, query, key)
    return {"epoch": 200, "arch": "resnet50", "state_dict": state, "optimizer": sgd(query.values())}


def mocov3(weights: State, draw: Draw, *, prefix: str = "module.") -> Any:
    def mlp(name: str, n_in: int) -> State:
        layers = draw.linear(f"{name}.0", n_in, N_HIDDEN, bias=False) | draw.norm(f"{name}.1", N_HIDDEN)
        layers |= draw.linear(f"{name}.3", N_HIDDEN, 16, bias=False)
        return layers | draw.norm(f"{name}.4", 16, affine=False)

    base = named("base_encoder.", weights, mlp("fc", 2048))
    momentum = named("momentum_encoder.", another(weights, draw), mlp("fc", 2048))
    state = named(prefix, base, momentum, mlp("predictor", 16))
    training = {"optimizer": sgd(base.values(), trust_coefficient=0.001), "scaler": scaler()}
    return {"epoch": 1000, "arch": "resnet50", "state_dict": state} | training


def simsiam(weights: State, draw: Draw, *, prefix: str = "module.") -> Any:
    projector = draw.linear("fc.0", 2048, N_HIDDEN, bias=False) | draw.norm("fc.1", N_HIDDEN)
    projector |= draw.linear("fc.3", N_HIDDEN, N_HIDDEN, bias=False) | draw.norm("fc.4", N_HIDDEN)
    projector |= draw.linear("fc.6", N_HIDDEN, N_HIDDEN) | draw.norm("fc.7", N_HIDDEN, affine=False)
    predictor = draw.linear("predictor.0", N_HIDDEN, 16, bias=False) | draw.norm("predictor.1", 16)
    predictor |= draw.linear("predictor.3", 16, N_HIDDEN)
    state = named(prefix, named("encoder.", weights, projector), predictor)
    return {"epoch": 100, "arch": "resnet50", "state_dict": state, "optimizer": sgd(state.values(), fix_lr=False)}


def expander(name: str, draw: Draw) -> State:
    layers = draw.linear(f"{name}.0", 2048, N_HIDDEN) | draw.norm(f"{name}.1", N_HIDDEN)
    layers |= draw.linear(f"{name}.3", N_HIDDEN, N_HIDDEN) | draw.norm(f"{name}.4", N_HIDDEN)
    return layers | draw.linear(f"{name}.6", N_HIDDEN, N_HIDDEN, bias=False)


def vicreg_training(weights: State, draw: Draw, *, local: bool = False) -> Any:
    heads = expander("projector", draw)
    if local:
        heads |= expander("maps_projector", draw) | draw.linear("classifier", 2048, 10)
    state = named("module.", named("backbone.", weights), heads)
    filters: dict[str, Any] = dict.fromkeys(("weight_decay_filter", "lars_adaptation_filter"), exclude_bias_and_norm)
    return {"epoch": 1000, "model": state, "optimizer": sgd(state.values(), **filters)}


def pycontrast(weights: State, draw: Draw, *, ema: bool = False) -> Any:
    head = draw.linear("head.0", 2048, N_HIDDEN) | draw.linear("head.2", N_HIDDEN, 16)
    jigsaw = draw.linear("head_jig.fc1.0", 2048, N_HIDDEN) | draw.linear("head_jig.fc1.2", N_HIDDEN, 16)
    jigsaw |= draw.linear("head_jig.fc2", 16 * 9, 16)
    state = named("module.", named("encoder.", weights), head, jigsaw)
    contrast = {"params": torch.tensor([512.0, 0.15]), "memory": draw.between(-1, 1, 512, 16)}
    content = {"model": state, "contrast": contrast, "optimizer": sgd(state.values()), "epoch": 200}
    momentum = {"model_ema": named("encoder.", another(weights, draw)), "amp": {"loss_scaler0": {"loss_scale": 1.0}}}
    return content | momentum if ema else content


def speccl(weights: State, draw: Draw) -> Any:
    layers = [draw.linear(f"proj_resnet_layer{i}.0", 2048 if i == 1 else N_HIDDEN, N_HIDDEN) for i in (1, 2, 3)]
    norms = [draw.norm(f"proj_resnet_layer{i}.1", N_HIDDEN) for i in (1, 2, 3)]
    backbone = {**weights, **named("", *layers, *norms), **draw.linear("fc", N_HIDDEN, 10)}
    return {"epoch": 100, "state_dict": named("backbone.", backbone) | named("encoder.0.", backbone)}


def densecl_training(weights: State, draw: Draw) -> Any:
    neck = draw.linear("mlp.0", 2048, N_HIDDEN) | draw.linear("mlp.2", N_HIDDEN, 16)
    queue = {"queue": draw.between(-1, 1, 16, 64), "queue_ptr": torch.zeros(1, dtype=torch.long, device=draw.device)}
    queue |= {f"queue2{name.removeprefix('queue')}": tensor for name, tensor in queue.items()}
    query = named("encoder_q.", named("0.", weights), named("1.", neck))
    key = named("encoder_k.", named("0.", another(weights, draw)), named("1.", neck))
    state = {**queue, **query, **key, **named("backbone.", weights)}
    meta = {"mmselfsup_version": "0.5.0", "config": "model = dict()", "epoch": 200, "iter": 1_000_000, "hook_msgs": {}}
    return {"meta": meta, "state_dict": state, "optimizer": sgd(query.values())}


def odc_training(weights: State, draw: Draw) -> Any:
    neck, head = draw.linear("neck.fc0", 2048, N_HIDDEN), draw.linear("head.fc_cls", N_HIDDEN, 10)
    state = {**named("backbone.", weights), **neck, **head, "loss_weight": draw.between(0, 1, 10)}
    return {"meta": {"epoch": 440, "time": "Mon Feb 7 00:00:00 2022"}, "state_dict": state}


def lightly(weights: State, draw: Draw, *, beside: str = "projection_head", second: str = "") -> Any:
    """Lightning's checkpoint of one of lightly's benchmark scripts; ``second`` is the other branch of some."""
    head = draw.linear(f"{beside}.layers.0", 2048, N_HIDDEN, bias=False) | draw.norm(f"{beside}.layers.1", N_HIDDEN)
    head |= draw.linear("online_classifier.linear", 2048, 10)
    other = named(second, another(weights, draw)) if second else {}
    state = {**named("backbone.", weights), **head, **other}
    loops = {"fit_loop": {"epoch_progress": {"total": {"ready": 100}}}}
    training = {"epoch": 99, "global_step": 500_400, "loops": loops, "optimizer_states": [sgd(head.values())]}
    return training | {"state_dict": state, "hyper_parameters": {"batch_size_per_device": 128, "num_classes": 1000}}


def pixpro(weights: State, draw: Draw) -> Any:
    heads = draw.linear("projector.linear1", 2048, N_HIDDEN) | draw.norm("projector.bn1", N_HIDDEN)
    heads |= draw.linear("projector_k.linear1", 2048, N_HIDDEN) | {"value_transform.weight": draw.weight(4, 4, 1, 1)}
    state = named("module.", named("encoder.", weights), named("encoder_k.", another(weights, draw)), heads)
    return {"model": state}


def simclr_v1(weights: State, draw: Draw) -> Any:
    return {"state_dict": {**without_counters(weights), **draw.linear("fc", 2048, 10)}}


_IN_BLOCK = {
    "conv1": "net.0", "bn1": "net.1.0", "conv2": "net.2", "bn2": "net.3.0", "conv3": "net.4", "bn3": "net.5.0",
    "downsample.0": "projection.shortcut", "downsample.1": "projection.bn.0",
}  # fmt: skip


def simclr_v2(weights: State, draw: Draw) -> Any:
    """SimCLRv2 without selective kernels, as SimCLRv2-Pytorch builds it."""
    resnet: State = {}
    for name, tensor in weights.items():
        module, _, tail = name.rpartition(".")
        if module.startswith("layer"):
            stage, block, inner = module.split(".", 2)
            module = f"net.{stage[-1]}.blocks.{block}.{_IN_BLOCK[inner]}"
        else:
            module = {"conv1": "net.0.0", "bn1": "net.0.1.0"}[module]
        resnet[f"{module}.{tail}"] = tensor
    head = draw.linear("layers.0", 2048, N_HIDDEN, bias=False) | draw.norm("layers.1", N_HIDDEN)
    return {"resnet": resnet | draw.linear("fc", 2048, 10), "head": head}


def mmpretrain(weights: State, draw: Draw, *, second: str = "encoder_k.module.0.") -> Any:
    neck = draw.linear("neck.mlp.0", 2048, N_HIDDEN) | draw.linear("neck.mlp.2", N_HIDDEN, 16)
    queue = {"queue": draw.between(-1, 1, 16, 64), "queue_ptr": torch.zeros(1, dtype=torch.long, device=draw.device)}
    state = {**queue, **named("backbone.", weights), **neck, **named(second, another(weights, draw))}
    return {"meta": {"epoch": 200, "mmengine_version": "0.1.0", "dataset_meta": {}}, "state_dict": state}


def esvit(weights: State, draw: Draw) -> Any:
    """The ResNet of EsViT, whose teacher is wrapped for distributed training, for it has batch norms."""
    heads = draw.linear("head.mlp.0", 2048, N_HIDDEN) | draw.linear("head_dense.mlp.0", 2048, N_HIDDEN)
    teacher = named("module.", named("backbone.backbone.", weights), heads)
    student = named("module.", named("backbone.backbone.", another(weights, draw)), heads)
    return {"student": student, "teacher": teacher, "optimizer": sgd(heads.values()), "epoch": 300, "dino_loss": {}}


def satlas(weights: State, draw: Draw) -> Any:
    pyramid = {"intermediates.0.fpn.inner_blocks.0.0.weight": draw.weight(8, 256, 1, 1)}
    heads = draw.linear("heads.0.layers.0", 8, 4)
    return {**named("backbone.resnet.", weights), **draw.linear("backbone.resnet.fc", 2048, 10), **pyramid, **heads}


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
    Source("VISSL, training", "vissl", vissl_training, TRUNK, FEATURES, legacy=True),
    Source("VISSL, training with LARS", "vissl", partial(vissl_training, exclude=LARS.exclude), TRUNK, FEATURES),
    Source(
        "VISSL, state dict of a model",
        "vissl",
        lambda weights, draw: {"model_state_dict": named(FEATURES, weights)},
        ("model_state_dict",),
        FEATURES,
    ),
    Source("VISSL, trunk alone", "vissl", lambda weights, draw: named(FEATURES, weights), prefix=FEATURES),
    Source("VISSL, torchvision's names", "vissl", same),
    Source(
        "VISSL, converted jigsaw",
        "vissl_converted",
        lambda weights, draw: {"model_state_dict": jigsaw(weights, draw)},
        ("model_state_dict",),
        FEATURES,
        legacy=True,
    ),
    Source(
        "VISSL, converted",
        "vissl_converted",
        lambda weights, draw: {"model_state_dict": named(FEATURES, without_counters(weights))},
        ("model_state_dict",),
        FEATURES,
        legacy=True,
    ),
    Source(
        "VISSL, converted on to torchvision's names",
        "vissl_converted",
        lambda weights, draw: without_counters(weights),
        legacy=True,
    ),
    Source("SwAV", "swav", swav_model, prefix="module.", legacy=True, conv=padded_twice),
    Source("DeepCluster-v2", "swav", partial(swav_model, n_heads=3), prefix="module.", legacy=True, conv=padded_twice),
    Source("SwAV, training", "swav", swav_training, ("state_dict",), "module.", legacy=True, conv=padded_twice),
    Source("MoCo v2", "moco", moco, ("state_dict",), "module.encoder_q.", legacy=True),
    Source("MoCo v1", "moco", partial(moco, mlp=False), ("state_dict",), "module.encoder_q.", legacy=True),
    Source("MoCo v2, one process", "moco", partial(moco, prefix=""), ("state_dict",), "encoder_q."),
    Source("MoCo v3", "mocov3", mocov3, ("state_dict",), "module.base_encoder."),
    Source("MoCo v3, one process", "mocov3", partial(mocov3, prefix=""), ("state_dict",), "base_encoder."),
    Source("SimSiam", "simsiam", simsiam, ("state_dict",), "module.encoder."),
    Source("SimSiam, one process", "simsiam", partial(simsiam, prefix=""), ("state_dict",), "encoder."),
    Source("VICReg", "vicreg", same, conv=padded_twice),
    Source("VICReg, training", "vicreg", vicreg_training, ("model",), "module.backbone.", conv=padded_twice),
    Source("VICRegL", "vicregl", same, conv=padded_twice),
    Source(
        "VICRegL, training",
        "vicregl",
        partial(vicreg_training, local=True),
        ("model",),
        "module.backbone.",
        conv=padded_twice,
    ),
    Source("InfoMin", "pycontrast", pycontrast, ("model",), "module.encoder.", legacy=True),
    Source(
        "InfoMin, momentum encoder",
        "pycontrast",
        partial(pycontrast, ema=True),
        ("model",),
        "module.encoder.",
        legacy=True,
    ),
    Source("DISSL", "issl", same),
    Source(
        "DISSL, as its hub builds it",
        "issl",
        lambda weights, draw: {name.replace("resizer.", "avgpool.0."): weights[name] for name in weights},
    ),
    Source("spectral contrastive learning", "speccl", speccl, ("state_dict",), "backbone."),
    Source(
        "MMSelfSup",
        "mmselfsup",
        lambda weights, draw: {"meta": {"epoch": 200, "CLASSES": None}, "state_dict": dict(weights)},
        ("state_dict",),
    ),
    Source(
        "MMSelfSup, extracted",
        "mmselfsup",
        lambda weights, draw: {"state_dict": dict(weights), "author": "MMSelfSup"},
        ("state_dict",),
    ),
    Source("MMSelfSup, DenseCL's training", "mmselfsup", densecl_training, ("state_dict",), "backbone."),
    Source("MMSelfSup, ODC's training", "mmselfsup", odc_training, ("state_dict",), "backbone."),
    Source("lightly", "lightly", lightly, ("state_dict",), "backbone."),
    Source("lightly, DINO", "lightly", partial(lightly, second="student_backbone."), ("state_dict",), "backbone."),
    Source("PixPro", "pixpro", pixpro, ("model",), "module.encoder."),
    Source("TWIST", "twist", same),
    Source("MMPretrain", "mmpretrain", mmpretrain, ("state_dict",), "backbone."),
    Source("EsViT", "esvit", esvit, ("teacher",), "module.backbone.backbone."),
    Source("SatlasPretrain", "satlas", satlas, prefix="backbone.resnet."),
    Source("SparK", "spark", same),
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
