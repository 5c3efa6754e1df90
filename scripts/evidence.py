"""Writes results/evidence/ORIGIN.tsv: numbers that others measured, for encoders that have cards.

python scripts/evidence.py NUMBERS.csv OPENCLIP.csv PROBES.csv

NUMBERS.csv, and PROBES.csv of scripts/probe_numbers.py, have the columns origin, origin_model, dataset, task, protocol,
metric, value, n_repeats, sd, ci_low, ci_high, detail; OPENCLIP.csv is docs/openclip_results.csv of open_clip, for its
mean over 38 data sets. results/evidence/ has the tables that are kept by hand: encoders.tsv (which model of an origin
is which card, and why others are left out), datasets.tsv (which data set is meant) and origins.toml (who measured).
Digits are copied, the decimal point is moved by two places. Of torchgeo-bench rows with RGB bands count, which encoders
of the zoo take.
"""

from __future__ import annotations

import csv
import sys
from collections import Counter, defaultdict
from decimal import Decimal
from pathlib import Path

from zoo.cards.catalogue import load_catalogue
from zoo.results.reported_values import EVIDENCE_COLUMNS, METRICS

FOLDER = Path(__file__).resolve().parent.parent / "results" / "evidence"
PER_CLASS = ("caltech-101", "oxford-pets", "oxford-flowers", "fgvc-aircraft")  # of DataComp's data sets
OWN_SCORE = ("dollar-street", "geode", "fmow", "iwildcam")
NEAR_CHANCE = (
    "near chance on ImageNet-1K, SUN397 and others where the same weights reach 75 % and more without labels: "
    "the logistic regression did not converge"
)
NOT_ITS_PIXELS = (
    "pixels were normalised by mean and deviation 0.5, not by ImageNet's, with which the network was trained"
)
DOUBTS = {
    ("mteb", "QuanSun/EVA02-CLIP-B-16"): NEAR_CHANCE,
    ("mteb", "QuanSun/EVA02-CLIP-L-14"): NEAR_CHANCE,
    ("mteb", "nyu-visionx/moco-v3-vit-l"): NOT_ITS_PIXELS,
}
VISBENCH = {  # protocol and metric by task
    "classification": ("reported-linear", "top1_accuracy"),
    "retrieval": ("reported-retrieval", "mean_average_precision"),
    "similarity": ("reported-retrieval", "score"),
    "correspondence": ("reported-correspondence", "correspondence_recall"),
    "depth": ("reported-decoder", "depth_rmse"),
    "surface_normal": ("reported-decoder", "score"),
    "generic_segmentation": ("reported-decoder", "score"),
    "semantic_segmentation": ("reported-decoder", "mean_iou"),
    "detection": ("reported-decoder", "mean_average_precision"),
}
NO_SHARE = "mAP@5 over all relevant images, of which there are more than five: it orders encoders and is no share"


