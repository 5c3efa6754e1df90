"""Values that are derived from results (settings, errata, risks, seed means), and the content of the results files.

Listings start from a cached copy of these values, without the modules that read and check rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..cards.catalogue import catalogue
from ..cards.schema import Maybe
from ..errors import ResultsError, warn
from ..files import content_files, content_folder, user_folder

PUBLISHED_SOURCE = "arXiv:2302.03068"
IMAGENET = "imagenet-1k"


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


def read_files(suffix: str, *, with_unlisted: bool = True) -> dict[Path, bytes]:
    """Content of :func:`files`, the shipped ones first, then the user's.

    Unreadable files and folders of the user's are left out with a :class:`~zoo.errors.ContentWarning`.
    """
    contents = {}
    for path in files(suffix, with_unlisted=with_unlisted):
        try:
            contents[path] = path.read_bytes()
        except OSError as error:
            sentence = f"The results file {path} cannot be read ({error.strerror}); make it readable or remove it."
            if not is_of_user(path):
                raise ResultsError(sentence) from error
            warn([f"{sentence.removesuffix('.')}, for it is left out."])
    return contents


def files(suffix: str, *, with_unlisted: bool = True) -> list[Path]:
    """The results files whose names end in ``suffix``, and folders of the user's that are called so.

    ``with_unlisted=False`` is without the shipped files of encoders of an experiment, each of which is named after its
    encoder (:meth:`zoo.cards.catalogue.Catalogue.lists`); files of the user's stay.
    """
    below = (user_folder() / "results").rglob(f"*{suffix}")
    folders = [path for path in below if path.name[0] != "." and path.is_dir()]
    found = content_files("results", suffix)
    if not with_unlisted:
        lists = catalogue().lists
        found = [path for path in found if lists(path.stem) or is_of_user(path)]
    return found + folders


def is_of_user(path: Path) -> bool:
    """True for a file of the user's, in which something wrong is left out and stops nothing else."""
    return not path.is_relative_to(content_folder("results"))
