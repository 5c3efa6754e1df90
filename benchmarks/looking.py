"""Seconds of ``zoo look`` against a plain loop of forward passes over the same images.

    python benchmarks/looking.py [ENCODER] [--images 200] [--px 224] [--rounds 3] [--threads 2]

The encoder (``dino_vitS16`` unless given) has random weights. Both sides take the same rendered images, in turns:

* ``timm``: the network of timm, batch by batch under ``torch.inference_mode()``; images are prepared one by one.
* ``look``: features and maps, neighbours and layout; then the page and the PNG files.

Two cores (AMD EPYC, load 1.3), torch 2.15, 200 images, medians of three rounds: the loop 9.9 s, look 6.3 s and its page
2.5 s, together 0.86 times as long; the page has 0.4 MB.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import zoo
from zoo.datasets import open_images
from zoo.looking.showing import write_look
from zoo.looking.visualization import draw_image_sample, look

BATCH = 32


def main() -> None:
    """Prints the seconds of each side and their ratio."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("encoder", nargs="?", default="dino_vitS16")
    parser.add_argument("--images", type=int, default=200)
    parser.add_argument("--px", type=int)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    images = draw_image_sample(
        open_images("shapes:classes=10,train=200,val=1000,size_px=128").val, asked.images, seed=0
    )
    load = partial(zoo.load, pretrained=False, px=asked.px)
    encoder, preprocess = load(asked.encoder)
    network: Any = encoder.backbone
    seconds: dict[str, list[float]] = {"timm": [], "look": [], "page": []}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(asked.rounds):
            start = time.perf_counter()
            with torch.inference_mode():
                for first in range(0, len(images), BATCH):
                    network(torch.stack([preprocess(one) for one in images.images[first : first + BATCH]]))
            seconds["timm"].append(time.perf_counter() - start)
            start = time.perf_counter()
            found = look([asked.encoder], images, load, device="cpu")
            seconds["look"].append(time.perf_counter() - start)
            start = time.perf_counter()
            paths, _ = write_look(found, Path(folder) / "look")
            seconds["page"].append(time.perf_counter() - start)
        n_bytes = {path.name: path.stat().st_size for path in paths}
    ratios = [(look + page) / timm for timm, look, page in zip(*seconds.values(), strict=True)]
    print(", ".join(f"{name} {statistics.median(some):.1f} s" for name, some in seconds.items()))
    print(f"look and page take {statistics.median(ratios):.2f} times as long as the loop")
    print(", ".join(f"{name} {size / 1e6:.2f} MB" for name, size in n_bytes.items()))


if __name__ == "__main__":
    main()
