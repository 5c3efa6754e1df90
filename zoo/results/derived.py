"""Risks and seed means of each encoder, derived from the rows of results.

The decomposition of the full-shot error is derived from the raw risks and never clipped: a component may be negative,
and together they are the full-shot error. With R_PhiF the training error of a supervised network of the same
architecture (the twin), R_AF the error of a probe on its own training images, R_AS its error on held-out training
images and R_US the full-shot error on the validation images (Dubois et al. 2023, arXiv:2302.03068)::

    approximation          = R_PhiF
    usability              = R_AF - R_PhiF
    probe_generalization   = R_AS - R_AF
    encoder_generalization = R_US - R_AS

An encoder without a supervised twin has only the sum of the first two, R_AF.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from ..cards.catalogue import RULES, load_catalogue
from ..cards.content_cache import load_cached_content
from ..cards.schema import NOT_PUBLISHED
from ..errors import QueryError, UnknownName
from ..files import get_user_folder
from .rows import (
    Measurement,
    average_over_seeds,
    convert_row,
    drop_wrong_rows,
    errata,
    open_stored_rows,
    read_rows,
    read_rows_and_errata,
)
from .values import (
    IMAGENET,
    PROBE,
    PUBLISHED_SOURCE,
    RISKS,
    SETTINGS,
    TWIN,
    Campaign,
    ResultErratum,
    RiskDecomposition,
    Row,
    SeedMean,
    Summary,
    select_newest_protocols,
    split_generation,
)

_ASSUMED_ZERO = "assumed zero"  # protocol of a twin that was not measured
_MANY = 500  # encoders, from which on reading all from a copy takes less time
_FULL_SHOT = "train -> val"
_ON_TRAINING_IMAGES = "train -> train"
_HELD_OUT = "train minus subset -> subset"

AnyRow = TypeVar("AnyRow", Row, Measurement)
Risks = dict[tuple[str, str], tuple[float, str]]  # metric, split -> mean over seeds, protocol
Campaigns = list[tuple[Campaign, Risks]]  # the one that counts, and if that has no components the next that has them


def summaries(
    *,
    exclude_wrong: bool = False,
    source: str | None = None,
    dataset: str = IMAGENET,
    encoders: Iterable[str] | None = None,
) -> dict[str, Summary]:
    """The risks on ImageNet-1K, or another data set, of every encoder that has any, in the order of the rows.

    All linear-probe errors of one encoder come from one campaign, which is one source and one protocol, and so do its
    components: from the same one, or the next that has them if that has none. Without ``source`` the published one is
    first where there is one, else the newest by date, and of several of the same date the one that is read last; no
    protocol of which there are errors by a newer generation is before it. Rows that differ only in their seed are
    averaged. What is wrong in the user's files is left out with a :class:`~zoo.errors.ContentWarning`. Shipped rows of
    encoders of an experiment, such as the family ``randomised``, count only if ``encoders`` names one of them.

    Parameters
    ----------
    exclude_wrong : bool
        Without the rows that an erratum excludes.
    source : str, optional
        Only rows of this source.
    dataset : str
        Name of the data set of the risks.
    encoders : iterable of str, optional
        Only these, by id.

    Raises
    ------
    ResultsError
        If a shipped file is unreadable or a row in it is wrong.
    QueryError
        If no row comes from ``source``.
    UnknownName
        If no linear probe was measured on ``dataset``.
    """
    ids = None if encoders is None else frozenset(encoders)
    with_unlisted = _has_unlisted(ids)
    if source is None and dataset == IMAGENET and not with_unlisted and (ids is None or len(ids) >= _MANY):
        found, known_errata = _kept_risks(exclude_wrong), errata()
    else:
        wanted = ids if source is None else None  # whether there is such a source, all rows say
        rows, known_errata = read_rows_and_errata(RISKS, encoders=wanted, dataset=dataset, with_unlisted=with_unlisted)
        if source is not None:
            sources = sorted({row.source for row in read_rows(RISKS, dataset=dataset, with_unlisted=with_unlisted)})
            if source not in sources:
                raise QueryError(f"No risk on {dataset} comes from the source {source!r}, expected one of {sources}.")
            rows = [row for row in rows if row.source == source]
        if exclude_wrong:
            rows = drop_wrong_rows(rows, known_errata)
        if dataset != IMAGENET and not rows:
            if read_rows(RISKS, dataset=dataset, with_unlisted=True):
                return {}
            others = read_rows(RISKS, with_unlisted=with_unlisted)
            known = list(dict.fromkeys([IMAGENET, *(row.dataset for row in others)]))
            hint = f"There are {', '.join(known)}."
            raise UnknownName("data set with errors of linear probes", dataset, known, hint=hint)
        found = _campaigns(rows)
    errata_of: dict[str, list[ResultErratum]] = {}
    for erratum in known_errata:
        errata_of.setdefault(erratum.encoder, []).append(erratum)
    return {
        encoder: _summary(encoder, campaigns, errata_of.get(encoder, ()))
        for encoder, campaigns in found.items()
        if ids is None or encoder in ids
    }


def _campaigns(rows: Iterable[Row]) -> dict[str, Campaigns]:
    """The risks of each encoder that has any, in the order of the rows."""
    by_encoder: dict[str, list[Row]] = {}
    for row in rows:
        by_encoder.setdefault(row.encoder, []).append(row)
    found = ((encoder, _campaigns_of_one(of_one)) for encoder, of_one in by_encoder.items())
    return {encoder: campaigns for encoder, campaigns in found if campaigns}


def _kept_risks(exclude_wrong: bool) -> dict[str, Campaigns]:
    """The risks of all encoders on ImageNet-1K from a copy, for most questions ask for these."""

    def make(sources: Mapping[Path, bytes]) -> dict[str, Any]:
        rows, known = read_rows_and_errata(RISKS, dataset=IMAGENET)
        kinds = {"every": _campaigns(rows), "right": _campaigns(drop_wrong_rows(rows, known))}
        return {
            kind: [
                (encoder, [(one, [(*key, *value) for key, value in risks.items()]) for one, risks in campaigns])
                for encoder, campaigns in found.items()
            ]
            for kind, found in kinds.items()
        }

    shipped, own = open_stored_rows()
    beside = f"{shipped.digest}-{'' if own is None else own.token}"
    kept = load_cached_content("risks", [], (*RULES, "results"), dict, make, of=get_user_folder(), beside=beside)
    found = kept["right" if exclude_wrong else "every"]
    return {
        encoder: [
            (Campaign(*one), {(metric, split): (*value,) for metric, split, *value in risks})
            for one, risks in campaigns
        ]
        for encoder, campaigns in found
    }


def select_main_protocol(known: Mapping[str, Summary]) -> dict[str, Summary]:
    """Those by the protocol of most of them, for numbers of two protocols do not compare."""
    ((usual, _),) = Counter(one.campaign.protocol for one in known.values()).most_common(1) or [("", 0)]
    return {name: one for name, one in known.items() if one.campaign.protocol == usual}


def find_measured_encoders(among: Iterable[str]) -> set[str]:
    """Those of these encoders of which the error of a linear probe was measured on some data set."""
    ids = set(among)
    return {row.encoder for row in read_rows([PROBE], encoders=ids, with_unlisted=_has_unlisted(ids))}


def _has_unlisted(ids: Iterable[str] | None) -> bool:
    """Whether one of these encoders is of an experiment, whose shipped rows are read for whom asks alone."""
    return ids is not None and not all(map(load_catalogue().lists, ids))


def seed_means(encoders: str | Iterable[str] | None = None) -> list[SeedMean]:
    """Every quantity that was measured in addition to the published study, in the order of the rows.

    That is everything on other data sets than ImageNet-1K, and on ImageNet-1K what other sources than the study say.
    Shipped rows of encoders of an experiment count only if ``encoders`` names one of them.

    Parameters
    ----------
    encoders : str or iterable of str, optional
        Only this one or these, by id.

    Raises
    ------
    ResultsError
        If a file of results is unreadable or a row in it is wrong.
    """

    ids = None if encoders is None else frozenset([encoders] if isinstance(encoders, str) else encoders)
    rows = read_rows(encoders=ids, with_unlisted=_has_unlisted(ids))
    beside = (row for row in rows if row.dataset != IMAGENET or row.source != PUBLISHED_SOURCE)
    means = average_over_seeds(map(convert_row, beside))
    places = {encoder: number for number, encoder in enumerate(dict.fromkeys(mean.encoder for mean in means))}
    return sorted(means, key=lambda mean: places[mean.encoder])


def _summary(encoder: str, campaigns: Campaigns, known_errata: Iterable[ResultErratum]) -> Summary:
    (first, risks), (of_parts, parts) = campaigns[0], campaigns[-1]
    decomposition = _decomposition(parts)
    return Summary(
        encoder=encoder,
        errors={
            setting.name: risks[PROBE, setting.split][0] for setting in SETTINGS if (PROBE, setting.split) in risks
        },
        decomposition=decomposition,
        errata=tuple(known_errata),
        campaign=first,
        campaign_of_parts=None if decomposition is None else of_parts,
    )


def find_campaign(rows: Sequence[AnyRow]) -> AnyRow | None:
    """The row whose source and protocol are those of an encoder's summary on one data set; None without a probe.

    It is of the published campaign where there is one, else of the newest, else of the last, and of the newest
    generation of its protocol.
    """
    probes = [row for row in rows if row.metric == PROBE]
    newest = select_newest_protocols(row.protocol for row in probes)
    probes = [row for row in probes if row.protocol in newest]
    return max(reversed(probes), key=lambda row: (row.source == PUBLISHED_SOURCE, row.date), default=None)


def _campaigns_of_one(rows: Sequence[Row]) -> Campaigns:
    """Means over seeds of one encoder's rows: [] without a probe."""
    found: Campaigns = []
    while (best := find_campaign(rows)) is not None:
        values: dict[tuple[str, str, str], list[float]] = {}
        others = []
        for row in rows:
            is_of_it = row.protocol == best.protocol if row.metric == PROBE else _goes_with(row.protocol, best.protocol)
            if row.source == best.source and is_of_it:
                values.setdefault((row.metric, row.split, row.protocol), []).append(float(row.value))
            else:
                others.append(row)
        risks = {(metric, split): (sum(some) / len(some), by) for (metric, split, by), some in values.items()}
        found.append((Campaign(best.source, best.protocol), risks))
        if _decomposition(risks) is not None:
            return found[:1] + found[1:][-1:]
        rows = others
    return found[:1]


