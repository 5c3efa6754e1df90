"""What a race for the best encoder loses, and what it costs, against measuring everything.

    python benchmarks/choosing.py [POPULATION...] [--seeds 20] [--fashion-mnist FOLDER] [--scratch DIR] [--plan K=V]

Populations of 24 contenders each, with 5, 20 and 100 labels of each of ten classes:

* ``planted``: features whose classes are further apart the better the contender, in equal steps, so that the order is
  known; and ``planted-ties``, where they come in eights that are equally good.
* ``digits``, ``fashionmnist-3k``, ``shapes``: all toy encoders and those that come in Python packages, from
  the features and the probes that ``scripts/measure_scores.py`` keeps.

Measured everything means that the probe of ``zoo choose`` is trained on all labels and evaluated on all test images of
every contender. The regret is the error, measured so, of the contender that is chosen less that of the best one. A
race is run twice: with images that cost the same for all, and with the seconds that an image takes each encoder. Its
cost is a share of everything, of images and of seconds; seconds are those of the processor for featurising, and for
the race's own work and its probes. Each race is run again with what was known before: expected errors of real
encoders (little is known of most toy encoders), and of planted ones their log odds with an error of half a log odd.
Next to it stand the regret of each score alone, which featurises all labelled images
of all contenders, that of the encoder with the best published accuracy on ImageNet (toy encoders have none and come
behind), and that of a random pick.

Ties. Of contenders that McNemar's exact test on everything does not tell from the chosen one at 5 %, the share that the
race does not call worse.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.stats import binom
from threadpoolctl import threadpool_limits

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "scripts"))
import measure_scores as kept

from zoo.cards.catalogue import load_catalogue
from zoo.choosing.expectations import estimate_errors
from zoo.choosing.scoring import Task, build_logistic_scorer
from zoo.choosing.successive_halving import Plan, Prior, Race, race
from zoo.files import get_evaluations_folder

N_PLANTED, N_TEST, N_CLASSES, DIM = 24, 2_000, 10, 32
KNOWN = 0.5  # log odds: the standard deviation of what was known before of planted contenders, as of real ones
LEVEL = 0.05
ALIKE = {"planted": 1, "planted-ties": 8}  # contenders that are equally good
ON_IMAGENET = {"sup_efficientnet_lite0": 75.1, "sup_efficientnet_lite1": 76.7}  # top-1, by the authors' README
REAL = ("digits", "fashionmnist-3k", "shapes")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Case:
    """One population with the labels of one seed, and what measuring everything says."""

    names: tuple[str, ...]
    x_train: tuple[Any, ...]  # float32 (n_train, dim), a contender each
    x_test: tuple[Any, ...]
    y_train: Any
    y_test: Any
    predicted: tuple[Any, ...]  # by the probe on all labels, int64 (n_test,)
    seconds_an_image: dict[str, float]
    probe_seconds: dict[str, float]
    seed: int
    priors: dict[str, Prior] = field(default_factory=dict)  # what was known before

    @property
    def wrong(self) -> Any:
        """Bool (n_contenders, n_test)."""
        return np.stack(self.predicted) != self.y_test

    @property
    def errors(self) -> Any:
        return 100 * self.wrong.mean(axis=1)


@dataclass(slots=True)
class Known:
    """A contender whose features are in memory."""

    name: str
    seconds_per_image: float
    parts: dict[str, Any]

    def features(self, part: str, rows: Any) -> Any:
        return self.parts[part][rows]

    def n_missing(self, part: str, rows: Any) -> int:
        return len(rows)  # as if nothing were there


@dataclass(slots=True)
class Tally:
    """What came out over seeds."""

    regrets: list[float] = field(default_factory=list)
    images: list[float] = field(default_factory=list)  # share of everything
    seconds: list[float] = field(default_factory=list)
    named: int = 0  # contenders that nothing tells from the chosen one, and that are not called worse
    alike: int = 0

    def add(self, other: Tally) -> None:
        self.regrets += other.regrets
        self.images += other.images
        self.seconds += other.seconds
        self.named += other.named
        self.alike += other.alike

    def row(self) -> str:
        """Mean regret and the largest, mean costs, ties."""
        error = np.std(self.regrets, ddof=1) / len(self.regrets) ** 0.5 if len(self.regrets) > 1 else np.nan
        ties = f"{100 * self.named / self.alike:6.1f} % of {self.alike:4}" if self.alike else ""
        return (
            f"{np.mean(self.regrets):7.2f} ({error:4.2f}) {np.max(self.regrets):7.2f} "
            f"{100 * np.mean(self.images):8.1f} {100 * np.mean(self.seconds):8.1f}   {ties}"
        )


def raced(case: Case, plan: Plan, *, in_seconds: bool, knows: bool) -> tuple[Race, float, float]:
    """A race, and its seconds and those of everything, of the processor: featurising, probes and the race itself."""
    contenders = [
        Known(name, case.seconds_an_image[name] if in_seconds else 1.0, {"train": x, "val": x_test})
        for name, x, x_test in zip(case.names, case.x_train, case.x_test, strict=True)
    ]
    task = Task(y_train=case.y_train, y_test=case.y_test)
    fit = build_logistic_scorer(task, seed=plan.seed, device="cpu")
    remembered: list[float] = []

    def probe(name: str, rows: Any, x: Any, y: Any) -> Callable[[Any, Any], Any]:
        if len(rows) < len(case.y_train):
            return fit(name, rows, x, y)
        remembered.append(case.probe_seconds[name])
        predicted = case.predicted[case.names.index(name)]
        return lambda features, rows_test: predicted[rows_test]

    begun = time.process_time()
    found = race(contenders, task, plan, probe=probe, priors=case.priors if knows else None)
    own = time.process_time() - begun + sum(remembered)
    n = len(case.y_train) + len(case.y_test)
    spent = sum(found.images[name] * case.seconds_an_image[name] for name in case.names) + own
    everything = sum(n * case.seconds_an_image[name] + case.probe_seconds[name] for name in case.names)
    return found, spent, everything


def outcome(case: Case, plan: Plan, *, in_seconds: bool, knows: bool) -> Tally:
    """The regret, costs and ties of one race."""
    found, spent, everything = raced(case, plan, in_seconds=in_seconds, knows=knows)
    chosen = case.names.index(found.leader.name)
    verdicts = {standing.name: standing.verdict for standing in found.standings}
    alike = [name for place, name in enumerate(case.names) if place != chosen and not told_apart(case, place, chosen)]
    return Tally(
        regrets=[float(case.errors[chosen] - case.errors.min())],
        images=[sum(found.images.values()) / (len(case.names) * (len(case.y_train) + len(case.y_test)))],
        seconds=[spent / everything],
        named=sum(verdicts[name] != "worse" for name in alike),
        alike=len(alike),
    )


def told_apart(case: Case, one: int, other: int) -> bool:
    """True if McNemar's exact test, on all test images, tells two contenders apart."""
    wrong = case.wrong
    more, less = int((wrong[one] & ~wrong[other]).sum()), int((wrong[other] & ~wrong[one]).sum())
    return bool(2 * binom.cdf(min(more, less), more + less, 0.5) < LEVEL)


