"""Do scores of a few labelled images predict which encoder will do best, better than a probe on the same labels?

Claim: transferability scores (LogME, H-score, GBC, NLEEP, TransRate) say from the features of labelled images how well
an encoder will do, without training anything, and label-free metrics say it without labels.

Expected: at the same cost, no score beats a probe on the same labels, leave-one-out ridge regression judged by its
squares. Over 24 encoders, three image sets and 5, 20 and 100 labels a class that chooses an encoder 0.6 points behind
the best (tau .74), exact LogME 0.6 (.77), ridge by errors 1.0, a logistic probe on halves 1.3 for six times the
seconds, k-NN 1.6, H-score 4.9, NLEEP 5.0, LogME as its authors publish it 6.0 (with fewer images than dimensions it
orders by width), TransRate 6.0, RankMe 6.2, GBC 6.3, a random pick 26. What is best with 5 labels a class need not be
with 100: that costs 3.4 points by the same ridge, nearly all of it on one image set.

Command: zoo study do_transferability_scores_predict
"""

from __future__ import annotations

from zoo.analysis.table import StudyTable
from zoo.studies.findings import Findings, Rows
from zoo.studies.running import StudyOptions

from .claims import claims_of, found_in
from .figures import all_figures
from .measured import SCORES, Measurements, measurements
from .predicting import quality_of
from .tables import all_tables


def study(table: StudyTable, options: StudyOptions) -> Findings:
    """Scores against errors of probes; the table of encoders has no part in it."""
    measured = measurements()
    quality = quality_of(measured, seed=options.seed)
    return Findings(
        claims=claims_of(found_in(measured, quality)),
        estimates=list(quality.estimates()),
        tables=all_tables(quality, measured),
        figures=all_figures(quality, measured),
        rows=[
            Rows(part=f"{data}, {labels} labels a class, {measured.n_draws} draws", used=len(measured.encoders))
            for data, labels in measured.cells
        ],
        notes=_notes(measured),
    )


def _notes(measured: Measurements) -> list[str]:
    strong = [name for name in measured.encoders if not name.startswith("pocket_")]
    images = ", ".join(
        f"{data} ({facts['train']:,} and {facts['test']:,} images)"
        for data, facts in measured.provenance["images"].items()
    )
    missing = [score.label for name, score in SCORES.items() if name not in measured.scores]
    notes = [
        f"{len(measured.encoders)} encoders, of which {len(strong)} were trained on photographs ({', '.join(strong)}) "
        "and all others are tiny, alike, and trained on two of the three image sets: what scores say of encoders that "
        "differ less, or of a thousand, is not identified.",
        f"Three small image sets of ten classes, {images}; they are not drawn from anything, and intervals are over "
        "encoders and draws of the labels alone. Of digits the test part is small: an error is known to a point or so, "
        "and the regret against the best of all, which is the luckiest, is too large by some of that.",
        "Five encoders were trained on the training images of digits that labels are drawn from: what they show of "
        "these is too good for all that judges on them, and not for the test part.",
        "The truth is the error of a probe that chooses its penalty on a fifth of the labels. With 5 labels a class "
        "these are ten images, and the choice is a matter of luck: part of what no score predicts.",
        "Neither fine-tuning nor any other use of an encoder was measured.",
    ]
    return notes + ([f"Not measured: {', '.join(missing)}."] if missing else [])
