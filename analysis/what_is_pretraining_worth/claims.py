"""What the paper of calibrated learning curves finds in its sections 5.1 to 5.4, held against encoders measured here.

A statement agrees if it holds on our encoders beyond chance, where chance is other test images and other seeds.
Everything else is *not reproducible*, also where our encoders show the opposite beyond chance: they are not those of
the paper, so that nothing here corrects it. A statement on every regime agrees if it holds in all and beyond chance in
most of them. How many encoders were compared stands beside every number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from zoo.analysis.columns import Estimate
from zoo.analysis.curve_comparisons import (
    CALIBRATED,
    CCI,
    METHOD,
    SELF_SUPERVISED,
    Comparable,
    advantage,
    best_improvement,
    comparable,
    gain_at_ends,
    mean_improvement,
    spread_of_improvements,
    spread_with_most_labels,
    wins_of,
)
from zoo.analysis.curves import HOW_TO_MEASURE, MeasuredCurve, Panel, estimate_of
from zoo.cards.catalogue import catalogue
from zoo.errors import QueryError
from zoo.evaluation.bootstrap import Drawn
from zoo.studies.findings import Answer, Claim, answered
from zoo.studies.tables import interval

NO_CURVES = (
    "No encoder of results/ has a complete learning curve, which is its rows and those of scratch, maximal supervision "
    f"and the blind guess on the same data; {HOW_TO_MEASURE}, and add --with-mine to the study if rows are your own."
)
_NOTHING = "results/ has no complete learning curve; a note says how to measure one"
MINOR = 0.1
"""A difference in CCI up to which two kinds of pre-training are called about as good: a tenth of the most there is."""
_FEW = "few tiny networks on the same test images, of which nobody knows how another pre-training run would do"
_Of = Callable[[Sequence[MeasuredCurve]], Drawn]


def curve_claims(panels: Sequence[Panel]) -> list[Claim]:
    """Every claim, on panels of which there is one a task and data set; not available where there is no curve."""
    return [
        *_scratch_claims(panels),
        *_task_claims(panels),
        *_contrastive_claims(panels),
        _supervised_claim(panels, is_dense=False),
        _supervised_claim(panels, is_dense=True),
    ]


def _scratch_claims(panels: Sequence[Panel]) -> list[Claim]:
    """Section 5.1."""

    def wins() -> Answer:
        found = wins_of(_contrastive(panels))
        return Answer(
            ours=f"in {found.better} of {found.n} regimes, beyond chance in {found.clearly_better}; scratch is better "
            f"beyond chance in {found.clearly_worse}; gain at worst {_cell(found.worst_gain)}, {found.worst}",
            value=float(found.better),
            holds=found.better == found.n and 2 * found.clearly_better > found.n,
            reason=f"scratch has the lower risk in {found.n - found.better} regimes, beyond chance in "
            f"{found.clearly_worse}, where {0.025 * found.n:.1f} are to be expected of one that is worth nothing"
            if found.better < found.n
            else "no gain is below 0, but most are within chance, so that these encoders do not tell",
        )

    def margin() -> Answer:
        found = [(panel, [curve for curve in panel.of("contrastive") if curve.improvement]) for panel in panels]
        means = [(panel, _estimate(mean_improvement(curves), n=len(curves))) for panel, curves in found if curves]
        if not means:
            raise _none_of("contrastive")
        least = min((one for _, one in means), key=lambda one: one.value or 0.0)
        return Answer(
            ours="mean CCI " + ", ".join(f"{_cell(one)} ({panel.name}, {_encoders(one.n)})" for panel, one in means),
            value=least.value,
            holds=all(one.ci_low is not None and one.ci_low > 0 for _, one in means),
            reason="an interval reaches down to 0 or lies below it: there these encoders show no gain beyond chance",
        )

    def fades() -> Answer:
        curves = [curve for _, curve in _contrastive(panels) if len(curve.gains) > 1]
        n = len({curve.encoder for curve in curves})
        first, last, lost = (_estimate(one, n=n, unit=CALIBRATED) for one in gain_at_ends(curves))
        smaller = sum(curve.gains[-1].value < curve.gains[0].value for curve in curves)
        return _beyond_chance(
            lost,
            f"mean gain {_cell(first)} with the fewest labels, {_cell(last)} with the most; difference",
            f"smaller at the end on {smaller} of {len(curves)} curves",
        )

    source, cut = "Section 5.1, Figure 2", "in all data-regimes"
    return [
        answered(
            "Contrastive pre-training has a lower risk than scratch in every regime of every task",
            source=source,
            paper=f"on all downstream tasks {cut}",
            answer=_some(panels, wins),
        ),
        answered(
            "Contrastive pre-training improves on scratch over all regimes of every task (CCI)",
            source=source,
            paper="a relatively large margin",
            answer=_some(panels, margin),
        ),
        answered(
            "The gain of contrastive pre-training over scratch diminishes with more labels",
            source=source,
            paper="diminishes with more labelled data",
            answer=_some(panels, fades),
        ),
    ]


def _task_claims(panels: Sequence[Panel]) -> list[Claim]:
    """Section 5.2."""

    def larger(of: _Of, what: str, unit: str, *, least: int = 2) -> Callable[[], Answer]:
        def answer() -> Answer:
            both = comparable(panels, *SELF_SUPERVISED)
            if len(both.encoders) < least:
                raise QueryError(
                    f"{_encoders(len(both.encoders))} without labels on classification and on a dense task of "
                    f"{both.dataset}, expected at least {least}; {HOW_TO_MEASURE} with more."
                )
            return _across(both, of, what, unit)

        return _some(panels, answer)

    source, spread = "Section 5.2, Figure 3", "standard deviation of"
    return [
        answered(
            "Self-supervised methods differ more in CCI on classification than on dense tasks",
            source=source,
            paper="larger on classification",
            answer=larger(spread_of_improvements, f"{spread} CCI", CCI),
        ),
        answered(
            "With the most labels, methods differ more in calibrated risk on classification than on dense tasks",
            source=source,
            paper="insignificant for pixel-wise regression",
            answer=larger(spread_with_most_labels, f"{spread} calibrated risk", CALIBRATED),
        ),
        answered(
            "The best self-supervised pre-training is worth more on classification than on dense tasks (CCI)",
            source=source,
            paper="notably better",
            answer=larger(best_improvement, "best CCI", CCI, least=1),
        ),
    ]


def _contrastive_claims(panels: Sequence[Panel]) -> list[Claim]:
    """Section 5.3."""

    def ahead(curves: Sequence[MeasuredCurve]) -> Drawn:
        return advantage(curves, "contrastive", "non-contrastive")

    def on_classification() -> Answer:
        both = comparable(panels, *SELF_SUPERVISED)
        one, _, _ = both.across(ahead)
        return _beyond_chance(_estimate(one, n=len(both.encoders)), "difference in mean CCI", _groups(both))

    def less_on_dense() -> Answer:
        return _across(comparable(panels, *SELF_SUPERVISED), ahead, "difference in mean CCI", CCI, of_groups=True)

    source = "Section 5.3, Figure 4"
    return [
        answered(
            "Contrastive methods outperform non-contrastive ones on classification (CCI)",
            source=source,
            paper="a significant improvement",
            answer=_some(panels, on_classification),
        ),
        answered(
            "Contrastive methods outperform non-contrastive ones by less on dense tasks (CCI)",
            source=source,
            paper="less pronounced",
            answer=_some(panels, less_on_dense),
        ),
    ]


def _supervised_claim(panels: Sequence[Panel], *, is_dense: bool) -> Claim:
    """Section 5.4; classification and dense tasks apart, for the labels of the former may be those of pre-training."""

    def answer() -> Answer:
        found = []
        for panel in panels:
            supervised, contrastive = panel.of("supervised"), panel.of("contrastive")
            both = [[curve for curve in some if curve.improvement] for some in (supervised, contrastive)]
            if panel.is_dense == is_dense and all(both):
                drawn = advantage([*both[0], *both[1]], "supervised", "contrastive")
                found.append((panel, both, _estimate(drawn, n=sum(map(len, both)))))
        if not found:
            raise _none_of("supervised and contrastive")
        widest = max((one for _, _, one in found), key=lambda one: abs(one.value or 0.0))
        seen = sorted(
            {
                f"{curve.encoder} has seen the labels of {panel.name}"
                for panel, both, _ in found
                for curve in both[0]
                if not is_dense and _has_seen(curve, panel)
            }
        )
        return Answer(
            ours="difference in mean CCI "
            + ", ".join(
                f"{_cell(one, signed=True)} ({panel.name}, {len(both[0])} against {_encoders(len(both[1]))})"
                for panel, both, one in found
            )
            + "".join(f"; {one}" for one in seen),
            value=widest.value,
            holds=all(
                one.ci_low is not None and one.ci_high is not None and one.ci_low >= -MINOR and one.ci_high <= MINOR
                for _, _, one in found
            ),
            reason=_why_not_minor(found),
        )

    where = "dense tasks" if is_dense else "classification"
    return answered(
        f"Supervised pre-training is about as good as contrastive on {where} (CCI within {MINOR:g})",
        source="Section 5.4, Figure 5",
        paper="a relatively minor difference",
        answer=_some(panels, answer),
    )


def _why_not_minor(found: Sequence[tuple[Panel, object, Estimate]]) -> str:
    clear = [
        f"{'supervised' if (one.value or 0) > 0 else 'contrastive'} on {panel.name}"
        for panel, _, one in found
        if one.ci_low is not None and one.ci_high is not None and (one.ci_low > MINOR or one.ci_high < -MINOR)
    ]
    if clear:
        return f"more than {MINOR:g} ahead beyond chance: {', '.join(clear)}; {_FEW}"
    return f"an interval reaches beyond {MINOR:g}, so that these encoders do not settle it: {_FEW}"


def _across(both: Comparable, of: _Of, what: str, unit: str, *, of_groups: bool = False) -> Answer:
    """That a quantity is larger on classification than on dense tasks."""
    is_pulled = not of_groups  # a difference of means is no larger for noise
    n = len(both.encoders)
    one, other, more = both.across(of)
    cells = [_cell(_estimate(each, n=n, unit=unit, is_pulled=is_pulled)) for each in (one, other)]
    dense = " and ".join(panel.task for panel in both.dense)
    return _beyond_chance(
        _estimate(more, n=n, unit=unit, is_pulled=is_pulled),
        f"{what} {cells[0]} on classification, {cells[1]} on {dense}; difference",
        _groups(both),
    )


def _beyond_chance(estimate: Estimate, what: str, where: str) -> Answer:
    low, high = estimate.ci_low, estimate.ci_high
    if low is None or high is None:
        reason = f"there is no interval: {estimate.note}"
    elif high < 0:
        reason = f"it is the other way round on these encoders, which are not the paper's: {_FEW}"
    else:
        reason = f"the interval reaches down to 0, so that these encoders do not tell: {_FEW}"
        if low > 0:
            reason = ""  # it holds
    return Answer(
        ours=f"{what} {_cell(estimate, signed=True)}, {_encoders(estimate.n)} ({where})",
        value=estimate.value,
        holds=low is not None and low > 0,
        reason=reason,
    )


def _contrastive(panels: Sequence[Panel]) -> list[tuple[Panel, MeasuredCurve]]:
    found = [(panel, curve) for panel in panels for curve in panel.of("contrastive")]
    if not found:
        raise _none_of("contrastive")
    return found


def _some(panels: Sequence[Panel], answer: Callable[[], Answer]) -> Callable[[], Answer]:
    """The same answer, or why there is none."""

    def checked() -> Answer:
        if not panels:
            raise QueryError(_NOTHING)
        return answer()

    return checked


def _none_of(kinds: str) -> QueryError:
    return QueryError(f"No task has curves of {kinds} encoders with a CCI; {HOW_TO_MEASURE} with such encoders.")


def _has_seen(curve: MeasuredCurve, panel: Panel) -> bool:
    """True if an encoder was pre-trained with the labels of the task."""
    return str(catalogue()[curve.encoder].pretraining.dataset) == panel.dataset


def _groups(both: Comparable) -> str:
    kinds = {curve.encoder: curve.kind for panel in both.classification for curve in panel.curves}
    counts = {kind: sum(own == kind for own in kinds.values()) for kind in SELF_SUPERVISED}
    return f"{both.dataset}: " + ", ".join(f"{count} {kind}" for kind, count in counts.items() if count)


def _encoders(n: int) -> str:
    return f"{n} encoder{'s' * (n != 1)}"


def _estimate(drawn: Drawn, *, n: int, unit: str = CCI, is_pulled: bool = False) -> Estimate:
    return estimate_of(drawn, term="", outcome="", n=n, unit=unit, method=METHOD, is_pulled=is_pulled)


def _cell(estimate: Estimate, *, signed: bool = False) -> str:
    return interval(estimate, digits=2, signed=signed)
