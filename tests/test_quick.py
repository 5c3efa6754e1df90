"""Products in bfloat16: where they are taken, and what they may not change."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from zoo.evaluation import quick
from zoo.evaluation.logistic_problem import Change, Problem, problem_of
from zoo.evaluation.logistic_solver import Point
from zoo.evaluation.logistic_steps import solved
from zoo.evaluation.probe import LogisticProbe

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def drawn() -> dict[str, Any]:
    """Six classes of 200 images in 40 dimensions of very different variance, and as many to choose C on."""
    generator = np.random.default_rng(0)
    y = np.arange(1200) % 6
    spread = np.arange(1, 41, dtype=np.float32) ** -0.7
    means = 1.5 * generator.standard_normal((6, 40), dtype=np.float32)
    x = (means[y] + 2.0 * generator.standard_normal((1200, 40), dtype=np.float32)) * spread + 3.0
    return {"x": x[:600], "y": y[:600], "x_val": x[600:], "y_val": y[600:]}


@pytest.mark.parametrize(
    ("capabilities", "n", "expected"),
    [
        ({"avx512_bf16": True}, quick.LARGE, "bfloat16"),
        ({"amx_bf16": True, "avx512_bf16": False}, quick.LARGE, "bfloat16"),
        ({"avx512_bf16": True}, quick.LARGE - 1, "float32"),
        ({"avx2": True}, 100 * quick.LARGE, "float32"),
    ],
)
def test_bfloat16_is_for_large_products_on_processors_that_have_it(
    capabilities: dict[str, bool], n: int, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities, raising=False)
    assert quick.precision_for(n, CPU) == expected


@pytest.mark.parametrize(("capability", "expected"), [((7, 5), "float32"), ((8, 0), "bfloat16"), ((9, 0), "bfloat16")])
def test_of_gpus_only_those_with_the_instructions(
    capability: tuple[int, int], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    assert quick.precision_for(quick.LARGE, torch.device("cuda")) == expected


def test_a_version_of_torch_that_does_not_tell_gets_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch.cpu, "get_capabilities", raising=False)
    assert quick.precision_for(100 * quick.LARGE, CPU) == "float32"


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_auto_is_what_the_processor_is_good_at(
    precision: str, drawn: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quick, "LARGE", 1 if precision == "bfloat16" else 10**12)
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_bf16": True}, raising=False)
    auto = LogisticProbe(device="cpu").fit(**drawn)
    named = LogisticProbe(device="cpu", precision=precision).fit(**drawn)
    assert auto.report_["precision"] == precision
    assert auto.report_ == named.report_
    np.testing.assert_array_equal(auto.coef_, named.coef_)


def test_a_fit_that_counts_has_converged_in_float32_whatever_led_to_it(drawn: dict[str, Any]) -> None:
    for c in (0.01, 1.0, 100.0):
        objectives = [
            LogisticProbe(C=c, precision=precision, device="cpu").fit(drawn["x"], drawn["y"]).report_
            for precision in ("float64", "bfloat16")
        ]
        assert all(report["converged"] for report in objectives)
        assert objectives[1]["objective"] == pytest.approx(objectives[0]["objective"], rel=1e-4)


def test_a_fit_that_got_lost_in_bfloat16_is_made_again_and_the_report_says_so(
    drawn: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(*arguments: Any, quick: bool = False, **options: Any) -> Point:
        point = solved(*arguments, quick=quick, **options)
        point.converged, point.stalled = point.converged and not quick, point.stalled or quick
        return point

    monkeypatch.setattr("zoo.evaluation.logistic_path.solved", lost)
    probe = LogisticProbe(device="cpu", precision="bfloat16", select="log_loss").fit(**drawn)
    expected = LogisticProbe(device="cpu", precision="float32", select="log_loss").fit(**drawn)
    assert probe.report_["precision"] == "bfloat16, then float32" and probe.report_["converged"]
    assert probe.report_["validation_log_loss"] == pytest.approx(expected.report_["validation_log_loss"], rel=1e-3)


def _problem(drawn: dict[str, Any]) -> Problem:
    _, problem = problem_of(drawn["x"], drawn["y"], n_classes=6, dtype=torch.float32, device=CPU)
    problem.quick = problem.z.bfloat16()
    return problem


def test_a_change_in_bfloat16_is_wrong_by_a_share_of_the_change_alone(drawn: dict[str, Any]) -> None:
    problem = _problem(drawn)
    generator = torch.Generator().manual_seed(1)
    parameters = torch.randn(6, problem.z.shape[1], generator=generator)
    logits = problem.logits(parameters)
    _, before = problem.loss(logits)
    for size in (1.0, 1e-4):
        move = problem.logits(size * torch.randn(parameters.shape, generator=generator), quick=True)
        there, residuals = torch.empty_like(logits), torch.empty_like(logits)
        change = Change(before, torch.empty_like(logits, dtype=torch.bfloat16), torch.empty(6))
        problem.stepped(logits, move, 1.0, there, residuals, change)
        exact = problem.pulled(residuals) - problem.pulled(before)
        rounded = problem.pulled(change.out)
        assert float((rounded - exact).norm() / exact.norm()) < 0.02
        torch.testing.assert_close(change.sums, residuals.sum(dim=0))


def test_blocks_of_images_add_up_to_all_of_them(drawn: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    problem = _problem(drawn)
    logits = problem.logits(torch.randn(6, problem.z.shape[1], generator=torch.Generator().manual_seed(2)))
    loss, residuals = problem.loss(logits)
    monkeypatch.setattr("zoo.evaluation.logistic_problem._NUMBERS_AT_A_TIME", 6 * 7)  # seven images, the last five
    in_blocks, same = problem.loss(logits)
    assert in_blocks == pytest.approx(loss, rel=1e-12)
    torch.testing.assert_close(same, residuals, rtol=0.0, atol=0.0)
    torch.testing.assert_close(problem.squares(same), residuals.square().sum(dim=0))
    expected = torch.nn.functional.cross_entropy(logits.double(), problem.y, reduction="sum")
    assert loss == pytest.approx(float(expected), rel=1e-6)
