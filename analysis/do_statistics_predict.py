"""Do statistics of the features predict how well a probe on them does?

Claim: over ResNet-50s, error = 93 - 9.5 log(effective dimensionality) - 0.51 uniformity + 4.4 alignment (Eq. 26), with
R2 .58; only the effective dimensionality matters (p 4e-11 against .74 and .59), three times of it gives 10 points;
uniformity without it has a coefficient of 6 (p .001, R2 .19); alignment of images of one class has 40.7 (p 6e-7).

Expected: every one of these numbers, from 70 ResNet-50s, natural logarithm, the error not logged (the text says it is).
But five encoders that predict a transformation carry them: without these, three times the dimensionality gives 6
points, uniformity counts (-6.1, p 2e-4), and alignment within a class, r -.32 with the error before, has r .51.

Command: zoo study do_statistics_predict
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import pandas as pd

from zoo.analysis.agreement import correlations
from zoo.analysis.estimates import Estimate
from zoo.analysis.ols import OlsFit, design_of, fit_ols
from zoo.analysis.table import StudyTable
from zoo.studies.claims import number_claim, statement_claim
from zoo.studies.drawing import MODE_COLOURS, legend_below, letter, new_figure, scatter_groups
from zoo.studies.estimate_tables import interval
from zoo.studies.findings import Claim, Figure, Findings, Rows, Table
from zoo.studies.options import StudyOptions

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

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
STATEMENTS = {  # claim -> as printed
    "R2 of the model as the text states it, of log(agg_risk)": "0.58",
    "Uniformity is highly correlated with effective dimensionality": "highly correlated",
    "Beyond effective dimensionality, uniformity is not predictive": "p 0.74",
    "Alignment of augmentations does not correlate with performance": "p 0.59",
    "Alignment within a class is highly correlated with performance": "coefficient 40.7, p 6e-7",
}
NOTES = (
    "Errors of probes on normalised features were not published: those panels of Figure 33 cannot be drawn.",
    "A coefficient says what goes with a statistic while the others stay; nothing was changed on purpose.",
)
_FEW = f"fewer than {FEWEST} ResNet-50s of the table have all of these statistics"

Fits = Mapping[str, OlsFit]  # by the name of the model, with OTHERS behind it for the smaller rows
Pairs = Mapping[str, tuple[Estimate, Estimate]]  # Pearson and Kendall, by "first with second", and OTHERS


def study(table: StudyTable, options: StudyOptions) -> Findings:
    """Regressions of the full-shot error of ResNet-50s on statistics of their features."""
    resnets = table.only(table.frame.index[table.frame["architecture_exact"] == "resnet50"], because="no ResNet-50")
    rows = resnets.frame.dropna(subset=[ERROR, *STATISTICS])
    others = rows[rows["ssl_mode"] != TRANSFORM]
    gone = len(rows) - len(others)
    fits = {**_fits(rows), **({f"{name}{OTHERS}": fit for name, fit in _fits(others).items()})}
    alone = {**_correlations(rows), **({f"{name}{OTHERS}": pair for name, pair in _correlations(others).items()})}
    return Findings(
        claims=[
            *_number_claims(fits), *_statements(rows, fits, alone),
            statement_claim("Normalising features lowers accuracy by 0.44 +- 0.28 points", source=SOURCE, holds=False,
                            paper="0.44 +- 0.28", ours="not available",
                            reason="the errors of probes on normalised features were not published"),
        ],
        estimates=[
            *(one.described(method=name) for name, fit in fits.items() for one in fit.estimates),
            *_threefold(fits),
            *(one.described(method=f"{one.method}{OTHERS if OTHERS in name else ''}")
              for name, pair in alone.items() for one in pair),
        ],
        tables=[_coefficients(fits), _alone(alone)],
        figures=[
            Figure(
                name="figure33", title="Statistics of features against full-shot error (Figure 33)",
                caption=f"Full-shot error in percent, lower is better, of {len(rows)} ResNet-50s against effective "
                "dimensionality (rank of the correlation matrix, logarithmic axis), uniformity, and alignment of two "
                "augmentations of an image; r is Pearson's, with the logarithm of the dimensionality.",
                draw=lambda: _draw(rows, alone),
            )
        ] if len(rows) else [],
        rows=[
            Rows(part="Eq. 26, ResNet-50s", used=len(rows), left_out=resnets.n_left_out(ERROR, *STATISTICS)),
            Rows(part=f"Eq. 26{OTHERS}", used=len(others), left_out={
                **resnets.n_left_out(ERROR, *STATISTICS), **({"transformation task": gone} if gone else {})}),
        ],
        notes=[*_leverage_note(fits, gone), *NOTES],
    )  # fmt: skip


def _fits(rows: pd.DataFrame) -> dict[str, OlsFit]:
    found = {}
    for name, (log, numeric) in MODELS.items():
        complete = rows.dropna(subset=[*log, *numeric])
        if len(complete) >= FEWEST:
            design = design_of(complete, log=log, numeric=numeric)
            found[name] = fit_ols(design.matrix, complete[ERROR], outcome_name=ERROR, unit=design.units("percent"),
                                  method=name)  # fmt: skip
    return found


def _correlations(rows: pd.DataFrame) -> dict[str, tuple[Estimate, Estimate]]:
    """Each statistic alone with the error, and with others where the paper speaks of it."""
    if len(rows) < FEWEST:
        return {}
    logged = rows.assign(**{LOG_RANK: rows[RANK].map(math.log)})
    pairs = [(name, ERROR) for name in (LOG_RANK, UNIFORMITY, ALIGNMENT, CLASS_ALIGNMENT)]
    pairs += [(UNIFORMITY, LOG_RANK), (UNIFORMITY, CLASS_ALIGNMENT)]
    return {
        f"{first} with {second}": correlations(logged[first], logged[second], term=first, outcome=second)
        for first, second in pairs
        if len(logged.dropna(subset=[first, second])) >= FEWEST
    }


def _threefold(fits: Fits) -> list[Estimate]:
    """What three times the effective dimensionality goes with, in percentage points of accuracy."""
    slopes = {name: fits[name].estimate(LOG_RANK) for name in (MAIN, f"{MAIN}{OTHERS}") if name in fits}
    factor = -math.log(3)
    return [
        one.described(term="three times the effective dimensionality", outcome="full-shot accuracy", method=name,
                      unit="percentage points", value=factor * one.value, ci_low=factor * one.ci_high,
                      ci_high=factor * one.ci_low, ci_low_robust=None, ci_high_robust=None)
        for name, one in slopes.items() if one.p is not None
    ]  # fmt: skip


def _leverage_note(fits: Fits, n_gone: int) -> list[str]:
    two = _threefold(fits)
    if len(two) < 2 or n_gone == 0:
        return []
    return [
        f"{n_gone} encoders that predict a transformation have errors and statistics far from all others, and Eq. 26 "
        f"leans on them: without them three times the effective dimensionality goes with {_cell(two[1])} points "
        f"instead of {two[0].value:.1f}; uniformity has "
        f"{_coefficient(fits[f'{MAIN}{OTHERS}'].estimate(UNIFORMITY))}."
    ]


def _number_claims(fits: Fits) -> list[Claim]:
    def of(model: str, term: str, what: str = "value") -> float | None:
        return getattr(fits[model].estimate(term), what) if model in fits else None

    main, without = fits.get(MAIN), fits.get(WITHOUT)
    threefold = next((one.value for one in _threefold(fits) if one.method == MAIN), None)
    rows = [
        ("Coefficient of constant in Eq. 26", "93", of(MAIN, "constant")),
        ("Coefficient of log(effective dimensionality) in Eq. 26", "-9.5", of(MAIN, LOG_RANK)),
        ("Coefficient of uniformity in Eq. 26", "-0.51", of(MAIN, UNIFORMITY)),
        ("Coefficient of alignment in Eq. 26", "4.4", of(MAIN, ALIGNMENT)),
        ("R2 of Eq. 26", "0.58", main and main.r_squared),
        ("p-value of log(effective dimensionality) in Eq. 26", "4e-11", of(MAIN, LOG_RANK, "p")),
        ("p-value of uniformity in Eq. 26", "0.74", of(MAIN, UNIFORMITY, "p")),
        ("p-value of alignment in Eq. 26", "0.59", of(MAIN, ALIGNMENT, "p")),
        ("Points of accuracy that go with three times the effective dimensionality", "10", threefold),
        ("Coefficient of uniformity without effective dimensionality", "6", of(WITHOUT, UNIFORMITY)),
        ("p-value of uniformity without effective dimensionality", "0.001", of(WITHOUT, UNIFORMITY, "p")),
        ("R2 without effective dimensionality", "0.19", without and without.r_squared),
        ("Coefficient of alignment within a class beside Eq. 26", "40.7", of(WITHIN, CLASS_ALIGNMENT)),
        ("p-value of alignment within a class beside Eq. 26", "6e-7", of(WITHIN, CLASS_ALIGNMENT, "p")),
    ]
    return [
        number_claim(claim, source=SOURCE, printed=printed, ours=ours, reason="" if ours is not None else _FEW,
                     shown=None if ours is not None else "not available")
        for claim, printed, ours in rows
    ]  # fmt: skip


def _statements(rows: pd.DataFrame, fits: Fits, alone: Pairs) -> list[Claim]:
    if f"{WITHIN}{OTHERS}" not in fits:
        return [statement_claim(claim, source=SOURCE, paper=paper, ours="not available", holds=False, reason=_FEW)
                for claim, paper in STATEMENTS.items()]  # fmt: skip
    as_stated, correlated, beyond, augmented, same_class = STATEMENTS
    main, within, others = fits[MAIN], fits[WITHIN], fits[f"{MAIN}{OTHERS}"]
    design = design_of(rows, log=(RANK,), numeric=(UNIFORMITY, ALIGNMENT))
    logged = fit_ols(design.matrix, rows[ERROR].map(math.log), outcome_name="log error", unit="", method="logged")
    together = [alone[f"{UNIFORMITY} with {LOG_RANK}{rest}"][0] for rest in ("", OTHERS)]
    nearest = alone[f"{ALIGNMENT} with {ERROR}"][0]
    by_class = [alone[f"{CLASS_ALIGNMENT} with {ERROR}{rest}"][0] for rest in ("", OTHERS)]
    uniformity = [fit.estimate(UNIFORMITY) for fit in (main, within, others)]
    aligned, conditional = main.estimate(ALIGNMENT), within.estimate(CLASS_ALIGNMENT)
    return [
        number_claim(as_stated, source=SOURCE, printed=STATEMENTS[as_stated],
                     ours=logged.r_squared, as_the_paper_did=main.r_squared,
                     reason="the printed coefficients and R2 are those of the error itself, not of its logarithm"),
        statement_claim(correlated, source=SOURCE, paper=STATEMENTS[correlated], value=together[0].value,
                        ours=f"r {_cell(together[0])}; {_cell(together[1])}{OTHERS}",
                        holds=_high(together[0]) and _high(together[1]), held_as_the_paper_did=_high(together[0]),
                        reason="only because of the encoders that predict a transformation, which are far off in both"),
        statement_claim(beyond, source=SOURCE, paper=STATEMENTS[beyond], value=uniformity[1].p,
                        ours=f"p {_p(uniformity[0])} in Eq. 26, {_p(uniformity[1])} beside alignment within a class, "
                        f"{_p(uniformity[2])}{OTHERS}", holds=not any(_significant(one) for one in uniformity),
                        held_as_the_paper_did=not _significant(uniformity[0]),
                        reason=f"beside alignment within a class, its correlate (VIF {_vif(within, UNIFORMITY):.1f}), "
                        f"it has {_coefficient(uniformity[1])}; in Eq. 26{OTHERS} {_coefficient(uniformity[2])}"),
        statement_claim(augmented, source=SOURCE, paper=STATEMENTS[augmented],
                        ours=f"p {_p(aligned)} in Eq. 26, {_p(nearest)} alone (r {nearest.value:.2f})",
                        holds=not _significant(aligned) and not _significant(nearest), value=nearest.value,
                        held_as_the_paper_did=not _significant(aligned),
                        reason="it is significant alone, though not beside the other statistics"),
        statement_claim(same_class, source=SOURCE, paper=STATEMENTS[same_class], value=by_class[0].value,
                        ours=f"r {_cell(by_class[0])}; {_cell(by_class[1])}{OTHERS}",
                        holds=all(_high(one) and (one.value or 0) > 0 for one in by_class),
                        held_as_the_paper_did=_significant(conditional) and (conditional.value or 0) > 0,
                        reason="the printed coefficient is beside three other statistics; alone its sign depends on "
                        "the few encoders that predict a transformation"),
    ]  # fmt: skip


def _vif(fit: OlsFit, term: str) -> float:
    """Variance inflation factor: how often the variance of a coefficient is that among unrelated statistics."""
    others = fit.design.drop(columns=term)
    r_squared = fit_ols(others, fit.design[term], outcome_name=term, unit="", method="collinearity").r_squared
    return 1 / (1 - r_squared) if r_squared < 1 else math.inf


def _coefficients(fits: Mapping[str, OlsFit]) -> Table:
    rows = []
    for name, fit in fits.items():
        for one in fit.estimates:
            vif = "" if one.term == "constant" else f"{_vif(fit, one.term):.1f}"
            robust = one.described(ci_low=one.ci_low_robust, ci_high=one.ci_high_robust, p=one.p_robust)
            rows.append([name, str(fit.n), f"{fit.r_squared:.2f}", one.term, _cell(one), _p(one), _cell(robust),
                         _p(robust), vif])  # fmt: skip
    return Table(
        title="Full-shot error of ResNet-50s by statistics of their features",
        headers=["model", "n", "R2", "term", "coefficient [95 % interval]", "p", "HC3", "p, HC3", "VIF"],
        rows=rows,
        note="Percent of error per unit of the term; natural logarithm. VIF: how often the variance of the coefficient "
        "is that among unrelated statistics.",
    )  # fmt: skip


def _alone(alone: Pairs) -> Table:
    rows = [[f"{r.term}{OTHERS if OTHERS in name else ''}", r.outcome, str(r.n), _cell(r), _p(r), _cell(tau)]
            for name, (r, tau) in alone.items()]  # fmt: skip
    headers = ["of", "with", "n", "Pearson r [95 % interval]", "p", "Kendall tau [95 % interval]"]
    return Table(title="Statistics of ResNet-50s alone", headers=headers, rows=rows)


def _significant(estimate: Estimate) -> bool:
    return (1.0 if estimate.p is None else estimate.p) < 0.05


def _high(correlation: Estimate) -> bool:
    return abs(correlation.value or 0) >= 0.5


def _coefficient(estimate: Estimate) -> str:
    return f"a coefficient of {_cell(estimate)} (p {_p(estimate)})"


def _cell(estimate: Estimate) -> str:
    return interval(estimate, digits=2, signed=False)


def _p(estimate: Estimate) -> str:
    return "" if estimate.p is None else f"{estimate.p:.2g}"


def _draw(rows: pd.DataFrame, alone: Pairs) -> Drawing:
    drawing, panels = new_figure(height=3.0, n_columns=3, sharey=True)
    modes = list(rows["ssl_mode"].fillna("unknown"))
    labels = ("rank of correlations [dimensions]", "log of the mean potential", "squared distance of augmentations")
    titles = ("effective dimensionality", "uniformity", "alignment of augmentations")
    for axes, name, title, label in zip(panels, STATISTICS, titles, labels, strict=True):
        scatter_groups(axes, list(rows[name]), list(rows[ERROR]), modes, colours=MODE_COLOURS)
        pair = f"{LOG_RANK if name == RANK else name} with {ERROR}"
        r = [f"r {alone[key][0].value:.2f}{words}" for key, words in ((pair, ""), (pair + OTHERS, " without transform"))
             if key in alone]  # fmt: skip
        axes.set(title=title, xlabel="\n".join([label, ", ".join(r)]))
    panels[0].set_xscale("log")
    panels[0].set_xticks(ticks := [3, 10, 30, 100, 300, 1000, 3000], ticks)
    panels[0].set(xlim=(rows[RANK].min() / 1.2, rows[RANK].max() * 1.2))
    panels[0].set_xticks([], minor=True)
    panels[0].set_ylabel("full-shot error [%], lower is better")
    letter(panels)
    legend_below(drawing, panels[0], n_columns=6)
    return drawing


if __name__ == "__main__":
    from zoo.cli import main

    main("study", __file__)
