"""Trains the randomised population, in the order in which it was drawn, and keeps weights and a log.

    python scripts/train_randomised.py [NAME...] [--first 64] [--processes 2] [--scratch DIR] [--out DIR] [--log FILE]
    python scripts/train_randomised.py --dry-run
    python scripts/train_randomised.py --write-cards

The design is ``docs/randomised.md``; choices are drawn by ``randomised_design.py``. A run uses one thread and draws
every number from a seed made of the encoder's name: on the same processor and libraries it gives the same file, byte
for byte. Weights are kept as float16. The log, a CSV file of one row per encoder, is written anew after every run, and
what it has is not trained again while weights and recipe are the same; so the script may be killed at any time, and
what was under way is trained again. The twins of the approximation error come last.

A run *failed* if its loss or its gradient became infinite or no number: training stops there, with the weights as they
were before that step. It *collapsed* if the features of 2,000 training images have an effective rank (RankMe) below 2
or a spread below 0.05, as the log says it; both stay in the population. Needs lightly
(``pip install 'ssl-zoo[pocket]'``).
"""

from __future__ import annotations

import argparse
import csv
import io
import math
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from dataclasses import asdict, dataclass
from functools import cache
from hashlib import sha256
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from randomised_design import DATASET, DEFAULTS, FAMILY, RECIPE_RATE, Choices, block_of, card_of, population, twins
from safetensors.torch import save
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor, nn
from train_pocket import WARM_UP, rate_at
from train_pocket_views import SMALLEST_CROP, Pixels, Views, load_pixels, scratch_folder
from train_randomised_objectives import OBJECTIVES

from zoo.cards.schema import EncoderCard
from zoo.encoders import Encoder, build_encoder
from zoo.files import get_content_folder, replace_file

LARGEST_BYTES = 120_000
LARGEST_GRADIENT = 5.0  # norm at which a gradient is cut
DECAY = 0.01  # of AdamW
LEAST_RANK, LEAST_SPREAD, N_SEEN = 2.0, 0.05, 2000
N_PROBED = 5000  # training images of the check
CARDS_HEAD = """\
# A population whose design choices were drawn at random: docs/randomised.md. Written by scripts/train_randomised.py
# --write-cards from the draw and the log of the runs, metadata/randomised/log.csv; no hand changes it. The encoders are
# an experiment and good for nothing else, so they are listed for whom asks alone.

listed = false
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A row of the log."""

    encoder: str
    state: str  # "trained", "collapsed" or "failed"
    seconds: float  # of the processor
    n_steps: int
    loss: float  # mean of the last epoch
    rankme: float
    spread: float  # root of the summed variance of features of length 1, from 0 to 1
    accuracy_percent: float  # a check, no measurement: a logistic regression of 5,000 training images, on the test set
    size_bytes: int
    sha256: str
    recipe: str  # hash of choices and code


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", metavar="NAME", nargs="*", help="encoders; the first ones and all twins unless given")
    parser.add_argument("--first", type=_count, default=64, help="how many of the population, in the order drawn")
    parser.add_argument("--processes", type=_count, default=2, help="how many at once, each on one thread; 0: this one")
    parser.add_argument("--scratch", help="folder for the images")
    parser.add_argument(
        "--out", type=Path, default=get_content_folder("metadata") / FAMILY, help="folder of the weights"
    )
    parser.add_argument("--log", type=Path, help="the log; log.csv next to the weights unless given")
    parser.add_argument("--dry-run", action="store_true", help="only say what was drawn")
    parser.add_argument("--write-cards", action="store_true", help="only write the cards of those in the log")
    options = parser.parse_args(arguments)
    everyone = population() | twins()
    if unknown := [name for name in options.names if name not in everyone]:
        parser.error(f"{unknown[0]} was not drawn, expected {next(iter(everyone))} or the like; see --dry-run")
    wanted = {name: everyone[name] for name in options.names or [*list(population())[: options.first], *twins()]}
    if options.dry_run:
        for name, choices in wanted.items():
            print(name, *(f"{key}={value}" for key, value in asdict(choices).items()))
        return
    scratch = scratch_folder(options.scratch)
    options.out.mkdir(parents=True, exist_ok=True)
    log = options.log or options.out / "log.csv"
    runs = {run.encoder: run for run in read_log(log)}
    done = {name: run for name, run in runs.items() if _is_done(run, everyone, options.out)}
    if options.write_cards:
        write_cards(get_content_folder("metadata") / f"{FAMILY}.toml", everyone, done)
        return
    todo = {name: choices for name, choices in wanted.items() if name not in done}
    print(f"{len(wanted) - len(todo)} of {len(wanted)} are there", flush=True)
    for run in runs_of(todo, scratch, options.out, n_processes=options.processes):
        runs[run.encoder] = run
        print(_line(run), flush=True)
        write_log(log, [runs[name] for name in everyone if name in runs])


