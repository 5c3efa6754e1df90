"""How well a network's speed is expected from its cost: expected and measured images per second, and their ratio.

    python benchmarks/expected_speed.py [--device cpu] [--batch-size 16] [--rounds 3] [--json FILE]

In every round, for each network with random weights in turn, the three reference networks are timed anew
(:func:`zoo.encoders.costs.calibrate_device`), then the network itself, so that a busy moment hits both sides. The
references are no part of the list. Columns: GFLOPs of an image, expected and measured images per second (medians of the
rounds), and the median ratio. Below is the factor within which nine in ten of all ratios are:
``zoo.encoders.costs.FACTOR`` must be no less.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
from pathlib import Path

import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from zoo.cards.catalogue import load_catalogue
from zoo.encoders import build_encoder
from zoo.encoders.costs import (
    FACTOR,
    calibrate_device,
    compute_network_cost,
    estimate_seconds_per_image,
    time_forward_passes,
)
from zoo.encoders.timm_models import build_timm_model
from zoo.features.computing import use_memory_format

CARDS = ("pocket_init_rn", "pocket_init_vit", "sup_efficientnet_lite1", "sup_rn50", "dino_vitS16")
OF_TIMM = (
    ("convnext_nano", 224), ("swin_tiny_patch4_window7_224", 224), ("mobilenetv3_large_100", 224), ("resnet34", 160),
    ("vit_small_patch32_224", 224), ("regnety_016", 224), ("deit3_small_patch16_224", 224), ("densenet121", 160),
)  # fmt: skip


def networks() -> dict[str, tuple[nn.Module, nn.Module, int]]:
    """Each network on the CPU and on the meta device, and the side of its images, by name."""
    found: dict[str, tuple[nn.Module, nn.Module, int]] = {}
    for name in CARDS:
        card = load_catalogue()[name]
        found[name] = (build_encoder(card, device="cpu"), build_encoder(card, device="meta"), card.preprocess.crop_px)
    for name, px in OF_TIMM:
        real = build_timm_model(name)[0].eval().requires_grad_(False)
        with torch.device("meta"):
            found[name] = (real, build_timm_model(name)[0].eval().requires_grad_(False), px)
    return found


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    rows = []
    for name, (network, on_meta, px) in networks().items():
        cost = compute_network_cost(on_meta, px)
        expected, measured = [], []
        for _ in range(options.rounds):
            rates = calibrate_device(options.device)
            with use_memory_format(network, None) as layout:
                speed = time_forward_passes(
                    network, px, options.device, options.batch_size, seconds=0.5, memory_format=layout
                )
            expected.append(1 / estimate_seconds_per_image(cost, rates, options.batch_size))
            measured.append(speed)
        network.to("cpu")
        ratios = [b / a for a, b in zip(expected, measured, strict=True)]
        rows.append(
            {
                "network": name,
                "gflops": cost.gflops,
                "expected": statistics.median(expected),
                "measured": statistics.median(measured),
                "ratio": statistics.median(ratios),
            }
        )
        one = rows[-1]
        print(
            f"{name:32} {one['gflops']:8.3f} {one['expected']:9.1f} {one['measured']:9.1f} {one['ratio']:6.2f}",
            flush=True,
        )
    away = sorted(math.exp(abs(math.log(float(row["ratio"])))) for row in rows)
    nine_in_ten = away[math.ceil(0.9 * len(away)) - 1]
    print(f"nine in ten within a factor of {nine_in_ten:.2f}, the worst {away[-1]:.2f}; stated: {FACTOR}")
    if options.json:
        options.json.write_text(json.dumps({"rows": rows, "factor": nine_in_ten}, indent=1))
    return int(nine_in_ten > FACTOR)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
