"""Which encoder for labelled images: some race on them (:mod:`.shortlist`, :mod:`.successive_halving`).

Features and measured speeds are kept below the folder of ``zoo evaluate``, so that a choice that was stopped goes on.
An encoder that fails (its weights, the size of its images, the memory of the device) leaves the race by name.
"""

from __future__ import annotations

import math
import os
import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..cards.answers import AnswerTable, ShownInNotebooks, make_axes
from ..cards.catalogue import get_base_card, load_catalogue
from ..datasets import DenseData, ImageData, open_images
from ..datasets.dense import MapSet
from ..datasets.images import count_copies, count_shared_groups
from ..datasets.labels import describe_class_doubts
from ..datasets.notes import describe_decoding
from ..errors import DataError, QueryError, UnknownName, WeightsUnavailable, format_count
from ..evaluation.drawing import FULL_WIDTH
from ..evaluation.evaluating import Request, evaluate_decomposition, get_runs_folder
from ..evaluation.measuring import ProbeCache
from ..evaluation.protocols import PROTOCOLS
from ..features.work_items import FeaturisingOptions
from ..files import get_evaluations_folder
from ..optional import require_extra
from ..progress import Progress, SilentProgress
from .boards import SEGMENTATION
from .candidates import ImageContender, Load, RaceContext
from .comparing import LabelCurve, draw_label_parts, measure_label_curve
from .constraints import DEVICES, Constraints, join_names
from .expectations import Images
from .figures import draw_against_cost, draw_ranking, list_race_bars
from .scoring import (
    PROTOCOL,
    PROTOCOLS_OF_PROBES,
    RIDGE,
    Probe,
    Task,
    build_logistic_scorer,
    build_task,
    fit_on_labels,
    number_groups,
)
from .shortlist import ShortlistEntry, describe_offline_choice, select_shortlist
from .successive_halving import CandidateState, NoneLeft, Plan, Prior, Race, Tell, race, rehearse_race
from .wording import build_ranked_table

with require_extra("evaluate", needed_for="Choosing an encoder"):
    import numpy as np
    import torch

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ..evaluation.risk import RiskReport
    from ..looking.mistakes import Mistakes

N_ENCODERS = 12
N_CURVES = 3  # encoders whose label curve is measured
TIME_S = 3600.0  # that a choice may take
LEAST_S = 60.0  # of featurising, below which nothing is saved
FIRST_SHARE = 0.4  # of the time, for the first rung of a shortlist
RACE_SHARE = 0.8  # of the time, for the race; the rest is for what comes after it
_N_SIZES = 16  # images whose size is looked at


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
    target: str = ""  # what labels measure that are numbers
    has_masks: bool = False  # in place of labels


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
    protocol: str  # of the probes on all labels
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
    feature_bytes: int  # of all images, as they are stored
    n_images: int  # in the race
    n_computed: int  # of them in this call; the others were there


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Choice(ShownInNotebooks):
    """The answer: a ranking with intervals and ties, costs, label curves, and what to do next.

    In a notebook it is the table of the command line and of the page; ``.df`` has all of it.
    """

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
    mistakes: Mistakes | None = None  # of the winner, where they were asked for

    @property
    def winner(self) -> str:
        """Name of the encoder with the lowest error."""
        return self.race.leader.name

    @property
    def ties(self) -> tuple[str, ...]:
        """Encoders statistically tied with the winner, best first."""
        return tuple(one.name for one in self.race.standings if one.verdict in ("tie", "not told apart"))

    def build_tables(self) -> list[AnswerTable]:
        """The ranking, with the answer in sentences."""
        return [build_ranked_table(self)]

    def plot(self, ax: Axes | None = None, *, most: int = N_ENCODERS, cost: str | None = None) -> Axes:
        """Draws the ranking of ``most`` encoders, or errors against a cost, on ``ax`` or a new figure.

        ``cost`` is "images_per_second" or "n_parameters"; QueryError if it is not, or not known of any encoder.
        """
        speed = f"images per second on {self.plan.device}"
        labels = {None: "", "images_per_second": speed, "n_parameters": "parameters"}
        if cost not in labels:
            raise QueryError(f"Got the cost {cost!r}, expected images_per_second or n_parameters.")
        costs = {one["encoder"]: one[cost] if cost else 1 for one in self.build_tables()[0].records}
        bars = [one for one in list_race_bars(self.race.standings) if costs[one.name]][:most]
        if not bars:
            raise QueryError(f"There is nothing to plot: the {cost or 'error'} of no encoder is known.")
        axes = make_axes(height=3.0 if cost else 1.0 + 0.28 * len(bars)) if ax is None else ax
        if cost is None:
            draw_ranking(bars, FULL_WIDTH, axes=axes)
        else:
            some, is_speed = [costs[one.name] for one in bars], cost == "images_per_second"
            draw_against_cost(bars, some, FULL_WIDTH, label=labels[cost], more_is_better=is_speed, axes=axes)
        return axes

    def as_dict(self) -> dict[str, Any]:
        """Everything, for JSON."""
        found = asdict(replace(self, risk=None))
        found["label_curves"] = found.pop("curves")
        found["race"]["share"] = self.race.share
        if self.risk is not None:
            found["risk"] = {
                "encoder": self.risk.encoder,
                "parts": {name: asdict(part) for name, part in self.risk.intervals.items()},
                "warning": self.risk.warning,
            }
        return {"winner": self.winner, "ties": list(self.ties), **found}


