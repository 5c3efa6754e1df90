"""Do our accuracies agree with those that the authors of the weights published?

Claim: with all labels, linear probes come out 1.13 points (sd 3.01) below the published accuracies, which is
significant (p = 1e-4); with 1 % of the labels and with 5 a class the differences, 0.14 (2.39) and -0.34 (0.48), are
not. Table 8 lists the 15 encoders that are more than 3 points away in some setting.

Expected: all of these numbers on the published rows, as published minus measured accuracy, from 114, 9 and 3 encoders.
The one large negative difference, -17.57, is a measurement on the wrong weights; without it the mean is 1.30, p 1e-7.
The sign in the caption of Figure 27 is the opposite of that of Table 8.

Command: zoo study do_accuracies_agree
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from zoo.analysis.columns import Estimate
from zoo.analysis.correlations import PairedComparison, pair_estimates
from zoo.analysis.table import StudyTable, require_encoders
from zoo.results.rows import errata
from zoo.studies.findings import Findings, Rows
from zoo.studies.running import StudyOptions

from .claims import Found, claims_of
from .figures import differences_figure
from .tables import DIFFERENCE, SETTINGS, compared, differences_of, known_fault, summary_table, table_8


def study(table: StudyTable, options: StudyOptions) -> Findings:
    """Published minus measured accuracy in three settings."""
    require_encoders(table)
    differences = {setting: differences_of(table, setting) for setting in SETTINGS}
    comparisons = {setting: compared(table, setting, pairs) for setting, pairs in differences.items()}
    ours = {
        (str(encoder), setting): float(value) for setting in SETTINGS for encoder, value in differences[setting].items()
    }
    wrong = [erratum.encoder for erratum in errata() if erratum.exclude]
    believable = differences["full-shot"].drop(index=wrong, errors="ignore")
    without = compared(table, "full-shot, without rows on wrong weights", believable)
    known = [one for one in (*comparisons.values(), without) if one is not None]
    return Findings(
        claims=claims_of(Found(table, comparisons, without, ours)),
        estimates=[
            *(estimate for one in known for estimate in _estimates(one)),
            *(
                one
                for setting, (accuracy, _) in SETTINGS.items()
                for one in pair_estimates(differences[setting], outcome=accuracy, method=DIFFERENCE)
            ),
        ],
        tables=[summary_table(known), table_8(table, ours)],
        figures=[differences_figure(table, differences, comparisons)],
        rows=[
            Rows(
                part=f"published accuracies, {setting}", used=len(pairs), left_out=table.n_left_out(*SETTINGS[setting])
            )
            for setting, pairs in differences.items()
        ],
        notes=_notes(comparisons, [encoder for encoder in wrong if encoder in differences["full-shot"]]),
    )


def _estimates(one: PairedComparison) -> list[Estimate]:
    spread = one.mean.described(value=one.sd, ci_low=None, ci_high=None, p=None, method="standard deviation")
    return [one.mean, spread, one.median, *([one.by_group] if one.by_group else [])]


def _notes(comparisons: Mapping[str, PairedComparison | None], wrong: Sequence[str]) -> list[str]:
    notes = [
        "The data show that accuracies differ, not why: no encoder was probed both with and without augmentations.",
        "Encoders of one objective often share code and authors, so pairs are not independent; p-values with standard "
        "errors clustered by objective stand beside those of the t-test.",
    ]
    few = comparisons["5-shot"]
    if few is not None and few.n < 6:
        notes.append(
            f"Little follows from {few.n} pairs that spread by {few.sd:.2f} points: a mean difference below "
            f"{few.detectable:.1f} points would often be missed, and Wilcoxon's test cannot give a p-value below "
            f"{few.smallest_p:g}; that the 5-shot difference is not significant does not make it zero."
        )
    notes += [f"{encoder} counts here although an erratum excludes it. {known_fault(encoder)}" for encoder in wrong]
    return notes
