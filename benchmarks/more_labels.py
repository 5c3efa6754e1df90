"""How often the errors expected with more labels hold the truth, and how far off they are in their own units.

    python benchmarks/more_labels.py [--repeats 40] [--test 1000]

Planted problems: Gaussian classes in 20 dimensions, of which a probe (logistic regression) is trained on eighths,
quarters, halves and all of 640 labels, as ``zoo choose`` does, and on as many other draws of 1,280 and 2,560 labels as
make their mean error known; errors are those on 20,000 other images. z is the truth less the expectation, over a
quarter of the width of the 95 % interval; its root mean square is near 1 where intervals are as wide as they should be.
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any

import numpy as np
from prettytable import PrettyTable
from sklearn.linear_model import LogisticRegression

from zoo.choosing.comparing import FACTORS, draw_label_parts, measure_label_curve

N, DIM, CLASSES = 640, 20, 5
N_AGAIN, N_KNOWN = 5, 20_000


def drawn(n: int, spread: float, random: np.random.Generator) -> tuple[Any, Any]:
    """Features (n, 20) and labels (n,); the means are the same in every draw."""
    means = spread * np.random.default_rng(0).standard_normal((CLASSES, DIM))
    y = random.permutation(np.arange(n) % CLASSES)
    return (means[y] + random.standard_normal((n, DIM))).astype(np.float32), y


def probed(x: Any, y: Any) -> Any:
    """A trained probe."""
    return LogisticRegression(C=0.1, max_iter=300).fit(x, y)


def predictor(name: str, rows: Any, x: Any, y: Any) -> Any:
    """A trained probe, as races ask for it."""
    trained = probed(x, y)
    return lambda x_test, rows_test: trained.predict(x_test)


def main() -> None:
    """Prints a row per problem and number of labels."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=40)
    parser.add_argument("--test", type=int, default=1_000)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    heads = ["spread", "factor", "truth", "given", "held", "rms z", "bias z", "width", "gain held", "gain rms z"]
    table = PrettyTable(heads)
    for spread in (0.25, 0.4, 0.6):
        random = np.random.default_rng(1)
        known = drawn(N_KNOWN, spread, random)

        def error_with(n: int, spread: float = spread, known: Any = known) -> float:
            again = np.random.default_rng(n)
            some = [probed(*drawn(n, spread, again)) for _ in range(N_AGAIN)]
            return float(np.mean([100 * (one.predict(known[0]) != known[1]).mean() for one in some]))

        now, truths = error_with(N), [error_with(round(factor * N)) for factor in FACTORS]
        found: list[list[tuple[float, ...]]] = [[] for _ in FACTORS]
        for repeat in range(options.repeats):
            x, y = drawn(N, spread, random)
            x_test, y_test = drawn(options.test, spread, random)
            curve = measure_label_curve(
                "planted",
                draw_label_parts(y, np.arange(N), None),
                x,
                y,
                x_test,
                np.arange(options.test),
                y_test,
                probe=predictor,
                seed=repeat,
            )
            for place, point in enumerate(curve.expected):
                row = []
                for one, truth in ((point.error, truths[place]), (point.gain, now - truths[place])):
                    assert one is not None and one.ci_low is not None and one.ci_high is not None
                    row += [one.ci_low <= truth <= one.ci_high, 4 * (truth - one.value) / (one.ci_high - one.ci_low)]
                found[place].append((*row, point.error.ci_high - point.error.ci_low))  # type: ignore[operator]
        for factor, truth, rows in zip(FACTORS, truths, found, strict=True):
            held, z, gain_held, gain_z, width = np.array(rows).T
            cells = [truth, len(rows), held.mean(), (z**2).mean() ** 0.5, z.mean(), width.mean(), gain_held.mean()]
            table.add_row([spread, factor, *(f"{one:.2f}" for one in (*cells, (gain_z**2).mean() ** 0.5))])
    print(table)


if __name__ == "__main__":
    main()
