"""A model of the error of any encoder on any data set with any number of labels, from all that was measured.

Log odds of an error, beyond the share of wrong labels where that is known, are ::

    difficulty of the task + scale * (ability + effects of images, labels and protocol) + effect of who measured + noise

A task is a data set with a protocol and a number of labels; its difficulty is free. Ability is that of a linear probe
with all labels of ImageNet-1K: a sum of normal effects of what encoders have in common
(:mod:`zoo.analysis.covariates`). Every protocol on a data set has a scale of its own, so that one number is translated
into another by a straight line; linear probes share theirs, and on ImageNet-1K it is 1. Lines of other protocols on
ImageNet-1K are those of encoders that have both numbers (:func:`lines`); a protocol without such encoders is not used
there. Zero-shot numbers of ImageNet-1K have no effects of labels, and what texts, neighbours or attention change by
themselves (effects of the protocol) says nothing of the encoder.

The effects are crossed, so the model is one Gaussian (:class:`Model`): standard deviations of effects, noises and
scales are estimated by maximum marginal likelihood with weak priors, everything else by conditioning.
``docs/decisions/0018-expected-errors.md`` says what is estimated and what is assumed.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize
from scipy.stats import theilslopes

from zoo.analysis.covariates import ALL_LABELS, SLOPES, TRAITS, WRONG_LABELS, find_covariates
from zoo.analysis.covariates import compute_label_place as label_place
from zoo.cards.gated_access import get_image_domains
from zoo.cards.schema import EncoderCard
from zoo.files import get_content_folder
from zoo.results.derived import summaries
from zoo.results.evidence import Dataset, list_datasets
from zoo.results.reported import reported_numbers
from zoo.results.reported_values import TOP_1, ReportedNumber
from zoo.results.values import IMAGENET, SETTINGS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

MEASURED, LINEAR, FEW_SHOT, ZERO_SHOT = "measured", "linear", "few-shot", "zero-shot"
WEAK_ZERO_SHOT = "weak zero-shot"
"""Protocols of the model, with "k-NN", "attentive" and "own head"; the first three are linear probes.

Zero-shot accuracies of texts learned from few pairs, up to 128 M, are another straight line than those of more.
"""

EFFECTS: tuple[tuple[str, str], ...] = (
    *((trait, "overall") for trait in ("weights", "encoder", "family", "data", "objective", "architecture", *SLOPES)),
    *((trait, "labels") for trait in ("weights", "family", "data", "objective", "size")),
    *((trait, "transfer") for trait in ("weights", "family", "data", "supervision", "size")),
    *((trait, "domain") for trait in ("data", "images", "supervision", "size")),
    *((trait, "dataset") for trait in ("family", "images", "supervision", "size", "date")),
    ("home", "home"),
    *((trait, "protocol") for trait in ("data", "objective", "size")),
    *((trait, "elsewhere") for trait in ("weights", "data", "objective")),
    ("origin", "origin"),
)
"""Effects, as trait and scope.

