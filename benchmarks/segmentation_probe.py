"""Probes of masks: right and fast next to the usual recipe, and the coverage of their intervals.

    python benchmarks/segmentation_probe.py recipes [--cells NAME ...] [--images 600] [--test 200] [--epochs 10 40]
    python benchmarks/segmentation_probe.py growth
    python benchmarks/segmentation_probe.py coverage [--sets 400]

``recipes``: rendered shapes with exact masks of 22 classes (background, 20 kinds of objects, and the bar in front),
maps computed once, and on these the zoo's probe and a plain recipe, one after the other, in processor seconds of the
training alone. The recipe is DINOv2's linear head as it is in common use: batch norm and a 1 x 1 convolution, logits
upsampled bilinearly to the mask, cross-entropy of each pixel, AdamW on batches of 16 images, a cosine schedule after a
warm-up of 5 %; its learning rate is chosen of four on a fifth of the training images (``--tune-epochs``), which is not
timed. The zoo's probe chooses its penalty itself, which is. mIoU over all pixels of the test images, at the size of the
mask.

``growth``: seconds by images and by places. ``coverage``: shares of 95 % intervals of mIoU and of paired differences
that hold the value of a large population, of planted images whose errors go together within an image.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from zoo.datasets import open_dense
from zoo.evaluation.segmentation import SegmentationProbe
from zoo.evaluation.segmentation_metrics import SegmentationResult, compare_results, count_confusions
from zoo.features.maps import MapGrid, featurise_maps, parse_map_grid
from zoo.loading import load_for_whole_images

CLASSES = ("background", *(f"object {number}" for number in range(20)), "bar")
CELLS = {  # encoder, layer (None: what it pools), px
    "dino": ("pocket_dino_vit_shapes", None, 32),
    "mae": ("pocket_mae_vit_shapes", None, 32),
    "simclr": ("pocket_simclr_vit_shapes", None, 32),
    "lite0": ("sup_efficientnet_lite0", None, 224),
    "lite0-14x14": ("sup_efficientnet_lite0", -6, 224),
    "lite1-14x14": ("sup_efficientnet_lite1", -7, 224),
}
RATES = (1e-3, 3e-3, 1e-2, 3e-2)
BATCH, DECAY, WARM_UP = 16, 1e-4, 0.05


def load_cell(name: str, folder: Path, n_train: int, n_test: int) -> list[tuple[Any, Any]]:
    """Maps (n, rows, columns, channels) and masks uint8 (n, px, px) of both parts; maps are kept in a folder."""
    encoder, layer, px = CELLS[name]
    data = open_dense(f"shapes:classes=20,train={n_train},val={n_test},size_px={px}", task="segmentation")
    sets = {"train": data.train, "val": data.val}
    images = {part: one.images for part, one in sets.items()}
    loaded = partial(load_for_whole_images, px=px)
    ((representation, maps),) = featurise_maps(
        encoder, images, layers=(layer,), root=folder, load=lambda wanted: loaded(wanted)[:2]
    ).items()
    grid = parse_map_grid(representation)
    shape = (-1, grid.rows, grid.columns, grid.channels)
    masks = {part: [one.maps[i][0][:, :, 0] for i in range(len(one))] for part, one in sets.items()}
    return [(maps[part].x[:].reshape(shape), np.stack(masks[part]).astype(np.uint8)) for part in sets]


class Masks:
    """Masks of a part as a probe reads them, all pixels valid."""

    def __init__(self, masks: Any) -> None:
        self.masks = masks

    def __len__(self) -> int:
        return len(self.masks)

    def __getitem__(self, i: int) -> tuple[Any, Any]:
        return self.masks[i], np.ones(self.masks[i].shape, bool)


class LinearHead(nn.Module):
    """DINOv2's linear head: batch norm and a 1 x 1 convolution."""

    def __init__(self, channels: int, n_classes: int) -> None:
        super().__init__()
        self.norm, self.head = nn.BatchNorm2d(channels), nn.Conv2d(channels, n_classes, 1)
        nn.init.normal_(self.head.weight, std=0.01)
        nn.init.zeros_(self.head.bias)

    def forward(self, maps: torch.Tensor) -> torch.Tensor:
        """Logits (n, n_classes, rows, columns) of maps (n, channels, rows, columns)."""
        found: torch.Tensor = self.head(self.norm(maps))
        return found


