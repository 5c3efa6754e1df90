"""Where the time goes before an encoder sees an image: opening, decoding, resizing; and what faster ways change.

    python benchmarks/decoding.py [--images 2000] [--files 40] [--encoders ID ...] [--json FILE]

JPEG files of 4,032 x 3,024 and of 500 x 375 px, so many different ones, read over and over. Milliseconds an image of
one core (processor time), medians over the images:

* ``open``, ``decode``, ``resize``, ``crop``, ``to tensor``: the steps of the preprocessing of a card (256, 224 px).
* ``all``: the whole preprocessing of a path, as ``zoo.load`` gives it; ``fast``: with ``fast_resize=True``.
* ``torchvision``: ``torchvision.io.decode_jpeg`` in place of Pillow: whether its pixels are the same.
* ``draft``: Pillow decodes at a quarter or half of the size, at least twice the target, and resizes that: how far its
  pixels are, in steps of 255, mean and most.

``off``: how far features are from the exact ones, relative, mean and most over the files, by encoder: with
``fast_resize`` and with ``draft``.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torchvision.io import ImageReadMode, decode_jpeg

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import zoo
from zoo.cards.catalogue import load_catalogue
from zoo.encoders.preprocess import build_preprocess
from zoo.encoders.processor import keep_memory

SIZES = {"12 megapixels": (4032, 3024), "500 px": (500, 375)}
CARD = "sup_efficientnet_lite0"  # 256 px, bicubic, and a crop of 224
ENCODERS = ("pocket_simclr_rn_shapes", "pocket_dino_vit_shapes")


def photograph(path: Path, width: int, height: int, seed: int) -> None:
    """A file with edges, smooth parts and some noise."""
    random = np.random.default_rng(seed)
    coarse = random.integers(0, 256, (12, 16, 3), dtype=np.uint8)
    pixels = np.asarray(
        Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC), dtype=np.int16
    ).copy()
    for _ in range(60):
        x, y, side = random.integers(0, width), random.integers(0, height), random.integers(width // 60, width // 6)
        pixels[y : y + side, x : x + side] = random.integers(0, 256, 3)
    noisy = np.clip(pixels + random.integers(-8, 9, pixels.shape), 0, 255).astype(np.uint8)
    Image.fromarray(noisy).save(path, format="JPEG", quality=90)


def opened(path: Path) -> Image.Image:
    with Image.open(path) as image:
        image.load()
    return image


def drafted(path: Path, least: int) -> Image.Image:
    """The image, decoded at the smallest eighth, quarter or half of its size that has so many pixels a side."""
    with Image.open(path) as image:
        image.draft("RGB", (least, least))
        image.load()
    return image


class Clock:
    """Processor milliseconds by step."""

    def __init__(self) -> None:
        self.taken: dict[str, list[float]] = defaultdict(list)

    def __call__(self, step: str, function: Callable[[], Any]) -> Any:
        began = time.process_time()
        found = function()
        self.taken[step].append(1000 * (time.process_time() - began))
        return found


def profile(files: list[Path], n: int) -> dict[str, Any]:
    """Milliseconds by step, and differences of pixels."""
    card = load_catalogue()[CARD].preprocess
    whole, fast = build_preprocess(card), build_preprocess(card, fast_resize=True)
    rgb, resize, crop, to_tensor, normalize = whole.transforms
    clock, same, apart = Clock(), True, []
    for number in range(n):
        path = files[number % len(files)]
        head = clock("open", lambda path=path: Image.open(path))
        clock("decode", head.load)
        small = clock("resize", lambda head=head: resize(rgb(head)))
        square = clock("crop", lambda small=small: crop(small))
        clock("to tensor", lambda square=square: normalize(to_tensor(square)))
        clock("all", lambda path=path: whole(opened(path)))
        clock("fast", lambda path=path: fast(opened(path)))
        data = torch.frombuffer(bytearray(path.read_bytes()), dtype=torch.uint8)
        pixels = clock("torchvision", lambda data=data: decode_jpeg(data, mode=ImageReadMode.RGB))
        draft = clock("draft", lambda path=path: crop(resize(rgb(drafted(path, 2 * card.resize_px)))))
        if number < len(files):
            same &= bool(np.array_equal(np.asarray(head), pixels.permute(1, 2, 0).numpy()))
            steps = np.abs(np.asarray(draft).astype(int) - np.asarray(square).astype(int))
            apart.append((float(steps.mean()), int(steps.max())))
    return {
        "milliseconds": {step: statistics.median(taken) for step, taken in clock.taken.items()},
        "torchvision_is_exact": same,
        "draft_steps": [statistics.mean(mean for mean, _ in apart), max(most for _, most in apart)],
    }


def drift(files: list[Path], name: str) -> dict[str, list[float]]:
    """How far features are from the exact ones, relative: mean and most."""
    encoder, exact = zoo.load(name)
    fast = zoo.load(name, fast_resize=True)[1]
    least = 2 * load_catalogue()[name].preprocess.resize_px
    ways = {
        "exact": [exact(opened(path)) for path in files],
        "fast_resize": [fast(opened(path)) for path in files],
        "draft": [exact(drafted(path, least)) for path in files],
    }
    with torch.inference_mode():
        features = {way: encoder(torch.stack(images)) for way, images in ways.items()}
    right = features.pop("exact")
    apart = {way: (x - right).norm(dim=1) / right.norm(dim=1) for way, x in features.items()}
    return {way: [float(one.mean()), float(one.max())] for way, one in apart.items()}


def main() -> None:
    """Prints a table for each size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=2000, help="of each size")
    parser.add_argument("--files", type=int, default=40, help="different ones")
    parser.add_argument("--encoders", nargs="+", default=list(ENCODERS))
    parser.add_argument("--json", type=Path, help="keep the numbers in this file")
    options = parser.parse_args()
    torch.set_num_threads(1)
    keep_memory()  # as computing features does
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for size, (width, height) in SIZES.items():
            files = [Path(folder) / f"{width}-{number}.jpeg" for number in range(options.files)]
            for number, path in enumerate(files):
                photograph(path, width, height, number)
            found[size] = profile(files, options.images)
            found[size]["off"] = {name: drift(files, name) for name in options.encoders}
            steps = found[size]["milliseconds"]
            print(
                f"\n{size}, {options.images} images: " + ", ".join(f"{step} {ms:.2f} ms" for step, ms in steps.items())
            )
            print(f"all is {steps['all'] / steps['fast']:.2f} times fast", end="; ")
            print(f"torchvision decodes the same pixels: {found[size]['torchvision_is_exact']}", end="; ")
            print("draft: {:.2f} of 255 mean, {} most".format(*found[size]["draft_steps"]))
            for name, ways in found[size]["off"].items():
                print(
                    f"off, {name}: "
                    + ", ".join(f"{way} {mean:.1e} mean, {most:.1e} most" for way, (mean, most) in ways.items())
                )
    print(f"load {os.getloadavg()[0]:.1f}")
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
