"""What is minimised and what is measured: closed forms, valid pixels alone, units."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from zoo.errors import DataError
from zoo.evaluation.curves.losses import TargetScale, angles, loss_of, n_terms, risks_of, scale_of
from zoo.evaluation.curves.recipe import TASKS

DEPTH, NORMALS, CLASSES = TASKS["depth"], TASKS["normals"], TASKS["classification"]


def maps(n_channels: int, *, n: int = 5, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    random = np.random.default_rng(seed)
    prediction, target = random.standard_normal((2, n, n_channels, 4, 4)).astype(np.float32)
    valid = random.random((n, 4, 4)) < 0.6
    valid[:, 0, 0] = True
    return torch.from_numpy(prediction), torch.from_numpy(target), torch.from_numpy(valid)


@pytest.mark.parametrize("task", [DEPTH, NORMALS])
def test_only_valid_pixels_count(task: object) -> None:
    prediction, target, valid = maps(task.n_channels)  # type: ignore[attr-defined]
    elsewhere = torch.where(valid.unsqueeze(1), prediction, 1e6)
    for values in (prediction, elsewhere):
        wrong = (values - target).abs().permute(0, 2, 3, 1)[valid].numpy()  # (n_valid, c)
        np.testing.assert_allclose(loss_of(task, values, target, valid), wrong.mean(), rtol=1e-6)  # type: ignore[arg-type]
    risks = [risks_of(task, values, target, valid, scale=TargetScale()) for values in (prediction, elsewhere)]  # type: ignore[arg-type]
    for metric in task.metrics:  # type: ignore[attr-defined]
        np.testing.assert_array_equal(risks[0][metric], risks[1][metric])


def test_the_risk_of_an_image_is_the_mean_over_its_own_valid_pixels() -> None:
    prediction, target, valid = maps(3)
    risks = risks_of(NORMALS, prediction, target, valid, scale=TargetScale())
    for image in range(5):
        one, other = (x[image].permute(1, 2, 0)[valid[image]].double().numpy() for x in (prediction, target))
        np.testing.assert_allclose(risks["normals_l1_error"][image], np.abs(one - other).mean(), rtol=1e-6)
        cosine = (one * other).sum(1) / np.linalg.norm(one, axis=1) / np.linalg.norm(other, axis=1)
        np.testing.assert_allclose(
            risks["normals_angular_error"][image], np.degrees(np.arccos(cosine)).mean(), rtol=1e-5
        )


def test_means_over_parts_of_a_batch_make_that_of_the_whole() -> None:
    prediction, target, valid = maps(1)
    whole = loss_of(DEPTH, prediction, target, valid)
    parts = [slice(0, 1), slice(1, 3), slice(3, 5)]
    weighted = [
        loss_of(DEPTH, prediction[part], target[part], valid[part]) * n_terms(DEPTH, target[part], valid[part])
        for part in parts
    ]
    np.testing.assert_allclose(sum(weighted) / n_terms(DEPTH, target, valid), whole, rtol=1e-6)


def test_what_is_not_valid_sends_no_gradient() -> None:
    prediction, target, valid = maps(1)
    prediction.requires_grad_()
    loss_of(DEPTH, prediction, target, valid).backward()
    assert prediction.grad is not None
    assert not prediction.grad[~valid.unsqueeze(1)].any()
    assert prediction.grad[valid.unsqueeze(1)].all()


def test_angles_are_exact_at_both_ends_and_know_no_length() -> None:
    turn = torch.tensor([0.0, 1e-3, 30.0, 90.0, 179.999, 180.0], dtype=torch.float64).deg2rad()
    one = torch.stack([turn.sin(), torch.zeros_like(turn), turn.cos()], dim=1).float()
    other = torch.tensor([[0.0, 0.0, 1.0]]).expand(6, 3)
    for scale in (1.0, 1e-6, 1e6):
        np.testing.assert_allclose(angles(scale * one, other), turn.rad2deg(), rtol=1e-4, atol=1e-5)
    assert angles(torch.zeros(1, 3), other[:1]).item() == pytest.approx(90)


def test_errors_of_classes_are_percent() -> None:
    logits = torch.tensor([[2.0, 1.0, 0.0], [0.0, 3.0, 1.0]])
    risks = risks_of(CLASSES, logits, torch.tensor([0, 2]), None, scale=TargetScale())
    assert risks["transfer_error"].tolist() == [0, 100]
    expected = -torch.log_softmax(logits.double(), 1)[[0, 1], [0, 2]].mean()
    assert loss_of(CLASSES, logits, torch.tensor([0, 2]), None).item() == pytest.approx(expected.item(), rel=1e-6)


def test_depths_are_trained_without_their_unit_and_measured_in_it() -> None:
    prediction, target, valid = maps(1)
    scale = scale_of(target[:, 0][valid].numpy()[:, None], what="depths")
    in_mm = scale_of(1000 * target[:, 0][valid].numpy()[:, None] + 70, what="depths")
    torch.testing.assert_close(in_mm.standardised(1000 * target + 70), scale.standardised(target), rtol=1e-4, atol=1e-4)
    own = risks_of(DEPTH, prediction, target, valid, scale=scale)["depth_l1_error"]
    other = risks_of(DEPTH, prediction, 1000 * target + 70, valid, scale=in_mm)["depth_l1_error"]
    torch.testing.assert_close(other, 1000 * own, rtol=1e-4, atol=1e-2)
    standardised = scale.standardised(target)[:, 0][valid]
    assert standardised.median().item() == pytest.approx(0, abs=0.1)
    assert standardised.abs().mean().item() == pytest.approx(1, rel=1e-6)


def test_a_constant_target_is_refused() -> None:
    with pytest.raises(DataError, match=r"All of the depths are 2.5; expected a target that varies"):
        scale_of(np.full((7, 1), 2.5, np.float32), what="the depths")
