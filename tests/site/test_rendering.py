"""What pages carry and cite: the script of DataTables, software of others, and the page that names it."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from zoo.errors import ContentError
from zoo.site.about_page import build_files
from zoo.site.contents import gather
from zoo.site.rendering import SiteRenderer, convert_to_classic, list_third_party


def test_the_page_cites_what_the_repository_does_and_names_all_software(repository: Path) -> None:
    contents = gather(only=["dino_*"], with_mine=True, title="A lab's zoo")
    [page] = build_files(contents, SiteRenderer(contents))
    text = page.content.decode()
    citation = yaml.safe_load((repository / "CITATION.cff").read_text(encoding="utf-8"))
    for one in (citation, citation["references"][0]):
        assert f"{{{one['title']}}}" in text
    assert f"{{{citation['version']}}}" in text and citation["references"][0]["url"] in text
    found = {name: (version, licence) for name, version, licence in list_third_party()}
    assert {"itables", "datatables.net", "jquery", "jszip", "pako", "FileSaver.js", "Lucide"} <= set(found)
    assert found["jszip"][1] == "MIT or GPL-3.0" and found["datatables.net"][0].count(".") == 2
    for name, (version, licence) in found.items():
        assert f">{name}<" in text and version in text and licence in ("MIT", "ISC", "MIT or GPL-3.0")
    assert "--only &#39;dino_*&#39;" in text and "--with-mine" in text and "A lab" in text


def test_the_bundle_becomes_a_classic_script_with_one_global_and_its_notices() -> None:
    renderer = SiteRenderer(gather(only=["dino_vitS16"]))
    assert renderer.datatables.startswith("assets/datatables-")
    text = renderer.assets["datatables.js"].content.decode()
    assert text.startswith("/*! The bundle of itables") and "Marc Wouts" in text[:200]
    assert text.count("window.DataTable=") == 1 and text.endswith("})();\n")
    assert "SpryMedia" in text and "OpenJS Foundation" in text
    with pytest.raises(ContentError, match="default export"):
        convert_to_classic("var a=1;export{a as other};")
