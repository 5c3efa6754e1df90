"""Trains the encoders of ``metadata/pocket.toml``, as their cards say, and ships their weights.

    python scripts/train_pocket.py [NAME...] [--processes 2] [--scratch DIR] [--out DIR] [--write-cards] [--json]

The cards are the recipe: data set, epochs, batch size, optimizer, rates, augmentations, objective and projector are
read from them, so that what a card says is what was done. Only training images are seen. A run uses one thread and
draws every number from a seed made of the encoder's id: on the same processor and libraries it gives the same file,
byte for byte. A finished run is kept in the scratch folder and not repeated while its card asks for the same; so the
script may be killed at any time. ``--write-cards`` writes hash, size and duration into the card file; durations are of
the processor, so that what else it did meanwhile does not count.

It prints for each encoder how long it took, and the accuracy of a plain logistic regression on its features (trained on
the training images, tested on the validation images), compared with that of the same architecture with random weights.
These are a check that training did something, no measurement: those are made by ``zoo evaluate``.

Needs lightly (``pip install 'lightly>=1.6'``), for losses and heads, in addition to the extra [evaluate].
"""

from __future__ import annotations

import argparse
import json
import math
import re
import time
import zlib
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, replace
from functools import cache
from hashlib import blake2b, sha256
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor
from train_pocket_objectives import Objective, objective_of
from train_pocket_views import SMALLEST_CROP, Pixels, Views, load_pixels, scratch_folder

from zoo.cards.catalogue import load_catalogue
from zoo.cards.schema import EncoderCard, Missing
from zoo.encoders import Encoder, build_encoder
from zoo.files import get_content_folder, replace_file

FAMILY = "pocket"
LARGEST_BYTES = 200_000
WARM_UP = 0.1  # share of the steps over which the learning rate rises


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="toy encoders; all that are trained unless given")
    parser.add_argument("--processes", type=int, default=1, help="how many to train at once, each on one thread")
    parser.add_argument("--scratch", help="folder for rendered images and finished runs")
    parser.add_argument("--out", type=Path, help="folder for the weights; that of the zoo's content unless given")
    parser.add_argument("--write-cards", action="store_true", help="write hash, size and duration into the card file")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    cards = load_catalogue()
    names = [cards.id_of(name) for name in options.names] or [
        card.id for card in cards.values() if card.family == FAMILY and not card.is_untrained
    ]
    scratch = scratch_folder(options.scratch)
    out = options.out or get_content_folder("metadata") / FAMILY
    out.mkdir(parents=True, exist_ok=True)
    for card in {cards[name].pretraining.dataset: cards[name] for name in names}.values():
        load_pixels(str(card.pretraining.dataset), card.preprocess, scratch)  # before processes would do it twice
    done = []
    with ProcessPoolExecutor(options.processes, mp_context=get_context("spawn")) as pool:
        for row in pool.map(_run, names, [scratch] * len(names), [out] * len(names)):
            done.append(row)
            if not options.json:
                print(_line(row), flush=True)
    if options.json:
        print(json.dumps(done, indent=1))
    if options.write_cards:
        _write_cards(done)


def _run(name: str, scratch: Path, out: Path) -> dict[str, Any]:
    """One encoder, unless it is there already; what became of it."""
    card = load_catalogue()[name]
    path, kept = out / f"{name}.safetensors", scratch / f"{name}.json"
    if kept.exists() and path.exists():
        row: dict[str, Any] = json.loads(kept.read_text())
        if row["recipe"] == _recipe(card) and row["sha256"] == sha256(path.read_bytes()).hexdigest():
            return row
    torch.set_num_threads(1)
    pixels = load_pixels(str(card.pretraining.dataset), card.preprocess, scratch)
    encoder, loss, seconds = _trained(card, pixels)
    content = save({key: tensor.contiguous() for key, tensor in encoder.state_dict().items()}, {"format": "pt"})
    if len(content) > LARGEST_BYTES:
        raise SystemExit(f"{name} takes {len(content):,} bytes, expected at most {LARGEST_BYTES:,}; make it smaller.")
    with replace_file(path) as file:
        file.write(content)
    row = {
        "encoder": name,
        "recipe": _recipe(card),
        "seconds": round(seconds, 1),
        "loss": round(loss, 4),
        "accuracy_percent": _accuracy_percent(encoder, card, pixels),
        "untrained_percent": _accuracy_percent(build_encoder(card, device="cpu"), card, pixels),
        "size_bytes": len(content),
        "sha256": sha256(content).hexdigest(),
    }
    with replace_file(kept) as file:
        file.write(json.dumps(row, indent=1).encode())
    return row


