"""The tables of the report."""

from __future__ import annotations

import math

from zoo.analysis.columns import OUTCOMES, Estimate
from zoo.analysis.finding_effects import METHODS
from zoo.studies.findings import Table
from zoo.studies.tables import interval, probability

from .claims import believed
from .held import Held, OnRandomised, counts_of
from .recorded import CONFOUNDED, Recorded


def all_tables(own: OnRandomised, recorded: Recorded) -> list[Table]:
    """In the order of the report."""
    return [
        randomised_table(own),
        fared_table(recorded),
        trust_table(recorded),
        choices_table(recorded),
        inflation_table(recorded),
        answers_table(own),
        explained_table(own),
    ]


def randomised_table(own: OnRandomised) -> Table:
    """One row a method: how its answers about the randomised population compare with randomisation."""
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
    return Table(
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


def fared_table(recorded: Recorded) -> Table:
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
    return Table(
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


def trust_table(recorded: Recorded) -> Table:
    """One row a choice: what may be believed of each method about it, among published encoders."""
    rows = []
    for question in recorded.questions(CONFOUNDED):
        cells = [question]
        for method in METHODS:
            answers = believed(recorded, method, question)
            right = [] if answers is None else [name for name, holds in answers.items() if holds]
            cells.append("" if answers is None else ", ".join(right) or "nothing")
        rows.append(cells)
    return Table(
        title="What to believe of which method about which choice of the published encoders",
        headers=["choice", *METHODS],
        rows=rows,
        note="Where choices are those of the published encoders and effects those that randomisation found. Sign: "
        "right for 90 of 100 effects. Test: it finds at most 10 of 100 choices that have no effect. Interval: at 95 %, "
        "it has the effect in 90 of 100. Empty: no answer. Optimizer, data and patch size have no effect, so no sign.",
    )


def choices_table(recorded: Recorded) -> Table:
    """One row a choice: coverage, bias and false discoveries of each method."""
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
    return Table(
        title="Choices of the published encoders, effects known: covered / right sign / found where there is none",
        headers=["choice", *METHODS],
        rows=rows,
        note=f"In percent of {recorded.n_draws} populations and of five outcomes; - where there is nothing to count: "
        "no interval, no outcome on which the choice has an effect, or none on which it has none.",
    )


def inflation_table(recorded: Recorded) -> Table:
    """One row a choice: how much the other choices tell of it, among randomised and published encoders."""
    names = list(recorded.inflation["encoders"].unique())
    questions = list(recorded.inflation["question"].unique())
    values = recorded.inflation.set_index(["encoders", "question"])["inflation"]
    sizes = recorded.inflation.groupby("encoders")["n_encoders"].first()
    return Table(
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


def answers_table(own: OnRandomised) -> Table:
    """One row a question and outcome: the randomised effect and the answer of each method."""
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
                interval(effect, digits=2),
                probability(effect.p),
                *(_answer(answers[method]) for method in METHODS),
            ]
        )
    return Table(
        title="Every answer about the randomised population",
        headers=["outcome", "change", "randomised [95 %, HC3]", "p", *METHODS],
        rows=rows,
        note="Percentage points, negative is better; * the method finds an effect.",
    )


def explained_table(own: OnRandomised) -> Table:
    """One row an outcome: how much of its variance trees explain out of fold."""
    return Table(
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
    return "" if one.answer.value is None else interval(one.answer, digits=2) + (" *" if one.found else "")


def _percent(estimate: Estimate, *, interval: bool = True) -> str:
    if estimate.value is None:
        return ""
    ends = ""
    if interval and estimate.ci_low is not None and estimate.ci_high is not None:
        ends = f" [{100 * max(0.0, estimate.ci_low):.0f}, {100 * estimate.ci_high:.0f}]"
    return f"{100 * estimate.value:.0f}{ends}" + ("" if ends else " %")


def _number(estimate: Estimate) -> str:
    return "" if estimate.value is None else f"{estimate.value:.2f}"
