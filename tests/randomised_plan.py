"""A randomised population whose effects, scaling law and metrics are known, for tests of what studies it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from zoo.analysis.randomised import LEVELS, OBJECTIVES, OUTCOMES, SWITCHES, RandomisedPopulation, compute_contrasts
from zoo.analysis.scaling_law import predict_law_errors

N_MEASURED = 50_000
LABELS = {"100%": 60_000, "1%": 600, "30-shot": 300, "5-shot": 50, "3-shot": 30}
SPREAD = {"usability": 4.0, "probe_gen": 0.4, "enc_gen": 0.4, "full": 4.0, "3-shot": 6.0}


def drawn_choices(n: int = 72, *, seed: int = 0) -> pd.DataFrame:
    """Choices as the design draws them, every objective equally often."""
    draw = np.random.default_rng(seed)
    projector = draw.choice(["none", "linear", "mlp"], n)
    columns = {
        "objective": draw.permutation(np.resize(OBJECTIVES, n)),
        "projector": projector,
        "projector_width": np.where(projector == "none", np.nan, draw.choice([64.0, 256.0], n)),
        "dim": draw.choice(LEVELS["dim"], n),
        "network": draw.choice(["resnet", "vit"], n),
        "size": draw.choice(["small", "large"], n),
        "epochs": draw.choice(LEVELS["epochs"], n),
        **{name: draw.integers(2, size=n).astype(bool) for name in SWITCHES},
        "batch_size": draw.choice(LEVELS["batch_size"], n),
        "rate_factor": draw.choice(LEVELS["rate_factor"], n),
        "n_views": draw.choice([2, 4], n),
    }
    index = pd.Index([f"enc_{number:03}" for number in range(n)], name="enc")
    return pd.DataFrame(columns, index=index).astype({"dim": object, "network": object})


def planted_population(
    effects: Mapping[tuple[str, str], float] | None = None,
    *,
    n: int = 72,
    seed: int = 0,
    noise: float = 1.0,
    unmeasured: tuple[str, ...] = (),
) -> RandomisedPopulation:
    """Encoders of which some contrasts change some outcomes by so much, with normal noise; ``noise`` scales it."""
    choices, draw = drawn_choices(n, seed=seed), np.random.default_rng(seed + 1)
    contrasts = compute_contrasts(choices)
    outcomes = pd.DataFrame(
        {name: 20 + noise * SPREAD[name] * draw.normal(size=n) for name in OUTCOMES}, index=choices.index
    )
    for (term, outcome), effect in (effects or {}).items():
        outcomes[outcome] += effect * contrasts[term].fillna(0.0)
    log = pd.DataFrame({"state": "trained", "seconds": 36.0}, index=choices.index)
    return RandomisedPopulation(
        choices=choices,
        contrasts=contrasts,
        outcomes=outcomes.assign(approx=5.0),
        log=log,
        unmeasured=unmeasured,
    )


def planted_law_rows(
    population: RandomisedPopulation, *, alpha: float = 0.3, w: float = 0.1, noise: float = 0.5, seed: int = 2
) -> pd.DataFrame:
    """Errors of the encoders that obey the law but for normal noise, in percentage points."""
    draw, rows = np.random.default_rng(seed), []
    for name in population.choices.index:
        on_train, probe_gen, enc_gen = draw.uniform([10, 0, 0], [40, 2, 1])
        cells = {"T": on_train, "probe_gen": probe_gen, "enc_gen": enc_gen}
        for setting, n in LABELS.items():
            error = predict_law_errors({**cells, "n": n}, alpha=alpha, w=w, n_measured=N_MEASURED).item()
            error = min(100.0, max(0.0, error + noise * draw.normal()))
            rows.append({"encoder": name, "setting": setting, "n": n, "error": error, **cells, "train_test": on_train})
    return pd.DataFrame(rows).assign(family="resnet")
