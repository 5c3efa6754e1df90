"""The encoders as data for scripts: one row an encoder, in the order in which the first page lists them."""

from __future__ import annotations

from typing import Any

from ..cards.schema import Missing
from ..results.facts import FACTS, reported_mark
from ..results.reported_values import PROTOCOLS
from ..results.values import SETTINGS, RiskDecomposition
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
    "mine", "wrong",
)  # fmt: skip
"""What a row has, in order.

Facts of the card and errors in percent are null where they have no value; errors and components also where an erratum
excludes them. ``reported`` has by the short name of a protocol the accuracy as it is printed, with ``*`` behind it, or
``*!`` if it is doubtful. ``mine`` is true of a card of the user's, ``wrong`` where an erratum excludes measurements.
"""


def encoder_data(contents: Contents) -> dict[str, Any]:
    """Names of the fields and a row an encoder."""
    return {"fields": list(FIELDS), "rows": [_row(entry) for entry in in_order(contents)]}


def encoder_data_script(contents: Contents, renderer: Renderer) -> str:
    """Path of the script that assigns them to ``ENCODERS``; made once a site."""
    if ASSET not in renderer.assets:
        renderer.data(ASSET, CONSTANT, encoder_data(contents))
    return renderer.assets[ASSET].path


def in_order(contents: Contents) -> list[Entry]:
    """First what was measured with all labels, the lowest error first; then what somebody reported an accuracy on
    ImageNet-1K of, the newest first; then all others, the newest first; of one month by name."""

    def key(entry: Entry) -> tuple[float, int, str]:
        error = error_of(entry, "100%")
        if error is not None:
            return error, 0, entry.id.casefold()
        released = entry.card.released
        month = 0 if isinstance(released, Missing) else int(released.replace("-", ""))
        return (1000.0 if entry.subject.reported else 2000.0), -month, entry.id.casefold()

    return sorted(contents.entries.values(), key=key)


def error_of(entry: Entry, setting: str) -> float | None:
    """Its error on ImageNet-1K in percent in one of the five settings, unless it is unmeasured or excluded."""
    return None if entry.right is None else entry.right.errors.get(setting)


def _row(entry: Entry) -> list[Any]:
    subject = entry.subject
    facts = [_value(FACTS[column].of(subject)) for column in _OF_CARD.values()]
    parts = entry.right.decomposition if entry.right is not None else None
    reported = {PROTOCOLS[name].short: f"{one.printed}{reported_mark(one)}" for name, one in subject.reported.items()}
    return [
        entry.id, entry.file, *facts, *(error_of(entry, setting.name) for setting in SETTINGS),
        *(_component(parts, name) for name in COMPONENTS), subject.approximation_is_assumed, reported,
        entry.is_mine, subject.is_wrong,
    ]  # fmt: skip


def _component(parts: RiskDecomposition | None, name: str) -> Any:
    """Four decimals, more than any figure shows; errors have every digit, as the files of results."""
    value = None if parts is None else _value(getattr(parts, name))
    return None if value is None else round(value, 4)


def _value(value: Any) -> Any:
    return None if isinstance(value, Missing) else list(value) if isinstance(value, tuple) else value
