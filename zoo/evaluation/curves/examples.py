"""Collects a strip of example predictions from runs and the data they were tested on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...cards.schema import Preprocess
from ...datasets.dense import MapSet, aligned
from ...encoders.preprocess import build_preprocess
from ...optional import requires_extra
from .figures import Column, Strip
from .losses import TransferData
from .runs import Control, CurveRun

with requires_extra("models", needed_for="A figure"):
    import numpy as np


Runs = Mapping[tuple[str, Control], Sequence[CurveRun]]


def strip_of(
    data: TransferData,
    runs: Runs,
    *,
    encoders: Sequence[str],
    preprocess: Preprocess,
    frozen: bool = False,
    n_images: int = 3,
) -> Strip | None:
    """The first test images with what was predicted of them.

    Parameters
    ----------
    data : TransferData
        That the runs were tested on.
    runs : mapping from the name of a candidate and a control to its runs
        As :attr:`CurveReport.runs` has them; of each number of labels the first seed is shown.
    encoders : sequence of str
        Whose predictions are shown, in this order.
    preprocess : Preprocess
        Of the image and the truth.
    frozen : bool
        Whether the encoders stayed as they were, which is written above their columns.
    n_images : int
        At most; so many as have predictions.

    Returns
    -------
    Strip, or None
        None where the task is not dense.
    """
    if not isinstance(data.test, MapSet):
        return None
    shown = [run for own in runs.values() for run in own if run.examples is not None]
    n_images = min([n_images, *(len(run.examples) for run in shown if run.examples is not None)])
    of_encoders = {name: _by_n(runs.get((name, "encoder"), ())) for name in encoders}
    of_scratch = _scratches(runs, encoders)
    every = sorted({n for runs_by_n in of_encoders.values() for n in runs_by_n})
    columns = [
        Column(name=name, n=runs_by_n[n].n_actual, maps=_maps(runs_by_n[n], n_images))
        for n in _chosen(every, len(of_scratch) + len(encoders))
        for name, runs_by_n in [
            *of_scratch.items(),
            *((f"{name} (frozen)" if frozen else name, own) for name, own in of_encoders.items()),
        ]
        if n in runs_by_n
    ]
    truth, valid = zip(*(_target(data.test, number, preprocess) for number in range(n_images)), strict=True)
    images = [_image(data.test, number, preprocess) for number in range(n_images)]
    return Strip(
        task=data.task.name, dataset=data.name, unit=data.test.unit, images=np.stack(images), truth=np.stack(truth),
        valid=np.stack(valid), blind=_control(runs, encoders, "blind", n_images),
        maximal=_control(runs, encoders, "maximal", n_images), columns=columns,
    )  # fmt: skip


def _by_n(runs: Sequence[CurveRun]) -> dict[int, CurveRun]:
    """The run of the first seed for each number of labels that was asked for."""
    found: dict[int, CurveRun] = {}
    for run in sorted(runs, key=lambda run: (run.n_requested, run.seed or 0)):
        if run.examples is not None:
            found.setdefault(run.n_requested, run)
    return found


def _scratches(runs: Runs, encoders: Sequence[str]) -> dict[str, dict[int, CurveRun]]:
    """Each scratch once: encoders of one architecture share theirs."""
    different: dict[str, dict[int, CurveRun]] = {}
    for name in encoders:
        own = _by_n(runs.get((name, "scratch"), ()))
        if own and not any(_alike(own, other) for other in different.values()):
            different[name] = own
    if len(different) == 1:
        return {"scratch": next(iter(different.values()))}
    return {f"scratch for {name}": own for name, own in different.items()}


def _alike(own: Mapping[int, CurveRun], other: Mapping[int, CurveRun]) -> bool:
    return own.keys() == other.keys() and all(
        np.array_equal(own[n].risks[metric], other[n].risks[metric]) for n in own for metric in own[n].risks
    )


def _chosen(every: Sequence[int], n_columns: int) -> list[int]:
    """Two to four of the numbers of labels, evenly, the fewer the more columns each of them has."""
    most = 4 if n_columns <= 3 else 3 if n_columns <= 5 else 2
    if len(every) <= most:
        return list(every)
    places = np.linspace(0, len(every) - 1, most).round().astype(int)
    return [every[place] for place in places]


def _control(runs: Runs, encoders: Sequence[str], control: Control, n_images: int) -> np.ndarray | None:
    for name in encoders:
        for run in runs.get((name, control), ()):
            if run.examples is not None:
                return _maps(run, n_images)
    return None


def _maps(run: CurveRun, n_images: int) -> np.ndarray:
    return np.asarray(run.examples, dtype=np.float32)[:n_images]


def _target(part: MapSet, number: int, preprocess: Preprocess) -> tuple[np.ndarray, np.ndarray]:
    values, valid = part.maps[number]
    return aligned(values, valid, preprocess)


def _image(part: MapSet, number: int, preprocess: Preprocess) -> np.ndarray:
    """What the encoder sees, with its normalisation undone, float32 (px, px, 3) in [0, 1]."""
    seen = build_preprocess(preprocess)(part.images.images[number]).numpy().transpose(1, 2, 0)
    pixels = seen * np.array(preprocess.std) + np.array(preprocess.mean)
    return np.asarray(np.clip(pixels, 0, 1), dtype=np.float32)
