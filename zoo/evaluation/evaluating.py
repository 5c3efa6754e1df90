"""Everything that is measured of one encoder on one data set: label settings, neighbours, risk decomposition.

The order is from cheap to dear, and each probe is kept as soon as it is measured, so that a run that ends early has
lost one probe at most.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..datasets.contents import Copies, copies_of
from ..errors import DataError, QueryError
from ..features import Features
from ..metadata import EncoderCard
from .intervals import N_DRAWS
from .kept import KeptRuns
from .measuring import N_SEEDS, SettingResult, check_count, check_pair, measure_seeds
from .probes import Choice, linear_protocols, neighbours_protocol, probe_maker
from .protocols import Protocol
from .risk import N_SUBSETS, Order, RiskReport, decompose
from .settings import PUBLISHED_SETTINGS, LabelSetting, label_setting

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is to be measured."""

    settings: tuple[str, ...] | None = None  # None: the published ones that the data set is large enough for
    n_seeds: int = N_SEEDS  # of the settings with few labels; all labels are there once
    n_subsets: int = N_SUBSETS  # of the decomposition
    seed: int = 0
    probe: str = "auto"  # one of zoo.evaluation.probes.KINDS
    changed: Mapping[str, Any] = field(default_factory=dict)  # settings of the linear probe, which then is another
    neighbours: bool = True
    decompose: bool = False
    order: Order = "standard"
    n_refits: int = 0  # resamples of the images on which the probes of the decomposition are trained again
    supervised: Features | float | None = None  # the twin, as zoo.evaluation.risk.decompose takes it
    n_bootstrap: int = N_DRAWS
    device: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Evaluation:
    """What was measured of one encoder."""

    train: Features
    test: Features
    protocols: Choice
    settings: tuple[SettingResult, ...]
    left_out: dict[str, str]  # published settings that the data set cannot have, and why
    neighbours: SettingResult | None
    neighbours_protocol: Protocol
    risk: RiskReport | None
    seed: int
    copies: Copies | None  # images that are copies of others; None if their contents are not known
    problems: tuple[str, ...] = ()  # why measured probes could not be kept


def evaluate(
    train: Features,
    test: Features,
    request: Request,
    *,
    card: EncoderCard | None = None,
    kept: Path | None = None,
    tell: Tell | None = None,
) -> Evaluation:
    """Measures an encoder by its features.

    Parameters
    ----------
    train, test : Features
        Of the images that probes learn from, and of those that they are tested on.
    request : Request
    card : EncoderCard, optional
        Of the encoder; the decomposition then says if it was pretrained on other images.
    kept : Path, optional
        Folder where each measured probe is kept and found again.
    tell : callable, optional
        Told in a few words what is measured next.

    Raises
    ------
    DataError
        If the features cannot be used together or are not finite, or a class has too few images for a setting that was
        asked for.
    QueryError
        If there is no such setting, kind of probe or number of seeds.
    """
    say = tell or (lambda text: None)
    check_count(request.n_seeds, what="seeds")
    wanted = [label_setting(name) for name in request.settings or PUBLISHED_SETTINGS]
    if repeated := sorted({setting.name for setting in wanted if wanted.count(setting) > 1}):
        raise QueryError(f"The label setting {repeated[0]!r} is asked for twice; name each once.")
    check_pair(train, test)
    choice = _chosen(train, request)
    make = probe_maker(choice.errors, device=request.device, seed=request.seed)
    runs = None if kept is None else KeptRuns(kept, protocol=choice.errors.name)
    results, left_out = [], {}
    for setting in sorted(wanted, key=lambda setting: _n_labels(setting, train)):
        n_seeds = 1 if setting.is_full else request.n_seeds
        say(f"{setting.name}: {n_seeds} linear {'probe' if n_seeds == 1 else 'probes'}")
        try:
            found = measure_seeds(
                train, test, setting, probe=make, n_seeds=n_seeds, seed=request.seed,
                n_bootstrap=request.n_bootstrap, kept=runs,
            )  # fmt: skip
        except DataError as error:
            if request.settings is not None:
                raise
            left_out[setting.name] = str(error)
            continue
        results.append(found)
    neighbours = None
    by_neighbours = neighbours_protocol()
    voting = None if kept is None else KeptRuns(kept, protocol=by_neighbours.name)
    if request.neighbours:
        say("nearest neighbours")
        neighbours = measure_seeds(
            train, test, label_setting("full"), n_seeds=1, seed=request.seed, n_bootstrap=request.n_bootstrap,
            probe=probe_maker(by_neighbours, device=request.device, seed=request.seed), kept=voting,
        )  # fmt: skip
    risk = None
    if request.decompose:
        risk = _decomposed(train, test, request, choice, card=card, kept=runs, tell=say)
    return Evaluation(
        train=train, test=test, protocols=choice, settings=tuple(results), left_out=left_out, neighbours=neighbours,
        neighbours_protocol=by_neighbours, risk=risk, seed=request.seed,
        copies=copies_of(train.contents, train.y, test.contents, test.y),
        problems=tuple(problem for some in (runs, voting) if some is not None for problem in some.problems),
    )  # fmt: skip


def decomposed(
    train: Features,
    test: Features,
    request: Request,
    *,
    card: EncoderCard | None = None,
    kept: Path | None = None,
    tell: Tell | None = None,
) -> RiskReport:
    """The decomposition alone; parameters and errors are those of :func:`evaluate`."""
    check_pair(train, test)
    choice = _chosen(train, request)
    runs = None if kept is None else KeptRuns(kept, protocol=choice.errors.name)
    return _decomposed(train, test, request, choice, card=card, kept=runs, tell=tell or (lambda text: None))


def _decomposed(
    train: Features,
    test: Features,
    request: Request,
    choice: Choice,
    *,
    card: EncoderCard | None,
    kept: KeptRuns | None,
    tell: Tell,
) -> RiskReport:
    return decompose(
        train, test, probe=probe_maker(choice.errors, device=request.device, seed=request.seed),
        supervised=request.supervised, n_subsets=request.n_subsets, seed=request.seed, order=request.order,
        n_bootstrap=request.n_bootstrap, n_refits=request.n_refits, card=card, kept=kept,
        progress=lambda name: tell(f"risk decomposition: {name}"),
    )  # fmt: skip


def _chosen(train: Features, request: Request) -> Choice:
    return linear_protocols(
        request.probe, n_train=len(train.y), dim=train.dim, n_classes=len(train.classes) or int(train.y.max()) + 1,
        device=request.device, changed=request.changed, parts={"n_subsets": request.n_subsets, "order": request.order},
    )  # fmt: skip


def _n_labels(setting: LabelSetting, train: Features) -> float:
    if setting.n_per_class is not None:
        return float(setting.n_per_class * max(len(train.classes), 1))
    return len(train.y) * (100 if setting.percent is None else setting.percent) / 100
