"""The tables of scaling laws: Table 9 beside ours, what the components add, and where the law misses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from zoo.analysis.columns import COMPONENTS, ERRORS, Estimate
from zoo.analysis.scaling_law import COMPONENT_LAW, FULL_SHOT_LAW, LAWS, SPLITS, ScalingLaw, Score, residuals
from zoo.analysis.standard_laws import FLAT, STANDARD_LAWS, n_parameters
from zoo.analysis.table import StudyTable
from zoo.optional import requires_extra
from zoo.studies.findings import Rows, Table
from zoo.studies.tables import read_printed

with requires_extra("study", needed_for="A table"):
    import pandas as pd


PRINTED = {  # Table 9: law -> parameters, then R2 on the splits in the order of SPLITS; empty where nothing is printed
    row["law"]: (row["parameters"], *(row[split] for split in SPLITS))
    for row in read_printed(Path(__file__).with_name("table9.tsv"))
}
_NOT_PRINTED = ("", "", "", "", "")


def law_parameters(rows: pd.DataFrame, law: str) -> int:
    """Parameters of a law of Table 9, with all the groups that these rows have."""
    return n_parameters(rows, STANDARD_LAWS[law]) if law in STANDARD_LAWS else 2


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


def table9(rows: pd.DataFrame, scores: Sequence[Score], *, n_repeats: int) -> Table:
    """Table 9 with ours beside the printed numbers."""
    cells = {(score.law, score.split): score for score in scores}
    body = []
    for law in LAWS:
        parameters, *printed = PRINTED.get(law, _NOT_PRINTED)
        pairs = [(interval(cells[law, split].r2), number) for split, number in zip(SPLITS, printed, strict=True)]
        body.append([law, str(law_parameters(rows, law)), parameters, *(cell for pair in pairs for cell in pair)])
    return Table(
        title="R2 on held-out rows (Table 9)",
        headers=["law", "parameters", "printed", *(head for split in SPLITS for head in (split, f"{split}, printed"))],
        rows=body,
        note=f"95 % intervals over held-out encoders; iid is the mean of {n_repeats} random splits. Empty: a held-out "
        "group was never seen. The last two laws know the held-out encoder's own full-shot error or components, the "
        "others only its group and dimensions. e = encoder has more parameters than iid leaves rows to fit; of values "
        "that fit equally well those nearest to the law of all encoders are taken, and others would predict otherwise. "
        "K and b are no part of it, for an encoder has one size.",
    )


def older_table9(rows: pd.DataFrame, scores: Sequence[Score], *, n_gone: int) -> Table:
    """Table 9 of the encoders that it was printed from, as far as it is printed."""
    cells = {(score.law, score.split): score for score in scores}
    body = []
    for law, (parameters, *printed) in PRINTED.items():
        pairs = [(_text(cells[law, split].r2.value), number) for split, number in zip(SPLITS, printed, strict=True)]
        body.append([law, str(law_parameters(rows, law)), parameters, *(cell for pair in pairs for cell in pair)])
    return Table(
        title="Table 9 without OpenCLIP",
        headers=["law", "parameters", "printed", *(head for split in SPLITS for head in (split, f"{split}, printed"))],
        rows=body,
        note=f"R2 on held-out rows of {rows['encoder'].nunique()} encoders, the {n_gone} of OpenCLIP left out. All of "
        "the row of Eq. 25 and the parameters come out as printed, so the table is of these encoders; iid is the mean "
        "of many random splits, of which one is printed. The standard laws are fitted with K >= 0; with which bounds, "
        "starts and split the paper fitted them it does not say.",
    )


def components_table(scores: Sequence[Score]) -> Table:
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
    return Table(
        title="What the components add to the full-shot error",
        headers=["held out", "law", "R2", "R2 of few-shot rows", "lead of Eq. 25"],
        rows=body,
        note="Both laws have two parameters; 95 % intervals are over held-out encoders. Full-shot rows are no test of "
        "either: the law of the components adds them up again.",
    )


def populations_table(laws: Mapping[str, ScalingLaw]) -> Table:
    """Eq. 25 fitted to several populations."""
    body = [
        [name, str(law.n_encoders), str(law.n_rows), interval(law.alpha, 3), interval(law.W), interval(law.r2, 3)]
        for name, law in laws.items()
    ]
    return Table(
        title="Eq. 25 by population",
        headers=["encoders", "n", "rows", "alpha", "W", "R2"],
        rows=body,
        note="95 % intervals over resampled encoders.",
    )


def misses_table(law: ScalingLaw, rows: pd.DataFrame) -> Table:
    """How far Eq. 25 is off, by number of labels and family."""
    names = {"n": "labels", "n_encoders": "encoders", "bias": "mean", "ci_low": "from", "ci_high": "to", "rmse": "RMS"}
    return Table.of(
        "Where Eq. 25 misses: measured minus predicted error [percentage points]",
        residuals(law, rows).rename(columns=names),
        note="Mean with its 95 % interval, positive where the law is too optimistic; RMS is the root mean square, what "
        "to expect of a new encoder.",
    )


def pairs_used(
    part: str, table: StudyTable, rows: pd.DataFrame, *, complete_only: bool = True, used: int | None = None
) -> Rows:
    """How many pairs of encoder and setting a law used, of all that the table could have.

    ``rows`` are those of :func:`~zoo.analysis.scaling_law.law_rows` with the same ``complete_only``; ``used`` are those
    that have a year, a size and all groups, by default all.
    """
    names = [component.column for component in COMPONENTS] if complete_only else ["probe_gen", "enc_gen"]
    lacking = table.n_left_out("approx_plus_usability", *names)
    left_out = {reason: count * len(ERRORS) for reason, count in lacking.items()}
    left_out["setting not measured"] = (len(table) - sum(lacking.values())) * len(ERRORS) - len(rows)
    left_out["no year, size or group"] = 0 if used is None else len(rows) - used
    return Rows(
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
