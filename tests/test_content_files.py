"""Files of content: their order, what is left out, and that commands which only read look for them once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.card_text import VALID
from tests.cli_runner import run
from tests.each import for_each
from zoo import files
from zoo.cards.catalogue import load_catalogue
from zoo.cards.search import EncoderFinder
from zoo.files import cache_lookups, list_content_files, map_in_threads, replace_file


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ZOO_HOME", str(tmp_path))
    return tmp_path


def test_files_come_in_the_order_of_their_paths_without_hidden_ones_and_linked_folders(home: Path) -> None:
    for name in (
        "b/c/one.csv",
        "b.csv",
        "a.csv",
        "b/.hidden/two.csv",
        "b/.three.csv",
        "b/c.csv",
        "b/c/four.txt",
        "b-c/d.csv",
    ):
        path = home / "results" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (home / "results" / "linked").symlink_to(home / "results" / "b")
    (home / "results" / "folder.csv").symlink_to(home / "results" / "b")
    (home / "results" / "link.csv").symlink_to("a.csv")
    found = [
        path.relative_to(home / "results").as_posix()
        for path in list_content_files("results", ".csv")[-7:]
        if path.is_relative_to(home)
    ]
    assert found == ["a.csv", "b/c/one.csv", "b/c.csv", "b-c/d.csv", "b.csv", "link.csv"]
    assert [Path(one) for one in found] == sorted(map(Path, found))


def test_in_one_look_changes_by_others_wait_and_own_writes_are_seen(home: Path) -> None:
    def n_own() -> int:
        return len(load_catalogue().own)

    (home / "metadata").mkdir()
    with cache_lookups():
        assert n_own() == 0
        (home / "metadata" / "tiny.toml").write_text(VALID)
        assert n_own() == 0
        with replace_file(home / "metadata" / "other.txt") as file:
            file.write(b"written by this process")
        assert n_own() == 2
    (home / "metadata" / "tiny.toml").unlink()
    assert n_own() == 0


@pytest.mark.parametrize("arguments", [["list"], ["show", "tiny_vitS16"], ["results", "--dataset", "imagenet-1k"]])
def test_a_command_that_only_reads_looks_once(
    arguments: list[str], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in (("metadata/tiny.toml", VALID), ("results/none.csv", "")):
        (home / name).parent.mkdir()
        (home / name).write_text(text)
    run(*arguments)
    opened, scandir = list[str](), os.scandir

    def noting(path: str) -> object:
        opened.append(path)
        return scandir(path)

    monkeypatch.setattr(files.os, "scandir", noting)
    run(*arguments)
    assert sorted(path for path in map(Path, opened) if path.is_relative_to(home)) == [
        home / "metadata",
        home / "results",
    ]


def test_whether_there_is_an_encoder_needs_no_search_for_others_like_it(monkeypatch: pytest.MonkeyPatch) -> None:
    cards = load_catalogue()
    monkeypatch.setattr(EncoderFinder, "nearest", None)
    assert "DINO_vits16" in cards and "dino_vitS16@cls:10+11" in cards
    assert "dino_vitS17" not in cards and "dino_vitS16@nothing" not in cards and "" not in cards and 5 not in cards


@for_each([0, 1, 7, 300, 5000])
def test_files_read_in_threads_come_in_their_order(n: int) -> None:
    assert map_in_threads(lambda number: number * number, range(n)) == [number * number for number in range(n)]
