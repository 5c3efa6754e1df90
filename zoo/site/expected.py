"""Expected errors on ImageNet-1K with all labels, as the first page draws and lists them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..analysis.label_budget import MOST_LABELS, N_CLASSES
from ..cards.catalogue import load_catalogue
from ..choosing.expectations import MEASURED, Basis, ExpectedError, estimate_errors
from ..choosing.ranking import FLATTERING, ON_IMAGENET, rank_encoders
from ..results.derived import select_main_protocol, summaries
from ..results.values import IMAGENET, SETTINGS
from ..results.wording import describe_basis
from .contents import Contents
from .drawing import Fill

FILL_OF: dict[Basis, Fill] = {
    **dict.fromkeys(MEASURED, "full"), "another protocol": "half", "reported probe": "half", "other numbers": "open",
    "similar encoders": "open",
}  # fmt: skip


def choose_fill(one: ExpectedError) -> Fill:
    """The fill of its mark: full where it was measured with so many labels, or with more and with fewer."""
    fill = FILL_OF[one.basis]
    return "half" if fill == "full" and one.how in ("extrapolated", "expected") else fill


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteError:
    """The error of an encoder as the first page has it."""

    error: float  # percent
    low: float | None = None  # 90 % interval; None of a plain measurement
    high: float | None = None
    basis: Basis = "the study"
    is_ranked: bool = False  # could be on the front, as in ranking()
    is_drawn: bool = True
    note: str = ""  # why it is not ranked


def compute_site_errors(contents: Contents) -> tuple[str, dict[str, SiteError]]:
    """The data set whose errors the first page lists, and these by id.

    That is ImageNet-1K, where no error is expected of untrained and toy encoders that were not measured there; if a
    site has no other encoders, the data set that most of them were measured on.
    """
    with contents.reading():
        found = rank_encoders(MOST_LABELS, N_CLASSES, ON_IMAGENET, include_gone=True)
        cards, alike = load_catalogue(), select_main_protocol(summaries(exclude_wrong=True))
        others = {name: why for why, names in found.left_out.items() for name in names if name in contents.entries}
        unranked = estimate_errors({name: cards[name] for name in others}, MOST_LABELS, N_CLASSES, images=ON_IMAGENET)
    bases: dict[bool, Basis] = {True: "the study", False: "another protocol"}
    known = {one.card.id: _standing(one.number, is_ranked=True) for one in found.ranked}
    known |= {one.card.id: _standing(one.number, note=one.why) for one in found.beside}
    notes = {name: "saw its labels" if why == FLATTERING else why for name, why in others.items()}
    known |= {name: _standing(one, is_drawn=False, note=notes[name]) for name, one in unranked.items()}
    for name, entry in contents.entries.items():
        error, basis = entry.error(SETTINGS[0].name), bases[name in alike]
        if error is not None and (name in others or name not in known):
            known[name] = SiteError(error=error, basis=basis, note=notes.get(name, ""))
    known = {name: known[name] for name in contents.entries if name in known}
    counts = Counter(dataset for entry in contents.entries.values() for dataset in entry.elsewhere)
    if known or not counts:
        is_nobody = not any(one.is_drawn for one in known.values())
        return IMAGENET, {name: replace(one, is_drawn=one.is_drawn or is_nobody) for name, one in known.items()}
    dataset = max(counts, key=lambda name: counts[name])
    errors = {name: entry.error(SETTINGS[0].name, dataset) for name, entry in contents.entries.items()}
    return dataset, {
        name: SiteError(error=error, basis="this project") for name, error in errors.items() if error is not None
    }


def count_kinds(known: Mapping[str, SiteError]) -> list[tuple[str, int]]:
    """How many of these errors are of each kind, in words, measured ones first."""
    counts = Counter(one.basis for one in known.values())
    return [(describe_basis(basis), counts[basis]) for basis in FILL_OF if counts[basis]]


def _standing(one: ExpectedError, **more: Any) -> SiteError:
    low, high = one.interval
    return SiteError(error=one.error, low=low, high=high, basis=one.basis, **more)
