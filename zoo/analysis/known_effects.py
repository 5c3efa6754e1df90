"""Known effects of design choices, from choices that were drawn at random, and outcomes drawn with them.

A question names a change of a choice. Its answer in the randomised population is a sum of least-squares coefficients
(:func:`known_effects`); :func:`drawn` simulates outcomes with these effects for any study table.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..errors import QueryError
from ..optional import requires_extra
from ..results.tables import study_facts
from .columns import Estimate
from .ols import CONSTANT, fit_ols
from .randomised_population import JOINT_EMBEDDING, SWITCHES, Population, randomised_cards
from .table import StudyTable, table_of

with requires_extra("study", needed_for="Effects that are known"):
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray
    from scipy import stats

Floats = NDArray[np.float64]
STUDY_OUTCOMES: Mapping[str, str] = {  # of the randomised population -> column of the study table
    "usability": "usability", "probe_gen": "probe_gen", "enc_gen": "enc_gen", "full": "train_test",
    "3-shot": "train-nperclass-3_test",
}  # fmt: skip
CERTAIN = 0.05  # p-value up to which an effect of the randomised population counts as detected
MODE_OF = {
    "vicreg": "siamese", "byol": "siamese", "swav": "clustering", "dino": "distillation",
    "context_encoder": "generative", "rotnet": "transform", "supervised": "supervised",
}  # fmt: skip
REFERENCE_MODE, REFERENCE_OBJECTIVE = "contrastive", "simclr"
LIKE_MODE = {"hierarchical": "distillation"}  # mode of published encoders -> the randomised mode that stands for it
SIZE_RATIO = 2.36  # parameters of a large network to those of a small one, geometric mean over networks and dimensions


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A change of one design choice, whose effect is asked for."""

    name: str
    words: str  # "4 times the dimensions"
    column: str  # of the study table
    ratio: float = 0.0  # of a number: the change is this factor; 0 if the change is one more, or of a level
    level: str = ""  # of a category: the change is to this level ...
    against: str = ""  # ... from this one
    contrasts: Mapping[str, float] | None = None  # of the randomised population, that add up to it; None: it has none


def _mode(mode: str) -> Question:
    objectives = [f"objective {name}" for name, its_mode in MODE_OF.items() if its_mode == mode]
    return Question(
        name=f"mode {mode}", words=f"{mode} against {REFERENCE_MODE}", column="ssl_mode", level=mode,
        against=REFERENCE_MODE, contrasts={name: 1 / len(objectives) for name in objectives},
    )  # fmt: skip


QUESTIONS: tuple[Question, ...] = (
    Question(name="dim", words="4 times the dimensions", column="z_dim", ratio=4, contrasts={"dim": 1}),
    Question(
        name="size", words=f"{SIZE_RATIO:g} times the parameters", column="n_parameters", ratio=SIZE_RATIO,
        contrasts={"large": 1},
    ),
    Question(name="vit", words="ViT against ResNet", column="family", level="vit", against="resnet",
             contrasts={"vit": 1}),
    Question(name="linear", words="linear projector against none", column="projection2_arch", level="linear",
             against="identity", contrasts={"projector linear": 1}),
    Question(name="mlp", words="MLP projector against none", column="projection2_arch", level="mlp",
             against="identity", contrasts={"projector mlp": 1}),
    Question(name="width", words="4 times the projector's output", column="pred_dim", ratio=4,
             contrasts={"projector_width": 1}),
    Question(name="epochs", words="twice the epochs", column="epochs", ratio=2, contrasts={"epochs": 1}),
    Question(name="batch", words="twice the batch", column="batch_size", ratio=2, contrasts={"batch_size": 1}),
    Question(name="rate", words="3 times the learning rate", column="learning_rate", ratio=3,
             contrasts={"rate_factor": 1}),
    Question(name="views", words="twice the views", column="nviews", ratio=2, contrasts={"n_views": 1}),
    Question(name="augmentations", words="one more augmentation", column="n_augmentations",
             contrasts={name: 1 / len(SWITCHES) for name in SWITCHES}),
    *(_mode(mode) for mode in ("siamese", "clustering", "distillation", "generative", "transform", "supervised")),
)  # fmt: skip
PRODUCTS: tuple[tuple[str, str], ...] = (
    ("mlp", "joint embedding"), ("crop", "joint embedding"), ("views", "joint embedding"), ("dim", "mlp"),
    ("epochs", "size"), ("epochs", "vit"),
)  # fmt: skip
"""The interactions that were stated before the first run, as questions; "joint embedding" is a group of modes."""
_CONTRAST = {"mlp": "projector mlp", "views": "n_views", "size": "large"}  # of factors of PRODUCTS with another name
_JOINT_MODES = frozenset({REFERENCE_MODE, *(MODE_OF[name] for name in JOINT_EMBEDDING if name in MODE_OF)})


