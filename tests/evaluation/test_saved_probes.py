"""Saved probes: what is loaded predicts what was saved, exports do too, and what was changed is refused."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.linear_model import LogisticRegression

from tests.each import for_each
from tests.feature_runs import DIM, Told, encoder, image_set, to_tensor, with_damaged
from zoo.errors import CorruptImage, DataError, QueryError, StoreError
from zoo.evaluation import LogisticProbe, StreamedProbe, load_probe, save_probe
from zoo.evaluation.classification import make_confusion_figure
from zoo.evaluation.evaluating import Request, evaluate
from zoo.evaluation.refit import keep_probe
from zoo.evaluation.saved_probes import DESCRIPTION, NUMBERS, SavedProbe, make_saved_probe
from zoo.features import Features, featurise
from zoo.loading import load as load_encoder

ENCODER = "pocket_init_rn"


def shown(image: Image.Image) -> torch.Tensor:
    """A preprocessing that ends with the 8 x 8 px that the tiny encoder takes."""
    return to_tensor(image.convert("RGB").resize((8, 8)))


def tiny(name: str, *, seed: int = 0) -> tuple[torch.nn.Module, Any]:
    return encoder(seed=seed), shown


def features(n: int = 60, *, seed: int = 0, split: str = "train", large: float = 0.0) -> Features:
    found = featurise(*tiny(""), image_set(n, seed=seed, split=split), name="tiny", device="cpu")
    return replace(found, x=found.x + np.float32(large)) if large else found


@pytest.fixture(scope="module")
def train() -> Features:
    return features()


@pytest.fixture(scope="module")
def probe(train: Features) -> SavedProbe:
    return replace(make_saved_probe(LogisticProbe(C=1.0).fit(train.x, train.y), train, about={"seed": 3}), load=tiny)


@pytest.fixture
def folder(probe: SavedProbe, tmp_path: Path) -> Path:
    return save_probe(probe, tmp_path / "probe")


def test_what_is_loaded_is_what_was_saved(probe: SavedProbe, folder: Path, train: Features) -> None:
    found = load_probe(folder, load=tiny)
    assert (found.encoder, found.kind, found.classes, found.scale) == ("tiny", "classes", ("a", "b", "c"), None)
    assert found.about == probe.about and found.origin == probe.origin
    for name in ("coefficients", "intercepts", "centre"):
        assert np.array_equal(getattr(found, name), getattr(probe, name))
    assert np.array_equal(found.predict_proba(train), probe.predict_proba(train))
    assert {path.name for path in folder.iterdir()} == {DESCRIPTION, NUMBERS}


@for_each([0.0, 1000.0])
def test_it_predicts_what_the_fitted_probe_does(large: float) -> None:
    some = features(large=large)
    fitted = LogisticProbe(C=1.0, precision="float64").fit(some.x.astype(np.float64), some.y)
    saved = make_saved_probe(fitted, some)
    expected = fitted.predict_proba(some.x.astype(np.float64))
    assert np.allclose(saved.predict_proba(some.x), expected, atol=1e-9)
    assert saved.dim == DIM


def test_probes_of_other_kinds_with_coefficients_are_saved_too(train: Features, tmp_path: Path) -> None:
    binary = replace(train, y=(train.y > 0).astype(np.int64), classes=("no", "yes"))
    by_sklearn = LogisticRegression().fit(binary.x, binary.y)
    saved = make_saved_probe(by_sklearn, binary)
    assert np.allclose(saved.predict_proba(binary.x), by_sklearn.predict_proba(binary.x), atol=1e-6)
    streamed = StreamedProbe(n_trials=1, epochs=2, device="cpu", batch_size=(32,)).fit(train.x, train.y)
    again = load_probe(save_probe(make_saved_probe(streamed, train), tmp_path / "streamed"))
    assert np.allclose(again.predict_proba(train.x), streamed.predict_proba(train.x), atol=1e-4)


def test_images_are_predicted_from_memory_files_and_sets_alike(folder: Path, tmp_path: Path) -> None:
    images = image_set(40, seed=1)
    loaded = load_probe(folder, load=tiny)
    told = Told()
    of_set = loaded.predict_images(images, batch_size=7, device="cpu", progress=told)
    own = featurise(*tiny(""), images, name="tiny", device="cpu")
    assert np.allclose(of_set.probabilities, loaded.predict_proba(own), atol=1e-6)
    assert of_set.names == tuple(images.names) and sum(told.advances) == 40 and told.n_ends == 1
    assert of_set.predicted == tuple("abc"[c] for c in of_set.probabilities.argmax(axis=1))
    of_memory = loaded.predict_images([images.images[0], np.asarray(images.images[1])], device="cpu")
    images.images[2].save(tmp_path / "two.png")
    of_file = loaded.predict_images([tmp_path / "two.png"], device="cpu")
    assert of_file.names == (str(tmp_path / "two.png"),) and of_memory.names == ("0", "1")
    both = np.concatenate([of_memory.probabilities, of_file.probabilities])
    assert np.allclose(both, of_set.probabilities[:3], atol=1e-6)


def test_a_probe_of_features_that_were_stored_as_float16_computes_as_these_were(train: Features) -> None:
    stored = replace(train, origin=replace(train.origin, precision="float32, stored as float16"))
    halved = replace(make_saved_probe(LogisticProbe(C=1.0).fit(stored.x, stored.y), stored), load=tiny)
    plain = replace(make_saved_probe(LogisticProbe(C=1.0).fit(train.x, train.y), train), load=tiny)
    images = image_set(5, seed=1)
    one, other = (found.predict_images(images, device="cpu").probabilities for found in (halved, plain))
    assert np.array_equal(one, other)


def test_images_that_cannot_be_read_are_named(folder: Path) -> None:
    loaded, images = load_probe(folder, load=tiny), with_damaged(image_set(10), 4)
    with pytest.raises(CorruptImage, match=r"class/004\.png"):
        loaded.predict_images(images, device="cpu")
    found = loaded.predict_images(images, device="cpu", skip_corrupt=True)
    assert [one.image for one in found.skipped] == ["class/004.png"]
    assert len(found.names) == len(found.probabilities) == 9 and "class/004.png" not in found.names


def test_an_encoder_with_other_weights_or_preprocessing_is_refused(folder: Path) -> None:
    def otherwise(name: str) -> tuple[torch.nn.Module, Any]:
        return encoder(), lambda image: shown(image) / 2

    with pytest.raises(DataError, match="The weights of 'tiny' here are not those that the probe was trained on"):
        load_probe(folder, load=lambda name: tiny(name, seed=1)).predict_images(image_set(3))
    with pytest.raises(DataError, match="The preprocessing of 'tiny' here are not those"):
        load_probe(folder, load=otherwise).predict_images(image_set(3))


def test_features_of_another_encoder_are_refused(probe: SavedProbe, train: Features) -> None:
    other = replace(train, origin=replace(train.origin, encoder="other", weights_hash="0"))
    with pytest.raises(DataError, match="of 'other' and the probe was trained on 'tiny'; they differ in weights_hash"):
        probe.predict_proba(other)
    release = replace(train, origin=replace(train.origin, code_version="zoo 999, featurising 1"))
    assert np.array_equal(probe.predict_proba(release), probe.predict_proba(train))
    with pytest.raises(DataError, match="expecting 6 features"):
        probe.predict_proba(train.x[:, :4])


def changed_description(change: Callable[[dict[str, Any]], None], folder: Path) -> None:
    facts = json.loads((folder / DESCRIPTION).read_text())
    change(facts)
    (folder / DESCRIPTION).write_text(json.dumps(facts))


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda f: (f / NUMBERS).unlink(), r"is damaged or was changed \(probe.safetensors: No such file"),
        (lambda f: (f / NUMBERS).write_bytes(b"0" * 300), r"\(probe.safetensors: its SHA-256 is not the one"),
        (lambda f: (f / DESCRIPTION).unlink(), "holds no saved probe"),
        (lambda f: (f / DESCRIPTION).write_text("{"), r"damaged or was changed \(probe.json"),
        (lambda f: (f / DESCRIPTION).write_text("[]"), r"\(probe.json: it is no table\)"),
        (lambda f: changed_description(lambda facts: facts.update(classes=["x", "y", "z"]), f), "its checksum differs"),
        (lambda f: changed_description(lambda facts: facts.update(format="zoo-saved-probe-0"), f), "format 'zoo-saved"),
    ],
)
def test_a_changed_or_incomplete_folder_is_refused(folder: Path, damage: Callable[[Path], Any], says: str) -> None:
    damage(folder)
    with pytest.raises(DataError, match=says):
        load_probe(folder)


def test_only_an_earlier_probe_of_the_same_encoder_is_replaced(probe: SavedProbe, folder: Path) -> None:
    other = replace(probe, intercepts=probe.intercepts + 1.0)
    assert save_probe(other, folder) == folder
    assert np.array_equal(load_probe(folder).intercepts, other.intercepts)
    with pytest.raises(QueryError, match="holds a probe of 'tiny', and nothing of another encoder is overwritten"):
        save_probe(replace(probe, encoder="another"), folder)
    (folder / "notes.txt").write_text("mine")
    with pytest.raises(QueryError, match=r"holds 'notes\.txt', which is of no saved probe"):
        save_probe(probe, folder)
    assert (folder / "notes.txt").read_text() == "mine" and load_probe(folder).encoder == "tiny"


def test_nothing_is_left_of_a_probe_that_could_not_be_written(
    probe: SavedProbe, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir()}

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(Exception, match="No space left on device"):
        save_probe(probe, folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert [path.name for path in folder.parent.iterdir()] == ["probe"]


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, SavedProbe, torch.Tensor]:
    """A probe of a toy encoder with both exports, and preprocessed images."""
    images = image_set(30, seed=3)
    network, preprocess = load_encoder(ENCODER)
    some = featurise(network, preprocess, images, name=ENCODER, device="cpu")
    saved = make_saved_probe(LogisticProbe(C=1.0).fit(some.x, some.y), some)
    place = save_probe(saved, tmp_path_factory.mktemp("exports") / "probe", export=("torch", "onnx"))
    return place, load_probe(place), torch.stack([preprocess(images.images[i]) for i in range(5)])


def test_the_program_of_torch_predicts_what_the_probe_does(exported: tuple[Path, SavedProbe, torch.Tensor]) -> None:
    place, saved, pixels = exported
    extra = {"about.json": ""}
    program = torch.export.load(place / "model.pt2", extra_files=extra)
    about = json.loads(extra["about.json"])
    assert (about["encoder"], about["classes"], about["px"]) == (ENCODER, ["a", "b", "c"], pixels.shape[-1])
    with torch.inference_mode():
        expected = saved.predict_proba(saved.network[0](pixels).numpy())
        for n in (1, 2, 5):
            assert np.allclose(program.module()(pixels[:n]).numpy(), expected[:n], atol=1e-5)


def test_the_onnx_model_predicts_what_torch_does(exported: tuple[Path, SavedProbe, torch.Tensor]) -> None:
    onnxruntime = pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")
    place, saved, pixels = exported
    session = onnxruntime.InferenceSession(place / "model.onnx", providers=["CPUExecutionProvider"])
    with torch.inference_mode():
        expected = saved.module()(pixels).numpy()
    for n in (1, 2, 5):
        (found,) = session.run(["probabilities"], {"images": pixels[:n].numpy()})
        assert found.shape == (n, 3) and np.allclose(found, expected[:n], atol=1e-5)
    metadata = session.get_modelmeta().custom_metadata_map
    assert json.loads(metadata["classes"]) == ["a", "b", "c"] and metadata["encoder"] == ENCODER


def test_an_onnx_model_above_the_limit_of_protobuf_has_its_weights_next_to_it(
    exported: tuple[Path, SavedProbe, torch.Tensor], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    onnxruntime = pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")
    _, saved, pixels = exported
    monkeypatch.setattr("zoo.encoders.exporting.MOST_ONNX_BYTES", 1000)
    folder = save_probe(saved, tmp_path / "large", export=("onnx",))
    sizes = {path.name: path.stat().st_size for path in folder.iterdir()}
    assert sizes.keys() == {DESCRIPTION, NUMBERS, "model.onnx", "model.onnx.data"}
    n_bytes = sum(tensor.nbytes for tensor in saved.network[0].parameters())
    assert sizes["model.onnx.data"] > n_bytes / 2 > sizes["model.onnx"]
    folder = folder.rename(tmp_path / "moved")  # the model names the file next to it without a path
    session = onnxruntime.InferenceSession(folder / "model.onnx", providers=["CPUExecutionProvider"])
    with torch.inference_mode():
        expected = saved.module()(pixels).numpy()
    (found,) = session.run(["probabilities"], {"images": pixels.numpy()})
    assert np.allclose(found, expected, atol=1e-5)
    assert json.loads(session.get_modelmeta().custom_metadata_map["classes"]) == ["a", "b", "c"]
    monkeypatch.undo()
    save_probe(saved, folder, export=("onnx",))  # replaces all of it
    assert {path.name for path in folder.iterdir()} == {DESCRIPTION, NUMBERS, "model.onnx"}


class Unexportable(torch.nn.Module):
    """An encoder that depends on the numbers of the images, which no exporter follows."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return images.flatten(1)[:, : DIM if float(images.sum()) > 0 else 1]


