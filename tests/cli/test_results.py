"""``zoo results``: the ImageNet-1K table, other data sets, choices of rows, and reported numbers."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from statistics import fmean

import pytest

from tests.cli_runner import document, run, table
from tests.result_rows import user_of
from zoo.cards.catalogue import load_catalogue
from zoo.results.derived import seed_means, summaries
from zoo.results.reading import read_files
from zoo.results.reported_values import COLUMNS
from zoo.results.rows import measurements

WRONG = "deepcluster_rn50_bs512_ep200_mmselfsup"


def test_every_measured_encoder_is_listed_with_its_published_columns() -> None:
    records = {record["encoder"]: record for record in document("results")["encoders"]}
    assert list(records) == list(summaries())
    for encoder, summary in summaries().items():
        parts = summary.decomposition
        assert parts is not None
        assert records[encoder]["approx_plus_usability"] == parts.approximation_plus_usability
        assert records[encoder]["approx_is_assumed"] == parts.approximation_assumed
        assert records[encoder]["train_test"] == pytest.approx(parts.full_shot_error)


def test_marks_tell_merged_assumed_and_doubtful_numbers() -> None:
    result = run("results", "clip_rn50x4", "dino_vitS16_last", WRONG)
    cells = {line.split()[0]: line.split()[6:8] for line in result.stdout.splitlines()}
    assert cells["clip_rn50x4"][0] == "0.0~"
    assert cells["dino_vitS16_last"] == ["?", "16.3+"]
    for mark in ("~  assumed", "+  approximation and usability together", f"!  {WRONG} (wrong weights): "):
        assert mark in result.stderr


def test_a_data_set_is_one_row_an_encoder_best_first() -> None:
    head, *rows = table("results", "--dataset", "shapes")
    expected = {
        row.encoder: row.value
        for row in measurements(metrics="linear_probe_error")
        if row.dataset == "shapes" and row.split == "train -> val" and load_catalogue().lists(row.encoder)
    }
    assert head[:6] == ["encoder", "100%", "30-shot", "5-shot", "1%", "3-shot"]
    assert {row[0]: row[1] for row in rows} == {encoder: f"{value:.1f}" for encoder, value in expected.items()}
    assert [row[0] for row in rows] == sorted(expected, key=expected.__getitem__)
    assert "rankme" in run("results", "--dataset", "shapes").stderr  # what is left out is said


def test_metrics_settings_and_globs_choose_rows() -> None:
    found = table("results", "pocket_sup_*", "--dataset", "digits", "--metric", "lidar,rankme", "--limit", "3")
    assert found[0] == ["encoder", "lidar", "rankme"] and len(found) == 4
    lidar = [float(row[1]) for row in found[1:]]
    assert lidar == sorted(lidar, reverse=True)  # higher is better
    few = document("results", "pocket_mae_vit_shapes", "--dataset", "shapes", "--setting", "5-shot,1%")["measurements"]
    assert {row["split"] for row in few} == {"train 5-shot -> val", "train 1% -> val"}
    controls = document("results", "--dataset", "digits", "--protocol", "*(control=blind)")["measurements"]
    assert {row["protocol"] for row in controls} == {"zoo-curve-classification-1 (control=blind)"}
    head = run("results", "--dataset", "digits", "--metric", "transfer_error").stdout.splitlines()[0]
    assert head.split("  ")[-5:] == ["800 images", "300 images", "120 images", "50 images", "20 images"]


def test_long_lines_have_intervals_and_csv_is_the_table() -> None:
    arguments = ("results", "--dataset", "digits", "--setting", "5-shot")
    means = {
        mean.encoder: mean
        for mean in seed_means()
        if (mean.dataset, mean.split, mean.protocol) == ("digits", "train 5-shot -> val", "zoo-logistic-3")
        and load_catalogue().lists(mean.encoder)
    }
    records = list(csv.DictReader(io.StringIO(run(*arguments, "--csv").stdout)))
    assert {record["encoder"]: float(record["5-shot"]) for record in records} == {
        encoder: mean.value for encoder, mean in means.items()
    }
    one = means["pocket_mae_vit_digits"]
    line = next(line for line in run(*arguments, "--long").stdout.splitlines() if one.encoder in line)
    assert f"{one.low:.1f} to {one.high:.1f}" in line
    rows = list(csv.DictReader(io.StringIO(run(*arguments, "--long", "--csv").stdout)))
    own = [row for row in rows if (row["encoder"], row["protocol"]) == (one.encoder, one.protocol)]
    assert fmean(float(row["value"]) for row in own) == pytest.approx(one.value)


def test_what_matches_nothing_is_one_sentence_with_what_is_near() -> None:
    for arguments, said in {
        "pocket_simclrx*": "pocket_simclr_rn_shapes",
        "--dataset shapes --metric lider": "did you mean lidar",
        "--dataset shapes --setting 7-shot": "5-shot",
        "--dataset digits dino_vitS16": "Nothing was measured of dino_vitS16 on digits",
        "--dataset fashion-mnist": "64 of an experiment; --family randomised shows them.",
        "init_rn50 --reported": "Nothing was reported of init_rn50",
    }.items():
        result = run("results", *arguments.split(), code=1)
        assert said in result.stderr and result.stdout == "" and result.stderr.count("\n") == 1


def test_what_was_not_measured_on_imagenet_is_shown_where_most_of_it_was() -> None:
    shown = run("results", "pocket_mae_vit_shapes")
    assert shown.stdout == run("results", "pocket_mae_vit_shapes", "--dataset", "shapes").stdout
    assert "on digits" in shown.stderr
    assert document("results", "pocket_mae_vit_shapes")["dataset"] == "shapes"
    assert "--csv and --json" in run("results", "--csv", "--json", code=2).stderr


def test_own_rows_stand_next_to_the_shipped_ones_with_their_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add = user_of(tmp_path, monkeypatch)
    own = {"dataset": "birds", "n_train": "100", "protocol": "zoo-logistic-2", "source": "own", "ci_low": "1"}
    add(own | {"value": "12.5"}, own | {"value": "20", "encoder": "pocket_init_rn"}, own | {"source": "a friend"})
    head, *rows = table("results", "--dataset", "birds")
    assert head == ["encoder", "100%", "source"]
    assert ["dino_vitS16", "12.5", "own"] in rows
    assert ["dino_vitS16", "24.5", "a", "friend"] in rows


def test_encoders_of_an_experiment_are_shown_by_name_or_family_alone() -> None:
    def encoders(*arguments: str) -> list[str]:
        return list(dict.fromkeys(row["encoder"] for row in document("results", *arguments)["measurements"]))

    measured = [f"randomised_{number:03}" for number in range(64)]
    assert encoders("--family", "randomised", "--dataset", "digits") == encoders("randomised_*") == measured
    assert encoders("randomised_000", "--metric", "rankme") == ["randomised_000"]
    assert all(map(load_catalogue().lists, encoders("--dataset", "digits")))
    for path, content in read_files(".csv").items():
        others = {line.partition(b",")[0].decode() for line in content.splitlines()[1:]} - {path.stem}
        assert all(map(load_catalogue().lists, others)), path


def test_reported_numbers_are_shown_alone_and_as_they_are_printed() -> None:
    head, row = csv.reader(io.StringIO(run("results", "dino_vitS16", "--reported", "--csv").stdout))
    assert head == [*COLUMNS, "repeats", "sd", "low", "high", "features"] and row[4] == "77.0"
    asked = ("results", "--reported", "--protocol", "reported-knn", "--dataset", "IMAGENET-1K")
    assert {number["protocol"] for number in document(*asked)["reported"]} == {"reported-knn"}
    assert "has no effect" in run("results", "--reported", "--setting", "1%", code=2).stderr
    message = run("results", "dino_vitS16", "--reported", "--dataset", "imagenet", code=2).stderr
    assert "did you mean imagenet-1k" in message


def test_what_others_measured_on_a_data_set_is_a_table_a_protocol_best_first() -> None:
    shown = run("results", "--dataset", "EuroSAT", "--limit", "3")
    head, *blocks = shown.stdout.split("\n\n")
    assert head.startswith("Measured by others on EuroSAT: satellite, 10 classes, 5,400 images, accuracy")
    assert "few-shot, MTEB: top-1 accuracy, percent, higher is better; setting: 16 labels per class" in blocks[1]
    assert "setting: 10 labels per class, VTAB's training split" in blocks[0]
    assert [block.count("\n") for block in blocks] == [4, 4, 4, 4, 4, 5]  # a title, names of columns, three encoders
    for block in blocks:
        values = [float(line.split()[1]) for line in block.strip().splitlines()[2:]]
        assert values == sorted(values, reverse=True)
    assert "sd 0.56 of 5" in blocks[1] and "authors of open_clip (a third party)" in blocks[4]
    asked = document("results", "eva*", "--dataset", "eurosat", "--protocol", "*few-shot", "--metric", "top1*")
    assert asked["dataset"] == "eurosat" and asked["measurements"] == []
    assert {one["protocol"] for one in asked["measured_by_others"]} == {"reported-few-shot"}
    assert all(one["encoder"].startswith("eva") and one["sd"] for one in asked["measured_by_others"])


def test_own_measurements_come_first_and_csv_has_only_them() -> None:
    shown = run("results", "--dataset", "ImageNet-1K", "--limit", "1").stdout
    ours, title, others = shown.partition("\nMeasured by others on ImageNet-1K")
    assert ours == run("results", "--setting", "100%,30-shot,1%,5-shot,3-shot", "--limit", "1").stdout and title
    assert "few-shot, MTEB" in others
    csv_of = ("results", "--csv", "--metric", "linear_probe_error")
    assert run(*csv_of, "--dataset", "imagenet-1k").stdout == run(*csv_of).stdout
    assert "--reported --csv" in run("results", "--dataset", "eurosat", "--csv", code=1).stderr
    both = document("results", "dino_vitS16", "clip_vitB16", "--dataset", "imagenet-1k")
    assert {row["encoder"] for row in both["measurements"]} == {"dino_vitS16", "clip_vitB16"}
    assert {row["encoder"] for row in both["measured_by_others"]} == {"clip_vitB16"}
    assert "measured_by_others" not in document("results", "dino_vitS16", "--long")


def test_origins_that_contradict_each_other_are_both_shown_and_doubts_say_why() -> None:
    shown = run("results", "clip_vitB16", "--dataset", "svhn")
    assert shown.stdout.count("clip_vitB16 ") == 5
    assert "origins differ: clip_vitB16, 51.9 (OpenCLIP), 30.5 (CLIP benchmark of LAION)\n" in shown.stderr
    doubtful = run("results", "--dataset", "roxford-hard-retrieval", "--limit", "1")
    assert "*!" in doubtful.stdout and "*!  doubtful: mAP@5" in doubtful.stderr


def test_a_data_set_that_nobody_measured_on_is_answered_with_the_nearest_of_both_kinds() -> None:
    assert "did you mean eurosat" in run("results", "--dataset", "eurosatt", code=2).stderr
    assert "did you mean shapes" in run("results", "--dataset", "shape", code=2).stderr
    assert "--reported --dataset 'ADE20K'" in run("results", "--dataset", "ADE20K", code=2).stderr
    assert "of dino_vitS16 on eurosat" in run("results", "dino_vitS16", "--dataset", "eurosat", code=1).stderr
    same = [document("results", "--reported", "--dataset", name) for name in ("eurosat", "Euro_SAT")]
    assert same[0] == same[1] and {one["dataset"] for one in same[0]["reported"]} == {"eurosat"}
