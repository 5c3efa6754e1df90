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
    "execution/ray_cluster",
    "evaluation/curves/training",
    "studies/label_free",
    "analysis/trees_tuning",
    "studies/one_choice",
    "studies/reported",
    "cli/evaluate_workers",
    "cli/recommend",
    "encoders/layouts/residual",
    "encoders/catalogue",
    "encoders/unlisted",
    "encoders/image_processors",
    "demo",
    "elsewhere",
    "published_file",
    "cli/runs",
    "saved_homes/saved_homes",
    "results/measured_again",
    "cli/compare_published",
    "choosing/published",
    "features/running",
    "cli/study",
    "analysis/importance",
    "weights/checkpoints",
    "studies/on_average",
    "encoders/stages",
    "encoders/intermediate_features",
    "encoders/maps",
    "evaluation/layers",
    "cli/layers",
    "cli/segment",
    "pretrained_wrappers",
    "encoders/layouts/vit",
    "studies/labels",
    "evaluation/curves/report",
    "wheel",
    "scripts/train_randomised",
    "scripts/measure_randomised",
    "encoders/layouts/convolutional",
    "registration",
    "evaluation/logistic",
    "cli/evaluate",
    "cli/predict",
    "evaluation/saved_probes",
    "evaluation/many_encoders",
    "cli/curve",
    "evaluation/risk",
    "analysis/table",
    "studies/curves",
    "studies/scores",
    "studies/randomised",
    "results/files",
    "cli/doctor",
    "studies/full_or_few",
    "results/recording_processes",
    "evaluation/streamed",
    "cli/results",
    "encoders/layouts/clip",
    "evaluation/curves/figures",
    "weights/huggingface",
    "evaluation/probes",
    "suite",
    "results/other_data",
    "encoders/layouts/libraries",
    "analysis/trees",
    "studies/radar",
    "studies/objectives",
    "encoders/pocket",
    "encoders/layouts/haiku",
    "studies/report",
    "encoders/layouts/vit_cards",
    "datasets/image_files",
    "hub/export_modelcard",
    "studies/standard_laws",
    "lives_with_others",
    "pretrained",
    "weights/download_faults",
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
    name = short_name(path)
    return next((place for place, pattern in enumerate(FILES) if fnmatch(name, pattern)), len(FILES))


def short_name(path: Path) -> str:
    """``cli/study`` for ``tests/cli/test_study.py``."""
    folders = path.parent.relative_to(TESTS) if path.is_relative_to(TESTS) else path.parent
    return (folders / path.stem.removeprefix("test_")).as_posix()
