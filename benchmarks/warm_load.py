"""How long a ResNet-50 takes from the cache, compared with what a user would otherwise run.

    python benchmarks/warm_load.py [-n 31]

Two questions, each measured alternately in one process and given as a ratio of medians:

1. The weights alone: every byte checked, and mapped into a ResNet-50 that is there, compared with the bare
   ``load_state_dict(safetensors.torch.load_file(path))``, which checks nothing. The goal is at most 1.5.
2. All of ``zoo.load``: card, architecture, check, weights and preprocessing, compared with
``torchvision.models.resnet50()``
   with the bare load. The goal is at most 1.5 here too.

The third line holds all of ``zoo.load``, the network built anew, against a bare load into a network that is there.
The cache is filled by the real thing: a checkpoint of VISSL's layout, read, converted and kept.

Measured on two quiet cores with torch 2.15, medians of 31: 14.9 and 15.3 ms (1.03), 185 and 34 ms (0.19), 2.3.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors.torch import load_file
from torchvision.models import resnet50

_GOAL = 1.5


def checkpoint(path: Path) -> None:
    """A ResNet-50 with random weights, nested as VISSL nests them."""
    generator = torch.Generator().manual_seed(0)
    state = {
        f"_feature_blocks.{name}": _drawn(name, tensor, generator) if tensor.ndim else tensor
        for name, tensor in resnet50().state_dict().items()
        if not name.startswith("fc.")
    }
    nested = {"classy_state_dict": {"base_model": {"model": {"trunk": state, "heads": {}}}}}
    torch.save(nested, path)


def _drawn(name: str, tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    if tensor.ndim == 4:  # of a convolution, so that features neither vanish nor explode
        return torch.randn(tensor.shape, generator=generator) * (2 / tensor[0].numel()) ** 0.5
    return torch.rand(tensor.shape, generator=generator) + 0.5


def medians(n: int, *timed: Callable[[], object]) -> list[float]:
    """Median milliseconds of each, run in turn."""
    found: list[list[float]] = [[] for _ in timed]
    for number in range(n + 2):
        for times, function in zip(found, timed, strict=True):
            start = time.perf_counter()
            function()
            if number >= 2:  # the first ones warm the caches
                times.append((time.perf_counter() - start) * 1e3)
    return [statistics.median(times) for times in found]


def main() -> int:
    """Prints both ratios; 1 if one is over the goal."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", type=int, default=31, help="runs of each, in turn")
    n = parser.parse_args().n
    with tempfile.TemporaryDirectory() as private:
        for variable in ("ZOO_CACHE", "ZOO_HOME"):
            os.environ[variable] = str(Path(private, variable))
        import zoo
        from zoo.cards.catalogue import load_catalogue
        from zoo.encoders import build_empty_encoder
        from zoo.loading import obtain

        file = Path(private, "vissl.torch")
        checkpoint(file)
        zoo.load("simclr_rn50", weights=file)
        card = load_catalogue()["simclr_rn50"]
        encoder = build_empty_encoder(card)
        found = obtain(card, encoder, weights=str(file))
        bare = build_empty_encoder(card)
        zoo.register(file, like="simclr_rn50", name="warm")

        def ours() -> None:
            encoder.load_state_dict(found.tensors(remedy="do it again"), assign=True)

        def theirs() -> None:
            bare.load_state_dict(load_file(found.path))

        def all_of_ours() -> None:
            zoo.load("warm")

        def all_of_theirs() -> None:
            state = {name.removeprefix("backbone."): tensor for name, tensor in load_file(found.path).items()}
            resnet50().load_state_dict(state, strict=False)

        bare_ms, ours_ms, whole_bare_ms, whole_ms = medians(n, theirs, ours, all_of_theirs, all_of_ours)
    megabytes = found.record.size_bytes / 1e6
    print(f"ResNet-50, {megabytes:.0f} MB, {os.cpu_count()} cores, torch {torch.__version__}, medians of {n}")
    print(f"{'':34}{'bare':>10}{'zoo':>10}{'ratio':>8}")
    rows = [
        ("weights into a module", bare_ms, ours_ms),
        ("module and weights (zoo.load)", whole_bare_ms, whole_ms),
        ("zoo.load, compared with the weights alone", bare_ms, whole_ms),
    ]
    for what, theirs_ms, our_ms in rows:
        print(f"{what:34}{theirs_ms:7.1f} ms{our_ms:7.1f} ms{our_ms / theirs_ms:8.2f}")
    return int(max(ours_ms / bare_ms, whole_ms / whole_bare_ms) > _GOAL)


if __name__ == "__main__":
    sys.exit(main())
