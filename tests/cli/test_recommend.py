"""``zoo recommend``: the rank, the filters, the user's own classes, reported numbers, and how sure all this is."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from click import BadParameter, Context, Option

from tests.card_text import VALID
from tests.cli_runner import document, names, run
from tests.each import for_each
from tests.reported_rows import reported_text
from zoo.analysis.label_budget import predict_error, translate_to_imagenet
from zoo.analysis.reported_agreement import pair_sources
from zoo.cards.catalogue import load_catalogue
from zoo.cards.costs import estimate_memory, find_cost
from zoo.cards.licences import PERMISSIVE
from zoo.choosing import ranking
from zoo.choosing.constraints import Constraints
from zoo.choosing.ranking import BEYOND
from zoo.cli.constraint_options import format_constraint_options
from zoo.cli.options import parse_count
from zoo.cli.recommend import recommend_command
from zoo.errors import QueryError
from zoo.files import get_content_folder
from zoo.results.derived import summaries
from zoo.results.facts import format_points
from zoo.results.reported_values import FILE
from zoo.results.values import SETTINGS

WRONG = "deepcluster_rn50_bs512_ep200_mmselfsup"
ALL = ("--top", "500")
BY_PATCHES = "reported-attentive"
MEASURED = ("recommend", "--measured", "--labels")
MINE = "tiny_vitS16"
XRAYS = ("--classes", "2", "--labels", "5000", "--max-memory", "8GB", "--licence", "commercial")


@pytest.fixture(autouse=True)
def few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the ranks that encoders may have."""
    monkeypatch.setattr(ranking, "simulate_ranks", partial(ranking.simulate_ranks, n_draws=100))


@pytest.fixture
def measure_mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, float]], None]:
    """Adds an encoder of one's own with these errors, by name of the setting."""
    monkeypatch.setenv("ZOO_HOME", str(tmp_path))
    for name in ("metadata", "results"):
        (tmp_path / name).mkdir()
    (tmp_path / "metadata" / "mine.toml").write_text(VALID)
    header = (get_content_folder("results") / "published" / "risks.csv").read_text().splitlines()[0]

    def write(errors: dict[str, float]) -> None:
        lines = [
            f"{MINE},linear_probe_error,imagenet-1k,{setting.split},{setting.n_labels},0,{errors[setting.name]},percent,,,"
            "ssl-risk-decomposition,me,2026-01"
            for setting in SETTINGS
            if setting.name in errors
        ]
        (tmp_path / "results" / "mine.csv").write_text("\n".join([header, *lines, ""]))

    return write


def test_the_rank_is_by_the_predicted_error_of_every_self_supervised_encoder() -> None:
    ranked = document(*MEASURED, "20000", *ALL)["encoders"]
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
    assert not {load_catalogue()[encoder].objective.mode for encoder in expected} & {"supervised", "initialized"}
    wide = [record["noise"]["prediction"] for record in ranked if record["basis"][-1]["setting"] == "100%"]
    usual = [record["noise"]["prediction"] for record in ranked if record["basis"][-1]["setting"] == "30-shot"]
    assert wide and min(wide) > max(usual)  # a wider gap is less certain


def test_counts_may_be_written_as_people_write_them() -> None:
    read = partial(parse_count, Context(recommend_command), Option(["--labels"]))
    for written in ("20000", "20_000", "2e4", "0.02M", " 20 K ", "20,000"):
        assert read(written) == 20_000
    assert read("85.798656M") == 85_798_656
    for written in ("abc", "-5", "0", "1.5", "1e400", "nan", "", "1,5k", "20,00", "\u0662k", "9" * 500):
        with pytest.raises(BadParameter, match="expected a whole number above 0"):
            read(written)


def test_an_encoder_without_a_curve_takes_no_rank(measure_mine: Callable[..., None]) -> None:
    for errors, labels, reason in (
        ({"1%": 0.5, "3-shot": 0.6}, "8k", "measured in fewer than 3 settings"),
        ({"1%": 12, "5-shot": 13, "3-shot": 14}, "20k", "not measured with as many labels"),
    ):
        measure_mine(errors)
        found = document(*MEASURED, labels, *ALL)
        assert MINE not in [record["encoder"] for record in found["encoders"]]
        assert {"reason": reason, "n": 1, "names": [MINE]} in found["left_out"]


