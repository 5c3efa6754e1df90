"""The page of choices: encoders ranked by the error to expect, for labels per class, a kind of images, and limits.

Ranks are those of :func:`zoo.choosing.ranking.rank_encoders`, drawn here for :data:`START` labels of ImageNet-1K. For
the script Python writes what each encoder adds to the log odds of an error on each kind of images, as
results/expected.tsv has it; the script adds the difficulty of the images at each of :data:`STEPS`, and filters, sorts
and ties encoders.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..analysis.label_budget import N_CLASSES
from ..cards.catalogue import load_catalogue
from ..cards.gated_access import GATED
from ..cards.licences import LICENCE_WORDS
from ..cards.schema import EncoderCard, Missing, format_fact
from ..cards.throughput import Device, estimate_throughput, list_devices
from ..choosing.constraints import ACCESS_WORDS, NOT_GONE, Constraints, build_filters, find_known_cost
from ..choosing.expectations import (
    BASIS_CODES,
    HOWS,
    LEAST_APART,
    MEASURED,
    OVERALL,
    ExpectedError,
    Images,
    compute_label_scale,
    estimate_errors,
    find_farthest_place,
    interpolate_difficulty,
    read_difficulties,
    scale_sd,
)
from ..choosing.ranking import (
    DEVIATES,
    N_RACERS,
    ON_IMAGENET,
    TOO_MANY,
    UNTOLD,
    RankedEncoder,
    Ranking,
    is_suited,
    is_tied,
    is_worse,
    rank_encoders,
    select_first_networks,
    select_racers,
)
from ..errors import format_list
from ..results.evidence import list_datasets
from ..results.facts import format_points, format_short_number
from ..results.values import IMAGENET, SETTINGS
from .contents import Contents
from .drawing import FILLS, LIVE, Axis, PlotPoint, draw_scatter
from .expected import FILL_OF, choose_fill
from .first_page import format_interval_ends
from .rendering import File, SiteRenderer, get_encoder_page

if TYPE_CHECKING:
    from markupsafe import Markup

STEPS = (
    1_000, 1_500, 2_000, 2_500, 3_000, 4_000, 5_000, 7_000, 10_000, 12_811, 20_000, 30_000, 40_000, 50_000, 70_000,
    100_000, 150_000, 200_000, 300_000, 400_000, 500_000, 700_000, 1_000_000, 1_281_167,
)  # fmt: skip
"""Labels of ImageNet at which the slider stops, from one per class to all; the measured settings are among them."""
START = 10_000
"""Labels with which the page begins: ten per class."""
FRONT_GROUPS = ("on the front", "statistically tied with the front", "worse beyond a tie")
LISTED = 100  # encoders of the table before all are asked for
_N_NEXT = 3  # encoders that the next command measures
_N_BESIDE = 5  # encoders without a rank that are named
_FIELDS = (
    "id", "file", "parameters", "dim", "licence", "licensed", "may", "gone", "gated", "farthest", "domains", "mine",
    "sets", "network", "basis", "slope", "slope_sd", "spread", "shared", "family", "own",
)  # fmt: skip
_LICENCES = {
    "any": "any",
    "permissive": "permissive: MIT, Apache-2.0 or BSD, of code and weights",
    "commercial": "commercial use allowed",
    "conditions": "commercial use allowed, also on conditions",
}


def build_files(contents: Contents, renderer: SiteRenderer) -> Iterator[File]:
    """The page, and the data of its script."""
    with contents.reading():
        found = rank_encoders(START, N_CLASSES, ON_IMAGENET)
        few, everyone = (rank_encoders(n, N_CLASSES, ON_IMAGENET, include_gone=True) for n in (START, STEPS[-1]))
        cards = {one.card.id: one.card for some in (few, everyone) for one in (*some.ranked, *some.beside)}
        cards = {name: cards[name] for name in sorted(cards) if name in contents.entries}
        common: dict[str, Any] = {"title": "Choose an encoder for your images and labels", "kind": "choose"}
        if not cards:
            yield renderer.page("choose.html.jinja", "choose.html", rows=[], **common)
            return
        never = _count_left_out(everyone, contents)  # whatever is asked for
        budget = _budget(contents, cards) | {"never": [f"{n} ({reason})" for reason, n in never.items()]}
    ranked = [one for one in found.ranked if one.card.id in contents.entries]
    sets = Counter(name for card in cards.values() for name in _image_sets(card) or ())
    racers = select_racers(ranked)
    figure, front = _figure(ranked, contents) if ranked else ("", [])  # of special images: others can be asked for
    yield renderer.page(
        "choose.html.jinja",
        "choose.html",
        later=renderer.data("budget.js", "BUDGET", budget),
        rows=[_row(place, one, ranked[0].number, contents) for place, one in enumerate(ranked[:LISTED], start=1)],
        n_ranked=len(ranked),
        n_ties=sum(is_tied(one.number, ranked[0].number) for one in ranked),
        beside=_beside_words([one for one in found.beside if one.card.id in contents.entries]),
        left_out=dict(sorted(_count_left_out(found, contents).items(), key=lambda one: one[0] in never)),
        figure=figure,
        front=front,
        steps=STEPS,
        start=STEPS.index(START),
        measured_steps=[STEPS.index(setting.n_labels) for setting in reversed(SETTINGS)],
        label=describe_labels(START),
        licences=[(word, _LICENCES.get(word, word)) for word in LICENCE_WORDS],
        kinds=_kinds(),
        devices=[one.name for one in list_devices()],
        sets=sorted(sets.items(), key=lambda pair: (-pair[1], pair[0])),
        start_labels=START,
        racers=[(one.card.id, get_encoder_page(contents.entries[one.card.id])) for one in racers],
        next_encoders=",".join(
            [one.card.id for one in racers] or select_first_networks((one.card for one in ranked), _N_NEXT)
        ),
        **common,
    )  # fmt: skip


def _count_left_out(found: Ranking[ExpectedError], contents: Contents) -> dict[str, int]:
    """How many encoders of the site a ranking leaves out, by why."""
    counts = {
        _drop_option(why): sum(map(contents.entries.__contains__, names)) for why, names in found.left_out.items()
    }
    return {why: n for why, n in counts.items() if n}


def describe_labels(n_labels: int) -> str:
    """A number of labels of ImageNet, by class.

    >>> describe_labels(1_500), describe_labels(12_811), describe_labels(1_000)
    ('1.5 labels per class', '12.8 labels per class', '1 label per class')
    """
    a_class = n_labels / N_CLASSES
    short = f"{a_class:,.0f}" if a_class >= 100 or a_class == int(a_class) else f"{a_class:.1f}"
    return f"{short} label{'s' * (short != '1')} per class"


def find_front_groups(
    ranked: Sequence[RankedEncoder[ExpectedError]], size: Callable[[EncoderCard], float]
) -> list[int]:
    """For each encoder the number of its group of :data:`FRONT_GROUPS`, from 1; they come by rising error.

    An encoder is on the front if no other has a lower or equal error and is no larger, but for its equals. It is worse
    if one that is no larger has a lower error beyond a tie; the others are in between.
    """
    groups: list[int] = []
    for place, one in enumerate(ranked):
        smaller = [other.number for other in ranked[:place] if size(other.card) <= size(one.card)]
        groups.append(1 if not smaller else 3 if any(is_worse(one.number, other) for other in smaller) else 2)
    return groups


@dataclass(frozen=True, slots=True)
class EncoderKind:
    """Images that can be chosen."""

    id: str  # data set or domain
    words: str
    group: str  # of the list
    images: Images
    option: str  # of zoo recommend


def _kinds() -> list[EncoderKind]:
    """ImageNet-1K first, then domains and data sets, each with the number of data sets or its domain."""
    known, sets = read_difficulties(), list_datasets()
    domains = []
    for name, one in sorted(known.items()):
        if name not in sets and name != OVERALL:
            words = f"{name} ({one.n} data set{'s' * (one.n != 1)})"
            domains.append(EncoderKind(name, words, "Any images of a kind", Images("", name), f"--domain {name}"))
    single = []
    for name in filter(sets.__contains__, known):
        title, domain = sets[name].title, sets[name].domain
        like = Images(name, domain)
        single.append(EncoderKind(name, f"{title} ({domain})", "Like those of a data set", like, f"--like {name}"))
    single.sort(key=lambda one: one.words.casefold())
    first = EncoderKind(IMAGENET, "ImageNet-1K", "", ON_IMAGENET, "")
    return [first, *domains, *(one for one in single if one.id != IMAGENET)]  # fmt: skip


def _budget(contents: Contents, cards: dict[str, EncoderCard]) -> dict[str, Any]:
    """What the script ranks by: facts of encoders, difficulties at each stop, and what encoders add to them."""
    kinds, entries = _kinds(), contents.entries
    here = [estimate_errors(load_catalogue(), n, N_CLASSES, images=ON_IMAGENET) for n in STEPS]
    elsewhere = estimate_errors(cards, START, N_CLASSES)
    slopes = _slopes(cards)
    added = {one.id: _added(cards, one.images, STEPS[-1]) for one in kinds}
    spreads, shared = _spreads(cards), _shared(cards)
    networks: dict[str, int] = {}
    families: dict[str, int] = {}
    measured = {setting.n_labels for setting in SETTINGS}  # whose errors have few digits: no half is rounded twice
    words = {word: one for word in LICENCE_WORDS for one in build_filters(Constraints(licence=word))}
    words |= {word: one for word in ACCESS_WORDS for one in build_filters(Constraints(access=word))}
    _, high = ExpectedError(odds=0.0, sd=1.0, new_sd=1.0, basis="similar encoders", source="").interval
    rows = []
    for name, card in cards.items():
        at_steps = [one[name] for one in here]
        is_own = entries[name].is_mine or any(one.basis in MEASURED for one in at_steps)
        slope, slope_sd = slopes[name]
        url, licence, sets = card.weights.url, card.licence.weights, _image_sets(card)
        fitting = {one.images.domain for one in kinds if is_suited(card, one.images)}
        errors = [
            [one.error if n in measured else round(one.error, 5), round(1e5 * one.sd), HOWS.index(one.how)]
            for n, one in zip(STEPS, at_steps, strict=True)
        ]
        rows.append(
            [
                name,
                None if entries[name].file == name else entries[name].file,
                card.architecture.n_parameters,
                card.representation.dim,
                _name_licence(card),
                int(not isinstance(licence, Missing)),
                [word for word, limit in words.items() if limit.keeps(RankedEncoder(card, at_steps[0]))],
                int(not NOT_GONE.keeps(RankedEncoder(card, at_steps[0]))),
                int(card.weights.availability in GATED),
                round(find_farthest_place(card), 4),
                None if is_suited(card, Images()) else sorted(fitting),
                int(entries[name].is_mine),
                sets,
                networks.setdefault(name if isinstance(url, Missing) else url, len(networks)),
                BASIS_CODES[at_steps[STEPS.index(START)].basis] + BASIS_CODES[elsewhere[name].basis],
                _hundredths(slope),
                _hundredths(slope_sd),
                _hundredths(spreads[name]),
                shared[name],
                families.setdefault(card.family, len(families)),
                errors if is_own else None,
            ]
        )
    places = [compute_label_scale(n / N_CLASSES) for n in STEPS]
    steps = zip(STEPS, places, strict=True)
    return {
        "fields": _FIELDS,
        "rows": rows,
        "steps": [{"labels": n, "place": place, "text": describe_labels(n)} for n, place in steps],
        "start": STEPS.index(START),
        "kinds": [
            {
                "id": one.id,
                "domain": one.images.domain,
                "words": one.images.words,
                "option": one.option,
                "classes": list_datasets()[one.id].n_classes if one.id in list_datasets() else None,
                "level": [round(interpolate_difficulty(one.images, place), 8) for place in places],
                "floor": next(iter(estimate_errors(cards, START, N_CLASSES, images=one.images).values())).floor,
                "scale": read_difficulties()[one.images.column].scale,
                "mean": [_hundredths(mean) for mean, _ in added[one.id].values()],
                "sd": [_hundredths(sd) for _, sd in added[one.id].values()],
            }
            for one in kinds
        ],
        "deviates": DEVIATES,
        "leastApart": LEAST_APART,
        "scaleSd": scale_sd(),
        "reach": math.log(high / (100 - high)),  # of an interval, in standard deviations of its log odds
        "hows": HOWS,
        "bases": {code: basis for basis, code in BASIS_CODES.items()},
        "devices": [_speeds(one, cards) for one in list_devices()],
        "groups": FRONT_GROUPS,
        "fills": FILLS,
        "fillOf": FILL_OF,
        "listed": LISTED,
        "beside": _N_BESIDE,
        "racers": N_RACERS,
        "tooMany": TOO_MANY,
        "reasons": {name: _drop_option(one.reason) for name, one in {**words, "gone": NOT_GONE}.items()}
        | {"untold": UNTOLD},
    }  # fmt: skip


def _added(cards: dict[str, EncoderCard], images: Images, n_labels: int) -> dict[str, tuple[float, float]]:
    """What encoders add to the difficulty of images, and its standard deviation, both in units of its scale."""
    scale, level = (
        read_difficulties()[images.column].scale,
        interpolate_difficulty(images, compute_label_scale(n_labels / N_CLASSES)),
    )
    found = estimate_errors(cards, n_labels, N_CLASSES, images=images)
    return {name: ((found[name].odds - level) / scale, found[name].sd / scale) for name in cards}


def _slopes(cards: dict[str, EncoderCard]) -> dict[str, tuple[float, float]]:
    """How what encoders add grows with the place of labels, and the standard deviation of that.

    Of encoders of the user's, of which nothing is estimated, this is an approximation.
    """
    few, many = (_added(cards, Images(), n) for n in (START, STEPS[-1]))
    place = compute_label_scale(START / N_CLASSES)
    return {
        name: (
            (few[name][0] - many[name][0]) / place,
            math.sqrt(max(few[name][1] ** 2 - many[name][1] ** 2, 0.0)) / place,
        )
        for name in cards
    }


def _shared(cards: dict[str, EncoderCard]) -> dict[str, list[float]]:
    """What errors of encoders share, and at last what those of a family do: with any labels, and along their place."""
    scale, place = read_difficulties()[OVERALL].scale, compute_label_scale(START / N_CLASSES)
    few, many = (estimate_errors(cards, n, N_CLASSES) for n in (START, STEPS[-1]))
    return {
        name: [
            _hundredths(one / scale)
            for one in (
                *many[name].shared,
                many[name].family_sd,
                math.sqrt(max(few[name].family_sd ** 2 - many[name].family_sd ** 2, 0.0)) / place,
            )
        ]
        for name in cards
    }


def _spreads(cards: dict[str, EncoderCard]) -> dict[str, float]:
    """Standard deviations of what encoders add on one data set of a kind, in units of the scale of the kind.

    Of encoders of the user's, of which nothing is estimated, this is an approximation.
    """
    scale = read_difficulties()[OVERALL].scale
    found, added = estimate_errors(cards, START, N_CLASSES), _added(cards, Images(), START)
    squares = {
        name: (found[name].new_sd ** 2 - found[name].sd ** 2) / scale**2 - (scale_sd() * added[name][0]) ** 2
        for name in cards
    }
    return {name: math.sqrt(max(square, 0.0)) for name, square in squares.items()}


def _hundredths(value: float) -> float:
    """Whole ones as results/expected.tsv has them, but for specialists on their images."""
    rounded = round(100 * value, 4)
    return int(rounded) if rounded == int(rounded) else rounded


def _image_sets(card: EncoderCard) -> list[str] | None:
    sets = card.pretraining.image_sets
    return None if isinstance(sets, Missing) else list(sets)


def _speeds(device: Device, cards: dict[str, EncoderCard]) -> dict[str, Any]:
    """Images per second of all encoders on a device: value, and ends of the interval where it is expected."""
    speeds = [estimate_throughput(card, device, cost=find_known_cost(card)) for card in cards.values()]
    numbers = [
        None if one is None else [one.value, *([] if one.is_measured else [one.low, one.high])] for one in speeds
    ]
    return {
        "name": device.name,
        "how": f"{device.precision}, {device.how}",
        "speed": [of and [float(f"{number:.4g}") for number in of if number is not None] for of in numbers],
    }


def _name_licence(card: EncoderCard) -> str:
    return format_fact(card.licence.weights).replace("LicenseRef-", "")


def _drop_option(reason: str) -> str:
    """A reason without the option of the command, for which the page has a box."""
    return reason.partition(", see --")[0]


def _row(place: int, one: RankedEncoder[ExpectedError], first: ExpectedError, contents: Contents) -> dict[str, Any]:
    """An encoder of the table."""
    entry = contents.entries[one.card.id]
    return {
        "entry": entry,
        "href": get_encoder_page(entry),
        "rank": f"{place}{'=' * is_tied(one.number, first)}",
        "is_tie": is_tied(one.number, first),
        "error": format_points(one.number.error),
        "interval": format_interval_ends(*one.number.interval),
        "basis": one.number.rests_on,
        "parameters": format_short_number(one.card.architecture.n_parameters),
        "licence": _name_licence(one.card),
        "is_licensed": not isinstance(one.card.licence.weights, Missing),
    }


def _beside_words(beside: Sequence[RankedEncoder[ExpectedError]]) -> list[str]:
    """Encoders without a rank, the first ones by why."""
    lines = []
    for why in sorted({one.why for one in beside}):
        some = [f"{one.card.id} ({format_points(one.number.error)} %)" for one in beside if one.why == why]
        lines.append(f"Without a rank, {why}: {format_list(some, _N_BESIDE)}.")
    return lines


def _figure(
    ranked: Sequence[RankedEncoder[ExpectedError]], contents: Contents
) -> tuple[Markup, list[tuple[str, str, str, str]]]:
    """The plot of error against parameters; id, page, size and error of those on the front, smallest first."""
    groups = find_front_groups(ranked, lambda card: card.architecture.n_parameters)
    marks = []
    for one, group in zip(ranked, groups, strict=True):
        low, high = one.number.interval if group == 1 else (None, None)
        marks.append(
            PlotPoint(
                id=one.card.id,
                href=get_encoder_page(contents.entries[one.card.id]),
                x=float(one.card.architecture.n_parameters),
                y=one.number.error,
                low=low,
                high=high,
                group=group,
                fill=choose_fill(one.number),
            )
        )
    front = sorted((one for one in marks if one.group == 1), key=lambda one: one.x)
    drawing = draw_scatter(
        marks,
        Axis("parameters", "log", "count"),
        Axis("expected error, %", "log", "percent", "low"),
        title=f"ImageNet-1K: expected error with {describe_labels(START)} against parameters",
        description=f"{len(front)} of {len(marks)} encoders are on the front.",
        groups=FRONT_GROUPS,
        front=True,
        by_fill=True,
        frame=LIVE,
    )
    return drawing, [(one.id, one.href, format_short_number(one.x), format_points(one.y)) for one in front]
