"""``zoo recommend`` for labels of one's own classes, with memory, and the command that comes next."""

from __future__ import annotations

import shlex
from functools import partial

import pytest

from tests.cli_runner import document, names, run
from zoo.analysis.label_budget import imagenet_budget
from zoo.cards.catalogue import catalogue
from zoo.cards.costs import cost_of, memory_bytes
from zoo.choosing import budget_ranking
from zoo.choosing.constraints import Constraints
from zoo.cli.constraint_options import spelled
from zoo.errors import QueryError

XRAYS = ("--classes", "2", "--labels", "5000", "--max-memory", "8GB", "--licence", "commercial")


@pytest.fixture(autouse=True)
def few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the ranks that encoders may have; none of these tests looks at a probability."""
    monkeypatch.setattr(budget_ranking, "rank_odds", partial(budget_ranking.rank_odds, n_draws=200))


@pytest.mark.parametrize(
    ("n_labels", "n_classes", "of_imagenet", "is_capped"),
    [
        (5_000, 2, 1_281_167, True),
        (2_000, 20, 100_000, False),
        (3_000, 1_000, 3_000, False),
        (30, 10, 3_000, False),
        (100, 100, 1_000, False),
        (20_000, 5_000, 4_000, False),
        (1_281_167, 1_000, 1_281_167, False),
    ],
)
def test_labels_are_translated_by_labels_a_class(
    n_labels: int, n_classes: int, of_imagenet: int, is_capped: bool
) -> None:
    found = imagenet_budget(n_labels, n_classes)
    assert (found.n_labels, found.is_capped) == (of_imagenet, is_capped)
    assert found.labels_per_class == n_labels / n_classes
    assert f"{n_labels:,} labels of {n_classes:,} classes are" in str(found)


@pytest.mark.parametrize(("n_labels", "n_classes"), [(1, 2), (9, 10), (10, 1)])
def test_fewer_labels_than_classes_and_one_class_are_refused(n_labels: int, n_classes: int) -> None:
    with pytest.raises(QueryError, match="expected at least"):
        imagenet_budget(n_labels, n_classes)
    message = run("recommend", "--labels", str(n_labels), "--classes", str(n_classes), code=2).stderr
    assert "expected at least" in message and message.count("\n") == 1


def test_the_order_is_that_of_as_many_labels_a_class() -> None:
    assert names("recommend", "--labels", "2000", "--classes", "20") == names("recommend", "--labels", "100k")
    assert names("recommend", "--labels", "5000", "--classes", "2") == names("recommend", "--labels", "1281167")


def test_the_translation_is_said_with_what_it_is_worth() -> None:
    text = run("recommend", *XRAYS).stdout
    assert "5,000 labels of 2 classes are 2,500 a class; ImageNet has 1,281 a class on average" in text
    assert "with 2 classes of other images they are others, and the order may be too" in text
    asked = document("recommend", *XRAYS)["asked"]
    assert (asked["n_labels"], asked["n_classes"], asked["labels_per_class"]) == (5_000, 2, 2_500.0)
    assert (asked["imagenet_labels"], asked["is_capped"], asked["ranked_by"]) == (1_281_167, True, "expected error")
    assert all(sentence in text for sentence in asked["translation"])


def test_without_classes_nothing_is_translated() -> None:
    found = document("recommend", "--labels", "5000", "--top", "1")
    assert found["asked"] is None
    assert "memory_bytes" not in found["encoders"][0]
    text = run("recommend", "--labels", "5000", "--top", "1").stdout
    assert "a class" not in text and "memory" not in text
    message = run("recommend", "--by", "reported-linear", "--classes", "2", code=2).stderr
    assert "--classes 2 has no effect, for no labels were given to be translated" in message


def test_below_three_labels_a_class_probabilities_come_with_the_order_that_was_measured() -> None:
    found = document("recommend", "--labels", "16", "--classes", "10")
    assert (found["n_labels"], found["asked"]["ranked_by"]) == (1_600, "expected error")
    assert {record["kind"] for record in found["encoders"]} == {"extrapolated"}
    assert all(0 <= record["probability_best"] <= 1 for record in found["encoders"])
    text = run("recommend", "--labels", "16", "--classes", "10", "--top", "3").stdout
    first = names("recommend", "--labels", "3000")[:3]
    assert f"With 3,000 labels, the fewest measured, the first are {', '.join(first)}; " in text


def test_where_an_extrapolation_tells_nobody_apart_the_order_is_that_of_three_labels_a_class() -> None:
    pair = "encoder in ('mugs_vitl16_ep250', 'msn_vitl7_ep200')"
    asked = ("--labels", "10", "--classes", "10", "--where", pair)
    found = document("recommend", *asked)
    assert (found["n_labels"], found["asked"]["imagenet_labels"]) == (3_000, 1_000)
    assert found["asked"]["ranked_by"] == "3-shot error"
    assert [record["kind"] for record in found["encoders"]] == ["measured", "measured"]
    assert [record["encoder"] for record in found["encoders"]] == names(
        "recommend", "--labels", "3000", "--where", pair
    )
    text = run("recommend", *asked).stdout
    assert "An extrapolation to 1,000 labels tells fewer than half of the encoders from the first" in text


def test_memory_is_computed_limited_and_said_to_be_computed() -> None:
    found = document("recommend", *XRAYS, "--top", "200")
    cards = catalogue()
    for record in found["encoders"]:
        cost = cost_of(cards[record["encoder"]])
        assert cost is not None
        assert record["memory_bytes"] == memory_bytes(cost, 64) <= 8 * 10**9
        assert (record["memory_is"], record["memory_device"], record["batch_size"]) == ("computed", "cuda", 64)
        assert record["gflops"] == cost.gflops
    (left_out,) = (part for part in found["left_out"] if part["reason"] == "--max-memory 8GB")
    for name in left_out["names"]:
        cost = cost_of(cards[name])
        assert cost is not None and memory_bytes(cost, 64) > 8 * 10**9
    assert found["constraints"]["max_memory"] == 8 * 10**9
    result = run("recommend", *XRAYS)
    assert "memory is computed, not measured: on a GPU, with CUDA's context" in result.stderr


def test_smaller_batches_fit_more_encoders() -> None:
    asked = ("recommend", "--labels", "5000", "--max-memory", "2GB", "--top", "500")
    few, many = set(names(*asked, "--batch-size", "1")), set(names(*asked))
    assert many < few
    on_cpu = document(*asked, "--device", "cpu")
    assert many < {record["encoder"] for record in on_cpu["encoders"]}
    assert {record["memory_device"] for record in on_cpu["encoders"]} == {"cpu"}


def test_where_memory_leaves_nobody_the_nearest_are_named_with_a_batch_that_fits() -> None:
    result = run("recommend", "--labels", "5000", "--max-memory", "1GB", code=1)
    assert result.stderr.startswith("Error: No encoder is left: '--max-memory 1GB' removes all ")
    assert "of memory with batches of 64, " in result.stderr and " fit)" in result.stderr
    assert result.stderr.count("\n") == 1


def test_the_last_line_measures_three_networks_on_the_users_images() -> None:
    last = run("recommend", *XRAYS).stderr.splitlines()[-1]
    command = document("recommend", *XRAYS)["next"]
    assert last == f"next, on your images: {command}"
    words = shlex.split(command)
    assert words[:4] == ["zoo", "choose", "IMAGES", "--encoders"]
    first = words[4].split(",")
    places = [catalogue()[name].weights.url for name in first]
    assert len(set(places)) == 3
    ranked = names("recommend", *XRAYS)
    assert first[0] == ranked[0] and [name for name in ranked if name in first] == first
    assert words[5:] == ["--licence", "commercial", "--max-memory", "8GB"]


def test_constraints_are_spelled_as_a_shell_takes_them() -> None:
    asked = Constraints(where="access == 'open'", device="cpu", batch_size=8, min_images_per_second=2.5)
    words = shlex.split(" ".join(spelled(asked)))
    assert words == [
        "--min-images-per-second", "2.5", "--where", "access == 'open'", "--device", "cpu", "--batch-size", "8"
    ]  # fmt: skip
    assert spelled(Constraints()) == []


def test_access_and_memory_also_filter_a_ranking_by_reported_numbers() -> None:
    asked = ("recommend", "--by", "reported-linear", "--access", "open", "--max-memory", "4GB", "--top", "500")
    cards = catalogue()
    found = names(*asked)
    assert found
    for name in found:
        cost = cost_of(cards[name])
        assert cards[name].weights.availability == "open"
        assert cost is not None and memory_bytes(cost, 64) <= 4 * 10**9
    message = run("recommend", "--by", "reported-linear", "--device", "cpu", code=2).stderr
    assert "--device cpu has no effect, for --by reported-linear shows no memory" in message
