"""What was measured on each encoder: its errors and the decomposition of its full-shot error, as values.

:func:`summaries` is what listings and studies start from. It keeps a checked copy in the cache, so that the modules
which read, check and derive are imported only when a file has changed; :func:`measurements` has the single rows.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ..cards.catalogue import RULES, compiled, read_card_files
from ..cards.schema import NOT_PUBLISHED
from ..errors import UnknownName, warn
from .values import PUBLISHED_SOURCE, ResultErratum, RiskDecomposition, SeedMean, Summary, read_files

_IMAGENET = "imagenet-1k"
_RULES = (*RULES, "results")


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
        from .rows import summary_facts

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
        from .rows import means_over_seeds, measurements

        rows = [row for row in measurements() if row.dataset != _IMAGENET or row.source != PUBLISHED_SOURCE]
        by_encoder: dict[str, list[list[Any]]] = {}
        for mean in means_over_seeds(rows):
            by_encoder.setdefault(mean.encoder, []).append([getattr(mean, name) for name in SeedMean.__slots__])
        return {name: json.dumps(own) for name, own in by_encoder.items()}

    texts = compiled("seed_means", _sources(), _RULES, make)
    wanted = texts if encoder is None else [encoder] if encoder in texts else []
    return [SeedMean(*fields) for name in wanted for fields in json.loads(texts[name])]


def _sources() -> dict[Path, bytes]:
    return read_card_files() | read_files(".csv") | read_files("errata.toml")


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