def questions_of(table: StudyTable) -> tuple[Question, ...]:
    """The questions that the choices of a table allow, and those about choices that have no effect by construction.

    Of optimizers and pretraining data every level is compared with the most frequent one.
    """
    frame = table.frame
    found = []
    stands_for = {modelled: mode for mode, modelled in LIKE_MODE.items() if (frame["ssl_mode"] == mode).any()}
    for question in QUESTIONS:
        level = stands_for.get(question.level, question.level)
        if question.column == "ssl_mode" and not (frame["ssl_mode"] == level).any():
            continue
        words = question.words.replace(question.level, level) if level else question.words
        found.append(replace(question, level=level, words=words))
    if frame.groupby("family")["patch_size"].nunique().max() > 1:
        found.append(Question(name="patch size", words="twice the patch size", column="patch_size", ratio=2))
    for column, word in (("optimizer", "optimizer"), ("pretraining_data", "data")):
        counts = frame[column].value_counts()
        for level in sorted(counts.index[1:]):
            found.append(
                Question(
                    name=f"{word} {level}", words=f"{word} {level} against {counts.index[0]}", column=column,
                    level=str(level), against=str(counts.index[0]),
                )
            )  # fmt: skip
    return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KnownEffects:
    """The effects of all choices on one outcome of the randomised population, by least squares on all of them."""

    outcome: str  # column of the study table
    estimates: Mapping[str, Estimate]  # by question; intervals and p-values are HC3's
    products: Mapping[tuple[str, str], float]  # coefficients of the products of PRODUCTS, by least squares beside all
    spreads: Mapping[str, float]  # question about a number -> standard deviation of its changes among the encoders
    residuals: Floats  # (n,), as large as errors of new encoders
    mean: float  # of the outcome

    def values(self, *, certain_only: bool) -> dict[str, float]:
        """Effects by question, in percentage points; optionally 0 for those that were not detected."""
        return {
            name: 0.0 if certain_only and (one.p or 0.0) > CERTAIN else one.value or 0.0
            for name, one in self.estimates.items()
        }


def known_effects(population: Population, outcome: str) -> KnownEffects:
    """Answers of the randomised population to :data:`QUESTIONS` about an outcome (a key of its ``OUTCOMES``)."""
    y = population.outcomes[outcome].astype("float64")
    column = STUDY_OUTCOMES[outcome]
    design = population.contrasts.fillna(0.0).drop(columns=f"objective {REFERENCE_OBJECTIVE}")
    design.insert(0, CONSTANT, 1.0)
    fit = fit_ols(design, y, outcome_name=column, unit="percentage points", method="randomised")
    if fit.not_identified:
        raise QueryError(
            f"The choices {', '.join(fit.not_identified)} of the {len(y)} randomised encoders add up to others; "
            "expected choices that vary independently, so draw more encoders."
        )
    robust = fit.results.get_robustcov_results("HC3", use_t=True)
    coefficients, covariance = np.asarray(robust.params), np.asarray(robust.cov_params())
    estimates = {}
    for question in QUESTIONS:
        weights = np.array([(question.contrasts or {}).get(str(name), 0.0) for name in design])
        value = float(weights @ coefficients)
        error = math.sqrt(float(weights @ covariance @ weights))
        margin = float(stats.t.ppf(0.975, fit.residual_df)) * error
        estimates[question.name] = Estimate(
            term=question.words, n=len(y), unit="percentage points", outcome=column, method="randomised, least squares"
        ).with_value(
            value, (value - margin, value + margin), p=2 * float(stats.t.sf(abs(value) / error, fit.residual_df))
        )
    return KnownEffects(
        outcome=column,
        estimates=estimates,
        products=_products(population, design, y),
        spreads=_spreads(population),
        residuals=np.asarray(fit.results.resid) * math.sqrt(len(y) / fit.residual_df),
        mean=float(y.mean()),
    )


