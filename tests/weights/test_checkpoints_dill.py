"""BYOL's checkpoints: dill of named tuples of Haiku's mappings of arrays, read without any of those libraries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.weights.malice import DICT, FALSE, NONE, TRUE, call, group, listed, name, number, raw, text, whole
from tests.weights.malice_good import DILL_FUNCTION, dill_files, haiku_arrays, unpacked
from zoo.errors import WeightsRefused
from zoo.weights.checkpoints import read_checkpoint

FIELDS = ["online_params", "target_params", "online_state", "target_state", "opt_state"]
FILES = dill_files()


def read(tmp_path: Path, data: bytes) -> Any:
    path = tmp_path / "pretrain_res50x1.pkl"
    path.write_bytes(data)
    return read_checkpoint(path, what="'byol_rn50'").content


@pytest.mark.parametrize("label", FILES)
def test_a_checkpoint_of_byol_comes_out_as_dictionaries_of_tensors(tmp_path: Path, label: str) -> None:
    content = read(tmp_path, FILES[label])
    state = content["experiment_state"]
    assert list(content) == ["experiment_state", "step", "rng"]
    assert type(state) is dict
    assert list(state) == FIELDS
    for part in ("online_params", "target_params"):
        assert list(state[part]) == ["res_net50/~/initial_conv"]
        for key in ("w", "v"):
            found, expected = state[part]["res_net50/~/initial_conv"][key], haiku_arrays()[key]
            assert found.dtype == torch.float32
            assert torch.equal(found, expected)
    for part in ("online_state", "target_state"):
        statistics = state[part]["res_net50/~/initial_batchnorm/~/mean_ema"]
        assert torch.equal(statistics["average"], haiku_arrays()["average"])
        assert (int(statistics["counter"]), statistics["counter"].dtype) == (7, torch.int32)
    assert state["opt_state"][1]["mu"].keys() == state["online_params"].keys()


def test_the_random_key_comes_out_as_a_tensor_whether_numpy_or_jax_held_it(tmp_path: Path) -> None:
    for label in ("dill of 2021", "dill of 2021 with an array of JAX"):
        rng = read(tmp_path, FILES[label])["rng"]
        assert (rng.dtype, rng.tolist()) == (torch.uint32, [1, 2])


@pytest.mark.parametrize(
    "function",
    [
        "jax._src.array _reconstruct_array",
        "jax._src.device_array reconstruct_device_array",
        "jax.interpreters.xla _reconstruct_device_array",
        "dill._dill _create_array",
    ],
)
def test_arrays_of_every_writer_are_rebuilt(tmp_path: Path, function: str) -> None:
    made = name("numpy.core.multiarray _reconstruct")
    start = group(name("numpy ndarray"), group(number(0)), raw(b"b"))
    dtype = call("numpy dtype", text("i2"), FALSE, TRUE)
    state = group(number(1), group(number(2)), dtype, FALSE, raw(b"\1\0\2\0"))
    found = read(tmp_path, whole(call(function, made, start, state, NONE)))
    assert (found.dtype, found.tolist()) == (torch.int16, [1, 2])


def test_an_array_that_is_used_twice_is_one_tensor(tmp_path: Path) -> None:
    made = call("numpy._core.multiarray _reconstruct", name("numpy ndarray"), group(number(0)), raw(b"b"))
    dtype = call("numpy dtype", text("f4"), FALSE, TRUE) + group(number(3), text("<"), NONE) + b"b"
    filled = made + b"q\7" + group(number(1), group(number(1)), dtype, FALSE, raw(bytes(4))) + b"b"
    first, second = read(tmp_path, whole(listed(filled, b"h\7")))
    assert first is second
    assert torch.equal(first, torch.zeros(1))


def test_arrays_of_protocol_5_are_read_in_both_orders(tmp_path: Path) -> None:
    dtype = call("numpy dtype", text("u1"), FALSE, TRUE)
    for order, expected in (("C", [[0, 1, 2], [3, 4, 5]]), ("F", [[0, 2, 4], [1, 3, 5]])):
        shape = group(number(2), number(3))
        body = call("numpy._core.numeric _frombuffer", raw(bytes(range(6))), dtype, shape, text(order))
        assert read(tmp_path, whole(body)).tolist() == expected


@pytest.mark.parametrize("kind", ["FlatMapping", "FlatMap", "frozendict"])
def test_mappings_of_every_version_of_haiku_are_dictionaries(tmp_path: Path, kind: str) -> None:
    body = call(f"haiku._src.data_structures {kind}", DICT + text("a") + number(1) + b"s")
    assert read(tmp_path, whole(body)) == {"a": 1}


def test_a_function_in_a_file_of_dill_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(
        WeightsRefused, match=r"asks for 'dill\._dill\._create_function', which no known kind of checkpoint needs"
    ):
        read(tmp_path, unpacked(DILL_FUNCTION))


def test_dill_imports_no_module_but_those_of_known_names(tmp_path: Path) -> None:
    steps = "dill._dill _get_attr", "dill._dill _import_module"
    module = call(steps[1], text("numpy.core._multiarray_umath"))
    scalar = call(steps[0], module, text("scalar"))
    dtype = call("numpy dtype", text("f8"), FALSE, TRUE)
    assert read(tmp_path, whole(call(scalar, dtype, raw(bytes(8))))) == 0.0
    with pytest.raises(WeightsRefused, match=r"asks for 'numpy\.core\._multiarray_umath\.set_string_function'"):
        read(tmp_path, whole(call(steps[0], module, text("set_string_function"))))
    with pytest.raises(WeightsRefused, match="asks for the module 'os'"):
        read(tmp_path, whole(call(steps[0], call(steps[1], text("os")), text("system"))))
