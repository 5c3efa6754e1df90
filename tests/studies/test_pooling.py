"""The study of what pooling hides: planted gains come out, and what one origin does not pair is left out."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.shipped import shipped_findings, study_module
from tests.studies.parts import claim, one
from zoo.cards.catalogue import load_catalogue
from zoo.results.reported import reported_numbers
from zoo.results.reported_values import ReportedNumber

STUDY = "what_pooling_hides"


@pytest.fixture(scope="module")
def study() -> ModuleType:
    return study_module(STUDY)


def planted(study: ModuleType, *, local: float, others: float) -> list[ReportedNumber]:
    """The shipped numbers, but attentive ones so many points above the linear ones of the same encoder."""
    frame, cards = study.read_gains(reported_numbers()).frame, load_catalogue()
    noise = dict(zip(frame.index, np.random.default_rng(1).normal(0, 0.3, len(frame)), strict=True))

    def value(number: ReportedNumber) -> float:
        if number.protocol != "reported-attentive" or number.encoder not in noise:
            return number.value
        gain = local if cards[number.encoder].objective.mode in study.LOCAL else others
        return float(frame["linear"][number.encoder] + gain + noise[number.encoder])

    return [changed(number, value=value(number)) for number in reported_numbers()]


def changed(number: ReportedNumber, **changes: Any) -> ReportedNumber:
    known = {name: getattr(number, name) for name in ReportedNumber.__dataclass_fields__}
    return ReportedNumber(**known | changes)


def test_planted_gains_come_out_by_kind_of_objective(study: ModuleType) -> None:
    found = study.read_gains(planted(study, local=5.0, others=0.0))
    apart = study.compare_local(found, seed=0)
    assert apart.ci_low > 4 and apart.value == pytest.approx(5, abs=0.4)
    by_mode = {one.term: one for one in study.mean_gains(found)}
    assert by_mode["generative"].value == pytest.approx(5, abs=0.4)
    assert by_mode["hybrid"].ci_low < 0 < by_mode["hybrid"].ci_high or abs(by_mode["hybrid"].value) < 0.5
    assert by_mode["autoregressive"].value is None and "say nothing" in by_mode["autoregressive"].note


def test_equal_gains_are_no_difference_of_objectives(study: ModuleType) -> None:
    apart = study.compare_local(study.read_gains(planted(study, local=2.0, others=2.0)), seed=0)
    assert apart.ci_low < 0 < apart.ci_high


def test_doubtful_numbers_and_encoders_without_a_linear_one_make_no_pair(study: ModuleType) -> None:
    numbers = [
        changed(number, doubt="wrong") if (number.encoder, number.protocol) == ("mae_vitB16", of) else number
        for of in ("reported-linear",)
        for number in reported_numbers()
    ]
    found = study.read_gains(numbers)
    assert "mae_vitB16" not in found.frame.index and found.n_without == 1


def test_pairs_that_change_places_are_counted_once(study: ModuleType) -> None:
    found = study.read_gains(reported_numbers())
    swaps = study.find_swaps(found)
    linear, attentive = found.frame["linear"], found.frame["attentive"]
    assert all(linear[a] > linear[b] and attentive[a] < attentive[b] and gap > 0 for a, b, gap in swaps)
    assert len({frozenset(pair[:2]) for pair in swaps}) == len(swaps)


def test_the_shipped_numbers_say_what_the_docstring_expects() -> None:
    findings = shipped_findings(STUDY)
    overall = one(findings, "all", "attentive minus linear")
    assert (overall.n, round(overall.value or 0, 1)) == (33, 1.6)
    assert claim(findings, "Linear probing understates").verdict == "agrees"


def test_what_was_measured_here_is_pairs_of_both_probes_with_as_many_labels(study: ModuleType) -> None:
    own = {(one.encoder, one.dataset): one for one in study.read_own_gains()}
    mae = own["pocket_mae_vit_shapes", "shapes"]
    assert mae.n_train == 5000 and mae.gain == pytest.approx(mae.linear - mae.attentive) and mae.gain > 20
    assert mae.ends[0] < mae.attentive < mae.ends[1]