def train_recipe(x: Any, masks: Any, *, epochs: int, rate: float, seed: int = 0) -> LinearHead:
    """The usual recipe on maps (n, rows, columns, channels) and masks (n, px, px)."""
    torch.manual_seed(seed)
    head = LinearHead(x.shape[3], len(CLASSES)).train()
    optimiser = torch.optim.AdamW(head.parameters(), lr=rate, weight_decay=DECAY)
    n_steps = epochs * -(-len(x) // BATCH)
    warm = max(1, int(WARM_UP * n_steps))
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimiser,
        lambda step: (step + 1) / warm if step < warm else 0.5 * (1 + np.cos(np.pi * (step - warm) / (n_steps - warm))),
    )
    random = np.random.default_rng(seed)
    for _ in range(epochs):
        order = random.permutation(len(x))
        for start in range(0, len(x), BATCH):
            some = order[start : start + BATCH]
            maps = torch.from_numpy(x[some]).permute(0, 3, 1, 2)
            wanted = torch.from_numpy(masks[some].astype(np.int64))
            logits = functional.interpolate(head(maps), size=wanted.shape[1:], mode="bilinear")
            loss = functional.cross_entropy(logits, wanted)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
    return head.eval()


def predict_recipe(head: LinearHead, x: Any, px: int) -> Any:
    """Classes (n, px, px)."""
    with torch.inference_mode():
        return np.concatenate(
            [
                functional.interpolate(
                    head(torch.from_numpy(x[start : start + BATCH]).permute(0, 3, 1, 2)), size=(px, px), mode="bilinear"
                )
                .argmax(dim=1)
                .numpy()
                for start in range(0, len(x), BATCH)
            ]
        )


def measure(name: str, predicted: Any, masks: Any) -> SegmentationResult:
    """The metrics of predicted masks."""
    k = len(CLASSES)
    confusions = [count_confusions(p, m, np.ones(m.shape, bool), k) for p, m in zip(predicted, masks, strict=True)]
    sums = [[*np.diagonal(c), *c.sum(axis=0), *c.sum(axis=1), 0.0, 0.0] for c in confusions]
    return SegmentationResult(
        name=name, sums=np.array(sums, np.float64), classes=CLASSES, confusion=np.sum(confusions, axis=0)
    )


