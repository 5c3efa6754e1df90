"""How does the risk of an encoder depend on the number of labels its probe gets?

Claim: two parameters predict the error of every encoder in every setting from its components (Eq. 25): alpha .15,
W .51, R2 .94; held-out encoders are predicted far better than by standard scaling laws (Table 9).

Expected: alpha .145 (.141 to .150), W .51 (.35 to .70, weakly identified), R2 .947 on 729 rows of 146 encoders; held
out .947 / .922 / .963 / .848 (iid / 2022 / contrastive / ViT), ahead of every standard law that can predict those rows,
but for one law an encoder in iid. Printed are the numbers of the encoders without OpenCLIP (695 rows of 139): R2 .944,
held out .943 / .913 / .957 / .837, and 13 architectures, which are 41 parameters. A law that knows an encoder's
full-shot error alone is close (.938 / .891 / .956 / .871) and better on ViTs. ResNets and ViTs differ in alpha and W.

Command: zoo study how_risk_scales_with_labels
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import pandas as pd

from zoo.analysis.columns import COMPONENTS, Estimate
from zoo.analysis.scaling_law import (
    COMPONENT_LAW,
    FEWEST_ENCODERS,
    FULL_SHOT_LAW,
    METHOD,
    N_FULL_SHOT,
    ScalingLaw,
    Score,
    as_printed,
    comparable_rows,
    compare_laws,
    fit_scaling_law,
    full_shot_only,
    law_rows,
    leave_encoder_out,
    predict,
    r2_estimate,
    residuals,
)
from zoo.analysis.table import StudyTable
from zoo.evaluation.drawing import Figure
from zoo.studies.findings import Findings, Rows
from zoo.studies.running import StudyOptions

from .claims import ALPHA, Older, W, law_claims, of_the_lead, table9_claims
from .figures import draw_curves, draw_predicted
from .tables import (
    PRINTED,
    components_table,
    interval,
    limits_note,
    misses_table,
    older_table9,
    pairs_used,
    populations_table,
    table9,
)

COMPLETE, EVERY, OLDER = "all components known", "every encoder", "without OpenCLIP"
ADDED_LATER = "openclip_"  # how the ids begin of encoders that the printed numbers were made without
N_REPEATS, N_RESAMPLES = 10, 1000  # random splits of "iid"; resampled encoders of every interval
N_REPEATS_OF_EQ_25 = 100  # random splits where one mean is held against a printed number of a single one


def study(table: StudyTable, options: StudyOptions) -> Findings:
    """Eq. 25 fitted, held against standard scaling laws, and looked at where it misses."""
    rows, every = law_rows(table), law_rows(table, complete_only=False)
    laws = _laws(rows, every, options)
    law, comparable = laws[COMPLETE], comparable_rows(rows)
    scores = compare_laws(
        comparable, n_repeats=N_REPEATS, n_resamples=N_RESAMPLES, seed=options.seed, progress=options.progress
    )
    older = _older(rows, laws, options)
    either_sign = compare_laws(
        comparable, laws=("Std",), n_repeats=N_REPEATS, n_resamples=0, seed=options.seed, falls_with_size=False
    )
    few = rows["n"] < N_FULL_SHOT
    pooled = [
        r2_estimate(part, predicted, term=term, n_resamples=N_RESAMPLES, seed=options.seed)
        for term, part, predicted in (
            ("R2, each encoder predicted by the law of the others", rows, leave_encoder_out(rows)),
            ("R2, few-shot rows", rows[few], predict(law, rows[few])),
        )
    ]
    return Findings(
        claims=[
            *law_claims(law, laws[EVERY], older),
            *table9_claims(comparable, scores, older, n_repeats=N_REPEATS),
            *of_the_lead.judged(scores),
        ],
        estimates=[
            *(one for name, fitted in laws.items() for one in _named(name, fitted)),
            *pooled,
            *_bias(law, rows),
            *(score.r2 for score in scores),
            *(score.lead for score in scores if score.law != COMPONENT_LAW),
            *(score.r2.described(term=f"{score.r2.term}, {OLDER}") for score in (older.scores if older else ())),
        ],
        tables=[
            table9(comparable, scores, n_repeats=N_REPEATS),
            *([older_table9(older.rows, older.scores, n_gone=older.n_gone)] if older else []),
            components_table(scores),
            populations_table(laws),
            misses_table(law, rows),
        ],
        figures=_figures(law, laws, rows),
        rows=[
            Rows(
                part="Eq. 25 and Table 9",
                used=law.n_encoders,
                left_out=table.n_left_out("approx_plus_usability", *(component.column for component in COMPONENTS)),
            ),
            pairs_used("Eq. 25, pairs of encoder and setting", table, rows),
            pairs_used("Eq. 25 of every encoder", table, every, complete_only=False),
            pairs_used("Table 9", table, rows, used=len(comparable)),
            *([_older_rows(older)] if older else []),
        ],
        notes=_notes(rows, laws, pooled, scores, either_sign),
    )


def _older_rows(older: Older) -> Rows:
    left_out = {"OpenCLIP": older.n_gone}
    return Rows(part=f"Eq. 25 and Table 9, {OLDER}", used=older.law.n_encoders, left_out=left_out)


def _laws(rows: pd.DataFrame, every: pd.DataFrame, options: StudyOptions) -> dict[str, ScalingLaw]:
    """Eq. 25 of the complete encoders, of those without OpenCLIP, of every one, and of each family with enough."""
    populations = {COMPLETE: rows, OLDER: _without_openclip(rows), EVERY: every}
    if populations[OLDER]["encoder"].nunique() in range(FEWEST_ENCODERS) or len(populations[OLDER]) == len(rows):
        del populations[OLDER]
    for family, part in rows.groupby("family"):
        if part["encoder"].nunique() >= 2 * FEWEST_ENCODERS and part["n"].nunique() > 1:
            populations[str(family)] = part
    return {
        name: fit_scaling_law(part, n_resamples=N_RESAMPLES, seed=options.seed) for name, part in populations.items()
    }


def _without_openclip(rows: pd.DataFrame) -> pd.DataFrame:
    return rows[~rows["encoder"].str.startswith(ADDED_LATER)].reset_index(drop=True)


def _older(rows: pd.DataFrame, laws: Mapping[str, ScalingLaw], options: StudyOptions) -> Older | None:
    """Everything once more without the encoders that were added after the numbers were printed; None without any."""
    if OLDER not in laws:
        return None
    older, n_gone = comparable_rows(_without_openclip(rows)), laws[COMPLETE].n_encoders - laws[OLDER].n_encoders
    standard = tuple(law for law in PRINTED if law != COMPONENT_LAW)
    scores = [
        *compare_laws(older, laws=standard, n_repeats=N_REPEATS, n_resamples=0, seed=options.seed),
        *compare_laws(older, laws=(COMPONENT_LAW,), n_repeats=N_REPEATS_OF_EQ_25, n_resamples=0, seed=options.seed),
    ]
    return Older(laws[OLDER], older, scores, n_gone)


def _named(name: str, law: ScalingLaw) -> list[Estimate]:
    """The law of the paper has the plain terms; those of other populations say of whom they are."""
    of_whom = "" if name == COMPLETE else f", {name}"
    return [one.described(term=f"{one.term}{of_whom}") for one in (law.alpha, law.W, law.r2)]


def _bias(law: ScalingLaw, rows: pd.DataFrame) -> list[Estimate]:
    return [
        Estimate(
            term=f"measured minus predicted, {n:,} labels, {family}",
            value=bias,
            n=count,
            outcome="error",
            ci_low=None if low != low else low,
            ci_high=None if high != high else high,
            method=METHOD,
            unit="percentage points",
        )
        for n, family, count, bias, low, high, _ in residuals(law, rows).itertuples(index=False)
    ]


def _figures(law: ScalingLaw, laws: Mapping[str, ScalingLaw], rows: pd.DataFrame) -> list[Figure]:
    clouds = {name: one for name, one in laws.items() if name not in (OLDER, EVERY)}
    return [
        Figure(
            name="predicted_and_measured",
            title="Errors by the scaling law against measured errors (Figure 5b)",
            caption=f"Error in percent, lower is better, predicted by Eq. 25 from the components, of "
            f"{law.n_encoders} encoders in up to {rows['n'].nunique()} settings ({len(rows)} rows); on the line, "
            "prediction and measurement are equal.",
            draw=partial(draw_predicted, law, rows),
        ),
        Figure(
            name="curves_and_parameters",
            title="The scaling law of single encoders, and its two parameters",
            caption=f"(a) Error in percent, lower is better, by Eq. 25 (lines) and measured (marks) of five of the "
            f"{law.n_encoders} encoders, from the best to the worst fitted. (b) alpha and W of {len(law.draws):,} "
            "resamples of the encoders (dots), of all and by family, with 95 % intervals; the cross is the paper's.",
            draw=partial(draw_curves, law, clouds, rows, printed=(float(ALPHA), float(W))),
        ),
    ]


def _notes(
    rows: pd.DataFrame,
    laws: Mapping[str, ScalingLaw],
    pooled: Sequence[Estimate],
    scores: Sequence[Score],
    either_sign: Sequence[Score],
) -> list[str]:
    law, alone = laws[COMPLETE], fit_scaling_law(full_shot_only(rows), n_resamples=0)
    literal = fit_scaling_law(as_printed(rows), n_resamples=0)
    leads = [f"{score.split} {interval(score.lead, 3)}" for score in scores if score.law == FULL_SHOT_LAW]
    families = [
        f"{name} alpha {interval(one.alpha, 3)}, W {interval(one.W)}"
        for name, one in laws.items()
        if name not in (COMPLETE, OLDER, EVERY)
    ]
    return [
        f"W is weakly identified: {interval(law.W)} over resampled encoders; no other W in there contradicts it.",
        *([f"One alpha and W for all is a simplification: {'; '.join(families)}."] if len(families) > 1 else []),
        "What R2 shows is mostly that few-shot errors follow the full-shot error: a law of two parameters that knows "
        f"nothing else has R2 {alone.r2.value:.3f}, against {law.r2.value:.3f}. The lead of Eq. 25 on held-out rows is "
        f"{'; '.join(leads)}.",
        "A fifth of the rows are full-shot, where the law adds up the components again; without them R2 is "
        f"{interval(pooled[1], 3)}. Each encoder predicted by the law of the others: {interval(pooled[0], 3)}.",
        f"Eq. 25 to the letter, W times usability alone, gives alpha {literal.alpha.value:.3f}, W "
        f"{literal.W.value:.2f}, R2 {literal.r2.value:.3f}; the printed W is that of approximation plus usability.",
        "In the standard laws K is not negative, as in the paper's: error falls with dimensions. With a K of either "
        f"sign Std has R2 {', '.join(f'{score.split} {interval(score.r2)}' for score in either_sign)}, for few-shot "
        "errors of these encoders grow with dimensions.",
        *limits_note(scores),
    ]
