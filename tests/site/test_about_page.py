"""The page that says whose numbers these are: what it cites and carries."""

from __future__ import annotations

from pathlib import Path

import yaml

from zoo.site.about_page import files
from zoo.site.assets import third_party
from zoo.site.contents import gather
from zoo.site.rendering import Renderer

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_cites_what_the_repository_does_and_names_all_software() -> None:
    contents = gather(only=["dino_*"], with_mine=True, title="A lab's zoo")
    [page] = files(contents, Renderer(contents))
    text = page.content.decode()
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    for one in (citation, citation["references"][0]):
        assert f"{{{one['title']}}}" in text
    assert f"{{{citation['version']}}}" in text and citation["references"][0]["url"] in text
    for one in third_party():
        assert f">{one.name}<" in text and one.version in text
    assert "--only &#39;dino_*&#39;" in text and "--with-mine" in text and "A lab" in text
