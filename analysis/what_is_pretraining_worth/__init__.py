"""What is pre-training worth on a task, compared with guessing, with scratch and with the most that labels can buy?

Claim: contrastive pre-training outperforms training from scratch on every task in every data regime, by a margin that
diminishes with more labels (section 5.1); methods differ more on classification than on dense tasks, and the best of
them is worth more there (5.2); contrastive methods outperform non-contrastive ones, but less so on dense tasks (5.3);
supervised pre-training is about as good as contrastive (5.4). The paper is "Measuring the Effectiveness of
Self-Supervised Learning using Calibrated Learning Curves" (under review at ICLR 2022), with ResNet-50s on ImageNet,
CIFAR-100, EuroSAT and Taskonomy; it prints its numbers in figures alone.

Expected, of four toy ResNets (SimCLR, Barlow Twins, RotNet and supervised, all pretrained on shapes; two
seeds, five regimes of 50 to 1,600 labels): CCI on the classes of shapes .24 [.10, .41], .07 [-.08, .23], .17 [.02, .32]
and .66 [.51, .85]; on depth .09, .01, .08 and .12, on normals .03, .04, .04 and .09, of which no interval of a
self-supervised one leaves out 0; on the classes of digits, which none has seen, .46, .44, .24 and .17, with intervals
that are a point wide. Of the paper's ten claims one holds beyond chance, that the best pre-training is worth more on
classification than on dense tasks (by .18 [.01, .33]). The gain is smaller with the most labels than with the fewest on
8 of 8 contrastive curves, and methods differ more on classification (.06 [-.03, .14]), both within chance; contrastive
methods are not ahead of RotNet (-.01 [-.16, .14]); the supervised encoder, which has seen the labels of shapes, is .50
[.33, .70] ahead on them, and not on digits. Without a complete curve every claim is "not available" and says what to
run.

Command: zoo study what_is_pretraining_worth
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from zoo.analysis.columns import Estimate
from zoo.analysis.table import StudyTable
from zoo.cards.catalogue import load_catalogue
from zoo.errors import QueryError
from zoo.evaluation.bootstrap import Drawn
from zoo.evaluation.curves.figures import make_curves_figure
from zoo.evaluation.drawing import Figure
from zoo.studies.findings import ClaimAnswer, Claims, Findings, answer_in_sentence
from zoo.studies.running import StudyOptions
from zoo.studies.tables import format_estimate

from . import tables
from .curves import (
    HOW_TO_MEASURE,
    MeasuredCurve,
    Panel,
    curve_measurements,
    estimate_of,
    found_curves,
    main_panels,
    panels_of,
)
from .tables import (
    CALIBRATED,
    CCI,
    METHOD,
    SELF_SUPERVISED,
    Comparable,
    advantage,
    best_improvement,
    comparable,
    gain_at_ends,
    gain_estimates,
    improvement_estimates,
    mean_improvement,
    spread_of_improvements,
    spread_with_most_labels,
    wins_of,
)

MOST_CURVES = 8  # of one figure, so that colours and marks differ
NOTES = (
    "These are not the paper's encoders, ResNet-50s that were trained on 1.3 million images, but tiny ones that were "
    "trained on a few thousand: a claim that fails here is not shown to be wrong, nor one that holds to be right.",
    "Intervals cover other test images and other seeds of the transfer, not other pre-training runs.",
    "All encoders of a task were tested on the same images, but are taken as independent, apart from shared controls: "
    "intervals of differences between encoders are too wide, those of means may be too narrow. The variance over seeds "
    "is pooled over all networks of a task with as many labels.",
    "Every interval and every claim stands by itself, at 95 %, without correction for multiple testing.",
    "Calibrated risks of several tasks are compared as if their losses were equally informative, the paper's own "
    "reservation; CCI is relative to the range that scratch covered, which differs from task to task.",
    "A supervised encoder that was pre-trained with the labels of the task itself has an advantage that the paper's "
    "encoder has on ImageNet alone.",
    "Contrastive includes clustering and siamese methods, as in the paper; non-contrastive are pretext tasks.",
)


def study(table: StudyTable, options: StudyOptions) -> Findings:
    """Curves of every data set and task, and the claims on those of the protocol that most encoders have."""
    found = found_curves(curve_measurements(with_mine=table.with_mine, exclude_wrong=table.corrected))
    options.progress("learning curves", 0, 1)
    every = panels_of(found, seed=options.seed)
    panels = [panel for panel in every if panel.curves]
    main = main_panels(panels)
    return Findings(
        claims=claims.judged(main),
        answer=answer_in_sentence(lambda: _answer(main)),
        estimates=[one for panel in panels for one in (*improvement_estimates(panel), *gain_estimates(panel))],
        tables=[
            *tables.improvement_tables(panels),
            *([tables.comparison_table(main)] if main else []),
            *(tables.regimes_table(panel) for panel in panels),
        ],
        figures=[one for panel in panels for one in _figures(panel)],
        rows=tables.rows_of(every),
        notes=[*([] if panels else [NO_CURVES]), *NOTES, *(one for panel in every for one in _notes_of(panel))],
    )


def _answer(panels: Panels) -> str:
    contrastive = contrastive_of(panels)
    wins, n = wins_of(contrastive), len({curve.encoder for _, curve in contrastive})
    return (
        f"{'Much' if 2 * wins.clearly_better > wins.n else 'Little beyond chance'}: {n} contrastive encoders beat "
        f"scratch in {wins.better} of {wins.n} tasks and numbers of labels, beyond chance in "
        f"{wins.clearly_better or 'none'}; they are worse beyond chance in {wins.clearly_worse or 'none'}."
    )


def _figures(panel: Panel) -> list[Figure]:
    """One figure with both plots, or several where there are more curves than colours."""
    curves = [one.curve for one in panel.curves]
    name = "curves_" + "".join(each if each.isalnum() else "_" for each in panel.name).strip("_")
    starts = range(0, len(curves), MOST_CURVES)
    return [
        make_curves_figure(curves[start : start + MOST_CURVES], name=name if len(starts) == 1 else f"{name}_{place}")
        for place, start in enumerate(starts, start=1)
    ]


def _notes_of(panel: Panel) -> list[str]:
    """The notes of the curves of a panel, each sentence once with the encoders that it is about."""
    by_sentence: dict[str, list[str]] = {}
    for one in panel.curves:
        for sentence in one.curve.notes:
            by_sentence.setdefault(sentence, []).append(one.encoder)
        if one.rows.n_alone:
            sentence = f"Data sizes that scratch was not trained with are left out ({one.rows.n_alone})."
            by_sentence.setdefault(sentence, []).append(one.encoder)
    notes = [
        f"{panel.name}{'' if len(encoders) == len(panel.curves) else ', ' + ', '.join(encoders)}: {sentence}"
        for sentence, encoders in by_sentence.items()
    ]
    return [*notes, *panel.refused]


NO_CURVES = (
    "No encoder of results/ has a complete learning curve, which is its rows and those of scratch, maximal supervision "
    f"and the constant baseline on the same data; {HOW_TO_MEASURE}, and add --with-mine to the study if rows are your "
    "own."
)
MINOR = 0.1  # difference in CCI up to which pre-trainings are "about as good": a tenth of the most that there is
_NOTHING = "results/ has no complete learning curve; a note says how to measure one"
_FEW = "few tiny networks on the same test images, of which nobody knows how another pre-training run would do"
Panels: TypeAlias = Sequence[Panel]  # one a task and data set
Summary = Callable[[Sequence[MeasuredCurve]], Drawn]

claims = Claims(source="Section 5")


# Against scratch


@claims(
    "Contrastive pre-training has a lower risk than scratch in every regime of every task",
    source="Section 5.1, Figure 2",
    paper="on all downstream tasks in all data-regimes",
)
def contrastive_beats_scratch_everywhere(panels: Panels) -> ClaimAnswer:
    wins = wins_of(contrastive_of(panels))
    return ClaimAnswer(
        ours=f"in {wins.better} of {wins.n} regimes, beyond chance in {wins.clearly_better}; scratch is better "
        f"beyond chance in {wins.clearly_worse}; gain at worst {cell(wins.worst_gain)}, {wins.worst}",
        value=float(wins.better),
        holds=wins.better == wins.n and 2 * wins.clearly_better > wins.n,
        reason=f"scratch has the lower risk in {wins.n - wins.better} regimes, beyond chance in "
        f"{wins.clearly_worse}, where {0.025 * wins.n:.1f} are to be expected of one that is worth nothing"
        if wins.better < wins.n
        else "no gain is below 0, but most are within chance, so that these encoders do not tell",
    )


@claims(
    "Contrastive pre-training improves on scratch over all regimes of every task (CCI)",
    source="Section 5.1, Figure 2",
    paper="a relatively large margin",
)
def contrastive_improves_on_scratch(panels: Panels) -> ClaimAnswer:
    by_panel = [(panel, with_cci(panel.of("contrastive"))) for panel in require_some(panels)]
    means = [(panel, estimate(mean_improvement(curves), n=len(curves))) for panel, curves in by_panel if curves]
    if not means:
        raise none_of("contrastive")
    least = min((one for _, one in means), key=lambda one: one.value or 0.0)
    return ClaimAnswer(
        ours="mean CCI " + ", ".join(f"{cell(one)} ({panel.name}, {encoders(one.n)})" for panel, one in means),
        value=least.value,
        holds=all(one.ci_low is not None and one.ci_low > 0 for _, one in means),
        reason="an interval reaches down to 0 or lies below it: there these encoders show no gain beyond chance",
    )


@claims(
    "The gain of contrastive pre-training over scratch diminishes with more labels",
    source="Section 5.1, Figure 2",
    paper="diminishes with more labelled data",
)
def the_gain_diminishes(panels: Panels) -> ClaimAnswer:
    curves = [curve for _, curve in contrastive_of(panels) if len(curve.gains) > 1]
    n = len({curve.encoder for curve in curves})
    first, last, lost = (estimate(one, n=n, unit=CALIBRATED) for one in gain_at_ends(curves))
    smaller = sum(curve.gains[-1].value < curve.gains[0].value for curve in curves)
    return beyond_chance(
        lost,
        f"mean gain {cell(first)} with the fewest labels, {cell(last)} with the most; difference",
        f"smaller at the end on {smaller} of {len(curves)} curves",
    )


# Classification against dense tasks


@claims(
    "Self-supervised methods differ more in CCI on classification than on dense tasks",
    source="Section 5.2, Figure 3",
    paper="larger on classification",
)
def methods_differ_more_on_classification(panels: Panels) -> ClaimAnswer:
    both = comparable_methods(panels, least=2)
    return larger_on_classification(both, spread_of_improvements, "standard deviation of CCI", CCI)


@claims(
    "With the most labels, methods differ more in calibrated risk on classification than on dense tasks",
    source="Section 5.2, Figure 3",
    paper="insignificant for pixel-wise regression",
)
def methods_differ_more_with_the_most_labels(panels: Panels) -> ClaimAnswer:
    both = comparable_methods(panels, least=2)
    return larger_on_classification(both, spread_with_most_labels, "standard deviation of calibrated risk", CALIBRATED)


@claims(
    "The best self-supervised pre-training is worth more on classification than on dense tasks (CCI)",
    source="Section 5.2, Figure 3",
    paper="notably better",
)
def the_best_is_worth_more_on_classification(panels: Panels) -> ClaimAnswer:
    return larger_on_classification(comparable_methods(panels, least=1), best_improvement, "best CCI", CCI)


# Contrastive against non-contrastive


@claims(
    "Contrastive methods outperform non-contrastive ones on classification (CCI)",
    source="Section 5.3, Figure 4",
    paper="a significant improvement",
)
def contrastive_is_ahead_on_classification(panels: Panels) -> ClaimAnswer:
    both = comparable(require_some(panels), *SELF_SUPERVISED)
    ahead, _, _ = both.across(lead_of_contrastive)
    return beyond_chance(estimate(ahead, n=len(both.encoders)), "difference in mean CCI", kinds_of(both))


@claims(
    "Contrastive methods outperform non-contrastive ones by less on dense tasks (CCI)",
    source="Section 5.3, Figure 4",
    paper="less pronounced",
)
def contrastive_is_less_ahead_on_dense_tasks(panels: Panels) -> ClaimAnswer:
    both = comparable(require_some(panels), *SELF_SUPERVISED)
    # A difference of means is no larger for noise, unlike a maximum or a spread.
    return larger_on_classification(both, lead_of_contrastive, "difference in mean CCI", CCI, is_pulled=False)


# Supervised against contrastive; apart, for the labels of classification may be those of pre-training


@claims(
    f"Supervised pre-training is about as good as contrastive on classification (CCI within {MINOR:g})",
    source="Section 5.4, Figure 5",
    paper="a relatively minor difference",
)
def supervised_is_as_good_on_classification(panels: Panels) -> ClaimAnswer:
    return supervised_is_as_good(panels, is_dense=False)


@claims(
    f"Supervised pre-training is about as good as contrastive on dense tasks (CCI within {MINOR:g})",
    source="Section 5.4, Figure 5",
    paper="a relatively minor difference",
)
def supervised_is_as_good_on_dense_tasks(panels: Panels) -> ClaimAnswer:
    return supervised_is_as_good(panels, is_dense=True)


@dataclass(frozen=True, slots=True)
class Compared:
    """Supervised and contrastive encoders of one task."""

    panel: Panel
    supervised: Sequence[MeasuredCurve]
    contrastive: Sequence[MeasuredCurve]
    difference: Estimate  # in mean CCI


def supervised_is_as_good(panels: Panels, *, is_dense: bool) -> ClaimAnswer:
    """Whether supervised and contrastive encoders differ in mean CCI by less than a minor difference on every task."""
    compared: list[Compared] = []
    for panel in require_some(panels):
        supervised, contrastive = with_cci(panel.of("supervised")), with_cci(panel.of("contrastive"))
        if panel.is_dense == is_dense and supervised and contrastive:
            drawn = advantage([*supervised, *contrastive], "supervised", "contrastive")
            difference = estimate(drawn, n=len(supervised) + len(contrastive))
            compared.append(Compared(panel, supervised, contrastive, difference))
    if not compared:
        raise none_of("supervised and contrastive")
    widest = max((one.difference for one in compared), key=lambda one: abs(one.value or 0.0))
    seen = sorted(
        {
            f"{curve.encoder} has seen the labels of {one.panel.name}"
            for one in compared
            for curve in one.supervised
            if not is_dense and has_seen(curve, one.panel)
        }
    )
    return ClaimAnswer(
        ours="difference in mean CCI "
        + ", ".join(
            f"{cell(one.difference, signed=True)} ({one.panel.name}, {len(one.supervised)} against "
            f"{encoders(len(one.contrastive))})"
            for one in compared
        )
        + "".join(f"; {one}" for one in seen),
        value=widest.value,
        holds=all(
            one.ci_low is not None and one.ci_high is not None and one.ci_low >= -MINOR and one.ci_high <= MINOR
            for one in (each.difference for each in compared)
        ),
        reason=why_not_minor(compared),
    )


def why_not_minor(compared: Sequence[Compared]) -> str:
    clear = [
        f"{'supervised' if (one.value or 0) > 0 else 'contrastive'} on {panel.name}"
        for panel, one in ((each.panel, each.difference) for each in compared)
        if one.ci_low is not None and one.ci_high is not None and (one.ci_low > MINOR or one.ci_high < -MINOR)
    ]
    if clear:
        return f"more than {MINOR:g} ahead beyond chance: {', '.join(clear)}; {_FEW}"
    return f"an interval reaches beyond {MINOR:g}, so that these encoders do not settle it: {_FEW}"


# What several statements ask


def larger_on_classification(
    both: Comparable, summary: Summary, what: str, unit: str, *, is_pulled: bool = True
) -> ClaimAnswer:
    """Whether a summary of encoders is larger on classification than on dense tasks."""
    n = len(both.encoders)
    one, other, more = (estimate(drawn, n=n, unit=unit, is_pulled=is_pulled) for drawn in both.across(summary))
    dense = " and ".join(panel.task for panel in both.dense)
    return beyond_chance(
        more, f"{what} {cell(one)} on classification, {cell(other)} on {dense}; difference", kinds_of(both)
    )


def beyond_chance(difference: Estimate, what: str, where: str) -> ClaimAnswer:
    """Whether a difference lies above 0 with its whole interval."""
    low, high = difference.ci_low, difference.ci_high
    if low is None or high is None:
        reason = f"there is no interval: {difference.note}"
    elif high < 0:
        reason = f"it is the other way round on these encoders, which are not the paper's: {_FEW}"
    else:
        reason = f"the interval reaches down to 0, so that these encoders do not tell: {_FEW}"
        if low > 0:
            reason = ""  # it holds
    return ClaimAnswer(
        ours=f"{what} {cell(difference, signed=True)}, {encoders(difference.n)} ({where})",
        value=difference.value,
        holds=low is not None and low > 0,
        reason=reason,
    )


def lead_of_contrastive(curves: Sequence[MeasuredCurve]) -> Drawn:
    return advantage(curves, "contrastive", "non-contrastive")


def comparable_methods(panels: Panels, *, least: int) -> Comparable:
    """Self-supervised encoders on classification and on dense tasks of one data set, if there are so many."""
    both = comparable(require_some(panels), *SELF_SUPERVISED)
    if len(both.encoders) < least:
        raise QueryError(
            f"{encoders(len(both.encoders))} without labels on classification and on a dense task of "
            f"{both.dataset}, expected at least {least}; {HOW_TO_MEASURE} with more."
        )
    return both


def contrastive_of(panels: Panels) -> list[tuple[Panel, MeasuredCurve]]:
    """Every curve of a contrastive encoder, with its panel."""
    found = [(panel, curve) for panel in require_some(panels) for curve in panel.of("contrastive")]
    if not found:
        raise none_of("contrastive")
    return found


def require_some(panels: Panels) -> Panels:
    if not panels:
        raise QueryError(_NOTHING)
    return panels


def with_cci(curves: Sequence[MeasuredCurve]) -> list[MeasuredCurve]:
    return [curve for curve in curves if curve.improvement]


def none_of(kinds: str) -> QueryError:
    return QueryError(f"No task has curves of {kinds} encoders with a CCI; {HOW_TO_MEASURE} with such encoders.")


def has_seen(curve: MeasuredCurve, panel: Panel) -> bool:
    """True if an encoder was pre-trained with the labels of the task."""
    return str(load_catalogue()[curve.encoder].pretraining.dataset) == panel.dataset


def kinds_of(both: Comparable) -> str:
    """How many encoders of each kind are compared, and on which data set."""
    kinds = {curve.encoder: curve.kind for panel in both.classification for curve in panel.curves}
    counts = {kind: [*kinds.values()].count(kind) for kind in SELF_SUPERVISED}
    return f"{both.dataset}: " + ", ".join(f"{count} {kind}" for kind, count in counts.items() if count)


def encoders(n: int) -> str:
    return f"{n} encoder{'s' * (n != 1)}"


def estimate(drawn: Drawn, *, n: int, unit: str = CCI, is_pulled: bool = False) -> Estimate:
    return estimate_of(drawn, term="", outcome="", n=n, unit=unit, method=METHOD, is_pulled=is_pulled)


def cell(one: Estimate, *, signed: bool = False) -> str:
    return format_estimate(one, digits=2, signed=signed)
