"""The whole way of an encoder of one's own: registered, measured, compared with published ones, studied, on a page."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import zoo
from tests.cli_runner import document, run
from tests.own_encoder import add_own_encoder
from tests.result_rows import user_of
from zoo.analysis.reported_agreement import estimate_protocol_spread
from zoo.cards.catalogue import load_catalogue
from zoo.choosing.expectations import estimate_errors
from zoo.site.contents import gather
from zoo.site.expected import ON_IMAGENET, compute_site_errors

IMAGES = "shapes:classes=4,train=120,val=40,size_px=16"
PUBLISHED = ("pocket_simclr_rn_shapes", "pocket_barlow_rn_shapes", "pocket_vicreg_rn_shapes")
MARK = "^ by mine; unmarked by ssl-risk-decomposition: numbers of two protocols do not compare"


def test_an_encoder_of_mine_goes_the_whole_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    monkeypatch.setenv("ZOO_HOME", str(home))
    encoder, _ = zoo.load("pocket_simclr_rn_shapes_ep2")
    torch.save(encoder.state_dict(), tmp_path / "mine.pth")
    facts = ("--inherit", "pretraining", "--set", "pretraining.epochs=2")
    run("register", str(tmp_path / "mine.pth"), "--like", PUBLISHED[0], "--id", "my_simclr", *facts)
    few = ("--settings", "full", "--no-knn", "--subsets", "1")
    run("evaluate", "my_simclr", *PUBLISHED, IMAGES, "--dataset", "few-shapes", "--decompose", *few)
    found = document("compare", "my_simclr", "--published", "--dataset", "few-shapes")
    assert found["group"] == dict.fromkeys(PUBLISHED, "zoo-logistic-3")
    errors = {one["encoder"]: one["train_test"] for one in document("list", "--dataset", "few-shapes")["encoders"]}
    error = found["places"][0]
    assert error["value"] == errors["my_simclr"] and error["n"] == len(errors) == 4
    assert error["lowest"] <= error["rank"] <= error["highest"] and error["interval"][0] < error["value"]
    assert found["nearest"][0]["differing"] == {"epochs": [10, 2]} and found["nearest"][0]["encoder"] == PUBLISHED[0]
    assert "effects of choices are those on ImageNet-1K, not on few-shapes" in found["cautions"]
    shown = run("compare", "my_simclr", "--published", "--dataset", "few-shapes")
    assert found["answer"] in shown.stdout and "epochs 10, 2" in shown.stdout
    run("site", "--out", str(tmp_path / "site"), "--only", "my_simclr", "--with-mine", "--no-studies")
    assert "few-shapes" in (tmp_path / "site" / "encoders" / "my_simclr.html").read_text()


def test_studies_take_an_encoder_of_mine_on_imagenet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = add_own_encoder(tmp_path, monkeypatch)
    table = zoo.results_df(with_mine=True, is_multiindex=False, is_lower=False)
    assert table.index[-1] == mine and table.loc[mine, "train_test"] == 24.5 and len(table) == len(zoo.results_df()) + 1
    radar = document("study", "what_an_encoder_is_good_at", "--encoder", mine, "--with-mine")
    assert radar["table"]["mine"] == [mine] and "by mine, the others by the paper's" in radar["table"]["name"]
    (study,) = radar["studies"]
    assert [row[0] for row in study["tables"][0]["rows"]] == [mine]
    wrong = ("--encoder", "deepcluster_rn50_bs512_ep200_mmselfsup", "--corrected")
    refused = run("study", "what_an_encoder_is_good_at", *wrong, code=2)
    assert "measured wrongly, says an erratum" in refused.output


def test_other_images_are_not_measured_under_the_name_of_imagenet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZOO_HOME", str(tmp_path))
    result = run("evaluate", PUBLISHED[0], IMAGES, "--dataset", "imagenet-1k", code=1)
    assert "120 training images of 4 classes, and imagenet-1k is the name of" in result.output


def test_numbers_of_two_protocols_are_marked_and_never_subtracted_or_ranked_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = add_own_encoder(tmp_path, monkeypatch)
    listed = run(
        "list",
        "--where",
        "train_test < 25.9 and train_test > 24",
        "--columns",
        "encoder,train_test",
        "--sort",
        "train_test",
    )
    assert listed.stdout.splitlines()[-1].split() == [mine, "24.5^"]  # below those of the published protocol
    assert MARK in listed.stderr
    compared = document("compare", mine, "dino_rn50")
    assert set(compared["difference"].values()) == {None} and "protocol" in compared["differing"]
    assert f"{mine}" in run("results", mine, "dino_rn50").stdout and MARK in run("results", mine, "dino_rn50").stderr
    ranked = document("recommend", "--labels", "1281167", "--measured", "--top", "200")
    assert mine not in [one["encoder"] for one in ranked["encoders"]]
    (why,) = [one["reason"] for one in ranked["left_out"] if mine in one["names"]]
    assert why.startswith("measured by mine")
    assert "measured by mine alone, 1 encoder" in run("results", "--dataset", "imagenet-1k", "-v").stderr


def test_a_newer_measurement_without_components_does_not_hide_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = document("compare", *PUBLISHED[:2], "--dataset", "shapes")
    add_rows = user_of(tmp_path, monkeypatch)
    newer = {"encoder": PUBLISHED[0], "dataset": "shapes", "n_train": "5000", "ci_low": "", "ci_high": ""}
    add_rows(newer | {"value": "50", "protocol": "zoo-logistic-3", "date": "2030-01-01"})
    after = document("compare", *PUBLISHED[:2], "--dataset", "shapes")
    names = ("approx", "usability", "probe_gen", "enc_gen")
    for one, then in zip(after["encoders"], before["encoders"], strict=True):
        assert [one[name] for name in names] == [then[name] for name in names]
    assert after["encoders"][0]["train_test"] == 50 != before["encoders"][0]["train_test"]
    told = run("list", PUBLISHED[0], "--columns", "encoder,usability", "--dataset", "shapes").stderr
    assert f"components of {PUBLISHED[0]} are by zoo-logistic-3 (measured)" in told


def test_an_error_of_mine_by_another_protocol_is_said_to_be_that_where_errors_are_expected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = estimate_errors({"dino_rn50": load_catalogue()["dino_rn50"]}, 1_281_167, 1_000, images=ON_IMAGENET)
    mine = add_own_encoder(tmp_path, monkeypatch)
    cards = {name: load_catalogue()[name] for name in (mine, "dino_rn50")}
    found = estimate_errors(cards, 1_281_167, 1_000, images=ON_IMAGENET)
    assert {name: one.basis for name, one in found.items()} == {mine: "another protocol", "dino_rn50": "the study"}
    assert found[mine].error == pytest.approx(24.5) and found["dino_rn50"] == before["dino_rn50"]
    apart = estimate_protocol_spread()
    assert 2 < apart < found[mine].spread and found["dino_rn50"].spread < 0.5  # percentage points
    assert "by mine; the interval allows for the others' protocol" in found[mine].source
    ranked = document("recommend", "--labels", "1281167", "--like", "imagenet-1k", "--where", "train_test == 24.5")
    assert {one["encoder"]: one["rests_on"] for one in ranked["encoders"]}[mine] == "another protocol"
    _, first_page = compute_site_errors(gather(only=[mine, "dino_rn50"], with_mine=True))
    assert [first_page[name].basis for name in (mine, "dino_rn50")] == ["another protocol", "the study"]
