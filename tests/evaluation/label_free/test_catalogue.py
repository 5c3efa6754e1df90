"""The table of contents of metrics of features: every entry is a function that does what the table says."""

from __future__ import annotations

import inspect
import re
from typing import Any

import numpy as np
import pytest

from tests.each import for_each
from zoo.errors import DataError, QueryError, UnknownName, ZooError
from zoo.evaluation import label_free, transferability
from zoo.evaluation.label_free.catalogue import (
    OPTIONS,
    PROTOCOLS,
    compute,
    find_metric_function,
    format_protocol_row,
    hash_metric,
)
from zoo.evaluation.label_free.measuring import ARGUMENTS, check_options
from zoo.results.vocabulary import (
    FEATURE_METRICS,
    LABEL_FREE_METRICS,
    METRICS,
    NEEDS,
    TRANSFERABILITY_SCORES,
    FeatureMetric,
    find_feature_metric,
)

LEFT_OPEN = {"device", "seed"}  # options that do not move the number, and the seed, which is a column
DIGESTS = {
    "rankme": "1704e3f1095d7a6e89e9edb7dc464c06",
    "feature_rank": "1704e3f1095d7a6e89e9edb7dc464c06",
    "correlation_rank": "de3a57923f50b76f3d4fa321aecffbb7",
    "alpha_req": "b59293f55a7ed91d9d735c8b2a7e59f2",
    "lidar": "5d5f665dff2d47480b5bd730375420e6",
    "rankme_augmented": "4ff14b0053ecddecbf81f7abdcbee89d",
    "alignment": "4febfc352e3a2a2db24f72f361bbd772",
    "uniformity": "9840628845759c49e35dc04c3cfbe9d5",
    "contrast": "f25680ac344b7dc213067fd1dc83a1fa",
    "intrinsic_dimension": "0b304969fb2dd18047fbe2a759ecfe07",
    "cluster_learnability": "d34365082cd67215b7fdb5c25554d3ff",
    "coding_rate_reduction": "7cd048a9d28e1759b08ee5a46fb88938",
    "mutual_information": "6eecd29557870226c6634b3a3473240f",
    "rotation_accuracy": "1c8c8033e3cd618d4953115722e4717c",
    "source_label_entropy": "674a7680663c601c7e4f51a235e204b1",
    "target_label_entropy": "674a7680663c601c7e4f51a235e204b1",
    "one_shot_accuracy": "c73ca93f7ce44b60139a59a990e88ae0",
    "local_dimension_entropy": "664e324b021e4c01de551f166ee0d320",
    "neural_collapse": "b1b8305268850fe3b050d2611510e90a",
    "nesum": "e3d9622e6e29f851146f89c3a69addb3",
    "stable_rank": "e3d9622e6e29f851146f89c3a69addb3",
    "matrix_entropy": "f8e5b65744e1ce0d738f9979aa62f069",
    "idest": "12d892036a01a519a5d2026043bf5cb0",
    "logme": "9e4658d400e3be99a1e174c14c4d48a3",
    "h_score": "947da81c9f91f41d760a17e58a75b876",
    "gbc": "cef8d976468225c7c309e999c4c0234f",
    "nleep": "efe96809ab60a5519e5ad13770336374",
    "transrate": "5d45d3424542cdf49c9311fb1567fc6e",
    "leave_one_out_ridge": "386eb4e41363da69b00693dbef71deda",
    "leave_one_out_neighbours": "fbf91a456c67ed51dfc5ce5df9403962",
}


def keywords(name: str) -> dict[str, Any]:
    parameters = inspect.signature(find_metric_function(name)).parameters.values()
    return {one.name: one.default for one in parameters if one.kind is inspect.Parameter.KEYWORD_ONLY}


