"""Memory of computing stays with the process, linear layers are exact to rounding, want of memory is told."""

from __future__ import annotations

import platform
import subprocess
import sys
from collections.abc import Callable

import pytest
import torch

from tests.each import for_each
from zoo.encoders.processor import explain_memory_errors, use_fast_forward
from zoo.errors import QueryError

FAULTS = """
import resource, sys
import torch
from zoo.encoders.processor import keep_memory
kept = keep_memory() if sys.argv[1] == "keep" else None
torch.ones(1 << 24)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    torch.ones(1 << 24)
print(kept, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(how: str) -> tuple[str, int]:
    """Whether memory is kept, and page faults of a new process that makes a tensor of 64 MB ten times."""
    done = subprocess.run([sys.executable, "-c", FAULTS, how], capture_output=True, text=True, check=True)
    kept, number = done.stdout.split()
    return kept, int(number)


def test_tensors_of_the_same_size_take_the_memory_of_the_last_one() -> None:
    (kept, few), (_, many) = faults("keep"), faults("as it is")
    if platform.libc_ver()[0] == "glibc":
        assert kept == "True" and few < many / 2
    else:
        assert kept == "False"


@for_each(
    [
        torch.arange(5.0),
        torch.arange(15.0).view(3, 5),
        torch.arange(60.0).view(3, 5, 4).mT,
        torch.arange(120.0).view(2, 5, 3, 4).permute(0, 2, 3, 1),
        torch.arange(60.0).view(2, 6, 5)[:, ::2],
        torch.empty(0, 5),
        torch.arange(15.0, dtype=torch.float64).view(3, 5),
    ]
)
def test_linear_layers_are_the_same_up_to_rounding_whatever_the_memory_of_their_input(x: torch.Tensor) -> None:
    layer, bare = torch.nn.Linear(5, 7).to(x.dtype), torch.nn.Linear(5, 7, bias=False).to(x.dtype)
    with torch.inference_mode():
        plain = [layer(x), bare(x)]
        with use_fast_forward(layer, torch.device("cpu")):
            fast = [layer(x), bare(x)]
            with torch.autocast("cpu", dtype=torch.bfloat16):
                cast = layer(x)
    for one, other in zip(fast, plain, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-4)
    assert cast.dtype == (torch.bfloat16 if x.dtype == torch.float32 else x.dtype)


def test_functions_of_a_network_without_linear_layers_are_not_looked_at() -> None:
    cpu, modes = torch.device("cpu"), torch.overrides._get_current_function_mode_stack
    with use_fast_forward(torch.nn.Conv2d(3, 4, 1), cpu):
        without = len(modes())
    with use_fast_forward(torch.nn.Linear(3, 4), cpu):
        assert without == 0 and len(modes()) <= 1


def test_an_encoder_that_its_user_compiled_is_left_as_it_is() -> None:
    steps: list[str] = []

    def backend(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Callable[..., object]:
        steps.extend(str(node.target) for node in graph.graph.nodes)
        return graph.forward

    layer, x = torch.nn.Linear(5, 7), torch.ones(3, 5)
    with torch.inference_mode(), use_fast_forward(layer, torch.device("cpu")):
        found = torch.compile(layer, backend=backend)(x)
    assert any("linear" in step for step in steps) and not any("mkldnn" in step for step in steps)
    torch.testing.assert_close(found, layer(x))


def test_a_batch_that_does_not_fit_is_told_with_its_size() -> None:
    told = "64 images at once do not fit into the memory of 'cpu'"
    with pytest.raises(QueryError, match=told), explain_memory_errors(64, torch.device("cpu")):
        raise MemoryError
    with pytest.raises(RuntimeError, match="another"), explain_memory_errors(64, torch.device("cpu")):
        raise RuntimeError("another")
