"""Groups of encoders: means and their differences, the best of a category or a year, and how risks change over years.

Groups were never assigned at random, so a difference of means describes; it is no effect. Holding columns fixed removes
what they explain linearly, and shows which differences the table cannot tell from those columns at all.

Best means the lowest error or risk. Encoders without it do not take part, and ties go to the first id in alphabetical
order, so that the same table gives the same winners.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

from ..errors import QueryError
from ..optional import requires_extra
from .columns import COMPONENTS, OUTCOMES, Estimate
from .ols import adjusted, design_of, factor_test, fit_ols
from .table import StudyTable, require_columns, require_several

with requires_extra("study", needed_for="A comparison of groups"):
    import numpy as np
    import pandas as pd
    from scipy import stats
    from statsmodels.stats import proportion

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

_WORDS = {"projection1_arch": "projector", "projection2_arch": "projector"}  # of columns whose absence has a name
NONE = "none"  # value of a column where it is missing


def group_means(table: StudyTable, outcome: str, by: str) -> tuple[Estimate, ...]:
    """Mean of an outcome in each group of the column ``by``, lowest first, with the 95 % interval of Student's t.

    A group of one encoder has no interval.
    """
    return tuple(
        sorted(
            (_mean(group, values, table, outcome) for group, values in _groups(table, outcome, by).items()),
            key=lambda estimate: (estimate.value or 0.0, estimate.term),
        )
    )


def group_differences(table: StudyTable, outcome: str, by: str) -> tuple[Estimate, ...]:
    """Difference of the means of each two groups, by Welch's test, which assumes no equal variances.

    Terms are ``"generative - clustering"``, the group with the higher mean first; ``p_adjusted`` is the false-discovery
    rate (Benjamini and Hochberg) over all pairs that can be tested. A pair with a group of one encoder, or of two
    groups that do not vary, has a value and no test.
    """
    groups = _groups(table, outcome, by)
    if len(groups) < 2:
        raise QueryError(
            f"Got {len(groups)} group of {by} among the encoders with {outcome}, expected at least 2 to compare."
        )
    ordered = sorted(groups, key=lambda group: (-float(groups[group].mean()), group))
    found = [
        _difference(first, second, groups, table.column(outcome).unit, outcome)
        for first, second in combinations(ordered, 2)
    ]
    return tuple(adjusted(found, family=f"{outcome} by pairs of {by}"))


def adjusted_differences(
    table: StudyTable,
    outcome: str,
    by: str,
    *,
    reference: str,
    fixed: Sequence[str],
    logged: Sequence[str] = (),
    missing: Mapping[str, str] | None = None,
) -> tuple[Estimate, ...]:
    """Difference of each group to the ``reference`` group in a linear model that holds other columns ``fixed``.

    Of these a number enters linearly, or as its natural logarithm if it is ``logged``, and encoders without it are left
    out; any other column enters as one term a value, and a missing cell counts as the value that ``missing`` names, by
    default as ``"none"``, a value of its own. Terms are ``"generative - clustering"``, by ordinary least squares, with
    HC3 intervals beside the classical ones. A difference that the fixed columns determine is not identified: its value
    is None and its note says why. The method names the fixed columns, and what their missing cells count as if
    ``missing`` says so.
    """
    require_columns(fixed)
    numbers = [name for name in fixed if table.column(name).is_number]
    values = [name for name in fixed if name not in numbers]
    rows = table.complete(outcome, by, *numbers)
    filled = rows.assign(**{name: _as_values(rows[name], (missing or {}).get(name, NONE)) for name in values})
    design = design_of(
        filled,
        numeric=[name for name in numbers if name not in logged],
        log=[name for name in numbers if name in logged],
        categorical=[by, *values],
        references={by: reference},
    )
    called = [
        f"no {_WORDS.get(name, name)} called {value}" for name, value in (missing or {}).items() if name in values
    ]
    matrix = design.matrix.sub(design.matrix.mean()).assign(constant=1.0)  # centred: years are far from 0
    fit = fit_ols(
        matrix,
        rows[outcome],
        terms=design.terms[by],
        outcome_name=outcome,
        unit=table.column(outcome).unit,
        method="linear, fixed: " + (", ".join([*fixed, *called]) or "nothing"),
    )
    groups = {term: term.removeprefix(f"{by}[").removesuffix("]") for term in design.terms[by]}
    return tuple(estimate.described(term=f"{groups[estimate.term]} - {reference}") for estimate in fit.estimates)


def _groups(table: StudyTable, outcome: str, by: str) -> dict[str, NDArray[np.float64]]:
    rows = table.complete(outcome, by)
    return {str(group): values.to_numpy(float) for group, values in rows.groupby(rows[by].astype(str))[outcome]}


def _mean(group: str, values: NDArray[np.float64], table: StudyTable, outcome: str) -> Estimate:
    estimate = Estimate(
        term=group,
        value=float(values.mean()),
        n=len(values),
        unit=table.column(outcome).unit,
        outcome=outcome,
        method="mean of the group",
    )
    if len(values) < 2:
        return estimate.described(note="one encoder, so nothing says how much it varies")
    half = float(stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values)))
    return estimate.described(ci_low=float(values.mean()) - half, ci_high=float(values.mean()) + half)


def _difference(first: str, second: str, groups: dict[str, NDArray[np.float64]], unit: str, outcome: str) -> Estimate:
    one, other = groups[first], groups[second]
    estimate = Estimate(
        term=f"{first} - {second}",
        value=float(one.mean() - other.mean()),
        n=len(one) + len(other),
        unit=unit,
        outcome=outcome,
        method="difference of means, Welch",
    )
    if min(len(one), len(other)) < 2:
        return estimate.described(note="one of the groups has one encoder, so the difference cannot be tested")
    if np.ptp(one) == 0 == np.ptp(other):
        return estimate.described(note="neither group varies, so the difference cannot be tested")
    test: Any = stats.ttest_ind(one, other, equal_var=False)
    interval = test.confidence_interval(0.95)
    return estimate.described(ci_low=float(interval.low), ci_high=float(interval.high), p=float(test.pvalue))


def _as_values(cells: pd.Series[Any], missing: str) -> pd.Series[Any]:
    return cells.astype(object).where(cells.notna(), missing).astype(str)


N_TEST_IMAGES = 50_000  # validation images of ImageNet-1K, on which every error of the table was measured


@dataclass(frozen=True, slots=True)
class Category:
    """Encoders that compete with each other."""

    name: str
    where: Mapping[str, tuple[object, ...]]  # column -> the values that belong to it


@dataclass(frozen=True, slots=True)
class Winner:
    """The best encoder of a category in one setting."""

    category: str
    setting: str  # column of the error
    encoder: str
    error: float  # percent, lower is better
    runner_up: str | None  # None if nobody else competes
    margin: float | None  # percentage points by which the runner-up's error is higher
    n: int  # encoders that compete


_IMAGENET = {"pretraining_data": ("ImageNet-1K",)}
TABLE_2 = (
    Category("RN50, ImageNet-1K", {**_IMAGENET, "architecture": ("resnet50",)}),
    Category("any CNN, ImageNet-1K", {**_IMAGENET, "family": ("resnet", "convnext")}),
    Category("ViT-S/16, ImageNet-1K", {**_IMAGENET, "architecture": ("vits",), "patch_size": (16,)}),
    Category("any ViT, ImageNet-1K", {**_IMAGENET, "family": ("vit",)}),
    Category("any data and architecture, published features", {"is_our_extract": (False,)}),
)
"""The categories of the paper's Table 2."""
ANY_FEATURES = Category("any data, architecture and features", {})
"""The last category with the features that the paper's authors extracted themselves."""


