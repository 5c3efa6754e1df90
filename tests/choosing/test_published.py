"""Where an encoder stands among the published ones: ranks, protocols, nearest encoders, effects of choices."""

from __future__ import annotations

import math
from pathlib import Path
from statistics import stdev

import pytest

from tests.own_encoder import add_own_encoder
from tests.result_rows import user_of
from zoo.analysis.controlled import controlled_effect
from zoo.analysis.table import study_table
from zoo.cards.catalogue import load_catalogue
from zoo.choosing.published import FEWEST, FEWEST_BOTH, PublishedComparison, compare_with_published
from zoo.choosing.ranking import NO_CANDIDATES
from zoo.errors import QueryError
from zoo.results.derived import summaries


@pytest.fixture(scope="module")
def published() -> PublishedComparison:
    return compare_with_published("dino_rn50")


def test_a_published_encoder_has_the_rank_that_counting_gives(published: PublishedComparison) -> None:
    known = summaries(exclude_wrong=True)
    error, *_ = published.places
    mine = known["dino_rn50"].errors["100%"]
    better = [name for name in published.group if known[name].errors["100%"] < mine]
    assert error.rank == 1 + len(better) and error.n == 1 + len(published.group)
    assert error.lowest <= error.rank <= error.highest and error.between_protocols == 0
    assert set(published.group.values()) == {"ssl-risk-decomposition"}


def test_the_group_is_of_like_size_and_data_and_says_so(published: PublishedComparison) -> None:
    cards = load_catalogue()
    n = cards["dino_rn50"].architecture.n_parameters
    assert len(published.group) >= FEWEST and "dino_rn50" not in published.group
    for name in published.group:
        card = cards[name]
        assert 0.5 <= card.architecture.n_parameters / n <= 2 and card.pretraining.dataset == "ImageNet-1K"
        assert card.objective.mode not in NO_CANDIDATES
    assert published.group_words == "with 11.8M to 47M parameters and ImageNet-1K as pre-training data"


def test_effects_are_those_of_the_controlled_study(published: PublishedComparison) -> None:
    with_views = next(one for one in published.nearest if "nviews" in one.differing)
    its, own = with_views.differing["nviews"]
    (found,) = [
        one
        for one in published.effects
        if one.term == f"nviews: {own}, not {its}" and one.outcome == "train_test" and one.method == "controlled"
    ]
    effect = controlled_effect(study_table(corrected=True), "nviews", "train_test")
    changes, of_logarithm = effect.changes(), effect.estimate().value
    assert found.value is not None and of_logarithm is not None
    assert found.value == pytest.approx(of_logarithm * math.log(own / its))
    assert found.ci_low is not None and found.ci_high is not None and found.ci_low < found.value < found.ci_high
    assert found.note == f"controlled, {effect.n_encoders} encoders, {len(changes)} pairs or groups: few"


def test_by_another_protocol_there_is_a_range_and_no_rank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = add_own_encoder(tmp_path, monkeypatch)
    found = compare_with_published(mine)
    assert [place.risk for place in found.places] == [
        "train_test",
        "approx",
        "usability",
        "probe_gen",
        "enc_gen",
    ]
    for place in found.places:
        assert place.rank is None and place.between_protocols > 0 and place.n_both == 0
        assert 1 <= place.lowest < place.highest <= place.n
    assert "mine, which the group was not: no rank and no difference" in found.cautions[0]
    assert "no encoders have both" in found.cautions[0]


def test_encoders_measured_by_both_protocols_say_what_lies_between(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = add_own_encoder(tmp_path, monkeypatch)
    before = compare_with_published(mine).places[0]
    known = summaries()
    both = ["dino_vitS16", "dino_rn50", "swav_rn50", "barlow_rn50"]
    assert len(both) > FEWEST_BOTH
    path = tmp_path / "results" / "mine.csv"
    head, first, *rest = path.read_text().splitlines()
    shifts = (-7.9, -8.1, -8.0, -8.0)  # of the own protocol
    rows = [
        f"{name},linear_probe_error,imagenet-1k,train -> val,1281167,0,{known[name].errors['100%'] + shift},percent,,,"
        "mine,me,2026-11-20"
        for name, shift in zip(both, shifts, strict=True)
    ]
    path.write_text("\n".join([head, first, *rest, *rows]) + "\n")
    found = compare_with_published(mine).places[0]
    assert (found.n_both, found.rank) == (4, None)
    assert found.between_protocols == pytest.approx(stdev(shifts) * math.sqrt(1 + 1 / 4))
    assert found.lowest > before.highest  # eight points more by the published protocol, and known within a tenth


def test_an_unmeasured_encoder_is_refused_with_the_command_that_helps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user_of(tmp_path, monkeypatch)
    with pytest.raises(QueryError, match=r"dinov2_vitB14 on imagenet-1k.*zoo evaluate .* --decompose"):
        compare_with_published("dinov2_vitB14")
