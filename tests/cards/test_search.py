"""Finding encoders by what people call them."""

from __future__ import annotations

from tests.each import for_each
from zoo.cards.catalogue import load_catalogue
from zoo.cards.search import EncoderFinder, format_search_names, group_networks, list_families


def names(encoder: str, family: str, method: str, url: str, dataset: str, **more: object) -> str:
    return format_search_names(
        {
            "id": encoder,
            "family": family,
            "objective": {"name": method},
            "architecture": {"name": "vitb", "exact": "vitb16 cls", "backbone": "not applicable"},
            "pretraining": {"dataset": dataset, "image_sets": [dataset], **more},
            "provenance": {"url": f"https://github.com/{more.pop('maker', 'somebody')}/repository"},
            "weights": {"url": url, "mirrors": ["hf:timm/copy_of_it/model.safetensors"]},
        }
    )


FINDER = EncoderFinder(
    {
        "dinov3_vitB16_lvd": names("dinov3_vitB16_lvd", "dinov3", "dinov3", "timm:vit_base_patch16_dinov3.lvd", "LVD"),
        "dino_vitB16": names(
            "dino_vitB16", "dino", "dino", "https://host/dino.pth", "ImageNet-1K", maker="facebookresearch"
        ),
        "kaiko_vitB16": names(
            "kaiko_vitB16", "kaiko", "dino", "hf:1aurent/kaiko/x", "TCGA", domain="pathology H&E", maker="kaiko-ai"
        ),
        "siglip2_vitB16": names("siglip2_vitB16", "siglip2", "siglip", "timm:vit_base_siglip.v2", "WebLI"),
        "siglip_vitB16": names("siglip_vitB16", "siglip", "siglip", "timm:vit_base_siglip.v1", "WebLI"),
        "mocov3_vitB16": names("mocov3_vitB16", "mocov3", "moco", "https://host/moco.pth", "ImageNet-21K"),
    }
)


@for_each(
    [
        (["dinov3"], ["dinov3_vitB16_lvd"]),
        (["DINO v3"], ["dinov3_vitB16_lvd"]),
        (["DINO-v3"], ["dinov3_vitB16_lvd"]),
        (["SigLIP", "2"], ["siglip2_vitB16"]),
        (["siglip"], ["siglip_vitB16", "siglip2_vitB16"]),  # the family, then the method
        (["dino"], ["dino_vitB16", "kaiko_vitB16", "dinov3_vitB16_lvd"]),  # family, method, part of an id
        (["vit_base_patch16_dinov3.lvd"], ["dinov3_vitB16_lvd"]),
        (["1aurent/kaiko"], ["kaiko_vitB16"]),
        (["Pathology"], ["kaiko_vitB16"]),
        (["webli", "v1"], ["siglip_vitB16"]),
        (["1k"], ["dino_vitB16"]),  # and not ImageNet-21K
        (["moco*"], ["mocov3_vitB16"]),
        (["*vitB16", "dino"], ["dino_vitB16", "kaiko_vitB16"]),
        (["vit-b/16", "webli"], ["siglip2_vitB16", "siglip_vitB16"]),
        (["dino_vit"], ["dino_vitB16"]),
        (["base", "dinov3"], ["dinov3_vitB16_lvd"]),
        (["histology"], ["kaiko_vitB16"]),
        (["Facebook"], ["dino_vitB16"]),
        (["meta/dino-base"], ["dino_vitB16"]),  # its words, for nothing is called so
        (["hf:timm/vit_base_siglip.v2"], ["siglip2_vitB16"]),
        (["https://huggingface.co/1aurent/kaiko"], ["kaiko_vitB16"]),
        (["resnet"], []),
        (["dinvo3"], []),
    ],
    arguments=2,
)
def test_every_word_is_found_in_what_an_encoder_answers_to(words: list[str], found: list[str]) -> None:
    assert FINDER.find(words)[: len(found)] == found
    assert len(FINDER.find(words)) == len(found)


def test_an_encoder_made_of_a_network_of_another_size_does_not_answer_to_its_name() -> None:
    finder = load_catalogue().finder
    for words, other in (("vit-b 16", "metaclip2_vitS16_224_worldwide"), ("vit giant", "franca_dinov2_vitB14_in21k")):
        found = finder.find([words])
        assert len(found) > 40 and other not in found


def test_a_slip_of_the_pen_suggests_what_was_meant() -> None:
    assert FINDER.instead_of(["dinvo3", "vitb"])[0] == "dinov3"
    assert FINDER.nearest("dinvo3_vitB16")[0] == "dinov3_vitB16_lvd"
    assert FINDER.nearest("vit_base_siglip.v1")[0] == "siglip_vitB16"
    assert FINDER.nearest("siglip2")[0] == "siglip2_vitB16"
    assert FINDER.nearest("/") == FINDER.instead_of(["qqqqqqqqqqqq"]) == ()


def test_families_have_every_encoder_once_and_variants_stand_with_their_network() -> None:
    cards = load_catalogue()
    found = list_families(cards)
    assert sorted(encoder for family in found for encoder in family.encoders) == sorted(cards)
    assert [family.name for family in found] == sorted({card.family for card in cards.values()})
    dino = group_networks(cards, ["dino_vitB16_last", "dino_rn50", "dino_vitB16", "dino_vitB8"])
    assert dino == [("dino_vitB16", "dino_vitB16_last"), ("dino_rn50",), ("dino_vitB8",)]
