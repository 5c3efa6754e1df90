"""What pages cite, and the command that makes them."""

from __future__ import annotations

from pathlib import Path

import yaml

from zoo.site.about_page import build_files
from zoo.site.contents import gather
from zoo.site.rendering import SiteRenderer


def test_the_page_cites_what_the_repository_does_and_names_the_command(repository: Path) -> None:
    contents = gather(only=["dino_*"], with_mine=True, title="A lab's zoo")
    [page] = build_files(contents, SiteRenderer(contents))
    text = page.content.decode()
    citation = yaml.safe_load((repository / "CITATION.cff").read_text(encoding="utf-8"))
    for one in (citation, citation["references"][0]):
        assert f"{{{one['title']}}}" in text
    assert f"{{{citation['version']}}}" in text and citation["references"][0]["url"] in text
    assert "--only &#39;dino_*&#39;" in text and "--with-mine" in text and "A lab" in text
