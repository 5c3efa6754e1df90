"""Good files of every kind come out bit for bit; others are refused in one sentence, and nothing in them happens."""

from __future__ import annotations

import argparse
import gc
import io
import os
import pathlib
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.conftest import REPOSITORY
from tests.weights.malice import (
    DICT,
    FALSE,
    LIST,
    NONE,
    TRUE,
    armed,
    call,
    group,
    legacy,
    listed,
    name,
    number,
    raw,
    text,
    whole,
)
from tests.weights.malice_bombs import tensor
from tests.weights.malice_files import NUMBERS, archive, malicious_files, torch_zip
from tests.weights.malice_good import (
    DILL_FUNCTION,
    dill_files,
    good_files,
    haiku_arrays,
    npz_arrays,
    saved,
    scripted,
    training,
    unpacked,
)
from zoo.errors import StoreError, WeightsRefused
from zoo.weights.checkpoints import read_checkpoint
from zoo.weights.pickles import InertObject

Read = Callable[[bytes], Any]
STRESS = REPOSITORY / "tests" / "stress" / "malicious_files.py"
TEETH = """
import pickle, sys, warnings
from pathlib import Path
import numpy, torch
from tests.stress.malicious_files import Guard
from tests.weights.malice import armed
warnings.simplefilter("ignore")
canary, guard = Path(sys.argv[1]), Guard()

def unpickled(data):
    try:
        pickle.loads(data)
    except (TypeError, AttributeError, ValueError, IndexError, KeyError, OSError, pickle.UnpicklingError):
        pass
    return canary.exists()

harmless = [name for name, data in armed(canary).items() if not unpickled(data) or canary.unlink()]
sys.addaudithook(guard)
guard.is_reading = True
unseen = [name for name, data in armed(canary).items() if unpickled(data) or not guard.harm or guard.harm.clear()]
guard.is_reading = False
print(len(armed(canary)), harmless, unseen)
"""


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def from_bytes(data: bytes) -> Any:
        path = tmp_path / "checkpoint"
        path.write_bytes(data)
        content = read_checkpoint(path, what="'encoder'").content
        path.unlink()  # what was mapped must outlive the name
        return content

    return from_bytes


def assert_same(found: Any, expected: Any) -> None:
    """Holds what was read against what was saved."""
    if isinstance(expected, np.ndarray):
        expected = torch.from_numpy(expected.copy())
    if isinstance(expected, Tensor):
        assert type(found) is Tensor
        assert (found.dtype, found.shape, found.requires_grad) == (expected.dtype, expected.shape, False)
        bits = [values.detach().contiguous().flatten().view(torch.uint8) for values in (found, expected)]
        assert torch.equal(*bits)
    elif isinstance(expected, dict):
        assert type(found) is dict
        assert list(found) == list(expected)
        for key in expected:
            assert_same(found[key], expected[key])
    elif isinstance(expected, argparse.Namespace):
        assert type(found) is InertObject
        assert found.name == "argparse.Namespace"
        assert_same(found.attributes, vars(expected))
    elif isinstance(expected, torch.device | torch.dtype | pathlib.PurePath):
        assert isinstance(found, InertObject)
        assert found.name.rpartition(".")[2] in (str(expected).rpartition(".")[2], type(expected).__name__)
    elif isinstance(expected, list | tuple):
        assert type(found) is (list if type(expected) is list else tuple)
        for item, wanted in zip(found, expected, strict=True):
            assert_same(item, wanted)
    else:
        plain = expected.item() if isinstance(expected, np.generic) else expected
        assert (type(found), found) == (type(plain), plain)


