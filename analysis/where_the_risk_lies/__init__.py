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
from itertools import pairwise

from zoo.analysis.estimates import Estimate
from zoo.analysis.outcomes import OUTCOMES
from zoo.analysis.populations import in_groups, require_encoders, require_several, those
from zoo.analysis.table import StudyTable
from zoo.analysis.trends import (
    PARTS,
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
from zoo.evaluation.drawing import Figure
from zoo.studies.findings import Answer, Claim, Findings, answered, excludes_zero
from zoo.studies.risks import doubts, listed, rows_used
from zoo.studies.running import StudyOptions
from zoo.studies.tables import with_interval

from .figures import over_time_figure
from .tables import Years, years_estimates, years_table

START, TURN, GAP, NOW = 2016, 2019, 2021, 2022  # years of which the paper speaks
FIGURE_4, APPENDIX = "Section 5.1, Figure 4", "Appendix F.3, Figure "


def study(table: StudyTable, options: StudyOptions) -> Findings:
    """Components of the best and of the average encoder of each year, in all and by family and type of objective."""
    require_encoders(table)
    require_several(table.complete("year", "train_test")["year"], "year")
    imagenet = those(table, "pretraining_data", "ImageNet-1K")
    best, mean = risks_of_best_by_year(imagenet), mean_risks_by_year(table)
    families = in_groups(table, "family", risks_of_best_by_year)
    modes = {how: in_groups(table, "ssl_mode", risks) for how, risks in _KINDS.items()}
    further = [
        slope_over_years(table, part)
        for part in PARTS
        if table.frame.dropna(subset=["train_test", part])["year"].nunique() > 1
    ]
    claims = [
        *_claims_of_best(best),
        *_claims_of_all(table, mean, further),
        *_claims_of_groups(table, imagenet, modes["average"], further),
    ]
    named = {"best, ImageNet-1K": best, "average": mean, **{f"best, {name}": found for name, found in families.items()}}
    named |= {f"{how}, {name}": found for how, groups in modes.items() for name, found in groups.items()}
    return Findings(
        claims=claims,
        estimates=[*(one for name, years in named.items() for one in years_estimates(name, years)), *further],
        tables=[
            years_table("Best ImageNet-1K encoder of each year (Figure 4)", {"": best}),
            years_table("Average of the encoders of each year, with 95 % intervals (Figure 29a)", {"": mean}),
            years_table("Best encoder of each year by family (Figure 29b)", families),
            years_table("Average of each year by type of objective (Figure 30)", modes["average"]),
            years_table("Best of each year by type of objective (Figure 30 as it was drawn)", modes["best"]),
        ],
        figures=_figures(best, mean, families, modes),
        rows=[
            rows_used("best of each year, ImageNet-1K", imagenet, "year", "train_test", of=table),
            *(rows_used(f"averages, {OUTCOMES[part].label.lower()}", table, "year", part) for part in PARTS),
        ],
        notes=[
            *doubts(risks.encoder for risks in best.values() if risks.encoder is not None),
            "The best of a year is one encoder and has no interval; of few encoders the best is worse for that alone.",
            "Years differ in data, architecture and length of pretraining: that a component fell is no effect of time.",
            "Approximation is measured on supervised twins, one an architecture, and 0 by assumption for "
            f"{int((table.frame['approx_is_assumed'] == 1).sum())} encoders.",
            f"Only {int((table.frame['year'] < TURN).sum())} encoders are older than {TURN}, and {_contrastive(table)} "
            f"of {TURN} are contrastive: their share of a fall follows from who was published, and is no effect.",
        ],
    )  # fmt: skip


def _drove(years: Years, part: str, first: int, last: int) -> Answer:
    changes, total = changes_between(years, first, last), of_year(years, last).error - of_year(years, first).error
    fell_most = min(changes, key=changes.__getitem__)
    return Answer(
        ours=f"{changes[part]:+.1f} points, the full-shot error {total:+.1f} "
        f"({years[first].n} and {years[last].n} encoders)", value=changes[part],
        holds=total < 0 and fell_most == part, reason=listed(changes, signed=True),
    )  # fmt: skip


def _claims_of_best(best: Years) -> list[Claim]:
    def largest(part: str, year: int) -> Answer:
        risks, values = of_year(best, year), parts_of(best, year)
        return Answer(
            ours=f"{values[part]:.1f} of {risks.error:.1f} points ({risks.encoder}, best of {risks.n})",
            value=values[part], holds=max(values, key=values.__getitem__) == part, reason=listed(values),
        )  # fmt: skip

    def steady() -> Answer:
        years = [START, *(year for year in best if START < year < TURN), TURN]
        values = [known(of_year(best, year), "usability") for year in years]
        shown = [f"{value:.1f} ({year}, best of {best[year].n})" for year, value in zip(years, values, strict=True)]
        return Answer(ours=", ".join(shown), holds=all(later < earlier for earlier, later in pairwise(values)),
                      reason="a later year is no better than the one before")  # fmt: skip

    def exchanged() -> Answer:
        first, then = changes_between(best, START, TURN), changes_between(best, TURN, NOW)
        return Answer(
            ours="usability {:+.1f} and probe generalization {:+.1f}, then {:+.1f} and {:+.1f}".format(
                first["usability"], first["probe_gen"], then["usability"], then["probe_gen"]
            ),
            holds=first["usability"] < 0 < first["probe_gen"] and then["probe_gen"] < 0 < then["usability"],
            reason="both fell, or both rose",
        )  # fmt: skip

    def small() -> Answer:
        values = [(known(risks, "enc_gen"), known(risks, "probe_gen")) for risks in best.values()]
        low, high, share = min(values)[0], max(values)[0], max(one / (probe or math.inf) for one, probe in values)
        return Answer(
            ours=f"{low:.1f} to {high:.1f} points, at most {100 * share:.0f} % of probe generalization (small: below "
            "half of it)",
            holds=0 <= share < 0.5, value=high, reason="in a year it is half of probe generalization or more",
        )  # fmt: skip

    def drawn_as_zero() -> Answer:
        risks = of_year(best, GAP)
        value = risks.parts["usability"].value
        shown = "not measured" if value is None else f"{value:.2f}"
        together = "" if risks.known_sum is None else f", {risks.known_sum:.2f} with approximation"
        return Answer(
            ours=f"{shown}{together} ({risks.encoder}, best of {risks.n})",
            holds=value == 0, held_as_the_paper_did=(value or 0.0) == 0, value=value,
            reason="it has no supervised twin, so its usability is missing, and a missing number was drawn as zero",
        )  # fmt: skip

    return [
        answered(f"Usability was the largest source of error (best of {START})", source=FIGURE_4, paper="largest",
                 answer=lambda: largest("usability", START)),
        answered(f"Usability improved steadily from {START} to {TURN}", source=FIGURE_4, paper="steadily",
                 answer=steady),
        answered(f"Usability drove the improvements from {START} to {TURN}", source=FIGURE_4, paper="usability",
                 answer=lambda: _drove(best, "usability", START, TURN)),
        answered(f"Probe generalization is now the largest source of error (best of {NOW})", source=FIGURE_4,
                 paper="largest", answer=lambda: largest("probe_gen", NOW)),
        answered(f"Probe generalization drove the improvements since {TURN}", source=FIGURE_4,
                 paper="probe generalization", answer=lambda: _drove(best, "probe_gen", TURN, NOW)),
        answered(f"Usability fell at the expense of probe generalization until {TURN}, and vice versa since",
                 source="Section 5.2.2, Figure 4", paper="tradeoff", answer=exchanged),
        answered("Encoder generalization is small (best of every year)", source=FIGURE_4, paper="small", answer=small),
        answered(f"Usability of the best of {GAP}", source="Figure 4", paper="0 (as drawn)", answer=drawn_as_zero),
    ]  # fmt: skip


def _claims_of_all(table: StudyTable, mean: Years, further: list[Estimate]) -> list[Claim]:
    def constant() -> Answer:
        slope = slope_over_years(table, "enc_gen")
        robust = slope.described(ci_low=slope.ci_low_robust, ci_high=slope.ci_high_robust)
        tests = years_differ(table, "enc_gen")
        further.extend(tests)
        p = [1.0 if test.p is None else test.p for test in tests]
        means = {f"{year}": known(risks, "enc_gen") for year, risks in mean.items() if risks.parts["enc_gen"].n > 1}
        linear = "is a linear trend" if excludes_zero(robust) else "is no linear trend"
        return Answer(
            ours=f"differences between years: F test p {p[0]:.1e}, Kruskal-Wallis p {p[1]:.3f}, n = {tests[0].n}",
            value=tests[0].p, holds=min(p) >= 0.05, contradicted=max(p) < 0.05,
            reason=f"there {linear} ({with_interval(robust)} points a year), but years differ: {listed(means)} points",
        )  # fmt: skip

    def smaller() -> Answer:
        rows = table.complete("enc_gen", "probe_gen")
        n = int((rows["enc_gen"] < rows["probe_gen"]).sum())
        return Answer(
            ours=f"of {n} of {len(rows)} encoders", value=n, holds=n == len(rows), reason="not of all of them"
        )

    def negligible() -> Answer:
        rows = table.complete("approx", "train_test")
        share = 100 * (rows["approx"] / rows["train_test"]).max()
        average, highest = float(rows["approx"].mean()), float(rows["approx"].max())
        return Answer(ours=f"{average:.2f} points on average, at most {highest:.2f} and {share:.0f} % of the error "
                      f"(negligible: below 10 %); n = {len(rows)}", value=average, holds=bool(share < 10),
                      reason="it is a tenth of the error of some encoder")  # fmt: skip

    def exceeds() -> Answer:
        excess = mean_difference(those(table, "year", NOW), "probe_gen", "usability")
        further.append(excess.described(method=f"{excess.method}, encoders of {NOW}"))
        return Answer(ours=f"{with_interval(excess)} points above usability, "
                      f"n = {excess.n}", value=excess.value, holds=excess.ci_low is not None and excess.ci_low > 0,
                      reason="usability is as large")  # fmt: skip

    return [
        answered("Encoder generalization is constant (all encoders)", source=FIGURE_4, paper="constant",
                 answer=constant),
        answered("Encoder generalization is smaller than probe generalization", source="Section 5.1", paper="smaller",
                 answer=smaller),
        answered("Approximation error is negligible", source=FIGURE_4, paper="negligible", answer=negligible),
        answered(f"Averages: usability drove the improvements from {START} to {TURN}", source=f"{APPENDIX}29a",
                 paper="usability", answer=lambda: _drove(mean, "usability", START, TURN)),
        answered(f"Averages: probe generalization is what matters in {NOW}", source=f"{APPENDIX}29a", paper="largest",
                 answer=exceeds),
    ]  # fmt: skip


def _claims_of_groups(
    table: StudyTable, imagenet: StudyTable, modes: Mapping[str, Years], further: list[Estimate]
) -> list[Claim]:
    def shares(rows: StudyTable, outcome: str, by: Sequence[str], first: int, last: int) -> dict[str, Estimate]:
        found = carried_by(rows, outcome, by, first=first, last=last)
        further.extend(found)
        return {share.term: share for share in found}

    def carried(found: Mapping[str, Estimate], begins: str) -> tuple[float, int]:
        chosen = [share for term, share in found.items() if term.startswith(begins)]
        return sum(share.value or 0.0 for share in chosen), sum(share.n for share in chosen)

    def contrastive() -> Answer:
        found = shares(table, "usability", ["ssl_mode"], START, TURN)
        value, n = carried(found, "contrastive")
        return Answer(ours=f"{value:.0f} % of the fall of the average from {START} to {TURN} (mostly: above half); "
                      f"{n} of the {sum(share.n for share in found.values())} encoders of {TURN} are contrastive",
                      value=value, holds=value > 50, reason="other objectives carry at least half of it")  # fmt: skip

    def fell_most() -> Answer:
        falls = {}
        for mode, years in modes.items():
            values = [risks.parts["usability"].value for risks in years.values()]
            measured = [value for value in values if value is not None]
            if len(measured) > 1:
                falls[mode] = measured[0] - measured[-1]
        most = max(falls, key=falls.__getitem__, default="none")
        shown = listed({mode: -fall for mode, fall in falls.items()}, signed=True)
        return Answer(ours=shown, value=falls.get("contrastive"), holds=most == "contrastive",
                      reason=f"it fell most among {most} encoders")  # fmt: skip

    def clustering_vits() -> Answer:
        shown, clustering = [], {}
        for last in (NOW, GAP):
            found = shares(imagenet, "probe_gen", ["family", "ssl_mode"], TURN, last)
            clustering[last], n = carried(found, "vit, clustering")
            vits, n_vits = carried(found, "vit, ")
            shown.append(
                f"{clustering[last]:.0f} % until {last} ({n} encoders; all ViTs {vits:.0f} %, {n_vits} encoders)"
            )
        return Answer(ours=f"{shown[0]} (most: above half)", value=clustering[NOW], holds=clustering[NOW] > 50,
                      contradicted=clustering[NOW] < 50,
                      reason=f"less than half, for ViTs of other objectives count too; {shown[1]}")  # fmt: skip

    return [
        answered("Contrastive learning mostly drove the improvements of usability", source="Section 5.1",
                 paper="mostly", answer=contrastive),
        answered("Usability fell most among contrastive encoders (averages, first to last year)",
                 source=f"{APPENDIX}30", paper="contrastive", answer=fell_most),
        answered(f"Clustering ViTs carry most of the fall of average probe generalization since {TURN} (ImageNet-1K)",
                 source=f"{APPENDIX}29b", paper="mostly", answer=clustering_vits),
    ]  # fmt: skip


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


_KINDS: dict[str, Callable[[StudyTable], Years]] = {"average": mean_risks_by_year, "best": risks_of_best_by_year}
