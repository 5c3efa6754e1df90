"""What featurising adds to a bare loop of forward passes, and what share of it decoding is.

    python benchmarks/featurise.py [--encoders simclr_rn50 init_vitS16] [--batches 4] [--batch-size 64] [--rounds 5]
                                   [--workers 0] [--precision float32] [--device cpu] [--json FILE]

For each encoder, with random weights, in turn and in one process:

* ``bare``: ``encoder(batch)`` over batches of decoded tensors that lie in memory, in the same layout and precision;
* ``decoded``: :func:`zoo.features.featurise` of the same tensors as an image set, into a folder: hashing the weights,
  batching, checking, writing and mapping the shards included. The goal is at most 1.05 times ``bare``;
* ``jpeg``: the same of JPEG files of 500 x 375 px, decoded and preprocessed as the card says;
* ``decode``: decoding and preprocessing of these files alone, one after the other, as a share of ``bare``;
* ``contiguous``: the bare loop in torch's default layout, where that is another one, to see what the layout is worth.

On two cores (load 2, of this run itself): ResNet-50, 256 images, ``decoded`` 0.98 of ``bare``, decoding 4.4 % of the
forward passes; ViT-S, 128 images, 3 rounds, 1.03 and 4.2 %; from JPEG files 1.02 and 1.08.

Columns are medians of wall-clock seconds, their ratio to ``bare``, and seconds of all cores. On a busy machine the
ratio is wrong in both directions: look at the load. Try it with ``--batches 1 --batch-size 8 --rounds 1``. Ends with 1
if ``decoded`` is over the goal.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from zoo.cards.catalogue import catalogue
from zoo.datasets import ImageSet, LazyImages
from zoo.drift import full_precision
from zoo.encoders import build_encoder
from zoo.encoders.preprocess import build_preprocess
from zoo.features import featurise
from zoo.features.computing import PRECISIONS, device_for, in_layout, is_convolutional

_GOAL = 1.05


class Jpegs:
    """Decodes JPEG files that lie in memory."""

    def __init__(self, files: list[bytes]) -> None:
        self.files = files

    def __call__(self, index: int) -> Image.Image:
        return Image.open(io.BytesIO(self.files[index]))


class Decoded:
    """The preprocessing of what is a tensor already."""

    def __repr__(self) -> str:
        return "Decoded()"

    def __call__(self, image: torch.Tensor) -> torch.Tensor:
        return image


def jpegs(n: int) -> list[bytes]:
    """Files with the statistics of photographs as far as a decoder feels them: smooth, with some noise."""
    random = np.random.default_rng(0)
    found = []
    for _ in range(n):
        coarse = random.integers(0, 256, (6, 8, 3), dtype=np.uint8)
        smooth = np.asarray(Image.fromarray(coarse).resize((500, 375), Image.Resampling.BICUBIC), dtype=np.int16)
        noisy = np.clip(smooth + random.integers(-12, 13, smooth.shape), 0, 255).astype(np.uint8)
        file = io.BytesIO()
        Image.fromarray(noisy).save(file, format="JPEG", quality=90)
        found.append(file.getvalue())
    return found


def image_set(images: Any, n: int, name: str) -> ImageSet:
    """An image set for featurise, whatever its images are."""
    return ImageSet(
        name=name,
        split="all",
        images=images,
        labels=np.zeros(n, np.int64),
        classes=("any",),
        names=[str(number) for number in range(n)],
        fingerprint="0",
    )


def timed(sides: dict[str, Callable[[], object]], rounds: int) -> dict[str, dict[str, float]]:
    """Median wall-clock and processor seconds of each side, run in turn after a round to warm up."""
    walls: dict[str, list[float]] = {side: [] for side in sides}
    processor: dict[str, list[float]] = {side: [] for side in sides}
    for number in range(rounds + 1):
        for side, function in sides.items():
            wall, used = time.perf_counter(), time.process_time()
            function()
            if number:
                walls[side].append(time.perf_counter() - wall)
                processor[side].append(time.process_time() - used)
    return {
        side: {"wall_s": statistics.median(walls[side]), "processor_s": statistics.median(processor[side])}
        for side in sides
    }


def measure(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """All sides for one encoder."""
    card = catalogue()[name]
    encoder, preprocess = build_encoder(card), build_preprocess(card.preprocess)
    n = options.batches * options.batch_size
    decoder = Jpegs(jpegs(n))
    files = image_set(LazyImages(decoder, np.arange(n)), n, "jpeg")
    tensors = [preprocess(decoder(number)) for number in range(n)]
    device, precision = device_for(encoder, options.device), PRECISIONS[options.precision]
    encoder.to(device).eval()
    batches = [torch.stack(tensors[at : at + options.batch_size]) for at in range(0, n, options.batch_size)]

    def bare(channels_last: bool) -> None:
        with (
            in_layout(encoder, channels_last) as layout,
            torch.inference_mode(),
            torch.autocast(device.type, dtype=precision, enabled=precision is not None),
            full_precision(),
        ):
            for batch in batches:
                encoder(batch.to(device, memory_format=layout)).cpu()

    def ours(images: ImageSet, transform: Any) -> None:
        with tempfile.TemporaryDirectory() as folder:
            featurise(
                encoder,
                transform,
                images,
                name=name,
                folder=folder,
                batch_size=options.batch_size,
                n_workers=options.workers,
                device=device,
                precision=options.precision,
            )

    def decode() -> None:
        for number in range(n):
            preprocess(decoder(number))

    convolutional = is_convolutional(encoder)
    sides: dict[str, Callable[[], object]] = {
        "bare": lambda: bare(convolutional),
        "decoded": lambda: ours(image_set(tensors, n, "decoded"), Decoded()),
        "jpeg": lambda: ours(files, preprocess),
        "decode": decode,
    }
    if convolutional:
        sides["contiguous"] = lambda: bare(False)
    found = timed(sides, options.rounds)
    for side in found.values():
        side["ratio"] = side["wall_s"] / found["bare"]["wall_s"]
    return {"encoder": name, "n_images": n, "device": str(device), "precision": options.precision, "sides": found}


def main() -> int:
    """Prints a table for each encoder; 1 if the pipeline adds more than the goal."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--encoders", nargs="+", default=["simclr_rn50", "init_vitS16"])
    parser.add_argument("--batches", type=int, default=4)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--precision", choices=list(PRECISIONS), default="float32")
    parser.add_argument("--device")
    parser.add_argument("--json", type=Path, help="keep the numbers in this file")
    options = parser.parse_args()
    loads = [os.getloadavg()[0]]
    documents = []
    for name in options.encoders:
        found = measure(name, options)
        documents.append(found)
        n = found["n_images"]
        print(f"\n{name}: {n} images, batches of {options.batch_size}, {found['device']}, {found['precision']}")
        print(f"{'':12}{'seconds':>10}{'ratio':>8}{'processor s':>13}{'images/s':>10}")
        for side, numbers in found["sides"].items():
            wall = numbers["wall_s"]
            print(f"{side:12}{wall:10.2f}{numbers['ratio']:8.3f}{numbers['processor_s']:13.2f}{n / wall:10.1f}")
        print(f"decoding takes {found['sides']['decode']['ratio']:.1%} of what the forward passes take")
    loads.append(os.getloadavg()[0])
    print(
        f"\ntorch {torch.__version__}, {torch.get_num_threads()} threads, {os.cpu_count()} cores, medians of ", end=""
    )
    print(f"{options.rounds}; load {loads[0]:.1f} before and {loads[1]:.1f} after")
    if options.json:
        about = {"torch": torch.__version__, "threads": torch.get_num_threads(), "loads": loads}
        options.json.write_text(json.dumps({**about, "encoders": documents}, indent=1))
    return int(any(found["sides"]["decoded"]["ratio"] > _GOAL for found in documents))


if __name__ == "__main__":
    sys.exit(main())
