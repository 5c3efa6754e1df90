"""What all tests share: a zoo without a developer's own content, and Python processes that cannot see the checkout."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.browser import WithoutBrowser
from tests.memory import Memory
from tests.slow import Slow
from tests.warm import WarmPython

REPOSITORY = Path(__file__).resolve().parent.parent
Run = Callable[..., subprocess.CompletedProcess[str]]
SHIPPED = REPOSITORY / "metadata", REPOSITORY / "results"
LIBRARIES = tuple(dict.fromkeys(sysconfig.get_path(kind) for kind in ("purelib", "platlib")))


def pytest_configure(config: pytest.Config) -> None:
    """Before collection, which reads the cards; in the environment, so that processes inherit it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as nohup and a shell's & have it, which processes inherit
        signal.signal(signal.SIGINT, signal.default_int_handler)
    private = tempfile.TemporaryDirectory(prefix="ssl-zoo-tests-")
    config.add_cleanup(private.cleanup)
    for variable in ("ZOO_CACHE", "ZOO_HOME", "TORCH_HOME"):
        folder = Path(private.name, variable.lower())
        folder.mkdir()
        os.environ[variable] = str(folder)
    os.environ["ZOO_PRIVATE_HOSTS"] = "1"  # where the servers of tests are that cards name
    config.pluginmanager.register(Memory(), "memory")
    config.pluginmanager.register(Slow(), "slow")
    config.pluginmanager.register(WithoutBrowser(), "without browser")


@pytest.fixture(scope="session")
def repository() -> Path:
    """Root of the checkout."""
    return REPOSITORY


@pytest.fixture(scope="session", autouse=True)
def shipped_files_looked_at_once() -> Iterator[None]:
    """Shipped card files and results are listed, and looked at, once per process: tests never change them.

    A card is asked for tens of thousands of times, and each time finds them all unchanged.
    """
    from zoo import files as content
    from zoo.cards import catalogue
    from zoo.results import reported, rows

    files_below, listed = content._files_below, {}
    stamp, stamps = catalogue.read_stamp, {}

    def list_once(folder: Path, suffix: str) -> list[str]:
        if folder not in SHIPPED:
            return files_below(folder, suffix)
        if (folder, suffix) not in listed:
            listed[folder, suffix] = files_below(folder, suffix)
        return [*listed[folder, suffix]]

    def stamp_once(path: str) -> Any:
        if path not in stamps:
            found = stamp(path)
            if not any(map(Path(path).is_relative_to, SHIPPED)):
                return found
            stamps[path] = found
        return stamps[path]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(content, "_files_below", list_once)
        for module in (catalogue, reported, rows):
            patch.setattr(module, "read_stamp", stamp_once)
        patch.setattr(os, "fsync", lambda descriptor: None)  # nothing here outlives a loss of power
        yield


@pytest.fixture(scope="session")
def warm_python() -> Iterator[WarmPython]:
    """Runs scripts where the libraries have been imported."""
    python = WarmPython(LIBRARIES)
    yield python
    python.end()


@pytest.fixture
def run_apart(tmp_path: Path, warm_python: WarmPython) -> Run:
    """Runs a script where the checkout can be found by nobody, not even through an editable installation.

    ``-S`` leaves out site-packages with its .pth files; PYTHONPATH brings back the libraries alone, after ``path``.
    ``warm`` is for scripts to which it does not matter that PyTorch, timm and pandas are imported already.
    """

    def run(
        script: str, *arguments: object, path: Iterable[Path] = (), cwd: Path = tmp_path, warm: bool = False
    ) -> subprocess.CompletedProcess[str]:
        folders, given = [*map(str, path)], [*map(str, arguments)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*folders, *LIBRARIES])}
        if warm:
            return warm_python.run(script, given, path=folders, cwd=cwd, environment=environment)
        return subprocess.run(
            [sys.executable, "-S", "-c", script, *given],
            cwd=cwd,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=600,  # ends what hangs
            check=False,
        )

    return run


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of a user who has measured nothing; the cache of features stays, for it changes no number."""
    monkeypatch.setenv("ZOO_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Home, cache and working folder of a user who has nothing yet; returns the last."""
    for variable in ("ZOO_HOME", "ZOO_CACHE"):
        monkeypatch.setenv(variable, str(tmp_path / variable.lower()))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def slim_resnets(monkeypatch: pytest.MonkeyPatch) -> None:
    """ResNets of bottlenecks have a quarter of the channels inside these: the same layers in a tenth of the memory."""
    from zoo.encoders import resnet

    monkeypatch.setattr(resnet, "make_resnet", partial(resnet.make_resnet, width_per_group=16))


@pytest.fixture
def reduced_convnexts(monkeypatch: pytest.MonkeyPatch) -> None:
    """ConvNeXts have fewer and narrower blocks, and features as wide as those of the small one."""
    from zoo.encoders import timm_models

    reduced = partial(timm_models.build_timm_model, depths=(2, 2, 6, 2), dims=(40, 80, 160, 768))
    monkeypatch.setattr(timm_models, "build_timm_model", reduced)
