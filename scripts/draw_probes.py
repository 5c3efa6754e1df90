"""Draws ``docs/probes.svg``: why the error of a penalised probe depends on how the features are prepared.

    python scripts/draw_probes.py [--out FILE]

One toy vision transformer on digits. On the left every principal direction of the features of all training
images: how much of the variance it holds, and how well it tells the classes apart. On the right the error on the test
images of a logistic regression on ten labels per class against its C, by preparation, mean of the draws of labels;
every fit is solved to convergence. Printed are the numbers that ``docs/probes.md`` quotes, among them what the protocol
of ``zoo evaluate`` chose on its tuning rows, and the errors of that choice. Needs no network; a minute on one core.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from matplotlib import rc_context
from numpy.typing import NDArray

from zoo.datasets import open_images
from zoo.evaluation.drawing import draw_legend_below, make_figure, use_style, write_panel_letters
from zoo.evaluation.evaluating import build_probe_maker, featurise_data
from zoo.evaluation.logistic import LogisticProbe
from zoo.evaluation.measuring import N_SEEDS, divide, label_setting, measure
from zoo.evaluation.protocols import PROTOCOLS
from zoo.features import Features
from zoo.files import get_evaluations_folder, replace_file
from zoo.studies.figure_svg import render_figure_svg

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

ENCODER, IMAGES, SETTING, PROTOCOL = "pocket_simclr_vit_shapes", "digits", "10-shot", "zoo-logistic-3"
PREPARATIONS: tuple[str, ...] = PROTOCOLS[PROTOCOL].settings["preparations"]
VALUES = tuple(float(value) for value in 10.0 ** np.arange(-2.0, 5.25, 0.5))  # of C
N_SHOWN = 40  # directions
_WIDTH = 8.6  # inches, as wide as a page of GitHub's
_TYPE = ("axes.titlesize", "axes.labelsize", "xtick.labelsize", "ytick.labelsize")
_LOOKS = dict(
    zip(
        PREPARATIONS,
        (("#444444", "o"), ("#CC79A7", "s"), ("#D55E00", "^"), ("#009E73", "D"), ("#0072B2", "v")),
        strict=True,
    )
)

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Directions:
    """Principal directions of features, by falling variance."""

    variance: Floats  # (n_directions,), shares of the whole variance, percent
    between: Floats  # (n_directions,), of the direction's own variance the share between the means of classes, percent


def directions(x: Floats, y: NDArray[np.int64]) -> Directions:
    """The principal directions of features (n, dim) of labelled images (n,)."""
    centred = x - x.mean(axis=0)
    along = centred @ np.linalg.svd(centred, full_matrices=False)[2].T
    total = np.square(along).mean(axis=0)
    classes, counts = np.unique(y, return_counts=True)
    means = np.array([along[y == label].mean(axis=0) for label in classes])
    between = counts @ np.square(means) / len(y)
    return Directions(variance=100 * total / total.sum(), between=100 * between / total)


def errors_by_c(train: Features, test: Features, *, values: Sequence[float], n_seeds: int) -> dict[str, Floats]:
    """By preparation the mean error over draws of labels (n_values,), on the test images, percent."""
    x, x_test = np.asarray(train.x), np.asarray(test.x)
    found = {name: np.zeros(len(values)) for name in PREPARATIONS}
    for seed in range(n_seeds):
        rows = divide(label_setting(SETTING), train, n_test=len(test.y), seed=seed).train
        for name, errors in found.items():
            for place, value in enumerate(values):
                probe = LogisticProbe(C=value, preparations=(name,), precision="float64", device="cpu")
                probe.fit(x[rows], train.y[rows])
                errors[place] += 100 * float(np.mean(probe.predict(x_test) != test.y)) / n_seeds
    return found


def drawn(of: Directions, errors: Mapping[str, Floats], values: Sequence[float]) -> Drawing:
    """Both panels."""
    drawing, (left, right) = make_figure(width=_WIDTH, height=3.9, n_columns=2)
    ranks = np.arange(1, min(len(of.variance), N_SHOWN) + 1)
    left.bar(ranks, of.variance[: len(ranks)], color="#888888", label="share of all variance")
    left.plot(ranks, of.between[: len(ranks)], "o", color="#E69F00", label="between-class share of its variance")
    left.set_xlabel("Principal direction [rank by variance]")
    left.set_ylabel("Share [%]")
    left.legend(loc="upper right")
    for name, line in errors.items():
        colour, mark = _LOOKS[name]
        right.plot(values, line, color=colour, marker=mark, markevery=[int(np.argmin(line))], label=name)
    right.set_xscale("log")
    right.set_xlabel("C [inverse penalty on prepared features]")
    right.set_ylabel("Test error [%], lower is better")
    right.set_ylim(0, None)
    write_panel_letters([left, right], ["Directions of the features", "Ten labels per class"])
    draw_legend_below(drawing, right, n_columns=len(errors))
    return drawing


@contextmanager
def on_a_page() -> Iterator[None]:
    """The style of all figures, with type as large as that of the page around it."""
    with (
        use_style(),
        rc_context({"font.size": 10, "legend.fontsize": 9.5, "lines.markersize": 6} | dict.fromkeys(_TYPE, 10)),
    ):
        yield


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    docs = Path(__file__).resolve().parent.parent / "docs"
    parser.add_argument("--out", type=Path, default=docs / "probes.svg", metavar="FILE")
    out: Path = parser.parse_args().out
    features = featurise_data(ENCODER, open_images(IMAGES), root=get_evaluations_folder())
    train, test = features["train"], features["val"]
    of = directions(np.asarray(train.x, np.float64), train.y)
    errors = errors_by_c(train, test, values=VALUES, n_seeds=N_SEEDS)
    for n in (1, 4, 5):
        shares = of.variance[:n].sum(), of.between[:n].mean()
        print("first {:2} directions: {:.1f} % of the variance, {:.0f} % between classes on average".format(n, *shares))
    print(f"directions 6 to 40: {of.variance[5:40].sum():.1f} %, {of.between[5:40].mean():.0f} %")
    for name, line in errors.items():
        print(f"{name}: least test error {line.min():.1f} % at C = {VALUES[int(line.argmin())]:.3g}")
    for protocol in ("zoo-logistic-2", PROTOCOL):
        runs = [
            measure(
                train,
                test,
                label_setting(SETTING),
                seed=seed,
                probe=build_probe_maker(PROTOCOLS[protocol], device="cpu"),
            )
            for seed in range(N_SEEDS)
        ]
        chosen = [run.report.get("preparation", PREPARATIONS[0]) for run in runs]
        print(f"{protocol}: {sum(run.error_percent for run in runs) / len(runs):.1f} %, chose {', '.join(chosen)}")
    with on_a_page():
        svg = render_figure_svg(drawn(of, errors, VALUES), name="probes")
    with replace_file(out) as file:
        file.write(svg.encode())


if __name__ == "__main__":
    main()