def plan_choice(images: str | os.PathLike[str] | ImageData | DenseData, **options: Any) -> ChoicePlan:
    """What :func:`choose` would do: which encoders and why, bytes to fetch, and seconds.

    Nothing is fetched and no feature is computed. Options and errors are those of :func:`choose`; ``decompose`` and
    ``tell`` are none of a plan.
    """
    return _prepared(images, is_rehearsal=True, **options)[0]


def choose(
    images: str | os.PathLike[str] | ImageData | DenseData,
    *,
    constraints: Constraints | None = None,
    encoders: int | Sequence[str] = N_ENCODERS,
    like: str | None = None,
    domain: str | None = None,
    time_s: float | None = TIME_S,
    device: str | None = None,
    seed: int = 0,
    batch_size: int = 64,
    n_workers: int = 0,
    backend: str = "auto",
    root: str | os.PathLike[str] | None = None,
    decompose: bool = False,
    mistakes: bool = False,
    protocol: str = PROTOCOL,
    offline: bool = False,
    spelled: str | None = None,
    load: Load | None = None,
    progress: Callable[[str], Progress] = lambda part: SilentProgress(),
    tell: Tell = lambda text: None,
) -> Choice:
    """The encoder for one's own labelled images.

    Parameters
    ----------
    images : str, path, ImageData or DenseData
        As :func:`zoo.datasets.open_images` takes them. Encoders are compared on the part "val", with probes trained on
        the part "train". Those with masks, as :func:`zoo.datasets.open_dense` gives them, by the share of the pixels of
        an image that a probe on maps names wrongly, without label curves.
    constraints : Constraints, optional
        What an encoder must satisfy.
    encoders : int or sequence of str
        How many to try, or which.
    like, domain : str, optional
        A data set that the images are like, or their kind, such as "satellite": what is known of encoders on such
        images decides the shortlist.
    time_s : float or None
        Seconds that the choice may take, an hour by default; None: as long as it needs.
    device : str, optional
        A GPU where there is one.
    seed : int
        Of the order in which images are visited.
    batch_size, n_workers, backend
        Of featurising; a batch that does not fit into the memory of the device is halved.
    root : path, optional
        Folder of features, speeds and probes; that of ``zoo evaluate`` by default.
    decompose : bool
        Also the components of the winner's error; its features of all images are then computed. Not of masks.
    mistakes : bool
        Also what the winner's probe gets wrong, on the images that it was judged on; not of images with tags or masks.
    protocol : str
        Of the probes: "zoo-logistic-3", or "zoo-logistic-2" for unscaled features.
    offline : bool
        Only encoders whose weights are on this machine.
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
        If no encoder satisfies the constraints, with the nearest; a number makes no sense; or the constraints name a
        device that is not this machine's.
    UnknownName
        If there is no encoder, image set, data set or domain of that name.
    """
    started = time.monotonic()
    plan, task, contenders, priors = _prepared(
        images,
        constraints=constraints,
        encoders=encoders,
        like=like,
        domain=domain,
        time_s=time_s,
        device=device,
        seed=seed,
        batch_size=batch_size,
        n_workers=n_workers,
        backend=backend,
        root=root,
        protocol=protocol,
        decompose=decompose,
        offline=offline,
        spelled=spelled,
        load=load,
        progress=progress,
        tell=tell,
    )
    by_name = {contender.name: contender for contender in contenders}
    ground = contenders[0].ground
    tell(f"{format_count(len(contenders), 'encoder')} on {plan.data.name}: {', '.join(by_name)}")
    caches = {name: ProbeCache(get_runs_folder(ground.root, name), protocol=plan.protocol) for name in by_name}
    probe: Probe
    if plan.data.has_masks:
        of_masks: Any = task
        probe, caches, mistakes = of_masks.fit, {}, False
    else:
        probe = build_logistic_scorer(
            task,
            seed=seed,
            device=device,
            protocol=plan.protocol,
            kept=lambda name, rows: (by_name[name].labelled(rows), caches[name]),
        )
    try:
        found = race(contenders, task, plan.plan, probe=probe, tell=tell, priors=priors)
    except NoneLeft as error:
        raise _none_left(error) from error
    leader = by_name[found.leader.name]
    for one in found.standings:
        if one.status != "failed":
            by_name[one.name].keep_parts()
    probed = [by_name[one.name] for one in found.standings if one.status == "probed"]
    ends = math.inf if time_s is None else started + time_s
    for contender in probed:
        contender.measure_speed(ends)
    probed = probed[: 0 if plan.data.has_masks else N_CURVES]
    curves = _curves(probed, found.leader, task, probe, seed=seed, ends=ends, tell=tell) if probed else []
    risk, notes = None, [*found.notes, *dict.fromkeys(text for one in caches.values() for text in one.problems)]
    if len(curves) < len(probed):
        notes.append(f"There was no time for the label curves of {len(probed) - len(curves)} of the best.")
    if decompose:
        tell(f"{leader.name}: features of all images, for the decomposition")
        try:
            risk = evaluate_decomposition(
                leader.part("train"),
                leader.part("val"),
                Request(seed=seed, device=device, decompose=True, protocol=protocol),
                card=load_catalogue()[leader.name],
                cache=get_runs_folder(ground.root, leader.name),
                tell=tell,
            )
        except DataError as error:  # the ranking stands without it
            notes.append(f"The error of {leader.name} could not be decomposed: {error}")
    wrong = None
    mistakes = mistakes and not task.numbers
    if mistakes and ground.parts["train"].tags:
        notes.append("The mistakes on images with tags are on the page of 'zoo evaluate --page'.")
    elif mistakes:
        tell(f"{leader.name}: its mistakes")
        wrong = _mistakes(leader, found.leader, caches[leader.name], task, seed=seed, device=device)
    verb, to = ("segment", "out") if plan.data.has_masks else ("evaluate", "to")
    usual = {
        to: None,
        "protocol": PROTOCOL,
        "seed": 0,
        "device": None,
        "batch-size": 64,
        "workers": 0,
        "backend": "auto",
    }
    given = dict(zip(usual, (root, protocol, seed, device, batch_size, n_workers, backend), strict=True))
    options = [f"--{name} {shlex.quote(str(given[name]))}" for name in usual if given[name] != usual[name]]
    return Choice(
        mistakes=wrong,
        data=plan.data,
        plan=plan,
        race=found,
        costs=tuple(_costs(by_name[one.name], task, found) for one in found.standings if by_name[one.name].dim),
        curves=tuple(curves),
        risk=risk,
        failed={one.name: one.reason for one in found.standings if one.status == "failed"},
        notes=(*notes, *dict.fromkeys(note for contender in contenders for note in contender.notes)),
        seconds=time.monotonic() - started,
        commands={
            "load": f'encoder, preprocess = zoo.load("{leader.name}")',
            "evaluate": f"zoo {verb} {shlex.quote(leader.name)} {' '.join([plan.data.spelled, *options])} --save DIR",
        },
    )


