"""Draws the pictures of the README and of the pages, from the cards, from measurements and from runs of the zoo.

``python -m docs.pictures [NAME...]`` writes them to docs/pictures/; ``make docs`` does so too.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from PIL import Image

import zoo
from scripts.look_pictures import photographs
from zoo.analysis.label_budget import MOST_LABELS
from zoo.cards.catalogue import load_catalogue
from zoo.cards.schema import EncoderCard, Missing
from zoo.choosing.choosing import choose
from zoo.choosing.ranking import rank_encoders
from zoo.datasets import open_dense, open_images
from zoo.errors import ZooError
from zoo.evaluation.evaluating import Request, evaluate, featurise_data
from zoo.evaluation.refit import keep_probe
from zoo.evaluation.segmentation_runs import choose_variant, measure_segmentation
from zoo.features.maps import featurise_maps, parse_map_grid
from zoo.files import get_evaluations_folder
from zoo.looking.components import component_colours, patch_similarity
from zoo.looking.masks_page import make_mask_image, mark_wrong
from zoo.looking.mistakes import mistakes_of
from zoo.looking.showing import convert_to_heat
from zoo.results.derived import summaries
from zoo.results.reported import reported_numbers, select_preferred_accuracies
from zoo.results.reported_values import PROTOCOLS, TOP_1
from zoo.results.values import IMAGENET
from zoo.results.wording import format_setting
from zoo.site.contents import gather
from zoo.site.expected import SiteError, compute_site_errors
from zoo.site.first_page import FARTHEST, KINDS, classify_network

FOLDER = Path(__file__).resolve().parent / "pictures"
INK, SOFT, FAINT = "#1b1f24", "#57606a", "#c9d0d8"
COLOURS = {"self": "#c65300", "text": "#0072b2", "labels": "#5b6470"}


def error_against_size() -> Figure:
    """Error on ImageNet-1K against the number of parameters: found by a linear probe, or expected without one."""
    contents = gather()
    _, known = compute_site_errors(contents)
    cards = {name: contents.entries[name].card for name in known}
    drawn = {name: one for name, one in known.items() if one.is_drawn and one.error <= FARTHEST}
    reported = select_preferred_accuracies()
    probed = {
        name for name, one in drawn.items() if one.basis == "the study" or "reported-linear" in reported.get(name, {})
    }
    front = _front({name: one for name, one in drawn.items() if one.is_ranked}, cards)
    figure, axes = _sheet(9.0, 4.7)
    for kind, colour in COLOURS.items():
        for is_probed in (False, True):
            names = [name for name in drawn if classify_network(cards[name]) == kind and (name in probed) == is_probed]
            axes.scatter(
                [_size(cards[name]) * 10 ** _apart(name) for name in names if name not in front],
                [drawn[name].error for name in names if name not in front],
                s=13, c=colour if is_probed else "none", alpha=0.55, linewidths=0 if is_probed else 0.7,
                edgecolors=colour, label=KINDS[kind] if is_probed else None,
            )  # fmt: skip
    axes.set(xscale="log", yscale="log", xlim=(1.1e6, 9e9), ylim=(9.2, FARTHEST * 1.05))
    path = [(_size(cards[name]), drawn[name].error) for name in front]
    axes.step(*zip(*path, strict=True), where="post", color=INK, linewidth=1.1, zorder=3)
    for name in front:
        low, high = drawn[name].low, drawn[name].high
        if low is not None and high is not None:
            axes.plot([_size(cards[name])] * 2, [low, min(high, FARTHEST)], color=INK, linewidth=0.8, zorder=3)
    _named(axes, front, cards, drawn, probed)
    axes.set_xticks([1e7, 1e8, 1e9], ["10M", "100M", "1G"])
    axes.set_yticks([10, 15, 20, 30, 50], ["10", "15", "20", "30", "50 %"])
    axes.minorticks_off()
    axes.set_xlabel("parameters", loc="right")
    axes.scatter(
        [], [], s=16, c="none", edgecolors=SOFT, linewidths=0.8, label="hollow: expected, no linear probe known"
    )
    axes.legend(loc="upper right", frameon=False, fontsize=9, handletextpad=0.1, labelcolor=SOFT)
    small, middle, large = (f"{_best_below(front, drawn, cards, most):.0f} %" for most in (7e6, 1e8, math.inf))
    return _titled(
        figure,
        f"Lowest expected error on ImageNet-1K: {small} with 7M parameters, {middle} with 100M",
        f"{large} at any size. Linear probes, all labels, {len(drawn):,} encoders; filled: probed by us or others "
        f"({len(probed)}, of the line {sum(name in probed for name in front)} of {len(front)}); bars: 90 % intervals",
    )


def _apart(name: str) -> float:
    """Shift of a point to the side in powers of ten, for a hundred encoders may share a network; always the same."""
    return 0.05 * (crc32(name.encode()) / 2**31 - 1)


def _size(card: EncoderCard) -> float:
    n = card.architecture.n_parameters
    return math.nan if isinstance(n, Missing) else float(n)


def _front(known: dict[str, SiteError], cards: dict[str, EncoderCard]) -> list[str]:
    """Encoders that no other beats in error with as few parameters, the smallest first."""
    best: list[str] = []
    for name in sorted(known, key=lambda name: (_size(cards[name]), known[name].error)):
        if not best or known[name].error < known[best[-1]].error:
            best.append(name)
    return best


def _best_below(front: list[str], known: dict[str, SiteError], cards: dict[str, EncoderCard], most: float) -> float:
    return min(known[name].error for name in front if _size(cards[name]) <= most)


def _named(
    axes: Axes, front: list[str], cards: dict[str, EncoderCard], known: dict[str, SiteError], probed: set[str]
) -> None:
    """Names of the line below it, where they touch no other, the best first."""
    canvas = FigureCanvasAgg(axes.get_figure(root=True))
    canvas.draw()  # which lays out, so that extents of texts are final
    taken = []
    for name in reversed(front):
        x, y = _size(cards[name]), known[name].error
        axes.plot(x, y, "o", color=INK, markersize=4.5, zorder=4, markerfacecolor=INK if name in probed else "white")
        text = axes.annotate(
            name, (x, y), (-5, -6), textcoords="offset points", ha="right", va="top", size=8.5, color=INK
        )
        box = text.get_window_extent(canvas.get_renderer())
        if any(box.overlaps(other.expanded(1.03, 1.1)) for other in taken) or box.x0 < axes.bbox.x0:
            text.remove()
        else:
            taken.append(box)


def choosing() -> Figure:
    """Toy encoders, and two of today's small ones, in a race on scikit-learn's digits."""
    names = [name for name in load_catalogue() if name.startswith("pocket_") and name.endswith("_shapes")]
    choice = choose("digits", encoders=[*names, "sup_efficientnet_lite0", "sup_efficientnet_lite1"], time_s=None)
    standings = [one for one in choice.race.standings if one.error is not None][:10]
    figure, axes = _sheet(6.2, 3.4)
    for place, one in enumerate(standings):
        error = one.error
        assert error is not None and error.ci_low is not None and error.ci_high is not None
        colour = {"leader": "#009e73", "tie": "#0072b2"}.get(one.verdict, "#8a939d")
        axes.plot([error.ci_low, error.ci_high], [place, place], color=colour, linewidth=5, alpha=0.35)
        axes.plot(
            error.value, place, "o", color=colour, markersize=6, fillstyle="full" if one.status == "probed" else "none"
        )
        axes.annotate(f"{error.value:.1f}", (error.ci_high, place), (5, 0), textcoords="offset points", va="center",
                      size=8.5, color=SOFT)  # fmt: skip
    axes.set_yticks(range(len(standings)), [one.name for one in standings])
    axes.tick_params(axis="y", colors=INK)
    axes.set(ylim=(len(standings) - 0.4, -0.6), xlim=(0, None), xlabel="error, percent (lower is better)")
    axes.grid(visible=False, axis="y")
    n = len(choice.ties)
    ties = f"{n} other is" if n == 1 else f"{n} others are" if n else "no other is"
    below = (
        f"A race of {len(choice.race.standings)} encoders on {choice.data.name}; 95 % intervals, hollow: dropped early"
    )
    return _titled(figure, f"{choice.winner} is best; {ties} tied with it", below)


def measuring() -> Figure:
    """Mistakes of a probe on Fashion-MNIST, 3,000 training and 1,000 test images, and labels that may be wrong."""
    whole = open_images("fashion-mnist")
    train, test = (part.subset(range(n), split=part.split) for part, n in ((whole.train, 3000), (whole.val, 1000)))
    data = replace(whole, name="fashion-mnist-3k", train=train, val=test)
    request = Request(settings=("full",), neighbours=False)
    features = featurise_data("sup_efficientnet_lite0", data, root=get_evaluations_folder())
    measured = evaluate(features["train"], features["val"], request)
    probe = keep_probe(measured, request).probe
    found = mistakes_of(features["train"], features["val"], probe, protocol=measured.protocols.errors)
    assert found.n_wrong is not None and found.wrong_labels is not None
    pair = found.confusions[0]
    rows = {
        "confident\nmistakes": found.confident[:8],
        f"{pair.label} taken\nfor {pair.predicted}": pair.images[:8],
        "labels\nto check": found.wrong_labels.found[:8],
    }
    images = {
        (part.split, name): image for part in (train, test) for name, image in zip(part.names, part.images, strict=True)
    }
    figure = Figure(figsize=(9.0, 3.9), facecolor="white", layout="constrained")
    grid = figure.subplots(len(rows), 8)
    for line, (words, some) in zip(grid, rows.items(), strict=True):
        for axes, one in zip(line, some, strict=False):
            axes.imshow(images[one.part, one.image], cmap="gray", interpolation="nearest")
            axes.set_title(f"{one.label}\n→ {one.predicted}", size=6.5, color=SOFT, pad=3)
        for axes in line:
            axes.set(xticks=[], yticks=[])
            axes.spines[:].set_visible(False)
        line[0].set_ylabel(words, size=8.5, color=INK, weight="bold")
    return _titled(
        figure,
        f"What a probe gets wrong: {found.n_wrong} of {found.n_test:,} garments",
        "EfficientNet-Lite0 on Fashion-MNIST: label → prediction; last row: labels of any part that it contradicts",
    )


def looking() -> Figure:
    """Photographs next to principal components of patch features, and what is similar to a marked patch."""
    images = photographs()
    columns: list[tuple[str, list[Any]]] = [("photograph", [image.resize((448, 448)) for image in images.images])]
    for name, layer, words in (
        ("sup_efficientnet_lite0", 10, "EfficientNet-Lite0, block 10"),
        ("sup_efficientnet_lite1", 14, "Lite1, block 14"),
        ("sup_efficientnet_lite1", -1, "Lite1, last block"),
    ):
        encoder, preprocess = zoo.load(name, px=896)
        with torch.inference_mode():
            maps = encoder.maps(torch.stack([preprocess(image) for image in images.images]), layer=layer).numpy()  # type: ignore[operator]
        columns.append((words, list(component_colours(maps)[0])))
    mark = maps.shape[2] // 2, maps.shape[3] // 2
    columns.append(("similar to the marked patch", list(convert_to_heat(patch_similarity(maps, 1, mark)))))
    figure = Figure(figsize=(9.0, 4.2), facecolor="white", layout="constrained")
    grid = figure.subplots(2, len(columns))
    for column, (words, tiles) in enumerate(columns):
        for row, axes in enumerate(grid[:, column]):
            axes.imshow(tiles[row], extent=(0, 1, 1, 0), interpolation="nearest")
            axes.set_axis_off()
            if row == 1 and column in (0, len(columns) - 1):
                at = (mark[1] / maps.shape[3], mark[0] / maps.shape[2])
                axes.add_patch(Rectangle(at, 1 / maps.shape[3], 1 / maps.shape[2], fill=False, color="white"))
        grid[0, column].set_title(words, size=8.5, color=SOFT)
    return _titled(
        figure,
        "What two encoders see: early blocks have edges, late ones objects",
        "Three principal components of the patch features of each block as red, green and blue",
    )


EXAMPLE = "dino_vitS16"  # of the pages that explain
PARTS = {
    "approximation": "#0072b2", "usability": "#009e73", "probe generalization": "#d55e00",
    "encoder generalization": "#a0457e",
}  # fmt: skip


def list_parts(encoder: str) -> dict[str, float]:
    """The parts of an encoder's error on ImageNet-1K with all labels, in percentage points."""
    found = summaries()[encoder].decomposition
    assert found is not None
    return {name: float(getattr(found, name.replace(" ", "_"))) for name in PARTS}


