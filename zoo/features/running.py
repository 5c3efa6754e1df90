"""Features of many encoders by any engine: items to the workers, their outcomes to the journal, indexes when due."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeAlias

from ..datasets import ImageData, ImageSet
from ..errors import ZooError
from ..execution.executor import DIED, Executor, Resources, WorkResult, collect_versions, select_share
from ..execution.journal import Journal, RunSpec, format_current_time
from ..execution.work_queue import WorkQueue
from ..progress import Progress
from .origin import CODE_NUMBER
from .store import read_index
from .work_items import (
    FeatureItem,
    FeatureItemResult,
    FeatureRunSettings,
    build_features_path,
    complete,
    compute_item,
    locate_features,
    make_items,
    split_by_encoder,
)

Piece: TypeAlias = Callable[[], Any]
"""More work for the workers: a picklable function without arguments, whose value is small and not None."""

GIVEN_UP = 3
"""Failed items after which the others of an encoder are left out: what is wrong is the encoder, or the place."""
ROUNDS = 3
"""Times that an item all of whose workers died is handed out, and that items are planned again for lost shards."""
_NAMED = 20  # images that could not be read


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowUpTask:
    """A piece of work that follows from complete features."""

    encoder: str
    do: Piece


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedWork:
    """Work that could not be done."""

    encoder: str
    part: str
    number: int | None  # of the shard; None of what is no item, such as completing
    sentence: str


@dataclass(slots=True, kw_only=True)
class RunReport:
    """Result of one process's share of a run."""

    run: str
    n_items: int = 0  # of the share
    n_done: int = 0
    n_there: int = 0  # of those, which were there already
    n_retried: int = 0
    n_nondeterministic: int = 0
    n_halved: int = 0
    n_skipped: int = 0  # images that could not be read, of complete features, the largest number of an encoder
    complete: list[tuple[str, str]] = field(default_factory=list)  # encoder and part
    incomplete: list[tuple[str, str]] = field(default_factory=list)
    failures: list[FailedWork] = field(default_factory=list)
    given_up: list[str] = field(default_factory=list)  # encoders that failed again and again

    @property
    def failed(self) -> list[str]:
        """Encoders of which something failed."""
        return list(dict.fromkeys(failure.encoder for failure in self.failures))

    def as_dict(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "run": self.run,
            "items": {
                "planned": self.n_items,
                "done": self.n_done,
                "there": self.n_there,
                "retried": self.n_retried,
                "nondeterministic": self.n_nondeterministic,
                "halved": self.n_halved,
            },
            "complete": [{"encoder": name, "part": part} for name, part in self.complete],
            "incomplete": [{"encoder": name, "part": part} for name, part in self.incomplete],
            "failed": [
                {"encoder": one.encoder, "part": one.part, "shard": one.number, "error": one.sentence}
                for one in self.failures
            ],
        }


def run_features(
    setting: FeatureRunSettings,
    names: Sequence[str],
    data: ImageData,
    parts: Sequence[str],
    executor: Executor,
    journal: Journal,
    progress: Progress,
    *,
    resources: Resources,
    on_complete: Callable[[str], Iterable[FollowUpTask] | None] | None = None,
    on_outcome: Callable[[WorkResult[Any, Any]], Iterable[FollowUpTask] | None] | None = None,
) -> RunReport:
    """Computes the features of some encoders on workers, and writes the index of each as soon as its shards are there.

    An item that fails is done again for each of its encoders alone, so that one that fails stops none of the others;
    an encoder that fails :data:`GIVEN_UP` times is left out from there on. An executor of a part of the work does the
    items of that part, and completes what the other parts have left complete.

    Parameters
    ----------
    setting : Setting
    names : sequence of str
        Ids of encoders.
    data : ImageData
        The images of the setting, as they are opened here.
    parts : sequence of str
        Of "train" and "val".
    executor : Executor
        Open; stays so.
    journal : Journal
        Of this process.
    progress : Progress
        Counts images, once for each encoder.
    resources : Resources
        What an item takes.
    on_complete : callable, optional
        Is called here, with the id, once all parts of an encoder are complete. The work that it returns is done
        by the workers before the items that are left.
    on_outcome : callable, optional
        Is called here with the outcomes of those pieces, whose work is a :class:`FollowUpTask`; may return others.

    Returns
    -------
    RunReport
        Failures are in it; nothing is raised for them.

    Raises
    ------
    QueryError
        If features of an encoder were begun with other batches or threads.
    StoreError
        If the run was begun with other versions of what may change numbers, and there is work left.
    """
    setting = replace(setting, n_threads=resources.n_cpus)
    is_part = executor.part is not None
    items = select_share(executor, make_items(setting, names, data, parts, everything=is_part))
    run = _RunState(setting, names, data, parts, items, journal, progress, is_part=is_part)
    run.on_complete, run.on_outcome = on_complete, on_outcome
    return run.done_by(executor, resources)