class TestGoodFiles:
    @pytest.mark.parametrize("is_zip", [True, False], ids=["zip", "before 1.6"])
    def test_a_training_checkpoint_of_torch_comes_out_bit_for_bit(self, read: Read, is_zip: bool) -> None:
        for protocol in (2, 3, 4, 5):
            assert_same(read(saved(training(), protocol=protocol, is_zip=is_zip)), training())

    @pytest.mark.parametrize("is_zip", [True, False], ids=["zip", "before 1.6"])
    def test_tensors_equal_those_that_torch_reads_itself(self, read: Read, tmp_path: Path, is_zip: bool) -> None:
        content = {key: training()[key] for key in ("state_dict", "optimizer", "tensors", "epoch", "pair")}
        path = tmp_path / "checkpoint.pth"
        path.write_bytes(saved(content, is_zip=is_zip))
        assert_same(read(path.read_bytes()), torch.load(path, weights_only=True))
        twice = read(saved({"a": (whole_tensor := torch.arange(10.0)), "b": whole_tensor[3:5]}, is_zip=is_zip))
        assert twice["b"].data_ptr() == twice["a"][3:].data_ptr()

    def test_torchscript_comes_out_as_its_state_dict_and_its_code_is_not_run(self, read: Read) -> None:
        for traced in (False, True):
            data, expected = scripted(traced=traced)
            found = read(data)
            assert found.keys() == expected.keys()
            assert_same({key: found[key] for key in expected}, expected)

    def test_arrays_and_safetensors_equal_those_of_their_libraries(self, read: Read) -> None:
        for label in ("npz", "npz, compressed"):
            with np.load(io.BytesIO(good_files()[label]), allow_pickle=False) as archive:
                assert_same(read(good_files()[label]), {name: np.array(archive[name]) for name in archive.files})
            assert_same(read(good_files()[label]), npz_arrays())
        expected = {"a": torch.ones(2, 3), "b": torch.zeros(4, dtype=torch.float16)}
        assert_same(read(good_files()["safetensors"]), expected)

    def test_the_kind_of_a_file_is_in_its_bytes_not_in_its_name(self, tmp_path: Path) -> None:
        kinds = {"torch": "torch pickle", "scripted": "torchscript", "traced": "torchscript", "dill": "dill pickle"}
        for suffix in (".pth", ".safetensors"):
            for label, data in good_files().items():
                path = tmp_path / f"file{suffix}"
                path.write_bytes(data)
                first = label.split()[0].rstrip(",")
                assert read_checkpoint(path, what="'encoder'").format == kinds.get(first, first)

    def test_tensors_of_a_zip_archive_are_mapped_and_the_map_goes_with_them(self, tmp_path: Path) -> None:
        path = tmp_path / "checkpoint.pth"
        path.write_bytes(saved({"a": torch.zeros(100_000)}))
        content = read_checkpoint(path, what="'encoder'").content
        content["a"] += 1  # private: the file must not change
        assert str(path) in Path("/proc/self/maps").read_text()
        assert_same(read_checkpoint(path, what="'encoder'").content, {"a": torch.zeros(100_000)})
        gc.disable()  # nothing but the content holds the file
        del content
        gc.enable()
        assert str(path) not in Path("/proc/self/maps").read_text()

    def test_archives_of_other_writers_are_read(self, read: Read) -> None:
        content = whole(tensor(0, (4,), (1,)))
        for length in range(8):  # storages that are not aligned
            members = {"a/data.pkl": content, "a/x": bytes(length), "a/data/0": NUMBERS}
            assert_same(read(archive(members, alignment=1)), torch.tensor([1.0, 2.0, 3.0, 4.0]))
        large = archive({"a/data.pkl": content, "a/data/0": NUMBERS}, is_64=True)
        assert_same(read(large), torch.tensor([1.0, 2.0, 3.0, 4.0]))
        longer = archive({"a/data.pkl": content, "a/data/0": NUMBERS + struct.pack("<f", 5)})
        assert_same(read(longer), torch.tensor([1.0, 2.0, 3.0, 4.0]))

    def test_strings_of_python_2_are_texts_with_a_character_a_byte_and_pairs_are_read(self, read: Read) -> None:
        pairs = listed(LIST + b"(U\1a" + number(1) + b"e")
        content = DICT + b"U\1m" + call("collections OrderedDict", pairs) + b"sT\4\0\0\0data" + b"U\2\xff\xfes"
        assert read(legacy(whole(content, protocol=2))) == {"m": {"a": 1}, "data": "\xff\xfe"}

    def test_configurations_that_hold_themselves_become_inert(self, read: Read) -> None:
        config = name("omegaconf.dictconfig DictConfig") + b")\x81q\1" + DICT
        node = name("omegaconf.nodes AnyNode") + b")\x81" + DICT + text("_parent") + b"h\1s" + text("_val") + number(3)
        body = config + text("_content") + DICT + text("lr") + node + b"sbss" + b"b"
        found = read(torch_zip(whole(DICT + text("config") + body + b"s")))["config"]
        assert repr(found) == "<inert 'omegaconf.dictconfig.DictConfig'>"
        assert found.attributes["_content"]["lr"].attributes["_val"] == 3
        assert found.attributes["_content"]["lr"].attributes["_parent"] is found

    def test_what_optimizers_and_callbacks_name_becomes_inert(self, read: Read) -> None:
        method = call("__builtin__ getattr", name("vissl.optimizers.lars _LARS"), text("_exclude_bias_and_norm"))
        body = DICT + text("exclude") + method + b"s" + text("filter") + name("__main__ exclude_bias_and_norm") + b"s"
        body += name("pytorch_lightning.callbacks.model_checkpoint ModelCheckpoint") + DICT + b"s"
        body += text("when") + call("datetime timedelta", number(1)) + b"s"
        body += text("easy") + name("easydict EasyDict") + b")\x81(" + text("A") + number(1) + b"u"
        body += DICT + text("A") + number(2) + b"sbs"
        body += text("space") + name("types SimpleNamespace") + b")\x81" + group(NONE, DICT + text("a") + TRUE + b"s")
        found = read(torch_zip(whole(body + b"bs", protocol=2)))
        assert repr(found.pop("exclude")) == "<inert 'vissl.optimizers.lars._LARS._exclude_bias_and_norm'>"
        assert repr(found.pop("filter")) == "<inert '__main__.exclude_bias_and_norm'>"
        assert found.pop("when").arguments == (1,)
        assert found.pop("easy") == {"A": 1}
        assert found.pop("space").attributes == {"a": True}
        assert [key.name for key in found] == ["pytorch_lightning.callbacks.model_checkpoint.ModelCheckpoint"]