def members(table: StudyTable, category: Category) -> pd.DataFrame:
    """Rows of the encoders of a category; an encoder that lacks one of its columns is in none."""
    require_columns(category.where)
    frame = table.frame
    for column, values in category.where.items():
        frame = frame[frame[column].isin(list(values))]
    return frame


def ordered(frame: pd.DataFrame, by: str) -> pd.DataFrame:
    """Rows that have an error or risk, lowest first, ties by id."""
    return frame.dropna(subset=[by]).sort_index().sort_values(by, kind="stable")


def winner(table: StudyTable, category: Category, setting: str) -> Winner:
    """The encoder of a category with the lowest error in a setting, a column such as ``"train_test"``."""
    require_columns([setting])
    rows = ordered(members(table, category), setting)
    if rows.empty:
        raise QueryError(
            f"No encoder of the {len(table)} in the table is in the category {category.name!r} and has {setting}; "
            "expected at least one."
        )
    errors = rows[setting].tolist()
    return Winner(
        category=category.name,
        setting=setting,
        encoder=str(rows.index[0]),
        error=errors[0],
        runner_up=str(rows.index[1]) if len(rows) > 1 else None,
        margin=errors[1] - errors[0] if len(rows) > 1 else None,
        n=len(rows),
    )


def best_fraction(frame: pd.DataFrame, *, by: str, fraction: float) -> pd.DataFrame:
    """The best rows, rounded up to whole encoders, so that there is always one; best first, rows without ``by`` left
    out.
    """
    if not 0 < fraction <= 1:
        raise QueryError(f"Got the fraction {fraction:g} of the best encoders, expected more than 0 and at most 1.")
    rows = ordered(frame, by)
    return rows.head(n_best(len(rows), fraction))


