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

METRICS = {"miou": "mask_mean_iou", "pixel_accuracy": "pixel_accuracy"}
"""Of a result, and in the rows of ``results/``."""


def can_record(variant: SegmentedVariant) -> bool:
    """Whether rows have columns for it: masks by what the encoder pools, for images of its card's size."""
    card = load_catalogue()[variant.encoder]
    network = infer_network(card)
    last = None if network is None or network.n_blocks is None else network.n_blocks - 1
    is_usual = variant.layers in ((None,), (last,)) and variant.px == card.preprocess.crop_px
    return is_usual and variant.data.task == "segmentation"


def make_segmentation_rows(variant: SegmentedVariant, *, source: str = SOURCE, day: date | None = None) -> Rows:
    """Measurements of a probe on what an encoder pools, for images of its card's size, with their provenance.

    QueryError for other layers and sizes, which rows have no column for, and for a task without classes.
    """
    if not can_record(variant):
        raise QueryError(
            f"Found {variant.data.task} of layers {list(variant.layers)} of {variant.encoder!r} at {variant.px} px, "
            "expected masks by the last layer at the card's size; rows have no column for other layers or sizes."
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