def _spreads(population: Population) -> dict[str, float]:
    contrasts = population.contrasts.fillna(0.0)
    return {
        question.name: float(contrasts[list(question.contrasts or {})].sum(axis=1).std())
        for question in QUESTIONS
        if not question.level
    }


def _products(population: Population, design: pd.DataFrame, y: pd.Series[float]) -> dict[tuple[str, str], float]:
    objective = population.choices["objective"]
    factors = design.assign(**{"joint embedding": objective.isin(JOINT_EMBEDDING).astype("float64")})
    factors = factors - factors.mean()
    factors = factors.rename(columns={contrast: name for name, contrast in _CONTRAST.items()})
    products = {pair: factors[pair[0]] * factors[pair[1]] for pair in PRODUCTS}
    with_them = design.assign(**{" x ".join(pair): product for pair, product in products.items()})
    fit = fit_ols(with_them, y, outcome_name="", unit="", method="")
    return {pair: fit.estimate(" x ".join(pair)).value or 0.0 for pair in products}


def randomised_table(population: Population) -> StudyTable:
    """The randomised encoders as a study table, so that whatever studies published encoders can study them."""
    cards = randomised_cards()
    rows: dict[str, dict[str, Any]] = {}
    outcomes = population.outcomes.astype("float64")
    for name in map(str, outcomes.index):
        measured = {column: float(outcomes[own][name]) for own, column in STUDY_OUTCOMES.items()}
        measured["approx"] = float(outcomes["approx"][name])
        measured["approx_plus_usability"] = measured["approx"] + measured["usability"]
        rows[name] = {**study_facts(cards[name], False), **measured}
    return table_of(rows, corrected=True)


def for_trees(table: StudyTable) -> StudyTable:
    """The table with epochs in units that trees can tell apart, for they round them to multiples of 200."""
    return replace(table, frame=table.frame.assign(epochs=200 * table.frame["epochs"]))


def positions(table: StudyTable) -> pd.DataFrame:
    """How much of each change every encoder has: one column a question of :data:`QUESTIONS` that is no mode.

    Numbers count in logarithms to the base of the question's ratio, centred; levels are 1 or 0.
    """
    frame = table.frame
    projector = frame["projection2_arch"].fillna(frame["projection1_arch"]).fillna("identity")
    columns = {}
    for question in QUESTIONS:
        if question.column == "ssl_mode":
            continue
        if question.level:
            values = projector if question.column == "projection2_arch" else frame[question.column]
            columns[question.name] = (values == question.level).astype("float64")
        else:
            number = frame[question.column].astype("float64")
            scaled: pd.Series[float] = number.map(math.log) / math.log(question.ratio) if question.ratio else number
            columns[question.name] = (scaled - scaled.mean()).fillna(0.0)
    return pd.DataFrame(columns, index=frame.index)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Drawn:
    """Outcomes that were drawn for the encoders of a table, and the effects that they have."""

    outcomes: Floats  # (n_encoders, n_draws), in percentage points
    truth: Mapping[str, Floats]  # question -> effect in each draw, (n_draws,)


