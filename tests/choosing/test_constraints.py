"""Constraints as filters: whom each keeps, by brute force over all cards, and who is nearest where none passes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from zoo.cards.catalogue import catalogue
from zoo.cards.costs import Cost, cost_of, memory_bytes
from zoo.cards.licences import PERMISSIVE
from zoo.cards.schema import EncoderCard
from zoo.choosing import constraints as module
from zoo.choosing.constraints import (
    NOT_GONE,
    Constraints,
    Filter,
    as_bytes,
    filtered,
    filters,
    known_cost,
    nearest,
)
from zoo.errors import QueryError, UnknownName


@dataclass
class One:
    """A candidate of nothing but its card."""

    card: EncoderCard


def everyone(*names: str) -> list[One]:
    cards = catalogue()
    return [One(cards[name]) for name in names or cards]


def kept(constraints: Constraints, **more: Any) -> set[str]:
    found, _, _ = filtered(everyone(), filters(constraints, **more), {})
    return {one.card.id for one in found}


def test_without_constraints_nobody_is_left_out() -> None:
    assert filters(Constraints()) == []
    assert kept(Constraints()) == set(catalogue())


def test_each_constraint_keeps_those_that_satisfy_it() -> None:
    cards = catalogue()
    asked = [
        (Constraints(licence="commercial"), lambda card: card.commercial_use == "yes"),
        (Constraints(licence="MIT,Apache-2.0"), lambda card: card.licence.weights in ("MIT", "Apache-2.0")),
        (
            Constraints(licence="permissive"),
            lambda card: card.licence.weights in PERMISSIVE and card.licence.code in PERMISSIVE,
        ),
        (Constraints(access="open"), lambda card: card.weights.availability == "open"),
        (Constraints(max_parameters=25_000_000), lambda card: card.architecture.n_parameters <= 25_000_000),
        (Constraints(max_dim=384), lambda card: card.representation.dim <= 384),
        (Constraints(where="family == 'vit' and z_dim < 400"), None),
        (Constraints(max_memory=10**9, device="cpu", batch_size=8), None),
    ]
    for constraints, satisfies in asked:
        expected = {name for name, card in cards.items() if satisfies is not None and satisfies(card)}
        if constraints.where is not None:
            expected = {n for n, c in cards.items() if c.architecture.family == "vit" and c.representation.dim < 400}
        if constraints.max_memory is not None:
            known = {name: cost for name, card in cards.items() if (cost := cost_of(card)) is not None}
            expected = {name for name, cost in known.items() if memory_bytes(cost, 8, device="cpu") <= 10**9}
        assert expected and kept(constraints) == expected, constraints


def test_memory_is_that_of_a_gpu_unless_another_device_is_named() -> None:
    card = catalogue()["dino_vitS16"]
    cost = cost_of(card)
    assert cost is not None
    assert Constraints().memory_of(card) == memory_bytes(cost, 64, device="cuda")
    assert Constraints(device="cpu", batch_size=3).memory_of(card) == memory_bytes(cost, 3, device="cpu")


def test_speeds_that_are_given_decide_and_unknown_ones_are_no_pass() -> None:
    speeds = {"dino_vitS16": 100.0, "mae_vitB16": 20.0}
    asked = filters(Constraints(min_images_per_second=50), speed_of=lambda card: speeds.get(card.id))
    found, gone, _ = filtered(everyone("dino_vitS16", "mae_vitB16", "mae_vitL16"), asked, {})
    assert [one.card.id for one in found] == ["dino_vitS16"]
    assert gone == {
        "speed not known, for --min-images-per-second 50": ["mae_vitL16"],
        "--min-images-per-second 50": ["mae_vitB16"],
    }


def test_a_cost_that_is_not_known_is_told_apart_from_one_that_is_too_high(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {"mae_vitB16": Cost(224, 1.0, 5 * 10**9, 1, 0, 1, 1)}
    monkeypatch.setattr(module, "known_cost", lambda card: known.get(card.id))
    found, gone, why = filtered(everyone("dino_vitS16", "mae_vitB16"), filters(Constraints(max_memory=4 * 10**9)), {})
    assert not found
    assert gone == {
        "memory not known, for --max-memory 4GB": ["dino_vitS16"],
        "--max-memory 4GB": ["mae_vitB16"],
    }
    assert why.startswith(
        "No encoder is left: '--max-memory 4GB' removes all 1 there are; the nearest: mae_vitB16 (5.8GB"
    )


def test_a_network_of_ones_own_is_computed_where_the_table_does_not_have_it() -> None:
    from dataclasses import replace

    card = catalogue()["pocket_init_rn"]
    larger = replace(card, preprocess=replace(card.preprocess, crop_px=48))
    assert cost_of(larger) is None
    found, small = known_cost(larger), known_cost(card)
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
    found = nearest(everyone(*names), [wide, deep], n=4)
    assert [near.encoder for near in found] == ["dino_vitS16", "mae_vitL16", "mae_vitH14", "mae_vitB16"]
    assert str(found[0]) == "dino_vitS16 (12 a)"
    assert str(found[3]) == "mae_vitB16 (11 a, 10.5 b)"
    with_words = nearest(everyone(*names), [wide, deep, worded], n=4)
    assert [near.encoder for near in with_words] == ["mae_vitL16", "mae_vitH14", "mae_vitB16", "dino_vitS16"]
    assert with_words[-1].misses[1].limit == "--licence MIT"
    assert str(with_words[-1]) == "dino_vitS16 (12 a, not --licence MIT)"


def test_those_that_pass_are_nobodys_nearest() -> None:
    asked = filters(Constraints(max_parameters=50_000_000))
    assert [near.encoder for near in nearest(everyone("dino_vitS16", "mae_vitB16"), asked)] == ["mae_vitB16"]


def test_the_sentence_of_nobody_left_has_the_limit_and_what_the_nearest_have() -> None:
    asked = [*filters(Constraints(licence="Apache-2.0", max_memory=500_000_000)), NOT_GONE]
    _, gone, why = filtered(everyone("dino_vitS16", "mae_vitB16"), asked, {})
    assert why.startswith(
        "No encoder is left: '--max-memory 500MB' removes all 1 that pass '--licence Apache-2.0'; the"
    )
    assert "dino_vitS16 (1.26GB of memory with batches of 64)" in why
    assert gone["--licence Apache-2.0"] == ["mae_vitB16"]
    assert why.count(".") >= 1 and why.endswith(".") and ". " not in why


def test_a_smaller_batch_that_fits_is_named() -> None:
    _, _, why = filtered(everyone("dino_vitS16"), filters(Constraints(max_memory=1_000_000_000)), {})
    assert "dino_vitS16 (1.26GB of memory with batches of 64, 19 fit)" in why
    cost = cost_of(catalogue()["dino_vitS16"])
    assert cost is not None
    assert memory_bytes(cost, 19) <= 10**9 < memory_bytes(cost, 20)


def test_what_was_left_out_before_is_kept() -> None:
    _, gone, _ = filtered(everyone("dino_vitS16"), [], {"measured in too few": ["a"]})
    assert gone == {"measured in too few": ["a"]}
    _, _, why = filtered([], filters(Constraints(max_dim=1)), {"measured in too few": ["a"]})
    assert why == "No encoder can be ranked: 1 measured in too few."


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"access": "closed"}, "Found access 'closed', expected 'any' or 'open'"),
        ({"device": "tpu"}, "Found device 'tpu', expected 'cuda' or 'cpu'"),
        ({"max_memory": 0}, "Found max_memory 0, expected a number above 0"),
        ({"min_images_per_second": float("nan")}, "Found min_images_per_second nan"),
        ({"batch_size": -1}, "Found batch_size -1"),
    ],
)
def test_what_cannot_be_meant_is_refused(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(QueryError, match=words):
        Constraints(**wrong)


def test_a_licence_or_a_column_that_nobody_has_is_refused_at_once() -> None:
    with pytest.raises(UnknownName, match="no licence named 'apache'"):
        filters(Constraints(licence="apache"))
    with pytest.raises(UnknownName, match="no column named 'gflop'"):
        filters(Constraints(where="gflop < 3"))


def test_bytes_are_written_as_the_option_takes_them() -> None:
    assert [as_bytes(n) for n in (8 * 10**9, 7_500_000_000, 512_000_000)] == ["8GB", "7.5GB", "512MB"]