def drawn(needs: str, n: int = 300) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    labels, other = np.arange(n) % 3, np.arange(n // 2) % 3
    z = rng.normal(size=(n, 6)) + labels[:, None]
    z_val = rng.normal(size=(n // 2, 6)) + other[:, None]
    views = z[:, None] + 0.3 * rng.normal(size=(n, 4, 6))
    views_val = z_val[:, None] + 0.3 * rng.normal(size=(n // 2, 4, 6))
    images = rng.normal(size=(n, 1, 2, 2)).astype(np.float32)
    found = {
        "features": {"z": z},
        "views": {"z": views},
        "rotations": {"z": views, "z_val": views_val},
        "labels": {"z": z, "y": labels},
        "labelled": {"z": z, "y": labels, "z_val": z_val, "y_val": other},
        "source and target": {"z": z, "y": labels, "z_target": z_val},
        "pixels": {"images": images, "z": z, "images_val": images, "z_val": z},
    }
    return found[needs]


def quick(name: str) -> dict[str, Any]:
    return {"n_steps": 5} if name == "mutual_information" else {}


@for_each(FEATURE_METRICS.values(), name=lambda one: one.name)
def test_every_metric_gives_the_same_finite_number_twice_and_refuses_bad_input(one: FeatureMetric) -> None:
    arguments, options = drawn(one.needs), quick(one.name)
    assert tuple(arguments) == ARGUMENTS[one.needs]
    found = compute(one.name, **arguments, **options)
    assert np.isfinite(found.value)
    assert compute(one.name, **arguments, **options).value == pytest.approx(found.value, rel=1e-9)
    z = arguments["z"].copy()
    z.reshape(len(z), -1)[7, 0] = np.nan
    with pytest.raises(DataError, match=r"NaN|infinit|finite"):
        compute(one.name, **(arguments | {"z": z}), **options)
    with pytest.raises((DataError, QueryError)):
        compute(one.name, **{name: value[:1] for name, value in arguments.items()}, **options)
    constant = {name: np.ones_like(value) if name.startswith("z") else value for name, value in arguments.items()}
    with pytest.raises(DataError):
        compute(one.name, **constant, **options)


@for_each(FEATURE_METRICS.values(), name=lambda one: one.name)
def test_the_table_agrees_with_the_function_and_its_docstring(one: FeatureMetric) -> None:
    parameters = inspect.signature(find_metric_function(one.name)).parameters
    text = inspect.getdoc(find_metric_function(one.name)) or ""
    for part in ("shape", "Source: ", ">>>"):
        assert part in text, part
    assert re.search("higher|lower|neither|direction", text.casefold())
    assert one.seeded == ("seed" in parameters) and one.grouped == ("groups" in parameters)
    assert one.needs in NEEDS and METRICS[one.name].unit == one.unit
    defaults = {option: value for option, value in keywords(one.name).items() if option not in LEFT_OPEN}
    assert defaults == dict(OPTIONS[one.name])
    package = {"label-free": label_free, "transferability": transferability}[one.kind]
    assert getattr(package, one.name) is find_metric_function(one.name)
    assert (one.kind == "transferability") == (one.needs == "labels") == (one.name in TRANSFERABILITY_SCORES)
    assert (one.kind == "label-free") == (one.name in LABEL_FREE_METRICS)


@for_each(FEATURE_METRICS.values(), name=lambda one: one.name)
def test_an_option_of_another_kind_is_refused_or_taken(one: FeatureMetric) -> None:
    for option in OPTIONS[one.name]:
        for bad in ("a", float("nan"), -1, [1], True, 1.5):
            options = quick(one.name) | {option: bad}
            try:
                check_options([one.name], {one.name: options})
                compute(one.name, **drawn(one.needs), **options)
            except ZooError as refused:
                assert "\n" not in str(refused)


@for_each(FEATURE_METRICS)
def test_the_protocol_never_changes(name: str) -> None:
    assert hash_metric(name) == DIGESTS[name], (
        f"{PROTOCOLS[FEATURE_METRICS[name].kind]} means something else than it did for {name}, and rows with that name "
        "exist: put it back, and give the changed options a protocol of their own."
    )


def test_names_protocols_and_records() -> None:
    for kind, protocol in PROTOCOLS.items():
        assert format_protocol_row(kind).startswith(f"| `{protocol}` |")
    with pytest.raises(UnknownName, match="rankme"):
        find_feature_metric("rank_me")
    found = compute("intrinsic_dimension", z=drawn("features")["z"])
    assert found.details["n"] == 300 and "value" not in found.details and found.notes == ()
