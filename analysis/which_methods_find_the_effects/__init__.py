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

from zoo.analysis.columns import Estimate
from zoo.analysis.randomised_population import randomised_population
from zoo.analysis.table import StudyTable
from zoo.studies.findings import Findings, Rows
from zoo.studies.running import StudyOptions

from .claims import Found, claims_of
from .figures import all_figures
from .held import OnRandomised, on_randomised
from .recorded import CONFOUNDED, Recorded, recorded
from .tables import all_tables


def study(table: StudyTable, options: StudyOptions) -> Findings:
    """Answers of the methods against effects that are known; the table of encoders has no part in it."""
    own = on_randomised(randomised_population(), options)
    drawn = recorded()
    return Findings(
        claims=claims_of(Found(own=own, recorded=drawn)),
        estimates=[*_effects(own), *(one.answer for one in own.held if one.answered), *_shares(drawn)],
        tables=all_tables(own, drawn),
        figures=all_figures(own, drawn),
        rows=[
            Rows(part="randomised population", used=len(own.population)),
            Rows(part=f"drawn populations, {len(drawn.scenarios)} scenarios", used=drawn.n_draws, unit="populations"),
        ],
        notes=_notes(own, drawn),
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
        "The drawn populations have the encoders, choices and missing facts of the published ones, and outcomes of "
        "which everything is known: a sum of the effects that randomisation found, and residuals of the randomised "
        "encoders. Effects that randomisation does not tell from none are none there (all effects: as fitted).",
        "A number moves a drawn outcome as much as it does among the randomised encoders, in standard deviations of "
        "the number: published learning rates, for example, differ by a factor of 12,000, those drawn at random by 9 "
        "(scenario wide ranges: by change as fitted).",
        "So drawn populations are kind to linear methods: effects add up, on logarithms, and nothing that is not "
        "written down moves an outcome but what releases share. Published encoders may be worse; they are hardly "
        "better.",
        "The effects of types of objective are given to the types of the published encoders at random in every "
        "population; hierarchical objectives take the place of distillation.",
        "Optimizer, pretraining data and patch size move no drawn outcome, for all randomised encoders of a network "
        "had the same: what is found of them is false.",
        "Trees are asked with the 26 choices of the set filtered, which has all that are asked for, and the settings "
        "that were tuned for the published outcomes, or for the randomised ones; they are not tuned anew in each "
        "population. They round epochs to 200, so epochs of the randomised encoders are counted in units of 200.",
        "The global linear model of the randomised encoders leaves the patch size out, which says nothing there but "
        "the network.",
        "Of the variance that the choices leave over, published encoders of one release share "
        + ", ".join(f"{100 * share:.0f} % ({name})" for name, share in shares.items())
        + " by their residuals, which is the least, for choices take up some of it; the scenario releases has 50 %.",
        "On the randomised population itself method and randomisation see the same encoders and the same noise: an "
        "answer that lies on the randomised effect is right about the choices, not about other encoders.",
        f"Grey images of 28 px and {len(own.population)} small encoders give the effects their sizes; how methods fare "
        "depends on these sizes against the residuals, and on which choices come together.",
        f"Scenario {CONFOUNDED}: {drawn.scenarios[CONFOUNDED]}.",
    ]
