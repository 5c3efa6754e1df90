"""What the pages show: every encoder with its card, its measurements and what others reported of it."""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from fnmatch import translate
from typing import Any

from ..cards.catalogue import load_catalogue
from ..cards.costs import Cost, find_cost, load_shipped_costs
from ..cards.representations import MARK
from ..cards.schema import EncoderCard, Missing
from ..errors import QueryError
from ..files import use_shipped_only
from ..results.derived import seed_means, summaries
from ..results.facts import Fact, Subject, list_subjects
from ..results.reported import reported_numbers
from ..results.reported_values import ReportedNumber
from ..results.values import IMAGENET, SeedMean, Summary
from ..results.wording import PROBE
from ..weights.locations import format_location, format_portable_location

TITLE = "SSL Zoo"
N_GROUPS = 8  # colours and shapes that a plot has
OTHER = "other"
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")
_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)  # which Windows keeps for devices


@dataclass(frozen=True, slots=True)
class SiteEntry:
    """One encoder of the site."""

    file: str  # stem of its page and its badge: encoders/FILE.html, badges/FILE.svg
    subject: Subject  # card and ImageNet-1K risks, for the columns of zoo.results.facts
    means: tuple[SeedMean, ...]  # everything else that was measured
    own_means: frozenset[SeedMean]  # those of them that come from the user's folder
    reported: tuple[ReportedNumber, ...]
    cost: Cost | None
    is_mine: bool  # the card is the user's
    elsewhere: Mapping[str, Summary] = field(default_factory=dict)  # risks on other data sets, as ``right``

    @property
    def id(self) -> str:
        """Id of the encoder."""
        return self.subject.id

    @property
    def card(self) -> EncoderCard:
        """Its card."""
        return self.subject.card

    @property
    def summary(self) -> Summary | None:
        """Its risks on ImageNet-1K, with those that an erratum excludes; :attr:`right` is without them."""
        return self.subject.measured

    @property
    def right(self) -> Summary | None:
        """Its risks on ImageNet-1K that no erratum excludes."""
        return self.subject.summary

    @property
    def mode(self) -> str:
        """How it was trained: the mode of its objective, "other" where that is not recorded."""
        mode = self.card.objective.mode
        return OTHER if isinstance(mode, Missing) else mode

    def risks_on(self, dataset: str) -> Summary | None:
        """Its risks on a data set, without what an erratum excludes."""
        return self.right if dataset == IMAGENET else self.elsewhere.get(dataset)

    def error(self, setting: str, dataset: str = IMAGENET) -> float | None:
        """Its error in percent in one of the five settings, unless it is unmeasured or excluded."""
        found = self.risks_on(dataset)
        return None if found is None else found.errors.get(setting)


@dataclass(frozen=True, slots=True)
class Contents:
    """Everything that a site shows."""

    title: str
    entries: dict[str, SiteEntry]  # by id, in the order of the catalogue
    with_mine: bool
    only: tuple[str, ...]  # patterns that chose the encoders; () for all
    with_studies: bool = True  # False leaves out the folder studies/, whose first run takes minutes

    @property
    def n_measured(self) -> int:
        """Encoders with an error on ImageNet-1K that no erratum excludes, which every page counts so."""
        return sum(entry.right is not None for entry in self.entries.values())

    @contextmanager
    def reading(self) -> Iterator[None]:
        """What pages read of cards and results in the block is what the site shows: the user's too, or shipped ones."""
        with nullcontext() if self.with_mine else use_shipped_only():
            yield


def gather(*, only: Sequence[str] = (), with_mine: bool = False, title: str = TITLE) -> Contents:
    """Reads cards and results of the encoders of a site; QueryError if a pattern finds none.

    ``only`` has ids and globs, without regard to case; all encoders if empty. ``with_mine`` adds the encoders and
    measurements of the user's folder, which are marked.
    """
    with use_shipped_only():
        shipped = set(load_catalogue().with_unlisted)
    with nullcontext() if with_mine else use_shipped_only():
        found = _entries(only, shipped)
    return Contents(title, {entry.id: entry for entry in found}, with_mine, tuple(only))


