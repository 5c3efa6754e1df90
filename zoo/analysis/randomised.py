"""The encoders whose design choices were drawn at random, and effects of the choices with permutation p-values.

``docs/randomised.md`` is the design; rows and cards of the user take no part. A contrast is a number an encoder, NaN
where the choice does not apply. Its effect is estimated alone, as the slope on it, and by least squares beside all
other contrasts. Outcomes are permuted over encoders, whole rows of them; family-wise p-values are those of the
stepped-down maximum of t (Westfall and Young 1993). Interactions permute residuals (Freedman and Lane 1983).
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..cards.catalogue import catalogue
from ..cards.schema import EncoderCard, Missing
from ..errors import ContentError, QueryError
from ..files import content_folder, shipped_only
from ..optional import requires_extra
from ..results.derived import seed_means, summaries
from ..results.values import SETTINGS, SeedMean
from ..results.vocabulary import LABEL_FREE_METRICS
from .columns import Estimate
from .linear import CONSTANT, fit_ols, null_vectors

with requires_extra("study", needed_for="A randomised experiment"):
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray
    from scipy.stats import t as student


FAMILY, DATASET = "randomised", "fashion-mnist"
RECIPE_RATE = 0.002  # of AdamW; a rate is the recipe's, a third of it or three times it
OBJECTIVES = ("simclr", "vicreg", "byol", "swav", "dino", "context_encoder", "rotnet", "supervised")
JOINT_EMBEDDING = OBJECTIVES[:5]
SWITCHES = ("crop", "flip", "intensity", "blur", "cutout")
LEVELS: Mapping[str, Sequence[float]] = {  # of numbers with three levels, whose contrast is the position: -1, 0, 1
    "dim": (16, 64, 256), "epochs": (1, 2, 4), "batch_size": (64, 128, 256), "rate_factor": (0.33, 1.0, 3.0),
}  # fmt: skip
OF_OBJECTIVE = tuple(f"objective {name}" for name in OBJECTIVES)
UNITS: Mapping[str, str] = {
    **{f"objective {name}": f"{name} against the mean of the other objectives" for name in OBJECTIVES},
    "projector linear": "linear projector against none",
    "projector mlp": "MLP projector against none",
    "projector_width": "width 256 against 64, where there is a projector",
    "dim": "4 times the dimensions",
    "vit": "ViT against ResNet",
    "large": "large against small network",
    "epochs": "doubling of the epochs",
    **{name: f"{name} against none" for name in SWITCHES},
    "batch_size": "doubling of the batch",
    "rate_factor": "3 times the learning rate",
    "n_views": "four against two views",
}
OUTCOMES: Mapping[str, str] = {
    "usability": "Usability",
    "probe_gen": "Probe generalization",
    "enc_gen": "Encoder generalization",
    "full": "Error with all labels",
    "3-shot": "3-shot error",
}
JOINT = "joint embedding"
INTERACTIONS = (
    ("projector mlp", JOINT, "usability"),
    ("crop", JOINT, "full"),
    ("n_views", JOINT, "usability"),
    ("dim", "projector mlp", "probe_gen"),
    ("epochs", "large", "enc_gen"),
    ("epochs", "vit", "full"),
)
"""Contrast, contrast, outcome; stated before the first run."""
EXPECTED_SIGNS = (-1, -1, -1, 0, 1, -1)
"""Of each interaction, stated with it: -1 if the first lowers the outcome more with the second, 1 if it raises it more,
0 if none was expected."""
_NEEDED = {"100%", "3-shot"}  # errors
_HELD_OUT = "train minus subset -> subset"  # of the probe that generalization is measured with


@dataclass(frozen=True, slots=True, kw_only=True)
class Population:
    """The encoders that were drawn and measured; every frame has their ids as its index, in the order of the draw."""

    choices: pd.DataFrame  # one column a choice, as drawn
    contrasts: pd.DataFrame  # float64, columns of UNITS; NaN where a choice does not apply
    outcomes: pd.DataFrame  # percentage points: columns of OUTCOMES, and "approx"
    log: pd.DataFrame  # of the runs: "state", "seconds", "rankme", ...
    unmeasured: tuple[str, ...]  # ids of encoders that were trained and have no decomposition yet

    def __len__(self) -> int:
        return len(self.choices)

    def only(self, encoders: pd.Series[bool]) -> Population:
        """Those of the encoders for which it is true."""
        return Population(
            choices=self.choices[encoders],
            contrasts=self.contrasts[encoders],
            outcomes=self.outcomes[encoders],
            log=self.log[encoders],
            unmeasured=self.unmeasured,
        )


@shipped_only()
def randomised_cards() -> dict[str, EncoderCard]:
    """The cards of the encoders that were drawn, without the supervised twins of their architectures."""
    found = {card.id: card for card in catalogue().with_unlisted.values() if card.family == FAMILY}
    return {name: card for name, card in found.items() if "_twin_" not in name}


@shipped_only()
def randomised_population() -> Population:
    """Choices, contrasts, outcomes and log of every encoder that was drawn and measured."""
    cards = randomised_cards()
    measured = summaries(dataset=DATASET, encoders=cards)
    rows: dict[str, dict[str, Any]] = {}
    for name in cards:
        found = measured.get(name)
        if found is not None and found.decomposition is not None and found.errors.keys() >= _NEEDED:
            parts = found.decomposition
            rows[name] = {
                "approx": parts.approximation,
                "usability": parts.usability,
                "probe_gen": parts.probe_generalization,
                "enc_gen": parts.encoder_generalization,
                "full": found.errors["100%"],
                "3-shot": found.errors["3-shot"],
            }
    if not rows:
        raise QueryError(
            f"No encoder of the family {FAMILY!r} has a decomposition on {DATASET}; run scripts/measure_randomised.py."
        )
    log = runs_log()
    if lost := [name for name in rows if name not in log.index]:
        raise ContentError(
            f"The log of the runs has no line of {', '.join(lost)}, which was measured; reinstall ssl-zoo or clone the "
            "repository again."
        )
    choices = pd.DataFrame({name: choices_of(cards[name]) for name in rows}).T.rename_axis("enc")
    return Population(
        choices=choices,
        contrasts=contrasts_of(choices),
        outcomes=pd.DataFrame(rows).T.rename_axis("enc"),
        log=log.loc[list(rows)],
        unmeasured=tuple(name for name in cards if name not in rows),
    )


def choices_of(card: EncoderCard) -> dict[str, Any]:
    """What was drawn for an encoder, as its card says it."""
    about, head = card.pretraining, card.projector
    kind = "none" if head.first_arch == "identity" else head.first_arch
    words: Any = about.augmentations
    rate: Any = about.learning_rate
    return {
        "objective": card.objective.name,
        "projector": kind,
        "projector_width": float("nan") if isinstance(head.output_dim, Missing) else head.output_dim,
        "dim": card.representation.dim,
        "network": card.architecture.family,
        "size": card.architecture.exact.split()[1],
        "epochs": about.epochs,
        **{name: name in words for name in SWITCHES},
        "batch_size": about.batch_size,
        "rate_factor": round(rate / RECIPE_RATE, 2),
        "n_views": int(str(about.views).partition("x")[0]),
    }


def contrasts_of(choices: pd.DataFrame) -> pd.DataFrame:
    """The contrasts of :data:`UNITS`: 1 or 0 of levels and switches, -1, 0 or 1 of numbers with three levels."""
    columns: dict[str, Any] = {f"objective {name}": choices["objective"] == name for name in OBJECTIVES}
    columns["projector linear"] = (choices["projector"] == "linear").where(choices["projector"] != "mlp")
    columns["projector mlp"] = (choices["projector"] == "mlp").where(choices["projector"] != "linear")
    width = choices["projector_width"].astype("float64")
    columns["projector_width"] = ((width == 256) - 0.5).where(width.notna())  # about 0, where it does not apply
    columns["vit"], columns["large"] = choices["network"] == "vit", choices["size"] == "large"
    columns |= {name: choices[name] for name in SWITCHES}
    columns["n_views"] = choices["n_views"] == 4
    for name, levels in LEVELS.items():
        found = choices[name].astype("float64").to_numpy()
        columns[name] = np.abs(found[:, None] - np.asarray(levels)).argmin(axis=1) - 1
    frame = pd.DataFrame(columns, index=choices.index).astype("float64")
    return frame[list(UNITS)]


def with_joint_embedding(contrasts: pd.DataFrame) -> pd.DataFrame:
    """The contrasts, and one more that is 1 of joint-embedding objectives and 0 of others, for interactions."""
    return contrasts.assign(**{JOINT: contrasts[[f"objective {name}" for name in JOINT_EMBEDDING]].sum(axis=1)})


@shipped_only()
def randomised_law_rows(population: Population) -> tuple[pd.DataFrame, int]:
    """Rows for :func:`~zoo.analysis.scaling_law.fit_scaling_law`, and with how many labels components were measured.

    One row an encoder and number of labels, means over seeds; ``family`` is the network. QueryError if the components
    were not all measured with the same number of labels.
    """
    measured, found = summaries(dataset=DATASET, encoders=population.choices.index), _seed_means(population)
    n_labels = {(one.encoder, one.split): one.n_train for one in found if one.metric == "linear_probe_error"}
    of_components = {n_labels.get((name, _HELD_OUT)) for name in population.outcomes.index}
    n_measured = next(iter(of_components))
    if n_measured is None or len(of_components) > 1:
        raise QueryError(
            f"The components of the {len(population)} randomised encoders were measured with "
            f"{', '.join(sorted(map(str, of_components)))} labels, expected one number for all; measure them alike."
        )
    rows = [
        {
            "encoder": name,
            "setting": setting.name,
            "n": n_labels[name, setting.split],
            "error": measured[name].errors[setting.name],
            "T": parts["approx"] + parts["usability"],
            "probe_gen": parts["probe_gen"],
            "enc_gen": parts["enc_gen"],
            "train_test": parts["full"],
            "family": population.choices.at[name, "network"],
        }
        for name, parts in zip(map(str, population.outcomes.index), population.outcomes.to_dict("records"), strict=True)
        for setting in SETTINGS
        if setting.name in measured[name].errors
    ]
    return pd.DataFrame(rows), n_measured


@shipped_only()
def label_free_values(population: Population) -> pd.DataFrame:
    """Label-free metrics as measured, (n_encoders, n_metrics), by the protocol that most encoders have."""
    by_metric: dict[str, dict[tuple[str, str], dict[str, float]]] = {name: {} for name in LABEL_FREE_METRICS}
    for one in _seed_means(population):
        if one.metric in by_metric:
            by_metric[one.metric].setdefault((one.split, one.protocol), {})[one.encoder] = one.value
    columns = {
        name: pd.Series(max(ways.values(), key=len), dtype="float64").reindex(population.choices.index)
        for name, ways in by_metric.items()
        if ways
    }
    return pd.DataFrame(columns, index=population.choices.index)


def _seed_means(population: Population) -> list[SeedMean]:
    return [one for one in seed_means(population.choices.index) if one.dataset == DATASET]


def runs_log() -> pd.DataFrame:
    """What became of each run, by encoder: ``state`` (trained, collapsed, failed), ``seconds``, ``rankme``, ..."""
    path = content_folder("metadata") / FAMILY / "log.csv"
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = {row.pop("encoder"): row for row in csv.DictReader(file)}
        frame = pd.DataFrame(rows).T.rename_axis("enc")
        numbers = ["seconds", "n_steps", "loss", "rankme", "spread", "accuracy_percent", "size_bytes"]
        return frame.astype(dict.fromkeys(numbers, "float64"))
    except (OSError, KeyError, ValueError) as error:
        raise ContentError(
            f"The log of the runs {path} cannot be read ({error}); reinstall ssl-zoo or clone the repository again."
        ) from error


N_PERMUTATIONS = 9_999
ALONE, BESIDE = "difference in means", "least squares on all choices"
_TIES = 1e-9  # statistics that differ by less are as large as each other


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomisedEffect:
    """The effect of one contrast, or of one interaction, on one outcome."""

    term: str
    outcome: str
    alone: Estimate | None  # the slope on the contrast alone; None of an interaction
    beside: Estimate  # by least squares beside all contrasts; its robust interval is HC3
    p: float  # by permutation, two-sided
    p_family: float  # the same, held for all terms and outcomes of the family
    n: int  # encoders to which the choice applies


def randomised_effects(
    contrasts: pd.DataFrame,
    outcomes: pd.DataFrame,
    *,
    factors: Sequence[Sequence[str]] = (),
    units: Mapping[str, str] | None = None,
    unit: str = "percentage points",
    n_permutations: int = N_PERMUTATIONS,
    seed: int = 0,
) -> list[RandomisedEffect]:
    """Effects of all contrasts on all outcomes, one family of tests.

    ``contrasts`` is (n_encoders, n_contrasts), NaN where one does not apply, and ``outcomes`` (n_encoders, n_outcomes)
    with the same index, complete. ``factors`` are contrasts that are all levels of one choice: each level is compared
    with the mean of the others. ``units`` are words for a unit of a contrast. QueryError if a contrast hardly
    varies, or there are too few encoders.
    """
    _check(contrasts)
    p, p_family = permutation_p(contrasts, outcomes, n_permutations=n_permutations, seed=seed)
    words = {name: f"{unit} per {(units or {}).get(name, name)}" for name in map(str, contrasts)}
    levels = [name for factor in factors for name in factor]
    beside = _beside(_model(contrasts, factors, ""), outcomes, [name for name in words if name not in levels], words)
    for name in levels:
        beside |= _beside(_model(contrasts, factors, name), outcomes, [name], words)
    return [
        _effect(contrasts[name], outcomes[outcome], beside[name, outcome], p[row, column], p_family[row, column])
        for row, name in enumerate(words)
        for column, outcome in enumerate(map(str, outcomes))
    ]


def randomised_mean(
    contrasts: pd.DataFrame,
    outcomes: pd.DataFrame,
    terms: Sequence[str],
    *,
    name: str,
    factors: Sequence[Sequence[str]] = (),
    unit: str = "percentage points",
    n_permutations: int = N_PERMUTATIONS,
    seed: int = 0,
) -> list[RandomisedEffect]:
    """The mean of the effects of several switches on each outcome: what one more of them changes on average.

    ``terms`` are contrasts of at least two switches that apply to all encoders, ``name`` what they are together; other
    arguments are those of :func:`randomised_effects`.
    """
    _check(contrasts)
    number = contrasts[list(terms)].sum(axis=1, skipna=False)
    if len(terms) < 2 or number.isna().any():
        raise QueryError(f"Got {' and '.join(terms)} for a mean, expected two switches or more that apply to all.")
    p, p_family = permutation_p(number.to_frame(name), outcomes, n_permutations=n_permutations, seed=seed)
    model = _model(contrasts, factors, "")
    # sum b_i x_i = mean(b) sum x_i + sum (b_i - mean(b)) (x_i - x_last)
    differences = {term: contrasts[term] - contrasts[terms[-1]] for term in terms[:-1]}
    model = model.drop(columns=list(terms)).assign(**differences, **{name: number})
    beside = _beside(model, outcomes, [name], {name: f"{unit} per {name}"})
    return [
        _effect(number.rename(name), outcomes[outcome], one, p[0, column], p_family[0, column])
        for column, ((_, outcome), one) in enumerate(beside.items())
    ]


def _beside(
    model: pd.DataFrame, outcomes: pd.DataFrame, terms: Sequence[str], units: Mapping[str, str]
) -> dict[tuple[str, str], Estimate]:
    """Coefficients of some terms of a model on every outcome, by term and outcome."""
    method = f"randomised, {BESIDE}"
    found: dict[tuple[str, str], Estimate] = {}
    for outcome in map(str, outcomes):
        fit = fit_ols(model, outcomes[outcome], terms=terms, outcome_name=outcome, unit=units, method=method)
        found |= {(term, outcome): fit.estimate(term) for term in terms}
    return found


def _effect(
    contrast: pd.Series[float], outcome: pd.Series[float], beside: Estimate, p: float, p_family: float
) -> RandomisedEffect:
    """An effect, with the slope on the contrast alone."""
    x = contrast.dropna()
    fit = fit_ols(
        pd.DataFrame({CONSTANT: 1.0, beside.term: x}),
        outcome.loc[x.index],
        terms=[beside.term],
        outcome_name=beside.outcome,
        unit=beside.unit,
        method=f"randomised, {ALONE}",
    )
    return RandomisedEffect(
        term=beside.term,
        outcome=beside.outcome,
        alone=fit.estimate(beside.term).described(p=float(p)),
        beside=beside,
        p=float(p),
        p_family=float(p_family),
        n=len(x),
    )


def randomised_interactions(
    contrasts: pd.DataFrame,
    outcomes: pd.DataFrame,
    pairs: Sequence[tuple[str, str, str]],
    *,
    factors: Sequence[Sequence[str]] = (),
    unit: str = "percentage points",
    n_permutations: int = N_PERMUTATIONS,
    seed: int = 0,
) -> list[RandomisedEffect]:
    """How much more one contrast changes an outcome where another is one larger; one family of tests.

    ``pairs`` are two contrasts and an outcome. The model has all contrasts and the centred product of the two.
    """
    _check(contrasts)
    order = _orders(len(contrasts), n_permutations, seed)
    model = _model(contrasts, factors, "")
    estimates, seen, drawn = [], [], []
    for first, second, outcome in pairs:
        term = f"{first} x {second}"
        product = _centred(contrasts[first]) * _centred(contrasts[second])
        y = outcomes[outcome]
        fit = fit_ols(
            model.assign(**{term: product}),
            y,
            terms=[term],
            outcome_name=outcome,
            unit=f"{unit} more per {first} for each {second}",
            method=f"randomised, {BESIDE}",
        )
        estimates.append(fit.estimate(term))
        independent = model.drop(columns=list(null_vectors(model))).to_numpy(dtype=np.float64)
        basis: NDArray[np.float64] = np.linalg.qr(independent)[0]
        rest = _residual(np.asarray(product, dtype=np.float64), basis)
        residual = _residual(y.to_numpy(dtype=np.float64), basis)
        freedom = len(model) - basis.shape[1] - 1
        shuffled = residual[order]  # (n_permutations, n)
        shuffled = shuffled - (shuffled @ basis) @ basis.T
        seen.append(_t(rest[:, None], residual[None], freedom)[0, 0])
        drawn.append(_t(rest[:, None], shuffled, freedom)[:, 0])
    p, p_family = _stepped_down(np.array(seen), np.stack(drawn, axis=1))
    return [
        RandomisedEffect(
            term=one.term, outcome=one.outcome, alone=None, beside=one, p=float(own), p_family=float(family), n=one.n
        )
        for one, own, family in zip(estimates, p, p_family, strict=True)
    ]


def permutation_p(
    contrasts: pd.DataFrame, outcomes: pd.DataFrame, *, n_permutations: int = N_PERMUTATIONS, seed: int = 0
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Two-sided p-values of all contrasts alone, and those that hold for the family; (n_contrasts, n_outcomes)."""
    seen, drawn = _permuted(contrasts, outcomes, n_permutations, seed)
    p, p_family = _stepped_down(seen.ravel(), drawn.reshape(n_permutations, -1))
    return p.reshape(seen.shape), p_family.reshape(seen.shape)


