"""Where does the error of self-supervised encoders come from, and how has that changed over the years?

Claim: usability used to be the largest source of error and drove the improvements of 2016 to 2019, mostly by
contrastive learning; probe generalization is now the largest source and drove the improvements since; encoder
generalization is small and constant, approximation negligible; averages show the same (Figures 4, 29 and 30).

Expected: of the best ImageNet-1K encoder of each year, usability falls from 45.9 (2016) over 12.7 (2018) to 0.0 (2019),
and probe generalization from 25.4 (2019) to 12.3 (2022), where usability is 3.1. The best of 2021 has no usability,
where the paper draws zero; the best of 2018 was measured on the weights of another method. Encoder generalization has
no linear trend but differs between years (p 4.5e-4). Clustering ViTs carry a third of the fall of probe generalization.

Command: zoo study where_the_risk_lies
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeVar

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing
from matplotlib.lines import Line2D
from scipy import stats

from zoo.analysis.columns import OUTCOMES, Estimate
from zoo.analysis.groups import PARTS, estimate_group_means, sort_by_error
from zoo.analysis.linear import build_design, compute_factor_test, fit_ols
from zoo.analysis.table import StudyTable, require_encoders, select_encoders
from zoo.errors import QueryError
from zoo.evaluation.drawing import COMPONENT_COLOURS, Figure, make_figure, write_panel_letters
from zoo.studies.findings import (
    ClaimAnswer,
    Claims,
    Findings,
    FindingsTable,
    answer_in_sentence,
    has_interval_without_zero,
)
from zoo.studies.running import StudyOptions
from zoo.studies.tables import (
    COMPONENT_MARKS,
    count_rows_used,
    describe_errata,
    draw_with_bars,
    format_named_numbers,
    format_with_interval,
)

_Answer = TypeVar("_Answer")


def study(table: StudyTable, options: StudyOptions) -> Findings:
    """Components of the best and of the average encoder of each year, in all and by family and type of objective."""
    require_encoders(table)
    require_several(table.complete("year", "train_test")["year"], "year")
    found = Found.of(table)
    best, mean = found.best, found.mean
    families = answer_by_group(table, "family", risks_of_best_by_year)
    modes = {"average": found.by_mode, "best": answer_by_group(table, "ssl_mode", risks_of_best_by_year)}
    named = {"best, ImageNet-1K": best, "average": mean}
    named |= {f"best, {family}": years for family, years in families.items()}
    named |= {f"{how}, {mode}": years for how, groups in modes.items() for mode, years in groups.items()}
    return Findings(
        claims=claims.judged(found),
        answer=answer_in_sentence(lambda: _answer(best)),
        estimates=[*(one for name, years in named.items() for one in years_estimates(name, years)), *found.further],
        tables=[
            years_table("Best ImageNet-1K encoder of each year (Figure 4)", {"": best}),
            years_table("Average of the encoders of each year, with 95 % intervals (Figure 29a)", {"": mean}),
            years_table("Best encoder of each year by family (Figure 29b)", families),
            years_table("Average of each year by type of objective (Figure 30)", modes["average"]),
            years_table("Best of each year by type of objective (Figure 30 as it was drawn)", modes["best"]),
        ],
        figures=_figures(best, mean, families, modes),
        rows=[
            count_rows_used("best of each year, ImageNet-1K", found.imagenet, "year", "train_test", of=table),
            *(count_rows_used(f"averages, {OUTCOMES[part].label.lower()}", table, "year", part) for part in PARTS),
        ],
        notes=[
            *describe_errata(risks.encoder for risks in best.values() if risks.encoder is not None),
            "The best of a year is one encoder and has no interval; of few encoders the best is worse for that alone.",
            "Years differ in data, architecture and length of pretraining: that a component fell is no effect of time.",
            "Approximation is measured on supervised twins, one an architecture, and 0 by assumption for "
            f"{int((table.frame['approx_is_assumed'] == 1).sum())} encoders.",
            f"Only {int((table.frame['year'] < TURN).sum())} encoders are older than {TURN}, and {_contrastive(table)} "
            f"of {TURN} are contrastive: their share of a fall follows from who was published, and is no effect.",
        ],
    )


def require_several(values: pd.Series, what: str) -> None:
    """Raise QueryError if a population is all of one year, one family or the like."""
    if values.nunique() < 2:
        shown = ", ".join(f"{value:g}" if isinstance(value, float) else str(value) for value in values.unique())
        raise QueryError(
            f"All {len(values)} encoders that can be compared have the {what} {shown or '(none)'}; "
            "expected several to compare."
        )


def answer_by_group(table: StudyTable, column: str, answer: Callable[[StudyTable], _Answer]) -> dict[str, _Answer]:
    """The answer for each group of encoders that has a year and a full-shot error, by the value of a column."""
    groups = table.frame.dropna(subset=["year", "train_test"])[column].dropna().unique()
    return {str(group): answer(select_encoders(table, column, group)) for group in sorted(groups)}


def _answer(best: Years) -> str:
    first, last = parts_of(best, START), parts_of(best, NOW)
    was, now = (max(parts, key=parts.__getitem__) for parts in (first, last))
    return (
        f"In {START} mostly {OUTCOMES[was].label.lower()}, {first[was]:.1f} of {best[START].error:.1f} points of the "
        f"best ImageNet-1K encoder; by {NOW} that was {last[was]:.1f} of {best[NOW].error:.1f}, and "
        f"{OUTCOMES[now].label.lower()} is largest, {last[now]:.1f}."
    )


def _figures(
    best: Years, mean: Years, families: Mapping[str, Years], modes: Mapping[str, Mapping[str, Years]]
) -> list[Figure]:
    drawn: list[tuple[str, str, Mapping[str, Years]]] = [
        ("best_of_each_year", "Risks of the best ImageNet-1K encoder of each year (Figure 4)", {"": best}),
        ("average_of_each_year", "Average risks of each year (Figure 29a)", {"": mean}),
        ("best_by_family", "Risks of the best of each year by family (Figure 29b)", families),
        ("average_by_objective", "Average risks by type of objective (Figure 30)", modes["average"]),
        (
            "best_by_objective",
            "Risks of the best of each year by type of objective (Figure 30 as drawn)",
            modes["best"],
        ),
    ]
    return [over_time_figure(name, title, panels) for name, title, panels in drawn if panels]


def _contrastive(table: StudyTable) -> str:
    modes = table.frame.loc[(table.frame["year"] == TURN) & table.frame["usability"].notna(), "ssl_mode"]
    return f"{int((modes == 'contrastive').sum())} of the {len(modes)}"


START, TURN, GAP, NOW = 2016, 2019, 2021, 2022  # years of which the paper speaks


@dataclass(frozen=True, slots=True)
class Found:
    table: StudyTable  # all encoders
    imagenet: StudyTable  # those that were pretrained on ImageNet-1K
    best: Years  # of these, the best of each year
    mean: Years  # of all encoders
    by_mode: Mapping[str, Years]  # type of objective -> means of its encoders
    further: list[Estimate] = field(default_factory=list)  # linear trends, and what a statement needed in addition

    @classmethod
    def of(cls, table: StudyTable) -> Found:
        """The best and the average encoder of each year of a table."""
        imagenet = select_encoders(table, "pretraining_data", "ImageNet-1K")
        slopes = [
            slope_over_years(table, part)
            for part in PARTS
            if table.frame.dropna(subset=["train_test", part])["year"].nunique() > 1
        ]
        by_mode = answer_by_group(table, "ssl_mode", mean_risks_by_year)
        return cls(table, imagenet, risks_of_best_by_year(imagenet), mean_risks_by_year(table), by_mode, slopes)


claims = Claims(source="Section 5.1, Figure 4")


# The best encoder of each year


@claims(f"Usability was the largest source of error (best of {START})", paper="largest")
def usability_was_largest(found: Found) -> ClaimAnswer:
    return largest(found.best, "usability", START)


@claims(f"Usability improved steadily from {START} to {TURN}", paper="steadily")
def usability_improved_steadily(found: Found) -> ClaimAnswer:
    years = [START, *(year for year in found.best if START < year < TURN), TURN]
    values = [known(of_year(found.best, year), "usability") for year in years]
    shown = [f"{value:.1f} ({year}, best of {found.best[year].n})" for year, value in zip(years, values, strict=True)]
    return ClaimAnswer(
        ours=", ".join(shown),
        holds=all(later < earlier for earlier, later in pairwise(values)),
        reason="a later year is no better than the one before",
    )


@claims(f"Usability drove the improvements from {START} to {TURN}", paper="usability")
def usability_drove_the_improvements(found: Found) -> ClaimAnswer:
    return drove(found.best, "usability", START, TURN)


@claims(f"Probe generalization is now the largest source of error (best of {NOW})", paper="largest")
def probe_generalization_is_largest(found: Found) -> ClaimAnswer:
    return largest(found.best, "probe_gen", NOW)


@claims(f"Probe generalization drove the improvements since {TURN}", paper="probe generalization")
def probe_generalization_drove_the_improvements(found: Found) -> ClaimAnswer:
    return drove(found.best, "probe_gen", TURN, NOW)


@claims(
    f"Usability fell at the expense of probe generalization until {TURN}, and vice versa since",
    source="Section 5.2.2, Figure 4",
    paper="tradeoff",
)
def one_fell_at_the_expense_of_the_other(found: Found) -> ClaimAnswer:
    first, then = changes_between(found.best, START, TURN), changes_between(found.best, TURN, NOW)
    return ClaimAnswer(
        ours=f"usability {first['usability']:+.1f} and probe generalization {first['probe_gen']:+.1f}, "
        f"then {then['usability']:+.1f} and {then['probe_gen']:+.1f}",
        holds=first["usability"] < 0 < first["probe_gen"] and then["probe_gen"] < 0 < then["usability"],
        reason="both fell, or both rose",
    )


@claims("Encoder generalization is small (best of every year)", paper="small")
def encoder_generalization_is_small(found: Found) -> ClaimAnswer:
    values = [(known(risks, "enc_gen"), known(risks, "probe_gen")) for risks in found.best.values()]
    low, high = min(values)[0], max(values)[0]
    share = max(encoder / (probe or math.inf) for encoder, probe in values)
    return ClaimAnswer(
        ours=f"{low:.1f} to {high:.1f} points, at most {100 * share:.0f} % of probe generalization (small: below "
        "half of it)",
        holds=0 <= share < 0.5,
        value=high,
        reason="in a year it is half of probe generalization or more",
    )


@claims(f"Usability of the best of {GAP}", source="Figure 4", paper="0 (as drawn)")
def missing_usability_was_drawn_as_zero(found: Found) -> ClaimAnswer:
    risks = of_year(found.best, GAP)
    value = risks.parts["usability"].value
    shown = "not measured" if value is None else f"{value:.2f}"
    together = "" if risks.known_sum is None else f", {risks.known_sum:.2f} with approximation"
    return ClaimAnswer(
        ours=f"{shown}{together} ({risks.encoder}, best of {risks.n})",
        holds=value == 0,
        held_as_the_paper_did=(value or 0.0) == 0,
        value=value,
        reason="it has no supervised twin, so its usability is missing, and a missing number was drawn as zero",
    )


# All encoders


@claims("Encoder generalization is constant (all encoders)", paper="constant")
def encoder_generalization_is_constant(found: Found) -> ClaimAnswer:
    slope = slope_over_years(found.table, "enc_gen")
    robust = slope.described(ci_low=slope.ci_low_robust, ci_high=slope.ci_high_robust)
    linear = "is a linear trend" if has_interval_without_zero(robust) else "is no linear trend"
    tests = years_differ(found.table, "enc_gen")
    found.further.extend(tests)
    p = [1.0 if test.p is None else test.p for test in tests]
    means = {f"{year}": known(risks, "enc_gen") for year, risks in found.mean.items() if risks.parts["enc_gen"].n > 1}
    return ClaimAnswer(
        ours=f"differences between years: F test p {p[0]:.1e}, Kruskal-Wallis p {p[1]:.3f}, n = {tests[0].n}",
        value=tests[0].p,
        holds=min(p) >= 0.05,
        contradicted=max(p) < 0.05,
        reason=f"there {linear} ({format_with_interval(robust)} points per year), but years differ: "
        f"{format_named_numbers(means)} points",
    )


@claims("Encoder generalization is smaller than probe generalization", source="Section 5.1", paper="smaller")
def encoder_generalization_is_smaller(found: Found) -> ClaimAnswer:
    rows = found.table.complete("enc_gen", "probe_gen")
    n = int((rows["enc_gen"] < rows["probe_gen"]).sum())
    return ClaimAnswer(
        ours=f"of {n} of {len(rows)} encoders", value=n, holds=n == len(rows), reason="not of all of them"
    )


@claims("Approximation error is negligible", paper="negligible")
def approximation_is_negligible(found: Found) -> ClaimAnswer:
    rows = found.table.complete("approx", "train_test")
    share = 100 * (rows["approx"] / rows["train_test"]).max()
    average, highest = float(rows["approx"].mean()), float(rows["approx"].max())
    return ClaimAnswer(
        ours=f"{average:.2f} points on average, at most {highest:.2f} and {share:.0f} % of the error "
        f"(negligible: below 10 %); n = {len(rows)}",
        value=average,
        holds=bool(share < 10),
        reason="it is a tenth of the error of some encoder",
    )


@claims(
    f"Averages: usability drove the improvements from {START} to {TURN}",
    source="Appendix F.3, Figure 29a",
    paper="usability",
)
def usability_drove_the_averages(found: Found) -> ClaimAnswer:
    return drove(found.mean, "usability", START, TURN)


@claims(f"Averages: probe generalization is what matters in {NOW}", source="Appendix F.3, Figure 29a", paper="largest")
def probe_generalization_exceeds_usability(found: Found) -> ClaimAnswer:
    excess = mean_difference(select_encoders(found.table, "year", NOW), "probe_gen", "usability")
    found.further.append(excess.described(method=f"{excess.method}, encoders of {NOW}"))
    return ClaimAnswer(
        ours=f"{format_with_interval(excess)} points above usability, n = {excess.n}",
        value=excess.value,
        holds=excess.ci_low is not None and excess.ci_low > 0,
        reason="usability is as large",
    )


# Groups of encoders


@claims("Contrastive learning mostly drove the improvements of usability", source="Section 5.1", paper="mostly")
def contrastive_learning_drove_usability(found: Found) -> ClaimAnswer:
    shares = shares_of_the_fall(found, found.table, "usability", ["ssl_mode"], START, TURN)
    value, n = carried(shares, "contrastive")
    return ClaimAnswer(
        ours=f"{value:.0f} % of the fall of the average from {START} to {TURN} (mostly: above half); "
        f"{n} of the {sum(share.n for share in shares)} encoders of {TURN} are contrastive",
        value=value,
        holds=value > 50,
        reason="other objectives carry at least half of it",
    )


@claims(
    "Usability fell most among contrastive encoders (averages, first to last year)",
    source="Appendix F.3, Figure 30",
    paper="contrastive",
)
def usability_of_contrastive_encoders_fell_most(found: Found) -> ClaimAnswer:
    changes = {}
    for mode, years in found.by_mode.items():
        values = [risks.parts["usability"].value for risks in years.values()]
        measured = [value for value in values if value is not None]
        if len(measured) > 1:
            changes[mode] = measured[-1] - measured[0]
    most = min(changes, key=changes.__getitem__, default="none")
    return ClaimAnswer(
        ours=format_named_numbers(changes, signed=True),
        value=-changes["contrastive"] if "contrastive" in changes else None,
        holds=most == "contrastive",
        reason=f"it fell most among {most} encoders",
    )


@claims(
    f"Clustering ViTs carry most of the fall of average probe generalization since {TURN} (ImageNet-1K)",
    source="Appendix F.3, Figure 29b",
    paper="mostly",
)
def clustering_vits_carry_most(found: Found) -> ClaimAnswer:
    shown, clustering = [], {}
    for last in (NOW, GAP):
        shares = shares_of_the_fall(found, found.imagenet, "probe_gen", ["family", "ssl_mode"], TURN, last)
        clustering[last], n = carried(shares, "vit, clustering")
        vits, n_vits = carried(shares, "vit, ")
        shown.append(f"{clustering[last]:.0f} % until {last} ({n} encoders; all ViTs {vits:.0f} %, {n_vits} encoders)")
    return ClaimAnswer(
        ours=f"{shown[0]} (most: above half)",
        value=clustering[NOW],
        holds=clustering[NOW] > 50,
        contradicted=clustering[NOW] < 50,
        reason=f"less than half, for ViTs of other objectives count too; {shown[1]}",
    )


def largest(years: Years, part: str, year: int) -> ClaimAnswer:
    """Whether a component is the largest of the best encoder of a year."""
    risks, values = of_year(years, year), parts_of(years, year)
    return ClaimAnswer(
        ours=f"{values[part]:.1f} of {risks.error:.1f} points ({risks.encoder}, best of {risks.n})",
        value=values[part],
        holds=max(values, key=values.__getitem__) == part,
        reason=format_named_numbers(values),
    )


def drove(years: Years, part: str, first: int, last: int) -> ClaimAnswer:
    """Whether the error fell between two years, and this component most."""
    changes, total = changes_between(years, first, last), of_year(years, last).error - of_year(years, first).error
    fell_most = min(changes, key=changes.__getitem__)
    return ClaimAnswer(
        ours=f"{changes[part]:+.1f} points, the full-shot error {total:+.1f} "
        f"({years[first].n} and {years[last].n} encoders)",
        value=changes[part],
        holds=total < 0 and fell_most == part,
        reason=format_named_numbers(changes, signed=True),
    )


def shares_of_the_fall(
    found: Found, rows: StudyTable, outcome: str, by: Sequence[str], first: int, last: int
) -> list[Estimate]:
    """What each group of encoders carries of the change of the average between two years [%]."""
    shares = list(carried_by(rows, outcome, by, first=first, last=last))
    found.further.extend(shares)
    return shares


def carried(shares: Sequence[Estimate], begins: str) -> tuple[float, int]:
    """The shares of all groups whose name begins so together [%], and how many encoders they have."""
    chosen = [share for share in shares if share.term.startswith(begins)]
    return sum(share.value or 0.0 for share in chosen), sum(share.n for share in chosen)


@dataclass(frozen=True, slots=True)
class YearRisks:
    """Components of one year: of its best encoder, or averages."""

    year: int
    encoder: str | None  # the best one; None for averages
    n: int  # encoders of the year that were compared or averaged
    parts: Mapping[str, Estimate]  # component -> estimate; its value is None where it was not measured
    error: float  # full-shot, percent
    known_sum: float | None  # approximation and usability of the best encoder together, which needs no supervised twin


Years = Mapping[int, YearRisks]
"""Risks by year, in the order of the years."""


def years_table(title: str, groups: Mapping[str, Years]) -> FindingsTable:
    """One row per group and year: encoders, which is the best one, components, full-shot error."""
    named, averaged = any(groups), all(risks.encoder is None for years in groups.values() for risks in years.values())
    headers = [
        *(["group"] if named else []),
        "year",
        "encoders",
        *([] if averaged else ["best"]),
        *(OUTCOMES[part].label for part in PARTS),
        "Full-shot error",
    ]
    rows = [
        [
            *([name] if named else []),
            str(year),
            str(risks.n),
            *([] if averaged else [str(risks.encoder)]),
            *(_cell(risks.parts[part], risks.n) for part in PARTS),
            f"{risks.error:.2f}",
        ]
        for name, years in groups.items()
        for year, risks in years.items()
    ]
    return FindingsTable(
        title=title,
        headers=headers,
        rows=rows,
        note="Components in percentage points, the error in percent, lower is better; a dash: nobody has measured it"
        + ("; n where fewer encoders have the component." if averaged else "."),
    )


def years_estimates(name: str, years: Years) -> list[Estimate]:
    """The components of each year, with the group in their method."""
    return [
        risks.parts[part].described(
            term=str(year) if risks.encoder is None else f"{year}: {risks.encoder}",
            method=f"{risks.parts[part].method or 'not measured'}, {name}",
        )
        for year, risks in years.items()
        for part in PARTS
    ]


def not_measured(years: Years) -> str:
    """Which best encoders lack components, in words for a caption; empty if none does."""
    said = []
    for year, risks in years.items():
        gone = [OUTCOMES[part].label.lower() for part in PARTS if risks.parts[part].value is None]
        if gone and risks.encoder is not None:
            both = "" if risks.known_sum is None else f", {risks.known_sum:.2f} together"
            said.append(f"{' and '.join(gone)} of {risks.encoder} ({year}{both})")
    return f" Not measured: {'; '.join(said)}." if said else ""


def _cell(estimate: Estimate, n: int) -> str:
    if estimate.value is None:
        return "–"  # noqa: RUF001
    half = "" if estimate.ci_high is None else f" ± {estimate.ci_high - estimate.value:.2f}"
    return f"{estimate.value:.2f}{half}{f' (n = {estimate.n})' if estimate.n != n else ''}"


FEWEST_FOR_A_BAR = 3  # encoders; the interval of two is wider than any page
_FAMILIES = {"resnet": "ResNet", "vit": "ViT", "convnext": "ConvNeXt"}


def over_time_figure(name: str, title: str, panels: Mapping[str, Years]) -> Figure:
    """Components by year, one panel a group, as a figure of a report; groups of one year are left to its tables."""
    several = {group: years for group, years in panels.items() if len(years) > 1} or dict(panels)
    years = [risks for group in several.values() for risks in group.values()]
    averaged = all(risks.encoder is None for risks in years)
    counts = (
        "Below each year: how many encoders are averaged" if averaged else "Below each year: of how many it is best"
    )
    bars = " Bars are 95 % intervals of years with at least 3 encoders." if averaged else ""
    gaps = "".join(not_measured(group) for group in several.values())
    n = sum(risks.n for risks in years)
    return Figure(
        name=name,
        title=title,
        draw=lambda: draw_over_time(several),
        caption=f"Components of the full-shot error in percentage points, lower is better; {n} encoders. "
        f"{counts}.{bars}{gaps}",
    )


def draw_over_time(panels: Mapping[str, Years]) -> Drawing:
    """Components by year, one panel a title, with 95 % intervals of years of 3 encoders; gaps have a question mark."""
    n_columns = min(len(panels), 3)
    n_rows = -(-len(panels) // n_columns)
    drawing, axes = make_figure(
        height=2.8 if n_rows == 1 else 0.6 + 1.9 * n_rows, n_rows=n_rows, n_columns=n_columns, sharey=True
    )
    years = sorted({year for group in panels.values() for year in group})
    for panel, group in zip(axes, panels.values(), strict=False):
        _draw_years(panel, list(group.values()), years, n_columns=n_columns)
    for panel in axes[::n_columns]:
        panel.set_ylabel("Risk component [points]\nlower is better")
    for panel in axes[max(len(panels) - n_columns, 0) : len(panels)]:
        panel.set_xlabel(
            "Year of the method, and number of encoders" if n_columns == 1 else "Year, and number of encoders"
        )
    for panel in axes[len(panels) :]:
        panel.set_visible(False)
    handles = [
        Line2D([], [], color=COMPONENT_COLOURS[part], marker=COMPONENT_MARKS[part], label=OUTCOMES[part].label)
        for part in PARTS
    ]
    everything = [risks for group in panels.values() for risks in group.values()]
    if any(risks.parts[part].value is None for risks in everything for part in PARTS):
        handles.append(Line2D([], [], color="black", linestyle="", marker="$?$", label="not measured"))
    axes[0].set_ylim(bottom=min(0.0, axes[0].get_ylim()[0]))  # where the question marks stand
    drawing.legend(handles=handles, loc="outside lower center", ncols=5)
    if len(panels) > 1:
        write_panel_letters(axes[: len(panels)], [_FAMILIES.get(group, group) for group in panels])
    return drawing


def _draw_years(axes: Axes, series: Sequence[YearRisks], years: Sequence[int], *, n_columns: int) -> None:
    for offset, part in enumerate(PARTS):
        x = [risks.year + 0.06 * (offset - 1.5) for risks in series]
        found = [risks.parts[part] for risks in series]
        draw_with_bars(
            axes, x, [estimate if estimate.n >= FEWEST_FOR_A_BAR else _bare(estimate) for estimate in found], part
        )
    for risks in series:
        gone = [part for part in PARTS if risks.parts[part].value is None]
        low = min((one.value for one in risks.parts.values() if one.value is not None), default=0.0)
        for position, part in enumerate(gone):  # above zero and the lowest mark, which would hide it
            aside = 7 * (position - (len(gone) - 1) / 2)
            axes.annotate(
                "?",
                (risks.year, max(0.0, low)),
                (aside, 4),
                textcoords="offset points",
                ha="center",
                va="bottom",
                size=8,
                weight="bold",
                color=COMPONENT_COLOURS[part],
            )
    word = "n = " if n_columns == 1 else ""
    axes.set_xticks(
        [risks.year for risks in series],
        [f"{_year(risks.year, years, n_columns)}\n{word}{risks.n}" for risks in series],
    )
    axes.tick_params(axis="x", labelsize=7.0 if n_columns < 3 else 6.0)
    axes.set_xlim(min(years) - 0.5, max(years) + 0.5)


def _year(year: int, years: Sequence[int], n_columns: int) -> str:
    """A year as the label of a tick, short where many years share a narrow panel."""
    return f"{year}" if (max(years) - min(years)) * n_columns <= 22 else f"’{year % 100:02d}"  # noqa: RUF001


def _bare(estimate: Estimate) -> Estimate:
    return estimate.described(ci_low=None, ci_high=None)


def risks_of_best_by_year(table: StudyTable) -> dict[int, YearRisks]:
    """Components of the encoder with the lowest full-shot error of each year; what it lacks stays missing."""
    rows = table.complete("year", "train_test")
    counts = rows.groupby("year").size()
    best = select_best_of_each(rows, "year", by="train_test")
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
        part: {int(float(mean.term)): mean for mean in estimate_group_means(chosen, part, "year")}
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
    """Change of a risk a year over all encoders, by least squares, with HC3 intervals next to the classical ones."""
    rows = table.complete("year", outcome)
    require_several(rows["year"], "year")
    centred = rows.assign(year=rows["year"] - rows["year"].mean())
    fit = fit_ols(
        build_design(centred, numeric=["year"]).matrix,
        rows[outcome],
        terms=["year"],
        outcome_name=outcome,
        unit=f"{table.column(outcome).unit} per year",
        method="linear trend",
    )
    return fit.estimate("year")


def years_differ(table: StudyTable, outcome: str) -> tuple[Estimate, Estimate]:
    """One-way analysis of variance (F) and Kruskal-Wallis (H) of a risk over years with several encoders."""
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
    design = build_design(years, categorical=["year"])
    fit = fit_ols(design.matrix, rows[outcome], terms=[], outcome_name=outcome, unit="", method=label.method)
    test = compute_factor_test(fit, design.terms["year"], name="year")
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

    The fall is the sum of s_g (m - m_g), with the mean m of the first year and the means and shares of groups in the
    last one: an identity, no model. Terms are ``"vit, clustering"``, in percent of the fall, largest first.
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


def select_best_of_each(frame: pd.DataFrame, groups: str | Sequence[str], *, by: str) -> pd.DataFrame:
    """The best row of each group, in the order of the groups; rows without a group are left out."""
    columns = [groups] if isinstance(groups, str) else list(groups)
    best: pd.DataFrame = sort_by_error(frame.dropna(subset=columns), by).groupby(columns, sort=False).head(1)
    return best.sort_values(columns, kind="stable")
