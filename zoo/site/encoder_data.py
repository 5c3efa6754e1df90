"""The encoders as data for scripts: one row an encoder, in the order in which the first page lists them."""

from __future__ import annotations

from collections import Counter
from typing import Any

from ..cards.schema import Missing
from ..results.facts import FACTS, reported_mark
from ..results.reported_values import PROTOCOLS
from ..results.values import IMAGENET, SETTINGS, RiskDecomposition, Summary
from .contents import Contents, Entry
from .rendering import Renderer

ASSET, CONSTANT = "encoders.js", "ENCODERS"
_OF_CARD = {  # field -> column of zoo.results.facts
    "mode": "ssl_mode",
    "method": "objective",
    "card_family": "card_family",
    "network": "architecture_exact",
    "family": "family",
    "n_parameters": "n_parameters",
    "dim": "z_dim",
    "gflops": "gflops",
    "px": "img_size",
    "released": "released",
    "licence": "license",
    "commercial": "commercial_use",
    "access": "availability",
    "domain": "domain",
    "image_sets": "image_sets",
}
COMPONENTS = (
    "approximation", "usability", "approximation_plus_usability", "probe_generalization", "encoder_generalization",
)  # fmt: skip
FIELDS = (
    "id", "file", *_OF_CARD, *(setting.name for setting in SETTINGS), *COMPONENTS, "approximation_assumed", "reported",
    "mine", "wrong", "elsewhere",
)  # fmt: skip
"""What a row has, in order.

Facts of the card and errors in percent are null where they have no value; errors and components also where an erratum
excludes them. ``reported`` has by the short name of a protocol the accuracy as it is printed, with ``*`` behind it, or
``*!`` if it is doubtful. ``elsewhere`` has by data set the error with all its labels. Errors and components are
those on :func:`main_dataset`. ``mine`` is true of a card of the user's, ``wrong`` where an erratum excludes
measurements.
"""


def encoder_data(contents: Contents) -> dict[str, Any]:
    """Names of the fields and a row an encoder."""
    main = main_dataset(contents)
    return {"fields": list(FIELDS), "rows": [_row(entry, main) for entry in in_order(contents)]}


def encoder_data_script(contents: Contents, renderer: Renderer) -> str:
    """Path of the script that assigns them to ``ENCODERS``; made once a site."""
    if ASSET not in renderer.assets:
        renderer.data(ASSET, CONSTANT, encoder_data(contents))
    return renderer.assets[ASSET].path


def in_order(contents: Contents) -> list[Entry]:
    """First what was measured with all labels, the lowest error first; then what somebody reported an accuracy on
    ImageNet-1K of, the newest first; then all others, the newest first; of one month by name."""
    dataset = main_dataset(contents)

    def key(entry: Entry) -> tuple[float, int, str]:
        error = error_of(entry, "100%", dataset)
        if error is not None:
            return error, 0, entry.id.casefold()
        released = entry.card.released
        month = 0 if isinstance(released, Missing) else int(released.replace("-", ""))
        return (1000.0 if entry.subject.reported else 2000.0), -month, entry.id.casefold()

    return sorted(contents.entries.values(), key=key)


def main_dataset(contents: Contents) -> str:
    """The data set whose errors the first page lists: ImageNet-1K, or without any there the most frequent one."""
    entries = contents.entries.values()
    counts = Counter(dataset for entry in entries for dataset in entry.elsewhere)
    if not counts or any(entry.right is not None for entry in entries):
        return IMAGENET
    return max(counts, key=lambda dataset: counts[dataset])


def risks_on(entry: Entry, dataset: str) -> Summary | None:
    """Its risks on a data set, without what an erratum excludes."""
    return entry.right if dataset == IMAGENET else entry.elsewhere.get(dataset)


def error_of(entry: Entry, setting: str, dataset: str = IMAGENET) -> float | None:
    """Its error in percent in one of the five settings, unless it is unmeasured or excluded."""
    found = risks_on(entry, dataset)
    return None if found is None else found.errors.get(setting)


def _row(entry: Entry, dataset: str) -> list[Any]:
    subject, found = entry.subject, risks_on(entry, dataset)
    facts = [_value(FACTS[column].of(subject)) for column in _OF_CARD.values()]
    parts = found.decomposition if found is not None else None
    elsewhere = {name: error for name in entry.elsewhere if (error := error_of(entry, "100%", name)) is not None}
    reported = {PROTOCOLS[name].short: f"{one.printed}{reported_mark(one)}" for name, one in subject.reported.items()}
    return [
        entry.id, entry.file, *facts, *(error_of(entry, setting.name, dataset) for setting in SETTINGS),
        *(_component(parts, name) for name in COMPONENTS), parts is not None and parts.approximation_assumed, reported,
        entry.is_mine, subject.is_wrong, elsewhere,
    ]  # fmt: skip


def _component(parts: RiskDecomposition | None, name: str) -> Any:
    """Four decimals, more than any figure shows; errors have every digit, as the files of results."""
    value = None if parts is None else _value(getattr(parts, name))
    return None if value is None else round(value, 4)


def _value(value: Any) -> Any:
    return None if isinstance(value, Missing) else list(value) if isinstance(value, tuple) else value
