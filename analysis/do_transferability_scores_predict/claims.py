"""What is said of scores, and what is asked of them here; each statement stands above what decides it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from zoo.analysis.columns import Estimate
from zoo.analysis.correlations import HIGH, Floats
from zoo.analysis.selection import order, resamples
from zoo.errors import QueryError
from zoo.studies.findings import Answer, Claim, Claims, excludes_zero
from zoo.studies.tables import interval

from .measured import LABELLED, PROBED, REFERENCE, SCORES, Measurements
from .predicting import COMPARABLE, MOST, ORDER, REGRET, Quality, best_for_its_cost, seconds_by_score

SMALL = 0.5  # points of regret
FINE_TUNED = "the paper speaks of fine-tuned encoders, these are probed"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Found:
    """What the claims are held against."""

    quality: Quality
    measured: Measurements
    seconds: Mapping[str, Mapping[int, float]]

    def taken(self, score: str) -> float:
        """Seconds an encoder over all numbers of labels."""
        return sum(self.seconds[self.there(score)].values())

    def there(self, *scores: str) -> str:
        """The first of these scores; QueryError if one was not measured."""
        for score in scores:
            if score not in self.quality.scores:
                raise QueryError(f"{SCORES[score].label} was not measured; run scripts/measure_scores.py.")
        return scores[0]

    def kind(self, *kinds: str) -> list[str]:
        """The measured scores of these kinds."""
        return [name for name in self.quality.scores if SCORES[name].kind in kinds]


def found_in(measured: Measurements, quality: Quality) -> Found:
    """Order, regret and seconds."""
    return Found(quality=quality, measured=measured, seconds=seconds_by_score(measured))


def claims_of(found: Found) -> list[Claim]:
    """All claims."""
    every = (of_the_question, of_logme, of_h_score, of_stability, of_neighbours, of_rankme)
    return [claim for claims in every for claim in claims.judged(found)]


of_the_question = Claims(source="the question of this study")


@of_the_question(
    "With the same few labels, a score of labels chooses better than a probe of the same cost, left-out ridge",
    paper="less regret",
)
def a_score_beats_the_probe(found: Found) -> Answer:
    return _against_the_probe(found, REGRET, better=-1)


@of_the_question(
    "With the same few labels, a score of labels orders encoders better than a probe of the same cost",
    paper="higher tau",
)
def a_score_orders_better(found: Found) -> Answer:
    return _against_the_probe(found, ORDER, better=1)


def _against_the_probe(found: Found, what: str, *, better: int) -> Answer:
    cheap = [name for name in found.kind(LABELLED) if found.taken(name) <= COMPARABLE * found.taken(REFERENCE)]
    if not cheap:
        raise QueryError("No score of labels takes as little time as ridge regression; nothing is compared.")
    apart = {name: found.quality.against(what, name) for name in cheap}
    ahead = [name for name, one in apart.items() if better * (one.value or 0.0) > 0]
    surely = [name for name in ahead if excludes_zero(apart[name])]
    surely_behind = [name for name, one in apart.items() if better * (one.value or 0.0) < 0 and excludes_zero(one)]
    best = max(cheap, key=lambda name: better * (apart[name].value or 0.0))
    return Answer(
        ours=f"the best is {SCORES[best].label}: {_cell(apart[best])} against ridge; of {len(cheap)} scores "
        f"{len(ahead)} are better, {len(surely)} beyond their interval, and {len(surely_behind)} worse beyond it",
        holds=bool(surely),
        contradicted=len(surely_behind) == len(cheap),
        value=apart[best].value,
        reason="no score is better than the probe by more than chance",
        caveat=f"the best of several is chosen afterwards, which flatters it; same cost: at most {COMPARABLE:g} times "
        "the seconds",
    )


@of_the_question(
    "Leave-one-out ridge chooses as well as a logistic probe on the same labels, for less time", paper="as well"
)
def ridge_is_as_good(found: Found) -> Answer:
    found.there(REFERENCE, PROBED)
    more, faster = found.quality.against(REGRET, REFERENCE, PROBED), found.taken(PROBED) / found.taken(REFERENCE)
    return Answer(
        ours=f"regret {_cell(more)} points against the logistic probe, {faster:.1f} times as fast",
        holds=faster > 1 and not (excludes_zero(more) and (more.value or 0.0) > 0),
        value=more.value,
        reason="it chooses worse, or takes longer",
        caveat="as well: the interval of the difference holds 0, or lies below it",
    )


@of_the_question(
    "Of what sees a few labels, the left-out squares of ridge regression choose best for their cost", paper="ridge"
)
def ridge_is_best_for_its_cost(found: Found) -> Answer:
    best = best_for_its_cost(found.quality, found.seconds)
    regret, tau = (found.quality.pooled(what, best) for what in (REGRET, ORDER))
    return Answer(
        ours=f"{SCORES[best].label}: regret {_cell(regret, signed=False)} points, tau {_cell(tau, signed=False)}, "
        f"{1000 * found.taken(best) / len(found.seconds[best]):.0f} ms an encoder",
        holds=best == REFERENCE,
        value=regret.value,
        reason="another one is as good, to a quarter of a point, and faster, or better",
        caveat="of those with a regret near the least that are little slower than the fastest; of these encoders",
    )


@of_the_question("What is best with few labels is best with many", paper="the same")
def few_labels_tell_of_many(found: Found) -> Answer:
    lost = found.quality.pooled(REGRET, REFERENCE, MOST)
    own = found.quality.pooled(REGRET, REFERENCE)
    fewest = found.measured.labels[0]
    worst = max(
        found.measured.data, key=lambda data: found.quality.one(REGRET, REFERENCE, data, fewest, MOST).value or 0
    )
    there = found.quality.one(REGRET, REFERENCE, worst, fewest, MOST)
    return Answer(
        ours=f"choosing by {SCORES[REFERENCE].label} with fewer labels costs {_cell(lost, signed=False)} points "
        f"with {found.measured.labels[-1]} a class, with as many labels {_cell(own, signed=False)}; most on {worst} "
        f"from {fewest} labels a class, {_cell(there, signed=False)}",
        holds=(lost.value or 0.0) <= 2 * SMALL,
        contradicted=lost.ci_low is not None and lost.ci_low > 2 * SMALL,
        value=lost.value,
        reason="learning curves cross: wide features gain more from labels",
        caveat=f"the same: a regret of at most {2 * SMALL:g} point",
    )


of_logme = Claims(source="LogME (arXiv:2102.11005), abstract")


@of_logme("An encoder with a high LogME is likely to do well", paper="likely")
def logme_tells(found: Found) -> Answer:
    return _orders(found, "logme")


@of_logme("LogME is fast", paper="up to 3,000 times as fast as fine-tuning")
def logme_is_fast(found: Found) -> Answer:
    found.there("logme")
    times = found.taken(found.there(PROBED)) / found.taken("logme")
    return Answer(
        ours=f"{times:.1f} times as fast as a logistic probe on the same labels",
        holds=times > 1,
        contradicted=times < 1,
        value=times,
        reason="on few labels a probe takes no longer",
        caveat="nobody would fine-tune an encoder to judge it by a probe",
    )


@of_logme("What its authors publish as code orders encoders as the exact evidence does", paper="the same")
def published_code_is_exact(found: Found) -> Answer:
    found.there("logme", "logme_published")
    fewest = found.measured.labels[0]
    cells = [found.measured.cells[data, fewest] for data in found.measured.data]
    by_width = [_tau(cell.scores["logme_published"], cell.scores["width"]) for cell in cells]
    exact = [_tau(cell.scores["logme"], cell.scores["width"]) for cell in cells]
    both = [_tau(cell.scores["logme_published"], cell.scores["logme"]) for cell in cells]
    value = sum(both) / len(both)
    return Answer(
        ours=f"tau {value:.2f} between both with {fewest} labels a class; with the width of the features "
        f"{sum(by_width) / len(cells):.2f}, exact {sum(exact) / len(cells):.2f}",
        holds=value >= 0.9,
        value=value,
        reason="where there are fewer images than dimensions, the code leaves terms out of the determinant",
    )


of_h_score = Claims(source="shrunk H-score (arXiv:2110.06893), abstract")


@of_h_score("The shrunk H-score is competitive with LogME", paper="competitive")
def h_score_is_competitive(found: Found) -> Answer:
    found.there("h_score", "logme")
    apart = found.quality.against(ORDER, "h_score", "logme")
    behind = excludes_zero(apart) and (apart.value or 0.0) < 0
    return Answer(
        ours=f"tau {_cell(apart)} against LogME",
        holds=not behind,
        contradicted=behind,
        value=apart.value,
        reason="it orders encoders worse",
        caveat=f"competitive: not worse beyond the interval; {FINE_TUNED}",
    )


@of_h_score("The shrunk H-score is 3 to 10 times as fast as LogME", paper="3 to 10")
def h_score_is_faster(found: Found) -> Answer:
    found.there("h_score", "logme")
    times = found.taken("logme") / found.taken("h_score")
    return Answer(
        ours=f"{times:.1f} times as fast",
        holds=3 <= times <= 10,
        contradicted=times < 1,
        value=times,
        reason="both take one decomposition of the same matrix here",
        caveat="of these two implementations",
    )


of_stability = Claims(source="Agostinelli et al. 2022 (arXiv:2204.01403), abstract")


@of_stability("NLEEP is the best score to choose an architecture by, for images", paper="the best")
def nleep_is_best(found: Found) -> Answer:
    found.there("nleep")
    taus = {name: found.quality.pooled(ORDER, name) for name in found.kind(LABELLED)}
    best = max(taus, key=lambda name: taus[name].value or 0.0)
    return Answer(
        ours=f"tau {_cell(taus['nleep'], signed=False)}; the best is {SCORES[best].label} with "
        f"{_cell(taus[best], signed=False)}",
        holds=best == "nleep",
        value=taus["nleep"].value,
        reason="another score orders these encoders better",
        caveat=f"{FINE_TUNED}; theirs were trained on the same images and differ in architecture",
    )


@of_stability("No single score is best everywhere", paper="none")
def none_is_best_everywhere(found: Found) -> Answer:
    able = found.kind(LABELLED)
    if len(able) < 2:
        raise QueryError("Fewer than two scores of labels were measured.")
    first = {
        place: max(able, key=lambda name: found.quality.one(ORDER, name, *place).value or 0.0)
        for place in found.measured.cells
    }
    winners = sorted(set(first.values()), key=lambda name: -list(first.values()).count(name))
    counted = ", ".join(f"{SCORES[name].label} {list(first.values()).count(name)}" for name in winners)
    return Answer(
        ours=f"of {len(first)} data sets and numbers of labels: {counted}",
        holds=len(winners) > 1,
        contradicted=len(winners) == 1,
        reason="one score is first everywhere",
    )


of_neighbours = Claims(source="Sorkhei et al. 2025 (arXiv:2503.18528), abstract")


@of_neighbours("k-NN orders encoders better than scores made for it", paper="better")
def neighbours_are_better(found: Found) -> Answer:
    found.there("neighbours")
    apart = {name: found.quality.against(ORDER, "neighbours", name) for name in found.kind(LABELLED)}
    ahead = [name for name, one in apart.items() if (one.value or 0.0) > 0]
    surely = [name for name in ahead if excludes_zero(apart[name])]
    return Answer(
        ours=f"tau {_cell(found.quality.pooled(ORDER, 'neighbours'), signed=False)}, better than {len(ahead)} of "
        f"{len(apart)} scores, {len(surely)} beyond the interval",
        holds=len(ahead) == len(apart),
        contradicted=not ahead,
        value=found.quality.pooled(ORDER, "neighbours").value,
        reason="some score orders these encoders better",
        caveat=FINE_TUNED,
    )


of_rankme = Claims(source="RankMe (arXiv:2210.02885), abstract")


@of_rankme("RankMe tells without labels how well encoders do", paper="without labels")
def rankme_tells(found: Found) -> Answer:
    return _orders(found, "rankme", caveat="the paper chooses among trainings of one method on their own images")


def _orders(found: Found, score: str, *, caveat: str = FINE_TUNED) -> Answer:
    found.there(score)
    tau = found.quality.pooled(ORDER, score)
    return Answer(
        ours=f"tau {_cell(tau, signed=False)} (high: at least {HIGH:g}), that of ridge "
        f"{_cell(found.quality.pooled(ORDER, REFERENCE), signed=False)}",
        holds=tau.value is not None and tau.value >= HIGH,
        contradicted=tau.ci_high is not None and tau.ci_high < HIGH,
        value=tau.value,
        reason="it orders encoders otherwise",
        caveat=caveat,
    )


def _tau(scores: Floats, others: Floats) -> float:
    """Kendall's tau-b of two scores, a mean over draws of the labels."""
    everything = resamples(scores.shape[1], len(scores), n_resamples=0)
    return float(order(scores, -others, everything)[0])


def _cell(estimate: Estimate, *, signed: bool = True) -> str:
    return interval(estimate, digits=2, signed=signed)