def best_of_each(frame: pd.DataFrame, groups: str | Sequence[str], *, by: str) -> pd.DataFrame:
    """The best row of each group, in the order of the groups; rows without a group are left out."""
    columns = [groups] if isinstance(groups, str) else list(groups)
    found: pd.DataFrame = ordered(frame.dropna(subset=columns), by).groupby(columns, sort=False).head(1)
    return found.sort_values(columns, kind="stable")


def best_fraction_of_each(frame: pd.DataFrame, groups: str, *, by: str, fraction: float) -> pd.DataFrame:
    """The best fraction of each group, rounded up, in the order of the groups; rows without a group are left out."""
    parts = [best_fraction(group, by=by, fraction=fraction) for _, group in frame.groupby(groups)]
    return pd.concat(parts) if parts else frame.iloc[:0]


def n_best(n: int, fraction: float) -> int:
    """How many encoders the best fraction of n are.

    >>> n_best(145, 0.2), n_best(7, 0.1), n_best(0, 0.2)
    (29, 1, 0)
    """
    return math.ceil(n * fraction - 1e-9)  # 0.2 * 145 is a little more than 29 in binary


def error_difference(table: StudyTable, first: str, second: str, setting: str) -> Estimate:
    """How much higher the error of one encoder is than that of another, as far as 50,000 test images can tell.

    First minus second, in percentage points; the p-value is that of the score test. The images are taken as two
    independent samples. Both encoders saw the same ones, and errors on the same images usually go together, so the
    interval is on the wide side; it holds neither the choice of the labels nor the seed of the probe.
    """
    require_columns([setting])
    counts = []
    for encoder in (first, second):
        error = table.frame[setting].get(encoder, math.nan)
        if math.isnan(error):
            raise QueryError(f"{encoder} has no {setting} in the table, expected one to compare; measure it.")
        counts.append(round(error / 100 * N_TEST_IMAGES))
    samples = (counts[0], N_TEST_IMAGES, counts[1], N_TEST_IMAGES)
    low, high = proportion.confint_proportions_2indep(*samples, compare="diff", method="newcomb")
    p = 1.0  # of equal counts, for which the score test divides by nothing if both are 0
    if counts[0] != counts[1]:
        p = float(proportion.test_proportions_2indep(*samples, compare="diff", method="score").pvalue)
    return Estimate(
        term=f"{first} - {second}",
        value=(counts[0] - counts[1]) * 100 / N_TEST_IMAGES,
        ci_low=100 * float(low),
        ci_high=100 * float(high),
        p=p,
        n=N_TEST_IMAGES,
        unit="percentage points",
        outcome=setting,
        method="difference of two errors",
        note="n counts test images",
    )


