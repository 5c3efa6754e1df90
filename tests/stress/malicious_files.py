"""Reads malicious and damaged files of weights by the thousand: none may run, hang or crash anything.

    python tests/stress/malicious_files.py [--mutations 100000] [--workers 2] [--seed 0] [--seconds 20]

First the whole corpus of ``tests/malice*.py`` as it is, then mutations of it and of good files: bytes flipped, pieces
cut out, doubled and moved between files, instructions swapped, numbers made extreme; of whole files, and of pickles
before they are put into their containers. Each is read in a worker whose audit hook forbids, while it reads, to start
processes, to import, compile or look up anything by name, to open any file for writing, and to reach the network. A
worker that dies or takes longer than ``--seconds`` for one file names it. Exits with 1 unless all counts of harm are 0.

Measured with Python 3.11.7 and torch 2.15, two workers on two cores that others used as well: 100,652 files in 252 s,
7,743 read, 92,909 refused; 0 executed, 0 hung, 0 crashed, 0 greedy, 0 accepted, 0 unclear.

A mutation is made from the seed and its number alone: ``--only CASE`` reads one again, in this process.
"""

from __future__ import annotations

import argparse
import io
import multiprocessing
import os
import random
import resource
import struct
import sys
import tempfile
import time
import zipfile
import zlib
from collections import Counter
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

_ALLOWED_EVENTS = {"open", "mmap.__new__", "object.__getattr__", "object.__setattr__", "gc.get_objects", "os.fwalk"}
_HARMFUL_PREFIXES = (
    *("os.", "subprocess.", "pty.", "socket.", "shutil.", "tempfile.", "ctypes.", "marshal.", "code.", "sys."),
    *("import", "exec", "compile", "pickle.find_class", "webbrowser.", "urllib.", "http.", "ftplib.", "signal."),
)
_GIGABYTE = 1024**3
_INSTRUCTIONS = b"().012NJKMGIBCXTUSVFLPQRabcdeghijlopqrstu]}\x80\x81\x82\x85\x86\x87\x88\x89\x8a\x8b\x8c\x8d\x8e\x8f"
_INSTRUCTIONS += b"\x90\x91\x92\x93\x94\x95\x96\x97\x98"
_EXTREMES = [value.to_bytes(n, "little") for n in (1, 2, 4, 8) for value in (0, 1, 2 ** (8 * n - 1), 2 ** (8 * n) - 1)]


@dataclass
class Guard:
    """What the audit hook of a worker sees; hooks cannot be taken off, so it is switched."""

    is_reading: bool = False
    harm: list[str] = field(default_factory=list)

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.is_reading or event in _ALLOWED_EVENTS - {"open"}:
            return
        writes = event == "open" and (isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR))
        if writes or (event != "open" and event.startswith(_HARMFUL_PREFIXES)):
            self.harm.append(f"{event} {str(arguments)[:100]}")
            raise PermissionError(f"{event} while a file of weights is read")


