"""The verbs cache, verify, get and mirror: what is kept, checked, fetched and copied."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import zoo
from tests.cli_runner import answered, document, run
from tests.servers import Server, serving
from tests.tiny import checkpoint, write_card
from tests.weights.test_maintenance import HOUR, folders, left, made, put
from tests.weights.test_store import files_below
from zoo.cards.catalogue import load_catalogue
from zoo.files import get_content_folder
from zoo.regression_check import get_recording_path
from zoo.weights import store
from zoo.weights.locations import get_weights_folder

__all__ = ["folders"]  # a fixture

TRIO = ("dino_vitS16", "dino_vitS16_last", "dino_vitS16_extractB")


class TestCache:
    def test_an_entry_says_who_reads_it_how_large_it_is_and_where_it_is_from(self, folders: Path) -> None:
        record = put("dino_vitS16_last", content=b"x" * 86_664)
        put("mae_vitB16", content=b"y" * 1000, places=["https://host/a.pth?token=secret"])
        made(folders / "partial" / "a.b.free.part", 0, b"z" * 2000)
        result = run("cache", "ls")
        header, first, second = result.stdout.splitlines()
        assert header.split() == ["encoders", "size", "from", "layout", "kept", "since", "last", "read"]
        assert first.split()[3:8] == ["86.7", "kB", "dl.fbaipublicfiles.com", "dino", "2026-01-31"]
        assert second.startswith("mae_vitB16")
        assert "2 entries, 87.7 kB in" in result.stderr and "2.0 kB of unfinished downloads" in result.stderr
        listed = document("cache", "ls")
        assert (listed["n_records"], listed["size_bytes"], listed["partial_bytes"]) == (2, 87_664, 2000)
        assert "secret" not in json.dumps(listed)
        entry = listed["weights"][0]
        assert entry["encoders"] == list(TRIO) and entry["places"] == [load_catalogue()["dino_vitS16"].weights.url]
        assert (entry["sha256"], entry["store"], entry["state"]) == (record.sha256, "cache", "kept")

    def test_what_is_damaged_lost_or_registered_is_said(self, folders: Path, tmp_path: Path) -> None:
        lost = put("dino_vitS16")
        store.get_tensors_path(folders, lost.sha256).unlink()
        made(folders / "records" / "0123.json", 0)
        put("mine", folder=tmp_path / "zoo_home" / "weights", places=["zoo:" + "a" * 64])
        assert {entry["state"] for entry in document("cache", "ls")["weights"]} == {"missing", "damaged"}
        result = run("cache", "ls")
        assert "(0123.json is damaged)" in result.stdout
        assert "zoo verify says which" in result.stderr and "1 registered, 400 B" in result.stderr

    def test_weights_go_with_their_record_and_the_recorded_features_stay(self, folders: Path) -> None:
        put("dino_vitS16")
        stays = put("mae_vitB16")
        made(folders / "checks" / "dino_vitS16.safetensors", 0)
        result = run("cache", "rm", "DINO_vitS16_last", "--yes")
        assert result.stdout == f"Removed the weights of {', '.join(sorted(TRIO))}; freed 1.1 kB.\n"
        assert store.find(folders, stays.key) == stays
        assert len(left(folders)) == 3

    def test_a_user_is_asked_on_a_terminal_alone(self, folders: Path) -> None:
        put("mae_vitB16")
        assert "no terminal can ask" in run("cache", "rm", "mae_vitB16", code=2).stderr
        for answer, code in (("n", 1), ("y", 0)):
            printed = answered(f"{answer}\n", "cache", "rm", "mae_vitB16", code=code)
            assert "mae_vitB16: 1.0 kB" in printed and "Remove these weights? [y/N]" in printed
            assert bool(left(folders)) == bool(code)

    def test_what_is_not_there_or_registered_stays(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        assert "no weights of mae_vitB16" in run("cache", "rm", "mae_vitB16", "--yes", code=1).stderr
        assert "did you mean" in run("cache", "rm", "mae_vit", "--yes", code=2).stderr
        assert "'zzz*'" in run("cache", "rm", "zzz*", "--yes", code=1).stderr
        write_card("mine", "zoo:" + "a" * 64)
        record = put("mine", folder=tmp_path / "zoo_home" / "weights", places=["zoo:" + "a" * 64])
        for cache in (os.environ["ZOO_CACHE"], os.environ["ZOO_HOME"]):  # even where the cache is the same folder
            monkeypatch.setenv("ZOO_CACHE", cache)
            assert "unregister" in run("cache", "rm", "mine", "--yes", code=1).stderr
            assert store.find(tmp_path / "zoo_home" / "weights", record.key) == record

    def test_unused_files_go_unless_it_is_a_dry_run(self, folders: Path) -> None:
        orphan = made(folders / "tensors" / f"{'1' * 64}.safetensors", 2 * HOUR, b"x" * 1000)
        result = run("cache", "gc", "--dry-run")
        assert f"tensors/{'1' * 12}..." in result.stdout and "weights without a record" in result.stdout
        assert document("cache", "gc", "--dry-run")["freed_bytes"] == 1000 and orphan.exists()
        old = put("dino_vitS16", layout_version=0, age_s=2 * HOUR)
        collected = document("cache", "gc")
        assert collected["freed_bytes"] == 1000 + old.size_bytes + len(store.encode_record(old))
        assert (collected["note"], collected["failures"], left(folders)) == (None, [], set())
        assert "no unused files" in run("cache", "gc").stdout


def verified(*arguments: str, code: int = 0) -> dict[str, tuple[str, str | None]]:
    """State and detail by encoder, or by the name of a file that is nobody's."""
    found = document("verify", *arguments, code=code)["weights"]
    return {(one["encoders"] or [Path(one["path"]).name])[0]: (one["state"], one["detail"]) for one in found}


