"""Runs the numerical tests with the arithmetic of other processors, as far as this processor has it.

Libraries choose their kernels by the processor: other instructions add in another order, with or without fused
multiplications, and round elsewhere. Each setting below makes one library choose as it would on another processor; a
process of its own first reports what the libraries really chose, and a setting that did not take effect is not run.

    python tests/stress/kernels.py                                    # every setting, which takes hours
    python tests/stress/kernels.py --only plain x86-2009 --tests 'evaluation/label_free/*'
    python tests/stress/kernels.py --only plain --python .venv/bin/python --python /opt/python3.13/bin/python
    python tests/stress/kernels.py --list                             # what each setting means, and what it gives here

The exit status is 1 where a test failed, where the tests did not end in time, or where a setting that was asked for by
name cannot be had here.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from prettytable import PrettyTable

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.slow import short_name

REPOSITORY = Path(__file__).resolve().parents[2]

# Numerical is every test file and every doctest but these, which compare text, files, processes and locks. A new or
# renamed file is therefore run, and a test checks that each of these still names one.
NOT_NUMERICAL = (
    "cards/[!r]*",
    "cli/doctor",
    "results/filter_expression",
    "datasets/subsets",
    "datasets/folders",
    "datasets/libraries",
    "datasets/sources",
    "docs",
    "features/origin",
    "hub/*",
    "layers",
    "lives_with_others",
    "results/[!pr]*",
    "results/published_tables",
    "results/recording*",
    "studies/report",
    "suite",
    "weights/*",
    "wheel",
)

# What a process that runs under a setting says about itself; the two verbose libraries print to stdout.
REPORT = """
import ctypes, json, os, platform, sys
import zoo  # first, as it may limit what oneDNN uses
import numpy, scipy.linalg, threadpoolctl, torch
torch.ones(4, 4).to_mkldnn().to_dense() if torch.backends.mkldnn.is_available() else None
torch.ones(4, 4) @ torch.ones(4, 4)
sys.stdout.flush()
ctypes.CDLL(None).fflush(None)
pools = [pool for pool in threadpoolctl.threadpool_info() if "architecture" in pool]
blas = {pool["filepath"].split(os.sep)[-2]: pool["architecture"] for pool in pools}
report = {
    "machine": platform.machine(), "python": platform.python_version(), "torch": torch.__version__,
    "aten": torch.backends.cpu.get_cpu_capability(), "blas": blas, "threads": torch.get_num_threads(),
    "numpy": numpy.show_config(mode="dicts")["SIMD Extensions"].get("found", []),
}
print("REPORT " + json.dumps(report))
"""


@dataclass(frozen=True)
class Setting:
    """Variables of the environment, and what the report of a process must say for them to have taken effect."""

    name: str
    imitates: str
    variables: dict[str, str] = field(default_factory=dict)
    took_effect: Callable[[dict[str, Any]], bool] = lambda report: True


def reported(key: str, *names: str) -> Callable[[dict[str, Any]], bool]:
    """Whether the report's ``key`` is one of ``names``."""
    return lambda report: report.get(key) in names


def openblas(core: str) -> Setting:
    """NumPy's and SciPy's own OpenBLAS with the kernels of one core; builds name an older core where they lack one."""
    answers = {"Prescott": "Katmai", "Zen": "Haswell", "Cooperlake": "SkylakeX", "SapphireRapids": "SkylakeX"}

    def took_effect(report: dict[str, Any]) -> bool:
        return bool(report["blas"]) and set(report["blas"].values()) <= {core, answers.get(core, core)}

    return Setting(f"openblas-{core}", f"OpenBLAS on {core}", {"OPENBLAS_CORETYPE": core}, took_effect)


def without_simd(report: dict[str, Any]) -> bool:
    """Whether NumPy found nothing beyond its baseline."""
    return not report["numpy"]