def _do(setting: FeatureRunSettings, work: FeatureItem | FollowUpTask) -> Any:
    """What a worker does."""
    return compute_item(setting, work) if isinstance(work, FeatureItem) else work.do()


def build_run_spec(
    setting: FeatureRunSettings,
    names: Sequence[str],
    data: ImageData,
    parts: Sequence[str],
    *,
    resources: Resources,
    verb: str = "features",
    command: Sequence[str] = (),
    more: Mapping[str, Any] | None = None,
) -> RunSpec:
    """What is asked for, as a journal begins with it.

    ``command`` are arguments of the command line that ask the same again, without place and engine; ``more`` settings
    decide what else is computed, as JSON values.
    """
    how = setting.how
    features = []
    for name in names:
        for part in parts:
            images: ImageSet = getattr(data, part)
            size = setting.shard_size
            path = build_features_path(name, images, precision=how.precision, stored=setting.stored)
            facts = {"encoder": name, "part": part, "folder": "/".join(path), "n_images": len(images)}
            features.append({**facts, "n_shards": -(-len(images) // size)})
    settings = {
        "encoders": sorted(names),
        "dataset": data.name,
        "images": {part: setting.fingerprints[part] for part in sorted(parts)},
        "precision": how.precision,
        "device": how.device,
        "skip_corrupt": how.skip_corrupt,
        "shard_size": setting.shard_size,
        **replace(setting, n_threads=resources.n_cpus).way,
        **(more or {}),
    }
    return RunSpec(
        verb=verb,
        command=tuple(command),
        settings=settings,
        features=tuple(features),
        versions=collect_versions(code=CODE_NUMBER),
        started=format_current_time(),
    )


class _RunState:
    """The state of one call of :func:`run_features`."""

    on_complete: Callable[[str], Iterable[FollowUpTask] | None] | None
    on_outcome: Callable[[WorkResult[Any, Any]], Iterable[FollowUpTask] | None] | None

    def __init__(
        self,
        setting: FeatureRunSettings,
        names: Sequence[str],
        data: ImageData,
        parts: Sequence[str],
        items: Sequence[FeatureItem],
        journal: Journal,
        progress: Progress,
        *,
        is_part: bool,
    ) -> None:
        self._setting, self._data, self._journal, self._progress = setting, data, journal, progress
        self._is_part = is_part
        self._queue = WorkQueue[FeatureItem | FollowUpTask](items, journal, hand_out=self._without_given_up)
        self._report = RunReport(run=journal.run)
        self._left = Counter((name, item.part) for item in items for name in item.encoders)
        self._wanted = {name: set(parts) for name in names}  # parts that are not complete
        self._rounds: Counter[Any] = Counter()
        self._n_failed: Counter[str] = Counter()  # items, by encoder
        self._shown = ", ".join([*names[:2], f"and {len(names) - 2} more"] if len(names) > 3 else names)
        self._n_planned = sum(len(item.encoders) * self._n_images(item) for item in items)
        self._n_all = self._n_planned
        if not is_part:
            self._n_all = len(names) * sum(len(self._images(part)) for part in parts)

    def done_by(self, executor: Executor, resources: Resources) -> RunReport:
        """Hands everything out, and waits for it."""
        name = f"{self._shown}, {self._data.name}"
        self._progress.start(name, self._n_all, max(self._n_all - self._n_planned, 0))
        try:
            for name, wanted in self._wanted.items():
                for part in sorted(wanted):
                    self._complete_if_due(name, part)
            self._queue.run(partial(_do, self._setting), self._take, executor, resources)
        finally:
            self._progress.end()
        self._report.n_items = self._queue.n_planned
        self._report.incomplete = [(name, part) for name, wanted in self._wanted.items() for part in sorted(wanted)]
        return self._report

    def _without_given_up(self, item: FeatureItem | FollowUpTask) -> FeatureItem | FollowUpTask | None:
        """An item for those of its encoders that have not failed again and again."""
        if isinstance(item, FollowUpTask):
            return item
        left = tuple(name for name in item.encoders if self._n_failed[name] < GIVEN_UP)
        for name in item.encoders:
            if name not in left:
                self._ended(name, item)
        return replace(item, encoders=left) if left else None

    def _take(self, outcome: WorkResult[Any, Any]) -> None:
        if not isinstance(outcome.work, FeatureItem):
            label = {"encoders": [outcome.work.encoder], "part": None, "number": None}
            self._journal.outcome(outcome, label, is_item=False)
            if self.on_outcome is not None:
                self._queue.add(self.on_outcome(outcome) or ())
        elif outcome.value is None:
            self._take_failed(outcome)
        else:
            self._take_done(outcome, outcome.work)

    def _take_done(self, outcome: WorkResult[Any, Any], item: FeatureItem) -> None:
        done, label = outcome.value, _label(item)
        assert isinstance(done, FeatureItemResult)
        n_images = len(item.encoders) * self._n_images(item)
        self._journal.outcome(
            outcome, label, was_there=done.was_there, n_images=0 if done.was_there else n_images, n_bytes=done.n_bytes
        )
        self._report.n_done += 1
        self._report.n_there += done.was_there
        self._report.n_retried += bool(outcome.failures)
        if done.nondeterministic:
            self._journal.nondeterministic({**label, "encoders": list(done.nondeterministic)})
            self._report.n_nondeterministic += 1
        if done.batch_size < self._setting.how.batch_size and not done.was_there:
            self._journal.halved(label, done.batch_size)
            self._report.n_halved += 1
        self._progress.advance(n_images)
        for name in item.encoders:
            self._ended(name, item)

    def _take_failed(self, outcome: WorkResult[Any, Any]) -> None:
        item: FeatureItem = outcome.work
        self._rounds[item] += 1
        kinds = {failure.kind for failure in outcome.failures}
        if kinds == {DIED} and self._rounds[item] < ROUNDS:  # of nodes that go, not of the item
            self._queue.add([item])
            return
        if len(item.encoders) > 1:
            self._queue.plan(split_by_encoder(item), replaced=1)
            return
        (name,) = item.encoders
        self._journal.outcome(outcome, _label(item))
        sentence = outcome.failures[-1].text if outcome.failures else "no worker said why"
        self._fail(name, item.part, item.number, sentence)
        self._n_failed[name] += 1
        if self._n_failed[name] == GIVEN_UP:
            self._report.given_up.append(name)
        self._ended(name, item)

    def _fail(self, name: str, part: str, number: int | None, sentence: str) -> None:
        self._report.failures.append(FailedWork(encoder=name, part=part, number=number, sentence=sentence))

    def _ended(self, name: str, item: FeatureItem) -> None:
        """An item of an encoder will not be handed out again."""
        self._left[name, item.part] -= 1
        self._complete_if_due(name, item.part)

    def _complete_if_due(self, name: str, part: str) -> None:
        """Completes features whose items all came to an end."""
        if self._left[name, part] > 0 or any((one.encoder, one.part) == (name, part) for one in self._report.failures):
            return
        try:
            is_complete = complete(self._setting, name, part)
        except ZooError as error:
            self._journal.failed({"encoders": [name], "part": part, "number": None}, str(error))
            self._fail(name, part, None, str(error))
            return
        if is_complete:
            self._take_complete(name, part)
        elif not self._is_part:
            self._plan_again(name, part)

    def _take_complete(self, name: str, part: str) -> None:
        self._journal.complete(name, part)
        self._report.complete.append((name, part))
        index = read_index(locate_features(self._setting, name, self._images(part)))
        if index is not None and index.skipped:
            self._report.n_skipped = max(self._report.n_skipped, len(index.skipped))
            self._journal.skipped(name, part, [one.image for one in index.skipped[:_NAMED]], len(index.skipped))
        self._wanted[name].discard(part)
        if not self._wanted[name] and self.on_complete is not None:
            self._queue.add(self.on_complete(name) or ())

    def _plan_again(self, name: str, part: str) -> None:
        """Plans the items of shards that were damaged, or of other features, and are gone now."""
        self._rounds[name, part] += 1
        items = make_items(self._setting, [name], self._data, [part]) if self._rounds[name, part] < ROUNDS else []
        if not items:
            sentence = f"The features of {name!r} ({part}) lack shards that were computed; run the same command again."
            self._journal.failed({"encoders": [name], "part": part, "number": None}, sentence)
            self._fail(name, part, None, sentence)
            return
        self._left[name, part] = len(items)
        self._queue.plan(items)

    def _images(self, part: str) -> ImageSet:
        images: ImageSet = getattr(self._data, part)
        return images

    def _n_images(self, item: FeatureItem) -> int:
        start = item.number * item.shard_size
        return min(start + item.shard_size, len(self._images(item.part))) - start


def _label(item: FeatureItem) -> dict[str, Any]:
    return {"encoders": list(item.encoders), "part": item.part, "number": item.number, "shard_size": item.shard_size}