def alone(case: Case, scores: Sequence[float]) -> float:
    """The regret of the contender with the highest score; of several, the mean."""
    values = np.asarray(scores, dtype=float)
    return float(case.errors[values == values.max()].mean() - case.errors.min())


# ---- populations ----


def planted(kind: str, budget: int, seed: int) -> Case:
    """Contenders whose classes are apart by more from one to the next; each has its own draw of the same images."""
    random = np.random.default_rng([seed, budget, ALIKE[kind]])
    y_train, y_test = np.repeat(np.arange(N_CLASSES), budget), np.arange(N_TEST) % N_CLASSES
    directions = np.linalg.qr(random.normal(size=(DIM, DIM)))[0][:N_CLASSES]
    common = {n: random.normal(size=(n, DIM)) for n in (len(y_train), N_TEST)}  # what is hard is so for all
    parts: list[tuple[Any, Any]] = []
    for number in range(N_PLANTED):
        apart = 4.0 - 0.1 * (number - number % ALIKE[kind])
        parts.append(
            tuple(  # type: ignore[arg-type]
                (apart * directions[y] + 0.8 * common[len(y)] + 0.6 * random.normal(size=(len(y), DIM))).astype(
                    np.float32
                )
                for y in (y_train, y_test)
            )
        )
    order = random.permutation(N_PLANTED)
    names = tuple(f"planted {number:02}" for number in order)
    task, predicted, taken = Task(y_train=y_train, y_test=y_test), [], []
    for number in order:
        begun = time.process_time()
        predict = build_logistic_scorer(task, seed=seed, device="cpu")(
            "", np.arange(len(y_train)), parts[number][0], y_train
        )
        predicted.append(predict(parts[number][1], np.arange(N_TEST)))
        taken.append(time.process_time() - begun)
    shares = [np.mean(one != y_test) for one in predicted]
    odds = np.log([(share * N_TEST + 0.5) / (N_TEST - share * N_TEST + 0.5) for share in shares])
    return Case(
        priors=dict(
            zip(names, [(float(one), KNOWN) for one in odds + random.normal(0, KNOWN, len(odds))], strict=True)
        ),
        names=names,
        x_train=tuple(parts[number][0] for number in order),
        x_test=tuple(parts[number][1] for number in order),
        y_train=y_train,
        y_test=y_test,
        predicted=tuple(predicted),
        seconds_an_image=dict.fromkeys(names, 0.01),
        probe_seconds=dict(zip(names, taken, strict=True)),
        seed=seed,
    )


