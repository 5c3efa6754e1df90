"""The probe with all labels as it was measured, from the cache or trained again at what was chosen, ready to save.

The cache has the coefficients of logistic probes alone. On another machine a probe trained again may classify an image
otherwise, where two classes are as likely; more than that is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import DataError, QueryError, format_count
from ..features import Features
from ..optional import require_extra
from .classification import ClassificationMetrics, TaggingMetrics, classification_metrics
from .evaluating import Evaluation, Request, build_probe_maker
from .logistic import LogisticProbe
from .measuring import ProbeCache, ProbeRun, label_setting, measure, retrain_probe
from .saved_probes import SavedProbe, make_saved_probe
from .streamed import StreamedProbe

with require_extra("evaluate", needed_for="Saving a probe"):
    import numpy as np

if TYPE_CHECKING:
    from .regression import RegressionMetrics

MOST_DIFFERENT = 0.01  # share of the test images that a probe may judge otherwise when it is trained again


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RefittedProbe:
    """A trained probe with what is known of its predictions on the test images."""

    probe: SavedProbe
    metrics: ClassificationMetrics | TaggingMetrics | RegressionMetrics
    n_different: int = 0  # test images that are right now and were wrong when it was measured, or the other way


def keep_probe(
    evaluation: Evaluation,
    request: Request,
    *,
    cache: Path | None = None,
) -> RefittedProbe:
    """The linear probe of an evaluation that was trained with all labels.

    Parameters
    ----------
    evaluation : Evaluation
        If it has no setting with all labels, that is measured first.
    request : Request
        The one that gave it.
    cache : Path, optional
        Folder of cached probes.

    Raises
    ------
    DataError
        If the probe, trained again, is another than the one that was measured.
    """
    train, test, protocol = evaluation.train, evaluation.test, evaluation.protocols.errors
    make = build_probe_maker(protocol, device=request.device, seed=request.seed)
    probes = None if cache is None else ProbeCache(cache, protocol=protocol.name)
    runs = [run for result in evaluation.settings if result.setting.is_full for run in result.runs]
    if not runs:
        full = partial(measure, train, test, label_setting("full"), seed=request.seed, probe=make)
        runs = [full(cache=probes)]
    fitted = None if probes is None else probes.find_fit(make(), train, runs[0].rows)
    fitted = fitted or refit_probe(make(), train, runs[0])
    correct = np.asarray(fitted.predict(test.x)) == test.y
    n_different = int((correct != runs[0].correct).sum())
    if n_different > max(1, MOST_DIFFERENT * len(correct)):
        raise DataError(
            f"The probe of {train.origin.encoder!r}, trained again at what was chosen, judges {n_different:,} of "
            f"{format_count(len(correct), 'test image')} otherwise than when it was measured; expected at most "
            f"{100 * MOST_DIFFERENT:.0f} %: remove its cached runs{'' if cache is None else f' in {cache}'} and "
            "measure it again."
        )
    probe = make_saved_probe(fitted, train)
    metrics = classification_metrics(
        np.searchsorted(np.asarray(fitted.classes_), test.y).astype(np.int64),
        probe.predict_proba(test),
        classes=probe.classes,
        groups=test.groups,
        seed=request.seed,
    )
    report = runs[0].report
    chosen = {name: report[name] for name in ("C", "preparation") if name in report} or report["chosen"]
    probe.about.update(describe(train, test, metrics, protocol=protocol.name, seed=runs[0].seed, chosen=chosen))
    probe.about.update(n_train=runs[0].n_train, n_tuning=runs[0].n_tuning)
    return RefittedProbe(probe=probe, metrics=metrics, n_different=n_different)


def refit_probe(probe: Any, train: Features, run: ProbeRun) -> Any:
    """A probe that is fitted to all training images by what its run chose."""
    if isinstance(probe, LogisticProbe):
        return retrain_probe(probe, run.report, train.x, train.y)
    if isinstance(probe, StreamedProbe):
        return probe.fit_chosen(train.x, train.y, trials=run.report["trials"])
    raise QueryError(
        f"A {type(probe).__name__} cannot be saved, for it has no coefficients; expected a linear probe, by 'logistic' "
        "or 'streamed'."
    )


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