class TestDill:
    """BYOL's checkpoints: dill of named tuples of Haiku's mappings of arrays, read without any of those libraries."""

    @pytest.mark.parametrize("label", dill_files())
    def test_a_checkpoint_of_byol_comes_out_as_dictionaries_of_tensors(self, read: Read, label: str) -> None:
        content = read(dill_files()[label])
        state = content["experiment_state"]
        assert list(content) == ["experiment_state", "step", "rng"]
        assert list(state) == ["online_params", "target_params", "online_state", "target_state", "opt_state"]
        arrays = haiku_arrays()
        for part in ("online_params", "target_params"):
            assert_same(state[part], {"res_net50/~/initial_conv": {key: arrays[key] for key in ("w", "v")}})
        for part in ("online_state", "target_state"):
            statistics = state[part]["res_net50/~/initial_batchnorm/~/mean_ema"]
            assert_same(
                {key: statistics[key] for key in ("average", "counter")},
                {key: arrays[key] for key in ("average", "counter")},
            )
        assert state["opt_state"][1]["mu"].keys() == state["online_params"].keys()
        if "2021" in label:  # whether NumPy or JAX held it
            assert (content["rng"].dtype, content["rng"].tolist()) == (torch.uint32, [1, 2])

    def test_arrays_of_every_writer_are_rebuilt(self, read: Read) -> None:
        start = group(name("numpy ndarray"), group(number(0)), raw(b"b"))
        state = group(
            number(1), group(number(2)), call("numpy dtype", text("i2"), FALSE, TRUE), FALSE, raw(b"\1\0\2\0")
        )
        for function in (
            "jax._src.array _reconstruct_array",
            "jax._src.device_array reconstruct_device_array",
            "jax.interpreters.xla _reconstruct_device_array",
            "dill._dill _create_array",
        ):
            found = read(whole(call(function, name("numpy.core.multiarray _reconstruct"), start, state, NONE)))
            assert_same(found, torch.tensor([1, 2], dtype=torch.int16))
        made = call("numpy._core.multiarray _reconstruct", name("numpy ndarray"), group(number(0)), raw(b"b"))
        first, second = read(whole(listed(made + b"q\7" + state + b"b", b"h\7")))
        assert first is second

    def test_arrays_of_protocol_5_and_mappings_of_every_version_of_haiku_are_read(self, read: Read) -> None:
        dtype = call("numpy dtype", text("u1"), FALSE, TRUE)
        for order, expected in (("C", [[0, 1, 2], [3, 4, 5]]), ("F", [[0, 2, 4], [1, 3, 5]])):
            shape = group(number(2), number(3))
            body = call("numpy._core.numeric _frombuffer", raw(bytes(range(6))), dtype, shape, text(order))
            assert read(whole(body)).tolist() == expected
        for kind in ("FlatMapping", "FlatMap", "frozendict"):
            assert read(whole(call(f"haiku._src.data_structures {kind}", DICT + text("a") + number(1) + b"s"))) == {
                "a": 1
            }

    def test_dill_imports_no_module_but_those_of_known_names_and_makes_no_function(self, read: Read) -> None:
        steps = "dill._dill _get_attr", "dill._dill _import_module"
        module = call(steps[1], text("numpy.core._multiarray_umath"))
        dtype = call("numpy dtype", text("f8"), FALSE, TRUE)
        assert read(whole(call(call(steps[0], module, text("scalar")), dtype, raw(bytes(8))))) == 0.0
        with pytest.raises(WeightsRefused, match=r"asks for 'numpy\.core\._multiarray_umath\.set_string_function'"):
            read(whole(call(steps[0], module, text("set_string_function"))))
        with pytest.raises(WeightsRefused, match="asks for the module 'os'"):
            read(whole(call(steps[0], call(steps[1], text("os")), text("system"))))
        with pytest.raises(WeightsRefused, match=r"asks for 'dill\._dill\._create_function'"):
            read(unpacked(DILL_FUNCTION))


