"""Tables of how label-free metrics predict accuracy, and the printed numbers beside ours."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from zoo.analysis.columns import Estimate
from zoo.analysis.label_free import TOLD, Population, direction_of, title_of
from zoo.analysis.label_free_agreement import (
    ACCURACY,
    ANY,
    CHANCE,
    GAIN,
    ORACLE,
    OVERALL,
    REGRET,
    STATISTICS,
    WITHIN,
    Predictions,
    Selection,
)
from zoo.analysis.table import StudyTable
from zoo.results.printed import PAPERS, PrintedNumber
from zoo.studies.findings import Rows, Table
from zoo.studies.tables import cross_table, interval, probability

_TARGETS = ("imagenet-1k", "ood-average")  # of the printed numbers that are shown
_PAPER_OF = {identifier: title for title, identifier in PAPERS.items()}


def correlations_table(found: Predictions) -> Table:
    """One row a metric: how it is read, encoders, correlations with the oracle, and Kendall's within objectives."""
    rows = []
    for metric in found.population.predictors:
        one = {name: found.correlation(str(metric), name) for name in STATISTICS}
        tau, within = one["Kendall"], found.within_of(str(metric))
        if tau is None:
            continue
        rows.append(
            [
                title_of(str(metric)),
                TOLD[direction_of(str(metric))],
                str(tau.n),
                *(_cell(one[name]) for name in STATISTICS),
                probability(tau.p),
                probability(tau.p_adjusted),
                _cell(within),
                "" if within is None else str(within.n),
            ]
        )
    return Table(
        title=f"Metrics with {found.population.oracle.name} accuracy: {found.population.name}",
        headers=[
            "metric",
            "read",
            "encoders",
            *(f"{name} [95 % interval]" for name in STATISTICS),
            "p of Kendall",
            "false-discovery rate",
            "Kendall within an objective",
            "encoders there",
        ],
        rows=rows,
        note="Above 0: the metric predicts. p-values take encoders as independent, the intervals do not.",
    )


def settings_table(found: Predictions) -> Table:
    """Kendall's tau of each metric with each accuracy."""
    columns = {
        str(accuracy): [
            tau.described(term=title_of(str(metric)))
            for metric in found.population.predictors
            if (tau := found.correlation(str(metric), "Kendall", str(accuracy))) is not None
        ]
        for accuracy in found.population.accuracies
    }
    return cross_table(f"Kendall's tau by kind of accuracy: {found.population.name}", "metric", columns, signed=False)


def joint_table(joint: Mapping[str, Sequence[Estimate]]) -> Table:
    """One row a population and metric: tau of the first oracle alone, of the joint rank, and what the metric adds."""
    rows = []
    for where, estimates in joint.items():
        for both, alone, added in zip(estimates[::3], estimates[1::3], estimates[2::3], strict=True):
            metric = both.term.partition(" with ")[0]
            rows.append([where, title_of(metric), str(both.n), _cell(alone), _cell(both), _cell(added)])
    return Table(
        title="Joint rank product of a metric and an accuracy that is known (CLID, Table 3)",
        headers=[
            "first oracle -> accuracy to predict",
            "metric",
            "encoders",
            "Kendall, oracle alone",
            "Kendall, joint rank",
            "the metric adds",
        ],
        rows=rows,
        note="Joint rank: the geometric mean of the rank by the metric and of that by the first oracle, 1 being best.",
    )


def selection_table(found: Predictions) -> Table:
    """One row a kind of group and metric: what is recovered of the oracle's accuracy."""
    rows = [
        [
            kind_of_group(kind, found.population.facts),
            title_of(one.metric),
            str(len(one.picks)),
            str(one.estimate(ACCURACY).n),
            str(one.n_singles),
            str(one.n_ties),
            *(_cell(one.estimate(outcome), digits=1) for outcome in (ACCURACY, ORACLE, CHANCE, REGRET)),
            _cell(one.estimate(GAIN)),
        ]
        for kind, selections in found.selected.items()
        for one in selections
    ]
    return Table(
        title=f"Accuracy recovered by choosing without labels: {found.population.name}",
        headers=[
            "encoders differ in",
            "metric",
            "groups",
            "encoders",
            "alone, left out",
            "ties",
            "recovered",
            "oracle",
            "at random",
            "regret",
            "gain recovered",
        ],
        rows=rows,
        note=f"{found.population.oracle.name} accuracy in percent, mean over groups. Gain: 0 is a choice at random, 1 "
        "the oracle's.",
    )


