"""Which encoder for labelled images: the race on the images themselves, what more labels would buy, and what it costs.

A shortlist by what is known (:mod:`.shortlist`), or encoders that were named, race on the images (:mod:`.racing`).
Features and measured speeds are kept below the folder of ``zoo evaluate``, so that a choice that was stopped goes on,
and one with other constraints computes what is new alone. An encoder that cannot be loaded, that the images are too
small for or that does not fit into the memory of the device leaves the race by name; the others go on.
"""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..cards.catalogue import catalogue
from ..datasets import ImageData, ImageSet, open_images
from ..datasets.imagefiles import notes_on
from ..datasets.images import copies_of, digest, shared_groups
from ..datasets.labels import class_notes
from ..errors import DataError, QueryError, WeightsUnavailable
from ..evaluation.evaluating import Request, decomposed, evaluations_folder, runs_folder
from ..features.items import Featurising
from ..optional import requires_extra
from ..progress import Progress, Silent
from .constraints import DEVICES, Constraints
from .contending import Ground, ImageContender, Load
from .judging import PROTOCOL, cached, logistic_probe
from .more_labels import LabelCurve, label_curve, label_parts
from .racing import SCORE, NoneLeft, Plan, Race, race, rehearsal
from .shortlist import Entry, shortlist, weights_here
from .visiting import Task

with requires_extra("evaluate", needed_for="Choosing an encoder"):
    import numpy as np
    import torch

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..evaluation.risk import RiskReport

