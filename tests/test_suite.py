"""The suite itself: what is slow comes first; what runs leave out; checks of many things."""

from __future__ import annotations

import fnmatch

import pytest

from tests import slow
from tests.stress.kernels import NOT_NUMERICAL


@pytest.mark.parametrize("patterns", [NOT_NUMERICAL, slow.FILES], ids=["not run with other kernels", "slow"])
def test_every_pattern_of_files_names_one(patterns: tuple[str, ...]) -> None:
    names = [slow.short_name(path) for path in slow.TESTS.rglob("test_*.py")]
    assert [pattern for pattern in patterns if not fnmatch.filter(names, pattern)] == []


def test_the_marker_of_slow_tests_is_registered_and_a_misspelt_one_is_an_error(pytestconfig: pytest.Config) -> None:
    assert [line.partition(":")[0] for line in pytestconfig.getini("markers")].count("slow") == 1
    assert pytestconfig.getoption("strict_markers")
