"""Cards and measurements as tables with the column names of the published study.

Scripts written for the study's own hub keep working: :func:`metadata_dict`, :func:`metadata_df` and :func:`results_df`
have its names, its columns and its order of arguments. Facts come corrected from the cards and components signed from
the raw risks; ``as_published=True`` gives what was published instead, faults included, to the last digit.

Where only the sum of approximation and usability is known, both columns are missing, because the published layout has
no column for the sum; :func:`zoo.results.summaries` has it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from .cards import catalogue
from .columns import COLUMNS
from .errors import MissingExtra
from .metadata import NOT_PUBLISHED, EncoderCard, Missing
from .results import PUBLISHED_SOURCE, SETTINGS, Summary, measurements, summaries
from .vocabulary import IMAGENET

if TYPE_CHECKING:
    import pandas as pd

_COMPONENTS = {  # column -> metric and field of RiskDecomposition
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
_STATISTICS = {  # column -> metric and split
    **{
        f"{view}_{name}": (metric, split)
        for view, split in _VIEWS.items()
        for name, metric in (_PLAIN_STATISTICS if split in ("train", "val") else _AUGMENTED_STATISTICS).items()
    },
    **{f"{view}_vars": ("variance_ratio", split) for view, split in _VIEWS.items()},
    **{f"{view}_nc1norm": ("nc1_per_root_rank", split) for view, split in _VIEWS.items()},
}
_LAYOUT = (
    *(("risk_decomposition", name) for name in _COMPONENTS),
    *(("metrics", setting.column) for setting in SETTINGS),
    *(("hyperparameters", name) for name in _HYPERPARAMETERS),
    *(("metadata", name) for name in _METADATA),
    *(("statistics", name) for name in _STATISTICS),
)
_DTYPES = {
    "text": "string", "whole number": "Int64", "number": "float64", "true or false": "boolean", "list": "object",
}  # fmt: skip


def metadata_dict(
    drop_missing: bool = True, *, is_lower: bool = False, as_published: bool = False
) -> dict[str, dict[str, dict[str, Any]]]:
    """Facts of every card, as encoder id -> section -> column -> value.

    Parameters
    ----------
    drop_missing : bool
        Without the facts that have no value; ``False`` keeps them as :class:`zoo.metadata.Missing`.
    is_lower : bool
        Ids in lower case.
    as_published : bool
        Facts as they were published, wrong ones included.
    """
    table: dict[str, dict[str, dict[str, Any]]] = {}
    for encoder, facts in _all_facts(as_published).items():
        sections: dict[str, dict[str, Any]] = {column.section: {} for column in COLUMNS}
        for column in COLUMNS:
            value = facts[column.name]
            if not (drop_missing and isinstance(value, Missing)):
                sections[column.section][column.name] = value
        table[encoder.lower() if is_lower else encoder] = sections
    return table


def metadata_df(
    is_multiindex: bool = False, is_lower: bool = True, drop_missing: bool = True, *, as_published: bool = False
) -> pd.DataFrame:
    """Facts of every card, one row an encoder, one column a fact of :data:`zoo.columns.COLUMNS`.

    Parameters
    ----------
    is_multiindex : bool
        Columns of two levels, section and name.
    is_lower : bool
        Ids in lower case, as the published table has them.
    drop_missing : bool
        Missing facts are NA in typed columns; ``False`` keeps the two kinds apart, as :class:`zoo.metadata.Missing`
        in columns of objects.
    as_published : bool
        Facts as they were published, wrong ones included.

    Returns
    -------
    DataFrame with the index ``enc``; text is ``string``, whole numbers ``Int64``, numbers ``float64``, truth values
    ``boolean``, the lists of augmentations ``object``.
    """
    _require_pandas("metadata_df")
    import pandas as pd

    rows = _all_facts(as_published)
    frame = pd.DataFrame(index=_index(rows, is_lower))
    for column in COLUMNS:
        values = [facts[column.name] for facts in rows.values()]
        typed = drop_missing or not any(isinstance(value, Missing) for value in values)
        cells = [None if typed and isinstance(value, Missing) else value for value in values]
        frame[column.name] = pd.Series(cells, index=frame.index, dtype=_DTYPES[column.kind] if typed else "object")
    if is_multiindex:
        frame.columns = pd.MultiIndex.from_tuples([(column.section, column.name) for column in COLUMNS])
    return frame


def results_df(
    is_multiindex: bool = True,
    is_lower: bool = True,
    drop_missing: bool = True,
    *,
    as_published: bool = False,
    exclude_wrong: bool = False,
) -> pd.DataFrame:
    """The published table: 169 encoders, their risks, facts and feature statistics, in the published order.

    Parameters
    ----------
    is_multiindex : bool
        Columns of two levels: risk_decomposition, metrics, hyperparameters, metadata or statistics; and the name.
    is_lower : bool
        Ids in lower case, as the published table has them.
    drop_missing : bool
        Missing cells are NaN; ``False`` keeps the two kinds apart, as :class:`zoo.metadata.Missing` in columns of
        objects.
    as_published : bool
        Every cell and type as it was published: components clipped at 0, wrong facts, licences in the words of their
        authors, augmentations as text. Else components are signed, facts corrected, licences SPDX, augmentations lists.
    exclude_wrong : bool
        Without the measurements that an erratum excludes, and without encoders of which none is left.

    Returns
    -------
    DataFrame with the index ``enc`` and 117 columns; errors in percent, components in percentage points.
    """
    _require_pandas("results_df")
    import pandas as pd

    values: dict[str, dict[tuple[str, str], float]] = {}
    for row in measurements(exclude_wrong=exclude_wrong):
        if row.source == PUBLISHED_SOURCE and row.dataset == IMAGENET:
            values.setdefault(row.encoder, {})[row.metric, row.split] = row.value
    derived = summaries(exclude_wrong=exclude_wrong, source=PUBLISHED_SOURCE)
    few_shot = ("linear_probe_error", SETTINGS[-1].split)  # measured for the encoders of the table and no others
    cards = catalogue()
    rows = {
        encoder: {
            **(_published_components(own) if as_published else _signed_components(derived[encoder])),
            **_errors_and_statistics(own),
            **_study_facts(cards[encoder], as_published),
        }
        for encoder, own in ((encoder, values[encoder]) for encoder in derived)  # in the order of the risks
        if few_shot in own
    }
    columns = {
        (section, name): _column([cells[name] for cells in rows.values()], drop_missing) for section, name in _LAYOUT
    }
    frame = pd.DataFrame(columns).set_axis(_index(rows, is_lower), axis="index")
    return frame if is_multiindex else frame.droplevel(0, axis="columns")


def _all_facts(as_published: bool) -> dict[str, dict[str, Any]]:
    cards = catalogue()
    return {encoder: _facts(cards[encoder], as_published) for encoder in cards}


def _facts(card: EncoderCard, as_published: bool) -> dict[str, Any]:
    facts = {column.name: column.of(card, as_published=as_published) for column in COLUMNS}
    if as_published:
        facts["license"] = card.licence.published
    if not isinstance(facts["augmentations"], Missing):
        facts["augmentations"] = list(facts["augmentations"])
    return facts


def _study_facts(card: EncoderCard, as_published: bool) -> dict[str, Any]:
    """Facts of a card and what the study derived from them."""
    facts = _facts(card, as_published)
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
    if as_published:
        facts["augmentations"] = _if_known(str, words)
    return facts


def _if_known(derive: Callable[..., Any], *facts: Any) -> Any:
    """What follows from the facts, or why the first unknown one of them has no value."""
    return next((fact for fact in facts if isinstance(fact, Missing)), None) or derive(*facts)


def _n_views(views: str) -> int:
    """Crops an image: 12 for ``2x224+10x96``."""
    return sum(int(count) for count, times, _ in (crop.partition("x") for crop in views.split("+")) if times) or 1


def _published_components(own: Mapping[tuple[str, str], float]) -> dict[str, Any]:
    return {name: own.get((metric, "train -> val"), NOT_PUBLISHED) for name, metric in _COMPONENTS.items()}


def _signed_components(summary: Summary) -> dict[str, Any]:
    return {name: getattr(summary.decomposition, metric, NOT_PUBLISHED) for name, metric in _COMPONENTS.items()}


def _errors_and_statistics(own: Mapping[tuple[str, str], float]) -> dict[str, Any]:
    errors = {setting.column: own.get(("linear_probe_error", setting.split), NOT_PUBLISHED) for setting in SETTINGS}
    return errors | {name: own.get(key, NOT_PUBLISHED) for name, key in _STATISTICS.items()}


def _column(values: list[Any], drop_missing: bool) -> pd.Series[Any]:
    """The types are those that pandas gives the published file: the plain ones, float where a number is missing."""
    import pandas as pd

    if not drop_missing and any(isinstance(value, Missing) for value in values):
        return pd.Series(values, dtype="object")
    return pd.Series([math.nan if isinstance(value, Missing) else value for value in values])


def _index(encoders: Iterable[str], is_lower: bool) -> pd.Index[Any]:
    import pandas as pd

    return pd.Index([encoder.lower() if is_lower else encoder for encoder in encoders], name="enc")


def _require_pandas(needed_for: str) -> None:
    try:
        import pandas  # noqa: F401
    except ImportError as error:
        raise MissingExtra("pandas", extra="tables", needed_for=needed_for) from error
