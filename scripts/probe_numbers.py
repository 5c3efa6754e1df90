"""Writes the numbers of origins that publish their probes in a repository, for scripts/evidence.py.

python scripts/probe_numbers.py FOLDER PROBES.csv

FOLDER has a clone of each repository, by name: efficient-probing (billpsomas), CLIP_benchmark (LAION-AI),
dinov3-in1k-probes (yberreby) and VisBench (turhancan97). Files are read at the commits of COMMITS, whatever is checked
out; what each number means is in results/evidence/README.md. Of a row with several trainings the best counts where the
origin's own tables and figures have the best.
"""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

COLUMNS = (
    "origin", "origin_model", "dataset", "task", "protocol", "metric", "value", "n_repeats", "sd", "ci_low", "ci_high",
    "detail",
)  # fmt: skip
COMMITS = {
    "efficient-probing": "b8f4fb8",
    "CLIP_benchmark": "48de38c",
    "dinov3-in1k-probes": "e7c1cc3",
    "VisBench": "feafbaf",
}
TASKS = {  # of VisBench: the one of its metrics that counts here
    "classification": "top1", "retrieval": "mAP", "similarity": "accuracy", "correspondence": "recall@5px",
    "depth": "rmse", "surface_normal": "d2", "generic_segmentation": "iou", "semantic_segmentation": "miou",
    "detection": "map_50", "edge": "edge_correlation", "corner": "corner_correlation",
    "keypoints2d": "keypoint_correlation", "occlusion_edge": "occlusion_edge_correlation",
}  # fmt: skip
OWN_POOLING = re.compile(r"\| \[[\d.]+\]\(logs/(\w+)/knn\.txt\) \| \[([\d.]+)\][^|]*\| [^|]*\| \**\[([\d.]+)\]")
OWN_HEAD = re.compile(r"\| \[(ViT-\S+)\]\S+ \| [\d.]+% / \*\*([\d.]+)%\*\* \| ([\d.]+)% \|")
UNNORMED = ("vit_", "hiera_")  # networks that are read before their last norm; neighbours feel it, probes do not
HELD_OUT = (
    "ViT-B-32-quickgelu laion400m_e32", "ViT-B-16 laion400m_e32", "ViT-L-14 laion400m_e32", "ViT-B-32 laion2b_e16",
)  # fmt: skip
"""Whose ImageNet-1K is left out, for others to hold it against what is expected of them."""


def text_of(folder: Path, repository: str, path: str) -> str:
    """A file of a repository at its commit."""
    command = ["git", "-C", str(folder / repository), "show", f"{COMMITS[repository]}:{path}"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def row(origin: str, model: str, dataset: str, protocol: str, value: str, detail: str = "") -> dict[str, str]:
    """One accuracy of one training; ``value`` is a share."""
    return dict.fromkeys(COLUMNS, "") | {
        "origin": origin, "origin_model": model, "dataset": dataset, "task": "classification", "protocol": protocol,
        "metric": "accuracy", "value": value, "n_repeats": "1", "detail": detail,
    }  # fmt: skip


def share(percent: str) -> str:
    """A percentage as a share, with the same digits."""
    whole, _, rest = percent.partition(".")
    return f"0.{whole:0>2}{rest}"


def of_efficient_probing(folder: Path) -> Iterator[dict[str, str]]:
    """Each encoder by neighbours, a linear and an attentive probe; what they read is part of the model's name."""
    table = text_of(folder, "efficient-probing", "results.csv")
    sizes = {}
    for one in csv.DictReader(io.StringIO(table)):
        name, reads, px = one["lp_log"].split("/")[1], one["lp_variant"], f"image_size {one['image_size']}"
        sizes[name] = px
        raw = "raw " if one["model"].startswith(UNNORMED) and "mim_in22k" not in one["model"] else ""
        tokens = "patch and class tokens" if one["ep_variant"] == "ep_all" else "patch tokens"
        queries = f"{px}; {one['ep_queries']} queries of {tokens}"
        for protocol, model, percent, detail in (
            ("linear", reads, one["lp"], px),
            ("knn", f"{raw}{reads}", one["knn"], px),
            ("attentive", one["ep_variant"], one["ep"], queries),
        ):
            kind = f"efficient-probing {protocol}"
            yield row("efficient-probing", f"{name}|{model}", one["eval"], kind, share(percent), detail)
    for name, knn, linear in OWN_POOLING.findall(text_of(folder, "efficient-probing", "README.md")):
        for protocol, percent in (("linear", linear), ("knn", knn)):
            kind, detail = f"efficient-probing {protocol}", f"{sizes[name]}; own pooling"
            yield row("efficient-probing", f"{name}|pooler", "IN-1K", kind, share(percent), detail)


def of_clip_benchmark(folder: Path) -> Iterator[dict[str, str]]:
    """The best of nine trainings of each encoder, data set and number of labels."""
    best: dict[tuple[str, str, int], float] = {}
    for one in json.loads(text_of(folder, "CLIP_benchmark", "probe_benchmark/scaling_experiment_data2.json")):
        key = one["model_short"], one["dataset"], one["fewshot_k"]
        best[key] = max(best.get(key, 0.0), one["lp_acc1"])
    for (model, dataset, shots), accuracy in best.items():
        if model in HELD_OUT and dataset.startswith("imagenet1k"):
            continue
        kind = f"clip_benchmark {shots}-shot" if shots > 0 else "clip_benchmark linear"
        detail = "VTAB's training split" if dataset.startswith("vtab") else ""
        yield row("clip_benchmark_probes", model.replace(" ", "|"), dataset, kind, str(accuracy), detail)


def of_dinov3_probes(folder: Path) -> Iterator[dict[str, str]]:
    """A linear head for each of five small DINOv3."""
    for model, real, top1 in OWN_HEAD.findall(text_of(folder, "dinov3-in1k-probes", "README.md")):
        for dataset, percent in (("IN-ReAL", real), ("IN1k", top1)):
            kind = "dinov3-in1k-probes linear"
            yield row("dinov3-in1k-probes", model, dataset, kind, share(percent), "image_size 512")


def of_visbench(folder: Path) -> Iterator[dict[str, str]]:
    """Twelve networks on thirteen tasks; tasks of maps read the patch tokens, the others what ``pooling`` says."""
    for line in text_of(folder, "VisBench", "results/corpus/visbench.jsonl").splitlines():
        one = json.loads(line)
        reads = one["pooling"] if one["pooling_requested"] == "default" and one["task"] != "correspondence" else "map"
        value = str(one["metrics"][TASKS[one["task"]]])
        model, task = f"{one['backbone']}|{reads}", one["task"]
        yield row("visbench", model, task, f"visbench {task}", value, "image_size 224") | {"task": task}


def main(folder: Path, out: Path) -> None:
    of_each = (of_efficient_probing, of_clip_benchmark, of_dinov3_probes, of_visbench)
    rows = [one for read in of_each for one in read(folder)]
    with out.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    print(f"{out}: {len(rows)} numbers")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:3]))
