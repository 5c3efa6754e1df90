"""A model of the error of any encoder on any data set with any number of labels, from all that was measured.

Log odds of an error, beyond the share of wrong labels where that is known, are a difficulty of the task (data set,
protocol and labels) plus what the encoder adds, plus noise of the protocol. What it adds is a sum of normal effects: of
what encoders have in common (:mod:`zoo.analysis.traits`), each of them overall, by domain of the images, by data set,
and by the number of labels, all scaled by how far encoders differ on a data set. The effects are crossed, so the model
is fitted as one Gaussian: standard deviations of effects, noises of protocols and scales of data sets by maximum
marginal likelihood (empirical Bayes, with weak priors), everything else by conditioning. Effects with zero-shot numbers
alone are those of text towers, and say nothing of the encoder. ``docs/decisions/0018-expected-errors.md`` says what is
estimated and what is assumed.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from ..cards.schema import EncoderCard
from ..files import content_folder
from ..optional import requires_extra
from ..results.derived import summaries
from ..results.evidence import Dataset, datasets
from ..results.reported import reported_numbers
from ..results.reported_values import TOP_1, ReportedNumber
from ..results.values import IMAGENET, SETTINGS
from .traits import REFERENCE_LABELS, SLOPES, TRAITS, WRONG_LABELS, traits_of
from .traits import place_of_labels as label_place

with requires_extra("study", needed_for="A model of expected errors"):
    import numpy as np
    from scipy.linalg import cho_factor, cho_solve
    from scipy.optimize import minimize

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

MEASURED, FEW_SHOT, ZERO_SHOT = "measured", "few-shot", "zero-shot"
"""Protocols of the model; others are those of reported numbers, with the origin where it is no author's."""

EFFECTS: tuple[tuple[str, str], ...] = (
    *((trait, scope) for trait in TRAITS for scope in ("overall", "domain", "dataset")),
    ("encoder", "overall"),  # pooled otherwise from the same weights
    *((trait, "labels") for trait in ("weights", "family", "data", "objective", "supervision", "size")),
    ("weights", "texts"),
    ("data", "texts"),
)
"""Effects, as trait and scope; "texts" are those of zero-shot numbers on a data set."""

TASK_SD = 2.0
"""Log odds, of difficulties; wide."""
_PRIOR_SD = 0.1  # log odds, about which standard deviations of effects are drawn
_PRIOR_WIDTH = 1.5  # natural logarithm of a standard deviation
_NOISE, _NOISE_WIDTH = 0.17, 0.4  # the same of noises
_SCALE_WIDTH = 0.3  # natural logarithm of a scale, about 1
_NEAR_0 = 0.002  # errors are kept so far from 0 and 1
_MANY_LABELS = 1_000  # a class, where an origin uses all and does not say how many
_SLIDES = ("camelyon16", "panda")  # sets of slides, which an attention network reads
_SHIFTED = ("imagenet-a", "imagenet-o", "imagenet-r", "imagenet-sketch", "objectnet")  # robustness, of texts mostly
_AGAIN = ("so2sat", "forestnet")  # nearly the same images and numbers as those of the same name with m-


@dataclass(frozen=True, slots=True)
class Observation:
    """One known error."""

    encoder: str  # id of a card
    dataset: str
    protocol: str
    labels: float  # of :func:`label_place`
    error: float  # share, above 0 and below 1
    origin: str = ""  # who measured: "here", or the source

    @property
    def task(self) -> tuple[str, str, float]:
        """What has a difficulty of its own."""
        return self.dataset, self.protocol, round(self.labels, 2)


def log_odds(share: float, dataset: str = "") -> float:
    """Natural log odds of an error beyond the wrong labels of a data set; a share that is kept 0.002 from 0 and 1."""
    floor = WRONG_LABELS.get(dataset, 0.0)
    share = min(max((share - floor) / (1 - floor), _NEAR_0), 1 - _NEAR_0)
    return math.log(share / (1 - share))


# --- what is known ---------------------------------------------------------------------------------------------------


