"""Rows of probes on masks: what they hold, that they are recorded, and what has no row."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from zoo.datasets import open_dense
from zoo.errors import QueryError
from zoo.evaluation.segmentation_rows import METRICS, make_segmentation_rows
from zoo.evaluation.segmentation_runs import SegmentedVariant, measure_segmentation
from zoo.results.recording import record
from zoo.results.rows import measurements

FEW = "shapes:classes=3,train=40,val=12,size_px=32,seed=1"


@pytest.fixture(scope="module")
def variant() -> SegmentedVariant:
    (found,) = measure_segmentation(["pocket_simclr_rn_shapes"], open_dense(FEW, task="segmentation"), n_draws=50)
    return found


def test_rows_hold_what_was_measured_with_its_provenance(variant: SegmentedVariant, home: Path) -> None:
    rows = make_segmentation_rows(variant, day=date(2026, 11, 29))
    assert [row.metric for row in rows] == list(METRICS.values())
    for (row, provenance), name in zip(rows.items(), METRICS, strict=True):
        found = variant.result.metrics[name]
        assert (row.value, row.ci_low, row.ci_high) == (found.value, found.ci_low, found.ci_high)
        assert (row.protocol, row.n_train, row.dataset) == ("zoo-segment-2", 40, variant.data.name)
        assert provenance["representation"] == "map:2 4x4x48"
        assert provenance["images_hash"] == {
            "train": variant.data.train.fingerprint,
            "val": variant.data.val.fingerprint,
        }
    assert record(rows).n_new == 2 and record(rows).n_new == 0
    assert {row.metric for row in measurements(dataset=variant.data.name)} == set(METRICS.values())


def test_other_layers_and_sizes_have_no_rows(variant: SegmentedVariant) -> None:
    for changes, sentence in (
        ({"layers": (0,)}, "no column for other layers or sizes"),
        ({"px": 48}, "of layers .* at 48 px"),
    ):
        with pytest.raises(QueryError, match=sentence):
            make_segmentation_rows(replace(variant, **changes))