def _count(text: str) -> int:
    if (n := int(text)) < 0:
        raise argparse.ArgumentTypeError(f"got {n}, expected 0 or more")
    return n


def runs_of(todo: Mapping[str, Choices], scratch: Path, out: Path, *, n_processes: int) -> Iterator[Run]:
    """Trains encoders on so many processes, or on this one, in their order; the runs as they end."""
    for name in list(todo)[:1]:
        load_pixels(DATASET, card_of(name, todo[name]).preprocess, scratch)  # before processes would do it twice
    if not n_processes:
        yield from (train(name, choices, scratch, out) for name, choices in todo.items())
        return
    with ProcessPoolExecutor(n_processes, mp_context=get_context("spawn")) as pool:
        waiting = {pool.submit(train, name, choices, scratch, out) for name, choices in todo.items()}
        while waiting:
            finished, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            yield from (one.result() for one in finished)


def _line(run: Run) -> str:
    return (
        f"{run.encoder:32} {run.state:9} {run.seconds:6.1f} s  loss {run.loss:8.4f}  RankMe {run.rankme:6.1f}"
        f"  {run.accuracy_percent:5.1f} %  {run.size_bytes:7,} bytes"
    )


def train(name: str, choices: Choices, scratch: Path, out: Path) -> Run:
    """Trains one encoder and writes its weights."""
    torch.set_num_threads(1)
    card = card_of(name, choices)
    pixels = load_pixels(DATASET, card.preprocess, scratch)
    started = time.process_time()
    encoder, loss, n_steps, failed = _trained(card, choices, pixels)
    seconds = time.process_time() - started
    state = {key: _halved(tensor) for key, tensor in encoder.state_dict().items()}
    content = save(state, {"format": "pt"})
    if len(content) > LARGEST_BYTES:
        raise SystemExit(f"{name} takes {len(content):,} bytes, expected at most {LARGEST_BYTES:,}; make it smaller.")
    with replace_file(out / f"{name}.safetensors") as file:
        file.write(content)
    encoder.load_state_dict(state)  # what is checked is what is kept
    views = Views([], card.preprocess, smallest_crop=1.0, generator=torch.Generator())
    seen = _features(encoder, pixels.train[:N_PROBED], views)
    rankme, spread = _rank_and_spread(seen[:N_SEEN])
    collapsed = rankme < LEAST_RANK or spread < LEAST_SPREAD
    probe = make_pipeline(StandardScaler(), LogisticRegression(max_iter=300))
    probe.fit(seen.numpy(), pixels.train_labels[:N_PROBED].numpy())
    accuracy = probe.score(_features(encoder, pixels.val, views).numpy(), pixels.val_labels.numpy())
    return Run(
        encoder=name, state="failed" if failed else "collapsed" if collapsed else "trained", seconds=round(seconds, 1),
        n_steps=n_steps, loss=round(loss, 5), rankme=round(rankme, 3), spread=round(spread, 4),
        accuracy_percent=round(100 * float(accuracy), 2), size_bytes=len(content), sha256=sha256(content).hexdigest(),
        recipe=recipe(name, choices),
    )  # fmt: skip


