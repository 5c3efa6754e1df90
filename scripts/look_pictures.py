"""Makes the pictures of the site's page "look": maps as colours and nearest neighbours, of encoders that are here.

    python scripts/look_pictures.py

It writes ``results/looks/``: ``looks.json`` and, for each data set, its images and the maps of each encoder as PNG
files, a cell of a map a pixel. Fashion-MNIST is read from Debian's package dataset-fashion-mnist. It takes a minute.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from zoo.looking.components import component_colours
from zoo.looking.neighbourhood import nearest_images

import zoo
from zoo.datasets import open_images
from zoo.datasets.images import ImageSet
from zoo.features import featurise

FOLDER = Path(__file__).resolve().parent.parent / "results" / "looks"
ENCODERS = (  # with the image size that is asked for, if it is not that of the card
    ("pocket_simclr_rn_shapes", None), ("pocket_dino_vit_shapes", None), ("pocket_mae_vit_shapes", None),
    ("pocket_sup_vit_shapes", None), ("pocket_init_vit", None), ("sup_efficientnet_lite0", 448),
    ("sup_efficientnet_lite1", 448),
)  # fmt: skip
DATASETS = {"shapes": "Rendered shapes", "fashion-mnist": "Fashion-MNIST"}
N_A_CLASS = {"shapes": 40, "fashion-mnist": 80}  # test images among which neighbours are searched
N_SHOWN, N_QUERIES, N_NEIGHBOURS = 10, 4, 6
_SPRITE_COLUMNS = 16


def main() -> None:
    """Writes everything anew."""
    FOLDER.mkdir(exist_ok=True)
    looks = [look_of(name, title) for name, title in DATASETS.items()]
    (FOLDER / "looks.json").write_text(json.dumps(looks, indent=1) + "\n")


def look_of(name: str, title: str) -> dict[str, Any]:
    """The facts of a data set's pictures, which are written."""
    data = open_images(name)
    images = _balanced(data.val, N_A_CLASS[name])
    classes = np.unique(images.labels)[:: max(1, len(np.unique(images.labels)) // N_SHOWN)][:N_SHOWN]
    shown = [int(np.flatnonzero(images.labels == one)[0]) for one in classes]
    queries = shown[:: max(1, len(shown) // N_QUERIES)][:N_QUERIES]
    encoders = [_encoder(name, images, shown, queries, encoder, px) for encoder, px in ENCODERS]
    used = sorted({*shown, *(row for one in encoders for query in one["neighbours"] for row, _ in query)})
    place = {row: number for number, row in enumerate(used)}
    for one in encoders:
        one["neighbours"] = [[[place[row], apart] for row, apart in query] for query in one["neighbours"]]
    side = max(max(images.images[row].size) for row in used)
    sprite = Image.new("RGB", (side * _SPRITE_COLUMNS, side * -(-len(used) // _SPRITE_COLUMNS)))
    for number, row in enumerate(used):
        sprite.paste(
            images.images[row].convert("RGB"), (side * (number % _SPRITE_COLUMNS), side * (number // _SPRITE_COLUMNS))
        )
    sprite.save(FOLDER / f"{name}.png", optimize=True)
    return {
        "dataset": name, "title": title, "n_images": len(images), "px": side, "columns": _SPRITE_COLUMNS,
        "file": f"{name}.png", "labels": [images.classes[images.labels[row]] for row in used],
        "shown": [place[row] for row in shown], "queries": [place[row] for row in queries], "encoders": encoders,
    }  # fmt: skip


def _encoder(
    dataset: str, images: ImageSet, shown: list[int], queries: list[int], name: str, px: int | None
) -> dict[str, Any]:
    encoder, preprocess = zoo.load(name, px=px)
    with torch.inference_mode():
        maps = encoder.maps(torch.stack([preprocess(images.images[row]) for row in shown])).numpy()  # type: ignore[operator]
    colours, explained = component_colours(maps)
    file = f"{dataset}-{name}.png"
    Image.fromarray(np.concatenate(list(colours))).save(FOLDER / file, optimize=True)  # one below the other
    features = featurise(*zoo.load(name), images, name=name)
    found = nearest_images(features.x, N_NEIGHBOURS, contents=images.contents)
    return {
        "id": name, "px": px, "file": file, "rows": maps.shape[2], "columns": maps.shape[3],
        "explained": round(float(explained.sum()), 4), "agreement": round(found.agreement(images.labels), 1),
        "neighbours": [
            [[int(row), round(float(apart), 4)] for row, apart in zip(found.rows[query], found.distances[query], strict=True)]
            for query in queries
        ],
    }  # fmt: skip


def _balanced(images: ImageSet, n: int) -> ImageSet:
    """The first n images of each class."""
    rows = [np.flatnonzero(images.labels == one)[:n] for one in range(len(images.classes))]
    return images.subset(np.sort(np.concatenate(rows)), split="looked at")


if __name__ == "__main__":
    main()
