"""cleanlab: labels that are probably wrong."""

from cleanlab.filter import find_label_issues

REQUIREMENTS = ("cleanlab==2.9.0", "numpy==2.4.6")

QUANTITIES = {
    "label_issues": lambda p, y: find_label_issues(y, p, filter_by="confident_learning", n_jobs=1).sum(),
    "label_issues:default": lambda p, y: find_label_issues(y, p, n_jobs=1).sum(),
}
