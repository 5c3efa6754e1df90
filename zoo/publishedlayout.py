"""The columns of the published tables: their order, and where the content of each comes from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .columns import COLUMNS, Column
from .errors import ContentError
from .files import content_folder
from .metadata import NOT_PUBLISHED, EncoderCard, Missing
from .results import SETTINGS

COMPONENTS = {  # column -> metric and field of RiskDecomposition
    "approx": "approximation",
    "usability": "usability",
    "probe_gen": "probe_generalization",
    "enc_gen": "encoder_generalization",
}
_AUGMENTATIONS = {  # column -> word in the list of augmentations
    "is_aug_autoaug": "autoaugment",
    **{
        f"is_aug_{word}": word
        for word in (
            "blur", "color", "crop", "erasing", "flip", "gray", "jigsaw", "masking", "normalize", "photometric",
            "rotate", "solarize",
        )
    },
}  # fmt: skip
_GEOMETRIC = frozenset({"crop", "erasing", "flip", "jigsaw", "masking", "rotate"})
_COLOUR = frozenset({"autoaugment", "blur", "color", "gray", "photometric", "solarize"})
_FIRST_STRIDE_PX = {"resnet": 7, "convnext": 4}  # published as patch_size of encoders that have no patches
_HYPERPARAMETERS = (
    "objective", "ssl_mode", "version", "n_negatives", "n_classes", "is_stopgrad", "is_ema", "other", "pred_dim",
    "projection_hid_width", "projection_hid_depth", "architecture_exact", "architecture", "family", "patch_size",
    "projection1_arch", "projection2_arch", "projection_same", "n_parameters", "projection_nparameters",
    "pretraining_data", "finetuning_data", "img_size", "views", "is_aug_invariant", "augmentations", "z_dim", "z_layer",
    "epochs", "batch_size", "optimizer", "learning_rate", "weight_decay", "scheduler", *_AUGMENTATIONS,
    "is_aug_anygeometric", "is_aug_anycolor", "n_augmentations", "nviews", "projection_nparameters_hidden",
)  # fmt: skip
_METADATA = (
    "where", "month", "year", "license", "is_official", "is_industry", "is_our_extract", "n_pus", "pu_type",
    "time_hours", "top1acc_in1k_official", "top1acc_in1k-1%_official", "top1acc_in1k-c5_official", "date_published",
)  # fmt: skip
_PLAIN_STATISTICS = {
    "rank": "correlation_rank", "rank_Z": "feature_rank", "nc1": "nc1", "intra_var": "intra_class_variance",
    "inter_var": "inter_class_variance", "uniformity": "uniformity", "alignment": "alignment",
}  # fmt: skip
_AUGMENTED_STATISTICS = {key: _PLAIN_STATISTICS[key] for key in ("nc1", "intra_var", "inter_var", "alignment")}
_VIEWS = {
    "train": "train", "test": "val", "trainaug": "train augmented", "testaug": "val augmented",
    "trainrealaug": "train pretraining-augmented", "testrealaug": "val pretraining-augmented",
}  # fmt: skip
STATISTICS = {  # column -> metric and split
    **{
        f"{view}_{name}": (metric, split)
        for view, split in _VIEWS.items()
        for name, metric in (_PLAIN_STATISTICS if split in ("train", "val") else _AUGMENTED_STATISTICS).items()
    },
    **{f"{view}_vars": ("variance_ratio", split) for view, split in _VIEWS.items()},
    **{f"{view}_nc1norm": ("nc1_per_root_rank", split) for view, split in _VIEWS.items()},
}
LAYOUT = (
    *(("risk_decomposition", name) for name in COMPONENTS),
    *(("metrics", setting.column) for setting in SETTINGS),
    *(("hyperparameters", name) for name in _HYPERPARAMETERS),
    *(("metadata", name) for name in _METADATA),
    *(("statistics", name) for name in STATISTICS),
)
METADATA_ORDER = (  # of the columns of metadata_df; the published one had free text, notes, behind "where"
    "objective", "ssl_mode", "version", "is_stopgrad", "is_ema", "architecture_exact", "architecture", "family",
    "patch_size", "n_parameters", "z_dim", "z_layer", "epochs", "batch_size", "optimizer", "learning_rate",
    "weight_decay", "scheduler", "pretraining_data", "img_size", "views", "is_aug_invariant", "augmentations", "where",
    "month", "year", "license", "is_official", "is_industry", "is_our_extract", "n_pus", "pu_type", "time_hours",
    "n_classes", "pred_dim", "projection_hid_width", "projection_hid_depth", "projection1_arch", "projection2_arch",
    "projection_same", "projection_nparameters", "top1acc_in1k_official", "n_negatives", "top1acc_in1k-1%_official",
    "top1acc_in1k-c5_official", "other", "finetuning_data",
)  # fmt: skip
_EXTENSION = (("risk_decomposition", "approx_plus_usability"), ("risk_decomposition", "approx_is_assumed"))
EXTENDED_LAYOUT = (*LAYOUT[: len(COMPONENTS)], *_EXTENSION, *LAYOUT[len(COMPONENTS) :])


def published_ids() -> list[str]:
    """Ids of the 200 encoders whose facts were published, in the published order.

    Raises
    ------
    ContentError
        If the list cannot be read.
    """
    path = content_folder("metadata") / "published.txt"
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ContentError(
            f"{path} cannot be read ({error}); reinstall ssl-zoo or clone the repository again."
        ) from error
    return [line for line in lines if line and not line.startswith("#")]


def facts_of(card: EncoderCard, as_published: bool) -> dict[str, Any]:
    """Facts of a card by the published name of their column."""
    facts = {column.name: column.of(card, as_published=as_published) for column in COLUMNS}
    if as_published:
        facts["license"] = card.licence.published
    if not isinstance(facts["augmentations"], Missing):
        facts["augmentations"] = list(facts["augmentations"])
    return facts


def published_blank(card: EncoderCard, column: Column, reason: Missing) -> str | None:
    """How the published file wrote a fact without a value: unknown facts of the computing as ???, others as null."""
    is_unknown = reason is NOT_PUBLISHED and column.section == "compute"
    was_null = card.family == "vicregl" and column.name == "time_hours"  # the only ones of these that were null
    return "???" if is_unknown and not was_null else None


def study_facts(card: EncoderCard, as_published: bool) -> dict[str, Any]:
    """Facts of a card as the study's table has them, with what the study derived from them."""
    facts = facts_of(card, as_published)
    words = facts["augmentations"]
    for name, word in _AUGMENTATIONS.items():
        facts[name] = _if_known(lambda known, word=word: int(word in known), words)
    facts["is_aug_anygeometric"] = _if_known(lambda known: int(not _GEOMETRIC.isdisjoint(known)), words)
    facts["is_aug_anycolor"] = _if_known(lambda known: int(not _COLOUR.isdisjoint(known)), words)
    facts["n_augmentations"] = _if_known(lambda known: float(len(known)), words)
    facts["nviews"] = _if_known(_n_views, facts["views"])
    facts["projection_nparameters_hidden"] = _if_known(
        lambda n, dim, width: float(n - dim * width),
        facts["projection_nparameters"], facts["z_dim"], facts["projection_hid_width"],
    )  # fmt: skip
    facts["date_published"] = _if_known(lambda year, month: f"{year}-{month:02d}-01", facts["year"], facts["month"])
    if isinstance(facts["patch_size"], Missing):
        facts["patch_size"] = _FIRST_STRIDE_PX.get(card.architecture.family, facts["patch_size"])
    facts["augmentations"] = _if_known(str, words)
    return facts


def _if_known(derive: Callable[..., Any], *facts: Any) -> Any:
    """What follows from the facts, or why the first unknown one of them has no value."""
    return next((fact for fact in facts if isinstance(fact, Missing)), None) or derive(*facts)


def _n_views(views: str) -> int:
    """Crops an image: 12 for ``2x224+10x96``."""
    return sum(int(count) for count, times, _ in (crop.partition("x") for crop in views.split("+")) if times) or 1
