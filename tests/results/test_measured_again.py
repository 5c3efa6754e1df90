"""Shipped rows of encoders whose weights ship are measured again, and are the same but for arithmetic."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cli_runner import document
from zoo.results.rows import measurements

METRICS = ("rankme", "alpha_req", "uniformity", "intrinsic_dimension")


pytestmark = pytest.mark.usefixtures("own_folders")


def shipped(encoder: str, metric: str, *, setting: str = "", protocol: str = "") -> Any:
    """The row of an encoder on digits by the usual protocol, of a label setting the first seed by the named one."""
    (row,) = (
        row
        for row in measurements()
        if (row.encoder, row.metric, row.dataset) == (encoder, metric, "digits")
        and row.split in ((f"train {setting} -> val",) if setting else ("train", "train -> val"))
        and "(" not in row.protocol
        and not (setting and (row.seed or row.protocol != protocol))
    )
    return row


@pytest.mark.parametrize(
    ("encoder", "protocol"),
    [("pocket_simclr_rn_digits", "zoo-logistic-3"), ("pocket_mae_vit_digits", "zoo-logistic-2")],
)
def test_a_sample_of_shipped_rows_comes_out_again(encoder: str, protocol: str) -> None:
    found = document("metric", ",".join(METRICS), encoder, "digits", "--no-record")["metrics"]
    assert [one["metric"] for one in found] == [*METRICS]
    for one in found:
        assert one["value"] == pytest.approx(shipped(encoder, one["metric"]).value, rel=1e-3)
    recorded = ("--protocol", protocol, "--settings", "1%,3-shot", "--seeds", "1")
    asked = ("evaluate", encoder, "digits", *recorded, "--no-record")
    (evaluation,) = document(*asked)["evaluations"]
    one_image = 1.01 * 100 / evaluation["n_test"]  # whose nearest neighbours may be as near as others
    assert evaluation["neighbours"]["value"] == pytest.approx(shipped(encoder, "knn_error").value, abs=one_image)
    for one in evaluation["errors"]:
        row = shipped(encoder, "linear_probe_error", setting=one["setting"], protocol=protocol)
        assert (evaluation["protocol"], one["n_train"]) == (row.protocol, row.n_train)
        assert one["value"] == pytest.approx(row.value, abs=one_image)
