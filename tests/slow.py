"""A pytest plugin that marks what takes long as ``slow``, and lets it begin first.

What is slow are processes, trainings and fits, networks at the size of their cards and whole studies. A run in which
one of them began last would wait for it with one process, while the others have nothing left to do. ``make check``
leaves them out: ``pytest -m "not slow"``.
"""

from __future__ import annotations

from fnmatch import fnmatch
from functools import cache

import pytest

FILES = (
    "test_studies_shipped",
    "test_lives_with_others",
    "test_study_labels",
    "test_studies_*",
    "test_study_*",
    "test_label_free_study",
    "test_cli_study",
    "test_curve_running",
    "test_curve_training",
    "test_registration",
    "test_pretrained*",
    "test_encoders_*",
    "test_encoder_stages",
    "test_representations_features",
    "test_curve_models",
    "test_layouts_*",
    "test_importance",
    "test_tree_tuning",
    "test_label_free_mine",
    "test_weights_hostile",
    "test_weights_reading_refusals",
    "test_weights_faults",
    "test_weights_huggingface",
    "test_weights_hosts",
    "test_recording_processes",
    "test_cli_evaluate",
    "test_cli_export",
    "test_cli_process",
    "test_cli_codes",
    "test_cli_curve",
    "test_demo",
    "test_wheel",
    "test_streamed",
    "test_suite",
    "test_curve_study",
    "test_export*",
    "test_results_other_data",
    "test_preprocess",
    "test_risk*",
    "test_logistic",
    "test_probe",
    "test_trees",
    "test_scaling_law",
    "test_standard_laws",
    "test_label_prediction",
    "test_curve_blind*",
    "test_curve_computing",
    "test_cli_doctor",
    "test_image_files",
    "test_datasets_views",
    "test_published_tables",
    "test_curve_vocabulary",
)
"""Stems of files whose tests are slow, with * for any letters, those with the longest tests first."""


class Slow:
    """Marks the tests of ``FILES``; a test elsewhere is slow where it says so itself, by the marker."""

    def pytest_itemcollected(self, item: pytest.Item) -> None:
        if _place(item.path.stem) < len(FILES):
            item.add_marker(pytest.mark.slow)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items.sort(key=lambda item: (_place(item.path.stem), item.get_closest_marker("slow") is None))


@cache
def _place(stem: str) -> int:
    """Where in ``FILES`` a file is, the number of them if it is not."""
    return next((place for place, pattern in enumerate(FILES) if fnmatch(stem, pattern)), len(FILES))
