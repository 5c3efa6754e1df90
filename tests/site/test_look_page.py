"""The page of what encoders see: shipped pictures that fit their facts, and every part of them in its place."""

from __future__ import annotations

import json
import re
from pathlib import Path

from PIL import Image

from zoo.cards.catalogue import load_catalogue
from zoo.files import get_content_folder
from zoo.site import look_page
from zoo.site.contents import gather
from zoo.site.rendering import SiteRenderer

LOOKS = json.loads((get_content_folder("results") / "looks" / "looks.json").read_text(encoding="utf-8"))


def page_of(*only: str) -> tuple[str, SiteRenderer]:
    renderer = SiteRenderer(gather(only=only))
    [page] = look_page.build_files(renderer.contents, renderer)
    return page.content.decode(), renderer


def size_of(file: str) -> tuple[int, int]:
    with Image.open(get_content_folder("results") / "looks" / file) as picture:
        return picture.size


def test_shipped_pictures_have_the_sizes_that_their_facts_say() -> None:
    named = {"looks.json"}
    for look in LOOKS:
        n_rows = -(-len(look["labels"]) // look["columns"])
        assert size_of(look["file"]) == (look["px"] * look["columns"], look["px"] * n_rows)
        named.add(look["file"])
        for one in look["encoders"]:
            assert size_of(one["file"]) == (one["columns"], one["rows"] * len(look["shown"]))
            assert one["id"] in load_catalogue() and 0 < one["explained"] <= 1
            assert len(one["neighbours"]) == len(look["queries"])
            assert all(query == sorted(query, key=lambda pair: pair[1]) for query in one["neighbours"])
            named.add(one["file"])
    assert {path.name for path in (get_content_folder("results") / "looks").iterdir()} == named


def test_the_page_shows_every_map_and_neighbour_within_its_picture() -> None:
    text, renderer = page_of()
    n_maps = sum((1 + len(look["encoders"])) * len(look["shown"]) for look in LOOKS)
    n_neighbours = sum(len(query) for look in LOOKS for one in look["encoders"] for query in one["neighbours"])
    parts = re.findall(
        r'viewBox="(\d+) (\d+) (\d+) (\d+)"[^>]*><image href="([^"]+)" width="(\d+)" height="(\d+)"', text
    )
    assert len(parts) == n_maps + n_neighbours + sum(len(look["queries"]) for look in LOOKS)
    for *numbers, file, width, height in parts:
        x, y, across, up = map(int, numbers)
        assert x + across <= int(width) and y + up <= int(height), file
    assert {part[4] for part in parts} <= {asset.path for asset in renderer.assets.values()}
    assert "style=" not in text and "data:" not in text


def test_a_site_shows_its_own_encoders_alone() -> None:
    some, renderer = page_of("sup_efficientnet_lite0", "dino_vitS16")
    assert "sup_efficientnet_lite0.html" in some and "pocket" not in some
    assert not [name for name in renderer.assets if "pocket" in name or "lite1" in name]
    assert "None of the encoders of this site" in page_of("dino_vitS16")[0]


def test_pictures_of_the_readme_are_small_and_there(repository: Path) -> None:
    text = (repository / "README.md").read_text(encoding="utf-8")
    pictures = re.findall(r"!\[([^]]+)\]\(([^)]+)\)", text)
    assert len(pictures) == 4 and len(text.splitlines()) <= 110
    for words, file in pictures:
        assert len(words) > 30 and (repository / file).stat().st_size < 500_000
