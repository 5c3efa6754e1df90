"""What all tests share: a zoo without a developer's own content, and Python processes that cannot see the checkout."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from functools import cache, partial
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
    config.pluginmanager.register(Memory(), "memory")
    config.pluginmanager.register(Slow(), "slow")
    config.pluginmanager.register(WithoutBrowser(), "without browser")


@pytest.fixture(scope="session")
def repository() -> Path:
    """Root of the checkout."""
    return REPOSITORY


@pytest.fixture(scope="session", autouse=True)
def content_checked_once() -> Iterator[None]:
    """Card files and shipped results files of the same content are parsed once a process, cards checked once.

    Hundreds of tests add a card or rows of the user's; each would check the 220 cards and 25,000 rows of the zoo again.
    Tests never change the shipped files, so that they are also listed and looked at once: a card is asked for tens of
    thousands of times, and each time finds them all unchanged.
    """
    from zoo import files as content
    from zoo.cards import catalogue, compiled, reading
    from zoo.results import derived, reported, rows

    files_below, listed = content._files_below, {}
    stamp, stamps = catalogue.stamp, {}

    def list_once(folder: Path, suffix: str) -> list[Path]:
        if folder not in SHIPPED:
            return files_below(folder, suffix)
        if (folder, suffix) not in listed:
            listed[folder, suffix] = files_below(folder, suffix)
        return [*listed[folder, suffix]]

    def stamp_once(path: Path) -> Any:
        if path not in stamps:
            found = stamp(path)
            if not any(map(path.is_relative_to, SHIPPED)):
                return found
            stamps[path] = found
        return stamps[path]

    merged, merged_facts = reading._Files.merged, {}
    kept: set[int] = set()  # those of merged_facts, which nobody changes
    check_facts, checked_facts = reading.check_facts, {}
    listing, without_unrecorded, made = catalogue._listing, catalogue._without_unrecorded, {}
    checked_parts: set[int] = set()  # of checked_facts, which are kept
    line, kept_lines = compiled._line, {}  # of what is in made, by its id
    rows_of, checked_rows = rows.rows_of, {}

    def line_once(value: Any) -> bytes:
        if id(value) not in kept_lines:
            return line(value)
        if kept_lines[id(value)] is None:
            kept_lines[id(value)] = line(value)
        return kept_lines[id(value)]

    is_shipped = cache(lambda path: path.is_relative_to(REPOSITORY))

    def merge_once(files: Any, encoder: str, above: tuple[str, ...] = ()) -> dict[str, Any]:
        if not is_shipped(files.of[encoder]):
            return merged(files, encoder, above)
        key = encoder, id(files.documents[files.of[encoder]])  # which is kept, as _document is cached
        if key not in merged_facts:
            merged_facts[key] = merged(files, encoder)
            kept.add(id(merged_facts[key]))
        return deepcopy(merged_facts[key]) if above else merged_facts[key]  # another card adds to what it is like

    def check_facts_once(where: str, facts: dict[str, Any]) -> dict[str, Any]:
        key = where, id(facts) if id(facts) in kept else repr(facts)
        if key not in checked_facts:
            checked_facts[key] = check_facts(where, facts)  # what is refused is refused every time
            checked_parts.add(id(checked_facts[key]["architecture"]))
        return checked_facts[key]

    def made_once(make: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def of_facts(facts: Any) -> Any:
            part = id(facts["architecture"])
            if part not in checked_parts:
                return make(facts)
            key = make, facts["id"], facts["family"], part
            if key not in made:
                made[key] = make(facts)
                kept_lines[id(made[key])] = None
            return made[key]

        return of_facts

    def check_rows_once(
        path: Path, content: bytes, cards: Any, seen: dict[rows.Key, str], left_out: list[str]
    ) -> list[rows.Row]:
        if not is_shipped(path):
            return rows_of(path, content, cards, seen, left_out)
        if (path, content) not in checked_rows:
            places: dict[rows.Key, str] = {}
            checked_rows[path, content] = rows_of(path, content, cards, places, left_out), places
        found, places = checked_rows[path, content]
        if not places.keys().isdisjoint(seen.keys()):  # a row of another file, which is refused with both places
            return rows_of(path, content, cards, seen, left_out)
        seen |= places
        return [*found]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(content, "_files_below", list_once)
        for module in (catalogue, derived, reported):
            patch.setattr(module, "stamp", stamp_once)
        patch.setattr(catalogue, "_listing", made_once(listing))
        patch.setattr(compiled, "_line", line_once)
        patch.setattr(os, "fsync", lambda descriptor: None)  # nothing here outlives a loss of power
        patch.setattr(catalogue, "_without_unrecorded", made_once(without_unrecorded))
        patch.setattr(reading, "_document", cache(reading._document))
        patch.setattr(reading._Files, "merged", merge_once)
        patch.setattr(reading, "check_facts", check_facts_once)
        patch.setattr(rows, "rows_of", check_rows_once)
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