@dataclass
class Cases:
    """The corpus and what mutations start from."""

    corpus: list[tuple[str, bytes]]
    pickles: list[bytes]
    files: list[bytes]
    seed: int

    def __getitem__(self, index: int) -> tuple[str, bytes]:
        if index < len(self.corpus):
            return self.corpus[index]
        number = index - len(self.corpus)
        return f"mutation {number} of seed {self.seed}", self.mutation(number)

    def mutation(self, number: int) -> bytes:
        """One damaged file."""
        from tests.weights.malice_files import CONTAINERS, archive

        source = random.Random(f"{self.seed} {number}")
        if source.random() < 0.4:
            wrap = source.choice(list(CONTAINERS.values()))
            return wrap(self._damaged(source, source.choice(self.pickles)))
        good = source.choice(self.files)
        members = _members(good) if source.random() < 0.5 else {}
        if members:
            damaged = source.choice(list(members))
            members[damaged] = self._damaged(source, members[damaged])
            return archive(members)
        return self._damaged(source, good)

    def _damaged(self, source: random.Random, data: bytes) -> bytes:
        for _ in range(source.choice((1, 1, 1, 2, 3, 8))):
            at, length = source.randrange(len(data) + 1), source.choice((1, 1, 2, 4, 8, 16, 64, 256))
            piece, rest = data[at : at + length], data[at + length :]
            other = source.choice(self.pickles)
            start = source.randrange(len(other))
            kind = source.randrange(9)
            if kind == 0:
                piece = bytes(byte ^ (1 << source.randrange(8)) for byte in piece[:1]) + piece[1:]
            elif kind == 1:
                piece = source.randbytes(len(piece))
            elif kind == 2:
                piece = bytes([source.choice(_INSTRUCTIONS)]) + piece[1:]
            elif kind == 3:
                piece = bytes([source.choice(_INSTRUCTIONS)]) + piece
            elif kind == 4:
                piece = b""
            elif kind == 5:
                piece = piece + piece
            elif kind == 6:
                piece = other[start : start + length]
            elif kind == 7:
                extreme = source.choice(_EXTREMES)
                piece = extreme + piece[len(extreme) :]
            elif source.random() < 0.2:
                rest = b""
            data = data[:at] + piece + rest
        return data


