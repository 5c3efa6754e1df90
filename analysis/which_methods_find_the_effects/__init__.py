"""Which methods find the effects of design choices, where they are known?

Claim: controlled pairs remove confounders but seldom answer, a global linear model has their power without that gap,
and trees with SHAP values show which way choices move a risk and which matter; three analyses that agree make up for
the faults of each (Dubois et al. 2023, Section 5.3 and Appendix C.4).

Expected: on 64 encoders whose choices were drawn at random the global linear model says what randomisation says (all
16 effects that are detected with their sign, 14 found), trees with SHAP have the 16 signs and give a direction to
56 of the 69 others, controlled pairs answer nothing. On 200 populations with the choices of the published encoders and
effects that are known: controlled pairs are right (95 % of their 95 % intervals have the effect) about the 35 % of
questions that they answer; the global linear model answers 96 %, has the effect in 93 % of its intervals, finds 67 % of
the effects and 7 % of choices without one, and is misled about ViTs, LARS and CLIP's data; trees have the sign of 97 %
of the effects, show 45 % of their size and give a direction to 69 % of choices without one; the plain association finds
55 % of these. What both linear model and trees find is hardly more often right. Of the linear model's intervals 81 %
have the effect if releases share half of the residual variance, and 84 % if learning rates, which it does not control
for, work over their whole published range.

What it cannot tell: the effects are those of grey images of 28 px and networks of some ten thousand parameters, so that
nothing follows about the size or sign of an effect on ImageNet; how methods fare depends on effects against residuals,
and on what is written down of encoders. The drawn populations take a quarter of an hour on two cores and are recorded
(scripts/simulate_methods.py); the study takes ten seconds.

Command: zoo study which_methods_find_the_effects
"""

from __future__ import annotations

from dataclasses import dataclass

from zoo.analysis.columns import Estimate
from zoo.analysis.randomised import load_randomised_population
from zoo.analysis.table import StudyTable
from zoo.errors import QueryError
from zoo.studies.findings import Claim, ClaimAnswer, Claims, Findings, RowsUsed, answer_in_sentence, require_value
from zoo.studies.running import StudyOptions

from .known_effects import ASSOCIATION, CONTROLLED, LINEAR, TREES
from .recorded import (
    CONFOUNDED,
    INTERVAL,
    LEAST_COVERAGE,
    LEAST_SIGN,
    MOST_FALSE,
    RANDOMISED,
    SIGN,
    WIDE,
    OnRandomised,
    Recorded,
    believed,
    counts_of,
    on_randomised,
    recorded,
    required,
)
from .tables import (
    answers_figure,
    answers_table,
    choices_figure,
    choices_table,
    explained_table,
    fared_figure,
    fared_table,
    inflation_table,
    randomised_table,
    trust_table,
)

READS_TABLE = False


def study(table: StudyTable, options: StudyOptions) -> Findings:
    """Answers of the methods against effects that are known; the table of encoders has no part in it."""
    own = on_randomised(load_randomised_population(), options)
    drawn = recorded()
    return Findings(
        claims=claims_of(Found(own=own, recorded=drawn)),
        answer=answer_in_sentence(lambda: _answer(drawn)),
        estimates=[*_effects(own), *(one.answer for one in own.held if one.answered), *_shares(drawn)],
        tables=[
            randomised_table(own),
            *(made(drawn) for made in (fared_table, trust_table, choices_table, inflation_table)),
            answers_table(own),
            explained_table(own),
        ],
        figures=[answers_figure(own), fared_figure(drawn), choices_figure(drawn)],
        rows=[
            RowsUsed(part="randomised population", used=len(own.population)),
            RowsUsed(
                part=f"drawn populations, {len(drawn.scenarios)} scenarios", used=drawn.n_draws, unit="populations"
            ),
        ],
        notes=_notes(own, drawn),
    )


def _answer(drawn: Recorded) -> str:
    found = drawn.share(CONFOUNDED, LINEAR, "found", "with_effect")
    false, of_trees = (drawn.share(CONFOUNDED, one, "false", "without_effect") for one in (LINEAR, TREES))
    shares = [
        f"{100 * require_value(one):.0f} %" for one in (found, false, of_trees, drawn.answered(CONFOUNDED, CONTROLLED))
    ]
    return (
        f"A global linear model finds {shares[0]} of the effects and {shares[1]} of those that do not exist, trees "
        f"{shares[2]} of the latter; controlled pairs answer {shares[3]} of the questions."
    )