Of probes and all others: on everything, by labels, on all data sets but ImageNet's (transfer), by domain, by data set,
and of encoders for special images on theirs (home).
Of numbers of no linear probe: by protocol on ImageNet, and by protocol on all other data sets (elsewhere). At last
those of who measured, for a protocol on a data set.
"""
_ORIGIN = ("origin", "origin")
_HOME, _HOME_SD = ("home", "home"), 1.0  # log odds; wide, for pathology and satellite images alone tell it
_OF_NO_PROBE = ("protocol", "elsewhere", "origin")  # scopes

TASK_SD = 2.0
"""Log odds, of difficulties; wide."""
_PRIOR_SD, _PRIOR_WIDTH = 0.1, 1.0  # log odds, about which standard deviations are drawn; natural logarithm
_PROTOCOL_WIDTH = 0.3  # the same of effects of protocols, of which few encoders tell
_NOISE, _NOISE_WIDTH = 0.1, 0.5  # the same of noises
_SCALE_WIDTH = 0.4  # natural logarithm of a scale, about 1
_NEAR_0 = 0.002  # errors are kept so far from 0 and 1
_FEW_PAIRS = (  # beginnings of pretraining sets of up to 128 M pairs
    "CC-", "YFCC-15M", "CommonPool.S", "CommonPool.M", "DataComp-1B, subset of 14M", "DataComp-1B, subset of 1.4M",
)  # fmt: skip
_MANY_LABELS = 1_000  # a class, where an origin uses all and does not say how many
_PROBES, _WITHOUT_LABELS = (MEASURED, LINEAR, FEW_SHOT), (ZERO_SHOT, WEAK_ZERO_SHOT)
_OF_IMAGENET = (IMAGENET, "imagenet-v2", "imagenet-real")
_SLIDES = ("camelyon16", "panda")  # sets of slides, which an attention network reads
_SHIFTED = ("imagenet-a", "imagenet-o", "imagenet-r", "imagenet-sketch", "objectnet")  # robustness, of texts mostly
_UNLIKE_CARDS = "turhancan97/VisBench"  # patch means of encoders that pool by attention, which its tables do not say
_AGAIN = ("so2sat", "forestnet", "imagenette")  # nearly the same images as those with m-; ten easy classes of ImageNet


@dataclass(frozen=True, slots=True)
class Observation:
    """One known error."""

    encoder: str  # id of a card
    dataset: str
    protocol: str
    labels: float  # of :func:`label_place`; 0 where there are none
    error: float  # share, above 0 and below 1
    origin: str = ""  # who measured: "here", or the source
    px: float = 0.0  # binary logarithm of the side of the images over that of the card

    @property
    def task(self) -> tuple[str, str, float]:
        """What has a difficulty of its own."""
        return self.dataset, self.protocol, round(self.labels, 2)

    @property
    def scaled_by(self) -> tuple[str, str]:
        """What has a scale of its own: linear probes share that of their data set."""
        return self.dataset, LINEAR if self.protocol in _PROBES else self.protocol

    @property
    def noise(self) -> str:
        """Whose noise it has: that of its protocol, on ImageNet or elsewhere."""
        return self.protocol if self.dataset in _OF_IMAGENET else f"{self.protocol}, elsewhere"


ANCHOR = (IMAGENET, LINEAR)
"""What has a scale of 1, so that ability is that of a linear probe on ImageNet-1K."""


def log_odds(share: float, dataset: str = "") -> float:
    """Natural log odds of an error beyond the wrong labels of a data set; a share that is kept 0.002 from 0 and 1."""
    floor = WRONG_LABELS.get(dataset, 0.0)
    share = min(max((share - floor) / (1 - floor), _NEAR_0), 1 - _NEAR_0)
    return math.log(share / (1 - share))


# --- what is known ---------------------------------------------------------------------------------------------------


def observations(cards: Mapping[str, EncoderCard]) -> list[Observation]:
    """Every known error of trained encoders: measured here on ImageNet-1K, by others, and reported; no doubtful ones.

    Each origin counts once for a task; of zero-shot numbers, which differ in prompts alone, only the first does.
    """
    found: dict[tuple[object, ...], Observation] = {}
    trained = {name for name, card in cards.items() if not card.is_untrained}
    for name, summary in summaries(exclude_wrong=True).items():
        for setting in SETTINGS if name in trained else ():
            error = summary.errors.get(setting.name, 0.0)
            if error > 0:
                one = Observation(name, IMAGENET, MEASURED, label_place(setting.n_labels / 1_000), error / 100, "here")
                found[name, one.task] = one
    known = list_datasets()
    names = {one.title.casefold(): one for one in known.values()} | {one.id: one for one in known.values()}
    for number in sorted(reported_numbers(), key=_comes_later):
        dataset = names.get(_CALLED.get(number.dataset, number.dataset).casefold())
        if number.encoder in trained and dataset is not None and not number.doubt:
            reported = _of_number(number, dataset, cards[number.encoder])
            if reported is not None:
                once = "" if reported.protocol in _WITHOUT_LABELS else reported.origin
                found.setdefault((reported.encoder, reported.task, once, reported.px), reported)
    scales = lines(found.values())
    return [one for one in found.values() if one.dataset != IMAGENET or one.scaled_by in scales]


_FEWEST_PAIRS = 6


def lines(known: Iterable[Observation]) -> dict[tuple[str, str], float]:
    """Scales of the protocols on ImageNet-1K, by data set and protocol: 1 over the slope of the line to linear probes.

    The line goes through the log odds of encoders that have both numbers with all labels; its slope is the median of
    those of all pairs (Theil and Sen), which the few that one of the two protocols suits badly do not move.
    """
    linear: dict[str, float] = {}
    others: dict[tuple[str, str], list[Observation]] = {}
    for one in known:
        if one.dataset == IMAGENET and one.labels == 0:
            if one.scaled_by != ANCHOR:
                others.setdefault(one.scaled_by, []).append(one)
            elif one.protocol == MEASURED or one.encoder not in linear:
                linear[one.encoder] = log_odds(one.error, IMAGENET)
    found = {ANCHOR: 1.0}
    for line, several in others.items():
        both = [(linear[one.encoder], log_odds(one.error, IMAGENET)) for one in several if one.encoder in linear]
        if len(both) >= _FEWEST_PAIRS:
            y, x = zip(*both, strict=True)
            found[line] = 1 / float(theilslopes(y, x)[0])
    return found


_CALLED = {"PCam 10 shots": "patch-camelyon"}
"""The only few-shot numbers of encoders of pathology; ten labels per class are taken for sixteen."""


def _comes_later(number: ReportedNumber) -> bool:
    return number.source == "LAION-AI/CLIP_benchmark" or "bandspec_zscore" in number.setting


_KINDS = {
    "reported-linear": LINEAR, "reported-knn": "k-NN", "reported-attentive": "attentive",
    "reported-few-shot": FEW_SHOT, "reported-zero-shot": ZERO_SHOT, "reported-own-head": "own head",
}  # fmt: skip
_METRICS = (TOP_1, "mean_class_recall", "balanced_accuracy", "mean_average_precision")
_PROJECTED = "projected"  # features after a linear map into the space of texts, which a linear probe sees through


def _of_number(number: ReportedNumber, dataset: Dataset, card: EncoderCard) -> Observation | None:
    """What a reported number says; None of what is no error of classes, or of other features on ImageNet."""
    if number.dataset in _CALLED:
        return Observation(number.encoder, dataset.id, FEW_SHOT, label_place(16), 1 - number.value, number.source)
    kind = None if number.source == _UNLIKE_CARDS else _KINDS.get(number.protocol)
    if kind == ZERO_SHOT and dataset.id == IMAGENET and str(card.pretraining.dataset).startswith(_FEW_PAIRS):
        kind = WEAK_ZERO_SHOT
    is_share = number.metric in _METRICS or (dataset.id == "voc-2007-multilabel" and kind == FEW_SHOT)
    if kind is None or not is_share:
        return None
    if kind == ZERO_SHOT and dataset.id in _OF_IMAGENET[1:]:  # the same texts, on nearly the same images
        return None
    if dataset.id.startswith(_SLIDES) or dataset.id.endswith("-val") or dataset.id in (*_AGAIN, *_SHIFTED):
        return None
    if number.split not in ("", "val", "train -> val") and kind != FEW_SHOT:
        return None
    is_other = bool(number.features) and _PROJECTED not in number.features and kind in (LINEAR, "k-NN")
    if is_other and (dataset.id in _OF_IMAGENET or card.representation.layer == "attnpool"):  # another encoder
        return None
    is_projected = _PROJECTED in number.features and dataset.id in _OF_IMAGENET
    share = number.value if number.unit == "fraction" else number.value / 100
    labels: float = _MANY_LABELS
    if kind == FEW_SHOT:
        labels = int(shots[1]) if (shots := _SHOTS.search(number.split)) else 16
    elif dataset.id in _OF_IMAGENET:
        labels = ALL_LABELS
    elif kind in _WITHOUT_LABELS:
        labels = 16
    elif number.setting.endswith("training images"):
        labels = int(number.setting.split(", ")[-1].split()[0]) / (dataset.n_classes or 10)
    side = number.resolution
    px = math.log2(int(side) / card.preprocess.crop_px) if side.isdigit() else 0.0
    origin = f"{number.source}, {_PROJECTED}" if is_projected and kind not in _WITHOUT_LABELS else number.source
    return Observation(number.encoder, dataset.id, kind, label_place(labels), 1 - share, origin, px)


_SHOTS = re.compile(r"(\d+)-shot")


@dataclass(frozen=True, slots=True)
class _Design:
    """Traits and tasks of rows as arrays."""

    of: dict[str, NDArray[np.float64]]  # traits; groups as whole numbers
    dataset: NDArray[np.int64]
    domain: NDArray[np.int64]
    labels: Floats
    transfers: NDArray[np.bool_]  # not on ImageNet
    protocol: NDArray[np.int64]  # on ImageNet; -1 of linear probes
    elsewhere: NDArray[np.int64]  # the same on other data sets

    def covariance(self, effect: tuple[str, str], other: _Design) -> Floats:
        """Of one effect with a standard deviation of 1, (rows, rows of the other)."""
        trait, scope = effect
        a, b = self.of[trait], other.of[trait]
        found = np.outer(a, b) if trait in (*SLOPES, "home") else (a[:, None] == b[None]).astype(float)
        match scope:
            case "domain":
                found *= self.domain[:, None] == other.domain[None]
            case "dataset":
                found *= self.dataset[:, None] == other.dataset[None]
            case "labels":
                found *= np.outer(self.labels, other.labels)
            case "transfer":
                found *= np.outer(self.transfers, other.transfers)
            case "protocol":
                found *= (self.protocol[:, None] == other.protocol[None]) & (self.protocol >= 0)[:, None]
            case "elsewhere":
                found *= (self.elsewhere[:, None] == other.elsewhere[None]) & (self.elsewhere >= 0)[:, None]
        return found


@dataclass(frozen=True, slots=True)
class Target:
    """What is to be expected: an encoder on a data set, on any of a domain, or overall (both "").

    Where it has a protocol, the difficulty of that task is expected with it, not what the encoder adds alone.
    """

    encoder: str
    dataset: str = ""
    domain: str = ""
    labels: float = 0.0  # of :func:`label_place`
    protocol: str = ""

    @property
    def task(self) -> tuple[str, str, float]:
        """As that of an observation."""
        return self.dataset, self.protocol, round(self.labels, 2)


@dataclass(frozen=True, slots=True)
class Effects:
    """The estimated sizes: standard deviations in log odds, and scales of data sets by protocols."""

    sd: dict[tuple[str, str], float]  # by effect
    noise: dict[str, float]  # by protocol
    scale: dict[tuple[str, str], float]  # by data set and protocol: how far encoders differ there; 1 unless given

    def scales_of(self, known: Sequence[Observation]) -> Floats:
        """Of observations, (observations,)."""
        return np.array([self.scale.get(one.scaled_by, 1.0) for one in known])


class Model:
    """The model of some observations, with what all cards have in common."""

    def __init__(
        self, cards: Mapping[str, EncoderCard], known: Sequence[Observation], effects: Effects | None = None
    ) -> None:
        self.cards, self.known = cards, list(known)
        self.effects = effects or Effects({}, {}, {})
        self._traits = {name: find_covariates(card) for name, card in cards.items()}
        self._codes: dict[str, dict[object, int]] = {}

    def _code(self, kind: str, value: object) -> int:
        """A whole number for a value; -1 for "", which is none."""
        codes = self._codes.setdefault(kind, {})
        return -1 if value == "" else codes.setdefault(value, len(codes))

    def design(self, known: Sequence[Observation | Target]) -> _Design:
        """Of observations, or of what is to be expected of a linear probe."""
        domains = {name: one.domain for name, one in list_datasets().items()}
        traits = [self._traits[one.encoder] for one in known]
        of = {
            name: np.array(
                [one[name] if name in SLOPES else self._code(name, one[name]) for one in traits], dtype=np.float64
            )
            for name in ("encoder", *TRAITS)
        }
        seen = [one if isinstance(one, Observation) else None for one in known]
        special = [get_image_domains(self.cards[one.encoder]) for one in known]
        kinds_of = [one.domain if isinstance(one, Target) else domains[one.dataset] for one in known]
        of["home"] = np.array([float(kind in own) for kind, own in zip(kinds_of, special, strict=True)])
        of["px"] += [one.px if one else 0.0 for one in seen]
        origins = [(one.dataset, one.protocol, one.origin) if one else "" for one in seen]
        of["origin"] = np.array([self._code("origin", one) for one in origins], dtype=np.float64)
        kinds = ["" if one is None or one.protocol in _PROBES else one.protocol for one in seen]
        protocols = np.array([self._code("protocol", one) for one in kinds])
        transfers = np.array([one.dataset not in _OF_IMAGENET for one in known])
        return _Design(
            of,
            np.array([self._code("dataset", one.dataset) for one in known]),
            np.array([self._code("domain", one) for one in kinds_of]),
            np.array([one.labels for one in known]),
            transfers,
            np.where(transfers, -1, protocols),
            np.where(transfers, protocols, -1),
        )

    def fit(
        self,
        *,
        n_steps: int = 60,
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        """Estimates the effects by maximum marginal likelihood; minutes and gigabytes for thousands of rows.

        Scales of protocols on ImageNet-1K are those of :func:`lines`.
        """
        fixed = lines(self.known)
        design, y = self.design(self.known), np.array([log_odds(one.error, one.dataset) for one in self.known])
        protocols = sorted({one.noise for one in self.known})
        place = np.array([protocols.index(one.noise) for one in self.known])
        parts = []
        for trait, scope in EFFECTS:
            covariance = design.covariance((trait, scope), design)
            is_binary = trait not in SLOPES and scope != "labels"
            parts.append(covariance.astype(np.uint8 if is_binary else np.float32))
        is_scaled = [effect != _ORIGIN for effect in EFFECTS]
        tasks = TASK_SD**2 * _same([one.task for one in self.known])
        scaled_by = sorted({one.scaled_by for one in self.known})
        of_scale = np.array([scaled_by.index(one.scaled_by) for one in self.known])
        n, p, q = len(EFFECTS), len(protocols), len(scaled_by)
        centre = np.concatenate([np.full(n, 2 * math.log(_PRIOR_SD)), np.full(p, 2 * math.log(_NOISE)), np.zeros(q)])
        centre[EFFECTS.index(_HOME)] = 2 * math.log(_HOME_SD)
        widths = [_PROTOCOL_WIDTH if scope in _OF_NO_PROBE else _PRIOR_WIDTH for _, scope in EFFECTS]
        width = np.concatenate([2 * np.array(widths), np.full(p, 2 * _NOISE_WIDTH), np.full(q, _SCALE_WIDTH)])

        def loss(x: Floats) -> tuple[float, Floats]:
            variance, noise, scale = np.exp(x[:n]), np.exp(x[n : n + p])[place], np.exp(x[n + p :])[of_scale]
            latent, others = np.zeros_like(tasks), tasks.copy()
            for one, v, covariance in zip(is_scaled, variance, parts, strict=True):
                into = latent if one else others
                into += v * covariance
            others += latent * np.outer(scale, scale)
            others[np.diag_indices(len(y))] += noise
            factor = cho_factor(others, lower=True, overwrite_a=True)
            weights, inverse = cho_solve(factor, y), cho_solve(factor, np.eye(len(y)))
            value = 0.5 * y @ weights + np.log(np.diag(factor[0])).sum()
            slope = 0.5 * (inverse - np.outer(weights, weights))
            scaled = slope * np.outer(scale, scale)
            gradient = np.zeros_like(x)
            for i, (one, covariance) in enumerate(zip(is_scaled, parts, strict=True)):
                gradient[i] = variance[i] * np.vdot(scaled if one else slope, covariance)
            by_row, by_scale = np.diag(slope) * noise, 2 * (scaled * latent).sum(axis=1)
            gradient[n : n + p] = np.bincount(place, by_row, p)
            gradient[n + p :] = np.bincount(of_scale, by_scale, q)
            away = (x - centre) / width
            gradient += away / width
            say(f"{value + 0.5 * away @ away:.1f}")
            return float(value + 0.5 * away @ away), gradient

        start = centre.copy()
        if self.effects.sd:  # from where an earlier fit stopped
            start[:n] = [2 * math.log(max(self.effects.sd.get(effect, _PRIOR_SD), 1e-3)) for effect in EFFECTS]
            start[n : n + p] = [2 * math.log(self.effects.noise.get(name, _NOISE)) for name in protocols]
            start[n + p :] = [math.log(self.effects.scale.get(name, 1.0)) for name in scaled_by]
        start[n + p :] = [
            math.log(fixed[one]) if one in fixed else at for one, at in zip(scaled_by, start[n + p :], strict=True)
        ]
        bounds = [(-14, 1)] * n + [(-7, 1)] * p + [(-1.5, 1.5)] * q
        for at, one in enumerate(scaled_by, n + p):
            if one in fixed:
                bounds[at] = start[at], start[at]
        x = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": n_steps}).x
        sds, noises = np.exp(x[: n + p] / 2)[:n], np.exp(x[: n + p] / 2)[n:]
        self.effects = Effects(
            dict(zip(EFFECTS, map(float, sds), strict=True)),
            dict(zip(protocols, map(float, noises), strict=True)),
            dict(zip(scaled_by, map(float, np.exp(x[n + p :])), strict=True)),
        )

    def covariance(self, known: Sequence[Observation]) -> Floats:
        """Of observations: effects, difficulties and noise, (observations, observations)."""
        design = self.design(known)
        latent = self._latent(design, design)
        scale = self.effects.scales_of(known)
        latent *= np.outer(scale, scale)
        latent += self.effects.sd.get(_ORIGIN, 0.0) ** 2 * design.covariance(_ORIGIN, design)
        latent += TASK_SD**2 * _same([one.task for one in known])
        latent[np.diag_indices(len(known))] += [self.effects.noise[one.noise] ** 2 for one in known]
        return latent

    def _latent(self, one: _Design, other: _Design) -> Floats:
        """Covariance of what encoders add."""
        found = np.zeros((len(one.labels), len(other.labels)))
        for effect, sd in self.effects.sd.items():
            if effect != _ORIGIN and sd > 1e-3:
                found += sd**2 * one.covariance(effect, other)
        return found

    def expect(self, targets: Sequence[Target]) -> tuple[Floats, Floats]:
        """What encoders add to the log odds of a probe's error, and its standard deviation, (targets,) each.

        Both are in units of the scale; of targets with a protocol the standard deviation has that of the difficulty.
        """
        mean, sd = np.empty(len(targets)), np.empty(len(targets))
        for start in range(0, len(targets), 4_000):
            some = slice(start, start + 4_000)
            added, cross, design = self._cross(targets[some])
            mean[some] = added @ self.solved.weights
            explained = (cho_solve(self.solved.factor, cross.T) * cross.T).sum(axis=0)
            sd[some] = np.sqrt(np.maximum(self._prior(design) + self._own(targets[some]) - explained, 0))
        return mean, sd

    def expect_together(self, targets: Sequence[Target]) -> Floats:
        """The covariance of what is expected of targets that have a data set, (targets, targets)."""
        _, cross, design = self._cross(targets)
        own = np.sqrt(self._own(targets))
        prior = self._latent(design, design) + np.outer(own, own) * _same([one.task for one in targets])
        together: Floats = prior - cross @ cho_solve(self.solved.factor, cross.T)
        return together

    def _cross(self, targets: Sequence[Target]) -> tuple[Floats, Floats, _Design]:
        """Covariance with observations, of what encoders add and with difficulties, (targets, observations) each."""
        design = self.design(targets)
        added = self._latent(design, self.solved.design) * self.solved.scale
        codes = {one.task: place for place, one in enumerate(self.known)}
        tasks = np.array([codes[one.task] for one in self.known])
        own = np.array([codes.get(one.task, -1) for one in targets])
        scale = np.array([self.effects.scale.get((one.dataset, LINEAR), 1.0) for one in targets])
        return added, added + TASK_SD**2 * (own[:, None] == tasks[None]) / scale[:, None], design

    def _own(self, targets: Sequence[Target]) -> Floats:
        """Variance of the difficulty of targets with a protocol, before anything is known, (targets,)."""
        scale = np.array([self.effects.scale.get((one.dataset, LINEAR), 1.0) for one in targets])
        variance: Floats = np.array([TASK_SD**2 * bool(one.protocol) for one in targets]) / scale**2
        return variance

    def home(self) -> tuple[float, float]:
        """The effect of special images on encoders made for them, mean and standard deviation in log odds."""
        sd = self.effects.sd.get(_HOME, 0.0)
        cross = sd**2 * self.solved.design.of["home"] * self.solved.scale
        return float(cross @ self.solved.weights), math.sqrt(sd**2 - cross @ cho_solve(self.solved.factor, cross))

    def difficulties(self) -> dict[tuple[str, str, float], float]:
        """The difficulty of every task, in log odds: its residual mean, shrunk towards nothing."""
        added: dict[tuple[str, str, float], float] = {}
        for one, weight in zip(self.known, self.solved.weights, strict=True):
            added[one.task] = added.get(one.task, 0.0) + TASK_SD**2 * float(weight)
        return added

    def _prior(self, design: _Design) -> Floats:
        """Variances before anything is known, (rows,); a row without data set or domain shares none with itself."""
        found = np.zeros(len(design.labels))
        for (trait, scope), sd in self.effects.sd.items():
            if scope in _OF_NO_PROBE:
                continue
            own = np.full(len(found), sd**2)
            if trait in (*SLOPES, "home"):
                own *= design.of[trait] ** 2
            if scope == "labels":
                own *= design.labels**2
            elif scope == "transfer":
                own *= design.transfers
            elif scope not in ("overall", "home"):
                own *= (design.domain if scope == "domain" else design.dataset) >= 0
            found += own
        return found

    @cached_property
    def solved(self) -> _Solved:
        """All observations, conditioned on."""
        covariance = self.covariance(self.known)
        factor = cho_factor(covariance, lower=True, overwrite_a=True)
        y = np.array([log_odds(one.error, one.dataset) for one in self.known])
        scale = self.effects.scales_of(self.known)
        return _Solved(self.design(self.known), scale, factor, cho_solve(factor, y))

    def left_out(self) -> LeftOut:
        """For predictions of observations from all others."""
        inverse: Floats = np.linalg.inv(self.covariance(self.known)).astype(np.float64)
        return LeftOut(inverse, np.array([log_odds(one.error, one.dataset) for one in self.known]))


@dataclass(frozen=True, slots=True)
class _Solved:
    design: _Design
    scale: Floats
    factor: tuple[Floats, bool]
    weights: Floats


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Predicts any block of observations from all others, by the inverse of the covariance of all."""

    inverse: Floats
    y: Floats

    def predict(self, block: Iterable[int]) -> tuple[Floats, Floats]:
        """Means and covariance of the log odds in a block of rows, noise and difficulty included."""
        rows = np.array(sorted(block))
        covariance = np.linalg.inv(self.inverse[np.ix_(rows, rows)])
        return self.y[rows] - covariance @ (self.inverse[rows] @ self.y), covariance


def shipped_effects() -> Effects:
    """Those of ``results/expected.toml``."""
    document = tomllib.loads((get_content_folder("results") / "expected.toml").read_text(encoding="utf-8"))
    sd = {(trait, scope): one for trait, scopes in document["sd"].items() for scope, one in scopes.items()}
    scale = {(dataset, protocol): one for protocol, some in document["scales"].items() for dataset, one in some.items()}
    return Effects(sd, document["noise"], scale)


def _same(values: Sequence[object]) -> Floats:
    codes: dict[object, int] = {}
    places = np.array([codes.setdefault(value, len(codes)) for value in values])
    same: Floats = (places[:, None] == places[None]).astype(np.float64)
    return same