def settings(numpy_features: list[str]) -> dict[str, Setting]:
    """Every setting by name, given what NumPy finds on this processor beyond its baseline."""
    wide = [feature for feature in numpy_features if "512" in feature or feature == "X86_V4"]
    no_avx512 = {"NPY_DISABLE_CPU_FEATURES": " ".join(wide)} if wide else {}

    def without_avx512(report: dict[str, Any]) -> bool:
        return not set(report["numpy"]) & set(wide)

    baseline = {"NPY_DISABLE_CPU_FEATURES": " ".join(numpy_features)} if numpy_features else {}
    # The mathematical functions of the C library (exp, log, pow) have variants with and without fused multiplication.
    libm = {"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX,-AVX2,-AVX512F,-FMA,-FMA4"}
    old = {
        "ATEN_CPU_CAPABILITY": "default",
        "ONEDNN_MAX_CPU_ISA": "SSE41",
        "OPENBLAS_CORETYPE": "Nehalem",
        "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
        **baseline,
        **libm,
    }
    every = (
        Setting("plain", "this processor as it is, one thread"),
        Setting("two-threads", "two threads", {"OMP_NUM_THREADS": "2"}, reported("threads", 2)),
        Setting(
            "four-threads", "four threads", {"OMP_NUM_THREADS": "4", "MKL_DYNAMIC": "FALSE"}, reported("threads", 4)
        ),
        Setting("aten-default", "PyTorch without AVX", {"ATEN_CPU_CAPABILITY": "default"}, reported("aten", "DEFAULT")),
        Setting("aten-avx2", "PyTorch with AVX2", {"ATEN_CPU_CAPABILITY": "avx2"}, reported("aten", "AVX2")),
        Setting("aten-avx512", "PyTorch with AVX-512", {"ATEN_CPU_CAPABILITY": "avx512"}, reported("aten", "AVX512")),
        Setting(
            "onednn-sse41", "oneDNN with SSE4.1", {"ONEDNN_MAX_CPU_ISA": "SSE41"}, reported("onednn", "Intel SSE4.1")
        ),
        Setting("onednn-avx2", "oneDNN with AVX2", {"ONEDNN_MAX_CPU_ISA": "AVX2"}, reported("onednn", "Intel AVX2")),
        Setting(
            "onednn-avx512",
            "oneDNN with AVX-512, without bfloat16 and AMX",
            {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE"},
            lambda report: bool(re.fullmatch(r"Intel AVX-512 with AVX512BW.*", report.get("onednn", ""))),
        ),
        *(
            openblas(core)
            for core in ("Prescott", "Nehalem", "Sandybridge", "Haswell", "Zen", "SkylakeX", "SapphireRapids")
        ),
        *(
            Setting(
                f"mkl-{name}",
                f"MKL with {said}",
                {"MKL_ENABLE_INSTRUCTIONS": value},
                lambda report, said=said: said in report.get("mkl", "") and "512" not in report["mkl"],  # type: ignore[misc]
            )
            for name, value, said in (("sse42", "SSE4_2", "SSE4.2"), ("avx2", "AVX2", "AVX2"))
        ),
        Setting(
            "mkl-compatible",
            "MKL on a processor it has no kernels for",
            {"MKL_CBWR": "COMPATIBLE"},
            reported("mkl_cbwr", "COMPATIBLE"),
        ),
        Setting("numpy-baseline", "NumPy's own loops without AVX", baseline, without_simd),
        Setting(
            "numpy-no-avx512",
            "NumPy's own loops without AVX-512",
            no_avx512,
            without_avx512,
        ),
        Setting(
            "libm-no-fma",
            "exp, log and pow of the C library without fused multiplication",
            libm,
            reported("libm_fma", False),
        ),
        Setting(
            "x86-avx2",
            "all of it at once, as a processor with AVX2 alone",
            {
                "ATEN_CPU_CAPABILITY": "avx2",
                "ONEDNN_MAX_CPU_ISA": "AVX2",
                "OPENBLAS_CORETYPE": "Haswell",
                "MKL_ENABLE_INSTRUCTIONS": "AVX2",
                **no_avx512,
            },
            lambda report: (
                report["aten"] == "AVX2" and set(report["blas"].values()) <= {"Haswell"} and without_avx512(report)
            ),
        ),
        Setting(
            "x86-2009",
            "all of it at once, as a processor of 2009",
            old,
            lambda report: (
                report["aten"] == "DEFAULT" and set(report["blas"].values()) <= {"Nehalem"} and without_simd(report)
            ),
        ),
    )
    return {one.name: one for one in every}


def environment(setting: Setting) -> dict[str, str]:
    """Today's environment with one thread, none of the variables that any setting sets but this one's own."""
    chosen = ("ATEN_CPU", "ONEDNN_", "DNNL_", "OPENBLAS_", "MKL_", "NPY_", "OMP_", "GLIBC_TUNABLES")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(chosen)}
    return {**kept, "OMP_NUM_THREADS": "1", **setting.variables}