def rank_training_modes(contents: Contents) -> list[str]:
    """Training modes with a colour of their own, by their share of what is measured and of what is reported."""
    entries = contents.entries.values()
    measured = Counter(entry.mode for entry in entries if entry.right is not None)
    measured = measured or Counter(entry.mode for entry in entries if entry.elsewhere)
    reported = Counter(entry.mode for entry in entries if entry.subject.reported)
    shares = {
        mode: measured[mode] / max(measured.total(), 1) + reported[mode] / max(reported.total(), 1)
        for mode in {*measured, *reported} - {OTHER}
    }
    return sorted(shares, key=lambda mode: (-shares[mode], mode))[: N_GROUPS - 1]


def remove_private(fact: Fact, subject: Subject) -> Any:
    """A fact without what is private: keys in the address of a release, paths of this machine."""
    value = fact.of(subject)
    return (
        format_location(format_portable_location(value)) if fact.name == "where" and isinstance(value, str) else value
    )


def _entries(only: Sequence[str], shipped: Collection[str]) -> list[SiteEntry]:
    cards = load_catalogue()
    features = dict.fromkeys(mean.encoder for mean in seed_means() if MARK in mean.encoder)  # which no catalogue lists
    everyone = [*cards.with_unlisted, *features]
    ids = _chosen(only, [one for one in everyone if cards.lists(one)], everyone)
    with use_shipped_only():
        shipped_means = set(seed_means(ids))
    means: defaultdict[str, list[SeedMean]] = defaultdict(list)
    for mean in seed_means(ids):
        means[mean.encoder].append(mean)
    reported: defaultdict[str, list[ReportedNumber]] = defaultdict(list)
    for number in reported_numbers():
        reported[number.encoder].append(number)
    probed = dict.fromkeys(
        mean.dataset for some in means.values() for mean in some if mean.metric == PROBE and mean.dataset != IMAGENET
    )
    elsewhere = {dataset: summaries(exclude_wrong=True, dataset=dataset, encoders=ids) for dataset in probed}
    costs = load_shipped_costs()
    files = build_file_names(ids)
    return [
        SiteEntry(
            file=files[subject.id],
            subject=subject,
            means=tuple(means[subject.id]),
            own_means=frozenset(mean for mean in means[subject.id] if mean not in shipped_means),
            reported=tuple(reported[subject.id]),
            cost=costs.get(subject.id) or find_cost(subject.card),
            is_mine=subject.id not in shipped,
            elsewhere={dataset: some[subject.id] for dataset, some in elsewhere.items() if subject.id in some},
        )
        for subject in list_subjects(ids, with_risks=True, exclude_wrong=True)
    ]


def _chosen(patterns: Sequence[str], listed: Sequence[str], everyone: Sequence[str]) -> list[str]:
    """Ids that the patterns find, in their order; encoders of experiments by patterns that find no other."""
    if not patterns:
        return list(listed)
    found: set[str] = set()
    for pattern in patterns:
        is_like = re.compile(translate(pattern.casefold())).match
        matching = [one for one in listed if is_like(one.casefold())]
        matching = matching or [one for one in everyone if is_like(one.casefold())]
        if not matching:
            raise QueryError(
                f"No encoder has a name like {pattern!r}, expected an id or a glob such as 'dino_*'; run 'zoo list' to "
                "see them all."
            )
        found.update(matching)
    return [one for one in everyone if one in found]


def build_file_names(ids: Iterable[str]) -> dict[str, str]:
    """Names of files for ids, safe on every file system and in every address, and distinct without regard to case.

    >>> build_file_names(["dino_vitS16", "mine@layer=avg+cls"])
    {'dino_vitS16': 'dino_vitS16', 'mine@layer=avg+cls': 'mine-layer-avg-cls-a064e9'}
    """
    ids = list(ids)
    folded = Counter(one.casefold() for one in ids)
    names = {}
    for one in ids:
        safe = _UNSAFE.sub("-", one)
        if safe != one or folded[one.casefold()] > 1 or safe[:1] in "-." or _RESERVED.fullmatch(safe):
            safe = f"{safe.lstrip('-.')}-{hashlib.sha256(one.encode()).hexdigest()[:6]}"
        names[one] = safe
    return names
