"""The tables of the report."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing

from zoo.analysis.columns import OUTCOMES, Estimate
from zoo.evaluation.drawing import COLOURS, MARKS, Figure, draw_legend_below, make_figure, write_panel_letters
from zoo.studies.findings import FindingsTable
from zoo.studies.tables import format_estimate, format_p_value

from .known_effects import ASSOCIATION, CONTROLLED, LINEAR, METHODS, TREES
from .recorded import CONFOUNDED, RANDOMISED, Held, OnRandomised, Recorded, believed, counts_of


def randomised_table(own: OnRandomised) -> FindingsTable:
    """One row per method: how its answers about the randomised population compare with randomisation."""
    rows = []
    for method in METHODS:
        counts = counts_of(own, method)
        size = own.size(method)
        rows.append(
            [
                method,
                f"{counts['answered']} of {counts['asked']}",
                f"{counts['right sign']} of {counts['certain']}",
                f"{counts['found']}",
                f"{counts['opposite']}",
                f"{counts['unconfirmed']} of {counts['uncertain']}",
                f"{counts['covered']} of {counts['intervals']}" if counts["intervals"] else "no intervals",
                f"{counts['robust covered']} of {counts['robust intervals']}" if counts["robust intervals"] else "",
                "" if math.isnan(size) else f"{size:.2f}",
            ]
        )
    return FindingsTable(
        title="The methods on the randomised population",
        headers=[
            "method", "answered", "right sign, of effects detected", "found", "found, other sign",
            "found, of effects not detected by randomisation", "intervals with the randomised effect", "the same, HC3",
            "share of the effect",
        ],
        rows=rows,
        note="A question is a choice and an outcome. An effect is detected by randomisation if p is at most "
        "0.05 by least squares on all choices with HC3 errors; with so many questions some of these are chance. The "
        "share of the effect is the slope of answers on randomised effects, outcomes in residual standard deviations. "
        "Answers and effects are of the same encoders.",
    )  # fmt: skip


def fared_table(recorded: Recorded) -> FindingsTable:
    """One row a scenario and method: power, false discoveries, coverage, size, order."""
    rows = []
    for scenario in recorded.scenarios:
        for method in recorded.methods:
            answered = recorded.answered(scenario, method)
            if not answered.value:
                rows.append([scenario, method, "0 %", *[""] * 9])
                continue
            cells = [
                recorded.share(scenario, method, *pair)
                for pair in (
                    ("right_sign", "with_effect"), ("found", "with_effect"), ("wrong", "with_effect"),
                    ("false", "without_effect"),
                )
            ]  # fmt: skip
            covered = [
                recorded.share(scenario, method, *pair)
                for pair in (("covered", "with_interval"), ("covered_robust", "with_robust"))
            ]
            rows.append(
                [
                    scenario,
                    method,
                    _percent(answered, interval=False),
                    *(_percent(one) for one in cells),
                    _percent(recorded.whole(scenario, method, "false_share")),
                    *(_percent(one) for one in covered),
                    _number(recorded.size(scenario, method)),
                    _number(recorded.whole(scenario, method, "order")),
                ]
            )
    words = "; ".join(f"{name}: {words}" for name, words in recorded.scenarios.items())
    return FindingsTable(
        title="The methods where effects are known",
        headers=[
            "scenario", "method", "answered", "right sign", "found", "found, other sign", "found where there is none",
            "false share of what is found", "intervals with the effect", "the same, HC3", "share of the effect",
            "order of sizes",
        ],
        rows=rows,
        note=f"{recorded.n_draws} populations a scenario, five outcomes each; in percent, with 95 % intervals as of "
        f"that many independent answers, the widest. {words[0].upper()}{words[1:]}.",
    )  # fmt: skip


def trust_table(recorded: Recorded) -> FindingsTable:
    """One row per choice: what may be believed of each method about it, among published encoders."""
    rows = []
    for question in recorded.questions(CONFOUNDED):
        cells = [question]
        for method in METHODS:
            answers = believed(recorded, method, question)
            right = [] if answers is None else [name for name, holds in answers.items() if holds]
            cells.append("" if answers is None else ", ".join(right) or "nothing")
        rows.append(cells)
    return FindingsTable(
        title="What to believe of which method about which choice of the published encoders",
        headers=["choice", *METHODS],
        rows=rows,
        note="Where choices are those of the published encoders and effects those that randomisation found. Sign: "
        "right for 90 of 100 effects. Test: it finds at most 10 of 100 choices that have no effect. Interval: at 95 %, "
        "it has the effect in 90 of 100. Empty: no answer. Optimizer, data and patch size have no effect, so no sign.",
    )


def choices_table(recorded: Recorded) -> FindingsTable:
    """One row per choice: coverage, bias and false discoveries of each method."""
    rows = []
    for question in recorded.questions(CONFOUNDED):
        cells = [question]
        for method in METHODS:
            own = {"questions": [question]}
            if recorded.rows(CONFOUNDED, method, **own)["answered"].sum() == 0:
                cells.append("")
                continue
            covered = recorded.share(CONFOUNDED, method, "covered", "with_interval", **own)
            sign = recorded.share(CONFOUNDED, method, "right_sign", "with_effect", **own)
            false = recorded.share(CONFOUNDED, method, "false", "without_effect", **own)
            cells.append(" / ".join(_percent(one, interval=False) or "-" for one in (covered, sign, false)))
        rows.append(cells)
    return FindingsTable(
        title="Choices of the published encoders, effects known: covered / right sign / found where there is none",
        headers=["choice", *METHODS],
        rows=rows,
        note=f"In percent of {recorded.n_draws} populations and of five outcomes; - where there is nothing to count: "
        "no interval, no outcome on which the choice has an effect, or none on which it has none.",
    )


def inflation_table(recorded: Recorded) -> FindingsTable:
    """One row per choice: how much the other choices tell of it, among randomised and published encoders."""
    names = list(recorded.inflation["encoders"].unique())
    questions = list(recorded.inflation["question"].unique())
    values = recorded.inflation.set_index(["encoders", "question"])["inflation"]
    sizes = recorded.inflation.groupby("encoders")["n_encoders"].first()
    return FindingsTable(
        title="How confounded choices are: variance inflation",
        headers=["choice", *(f"{name} ({sizes[name]} encoders)" for name in names)],
        rows=[
            [question, *("" if (name, question) not in values else f"{values[name, question]:.1f}" for name in names)]
            for question in questions
        ],
        note="How many times the variance of a coefficient is what it were if the choice were independent of all "
        "others in the table, modes included; 1 is least. Choices that are drawn independently are above 1 by chance "
        "alone.",
    )


def answers_table(own: OnRandomised) -> FindingsTable:
    """One row per question and outcome: the randomised effect and the answer of each method."""
    by: dict[tuple[str, str], dict[str, Held]] = {}
    for one in own.held:
        by.setdefault((one.outcome, one.question.words), {})[one.method] = one
    rows = []
    for (outcome, words), answers in by.items():
        effect = next(iter(answers.values())).randomised
        rows.append(
            [
                OUTCOMES[outcome].label,
                words,
                format_estimate(effect, digits=2),
                format_p_value(effect.p),
                *(_answer(answers[method]) for method in METHODS),
            ]
        )
    return FindingsTable(
        title="Every answer about the randomised population",
        headers=["outcome", "change", "randomised [95 %, HC3]", "p", *METHODS],
        rows=rows,
        note="Percentage points, negative is better; * the method finds an effect.",
    )


def explained_table(own: OnRandomised) -> FindingsTable:
    """One row an outcome: how much of its variance trees explain out of fold."""
    return FindingsTable(
        title="What trees explain of the randomised population",
        headers=["outcome", "by fold, as the paper defines it, in %", "pooled, in %", "encoders"],
        rows=[
            [
                OUTCOMES[outcome].label,
                f"{one.by_fold:.0f}",
                f"{one.pooled:.0f} [{one.pooled_ci_low:.0f}, {one.pooled_ci_high:.0f}]",
                str(one.n),
            ]
            for outcome, one in own.explained.items()
        ],
        note="30 folds; settings tuned by 50 trials on the same encoders, as those of the published ones were.",
    )


def _answer(one: Held) -> str:
    return "" if one.answer.value is None else format_estimate(one.answer, digits=2) + (" *" if one.found else "")


def _percent(estimate: Estimate, *, interval: bool = True) -> str:
    if estimate.value is None:
        return ""
    ends = ""
    if interval and estimate.ci_low is not None and estimate.ci_high is not None:
        ends = f" [{100 * max(0.0, estimate.ci_low):.0f}, {100 * estimate.ci_high:.0f}]"
    return f"{100 * estimate.value:.0f}{ends}" + ("" if ends else " %")


def _number(estimate: Estimate) -> str:
    return "" if estimate.value is None else f"{estimate.value:.2f}"


_INKS = dict(zip((ASSOCIATION, CONTROLLED, LINEAR, TREES), ("#444444", "#E69F00", "#0072B2", "#009E73"), strict=True))
_AGREE = "#CC79A7"
_MEASURES: Sequence[tuple[str, str, str, str]] = (
    ("right_sign", "with_effect", "right sign\n[% of effects]", "higher"),
    ("found", "with_effect", "found\n[% of effects]", "higher"),
    ("false", "without_effect", "found where there is none\n[% of choices without]", "lower"),
    ("covered", "with_interval", "intervals with the effect\n[%]", "95"),
)


def answers_figure(own: OnRandomised) -> Figure:
    """Answers of each method against randomised effects, by outcome."""
    shown = [method for method in METHODS if any(one.answered for one in own.of(method))]
    panels = ", ".join(f"({chr(ord('a') + place)}) {method}" for place, method in enumerate(shown))
    silent = [method for method in METHODS if method not in shown]
    none = f" {', '.join(silent).capitalize()} answer nothing here." if silent else ""
    return Figure(
        name="answers_and_randomised_effects",
        title="What the methods say of the randomised population",
        caption=f"Answers of {panels} against the effects by least squares on all choices that were drawn at random, "
        f"of {len(own.population)} encoders, in standard deviations of each outcome; a point is a choice and an "
        "outcome. "
        "Filled: randomisation tells the effect from none. On the line both say the same; bars are 95 % intervals of "
        f"the method.{none}",
        draw=lambda: _draw_answers(own, shown),
    )


def _draw_answers(own: OnRandomised, shown: Sequence[str]) -> Drawing:
    drawing, panels = make_figure(height=2.9, n_columns=len(shown), sharex=True, sharey=True)
    scale = {outcome: float(own.table.frame[outcome].std()) for outcome in own.known}
    for panel, method in zip(panels, shown, strict=True):
        panel.axline((0, 0), slope=1, color="#999999", linewidth=0.8)
        for number, outcome in enumerate(own.known):
            for certain in (False, True):
                held = [one for one in own.of(method, certain=certain) if one.outcome == outcome and one.answered]
                if not held:
                    continue
                x = [_value(one.randomised) / scale[outcome] for one in held]
                y = [_value(one.answer) / scale[outcome] for one in held]
                for place, one in zip(x, held, strict=True):
                    if one.answer.ci_low is not None and one.answer.ci_high is not None:
                        ends = (one.answer.ci_low / scale[outcome], one.answer.ci_high / scale[outcome])
                        panel.vlines(place, *ends, color=COLOURS[number], linewidth=0.5, alpha=0.35)
                panel.plot(
                    x,
                    y,
                    MARKS[number],
                    color=COLOURS[number],
                    markersize=4,
                    markerfacecolor=COLOURS[number] if certain else "none",
                    markeredgewidth=0.8,
                    label=OUTCOMES[outcome].label if certain else None,
                )
        panel.set_xlabel("randomised effect [SD]\nlower is better")
        panel.set_ylim(-3.2, 2.2)
    panels[0].set_ylabel("answer [SD of the outcome]")
    write_panel_letters(panels, list(shown))
    draw_legend_below(drawing, panels[-1], n_columns=5)
    return drawing


def _value(estimate: Estimate) -> float:
    return math.nan if estimate.value is None else estimate.value


def fared_figure(recorded: Recorded) -> Figure:
    """Signs, power, false discoveries and coverage by scenario and method."""
    panels = ", ".join(
        f"({chr(ord('a') + place)}) {label.split(chr(10))[0]}" for place, (_, _, label, _) in enumerate(_MEASURES)
    )
    words = "; ".join(f"{name}: {words}" for name, words in recorded.scenarios.items())
    return Figure(
        name="how_methods_fare",
        title="How the methods fare where effects are known",
        caption=f"{panels}, in percent of {recorded.n_draws} populations a scenario, five outcomes each, with 95 % "
        f"intervals as of that many independent answers. {words[0].upper()}{words[1:]}. Controlled pairs have no "
        "answer where choices are drawn at random.",
        draw=lambda: _draw_fared(recorded),
    )


def _draw_fared(recorded: Recorded) -> Drawing:
    scenarios = list(recorded.scenarios)
    drawing, panels = make_figure(height=3.4, n_columns=len(_MEASURES), sharey=True)
    for panel, (of, among, label, _) in zip(panels, _MEASURES, strict=True):
        for number, method in enumerate(recorded.methods):
            shares = [recorded.share(scenario, method, of, among) for scenario in scenarios]
            if not (of == "covered" and method == recorded.agreeing):  # it has the linear model's intervals
                _draw_shares(panel, shares, number, len(recorded.methods), method)
        panel.set_yticks([-place for place in range(len(scenarios))], scenarios)
        panel.set_xlim(-3, 103)
        panel.set_xlabel(label)
        if of == "covered":
            panel.axvline(95, color="#999999", linewidth=0.8)
        if of == "false":
            panel.axvline(5, color="#999999", linewidth=0.8)
    write_panel_letters(panels)
    draw_legend_below(drawing, panels[0], n_columns=3)
    return drawing


def _draw_shares(panel: Axes, shares: Sequence[Estimate], number: int, total: int, method: str) -> None:
    ink = _INKS.get(method, _AGREE)
    x, y = [], []
    for place, one in enumerate(shares):
        if one.value is None:
            continue
        height = -place + 0.36 - 0.72 * number / (total - 1)
        x.append(100 * one.value)
        y.append(height)
        if one.ci_low is not None and one.ci_high is not None:
            panel.hlines(height, 100 * one.ci_low, 100 * one.ci_high, color=ink, linewidth=1.0)
    panel.plot(x, y, MARKS[number], color=ink, markersize=4, label=method)


def choices_figure(recorded: Recorded) -> Figure:
    """Coverage, signs and false discoveries by choice, of the published encoders."""
    return Figure(
        name="methods_by_choice",
        title="Which choices the methods get right among the published encoders",
        caption="(a) Answers with the right sign, in percent of effects, (b) directions and p-values up to 0.05 given "
        f"to choices without an effect, (c) 95 % intervals that have the effect, over {recorded.n_draws} populations "
        "and five outcomes, where choices are those of the published encoders and effects those that randomisation "
        "found; choices are sorted by how much the others tell of them, least confounded first, and those "
        "without a part in any outcome are last.",
        draw=lambda: _draw_choices(recorded),
    )


def _draw_choices(recorded: Recorded) -> Drawing:
    inflation = recorded.inflation[recorded.inflation["encoders"] != RANDOMISED].set_index("question")["inflation"]
    order: Callable[[str], float] = lambda name: float(inflation.get(name, math.inf))  # noqa: E731
    questions = sorted(recorded.questions(CONFOUNDED), key=order)
    drawing, panels = make_figure(height=1.0 + 0.21 * len(questions), n_columns=3, sharey=True)
    measures = (_MEASURES[0], _MEASURES[2], _MEASURES[3])
    for panel, (of, among, label, _) in zip(panels, measures, strict=True):
        for number, method in enumerate(METHODS):
            x, y = [], []
            for place, question in enumerate(questions):
                one = recorded.share(CONFOUNDED, method, of, among, questions=[question])
                if one.value is not None:
                    x.append(100 * one.value)
                    y.append(-place + 0.24 - 0.16 * number)
            panel.plot(x, y, MARKS[number], color=_INKS[method], markersize=4, label=method)
        panel.set_xlabel(label)
        panel.set_xlim(-4, 104)
        if of == "covered":
            panel.axvline(95, color="#999999", linewidth=0.8)
        if of == "false":
            panel.axvline(5, color="#999999", linewidth=0.8)
    labels = [f"{name} ({inflation[name]:.1f})" if name in inflation else name for name in questions]
    panels[0].set_yticks([-place for place in range(len(questions))], labels)
    panels[0].set_ylim(-len(questions) + 0.4, 0.6)
    write_panel_letters(panels)
    draw_legend_below(drawing, panels[0], n_columns=4)
    return drawing
