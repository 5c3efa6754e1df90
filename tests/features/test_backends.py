"""OpenVINO in place of PyTorch: only where features are equal and it pays, said, recorded, and never in their way."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.feature_runs import Told, image_set, to_tensor
from zoo.datasets import ImageData
from zoo.errors import ComputingNote, MissingExtra, QueryError
from zoo.evaluation.measuring import ProbeCache
from zoo.execution.executor import Resources
from zoo.execution.journal import Journal
from zoo.execution.processes import Processes
from zoo.features import Features, backends, featurise, load_features
from zoo.features.running import build_run_spec, run_features
from zoo.features.store import claim
from zoo.features.work_items import FeatureRunSettings, FeaturisingOptions, build_features_path
from zoo.storage import resolve_place

LARGE = backends.LEAST_IMAGES


class Convolutions(torch.nn.Module):
    """A network of more than a million parameters, norms and all."""

    def __init__(self) -> None:
        super().__init__()
        width = 340
        self.layers = torch.nn.Sequential(
            torch.nn.Conv2d(3, width, 3, padding=1),
            torch.nn.BatchNorm2d(width),
            torch.nn.ReLU6(),
            torch.nn.Conv2d(width, width, 3, stride=2),
            torch.nn.AdaptiveAvgPool2d(1),
            torch.nn.Flatten(),
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.layers(images)  # type: ignore[no-any-return]


class ByNumber(Convolutions):
    """Gives other features of other numbers of images, which a trace does not see."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return super().forward(images) * len([*images])


class Bessel(Convolutions):
    """Has an operation that OpenVINO does not know."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return torch.special.bessel_j0(super().forward(images))


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "backends"


def network(kind: type[torch.nn.Module] = Convolutions) -> torch.nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return kind().eval()


def features_of(module: torch.nn.Module, **options: Any) -> tuple[Features, list[str]]:
    """Features of 40 images, and what was said of how they were computed."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ComputingNote)
        found = featurise(module, to_tensor, image_set(40), name="net", batch_size=16, device="cpu", **options)
    return found, [str(one.message) for one in caught if one.category is ComputingNote]


def relative(one: Features, other: Features) -> float:
    x, y = np.asarray(one.x[:]), np.asarray(other.x[:])
    return float((np.linalg.norm(x - y, axis=1) / np.linalg.norm(y, axis=1)).max())


def test_a_converted_network_gives_pytorchs_features_and_is_said_and_recorded(tmp_path: Path, own_cache: Path) -> None:
    module = network()
    plain, said = features_of(module, backend="torch")
    assert plain.origin.backend == "torch" and not said
    fast, said = features_of(module, n_planned=LARGE, folder=tmp_path / "features")
    assert fast.origin.backend.startswith("openvino 20") and relative(fast, plain) <= backends.TOLERANCE
    (sentence,) = said
    assert sentence.startswith(f"features of net by {fast.origin.backend}")
    assert load_features(tmp_path / "features").origin.backend == fast.origin.backend
    assert {path.name for path in next(own_cache.iterdir()).iterdir()} == {"model.xml", "model.bin", "verdict.json"}
    # neither OpenVINO's import nor its conversion reports anything to its makers
    assert "openvino_telemetry" not in sys.modules


def test_features_of_another_backend_are_the_same_features(tmp_path: Path) -> None:
    module, progress = network(), Told()
    first, _ = features_of(module, backend="openvino", folder=tmp_path / "features")
    again, _ = features_of(module, backend="torch", folder=tmp_path / "features", progress=progress)
    assert progress.starts[-1][1:] == (40, 40) and again.origin == first.origin
    cache = ProbeCache(tmp_path, protocol="any")
    plain, _ = features_of(module, backend="torch")
    assert cache.key(first, seed=0) == cache.key(plain, seed=0)


def test_a_run_that_was_begun_goes_on_with_its_backend(tmp_path: Path) -> None:
    module = network()
    plain, _ = features_of(module, backend="torch")
    for begun, asked in (("torch", "openvino"), ("openvino", "torch")):
        origin = features_of(module, backend=begun)[0].origin
        claim(resolve_place(tmp_path / begun), origin, shard_size=16)
        found, _ = features_of(module, backend=asked, folder=tmp_path / begun)
        assert found.origin.backend.startswith(begun) and relative(found, plain) <= backends.TOLERANCE


