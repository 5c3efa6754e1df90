"""What is assumed where reported numbers stand in one column; each statement stands above what decides it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from zoo.analysis.columns import Estimate
from zoo.analysis.correlations import HIGH
from zoo.analysis.reported_agreement import FEWEST_PAIRS
from zoo.errors import QueryError
from zoo.studies.findings import Answer, Claim, Claims, excludes_zero
from zoo.studies.tables import interval

from .pairs import Pairs, TwoSources

SURE = 0.9  # share of pairs of encoders from which an order counts as told
SAME = 0.2  # percentage points within which two sources print the same
MEAN, SPREAD, TAU = "first minus second, mean", "first minus second, standard deviation", "Kendall's tau"


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What the claims are held against."""

    measured: Mapping[str, Pairs]
    protocols: Sequence[Pairs]
    sources: Sequence[TwoSources]
    order: Sequence[Estimate]
    estimates: Mapping[str, Sequence[Estimate]]  # by name of the pairs
    within: Mapping[str, Estimate]

    def one(self, pairs: str, outcome: str) -> Estimate:
        """An estimate of some pairs; QueryError if they are too few."""
        for estimate in self.estimates.get(pairs, ()):
            if estimate.outcome == outcome:
                return estimate
        raise QueryError(
            f"Too few encoders have what {pairs} needs, expected at least {FEWEST_PAIRS} pairs of several sources."
        )


def claims_of(found: Found) -> list[Claim]:
    """All claims."""
    return [*of_columns.judged(found), *of_mae.judged(found)]


of_columns = Claims(source="assumed where reported numbers stand in one column")


@of_columns("A reported linear accuracy is what the published probe finds", paper="no difference")
def reported_is_measured(found: Found) -> Answer:
    mean, spread = found.one("linear", MEAN), found.one("linear", SPREAD)
    return Answer(
        ours=f"{_cell(mean)} points, sd {spread.value:.1f}, {mean.n} encoders",
        holds=not excludes_zero(mean),
        contradicted=excludes_zero(mean),
        value=mean.value,
        reason="those who report choose layers, sizes of images and sweeps; which of these it is is not identified",
    )


@of_columns("Reported linear accuracies rank encoders as the published probe does", paper="the same order")
def reported_ranks_alike(found: Found) -> Answer:
    tau = found.one("linear", TAU)
    return Answer(
        ours=f"tau {_cell(tau)} (high: at least {HIGH:g})",
        holds=tau.value is not None and tau.value >= HIGH,
        value=tau.value,
        reason="they rank otherwise",
        caveat="encoders of very different accuracy make it so; of near ones see the next claim",
    )


@of_columns(
    "Of two encoders that are at most half a point apart, the one with the higher reported accuracy is better",
    paper="better",
)
def near_ones_are_told_apart(found: Found) -> Answer:
    known = [one for one in found.order if one.value is not None]
    if not known or known[0] is not found.order[0]:
        raise QueryError(f"Fewer than {FEWEST_PAIRS} pairs of encoders are so near each other.")
    first = known[0]
    sure = next((one.term for one in known if one.value is not None and one.value >= SURE), "no gap")
    return Answer(
        ours=f"so for {first.value:.0%} of {first.n} pairs of encoders (of a coin: 50 %); for nine in ten from {sure}",
        holds=first.value is not None and first.value >= SURE,
        contradicted=first.ci_high is not None and first.ci_high < SURE,
        value=first.value,
        reason="the recipes of those who report differ by more than that",
    )


@of_columns("Two sources that evaluate the same weights in the same way print the same number", paper="the same")
def sources_agree(found: Found) -> Answer:
    apart = [one for one in found.sources if one.first.source != one.second.source]
    if len(apart) < FEWEST_PAIRS:
        raise QueryError(f"{len(apart)} numbers come from two sources, expected at least {FEWEST_PAIRS}.")
    most = max(abs(one.difference) for one in apart)
    same = sum(one.is_same for one in apart)
    kinds = sorted({one.first.protocol.removeprefix("reported-") for one in apart})
    return Answer(
        ours=f"{same} of {len(apart)} to the last common digit, all within {most:.2f} points (same: within {SAME:g})",
        holds=most <= SAME,
        contradicted=most > SAME,
        value=most,
        reason="they evaluate differently",
        caveat=f"of {' and '.join(kinds)} only: nothing is trained there, so nothing is chosen",
    )


@of_columns("k-NN accuracies rank encoders as linear ones do", paper="the same order")
def knn_ranks_as_linear(found: Found) -> Answer:
    return _ranks_alike(found, "linear and k-NN")


def _ranks_alike(found: Found, name: str) -> Answer:
    tau, mean = found.one(name, TAU), found.one(name, MEAN)
    inside = found.within.get(name)
    own = "" if inside is None else f", within one source {_cell(inside)}"
    return Answer(
        ours=f"tau {_cell(tau)}{own} (high: at least {HIGH:g}); linear {_cell(mean)} points higher, {tau.n} encoders",
        holds=tau.value is not None and tau.value >= HIGH,
        value=tau.value,
        reason="they rank otherwise",
        caveat="one accuracy does not tell the other: the difference varies with the method",
    )


of_mae = Claims(source="MAE (arXiv:2111.06377), Section 4.3")


@of_mae("Linear probing and fine-tuning are largely uncorrelated", paper="largely uncorrelated")
def linear_and_finetuned_are_uncorrelated(found: Found) -> Answer:
    tau = found.one("linear and fine-tuned", TAU)
    inside = found.within.get("linear and fine-tuned")
    own = "" if inside is None else f", within one source {_cell(inside)}"
    return Answer(
        ours=f"tau {_cell(tau)}{own}, {tau.n} encoders (uncorrelated: an interval that holds 0)",
        holds=not excludes_zero(tau),
        value=tau.value,
        reason="over encoders of several methods, where both follow how good a method is; the paper speaks of choices "
        "within one",
    )


def _cell(estimate: Estimate) -> str:
    return interval(estimate, digits=2)
