"""Rows of learning curves whose every derived number is known in closed form, for the tests of studies.

Scratch has the calibrated risks .9, .5 and .1; an encoder that takes away the share ``a`` of each has a CCI of ``a``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from zoo.evaluation.curves.recipe import TASKS, Recipe, format_protocol_name
from zoo.results.recording import PROVENANCE_KEYS
from zoo.results.rows import Measurement
from zoo.results.vocabulary import METRICS

SIMCLR, VICREG = "pocket_simclr_rn_shapes", "pocket_vicreg_rn_shapes"
ROTNET, MAE = "pocket_rotnet_rn_shapes", "pocket_mae_vit_shapes"
SUPERVISED = "pocket_sup_rn_shapes"
SCRATCH = {50: 0.9, 200: 0.5, 1000: 0.1}  # labels -> calibrated risk
SCALES = {"classification": (90.0, 10.0), "depth": (2.0, 0.4), "normals": (0.5, 0.1)}  # constant baseline and maximal
WORTH = {  # task -> encoder -> share of scratch's calibrated risk that it takes away
    "classification": {SIMCLR: 0.6, VICREG: 0.4, ROTNET: 0.2, MAE: 0.2, SUPERVISED: 0.55},
    "depth": {SIMCLR: 0.3, VICREG: 0.3, ROTNET: 0.2, MAE: 0.2, SUPERVISED: 0.25},
    "normals": {SIMCLR: 0.2, VICREG: 0.2, ROTNET: 0.1, MAE: 0.1, SUPERVISED: 0.2},
}


def curve(
    encoder: str,
    worth: float,
    *,
    task: str = "classification",
    dataset: str = "planted",
    recipe: Recipe | None = None,
    calibrated: Mapping[int, float] | None = None,
    scratch: Mapping[int, float] = SCRATCH,
    seeds: Sequence[int] = (0, 1),
    half_width: float = 1e-4,
    n_all: int = 4000,
    scale: tuple[float, float] | None = None,
    source: str = "own",
    day: str = "2026-11-20",
    controls: Sequence[str] = ("scratch", "maximal", "blind"),
) -> list[Measurement]:
    """Rows of one encoder and its controls; widths are in calibrated risk, seeds lie a half width from their mean."""
    blind, maximal = scale or SCALES[task]
    metric = METRICS[TASKS[task].metrics[0]]
    own = recipe or Recipe()
    risks = calibrated or {n: (1 - worth) * value for n, value in scratch.items()}
    rows = []

    def add(n: int, value: float, *, control: str, own_seeds: Sequence[int | None]) -> None:
        for place, seed in enumerate(own_seeds):
            moved = value + (place - (len(own_seeds) - 1) / 2) * half_width
            low, risk, high = (maximal + (blind - maximal) * (moved + end * half_width) for end in (-1, 0, 1))
            split = "train -> val" if n == n_all else f"train {n} images -> val"
            protocol = format_protocol_name(TASKS[task], own, control=control)
            rows.append(
                Measurement(
                    encoder, metric.name, dataset, split, n, seed, risk, metric.unit, low, high, protocol, source, day
                )
            )

    for n, value in risks.items():
        add(n, value, control="encoder", own_seeds=seeds)
    for n, value in scratch.items():
        if "scratch" in controls:
            add(n, value, control="scratch", own_seeds=seeds)
    if "maximal" in controls:
        add(n_all, 0.0, control="maximal", own_seeds=seeds)
    if "blind" in controls:
        add(n_all, 1.0, control="blind", own_seeds=[None])
    return rows


def population(
    worth: Mapping[str, Mapping[str, float]] = WORTH, *, dataset: str = "planted", half_width: float = 1e-4
) -> list[Measurement]:
    """The rows of several encoders on several tasks."""
    return [
        row
        for task, encoders in worth.items()
        for encoder, share in encoders.items()
        for row in curve(encoder, share, task=task, dataset=dataset, half_width=half_width)
    ]


def provenance(rows: Sequence[Measurement]) -> dict[Measurement, dict[str, object]]:
    """What :func:`zoo.results.recording.record` takes."""
    return {row: dict.fromkeys(PROVENANCE_KEYS) for row in rows}