def real(features: dict[str, kept.Cached], cell: kept.Cell, scratch: Path, speed: dict[str, float]) -> Case:
    """All encoders, with the labels of one cell."""
    found, first = kept.measured(scratch, cell), next(iter(features.values()))
    rows = kept.labelled_rows(first.y_train, cell)
    seconds = kept.seconds_of((cell[0], cell[1], 0), features, scratch)
    cards = {name: load_catalogue()[name] for name in features}
    expected = estimate_errors(cards, len(rows), len(np.unique(first.y_train)))
    return Case(
        priors={name: (one.odds, one.new_sd) for name, one in expected.items()},
        names=tuple(features),
        x_train=tuple(one.x_train[rows] for one in features.values()),
        x_test=tuple(one.x_test for one in features.values()),
        y_train=first.y_train[rows],
        y_test=first.y_test,
        predicted=tuple(kept.predictions_of(found[name]) for name in features),
        seconds_an_image=speed,
        probe_seconds={name: seconds[name]["truth"] for name in features},
        seed=cell[2],
    )


def order_on_imagenet(names: Sequence[str]) -> list[float]:
    """What was published; below all others where nothing was."""
    return [ON_IMAGENET.get(name, -1.0) for name in names]


# ---- tables ----

HEADER = f"{'':34} {'regret (se)':>14} {'largest':>7} {'images %':>8} {'seconds %':>9}   ties not called worse"


def tabled(title: str, cases: Iterator[tuple[Case, dict[str, list[float]]]], plan: Plan) -> dict[str, Tally]:
    """Prints one table, and gives what it counted."""
    tallies: dict[str, Tally] = {}
    for case, scores in cases:
        seeded = replace(plan, seed=case.seed)
        for name, in_seconds, knows in (
            ("race, images cost the same", False, False),
            ("the same, with what was known", False, True),
            ("race, by seconds", True, False),
            ("the same by seconds", True, True),
        ):
            if in_seconds and len(set(case.seconds_an_image.values())) == 1:
                continue
            tallies.setdefault(name, Tally()).add(outcome(case, seeded, in_seconds=in_seconds, knows=knows))
        n, n_all = len(case.y_train), len(case.y_train) + len(case.y_test)
        for name, values in scores.items():
            one = tallies.setdefault(name, Tally())
            free = name in ("random pick", "order on ImageNet")
            one.regrets.append(alone(case, values))
            one.images.append(0.0 if free else n / n_all)
            one.seconds.append(0.0 if free else n / n_all)
    print(f"\n{title}\n{HEADER}")
    for name, tally in tallies.items():
        print(f"{name:34} {tally.row()}", flush=True)
    return tallies


