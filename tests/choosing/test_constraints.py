"""Constraints as filters: whom each keeps, by brute force over all cards, and who is nearest where none passes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from tests.each import for_each
from zoo.cards.catalogue import load_catalogue
from zoo.cards.costs import Cost, estimate_memory, find_cost
from zoo.cards.licences import PERMISSIVE
from zoo.cards.schema import EncoderCard
from zoo.choosing import constraints as module
from zoo.choosing.constraints import (
    NOT_GONE,
    Constraints,
    Filter,
    apply_filters,
    build_filters,
    find_known_cost,
    find_near_misses,
)
from zoo.errors import QueryError, UnknownName


@dataclass
class One:
    """A candidate of nothing but its card."""

    card: EncoderCard


def everyone(*names: str) -> list[One]:
    cards = load_catalogue()
    return [One(cards[name]) for name in names or cards]


def kept(constraints: Constraints) -> set[str]:
    found, _, _ = apply_filters(everyone(), build_filters(constraints), {})
    return {one.card.id for one in found}


def test_each_constraint_keeps_those_that_satisfy_it() -> None:
    cards = load_catalogue()
    assert build_filters(Constraints()) == [] and kept(Constraints()) == set(cards)
    known = {name: cost for name, card in cards.items() if (cost := find_cost(card)) is not None}
    fits = {name for name, cost in known.items() if estimate_memory(cost, 8, device="cpu") <= 10**9}
    asked: list[tuple[Constraints, Callable[[EncoderCard], bool]]] = [
        (Constraints(licence="commercial"), lambda card: card.commercial_use == "yes"),
        (Constraints(licence="MIT,Apache-2.0"), lambda card: card.licence.weights in ("MIT", "Apache-2.0")),
        (
            Constraints(licence="permissive"),
            lambda card: card.licence.weights in PERMISSIVE and card.licence.code in PERMISSIVE,
        ),
        (Constraints(access="open"), lambda card: card.weights.availability == "open"),
        (Constraints(max_parameters=25_000_000), lambda card: card.architecture.n_parameters <= 25_000_000),
        (Constraints(max_dim=384), lambda card: card.representation.dim <= 384),
        (
            Constraints(where="family == 'vit' and z_dim < 400"),
            lambda card: card.architecture.family == "vit" and card.representation.dim < 400,
        ),
        (Constraints(max_memory=10**9, device="cpu", batch_size=8), lambda card: card.id in fits),
    ]
    for constraints, satisfies in asked:
        expected = {name for name, card in cards.items() if satisfies(card)}
        assert expected and kept(constraints) == expected, constraints


def test_memory_is_that_of_a_gpu_unless_another_device_is_named() -> None:
    card = load_catalogue()["dino_vitS16"]
    cost = find_cost(card)
    assert cost is not None
    assert Constraints().memory_of(card) == estimate_memory(cost, 64, device="cuda")
    assert Constraints(device="cpu", batch_size=3).memory_of(card) == estimate_memory(cost, 3, device="cpu")


def test_a_named_device_has_its_speeds_and_the_memory_of_its_kind() -> None:
    card = load_catalogue()["dino_vitS16"]
    gpu, cpu = Constraints(device="rtx-4090"), Constraints(device="i9-10940x")
    assert (gpu.device, gpu.memory_device, cpu.memory_device) == ("RTX 4090", "cuda", "cpu")
    assert gpu.memory_of(card) == Constraints().memory_of(card)
    assert cpu.memory_of(card) == Constraints(device="cpu").memory_of(card)
    speed = gpu.speed_of(card)
    assert speed is not None and speed.is_measured and Constraints(device="cuda").speed_of(card) is None
    limits = Constraints(device="RTX 4090", min_images_per_second=3000)
    expected = {
        name for name, card in load_catalogue().items() if (found := gpu.speed_of(card)) and found.value >= 3000
    }
    assert expected and kept(limits) == expected
    _, _, why = apply_filters(everyone("dino_vitS16"), build_filters(replace(limits, min_images_per_second=10_000)), {})
    assert "the nearest: dino_vitS16 (8.21k images per second)" in why
    assert limits.here() == Constraints() and Constraints(device="cpu").here() == Constraints(device="cpu")


def test_an_unknown_cost_is_no_pass_and_not_one_that_is_too_high(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {"mae_vitB16": Cost(224, 1.0, 5 * 10**9, 1, 0, 1, 1)}
    monkeypatch.setattr(module, "find_known_cost", lambda card: known.get(card.id))
    monkeypatch.setattr("zoo.encoders.costs.estimate_images_per_second", lambda cost, device: 20.0)
    some = everyone("dino_vitS16", "mae_vitB16")
    for limit, has in (({"max_memory": 4 * 10**9}, "5.8GB"), ({"min_images_per_second": 50}, "20 images per second")):
        found, gone, why = apply_filters(some, build_filters(Constraints(**limit)), {})  # type: ignore[arg-type]
        unknown, too_high = gone
        assert not found and "not known, for --m" in unknown
        assert gone == {unknown: ["dino_vitS16"], too_high: ["mae_vitB16"]}
        assert why.startswith(
            f"No encoder is left: '{too_high}' removes all 1 there are; the nearest: mae_vitB16 ({has}"
        )
    assert apply_filters(some, build_filters(Constraints(min_images_per_second=10)), {})[0] == some[1:]


def test_a_network_of_ones_own_is_computed_where_the_table_does_not_have_it() -> None:
    card = load_catalogue()["pocket_init_rn"]
    larger = replace(card, preprocess=replace(card.preprocess, crop_px=48))
    assert find_cost(larger) is None
    found, small = find_known_cost(larger), find_known_cost(card)
    assert found is not None and small is not None
    assert found.px == 48 and found.gflops > small.gflops


def test_the_nearest_miss_the_fewest_limits_by_the_smallest_factor() -> None:
    def at_most(name: str, limit: float, of: dict[str, float]) -> Filter:
        return Filter(
            f"--{name} {limit:g}",
            lambda one: of[one.card.id] <= limit,
            lambda card: f"{of[card.id]:g} {name}",
            lambda card: of[card.id] / limit,
        )

    names = ("dino_vitS16", "mae_vitB16", "mae_vitL16", "mae_vitH14")
    wide = at_most("a", 10, dict(zip(names, (12.0, 11.0, 9.0, 30.0), strict=True)))
    deep = at_most("b", 10, dict(zip(names, (5.0, 10.5, 15.0, 1.0), strict=True)))
    worded = Filter("--licence MIT", lambda one: one.card.id != "dino_vitS16")
    dino, large, huge, base = (
        "dino_vitS16 (12 a",
        "mae_vitL16 (15 b)",
        "mae_vitH14 (30 a)",
        "mae_vitB16 (11 a, 10.5 b)",
    )
    assert find_near_misses(everyone(*names), [wide, deep], n=4) == [f"{dino})", large, huge, base]
    with_words = [large, huge, base, f"{dino}, not --licence MIT)"]
    assert find_near_misses(everyone(*names), [wide, deep, worded], n=4) == with_words
    asked = build_filters(Constraints(max_parameters=50_000_000))  # those that pass are nobody's nearest
    assert [near.split()[0] for near in find_near_misses(everyone("dino_vitS16", "mae_vitB16"), asked)] == [
        "mae_vitB16"
    ]


def test_where_none_is_left_the_limit_what_the_nearest_have_and_a_batch_that_fits_are_named() -> None:
    asked = [*build_filters(Constraints(licence="Apache-2.0", max_memory=500_000_000)), NOT_GONE]
    _, gone, why = apply_filters(everyone("dino_vitS16", "mae_vitB16"), asked, {})
    assert why.startswith("No encoder is left: '--max-memory 500MB' removes all 1 that pass '--licence Apache-2.0'")
    assert "dino_vitS16 (1.26GB of memory with batches of 64)" in why
    assert gone["--licence Apache-2.0"] == ["mae_vitB16"]
    _, _, why = apply_filters(everyone("dino_vitS16"), build_filters(Constraints(max_memory=1_000_000_000)), {})
    assert "dino_vitS16 (1.26GB of memory with batches of 64, 19 fit)" in why
    cost = find_cost(load_catalogue()["dino_vitS16"])
    assert cost is not None and estimate_memory(cost, 19) <= 10**9 < estimate_memory(cost, 20)
    before = {"measured in too few": ["a"]}
    assert apply_filters(everyone("dino_vitS16"), [], before)[1] == before
    assert apply_filters([], [], before)[2] == "No encoder can be ranked: 1 measured in too few."


@for_each(
    [
        ({"access": "closed"}, "Found access 'closed', expected 'any' or 'open'"),
        ({"device": "tpu"}, "no device named 'tpu'.* Expected 'cuda', 'cpu' .*RTX 4090"),
        ({"max_memory": 0}, "Found max_memory 0, expected a number above 0"),
        ({"min_images_per_second": float("nan")}, "Found min_images_per_second nan"),
        ({"batch_size": -1}, "Found batch_size -1"),
        ({"licence": "apache"}, "no licence named 'apache'"),
        ({"where": "gflop < 3"}, "no column named 'gflop'"),
    ],
    arguments=2,
)
def test_what_cannot_be_meant_is_refused(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises((QueryError, UnknownName), match=words):
        build_filters(Constraints(**wrong))