def _trained(card: EncoderCard, choices: Choices, pixels: Pixels) -> tuple[Encoder, float, int, bool]:
    """The encoder, the mean loss of the last epoch, the steps that were made, and whether it failed."""
    seed = zlib.crc32(card.id.encode())
    generator = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)  # of the heads
    encoder = build_encoder(card, seed=seed, device="cpu").requires_grad_(True).train()
    objective = OBJECTIVES[choices.objective](choices, encoder, pixels.n_classes)
    drawn = [word for word in choices.words if word in Views.KNOWN]
    views = Views(drawn, card.preprocess, smallest_crop=SMALLEST_CROP[DATASET], generator=generator)
    parameters = [one for one in objective.parameters() if one.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=RECIPE_RATE * choices.rate_factor, weight_decay=DECAY)
    images = pixels.train[:, :1]  # grey: all channels are the same
    n, batch = len(images), choices.batch_size
    per_epoch = n // batch
    n_steps = per_epoch * choices.epochs
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: rate_at(step / n_steps, warm_up=WARM_UP))
    mean = math.nan
    for epoch in range(choices.epochs):
        order = torch.randperm(n, generator=generator)[: per_epoch * batch].reshape(per_epoch, batch)
        total = 0.0
        for number, chosen in enumerate(order):
            step = epoch * per_epoch + number
            objective.before_step()
            of_batch = images[chosen]
            loss = objective.loss(
                [views(of_batch) for _ in range(choices.n_views)], pixels.train_labels[chosen], generator
            )
            optimizer.zero_grad()
            loss.backward()
            norm = nn.utils.clip_grad_norm_(parameters, LARGEST_GRADIENT)
            if not (math.isfinite(loss.item()) and math.isfinite(norm.item())):
                return encoder.eval().requires_grad_(False), mean, step, True
            optimizer.step()
            schedule.step()
            objective.after_step((step + 1) / n_steps)
            total += loss.item()
        mean = total / per_epoch
    return encoder.eval().requires_grad_(False), mean, n_steps, False


def _halved(tensor: Tensor) -> Tensor:
    """As float16, or as it is if it counts."""
    return tensor.half().contiguous() if tensor.is_floating_point() else tensor.contiguous()


@torch.no_grad()
def _features(encoder: Encoder, images: Tensor, views: Views) -> Tensor:
    return torch.cat([encoder(views.plain(part[:, :1].float() / 255)) for part in images.split(500)])


def _rank_and_spread(features: Tensor) -> tuple[float, float]:
    """RankMe, and the root of the summed variance of features of length 1: 0 if all are the same, at most 1."""
    singular = torch.linalg.svdvals(features.double())
    share = singular / singular.sum().clamp(min=1e-30) + 1e-12
    spread = F.normalize(features.double(), dim=1).var(dim=0).sum().sqrt()
    return float((-share * share.log()).sum().exp()), float(spread)


def recipe(name: str, choices: Choices) -> str:
    """Hash of what was drawn and of the code that trains."""
    return sha256(f"{name} {choices} {_code()}".encode()).hexdigest()[:32]


@cache
def _code() -> str:
    names = ("randomised_design", "train_randomised_objectives")
    return sha256(b"".join((Path(__file__).parent / f"{name}.py").read_bytes() for name in names)).hexdigest()


def _is_done(run: Run, everyone: Mapping[str, Choices], out: Path) -> bool:
    path = out / f"{run.encoder}.safetensors"
    if run.encoder not in everyone or run.recipe != recipe(run.encoder, everyone[run.encoder]) or not path.exists():
        return False
    return sha256(path.read_bytes()).hexdigest() == run.sha256


def read_log(path: Path) -> list[Run]:
    """The runs of a log; none if there is none."""
    if not path.exists():
        return []
    kinds: dict[str, Any] = {"float": float, "int": int, "str": str}
    with path.open(newline="") as file:
        return [
            Run(**{key: kinds[str(Run.__annotations__[key])](value) for key, value in row.items()})
            for row in csv.DictReader(file)
        ]


def write_log(path: Path, runs: list[Run]) -> None:
    """Replaces a log."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(Run.__annotations__), lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(run) for run in runs)
    with replace_file(path) as file:
        file.write(text.getvalue().encode())


def write_cards(path: Path, everyone: Mapping[str, Choices], runs: Mapping[str, Run]) -> None:
    """Replaces the card file by one of the encoders that are trained."""
    blocks = [
        block_of(
            name,
            choices,
            {
                "url": f"shipped:{FAMILY}/{name}.safetensors",
                "sha256": runs[name].sha256,
                "size_bytes": runs[name].size_bytes,
            },
            runs[name].seconds / 3600,
        )
        for name, choices in everyone.items()
        if name in runs
    ]
    with replace_file(path) as file:
        file.write("\n".join([CARDS_HEAD, DEFAULTS, *blocks]).encode())


if __name__ == "__main__":
    main()
