"""Rows of several people come together: equal ones once, contradictions with both provenances, nothing lost."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from zoo.cards.catalogue import load_catalogue
from zoo.cards.writing import format_card_file
from zoo.errors import QueryError
from zoo.files import get_content_folder
from zoo.results.merging import Merged, collect, merge
from zoo.results.recording import PROVENANCE_KEYS, find_provenance, record
from zoo.results.rows import Measurement, measurements
from zoo.storage import resolve_place

pytestmark = pytest.mark.usefixtures("home")

BASE = Measurement(
    encoder="dino_vitS16",
    metric="linear_probe_error",
    dataset="birds",
    split="train 10-shot -> val",
    n_train=100,
    seed=0,
    value=12.5,
    unit="percent",
    ci_low=10.0,
    ci_high=15.0,
    protocol="zoo-logistic-2",
    source="Ann",
    date="2026-11-20",
)
FULL = replace(BASE, split="train -> val", n_train=1347)
OTHER = replace(BASE, encoder="mae_vitB16")
TOLD = dict.fromkeys(PROVENANCE_KEYS) | {"weights_hash": "a1", "report": {"C": 0.5}}


def rows_in(folder: Path, *rows: Measurement, told: Mapping[str, Any] = TOLD) -> Path:
    """Somebody's rows in a folder."""
    record(dict.fromkeys(rows, told), folder=folder, alone=True)
    return folder


def mine() -> list[Measurement]:
    return [row for row in measurements() if row.dataset == "birds"]


def counts(done: Merged) -> tuple[int, int, int, int, int]:
    return done.n_new, done.n_known, done.n_again, len(done.contradictions), len(done.wrong)


def aside(done: Merged) -> list[dict[str, Any]]:
    assert done.set_aside is not None
    return [json.loads(line) for line in done.set_aside.read_text().splitlines()]


def test_rows_of_two_people_are_added_once_with_their_provenance(tmp_path: Path) -> None:
    ann = rows_in(tmp_path / "ann" / "results" / "measured", BASE, FULL)
    bob = rows_in(tmp_path / "bob", replace(BASE, value=12.5 * (1 + 1e-9), date="2026-12-01"), OTHER)
    done = merge([tmp_path / "ann", bob])
    assert (counts(done), done.is_clean, done.set_aside) == ((3, 0, 1, 0, 0), True, None)
    assert sorted(mine(), key=str) == sorted([BASE, FULL, OTHER], key=str)
    assert find_provenance(OTHER) == TOLD
    assert counts(merge([ann, bob])) == (0, 4, 0, 0, 0)


def test_the_shipped_rows_come_back_byte_by_byte(tmp_path: Path) -> None:
    shipped = get_content_folder("results") / "measured"
    done = merge([shipped / "pocket_init_rn.csv"], folder=tmp_path / "merged")
    for name in ("pocket_init_rn.csv", "pocket_init_rn.provenance.jsonl"):
        assert (tmp_path / "merged" / name).read_bytes() == (shipped / name).read_bytes()
    assert done.n_new > 50
    again = merge([shipped / "pocket_init_rn.csv"])
    assert (again.n_new, again.n_known) == (0, done.n_new)  # which every reader has


def test_a_contradiction_keeps_what_was_recorded_and_sets_the_other_aside_whole(tmp_path: Path, home: Path) -> None:
    record({BASE: TOLD})
    elsewhere = TOLD | {"weights_hash": "b2", "report": {"C": 0.25}}
    bob = rows_in(tmp_path / "bob", replace(BASE, value=13.0), FULL, told=elsewhere)
    assert counts(merge([bob], dry_run=True)) == (1, 0, 0, 1, 0) and mine() == [BASE]
    done = merge([bob])
    assert counts(done) == (1, 0, 0, 1, 0)
    assert set(mine()) == {BASE, FULL}
    (one,) = done.contradictions
    assert dict(one.differs) == {"weights_hash": ("a1", "b2"), "report.C": (0.5, 0.25)}
    assert "their provenances differ in weights_hash, report" in str(one)
    assert f"12.5 in {home}/results/measured/dino_vitS16.csv, line 2, 13.0 in {bob}/dino_vitS16.csv, line 2" in str(one)
    assert done.set_aside == home / "results" / "set-aside.jsonl"
    (record_aside,) = aside(done)
    assert (record_aside["kept"]["provenance"], record_aside["other"]["provenance"]) == (TOLD, elsewhere)
    assert record_aside["other"]["row"]["value"] == "13.0"
    assert len(aside(merge([bob]))) == 1  # the same is not written again


