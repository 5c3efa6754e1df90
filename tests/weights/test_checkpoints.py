"""Good files of every kind come out bit for bit, in plain containers, whatever library and version wrote them."""

from __future__ import annotations

import argparse
import gc
import io
import pathlib
import struct
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.weights.malice import DICT, FALSE, LIST, NONE, TRUE, call, group, legacy, listed, name, number, text, whole
from tests.weights.malice_bombs import tensor
from tests.weights.malice_files import NUMBERS, archive, torch_zip
from tests.weights.malice_good import good_files, npz_arrays, saved, scripted, training
from zoo.errors import StoreError
from zoo.weights.checkpoints import read_checkpoint
from zoo.weights.pickles import Inert

Read = Callable[[bytes], Any]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def from_bytes(data: bytes) -> Any:
        path = tmp_path / "checkpoint"
        path.write_bytes(data)
        content = read_checkpoint(path, what="'encoder'").content
        path.unlink()  # what was mapped must outlive the name
        return content

    return from_bytes


@pytest.mark.parametrize("label", ["npz", "npz, compressed"])
def test_arrays_equal_those_that_numpy_reads_itself(read: Read, label: str) -> None:
    data = good_files()[label]
    with np.load(io.BytesIO(data), allow_pickle=False) as archive:
        assert_same(read(data), {name: np.array(archive[name]) for name in archive.files})
    assert_same(read(data), npz_arrays())


def assert_same(found: Any, expected: Any) -> None:
    """Holds what was read against what was saved."""
    if isinstance(expected, np.ndarray):
        expected = torch.from_numpy(expected.copy())
    if isinstance(expected, Tensor):
        assert type(found) is Tensor
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        assert not found.requires_grad
        raw = [values.detach().contiguous().flatten().view(torch.uint8) for values in (found, expected)]
        assert torch.equal(*raw)
    elif isinstance(expected, dict):
        assert type(found) is dict
        assert list(found) == list(expected)
        for key in expected:
            assert_same(found[key], expected[key])
    elif isinstance(expected, argparse.Namespace):
        assert type(found) is Inert
        assert found.name == "argparse.Namespace"
        assert_same(found.attributes, vars(expected))
    elif isinstance(expected, torch.device | torch.dtype | pathlib.PurePath):
        assert type(found).__mro__[-2] is Inert
        assert found.name.rpartition(".")[2] in (str(expected).rpartition(".")[2], type(expected).__name__)
    elif isinstance(expected, list | tuple):
        assert type(found) is (list if type(expected) is list else tuple)
        for item, wanted in zip(found, expected, strict=True):
            assert_same(item, wanted)
    else:
        plain = expected.item() if isinstance(expected, np.generic) else expected
        assert (type(found), found) == (type(plain), plain)


@pytest.mark.parametrize("is_zip", [True, False], ids=["zip", "before 1.6"])
@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_a_training_checkpoint_of_torch_comes_out_bit_for_bit(read: Read, protocol: int, is_zip: bool) -> None:
    assert_same(read(saved(training(), protocol=protocol, is_zip=is_zip)), training())


@pytest.mark.parametrize("is_zip", [True, False], ids=["zip", "before 1.6"])
def test_tensors_equal_those_that_torch_reads_itself(read: Read, tmp_path: Path, is_zip: bool) -> None:
    content = {key: training()[key] for key in ("state_dict", "optimizer", "tensors", "epoch", "pair")}
    del content["tensors"]["uint16"]  # which torch can write into the old format and cannot read from it
    path = tmp_path / "checkpoint.pth"
    path.write_bytes(saved(content, is_zip=is_zip))
    assert_same(read(path.read_bytes()), torch.load(path, weights_only=True))


@pytest.mark.parametrize("traced", [False, True], ids=["scripted", "traced"])
def test_torchscript_comes_out_as_its_state_dict_and_its_code_is_not_run(read: Read, traced: bool) -> None:
    data, expected = scripted(traced=traced)
    found = read(data)
    assert found.keys() == expected.keys()
    assert_same({key: found[key] for key in expected}, expected)


def test_safetensors_come_out_without_their_metadata(read: Read) -> None:
    expected = {"a": torch.ones(2, 3), "b": torch.zeros(4, dtype=torch.float16)}
    assert_same(read(good_files()["safetensors"]), expected)


@pytest.mark.parametrize("suffix", [".pth", ".safetensors", ".pkl", ".pth.tar", ""])
def test_the_kind_of_a_file_is_in_its_bytes_not_in_its_name(tmp_path: Path, suffix: str) -> None:
    kinds = {"torch": "torch pickle", "scripted": "torchscript", "traced": "torchscript", "dill": "dill pickle"}
    for label, data in good_files().items():
        path = tmp_path / f"file{suffix}"
        path.write_bytes(data)
        first = label.split()[0].rstrip(",")
        assert read_checkpoint(path, what="'encoder'").format == kinds.get(first, first)


