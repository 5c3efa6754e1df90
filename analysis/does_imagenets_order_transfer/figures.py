"""Figures: tau by data set, what a pick loses, and self- against language-supervised encoders by domain."""

from __future__ import annotations

from collections import Counter

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing

from zoo.analysis.columns import Estimate
from zoo.evaluation.drawing import Figure, draw_legend_below, make_figure, make_palette, write_panel_letters
from zoo.results.evidence import list_datasets

from .numbers import ALL, Difference, Loss, Numbers

ALONE = "another domain"  # of one data set


def _bar(axes: Axes, one: Estimate, y: float, colour: str, mark: str, label: str = "_") -> None:
    if one.ci_low is not None and one.ci_high is not None:
        axes.hlines(y, one.ci_low, one.ci_high, color=colour, linewidth=1.0)
    is_new = label not in axes.get_legend_handles_labels()[1]
    axes.plot(one.value or 0.0, y, mark, color=colour, label=label if is_new else "_", linestyle="none")


def orders_figure(numbers: Numbers, orders: dict[str, list[Estimate]]) -> Figure:
    """A row per data set, a panel a limit."""

    def draw() -> Drawing:
        drawing, panels = make_figure(height=4.6, n_columns=len(orders), sharey=True, sharex=True)
        domains = {name: list_datasets()[name].domain for name in numbers.sets}
        counts = Counter(domains.values())
        domains = {name: one if counts[one] > 1 else ALONE for name, one in domains.items()}
        marks = make_palette(list(dict.fromkeys(sorted(domains.values(), key=ALONE.__eq__))))
        by_value = sorted(range(len(numbers.others)), key=lambda place: orders[ALL][place].value or 0.0)
        for axes, some in zip(panels, orders.values(), strict=True):
            for y, place in enumerate(by_value):
                domain = domains[numbers.others[place]]
                _bar(axes, some[place], y, *marks[domain], label=domain)
            axes.axvline(0, color="#444444", linewidth=0.8, zorder=0)
            axes.axvline(some[-1].value or 0.0, color="#888888", linewidth=0.8, linestyle="--", zorder=0)
            axes.set(xlabel="Kendall's tau [-1 to 1]", ylim=(-0.7, len(by_value) - 0.3))
            axes.set_yticks(range(len(by_value)), [_short(numbers.others[place]) for place in by_value])
        write_panel_letters(panels, [f"{limit}, {some[-1].n} encoders" for limit, some in orders.items()])
        draw_legend_below(drawing, panels[0])
        return drawing

    return Figure(
        name="order_by_data_set",
        title="How far the order on ImageNet-1K is that on another data set",
        caption="Kendall's tau with 95 % intervals over encoders, 1: the same order, 0: unrelated. Dashed: the mean.",
        draw=draw,
    )


def _short(name: str) -> str:
    """A title without what stands after a comma."""
    return list_datasets()[name].title.partition(",")[0]


def losses_figure(losses: list[Loss]) -> Figure:
    """A row a rule, a panel a limit."""

    def draw() -> Drawing:
        limits = {loss.limit: loss.mean.n for loss in losses}
        rules = list(dict.fromkeys(loss.rule for loss in losses))[::-1]
        drawing, panels = make_figure(height=2.4, n_columns=len(limits), sharey=True, sharex=True)
        for axes, limit in zip(panels, limits, strict=True):
            for loss in losses:
                if loss.limit == limit:
                    y = rules.index(loss.rule)
                    _bar(axes, loss.mean, y, "#0072B2", "o", label="mean")
                    worst = loss.worst.described(ci_low=None, ci_high=None)
                    _bar(axes, worst, y, "#D55E00", "D", label="worst data set")
            axes.set(xlabel="lost [points]\nlower is better", xlim=(-0.5, None), ylim=(-0.5, len(rules) - 0.5))
            axes.set_yticks(range(len(rules)), rules)
        write_panel_letters(panels, [f"{limit}, {n} encoders" for limit, n in limits.items()])
        draw_legend_below(drawing, panels[0])
        return drawing

    return Figure(
        name="losses",
        title="What a pick loses to the best of a data set",
        caption="Percentage points, lower is better. Mean over data sets, with 95 % intervals over encoders and "
        "data sets, and the worst data set. Of five, the best by the labels of the data set is kept.",
        draw=draw,
    )


def differences_figure(found: Difference) -> Figure:
    """A row a domain."""

    def draw() -> Drawing:
        drawing, (axes,) = make_figure(height=3.4)
        domains = {list_datasets()[name].domain for name in found.by_set}
        rows, names = sorted(domains, key=lambda name: found.by_group[name].value or 0.0), []
        for y, domain in enumerate(rows):
            sets = [name for name in found.by_set if list_datasets()[name].domain == domain]
            names.append(f"{domain} ({_short(sets[0])})" if len(sets) == 1 else domain)
            values = [found.by_set[name].value or 0.0 for name in sets]
            _bar(axes, found.by_group[domain], y, "#0072B2", "D")
            if len(sets) > 1:
                axes.plot(values, [y] * len(values), "o", color="#E69F00", markersize=2.5)
                for place, side in ((values.index(min(values)), "right"), (values.index(max(values)), "left")):
                    words, at = _short(sets[place]), (values[place], y)
                    axes.annotate(words, at, (0, 5), textcoords="offset points", fontsize=6, ha=side)
        axes.axvline(0, color="#444444", linewidth=0.8, zorder=0)
        axes.margins(x=0.2)
        axes.set_yticks(range(len(rows)), names)
        axes.set(xlabel="log odds, self- less language-supervised [nats]", ylim=(-0.6, len(rows) - 0.2))
        return drawing

    return Figure(
        name="language_or_not",
        title="Self-supervised less language-supervised encoders of like size",
        caption=f"Difference of log odds, right of 0 the {len(found.points)} self-supervised encoders are better. "
        "Small: a data set; large: the mean of a domain, with 95 % intervals over encoders and data sets.",
        draw=draw,
    )
