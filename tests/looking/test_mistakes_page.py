"""Pages of mistakes: images and captions, names alone, what is gone, text that is no HTML, and their size."""

from __future__ import annotations

import base64
import io
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.choosing.test_page import Reader
from zoo.datasets.images import ImageSet, LazyImages, array_images
from zoo.errors import CorruptImage
from zoo.looking.mistakes import (
    Confusion,
    Judged,
    Mistakes,
    NearDuplicates,
    NearPair,
    WrongLabels,
)
from zoo.looking.mistakes_page import build_mistake_sections, build_prediction_sections, render_mistakes_page
from zoo.looking.pages import MOST_BYTES

BAD = "<script>alert('x')</script> & \"co\""
N = 40


def images(part: str, size: int = 8) -> ImageSet:
    pixels = np.random.default_rng(size).integers(0, 256, (N, size, size, 3), np.uint8)
    names = [f"{part}/{number}.png" for number in range(N)]
    return array_images(pixels, np.arange(N) % 2, name="noise", split=part, classes=("a", "b"), names=names)


def judged(number: int, *, part: str = "val", label: str = BAD, predicted: str = "b") -> Judged:
    return Judged(
        part=part,
        image=f"{part}/{number}.png",
        label=label,
        predicted=predicted,
        probability=0.75,
        label_probability=0.25,
        second=label,
        second_probability=0.25,
    )


def everything() -> Mistakes:
    some = tuple(judged(number) for number in range(8))
    there, back = (
        Confusion(label=BAD, predicted="b", n=12, images=some),
        Confusion(label="b", predicted=BAD, n=0, images=()),
    )
    return Mistakes(
        encoder="tiny",
        n_test=N,
        n_wrong=17,
        confident=tuple(judged(number) for number in range(16)),
        boundary=(judged(0, predicted=BAD), judged(1)),
        near_duplicates=NearDuplicates(
            usual=0.1,
            pairs=(
                NearPair(train="train/3.png", test="val/4.png", train_label="a", test_label="b", distance=0.002),
                NearPair(train="train/5.png", test="val/6.png", train_label="a", test_label="a", distance=0.003),
            ),
        ),
        confusions=(there, back),
        wrong_labels=WrongLabels(
            n_judged=2 * N,
            n_folds=5,
            n_found=9,
            n_confident=3,
            found=tuple(judged(number, part="train") for number in range(9)),
        ),
    )


def test_labels_that_cannot_be_told_to_be_wrong_are_not_shown() -> None:
    found = everything()
    assert found.wrong_labels is not None
    blind = replace(found, wrong_labels=replace(found.wrong_labels, cannot_tell="It errs on half."))
    assert "contradicted" in shown(found, None) and "contradicted" not in shown(blind, None)


def shown(found: Mistakes, some: dict[str, ImageSet] | None) -> str:
    return render_mistakes_page(
        f"Mistakes of {BAD}", [BAD], build_mistake_sections(found, some), notes=[BAD], facts=BAD
    )


def test_every_section_has_its_images_and_words() -> None:
    text = shown(everything(), {"train": images("train"), "val": images("val")})
    said = Reader(text).text
    for words in (
        "16 of 17 wrong predictions of 40 test images",
        f"{BAD} predicted as b: 12",
        f"b predicted as {BAD}: none",
        "✓ right",
        f"✗ wrong, label {BAD}",
        "9 of 80 labels are contradicted",
        "3 of them confidently",
        "5-fold cross-validation",
        "training image",
        "✗ labels differ",
        "both a",
        "0.002",
    ):
        assert words in said, words
    assert len(re.findall("<img ", text)) == 16 + 8 + 2 + 9 + 4
    assert text.count('class="small"') == text.count("<img ")  # 8 pixels are enlarged crisply
    assert not set(re.findall(r"(?:src|href)=\"(?!data:image/)([^\"]*)\"", text)) and "<script" not in text
    first = re.search(r'src="data:image/png;base64,([^"]+)" alt="val/0.png"', text)
    assert first is not None
    pixels = np.asarray(Image.open(io.BytesIO(base64.b64decode(first[1]))))
    assert np.array_equal(pixels, np.asarray(images("val").images[0]))


def test_without_images_there_are_names_alone() -> None:
    text = shown(everything(), None)
    assert "<img" not in text and "data:image" not in text and "cannot be read" not in text
    assert "val/15.png" in text and "train/3.png" in text


def test_an_image_that_is_gone_is_named() -> None:
    val = images("val")

    def read(number: int) -> Image.Image:
        if number == 2:
            raise CorruptImage.of("val/2.png", image_set="noise", reason="No such file or directory")
        return val.images[number]

    gone = ImageSet(
        **{name: getattr(val, name) for name in ("name", "split", "labels", "classes", "names", "fingerprint")},
        images=LazyImages(read, np.arange(N)),
    )
    text = shown(everything(), {"train": images("train"), "val": gone})
    assert text.count("cannot be read") == 2 and text.count("<img ") == 39 - 2
    assert "val/2.png" in Reader(text).text
    assert text.count('alt="val/3.png"') == 2  # the others stay where they are


def test_no_mistakes_are_said_and_nothing_else() -> None:
    none = Mistakes(
        encoder="tiny",
        n_test=3,
        n_wrong=0,
        confident=(),
        boundary=(judged(0, label="b"),),
        near_duplicates=NearDuplicates(usual=0.1, pairs=()),
    )
    said = Reader(shown(none, {"val": images("val")})).text
    assert "No mistakes: all 3 test images are predicted as they are labelled" in said
    assert "Classes taken" not in said and "duplicates" not in said and "Labels to check" not in said


def test_large_images_fit_into_a_page() -> None:
    text = shown(everything(), {"train": images("train", 400), "val": images("val", 400)})
    assert sum(map(len, re.findall(r'src="([^"]*)"', text))) <= MOST_BYTES
    assert 'class="small"' not in text and "data:image/jpeg" in text


@pytest.mark.parametrize("is_tags", [False, True])
@pytest.mark.parametrize("knows", [False, True])
def test_predictions_show_the_most_and_the_least_sure(is_tags: bool, knows: bool) -> None:
    p = np.array([[0.9, 0.1], [0.52, 0.48], [0.2, 0.8], [0.3, 0.7]])
    labels: Any = np.array([[1, 0], [1, 0], [0, 0], [0, 1]], bool) if is_tags else np.array([0, 0, 0, 1])
    names = [f"val/{number}.png" for number in range(4)]
    found = build_prediction_sections(
        names, (BAD, "b"), p, labels if knows else None, is_tags=is_tags, images={"val": images("val")}
    )
    titles = [section["title"] for section in found]
    assert titles[-2:] == ["Least sure", "Most sure"] and ("Most confident mistakes" in titles) == knows
    assert {row["title"] for row in found[-1]["rows"]} == {BAD, "b"}
    first = found[-2]["rows"][0]["tiles"][0]
    assert first["images"][0]["name"] == "val/1.png"
    said = Reader(render_mistakes_page("Predictions", [], found)).text
    assert ("✗ wrong" in said) == knows
    if knows:
        assert found[0]["rows"][0]["tiles"][0]["images"][0]["name"] == "val/2.png"
    only = build_prediction_sections(names, (BAD, "b"), p * [1, 0.1], None, is_tags=True, images=None)
    assert [row["title"] for row in only[-1]["rows"]] == [BAD]  # what is never predicted is left out
    assert build_prediction_sections([], ("a", "b"), np.empty((0, 2)), None, is_tags=is_tags, images=None) == []