def test_filters_keep_only_what_was_asked_for() -> None:
    options = ("--max-parameters", "30M", "--max-dim", "768", "--licence", "permissive")
    found = document(*MEASURED, "5000", *options, *ALL)
    assert found["encoders"]
    for record in found["encoders"]:
        assert record["n_parameters"] <= 30_000_000 and record["z_dim"] <= 768
        assert {record["licence"], record["licence_code"]} <= set(PERMISSIVE)
    removed = sum(left["n"] for left in found["left_out"])
    assert removed + len(found["encoders"]) == len(document(*MEASURED, "5000", *ALL)["encoders"]) + 1


def test_a_filter_asks_for_what_licences_and_facts_allow() -> None:
    for option, wanted, name, allowed in (
        ("--licence", "apache-2.0, CC-BY-NC-4.0", "licence", {"Apache-2.0", "CC-BY-NC-4.0"}),
        ("--licence", "commercial", "commercial_use", {"yes"}),
        ("--licence", "conditions", "commercial_use", {"yes", "conditions"}),
        ("--where", 'commercial_use == "no" and z_dim < 1000', "commercial_use", {"no"}),
        ("--access", "open", "availability", {"open"}),
    ):
        found = document(*MEASURED, "5000", option, wanted, *ALL)["encoders"]
        assert found and {record[name] for record in found} <= allowed


def test_without_labels_there_are_as_many_as_imagenet_has() -> None:
    every = document("recommend")
    assert (every["n_labels"], every["encoders"]) == (
        1_281_167,
        document("recommend", "--labels", "1281167")["encoders"],
    )
    assert "on ImageNet-1K, all labels, percent" in run("recommend").stdout
    assert document("recommend", "--like", "eurosat")["n_labels"] == 12_811
    assert "1,281 labels per class" in run("recommend", "--domain", "satellite").stdout
    assert document("recommend", "--measured")["n_labels"] == 1_281_167


def test_what_cannot_be_answered_is_one_sentence() -> None:
    for options, said, code in (
        ("--labels 999", "expected at least 1,000", 2),
        ("--labels 1281168", "expected at most 1,281,167", 2),
        ("--labels 9 --classes 10", "expected at least", 2),
        ("--labels 5000 --licence apache", "There is no licence named 'apache'", 2),
        ("--labels 5000 --licence MIT --max-parameters 1M", "'--max-parameters 1M' removes all ", 1),
        ("--labels 5000 --max-memory 900MB", "of memory with batches of 64, ", 1),
        ("--by reported-linear --max-dim 3", "removes all", 1),
        ("--by reported-linear --include-wrong", "has no effect", 2),
    ):
        result = run("recommend", *options.split(), code=code)
        assert said in " ".join(result.stderr.split()) and result.stdout == ""


def test_wrong_measurements_are_left_out_and_doubtful_ones_marked() -> None:
    assert WRONG not in names(*MEASURED, "5000", *ALL)
    assert WRONG in names(*MEASURED, "5000", "--include-wrong", *ALL)
    assert "1 (measured wrongly, see --include-wrong)" in run(*MEASURED, "5000").stderr
    doubtful = "openclip_vitH14_extractPred"
    result = run(*MEASURED, "20000")
    assert f"{doubtful} ! " in result.stdout and "!  doubtful" in result.stderr
    assert f"!  {doubtful} (suspicious): " in run(*MEASURED, "20000", "-v").stderr


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        ("20000", ["between 1% (12,811 labels) and 30-shot (30,000 labels)", "0.2 points", "was not measured with"]),
        ("1000", ["nothing was measured with so few labels", "2.4 points", "3.8 points"]),
    ],
)
def test_ranks_have_intervals_probabilities_and_ties_and_their_origin_is_said(labels: str, said: list[str]) -> None:
    found = document(*MEASURED, labels, *ALL)
    records = found["encoders"]
    assert sum(record["probability_best"] for record in records) == pytest.approx(1)
    for record in records:
        low, high = record["interval"]
        assert low < record["error"] < high
        assert record["rank_interval"][0] <= record["rank_interval"][1] <= len(records)
    ties = [record for record in records if record["ties_with_first"]]
    assert len(ties) == found["n_ties_with_first"] > 1 and ties[0] is records[0]
    brief = run(*MEASURED, labels, *ALL)
    assert f"Ties: {len(ties)} encoders" in brief.stderr
    low, high = records[0]["rank_interval"]
    lines = brief.stdout.splitlines()
    assert next(line.split()[0] for line in lines if f" {records[0]['encoder']}" in line) == f"{low}-{high}"
    assert len(brief.stderr.splitlines()) <= 6 and "--verbose" in brief.stderr  # five notes and the next command
    everything = run(*MEASURED, labels, *ALL, "-v").stderr
    assert [part for part in said if part not in everything] == []


