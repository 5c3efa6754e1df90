"""Badges: small pictures that stand alone and say what is known, and of what kind."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from zoo.site import badges
from zoo.site.contents import gather
from zoo.site.encoder_results import Records
from zoo.site.rendering import Renderer

SVG = "{http://www.w3.org/2000/svg}"
SAID = {
    "dino_vitS16": "linear probe 24.6 % error",
    "pocket_simclr_rn_shapes": "linear probe 54.2 % error on shapes",
    "dinov2_vitS14": "reported 81.1 % linear",
    "npidpp_rn50w2": "not measured",
    "deepcluster_rn50_bs512_ep200_mmselfsup": "measured wrongly, see its errata",
}


def test_a_badge_says_what_is_measured_before_what_is_reported() -> None:
    contents, records = gather(only=list(SAID)), Records(SAID)
    assert {one: badges.badge_of(entry, records).text for one, entry in contents.entries.items()} == SAID


def test_a_badge_stands_alone() -> None:
    contents = gather(only=["dino_vitS16", "uni_vitL16"])
    for file in badges.files(contents, Renderer(contents)):
        root = ElementTree.fromstring(file.content)
        assert file.path.startswith("badges/") and root.attrib["role"] == "img"
        assert (root.findtext("{*}title") or "").count("SSL Zoo")
        assert b"style" not in file.content and b"href" not in file.content and b"<script" not in file.content


@pytest.mark.parametrize("text", ["<b>&", 'a" onload="x', "", "w" * 300])
def test_the_text_of_a_badge_is_text(text: str) -> None:
    root = ElementTree.fromstring(badges.drawn(badges.Badge("measured", text), "a<b"))
    assert [element.text or "" for element in root.iter(f"{SVG}text")][1] == text
    assert root.findtext("{*}title", "").startswith("a<b, ")
