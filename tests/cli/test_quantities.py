"""Memory and durations as people write them."""

from __future__ import annotations

import click
import pytest
from click import BadParameter, Context, Option

from zoo.cli.options import as_duration, as_memory

HERE = Context(click.Command("verb")), Option(["--time"])


@pytest.mark.parametrize(
    ("text", "n_bytes"),
    [("8GB", 8 * 10**9), ("8 gb", 8 * 10**9), ("7.5G", 7_500_000_000), ("8GiB", 8 * 2**30), ("512MB", 512 * 10**6),
     ("1000000", 10**6), ("1tb", 10**12), ("16kib", 16 * 1024)],
)  # fmt: skip
def test_memory_is_read_in_units_of_a_thousand_or_1024(text: str, n_bytes: int) -> None:
    assert as_memory(*HERE, text) == n_bytes


@pytest.mark.parametrize("text", ["", "GB", "-8GB", "0", "8 apples", "1e9GB", "nan", "8GBs", "9" * 30])
def test_other_memory_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(BadParameter, match="expected memory such as 8GB"):
        as_memory(*HERE, text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30m", 1800), ("2h", 7200), ("90s", 90), ("1h30m", 5400), ("1.5h", 5400), ("10 min", 600), ("1h 5m 3s", 3903)],
)
def test_durations_are_read_with_their_units(text: str, seconds: float) -> None:
    assert as_duration(*HERE, text) == seconds


@pytest.mark.parametrize("text", ["", "h", "0m", "-5m", "30 apples", "2d", "m30", "1e3s", "9" * 20 + "h"])
def test_other_durations_are_refused_with_an_example(text: str) -> None:
    with pytest.raises(BadParameter, match="expected a time such as 30m"):
        as_duration(*HERE, text)


def test_a_duration_without_a_unit_is_asked_for_one() -> None:
    with pytest.raises(BadParameter, match="say which unit"):
        as_duration(*HERE, "30")


def test_what_is_not_given_stays_so() -> None:
    assert as_memory(*HERE, None) is None
    assert as_duration(*HERE, None) is None
