"""What the zoo must know of a processor to be right on it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import zoo
from tests.conftest import Run

INTEL = "processor\t: 0\ncpuid level\t: {level}\nflags\t\t: fpu sse avx512_bf16 {flags}\n\nprocessor\t: 1\n"
ARM = "processor\t: 0\nBogoMIPS\t: 50.00\nFeatures\t: fp asimd bf16 i8mm\nCPU architecture: 8\n"


@pytest.mark.parametrize(
    ("told", "limited"),
    [
        (INTEL.format(level=28, flags="amx_bf16 amx_tile"), True),  # CPUID ends before leaf 0x1D, the tiles' size
        (INTEL.format(level=29, flags="amx_bf16 amx_tile"), False),
        (INTEL.format(level=28, flags="avx512f"), False),
        (ARM, False),
        (None, False),
    ],
    ids=["AMX without a description of its tiles", "AMX", "no AMX", "ARM", "no such file"],
)
def test_tiles_that_a_processor_does_not_describe_are_not_used(
    told: str | None, limited: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "cpuinfo"
    if told is not None:
        file.write_text(told)
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "")
    monkeypatch.delenv("ONEDNN_MAX_CPU_ISA")
    zoo._leave_out_undescribed_amx(str(file))
    assert os.environ.get("ONEDNN_MAX_CPU_ISA") == ("AVX512_CORE_FP16" if limited else None)


def test_a_limit_that_the_user_has_set_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cpuinfo").write_text(INTEL.format(level=28, flags="amx_tile"))
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX2")
    zoo._leave_out_undescribed_amx(str(tmp_path / "cpuinfo"))
    assert os.environ["ONEDNN_MAX_CPU_ISA"] == "AVX2"


def test_after_the_zoo_a_product_in_bfloat16_runs_on_this_processor(
    run_apart: Run, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ONEDNN_MAX_CPU_ISA", raising=False)
    script = """
import sys
import zoo
assert "torch" not in sys.modules
import torch
ones = torch.ones(512, 512, dtype=torch.bfloat16)
print((ones @ ones).float().unique().item())
"""
    done = run_apart(script, path=[repository])
    assert (done.returncode, done.stdout) == (0, "512.0\n"), done.stderr
