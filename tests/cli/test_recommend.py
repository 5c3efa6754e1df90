"""``zoo recommend``: the rank, the filters, and what it says of its own certainty."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from click import Context, Option

from tests.card_text import VALID
from tests.cli_runner import document, names, run
from tests.each import for_each
from zoo.analysis.label_budget import predict_error
from zoo.cards.catalogue import catalogue
from zoo.cards.licences import PERMISSIVE
from zoo.choosing import budget_ranking
from zoo.cli.options import as_count
from zoo.cli.recommend import recommend_command
from zoo.files import content_folder
from zoo.results.derived import summaries
from zoo.results.values import SETTINGS, Setting

WRONG = "deepcluster_rn50_bs512_ep200_mmselfsup"
ALL = ("--top", "500")
MINE = "tiny_vitS16"


@pytest.fixture(autouse=True)
def few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the ranks that encoders may have; a probability then has a standard error of 0.035."""
    monkeypatch.setattr(budget_ranking, "rank_odds", partial(budget_ranking.rank_odds, n_draws=200))


@pytest.fixture
def measure_mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, float]], None]:
    """Adds an encoder of one's own with these errors, by name of the setting."""
    monkeypatch.setenv("ZOO_HOME", str(tmp_path))
    for name in ("metadata", "results"):
        (tmp_path / name).mkdir()
    (tmp_path / "metadata" / "mine.toml").write_text(VALID)
    header = (content_folder("results") / "published" / "risks.csv").read_text().splitlines()[0]

    def write(errors: dict[str, float]) -> None:
        lines = [
            f"{MINE},linear_probe_error,imagenet-1k,{setting.split},{setting.n_labels},0,{errors[setting.name]},percent,,,"
            "probe,me,2026-01"
            for setting in SETTINGS
            if setting.name in errors
        ]
        (tmp_path / "results" / "mine.csv").write_text("\n".join([header, *lines, ""]))

    return write


def test_the_rank_is_by_the_predicted_error_of_every_self_supervised_encoder() -> None:
    ranked = document("recommend", "--labels", "20000", *ALL)["encoders"]
    expected = {}
    for encoder, summary in summaries().items():
        curve = {
            setting.n_labels: summary.errors[setting.name] for setting in SETTINGS if setting.name in summary.errors
        }
        predicted = predict_error(curve, 20_000)
        if predicted is not None and encoder != WRONG:
            expected[encoder] = predicted.error
    assert {record["encoder"]: record["error"] for record in ranked} == expected
    assert [record["error"] for record in ranked] == sorted(expected.values())
    assert [record["rank"] for record in ranked] == list(range(1, len(expected) + 1))


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_at_a_measured_setting_the_rank_is_that_of_the_measurements(setting: Setting) -> None:
    ranked = document("recommend", "--labels", str(setting.n_labels), *ALL)
    known = summaries()
    assert ranked["uncertainty"] is None
    for record in ranked["encoders"]:
        errors = known[record["encoder"]].errors
        assert record["kind"] == ("measured" if setting.name in errors else "interpolated")
        assert record["error"] == errors.get(setting.name, record["error"])


def test_encoders_that_saw_labels_or_nothing_at_all_are_no_candidates() -> None:
    found = names("recommend", "--labels", "1281167", *ALL)
    modes = {catalogue()[encoder].objective.mode for encoder in found}
    assert not modes & {"supervised", "initialized"}


def test_each_recommendation_says_which_measurements_it_rests_on() -> None:
    first = document("recommend", "--labels", "8k")["encoders"][0]
    assert [part["setting"] for part in first["basis"]] == ["5-shot", "1%"]
    assert first["basis"][0]["error"] > first["error"] > first["basis"][1]["error"]


@pytest.mark.parametrize("written", ["20000", "20_000", "20k", "2e4", "0.02M", "20,000", " 20 K "])
def test_counts_may_be_written_as_people_write_them(written: str) -> None:
    assert document("recommend", "--labels", written)["n_labels"] == 20_000


