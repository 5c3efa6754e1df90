"""Scripts in forks of a process that has imported PyTorch and timm, which takes a new process several seconds.

The process has imported nothing of the zoo and cannot find it: what a script runs in is what a user's process is, who
imported the libraries first.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

_TIMEOUT_S = 600  # ends what hangs; a busy machine is some ten times slower than an idle one
_SERVER = f"""
import atexit, importlib, json, multiprocessing.process, os, signal, sys, traceback, types
import numpy, pandas, PIL.Image, timm, torch, torchvision

def run(script, arguments, path, cwd, environment, out, err):
    signal.alarm({_TIMEOUT_S})
    for descriptor, name in ((0, os.devnull), (1, out), (2, err)):
        os.dup2(os.open(name, os.O_RDWR | os.O_CREAT, 0o600), descriptor)
    sys.stdin = open(0, closefd=False)
    os.chdir(cwd)
    multiprocessing.process.ORIGINAL_DIR = cwd  # what "" in sys.path means to processes that are started from here
    os.environ.clear()
    os.environ.update(environment)
    sys.path[1:1] = path
    sys.argv = ["-c", *arguments]
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    importlib.invalidate_caches()
    code = 0
    try:
        exec(compile(script, "<string>", "exec"), vars(main))
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        code = 1
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)

for line in sys.stdin:
    child = os.fork()
    if not child:
        run(**json.loads(line))
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
os._exit(0)  # at once: to take the libraries down takes seconds
"""


class WarmPython:
    """A Python without site-packages' .pth files, started at the first script.

    Parameters
    ----------
    libraries : sequence of str
        Folders with the libraries.
    """

    def __init__(self, libraries: Sequence[str]) -> None:
        self._libraries = libraries
        self._process: subprocess.Popen[str] | None = None

    def run(
        self, script: str, arguments: Sequence[str], *, path: Sequence[str], cwd: Path, environment: Mapping[str, str]
    ) -> subprocess.CompletedProcess[str]:
        """Runs a script as ``python -c`` does, with these folders before the libraries on ``sys.path``."""
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-S", "-c", _SERVER],
                cwd="/",
                env={**environment, "PYTHONPATH": ":".join(self._libraries)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        with tempfile.TemporaryDirectory() as folder:
            out, err = Path(folder, "out"), Path(folder, "err")
            asked = {
                "script": script,
                "arguments": arguments,
                "path": path,
                "cwd": str(cwd),
                "environment": dict(environment),
                "out": str(out),
                "err": str(err),
            }
            assert self._process.stdin is not None and self._process.stdout is not None
            self._process.stdin.write(json.dumps(asked) + "\n")
            self._process.stdin.flush()
            code = int(self._process.stdout.readline())
            return subprocess.CompletedProcess(["-c"], code, out.read_text(), err.read_text())

    def end(self) -> None:
        """Ends the process, if there is one."""
        if self._process is not None:
            self._process.communicate()
