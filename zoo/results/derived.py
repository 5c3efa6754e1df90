"""Risks and seed means of each encoder, derived from the rows of results and cached.

:func:`summaries` is what listings and studies start from. The cached copy is checked, so that the modules which read,
check and derive are imported only when a file has changed; :func:`zoo.results.measurements` has the single rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..cards.catalogue import RULES, catalogue, read_card_files
from ..cards.compiled import compiled, stamp
from ..cards.schema import NOT_PUBLISHED, Missing
from ..errors import UnknownName, warn
from ..files import content_files
from .values import IMAGENET, PUBLISHED_SOURCE, ResultErratum, RiskDecomposition, SeedMean, Summary, files, read_files

_RULES = (*RULES, "results")
_LEFT_OUT = "left out"


def summaries(
    *,
    exclude_wrong: bool = False,
    source: str | None = None,
    dataset: str = IMAGENET,
    encoders: Iterable[str] | None = None,
) -> dict[str, Summary]:
    """The risks on ImageNet-1K, or another data set, of every encoder that has any, in the order of the rows.

    All linear-probe errors of one encoder come from one campaign, which is one source and one protocol. Without
    ``source`` that is the published one where there is one, else the newest by date, and of several of the same date
    the one that is read last. Rows that differ only in their seed are averaged. What is wrong in the user's files is
    left out with a :class:`~zoo.errors.ContentWarning`. Shipped rows of encoders of an experiment, such as the family
    ``randomised``, count only if ``encoders`` names one of them.

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
    stored = _stored_summaries(exclude_wrong=exclude_wrong, source=source, with_unlisted=_has_unlisted(ids))
    warn(stored[_LEFT_OUT])
    if dataset not in stored:
        if dataset in _stored_summaries(exclude_wrong=exclude_wrong, source=source, with_unlisted=True):
            return {}
        known = [name for name in stored if name != _LEFT_OUT]
        hint = f"There are {', '.join(known)}."
        raise UnknownName("data set with errors of linear probes", dataset, known, hint=hint)
    wanted = (document for document in stored[dataset] if ids is None or document["encoder"] in ids)
    return {document["encoder"]: _summary(**document) for document in wanted}


def measured_encoders(among: Iterable[str]) -> set[str]:
    """Those of these encoders of which the error of a linear probe was measured on some data set."""
    ids = set(among)
    stored = _stored_summaries(exclude_wrong=False, source=None, with_unlisted=_has_unlisted(ids))
    return ids & {document["encoder"] for name in stored if name != _LEFT_OUT for document in stored[name]}


def _has_unlisted(ids: Iterable[str] | None) -> bool:
    """Whether one of these encoders is of an experiment, whose shipped rows are read for whom asks alone."""
    return not all(map(catalogue().lists, ids or ()))


def _stored_summaries(*, exclude_wrong: bool, source: str | None, with_unlisted: bool) -> Mapping[str, Any]:
    """Documents of summaries by data set, and what was left out of them."""

    def make(_: object = None) -> dict[str, Any]:
        from .rows import derived_summaries

        by_dataset, left_out = derived_summaries(
            exclude_wrong=exclude_wrong, source=source, with_unlisted=with_unlisted
        )
        documents = {name: [_document(summary) for summary in some] for name, some in by_dataset.items()}
        return {_LEFT_OUT: left_out, **documents}

    kind = "summaries_without_wrong" if exclude_wrong else "summaries"
    return make() if source is not None else _compiled(kind, make, with_unlisted=with_unlisted)


def _document(summary: Summary) -> dict[str, Any]:
    """A summary as JSON has it; a component without a value is None."""
    document = asdict(summary)
    if parts := document["decomposition"]:
        document["decomposition"] = {name: None if isinstance(part, Missing) else part for name, part in parts.items()}
    return document


def _summary(
    *, encoder: str, errors: dict[str, float], decomposition: dict[str, Any] | None, errata: list[dict[str, Any]]
) -> Summary:
    parts: dict[str, Any] = {
        name: NOT_PUBLISHED if part is None else part for name, part in (decomposition or {}).items()
    }
    return Summary(
        encoder=encoder,
        errors=errors,
        decomposition=RiskDecomposition(**parts) if parts else None,
        errata=tuple(ResultErratum(**erratum) for erratum in errata),
    )


def seed_means(encoders: str | Iterable[str] | None = None) -> list[SeedMean]:
    """Every quantity that was measured beside the published study, in the order of the rows.

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
    with_unlisted = _has_unlisted(ids)

    def make(_: object) -> dict[str, Any]:
        from .rows import means_over_seeds, measurement_of, read_rows

        read = map(measurement_of, read_rows(with_unlisted=with_unlisted))
        rows = [row for row in read if row.dataset != IMAGENET or row.source != PUBLISHED_SOURCE]
        by_encoder: dict[str, list[list[Any]]] = {}
        for mean in means_over_seeds(rows):
            by_encoder.setdefault(mean.encoder, []).append([getattr(mean, name) for name in SeedMean.__slots__])
        return by_encoder

    means = _compiled("seed_means", make, with_unlisted=with_unlisted)
    wanted = means if ids is None else [one for one in means if one in ids]
    return [SeedMean(*fields) for name in wanted for fields in means[name]]


def _compiled(
    kind: str, make: Callable[[Mapping[Path, bytes]], Mapping[str, Any]], *, with_unlisted: bool
) -> Mapping[str, Any]:
    """The copy of what is made of all cards, rows and errata, or without the rows of experiments."""
    rows = files(".csv", with_unlisted=with_unlisted)
    stamps = [stamp(path) for path in [*content_files("metadata", ".toml"), *rows, *files("errata.toml")]]

    def read() -> dict[Path, bytes]:
        return read_card_files() | read_files(".csv", with_unlisted=with_unlisted) | read_files("errata.toml")

    return compiled(kind, stamps, _RULES, read, make)