@for_each(
    [
        "abc",
        "-5",
        "0",
        "1.5",
        "1e400",
        "1e99",
        "nan",
        "inf",
        "10 apples",
        "",
        "1,5k",
        "1,50",
        "20,00",
        "1_0",
        "1000,000",
        "\u0662\u0660k",
        "9" * 5_000,
        "1.0000000000000000000000000001k",
    ]
)
def test_what_is_no_count_is_refused_in_one_short_sentence(written: str) -> None:
    message = run("recommend", "--labels", written, code=2).stderr.splitlines()[-1]
    assert "expected a whole number above 0" in message
    assert len(message) < 220


@pytest.mark.parametrize(
    ("written", "parameters"), [("4.1M", 4_100_000), ("0.3k", 300), ("1,500", 1_500), ("85.798656M", 85_798_656)]
)
def test_a_count_with_a_fraction_is_exact(written: str, parameters: int) -> None:
    assert as_count(Context(recommend_command), Option(["--max-parameters"]), written) == parameters


@pytest.mark.parametrize("labels", ["8k", "30k", "1281167", "1500"])
def test_two_settings_make_no_curve_and_take_no_rank(measure_mine: Callable[..., None], labels: str) -> None:
    measure_mine({"1%": 0.5, "3-shot": 0.6})
    found = document("recommend", "--labels", labels, *ALL)
    assert MINE not in [record["encoder"] for record in found["encoders"]]
    assert {"reason": "measured in fewer than 3 settings", "n": 1, "names": [MINE]} in found["left_out"]


def test_where_it_was_measured_a_single_setting_is_enough(measure_mine: Callable[..., None]) -> None:
    measure_mine({"1%": 0.5})
    first = document("recommend", "--labels", "12811")["encoders"][0]
    assert (first["encoder"], first["error"], first["kind"]) == (MINE, 0.5, "measured")


def test_an_error_of_zero_keeps_only_its_own_encoder_out(measure_mine: Callable[..., None]) -> None:
    expected = names("recommend", "--labels", "20k", *ALL)
    measure_mine({"100%": 0, "30-shot": 10, "1%": 12, "5-shot": 13, "3-shot": 14})
    assert names("recommend", "--labels", "20k", *ALL) == expected
    assert "1 (measured with an error of 0)" in run("recommend", "--labels", "20k").stderr


def test_an_encoder_whose_curve_ends_too_early_is_left_out_with_that_reason(measure_mine: Callable[..., None]) -> None:
    measure_mine({"1%": 12, "5-shot": 13, "3-shot": 14})
    found = document("recommend", "--labels", "20k", *ALL)
    assert {"reason": "not measured with as many labels", "n": 1, "names": [MINE]} in found["left_out"]


def test_the_help_says_which_numbers_of_labels_it_takes() -> None:
    text = " ".join(run("recommend", "--help").stdout.split())
    assert "from 1,000 to 1,281,167, and below 3,000 by extrapolation" in text


def test_filters_keep_only_what_was_asked_for() -> None:
    options = ("--max-parameters", "30M", "--max-dim", "768", "--licence", "permissive")
    found = document("recommend", "--labels", "5000", *options, *ALL)
    assert found["encoders"]
    for record in found["encoders"]:
        assert record["n_parameters"] <= 30_000_000
        assert record["z_dim"] <= 768
        assert {record["licence"], record["licence_code"]} <= set(PERMISSIVE)
    removed = sum(left["n"] for left in found["left_out"])
    assert removed + len(found["encoders"]) == len(document("recommend", "--labels", "5000", *ALL)["encoders"]) + 1


def test_one_licence_can_be_asked_for_in_any_case() -> None:
    found = document("recommend", "--labels", "5000", "--licence", "apache-2.0", *ALL)["encoders"]
    assert {record["licence"] for record in found} == {"Apache-2.0"}


@pytest.mark.parametrize(
    ("word", "uses"), [("commercial", {"yes"}), ("conditions", {"yes", "conditions"}), ("ANY", {"yes", "no"})]
)
def test_a_word_asks_for_what_licences_allow(word: str, uses: set[str]) -> None:
    found = document("recommend", "--labels", "5000", "--licence", word, *ALL)["encoders"]
    assert {record["commercial_use"] for record in found} <= uses
    assert "yes" in {record["commercial_use"] for record in found}


