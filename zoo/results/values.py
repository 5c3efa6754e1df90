"""Rows as text, and values that are derived from them: settings, errata, risks, seed means."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter
from typing import NamedTuple

from ..cards.schema import Maybe

STUDY, PROJECT, OTHERS = "measured by the study", "measured by this project", "measured by others"
AUTHORS, EXPECTED = "reported by authors", "expected"
"""Kinds of numbers, as every page and command calls them; the study is that of Dubois et al. (2023)."""

PUBLISHED_SOURCE = "arXiv:2302.03068"
IMAGENET = "imagenet-1k"


PROBE, TWIN = "linear_probe_error", "supervised_twin_error"
RISKS = (PROBE, TWIN, "probe_generalization", "encoder_generalization")
"""Metrics that the risks of an encoder are derived from."""
Key = tuple[str, ...]


class Row(NamedTuple):
    """A line of a results file as text; :class:`zoo.results.rows.Measurement` is the same as values."""

    encoder: str
    metric: str
    dataset: str
    split: str
    n_train: str
    seed: str
    value: str
    unit: str
    ci_low: str
    ci_high: str
    protocol: str
    source: str
    date: str


COLUMNS = Row._fields


@lru_cache
def split_generation(protocol: str) -> tuple[str, int]:
    """What the generations of a protocol have in common, and the number of this one; 0 if it has none.

    >>> split_generation("zoo-logistic-3 (select=log_loss)"), split_generation("assumed zero")
    (('zoo-logistic (select=log_loss)', 3), ('assumed zero', 0))
    """
    name, bracket, options = protocol.partition(" (")
    stem, _, number = name.rpartition("-")
    return (stem + bracket + options, int(number)) if number.isdigit() else (protocol, 0)


def select_newest_protocols(protocols: Iterable[str]) -> set[str]:
    """Those of some protocols of which none of the others is a newer generation.

    >>> sorted(select_newest_protocols(["zoo-logistic-2", "zoo-logistic-3", "zoo-streamed-2"]))
    ['zoo-logistic-3', 'zoo-streamed-2']
    """
    names = set(protocols)
    newest: dict[str, int] = {}
    for stem, number in map(split_generation, names):
        newest[stem] = max(number, newest.get(stem, 0))
    return {name for name in names if split_generation(name)[1] == newest[split_generation(name)[0]]}


get_row_key: Callable[[Row], Key] = attrgetter(
    "encoder", "metric", "dataset", "split", "n_train", "seed", "protocol", "source"
)
"""What no two rows may have in common: everything but value, unit, interval and date."""


@dataclass(frozen=True, slots=True)
class Setting:
    """How many labels a probe had; the published table has one column for each setting."""

    name: str
    column: str  # in results_df
    n_labels: int
    split: str  # in the rows


SETTINGS = (
    Setting("100%", "train_test", 1_281_167, "train -> val"),
    Setting("30-shot", "train-nperclass-30_test", 30_000, "train 30-shot -> val"),
    Setting("1%", "train-balsbst-ntrain0.01_test", 12_811, "train 1% -> val"),
    Setting("5-shot", "train-nperclass-5_test", 5_000, "train 5-shot -> val"),
    Setting("3-shot", "train-nperclass-3_test", 3_000, "train 3-shot -> val"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultErratum:
    """A measurement, or a whole table, that should not be believed as it stands."""

    encoder: str  # id, or "*" for all
    metric: str  # name, or "*" for all
    kind: str  # one of zoo.results.vocabulary.ERRATUM_KINDS
    reason: str
    exclude: bool  # studies that ask for it leave these rows out

    def covers(self, encoder: str, metric: str) -> bool:
        """True if it concerns this metric of this encoder."""
        return self.encoder in (encoder, "*") and self.metric in (metric, "*")


def find_covered(several: Iterable[ResultErratum], pairs: Iterable[tuple[str, str]]) -> list[bool]:
    """Whether any of these errata concerns each pair of encoder and metric."""
    known = list(several)
    return [any(erratum.covers(encoder, metric) for erratum in known) for encoder, metric in pairs]


@dataclass(frozen=True, slots=True, kw_only=True)
class RiskDecomposition:
    """Parts of the full-shot error in percentage points, signed; lower is better."""

    approximation: Maybe[float]
    usability: Maybe[float]
    approximation_plus_usability: float
    probe_generalization: float
    encoder_generalization: float
    approximation_assumed: bool  # the approximation is 0 by assumption, not by measurement

    @property
    def full_shot_error(self) -> float:
        """Sum of the components, in percent."""
        return self.approximation_plus_usability + self.probe_generalization + self.encoder_generalization


class Campaign(NamedTuple):
    """What risks that belong together have in common."""

    source: str
    protocol: str  # of the probes


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The risks of one encoder on one data set."""

    encoder: str
    errors: dict[str, float]  # by name of the setting, in percent; only settings that were measured
    decomposition: RiskDecomposition | None  # None if the risks it needs were not measured
    errata: tuple[ResultErratum, ...]  # those that name this encoder
    campaign: Campaign  # of the errors
    campaign_of_parts: Campaign | None  # of the decomposition: another one where that of the errors has none

    @property
    def older_parts(self) -> str:
        """Where the components are from, if not from the measurement of the errors, which has none; else nothing."""
        parts, errors = self.campaign_of_parts, self.campaign
        if parts is None or parts == errors or self.decomposition is None:
            return ""
        return (
            f"components of {self.encoder} are by {parts.protocol} ({parts.source}) and sum to "
            f"{self.decomposition.full_shot_error:.1f}: its errors, by {errors.protocol} ({errors.source}), came "
            "without any"
        )


@dataclass(frozen=True, slots=True)
class SeedMean:
    """One measured quantity: the mean over the rows that differ in their seed only."""

    encoder: str
    metric: str
    dataset: str
    split: str
    n_train: int | None
    unit: str
    protocol: str
    source: str
    value: float
    n_seeds: int
    low: float | None  # of one seed the interval that was stated with it, of several the smallest value
    high: float | None
