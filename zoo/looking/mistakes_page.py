"""Mistakes of a probe as sections of a page: images with captions, or their names alone.

A wrong prediction is said in words, never by colour alone.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any

from ..cards.answers import AnswerTable, render_html_table
from ..errors import ZooError, format_count
from ..optional import require_extra
from ..version import __version__
from .mistakes import (
    Judged,
    Mistakes,
    NearPair,
    build_predictions,
    select_most_sure,
    select_near_boundary,
    summarise_mistakes,
)
from .pages import encode_data_address, make_thumbnail, note_stretched, render_template

if TYPE_CHECKING:
    from ..datasets import ImageSet

    Images = Mapping[str, ImageSet]

PX = 120  # of a thumbnail: with the at most 152 of a page it stays below 3 MB, even of noise
N_LABELS, N_DUPLICATES = 24, 12  # that are shown
N_SURE_CLASSES, N_SURE = 8, 8
_PARTS = {"train": "training image", "val": "test image"}


def format_probability(p: float) -> str:
    """A probability; 0 and 100 % are never said.

    >>> [format_probability(p).replace("\\xa0", " ") for p in (0.9996, 0.25, 0.001)]
    ['>99 %', '25 %', '<1 %']
    """
    return ">99\xa0%" if p > 0.99 else "<1\xa0%" if p < 0.01 else f"{100 * p:.0f}\xa0%"


def build_mistake_sections(found: Mistakes, images: Images | None) -> list[dict[str, Any]]:
    """What a page shows of mistakes, for the macro of ``mistakes.html.jinja``; without images their names alone."""
    return add_images(_sections(found, format_count(found.n_test, "test image")), images)


def build_prediction_sections(
    names: Sequence[str], classes: Sequence[str], p: Any, y: Any, *, is_tags: bool, images: Images | None
) -> list[dict[str, Any]]:
    """What a page shows of predictions: mistakes where labels ``y`` are known, the least and the most sure images."""
    if not len(names):
        return []
    each = build_predictions(names, classes, p, y, is_tags=is_tags)
    if y is None:
        sections = [_boundary(select_near_boundary(each, 2 * N_SURE))]
    else:
        sections = _sections(summarise_mistakes(each, is_tags=is_tags), format_count(len(names), "image"))
    sure = select_most_sure(each[0], N_SURE_CLASSES, N_SURE)
    if is_tags:
        sure = {
            one.classes[1]: select_most_sure(one, 2, N_SURE).get(one.classes[1], ()) for one in each[:N_SURE_CLASSES]
        }
    rows = {
        name: [_tile(one, format_probability(one.probability), *_verdict(one), head="") for one in some]
        for name, some in sure.items()
        if some
    }
    text = "The images with the largest probability of each predicted class; classes predicted most often first."
    return add_images([*sections, make_section("Most sure", text, *rows.items())], images)


def _sections(found: Mistakes, n: str) -> list[dict[str, Any]]:
    first, n_wrong = "The", found.n_wrong
    if n_wrong is not None and n_wrong > len(found.confident):
        first = f"{len(found.confident):,} of {n_wrong:,}"
    text = f"{first} wrong predictions of {n}, with the largest probabilities: label → prediction, and its probability."
    if not found.confident:
        text = f"No mistakes: all {n} are predicted as they are labelled."
    tiles = [_tile(one, format_probability(one.probability)) for one in found.confident]
    sections = [make_section("Most confident mistakes", text, ("", tiles))]
    if found.confusions:
        rows = {
            f"{one.label} predicted as {one.predicted}: {one.n or 'none'}": [
                _tile(image, format_probability(image.probability), head="") for image in one.images
            ]
            for one in found.confusions
        }
        text = "Pairs with the most mistakes between them, both directions together; the most confident images."
        sections.append(make_section("Classes taken for each other", text, *rows.items()) | {"is_halved": True})
    sections.append(_boundary(found.boundary))
    if (wrong := found.wrong_labels) is not None and not wrong.cannot_tell:
        text = (
            f"{wrong.n_found:,} of {wrong.n_judged:,} labels are contradicted by a probe that never saw the image "
            f"({wrong.n_folds}-fold cross-validation over training images, settings chosen once; test images by the "
            f"probe of all training images), {wrong.n_confident:,} of them confidently. The most contradicted come "
            "first: label → what the probe says. Some labels are wrong, other images are hard."
        )
        tiles = [
            _tile(
                one,
                f"{format_probability(one.probability)}, label {format_probability(one.label_probability or 0)}",
                _PARTS[one.part],
            )
            for one in wrong.found[:N_LABELS]
        ]
        sections.append(make_section("Labels to check", text, ("", tiles)))
    if (near := found.near_duplicates) is not None and near.pairs and near.usual is not None:
        text = (
            f"{len({pair.test for pair in near.pairs}):,} of {n} are nearer to a training image than chance explains, "
            "and no exact copies of one: errors on them may be too low. Distance: 1 - cosine of the features; usually "
            f"the nearest training image is at {near.usual:.2g}. Left: test image."
        )
        tiles = [build_pair_tile(pair, ("val", "train"), ("test ", "training ")) for pair in near.pairs[:N_DUPLICATES]]
        sections.append(make_section("Near duplicates: test and training", text, ("", tiles)))
    return sections


def build_pair_tile(pair: NearPair, parts: tuple[str, str], called: tuple[str, str] = ("", "")) -> dict[str, Any]:
    """Two images that are near each other, from these parts, and what they are called where their labels differ."""
    head = f"✗ labels differ: {called[0]}{pair.test_label}, {called[1]}{pair.train_label}"
    if pair.train_label == pair.test_label:
        head = f"both {pair.test_label}"
    lines = ["exact copy" if pair.is_copy else f"distance {pair.distance:.2g}"]
    return {"refs": [(parts[0], pair.test), (parts[1], pair.train)], "head": head, "lines": lines}


def _boundary(some: Iterable[Judged]) -> dict[str, Any]:
    tiles = []
    for one in some:
        both = f"{format_probability(one.probability)} and {format_probability(one.second_probability)}"
        tiles.append(_tile(one, both, *_verdict(one), head=f"{one.predicted} or {one.second}?"))
    return make_section("Least sure", "The smallest differences between the two largest probabilities.", ("", tiles))


def _tile(one: Judged, *lines: str, head: str | None = None) -> dict[str, Any]:
    """An image with its label and prediction, or another head, and further lines."""
    head = f"{one.label} → {one.predicted}" if head is None else head
    return {"refs": [(one.part, one.image)], "head": head, "lines": lines}


def _verdict(one: Judged) -> list[str]:
    return [] if one.label is None else ["✓ right" if one.label == one.predicted else f"✗ wrong, label {one.label}"]


def make_section(title: str, text: str, *rows: tuple[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Rows of tiles with their titles; those with neither are left out."""
    kept = [{"title": name, "tiles": tiles} for name, tiles in rows if name or tiles]
    return {"title": title, "text": text, "rows": kept, "is_halved": False}


