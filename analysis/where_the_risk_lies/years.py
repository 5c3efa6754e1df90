"""Risks over the years of publication: the best encoder of each year, the average one, and who carried a change."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scipy import stats

from zoo.analysis.columns import Estimate
from zoo.analysis.groups import PARTS, best_of_each, group_means
from zoo.analysis.ols import design_of, factor_test, fit_ols
from zoo.analysis.table import StudyTable, require_several
from zoo.errors import QueryError


@dataclass(frozen=True, slots=True)
class YearRisks:
    """Components of one year: of its best encoder, or averages."""

    year: int
    encoder: str | None  # the best one; None for averages
    n: int  # encoders of the year that were compared or averaged
    parts: Mapping[str, Estimate]  # component -> estimate; its value is None where it was not measured
    error: float  # full-shot, percent
    known_sum: float | None  # approximation and usability of the best encoder together, which needs no supervised twin


def risks_of_best_by_year(table: StudyTable) -> dict[int, YearRisks]:
    """Components of the encoder with the lowest full-shot error of each year; what it lacks stays missing."""
    rows = table.complete("year", "train_test")
    counts = rows.groupby("year").size()
    best = best_of_each(rows, "year", by="train_test")
    found = {}
    for encoder, row in best.iterrows():
        year, n = int(row["year"]), int(counts[row["year"]])
        parts = {part: _of_best(table, str(encoder), part, year, n) for part in PARTS}
        together = float(row["approx_plus_usability"])
        error, known_sum = float(row["train_test"]), None if math.isnan(together) else together
        found[year] = YearRisks(year, str(encoder), n, parts, error, known_sum)
    return found


def mean_risks_by_year(table: StudyTable) -> dict[int, YearRisks]:
    """Mean components of the encoders of each year with 95 % intervals of Student's t; each over those that have it."""
    rows = table.complete("year", "train_test")
    chosen = table.only(rows.index, because="no year or no full-shot error")
    means = {
        part: {int(float(mean.term)): mean for mean in group_means(chosen, part, "year")}
        for part in PARTS
        if chosen.frame[part].notna().any()
    }
    found = {}
    for label, group in rows.groupby("year"):
        year = int(float(str(label)))
        parts = {}
        for part in PARTS:
            mean = means.get(part, {}).get(year) or _missing(table, part, f"none of the {len(group)} encoders has it")
            parts[part] = mean.described(term=str(year), method="mean of the year")
        found[year] = YearRisks(year, None, len(group), parts, float(group["train_test"].mean()), None)
    return found


def of_year(years: Mapping[int, YearRisks], year: int) -> YearRisks:
    """The risks of one year; QueryError if it has no encoder."""
    if year not in years:
        raise QueryError(f"None of the encoders is of {year}, expected one to compare with other years; add it.")
    return years[year]


def known(risks: YearRisks, part: str) -> float:
    """A component of a year; QueryError if it was not measured."""
    value = risks.parts[part].value
    if value is None:
        raise QueryError(f"{risks.year} has no {part} ({risks.parts[part].note}), expected it to compare; measure it.")
    return value


def parts_of(years: Mapping[int, YearRisks], year: int) -> dict[str, float]:
    """All components of one year; QueryError if one was not measured."""
    return {part: known(of_year(years, year), part) for part in PARTS}


def changes_between(years: Mapping[int, YearRisks], first: int, last: int) -> dict[str, float]:
    """How much each component grew between two years, in percentage points; negative if it fell."""
    before, after = parts_of(years, first), parts_of(years, last)
    return {part: after[part] - before[part] for part in PARTS}


def slope_over_years(table: StudyTable, outcome: str) -> Estimate:
    """Change of a risk a year over all encoders, by least squares, with HC3 intervals beside the classical ones."""
    rows = table.complete("year", outcome)
    require_several(rows["year"], "year")
    centred = rows.assign(year=rows["year"] - rows["year"].mean())
    fit = fit_ols(
        design_of(centred, numeric=["year"]).matrix,
        rows[outcome],
        terms=["year"],
        outcome_name=outcome,
        unit=f"{table.column(outcome).unit} per year",
        method="linear trend",
    )
    return fit.estimate("year")


