"""Model cards: true for every encoder, with code that runs and licences as the Hub writes them."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from huggingface_hub import ModelCard
from PIL import Image
from safetensors.torch import save_file

from tests.each import for_each
from tests.result_rows import AddRows, user_of
from zoo import regression_check
from zoo.cards.catalogue import load_catalogue
from zoo.cards.licences import LICENCES
from zoo.cards.schema import NOT_PUBLISHED, EncoderCard, Missing
from zoo.encoders import build_encoder
from zoo.encoders.preprocess import build_preprocess
from zoo.hub.modelcard import (
    build_hub_licence,
    build_model_card,
    describe_licence_conditions,
    describe_redistribution,
    format_plain_code,
    format_zoo_code,
)
from zoo.results.derived import seed_means, summaries
from zoo.results.values import select_newest_protocols
from zoo.weights.store import FileOrigin, WeightsRecord

ONE_A_FAMILY = {card.family: card.id for card in load_catalogue().values() if not card.is_untrained}
TINY: dict[str, Any] = {"depth": 4, "embed_dim": 32, "num_heads": 2}
WITHOUT_CLASS_TOKEN = {"class_token": False, "global_pool": "avg"}
SMALL_CONVNEXT = {"depths": [1, 1, 1, 1], "dims": [8, 16, 24, 32]}


@pytest.fixture
def add_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AddRows:
    return user_of(tmp_path, monkeypatch)


def record_of(card: EncoderCard) -> WeightsRecord:
    places = (str(card.weights.url), *card.weights.companions)
    return WeightsRecord(
        encoder=card.id,
        origins=tuple(
            FileOrigin(place=place, address=place, sha256="1" * 64, size_bytes=12_345, format="torch pickle")
            for place in places
        ),
        layout="dino",
        layout_version=1,
        architecture="",
        sha256="2" * 64,
        size_bytes=10,
        sums=(),
        created="2026-01-31",
        versions={"torch": "2.15.0"},
    )


def text_of(card: EncoderCard) -> str:
    return str(build_model_card(card, record_of(card)))


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)\n```", text, flags=re.DOTALL)


@for_each(ONE_A_FAMILY.values())
def test_a_model_card_is_whole_and_true_for_every_family(name: str) -> None:
    card = load_catalogue()[name]
    text = text_of(card)
    read = ModelCard(text)
    assert str(read) == text
    believed = summaries(exclude_wrong=True).get(name)
    values = [result.metric_value for result in read.data.eval_results or []]
    assert values == pytest.approx([100 - error for error in believed.errors.values()] if believed else [], abs=5e-4)
    assert all(0 < value < 100 for value in values)
    for block in blocks(text, "python"):
        compile(block, name, "exec")
    for erratum in card.errata:
        assert (erratum.reason in text) == (erratum.published is not NOT_PUBLISHED)
    assert not re.search(r"None|Missing|NOT_|\{|\}", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    for line in text.splitlines():
        if line.startswith("| "):
            assert len(re.findall(r"(?<!\\)\|", line)) in (3, 4, 5, 9)
    titles = [card.paper.title] if isinstance(card.paper.title, str) else []
    assert all(f"title = {{{title}}}" in text for title in titles)


CASES = {
    "torchvision": ("simclr_rn50", {"backbone": "torchvision:resnet18"}, {"dim": 512}),
    "torchvision with options": ("sup_rn50", {"options": {"width_per_group": 16, "zero_init_residual": True}}, {}),
    "timm, pooled": ("sup_convnextS", {"options": SMALL_CONVNEXT}, {"dim": 32}),
    "timm, squashed": ("fcmae_convnextv2H_ft22k_ft1k_384", {"options": SMALL_CONVNEXT}, {"dim": 32}),
    "timm, as it pools": ("fcmae_convnextv2N_ft1k", {"options": SMALL_CONVNEXT}, {"dim": 32}),
    "mean of patch tokens": ("ijepa_vitH14_in1k", {"options": TINY | WITHOUT_CLASS_TOKEN}, {"dim": 32}),
    "pooled by attention": ("clip_rn50", {"options": {"width_factor": 0.25}}, {"dim": 512}),
    "class token": ("mocov3_vitS_ep300", {"options": TINY}, {"dim": 32}),
    "class token of BEiT": ("beit_vitB16_pt22k", {"options": TINY}, {"dim": 32}),
    "class tokens of four blocks": ("dino_vitS16", {"options": TINY}, {"dim": 128}),
    "interleaved": ("dino_vitB16", {"options": TINY}, {"dim": 64}),
    "concatenated": ("clip_vitL14_px336_extractB", {"options": TINY}, {"dim": 64}),
    "projected": ("clip_vitL14_px336_extractPred", {"options": TINY}, {"dim": 24}),
    "class token and projection": ("clip_vitL14_px336_extractPredCls", {"options": TINY}, {"dim": 56}),
}


def test_the_code_without_the_zoo_gives_the_same_features(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    image = Image.open(Path(regression_check.__file__).parent / "check_images" / "landscape.png").convert("RGB")
    monkeypatch.chdir(tmp_path)
    image.save("photo.jpg")
    for what, (name, architecture, representation) in CASES.items():
        card = load_catalogue()[name]
        card = replace(
            card,
            architecture=replace(card.architecture, **architecture),
            representation=replace(card.representation, **representation),
        )
        encoder = build_encoder(card)
        source = torch.Generator().manual_seed(1)
        for tensor in encoder.state_dict().values():
            if tensor.is_floating_point():
                tensor.add_(torch.rand(tensor.shape, generator=source) * 0.01)
        save_file(encoder.state_dict(), "model.safetensors")
        code = format_plain_code(card)
        assert code is not None, what
        namespace: dict[str, Any] = {}
        exec(code, namespace)
        expected = encoder(build_preprocess(card.preprocess)(Image.open("photo.jpg")).unsqueeze(0))
        assert expected.shape == (1, card.representation.dim), what
        assert torch.isfinite(expected).all(), what
        assert torch.equal(namespace["features"], expected), what


def test_every_card_has_code_without_the_zoo_or_says_why_not() -> None:
    for card in load_catalogue().values():
        has_none = not card.architecture.backbone.startswith(("timm:", "torchvision:"))
        has_none = has_none or card.representation.layer == "pred"
        assert (format_plain_code(card) is None) == has_none
        compile(format_zoo_code(card), card.id, "exec")
    text = text_of(load_catalogue()["byol_rn50_bs4096"])
    assert "Neither torchvision nor timm builds this encoder by itself" in text
    assert len(blocks(text, "python")) == 1


def test_measurements_under_an_erratum_are_left_out_or_doubted_and_none_are_made_up() -> None:
    text = text_of(load_catalogue()["deepcluster_rn50_bs512_ep200_mmselfsup"])
    assert ModelCard(text).data.eval_results is None
    assert "**Caution (wrong weights).** In all likelihood measured on SimCLR weights" in text
    assert "5 measured settings are left out here for that." in text
    text = text_of(load_catalogue()["openclip_vitH14_extractPred"])
    assert len(ModelCard(text).data.eval_results) == 5
    assert "**Caution (suspicious).** Its full-shot error has every digit in common" in text
    assert "are left out here" not in text
    text = text_of(load_catalogue()["swav_rn50w5"])
    assert "metrics" not in ModelCard(text).data.to_dict()
    assert "dubois2023evaluating" not in text


def test_measurements_on_other_data_sets_are_listed_with_protocol_and_source(add_rows: AddRows) -> None:
    card = load_catalogue()["pocket_init_rn"]
    add_rows({"encoder": card.id, "dataset": "birds", "value": "24.5", "n_train": "300", "source": "a field trip"})
    text = text_of(card)
    assert "Nothing was measured yet" not in text
    assert (
        "| linear probe error, percent | train -> val | 300 | 24.5 | 24.1 to 24.9 | 1 | mine | a field trip |" in text
    )
    measured = [mean for mean in seed_means() if mean.encoder == card.id]
    newest = select_newest_protocols(mean.protocol for mean in measured)
    assert "zoo-logistic-3" in newest
    expected = [mean for mean in measured if mean.protocol in newest]
    tables = text.partition("## Results")[2].partition("## Training")[0]
    headings = re.findall(r"### Measured on ([\w-]+)", tables)
    assert {mean.dataset for mean in expected} == set(headings)
    assert len(re.findall(r"^\| \w", tables, flags=re.MULTILINE)) == len(expected) + len(headings)  # and a head each


@pytest.mark.parametrize(
    ("source", "name", "url"), [("me", None, None), ("https://example.org/runs", *["https://example.org/runs"] * 2)]
)
def test_the_source_of_ones_own_measurements_is_named(
    add_rows: AddRows, source: str, name: str | None, url: str | None
) -> None:
    row = {"encoder": "swav_rn50w5", "value": "20.25", "ci_low": "", "ci_high": ""}
    add_rows(row | {"source": "older", "date": "2020-01"}, row | {"source": source, "value": "30.125"})
    text = text_of(load_catalogue()["swav_rn50w5"])
    (result,) = ModelCard(text).data.eval_results
    assert (result.metric_value, result.source_name, result.source_url) == (69.875, name, url)
    assert f"Measured by {f'[{source}]({source})' if url else source}." in text
    assert "dubois2023evaluating" not in text


def licensed(licence: str | Missing, *, url: str = "https://example.org/weights") -> EncoderCard:
    card = load_catalogue()["dino_vitS16"]
    return replace(card, licence=replace(card.licence, weights=licence), provenance=replace(card.provenance, url=url))


def test_licences_have_the_identifiers_of_the_hub() -> None:
    link = {"license_link": "https://example.org/weights"}
    for licence, expected in (
        ("MIT", {"license": "mit"}),
        ("CC-BY-NC-4.0", {"license": "cc-by-nc-4.0"}),
        ("GPL-3.0-or-later", {"license": "gpl-3.0"}),
        ("ODbL-1.0", {"license": "odbl"}),
        ("LicenseRef-My Own", {"license": "other", "license_name": "licenseref-my-own", **link}),
        (NOT_PUBLISHED, {"license": "other", "license_name": "not-published", **link}),
    ):
        assert build_hub_licence(licensed(licence)) == expected
    assert "license_link" not in build_hub_licence(licensed(NOT_PUBLISHED, url="/home/somebody/run.pth"))


def test_every_licence_of_the_catalogue_has_an_identifier_or_a_name_and_a_link_to_its_text() -> None:
    for card in load_catalogue().values():
        licence, fields = card.licence.weights, build_hub_licence(card)
        if isinstance(licence, Missing) or not licence.startswith("LicenseRef-"):
            assert (fields["license"] == "other") == isinstance(licence, Missing)
        else:
            assert fields["license_name"] == licence.casefold()
            assert fields["license_link"] == LICENCES[licence].url


def test_who_publishes_again_is_told_what_the_licence_says() -> None:
    for licence, words in (
        ("CC-BY-NC-4.0", "forbids commercial use. Read it before you publish"),
        ("CC-BY-NC-ND-4.0", "forbids commercial use and forbids altered copies"),
        ("GPL-3.0-only", "must be under the same licence, with its source"),
        (NOT_PUBLISHED, "No licence of these weights was published"),
    ):
        card = licensed(licence)
        note = describe_redistribution(card)
        assert note is not None and words in note
        text = text_of(card)
        assert str(describe_licence_conditions(card)) in text
        assert note not in text  # which is for those who publish, not for those who read
    for licence in ("MIT", "Apache-2.0", "BSD-3-Clause", "CC-BY-4.0"):
        assert describe_redistribution(licensed(licence)) is None


def test_what_users_write_into_a_card_breaks_neither_table_nor_front_matter() -> None:
    card = load_catalogue()["dino_vitS16"]
    hostile = "a | b\n---\n<script> ``` {x}: 'y'"
    card = replace(
        card,
        objective=replace(card.objective, name=hostile),
        pretraining=replace(card.pretraining, dataset=hostile, optimizer=hostile),
    )
    read = ModelCard(text_of(card))
    assert read.data.license == "apache-2.0"
    assert "<script>" not in read.text
    assert "| optimizer of pretraining | a \\| b --- &lt;script>" in read.text
