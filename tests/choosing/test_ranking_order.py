"""The order of encoders, of their cards and of their rows decides no rank.

Cases are drawn by hypothesis from a fixed seed, few of them; ZOO_TEST_EXAMPLES=1000 draws as many, anew in each run.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.card_text import VALID
from tests.properties import drawn
from zoo.analysis.label_budget import Noise, simulate_ranks
from zoo.cards.catalogue import load_catalogue
from zoo.choosing import ranking
from zoo.choosing.expectations import Images, estimate_errors
from zoo.choosing.ranking import N_RACERS, rank_encoders, select_racers
from zoo.files import get_content_folder

CARDS = load_catalogue()
PROBED = ["dino_vitS16", "mae_vitB16", "swav_rn50", "simclr_rn50", "clip_rn50x4", "barlow_rn50", "dino_rn50"]
ERRORS = st.lists(st.sampled_from([20.0, 20.0, 24.5, 31.25, 60.0]), min_size=2, max_size=5)
some = settings(drawn, max_examples=min(4, drawn.max_examples))  # each reads a home and ranks all encoders


@pytest.fixture(scope="module", autouse=True)
def few_draws() -> Any:
    """Of the ranks that encoders may have."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranking, "simulate_ranks", partial(simulate_ranks, n_draws=50))
        yield


def write_home(home: Path, errors: Sequence[tuple[str, float]]) -> None:
    """A home with encoders of these full-shot errors in percent, cards and rows in this order."""
    first, _, _ = VALID.partition("[encoders.")
    cards = [f'[encoders.{name}]\nweights.url = "https://example.org/{name}.pth"\n' for name, _ in errors]
    header = (get_content_folder("results") / "published" / "risks.csv").read_text().splitlines()[0]
    end = "percent,,,ssl-risk-decomposition,me,2026-01"
    rows = [f"{name},linear_probe_error,imagenet-1k,train -> val,1281167,0,{error},{end}" for name, error in errors]
    for folder, file, lines in (("metadata", "mine.toml", [first, *cards]), ("results", "mine.csv", [header, *rows])):
        (home / folder).mkdir(parents=True)
        (home / folder / file).write_text("\n".join([*lines, ""]))


@some
@given(ERRORS, st.randoms(use_true_random=False))
def test_own_encoders_have_the_same_ranks_in_any_order_of_cards_and_rows(errors: list[float], random: Any) -> None:
    own = [(f"tiny_{letter}", error) for letter, error in zip("edcba", errors, strict=False)]
    answers = []
    for order in (own, random.sample(own, len(own))):
        with tempfile.TemporaryDirectory() as home, pytest.MonkeyPatch.context() as patch:
            patch.setenv("ZOO_HOME", home)
            write_home(Path(home), order)
            measured = ranking.rank_encoders(1_281_167, basis="measured").ranked
            expected = ranking.recommend(20_000).ranked
            answers.append(
                (
                    [(one.card.id, one.rank, one.number.error, one.is_tie) for one in measured],
                    [(one.card.id, one.rank, one.number.error, one.is_tie) for one in expected],
                )
            )
    assert answers[0] == answers[1]
    rows = answers[0][0]
    assert {name: error for name, _, error, _ in rows if name.startswith("tiny_")} == dict(own)
    assert rows == sorted(rows, key=lambda row: (row[2], row[0]))
    assert all(rank == 1 + sum(other[2] < error for other in rows) for _, rank, error, _ in rows)


@some
@given(st.permutations([name for name in CARDS if not CARDS[name].saw_labels][::12] + PROBED))
def test_the_error_to_expect_of_an_encoder_depends_on_no_order(names: list[str]) -> None:
    ordered = {name: CARDS[name] for name in sorted(names)}
    found = estimate_errors({name: CARDS[name] for name in names}, 20_000, 100)
    assert found == estimate_errors(ordered, 20_000, 100)


@drawn
@given(st.lists(st.tuples(st.integers(1, 99), st.sampled_from([0.1, 0.5, 4.0])), min_size=1, max_size=6))
def test_the_odds_of_ranks_are_those_of_errors_and_their_noise(table: list[tuple[int, float]]) -> None:
    errors, noises = [float(error) for error, _ in table], [Noise(sd) for _, sd in table]
    odds = simulate_ranks(errors, noises, n_draws=400)
    assert sum(one.best for one in odds) == pytest.approx(1.0)
    assert all(1 <= one.lowest <= one.highest <= len(table) for one in odds)
    assert all(one.ties_with_first for one, error in zip(odds, errors, strict=True) if error == min(errors))
    far = [one for one, error in zip(odds, errors, strict=True) if error > min(errors) + 40]
    assert not any(one.ties_with_first or one.best for one in far)


def test_where_too_many_are_tied_five_families_are_named_for_a_race_those_with_a_probe_first() -> None:
    few = rank_encoders(160, 10, Images("", "satellite"))
    racers = select_racers(few.ranked)
    assert len({one.card.family for one in racers}) == len(racers) == N_RACERS and all(one.is_tie for one in racers)
    probed = [one.number.basis not in ("other numbers", "similar encoders") for one in racers]
    assert probed[0] and probed == sorted(probed, reverse=True)
    assert few.lead.startswith(f"Too uncertain to rank: {few.n_ties}") and racers[-1].card.id in few.lead
    assert few.build_tables()[0].notes[0] == few.lead
    assert select_racers(rank_encoders(1_281_167).ranked) == [] == select_racers([])
