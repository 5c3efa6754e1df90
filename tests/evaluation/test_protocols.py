"""A protocol's name stands for all that defines a number, and for nothing else, for ever."""

from __future__ import annotations

import inspect
import math
from pathlib import Path
from typing import Any

import pytest

from tests.each import for_each
from zoo.errors import QueryError, UnknownName
from zoo.evaluation import bootstrap, classification, measuring, multilabel, risk
from zoo.evaluation.attentive import AttentiveProbe
from zoo.evaluation.label_free.catalogue import format_protocol_row
from zoo.evaluation.logistic import LogisticProbe
from zoo.evaluation.neighbours import NeighbourProbe
from zoo.evaluation.protocols import PROTOCOLS, Protocol, build_protocol, format_protocols_table
from zoo.evaluation.regression import RidgeProbe
from zoo.evaluation.segmentation import DepthProbe, SegmentationProbe
from zoo.evaluation.streamed import StreamedProbe

ON_MAPS = (SegmentationProbe, DepthProbe)
PROBES: dict[str, Any] = {
    probe.__name__: probe
    for probe in (AttentiveProbe, LogisticProbe, StreamedProbe, NeighbourProbe, RidgeProbe, *ON_MAPS)
}
LEAVE_THE_NUMBER = {  # options of the probes that a protocol leaves open
    "AttentiveProbe": {"device", "seed", "channels", "class_token"},  # the last two are of the features
    "LogisticProbe": {"device", "seed", "progress"},
    "StreamedProbe": {"device", "seed", "progress"},
    "NeighbourProbe": {"device", "seed", "block_bytes"},
    "RidgeProbe": {"device", "seed"},
    "SegmentationProbe": {"grid", "n_classes", "memory_bytes", "device", "seed"},
    "DepthProbe": {"grid", "memory_bytes", "device", "seed"},
}
LATER = {"LogisticProbe": {"preparations": ("as they are",), "folds": 0}}  # what older protocols leave as it is
REFITTED = ("AttentiveProbe", "LogisticProbe")
DIGESTS = {
    "zoo-logistic-2": "23444ba63dc396103aa50f7f3b8a7325",
    "zoo-logistic-3": "0642bfaee024cd270ffd5b0b96b0296b",
    "zoo-streamed-2": "1273befc6526e8621e8aaaab40da816b",
    "zoo-attentive-2": "62874f9478447a35c84158b2f8ac70ab",
    "zoo-nearest-neighbours-1": "26014ea60f1a55d607c5152cd6424f03",
    "zoo-logistic-multilabel-1": "37fa9b36dec69ffb24838415dcc710a2",
    "zoo-ridge-1": "f078d2311a42c9edb7cdcb0fd33f5845",
    "zoo-segment-2": "853ea8c7c1a80ea5d697af6dde9120b9",
    "zoo-depth-2": "03e839ec6de652d161dbf8bf3aae2485",
    "zoo-risk-logistic-2": "fb74e8aa61a3de815ba487c4e7030b16",
    "zoo-risk-logistic-3": "7df0cb67986434ec51f1c6968682f99a",
    "zoo-risk-attentive-2": "300d109919fc5a81d72ecd29289c978a",
    "zoo-risk-streamed-2": "b6187d8560a3a1b57346443c35bbef90",
}


@for_each(PROTOCOLS)
def test_a_protocol_never_changes(name: str) -> None:
    assert PROTOCOLS[name].digest == DIGESTS[name], (
        f"{name} means something else than it did, and rows with that name exist: put it back, and add the changed "
        f"settings to PROTOCOLS under the next number."
    )


def test_every_protocol_is_pinned_and_none_was_taken_out() -> None:
    assert PROTOCOLS.keys() == DIGESTS.keys()
    assert len(set(DIGESTS.values())) == len(DIGESTS)


@for_each(PROTOCOLS.values(), name=lambda protocol: protocol.name)
def test_a_protocol_settles_every_option_of_its_probe_that_may_move_the_number(protocol: Protocol) -> None:
    options = inspect.signature(PROBES[protocol.probe]).parameters.keys()
    silent = options - LEAVE_THE_NUMBER[protocol.probe] - protocol.settings.keys()
    later = LATER.get(protocol.probe, {})
    assert options >= LEAVE_THE_NUMBER[protocol.probe]
    if silent or protocol.settings:  # else the probe has no option that moves the number
        of_data = {"grid": None, "n_classes": 2} if PROBES[protocol.probe] in ON_MAPS else {}
        given = {name: one for name, one in of_data.items() if name in options}
        made = PROBES[protocol.probe](**given, **protocol.settings)
        assert {name: made.get_params()[name] for name in silent} == {name: later[name] for name in silent}
        assert {name: made.get_params()[name] for name in protocol.settings} == dict(protocol.settings)


