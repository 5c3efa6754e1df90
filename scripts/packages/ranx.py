"""ranx: retrieval metrics of ranked lists."""

import numpy as np
from ranx import Qrels, Run, evaluate

REQUIREMENTS = ("ranx==0.3.21", "numpy==2.4.6")


def retrieval(metric, z, y, z_test, y_test, **options):
    unit = [rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (z_test, z)]
    scores = unit[0] @ unit[1].T
    wanted = {str(i): {str(j): 1 for j in np.flatnonzero(y == label)} for i, label in enumerate(y_test)}
    ranked = {str(i): {str(j): float(one) for j, one in enumerate(row)} for i, row in enumerate(scores)}
    return evaluate(Qrels({i: some for i, some in wanted.items() if some}), Run(ranked), metric, make_comparable=True)


QUANTITIES = {
    "retrieval_map": lambda **data: retrieval("map", **data),
    "retrieval_map:map@20": lambda **data: retrieval("map@20", **data),
}