def c_library_has_fma(variables: dict[str, str]) -> bool | None:
    """Whether the C library uses fused multiplication (FMA and AVX2 of leaf 7 and 1), None where it does not say."""
    loader = next(Path("/lib64").glob("ld-linux-x86-64.so*"), None)
    if loader is None:
        return None
    said = subprocess.run([loader, "--list-diagnostics"], env=variables, capture_output=True, text=True, check=False)
    leaf = re.search(r"^x86\.cpu_features\.features\[0x0\]\.active\[0x2\]=(0x[0-9a-f]+)$", said.stdout, re.MULTILINE)
    return bool(int(leaf[1], 16) >> 12 & 1) if leaf else None


def report_of(python: Path, setting: Setting) -> dict[str, Any]:
    """What a process under a setting says about its own libraries."""
    variables = environment(setting)
    verbose = {**variables, "ONEDNN_VERBOSE": "1", "MKL_VERBOSE": "1"}
    said = subprocess.run(
        [python, "-c", REPORT], cwd=REPOSITORY, env=verbose, capture_output=True, text=True, check=False
    )
    line = re.search(r"^REPORT (.*)$", said.stdout, re.MULTILINE)
    if line is None:
        raise SystemExit(f"{python} could not import what the tests need under {setting.variables}:\n{said.stderr}")
    report: dict[str, Any] = json.loads(line[1])
    for key, pattern in (
        ("onednn", r"^onednn_verbose,.*,cpu,isa:(.*)$"),
        ("mkl", r"^MKL_VERBOSE .*MKL .*? architecture (.*), (?:Lnx|Win|OSX)"),
        ("mkl_cbwr", r"^MKL_VERBOSE .*CNR:(\w+)"),
    ):
        found = re.search(pattern, said.stdout, re.MULTILINE)
        if found:
            report[key] = found[1]
    report["libm_fma"] = c_library_has_fma(variables)
    return report


def facts(report: dict[str, Any]) -> list[str]:
    """A report in words, one library each."""
    onednn = report.get("onednn", "none").removeprefix("Intel ")
    mkl = (re.findall(r"\(Intel\(R\) ([^)]*)\)", report.get("mkl", "")) or [report.get("mkl", "none")])[-1]
    return [
        f"ATen {report['aten']}",
        f"oneDNN {onednn}",
        f"MKL {mkl}",
        f"OpenBLAS {', '.join(sorted(set(report['blas'].values()))) or 'none'}",
        f"NumPy {' '.join(report['numpy']) or 'baseline'}",
        f"C library {'with' if report['libm_fma'] else 'without'} FMA",
        f"{report['threads']} threads",
    ]


def numerical_tests(patterns: list[str]) -> list[str]:
    """Test files that match one of ``patterns``; without any, the numerical ones and the doctests of zoo."""
    files = sorted((REPOSITORY / "tests").rglob("test_*.py"))
    if patterns:
        chosen = [path for path in files if any(fnmatch(short_name(path), pattern) for pattern in patterns)]
        chosen += [REPOSITORY / "zoo"] if "zoo" in patterns else []
    else:
        chosen = [path for path in files if not any(fnmatch(short_name(path), pattern) for pattern in NOT_NUMERICAL)]
        chosen += [REPOSITORY / "zoo"]
    if not chosen:
        raise SystemExit(
            f"No test file matches {' '.join(patterns)}; give for example 'evaluation/label_free/*', or zoo."
        )
    return [str(path.relative_to(REPOSITORY)) for path in chosen]


@dataclass(frozen=True)
class Outcome:
    """What one run of the tests gave; ``failed`` also says what ended it early."""

    passed: int
    failed: tuple[str, ...]
    seconds: float
    processor_seconds: float