def test_of_several_licences_one_is_enough_and_none_is_refused() -> None:
    found = document("recommend", "--labels", "5000", "--licence", "apache-2.0, CC-BY-NC-4.0", *ALL)["encoders"]
    assert {record["licence"] for record in found} == {"Apache-2.0", "CC-BY-NC-4.0"}
    assert names("recommend", "--labels", "5000", "--licence", "MIT,any", *ALL) == names(
        "recommend", "--labels", "5000", *ALL
    )
    for nothing in ("", " , "):
        assert "no licence named ''" in run("recommend", "--labels", "5000", "--licence", nothing, code=2).stderr


def test_a_condition_on_any_fact_removes_candidates_and_is_named() -> None:
    condition = 'commercial_use == "no" and access == "open" and z_dim < 1000'
    found = document("recommend", "--labels", "5000", "--where", condition, *ALL)
    assert found["encoders"]
    for record in found["encoders"]:
        assert (record["commercial_use"], record["availability"]) == ("no", "open")
        assert record["z_dim"] < 1000
    assert f"--where {condition}" in [left["reason"] for left in found["left_out"]]
    assert "no column" in run("recommend", "--labels", "5000", "--where", "nonsense > 1", code=2).stderr


def test_wrong_measurements_are_left_out_and_that_is_said() -> None:
    assert WRONG not in names("recommend", "--labels", "5000", *ALL)
    assert WRONG in names("recommend", "--labels", "5000", "--include-wrong", *ALL)
    assert "1 (measured wrongly, see --include-wrong)" in run("recommend", "--labels", "5000").stderr


def test_measurements_that_are_suspected_stay_and_are_marked() -> None:
    suspected = "openclip_vitH14_extractPred"
    text = run("recommend", "--labels", "20000").stdout
    assert f"{suspected} ! " in text
    assert f"!  {suspected} (suspicious): " in text
    records = {record["encoder"]: record for record in document("recommend", "--labels", "20000")["encoders"]}
    assert [erratum["kind"] for erratum in records[suspected]["errata"]] == ["suspicious"]


def test_the_uncertainty_is_stated_with_its_origin() -> None:
    text = run("recommend", "--labels", "20000").stdout
    assert "Interpolated between 1% (12,811 labels) and 30-shot (30,000 labels)" in text
    assert "Give or take 0.2 points, the mean miss for 167 encoders when 30-shot is hidden and predicted" in text
    uncertainty = document("recommend", "--labels", "20000")["uncertainty"]
    assert (uncertainty["predicted"], uncertainty["left_out"], uncertainty["n"]) == (30_000, [30_000], 167)


def test_an_extrapolation_is_called_one() -> None:
    text = run("recommend", "--labels", "1500").stdout
    assert "extrapolated" in text
    assert "nothing was measured with so few labels" in text


def test_with_1000_labels_it_admits_the_amplified_noise_and_that_another_law_differs() -> None:
    text = run("recommend", "--labels", "1000").stdout
    assert "Give or take 2.4 points, nine in ten within 4.7, for noise alone" in text
    assert "A power law with a floor differs by 3.8 points on average" in text


@pytest.mark.parametrize("labels", ["1000", "20000", "30000"])
def test_ranks_have_intervals_and_probabilities_and_ties_are_said(labels: str) -> None:
    found = document("recommend", "--labels", labels, *ALL)
    records = found["encoders"]
    assert sum(record["probability_best"] for record in records) == pytest.approx(1)
    for record in records:
        low, high = record["interval"]
        assert low < record["error"] < high
        assert record["rank_interval"][0] <= record["rank_interval"][1] <= len(records)
    ties = [record for record in records if record["ties_with_first"]]
    assert len(ties) == found["n_ties_with_first"] > 1 and ties[0] is records[0]
    lines = run("recommend", "--labels", labels).stdout.splitlines()
    assert f"Ties: {len(ties)} encoders share the first place" in "\n".join(lines)
    low, high = records[0]["rank_interval"]
    assert next(line.split()[0] for line in lines if f" {records[0]['encoder']}" in line) == f"{low}-{high}"


