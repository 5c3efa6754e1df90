"""Names of the package: a class has a name of its own, and a public function begins with a verb."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cache

from scripts.house import modules

_VERBS = """
accepts add adjust adopt agrees align announce answer apply arrange ask augment average boost build cache calibrate
can centre check choose claim classify clean collect compare compile complete compute convert copy correlate count
create crop decode decompose derive describe detect direct discard divide do draw drop echo encode escape estimate
evaluate expand explain export extract extrapolate featurise fetch fill filter find finish fit follow format fuse
gather get group has hash ignore infer inspect interpolate is iterate join keep label limit link list load locate lock
log look lookup make map mark match maximise measure merge multiply mute needs normalise note number obtain open order
pair parse perform pick place plan plot predict prepare preprocess print project propose publish quote race raise rank
read recognise recommend recompute record reduce refit refuse register rehearse reject release remember remove rename
render replace report require resample rescale resize resolve restore resume retrain round run save scale score search
select send shorten show simulate sort split spread store strip style submit subsample suggest summarise synchronise
tabulate tag test tidy time track train translate try tune unify unpickle unregister use verify vote warn watch wrap
write
"""
# Names that users import, mostly quantities called as papers call them, and what tables of the package call by name.
# No other function joins them: a new one begins with a verb.
_KEPT = """
alignment alpha_req array_images balanced calibrated_curve calibrated_risk candidate card classification_metrics clid
cluster_learnability coding_rate_reduction component_colours contrast controlled_effect correlation_rank
cumulative_improvement digits digits_data entry_points errata estimates_frame explained_variance feature_rank
figures_of fraction gbc geometry global_linear_effect h_score held_out idest indicators_of intrinsic_dimension
labels_saved laid_out law_rows learning_curves leave_one_out_neighbours leave_one_out_ridge lidar
local_dimension_entropy logme main majority_class matrix_entropy measurements metadata_df metadata_dict mistakes_of
mutual_information nearest nearest_images neighbour_predictions nesum neural_collapse nleep one_shot_accuracy
own_candidate patch_similarity pixels_of pixelwise_direction pixelwise_median principal_components rankme
rankme_augmented reported_numbers resnet_small results_df ridge_predictions rotation_accuracy seed_means shapes
site_files source_label_entropy stable_rank study_table summaries target_label_entropy to_rgb transfer_data transrate
tree_importance uniformity vit_small w_clid zoo
"""
VERBS, KEPT = frozenset(_VERBS.split()), frozenset(_KEPT.split())


@cache
def trees() -> dict[str, ast.Module]:
    return {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in modules().items()}


def public_functions() -> Iterator[tuple[str, str]]:
    for module, tree in trees().items():
        for node in tree.body:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                yield module, node.name


def is_command(module: str, name: str) -> bool:
    """Whether the command line finds it by the verb that its name begins with."""
    return module.startswith("cli.") and name.endswith("_command")


def test_class_names_are_unique() -> None:
    found = defaultdict(list)
    for module, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(module)
    assert not {name: where for name, where in found.items() if len(where) > 1}


def test_public_functions_begin_with_a_verb() -> None:
    wrong = [
        f"{module}.{name}"
        for module, name in public_functions()
        if name.partition("_")[0] not in VERBS and name not in KEPT and not is_command(module, name)
    ]
    assert not wrong, wrong


def test_names_that_are_kept_exist() -> None:
    assert {name for _, name in public_functions()} >= KEPT
