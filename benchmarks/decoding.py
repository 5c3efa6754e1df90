"""Where the time goes before an encoder sees an image: opening, decoding, resizing; and what faster ways change.

    python benchmarks/decoding.py [--images 2000] [--files 40] [--encoders ID ...] [--json FILE]
    python benchmarks/decoding.py --kinds
    python benchmarks/decoding.py --idle sup_efficientnet_lite0 [--images 512]

JPEG files of 4,032 x 3,024 and of 500 x 375 px, so many different ones, read over and over. Milliseconds an image of
one core (processor time), medians over the images:

* ``open``, ``decode``, ``resize``, ``crop``, ``to tensor``: the steps of the preprocessing of a card (256, 224 px).
* ``all``: the whole preprocessing of a path, as ``zoo.load`` gives it; ``fast``: with ``fast_resize=True``.
* ``torchvision``: ``torchvision.io.decode_jpeg`` in place of Pillow: whether its pixels are the same.
* ``imagecodecs``: the same by ``imagecodecs.jpeg8_decode``, an array; ``and an image``: that of Pillow.
* ``draft``: Pillow decodes at a quarter or half of the size, at least twice the target, and resizes that: how far its
  pixels are, in steps of 255, mean and most.

``--kinds``: of JPEG files of many kinds, whether imagecodecs has Pillow's pixels, and what it does with broken ones.

``--idle``: files of 500 px through an encoder, whether decoding and computing wait for each other: the share of the run
in which each was at work, by PyTorch and by OpenVINO.

``off``: how far features are from the exact ones, relative, mean and most over the files, by encoder: with
``fast_resize`` and with ``draft``.
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
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import imagecodecs
import numpy as np
import torch
from PIL import Image
from torchvision.io import ImageReadMode, decode_jpeg

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import zoo
from zoo.cards.catalogue import load_catalogue
from zoo.datasets.folders import make_unlabelled_images
from zoo.encoders import build_encoder
from zoo.encoders.preprocess import build_preprocess
from zoo.encoders.processor import keep_memory
from zoo.features.backends import choose_backend
from zoo.features.computing import ForwardSpec, GroupNetwork, compute
from zoo.features.decoding import DecodingSpec
from zoo.progress import SilentProgress

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
    clock, same, same_codecs, apart = Clock(), True, True, []
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
        encoded = path.read_bytes()
        array = clock("imagecodecs", lambda encoded=encoded: imagecodecs.jpeg8_decode(encoded))
        clock("and an image", lambda array=array: Image.fromarray(array))
        draft = clock("draft", lambda path=path: crop(resize(rgb(drafted(path, 2 * card.resize_px)))))
        if number < len(files):
            same &= bool(np.array_equal(np.asarray(head), pixels.permute(1, 2, 0).numpy()))
            same_codecs &= bool(np.array_equal(np.asarray(head), array))
            steps = np.abs(np.asarray(draft).astype(int) - np.asarray(square).astype(int))
            apart.append((float(steps.mean()), int(steps.max())))
    return {
        "milliseconds": {step: statistics.median(taken) for step, taken in clock.taken.items()},
        "torchvision_is_exact": same,
        "imagecodecs_is_exact": same_codecs,
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


def kinds() -> None:
    """Prints what Pillow and imagecodecs make of JPEG files of many kinds."""
    random = np.random.default_rng(0)
    smooth = Image.fromarray(random.integers(0, 256, (6, 8, 3), dtype=np.uint8)).resize((333, 251), 3)
    noisy = np.clip(np.asarray(smooth).astype(int) + random.integers(-20, 21, (251, 333, 3)), 0, 255)
    image = Image.fromarray(noisy.astype(np.uint8))
    exif = Image.Exif()
    exif[0x112] = 6
    files: dict[str, tuple[Image.Image, dict[str, Any]]] = {
        f"{ratio}{', progressive' * progressive}": (image, {"subsampling": ratio, "progressive": progressive})
        for ratio in ("4:4:4", "4:2:2", "4:2:0", "4:1:1")
        for progressive in (False, True)
    }
    files |= {
        "one pixel": (image.crop((0, 0, 1, 1)), {}),
        "grey": (image.convert("L"), {}),
        "CMYK": (image.convert("CMYK"), {}),
        "RGB": (image, {"keep_rgb": True}),
        "restart markers": (image, {"restart_marker_blocks": 4}),
        "EXIF orientation 6": (image, {"exif": exif}),
    }
    for kind, (shown, options) in files.items():
        file = io.BytesIO()
        shown.save(file, format="JPEG", **options)
        whole = file.getvalue()
        exact = np.array_equal(np.asarray(Image.open(file)), imagecodecs.jpeg8_decode(whole))
        print(f"{kind:22}{'equal' if exact else 'DIFFERENT'}")
    try:
        Image.open(io.BytesIO(whole := whole[: len(whole) // 2])).load()
    except OSError as error:
        array = imagecodecs.jpeg8_decode(whole)
        print(f"{'cut in the middle':22}Pillow: {error}; imagecodecs: {array.shape} without an error")


class Watch(torch.nn.Module):
    """A network or a decoding that notes how long it works."""

    def __init__(self, work: Any) -> None:
        super().__init__()
        self.work, self.busy_s = work, 0.0
        self.images = getattr(work, "images", None)

    def forward(self, given: Any) -> Any:
        began = time.perf_counter()
        found = self.work(given)
        self.busy_s += time.perf_counter() - began
        return found

    def __getitem__(self, positions: Any) -> Any:
        began = time.perf_counter()
        found = self.work[positions]
        self.busy_s += time.perf_counter() - began
        return found


def idle(name: str, folder: Path, n: int) -> None:
    """Prints the shares of a run in which decoding and computing were at work."""
    card = load_catalogue()[name]
    encoder, preprocess = build_encoder(card), build_preprocess(card.preprocess)
    files = [folder / f"{number}.jpeg" for number in range(40)]
    for number, path in enumerate(files):
        photograph(path, *SIZES["500 px"], number)
    paths = [str(files[number % len(files)]) for number in range(n)]
    images = make_unlabelled_images(paths, names=[str(number) for number in range(n)])
    network, decoding = GroupNetwork(encoder=encoder, name=name), DecodingSpec(images, preprocess)
    for backend in ("torch", "openvino"):
        chosen = choose_backend(network, decoding, device=torch.device("cpu"), wanted=backend, n_images=n)
        computing, reading = Watch(chosen.program or encoder), Watch(decoding)
        computed = replace(chosen, program=computing)
        forward = ForwardSpec(
            networks=(computed,), decoding=reading, device=torch.device("cpu"), batch_size=32, n_workers=0,
            shard_size=n, skip_corrupt=False, progress=SilentProgress(),
        )  # fmt: skip
        began, spent = time.perf_counter(), time.process_time()
        compute(forward, [0], lambda shard: None)
        wall, spent = time.perf_counter() - began, time.process_time() - spent
        print(
            f"{name}, {backend}: {n / wall:.1f} images/s, {1000 * spent / n:.1f} processor ms per image; "
            f"computing {computing.busy_s / wall:.0%}, decoding {reading.busy_s / wall:.0%} of the time"
        )


def main() -> None:
    """Prints a table for each size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=2000, help="of each size")
    parser.add_argument("--files", type=int, default=40, help="different ones")
    parser.add_argument("--encoders", nargs="+", default=list(ENCODERS))
    parser.add_argument("--json", type=Path, help="keep the numbers in this file")
    parser.add_argument("--kinds", action="store_true", help="compare kinds of JPEG files instead")
    parser.add_argument("--idle", metavar="ID", help="whether decoding or this encoder waits instead")
    options = parser.parse_args()
    if options.kinds:
        return kinds()
    if options.idle:
        with tempfile.TemporaryDirectory() as folder:
            idle(options.idle, Path(folder), options.images)
        return print(f"load {os.getloadavg()[0]:.1f}")
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
            print(f"imagecodecs: {found[size]['imagecodecs_is_exact']}", end="; ")
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
