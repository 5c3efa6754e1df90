"""From images to inputs: against the classic transforms, from every mode, in workers that know nothing of the zoo."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import torch
from PIL import Image
from torchvision import transforms
from torchvision.datasets import FakeData
from torchvision.transforms import v2
from transformers import BitImageProcessorPil, CLIPImageProcessorPil, SiglipImageProcessorPil
from transformers.image_processing_utils import BaseImageProcessor

from tests.each import for_each
from tests.published import EARLY
from zoo import regression_check
from zoo.cards.catalogue import load_catalogue
from zoo.cards.schema import Preprocess
from zoo.encoders.preprocess import build_preprocess
from zoo.features.store import hash_preprocess

PUBLISHED = list(dict.fromkeys(card.preprocess for card in EARLY))
USUAL = load_catalogue()["simclr_rn50"].preprocess
MODES = ["1", "L", "LA", "P", "PA", "RGB", "RGBA", "RGBX", "CMYK", "YCbCr", "LAB", "HSV"]


def noise(width: int, height: int, *, seed: int = 0) -> Image.Image:
    """An RGB image of random pixels."""
    pixels = torch.randint(0, 256, (height, width, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(seed))
    return Image.fromarray(pixels.numpy())


def classic(preprocess: Preprocess) -> transforms.Compose:
    interpolation = {
        "bilinear": transforms.InterpolationMode.BILINEAR,
        "bicubic": transforms.InterpolationMode.BICUBIC,
    }[preprocess.interpolation]
    return transforms.Compose(
        [
            transforms.Resize(
                (preprocess.resize_px, preprocess.resize_px) if preprocess.fit == "squash" else preprocess.resize_px,
                interpolation=interpolation,
            ),
            transforms.CenterCrop(preprocess.crop_px),
            transforms.ToTensor(),
            transforms.Normalize(preprocess.mean, preprocess.std),
        ]
    )


@for_each([(one, size) for one in PUBLISHED for size in ((500, 375), (375, 500), (60, 91), (224, 224))], arguments=2)
def test_an_rgb_image_is_treated_as_by_the_classic_transforms_to_the_last_bit(
    preprocess: Preprocess, size: tuple[int, int]
) -> None:
    image = noise(*size)
    ours = build_preprocess(preprocess)(image)
    assert ours.shape == (3, preprocess.crop_px, preprocess.crop_px)
    assert ours.dtype == torch.float32
    assert torch.equal(ours, classic(preprocess)(image))


@for_each(
    [
        (px, size, fit)
        for px in (224, 8)
        for size in ((7, 5), (224, 100), (31, 224), (300, 225))
        for fit in ("crop", "squash")
    ],
    arguments=3,
)
def test_steps_are_torchvisions_where_the_crop_is_larger_than_the_image(
    px: int, size: tuple[int, int], fit: Any
) -> None:
    small = replace(USUAL, resize_px=97, crop_px=px, fit=fit)
    image = noise(*size)
    assert torch.equal(build_preprocess(small)(image), classic(small)(image))
    assert repr(build_preprocess(small)) == repr(
        transforms.Compose(
            [
                v2.RGB(),
                transforms.Resize(small.resize_size),
                transforms.CenterCrop((px, px)),
                transforms.ToTensor(),
                transforms.Normalize(list(small.mean), list(small.std)),
            ]
        )
    )


def bioclip() -> transforms.Compose:
    """That of the package pybioclip, which resizes floating-point numbers."""
    return transforms.Compose(
        [transforms.ToTensor(), transforms.Resize((224, 224), antialias=True), transforms.Normalize(*OPENAI)]
    )


def clip(mean: Sequence[float], std: Sequence[float]) -> transforms.Compose:
    """That of OpenAI's code."""
    resize = transforms.Resize(224, interpolation=transforms.InterpolationMode.BICUBIC)
    return transforms.Compose(
        [resize, transforms.CenterCrop(224), transforms.ToTensor(), transforms.Normalize(mean, std)]
    )