def _mistakes(
    leader: ImageContender, standing: CandidateState, cache: ProbeCache, task: Task, *, seed: int, device: str | None
) -> Mistakes:
    """What the winner's probe gets wrong, with the images that the race ended with."""
    from ..evaluation.saved_probes import make_saved_probe
    from ..looking.mistakes import mistakes_of

    schedule = leader.ground.schedule
    train = leader.labelled(np.sort(schedule.train[: standing.n_train]))
    test = leader.some("val", np.sort(schedule.test[: standing.n_test]))
    how: Any = {"device": device, "seed": seed}
    fitted = fit_on_labels(train, n_test=task.n_test, protocol=cache.protocol, cache=cache, **how)
    probe = make_saved_probe(fitted, train, about={"chosen": fitted.report_})
    return mistakes_of(train, test, probe, protocol=PROTOCOLS[cache.protocol], cache=cache.folder, **how)


def _none_left(error: NoneLeft) -> DataError:
    """Why no encoder could be used, and what is possible without a network if that is the reason."""
    name, reason = next(iter(error.failed.items()))
    text = f"None of the {format_count(len(error.failed), 'encoder')} could be used; the first one, {name}: {reason}"
    if any(isinstance(one, WeightsUnavailable) for one in error.failed.values()):
        text += describe_offline_choice()
    return DataError(text)


