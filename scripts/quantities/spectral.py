"""Quantities of spectra, views and classes without a probe: what the label-free metrics of the zoo compute."""

from __future__ import annotations

import math

from zoo.evaluation import label_free

from . import Quantity

_SPECTRA = ("power", "offset", "relu", "wide")

QUANTITIES = {
    "rankme": Quantity(title="RankMe", cases=_SPECTRA, ours=label_free.rankme, call="rankme(z)"),
    "effective_rank": Quantity(
        title="Effective rank",
        cases=_SPECTRA,
        ours=lambda z: label_free.rankme(z, eps=0),
        call="rankme(z, eps=0)",
    ),
    "participation_ratio": Quantity(
        title="Participation ratio",
        cases=_SPECTRA,
        ours=lambda z: math.exp(label_free.matrix_entropy(z, order=2, centred=True)),
        call="exp(matrix_entropy(z, order=2, centred=True))",
    ),
    "alpha_req": Quantity(
        title="alpha-ReQ", cases=_SPECTRA, ours=lambda z: label_free.alpha_req(z).value, call="alpha_req(z).value"
    ),
    "lidar": Quantity(
        title="LiDAR", cases=("views", "few views"), ours=lambda z: label_free.lidar(z).value, call="lidar(z).value"
    ),
    "nesum": Quantity(title="NESum", cases=_SPECTRA, ours=label_free.nesum, call="nesum(z)"),
    "stable_rank": Quantity(title="Stable rank", cases=_SPECTRA, ours=label_free.stable_rank, call="stable_rank(z)"),
    "matrix_entropy": Quantity(
        title="Matrix entropy", cases=_SPECTRA, ours=label_free.matrix_entropy, call="matrix_entropy(z)"
    ),
    "uniformity": Quantity(
        title="Uniformity", cases=("power", "offset", "relu"), ours=label_free.uniformity, call="uniformity(z)"
    ),
    "alignment": Quantity(
        title="Alignment", cases=("views", "few views"), ours=label_free.alignment, call="alignment(z)"
    ),
    "contrast": Quantity(
        title="Alignment and uniformity together (contrast)",
        cases=("views", "few views"),
        ours=lambda z: label_free.contrast(z).value,
        call="contrast(z).value",
    ),
    "neural_collapse": Quantity(
        title="Neural collapse (NC1)",
        cases=("classes", "balanced"),
        ours=lambda z, y, **test: label_free.neural_collapse(z, y=y).value,
        call="neural_collapse(z, y=y).value",
    ),
    "cluster_learnability": Quantity(
        title="Cluster learnability",
        cases=("power", "classes"),
        ours=lambda z, **labels: label_free.cluster_learnability(z).value,
        call="cluster_learnability(z).value",
    ),
}
