"""The shipped table of costs: complete, read without torch, and what follows from a row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.each import for_each
from zoo.cards import costs
from zoo.cards.catalogue import load_catalogue
from zoo.cards.costs import (
    AUTOCAST_SHARE,
    COLUMNS,
    CONTEXT_BYTES,
    CPU_MARGIN,
    GPU_MARGIN,
    Cost,
    compute_network_key,
    estimate_memory,
    explain_unknown_cost,
    find_cost,
    find_largest_batch_size,
    load_shipped_costs,
    locate_costs_table,
    read_costs,
)
from zoo.errors import ContentError, QueryError

COST = Cost(
    px=224, gflops=8.0, parameter_bytes=1000, activation_bytes=50, fixed_bytes=20, written_bytes=900, n_operations=7
)


@pytest.fixture
def table_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Puts another table in the place of the shipped one, for this test."""

    def put(text: str) -> None:
        path = tmp_path / "costs.tsv"
        path.write_text(text)
        monkeypatch.setattr(costs, "locate_costs_table", lambda: path)
        costs._table.cache_clear()

    yield put
    costs._table.cache_clear()


def test_every_network_of_a_card_has_its_row_and_no_other_has_one() -> None:
    encoders: dict[str, list[str]] = {}
    for card in load_catalogue().values():
        encoders.setdefault(compute_network_key(card), []).append(card.id)
    rows = read_costs(locate_costs_table())
    assert not encoders.keys() ^ rows.keys(), "run scripts/derive_costs.py"
    assert {key: row["encoders"].split() for key, row in rows.items()} == encoders


def test_parameters_take_four_bytes_each_and_buffers_come_on_top() -> None:
    cards = load_catalogue()
    known = {encoder: cost for encoder in cards if (cost := find_cost(cards[encoder])) is not None}
    assert len(known) > 0.9 * len(cards)
    wrong = [name for name, cost in known.items() if cost.parameter_bytes < 4 * cards[name].architecture.n_parameters]
    assert not wrong
    assert all(cost.gflops > 0 and cost.activation_bytes >= 12 * cost.px**2 for cost in known.values())
    assert load_shipped_costs() == known


def test_other_features_cost_what_those_of_the_card_do_and_another_size_is_not_guessed() -> None:
    card = load_catalogue()["dinov2_vitS14"]
    others = load_catalogue()["dinov2_vitS14@avg"]
    assert find_cost(others) == find_cost(card)
    larger = replace(others, preprocess=replace(others.preprocess, crop_px=448))
    assert find_cost(larger) is None and explain_unknown_cost(larger) == ""


def test_memory_is_parameters_context_and_activations_with_their_margin() -> None:
    on_cpu = 1000 + round(CPU_MARGIN * (20 + 8 * 50))
    assert estimate_memory(COST, 8, device="cpu") == on_cpu
    on_gpu = 1000 + round(GPU_MARGIN * (20 + 8 * 50)) + CONTEXT_BYTES
    assert estimate_memory(COST, 8) == estimate_memory(COST, 8, device="cuda:1") == on_gpu
    half = 1000 + round(CPU_MARGIN * AUTOCAST_SHARE * (20 + 8 * 50))
    assert estimate_memory(COST, 8, "bfloat16", device="cpu") == half
    with pytest.raises(QueryError, match="batch of 0 images, expected at least 1"):
        estimate_memory(COST, 0)


@for_each([0, 1000, 1125, 1126, 1500, 5000, 10**9])
def test_the_largest_batch_is_the_last_that_fits(limit: int) -> None:
    fitting = [n for n in range(1, 101) if estimate_memory(COST, n, device="cpu") <= limit]
    assert find_largest_batch_size(COST, limit, device="cpu", most=100) == max(fitting, default=0)


def test_a_damaged_table_is_named(table_of: Callable[[str], None]) -> None:
    table_of("network\tpx\nabc\t224\n")
    with pytest.raises(ContentError, match="has other columns than network, backbone"):
        load_shipped_costs()
    cells = dict.fromkeys(COLUMNS, "1") | {"network": "abc", "gflops": "many", "unknown": "", "encoders": "a"}
    table_of("\t".join(COLUMNS) + "\n" + "\t".join(cells.values()) + "\n")
    with pytest.raises(ContentError, match="unreadable numbers of abc"):
        load_shipped_costs()


def test_a_network_without_numbers_says_why(table_of: Callable[[str], None]) -> None:
    card = load_catalogue()["dino_vitS16"]
    cells = dict.fromkeys(COLUMNS, "") | {
        "network": compute_network_key(card),
        "unknown": "no library",
        "encoders": card.id,
    }
    table_of("\t".join(COLUMNS) + "\n" + "\t".join(cells.values()) + "\n")
    assert find_cost(card) is None
    assert explain_unknown_cost(card) == "no library"
    assert load_shipped_costs() == {}
