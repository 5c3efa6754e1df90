"""Sets of encoded images with labels, of every kind of source."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from datasets import ClassLabel, Dataset, Features, Value
from datasets import Image as ImageFeature
from PIL import Image

from tests.shard_files import png, tar


def part_of(number: int) -> str:
    """The part of an image where a source has parts: every fifth is tested on."""
    return "val" if number % 5 == 4 else "train"


def encoded(image: Image.Image | np.ndarray, **options: object) -> bytes:
    """An image as a PNG."""
    held = io.BytesIO()
    (Image.fromarray(image) if isinstance(image, np.ndarray) else image).save(held, "PNG", **options)
    return held.getvalue()


def made(root: Path, kind: str, labels: Sequence[str], images: Sequence[bytes] = (), **columns: Sequence[str]) -> str:
    """The text that opens a new set: by default of noise, with columns next to the labels where its kind has any."""
    images = images or [png(i) for i in range(len(labels))]
    root.mkdir(parents=True)
    if kind in ("folder", "folders", "torchvision"):
        below = {"folder": ("", ""), "folders": ("train", "val"), "torchvision": ("train", "valid")}[kind]
        for number, (label, content) in enumerate(zip(labels, images, strict=True)):
            folder = root / ("rendered-sst2" if kind == "torchvision" else "") / below[part_of(number) == "val"] / label
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{number}.png").write_bytes(content)
        return f"torchvision:RenderedSST2:{root}" if kind == "torchvision" else str(root)
    if kind == "table":
        for number, content in enumerate(images):
            (root / f"{number}.png").write_bytes(content)
        rows = zip([f"{i}.png" for i in range(len(labels))], labels, *columns.values(), strict=True)
        lines = map(",".join, [["path", "label", *columns], *rows])
        (root / "all.csv").write_text("\n".join(lines), encoding="utf-8")
        return str(root / "all.csv")
    if kind == "npz":
        x = np.stack([np.asarray(Image.open(io.BytesIO(content))) for content in images])
        np.savez(root / "all.npz", x=x, y=np.array(labels))
        return str(root / "all.npz")
    if kind == "parquet":
        pq.write_table(pa.table({"image": images, "label": labels, **columns}), root / "all.parquet", row_group_size=7)
        return f"parquet:{root}/all.parquet"
    if kind == "tar":
        numbers = [sorted(set(labels)).index(label) for label in labels]
        members = [
            (f"{i}.{ending}", content)
            for i, pair in enumerate(zip(numbers, images, strict=True))
            for ending, content in (("cls", b"%d" % pair[0]), ("png", pair[1]))
        ]
        (root / "all.tar").write_bytes(tar(members))
        return f"webdataset:{root}/all.tar"
    features = {"image": ImageFeature(mode="RGB" if kind == "huggingface as RGB" else None)}
    features |= {"label": ClassLabel(names=sorted(set(labels)))} | {name: Value("string") for name in columns}
    cells = {"image": [{"bytes": one, "path": None} for one in images], "label": list(labels), **columns}
    Dataset.from_dict(cells, features=Features(features)).save_to_disk(str(root))
    return f"huggingface:{root}"
