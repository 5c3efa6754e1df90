"""The verb mirror: what an air-gapped machine needs, copied, and nothing that is damaged."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import fsspec
import pytest
import torch

import zoo
from tests.cli_runner import document, run
from tests.tiny import checkpoint, write_card
from tests.weights.test_care import folders
from tests.weights.test_store import files_below
from zoo.cards.catalogue import catalogue
from zoo.files import content_folder
from zoo.weights.places import weights_folder

__all__ = ["folders"]  # a fixture

IMAGE = torch.randn(1, 3, 224, 224, generator=torch.Generator().manual_seed(0))


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a user's folder and a cache, to be copied: two encoders of one file, and one that is registered."""
    folder = tmp_path_factory.mktemp("prepared")
    with pytest.MonkeyPatch.context() as patch:
        for variable in ("ZOO_HOME", "ZOO_CACHE"):
            patch.setenv(variable, str(folder / variable.lower()))
        source = folder / "tiny.pth"
        write_card("tiny", str(source))
        source.write_bytes(checkpoint("tiny"))
        write_card("tiny_both", str(source), layer="cls+avg", same_file_as="tiny")
        write_card("absent", str(folder / "absent.pth"))
        write_card("lonely", "https://nowhere.invalid/lonely.pth")
        zoo.load("tiny")
        source.rename(folder / "mine.pth").write_bytes(checkpoint("tiny", seed=2))
        zoo.register(folder / "mine.pth", like="tiny", name="mine")
    return folder


@pytest.fixture
def mirror(prepared: Path, folders: Path, tmp_path: Path) -> Path:
    """Where the mirror will be; the cache and the user's folder are filled."""
    for variable in ("ZOO_HOME", "ZOO_CACHE"):
        shutil.copytree(prepared / variable.lower(), os.environ[variable])
    return tmp_path / "mirror"


