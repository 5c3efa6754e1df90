"""What was measured on each encoder: its errors and the decomposition of its full-shot error, as values.

:func:`summaries` is what listings and studies start from. It keeps a checked copy in the cache, so that the modules
which read, check and derive are imported only when a file has changed; :func:`measurements` has the single rows.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .cards import RULES, read_card_files
from .compiled import compiled
from .content import content_files, content_folder, user_folder
from .errors import ResultsError, UnknownName, warn
from .metadata import NOT_PUBLISHED, Maybe
from .optional import lazy

__all__ = [
    "PUBLISHED_SOURCE",
    "SETTINGS",
    "ResultErratum",
    "RiskDecomposition",
    "SeedMean",
    "Setting",
    "Summary",
    "seed_means",
    "summaries",
]

if TYPE_CHECKING:
    from .measurements import Measurement as Measurement
    from .measurements import measurements as measurements
    from .resultfiles import errata as errata
    from .vocabulary import METRICS as METRICS
    from .vocabulary import SPLITS as SPLITS
else:
    __getattr__, __dir__, _imported = lazy(
        __name__,
        {
            "measurements": ["Measurement", "measurements"],
            "resultfiles": ["errata"],
            "vocabulary": ["METRICS", "SPLITS"],
        },
    )
    __all__ += _imported

PUBLISHED_SOURCE = "arXiv:2302.03068"
_IMAGENET = "imagenet-1k"
_RULES = (*RULES, "vocabulary", "resultchecks", "resultfiles", "decomposition", "results")


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
    kind: str  # one of zoo.vocabulary.ERRATUM_KINDS
    reason: str
    exclude: bool  # studies that ask for it leave these rows out

    def covers(self, encoder: str, metric: str) -> bool:
        """True if it speaks of this metric of this encoder."""
        return self.encoder in (encoder, "*") and self.metric in (metric, "*")


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The risks of one encoder on one data set."""

    encoder: str
    errors: dict[str, float]  # by name of the setting, in percent; only settings that were measured
    decomposition: RiskDecomposition | None  # None if the risks it needs were not measured
    errata: tuple[ResultErratum, ...]  # those that name this encoder


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


def summaries(
    *, exclude_wrong: bool = False, source: str | None = None, dataset: str = _IMAGENET
) -> dict[str, Summary]:
    """The risks on ImageNet-1K, or another data set, of every encoder that has any, in the order of the rows.

    All linear-probe errors of one encoder come from one campaign, which is one source and one protocol. Without
    ``source`` that is the published one where there is one, else the newest by date, and of several of the same date
    the one that is read last. Rows that differ only in their seed are averaged.

    Parameters
    ----------
    exclude_wrong : bool
        Without the rows that an erratum excludes.
    source : str, optional
        Only rows of this source.
    dataset : str
        Of which the risks are.

    What is wrong in the user's own files is left out with a :class:`~zoo.errors.ContentWarning`.

    Raises
    ------
    ResultsError
        If a shipped file is unreadable or a row in it is wrong.
    QueryError
        If no row comes from ``source``.
    UnknownName
        If no linear probe was measured on ``dataset``.
    """

    def make() -> dict[str, Any]:
        from .decomposition import summary_facts

        found, left_out = summary_facts(exclude_wrong=exclude_wrong, source=source)
        return {"summaries": found, "left_out": left_out}

    if source is None:
        kind = "summaries_without_wrong" if exclude_wrong else "summaries"
        kept = compiled(kind, _sources(), _RULES, make)
    else:
        kept = make()
    warn(kept["left_out"])
    facts = kept["summaries"]
    if dataset not in facts:
        hint = f"There are {', '.join(facts)}."
        raise UnknownName("data set with errors of linear probes", dataset, facts, hint=hint)
    return {own["encoder"]: _summary(**own) for own in facts[dataset]}


def seed_means(encoder: str | None = None) -> list[SeedMean]:
    """Every quantity that was measured beside the published study, of all encoders or one, in the order of the rows.

    That is everything on other data sets than ImageNet-1K, and on ImageNet-1K what other sources than the study say.

    Parameters
    ----------
    encoder : str, optional
        Id of a card.

    Raises
    ------
    ResultsError
        If a file of results is unreadable or a row in it is wrong.
    """

    def make() -> dict[str, str]:  # one text an encoder, so that those that are not asked for are not parsed
        from .measurements import means_over_seeds, measurements

        rows = [row for row in measurements() if row.dataset != _IMAGENET or row.source != PUBLISHED_SOURCE]
        by_encoder: dict[str, list[list[Any]]] = {}
        for mean in means_over_seeds(rows):
            by_encoder.setdefault(mean.encoder, []).append([getattr(mean, name) for name in SeedMean.__slots__])
        return {name: json.dumps(own) for name, own in by_encoder.items()}

    texts = compiled("seed_means", _sources(), (*_RULES, "measurements"), make)
    wanted = texts if encoder is None else [encoder] if encoder in texts else []
    return [SeedMean(*fields) for name in wanted for fields in json.loads(texts[name])]


def _sources() -> dict[Path, bytes]:
    return read_card_files() | read_files(".csv") | read_files("errata.toml")


def read_files(suffix: str) -> dict[Path, bytes]:
    """Content of the results files whose names end like that, the shipped ones first, then the user's.

    What the user has under such a name and cannot be read is left out with a :class:`~zoo.errors.ContentWarning`.

    Raises
    ------
    ResultsError
        If a shipped one cannot be read.
    ContentError
        If a folder of results is missing or cannot be listed.
    """
    paths = content_files("results", suffix)
    folders = [
        path for path in (user_folder() / "results").rglob(f"*{suffix}") if path.name[0] != "." and path.is_dir()
    ]
    contents = {}
    for path in paths + folders:
        try:
            contents[path] = path.read_bytes()
        except OSError as error:
            sentence = f"The results file {path} cannot be read ({error.strerror}); make it readable or remove it."
            if not is_own(path):
                raise ResultsError(sentence) from error
            warn([f"{sentence.removesuffix('.')}, for it is left out."])
    return contents


def is_own(path: Path) -> bool:
    """True for a file of the user's, in which something wrong stops nothing but itself."""
    return not path.is_relative_to(content_folder("results"))


def _summary(
    *, encoder: str, errors: dict[str, float], decomposition: dict[str, Any] | None, errata: list[dict[str, Any]]
) -> Summary:
    return Summary(
        encoder=encoder,
        errors=errors,
        decomposition=_decomposition(**decomposition) if decomposition else None,
        errata=tuple(ResultErratum(**erratum) for erratum in errata),
    )


def _decomposition(*, approximation: float | None, usability: float | None, **others: Any) -> RiskDecomposition:
    return RiskDecomposition(
        approximation=NOT_PUBLISHED if approximation is None else approximation,
        usability=NOT_PUBLISHED if usability is None else usability,
        **others,
    )
