"""What cards, results, evaluations and rankings show of themselves in a notebook: tables, frames, plots."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from html import unescape

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure

import zoo
from tests.planted_features import features
from zoo.cards.answers import AnswerColumn, AnswerTable, make_interval_columns, render_html_answer
from zoo.errors import QueryError
from zoo.evaluation import Request, evaluate
from zoo.evaluation.bootstrap import Interval
from zoo.evaluation.evaluating import Evaluation
from zoo.results import Measurements, measurements

EVIL = "<script>alert('x')</script>"


@pytest.fixture(autouse=True)
def no_window() -> Iterator[None]:
    with matplotlib.rc_context({"backend": "agg"}):
        yield
    import matplotlib.pyplot as plt

    plt.close("all")


@pytest.fixture(scope="module")
def evaluation() -> Evaluation:
    random = np.random.default_rng(0)
    y = np.arange(120) % 3
    x = (np.eye(4)[y] + random.normal(size=(120, 4))).astype(np.float32)
    request = Request(settings=("full", "5-shot"), n_seeds=2, n_subsets=2, decompose=True, n_bootstrap=100)
    names = {"encoder": EVIL, "dataset": "$x$"}
    return evaluate(features(x, y, **names), features(-x[::2], y[::2], split="val", **names), request)


def test_a_table_has_one_column_for_an_interval_and_escapes_everything() -> None:
    columns = [
        AnswerColumn(EVIL, [EVIL, "b"]),
        AnswerColumn("training images", [1234, None], key="n_train"),
        *make_interval_columns([Interval(value=24.61, ci_low=3.0, ci_high=30.0), None]),
    ]
    table = AnswerTable(title=EVIL, about=EVIL, columns=columns, answer=[EVIL], notes=[EVIL])
    text = render_html_answer(table)
    assert "<script" not in text and text.count("&lt;script&gt;") == 6
    assert text.count("<th") == 1 + 4 + 2  # the head, four headings, two rows
    assert '<td class="n">3.0 to 30.0</td>' in text and '<td class="n">1,234</td>' in text
    assert table.records[1] == dict.fromkeys(["n_train", "error_percent", "ci_low_percent", "ci_high_percent"])


def test_a_card_draws_the_errors_that_were_measured_of_it() -> None:
    axes = zoo.card("dino_vitS16").plot()
    assert len(axes.get_yticks()) == len(measurements(encoders=["dino_vitS16"], metrics="linear_probe_error")) == 8
    own = Figure().subplots()
    assert zoo.card("pocket_simclr_rn_shapes").plot(own) is own and own.lines
    with pytest.raises(QueryError, match="nothing to plot"):
        zoo.card("dinov2_vitB14").plot()


def test_a_card_is_a_table_of_ten_facts_with_the_line_that_loads_it() -> None:
    card = replace(zoo.card("dino_vitS16"), id=EVIL)
    text = card._repr_html_()
    assert "<script" not in text and text.count("<tr>") == 10
    for fact in ("21,665,664", "224 x 224", "ImageNet-1K", "Apache-2.0; commercial use: yes", "open", "zoo.load("):
        assert fact in text
    row = card.df.loc[EVIL]
    assert (row["preprocess.crop_px"], row["representation.dim"]) == (224, 1536)
    assert row["weights.sha256"] is None


def test_cards_without_facts_show_why() -> None:
    for name in zoo.list_encoders()[::40]:
        assert zoo.card(name)._repr_html_().count("<tr>") == 10


def test_measurements_are_a_list_that_says_once_what_all_share() -> None:
    found = measurements(encoders="dino_vitS16", metrics="linear_probe_error")
    assert isinstance(found, list) and list(found.df["value"]) == [row.value for row in found]
    text = found._repr_html_()
    assert "unit: percent" in text and '<th scope="col">unit' not in text and "24.6" in text
    evil = Measurements([replace(found[0], encoder=EVIL), *found])
    assert "<script" not in evil._repr_html_() and "2 encoders" in evil._repr_html_()
    assert "0 measurements of 0 encoders" in Measurements()._repr_html_()
    axes = found.plot()
    assert axes.get_xlabel() == "linear probe error, percent (lower is better)"
    assert [one.get_text() for one in axes.get_yticklabels()][:2] == ["train -> val", "train 30-shot -> val"]


def test_a_plot_of_metrics_of_both_directions_names_neither() -> None:
    row = measurements(encoders="dino_vitS16", metrics="linear_probe_error")[0]
    axes = Measurements([row, replace(row, metric="rotation_accuracy")]).plot()
    assert axes.get_xlabel() == "linear probe error or rotation accuracy, percent"


def test_a_card_says_in_words_how_it_was_trained_and_what_loads_it() -> None:
    def about(name: str) -> str:
        return unescape(zoo.card(name)._repr_html_())

    assert "trained with a language supervised objective (beit)" in about("beit3_vitB16")
    assert "trained with an autoregressive objective (aim)" in about("aim_1B14_dfn2b")
    objectives = {one.objective.mode: one.id for one in map(zoo.card, zoo.list_encoders())}
    for name in objectives.values():
        assert not re.search(r"trained with (a [aeiou]|an? [a-z]+_)", about(name))
    gone = next(one.id for one in map(zoo.card, zoo.list_encoders()) if one.weights.availability == "gone")
    assert f'zoo.load("{gone}", weights="PATH")' in about(gone)


def test_seeds_of_one_measurement_are_points_of_one_line() -> None:
    row = measurements(encoders="dino_vitS16", metrics="linear_probe_error")[0]
    seeds = [replace(row, seed=seed, value=20.0 + seed, ci_low=19.0, ci_high=24.0) for seed in range(3)]
    axes = Measurements(seeds).plot()
    assert len(axes.get_yticks()) == 1
    assert sorted(float(line.get_xdata()[0]) for line in axes.lines if line.get_marker() == "o") == [20, 21, 22]


def test_what_cannot_be_one_plot_is_refused() -> None:
    two_units = measurements(encoders="dino_vitS16", metrics=["linear_probe_error", "uniformity"])
    with pytest.raises(QueryError, match="expected one unit"):
        two_units.plot()
    with pytest.raises(QueryError, match="nothing to plot"):
        Measurements().plot()


def test_an_evaluation_shows_its_errors_and_their_components(evaluation: Evaluation) -> None:
    text = evaluation._repr_html_()
    assert "<script" not in text and "Components of the full-shot error" in text
    frame = evaluation.df
    assert list(frame["labels"]) == ["5-shot", "full", "full"]
    assert list(frame["probe"]) == ["linear", "linear", "nearest neighbours"]
    assert set(frame["encoder"]) == {EVIL} and {"error_percent", "ci_low_percent", "n_train"} <= {*frame}
    assert evaluation.risk is not None
    parts = evaluation.risk.df.set_index("part")["error_points"]
    assert parts["full-shot error"] == pytest.approx(frame["error_percent"][1])
    axes = Figure().subplots()
    assert evaluation.plot(ax=axes) is axes
    assert [one.get_text() for one in axes.get_yticklabels()] == [
        "linear, 5-shot", "linear, full", "nearest neighbours, full",
    ]  # fmt: skip
    axes.figure.canvas.draw()


def test_a_recommendation_is_the_ranking_of_the_command_with_a_frame_and_a_plot() -> None:
    found = zoo.recommend(500, like="eurosat")
    assert found.n_classes == 10
    frame = found.df
    assert (
        list(frame["rank"]) == list(range(1, len(found.ranked) + 1)) and frame["error_percent"].is_monotonic_increasing
    )
    assert frame["encoder"][0] in found._repr_html_() and "50 labels per class" in found._repr_html_()
    assert len(found.plot(most=5).get_yticks()) == 5
    evil = replace(found, ranked=[replace(found.ranked[0], card=replace(found.ranked[0].card, id=EVIL))])
    assert "<script" not in evil._repr_html_()
    with pytest.raises(QueryError, match="n_classes"):
        zoo.recommend(500, domain="satellite")


def test_nothing_heavy_is_imported_before_it_is_asked_for(run_apart: object) -> None:
    script = (
        "import sys, zoo; zoo.card('dino_vitS16')._repr_html_(); zoo.results.measurements(encoders='dino_vitS16')"
        "._repr_html_(); print([name for name in ('pandas', 'matplotlib', 'torch', 'numpy') if name in sys.modules])"
    )
    done = run_apart(script, path=[zoo.__path__[0] + "/.."])  # type: ignore[operator]
    assert done.stdout == "[]\n", done.stderr
