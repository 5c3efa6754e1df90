"""A pytest plugin that marks what takes long as ``slow``, and lets it begin first.

What is slow are processes, trainings and fits, networks at the size of their cards and whole studies. A run in which
one of them began last would wait for it with one process, while the others have nothing left to do. ``make check``
leaves them out: ``pytest -m "not slow"``.
"""

from __future__ import annotations

from fnmatch import fnmatch
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
FILES = (
    "studies/shipped",
    "lives_with_others",
    "studies/labels",
    "studies/[!acs]*",
    "studies/accuracies",
    "studies/curves",
    "analysis/table",
    "cli/study",
    "evaluation/curves/running",
    "evaluation/curves/training",
    "registration",
    "pretrained*",
    "encoders/[!p]*",
    "encoders/preprocess",
    "features/representations_features",
    "evaluation/curves/models",
    "analysis/importance",
    "analysis/tree_tuning",
    "evaluation/label_free/mine",
    "weights/hostile",
    "weights/checkpoints_refused",
    "weights/download_faults",
    "weights/huggingface",
    "weights/hosts",
    "results/recording_processes",
    "cli/evaluate",
    "cli/export",
    "cli/process",
    "cli/codes",
    "cli/curve",
    "demo",
    "wheel",
    "evaluation/streamed",
    "suite",
    "hub/export*",
    "results/other_data",
    "evaluation/risk*",
    "results/risk_rules",
    "evaluation/logistic",
    "evaluation/probes",
    "analysis/trees",
    "analysis/scaling_law",
    "analysis/standard_laws",
    "analysis/label_prediction",
    "evaluation/curves/blind*",
    "evaluation/curves/computing",
    "cli/doctor",
    "datasets/imagefiles",
    "datasets/views",
    "results/published_tables",
    "evaluation/curves/vocabulary",
)
"""Files whose tests are slow, such as ``cli/study`` for ``tests/cli/test_study.py``, those with the longest first."""


class Slow:
    """Marks the tests of ``FILES``; a test elsewhere is slow where it says so itself, by the marker."""

    def pytest_itemcollected(self, item: pytest.Item) -> None:
        if _place(item.path) < len(FILES):
            item.add_marker(pytest.mark.slow)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items.sort(key=lambda item: (_place(item.path), item.get_closest_marker("slow") is None))


@cache
def _place(path: Path) -> int:
    """Where in ``FILES`` a file is, the number of them if it is not."""
    return next((place for place, pattern in enumerate(FILES) if fnmatch(short_name(path), pattern)), len(FILES))


def short_name(path: Path) -> str:
    """``cli/study`` for ``tests/cli/test_study.py``."""
    folders = path.parent.relative_to(TESTS) if path.is_relative_to(TESTS) else path.parent
    return (folders / path.stem.removeprefix("test_")).as_posix()
