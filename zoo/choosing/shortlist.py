"""A shortlist of encoders for labelled images: good by what is known, and different from each other.

A shortlist is good if its best member is, and no order is that of all images. Errors on the user's images are the
expected ones (:mod:`zoo.choosing.expectations`) plus normal effects that encoders with common traits share on a data
set, whose sizes are estimated. Greedily, the encoder is added that lowers the expected error of the best of the list
most; a standard deviation of the expectation counts against it, and so does half a point a doubling of the parameters.

Never on the list: weights that are gone or of another network, and untrained encoders. Gated weights, and encoders of
special kinds of images such as pathology, only where the condition or the kind of images asks for them or nothing else
passes; toy encoders only where there is no other. Named encoders are taken as named, but for
constraints.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..analysis.covariates import SLOPES, list_covariates
from ..cards.catalogue import load_catalogue
from ..cards.gated_access import GATED
from ..cards.schema import EncoderCard, Missing
from ..errors import QueryError, WeightsUnavailable, format_count
from ..optional import require_extra
from ..results.reported_values import ReportedNumber
from ..storage import is_offline
from ..weights import maintenance
from ..weights.locations import find_package_file, find_shipped_file, get_mirror, is_installed, is_path, resolve_source
from ..weights.lock import find_locked_file as in_lock
from ..weights.store import REGISTERED, format_recorded_name
from .boards import ReportedBoard
from .constraints import Constraints, Filter, LeftOut, apply_filters, build_filters, join_names
from .expectations import ExpectedError, Images, estimate_errors, read_difficulties, read_effect_sizes
from .ranking import NOBODY, UNTOLD, RankedEncoder, is_of_pocket, is_suited

with require_extra("evaluate", needed_for="A shortlist"):
    import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

POINTS_A_DOUBLING = 0.5
"""Points of error that a doubling of the parameters must be worth."""
GATED_REASON = "gated, see --encoders or --where 'access == \"gated\"'"
SPECIAL_REASON = "of special kinds of images, see --domain, such as pathology"
_TIE = 0.02  # share of the gain within which what is here already is preferred
_N_DRAWS = 2_000
_BYTES_A_PARAMETER = 4  # of a file whose size is not known: single precision
_POCKET = "shipped:"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShortlistEntry:
    """One encoder of the shortlist."""

    card: EncoderCard
    why: str  # in one sentence
    fetch_bytes: int | None  # of its weights; None if they are on this machine
    fetch_is_exact: bool  # False if the size is not recorded and stands for four bytes a parameter
    here: str  # where its weights are: "shipped", "package", "cache", "registered", "file"; "" if nowhere
    expected: ExpectedError | None  # None if nothing is known

    @property
    def name(self) -> str:
        """Id of the encoder, as it was asked for."""
        return self.card.id


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortlist:
    """What :func:`select_shortlist` chose, and whom it left out why."""

    chosen: tuple[ShortlistEntry, ...]  # in the order in which they were chosen
    left_out: LeftOut  # ids by reason
    n_passed: int  # encoders that passed everything
    notes: tuple[str, ...]

    @property
    def fetch_bytes(self) -> int:
        """What all weights that are not here cost to download, files that several encoders share counted once."""
        by_file = {_file_of(entry.card): entry.fetch_bytes or 0 for entry in self.chosen}
        return sum(by_file.values())


def select_shortlist(
    n: int | Sequence[str],
    constraints: Constraints | None = None,
    *,
    n_labels: int,
    n_classes: int,
    images: Images | None = None,
    image_px: int | None = None,
    dataset: str | None = None,
    offline: bool = False,
    board: ReportedBoard | None = None,
    seed: int = 0,
) -> Shortlist:
    """Encoders worth a try on labelled images, in the order of the choice.

    ``n`` is how many to choose, or the names of those to take, which only the constraints may remove. What is known is
    brought to ``n_labels / n_classes`` labels per class; ``images`` are those the user's are like, any unless given;
    ``image_px`` is the usual side of the images, for a note on those that see them enlarged; ``dataset`` the name under
    which measurements on these images are recorded; ``offline`` (also by ``ZOO_OFFLINE``) keeps encoders whose weights
    are on this machine; of a ``board`` the best come first, up to half of the list; ``seed`` is that of the drawn
    effects.

    QueryError if no encoder is left, with the nearest; if there are fewer labels than classes, fewer than two classes,
    or ``n`` is not positive. UnknownName if there is no encoder of a given name, or no licence of that name.

    >>> found = select_shortlist(3, Constraints(max_parameters=100_000_000), n_labels=5_000, n_classes=2)
    >>> len(found.chosen), len({entry.card.family for entry in found.chosen})
    (3, 3)
    """
    limits = constraints or Constraints()
    offline = offline or is_offline()
    cards = load_catalogue()
    asked = cards if isinstance(n, int) else list(dict.fromkeys(cards.id_of(name) for name in n))
    if not asked or (isinstance(n, int) and n < 1):
        raise QueryError(f"Got {n!r} encoders to choose, expected at least one.")
    everyone = dict(cards.items()) if asked is cards else {name: cards[name] for name in asked}
    like = images or Images()
    known = estimate_errors(dict(cards.items()), n_labels, n_classes, images=like, dataset=dataset)
    here = find_local_weights(everyone.values())
    candidates = [RankedEncoder(card, known.get(name), here=here[name]) for name, card in everyone.items()]
    passed, left_out = _passed(candidates, limits, like, offline=offline, is_named=not isinstance(n, int))
    on_board = []
    if isinstance(n, int):
        numbers = board.select() if board else {}
        best = sorted((one for one in passed if one.card.id in numbers), key=lambda one: -numbers[one.card.id].value)
        on_board = [_entry(one, _format_reported(numbers[one.card.id])) for one in best[: math.ceil(n / 2)]]
        taken = {entry.name for entry in on_board}
        others = [one for one in passed if one.card.id not in taken]
        entries = [*on_board, *_diverse(others, n - len(taken), like, seed=seed)]
    else:
        entries = [_entry(one, "you named it") for one in passed]
    unfit = (
        []
        if isinstance(n, int)
        else [f"Left out: {join_names(some)}, {why}." for why, some in left_out.items() if some]
    )
    return Shortlist(
        chosen=tuple(entries),
        left_out=left_out,
        n_passed=len(passed),
        notes=(*unfit, *_describe_board(board, len(on_board), n), *_notes(entries, left_out, like, image_px)),
    )


# --- who may be on the list ------------------------------------------------------------------------------------------


def _passed(
    candidates: Sequence[RankedEncoder[ExpectedError | None]],
    constraints: Constraints,
    images: Images,
    *,
    offline: bool,
    is_named: bool,
) -> tuple[list[RankedEncoder[ExpectedError | None]], LeftOut]:
    """Candidates that pass all, those left out by reason; QueryError if none is left."""
    kept, left_out, why = apply_filters(candidates, [*_loadable(offline=offline), *build_filters(constraints)], {})
    if not kept:
        raise QueryError(f"{why}{describe_offline_choice() if offline else ''}")
    if is_named:
        return kept, left_out
    where = constraints.where or ""
    for reason, column, is_one in (
        (GATED_REASON, "access", lambda one: one.card.weights.availability in GATED),
        (SPECIAL_REASON, "domain", lambda one: not is_suited(one.card, images) and not is_of_pocket(one.card)),
        ("toy encoders", "card_family", lambda one: is_of_pocket(one.card)),
        (UNTOLD, "objective", lambda one: one.number is not None and one.number.is_untold),
    ):
        some = [one.card.id for one in kept if is_one(one)]
        if some and len(some) < len(kept) and not re.search(rf"\b{column}\b", where):  # unless asked for
            left_out[reason] = some
            kept = [one for one in kept if not is_one(one)]
    return kept, left_out


def _loadable(*, offline: bool) -> list[Filter]:
    """What no option can ask for: encoders that nobody can load, or that are random."""
    found = [
        Filter("untrained", lambda one: not one.card.is_untrained),
        Filter("weights gone", lambda one: one.card.weights.availability != "gone" or _is_here(one)),
        Filter("weights of another network", lambda one: one.card.weights.availability != "unfit"),
        Filter("no place of the weights recorded", lambda one: not isinstance(one.card.weights.url, Missing)),
    ]
    if offline:
        found.append(Filter("weights not on this machine, and offline", _is_here))
    return found


def _is_here(one: object) -> bool:
    return isinstance(one, RankedEncoder) and bool(one.here)


def describe_offline_choice() -> str:
    """What can be tried without a network, for the end of a message."""
    cards = load_catalogue()
    here = find_local_weights(card for card in cards.values() if not card.is_untrained)
    names = sorted((name for name, where in here.items() if where), key=lambda name: here[name] == "shipped")
    if not names:
        return " Without a network none can be tried here: fetch weights with 'zoo get NAME' where there is one."
    return f" Without a network these can be tried here: {join_names(names)}."


# --- what is on this machine -----------------------------------------------------------------------------------------


def find_local_weights(cards: Iterable[EncoderCard]) -> dict[str, str]:
    """Where the weights of encoders are on this machine, by id; "" where they are not.

    "shipped", "package", "file", "cache" or "registered". Nothing is opened but the records of the cache.
    """
    some = list(cards)
    by_places = maintenance.group_by_places(some)
    own_mirror = get_mirror() is not None
    stored: dict[str, str] = {}
    for shelf in maintenance.list_stores():
        if own_mirror and shelf.kind == "cache":  # with a mirror nothing else is read
            continue
        for item in maintenance.list_store_records(shelf):
            if item.record is not None and item.status is not None:
                where = "registered" if shelf.kind == "registered" else "cache"
                stored |= dict.fromkeys(maintenance.find_loading_encoders(item.record, by_places), where)
    return {card.id: _with_the_system(card) or stored.get(card.id, "") for card in some}


def _with_the_system(card: EncoderCard) -> str:
    """Where weights are that need no cache."""
    url = card.weights.url
    if isinstance(url, Missing) or url.startswith(REGISTERED):
        return ""
    if is_installed(url):
        place = find_shipped_file if url.startswith(_POCKET) else find_package_file
        try:
            place(url)
        except WeightsUnavailable:  # the package is not installed
            return ""
        return url.partition(":")[0].lower()
    if is_path(url):
        path = resolve_source(url).path
        return "file" if path is not None and path.is_file() else ""
    return ""


def fetch_bytes(card: EncoderCard) -> tuple[int, bool]:
    """What the weights of an encoder cost to download, and whether that is recorded, or four bytes a parameter."""
    weights = card.weights
    if not isinstance(weights.size_bytes, Missing):
        return weights.size_bytes, True
    if not isinstance(weights.url, Missing):
        line = in_lock(format_recorded_name(weights.url))
        if line is not None:
            return line.size_bytes, True
    return _BYTES_A_PARAMETER * card.architecture.n_parameters, False


def _file_of(card: EncoderCard) -> str:
    """What tells files of weights apart."""
    url = card.weights.url
    return card.id if isinstance(url, Missing) else url


# --- the choice ------------------------------------------------------------------------------------------------------


def _diverse(
    candidates: Sequence[RankedEncoder[ExpectedError | None]], n: int, images: Images, *, seed: int
) -> list[ShortlistEntry]:
    """The greedy choice of ``n`` candidates, see the head of this module."""
    known = sorted((one for one in candidates if one.number is not None), key=lambda one: one.card.id)
    expected = [one.number for one in known if one.number is not None]
    drawn = draw_errors(
        [one.card for one in known],
        np.array([one.odds for one in expected]),
        np.array([one.sd for one in expected]),
        known_here=[one.basis == "these images" for one in expected],
        images=images,
        seed=seed,
    )
    chosen = select_greedily(drawn, known, n)
    some = [known[i] for i in chosen]
    entries = [_entry(one, _why(one, some[:position])) for position, one in enumerate(some)]
    unknown = [one for one in candidates if one.number is None][: n - len(entries)]
    return entries + [_entry(one, "nothing is known of its errors, and too few others pass") for one in unknown]


def select_greedily(
    drawn: NDArray[np.float32], candidates: Sequence[RankedEncoder[ExpectedError | None]], n: int
) -> list[int]:
    """Places of the ``n`` candidates that are added one by one; ``drawn`` has their errors, (candidates, draws)."""
    most = max(1, math.ceil(n / 6))  # of one family
    best: NDArray[np.float32] | None = None
    left = list(range(len(candidates)))
    chosen: list[int] = []
    while left and len(chosen) < n:
        families = Counter(candidates[i].card.family for i in chosen)
        files = {_file_of(candidates[i].card) for i in chosen}
        allowed = [
            i for i in left if families[candidates[i].card.family] < most and _file_of(candidates[i].card) not in files
        ] or left
        after = drawn[allowed] if best is None else np.minimum(drawn[allowed], best)
        means = after.mean(axis=1, dtype=np.float64)
        place = allowed[_first_of_ties(means, best, [candidates[i] for i in allowed])]
        best = drawn[place] if best is None else np.minimum(best, drawn[place])
        chosen.append(place)
        left.remove(place)
    return chosen


def draw_errors(
    cards: Sequence[EncoderCard],
    odds: NDArray[np.float64],
    sd: NDArray[np.float64],
    *,
    known_here: Sequence[bool],
    images: Images,
    seed: int = 0,
) -> NDArray[np.float32]:
    """Errors of encoders on images that nobody has seen, percent, (encoders, draws), with the price of their size.

    ``odds`` and ``sd`` are what is expected of each, and ``sd`` counts against it: an encoder of which little is known
    is no bet. To those that were not measured on these images (``known_here``) effects are added that they share with
    others on a data set, and on a domain where it is not known.
    """
    generator = np.random.default_rng(seed)
    total = (odds + sd)[:, None] + np.zeros((len(cards), _N_DRAWS), dtype=np.float32)
    new = np.array([0.0 if known else 1.0 for known in known_here])
    traits = list_covariates(cards)
    scopes = ("dataset",) if images.domain and not images.is_unmeasured else ("domain", "dataset")
    scale = read_difficulties()[images.column].scale
    for (trait, scope), sd_of_effect in read_effect_sizes().items():
        size = scale * sd_of_effect
        if scope not in scopes or (images.dataset and scope == "dataset"):
            continue
        if trait in SLOPES:
            slope = generator.normal(0.0, size, _N_DRAWS)
            total += np.outer([float(one[trait]) for one in traits] * new, slope)
            continue
        values = sorted({str(one[trait]) for one in traits})
        effects = dict(
            zip(values, generator.normal(0.0, size, (len(values), _N_DRAWS)).astype(np.float32), strict=True)
        )
        for row, one, fresh in zip(total, traits, new, strict=True):
            row += fresh * effects[str(one[trait])]
    errors = 100 / (1 + np.exp(-total))
    price = [POINTS_A_DOUBLING * math.log2(card.architecture.n_parameters) for card in cards]
    priced: NDArray[np.float32] = (errors + np.array(price)[:, None]).astype(np.float32)
    return priced


def _traits(card: EncoderCard) -> dict[str, str]:
    """What is said of an encoder that adds something to a list; where it is not known, nothing with others."""
    data, objective = card.pretraining.dataset, card.objective.mode
    return {
        "family": card.family,
        "data": card.id if isinstance(data, Missing) else data,
        "objective": card.id if isinstance(objective, Missing) else objective,
        "architecture": card.architecture.family,
    }


def _first_of_ties(
    means: NDArray[np.float64], best: NDArray[np.float32] | None, among: Sequence[RankedEncoder[ExpectedError | None]]
) -> int:
    """Of those that lower the expected error about as much, the first that is here, then the smallest, then by name."""
    lowest = float(means.min())
    gain = abs(lowest) if best is None else float(best.mean(dtype=np.float64)) - lowest
    ties = [i for i, mean in enumerate(means) if mean <= lowest + _TIE * gain]

    def key(i: int) -> tuple[bool, float, str]:
        return not among[i].here, 0.0 if among[i].here else float(means[i]), among[i].card.id

    return min(ties, key=key)


# --- words -----------------------------------------------------------------------------------------------------------


def _entry(one: RankedEncoder[ExpectedError | None], why: str) -> ShortlistEntry:
    n_bytes, is_exact = fetch_bytes(one.card)
    return ShortlistEntry(
        card=one.card,
        why=why,
        fetch_bytes=None if one.here else n_bytes,
        fetch_is_exact=bool(one.here) or is_exact,
        here=one.here,
        expected=one.number,
    )


_NEW = {
    "family": "the family {}",
    "data": "training on {}",
    "objective": "{} objectives",
    "architecture": "the {} architecture",
}


def _why(one: RankedEncoder[ExpectedError | None], before: Sequence[RankedEncoder[ExpectedError | None]]) -> str:
    """One sentence: what is expected of it, and what it has that those before it have not."""
    assert one.number is not None
    on = "on these images" if one.number.basis == "these images" else "expected"
    error = f"{one.number.error:.1f} ± {one.number.spread:.1f} % {on} ({one.number.source})"
    known = "" if not one.here else "; its weights are on this machine"
    if not before:
        return f"the lowest for its size, {error}{known}"
    traits, seen = _traits(one.card), [_traits(other.card) for other in before]
    new = [
        words.format(traits[trait].replace("_", " "))
        for trait, words in _NEW.items()
        if traits[trait] != one.card.id and traits[trait] not in {of[trait] for of in seen}
    ]
    if not new:
        return f"low though like others of the list, {error}{known}"
    return f"adds {join_names(new)}, {error}{known}"


def _format_reported(number: ReportedNumber) -> str:
    return (
        f"{number.value:.1f} % {number.metric.replace('_', ' ').replace('iou', 'IoU')} on {number.dataset} as reported"
    )


def _describe_board(board: ReportedBoard | None, n_on_board: int, n: object) -> list[str]:
    """What a shortlist rests on for which there is a board of reported numbers."""
    if board is None or not isinstance(n, int):
        return []
    return [
        f"The shortlist rests on {board.protocol} ({board.dataset}) for {format_count(n_on_board, 'encoder')}; others "
        "are there by expected errors of linear probes of whole images, which do not tell masks."
    ]


def _notes(
    entries: Sequence[ShortlistEntry], left_out: Mapping[str, Sequence[str]], images: Images, image_px: int | None
) -> list[str]:
    notes = []
    if any(entry.expected is not None and entry.expected.basis != "these images" for entry in entries):
        notes.append(
            f"Expected errors are those of a linear probe on {images.words} with as many labels per class: they say "
            "who is worth a try; yours may be easier or harder for all."
        )
    if images.is_unmeasured:
        notes.append(f"N{NOBODY.format(images.domain)[1:]} rest on similar encoders.")
    if image_px is not None:
        enlarged = [entry.card.preprocess.crop_px for entry in entries if entry.card.preprocess.crop_px >= 4 * image_px]
        if enlarged:
            seen = format_count(len(entries), "encoder sees", "encoders see")
            notes.append(
                f"The images have about {image_px} pixels a side; {len(enlarged)} of {seen} them enlarged to "
                f"{min(enlarged)} pixels or more."
            )
    if special := left_out.get(SPECIAL_REASON):
        notes.append(f"Left out: {format_count(len(special), 'encoder')} {SPECIAL_REASON}.")
    return notes
