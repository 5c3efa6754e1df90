"""The verb cache: what is kept, who reads it, and what goes when something goes."""

from __future__ import annotations

import io
import json
import os
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from tests.cli.test_process import on_terminal
from tests.cli_runner import document, run
from tests.weights.test_care import DAY, HOUR, folders, left, made, put
from zoo.cards.catalogue import catalogue
from zoo.cli import zoo
from zoo.files import locked
from zoo.weights import care, store
from zoo.weights.download import _machine

__all__ = ["folders"]  # a fixture

TRIO = ("dino_vitS16", "dino_vitS16_last", "dino_vitS16_extractB")


def features(folder: Path, encoder: str) -> Path:
    return made(folder / "checks" / f"{encoder}.safetensors", 0)


class TestList:
    def test_an_empty_cache_is_said_to_be_empty(self, folders: Path) -> None:
        result = run("cache", "ls")
        assert (result.stdout, result.stderr) == ("", f"nothing is stored in {folders}\n")
        assert document("cache", "ls") == {
            "folder": str(folders),
            "n_records": 0,
            "size_bytes": 0,
            "partial_bytes": 0,
            "weights": [],
        }

    def test_an_entry_says_who_reads_it_how_large_it_is_and_where_it_is_from(self, folders: Path) -> None:
        record = put("dino_vitS16_last", content=b"x" * 86_664_000)
        put("mae_vitB16", content=b"y" * 1000)
        made(folders / "partial" / "a.b.free.part", 0, b"z" * 2000)
        result = run("cache", "ls")
        header, first, second = result.stdout.splitlines()
        assert header.split() == ["encoders", "size", "from", "layout", "kept", "since", "last", "read"]
        assert first.split()[:3] == [f"{TRIO[0]},", f"{TRIO[1]},", TRIO[2]]
        assert first.split()[3:8] == ["86.7", "MB", "dl.fbaipublicfiles.com", "dino", "2026-01-31"]
        assert second.startswith("mae_vitB16")
        assert "2 entries, 86.7 MB in" in result.stderr
        assert "2.0 kB of unfinished downloads" in result.stderr
        listed = document("cache", "ls")
        assert (listed["n_records"], listed["size_bytes"], listed["partial_bytes"]) == (2, 86_665_000, 2000)
        entry = listed["weights"][0]
        assert entry["encoders"] == list(TRIO)
        assert entry["places"] == [catalogue()["dino_vitS16"].weights.url]
        assert (entry["sha256"], entry["store"], entry["state"]) == (record.sha256, "cache", "kept")

    def test_what_is_damaged_or_lost_is_listed_as_such(self, folders: Path) -> None:
        lost = put("dino_vitS16")
        store.tensors_path(folders, lost.sha256).unlink()
        made(folders / "records" / "0123.json", 0)
        assert {entry["state"] for entry in document("cache", "ls")["weights"]} == {"missing", "damaged"}
        result = run("cache", "ls")
        assert "(0123.json is damaged)" in result.stdout
        assert "zoo verify says which" in result.stderr

    def test_a_key_in_an_address_is_not_shown(self) -> None:
        put("dino_vitS16", places=["https://host/a.pth?token=secret"])
        assert "secret" not in json.dumps(document("cache", "ls"))

    def test_registered_encoders_are_counted_and_not_listed(self, tmp_path: Path) -> None:
        put("mine", folder=tmp_path / "zoo_home" / "weights", places=["zoo:" + "a" * 64])
        result = run("cache", "ls")
        assert "1 registered, 400 B, in " in result.stderr
        assert document("cache", "ls")["n_records"] == 0

    def test_a_table_fits_a_terminal(self) -> None:
        for encoder in ("dino_vitS16", "clip_vitL14_px336", "lossyless_vitb32_b001", "mugs_vits16_ep800"):
            put(encoder)
        for columns in (80, 100):
            printed = on_terminal(columns, "cache", "ls", NO_COLOR="1")
            lines = [line for line in printed.splitlines() if str(care.shelves()[0].folder) not in line]
            assert max(map(len, lines)) <= columns