def risks_of_best(
    table: StudyTable,
    settings: Sequence[str],
    components: Sequence[str],
    *,
    fraction: float = 0.2,
    seed: int = 0,
    n_resamples: int = 1_000,
) -> tuple[Estimate, ...]:
    """Mean components of the best encoders in each setting, and how they change from the first setting to the last.

    ``settings`` are columns of errors, the most labels first; the best ``fraction`` is rounded up to whole encoders.
    Only encoders with all settings and components take part (five at least), so that every setting chooses from the
    same ones. Each resample of the bootstrap draws encoders, and chooses the best of the draw anew. By setting and
    component the term is ``"best 20 % by train_test"``; then comes a change a component, term ``"LAST - FIRST"``.
    """
    rows = table.complete(*settings, *components).sort_index()
    if len(rows) < 5:
        raise QueryError(f"{len(rows)} encoders have all of {', '.join(settings)} and the components, expected 5.")
    k = len(best_fraction(rows, by=settings[0], fraction=fraction))
    errors, values = rows[list(settings)].to_numpy(), rows[list(components)].to_numpy()  # (n, settings), (n, parts)
    draws = np.random.default_rng(seed).integers(len(rows), size=(n_resamples, len(rows)))
    means, spread = [], []
    for position in range(len(settings)):
        chosen = np.argsort(errors[:, position], kind="stable")[:k]
        means.append(values[chosen].mean(axis=0))
        order = np.argsort(errors[draws, position], axis=1, kind="stable")[:, :k]
        spread.append(values[np.take_along_axis(draws, order, axis=1)].mean(axis=1))  # (resamples, parts)
    label = f"best {100 * fraction:g} %"
    found = [
        _bootstrapped(f"{label} by {setting}", component, means[s][c], spread[s][:, c], k, f"mean of the {label}")
        for s, setting in enumerate(settings)
        for c, component in enumerate(components)
    ]
    found += [
        _bootstrapped(
            f"{label} by {settings[-1]} - by {settings[0]}",
            component,
            means[-1][c] - means[0][c],
            spread[-1][:, c] - spread[0][:, c],
            k,
            f"change of the mean of the {label}",
        )
        for c, component in enumerate(components)
    ]
    return tuple(found)


def _bootstrapped(term: str, component: str, value: float, spread: Any, n: int, method: str) -> Estimate:
    low, high = np.quantile(spread, [0.025, 0.975])
    return Estimate(
        term=term,
        value=float(value),
        ci_low=float(low),
        ci_high=float(high),
        n=n,
        outcome=component,
        unit=OUTCOMES[component].unit if component in OUTCOMES else "percentage points",
        method=f"{method}, bootstrap",
    )


PARTS = tuple(outcome.column for outcome in COMPONENTS)


@dataclass(frozen=True, slots=True)
class YearRisks:
    """Components of one year: of its best encoder, or averages."""

    year: int
    encoder: str | None  # the best one; None for averages
    n: int  # encoders of the year that were compared or averaged
    parts: Mapping[str, Estimate]  # component -> estimate; its value is None where nobody has measured it
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
        value=float(difference.mean()),
        ci_low=float(interval.low),
        ci_high=float(interval.high),
        p=float(test.pvalue),
        n=len(rows),
        unit=table.column(first).unit,
        outcome=first,
        method="paired difference of means",
    )


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