class TestRefused:
    def test_every_malicious_file_is_refused_in_one_sentence_and_nothing_runs(self, tmp_path: Path) -> None:
        path, canary = tmp_path / "file", tmp_path / "canary"
        n = 0
        for label, data in malicious_files(canary):
            path.write_bytes(data)
            with pytest.raises(WeightsRefused) as refused:
                read_checkpoint(path, what="'encoder' (https://weights.example/file)")
            message = str(refused.value)
            assert message.startswith("The file of 'encoder' (https://weights.example/file) is refused, because it")
            assert message.isprintable(), label
            assert message.count(". ") == 0, label
            assert len(message) < 500, label
            assert not canary.exists(), label
            n += 1
        assert n > 500
        assert sorted(entry.name for entry in tmp_path.iterdir()) == ["file"]

    def test_python_would_run_every_armed_pickle_and_the_guard_of_the_mutations_would_see_it(
        self, tmp_path: Path
    ) -> None:
        canary = tmp_path / "canary"
        result = run("-c", TEETH, str(canary))
        assert result.stdout.split("\n")[0] == f"{len(armed(canary))} [] []", result.stderr

    def test_mutated_files_run_nothing_and_neither_hang_nor_crash(self) -> None:
        result = run(str(STRESS), "--mutations", "60", "--workers", "1", "--seed", "7", "--without-corpus")
        assert "0 executed, 0 hung, 0 crashed, 0 greedy, 0 accepted, 0 unclear" in result.stdout, (
            result.stdout + result.stderr
        )
        assert result.returncode == 0

    @pytest.mark.parametrize(
        ("start", "reason"),
        [
            (b"", "it is empty"),
            (b"<!DOCTYPE html>", "it is a page of a web server"),
            (b"version https://git-lfs.github.com/spec/v1\n", "it is a pointer of git-lfs, not the file it points to"),
            (bytes(257) + b"ustar", "it is a tar archive"),
            (b"abc\x1b[31m", r"it is a file of another kind that starts with 61 62 63 1b 5b 33 31 6d"),
            (
                whole(text("\x1b[2J\u202e") + text("os" + "x" * 500) + b"\x93"),
                r"asks for '\\x1b\[2J\\u202e\.osx.*\.\.\.'",
            ),
        ],
    )
    def test_a_file_of_another_kind_is_named_and_cannot_play_with_the_terminal(
        self, read: Read, start: bytes, reason: str
    ) -> None:
        with pytest.raises(WeightsRefused, match=reason):
            read(start + b"\0" * 1000 * bool(start))

    def test_a_good_file_that_is_cut_off_anywhere_is_refused(self, read: Read) -> None:
        for data in good_files().values():
            for length in range(0, len(data), max(1, len(data) // 20)):
                with pytest.raises(WeightsRefused):
                    read(data[:length])

    def test_a_refusal_keeps_neither_the_file_open_nor_its_bytes_mapped(self, tmp_path: Path) -> None:
        path = tmp_path / "file"
        for data in (torch_zip(whole(tensor(0, (4,), (1,)) + tensor(1, (4,), (1,)) + b"\x86")), good_files()["npz"]):
            path.write_bytes(data)
            try:
                read_checkpoint(path, what="'encoder'")
            except WeightsRefused as refused:
                assert "beyond its storage" in str(refused)
                gc.disable()  # frames of the error must not be what keeps it
                assert str(path) not in Path("/proc/self/maps").read_text()
            finally:
                gc.enable()
            assert str(path) not in [os.path.realpath(entry) for entry in Path("/proc/self/fd").iterdir()]

    def test_a_file_that_cannot_be_read_is_an_error_of_the_store(self, tmp_path: Path) -> None:
        with pytest.raises(StoreError, match=r"The weights of 'encoder' cannot be read from .*absent"):
            read_checkpoint(tmp_path / "absent", what="'encoder'")
        with pytest.raises(StoreError, match="not a file"):
            read_checkpoint(tmp_path, what="'encoder'")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=300, cwd=REPOSITORY, check=False
    )