class TestRemove:
    def test_weights_go_with_their_record_and_the_recorded_features_stay(self, folders: Path) -> None:
        put("dino_vitS16")
        stays = put("mae_vitB16")
        for encoder in (*TRIO, "mae_vitB16"):
            features(folders, encoder)
        result = run("cache", "rm", "DINO_vitS16_last", "--yes")
        assert result.stdout == f"Removed the weights of {', '.join(sorted(TRIO))}; 1.1 kB are free again.\n"
        assert store.find(folders, stays.key) == stays
        assert len(left(folders / "checks")) == len(TRIO) + 1
        assert len(left(folders)) == len(TRIO) + 3

    def test_a_glob_removes_what_is_there(self, folders: Path) -> None:
        for encoder in ("mae_vitB16", "mae_vitL16", "dino_vitS16"):
            put(encoder)
        removed = document("cache", "rm", "mae_*", "--yes")
        assert removed["encoders"] == ["mae_vitB16", "mae_vitL16"]
        assert removed["freed_bytes"] == 2000
        assert [entry["encoders"][0] for entry in document("cache", "ls")["weights"]] == ["dino_vitS16"]

    def test_a_copy_of_a_mirror_goes_too(self, folders: Path) -> None:
        put("mae_vitB16", folder=folders / "mirrors" / "0123")
        run("cache", "rm", "mae_vitB16", "--yes")
        assert left(folders) == set()

    def test_weights_of_a_card_that_is_gone_can_be_removed(self, folders: Path) -> None:
        put("gone", places=["https://host/gone.pth"])
        run("cache", "rm", "gone", "--yes")
        assert left(folders) == set()

    def test_nobody_is_asked_in_a_pipe(self, folders: Path) -> None:
        put("mae_vitB16")
        assert "expected it where no terminal can ask" in run("cache", "rm", "mae_vitB16", code=2).stderr
        assert len(left(folders)) == 2

    @pytest.mark.parametrize(("answer", "code"), [("n", 1), ("", 1), ("y", 0)])
    def test_a_user_is_asked_on_a_terminal(self, folders: Path, answer: str, code: int) -> None:
        put("mae_vitB16")
        printed = answered(f"{answer}\n", "cache", "rm", "mae_vitB16", code=code)
        assert "mae_vitB16: 1.0 kB" in printed
        assert "Remove these weights? [y/N]" in printed
        assert ("Nothing was removed." in printed) == bool(code)
        assert bool(left(folders)) == bool(code)

    def test_what_is_not_there_is_one_sentence(self, tmp_path: Path) -> None:
        assert run("cache", "rm", "mae_vitB16", "--yes", code=1).stderr == (
            "Error: The cache has no weights of mae_vitB16.\n"
        )
        assert "did you mean" in run("cache", "rm", "mae_vit", "--yes", code=2).stderr
        assert run("cache", "rm", "zzz*", "--yes", code=1).stderr == (
            "Error: No encoder has a name like 'zzz*'; run 'zoo list' to see them all.\n"
        )

    def test_registered_encoders_are_left_alone(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        from tests.tiny import write_card

        write_card("mine", "zoo:" + "a" * 64)
        record = put("mine", folder=tmp_path / "zoo_home" / "weights", places=["zoo:" + "a" * 64])
        refused = run("cache", "rm", "mine", "--yes", code=1).stderr
        assert "mine: registered" in refused
        assert store.find(tmp_path / "zoo_home" / "weights", record.key) == record
        monkeypatch.setenv("ZOO_CACHE", os.environ["ZOO_HOME"])  # even where the cache is the same folder
        run("cache", "rm", "mine", "--yes", code=1)
        assert store.find(tmp_path / "zoo_home" / "weights", record.key) == record


def answered(answer: str, *arguments: str, code: int) -> str:
    """What a verb prints on a terminal whose user types ``answer``."""
    controller, terminal = os.openpty()
    os.write(controller, answer.encode())
    printed = io.StringIO()
    with (
        os.fdopen(terminal) as stdin,
        pytest.MonkeyPatch.context() as patch,
        redirect_stdout(printed),
        redirect_stderr(printed),
        pytest.raises(SystemExit) as ended,
    ):
        patch.setattr(sys, "stdin", stdin)
        zoo(arguments)
    os.close(controller)
    assert ended.value.code == code, printed.getvalue()
    return printed.getvalue()


class TestCollect:
    def test_a_dry_run_says_what_would_go_and_removes_nothing(self, folders: Path) -> None:
        orphan = made(folders / "tensors" / f"{'1' * 64}.safetensors", 2 * HOUR, b"x" * 1000)
        result = run("cache", "gc", "--dry-run")
        assert f"tensors/{'1' * 12}..." in result.stdout
        assert "weights without a record" in result.stdout
        assert result.stdout.splitlines()[-1] == "1.0 kB would be free again."
        assert orphan.exists()
        assert document("cache", "gc", "--dry-run")["freed_bytes"] == 1000

    def test_what_is_useless_goes(self, folders: Path) -> None:
        made(folders / "tensors" / f"{'1' * 64}.safetensors", 2 * HOUR, b"x" * 1000)
        old = put("dino_vitS16", layout_version=0, age_s=2 * HOUR)
        collected = document("cache", "gc")
        assert (collected["freed_bytes"], collected["note"], collected["failures"]) == (
            1000 + old.size_bytes + len(store.record_bytes(old)),
            None,
            [],
        )
        assert left(folders) == set()
        assert run("cache", "gc").stdout == f"Nothing in {folders} is without use.\n"

    def test_without_torch_what_older_versions_converted_is_left_alone(
        self, folders: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        put("dino_vitS16", layout_version=0, age_s=2 * HOUR)
        for module in [name for name in sys.modules if name.startswith("zoo.encoders")]:
            monkeypatch.delitem(sys.modules, module)
        monkeypatch.setitem(sys.modules, "torch", None)
        assert document("cache", "gc")["note"].endswith("because 'torch' is not installed")
        assert len(left(folders)) == 2


class TestGarbage:
    def reasons(self, layouts: dict[str, int] | None = None) -> dict[Path, str]:
        return {item.path: item.reason for item in care.garbage(layouts=layouts)}

    def test_what_is_of_use_is_none(self, folders: Path) -> None:
        put("dino_vitS16", age_s=400 * DAY)
        made(folders / "checks" / "dino_vitS16.safetensors", 400 * DAY)
        assert self.reasons({"dino": 1}) == {}

    @pytest.mark.parametrize("store_folder", ["", "mirrors/0123"])
    def test_each_kind_is_found_once_it_is_old_enough(self, folders: Path, store_folder: str) -> None:
        shelf = folders / store_folder
        fine = put("dino_vitS16", folder=shelf, age_s=2 * HOUR)
        damaged = made(shelf / "records" / f"{'0' * 32}.json", 0)
        orphan = made(shelf / "tensors" / f"{'1' * 64}.safetensors", 2 * HOUR)
        made(shelf / "tensors" / f"{'2' * 64}.safetensors", HOUR / 2)
        half = made(shelf / "tensors" / ".x.safetensors-0123456789abcdef.tmp", 2 * HOUR)
        made(shelf / "records" / ".x.json-0123456789abcdef.tmp", HOUR / 2)
        made(shelf / "records" / ".mine.tmp", 2 * HOUR)
        lost = put("mae_vitB16", folder=shelf, age_s=2 * HOUR)
        store.tensors_path(shelf, lost.sha256).unlink()
        just_lost = put("mae_vitL16", folder=shelf)
        store.tensors_path(shelf, just_lost.sha256).unlink()
        assert self.reasons() == {
            damaged: "a damaged record",
            orphan: "weights without a record",
            half: "half written by a process that is gone",
            store.record_path(shelf, lost.key): "a record without its weights",
        }
        freed, failures = care.discard(care.garbage(layouts=None))
        assert failures == []
        assert freed > 0
        assert self.reasons() == {}
        assert store.find(shelf, fine.key) == fine

    def test_what_an_older_version_has_converted_goes_where_the_versions_are_known(self, folders: Path) -> None:
        old = put("dino_vitS16", age_s=2 * HOUR, content=b"old")
        new = put("dino_vitS16", layout_version=2, age_s=2 * HOUR, content=b"new")
        put("mae_vitB16", layout="of a newer zoo", layout_version=1, age_s=2 * HOUR)
        put("mae_vitL16", layout="dino", layout_version=3, age_s=2 * HOUR)
        assert self.reasons() == {}
        assert self.reasons({"dino": 2}) == {
            store.record_path(folders, old.key): "converted by version 1 of the layout 'dino'",
            store.tensors_path(folders, old.sha256): "weights without a record",
        }
        care.discard(care.garbage(layouts={"dino": 2}))
        assert store.find(folders, new.key) == new

    def test_registered_weights_are_never_garbage(self, folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("ZOO_HOME", os.environ["ZOO_CACHE"])  # even where they lie in the cache
        mine = put("mine", places=["zoo:" + "b" * 64], layout="zoo", age_s=400 * DAY)
        lost = put("lost", places=["zoo:" + "c" * 64], layout="zoo", age_s=400 * DAY)
        store.tensors_path(folders, lost.sha256).unlink()
        assert self.reasons({"zoo": 9}) == {}
        assert store.find(folders, mine.key) == mine

    def test_a_download_that_another_process_writes_or_may_write_stays(self, folders: Path) -> None:
        partial = folders / "partial"
        mine = made(partial / f"{'a' * 32}.{_machine()}.part", 400 * DAY)
        made(mine.with_suffix(".json"), 400 * DAY)
        made(partial / f"{'b' * 32}.00000000.part", HOUR / 2)
        made(partial / f"{'b' * 32}.{_machine()}.1234abcd.part", HOUR / 2)
        with locked(mine.with_suffix(".lock")):
            assert self.reasons() == {}

    def test_a_download_that_no_process_writes_goes_with_its_notes(self, folders: Path) -> None:
        partial = folders / "partial"
        here = _machine()
        gone = [made(partial / f"{'a' * 32}.{here}.{suffix}", 0) for suffix in ("part", "json", "lock")]
        gone += [made(partial / f"{'b' * 32}.{here}.{suffix}", 0) for suffix in ("part", "json")]
        gone.append(made(partial / f"{'c' * 32}.00000000.part", 2 * DAY))
        gone.append(made(partial / f"{'d' * 32}.00000000.json", 2 * DAY))
        made(partial / f"{'e' * 32}.00000000.json", HOUR)
        gone.append(made(partial / f"{'e' * 32}.{here}.1234abcd.part", 2 * DAY))
        gone.append(made(folders / "downloads" / ("f" * 64), 2 * HOUR))
        made(folders / "downloads" / ("0" * 64), HOUR / 2)
        assert set(self.reasons()) == set(gone)

    def test_a_file_that_changes_in_the_meantime_stays(self, folders: Path) -> None:
        orphan = made(folders / "tensors" / f"{'1' * 64}.safetensors", 2 * HOUR)
        found = care.garbage(layouts=None)
        made(orphan, 0, b"written anew")
        assert care.discard(found) == (0, [])
        assert orphan.read_bytes() == b"written anew"

    def test_what_cannot_be_removed_is_said_and_the_rest_goes(self, folders: Path) -> None:
        first = made(folders / "tensors" / f"{'1' * 64}.safetensors", 2 * HOUR)
        second = made(folders / "tensors" / f"{'2' * 64}.safetensors", 2 * HOUR)
        found = care.garbage(layouts=None)
        stamp = first.stat().st_mtime_ns
        first.unlink()
        first.mkdir()
        os.utime(first, ns=(stamp, stamp))
        freed, (failure,) = care.discard(found)
        assert (freed, second.exists()) == (4, False)
        assert failure.startswith(f"{first} cannot be removed (")