def test_tensors_of_a_zip_archive_are_mapped_and_the_map_goes_with_them(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.pth"
    path.write_bytes(saved({"a": torch.zeros(100_000)}))
    content = read_checkpoint(path, what="'encoder'").content
    content["a"] += 1  # private: the file must not change
    assert str(path) in Path("/proc/self/maps").read_text()
    assert_same(read_checkpoint(path, what="'encoder'").content, {"a": torch.zeros(100_000)})
    del content
    gc.collect()
    assert str(path) not in Path("/proc/self/maps").read_text()


def test_no_file_stays_open_when_its_content_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    before = len(list(Path("/proc/self/fd").iterdir()))
    for data in good_files().values():
        path.write_bytes(data)
        read_checkpoint(path, what="'encoder'")
    gc.collect()
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_threads_read_at_once_and_leave_torchs_own_list_of_names_alone(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.pth"
    path.write_bytes(saved(training()))
    allowed = torch.serialization.get_safe_globals()
    failed: list[AssertionError] = []

    def work() -> None:
        try:
            for _ in range(5):
                assert_same(read_checkpoint(path, what="'encoder'").content, training())
        except AssertionError as error:
            failed.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failed
    assert torch.serialization.get_safe_globals() == allowed


def test_storages_that_are_not_aligned_are_read_as_well(read: Read) -> None:
    content = whole(tensor(0, (4,), (1,)))
    for length in range(8):
        members = {"a/data.pkl": content, "a/x": bytes(length), "a/data/0": NUMBERS}
        assert_same(read(archive(members, alignment=1)), torch.tensor([1.0, 2.0, 3.0, 4.0]))


def test_a_directory_for_large_archives_is_read(read: Read) -> None:
    content = whole(tensor(0, (2, 2), (2, 1)))
    found = read(archive({"a/data.pkl": content, "a/data/0": NUMBERS}, is_64=True))
    assert_same(found, torch.tensor([[1.0, 2.0], [3.0, 4.0]]))


def test_two_tensors_on_one_storage_are_views_of_it(read: Read) -> None:
    whole_tensor = torch.arange(10.0)
    found = read(saved({"a": whole_tensor, "b": whole_tensor[3:5]}))
    assert found["b"].data_ptr() == found["a"][3:].data_ptr()


def test_strings_of_python_2_are_texts_with_a_character_a_byte_and_pairs_are_read(read: Read) -> None:
    pairs = listed(LIST + b"(U\1a" + number(1) + b"e")
    content = DICT + b"U\1m" + call("collections OrderedDict", pairs) + b"sT\4\0\0\0data" + b"U\2\xff\xfes"
    assert read(legacy(whole(content, protocol=2))) == {"m": {"a": 1}, "data": "\xff\xfe"}


def test_configurations_that_hold_themselves_become_inert(read: Read) -> None:
    config = name("omegaconf.dictconfig DictConfig") + b")\x81q\1" + DICT
    node = (
        name("omegaconf.nodes AnyNode") + b")\x81" + DICT + text("_parent") + b"h\1s" + text("_val") + number(3) + b"sb"
    )
    metadata = (
        name("omegaconf.base ContainerMetadata") + b")\x81" + DICT + text("object_type") + name("typing Any") + b"sb"
    )
    body = config + text("_content") + DICT + text("lr") + node + b"ss" + text("_metadata") + metadata + b"sb"
    found = read(torch_zip(whole(DICT + text("config") + body + b"s")))["config"]
    assert repr(found) == "<inert 'omegaconf.dictconfig.DictConfig'>"
    assert found.attributes["_content"]["lr"].attributes["_val"] == 3
    assert found.attributes["_content"]["lr"].attributes["_parent"] is found
    assert found.attributes["_metadata"].attributes["object_type"].name == "typing.Any"


def test_what_optimizers_and_callbacks_name_becomes_inert(read: Read) -> None:
    method = call("__builtin__ getattr", name("vissl.optimizers.lars _LARS"), text("_exclude_bias_and_norm"))
    body = DICT + text("exclude") + method + b"s" + text("filter") + name("__main__ exclude_bias_and_norm") + b"s"
    body += name("pytorch_lightning.callbacks.model_checkpoint ModelCheckpoint") + DICT + b"s"
    body += text("when") + call("datetime timedelta", number(1)) + b"s"
    found = read(torch_zip(whole(body, protocol=2)))
    assert repr(found.pop("exclude")) == "<inert 'vissl.optimizers.lars._LARS._exclude_bias_and_norm'>"
    assert repr(found.pop("filter")) == "<inert '__main__.exclude_bias_and_norm'>"
    assert found.pop("when").arguments == (1,)
    assert [repr(key) for key in found] == ["<inert 'pytorch_lightning.callbacks.model_checkpoint.ModelCheckpoint'>"]


@pytest.mark.parametrize("kind", ["vissl.utils.hydra_config AttrDict", "easydict EasyDict", "collections Counter"])
def test_dictionaries_with_attributes_are_dictionaries(read: Read, kind: str) -> None:
    body = name(kind) + b")\x81(" + text("A") + number(1) + b"u" + DICT + text("A") + number(2) + b"sb"
    assert read(torch_zip(whole(body))) == {"A": 1}


def test_states_of_classes_with_slots_are_kept(read: Read) -> None:
    space = name("types SimpleNamespace") + b")\x81"
    found = read(whole(space + group(NONE, DICT + text("a") + TRUE + b"s") + b"b"))
    assert found.attributes == {"a": True}
    assert read(whole(space + listed(FALSE) + b"b")).state == [False]


def test_a_file_that_cannot_be_read_is_an_error_of_the_store(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"The weights of 'encoder' cannot be read from .*absent"):
        read_checkpoint(tmp_path / "absent", what="'encoder'")
    with pytest.raises(StoreError, match="not a file"):
        read_checkpoint(tmp_path, what="'encoder'")


def test_a_storage_of_more_bytes_than_its_elements_is_read(read: Read) -> None:
    content = whole(tensor(0, (2,), (1,)))
    found = read(archive({"a/data.pkl": content, "a/data/0": NUMBERS + struct.pack("<f", 5)}))
    assert_same(found, torch.tensor([1.0, 2.0]))