def drawn(
    table: StudyTable,
    known: KnownEffects,
    *,
    n_draws: int,
    seed: int,
    certain_only: bool = True,
    rescaled: bool = True,
    shuffled_modes: bool = False,
    releases: Sequence[str] | None = None,
    share_of_release: float = 0.0,
    with_products: bool = False,
) -> Drawn:
    """Outcomes for the encoders of a table, with known effects and residuals resampled from the randomised population.

    ``certain_only`` sets effects that were not detected to 0. ``rescaled`` scales the effect of a number by the ratio
    of its spreads in both populations. ``shuffled_modes`` permutes the effects of the modes in every draw.
    ``share_of_release`` is the share of the residual variance that encoders of one of the ``releases`` have in common.
    ``with_products`` adds the interactions of :data:`PRODUCTS`.
    """
    chance = np.random.default_rng(seed)
    effects = known.values(certain_only=certain_only)
    place = positions(table)
    for name, spread in known.spreads.items() if rescaled else ():
        if (own := float(place[name].std())) > 0:
            effects[name] *= spread / own
            place[name] *= spread / own  # for the products
    modes = table.frame["ssl_mode"].map(lambda mode: LIKE_MODE.get(mode, mode))
    present = [REFERENCE_MODE, *(mode for mode in dict.fromkeys(MODE_OF.values()) if (modes == mode).any())]
    if unknown := sorted(set(modes.dropna()) - set(present)):
        raise QueryError(f"The table has the modes {', '.join(unknown)}, expected some of {', '.join(present)}.")
    of_modes = np.array([0.0, *(effects[f"mode {mode}"] for mode in present[1:])])
    order = np.tile(np.arange(len(present)), (n_draws, 1))
    by_mode = of_modes[chance.permuted(order, axis=1) if shuffled_modes else order]  # (n_draws, n_modes)
    indicator = np.stack([(modes == mode).to_numpy(float) for mode in present], axis=1)  # (n, n_modes)
    fixed = positions(table).to_numpy() @ np.array([effects[str(name)] for name in place])
    if with_products:
        fixed = fixed + _of_products(known, place, modes)
    systematic = fixed[:, None] + indicator @ by_mode.T
    noise = chance.choice(known.residuals, size=(len(place), n_draws))
    if share_of_release:
        if releases is None or len(releases) != len(place):
            raise QueryError("Got a share of the variance for releases without the release of every encoder; give it.")
        numbers = pd.factorize(pd.Series(list(releases)))[0]
        common = chance.choice(known.residuals, size=(int(numbers.max()) + 1, n_draws))[numbers]
        noise = math.sqrt(share_of_release) * common + math.sqrt(1 - share_of_release) * noise
    truth: dict[str, Floats] = {str(name): np.full(n_draws, effects[str(name)]) for name in place}
    truth |= {f"mode {mode}": by_mode[:, position] - by_mode[:, 0] for position, mode in enumerate(present) if position}
    return Drawn(outcomes=known.mean + systematic - systematic.mean(axis=0) + noise, truth=truth)


def _of_products(known: KnownEffects, place: pd.DataFrame, modes: pd.Series) -> Floats:
    factors = place.assign(**{"joint embedding": modes.isin(_JOINT_MODES).astype("float64")})
    factors = factors - factors.mean()
    total = np.zeros(len(place))
    for pair, coefficient in known.products.items():
        if set(pair) <= set(factors):
            total += coefficient * (factors[pair[0]] * factors[pair[1]]).to_numpy()
    return total


def release_share(residuals: pd.Series[float], releases: Mapping[str, str]) -> Estimate:
    """The share of the variance of residuals that encoders of a release have in common (intraclass correlation).

    By the mean squares between and within releases of a one-way analysis of variance; 0 where that is negative.
    """
    groups = residuals.groupby([releases[str(name)] for name in residuals.index])
    n, k = len(residuals), groups.ngroups
    if k < 2 or n <= k:
        raise QueryError(f"Got {n} encoders of {k} releases, expected several releases with several encoders each.")
    within = float(((residuals - groups.transform("mean")) ** 2).sum()) / (n - k)
    sizes = groups.size()
    between = float((sizes * (groups.mean() - residuals.mean()) ** 2).sum()) / (k - 1)
    size = (n - float((sizes**2).sum()) / n) / (k - 1)
    value = max(0.0, (between - within) / (between + (size - 1) * within))
    return Estimate(term="share of variance within releases", value=value, n=n, unit="share of variance")


def variance_inflation(table: StudyTable) -> dict[str, float]:
    """How many times the variance of each question's coefficient is that of independent choices, at least 1.

    Infinite where a choice follows from the others. Modes are among the others.
    """
    modes = pd.get_dummies(table.frame["ssl_mode"], dtype="float64").iloc[:, 1:]
    place = positions(table).join(modes.add_prefix("objective "))
    found = {}
    for question in QUESTIONS:
        if question.name not in place:
            continue
        y = place[question.name] - place[question.name].mean()
        if float((y**2).sum()) == 0:
            continue
        others = place.drop(columns=question.name)
        x = (others - others.mean()).to_numpy()
        rest = y.to_numpy() - x @ np.linalg.lstsq(x, y.to_numpy(), rcond=None)[0]
        left = float(rest @ rest) / float((y**2).sum())
        found[question.name] = 1 / left if left > 1e-9 else math.inf
    return found