def years_differ(table: StudyTable, outcome: str) -> tuple[Estimate, Estimate]:
    """Whether a risk differs between years at all, however it moves; a linear trend can miss a rise and a fall.

    One-way analysis of variance (F), and the test of Kruskal and Wallis (H), which ranks and so withstands outliers.
    Values are the statistics; the p-value of a risk that never varies is 1. Years of one encoder are left out: nothing
    tells the year from the encoder.
    """
    rows = table.complete("year", outcome)
    rows = rows[rows.groupby("year")[outcome].transform("size") > 1]
    require_several(rows["year"], "year (of the years with two encoders)")
    years = rows.assign(year=rows["year"].map("{:g}".format))
    label = Estimate(
        term="year",
        value=0.0,
        p=1.0,
        n=len(rows),
        outcome=outcome,
        unit="F statistic",
        method="differences between years",
        note="the risk never varies",
    )
    ranks = label.described(unit="H statistic", method="differences between years, Kruskal-Wallis test")
    if rows[outcome].nunique() == 1:
        return label, ranks
    design = design_of(years, categorical=["year"])
    fit = fit_ols(design.matrix, rows[outcome], terms=[], outcome_name=outcome, unit="", method=label.method)
    test = factor_test(fit, design.terms["year"], name="year")
    kruskal = stats.kruskal(*(group.to_numpy() for _, group in rows.groupby("year")[outcome]))
    return (
        test.described(outcome=outcome, method=f"{label.method}, joint F test"),
        ranks.described(value=float(kruskal.statistic), p=float(kruskal.pvalue), note=""),
    )


def mean_difference(table: StudyTable, first: str, second: str) -> Estimate:
    """Mean of first minus second over the encoders that have both, with the 95 % interval and p-value of a paired t."""
    rows = table.complete(first, second)
    if len(rows) < 2:
        raise QueryError(f"One encoder has both {first} and {second}, expected at least 2 for a mean difference.")
    difference = rows[first] - rows[second]
    test = stats.ttest_1samp(difference, 0.0)
    interval = test.confidence_interval(0.95)
    return Estimate(
        term=f"{first} - {second}",
        n=len(rows),
        unit=table.column(first).unit,
        outcome=first,
        method="paired difference of means",
    ).with_value(difference.mean(), (interval.low, interval.high), p=test.pvalue)


def carried_by(
    table: StudyTable, outcome: str, by: str | Sequence[str], *, first: int, last: int
) -> tuple[Estimate, ...]:
    """Which encoders of the last year carry the fall of the average since the first year, by the columns ``by``.

    With m the mean of the first year and m_g, s_g the mean and the share of group g in the last one, the fall is the
    sum of s_g (m - m_g). It is an identity, not a model: a group carries much if it is large or if it is low, and
    nothing says what the same encoders would have reached otherwise. Terms are ``"vit, clustering"``, in percent of the
    fall, largest first; they add up to 100, and one of a group that is worse than the first year is negative. ``n`` are
    encoders of the group in the last year. An average that did not fall is refused.
    """
    columns = [by] if isinstance(by, str) else list(by)
    rows = table.complete(outcome, "year", *columns)
    groups = rows[columns].astype(str).agg(", ".join, axis=1)
    require_several(groups, " and ".join(columns))
    before, after = rows[rows["year"] == first], rows[rows["year"] == last]
    for year, found in ((first, before), (last, after)):
        if found.empty:
            raise QueryError(f"No encoder of {year} has {outcome}, expected some to follow it from {first} to {last}.")
    start = before[outcome].mean()
    fall = start - after[outcome].mean()
    if fall <= 0:
        raise QueryError(f"The average {outcome} did not fall from {first} to {last}, so nothing carries a fall.")
    shares = [
        Estimate(
            term=str(group),
            value=float(100 * (start - values).sum() / len(after) / fall),
            n=len(values),
            unit="percent of the fall",
            outcome=outcome,
            method=f"who carries the fall from {first} to {last}",
            note=f"the average fell by {fall:.2f} points",
        )
        for group, values in after.groupby(groups[after.index])[outcome]
    ]
    return tuple(sorted(shares, key=lambda share: (-(share.value or 0.0), share.term)))


def _of_best(table: StudyTable, encoder: str, part: str, year: int, n: int) -> Estimate:
    value, term, method = float(table.frame[part][encoder]), f"{year}: {encoder}", "best of the year"
    if math.isnan(value):
        why = str(table.why_missing.loc[encoder, part]) or "missing"
        return _missing(table, part, f"{part} of {encoder}: {why}").described(term=term, method=method, n=n)
    return Estimate(
        term=term,
        value=value,
        n=n,
        unit=table.column(part).unit,
        outcome=part,
        method=method,
        note="n counts the encoders it is the best of",
    )


def _missing(table: StudyTable, part: str, why: str) -> Estimate:
    return Estimate(term="", value=None, n=0, unit=table.column(part).unit, outcome=part, note=why)
