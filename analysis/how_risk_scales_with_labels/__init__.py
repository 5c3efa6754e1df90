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

import pandas as pd

from zoo.analysis.estimates import Estimate
from zoo.analysis.law_splits import (
    COMPONENT_LAW,
    FULL_SHOT_LAW,
    SPLITS,
    Score,
    comparable_rows,
    compare_laws,
    r2_estimate,
)
from zoo.analysis.outcomes import COMPONENTS
from zoo.analysis.scaling_law import (
    FEWEST_ENCODERS,
    METHOD,
    N_FULL_SHOT,
    ScalingLaw,
    as_printed,
    fit_scaling_law,
    full_shot_only,
    law_rows,
    leave_encoder_out,
    predict,
    residuals,
)
from zoo.analysis.table import StudyTable
from zoo.evaluation.drawing import Figure
from zoo.studies.findings import WIDEST, Claim, Findings, Rows, number_claim, statement_claim
from zoo.studies.running import StudyOptions

from .figures import draw_curves, draw_predicted
from .tables import (
    PRINTED,
    components_table,
    interval,
    law_parameters,
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
ALPHA, W, R2 = "0.15", "0.51", "0.94"  # printed in Appendix F.4


@dataclass(frozen=True, slots=True)
class Older:
    """The law and Table 9 of the encoders that the paper's numbers were printed from."""

    law: ScalingLaw
    rows: pd.DataFrame  # of Table 9
    scores: Sequence[Score]
    n_gone: int  # complete encoders that were added later


def study(table: StudyTable, options: StudyOptions) -> Findings:
    """Eq. 25 fitted, held against standard scaling laws, and looked at where it misses."""
    rows, every = law_rows(table), law_rows(table, complete_only=False)
    laws = _laws(rows, every, options)
    law, comparable = laws[COMPLETE], comparable_rows(rows)
    scores = compare_laws(comparable, n_repeats=N_REPEATS, n_resamples=N_RESAMPLES, seed=options.seed,
                          told=options.progress)  # fmt: skip
    older = _older(rows, laws, options)
    either_sign = compare_laws(comparable, laws=("Std",), n_repeats=N_REPEATS, n_resamples=0, seed=options.seed,
                               falls_with_size=False)  # fmt: skip
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
            *_law_claims(law, laws[EVERY], older), *_table9_claims(comparable, scores, older), _lead_claim(scores),
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
            components_table(scores), populations_table(laws),
            misses_table(law, rows),
        ],
        figures=_figures(law, laws, rows),
        rows=[
            Rows(part="Eq. 25 and Table 9", used=law.n_encoders,
                 left_out=table.n_left_out("approx_plus_usability", *(component.column for component in COMPONENTS))),
            pairs_used("Eq. 25, pairs of encoder and setting", table, rows),
            pairs_used("Eq. 25 of every encoder", table, every, complete_only=False),
            pairs_used("Table 9", table, rows, used=len(comparable)),
            *([Rows(part=f"Eq. 25 and Table 9, {OLDER}", used=older.law.n_encoders,
                    left_out={"OpenCLIP": older.n_gone})] if older else []),
        ],
        notes=_notes(rows, laws, pooled, scores, either_sign),
    )  # fmt: skip


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
        Estimate(term=f"measured minus predicted, {n:,} labels, {family}", value=bias, n=count, outcome="error",
                 ci_low=None if low != low else low, ci_high=None if high != high else high, method=METHOD,
                 unit="percentage points")
        for n, family, count, bias, low, high, _ in residuals(law, rows).itertuples(index=False)
    ]  # fmt: skip


