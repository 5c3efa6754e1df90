"""Do scores of a few labelled images predict which encoder will do best, better than a probe on the same labels?

Claim: transferability scores (LogME, H-score, GBC, NLEEP, TransRate) say from the features of labelled images how well
an encoder will do, without training anything, and label-free metrics say it without labels.

Expected: at the same cost, no score beats a probe on the same labels, leave-one-out ridge regression judged by its
squares. Over 24 encoders, three image sets and 5, 20 and 100 labels per class that chooses an encoder 0.6 points behind
the best (tau .76), exact LogME 0.6 (.72), ridge by errors 0.9, a logistic probe on halves 1.2 for five times the
seconds, k-NN 1.5, H-score 4.5, NLEEP 5.0, LogME as its authors publish it 5.5 (with fewer images than dimensions it
orders by width), TransRate 5.5, RankMe 5.7, GBC 6.0, a random pick 25. What is best with 5 labels per class need not be
with 100: that costs 1.8 points by the same ridge, nearly all of it on one image set.

Command: zoo study do_transferability_scores_predict
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing

from zoo.analysis.columns import Estimate
from zoo.analysis.correlations import HIGH, Floats
from zoo.analysis.table import StudyTable
from zoo.errors import QueryError
from zoo.evaluation.drawing import COLOURS, MARKS, Figure, draw_legend_below, make_figure, write_panel_letters
from zoo.studies.findings import (
    Claim,
    ClaimAnswer,
    Claims,
    Findings,
    FindingsTable,
    RowsUsed,
    answer_in_sentence,
    has_interval_without_zero,
    require_value,
)
from zoo.studies.running import StudyOptions
from zoo.studies.tables import format_estimate

from .measured import (
    ALL,
    BLIND,
    CHANCE,
    COMPARABLE,
    LABEL_FREE,
    LABELLED,
    MOST,
    ORDER,
    PROBE,
    PROBED,
    REFERENCE,
    REGRET,
    SAME,
    SCORES,
    Measurements,
    Quality,
    best_for_its_cost,
    featurising_seconds,
    measurements,
    quality_of,
    seconds_by_score,
)
from .selection import draw_resamples, order

READS_TABLE = False


def study(table: StudyTable, options: StudyOptions) -> Findings:
    """Scores against errors of probes; the table of encoders has no part in it."""
    measured = measurements()
    quality = quality_of(measured, seed=options.seed)
    found = found_in(measured, quality)
    return Findings(
        claims=claims_of(found),
        answer=answer_in_sentence(lambda: _answer(found)),
        estimates=list(quality.estimates()),
        tables=[
            *(quality_table(quality, what, target) for target in (SAME, MOST) for what in (REGRET, ORDER)),
            seconds_table(measured),
            *(data_table(quality, what) for what in (REGRET, ORDER)),
            encoders_table(measured),
        ],
        figures=[*(dots_figure(quality, what) for what in (REGRET, ORDER)), cost_figure(quality, measured)],
        rows=[
            RowsUsed(part=f"{data}, {labels} labels per class, {measured.n_draws} draws", used=len(measured.encoders))
            for data, labels in measured.cells
        ],
        notes=_notes(measured),
    )


def _answer(found: Found) -> str:
    cheap = [name for name in found.kind(LABELLED) if found.taken(name) <= COMPARABLE * found.taken(REFERENCE)]
    if not cheap:
        raise QueryError("No score of labels takes as little time as ridge regression; nothing is compared.")
    lost = {name: require_value(found.quality.pooled(REGRET, name)) for name in (*cheap, REFERENCE, CHANCE)}
    best = min(cheap, key=lambda name: lost[name])
    apart = found.quality.against(REGRET, best)
    is_better = has_interval_without_zero(apart) and require_value(apart) < 0
    return (
        f"{'Yes' if is_better else 'No'}: picked by the best score ({SCORES[best].label}) an encoder is "
        f"{lost[best]:.1f} points behind the best one, by ridge regression on the same labels {lost[REFERENCE]:.1f}, "
        f"at random {lost[CHANCE]:.0f} ({found.quality.n_encoders} encoders)."
    )


def _notes(measured: Measurements) -> list[str]:
    strong = [name for name in measured.encoders if not name.startswith("pocket_")]
    images = ", ".join(
        f"{data} ({facts['train']:,} and {facts['test']:,} images)"
        for data, facts in measured.provenance["images"].items()
    )
    missing = [score.label for name, score in SCORES.items() if name not in measured.scores]
    notes = [
        f"{len(measured.encoders)} encoders, of which {len(strong)} were trained on photographs ({', '.join(strong)}) "
        "and all others are tiny, alike, and trained on two of the three image sets: what scores say of encoders that "
        "differ less, or of a thousand, is not identified.",
        f"Three small image sets of ten classes, {images}; intervals are over encoders and draws of the labels alone. "
        "The test part of digits is small, so that regrets there are too large by part of a point (selection).",
        "Five encoders were trained on the training images of digits that labels are drawn from.",
        "The truth is the error of a probe, zoo-logistic-3, that chooses preparation and penalty by cross-validation "
        "with 5 and 20 labels per class, and on a fifth of the labels with 100.",
        "The penalty of the logistic probe on halves is fixed, after a look at one draw of the labels of digits.",
        "Neither fine-tuning nor any other use of an encoder was measured.",
    ]
    return notes + ([f"Not measured: {', '.join(missing)}."] if missing else [])


SMALL = 0.5  # points of regret
FINE_TUNED = "the paper speaks of fine-tuned encoders, these are probed"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Found:
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
    every = (of_the_question, of_logme, of_h_score, of_stability, of_neighbours, of_rankme)
    return [claim for claims in every for claim in claims.judged(found)]


of_the_question = Claims(source="the question of this study")


@of_the_question(
    "With the same few labels, a score of labels chooses better than a probe of the same cost, left-out ridge",
    paper="less regret",
)
def a_score_beats_the_probe(found: Found) -> ClaimAnswer:
    return _against_the_probe(found, REGRET, better=-1)


@of_the_question(
    "With the same few labels, a score of labels orders encoders better than a probe of the same cost",
    paper="higher tau",
)
def a_score_orders_better(found: Found) -> ClaimAnswer:
    return _against_the_probe(found, ORDER, better=1)


def _against_the_probe(found: Found, what: str, *, better: int) -> ClaimAnswer:
    cheap = [name for name in found.kind(LABELLED) if found.taken(name) <= COMPARABLE * found.taken(REFERENCE)]
    if not cheap:
        raise QueryError("No score of labels takes as little time as ridge regression; nothing is compared.")
    apart = {name: found.quality.against(what, name) for name in cheap}
    ahead = [name for name, one in apart.items() if better * (one.value or 0.0) > 0]
    surely = [name for name in ahead if has_interval_without_zero(apart[name])]
    surely_behind = [
        name for name, one in apart.items() if better * (one.value or 0.0) < 0 and has_interval_without_zero(one)
    ]
    best = max(cheap, key=lambda name: better * (apart[name].value or 0.0))
    return ClaimAnswer(
        ours=f"the best is {SCORES[best].label}: {_cell(apart[best])} against ridge; of {len(cheap)} scores "
        f"{len(ahead)} are better, {len(surely)} beyond their interval, and {len(surely_behind)} worse beyond it",
        holds=bool(surely),
        contradicted=len(surely_behind) == len(cheap),
        value=apart[best].value,
        reason="no score is better than the probe by more than chance",
        caveat=f"the best of several is selected afterwards, which is optimistic; same cost: at most "
        f"{COMPARABLE:g} times the seconds",
    )


@of_the_question(
    "Leave-one-out ridge chooses as well as a logistic probe on the same labels, for less time", paper="as well"
)
def ridge_is_as_good(found: Found) -> ClaimAnswer:
    found.there(REFERENCE, PROBED)
    more, faster = found.quality.against(REGRET, REFERENCE, PROBED), found.taken(PROBED) / found.taken(REFERENCE)
    return ClaimAnswer(
        ours=f"regret {_cell(more)} points against the logistic probe, {faster:.1f} times as fast",
        holds=faster > 1 and not (has_interval_without_zero(more) and (more.value or 0.0) > 0),
        value=more.value,
        reason="it chooses worse, or takes longer",
        caveat="as well: the interval of the difference holds 0, or lies below it",
    )


@of_the_question(
    "Of what sees a few labels, the left-out squares of ridge regression choose best for their cost", paper="ridge"
)
def ridge_is_best_for_its_cost(found: Found) -> ClaimAnswer:
    best = best_for_its_cost(found.quality, found.seconds)
    regret, tau = (found.quality.pooled(what, best) for what in (REGRET, ORDER))
    return ClaimAnswer(
        ours=f"{SCORES[best].label}: regret {_cell(regret, signed=False)} points, tau {_cell(tau, signed=False)}, "
        f"{1000 * found.taken(best) / len(found.seconds[best]):.0f} ms per encoder",
        holds=best == REFERENCE,
        value=regret.value,
        reason="another one is as good, to a quarter of a point, and faster, or better",
        caveat="of those with a regret near the least that are little slower than the fastest; of these encoders",
    )


@of_the_question("What is best with few labels is best with many", paper="the same")
def few_labels_tell_of_many(found: Found) -> ClaimAnswer:
    lost = found.quality.pooled(REGRET, REFERENCE, MOST)
    own = found.quality.pooled(REGRET, REFERENCE)
    fewest = found.measured.labels[0]
    worst = max(
        found.measured.data, key=lambda data: found.quality.one(REGRET, REFERENCE, data, fewest, MOST).value or 0
    )
    there = found.quality.one(REGRET, REFERENCE, worst, fewest, MOST)
    return ClaimAnswer(
        ours=f"choosing by {SCORES[REFERENCE].label} with fewer labels costs {_cell(lost, signed=False)} points "
        f"with {found.measured.labels[-1]} a class, with as many labels {_cell(own, signed=False)}; most on {worst} "
        f"from {fewest} labels per class, {_cell(there, signed=False)}",
        holds=(lost.value or 0.0) <= 2 * SMALL,
        contradicted=lost.ci_low is not None and lost.ci_low > 2 * SMALL,
        value=lost.value,
        reason="learning curves cross: wide features gain more from labels",
        caveat=f"the same: a regret of at most {2 * SMALL:g} point",
    )


of_logme = Claims(source="LogME (arXiv:2102.11005), abstract")


@of_logme("An encoder with a high LogME is likely to do well", paper="likely")
def logme_tells(found: Found) -> ClaimAnswer:
    return _orders(found, "logme")


@of_logme("LogME is fast", paper="up to 3,000 times as fast as fine-tuning")
def logme_is_fast(found: Found) -> ClaimAnswer:
    found.there("logme")
    times = found.taken(found.there(PROBED)) / found.taken("logme")
    return ClaimAnswer(
        ours=f"{times:.1f} times as fast as a logistic probe on the same labels",
        holds=times > 1,
        contradicted=times < 1,
        value=times,
        reason="on few labels a probe takes no longer",
        caveat="nobody would fine-tune an encoder to judge it by a probe",
    )


@of_logme("What its authors publish as code orders encoders as the exact evidence does", paper="the same")
def published_code_is_exact(found: Found) -> ClaimAnswer:
    found.there("logme", "logme_published")
    fewest = found.measured.labels[0]
    cells = [found.measured.cells[data, fewest] for data in found.measured.data]
    by_width = [_tau(cell.scores["logme_published"], cell.scores["width"]) for cell in cells]
    exact = [_tau(cell.scores["logme"], cell.scores["width"]) for cell in cells]
    both = [_tau(cell.scores["logme_published"], cell.scores["logme"]) for cell in cells]
    value = sum(both) / len(both)
    return ClaimAnswer(
        ours=f"tau {value:.2f} between both with {fewest} labels per class; with the width of the features "
        f"{sum(by_width) / len(cells):.2f}, exact {sum(exact) / len(cells):.2f}",
        holds=value >= 0.9,
        value=value,
        reason="where there are fewer images than dimensions, the code leaves terms out of the determinant",
    )


of_h_score = Claims(source="shrunk H-score (arXiv:2110.06893), abstract")


@of_h_score("The shrunk H-score is competitive with LogME", paper="competitive")
def h_score_is_competitive(found: Found) -> ClaimAnswer:
    found.there("h_score", "logme")
    apart = found.quality.against(ORDER, "h_score", "logme")
    behind = has_interval_without_zero(apart) and (apart.value or 0.0) < 0
    return ClaimAnswer(
        ours=f"tau {_cell(apart)} against LogME",
        holds=not behind,
        contradicted=behind,
        value=apart.value,
        reason="it orders encoders worse",
        caveat=f"competitive: not worse beyond the interval; {FINE_TUNED}",
    )


@of_h_score("The shrunk H-score is 3 to 10 times as fast as LogME", paper="3 to 10")
def h_score_is_faster(found: Found) -> ClaimAnswer:
    found.there("h_score", "logme")
    times = found.taken("logme") / found.taken("h_score")
    return ClaimAnswer(
        ours=f"{times:.1f} times as fast",
        holds=3 <= times <= 10,
        contradicted=times < 1,
        value=times,
        reason="both take one decomposition of the same matrix here",
        caveat="of these two implementations",
    )


of_stability = Claims(source="Agostinelli et al. 2022 (arXiv:2204.01403), abstract")


@of_stability("NLEEP is the best score to choose an architecture by, for images", paper="the best")
def nleep_is_best(found: Found) -> ClaimAnswer:
    found.there("nleep")
    taus = {name: found.quality.pooled(ORDER, name) for name in found.kind(LABELLED)}
    best = max(taus, key=lambda name: taus[name].value or 0.0)
    return ClaimAnswer(
        ours=f"tau {_cell(taus['nleep'], signed=False)}; the best is {SCORES[best].label} with "
        f"{_cell(taus[best], signed=False)}",
        holds=best == "nleep",
        value=taus["nleep"].value,
        reason="another score orders these encoders better",
        caveat=f"{FINE_TUNED}; theirs were trained on the same images and differ in architecture",
    )


@of_stability("No single score is best everywhere", paper="none")
def none_is_best_everywhere(found: Found) -> ClaimAnswer:
    able = found.kind(LABELLED)
    if len(able) < 2:
        raise QueryError("Fewer than two scores of labels were measured.")
    first = {
        place: max(able, key=lambda name: found.quality.one(ORDER, name, *place).value or 0.0)
        for place in found.measured.cells
    }
    winners = sorted(set(first.values()), key=lambda name: -list(first.values()).count(name))
    counted = ", ".join(f"{SCORES[name].label} {list(first.values()).count(name)}" for name in winners)
    return ClaimAnswer(
        ours=f"of {len(first)} data sets and numbers of labels: {counted}",
        holds=len(winners) > 1,
        contradicted=len(winners) == 1,
        reason="one score is first everywhere",
    )


of_neighbours = Claims(source="Sorkhei et al. 2025 (arXiv:2503.18528), abstract")


@of_neighbours("k-NN orders encoders better than scores made for it", paper="better")
def neighbours_are_better(found: Found) -> ClaimAnswer:
    found.there("neighbours")
    apart = {name: found.quality.against(ORDER, "neighbours", name) for name in found.kind(LABELLED)}
    ahead = [name for name, one in apart.items() if (one.value or 0.0) > 0]
    surely = [name for name in ahead if has_interval_without_zero(apart[name])]
    return ClaimAnswer(
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
def rankme_tells(found: Found) -> ClaimAnswer:
    return _orders(found, "rankme", caveat="the paper chooses among trainings of one method on their own images")


def _orders(found: Found, score: str, *, caveat: str = FINE_TUNED) -> ClaimAnswer:
    found.there(score)
    tau = found.quality.pooled(ORDER, score)
    return ClaimAnswer(
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
    everything = draw_resamples(scores.shape[1], len(scores), n_resamples=0)
    return float(order(scores, -others, everything)[0])


def _cell(estimate: Estimate, *, signed: bool = True) -> str:
    return format_estimate(estimate, digits=2, signed=signed)


_WHAT = {
    ORDER: "Kendall's tau of score and true accuracy",
    REGRET: "Regret of the choice, in percentage points",
}


def quality_table(quality: Quality, what: str, target: str) -> FindingsTable:
    """One row per score, one column per number of labels; means over data sets."""
    numbers = quality.labels if target == SAME else quality.labels[:-1]
    names = [*quality.scores, *([CHANCE] if what == REGRET else [])]
    rows = [
        [
            _label(name),
            *(
                format_estimate(quality.one(what, name, ALL, labels, target), digits=2, signed=False)
                for labels in numbers
            ),
            ""
            if name in (CHANCE, REFERENCE)
            else format_estimate(quality.against(what, name, target=target), digits=2),
        ]
        for name in names
    ]
    of = "as many labels" if target == SAME else f"{quality.labels[-1]} labels per class"
    return FindingsTable(
        title=f"{_WHAT[what]}, for a probe with {of}",
        headers=["score", *(f"{labels} labels per class" for labels in numbers), "less that of left-out ridge, paired"],
        rows=rows,
        note=f"Means over {len(quality.data)} data sets and {quality.n_draws} draws of the labels, with 95 % intervals "
        f"over {quality.n_encoders} encoders and draws. Left-out ridge is judged by its squares.",
    )


def data_table(quality: Quality, what: str) -> FindingsTable:
    """One row per score, one column per data set and number of labels."""
    names = [*quality.scores, *([CHANCE] if what == REGRET else [])]
    places = [(data, labels) for data in quality.data for labels in quality.labels]
    return FindingsTable(
        title=f"{_WHAT[what]}, by data set",
        headers=["score", *(f"{data}, {labels}" for data, labels in places)],
        rows=[[_label(name), *(f"{quality.one(what, name, *place).value:.2f}" for place in places)] for name in names],
        note="Labels per class behind the data set; for a probe with as many labels.",
    )


def seconds_table(measured: Measurements) -> FindingsTable:
    """One row per score: seconds per encoder, and as a share of those of featurising the same images."""
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
    return FindingsTable(
        title="Seconds of the processor an encoder, means over encoders and data sets",
        headers=["score", *(f"{labels} labels per class" for labels in measured.labels), "times ridge"],
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


def encoders_table(measured: Measurements) -> FindingsTable:
    """One row per encoder: its true errors and what an image costs."""
    places = [(data, labels) for data in measured.data for labels in measured.labels]
    speed = np.mean([measured.seconds_an_image[data] for data in measured.data], axis=0)
    return FindingsTable(
        title="True errors in percent, means over draws of the labels",
        headers=["encoder", *(f"{data}, {labels}" for data, labels in places), "milliseconds per image"],
        rows=[
            [
                name,
                *(f"{measured.cells[place].errors[:, number].mean():.1f}" for place in places),
                f"{1000 * speed[number]:.2g}",
            ]
            for number, name in enumerate(measured.encoders)
        ],
    )


def _label(name: str) -> str:
    return SCORES[name].label if name in SCORES else name


_INKS = dict(zip((PROBE, LABELLED, LABEL_FREE, BLIND), ("#0072B2", "#D55E00", "#009E73", "#444444"), strict=True))


_DOTS = {  # name, title and caption of a figure, and its axis
    REGRET: (
        "regret_of_scores",
        "What choosing by a score of a few labels costs",
        "Error of the encoder that a score chooses less that of the best one, in percentage points, of probes with as "
        "many labels",
        "regret [points]\nlower is better",
    ),
    ORDER: (
        "order_of_scores",
        "How well scores of a few labels order encoders",
        "Kendall's tau between score and the accuracy of a probe with as many labels",
        "Kendall's tau [-1 to 1]\nhigher is better",
    ),
}


def dots_figure(quality: Quality, what: str) -> Figure:
    """Order or regret of every score, by number of labels and data set."""
    name, title, caption, axis = _DOTS[what]
    panels = ", ".join(f"({chr(ord('a') + place)}) {labels}" for place, labels in enumerate(quality.labels))
    return Figure(
        name=name,
        title=title,
        caption=f"{caption}, of {quality.n_encoders} encoders, with {panels} labels per class. Small marks are the "
        f"data sets, means over {quality.n_draws} draws of the labels; large dots are their means, with 95 % intervals "
        "over encoders and draws, coloured by kind of score.",
        draw=lambda: _draw_dots(quality, what, axis),
    )


def _draw_dots(quality: Quality, what: str, axis: str) -> Drawing:
    drawing, panels = make_figure(
        height=0.9 + 0.22 * len(quality.scores), n_columns=len(quality.labels), sharey=True, sharex=True
    )
    for panel, labels in zip(panels, quality.labels, strict=True):
        for place, name in enumerate(quality.scores):
            for number, data in enumerate(quality.data):
                value = quality.one(what, name, data, labels).value or 0.0
                panel.plot(
                    value, -place, MARKS[1 + number], color="#999999", markersize=2.5, label=data if not place else None
                )
            one = quality.one(what, name, ALL, labels)
            if one.ci_low is not None and one.ci_high is not None:
                panel.hlines(-place, one.ci_low, one.ci_high, color=_INKS[SCORES[name].kind], linewidth=1.2)
            panel.plot(one.value or 0.0, -place, "o", color=_INKS[SCORES[name].kind], markersize=4.5)
        _set_scores(panel, quality)
        panel.set_xlabel(axis)
        if what == REGRET:  # most are small
            panel.set_xscale("symlog", linthresh=1)
            panel.set_xticks([0, 1, 10, 50], ["0", "1", "10", "50"])
            panel.minorticks_off()
    write_panel_letters(panels, [f"{labels} labels per class" for labels in quality.labels])
    for kind, ink in _INKS.items():
        panels[0].plot([], [], "o-", color=ink, label=kind)
    draw_legend_below(drawing, panels[0], n_columns=4)
    return drawing


def cost_figure(quality: Quality, measured: Measurements) -> Figure:
    """Regret for the most labels next to seconds, by number of labels."""
    return Figure(
        name="regret_and_seconds",
        title="What a choice for later costs and takes",
        caption="(a) Error, by probes "
        f"with {quality.labels[-1]} labels per class, of the encoder that a score of fewer labels chooses less that of "
        f"the best one, in percentage points: means over {len(quality.data)} data sets and {quality.n_draws} draws, "
        f"with 95 % intervals over {quality.n_encoders} encoders and draws. (b) Seconds that a score takes "
        "an encoder, on one thread.",
        draw=lambda: _draw_cost(quality, measured),
    )


def _draw_cost(quality: Quality, measured: Measurements) -> Drawing:
    drawing, (left, right) = make_figure(height=1.0 + 0.22 * len(quality.scores), n_columns=2, sharey=True)
    seconds = seconds_by_score(measured)
    for number, labels in enumerate(quality.labels):
        ink, mark, shift = COLOURS[number], MARKS[number], 0.22 * (1 - number)
        for place, name in enumerate(quality.scores):
            if labels != quality.labels[-1]:
                one = quality.one(REGRET, name, ALL, labels, MOST)
                if one.ci_low is not None and one.ci_high is not None:
                    left.hlines(shift - place, one.ci_low, one.ci_high, color=ink, linewidth=1.0)
                left.plot(one.value or 0.0, shift - place, mark, color=ink)
            taken = seconds[name][labels] if SCORES[name].kind != BLIND else math.nan
            right.plot(taken, shift - place, mark, color=ink, label=f"{labels} labels per class" if not place else None)
    for panel in (left, right):
        _set_scores(panel, quality)
    left.set_xlabel("regret with the most labels [points]\nlower is better")
    right.set_xlabel("time an encoder takes [seconds]\nlower is better")
    right.set_xscale("log")
    write_panel_letters([left, right])
    draw_legend_below(drawing, right, n_columns=3)
    return drawing


def _set_scores(panel: Axes, quality: Quality) -> None:
    panel.set_yticks([-place for place in range(len(quality.scores))], [SCORES[name].label for name in quality.scores])
    panel.set_ylim(-len(quality.scores) + 0.4, 0.6)
