"""Measuring an encoder where an image has any number of tags: one binary probe per tag, and mean average precision.

C of each probe has the smallest log loss on training images held out at random (copies and groups on one side); the
probe is then trained again on all of them. A tag that too few images have, or lack, gets no probe and is named.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..datasets.images import follow_first_copy, indicators_of
from ..errors import DataError
from ..features import Features
from ..optional import require_extra
from ..results.rows import Measurement
from .classification import TaggingMetrics, tag_metrics
from .evaluating import SOURCE, Request, RowTemplate, build_probe_maker
from .measuring import TUNING_SHARE, ProbeCache, TuningSplit, check_pair, fit_probe
from .protocols import Protocol, build_protocol
from .refit import RefittedProbe, describe
from .saved_probes import make_probe

with require_extra("evaluate", needed_for="Measuring an encoder"):
    import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

PROTOCOL = "zoo-logistic-multilabel-1"
METRIC, SPLIT = "tag_average_precision", "train -> val"
NOT_FOR_TAGS = "images with tags have no label settings, nearest neighbours or decomposition"
FEWEST = 2  # images with a tag, and without it, among those that C is chosen with


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TagEvaluation:
    """The measurements of one encoder on images with tags."""

    train: Features
    test: Features
    protocol: Protocol
    kept: RefittedProbe
    chosen: dict[str, float]  # C by tag
    left_out: dict[str, str]  # tags without a probe, and why
    not_converged: tuple[str, ...]  # tags
    n_tuning: int
    seed: int

    @property
    def metrics(self) -> TaggingMetrics:
        """Of the tags that have a probe."""
        assert isinstance(self.kept.metrics, TaggingMetrics)
        return self.kept.metrics


def evaluate_tags(
    train: Features,
    test: Features,
    request: Request,
    *,
    cache: Path | None = None,
    tell: Callable[[str], None] | None = None,
) -> TagEvaluation:
    """Measures an encoder by its features of images with tags, by the seed, device and settings of the request.

    ``cache`` is the folder of cached probes; ``tell`` is called with a few words on what is measured next. DataError if
    the features cannot be used together or are not finite, or no tag has enough images.
    """
    say = tell or (lambda text: None)
    if not train.tags or train.tags != test.tags:
        raise DataError(
            f"The training images of {train.origin.dataset!r} have {len(train.tags)} tags and the test images "
            f"{len(test.tags)}; expected the same tags in both."
        )
    check_pair(train, test)
    y, y_test = indicators_of(train), indicators_of(test)
    out = select_tuning_mask(train, n_test=len(test.y), seed=request.seed)
    protocol = build_protocol(PROTOCOL, **request.changed)
    make = build_probe_maker(protocol, device=request.device, seed=request.seed)
    probes = None if cache is None else ProbeCache(cache, protocol=protocol.name)
    train = replace(train, x=np.asarray(train.x[:]))  # read once for all tags
    division = TuningSplit(train=np.arange(len(out)), tuning=np.flatnonzero(out), refits=True)
    weights, intercepts, chosen, left_out, open_ends = [], [], {}, {}, []
    for number, tag in enumerate(train.tags):
        n_with = int(y[~out, number].sum())
        n_without = int((~out).sum()) - n_with
        if min(n_with, n_without) < FEWEST:
            left_out[tag] = f"{n_with:,} training images have it and {n_without:,} do not, without those held out"
            continue
        say(f"{tag} ({number + 1} of {len(train.tags)})")
        probe = fit_probe(make(), train, division, labels=y[:, number].astype(np.int64), cache=probes)
        chosen[tag] = float(probe.report_["choice"]["C"])
        if not probe.report_["converged"]:
            open_ends.append(tag)
        weights.append(probe.coef_[1] - probe.coef_[0])
        intercepts.append(probe.intercept_[1] - probe.intercept_[0])
    if not chosen:
        raise DataError(
            f"None of the {len(train.tags)} tags of {train.origin.dataset!r} has {FEWEST} training images with it and "
            f"{FEWEST} without; expected one at least to learn."
        )
    learned = [number for number, tag in enumerate(train.tags) if tag in chosen]
    probe_kept = make_probe(train, "tags", tuple(chosen), np.stack(weights), np.array(intercepts))
    metrics = tag_metrics(
        y_test[:, learned],
        probe_kept.predict_proba(test),
        tags=probe_kept.classes,
        groups=test.groups,
        seed=request.seed,
    )
    known = {"protocol": protocol.name, "seed": request.seed, "n_tuning": int(out.sum()), "chosen": {"C": chosen}}
    probe_kept.about.update(describe(train, test, metrics, left_out=left_out, **known))
    return TagEvaluation(
        train=train,
        test=test,
        protocol=protocol,
        kept=RefittedProbe(probe=probe_kept, metrics=metrics),
        chosen=chosen,
        left_out=left_out,
        not_converged=tuple(open_ends),
        n_tuning=int(out.sum()),
        seed=request.seed,
    )


def select_tuning_mask(train: Features, *, n_test: int, seed: int) -> NDArray[np.bool_]:
    """Mask of the training images that C is chosen on; copies and groups are on one side."""
    n = len(train.y)
    wanted = min(n_test, math.ceil(TUNING_SHARE * n))
    out = np.zeros(n, bool)
    out[np.random.default_rng([seed, 0]).permutation(n)[:wanted]] = True
    out = follow_first_copy(out, train.together)
    if not out.any() or out.all():
        raise DataError(
            f"The {n:,} training images of {train.origin.dataset!r} belong together so that none can be held out to "
            "choose C on; expected at least two groups."
        )
    return out


def make_tag_rows(
    evaluation: TagEvaluation, *, source: str = SOURCE, day: date | None = None
) -> dict[Measurement, dict[str, Any]]:
    """The measurement with its provenance: the mean average precision, if every tag has one; else none."""
    metrics = evaluation.metrics
    if METRIC not in metrics.metrics or evaluation.left_out or metrics.left_out:
        return {}
    train, test, found = evaluation.train, evaluation.test, metrics.metrics[METRIC]
    writing = RowTemplate(train, test, source, day)
    row = writing.row(METRIC, SPLIT, len(train.y), evaluation.seed, found, "percent", evaluation.protocol)
    report = {"C": evaluation.chosen, "n_tuning": evaluation.n_tuning}
    return {row: writing.provenance(evaluation.protocol, report=report)}
