"""How long the verbs of ``zoo`` leave their reader waiting: seconds to the first word, the longest silence, the total.

    python benchmarks/waits.py [--verb VERB ...] [--beside CHECKOUT] [--piped] [--cold] [--json]

Every command runs once as a process of its own, in the order below, on a pseudo-terminal; with ``--piped`` stdout and
stderr are pipes, where progress is not shown. Caches are fresh, and warmed by ``zoo list``, ``zoo results`` and a plan;
with ``--cold`` every command has a fresh one. Images are the shipped sets and 400 small PNG files, encoders the toy
ones, so that no network is needed. A silence lasts from the start, or from what was printed last, to what is
printed next, or to the end. Expected: no first word later than the goal of three seconds on a quiet machine, `zoo
recommend` within two seconds, and the plan of a choice within four.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import select
import struct
import subprocess
import sys
import tempfile
import termios
import time
from dataclasses import asdict, dataclass
from pathlib import Path

GOAL_S = 3.0  # until a command says what it does
_CLASSES = ("ash", "birch", "oak", "pine")
_N_OF_CLASS, _PX = 100, 64
_ENCODER, _VIT = "pocket_simclr_rn_shapes", "pocket_simclr_vit_shapes"
COMMANDS = f"""
zoo --help
zoo list
zoo show dino_vitS16
zoo results
zoo compare dino_vitS16 mae_vitB16
zoo recommend --labels 20k
zoo recommend --labels 5000 --licence permissive --measured
zoo recommend --by reported-linear --max-parameters 100M
zoo recommend --labels 20k --min-images-per-second 10
zoo choose folder --dry-run
zoo choose digits --dry-run
zoo choose digits --encoders {_ENCODER},{_VIT} --time 1m
zoo features {_ENCODER} digits --to features
zoo probe features/{_ENCODER}/features/digits-train-* features/{_ENCODER}/features/digits-val-*
zoo decompose features/{_ENCODER}/features/digits-train-* features/{_ENCODER}/features/digits-val-* --supervised 0
zoo evaluate {_ENCODER} folder --settings full,5-shot --save probe
zoo evaluate {_VIT} shapes --decompose --no-record
zoo predict probe folder
zoo layers {_VIT} digits --n-images 500 --probes 1
zoo metric rankme,lidar,logme {_ENCODER} digits --no-record
zoo metric rankme features/{_ENCODER}/features/digits-train-*
zoo curve {_ENCODER} shapes --task normals --regimes 20,50 --seeds 1 --learning-rates 1e-3 --maximal 0.01 --no-record
zoo runs ls features
zoo study
zoo study where_the_risk_lies
zoo study how_risk_scales_with_labels
zoo site --out site --only dino* --no-studies
zoo export {_ENCODER} --hub hub
zoo export --space space --only dino* --no-studies
zoo register hub/model.safetensors --like {_ENCODER} --id my_pocket
zoo check my_pocket
zoo get my_pocket
zoo mirror mirror
zoo verify
zoo cache ls
zoo cache gc --dry-run
zoo unregister my_pocket --yes
zoo doctor --offline
zoo demo --out demo
zoo completion bash
""".strip().splitlines()


_WARMING = ("zoo list", "zoo results", "zoo choose folder --dry-run")


@dataclass(frozen=True, slots=True)
class Wait:
    """What one command left its reader waiting for, in seconds."""

    command: str
    first_s: float  # until the first byte, or the end
    silence_s: float  # the longest
    total_s: float
    processor_s: float
    code: int
    said: str  # its first line


def waited(command: str, folder: Path, environment: dict[str, str], *, piped: bool) -> Wait:
    """Runs one command in a folder."""
    words = []
    for word in command.split()[1:]:
        words += sorted(str(path.relative_to(folder)) for path in folder.glob(word)) if "/" in word else [word]
    sources, given = [], []
    for _ in range(2 if piped else 1):
        source, end = os.pipe() if piped else os.openpty()
        if not piped:  # a bar in a terminal without columns would be empty
            fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 120, 0, 0))
        sources.append(source)
        given.append(end)
    began = last = time.perf_counter()
    process = [sys.executable, "-m", "zoo", *words]
    running = subprocess.Popen(
        process, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=given[0], stderr=given[-1]
    )
    for end in given:
        os.close(end)
    silences: list[float] = []
    printed, is_open = b"", list(sources)
    while is_open:
        for source in select.select(is_open, [], [])[0]:
            try:
                chunk = os.read(source, 65_536)
            except OSError:  # how Linux says that the other side of a terminal has closed
                chunk = b""
            if not chunk:
                is_open.remove(source)
                continue
            printed += chunk
            silences.append(time.perf_counter() - last)
            last = time.perf_counter()
    _, status, used = os.wait4(running.pid, 0)
    running.returncode = os.waitstatus_to_exitcode(status)
    silences.append(time.perf_counter() - last)
    for source in sources:
        os.close(source)
    return Wait(
        command=command,
        first_s=round(silences[0], 2),
        silence_s=round(max(silences), 2),
        total_s=round(time.perf_counter() - began, 2),
        processor_s=round(used.ru_utime + used.ru_stime, 2),
        code=running.returncode,
        said=printed.decode(errors="replace").strip().partition("\n")[0].strip(),
    )


def _filled(folder: Path) -> None:
    """A folder of images per class."""
    import numpy as np
    from PIL import Image

    generator = np.random.default_rng(0)
    for name in _CLASSES:
        (folder / "folder" / name).mkdir(parents=True)
        for number in range(_N_OF_CLASS):
            pixels = generator.integers(0, 256, (_PX, _PX, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / "folder" / name / f"{number}.png")


def main() -> None:
    """Run everything and print one table, or one JSON document."""
    parser = argparse.ArgumentParser(description="Waits of the command line.")
    parser.add_argument(
        "--verb", action="append", help="only this verb; repeatable; name those whose output it reads, too"
    )
    parser.add_argument("--beside", action="append", type=Path, default=[], help="another checkout, run alternately")
    parser.add_argument("--piped", action="store_true", help="stdout and stderr are pipes, not a terminal")
    parser.add_argument("--cold", action="store_true", help="a fresh cache for every command")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    waits = []
    if not options.json:
        print(f"load average {os.getloadavg()[0]:.1f}, goal of the first word {GOAL_S:g} s")
        print("  first  silence    total  processor")
    with tempfile.TemporaryDirectory() as temporary:
        sides = []
        for checkout in [Path(__file__).resolve().parents[1], *options.beside]:
            folder = Path(temporary) / str(len(sides))
            _filled(folder)
            places = {"ZOO_HOME": str(folder / "home"), "ZOO_CACHE": str(folder / "cache")}
            environment = os.environ | {"PYTHONPATH": str(checkout.resolve()), "ZOO_OFFLINE": "1"} | places
            sides.append((checkout, folder, environment))
            for command in () if options.cold else _WARMING:
                waited(command, folder, environment, piped=True)
        for number, command in enumerate(COMMANDS):
            if options.verb and command.split()[1] not in options.verb:
                continue
            for checkout, folder, environment in sides:
                if options.cold:
                    environment["ZOO_CACHE"] = str(folder / f"cache-{number}")
                one = waited(command, folder, environment, piped=options.piped)
                waits.append({"checkout": str(checkout), **asdict(one)})
                if not options.json:
                    late = "  late" if one.first_s > GOAL_S else ""
                    failed = f"  exit code {one.code}: {one.said}" if one.code else ""
                    where = f"  ({checkout})" if len(sides) > 1 else ""
                    print(
                        f"{one.first_s:7.2f}  {one.silence_s:7.2f}  {one.total_s:7.2f}  {one.processor_s:9.2f}  "
                        f"{command}{where}{late}{failed}",
                        flush=True,
                    )
    if options.json:
        print(json.dumps(waits, indent=1))


if __name__ == "__main__":
    main()
