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
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing
from matplotlib.lines import Line2D

from zoo.analysis.columns import Estimate
from zoo.analysis.correlations import PairedComparison, compare_pairs
from zoo.analysis.table import StudyTable, require_encoders
from zoo.cards.catalogue import load_catalogue
from zoo.errors import QueryError
from zoo.evaluation.drawing import COLOURS, Figure, make_figure, write_panel_letters
from zoo.results.rows import errata
from zoo.studies.findings import (
    NOT_AVAILABLE,
    Claim,
    ClaimAnswer,
    Claims,
    Findings,
    FindingsTable,
    RowsUsed,
    answer_in_sentence,
    format_statement,
    has_interval_without_zero,
    number_claim,
    require_value,
)
from zoo.studies.running import StudyOptions
from zoo.studies.tables import format_unsigned, read_printed


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
        answer=answer_in_sentence(lambda: _answer(comparisons["full-shot"])),
        estimates=[
            *(estimate for one in known for estimate in _estimates(one)),
            *(
                one
                for setting, (accuracy, _) in SETTINGS.items()
                for one in list_pair_estimates(differences[setting], outcome=accuracy, method=DIFFERENCE)
            ),
        ],
        tables=[summary_table(known), table_8(table, ours)],
        figures=[differences_figure(table, differences, comparisons)],
        rows=[
            RowsUsed(
                part=f"published accuracies, {setting}", used=len(pairs), left_out=table.n_left_out(*SETTINGS[setting])
            )
            for setting, pairs in differences.items()
        ],
        notes=_notes(comparisons, [encoder for encoder in wrong if encoder in differences["full-shot"]]),
    )


def _answer(full: PairedComparison | None) -> str:
    if full is None:
        raise QueryError(MISSING)
    is_above = require_value(full.mean) < 0  # published minus ours
    return (
        f"{'Not quite' if has_interval_without_zero(full.mean) else 'Within chance'}: with all labels our accuracies "
        "are on "
        f"average {format_statement(full.mean, 1, unit='points', is_turned=is_above)} "
        f"{'above' if is_above else 'below'} the "
        f"published ones, over {full.n} encoders."
    )


def _estimates(one: PairedComparison) -> list[Estimate]:
    spread = one.mean.described(value=one.sd, ci_low=None, ci_high=None, p=None, method="standard deviation")
    return [one.mean, spread, one.median, *([one.by_group] if one.by_group else [])]


