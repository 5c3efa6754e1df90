"""The page of the same weights in other libraries: words, numbers and table agree, and name encoders that exist."""

from __future__ import annotations

from pathlib import Path

import compare_weights as script

from zoo.cards.catalogue import catalogue


def test_the_page_is_what_words_numbers_and_table_say(repository: Path) -> None:
    page = script.render_page(script.read_words(), script.read_numbers(), script.read_told())
    assert (repository / "docs" / "same_weights.md").read_text() == page, (
        "run: python scripts/compare_weights.py --render"
    )


def test_each_family_has_a_module_words_and_numbers_of_the_pinned_versions() -> None:
    numbers = script.read_numbers()
    assert set(script.FAMILIES) == set(script.read_words()) == set(numbers)
    for family, found in numbers.items():
        versions = {name: found["versions"][name].partition("+")[0] for name in script.REQUIREMENTS}
        assert versions == script.REQUIREMENTS, family
        assert found["differences"], family


def test_words_are_of_subjects_and_libraries_that_the_page_shows() -> None:
    for family, about in script.read_words().items():
        subjects = {name for name, value in about.items() if isinstance(value, dict)}
        assert set(about) - subjects == {"title", "encoders", "network", "follows"}, family
        assert subjects <= set(script.SUBJECTS), family
        assert all(set(about[name]) <= set(script.LIBRARIES) for name in subjects), family
    for found in script.read_numbers().values():
        assert {one["about"] for one in found["differences"]} <= set(script.SUBJECTS)


def test_every_encoder_that_is_named_is_one(repository: Path) -> None:
    named = {encoder for about in script.read_words().values() for encoder in about["encoders"]}
    told = {encoder for row in script.read_told() for encoder in row["encoders"].split()}
    assert told <= named
    assert named <= set(catalogue())
