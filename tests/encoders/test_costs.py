"""Costs of networks: counted operations and memory by closed forms and against real runs; speeds without a clock."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from tests.each import for_each
from zoo.cards.catalogue import load_catalogue
from zoo.cards.costs import Cost, find_cost
from zoo.encoders import build_encoder, costs
from zoo.encoders.costs import (
    DeviceRates,
    compute_card_cost,
    compute_network_cost,
    estimate_images_per_second,
    get_device_rates,
    obtain_cost,
    track_memory,
)
from zoo.errors import BuildError, QueryError

FLOAT = 4  # bytes


class Attention(nn.Module):
    """Self-attention of flattened pixels, without projections."""

    def forward(self, images: Tensor) -> Tensor:
        tokens = images.flatten(2).transpose(1, 2).unsqueeze(1)  # (n, 1, px * px, 3)
        return nn.functional.scaled_dot_product_attention(tokens, tokens, tokens)


class Residual(nn.Module):
    """Three convolutions of the same size next to a path that keeps the first one's output."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = (nn.Conv2d(3, 3, 1, bias=False) for _ in range(3))

    def forward(self, images: Tensor) -> Tensor:
        kept = self.first(images)
        return kept + self.third(self.second(kept))


def on_meta(network: nn.Module) -> nn.Module:
    return network.to("meta").eval().requires_grad_(False)


def test_operations_of_convolutions_and_products_are_two_a_multiplication() -> None:
    network = nn.Sequential(
        nn.Conv2d(3, 5, 3, padding=1, bias=False), nn.Flatten(), nn.Linear(5 * 8 * 8, 7, bias=False)
    )
    cost = compute_network_cost(on_meta(network), 8)
    assert cost.gflops == round((2 * 3 * 3 * 3 * 5 * 64 + 2 * 5 * 64 * 7) / 1e9, 6)
    assert cost.parameter_bytes == FLOAT * (5 * 3 * 9 + 7 * 5 * 64)
    assert (cost.px, cost.n_operations) == (8, 2)  # a view is no operation


def test_attention_is_one_operation_that_writes_no_weights() -> None:
    px, n = 12, 144
    cost = compute_network_cost(on_meta(Attention()), px)
    assert cost.gflops == round(2 * (2 * n * n * 3) / 1e9, 6)
    assert cost.activation_bytes < FLOAT * n * n  # which the weights of a single image would take
    assert cost.activation_bytes >= FLOAT * 2 * 3 * n  # images and output


def test_memory_is_what_is_alive_at_once() -> None:
    image = FLOAT * 3 * 4 * 4
    chain = nn.Sequential(*(nn.Conv2d(3, 3, 1, bias=False) for _ in range(5)))
    assert (
        compute_network_cost(on_meta(chain), 4).activation_bytes == 3 * image
    )  # the images, what is read, what is written
    # Images, kept, the second's output and the third's; the second's goes before the sum comes.
    assert compute_network_cost(on_meta(Residual()), 4).activation_bytes == 4 * image


def test_what_does_not_grow_with_the_batch_stands_by_itself() -> None:
    class Biased(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Parameter(torch.zeros(10, 3 * 16))

        def forward(self, images: Tensor) -> Tensor:
            bias = self.table * 2
            return images.flatten(1) + bias[:1]

    cost = compute_network_cost(on_meta(Biased()), 4)
    assert cost.fixed_bytes == FLOAT * 10 * 48
    assert cost.activation_bytes == FLOAT * 2 * 48


def test_a_network_outside_the_table_is_computed_and_one_that_cannot_be_built_is_not_known() -> None:
    card = load_catalogue()["pocket_init_vit"]
    larger = replace(card, preprocess=replace(card.preprocess, crop_px=64))
    assert find_cost(larger) is None
    network = compute_card_cost(card)
    found = obtain_cost(larger)
    assert found is None or found.gflops > network.gflops  # positions may be for one size alone
    nobody = replace(card, architecture=replace(card.architecture, backbone="zoo:nothing"))
    assert obtain_cost(nobody) is None
    with pytest.raises(BuildError, match="zoo:nothing"):
        compute_card_cost(nobody)


@for_each(["pocket_init_rn", "pocket_init_vit", "sup_efficientnet_lite0"])
def test_the_table_has_what_is_computed_and_its_memory_is_that_of_a_real_run(name: str) -> None:
    card = load_catalogue()[name]
    cost, encoder = compute_card_cost(card), build_encoder(card, device="cpu")
    assert cost == find_cost(card) == obtain_cost(card)
    for n in (1, 2, 5):
        real = track_memory(encoder, torch.zeros(n, 3, cost.px, cost.px)).peak_bytes
        # On the meta device batch norms also give back two statistics a channel, and up to 1,280 channels are here.
        assert real <= cost.fixed_bytes + n * cost.activation_bytes <= real + 2 * FLOAT * 1280


@for_each([(2.0, 3.0), (0.5, 0.0), (0.0, 7.0)], arguments=2)
def test_rates_are_found_again_where_they_hold(a: float, b: float) -> None:
    work = [(1.0, 4.0), (3.0, 1.0), (2.0, 2.0)]
    rows = [(x / (a * x + b * y), y / (a * x + b * y)) for x, y in work]
    assert costs._two_rates(rows) == pytest.approx((a, b), abs=1e-9)


def test_rates_are_timed_once_a_device_and_kept_for_a_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path))
    timed = []

    def calibrated(device: torch.device) -> DeviceRates:
        timed.append(str(device))
        return DeviceRates(0.1, 1e-3, 0.01)

    monkeypatch.setattr(costs, "calibrate_device", calibrated)
    cost = Cost(224, 2.0, parameter_bytes=1, activation_bytes=1, fixed_bytes=0, written_bytes=1000, n_operations=30)
    expected = 1 / (0.1 * 2 + 1e-3 * 1000 + 0.01 * 30 / 10)
    assert estimate_images_per_second(cost, "cpu", batch_size=10) == pytest.approx(expected)
    assert estimate_images_per_second(cost, "cpu", batch_size=10) == pytest.approx(expected)
    assert timed == ["cpu"]
    (kept,) = (tmp_path / "rates-1").iterdir()
    kept.write_text("{")
    get_device_rates("cpu")
    yesterday = kept.stat().st_mtime - 100_000
    os.utime(kept, (yesterday, yesterday))
    get_device_rates("cpu")
    assert timed == ["cpu"] * 3
    with pytest.raises(QueryError, match="Speeds on 'cuda:99' cannot be timed here"):
        get_device_rates("cuda:99")


@for_each(list(costs._REFERENCES))
def test_costs_of_the_networks_that_are_timed_are_what_is_counted(backbone: str) -> None:
    kept = costs._REFERENCES[backbone]
    assert compute_network_cost(on_meta(costs._reference(backbone)), kept.px) == kept


@pytest.mark.slow
def test_a_device_can_be_timed() -> None:
    rates = costs.calibrate_device("cpu", seconds=0.01)
    assert rates.s_per_gflop + rates.s_per_written_byte > 0
    assert min(rates.s_per_gflop, rates.s_per_written_byte) >= 0
    assert rates.s_per_operation > 0
