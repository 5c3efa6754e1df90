"""How many planted near duplicates are found, how many pairs are false, and what TwoNN makes of repeated rows.

    python benchmarks/near_duplicates.py [--sets 200] [--json]

* planted: of 400 training images 49 are added once more, altered in turn by JPEG of quality 60, brightness of 85 %, a
  crop of 4 % at each side, and mirroring. ``nearest`` are those of the 49 whose nearest image is their original, which
  no threshold can exceed by much.
* clean: sets of 300 rows without near duplicates, by their distribution; how many of them have a pair that is named,
  within the set, and between 100 and 200 of its rows.
* repeated: 1,000 rows in 5 dimensions, of which 200 are there again, so many times nearer than the usual neighbour.
"""

from __future__ import annotations

import argparse
import io
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageEnhance

import zoo
from zoo.datasets import open_images
from zoo.evaluation.label_free import intrinsic_dimension
from zoo.evaluation.nearest_neighbours import find_nearest as nearest_rows
from zoo.evaluation.retrieval import N_NEAR, find_near_pairs, nearest

SETS: dict[str, Callable[[np.random.Generator], np.ndarray]] = {
    "Gaussian": lambda g: g.standard_normal((300, 6)),
    "Student's t with 3 degrees": lambda g: g.standard_t(3, (300, 6)),
    "uniform": lambda g: g.random((300, 3)),
    "ten clusters": lambda g: g.standard_normal((300, 8)) + 5 * g.standard_normal((10, 8))[g.integers(0, 10, 300)],
    "four scales": lambda g: np.concatenate([g.standard_normal((75, 5)) * s + 10 * s for s in (0.1, 0.5, 1, 3)]),
    "2 and 10 dimensions": lambda g: np.concatenate(
        [np.pad(g.standard_normal((150, 2)), ((0, 0), (0, 8))), 5 + g.standard_normal((150, 10))]
    ),
}


def altered(image: Image.Image, way: int) -> Image.Image:
    if way == 0:
        file = io.BytesIO()
        image.save(file, "jpeg", quality=60)
        return Image.open(io.BytesIO(file.getvalue())).convert("RGB")
    if way == 1:
        return ImageEnhance.Brightness(image).enhance(0.85)
    if way == 2:
        margin = max(1, round(0.04 * image.width))
        box = (margin, margin, image.width - margin, image.height - margin)
        return image.crop(box).resize(image.size, Image.Resampling.BICUBIC)
    return image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)


def planted(dataset: str, encoder_id: str) -> dict[str, Any]:
    """Counts of found and false pairs."""
    data, side = open_images(dataset).train, 64 if dataset == "digits" else None
    images = [data.images[row].convert("RGB") for row in range(400)]
    images = [image.resize((side, side), Image.Resampling.BICUBIC) if side else image for image in images]
    originals = np.random.default_rng(0).permutation(400)[:49].tolist()
    images += [altered(images[row], number % 4) for number, row in enumerate(originals)]
    encoder, preprocess = zoo.load(encoder_id)
    with torch.inference_mode():
        parts = [torch.stack([preprocess(one) for one in images[at : at + 64]]) for at in range(0, len(images), 64)]
        x = np.concatenate([encoder(part).numpy() for part in parts])

    def pairs(z: np.ndarray) -> set[tuple[int, ...]]:
        rows, distances = nearest(z, z, N_NEAR)
        return {tuple(pair) for pair in find_near_pairs(np.sqrt(distances), rows, np.arange(len(z)))[0].tolist()}

    true, found = {(row, 400 + number) for number, row in enumerate(originals)}, pairs(x)
    first = nearest(x, x, 1)[0][400:, 0].tolist()
    return {
        "images": dataset,
        "encoder": encoder_id,
        "planted": 49,
        "found": len(found & true),
        "false": len(found - true),
        "without planted ones": len(pairs(x[:400])),
        "nearest": sum(a == b for a, b in zip(first, originals, strict=True)),
    }


def clean(name: str, n_sets: int) -> dict[str, Any]:
    within = between = 0
    for seed in range(n_sets):
        z = SETS[name](np.random.default_rng(seed))
        distances, rows = nearest_rows(z, N_NEAR)
        within += len(find_near_pairs(distances, rows, np.arange(len(z)))[0]) > 0
        np.random.default_rng(seed).shuffle(z)
        apart = np.linalg.norm(z[:100, None] - z[None, 100:], axis=2)
        rows = np.argsort(apart, axis=1)[:, :N_NEAR]
        between += len(find_near_pairs(np.take_along_axis(apart, rows, axis=1), rows)[0]) > 0
    return {"rows": name, "sets": n_sets, "with pairs": within, "with pairs between parts": between}


def repeated(times: float) -> dict[str, Any]:
    generator = np.random.default_rng(0)
    z = generator.standard_normal((1000, 5))
    shift = generator.standard_normal((200, 5))
    shift *= np.median(nearest_rows(z, 1)[0]) / times / np.linalg.norm(shift, axis=1, keepdims=True)
    found = intrinsic_dimension(np.concatenate([z, z[:200] + shift]))
    without = found.value_without_near_duplicates
    return {"times nearer": times, "TwoNN": found.value, "without near duplicates": without}


def main() -> None:
    parser = argparse.ArgumentParser(description="Near duplicates that are found, and false ones.")
    parser.add_argument("--sets", type=int, default=200)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    encoders = ("pocket_simclr_rn_shapes", "pocket_simclr_vit_shapes")
    records = [planted(dataset, encoder) for dataset in ("digits", "shapes") for encoder in encoders]
    records += [clean(name, options.sets) for name in SETS]
    records += [repeated(times) for times in (2, 3, 10, 30, 100, 300)]
    for one in records:
        if options.json:
            print(json.dumps(one))
        else:
            print(
                ", ".join(
                    f"{key} {value:.3g}" if isinstance(value, float) else f"{key} {value}" for key, value in one.items()
                )
            )


if __name__ == "__main__":
    main()
