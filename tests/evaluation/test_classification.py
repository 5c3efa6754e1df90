"""Metrics of predictions: scikit-learn and closed forms as oracles, and intervals on planted populations."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import beta, norm
from sklearn import metrics as oracle

from tests.each import for_each
from zoo.errors import DataError
from zoo.evaluation import classification_metrics, tag_metrics
from zoo.evaluation.classification import HIGHER_IS_BETTER, UNITS, ClassificationMetrics, make_confusion_figure
from zoo.evaluation.drawing import use_style
from zoo.evaluation.ranking_metrics import ScoreRanking


def population(n: int, k: int, *, signal: float = 1.5, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Labels and probabilities of a probe that knows something; scores are rounded, so that some are equal."""
    random = np.random.default_rng(seed)
    y = random.integers(0, k, n)
    logits = random.standard_normal((n, k))
    logits[np.arange(n), y] += signal
    p = np.exp(np.round(logits, 1))
    return y, p / p.sum(axis=1, keepdims=True)


def gaussian(n: int, share: float, distance: float, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Two classes with normal scores of unit variance and their true probabilities, which are calibrated."""
    y = (random.random(n) < share).astype(np.int64)
    z = random.standard_normal(n) + distance * y
    p = 1 / (1 + np.exp(-(distance * z - distance**2 / 2 + math.log(share / (1 - share)))))
    return y, np.stack([1 - p, p], axis=1)


@for_each([2, 5])
def test_every_value_is_that_of_scikit_learn(k: int) -> None:
    y, p = population(300, k)
    found = classification_metrics(y, p, n_draws=0)
    values = {name: one.value for name, one in found.metrics.items()}
    predicted = p.argmax(axis=1)
    shares = p[:, 1] if k == 2 else p
    binary = y == 1 if k == 2 else np.eye(k)[y]
    expected = {
        "error": 100 * (1 - oracle.accuracy_score(y, predicted)),
        "balanced_error": 100 * (1 - oracle.balanced_accuracy_score(y, predicted)),
        "auroc": 100 * oracle.roc_auc_score(y, shares, **({} if k == 2 else {"multi_class": "ovr"})),
        "average_precision": 100 * oracle.average_precision_score(binary, shares),
        "log_loss": oracle.log_loss(y, p),
    }
    assert {name: values[name] for name in expected} == pytest.approx(expected, rel=1e-12)
    assert found.confusion.tolist() == oracle.confusion_matrix(y, predicted).tolist()
    for c, one in enumerate(found.per_class):
        assert one.auroc and one.average_precision and one.error
        assert one.auroc.value == pytest.approx(100 * oracle.roc_auc_score(y == c, p[:, c]))
        assert one.average_precision.value == pytest.approx(100 * oracle.average_precision_score(y == c, p[:, c]))
        assert one.error.value == pytest.approx(100 * (predicted[y == c] != c).mean())
        assert (one.n_images, one.n_predicted) == ((y == c).sum(), (predicted == c).sum())
        assert one.error.ci_low is None


def test_weighted_rankings_are_those_of_scikit_learn_with_these_weights() -> None:
    random = np.random.default_rng(3)
    scores, positive = np.round(random.random(60), 1), random.random(60) < 0.3
    weights = random.standard_exponential((60, 5))
    found = ScoreRanking(scores, positive).of(weights)
    for draw, weight in enumerate(weights.T):
        assert found.auroc[draw] == pytest.approx(oracle.roc_auc_score(positive, scores, sample_weight=weight))
        expected = oracle.average_precision_score(positive, scores, sample_weight=weight)
        assert found.average_precision[draw] == pytest.approx(expected)
    assert found.positives == pytest.approx(weights[positive].sum(axis=0))
    assert found.negatives == pytest.approx(weights[~positive].sum(axis=0))


def test_calibration_errors_are_their_definition() -> None:
    y, p = population(500, 3)
    found = classification_metrics(y, p, n_draws=0, n_bins=7)
    confidence, right = p.max(axis=1), p.argmax(axis=1) == y
    widths = np.ceil(confidence * 7).astype(int) - 1
    by_width = sum(abs(confidence[widths == b].sum() - right[widths == b].sum()) for b in range(7)) / 500
    order = np.argsort(confidence, kind="stable")
    by_size = sum(abs((confidence[part] - right[part]).sum()) for part in np.array_split(order, 7)) / 500
    assert found.metrics["calibration_error"].value == pytest.approx(100 * by_width)
    assert found.metrics["adaptive_calibration_error"].value == pytest.approx(100 * by_size)
    assert sum(one.n for one in found.calibration.bins) == 500
    for number, one in enumerate(found.calibration.bins):
        inside = widths == number
        assert one.n == inside.sum()
        if one.n:
            assert one.confidence == pytest.approx(confidence[inside].mean())
            assert one.accuracy == pytest.approx(right[inside].mean())
            assert one.low < one.confidence <= one.high


def test_a_calibrated_probe_is_within_chance_and_an_overconfident_one_is_not() -> None:
    y, p = gaussian(2000, 0.5, 1.0, np.random.default_rng(1))
    calibrated = classification_metrics(y, p)
    assert calibrated.calibration.p_value is not None and calibrated.calibration.p_value > 0.01
    assert calibrated.metrics["calibration_error"].ci_low == 0
    sharp = p**6 / (p**6).sum(axis=1, keepdims=True)
    overconfident = classification_metrics(y, sharp)
    assert overconfident.calibration.p_value == pytest.approx(1 / 1001)
    low, by_chance = overconfident.metrics["calibration_error"].ci_low, overconfident.calibration.by_chance
    assert low is not None and by_chance is not None and low > by_chance > 0


def test_the_error_of_a_class_has_jeffreys_interval() -> None:
    y = np.repeat([0, 1], [20, 30])
    p = np.tile([0.8, 0.2], (50, 1))
    p[20:27] = [0.9, 0.1]
    p[27:] = [0.3, 0.7]
    first, second = classification_metrics(y, p).per_class
    assert first.error and second.error
    assert (first.error.value, first.error.ci_low) == (0, 0)
    assert first.error.ci_high == pytest.approx(100 * beta.ppf(0.975, 0.5, 20.5))
    ends = [100 * beta.ppf(end, 7.5, 23.5) for end in (0.025, 0.975)]
    assert [second.error.ci_low, second.error.ci_high] == pytest.approx(ends)


def test_the_error_of_all_has_jeffreys_interval_too_and_none_shrinks_to_a_point() -> None:
    y = np.arange(100) % 2
    p = np.where(y[:, None] == np.arange(2), 0.99, 0.01)
    found = classification_metrics(y, p, n_draws=4000).metrics
    assert found["error"].ci_high == pytest.approx(100 * beta.ppf(0.975, 0.5, 100.5), rel=0.15)
    for name in ("auroc", "average_precision"):
        low = found[name].ci_low
        assert found[name].value == found[name].ci_high == 100 and low is not None and 85 < low < 99


def test_intervals_hold_the_truth_of_planted_populations() -> None:
    random, share, distance, n_times = np.random.default_rng(7), 0.3, 1.5, 120
    cut = distance / 2 - math.log(share / (1 - share)) / distance  # of the score, where the two are equally likely
    missed, false = norm.cdf(cut - distance), 1 - norm.cdf(cut)
    truth = {
        "error": 100 * (share * missed + (1 - share) * false),
        "balanced_error": 50 * (missed + false),
        "auroc": 100 * norm.cdf(distance / math.sqrt(2)),
        "calibration_error": 0.0,
    }
    held = dict.fromkeys(truth, 0)
    for time in range(n_times):
        y, p = gaussian(150, share, distance, random)
        metrics = classification_metrics(y, p, n_draws=300, seed=time).metrics
        for name, value in truth.items():
            low, high = metrics[name].ci_low, metrics[name].ci_high
            held[name] += low is not None and high is not None and low <= value <= high
    # fewer than 103 of 120 at a coverage of 93 % happen once in about 600 times
    assert all(number >= 103 for number in held.values()), held


def test_images_of_a_group_count_as_one() -> None:
    y, p = population(60, 3, seed=5)
    alone = classification_metrics(y, p)
    thrice = [np.repeat(one, 3, axis=0) for one in (y, p, np.arange(60))]
    grouped = classification_metrics(thrice[0], thrice[1], groups=thrice[2])
    naive = classification_metrics(thrice[0], thrice[1])
    assert (grouped.n_images, grouped.n_groups, naive.n_groups) == (180, 60, None)
    for name in ("error", "balanced_error", "auroc", "average_precision", "log_loss"):
        widths = [one.metrics[name].ci_high - one.metrics[name].ci_low for one in (alone, grouped, naive)]  # type: ignore
        assert grouped.metrics[name].value == pytest.approx(alone.metrics[name].value)
        assert widths[1] == pytest.approx(widths[0], rel=0.03 if name == "error" else 1e-9)  # the same draws
        assert widths[2] < 0.75 * widths[1]
    assert grouped.calibration.p_value is None
    error = grouped.per_class[0].error
    assert error and error.ci_low is not None and error.ci_low < error.value


def test_the_record_is_json_with_units_and_directions() -> None:
    y, p = population(50, 3)
    found = classification_metrics(y, p, classes=["ant", "bee", "cat"], n_draws=50)
    document = json.loads(json.dumps(found.as_dict(), allow_nan=False))
    assert document["metrics"]["auroc"]["unit"] == "percent" and document["metrics"]["auroc"]["higher_is_better"]
    assert not document["metrics"]["log_loss"]["higher_is_better"]
    assert document["confusion"]["counts"] == found.confusion.tolist()
    assert found.metrics.keys() <= UNITS.keys() and UNITS.keys() >= HIGHER_IS_BETTER
    assert [one["name"] for one in document["per_class"]] == ["ant", "bee", "cat"]
    assert document["calibration"]["bins"][-1]["high"] == 1.0


@for_each(
    [
        ([0, 1], [[0.5, 0.4], [0.5, 0.5]], {}, "0.9 in the sum for row 0"),
        ([0, 1], [[1.5, -0.5], [0.5, 0.5]], {}, "The probability of row 0, column 0 is 1.5; expected numbers from 0"),
        ([0, 1], [[0.5, math.nan], [0.5, 0.5]], {}, "The probability is nan at position"),
        ([0, 2], [[0.5, 0.5], [0.5, 0.5]], {}, "from 0 to 2; expected 0 to 1"),
        ([0.0, 1.0], [[0.5, 0.5], [0.5, 0.5]], {}, "expected whole numbers of shape"),
        ([0], [[0.5, 0.5], [0.5, 0.5]], {}, "expected whole numbers of shape"),
        ([0, 0], [[1.0], [1.0]], {}, "expected those of two classes or more"),
        ([], np.zeros((0, 2)), {}, "expected one row per image, and an image"),
        ([0, 1], [[0.5, 0.5], [0.5, 0.5]], {"groups": [1]}, "expected one for each of the 2 images"),
        ([0, 1], [[0.5, 0.5], [0.5, 0.5]], {"classes": ["a"]}, "1 names of classes and probabilities of 2"),
    ],
    arguments=4,
)
def test_what_is_no_prediction_is_refused_in_a_sentence(
    labels: Any, probabilities: Any, more: dict[str, Any], says: str
) -> None:
    with pytest.raises(DataError, match=says):
        classification_metrics(labels, probabilities, **more)


def tagged(n: int = 200, k: int = 3, *, seed: int = 2) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    y = random.random((n, k)) < np.linspace(0.1, 0.5, k)
    return y, 1 / (1 + np.exp(-(random.standard_normal((n, k)) + 2.0 * y - 1.0)))


def test_metrics_of_tags_are_those_of_scikit_learn() -> None:
    y, p = tagged()
    found = tag_metrics(y, p, tags=["a", "b", "c"], n_draws=200)
    values = {name: one.value for name, one in found.metrics.items()}
    assert values == pytest.approx(
        {
            "tag_average_precision": 100 * oracle.average_precision_score(y, p, average="macro"),
            "auroc": 100 * oracle.roc_auc_score(y, p, average="macro"),
            "tag_error": 100 * oracle.hamming_loss(y, p > 0.5),
            "any_tag_error": 100 * (1 - oracle.accuracy_score(y, p > 0.5)),
        }
    )
    for c, one in enumerate(found.per_tag):
        assert one.average_precision and one.error and one.error.ci_low is not None
        assert one.average_precision.value == pytest.approx(100 * oracle.average_precision_score(y[:, c], p[:, c]))
        assert one.error.ci_low < one.error.value == pytest.approx(100 * (y[:, c] != (p[:, c] > 0.5)).mean())
    for one in found.metrics.values():
        assert one.ci_low is not None and one.ci_high is not None and one.ci_low < one.value < one.ci_high
    assert json.loads(json.dumps(found.as_dict()))["per_tag"][1]["name"] == "b"


def test_indicators_that_are_none_are_refused() -> None:
    y, p = tagged()
    for wrong in (y[:, :2], y + 1.0, y.astype(str)):
        with pytest.raises(DataError, match="expected 0 or 1 of shape"):
            tag_metrics(wrong, p)


def drawn(found: ClassificationMetrics) -> Any:
    with use_style():
        drawing = make_confusion_figure(found).draw()
        drawing.canvas.draw()
    return drawing


def test_the_figure_has_a_cell_for_each_pair_and_numbers_of_its_row() -> None:
    y, p = population(90, 4)
    found = classification_metrics(y, p, classes=["ant", "bee", "cat", "$x_{$"], n_draws=0)
    axes, bar = drawn(found).axes
    shares = 100 * found.confusion / found.confusion.sum(axis=1, keepdims=True)
    assert np.allclose(axes.images[0].get_array(), shares)
    texts = [text.get_text() for text in axes.texts]
    assert len(texts) == (found.confusion > 0).sum() and f"{shares[0, 0]:.0f}" in texts
    assert axes.get_yticklabels()[0].get_text() == f"ant ({found.confusion[0].sum()})"
    assert bar.get_ylabel() == "percent of the class"
    assert "90 images" in make_confusion_figure(found).caption