def observations(cards: Mapping[str, EncoderCard]) -> list[Observation]:
    """Every known error of trained encoders: measured here on ImageNet-1K, by others, and reported; no doubtful ones.

    Of several numbers of an encoder for one task the first counts: of the authors, then of the origins in their order.
    """
    found: dict[tuple[str, tuple[str, str, float]], Observation] = {}
    trained = {name for name, card in cards.items() if not card.is_untrained}
    for name, summary in summaries(exclude_wrong=True).items():
        for setting in SETTINGS if name in trained else ():
            error = summary.errors.get(setting.name, 0.0)
            if error > 0:
                place = label_place(setting.n_labels / 1_000)
                one = Observation(name, IMAGENET, MEASURED, place, error / 100, "here")
                found[name, one.task] = one
    known = datasets()
    names = {one.title.casefold(): one for one in known.values()} | {one.id: one for one in known.values()}
    for number in sorted(reported_numbers(), key=_comes_later):
        dataset = names.get(_CALLED.get(number.dataset, number.dataset).casefold())
        if number.encoder in trained and dataset is not None and not number.doubt:
            reported = _of_number(number, dataset)
            if reported is not None:
                found.setdefault((reported.encoder, reported.task), reported)
    return list(found.values())


_CALLED = {"PCam 10 shots": "patch-camelyon"}
"""The only few-shot numbers of encoders of pathology; ten labels a class are taken for sixteen."""


def _comes_later(number: ReportedNumber) -> bool:
    return number.source == "LAION-AI/CLIP_benchmark" or "bandspec_zscore" in number.setting


_KINDS = {
    "reported-linear": "linear", "reported-knn": "k-NN", "reported-attentive": "attentive",
    "reported-few-shot": FEW_SHOT, "reported-zero-shot": ZERO_SHOT, "reported-own-head": "own head",
    "reported-finetune": "fine-tuned",
}  # fmt: skip
_METRICS = (TOP_1, "mean_class_recall", "balanced_accuracy", "mean_average_precision")


def _of_number(number: ReportedNumber, dataset: Dataset) -> Observation | None:
    """What a reported number says; None of what is no error of classes."""
    if number.dataset in _CALLED:
        return Observation(number.encoder, dataset.id, FEW_SHOT, label_place(16), 1 - number.value, number.source)
    kind = _KINDS.get(number.protocol)
    is_share = number.metric in _METRICS or (dataset.id == "voc-2007-multilabel" and kind == FEW_SHOT)
    if kind is None or not is_share:
        return None
    if dataset.id.startswith(_SLIDES) or dataset.id.endswith("-val") or dataset.id in (*_AGAIN, *_SHIFTED):
        return None
    if number.split not in ("", "val", "train -> val") and kind != FEW_SHOT:
        return None
    share = number.value if number.unit == "fraction" else number.value / 100
    labels: float = _MANY_LABELS
    if kind == FEW_SHOT:
        labels = 16
    elif kind == ZERO_SHOT:
        labels = REFERENCE_LABELS
    elif dataset.id == IMAGENET or dataset.id.startswith(("imagenet-", "objectnet")):
        labels = 1_281
    elif number.setting.endswith("training images"):
        labels = int(number.setting.split(", ")[-1].split()[0]) / (dataset.n_classes or 10)
    shared = number.measured_by == "authors" or dataset.id == IMAGENET or kind in (FEW_SHOT, ZERO_SHOT)
    protocol = kind if shared else f"{kind}, {number.source.rpartition('/')[2]}"
    return Observation(number.encoder, dataset.id, protocol, label_place(labels), 1 - share, number.source)


@dataclass(frozen=True, slots=True)
class _Design:
    """Traits and tasks of rows as arrays."""

    of: dict[str, NDArray[np.float64]]  # traits; groups as whole numbers
    dataset: NDArray[np.int64]
    domain: NDArray[np.int64]
    labels: Floats
    texts: Floats  # 1 for zero-shot numbers

    def covariance(self, effect: tuple[str, str], other: _Design) -> Floats:
        """Of one effect with a standard deviation of 1, (rows, rows of the other)."""
        trait, scope = effect
        a, b = self.of[trait], other.of[trait]
        found = np.outer(a, b) if trait in SLOPES else (a[:, None] == b[None]).astype(float)
        match scope:
            case "domain":
                found *= self.domain[:, None] == other.domain[None]
            case "dataset":
                found *= self.dataset[:, None] == other.dataset[None]
            case "labels":
                found *= np.outer(self.labels, other.labels)
            case "texts":
                found *= np.outer(self.texts, other.texts) * (self.dataset[:, None] == other.dataset[None])
        return found


