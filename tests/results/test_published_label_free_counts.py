"""Of how many checkpoints the LiDAR paper's Kendall coefficients are, from their digits.

Without ties, Kendall's tau of n checkpoints is the number of concordant pairs less that of discordant ones, over
n (n - 1) / 2: four printed digits leave few n, and five coefficients of one population hardly more than one.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from zoo.results.printed import PrintedNumber, published_label_free


def fits(rows: Iterable[PrintedNumber], n: int) -> list[bool]:
    """Which coefficients some order of n checkpoints without ties has."""
    pairs = n * (n - 1) // 2
    possible = [difference / pairs for difference in range(-pairs, pairs + 1, 2)]
    return [min(abs(row.value - tau) for tau in possible) <= 0.5 * 10**-row.decimals + 1e-12 for row in rows]


def kendall(*tables: str, hyperparameter: str = "overall") -> list[PrintedNumber]:
    return [
        row
        for table in tables
        for row in published_label_free(paper="LiDAR", table=table, statistic="kendall")
        if row.hyperparameter == hyperparameter
    ]


def test_coefficients_of_32_checkpoints_are_those_of_32() -> None:
    rows = kendall("Table 7b", "Table 9", "Table 11a")
    assert len(rows) == 15 + 3 + 15
    assert {row.n for row in rows} == {32}
    assert all(fits(rows, 32))
    assert not any(all(fits(rows, n)) for n in range(3, 60) if n != 32)


def test_coefficients_of_30_checkpoints_are_none_of_30_and_a_note_says_so() -> None:
    rows = kendall("Table 8b", "Table 20")
    assert len(rows) == 6
    assert {row.n for row in rows} == {30}
    assert not any(fits(rows, 30))
    assert all("30 checkpoints without ties" in row.note for row in rows)


@pytest.mark.parametrize(
    ("tables", "hyperparameter", "n_runs", "n_checkpoints"),
    [
        (["Table 1", "Table 35"], "learning_rate", 5, 16),
        (["Table 1", "Table 35"], "weight_decay", 4, 16),
        (["Table 1", "Table 35"], "target_mask_scale", 4, 16),
        (["Table 1", "Table 35"], "context_mask_scale", 4, 16),
        (["Table 2", "Table 36"], "overall", 20, 6),
        (["Table 5", "Table 37"], "mask_ratio", 2, 21),
        (["Table 5", "Table 37"], "overall", 5, 21),
    ],
)
def test_coefficients_where_nothing_is_stated_are_those_of_all_checkpoints_of_every_run(
    tables: list[str], hyperparameter: str, n_runs: int, n_checkpoints: int
) -> None:
    rows = kendall(*tables, hyperparameter=hyperparameter)
    assert {row.n for row in rows} == {None}
    assert all(fits(rows, n_runs * n_checkpoints))
    assert not all(fits(rows, n_runs))
    assert not any(all(fits(rows, n)) for n in range(3, n_runs * n_checkpoints))