def table(path: Path, delimiter: str = "\t") -> list[dict[str, str]]:
    """The rows of a table with a header."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter=delimiter))


def percent(share: str) -> str:
    """A share as percent, with the same digits."""
    return f"{Decimal(share).scaleb(2).normalize():f}" if share else ""


def words_of(note: str) -> str:
    """How features were pooled, in few words; encoders.tsv has more."""
    return "projected to the space of texts" if "projected" in note.partition(";")[0] else note.partition(";")[0]


def kind_of(row: dict[str, str], dataset: str) -> tuple[str, str, str, str]:
    """Protocol, metric, split and setting of a row."""
    few = "train 16-shot -> val" if dataset == "imagenet-1k" else ""
    full = "train -> val" if dataset == "imagenet-1k" else ""
    how = row["protocol"].partition(" ")[2]
    more = [part for part in row["detail"].split("; ") if part and not part.startswith("image_size")]
    setting = ", ".join((row["protocol"], *more))
    match row["protocol"]:
        case "efficient-probing linear" | "efficient-probing knn" | "efficient-probing attentive":
            return f"reported-{how}", "top1_accuracy", full, setting
        case "clip_benchmark 10-shot" | "clip_benchmark 25-shot":
            few = few.replace("16-shot", how)
            return "reported-few-shot", "top1_accuracy", few, setting
        case "clip_benchmark linear" | "dinov3-in1k-probes linear":
            return "reported-linear", "top1_accuracy", full, setting
        case protocol if protocol.startswith("visbench"):
            kind, metric = VISBENCH.get(how, ("reported-decoder", "pearson_correlation"))
            return kind, metric, "", protocol
        case "mteb-image-classification":
            metric = "score" if dataset == "voc-2007-multilabel" else "top1_accuracy"
            return "reported-few-shot", metric, few, row["protocol"]
        case "mteb-image-clustering":
            return "reported-clustering", "score", "", row["protocol"]
        case "mteb-image-retrieval":
            return "reported-retrieval", "score", "", row["protocol"]
        case "datacomp-38":
            if "retrieval" in row["task"]:
                return "reported-text-retrieval", "score", "", row["protocol"]
            metric = (
                "mean_class_recall" if dataset in PER_CLASS else "score" if dataset in OWN_SCORE else "top1_accuracy"
            )
            return "reported-zero-shot", metric, "val" if dataset == "imagenet-1k" else "", row["protocol"]
        case "clip_benchmark zero-shot":
            names = {"acc1": "top1_accuracy", "mean_per_class_recall": "mean_class_recall"}
            metric = names.get(row["metric"], "mean_average_precision")
            return "reported-zero-shot", metric, "val" if dataset == "imagenet-1k" else "", row["protocol"]
        case "torchgeo-bench linear" | "torchgeo-bench knn5":
            detail = dict(part.split(" ", 1) for part in row["detail"].split("; "))
            protocol = "reported-linear" if row["protocol"].endswith("linear") else "reported-knn"
            metric = "top1_accuracy" if row["metric"] == "accuracy" else "mean_average_precision"
            setting = f"{row['protocol']}, {detail['normalization']}, {detail['n_train']} training images"
            return protocol, metric, "", setting
        case "eva default":
            if row["metric"] == "dice":
                return "reported-decoder", "dice", "", row["protocol"]
            slides = dataset.startswith(("camelyon16", "panda"))
            return ("reported-attentive" if slides else "reported-linear"), "balanced_accuracy", "", row["protocol"]
    raise SystemExit(f"Found the protocol {row['protocol']!r}, which this script does not know; describe it first.")


def main(numbers: Path, openclip: Path, probes: Path) -> None:
    cards = load_catalogue()
    encoders = {(one["origin"], one["origin_model"]): one for one in table(FOLDER / "encoders.tsv")}
    datasets = {
        tuple(name.split(":", 1)): one["id"]
        for one in table(FOLDER / "datasets.tsv")
        for name in filter(None, one["names"].split("; "))
    }
    made: defaultdict[str, dict[tuple[str, ...], dict[str, str]]] = defaultdict(dict)
    left_out: Counter[str] = Counter()

    def add(origin: str, model: str, row: dict[str, str]) -> None:
        matched = encoders[origin, model]
        card = cards[matched["encoder"]]
        other = "" if matched["features"] == "card" else words_of(matched["note"])
        row |= {"encoder": card.id, "features": other}
        doubt = DOUBTS.get((origin, model), "") if row["protocol"] == "reported-few-shot" else ""
        row |= {"doubt": NO_SHARE if row["dataset"].startswith(("roxford", "rparis")) else doubt, "remark": ""}
        own = origin in ("open_clip", "clip_benchmark_probes") and card.family.startswith("openclip")
        row["standing"] = "authors" if own else "third party"
        key = tuple(
            row[name] for name in ("encoder", "metric", "dataset", "split", "protocol", "setting", "resolution")
        )
        before = made[origin].setdefault(key, row)
        if before["value"] != row["value"]:
            raise SystemExit(f"{origin} has {before['value']} and {row['value']} for {key}; leave one model out.")

    for one in (*table(numbers, ","), *table(probes, ",")):
        origin, model = one["origin"], one["origin_model"]
        if not encoders[origin, model]["encoder"]:
            left_out[f"{origin}: model without a card"] += 1
            continue
        if origin == "torchgeo-bench" and not one["detail"].startswith("bands rgb;"):
            left_out[f"{origin}: bands that no encoder here takes"] += 1
            continue
        dataset = datasets[origin, one["dataset"]]
        protocol, metric, split, setting = kind_of(one, dataset)
        size = one["detail"].partition("image_size ")[2].partition(";")[0].partition(".")[0]
        px = size or str(cards[encoders[origin, model]["encoder"]].preprocess.crop_px)
        unit = METRICS[metric].units[0]
        value = percent(one["value"]) if unit == "percent" else one["value"]
        row = {"metric": metric, "dataset": dataset, "split": split, "value": value, "unit": unit}
        row |= {"protocol": protocol, "resolution": px, "setting": setting, "repeats": one["n_repeats"]}
        row |= {"sd": percent(one["sd"]), "low": percent(one["ci_low"]), "high": percent(one["ci_high"])}
        add(origin, model, row)
    means = {f"{one['name']}|{one['pretrained']}": one["Average perf. on 38 datasets"] for one in table(openclip, ",")}
    for (origin, model), matched in encoders.items():
        if origin == "open_clip" and matched["encoder"]:
            px = str(cards[matched["encoder"]].preprocess.crop_px)
            row = {"metric": "mean_score", "dataset": "38 data sets", "split": "", "value": percent(means[model])}
            row |= {"unit": "percent", "protocol": "reported-zero-shot", "resolution": px, "setting": "datacomp-38"}
            add(origin, model, row | {"repeats": "1", "sd": "", "low": "", "high": ""})
    for origin, rows in sorted(made.items()):
        ordered = sorted(rows.values(), key=lambda row: [row[name] for name in EVIDENCE_COLUMNS])
        lines = ["\t".join(EVIDENCE_COLUMNS), *("\t".join(row[name] for name in EVIDENCE_COLUMNS) for row in ordered)]
        (FOLDER / f"{origin}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
        print(f"{origin}: {len(ordered)} rows of {len({row['encoder'] for row in ordered})} encoders")
    for reason, n in sorted(left_out.items()):
        print(f"left out, {reason}: {n}")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:4]))
