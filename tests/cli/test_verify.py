"""The verb verify: every byte that is kept, and everything that a load would refuse."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_process import on_terminal
from tests.cli_runner import document, run
from tests.tiny import write_card
from tests.weights.test_care import folders, made, put
from zoo.weights import store
from zoo.weights.places import weights_folder

__all__ = ["folders"]  # a fixture


def verified(*arguments: str, code: int = 0) -> dict[str, tuple[str, str | None]]:
    """State and detail by encoder, or by the name of a file that is nobody's."""
    found = document("verify", *arguments, code=code)["weights"]
    return {(one["encoders"] or [Path(one["path"]).name])[0]: (one["state"], one["detail"]) for one in found}


class TestWhole:
    def test_nothing_kept_is_nothing_wrong(self) -> None:
        assert run("verify").stdout == "Nothing is stored here yet.\n"
        assert document("verify") == {"sound": True, "n_problems": 0, "not_kept": [], "weights": []}

    def test_what_is_whole_is_listed_with_its_readers_and_counted_once(self) -> None:
        put("dino_vitS16_last", content=b"x" * 2000)
        put("dino_vitS16", places=["timm:vit_small_patch16_224.dino"], content=b"x" * 2000)
        put("mae_vitB16", content=b"y" * 1000)
        result = run("verify")
        assert "dino_vitS16, dino_vitS16_last, dino_vitS16_extractB  whole  2.0 kB  cache" in result.stdout
        assert result.stdout.splitlines()[-1] == "3 of 3 whole, 3.0 kB."
        assert document("verify")["sound"] is True

    def test_names_and_globs_choose(self) -> None:
        put("dino_vitS16")
        put("mae_vitB16")
        assert verified("DINO_vits16_LAST").keys() == {"dino_vitS16"}
        assert verified("mae_*").keys() == {"mae_vitB16"}
        assert verified("mae_*", "dino_vitS16").keys() == {"dino_vitS16", "mae_vitB16"}

    def test_what_is_named_and_not_kept_is_said(self) -> None:
        put("dino_vitS16")
        result = run("verify", "mae_*", "dino_vitS16", "swav_rn50", code=1)
        assert result.stderr.splitlines()[-1] == "Error: Not kept here: mae_*, swav_rn50."
        assert "1 of 1 whole" in result.stdout
        assert document("verify", "mae_vitB16", code=1)["not_kept"] == ["mae_vitB16"]
        assert "did you mean" in run("verify", "mae_vit", code=2).stderr

    def test_it_fits_a_terminal_and_shows_no_trace_of_its_bar(self) -> None:
        for encoder in ("dino_vitS16", "clip_vitL14_px336", "mugs_vits16_ep800"):
            put(encoder)
        lines = on_terminal(80, "verify", NO_COLOR="1").splitlines()
        assert max(len(line.rpartition("\x1b[2K")[2]) for line in lines if str(weights_folder()) not in line) <= 80
        assert "3 of 3 whole, 4.5 kB." in lines


