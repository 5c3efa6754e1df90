"""A race: many contenders featurise few images, few contenders many, until the best on all labels is known well enough.

Successive halving: a rung has twice as many images as the one before. Where it has all training images the probe
judges; before that ridge regression does (:meth:`.scoring.Task.score`), with an outcome for each image, so that
contenders are compared on the same images.

Who is dropped. A contender that is worse than the leader beyond doubt: by a test of the paired differences, clustered
by group, at ``(1 - level) / 5`` over all rungs and contenders together (Bonferroni). And, as soon as the race could not
end within its budget with all that are left, those with the worst scores, which says nothing of them. The budget
reckons with a race that keeps the best ``Plan.keep`` at each doubling (sequential halving) until ``Plan.n_final`` have
all labels, or one where fewer than that share could go on otherwise.

Learning curves cross. Before all labels are there (1) beyond doubt means by more than ``Plan.margin`` points, even if
the contender went on gaining on the leader as over the last two doublings of the labels, slowing as n^-0.15 does (the
exponent of the published scaling law); and (2) one place is for the contender that would lead if that went on.

What was known before (``priors``, expected log odds of errors with standard deviations) counts only for who is dropped
for the budget before all labels are there: scores are moved towards it by precision, so that it decides where few
images do not. Tests, intervals and the final order know nothing of it.

How certain. Differences of the survivors from the leader have simultaneous bootstrap intervals over test images (or
their groups) of all pairs (max-t), which hold whichever leads and at whichever rung with all labels the race ends
(Bonferroni). ``Race.optimism`` is the selection bias of the winner's error, by which it and its interval are raised;
differences are as measured. Other training labels would move errors in addition.

References
----------
K. Jamieson and A. Talwalkar 2016, Non-stochastic Best Arm Identification and Hyperparameter Optimization.
Z. Karnin, T. Koren and O. Somekh 2013, Almost Optimal Exploration in Multi-Armed Bandits (sequential halving).
J. Hsu 1996, Multiple Comparisons (with the best).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from ..errors import CorruptImage, DataError, ZooError, format_count
from ..evaluation.bootstrap import Interval
from ..optional import require_extra
from .comparing import RungComparison, compare_with_leader, estimate_error, estimate_gap
from .scoring import (
    SCORE,
    Chunk,
    Predict,
    Probe,
    Schedule,
    Task,
    build_logistic_scorer,
    build_schedule,
    number_groups,
)

with require_extra("evaluate", needed_for="Choosing an encoder"):
    import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]
    Rows = NDArray[np.int64]
    Truths = NDArray[np.bool_]

SHARE = 0.2  # of the cost of measuring everything
FIRST_SHARE = 0.5  # of what the share allows, for the first rung
EARLY_SHARE = 0.2  # of 1 - level, for all early drops together
CHEAP_SHARE = 0.1  # of what is left, for contenders that cost little and would have to go by their errors
_SLOWING = 2**-0.15  # of the gain a doubling of labels
Tell = Callable[[str], None]
Prior: TypeAlias = tuple[float, float]


class NoneLeft(DataError):
    """No contender could be used; ``failed`` has the error of each by its name."""

    def __init__(self, failed: dict[str, ZooError]) -> None:
        self.failed = failed
        reasons = "; ".join(f"{name}: {error}" for name, error in failed.items())
        super().__init__(f"None of the {len(failed)} encoders could be used. {reasons}")


class Contender(Protocol):
    """An encoder in the race."""

    @property
    def name(self) -> str: ...

    @property
    def seconds_per_image(self) -> float:
        """Expected before images were featurised, measured afterwards; any unit that is the same for all."""

    def features(self, part: str, rows: Rows) -> Floats:
        """Features of these images of "train" or "val", float32 (len(rows), dim); a ZooError takes it out of the race.

        The race asks again for rows that it had, so that they had better be kept.
        """

    def n_missing(self, part: str, rows: Rows) -> int:
        """How many of these images have no features yet, that would have to be computed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How a race is run."""

    seed: int = 0
    level: float = 0.95  # of the intervals; early drops err in a fifth of the rest
    score: str = SCORE  # judges before all labels are there
    first_images: int = 256  # of the first rung, half of them to train on
    keep: float = 0.5  # share of the contenders that the budget reckons to keep when images double
    tolerance: float = 0.5  # points of error that do not matter
    margin: float = 2.0  # points of error that a cheap score may be wrong by
    share: float | None = SHARE  # of the cost of measuring everything; None: no limit
    least_s: float = 0.0  # seconds of featurising that the race may spend whatever the share
    budget_s: float | None = None  # of the clock; None: no limit
    n_final: int = 2  # contenders that are left at the end, if they cannot be told apart
    n_report: int = 1000  # test images before which a race does not end, if there are so many and the budget allows

    def schedule(self, task: Task) -> Schedule:
        """The order of the images and the sizes of the rungs.

        Of few images a first rung of the usual size would be all that the share allows: there it is smaller.
        """
        first_images: float = self.first_images
        if self.share is not None and not self.least_s:
            first_images = min(first_images, FIRST_SHARE * self.share * (task.n_train + task.n_test))
        return build_schedule(task, first_images=max(3, int(first_images)), seed=self.seed)


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateState:
    """How one contender ended.

    ``status`` is "probed" (on the images of the last rung), "dropped" or "failed". ``error`` is in percent, with its
    own 95 % interval, both raised by ``Race.optimism`` if it leads; ``behind`` in points, paired with the leader,
    simultaneous over the probed; both are of the contender's last rung and None if it failed in its first. ``verdict``
    is "leader", "tie", "worse", "not told apart" (dropped for the budget, not significantly worse), or "failed".
    """

    name: str
    status: str
    error: Interval | None
    behind: Interval | None
    verdict: str
    n_train: int
    n_test: int
    rung: int
    score: str  # what judged it last: "probe" or "ridge"
    reason: str  # why it was dropped or failed; empty of the probed


@dataclass(frozen=True, slots=True, kw_only=True)
class Rung:
    """One step of the race."""

    number: int  # from 1
    n_train: int
    n_test: int
    score: str  # "probe" or "ridge"
    errors: dict[str, float]  # percent, of all that ran, best first
    dropped: dict[str, str]  # reasons by name
    seconds: float  # spent so far, images times seconds per image


@dataclass(frozen=True, slots=True, kw_only=True)
class Race:
    """The end of a race, best first."""

    standings: tuple[CandidateState, ...]
    rungs: tuple[Rung, ...]
    images: dict[str, int]  # featurised, by contender
    seconds: dict[str, float]  # these times the contender's seconds per image
    full_seconds: float  # the same of all images and all contenders
    optimism: float | None  # points by which the leader's error was too low, as the lowest of several, and is raised
    is_complete: bool  # the survivors were probed on all labels
    notes: tuple[str, ...]

    @property
    def leader(self) -> CandidateState:
        return self.standings[0]

    @property
    def share(self) -> float:
        """Cost of the race as a share of that of measuring everything."""
        return sum(self.seconds.values()) / self.full_seconds if self.full_seconds else 0.0


@dataclass(slots=True, eq=False)
class _Runner:
    """A contender with what is known of it."""

    contender: Contender
    n_train: int = 0  # images that were featurised
    n_test: int = 0
    rung: int = 0
    predict: Predict | None = None
    wrong: Truths = field(default_factory=lambda: np.zeros(0, bool))  # of the probe on all labels
    reason: str = ""
    failed: bool = False
    hopeless: bool = False  # dropped beyond doubt

    @property
    def name(self) -> str:
        return self.contender.name

    @property
    def n_images(self) -> int:
        return self.n_train + self.n_test

    @property
    def seconds(self) -> float:
        return self.n_images * self.contender.seconds_per_image


class _Racing:
    """The state of a race."""

    def __init__(
        self,
        contenders: Sequence[Contender],
        task: Task,
        plan: Plan,
        *,
        probe: Probe,
        tell: Tell,
        clock: Any,
        priors: Mapping[str, Prior] | None = None,
    ) -> None:
        self.priors = priors or {}
        self.task, self.plan, self.probe, self.tell, self.clock = task, plan, probe, tell, clock
        self.runners = {contender.name: _Runner(contender) for contender in contenders}
        self.alive = list(self.runners)
        self.schedule = plan.schedule(task)
        self.looks: list[RungComparison] = []
        self.rungs: list[Rung] = []
        self.notes: list[str] = []
        self.failed: dict[str, ZooError] = {}
        self.judges_train = True  # the cheap score judges training images too, unless they are of one group
        self.started = clock()

    # --- what it costs -----------------------------------------------------------------------------------------

    @property
    def spent(self) -> float:
        return sum(runner.seconds for runner in self.runners.values())

    @property
    def full_seconds(self) -> float:
        n = self.task.n_train + self.task.n_test
        return sum(n * runner.contender.seconds_per_image for runner in self.runners.values() if not runner.failed)

    @property
    def is_limited(self) -> bool:
        return self.plan.share is not None or self.plan.budget_s is not None

    def left(self) -> float:
        """Seconds of featurising that the race may still spend."""
        by_share = math.inf
        if self.plan.share is not None:
            by_share = max(self.plan.share * self.full_seconds, self.plan.least_s) - self.spent
        return min(by_share, self.left_on_clock())

    def left_on_clock(self) -> float:
        return math.inf if self.plan.budget_s is None else self.plan.budget_s - (self.clock() - self.started)

    def step_cost(self, names: Sequence[str], rung: int) -> float:
        """Seconds that a rung (from 0) costs these contenders after the one before.

        A share is of what measuring everything costs, and counts every image; the clock those alone that are not there.
        """
        train, test = self.schedule.sizes[rung - 1] if rung else (0, 0)
        new_train, new_test = self.schedule.sizes[rung]
        total = 0.0
        for name in names:
            contender, n = self.runners[name].contender, new_train - train + new_test - test
            if self.plan.share is None:
                n = contender.n_missing("train", self.schedule.train[train:new_train])
                n += contender.n_missing("val", self.schedule.test[test:new_test])
            total += n * contender.seconds_per_image
        return total

    def cost_to_end(self, names: Sequence[str], rung: int, n_final: int) -> float:
        """Seconds from this rung on, if the best share is kept after each, until the last have all labels."""
        total, alive = 0.0, list(names)
        for number in range(rung, len(self.schedule.sizes)):
            n_train, n_test = self.schedule.sizes[max(number - 1, 0)]
            if len(alive) <= n_final and n_train == self.task.n_train and n_test >= self.n_report:
                break
            total += self.step_cost(alive, number)
            alive = alive[: max(n_final, math.ceil(self.plan.keep * len(alive)))]
        return total

    @property
    def n_report(self) -> int:
        return min(self.task.n_test, self.plan.n_report)

    # --- the rungs ---------------------------------------------------------------------------------------------

    def run(self) -> Race:
        n_rungs = len(self.schedule.sizes)
        for rung in range(n_rungs):
            self.climb(rung)
            if not self.alive:
                raise NoneLeft(self.failed)
            dropped = self.drop(is_last=rung == n_rungs - 1, rung=rung)
            self.report(dropped)
            if rung == n_rungs - 1 or self.is_decided():
                break
            if self.is_limited and self.step_cost(self.alive, rung + 1) > self.left():
                break
        if self.looks[-1].score != "probe":
            self.probe_what_is_there()
        return self.ended()

    def climb(self, rung: int) -> None:
        """Featurises the images of a rung with all that are left, and judges them."""
        n_train, n_test = self.schedule.sizes[rung]
        has_all = n_train == self.task.n_train
        score = "probe" if has_all else self.plan.score
        train, test = self.schedule.train[:n_train], self.schedule.test[:n_test]
        self.tell(
            f"rung {rung + 1}: {format_count(len(self.alive), 'encoder')} on {n_train:,} training and {n_test:,} test "
            "images" + (" (all labels)" if has_all else f" (of {self.task.n_train:,} and {self.task.n_test:,})")
        )
        wrong: dict[str, Truths] = {}
        gained: dict[str, Any] = {}
        values: dict[str, float] = {}
        for name in list(self.alive):
            runner = self.runners[name]
            if len(wrong) >= self.plan.n_final and self.left_on_clock() <= 0:
                runner.reason = "its turn did not come within the time"
                self.alive.remove(name)
                continue
            try:
                if has_all:
                    wrong[name] = self.probed(runner, train, test)
                else:
                    wrong[name], gained[name], values[name] = self.scored(runner, train, test)
            except CorruptImage:  # of the images, not of the encoder
                raise
            except ZooError as error:
                runner.failed, runner.reason = True, str(error)
                self.failed[name] = error
                self.alive.remove(name)
                self.tell(f"{name} is out: {error}")
                continue
            runner.n_train, runner.n_test, runner.rung = n_train, n_test, rung + 1
        self.look(rung + 1, (n_train, n_test), wrong, score=score, gained=gained, values=values)

    def look(
        self,
        number: int,
        sizes: tuple[int, int],
        wrong: dict[str, Truths],
        *,
        score: str = "probe",
        gained: dict[str, Any] | None = None,
        values: dict[str, float] | None = None,
    ) -> None:
        """Keeps the outcomes of a rung, those of its test images behind those of its training images, if they judge."""
        n_train, n_test = sizes
        task, train, test = self.task, self.schedule.train[:n_train], self.schedule.test[:n_test]
        by_row = places = np.argsort(test)  # from the order of the visits to that of the data
        rows, groups, clusters = test[by_row], number_groups(task.given_groups_test, test[by_row]), None
        of_train, of_test = number_groups(task.groups_train, np.sort(train)), number_groups(task.groups_test, rows)
        if score != "probe" and self.judges_train:
            places = np.concatenate([np.argsort(train), by_row + n_train])
            if of_train is not None or of_test is not None:
                of_train = np.arange(n_train) if of_train is None else of_train
                of_test = np.arange(n_test) if of_test is None else of_test
                clusters = np.unique(np.concatenate([of_train, of_test + n_train]), return_inverse=True)[1]
            groups = clusters
        else:
            clusters = of_test
        left = math.log2(task.n_train / n_train)
        self.looks.append(
            RungComparison(
                number=number,
                n_train=n_train,
                n_test=n_test,
                score=score,
                wrong={name: one[places] for name, one in wrong.items()},
                gained={name: one[by_row] for name, one in (gained or {}).items()},
                clusters=clusters,
                values=values or {},
                n_doublings=_SLOWING * (1 - _SLOWING**left) / (1 - _SLOWING),
                groups=groups,
                numbers=task.numbers[1][rows] if task.numbers else None,
            )
        )

    def scored(self, runner: _Runner, train: Rows, test: Rows) -> tuple[Truths, Any, float]:
        """Whether ridge is wrong on each image, more often with a quarter of the labels, and its squares."""
        chunk = Chunk(
            x_train=runner.contender.features("train", train),
            y_train=self.task.targets[0][train],
            x_test=runner.contender.features("val", test),
            y_test=self.task.targets[1][test],
            groups=number_groups(self.task.groups_train, train),
        )
        left_out, on_test, value = self.task.score(runner.name, chunk)
        _, before, _ = self.task.score(runner.name, chunk.quarter())
        self.judges_train = len(left_out) > 0
        return np.concatenate([left_out, on_test]), before - on_test.astype(np.result_type(np.int8, on_test)), value

    def probed(self, runner: _Runner, train: Rows, test: Rows) -> Truths:
        """Whether the probe on these labels is wrong on each test image; trained once, then asked of new images."""
        if runner.predict is None:
            rows = np.sort(train)
            runner.predict = self.probe(
                runner.name, rows, runner.contender.features("train", rows), self.task.targets[0][rows]
            )
        new = test[len(runner.wrong) :]
        if len(new):
            predicted = np.asarray(runner.predict(runner.contender.features("val", new), new))
            runner.wrong = np.concatenate([runner.wrong, self.task.compute_losses(predicted, new)])
        return runner.wrong[: len(test)]

    def probe_what_is_there(self) -> None:
        """Probes the survivors on the labels that the budget allowed."""
        last = self.looks[-1]
        train, test = self.schedule.train[: last.n_train], self.schedule.test[: last.n_test]
        self.tell(f"probes of {format_count(len(self.alive), 'encoder')} on {last.n_train:,} labels")
        wrong = {name: self.probed(self.runners[name], train, test) for name in self.alive}
        self.look(last.number, (last.n_train, last.n_test), wrong)

    # --- who is dropped ----------------------------------------------------------------------------------------

    def ranked(self) -> list[str]:
        """Those that are left, best first: by the errors of probes, or by what a cheap score orders by."""
        look = self.looks[-1]
        values = {name: look.values.get(name, look.error(name)) for name in sorted(self.alive)}
        if look.score != "probe" and len(self.priors.keys() & values.keys()) > 1:
            values = self.with_priors(values, look)

        def place(name: str) -> tuple[float, float, str]:
            return values[name], self.runners[name].contender.seconds_per_image, name

        return sorted(self.alive, key=place)

    def with_priors(self, values: Mapping[str, float], look: RungComparison) -> dict[str, float]:
        """Scores as log odds of errors, with as much spread as these have, and each moved towards what was expected."""
        names = list(values)
        n = len(look.wrong[names[0]])
        shares = np.array([(look.error(name) / 100 * n + 0.5) / (n + 1) for name in names])
        odds, scores = np.log(shares / (1 - shares)), np.array([values[name] for name in names])
        spread = float(scores.std())
        if spread:
            odds = odds.mean() + (scores - scores.mean()) * odds.std() / spread
        precision = n * shares * (1 - shares)
        known = np.array([name in self.priors for name in names])
        prior = np.array([self.priors.get(name, (0.0, 1.0)) for name in names])
        expected = (
            prior[:, 0] - prior[known, 0].mean() + odds[known].mean()
        )  # how difficult the images are is not known
        weight = np.where(known, prior[:, 1] ** -2, 0.0)
        return dict(zip(names, map(float, (precision * odds + weight * expected) / (precision + weight)), strict=True))

    def is_worse(self, look: RungComparison, name: str, leader: str, *, n_looks: int) -> bool:
        """True if it is beyond doubt, at one of so many looks at all contenders."""
        margin = 0.0 if look.score == "probe" else self.plan.margin
        level = EARLY_SHARE * (1 - self.plan.level) / (n_looks * max(len(self.runners) - 1, 1))
        return look.worse(name, leader, margin=margin) < level

    def drop(self, *, is_last: bool, rung: int) -> dict[str, str]:
        """Drops the hopeless and what the budget does not allow; returns the reasons."""
        look, ranked = self.looks[-1], self.ranked()
        leader, dropped = min(ranked, key=look.error), {}
        if is_last:
            self.alive = ranked
            return {}
        for name in ranked:
            if name != leader and self.is_worse(look, name, leader, n_looks=len(self.schedule.sizes)):
                self.runners[name].hopeless = True
                dropped[name] = f"{look.behind(name, leader)[0]:.1f} points behind {leader}, beyond doubt"
        rest = [name for name in ranked if name not in dropped]
        kept = self.kept(rest, rung + 1)
        for name in rest:
            if name not in kept:
                points = max(look.behind(name, leader)[0], 0.0)
                dropped[name] = f"{points:.1f} points behind {leader}, to stay within the budget"
        for name, reason in dropped.items():
            self.runners[name].reason = reason
        self.alive = [name for name in ranked if name not in dropped]
        return dropped

    def kept(self, ranked: list[str], rung: int) -> list[str]:
        """Those that the budget allows to go on, best first."""
        n_final, look = min(self.plan.n_final, len(ranked)), self.looks[-1]
        if not self.is_limited or self.cost_to_end(ranked, rung, n_final) <= self.left():
            return ranked
        kept = self.affordable(ranked, rung, n_final)
        share = math.ceil(self.plan.keep * len(ranked))
        if len(kept) < share:  # a broader race and one that ends alone
            kept = max(kept, self.affordable(ranked, rung, 1)[:share], key=len)
        if ranked[0] not in kept:  # the budget does not reach the end: as far as it goes
            kept = ranked[:n_final]
        elif look.gained and len(kept) > 1:
            rising = min(ranked, key=look.projected)
            with_it = [*kept[:-1], rising]
            if rising not in kept and self.cost_to_end(with_it, rung, min(n_final, len(kept))) <= self.left():
                kept = with_it
        return kept + self.cheap([name for name in ranked if name not in kept])

    def affordable(self, ranked: Sequence[str], rung: int, n_final: int) -> list[str]:
        """The best with which the race can end in its budget; what is too dear is passed over."""
        left = self.left()
        found: list[str] = []
        for name in ranked:
            if self.cost_to_end([*found, name], rung, n_final) <= left:
                found.append(name)
        return found

    def cheap(self, ranked: Sequence[str]) -> list[str]:
        """Those whose remaining images cost next to nothing compared with what is left, best first."""
        spare, found = CHEAP_SHARE * self.left(), []
        for name in ranked:
            still = range(self.runners[name].rung, len(self.schedule.sizes))
            cost = sum(self.step_cost([name], rung) for rung in still)
            if cost <= spare:
                spare -= cost
                found.append(name)
        return found

    @property
    def level(self) -> float:
        """Of the intervals of one look, so that they hold wherever among the last rungs the race ends."""
        n_ends = sum(size[0] == self.task.n_train and size[1] >= self.n_report for size in self.schedule.sizes)
        return 1 - (1 - self.plan.level) / (n_ends if self.is_limited else 1)

    def is_decided(self) -> bool:
        """True if nobody that is left can be better than the leader by what matters."""
        look = self.looks[-1]
        if not self.is_limited or look.score != "probe" or look.n_test < self.n_report:
            return False
        if len(self.alive) == 1:
            return True
        _, behind, _ = compare_with_leader(look, self.ranked(), level=self.level, seed=self.plan.seed)
        if decided := all((one.ci_low or 0.0) > -self.plan.tolerance for one in behind.values()):
            self.notes.append(
                f"It ended at {format_count(look.n_test, 'test image')}, for no other that was left can be better than "
                f"the leader by {self.plan.tolerance:g} points."
            )
        return decided

    # --- what it says ------------------------------------------------------------------------------------------

    def report(self, dropped: dict[str, str]) -> None:
        look = self.looks[-1]
        errors = dict(sorted(((name, look.error(name)) for name in look.wrong), key=lambda pair: pair[1]))
        self.rungs.append(
            Rung(
                number=look.number,
                n_train=look.n_train,
                n_test=look.n_test,
                score=look.score,
                errors=errors,
                dropped=dropped,
                seconds=self.spent,
            )
        )
        leader = min(self.alive, key=look.error)
        wrong = "unexplained" if self.task.numbers else "wrong"
        text = f"rung {look.number}: {leader} leads with {look.error(leader):.1f} % {wrong} by {look.score}"
        for reason, why in (("beyond doubt", "worse beyond doubt"), ("the budget", "to stay within the budget")):
            if some := [name for name, given in dropped.items() if given.endswith(reason)]:
                text += f"; dropped, {why}: {', '.join(some)}"
        self.tell(text)

    def ended(self) -> Race:
        look = self.looks[-1]
        names = self.ranked()
        errors, behind, optimism = compare_with_leader(look, names, level=self.level, seed=self.plan.seed)
        leader = names[0]
        errors[leader] = errors[leader].moved(optimism)
        found = [
            CandidateState(
                name=name,
                status="probed",
                error=errors[name],
                behind=behind.get(name, Interval(value=0.0, ci_low=None, ci_high=None)),
                verdict="leader" if name == leader else "worse" if (behind[name].ci_low or 0.0) > 0 else "tie",
                n_train=look.n_train,
                n_test=look.n_test,
                rung=look.number,
                score=look.score,
                reason="",
            )
            for name in names
        ]
        others = [runner for name, runner in self.runners.items() if name not in self.alive]
        found += sorted(
            (self.left_behind(runner, leader) for runner in others),
            key=lambda one: (one.status == "failed", -one.rung, one.error.value if one.error else 0.0, one.name),
        )
        is_complete = look.n_train == self.task.n_train
        if not is_complete:
            self.notes.append(
                f"The budget ended the race at {look.n_train:,} of {self.task.n_train:,} labels; with all of them the "
                "order may be another."
            )
        return Race(
            standings=tuple(found),
            rungs=tuple(self.rungs),
            images={name: runner.n_images for name, runner in self.runners.items()},
            seconds={name: runner.seconds for name, runner in self.runners.items()},
            full_seconds=self.full_seconds,
            optimism=optimism,
            is_complete=is_complete,
            notes=tuple(self.notes),
        )

    def left_behind(self, runner: _Runner, leader: str) -> CandidateState:
        """The standing of one that was dropped or failed, against the leader of the end."""
        look = next((look for look in self.looks if look.number == runner.rung and runner.name in look.wrong), None)
        error = behind = None
        verdict = "failed" if runner.failed else "not told apart"
        if look is not None and runner.n_images:
            error = estimate_error(look, runner.name, seed=self.plan.seed)
            behind = estimate_gap(look, runner.name, leader, level=self.plan.level)
            if not runner.failed and (runner.hopeless or self.is_worse(look, runner.name, leader, n_looks=1)):
                verdict = "worse"
        return CandidateState(
            name=runner.name,
            status="failed" if runner.failed else "dropped",
            error=error,
            behind=behind,
            verdict=verdict,
            n_train=runner.n_train,
            n_test=runner.n_test,
            rung=runner.rung,
            score=look.score if look else self.plan.score,
            reason=runner.reason,
        )


def race(
    contenders: Sequence[Contender],
    task: Task,
    plan: Plan | None = None,
    *,
    probe: Probe | None = None,
    tell: Tell | None = None,
    clock: Callable[[], float] = time.monotonic,
    priors: Mapping[str, Prior] | None = None,
) -> Race:
    """The best of several encoders on labelled images, at a part of the cost of measuring all.

    ``contenders`` have different names; those that come first have their turn where the time is short. ``probe`` trains
    the probes, by default :func:`build_logistic_scorer`; ``tell`` is called with a sentence on what is done next, who
    leads and who was dropped; ``clock`` gives seconds, for ``plan.budget_s``; ``priors`` are expected log odds of
    errors of contenders, with their standard deviations on new images.

    NoneLeft, a DataError that says why of each, if none can be used.
    """
    chosen = plan or Plan()
    made = probe or build_logistic_scorer(task, seed=chosen.seed)
    say = tell or (lambda text: None)
    return _Racing(contenders, task, chosen, probe=made, tell=say, clock=clock, priors=priors).run()


def rehearse_race(contenders: Sequence[Contender], task: Task, plan: Plan) -> tuple[float, float]:
    """Seconds of featurising that a race is expected to take, and that measuring everything would.

    By the contenders' expected seconds per image, if the first ones given were the best; nothing is featurised.
    """
    made = _Racing(
        contenders, task, plan, probe=build_logistic_scorer(task), tell=lambda text: None, clock=time.monotonic
    )
    full = made.full_seconds
    if not made.is_limited:
        return sum(made.step_cost(made.alive, rung) for rung in range(len(made.schedule.sizes))), full
    planned = made.cost_to_end(made.alive, 0, min(plan.n_final, len(made.alive)))
    return max(min(planned, made.left()), made.step_cost(made.alive, 0)), full