def choose_rate(x: Any, masks: Any, *, epochs: int) -> float:
    """The learning rate of the best mIoU on a fifth of the training images."""
    order = np.random.default_rng(0).permutation(len(x))
    fit, tuning = np.sort(order[len(x) // 5 :]), np.sort(order[: len(x) // 5])
    found = {}
    for rate in RATES:
        head = train_recipe(x[fit], masks[fit], epochs=epochs, rate=rate)
        found[rate] = measure("", predict_recipe(head, x[tuning], masks.shape[1]), masks[tuning]).values["miou"]
    return max(found, key=lambda rate: found[rate])


def compare_recipes(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """A row per cell and training: mIoU, pixel accuracy and processor seconds."""
    folder = Path(arguments.folder)
    rows = []
    for name in arguments.cells:
        (x, masks), (x_test, test_masks) = load_cell(name, folder, arguments.images, arguments.test)
        flat, flat_test = x.reshape(len(x), -1), x_test.reshape(len(x_test), -1)
        px = masks.shape[1]
        results, seconds = [], {}
        rate = choose_rate(x, masks, epochs=arguments.tune_epochs)
        for epochs in arguments.epochs:
            start = time.process_time()
            probe = SegmentationProbe(MapGrid(*x.shape[1:]), n_classes=len(CLASSES))
            probe.fit(flat, Masks(masks))
            ours = time.process_time() - start
            seconds.setdefault("zoo", ours)
            seconds["zoo"] = min(seconds["zoo"], ours)
            start = time.process_time()
            head = train_recipe(x, masks, epochs=epochs, rate=rate)
            seconds[f"AdamW {epochs}"] = time.process_time() - start
            results.append(measure(f"AdamW {epochs}", predict_recipe(head, x_test, px), test_masks))
        results.insert(0, measure("zoo", probe.predict(flat_test, (px, px)), test_masks))
        for one in results:
            behind = compare_results([results[0], one], "miou")[one.name] if one is not results[0] else None
            rows.append(
                {
                    "cell": name,
                    "probe": one.name,
                    "miou": round(one.values["miou"], 2),
                    "pixel_accuracy": round(one.values["pixel_accuracy"], 2),
                    "seconds": round(seconds[one.name], 2),
                    "behind": None if behind is None else round(behind.value, 2),
                    "interval": None
                    if behind is None
                    else [round(behind.ci_low or 0, 2), round(behind.ci_high or 0, 2)],
                    "setting": probe.report_["penalty"] if one is results[0] else rate,
                }
            )
            print(json.dumps(rows[-1]), flush=True)
    return rows


def measure_growth(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Seconds and peak memory by images and by places, on random maps of 64 channels and masks of 6 classes."""
    rows = []
    for n, side in ((250, 14), (500, 14), (1000, 14), (2000, 14), (500, 7), (500, 28)):
        random = np.random.default_rng(0)
        maps = random.standard_normal((n, side, side, 64), np.float32)
        coarse = (maps[..., :6] + random.standard_normal((n, side, side, 6), np.float32)).argmax(axis=3)
        masks = Masks(coarse.repeat(8, axis=1).repeat(8, axis=2))
        start = time.process_time()
        probe = SegmentationProbe(MapGrid(side, side, 64), n_classes=6).fit(maps.reshape(n, -1), masks)
        seconds = time.process_time() - start
        passes = probe.report_["n_passes"] + 0.8 * sum(one["n_passes"] for one in probe.report_["path"])
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        rows.append(
            {
                "images": n,
                "places": side * side,
                "seconds": round(seconds, 2),
                "passes": round(passes),
                "microseconds per place and pass": round(1e6 * seconds / passes / n / side**2, 2),
                "peak GiB so far": round(peak, 2),
                "maps GiB": round(maps.nbytes / 2**30, 2),
            }
        )
        print(json.dumps(rows[-1]), flush=True)
    return rows


def draw_images(n: int, seed: int) -> tuple[Any, Any]:
    """Sums of two planted probes on n images of 6 classes, (n, 3 * 6 + 2) both; class 5 is in one image of ten.

    How hard an image is goes along with all its pixels and with both probes, so that images count and pixels do not.
    """
    random = np.random.default_rng(seed)
    k, pixels = 6, 400
    shares = random.dirichlet(np.full(k, 0.5), n)
    shares[:, 5] *= random.random(n) < 0.1
    actual = np.round(pixels * shares / shares.sum(axis=1, keepdims=True)).astype(np.int64)
    hardness = random.standard_normal((n, 1))
    found = []
    for shift in (0.0, 0.15):
        p = 1 / (1 + np.exp(-(1.2 - shift - hardness - 0.5 * random.standard_normal((n, k)))))
        inside = random.binomial(actual, p)
        lost = (actual - inside).sum(axis=1, keepdims=True)
        given = random.multinomial(lost[:, 0], np.full(k, 1 / k))
        found.append(np.concatenate([inside, inside + given, actual, np.zeros((n, 2))], axis=1).astype(np.float64))
    return found[0], found[1]


def measure_coverage(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """The share of intervals that hold the value of 400,000 images, by the number of test images."""

    def results(n: int, seed: int, n_draws: int) -> list[SegmentationResult]:
        how: dict[str, Any] = {"classes": tuple("abcdef"), "confusion": np.zeros((6, 6), np.int64), "n_draws": n_draws}
        return [
            SegmentationResult(name=name, sums=sums, seed=seed, **how)
            for name, sums in zip(("one", "other"), draw_images(n, seed), strict=True)
        ]

    truth = results(400_000, 10**6, 1)
    rows = []
    for n in (30, 100, 300, 1000):
        hits: dict[str, list[bool]] = {}
        for seed in range(arguments.sets):
            one, other = results(n, seed, 1000)
            for name in ("miou", "pixel_accuracy", "iou a", "iou f"):
                if name in one.values:
                    true = truth[0].values[name]
                    found = one.metrics[name]
                    hits.setdefault(name, []).append(bool(found.ci_low <= true <= found.ci_high))  # type: ignore[operator]
            true = truth[0].values["miou"] - truth[1].values["miou"]
            behind = compare_results([one, other], "miou")["other"]
            hits.setdefault("difference of miou", []).append(bool(behind.ci_low <= true <= behind.ci_high))
        rows.append({"images": n} | {name: round(100 * float(np.mean(one)), 1) for name, one in hits.items()})
        print(json.dumps(rows[-1]), flush=True)
    return rows


def main() -> None:
    """Runs one of the measurements, and stores its rows as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("recipes", "growth", "coverage"))
    parser.add_argument("--cells", nargs="+", choices=CELLS, default=list(CELLS))
    parser.add_argument("--images", type=int, default=600)
    parser.add_argument("--test", type=int, default=200)
    parser.add_argument("--epochs", type=int, nargs="+", default=[10, 40])
    parser.add_argument("--tune-epochs", type=int, default=10)
    parser.add_argument("--sets", type=int, default=400)
    parser.add_argument("--folder", default="build/segmentation-probe", help="of the maps")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    measured = {"recipes": compare_recipes, "growth": measure_growth, "coverage": measure_coverage}[arguments.what]
    rows = measured(arguments)
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