@pytest.mark.parametrize("kind", ["torch", "onnx"])
def test_a_probe_stays_whatever_becomes_of_its_export(kind: str, probe: SavedProbe, tmp_path: Path) -> None:
    from zoo.features.store import hash_preprocess, hash_weights

    network = Unexportable().eval()
    origin = probe.origin | {"weights_hash": hash_weights(network), "preprocess_hash": hash_preprocess(shown)}
    kept = replace(probe, load=lambda name: (network, shown), origin=origin)
    with pytest.raises(QueryError, match=r"The probe is saved .* but not its export: .* cannot be exported") as told:
        save_probe(kept, tmp_path / "probe", export=(kind,))
    assert "\x1b" not in str(told.value)
    assert {path.name for path in (tmp_path / "probe").iterdir()} == {DESCRIPTION, NUMBERS}
    assert np.array_equal(load_probe(tmp_path / "probe").coefficients, probe.coefficients)
    assert [path.name for path in tmp_path.iterdir()] == ["probe"]


def test_a_full_disk_at_the_export_leaves_the_probe_and_no_half_of_a_model(
    exported: tuple[Path, SavedProbe, torch.Tensor], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("onnxscript", reason="the extra onnx is not installed")
    saved = exported[1]
    replace_file = os.replace

    def full(source: Any, target: Any) -> None:
        if str(target).endswith("model.onnx.data"):
            raise OSError(28, "No space left on device")
        replace_file(source, target)

    monkeypatch.setattr("os.replace", full)
    monkeypatch.setattr("zoo.encoders.exporting.MOST_ONNX_BYTES", 1000)
    with pytest.raises(StoreError, match=r"The probe is saved in .*No space left on device"):
        save_probe(saved, tmp_path / "probe", export=("onnx",))
    assert {path.name for path in (tmp_path / "probe").iterdir()} == {DESCRIPTION, NUMBERS}


def learnable(n: int, split: str, seed: int) -> Features:
    """Features that tell their class, of few images that are hard."""
    random = np.random.default_rng(seed)
    y = np.arange(n, dtype=np.int64) % 3
    x = (random.standard_normal((n, DIM)) + 1.5 * np.eye(3, DIM)[y]).astype(np.float32)
    some = features(3, split=split)
    origin = replace(some.origin, images_hash=split, split=split)
    return replace(some, x=x, y=y, names=(), contents=None, origin=origin)


@pytest.fixture(scope="module")
def pair() -> tuple[Features, Features]:
    return learnable(150, "train", 0), learnable(90, "val", 1)


@pytest.mark.parametrize("kind", ["logistic", "streamed"])
def test_a_measured_probe_is_kept_without_training_and_is_the_same(
    pair: tuple[Features, Features], kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = {} if kind == "logistic" else {"n_trials": 2, "epochs": 3, "batch_size": [32]}
    request = Request(
        settings=("full", "5-shot"), n_seeds=2, probe=kind, changed=changed, neighbours=False, device="cpu"
    )
    first = evaluate(*pair, request, cache=tmp_path)
    again = evaluate(*pair, request, cache=tmp_path)  # from the cache
    for one in (LogisticProbe, StreamedProbe):
        monkeypatch.setattr(one, "fit", lambda *given, **more: pytest.fail("a probe was trained again"))
    kept = keep_probe(again, request, cache=tmp_path)
    assert np.array_equal(keep_probe(first, request).probe.coefficients, kept.probe.coefficients)
    run = next(result.runs[0] for result in first.settings if result.setting.is_full)
    assert kept.n_different == 0
    assert kept.metrics.metrics["error"].value == pytest.approx(run.error_percent)
    predicted = kept.probe.predict_proba(pair[1]).argmax(axis=1)
    assert np.array_equal(predicted == pair[1].y, run.correct)
    about = kept.probe.about
    assert (about["protocol"], about["n_train"], about["n_test"]) == (first.protocols.errors.name, 150, 90)
    named = {name: run.report[name] for name in ("C", "preparation") if name in run.report}
    assert about["chosen"] == (named if kind == "logistic" else run.report["chosen"])
    assert kind != "logistic" or set(named) == {"C", "preparation"}
    assert about["metrics"]["metrics"]["auroc"]["value"] > 60
    saved = save_probe(kept.probe, tmp_path / "saved", figures=[make_confusion_figure(kept.metrics)])  # type: ignore[arg-type]
    assert {path.name for path in saved.iterdir()} == {DESCRIPTION, NUMBERS, "confusion.png", "confusion.svg"}
    assert load_probe(saved).about == about


def test_16_bit_images_are_shown_as_those_of_the_training_were(train: Features, tmp_path: Path) -> None:
    fitted = LogisticProbe(C=1.0).fit(train.x, train.y)
    scaled = replace(make_saved_probe(fitted, train), scale=(0.0, 1000.0), load=tiny)
    again = load_probe(save_probe(scaled, tmp_path / "scaled"), load=tiny)
    assert again.scale == (0.0, 1000.0)
    grey = np.random.default_rng(0).integers(0, 1000, (8, 8)).astype(np.uint16)
    Image.fromarray(grey).save(tmp_path / "grey.png")
    narrow = Image.fromarray(np.round(grey * 0.255).astype(np.uint8)).convert("RGB")
    found, expected = again.predict_images([tmp_path / "grey.png"]), again.predict_images([narrow])
    assert np.allclose(found.probabilities, expected.probabilities, atol=0.02)
