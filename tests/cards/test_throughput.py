"""Speeds on named devices: the shipped rates are those of the shipped measurements, and what an encoder is given."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from scripts.throughput import MACHINES, Network, device_row, ends, log_ratios, networks, rates_of
from tests.each import for_each
from zoo.cards.catalogue import load_catalogue
from zoo.cards.costs import Cost, find_cost
from zoo.cards.throughput import (
    FACTORS,
    RATES,
    MeasuredThroughput,
    estimate_seconds,
    estimate_throughput,
    find_device,
    list_devices,
    load_speeds,
)
from zoo.errors import UnknownName


def test_the_shipped_rates_and_intervals_are_those_of_the_shipped_measurements() -> None:
    assert [device.name for device in list_devices()] == [name for name, *_ in MACHINES.values()]
    for machine, device in zip(MACHINES, list_devices(), strict=True):
        row = device_row(machine, load_speeds()[device.name])
        assert int(row["n_networks"]) == device.n_networks
        assert [float(row[name]) for name in RATES] == pytest.approx(device.rates, rel=1e-4), (
            "run scripts/throughput.py"
        )
        assert [float(row[name]) for name in FACTORS] == pytest.approx(device.factors, rel=1e-3)
        assert (row["precision"], row["how"], row["kind"]) == (device.precision, device.how, device.kind)


def test_rates_that_made_the_seconds_are_found_and_none_is_negative() -> None:
    drawn, true = random.Random(0), (1e-5, 2e-12, 0.0, 1e-13, 0.0)
    known = []
    for network in networks(load_speeds()["RTX 4090"])[:60]:
        seconds = estimate_seconds(network.cost, true)
        known.append(replace(network, row=replace(network.row, images_per_s=1 / seconds)))
    found = rates_of(known)
    for cost in (network.cost for network in known):
        assert estimate_seconds(cost, found) == pytest.approx(estimate_seconds(cost, true), rel=1e-6)
    noisy = [
        replace(one, row=replace(one.row, images_per_s=one.row.images_per_s * drawn.uniform(0.5, 2))) for one in known
    ]
    assert min(rates_of(noisy)) >= 0


def test_errors_are_those_of_networks_whose_family_was_not_in_the_fit() -> None:
    known = networks(load_speeds()["RTX 3090"])
    fitted: list[set[str]] = []

    def fit(some: Sequence[Network]) -> Callable[[Cost], float]:
        fitted.append({one.family for one in some})
        return lambda cost: 1.0

    found = log_ratios(known, fit, lambda one: one.family)
    assert found == pytest.approx([math.log(one.row.images_per_s) for one in known])
    families = {one.family for one in known}
    assert len(fitted) == len(families) and all(len(families - some) == 1 for some in fitted)
    low, high = ends(found)
    n_within = sum(low <= math.exp(ratio) <= high for ratio in found)
    assert 0.9 * len(found) <= n_within <= 0.93 * len(found)


def test_a_network_that_was_measured_has_that_number() -> None:
    cards, device = load_catalogue(), find_device("RTX 4090")
    for name in ("dino_vitS16", "dino_rn50"):  # of timm and of torchvision
        network = cards[name].architecture.backbone.partition(":")[2]
        (row,) = (one for one in load_speeds()["RTX 4090"][network] if one.px == 224)
        speed = estimate_throughput(cards[name], device)
        assert speed is not None and speed.is_measured and speed.value == row.images_per_s
        assert speed.low is speed.high is None and "float16 autocast" in speed.source
    assert load_speeds()["RTX 4090"]["resnet50"][2] == MeasuredThroughput(224, 1024, 4302.84, 4.11, 25.56)


def test_another_network_under_a_measured_name_is_expected_by_its_cost() -> None:
    device = find_device("RTX 5090")
    card = load_catalogue()["msn_vitb4_ep300"]  # patches of 4 pixels, under timm's name of 16
    cost, speed = find_cost(card), estimate_throughput(card, device)
    assert cost is not None and speed is not None and not speed.is_measured
    assert speed.value == pytest.approx(1 / estimate_seconds(cost, device.rates))
    assert speed.low is not None and speed.high is not None and speed.low < speed.value < speed.high


def test_another_size_of_a_measured_network_is_scaled_and_surer() -> None:
    cards, device = load_catalogue(), find_device("RTX 3090")
    speed = estimate_throughput(cards["dinov2_vitB14_reg4"], device)  # measured at 518 px, used at 224
    measured = load_speeds()["RTX 3090"]["vit_base_patch14_reg4_dinov2"][0]
    assert speed is not None and not speed.is_measured and "518 px" in speed.source
    assert 5 < speed.value / measured.images_per_s < 10  # a fifth of the pixels, and less attention
    expected = estimate_throughput(cards["msn_vitb4_ep300"], device)
    assert speed.low is not None and expected is not None and expected.low is not None
    assert speed.low / speed.value > expected.low / expected.value


def test_without_a_cost_there_is_no_speed_and_beyond_the_measured_sizes_it_says_so() -> None:
    cards, device = load_catalogue(), find_device("i9-10940X")
    card = cards["pocket_init_vit"]
    unknown = replace(card, preprocess=replace(card.preprocess, crop_px=48))
    assert estimate_throughput(unknown, device) is None
    speed = estimate_throughput(unknown, device, cost=Cost(48, 0.001, 10**6, 1, 0, 10, 100))
    assert speed is not None and "extrapolated" in speed.source


@for_each(
    [("rtx 4090", "RTX 4090"), ("RTX-5090", "RTX 5090"), ("3090", "RTX 3090"), ("rtx pro 6000", "RTX PRO 6000 Max-Q")],
    arguments=2,
)
def test_a_device_is_found_without_case_and_hyphens(asked: str, name: str) -> None:
    assert find_device(asked).name == name


@for_each(["rtx", "", "H100"])
def test_an_unknown_device_lists_those_there_are(asked: str) -> None:
    with pytest.raises(UnknownName, match=r"Expected 'cuda', 'cpu' .*: RTX 4090, .*, i9-10940X"):
        find_device(asked)
