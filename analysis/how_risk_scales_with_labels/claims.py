"""What the paper prints of the scaling law: its parameters, Table 9, and that it is ahead of the standard laws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from zoo.analysis.columns import Estimate
from zoo.analysis.scaling_law import COMPONENT_LAW, SPLITS, ScalingLaw, Score
from zoo.errors import QueryError
from zoo.studies.findings import NOT_AVAILABLE, WIDEST, Answer, Claim, Claims, number_claim, statement_claim

from .tables import PRINTED, interval, law_parameters

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


def table9_claims(rows: pd.DataFrame, scores: Sequence[Score], older: Older | None, *, n_repeats: int) -> list[Claim]:
    """Every printed cell of Table 9 beside ours; ``rows`` are those that the laws were fitted to."""
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
def the_law_is_ahead_everywhere(scores: Sequence[Score]) -> Answer:
    """Ahead of every law of the printed table on every split, by an interval above 0."""
    leads = [
        score
        for score in scores
        if score.law in PRINTED and score.law != COMPONENT_LAW and score.lead.value is not None
    ]
    if not leads:
        raise QueryError("no split of these encoders can be predicted")
    least = min(leads, key=lambda score: score.lead.ci_low or 0.0)
    return Answer(
        ours=f"R2 higher by {interval(least.lead)} at least, of {len(leads)} cells",
        value=least.lead.value,
        holds=(least.lead.ci_low or 0) > 0,
        reason=f"it is not against {least.law} on held-out {SPLITS[least.split]}",
    )
