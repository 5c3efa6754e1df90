"""relplot: binned and smooth calibration errors."""

import relplot
from relplot.metrics import binnedECE, multiclass_logits_to_confidences

REQUIREMENTS = ("relplot==1.0.3", "numpy==2.4.6")


def of_predictions(function, p, y, **options):
    return 100 * function(*multiclass_logits_to_confidences(p.astype("float64"), y, probs=True), **options)


QUANTITIES = {
    "calibration_error": lambda p, y: of_predictions(binnedECE, p, y, nbins=15),
    "calibration_error:smooth": lambda p, y: of_predictions(relplot.smECE, p, y),
}
