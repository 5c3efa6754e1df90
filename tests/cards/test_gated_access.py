"""Weights that not everybody is given: words for it, and the rule for the nearest open encoder."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.card_text import VALID
from tests.cards.test_catalogue import parse
from zoo.cards.catalogue import build_card, load_catalogue
from zoo.cards.gated_access import (
    describe_access,
    find_nearest_open,
    list_inherited_terms,
    list_licence_remarks,
    list_lineage,
    suggest_open_encoder,
)
from zoo.cards.schema import NOT_RECORDED, EncoderCard, Missing

PLAIN = build_card(parse(VALID)["tiny_vitS16"])


def card(name: str, **changed: Any) -> EncoderCard:
    """A card with facts changed by dotted names, dots written as two underscores; family and id as they are."""
    one = replace(PLAIN, id=name, family=changed.pop("family", "other"))
    for dotted, value in changed.items():
        part, _, field = dotted.partition("__")
        one = replace(one, **{part: replace(getattr(one, part), **{field: value})})
    return one


def nearest(*others: EncoderCard) -> str | None:
    wanted = card("wanted", family="mine", weights__availability="gated", objective__name="ours")
    found = find_nearest_open(wanted, {one.id: one for one in (wanted, *others)})
    return found and found.id


def test_domain_counts_before_family_and_that_before_objective_mode_and_size() -> None:
    size = PLAIN.architecture.n_parameters
    other_domain = card("domain", family="mine", objective__name="ours", pretraining__domain="retina")
    natural = card("natural", objective__mode="generative")
    same_mode = card("mode")
    same_objective = card("objective", objective__name="ours", architecture__n_parameters=100 * size)
    same_family = card("family", family="mine", architecture__n_parameters=size // 50, objective__mode="generative")
    smaller = card("smaller", family="mine", architecture__n_parameters=size // 2)
    offered = [other_domain, natural, same_mode, same_objective, same_family]
    expected = ["domain", "natural", "mode", "objective", "family"]
    for n, name in enumerate(expected, start=1):
        assert nearest(*offered[:n]) == name
    assert nearest(*offered, smaller) == "smaller"
    assert nearest(card("b", family="mine"), card("a", family="mine")) == "a"


def test_what_nobody_can_fetch_what_comes_with_the_zoo_and_what_is_untrained_is_no_advice() -> None:
    assert (
        nearest(
            card("gone", weights__availability="gone"),
            card("gated", weights__availability="gated"),
            card("shipped", weights__url="shipped:pocket/a.safetensors"),
            card("mine", weights__url="zoo:" + "ab" * 32),
            card("untrained", objective__mode="initialized"),
        )
        is None
    )


def test_advice_names_the_licence_and_another_domain() -> None:
    wanted = card("wanted", weights__availability="gated", pretraining__domain="retina")
    cards = {one.id: one for one in (wanted, card("near", pretraining__domain=NOT_RECORDED))}
    found = "the nearest open encoder is 'near' (Apache-2.0, for natural images, as no open one is for retina)"
    assert suggest_open_encoder(wanted, cards) == found
    assert suggest_open_encoder(wanted, {"wanted": wanted}) == ""


def test_access_in_words_names_who_is_let_in_and_both_copies() -> None:
    assert describe_access(PLAIN) == "open"
    gated = card("gated", weights__availability="gated", weights__gate="members", weights__url="hf:own/er@v1/a.pth")
    assert describe_access(gated) == "gated: members; ask at https://huggingface.co/own/er"
    told = replace(gated, weights=replace(gated.weights, gate="a form at https://example.org"))
    assert describe_access(told) == "gated: a form at https://example.org"
    asked = card("asked", weights__availability="by request", weights__url="https://example.org/a.pth")
    assert describe_access(asked) == "by request: ask at https://example.org/models"
    copied = card(
        "copied", weights__url="timm:a.b", weights__authors_url="hf:own/er", weights__authors_availability="gated"
    )
    assert describe_access(copied) == "open at timm:a.b, which is loaded; the authors' own copy at hf:own/er is gated"
    assert describe_access(card("unknown", weights__availability=NOT_RECORDED)) == "not recorded"


def test_another_label_and_other_terms_of_the_code_are_remarked() -> None:
    def remarks(weights: str, code: str, timm: str | Missing = NOT_RECORDED) -> list[str]:
        return list_licence_remarks(card("own", licence__weights=weights, licence__code=code, licence__timm=timm))

    assert remarks("MIT", "MIT", "mit") == remarks("CC-BY-4.0", "Apache-2.0") == []
    (of_code,) = remarks("CC-BY-NC-4.0", "Apache-2.0")
    assert of_code.endswith("the weights are under CC-BY-NC-4.0, which allows less.")
    (of_timm,) = remarks("MIT", "MIT", "apache-2.0")
    assert of_timm.startswith("timm labels its copy Apache-2.0")


def test_one_sentence_says_whose_licence_allows_less_and_that_nobody_here_knows_how_far_it_reaches() -> None:
    def said(licence: str | Missing, *teachers: str) -> list[str]:
        return [*list_inherited_terms(card("own", licence__weights=licence, provenance__distilled_from=teachers))]

    (sentence,) = said("MIT", "clip_vitB16", "uni_vitL16", "a model without a card", "dinov3_vit7B16_lvd1689m")
    assert sentence.startswith(
        "Distilled from uni_vitL16 under CC-BY-NC-ND-4.0 (no commercial use; altered copies may "
    )
    assert ", dinov3_vit7B16_lvd1689m under LicenseRef-DINOv3 (commercial use too; " in sentence
    assert sentence.endswith("to this encoder, whose licence is MIT, is not known here; ask its authors.")
    assert "clip_vitB16" not in sentence and sentence.count(". ") == 0
    assert said(Missing.NOT_PUBLISHED, "uni_vitL16")
    assert said("LicenseRef-NVIDIA-Open-Model", "dinov3_vit7B16_lvd1689m")  # other conditions
    for licence, teacher in (
        ("LicenseRef-DINOv3", "dinov3_vit7B16_lvd1689m"),  # the same
        ("CC-BY-NC-4.0", "dinov3_vit7B16_lvd1689m"),  # allows less itself
        ("CC-BY-NC-4.0", "uni_vitL16"),
        ("MIT", "clip_vitB16"),
        ("MIT", "a model without a card"),
    ):
        assert said(licence, teacher) == [], (licence, teacher)


def test_training_further_hands_terms_on_too_and_remarks_have_them() -> None:
    (sentence,) = list_licence_remarks(load_catalogue()["mimrefiner_mae_vitL16"])
    assert sentence.startswith("Trained further from mae_vitL16 under CC-BY-NC-4.0 ")


def test_lineage_goes_both_ways_also_from_other_features() -> None:
    known = list_lineage(load_catalogue()["eva_vitL14_mim_in21k"])
    assert known["Distilled from"] == ("evaclip_vitg14_laion400m",)
    assert known["Trained further as"] == ["eva_vitL14_mim_in21k_ft21k"]
    assert "Teacher of" in list_lineage(load_catalogue()["evaclip_vitg14_laion400m@avg"])
    assert {"dinov3_vitS16_lvd1689m", "cradio_v4_vitH16"} <= {
        *list_lineage(load_catalogue()["dinov3_vit7B16_lvd1689m"])["Teacher of"]
    }
    assert list_lineage(load_catalogue()["dino_rn50"]) == {}