def cases(canary: Path, seed: int) -> Cases:
    """Everything there is to read."""
    from tests.weights.malice import armed
    from tests.weights.malice_bombs import bombs, tensor_bombs
    from tests.weights.malice_files import malicious_files
    from tests.weights.malice_good import good_files

    corpus = list(malicious_files(canary))
    pickles = [*armed(canary).values(), *bombs().values(), *tensor_bombs().values()]
    pickles += [members["data.pkl"] for members in map(_short, good_files().values()) if "data.pkl" in members]
    small = [data for _, data in corpus if len(data) < 10_000]
    good = list(good_files().values())
    return Cases(
        corpus, [data for data in pickles if len(data) < 10_000], small + good * (len(small) // len(good)), seed
    )


def _members(data: bytes) -> dict[str, bytes]:
    """The members of a zip archive in good order, none of any other file."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return {info.filename: archive.read(info) for info in archive.infolist()}
    except (zipfile.BadZipFile, RuntimeError, ValueError, OSError, EOFError, struct.error, zlib.error):
        return {}


def _short(data: bytes) -> dict[str, bytes]:
    return {name.partition("/")[2]: content for name, content in _members(data).items()}


def _memory(*, is_reset: bool = False) -> int:
    """Most bytes that this process has had in memory since the last reset; 0 where Linux does not say."""
    status = Path("/proc/self/status")
    if is_reset and status.exists():
        Path("/proc/self/clear_refs").write_text("5")
    return int(status.read_text().partition("VmHWM:")[2].split()[0]) * 1024 if status.exists() else 0


def work(folder: str, seed: int, first: int, last: int, step: int, shared: Any) -> None:
    """Reads cases first, first + step, ...; ``shared`` is the current one, when it began, those read and refused."""
    from zoo.errors import WeightsRefused
    from zoo.weights.checkpoints import read_checkpoint

    path, canary = Path(folder) / f"file {first % step}", Path(folder) / "canary"
    all_cases = cases(canary, seed)
    from tests.weights.malice import DICT, whole
    from tests.weights.malice_files import torch_zip

    for data in [*all_cases.files[-50:], torch_zip(whole(DICT))]:  # whatever torch and zipfile import late, now
        path.write_bytes(data)
        read_checkpoint(path, what="'encoder'")
    guard = Guard()
    sys.addaudithook(guard)
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    resource.setrlimit(resource.RLIMIT_DATA, (used + 2 * _GIGABYTE, resource.RLIM_INFINITY))
    with (Path(folder) / f"harm {first % step}").open("a", buffering=1) as log:
        for index in range(first, last, step):
            name, data = all_cases[index]
            path.write_bytes(data)
            shared[0], shared[1] = index, time.monotonic()
            before = _memory(is_reset=True)
            guard.is_reading = True
            try:  # any other error ends this worker, as a crash does
                read_checkpoint(path, what="'encoder'")
                shared[2] += 1
                if index < len(all_cases.corpus):
                    log.write(f"accepted: {name}\n")
            except WeightsRefused as error:
                shared[3] += 1
                if "\n" in str(error):
                    log.write(f"unclear: {name}: a message of several lines\n")
            guard.is_reading = False
            if _memory() - before > 3 * len(data) + 64 * 1024**2:
                log.write(f"greedy: {name}: {(_memory() - before) // 1024**2} MiB for {len(data)} bytes\n")
            if guard.harm or canary.exists():
                log.write(f"executed: {name}: {guard.harm or 'the canary'}\n")
                guard.harm.clear()
                canary.unlink(missing_ok=True)
    shared[4] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - used
    shared[0] = last


def again(index: int, seed: int) -> int:
    """Reads one case, and prints what it is and what comes out."""
    from zoo.weights.checkpoints import read_checkpoint

    with tempfile.TemporaryDirectory() as folder:
        name, data = cases(Path(folder) / "canary", seed)[index]
        print(name, len(data), "bytes", data[:2000])
        path = Path(folder) / "file"
        path.write_bytes(data)
        print(read_checkpoint(path, what=name))
    return 0


def main() -> int:
    """Runs the workers, and prints what they counted."""
    parser = argparse.ArgumentParser(description="Malicious and damaged files, by the thousand.")
    parser.add_argument("--mutations", type=int, default=100_000, help="damaged files added to the corpus [100000]")
    parser.add_argument("--workers", type=int, default=2, help="processes [2]")
    parser.add_argument("--seed", type=int, default=0, help="of the mutations [0]")
    parser.add_argument("--seconds", type=float, default=20, help="after which a file counts as hung [20]")
    parser.add_argument("--without-corpus", action="store_true", help="the mutations alone")
    parser.add_argument("--only", type=int, metavar="CASE", help="read this one case again, and say what it holds")
    options = parser.parse_args()
    if options.only is not None:
        return again(options.only, options.seed)
    context = multiprocessing.get_context("spawn")
    harm: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        from tests.weights.malice_files import malicious_files

        n_corpus = sum(1 for _ in malicious_files(Path(folder)))
        first, n = n_corpus if options.without_corpus else 0, n_corpus + options.mutations
        state = [context.Array("d", [first + worker, 0, 0, 0, 0], lock=False) for worker in range(options.workers)]

        def started(worker: int, first: int) -> BaseProcess:
            state[worker][1] = time.monotonic() + 120  # until the first file
            arguments = (folder, options.seed, first, n, options.workers, state[worker])
            process = context.Process(target=work, args=arguments, daemon=True)
            process.start()
            return process

        start = time.monotonic()
        running = {worker: started(worker, first + worker) for worker in range(options.workers)}
        while running:
            time.sleep(0.1)
            for worker, process in list(running.items()):
                index = int(state[worker][0])
                if process.is_alive() and time.monotonic() - state[worker][1] < options.seconds:
                    continue
                kind = "hung" if process.is_alive() else "crashed"
                process.kill()
                process.join()
                del running[worker]
                if index < n:
                    harm[kind] += 1
                    print(f"{kind}: case {index} of seed {options.seed} (exit code {process.exitcode})")
                    if index + options.workers < n:
                        running[worker] = started(worker, index + options.workers)
        for log in sorted(Path(folder).glob("harm *")):
            for line in log.read_text().splitlines():
                harm[line.partition(":")[0]] += 1
                print(line)
        seconds = time.monotonic() - start
    read, refused = (int(sum(worker[place] for worker in state)) for place in (2, 3))
    peak = max(worker[4] for worker in state) / 1024**2
    print(f"{n - first} files in {seconds:.0f} s: {read} read, {refused} refused; {peak:.0f} MB more than before")
    print(
        ", ".join(f"{harm[kind]} {kind}" for kind in ("executed", "hung", "crashed", "greedy", "accepted", "unclear"))
    )
    return 1 if harm else 0


if __name__ == "__main__":
    sys.exit(main())
