"""Images per second of featurising, against the loop of forward passes that one would write with timm.

    python benchmarks/featurise.py [ENCODER=TIMM_NAME ...] [--sources tensors jpeg] [--batch-size 32] [--batches 4]
                                   [--rounds 3] [--device cpu] [--precisions float32 ...] [--compile] [--json FILE]
                                   [--threads N] [--no-openvino]
    python benchmarks/featurise.py --eight --device cuda --precisions float32 bfloat16 float16 --batch-size 256
    python benchmarks/featurise.py --agree 30

Networks have random weights, the same architecture on both sides. Each side is a process of its own, for what one does
to the memory of its process must not help the other; they take turns, a round each.

* ``timm``: ``timm.create_model(NAME).eval()``, batch by batch under ``torch.inference_mode()`` and autocast, features
  fetched to the CPU; files are opened, transformed and stacked one after the other.
* ``zoo``: :func:`zoo.features.featurise` into a folder: with hashes of the weights, checks and shards, by PyTorch.
* ``openvino``: the same with ``backend="openvino"``, converted before the first round.
* ``loop``: only the forward passes of the zoo's side, of tensors.
* ``peak``: multiply-adds of the forward passes a processor second (two operations each), as a share of those of a
  plain product of two float32 matrices of 2,048 rows.

Sources: ``tensors`` that lie in memory, and ``jpeg`` files of 500 x 375 px. Columns: images/s (the median of the
rounds), the median of the rounds' ratios to timm's in time and in processor seconds, processor seconds of user and
kernel a round, and the most memory that the process had. ``off``: how far features of another backend, in another
precision, or compiled, are from PyTorch's in float32, relative.
Where other jobs run the ratio is wrong in both directions: look at the load. ``--eight`` takes eight networks.

Two cores (AMD EPYC), torch 2.15, batches of 32, load 1.3 to 1.9, ratios on tensors and on JPEG files: ResNet-50
2.65 and 2.62, EfficientNet-Lite0 4.81 and 3.89, ViT-B/16 2.03 and 2.03. Peaks grow by 12 to 24 %.

``--agree``: so many networks, one of every backbone that the cards have, small ones first: the largest relative
difference of featurising to the network's own forward pass, in torch's default layout and before memory is kept.
"""

from __future__ import annotations

import argparse
import io
import json
import multiprocessing
import os
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import timm
import torch
from PIL import Image

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from zoo.cards.catalogue import load_catalogue
from zoo.cards.costs import find_cost
from zoo.datasets import ImageSet, LazyImages
from zoo.encoders import build_encoder
from zoo.encoders.preprocess import build_preprocess
from zoo.encoders.processor import use_fast_forward
from zoo.features import featurise
from zoo.features.computing import COMPILED, PRECISIONS, choose_device, use_memory_format

THREE = {
    "barlow_rn50": "resnet50",
    "sup_efficientnet_lite0": "tf_efficientnet_lite0",
    "dino_vitB16": "vit_base_patch16_224",
}
EIGHT = THREE | {
    "dino_vitS16": "vit_small_patch16_224",
    "sup_convnextT_in1k": "convnext_tiny",
    "openclip_convnextB_laion2b": "convnext_base",
    "esvit_swinb_w7": "swin_base_patch4_window7_224",
    "dinov2_vitL14": "vit_large_patch14_dinov2",
}
N_FILES = 32  # different ones, over and over
SEEN = 8  # images whose features are compared


class Jpegs:
    """Decodes JPEG files that lie in memory."""

    def __init__(self, files: list[bytes]) -> None:
        self.files = files

    def __call__(self, index: int) -> Image.Image:
        return Image.open(io.BytesIO(self.files[index % len(self.files)]))


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
    names = [str(number) for number in range(n)]
    labels = np.zeros(n, np.int64)
    return ImageSet(
        name=name, split="all", images=images, labels=labels, classes=("any",), names=names, fingerprint="0"
    )


def by_zoo(
    name: str, options: argparse.Namespace, precision: str, backend: str = "torch"
) -> dict[str, Callable[[], np.ndarray]]:
    """What one round of each source does, by featurise; and by a loop over the same network."""
    card, n = load_catalogue()[name], options.batches * options.batch_size
    encoder, preprocess, decode = build_encoder(card), build_preprocess(card.preprocess), Jpegs(jpegs(N_FILES))
    device = choose_device(encoder, options.device)
    few = [preprocess(decode(number)) for number in range(N_FILES)]
    tensors = [few[number % N_FILES] for number in range(n)]
    wanted = precision + COMPILED * options.compile

    def ours(images: ImageSet, transform: Any) -> np.ndarray:
        with tempfile.TemporaryDirectory() as folder:
            how: Any = {"batch_size": options.batch_size, "device": device, "precision": wanted, "backend": backend}
            return np.array(featurise(encoder, transform, images, name=name, folder=folder, **how).x[:SEEN])

    def loop() -> np.ndarray:
        with use_memory_format(encoder.to(device).eval(), None) as layout, use_fast_forward(encoder, device):
            first = [
                passed(encoder, batch.to(device, memory_format=layout), precision)
                for batch in batches(tensors, options)
            ]
        return first[0][:SEEN].numpy()

    files = image_set(LazyImages(decode, np.arange(n)), n, "jpeg")
    found = {
        "tensors": lambda: ours(image_set(tensors, n, "tensors"), Decoded()),
        "jpeg": lambda: ours(files, preprocess),
    }
    return {source: found[source] for source in options.sources} | {"loop": loop}