@pytest.fixture
def move(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Call it to be on a machine without a network and without anything of ours, whose mirror is at a place."""

    def call(place: str) -> None:
        for variable in ("ZOO_HOME", "ZOO_CACHE"):
            monkeypatch.setenv(variable, str(tmp_path / f"another_{variable.lower()}"))
        monkeypatch.setenv("ZOO_OFFLINE", "1")
        monkeypatch.setenv("ZOO_MIRROR", place)

    return call


class TestCopying:
    def test_without_names_everything_kept_and_registered_is_copied(self, mirror: Path) -> None:
        result = run("mirror", str(mirror))
        cells = [line.split() for line in result.stdout.splitlines()[:4]]
        assert cells[0] == ["encoder", "mirror", "size", "licence"]
        assert sorted(line[:2] for line in cells[1:]) == [
            ["mine", "copied"],
            ["tiny", "copied"],
            ["tiny_both", "there"],
        ]
        assert result.stdout.splitlines()[-2:] == ["To load from there:", f"  export ZOO_MIRROR={mirror}"]
        assert "bound by their licences" in result.stderr
        assert set(json.loads((mirror / "manifest.json").read_bytes())["encoders"]) == {"mine", "tiny", "tiny_both"}
        assert len(files_below(mirror / "tensors")) == 2

    def test_names_globs_and_conditions_choose(self, mirror: Path) -> None:
        assert document("mirror", str(mirror), "TINY")["copied_bytes"] > 0
        assert list(json.loads((mirror / "manifest.json").read_bytes())["encoders"]) == ["tiny"]
        chosen = document("mirror", str(mirror), "--where", 'encoder in ("mine", "init_vitS16")')["encoders"]
        assert {one["encoder"]: one["state"] for one in chosen} == {"mine": "there", "init_vitS16": "nothing to fetch"}
        assert list(json.loads((mirror / "manifest.json").read_bytes())["encoders"]) == ["mine", "tiny"]

    def test_it_goes_on_where_it_was(self, mirror: Path) -> None:
        first = document("mirror", str(mirror))
        whole = files_below(mirror)
        again = document("mirror", str(mirror))
        assert (first["copied_bytes"], again["copied_bytes"]) == (
            sum(map(len, files_below(mirror / "tensors").values())),
            0,
        )
        next((mirror / "tensors").iterdir()).unlink()
        assert document("mirror", str(mirror))["copied_bytes"] == first["copied_bytes"] // 2
        assert files_below(mirror) == whole

    def test_what_is_damaged_in_the_mirror_is_replaced(self, mirror: Path) -> None:
        run("mirror", str(mirror), "tiny")
        whole = files_below(mirror)
        (path,) = (mirror / "tensors").iterdir()
        body = bytearray(path.read_bytes())
        body[7_000] ^= 1
        path.write_bytes(body)
        assert document("mirror", str(mirror), "tiny")["copied_bytes"] == len(body)
        assert files_below(mirror) == whole

    def test_what_is_damaged_here_is_not_copied(self, mirror: Path) -> None:
        (path,) = (weights_folder() / "tensors").iterdir()
        body = bytearray(path.read_bytes())
        body[7_000] ^= 1
        path.write_bytes(body)
        result = run("mirror", str(mirror), "tiny", "mine", code=1)
        assert "1 of 2 could not be obtained" in result.stderr
        assert f"The weights {path} are damaged: its sha256 is" in result.stderr
        assert list(json.loads((mirror / "manifest.json").read_bytes())["encoders"]) == ["mine"]
        assert path.name not in files_below(mirror / "tensors")

    def test_what_cannot_be_had_does_not_keep_the_others_from_being_copied(self, mirror: Path) -> None:
        result = run("mirror", str(mirror), "absent", "tiny", code=1)
        assert [line.split()[:2] for line in result.stdout.splitlines()[1:3]] == [
            ["absent", "failed"],
            ["tiny", "copied"],
        ]
        assert "absent.pth cannot be read" in result.stderr
        assert document("mirror", str(mirror), "absent", code=1)["n_failed"] == 1

    def test_licences_are_shown(self, mirror: Path) -> None:
        card = Path(os.environ["ZOO_HOME"], "metadata", "tiny.toml")
        card.write_text(card.read_text() + 'licence.weights = "CC-BY-NC-4.0"\n')
        result = run("mirror", str(mirror), "tiny")
        assert result.stdout.splitlines()[1].split()[-1] == "CC-BY-NC-4.0"
        assert "not for commercial use (CC-BY-NC-4.0): tiny" in result.stderr
        assert json.loads((mirror / "manifest.json").read_bytes())["encoders"]["tiny"]["licence"] == "CC-BY-NC-4.0"


class TestCards:
    def test_shipped_cards_are_copied_as_they_are_and_of_ones_own_those_that_are_needed(self, mirror: Path) -> None:
        run("mirror", str(mirror), "tiny_both")
        cards = files_below(mirror / "metadata")
        metadata = content_folder("metadata")
        files = [*metadata.rglob("*.toml")]
        shipped = {f"shipped/{path.relative_to(metadata).as_posix()}": path.read_bytes() for path in files}
        assert {name: body for name, body in cards.items() if name.startswith("shipped/")} == shipped
        assert cards.keys() - shipped.keys() == {"own/tiny_both.toml", "own/tiny.toml"}

    def test_a_registered_card_keeps_its_place(self, mirror: Path) -> None:
        run("mirror", str(mirror), "mine")
        own = {name for name in files_below(mirror / "metadata") if name.startswith("own/")}
        assert own == {"own/registered/mine/dino.toml"} or own == {"own/registered/mine/tiny.toml"}


class TestUsing:
    @pytest.mark.parametrize("kind", ["folder", "memory"])
    def test_another_machine_loads_everything_from_there(
        self, mirror: Path, tmp_path: Path, kind: str, move: Callable[[str], None]
    ) -> None:
        place = str(mirror) if kind == "folder" else f"memory://{mirror}"
        expected = {name: zoo.load(name)[0](IMAGE) for name in ("tiny", "tiny_both", "mine")}
        result = run("mirror", place)
        assert result.stdout.endswith(f"export ZOO_MIRROR={place}\n")
        cards = {name: card for name, card in catalogue().items() if name in expected}
        move(place)
        if kind == "memory":  # cards are read from folders only
            for name in ("tiny", "tiny_both"):
                write_card(
                    name,
                    str(cards[name].weights.url),
                    layer=cards[name].representation.layer,
                    same_file_as="tiny" if name == "tiny_both" else "not applicable",
                )
            del expected["mine"]
        for name, features in expected.items():
            assert torch.equal(zoo.load(name)[0](IMAGE), features)
        if kind == "memory":
            fsspec.filesystem("memory").rm(str(mirror), recursive=True)

    def test_a_mirror_can_be_mirrored_and_verified_there(
        self, mirror: Path, tmp_path: Path, move: Callable[[str], None]
    ) -> None:
        run("mirror", str(mirror))
        move(str(mirror))
        found = document("verify")["weights"]
        assert [(one["encoders"], one["state"], one["store"]) for one in found] == [
            (["mine"], "whole", "mirror"),
            (["tiny", "tiny_both"], "whole", "mirror"),
        ]
        assert document("mirror", str(tmp_path / "second"))["n_failed"] == 0
        assert files_below(tmp_path / "second") == files_below(mirror)


class TestRefusing:
    @pytest.mark.parametrize("below", ["", "weights", "weights/mirror", "../zoo_cache/x", "../zoo_home/mirror"])
    def test_a_place_in_the_cache_or_in_the_users_folder_is_refused(self, mirror: Path, below: str) -> None:
        before = files_below(mirror.parent)
        assert "would lie in the" in run("mirror", str(Path(os.environ["ZOO_CACHE"], below)), "tiny", code=2).stderr
        assert files_below(mirror.parent) == before

    @pytest.mark.parametrize("spelled", ["{}", "{}/", "file://{}", "{}/../mirror"])
    def test_the_mirror_that_loads_come_from_is_refused(
        self, mirror: Path, monkeypatch: pytest.MonkeyPatch, spelled: str
    ) -> None:
        monkeypatch.setenv("ZOO_MIRROR", str(mirror))
        assert "is what ZOO_MIRROR names" in run("mirror", spelled.format(mirror), "tiny", code=2).stderr
        monkeypatch.setenv("ZOO_MIRROR", "s3://bucket/zoo")
        assert "is what ZOO_MIRROR names" in run("mirror", "s3://bucket/zoo/", "tiny", code=2).stderr

    def test_requests_that_mean_nothing_are_one_sentence(self, folders: Path, tmp_path: Path) -> None:
        place = str(tmp_path / "mirror")
        assert "Nothing is in the cache" in run("mirror", place, code=1).stderr
        assert "Got an empty text for DEST" in run("mirror", "", code=2).stderr
        assert "did you mean" in run("mirror", place, "dino_vits", code=2).stderr
        assert "neither a folder nor an address" in run("mirror", "nosuch://x", "init_vitS16", code=2).stderr
        (tmp_path / "file").write_bytes(b"")
        assert "cannot be written" in run("mirror", str(tmp_path / "file" / "x"), "init_vitS16", code=1).stderr
        assert not Path(place).exists()
