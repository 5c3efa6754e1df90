"""Recipes read from cards, and what each augmentation does to an image."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from PIL import Image, ImageOps

from tests.each import for_each
from zoo.cards.catalogue import load_catalogue
from zoo.datasets.recipes import WORDS, AugmentationRecipe, AugmentationStrengths, PatchMasking, build_recipe
from zoo.datasets.views import augment_image, draw_patch_mask
from zoo.errors import QueryError

CARDS = list(load_catalogue())
SILENT = {"not applicable": "was not trained", "not published": "does not tell", "not recorded": "does not tell"}


def noise(width: int = 48, height: int = 40) -> Image.Image:
    return Image.fromarray(np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8))


def plain(words: str, *, size_px: int = 32, **strengths: object) -> AugmentationRecipe:
    """A recipe that does what it names to every view, at the least strengths that say so."""
    found = build_recipe(load_catalogue()["dino_vitS16"], recipe=words)
    always = {
        "flip_probability": 1.0,
        "jitter_probability": 1.0,
        "gray_probability": 1.0,
        "blur_probability": (1.0,),
        "solarize_probability": (1.0,),
        "photometric_probability": 1.0,
        "erasing_probability": 1.0,
    }
    chosen = replace(AugmentationStrengths(), **(always | strengths))  # type: ignore[arg-type]
    return replace(found, strengths=chosen, size_px=size_px, resize_px=size_px, patch_size_px=4)


def view(
    image: Image.Image, recipe: AugmentationRecipe, number: int = 0, *, seed: int = 0, name: str = "a"
) -> np.ndarray:
    return np.asarray(augment_image(image, recipe, seed=seed, name=name, view=number))


@for_each(CARDS)
def test_every_augmentation_of_every_card_is_made_or_named_as_left_out(name: str) -> None:
    card = load_catalogue()[name]
    named = card.pretraining.augmentations
    if not isinstance(named, tuple):
        with pytest.raises(QueryError, match=SILENT[named.value]):
            build_recipe(card)
        return
    try:
        recipe = build_recipe(card)
    except QueryError as error:
        assert not set(named) & WORDS.keys(), error
        return
    left_out = {word for word, _ in recipe.left_out}
    assert set(named) <= {*recipe.augmentations, *left_out, "normalize"}
    assert set(recipe.augmentations) <= set(named)
    for word in left_out:
        assert any(word in note for note in recipe.notes)
    found = augment_image(noise(64, 56), recipe, seed=0, name="a", view=0)
    assert found.size == (recipe.size_px, recipe.size_px) and found.mode == "RGB"


@for_each(
    [
        ("simclr_rn50", {"jitter": (0.8, 0.8, 0.8, 0.2), "crop_scale": (0.08, 1.0), "blur_probability": (0.5,)}),
        ("byol_rn50_bs4096", {"blur_probability": (1.0, 0.1), "solarize_probability": (0.0, 0.2)}),
        ("dino_rn50", {"crop_scale": (0.14, 1.0)}),
        ("dino_vitS16", {"crop_scale": (0.25, 1.0), "jitter": (0.4, 0.4, 0.2, 0.1), "interpolation": "bicubic"}),
        ("mae_vitB16", {"crop_scale": (0.2, 1.0), "masking": PatchMasking(share=0.75)}),
        ("beit_vitB16_pt22k", {"masking": PatchMasking(kind="blocks", share=0.4)}),
        ("pocket_simclr_rn_shapes", {"crop_scale": (0.4, 1.0), "jitter": (0.5,) * 4, "gray_probability": 0.3}),
        ("pocket_simclr_rn_digits", {"crop_scale": (0.5, 1.0), "blur_sigma_px": (1.0, 1.0)}),
        ("clip_rn50", {"crop_scale": (0.9, 1.0)}),
    ],
    arguments=2,
)
def test_strengths_are_those_that_are_published_of_the_method(name: str, expected: dict[str, object]) -> None:
    found = build_recipe(load_catalogue()[name]).strengths
    assert {field: getattr(found, field) for field in expected} == expected


def test_a_recipe_without_any_augmentation_is_refused() -> None:
    text = "normalize, "
    with pytest.raises(QueryError, match="none of which makes views that differ"):
        build_recipe(load_catalogue()["dino_vitS16"], recipe=text)


def test_each_augmentation_does_what_it_says() -> None:
    image = noise(32, 32)
    pixels = np.asarray(image)
    assert np.array_equal(view(image, plain("flip")), pixels[:, ::-1])
    assert np.array_equal(view(image, plain("solarize")), np.where(pixels < 128, pixels, 255 - pixels))
    gray = view(image, plain("gray"))
    assert np.array_equal(gray[..., 0], gray[..., 1]) and np.array_equal(
        gray[..., 0], np.asarray(ImageOps.grayscale(image))
    )
    assert view(image, plain("blur", blur_sigma_px=(1.0, 1.0))).std() < 0.5 * pixels.std()
    for words in ("color", "photometric", "crop", "rotate", "autoaugment"):
        recipe = plain(words, rotation_degrees=20.0)
        assert any(not np.array_equal(view(image, recipe, number), pixels) for number in range(8)), words


@for_each(["random", "blocks", "context"])
def test_masks_hide_their_share_of_patches_and_differ_between_views(kind: str) -> None:
    generator, share = np.random.default_rng(1), 0.4
    masks = [draw_patch_mask(PatchMasking(kind=kind, share=share), 14, 14, generator.random) for _ in range(40)]  # type: ignore[arg-type]
    hidden = np.array([mask.mean() for mask in masks])
    assert len({mask.tobytes() for mask in masks}) == 40
    if kind == "random":
        assert (hidden == int(share * 196) / 196).all()
    elif kind == "blocks":
        assert (hidden <= share + 0.01).all() and hidden.mean() > 0.8 * share
    else:  # a context of 85 to 100 % without four targets of 15 to 20 % that overlap
        assert hidden.min() > 0.3 and hidden.max() < 0.85
