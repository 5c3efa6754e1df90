"""Errors to expect that contradict each other, in the whole table: by size, by resolution, and by the best reported."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from functools import cache
from itertools import combinations

from tests.each import for_each
from zoo.cards.catalogue import load_catalogue
from zoo.choosing.expectations import ExpectedError, Images, estimate_errors
from zoo.results.derived import summaries
from zoo.results.reported import reported_numbers, select_preferred_accuracies
from zoo.results.reported_values import TOP_1
from zoo.results.values import IMAGENET

OF_OTHER_WEIGHTS = ("reported-finetune", "reported-few-labels")
LARGER = 1.1  # times as many parameters; siblings of other image sizes differ in those of positions
EQUAL = 0.05  # log odds, half a point of 13 %, in which image sizes of siblings may tell more than their size
POINTS = 2.0  # between siblings that differ in resolution alone


@cache
def table() -> dict[str, ExpectedError]:
    """Errors on ImageNet-1K with all labels."""
    cards = load_catalogue()
    everyone = {name: cards[name] for name in cards}
    return estimate_errors(everyone, 1_281_167, 1_000, images=Images.named(like=IMAGENET))


@cache
def accuracies() -> dict[str, dict[tuple[str, ...], float]]:
    """By encoder every accuracy of these weights that nobody doubts, by what makes two of them comparable."""
    found: dict[str, dict[tuple[str, ...], float]] = {name: {} for name in table()}
    for one in reported_numbers():
        if one.encoder in found and one.metric == TOP_1 and not one.doubt and one.protocol not in OF_OTHER_WEIGHTS:
            found[one.encoder][one.dataset, one.split, one.protocol, one.source, one.setting] = one.value
    for name, summary in summaries(exclude_wrong=True).items():
        if name in found:
            found[name] |= {(IMAGENET, "here", setting): -error for setting, error in summary.errors.items()}
    return found


def siblings() -> Iterator[tuple[str, str]]:
    """Two of one family, data and objective, which the families of libraries have several of; the smaller first."""
    groups: dict[tuple[object, ...], list[str]] = {}
    cards = load_catalogue()
    for name in table():
        card = cards[name]
        data = (card.pretraining.dataset, card.pretraining.finetuning_dataset)
        kind = (card.objective.name, card.objective.version, card.objective.variant, card.architecture.family)
        groups.setdefault((card.family, *data, *kind), []).append(name)
    for names in groups.values():
        yield from combinations(sorted(names, key=lambda name: cards[name].architecture.n_parameters), 2)


def larger_and_better() -> Iterator[tuple[str, str]]:
    """Siblings of which the second is larger and has better numbers wherever both have one."""
    cards = load_catalogue()
    for small, large in siblings():
        n_small, n_large = (cards[name].architecture.n_parameters for name in (small, large))
        shared = accuracies()[small].keys() & accuracies()[large].keys()
        is_better = bool(shared) and all(accuracies()[large][one] > accuracies()[small][one] for one in shared)
        if n_large >= LARGER * n_small and is_better:
            yield small, large


def at_other_sizes() -> Iterator[tuple[str, str]]:
    """Encoders whose ids differ in nothing but a number of pixels."""
    sizes = {str(card.preprocess.crop_px) for card in load_catalogue().values()}
    alike: dict[str, list[str]] = {}
    for name in table():
        parts = [part for part in re.split("_", name) if part not in sizes]
        alike.setdefault("_".join(parts), []).append(name)
    for names in alike.values():
        yield from combinations([name for name in names if not load_catalogue()[name].saw_labels], 2)


@for_each(larger_and_better(), arguments=2, name=" and ".join)
def test_no_encoder_is_expected_to_be_worse_than_a_smaller_sibling_that_it_beats_everywhere(
    small: str, large: str
) -> None:
    worse_by = table()[large].odds - table()[small].odds
    assert worse_by <= EQUAL, f"{table()[small].error:.1f} and {table()[large].error:.1f} %"


@for_each(at_other_sizes(), arguments=2, name=" and ".join)
def test_siblings_that_differ_in_resolution_alone_are_within_two_points_per_doubling(one: str, other: str) -> None:
    errors = [table()[name].error for name in (one, other)]
    doublings = math.log2(
        max(sides := [load_catalogue()[name].preprocess.crop_px for name in (one, other)]) / min(sides)
    )
    share = max(errors) / 20  # of errors above 20 % as many more
    shared = [task for task in accuracies()[one].keys() & accuracies()[other].keys() if "imagenet-1k" in task]
    told = max((abs(accuracies()[one][task] - accuracies()[other][task]) for task in shared), default=0.0)
    assert abs(errors[0] - errors[1]) <= max(POINTS * max(doublings, 1) * max(share, 1), told), errors


def test_no_error_is_expected_below_the_lowest_that_was_ever_reported_less_its_interval() -> None:
    linear = {
        name: by_protocol["reported-linear"].value
        for name, by_protocol in select_preferred_accuracies().items()
        if "reported-linear" in by_protocol and not by_protocol["reported-linear"].is_doubtful
    }
    best = max((name for name in linear if name in table()), key=linear.__getitem__)
    low, high = table()[best].interval
    assert low <= 100 - linear[best] <= high
    assert {name: one.error for name, one in table().items() if one.error < low} == {}
