"""The shortlist: good by what is known, different from each other, loadable here, with a reason for each."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.card_text import VALID
from tests.weights.test_maintenance import put
from zoo.cards.catalogue import load_catalogue
from zoo.choosing.constraints import Constraints
from zoo.choosing.expectations import Images, estimate_errors
from zoo.choosing.shortlist import (
    GATED_REASON,
    SPECIAL_REASON,
    Shortlist,
    fetch_bytes,
    find_local_weights,
    select_shortlist,
)
from zoo.errors import QueryError, UnknownName


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No weights, cards or results of the user's."""
    for variable in ("ZOO_HOME", "ZOO_CACHE"):
        monkeypatch.setenv(variable, str(tmp_path / variable.lower()))
    for variable in ("ZOO_MIRROR", "ZOO_LOCK", "ZOO_OFFLINE", "TORCH_HOME"):
        monkeypatch.delenv(variable, raising=False)
    return tmp_path / "zoo_home"


def of(n: int | list[str], *, offline: bool = False, n_labels: int = 5_000, **constraints: object) -> Shortlist:
    limits = Constraints(**constraints)  # type: ignore[arg-type]
    return select_shortlist(n, limits, n_labels=n_labels, n_classes=2, offline=offline)


def candidates(found: Shortlist) -> set[str]:
    """Who was not left out."""
    return set(load_catalogue()) - {name for some in found.left_out.values() for name in some}


def names(found: Shortlist) -> list[str]:
    return [entry.name for entry in found.chosen]


