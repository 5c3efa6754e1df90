"""The suite itself: what is slow comes first; what runs leave out; checks of many things."""

from __future__ import annotations

import fnmatch
import subprocess
import sys
from pathlib import Path

import pytest

from tests import slow
from tests.each import for_each
from tests.stress.kernels import NOT_NUMERICAL


@pytest.mark.parametrize("patterns", [NOT_NUMERICAL, slow.FILES], ids=["not run with other kernels", "slow"])
def test_every_pattern_of_files_names_one(patterns: tuple[str, ...]) -> None:
    names = [slow.short_name(path) for path in slow.TESTS.rglob("test_*.py")]
    assert [pattern for pattern in patterns if not fnmatch.filter(names, pattern)] == []


def test_the_marker_of_slow_tests_is_registered_and_a_misspelt_one_is_an_error(pytestconfig: pytest.Config) -> None:
    assert [line.partition(":")[0] for line in pytestconfig.getini("markers")].count("slow") == 1
    assert pytestconfig.getoption("strict_markers")


USES_SLOW = """
from pathlib import Path
from tests import slow

slow.TESTS = Path(__file__).parent

def pytest_configure(config):
    config.addinivalue_line("markers", "slow: long")
    config.pluginmanager.register(slow.Slow(), "slow")
"""
ONE = "def test_one():\n    assert True\n"
ONE_AND_A_LONG_ONE = f"import pytest\n{ONE}@pytest.mark.slow\ndef test_long():\n    assert True\n"


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        ([], ["shipped::one", "labels::one", "some::long", "any::one", "some::one"]),
        (["-m", "not slow"], ["any::one", "some::one"]),
    ],
    ids=["all", "quick"],
)
def test_slow_tests_come_first_and_can_be_left_out(
    chosen: list[str], expected: list[str], tmp_path: Path, repository: Path
) -> None:
    (tmp_path / "conftest.py").write_text(USES_SLOW)
    texts = {"any": ONE, "some": ONE_AND_A_LONG_ONE, "studies/labels": ONE, "studies/shipped": ONE}
    for name, text in texts.items():
        path = (tmp_path / name).with_name(f"test_{name.rpartition('/')[2]}.py")
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), "-v", *chosen]
    done = subprocess.run(
        [*command, str(tmp_path)], cwd=repository, capture_output=True, text=True, timeout=120, check=False
    )
    ran = [line.split()[0].rpartition("/")[2] for line in done.stdout.splitlines() if " PASSED" in line]
    assert [name.removeprefix("test_").replace(".py::test_", "::") for name in ran] == expected, (
        done.stdout + done.stderr
    )


def test_a_check_of_many_things_names_all_that_are_wrong_and_needs_one() -> None:
    def is_even(value: int) -> None:
        assert value % 2 == 0, f"{value} is odd"

    def are_equal(value: int, other: int) -> None:
        assert value == other

    for_each([2, 4])(is_even)()
    with pytest.raises(AssertionError, match=r"2 of 3:\n3: AssertionError: 3 is odd.*\n(.*\n)*5: AssertionError"):
        for_each([2, 3, 5])(is_even)()
    for_each([(2, 2)], arguments=2)(are_equal)()
    with pytest.raises(AssertionError, match=r"1 of 2:\n\(2, 3\): AssertionError"):
        for_each([(2, 2), (2, 3)], arguments=2)(are_equal)()
    with pytest.raises(AssertionError, match="nothing to check"):
        for_each([])(is_even)()
