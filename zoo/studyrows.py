"""The cells of the studies' table, one row an encoder: risks, facts and feature statistics under published names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import fmean
from typing import Any

from .cards import catalogue
from .metadata import NOT_PUBLISHED, EncoderCard
from .publishedlayout import COMPONENTS, STATISTICS, study_facts
from .results import PUBLISHED_SOURCE, SETTINGS, Measurement, Summary, measurements, summaries
from .vocabulary import IMAGENET

RAW_RISKS = {  # column -> split of the probe
    "train_train": "train -> train",
    "train-cmplmnt-ntest_train-sbst-ntest": "train minus subset -> subset",
    "train-cmplmnt-ntest_test": "train minus subset -> val",
    "union_test": "train plus val -> val",
}
_PROBE = "linear_probe_error"
_FULL_SHOT = "train -> val"

Cells = dict[str, Any]


def published_rows(*, as_published: bool, exclude_wrong: bool) -> dict[str, Cells]:
    """Cells of the 200 encoders that were published, in the order of the risks.

    Parameters
    ----------
    as_published : bool
        Components clipped at 0 and facts as they were published; else signed components and corrected facts.
    exclude_wrong : bool
        Without the measurements that an erratum excludes, and without encoders of which none is left.

    Returns
    -------
    dict of dict
        By id of the encoder, the cells by column; a missing one is a :class:`zoo.metadata.Missing`.
    """
    values = _values(
        row
        for row in measurements(exclude_wrong=exclude_wrong)
        if row.source == PUBLISHED_SOURCE and row.dataset == IMAGENET
    )
    derived = summaries(exclude_wrong=exclude_wrong, source=PUBLISHED_SOURCE)
    cards = catalogue()
    return {
        encoder: _cells(values[encoder], summary, cards[encoder], as_published=as_published, clipped=as_published)
        for encoder, summary in derived.items()
    }


def own_rows(*, as_published: bool, exclude_wrong: bool) -> dict[str, Cells]:
    """Cells of the encoders that only others have measured, such as the user: signed components, the newest source.

    Parameters and returns are those of :func:`published_rows`.
    """
    known, published = summaries(exclude_wrong=exclude_wrong), _published_encoders()
    derived = {encoder: known[encoder] for encoder in known if encoder not in published}
    values = _newest(
        row for row in measurements(exclude_wrong=exclude_wrong) if row.dataset == IMAGENET and row.encoder in derived
    )
    cards = catalogue()
    return {
        encoder: _cells(values[encoder], summary, cards[encoder], as_published=as_published, clipped=False)
        for encoder, summary in derived.items()
    }


def measured_twice() -> list[str]:
    """Published encoders that the user has measured too; the published row counts."""
    rows = [row for row in measurements(metrics=_PROBE) if row.dataset == IMAGENET]
    others = {row.encoder for row in rows if row.source != PUBLISHED_SOURCE}
    return sorted(others & _published_encoders())


def _published_encoders() -> set[str]:
    return set(summaries(source=PUBLISHED_SOURCE))


def _newest(rows: Iterable[Measurement]) -> dict[str, dict[tuple[str, str], float]]:
    """Of each quantity the mean over the seeds of the newest source."""
    by_quantity: dict[tuple[str, str, str], dict[tuple[str, str, str], list[float]]] = {}
    for row in rows:
        campaigns = by_quantity.setdefault((row.encoder, row.metric, row.split), {})
        campaigns.setdefault((row.date, row.source, row.protocol), []).append(row.value)
    values: dict[str, dict[tuple[str, str], float]] = {}
    for (encoder, metric, split), campaigns in by_quantity.items():
        values.setdefault(encoder, {})[metric, split] = fmean(campaigns[max(campaigns)])
    return values


def _values(rows: Iterable[Measurement]) -> dict[str, dict[tuple[str, str], float]]:
    values: dict[str, dict[tuple[str, str], float]] = {}
    for row in rows:
        values.setdefault(row.encoder, {})[row.metric, row.split] = row.value
    return values


def _cells(
    own: Mapping[tuple[str, str], float], summary: Summary, card: EncoderCard, *, as_published: bool, clipped: bool
) -> dict[str, Any]:
    parts = summary.decomposition
    signed = {name: getattr(parts, metric, NOT_PUBLISHED) for name, metric in COMPONENTS.items()}
    published = {name: own.get((metric, _FULL_SHOT), NOT_PUBLISHED) for name, metric in COMPONENTS.items()}
    return {
        **(published if clipped else signed),
        "approx_plus_usability": getattr(parts, "approximation_plus_usability", NOT_PUBLISHED),
        "approx_is_assumed": getattr(parts, "approximation_assumed", False),
        **{setting.column: summary.errors.get(setting.name, NOT_PUBLISHED) for setting in SETTINGS},
        **{name: own.get((_PROBE, split), NOT_PUBLISHED) for name, split in RAW_RISKS.items()},
        **{name: own.get(key, NOT_PUBLISHED) for name, key in STATISTICS.items()},
        **study_facts(card, as_published),
    }