def parts() -> Figure:
    """The error of one encoder, as a sum of four parts."""
    known = list_parts(EXAMPLE)
    figure, axes = _sheet(8.6, 3.5)
    place, total = 0, 0.0
    for place, (name, value) in enumerate(known.items()):
        axes.barh(place, value, left=total, color=PARTS[name], height=0.62)
        axes.plot([total + value] * 2, [place, place + 1], color=FAINT, linewidth=1, zorder=0)
        axes.annotate(
            f"{value:.1f}", (total + value, place), (5, 0), textcoords="offset points", va="center", color=INK
        )
        total += value
    axes.barh(place + 1, total, color=INK, height=0.62)
    axes.annotate(f"{total:.1f}", (total, place + 1), (5, 0), textcoords="offset points", va="center", color=INK)
    asks = ("what the network cannot represent", "what a linear probe cannot read off", "what more labels would mend",
            "what more pre-training images would mend", "all labels, validation images")  # fmt: skip
    names = [f"{name}\n{ask}" for name, ask in zip([*known, "error"], asks, strict=True)]
    axes.set_yticks(range(len(names)), names, size=9)
    axes.set(ylim=(len(names) - 0.5, -0.5), xlim=(0, total * 1.1), xlabel="percentage points of the error")
    axes.grid(visible=False, axis="y")
    told = " + ".join(f"{value:.1f}" for value in known.values())
    return _titled(
        figure,
        f"The error of {EXAMPLE}, {total:.1f} %, is {told}",
        "Linear probe on ImageNet-1K, measured by the study",
    )