def _notes(comparisons: Mapping[str, PairedComparison | None], wrong: Sequence[str]) -> list[str]:
    notes = [
        "The data show that accuracies differ, not why: no encoder was probed both with and without augmentations.",
        "Encoders of one objective often share code and authors, so pairs are not independent; p-values with standard "
        "errors clustered by objective stand next to those of the t-test.",
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


APPENDIX = "Appendix F.1"
MOMENTS = {  # mean and standard deviation, printed there
    "full-shot": ("1.13", "3.01"),
    "1 % of labels": ("0.14", "2.39"),
    "5-shot": ("-0.34", "0.48"),
}
P_VALUE = "1e-4"  # of all labels
MUGS = "mugs_vits16_ep800_extractS"
MISSING = "the table has no such pair: not measured, not published, or left out by an erratum"


@dataclass(frozen=True, slots=True)
class Found:
    table: StudyTable
    compared: Mapping[str, PairedComparison | None]  # setting -> comparison; None of too few pairs
    without: PairedComparison | None  # of all labels, without rows on wrong weights
    ours: Mapping[tuple[str, str], float]  # encoder, setting -> published minus measured accuracy


def claims_of(found: Found) -> list[Claim]:
    return [
        *moments(found),
        p_value(found),
        *(
            claim
            for setting in ("1 % of labels", "5-shot")
            for claim in of_significance.judged(found.compared[setting], setting=setting)
        ),
        *of_directions.judged(found),
        *cells_of_table_8(found),
        *of_table_8.judged(found),
    ]


# Means and their tests


def moments(found: Found) -> list[Claim]:
    """Mean and standard deviation of the differences in each setting."""
    claims = []
    for setting, (mean, sd) in MOMENTS.items():
        one = found.compared[setting]
        claims += [
            number(f"Mean of published minus measured accuracy, {setting}", mean, one.mean.value if one else None),
            number(f"Standard deviation of published minus measured accuracy, {setting}", sd, one.sd if one else None),
        ]
    return claims


def p_value(found: Found) -> Claim:
    """The test with all labels."""
    full, without = found.compared["full-shot"], found.without
    changed = f"without the row on wrong weights it is {without.mean.p:.1e}" if without and without.mean.p else ""
    return number("p-value of the paired t-test, full-shot", P_VALUE, full.mean.p if full else None, reason=changed)


of_significance = Claims(source=APPENDIX)


@of_significance("The difference is not significant, {setting}", paper="not significant")
def few_labels_make_no_difference(comparison: PairedComparison | None) -> ClaimAnswer:
    if comparison is None:
        raise QueryError(MISSING)
    p = comparison.mean.p if comparison.mean.p is not None else float("nan")
    return ClaimAnswer(ours=f"p {p:.2f}, {comparison.n} pairs", holds=p >= 0.05, value=p)


# Which encoders differ, and which way

of_directions = Claims(source=APPENDIX)


@of_directions("Many of the highly positive differences are of encoders that predict the transformation", paper="many")
def many_predict_the_transformation(found: Found) -> ClaimAnswer:
    modes = [
        found.table.frame.at[encoder, "ssl_mode"]
        for (encoder, setting), value in found.ours.items()
        if setting == "full-shot" and value > FAR
    ]
    older = modes.count("transform")
    return ClaimAnswer(
        ours=f"{older} of the {len(modes)} above {FAR:g} points (many: at least half)",
        holds=0 < len(modes) <= 2 * older,
        reason="fewer than half of them predict a transformation",
    )


@of_directions(
    "MUGS ViT-S/16 is worse than published with 1 % of labels, and better with all",
    paper="worse with 1 %, better with all",
)
def mugs_differs_both_ways(found: Found) -> ClaimAnswer:
    few, full = found.ours.get((MUGS, "1 % of labels")), found.ours.get((MUGS, "full-shot"))
    if few is None or full is None:
        raise QueryError(MISSING)
    return ClaimAnswer(ours=f"{few:+.2f} and {full:+.2f}", holds=few > 0 > full)


@of_directions(
    "Negative differences are encoders that perform worse than previously stated",
    source="caption of Figure 27",
    paper="negative is worse",
)
def negative_is_worse(found: Found) -> ClaimAnswer:
    printed = [(float(value), found.ours[pair]) for pair, value in TABLE_8.items() if pair in found.ours]
    if not printed:
        raise QueryError(MISSING)
    same_sign = all(one * other > 0 for one, other in printed)
    return ClaimAnswer(
        ours="positive is worse in Table 8 and in the text",
        holds=not same_sign,
        held_as_the_paper_did=same_sign,
        reason="Table 8 is published minus measured accuracy, so there negative is better; the caption "
        "fits the opposite difference",
    )


# Table 8


def cells_of_table_8(found: Found) -> list[Claim]:
    """Every printed difference next to ours."""
    return [
        number(
            f"Published minus measured accuracy of {encoder}, {setting}",
            printed,
            found.ours.get((encoder, setting)),
            source="Table 8",
            reason=known_fault(encoder),
        )
        for (encoder, setting), printed in TABLE_8.items()
    ]


of_table_8 = Claims(source="Table 8")
TABLE_8 = {  # (encoder, setting) -> printed difference
    (row["encoder"], row["setting"]): row["difference"] for row in read_printed(Path(__file__).with_name("table8.tsv"))
}
FAR = 3.0  # percentage points, of Table 8
FAR_IN_PRINT = {pair for pair, value in TABLE_8.items() if abs(float(value)) > FAR}


@of_table_8(f"Table 8 lists every pair that is more than {FAR:g} points apart", paper=f"{len(FAR_IN_PRINT)} pairs")
def table_8_is_complete(found: Found) -> ClaimAnswer:
    far = {pair for pair, value in found.ours.items() if abs(value) > FAR}
    changes = [f"without {encoder} ({setting})" for encoder, setting in sorted(FAR_IN_PRINT - far)]
    changes += [f"with {encoder} ({setting})" for encoder, setting in sorted(far - FAR_IN_PRINT)]
    return ClaimAnswer(
        ours=f"{len(far)} pairs", holds=far == FAR_IN_PRINT, value=float(len(far)), reason=", ".join(changes)
    )


def number(claim: str, printed: str, ours: float | None, *, source: str = APPENDIX, reason: str = "") -> Claim:
    """A printed number next to ours, or that the table has none."""
    known = ours is not None
    return number_claim(
        claim,
        source=source,
        printed=printed,
        ours=ours,
        shown=None if known else NOT_AVAILABLE,
        reason=reason if known else MISSING,
    )


SETTINGS = {  # words -> published accuracy, measured error
    "full-shot": ("top1acc_in1k_official", "train_test"),
    "1 % of labels": ("top1acc_in1k-1%_official", "train-balsbst-ntrain0.01_test"),
    "5-shot": ("top1acc_in1k-c5_official", "train-nperclass-5_test"),
}
DIFFERENCE = "published minus measured accuracy"


def differences_of(table: StudyTable, setting: str) -> pd.Series[float]:
    """Published minus measured accuracy by encoder, in percentage points, of the encoders that have both."""
    published, error = SETTINGS[setting]
    pairs = table.frame.dropna(subset=[published, error])
    return pairs[published] - (100 - pairs[error])


def compared(table: StudyTable, term: str, pairs: pd.Series[float]) -> PairedComparison | None:
    """The paired comparison, also clustered by objective; None if fewer than two differences differ."""
    if pairs.nunique() < 2:
        return None
    objectives = table.frame["objective"].reindex(pairs.index).fillna("unknown")
    return compare_pairs(pairs, term=term, outcome=DIFFERENCE, groups=objectives)


@cache
def known_fault(encoder: str) -> str:
    """What is known to be wrong with the published accuracy, or with the measurement, of an encoder."""
    cards = load_catalogue()
    facts = cards[encoder].errata if encoder in cards else ()
    reasons = [erratum.reason for erratum in facts if erratum.field == "reported.top1_percent"]
    return " ".join([*reasons, *(one.reason for one in errata() if one.encoder == encoder and one.exclude)])


def summary_table(comparisons: Sequence[PairedComparison]) -> FindingsTable:
    """One row per setting: mean, standard deviation and median of the differences, with their tests."""
    rows = [
        [
            one.mean.term,
            str(one.n),
            format_unsigned(one.mean),
            f"{one.sd:.2f}",
            _p(one.mean),
            _p(one.by_group) if one.by_group else "",
            format_unsigned(one.median),
            _p(one.median),
            f"{one.detectable:.1f}",
        ]
        for one in comparisons
    ]
    return FindingsTable(
        title="Published minus measured top-1 accuracy, in percentage points",
        headers=[
            "setting", "pairs", "mean [95 % interval]", "sd", "p, paired t", "p, clustered by objective",
            "median [95 % interval]", "p, Wilcoxon", "detectable",
        ],
        rows=rows,
        note="Positive: our probe is worse. Detectable: the mean difference that a paired t-test would find in four of "
        "five repetitions with as many pairs and as much spread.",
    )  # fmt: skip


def table_8(table: StudyTable, ours: Mapping[tuple[str, str], float]) -> FindingsTable:
    """Every pair that is far apart in print or in the table; ``ours`` are differences by encoder and setting."""
    facts = table.frame[["objective", "architecture_exact", "pretraining_data"]].fillna("")
    rows = []
    for encoder, name in sorted({pair for pair, value in ours.items() if abs(value) > FAR} | set(TABLE_8)):
        value = ours.get((encoder, name))
        rows.append(
            [
                encoder,
                *(list(facts.loc[encoder]) if encoder in facts.index else ["", "", ""]),
                name,
                TABLE_8.get((encoder, name), ""),
                "" if value is None else f"{value:.2f}",
                known_fault(encoder),
            ]
        )
    return FindingsTable(
        title=f"Encoders more than {FAR:g} points from their published accuracy (Table 8)",
        headers=["encoder", "objective", "architecture", "pretraining data", "setting", "paper", "ours", "known fault"],
        rows=rows,
        note="Published minus measured accuracy, in percentage points.",
    )


def _p(estimate: Estimate) -> str:
    return "" if estimate.p is None else f"{estimate.p:.1e}" if estimate.p < 0.001 else f"{estimate.p:.3f}"


_HEIGHTS = dict(zip(SETTINGS, (0.0, -0.45, -0.8), strict=True))  # of the dots of a setting
_COLOURS = dict(zip(SETTINGS, COLOURS, strict=False))


def differences_figure(
    table: StudyTable,
    differences: Mapping[str, pd.Series[float]],
    compared: Mapping[str, PairedComparison | None],
) -> Figure:
    """Figure 27, and the pairs of Table 8 next to it."""
    counted = ", ".join(f"{len(pairs)} encoders ({name})" for name, pairs in differences.items())
    return Figure(
        name="figure27",
        title="Published minus measured accuracy (Figure 27)",
        caption="Published minus our top-1 accuracy on ImageNet-1K, in percentage points; above 0 our probe "
        f"is worse. (a) {counted}; black diamonds and bars are means and their 95 % intervals. (b) Those more "
        f"than {FAR:g} points away (Table 8)."
        f"{'' if table.corrected else ' Crosses have a fault that the corrected table repairs.'}",
        draw=lambda: draw(table, differences, compared),
    )


def draw(
    table: StudyTable, differences: Mapping[str, pd.Series[float]], compared: Mapping[str, PairedComparison | None]
) -> Drawing:
    drawing, (left, right) = make_figure(height=3.6, n_columns=2, width_ratios=[1.2, 1])
    _draw_all(left, table, differences, compared)
    _draw_far(right, table, differences)
    for axes in (left, right):
        axes.axvline(0, color="#444444", linewidth=0.8, zorder=0)
        axes.grid(axis="y", visible=False)
        axes.set_xlabel("published - measured\naccuracy [points]\nabove 0 our probe is worse")
    write_panel_letters([left, right])
    entries = [(mark, "#555555", words) for mark, words in (("o", "encoder"), ("X", "encoder with a known fault"))]
    entries += [("D", "black", "mean, 95 % interval"), *(("s", ink, name) for name, ink in _COLOURS.items())]
    handles = [Line2D([], [], linestyle="", marker=mark, color=ink, label=words) for mark, ink, words in entries]
    drawing.legend(handles=handles, loc="outside lower center", ncols=3)
    return drawing


def _draw_all(
    axes: Axes,
    table: StudyTable,
    differences: Mapping[str, pd.Series[float]],
    compared: Mapping[str, PairedComparison | None],
) -> None:
    """Every difference as a dot, those of the same half point upon each other, and the mean of each setting."""
    for name, pairs in differences.items():
        stacked: dict[int, int] = {}
        for encoder, value in pairs.sort_values().items():
            level = stacked[round(2 * value)] = stacked.get(round(2 * value), -1) + 1
            height = _HEIGHTS[name] + 0.033 * level
            axes.plot(value, height, _mark(encoder, table), color=_COLOURS[name], markersize=2.6)
        one = compared[name]
        if one and one.mean.value is not None and one.mean.ci_low is not None and one.mean.ci_high is not None:
            error = [[one.mean.value - one.mean.ci_low], [one.mean.ci_high - one.mean.value]]
            axes.errorbar(
                one.mean.value, _HEIGHTS[name] - 0.1, xerr=error, fmt="D", color="black", markersize=3.5, capsize=2
            )
    axes.set_yticks([*_HEIGHTS.values()], [f"{name}\n({len(pairs)})" for name, pairs in differences.items()])


def _draw_far(axes: Axes, table: StudyTable, differences: Mapping[str, pd.Series[float]]) -> None:
    """The pairs that are far apart, one row each, in the order of their differences."""
    far = sorted(
        (value, str(encoder), name)
        for name in SETTINGS
        for encoder, value in differences[name].items()
        if abs(value) > FAR
    )
    for row, (value, encoder, name) in enumerate(far):
        axes.plot([0, value], [row, row], color=_COLOURS[name], linewidth=1)
        axes.plot(value, row, _mark(encoder, table), color=_COLOURS[name])
    axes.set_yticks(range(len(far)), [encoder for _, encoder, _ in far], fontsize=6)


def _mark(encoder: object, table: StudyTable) -> str:
    return "X" if not table.corrected and known_fault(str(encoder)) else "o"


def list_pair_estimates(
    differences: pd.Series[float], *, outcome: str, method: str, unit: str = "percentage points"
) -> list[Estimate]:
    """The difference of every pair, without an interval; the index holds the terms, such as ids of encoders."""
    return [
        Estimate(term=str(term), value=float(value), n=1, unit=unit, outcome=outcome, method=method)
        for term, value in differences.items()
    ]
