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
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing

from zoo.analysis.columns import COMPONENTS, ERRORS, Estimate
from zoo.analysis.scaling_law import (
    FEWEST_ENCODERS,
    METHOD,
    N_FULL_SHOT,
    ScalingLaw,
    compute_r2,
    compute_residuals,
    estimate_r2,
    fit_scaling_law,
    law_rows,
    predict,
    predict_leaving_encoder_out,
    reduce_to_full_shot,
)
from zoo.analysis.table import StudyTable
from zoo.errors import QueryError
from zoo.evaluation.drawing import (
    COLOURS,
    FULL_WIDTH,
    HALF_WIDTH,
    MARKS,
    Figure,
    draw_legend_below,
    make_figure,
    plot_groups,
    write_panel_letters,
)
from zoo.studies.findings import (
    NOT_AVAILABLE,
    WIDEST,
    Claim,
    ClaimAnswer,
    Claims,
    Findings,
    FindingsTable,
    RowsUsed,
    answer_in_sentence,
    answer_statement,
    format_statement,
    number_claim,
    require_value,
)
from zoo.studies.running import StudyOptions
from zoo.studies.tables import read_printed

from .held_out import COMPONENT_LAW, FULL_SHOT_LAW, LAWS, SPLITS, Score, compare_laws, select_comparable_rows
from .standard_laws import FLAT, STANDARD_LAWS, count_parameters

COMPLETE, EVERY, OLDER = "all components known", "every encoder", "without OpenCLIP"
ADDED_LATER = "openclip_"  # how the ids begin of encoders that the printed numbers were made without
N_REPEATS, N_RESAMPLES = 10, 1000  # random splits of "iid"; resampled encoders of every interval
N_REPEATS_OF_EQ_25 = 100  # random splits where one mean is held against a printed number of a single one


