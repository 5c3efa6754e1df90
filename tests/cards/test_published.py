"""What holds of the 204 published encoders, and that undoing the errata gives the published table back."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from tests.conftest import REPOSITORY
from tests.each import for_each
from tests.published import ENTRY_POINTS_WITHOUT_PUBLISHED_FACTS, PUBLISHED, TABLE
from zoo.cards.catalogue import load_catalogue
from zoo.cards.schema import COLUMNS, NOT_APPLICABLE, NOT_PUBLISHED, EncoderCard, Missing

# 200 encoders x 47 columns of the table published with the risk decomposition of self-supervised learning
# (YannDubs/SSL-Risk-Decomposition, 2023); computed once, after every single fact had been compared with that table.
PUBLISHED_TABLE_SHA256 = "2954aeef56bce2bef0a59a03ed8c6364f084602b8566887422f053223c7a80dc"
IDS = [card.id for card in PUBLISHED]
EVERY_PUBLISHED = for_each(PUBLISHED, name=lambda card: card.id)

WRONG_FACTS = {
    ("byol_rn50_augNocolor", "reported.top1_percent"): (63.4, 59.4),
    ("pirl_rn50_ep200", "reported.top1_percent"): (62.55, 62.9),
    ("swav_rn50w4", "reported.top1_percent"): (77.9, 77.3),
    ("sup_rn101", "reported.top1_percent"): (77.374, 78.312),
    ("clip_rn50x4", "representation.dim"): (2560, 640),
    ("init_rn50w2", "representation.dim"): (4096, 2048),
    ("relativeloc_rn50_70ep_mmselfsup", "preprocess.crop_px"): (255, 224),
    ("ibot_vitS16_extractS", "architecture.n_parameters"): (21665664, 85798656),
    ("speccl_resnet50_bs384_ep100", "architecture.n_parameters"): (23508032, 31128640),
    ("dissl_resnet50_dNone_e400_m2", "architecture.n_parameters"): (23508032, 31128640),
    ("msn_vitb4_ep300", "architecture.n_parameters"): (87503616, 85798656),
    ("vicregl_convnextb_alpha09", "architecture.n_parameters"): (87548416, 85000000),
    ("simsiam_rn50_bs256_ep100", "licence.weights"): ("CC-BY-NC-4.0", "MIT"),
    ("dc2_rn50_ep400_2x224", "licence.weights"): ("CC-BY-NC-4.0", "MIT"),
    ("selav2_rn50_ep400_2x224", "licence.weights"): ("CC-BY-NC-4.0", "MIT"),
    ("dissl_resnet50_d8192_e800_m8", "pretraining.epochs"): (800, 400),
    ("mugs_vitl16_ep250", "pretraining.epochs"): (250, 400),
    ("msn_vitl16_ep600", "pretraining.epochs"): (600, 300),
    ("dc2_rn50_ep400_2x160_4x96", "pretraining.views"): ("2x160+4x96", "2x260+4x96"),
    ("sup_vitS16", "pretraining.dataset"): ("ImageNet-21K", NOT_PUBLISHED),
    ("vicregl_convnextxl_alpha075", "objective.variant"): ("alpha 0.75", NOT_PUBLISHED),
    ("beit_vitB16_pt22k", "pretraining.optimizer"): ("adamw", "adam"),
    ("beitv2_vitL16_pt1k", "pretraining.optimizer"): ("adamw", "adam"),
    ("beitv2_vitB16_pt1k_ep300", "pretraining.augmentations"): (
        ("crop", "flip", "color", "masking", "normalize"), ("crop", "color", "masking", "normalize"),
    ),
    ("beit_vitL16_pt22k", "pretraining.epochs"): (150, 800),
    ("beit_vitL16_pt22k", "pretraining.duration_hours"): (NOT_PUBLISHED, 120),
    ("beitv2_vitL16_pt1k", "pretraining.n_processors"): (64, 16),
    ("byol_rn50_augNocolor", "pretraining.augmentations"): (
        ("crop", "flip", "blur", "solarize", "normalize"), ("crop", "flip", "gray", "blur", "normalize"),
    ),
    ("ibot_vitB16_extractB", "objective.n_negatives"): (12_384, 12_288),
    ("rotnet_rn50_in1k", "pretraining.views"): ("224", "2x224"),
    ("rotnet_rn50_in22k", "pretraining.views"): ("224", "2x224"),
    ("sup_vitL16", "provenance.industry"): (True, NOT_PUBLISHED),
    ("sup_vitB16_dino", "provenance.official"): (True, False),
    ("sup_convnextB", "provenance.industry"): (True, NOT_PUBLISHED),
}  # fmt: skip
WRONG_BEHAVIOUR = {
    "init_vitB16": ("weights", "pretrained supervised weights"),
    "sup_vitB16": ("weights", "a timm name without a tag"),
    "sup_convnextB": ("weights", "a timm name without a tag"),
    "clip_vitL14_px336_extractPredCls": ("representation", "an error at the first image"),
    "clip_rn50": ("weights", "a TorchScript archive"),
    "openclip_vitH14_extractB": ("representation", "blocks that are fed the sequence first"),
    "openclip_vitG14": ("architecture", "ViT-G-14"),
    "lossyless_vitb32_b01": ("preprocess", "ImageNet's mean and standard deviation for training images"),
}


def test_undoing_the_errata_gives_the_published_table_back() -> None:
    cards = load_catalogue()
    published = {
        encoder: {column.name: _as_published(cards[encoder], column.name) for column in COLUMNS} for encoder in TABLE
    }
    canonical = json.dumps(published, sort_keys=True, separators=(",", ":"))
    assert len(published) == 200
    assert hashlib.sha256(canonical.encode()).hexdigest() == PUBLISHED_TABLE_SHA256


def _as_published(card: EncoderCard, name: str) -> Any:
    """A fact in the terms of the published table, which had neither two kinds of missing values nor SPDX ids."""
    column = next(column for column in COLUMNS if column.name == name)
    value = card.licence.published if name == "license" else column.of(card, as_published=True)
    if isinstance(value, Missing):
        return None
    return float(value) if column.kind in ("number", "whole number") else value


@for_each(WRONG_FACTS, arguments=2)
def test_a_wrong_published_fact_is_corrected_and_kept_as_an_erratum(encoder: str, field: str) -> None:
    card = load_catalogue()[encoder]
    assert (card.fact(field), card.fact(field, as_published=True)) == WRONG_FACTS[encoder, field]


@for_each(WRONG_BEHAVIOUR)
def test_what_the_published_code_did_wrong_is_an_erratum_of_the_part_concerned(encoder: str) -> None:
    assert WRONG_BEHAVIOUR[encoder] in {
        (erratum.field, erratum.published) for erratum in load_catalogue()[encoder].errata
    }


@EVERY_PUBLISHED
def test_patches_belong_to_vits_and_token_order_to_pairs_of_tokens(card: EncoderCard) -> None:
    assert (card.architecture.patch_size_px is NOT_APPLICABLE) == (card.architecture.family != "vit")
    assert (card.representation.order is NOT_APPLICABLE) == (card.representation.layer not in ("cls+avg", "proj+cls"))
    assert (card.representation.layer in ("avgpool", "attnpool")) == (card.architecture.family != "vit")


def test_one_encoder_is_gone_and_the_file_of_one_is_of_another_network() -> None:
    lost = {
        encoder: load_catalogue()[encoder].weights.availability
        for encoder in IDS
        if load_catalogue()[encoder].weights.availability not in ("open", NOT_APPLICABLE)
    }
    assert lost == {"npidpp_rn50w2": "gone", "deepcluster_rn50_bs512_ep200_mmselfsup": "unfit"}


def test_the_page_of_families_counts_the_weights_that_can_be_had_as_the_cards_do() -> None:
    published = {*TABLE, *ENTRY_POINTS_WITHOUT_PUBLISHED_FACTS}
    trained = [load_catalogue()[encoder] for encoder in published if not load_catalogue()[encoder].is_untrained]
    n_open = sum(card.weights.availability == "open" for card in trained)
    text = " ".join((REPOSITORY / "docs/families.md").read_text(encoding="utf-8").split())
    assert f"{n_open} of the {len(trained)} published trained encoders can still be downloaded" in text
    assert f"{len(published)} published encoders come from the risk-decomposition study" in text
    assert n_open == len(trained) - 2  # "one is gone, and one file is of another network than its id"