def test_other_images_by_the_same_name_are_no_rows_of_that_data_set(tmp_path: Path) -> None:
    images = [TOLD | {"images_hash": {"train": one, "val": "v"}} for one in ("x", "y")]
    places = [rows_in(tmp_path / "a", BASE, told=images[0]), rows_in(tmp_path / "b", OTHER, told=images[1])]
    done = merge(places)
    assert (counts(done), mine()) == ((1, 0, 0, 1, 0), [BASE])
    assert done.contradictions[0].why == "images"
    assert "images of birds: one set in " in str(done.contradictions[0])


def test_merging_at_once_is_merging_one_after_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places = [
        rows_in(tmp_path / "a", BASE, FULL),
        rows_in(tmp_path / "b", replace(BASE, value=13.0), OTHER),
        rows_in(tmp_path / "c", replace(OTHER, value=14.0), replace(FULL, source="Bob")),
    ]
    for number, order in enumerate(permutations(places)):
        at_once, in_turn = tmp_path / f"once{number}", tmp_path / f"turn{number}"
        merge(order, folder=at_once)
        for place in order:
            merge([place], folder=in_turn)
        assert files_of(at_once) == files_of(in_turn)


def files_of(folder: Path) -> dict[str, list[str]]:
    return {path.name: sorted(path.read_text().splitlines()) for path in folder.glob("*.csv")}


def test_nothing_is_lost_of_lines_that_cannot_be_merged(tmp_path: Path) -> None:
    folder = rows_in(tmp_path / "bob", BASE, FULL)
    table, beside = folder / "dino_vitS16.csv", folder / "dino_vitS16.provenance.jsonl"
    table.write_text(table.read_text() + "nobody,linear_probe_error,birds,train -> val,,,1.0,percent,,,p,s,2026-11\n")
    beside.write_text(beside.read_text().splitlines()[0] + "\n{broken\n")
    done = merge([folder])
    assert (counts(done), mine()) == ((1, 0, 0, 0, 3), [BASE])
    said = {one["place"].rpartition("/")[2]: one for one in aside(done)}
    assert said["dino_vitS16.csv, line 4"]["line"].startswith("nobody,linear_probe_error")
    assert "has no provenance next to it" in said["dino_vitS16.csv, line 3"]["sentence"]
    assert said["dino_vitS16.provenance.jsonl, line 2"]["line"] == "{broken"


def test_the_place_of_a_run_is_read_at_an_address(tmp_path: Path) -> None:
    folder, place = rows_in(tmp_path / "rows", BASE, FULL), resolve_place("memory://merging/run")
    for name in ("dino_vitS16.csv", "dino_vitS16.provenance.jsonl"):
        place.below("dino_vitS16/rows").write(name.replace("dino_vitS16", "0af3"), (folder / name).read_bytes())
    place.below("dino_vitS16/features/birds").write("table.csv", b"of no results\n")
    place.below("dino_vitS16").write("table.csv", b"of no results\n")
    done = merge(["memory://merging/run"])
    assert (counts(done), set(mine())) == ((2, 0, 0, 0, 0), {BASE, FULL})
    assert done.files == ("memory://merging/run/dino_vitS16/rows/0af3.csv",)
    assert done.left == ("memory://merging/run/dino_vitS16/table.csv",)
    for path in ("memory://merging/nothing", "memory://merging/nothing.csv", str(tmp_path / "nowhere")):
        with pytest.raises(QueryError, match="There is nothing at"):
            collect([path])


def test_cards_of_unknown_encoders_come_along(tmp_path: Path, home: Path) -> None:
    their_home = tmp_path / "theirs"
    (their_home / "metadata").mkdir(parents=True)
    text = format_card_file(load_catalogue()["pocket_init_rn"], comment="Theirs.").replace(
        "pocket_init_rn", "birds_of_bob"
    )
    (their_home / "metadata" / "bob.toml").write_text(text)
    folder = rows_in(their_home / "results" / "measured", BASE)
    for path in list(folder.glob("dino*")):
        renamed = folder / path.name.replace("dino_vitS16", "birds_of_bob")
        renamed.write_text(path.read_text().replace("dino_vitS16", "birds_of_bob"))
        path.unlink()
    done = merge([their_home])
    assert (counts(done), done.cards) == ((1, 0, 0, 0, 0), ("birds_of_bob",))
    assert (home / "metadata" / "unlisted" / "birds_of_bob.toml").is_file()
    assert [row.encoder for row in mine()] == ["birds_of_bob"]