N_ENCODERS = 12
N_CURVES = 3  # encoders whose label curve is measured
TIME_S = 3600.0  # that a choice may take
LEAST_S = 60.0  # of featurising, below which nothing is saved
FIRST_SHARE = 0.4  # of the time, for the first rung of a shortlist
RACE_SHARE = 0.8  # of the time, for the race; the rest is for what comes after it
_BYTES_A_NUMBER = 4  # features are float32
_N_NAMED = 5  # encoders of an error
_N_SIZES = 16  # images whose size is looked at
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFacts:
    """The images that are chosen for."""

    name: str
    spelled: str  # how a command names them
    n_train: int
    n_test: int
    classes: tuple[str, ...]
    labels_a_class: tuple[int, int]  # training images of the smallest and of the largest class
    n_groups: tuple[int, int] | None  # of training and of test images; None without groups
    image_px: int  # usual shorter side
    fingerprints: tuple[str, str]
    notes: tuple[str, ...]  # on copies, groups and classes


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """One encoder of a plan."""

    name: str
    why: str  # a sentence
    fetch_bytes: int | None  # None if its weights are here
    fetch_is_exact: bool
    here: str  # where they are, "" if nowhere
    expected_error: float | None  # percent, by what is known before
    expected_source: str
    seconds_per_image: float | None  # measured on this device before, or expected of its network; None if not known
    seconds_source: str  # "measured", "expected" (by a plan alone) or ""
    memory_bytes: int | None  # on this device with these batches
    memory_source: str  # "measured", "computed" or ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoicePlan:
    """What a choice would do."""

    data: DataFacts
    device: str
    encoders: tuple[Planned, ...]
    left_out: dict[str, list[str]]  # ids by reason
    n_passed: int  # encoders that pass the constraints
    fetch_bytes: int
    sizes: tuple[tuple[int, int], ...]  # training and test images of each rung
    seconds: float | None  # of featurising, as the race is expected to go; None if some speed is not known
    full_seconds: float | None  # of featurising everything
    time_s: float | None
    plan: Plan
    notes: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """Everything, for JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """What one encoder costs on this device."""

    name: str
    images_per_second: float | None  # measured, decoding included; None if nothing was computed on this device
    memory_bytes: int | None
    memory_source: str  # "measured", "computed" or ""
    dim: int
    feature_bytes: int  # of all images, float32
    n_images: int  # in the race
    n_computed: int  # of them in this call; the others were there


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Choice:
    """The answer: a ranking with intervals and ties, costs, label curves, and what to do next."""

    data: DataFacts
    plan: ChoicePlan
    race: Race
    costs: tuple[Costs, ...]  # in the order of the race's standings; those that failed first are not there
    curves: tuple[LabelCurve, ...]  # of the best, the winner first
    risk: RiskReport | None
    failed: dict[str, str]  # reasons by name
    notes: tuple[str, ...]
    seconds: float  # of this call, by the clock
    commands: dict[str, str] = field(default_factory=dict)  # "load" (Python), "evaluate"

    @property
    def winner(self) -> str:
        """Name of the encoder with the lowest error."""
        return self.race.leader.name

    @property
    def ties(self) -> tuple[str, ...]:
        """Encoders statistically tied with the winner, best first."""
        return tuple(one.name for one in self.race.standings if one.verdict in ("tie", "not told apart"))

    def as_dict(self) -> dict[str, Any]:
        """Everything, for JSON."""
        fields: dict[str, Any] = {
            "winner": self.winner,
            "ties": list(self.ties),
            "data": asdict(self.data),
            "plan": self.plan.as_dict(),
            "race": asdict(self.race) | {"share": self.race.share},
            "costs": [asdict(one) for one in self.costs],
            "label_curves": [asdict(one) for one in self.curves],
            "risk": None,
            "failed": self.failed,
            "notes": list(self.notes),
            "seconds": self.seconds,
            "commands": self.commands,
        }
        if self.risk is not None:
            fields["risk"] = {
                "encoder": self.risk.encoder,
                "parts": {name: asdict(found) for name, found in self.risk.intervals.items()},
                "warning": self.risk.warning,
            }
        return fields


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Prepared:
    """What is known before the race."""

    plan: ChoicePlan
    task: Task
    ground: Ground
    contenders: list[ImageContender]


def plan_choice(
    images: str | os.PathLike[str] | ImageData,
    *,
    constraints: Constraints | None = None,
    encoders: int | Sequence[str] = N_ENCODERS,
    time_s: float | None = TIME_S,
    share: float | None = None,
    device: str | None = None,
    seed: int = 0,
    batch_size: int = 64,
    n_workers: int = 0,
    root: str | os.PathLike[str] | None = None,
    offline: bool = False,
    score: str = SCORE,
    spelled: str | None = None,
) -> ChoicePlan:
    """What :func:`choose` would do with the same arguments: which encoders and why, bytes to fetch, and seconds.

    Nothing is fetched and no feature is computed. Parameters and errors are those of :func:`choose`.
    """
    return _prepared(
        _opened(images),
        constraints,
        encoders,
        _plan(seed=seed, time_s=time_s, share=share, score=score),
        time_s,
        Featurising(batch_size=batch_size, n_workers=n_workers, device=device),
        root,
        offline,
        _spelled(images, spelled),
        is_rehearsal=True,
    ).plan


def choose(
    images: str | os.PathLike[str] | ImageData,
    *,
    constraints: Constraints | None = None,
    encoders: int | Sequence[str] = N_ENCODERS,
    time_s: float | None = TIME_S,
    share: float | None = None,
    device: str | None = None,
    seed: int = 0,
    batch_size: int = 64,
    n_workers: int = 0,
    root: str | os.PathLike[str] | None = None,
    decompose: bool = False,
    offline: bool = False,
    score: str = SCORE,
    spelled: str | None = None,
    load: Load | None = None,
    progress: Callable[[str], Progress] | None = None,
    tell: Tell | None = None,
) -> Choice:
    """The encoder for one's own labelled images.

    Parameters
    ----------
    images : str, path or ImageData
        As :func:`zoo.datasets.open_images` takes them. Encoders are compared on the part "val", with probes trained on
        the part "train".
    constraints : Constraints, optional
        What an encoder must satisfy.
    encoders : int or sequence of str
        How many to try, or which.
    time_s : float or None
        Seconds that the choice may take, an hour by default; None: as long as it needs.
    share : float, optional
        Of the cost of measuring everything that it may spend beside that, but no less than a minute of featurising.
        Without it nobody is dropped before the time presses, but those that are worse beyond doubt.
    device : str, optional
        A GPU where there is one.
    seed : int
        Of the order in which images are visited.
    batch_size, n_workers : int
        Of featurising; a batch that does not fit into the memory of the device is halved.
    root : path, optional
        Folder of features, speeds and probes; that of ``zoo evaluate`` by default.
    decompose : bool
        Also where the winner's error comes from; its features of all images are then computed.
    offline : bool
        Only encoders whose weights are on this machine.
    score : str
        Judges before all labels are there: a name of :data:`zoo.choosing.judging.SCORES`.
    spelled : str, optional
        How the next command names the images; by default as they were given.
    load : callable, optional
        From a name to an encoder and its preprocessing; :func:`zoo.load` by default.
    progress : callable, optional
        From the name of a part to what is told how many images are done.
    tell : callable, optional
        Called with a few words on what is done, who leads and who was dropped.

    Returns
    -------
    Choice

    Raises
    ------
    DataError
        If no probe can be trained or tested on the images, an image cannot be read, or no encoder could be used.
    QueryError
        If no encoder satisfies the constraints, with the nearest; or a number makes no sense.
    UnknownName
        If there is no encoder or image set of that name.
    """
    started = time.monotonic()
    say = tell or (lambda text: None)
    prepared = _prepared(
        _opened(images),
        constraints,
        encoders,
        _plan(seed=seed, time_s=time_s, share=share, score=score),
        time_s,
        Featurising(batch_size=batch_size, n_workers=n_workers, device=device),
        root,
        offline,
        _spelled(images, spelled),
        load=load,
        progress=progress,
        tell=say,
    )
    task, ground, plan = prepared.task, prepared.ground, prepared.plan.plan
    say(f"{_n(len(prepared.contenders), 'encoder')} on {prepared.plan.data.name}: {', '.join(_names(prepared))}")
    by_name = {contender.name: contender for contender in prepared.contenders}
    probe = cached(
        logistic_probe(task, contents=ground.data.train.contents, seed=seed, device=device),
        n_test=task.n_test,
        facts=lambda name: (
            runs_folder(ground.root, by_name[name].name),
            {"features": by_name[name].facts, "protocol": PROTOCOL, "seed": seed, "groups": _hash(task.groups_train)},
        ),
    )
    try:
        found = race(prepared.contenders, task, plan, probe=probe, tell=say)
    except NoneLeft as error:
        raise _none_left(error) from error
    curves, curve_notes = _curves(found, task, ground, by_name, seed, time_s, started, say, probe)
    risk, notes = None, [*found.notes, *curve_notes]
    if decompose:
        try:
            risk = _decomposed(by_name[found.leader.name], ground, seed, device, say)
        except DataError as error:  # the ranking stands without it
            notes.append(f"The error of {found.leader.name} could not be decomposed: {error}")
    notes += [note for contender in prepared.contenders for note in contender.notes]
    failed = {one.name: one.reason for one in found.standings if one.status == "failed"}
    data = prepared.plan.data
    return Choice(
        data=data,
        plan=prepared.plan,
        race=found,
        costs=tuple(_costs(by_name[one.name], task, found) for one in found.standings if by_name[one.name].dim),
        curves=curves,
        risk=risk,
        failed=failed,
        notes=tuple(notes),
        seconds=time.monotonic() - started,
        commands={
            "load": f'encoder, preprocess = zoo.load("{found.leader.name}")',
            "evaluate": f"zoo evaluate {shlex.quote(found.leader.name)} {data.spelled} --save DIR",
        },
    )


def _none_left(error: NoneLeft) -> DataError:
    """One sentence on why no encoder could be used, and what is possible without a network if that is the reason."""
    name, reason = next(iter(error.failed.items()))
    text = f"None of the {_n(len(error.failed), 'encoder')} could be used; the first one, {name}: {reason}"
    if any(isinstance(one, WeightsUnavailable) for one in error.failed.values()):
        cards = catalogue()
        here = weights_here(cards[name] for name in cards)
        there = [name for name, where in here.items() if where and not cards[name].is_untrained]
        names = sorted(there, key=lambda name: here[name] == "shipped")  # the tiny ones last
        if names:
            more = f" and {len(names) - _N_NAMED} more" if len(names) > _N_NAMED else ""
            text += f" Without a network these can be tried here: {', '.join(names[:_N_NAMED])}{more}."
        else:
            text += " Without a network none can be tried here: fetch weights with 'zoo get NAME' where there is one."
    return DataError(text)


def _opened(images: str | os.PathLike[str] | ImageData) -> ImageData:
    return images if isinstance(images, ImageData) else open_images(images)


def _spelled(images: str | os.PathLike[str] | ImageData, spelled: str | None) -> str:
    if spelled is not None:
        return spelled
    return "IMAGES" if isinstance(images, ImageData) else shlex.quote(os.fspath(images))


def _plan(*, seed: int, time_s: float | None, share: float | None, score: str) -> Plan:
    if time_s is not None and not time_s > 0:
        raise QueryError(f"A choice was asked for within {time_s:g} seconds; expected more than 0.")
    budget_s = None if time_s is None else RACE_SHARE * time_s
    return Plan(seed=seed, share=share, least_s=LEAST_S, score=score, budget_s=budget_s)


def _prepared(
    data: ImageData,
    constraints: Constraints | None,
    encoders: int | Sequence[str],
    plan: Plan,
    time_s: float | None,
    how: Featurising,
    root: str | os.PathLike[str] | None,
    offline: bool,
    spelled: str,
    *,
    is_rehearsal: bool = False,
    load: Load | None = None,
    progress: Callable[[str], Progress] | None = None,
    tell: Tell | None = None,
) -> _Prepared:
    facts, task = _facts(data, spelled), _task(data)
    limits = constraints or Constraints()
    if limits.device is None and (known := _device(how)) in DEVICES:
        limits = replace(limits, device=known)
    first = plan.schedule(task)
    listing = partial(
        shortlist,
        encoders,
        n_labels=facts.n_train,
        n_classes=int((data.train.n_per_class() > 0).sum()),
        image_px=facts.image_px,
        dataset=data.name,
        offline=offline,
        seed=plan.seed,
    )
    listed, slowest = listing(limits), None
    if time_s is not None and isinstance(encoders, int):
        slowest = len(listed.chosen) * sum(first.sizes[0]) / (FIRST_SHARE * time_s)
        listed = listing(replace(limits, min_images_per_second=max(slowest, limits.min_images_per_second or 0.0)))
    ground = Ground(
        data=data,
        schedule=first,
        root=evaluations_folder() if root is None else Path(root),
        how=how,
        load=load,
        least_images_per_second=limits.min_images_per_second,
        progress=progress or (lambda part: Silent()),
        tell=tell or (lambda text: None),
    )
    contenders, planned = [], []
    for entry in listed.chosen:
        contender = ImageContender(entry.name, ground, expects=is_rehearsal or plan.share is not None)
        contenders.append(contender)
        planned.append(_planned(entry, contender))
    notes = [*facts.notes, *listed.notes]
    if slowest is not None:
        notes.append(
            f"Within the time {_n(len(listed.chosen), 'encoder')} can be tried only if each makes features of about "
            f"{slowest:.2g} images a second or more, so that slower ones are not on the list."
        )
    seconds = full_seconds = None
    if all(one.seconds_per_image is not None for one in planned):
        seconds, full_seconds = rehearsal(contenders, task, plan)
    return _Prepared(
        plan=ChoicePlan(
            data=facts,
            device=ground.device_name,
            encoders=tuple(planned),
            left_out=listed.left_out,
            n_passed=listed.n_passed,
            fetch_bytes=listed.fetch_bytes,
            sizes=ground.schedule.sizes,
            seconds=seconds,
            full_seconds=full_seconds,
            time_s=time_s,
            plan=plan,
            notes=tuple(notes),
        ),
        task=task,
        ground=ground,
        contenders=contenders,
    )


def _device(how: Featurising) -> str:
    """The kind of device that will compute."""
    if how.device is not None:
        return how.device.partition(":")[0]
    return "cuda" if torch.cuda.is_available() else "cpu"


def _planned(entry: Entry, contender: ImageContender) -> Planned:
    seconds, source = contender.expected_seconds()
    memory, memory_source = contender.memory
    return Planned(
        name=entry.name,
        why=entry.why,
        fetch_bytes=entry.fetch_bytes,
        fetch_is_exact=entry.fetch_is_exact,
        here=entry.here,
        expected_error=None if entry.expected is None else entry.expected.error,
        expected_source="" if entry.expected is None else entry.expected.source,
        seconds_per_image=seconds,
        seconds_source=source,
        memory_bytes=memory,
        memory_source=memory_source,
    )


def _facts(data: ImageData, spelled: str) -> DataFacts:
    train, test = data.train, data.val
    counts = train.n_per_class()
    present = counts[counts > 0]
    notes = list(dict.fromkeys([*notes_on([train, test]), *class_notes(data)]))
    if train.tags:
        notes.append(f"images of {data.name} have several labels: every combination of them counts as a class")
    copies = copies_of(train.contents, train.labels, test.contents, test.labels)
    shared = shared_groups(train.groups, test.groups)
    notes += (copies.notes() if copies else []) + (shared.notes() if shared else [])
    if names := [data.train.classes[i] for i in np.flatnonzero(counts == 1)]:
        few = ", ".join(map(repr, names[:3])) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        notes.append(
            f"{_n(len(names), 'class', 'es')} ({few}) with one training image alone, so that none is left to choose a "
            "probe's settings on"
        )
    groups = None
    if train.groups is not None and test.groups is not None:
        groups = len(np.unique(train.groups)), len(np.unique(test.groups))
    return DataFacts(
        name=data.name,
        spelled=spelled,
        n_train=len(train),
        n_test=len(test),
        classes=train.classes,
        labels_a_class=(int(present.min()), int(present.max())),
        n_groups=groups,
        image_px=_usual_side(train),
        fingerprints=(train.fingerprint, test.fingerprint),
        notes=tuple(notes),
    )


def _usual_side(images: ImageSet) -> int:
    places = np.unique(np.linspace(0, len(images) - 1, _N_SIZES).astype(int))
    return int(np.median([min(images.images[place].size) for place in places.tolist()]))


def _task(data: ImageData) -> Task:
    return Task(
        y_train=data.train.labels,
        y_test=data.val.labels,
        groups_train=data.train.groups,
        groups_test=_several(data.val.together),
        classes=data.train.classes,
    )


def _several(numbers: NDArray[np.uint64] | None) -> NDArray[np.uint64] | None:
    """Groups of images; None where each image is one."""
    return None if numbers is None or len(np.unique(numbers)) == len(numbers) else numbers


def _hash(groups: NDArray[np.uint64] | None) -> str | None:
    return None if groups is None else digest([groups])


def _names(prepared: _Prepared) -> list[str]:
    return [contender.name for contender in prepared.contenders]


def _n(n: int, what: str, plural: str = "s") -> str:
    return f"{n:,} {what}{'' if n == 1 else plural}"


def _curves(
    found: Race,
    task: Task,
    ground: Ground,
    by_name: dict[str, ImageContender],
    seed: int,
    time_s: float | None,
    started: float,
    say: Tell,
    probe: Any,
) -> tuple[tuple[LabelCurve, ...], list[str]]:
    """The label curves of the best on the images that they have, as many as the time allows."""
    probed = [one for one in found.standings if one.status == "probed"][:N_CURVES]
    order = ground.schedule.train[: probed[0].n_train]
    test = ground.schedule.test[: probed[0].n_test]
    rows = np.sort(order)
    place = np.full(task.n_train, -1)
    place[rows] = np.arange(len(rows))
    groups = None if task.groups_train is None else task.groups_train[rows]
    parts = label_parts(task.y_train[rows], place[order], groups)
    clusters = None
    if task.groups_test is not None:
        clusters = np.unique(task.groups_test[test], return_inverse=True)[1].reshape(-1)
    curves: list[LabelCurve] = []
    seconds = 0.0
    for standing in probed:
        if time_s is not None and curves and time.monotonic() - started + seconds > time_s:
            break
        before = time.monotonic()
        say(f"{standing.name}: errors with parts of the labels")
        contender = by_name[standing.name]
        curves.append(
            label_curve(
                standing.name,
                parts,
                contender.features("train", rows),
                task.y_train[rows],
                contender.features("val", test),
                test,
                task.y_test[test],
                probe=lambda name, some, x, y: probe(name, rows[some], x, y),
                clusters=clusters,
                seed=seed,
            )
        )
        seconds = time.monotonic() - before
    notes = []
    if len(curves) < len(probed):
        notes.append(f"There was no time for the label curves of {len(probed) - len(curves)} of the best.")
    return tuple(curves), notes


def _decomposed(contender: ImageContender, ground: Ground, seed: int, device: str | None, say: Tell) -> RiskReport:
    say(f"{contender.name}: features of all images, for the decomposition")
    return decomposed(
        contender.part("train"),
        contender.part("val"),
        Request(seed=seed, device=device, decompose=True),
        card=catalogue()[contender.name],
        cache=runs_folder(ground.root, contender.name),
        tell=say,
    )


def _costs(contender: ImageContender, task: Task, found: Race) -> Costs:
    memory, source = contender.memory
    dim = contender.dim or 0
    return Costs(
        name=contender.name,
        images_per_second=None if contender.speed is None else contender.speed.images_per_second,
        memory_bytes=memory,
        memory_source=source,
        dim=dim,
        feature_bytes=_BYTES_A_NUMBER * dim * (task.n_train + task.n_test),
        n_images=found.images[contender.name],
        n_computed=contender.n_computed,
    )
