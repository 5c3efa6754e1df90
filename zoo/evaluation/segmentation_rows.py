"""Rows of results of probes on masks: mean intersection over union and pixel accuracy, with their provenance."""

from __future__ import annotations

from datetime import date
from typing import Any

from ..cards.catalogue import load_catalogue
from ..cards.representations import infer_network
from ..errors import QueryError
from ..optional import require_extra
from ..results.rows import Measurement
from .evaluating import SOURCE, Rows, RowTemplate
from .protocols import PROTOCOLS, build_protocol
from .segmentation import PROTOCOL
from .segmentation_runs import SegmentedVariant

with require_extra("evaluate", needed_for="Measuring masks"):
    import numpy as np

METRICS = {"miou": "mean_iou", "pixel_accuracy": "pixel_accuracy"}
"""Of a result, and in the rows of ``results/``."""


def make_segmentation_rows(variant: SegmentedVariant, *, source: str = SOURCE, day: date | None = None) -> Rows:
    """Measurements of a probe on what an encoder pools, for images of its card's size, with their provenance.

    QueryError for other layers and sizes, which rows have no column for, and for a task without classes.
    """
    card = load_catalogue()[variant.encoder]
    network = infer_network(card)
    last = None if network is None or network.n_blocks is None else network.n_blocks - 1
    if variant.data.task != "segmentation" or variant.px != card.preprocess.crop_px:
        raise QueryError(
            f"Found {variant.data.task} at {variant.px} px, expected masks at the {card.preprocess.crop_px} px of "
            f"{card.id!r}; rows of results have no column for other sizes."
        )
    if variant.layers not in ((None,), (last,)):
        raise QueryError(
            f"Found the layers {list(variant.layers)} of {card.id!r}, expected the last one; rows of results have no "
            "column for layers."
        )
    report = {name: one for name, one in variant.probe.report_.items() if not isinstance(one, np.ndarray)}
    settings = {name: getattr(variant.probe, name) for name in PROTOCOLS[PROTOCOL].settings}
    protocol = build_protocol(PROTOCOL, **settings)
    writing = RowTemplate(variant.train[0], variant.test[0], source, day)
    writing.images = {"train": variant.data.train.fingerprint, "val": variant.data.val.fingerprint}
    rows: dict[Measurement, dict[str, Any]] = {}
    for name, metric in METRICS.items():
        found, seed = variant.result.metrics[name], variant.result.seed
        row = writing.row(metric, "train -> val", variant.result.n_train, seed, found, "percent", protocol)
        rows[row] = writing.provenance(protocol, report={"task": "segmentation"} | report)
    return rows