@for_each(PROTOCOLS.values(), name=lambda protocol: protocol.name)
def test_its_rules_are_those_of_the_code_that_measures(protocol: Protocol) -> None:
    rules = protocol.rules
    assert rules.get("held_out_share") == (measuring.TUNING_SHARE if protocol.probe in REFITTED else None)
    if protocol.name == multilabel.PROTOCOL:
        assert (rules["fewest_images"], rules["n_bootstrap"]) == (multilabel.FEWEST, classification.N_DRAWS)
    else:
        assert (rules.get("n_seeds", measuring.N_SEEDS), rules["n_bootstrap"]) == (measuring.N_SEEDS, bootstrap.N_DRAWS)
    assert rules.get("fewest_tuning", measuring.FEWEST_TUNING) == measuring.FEWEST_TUNING
    assert ("fewest_tuning" in rules) == bool(protocol.settings.get("folds"))
    assert rules.get("n_subsets", risk.N_SUBSETS) == risk.N_SUBSETS
    assert rules.get("order", "standard") == risk.ORDERS[0]
    assert not rules.keys() & protocol.settings.keys()


@for_each(
    [
        ("zoo-logistic-2", {}, "zoo-logistic-2"),
        ("zoo-logistic-2", {"select": "error"}, "zoo-logistic-2"),
        ("zoo-logistic-2", {"select": "log_loss"}, "zoo-logistic-2 (select=log_loss)"),
        ("zoo-logistic-2", {"select": "log_loss", "n_seeds": 7}, "zoo-logistic-2 (n_seeds=7, select=log_loss)"),
        ("zoo-risk-logistic-2", {"order": "alternative"}, "zoo-risk-logistic-2 (order=alternative)"),
        ("zoo-nearest-neighbours-1", {"k": [10, 20, 100, 200]}, "zoo-nearest-neighbours-1"),
        ("zoo-nearest-neighbours-1", {"k": 20}, "zoo-nearest-neighbours-1 (k=20)"),
        ("zoo-streamed-2", {"learning_rate_per_256": (0.001, 1)}, "zoo-streamed-2"),
    ],
    arguments=3,
)
def test_the_name_tells_the_options_of_a_user(base: str, changed: dict[str, Any], name: str) -> None:
    found = build_protocol(base, **changed)
    assert found.name == name
    options = {**found.rules, **found.settings}
    assert all(
        options[option] in (value, tuple(value) if isinstance(value, list) else value)
        for option, value in changed.items()
    )
    assert (found.digest == PROTOCOLS[base].digest) == (found.name == base)


def test_other_options_have_other_names() -> None:
    values: list[object] = [
        None,
        "null",
        True,
        "true",
        1,
        "1",
        0.5,
        [1],
        ["1"],
        [1, 1],
        list(range(50)),
        list(range(51)),
    ]
    names = {build_protocol("zoo-logistic-2", Cs=value).name for value in values}
    assert len(names) == len(values)
    assert max(map(len, names)) < 80


def test_what_is_no_protocol_no_option_or_no_value_is_refused() -> None:
    with pytest.raises(UnknownName, match=r"'zoo-logistic'; did you mean zoo-logistic-"):
        build_protocol("zoo-logistic")
    with pytest.raises(
        QueryError, match=r"'zoo-nearest-neighbours-1' has no option 'q', expected one of .*k, .*temperat"
    ):
        build_protocol("zoo-nearest-neighbours-1", q=1)
    for value in (math.nan, object()):
        with pytest.raises(QueryError, match=r"An option of a protocol is .*, expected a text, a finite number"):
            build_protocol("zoo-nearest-neighbours-1", temperature=value)


def test_the_readme_of_the_results_has_the_table(repository: Path) -> None:
    table = format_protocols_table()
    readme = (repository / "results/README.md").read_text()
    assert f"<!-- protocols:begin -->\n{table}\n{format_protocol_row()}\n" in readme
    assert len(table.splitlines()) == len(PROTOCOLS) + 2