def _effects(own: OnRandomised) -> list[Estimate]:
    return [one for known in own.known.values() for one in known.estimates.values()]


def _shares(drawn: Recorded) -> list[Estimate]:
    pairs = (("right_sign", "with_effect"), ("false", "without_effect"), ("covered", "with_interval"))
    found = []
    for scenario in drawn.scenarios:
        for method in drawn.methods:
            for of, among in pairs:
                one = drawn.share(scenario, method, of, among)
                if one.value is not None:
                    found.append(one.described(term=f"{one.term}, {scenario}", method=method))
    return found


def _notes(own: OnRandomised, drawn: Recorded) -> list[str]:
    recorded_of = int(drawn.provenance["n_randomised"])
    shares = drawn.provenance["release_share"]
    stale = (
        [f"The drawn populations have the effects of {recorded_of} encoders; run scripts/simulate_methods.py anew."]
        if recorded_of != len(own.population)
        else []
    )
    return [
        *stale,
        "The drawn populations have the encoders, choices and missing facts of the published ones. Their outcomes are "
        "a sum of the effects that randomisation detected (all effects: as fitted), scaled to the spread of each "
        "number (wide ranges: as fitted), and residuals of the randomised encoders.",
        "That favours linear methods: effects add up, on logarithms, and nothing is unrecorded but what releases "
        "share. Effects of types of objective are permuted in every population; optimizer, pretraining data and patch "
        "size have none, so that what is found of them is false.",
        "Trees have the 26 choices of the set filtered and settings that were tuned for the published outcomes, or for "
        "the randomised ones. They round epochs to 200, so epochs of the randomised encoders are in units of 200. The "
        "global linear model of the randomised encoders leaves out the patch size, collinear with the network.",
        "Of the residual variance, published encoders of one release share at least "
        + ", ".join(f"{100 * share:.0f} % ({name})" for name, share in shares.items())
        + "; the scenario releases has 50 %.",
        "On the randomised population itself methods and randomisation share encoders and noise, so that agreement "
        "says nothing of other encoders.",
        f"Effect sizes are those of grey images of 28 px and {len(own.population)} small encoders; how methods fare "
        "depends on them and on which choices come together.",
        f"Scenario {CONFOUNDED}: {drawn.scenarios[CONFOUNDED]}.",
    ]


CLEARLY = 0.05  # difference of two shares from which it is one
APPENDIX, SECTION = "Appendix C.4", "Section 5.3"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Found:
    own: OnRandomised
    recorded: Recorded


def claims_of(found: Found) -> list[Claim]:
    return [claim for claims in (of_randomised, of_methods, of_together) for claim in claims.judged(found)]


of_randomised = Claims(source="the question of this study")


@of_randomised(
    "On the randomised population controlled pairs give the effects that randomisation shows", paper="the effects"
)
def pairs_on_randomised(found: Found) -> ClaimAnswer:
    return _on_randomised(found, CONTROLLED)


@of_randomised(
    "On the randomised population the global linear model gives the effects that randomisation shows",
    paper="the effects",
)
def linear_on_randomised(found: Found) -> ClaimAnswer:
    return _on_randomised(found, LINEAR)


@of_randomised(
    "On the randomised population trees with SHAP give the signs that randomisation shows", paper="the signs"
)
def trees_on_randomised(found: Found) -> ClaimAnswer:
    return _on_randomised(found, TREES)


