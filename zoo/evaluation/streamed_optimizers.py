"""Optimizers of a linear probe and the course of its learning rate."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..optional import requires_extra
from .streamed_space import Candidate

with requires_extra("evaluate", needed_for="Training probes"):
    import torch

MOMENTUM = 0.9
_TRUST = 0.001
_WARM_UP = 0.1  # share of the steps
_DROPS = (0.6, 0.8)  # after which share of the steps the learning rate falls to a tenth


def optimizer_of(candidate: Candidate, weight: torch.nn.Parameter, bias: torch.nn.Parameter) -> torch.optim.Optimizer:
    """The optimizer of one candidate, whose intercept does not decay."""
    groups = [{"params": [weight], "weight_decay": candidate.weight_decay}, {"params": [bias], "weight_decay": 0.0}]
    if candidate.optimizer == "adam":
        return torch.optim.Adam(groups, lr=candidate.learning_rate, fused=True)
    if candidate.optimizer == "sgd":
        return torch.optim.SGD(groups, lr=candidate.learning_rate, momentum=MOMENTUM, fused=True)
    return Lars(groups, lr=candidate.learning_rate, momentum=MOMENTUM)


class Lars(torch.optim.Optimizer):
    """Stochastic gradient descent whose steps are proportional to the norm of what they move.

    v <- momentum v + trust |w| / (|g| + decay |w|) (g + decay w);  w <- w - lr v, with trust 0.001. As is usual, a
    parameter without decay (the intercept) moves by its plain gradient, and so does one that is 0.

    References
    ----------
    You et al. 2017, Large Batch Training of Convolutional Networks, Eq. 6 and Algorithm 1.
    """

    def __init__(self, groups: list[dict[str, Any]], *, lr: float, momentum: float) -> None:
        super().__init__(groups, {"lr": lr, "momentum": momentum, "weight_decay": 0.0})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """One step, from the gradients as they are."""
        for group in self.param_groups:
            for parameter in group["params"]:
                step = parameter.grad
                if group["weight_decay"]:
                    norm, slope = torch.linalg.vector_norm(parameter), torch.linalg.vector_norm(step)
                    trust = _TRUST * norm / (slope + group["weight_decay"] * norm)
                    step = torch.add(step, parameter, alpha=group["weight_decay"])
                    step.mul_(torch.where((norm > 0) & (slope > 0), trust, torch.ones_like(trust)))
                state = self.state[parameter]
                if "momentum_buffer" not in state:
                    state["momentum_buffer"] = torch.zeros_like(parameter)
                moving = state["momentum_buffer"].mul_(group["momentum"]).add_(step)
                parameter.add_(moving, alpha=-group["lr"])


def factor(schedule: str, step: int, n_steps: int) -> float:
    """Of the largest learning rate, at step 0 to ``n_steps - 1``.

    "constant"; "multistep": a tenth after 60 % of the steps and a hundredth after 80 %; "cosine": half a wave from 1
    to 0; "warmcosine": a straight rise over the first 10 % of the steps, and then half a wave.

    >>> [factor("multistep", step, 10) for step in (0, 5, 6, 8)]
    [1.0, 1.0, 0.1, 0.01]
    >>> [round(factor("cosine", step, 4), 2) for step in range(4)]
    [1.0, 0.85, 0.5, 0.15]
    >>> [round(factor("warmcosine", step, 20), 2) for step in (0, 1, 2, 11)]
    [0.5, 1.0, 1.0, 0.5]
    """
    if schedule == "constant":
        return 1.0
    if schedule == "multistep":
        return float((1.0, 0.1, 0.01)[sum(step >= share * n_steps for share in _DROPS)])
    if schedule == "cosine":
        return _half_wave(step / n_steps)
    rise = max(1, round(_WARM_UP * n_steps))
    return (step + 1) / rise if step < rise else _half_wave((step - rise) / max(1, n_steps - rise))


def _half_wave(share: float) -> float:
    return 0.5 * (1 + math.cos(math.pi * share))