def by_timm(name: str, options: argparse.Namespace, precision: str) -> dict[str, Callable[[], np.ndarray]]:
    """What one round of each source does in a bare loop."""
    card, n = load_catalogue()[name], options.batches * options.batch_size
    arch = options.encoders[name]
    sized = {"dynamic_img_size": True} if "dinov2" in arch else {}
    network = timm.create_model(arch, pretrained=False, num_classes=0, **sized).eval().to(options.device)
    transform, decode = build_preprocess(card.preprocess), Jpegs(jpegs(N_FILES))  # the same transforms on both sides
    few = [transform(decode(number)) for number in range(N_FILES)]
    tensors = [few[number % N_FILES] for number in range(n)]

    def of_tensors() -> np.ndarray:
        each = [passed(network, batch.to(options.device), precision).numpy() for batch in batches(tensors, options)]
        return np.concatenate(each)

    def of_files() -> np.ndarray:
        cuts = [range(at, at + options.batch_size) for at in range(0, n, options.batch_size)]
        stacked = (torch.stack([transform(decode(number)) for number in cut]) for cut in cuts)
        return np.concatenate([passed(network, batch.to(options.device), precision).numpy() for batch in stacked])

    found = {"tensors": of_tensors, "jpeg": of_files}
    return {source: found[source] for source in options.sources}


def batches(tensors: list[torch.Tensor], options: argparse.Namespace) -> list[torch.Tensor]:
    return [torch.stack(tensors[at : at + options.batch_size]) for at in range(0, len(tensors), options.batch_size)]


def passed(network: torch.nn.Module, batch: torch.Tensor, precision: str) -> torch.Tensor:
    """Features of a batch (b, dim), on the CPU."""
    autocast = PRECISIONS[precision]
    with torch.inference_mode(), torch.autocast(batch.device.type, dtype=autocast, enabled=autocast is not None):
        return network(batch).float().cpu()


SIDES: dict[str, Callable[..., dict[str, Callable[[], np.ndarray]]]] = {
    "timm": by_timm,
    "zoo": by_zoo,
    "openvino": partial(by_zoo, backend="openvino"),
}


def plain_product(n: int = 2048) -> float:
    """Operations a processor second of a product of two float32 matrices."""
    torch.set_num_threads(1)
    a, b = torch.randn(n, n), torch.randn(n, n)
    taken = []
    for _ in range(9):
        began = time.process_time()
        torch.mm(a, b)
        taken.append(time.process_time() - began)
    return 2 * n**3 / min(taken)


def side(pipe: Connection, which: str, name: str, options: argparse.Namespace, precision: str) -> None:
    """A process: does a round whenever it is told a source, and says what that took."""
    torch.manual_seed(0)
    torch.set_num_threads(options.threads)
    rounds = SIDES[which](name, options, precision)
    while (source := pipe.recv()) is not None:
        before, began = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
        features = rounds[source]()
        wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF)
        spent = (after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime)
        pipe.send((wall, *spent, after.ru_maxrss / 1024, features))


def measure(name: str, options: argparse.Namespace, precision: str) -> dict[str, Any]:
    """Rounds of all sides in turn, after one that is not counted."""
    context = multiprocessing.get_context("spawn")
    pipes, processes = {}, []
    sides = [which for which in SIDES if (options.openvino and precision == "float32") or which != "openvino"]
    for which in sides:
        pipes[which], theirs = context.Pipe()
        processes.append(context.Process(target=side, args=(theirs, which, name, options, precision), daemon=True))
        processes[-1].start()
        theirs.close()
    turns = [(which, source) for source in options.sources for which in sides] + [("zoo", "loop")]
    taken: dict[tuple[str, str], list[tuple[Any, ...]]] = {turn: [] for turn in turns}
    for number in range(options.rounds + 1):
        for which, source in turns:
            pipes[which].send(source)
            found = pipes[which].recv()
            if number:
                taken[which, source].append(found)
    for pipe in pipes.values():
        pipe.send(None)
    for process in processes:
        process.join()
    n = options.batches * options.batch_size
    rows = []
    for which, source in turns:
        rounds, base = taken[which, source], taken["timm", source if source in options.sources else options.sources[0]]
        rows.append(
            {
                "side": which,
                "source": source,
                "images_per_second": n / statistics.median(one[0] for one in rounds),
                "ratio": statistics.median(b[0] / one[0] for b, one in zip(base, rounds, strict=True)),
                "processor_ratio": statistics.median(
                    (b[1] + b[2]) / (one[1] + one[2]) for b, one in zip(base, rounds, strict=True)
                ),
                "user_s": statistics.median(one[1] for one in rounds),
                "kernel_s": statistics.median(one[2] for one in rounds),
                "peak_mb": max(one[3] for one in rounds),
            }
        )
    features = {which: taken[which, options.sources[0]][0][4].tolist() for which in sides if which != "timm"}
    return {"encoder": name, "precision": precision, "rows": rows, "features": features}


