"""Lets the disk fail at every single write, and looks at what is left: the old file or the new one, never a mix.

    python tests/stress/write_faults.py [load register mirror export]

Needs a C compiler: tests/stress/faulty_disk.c is put before the C library, counts every call that changes something
below the zoo's folders (write, fsync, rename, link, mkdir, open with O_CREAT, ...), and fails the one it is told to
with ENOSPC (no room, from then on) or EIO (once). A load with download, conversion and lock file, a registration, a
mirror and an export each run once to be counted, then once for every call and error. After each, what has a name must
be whole (weights, records, lock file, card, manifest), the refusal must be one sentence, and the same command must
succeed once the disk is repaired. Expected: every line ends with 0 faults.

Takes a quarter of an hour. Measured: load 73 calls, register 60, mirror 305, export 98, with each error; 0 faults.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
import traceback
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_PRELOADED = "ZOO_BENCHMARK_DISK"
_MODES = (("ENOSPC", errno.ENOSPC, 1), ("EIO", errno.EIO, 0))


def restart_with_faulty_disk() -> int:
    """Compiles the disk and runs this script on it."""
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder, "disk.so")
        source = Path(__file__).with_name("faulty_disk.c")
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"], check=True)
        environment = {**os.environ, "LD_PRELOAD": str(library), _PRELOADED: str(library)}
        return subprocess.run([sys.executable, __file__, *sys.argv[1:]], env=environment, check=False).returncode


def whole(folder: Path, locks: tuple[str, ...]) -> str:
    """What is wrong with the files that have a name; "" if nothing."""
    from zoo.weights import store

    for path in folder.rglob("*"):
        name = path.name
        if path.is_dir() or name.endswith(".tmp") or "partial" in path.parts:
            continue
        if path.parent.name == "tensors" and sha256(path.read_bytes()).hexdigest() != path.stem:
            return f"half weights {name}"
        if path.parent.name == "downloads" and sha256(path.read_bytes()).hexdigest() != name.rpartition("-")[2]:
            return f"half download {name}"
        if path.parent.name == "records":
            store.parse_record(path.read_bytes(), where=name)
        if name == "zoo.lock" and path.read_text() not in locks:
            return "lock file is neither old nor new"
        if name.endswith(".toml"):
            tomllib.loads(path.read_text())
        if name in ("manifest.json", "config.json"):
            json.loads(path.read_text())
    return ""


def in_child(function: Callable[[], str]) -> str:
    """What a function says in a process of its own."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            said = function()
        except BaseException:
            said = "crash: " + traceback.format_exc()
        os.write(writing, said.encode()[:60_000])
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as file:
        said = file.read().decode()
    os.waitpid(child, 0)
    return said


def main() -> int:
    """Prints a line for each command and error; 1 if anything was half."""
    if _PRELOADED not in os.environ:
        return restart_with_faulty_disk()
    disk = ctypes.CDLL(os.environ[_PRELOADED])
    disk.disk_calls.restype = ctypes.c_long
    disk.disk_arm.argtypes = (ctypes.c_char_p, ctypes.c_long, ctypes.c_int, ctypes.c_int)
    sys.path.insert(0, str(ROOT))
    with tempfile.TemporaryDirectory() as private:
        base = Path(private, "start")
        work = Path(private, "work")
        for variable in ("ZOO_CACHE", "ZOO_HOME", "TORCH_HOME"):
            os.environ[variable] = str(work / variable)
        os.environ["ZOO_LOCK"] = str(work / "zoo.lock")
        os.environ["TQDM_DISABLE"] = "1"
        import click
        import timm  # noqa: F401  once, before the children
        import torch

        import zoo
        import zoo.hub.export
        import zoo.loading
        import zoo.registration
        import zoo.weights.download
        from tests.servers import serving
        from tests.tiny import checkpoint, write_card
        from zoo.cli import zoo as command
        from zoo.errors import ZooError

        torch.set_num_threads(1)
        work.mkdir()
        old = f"# SSL Zoo\nsha256:{'1' * 64} 5 https://elsewhere.org/a.pth\n"
        (work / "zoo.lock").write_text(old)
        write_card("tiny", "https://nowhere.invalid/tiny.pth")
        body = checkpoint("tiny")
        with serving({"/tiny.pth": body}) as server:
            write_card("tiny", f"{server.url}/tiny.pth")
            Path(work, "mine.pth").write_bytes(body)
            shutil.copytree(work, base)

            def load() -> None:
                zoo.load("tiny")

            def register() -> None:
                zoo.register(work / "mine.pth", like="tiny", name="mine")

            def mirror() -> None:
                command(["mirror", str(work / "mirror"), "tiny"], standalone_mode=False)

            def export() -> None:
                command(["export", "tiny", "--hub", str(work / "hub")], standalone_mode=False)

            def attempt(action: Callable[[], None], number: int, error: int, stays: int) -> str:
                null = os.open(os.devnull, os.O_WRONLY)
                os.dup2(null, 1)
                os.dup2(null, 2)
                disk.disk_arm(os.fsencode(work), number, error, stays)
                try:
                    action()
                    said = "fine"
                except ZooError as refusal:
                    said = "refused" if "\n" not in str(refusal) else "refused in many lines"
                except click.ClickException:  # what the command line makes of it; a list, where there are several
                    said = "refused"
                except Exception:
                    said = "crash: " + traceback.format_exc()
                return json.dumps([said, disk.disk_calls()])

            n_bad = 0
            actions = (load, register, mirror, export)
            for action in (action for action in actions if action.__name__ in sys.argv[1:] or len(sys.argv) == 1):
                locks = (old, _lock_after(action, attempt, work, base))
                for name, error, stays in _MODES:
                    calls = _count(action, attempt, work, base)
                    outcomes = {"fine": 0, "refused": 0}
                    for number in range(calls):
                        _restore(work, base)
                        said, _ = json.loads(in_child(lambda: attempt(action, number, error, stays)))  # noqa: B023
                        wrong = "" if said in outcomes else said
                        wrong = wrong or whole(work, locks)
                        if not wrong:
                            outcomes[said] += 1
                            again, _ = json.loads(in_child(lambda: attempt(action, -1, 0, 0)))  # noqa: B023
                            wrong = "" if again == "fine" else f"not repaired: {again}"
                        if wrong:
                            n_bad += 1
                            print(f"  {action.__name__}, {name} at call {number}: {wrong}")
                    print(
                        f"{action.__name__:9}{name:7} at each of {calls:4} calls: {outcomes['refused']:4} refused, "
                        f"{outcomes['fine']:4} went well all the same, {n_bad} faults"
                    )
    return int(n_bad > 0)


def _restore(work: Path, base: Path) -> None:
    shutil.rmtree(work)
    shutil.copytree(base, work)


def _count(action: Callable[[], None], attempt: Callable[..., str], work: Path, base: Path) -> int:
    _restore(work, base)
    said, calls = json.loads(in_child(lambda: attempt(action, -1, 0, 0)))
    assert said == "fine", said
    return int(calls)


def _lock_after(action: Callable[[], None], attempt: Callable[..., str], work: Path, base: Path) -> str:
    _count(action, attempt, work, base)
    return (work / "zoo.lock").read_text()


if __name__ == "__main__":
    sys.exit(main())
