"""What CLIP, OpenCLIP and lossyless call their tensors, how large these are, and the files that they write."""

from __future__ import annotations

import io
import warnings
from collections import OrderedDict
from typing import Any

import torch
from torch import Tensor, nn

from .vit_checkpoints import SCALER, optimizer_state, under
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
    """The text tower, which stands beside the image tower without a prefix."""
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
