"""Image processors of transformers: each is equalled by a preprocessing of the zoo, or refused by its name."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from PIL import Image
from torch import Tensor
from transformers.models.auto.image_processing_auto import IMAGE_PROCESSOR_MAPPING_NAMES

from tests.each import for_each
from zoo.cards.catalogue import load_catalogue
from zoo.cards.schema import Preprocess
from zoo.datasets.dense import align_map
from zoo.datasets.views import build_view_preprocess
from zoo.encoders.image_processors import derive_preprocess
from zoo.encoders.preprocess import build_preprocess
from zoo.encoders.sizes import preprocess_at

HALF = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3}
SHAPES = ((420, 300), (300, 420), (100, 60))


def picture(width: int, height: int) -> Image.Image:
    """Gradients and stripes, far from black and white, where kernels cut off otherwise."""
    y, x = np.mgrid[:height, :width]
    channels = x * 128 // width + 60, y * 110 // height + 70, (x + y) // 20 % 2 * 100 + 80
    return Image.fromarray(np.stack(channels, axis=-1).astype(np.uint8))


def derived(name: str, *, model_type: str = "vit", **settings: Any) -> Preprocess:
    """The preprocessing for a processor of this name with these settings, as a repository states them."""
    files = {"config.json": {"model_type": model_type}, "preprocessor_config.json": settings}
    if name:  # before 2022 a processor was called a feature extractor
        key = "feature_extractor_type" if name.endswith("FeatureExtractor") else "image_processor_type"
        files["preprocessor_config.json"] = {key: name} | settings
    facts = derive_preprocess(files)
    return Preprocess(**facts | {"mean": tuple(facts["mean"]), "std": tuple(facts["std"])})


def apart(preprocess: Preprocess, processor: Any, width: int, height: int) -> float:
    """By how many of 255 levels a pixel of a picture differs at most."""
    image = picture(width, height)
    theirs = torch.as_tensor(np.asarray(processor(image, return_tensors="pt")["pixel_values"][0]))
    levels = (build_preprocess(preprocess)(image) - theirs).abs().amax(dim=(1, 2)) * 255
    std = preprocess.std if preprocess.channels == "RGB" else preprocess.std[::-1]
    return float((levels * torch.tensor(std)).max())


ALL = sorted({name.removesuffix("Pil") for kinds in IMAGE_PROCESSOR_MAPPING_NAMES.values() for name in kinds.values()})
EQUALLED = {
    "BeitImageProcessor", "BitImageProcessor", "BlipImageProcessor", "CLIPImageProcessor", "ChineseCLIPImageProcessor",
    "ConvNextImageProcessor", "DINOv3ViTImageProcessor", "DPTImageProcessor", "DeiTImageProcessor",
    "EfficientNetImageProcessor", "FlavaImageProcessor", "LevitImageProcessor", "MobileNetV1ImageProcessor",
    "MobileNetV2ImageProcessor", "MobileViTImageProcessor", "OwlViTImageProcessor", "PoolFormerImageProcessor",
    "PvtImageProcessor", "Sam2ImageProcessor", "SegformerImageProcessor", "SiglipImageProcessor",
    "Tipsv2ImageProcessor", "ViTImageProcessor",
}  # fmt: skip


def test_every_processor_of_transformers_is_equalled_to_a_grey_level_or_refused_by_its_name() -> None:
    equalled, wrong = set(), []
    for name in ALL:
        try:
            preprocess = derived(name)
        except ValueError as error:
            if name not in str(error):
                wrong.append(f"{name}: {error}")
            continue
        equalled.add(name)
        on_pillow = getattr(transformers, f"{name}Pil", None)  # the reference where there is one
        bound = 2.01 if on_pillow is not None else 1.01  # kernels of torchvision round otherwise
        for kind, most in ((getattr(transformers, name), bound), (on_pillow, 0.01)):
            levels = [apart(preprocess, kind(), *shape) for shape in SHAPES] if kind is not None else [0.0]
            if max(levels) > most:
                wrong.append(f"{name}: {levels} of {kind}")
    assert not wrong, "\n".join(wrong)
    assert equalled >= EQUALLED


@for_each(
    [
        ("ViTImageProcessor", {"size": 224, **HALF}),
        ("ViTFeatureExtractor", {"size": 224, "do_resize": True, "resample": 2, **HALF}),
        ("DeiTImageProcessor", {"size": 256, "crop_size": 224, "do_center_crop": True, "resample": 3, **HALF}),
        ("ConvNextImageProcessor", {"size": 224, "crop_pct": 0.875, **HALF}),
        ("ConvNextImageProcessor", {"size": {"shortest_edge": 384}, "crop_pct": None, **HALF}),
        ("ConvNextFeatureExtractor", {"size": 224, "crop_pct": 0.95, "image_mean": [0.1, 0.2, 0.3]}),
        ("LevitImageProcessor", {"size": 192, "crop_size": {"height": 192, "width": 192}}),
        ("PoolFormerImageProcessor", {"size": 224, "crop_pct": 0.95, "crop_size": 224}),
        ("EfficientNetImageProcessor", {"rescale_factor": 1 / 127.5, "rescale_offset": True, "do_normalize": False}),
        ("EfficientNetImageProcessor", {"include_top": True, "image_std": [0.4, 0.45, 0.5]}),
        ("EfficientNetImageProcessor", {"include_top": False, "size": 300, "do_center_crop": True, "crop_size": 289}),
        ("MobileViTImageProcessor", {"size": {"shortest_edge": 288}, "crop_size": 256}),
        ("MobileViTImageProcessor", {"do_flip_channel_order": False, "size": 256, "crop_size": 256}),
        ("BitImageProcessor", {"size": {"shortest_edge": 256}, "crop_size": 225}),
        ("BitImageProcessor", {"size": {"shortest_edge": 200}, "crop_size": 224}),  # padded
        ("BitImageProcessor", {"size": {"height": 257, "width": 257}, "crop_size": 224}),
        ("CLIPImageProcessor", {"size": 224, "crop_size": 224, "do_convert_rgb": True, "resample": 3}),
        ("ViTImageProcessor", {"do_rescale": False, "image_mean": [123.675] * 3, "image_std": [58.395, 57.12, 57.375]}),
        ("ViTImageProcessor", {"rescale_factor": 1 / 128, "do_normalize": False}),
        ("ViTImageProcessorFast", {"do_normalize": False, "resample": 3}),
    ],
    arguments=2,
)
def test_settings_of_every_age_mean_what_transformers_means_by_them(name: str, settings: dict[str, Any]) -> None:
    preprocess = derived(name, **settings)
    kind = name.removesuffix("Fast").replace("FeatureExtractor", "ImageProcessor")
    for shape in SHAPES:
        assert apart(preprocess, getattr(transformers, f"{kind}Pil")(**settings), *shape) < 0.01


def test_a_processor_without_a_name_is_that_of_its_network() -> None:
    assert derived("", model_type="dinov2").fit == "crop"
    assert derived("", model_type="vit").fit == "squash"
    files = {"config.json": {"model_type": "siglip"}, "processor_config.json": {}}
    nested = {"image_processor_type": "SiglipImageProcessor", "size": {"height": 96, "width": 96}}
    files["processor_config.json"] = {"image_processor": nested}  # where transformers writes it from version 5 on
    files["preprocessor_config.json"] = nested | {"size": {"height": 64, "width": 64}}
    assert derive_preprocess(files)["crop_px"] == 96


def test_a_video_processor_is_asked_for_one_frame() -> None:
    settings = {"video_processor_type": "VJEPA2VideoProcessor", "crop_size": {"height": 256, "width": 256}}
    facts = derive_preprocess({"config.json": {"model_type": "vjepa2"}, "video_preprocessor_config.json": settings})
    assert (facts["resize_px"], facts["crop_px"], facts["interpolation"]) == (292, 256, "bilinear")


@for_each(
    [
        ("Owlv2ImageProcessor", {}, "its Owlv2ImageProcessor makes other pixels"),
        (
            "ViTImageProcessor",
            {"size": {"height": 1024, "width": 768}},
            "its ViTImageProcessor makes inputs of 768 x 1024",
        ),
        ("ViTImageProcessor", {"do_resize": False}, "its ViTImageProcessor makes inputs of"),
        ("BitImageProcessor", {"do_center_crop": False}, "its BitImageProcessor makes inputs of"),
        ("BitImageProcessor", {"do_resize": False}, "its BitImageProcessor makes other pixels .*do_resize False"),
        ("ViTImageProcessor", {"size": {"max_height": 64, "max_width": 64}}, "its ViTImageProcessor makes inputs of"),
        ("ViTImageProcessor", {"resample": 1}, "its ViTImageProcessor makes other pixels .*resample 1"),
        ("ViTImageProcessor", {"image_std": [0.5, -0.5, 0.5]}, "its ViTImageProcessor does not make white lighter"),
        ("ViTImageProcessor", {"size": "large"}, "transformers makes no image processor"),
        ("OfTomorrowImageProcessor", {}, "transformers makes no image processor"),
    ],
    arguments=3,
)
def test_what_the_zoo_cannot_do_with_an_image_is_refused(name: str, settings: dict[str, Any], found: str) -> None:
    with pytest.raises(ValueError, match=found):
        derived(name, model_type="no_such_type" if "Tomorrow" in name else "vit", **settings)


def test_a_crop_rounded_down_is_that_of_maps_workers_and_other_sizes() -> None:
    down = replace(load_catalogue()["dino_vitS16"].preprocess, resize_px=256, crop_px=225, crop_rounding="down")
    image = picture(256, 256)
    whole = build_preprocess(replace(down, crop_px=256))(image)
    cut = build_preprocess(down)(image)
    assert torch.equal(cut, whole[:, 15:240, 15:240])  # torchvision: from 16 on
    assert torch.equal(pickle.loads(pickle.dumps(build_preprocess(down)))(image), cut)
    assert torch.equal(build_preprocess(down, fast_resize=True)(image), cut)
    columns = np.broadcast_to(np.arange(256.0), (256, 256))[..., None]
    assert align_map(columns, np.ones((256, 256), bool), down)[0][0, 0, 0] == 15
    assert preprocess_at(down, 450).crop_rounding == "down"


def test_channels_in_another_order_are_so_in_every_preprocessing() -> None:
    plain = load_catalogue()["dino_vitS16"].preprocess
    flipped = replace(plain, channels="BGR")
    image = picture(300, 260)
    for fast in (False, True):
        ours = build_preprocess(flipped, fast_resize=fast)(image)
        assert torch.equal(ours, build_preprocess(plain, fast_resize=fast)(image)[[2, 1, 0]])
    card = load_catalogue()["dino_vitS16"]
    of_views: list[Tensor] = [build_view_preprocess(replace(card, preprocess=one))(image) for one in (plain, flipped)]
    assert torch.equal(of_views[1], of_views[0][[2, 1, 0]])
    assert plain.hashed.keys() == {"resize_px", "crop_px", "interpolation", "mean", "std", "fit"}
    assert flipped.hashed["channels"] == "BGR"
