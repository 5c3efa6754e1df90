"""The simulation of large runs, against closed forms."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from benchmarks.scale_simulation import MEASURED, Cluster, Work, checked, simulate, written


def test_one_worker_takes_the_sum_and_several_the_ceiling() -> None:
    works = [Work(n_items=5, compute_s=2.0, load_s=3.0), Work(n_items=2, compute_s=4.0)]
    found = simulate(works, Cluster(start_s=1.0, driver_s=0.5))
    assert found.seconds == pytest.approx(1 + 3 + 5 * 2 + 2 * 4 + 7 * 0.5) and found.n_done == 7
    for n_items, n_workers in ((10, 3), (9, 3), (2, 8)):
        one = simulate([Work(n_items=n_items, compute_s=2.0)], Cluster(n_workers=n_workers))
        assert one.seconds == 2 * math.ceil(n_items / n_workers)
        assert one.compute_s == 2 * n_items


def test_the_scarcest_resource_sets_the_pace() -> None:
    work = Work(n_items=100, compute_s=1.0, decode_s=8.0, read_bytes=3.0, written_bytes=1.0)
    assert simulate([work], Cluster(decode_cores=2)).seconds == 100 * 4  # decoding, and no link is too slow
    assert simulate([work], Cluster(decode_cores=16)).seconds == 100
    many = simulate([work], Cluster(n_workers=50, decode_cores=8, bytes_a_second=10))
    assert many.link_s == pytest.approx(100 * 0.4)
    assert 40 <= many.seconds <= 42 and many.shares(Cluster(n_workers=50, decode_cores=8))["link"] > 0.95
    driven = simulate([work], Cluster(n_workers=50, decode_cores=8, driver_s=1.0))
    assert 100 <= driven.seconds <= 102  # one item after the other


def test_puts_wait_for_their_answer() -> None:
    assert simulate([Work(n_items=3, compute_s=1.0, n_puts=2)], Cluster(put_s=0.25)).seconds == 4.5


def test_stragglers_have_the_mean_of_their_sample() -> None:
    spread = (0.9, 0.9, 0.9, 1.3)
    found = simulate([Work(n_items=4000, compute_s=1.0)], Cluster(spread=spread), seed=1)
    assert found.seconds == pytest.approx(4000 * 1.0, rel=4 * 0.1732 / math.sqrt(4000))


def test_failures_cost_what_renewal_theory_says() -> None:
    item_s, every_s, restart_s, n = 10.0, 25.0, 3.0, 4000
    cluster = Cluster(failure_every_s=every_s, restart_s=restart_s, n_tries=10**9)
    found = simulate([Work(n_items=n, compute_s=item_s)], cluster, seed=2)
    # with failures at a rate r, what takes T and begins anew at each failure takes (exp(r T) - 1) / r on average; it is
    # broken off exp(r T) - 1 times, and each time a restart follows, which takes R and may be broken off, too
    rate = 1 / every_s
    n_lost_each = math.exp(rate * item_s) - 1
    restart = (math.exp(rate * restart_s) - 1) / rate
    expected = n * ((math.exp(rate * item_s) - 1) / rate + n_lost_each * restart)
    assert found.seconds == pytest.approx(expected, rel=0.05)
    assert found.n_lost == pytest.approx(n * n_lost_each, rel=0.06)
    assert found.n_done == n and not found.n_given_up


def test_a_kill_loses_one_item_a_worker_of_its_node_and_no_more() -> None:
    cluster = Cluster(n_workers=4, workers_a_node=2, restart_s=1.0, kills=((5.0, 0), (15.0, 1)))
    found = simulate([Work(n_items=20, compute_s=4.0)], cluster)
    assert (found.n_lost, found.n_failures, found.n_done) == (4, 2, 20)
    assert found.lost_s == 2 * (1.0 + 3.0)  # at 5 s an item is 1 s old, at 15 s one is 3 s old
    assert found.seconds == simulate([Work(n_items=20, compute_s=4.0)], cluster, seed=7).seconds


def test_an_item_that_is_always_lost_is_given_up() -> None:
    cluster = Cluster(kills=tuple((float(second), 0) for second in range(1, 40)), n_tries=4)
    found = simulate([Work(n_items=2, compute_s=5.0)], cluster)
    assert (found.n_given_up, found.n_lost, found.seconds) == (2, 8, 8.0)


def test_the_page_has_a_place_for_every_table_and_the_check_its_runs(repository: Path) -> None:
    page = (repository / "docs" / "scale.md").read_text()
    names = ("engines", "check", "work", "plan", "saturates", "assumed")
    for name in names:
        assert f"<!-- scale: {name} -->\n|" in page, "the table was written"
        assert f"<!-- scale: {name} -->\nnew\n<!-- end -->" in written(page, {name: "new"})
    rows = checked(json.loads(MEASURED.read_text()))
    assert {(row["engine"], row["workers"], row["kills"] > 0) for row in rows} == {
        (engine, n, killed) for engine, n in (("local", 1), ("local", 2), ("ray", 2)) for killed in (False, True)
    }
    assert all(row["lost"] <= row["kills"] for row in rows)
