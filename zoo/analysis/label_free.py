"""What studies of label-free metrics share: which way a metric points, what it is called, and the measured rows."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Literal

from ..cards.catalogue import load_catalogue
from ..files import use_shipped_only
from ..optional import require_extra
from ..results.rows import drop_wrong_rows, errata, read_rows
from ..results.values import PUBLISHED_SOURCE, Row
from ..results.vocabulary import LABEL_FREE_METRICS

with require_extra("study", needed_for="A study of metrics"):
    import pandas as pd

Direction = Literal["more", "less", "1", "none"]
CLID, W_CLID = "clid", "w_clid"
_TITLES = {CLID: "CLID", W_CLID: "W-CLID"}
_BEST_AT_1 = "alpha_req"


def get_direction(metric: str) -> Direction:
    """Which way a metric points, as its paper reads it.

    >>> [get_direction(metric) for metric in ("rankme", "uniformity", "alpha_req", "neural_collapse")]
    ['more', 'less', '1', 'none']
    """
    if metric == _BEST_AT_1:
        return "1"
    known = LABEL_FREE_METRICS.get(metric)
    higher = True if known is None else known.higher_is_better
    return "none" if higher is None else "more" if higher else "less"


def needs_labels(metric: str) -> bool:
    """True for metrics that the papers compare with although labels go into them.

    >>> needs_labels("w_clid"), needs_labels("one_shot_accuracy"), needs_labels("rankme")
    (True, True, False)
    """
    known = LABEL_FREE_METRICS.get(metric)
    return metric == W_CLID if known is None else known.needs in ("labelled", "source and target")


def get_metric_title(metric: str) -> str:
    """The words for a metric.

    >>> get_metric_title("lidar"), get_metric_title("clid")
    ('LiDAR', 'CLID')
    """
    known = LABEL_FREE_METRICS.get(metric)
    return _TITLES.get(metric, metric) if known is None else known.title


def direct_upwards(values: pd.Series[float]) -> pd.Series[float]:
    """A metric turned so that more is better; the name of the column says which metric it is.

    >>> direct_upwards(pd.Series([0.5, 2.0], name="alpha_req")).tolist()
    [-0.5, -1.0]
    """
    direction = get_direction(str(values.name))
    if direction == "1":
        return -(values - 1).abs()
    return -values if direction == "less" else values


def read_measured_rows(*, with_mine: bool = False, exclude_wrong: bool = False) -> list[Row]:
    """Checked rows of results that were measured here, the shipped ones, and with ``with_mine`` those of the user.

    Encoders of experiments, which are not listed, are in no population but their own, and left out.
    """
    with nullcontext() if with_mine else use_shipped_only():
        rows = read_rows()
    cards = load_catalogue()  # once, for it looks after every card file
    chosen = [row for row in rows if row.source != PUBLISHED_SOURCE and cards.lists(row.encoder)]
    return drop_wrong_rows(chosen, errata()) if exclude_wrong else chosen