OPENAI = ((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711))
GREY = {"image_mean": [0.5307] * 3, "image_std": [0.2583] * 3}
OF_SOURCES: dict[str, Any] = {  # what the sources of encoders of medicine and biology make of an image
    "rad_dino_vitB14": BitImageProcessorPil(size={"shortest_edge": 518}, crop_size=518, **GREY),
    "medsiglip_vitSO400M14_448": SiglipImageProcessorPil(size={"height": 448, "width": 448}),
    "chexagent_vitL16_512": SiglipImageProcessorPil(size={"height": 512, "width": 512}),
    "plip_vitB32": CLIPImageProcessorPil(),
    "biomedclip_vitB16": clip(*OPENAI),
    "monet_vitL14": clip((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "farl_vitB16_ep64": clip(*OPENAI),
    "bioclip_vitB16": bioclip(),
    "bioclip2_vitL14": bioclip(),
    "bioclip2_5_vitH14": bioclip(),
}


@for_each(OF_SOURCES)
def test_an_image_is_treated_as_the_sources_of_medicine_and_biology_treat_it(name: str) -> None:
    image, theirs = noise(700, 560), OF_SOURCES[name]
    if isinstance(theirs, BaseImageProcessor):
        expected = theirs(image, return_tensors="pt")["pixel_values"][0]
    else:
        expected = theirs(image)
    difference = (build_preprocess(load_catalogue()[name].preprocess)(image) - expected).abs().max()
    assert difference < (1 / 255 / 0.26 if "bioclip" in name else 1e-5)  # a level of 8 bits, to which Pillow rounds


@for_each([(px, size) for px in (224, 256) for size in ((500, 375), (60, 91), (3, 4000))], arguments=2)
def test_a_squashed_image_is_whole(resize_px: int, size: tuple[int, int]) -> None:
    squashed = replace(USUAL, fit="squash", resize_px=resize_px)
    image = noise(*size)
    assert torch.equal(build_preprocess(squashed)(image), classic(squashed)(image))
    assert torch.equal(pickle.loads(pickle.dumps(build_preprocess(squashed)))(image), classic(squashed)(image))
    assert hash_preprocess(build_preprocess(squashed)) != hash_preprocess(
        build_preprocess(replace(squashed, fit="crop"))
    )


@for_each(MODES)
def test_an_image_of_8_bits_of_any_mode_becomes_an_rgb_image_as_pillow_does_it(mode: str) -> None:
    image = Image.new("P" if mode == "PA" else mode, (300, 280))
    image = image.convert("PA") if mode == "PA" else image  # opaque
    image.paste(noise(300, 280).convert(mode) if mode not in ("LAB", "PA") else image)
    for preprocess in PUBLISHED:
        ours = build_preprocess(preprocess)(image)
        assert ours.shape == (3, preprocess.crop_px, preprocess.crop_px)
        assert torch.equal(ours, classic(preprocess)(image.convert("RGB")))


def test_shades_of_16_bits_and_of_floating_point_stay_what_they_are() -> None:
    plain = Preprocess(resize_px=8, crop_px=8, interpolation="bilinear", mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0))
    grey = torch.full((3, 8, 8), 102 / 255)
    for image in (Image.new("I;16", (8, 8), 102 * 257), Image.new("F", (8, 8), 0.4), Image.new("L", (8, 8), 102)):
        assert torch.equal(build_preprocess(plain)(image), grey)


def test_a_preprocessing_has_the_hash_it_has_always_had() -> None:
    preprocess = build_preprocess(USUAL)
    assert hash_preprocess(preprocess) == hash_preprocess(transforms.Compose([v2.RGB(), *preprocess.transforms[1:]]))


def test_in_a_process_where_no_zoo_can_be_imported_it_preprocesses_the_same(
    run_apart: Callable[..., CompletedProcess[str]], tmp_path: Path
) -> None:
    images = FakeData(size=4, image_size=(3, 300, 250), transform=build_preprocess(USUAL))
    script = (
        "import pickle, sys, torch\n"
        "images = pickle.loads(bytes.fromhex(sys.argv[1]))\n"
        "torch.save(torch.stack([images[index][0] for index in range(4)]), sys.argv[2])\n"
        "print(images.transform, 'zoo' in sys.modules)\n"
    )
    done = run_apart(script, pickle.dumps(images).hex(), tmp_path / "batch", warm=True)
    assert done.stdout.strip() == f"{build_preprocess(USUAL)!r} False", done.stderr
    assert torch.equal(torch.load(tmp_path / "batch"), torch.stack([images[index][0] for index in range(4)]))


@for_each(["landscape", "portrait", "badge", "sign"])
def test_resizing_as_a_tensor_moves_pixels_by_little_and_has_another_hash(name: str) -> None:
    card = load_catalogue()["sup_efficientnet_lite0"].preprocess
    exact, fast = build_preprocess(card), build_preprocess(card, fast_resize=True)
    image = Image.open(Path(regression_check.__file__).parent / "check_images" / f"{name}.png")
    steps = (exact(image) - fast(image)).abs() * torch.tensor(card.std).view(3, 1, 1) * 255
    assert steps.max() < 3.01 and steps.mean() < 0.2
    assert hash_preprocess(fast) != hash_preprocess(exact)
    assert torch.equal(pickle.loads(pickle.dumps(fast))(image), fast(image))