@pytest.mark.parametrize("options", [{}, {"n_planned": LARGE, "precision": "bfloat16"}])
def test_few_images_and_other_precisions_stay_with_pytorch_without_a_word(options: dict[str, Any]) -> None:
    assert features_of(network(), **options)[0].origin.backend == "torch"
    assert not features_of(network(), **options)[1]


def test_a_small_network_stays_with_pytorch_however_many_images() -> None:
    found, said = features_of(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(192, 6)), n_planned=10**6)
    assert found.origin.backend == "torch" and not said


@pytest.mark.parametrize(("kind", "why"), [(ByNumber, "features differ by"), (Bessel, "cannot convert it")])
def test_what_is_not_equal_or_not_converted_stays_with_pytorch_with_one_note(
    kind: type[torch.nn.Module], why: str
) -> None:
    plain, _ = features_of(network(kind), backend="torch")
    found, said = features_of(network(kind), n_planned=LARGE)
    assert len(said) == 1 and said[0].startswith("net stays with PyTorch: ") and why in said[0]
    np.testing.assert_array_equal(found.x, plain.x)
    assert found.origin == plain.origin
    again, said = features_of(network(kind), n_planned=LARGE)  # as in another process, which the cache tells
    assert not said and again.origin == plain.origin
    with pytest.raises(QueryError, match=f"OpenVINO cannot compute 'net' .*{why}"):  # told again to who asks for it
        features_of(network(kind), backend="openvino")


def test_without_the_library_nothing_is_said_and_asking_for_it_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openvino", None)  # as Python finds what is not installed
    found, said = features_of(network(), n_planned=LARGE)
    assert found.origin.backend == "torch" and not said
    with pytest.raises(MissingExtra, match="fast"):
        features_of(network(), backend="openvino")


@pytest.mark.parametrize("file", ["model.xml", "model.bin", "verdict.json"])
def test_a_damaged_file_of_the_cache_is_made_again(file: str, own_cache: Path) -> None:
    right, _ = features_of(network(), backend="openvino")
    (folder,) = own_cache.iterdir()
    damaged = (folder / file).read_bytes()[:-9]
    (folder / file).write_bytes(damaged)
    found, _ = features_of(network(), backend="openvino")
    np.testing.assert_array_equal(found.x, right.x)
    assert len((folder / file).read_bytes()) > len(damaged)


def test_the_cache_forgets_what_was_converted_longest_ago(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    abandoned = own_cache / ".of-a-process-that-was-ended.tmp"
    abandoned.mkdir(parents=True)
    os.utime(abandoned, (0, 0))
    features_of(network(), backend="openvino")
    (first,) = own_cache.iterdir()
    monkeypatch.setattr(backends, "_MOST_BYTES", 5_000_000)  # of one network
    features_of(network(ByNumber).layers, backend="openvino")
    (second,) = own_cache.iterdir()
    assert second != first


@pytest.mark.parametrize(
    ("options", "match"),
    [({"backend": "onnx"}, "'onnx' is not known"), ({"backend": "openvino", "precision": "bfloat16"}, "in float32")],
)
def test_backends_that_cannot_be_are_refused(options: dict[str, Any], match: str) -> None:
    with pytest.raises(QueryError, match=match):
        features_of(network(), **options)


def noise() -> ImageData:
    return ImageData(name="noise", train=image_set(30), val=image_set(14, seed=1, split="val"))


def loaded(name: str) -> tuple[torch.nn.Module, Any]:
    return network(), to_tensor


def test_workers_compute_by_the_backend_that_is_asked_for(tmp_path: Path) -> None:
    data, resources = noise(), Resources(n_cpus=1)
    for backend in ("openvino", "auto"):
        how = FeaturisingOptions(batch_size=4, device="cpu", backend=backend)
        fingerprints = {"train": data.train.fingerprint, "val": data.val.fingerprint}
        place = tmp_path / backend
        setting = FeatureRunSettings(
            source=noise, load=loaded, place=str(place), fingerprints=fingerprints, how=how, shard_size=10
        )
        asked, workers = build_run_spec(setting, ["net"], data, ["train"], resources=resources), Processes(0)
        with Journal(resolve_place(place), asked, engine="test", n_workers=0) as journal:
            report = run_features(setting, ["net"], data, ["train"], workers, journal, Told(), resources=resources)
        assert not report.failures
        found = load_features(place.joinpath(*build_features_path("net", data.train, precision="float32")))
        assert found.origin.backend.partition(" ")[0] == ("openvino" if backend == "openvino" else "torch")
