"""Traps in metrics of features and predictions, and in statistics; :mod:`tests.traps` says how to read a row."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import shap
from scipy import stats
from scipy.special import betaincinv
from sklearn import metrics as sk
from statsmodels.api import OLS
from statsmodels.formula import api as smf
from statsmodels.regression.mixed_linear_model import MixedLM

from analysis.which_objectives_are_usable.differences import estimate_adjusted_differences
from tests.analysis.test_importance import FEATURES, PARAMETERS
from tests.traps import Trap, hold
from zoo.analysis import tree_importance
from zoo.analysis.columns import Estimate
from zoo.analysis.correlations import correlate_columns
from zoo.analysis.linear import adjust_discovery_rates, fit_ols
from zoo.analysis.table import build_table
from zoo.analysis.trees import select_sample, train_trees
from zoo.evaluation import classification_metrics, tag_metrics
from zoo.evaluation.bootstrap import compute_error_interval, estimate_surplus_variances
from zoo.evaluation.label_free import intrinsic_dimension, nesum, rankme, uniformity
from zoo.evaluation.neighbours import NeighbourProbe
from zoo.evaluation.regression import compute_number_metrics
from zoo.evaluation.transferability import leave_one_out_neighbours
from zoo.studies.report import ESTIMATE_HEADERS

RANDOM = np.random.default_rng(0)
Z = RANDOM.normal(size=(300, 8)).astype(np.float32)
COPIED = np.concatenate([Z, Z[:60]])
FAR = np.float32(1000) + (RANDOM.normal(size=(200, 16)) * 2.0 ** -np.arange(16)).astype(np.float32)


def plain_twonn(z: np.ndarray) -> float:
    """The line through the origin of Facco et al. 2017, without the largest tenth of the ratios; no rule for copies."""
    distances = np.sort(np.linalg.norm(z[:, None].astype(float) - z[None], axis=2), axis=1)[:, 1:3]
    logs = np.sort(np.log((distances[:, 1] + 1e-12) / (distances[:, 0] + 1e-12)))
    n = len(logs)
    kept, heights = logs[: int(n * 0.9)], -np.log1p(-np.arange(1, n) / n)[: int(n * 0.9)]
    return float(kept @ heights / (kept @ kept))


def gram_distances(z: np.ndarray) -> np.ndarray:
    """Squared distances in float32 as most have them: lengths and products."""
    squares = (z * z).sum(axis=1)
    return np.maximum(squares[:, None] + squares[None] - 2 * z @ z.T, 0)


CROWDED = np.concatenate([np.float32(100) + 1e-4 * Z, np.float32(100) + 1e-4 * Z[:30]])


def equal_by_distance(z: np.ndarray) -> int:
    """Rows at a distance of 0 from an earlier one."""
    return int((np.tril(gram_distances(z) == 0, -1)).any(axis=1).sum())


def entropy_rank(shares: np.ndarray) -> float:
    shares = shares / shares.sum() + 1e-7
    return float(np.exp(-(shares * np.log(shares)).sum()))


def eigenvalues_by_moments(z: np.ndarray) -> np.ndarray:
    """Of the covariance as E[zz] - E[z]E[z] in float32."""
    mean = z.mean(axis=0)
    return np.linalg.eigvalsh((z.T @ z) / np.float32(len(z)) - np.outer(mean, mean))[::-1]


# Test labels of three of four classes; nobody has the last one.
Y = np.array([0, 0, 0, 1, 1, 2, 2, 2])
P = np.array(
    [[7, 1, 1, 1], [1, 7, 1, 1], [7, 1, 1, 1], [1, 7, 1, 1], [1, 7, 1, 1], [1, 1, 7, 1], [1, 1, 1, 7], [7, 1, 1, 1]]
)
P = P / 10
TAGS = np.zeros((20, 3), int)
TAGS[:2, 0] = TAGS[5:15, 1] = 1  # a rare tag, a usual one and one that no image has
SCORES = np.stack([np.linspace(0.9, 0.1, 20), RANDOM.permutation(20) / 20, np.full(20, 0.2)], axis=1)
ORDERED = np.arange(20) < 4  # the images with the tag come first
SOME = np.round(RANDOM.random(40), 1)
POSITIVE = RANDOM.random(40) < 0.3


def of_two(positive: np.ndarray, scores: np.ndarray, metric: str) -> float:
    p = np.stack([1 - scores, scores], axis=1)
    return classification_metrics(positive.astype(int), p, n_draws=0).metrics[metric].value


def pairs_in_order(positive: np.ndarray, scores: np.ndarray, *, ties: float) -> float:
    """Percent of pairs of a positive and a negative image in the right order; equal ones count as ``ties``."""
    apart = scores[positive][:, None] - scores[~positive][None]
    return float(100 * ((apart > 0) + ties * (apart == 0)).mean())


def precision_in_order(positive: np.ndarray) -> float:
    """Average precision of images in the order in which they lie, as if no two scores were equal."""
    hits = np.cumsum(positive)
    return float(100 * (hits / np.arange(1, len(hits) + 1))[positive].mean())


CONFIDENCES = np.array([0.5, 0.5, 0.5, 0.75, 0.75, 0.9])
RIGHT = np.array([True, True, True, False, True, True])


def calibration_by_hand(in_upper: np.ndarray) -> float:
    """Expected calibration error, percent, of two bins."""
    gaps = [abs(CONFIDENCES[b].sum() - RIGHT[b].sum()) for b in (in_upper, ~in_upper)]
    return float(100 * sum(gaps) / len(RIGHT))


def calibration_of_zoo() -> float:
    p = np.stack([CONFIDENCES, 1 - CONFIDENCES], axis=1)
    return classification_metrics((~RIGHT).astype(int), p, n_draws=0, n_bins=2).metrics["calibration_error"].value


# One neighbour at a cosine of 1 of class 0, three at 0.8 of class 1; temperature 0.07.
NEAR = np.array([[1.0, 0.0], [0.8, 0.6], [0.8, 0.6], [0.8, -0.6]])
LABELS = np.array([0, 1, 1, 1])
LONG = np.array(
    [[10.0, 1.0], [1.0, 1.0], [1.0, 1.1]]
)  # nearest to (1, 0): the first by angle, the last two by distance
PURE_NOISE = np.random.default_rng(5).normal(size=(120, 6))
COINS = np.random.default_rng(6).integers(0, 2, 120)


def own_neighbour(z: np.ndarray, y: np.ndarray) -> float:
    """Accuracy of the nearest neighbour where each image may vote on itself."""
    unit = z / np.linalg.norm(z, axis=1, keepdims=True)
    return float(100 * (y[(unit @ unit.T).argmax(axis=1)] == y).mean())


def others_neighbour(z: np.ndarray, y: np.ndarray) -> float:
    unit = z / np.linalg.norm(z, axis=1, keepdims=True)
    similarities = unit @ unit.T
    np.fill_diagonal(similarities, -np.inf)
    return float(100 * (y[similarities.argmax(axis=1)] == y).mean())


def log_mean_gaussian(*, with_itself: bool) -> float:
    unit = Z.astype(float) / np.linalg.norm(Z.astype(float), axis=1, keepdims=True)
    kernel = np.exp(-2 * (2 - 2 * unit @ unit.T))
    return float(np.log(kernel.mean() if with_itself else kernel[np.triu_indices(len(Z), 1)].mean()))


NUMBERS = np.arange(10.0)
BIASED = 2 * NUMBERS + 5


def design() -> tuple[pd.DataFrame, pd.Series]:
    random = np.random.default_rng(1)
    x = random.normal(size=12)
    return pd.DataFrame({"constant": 1.0, "x": x}), pd.Series(0.5 * x + random.normal(size=12) * (1 + x**2))


def p_of_hc3(distribution: Any) -> float:
    """By the definition of MacKinnon and White 1985: squared residuals over (1 - leverage) squared."""
    frame, y = design()
    x = frame.to_numpy()
    inverse = np.linalg.inv(x.T @ x)
    beta = inverse @ x.T @ y
    weights = ((y - x @ beta) / (1 - np.einsum("ij,jk,ik->i", x, inverse, x))) ** 2
    error = np.sqrt((inverse @ (x.T * weights.to_numpy()) @ x @ inverse)[1, 1])
    return float(2 * distribution.sf(abs(beta[1]) / error))


def p_of_statsmodels() -> float:
    frame, y = design()
    return float(OLS(y, frame).fit(cov_type="HC3").pvalues["x"])


def seeds_and_images() -> tuple[np.ndarray, np.ndarray]:
    """Losses of 60 seeds (rows) on 10 images each: seeds vary by 2, images by 8."""
    random = np.random.default_rng(2)
    losses = 30 + 2 * random.normal(size=(60, 1)) + 8 * random.normal(size=(60, 10))
    resampled = losses.mean(axis=1) + np.sqrt(losses.var(axis=1, ddof=1) / 10) * random.normal(size=(4000, 60))
    return losses, resampled


def variance_of_seeds() -> float:
    """By analysis of variance: mean squares between seeds less those within, over the images of a seed."""
    losses, _ = seeds_and_images()
    return float(losses.mean(axis=1).var(ddof=1) - losses.var(axis=1, ddof=1).mean() / 10)


def zoo_variance_of_seeds() -> float:
    losses, resampled = seeds_and_images()
    return float(
        np.median(estimate_surplus_variances([(losses.mean(axis=1), resampled)], random=np.random.default_rng(0)))
    )


def mixed_parameter() -> float:
    """What statsmodels lists among ``params`` of a mixed model: the variance over that of the residual."""
    losses, _ = seeds_and_images()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = MixedLM(losses.ravel(), np.ones(losses.size), groups=np.repeat(np.arange(60), 10)).fit()
    return float(np.asarray(fit.params)[-1])


def population() -> Any:
    random = np.random.default_rng(0)
    return build_table(
        {
            f"encoder_{number}": {
                "z_dim": 2.0 ** int(random.integers(8, 13)),
                "batch_size": 2.0 ** int(random.integers(8, 13)),
                "projection2_arch": str(random.choice(["mlp", "linear"])),
                "usability": 40 + 10 * random.exponential(),
            }
            for number in range(80)
        }
    )


WHOLE = PARAMETERS | {
    "subsample": 1.0,
    "lambda": 50.0,
}  # every tree has seen every row, so that the mean is that of the rows


def trees() -> tuple[Any, Any]:
    sample = select_sample(population(), "usability", FEATURES)
    return train_trees(sample, dict(WHOLE), seed=0), sample


def mean_prediction() -> float:
    """SHAP values by the paths of trees add up from the mean prediction of the rows that were trained on."""
    model, sample = trees()
    return float(model.predict(sample.matrix(np.arange(sample.n))).mean())


def expected_before() -> float:
    model, _ = trees()
    return float(np.ravel(shap.TreeExplainer(model).expected_value)[0])


TIED = pd.Series([1.0, 1.0, 1.0, 2.0, 2.0, 3.0, 4.0, 5.0])
RISING = pd.Series([1.0, 2.0, 3.0, 3.0, 4.0, 5.0, 6.0, 7.0])


def tau_a(x: np.ndarray, y: np.ndarray) -> float:
    return float(np.sign(np.subtract.outer(x, x) * np.subtract.outer(y, y)).sum() / (len(x) * (len(x) - 1)))


P_VALUES = [0.01, 0.04, 0.03, 0.5]


def with_p(p_values: list[float]) -> list[Estimate]:
    return [Estimate(term=str(place), value=1.0, n=9, unit="", p=p) for place, p in enumerate(p_values)]


def heads() -> Any:
    """Thirty encoders, a third of which have no projector, which is a missing cell."""
    random = np.random.default_rng(3)
    rows: dict[str, dict[str, Any]] = {}
    for number in range(30):
        rows[f"encoder_{number}"] = {
            "ssl_mode": ("contrastive", "clustering")[number % 2],
            "usability": 20 + 2 * (number % 3 == 0) + random.normal(),
        } | ({"projection1_arch": ("mlp", "linear")[number // 2 % 2]} if number % 3 else {})
    return build_table(rows)


def compared() -> int:
    options = {"reference": "contrastive", "fixed": ("projection1_arch",)}
    return estimate_adjusted_differences(heads(), "usability", "ssl_mode", **options)[0].n


NEARLY_COPIED = np.concatenate([Z, Z[:60] + np.float32(1e-5)])

NUMBERS_TABLE = [
    Trap(
        "TwoNN without near duplicates is that of one of each",
        zoo=lambda _: intrinsic_dimension(NEARLY_COPIED).value_without_near_duplicates,
        right=plain_twonn(Z),
        usual=plain_twonn(NEARLY_COPIED),
        within=1e-3,
    ),
    Trap(
        "false-discovery rates never fall where p rises",
        zoo=lambda _: [one.p_adjusted for one in adjust_discovery_rates(with_p(P_VALUES), family="four")],
        right=[0.04, 0.16 / 3, 0.16 / 3, 0.5],
        usual=[p * 4 / (1 + sorted(P_VALUES).index(p)) for p in P_VALUES],
        within=1e-9,
    ),
    Trap(
        "encoders without a projector are a level and not left out",
        zoo=lambda _: compared(),
        right=30,
        usual=lambda _: int(smf.ols("usability ~ ssl_mode + projection1_arch", heads().frame).fit().nobs),
    ),
    Trap(
        "copies of rows are found by their bytes and not by a distance of 0",
        zoo=lambda _: intrinsic_dimension(CROWDED).n_duplicates,
        right=len(CROWDED) - len(np.unique(CROWDED, axis=0)),
        usual=equal_by_distance(CROWDED),
    ),
    Trap(
        "TwoNN leaves copies out, whose ratio is infinite",
        zoo=lambda _: intrinsic_dimension(COPIED).value,
        right=plain_twonn(Z),
        usual=plain_twonn(COPIED),
        within=1e-3,
    ),
    Trap(
        "RankMe is the entropy of singular values and not of eigenvalues",
        zoo=lambda _: rankme(FAR),
        right=entropy_rank(np.linalg.svd(FAR.astype(float), compute_uv=False)),
        usual=entropy_rank(np.linalg.svd(FAR.astype(float), compute_uv=False) ** 2),
        within=1e-4,
    ),
    Trap(
        "the spectrum of features far from 0 is not what float32 leaves of it",
        zoo=lambda _: nesum(FAR),
        right=float(np.linalg.eigvalsh(np.cov(FAR.astype(float), rowvar=False)).sum())
        / float(np.linalg.eigvalsh(np.cov(FAR.astype(float), rowvar=False))[-1]),
        usual=float(eigenvalues_by_moments(FAR).sum() / eigenvalues_by_moments(FAR)[0]),
        within=1e-3,
    ),
    Trap(
        "uniformity is of pairs of different images",
        zoo=lambda _: uniformity(Z),
        right=log_mean_gaussian(with_itself=False),
        usual=log_mean_gaussian(with_itself=True),
        within=1e-4,
    ),
    Trap(
        "a class that no test image has does not count in the balanced error",
        zoo=lambda _: classification_metrics(Y, P, n_draws=0).metrics["balanced_error"].value,
        right=100 * (1 / 3 + 0 + 2 / 3) / 3,
        usual=100 * (1 - sk.recall_score(Y, P.argmax(1), labels=range(4), average="macro", zero_division=0)),
        within=1e-9,
    ),
    Trap(
        "a tag that no image has does not count in the mean average precision",
        zoo=lambda _: tag_metrics(TAGS, SCORES, n_draws=0).metrics["tag_average_precision"].value,
        right=100 * np.mean([sk.average_precision_score(TAGS[:, c], SCORES[:, c]) for c in (0, 1)]),
        usual=lambda _: macro_precision(),
        within=1e-9,
    ),
    Trap(
        "scores that are all equal have the share of positives as average precision",
        zoo=lambda _: of_two(ORDERED, np.full(20, 0.3), "average_precision"),
        right=100 * 4 / 20,
        usual=precision_in_order(ORDERED),
        within=1e-9,
    ),
    Trap(
        "average precision is a sum of steps and not the area under straight lines",
        zoo=lambda _: of_two(POSITIVE, SOME, "average_precision"),
        right=100 * sk.average_precision_score(POSITIVE, SOME),
        usual=100 * sk.auc(*sk.precision_recall_curve(POSITIVE, SOME)[1::-1]),
        within=1e-9,
    ),
    Trap(
        "equal scores count as half a pair in AUROC",
        zoo=lambda _: of_two(POSITIVE, SOME, "auroc"),
        right=pairs_in_order(POSITIVE, SOME, ties=0.5),
        usual=pairs_in_order(POSITIVE, SOME, ties=0.0),
        within=1e-9,
    ),
    Trap(
        "a confidence at the end of a bin of the calibration lies in the bin below",
        zoo=lambda _: calibration_of_zoo(),
        right=calibration_by_hand(CONFIDENCES > 0.5),
        usual=calibration_by_hand(CONFIDENCES >= 0.5),
        within=1e-9,
    ),
    Trap(
        "an error of 0 has an interval",
        zoo=lambda _: compute_error_interval(np.zeros(50, bool)).ci_high,
        right=100 * betaincinv(0.5, 50.5, 0.975),
        usual=0.0,  # 1.96 sqrt(p (1 - p) / n), and every bootstrap of the images
        within=1e-9,
    ),
    Trap(
        "neighbours vote by exp(cosine / 0.07) and not one each",
        zoo=lambda _: int(NeighbourProbe(k=4).fit(NEAR, LABELS).predict([[2.0, 0.0]])[0]),
        right=int(3 * np.exp(0.8 / 0.07) > np.exp(1 / 0.07)),
        usual=int(np.bincount(LABELS).argmax()),
    ),
    Trap(
        "the nearest image is that of the smallest angle",
        zoo=lambda _: int(NeighbourProbe(k=1).fit(LONG, np.array([0, 1, 1])).predict([[1.0, 0.0]])[0]),
        right=0,
        usual=int(np.array([0, 1, 1])[np.linalg.norm(LONG - [1.0, 0.0], axis=1).argmin()]),
    ),
    Trap(
        "no image is its own neighbour",
        zoo=lambda _: leave_one_out_neighbours(PURE_NOISE, COINS, k=1).value,
        right=others_neighbour(PURE_NOISE, COINS),
        usual=own_neighbour(PURE_NOISE, COINS),
        within=1e-9,
    ),
    Trap(
        "R2 is the share of variance that predictions explain and no squared correlation",
        zoo=lambda _: compute_number_metrics(NUMBERS, BIASED, n_draws=1).metrics["r2"].value,
        right=1 - ((BIASED - NUMBERS) ** 2).sum() / ((NUMBERS - NUMBERS.mean()) ** 2).sum(),
        usual=float(np.corrcoef(NUMBERS, BIASED)[0, 1] ** 2),
        within=1e-9,
    ),
    Trap(
        "Kendall's tau of columns with equal values allows for them",
        zoo=lambda _: correlate_columns(TIED, RISING, term="x")[1].value,
        right=float(stats.kendalltau(TIED, RISING, variant="b").statistic),
        usual=tau_a(TIED.to_numpy(), RISING.to_numpy()),
        within=1e-9,
    ),
    Trap(
        "SHAP values add up from the mean prediction, and not from what an explainer says before its first call",
        zoo=lambda _: tree_importance(population(), "usability", features=FEATURES, parameters=WHOLE).base,
        right=lambda _: mean_prediction(),
        usual=lambda _: expected_before(),
        within=1e-5,
    ),
    Trap(
        "p with HC3 standard errors is of Student's t with the degrees of freedom that are left",
        zoo=lambda _: fit_ols(*design(), outcome_name="y", unit="", method="").estimate("x").p_robust,
        right=p_of_hc3(stats.t(12 - 2)),
        usual=p_of_statsmodels(),
        within=1e-6,
    ),
    Trap(
        "tables say which distribution p with HC3 standard errors is of",
        zoo=lambda _: [name for name in ESTIMATE_HEADERS if "HC3" in name],
        right=["p, HC3 and t"],
        usual=["P>|z|"],
    ),
    Trap(
        "the variance of seeds is in squared points and no ratio to that of images",
        zoo=lambda _: zoo_variance_of_seeds(),
        right=lambda _: variance_of_seeds(),
        usual=lambda _: mixed_parameter(),
        within=0.05,  # of a median of draws; that of chi squared with 59 degrees of freedom is 1.1 % below its mean
    ),
]


def macro_precision() -> float:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a class has no positive image
        return 100 * float(sk.average_precision_score(TAGS, SCORES, average="macro"))


@pytest.mark.parametrize("trap", NUMBERS_TABLE, ids=str)
def test_a_number_is_right_where_the_usual_way_has_another(trap: Trap, tmp_path: Path) -> None:
    hold(trap, tmp_path)
