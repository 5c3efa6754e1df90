"""What was measured of an encoder, as its model card tells it: accuracies of linear probes, and from where they are."""

from __future__ import annotations

from dataclasses import dataclass

from huggingface_hub import EvalResult

from ..measurements import measurements
from ..metadata import EncoderCard
from ..results import PUBLISHED_SOURCE, SETTINGS, ResultErratum, SeedMean, Setting, Summary, seed_means, summaries
from ..vocabulary import IMAGENET
from ..weights.places import shown

_DECIMALS = 3  # one of the 50,000 validation images is 0.002 %
_ARXIV = "arXiv:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The believable measurements of one encoder, and what is to be said about the others."""

    top1_percent: dict[Setting, float]  # ImageNet-1K accuracy of a linear probe, by labels
    source: str  # "" if there is none
    errata: tuple[ResultErratum, ...]  # on any measurement of the encoder
    n_left_out: int  # settings that were measured and that an erratum excludes

    @property
    def source_url(self) -> str | None:
        """Where the source can be read, if it says so itself."""
        if self.source.startswith(_ARXIV):
            return f"https://arxiv.org/abs/{self.source.removeprefix(_ARXIV)}"
        return self.source if self.source.startswith(("http://", "https://")) else None

    @property
    def is_published(self) -> bool:
        """True if the numbers are those of the risk-decomposition study."""
        return self.source == PUBLISHED_SOURCE


def measured(card: EncoderCard) -> Measured:
    """The measurements of an encoder.

    Raises
    ------
    ResultsError
        If a file of results is unreadable or a row in it is wrong.
    """
    everything, believable = summaries().get(card.id), summaries(exclude_wrong=True).get(card.id)
    errors = believable.errors if believable else {}
    return Measured(
        top1_percent={
            setting: round(100 - errors[setting.name], _DECIMALS) for setting in SETTINGS if setting.name in errors
        },
        source=shown(_source(card, believable)) if believable else "",
        errata=everything.errata if everything else (),
        n_left_out=len(everything.errors) - len(errors) if everything else 0,
    )


def measured_elsewhere(card: EncoderCard) -> dict[str, list[SeedMean]]:
    """What was measured of an encoder on other data sets than ImageNet-1K, by data set."""
    found: dict[str, list[SeedMean]] = {}
    for mean in seed_means(card.id):
        if mean.dataset != IMAGENET:
            found.setdefault(mean.dataset, []).append(mean)
    return found


def eval_results(found: Measured) -> list[EvalResult]:
    """The measurements as huggingface_hub has them, one a setting."""
    return [
        EvalResult(
            task_type="image-classification",
            task_name="Linear probe on frozen features",
            dataset_type=IMAGENET,
            dataset_name="ImageNet-1K",
            dataset_split="validation",
            metric_type="accuracy",
            metric_name=f"Top-1 accuracy, {label_setting(setting)}",
            metric_value=value,
            metric_args={"n_train": setting.n_labels},
            source_name=found.source if found.source_url else None,
            source_url=found.source_url,
        )
        for setting, value in found.top1_percent.items()
    ]


def label_setting(setting: Setting) -> str:
    """How many labels the probe had, in words.

    >>> [label_setting(setting) for setting in SETTINGS[:2]]
    ['100% of the labels', '30 labels a class']
    """
    if setting.name.endswith("%"):
        return f"{setting.name} of the labels"
    return f"{setting.name.removesuffix('-shot')} labels a class"


def _source(card: EncoderCard, believable: Summary) -> str:
    """Of the campaign that the summary is of."""
    rows = measurements(metrics="linear_probe_error", encoders=card.id, exclude_wrong=True)
    sources = list(dict.fromkeys(row.source for row in rows if row.dataset == IMAGENET))
    if PUBLISHED_SOURCE in sources or len(sources) == 1:
        return PUBLISHED_SOURCE if PUBLISHED_SOURCE in sources else sources[0]
    for source in reversed(sources):
        own = summaries(exclude_wrong=True, source=source).get(card.id)
        if own is not None and own.errors == believable.errors:
            return source
    raise AssertionError("a summary comes from one of the sources of its rows")
