"""Risks and seed means of each encoder, derived from the rows of results and cached.

:func:`summaries` is what listings and studies start from. The cached copy is checked, so that the modules which read,
check and derive are imported only when a file has changed; :func:`zoo.results.measurements` has the single rows.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..cards.catalogue import RULES, compiled, read_card_files
from ..cards.schema import NOT_PUBLISHED, Missing
from ..errors import UnknownName, warn
from .values import IMAGENET, PUBLISHED_SOURCE, ResultErratum, RiskDecomposition, SeedMean, Summary, read_files

_RULES = (*RULES, "results")


def summaries(*, exclude_wrong: bool = False, source: str | None = None, dataset: str = IMAGENET) -> dict[str, Summary]:
    """The risks on ImageNet-1K, or another data set, of every encoder that has any, in the order of the rows.

    All linear-probe errors of one encoder come from one campaign, which is one source and one protocol. Without
    ``source`` that is the published one where there is one, else the newest by date, and of several of the same date
    the one that is read last. Rows that differ only in their seed are averaged. What is wrong in the user's files is
    left out with a :class:`~zoo.errors.ContentWarning`.

    Parameters
    ----------
    exclude_wrong : bool
        Without the rows that an erratum excludes.
    source : str, optional
        Only rows of this source.
    dataset : str
        Name of the data set of the risks.

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
        from .rows import derived_summaries

        by_dataset, left_out = derived_summaries(exclude_wrong=exclude_wrong, source=source)
        documents = {name: [_document(summary) for summary in some] for name, some in by_dataset.items()}
        return {"summaries": documents, "left_out": left_out}

    kind = "summaries_without_wrong" if exclude_wrong else "summaries"
    stored = compiled(kind, _sources(), _RULES, make) if source is None else make()
    warn(stored["left_out"])
    documents = stored["summaries"]
    if dataset not in documents:
        hint = f"There are {', '.join(documents)}."
        raise UnknownName("data set with errors of linear probes", dataset, documents, hint=hint)
    return {document["encoder"]: _summary(**document) for document in documents[dataset]}


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
        from .rows import means_over_seeds, measurements

        rows = [row for row in measurements() if row.dataset != IMAGENET or row.source != PUBLISHED_SOURCE]
        by_encoder: dict[str, list[list[Any]]] = {}
        for mean in means_over_seeds(rows):
            by_encoder.setdefault(mean.encoder, []).append([getattr(mean, name) for name in SeedMean.__slots__])
        return {name: json.dumps(means) for name, means in by_encoder.items()}

    texts = compiled("seed_means", _sources(), _RULES, make)
    wanted = texts if encoder is None else [encoder] if encoder in texts else []
    return [SeedMean(*fields) for name in wanted for fields in json.loads(texts[name])]


def _sources() -> dict[Path, bytes]:
    return read_card_files() | read_files(".csv") | read_files("errata.toml")
