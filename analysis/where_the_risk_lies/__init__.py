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

from collections.abc import Mapping

from zoo.analysis.columns import OUTCOMES
from zoo.analysis.groups import PARTS
from zoo.analysis.table import StudyTable, in_groups, require_encoders, require_several
from zoo.evaluation.drawing import Figure
from zoo.studies.findings import Findings
from zoo.studies.running import StudyOptions
from zoo.studies.tables import doubts, rows_used

from .claims import TURN, Found, claims
from .figures import over_time_figure
from .tables import Years, years_estimates, years_table
from .years import risks_of_best_by_year


def study(table: StudyTable, options: StudyOptions) -> Findings:
    """Components of the best and of the average encoder of each year, in all and by family and type of objective."""
    require_encoders(table)
    require_several(table.complete("year", "train_test")["year"], "year")
    found = Found.of(table)
    best, mean = found.best, found.mean
    families = in_groups(table, "family", risks_of_best_by_year)
    modes = {"average": found.by_mode, "best": in_groups(table, "ssl_mode", risks_of_best_by_year)}
    named = {"best, ImageNet-1K": best, "average": mean}
    named |= {f"best, {family}": years for family, years in families.items()}
    named |= {f"{how}, {mode}": years for how, groups in modes.items() for mode, years in groups.items()}
    return Findings(
        claims=claims.judged(found),
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
            rows_used("best of each year, ImageNet-1K", found.imagenet, "year", "train_test", of=table),
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