COMPARED = "clip_vitB16"  # of which much is known


def protocols() -> Figure:
    """What a linear probe, nearest neighbours, texts and others say of one encoder on one data set."""
    found = {"measured by the study: linear, all labels": 100 - summaries()[COMPARED].errors["100%"]}
    for one in reported_numbers(COMPARED):
        if one.metric == TOP_1 and one.dataset == IMAGENET:
            few = f", {format_setting(one.split)}" if one.protocol == "reported-few-shot" else ""
            kind = "reported by authors" if one.standing == "authors" else f"by {one.measured_by}"
            found[f"{kind}: {PROTOCOLS[one.protocol].short.partition(',')[0]}{few}"] = one.value
    found = dict(sorted(found.items(), key=lambda one: -one[1]))
    figure, axes = _sheet(8.6, 4.1)
    for place, (name, value) in enumerate(found.items()):
        colour = INK if name.startswith("measured") else "#0072b2" if ": linear" in name else "#8a939d"
        axes.plot([0, value], [place, place], color=FAINT, linewidth=1, zorder=0)
        axes.plot(value, place, "o", color=colour, markersize=6)
        axes.annotate(
            f"{value:.1f}", (value, place), (7, 0), textcoords="offset points", va="center", size=9, color=INK
        )
    axes.set_yticks(range(len(found)), [*found], size=9)
    axes.set(ylim=(len(found) - 0.5, -0.5), xlim=(60, 84), xlabel="accuracy on ImageNet-1K, percent (higher is better)")
    axes.grid(visible=False, axis="y")
    low, high = min(found.values()), max(found.values())
    return _titled(
        figure,
        f"One encoder, one data set, {len(found)} numbers from {low:.0f} to {high:.0f} %",
        f"{COMPARED}; black and blue: linear probes with all labels, whose recipes differ; grey: other questions",
    )