def critical_t(
    contrasts: pd.DataFrame,
    outcomes: pd.DataFrame,
    *,
    level: float = 0.05,
    n_permutations: int = N_PERMUTATIONS,
    seed: int = 0,
) -> float:
    """The t statistic that the maximum over a family without any effect exceeds with a probability of ``level``."""
    _, drawn = _permuted(contrasts, outcomes, n_permutations, seed)
    return float(np.quantile(drawn.max(axis=(1, 2)), 1 - level))


def detectable(effect: RandomisedEffect, t: float, *, power: float = 0.8) -> float:
    """The effect that would have a t statistic above ``t`` with a probability of ``power``, in the effect's unit."""
    alone = effect.alone
    if alone is None or alone.ci_low is None or alone.ci_high is None:
        raise QueryError(f"The effect of {effect.term} on {effect.outcome} has no interval to judge its power by.")
    error = (alone.ci_high - alone.ci_low) / 2 / float(student.ppf(0.975, effect.n - 2))
    return (t + float(student.ppf(power, effect.n - 2))) * error


def _permuted(
    contrasts: pd.DataFrame, outcomes: pd.DataFrame, n_permutations: int, seed: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Absolute t statistics as seen (n_contrasts, n_outcomes), and of permuted outcomes, (n_permutations, ...)."""
    x, y = contrasts.to_numpy(dtype=float), outcomes.to_numpy(dtype=float)
    order = np.concatenate([np.arange(len(y))[None], _orders(len(y), n_permutations, seed)])
    t = np.empty((len(order), x.shape[1], y.shape[1]))
    whole = np.isfinite(x).all(axis=0)
    for place in range(y.shape[1]):
        values = (y[:, place] - y[:, place].mean())[order]  # (1 + n_permutations, n)
        t[:, whole, place] = _t(x[:, whole] - x[:, whole].mean(axis=0), values, len(y) - 2)
        for number in np.flatnonzero(~whole):
            applies = np.isfinite(x[:, number])
            some, own = values[:, applies], x[applies, number, None]
            some = some - some.mean(axis=1, keepdims=True)
            t[:, [number], place] = _t(own - own.mean(), some, int(applies.sum()) - 2)
    return t[0], t[1:]


def _t(x: NDArray[np.float64], y: NDArray[np.float64], freedom: int) -> NDArray[np.float64]:
    """Absolute t statistics (n_draws, k) of slopes; x (n, k) and y (n_draws, n) have mean 0."""
    spread = np.einsum("ij,ij->i", y, y)[:, None] * np.einsum("ij,ij->j", x, x)
    r = (y @ x) / np.sqrt(np.maximum(spread, 1e-300))
    return np.abs(r) * np.sqrt(freedom / np.maximum(1 - r**2, 1e-12))  # type: ignore[no-any-return]


def _stepped_down(
    seen: NDArray[np.float64], drawn: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """p-values of each statistic, and by the largest of those no larger than it; seen (k,), drawn (n_draws, k)."""
    n = len(drawn) + 1
    p = (1 + (drawn >= seen - _TIES).sum(axis=0)) / n
    order = np.argsort(-seen, kind="stable")
    largest = np.maximum.accumulate(drawn[:, order][:, ::-1], axis=1)[:, ::-1]
    stepped = np.maximum.accumulate((1 + (largest >= seen[order] - _TIES).sum(axis=0)) / n)
    p_family = np.empty_like(stepped)
    p_family[order] = stepped
    return p, p_family


def _orders(n: int, n_permutations: int, seed: int) -> NDArray[np.int64]:
    return np.random.default_rng(seed).permuted(np.tile(np.arange(n), (n_permutations, 1)), axis=1)


def _model(contrasts: pd.DataFrame, factors: Sequence[Sequence[str]], term: str) -> pd.DataFrame:
    """The constant and every contrast, 0 where it does not apply; levels of a factor as differences from the last."""
    columns: dict[str, pd.Series[float]] = {CONSTANT: pd.Series(1.0, index=contrasts.index)}
    differences: dict[str, str] = {}
    for factor in factors:
        others = [name for name in factor if name != term]
        differences |= dict.fromkeys(others, others[-1])
    for name in map(str, contrasts.columns):
        x = contrasts[name].astype("float64")
        if name not in differences:
            columns[name] = x.fillna(0.0)
        elif name != differences[name]:
            columns[name] = x - contrasts[differences[name]]
    return pd.DataFrame(columns)


def _centred(x: pd.Series[float]) -> pd.Series[float]:
    return (x - x.mean()).fillna(0.0)


def _residual(y: NDArray[np.float64], basis: NDArray[np.float64]) -> NDArray[np.float64]:
    return y - basis @ (basis.T @ y)


def _check(contrasts: pd.DataFrame) -> None:
    for term in contrasts:
        x = contrasts[term].dropna()
        least = min(int((x > x.mean()).sum()), int((x < x.mean()).sum()))
        if least < 2:
            raise QueryError(
                f"{term} hardly varies among the {len(x)} encoders it applies to, expected at least 2 on either side "
                "of its mean; draw more encoders."
            )
    if len(contrasts) <= contrasts.shape[1] + 2:
        raise QueryError(
            f"Got {len(contrasts)} encoders and {contrasts.shape[1]} contrasts, expected more encoders than that; "
            "draw more of them or fewer choices."
        )
