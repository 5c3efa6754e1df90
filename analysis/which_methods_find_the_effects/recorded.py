"""What is recorded of the methods on drawn populations, as scripts/simulate_methods.py leaves it: counts, pooled."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

from zoo.analysis.columns import Estimate
from zoo.analysis.finding_effects import METHODS
from zoo.errors import ContentError, QueryError

HERE = Path(__file__).parent
RANDOMISED, CONFOUNDED, WIDE = "randomised", "confounded", "wide ranges"  # scenarios


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Recorded:
    """Counts by scenario, outcome, method and question, and what they were computed from."""

    fared: pd.DataFrame  # columns of zoo.analysis.finding_effects.Fared, with "scenario" and "outcome"
    together: pd.DataFrame  # columns of FaredTogether, likewise
    inflation: pd.DataFrame  # encoders, n_encoders, question, inflation: variance against that of independent choices
    provenance: Mapping[str, Any]

    @property
    def n_draws(self) -> int:
        """Populations that were drawn in a scenario."""
        return int(self.provenance["n_draws"])

    @property
    def scenarios(self) -> Mapping[str, str]:
        """Name and words of each."""
        return dict(self.provenance["scenarios"])

    @property
    def methods(self) -> list[str]:
        """The methods, and last where two of them agree."""
        return [*METHODS, *(one for one in self.fared["method"].unique() if one not in METHODS)]

    @property
    def agreeing(self) -> str:
        """The name of the answers on which two methods agree."""
        return self.methods[-1]

    def rows(
        self,
        scenario: str,
        method: str,
        *,
        questions: Iterable[str] | None = None,
        outcomes: Iterable[str] | None = None,
    ) -> pd.DataFrame:
        """The counts of a method in a scenario."""
        chosen = (self.fared["scenario"] == scenario) & (self.fared["method"] == method)
        if questions is not None:
            chosen &= self.fared["question"].isin(list(questions))
        if outcomes is not None:
            chosen &= self.fared["outcome"].isin(list(outcomes))
        return self.fared[chosen]

    def share(
        self,
        scenario: str,
        method: str,
        of: str,
        among: str,
        *,
        questions: Iterable[str] | None = None,
        outcomes: Iterable[str] | None = None,
    ) -> Estimate:
        """One count as a share of another, over questions, outcomes and draws; no value where there is nothing.

        Answers of one draw depend on each other, so the interval is that of as many independent ones as there are
        draws, which is the widest.
        """
        rows = self.rows(scenario, method, questions=questions, outcomes=outcomes)
        return _share(f"{of} of {among}", int(rows[of].sum()), int(rows[among].sum()), self.n_draws)

    def n_asked(self, scenario: str) -> int:
        """Questions about outcomes that a scenario has, each draw counted once."""
        first = self.fared[self.fared["scenario"] == scenario]
        return len(first[["outcome", "question"]].drop_duplicates()) * self.n_draws

    def answered(self, scenario: str, method: str) -> Estimate:
        """The share of questions about outcomes to which a method has an answer."""
        return _share(
            "answered", int(self.rows(scenario, method)["answered"].sum()), self.n_asked(scenario), self.n_draws
        )

    def size(self, scenario: str, method: str, *, questions: Iterable[str] | None = None) -> Estimate:
        """How much of an effect is answered: slope of answers on effects through 0; 1 is right.

        Outcomes count in their residual standard deviations.
        """
        rows = self.rows(scenario, method, questions=questions)
        rows = rows[rows["with_effect"] > 0]
        weights = rows["with_effect"] / rows["outcome"].map(dict(self.provenance["residual_sd"])) ** 2
        label = Estimate(term="size", n=int(rows["with_effect"].sum()), unit="share of the effect")
        if rows.empty:
            return label.described(note="no answer about an effect")
        return label.with_value(float((weights * rows["product"]).sum() / (weights * rows["square"]).sum()))

    def whole(self, scenario: str, method: str, what: str) -> Estimate:
        """``false_share`` or ``order`` of a method, a mean over outcomes with the interval over draws."""
        rows = self.together[(self.together["scenario"] == scenario) & (self.together["method"] == method)]
        values, errors = rows[what].dropna(), rows[f"{what}_error"].dropna()
        if values.empty:
            return Estimate(term=what, n=self.n_draws, unit="share")
        margin = 1.96 * math.sqrt(float((errors**2).sum())) / len(values)
        return Estimate(term=what, n=self.n_draws, unit="share").with_value(
            float(values.mean()), (float(values.mean()) - margin, float(values.mean()) + margin)
        )

    def questions(self, scenario: str) -> list[str]:
        """Those that any method answers in a scenario, in the order in which they are asked."""
        return [str(one) for one in self.fared[self.fared["scenario"] == scenario]["question"].unique()]


def _share(term: str, count: int, total: int, n_draws: int) -> Estimate:
    label = Estimate(term=term, n=total, unit="share")
    if total == 0:
        return label.described(note="nothing to count")
    value = count / total
    n = min(n_draws, total)
    spread = 1.96 * math.sqrt(value * (1 - value) / n + 1.96**2 / (4 * n * n))  # Wilson's interval
    centre = value + 1.96**2 / (2 * n)
    scale = 1 + 1.96**2 / n
    return label.with_value(value, ((centre - spread) / scale, (centre + spread) / scale))


@cache
def recorded(folder: Path = HERE) -> Recorded:
    """The tables beside this file; ContentError if one is damaged."""
    names = ("fared.csv", "together.csv", "inflation.csv")
    try:
        fared, together, inflation = (pd.read_csv(folder / name) for name in names)
        provenance = tomllib.loads((folder / "provenance.toml").read_text(encoding="utf-8"))
        found = Recorded(fared=fared, together=together, inflation=inflation, provenance=provenance)
        found.share(CONFOUNDED, METHODS[0], "covered", "with_interval")
        _ = found.n_draws, found.scenarios
    except (OSError, ValueError, KeyError) as error:
        raise ContentError(
            f"What is recorded of the methods in {folder} cannot be read ({error}); run scripts/simulate_methods.py."
        ) from error
    return found


def required(estimate: Estimate) -> float:
    """The value of an estimate; QueryError if there is none."""
    if estimate.value is None:
        raise QueryError(f"There is no {estimate.term}: {estimate.note or 'nothing was counted'}.")
    return estimate.value
