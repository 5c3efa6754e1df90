"""The page of what encoders see, of sites that have its encoders and of those that have none of them."""

from __future__ import annotations

from zoo.site import look_page
from zoo.site.contents import gather
from zoo.site.rendering import Renderer


def page_of(*only: str) -> str:
    contents = gather(only=only)
    [page] = look_page.files(contents, Renderer(contents))
    return page.content.decode()


def test_it_shows_the_encoders_of_the_site_alone() -> None:
    page = page_of("sup_efficientnet_lite0")
    assert "map of sup_efficientnet_lite0: " in page and "sup_efficientnet_lite1" not in page


def test_a_site_without_any_of_them_says_so_and_explains_no_pictures() -> None:
    page = page_of("dino_vitS16")
    assert "none of the encoders of this site" in page and "Each cell" not in page and "EfficientNets" not in page
