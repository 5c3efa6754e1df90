"""The errors to expect: measured ones as they are, all others by the shipped table, own encoders by their kin."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from tests.own_encoder import MINE, add_own_encoder
from tests.result_rows import ROW
from zoo.analysis.label_budget import predict_error
from zoo.cards.catalogue import load_catalogue
from zoo.cards.schema import EncoderCard
from zoo.choosing.constraints import Constraints
from zoo.choosing.expectations import (
    FLATTERED,
    ExpectedError,
    Images,
    compute_label_scale,
    estimate_errors,
    find_best_measured,
    interpolate_difficulty,
    read_difficulties,
    translate_label_number,
)
from zoo.choosing.ranking import UNTOLD, recommend
from zoo.choosing.shortlist import select_shortlist
from zoo.errors import QueryError, UnknownName
from zoo.results.derived import summaries
from zoo.results.evidence import list_datasets
from zoo.results.values import IMAGENET, SETTINGS

ON_IMAGENET = Images.named(like="ImageNet-1K")


def everyone() -> dict[str, EncoderCard]:
    cards = load_catalogue()
    return {name: cards[name] for name in cards}


@pytest.fixture(scope="module")
def all_labels() -> dict[str, ExpectedError]:
    return estimate_errors(everyone(), 1_281_167, 1_000, images=ON_IMAGENET)


def test_labels_are_counted_a_class_within_what_was_measured() -> None:
    assert [translate_label_number(*of) for of in ((60, 2), (10**9, 2), (7, 7))] == [30_000, 1_281_167, 1_000]
    with pytest.raises(QueryError, match="1 class, expected at least 2"):
        translate_label_number(10, 1)
    with pytest.raises(QueryError, match="9 labels of 10 classes"):
        translate_label_number(9, 10)


def test_what_was_measured_in_this_setting_is_expected(all_labels: dict[str, ExpectedError]) -> None:
    full, cards = SETTINGS[0].name, load_catalogue()
    measured = {
        name: one.errors[full]
        for name, one in summaries(exclude_wrong=True).items()
        if one.errors.get(full, 0) > 0 and not cards[name].is_untrained and not cards[name].saw_labels
    }
    assert len(measured) > 150
    assert {name: all_labels[name].error for name in measured} == pytest.approx(measured)
    assert {all_labels[name].basis for name in measured} == {"the study"}


def test_between_settings_it_is_what_the_ranking_by_measured_errors_predicts() -> None:
    found = estimate_errors(everyone(), 20_000, 1_000, images=ON_IMAGENET)["dino_vitS16"]
    summary = summaries()["dino_vitS16"]
    predicted = predict_error({setting.n_labels: summary.errors[setting.name] for setting in SETTINGS}, 20_000)
    assert predicted is not None
    assert found.error == pytest.approx(predicted.error)
    assert found.spread > 0.3 and "interpolated" in found.source


@pytest.mark.parametrize("images", [ON_IMAGENET, Images.named(domain="satellite"), Images()], ids=lambda one: one.words)
def test_every_trained_encoder_has_an_expectation_and_no_untrained_one(images: Images) -> None:
    found = estimate_errors(everyone(), 500, 10, images=images)
    assert set(found) == {name for name, card in everyone().items() if not card.is_untrained}
    assert all(0 < one.error < 100 and 0 < one.sd < 3 for one in found.values())
    assert all(low < one.error < high for one in found.values() for low, high in [one.interval])


def test_what_is_known_of_an_encoder_makes_it_more_certain(all_labels: dict[str, ExpectedError]) -> None:
    mean = {
        basis: math.fsum(some) / len(some)
        for basis in ("the study", "reported probe", "other numbers", "similar encoders")
        for some in [[one.sd for one in all_labels.values() if one.basis == basis]]
    }
    assert mean["the study"] < mean["reported probe"] < mean["other numbers"] < mean["similar encoders"]


def test_training_with_imagenets_labels_makes_other_images_less_certain() -> None:
    found = estimate_errors(everyone(), 500, 10, images=Images.named(like="eurosat"))
    assert found["sup_rn50"].sd >= FLATTERED and "trained with ImageNet's labels" in found["sup_rn50"].source
    assert found["dino_rn50"].sd < found["sup_rn50"].sd


def test_more_labels_lower_every_level_and_levels_pass_through_what_was_measured() -> None:
    places = [compute_label_scale(n) for n in (1, 3, 10, 100, 1_281)]
    for images in (ON_IMAGENET, Images.named(like="eurosat"), Images.named(domain="pathology")):
        levels = [interpolate_difficulty(images, place) for place in places]
        assert levels == sorted(levels, reverse=True)
    for place, odds in read_difficulties()[IMAGENET].by_labels:
        assert interpolate_difficulty(ON_IMAGENET, place) == pytest.approx(odds)
    assert compute_label_scale(10**9) == compute_label_scale(3_000)


def test_encoders_of_the_kind_of_images_are_expected_to_be_better_there() -> None:
    found = estimate_errors(everyone(), 4_000, 4, images=Images.named(domain="pathology"))
    for name in ("uni_vitL16", "virchow2_vitH14", "hoptimus0_vitg14"):
        assert found[name].error < found["dino_vitB16"].error


def test_images_are_named_by_any_spelling_and_unknown_ones_are_refused() -> None:
    assert Images.named(like="Oxford-IIIT Pet") == Images("oxford-pets", list_datasets()["oxford-pets"].domain)
    assert Images.named(domain="Satellite") == Images("", "satellite")
    for names, error, message in (
        ({"like": "eurosatt"}, UnknownName, "eurosat"),
        ({"domain": "satelite"}, UnknownName, "satellite"),
        ({"domain": "captions"}, UnknownName, "There are natural"),
        ({"like": "camelyon17"}, QueryError, "--domain pathology"),
        ({"like": "eurosat", "domain": "satellite"}, QueryError, "one of the two"),
    ):
        with pytest.raises(error, match=message):
            Images.named(**names)


def test_an_own_encoder_is_expected_like_its_kin_and_by_its_own_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_own_encoder(tmp_path, monkeypatch, splits=())
    card = load_catalogue()[MINE]
    kin = estimate_errors({MINE: card}, 500, 10)[MINE]
    assert kin.basis == "similar encoders" and "nothing is known of it" in kin.source
    found = []
    for error in ("12.5", "80.5"):
        path = tmp_path / "results" / "mine.csv"
        lines = [",".join((ROW | {"encoder": MINE, "value": error, "ci_low": "", "ci_high": ""}).values())]
        path.write_text("\n".join([",".join(ROW), *lines, ""]))
        found.append(estimate_errors({MINE: card}, 500, 10)[MINE])
    assert found[0].error < kin.error < found[1].error
    assert all("its error on ImageNet-1K" in one.source for one in found)
    few = estimate_errors({MINE: card}, 5_000, 1_000, images=ON_IMAGENET)[MINE]
    assert few.error > 80.5  # an error with all labels is none with five a class


def test_measurements_on_the_users_images_come_first_and_say_how_difficult_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_own_encoder(tmp_path, monkeypatch)
    header, *_ = (tmp_path / "results" / "mine.csv").read_text().splitlines()
    rows = [
        ROW | {"encoder": name, "dataset": "xray", "n_train": "4000", "value": value, "ci_low": "", "ci_high": ""}
        for name, value in (("dino_vitS16", "9"), ("dino_rn50", "2"))
    ]
    lines = [",".join(row[column] for column in header.split(",")) for row in rows]
    (tmp_path / "results" / "xray.csv").write_text("\n".join([header, *lines, ""]))
    before = estimate_errors(everyone(), 5_000, 2)
    found = estimate_errors(everyone(), 5_000, 2, dataset="xray")
    best, other = found["dino_rn50"], found["dino_vitS16"]
    assert (best.error, best.basis) == (pytest.approx(2.0), "these images") and other.error == pytest.approx(9.0)
    assert "xray" in best.source
    shifts = {round(found[name].odds - before[name].odds, 9) for name in ("mae_vitB16", "clip_vitB16", "vicreg_rn50")}
    assert len(shifts) == 1  # all others move alike
    assert estimate_errors(everyone(), 5_000, 2, dataset="nobody measured this") == before


def test_with_few_labels_an_objective_that_nobody_probed_with_few_says_nothing(
    all_labels: dict[str, ExpectedError],
) -> None:
    few = estimate_errors(everyone(), 1_000, 1_000, images=ON_IMAGENET)
    assert not [name for name, one in all_labels.items() if one.is_untold]
    untold = {everyone()[name].objective.mode for name, one in few.items() if one.is_untold}
    told = {everyone()[name].objective.mode for name, one in few.items() if not one.is_untold}
    assert {"autoregressive", "distillation", "latent_prediction"} <= untold
    assert {"contrastive", "clustering", "language_supervised", "hybrid"} <= told
    assert few["aimv2_vit3B14_448"].is_untold and not few["dino_vitS16"].is_untold
    assert few["aimv2_vit3B14_448"].sd > all_labels["aimv2_vit3B14_448"].sd
    assert estimate_errors(everyone(), 10, 10)["aimv2_vit3B14_448"].is_untold  # on any images


def test_who_is_untold_has_no_rank_with_few_labels_nor_where_nobody_else_is_asked_for() -> None:
    few = recommend(1_000)
    assert few.left_out[UNTOLD] and not any(one.number.is_untold for one in few.ranked)
    assert UNTOLD not in recommend(1_281_167).left_out
    alone = recommend(1_000, constraints=Constraints(where='card_family == "aimv2"'))
    assert not alone.ranked and UNTOLD in alone.why_nobody
    listed = select_shortlist(8, n_labels=40, n_classes=10)
    assert listed.left_out[UNTOLD] and not any(one.expected and one.expected.is_untold for one in listed.chosen)


def test_the_best_measured_error_is_that_with_as_many_labels_or_the_next_more() -> None:
    few, many = find_best_measured(1_000), find_best_measured(1_281_167)
    assert few[1] == 3_000 and many[1] == 1_281_167 and few[0] > many[0]


def test_a_number_says_whether_it_was_measured_with_so_many_labels() -> None:
    cards = {"dino_vitS16": load_catalogue()["dino_vitS16"], "dinov2_vitS14": load_catalogue()["dinov2_vitS14"]}
    found = {n: estimate_errors(cards, n, 1_000, images=ON_IMAGENET) for n in (1_281_167, 7_000, 1_000)}
    said = {n: (one["dino_vitS16"].rests_on, one["dinov2_vitS14"].how) for n, one in found.items()}
    assert said[1_281_167] == ("the study", "expected")
    assert said[7_000][0] == "the study, interpolated" and said[1_000][0] == "the study, extrapolated"
    elsewhere = estimate_errors(cards, 16_000, 1_000)["dino_vitS16"]
    assert elsewhere.rests_on == "the study" and elsewhere.how == "expected"  # nobody measured it on those images