def flow() -> Figure:
    """From a card to an answer, for one encoder."""
    card, size = zoo.card(EXAMPLE), f"{_size(zoo.card(EXAMPLE)) / 1e6:.0f}M parameters"
    error, few = (summaries()[EXAMPLE].errors[name] for name in ("100%", "5-shot"))
    n_ranked = len(rank_encoders(MOST_LABELS).ranked)
    licence, dim = str(card.licence.weights), f"{card.representation.dim:,} numbers each"
    steps = {
        "card": [card.id, size, licence, "weights, preprocessing"],
        "features": ["your images, once", dim, "frozen network", "stored with hashes"],
        "probe": ["a linear layer", "tuned on held-out", "training images", "few labels or all"],
        "row": [f"{error:.1f} %, all labels", f"{few:.1f} %, 5 per class", "protocol, interval", "parts of the error"],
        "answer": [f"the best of {n_ranked:,}", "ties and intervals", "cost and licence", "the line to load it"],
    }
    figure = Figure(figsize=(9.0, 1.9), facecolor="white", layout="constrained")
    axes = figure.subplots()
    axes.set(xlim=(0, 5 * 1.18), ylim=(0, 1))
    axes.set_axis_off()
    for place, (name, lines) in enumerate(steps.items()):
        left = place * 1.18 + 0.02
        axes.add_patch(Rectangle((left, 0.04), 1, 0.92, facecolor="#f4f6f8", edgecolor=FAINT))
        axes.text(left + 0.06, 0.84, name, weight="bold", size=11.5, color=COLOURS["text"], va="center")
        for line, text in enumerate(lines):
            axes.text(left + 0.06, 0.64 - 0.165 * line, text, size=8.6, color=INK if line == 0 else SOFT, va="center")
        if place:
            axes.annotate("", (left - 0.01, 0.5), (left - 0.17, 0.5), arrowprops={"arrowstyle": "->", "color": SOFT})
    return figure


