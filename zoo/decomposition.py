"""Derives the risks of each encoder, and the decomposition of its full-shot error, from the rows of ``results/``.

The components are derived from the raw risks and never clipped: one may be negative, and together they are the
full-shot error. With R_PhiF the training error of a supervised network of the same architecture, R_AF the error of a
probe on its own training images, R_AS its error on held-out training images and R_US the full-shot error on the
validation images::

    approximation          = R_PhiF
    usability              = R_AF - R_PhiF
    probe_generalization   = R_AS - R_AF
    encoder_generalization = R_US - R_AS

An encoder without a supervised twin has only the sum of the first two, R_AF.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .errors import QueryError
from .resultchecks import Row
from .resultfiles import errata, read_rows, without_wrong
from .results import PUBLISHED_SOURCE, SETTINGS
from .vocabulary import DATASET, DATE, ENCODER, IMAGENET, METRIC, PROTOCOL, SOURCE, SPLIT, VALUE

ASSUMED_ZERO = "assumed zero"  # protocol of a twin that was not measured
_PROBE, _TWIN = "linear_probe_error", "supervised_twin_error"
_FULL_SHOT = "train -> val"
_OWN_TRAINING_SET = "train -> train"
_HELD_OUT = "train minus subset -> subset"
_RISKS = (_PROBE, _TWIN, "probe_generalization", "encoder_generalization")

Risks = dict[tuple[str, str], tuple[float, str]]  # metric, split -> mean over seeds, protocol


def summary_facts(*, exclude_wrong: bool, source: str | None) -> tuple[list[dict[str, Any]], list[str]]:
    """What :func:`zoo.results.summaries` makes its values of, one table an encoder, as JSON has it.

    An erratum is its fields; a component that cannot be known is None. Beside it a sentence for everything of the
    user's that is wrong and left out.
    """
    left_out: list[str] = []
    rows = [row for row in read_rows(_RISKS, left_out=left_out) if row[DATASET] == IMAGENET]
    known_errata = errata(left_out=left_out)
    if source is not None:
        sources = sorted({row[SOURCE] for row in rows})
        if source not in sources:
            raise QueryError(f"No ImageNet-1K risk comes from the source {source!r}, expected one of {sources}.")
        rows = [row for row in rows if row[SOURCE] == source]
    if exclude_wrong:
        rows = without_wrong(rows, known_errata)
    by_encoder: dict[str, list[Row]] = {}
    for row in rows:
        by_encoder.setdefault(row[ENCODER], []).append(row)
    found = []
    for encoder, own in by_encoder.items():
        risks = _risks_of_one_campaign(own)
        if risks:
            errors = {
                setting.name: risks[_PROBE, setting.split][0]
                for setting in SETTINGS
                if (_PROBE, setting.split) in risks
            }
            named = [
                {name: getattr(erratum, name) for name in erratum.__slots__}
                for erratum in known_errata
                if erratum.encoder == encoder
            ]
            found.append(
                {"encoder": encoder, "errors": errors, "decomposition": _decomposition(risks), "errata": named}
            )
    return found, left_out


def _risks_of_one_campaign(rows: Sequence[Row]) -> Risks:
    probes = [row for row in rows if row[METRIC] == _PROBE]
    if not probes:
        return {}
    best = _preferred(probes)
    values: dict[tuple[str, str, str], list[float]] = {}
    for row in rows:
        if row[SOURCE] != best[SOURCE]:
            continue
        if row[METRIC] == _PROBE and row[PROTOCOL] != best[PROTOCOL]:
            continue
        key = (row[METRIC], row[SPLIT], row[PROTOCOL])
        values.setdefault(key, []).append(float(row[VALUE]))
    return {(metric, split): (sum(seeds) / len(seeds), protocol) for (metric, split, protocol), seeds in values.items()}


def _preferred(rows: Sequence[Row]) -> Row:
    """The row whose source and protocol are taken: the published one, else the newest, else the last."""
    best = rows[0]
    for row in rows[1:]:
        if _precedence(row) >= _precedence(best):
            best = row
    return best


def _precedence(row: Row) -> tuple[bool, str]:
    return row[SOURCE] == PUBLISHED_SOURCE, row[DATE]


def _decomposition(risks: Risks) -> dict[str, Any] | None:
    """The components from the raw risks; from the published components where the raw risks were never published."""
    value = {key: pair[0] for key, pair in risks.items()}
    full_shot = value.get((_PROBE, _FULL_SHOT))
    own, held_out = value.get((_PROBE, _OWN_TRAINING_SET)), value.get((_PROBE, _HELD_OUT))
    if full_shot is None:
        return None
    if own is not None and held_out is not None:
        probe, encoder = held_out - own, full_shot - held_out
    elif ("probe_generalization", _FULL_SHOT) in value and ("encoder_generalization", _FULL_SHOT) in value:
        probe, encoder = value["probe_generalization", _FULL_SHOT], value["encoder_generalization", _FULL_SHOT]
        own = full_shot - probe - encoder
    else:
        return None
    twin, protocol = risks.get((_TWIN, _OWN_TRAINING_SET), (None, ""))
    return {
        "approximation": twin,
        "usability": None if twin is None else own - twin,
        "approximation_plus_usability": own,
        "probe_generalization": probe,
        "encoder_generalization": encoder,
        "approximation_assumed": protocol == ASSUMED_ZERO,
    }
