"""What the paper says of published accuracies and its own; each statement stands above what decides it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from zoo.analysis.correlations import PairedComparison
from zoo.analysis.table import StudyTable
from zoo.errors import QueryError
from zoo.studies.findings import NOT_AVAILABLE, Answer, Claim, Claims, number_claim

from .tables import FAR, TABLE_8, known_fault

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
    """What the claims are held against."""

    table: StudyTable
    compared: Mapping[str, PairedComparison | None]  # setting -> comparison; None of too few pairs
    without: PairedComparison | None  # of all labels, without rows on wrong weights
    ours: Mapping[tuple[str, str], float]  # encoder, setting -> published minus measured accuracy


def claims_of(found: Found) -> list[Claim]:
    """All claims, in the order of the paper."""
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
def few_labels_make_no_difference(comparison: PairedComparison | None) -> Answer:
    if comparison is None:
        raise QueryError(MISSING)
    p = comparison.mean.p if comparison.mean.p is not None else float("nan")
    return Answer(ours=f"p {p:.2f}, {comparison.n} pairs", holds=p >= 0.05, value=p)


# Which encoders differ, and which way

of_directions = Claims(source=APPENDIX)


@of_directions("Many of the highly positive differences are of encoders that predict the transformation", paper="many")
def many_predict_the_transformation(found: Found) -> Answer:
    modes = [
        found.table.frame.at[encoder, "ssl_mode"]
        for (encoder, setting), value in found.ours.items()
        if setting == "full-shot" and value > FAR
    ]
    older = modes.count("transform")
    return Answer(
        ours=f"{older} of the {len(modes)} above {FAR:g} points (many: at least half)",
        holds=0 < len(modes) <= 2 * older,
        reason="fewer than half of them predict a transformation",
    )


@of_directions(
    "MUGS ViT-S/16 is worse than published with 1 % of labels, and better with all",
    paper="worse with 1 %, better with all",
)
def mugs_differs_both_ways(found: Found) -> Answer:
    few, full = found.ours.get((MUGS, "1 % of labels")), found.ours.get((MUGS, "full-shot"))
    if few is None or full is None:
        raise QueryError(MISSING)
    return Answer(ours=f"{few:+.2f} and {full:+.2f}", holds=few > 0 > full)


@of_directions(
    "Negative differences are encoders that perform worse than previously stated",
    source="caption of Figure 27",
    paper="negative is worse",
)
def negative_is_worse(found: Found) -> Answer:
    printed = [(float(value), found.ours[pair]) for pair, value in TABLE_8.items() if pair in found.ours]
    if not printed:
        raise QueryError(MISSING)
    same_sign = all(one * other > 0 for one, other in printed)
    return Answer(
        ours="positive is worse in Table 8 and in the text",
        holds=not same_sign,
        held_as_the_paper_did=same_sign,
        reason="Table 8 is published minus measured accuracy, so there negative is better; the caption "
        "fits the opposite difference",
    )


# Table 8


def cells_of_table_8(found: Found) -> list[Claim]:
    """Every printed difference beside ours."""
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
FAR_IN_PRINT = {pair for pair, value in TABLE_8.items() if abs(float(value)) > FAR}


@of_table_8(f"Table 8 lists every pair that is more than {FAR:g} points apart", paper=f"{len(FAR_IN_PRINT)} pairs")
def table_8_is_complete(found: Found) -> Answer:
    far = {pair for pair, value in found.ours.items() if abs(value) > FAR}
    changes = [f"without {encoder} ({setting})" for encoder, setting in sorted(FAR_IN_PRINT - far)]
    changes += [f"with {encoder} ({setting})" for encoder, setting in sorted(far - FAR_IN_PRINT)]
    return Answer(ours=f"{len(far)} pairs", holds=far == FAR_IN_PRINT, value=float(len(far)), reason=", ".join(changes))


def number(claim: str, printed: str, ours: float | None, *, source: str = APPENDIX, reason: str = "") -> Claim:
    """A printed number beside ours, or that the table has none."""
    known = ours is not None
    return number_claim(
        claim,
        source=source,
        printed=printed,
        ours=ours,
        shown=None if known else NOT_AVAILABLE,
        reason=reason if known else MISSING,
    )