def maps() -> Figure:
    """How much of the variance of patches the first principal components keep, by block."""
    data = open_images("shapes:classes=6,train=120,val=60,size_px=224").train
    figure, axes = _sheet(6.2, 3.4)
    kept = {}
    found = featurise_maps("sup_efficientnet_lite0", {"train": data}, layers=(3, 7, 10, 14), parts=("train",))
    for colour, (representation, parts) in zip(
        ("#8a939d", "#009e73", "#c65300", "#0072b2"), found.items(), strict=True
    ):
        grid = parse_map_grid(representation)
        patches = parts["train"].x[:].reshape(-1, grid.channels).astype(np.float64)
        values = np.linalg.eigvalsh(np.cov(patches.T))[::-1]
        shares = 100 * np.cumsum(values) / values.sum()
        block = representation.split()[0].removeprefix("map:")
        n = int(np.searchsorted(shares, 90)) + 1
        kept[block] = n, grid.channels
        words = f"block {block}: {grid.rows} x {grid.columns} places of {grid.channels} channels, 90 % in {n}"
        axes.plot(np.arange(1, len(shares) + 1), shares, color=colour, linewidth=1.8, label=words)
        axes.plot(n, 90, "o", color=colour, markersize=5)
    axes.axhline(90, color=FAINT, linewidth=0.9, zorder=0)
    axes.set(xscale="log", ylim=(0, 102), xlabel="principal components of patches")
    axes.set_xticks([1, 3, 10, 30, 100], ["1", "3", "10", "30", "100"])
    axes.set_yticks([0, 50, 90, 100], ["0", "50", "90", "100 %"])
    axes.minorticks_off()
    axes.legend(loc="lower right", frameon=False, fontsize=8, labelcolor=INK)
    below = "EfficientNet-Lite0 at 224 px on rendered shapes; the share of variance that is kept"
    n, n_all = kept["10"]
    return _titled(figure, f"Block 10: {n} of {n_all} numbers per patch keep 90 %", below)


