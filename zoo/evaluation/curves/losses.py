"""What training minimises, and how wrong a prediction is for each image, in the unit of the task's metrics."""

from __future__ import annotations

from dataclasses import dataclass

from ...errors import DataError
from ...optional import requires_extra
from .recipe import Task

with requires_extra("models", needed_for="Training a transfer"):
    import numpy as np
    import torch
    from torch import Tensor
    from torch.nn import functional


@dataclass(frozen=True, slots=True)
class TargetScale:
    """Where the numbers of a map lie; a network predicts ``(target - centre) / spread``.

    One spread for all channels, so that the loss is the same but for a factor.

    >>> TargetScale((10.0,), 2.0).in_units(TargetScale((10.0,), 2.0).standardised(torch.tensor([[[14.0]]]))).item()
    14.0
    """

    centre: tuple[float, ...] = ()  # of each channel; none: numbers are as they are
    spread: float = 1.0

    def standardised(self, target: Tensor) -> Tensor:
        """From the unit of the data to that of training, shape (n, c, ...); classes stay what they are."""
        return (target - self._centre(target)) / self.spread if self.centre else target

    def in_units(self, prediction: Tensor) -> Tensor:
        """From the unit of training to that of the data."""
        return prediction * self.spread + self._centre(prediction) if self.centre else prediction

    def _centre(self, like: Tensor) -> Tensor:
        return like.new_tensor(self.centre).view(-1, *(1,) * (like.dim() - 2))  # (c, 1, 1)


def scale_of(values: np.ndarray, *, what: str) -> TargetScale:
    """Median of each channel of float32 values (n, c), and mean absolute deviation from it over all channels.

    Refuses values that are all the same; ``what`` says of what they are.

    >>> scale_of(np.float32([[1], [2], [6]]), what="three depths")
    TargetScale(centre=(2.0,), spread=1.6666666666666667)
    """
    centre = np.median(values, axis=0).astype(np.float64)  # (c,)
    spread = float(np.mean(np.abs(values.astype(np.float64) - centre)))
    if not spread:
        constant = ", ".join(f"{number:g}" for number in centre)
        raise DataError(f"All of {what} are {constant}; expected a target that varies, for there is nothing to learn.")
    return TargetScale(tuple(centre.tolist()), spread)


def loss_of(task: Task, prediction: Tensor, target: Tensor, valid: Tensor | None) -> Tensor:
    """Mean of the task's loss over the images, or over the valid numbers of their maps; float32 (), lower is better.

    The cross-entropy of logits (n, n_outputs) and classes, int64 (n,); or the mean absolute error of maps, float32
    (n, n_outputs, px, px), both in the unit of training and finite everywhere, over the pixels of ``valid``, bool
    (n, px, px), of which there is at least one.

    >>> from zoo.evaluation.curves.recipe import TASKS
    >>> map_, seen = torch.zeros(1, 1, 1, 2), torch.tensor([[[True, False]]])
    >>> loss_of(TASKS["depth"], map_ + 3, map_, seen).item()
    3.0
    """
    if valid is None:
        return functional.cross_entropy(prediction, target)
    wrong = (prediction - target).abs() * valid.unsqueeze(1)  # (n, c, px, px)
    return wrong.sum() / n_terms(task, target, valid)


def n_terms(task: Task, target: Tensor, valid: Tensor | None) -> Tensor | int:
    """Numbers that :func:`loss_of` is the mean of, by which means over parts of a batch are weighted."""
    return len(target) if valid is None else valid.sum() * int(task.n_channels or 1)


def risks_of(
    task: Task, prediction: Tensor, target: Tensor, valid: Tensor | None, *, scale: TargetScale
) -> dict[str, Tensor]:
    """How wrong the prediction is for each image, by every metric of the task: float32 (n,), lower is better.

    Prediction, target and valid pixels are as in :func:`loss_of`, but that the target is in the unit of the data and
    each image has a valid pixel. ``transfer_error``: 0 or 100 %. ``*_l1_error``: mean absolute error over the valid
    pixels (and the components), in the unit of the data. ``normals_angular_error``: mean angle in degrees between the
    predicted and the true direction; a prediction of length 0 has none, and is wrong by 90.

    >>> from zoo.evaluation.curves.recipe import TASKS
    >>> risks_of(TASKS["classification"], torch.eye(2), torch.tensor([0, 0]), None, scale=TargetScale())
    {'transfer_error': tensor([  0., 100.])}
    """
    if valid is None:
        wrong = prediction.argmax(dim=1) != target
        return {task.metrics[0]: 100.0 * wrong.float()}
    prediction = scale.in_units(prediction)
    weight = valid.float() / valid.sum(dim=(1, 2), keepdim=True)  # (n, px, px), sums to 1 an image
    absolute = (prediction - target).abs().mean(dim=1)  # (n, px, px)
    risks = {task.metrics[0]: (absolute * weight).sum(dim=(1, 2))}
    for metric in task.metrics[1:]:  # of normals, the angle
        risks[metric] = (angles(prediction, target) * weight).sum(dim=(1, 2))
    return risks


def angles(one: Tensor, other: Tensor) -> Tensor:
    """Degrees between vectors of any length, shape (n, 3, ...) -> (n, ...); 90 if one has length 0.

    By the tangent of half the angle, which unlike the inverse cosine is exact near 0 and 180 degrees.

    >>> round(angles(torch.tensor([[0.0, 0.0, 2.0]]), torch.tensor([[0.0, 1e-4, 1.0]])).item(), 5)
    0.00573
    """
    a, b = functional.normalize(one, dim=1), functional.normalize(other, dim=1)
    return torch.rad2deg(2 * torch.atan2((a - b).norm(dim=1), (a + b).norm(dim=1)))
