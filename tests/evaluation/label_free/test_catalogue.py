"""The table of contents of label-free metrics: every entry is a function that does what the table says."""

from __future__ import annotations

import inspect
import re
from typing import Any

import numpy as np
import pytest

from zoo.errors import DataError, QueryError, UnknownName
from zoo.evaluation import label_free
from zoo.evaluation.label_free.catalogue import OPTIONS, PROTOCOL, compute, digest, function_of, protocol_row, value_of
from zoo.evaluation.label_free.inputs import ARGUMENTS
from zoo.results.vocabulary import LABEL_FREE_METRICS, METRICS, NEEDS, LabelFreeMetric, label_free_metric

LEFT_OPEN = {"device", "progress", "seed"}  # options that do not move the number, and the seed, which is a column
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
}


def keywords(name: str) -> dict[str, Any]:
    parameters = inspect.signature(function_of(name)).parameters.values()
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
        "labelled": {"z": z, "y": labels, "z_val": z_val, "y_val": other},
        "source and target": {"z": z, "y": labels, "z_target": z_val},
        "pixels": {"images": images, "z": z, "images_val": images, "z_val": z},
    }
    return found[needs]


def quick(name: str) -> dict[str, Any]:
    return {"n_steps": 5} if name == "mutual_information" else {}


@pytest.mark.parametrize("one", LABEL_FREE_METRICS.values(), ids=LABEL_FREE_METRICS)
def test_every_metric_gives_a_finite_number_and_the_same_twice(one: LabelFreeMetric) -> None:
    arguments = drawn(one.needs)
    assert tuple(arguments) == ARGUMENTS[one.needs]
    found = compute(one.name, **arguments, **quick(one.name))
    assert np.isfinite(found.value)
    assert compute(one.name, **arguments, **quick(one.name)).value == pytest.approx(found.value, rel=1e-9)


@pytest.mark.parametrize("one", LABEL_FREE_METRICS.values(), ids=LABEL_FREE_METRICS)
def test_every_docstring_tells_shapes_direction_errors_source_and_an_example(one: LabelFreeMetric) -> None:
    text = inspect.getdoc(function_of(one.name)) or ""
    for part in ("Parameters\n", "Returns\n", "Raises\n", "References\n", "Examples\n", "shape", ">>>"):
        assert part in text, part
    assert re.search("higher|lower|neither|direction", text.casefold())


@pytest.mark.parametrize("one", LABEL_FREE_METRICS.values(), ids=LABEL_FREE_METRICS)
def test_a_number_that_is_not_finite_is_refused_in_one_sentence(one: LabelFreeMetric) -> None:
    arguments = drawn(one.needs)
    z = arguments["z"].copy()
    z.reshape(len(z), -1)[7, 0] = np.nan
    with pytest.raises(DataError) as refusal:
        compute(one.name, **(arguments | {"z": z}), **quick(one.name))
    assert re.search("NaN|infinit|finite", str(refusal.value)) and "\n" not in str(refusal.value)


@pytest.mark.parametrize("one", LABEL_FREE_METRICS.values(), ids=LABEL_FREE_METRICS)
def test_too_few_images_are_refused_and_constant_features_never_give_nan(one: LabelFreeMetric) -> None:
    arguments = drawn(one.needs)
    first = {name: value[:1] for name, value in arguments.items()}
    with pytest.raises((DataError, QueryError)):
        compute(one.name, **first, **quick(one.name))
    constant = {name: np.ones_like(value) if name.startswith("z") else value for name, value in arguments.items()}
    try:
        value = compute(one.name, **constant, **quick(one.name)).value
    except DataError as refusal:
        assert "\n" not in str(refusal) and str(refusal).endswith(".")
    else:
        assert np.isfinite(value)


@pytest.mark.parametrize("one", LABEL_FREE_METRICS.values(), ids=LABEL_FREE_METRICS)
def test_the_table_agrees_with_the_function_and_the_vocabulary(one: LabelFreeMetric) -> None:
    assert one.needs in NEEDS
    assert one.seeded == ("seed" in inspect.signature(function_of(one.name)).parameters)
    assert METRICS[one.name].unit == one.unit


def test_the_protocol_settles_every_option_that_moves_a_number() -> None:
    for name in LABEL_FREE_METRICS:
        defaults = {option: value for option, value in keywords(name).items() if option not in LEFT_OPEN}
        assert defaults == dict(OPTIONS[name]), name
    assert OPTIONS.keys() == LABEL_FREE_METRICS.keys()


@pytest.mark.parametrize("name", LABEL_FREE_METRICS)
def test_the_protocol_never_changes(name: str) -> None:
    assert digest(name) == DIGESTS[name], (
        f"{PROTOCOL} means something else than it did for {name}, and rows with that name exist: put it back, and give "
        "the changed options a protocol of their own."
    )


def test_the_protocol_has_a_line_for_the_documentation() -> None:
    assert protocol_row().startswith(f"| `{PROTOCOL}` |")


def test_the_package_exports_the_function_of_every_metric() -> None:
    lacking = [name for name in LABEL_FREE_METRICS if function_of(name) is not getattr(label_free, name, None)]
    assert not lacking, lacking


def test_an_unknown_metric_lists_the_nearest() -> None:
    with pytest.raises(UnknownName, match="rankme"):
        label_free_metric("rank_me")


def test_a_record_is_a_value_with_details() -> None:
    found = compute("intrinsic_dimension", z=drawn("features")["z"])
    assert found.details["n"] == 300 and "value" not in found.details
    assert value_of(2).value == 2.0