def study(table: StudyTable, options: StudyOptions) -> Findings:
    """Eq. 25 fitted, held against standard scaling laws, and looked at where it misses."""
    rows, every = law_rows(table), law_rows(table, complete_only=False)
    laws = _laws(rows, every, options)
    law, comparable = laws[COMPLETE], select_comparable_rows(rows)
    scores = compare_laws(
        comparable, n_repeats=N_REPEATS, n_resamples=N_RESAMPLES, seed=options.seed, progress=options.progress
    )
    older = _older(rows, laws, options)
    either_sign = compare_laws(
        comparable, laws=("Std",), n_repeats=N_REPEATS, n_resamples=0, seed=options.seed, falls_with_size=False
    )
    few = rows["n"] < N_FULL_SHOT
    pooled = [
        estimate_r2(part, predicted, term=term, n_resamples=N_RESAMPLES, seed=options.seed)
        for term, part, predicted in (
            ("R2, each encoder predicted by the law of the others", rows, predict_leaving_encoder_out(rows)),
            ("R2, few-shot rows", rows[few], predict(law, rows[few])),
        )
    ]
    return Findings(
        claims=[
            *law_claims(law, laws[EVERY], older),
            *table9_claims(comparable, scores, older, n_repeats=N_REPEATS),
            *of_the_lead.judged(scores),
        ],
        answer=answer_in_sentence(lambda: _answer(law)),
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
            RowsUsed(
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


def _answer(law: ScalingLaw) -> str:
    return (
        f"It falls as a power of labels with one exponent, {format_statement(law.alpha, 3)}, which with each encoder's "
        f"components explains {100 * require_value(law.r2):.0f} % of the variance of {law.n_rows} errors "
        f"({law.n_encoders} "
        "encoders)."
    )


def _older_rows(older: Older) -> RowsUsed:
    left_out = {"OpenCLIP": older.n_gone}
    return RowsUsed(part=f"Eq. 25 and Table 9, {OLDER}", used=older.law.n_encoders, left_out=left_out)


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
    older, n_gone = select_comparable_rows(_without_openclip(rows)), laws[COMPLETE].n_encoders - laws[OLDER].n_encoders
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
        for n, family, count, bias, low, high, _ in compute_residuals(law, rows).itertuples(index=False)
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
    law, alone = laws[COMPLETE], fit_scaling_law(reduce_to_full_shot(rows), n_resamples=0)
    literal = fit_scaling_law(arrange_as_printed(rows), n_resamples=0)
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


ALPHA, W, R2 = "0.15", "0.51", "0.94"  # printed in Appendix F.4


@dataclass(frozen=True, slots=True)
class Older:
    """The law and Table 9 of the encoders that the paper's numbers were printed from."""

    law: ScalingLaw
    rows: pd.DataFrame  # of Table 9
    scores: Sequence[Score]
    n_gone: int  # complete encoders that were added later


def law_claims(law: ScalingLaw, every: ScalingLaw, older: Older | None) -> list[Claim]:
    """The printed parameters of the law, and that it fits all encoders."""
    what = "of stale rows, before OpenCLIP was added" if older else "of other encoders"

    def claim(name: str, printed: str, ours: Estimate, before: Estimate | None, digits: int) -> Claim:
        reason = f"printed {what}"
        if before is not None and older is not None:
            reason += (
                f": {older.law.n_rows} rows of {older.law.n_encoders} encoders give {before.value:.{digits}f}, "
                f"and these {ours.n} of {law.n_encoders} give {ours.value:.{digits}f}"
            )
        return number_claim(
            f"{name} of the scaling law",
            source="Appendix F.4",
            printed=printed,
            ours=ours.value,
            as_the_paper_did=None if before is None else before.value,
            interval=(ours.ci_low, ours.ci_high),
            shown=interval(ours, digits),
            reason=reason,
        )

    before = older.law if older else None
    return [
        claim("alpha", ALPHA, law.alpha, before.alpha if before else None, 3),
        claim("W", W, law.W, before.W if before else None, 2),
        claim("R2", R2, law.r2, before.r2 if before else None, 3),
        answer_statement(
            "The law fits all 169 encoders",
            source="Section 5.2.1",
            paper=f"R2 {R2}",
            ours=f"R2 {every.r2.value:.3f} on {every.n_rows} rows of {every.n_encoders} encoders",
            holds=(every.r2.value or 0) >= float(R2),
            value=every.r2.value,
            caveat=f"the printed R2 is {what}" if older else "",
            reason="with the encoders whose components are not all known R2 is lower",
        ),
    ]


def table9_claims(rows: pd.DataFrame, scores: Sequence[Score], older: Older | None, *, n_repeats: int) -> list[Claim]:
    """Every printed cell of Table 9 next to ours; ``rows`` are those that the laws were fitted to."""
    cells = {(score.law, score.split): score for score in scores}
    before = {(score.law, score.split): score for score in older.scores} if older else {}
    found = []
    for law, (parameters, *printed) in PRINTED.items():
        found.append(_claim_of_parameters(law, parameters, rows, older))
        for split, number in zip(SPLITS, printed, strict=True):
            if number:
                score, other = cells[law, split], before.get((law, split))
                claim = number_claim(
                    f"R2 of {law} on held-out {SPLITS[split]}",
                    source="Table 9",
                    printed=number,
                    ours=score.r2.value,
                    as_the_paper_did=other.r2.value if other else None,
                    interval=(score.r2.ci_low, score.r2.ci_high),
                    reason=_why(score, other, older, n_repeats),
                    shown=NOT_AVAILABLE if score.r2.value is None else interval(score.r2, 3),
                )
                found.append(claim)
    return found


def _claim_of_parameters(law: str, printed: str, rows: pd.DataFrame, older: Older | None) -> Claim:
    counted = law_parameters(rows, law)
    before = law_parameters(older.rows, law) if older else None
    groups = (
        f"a group has three parameters and two are shared: {printed} are of {(int(printed) - 2) // 3} "
        f"groups, and these encoders have {(counted - 2) // 3}"
    )
    if older and before != counted:
        groups += (
            f"; printed of stale rows, before the {older.n_gone} encoders of OpenCLIP were added, which have "
            f"{((before or 2) - 2) // 3}"
        )
    return number_claim(
        f"Parameters of {law}",
        source="Table 9",
        printed=printed,
        ours=counted,
        as_the_paper_did=before,
        shown=str(counted),
        reason=groups,
    )


def _why(score: Score, before: Score | None, older: Older | None, n_repeats: int) -> str:
    """Why a cell of Table 9 may differ from the printed one."""
    reasons = []
    if score.r2.value is None:
        if not score.unseen or score.seen is None:
            return "these encoders leave nothing to fit, or nothing to predict"
        reasons.append(
            f"the law cannot predict groups that are all held out ({', '.join(score.unseen)}); on the "
            f"{score.n_seen} of {score.r2.n} rows of other groups R2 is {score.seen:.2f}"
        )
    if before is not None and older is not None:
        value = before.r2.value if before.r2.value is not None else before.seen
        if value is not None and score.law == COMPONENT_LAW:
            reasons.append(
                f"printed of stale rows, before the {older.n_gone} encoders of OpenCLIP were added: those "
                f"{len(older.rows)} rows of {older.law.n_encoders} encoders give {value:.3f}"
            )
        elif value is not None:
            reasons.append(
                f"without the {older.n_gone} encoders of OpenCLIP, on which the row of Eq. 25 comes out, it "
                f"is {value:.3f}"
            )
    if score.r2.value is not None:
        if score.lowest is not None and score.highest is not None and score.lowest < score.highest:
            reasons.append(f"over {n_repeats} random splits it goes from {score.lowest:.3f} to {score.highest:.3f}")
        low, high = score.r2.ci_low, score.r2.ci_high
        if low is not None and high is not None and high - low > WIDEST:
            reasons.append("the interval is too wide to tell")
    return "; ".join(reasons)


of_the_lead = Claims(source="Section 5.2.1")


@of_the_lead(
    "Eq. 25 predicts held-out settings and encoders significantly better than standard scaling laws",
    paper="significantly better",
)
def the_law_is_ahead_everywhere(scores: Sequence[Score]) -> ClaimAnswer:
    """Ahead of every law of the printed table on every split, by an interval above 0."""
    leads = [
        score
        for score in scores
        if score.law in PRINTED and score.law != COMPONENT_LAW and score.lead.value is not None
    ]
    if not leads:
        raise QueryError("no split of these encoders can be predicted")
    least = min(leads, key=lambda score: score.lead.ci_low or 0.0)
    return ClaimAnswer(
        ours=f"R2 higher by {interval(least.lead)} at least, of {len(leads)} cells",
        value=least.lead.value,
        holds=(least.lead.ci_low or 0) > 0,
        reason=f"it is not against {least.law} on held-out {SPLITS[least.split]}",
    )


PRINTED = {  # Table 9: law -> parameters, then R2 on the splits in the order of SPLITS; empty where nothing is printed
    row["law"]: (row["parameters"], *(row[split] for split in SPLITS))
    for row in read_printed(Path(__file__).with_name("table9.tsv"))
}
_NOT_PRINTED = ("", "", "", "", "")


def law_parameters(rows: pd.DataFrame, law: str) -> int:
    """Parameters of a law of Table 9, with all the groups that these rows have."""
    return count_parameters(rows, STANDARD_LAWS[law]) if law in STANDARD_LAWS else 2


def interval(estimate: Estimate, digits: int = 2) -> str:
    """A value with its 95 % interval, as text; empty if it is not known.

    >>> interval(Estimate(term="W", value=0.514, ci_low=0.36, ci_high=0.69, n=729, unit=""))
    '0.51 (0.36 to 0.69)'
    """
    if estimate.value is None:
        return ""
    if estimate.ci_low is None:
        return f"{estimate.value:.{digits}f}"
    return f"{estimate.value:.{digits}f} ({estimate.ci_low:.{digits}f} to {estimate.ci_high:.{digits}f})"


def table9(rows: pd.DataFrame, scores: Sequence[Score], *, n_repeats: int) -> FindingsTable:
    """Table 9 with ours next to the printed numbers."""
    cells = {(score.law, score.split): score for score in scores}
    body = []
    for law in LAWS:
        parameters, *printed = PRINTED.get(law, _NOT_PRINTED)
        pairs = [(interval(cells[law, split].r2), number) for split, number in zip(SPLITS, printed, strict=True)]
        body.append([law, str(law_parameters(rows, law)), parameters, *(cell for pair in pairs for cell in pair)])
    return FindingsTable(
        title="R2 on held-out rows (Table 9)",
        headers=["law", "parameters", "printed", *(head for split in SPLITS for head in (split, f"{split}, printed"))],
        rows=body,
        note=f"95 % intervals over held-out encoders; iid is the mean of {n_repeats} random splits. Empty: a held-out "
        "group was never seen. The last two laws know the held-out encoder's own full-shot error or components, the "
        "others only its group and dimensions. e = encoder has more parameters than iid leaves rows to fit; of values "
        "that fit equally well those nearest to the law of all encoders are taken, and others would predict otherwise. "
        "K and b are no part of it, for an encoder has one size.",
    )


def older_table9(rows: pd.DataFrame, scores: Sequence[Score], *, n_gone: int) -> FindingsTable:
    """Table 9 of the encoders that it was printed from, as far as it is printed."""
    cells = {(score.law, score.split): score for score in scores}
    body = []
    for law, (parameters, *printed) in PRINTED.items():
        pairs = [(_text(cells[law, split].r2.value), number) for split, number in zip(SPLITS, printed, strict=True)]
        body.append([law, str(law_parameters(rows, law)), parameters, *(cell for pair in pairs for cell in pair)])
    return FindingsTable(
        title="Table 9 without OpenCLIP",
        headers=["law", "parameters", "printed", *(head for split in SPLITS for head in (split, f"{split}, printed"))],
        rows=body,
        note=f"R2 on held-out rows of {rows['encoder'].nunique()} encoders, the {n_gone} of OpenCLIP left out. All of "
        "the row of Eq. 25 and the parameters come out as printed, so the table is of these encoders; iid is the mean "
        "of many random splits, of which one is printed. The standard laws are fitted with K >= 0; with which bounds, "
        "starts and split the paper fitted them it does not say.",
    )


def components_table(scores: Sequence[Score]) -> FindingsTable:
    """Eq. 25 against the law that knows the full-shot error alone."""
    body = [
        [
            SPLITS[score.split],
            score.law,
            interval(score.r2, 3),
            _text(score.few_shot),
            "" if score.law == COMPONENT_LAW else interval(score.lead, 3),
        ]
        for score in scores
        if score.law in (FULL_SHOT_LAW, COMPONENT_LAW)
    ]
    return FindingsTable(
        title="What the components add to the full-shot error",
        headers=["held out", "law", "R2", "R2 of few-shot rows", "lead of Eq. 25"],
        rows=body,
        note="Both laws have two parameters; 95 % intervals are over held-out encoders. Full-shot rows are no test of "
        "either: the law of the components adds them up again.",
    )


def populations_table(laws: Mapping[str, ScalingLaw]) -> FindingsTable:
    """Eq. 25 fitted to several populations."""
    body = [
        [name, str(law.n_encoders), str(law.n_rows), interval(law.alpha, 3), interval(law.W), interval(law.r2, 3)]
        for name, law in laws.items()
    ]
    return FindingsTable(
        title="Eq. 25 by population",
        headers=["encoders", "n", "rows", "alpha", "W", "R2"],
        rows=body,
        note="95 % intervals over resampled encoders.",
    )


def misses_table(law: ScalingLaw, rows: pd.DataFrame) -> FindingsTable:
    """How far Eq. 25 is off, by number of labels and family."""
    names = {"n": "labels", "n_encoders": "encoders", "bias": "mean", "ci_low": "from", "ci_high": "to", "rmse": "RMS"}
    return FindingsTable.of(
        "Where Eq. 25 misses: measured minus predicted error [percentage points]",
        compute_residuals(law, rows).rename(columns=names),
        note="Mean with its 95 % interval, positive where the law is too optimistic; RMS is the root mean square, what "
        "to expect of a new encoder.",
    )


def pairs_used(
    part: str, table: StudyTable, rows: pd.DataFrame, *, complete_only: bool = True, used: int | None = None
) -> RowsUsed:
    """How many pairs of encoder and setting a law used, of all that the table could have."""
    names = [component.column for component in COMPONENTS] if complete_only else ["probe_gen", "enc_gen"]
    lacking = table.n_left_out("approx_plus_usability", *names)
    left_out = {reason: count * len(ERRORS) for reason, count in lacking.items()}
    left_out["setting not measured"] = (len(table) - sum(lacking.values())) * len(ERRORS) - len(rows)
    left_out["no year, size or group"] = 0 if used is None else len(rows) - used
    return RowsUsed(
        part=part,
        used=len(rows) if used is None else used,
        unit="pairs",
        left_out={reason: count for reason, count in left_out.items() if count},
    )


def limits_note(scores: Sequence[Score]) -> list[str]:
    """Which fits of standard laws end on a limit of what is searched or have no use for dimensions, in sentences."""
    reached: dict[bool, list[str]] = {True: [], False: []}
    for score in scores:
        for limit in dict.fromkeys(one for repeat in score.at_limits for one in repeat):
            count = sum(limit in repeat for repeat in score.at_limits)
            times = f" in {count} of {len(score.at_limits)} splits" if len(score.at_limits) > 1 else ""
            reached[limit == FLAT].append(f"{score.law} without the held-out {SPLITS[score.split]} ({limit}{times})")
    notes = []
    if reached[False]:
        notes.append(
            "These fits end on a limit of the search, so a wider one would fit a little better: "
            f"{'; '.join(reached[False])}."
        )
    if reached[True]:
        notes.append(f"In these fits the term of dimensions is a constant: {'; '.join(reached[True])}.")
    return notes


def _text(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


SETTINGS = {outcome.n_labels: outcome.label.removesuffix(" error") for outcome in ERRORS}
_TICKS = {3_000: "3k", 10_000: "10k", 30_000: "30k", 100_000: "100k", 300_000: "300k", 1_281_167: "1.28M"}
_QUANTILES = {0.0: "best fitted", 0.25: "", 0.5: "median", 0.75: "", 1.0: "worst fitted"}


def draw_predicted(law: ScalingLaw, rows: pd.DataFrame) -> Drawing:
    """Figure 5b: predicted on the x-axis, measured on the y-axis, one colour a number of labels."""
    drawing, (axes,) = make_figure(width=HALF_WIDTH + 0.8, height=4.4)
    predicted = predict(law, rows)
    order = rows["n"].sort_values(ascending=False).index
    groups = [SETTINGS.get(n, f"{n:,} labels") for n in rows.loc[order, "n"]]
    positions = rows.index.get_indexer(order)
    errors = rows.loc[order, "error"].tolist()
    plot_groups(axes, list(predicted[positions]), errors, groups, size=10, alpha=0.75)
    axes.plot([0, 100], [0, 100], color="#444444", linewidth=0.9, zorder=0)
    low = 10 * np.floor(min(predicted.min(), rows["error"].min()) / 10)
    axes.set(
        xlim=(low, 101),
        ylim=(low, 101),
        aspect="equal",
        xlabel="predicted error [%], lower is better",
        ylabel="measured error [%], lower is better",
    )
    few = (rows["n"] < N_FULL_SHOT).to_numpy()
    words = f"$R^2$ = {compute_r2(rows['error'], predicted):.3f}"
    if few.sum() > 1:
        words += f"\n{compute_r2(rows['error'][few], predicted[few]):.3f} without full-shot"
    axes.text(0.04, 0.96, words, transform=axes.transAxes, va="top")
    draw_legend_below(drawing, axes, n_columns=3, title="labels of the probe (number of encoders)")
    return drawing


def draw_curves(
    law: ScalingLaw, laws: Mapping[str, ScalingLaw], rows: pd.DataFrame, *, printed: tuple[float, float]
) -> Drawing:
    """Curves of five encoders with their measurements, and alpha and W over resampled encoders of each population."""
    drawing, (left, right) = make_figure(width=FULL_WIDTH, height=3.9, n_columns=2)
    for position, (encoder, label) in enumerate(examples(law, rows).items()):
        _draw_encoder(left, law, rows[rows["encoder"] == encoder], label, position)
    left.set_xscale("log")
    left.set_xticks(list(_TICKS), list(_TICKS.values()))
    left.set_xticks([], minor=True)
    left.set(xlabel="number of labels of the probe", ylabel="error [%], lower is better")
    left.legend(loc="upper center", bbox_to_anchor=(0.5, -0.17), title="root mean square of the misses [points]")
    for (name, one), colour in zip(laws.items(), COLOURS, strict=False):
        _draw_cloud(right, one, f"{name} ({one.n_encoders})", colour)
    right.set(xlabel="alpha [exponent]", ylabel="W [weight of T]")
    right.plot(*printed, "x", color="black", markersize=6, label="printed", zorder=5)
    right.legend(loc="upper center", bbox_to_anchor=(0.5, -0.17), ncols=2, title="encoders (number)")
    write_panel_letters([left, right])
    return drawing


def examples(law: ScalingLaw, rows: pd.DataFrame) -> dict[str, str]:
    """Five encoders from the best to the worst fitted, by quantile of their root mean square miss, with labels."""
    missed = (rows["error"] - predict(law, rows)) ** 2
    by_encoder = missed.groupby(rows["encoder"]).mean().pow(0.5).sort_values(kind="stable")
    found = {}
    for quantile, words in _QUANTILES.items():
        encoder = by_encoder.index[round(quantile * (len(by_encoder) - 1))]
        found[encoder] = f"{encoder}: {by_encoder[encoder]:.1f}{f', {words}' if words else ''}"
    return found


def _draw_encoder(axes: Axes, law: ScalingLaw, own: pd.DataFrame, label: str, position: int) -> None:
    n = np.geomspace(3_000, 1_281_167, 100)
    cells = {name: np.full(len(n), own[name].iloc[0]) for name in ("T", "probe_gen", "enc_gen")}
    axes.plot(n, predict(law, {"n": n, **cells}), color=COLOURS[position])
    axes.plot(own["n"], own["error"], linestyle="none", marker=MARKS[position], color=COLOURS[position], label=label)


def _draw_cloud(axes: Axes, law: ScalingLaw, label: str, colour: str) -> None:
    alpha, w = law.draws.T
    axes.scatter(alpha, w, s=4, alpha=0.15, color=colour, linewidths=0)
    axes.errorbar(
        law.alpha.value or 0.0,
        law.W.value or 0.0,
        xerr=_arms(law.alpha),
        yerr=_arms(law.W),
        color=colour,
        elinewidth=1.4,
    )
    axes.plot(
        law.alpha.value or 0.0,
        law.W.value or 0.0,
        "o",
        color=colour,
        markeredgecolor="white",
        markersize=6,
        label=label,
    )


def _arms(estimate: Estimate) -> list[list[float]]:
    value, low, high = estimate.value or 0.0, estimate.ci_low, estimate.ci_high
    # the value may lie outside its percentile interval by a hair, when it sits on a bound
    return [[max(value - (value if low is None else low), 0.0)], [max((value if high is None else high) - value, 0.0)]]


def arrange_as_printed(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows arranged so that the fitted law is Eq. 25 to the letter: W multiplies usability, not T."""
    return rows.assign(T=rows["usability"], enc_gen=rows["enc_gen"] + rows["approx"])