def flipped(path: Path) -> None:
    body = bytearray(path.read_bytes())
    body[len(body) // 2] ^= 1
    path.write_bytes(body)


def folder_instead(path: Path) -> None:
    path.unlink()
    path.mkdir()


DAMAGES: dict[str, tuple[Callable[[Path], None], str, str]] = {
    "a flipped bit": (flipped, "damaged", "its sha256 is "),
    "a cut file": (lambda path: os.truncate(path, 10), "damaged", "it has 10 bytes, expected 1,100"),
    "no file": (lambda path: path.unlink(), "missing", "the weights are not there"),
    "a folder": (folder_instead, "damaged", "it cannot be read (Is a directory)"),
}


class TestDamage:
    @pytest.mark.parametrize("damage", DAMAGES)
    @pytest.mark.parametrize("where", ["cache", "copy of a mirror", "registered", "mirror"])
    def test_it_is_found_wherever_weights_are_kept(
        self, tmp_path: Path, folders: Path, monkeypatch: pytest.MonkeyPatch, where: str, damage: str
    ) -> None:
        shelves = {
            "cache": folders,
            "copy of a mirror": folders / "mirrors" / "0123",
            "registered": tmp_path / "zoo_home" / "weights",
            "mirror": tmp_path / "mirror",
        }
        records = {kind: put("dino_vitS16", folder=folder) for kind, folder in shelves.items()}
        monkeypatch.setenv("ZOO_MIRROR", f"file://{tmp_path / 'mirror'}")
        break_it, state, detail = DAMAGES[damage]
        path = store.tensors_path(shelves[where], records[where].sha256)
        break_it(path)
        found = {one["store"]: one for one in document("verify", code=1)["weights"]}
        assert {kind: one["state"] for kind, one in found.items()} == dict.fromkeys(shelves, "whole") | {where: state}
        assert found[where]["detail"].startswith(detail)
        result = run("verify", "dino_vitS16", code=1)
        assert f"{path}: {detail}" in result.stdout
        assert result.stderr.splitlines()[-1] == "Error: 1 of 4 differ from what was stored."
        assert f"{where}: {'re' if where in ('cache', 'registered') else ''}" in result.stderr

    def test_damaged_and_misnamed_records_are_found(self, folders: Path) -> None:
        record = put("dino_vitS16")
        made(folders / "records" / "0123.json", 0)
        store.record_path(folders, record.key).rename(folders / "records" / "4567.json")
        assert verified(code=1) == {
            "0123.json": ("damaged", "the record is damaged"),
            "dino_vitS16": ("damaged", "the record has the name of another one"),
        }
        assert "(0123.json...)" in run("verify", code=1).stdout

    def test_weights_without_a_record_are_said_and_harm_nobody(self, folders: Path) -> None:
        orphan = made(folders / "tensors" / f"{'1' * 64}.safetensors", 0)
        assert verified() == {orphan.name: ("orphaned", "no record speaks of it")}
        assert "0 of 1 whole" in run("verify").stdout

    def test_an_absent_mirror_is_one_sentence(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("ZOO_MIRROR", str(tmp_path / "absent"))
        said = run("verify", code=1).stderr
        assert said.startswith(f"Error: There is no mirror at {tmp_path / 'absent'}; ") and said.count("\n") == 1
        assert "ZOO_MIRROR" in said


class TestContradictions:
    """What a load would refuse although every byte is as it was."""

    def test_a_lock_file_with_another_hash_or_size(self) -> None:
        record = put("dino_vitS16")
        place, lock = record.origins[0].place, Path("zoo.lock")
        lock.write_text(f"sha256:{'a' * 64} 7 {place}\n")
        assert verified() == {"dino_vitS16": ("whole", None)}
        for line in (f"sha256:{'b' * 64} 7 {place}\n", f"sha256:{'a' * 64} 8 {place}\n"):
            lock.write_text(line)
            ((state, detail),) = verified(code=1).values()
            assert state == "refused"
            assert str(lock.absolute()) in str(detail)

    def test_lock_files_that_contradict_each_other(self, tmp_path: Path) -> None:
        record = put("dino_vitS16")
        Path("zoo.lock").write_text(f"sha256:{'a' * 64} 7 {record.origins[0].place}\n")
        made(tmp_path / "zoo_home" / "zoo.lock", 0, f"sha256:{'b' * 64} 7 {record.origins[0].place}\n".encode())
        assert "contradict each other" in str(verified(code=1)["dino_vitS16"])

    def test_a_card_with_another_hash(self) -> None:
        write_card("tiny", "https://host/tiny.pth", sha256="a" * 64)
        put("tiny")
        assert verified() == {"tiny": ("whole", None)}
        write_card("tiny", "https://host/tiny.pth", sha256="b" * 64)
        assert verified(code=1)["tiny"] == (
            "refused",
            f"its source had sha256 {'a' * 64}, but the card says {'b' * 64}",
        )

    def test_places_that_are_their_own_hash_are_in_no_lock_file(self) -> None:
        put("dino_vitS16", places=["sha256:" + "c" * 64])
        Path("zoo.lock").write_text(f"sha256:{'b' * 64} 7 sha256:{'c' * 64}\n")
        assert verified() == {"dino_vitS16": ("whole", None)}

    def test_a_damaged_lock_file_is_one_sentence(self) -> None:
        put("dino_vitS16")
        Path("zoo.lock").write_text("nonsense\n")
        assert "zoo.lock, line 1" in run("verify", code=1).stderr


class TestManifest:
    @pytest.fixture
    def mirror(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """A mirror of two encoders in a folder that ZOO_MIRROR names."""
        folder = tmp_path / "mirror"
        keys = {encoder: put(encoder, folder=folder).key for encoder in ("dino_vitS16", "mae_vitB16")}
        listed: dict[str, Any] = {encoder: {"record": key} for encoder, key in keys.items()}
        listed["dino_vitS16_last"] = listed["dino_vitS16"]
        made(folder / "manifest.json", 0, json.dumps({"encoders": listed}).encode())
        monkeypatch.setenv("ZOO_MIRROR", str(folder))
        return folder

    def test_what_is_whole_is_whole(self, mirror: Path) -> None:
        assert verified() == {"dino_vitS16": ("whole", None), "mae_vitB16": ("whole", None)}

    def test_a_record_that_was_lost_on_the_way_is_missed(self, mirror: Path) -> None:
        store.record_path(mirror, put("dino_vitS16").key).unlink()
        found = [one for one in document("verify", code=1)["weights"] if one["store"] == "mirror"]
        assert [(one["encoders"], one["state"]) for one in found] == [
            (["mae_vitB16"], "whole"),
            (["dino_vitS16", "dino_vitS16_last"], "missing"),
            ([], "orphaned"),
        ]
        assert verified("dino_vitS16_last", code=1)["dino_vitS16"] == (
            "missing",
            "the manifest lists its record, which is not there",
        )
        assert verified("mae_vitB16") == {"mae_vitB16": ("whole", None)}

    def test_a_damaged_record_is_known_by_the_manifest(self, mirror: Path) -> None:
        for path in (mirror / "records").iterdir():
            path.write_bytes(b"{}")
        assert {one: state for one, (state, _) in verified(code=1).items() if not one.endswith(".safetensors")} == {
            "dino_vitS16": "damaged",
            "mae_vitB16": "damaged",
        }

    @pytest.mark.parametrize("body", [b"half {", b"[]", b"{}", b'{"encoders": {"a": 1}}', b'{"encoders": []}'])
    def test_a_damaged_manifest_is_one_sentence(self, mirror: Path, body: bytes) -> None:
        (mirror / "manifest.json").write_bytes(body)
        assert f"{mirror / 'manifest.json'} is damaged" in run("verify", code=1).stderr
