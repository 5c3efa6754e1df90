"""Traps that are held by tests next to their modules, for they need more than a row of :mod:`tests.traps`."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.each import for_each

ELSEWHERE = {
    # images
    "bands of TIFF that do not say their colours, int8 and float RGB": (
        "datasets/test_tiff.py::test_bands_that_say_their_colours_are_shown_in_them",
        "datasets/test_tiff.py::test_bands_that_do_not_say_their_colours_are_refused_by_their_number",
    ),
    "signed values of 8 bits, and values that stand for missing ones": (
        "datasets/test_tiff.py::test_signed_values_of_8_bits_need_a_scale_and_do_not_wrap",
        "datasets/test_tiff.py::test_values_that_stand_for_missing_ones_are_none_of_those_that_a_scale_is_advised_for",
    ),
    "alpha of every format, and of palettes and single shades": (
        "datasets/test_transparency.py::test_transparent_parts_of_files_of_every_kind_are_shown_over_the_background",
    ),
    "EXIF orientation in every format, and turning once": (
        "datasets/test_rgb.py::test_an_image_is_turned_as_its_orientation_says_and_once",
    ),
    "maps of depth are turned with their images": (
        "datasets/test_image_files.py::test_maps_of_depth_are_turned_with_their_images_and_maps_of_normals_refused",
    ),
    "DICOM in colour, palettes, frames and tables of shades": (
        "datasets/test_dicom.py::test_colours_are_images_of_every_kind",
        "datasets/test_dicom.py::test_further_frames_and_windows_are_noted",
        "datasets/test_dicom.py::test_a_table_of_shades_is_a_window_too",
    ),
    # sets
    "part words inside classes, folds, domains": (
        "datasets/test_layouts.py::test_labels_and_parts_are_those_of_the_layout",
        "datasets/test_layouts.py::test_what_has_two_readings_or_no_labels_is_refused_in_one_sentence",
    ),
    "columns that may say a split": (
        "datasets/test_split_names.py::test_a_column_that_names_a_part_in_every_row_is_used_whatever_its_name",
        "datasets/test_split_names.py::test_what_looks_like_a_split_and_is_none_is_said_or_refused",
    ),
    "copies by pixels, compressed anew, turned, or of another format": (
        "datasets/test_copies.py::test_a_picture_saved_anew_is_on_one_side_of_every_split",
        "datasets/test_copies.py::test_photographs_whose_metadata_alone_differ_are_copies_"
        "and_those_compressed_anew_are_not",
    ),
    "CheXpert's blank and uncertain cells": (
        "datasets/test_tables.py::test_blank_cells_of_tags_count_as_0_and_uncertain_ones_as_asked",
    ),
    "labels written in two ways, by case, Unicode form or number": (
        "datasets/test_labels.py::test_labels_written_in_two_ways_are_said_and_joined_where_that_is_asked_for",
    ),
    "a class with one image": (
        "datasets/test_layouts.py::test_an_image_alone_in_its_class_is_trained_on_with_every_seed",
    ),
    "labels that are withheld from a test part": (
        "datasets/test_tables.py::test_withheld_labels_of_the_test_part_are_said_and_left_out",
    ),
    "cells of parquet without an image, and processes that abort": (
        "datasets/test_shards.py::test_plain_columns_labels_that_are_texts_and_a_cell_without_an_image",
        "datasets/test_shards.py::test_no_thread_of_arrow_is_left_that_would_abort_the_process_at_its_end",
    ),
    # features and networks
    "memory of a pipeline keeps features of validation folds": (
        "features/test_transformer.py::test_memory_of_a_pipeline_keeps_the_features_of_the_same_images",
    ),
    "processors of transformers, to a grey level": (
        "encoders/test_image_processors.py::"
        "test_every_processor_of_transformers_is_equalled_to_a_grey_level_or_refused_by_its_name",
    ),
    "student, teacher, query and average in one checkpoint": (
        "test_pretrained_wrappers.py::test_of_student_and_teacher_the_one_is_taken_that_the_method_publishes",
        "test_pretrained_wrappers.py::test_of_the_encoders_of_moco_the_query_is_taken_whatever_the_method_of_the_card",
    ),
    "heads of MoCo v3's small transformer": (
        "encoders/test_tokens.py::test_the_small_transformer_of_mocov3_has_twelve_heads",
    ),
    "positions of DINOv2 at other sizes": (
        "encoders/test_vit_models.py::test_positions_of_dinov2_are_interpolated_as_its_authors_do",
    ),
    "MAE hides patches when it is called as it is trained": (
        "encoders/test_transformers_models.py::test_mae_hides_no_patch_and_keeps_their_order",
    ),
    "the norm behind a mean of patches": (
        "encoders/test_transformers_models.py::"
        "test_the_norm_after_a_mean_of_patches_is_taken_where_transformers_takes_it",
    ),
    # numbers
    "neighbours of equal distance, whatever the blocks": (
        "evaluation/test_neighbours.py::test_of_equal_neighbours_the_first_vote_whatever_the_blocks",
    ),
    "neighbours that float32 cannot tell apart": (
        "evaluation/test_neighbours.py::test_features_in_float64_have_the_neighbours_that_float64_says",
    ),
    "a probe is not tuned on copies of what it is trained on": (
        "datasets/test_groups.py::test_no_probe_is_tuned_on_a_copy_of_what_it_is_trained_on",
    ),
    "copies in groups do not narrow an interval": (
        "evaluation/test_one_interval.py::"
        "test_copies_of_images_in_groups_hardly_change_an_interval_and_without_groups_narrow_it",
    ),
    "categories that coincide have no p-value": (
        "analysis/test_linear_ols.py::test_a_collinear_column_is_named_and_has_no_p_value",
    ),
    "a row with leverage 1 under HC3": (
        "analysis/test_linear_ols.py::test_a_row_with_a_column_of_its_own_leaves_the_robust_errors_of_the_others_alone",
    ),
}


@for_each([(trap, place) for trap, places in ELSEWHERE.items() for place in places], arguments=2)
def test_every_trap_that_is_held_elsewhere_has_its_test(trap: str, place: str) -> None:
    file, _, name = place.partition("::")
    tree = ast.parse((Path(__file__).parent / file).read_text(encoding="utf-8"))
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert name in functions, f"{trap}: there is no {place}"