def _on_randomised(found: Found, method: str) -> ClaimAnswer:
    counts = counts_of(found.own, method)
    if not counts["certain"]:
        return ClaimAnswer(
            ours=f"{counts['answered']} of {counts['asked']} questions answered",
            holds=False,
            contradicted=counts["answered"] == 0,
            reason="no two encoders are equal in every core choice but one, where choices are drawn independently",
        )
    covers = (
        f"; {counts['covered']} of {counts['intervals']} intervals have the randomised effect"
        if counts["intervals"]
        else ""
    )
    share = counts["right sign"] / counts["certain"]
    right = share >= LEAST_SIGN and (
        not counts["intervals"] or counts["covered"] >= LEAST_COVERAGE * counts["intervals"]
    )
    return ClaimAnswer(
        ours=f"the sign of {counts['right sign']} of {counts['certain']} effects that are detected, "
        f"{counts['found']} found{covers}; of {counts['uncertain']} that randomisation did not detect it finds "
        f"{counts['unconfirmed']}",
        holds=right,
        value=share,
        reason="signs or intervals miss more than a tenth of the effects",
        caveat="of the same encoders and outcomes, so that method and randomisation share their noise",
    )


of_methods = Claims(source=APPENDIX)


@of_methods("Controlled pairs remove the impact of any potential confounder", paper="removing")
def pairs_remove_confounders(found: Found) -> ClaimAnswer:
    return _unbiased(found, CONTROLLED)


@of_methods("Controlled pairs have an issue of coverage: few encoders differ in one choice alone", paper="an issue")
def pairs_answer_little(found: Found) -> ClaimAnswer:
    answered = found.recorded.answered(CONFOUNDED, CONTROLLED)
    linear = found.recorded.answered(CONFOUNDED, LINEAR)
    return ClaimAnswer(
        ours=f"they answer {_percent(answered)} of the questions, the global linear model {_percent(linear)}",
        holds=required(answered) < 0.5,
        contradicted=required(answered) >= required(linear),
        value=answered.value,
        reason="they answer most of the questions",
    )


@of_methods("The global linear model does not suffer from the same issue of power", paper="not")
def linear_has_power(found: Found) -> ClaimAnswer:
    asked = _questions(found, CONTROLLED)
    pairs, linear = (
        found.recorded.share(CONFOUNDED, one, "found", "with_effect", questions=asked) for one in (CONTROLLED, LINEAR)
    )
    every = found.recorded.share(CONFOUNDED, LINEAR, "found", "with_effect")
    return ClaimAnswer(
        ours=f"it finds {_percent(every)} of the effects that it answers; of the choices that controlled pairs answer "
        f"too {_percent(linear)}, they {_percent(pairs)}",
        holds=required(linear) >= required(pairs) + CLEARLY,
        contradicted=required(linear) < required(pairs) - CLEARLY,
        value=every.value,
        reason="on the choices that both answer it finds no more",
        caveat="it answers more choices",
    )


@of_methods(
    "The p-values and intervals of the global linear model can be taken at their word",
    source=SECTION,
    paper="(p < ...)",
)
def linear_is_calibrated(found: Found) -> ClaimAnswer:
    return _unbiased(found, LINEAR)


@of_methods(
    "What the global linear model leaves out, such as the learning rate, can mislead it",
    source="Section 5.3, Appendix C.4",
    paper="depends on incomplete expert knowledge",
)
def what_is_left_out_misleads(found: Found) -> ClaimAnswer:
    rate = found.recorded.rows(WIDE, LINEAR, questions=["rate"])
    without = [str(one) for one in rate.loc[rate["effect"] == 0, "outcome"]]
    with_effect = [str(one) for one in rate["outcome"] if one not in without]
    if not without or not with_effect:
        raise QueryError("The learning rate has an effect on every drawn outcome, or on none; nothing is compared.")
    covered, less = (
        found.recorded.share(WIDE, LINEAR, "covered", "with_interval", outcomes=outcomes)
        for outcomes in (without, with_effect)
    )
    return ClaimAnswer(
        ours=f"where the effect of the learning rate is as fitted over the whole range of published ones, "
        f"{_percent(less)} of its intervals have the effect on {len(with_effect)} outcomes that the rate moves, "
        f"{_percent(covered)} on the other {len(without)}",
        holds=required(less) <= required(covered) - CLEARLY,
        contradicted=required(less) >= required(covered),
        value=less.value,
        reason="its intervals miss effects as often where what it leaves out has none",
        caveat="the learning rate is no control of the model of the paper",
    )