def add_images(sections: list[dict[str, Any]], images: Images | None) -> list[dict[str, Any]]:
    """Sections whose tiles have the addresses of their images: "" of those that cannot be read, None of all without."""
    rows = {part: {name: row for row, name in enumerate(some.names)} for part, some in (images or {}).items()}

    stretched = set()

    @cache
    def picture(part: str, name: str) -> dict[str, Any]:
        address, is_small = None if images is None else "", False
        if images and name in rows.get(part, ()):
            with suppress(ZooError):  # gone, or another since its features were computed
                image = images[part].images[rows[part][name]]
                small = make_thumbnail(image, PX)
                stretched.update([(part, name)] if small.info.get("stretched") else [])
                address, is_small = encode_data_address(small), max(image.size) <= PX // 2
        return {"name": name, "address": address, "is_small": is_small}

    for tile in (tile for section in sections for row in section["rows"] for tile in row["tiles"]):
        tile["images"] = [picture(*ref) for ref in tile.pop("refs")]
    if stretched:
        sections[0]["text"] += f" On this page {note_stretched(len(stretched))}."
    return sections


def render_mistakes_page(
    title: str,
    answer: Sequence[str],
    sections: Any,
    *,
    tables: Sequence[AnswerTable] = (),
    figures: Sequence[Mapping[str, Any]] = (),
    notes: Iterable[str] = (),
    facts: str = "",
) -> str:
    """A page of mistakes as text."""
    with require_extra("study", needed_for="A page"):
        from markupsafe import Markup
    shown = [(one.title, Markup(render_html_table(one, kind="tight"))) for one in tables]
    notes = [*notes, *(note for one in tables for note in one.notes)]
    made_by = f"{facts} Made by SSL Zoo {__version__}, {datetime.datetime.now(tz=datetime.UTC).date().isoformat()}."
    return render_template(
        "looking/judged.html.jinja",
        title=title, answer=answer, tables=shown, figures=figures, sections=sections, notes=notes, made_by=made_by,
    )  # fmt: skip
