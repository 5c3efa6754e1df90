"""Images that an encoder cannot take are answered in one sentence, and the way to torch's own tools stays free."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torchvision
from PIL import Image
from torch import Tensor, nn

import zoo
from tests.each import for_each
from zoo.encoders import Encoder, build_encoder
from zoo.errors import DataError

VIT, RESNET = "timm:test_vit.r160_in1k", "timm:test_resnet.r160_in1k"
GOOD = torch.randn(2, 3, 160, 160, generator=torch.Generator().manual_seed(0))
WANTED = r"expected float32 \(n, 3, 160, 160\) as preprocess makes it"
ONE, EACH = r"call encoder\(preprocess\(image\)\[None\]\)\.", r"call encoder\(torch\.stack\(\[preprocess"
WRONG: dict[str, tuple[Any, str, str]] = {  # what is given, how it is named, and what to do
    "one image": (GOOD[0], r"float32 \(3, 160, 160\)", r"call encoder\(image\[None\]\) for one image\."),
    "bytes": (GOOD.to(torch.uint8), r"uint8 \(2, 3, 160, 160\)", ONE),
    "one channel": (GOOD[:, :1], r"float32 \(2, 1, 160, 160\)", ONE),
    "four channels": (GOOD[:, [0, 1, 2, 2]], r"float32 \(2, 4, 160, 160\)", ONE),
    "double": (GOOD.double(), r"float64 \(2, 3, 160, 160\)", r"call encoder\(images\.to\(torch\.float32\)\)\."),
    "an array": (GOOD.numpy(), "a value of type 'ndarray'", ONE),
    "a photograph": (Image.new("RGB", (200, 200)), "a value of type 'Image'", ONE),
    "a list": ([GOOD[0]], "a value of type 'list'", EACH),
}


@pytest.fixture(scope="module", params=[VIT, RESNET])
def encoder(request: pytest.FixtureRequest) -> Any:
    return zoo.load(request.param, pretrained=False)[0]


@for_each(WRONG)
def test_what_no_encoder_takes_is_one_sentence_that_says_what_to_do(kind: str, encoder: Encoder) -> None:
    images, found, do = WRONG[kind]
    with pytest.raises(DataError, match=rf"^The encoder got {found}, {WANTED}; {do}"):
        encoder(images)
    with pytest.raises(DataError, match=r"got images on 'meta', expected them on 'cpu'"):
        encoder(GOOD.to("meta"))


@pytest.mark.filterwarnings("ignore::zoo.errors.NameNote")
def test_another_size_is_told_by_the_networks_that_take_one_alone() -> None:
    fixed = {"px": 208}, {"px": 208, "features": "cls+avg"}, {}
    for options in fixed:
        encoder, px = zoo.load("dino_vitS16", device="meta", **options)[0].half(), options.get("px", 224)
        images = torch.empty(2, 3, px, px, dtype=torch.float16, device="meta")
        assert encoder(images).shape == (2, encoder.dim)
        sides = rf"float16 \(2, 3, {px}, {px - 16}\), expected float16 \(n, 3, {px}, {px}\) as preprocess makes it"
        with pytest.raises(DataError, match=rf"{sides}; load the encoder with px=\.\.\. for images of another size\."):
            encoder(images[..., 16:])
    for name in (VIT, RESNET):
        any_size = zoo.load(name, pretrained=False)[0]
        assert any_size(torch.zeros(1, 3, 192, 176)).shape == (1, any_size.dim)


def test_networks_that_would_give_something_for_other_images_refuse_them_too() -> None:
    for name in ("tower_gemma3n_mobilenetv5", "deepcluster_alexnet"):
        card = zoo.card(name)
        encoder, px = build_encoder(card, device="meta"), card.preprocess.crop_px
        for shape in ((3, px, px), (1, 4, px, px)):
            with pytest.raises(DataError, match="The encoder got float32"):
                encoder(torch.empty(shape, device="meta"))


def test_what_is_no_fault_of_the_images_stays_what_it_is(encoder: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(backbone: nn.Module, images: Tensor) -> Tensor:
        raise RuntimeError(words)

    monkeypatch.setattr(encoder, "pooling", fail)
    for words, images in (("CUDA error: an illegal access", GOOD), ("DefaultCPUAllocator: no memory", GOOD[..., :9])):
        with pytest.raises(RuntimeError, match=words):
            encoder(images)
    own = Encoder(nn.Flatten(), lambda backbone, images: backbone(images), dim=4)  # of one's own, for any images
    assert own(torch.zeros(2, 1, 2, 2, dtype=torch.uint8)).shape == (2, 4)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "error::torch.jit.TracerWarning")
@torch.no_grad()
def test_torchs_tools_take_the_encoder_whole() -> None:
    encoder = zoo.load(RESNET, pretrained=False)[0]
    expected = encoder(GOOD)
    several = ({0: torch.export.Dim("n", min=1, max=64)},)
    compiled = torch.compile(encoder, backend="eager", fullgraph=True)
    for made in (
        compiled,
        torch.export.export(encoder, (GOOD,), dynamic_shapes=several).module(),
        torch.jit.trace(encoder, GOOD),  # type: ignore[no-untyped-call]
        torch.fx.symbolic_trace(encoder),
    ):
        torch.testing.assert_close(made(GOOD), expected, rtol=1e-4, atol=1e-4)
    with pytest.raises(DataError, match="got uint8"):
        torch.compile(encoder, backend="eager")(GOOD.to(torch.uint8))


@torch.no_grad()
def test_autocast_and_torch_hub_and_layers_of_torchvisions_extractor(repository: Path) -> None:
    encoder = zoo.load(RESNET, pretrained=False)[0]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert encoder(GOOD.bfloat16()).shape == encoder(GOOD).shape
    layers = torchvision.models.feature_extraction.create_feature_extractor(encoder, ["backbone.layer1"])
    assert list(layers(GOOD)) == ["backbone.layer1"]
    of_hub, _ = torch.hub.load(str(repository), "dino_rn50", source="local", pretrained=False)
    with pytest.raises(DataError, match="got uint8"):
        of_hub(torch.zeros(1, 3, 224, 224, dtype=torch.uint8))