def printed_table(printed: Iterable[PrintedNumber], ours: Mapping[str, Predictions]) -> Table:
    """Printed correlations, one row each, and the same statistic of the same metric in each population of ours.

    Those with ImageNet accuracy stand beside ours with the accuracy on the population's own data, and the average over
    other data sets beside ours with that on another one.
    """
    rows = []
    for one in (number for number in printed if number.target in _TARGETS):
        cells = [_cell(_same(one, found)) for found in ours.values()]
        rows.append(
            [
                _PAPER_OF[one.paper],
                one.table,
                one.population,
                one.target,
                one.hyperparameter.replace("_", " "),
                title_of(one.metric) + (f" ({one.variant})" if one.variant else ""),
                one.statistic.capitalize(),
                printed_text(one),
                *cells,
                one.note,
            ]
        )
    return Table(
        title="Printed correlations beside ours",
        headers=[
            "paper",
            "table",
            "its encoders",
            "accuracy on",
            "what varies",
            "metric",
            "statistic",
            "printed",
            *ours,
            "note",
        ],
        rows=rows,
        note="No two columns are of the same encoders; empty: not measured.",
    )


def recovered_table(printed: Sequence[PrintedNumber]) -> Table:
    """Printed accuracies that metrics recover, with what they lack of the oracle's."""
    oracles = {_place(one): one for one in printed if one.metric == "oracle"}
    rows = []
    for one in (number for number in printed if number.target in _TARGETS):
        oracle = oracles.get(_place(one))
        if one.metric == "oracle" or oracle is None:  # which recovers all of it
            continue
        rows.append(
            [
                _PAPER_OF[one.paper],
                one.table,
                one.population,
                one.target,
                one.hyperparameter.replace("_", " "),
                title_of(one.metric) + (f" ({one.variant})" if one.variant else ""),
                printed_text(oracle),
                printed_text(one),
                f"{oracle.value - one.value:.{one.decimals}f}",
            ]
        )
    return Table(
        title="Printed accuracy recovered, in percent",
        headers=[
            "paper",
            "table",
            "its encoders",
            "accuracy on",
            "what varies",
            "metric",
            "oracle",
            "recovered",
            "regret",
        ],
        rows=rows,
    )


def printed_regrets(printed: Sequence[PrintedNumber], metric: str) -> list[float]:
    """Percentage points that a metric's choices lack of the oracle's, one a printed cell."""
    oracles = {_place(one): one.value for one in printed if one.metric == "oracle"}
    return [oracles[_place(one)] - one.value for one in printed if one.metric == metric and _place(one) in oracles]


def printed_text(one: PrintedNumber) -> str:
    """The number as it is printed."""
    return f"{one.value:.{one.decimals}f}"


def grid_table(estimates: Sequence[Estimate]) -> Table:
    """One row a setting of cluster learnability."""
    by_term: dict[tuple[str, str], list[str]] = {}
    for one in estimates:
        by_term.setdefault((one.method.partition(", ")[2], one.term), []).append(_cell(one))
    return Table(
        title="CLID with other numbers of clusters and neighbours (CLID, Figure 2)",
        headers=["encoders", "setting", *STATISTICS],
        rows=[[*names, *cells] for names, cells in by_term.items()],
    )


def rows_of(population: Population, found: Predictions) -> list[Rows]:
    """How many encoders of a population were used, and how many groups of a kind."""
    used = [Rows(part=population.name, used=len(population), left_out=population.left_out)]
    for kind in (ANY, WITHIN):
        most = max(found.selected.get(kind, ()), key=lambda one: one.estimate(ACCURACY).n, default=None)
        if most is not None:
            gone = {"alone in its group": most.n_singles} if most.n_singles else {}
            used.append(
                Rows(
                    part=f"{population.name}: groups that differ in {kind}"
                    if kind == ANY
                    else f"{population.name}: groups of {kind}",
                    used=len(most.picks),
                    unit="groups",
                    left_out=gone,
                )
            )
    return used


def kind_of_group(kind: str, facts: StudyTable) -> str:
    """The words for what the encoders of a group differ in."""
    words = {ANY: "any one choice", WITHIN: "anything but the objective", OVERALL: "anything"}
    return words[kind] if kind in words else facts.column(kind).label


def text_of(selection: Selection, outcome: str = REGRET) -> str:
    """One outcome of a selection in words.

    The unit stands behind it: ``"1.2 [0.4, 2.0] percentage points"``.
    """
    one = selection.estimate(outcome)
    return f"{interval(one, digits=2, signed=False)} {one.unit}"


def _same(one: PrintedNumber, found: Predictions) -> Estimate | None:
    elsewhere = next((str(name) for name in found.population.accuracies if " on " in str(name)), "")
    accuracy = None if one.target == _TARGETS[0] else elsewhere
    return found.correlation(one.metric, one.statistic.capitalize(), accuracy)


def _place(one: PrintedNumber) -> tuple[str, ...]:
    return one.paper, one.table, one.population, one.target, one.hyperparameter


def _cell(estimate: Estimate | None, *, digits: int = 2) -> str:
    return "" if estimate is None else interval(estimate, digits=digits, signed=False)
