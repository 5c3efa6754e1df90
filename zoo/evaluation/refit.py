"""The probe with all labels as it was measured, and its metrics, ready to save."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..features import Features
from ..optional import require_extra
from .classification import ClassificationMetrics, TaggingMetrics, classification_metrics
from .evaluating import Evaluation, Request, build_probe_maker
from .measuring import CHOSEN, ProbeCache, divide, fit_probe, measure
from .risk import FULL
from .saved_probes import SavedProbe, make_saved_probe

with require_extra("evaluate", needed_for="Saving a probe"):
    import numpy as np

if TYPE_CHECKING:
    from .regression import RegressionMetrics


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RefittedProbe:
    """A trained probe with what is known of its predictions on the test images."""

    probe: SavedProbe
    metrics: ClassificationMetrics | TaggingMetrics | RegressionMetrics
    n_different: int = 0  # test images that are right here and were wrong where it was measured, or the other way


def keep_probe(
    evaluation: Evaluation,
    request: Request,
    *,
    cache: Path | None = None,
) -> RefittedProbe:
    """The linear probe of an evaluation, by the request that gave it, that was trained with all labels.

    Of an evaluation without a setting with all labels that is measured first. ``cache`` is the folder of cached probes.
    """
    train, test, protocol = evaluation.train, evaluation.test, evaluation.protocols.errors
    make = build_probe_maker(protocol, device=request.device, seed=request.seed, features=train)
    probes = None if cache is None else ProbeCache(cache, protocol=protocol.name)
    runs = [run for result in evaluation.settings if result.setting.is_full for run in result.runs]
    run = runs[0] if runs else measure(train, test, FULL, seed=request.seed, probe=make, cache=probes)
    division = divide(FULL, train, n_test=len(test.y), seed=run.seed)
    fitted: Any = run.fitted or fit_probe(make(), train, division, cache=probes)
    n_different = int(((np.asarray(fitted.predict(test.x)) == test.y) != run.correct).sum())
    probe = make_saved_probe(fitted, train)
    metrics = classification_metrics(
        np.searchsorted(np.asarray(fitted.classes_), test.y).astype(np.int64),
        probe.predict_proba(test),
        classes=probe.classes,
        groups=test.groups,
        seed=request.seed,
    )
    report = run.report
    chosen = {name: report[name] for name in CHOSEN if name in report} or report["chosen"]
    probe.about.update(describe(train, test, metrics, protocol=protocol.name, seed=run.seed, chosen=chosen))
    probe.about.update(n_train=run.n_train, n_tuning=run.n_tuning)
    return RefittedProbe(probe=probe, metrics=metrics, n_different=n_different)


def describe(
    train: Features, test: Features, metrics: ClassificationMetrics | TaggingMetrics | RegressionMetrics, **known: Any
) -> dict[str, Any]:
    """What a saved probe says of how it was made, and of its predictions; ``known`` is of its training."""
    return {
        **known,
        "n_train": len(train.y),
        "dataset": train.origin.dataset,
        "images_hash": {"train": train.origin.images_hash, "val": test.origin.images_hash},
        "n_test": len(test.y),
        "metrics": metrics.as_dict(),
    }
