"""The page on what counters count: ours is what the zoo counts now, and the stated conversions hold on the numbers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from packaging.version import Version
from timm.layers import set_fused_attn

from scripts import compare_counters
from tests.each import for_each
from zoo.encoders.costs import compute_network_cost

HERE = Path(__file__).resolve().parents[1]
FOUND = json.loads((HERE / "docs" / "counters.json").read_text(encoding="utf-8"))
FUSED, NOT_FUSED = "ViT-B/16, timm, fused", "ViT-B/16, timm, not fused"


@pytest.fixture(scope="module")
def script() -> Iterator[ModuleType]:
    yield compare_counters
    set_fused_attn(True)  # as it is unless somebody changes it, which building networks does


@for_each(["ViT-B/16, timm, not fused", "ViT-B/16, torchvision", "ResNet-50, torchvision"])
def test_ours_on_the_page_is_what_the_zoo_counts(network: str, script: ModuleType) -> None:
    with torch.device("meta"):
        found = compute_network_cost(script.networks()[network]().eval(), script.PX)
    assert round(1e9 * found.gflops) == FOUND["ours"][network]


def test_every_network_and_counter_of_the_script_is_on_the_page(script: ModuleType) -> None:
    assert list(script.networks()) == list(FOUND["counted"]) == list(FOUND["ours"])
    assert all(list(counted) == list(script.COUNTERS) for counted in FOUND["counted"].values())
    assert FOUND["operations_each"] == script.OPERATIONS_EACH
    pinned = dict(one.split("==") for one in (*script.NETWORK_PACKAGES, *script.COUNTER_PACKAGES))
    assert {name: Version(one) for name, one in FOUND["versions"].items()} == {
        name: Version(one) for name, one in pinned.items()
    }


W, A, B, N = (FOUND["parts"][name] for name in ("weights", "attention", "biases", "norms"))
FORMULAS: dict[tuple[str, str], Any] = {
    (FUSED, "torch"): 2 * (W + A),
    (FUSED, "torchprofile"): W + A + N,
    (FUSED, "thop"): W,
    ("ViT-B/16, transformers, fused", "thop"): W + 4 * N,
    ("ViT-B/16, transformers, fused", "ptflops pytorch"): W + B + N,
    (FUSED, "ptflops aten"): W + B,
    (NOT_FUSED, "ptflops aten"): W + A + B,
    (FUSED, "fvcore"): W + 5 * N,
    (NOT_FUSED, "fvcore"): W + A + 5 * N,
    (FUSED, "calflops macs"): W,
    ("ViT-B/16, transformers, not fused", "calflops macs"): W + A,
    (FUSED, "deepspeed macs"): W + A,
}


@for_each(FORMULAS)
def test_the_formulas_of_the_page_hold_to_the_last_operation(case: tuple[str, str]) -> None:
    network, counter = case
    assert FOUND["counted"][network][counter] == FORMULAS[case]


def test_the_parts_are_those_of_the_definition() -> None:
    n, d, blocks = 197, 768, 12
    assert blocks * n * 12 * d * d + (n - 1) * d * (3 * 16 * 16) == W
    assert blocks * 2 * n * n * d == A
    assert (2 * blocks + 1) * n * d == N
    assert abs(FOUND["ours"][FUSED] - 2 * (W + A)) <= 500  # operations are stored in thousands