class TestVerify:
    def test_what_is_whole_is_listed_with_its_readers_and_counted_once(self) -> None:
        assert document("verify") == {"sound": True, "n_problems": 0, "not_kept": [], "weights": []}
        put("dino_vitS16_last", content=b"x" * 2000)
        put("dino_vitS16", places=["timm:vit_small_patch16_224.dino"], content=b"x" * 2000)
        put("mae_vitB16", content=b"y" * 1000)
        result = run("verify")
        assert "dino_vitS16, dino_vitS16_last, dino_vitS16_extractB  whole  2.0 kB  cache" in result.stdout
        assert result.stdout.splitlines()[-1] == "3 of 3 whole, 3.0 kB."
        assert verified("DINO_vits16_LAST").keys() == {"dino_vitS16"}
        result = run("verify", "mae_*", "swav_rn50", code=1)
        assert "1 of 1 whole" in result.stdout and "Not kept here: swav_rn50." in result.stderr

    def test_damage_is_found_wherever_weights_are_kept(
        self, tmp_path: Path, folders: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        shelves = {
            "cache": folders,
            "copy of a mirror": folders / "mirrors" / "0123",
            "registered": tmp_path / "zoo_home" / "weights",
            "mirror": tmp_path / "mirror",
        }
        records = {kind: put("dino_vitS16", folder=folder) for kind, folder in shelves.items()}
        monkeypatch.setenv("ZOO_MIRROR", f"file://{tmp_path / 'mirror'}")
        paths = {kind: store.get_tensors_path(folder, records[kind].sha256) for kind, folder in shelves.items()}
        assert {one["state"] for one in document("verify")["weights"]} == {"whole"}
        paths["cache"].write_bytes(b"\x00" + paths["cache"].read_bytes()[1:])
        paths["copy of a mirror"].unlink()
        for kind in ("registered", "mirror"):
            os.truncate(paths[kind], 10)
        found = {one["store"]: (one["state"], one["detail"][:14]) for one in document("verify", code=1)["weights"]}
        assert found == {
            "cache": ("damaged", "its sha256 is "),
            "copy of a mirror": ("missing", "the weights ar"),
            "registered": ("damaged", "it has 10 byte"),
            "mirror": ("damaged", "it has 10 byte"),
        }

    def test_what_a_load_would_refuse_is_refused(self, tmp_path: Path) -> None:
        record = put("dino_vitS16")
        place, lock = record.origins[0].place, Path("zoo.lock")
        lock.write_text(f"sha256:{'a' * 64} 7 {place}\n")
        assert verified() == {"dino_vitS16": ("whole", None)}
        for line in (f"sha256:{'b' * 64} 7 {place}\n", f"sha256:{'a' * 64} 8 {place}\n"):
            lock.write_text(line)
            ((state, detail),) = verified(code=1).values()
            assert state == "refused" and str(lock.absolute()) in str(detail)
        lock.unlink()
        write_card("tiny", "https://host/tiny.pth", sha256="b" * 64)
        put("tiny")
        assert verified(code=1)["tiny"][0] == "refused"


# --- get and mirror --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bodies(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Checkpoints by their path on the server."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ZOO_HOME", str(tmp_path_factory.mktemp("home")))
        write_card("tiny", "https://nowhere.invalid/tiny.pth")
        return {f"/{name}.pth": checkpoint("tiny", seed=seed) for seed, name in enumerate(("tiny", "other"))}


@pytest.fixture
def server(bodies: dict[str, bytes], folders: Path) -> Iterator[Server]:
    """Four small encoders: two that share a file, one with its own, and one whose file is not there."""
    with serving(bodies) as running:
        write_card("tiny", f"{running.url}/tiny.pth")
        write_card("tiny_both", f"{running.url}/tiny.pth", layer="cls+avg", same_file_as="tiny")
        write_card("other", f"{running.url}/other.pth")
        write_card("absent", f"{running.url}/absent.pth")
        yield running


def states(*arguments: str, code: int = 0) -> dict[str, str]:
    return {one["encoder"]: one["state"] for one in document("get", *arguments, code=code)["encoders"]}


class TestGet:
    def test_what_is_not_there_is_fetched_once_and_loads_without_a_network(
        self, server: Server, bodies: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        Path("zoo.lock").touch()
        result = run("get", "tiny", "tiny_*", "init_vitS16", "--dry-run")
        assert [line.split()[1] for line in result.stdout.splitlines()[1:]] == ["to", "to", "nothing"]
        assert "2 to fetch (1 file), 1 nothing to fetch" in result.stderr
        assert (server.log, left(get_weights_folder()), Path("zoo.lock").read_text()) == ([], set(), "")
        (one,) = document("get", "TINY")["encoders"]
        assert (one["state"], one["place"], one["licence"]) == ("fetched", f"{server.url}/tiny.pth", "Apache-2.0")
        assert one["size_bytes"] == len(bodies["/tiny.pth"]) and len(one["sha256"]) == 64 and one["seconds"] > 0
        assert get_recording_path(load_catalogue()["tiny"]).is_file()
        assert states("tiny", "tiny_*", "other") == {"tiny": "there", "tiny_both": "there", "other": "fetched"}
        monkeypatch.setenv("ZOO_OFFLINE", "1")
        assert set(states("tiny", "tiny_*", "other").values()) == {"there"}
        assert len(server.log) == 2 and len(files_below(get_weights_folder() / "tensors")) == 2

    def test_one_that_fails_does_not_stop_the_others(self, server: Server) -> None:
        result = run("get", "absent", "tiny", code=1)
        assert [line.split()[:2] for line in result.stdout.splitlines()[1:]] == [
            ["absent", "failed"],
            ["tiny", "fetched"],
        ]
        assert "1 of 2 could not be obtained.\n  absent: " in result.stderr and "404" in result.stderr


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


def manifest(mirror: Path) -> set[str]:
    return set(json.loads((mirror / "manifest.json").read_bytes())["encoders"])


class TestMirror:
    def test_names_and_conditions_choose_with_the_cards_that_are_needed(self, mirror: Path) -> None:
        assert document("mirror", str(mirror), "TINY_both")["copied_bytes"] > 0
        cards = files_below(mirror / "metadata")
        metadata = get_content_folder("metadata")
        shipped = {
            f"shipped/{path.relative_to(metadata).as_posix()}": path.read_bytes() for path in metadata.rglob("*.toml")
        }
        assert {name: body for name, body in cards.items() if name.startswith("shipped/")} == shipped
        assert cards.keys() - shipped.keys() == {"own/tiny_both.toml", "own/tiny.toml"}
        chosen = document("mirror", str(mirror), "--where", 'encoder in ("mine", "init_vitS16")')["encoders"]
        assert {one["encoder"]: one["state"] for one in chosen} == {"mine": "there", "init_vitS16": "nothing to fetch"}
        assert manifest(mirror) == {"mine", "tiny_both"}

    def test_it_goes_on_where_it_was_and_replaces_what_is_damaged(self, mirror: Path) -> None:
        first = document("mirror", str(mirror))
        whole = files_below(mirror)
        assert first["copied_bytes"] == sum(map(len, files_below(mirror / "tensors").values()))
        assert document("mirror", str(mirror))["copied_bytes"] == 0
        gone, flipped = (mirror / "tensors").iterdir()
        gone.unlink()
        flipped.write_bytes(b"\x00" + flipped.read_bytes()[1:])
        assert document("mirror", str(mirror))["copied_bytes"] == first["copied_bytes"]
        assert files_below(mirror) == whole

    def test_what_is_damaged_or_lost_here_is_not_copied(self, mirror: Path) -> None:
        (path,) = (get_weights_folder() / "tensors").iterdir()
        path.write_bytes(b"\x00" + path.read_bytes()[1:])
        result = run("mirror", str(mirror), "tiny", "mine", "absent", code=1)
        assert "2 of 3 could not be obtained" in result.stderr
        assert f"The weights {path} are damaged: its sha256 is" in result.stderr
        assert manifest(mirror) == {"mine"}

    def test_another_machine_loads_everything_from_there(
        self, mirror: Path, tmp_path: Path, move: Callable[[str], None]
    ) -> None:
        import torch

        image = torch.randn(1, 3, 224, 224, generator=torch.Generator().manual_seed(0))
        expected = {name: zoo.load(name)[0](image) for name in ("tiny", "tiny_both", "mine")}
        run("mirror", str(mirror))
        move(str(mirror))
        for name, features in expected.items():
            assert torch.equal(zoo.load(name)[0](image), features)
        assert {one["store"] for one in document("verify")["weights"]} == {"mirror"}
        assert document("mirror", str(tmp_path / "second"))["n_failed"] == 0
        assert files_below(tmp_path / "second") == files_below(mirror)

    def test_a_place_in_the_cache_or_in_the_users_folder_is_refused(self, mirror: Path) -> None:
        before = files_below(mirror.parent)
        for below in ("", "weights/mirror", "../zoo_home/mirror"):
            place = Path(os.environ["ZOO_CACHE"], below)
            assert "would lie in the" in run("mirror", str(place), "tiny", code=2).stderr
        assert files_below(mirror.parent) == before

    def test_other_places_that_mean_nothing_are_refused(
        self, folders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        place = str(tmp_path / "mirror")
        assert "Nothing is in the cache" in run("mirror", place, code=1).stderr
        assert "neither a folder nor an address" in run("mirror", "nosuch://x", "init_vitS16", code=2).stderr
        (tmp_path / "file").write_bytes(b"")
        assert "cannot be written" in run("mirror", str(tmp_path / "file" / "x"), "init_vitS16", code=1).stderr
        for current, same in ((place, f"file://{place}"), ("s3://bucket/zoo", "s3://bucket/zoo/")):
            monkeypatch.setenv("ZOO_MIRROR", current)
            assert "is what ZOO_MIRROR names" in run("mirror", same, "init_vitS16", code=2).stderr
