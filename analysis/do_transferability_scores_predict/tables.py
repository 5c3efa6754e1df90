"""The tables of the report."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from zoo.studies.findings import Table
from zoo.studies.tables import interval

from .measured import REFERENCE, SCORES, Measurements
from .predicting import ALL, CHANCE, MOST, ORDER, REGRET, SAME, Quality, featurising_seconds, seconds_by_score

_WHAT = {
    ORDER: "Kendall's tau of score and true accuracy",
    REGRET: "Regret of the choice, in percentage points",
}


def quality_table(quality: Quality, what: str, target: str) -> Table:
    """One row a score, one column a number of labels; means over data sets."""
    numbers = quality.labels if target == SAME else quality.labels[:-1]
    names = [*quality.scores, *([CHANCE] if what == REGRET else [])]
    rows = [
        [
            _label(name),
            *(interval(quality.one(what, name, ALL, labels, target), digits=2, signed=False) for labels in numbers),
            interval(quality.against(what, name, target=target), digits=2) if name in _others(quality) else "",
        ]
        for name in names
    ]
    of = "as many labels" if target == SAME else f"{quality.labels[-1]} labels a class"
    return Table(
        title=f"{_WHAT[what]}, for a probe with {of}",
        headers=["score", *(f"{labels} labels a class" for labels in numbers), "less that of left-out ridge, paired"],
        rows=rows,
        note=f"Means over {len(quality.data)} data sets and {quality.n_draws} draws of the labels, with 95 % intervals "
        f"over {quality.n_encoders} encoders and draws. Left-out ridge is judged by its squares.",
    )


def data_table(quality: Quality, what: str) -> Table:
    """One row a score, one column a data set and number of labels."""
    names = [*quality.scores, *([CHANCE] if what == REGRET else [])]
    places = [(data, labels) for data in quality.data for labels in quality.labels]
    return Table(
        title=f"{_WHAT[what]}, by data set",
        headers=["score", *(f"{data}, {labels}" for data, labels in places)],
        rows=[[_label(name), *(f"{quality.one(what, name, *place).value:.2f}" for place in places)] for name in names],
        note="Labels a class behind the data set; for a probe with as many labels.",
    )


def seconds_table(measured: Measurements) -> Table:
    """One row a score: seconds an encoder, and as a share of those of featurising the same images."""
    seconds = seconds_by_score(measured)
    featurising = featurising_seconds(measured)
    truth = {
        labels: float(np.mean([measured.seconds[data, labels, "truth"].mean() for data in measured.data]))
        for labels in measured.labels
    }
    every: Mapping[str, Mapping[int, float]] = {
        **{SCORES[name].label: taken for name, taken in seconds.items()},
        "the probe to be predicted": truth,
        "featurising the labelled images": featurising,
    }
    return Table(
        title="Seconds of the processor an encoder, means over encoders and data sets",
        headers=["score", *(f"{labels} labels a class" for labels in measured.labels), "times ridge"],
        rows=[
            [
                name,
                *(f"{taken[labels]:.3g}" for labels in measured.labels),
                f"{sum(taken.values()) / sum(seconds[REFERENCE].values()):.2g}",
            ]
            for name, taken in every.items()
        ],
        note="One thread, of the first draw, all alternately in one run. Error and log loss of one probe "
        "have the same seconds.",
    )


def encoders_table(measured: Measurements) -> Table:
    """One row an encoder: its true errors and what an image costs."""
    places = [(data, labels) for data in measured.data for labels in measured.labels]
    speed = np.mean([measured.seconds_an_image[data] for data in measured.data], axis=0)
    return Table(
        title="True errors in percent, means over draws of the labels",
        headers=["encoder", *(f"{data}, {labels}" for data, labels in places), "milliseconds an image"],
        rows=[
            [
                name,
                *(f"{measured.cells[place].errors[:, number].mean():.1f}" for place in places),
                f"{1000 * speed[number]:.2g}",
            ]
            for number, name in enumerate(measured.encoders)
        ],
    )


def all_tables(quality: Quality, measured: Measurements) -> list[Table]:
    """In the order of the report."""
    return [
        *(quality_table(quality, what, target) for target in (SAME, MOST) for what in (REGRET, ORDER)),
        seconds_table(measured),
        *(data_table(quality, what) for what in (REGRET, ORDER)),
        encoders_table(measured),
    ]


def _others(quality: Quality) -> tuple[str, ...]:
    return tuple(name for name in quality.scores if name != REFERENCE)


def _label(name: str) -> str:
    return SCORES[name].label if name in SCORES else name
