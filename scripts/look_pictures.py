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
from matplotlib.cbook import get_sample_data
from PIL import Image, ImageOps
from sklearn.datasets import load_sample_images

import zoo
from zoo.datasets import open_images
from zoo.datasets.images import ImageSet, array_images
from zoo.features import featurise
from zoo.looking.components import component_colours
from zoo.looking.neighbourhood import nearest_images

FOLDER = Path(__file__).resolve().parent.parent / "results" / "looks"
ENCODERS = {  # by data set, with image size and block where these are not the card's
    "photographs": [("pocket_dino_vit_shapes", 224, None), ("sup_efficientnet_lite0", 896, 10),
                    ("sup_efficientnet_lite0", 896, -1), ("sup_efficientnet_lite1", 896, 14),
                    ("sup_efficientnet_lite1", 896, -1)],
    "shapes": [("pocket_simclr_rn_shapes", None, None), ("pocket_dino_vit_shapes", None, None),
               ("pocket_mae_vit_shapes", None, None), ("pocket_sup_vit_shapes", None, None),
               ("pocket_init_vit", None, None), ("sup_efficientnet_lite0", 448, None),
               ("sup_efficientnet_lite1", 448, None)],
}  # fmt: skip
ENCODERS["fashion-mnist"] = ENCODERS["shapes"]
TITLES = {"photographs": "Photographs", "shapes": "Rendered shapes", "fashion-mnist": "Fashion-MNIST"}
N_A_CLASS = {"photographs": 1, "shapes": 40, "fashion-mnist": 80}  # images among which neighbours are searched
N_SHOWN, N_QUERIES, N_NEIGHBOURS = 10, 4, 6
PHOTO_PX = 224
_SPRITE_COLUMNS = 16


def main() -> None:
    """Writes everything anew."""
    FOLDER.mkdir(exist_ok=True)
    looks = [look_of(name, title) for name, title in TITLES.items()]
    (FOLDER / "looks.json").write_text(json.dumps(looks, indent=1) + "\n")


def look_of(name: str, title: str) -> dict[str, Any]:
    """The facts of a data set's pictures, which are written."""
    images = photographs() if name == "photographs" else open_images(name).val
    images = _balanced(images, N_A_CLASS[name])
    classes = np.unique(images.labels)[:: max(1, len(np.unique(images.labels)) // N_SHOWN)][:N_SHOWN]
    shown = [int(np.flatnonzero(images.labels == one)[0]) for one in classes]
    queries = [] if name == "photographs" else shown[:: max(1, len(shown) // N_QUERIES)][:N_QUERIES]
    encoders = [_encoder(name, images, shown, queries, *one) for one in ENCODERS[name]]
    used = sorted({*shown, *(row for one in encoders for query in one["neighbours"] for row, _ in query)})
    place = {row: number for number, row in enumerate(used)}
    for one in encoders:
        one["neighbours"] = [[[place[row], apart] for row, apart in query] for query in one["neighbours"]]
    side = min(PHOTO_PX, max(max(images.images[row].size) for row in used))
    n_columns = min(_SPRITE_COLUMNS, len(used))
    sheet = Image.new("RGB", (side * n_columns, side * -(-len(used) // n_columns)))
    for number, row in enumerate(used):
        picture = images.images[row].convert("RGB").resize((side, side), Image.Resampling.LANCZOS)
        sheet.paste(picture, (side * (number % n_columns), side * (number // n_columns)))
    file = f"{name}.jpg" if side % 16 == 0 else f"{name}.png"  # blocks of JPEG are 16 px, and none is in two images
    sheet.save(FOLDER / file, optimize=True, **({"quality": 88} if file.endswith(".jpg") else {}))
    return {
        "dataset": name, "title": title, "n_images": len(images), "px": side, "columns": n_columns,
        "file": file, "labels": [images.classes[images.labels[row]] for row in used],
        "shown": [place[row] for row in shown], "queries": [place[row] for row in queries],
        "chance": round(100 * (N_A_CLASS[name] - 1) / (len(images) - 1), 1), "encoders": encoders,
    }  # fmt: skip


def _encoder(
    dataset: str, images: ImageSet, shown: list[int], queries: list[int], name: str, px: int | None, layer: int | None
) -> dict[str, Any]:
    encoder, preprocess = zoo.load(name, px=px)
    with torch.inference_mode():
        given = torch.stack([preprocess(images.images[row]) for row in shown])
        maps = encoder.maps(given, layer=layer).numpy()  # type: ignore[operator]
    colours, explained = component_colours(maps)
    file = f"{dataset}-{name}{'' if layer is None else f'-{layer % 100}'}.png"
    Image.fromarray(np.concatenate(list(colours))).save(FOLDER / file, optimize=True)  # one below the other
    found: dict[str, Any] = {"agreement": None, "neighbours": []}
    if queries:
        features = featurise(*zoo.load(name), images, name=name)
        distances, rows = nearest_images(features.x, N_NEIGHBOURS, contents=images.contents)
        found["agreement"] = round(100 * float((images.labels[rows[:, 0]] == images.labels).mean()), 1)
        found["neighbours"] = [
            [[int(row), round(float(apart), 4)] for row, apart in zip(rows[query], distances[query], strict=True)]
            for query in queries
        ]
    size = {"rows": maps.shape[2], "columns": maps.shape[3]}
    shares = {"explained": round(float(explained.sum()), 4)}
    return {"id": name, "px": px, "layer": layer, "file": file} | size | shares | found


def photographs() -> ImageSet:
    """Three photographs that libraries ship, the middle square of each."""
    sample = load_sample_images()
    pictures = {
        Path(name).stem: Image.fromarray(one) for name, one in zip(sample.filenames, sample.images, strict=True)
    }
    with get_sample_data("grace_hopper.jpg") as file:
        pictures["Grace Hopper"] = Image.open(file).convert("RGB")
    squares = [np.asarray(ImageOps.fit(one, (427, 427))) for one in pictures.values()]
    names = ("pagoda", "dahlia", "Grace Hopper")
    return array_images(np.stack(squares), np.arange(3), name="photographs", split="all", classes=names)


def _balanced(images: ImageSet, n: int) -> ImageSet:
    """The first n images of each class."""
    rows = [np.flatnonzero(images.labels == one)[:n] for one in range(len(images.classes))]
    return images.subset(np.sort(np.concatenate(rows)), split="looked at")


if __name__ == "__main__":
    main()
