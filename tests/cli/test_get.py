"""The verb get: weights fetched before they are needed, and what it says about them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli_runner import document, run
from tests.servers import Server, serving
from tests.tiny import checkpoint, write_card
from tests.weights.test_care import folders, left
from tests.weights.test_store import files_below
from zoo.cards.catalogue import catalogue
from zoo.cli.facts import named
from zoo.cli.output import NothingFound, place_name, size
from zoo.cli.weights import licence_notes, licence_of
from zoo.drift import recording_path
from zoo.errors import UnknownName
from zoo.weights.places import weights_folder

__all__ = ["folders"]  # a fixture


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
        self, server: Server, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert states("tiny", "tiny_*", "other") == {"tiny": "fetched", "tiny_both": "there", "other": "fetched"}
        assert len(server.log) == 2
        monkeypatch.setenv("ZOO_OFFLINE", "1")
        assert states("tiny", "tiny_*", "other") == {"tiny": "there", "tiny_both": "there", "other": "there"}
        assert len(server.log) == 2
        assert len(files_below(weights_folder() / "tensors")) == 2

    def test_the_features_of_the_first_load_are_recorded(self, server: Server) -> None:
        run("get", "tiny")
        assert recording_path(catalogue()["tiny"]).is_file()

    def test_it_says_how_much_came_from_where_and_under_which_licence(
        self, server: Server, bodies: dict[str, bytes]
    ) -> None:
        (one,) = document("get", "TINY")["encoders"]
        assert one["place"] == f"{server.url}/tiny.pth"
        assert one["size_bytes"] == len(bodies["/tiny.pth"])
        assert one["seconds"] > 0
        assert one["licence"] == "Apache-2.0"
        assert len(one["sha256"]) == 64
        result = run("get", "other")
        header, line = result.stdout.splitlines()
        assert header.split() == ["encoder", "weights", "size", "time", "from", "licence"]
        assert line.split()[:3] == ["other", "fetched", size(len(bodies["/other.pth"])).split()[0]]
        assert line.split()[-2:] == [server.url.removeprefix("http://"), "Apache-2.0"]
        assert f"kept in {weights_folder()}" in result.stderr

    def test_a_failure_does_not_keep_the_others_from_being_fetched(self, server: Server) -> None:
        result = run("get", "absent", "tiny", code=1)
        assert [line.split()[:2] for line in result.stdout.splitlines()[1:]] == [
            ["absent", "failed"],
            ["tiny", "fetched"],
        ]
        assert "Error: 1 of 2 could not be obtained.\n  absent: " in result.stderr
        assert "404" in result.stderr
        found = document("get", "absent", "tiny", code=1)
        assert found["n_failed"] == 1
        assert "404" in found["encoders"][0]["reason"]
        assert found["encoders"][1]["reason"] is None

    def test_a_dry_run_touches_neither_network_nor_disk(self, server: Server, folders: Path) -> None:
        Path("zoo.lock").touch()
        result = run("get", "tiny", "tiny_*", "init_vitS16", "--dry-run")
        assert [line.split()[1] for line in result.stdout.splitlines()[1:]] == ["to", "to", "nothing"]
        assert "2 to fetch (1 file), 1 nothing to fetch" in result.stderr
        assert document("get", "tiny", "tiny_*", "--dry-run")["dry_run"] is True
        assert (server.log, left(folders), Path("zoo.lock").read_text()) == ([], set(), "")
        run("get", "tiny")
        assert states("tiny", "tiny_*", "other", "--dry-run") == {
            "tiny": "there",
            "tiny_both": "there",
            "other": "to fetch",
        }

    def test_an_untrained_encoder_has_nothing_to_fetch(self, folders: Path) -> None:
        assert states("init_vitS16") == {"init_vitS16": "nothing to fetch"}
        assert left(folders) == set()

    def test_a_condition_selects(self, server: Server) -> None:
        assert states("--where", 'encoder in ("tiny", "init_vitS16")', "--dry-run").keys() == {"tiny", "init_vitS16"}
        assert states("tiny", "tiny_*", "--where", "z_dim > 32", "--dry-run").keys() == {"tiny_both"}
        refused = run("get", "tiny", "tiny_*", "--where", "z_dim > 99999", code=1).stderr
        assert refused == "Error: No encoder of these satisfies z_dim > 99999.\n"

    def test_requests_that_mean_nothing_are_refused(self) -> None:
        assert "expected encoders or globs such as 'dino_*', or --where" in run("get", code=2).stderr
        assert "did you mean" in run("get", "dino_vits", code=2).stderr
        assert "No encoder has a name like 'zzz*'" in run("get", "zzz*", code=1).stderr
        assert "Cannot read the condition" in run("get", "--where", "z_dim >", code=2).stderr

    def test_a_record_that_is_damaged_is_said_and_not_fetched_over(self, server: Server) -> None:
        run("get", "tiny")
        (record,) = (weights_folder() / "records").iterdir()
        record.write_bytes(b"{}")
        for option in ("--dry-run", "--json"):
            assert "is damaged" in run("get", "tiny", option, code=1).stderr
        assert len(server.log) == 1

    def test_what_a_lock_file_contradicts_is_refused(self, server: Server) -> None:
        run("get", "tiny")
        Path("zoo.lock").write_text(f"sha256:{'0' * 64} 7 {server.url}/tiny.pth\n")
        assert "contradict each other" in run("get", "tiny", code=1).stderr


class TestMirrored:
    def test_with_a_mirror_everything_comes_from_there(
        self, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        run("mirror", str(tmp_path / "mirror"), "tiny")
        monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "another_cache"))
        monkeypatch.setenv("ZOO_MIRROR", str(tmp_path / "mirror"))
        assert states("tiny", "--dry-run") == {"tiny": "there"}
        result = run("get", "tiny", "other", code=1)
        assert [line.split()[1] for line in result.stdout.splitlines()[1:]] == ["there", "failed"]
        assert f"loads come from {tmp_path / 'mirror'}" in result.stderr
        assert "has no weights of 'other'" in result.stderr

    def test_weights_that_nobody_has_any_more_are_not_promised(self) -> None:
        assert states("npidpp_rn50w2", "--dry-run") == {"npidpp_rn50w2": "gone"}

    def test_an_address_is_copied_by_get_and_not_by_a_dry_run(
        self, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        address = f"memory://{tmp_path}/get"
        run("mirror", address, "tiny")
        monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "another_cache"))
        monkeypatch.setenv("ZOO_MIRROR", address)
        assert states("tiny", "--dry-run") == {"tiny": "to fetch"}
        assert not weights_folder().exists()
        (one,) = document("get", "tiny")["encoders"]
        assert (one["state"], one["place"]) == ("fetched", address)
        assert states("tiny") == {"tiny": "there"}
        assert [path.parent.name for path in left(weights_folder())].count("tensors") == 1


class TestLicences:
    def test_what_forbids_commercial_use_is_named(self) -> None:
        cards: Any = catalogue()
        noted = licence_notes([cards["dino_vitS16"], cards["simsiam_rn50_bs512_ep100"], cards["mae_vitB16"]])
        assert noted == ["not for commercial use (CC-BY-NC-4.0): simsiam_rn50_bs512_ep100, mae_vitB16"]
        assert "not for commercial use" in run("get", "mae_vitB16", "--dry-run").stderr

    def test_a_licence_is_shown_as_far_as_it_is_known(self) -> None:
        assert licence_of(catalogue()["dino_vitS16"]) == "Apache-2.0"
        assert licence_of(catalogue()["init_vitS16"]) == "-"


class TestNames:
    def test_names_and_globs_are_taken_without_regard_to_case_and_once(self) -> None:
        known = ["a_One", "a_Two", "b_One"]
        assert named(["A_ONE", "*_one", "B*"], known) == ["a_One", "b_One"]
        with pytest.raises(UnknownName, match="a_One"):
            named(["a_On"], known)
        with pytest.raises(NothingFound, match=r"'c\*'"):
            named(["c*"], known)

    @pytest.mark.parametrize(("n", "text"), [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (999_949, "999.9 kB")])
    def test_sizes_are_short(self, n: int, text: str) -> None:
        assert size(n) == text
        assert size(999_960) == "1.0 MB"
        assert size(2.5e15) == "2500.0 TB"

    def test_a_place_is_shown_by_its_owner(self) -> None:
        places: dict[str, Any] = {"sha256:ab": "your own file", "/a/b.pth": "b.pth", "https://u:p@host:1/x": "host:1"}
        assert {place: place_name(place) for place in places} == places