def run_tests(
    python: Path, setting: Setting, tests: list[str], *, log: Path, processes: int, minutes: float
) -> Outcome:
    """The tests under a setting, with everything they print in ``log``."""
    written = log.with_suffix(".xml")
    written.unlink(missing_ok=True)
    began, used = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    parallel = ["--numprocesses", str(processes), "--dist", "worksteal"] if processes > 1 else []
    ended = ""
    with log.open("w") as output:
        try:
            status = subprocess.run(
                [python, "-m", "pytest", "-v", "-p", "no:cacheprovider", f"--junitxml={written}", *parallel, *tests],
                cwd=REPOSITORY,
                env=environment(setting),
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=60 * minutes,
                check=False,
            ).returncode
        except subprocess.TimeoutExpired:
            ended = f"not done after {minutes:g} minutes"
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cases = list(ElementTree.parse(written).getroot().iter("testcase")) if written.exists() else []
    wrong = [case for case in cases if case.find("failure") is not None or case.find("error") is not None]
    skipped = sum(case.find("skipped") is not None for case in cases)
    if not ended and status != (1 if wrong else 0):  # a crash, an error of pytest, or too much memory
        ended = f"pytest ended with status {status}; see the end of {log}"
    return Outcome(
        passed=len(cases) - len(wrong) - skipped,
        failed=(
            *(f"{(case.get('classname') or '').rpartition('.')[2]}::{case.get('name')}" for case in wrong),
            *([ended] if ended else []),
        ),
        seconds=time.monotonic() - began,
        processor_seconds=after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime,
    )


def main() -> int:
    """Runs what was asked for, and prints a line as soon as a setting is done."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--only", nargs="+", default=[], metavar="SETTING", help="names, also with * (default: every one)"
    )
    parser.add_argument(
        "--tests",
        nargs="+",
        default=[],
        metavar="STEM",
        help="test files below tests/, such as 'evaluation/label_free/*', and zoo for its doctests",
    )
    parser.add_argument(
        "--python",
        action="append",
        type=Path,
        default=[],
        metavar="PATH",
        help="another interpreter; may be given again",
    )
    parser.add_argument("--numprocesses", type=int, default=1, metavar="N", help="workers of pytest-xdist (default: 1)")
    parser.add_argument("--minutes", type=float, default=60, help="limit for one setting (default: 60)")
    parser.add_argument("--logs", type=Path, help="folder of what pytest prints (default: a new temporary one)")
    parser.add_argument("--list", action="store_true", help="say what each setting gives here, and run nothing")
    asked = parser.parse_args()
    logs = asked.logs or Path(tempfile.mkdtemp(prefix="kernels-"))
    logs.mkdir(parents=True, exist_ok=True)
    tests = numerical_tests(asked.tests)
    pythons = [path.absolute() for path in asked.python] or [Path(sys.executable)]
    table = PrettyTable(
        ["python", "setting", "passed", "failed", "seconds", "processor s", "what"], align="l", max_width=80
    )
    wrong = False
    for python in pythons:
        plain = report_of(python, Setting("plain", ""))
        known = settings(plain["numpy"])
        names = [name for name in known if not asked.only or any(fnmatch(name, one) for one in asked.only)]
        unknown = [one for one in asked.only if not any(fnmatch(name, one) for name in known)]
        if unknown:
            raise SystemExit(f"There is no setting {', '.join(unknown)}; there are {', '.join(known)}.")
        label = f"{plain['python']} {plain['machine']}"
        seen: dict[str, str] = {}  # facts of a report, and the first setting that gave them
        for name in names:
            setting = known[name]
            report = report_of(python, setting)
            differs = [fact for fact in facts(report) if fact not in facts(plain) or name == "plain"]
            if not setting.took_effect(report) or (name != "plain" and not setting.variables):
                wrong |= name in asked.only
                row = ["", "", "", "", f"cannot be had here; {', '.join(differs) or 'as plain'}"]
            elif (twin := seen.setdefault(json.dumps(report, sort_keys=True), name)) != name:
                row = ["", "", "", "", f"the same kernels as {twin} here"]
            elif asked.list:
                row = ["", "", "", "", f"{setting.imitates}: {', '.join(differs) or 'as plain'}"]
            else:
                log = logs / f"{plain['python']}-{name}.log"
                found = run_tests(python, setting, tests, log=log, processes=asked.numprocesses, minutes=asked.minutes)
                wrong |= bool(found.failed) or not found.passed
                print(
                    f"{name}: {found.passed} passed, {len(found.failed)} failed", *found.failed, sep="\n  ", flush=True
                )
                times = f"{found.seconds:.0f}", f"{found.processor_seconds:.0f}"
                what = "\n".join(found.failed) or ", ".join(differs) or "as plain"
                row = [str(found.passed), str(len(found.failed)), *times, what]
            table.add_row([label, name, *row])
    print(table)
    print(f"{len(tests)} files of tests; what they printed is in {logs}")
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