# --- the user's own classes, and memory ------------------------------------------------------------------------------


def test_labels_are_translated_by_labels_a_class() -> None:
    for n_labels, n_classes, of_imagenet in (
        (5_000, 2, 1_281_167),
        (2_000, 20, 100_000),
        (30, 10, 3_000),
        (20_000, 5_000, 4_000),
    ):
        found = translate_to_imagenet(n_labels, n_classes)
        assert (found.n_labels, found.is_capped) == (of_imagenet, n_classes == 2)
        assert found.labels_per_class == n_labels / n_classes
    with pytest.raises(QueryError, match="expected at least"):
        translate_to_imagenet(19, 20)


def test_the_order_is_that_of_as_many_labels_a_class_and_that_is_said() -> None:
    assert names(*MEASURED, "2000", "--classes", "20") == names(*MEASURED, "100k")
    asked = document("recommend", "--measured", *XRAYS)["asked"]
    assert (asked["n_labels"], asked["n_classes"], asked["labels_per_class"]) == (5_000, 2, 2_500.0)
    assert (asked["imagenet_labels"], asked["is_capped"], asked["ranked_by"]) == (1_281_167, True, "expected error")
    assert all(sentence in run("recommend", "--measured", *XRAYS, "-v").stderr for sentence in asked["translation"])
    found = document(*MEASURED, "5000", "--top", "1")
    assert found["asked"] is None and "memory_bytes" not in found["encoders"][0]


def test_memory_is_computed_and_limited() -> None:
    found = document("recommend", "--measured", *XRAYS, "--top", "200")
    cards = load_catalogue()
    for record in found["encoders"]:
        cost = find_cost(cards[record["encoder"]])
        assert cost is not None
        assert record["memory_bytes"] == estimate_memory(cost, 64) <= 8 * 10**9
        assert (record["memory_is"], record["memory_device"], record["batch_size"]) == ("computed", "cuda", 64)
    (left_out,) = (part for part in found["left_out"] if part["reason"] == "--max-memory 8GB")
    costs = [find_cost(cards[name]) for name in left_out["names"]]
    assert all(cost is not None and estimate_memory(cost, 64) > 8 * 10**9 for cost in costs)
    asked = (*MEASURED, "5000", "--max-memory", "2GB", *ALL)
    assert set(names(*asked)) < set(names(*asked, "--batch-size", "1"))
    assert set(names(*asked)) < set(names(*asked, "--device", "cpu"))


def test_images_a_second_are_shown_on_a_named_device_and_the_next_command_runs_here() -> None:
    asked = (
        "recommend",
        "--measured",
        "--labels",
        "20k",
        "--device",
        "RTX 4090",
        "--min-images-per-second",
        "1000",
        *ALL,
    )
    found = document(*asked)
    kinds = {one["images_per_second_is"] for one in found["encoders"]}
    assert kinds == {"measured", "expected"} and min(one["images_per_second"] for one in found["encoders"]) >= 1000
    for one in found["encoders"]:
        interval = one["images_per_second_interval"]
        assert (interval is None) == (one["images_per_second_is"] == "measured")
        assert interval is None or interval[0] < one["images_per_second"] < interval[1]
    assert "--device" not in found["next"] and "--min-images" not in found["next"]
    table = run(*asked).stdout
    assert "img/s" in table and " ~" in table
    assert format_constraint_options(Constraints(device="RTX 4090")) == ["--device", "'RTX 4090'"]
    plain = document(*MEASURED, "20k", "--device", "cuda", "--top", "1")["encoders"][0]
    assert "memory_bytes" in plain and "images_per_second" not in plain