def _unbiased(found: Found, method: str) -> ClaimAnswer:
    covered = found.recorded.share(CONFOUNDED, method, "covered", "with_interval")
    robust = found.recorded.share(CONFOUNDED, method, "covered_robust", "with_robust")
    false = found.recorded.share(CONFOUNDED, method, "false", "without_effect")
    control = found.recorded.share(RANDOMISED, method, "covered", "with_interval")
    beside = (
        f"; with choices drawn at random {_percent(control)}"
        if control.value is not None
        else "; with choices drawn at random it answers nothing"
    )
    honest = required(covered) >= LEAST_COVERAGE and required(false) <= MOST_FALSE
    return ClaimAnswer(
        ours=f"{_percent(covered)} of its 95 % intervals have the effect ({_percent(robust)} of HC3's), and it finds "
        f"{_percent(false)} of the choices that have none{beside}",
        holds=honest,
        contradicted=not honest and _below(covered, LEAST_COVERAGE),
        value=covered.value,
        reason="confounding that it does not see moves its answers beyond their intervals",
        caveat=_believed_about(found, method, INTERVAL),
    )


@of_methods("The sign of a SHAP value says which way a choice moves the risk", source=SECTION, paper="which way")
def shap_gives_signs(found: Found) -> ClaimAnswer:
    right = found.recorded.share(CONFOUNDED, TREES, "right_sign", "with_effect")
    control = found.recorded.share(RANDOMISED, TREES, "right_sign", "with_effect")
    plain = found.recorded.share(CONFOUNDED, ASSOCIATION, "right_sign", "with_effect")
    return ClaimAnswer(
        ours=f"right for {_percent(right)} of the effects, with choices drawn at random {_percent(control)}; the plain "
        f"association is right for {_percent(plain)}",
        holds=required(right) >= LEAST_SIGN,
        contradicted=_below(right, LEAST_SIGN),
        value=right.value,
        reason="choices that come together share their credit",
        caveat=_believed_about(found, TREES, SIGN),
    )


@of_methods("SHAP values cannot quantify significance", paper="cannot")
def shap_is_no_test(found: Found) -> ClaimAnswer:
    false = found.recorded.share(CONFOUNDED, TREES, "false", "without_effect")
    control = found.recorded.share(RANDOMISED, TREES, "false", "without_effect")
    return ClaimAnswer(
        ours=f"of choices without an effect they give a direction to {_percent(false)}, with choices drawn at "
        f"random to {_percent(control)}",
        holds=required(false) > MOST_FALSE,
        contradicted=required(false) <= MOST_FALSE,
        value=false.value,
        reason="they seldom give a direction to a choice without an effect",
        caveat="a direction: more than 1 % of the mean outcome",
    )


@of_methods("SHAP values say how large an effect is", source=SECTION, paper="the impact")
def shap_gives_sizes(found: Found) -> ClaimAnswer:
    size = found.recorded.size(CONFOUNDED, TREES)
    control = found.recorded.size(RANDOMISED, TREES)
    linear = found.recorded.size(CONFOUNDED, LINEAR)
    value = required(size)
    return ClaimAnswer(
        ours=f"they show {100 * value:.0f} % of an effect, with choices drawn at random {100 * required(control):.0f} "
        f"%; the global linear model {100 * required(linear):.0f} %",
        holds=0.8 <= value <= 1.25,
        contradicted=not 0.8 <= value <= 1.25,
        value=value,
        reason="trees that are tuned to predict shrink, and share credit among choices that come together",
        caveat="slope of answers on effects, outcomes in residual standard deviations",
    )


@of_methods(
    "SHAP values show which choices matter most for a risk, better than coefficients do",
    source="Appendix C.4, Figure 18", paper="most important",
)  # fmt: skip
def shap_orders_choices(found: Found) -> ClaimAnswer:
    trees, linear, plain = (found.recorded.whole(CONFOUNDED, one, "order") for one in (TREES, LINEAR, ASSOCIATION))
    gain = required(trees) - required(linear)
    return ClaimAnswer(
        ours=f"rank correlation of the sizes of answers and effects {_plain(trees)}, of the global linear model "
        f"{_plain(linear)}, of the plain association {_plain(plain)}",
        holds=gain > CLEARLY,
        contradicted=gain < -CLEARLY,
        value=trees.value,
        reason="they order choices no better",
        caveat="size: what the choice moves among these encoders, in standard deviations of the choice",
    )


