"""Compares what other packages count as the operations of a network with ours, into docs/counters.json.

    python scripts/compare_counters.py [NETWORK...] [--uv PATH] [--environment DIR]

All counters are installed into one environment with pinned versions, by ``uv`` if it is on the path or given, else by
venv and pip with this Python; ``UV_*`` and ``PIP_*`` reach them. Every number comes from a process of its own, for
several counters replace functions of PyTorch, and one that fails leaves them replaced: the next one in the same process
then fails or counts several times. Networks that are not named keep their numbers. ``python docs/generate.py`` writes
the tables of docs/costs.md. Takes about ten minutes on two cores.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import multiprocessing
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

NUMBERS = Path(__file__).resolve().parents[1] / "docs" / "counters.json"
NETWORK_PACKAGES = ("torch==2.15.0", "torchvision==0.29.2", "timm==1.0.31", "transformers==5.23.0", "numpy==2.4.6")
COUNTER_PACKAGES = (
    "torchprofile==0.1.0",
    "thop==0.1.1.post2209072238",
    "ptflops==0.7.5",
    "torchinfo==1.8.0",
    "fvcore==0.1.5.post20221221",
    "calflops==0.3.2",
    "deepspeed==0.19.8",
)
PX = 224
BY_PARTS = "ViT-B/16, timm, fused"


def networks() -> dict[str, Callable[[], Any]]:
    """Every network that is counted, without a classifier, by what the page calls it."""
    import timm
    import torchvision
    from timm.layers import set_fused_attn
    from torch import nn
    from transformers import ViTConfig, ViTModel

    def of_timm(name: str, *, fused: bool = True, **options: Any) -> Any:
        set_fused_attn(fused, experimental=True)  # some networks of timm fuse on request alone
        return timm.create_model(name, num_classes=0, **options)

    def of_transformers(attention: str) -> Any:
        return ViTModel(ViTConfig(attn_implementation=attention), add_pooling_layer=False)

    def of_torchvision(name: str, head: str) -> Any:
        network = torchvision.models.get_model(name)
        setattr(network, head, nn.Identity())
        return network

    vit, swin = "vit_base_patch16_224", "swin_tiny_patch4_window7_224"
    return {
        "ViT-B/16, timm, fused": lambda: of_timm(vit),
        "ViT-B/16, timm, not fused": lambda: of_timm(vit, fused=False),
        "ViT-B/16, transformers, fused": lambda: of_transformers("sdpa"),
        "ViT-B/16, transformers, not fused": lambda: of_transformers("eager"),
        "ViT-B/16, torchvision": lambda: of_torchvision("vit_b_16", "heads"),
        "Swin-T, timm, fused": lambda: of_timm(swin),
        "Swin-T, timm, not fused": lambda: of_timm(swin, fused=False),
        "ConvNeXt-T, timm": lambda: of_timm("convnext_tiny"),
        "ResNet-50, torchvision": lambda: of_torchvision("resnet50", "fc"),
    }


def parts(network: Any, images: Any) -> dict[str, int]:
    """Multiply-adds with weights, those of attention's products, outputs with a bias, and numbers that are normed.

    By definition, from the shapes of what goes through: independent of every counter. Attention is that of one image's
    tokens, all with all, as in a ViT.
    """
    import torch
    from torch import nn

    found = dict.fromkeys(("weights", "attention", "biases", "norms", "activations"), 0)

    def add(layer: nn.Module, given: tuple[Any, ...], made: Any) -> None:
        if isinstance(layer, nn.Linear | nn.Conv2d):
            found["weights"] += made.numel() * layer.weight[0].numel()
            found["biases"] += made.numel() * (layer.bias is not None)
        elif isinstance(layer, nn.LayerNorm):
            found["norms"] += made.numel()
        elif isinstance(layer, nn.GELU):
            found["activations"] += made.numel()
        elif type(layer).__name__ == "Attention":
            _, n, dim = made.shape
            found["attention"] += 2 * n * n * dim  # queries with keys, weights with values

    for layer in network.modules():
        layer.register_forward_hook(add)
    with torch.no_grad():
        network(images)
    return found


def count_torch(network: Any, images: Any) -> int:
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        network(images)
    return counter.get_total_flops()


def count_torchprofile(network: Any, images: Any) -> int:
    from torchprofile import profile_macs

    return profile_macs(network, images)


def count_thop(network: Any, images: Any) -> int:
    from thop import profile

    return profile(network, (images,), verbose=False)[0]


def count_ptflops(backend: str) -> Callable[[Any, Any], int]:
    def count(network: Any, images: Any) -> int:
        from ptflops import get_model_complexity_info

        options = {"print_per_layer_stat": False, "as_strings": False, "backend": backend}
        return get_model_complexity_info(network, tuple(images.shape[1:]), **options)[0]

    return count


def count_torchinfo(network: Any, images: Any) -> int:
    from torchinfo import summary

    return summary(network, input_data=images, verbose=0).total_mult_adds


def count_fvcore(network: Any, images: Any) -> int:
    from fvcore.nn import FlopCountAnalysis

    return FlopCountAnalysis(network, images).unsupported_ops_warnings(False).uncalled_modules_warnings(False).total()


def count_calflops(kind: int) -> Callable[[Any, Any], int]:
    def count(network: Any, images: Any) -> int:
        from calflops import calculate_flops

        given = (
            {"args": [images]}
            if type(network).__module__.startswith("transformers")
            else {"input_shape": tuple(images.shape)}
        )
        return calculate_flops(network, **given, print_results=False, output_as_string=False)[kind]

    return count


def count_deepspeed(kind: int) -> Callable[[Any, Any], int]:
    def count(network: Any, images: Any) -> int:
        from deepspeed.profiling.flops_profiler import get_model_profile

        return get_model_profile(network, args=[images], print_profile=False, as_string=False)[kind]

    return count


COUNTERS: dict[str, Callable[[Any, Any], int]] = {
    "torch": count_torch,
    "torchprofile": count_torchprofile,
    "thop": count_thop,
    "ptflops pytorch": count_ptflops("pytorch"),
    "ptflops aten": count_ptflops("aten"),
    "torchinfo": count_torchinfo,
    "fvcore": count_fvcore,
    "calflops flops": count_calflops(0),
    "calflops macs": count_calflops(1),
    "deepspeed flops": count_deepspeed(0),
    "deepspeed macs": count_deepspeed(1),
}

OPERATIONS_EACH = {name: 1 if name == "torch" or name.endswith("flops") else 2 for name in COUNTERS}
"""Operations that one of a counter stands for: the others count a multiplication and the addition behind it as one."""


def count_alone(answer: Any, network: str, counter: str | None) -> None:
    """In a process of its own: sends what a counter says of a network, or the parts of it; an error as its sentence."""
    import torch

    torch.manual_seed(0)
    torch.set_num_threads(1)
    try:
        with torch.no_grad(), contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            built, images = networks()[network]().eval(), torch.randn(1, 3, PX, PX)
            found: Any = parts(built, images) if counter is None else int(COUNTERS[counter](built, images))
    except Exception as error:  # any counter may fail in any way: that is what the page says of it
        found = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
    answer.send(found)


def count_here(names: Sequence[str]) -> dict[str, Any]:
    """What every counter of this environment says of the named networks, or of all."""
    apart, known = multiprocessing.get_context("fork"), list(networks())  # what is slow to import is so once

    def alone(network: str, counter: str | None) -> Any:
        answer, other = apart.Pipe(duplex=False)
        process = apart.Process(target=count_alone, args=(other, network, counter))
        process.start()
        other.close()
        found = answer.recv()
        process.join()
        print(f"{network}: {counter}: {found}", file=sys.stderr, flush=True)
        return found

    packages = [package.partition("==")[0] for package in (*NETWORK_PACKAGES, *COUNTER_PACKAGES)]
    return {
        "python": platform.python_version(),
        "versions": {package: version(package) for package in packages},
        "counted": {network: {counter: alone(network, counter) for counter in COUNTERS} for network in names or known},
        "parts": alone(BY_PARTS, None),
    }


def count_ours() -> dict[str, int]:
    """What the zoo counts, operations of an image."""
    import torch

    from zoo.encoders.costs import compute_network_cost

    found = {}
    for name, build in networks().items():
        with torch.device("meta"):
            found[name] = round(1e9 * compute_network_cost(build().eval(), PX).gflops)
    return found


def make_environment(folder: Path, uv: str | None) -> Path:
    """The interpreter of an environment with everything that counts; made where there is none."""
    python = folder / "bin" / "python"
    if not python.exists():
        if uv:
            subprocess.run([uv, "venv", "--quiet", str(folder)], check=True)
        else:
            venv.create(folder, with_pip=True)
        install = [uv, "pip", "install", "--python", str(python)] if uv else [str(python), "-m", "pip", "install"]
        subprocess.run([*install, "--quiet", *NETWORK_PACKAGES, *COUNTER_PACKAGES], check=True)
    return python


def main() -> None:
    """Count in the environment, count ours, and write the numbers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help="as the page calls it; all unless given")
    parser.add_argument("--uv", default=shutil.which("uv"), help="path of uv")
    parser.add_argument(
        "--environment", type=Path, help="folder of the environment, which stays; otherwise it is removed"
    )
    parser.add_argument("--count", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.count:
        json.dump(count_here(options.networks), sys.stdout)
        return
    with tempfile.TemporaryDirectory() as empty:
        python = make_environment(options.environment or Path(empty) / "environment", options.uv)
        done = subprocess.run(
            [python, "-P", __file__, "--count", *options.networks],
            stdout=subprocess.PIPE,
            check=True,
            cwd=empty,
            env=os.environ | {"HF_HUB_OFFLINE": "1", "PYTHONWARNINGS": "ignore"},
        )
    before = json.loads(NUMBERS.read_text(encoding="utf-8"))["counted"] if options.networks else {}
    found = {"made": datetime.now(UTC).date().isoformat()} | json.loads(done.stdout)
    found |= {"ours": count_ours(), "operations_each": OPERATIONS_EACH}
    found["counted"] = before | found["counted"]
    NUMBERS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
