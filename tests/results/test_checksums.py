"""The checksums of the shipped results: fresh, and what they tell of a damaged copy."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from zoo.results.reading import find_damaged_files, format_checksums

RISKS, STATISTICS = "published/risks.csv", "published/feature_statistics.csv"


def test_the_shipped_checksums_are_fresh_and_nothing_is_damaged() -> None:
    assert (REPOSITORY / "results" / "CHECKSUMS").read_text() == format_checksums()
    assert find_damaged_files() == []


def test_checksums_are_those_of_sha256sum() -> None:
    for line in format_checksums().splitlines():
        checksum, name = line.split("  ")
        assert sha256((REPOSITORY / "results" / name).read_bytes()).hexdigest() == checksum
    results = REPOSITORY / "results"
    kinds = ("csv", "tsv", "provenance.jsonl")
    shipped = {path.relative_to(results) for kind in kinds for path in results.rglob(f"*.{kind}")}
    named = [line.split("  ")[1] for line in format_checksums().splitlines()]
    assert named == sorted({"errata.toml", *(path.as_posix() for path in shipped)})
    assert {STATISTICS, RISKS} < set(named)


def cut_at_a_row(path: Path) -> None:
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))


def with_other_line_ends(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))


def test_damaged_files_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zoo.files._PACKAGE", tmp_path / "zoo")
    damages: list[tuple[str, Callable[[Path], object], str]] = [
        (RISKS, cut_at_a_row, RISKS),
        (STATISTICS, with_other_line_ends, STATISTICS),
        ("errata.toml", Path.unlink, "errata.toml"),
        ("more.csv", Path.touch, "CHECKSUMS"),
        ("CHECKSUMS", cut_at_a_row, "CHECKSUMS"),
        ("CHECKSUMS", Path.unlink, "CHECKSUMS"),
        ("CHECKSUMS", lambda path: path.write_bytes(b"\xff"), "CHECKSUMS"),
    ]
    for name, damage, named in damages:
        shutil.copytree(REPOSITORY / "results", tmp_path / "results", copy_function=os.symlink)
        path = tmp_path / "results" / name
        if path.exists():
            path.unlink()
            shutil.copy(REPOSITORY / "results" / name, path)
        damage(path)
        assert find_damaged_files() == [named]
        shutil.rmtree(tmp_path / "results")
