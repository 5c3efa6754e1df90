"""What all tests share: a zoo without a developer's own content, and Python processes that cannot see the checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest

from tests.memory import Memory
from tests.slow import Slow

REPOSITORY = Path(__file__).resolve().parent.parent
Run = Callable[..., subprocess.CompletedProcess[str]]
LIBRARIES = tuple(dict.fromkeys(sysconfig.get_path(kind) for kind in ("purelib", "platlib")))


def pytest_configure(config: pytest.Config) -> None:
    """Before collection, which reads the cards; in the environment, so that processes inherit it."""
    private = tempfile.TemporaryDirectory(prefix="ssl-zoo-tests-")
    config.add_cleanup(private.cleanup)
    for variable in ("ZOO_CACHE", "ZOO_HOME", "TORCH_HOME"):
        folder = Path(private.name, variable.lower())
        folder.mkdir()
        os.environ[variable] = str(folder)
    config.pluginmanager.register(Memory(), "memory")
    config.pluginmanager.register(Slow(), "slow")


@pytest.fixture(scope="session")
def repository() -> Path:
    """Root of the checkout."""
    return REPOSITORY


@pytest.fixture(scope="session", autouse=True)
def cards_checked_once() -> Iterator[None]:
    """A card file of the same content is parsed once a process, and a card of the same facts checked once.

    Hundreds of tests add a card of the user's own; each would parse and check the 220 shipped ones again.
    """
    from zoo.cards import reading as cardfiles

    check, by_words = cardfiles.check_facts, {}

    def check_once(where: str, facts: dict[str, Any]) -> dict[str, Any]:
        key = where, repr(facts)
        if key not in by_words:
            by_words[key] = check(where, facts)  # what is refused is refused every time
        return by_words[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cardfiles, "_document", cache(cardfiles._document))
        patch.setattr(cardfiles, "check_facts", check_once)
        yield


@pytest.fixture
def run_apart(tmp_path: Path) -> Run:
    """Runs a script where the checkout can be found by nobody, not even through an editable installation.

    ``-S`` leaves out site-packages with its .pth files; PYTHONPATH brings back the libraries alone, after ``path``.
    """

    def run(
        script: str, *arguments: object, path: Iterable[Path] = (), cwd: Path = tmp_path
    ) -> subprocess.CompletedProcess[str]:
        search = [*map(str, path), *LIBRARIES]
        return subprocess.run(
            [sys.executable, "-S", "-c", script, *map(str, arguments)],
            cwd=cwd,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(search)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return run


@pytest.fixture
def slim_resnets(monkeypatch: pytest.MonkeyPatch) -> None:
    """ResNets of bottlenecks have a quarter of the channels inside these: the same layers in a tenth of the memory."""
    from zoo.encoders import resnet

    monkeypatch.setattr(resnet, "get_model", partial(resnet.get_model, width_per_group=16))


@pytest.fixture
def reduced_convnexts(monkeypatch: pytest.MonkeyPatch) -> None:
    """ConvNeXts have fewer and narrower blocks, and features as wide as those of the small one."""
    from zoo.encoders import timm_models

    reduced = partial(timm_models.timm_model, depths=(2, 2, 6, 2), dims=(40, 80, 160, 768))
    monkeypatch.setattr(timm_models, "timm_model", reduced)