@dataclass(frozen=True, slots=True)
class Target:
    """What is to be expected: an encoder on a data set, on any of a domain, or overall (both "")."""

    encoder: str
    dataset: str = ""
    domain: str = ""
    only_labels: bool = False  # what a hundredfold labels change, beside the difficulty


@dataclass(frozen=True, slots=True)
class Effects:
    """The estimated sizes: standard deviations in log odds, and scales of data sets by protocols."""

    sd: dict[tuple[str, str], float]  # by effect
    noise: dict[str, float]  # by protocol
    scale: dict[tuple[str, str], float]  # by data set and protocol: how far encoders differ there; 1 unless given

    def scales_of(self, known: Sequence[Observation]) -> Floats:
        """Of observations, (observations,)."""
        return np.array([self.scale.get((one.dataset, one.protocol), 1.0) for one in known])


class Model:
    """The model of some observations, with what all cards have in common."""

    def __init__(
        self, cards: Mapping[str, EncoderCard], known: Sequence[Observation], effects: Effects | None = None
    ) -> None:
        self.known = list(known)
        self.effects = effects or Effects({}, {}, {})
        self._traits = {name: traits_of(card) for name, card in cards.items()}
        self._codes: dict[str, dict[object, int]] = {}

    def _code(self, kind: str, value: object) -> int:
        """A whole number for a value; -1 for "", which is none."""
        codes = self._codes.setdefault(kind, {})
        return -1 if value == "" else codes.setdefault(value, len(codes))

    def _design(self, rows: Sequence[tuple[str, str, str, float, str]]) -> _Design:
        """Of encoders, data sets, domains, labels and protocols."""
        traits = [self._traits[encoder] for encoder, *_ in rows]
        of = {
            name: np.array(
                [one[name] if name in SLOPES else self._code(name, one[name]) for one in traits], dtype=np.float64
            )
            for name in ("encoder", *TRAITS)
        }
        return _Design(
            of,
            np.array([self._code("dataset", row[1]) for row in rows]),
            np.array([self._code("domain", row[2]) for row in rows]),
            np.array([row[3] for row in rows]),
            np.array([float(row[4] == ZERO_SHOT) for row in rows]),
        )

    def design(self, known: Sequence[Observation]) -> _Design:
        """Of observations."""
        domains = {name: one.domain for name, one in datasets().items()}
        return self._design(
            [(one.encoder, one.dataset, domains[one.dataset], one.labels, one.protocol) for one in known]
        )

    def fit(self, *, n_steps: int = 60, say: Callable[[str], None] = lambda text: None) -> None:
        """Estimates the effects by maximum marginal likelihood; minutes and gigabytes for thousands of rows."""
        design, y = self.design(self.known), np.array([log_odds(one.error, one.dataset) for one in self.known])
        protocols = sorted({one.protocol for one in self.known})
        place = np.array([protocols.index(one.protocol) for one in self.known])
        parts = [
            one if trait in SLOPES or scope == "labels" else one.astype(np.uint8)  # 0 and 1
            for trait, scope in EFFECTS
            for one in [design.covariance((trait, scope), design)]
        ]
        is_latent = [scope != "texts" for _, scope in EFFECTS]
        tasks = TASK_SD**2 * _same([one.task for one in self.known])
        scaled_by = sorted({(one.dataset, one.protocol) for one in self.known})
        of_scale = np.array([scaled_by.index((one.dataset, one.protocol)) for one in self.known])
        n, p, q = len(EFFECTS), len(protocols), len(scaled_by)
        centre = np.concatenate([np.full(n, 2 * math.log(_PRIOR_SD)), np.full(p, 2 * math.log(_NOISE)), np.zeros(q)])
        width = np.concatenate([np.full(n, 2 * _PRIOR_WIDTH), np.full(p, 2 * _NOISE_WIDTH), np.full(q, _SCALE_WIDTH)])

        def loss(x: Floats) -> tuple[float, Floats]:
            variance, noise, scale = np.exp(x[:n]), np.exp(x[n : n + p])[place], np.exp(x[n + p :])[of_scale]
            latent, others = np.zeros_like(tasks), tasks.copy()
            for one, v, covariance in zip(is_latent, variance, parts, strict=True):
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
            for i, (one, covariance) in enumerate(zip(is_latent, parts, strict=True)):
                gradient[i] = variance[i] * np.vdot(scaled if one else slope, covariance)
            by_row, by_scale = np.diag(slope) * noise, 2 * (scaled * latent).sum(axis=1)
            gradient[n : n + p] = np.bincount(place, by_row, p)
            gradient[n + p :] = np.bincount(of_scale, by_scale, q)
            away = (x - centre) / width
            gradient += away / width
            say(f"{value + 0.5 * away @ away:.1f}")
            return float(value + 0.5 * away @ away), gradient

        bounds = [(-14, 1)] * n + [(-7, 1)] * p + [(-1.5, 1.5)] * q
        start = centre.copy()
        if self.effects.sd:  # from where an earlier fit stopped
            start[:n] = [2 * math.log(max(self.effects.sd.get(effect, _PRIOR_SD), 1e-3)) for effect in EFFECTS]
            start[n : n + p] = [2 * math.log(self.effects.noise.get(name, _NOISE)) for name in protocols]
            start[n + p :] = [math.log(self.effects.scale.get(name, 1.0)) for name in scaled_by]
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
        for effect, sd in self.effects.sd.items():
            if effect[1] == "texts":
                latent += sd**2 * design.covariance(effect, design)
        latent += TASK_SD**2 * _same([one.task for one in known])
        latent[np.diag_indices(len(known))] += [self.effects.noise[one.protocol] ** 2 for one in known]
        return latent

    def _latent(self, one: _Design, other: _Design, *, only_labels: bool = False) -> Floats:
        """Covariance of what encoders add; where ``only_labels``, of what labels change."""
        found = np.zeros((len(one.labels), len(other.labels)))
        for effect, sd in self.effects.sd.items():
            if effect[1] != "texts" and sd > 1e-3 and not (only_labels and effect[1] != "labels"):
                found += sd**2 * one.covariance(effect, other)
        return found

    def expect(self, targets: Sequence[Target]) -> tuple[Floats, Floats]:
        """What encoders add to the log odds of a few-shot error, and its standard deviation, (targets,) each."""
        mean, sd = np.empty(len(targets)), np.empty(len(targets))
        for only_labels in (False, True):
            places = [i for i, one in enumerate(targets) if one.only_labels == only_labels]
            for start in range(0, len(places), 4_000):
                some = places[start : start + 4_000]
                rows = [(targets[i].encoder, targets[i].dataset, targets[i].domain) for i in some]
                design = self._design([(*row, float(only_labels), FEW_SHOT) for row in rows])
                cross = self._latent(design, self.solved.design, only_labels=only_labels) * self.solved.scale
                mean[some] = cross @ self.solved.weights
                explained = (cho_solve(self.solved.factor, cross.T) * cross.T).sum(axis=0)
                sd[some] = np.sqrt(np.maximum(self._prior(design, only_labels=only_labels) - explained, 0))
        return mean, sd

    def difficulties(self) -> dict[tuple[str, str, float], float]:
        """The difficulty of every task, in log odds: its residual mean, shrunk towards nothing."""
        added: dict[tuple[str, str, float], float] = {}
        for one, weight in zip(self.known, self.solved.weights, strict=True):
            added[one.task] = added.get(one.task, 0.0) + TASK_SD**2 * float(weight)
        return added

    def _prior(self, design: _Design, *, only_labels: bool) -> Floats:
        """Variances before anything is known, (rows,); a row without data set or domain shares none with itself."""
        found = np.zeros(len(design.labels))
        for (trait, scope), sd in self.effects.sd.items():
            if only_labels != (scope == "labels") or scope == "texts":
                continue
            own = np.full(len(found), sd**2)
            if trait in SLOPES:
                own *= design.of[trait] ** 2
            if scope == "labels":
                own *= design.labels**2
            elif scope != "overall":
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
    document = tomllib.loads((content_folder("results") / "expected.toml").read_text(encoding="utf-8"))
    sd = {(trait, scope): one for trait, scopes in document["sd"].items() for scope, one in scopes.items()}
    scale = {(dataset, protocol): one for protocol, some in document["scales"].items() for dataset, one in some.items()}
    return Effects(sd, document["noise"], scale)


def _same(values: Sequence[object]) -> Floats:
    codes: dict[object, int] = {}
    places = np.array([codes.setdefault(value, len(codes)) for value in values])
    same: Floats = (places[:, None] == places[None]).astype(np.float64)
    return same
