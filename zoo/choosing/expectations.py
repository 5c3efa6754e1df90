"""The error to expect of an encoder before it has seen the user's images, with its interval.

``results/expected.tsv`` has what each encoder adds to the log odds of an error, overall, by domain and by data set, as
``scripts/error_model.py`` estimates it from everything that was measured, by the study and others, or reported;
``results/expected.toml`` has the difficulties of data sets and the sizes of effects. ``scripts/expect_errors.py``
writes both. On ImageNet-1K an encoder that the study measured has its measured or interpolated error instead, and on
the user's own images what was measured there. An encoder of the user's that the table does not have is expected to be
like its family, or like all of its kind of objective, or is translated from its own error on ImageNet-1K.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from statistics import fmean, linear_regression, stdev
from typing import Any, Literal, TypeAlias

from ..analysis.covariates import (
    ALL_LABELS,
    SLOPES,
    WRONG_LABELS,
    compute_label_place,
    find_covariates,
    list_covariates,
)
from ..analysis.label_budget import FEWEST_LABELS, MOST_LABELS, estimate_held_out_error, estimate_noise, predict_error
from ..analysis.reported_agreement import estimate_protocol_spread
from ..cards.catalogue import load_catalogue
from ..cards.gated_access import get_image_domains
from ..cards.schema import EncoderCard, list_supervision
from ..errors import QueryError, UnknownName, format_count
from ..files import get_content_folder
from ..results.derived import select_main_protocol, summaries
from ..results.evidence import find_dataset, find_domain, list_datasets
from ..results.reported import select_preferred_accuracies
from ..results.values import IMAGENET, PUBLISHED_SOURCE, SETTINGS, Summary
from ..results.wording import label_basis

Basis: TypeAlias = Literal[
    "these images",
    "the study",
    "this project",
    "another protocol",
    "reported probe",
    "other numbers",
    "similar encoders",
]
MEASURED: tuple[Basis, ...] = ("these images", "the study", "this project")
"""What measurements by the protocol of most rest on."""
How: TypeAlias = Literal["measured", "interpolated", "extrapolated", "expected"]
HOWS: tuple[How, ...] = ("measured", "interpolated", "extrapolated", "expected")
"""With so many labels, between settings, beyond them, or by the model of errors."""

FLATTERED = 0.35
"""Log odds, assumed: the standard deviation that training with ImageNet's labels adds to what is expected elsewhere."""
LEVEL = 0.9
"""Of intervals."""
LEAST_APART = 0.02
"""Log odds, the least standard deviation of a difference; the table has hundredths."""

_IMAGENET_CLASSES = 1_000
_FLOOR = WRONG_LABELS[IMAGENET]
_ALL = SETTINGS[0]
_FEWEST_SETTINGS = 3
_FEWEST_KIN = 3
_LEAST_SPREAD = 0.3  # points; other draws of labels and other trainings of a probe move every number that far
_NEAR_0 = 1e-4  # errors are kept so far from 0 and 1, whose log odds are infinite
_Z = 1.6449  # standard normal deviate of 95 %
_FEWEST_LABELS = 1  # per class; more than ImageNet has count as as many
_FARTHEST = 0.65  # places of labels, twenty times fewer, to which errors of an objective are continued


@dataclass(frozen=True, slots=True)
class Images:
    """The images that errors are expected of: a data set, any data set of a domain, or any at all (both "")."""

    dataset: str = ""
    domain: str = ""

    @classmethod
    def named(cls, like: str | None = None, domain: str | None = None) -> Images:
        """Those that a user names; UnknownName or QueryError where nothing is known of such images."""
        if like is not None and domain is not None:
            raise QueryError(f"Got the data set {like!r} and the domain {domain!r}, expected one of the two.")
        if like is not None:
            found = find_dataset(like)
            if found.id not in read_difficulties():
                raise QueryError(
                    f"Nobody measured a probe on {found.title}, texts alone; take its domain: --domain {found.domain}."
                )
            return cls(found.id, found.domain)
        if domain is not None:
            return cls("", find_domain(domain, list_domains()))
        return cls()

    @property
    def column(self) -> str:
        """Its column of the table; of a kind of images on which no probe was measured that of any images."""
        return self.dataset or (self.domain in read_difficulties() and self.domain) or OVERALL

    @property
    def is_unmeasured(self) -> bool:
        """Whether they are of a kind on which no probe was measured."""
        return bool(self.domain) and self.column == OVERALL

    @property
    def words(self) -> str:
        """For the end of a sentence."""
        if self.dataset:
            return "ImageNet-1K" if self.dataset == IMAGENET else list_datasets()[self.dataset].title
        return f"{self.domain} images of mean difficulty" if self.domain else "a data set of mean difficulty"


