"""``zoo results`` beyond the ImageNet-1K table: other data sets, choices of rows, and how they are printed."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from statistics import fmean
from unicodedata import east_asian_width

import pytest

from tests.card_text import VALID
from tests.cli.test_process import on_terminal
from tests.cli_runner import document, run, table
from tests.result_rows import user_of
from zoo.cards.catalogue import catalogue
from zoo.results.derived import seed_means, summaries
from zoo.results.rows import measurements
from zoo.results.values import PUBLISHED_SOURCE

PARTS = ("approximation", "usability", "approximation_plus_usability", "probe_generalization", "encoder_generalization")


def test_a_data_set_is_one_row_an_encoder_best_first() -> None:
    head, *rows = table("results", "--dataset", "shapes")
    expected = {
        row.encoder: row.value
        for row in measurements(metrics="linear_probe_error")
        if row.dataset == "shapes" and row.split == "train -> val" and catalogue().lists(row.encoder)
    }
    assert head[:6] == ["encoder", "100%", "30-shot", "5-shot", "1%", "3-shot"]
    assert {row[0]: row[1] for row in rows} == {encoder: f"{value:.1f}" for encoder, value in expected.items()}
    assert [row[0] for row in rows] == sorted(expected, key=expected.__getitem__)
    assert "rankme" in run("results", "--dataset", "shapes").stderr  # what is left out is said


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_it_is_read_on_a_narrow_terminal(columns: int) -> None:
    lines = on_terminal(columns, "results", "--dataset", "shapes", NO_COLOR="1").splitlines()
    listed = {row.encoder for row in measurements() if row.dataset == "shapes" and catalogue().lists(row.encoder)}
    n_encoders = len(listed)
    assert max(map(len, lines)) <= columns
    assert sum(line.startswith(("pocket_", "sup_")) for line in lines) == n_encoders
    assert len(lines) < 2 * n_encoders
    assert ("left out on so narrow a terminal" in " ".join(lines)) == (columns < 100)


@pytest.mark.parametrize("columns", [60, 80, 120])
@pytest.mark.parametrize("encoder", ["pocket_barlow_rn_shapes", "dino_vitS16", "clip_rn50x4"])
def test_a_card_fits_the_terminal(columns: int, encoder: str) -> None:
    lines = on_terminal(columns, "show", encoder, NO_COLOR="1").splitlines()
    assert max(map(len, lines)) <= columns


def test_wide_characters_of_a_card_fit_the_terminal(tmp_path: Path) -> None:
    (tmp_path / "metadata").mkdir()
    title = "自己教師あり学習による視覚表現の獲得と評価" * 3
    own = VALID.replace('title = "A paper"', f'title = "{title}"')
    assert title in own
    (tmp_path / "metadata" / "tiny.toml").write_text(own, encoding="utf-8")
    lines = on_terminal(60, "show", "tiny_vitS16", NO_COLOR="1", ZOO_HOME=str(tmp_path)).splitlines()
    assert max(len(line) + sum(east_asian_width(one) in "WF" for one in line) for line in lines) <= 60
    assert title in "".join("".join(lines).split())


def test_metrics_settings_and_globs_choose_rows() -> None:
    found = table("results", "pocket_sup_*", "--dataset", "digits", "--metric", "lidar,rankme", "--limit", "3")
    assert found[0] == ["encoder", "lidar", "rankme"]
    assert len(found) == 4
    assert all(row[0].startswith("pocket_sup_") for row in found[1:])
    lidar = [float(row[1]) for row in found[1:]]
    assert lidar == sorted(lidar, reverse=True)  # higher is better
    few = document("results", "pocket_mae_vit_shapes", "--dataset", "shapes", "--setting", "5-shot,1%")["measurements"]
    assert {row["split"] for row in few} == {"train 5-shot -> val", "train 1% -> val"}
    controls = document("results", "--dataset", "digits", "--protocol", "*(control=blind)")["measurements"]
    assert {row["protocol"] for row in controls} == {"zoo-curve-classification-1 (control=blind)"}


def test_a_curve_is_one_column_a_number_of_images_and_no_control() -> None:
    head = run("results", "--dataset", "digits", "--metric", "transfer_error").stdout.splitlines()[0]
    assert head.split("  ")[-5:] == ["800 images", "300 images", "120 images", "50 images", "20 images"]
    assert head.startswith("encoder")


def test_long_lines_have_intervals_and_csv_is_the_table() -> None:
    arguments = ("results", "--dataset", "digits", "--setting", "5-shot")
    means = {
        mean.encoder: mean
        for mean in seed_means()
        if (mean.dataset, mean.split, mean.metric) == ("digits", "train 5-shot -> val", "linear_probe_error")
        and catalogue().lists(mean.encoder)
    }
    records = list(csv.DictReader(io.StringIO(run(*arguments, "--csv").stdout)))
    assert {record["encoder"]: float(record["5-shot"]) for record in records} == {
        encoder: mean.value for encoder, mean in means.items()
    }
    one = means["pocket_mae_vit_digits"]
    line = next(line for line in run(*arguments, "--long").stdout.splitlines() if one.encoder in line)
    assert f"{one.low:.1f} to {one.high:.1f}" in line
    rows = list(csv.DictReader(io.StringIO(run(*arguments, "--long", "--csv").stdout)))
    assert fmean(float(row["value"]) for row in rows if row["encoder"] == one.encoder) == pytest.approx(one.value)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["pocket_simclrx*"], "pocket_simclr_rn_shapes"),
        (["--dataset", "shapes", "--metric", "lider"], "did you mean lidar"),
        (["--dataset", "shapes", "--setting", "7-shot"], "5-shot"),
        (["--dataset", "digits", "dino_vitS16"], "Nothing was measured of dino_vitS16 on digits"),
    ],
)
def test_what_matches_nothing_is_one_sentence_with_what_is_near(arguments: list[str], said: str) -> None:
    result = run("results", *arguments, code=1)
    assert said in result.stderr
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1


def test_what_was_not_measured_on_imagenet_is_shown_where_most_of_it_was() -> None:
    shown = run("results", "pocket_mae_vit_shapes")
    assert shown.stdout == run("results", "pocket_mae_vit_shapes", "--dataset", "shapes").stdout
    assert "nothing was measured of them on ImageNet-1K; --dataset NAME shows them on digits" in shown.stderr
    assert document("results", "pocket_mae_vit_shapes")["dataset"] == "shapes"
    assert "not measured: pocket_init_rn, but on" in run("results", "dino_vitS16", "pocket_init_rn").stderr


def test_csv_and_json_exclude_each_other() -> None:
    assert "--csv and --json" in run("results", "--csv", "--json", code=2).stderr


def test_the_components_of_other_data_sets_follow_from_the_raw_risks() -> None:
    every = seed_means(catalogue().with_unlisted)
    recorded = [mean for mean in every if mean.metric in PARTS and mean.source != PUBLISHED_SOURCE]
    assert {mean.dataset for mean in recorded} == {"digits", "shapes", "fashion-mnist", "fashionmnist-10k"}
    for mean in recorded:
        parts = summaries(dataset=mean.dataset, encoders=[mean.encoder])[mean.encoder].decomposition
        assert getattr(parts, mean.metric) == pytest.approx(mean.value)


def test_own_rows_stand_beside_the_shipped_ones_with_their_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add = user_of(tmp_path, monkeypatch)
    own = {"dataset": "birds", "n_train": "100", "protocol": "zoo-logistic-2", "source": "own", "ci_low": "1"}
    add(own | {"value": "12.5"}, own | {"value": "20", "encoder": "pocket_init_rn"}, own | {"source": "a friend"})
    head, *rows = table("results", "--dataset", "birds")
    assert head == ["encoder", "100%", "source"]
    assert ["dino_vitS16", "12.5", "own"] in rows
    assert ["dino_vitS16", "24.5", "a", "friend"] in rows
