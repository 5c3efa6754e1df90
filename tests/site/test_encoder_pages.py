"""The page of an encoder: what it says of the measured, the wrong, the gated, the untrained and the user's own."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from html import unescape
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.card_text import VALID
from tests.each import for_each
from tests.own_encoder import MINE, add_own_encoder
from zoo.site import encoder_pages
from zoo.site.contents import Contents, gather
from zoo.site.encoder_figures import LabelCurves, build_error_curve
from zoo.site.encoder_header import Standings
from zoo.site.expected import compute_site_errors
from zoo.site.first_page import FARTHEST, list_drawn_points
from zoo.site.rendering import SiteRenderer

SHOWN = (
    "dino_vitS16", "dino_vitS16_last", "msn_vits16_ep800", "pocket_simclr_rn_shapes", "uni_vitL16", "init_rn50",
    "deepcluster_rn50_bs512_ep200_mmselfsup", "dinov2_vitS14", "npidpp_rn50w2",
    "pe_core_vitL14_336",
)  # fmt: skip


def _pages(only: tuple[str, ...], *, with_mine: bool = False) -> Mapping[str, str]:
    contents = gather(only=only, with_mine=with_mine)
    return {
        Path(file.path).name.removesuffix(".html"): file.content.decode()
        for file in encoder_pages.build_files(contents, SiteRenderer(contents))
    }


@cache
def _shipped_standings() -> tuple[Contents, Standings]:
    contents = gather()
    return contents, Standings(contents, SiteRenderer(contents))


@cache
def _shipped() -> Mapping[str, str]:
    return _pages(SHOWN)


def _text(markup: str) -> str:
    """What stands on a page, in one line."""
    inline = re.sub(r"</?(span|a|b|code)\b[^>]*>", "", markup)
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", inline)).split())


def _section(page: str, anchor: str) -> str:
    return page.split(f'<section id="{anchor}">')[1].split("</section>")[0]


def test_a_page_opens_with_the_error_its_place_among_all_and_the_line_that_loads_it() -> None:
    page = _shipped()["dino_vitS16"]
    opening = page.split('<section class="opening"')[1].split("</section>")[0]
    words = _text(opening)
    assert "Error on ImageNet-1K, all labels 24.6 % 90 % interval 24.1 to 25.1 %, estimated: none was pub" in words
    assert "Measured by the study of Dubois et al. (2023) with a linear probe." in words
    assert "Licence: Apache-2.0; commercial use: yes; weights open." in words
    assert 'encoder, preprocess = zoo.load("dino_vitS16")' in words and 'torch.hub.load(".", "dino_vitS16"' in words
    assert re.search(r'aria-label="dino_vitS16: 24\.6 % error, 90 % interval 24\.1 to 25\.1 %, with 21\.7M', opening)
    assert page.index('class="opening"') < page.index("Main facts") < page.index('id="error"')
    assert "weights gated." in _text(_shipped()["uni_vitL16"]) and "Random weights" in _text(_shipped()["init_rn50"])


def _places(svg: bytes) -> list[tuple[float, float]]:
    """Of the points of a picture of all."""
    parts = ElementTree.fromstring(svg).findall(".//{*}path[@class='all']")
    found = re.findall(r"M(-?[0-9.]+) ([0-9.]+)h0", "".join(one.get("d", "") for one in parts))
    return [(float(x), float(y)) for x, y in found]


def test_pages_share_a_picture_of_what_the_first_page_draws_and_far_ones_one_of_all() -> None:
    contents = gather()
    renderer = SiteRenderer(contents)
    found, (dataset, known) = Standings(contents, renderer), compute_site_errors(contents)
    assert found.near.path == _shipped_standings()[1].near.path
    near = list_drawn_points([*contents.entries.values()], known, dataset)
    text = renderer.assets["standings.svg"].content
    assert found.near.n == len(near) == len(_places(text)) and max(one.y for one in near) <= FARTHEST
    assert len({*_places(text)}) > 0.97 * len(near)  # they are spread, as there
    assert b"prefers-color-scheme: dark" in text and len(text) < 20_000
    assert found.all.n == sum(one.is_drawn for one in known.values())
    assert len(_places(renderer.assets["standings-all.svg"].content)) == found.all.n
    behind = {name: re.findall(r'<image href="([^"]*)"', page) for name, page in _shipped().items()}
    assert behind["init_rn50"] == [f"../{Standings(gather(only=SHOWN), SiteRenderer(contents)).all.path}"]
    assert len({address for name, one in behind.items() if name != "init_rn50" for address in one}) == 1
    figures = [
        page.split('<svg class="standing"')[1].split("</svg>")[0] for name, page in _shipped().items() if behind[name]
    ]
    assert len(figures) > 5 and max(map(len, figures)) < 1_600


def test_the_better_ones_are_ranked_no_larger_and_err_less() -> None:
    contents, found = _shipped_standings()
    known = compute_site_errors(contents)[1]

    def has_better_ones(name: str) -> None:
        answer = found.of(contents.entries[name])
        assert answer is not None
        better = [one for one, _ in answer.better]
        assert len(better) <= 3 and bool(better) == answer.caption.endswith(("such as", "errs less:"))
        drawing = ElementTree.fromstring(str(answer.figure))
        assert next(one.text for one in drawing.iter("text")) == name
        (x, y), *places = [(float(one.get("cx", "")[:-1]), int(one.get("cy", ""))) for one in drawing.iter("circle")]
        assert 0 < x < 100 and 0 < y < 400 and all(at[0] <= x and at[1] >= y for at in places)
        assert [link.get("href") for link in drawing.iter("a")] == [
            f"{contents.entries[one.id].file}.html" for one in better
        ]
        for one in better:
            assert one.href == f"encoders/{contents.entries[one.id].file}.html"
            assert known[one.id].is_ranked and known[one.id].error < known[name].error

    for_each([*known])(has_better_ones)()


def test_without_an_error_there_is_a_sentence_and_no_figure() -> None:
    contents, found = _shipped_standings()
    answer = found.of(contents.entries["pocket_simclr_rn_shapes"])
    assert answer is not None and not answer.figure
    assert (answer.kind, answer.error) == ("Error on shapes, all labels", "55.5 %")
    alone = _pages(("pocket_init_rn", "dino_vitS16"))
    for name in ("pocket_init_rn", "dino_vitS16"):
        opening = alone[name].split('<section class="opening plain"')[1].split("</section>")[0]
        assert "<figure" not in opening and "zoo.load" in opening


def test_a_measured_encoder_has_its_components_its_curve_and_the_law() -> None:
    page = _shipped()["dino_vitS16"]
    error = _section(page, "error")
    words = _text(error)
    for part, points in (("usability", "6.0"), ("probe generalization", "13.5"), ("sum: the error", "24.6")):
        assert f"{part} {points}" in words
    assert "no interval" in words
    assert "1,281,167 (100%) 24.6 measured" in words
    assert re.search(r"1,000 78\.7 extrapolated 61\.8 to 95\.7 55\.3", words)  # as zoo recommend says it
    assert 'class="line s1 dashed"' in error and 'class="line s6 dotted"' in error and "alpha 0.144" in words
    assert "77.0*" in _text(_section(page, "reported"))
    assert "eprint = {2104.14294}" in page and "dubois2023evaluating" in page
    assert "projector.hidden_depth" in _section(page, "errata")


def test_neighbours_are_of_the_network_of_the_method_and_near_in_error() -> None:
    near = _section(_shipped()["dino_vitS16"], "near")
    kinds = dict(zip(re.findall(r"<h3>([^(:]*)", near), re.split(r"<h3>", near)[1:], strict=True))
    assert 'href="dino_vitS16_last.html"' in kinds["Variants of it"]
    assert 'href="msn_vits16_ep800.html"' in kinds["Same network "]
    assert re.search(r'href="dino_vitS16_last.html">.*?-0\.2 points', kinds["Nearest in measured error "])


def test_what_an_erratum_excludes_has_its_mark_and_reason_and_no_curve() -> None:
    page = _shipped()["deepcluster_rn50_bs512_ep200_mmselfsup"]
    assert "wrong weights" in _text(page.split('class="warning"')[1][:900])
    error = _section(page, "error")
    assert "35.5 ! measured" in _text(error)
    assert 'class="line' not in error and 'class="wrong"' in error
    assert "scaling law" not in error
    assert "pretrained=False" in _section(page, "load")


def test_a_pocket_encoder_has_intervals_learning_curves_and_metrics_without_labels() -> None:
    page = _shipped()["pocket_simclr_rn_shapes"]
    assert "Neither the study nor this project measured it on ImageNet-1K" in _text(_section(page, "error"))
    shapes = _section(page, "set-1")
    words = _text(shapes)
    assert "usability 26.1 24.6 to 27.7" in words and "linear probe 30-shot 600 61.9 59.9 to 63.2 5" in words
    assert "Learning curve on shapes: depth l1 error" in words and "trained from scratch" in words
    assert re.search(r"RankMe 19\.8 dimensions higher is better", words)
    assert "zoo-risk-logistic-3" in _section(page, "provenance") and "weights 4b735377" in page


@for_each(
    [
        ("uni_vitL16", "load", "set HF_TOKEN"),
        ("uni_vitL16", "load", "https://huggingface.co/MahmoodLab/UNI"),
        ("uni_vitL16", "reported", "0.833* fraction"),
        ("init_rn50", "load", "random ones, by the seed"),
        ("init_rn50", "provenance", "Its weights are random"),
        ("npidpp_rn50w2", "load", 'weights="PATH"'),
        ("dinov2_vitS14", "error", "zoo evaluate dinov2_vitS14 IMAGES"),
        ("dinov2_vitS14", "preprocessing", "Resize its shorter side to"),
        ("dino_vitS16", "facts", "finetuning dataset, magnification (pretraining)"),
        ("dino_vitS16", "facts", "n registers, native, size step (architecture)"),
        ("dinov2_vitS14", "facts", "distilled from dinov2_vitg14"),
        ("pe_core_vitL14_336", "disagreements", "49.1 (Efficient probing: mean of the patch tokens"),
    ],
    arguments=3,
)
def test_a_page_says(encoder: str, anchor: str, words: str) -> None:
    assert words in _text(_section(_shipped()[encoder], anchor))


def test_a_badge_says_what_is_measured_before_what_is_reported_and_stands_alone() -> None:
    said = {
        "dino_vitS16": "linear probe 24.6 % error",
        "pocket_simclr_rn_shapes": "linear probe 55.5 % error on shapes",
        "dinov2_vitS14": "reported 81.1 % linear",
        "npidpp_rn50w2": "not measured",
        "deepcluster_rn50_bs512_ep200_mmselfsup": "measured wrongly, see its errata",
    }
    for encoder, text in said.items():
        badge = _shipped()[f"{encoder}.svg"]
        assert ElementTree.fromstring(badge).findtext("{*}title") == f"{encoder}, SSL Zoo: {text}"
        assert "style" not in badge and "href" not in badge
    root = ElementTree.fromstring(encoder_pages.draw_badge("measured", '<b>&" onload="x', "a<b"))
    assert [element.text for element in root.findall(".//{*}text")][1] == '<b>&" onload="x'


def test_an_own_encoder_is_marked_and_its_texts_are_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add_own_encoder(tmp_path, monkeypatch)
    card = VALID.replace('"A paper"', '"<script>alert(1)</script>"')
    card = card.replace('url = "https://example.org/models"', 'url = "/home/me/secret/run.pth"')
    card = card.replace("https://arxiv.org/abs/2104.14294", "https://me:word@host/abs?token=secret")
    (tmp_path / "metadata" / "mine.toml").write_text(card)
    page = _pages((MINE,), with_mine=True)[MINE]
    assert "<script>alert" not in page and "&lt;script&gt;alert(1)" in page
    assert "secret" not in page and "word@" not in page and 'href="https://host/abs"' in page
    assert page.count('class="mine"') >= 2 and "registered only on the machine" in page
    words = _text(_section(page, "error"))
    assert "usability 10.5" in words and "Measured by 'me'" in words
    assert MINE not in gather().entries


def test_expected_errors_pass_through_measurements_and_know_their_miss() -> None:
    curves = LabelCurves()
    summary = gather(only=["dino_vitS16"]).entries["dino_vitS16"].summary
    assert summary is not None
    curve = build_error_curve(summary)
    found = {one.n_labels: one for one in curves.expected(curve, (1_000, 5_000, 100_000))}
    assert found[5_000].error == curve[5_000] and found[5_000].kind == "measured"
    assert found[1_000].kind == "extrapolated" and found[100_000].kind == "interpolated"
    assert all(one.low is not None and one.low < one.error < (one.high or 0) for one in found.values())
    assert curves.expected({5_000: 0.0}, (5_000,)) == [] and curves.expected({}, (5_000,)) == []