def _prepared(
    images: str | os.PathLike[str] | ImageData | DenseData,
    *,
    constraints: Constraints | None = None,
    encoders: int | Sequence[str] = N_ENCODERS,
    like: str | None = None,
    domain: str | None = None,
    time_s: float | None = TIME_S,
    device: str | None = None,
    seed: int = 0,
    batch_size: int = 64,
    n_workers: int = 0,
    backend: str = "auto",
    root: str | os.PathLike[str] | None = None,
    protocol: str = PROTOCOL,
    decompose: bool = False,
    offline: bool = False,
    spelled: str | None = None,
    load: Load | None = None,
    progress: Callable[[str], Progress] = lambda part: SilentProgress(),
    tell: Tell = lambda text: None,
    is_rehearsal: bool = False,
) -> tuple[ChoicePlan, Task, list[ImageContender], dict[str, Prior]]:
    """What is known before the race."""
    if protocol not in (*PROTOCOLS_OF_PROBES, RIDGE):
        raise UnknownName("protocol of a choice", protocol, PROTOCOLS_OF_PROBES)
    if time_s is not None and not time_s > 0:
        raise QueryError(f"A choice was asked for within {time_s:g} seconds; expected more than 0.")
    if spelled is None:
        spelled = "IMAGES" if isinstance(images, ImageData | DenseData) else shlex.quote(os.fspath(images))
    data = images if isinstance(images, ImageData | DenseData) else open_images(images)
    facts = _facts(data, spelled)
    task: Task
    if isinstance(data, DenseData):
        from ..evaluation.segmentation import PROTOCOL as SEGMENT  # scikit-learn, which a plan of labels does without
        from .mask_race import MaskContender, build_mask_task

        if decompose or protocol != PROTOCOL:
            raise QueryError(f"Images of {data.name!r} have masks: no decomposition, and the protocol {SEGMENT} alone.")
        task, protocol = build_mask_task(data, seed=seed), SEGMENT
        if not isinstance(encoders, int):
            encoders = [get_base_card(load_catalogue()[name]).id for name in encoders]
    else:
        task = build_task(data)
    if task.numbers:
        if decompose or protocol not in (PROTOCOL, RIDGE):
            raise QueryError(
                f"The labels of {data.name!r} are numbers: no decomposition, and the protocol {RIDGE} alone."
            )
        protocol = RIDGE
    limits = constraints or Constraints()
    if (elsewhere := limits.measured_device) is not None:
        raise QueryError(
            f"A choice runs on this machine, and {elsewhere.name!r} was measured elsewhere; name 'cuda' or 'cpu', or "
            f"ask zoo recommend --device '{elsewhere.name}'."
        )
    kind = (device or ("cuda" if torch.cuda.is_available() else "cpu")).partition(":")[0]
    if limits.device is None and kind in DEVICES:
        limits = replace(limits, device=kind)
    budget_s = None if time_s is None else RACE_SHARE * time_s
    plan = Plan(seed=seed, score=task.judge, share=None, least_s=LEAST_S, budget_s=budget_s)
    schedule = plan.schedule(task)
    listing = partial(
        select_shortlist,
        encoders,
        n_labels=max(facts.n_train, len(facts.classes)) if facts.has_masks else facts.n_train,
        n_classes=len(facts.classes) if facts.has_masks else len(np.unique(task.y_train)),
        images=Images.named(like, domain),
        image_px=facts.image_px,
        dataset=None if facts.has_masks else data.name,
        offline=offline,
        board=SEGMENTATION if facts.has_masks else None,
        seed=seed,
    )
    listed = listing(limits)
    notes = list(facts.notes)
    if time_s is not None and isinstance(encoders, int):
        slowest = len(listed.chosen) * sum(schedule.sizes[0]) / (FIRST_SHARE * time_s)
        listed = listing(replace(limits, min_images_per_second=max(slowest, limits.min_images_per_second or 0.0)))
        notes.append(
            f"Within the time {format_count(len(listed.chosen), 'encoder')} can be tried only if each makes features "
            f"of about {slowest:.3g} images per second or more, so that slower ones are not on the list."
        )
    usual_root = get_evaluations_folder() / ("maps" if facts.has_masks else "")
    ground = RaceContext(
        data=data,
        schedule=schedule,
        root=usual_root if root is None else Path(root),
        how=FeaturisingOptions(
            batch_size=batch_size,
            n_workers=n_workers,
            device=device,
            backend=backend,
            n_planned=len(data.train) + len(data.val),
        ),
        load=load,
        least_images_per_second=limits.min_images_per_second,
        progress=progress,
        tell=tell,
    )
    made = MaskContender if isinstance(data, DenseData) else ImageContender
    contenders: list[ImageContender] = [made(entry.name, ground, expects=is_rehearsal) for entry in listed.chosen]
    if isinstance(data, DenseData):
        of_masks: Any = task
        of_masks.contenders.update((one.name, one) for one in contenders)
    if task.numbers or facts.has_masks:  # what is expected are errors of classes
        listed = replace(listed, chosen=tuple(replace(entry, expected=None) for entry in listed.chosen))
    planned = tuple(_planned(entry, one) for entry, one in zip(listed.chosen, contenders, strict=True))
    seconds = full_seconds = None
    if all(one.seconds_per_image is not None for one in planned):
        seconds, full_seconds = rehearse_race(contenders, task, plan)
    found = ChoicePlan(
        data=facts,
        device=ground.device_name,
        encoders=planned,
        left_out=listed.left_out,
        n_passed=listed.n_passed,
        fetch_bytes=listed.fetch_bytes,
        sizes=schedule.sizes,
        seconds=seconds,
        full_seconds=full_seconds,
        time_s=time_s,
        plan=plan,
        protocol=protocol,
        notes=(*notes, *listed.notes),
    )
    expected = {entry.name: entry.expected for entry in listed.chosen}
    return found, task, contenders, {name: (one.odds, one.new_sd) for name, one in expected.items() if one is not None}