def test_a_shortlist_is_good_and_diverse_and_says_why() -> None:
    found = of(12)
    cards = [entry.card for entry in found.chosen]
    assert len({card.id for card in cards}) == 12
    assert max(Counter(card.family for card in cards).values()) <= 2
    assert len({card.pretraining.dataset for card in cards}) >= 5
    assert len({card.architecture.family for card in cards}) >= 2
    assert len({card.objective.mode for card in cards}) >= 2
    assert sum(card.architecture.n_parameters for card in cards) / 12 < 1e9  # size counts against an encoder
    everything = load_catalogue()
    known = estimate_errors({name: everything[name] for name in everything}, 5_000, 2)
    of_all = sorted(known[name].error for name in candidates(of(1)))
    errors = [entry.expected.error for entry in found.chosen if entry.expected]
    assert len(errors) == 12 and sum(errors) / 12 < of_all[len(of_all) // 4]
    assert all(entry.expected is not None and entry.expected.source in entry.why for entry in found.chosen)
    assert found.chosen[0].why.startswith("the lowest for its size")
    assert any("adds the family" in entry.why for entry in found.chosen[1:])
    assert "say who is worth a try" in " ".join(found.notes)
    assert names(of(11)) == names(found)[:11]  # the same answer again, and a shorter list begins a longer one


def test_weights_that_are_gone_or_of_another_network_and_untrained_encoders_are_never_candidates() -> None:
    cards = load_catalogue()
    found = of(1)
    listed = candidates(found)
    for name in cards:
        card = cards[name]
        if card.is_untrained or card.weights.availability in ("gone", "unfit"):
            assert name not in listed
            assert any(name in gone for gone in found.left_out.values())


def test_gated_encoders_and_those_of_special_images_come_only_if_asked_for() -> None:
    found = of(12)
    gated = {
        name for name in load_catalogue() if load_catalogue()[name].weights.availability in ("gated", "by request")
    }
    assert gated and set(found.left_out[GATED_REASON]) == gated
    asked = of(3, where='access == "gated"')
    assert set(names(asked)) <= gated and len(asked.chosen) == 3
    assert names(of([min(gated)])) == [min(gated)]
    assert not [entry for entry in found.chosen if entry.card.pretraining.domain == "pathology H&E"]
    assert any(SPECIAL_REASON in note for note in found.notes)
    asked = of(3, where='domain == "pathology H&E"')
    assert {entry.card.pretraining.domain for entry in asked.chosen} == {"pathology H&E"}
    assert len(of(3, where='card_family == "satlas"').chosen) == 3  # a condition that only special ones meet


def test_encoders_of_the_kind_of_images_that_is_named_are_candidates() -> None:
    found = select_shortlist(6, n_labels=5_000, n_classes=2, images=Images.named(domain="pathology"))
    domains = {str(entry.card.pretraining.domain) for entry in found.chosen}
    assert "pathology H&E" in domains and not domains & {"earth RGB", "retina"}
    assert not any(str(entry.card.pretraining.domain) == "pathology H&E" for entry in of(6).chosen)


def test_constraints_hold_and_those_left_out_are_told_by_reason() -> None:
    found = of(12, max_parameters=30_000_000, licence="permissive", max_dim=800)
    assert all(entry.card.architecture.n_parameters <= 30_000_000 for entry in found.chosen)
    assert all(entry.card.representation.dim <= 800 for entry in found.chosen)
    assert any(reason.startswith("--max-parameters") for reason in found.left_out)
    passed_or_left = found.n_passed + sum(map(len, found.left_out.values()))
    assert passed_or_left == len(load_catalogue())


def test_offline_only_what_is_here_is_a_candidate_and_the_pocket_only_without_others() -> None:
    found = of(12, offline=True)
    assert all(entry.here and entry.fetch_bytes is None for entry in found.chosen)
    assert found.fetch_bytes == 0
    cards = load_catalogue()
    packaged = [name for name, where in find_local_weights(cards[name] for name in cards).items() if where == "package"]
    assert sorted(names(found)) == sorted(packaged or [n for n in cards if n.startswith("pocket_") and "init" not in n])
    tiny = of(4, offline=True, max_parameters=100_000)
    assert [entry.here for entry in tiny.chosen] == ["shipped"] * 4
    with pytest.raises(QueryError, match=r"offline.*can be tried here: .*pocket_"):
        of(3, offline=True, where='card_family == "dinov2"')


def test_cached_weights_cost_nothing_and_win_where_two_are_as_good() -> None:
    before = of(12)
    network = load_catalogue()["dino_vitS16_last"]
    put("dino_vitS16_last")
    assert find_local_weights([network]) == {"dino_vitS16_last": "cache"}
    [entry] = of(["dino_vitS16_last"]).chosen
    assert (entry.fetch_bytes, entry.here) == (None, "cache")
    assert names(of(3, offline=True, where='card_family == "dino"'))[0].startswith("dino_vitS16")
    assert names(of(12)) == names(before)  # a far worse one is not taken for being here


def test_of_two_equal_encoders_the_one_that_is_here_is_taken(alone: Path) -> None:
    path = alone / "metadata" / "twins.toml"
    path.parent.mkdir(parents=True)
    twin = '[encoders.twin_b]\nlike = "twin_a"\nweights.url = "https://example.org/b.pth"\n'
    path.write_text(VALID.partition("[encoders.tiny_vitS16_twin]")[0].replace("tiny_vitS16", "twin_a") + twin)
    condition = 'where == "https://example.org/models"'
    assert names(of(1, where=condition)) == ["twin_a"]
    put("twin_b")
    assert names(of(1, where=condition)) == ["twin_b"]


def test_named_encoders_are_taken_in_their_order_and_held_to_the_constraints() -> None:
    found = of(["pocket_simclr_rn_shapes", "dino_vitS16", "init_rn50", "DINO_vits16"])
    assert names(found) == ["pocket_simclr_rn_shapes", "dino_vitS16"]
    assert found.left_out["untrained"] == ["init_rn50"]
    assert found.chosen[0].why == "you named it"
    few = of(["pocket_simclr_rn_shapes", "dino_vitS16"], max_parameters=1_000_000)
    assert names(few) == ["pocket_simclr_rn_shapes"]
    with pytest.raises(UnknownName, match="dino_vitS16"):
        of(["dino_vitS61"])


def test_a_list_of_none_is_refused() -> None:
    nothing: list[str] = []
    for n in (0, nothing):
        with pytest.raises(QueryError, match="expected at least one"):
            of(n)


def test_bytes_to_fetch_are_those_of_the_card_or_four_a_parameter_and_counted_once_a_file() -> None:
    cards = load_catalogue()
    recorded = next(card for card in map(cards.__getitem__, cards) if isinstance(card.weights.size_bytes, int))
    assert fetch_bytes(recorded) == (recorded.weights.size_bytes, True)
    size = 4 * cards["dino_vitS16"].architecture.n_parameters
    assert fetch_bytes(cards["dino_vitS16"]) == (size, False)
    found = of(["dino_vitS16", "dino_vitS16_last"])
    assert (len(found.chosen), found.fetch_bytes) == (2, size)


def test_small_images_are_said_to_be_enlarged() -> None:
    found = select_shortlist(3, n_labels=100, n_classes=10, image_px=28)
    assert any("enlarged" in note for note in found.notes)
    assert not any("enlarged" in note for note in select_shortlist(3, n_labels=100, n_classes=10, image_px=300).notes)
