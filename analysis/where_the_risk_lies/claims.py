"""What the paper says of the components over the years; each statement stands above what decides it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from zoo.analysis.columns import Estimate
from zoo.analysis.groups import PARTS
from zoo.analysis.table import StudyTable, in_groups, those
from zoo.studies.findings import Answer, Claims, excludes_zero
from zoo.studies.tables import listed, with_interval

from .tables import Years
from .years import (
    carried_by,
    changes_between,
    known,
    mean_difference,
    mean_risks_by_year,
    of_year,
    parts_of,
    risks_of_best_by_year,
    slope_over_years,
    years_differ,
)

START, TURN, GAP, NOW = 2016, 2019, 2021, 2022  # years of which the paper speaks


@dataclass(frozen=True, slots=True)
class Found:
    """What the statements are held against."""

    table: StudyTable  # all encoders
    imagenet: StudyTable  # those that were pretrained on ImageNet-1K
    best: Years  # of these, the best of each year
    mean: Years  # of all encoders
    by_mode: Mapping[str, Years]  # type of objective -> means of its encoders
    further: list[Estimate] = field(default_factory=list)  # linear trends, and what a statement needed besides

    @classmethod
    def of(cls, table: StudyTable) -> Found:
        """The best and the average encoder of each year of a table."""
        imagenet = those(table, "pretraining_data", "ImageNet-1K")
        slopes = [
            slope_over_years(table, part)
            for part in PARTS
            if table.frame.dropna(subset=["train_test", part])["year"].nunique() > 1
        ]
        by_mode = in_groups(table, "ssl_mode", mean_risks_by_year)
        return cls(table, imagenet, risks_of_best_by_year(imagenet), mean_risks_by_year(table), by_mode, slopes)


claims = Claims(source="Section 5.1, Figure 4")


# The best encoder of each year


@claims(f"Usability was the largest source of error (best of {START})", paper="largest")
def usability_was_largest(found: Found) -> Answer:
    return largest(found.best, "usability", START)


@claims(f"Usability improved steadily from {START} to {TURN}", paper="steadily")
def usability_improved_steadily(found: Found) -> Answer:
    years = [START, *(year for year in found.best if START < year < TURN), TURN]
    values = [known(of_year(found.best, year), "usability") for year in years]
    shown = [f"{value:.1f} ({year}, best of {found.best[year].n})" for year, value in zip(years, values, strict=True)]
    return Answer(
        ours=", ".join(shown),
        holds=all(later < earlier for earlier, later in pairwise(values)),
        reason="a later year is no better than the one before",
    )


@claims(f"Usability drove the improvements from {START} to {TURN}", paper="usability")
def usability_drove_the_improvements(found: Found) -> Answer:
    return drove(found.best, "usability", START, TURN)


@claims(f"Probe generalization is now the largest source of error (best of {NOW})", paper="largest")
def probe_generalization_is_largest(found: Found) -> Answer:
    return largest(found.best, "probe_gen", NOW)


@claims(f"Probe generalization drove the improvements since {TURN}", paper="probe generalization")
def probe_generalization_drove_the_improvements(found: Found) -> Answer:
    return drove(found.best, "probe_gen", TURN, NOW)


@claims(
    f"Usability fell at the expense of probe generalization until {TURN}, and vice versa since",
    source="Section 5.2.2, Figure 4",
    paper="tradeoff",
)
def one_fell_at_the_expense_of_the_other(found: Found) -> Answer:
    first, then = changes_between(found.best, START, TURN), changes_between(found.best, TURN, NOW)
    return Answer(
        ours=f"usability {first['usability']:+.1f} and probe generalization {first['probe_gen']:+.1f}, "
        f"then {then['usability']:+.1f} and {then['probe_gen']:+.1f}",
        holds=first["usability"] < 0 < first["probe_gen"] and then["probe_gen"] < 0 < then["usability"],
        reason="both fell, or both rose",
    )


@claims("Encoder generalization is small (best of every year)", paper="small")
def encoder_generalization_is_small(found: Found) -> Answer:
    values = [(known(risks, "enc_gen"), known(risks, "probe_gen")) for risks in found.best.values()]
    low, high = min(values)[0], max(values)[0]
    share = max(encoder / (probe or math.inf) for encoder, probe in values)
    return Answer(
        ours=f"{low:.1f} to {high:.1f} points, at most {100 * share:.0f} % of probe generalization (small: below "
        "half of it)",
        holds=0 <= share < 0.5,
        value=high,
        reason="in a year it is half of probe generalization or more",
    )


@claims(f"Usability of the best of {GAP}", source="Figure 4", paper="0 (as drawn)")
def missing_usability_was_drawn_as_zero(found: Found) -> Answer:
    risks = of_year(found.best, GAP)
    value = risks.parts["usability"].value
    shown = "not measured" if value is None else f"{value:.2f}"
    together = "" if risks.known_sum is None else f", {risks.known_sum:.2f} with approximation"
    return Answer(
        ours=f"{shown}{together} ({risks.encoder}, best of {risks.n})",
        holds=value == 0,
        held_as_the_paper_did=(value or 0.0) == 0,
        value=value,
        reason="it has no supervised twin, so its usability is missing, and a missing number was drawn as zero",
    )


# All encoders


@claims("Encoder generalization is constant (all encoders)", paper="constant")
def encoder_generalization_is_constant(found: Found) -> Answer:
    slope = slope_over_years(found.table, "enc_gen")
    robust = slope.described(ci_low=slope.ci_low_robust, ci_high=slope.ci_high_robust)
    linear = "is a linear trend" if excludes_zero(robust) else "is no linear trend"
    tests = years_differ(found.table, "enc_gen")
    found.further.extend(tests)
    p = [1.0 if test.p is None else test.p for test in tests]
    means = {f"{year}": known(risks, "enc_gen") for year, risks in found.mean.items() if risks.parts["enc_gen"].n > 1}
    return Answer(
        ours=f"differences between years: F test p {p[0]:.1e}, Kruskal-Wallis p {p[1]:.3f}, n = {tests[0].n}",
        value=tests[0].p,
        holds=min(p) >= 0.05,
        contradicted=max(p) < 0.05,
        reason=f"there {linear} ({with_interval(robust)} points a year), but years differ: {listed(means)} points",
    )


@claims("Encoder generalization is smaller than probe generalization", source="Section 5.1", paper="smaller")
def encoder_generalization_is_smaller(found: Found) -> Answer:
    rows = found.table.complete("enc_gen", "probe_gen")
    n = int((rows["enc_gen"] < rows["probe_gen"]).sum())
    return Answer(ours=f"of {n} of {len(rows)} encoders", value=n, holds=n == len(rows), reason="not of all of them")


@claims("Approximation error is negligible", paper="negligible")
def approximation_is_negligible(found: Found) -> Answer:
    rows = found.table.complete("approx", "train_test")
    share = 100 * (rows["approx"] / rows["train_test"]).max()
    average, highest = float(rows["approx"].mean()), float(rows["approx"].max())
    return Answer(
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
def usability_drove_the_averages(found: Found) -> Answer:
    return drove(found.mean, "usability", START, TURN)


@claims(f"Averages: probe generalization is what matters in {NOW}", source="Appendix F.3, Figure 29a", paper="largest")
def probe_generalization_exceeds_usability(found: Found) -> Answer:
    excess = mean_difference(those(found.table, "year", NOW), "probe_gen", "usability")
    found.further.append(excess.described(method=f"{excess.method}, encoders of {NOW}"))
    return Answer(
        ours=f"{with_interval(excess)} points above usability, n = {excess.n}",
        value=excess.value,
        holds=excess.ci_low is not None and excess.ci_low > 0,
        reason="usability is as large",
    )


# Groups of encoders


@claims("Contrastive learning mostly drove the improvements of usability", source="Section 5.1", paper="mostly")
def contrastive_learning_drove_usability(found: Found) -> Answer:
    shares = shares_of_the_fall(found, found.table, "usability", ["ssl_mode"], START, TURN)
    value, n = carried(shares, "contrastive")
    return Answer(
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
def usability_of_contrastive_encoders_fell_most(found: Found) -> Answer:
    changes = {}
    for mode, years in found.by_mode.items():
        values = [risks.parts["usability"].value for risks in years.values()]
        measured = [value for value in values if value is not None]
        if len(measured) > 1:
            changes[mode] = measured[-1] - measured[0]
    most = min(changes, key=changes.__getitem__, default="none")
    return Answer(
        ours=listed(changes, signed=True),
        value=-changes["contrastive"] if "contrastive" in changes else None,
        holds=most == "contrastive",
        reason=f"it fell most among {most} encoders",
    )


@claims(
    f"Clustering ViTs carry most of the fall of average probe generalization since {TURN} (ImageNet-1K)",
    source="Appendix F.3, Figure 29b",
    paper="mostly",
)
def clustering_vits_carry_most(found: Found) -> Answer:
    shown, clustering = [], {}
    for last in (NOW, GAP):
        shares = shares_of_the_fall(found, found.imagenet, "probe_gen", ["family", "ssl_mode"], TURN, last)
        clustering[last], n = carried(shares, "vit, clustering")
        vits, n_vits = carried(shares, "vit, ")
        shown.append(f"{clustering[last]:.0f} % until {last} ({n} encoders; all ViTs {vits:.0f} %, {n_vits} encoders)")
    return Answer(
        ours=f"{shown[0]} (most: above half)",
        value=clustering[NOW],
        holds=clustering[NOW] > 50,
        contradicted=clustering[NOW] < 50,
        reason=f"less than half, for ViTs of other objectives count too; {shown[1]}",
    )


def largest(years: Years, part: str, year: int) -> Answer:
    """Whether a component is the largest of the best encoder of a year."""
    risks, values = of_year(years, year), parts_of(years, year)
    return Answer(
        ours=f"{values[part]:.1f} of {risks.error:.1f} points ({risks.encoder}, best of {risks.n})",
        value=values[part],
        holds=max(values, key=values.__getitem__) == part,
        reason=listed(values),
    )


def drove(years: Years, part: str, first: int, last: int) -> Answer:
    """Whether the error fell between two years, and this component most."""
    changes, total = changes_between(years, first, last), of_year(years, last).error - of_year(years, first).error
    fell_most = min(changes, key=changes.__getitem__)
    return Answer(
        ours=f"{changes[part]:+.1f} points, the full-shot error {total:+.1f} "
        f"({years[first].n} and {years[last].n} encoders)",
        value=changes[part],
        holds=total < 0 and fell_most == part,
        reason=listed(changes, signed=True),
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