def test_the_last_line_measures_three_networks_on_the_users_images() -> None:
    command = document("recommend", "--measured", *XRAYS)["next"]
    assert run("recommend", "--measured", *XRAYS).stderr.splitlines()[-1] == f"next, on your images: {command}"
    words = shlex.split(command)
    assert words[:4] == ["zoo", "choose", "IMAGES", "--encoders"]
    first = words[4].split(",")
    assert len({load_catalogue()[name].weights.url for name in first}) == 3
    assert first[0] == names("recommend", "--measured", *XRAYS)[0]
    assert words[5:] == ["--licence", "commercial", "--max-memory", "8GB"]
    asked = Constraints(where="access == 'open'", device="cpu", batch_size=8, min_images_per_second=2.5)
    assert shlex.split(" ".join(format_constraint_options(asked))) == [
        "--min-images-per-second", "2.5", "--where", "access == 'open'", "--device", "cpu", "--batch-size", "8"
    ]  # fmt: skip


# --- reported numbers ------------------------------------------------------------------------------------------------


@pytest.fixture
def reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A home that reports of an encoder of its own."""
    monkeypatch.setenv("ZOO_HOME", str(tmp_path))
    (tmp_path / "metadata").mkdir()
    (tmp_path / "results").mkdir()
    (tmp_path / "metadata" / "mine.toml").write_text(VALID)
    row = {"encoder": MINE, "value": "99.10", "standing": "authors"}
    (tmp_path / "results" / FILE).write_text(reported_text(row))


def test_reported_numbers_rank_only_if_they_are_asked_for(reports: None) -> None:
    measured = document(*MEASURED, "1281167", *ALL)
    assert MINE not in [record["encoder"] for record in measured["encoders"]]
    known, cards = summaries(), load_catalogue()
    others = [card for encoder, card in cards.items() if encoder not in known and card.weights.availability != "gone"]
    n = sum(card.objective.mode not in ("supervised", "initialized") for card in others)
    assert measured["not_measured"]["n"] == n
    assert f"{n} not measured" in run(*MEASURED, "1281167").stderr
    told = document("recommend", "--by", "reported-linear", *ALL)
    assert (told["encoders"][0]["encoder"], told["encoders"][0]["error_measured"]) == (MINE, None)
    values = [record["reported"]["value"] for record in told["encoders"]]
    assert values == sorted(values, reverse=True)


def test_a_ranking_by_reported_numbers_says_what_they_are_worth(reports: None) -> None:
    result = run("recommend", "--by", "reported-linear", "--labels", "5000", "--top", "3")
    assert "not measured by the study" in result.stdout.splitlines()[0] and "99.10*" in result.stdout
    assert "nine in ten reported accuracies differ" in result.stderr
    assert "is not known" in run("recommend", "--by", "reported-attentive").stderr
    small = document("recommend", "--by", "reported-linear", "--max-parameters", "30M", *ALL)["encoders"]
    assert small and all(record["n_parameters"] <= 30e6 for record in small)


def test_all_encoders_that_may_be_used_are_ranked_by_the_error_to_expect() -> None:
    found = document("recommend", *XRAYS, *ALL)
    errors = [one["error"] for one in found["encoders"]]
    assert errors == sorted(errors) and len(errors) == found["n_candidates"] > 300
    assert [one["rank"] for one in found["encoders"]] == [*range(1, len(errors) + 1)]
    bases = {one["rests_on"] for one in found["encoders"]}
    assert bases == {"the study", "reported probe", "other numbers", "similar encoders"}
    assert all(one["interval"][0] < one["error"] < one["interval"][1] for one in found["encoders"])
    assert all(one["commercial_use"] == "yes" and one["memory_bytes"] <= 8e9 for one in found["encoders"])
    assert any(one["reason"].startswith("trained on ImageNet labels") for one in found["left_out"])
    ties = [one["ties_with_first"] for one in found["encoders"]]
    assert ties[0] and sum(ties) == found["n_ties_with_first"] < len(ties)
    cards = load_catalogue()
    assert not any(cards[one["encoder"]].saw_labels for one in found["encoders"])
    released = max(str(cards[one["encoder"]].released) for one in found["encoders"][:5])
    assert released >= "2024"  # the answer is of today


def test_what_was_measured_here_keeps_its_error_among_all() -> None:
    measured = {one["encoder"]: one for one in document(*MEASURED, "20k", *ALL)["encoders"]}
    everyone = document("recommend", "--labels", "20k", "--top", "1500")["encoders"]
    here = {one["encoder"]: one["error"] for one in everyone if one["rests_on"] == "the study"}
    assert len(here) > 150
    assert all(here[name] == pytest.approx(measured[name]["error"]) for name in here if name in measured)


def test_the_kind_of_images_changes_the_order_and_who_is_ranked() -> None:
    asked = ("recommend", "--classes", "4", "--labels", "2000", "--top", "1500")
    order = {kind: names(*asked, "--domain", kind) for kind in ("pathology", "natural")}
    special = {name for name, card in load_catalogue().items() if str(card.pretraining.domain).startswith("pathology")}
    assert not special & set(order["natural"]) and special & set(order["pathology"][:10])
    beside = document(*asked, "--domain", "natural")["beside"]
    assert special & {one["encoder"] for one in beside if one["why"] == "for pathology H&E images"}
    like = document("recommend", "--labels", "160", "--like", "vtab/eurosat")
    assert like["images"]["dataset"] == "eurosat" and like["n_classes"] == 10
    assert any(one["why"] == "gated" for one in like["beside"])


@for_each(
    [
        ("--labels 500 --like eurosatt", "did you mean eurosat"),
        ("--labels 500 --classes 2 --domain x-rays", "There are natural"),
        ("--labels 500 --domain satellite", "Missing option '--classes'"),
        ("--labels 500 --like camelyon17", "--domain pathology"),
        ("--labels 500 --classes 2 --domain captions", "There are natural"),
        ("--labels 5k --like eurosat --measured", "on ImageNet-1K"),
        ("--labels 5k --include-wrong", "--measured can"),
        ("--labels 3 --classes 4", "3 labels of 4 classes"),
    ],
    name=lambda case: case[0],
    arguments=2,
)
def test_images_that_nobody_measured_are_refused_in_one_sentence(options: str, said: str) -> None:
    assert said in " ".join(run("recommend", *options.split(), code=2).stderr.split())


def test_limits_that_nobody_passes_name_the_nearest() -> None:
    result = run("recommend", "--labels", "20k", "--max-parameters", "100k", code=1)
    assert "the nearest: " in result.stderr


def test_errors_below_all_measured_ones_are_marked_where_they_stand() -> None:
    lowest = min(one.errors["100%"] for one in summaries(exclude_wrong=True).values())
    result = run("recommend", "--labels", "1281167")
    lines = [*result.stdout.splitlines(), *result.stderr.splitlines()]
    first = next(line.split() for line in lines if line.strip().startswith("1"))
    assert first[3] == BEYOND and float(first[2]) < lowest
    assert any(line.startswith(BEYOND) and format_points(lowest) in line for line in lines)


def test_probes_on_patches_rank_by_what_others_reported_of_them_and_say_how_little() -> None:
    told, same = document("recommend", "--probe", "attentive", *ALL), document("recommend", "--by", BY_PATCHES, *ALL)
    assert told["encoders"] == same["encoders"] and "evidence" not in same
    whose, _, recipes, *_, here = told["evidence"]
    assert whose.startswith(f"{told['n_candidates']} encoders with such a number")
    pairs = pair_sources(BY_PATCHES)
    assert f"of {len(pairs)} encoders that two of them measured" in recipes
    assert all(one.reported >= one.other for one in pairs) and "zoo-attentive" in here


def test_masks_rank_by_one_data_set_and_one_recipe() -> None:
    told = document("recommend", "--task", "segment", *ALL)
    assert (told["dataset"], told["metric"]) == ("voc-2012-segmentation", "mean_iou")
    values = [one["reported"]["value"] for one in told["encoders"]]
    assert values == sorted(values, reverse=True) and told["n_candidates"] == len(values) >= 12
    assert "author of VisBench" in told["evidence"][0] and "one recipe" in told["evidence"][2]
    both = run("recommend", "--task", "segment", "--probe", "attentive", code=2)
    assert "expected one of them" in both.stderr
