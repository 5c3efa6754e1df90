"""The ranking by a label budget: what a tie is, and that sentences can be said without ranks."""

from __future__ import annotations

from tests.each import for_each
from zoo.analysis.label_budget import Noise, PredictedError, RankOdds, rank_odds
from zoo.cards.catalogue import catalogue
from zoo.choosing.budget_ranking import Candidate, Ranked, first_networks, is_worse, ties_words

CARDS = catalogue()


def ranked(error: float, noise: Noise | None, *, name: str = "dino_vitS16", odds: RankOdds | None = None) -> Ranked:
    predicted = PredictedError(20_000, error, "interpolated", (12_811, 30_000))
    return Ranked(Candidate(CARDS[name], {}, predicted, ()), 1, noise, odds)


@for_each([0.5, 2.0, 6.0])
def test_worse_beyond_a_tie_is_what_the_draws_say_of_the_first(gap: float) -> None:
    noises = [Noise(0.3, 0.4), Noise(0.2, 1.0, 2.0, 3.0), Noise(0.1, 0.2, 1.0, -2.0)]
    for one in noises:
        for first in noises:
            errors = [20.0, 20.0 + gap]
            beats = rank_odds(errors, [first, one])[1].beats_first
            if abs(beats - 0.05) > 0.02:  # four standard errors of the draws
                assert is_worse(ranked(errors[1], one), ranked(errors[0], first)) == (beats < 0.05)


def test_who_is_not_known_to_be_worse_is_no_worse() -> None:
    assert not is_worse(ranked(90.0, None), ranked(1.0, Noise(0.1)))
    assert not is_worse(ranked(20.0, Noise(0.1)), ranked(20.0, Noise(0.1)))
    assert is_worse(ranked(20.1, Noise(0.0)), ranked(20.0, Noise(0.0)))


def test_other_features_of_the_same_weights_are_no_other_choice() -> None:
    names = ["dino_vitS16", "dino_vitS16_last", "simclr_rn50", "dino_rn50"]
    assert CARDS[names[0]].weights.url == CARDS[names[1]].weights.url
    found = [ranked(20.0, None, name=name) for name in names]
    assert first_networks(found, 2) == ["dino_vitS16", "simclr_rn50"]


def test_ties_are_counted_among_those_whose_uncertainty_is_known() -> None:
    tie, far = RankOdds(1, 2, 0.5, 0.4), RankOdds(3, 3, 0.0, 0.0)
    of = [ranked(20.0, Noise(0.2), odds=odds) for odds in (tie, tie, far)] + [ranked(20.0, None)]
    assert ties_words(of)[0].startswith("Ties: 2 encoders")
    assert ties_words(of[2:3]) != ties_words(of[3:]) == []
