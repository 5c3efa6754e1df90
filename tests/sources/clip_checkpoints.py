"""What CLIP, OpenCLIP and lossyless call their tensors, the files that they write, and what their ResNets compute."""

from __future__ import annotations

import io
import math
import warnings
from collections import OrderedDict
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from . import in_double
from .vit_checkpoints import SCALER, optimizer_state, under
from .vit_forward import Weights
from .vit_names import Shapes, Size, State, batch_norm_shapes, filled, linear_shapes, norm_shapes, prefixed

ARCHIVED_NUMBERS = {"input_resolution": 224, "context_length": 77, "vocab_size": 49408}


def clip_vit_shapes(size: Size, *, projection: int) -> Shapes:
    """The image tower of OpenAI's and OpenCLIP's, if it is a transformer."""
    shapes: Shapes = {
        "class_embedding": (size.width,),
        "positional_embedding": (size.side**2 + 1, size.width),
        "proj": (size.width, projection),
        "conv1.weight": (size.width, 3, size.patch_px, size.patch_px),
        **norm_shapes("ln_pre", size.width),
        **blocks_shapes(size.width, size.hidden, size.depth),
        **norm_shapes("ln_post", size.width),
    }
    return prefixed("visual.", shapes)


def clip_resnet_shapes(layers: tuple[int, int, int, int], *, width: int, projection: int, image_px: int) -> Shapes:
    """The image tower of OpenAI's, if it is a ModifiedResNet."""
    shapes: Shapes = {}
    for number, n_in, n_out in ((1, 3, width // 2), (2, width // 2, width // 2), (3, width // 2, width)):
        shapes |= {f"conv{number}.weight": (n_out, n_in, 3, 3)} | batch_norm_shapes(f"bn{number}", n_out)
    n_in = width
    for stage, depth in enumerate(layers):
        planes = width * 2**stage
        for block in range(depth):
            at = f"layer{stage + 1}.{block}"
            shapes |= {f"{at}.conv1.weight": (planes, n_in, 1, 1)} | batch_norm_shapes(f"{at}.bn1", planes)
            shapes |= {f"{at}.conv2.weight": (planes, planes, 3, 3)} | batch_norm_shapes(f"{at}.bn2", planes)
            shapes |= {f"{at}.conv3.weight": (4 * planes, planes, 1, 1)} | batch_norm_shapes(f"{at}.bn3", 4 * planes)
            if block == 0:
                shapes[f"{at}.downsample.0.weight"] = (4 * planes, n_in, 1, 1)
                shapes |= batch_norm_shapes(f"{at}.downsample.1", 4 * planes)
            n_in = 4 * planes
    shapes["attnpool.positional_embedding"] = ((image_px // 32) ** 2 + 1, n_in)
    for part in "kqv":
        shapes |= linear_shapes(f"attnpool.{part}_proj", n_in, n_in)
    return prefixed("visual.", shapes | linear_shapes("attnpool.c_proj", n_in, projection))


def clip_text_shapes(*, projection: int, width: int = 32, depth: int = 1) -> Shapes:
    """The text tower, which stands next to the image tower without a prefix."""
    return {
        "positional_embedding": (77, width),
        "text_projection": (width, projection),
        "logit_scale": (),
        "token_embedding.weight": (100, width),
        **blocks_shapes(width, 4 * width, depth),
        **norm_shapes("ln_final", width),
    }


def blocks_shapes(width: int, hidden: int, depth: int) -> Shapes:
    shapes: Shapes = {}
    for number in range(depth):
        at = f"transformer.resblocks.{number}"
        shapes |= {f"{at}.attn.in_proj_weight": (3 * width, width), f"{at}.attn.in_proj_bias": (3 * width,)}
        shapes |= linear_shapes(f"{at}.attn.out_proj", width, width)
        shapes |= norm_shapes(f"{at}.ln_1", width) | linear_shapes(f"{at}.mlp.c_fc", width, hidden)
        shapes |= linear_shapes(f"{at}.mlp.c_proj", hidden, width) | norm_shapes(f"{at}.ln_2", width)
    return shapes


def rate_shapes(dim: int) -> Shapes:
    """The compressor of lossyless: 22 tensors, most of them an entropy bottleneck of CompressAI."""
    shapes: Shapes = {"scaling": (dim,), "biasing": (dim,), "entropy_bottleneck.quantiles": (dim, 1, 3)}
    widths = (1, 3, 3, 3, 3, 1)
    for layer in range(5):
        shapes[f"entropy_bottleneck._matrix{layer}"] = (dim, widths[layer + 1], widths[layer])
        shapes[f"entropy_bottleneck._bias{layer}"] = (dim, widths[layer + 1], 1)
        if layer < 4:
            shapes[f"entropy_bottleneck._factor{layer}"] = (dim, widths[layer + 1], 1)
    shapes |= {"entropy_bottleneck.target": (3,), "entropy_bottleneck.likelihood_lower_bound.bound": (1,)}
    tables = {"_offset": (dim,), "_quantized_cdf": (dim, 50), "_cdf_length": (dim,)}
    return shapes | prefixed("entropy_bottleneck.", tables)


def rate_file(dim: int, *, seed: int) -> State:
    """A compressor that rounds to something between a tenth and one."""
    state = filled(rate_shapes(dim), seed=seed)
    source = torch.Generator().manual_seed(seed)
    state["scaling"] = torch.empty(dim).uniform_(0.0, 2.3, generator=source)
    for name in ("_offset", "_quantized_cdf", "_cdf_length"):
        at = f"entropy_bottleneck.{name}"
        state[at] = torch.zeros(state[at].shape, dtype=torch.int32)
    return OrderedDict(state)


def in_half(weights: State) -> State:
    """As OpenAI converts it: convolutions, linear layers and projections, but neither norms nor embeddings."""

    def is_halved(name: str, tensor: Tensor) -> bool:
        is_norm = ".ln_" in name or ".bn" in name or ".downsample.1" in name or "ln_final" in name
        return not is_norm and (tensor.ndim > 1 or name.endswith("bias")) and "embedding" not in name

    return {name: tensor.half() if is_halved(name, tensor) else tensor for name, tensor in weights.items()}


def torchscript_archive(weights: State) -> bytes:
    """What OpenAI released: a compiled module with the tensors in it, and three numbers as tensors."""
    root = _Holder()
    numbers = {name: torch.tensor(number) for name, number in ARCHIVED_NUMBERS.items()}
    for name, tensor in (weights | numbers).items():
        *path, last = name.split(".")
        module: nn.Module = root
        for part in path:
            if part not in dict(module.named_children()):
                module.add_module(part, _Holder())
            module = module.get_submodule(part)
        if tensor.dtype.is_floating_point and not last.startswith("running_"):
            module.register_parameter(last, nn.Parameter(tensor, requires_grad=False))
        else:
            module.register_buffer(last, tensor)
    file = io.BytesIO()
    with warnings.catch_warnings(action="ignore", category=FutureWarning):  # torch.jit is on its way out, archives stay
        torch.jit.save(torch.jit.script(root.eval()), file)
    return file.getvalue()


class _Holder(nn.Module):
    """Holds tensors and other holders; TorchScript wants something to compile."""

    def forward(self, x: Tensor) -> Tensor:
        return x


def openclip_training(weights: State, *, wrapped: bool = True) -> dict[str, Any]:
    """``main.py`` of OpenCLIP."""
    return {
        "epoch": 32,
        "name": "2022_09-ViT-B-32-laion2b",
        "state_dict": under("module." if wrapped else "", weights),
        "optimizer": optimizer_state(weights),
        "scaler": SCALER,
    }


def clip_resnet(weights: Weights, images: Tensor, *, n_heads: int) -> Tensor:
    """What the attention pool of a ModifiedResNet mixes, before ``c_proj``, (n, 32 width).

    Strides are average pools: in the stem after its third convolution, in a block after its second one and before the
    convolution of its shortcut.
    """
    prefix, images = "visual.", images.double()
    tower = in_double({name.removeprefix(prefix): weights[name] for name in weights if name.startswith(prefix)})

    def conv(x: Tensor, name: str, *, stride: int = 1) -> Tensor:
        weight = tower[f"{name}.weight"]
        return F.conv2d(x, weight, stride=stride, padding=weight.shape[-1] // 2)

    def norm(x: Tensor, name: str) -> Tensor:
        mean, variance, scale, shift = (
            tower[f"{name}.{part}"][:, None, None] for part in ("running_mean", "running_var", "weight", "bias")
        )
        return (x - mean) / torch.sqrt(variance + 1e-5) * scale + shift

    x = norm(conv(images, "conv1", stride=2), "bn1").relu()
    x = norm(conv(x, "conv2"), "bn2").relu()
    x = F.avg_pool2d(norm(conv(x, "conv3"), "bn3").relu(), 2)
    for stage in range(1, 5):
        block = 0
        while f"layer{stage}.{block}.conv1.weight" in tower:
            at = f"layer{stage}.{block}"
            stride = 2 if stage > 1 and block == 0 else 1
            out = norm(conv(x, f"{at}.conv1"), f"{at}.bn1").relu()
            out = norm(conv(out, f"{at}.conv2"), f"{at}.bn2").relu()
            out = norm(conv(F.avg_pool2d(out, stride), f"{at}.conv3"), f"{at}.bn3")
            if f"{at}.downsample.0.weight" in tower:
                x = norm(conv(F.avg_pool2d(x, stride), f"{at}.downsample.0"), f"{at}.downsample.1")
            x = (x + out).relu()
            block += 1
    return attention_pool(tower, x, n_heads=n_heads)


def attention_pool(tower: Weights, grid: Tensor, *, n_heads: int) -> Tensor:
    """One query, the mean of the grid (n, width, side, side), looks at itself and at every place."""

    def linear(x: Tensor, name: str) -> Tensor:
        weight, bias = (tower[f"attnpool.{name}.{part}"] for part in ("weight", "bias"))
        return (x @ weight.T + bias).unflatten(-1, (n_heads, -1)).transpose(1, 2)  # (n, heads, tokens, width / heads)

    tokens = grid.flatten(2).transpose(1, 2)
    tokens = torch.cat((tokens.mean(dim=1, keepdim=True), tokens), dim=1)
    tokens = tokens + tower["attnpool.positional_embedding"]
    query, keys, values = linear(tokens[:, :1], "q_proj"), linear(tokens, "k_proj"), linear(tokens, "v_proj")
    scores = (query @ keys.transpose(-2, -1)) / math.sqrt(keys.shape[-1])
    return (scores.softmax(dim=-1) @ values).transpose(1, 2).flatten(1)


def projected(class_token: Tensor, weights: Weights) -> Tensor:
    """To the space shared with text; the matrix is (width, proj)."""
    return class_token @ weights["visual.proj"].double()


def quantised(z: Tensor, rate: Weights) -> Tensor:
    """What a receiver decodes of lossyless' features: whole steps are cut at halves."""
    steps_a_unit, shift = rate["scaling"].double().exp(), rate["biasing"].double()
    medians = rate["entropy_bottleneck.quantiles"].double()[:, 0, 1]
    symbols = torch.round((z.double() + shift) * steps_a_unit - medians)
    return (symbols + medians) / steps_a_unit - shift