def _goes_with(parts: str, errors: str) -> bool:
    """Whether components by a protocol are of the generation of errors by another; those that name none are."""
    stem, number = split_generation(parts.partition(" (")[0])
    return not number or (stem.replace("-risk-", "-"), number) == split_generation(errors.partition(" (")[0])


def _decomposition(risks: Risks) -> RiskDecomposition | None:
    """The components from the raw risks; from the published components where the raw risks were never published."""
    value = {key: mean for key, (mean, _) in risks.items()}
    full_shot = value.get((PROBE, _FULL_SHOT))
    training, held_out = value.get((PROBE, _ON_TRAINING_IMAGES)), value.get((PROBE, _HELD_OUT))
    if full_shot is None:
        return None
    if training is not None and held_out is not None:
        probe, encoder = held_out - training, full_shot - held_out
    elif ("probe_generalization", _FULL_SHOT) in value and ("encoder_generalization", _FULL_SHOT) in value:
        probe, encoder = value["probe_generalization", _FULL_SHOT], value["encoder_generalization", _FULL_SHOT]
        training = full_shot - probe - encoder
    else:
        return None
    twin, protocol = risks.get((TWIN, _ON_TRAINING_IMAGES), (None, ""))
    return RiskDecomposition(
        approximation=NOT_PUBLISHED if twin is None else twin,
        usability=NOT_PUBLISHED if twin is None else training - twin,
        approximation_plus_usability=training,
        probe_generalization=probe,
        encoder_generalization=encoder,
        approximation_assumed=protocol == _ASSUMED_ZERO,
    )
