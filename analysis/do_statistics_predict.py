"""Do statistics of the features predict how well a probe on them does?

Claim: over ResNet-50s, error = 93 - 9.5 log(effective dimensionality) - 0.51 uniformity + 4.4 alignment (Eq. 26), with
R2 .58; only the effective dimensionality matters (p 4e-11 against .74 and .59), three times of it gives 10 points;
uniformity without it has a coefficient of 6 (p .001, R2 .19); alignment of images of one class has 40.7 (p 6e-7).

Expected: every one of these numbers, from 70 ResNet-50s, natural logarithm, the error not logged (the text says it is);
alignment within a class has r -.32 with the error, the other way. Five encoders that predict a transformation carry
this: without them three times the dimensionality gives 6 points, uniformity counts (-6.1, p 2e-4), and that r is .51.

Command: zoo study do_statistics_predict
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import pandas as pd
from matplotlib.figure import Figure as Drawing

from zoo.analysis.columns import Estimate
from zoo.analysis.correlations import HIGH, correlate_columns, is_high
from zoo.analysis.linear import OlsFit, build_design, fit_ols
from zoo.analysis.table import StudyTable
from zoo.errors import QueryError
from zoo.evaluation.drawing import (
    MODE_COLOURS,
    Figure,
    draw_legend_below,
    make_figure,
    plot_groups,
    write_above,
    write_panel_letters,
)
from zoo.studies.findings import (
    NOT_AVAILABLE,
    Claim,
    ClaimAnswer,
    Claims,
    Findings,
    FindingsTable,
    RowsUsed,
    answer_in_sentence,
    describe_hc3_change,
    format_statement,
    number_claim,
    require_value,
)
from zoo.studies.running import StudyOptions
from zoo.studies.tables import count_rows_used, format_unsigned, label_risk_axis

ERROR, RANK, UNIFORMITY, ALIGNMENT = "train_test", "train_rank", "train_uniformity", "trainrealaug_alignment"
CLASS_ALIGNMENT = "train_alignment"
STATISTICS = (RANK, UNIFORMITY, ALIGNMENT)
LOG_RANK = f"log({RANK})"
MAIN, WITHOUT, WITHIN = "Eq. 26", "Eq. 26 without effective dimensionality", "Eq. 26 with alignment within a class"
MODELS = {  # logarithms, numbers
    MAIN: ((RANK,), (UNIFORMITY, ALIGNMENT)),
    WITHOUT: ((), (UNIFORMITY, ALIGNMENT)),
    WITHIN: ((RANK,), (UNIFORMITY, ALIGNMENT, CLASS_ALIGNMENT)),
}
TRANSFORM = "transform"  # ssl_mode of encoders that predict a transformation of the image: far from all others
OTHERS = ", without transformation tasks"
FEWEST = 10  # rows of a regression on up to four statistics
SOURCE = "Appendix F.6"
NOTES = (
    "Errors of probes on normalised features were not published: those panels of Figure 33 cannot be drawn.",
    "A coefficient says what goes with a statistic while the others stay; nothing was changed on purpose.",
)
_FEW = f"fewer than {FEWEST} ResNet-50s of the table have alignment within a class"

Fits = Mapping[str, OlsFit]  # by the name of the model, with OTHERS behind it for the smaller rows
Pairs = Mapping[str, tuple[Estimate, Estimate]]  # Pearson and Kendall, by "first with second", and OTHERS


def study(table: StudyTable, options: StudyOptions) -> Findings:
    """Regressions of the full-shot error of ResNet-50s on statistics of their features."""
    resnets = table.only(table.frame.index[table.frame["architecture_exact"] == "resnet50"], because="not a ResNet-50")
    rows = resnets.frame.dropna(subset=[ERROR, *STATISTICS])
    if len(rows) < FEWEST:
        raise QueryError(
            f"{len(rows)} ResNet-50s of the table have {', '.join((ERROR, *STATISTICS))}, expected at least {FEWEST} "
            "for a regression; measure them for more."
        )
    others = rows[rows["ssl_mode"] != TRANSFORM]
    gone = len(rows) - len(others)
    fits = {**_fits(rows), **({f"{name}{OTHERS}": fit for name, fit in _fits(others).items()})}
    alone = {**_correlations(rows), **({f"{name}{OTHERS}": pair for name, pair in _correlations(others).items()})}
    return Findings(
        claims=[
            *_number_claims(fits),
            _as_the_text_states(rows, fits),
            *statements.judged(fits, alone),
        ],
        answer=answer_in_sentence(lambda: _answer(fits)),
        estimates=[
            *(one.described(method=name) for name, fit in fits.items() for one in fit.estimates),
            *_threefold(fits),
            *(
                one.described(method=f"{one.method}{OTHERS if OTHERS in name else ''}")
                for name, pair in alone.items()
                for one in pair
            ),
        ],
        tables=[_coefficients(fits), _alone(alone)],
        figures=[
            Figure(
                name="figure33",
                title="Statistics of features against full-shot error (Figure 33)",
                caption=f"Full-shot error in percent, lower is better, of {len(rows)} ResNet-50s against effective "
                "dimensionality (rank of the correlation matrix, logarithmic axis), uniformity, and alignment of two "
                "augmentations of an image; r is Pearson's, with the logarithm of the dimensionality.",
                draw=lambda: _draw(rows, alone),
            )
        ],
        rows=[
            used := count_rows_used("Eq. 26, ResNet-50s", resnets, ERROR, *STATISTICS, of=table),
            RowsUsed(
                part=f"Eq. 26{OTHERS}",
                used=len(others),
                left_out={**used.left_out, **({"transformation task": gone} if gone else {})},
            ),
        ],
        notes=[*_fragile(fits, alone, gone), *NOTES],
    )


def _answer(fits: Fits) -> str:
    rank, fit = _threefold(fits)[0], fits[MAIN]
    others = [name for name in (UNIFORMITY, ALIGNMENT) if _significant(fit.estimate(name))]
    is_less = require_value(rank) < 0
    return (
        f"Threefold effective dimensionality goes with {format_statement(rank, 1, unit='points', is_turned=is_less)} "
        f"{'less' if is_less else 'more'} accuracy, over {fit.n} ResNet-50s; with it "
        f"{' and '.join(others) or 'neither uniformity nor alignment'} {'predict' if len(others) > 1 else 'predicts'} "
        "it."
    )


def _fits(rows: pd.DataFrame) -> dict[str, OlsFit]:
    found = {}
    for name, (log, numeric) in MODELS.items():
        complete = rows.dropna(subset=[*log, *numeric])
        if len(complete) >= FEWEST:
            design = build_design(complete, log=log, numeric=numeric)
            found[name] = fit_ols(
                design.matrix, complete[ERROR], outcome_name=ERROR, unit=design.units("percent"), method=name
            )
    return found


def _correlations(rows: pd.DataFrame) -> dict[str, tuple[Estimate, Estimate]]:
    """Each statistic alone with the error, and with others where the paper speaks of it."""
    logged = rows.assign(**{LOG_RANK: rows[RANK].map(math.log)})
    pairs = [(name, ERROR) for name in (LOG_RANK, UNIFORMITY, ALIGNMENT, CLASS_ALIGNMENT)]
    pairs += [(UNIFORMITY, LOG_RANK), (UNIFORMITY, CLASS_ALIGNMENT)]
    return {
        f"{first} with {second}": correlate_columns(logged[first], logged[second], term=first, outcome=second)
        for first, second in pairs
        if len(logged.dropna(subset=[first, second])) >= FEWEST
    }


def _threefold(fits: Fits) -> list[Estimate]:
    """What three times the effective dimensionality goes with, in percentage points of accuracy."""
    slopes = {name: fits[name].estimate(LOG_RANK) for name in (MAIN, f"{MAIN}{OTHERS}") if name in fits}
    factor = -math.log(3)
    return [
        one.described(
            term="three times the effective dimensionality",
            outcome="full-shot accuracy",
            method=name,
            unit="percentage points",
            value=factor * one.value,
            ci_low=factor * one.ci_high,
            ci_high=factor * one.ci_low,
            ci_low_robust=None,
            ci_high_robust=None,
        )
        for name, one in slopes.items()
        if one.p is not None and one.value is not None and one.ci_low is not None and one.ci_high is not None
    ]


def _fragile(fits: Fits, alone: Pairs, n_gone: int) -> list[str]:
    """What the claims that hold on all rows owe to a few of them, and to other statistics in the model."""
    notes, two = [], _threefold(fits)
    if WITHIN in fits and _significant(beside := fits[WITHIN].estimate(UNIFORMITY)):
        notes.append(
            "Uniformity is not predictive in Eq. 26, but with alignment within a class too, its correlate (VIF "
            f"{_vif(fits[WITHIN], UNIFORMITY):.1f}), it has {_coefficient(beside)}."
        )
    if len(two) == 2 and n_gone:
        pairs = [f"{UNIFORMITY} with {LOG_RANK}", f"{CLASS_ALIGNMENT} with {ERROR}"]
        moved = [
            f"{name} by r {format_unsigned(alone[name + OTHERS][0])} instead of {alone[name][0].value:.2f}"
            for name in pairs
            if name + OTHERS in alone
        ]
        uniformity = _coefficient(fits[f"{MAIN}{OTHERS}"].estimate(UNIFORMITY))
        notes.append(
            f"{n_gone} encoders that predict a transformation have errors and statistics far from all others, and "
            "Eq. 26 leans on them: without them three times the effective dimensionality goes with "
            f"{format_unsigned(two[1])} "
            f"points instead of {two[0].value:.1f}; uniformity has {uniformity}; {', '.join(moved)}."
        )
    return notes


def _number_claims(fits: Fits) -> list[Claim]:
    def of(model: str, term: str, what: str = "value") -> float | None:
        return getattr(fits[model].estimate(term), what) if model in fits else None

    threefold = next((one.value for one in _threefold(fits) if one.method == MAIN), None)
    rows = [
        ("Coefficient of constant in Eq. 26", "93", of(MAIN, "constant")),
        ("Coefficient of log(effective dimensionality) in Eq. 26", "-9.5", of(MAIN, LOG_RANK)),
        ("Coefficient of uniformity in Eq. 26", "-0.51", of(MAIN, UNIFORMITY)),
        ("Coefficient of alignment in Eq. 26", "4.4", of(MAIN, ALIGNMENT)),
        ("R2 of Eq. 26", "0.58", fits[MAIN].r_squared),
        ("p-value of log(effective dimensionality) in Eq. 26", "4e-11", of(MAIN, LOG_RANK, "p")),
        ("p-value of uniformity in Eq. 26", "0.74", of(MAIN, UNIFORMITY, "p")),
        ("p-value of alignment in Eq. 26", "0.59", of(MAIN, ALIGNMENT, "p")),
        ("Points of accuracy that go with three times the effective dimensionality", "10", threefold),
        ("Coefficient of uniformity without effective dimensionality", "6", of(WITHOUT, UNIFORMITY)),
        ("p-value of uniformity without effective dimensionality", "0.001", of(WITHOUT, UNIFORMITY, "p")),
        ("R2 without effective dimensionality", "0.19", fits[WITHOUT].r_squared),
        ("Coefficient of alignment within a class beside Eq. 26", "40.7", of(WITHIN, CLASS_ALIGNMENT)),
        ("p-value of alignment within a class beside Eq. 26", "6e-7", of(WITHIN, CLASS_ALIGNMENT, "p")),
    ]
    tested = {
        "p-value of log(effective dimensionality) in Eq. 26": (MAIN, LOG_RANK),
        "p-value of uniformity without effective dimensionality": (WITHOUT, UNIFORMITY),
        "p-value of alignment within a class beside Eq. 26": (WITHIN, CLASS_ALIGNMENT),
    }
    caveats = {
        claim: describe_hc3_change(fits[model].estimate(term))
        for claim, (model, term) in tested.items()
        if model in fits
    }
    return [
        number_claim(
            claim,
            source=SOURCE,
            printed=printed,
            ours=ours,
            reason="" if ours is not None else _FEW,
            caveat=caveats.get(claim, ""),
            shown=None if ours is not None else NOT_AVAILABLE,
        )
        for claim, printed, ours in rows
    ]


def _as_the_text_states(rows: pd.DataFrame, fits: Fits) -> Claim:
    """The text says that the logarithm of the error is explained."""
    design = build_design(rows, log=(RANK,), numeric=(UNIFORMITY, ALIGNMENT))
    logged = fit_ols(design.matrix, rows[ERROR].map(math.log), outcome_name="log error", unit="", method="logged")
    return number_claim(
        "R2 of the model as the text states it, of log(agg_risk)",
        source=SOURCE,
        printed="0.58",
        ours=logged.r_squared,
        as_the_paper_did=fits[MAIN].r_squared,
        reason="the printed coefficients and R2 are those of the error itself, not of its logarithm",
    )


statements = Claims(source=SOURCE)


@statements("Uniformity is highly correlated with effective dimensionality", paper="highly correlated")
def uniformity_goes_with_the_rank(fits: Fits, alone: Pairs) -> ClaimAnswer:
    r = alone[f"{UNIFORMITY} with {LOG_RANK}"][0]
    return ClaimAnswer(
        ours=f"r {format_unsigned(r)} (high: at least {HIGH:g} in size)",
        holds=is_high(r),
        contradicted=not is_high(r),
        value=r.value,
        reason=f"r is below {HIGH:g} in size",
    )


@statements("Beyond effective dimensionality, uniformity is not predictive", paper="p 0.74")
def uniformity_adds_nothing(fits: Fits, alone: Pairs) -> ClaimAnswer:
    uniformity = fits[MAIN].estimate(UNIFORMITY)
    return ClaimAnswer(
        ours=f"p {_p(uniformity)} in Eq. 26",
        holds=not _significant(uniformity),
        value=uniformity.p,
        contradicted=_significant(uniformity),
        reason=f"it has {_coefficient(uniformity)} in Eq. 26",
    )


@statements("Alignment of augmentations does not correlate with performance", paper="p 0.59")
def alignment_does_not_predict(fits: Fits, alone: Pairs) -> ClaimAnswer:
    aligned, r = fits[MAIN].estimate(ALIGNMENT), alone[f"{ALIGNMENT} with {ERROR}"][0]
    return ClaimAnswer(
        ours=f"p {_p(aligned)} in Eq. 26, {_p(r)} alone (r {r.value:.2f})",
        holds=not _significant(aligned) and not _significant(r),
        value=r.value,
        contradicted=_significant(r),
        reason="it is significant alone or with the others",
    )


@statements("Alignment within a class is highly correlated with performance", paper="coefficient 40.7, p 6e-7")
def alignment_within_a_class_predicts(fits: Fits, alone: Pairs) -> ClaimAnswer:
    pair = f"{CLASS_ALIGNMENT} with {ERROR}"
    if WITHIN not in fits or pair not in alone:
        raise QueryError(_FEW)
    r, conditional = alone[pair][0], fits[WITHIN].estimate(CLASS_ALIGNMENT)
    return ClaimAnswer(
        ours=f"r {format_unsigned(r)} with the error (high: at least {HIGH:g})",
        holds=is_high(r, sign=1),
        value=r.value,
        held_as_the_paper_did=_significant(conditional) and (conditional.value or 0) > 0,
        reason="the printed coefficient is adjusted for three other statistics; alone, images of one class that lie "
        f"farther apart go with {'less' if (r.value or 0) < 0 else 'more'} error on the same rows",
    )


@statements("Normalising features lowers accuracy by 0.44 +- 0.28 points", paper="0.44 +- 0.28")
def normalising_lowers_accuracy(fits: Fits, alone: Pairs) -> ClaimAnswer:
    raise QueryError("the errors of probes on normalised features were not published")


def _vif(fit: OlsFit, term: str) -> float:
    """Variance inflation factor: how often the variance of a coefficient is that among unrelated statistics."""
    others = fit.design.drop(columns=term)
    r_squared = fit_ols(others, fit.design[term], outcome_name=term, unit="", method="collinearity").r_squared
    return 1 / (1 - r_squared) if r_squared < 1 else math.inf


def _coefficients(fits: Mapping[str, OlsFit]) -> FindingsTable:
    rows = []
    for name, fit in fits.items():
        for one in fit.estimates:
            vif = "" if one.term == "constant" else f"{_vif(fit, one.term):.1f}"
            robust = one.described(ci_low=one.ci_low_robust, ci_high=one.ci_high_robust, p=one.p_robust)
            rows.append(
                [
                    name,
                    str(fit.n),
                    f"{fit.r_squared:.2f}",
                    one.term,
                    format_unsigned(one),
                    _p(one),
                    format_unsigned(robust),
                    _p(robust),
                    vif,
                ]
            )
    return FindingsTable(
        title="Full-shot error of ResNet-50s by statistics of their features",
        headers=["model", "n", "R2", "term", "coefficient [95 % interval]", "p", "HC3", "p, HC3 and t", "VIF"],
        rows=rows,
        note="Percent of error per unit of the term; natural logarithm. VIF: how often the variance of the coefficient "
        "is that among unrelated statistics.",
    )


def _alone(alone: Pairs) -> FindingsTable:
    rows = [
        [
            f"{r.term}{OTHERS if OTHERS in name else ''}",
            r.outcome,
            str(r.n),
            format_unsigned(r),
            _p(r),
            format_unsigned(tau),
        ]
        for name, (r, tau) in alone.items()
    ]
    headers = ["of", "with", "n", "Pearson r [95 % interval]", "p", "Kendall tau [95 % interval]"]
    return FindingsTable(title="Statistics of ResNet-50s alone", headers=headers, rows=rows)


def _significant(estimate: Estimate) -> bool:
    return (1.0 if estimate.p is None else estimate.p) < 0.05


def _coefficient(estimate: Estimate) -> str:
    return f"a coefficient of {format_unsigned(estimate)} (p {_p(estimate)})"


def _p(estimate: Estimate) -> str:
    return "" if estimate.p is None else f"{estimate.p:.2g}"


def _draw(rows: pd.DataFrame, alone: Pairs) -> Drawing:
    drawing, panels = make_figure(height=3.0, n_columns=3, sharey=True)
    modes = list(rows["ssl_mode"].fillna("unknown"))
    labels = (
        "effective dimensionality\n[dimensions], higher is better",
        "uniformity [log of a potential]\nlower is better",
        "alignment [squared distance]\nlower is better",
    )
    for axes, name, label in zip(panels, STATISTICS, labels, strict=True):
        plot_groups(axes, list(rows[name]), list(rows[ERROR]), modes, colours=MODE_COLOURS)
        pair = f"{LOG_RANK if name == RANK else name} with {ERROR}"
        r = [
            f"r {alone[key][0].value:.2f}{words}"
            for key, words in ((pair, ""), (pair + OTHERS, " without transform"))
            if key in alone
        ]
        write_above(axes, ", ".join(r))
        axes.set_xlabel(label)
    panels[0].set_xscale("log")
    ticks = [3, 10, 30, 100, 300, 1000, 3000]
    panels[0].set_xticks(ticks, [str(tick) for tick in ticks])
    panels[0].set(xlim=(rows[RANK].min() / 1.2, rows[RANK].max() * 1.2))
    panels[0].set_xticks([], minor=True)
    panels[0].set_ylabel(label_risk_axis(ERROR))
    write_panel_letters(panels)
    draw_legend_below(drawing, panels[0], n_columns=6)
    return drawing