def agree(n: int) -> None:
    """Prints how far featurising is from the plain forward pass, for so many backbones."""
    cards = sorted(
        (card for card in load_catalogue().values() if isinstance(card.architecture.n_parameters, int)),
        key=lambda card: card.architecture.n_parameters,
    )
    first = {card.architecture.backbone: card for card in reversed(cards) if card.preprocess.crop_px <= 256}
    worst = 0.0
    for card in sorted(first.values(), key=lambda card: card.architecture.n_parameters)[:n]:
        torch.manual_seed(0)
        encoder, preprocess, decode = build_encoder(card).eval(), build_preprocess(card.preprocess), Jpegs(jpegs(SEEN))
        images = torch.stack([preprocess(decode(number)) for number in range(SEEN)])
        with torch.inference_mode():
            plain = encoder(images).numpy()
        found = featurise(encoder, Decoded(), image_set(list(images), SEEN, "tensors"), name=card.id).x
        apart = float((np.linalg.norm(found - plain, axis=1) / np.linalg.norm(plain, axis=1)).max())
        worst = max(worst, apart)
        print(f"{card.id:36} {card.architecture.backbone:44} {apart:.1e}", flush=True)
    print(f"largest {worst:.1e}")


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "encoders", nargs="*", metavar="ENCODER=TIMM_NAME", help="ResNet-50, Lite0, ViT-B/16 by default"
    )
    parser.add_argument("--eight", action="store_true", help="eight networks")
    parser.add_argument("--sources", nargs="+", choices=["tensors", "jpeg"], default=["tensors", "jpeg"])
    parser.add_argument("--batches", type=int, default=4)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--precisions", nargs="+", choices=list(PRECISIONS), default=["float32"])
    parser.add_argument("--compile", action="store_true", help="compile the zoo's side")
    parser.add_argument("--agree", type=int, metavar="N", help="compare features of N networks instead")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="of PyTorch and OpenVINO")
    parser.add_argument("--no-openvino", dest="openvino", action="store_false", help="only the zoo with PyTorch")
    parser.add_argument("--json", type=Path, help="keep the numbers in this file")
    options = parser.parse_args()
    if options.agree:
        return agree(options.agree)
    options.encoders = dict(one.split("=") for one in options.encoders) or (EIGHT if options.eight else THREE)
    loads, found = [os.getloadavg()[0]], []
    print(
        f"{'network':28}{'precision':10}{'source':9}{'side':9}{'images/s':>10}{'ratio':>7}{'cpu':>6}{'user s':>8}",
        end=f"{'kernel s':>9}",
    )
    print(f"{'peak MB':>9}{'peak':>7}{'off':>9}")
    peak = plain_product()
    for name in options.encoders:
        exact: np.ndarray | None = None
        for precision in options.precisions:
            found.append(measure(name, options, precision))
            features = {which: np.array(x) for which, x in found[-1]["features"].items()}
            exact = features["zoo"] if exact is None else exact
            off = {w: np.linalg.norm(x - exact, axis=1) / np.linalg.norm(exact, axis=1) for w, x in features.items()}
            cost = find_cost(load_catalogue()[name])
            for row in found[-1]["rows"]:
                is_compared = row["side"] in off and row["source"] == options.sources[0]
                done = 0 if cost is None else cost.gflops * 1e9 * options.batches * options.batch_size
                share = done / (row["user_s"] + row["kernel_s"]) / peak
                print(
                    f"{options.encoders[name][:27]:28}{precision:10}{row['source']:9}{row['side']:9}"
                    f"{row['images_per_second']:10.1f}{row['ratio']:7.2f}{row['processor_ratio']:6.2f}"
                    f"{row['user_s']:8.1f}{row['kernel_s']:9.1f}{row['peak_mb']:9.0f}{share:7.0%}"
                    + (f"{off[row['side']].max():9.1e}" if is_compared else ""),
                    flush=True,
                )
    loads.append(os.getloadavg()[0])
    where = torch.cuda.get_device_name() if options.device == "cuda" else f"{options.threads} threads"
    print(f"a plain product: {peak / 1e9:.0f} GFLOP per processor second")
    print(f"torch {torch.__version__}, {where}, medians of {options.rounds}", end="; ")
    print(f"load {loads[0]:.1f} before, {loads[1]:.1f} after")
    if options.json:
        options.json.write_text(
            json.dumps({"torch": torch.__version__, "where": where, "loads": loads, "found": found})
        )


if __name__ == "__main__":
    main()