def pooling() -> Figure:
    """Errors of linear probes of averaged patches and of attentive probes of the same maps, and their differences."""
    data = open_images("shapes:classes=10,train=800,val=400")
    names = [f"pocket_{one}_shapes" for one in ("mae_vit", "dino_vit", "simclr_vit", "simclr_rn", "sup_rn")]
    request = Request(settings=("full",), probe="attentive", neighbours=False)
    figure, axes = _sheet(7.2, 3.0)
    gains = []
    for place, name in enumerate(names):
        (parts,) = featurise_maps(name, data).values()
        found = evaluate(parts["train"], parts["val"], request)
        (compared,) = found.pooled
        of_probe = (
            ("#8a939d", compared.linear.error, "linear, of averaged patches"),
            ("#009e73", found.settings[0].error, "attentive, of the patches"),
        )
        for (colour, error, _), shift in zip(of_probe, (-0.13, 0.13), strict=True):
            axes.plot([error.ci_low, error.ci_high], [place + shift] * 2, color=colour, linewidth=5, alpha=0.35)
            axes.plot(error.value, place + shift, "o", color=colour, markersize=6)
        gain = compared.gain
        gains.append(gain.value)
        value, low, high = (round(one or 0) for one in (gain.value, gain.ci_low, gain.ci_high))
        axes.annotate(f"{value:+d} points ({low:d} to {high:d})", (1.02, place), va="center", size=8.5, color=INK,
                      xycoords=("axes fraction", "data"))  # fmt: skip
    axes.set_yticks(range(len(names)), names)
    axes.tick_params(axis="y", colors=INK)
    axes.set(ylim=(len(names) - 0.4, -0.6), xlim=(0, 100), xlabel="error, percent (lower is better)")
    axes.grid(visible=False, axis="y")
    for colour, _, words in of_probe:
        axes.plot([], [], "o", color=colour, markersize=6, label=words)
    axes.legend(loc="lower right", frameon=False, fontsize=8.5, labelcolor=INK)
    below = (
        f"Rendered shapes, {len(data.train)} training and {len(data.val)} test images; right: gain in accuracy, paired"
    )
    return _titled(figure, f"What averaging hides: up to {max(gains):.0f} points of accuracy", below)


