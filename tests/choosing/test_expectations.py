"""The errors to expect: measured ones as they are, the others by straight lines, kin where nothing is known."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from tests.own_encoder import MINE, add_own_encoder
from tests.result_rows import ROW
from zoo.analysis.label_budget import predict_error
from zoo.cards.catalogue import catalogue
from zoo.cards.schema import EncoderCard
from zoo.choosing import expectations
from zoo.choosing.expectations import FLATTERED, Expected, expected_errors, imagenet_labels, saw_labels
from zoo.errors import QueryError
from zoo.results.derived import summaries
from zoo.results.reported import preferred_numbers
from zoo.results.values import SETTINGS


def everyone() -> dict[str, EncoderCard]:
    cards = catalogue()
    return {name: cards[name] for name in cards}


@pytest.fixture(scope="module")
def all_labels() -> dict[str, Expected]:
    return expected_errors(everyone(), 5_000, 2)


def test_labels_are_counted_a_class_within_what_was_measured() -> None:
    assert [imagenet_labels(*of) for of in ((60, 2), (10**9, 2), (7, 7))] == [30_000, 1_281_167, 1_000]
    with pytest.raises(QueryError, match="1 class, expected at least 2"):
        imagenet_labels(10, 1)
    with pytest.raises(QueryError, match="9 labels of 10 classes"):
        imagenet_labels(9, 10)


def test_what_was_measured_in_this_setting_is_expected(all_labels: dict[str, Expected]) -> None:
    full = SETTINGS[0].name
    errors = {name: one.errors[full] for name, one in summaries(exclude_wrong=True).items() if full in one.errors}
    cards = catalogue()
    trained = {name: error for name, error in errors.items() if not cards[name].is_untrained and error > 0}
    assert len(trained) > 150
    assert {name: all_labels[name].error for name in trained} == trained
    assert {all_labels[name].kind for name in trained} == {"measured"}


def test_between_settings_it_is_what_recommend_predicts() -> None:
    found = expected_errors(everyone(), 40, 2)["dino_vitS16"]
    summary = summaries()["dino_vitS16"]
    curve = {setting.n_labels: summary.errors[setting.name] for setting in SETTINGS}
    predicted = predict_error(curve, 20_000)
    assert predicted is not None
    assert (found.error, found.kind) == (predicted.error, "interpolated")
    assert found.spread > 0.3


def test_every_trained_encoder_has_an_expectation_and_no_untrained_one(all_labels: dict[str, Expected]) -> None:
    trained = {name for name, card in everyone().items() if not card.is_untrained}
    assert set(all_labels) == trained
    assert all(0 < one.error < 100 and math.isfinite(one.spread) and one.spread > 0 for one in all_labels.values())


def test_reported_numbers_keep_their_order_within_a_protocol(all_labels: dict[str, Expected]) -> None:
    numbers = preferred_numbers()
    by_zero_shot = sorted(
        (one["reported-zero-shot"].value, all_labels[name].error)
        for name, one in numbers.items()
        if name in all_labels and "(zero-shot)" in all_labels[name].source and not saw_labels(catalogue()[name])
    )
    errors = [error for _, error in by_zero_shot]
    assert len(errors) > 100
    assert errors == sorted(errors, reverse=True)


def test_reported_numbers_and_training_with_imagenets_labels_are_less_certain(all_labels: dict[str, Expected]) -> None:
    cards = catalogue()
    reported = [one.spread for one in all_labels.values() if one.kind == "reported"]
    measured = [
        one.spread for name, one in all_labels.items() if one.kind == "measured" and not saw_labels(cards[name])
    ]
    assert max(measured) < min(reported)
    assert all_labels["sup_rn50"].spread >= FLATTERED
    assert "trained with ImageNet's labels" in all_labels["sup_rn50"].source
    assert all_labels["dino_rn50"].spread < 1


def test_a_line_through_log_odds_is_found_again_and_widens_away_from_its_points() -> None:
    rng = np.random.default_rng(0)
    x = np.linspace(10, 60, 40)
    odds = 0.7 * np.log(x / (100 - x)) + 0.4 + rng.normal(0, 0.05, 40)
    assert expectations._line([(10.0, 20.0)] * 30) is None  # equal ones, and too few
    assert expectations._line([(float(n), n + 1.0) for n in range(1, 10)]) is None
    line = expectations._line(zip(x, 100 / (1 + np.exp(-odds)), strict=True))
    assert line is not None
    truth = 100 / (1 + math.exp(-(0.7 * math.log(30 / 70) + 0.4)))
    error, spread = line(30.0)
    assert abs(error - truth) < 3 * 0.05 * 25 / math.sqrt(40) + 0.5
    slope = math.exp(-(0.7 * math.log(30 / 70) + 0.4))
    assert spread / (100 * slope / (1 + slope) ** 2) == pytest.approx(
        0.05, rel=0.4
    )  # 40 points tell a deviation to 12 %


def test_an_encoder_without_numbers_is_expected_like_its_kin_at_its_size(all_labels: dict[str, Expected]) -> None:
    kin = {name: one for name, one in all_labels.items() if one.kind == "kin" and "family siglip2" in one.source}
    sizes = {name: catalogue()[name].architecture.n_parameters for name in kin}
    small, large = min(sizes, key=sizes.__getitem__), max(sizes, key=sizes.__getitem__)
    assert sizes[small] < sizes[large]
    assert kin[small].error > kin[large].error
    assert all("nothing is known of it" in one.source and one.spread >= 4 for one in kin.values())


def test_measurements_on_the_users_images_come_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add_own_encoder(tmp_path, monkeypatch)
    header, *_ = (tmp_path / "results" / "mine.csv").read_text().splitlines()
    rows = [
        ROW | {"encoder": name, "dataset": "xray", "n_train": "4000", "value": value, "ci_low": "", "ci_high": ""}
        for name, value in (("dino_vitS16", "9"), ("dino_rn50", "2"))
    ]
    lines = [",".join(row[column] for column in header.split(",")) for row in rows]
    (tmp_path / "results" / "xray.csv").write_text("\n".join([header, *lines, ""]))
    found = expected_errors(everyone(), 5_000, 2, dataset="xray")
    before = expected_errors(everyone(), 5_000, 2)
    best, other = found["dino_rn50"], found["dino_vitS16"]
    assert (best.error, best.kind, other.error) == (2.0, "these images", 9.0)
    assert "xray" in best.source
    assert best.comparable < other.comparable
    assert min(before["dino_rn50"].error, before["dino_vitS16"].error) < other.comparable
    assert found[MINE] == before[MINE]
    assert expected_errors(everyone(), 5_000, 2, dataset="nobody measured this") == before