def test_a_measured_rank_says_that_it_knows_of_validation_images_alone() -> None:
    text = run("recommend", "--labels", "30k").stdout
    assert "No intervals were published" in text and "50,000 validation images alone" in text
    first = document("recommend", "--labels", "30k")["encoders"][0]
    assert first["noise"]["images"] == pytest.approx(
        100 * (first["error"] / 100 * (1 - first["error"] / 100) / 50_000) ** 0.5
    )
    assert (first["noise"]["prediction"], first["noise"]["law"]) == (0, 0)


def test_equal_measurements_have_the_same_rank(measure_mine: Callable[..., None]) -> None:
    best = document("recommend", "--labels", "12811")["encoders"][0]
    measure_mine({"1%": best["error"]})
    first, second, third = document("recommend", "--labels", "12811")["encoders"][:3]
    assert (first["rank"], second["rank"], third["rank"]) == (1, 1, 3)
    assert first["ties_with_first"] and second["ties_with_first"]


def test_an_encoder_with_a_wider_gap_is_less_certain_than_one_beside_it() -> None:
    records = document("recommend", "--labels", "20000", *ALL)["encoders"]
    wide = [record["noise"]["prediction"] for record in records if record["basis"][-1]["setting"] == "100%"]
    usual = [record["noise"]["prediction"] for record in records if record["basis"][-1]["setting"] == "30-shot"]
    assert wide and min(wide) > max(usual)


def test_where_no_trial_is_possible_the_uncertainty_is_not_made_up(measure_mine: Callable[..., None]) -> None:
    measure_mine({"100%": 9, "30-shot": 10, "5-shot": 13})
    records = document("recommend", "--labels", "10000", *ALL)["encoders"]
    (mine,) = [record for record in records if record["encoder"] == MINE]
    assert (mine["interval"], mine["rank_interval"], mine["probability_best"]) == (None, None, None)


def test_a_measured_setting_claims_no_prediction() -> None:
    text = run("recommend", "--labels", "30k").stdout
    assert "measured; lower is better" in text
    assert "Give or take" not in text


@pytest.mark.parametrize("n_labels", ["20000", "30000"])
def test_an_encoder_with_a_wider_gap_is_named(n_labels: str) -> None:
    lacking = [encoder for encoder, summary in summaries().items() if len(summary.errors) == 4]
    text = run("recommend", "--labels", n_labels, *ALL).stdout
    assert lacking
    assert all(f"{encoder} was not measured with 30-shot" in text for encoder in lacking)


@pytest.mark.parametrize(("written", "bound"), [("999", "at least 1,000"), ("1281168", "at most 1,281,167")])
def test_labels_of_which_nothing_was_measured_are_refused(written: str, bound: str) -> None:
    assert f"expected {bound}" in run("recommend", "--labels", written, code=2).stderr


def test_an_unknown_licence_lists_those_that_there_are() -> None:
    message = run("recommend", "--labels", "5000", "--licence", "apache", code=2).stderr
    assert "There is no licence named 'apache'" in message
    assert "'permissive', 'commercial', 'conditions' or one of: Apache-2.0" in message


def test_when_nothing_is_left_the_filter_that_removed_the_last_is_named() -> None:
    options = ("--labels", "5000", "--licence", "MIT", "--max-parameters", "1M")
    result = run("recommend", *options, code=1)
    assert result.stdout == ""
    assert result.stderr.startswith("Error: No encoder is left: '--max-parameters 1M' removes all ")
    assert "that pass '--licence MIT'; the nearest: " in result.stderr
    assert "barlow_rn50 (23.5M parameters)" in result.stderr
    assert run("recommend", *options, "--json", code=1).stderr == result.stderr
    found = document("recommend", *options, code=1)
    assert (found["encoders"], found["n_candidates"]) == ([], 0)
