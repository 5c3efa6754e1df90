"""What half precision costs: the error of linear probes on features stored in float16, or computed by autocast.

Command: python benchmarks/half_precision.py --out half.json

Features of a few toy encoders are computed in float32, and by autocast in bfloat16 and float16; those in
float32 are saved with float32 and with float16 rows (``stored``), and read back. The same probes, on the same rows of
the same seeds, are tuned on all: a difference is that of the rounding, which keeps eleven bits (bfloat16: eight), and
of the settings that a probe then chooses. Next to it stands how far the error moves from one draw of labels to another,
and the share of test images that are right under one and wrong under the other. The bytes are those of the files.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from dataclasses import replace
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np

import zoo
from zoo.datasets import open_images
from zoo.evaluation.evaluating import build_probe_maker
from zoo.evaluation.layers import subsample_images
from zoo.evaluation.measuring import label_setting, measure
from zoo.evaluation.protocols import PROTOCOLS
from zoo.features import Features, featurise, load_features
from zoo.features.origin import format_storage
from zoo.files import replace_file

ENCODERS = ("pocket_simclr_rn_shapes", "pocket_dino_vit_shapes", "pocket_mae_vit_shapes", "pocket_sup_rn_shapes")
PRECISIONS = ("bfloat16", "float16")
SETTINGS = ("5-shot", "30-shot", "full")


def stored(features: Features, folder: Path, kind: str) -> tuple[Features, int]:
    """The features as they are read from shards of a type, and the bytes of their rows' files."""
    precision = format_storage(features.origin.precision, kind)
    place = replace(features, origin=replace(features.origin, precision=precision)).save(folder)
    n_bytes = sum(path.stat().st_size for path in place.glob("shard-*"))
    read = load_features(place)
    return replace(read, x=np.asarray(read.x)), n_bytes


def measured(
    encoder: str, images: str, *, n_train: int, n_test: int, n_seeds: int, precisions: list[str], folder: Path
) -> dict[str, Any]:
    """Errors of both types of shards by setting and seed."""
    data = open_images(images)
    network, preprocess = zoo.load(encoder)
    parts: dict[str, dict[str, Features]] = {kind: {} for kind in ("float32", "stored", *precisions)}
    n_bytes = {"float32": 0, "float16": 0}
    for part, whole, n in (("train", data.train, n_train), ("val", data.val, n_test)):
        some = subsample_images(whole, n, seed=0) if n < len(whole) else whole
        for precision in precisions:
            parts[precision][part] = featurise(network, preprocess, some, name=encoder, precision=precision)
        features = featurise(network, preprocess, some, name=encoder)
        for type_name, kind in (("float32", "float32"), ("float16", "stored")):
            parts[kind][part], size = stored(features, folder / encoder / images / part / type_name, type_name)
            n_bytes[type_name] += size
    settings = []
    for name in SETTINGS:
        runs: dict[str, list[Any]] = {kind: [] for kind in parts}
        for seed in range(1 if name == "full" else n_seeds):
            for kind, both in parts.items():
                make = build_probe_maker(PROTOCOLS["zoo-logistic-3"], device="cpu", seed=0)
                runs[kind].append(measure(both["train"], both["val"], label_setting(name), seed=seed, probe=make))
        errors = {kind: [run.error_percent for run in several] for kind, several in runs.items()}
        changed = {
            kind: 100
            * mean(float(np.mean(a.correct != b.correct)) for a, b in zip(runs["float32"], several, strict=True))
            for kind, several in runs.items()
        }
        settings.append({"setting": name, "errors": errors, "changed_percent": changed})
    x = parts["float32"]["val"].x
    lengths = np.linalg.norm(x, axis=1)
    rounding = {
        kind: float((np.linalg.norm(both["val"].x - x, axis=1) / lengths).max()) for kind, both in parts.items()
    }
    counts = {"n_train": len(parts["float32"]["train"]), "n_test": len(parts["float32"]["val"]), "dim": int(x.shape[1])}
    return {
        "encoder": encoder, "images": images, **counts, "bytes": n_bytes, "rounding": rounding, "settings": settings
    }  # fmt: skip


def main() -> None:
    """Measures, prints a table, and writes it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--images", nargs="+", default=["digits", "fashion-mnist"])
    parser.add_argument("--encoders", nargs="+", default=list(ENCODERS))
    parser.add_argument("--train", type=int, default=6_000, help="images at most")
    parser.add_argument("--test", type=int, default=5_000, help="images at most")
    parser.add_argument("--seeds", type=int, default=3, help="draws of the settings with few labels")
    parser.add_argument("--precisions", nargs="+", choices=PRECISIONS, default=list(PRECISIONS), help="of autocast")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    found: list[dict[str, Any]] = []
    others = ["stored", *options.precisions]
    print(
        "| images | encoder | labels | float32 error % | between draws | "
        + " | ".join(f"{kind} (changed %)" for kind in others)
    )
    with tempfile.TemporaryDirectory() as private:
        for images in options.images:
            for encoder in options.encoders:
                one = measured(
                    encoder, images, n_train=options.train, n_test=options.test, n_seeds=options.seeds,
                    precisions=options.precisions, folder=Path(private),
                )  # fmt: skip
                found.append(one)
                for row in one["settings"]:
                    exact = mean(row["errors"]["float32"])
                    spread = f"{stdev(row['errors']['float32']):.2f}" if len(row["errors"]["float32"]) > 1 else "-"
                    moved = [
                        f"{mean(row['errors'][kind]) - exact:+.3f} ({row['changed_percent'][kind]:.2f})"
                        for kind in others
                    ]
                    print(
                        f"| {images} | {encoder} | {row['setting']} | {exact:.2f} | {spread} | " + " | ".join(moved),
                        flush=True,
                    )
    for one in found:
        share = one["bytes"]["float16"] / one["bytes"]["float32"]
        print(
            f"{one['encoder']} on {one['images']}: {one['n_train']:,} + {one['n_test']:,} images, {one['dim']} "
            f"dimensions, {one['bytes']['float32']:,} bytes, as float16 {one['bytes']['float16']:,} ({share:.0%})"
        )
        print(
            "features off by at most, relative: " + ", ".join(f"{kind} {one['rounding'][kind]:.1e}" for kind in others)
        )
    for kind in others:
        rows = [row["errors"] for one in found for row in one["settings"]]
        differences = [mean(row[kind]) - mean(row["float32"]) for row in rows]
        print(
            f"{kind} - float32, in percentage points, over {len(differences)} settings: mean {mean(differences):+.4f}, "
            f"from {min(differences):+.3f} to {max(differences):+.3f}"
        )
    if options.out is not None:
        with replace_file(options.out) as file:
            file.write(json.dumps(found, indent=1).encode())


if __name__ == "__main__":
    main()