def main() -> None:
    """Print a table for every population and number of labels, and one over all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("populations", nargs="*", metavar="POPULATION", help="all unless given")
    parser.add_argument("--seeds", type=int, default=kept.N_SEEDS, help="draws of the labels, and of planted features")
    parser.add_argument("--fashion-mnist", type=Path, default=kept.FASHION_MNIST, help="folder of its four .gz files")
    parser.add_argument("--scratch", type=Path, default=get_evaluations_folder(), help="folder of features and scores")
    parser.add_argument("--plan", action="append", default=[], metavar="KEY=VALUE", help="another setting of the race")
    options = parser.parse_args()
    known = (*ALIKE, *REAL)
    if unknown := set(options.populations) - set(known):
        parser.error(f"there is no {sorted(unknown)[0]!r}; expected some of {', '.join(known)}")
    wanted = options.populations or known
    plan = replace(Plan(), **{key: _number(value) for key, _, value in (one.partition("=") for one in options.plan)})
    torch.set_num_threads(1)
    totals: dict[str, dict[str, Tally]] = {"planted": {}, "image sets": {}}
    with threadpool_limits(limits=1):
        for kind, budget in ((kind, budget) for kind in ALIKE if kind in wanted for budget in kept.BUDGETS):
            cases = ((planted(kind, budget, seed), {"random pick": [0.0] * N_PLANTED}) for seed in range(options.seeds))
            _into(totals["planted"], tabled(f"{kind}, {budget} labels per class", cases, plan))
        names = kept.encoders()
        on_imagenet = order_on_imagenet(names)
        folder = options.fashion_mnist if options.fashion_mnist.is_dir() else None
        sets = (
            [data for data in kept.image_sets(folder, options.scratch) if data.name in wanted]
            if set(wanted) & set(REAL)
            else []
        )
        speed = kept.seconds_an_image(names, sets, options.scratch) if sets else {}
        for data in sets:
            features = {name: kept.features_of(name, data, options.scratch) for name in names}
            for budget in kept.BUDGETS:
                cells = [(data.name, budget, seed) for seed in range(options.seeds)]
                cases = (
                    (
                        real(features, cell, options.scratch, speed[data.name]),
                        {
                            **scores_of(cell, names, options.scratch),
                            "order on ImageNet": on_imagenet,
                            "random pick": [0.0] * len(names),
                        },
                    )
                    for cell in cells
                )
                _into(totals["image sets"], tabled(f"{data.name}, {budget} labels per class", cases, plan))
    for title, tallies in totals.items():
        if tallies:
            print(f"\nall {title}, all numbers of labels\n{HEADER}")
            for name, tally in tallies.items():
                print(f"{name:34} {tally.row()}")


LOWER_IS_BETTER = ("folds", "folds_loss", "ridge_squares")


def scores_of(cell: kept.Cell, names: Sequence[str], scratch: Path) -> dict[str, list[float]]:
    """Every score of a cell, higher is better, by name."""
    found = kept.measured(scratch, cell)
    columns = [column for column in found[names[0]]["values"] if column != "truth"]
    return {
        f"{column} alone": [(-1 if column in LOWER_IS_BETTER else 1) * found[name]["values"][column] for name in names]
        for column in columns
        if all(column in found[name]["values"] for name in names)
    }


def _into(total: dict[str, Tally], some: dict[str, Tally]) -> None:
    for name, tally in some.items():
        total.setdefault(name, Tally()).add(tally)


def _number(text: str) -> Any:
    if text == "None":
        return None
    try:
        return int(text) if text.lstrip("-").isdigit() else float(text)
    except ValueError:
        return text


if __name__ == "__main__":
    main()