def _planned(entry: ShortlistEntry, contender: ImageContender) -> Planned:
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


def _facts(data: ImageData | DenseData, spelled: str) -> DataFacts:
    has_masks = isinstance(data, DenseData)
    train, test = (part.images if isinstance(part, MapSet) else part for part in (data.train, data.val))
    counts = train.n_per_class()
    present = counts[counts > 0]
    doubts = [] if isinstance(data, DenseData) else describe_class_doubts(data)
    notes = list(dict.fromkeys([*describe_decoding([train, test]), *doubts]))
    if train.tags:
        notes.append(f"images of {data.name} have several labels: every combination of them counts as a class")
    copies = count_copies(train.contents, train.labels, test.contents, test.labels)
    shared = count_shared_groups(train.groups, test.groups)
    notes += (copies.notes() if copies else []) + (shared.notes() if shared else [])
    if not train.target and (names := [repr(train.classes[i]) for i in np.flatnonzero(counts == 1)]):
        notes.append(
            f"{format_count(len(names), 'class', 'classes')} ({join_names(names, 3)}) with one training image alone, "
            "so that none is left to choose a probe's settings on"
        )
    groups = None
    if train.groups is not None and test.groups is not None:
        groups = len(np.unique(train.groups)), len(np.unique(test.groups))
    some = np.unique(np.linspace(0, len(train) - 1, _N_SIZES).astype(int)).tolist()
    return DataFacts(
        name=data.name,
        spelled=spelled,
        n_train=len(train),
        n_test=len(test),
        classes=data.train.classes,
        labels_a_class=(int(present.min()), int(present.max())),
        n_groups=groups,
        image_px=int(np.median([min(train.images[place].size) for place in some])),
        fingerprints=(data.train.fingerprint, data.val.fingerprint),
        notes=tuple(notes),
        target=train.target,
        has_masks=has_masks,
    )


