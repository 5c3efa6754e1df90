"""What is pre-training worth on a task, compared with guessing, with scratch and with the most that labels can buy?

Claim: contrastive pre-training outperforms training from scratch on every task in every data regime, by a margin that
diminishes with more labels (section 5.1); methods differ more on classification than on dense tasks, and the best of
them is worth more there (5.2); contrastive methods outperform non-contrastive ones, but less so on dense tasks (5.3);
supervised pre-training is about as good as contrastive (5.4). The paper is "Measuring the Effectiveness of
Self-Supervised Learning using Calibrated Learning Curves" (under review at ICLR 2022), with ResNet-50s on ImageNet,
CIFAR-100, EuroSAT and Taskonomy; it prints its numbers in figures alone.

Expected, of four tiny ResNets of the pocket (SimCLR, Barlow Twins, RotNet and supervised, all pretrained on shapes; two
seeds, five regimes of 50 to 1,600 labels): CCI on the classes of shapes .24 [.10, .41], .07 [-.08, .23], .17 [.02, .32]
and .66 [.51, .85]; on depth .09, .01, .08 and .12, on normals .03, .04, .04 and .09, of which no interval of a
self-supervised one leaves out 0; on the classes of digits, which none has seen, .46, .44, .24 and .17, with intervals
that are a point wide. Of the paper's ten claims one holds beyond chance, that the best pre-training is worth more on
classification than on dense tasks (by .18 [.01, .33]). The gain is smaller with the most labels than with the fewest on
8 of 8 contrastive curves, and methods differ more on classification (.06 [-.03, .14]), both within chance; contrastive
methods are not ahead of RotNet (-.01 [-.16, .14]); the supervised encoder, which has seen the labels of shapes, is .50
[.33, .70] ahead on them, and not on digits. Without a complete curve every claim is "not available" and says what to
run.

Command: zoo study what_is_pretraining_worth
"""

from __future__ import annotations

from zoo.analysis.curves import Panel, curve_measurements, found_curves, main_panels, panels_of
from zoo.analysis.table import StudyTable
from zoo.evaluation.curves.figures import curves_figure
from zoo.evaluation.drawing import Figure
from zoo.studies.findings import Findings
from zoo.studies.running import StudyOptions

from . import tables
from .claims import NO_CURVES, claims
from .comparisons import gain_estimates, improvement_estimates

MOST_CURVES = 8  # of one figure, so that colours and marks differ
NOTES = (
    "Nothing here is the paper's: its encoders are ResNet-50s that were trained on 1.3 million images, those of the "
    "pocket tiny ones that were trained on a few thousand. A claim that fails here is not shown to be wrong, nor one "
    "that holds to be right.",
    "Intervals are of other test images and other seeds of the transfer. Each encoder is one pre-training run: what "
    "another one of the same method would give is in no interval, and methods are compared by these encoders alone.",
    "All encoders of a task were tested on the same images. Rows do not tell which, so that encoders are taken as "
    "independent, but for the controls that they share: intervals of differences between encoders are too wide, which "
    "makes a claim harder to hold; those of means over encoders may be too narrow. How much networks vary by their "
    "seed is taken from all networks of a task with the same labels together, as if they varied alike and each by "
    "itself; a seed also draws the labels of all of them, by which intervals of risks may be too narrow, and those of "
    "gains over scratch too wide.",
    "Every interval and every claim stands by itself, at 95 %: nothing is corrected for how many there are.",
    "Calibrated risks of several tasks are compared as if losses told equally well how good a prediction is, which is "
    "the paper's own reservation; CCI is of the range that scratch covered, which differs from task to task.",
    "A supervised encoder that was pre-trained with the labels of the very task that it is transferred to has an "
    "advantage on it that the paper's ImageNet encoder has on ImageNet alone.",
    "Contrastive is what the paper calls so: clustering and siamese methods too, which learn that views of one image "
    "belong together. Non-contrastive are pretext tasks: rotations, masked images.",
)


def study(table: StudyTable, options: StudyOptions) -> Findings:
    """Curves of every data set and task, and the claims on those of the protocol that most encoders have."""
    found = found_curves(curve_measurements(with_mine=table.with_mine, exclude_wrong=table.corrected))
    options.progress("learning curves", 0, 1)
    every = panels_of(found, seed=options.seed)
    panels = [panel for panel in every if panel.curves]
    main = main_panels(panels)
    return Findings(
        claims=claims.judged(main),
        estimates=[one for panel in panels for one in (*improvement_estimates(panel), *gain_estimates(panel))],
        tables=[
            *tables.improvement_tables(panels),
            *([tables.comparison_table(main)] if main else []),
            *(tables.regimes_table(panel) for panel in panels),
        ],
        figures=[one for panel in panels for one in _figures(panel)],
        rows=tables.rows_of(every),
        notes=[*([] if panels else [NO_CURVES]), *NOTES, *(one for panel in every for one in _notes_of(panel))],
    )


def _figures(panel: Panel) -> list[Figure]:
    """One figure with both plots, or several where there are more curves than colours."""
    curves = [one.curve for one in panel.curves]
    name = "curves_" + "".join(each if each.isalnum() else "_" for each in panel.name).strip("_")
    starts = range(0, len(curves), MOST_CURVES)
    return [
        curves_figure(curves[start : start + MOST_CURVES], name=name if len(starts) == 1 else f"{name}_{place}")
        for place, start in enumerate(starts, start=1)
    ]


def _notes_of(panel: Panel) -> list[str]:
    """The notes of the curves of a panel, each sentence once with the encoders that it is about."""
    by_sentence: dict[str, list[str]] = {}
    for one in panel.curves:
        for sentence in one.curve.notes:
            by_sentence.setdefault(sentence, []).append(one.encoder)
        if one.rows.n_alone:
            sentence = f"Data sizes that scratch was not trained with are left out ({one.rows.n_alone})."
            by_sentence.setdefault(sentence, []).append(one.encoder)
    notes = [
        f"{panel.name}{'' if len(encoders) == len(panel.curves) else ', ' + ', '.join(encoders)}: {sentence}"
        for sentence, encoders in by_sentence.items()
    ]
    return [*notes, *panel.refused]