def _trained(card: EncoderCard, pixels: Pixels) -> tuple[Encoder, float, float]:
    """The encoder, the mean loss of the last epoch, and the seconds that it took."""
    started, about = time.process_time(), card.pretraining
    seed = zlib.crc32(card.id.encode())
    generator = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)  # of the heads
    encoder = build_encoder(card, seed=seed, device="cpu").requires_grad_(True).train()
    objective = objective_of(card, encoder, pixels.n_classes)
    _require_stated_head(card, objective)
    augmentations: Any = about.augmentations
    crop = SMALLEST_CROP[str(about.dataset)]
    drawn = [word for word in augmentations if word not in objective.own_augmentations]
    views = Views(drawn, card.preprocess, smallest_crop=crop, generator=generator)
    optimizer = _optimizer(card, [one for one in objective.parameters() if one.requires_grad])
    n, batch, epochs = len(pixels.train), int(_known(about.batch_size)), int(_known(about.epochs))
    per_epoch = n // batch
    n_steps = per_epoch * epochs
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: rate_at(step / n_steps, warm_up=WARM_UP))
    total = 0.0
    for epoch in range(epochs):
        order = torch.randperm(n, generator=generator)[: per_epoch * batch].reshape(per_epoch, batch)
        total = 0.0
        for number, chosen in enumerate(order):
            loss = objective.loss(pixels.train[chosen], pixels.train_labels[chosen], views)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            objective.after_step((epoch * per_epoch + number + 1) / n_steps)
            total += loss.item()
    mean = total / per_epoch
    if not math.isfinite(mean):
        raise SystemExit(f"The loss of {card.id} became {mean}; lower its learning rate.")
    return encoder.eval().requires_grad_(False), mean, time.process_time() - started


def _optimizer(card: EncoderCard, parameters: list[torch.nn.Parameter]) -> torch.optim.Optimizer:
    about = card.pretraining
    rate, decay = float(_known(about.learning_rate)), float(_known(about.weight_decay))
    if about.optimizer == "adamw":
        return torch.optim.AdamW(parameters, lr=rate, weight_decay=decay)
    if about.optimizer == "sgd":
        return torch.optim.SGD(parameters, lr=rate, momentum=0.9, weight_decay=decay)
    raise SystemExit(f"The optimizer {about.optimizer!r} of {card.id} is not known here, expected adamw or sgd.")


def rate_at(progress: float, *, warm_up: float) -> float:
    """Share of the learning rate: a linear rise over a share of the steps, then half a cosine."""
    if progress < warm_up:
        return (progress + 1e-3) / (warm_up + 1e-3)
    return (math.cos(math.pi * (progress - warm_up) / (1 - warm_up)) + 1) / 2


def _require_stated_head(card: EncoderCard, objective: Objective) -> None:
    stated, found = card.projector.n_parameters, objective.n_projector_parameters()
    if found != (0 if isinstance(stated, Missing) else stated):
        raise SystemExit(f"{card.id}: found a head of {found} parameters, expected {stated}; correct the card.")


@torch.no_grad()
def _accuracy_percent(encoder: Encoder, card: EncoderCard, pixels: Pixels) -> float:
    """Of a logistic regression on standardised features, on the validation images."""
    views = Views([], card.preprocess, smallest_crop=1.0, generator=torch.Generator())

    def features(images: Tensor) -> Any:
        return torch.cat([encoder(views.plain(part.float() / 255)) for part in images.split(500)]).numpy()

    probe = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    probe.fit(features(pixels.train), pixels.train_labels.numpy())
    return round(100 * float(probe.score(features(pixels.val), pixels.val_labels.numpy())), 1)


def _recipe(card: EncoderCard) -> str:
    """Hash of everything on a card that training reads, and of this code."""
    plain = replace(card.pretraining, duration_hours=Missing.NOT_PUBLISHED)
    parts = [asdict(part) for part in (card.objective, card.architecture, card.projector, plain)]
    parts.append(card.preprocess.hashed)
    return blake2b(f"{card.id} {parts} {_code()}".encode(), digest_size=16).hexdigest()


@cache
def _code() -> str:
    parts = (Path(__file__).parent / f"train_pocket_{part}.py" for part in ("objectives", "views"))
    return sha256(b"".join(path.read_bytes() for path in parts)).hexdigest()


def _known(fact: Any) -> Any:
    if isinstance(fact, Missing):
        raise SystemExit("A card of a toy encoder lacks a fact that training needs; complete it.")
    return fact


def _line(row: dict[str, Any]) -> str:
    return (
        f"{row['encoder']:32} {row['seconds']:6.1f} s  loss {row['loss']:8.4f}  {row['accuracy_percent']:5.1f} %"
        f"  (untrained {row['untrained_percent']:5.1f} %)  {row['size_bytes']:7,} bytes"
    )


def _write_cards(done: list[dict[str, Any]]) -> None:
    """Replaces hash, size and duration in the block of each encoder; everything else stays as it was written."""
    path = get_content_folder("metadata") / f"{FAMILY}.toml"
    text = path.read_text(encoding="utf-8")
    for row in done:
        head, begin, rest = text.partition(f"[encoders.{row['encoder']}]\n")
        block, end, tail = rest.partition("\n\n")
        for fact, pattern, value in (
            ("sha256", '(?<=sha256 = )"[^"]*"', json.dumps(row["sha256"])),
            ("size_bytes", r'(?<=size_bytes = )(?:"[^"]*"|[\d_]+)', f"{row['size_bytes']:_}"),
            ("duration_hours", r"(?<=^pretraining\.duration_hours = ).*$", f"{row['seconds'] / 3600:.4f}"),
        ):
            block, n = re.subn(pattern, value, block, flags=re.MULTILINE)
            if n != 1:
                raise SystemExit(f"{path}: {row['encoder']!r} has {n} facts {fact!r} in its block, expected one.")
        text = head + begin + block + end + tail
    with replace_file(path) as file:
        file.write(text.encode())


if __name__ == "__main__":
    main()