def _law_claims(law: ScalingLaw, every: ScalingLaw, older: Older | None) -> list[Claim]:
    source = "Appendix F.4"
    what = "of stale rows, before OpenCLIP was added" if older else "of other encoders"

    def claim(name: str, printed: str, ours: Estimate, before: Estimate | None, digits: int) -> Claim:
        reason = (
            f"printed {what}"
            if before is None
            else (
                f"printed {what}: {older.law.n_rows} rows of {older.law.n_encoders} encoders give "
                f"{before.value:.{digits}f}, and these {ours.n} of {law.n_encoders} give {ours.value:.{digits}f}"
            )
        )
        return number_claim(
            f"{name} of the scaling law",
            source=source,
            printed=printed,
            ours=ours.value,
            as_the_paper_did=None if before is None else before.value,
            interval=(ours.ci_low, ours.ci_high),
            shown=interval(ours, digits),
            reason=reason,
        )

    return [
        claim("alpha", ALPHA, law.alpha, older and older.law.alpha, 3),
        claim("W", W, law.W, older and older.law.W, 2),
        claim("R2", R2, law.r2, older and older.law.r2, 3),
        statement_claim(
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


def _table9_claims(rows: pd.DataFrame, scores: Sequence[Score], older: Older | None) -> list[Claim]:
    found, source = [], "Table 9"
    cells = {(score.law, score.split): score for score in scores}
    before = {(score.law, score.split): score for score in older.scores} if older else {}
    for law, (parameters, *printed) in PRINTED.items():
        counted, counted_before = law_parameters(rows, law), law_parameters(older.rows, law) if older else None
        groups = (
            f"a group has three parameters and two are shared: {parameters} are of {(int(parameters) - 2) // 3} "
            f"groups, and these encoders have {(counted - 2) // 3}"
        )
        if older and counted_before != counted:
            groups += (
                f"; printed of stale rows, before the {older.n_gone} encoders of OpenCLIP were added, which have "
                f"{((counted_before or 2) - 2) // 3}"
            )
        found.append(
            number_claim(
                f"Parameters of {law}",
                source=source,
                printed=parameters,
                ours=counted,
                as_the_paper_did=counted_before,
                shown=str(counted),
                reason=groups,
            )
        )
        for split, number in zip(SPLITS, printed, strict=True):
            if number:
                score, other = cells[law, split], before.get((law, split))
                found.append(
                    number_claim(
                        f"R2 of {law} on held-out {SPLITS[split]}",
                        source=source,
                        printed=number,
                        ours=score.r2.value,
                        as_the_paper_did=other.r2.value if other else None,
                        interval=(score.r2.ci_low, score.r2.ci_high),
                        reason=_why(score, other, older),
                        shown="not available" if score.r2.value is None else interval(score.r2, 3),
                    )
                )
    return found


def _why(score: Score, before: Score | None, older: Older | None) -> str:
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
            reasons.append(f"over {N_REPEATS} random splits it goes from {score.lowest:.3f} to {score.highest:.3f}")
        low, high = score.r2.ci_low, score.r2.ci_high
        if low is not None and high is not None and high - low > WIDEST:
            reasons.append("the interval is too wide to tell")
    return "; ".join(reasons)


def _lead_claim(scores: Sequence[Score]) -> Claim:
    """Whether Eq. 25 is significantly ahead of every law of the printed table on every split."""
    leads = [(score.lead, score) for score in scores
             if score.law in PRINTED and score.law != COMPONENT_LAW and score.lead.value is not None]  # fmt: skip
    least = min(leads, key=lambda pair: pair[0].ci_low or 0.0, default=None)
    name = "Eq. 25 predicts held-out settings and encoders significantly better than standard scaling laws"
    if least is None:
        return statement_claim(name, source="Section 5.2.1", paper="significantly better", ours="not available",
                               holds=False, reason="no split of these encoders can be predicted")  # fmt: skip
    lead, score = least
    return statement_claim(
        name, source="Section 5.2.1", paper="significantly better", value=lead.value, holds=(lead.ci_low or 0) > 0,
        ours=f"R2 higher by {interval(lead)} at least, of {len(leads)} cells",
        reason=f"it is not against {score.law} on held-out {SPLITS[score.split]}",
    )  # fmt: skip


def _figures(law: ScalingLaw, laws: Mapping[str, ScalingLaw], rows: pd.DataFrame) -> list[Figure]:
    clouds = {name: one for name, one in laws.items() if name not in (OLDER, EVERY)}
    return [
        Figure(name="predicted_and_measured", title="Errors by the scaling law against measured errors (Figure 5b)",
               caption=f"Error in percent, lower is better, predicted by Eq. 25 from the components, of "
               f"{law.n_encoders} encoders in up to {rows['n'].nunique()} settings ({len(rows)} rows); on the line, "
               "prediction and measurement are equal.", draw=lambda: draw_predicted(law, rows)),
        Figure(name="curves_and_parameters", title="The scaling law of single encoders, and its two parameters",
               caption=f"(a) Error in percent, lower is better, by Eq. 25 (lines) and measured (marks) of five of the "
               f"{law.n_encoders} encoders, from the best to the worst fitted. (b) alpha and W of {len(law.draws):,} "
               "resamples of the encoders (dots), of all and by family, with 95 % intervals; the cross is the paper's.",
               draw=lambda: draw_curves(law, clouds, rows, printed=(float(ALPHA), float(W)))),
    ]  # fmt: skip


def _notes(
    rows: pd.DataFrame, laws: Mapping[str, ScalingLaw], pooled: Sequence[Estimate], scores: Sequence[Score],
    either_sign: Sequence[Score],
) -> list[str]:  # fmt: skip
    law, alone = laws[COMPLETE], fit_scaling_law(full_shot_only(rows), n_resamples=0)
    literal = fit_scaling_law(as_printed(rows), n_resamples=0)
    leads = [f"{score.split} {interval(score.lead, 3)}" for score in scores if score.law == FULL_SHOT_LAW]
    families = [f"{name} alpha {interval(one.alpha, 3)}, W {interval(one.W)}" for name, one in laws.items()
                if name not in (COMPLETE, OLDER, EVERY)]  # fmt: skip
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