OVERALL = "overall"


def list_domains() -> list[str]:
    """Kinds of images in which probes were measured, or for which there are encoders."""
    offered = (
        card
        for card in load_catalogue().values()
        if not card.is_untrained and not str(card.weights.url).startswith(("shipped:", "zoo:"))
    )
    special = {kind for card in offered for kind in get_image_domains(card)}
    of_sets = dict.fromkeys(one.domain for one in list_datasets().values())
    return [
        *(kind for kind in of_sets if kind in read_difficulties() or kind in special),
        *sorted(special - of_sets.keys()),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedError:
    """The error to expect of one encoder."""

    odds: float  # natural log odds of the error
    sd: float  # its standard deviation; the difficulty of the images, which all encoders share, is left out
    new_sd: float  # the same on one data set of such images, where the encoder has effects of the data set, too
    basis: Basis
    source: str  # where it comes from, for the end of a sentence
    floor: float = 0.0  # share of wrong labels, which are errors of all
    shared: tuple[float, ...] = ()  # parts of the standard deviation, which other encoders have in common with it
    family: str = ""
    family_sd: float = 0.0  # a further part, which its family has in common
    how: How = "expected"
    is_untold: bool = False  # with far fewer labels than any probe of its objective had: its number says nothing

    def sd_from(self, other: ExpectedError) -> float:
        """The standard deviation of the difference of two, natural log odds: what they share moves both."""
        shared = sum(a * b for a, b in zip(self.shared, other.shared, strict=False))
        if self.family == other.family:
            shared += self.family_sd * other.family_sd
        return math.sqrt(max(self.sd**2 + other.sd**2 - 2 * shared, LEAST_APART**2))

    @property
    def rests_on(self) -> str:
        """What it rests on, for a table."""
        return label_basis(self.basis, self.how)

    @property
    def error(self) -> float:
        """Percent; of a linear probe."""
        return _percent(self.odds, self.floor)

    @property
    def spread(self) -> float:
        """Standard deviation, percentage points."""
        share = _percent(self.odds) / 100
        return 100 * (1 - self.floor) * share * (1 - share) * self.sd

    @property
    def interval(self) -> tuple[float, float]:
        """Within which nine in ten errors on one data set of such images are, percent."""
        low, high = self.odds - _Z * self.new_sd, self.odds + _Z * self.new_sd
        return _percent(low, self.floor), _percent(high, self.floor)


@dataclass(frozen=True, slots=True)
class Difficulty:
    """The log odds of an error on some images, to which encoders add theirs."""

    odds: float  # with 16 labels per class
    sd: float  # of the data sets of a domain, or of a number that stands for another
    n: int  # data sets
    scale: float  # how far encoders differ there, compared with other images
    by_labels: tuple[tuple[float, float], ...] = ()  # of the place of labels and log odds, where several were measured


def compute_label_scale(labels_per_class: float) -> float:
    """Labels per class on the scale of the model: 0 at 1,281, 1 at 13; cut at 1 label and at 1,281."""
    return compute_label_place(min(max(labels_per_class, _FEWEST_LABELS), ALL_LABELS))


def find_farthest_place(card: EncoderCard) -> float:
    """The place of the fewest labels per class to which errors of encoders with this objective are continued."""
    return _continue_to(find_covariates(card))


def _continue_to(traits: Mapping[str, str | float]) -> float:
    return _FARTHEST + float(_document()["fewest_labels"].get(str(traits["objective"]), 0.0))


@cache
def _document() -> dict[str, Any]:
    return tomllib.loads((get_content_folder("results") / "expected.toml").read_text(encoding="utf-8"))


@cache
def read_difficulties() -> dict[str, Difficulty]:
    """By data set, domain and "overall"."""
    return {
        name: Difficulty(**{**one, "by_labels": tuple((a, b) for a, b in one.get("by_labels", ()))})
        for name, one in _document()["difficulty"].items()
    }


def read_effect_sizes() -> dict[tuple[str, str], float]:
    """Estimated standard deviations of effects in log odds, by trait and scope."""
    return {(trait, scope): sd for trait, scopes in _document()["sd"].items() for scope, sd in scopes.items()}


def interpolate_difficulty(images: Images, place: float) -> float:
    """Log odds of an error on these images with labels at a place of :func:`compute_label_scale`."""
    one = read_difficulties()[images.column]
    slope = float(_document()["labels_slope"])
    if not one.by_labels:
        return one.odds + slope * (place - compute_label_scale(16))
    known = sorted(one.by_labels)
    if place <= known[0][0] or place >= known[-1][0]:
        at, odds = known[0] if place <= known[0][0] else known[-1]
        return odds + slope * (place - at)
    (a, left), (b, right) = next(pair for pair in pairwise(known) if pair[0][0] <= place <= pair[1][0])
    return left + (right - left) * (place - a) / (b - a)


def translate_label_number(n_labels: int, n_classes: int) -> int:
    """The number of ImageNet labels with as many labels per class, within what can be said: 1,000 to 1,281,167.

    QueryError if there are fewer than two classes, or fewer labels than classes.

    >>> translate_label_number(5_000, 2), translate_label_number(120, 4), translate_label_number(12, 4)
    (1281167, 30000, 3000)
    """
    if n_classes < 2:
        raise QueryError(f"Got {n_classes} class{'' if n_classes == 1 else 'es'}, expected at least 2 to tell apart.")
    if n_labels < n_classes:
        raise QueryError(
            f"Got {n_labels:,} labels of {n_classes:,} classes, expected at least one label per class; add labels."
        )
    return min(max(round(_IMAGENET_CLASSES * n_labels / n_classes), FEWEST_LABELS), MOST_LABELS)


def estimate_errors(
    cards: Mapping[str, EncoderCard],
    n_labels: int,
    n_classes: int,
    *,
    images: Images | None = None,
    dataset: str | None = None,
) -> dict[str, ExpectedError]:
    """The error to expect of every trained encoder among ``cards``, by id, with so many labels of so many classes.

    ``images`` are any images unless given; ``dataset`` is the name under which measurements on the user's own images
    are recorded, if there are any.
    """
    images = images or Images()
    n = translate_label_number(n_labels, n_classes)
    place = compute_label_scale(n_labels / n_classes)
    trained = {name: card for name, card in cards.items() if not card.is_untrained}
    known = _modelled(trained, images, place)
    known |= _like_kin(trained, known, images, place)
    if images.dataset == IMAGENET:
        known |= _measured(trained, n)
    else:
        supervision = list_supervision([trained[name] for name in known])
        pairs = zip(known.items(), supervision, strict=True)
        known = {name: _doubted(one) if saw_labels else one for (name, one), (_, saw_labels) in pairs}
    own = _on_these_images(dataset, known)
    if own:  # which say how difficult these images are
        shift = fmean(one.odds - known[name].odds for name, one in own.items())
        known = {name: replace(one, odds=one.odds + shift) for name, one in known.items()}
    farthest = map(_continue_to, list_covariates([trained[name] for name in known]))
    return {
        name: replace(one, is_untold=one.basis not in MEASURED and place > most)
        for (name, one), most in zip(known.items(), farthest, strict=True)
    } | own


# --- the model -------------------------------------------------------------------------------------------------------

_BASES: dict[str, Basis] = {
    "h": "the study",
    "z": "this project",
    "p": "another protocol",
    "o": "reported probe",
    "r": "other numbers",
    "k": "similar encoders",
}
BASIS_CODES: dict[Basis, str] = {basis: code for code, basis in _BASES.items()}
_SOURCES: dict[Basis, str] = {
    "the study": "estimated from its measured errors on ImageNet-1K and from all others",
    "reported probe": "estimated from a reported linear probe on ImageNet-1K, and from all else that is known",
    "other numbers": "estimated from other numbers, such as zero-shot; no linear probe on ImageNet-1K is known",
    "similar encoders": "estimated from similar encoders; nothing was measured of it",
}


@cache
def _table() -> tuple[dict[str, int], dict[str, list[str]]]:
    """Columns by name, and the cells of each encoder."""
    lines = (get_content_folder("results") / "expected.tsv").read_text(encoding="utf-8").splitlines()
    heads = lines[0].split("\t")
    return {name: place for place, name in enumerate(heads)}, {
        line.partition("\t")[0]: line.split("\t") for line in lines[1:]
    }


def _added(name: str, column: str) -> tuple[float, ...]:
    """What an encoder adds to log odds, and its standard deviation; or what it shares with others."""
    columns, rows = _table()
    return tuple(int(one) / 100 for one in rows[name][columns[column]].split())


def _modelled(cards: Mapping[str, EncoderCard], images: Images, place: float) -> dict[str, ExpectedError]:
    columns, rows = _table()
    scale = read_difficulties()[images.column].scale
    level = interpolate_difficulty(images, place)
    found = {}
    told = {name: card for name, card in cards.items() if name in rows}
    for (name, card), traits in zip(told.items(), list_covariates(told.values()), strict=True):
        (mean, sd), (slope, slope_sd) = _added(name, images.column), _added(name, "labels")
        basis = _BASES[rows[name][columns["basis"]]]
        odds = level + scale * (mean + slope * place)
        spread = scale * math.hypot(sd, slope_sd * place)
        new = spread
        if not images.dataset:
            new = math.hypot(spread, scale * _of_new_images(traits, images), scale_sd() * (odds - level))
        *shared, of_family, of_its_labels = _added(name, "shared")
        if images.is_unmeasured and images.domain in get_image_domains(card):
            home, home_sd = _document()["home"]
            odds, spread = odds + scale * home, math.hypot(spread, scale * home_sd)
        parts = math.hypot(*(scale * one for one in shared))
        most = min(1.0, spread / parts) if parts else 0.0  # what is shared is no more than all
        rest = math.sqrt(max(spread**2 - (most * parts) ** 2, 0.0))
        family_sd = min(scale * math.hypot(of_family, of_its_labels * place), rest)
        source, floor = _SOURCES[basis], WRONG_LABELS.get(images.dataset, 0.0)
        found[name] = ExpectedError(
            odds=odds, sd=spread, new_sd=new, basis=basis, source=source, floor=floor,
            shared=tuple(most * scale * one for one in shared), family=card.family, family_sd=family_sd,
        )  # fmt: skip
    return found


def scale_sd() -> float:
    """By how much data sets differ in how far encoders differ: the standard deviation of a logarithm."""
    return float(_document()["scale_sd"])


def _of_new_images(traits: Mapping[str, str | float], images: Images) -> float:
    """The standard deviation of an encoder's effects of one data set, and of a domain without one, in log odds."""
    scopes = ("dataset", "domain") if images.is_unmeasured else ("dataset",)
    shared = [
        sd * (float(traits[trait]) if trait in SLOPES else 1.0)
        for (trait, scope), sd in read_effect_sizes().items()
        if scope in scopes
    ]
    return math.hypot(*shared)


def _doubted(one: ExpectedError) -> ExpectedError:
    source = f"{one.source}; it was trained with ImageNet's labels"
    return replace(one, sd=math.hypot(one.sd, FLATTERED), new_sd=math.hypot(one.new_sd, FLATTERED), source=source)


# --- what the table does not have ------------------------------------------------------------------------------------


def _like_kin(
    cards: Mapping[str, EncoderCard], known: Mapping[str, ExpectedError], images: Images, place: float
) -> dict[str, ExpectedError]:
    """Encoders of the user's: by their own error on ImageNet-1K, or by their family, kind of objective, or all."""
    missing = [name for name in cards if name not in known]
    if not missing:
        return {}
    everyone = load_catalogue()
    rows = _table()[1]
    shipped = {name: everyone[name] for name in rows if name in everyone}
    others = _modelled(shipped, images, place)
    there = _modelled(shipped, Images(IMAGENET, "natural"), 0.0)  # own errors are those with all labels
    line = _line((there[name].odds, others[name].odds) for name in others)
    floor = WRONG_LABELS.get(images.dataset, 0.0)
    found = {}
    for name in missing:
        card = cards[name]
        odds = _own_error(name)
        if odds is not None and line is not None:
            mean, sd = line(odds)
            source = "translated from its error on ImageNet-1K"
            found[name] = ExpectedError(odds=mean, sd=sd, new_sd=sd, basis="reported probe", source=source, floor=floor)
            continue
        for words, is_kin in (
            ("its family", lambda other, card=card: other.family == card.family),
            ("its kind of objective", lambda other, card=card: other.objective.mode == card.objective.mode),
            ("the zoo", lambda other: True),
        ):
            kin = [others[other] for other, of in shipped.items() if is_kin(of)]
            if len(kin) >= _FEWEST_KIN:
                mean, apart = fmean(one.odds for one in kin), stdev(one.odds for one in kin)
                spread = math.hypot(apart, fmean(one.sd for one in kin))
                source = f"nothing is known of it; the mean of {format_count(len(kin), 'encoder')} of {words}"
                found[name] = ExpectedError(
                    odds=mean, sd=spread, new_sd=spread, basis="similar encoders", source=source, floor=floor
                )
                break
    return found


def _own_error(name: str) -> float | None:
    """Log odds of an own encoder's error on ImageNet-1K with all labels, measured or reported, if known."""
    measured = summaries(exclude_wrong=True, encoders=[name]).get(name)
    if measured is not None and measured.errors.get(_ALL.name, 0.0) > 0:
        return _log_odds(measured.errors[_ALL.name], _FLOOR)
    linear = select_preferred_accuracies().get(name, {}).get("reported-linear")
    return None if linear is None or linear.is_doubtful else _log_odds(100 - linear.value, _FLOOR)


def _line(pairs: Iterable[tuple[float, float]]) -> Any:
    """The straight line between two log odds, with the standard deviation of a new point about it; None of too few."""
    both = list(pairs)
    if len(both) < 10:
        return None
    xs, ys = [x for x, _ in both], [y for _, y in both]
    slope, intercept = linear_regression(xs, ys)
    sd = math.sqrt(sum((y - intercept - slope * x) ** 2 for x, y in both) / (len(both) - 2))
    return lambda x: (intercept + slope * x, sd)


# --- what the study measured ------------------------------------------------------------------------------------------


def _measured(cards: Mapping[str, EncoderCard], n: int) -> dict[str, ExpectedError]:
    """Those with a linear probe on ImageNet: in this setting, or in a neighbouring one."""
    everyone = summaries(exclude_wrong=True)
    found = {name: one for name, one in everyone.items() if name in cards and _is_possible(one)}
    curves = {name: _curve(one) for name, one in found.items() if not cards[name].saw_labels}
    alike = select_main_protocol(everyone)
    apart = 0.0 if curves.keys() <= alike.keys() else estimate_protocol_spread()
    usable = [curve for name, curve in curves.items() if len(curve) >= _FEWEST_SETTINGS and name in alike]
    trial = estimate_held_out_error(usable, n) if usable else None
    known = {}
    for name, curve in curves.items():
        if len(curve) < _FEWEST_SETTINGS and n not in curve:
            continue
        predicted = predict_error(curve, n)
        if predicted is not None:
            noise = estimate_noise(curve, predicted, trial)
            spread = _LEAST_SPREAD if noise is None else max(noise.total, _LEAST_SPREAD)
            spread = spread if name in alike else math.hypot(spread, apart)
            odds = _log_odds(predicted.error, _FLOOR)
            share = _percent(odds) / 100
            sd = spread / 100 / ((1 - _FLOOR) * share * (1 - share))
            source = f"{predicted.kind} on ImageNet-1K with as many labels per class"
            is_published = found[name].campaign.source == PUBLISHED_SOURCE
            basis: Basis = "another protocol" if name not in alike else "the study" if is_published else "this project"
            if name not in alike:
                source += f", by {found[name].campaign.protocol}; the interval allows for the others' protocol"
            known[name] = ExpectedError(
                odds=odds, sd=sd, new_sd=sd, basis=basis, source=source, floor=_FLOOR, how=predicted.kind
            )
    return known


def find_best_measured(n_labels: int) -> tuple[float, int]:
    """The lowest error that the study measured with so many labels or the next more, percent, and how many."""
    setting = min((one for one in SETTINGS if one.n_labels >= n_labels), key=lambda one: one.n_labels, default=_ALL)
    alike = select_main_protocol(summaries(exclude_wrong=True))
    return min(one.errors.get(setting.name, 100.0) for one in alike.values()), setting.n_labels


def _curve(summary: Summary) -> dict[int, float]:
    return {setting.n_labels: summary.errors[setting.name] for setting in SETTINGS if setting.name in summary.errors}


def _is_possible(summary: Summary) -> bool:
    return bool(summary.errors) and all(error > 0 for error in summary.errors.values())


def _on_these_images(dataset: str | None, known: Mapping[str, ExpectedError]) -> dict[str, ExpectedError]:
    """Those that were measured on the user's images with all labels."""
    if dataset is None:
        return {}
    try:
        found = summaries(dataset=dataset, exclude_wrong=True, encoders=known)
    except UnknownName:  # nothing was measured there yet
        return {}
    errors = {name: one.errors[_ALL.name] for name, one in found.items() if name in known and _ALL.name in one.errors}
    if not errors:
        return {}
    own = {}
    for name, error in errors.items():
        share = min(max(error / 100, _NEAR_0), 1 - _NEAR_0)
        sd = _LEAST_SPREAD / 100 / (share * (1 - share))
        source = f"measured on {dataset} with all labels"
        own[name] = ExpectedError(
            odds=_log_odds(error), sd=sd, new_sd=sd, basis="these images", source=source, how="measured"
        )
    return own


def _log_odds(percent: float, floor: float = 0.0) -> float:
    share = min(max((percent / 100 - floor) / (1 - floor), _NEAR_0), 1 - _NEAR_0)
    return math.log(share / (1 - share))


def _percent(odds: float, floor: float = 0.0) -> float:
    return 100 * (floor + (1 - floor) / (1 + math.exp(-odds)))