def _curves(
    probed: Sequence[ImageContender],
    leader: CandidateState,
    task: Task,
    probe: Probe,
    *,
    seed: int,
    ends: float,
    tell: Tell,
) -> list[LabelCurve]:
    """The label curves of the best on the images that they have, as many as the time allows."""
    schedule = probed[0].ground.schedule
    order, test = schedule.train[: leader.n_train], np.sort(schedule.test[: leader.n_test])
    rows = np.sort(order)
    groups = None if task.groups_train is None else task.groups_train[rows]
    parts = draw_label_parts(task.y_train[rows], np.searchsorted(rows, order), groups)
    curves: list[LabelCurve] = []
    seconds = 0.0
    for contender in probed:
        started = time.monotonic()
        if curves and started + seconds > ends:
            break
        tell(f"{contender.name}: errors with parts of the labels")
        curves.append(
            measure_label_curve(
                contender.name,
                parts,
                contender.features("train", rows),
                task.targets[0][rows],
                contender.features("val", test),
                test,
                task.targets[1][test],
                probe=lambda name, some, x, y: probe(name, rows[some], x, y),
                clusters=number_groups(task.groups_test, test),
                groups=number_groups(task.given_groups_test, test),
                seed=seed,
            )
        )
        seconds = time.monotonic() - started
    return curves


def _costs(contender: ImageContender, task: Task, found: Race) -> Costs:
    memory, source = contender.memory
    dim = contender.dim or 0
    return Costs(
        name=contender.name,
        images_per_second=None if contender.speed is None else contender.speed.images_per_second,
        memory_bytes=memory,
        memory_source=source,
        dim=dim,
        feature_bytes=np.dtype(contender.stored).itemsize * dim * (task.n_train + task.n_test),
        n_images=found.images[contender.name],
        n_computed=contender.n_computed,
    )