def segmenting() -> Figure:
    """Images, their masks, what a linear head on a map predicts, and where it is wrong; the metric by block."""
    data = open_dense("shapes:classes=6,train=160,val=60,size_px=224", task="segmentation")
    layers = (*((block,) for block in (5, 8, 10, 12, 15)), (8, 10))
    variants = measure_segmentation(["sup_efficientnet_lite0"], data, layers=layers)
    best = choose_variant(variants)
    result: Any = best.result
    order = np.argsort(-result.image_ious, kind="stable")
    figure = Figure(figsize=(9.0, 3.9), facecolor="white", layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=(1.45, 1))
    grid = left.subplots(3, 4)
    for row, (words, image) in enumerate(
        (("best", order[0]), ("typical", order[len(order) // 2]), ("worst", order[-1]))
    ):
        shown, (wanted, valid), given = (
            data.val.images.images[int(image)],
            best.read_mask(int(image)),
            best.predict(image),
        )
        tiles = [shown, make_mask_image(wanted, valid).convert("RGB"), make_mask_image(given).convert("RGB")]
        tiles.append(mark_wrong(shown, valid & (given != wanted)))
        for axes, tile, title in zip(grid[row], tiles, ("image", "mask", "prediction", "error"), strict=True):
            axes.imshow(tile, interpolation="nearest")
            axes.set(xticks=[], yticks=[])
            axes.spines[:].set_visible(False)
            if row == 0:
                axes.set_title(title, size=8.5, color=SOFT)
        grid[row, 0].set_ylabel(f"{words}\n{result.image_ious[image]:.0f} %", size=8.5, color=INK)
    axes = right.subplots()
    for place, one in enumerate(variants):
        found = one.result.metrics["miou"]
        colour = "#009e73" if one is best else "#0072b2"
        axes.plot([found.ci_low, found.ci_high], [place, place], color=colour, linewidth=5, alpha=0.35)
        axes.plot(found.value, place, "o", color=colour, markersize=5)
    axes.set_yticks(range(len(variants)), [_call_blocks(one.layers) for one in variants])
    axes.set(ylim=(len(variants) - 0.4, -0.6), xlim=(0, 100), xlabel="mean intersection over union, percent")
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(colors=SOFT, labelsize=9, length=0)
    axes.grid(axis="x", color="#eceff2", linewidth=0.8)
    axes.xaxis.label.set(color=SOFT, size=9)
    miou = result.metrics["miou"]
    return _titled(
        figure,
        f"{_call_blocks(best.layers).capitalize()} of EfficientNet-Lite0: mIoU {miou.value:.0f} %",
        f"A linear head on maps of {len(data.train)} images of 224 px, {len(data.val.classes)} classes; intervals over "
        f"{len(data.val)} test images; the block was chosen on training images",
    )


def _call_blocks(layers: tuple[int | None, ...]) -> str:
    return f"block{'s' * (len(layers) > 1)} {' + '.join(map(str, layers))}"


def _sheet(width: float, height: float) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(width, height), facecolor="white", layout="constrained")
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(FAINT)
    axes.tick_params(colors=SOFT, labelsize=9, length=0)
    axes.grid(color="#eceff2", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.xaxis.label.set(color=SOFT, size=9)
    axes.yaxis.label.set(color=SOFT, size=9)
    return figure, axes


def _titled(figure: Figure, title: str, below: str) -> Figure:
    """Title and what is shown above the picture, at its left."""
    point = 1 / (72 * figure.get_figheight())
    layout: Any = figure.get_layout_engine()
    layout.set(rect=(0, 0, 1, 1 - 42 * point))
    figure.text(0.012, 1 - 6 * point, title, ha="left", va="top", size=13, weight="bold", color=INK)
    figure.text(0.012, 1 - 25 * point, below, ha="left", va="top", size=9.5, color=SOFT)
    return figure


PICTURES: dict[str, Callable[[], Figure]] = {
    "error_against_size": error_against_size,
    "choosing": choosing,
    "measuring": measuring,
    "looking": looking,
    "flow": flow,
    "parts": parts,
    "protocols": protocols,
    "maps": maps,
    "pooling": pooling,
    "segmenting": segmenting,
}


def save_picture(picture: Figure, path: Path) -> None:
    """Writes a PNG; one without photographs has 256 colours, and a third of the bytes."""
    file = BytesIO()
    picture.savefig(file, dpi=150)
    shrink_picture(Image.open(file).convert("RGB")).save(path, optimize=True)


def shrink_picture(drawn: Image.Image) -> Image.Image:
    """The picture in 256 colours, or as it is where it has more than edges of letters and marks make."""
    return drawn if drawn.getcolors(10_000) is None else drawn.quantize(256, Image.Quantize.FASTOCTREE)


def main(names: list[str]) -> None:
    """Draws these pictures, or all."""
    FOLDER.mkdir(exist_ok=True)
    for name in names or PICTURES:
        try:
            picture = PICTURES[name]()
        except ZooError as error:  # images or weights that are not on this machine
            print(f"{name}.png stays as it is: {error}", file=sys.stderr)
        else:
            save_picture(picture, FOLDER / f"{name}.png")


if __name__ == "__main__":
    main(sys.argv[1:])