of_together = Claims(source=SECTION)


@of_together("Analyses that agree mitigate the faults of each: what two methods find is seldom false", paper="mitigate")
def agreement_helps(found: Found) -> ClaimAnswer:
    both, linear, trees = (
        found.recorded.whole(CONFOUNDED, one, "false_share") for one in (found.recorded.agreeing, LINEAR, TREES)
    )
    power = found.recorded.share(CONFOUNDED, found.recorded.agreeing, "found", "with_effect")
    alone = found.recorded.share(CONFOUNDED, LINEAR, "found", "with_effect")
    gain = required(linear) - required(both)
    return ClaimAnswer(
        ours=f"of what linear model and trees both find {_percent(both)} is false, of the linear model's alone "
        f"{_percent(linear)}, of the trees' {_percent(trees)}; together they find {_percent(power)} of the effects, "
        f"the linear model {_percent(alone)}",
        holds=gain > CLEARLY,
        contradicted=gain <= 0,
        value=both.value,
        reason="of 100 findings fewer than 5 false ones go: what the linear model gets wrong trees get wrong as well",
        caveat="false: no effect, or one of the other sign; mean over drawn populations and outcomes",
    )


@of_together("The methods that control for other choices are better than the plain association", paper="better")
def controls_help(found: Found) -> ClaimAnswer:
    linear, plain = (found.recorded.whole(CONFOUNDED, one, "false_share") for one in (LINEAR, ASSOCIATION))
    false = [found.recorded.share(CONFOUNDED, one, "false", "without_effect") for one in (LINEAR, ASSOCIATION)]
    gain = required(plain) - required(linear)
    return ClaimAnswer(
        ours=f"of what the global linear model finds {_percent(linear)} is false, of what the association finds "
        f"{_percent(plain)}; of choices without an effect {_percent(false[0])} and {_percent(false[1])} are found",
        holds=gain > CLEARLY,
        contradicted=gain <= 0,
        value=gain,
        reason="controls take away no more than they add",
    )


@of_together(
    "Wide ranges, residuals shared within releases, or interactions change little of this",
    source="the question of this study", paper="little",
)  # fmt: skip
def scenarios_agree(found: Found) -> ClaimAnswer:
    cells = []
    worst = 0.0
    base = required(found.recorded.share(CONFOUNDED, LINEAR, "covered", "with_interval"))
    for scenario in found.recorded.scenarios:
        if scenario in (RANDOMISED, CONFOUNDED):
            continue
        one = found.recorded.share(scenario, LINEAR, "covered", "with_interval")
        cells.append(f"{scenario} {_percent(one)}")
        worst = max(worst, base - required(one))
    return ClaimAnswer(
        ours=f"intervals of the global linear model that have the effect: {', '.join(cells)}; without "
        f"{100 * base:.0f} %",
        holds=worst <= CLEARLY,
        contradicted=worst > CLEARLY,
        value=worst,
        reason="what is not written down is taken for effects of what is",
    )


def _questions(found: Found, method: str) -> list[str]:
    rows = found.recorded.rows(CONFOUNDED, method)
    return [str(one) for one in rows.loc[rows["answered"] > 0, "question"].unique()]


def _believed_about(found: Found, method: str, what: str) -> str:
    """The choices about which a method may not be believed."""
    asked = {one: believed(found.recorded, method, one) or {} for one in found.recorded.questions(CONFOUNDED)}
    asked = {one: answers for one, answers in asked.items() if what in answers}
    if not asked:
        raise QueryError(f"Nothing was asked of {method}.")
    bad = [one for one, answers in asked.items() if not answers[what]]
    return f"the {what} is to be believed about {len(asked) - len(bad)} of {len(asked)} choices" + (
        f", not about {', '.join(bad)}" if bad else ""
    )


def _below(estimate: Estimate, bound: float) -> bool:
    return estimate.ci_high is not None and estimate.ci_high < bound


def _percent(estimate: Estimate) -> str:
    return "none" if estimate.value is None else f"{100 * estimate.value:.0f} %"


def _plain(estimate: Estimate) -> str:
    return "none" if estimate.value is None else f"{estimate.value:.2f}"
