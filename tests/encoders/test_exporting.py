"""Encoders as ONNX models: they give the same features, say how images are prepared, or are not written at all."""

from __future__ import annotations

import json
from copy import deepcopy
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import zoo
from zoo.encoders.encoder import Encoder
from zoo.errors import QueryError, StoreError
from zoo.features.store import hash_weights

onnxruntime = pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")
NAME = "pocket_simclr_vit_shapes"


def run(path: Path, images: torch.Tensor) -> Any:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return session.run(["features"], {"images": images.numpy()})[0], session.get_modelmeta().custom_metadata_map


@pytest.mark.parametrize(
    ("name", "options"), [(f"{NAME}@avg", {}), (NAME, {"px": 48}), ("pocket_simclr_rn_shapes", {})]
)
def test_a_model_gives_the_features_of_any_number_of_images_and_says_how_they_are_prepared(
    name: str, options: Any, tmp_path: Path
) -> None:
    encoder, _ = zoo.load(name, **options)
    path = encoder.to_onnx(tmp_path / "encoder.onnx")
    assert [file.name for file in tmp_path.iterdir()] == ["encoder.onnx"]
    px = options.get("px", 32)
    for n in (1, 5):
        images = torch.randn(n, 3, px, px)
        found, about = run(path, images)
        np.testing.assert_allclose(found, encoder(images).numpy(), atol=1e-4 * float(encoder(images).abs().max()))
    card = zoo.card(name)
    how = json.loads(about["preprocess"])
    assert (about["encoder"], about["pooling"]) == (card.id, card.representation.layer)
    assert about["weights_hash"] == hash_weights(encoder)
    assert (json.loads(about["dim"]), json.loads(about["px"])) == (encoder.dim, px)
    assert (how["mean"], how["std"]) == (list(card.preprocess.mean), list(card.preprocess.std))
    assert (how["resize_px"], how["crop_px"], how["interpolation"]) == (px, px, "bilinear")


def test_an_encoder_that_is_being_trained_stays_as_it_is(tmp_path: Path) -> None:
    encoder = zoo.load(NAME)[0].requires_grad_().train()
    with torch.no_grad():
        encoder.backbone.norm.bias.add_(1)
    images = torch.randn(2, 3, 32, 32)
    found, about = run(encoder.to_onnx(tmp_path / "encoder.onnx"), images)
    assert encoder.training and about["weights_hash"] == hash_weights(encoder)
    np.testing.assert_allclose(found, encoder.eval()(images).detach().numpy(), rtol=1e-3, atol=1e-4)


def test_an_encoder_in_half_precision_is_written_as_float32(tmp_path: Path) -> None:
    encoder = zoo.load(NAME)[0].to(torch.bfloat16)
    images = torch.randn(2, 3, 32, 32)
    found, _ = run(encoder.to_onnx(tmp_path / "encoder.onnx"), images)
    assert next(encoder.parameters()).dtype == torch.bfloat16
    np.testing.assert_allclose(found, deepcopy(encoder).float()(images).numpy(), rtol=1e-3, atol=1e-4)


class Forgetful(torch.nn.Module):
    """A network that an exporter follows for the images that it is traced with alone."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.encoder, self.card, self.n_calls = encoder, encoder.card, 0

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        self.n_calls += 1
        features: torch.Tensor = self.encoder(images)
        return features if self.n_calls == 1 else features + 1e-2


def test_a_model_that_gives_other_features_is_not_written(tmp_path: Path) -> None:
    from zoo.encoders.exporting import collect_export_facts, write_onnx

    network = Forgetful(zoo.load(NAME)[0]).eval()
    with pytest.raises(QueryError, match=rf"The ONNX model of '{NAME}' is off by 0\.01"):
        write_onnx(network, collect_export_facts(network), tmp_path / "encoder.onnx", output="features")
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_exported_is_refused_in_a_sentence(tmp_path: Path) -> None:
    encoder, _ = zoo.load(NAME)
    with pytest.raises(QueryError, match=r"Got an encoder with no card; expected one of zoo\.load"):
        Encoder(encoder.backbone, encoder.pooling, dim=encoder.dim).to_onnx(tmp_path / "encoder.onnx")
    with pytest.raises(QueryError, match="no weights, on 'meta'"):
        zoo.load(NAME, device="meta")[0].to_onnx(tmp_path / "encoder.onnx")
    with pytest.raises(StoreError, match=r"cannot be written to .*absent"):
        encoder.to_onnx(tmp_path / "absent" / "encoder.onnx")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("name", "options"), [(f"{NAME}@avg", {}), (NAME, {"px": 48}), (f"{NAME}@cls", {"px": 48})])
def test_an_encoder_knows_its_card_with_the_size_of_its_images(name: str, options: Any) -> None:
    encoder, preprocess = zoo.load(name, **options)
    px = options.get("px", 32)
    expected = asdict(zoo.card(name).preprocess) | {"resize_px": px, "crop_px": px}
    assert encoder.card.id == name and encoder.card.representation.dim == encoder.dim
    assert asdict(encoder.card.preprocess) == expected and f"size={px}" in repr(preprocess)
