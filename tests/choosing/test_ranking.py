"""The ranking by measured errors: what a tie is, and that sentences can be said without ranks."""

from __future__ import annotations

from zoo.analysis.label_budget import Noise, PredictedError, RankOdds
from zoo.cards.catalogue import load_catalogue
from zoo.choosing.ranking import MeasuredError, RankedEncoder, describe_ties, select_first_networks

CARDS = load_catalogue()


def ranked(
    error: float, noise: Noise | None, *, name: str = "dino_vitS16", odds: RankOdds | None = None
) -> RankedEncoder[MeasuredError]:
    predicted = PredictedError(20_000, error, "interpolated", (12_811, 30_000))
    number = MeasuredError(curve={}, predicted=predicted, noise=noise, odds=odds)
    return RankedEncoder(CARDS[name], number, 1, is_tie=odds is not None and odds.ties_with_first)


def test_other_features_of_the_same_weights_are_no_other_choice() -> None:
    names = ["dino_vitS16", "dino_vitS16_last", "simclr_rn50", "dino_rn50"]
    assert CARDS[names[0]].weights.url == CARDS[names[1]].weights.url
    found = [ranked(20.0, None, name=name) for name in names]
    assert select_first_networks((one.card for one in found), 2) == ["dino_vitS16", "simclr_rn50"]


def test_ties_are_counted_among_those_whose_uncertainty_is_known() -> None:
    tie, far = RankOdds(1, 2, 0.5, 0.4), RankOdds(3, 3, 0.0, 0.0)
    of = [ranked(20.0, Noise(0.2), odds=odds) for odds in (tie, tie, far)] + [ranked(20.0, None)]
    assert describe_ties(of)[0].startswith("Ties: 2 encoders")
    assert describe_ties(of[2:3]) != describe_ties(of[3:]) == []
